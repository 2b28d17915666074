"""Pictures of parts: in every shade those of one tree over the whole mesh."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed.out_of_core.part_pictures import neighbours, visible_tree
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
    found = render(visible_tree(parts, camera, samples), camera, shade, data=names, **options)
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
    flat = visible_tree(parts, camera, smooth=False, progress=lambda done, _: counts.append(done))
    seen = np.unique(parts.closest_hit(*camera.rays()).prim_id)[1:]
    np.testing.assert_array_equal(flat.mesh_ids(np.arange(len(flat))), seen)
    assert counts == [3600]
    assert len(flat) < len(visible_tree(parts, camera)) < len(mesh[1])


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
    tree = visible_tree(parts, camera)
    copied = pickle.loads(pickle.dumps(tree))
    np.testing.assert_array_equal(
        render(copied, camera, "clay").pixels, render(tree, camera, "clay").pixels
    )
    assert tokenize(copied) == tokenize(tree) != tokenize(visible_tree(others, camera))


def test_costs_are_refused(mesh: tuple[Any, Any], tmp_path: Path) -> None:
    parts = parts_of(tmp_path, *mesh, np.zeros(len(mesh[1]), np.int64))
    camera = bvh.Camera.framing(parts.bounds, width=8, height=6)
    with pytest.raises(ValueError, match="counters"):
        render(visible_tree(parts, camera), camera, "cost")


def test_nothing_in_sight(mesh: tuple[Any, Any], tmp_path: Path) -> None:
    parts = parts_of(tmp_path, *mesh, np.zeros(len(mesh[1]), np.int64))
    tree = bvh.BVH.from_triangles(*mesh)
    camera = bvh.Camera.look_at([9, 0, 0], [18, 0, 0], "z", 40.0, 8, 6)
    for shade in ("clay", "depth"):
        found = render(visible_tree(parts, camera), camera, shade)
        np.testing.assert_array_equal(found.pixels, render(tree, camera, shade).pixels)
