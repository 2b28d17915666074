"""The stages one after the other: launches are recorded once, counters read once a chunk."""

from __future__ import annotations

import functools
from typing import Any, cast

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.layout import STACK
from bvh.devices.ray_kernels import DeviceRays, RayColumns
from bvh.devices.searches.rays import COUNT
from bvh.devices.stages.decide import by_doubles, by_sums
from bvh.devices.stages.search import (
    ALL_RAYS,
    CROWDED,
    DECIDE,
    DECIDE_BY_SUMS,
    MEASURE_BY_SUMS,
    QUEUES,
    UNDECIDED,
    Work,
    search_kernel,
)

# Triangles that are kept of a ray, and of the few rays that have more: what still has is for the
# CPU. The arrays of a chunk of CHUNK rays take 4 * (KEPT + QUEUES + 2) bytes a ray, in a scene
# 4 * KEPT more.
KEPT, MOST_KEPT, CHUNK = 16, 256, 2**22
# Threads of a stage that reads a queue, of each multiprocessor; and of a block.
THREADS, BLOCK = 1024, 128
# Stacks of the search: the smaller one serves nearly all trees, and takes less local memory. Of a
# node that is left for later an entry lies on the stack for each level; of a leaf's tree one more,
# and one for the leaves beside it; and one below all.
SMALL_STACK, LARGE_STACK, MORE = 32, 2 * STACK + 4, 4
# On a CPU sums are at once, as compilers take longer than they do; whether all stages run there,
# too, as tests need it.
EVERY_STAGE = False

# A function, as kernels of trees that nobody sends need no code.
search_for = functools.cache(search_kernel)


class Stages:
    """The stages of closest hits, any hits and counts on a device, and their memory."""

    def __init__(self, device: Any, kept: int = KEPT) -> None:
        self.device, self.kept, self.chunk = device, kept, CHUNK * KEPT // kept
        self.work, self.capacity = Work(), 0
        self.work.counters = wp.zeros(QUEUES, dtype=wp.int32, device=device)
        # Counters on the host, in memory that a GPU writes to.
        self.seen = wp.zeros(QUEUES, dtype=wp.int32, device="cpu", pinned=device.is_cuda)
        self.commands: dict[Any, Any] = {}
        # The same stages for rays with more triangles.
        self.wider: Stages | None = None

    def trace(
        self, target: Any, rays: Any, query: Any, columns: Any, count: int
    ) -> NDArray[np.int32]:
        """Trace rays; return the indices of those that are not decided."""
        work, in_scene, counting = self.work, bool(target.is_scene), query.goal == int(COUNT)
        left: dict[int, list[Any]] = {CROWDED: [], UNDECIDED: [np.empty(0, np.int32)]}
        size = SMALL_STACK if target.depth + MORE <= SMALL_STACK else LARGE_STACK
        search, of_all = search_for(size, in_scene, counting), in_scene or counting
        self._hold(min(count, self.chunk), in_scene)
        for start in range(0, count, self.chunk):
            work.start, work.count = start, min(self.chunk, count - start)
            cores = THREADS * self.device.sm_count if self.device.is_cuda else 1
            work.threads = min(work.count, cores)
            arguments = target, rays, query, work, columns
            self._launch(search, work.count, arguments)
            if self.device.is_cuda or EVERY_STAGE:
                self._run(by_doubles(of_all), arguments)
                counts = self._counts()
                if counts[DECIDE_BY_SUMS] or counts[MEASURE_BY_SUMS]:
                    self._run(by_sums(DECIDE_BY_SUMS, MEASURE_BY_SUMS, of_all), arguments)
            else:
                self._run(by_sums(DECIDE, ALL_RAYS, True), arguments)
            counts = self._counts()
            for queue, rows in left.items():
                if counts[queue]:
                    rows.append(work.queues[queue][: counts[queue]].numpy())
            work.counters.zero_()
        if left[CROWDED]:
            crowded = np.concatenate(left[CROWDED])
            if self.kept < MOST_KEPT:
                crowded = self._widened(target, rays, query, columns, crowded)
            left[UNDECIDED].append(crowded)
        return np.sort(np.concatenate(left[UNDECIDED]))

    def _widened(
        self, target: Any, rays: Any, query: Any, columns: Any, which: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """Trace some of the rays again, keeping more triangles; return those not decided."""
        if self.wider is None:
            self.wider = Stages(self.device, MOST_KEPT)
        places, some, found = wp.array(which, device=self.device), DeviceRays(), RayColumns()
        # Warp lists the fields of its structs.
        rays_of, columns_of = cast("Any", DeviceRays), cast("Any", RayColumns)
        for name in rays_of.vars:
            rows = getattr(rays, name)
            setattr(some, name, rows[places].contiguous() if rows.shape[0] > 1 else rows)
        names = [name for name in columns_of.vars if getattr(columns, name) is not None]
        for name in names:
            dtype = getattr(columns, name).dtype
            setattr(found, name, wp.empty(len(which), dtype=dtype, device=self.device))
        undecided = self.wider.trace(target, some, query, found, len(which))
        for name in names:
            wp.copy(getattr(columns, name)[places], getattr(found, name))
        return which[undecided]

    def _hold(self, count: int, in_scene: bool) -> None:
        """Provide memory for chunks of `count` rays."""
        if count > self.capacity:
            shapes: dict[str, Any] = {
                "known": count, "kept_count": count, "kept": (self.kept, count),
                "queues": (QUEUES, count), "leaves": (self.kept, count if in_scene else 0),
            }  # fmt: skip
            for name, shape in shapes.items():
                setattr(self.work, name, wp.empty(shape, dtype=wp.int32, device=self.device))
            self.capacity = count

    def _run(self, stages: Any, arguments: tuple[Any, ...]) -> None:
        """Launch kernels that read queues; on a CPU, where looking costs nothing, if these are."""
        counting = arguments[2].goal == int(COUNT)
        for kernel, queue in stages:
            if queue == ALL_RAYS:
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
