"""Rays that exclude instances: as in a scene where these are hidden, which stays as it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from tests.cases.moving_parts import hard_rays, nested, scene_of


def assert_equal(found: Any, wanted: Any) -> None:
    """Compare results bit for bit."""
    if isinstance(wanted, bool | int | np.ndarray):
        assert np.array_equal(found, wanted)
        return
    for field in fields(wanted):
        mine, theirs = getattr(found, field.name), getattr(wanted, field.name)
        assert np.array_equal(mine, theirs, equal_nan=isinstance(theirs, float) or (
            isinstance(theirs, np.ndarray) and theirs.dtype.kind == "f"
        )), field.name  # fmt: skip
    assert np.array_equal(found.position, wanted.position, equal_nan=True)


def everything(scene: bvh.Scene, o: Any, d: Any, **exclude: Any) -> list[Any]:
    """Return the answers of all queries of rays: many, a few, and single ones."""
    answers: list[Any] = []
    for rays in ((o, d), (o[:5], d[:5]), (o[0], d[0]), (o[1].tolist(), d[1].tolist())):
        for options in (exclude, {**exclude, "mask": 2, "cull": "back"}):
            answers += [
                scene.closest_hit(*rays, **options),
                scene.any_hit(*rays, **options),
                scene.all_hits(*rays, -np.inf, **options),
                scene.all_hits(*rays, max_hits=2, **options),
                scene.count_hits(*rays, **options),
            ]
    return answers


@pytest.mark.parametrize("deep", [False, True], ids=["flat", "nested"])
def test_as_if_hidden(deep: bool, rng: np.random.Generator) -> None:
    """Batches and single rays, with masks and without, by ids and names, of none and of all."""
    scene = scene_of("random", 12, rng)
    scene = nested(scene, rng) if deep else scene
    scene.rename(0, "first")
    vertices, faces, *_ = scene.flattened()
    o, d = hard_rays(vertices, faces, 300, rng)
    for ids in (0, "first", [0, 2], ["first", 1], scene.ids, [], np.array([2], np.uint8)):
        found = everything(scene, o, d, exclude=ids)
        hidden = scene.ids[:0] if np.size(ids) == 0 else ids
        scene.set_visible(hidden, False)
        wanted = everything(scene, o, d)
        scene.set_visible(hidden, True)
        for mine, theirs in zip(found, wanted, strict=True):
            assert_equal(mine, theirs)


def test_the_scene_is_not_changed(rng: np.random.Generator) -> None:
    """Threads that exclude different instances do not disturb each other."""
    scene, box = bvh.Scene(), bvh.BVH.from_mesh(trimesh.creation.box())
    at = np.tile(np.eye(4), (8, 1, 1))
    at[:, 2, 3] = np.arange(8) * 2.0
    scene.add_many(box, at)
    view, ray = scene.view(), (np.tile([0.1, 0.2, 99.0], (500, 1)), np.array([0.0, 0.0, -1.0]))

    def first(above: int) -> bool:
        hits = scene.closest_hit(*ray, exclude=np.arange(above, 8))
        return bool((hits.instance_id == above - 1).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(first, [*range(1, 9)] * 10))
    assert scene.view() is view and view.moves == 0 and (view.masks == -1).all()
    assert (scene.closest_hit(*ray).instance_id == 7).all()
