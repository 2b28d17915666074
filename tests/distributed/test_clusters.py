"""Workers: rays made where they are cast, killed workers, kernels, threads."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.runtime.cpus import cpu_quota, default_threads, settings
from tests.cases.families import sphere

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


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


def test_a_killed_worker(tree: bvh.BVH, tmp_path: Path) -> None:
    source = bvh.distributed.RaySource(_slow_fan, (4000,), 40, (str(tmp_path),))
    wanted = tree.closest_hit(*_fan(slice(0, 4000), 0.1))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        future = client.compute(source.closest_hit(tree).t)
        while len(os.listdir(tmp_path)) < 2:
            time.sleep(0.01)
        os.kill(int(os.listdir(tmp_path)[0]), signal.SIGKILL)
        np.testing.assert_array_equal(future.result(timeout=120), wanted.t)


def test_kernels_before_tasks(cluster: Any) -> None:
    cluster.register_plugin(bvh.distributed.KernelPlugin(["builders"]))
    with pytest.raises(ValueError, match="parts"):
        bvh.distributed.KernelPlugin(["nothing"])


def test_threads_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, wanted in (("7", 7), ("", settings()[0] or default_threads())):
        monkeypatch.setenv("BVH_NUM_THREADS", given)
        settings.cache_clear()
        assert default_threads() == wanted
    for wrong in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("BVH_NUM_THREADS", wrong)
        settings.cache_clear()
        with pytest.raises(ValueError, match="BVH_NUM_THREADS"):
            default_threads()
    monkeypatch.undo()
    settings.cache_clear()


@pytest.mark.parametrize(
    ("own", "limits", "wanted"),
    [
        ("0::/a/b", {"a": "150000 100000", "a/b": "max 100000"}, 2),
        ("0::/a/b", {"a": "800000 100000", "a/b": "300000 100000"}, 3),
        ("0::/", {"": "50000 100000"}, 1),
        ("0::/a", {"a": "max 100000"}, 1 << 30),
        ("0::/a", {"a": "nonsense"}, 1 << 30),
        ("4:memory:/a", {"a": "100000 100000"}, 1 << 30),
        ("0::/../..", {}, 1 << 30),
    ],
)
def test_quota_of_a_container(
    own: str, limits: dict[str, str], wanted: int, tmp_path: Path
) -> None:
    for group, limit in limits.items():
        folder = tmp_path / "cgroup" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.max").write_text(limit + "\n")
    (tmp_path / "self").write_text(own + "\n")
    assert cpu_quota(tmp_path / "self", tmp_path / "cgroup") == wanted
