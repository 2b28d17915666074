"""Trees on many threads, after a fork, with progress, and interrupted."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bvh import BVH
from bvh.runtime import threads as workers
from tests.cases.soups import MANY, rays_at, same, soup


def test_many_threads_share_a_tree(rng: np.random.Generator) -> None:
    """Queries and builds from eight Python threads at once, each on threads of its own."""
    mesh = soup(rng)
    tree = BVH.from_triangles(*mesh)
    batches = [rays_at(tree, rng, 6_000) for _ in range(8)]
    wanted = [tree.closest_hit(*rays, threads=1) for rays in batches]

    def work(i: int) -> bool:
        other = BVH.from_triangles(*mesh, threads=2)
        return same(other.closest_hit(*batches[i], threads=2), wanted[i]) and all(
            same(tree.closest_hit(*batches[i], threads=threads), wanted[i])
            and np.array_equal(tree.any_hit(*batches[i], threads=threads), wanted[i].mask)
            for threads in (1, 2, 5)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_queries_and_builds(rng: np.random.Generator) -> None:
    """On threads of its own: those of the parent do not exist there."""
    context = multiprocessing.get_context("fork")
    mesh = soup(rng)
    tree = BVH.from_triangles(*mesh, threads=2)
    rays = rays_at(tree, rng, 20_000)
    wanted = tree.closest_hit(*rays, threads=2)
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        again = BVH.from_triangles(*mesh, threads=2).closest_hit(*rays, threads=2)
        sender.send(same(tree.closest_hit(*rays, threads=2), wanted) and same(again, wanted))

    process = context.Process(target=child)
    process.start()
    try:
        assert receiver.poll(60) and receiver.recv()
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [0, 1, 9_000, MANY])
def test_progress(n: int, threads: int, rng: np.random.Generator) -> None:
    """It never goes back, ends at (total, total), and its exceptions stop the work."""
    mesh, calls = soup(rng, n), []
    tree = BVH.from_triangles(*mesh, threads=threads, progress=lambda *call: calls.append(call))
    reports = [calls]
    rays = np.zeros((n, 3)), np.ones(3)
    for ask in (tree.closest_hit, tree.any_hit):
        reports.append([])
        ask(*rays, threads=threads, progress=lambda *call: reports[-1].append(call))
    for report in reports:
        assert report and report[-1] == (n, n)
        assert report == sorted(report) and {total for _, total in report} == {n}
        assert all(type(number) is int for call in report for number in call)

    def stop(*call: int) -> None:
        calls.append(call)
        raise LookupError("the callback's own")

    for ask, given in (BVH.from_triangles, mesh), (tree.closest_hit, rays), (tree.any_hit, rays):
        calls.clear()
        with pytest.raises(LookupError, match="own"):
            ask(*given, threads=threads, progress=stop)
        assert len(calls) == 1
    # Nothing is left behind that would disturb the next one.
    assert len(tree.closest_hit(*rays, threads=threads)) == n


# The signal comes while the work is under way, wherever that is; nothing depends on when the parent
# has its turn. What a shell starts in the background ignores SIGINT, and all that it starts, too.
INTERRUPTED = """
import os, signal, threading, time
import numpy as np
from bvh import BVH
signal.signal(signal.SIGINT, signal.default_int_handler)
calls, sent = [], []
def send():
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
def say(*call):
    calls.append(call)
    if len(calls) == 1:
        threading.Timer(0.1, send).start()
try:
WORK
    print('finished', calls, sent, time.perf_counter())
except KeyboardInterrupt:
    print('interrupted', time.perf_counter() - sent[0])
"""
LONG = {
    "build": """
    faces = np.random.default_rng(0).integers(0, 10**6, (3 * 10**6, 3))
    BVH.from_triangles(np.random.rand(10**6, 3), faces, threads=THREADS, progress=say)
""",
    # A thousand triangles that every ray must test, and misses.
    "batch": """
    tree = BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 1]], [[0, 1, 2]] * 1000)
    ends = np.full(5 * 10**6, 9.0)
    tree.closest_hit([0.9, 0.9, 3], [0, 0, -1], 0, ends, threads=THREADS, progress=say)
""",
}


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to another process")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("what", LONG)
def test_ctrl_c(what: str, threads: int) -> None:
    """A long job ends with KeyboardInterrupt, at once."""
    script = INTERRUPTED.replace("WORK", LONG[what].replace("THREADS", str(threads)))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[2],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    word, _, seconds = done.stdout.partition(" ")
    assert word == "interrupted", f"{done.stdout}\n{done.stderr}"
    # A second is promised; a busy machine gets a few.
    assert float(seconds) < 5.0, done.stderr


class InterruptedLock:
    """A lock whose holder is interrupted just after it has waited for it with a timeout."""

    def __init__(self, lock: Any) -> None:
        self._lock, self.release = lock, lock.release

    def acquire(self, blocking: bool = True, timeout: float = -1.0) -> bool:
        got = bool(self._lock.acquire(blocking, timeout))
        if got and timeout > 0.0:
            raise KeyboardInterrupt
        return got


def test_an_interrupt_just_after_a_helper_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupted wait holds the lock that ends a job, and nobody waits for it again."""

    class Job(workers.Job):
        def __init__(self, call: Callable[[], object]) -> None:
            super().__init__(call)
            self.ended: Any = InterruptedLock(self.ended)

    monkeypatch.setattr(workers, "Job", Job)
    caught: list[BaseException] = []

    def run() -> None:
        try:
            workers.watch([lambda: time.sleep(0.2)] * 2, 2, np.zeros(1, np.int32))
        except KeyboardInterrupt as error:
            caught.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60.0)
    assert not thread.is_alive() and caught


def test_a_helper_that_fails_ends_the_work() -> None:
    """The remaining work is dropped when the exception arrives."""
    failed = threading.Event()
    done: list[int] = []

    def work(begin: int, end: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            failed.set()
            raise ValueError("a helper's")
        assert failed.wait(60.0)
        # Let the helper hand in its exception.
        time.sleep(0.05)
        done.append(begin)

    with pytest.raises(ValueError, match="a helper's"):
        workers.share(100, 1, work, 2)
    assert len(done) < 10
