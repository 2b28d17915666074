"""Rays in scenes from several threads, and while the scene changes."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import trimesh

import bvh
from bvh.queries.batches import quick_calls
from bvh.scene import scene_queries
from tests.cases.moving_parts import hard_rays, scene_of
from tests.scene.test_scene_rays import Flat


def test_threads_ask_at_once(rng: np.random.Generator) -> None:
    """Each gets the answers that one alone would."""
    scene = scene_of("random", 30, rng)
    flat = Flat(scene)
    o, d = hard_rays(flat.vertices, flat.faces, 2_000, rng)
    wanted = scene.closest_hit(o, d).t
    with ThreadPoolExecutor(4) as pool:
        for t in pool.map(lambda _: scene.closest_hit(o, d, threads=2).t, range(8)):
            assert np.array_equal(t, wanted)


@pytest.mark.parametrize("ask", ["closest_hit", "any_hit", "all_hits", "count_hits"])
def test_trees_outlive_their_rays(ask: str, rng: np.random.Generator) -> None:
    """A tree that `progress` takes out of the scene stays until rays under way have ended."""
    scene = bvh.Scene()
    scene.add(bvh.BVH.from_mesh(trimesh.creation.box()))
    blocks, held = weakref.ref(scene[0].child.arrays.nodes.data), []

    def progress(done: int, total: int) -> None:
        if len(scene):
            scene.remove(0)
        held.append(scene.bounds is not None and blocks() is not None)

    getattr(scene, ask)(*rng.normal(size=(2, 1_000, 3)), threads=2, progress=progress)
    assert held and all(held) and blocks() is None


@pytest.mark.parametrize("ask", ["caster", "closest_hit", "any_hit"])
def test_trees_outlive_a_single_ray(ask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another thread takes out of the scene while a kernel runs stays until its end."""
    scene, held = bvh.Scene(), []
    scene.add(bvh.BVH.from_mesh(trimesh.creation.box()))
    blocks = weakref.ref(scene[0].child.arrays.nodes.data)

    def kernel(*_: object) -> tuple[float, int, float, float, bool, int]:
        scene.remove(0)
        held.append(scene.bounds is not None and blocks() is not None)
        return np.inf, -1, np.nan, np.nan, False, -1

    for module in (quick_calls, scene_queries):
        monkeypatch.setattr(module, "cast_function", lambda *_, **__: kernel)
    if ask == "caster":
        scene.caster()(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    else:
        getattr(scene, ask)(np.zeros(3), np.ones(3))
    assert held == [True] and blocks() is None
