"""Visits of parts: which rays, points and regions go to which part, near to far.

A part needs to be searched only for those queries that may meet its box, and of these only for
those whose answer so far is not nearer than the box.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.merging import Column, Floats, Rows, grouped
from bvh.distributed.out_of_core.open_parts import OpenPart, OpenParts
from bvh.distributed.out_of_core.part_scenes import PartScene
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
POINTS, PAIRS = 1 << 17, 1 << 20
# Rows whose distances from a part are a sample of all.
SAMPLE = 1000
# More than the rounding errors of the smallest distances, which underflow.
DENORMALS = 2.0**-1070

# The number of a part, the rows of a batch that may visit it, and of each row the t at which it
# enters the box of the part, or a lower bound of its distance.
Group = tuple[int, Rows, Floats]
# A part, or several as one scene, and the rows of a batch that visit it.
Visit = tuple[OpenPart, Rows]
RayVisit = tuple[OpenPart | PartScene, Rows]
# Function of rows: it returns for each the largest distance at which a part may change its answer,
# or None if all may.
Reach = Callable[[Rows], Floats | None]


class _Division(NamedTuple):
    """Parts that are open and stay open, and the other ones."""

    parts: list[OpenPart]
    together: OpenPart | PartScene | None  # all of `parts`, or None
    others: int  # number of other parts
    boxes: Any  # target of rays: the boxes of other parts


class PartVisits:
    """Parts with their boxes, as rays, points and regions visit them."""

    def __init__(self, opened: OpenParts, boxes: Floats, bits: NDArray[np.uint32]) -> None:
        """Store the parts, and of each its box (lower, upper) and the group bits of its faces.

        `boxes`, (n, 6), are around the valid triangles; parts with boxes of NaN are not visited.
        A part has a face that counts for a mask exactly if the mask shares one of its `bits`, (n,).
        """
        self.opened, self._boxes, self._bits = opened, boxes, bits
        self._valid = np.flatnonzero(~np.isnan(boxes[:, 0]))
        # The last result of `_divided`.
        self._known: _Division | None = None
        # By mask, an int32, the boundary of the faces of these parts that count.
        self.boundaries: dict[int, Loops] = {}

    def of_rays(
        self, batch: RayBatch, options: RayOptions, reach: Reach,
        finish: Callable[[], None] | None = None,
    ) -> Iterator[RayVisit]:  # fmt: skip
        """Yield the visits of the parts that rays may hit: open ones together, others near to far.

        ``reach(rows)`` returns up to which t parts may change the answers of rays, None for any t.
        ``finish()`` is called whenever a run of rays, in the order of the batch, has visited all
        parts.
        """
        # Boxes have no faces to filter or cull, and no progress of their own.
        box_options = RayOptions(threads=options.threads)

        def box_counts(boxes: Any, rows: Rows) -> Rows:
            """Return how many of the boxes that are the target `boxes` each of the rays hits."""
            some = rays_of(batch, rows, reach(rows), masked=False)
            return np.asarray(boxes.count_hits(some, box_options, once=True))

        for block in _blocks(batch.size, options.progress, TOGETHER):
            _, together, others, boxes = self._divided()
            for rows in _runs(block, others, partial(box_counts, boxes)):
                if together is not None:
                    yield together, rows
                if others:
                    some = rays_of(batch, rows, reach(rows), masked=False)
                    hits = boxes.all_hits(some, box_options, once=False)
                    part, ray, entry = hits.prim_id, rows[hits.ray_id], hits.t
                    if batch.masked or not self._bits.all():
                        masks = batch.rays.masks.take(ray, mode="clip").view(np.uint32)
                        shared = self._bits[part] & masks != 0
                        part, ray, entry = part[shared], ray[shared], entry[shared]
                    yield from self._near_to_far(grouped(part, ray, entry), reach)
                if finish is not None:
                    finish()

    def _divided(self) -> _Division:
        """Return the open parts that stay open, and the other ones."""
        lasting, known = self.opened.lasting(), self._known
        parts = [lasting[number] for number in self._valid.tolist() if number in lasting]
        if known is None or list(map(id, parts)) != list(map(id, known.parts)):
            numbers, boxes = [part.number for part in parts], self._boxes.copy()
            boxes[numbers] = np.nan
            tree = BVH.from_boxes(boxes[:, :3], boxes[:, 3:], warn=False)
            together = PartScene(parts, self._bits[numbers]) if len(parts) > 1 else None
            count = len(self._valid) - len(parts)
            known = _Division(parts, together or next(iter(parts), None), count, ray_target(tree))
            self._known = known
        return known

    def of_points(
        self, batch: PointBatch, progress: Progress | None, reach: Reach,
        count: int | None = None, mask: int = -1,
    ) -> Iterator[Visit]:  # fmt: skip
        """Yield the visits of the parts near points, with faces for `mask`, near to far.

        `reach` is as in `of_rays`; `count` is the number of closest points that each point asks
        for, None for one.
        """
        parts = self._selected(mask)
        for block in _blocks(batch.size, progress, max(POINTS // (count or 1), 1)):
            limits = some_of(batch.limits, block)
            if count is None:
                # A bound of the distance of the closest face, not of the `count` closest.
                limits = np.minimum(limits, self._farthest(batch.points[block], parts))
            near = partial(self._near, batch.points[block], limits, parts, int(block[0]))
            for rows in _runs(block, len(parts), partial(_part_counts, near)):
                yield from self._near_to_far(list(near(rows)), reach)

    def _near(
        self, points: Floats, limits: Floats, parts: Rows, begin: int, rows: Rows
    ) -> Iterator[Group]:
        """Yield (part, rows, least) for each of `parts` that is near to some of the points `rows`.

        A row is yielded if the box of the part is within its limit of distance; `least` is a lower
        bound of its distance from the box. `points` (n, 3) and `limits`, (n,) or one for all, are
        those of the n rows from `begin` on.
        """
        # `least`, the largest coordinate of the gap, is reduced below the distance as computed,
        # whose error is 4 units in the last place even where squares underflow.
        points, limits = points[rows - begin], some_of(limits, rows - begin)
        for number in parts.tolist():
            low, high = self._boxes[number].reshape(2, 3)
            with np.errstate(all="ignore"):
                x, y, z = np.maximum(low - points, points - high).T
                least = np.maximum(np.maximum(x, y), z) * (1.0 - 2.0**-48) - DENORMALS
                row = np.flatnonzero(least <= limits)
            if len(row):
                yield number, rows[row], least[row]

    def _selected(self, mask: int) -> Rows:
        """Return the numbers of parts with faces that count for a mask, an int32 of 32 bits."""
        shared = self._bits[self._valid] & np.uint32(mask & ALL_BITS) != 0
        return np.asarray(self._valid[shared])

    def _farthest(self, points: Floats, parts: Rows) -> Floats:
        """Return for each point a distance, (n,), within which one of the parts has a face."""
        result = np.full(len(points), np.inf)
        for low, high in self._boxes[parts].reshape(-1, 2, 3):
            with np.errstate(all="ignore"):
                # The sum of three numbers is at least the root of their squares, but cannot
                # underflow.
                reach = np.maximum(np.abs(points - low), np.abs(points - high)).sum(axis=1)
                np.fmin(result, reach * (1.0 + 2.0**-48) + DENORMALS, result)
        return result

    def in_order(
        self, mask: int, size: int = 0, progress: Progress | None = None
    ) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield (number, lower corner, upper corner) of the parts with faces for `mask`, by number.

        Whoever visits them answers `size` queries, whose progress is reported.
        """
        parts = self._selected(mask).tolist()
        for done, number in enumerate(parts, 1):
            yield number, self._boxes[number, :3], self._boxes[number, 3:]
            if progress is not None and done < len(parts):
                progress(size * done // len(parts), size)
        if progress is not None:
            progress(size, size)

    def _near_to_far(self, groups: list[Group], reach: Reach) -> Iterator[Visit]:
        """Yield the visits of groups, near to far, for the rows whose answers they may change."""
        # A part is as near as the median of the distances at which some of its rows enter it.
        near = [float(np.median(entry[:: len(entry) // SAMPLE + 1])) for _, _, entry in groups]
        for k in np.argsort(near, kind="stable").tolist():
            number, rows, entry = groups[k]
            far = reach(rows)
            rows = rows if far is None else rows[entry <= far]
            if len(rows):
                yield self.opened.part(number), rows


def _part_counts(near: Callable[[Rows], Iterator[Group]], rows: Rows) -> Rows:
    """Return for each of consecutive `rows` how many groups of ``near(rows)`` it is in."""
    total = np.zeros(len(rows), np.int64)
    for _, some, _ in near(rows):
        total[some - rows[0]] += 1
    return total


def some_of(column: Column, rows: Rows) -> Column:
    """Return different `rows` of a column, which ascend; all of it if it is one row, for all."""
    return column if len(column) in (1, len(rows)) else kernel_input(column.take(rows, axis=0))


def rays_of(batch: RayBatch, rows: Rows, reach: Floats | None, masked: bool = True) -> RayBatch:
    """Return the rays `rows` of a batch, as a flat batch.

    They end at `reach` (len(rows),) or before, if it is given. Unless `masked`, the mask of all has
    all bits.
    """
    o, d, t_min, t_max, masks = (some_of(column, rows) for column in batch.rays)
    if reach is not None:
        t_max = kernel_input(np.minimum(t_max, reach))
    return RayBatch(Rays(o, d, t_min, t_max, masks if masked else EVERY), (len(rows),))


def _blocks(size: int, report: Progress | None, together: int) -> Iterator[Rows]:
    """Yield the numbers 0..size - 1 in blocks of `together`; report each block that is done."""
    if size == 0 and report is not None:
        report(0, 0)
    for begin in range(0, size, together):
        end = min(begin + together, size)
        yield np.arange(begin, end)
        if report is not None:
            report(end, size)


def _runs(rows: Rows, parts: int, counts_of: Callable[[Rows], Rows]) -> Iterator[Rows]:
    """Yield rows in runs, so that the arrays of their pairs with parts fit into memory.

    Each run has at most PAIRS pairs, or is one row. ``counts_of(rows)`` returns the number of parts
    that each row is paired with, at most `parts`.
    """
    if len(rows) * parts <= PAIRS:
        yield rows
        return
    ends, begin = np.cumsum(counts_of(rows)), 0
    while begin < len(rows):
        before = ends[begin - 1] if begin else 0
        end = max(int(ends.searchsorted(before + PAIRS, "right")), begin + 1)
        yield rows[begin:end]
        begin = end
