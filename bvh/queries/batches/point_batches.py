"""Batches of points: their chunks on threads, and their results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.queries.batches.containment import MAX_POINTS, MIN_POINTS, inside
from bvh.queries.batches.ray_batches import RaySearch
from bvh.queries.batches.winding import Wound
from bvh.queries.query_arguments import PointBatch
from bvh.queries.results import ClosestPoints, points_of, scene_points_of
from bvh.runtime.arguments import shaped
from bvh.runtime.threads import Progress, Shelf, share
from bvh.traversal.points.closest_point import (
    Nearest,
    TreeTarget,
    closest_points,
    nearest_points,
    nearest_shapes,
)
from bvh.traversal.points.instanced_closest_point import SceneTarget
from bvh.traversal.points.scratch import PointScratch, new_scratch
from bvh.tree.arrays import TreeArrays
from bvh.tree.instanced import named_codes
from bvh.tree.primitives import Triangles
from bvh.tree.shapes import shape_of

Floats = NDArray[np.float64]

# For trees and for scenes. Reused from batch to batch: new scratch takes longer than one point.
SHELVES: tuple[Shelf[PointScratch], ...] = tuple(
    Shelf(partial(new_scratch, scene=scene)) for scene in (False, True)
)


class PointSearch(NamedTuple):
    """Target of points: faces of a tree, or of a scene's leaves, within a mask."""

    # The target of rays, which also keeps the arrays alive.
    rays: Callable[[], RaySearch]
    # Bits that choose among faces, and the instances of a scene, as int32.
    mask: int
    # Returns the faces with their boundary; if the argument is true, with reflected leaves reversed
    # (see `SceneQueries._as_one_tree`).
    wound: Callable[[bool], Wound]
    # Of a scene: how much its leaves scale distances (see `world_metric`); None of a tree.
    metrics: Callable[[], Floats] | None = None

    def closest_points(
        self, batch: PointBatch, count: int | None, threads: int, progress: Progress | None
    ) -> ClosestPoints:
        """Return the closest point for each point, or `count` of them on one more axis."""
        found = self._run(batch, count, True, threads, progress)
        shape = batch.shape if count is None else (*batch.shape, count)
        position, weights = found.position.reshape(*shape, 3), found.weights
        u, v = weights[:, 0], weights[:, 1]
        if self.metrics is None:
            d, *rest = shaped(shape, found.distance, found.names.astype(np.int32), u, v)
            return points_of((d, position, *rest), self.source())
        instanced: Any = self.rays().arrays.primitives
        owner, leaf, prim = named_codes(found.names, instanced.owners, threads)
        d, *rest = shaped(shape, found.distance, prim, u, v, owner, leaf)
        return scene_points_of((d, position, *rest), self.source())

    def source(self) -> Any:
        """Return what normals of closest points follow from."""
        target = self.rays()
        primitives = target.arrays.primitives
        owner: Any = target.owner
        if isinstance(primitives, Triangles):
            return primitives, 0, None
        return owner, owner.moves, None

    def distances(self, batch: PointBatch, threads: int, progress: Progress | None) -> Floats:
        """Return the distance of each point, flat."""
        return self._run(batch, None, False, threads, progress).distance

    def inside(
        self, points: Floats, threads: int, progress: Progress | None = None, *,
        surface: bool = True,
    ) -> NDArray[np.bool_]:  # fmt: skip
        """Return which points (n, 3) are inside by parity or, with `surface`, on the surface."""
        return inside(self.rays(), self.mask, points, threads, progress, surface=surface)

    def winding_numbers(
        self, points: Floats, accuracy: float, threads: int, progress: Progress | None = None
    ) -> Floats:
        """Return the winding number of each of the points (n, 3)."""
        return self.wound(False).numbers(points, accuracy, threads, progress)

    def wound_around(
        self, points: Floats, threads: int, progress: Progress | None = None
    ) -> NDArray[np.bool_]:
        """Return which points (n, 3) have a winding number above a half; leaves are turned back."""
        return self.wound(True).inside(points, threads, progress)

    def _run(
        self, batch: PointBatch, count: int | None, places: bool, threads: int,
        progress: Progress | None,
    ) -> Nearest:  # fmt: skip
        """Find the closest triangle of each point, or `count`; with `places`, also its position."""
        row, metrics = self.rays().arrays.row, self.metrics
        target: Any = TreeTarget(row, self.mask)
        if metrics is not None:
            target = SceneTarget(row, metrics(), self.mask)
        kernel = closest_points if count is None else nearest_points
        return _nearest(kernel, target, batch, count, places, threads, progress)


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
        return points_of((d, position.reshape(*shape, 3), *rest), (self.arrays.primitives, 0, None))

    def distances(self, batch: PointBatch, threads: int, progress: Progress | None) -> Floats:
        """Return the distance of each point, flat."""
        return self._run(batch, 1, threads, progress)[0]

    def _run(
        self, batch: PointBatch, count: int, threads: int, progress: Progress | None
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Return distances and ids of the `count` nearest shapes of each point, flat; -1: none."""
        found = _nearest(nearest_shapes, self.arrays.row, batch, count, False, threads, progress)
        return found.distance, found.names


def _nearest(
    kernel: Any, target: Any, batch: PointBatch, count: int | None, places: bool, threads: int,
    progress: Progress | None,
) -> Nearest:  # fmt: skip
    """Call a kernel of points on chunks; `count` is None for kernels that take none."""
    n, extra = batch.size * (1 if count is None else count), () if count is None else (count,)
    m, shelf = n if places else 0, SHELVES[type(target) is SceneTarget]
    found = Nearest(np.empty(n), np.empty(n, np.int64), np.empty((m, 2)), np.empty((m, 3)))

    def work(begin: int, end: int) -> None:
        # After an exception the scratch is not given back.
        scratch = shelf.take()
        kernel(target, batch.points, batch.limits, scratch, begin, end, *extra, found)
        shelf.give_back(scratch)

    share(batch.size, MAX_POINTS, work, threads, progress, MIN_POINTS)
    return found
