"""Winding numbers of points: signed crossings of a ray from each, and angles over open edges."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.queries.batches.containment import (
    FEWEST_POINTS,
    MAX_POINTS,
    MIN_POINTS,
    POINTS_AT_ONCE,
    corners_of,
)
from bvh.queries.batches.ray_batches import RaySearch
from bvh.queries.query_arguments import INFINITY, ZERO, RayBatch, RayOptions
from bvh.runtime.arguments import kernel_input
from bvh.runtime.threads import Progress, share
from bvh.traversal.points.boundary_angles import add_boundary
from bvh.traversal.points.edge_factors import WAYS
from bvh.traversal.points.parity import write_ways_out
from bvh.traversal.points.winding_number import winding_numbers
from bvh.traversal.rays.ray_batch import Rays
from bvh.tree.boundary import Loops, boundary_of, free_edges
from bvh.tree.winding_moments import WindingTerms, winding_terms

# Edges of the boundary, times points, that a thread takes at a time; fewest points.
PAIRS_AT_ONCE, FEWEST_AT_ONCE = 1 << 20, 16
# Points of a boundary up to which exact numbers are computed as fast as by a series.
FEW = 64
# The accuracy of numbers that are compared with a half, and a bound of their error by a series.
ACCURACY, ERROR = 2.0, 0.001


class OrientedSurface(NamedTuple):
    """An oriented surface for winding numbers: the faces of a tree that a mask selects."""

    search: RaySearch
    mask: int  # as int32
    loops: Loops  # its boundary: edges that faces use more often in one direction than the other
    # moments(threads) returns the multipole moments of the faces.
    moments: Callable[[int], WindingTerms]

    def numbers(
        self, points: NDArray[np.float64], accuracy: float, threads: int,
        progress: Progress | None = None,
    ) -> NDArray[np.float64]:  # fmt: skip
        """Return the winding number of each of the points (n, 3).

        They are exact but for rounding if `accuracy` is infinite, or the boundary short. Otherwise
        a series sums up clusters farther away than `accuracy` times their radius.
        """
        if accuracy < np.inf and self.loops.size > FEW:
            return self._approximate(points, accuracy, threads, progress)
        masks, found = np.array([self.mask], np.int32), np.empty(len(points))
        box = corners_of(self.search)

        def work(begin: int, end: int) -> None:
            some = kernel_input(points[begin:end])
            ways = ways_of(some, self.loops, box)
            # One t_min, t_max and mask for all rays.
            rays = RayBatch(Rays(some, ways, ZERO, INFINITY, masks), (len(some),))
            found[begin:end] = self.search.signed_hits(rays, RayOptions(sort=False))
            add_boundary(self.loops, some, ways, 0, len(some), found[begin:end])

        _share(self.loops, len(points), work, threads, progress)
        return found

    def inside(
        self, points: NDArray[np.float64], threads: int, progress: Progress | None = None
    ) -> NDArray[np.bool_]:
        """Return which of the points (n, 3) have a winding number above a half."""
        return above_half(self.numbers, self.loops, points, threads, progress)

    def _approximate(
        self, points: NDArray[np.float64], accuracy: float, threads: int,
        progress: Progress | None,
    ) -> NDArray[np.float64]:  # fmt: skip
        """Return the winding numbers of points (n, 3) by a series, as `numbers` describes it."""
        # The kernel compares squares of distances and radii, so it gets the accuracy squared.
        terms, found = self.moments(threads), np.empty(len(points))

        def work(begin: int, end: int) -> None:
            winding_numbers(terms, points, accuracy**2, begin, end, found)

        share(len(points), MAX_POINTS, work, threads, progress, MIN_POINTS)
        return found


def oriented_surface(tree: Any, search: RaySearch, mask: int) -> OrientedSurface:
    """Return the surface of the faces of a tree that `mask`, an int32, selects."""
    return OrientedSurface(
        search, mask, boundary_for(tree, mask), partial(tree._by_mask, winding_terms, mask)
    )


def boundary_for(tree: Any, mask: int) -> Loops:
    """Return the boundary of the faces of a tree that `mask`, an int32, selects; cached."""
    return tree._by_mask(boundary_of, mask)  # type: ignore[no-any-return]


def free_edges_for(tree: Any, mask: int) -> NDArray[np.int64]:
    """Return the boundary's directed edges (n, 2) as vertex ids; equal positions are not merged."""
    return tree._by_mask(free_edges, mask)  # type: ignore[no-any-return]


def above_half(
    numbers: Callable[..., NDArray[np.float64]], loops: Loops, points: NDArray[np.float64],
    threads: int, progress: Progress | None,
) -> NDArray[np.bool_]:  # fmt: skip
    """Return which points (n, 3) have a winding number above a half, (n,).

    numbers(points, accuracy, threads, progress) computes winding numbers. Those of a series, if the
    boundary `loops` is long, that are nearer to a half than its error are computed again, exactly.
    """
    found = numbers(points, ACCURACY, threads, progress)
    if loops.size > FEW:
        near = np.flatnonzero(np.abs(found - 0.5) <= ERROR)
        found[near] = numbers(points[near], np.inf, threads)
    return np.asarray(found > 0.5)


def add_angles(
    loops: Loops, points: NDArray[np.float64], ways: NDArray[np.float64],
    found: NDArray[np.float64], threads: int,
) -> None:  # fmt: skip
    """Add to `found` (n,), the signed crossings of rays, the angles of the boundary `loops`.

    The sums are winding numbers. `ways` (n, 3) are the directions of the rays from `points` (n, 3).
    """

    def work(begin: int, end: int) -> None:
        add_boundary(loops, points, ways, begin, end, found)

    _share(loops, len(points), work, threads, None)


def _share(
    loops: Loops, count: int, work: Callable[[int, int], object], threads: int,
    progress: Progress | None,
) -> None:  # fmt: skip
    """Call work(begin, end) on chunks of `count` points, smaller chunks for a longer boundary."""
    most = max(min(PAIRS_AT_ONCE // (loops.size + 1), POINTS_AT_ONCE), FEWEST_AT_ONCE)
    share(count, most, work, threads, progress, min(FEWEST_POINTS, most))


def ways_of(
    points: NDArray[np.float64], loops: Loops, box: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the directions (n, 3) of the rays of points; `box` (6,) is that of all faces."""
    # Rays that leave the box of all faces soonest are fastest. With a boundary, the last bits of
    # results depend on the direction, so it follows from the boundary of the selected faces alone.
    ways = np.empty((len(points), 3))
    write_ways_out(loops.box if loops.size else box, WAYS, points, ways)
    return ways
