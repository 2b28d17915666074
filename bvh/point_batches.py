"""Batches of points: their chunks on threads, and their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.placed import hit_codes, owners_of
from bvh.points import PointBatch
from bvh.rays import shaped
from bvh.results import ClosestPoints, SceneClosestPoints
from bvh.targets import Target
from bvh.traversal.closest_point import closest_points
from bvh.traversal.nearest_many import nearest_points
from bvh.traversal.points_scratch import new_scratch
from bvh.traversal.scene_nearest import nearest_in_scene
from bvh.traversal.scene_nearest import new_scratch as new_scene_scratch
from bvh.traversal.winding_number import new_scratch as new_winding_scratch
from bvh.traversal.winding_number import winding_numbers as winding_numbers_at
from bvh.winding import WindingTerms
from bvh.workers import Progress, Shelf, share

# Points that a thread takes at a time: enough to hide the cost of the call, few enough to balance
# threads and to notice Ctrl-C at once.
FEWEST_POINTS, MOST_POINTS = 128, 4096


def find_closest(
    target: Target, batch: PointBatch, count: int | None, threads: int, progress: Progress | None
) -> ClosestPoints:
    """Return the closest point for each point, or `count` of them on one more axis."""
    if target.stretches is not None:
        return closest_in_scene(
            target.arrays, target.stretches, target.mask, batch, count, threads, progress
        )
    if count is None:
        return closest(target.arrays, batch, threads, progress)
    return nearest(target.arrays, batch, count, threads, progress)


def find_distances(
    target: Target, batch: PointBatch, threads: int, progress: Progress | None
) -> NDArray[np.float64]:
    """Return the distance of each point, flat."""
    if target.stretches is not None:
        return distances_in_scene(
            target.arrays, target.stretches, target.mask, batch, threads, progress
        )
    found: NDArray[np.float64] = distances(target.arrays, batch, threads, progress)
    return found


def in_chunks(
    count: int, work: Callable[[int, int], object], threads: int, progress: Progress | None
) -> None:
    """Call work on chunks of points."""
    chunk = min(max(count // (16 * threads), FEWEST_POINTS), MOST_POINTS)
    share(count, chunk, work, threads, progress)


def closest(
    arrays: Any, batch: PointBatch, threads: int, progress: Progress | None
) -> ClosestPoints:
    """Return the nearest point for each point."""
    n = batch.size
    weights, position = np.empty((n, 2)), np.empty((n, 3))
    distance, prim = _run(arrays, batch, weights, position, threads, progress)
    d, prim_id, u, v = shaped(batch.shape, distance, prim, weights[:, 0], weights[:, 1])
    return ClosestPoints(d, position.reshape(*batch.shape, 3), prim_id, u, v)


def distances(arrays: Any, batch: PointBatch, threads: int, progress: Progress | None) -> Any:
    """Return the distance of each point, flat."""
    return _run(arrays, batch, np.empty((0, 2)), np.empty((0, 3)), threads, progress)[0]


def _run(
    arrays: Any,
    batch: PointBatch,
    weights: NDArray[np.float64],
    position: NDArray[np.float64],
    threads: int,
    progress: Progress | None,
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    distance, prim, shelf = np.empty(batch.size), np.empty(batch.size, np.int32), Shelf(new_scratch)

    def work(begin: int, end: int) -> None:
        with shelf.scratch() as scratch:
            closest_points(
                arrays, batch.points, batch.limits, scratch, begin, end, distance, prim,
                weights, position,
            )  # fmt: skip

    in_chunks(batch.size, work, threads, progress)
    return distance, prim


def nearest(
    arrays: Any, batch: PointBatch, count: int, threads: int, progress: Progress | None
) -> ClosestPoints:
    """Return the nearest points in `count` triangles for each point, on one more axis."""
    n = batch.size * count
    distance, prim, shelf = np.empty(n), np.empty(n, np.int32), Shelf(new_scratch)
    weights, position = np.empty((n, 2)), np.empty((n, 3))

    def work(begin: int, end: int) -> None:
        with shelf.scratch() as scratch:
            nearest_points(
                arrays, batch.points, batch.limits, scratch, begin, end, count, distance, prim,
                weights, position,
            )  # fmt: skip

    in_chunks(batch.size, work, threads, progress)
    shape = (*batch.shape, count)
    d, prim_id, u, v = shaped(shape, distance, prim, weights[:, 0], weights[:, 1])
    return ClosestPoints(d, position.reshape(*shape, 3), prim_id, u, v)


def closest_in_scene(
    arrays: Any,
    stretches: NDArray[np.float64],
    mask: int,
    batch: PointBatch,
    count: int | None,
    threads: int,
    progress: Progress | None,
) -> SceneClosestPoints:
    """Return the nearest point of a scene for each point, or `count` of them on one more axis."""
    most = 1 if count is None else count
    shape = batch.shape if count is None else (*batch.shape, count)
    n = batch.size * most
    weights, position = np.empty((n, 2)), np.empty((n, 3))
    distance, codes = _run_in_scene(
        arrays, stretches, mask, batch, most, weights, position, threads, progress
    )
    leaf, prim = hit_codes(codes)
    owners = owners_of(arrays.primitives, leaf)
    d, prim_id, u, v, instance_id, leaf_id = shaped(
        shape, distance, prim, weights[:, 0], weights[:, 1], owners, leaf
    )
    places = position.reshape(*shape, 3)
    return SceneClosestPoints(d, places, prim_id, u, v, instance_id, leaf_id)


def distances_in_scene(
    arrays: Any,
    stretches: NDArray[np.float64],
    mask: int,
    batch: PointBatch,
    threads: int,
    progress: Progress | None,
) -> NDArray[np.float64]:
    """Return the distance of each point from a scene, flat."""
    nothing = np.empty((0, 2)), np.empty((0, 3))
    return _run_in_scene(arrays, stretches, mask, batch, 1, *nothing, threads, progress)[0]


def _run_in_scene(
    arrays: Any,
    stretches: NDArray[np.float64],
    mask: int,
    batch: PointBatch,
    count: int,
    weights: NDArray[np.float64],
    position: NDArray[np.float64],
    threads: int,
    progress: Progress | None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    n, shelf = batch.size * count, Shelf(new_scene_scratch)
    distance, codes = np.empty(n), np.empty(n, np.int64)

    def work(begin: int, end: int) -> None:
        with shelf.scratch() as scratch:
            nearest_in_scene(
                arrays, stretches, mask, batch.points, batch.limits, scratch, begin, end, count,
                distance, codes, weights, position,
            )  # fmt: skip

    in_chunks(batch.size, work, threads, progress)
    return distance, codes


def winding_numbers(
    terms: WindingTerms,
    points: NDArray[np.float64],
    accuracy: float,
    threads: int,
    progress: Progress | None,
) -> NDArray[np.float64]:
    """Return the winding number at each of the points (n, 3); exact sums where it is infinite."""
    found, shelf = np.empty(len(points)), Shelf(new_winding_scratch)

    def work(begin: int, end: int) -> None:
        with shelf.scratch() as scratch:
            winding_numbers_at(terms, points, scratch, accuracy**2, begin, end, found)

    if accuracy == np.inf:
        # Every point takes long.
        share(len(points), 16, work, threads, progress)
    else:
        in_chunks(len(points), work, threads, progress)
    return found
