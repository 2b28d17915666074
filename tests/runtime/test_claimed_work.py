"""Chunks that kernels claim: each once, by any number of threads; errors and interruption."""

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bvh import BVH
from bvh.runtime import threads as shared
from bvh.runtime.threads import share_claimed


class Kernel:
    """Stand-in for a kernel: records which rows it is called for, and claims chunks."""

    def __init__(self, count: int, fails_at: int = -1) -> None:
        self.times = np.zeros(count, np.int64)
        self.calls, self.fails_at, self.lock = 0, fails_at, threading.Lock()

    def work(self, begin: int, end: int) -> None:
        self.times[begin:end] += 1
        if begin <= self.fails_at < end:
            raise ArithmeticError("as a kernel with an error")

    def claim(self, queue: NDArray[np.int64], most: int) -> None:
        with self.lock:
            self.calls += 1
        for _ in range(most):
            with self.lock:
                k = int(queue[0])
                queue[0] += 1
            if k >= len(queue) - 2:
                return
            self.work(int(queue[k + 1]), int(queue[k + 2]))


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 17, 100, 1000])
def test_each_row_once(count: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "THREAD_SECONDS", 1e-9)
    kernel = Kernel(count)
    share_claimed(count, 64, 4, kernel.work, kernel.claim, threads)
    assert (kernel.times == 1).all()


def test_little_work_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many threads there may be."""
    monkeypatch.setattr(shared, "THREAD_SECONDS", 1e9)
    monkeypatch.setattr(shared, "pool", lambda threads: pytest.fail("a thread was started"))
    kernel = Kernel(1000)
    share_claimed(1000, 64, 4, kernel.work, kernel.claim, 16)
    assert (kernel.times == 1).all()


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_nothing_is_claimed(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work ends, as for rays of an empty tree: their kernel returns at once."""
    monkeypatch.setattr(shared, "THREAD_SECONDS", 1e-9)
    share_claimed(1000, 8, 4, lambda begin, end: None, lambda queue, most: None, threads)
    nothing = BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), np.int32), warn=False)
    rays = np.ones((2, 10_000, 3))
    assert not nothing.closest_hit(*rays, threads=threads).mask.any()
    assert not nothing.any_hit(*rays, threads=threads).any()


@pytest.mark.parametrize("fails_at", [0, 5, 999])
def test_errors_end_the_work(fails_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "THREAD_SECONDS", 1e-9)
    kernel = Kernel(1000, fails_at)
    with pytest.raises(ArithmeticError, match="as a kernel"):
        share_claimed(1000, 8, 4, kernel.work, kernel.claim, 3)
    assert (kernel.times <= 1).all()


@pytest.mark.parametrize("shape", [(1,), (129,), (700,), (40_001,), (300, 201)])
def test_kernels_claim_chunks(
    shape: tuple[int, ...], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closest hits and any hits by many threads are those of one, bit by bit."""
    monkeypatch.setattr(shared, "THREAD_SECONDS", 1e-9)
    corners = rng.normal(size=(600, 3)) + np.repeat(rng.normal(size=(200, 3)), 3, axis=0) * 3.0
    tree = BVH.from_triangles(corners, np.arange(600).reshape(-1, 3))
    o, d = rng.normal(size=(2, *shape, 3))
    alone: Any = tree.closest_hit(o, d, threads=1)
    for threads in (2, 3, 16):
        for sort in (None, True, False):
            hits = tree.closest_hit(o, d, threads=threads, sort=sort)
            for name in ("t", "prim_id", "u", "v", "front"):
                assert getattr(hits, name).tobytes() == getattr(alone, name).tobytes()
            any_hit = tree.any_hit(o, d, threads=threads, sort=sort)
            assert np.array_equal(any_hit, alone.mask)


def test_answers_of_many_threads(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of hits, points inside and lines of sight by many threads are those of one."""
    monkeypatch.setattr(shared, "THREAD_SECONDS", 1e-9)
    corners = rng.normal(size=(900, 3)) + np.repeat(rng.normal(size=(300, 3)), 3, axis=0)
    tree = BVH.from_triangles(corners, np.arange(900).reshape(-1, 3), warn=False)
    p, q = rng.normal(size=(2, 30_001, 3)) * 2.0
    # Some points are on the surface, and some lines have no length, or a NaN.
    p[::500] = corners[:61]
    q[::700], q[::900] = p[::700], np.nan
    alone: Any = tree.all_hits(p, q - p, threads=1)
    inside, seen = tree.contains(p, threads=1), tree.visible(p, q, threads=1)
    counts = tree.count_hits(p, q - p, threads=1)
    assert inside[::500].all()
    blocked = tree.any_hit(p, q - p, t_min=1e-9, t_max=1.0 - 1e-9)
    assert (seen[np.isfinite(q).all(axis=1)] == ~blocked[np.isfinite(q).all(axis=1)]).mean() > 0.99
    for threads in (2, 3, 16):
        hits = tree.all_hits(p, q - p, threads=threads)
        for name in ("t", "prim_id", "u", "v", "front", "offsets"):
            assert getattr(hits, name).tobytes() == getattr(alone, name).tobytes()
        assert (tree.count_hits(p, q - p, threads=threads) == counts).all()
        assert (tree.contains(p, threads=threads) == inside).all()
        assert (tree.visible(p, q, threads=threads) == seen).all()


def test_unlike_first_rays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is shared once it turns out to take longer than its beginning."""
    begun: list[int] = []
    monkeypatch.setattr(shared, "pool", begun.append)
    monkeypatch.setattr(shared, "THREAD_SECONDS", 1e-4)
    # The clock of a batch whose third row and all later ones take a second each.
    clock, kernel = [0.0], Kernel(200)
    monkeypatch.setattr(shared.time, "perf_counter", lambda: clock[0])

    def work(begin: int, end: int) -> None:
        clock[0] += max(0, end - max(begin, 2))
        kernel.work(begin, end)

    share_claimed(200, 64, 4, work, kernel.claim, 3)
    assert begun == [3]
    assert (kernel.times == 1).all()
