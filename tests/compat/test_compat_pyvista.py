"""The accessor of PyVista: the same calls through PyVista's own methods, edits, and cells."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import bvh

pv = pytest.importorskip("pyvista")
if not hasattr(pv, "register_dataset_accessor"):
    pytest.skip("PyVista has no accessors before 0.48", allow_module_level=True)

from bvh.compat import pyvista as door  # noqa: E402


def meshes() -> dict[str, Any]:
    """Return data sets of all kinds that have a surface."""
    quads = pv.Plane(i_resolution=5, j_resolution=4)
    grid = pv.ImageData(dimensions=(4, 4, 4), origin=(-1.5, -1.5, -1.5))
    return {"sphere": pv.Sphere(), "cone": pv.Cone(resolution=9), "quads": quads, "grid": grid,
            "cells": grid.cast_to_unstructured_grid()}  # fmt: skip


@pytest.mark.long
def test_found_without_an_import() -> None:
    """The entry point is enough, in a process that imports PyVista alone."""
    code = "import pyvista as pv; print(pv.Sphere().bvh.closest_hit([0, 0, 5], [0, 0, -1]).t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(4.5, abs=0.01)


def test_ray_trace(rng: np.random.Generator) -> None:
    """Points and cells of segments, in order, as `ray_trace` has them."""
    for mesh in (pv.Sphere(), pv.Cone(resolution=9), pv.Plane(i_resolution=5, j_resolution=4)):
        same = 0
        for _ in range(100):
            a, b = rng.normal(size=(2, 3))
            a, b = a / np.linalg.norm(a) * 2.0, b / np.linalg.norm(b) * 2.0
            theirs, ours = mesh.ray_trace(a, b), mesh.bvh.ray_trace(a, b)
            assert len(theirs) == len(ours) == 2
            if theirs[0].shape == ours[0].shape and np.array_equal(theirs[1], ours[1]):
                assert np.allclose(theirs[0], ours[0], atol=1e-5)
                same += 1
            first = mesh.bvh.ray_trace(a, b, first_point=True)[0]
            assert first.shape == mesh.ray_trace(a, b, first_point=True)[0].shape
        # VTK decides within a tolerance.
        assert same >= 97
    start, end = [0, 0, 5], [9, 9, 5]
    assert mesh.bvh.ray_trace(start, end)[0].shape == (0, 3)


def test_multi_ray_trace(rng: np.random.Generator) -> None:
    """Points, rays and cells of many rays; with PyVista's where trimesh and Embree are there."""
    pytest.importorskip("rtree")
    pytest.importorskip("embreex")
    mesh = pv.Sphere()
    origins, ways = rng.normal(size=(2, 300, 3))
    origins *= 3.0 / np.linalg.norm(origins, axis=1)[:, None]
    for first in (True, False):
        theirs = mesh.multi_ray_trace(origins, ways, first_point=first)
        ours = mesh.bvh.multi_ray_trace(origins, ways, first_point=first)
        order = np.lexsort((theirs[2], theirs[1]))
        mine = np.lexsort((ours[2], ours[1]))
        assert np.array_equal(theirs[1][order], ours[1][mine])
        assert np.array_equal(theirs[2][order], ours[2][mine])
        assert np.allclose(theirs[0][order], ours[0][mine], atol=1e-4)


def test_one_ray_of_many() -> None:
    """A ray may be the only one, with the first hit or all of them."""
    for first, cells in ((True, 1), (False, 2)):
        found = pv.Cube().bvh.multi_ray_trace([0.1, 0.2, 5.0], [0, 0, -1.0], first_point=first)
        assert [len(each) for each in found] == [cells] * 3
        assert found[0][0] == pytest.approx([0.1, 0.2, 0.5])


@pytest.mark.parametrize("name", ["select_interior_points", "select_enclosed_points"])
@pytest.mark.parametrize("arrays", [(), ("before",)])
def test_active_scalars(name: str, arrays: tuple[str, ...]) -> None:
    """The array that is active afterwards is the same as in PyVista."""
    surface, cloud = pv.Sphere(), pv.PolyData(np.eye(3))
    for array in arrays:
        cloud.point_data[array] = np.zeros(3)
    theirs, ours = (getattr(each, name)(surface) for each in (cloud, cloud.bvh))
    assert ours.active_scalars_name == theirs.active_scalars_name
    assert sorted(ours.point_data) == sorted(theirs.point_data)


def test_points_inside_and_distances(rng: np.random.Generator) -> None:
    """Enclosed points and implicit distances, by PyVista's names and types."""
    surface, cloud = pv.Sphere(), pv.PolyData(rng.uniform(-0.7, 0.7, (500, 3)))
    distance = cloud.compute_implicit_distance(surface)["implicit_distance"]
    ours = cloud.bvh.compute_implicit_distance(surface)
    with pytest.raises(TypeError, match="surface must be PolyData, got ImageData"):
        surface.bvh.compute_implicit_distance(pv.ImageData(dimensions=(3, 3, 3)))
    assert np.allclose(ours["implicit_distance"], distance, atol=1e-6)
    for name, key in (("select_interior_points", "selected_points"),
                      ("select_enclosed_points", "SelectedPoints")):  # fmt: skip
        if not hasattr(cloud, name):
            continue
        for turned in (False, True):
            theirs = getattr(cloud, name)(surface, inside_out=turned)
            mine = getattr(cloud.bvh, name)(surface, inside_out=turned)
            assert theirs[key].dtype == mine[key].dtype
            assert np.array_equal(theirs[key].astype(bool), mine[key].astype(bool))
    with pytest.raises(RuntimeError, match="not closed"):
        cloud.bvh.select_interior_points(pv.Plane())
    written = surface.bvh.signed_distance(cloud)
    assert written is cloud
    assert np.allclose(cloud["signed_distance"], distance, atol=1e-6)
    assert surface.bvh.contains(cloud)["contains"].sum() == (distance <= 0.0).sum()


def test_intersect_with_line() -> None:
    """The points and cells that PyVista's new method has."""
    mesh = pv.Sphere()
    if not hasattr(mesh, "intersect_with_line"):
        pytest.skip("since PyVista 0.49")
    a, b = [0.1, 0.2, -2.0], [0.15, 0.1, 2.0]
    theirs, ours = mesh.intersect_with_line(a, b), mesh.bvh.intersect_with_line(a, b)
    assert np.allclose(theirs[0], ours[0], atol=1e-5)
    assert np.array_equal(theirs[1], ours[1])


@pytest.mark.parametrize("name", list(meshes()))
def test_the_tree_follows(name: str) -> None:
    """Moved points, new cells and points set in place are never answered from before."""
    mesh = meshes()[name]
    down = [0.0, 0.0, -1.0]
    before = mesh.bvh.closest_hit([0.11, 0.07, 9.0], down)
    first = mesh.bvh.tree
    assert mesh.bvh.tree is first
    moved = mesh.copy()
    assert moved.bvh.tree is not first
    if name != "grid":
        mesh.points = np.asarray(mesh.points) + [0.0, 0.0, 1.0]
        assert mesh.bvh.closest_hit([0.11, 0.07, 9.0], down).t == pytest.approx(before.t - 1.0)
        mesh.points[:, 2] += 1.0
        mesh.GetPoints().Modified()
        assert mesh.bvh.closest_hit([0.11, 0.07, 9.0], down).t == pytest.approx(before.t - 2.0)
    if isinstance(mesh, pv.PolyData):
        mesh.copy_from(pv.Cube(bounds=(-1, 1, -1, 1, 0, 4)))
        assert mesh.bvh.closest_hit([0.11, 0.07, 9.0], down).t == pytest.approx(5.0)


def test_cells_and_arrays() -> None:
    """Ids are cells; thickness and deviation are written as arrays; all verbs are there."""
    cube = pv.Cube(bounds=(-1, 1, -1, 1, -0.25, 0.25))
    assert cube.bvh.thickness().shape == (cube.n_cells,)
    assert np.sort(cube["thickness"]).round(9).tolist() == [0.5, 0.5, 2, 2, 2, 2]
    sphere = pv.Sphere()
    deviation = sphere.bvh.deviation_from(pv.Sphere(radius=0.4, theta_resolution=90,
                                                    phi_resolution=90))  # fmt: skip
    assert deviation == pytest.approx(0.1, abs=2e-3)
    assert np.array_equal(sphere["deviation"], deviation)
    assert {"closest_hit", "relation", "ray_trace", "thickness"} <= set(dir(sphere.bvh))
    with pytest.raises(AttributeError, match="no attribute 'closest_hits'"):
        sphere.bvh.closest_hits  # noqa: B018
    assert isinstance(sphere.bvh, door.Accessor)
    assert isinstance(sphere.bvh.tree, bvh.BVH)
