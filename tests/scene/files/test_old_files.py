"""Saved files of older versions: all are read, and those without triangles still written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bvh
from bvh import BVH, Scene
from bvh.runtime.simd import WIDTH
from tests.cases.frozen_files import saved_scene, saved_tree
from tests.cases.saved_scenes import matrices, told
from tests.cases.saved_trees import KINDS, tree_of

pytestmark = pytest.mark.unaudited
Rng = np.random.Generator


def polygons(rng: Rng) -> BVH:
    """Return a tree whose triangles are parts of quads."""
    squares = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]) + 3.0 * np.eye(3)[:, None]
    return BVH.from_mesh((squares.reshape(-1, 3), np.arange(12).reshape(3, 4)))


@pytest.mark.parametrize("normals", [True, False])
@pytest.mark.parametrize("kind", [*KINDS, "polygons", "groups"])
def test_trees(kind: str, normals: bool, tmp_path: Path, rng: Rng) -> None:
    """Of 0.1.0 and 0.2.0, each kind, with and without face ids and groups, byte for byte."""
    tree, path = polygons(rng) if kind == "polygons" else None, tmp_path / "old.bvh"
    if kind == "groups" and not normals:
        mesh = tree_of("triangles", rng)
        tree = BVH.from_triangles(mesh.vertices, mesh.faces, groups=rng.integers(0, 4, len(mesh)))
    tree = tree or tree_of(kind if kind in KINDS else "triangles", rng)
    path.write_bytes(saved_tree(tree, WIDTH, normals))
    rays = rng.random((100, 3)) - [0.0, 0.0, 3.0], [0.0, 0.0, 1.0]
    wanted = tree.closest_hit(*rays)
    for mmap in (False, True):
        loaded = bvh.load(path, mmap=mmap, audit=True)
        assert isinstance(loaded, BVH)
        hits = loaded.closest_hit(*rays)
        assert hits.t.tobytes() == wanted.t.tobytes()
        assert np.array_equal(hits.prim_id, wanted.prim_id)
        assert np.array_equal(loaded.face_ids, tree.face_ids)
        assert loaded.arrays.groups.tobytes() == tree.arrays.groups.tobytes()
        assert loaded.arrays.nodes.ids.tolist() == tree.arrays.nodes.ids.tolist()
        assert np.array_equal(loaded.groups, tree.groups)
    tree.save(tmp_path / "new.bvh")
    same = (tmp_path / "new.bvh").read_bytes() == path.read_bytes()
    assert same == (tree.kind != "triangles")


@pytest.mark.parametrize("up", [None, "-y"])
def test_scenes(up: str | None, tmp_path: Path, rng: Rng) -> None:
    """Nested scenes with names, masks, attributes and gaps, with and without an axis for up."""
    trees, maps = [tree_of("triangles", rng, 9), tree_of("boxes", rng, 9)], matrices(rng, 5)
    normals = rng.normal(size=(27, 3))
    inner, scene = Scene(), Scene()
    inner.add(trees[0], maps[0], "é")
    inner.add(trees[1], maps[1], mask=6)
    scene.add(trees[0], maps[2])
    scene.remove(scene.add(trees[0]))
    scene.add(inner, maps[3], "", visible=False)
    scene.add(trees[1], maps[4], "box")
    for part in (inner, scene):
        part._attributes[id(trees[0])] = trees[0], bvh.Attributes(normals)
    scene.up = up or "z"
    files = [saved_tree(tree, WIDTH) for tree in trees]
    tables = {
        "scenes": [(2, 2), (3, 4)] if up is None else [(2, 2, 0), (3, 4, 4)],
        "ids": [0, 1, 0, 2, 3],
        "children": [0, 1, 0, ~0, 1],
        "maps": maps[:, :3].reshape(5, 12),
        "masks": [2**32 - 1, 6, *[2**32 - 1] * 3],
        "visible": [1, 1, 1, 0, 1],
        "named": [1, 0, 0, 1, 1],
        "lengths": [2, 0, 0, 0, 3],
        "text": list("ébox".encode()),
        "trees": [(len(files[0]), 1, 0), (len(files[1]), 0, 0)],
        "normals": normals,
        "uv": np.empty((0, 2)),
    }
    path = tmp_path / "old.bvh"
    path.write_bytes(saved_scene(tables, files))
    for mmap in (False, True):
        loaded = bvh.load(path, mmap=mmap, audit=True)
        assert isinstance(loaded, Scene) and told(loaded) == told(scene)
    scene.save(tmp_path / "new.bvh")
    assert told(bvh.load(tmp_path / "new.bvh")) == told(scene)
    assert (tmp_path / "new.bvh").read_bytes()[8:12] == path.read_bytes()[8:12]
