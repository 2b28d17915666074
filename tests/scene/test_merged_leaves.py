"""Merged leaves of scenes: the same hits from one tree, which follows the scene, where it pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bvh
from bvh.scene import merged_leaves
from tests.cases.moving_parts import KINDS, nested, scene_of, transform
from tests.scene.test_scene_rays import assert_all_verbs

CORNER = np.eye(3), [[0, 1, 2]]
DOWN = np.array([0.0, 0.0, -1.0])


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge all leaves at the first batch of rays."""
    monkeypatch.setattr(merged_leaves, "RAY_SECONDS", 1e9)
    monkeypatch.setattr(merged_leaves, "FINEST", 0.0)


def merger_of(scene: bvh.Scene) -> merged_leaves.LeafMerger:
    return scene._current().merger


def is_merged(scene: bvh.Scene) -> bool:
    return merger_of(scene)._tree is not None


def fields(hits: Any) -> list[np.ndarray]:
    return [getattr(hits, k) for k in ("t", "u", "v", "prim_id", "front", "leaf", "instance_id")]


def assert_equal_to_instances(scene: bvh.Scene, n: int, rng: np.random.Generator, **options: Any):
    """Compare rays in a scene with those that visit its instances: counted ones always do."""
    o, d = rng.normal(size=(n, 3)) * 4, rng.normal(size=(n, 3))
    found, wanted = scene.closest_hit(o, d, **options), scene.closest_hit(o, d, counters=True)
    for a, b in zip(fields(found), fields(wanted), strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b, equal_nan=a.dtype == np.float64)
    assert np.array_equal(scene.any_hit(o, d, **options), wanted.mask)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kind", KINDS)
def test_hits_equal_those_of_the_mesh(kind: str, rng: np.random.Generator) -> None:
    """Transforms of one kind; nested two deep."""
    scene = scene_of(kind, 12, rng)
    assert_all_verbs(scene, 200, rng)
    assert is_merged(scene)
    assert_all_verbs(nested(scene_of(kind, 3, rng), rng), 200, rng)


@pytest.mark.usefixtures("always")
def test_changes_are_followed(rng: np.random.Generator) -> None:
    """Of transforms, masks, visibility, instances and trees."""
    scene = scene_of("random", 10, rng)
    tree = bvh.BVH.from_triangles(*CORNER)
    added = scene.add(tree, transform("rigid", rng))

    def check() -> None:
        assert_equal_to_instances(scene, 500, rng)
        assert is_merged(scene)

    check()
    scene.set_transform(3, transform("random", rng))
    assert not is_merged(scene)
    check()
    scene.set_visible([1, 2], False)
    check()
    scene.set_mask([1, 4], 6)
    check()
    scene.remove(0)
    check()
    tree.refit(np.eye(3) * 3.0)
    check()
    scene.set_visible(scene.ids, False)
    o, d = rng.normal(size=(9, 3)), rng.normal(size=(9, 3))
    assert not scene.any_hit(o, d).any()
    assert scene.closest_hit(o, d).instance_id.max() == -1
    assert not is_merged(scene)
    scene.set_visible(added, True)
    check()


def test_faces_far_apart_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one frame they would be so small that exact tests decide all."""
    monkeypatch.setattr(merged_leaves, "RAY_SECONDS", 1e9)
    for far, merged in ((30.0, True), (1e6, False)):
        scene = bvh.Scene()
        for x in (0.0, far):
            shift = np.eye(4)
            shift[0, 3] = x
            scene.add(bvh.BVH.from_triangles(*CORNER), shift)
        assert scene.closest_hit(np.full((5, 3), 0.2), np.full((5, 3), 1.0)).mask.all()
        assert is_merged(scene) == merged


@pytest.mark.usefixtures("always")
def test_changes_during_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """A merged tree of leaves that have moved meanwhile is not kept."""
    scene = bvh.Scene()
    moved = scene.add(bvh.BVH.from_triangles(*CORNER))
    building = merged_leaves.build

    def build(*arguments: Any) -> Any:
        merger_of(scene).forget()
        return building(*arguments)

    monkeypatch.setattr(merged_leaves, "build", build)
    assert scene.closest_hit(np.full((5, 3), 0.2), np.ones((5, 3))).mask.all()
    assert not is_merged(scene) and moved == 0


@pytest.mark.usefixtures("always")
def test_shapes_of_results() -> None:
    """A single ray that is no plain one; rows of rays."""
    scene = bvh.Scene()
    scene.remove(scene.add(CORNER))
    scene.add(CORNER)
    one = scene.closest_hit([0.2, 0.2, 5.0], DOWN, validate_rays=True)
    assert is_merged(scene)
    assert (one.leaf, one.instance_id, one.prim_id) == (0, 1, 0)
    assert type(one.leaf) is type(one.instance_id) is type(one.prim_id) is int
    hits = scene.closest_hit(np.full((2, 4, 3), 0.2), DOWN)
    assert hits.leaf.shape == hits.instance_id.shape == hits.prim_id.shape == (2, 4)
    assert scene.any_hit([0.2, 0.2, 5.0], DOWN, validate_rays=True) is True


@pytest.mark.usefixtures("always")
def test_masks_of_rays_count() -> None:
    """They choose instances, which the merged tree has none of."""
    scene = bvh.Scene()
    scene.add(CORNER, mask=2)
    o = np.full((3, 3), 0.2)
    assert scene.any_hit(o, np.ones(3)).all()
    assert is_merged(scene)
    assert not scene.any_hit(o, np.ones(3), mask=1).any()
    assert scene.any_hit(o, np.ones(3), mask=3).all()


@pytest.mark.usefixtures("always")
def test_what_is_not_merged(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Boxes, too many triangles or leaves, and nothing."""
    boxes, empty = bvh.Scene(), bvh.Scene()
    boxes.add(CORNER)
    boxes.add(bvh.BVH.from_boxes([[0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0]]))
    many, heavy = bvh.Scene(), bvh.Scene()
    for _ in range(3):
        many.add(CORNER)
        heavy.add(CORNER)
    o, d = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    monkeypatch.setattr(merged_leaves, "MAX_LEAVES", 2)
    many.closest_hit(o, d)
    monkeypatch.setattr(merged_leaves, "MAX_LEAVES", 3)
    monkeypatch.setattr(merged_leaves, "MAX_ROWS", 8)
    heavy.closest_hit(o, d)
    for scene in (boxes, empty, many, heavy):
        scene.closest_hit(o, d)
        assert not is_merged(scene)


def test_leaves_are_merged_when_that_pays(rng: np.random.Generator) -> None:
    """After many rays, or at once for many; never for a few rays between moves."""
    scene = bvh.Scene()
    scene.add_many(bvh.BVH.from_triangles(*CORNER), [transform("rigid", rng) for _ in range(20)])
    o, d = rng.normal(size=(100, 3)), rng.normal(size=(100, 3))
    needed = (20 * merged_leaves.LEAF_SECONDS + 20 * merged_leaves.FACE_SECONDS) * 4.0
    for _ in range(int(needed / merged_leaves.RAY_SECONDS / 1000)):
        scene.set_transform(0, transform("rigid", rng))
        scene.closest_hit(o, d)
        scene.any_hit(o, d)
        assert not is_merged(scene)
    some = 1 + int(needed / merged_leaves.RAY_SECONDS)
    scene.any_hit(np.resize(o, (some, 3)), np.resize(d, (some, 3)))
    assert is_merged(scene)
    merger = merger_of(scene)
    size, whole = merger.nbytes, scene.nbytes
    merger.forget()
    assert size > 0 and scene.nbytes == whole - size
    assert merged_leaves.LeafMerger.slowness <= 4.0
