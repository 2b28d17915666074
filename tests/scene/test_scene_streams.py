"""Streams in scenes: the same hits as single rays have, whatever the transforms of instances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bvh
from bvh.queries.batches import ray_batches
from bvh.runtime.memory import Shelf
from bvh.scene import merged_leaves
from bvh.traversal.rays import ray_numbers
from bvh.traversal.rays.closest_hit import Scratch, new_scratch
from bvh.traversal.rays.ray_batch import STREAMS, Order
from bvh.traversal.rays.streams import SLOT
from tests.cases.moving_parts import KINDS, nested, scene_of, transform

CORNER = np.eye(3), [[0, 1, 2]]


@pytest.fixture(autouse=True)
def streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace all rays in streams, of instances."""
    monkeypatch.setattr(ray_batches, "_order", lambda batch, n, sort: Order(n, 0, STREAMS, sort))
    monkeypatch.setattr(merged_leaves, "RAY_SECONDS", 0.0)


def views(scene: bvh.Scene, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rays from a few eyes at vertices, edges and faces, those of an octant together."""
    vertices, faces, _, _ = scene.flattened()
    corners = vertices[faces[rng.integers(0, len(faces), 3 * n)]].reshape(3, n, 3, 3)
    share = rng.dirichlet([0.5, 0.5, 0.5], n)[:, :, None]
    targets = np.concatenate([
        corners[0, :, 0], corners[1, :, :2].mean(axis=1), (corners[2] * share).sum(axis=1)
    ])  # fmt: skip
    middle, size = np.median(targets, axis=0), np.abs(targets).max()
    o, d = [], []
    for far in (0.0, 2.0, 12.0):
        eye = middle + rng.normal(size=3) * size * far
        towards = targets - eye
        octant = (towards < 0) @ [1, 2, 4]
        order = np.lexsort([*(towards / np.abs(towards).max()).T, octant])
        d.append(towards[order])
        o.append(np.broadcast_to(eye, towards.shape))
    return np.concatenate(o), np.concatenate(d)


def assert_single(scene: bvh.Scene, o: np.ndarray, d: np.ndarray, **options: Any) -> None:
    """Compare with counted hits, which are never of streams."""
    found = scene.closest_hit(o, d, **options)
    wanted = scene.closest_hit(o, d, counters=True, **options)
    for name in ("t", "u", "v", "prim_id", "front", "leaf", "instance_id"):
        a, b = getattr(found, name), getattr(wanted, name)
        assert np.array_equal(a, b, equal_nan=a.dtype == np.float64), name
    assert np.array_equal(scene.any_hit(o, d, **options), wanted.mask)


@pytest.mark.parametrize("kind", KINDS)
def test_streams_equal_single_rays(kind: str, rng: np.random.Generator) -> None:
    """Transforms of one kind; with instances that coincide; nested; with culling and ranges."""
    for scene in (
        scene_of(kind, 12, rng),
        scene_of(kind, 12, rng, ("same", "exact")),
        nested(scene_of(kind, 3, rng), rng),
    ):
        with np.errstate(all="ignore"):
            o, d = views(scene, 40, rng)
        assert_single(scene, o, d)
        assert_single(scene, o, d, t_max=1.0)
        assert_single(scene, o, d, t_min=0.5, t_max=rng.uniform(0.5, 2.0, len(o)))
        assert_single(scene, o, d, cull="back")


def test_masks_of_rays(rng: np.random.Generator) -> None:
    """One for all rays of a group; one for each."""
    scene = scene_of("random", 16, rng)
    scene.set_mask(scene.ids, rng.integers(1, 8, 16))
    o, d = views(scene, 300, rng)
    assert_single(scene, o, d, mask=2)
    assert_single(scene, o, d, mask=rng.integers(0, 8, len(o)))


def test_boxes_among_triangles(rng: np.random.Generator) -> None:
    """Rays that meet an instance of boxes are traced singly."""
    scene = scene_of("rigid", 6, rng)
    o, d = views(scene, 200, rng)
    scene.add(bvh.BVH.from_boxes([[-1.0, -1.0, -1.0]], [[0.0, 0.0, 0.0]]), transform("rigid", rng))
    assert_single(scene, o, d)


@pytest.mark.parametrize("count", [1, 17, 70, 300])
def test_batches_that_end_within_a_block(count: int, rng: np.random.Generator) -> None:
    """The last lanes of a block have no ray."""
    scene = scene_of("rigid", 6, rng)
    o, d = views(scene, 200, rng)
    assert_single(scene, o[:count], d[:count])
    assert_single(scene, o[:1], d[:count], threads=1)


def test_what_a_slot_had_before(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hits were taken for surely in range by numbers of a slot that no moved ray had written."""

    def scratch() -> Scratch:
        made = new_scratch()
        slot = made.streams.below.slot[SLOT:]
        slot[ray_numbers.SURE_LOW], slot[ray_numbers.SURE_HIGH] = -1e30, 1e30
        return made

    shelf: Shelf[Scratch] = Shelf(scratch)
    monkeypatch.setattr(ray_batches, "SHELF", shelf)
    scene = scene_of("rigid", 12, rng, ("same", "exact"))
    o, d = views(scene, 100, rng)
    t = scene.closest_hit(o, d, counters=True).t
    for end in (t, np.nextafter(t, 0.0)):
        assert_single(scene, o, d, t_max=end)


@pytest.mark.long
def test_many_transforms(rng: np.random.Generator) -> None:
    """Of all kinds of transforms in one scene."""
    # In such a scene some milliseconds a ray: nearly all is decided exactly.
    for _ in range(3):
        scene = scene_of("random", 40, rng, KINDS)
        with np.errstate(all="ignore"):
            assert_single(scene, *views(scene, 20, rng))
