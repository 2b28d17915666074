"""Visits of parts: which rays, points and regions go to which part, near to far."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.merging import Column, Floats, Rows
from bvh.distributed.out_of_core.open_parts import OpenPart, OpenParts
from bvh.queries.batches.ray_batches import RaySearch
from bvh.queries.hierarchy import BVH
from bvh.queries.query_arguments import PointBatch, RayBatch, RayOptions
from bvh.queries.targets import ray_target
from bvh.runtime.arguments import ALL_BITS, kernel_input
from bvh.runtime.progress_bars import Progress
from bvh.traversal.rays.ray_batch import EVERY, Rays
from bvh.tree.boundary import Loops

# Rays that visit the parts together: some 200 MB with all that is made of them.
TOGETHER = 1 << 20
# Points that visit the parts together, and pairs of rays or points with parts, of 70 to 80 bytes.
POINTS, PAIRS = 1 << 17, 1 << 22
# Far below any distance that is not 0, and above the error of the least of them.
DENORMALS = 2.0**-1070

# A part, the rows of a batch that may visit it, and where these enter its box, or a lower bound.
Group = tuple[int, Rows, Floats]
# Function that queries a part for the rows of a batch; the number is that of the part.
Visit = Callable[[OpenPart, Rows, int], None]
# Function of rows: it returns the distances up to which parts may change their answers.
Reach = Callable[[Rows], Floats | None]


class PartVisits:
    """Parts with their boxes, as rays, points and regions visit them.

    Parts whose box is NaN are not visited. `bits` are the group bits of all faces of each part, so
    a mask shares one of them exactly if the part has a face that counts.
    """

    def __init__(self, opened: OpenParts, boxes: Floats, bits: NDArray[np.uint32]) -> None:
        self._open, self._boxes, self._bits = opened, boxes, bits
        self._valid = np.flatnonzero(~np.isnan(boxes[:, 0]))
        self._box_tree: BVH | None = None
        # By mask, an int32, the boundary of the faces of these parts that count.
        self.boundaries: dict[int, Loops] = {}

    def of_rays(
        self, batch: RayBatch, options: RayOptions, visit: Visit, reach: Reach,
        finish: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Visit the parts that rays may hit, near to far, with the t at which each is entered."""
        # `finish` is called whenever some rays, in the order of the batch, have visited all parts.
        inside = RayOptions(threads=options.threads)
        for rows in _blocks(batch.size, options.progress, TOGETHER):
            for some in _runs(rows, len(self._valid), partial(self._crowd, batch, inside)):
                self._visit_parts(self._met(batch, inside, some), visit, reach)
                if finish is not None:
                    finish()

    def _box_target(self) -> RaySearch:
        if self._box_tree is None:
            self._box_tree = BVH.from_boxes(self._boxes[:, :3], self._boxes[:, 3:], warn=False)
        target: RaySearch = ray_target(self._box_tree)
        return target

    def _crowd(self, batch: RayBatch, options: RayOptions, rows: Rows) -> Rows:
        """Return the number of parts that each of some rays may hit."""
        some = rays_of(batch, rows, None, masked=False)
        return np.asarray(self._box_target().count_hits(some, options, once=True))

    def _met(self, batch: RayBatch, options: RayOptions, rows: Rows) -> list[Group]:
        """Return the parts whose boxes rays hit, and that have bits of their masks, grouped."""
        some = rays_of(batch, rows, None, masked=False)
        met = self._box_target().all_hits(some, options, once=False)
        part, of, entry = met.prim_id, rows[met.ray_id], met.t
        if batch.masked or not self._bits.all():
            shared = self._bits[part] & some_of(batch.rays.masks, of).view(np.uint32) != 0
            part, of, entry = part[shared], of[shared], entry[shared]
        return _grouped(part, of, entry)

    def of_points(
        self, batch: PointBatch, visit: Visit, progress: Progress | None, reach: Reach,
        count: int | None = None, mask: int = -1,
    ) -> None:  # fmt: skip
        """Visit the parts near points, near to far, with a bound of the distance."""
        # `_farthest` bounds the distance of one triangle, not of `count` of them.
        valid = self._counting(mask)
        for block in _blocks(batch.size, progress, max(POINTS // (count or 1), 1)):
            limits = some_of(batch.limits, block)
            if count is None:
                limits = np.minimum(limits, self._farthest(batch.points[block], valid))
            near = partial(self._near, batch.points[block], limits, valid, int(block[0]))
            for rows in _runs(block, len(valid), partial(_counts, near)):
                self._visit_parts(list(near(rows)), visit, reach)

    def _near(
        self, points: Floats, limits: Floats, parts: Rows, begin: int, rows: Rows
    ) -> Iterator[Group]:
        """Yield the parts within the limits of some `rows`; points and limits begin at `begin`."""
        # The bound is below the distance as it is computed, with an error of 4 units in the last
        # place, whatever the underflow of squares.
        points, limits = points[rows - begin], some_of(limits, rows - begin)
        for number in parts.tolist():
            low, high = self._boxes[number].reshape(2, 3)
            with np.errstate(all="ignore"):
                x, y, z = np.maximum(low - points, points - high).T
                least = np.maximum(np.maximum(x, y), z) * (1.0 - 2.0**-48) - DENORMALS
                row = np.flatnonzero(least <= limits)
            if len(row):
                yield number, rows[row], least[row]

    def _counting(self, mask: int) -> Rows:
        """Return the numbers of parts with faces that count for a mask, an int32."""
        shared = self._bits[self._valid] & np.uint32(mask & ALL_BITS) != 0
        return np.asarray(self._valid[shared])

    def _farthest(self, points: Floats, parts: Rows) -> Floats:
        """Return a distance from each point within which some of the parts have a face."""
        result = np.full(len(points), np.inf)
        for low, high in self._boxes[parts].reshape(-1, 2, 3):
            with np.errstate(all="ignore"):
                # The sum of three numbers is at least the root of their squares, but cannot
                # underflow.
                reach = np.maximum(np.abs(points - low), np.abs(points - high)).sum(axis=1)
                np.fmin(result, reach * (1.0 + 2.0**-48) + DENORMALS, result)
        return result

    def in_order(
        self, size: int, may_meet: Callable[[Floats, Floats], NDArray[np.bool_]],
        visit: Callable[[OpenPart, Rows], None], progress: Progress | None, mask: int = -1,
    ) -> None:  # fmt: skip
        """Visit the parts whose boxes some of `size` queries may meet, in order."""
        parts = self._counting(mask).tolist()
        for done, number in enumerate(parts, 1):
            rows = np.flatnonzero(may_meet(self._boxes[number, :3], self._boxes[number, 3:]))
            if len(rows):
                with self._open.part(number) as opened:
                    visit(opened, rows)
            if progress is not None and done < len(parts):
                progress(size * done // len(parts), size)
        if progress is not None:
            progress(size, size)

    def _visit_parts(self, groups: list[Group], visit: Visit, reach: Reach) -> None:
        """Visit the parts of groups, by their median entry, for rows that they may still change."""
        near = [float(np.median(entry)) for _, _, entry in groups]
        for k in np.argsort(near, kind="stable").tolist():
            number, rows, entry = groups[k]
            far = reach(rows)
            rows = rows if far is None else rows[entry <= far]
            if len(rows):
                with self._open.part(number) as opened:
                    visit(opened, rows, number)


def _counts(near: Callable[[Rows], Iterator[Group]], rows: Rows) -> Rows:
    """Return to how many parts each of some rows, which follow each other, is near."""
    total = np.zeros(len(rows), np.int64)
    for _, some, _ in near(rows):
        total[some - rows[0]] += 1
    return total


def _grouped(part: NDArray[np.integer], rows: Rows, entry: Floats) -> list[Group]:
    """Return a group (part, its rows, their entries) for each part; arguments are parallel."""
    # NumPy sorts 16-bit integers by radix, in a sixth of the time.
    part = part.astype(np.uint16) if part.max(initial=0) < 1 << 16 else part
    order = np.argsort(part, kind="stable")
    part, rows, entry = part[order], rows[order], entry[order]
    starts = np.flatnonzero(np.append(True, part[1:] != part[:-1]))[: len(part)]
    ends = np.append(starts[1:], len(part))
    return [(int(part[b]), rows[b:e], entry[b:e]) for b, e in zip(starts, ends, strict=False)]


def some_of(column: Column, rows: Rows) -> Column:
    """Return rows of a column; if it has one row that all queries share, that one."""
    return column if len(column) == 1 else kernel_input(column.take(rows, axis=0))


def rays_of(batch: RayBatch, rows: Rows, reach: Floats | None, masked: bool = True) -> RayBatch:
    """Return some rays of a batch, which end at `reach`, if given; `masked` keeps their masks."""
    o, d, low, high, masks = (some_of(column, rows) for column in batch.rays)
    if reach is not None:
        high = kernel_input(np.minimum(high, reach))
    return RayBatch(Rays(o, d, low, high, masks if masked else EVERY), (len(rows),))


def _blocks(size: int, report: Progress | None, together: int) -> Iterator[Rows]:
    """Yield the numbers of the rays, or points, that visit the parts together."""
    if size == 0 and report is not None:
        report(0, 0)
    for begin in range(0, size, together):
        end = min(begin + together, size)
        yield np.arange(begin, end)
        if report is not None:
            report(end, size)


def _runs(rows: Rows, parts: int, crowd: Callable[[Rows], Rows]) -> Iterator[Rows]:
    """Yield rows one run after another, each with at most PAIRS pairs with parts, or one row."""
    # `crowd` returns the number of parts of each row.
    if len(rows) * parts <= PAIRS:
        yield rows
        return
    ends, begin = np.cumsum(crowd(rows)), 0
    while begin < len(rows):
        before = ends[begin - 1] if begin else 0
        end = max(int(ends.searchsorted(before + PAIRS, "right")), begin + 1)
        yield rows[begin:end]
        begin = end
