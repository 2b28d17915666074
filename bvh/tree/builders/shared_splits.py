"""The top of a tree with spatial splits, split level by level; threads share the passes.

Chunks of all ranges of a level are binned at once, and then moved. The bins of chunks say how many
records each may have on both sides at most, so that all have rows to move them to. Where a chunk
has fewer, as records that cross a plane were not cut, the last records of the side fill its rows.
Chunks do not depend on the number of threads.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.calls.entries import entry
from bvh.runtime.threads import Shelf, share
from bvh.tree.builders import bins as binning
from bvh.tree.builders import records as record
from bvh.tree.builders import subtrees
from bvh.tree.builders.bins import BINS, GROUP_BITS, LEFT, LEFT_CENTRES
from bvh.tree.builders.grid import bound_chunk
from bvh.tree.builders.space import NO_PLANE, Spatial, best_plane, fill_intervals, may_cut, part
from bvh.tree.builders.subtrees import BEGIN, DEPTH, END, LIMIT, NODE, SIDE

# Records that a thread takes at a time, at least.
LEAST_CHUNK = 8192

Row = NDArray[np.int64]
Records = NDArray[np.float32]


class Shared(NamedTuple):
    """What the splits of all ranges have in common."""

    records: Records
    half: int  # rows of records of each side
    shelf: Shelf[Spatial]
    deepest: int  # depth of the tree
    chunk: int  # records that a thread takes at a time
    threads: int
    costs: NDArray[np.float32]  # scratch


@entry
def _bin_chunk(records, begin, end, boxes, bins):
    """Put the records of a chunk into bins."""
    centres = record.load(boxes, 1)
    scale = record.scales(centres, np.float32(BINS))
    binning.fill_bins(records, begin, end, centres, scale, BINS, bins)


@entry
def _fill_chunk(spatial, records, begin, end, boxes):
    """Put the parts of the records of a chunk into the intervals of space."""
    fill_intervals(spatial, records, begin, end, record.load(boxes, 0))


@entry
def _join_bins(chunks, bins):
    """Join the bins of chunks, shape (chunks, rows, 8)."""
    for b in range(3 * BINS):
        bin = record.load(chunks[0], b)
        for i in range(1, len(chunks)):
            bin = record.join_bins(bin, record.load(chunks[i], b))
        record.store(bins, b, bin)


@entry
def _best_bins(spatial, bins, boxes, halves, costs):
    """Return (cost, axis, bin, records on the left, whether to try planes) of the best split."""
    scale = record.scales(record.load(boxes, 1), np.float32(BINS))
    cost, axis, last, lefts = binning.best_split(bins, scale, BINS, GROUP_BITS, costs)
    if axis >= 0:
        binning.bound_halves(bins, BINS, axis, last, halves)
    return np.float64(cost), axis, last, lefts, may_cut(spatial, halves, axis)


@entry
def _best_plane(spatial, boxes, capacity, costs):
    """Return the cost and the parts of the best plane for joined intervals."""
    scale = record.scales(record.load(boxes, 0), np.float32(BINS))
    cost, (axis, last, lefts, rights) = best_plane(spatial, scale, capacity, costs)
    return np.float64(cost), axis, last, lefts, rights


@entry
def _count_sides(bins, counts, axis, last):
    """Return the numbers of records that begin up to a bin, and of those that end behind it."""
    # Bins without counts of records in several intervals are those of centres.
    lefts, rights = 0, 0
    for b in range(BINS):
        k = axis * BINS + b
        count = np.int64(record.count_of(record.load(bins, k)))
        if b <= last:
            lefts += count + counts[k]
        else:
            rights += count + counts[3 * BINS + k]
    return lefts, rights


@entry
def _move_chunk(records, begin, end, boxes, axis, last, left, right, halves):
    """Move the records of a chunk to the rows from `left` and `right` on; bound their centres."""
    centres = record.load(boxes, 1)
    low = record.lane_of(boxes, 1, axis)
    split = axis, last, low, record.lane4(record.scales(centres, np.float32(BINS)), axis)
    binning.move(records, begin, end, split, left, right, halves)


@entry
def _part_chunk(spatial, records, begin, end, boxes, plane, targets, halves):
    """Move the records of a chunk to the sides of a plane; return how many are on each."""
    return part(spatial, records, begin, end, plane, targets, record.load(boxes, 0), halves)


@entry
def _close_gaps(records, begins, counts):
    """Move the last records of runs into the gaps behind earlier ones; return the number of all."""
    last = len(begins) - 1
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
    """A range that threads split: in chunks put into bins, then moved."""

    def __init__(self, shared: Shared, task: Row, boxes: Records) -> None:
        self.shared, self.task, self.boxes = shared, task, boxes
        here = int(task[SIDE]) * shared.half
        begin, end = here + int(task[BEGIN]), here + int(task[END])
        self.spans = [
            (at, min(at + shared.chunk, end)) for at in range(begin, end, shared.chunk)
        ]  # fmt: skip
        # By chunk: bins of centres, intervals of space, records that begin and end there.
        shape = len(self.spans), 6 * BINS, record.WIDTH
        self.bins = record.new(shape[0] * shape[1]).reshape(shape)
        self.intervals = record.new(shape[0] * shape[1]).reshape(shape)
        self.counts = np.zeros((len(self.spans), 6 * BINS), np.int32)
        self.all = record.new(3 * BINS)
        self.halves = record.new(4 * (len(self.spans) + 1)).reshape(-1, 4, record.WIDTH)
        self.plane, self.tries_planes = NO_PLANE, False

    def bin(self, i: int) -> None:
        """Put the records of a chunk into bins."""
        _bin_chunk(self.shared.records, *self.spans[i], self.boxes, self.bins[i])

    def choose(self) -> None:
        """Find the best split between bins, and whether planes are tried."""
        shared, task = self.shared, self.task
        count = int(task[END] - task[BEGIN])
        self.axis, self.last, self.lefts = -1, 0, count // 2
        if not subtrees.may_choose.py_func(count, int(task[DEPTH]), shared.deepest):
            return
        _join_bins(self.bins, self.all)
        with shared.shelf.scratch() as spatial:
            self.cost, self.axis, self.last, self.lefts, tries = _best_bins(
                spatial, self.all, self.boxes, self.halves[-1], shared.costs
            )
        self.tries_planes = tries and task[LIMIT] > task[END]

    def fill(self, i: int) -> None:
        """Put the parts of the records of a chunk into intervals."""
        with self.shared.shelf.scratch() as spatial:
            spatial = spatial._replace(bins=self.intervals[i], counts=self.counts[i])
            _fill_chunk(spatial, self.shared.records, *self.spans[i], self.boxes)

    def choose_plane(self) -> None:
        """Take the best plane if it is cheaper; find the rows that chunks move records to."""
        begin, limit = self.task[[BEGIN, LIMIT]].tolist()
        if self.tries_planes:
            _join_bins(self.intervals, self.all)
            with self.shared.shelf.scratch() as spatial:
                joined = spatial._replace(
                    bins=self.all, counts=self.counts.sum(axis=0, dtype=np.int32)
                )
                cost, *plane = _best_plane(joined, self.boxes, limit - begin, self.shared.costs)
            if cost < self.cost:
                self.plane, self.bins = tuple(plane), self.intervals
                self.axis, self.last = plane[:2]
        is_plane = self.plane[0] >= 0
        self.side = 1 - int(self.task[SIDE])
        if self.axis < 0:
            self.middle, self.side = begin + self.lefts, 1 - self.side
            return
        counts = self.counts if is_plane else np.zeros_like(self.counts)
        sides = np.array([
            _count_sides(bins, some, self.axis, self.last)
            for bins, some in zip(self.bins, counts, strict=True)
        ])  # fmt: skip
        lefts, rights = sides.sum(axis=0).tolist()
        self.middle = begin + lefts + (limit - begin - lefts - rights) * lefts // (lefts + rights)
        there = self.side * self.shared.half
        rows = np.cumsum(sides, axis=0) - sides + [there + begin, there + self.middle]
        self.rows = rows.T.copy()
        self.found = sides.T.copy()

    def move(self, i: int) -> None:
        """Move the records of a chunk."""
        records, halves = self.shared.records, self.halves[i]
        if self.axis < 0:
            return
        left, right = self.rows[:, i].tolist()
        if self.plane[0] < 0:
            _move_chunk(
                records, *self.spans[i], self.boxes, self.axis, self.last, left, right, halves
            )
            return
        with self.shared.shelf.scratch() as spatial:
            spatial = spatial._replace(bins=self.all)
            self.found[:, i] = _part_chunk(
                spatial, records, *self.spans[i], self.boxes, self.plane, (left, right), halves
            )

    def children(self, node: int) -> list[tuple[Row, Records]]:
        """Return both sides and their boxes; `node` is the row of the left one's."""
        records, task, halves = self.shared.records, self.task, self.halves[-1]
        begin, end, limit = task[[BEGIN, END, LIMIT]].tolist()
        if self.axis < 0:
            first, lefts = self.spans[0][0], self.lefts
            for k, (at, stop) in enumerate(((0, lefts), (lefts, end - begin))):
                boxes = record.new(2)
                bound_chunk(records, first + at, first + stop, boxes)
                halves[[LEFT + k, LEFT_CENTRES + k]] = boxes
            counts = [lefts, end - begin - lefts]
        else:
            # Of a split between bins the boxes of both sides are there.
            known = LEFT if self.plane[0] >= 0 else LEFT_CENTRES
            halves[known:] = self.halves[:-1, known:].max(axis=0)
            counts = [_close_gaps(records, self.rows[k], self.found[k]) for k in range(2)]
        return [
            (
                np.array([node + k, at, at + counts[k], task[DEPTH] + 1, self.side, stop]),
                halves[[LEFT + k, LEFT_CENTRES + k]],
            )
            for k, at, stop in ((0, begin, self.middle), (1, self.middle, limit))
        ]  # fmt: skip


def split_top(
    shared: Shared, count: int, boxes: Records, grain: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], Records]:
    """Split all `count` records into ranges of up to `grain`; return what `grid.split_top` does."""
    links, tasks = [(0, 0)], []
    level = [(np.array([0, 0, count, 0, 0, shared.half]), boxes)]
    while level:
        tasks += [pair for pair in level if pair[0][END] - pair[0][BEGIN] <= grain]
        ranges = [
            SharedRange(shared, *pair) for pair in level if pair[0][END] - pair[0][BEGIN] > grain
        ]
        _share(ranges, SharedRange.bin, shared.threads)
        for some in ranges:
            some.choose()
        _share([some for some in ranges if some.tries_planes], SharedRange.fill, shared.threads)
        for some in ranges:
            some.choose_plane()
        _share(ranges, SharedRange.move, shared.threads)
        level = []
        for some in ranges:
            links[int(some.task[NODE])] = len(links), 0
            level += some.children(len(links))
            links += [(0, 0), (0, 0)]
    rows, found = [pair[0] for pair in tasks], [pair[1] for pair in tasks]
    return np.array(links, np.int32), np.array(rows), np.array(found)


def _share(
    ranges: list[SharedRange], work: Callable[[SharedRange, int], None], threads: int
) -> None:  # fmt: skip
    """Call work(range, chunk) for all chunks of ranges, on threads."""
    jobs = [(some, i) for some in ranges for i in range(len(some.spans))]
    share(len(jobs), 1, lambda i, _: work(*jobs[i]), threads)
