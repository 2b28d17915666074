"""Threads of builds and batches: one pool, chunks of work, progress, interruption.

Kernels release the GIL, so plain threads run them in parallel. All callers share one pool of
*helpers*; a forked child makes its own. `share` does work in chunks, of which the calling thread
does some; `share_claimed` the same for short batches, whose kernel claims chunks itself;
`share_long` and `watch` work that may take seconds, while the calling thread only waits. All give
jobs to idle helpers by `_with_helpers`; if none is idle, the calling thread does all the work.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.interrupts import raise_lost_interrupts

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

Progress = Callable[[int, int], object]

# Memory that a thread may need to start, in addition to its stack; the size of unlimited stacks.
START_BYTES, STACK_BYTES = 1 << 20, 1 << 23

# Of the chunks that `queue_of` does on one thread: the size of the first one, and how many times as
# large the next ones are. Then the seconds of work that are worth a thread.
FIRST_CHUNK, GROWTH, THREAD_SECONDS = 2, 32, 2e-4
# If the chunks that it has claimed took less than this, in seconds, the calling thread claims twice
# as many at a time, otherwise half as many.
CLAIMED_SECONDS = 5e-3

# Numbers that a thread of `copied` takes at a time.
NUMBERS_AT_ONCE = 1 << 17
# Most numbers of a row that `copied` copies as a single element.
LONGEST_ROW = 8

# Seconds between reports of a waiting thread, so few that progress and Ctrl-C seem immediate.
POLL_SECONDS = 0.05

_lock = threading.Lock()
# Helpers without a job, and the number of all.
_idle: list[_Helper] = []
_pool_size = 0


class Job:
    """A call that a helper makes, unless it is withdrawn before it has begun."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call
        self.error: BaseException | None = None  # what the call has raised
        self.done = False  # whether the call has returned
        # `begun` is locked by whoever makes or withdraws the call, `ended` until it has returned.
        self.begun, self.ended = threading.Lock(), threading.Lock()
        self.ended.acquire()

    def withdraw(self) -> None:
        """Withdraw the call, or wait until it has returned."""
        # Not if the call is done: a wait for it may have locked `ended` before Ctrl-C ended that.
        if not self.begun.acquire(blocking=False) and not self.done:
            self.ended.acquire()


class _Helper(threading.Thread):
    """A thread that waits for a job, makes its call unless it is withdrawn, and waits again."""

    # Releasing the lock `wake` takes a tenth of the time of an executor's `submit`, and wakes this
    # thread alone, whereas threads that wait for one queue wake one another in turn.
    job: Any = None

    def __init__(self) -> None:
        super().__init__(name="bvh", daemon=True)
        self.wake = threading.Lock()
        self.wake.acquire()

    def run(self) -> None:
        """Make the calls of jobs, for ever; each is set before `wake` is released."""
        while True:
            self.wake.acquire()
            job, self.job = self.job, None
            # Fails if the caller has withdrawn the job.
            if job.begun.acquire(blocking=False):
                try:
                    job.call()
                except BaseException as error:
                    job.error = error
            # Listed before `ended` is released: the caller may need this helper at once.
            _idle.append(self)
            job.done = True
            job.ended.release()
            del job  # else its arrays would stay in memory until the next one


def pool(threads: int) -> None:
    """Start helpers until there are at least `threads` of them, or the system allows no more."""
    global _pool_size
    if _pool_size >= threads:
        return
    with _lock:
        # A thread that finds no memory at its start leaves its starter waiting for ever.
        _check_address_space(max(threads - _pool_size, 1))
        while _pool_size < threads:
            helper = _Helper()
            try:
                helper.start()
            except RuntimeError:
                # A limit of the container or user, or the interpreter ends: fewer have to do.
                return
            _idle.append(helper)
            _pool_size += 1


def _with_helpers(
    work: Callable[[list[Job], Callable[[], None]], object], call: Callable[[], object],
    count: int, threads: int, stop: Callable[[], object],
) -> None:  # fmt: skip
    """Do work(jobs, check) here, while each of up to `count` idle helpers calls `call`.

    The pool is first filled up to `threads` helpers. `jobs` has a job for each helper that was
    idle; check() raises a lost KeyboardInterrupt. After an error, here or in a helper, `stop` is
    called, and the error is raised once all have returned.
    """

    def call_or_stop() -> None:
        try:
            call()
        except BaseException:
            stop()
            raise

    jobs: list[Job] = []
    try:
        if count > 0:
            pool(threads)
        for _ in range(count):
            # list.pop is one step, here and below: two threads never take the same item.
            try:
                helper = _idle.pop()
            except IndexError:
                break
            helper.job = Job(call_or_stop)
            jobs.append(helper.job)
            helper.wake.release()
        with raise_lost_interrupts() as check:
            work(jobs, check)
    except BaseException:
        stop()
        raise
    finally:
        for job in jobs:
            job.withdraw()
    errors = [job.error for job in jobs if job.error is not None]
    # An error refers to this frame by its traceback: no cycle of references may remain.
    jobs.clear()
    if errors:
        raise errors.pop(0)


def _take_together(
    take: Callable[[], bool], help_out: Callable[[], object], stop: Callable[[], object],
    helpers: int, threads: int, report: Callable[[], object] | None = None,
) -> None:  # fmt: skip
    """Call `take` until it returns False, while up to `helpers` helpers each call `help_out` once.

    `threads` is as of `_with_helpers`. Between two calls of `take`, this thread calls `report`, and
    can be interrupted. After any error, `stop` is called: then no thread begins more work.
    """

    def work(_: list[Job], check: Callable[[], None]) -> None:
        while take():
            if report:
                report()
            check()

    _with_helpers(work, help_out, helpers, threads, stop)


def _check_address_space(threads: int) -> None:
    """Raise a MemoryError unless there is address space for `threads` threads."""
    if resource is None:
        return
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    size = threads * (START_BYTES + (STACK_BYTES if stack == resource.RLIM_INFINITY else stack))
    try:
        # Reserve that much address space, and release it at once; no page of it is touched.
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 0).close()
    except OSError:
        raise MemoryError(f"no memory to start {threads} threads") from None


def _forget_pool() -> None:
    """Drop the parent's helpers in a forked child: they do not exist there."""
    global _lock, _idle, _pool_size
    _lock, _idle, _pool_size = threading.Lock(), [], 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def watch(
    calls: Iterable[Callable[[], object]], threads: int, cancel: NDArray[np.int32],
    report: Callable[[], object] | None = None,
) -> list[Any]:  # fmt: skip
    """Run calls in helpers while this thread waits and calls `report`; return results in order.

    Any exception, KeyboardInterrupt included, sets `cancel[0]`, which the kernels poll.
    """
    waiting = list(enumerate(calls))[::-1]
    results: list[Any] = [None] * len(waiting)

    def run() -> None:
        while waiting and not cancel[0]:
            try:
                position, call = waiting.pop()
            except IndexError:
                return
            results[position] = call()

    def stop() -> None:
        cancel[0] = 1

    # Without helpers, this thread makes the calls. So does a helper: none waits for another one.
    is_helper = isinstance(threading.current_thread(), _Helper)

    def wait(jobs: list[Job], check: Callable[[], None]) -> None:
        for job in jobs:
            while not job.ended.acquire(timeout=POLL_SECONDS):
                if report:
                    report()
                check()
        run()
        if report:
            report()

    _with_helpers(wait, run, 0 if is_helper else min(threads, len(waiting)), threads, stop)
    return results


@lru_cache(maxsize=16)
def _chunks(count: int, size: int, threads: int, least: int) -> list[tuple[int, int]]:
    """Return chunks (start, stop) that cover 0..count; the list is cached, and may not be changed.

    Chunks have `size` items; if `least` is not 0, their sizes fall from at most `size` to `least`.
    """
    chunks, start = [], 0
    while start < count:
        # Two thirds of a fair share of what is left: few chunks, and threads end together.
        items = min(max(2 * (count - start) // (3 * threads), least), size) if least else size
        chunks.append((start, min(start + items, count)))
        start += items
    return chunks


def share(
    count: int, size: int, work: Callable[[int, int], object], threads: int,
    progress: Progress | None = None, least: int = 0,
) -> None:  # fmt: skip
    """Call work(start, stop) for chunks that cover 0..count, on up to `threads` threads.

    Chunks have `size` items; on several threads, if `least` is not 0, their sizes fall from at most
    `size` to `least`. The calling thread takes part; between chunks it calls progress(done, count),
    and can be interrupted.
    """
    if count <= (size if threads == 1 or not least else least) and progress is None:
        if count > 0:
            work(0, count)
        return
    chunks = _chunks(count, size, threads, least if threads > 1 else 0)[::-1]
    done: list[int] = []

    def take() -> bool:
        try:
            start, stop = chunks.pop()
        except IndexError:
            return False
        work(start, stop)
        done.append(stop - start)
        return True

    def help_out() -> None:
        while take():
            pass

    report = None if progress is None else lambda: progress(sum(done), count)
    _take_together(take, help_out, chunks.clear, min(threads, len(chunks)) - 1, threads, report)
    if progress is not None:
        progress(count, count)


def share_claimed(
    count: int, size: int, least: int, work: Callable[[int, int], object],
    claim: Callable[[NDArray[np.int64], int], object], threads: int,
) -> None:  # fmt: skip
    """Do the work of `share` by a kernel that claims chunks, after first chunks by `work`.

    claim(queue, most) calls the kernel, which does up to `most` chunks of a queue: an array of the
    number of chunks claimed so far, the start of each chunk, and the end of the last one.
    """
    queue, used = queue_of(count, size, least, work, threads)
    chunks, at_once = len(queue) - 2, 1

    def take() -> bool:
        # Some at a time, so that Ctrl-C is noticed. A kernel may claim nothing: for an empty tree.
        nonlocal at_once
        before, began = int(queue[0]), time.perf_counter()
        claim(queue, at_once)
        is_short = time.perf_counter() - began < CLAIMED_SECONDS
        at_once = 2 * at_once if is_short else max(at_once // 2, 1)
        return before < int(queue[0]) < chunks

    def stop() -> None:
        queue[0] = chunks

    if chunks > 0:
        helpers = min(used, chunks) - 1
        _take_together(take, lambda: claim(queue, chunks), stop, helpers, threads)


def queue_of(
    count: int, size: int, least: int, work: Callable[[int, int], object], threads: int
) -> tuple[NDArray[np.int64], int]:
    """Do chunks until the rest is worth two threads; return (queue of the rest, threads to use).

    The queue is that of `share_claimed`; it has no chunks if all work is done.
    """
    first, items = 0, FIRST_CHUNK
    while first < count:
        stop, began = min(first + items, count), time.perf_counter()
        work(first, stop)
        seconds = (time.perf_counter() - began) / (stop - first) * (count - stop)
        used = min(threads, int(seconds / THREAD_SECONDS))
        first, items = stop, min(GROWTH * items, size)
        if used > 1:
            return _new_queue(first, count, size, used, least).copy(), used
    return np.zeros(2, np.int64), 1


@lru_cache(maxsize=64)
def _new_queue(first: int, count: int, size: int, threads: int, least: int) -> NDArray[np.int64]:
    """Return the queue (see `share_claimed`) of chunks that cover first..count; cached."""
    ends = [first + stop for _, stop in _chunks(count - first, size, threads, least)]
    return np.array([0, first, *ends], np.int64)


def copied(array: NDArray[Any], threads: int, dtype: Any = np.float64) -> NDArray[Any]:
    """Return a copy of an array as numbers of a type, in C order, written by threads."""
    copy = result = np.empty(array.shape, dtype)
    size = len(array) * NUMBERS_AT_ONCE // max(array.size, 1) if threads > 1 else len(array)
    same = array.ndim > 1 and array.dtype == copy.dtype and array.strides[-1] == array.itemsize
    if same and 0 < array.shape[-1] <= LONGEST_ROW:
        # Rows as single elements: NumPy is slow where it broadcasts along a short last axis.
        row = f"V{array.shape[-1] * array.itemsize}"
        array, copy = array.view(row), copy.view(row)

    def write(begin: int, end: int) -> None:
        # Larger numbers than doubles become infinite.
        with np.errstate(over="ignore"):
            copy[begin:end] = array[begin:end]

    share(len(array), max(size, 1), write, threads)
    return result


def share_long(
    count: int, size: int, work: Callable[[int, int], object], threads: int,
    cancel: NDArray[np.int32], progress: Progress | None = None,
) -> None:  # fmt: skip
    """Call work(start, stop) as `share` does, where a chunk may take seconds.

    The calling thread only waits: it reports progress and can be interrupted. Then it sets
    `cancel[0]`, which the work polls. Without `progress`, it does all of the work in one call if
    there is a single chunk or a single thread.
    """
    if progress is None and (threads == 1 or count <= size):
        if count > 0:
            work(0, count)
        return
    done: list[None] = []

    def call(start: int) -> None:
        work(start, min(start + size, count))
        done.append(None)

    def report() -> None:
        if progress is not None:
            progress(min(len(done) * size, count), count)

    watch([partial(call, start) for start in range(0, count, size)], threads, cancel, report)
