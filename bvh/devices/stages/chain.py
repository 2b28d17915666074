"""The stages one after the other: launches are recorded once, counters read once a chunk."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.exact.point_triangle import close_on_triangle, nearest_on_triangle
from bvh.devices.layout import STACK
from bvh.devices.stages import marks
from bvh.devices.stages.decide import by_doubles, by_sums, stage_of
from bvh.devices.stages.points import point_decide_function, point_search_function
from bvh.devices.stages.search import search_function, search_kernel
from bvh.devices.stages.work import Work

# Stages (kernel, queue): a kernel takes the rays of its queue, or all rays for ALL_RAYS.
Kernels = tuple[tuple[Any, int], ...]
# Candidates stored for a ray, and in a second search for the few rays that have more; rays with
# still more are left to the CPU. The arrays of a chunk of CHUNK rays take 4 *
# (CAPACITY + QUEUES + 2) bytes a ray, in a scene and for nearest points 4 * CAPACITY more.
CAPACITY, LARGE_CAPACITY, CHUNK = 16, 1024, 2**22
# Threads of a stage that reads a queue, for each multiprocessor; threads of a block.
THREADS, BLOCK = 1024, 128
# Stacks of the search: the smaller one serves nearly all trees, and takes less local memory. They
# need an entry for each level, the node left for later; MORE covers the bottom of the stack and the
# entry `LEAVE` below a leaf's tree, with room to spare.
SMALL_STACK, LARGE_STACK, MORE = 32, 2 * STACK + 4, 4
# On Warp's CPU device exact sums directly follow the search, as compiling the other stages takes
# longer than they save; True, in tests, runs all stages there, too.
EVERY_STAGE = False
# Queues whose rays are open in the end; crowded ones are searched again, with more room.
FINAL = marks.CROWDED, marks.UNDECIDED


class Plan(NamedTuple):
    """The kernels of a query: the search, and the stages after it, in order."""

    search: Any
    doubles: Kernels  # of double-doubles, before those of exact sums; none on Warp's CPU device
    sums: Kernels


@functools.cache
def plan_of(size: int, in_scene: bool, goal: int, every: bool) -> Plan:
    """Return the kernels for a query mode `goal` of a tree, or `in_scene`; they are made once.

    The stack of the search has `size` entries. If `every`, stages of double-doubles come before
    those of exact sums.
    """
    if goal == marks.NEAREST:
        close, exact = map(point_decide_function, (close_on_triangle, nearest_on_triangle))
        search = search_kernel(point_search_function(min(size, STACK)))
        if not every:
            return Plan(search, (), (stage_of(exact, 255, marks.DECIDE),))
        first = stage_of(close, 168, marks.DECIDE, marks.DECIDE_BY_SUMS)
        return Plan(search, (first,), (stage_of(exact, 255, marks.DECIDE_BY_SUMS),))
    every_hit = goal in (marks.COUNT, marks.LIST)
    # Without double-doubles sums follow the search, by the general kernels whatever the goal.
    general, sums = in_scene or every_hit, by_sums(marks.DECIDE, marks.ALL_RAYS, True)
    doubles: Kernels = ()
    if every:
        doubles = by_doubles(general, goal == marks.LIST)
        sums = by_sums(marks.DECIDE_BY_SUMS, marks.MEASURE_BY_SUMS, general)
    if goal == marks.COUNT:
        # Counts need no t, u and v, so the stages that measure are left out.
        doubles, sums = doubles[:2], sums[:1]
    return Plan(search_kernel(search_function(size, in_scene, every_hit)), doubles, sums)


class Stages:
    """The stages of queries on a device, and their memory: `room` candidates for each ray."""

    def __init__(self, device: Any, room: int = CAPACITY) -> None:
        # With more room for each ray, chunks have fewer rays. `sizes` has the number of rays for
        # which each array of `work` has room, by name.
        self.device, self.room, self.chunk = device, room, CHUNK * CAPACITY // room
        self.work, self.sizes = Work(), dict[str, int]()
        self.work.counters = wp.zeros(marks.QUEUES, dtype=wp.int32, device=device)
        # Counters on the host, on a GPU in memory that it writes to.
        self.host_counters = self.work.counters
        if device.is_cuda:
            self.host_counters = wp.zeros(marks.QUEUES, dtype=wp.int32, device="cpu", pinned=True)
        # Recorded launches, by kernel.
        self.commands: dict[Any, Any] = {}
        # Stands for all rays, as `rows` of `_run_plan`.
        self.all_rows = wp.empty(0, dtype=wp.int32, device=device)
        # The same stages with more room, for rays with more candidates.
        self.wider: Stages | None = None

    def trace(
        self, target: Any, rays: Any, query: Any, columns: Any, count: int
    ) -> NDArray[np.int32]:
        """Answer the first `count` rays or points; return the indices of those not decided.

        They are `rays`, a `DeviceRays`; answers go into `columns`, a `Columns`. `target` is a
        `Target`, and `query` a `RayQuery`, whose goal is set.
        """
        size = SMALL_STACK if target.depth + MORE <= SMALL_STACK else LARGE_STACK
        every = self.device.is_cuda or EVERY_STAGE
        plan = plan_of(size, bool(target.is_scene), int(query.goal), every)
        return np.sort(self._run_plan(plan, (target, rays, query, columns), count, self.all_rows))

    def _run_plan(
        self, plan: Plan, inputs: tuple[Any, ...], count: int, rows: Any
    ) -> NDArray[np.int32]:
        """Run all stages for `count` rays, a chunk at a time; return those that are not decided.

        `inputs` is (target, rays, query, columns). `rows` has the indices of the rays; if it is
        empty, they are the first ones. The result has indices of rays or, with `rows`, into `rows`.
        """
        work, (target, rays, query, columns) = self.work, inputs
        left: dict[int, list[Any]] = {queue: [np.empty(0, np.int32)] for queue in FINAL}
        self._reserve(min(count, self.chunk), bool(target.is_scene), query.goal == marks.NEAREST)
        work.rows = rows
        for start in range(0, count, self.chunk):
            work.start, work.count = start, min(self.chunk, count - start)
            most = THREADS * self.device.sm_count if self.device.is_cuda else 1
            work.threads = min(work.count, most)
            arguments = target, rays, query, work, columns
            self._launch(plan.search, work.count, arguments)
            self._run(plan.doubles, arguments)
            # After double-doubles, the queues of exact sums are mostly empty.
            if not plan.doubles or any(self._counts()[queue] for _, queue in plan.sums):
                self._run(plan.sums, arguments)
            counts = self._counts()
            for queue, places in left.items():
                if counts[queue]:
                    places.append(start + work.queues[queue][: counts[queue]].numpy())
            work.counters.zero_()
        crowded, undecided = (np.concatenate(left[queue]) for queue in FINAL)
        if len(crowded) and self.room < LARGE_CAPACITY:
            self.wider = self.wider or Stages(self.device, LARGE_CAPACITY)
            some = wp.array(crowded, dtype=wp.int32, device=self.device)
            crowded = crowded[self.wider._run_plan(plan, inputs, len(crowded), some)]
        return np.concatenate([undecided, crowded])

    def _reserve(self, count: int, in_scene: bool, of_points: bool) -> None:
        """Make the arrays of `work` large enough for `count` rays, or points if `of_points`."""
        wide = (self.room, count)
        shapes: dict[str, Any] = {
            "outcome": count, "candidate_count": count, "candidates": wide,
            "queues": (marks.QUEUES, count),
        }  # fmt: skip
        shapes |= ({"leaves": wide} if in_scene else {}) | ({"lows": wide} if of_points else {})
        for name, shape in shapes.items():
            if count > self.sizes.get(name, 0):
                kind = wp.float32 if name == "lows" else wp.int32
                setattr(self.work, name, wp.empty(shape, dtype=kind, device=self.device))
                self.sizes[name] = count

    def _run(self, stages: Kernels, arguments: tuple[Any, ...]) -> None:
        """Launch stages; on a CPU, where counters are read for free, skip those of empty queues.

        `arguments` are those of kernels: (target, rays, query, work, columns).
        """
        for kernel, queue in stages:
            if self.device.is_cuda or queue == marks.ALL_RAYS or self._counts()[queue]:
                self._launch(kernel, self.work.threads, arguments)

    def _launch(self, kernel: Any, threads: int, arguments: tuple[Any, ...]) -> None:
        """Launch a kernel by its recorded command, which its first launch makes."""
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
        """Wait for all launched stages, and return the lengths of the queues."""
        if self.device.is_cuda:
            wp.copy(self.host_counters, self.work.counters)
            wp.synchronize_stream(wp.get_stream(self.device))
        counts: list[int] = self.host_counters.numpy().tolist()
        return counts
