"""Chunks of points on threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.placed import hit_codes, owners_of
from bvh.points import ClosestPoints, PointBatch, SceneClosestPoints
from bvh.rays import shaped
from bvh.traversal.closest_point import Nearest, TreeTarget, closest_points, nearest_points
from bvh.traversal.points_scratch import PointScratch, new_scratch
from bvh.traversal.scene_nearest import SceneTarget
from bvh.traversal.winding_number import new_scratch as new_winding_scratch
from bvh.traversal.winding_number import winding_numbers as winding_numbers_at
from bvh.winding import WindingTerms
from bvh.workers import Progress, Shelf, share

# Points in a chunk: long enough to hide the call, short enough to balance threads and to hear
# Ctrl-C at once.
SMALLEST_CHUNK, LARGEST_CHUNK = 128, 4096


def in_chunks(
    count: int, work: Callable[[int, int], object], threads: int, progress: Progress | None
) -> None:
    """Call work on chunks of points."""
    chunk = min(max(count // (16 * threads), SMALLEST_CHUNK), LARGEST_CHUNK)
    share(count, chunk, work, threads, progress)


def closest(
    arrays: Any, batch: PointBatch, threads: int, progress: Progress | None
) -> ClosestPoints:
    """Return the nearest point for each point."""
    return _in_tree(_run(TreeTarget(arrays), batch, None, True, threads, progress), batch.shape)


def distances(arrays: Any, batch: PointBatch, threads: int, progress: Progress | None) -> Any:
    """Return the distance of each point, flat."""
    return _run(TreeTarget(arrays), batch, None, False, threads, progress).distance


def nearest(
    arrays: Any, batch: PointBatch, count: int, threads: int, progress: Progress | None
) -> ClosestPoints:
    """Return the nearest points in `count` triangles for each point, on one more axis."""
    found = _run(TreeTarget(arrays), batch, count, True, threads, progress)
    return _in_tree(found, (*batch.shape, count))


def _in_tree(found: Nearest, shape: tuple[int, ...]) -> ClosestPoints:
    prim, weights = found.names.astype(np.int32), found.weights
    d, prim_id, u, v = shaped(shape, found.distance, prim, weights[:, 0], weights[:, 1])
    return ClosestPoints(d, found.position.reshape(*shape, 3), prim_id, u, v)


def closest_in_scene(
    arrays: Any,
    metrics: NDArray[np.float64],
    mask: int,
    batch: PointBatch,
    count: int | None,
    threads: int,
    progress: Progress | None,
) -> SceneClosestPoints:
    """Return the nearest point of a scene for each point, or `count` of them on one more axis."""
    found = _run(SceneTarget(arrays, metrics, mask), batch, count, True, threads, progress)
    shape, weights = batch.shape if count is None else (*batch.shape, count), found.weights
    leaf, prim = hit_codes(found.names)
    d, prim_id, u, v, instance_id, leaf_id = shaped(
        shape, found.distance, prim, weights[:, 0], weights[:, 1],
        owners_of(arrays.primitives, leaf), leaf,
    )  # fmt: skip
    position = found.position.reshape(*shape, 3)
    return SceneClosestPoints(d, position, prim_id, u, v, instance_id, leaf_id)


def distances_in_scene(
    arrays: Any,
    metrics: NDArray[np.float64],
    mask: int,
    batch: PointBatch,
    threads: int,
    progress: Progress | None,
) -> NDArray[np.float64]:
    """Return the distance of each point from a scene, flat."""
    target = SceneTarget(arrays, metrics, mask)
    return _run(target, batch, None, False, threads, progress).distance


def _run(
    target: TreeTarget | SceneTarget,
    batch: PointBatch,
    count: int | None,
    places: bool,
    threads: int,
    progress: Progress | None,
) -> Nearest:
    """Find the closest triangle of each point, or `count` of them; with `places`, where it is."""
    n, shelf = batch.size * (1 if count is None else count), Shelf(lambda: _scratch_for(target))
    rows = n if places else 0
    found = Nearest(
        np.empty(n), np.empty(n, np.int64), np.empty((rows, 2)), np.empty((rows, 3))
    )  # fmt: skip

    def work(begin: int, end: int) -> None:
        with shelf.scratch() as scratch:
            args = target, batch.points, batch.limits, scratch, begin, end
            if count is None:
                closest_points(*args, found)
            else:
                nearest_points(*args, count, found)

    in_chunks(batch.size, work, threads, progress)
    return found


def _scratch_for(target: TreeTarget | SceneTarget) -> PointScratch:
    """Return the scratch of one thread."""
    return new_scratch(scene=isinstance(target, SceneTarget))


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
