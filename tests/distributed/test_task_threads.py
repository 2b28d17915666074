"""Threads of tasks: one for all that a task calls, whatever the default is elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed.out_of_core import open_parts
from bvh.runtime import threads
from bvh.runtime.cpus import default_threads, settings
from tests.cases.families import sphere
from tests.cases.partitions import parts_of

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

POINTS = np.random.default_rng(5).normal(size=(30_000, 3))


@pytest.fixture(autouse=True)
def four_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("BVH_NUM_THREADS", "4")
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of threads that work is shared among, however short it is."""
    found: list[int] = []
    pool = threads.pool
    monkeypatch.setattr(threads, "THREAD_SECONDS", 1e-9)
    monkeypatch.setattr(threads, "pool", lambda count: found.append(count) or pool(count))
    return found


def target_of(kind: str, folder: Path) -> Any:
    vertices, faces = sphere(4)
    if kind == "parts":
        parts_of(folder / "parts", vertices, faces, np.arange(len(faces)) % 3)
        open_parts._checked.clear()
        return bvh.load(folder / "parts", memory=1)
    tree = bvh.BVH.from_triangles(vertices, faces)
    if kind == "mapped tree":
        tree.save(folder / "tree.bvh")
        return bvh.load(folder / "tree.bvh", mmap=True)
    if kind == "scene":
        scene = bvh.Scene()
        scene.add(tree)
        return scene
    return tree


@pytest.mark.parametrize("kind", ["tree", "mapped tree", "scene", "parts"])
@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_a_task_is_one_thread(kind: str, scheduler: str, tmp_path: Path, asked: list[int]) -> None:
    """Also where parts are opened and checked, and where a scene is prepared."""
    target = target_of(kind, tmp_path)
    points = da.from_array(POINTS, chunks=(10_000, 3))
    lazy = [
        target.closest_hit(points, -points).t,
        target.any_hit(points, -points),
        target.count_hits(points, -points),
        target.closest_point(points).distance,
        target.contains(points),
        target.all_hits(points, -points).joined(),
    ]
    asked.clear()
    dask.compute(*lazy, scheduler=scheduler)
    assert asked == []
    assert default_threads() == 4
    target.closest_hit(POINTS, -POINTS)
    assert max(asked) == 4


def test_more_threads_for_each_task(tmp_path: Path, asked: list[int]) -> None:
    """Where there are fewer tasks than CPUs, and it is asked for."""
    target = target_of("parts", tmp_path)
    points = da.from_array(POINTS, chunks=(30_000, 3))
    lazy = target.closest_hit(points, -points, threads=2).t
    asked.clear()
    lazy.compute(scheduler="sync")
    assert set(asked) == {2}


def _bounced(rows: slice, tree: bvh.BVH) -> Any:
    """Return rays from where others hit."""
    hits = tree.closest_hit(POINTS[rows], -POINTS[rows])
    return POINTS[rows] * (1.0 - hits.t[:, None]), POINTS[rows]


def test_queries_of_the_function_that_makes_rays(tmp_path: Path, asked: list[int]) -> None:
    tree = target_of("tree", tmp_path)
    source = bvh.distributed.RaySource(_bounced, (len(POINTS),), 10_000, (tree,))
    lazy = source.any_hit(tree)
    asked.clear()
    assert lazy.compute(scheduler="threads").shape == (len(POINTS),)
    assert asked == []
