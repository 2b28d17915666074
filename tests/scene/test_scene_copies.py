"""Copies of scenes, which share trees, and the numbers that tell that a scene has changed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

import bvh

MESH = ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])


def nested() -> tuple[bvh.Scene, bvh.Scene, bvh.BVH]:
    """Return a scene with a gap, the scene nested in it twice, and their tree."""
    tree, inner, outer = bvh.BVH.from_triangles(*MESH), bvh.Scene(), bvh.Scene()
    inner.add(tree, name="leaf")
    outer.add(tree)
    outer.add_many(inner, [np.eye(4)] * 2, ["a", "b"])
    outer.remove(0)
    return outer, inner, tree


CHANGES: dict[str, Callable[[bvh.Scene], object]] = {
    "add": lambda scene: scene.add(MESH),
    "move": lambda scene: scene.set_transform(scene.ids[0], np.diag([2.0, 2.0, 2.0, 1.0])),
    "hide": lambda scene: scene.set_visible(scene.ids[0], False),
    "rename": lambda scene: scene.rename(scene.ids[0], "other"),
    "replace": lambda scene: scene.replace(scene.ids[0], MESH),
    "remove": lambda scene: scene.remove(scene.ids[0]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("inside", [False, True])
def test_a_copy_stays_as_it_is(change: str, inside: bool) -> None:
    """Whatever changes in the scene or in a nested one; `revision` tells of it."""
    outer, inner, tree = nested()
    now, before = copy.copy(outer), outer.revision
    assert outer.revision == before
    CHANGES[change](inner if inside else outer)
    assert outer.revision != before
    assert [one.name for one in now] == ["a", "b"] and now.ids.tolist() == [1, 2]
    (leaf, _), child = now.leaves, now[1].child
    assert leaf.tree is tree and leaf.path == (1, 0) and child is not inner
    assert child is now[2].child and child.names(0) == "leaf"
    assert now.up == outer.up and np.array_equal(now.bounds, [[0, 0, 0], [1, 1, 0]])


def test_a_copy_is_changed_alone() -> None:
    """It gives ids on from those of the scene."""
    outer, _, tree = nested()
    now, before = copy.copy(outer), outer.revision
    assert now.add(tree) == 3 and len(outer) == 2
    now.set_visible("a", False)
    assert outer.revision == before and outer["a"].visible


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("inside", [False, True])
def test_a_copy_follows_moves_and_masks(change: str, inside: bool) -> None:
    """All else needs a new copy."""
    outer, inner, _ = nested()
    # A table with a gap is never followed: its rows are others.
    assert copy.copy(outer).follow(outer, outer.revision) is False
    assert outer.bounds.shape == (2, 3)
    now, before = copy.copy(outer), outer.revision
    CHANGES[change](inner if inside else outer)
    assert now.follow(outer, before) == (change in ("move", "hide"))
    if change in ("move", "hide"):
        assert np.array_equal(now.leaves.matrices, outer.leaves.matrices)
        assert np.array_equal(now.leaves.masks, outer.leaves.masks)
        assert now.follow(outer, outer.revision)
    assert now.follow(inner, inner.revision) is False


def test_refused_calls_are_no_changes() -> None:
    """Transforms that would distort spheres, of a new child or an old one; no transform at all."""
    ball, other = (bvh.BVH.from_spheres([[0, 0, 0]], 1.0) for _ in range(2))
    stretch, scene = np.diag([1.0, 2.0, 1.0, 1.0]), bvh.Scene()
    scene.add(ball, name="ball")
    scene.add(MESH, stretch, name="plate")
    now, before = copy.copy(scene), scene.revision
    for call in (
        lambda: scene.add(other, stretch), lambda: scene.add(ball, stretch),
        lambda: scene.add_many(other, [np.eye(4), stretch]), lambda: scene.replace("plate", other),
        lambda: scene.set_transform("ball", stretch),
        lambda: scene.set_transforms(["plate", "ball"], [np.eye(4), stretch]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="must be a rotation or reflection with one scale"):
            call()
    assert scene.add_many(other, []).tolist() == []
    assert scene.revision == before and now.follow(scene, before)
    assert scene.leaves.trees == [ball, scene["plate"].child]


def test_pickles_hold_no_removed_meshes() -> None:
    """Nor deep copies, even before a query has closed the gap."""
    scene, mesh = bvh.Scene(), (np.zeros((1000, 3)), [[0, 1, 2]])
    scene.add(mesh)
    scene.add(MESH)
    scene.remove(0)
    small = len(pickle.dumps(scene))
    assert scene.bounds.shape == (2, 3)
    assert small <= len(pickle.dumps(scene)) < 10_000
    assert copy.deepcopy(scene).attributes(scene[1].child).uv is None
