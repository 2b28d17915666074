"""The stages one after the other: launches are recorded once, counters read once a chunk."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.layout import STACK
from bvh.devices.stages.decide import BY_DOUBLES, BY_SUMS
from bvh.devices.stages.search import (
    CROWDED,
    DECIDE_BY_SUMS,
    KEPT,
    MEASURE_BY_SUMS,
    OF_ALL,
    QUEUES,
    UNDECIDED,
    Work,
    search_kernel,
)

# Rays of a chunk: the arrays of `Work` take 4 * (KEPT + QUEUES + 2) bytes a ray.
CHUNK = 2**22
# Threads of a stage that reads a queue, of each multiprocessor; and of a block.
THREADS, BLOCK = 1024, 128
# Stacks of the search: the smaller one serves nearly all trees, and takes less local memory.
SMALL_STACK = 32

# A function, as kernels of trees that nobody sends need no code.
search_for = functools.cache(search_kernel)


class Stages:
    """The stages of closest hits and any hits of a tree on a device, and their memory."""

    def __init__(self, target: Any, device: Any) -> None:
        self.target, self.device = target, device
        # A node that is left for later lies on the stack for each level, and one entry below all.
        size = SMALL_STACK if target.top.depth < SMALL_STACK - 1 else STACK + 2
        self.search = search_for(size)
        self.work, self.capacity = Work(), 0
        self.work.counters = wp.zeros(QUEUES, dtype=wp.int32, device=device)
        # Counters on the host, in memory that a GPU writes to.
        self.seen = wp.zeros(QUEUES, dtype=wp.int32, device="cpu", pinned=device.is_cuda)
        self.commands: dict[Any, Any] = {}

    def trace(
        self, rays: Any, query: Any, columns: Any, count: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Trace rays; return those with too many triangles, and those that are not decided."""
        work = self.work
        left: tuple[list[Any], list[Any]] = [], []
        self._hold(min(count, CHUNK))
        for start in range(0, count, CHUNK):
            work.start, work.count = start, min(CHUNK, count - start)
            cores = THREADS * self.device.sm_count if self.device.is_cuda else 1
            work.threads = min(work.count, cores)
            arguments = self.target, rays, query, work, columns
            self._launch(self.search, work.count, arguments[:4])
            self._run(BY_DOUBLES, arguments)
            counts = self._counts()
            if counts[DECIDE_BY_SUMS] or counts[MEASURE_BY_SUMS]:
                self._run(BY_SUMS, arguments)
                counts = self._counts()
            for rows, queue in zip(left, (CROWDED, UNDECIDED), strict=True):
                if counts[int(queue)]:
                    rows.append(work.queues[int(queue)][: counts[int(queue)]].numpy())
            work.counters.zero_()
        none = np.empty(0, np.int32)
        crowded, undecided = (np.sort(np.concatenate([none, *rows])) for rows in left)
        return crowded, undecided

    def _hold(self, count: int) -> None:
        """Provide memory for chunks of `count` rays."""
        if count > self.capacity:
            shapes = {
                "known": count,
                "kept_count": count,
                "kept": (KEPT, count),
                "queues": (QUEUES, count),
            }
            for name, shape in shapes.items():
                setattr(self.work, name, wp.empty(shape, dtype=wp.int32, device=self.device))
            self.capacity = count

    def _run(self, stages: Any, arguments: tuple[Any, ...]) -> None:
        """Launch kernels that read queues; on a CPU, where looking costs nothing, if these are."""
        for kernel, queue in stages:
            if self.device.is_cuda or queue == OF_ALL or self._counts()[queue]:
                self._launch(kernel, self.work.threads, arguments)

    def _launch(self, kernel: Any, threads: int, arguments: tuple[Any, ...]) -> None:
        """Launch a kernel; it is recorded at the first time."""
        command = self.commands.get(kernel)
        if command is None:
            command = self.commands[kernel] = wp.launch(
                kernel, threads, inputs=list(arguments), device=self.device,
                record_cmd=True, block_dim=BLOCK,
            )  # fmt: skip
        for index, value in enumerate(arguments):
            command.set_param_at_index(index, value)
        command.set_dim(threads)
        command.launch()

    def _counts(self) -> list[int]:
        """Return the counters, when all stages have run."""
        wp.copy(self.seen, self.work.counters)
        if self.device.is_cuda:
            wp.synchronize_stream(wp.get_stream(self.device))
        counts: list[int] = self.seen.numpy().tolist()
        return counts
