"""Properties of trees: closed or open, the file that a tree is mapped from; copies of trees."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path

import numpy as np
import pytest
import trimesh

import bvh
from bvh.queries.tree_base import is_in_use

BALL = trimesh.creation.icosphere(subdivisions=3)
VERTICES, FACES = np.array(BALL.vertices), np.array(BALL.faces, np.int32)
RAY = [0.1, 0.2, 5.0], [0.0, 0.0, -1.0]


def test_open_edges() -> None:
    """Those of the faces that are left out, and none of a closed mesh; refits are followed."""
    tree, rest = bvh.BVH.from_mesh(BALL), bvh.BVH.from_triangles(VERTICES, FACES[1:])
    assert tree.is_closed and not rest.is_closed
    assert tree.open_edges().shape == (0, 2)
    assert {frozenset(edge) for edge in rest.open_edges().tolist()} == {
        frozenset((int(FACES[0, k]), int(FACES[0, k - 1]))) for k in range(3)
    }
    lost = VERTICES.copy()
    lost[FACES[1]] = np.nan
    tree.refit(lost)
    assert not tree.is_closed
    boxes = bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]])
    for ask in (lambda: boxes.is_closed, boxes.open_edges):
        with pytest.raises(AttributeError, match="no vertices and faces"):
            ask()


def test_trees_without_warnings() -> None:
    """With `warn=False` neither an empty tree nor an open mesh warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(bvh.BVH.from_triangles(np.zeros((0, 3)), [], warn=False)) == 0
        assert len(bvh.BVH.from_boxes(np.zeros((0, 3)), np.zeros((0, 3)), warn=False)) == 0
        bvh.BVH.from_triangles(VERTICES, FACES[1:], warn=False).contains([0.1, 0.2, 0.3])
    with pytest.raises(TypeError, match="warn must be True or False"):
        bvh.BVH.from_triangles(VERTICES, FACES, warn=1)  # type: ignore[arg-type]


def test_source(tmp_path: Path) -> None:
    """The path, the map and the place of a mapped tree, of its own file or a scene's."""
    path, tree = tmp_path / "ball.bvh", bvh.BVH.from_mesh(BALL)
    assert tree.source is None
    tree.save(path)
    assert bvh.load(path).source is None
    mapped = bvh.load(path, mmap=True)
    source = mapped.source
    assert source is not None and not is_in_use(mapped)
    assert (source.path, source.offset, len(source.content)) == (
        str(path), 0, path.stat().st_size
    )  # fmt: skip
    assert mapped.any_hit(*RAY) and mapped.source == source
    mapped.refit(VERTICES * 2.0)
    assert mapped.source is None
    scene, place = bvh.Scene(), tmp_path / "two.bvhscene"
    scene.add(tree), scene.add(bvh.BVH.from_mesh(trimesh.creation.box()))
    scene.save(place)
    files = [tree.source for tree in bvh.load(place, mmap=True).leaves.trees]
    assert all(file is not None and file.path == str(place) for file in files)
    assert [bytes(file.content[file.offset :][:4]) for file in files] == [path.read_bytes()[:4]] * 2


def test_copies(tmp_path: Path) -> None:
    """A copy stays as it is when the tree is refitted, and is not checked before it is used."""
    tree = bvh.BVH.from_mesh(BALL)
    other = copy.copy(tree)
    assert other.arrays is tree.arrays
    tree.refit(VERTICES * 2.0)
    assert other.closest_hit(*RAY).t > tree.closest_hit(*RAY).t
    other.refit(VERTICES * 3.0)
    assert other.closest_hit(*RAY).t < tree.closest_hit(*RAY).t
    tree.save(tmp_path / "ball.bvh")
    mapped = bvh.load(tmp_path / "ball.bvh", mmap=True)
    other = copy.copy(mapped)
    assert not is_in_use(mapped) and not is_in_use(other) and other.source == mapped.source
    assert other.closest_hit(*RAY).t == mapped.closest_hit(*RAY).t == tree.closest_hit(*RAY).t
