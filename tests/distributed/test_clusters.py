"""Workers: rays made where they are cast, killed workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from tests.cases.families import sphere
from tests.cases.partitions import parts_of

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
Callback = pytest.importorskip("dask.callbacks").Callback
chunk_tasks = pytest.importorskip("bvh.distributed.chunk_tasks")

# Windows ends a process at any signal.
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


@pytest.fixture(scope="module")
def tree() -> bvh.BVH:
    return bvh.BVH.from_triangles(*sphere(3))


def test_camera_rays(tree: bvh.BVH, cluster: Any) -> None:
    camera = bvh.Camera.look_at([0.0, 1.0, 4.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0], 40.0, 130, 70)
    source = bvh.distributed.camera_rays(camera, 32)
    assert source.chunks == ((32, 32, 6), (32, 32, 32, 32, 2))
    wanted = tree.closest_hit(*camera.rays(), camera.t_min, camera.t_max)
    hits = source.closest_hit(tree, t_min=camera.t_min, t_max=camera.t_max)
    with cluster.as_current():
        np.testing.assert_array_equal(hits.t.compute(), wanted.t)
        np.testing.assert_array_equal(source.any_hit(tree).compute(), wanted.mask)
        assert source.count_hits(tree).sum().compute() == tree.count_hits(*camera.rays()).sum()


def test_rays_are_fused_with_their_query(tree: bvh.BVH) -> None:
    source = bvh.distributed.RaySource(_fan, (50,), 10, (0.5,))
    (graph,) = (dict(a.__dask_optimize__(a.dask, a.__dask_keys__()))
                for a in [source.closest_hit(tree).t])  # fmt: skip
    assert not [key for key in graph if str(key).startswith("('rays-")]


def test_fields_share_a_task_for_each_chunk(tree: bvh.BVH, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed of a field is fused with it; the query is not computed twice."""
    calls, keys, cast = list[Any](), list[Any](), chunk_tasks._query_chunk
    monkeypatch.setattr(
        chunk_tasks, "_query_chunk", lambda *a, **k: calls.append(a) or cast(*a, **k)
    )
    hits = bvh.distributed.RaySource(_fan, (50,), 10, (0.5,)).closest_hit(tree)
    with Callback(pretask=lambda key, *_: keys.append(key)):
        dask.compute(hits.t + 1.0, hits.u + 1.0, scheduler="sync")
    assert len(calls) == 5 and len(keys) < 20


def _fan(part: slice, spread: float) -> Any:
    k = np.arange(part.start, part.stop)
    return [0.0, 0.0, 0.0], np.stack([np.cos(k * spread), np.sin(k * spread), 0.0 * k], axis=-1)


def test_a_users_function(tree: bvh.BVH) -> None:
    source = bvh.distributed.RaySource(_fan, (50,), 7, (0.5,))
    wanted = tree.closest_hit(*_fan(slice(0, 50), 0.5))
    found = source.closest_hit(tree).t.compute(scheduler="sync")
    np.testing.assert_array_equal(found, wanted.t)


def _slow_fan(part: slice, folder: str) -> Any:
    Path(folder, str(os.getpid())).touch()
    time.sleep(0.05)
    return _fan(part, 0.1)


@pytest.mark.long
def test_killed_workers(tree: bvh.BVH, tmp_path: Path, cluster: Any) -> None:
    """Killed in the middle of a query: of a tree in memory, and of parts in two groups."""
    vertices, faces = sphere(3)
    parts = parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 4)
    parts = bvh.load(tmp_path / "parts", memory=2 * parts.records[0].tree_bytes + 100)
    assert len(parts.groups()) == 2
    wanted = tree.closest_hit(*_fan(slice(0, 1200), 0.1))
    hits = []
    for name, target in (("tree", tree), ("parts", parts)):
        folder = tmp_path / f"begun {name}"
        folder.mkdir()
        source = bvh.distributed.RaySource(_slow_fan, (1200,), 100, (str(folder),))
        hits.append(source.closest_hit(target))
    futures = cluster.compute([column for found in hits for column in (found.t, found.prim_id)])
    deadline = time.monotonic() + 120.0
    while not (begun := os.listdir(tmp_path / "begun parts")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(int(begun[0]), KILL)
    for k, column in enumerate(cluster.gather(futures)):
        np.testing.assert_array_equal(column, (wanted.t, wanted.prim_id)[k % 2])
    assert len({path.name for path in tmp_path.glob("begun */*")}) > 1
