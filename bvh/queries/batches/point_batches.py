"""Batches of points: their chunks on threads, and their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bvh.queries.answers.locations import Source
from bvh.queries.batches.containment import MAX_POINTS, MIN_POINTS, inside
from bvh.queries.batches.ray_batches import RaySearch
from bvh.queries.batches.winding import OrientedSurface
from bvh.queries.query_arguments import PointBatch
from bvh.queries.results import ClosestPoints, points_of, scene_points_of
from bvh.runtime.arguments import kernel_input, shaped
from bvh.runtime.memory import Shelf
from bvh.runtime.threads import Progress, share
from bvh.traversal.points.closest_point import Nearest, TreeTarget, closest_points, nearest_points
from bvh.traversal.points.instanced_closest_point import SceneTarget
from bvh.traversal.points.scratch import PointScratch, new_scratch
from bvh.traversal.points.shape_points import mark_around, nearest_shapes
from bvh.tree.instanced import named_codes
from bvh.tree.primitives import Triangles

Floats = NDArray[np.float64]

# For trees and for scenes. Reused from batch to batch: new scratch takes longer than one point.
SHELVES: tuple[Shelf[PointScratch], ...] = tuple(
    Shelf(partial(new_scratch, scene=scene)) for scene in (False, True)
)


class NearestSearch:
    """Base of targets of points: distances and closest points, by the `run` of a subclass."""

    # run(batch, count, with_positions, threads, progress) returns the nearest primitive of each
    # point, or `count` rows for each.
    run: Callable[[PointBatch, int | None, bool, int, Progress | None], Nearest]
    # Returns the source of the normals of closest points (see `locations`).
    source: Callable[[], Source]

    def distances(self, batch: PointBatch, threads: int, progress: Progress | None) -> Floats:
        """Return the distance of each point, flat; inf beyond its limit."""
        return self.run(batch, None, False, threads, progress).distance

    def closest_points(
        self, batch: PointBatch, count: int | None, threads: int, progress: Progress | None
    ) -> ClosestPoints:
        """Return the closest point for each point, or `count` of them on one more axis."""
        found = self.run(batch, count, True, threads, progress)
        shape = batch.shape if count is None else (*batch.shape, count)
        position, weights, source = found.position.reshape(*shape, 3), found.weights, self.source()
        u, v = weights[:, 0], weights[:, 1]
        # `names` are ids in a tree, and codes in a scene, whose view has `owners`, the instance of
        # each leaf.
        if not hasattr(source[0], "owners"):
            d, *rest = shaped(shape, found.distance, found.names.astype(np.int32), u, v)
            return points_of((d, position, *rest), source)
        owner, leaf, prim_id = named_codes(found.names, source[0].owners, threads)
        d, *rest = shaped(shape, found.distance, prim_id, u, v, owner, leaf)
        return scene_points_of((d, position, *rest), source)


@dataclass(eq=False)
class PointSearch(NearestSearch):
    """Target of points: faces of a tree, or of a scene's leaves, within a mask."""

    rays: Callable[[], RaySearch]  # returns the target of rays, which also keeps the arrays alive
    mask: int  # bits that choose among faces, and the instances of a scene, as int32
    # Returns the faces with their boundary; if the argument is true, with reflected leaves reversed
    # (see `SceneQueries._as_one_tree`).
    oriented_surface: Callable[[bool], OrientedSurface]
    # Of a scene: how much its leaves scale distances (see `world_metric`); None of a tree.
    metrics: Callable[[], Floats] | None = None

    def source(self) -> Source:
        """Return the triangles of a tree, or the view of a scene and its count of moves."""
        target = self.rays()
        primitives, owner = target.arrays.primitives, cast(Any, target.owner)
        if isinstance(primitives, Triangles):
            return primitives, 0, None
        return owner, owner.moves, None

    def inside(
        self, points: Floats, threads: int, progress: Progress | None = None, *,
        surface: bool = True,
    ) -> NDArray[np.bool_]:  # fmt: skip
        """Return which points (n, 3) are inside by parity or, with `surface`, on the surface."""
        return inside(self.rays(), self.mask, points, threads, progress, surface=surface)

    def winding_numbers(
        self, points: Floats, accuracy: float, threads: int, progress: Progress | None = None
    ) -> Floats:
        """Return the winding number of each of the points (n, 3), as `OrientedSurface.numbers`."""
        # False: faces of reflected leaves are not reversed, so the number in such a leaf is -1.
        return self.oriented_surface(False).numbers(points, accuracy, threads, progress)

    def inside_by_winding(
        self, points: Floats, threads: int, progress: Progress | None = None
    ) -> NDArray[np.bool_]:
        """Return which points (n, 3) have a winding number above a half.

        Faces of a scene's reflected leaves are reversed, so that normals point outward.
        """
        return self.oriented_surface(True).inside(points, threads, progress)

    def run(
        self, batch: PointBatch, count: int | None, with_positions: bool, threads: int,
        progress: Progress | None,
    ) -> Nearest:  # fmt: skip
        """Find the closest triangle of each point, or `count` of them in consecutive rows."""
        row, metrics = self.rays().arrays.row, self.metrics
        target: Any = TreeTarget(row, self.mask)
        if metrics is not None:
            target = SceneTarget(row, metrics(), self.mask)
        if count is None:
            found = _new_nearest(batch.size, with_positions)
            return _fill(closest_points, target, batch, (), found, threads, progress)
        found = _new_nearest(batch.size * count, True)
        return _fill(nearest_points, target, batch, (count,), found, threads, progress)


@dataclass(eq=False)
class ShapeSearch(NearestSearch):
    """Target of points: spheres and capsules of a tree; or of a scene, with its faces."""

    target: TreeTarget | SceneTarget
    owner: Any  # the tree's arrays, or the view of the scene, which keep the target alive
    faces: PointSearch | None = None  # the selected faces of a scene, if there are any

    def source(self) -> Source:
        """Return the shapes of a tree, or the view of a scene and its count of moves."""
        owner = self.owner
        in_tree = isinstance(self.target, TreeTarget)
        return (owner.primitives, 0, None) if in_tree else (owner, owner.moves, None)

    def inside(
        self, points: Floats, threads: int, progress: Progress | None = None, *,
        surface: bool = True,
    ) -> NDArray[np.bool_]:  # fmt: skip
        """Return which points (n, 3) are in a shape or inside the faces of a leaf by parity.

        With `surface`, also those on a shape or on such a face.
        """
        if self.faces is None:
            found = np.zeros(len(points), np.bool_)
        else:
            found = self.faces.inside(points, threads, progress, surface=surface)
        marks, rows, target = found.view(np.uint8), kernel_input(points), self.target

        def work(begin: int, end: int) -> None:
            with _shelf_of(target).scratch() as scratch:
                mark_around(target, rows, scratch, begin, end, surface, marks)

        share(len(points), MAX_POINTS, work, threads, progress, MIN_POINTS)
        return found

    def run(
        self, batch: PointBatch, count: int | None, with_positions: bool, threads: int,
        progress: Progress | None,
    ) -> Nearest:  # fmt: skip
        """Find the nearest shape or face of each point, or `count` of them in consecutive rows."""
        k = 1 if count is None else count
        if self.faces is not None:
            # The kernel below keeps the nearest faces that are found here, but replaces those that
            # are farther away than shapes.
            found = self.faces.run(batch, count, with_positions, threads, None)
        else:
            found = _new_nearest(batch.size * k, with_positions)
            found.names.fill(-1)
        return _fill(nearest_shapes, self.target, batch, (k,), found, threads, progress)


def _shelf_of(target: TreeTarget | SceneTarget) -> Shelf[PointScratch]:
    """Return the shelf with scratch memory for searches of a tree or a scene."""
    return SHELVES[isinstance(target, SceneTarget)]


def _new_nearest(size: int, with_positions: bool) -> Nearest:
    """Return memory for `size` nearest primitives; `with_positions`, also positions and weights."""
    m = size if with_positions else 0
    return Nearest(np.empty(size), np.empty(size, np.int64), np.empty((m, 2)), np.empty((m, 3)))


def _fill(
    kernel: Any, target: Any, batch: PointBatch, extra: tuple[int, ...], found: Nearest,
    threads: int, progress: Progress | None,
) -> Nearest:  # fmt: skip
    """Fill and return `found`: threads call a kernel, such as `closest_points`, on chunks.

    `target` is searched for the points of `batch`. `extra` are the arguments of the kernel between
    the range of a chunk and `found`.
    """

    def work(begin: int, end: int) -> None:
        with _shelf_of(target).scratch() as scratch:
            kernel(target, batch.points, batch.limits, scratch, begin, end, *extra, found)

    share(batch.size, MAX_POINTS, work, threads, progress, MIN_POINTS)
    return found
