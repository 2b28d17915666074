"""Visits of parts: which rays and points go to which part, near to far, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.out_of_core.open_parts import OpenParts, Part
from bvh.queries.hierarchy import BVH
from bvh.queries.query_arguments import PointBatch, RayBatch
from bvh.runtime.progress_bars import Progress, ProgressLike, heard

# Rays, or points, that visit the parts together: some 200 MB with all that is made of them.
TOGETHER = 1 << 20

# What is done in a part: with the rows of a batch, and the t, or a bound of the distance, at which
# each enters the part's box.
Visit = Callable[[Part, NDArray[np.int64], NDArray[np.float64]], None]


class PartVisits:
    """Parts with their boxes, as rays and points visit them.

    Parameters
    ----------
    opened : OpenParts
    boxes : ndarray of float64, shape (n, 6)
        NaN for parts that are not visited.
    """

    def __init__(self, opened: OpenParts, boxes: NDArray[np.float64]) -> None:
        self._open, self._boxes = opened, boxes
        self._box_tree: BVH | None = None

    def of_rays(self, batch: RayBatch, visit: Visit, progress: ProgressLike | None) -> None:
        """Visit the parts that rays may hit, near to far, with the t at which each is entered."""
        if self._box_tree is None:
            self._box_tree = BVH.from_boxes(self._boxes[:, :3], self._boxes[:, 3:])
        rays = batch.rays
        with heard(progress) as report:
            for rows in _blocks(batch.size, report):
                ranges = some_of(rays.t_min, rows), some_of(rays.t_max, rows)
                met = self._box_tree.all_hits(*rays_of(batch, rows), *ranges)
                self._visit_parts(met.prim_id, rows[met.ray_id], met.t, visit)

    def of_points(self, batch: PointBatch, visit: Visit, progress: ProgressLike | None) -> None:
        """Visit the parts near points, near to far, with a bound of the distance."""
        low, high = self._boxes[:, None, :3], self._boxes[:, None, 3:]
        with heard(progress) as report:
            for rows in _blocks(batch.size, report, TOGETHER // 16):
                points, limits = batch.points[rows], some_of(batch.limits, rows)
                with np.errstate(all="ignore"):
                    gaps = np.maximum(np.maximum(low - points, points - high), 0.0)
                    # Below the real distance, whatever the rounding and underflow of squares.
                    least = gaps.max(axis=2)
                    part, row = np.nonzero(least <= limits)
                self._visit_parts(part, rows[row], least[part, row], visit)

    def _visit_parts(
        self,
        part: NDArray[Any],
        rows: NDArray[np.int64],
        entry: NDArray[np.float64],
        visit: Visit,
    ) -> None:
        """Visit parts with their rows, the parts with the nearest entries first."""
        order = np.argsort(part, kind="stable")
        part, rows, entry = part[order], rows[order], entry[order]
        starts = np.flatnonzero(np.append(True, part[1:] != part[:-1])) if len(part) else part
        ends = np.append(starts[1:], len(part))
        near = [float(np.median(entry[b:e])) for b, e in zip(starts, ends, strict=False)]
        for k in np.argsort(near, kind="stable"):
            some = slice(starts[k], ends[k])
            with self._open.part(int(part[starts[k]])) as opened:
                visit(opened, rows[some], entry[some])


def some_of(column: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return rows of a column; of one that all rays share, that row."""
    return column if len(column) == 1 else column[rows]


def rays_of(batch: RayBatch, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return origins, one for each of the rows, and directions."""
    origins = some_of(batch.rays.origins, rows)
    return np.broadcast_to(origins, (len(rows), 3)), some_of(batch.rays.directions, rows)


def _blocks(
    size: int, report: Progress | None, together: int = TOGETHER
) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of the rays that visit the parts together."""
    if size == 0 and report is not None:
        report(0, 0)
    for begin in range(0, size, together):
        end = min(begin + together, size)
        yield np.arange(begin, end)
        if report is not None:
            report(end, size)
