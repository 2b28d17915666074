"""Pictures of parts: in every shade those of one tree over the whole mesh."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed.out_of_core.parts import neighbours
from bvh.pictures.rendering import render
from bvh.pictures.shading import DATA, SHADES
from tests.cases.families import sphere
from tests.cases.partitions import parts_of, random_parts

IDS = ("id", "instance", "leaf")
OF_PARTS = [shade for shade in SHADES if shade not in ("cost", "uv")]


@pytest.fixture(scope="module")
def mesh() -> tuple[Any, Any]:
    """A bumpy sphere with creases, a hollow, and a face with a corner at no place."""
    vertices, faces = sphere(3)
    vertices = vertices * (1.0 + 0.3 * np.sin(5.0 * vertices[:, :1]) * (vertices[:, 1:2] > 0.0))
    loose = [[0, 5, len(vertices)]]
    return np.concatenate([vertices, [[np.nan, 0.0, 0.0]]]), np.concatenate([faces, loose])


@pytest.mark.parametrize("shade", OF_PARTS)
@pytest.mark.parametrize("samples", [1, 2])
def test_pictures_are_those_of_one_tree(
    shade: str, samples: int, mesh: tuple[Any, Any], tmp_path: Path, rng: np.random.Generator
) -> None:
    tree = bvh.BVH.from_triangles(*mesh)
    camera = bvh.Camera.look_at([1.0, 4.0, 2.0], [0.0, 0.0, 0.0], "z", 40.0, 40, 30, y="up")
    parts = random_parts(tmp_path, *mesh, rng, memory=100_000)
    options: dict[str, Any] = {"samples": samples, "softness": 3.0, "light_rays": 4}
    names = [name for name in DATA if name != "cost"]
    wanted = render(tree, camera, shade, data=names, **options)
    for source in (parts, parts.visible_tree(camera, samples)):
        found = render(source, camera, shade, data=names, **options)
        np.testing.assert_array_equal(found.pixels, wanted.pixels)
        assert found.rays == wanted.rays
        for name in names:
            np.testing.assert_array_equal(found.data[name], wanted.data[name], err_msg=name)
    assert (wanted.data["id"] >= 0).any() and wanted.data["id"].min() == -1


def test_no_more_triangles_than_are_needed(mesh: tuple[Any, Any], tmp_path: Path) -> None:
    """Without smooth normals only those that are seen; with them a ring more."""
    parts = parts_of(tmp_path, *mesh, np.arange(len(mesh[1])) % 5)
    camera = bvh.Camera.framing(parts.bounds, width=60, height=60)
    counts: list[int] = []
    flat = parts.visible_tree(camera, smooth=False, progress=lambda done, _: counts.append(done))
    seen = np.unique(parts.closest_hit(*camera.rays()).prim_id)[1:]
    np.testing.assert_array_equal(flat.ids, seen)
    assert counts == [3600]
    near = parts.visible_tree(camera)
    assert len(flat.surface) == len(flat.ids) < len(near.surface) < len(mesh[1])


def test_neighbours(mesh: tuple[Any, Any], tmp_path: Path, rng: np.random.Generator) -> None:
    """All that share a place with a vertex, though not its number, are found; zeros are one."""
    vertices, faces = mesh
    corners = vertices[faces].reshape(-1, 3)
    corners[corners == 0.0] *= rng.choice([1.0, -1.0], (corners == 0.0).sum())
    split = np.arange(len(corners)).reshape(-1, 3)
    parts = parts_of(tmp_path, corners, split, rng.integers(0, 7, len(split)))
    for face in rng.integers(0, len(faces) - 1, 20):
        near = np.flatnonzero(np.isin(faces, faces[face]).any(axis=1))
        assert set(near) <= set(neighbours(parts, np.array([face])).tolist())


def test_pickled(mesh: tuple[Any, Any], tmp_path: Path) -> None:
    """A copy looks the same, and has the same token; trees of other parts have another."""
    tokenize = pytest.importorskip("dask.base").tokenize
    parts = parts_of(tmp_path / "a", *mesh, np.arange(len(mesh[1])) % 3)
    others = parts_of(tmp_path / "b", *mesh, np.arange(len(mesh[1])) % 4)
    camera = bvh.Camera.framing(parts.bounds, width=20, height=15)
    tree = parts.visible_tree(camera)
    copied = pickle.loads(pickle.dumps(tree))
    np.testing.assert_array_equal(
        render(copied, camera, "clay").pixels, render(tree, camera, "clay").pixels
    )
    assert tokenize(copied) == tokenize(tree) != tokenize(others.visible_tree(camera))


@pytest.mark.parametrize("options", [{}, {"shade": "normals"}, {"up": "x", "width": 40}])
def test_show(options: dict[str, Any], mesh: tuple[Any, Any], tmp_path: Path) -> None:
    """What is loaded is shown as the whole mesh is, by the same camera."""
    parts_of(tmp_path, *mesh, np.arange(len(mesh[1])) % 4)
    options = {"width": 48, "height": 36} | options
    found = bvh.show(bvh.load(tmp_path), **options)
    wanted = bvh.show(bvh.BVH.from_triangles(*mesh), **options)
    np.testing.assert_array_equal(found.pixels, wanted.pixels)
    assert found.shade == wanted.shade and len(np.unique(found.pixels)) > 9


def test_all_rays_are_progress(mesh: tuple[Any, Any], tmp_path: Path) -> None:
    """Those that look for what is seen, and those of the picture: one way from 0 to the end."""
    parts = parts_of(tmp_path, *mesh, np.arange(len(mesh[1])) % 3)
    camera, told = bvh.Camera.framing(parts.bounds, width=30, height=20), []
    render(parts, camera, samples=2, progress=lambda *given: told.append(given))
    assert {total for _, total in told} == {600 + 2400 + 2400}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[0][0] <= 3000 and told[-1][0] == 5400


def test_costs_are_refused(mesh: tuple[Any, Any], tmp_path: Path) -> None:
    """By the tree and by the parts, and before a part is opened, as texture coordinates are."""
    parts = parts_of(tmp_path, *mesh, np.zeros(len(mesh[1]), np.int64))
    camera = bvh.Camera.framing(parts.bounds, width=8, height=6)
    with pytest.raises(ValueError, match='"cost" is for trees'):
        render(parts.visible_tree(camera), camera, "cost")
    parts = bvh.load(tmp_path)
    (tmp_path / "00000.bvh").unlink()
    given: dict[str, Any]
    for given in ({"shade": "cost"}, {"data": "cost"}):
        with pytest.raises(ValueError, match='"cost" is for trees'):
            render(parts, camera, **given)
    with pytest.raises(ValueError, match="texture coordinates, which parts do not have"):
        render(parts, camera, "uv")


@pytest.mark.parametrize("wrong", ["mesh.ply", None, np.zeros((3, 3))])
def test_what_has_no_picture(wrong: Any) -> None:
    """The error says what has one."""
    camera = bvh.Camera.framing([[0, 0, 0], [1, 1, 1]], width=8, height=6)
    with pytest.raises(TypeError, match="source must be a BVH, a Scene or Parts, got "):
        render(wrong, camera)
    with pytest.raises(TypeError, match="what must be a BVH, a Scene, Parts, Hits or a Picture, "):
        bvh.show(wrong)


def test_no_camera(mesh: tuple[Any, Any], tmp_path: Path) -> None:
    parts: Any = parts_of(tmp_path, *mesh, np.zeros(len(mesh[1]), np.int64))
    with pytest.raises(TypeError, match="camera must be a Camera, got NoneType"):
        parts.visible_tree(None)


def test_nothing_in_sight(mesh: tuple[Any, Any], tmp_path: Path) -> None:
    parts = parts_of(tmp_path, *mesh, np.zeros(len(mesh[1]), np.int64))
    tree = bvh.BVH.from_triangles(*mesh)
    camera = bvh.Camera.look_at([9, 0, 0], [18, 0, 0], "z", 40.0, 8, 6)
    for shade in ("clay", "depth"):
        found = render(parts.visible_tree(camera), camera, shade)
        np.testing.assert_array_equal(found.pixels, render(tree, camera, shade).pixels)
