"""Batches of points that are compared with spheres or capsules."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.queries.batches.point_batches import in_chunks
from bvh.queries.query_arguments import PointBatch
from bvh.queries.results import ClosestPoints
from bvh.runtime.arguments import shaped
from bvh.runtime.threads import Progress, Shelf
from bvh.traversal.points.closest_point import Nearest, nearest_shapes
from bvh.traversal.points.scratch import new_scratch
from bvh.tree.arrays import TreeArrays
from bvh.tree.shapes import shape_of

Floats = NDArray[np.float64]

SHELF = Shelf(new_scratch)


class ShapeSearch(NamedTuple):
    """Spheres or capsules that points are compared with, for closest points and distances alone."""

    arrays: TreeArrays

    def closest_points(
        self, batch: PointBatch, count: int | None, threads: int, progress: Progress | None
    ) -> ClosestPoints:
        """Return the closest point for each point, or `count` of them on one more axis."""
        distance, ids = self._run(batch, count or 1, threads, progress)
        position, hit = np.full((len(ids), 3), np.nan), ids >= 0
        nearest = shape_of(self.arrays.primitives).nearest
        points: Any = self.arrays.primitives[0]
        given = np.repeat(batch.points, count or 1, axis=0)[hit]
        position[hit] = nearest(points[ids[hit]], given)
        shape = batch.shape if count is None else (*batch.shape, count)
        none = np.full((2, len(ids)), np.nan)
        d, *rest = shaped(shape, distance, ids.astype(np.int32), *none)
        return ClosestPoints(d, position.reshape(*shape, 3), *rest)

    def distances(self, batch: PointBatch, threads: int, progress: Progress | None) -> Floats:
        """Return the distance of each point, flat."""
        return self._run(batch, 1, threads, progress)[0]

    def _run(
        self, batch: PointBatch, count: int, threads: int, progress: Progress | None
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Return distances and ids of the `count` nearest shapes of each point, flat; -1: none."""
        size, none = batch.size * count, np.empty(0)
        found = Nearest(np.empty(size), np.empty(size, np.int64), none, none)
        given = self.arrays.row, batch.points, batch.limits

        def work(begin: int, end: int) -> None:
            with SHELF.scratch() as scratch:
                nearest_shapes(*given, scratch, begin, end, count, found)

        in_chunks(batch.size, work, threads, progress)
        return found.distance, found.names
