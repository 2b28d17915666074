"""Batches of points: their chunks on threads, and their results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.ray_shapes import shaped
from bvh.queries.query_arguments import PointBatch, Target
from bvh.queries.results import ClosestPoints, SceneClosestPoints
from bvh.runtime.jit import kept_entry_point
from bvh.runtime.threads import Progress, Shelf, share
from bvh.traversal.points.closest_point import Nearest, TreeTarget, closest_points, nearest_points
from bvh.traversal.points.instanced_closest_point import SceneTarget
from bvh.traversal.points.scratch import PointScratch, new_scratch
from bvh.traversal.points.winding_number import winding_numbers as winding_numbers_at
from bvh.tree.instanced import hit_codes, owners_of
from bvh.tree.winding_moments import WindingTerms

# Points that a thread takes at a time: enough to hide the cost of the call, few enough to balance
# threads and to notice Ctrl-C at once.
MIN_POINTS, MAX_POINTS = 128, 4096

# Kept from batch to batch: to make scratch takes longer than one point.
SHELVES: dict[type, Shelf[PointScratch]] = {
    TreeTarget: Shelf(new_scratch),
    SceneTarget: Shelf(partial(new_scratch, scene=True)),
}


def find_closest(
    target: Target, batch: PointBatch, count: int | None, threads: int, progress: Progress | None
) -> ClosestPoints:
    """Return the closest point for each point, or `count` of them on one more axis."""
    found = _run(target, batch, count, True, threads, progress)
    shape = batch.shape if count is None else (*batch.shape, count)
    position, weights = found.position.reshape(*shape, 3), found.weights
    u, v = weights[:, 0], weights[:, 1]
    if target.metrics is None:
        d, *rest = shaped(shape, found.distance, found.names.astype(np.int32), u, v)
        return ClosestPoints(d, position, *rest)
    leaf, prim = hit_codes(found.names)
    owners = owners_of(target.arrays.primitives, leaf)
    d, *rest = shaped(shape, found.distance, prim, u, v, owners, leaf)
    return SceneClosestPoints(d, position, *rest)


def find_distances(
    target: Target, batch: PointBatch, threads: int, progress: Progress | None
) -> NDArray[np.float64]:
    """Return the distance of each point, flat."""
    return _run(target, batch, None, False, threads, progress).distance


def in_chunks(
    count: int, work: Callable[[int, int], object], threads: int, progress: Progress | None
) -> None:
    """Call work on chunks of points."""
    chunk = min(max(count // (16 * threads), MIN_POINTS), MAX_POINTS)
    share(count, chunk, work, threads, progress)


def _run(
    target: Target,
    batch: PointBatch,
    count: int | None,
    places: bool,
    threads: int,
    progress: Progress | None,
) -> Nearest:
    """Find the closest triangle of each point, or `count` of them; with `places`, where it is."""
    searched: Any = TreeTarget(target.arrays.row, target.mask)
    if target.metrics is not None:
        searched = SceneTarget(target.arrays.row, target.metrics, target.mask)
    n, shelf = batch.size * (1 if count is None else count), SHELVES[type(searched)]
    rows = n if places else 0
    entry = closest_points if count is None else nearest_points
    found = Nearest(
        np.empty(n), np.empty(n, np.int64), np.empty((rows, 2)), np.empty((rows, 3))
    )  # fmt: skip

    def work(begin: int, end: int) -> None:
        with shelf.scratch() as scratch:
            args = searched, batch.points, batch.limits, scratch, begin, end
            arguments = (*args, found) if count is None else (*args, count, found)
            # Numba's dispatcher takes longer than a few points.
            kept_entry_point(entry, (type(target.arrays.primitives),), arguments)(*arguments)

    in_chunks(batch.size, work, threads, progress)
    return found


def winding_numbers(
    terms: WindingTerms,
    points: NDArray[np.float64],
    accuracy: float,
    threads: int,
    progress: Progress | None,
) -> NDArray[np.float64]:
    """Return the winding number at each of the points (n, 3); exact sums where it is infinite."""
    found = np.empty(len(points))

    def work(begin: int, end: int) -> None:
        winding_numbers_at(terms, points, accuracy**2, begin, end, found)

    if accuracy == np.inf:
        # Every point takes long.
        share(len(points), 16, work, threads, progress)
    else:
        in_chunks(len(points), work, threads, progress)
    return found
