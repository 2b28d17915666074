"""Inside or outside of a closed mesh, by the parity of crossings.

A ray from a point crosses a closed surface an odd number of times if the point is inside, whatever
its direction, because every crossing has one owner (see `crossings`). So each point takes the
direction that soonest leaves the box of the mesh, a little off the axis, along which many edges
run.

In a scene, every leaf is a surface of its own, and a point is inside where it is in one of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvh import batches
from bvh.arguments import kernel_input
from bvh.arrays import TreeArrays
from bvh.many_hits import Request
from bvh.numerics import SMALLEST
from bvh.placed import Placed
from bvh.rays import RayBatch, ray_batch
from bvh.workers import Progress

# Points whose rays are in memory at a time.
CHUNK = 1 << 19

# Crossings of a scene that are in memory at a time, if they are not of a single point.
MOST_CROSSINGS = 1 << 22

# Next to an axis, and in no plane that meshes are likely to have faces in.
ASIDE = np.array([1.0, 0.0131875, 0.0294375])


def inside(
    arrays: TreeArrays,
    points: NDArray[np.float64],
    threads: int,
    progress: Progress | None = None,
    *,
    split: bool = True,
    surface: bool = True,
    masks: NDArray[np.int32] | None = None,
) -> NDArray[np.bool_]:
    """Tell which points (n, 3) are inside a closed mesh or, with `surface`, on its surface.

    `split` trees hold primitives in several leaves. Points that are not finite are outside. In a
    scene, `masks` choose among its leaves (see `RayBatch`), each of which is closed.
    """
    result = np.zeros(len(points), np.bool_)
    if len(points) == 0 and progress is not None:
        progress(0, 0)
    for begin in range(0, len(points), CHUNK):
        some = points[begin : begin + CHUNK]
        ways_out = _ways_out(arrays, some)
        rays = ray_batch(some, ways_out, SMALLEST, np.inf)._replace(masks=masks)
        crossings = Request(arrays, rays, 0, True, None).counts(split, threads, None)
        found = crossings & 1 == 1
        if isinstance(arrays.primitives, Placed):
            _add_inside_leaves(arrays, rays, crossings, threads, found)
        if surface:
            outside = np.flatnonzero(~found)
            found[outside] = _on_surface(arrays, _some(rays, outside), threads)
        result[begin : begin + CHUNK] = found
        if progress is not None:
            progress(min(begin + CHUNK, len(points)), len(points))
    return result


def _add_inside_leaves(
    arrays: TreeArrays,
    rays: RayBatch,
    crossings: NDArray[np.int64],
    threads: int,
    found: NDArray[np.bool_],
) -> None:
    """Mark the points that are inside an even number of a scene's leaves, too."""
    # Where the sum is odd, one of the leaves is crossed an odd number of times.
    open_ones = np.flatnonzero(~found & (crossings > 0))
    ends = np.cumsum(crossings[open_ones])
    begin = 0
    while begin < len(open_ones):
        before = ends[begin - 1] if begin else 0
        end = max(int(ends.searchsorted(before + MOST_CROSSINGS, "right")), begin + 1)
        some = open_ones[begin:end]
        hits = Request(arrays, _some(rays, some), 0, True, None).all_hits(None, threads, None)
        pairs = np.sort(hits.ray_id << 32 | hits.leaf)
        starts = np.flatnonzero(np.append(True, pairs[1:] != pairs[:-1]))
        times = np.diff(np.append(starts, len(pairs)))
        found[some[pairs[starts[times & 1 == 1]] >> 32]] = True
        begin = end


def _some(rays: RayBatch, chosen: NDArray[np.int64]) -> RayBatch:
    """Return the rays of some points; the range and the masks are the same for all."""
    return rays._replace(
        origins=kernel_input(rays.origins[chosen]),
        directions=kernel_input(rays.directions[chosen]),
        shape=(len(chosen),),
    )


def _ways_out(arrays: TreeArrays, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each point the direction, of six, that leaves the box of the mesh soonest."""
    frame = arrays.frame
    scale = 2.0 ** -frame[1, 0]
    with np.errstate(all="ignore"):
        lower, upper = frame[0] + frame[2] * scale, frame[0] + frame[3] * scale
        away = np.hstack([points - lower, upper - points])
        way = np.argmin(np.where(np.isnan(away), np.inf, away), axis=1)
    return np.asarray(DIRECTIONS[way])


def _six_directions() -> NDArray[np.float64]:
    up = np.stack([np.roll(ASIDE, axis) for axis in range(3)])
    return np.vstack([-up, up])


DIRECTIONS = _six_directions()


def _on_surface(arrays: TreeArrays, rays: RayBatch, threads: int) -> NDArray[np.bool_]:
    """Tell which of the rays begin on a face."""
    result = np.zeros(rays.size, np.bool_)
    nothing = kernel_input(np.zeros(1))
    # A ray misses a face that it lies in, but no face holds three directions.
    for turn in range(3):
        turned = kernel_input(np.roll(rays.directions, turn, axis=1))
        short = rays._replace(directions=turned, t_min=nothing, t_max=nothing)
        result |= batches.any_hit(arrays, short, 0, threads, None, False)
    return result
