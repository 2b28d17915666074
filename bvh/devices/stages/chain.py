"""The stages one after the other: launches are recorded once, counters read once a chunk."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.layout import STACK
from bvh.devices.searches.rays import COUNT
from bvh.devices.stages.decide import AT_ONCE, BY_DOUBLES, BY_SUMS
from bvh.devices.stages.search import (
    DECIDE_BY_SUMS,
    KEPT,
    LEFT,
    MEASURE_BY_SUMS,
    OF_ALL,
    QUEUES,
    Work,
    search_kernel,
)

# Rays of a chunk: the arrays of `Work` take 4 * (KEPT + QUEUES + 2) bytes a ray, in a scene
# 4 * KEPT more.
CHUNK = 2**22
# Threads of a stage that reads a queue, of each multiprocessor; and of a block.
THREADS, BLOCK = 1024, 128
# Stacks of the search: the smaller one serves nearly all trees, and takes less local memory. Of a
# node that is left for later an entry lies on the stack for each level; of a leaf's tree one more,
# and one for the leaves beside it; and one below all.
SMALL_STACK, LARGE_STACK, MORE = 32, 2 * STACK + 4, 4
# Whether all stages run on a CPU, too, as tests need it.
EVERY_STAGE = False

# A function, as kernels of trees that nobody sends need no code.
search_for = functools.cache(search_kernel)


class Stages:
    """The stages of closest hits, any hits and counts on a device, and their memory."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.work, self.capacity = Work(), 0
        self.work.counters = wp.zeros(QUEUES, dtype=wp.int32, device=device)
        # Counters on the host, in memory that a GPU writes to.
        self.seen = wp.zeros(QUEUES, dtype=wp.int32, device="cpu", pinned=device.is_cuda)
        self.commands: dict[Any, Any] = {}

    def trace(
        self, target: Any, rays: Any, query: Any, columns: Any, count: int
    ) -> NDArray[np.int32]:
        """Trace rays; return the indices of those that are not decided."""
        work, left, in_scene = self.work, [np.empty(0, np.int32)], bool(target.is_scene)
        size = SMALL_STACK if target.depth + MORE <= SMALL_STACK else LARGE_STACK
        search = search_for(size, in_scene, query.goal == int(COUNT))
        self._hold(min(count, CHUNK), in_scene)
        for start in range(0, count, CHUNK):
            work.start, work.count = start, min(CHUNK, count - start)
            cores = THREADS * self.device.sm_count if self.device.is_cuda else 1
            work.threads = min(work.count, cores)
            arguments = target, rays, query, work, columns
            self._launch(search, work.count, arguments)
            if self.device.is_cuda or EVERY_STAGE:
                self._run(BY_DOUBLES, arguments)
                counts = self._counts()
                if counts[DECIDE_BY_SUMS] or counts[MEASURE_BY_SUMS]:
                    self._run(BY_SUMS, arguments)
            else:
                self._run(AT_ONCE, arguments)
            number = self._counts()[LEFT]
            if number:
                left.append(work.queues[LEFT][:number].numpy())
            work.counters.zero_()
        return np.sort(np.concatenate(left))

    def _hold(self, count: int, in_scene: bool) -> None:
        """Provide memory for chunks of `count` rays."""
        if count > self.capacity:
            shapes: dict[str, Any] = {
                "known": count, "kept_count": count, "kept": (KEPT, count),
                "queues": (QUEUES, count), "leaves": (KEPT, count if in_scene else 0),
            }  # fmt: skip
            for name, shape in shapes.items():
                setattr(self.work, name, wp.empty(shape, dtype=wp.int32, device=self.device))
            self.capacity = count

    def _run(self, stages: Any, arguments: tuple[Any, ...]) -> None:
        """Launch kernels that read queues; on a CPU, where looking costs nothing, if these are."""
        counting = arguments[2].goal == int(COUNT)
        for kernel, queue in stages:
            if queue == OF_ALL:
                needed = not counting
            else:
                needed = self.device.is_cuda or self._counts()[queue] > 0
            if needed:
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
