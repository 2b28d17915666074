"""The top of a tree with spatial splits, split level by level; threads share the passes.

Chunks of all ranges of a level are binned at once, and then moved. The bins of a chunk bound how
many of its records go to each side, and as many rows of the side are reserved for them. Where a
chunk moves fewer, as records that cross the plane were not cut, the last records of the side fill
the gap. Chunks do not depend on the number of threads.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.memory import Shelf
from bvh.runtime.threads import share
from bvh.tree.builders import bins as binning
from bvh.tree.builders import records as record
from bvh.tree.builders import subtrees
from bvh.tree.builders.bins import BINS, GROUP_BITS, LEFT, LEFT_CENTRES
from bvh.tree.builders.space import Spatial, best_plane, fill_intervals, may_cut, split_at_plane
from bvh.tree.builders.subtrees import BEGIN, DEPTH, END, LIMIT, NODE, SIDE

# Records that a thread takes at a time, at least.
LEAST_CHUNK = 8192

Row = NDArray[np.int64]
Records = NDArray[np.float32]


class Shared(NamedTuple):
    """Arguments that the splits of all ranges have in common."""

    records: Records
    half: int  # rows of each half of `records`
    shelf: Shelf[Spatial]
    deepest: int  # depth of the tree
    chunk: int  # records that a thread takes at a time
    threads: int
    sides: NDArray[np.float32]  # scratch of `bins.best_split`


@entry
def _fill_chunk(spatial, records, begin, end, boxes, in_space):
    """Fill the bins of `spatial` with records begin..end, by their centres or by their parts.

    `boxes` are the box of the range and that of its doubled centres. If `in_space`, the bins divide
    the range's box and get the parts of records in them; otherwise they divide the box of centres.
    """
    if in_space:
        fill_intervals(spatial, records, begin, end, record.load(boxes, 0))
    else:
        centres = record.load(boxes, 1)
        scale = record.scales(centres, np.float32(BINS))
        binning.fill_bins(records, begin, end, centres, scale, BINS, spatial.bins)


@entry
def _best_bins(spatial, boxes, halves, sides):
    """Return (cost, axis, last bin on the left, count there, whether a plane may be better).

    The first four describe the best split between the bins of `spatial`, of all records of a range;
    `boxes` are as in `_fill_chunk`. The axis is -1 for no split, else the boxes of both sides are
    written to `halves`. A split by a plane is worth trying if there is no split, or its sides
    overlap enough.
    """
    scale = record.scales(record.load(boxes, 1), np.float32(BINS))  # the box of the centres
    used = binning.used_bins(scale, BINS)
    cost, axis, last, lefts = binning.best_split(spatial.bins, BINS, used, GROUP_BITS, sides)
    if axis >= 0:
        binning.bound_halves(spatial.bins, BINS, axis, last, halves)
    return np.float64(cost), axis, last, lefts, may_cut(spatial, halves, axis)


@entry
def _best_plane(spatial, boxes, capacity, sides):
    """Return (cost, axis, last interval, count on the left, count on the right) of the best plane.

    The plane ends the last interval on the left. The intervals of `spatial` have all records of a
    range; `boxes` are as in `_fill_chunk`. Both sides have at most `capacity` records in sum.
    """
    scale = record.scales(record.load(boxes, 0), np.float32(BINS))
    cost, (axis, last, lefts, rights) = best_plane(spatial, scale, capacity, sides)
    return np.float64(cost), axis, last, lefts, rights


@entry
def _move_chunk(spatial, records, begin, end, boxes, in_space, plane, rows, sides, halves):
    """Move records begin..end to both sides of a split: to rows from rows[0] and rows[1] on.

    `plane` begins with the axis of the split and the last bin or interval on the left. A split
    `in_space` writes the numbers of records moved to `sides`, and the boxes of both sides and their
    centres to `halves`; a split between bins, where `sides` are known, only those of centres.
    """
    if in_space:
        box = record.load(boxes, 0)
        sides[0], sides[1] = split_at_plane(
            spatial, records, begin, end, plane, (rows[0], rows[1]), box, halves
        )
    else:
        axis, last = plane[:2]
        scale = record.scales(record.load(boxes, 1), np.float32(BINS))
        split = axis, last, record.lane_of(boxes, 1, axis), simd.lane(scale, np.int32(axis))
        binning.move(records, begin, end, split, rows[0], rows[1], halves)


@entry
def _close_gaps(records, begins, counts):
    """Fill the gaps between runs of records with the last records; return the number of all."""
    # Run i has counts[i] records from row begins[i] on; `counts` is changed.
    last = len(begins) - 1  # the run whose last record is taken next
    for i in range(len(begins)):
        row, end = begins[i] + counts[i], begins[i + 1] if i + 1 < len(begins) else 0
        while i < last and row < end:
            if counts[last] == 0:
                last -= 1
                continue
            counts[last] -= 1
            record.store(records, row, record.load(records, begins[last] + counts[last]))
            row += 1
        if i >= last:
            break
    return begins[last] + counts[last] - begins[0]


class SharedRange:
    """A range that threads split: in chunks put into bins, then moved.

    `task` is its row with the columns of `subtrees`; `boxes` are its box and that of its centres.
    """

    def __init__(self, shared: Shared, task: Row, boxes: Records) -> None:
        self.shared, self.task, self.boxes = shared, task, boxes
        here = int(task[SIDE]) * shared.half
        begin, end = here + int(task[BEGIN]), here + int(task[END])
        self.spans = [(at, min(at + shared.chunk, end)) for at in range(begin, end, shared.chunk)]
        # For each chunk: its bins or intervals; for each interval, how many of the records in
        # several intervals begin there, then how many end there; and the boxes of both sides, in
        # the last row those of all chunks.
        chunks = len(self.spans)
        self.bins = record.new(chunks * 6 * BINS).reshape(chunks, 6 * BINS, record.WIDTH)
        self.counts = np.zeros((chunks, 6 * BINS), np.int32)
        self.halves = record.new(4 * (chunks + 1)).reshape(-1, 4, record.WIDTH)
        # The split as (axis, last bin on the left, records on the left, on the right), None if
        # there is none; its cost, and whether it is by a plane of space.
        self.plane: tuple[int, int, int, int] | None = None
        self.cost, self.in_space = np.inf, False

    def fill(self, i: int) -> None:
        """Put the records of chunk i into its bins, or their parts into its intervals of space."""
        with self.shared.shelf.scratch() as spatial:
            spatial = spatial._replace(bins=self.bins[i], counts=self.counts[i])
            _fill_chunk(spatial, self.shared.records, *self.spans[i], self.boxes, self.in_space)

    def _join(self, spatial: Spatial) -> Spatial:
        """Set `joined` to the bins of all chunks, joined; return `spatial` with them and counts."""
        self.joined = self.bins[:, : 3 * BINS].max(axis=0)
        record.counts(self.joined)[:] = record.counts(self.bins)[:, : 3 * BINS].sum(axis=0)
        return spatial._replace(bins=self.joined, counts=self.counts.sum(axis=0, dtype=np.int32))

    def _split_by(self, axis: int, last: int, lefts: int, rights: int) -> None:
        """Set the split, and `sides`: how many records of each chunk go to each side at most."""
        self.plane = axis, last, lefts, rights
        # Records in several bins are counted in that where they begin, row 0 of `several`, for the
        # left side, and in that where they end, row 1, for the right side.
        single = record.counts(self.bins)[:, axis * BINS : (axis + 1) * BINS]
        several = self.counts.reshape(-1, 6, BINS)[:, axis::3]
        left = (single + several[:, 0])[:, : last + 1]
        right = (single + several[:, 1])[:, last + 1 :]
        self.sides = np.stack([left.sum(axis=1), right.sum(axis=1)], axis=1).astype(np.int64)

    def choose(self) -> None:
        """Find the best split between bins; set `in_space` if planes of space are tried, too."""
        shared, task = self.shared, self.task
        count = int(task[END] - task[BEGIN])
        if not subtrees.may_choose.py_func(count, int(task[DEPTH]), shared.deepest):
            return
        with shared.shelf.scratch() as spatial:
            self.cost, axis, last, lefts, tries = _best_bins(
                self._join(spatial), self.boxes, self.halves[-1], shared.sides
            )
        if axis >= 0:
            self._split_by(axis, last, lefts, count - lefts)
        self.in_space = bool(tries and task[LIMIT] > task[END])

    def choose_plane(self) -> None:
        """Take the best plane of space if planes are tried and it is cheaper than the split."""
        shared, capacity = self.shared, int(self.task[LIMIT] - self.task[BEGIN])
        if self.in_space:
            with shared.shelf.scratch() as spatial:
                cost, *plane = _best_plane(self._join(spatial), self.boxes, capacity, shared.sides)
            self.in_space = bool(cost < self.cost)
            if self.in_space:
                self._split_by(*plane)

    def place(self) -> None:
        """Find the first rows, on the left and the right, that each chunk moves records to."""
        begin, limit = self.task[[BEGIN, LIMIT]].tolist()
        # Each side gets a share of the unused capacity.
        lefts, rights = self.sides.sum(axis=0).tolist()
        self.middle = begin + lefts + (limit - begin - lefts - rights) * lefts // (lefts + rights)
        there = (1 - int(self.task[SIDE])) * self.shared.half
        begins = [there + begin, there + self.middle]
        self.rows = np.cumsum(self.sides, axis=0) - self.sides + begins

    def move(self, i: int) -> None:
        """Move the records of chunk i to their sides of the split."""
        with self.shared.shelf.scratch() as spatial:
            _move_chunk(
                spatial._replace(bins=self.joined), self.shared.records, *self.spans[i],
                self.boxes, self.in_space, self.plane, self.rows[i], self.sides[i], self.halves[i],
            )  # fmt: skip

    def children(self, node: int) -> list[tuple[Row, Records]]:
        """Return the tasks and boxes of both sides, which have the nodes `node` and `node` + 1."""
        task, halves = self.task, self.halves[-1]
        # `choose` has written the boxes of both sides of a split between bins: join only centres.
        first = LEFT if self.in_space else LEFT_CENTRES
        halves[first:] = self.halves[:-1, first:].max(axis=0)
        found = []
        for k, at, limit in ((0, task[BEGIN], self.middle), (1, self.middle, task[LIMIT])):
            rows, counts = self.rows[:, k].copy(), self.sides[:, k].copy()
            end = at + _close_gaps(self.shared.records, rows, counts)
            row = np.array([node + k, at, end, task[DEPTH] + 1, 1 - task[SIDE], limit])
            found.append((row, halves[[LEFT + k, LEFT_CENTRES + k]]))
        return found


def split_top(
    shared: Shared, count: int, boxes: Records, grain: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Split all `count` records into ranges of up to `grain`, or that nothing splits.

    Returns the links of the nodes above the ranges, (t, 2), and the ranges as tasks (see
    `subtrees`). `boxes` (2, 8) are the box of all records and that of their centres.
    """
    links, tasks = [(0, 0)], list[Row]()
    level = [(np.array([0, 0, count, 0, 0, shared.half]), boxes)]
    while level:
        tasks += [task for task, _ in level if task[END] - task[BEGIN] <= grain]
        ranges = [
            SharedRange(shared, *pair) for pair in level if pair[0][END] - pair[0][BEGIN] > grain
        ]
        _share(ranges, SharedRange.fill, shared.threads)
        for some in ranges:
            some.choose()
        _share([some for some in ranges if some.in_space], SharedRange.fill, shared.threads)
        for some in ranges:
            some.choose_plane()
        # Ranges that nothing splits stay large.
        tasks += [some.task for some in ranges if some.plane is None]
        ranges = [some for some in ranges if some.plane is not None]
        for some in ranges:
            some.place()
        _share(ranges, SharedRange.move, shared.threads)
        level = []
        for some in ranges:
            links[int(some.task[NODE])] = len(links), 0
            level += some.children(len(links))
            links += [(0, 0), (0, 0)]
    return np.array(links, np.int32), np.array(tasks)


def _share(
    ranges: list[SharedRange], work: Callable[[SharedRange, int], None], threads: int
) -> None:  # fmt: skip
    """Call work(range, number of a chunk) for all chunks of all ranges, on threads."""
    jobs = [(some, i) for some in ranges for i in range(len(some.spans))]
    share(len(jobs), 1, lambda i, _: work(*jobs[i]), threads)
