"""Virtual cores: how long a call would take on more cores than the machine has.

All chunks that a call would share among P threads run one after the other on the calling thread,
each one's CPU time is measured, and a greedy schedule of them on P cores replaces their sum. What
the model has is the serial part of a call, the number and sizes of chunks, the interpreter's lock,
and the time to wake threads. What it has not: memory bandwidth, caches and page faults that cores
share, clock rates that fall. Its times are lower bounds of those of real cores.
"""

from __future__ import annotations

import contextlib
import heapq
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from bvh.runtime import threads as real

# Seconds that a chunk holds the interpreter's lock, that it takes to wake a helper, and until the
# helper runs: measured on two cores.
LOCKED, SUBMIT, WAKE = 8e-6, 4e-6, 20e-6
# Calls that measure the time of a call.
SAMPLE = 20


class VirtualCores:
    """Replacement of the functions that share work among threads, which counts CPU time."""

    def __init__(self) -> None:
        self.serial = self.parallel = 0.0

    def share(
        self, count: int, size: int, work: Callable[[int, int], object], threads: int,
        progress: Any = None, least: int = 0,
    ) -> None:  # fmt: skip
        """Run the chunks of `share`."""
        if count == 0:
            return
        if count <= (size if threads == 1 or not least else least):
            work(0, count)
            return
        chunks = real._chunks(count, size, threads, least if threads > 1 else 0)
        self._run([partial(work, *chunk) for chunk in chunks], threads)

    def share_claimed(
        self, count: int, size: int, least: int, work: Callable[[int, int], object],
        claim: Callable[[Any, int], object], threads: int,
    ) -> None:  # fmt: skip
        """Run the chunks of `share_claimed`, each by a call of its own."""
        queue, used = real.queue_of(count, size, least, work, threads)
        if len(queue) == 2:
            return
        empty = np.array([0, 0], np.int64)
        # The time of a call counts once for each core, not for each chunk.
        begun = time.thread_time()
        for _ in range(SAMPLE):
            claim(empty, 1)
        called = (time.thread_time() - begun) / SAMPLE
        self.serial += called * SAMPLE
        self._run([partial(claim, queue, 1)] * (len(queue) - 2), used, called)

    def watch(
        self, calls: Any, threads: int, cancel: Any, report: Callable[[], object] | None = None
    ) -> list[Any]:
        """Run the calls of `watch`."""
        return self._run(list(calls), threads)

    def share_long(
        self, count: int, size: int, work: Callable[[int, int], object], threads: int, cancel: Any,
        progress: Any = None,
    ) -> None:  # fmt: skip
        """Run the chunks of `share_long`."""
        self.share(count, count if threads == 1 else size, work, threads)

    def _run(
        self, calls: list[Callable[[], Any]], cores: int, called: float | None = None
    ) -> list[Any]:
        """Run calls. Those that claim chunks take `called` seconds less, once for each core."""
        # The serial part of the call does not include the measuring itself.
        costs, results, begun = [], [], time.thread_time()
        for call in calls:
            began = time.thread_time()
            results.append(call())
            costs.append(time.thread_time() - began)
        if called is not None:
            costs = [max(cost - called, 0.0) for cost in costs]
        self.parallel += makespan(costs, cores, LOCKED if called is None else 0.0, called or 0.0)
        self.serial += time.thread_time() - begun
        return results

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Replace the functions in all modules that have imported them."""
        names = ("share", "share_claimed", "watch", "share_long")
        replaced = [
            (module, name)
            for module in list(sys.modules.values())
            for name in names
            if getattr(module, "__name__", "").startswith("bvh.")
            and vars(module).get(name) is getattr(real, name)
        ]
        originals = {name: getattr(real, name) for name in names}
        try:
            for module, name in replaced:
                setattr(module, name, getattr(self, name))
            yield
        finally:
            for module, name in replaced:
                setattr(module, name, originals[name])


def makespan(costs: list[float], cores: int, locked: float, called: float) -> float:
    """Return the time in which cores finish chunks that are taken in order.

    A chunk holds the interpreter's lock for `locked` seconds; each core begins with a call, which
    takes `called` seconds.
    """
    helpers = min(cores, len(costs)) - 1
    # The calling thread wakes the helpers first, then takes part.
    free = [SUBMIT * helpers, *(WAKE + SUBMIT * (i + 1) for i in range(helpers))]
    free = [begin + called for begin in free]
    heapq.heapify(free)
    unlocked = end = 0.0
    for cost in costs:
        began = max(heapq.heappop(free), unlocked)
        unlocked = began + min(locked, cost) * (helpers > 0)
        end = max(end, began + cost)
        heapq.heappush(free, began + cost)
    return end


def seconds_on_cores(call: Callable[[], object], rounds: int) -> float:
    """Return the least modelled seconds of a call whose threads are cores."""
    least = float("inf")
    for _ in range(rounds):
        cores = VirtualCores()
        with cores.installed():
            began = time.thread_time()
            result = call()
            spent = time.thread_time() - began
        # The time to free the result does not count.
        del result
        least = min(least, spent - cores.serial + cores.parallel)
    return least
