"""CPUs that a process may use: BVH_NUM_THREADS, affinity, quotas of containers, tasks of many."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import bvh
from bvh.runtime import arguments, cpus, threads
from bvh.runtime.arguments import thread_count
from bvh.runtime.cpus import MOST, UNLIMITED, cpu_quota, default_threads, settings, task_threads
from tests.cases.families import sphere

CLOSED = np.array([[0.0, 0.0, 5.0]]), np.array([[0.0, 0.0, -1.0]])


@pytest.fixture(autouse=True)
def read_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Settings are read once in a process."""
    monkeypatch.delenv("BVH_NUM_THREADS", raising=False)
    settings.cache_clear()
    yield
    settings.cache_clear()


def test_threads_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, wanted in (("7", 7), (" 3 ", 3), (str(MOST), MOST)):
        monkeypatch.setenv("BVH_NUM_THREADS", given)
        settings.cache_clear()
        assert default_threads() == wanted


@pytest.mark.parametrize(
    "wrong", ["0", "-1", "two", "1.5", "1e3", "0x4", "²", "4,4", str(MOST + 1), "9" * 5000]
)
def test_settings_that_are_no_numbers(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds and queries say so, each time."""
    tree = bvh.BVH.from_triangles(*sphere(1))
    monkeypatch.setenv("BVH_NUM_THREADS", wrong)
    settings.cache_clear()
    for call in (
        default_threads,
        lambda: bvh.BVH.from_triangles(*sphere(1)),
        lambda: tree.closest_hit(np.zeros((9, 3)), np.ones((9, 3))),
        lambda: tree.distance(np.zeros((9, 3))),
    ):
        with pytest.raises(ValueError, match="BVH_NUM_THREADS must be a number from 1 to"):
            call()  # type: ignore[operator]


@pytest.mark.parametrize("given", ["", "  "])
def test_an_empty_setting_is_none(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = default_threads()
    monkeypatch.setenv("BVH_NUM_THREADS", given)
    settings.cache_clear()
    assert default_threads() == wanted


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity")
def test_affinity() -> None:
    """It may change while the process runs."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert default_threads() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert default_threads() == min(len(before), settings()[1])


def test_the_lesser_of_affinity_and_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    for quota, wanted in ((4, 4), (9, 6), (0, 1)):
        monkeypatch.setattr(cpus, "cpu_quota", lambda *_, quota=quota: quota)
        settings.cache_clear()
        assert default_threads() == wanted
    monkeypatch.setenv("BVH_NUM_THREADS", "12")
    settings.cache_clear()
    assert default_threads() == 12


@pytest.mark.parametrize(
    ("own", "limits", "wanted"),
    [
        ("0::/a/b", {"a": "150000 100000", "a/b": "max 100000"}, 2),
        ("0::/a/b", {"a": "800000 100000", "a/b": "300000 100000"}, 3),
        ("0::/a/b", {"a": "300000 100000", "a/b": "800000 100000"}, 3),
        # A container whose groups are mounted from its own: the path is of the host.
        ("0::/system.slice/docker-12.scope", {"": "200000 100000"}, 2),
        ("0::/", {"": "50000 100000"}, 1),
        ("0::/", {"": "100001 100000"}, 2),
        ("0::/a", {"a": "max 100000"}, UNLIMITED),
        ("0::/a", {"a": "nonsense"}, UNLIMITED),
        ("0::/a", {"a": ""}, UNLIMITED),
        ("0::/a", {"a": "-1 100000"}, UNLIMITED),
        ("0::/a", {"a": "100000 0"}, UNLIMITED),
        ("0::/a", {"a": "100000 100000 100000"}, UNLIMITED),
        # Version 1, and both: limits of version 1 are in other files.
        ("4:cpu,cpuacct:/a", {"a": "100000 100000"}, UNLIMITED),
        ("12:cpu:/a\n1:name=systemd:/a\n0::/b", {"a": "100000 100000"}, UNLIMITED),
        ("0::/../..", {}, UNLIMITED),
        ("0::/a (deleted)", {"": "200000 100000"}, 2),
        ("", {"": "100000 100000"}, UNLIMITED),
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


def test_where_there_are_no_groups(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "none", tmp_path / "cgroup") == UNLIMITED
    (tmp_path / "self").write_bytes(b"0::/a\xff\xfe\n")
    assert cpu_quota(tmp_path / "self", tmp_path / "cgroup") == UNLIMITED
    (tmp_path / "cgroup" / "cpu.max").mkdir(parents=True)
    assert cpu_quota(tmp_path / "self", tmp_path / "cgroup") == UNLIMITED


def test_a_task_of_many() -> None:
    """It counts in its own thread, and ends with the task, however that ends."""
    outside, others = default_threads(), []
    with pytest.raises(KeyboardInterrupt), task_threads(1):
        assert default_threads() == 1
        with task_threads(3):
            assert default_threads() == 3
        assert default_threads() == 1
        thread = threading.Thread(target=lambda: others.append(default_threads()))
        thread.start()
        thread.join()
        raise KeyboardInterrupt
    assert [default_threads(), *others] == [outside, outside]


def test_builds_and_batches_use_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    pool = threads.pool
    monkeypatch.setattr(threads, "pool", lambda count: asked.append(count) or pool(count))
    monkeypatch.setattr(threads, "THREAD_SECONDS", 1e-9)
    vertices, faces = sphere(5)
    rays = np.tile(CLOSED[0], (100_000, 1)), np.tile(CLOSED[1], (100_000, 1))
    for count in (1, 3):
        monkeypatch.setenv("BVH_NUM_THREADS", str(count))
        settings.cache_clear()
        asked.clear()
        tree = bvh.BVH.from_triangles(vertices, faces)
        built = max(asked, default=1)
        asked.clear()
        tree.closest_hit(*rays)
        assert (built, max(asked, default=1)) == (count, count)


def test_all_cpus_by_minus_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the affinity, whatever the default is; other negative numbers are refused."""
    monkeypatch.setattr(cpus, "allowed_cpus", lambda: 5)
    monkeypatch.setattr(arguments, "allowed_cpus", lambda: 5)
    monkeypatch.setenv("BVH_NUM_THREADS", "2")
    settings.cache_clear()
    assert (thread_count(None), thread_count(-1), thread_count(3)) == (2, 5, 3)
    with task_threads(-1):
        assert default_threads() == 5
    for wrong in (0, -2):
        with pytest.raises(ValueError, match=f"threads must be at least 1, or -1 .*, got {wrong}"):
            thread_count(wrong)
    with pytest.raises(TypeError, match="threads must be an integer, got"):
        thread_count(1.5)  # type: ignore[arg-type]
    vertices, faces = sphere(2)
    tree = bvh.BVH.from_triangles(vertices, faces, threads=-1)
    assert tree.any_hit(*CLOSED, threads=-1).all() and tree.contains([0.0, 0.0, 0.0], threads=-1)
    da = pytest.importorskip("dask.array")
    lazy = tree.any_hit(da.from_array(CLOSED[0]), CLOSED[1], threads=-1)
    assert lazy.compute(scheduler="sync").all()
    with pytest.raises(ValueError, match="threads must be at least 1, or -1 for all CPUs, got -3"):
        tree.any_hit(da.from_array(CLOSED[0]), CLOSED[1], threads=-3)
