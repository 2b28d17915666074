"""Inside or outside of a closed mesh, by the parity of crossings.

A ray from a point crosses a closed surface an odd number of times if the point is inside, whatever
its direction, because every crossing has one owner (see `RayQueries.all_hits`, `edges="once"`). So
each point gets the direction, its *way out*, that leaves the box of the mesh soonest, a little off
the axis: many edges run along axes.

In a scene, each leaf is a surface of its own, and a point is inside if it is inside one of them.
"""

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import SMALLEST
from bvh.queries.batches import quick_calls
from bvh.queries.batches.quick_calls import Searched
from bvh.queries.batches.ray_batches import RaySearch
from bvh.queries.query_arguments import INFINITY, RayBatch, RayOptions
from bvh.queries.targets import RayTarget
from bvh.runtime.arguments import kernel_input
from bvh.runtime.memory import Shelf
from bvh.runtime.threads import Progress, share
from bvh.traversal.points.parity import decide_parity, write_ways_out
from bvh.traversal.rays.ray_batch import Rays
from bvh.tree.arrays import TreeArrays
from bvh.tree.instanced import Instanced

# Points that a thread takes at a time, at most and at least.
POINTS_AT_ONCE, FEWEST_POINTS = 1 << 15, 3 << 10
# The most that `inside` takes at a time: its memory then fits the second-level cache.
MAX_INSIDE = 1 << 13
# The same where a chunk is a single call of a kernel: enough to hide its cost, few enough to
# balance threads and to notice Ctrl-C immediately.
MIN_POINTS, MAX_POINTS = 128, 4096
# Most crossings of a scene that are in memory at a time, unless those of a single point are more.
MAX_CROSSINGS = 1 << 22
# Directions next to the axes, in no plane in which meshes are likely to have faces: down each axis,
# then up, in the order of `parity.write_ways_out` and of depths in `way_out`.
ASIDE = np.array([1.0, 0.0131875, 0.0294375])
UP = np.stack([np.roll(ASIDE, axis) for axis in range(3)])
DIRECTIONS = np.vstack([-UP, UP])
WAYS, NEAREST = [tuple(row) for row in DIRECTIONS.tolist()], float(SMALLEST)
# t_min of crossings, the smallest above 0, which leaves out the point itself; and 0, both t_min and
# t_max of rays that hit only what the point is on.
LOW, AT_POINT = np.array([NEAREST]), np.zeros(1)
OPTIONS = RayOptions(sort=False)
# Permutations of a direction's coordinates, which give three directions that are not in one plane.
TURNS = np.array([[0, 1, 2], [2, 0, 1], [1, 2, 0]])


class _Memory(NamedTuple):
    """Scratch of one thread, for the points of a chunk."""

    directions: NDArray[np.float64]
    crossings: NDArray[np.int64]
    near: NDArray[np.int64]  # indices of points that may be on a face


# Reused from batch to batch.
_SHELF: Shelf[_Memory] = Shelf(
    lambda: _Memory(np.empty((MAX_INSIDE, 3)), *np.empty((2, MAX_INSIDE), np.int64))
)


def inside(
    search: RaySearch, mask: int, points: NDArray[np.float64], threads: int,
    progress: Progress | None = None, *, surface: bool = True,
) -> NDArray[np.bool_]:  # fmt: skip
    """Return which points (n, 3) are inside a closed mesh or, with `surface`, on its surface.

    The mesh is the faces that share a bit with `mask`, an int32. In a scene each leaf is a mesh.
    """
    arrays, result = search.arrays, np.empty(len(points), np.bool_)
    corners, in_scene = corners_of(search), isinstance(arrays.primitives, Instanced)
    # One t_min, t_max and mask for all rays. A t above 0 leaves out the point itself.
    like = Rays(UP[:1], UP[:1], LOW, INFINITY, np.array([mask], np.int32))
    count_crossings = search.crossing_counter(like)

    def work(begin: int, end: int) -> None:
        memory, n = _SHELF.take(), end - begin
        some, found = kernel_input(points[begin:end]), result[begin:end]
        ways, crossings, near = memory.directions[:n], memory.crossings[:n], memory.near
        write_ways_out(corners, DIRECTIONS, some, ways)
        ways = kernel_input(ways)
        count_crossings(some, ways, crossings)
        # The kernel marks points with an odd number of crossings, writes the indices of the other
        # points that may be on a face to `near`, and returns their number.
        marks = found.view(np.uint8)
        near_count = decide_parity(arrays.row, some, crossings, surface, marks, near)
        if near_count or in_scene:
            batch = RayBatch(like._replace(origins=some, directions=ways), (n,))
            if in_scene:
                _add_inside_leaves(search, batch, crossings, found)
            if near_count:
                near = near[:near_count]
                found[near] |= on_surface(search, _chosen_rays(batch, near))
        _SHELF.give_back(memory)

    share(len(points), MAX_INSIDE, work, threads, progress, FEWEST_POINTS)
    return result


def _add_inside_leaves(
    search: RaySearch, batch: RayBatch, crossings: NDArray[np.int64], result: NDArray[np.bool_]
) -> None:
    """Mark in `result` the points with an even number of crossings that are inside some leaf.

    `crossings` (n,) are the numbers of crossings of each point's ray with all leaves of a scene.
    """
    # If the sum over the leaves is odd, so is the number of some leaf: the point is marked already.
    undecided = np.flatnonzero(~result & (crossings > 0))
    ends = np.cumsum(crossings[undecided])
    begin = 0
    # Rays in groups of at most MAX_CROSSINGS hits, or single rays with more hits.
    while begin < len(undecided):
        before = ends[begin - 1] if begin else 0
        end = max(int(ends.searchsorted(before + MAX_CROSSINGS, "right")), begin + 1)
        some = undecided[begin:end]
        hits = search.all_hits(_chosen_rays(batch, some), OPTIONS, once=True)
        # Crossings of each ray with each leaf: an odd number if the point is inside the leaf.
        pairs, times = np.unique(hits.ray_id << 32 | hits.leaf, return_counts=True)
        result[some[pairs[times & 1 == 1] >> 32]] = True
        begin = end


def _chosen_rays(batch: RayBatch, chosen: NDArray[np.int64]) -> RayBatch:
    """Return the rays of `batch` with the indices `chosen`; all share one range and one mask."""
    rays = batch.rays
    # `take` lets other threads run meanwhile; an index does not.
    origins, directions = (
        kernel_input(array.take(chosen, axis=0)) for array in (rays.origins, rays.directions)
    )
    return RayBatch(rays._replace(origins=origins, directions=directions), (len(chosen),))


def ways_out(arrays: TreeArrays, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each point the row of DIRECTIONS along which it leaves a tree's box soonest."""
    ways = np.empty((len(points), 3))
    write_ways_out(np.array(_corners(arrays)), DIRECTIONS, kernel_input(points), ways)
    return ways


def way_out(searched: Searched, point: Sequence[float]) -> tuple[float, ...]:
    """Return the direction that `ways_out` returns for one finite point (x, y, z)."""
    # Distances from the sides of the box, in the order of WAYS; negative for a point beyond a side.
    (a, b, c, d, e, f), (x, y, z) = _corners(searched.arrays, searched), point
    depths = (x - a, y - b, z - c, d - x, e - y, f - z)
    return WAYS[depths.index(min(depths))]


def corners_of(search: RaySearch) -> NDArray[np.float64]:
    """Return the lower and the upper corner of the box of a tree or scene in the world, (6,)."""
    return np.array(_corners(search.arrays, search.owner))


def _corners(arrays: TreeArrays, owner: Any = None) -> list[float]:
    """Return the corners of `corners_of` as six numbers, cached; `owner` is the view of a scene."""
    if isinstance(arrays.primitives, Instanced):
        # Not those in the frame, whose rounding depends on earlier places of the leaves.
        return owner.tlas.bounds.ravel().tolist()
    corners: list[float] | None = vars(arrays).get("_corners")
    if corners is None:
        # Rows of a frame: centre; exponent, ...; both corners, in (x - centre) * 2**exponent.
        centre, (exponent, *_), *box = arrays.frame.tolist()
        corners = [c + x * 2.0**-exponent for row in box for c, x in zip(centre, row, strict=True)]
        vars(arrays)["_corners"] = corners
    return corners


def on_surface(search: RayTarget, batch: RayBatch, threads: int = 1) -> NDArray[np.bool_]:
    """Return which rays of a batch begin on a face with an area, (n,), by rays of t from 0 to 0.

    All rays must have the same mask.
    """
    # A ray in the plane of a face misses it. Of three directions that are not in one plane, at most
    # two are in the plane of the face.
    rays = batch.rays
    turned = kernel_input(rays.directions.take(TURNS, axis=1).reshape(-1, 3))
    origins = kernel_input(rays.origins.repeat(3, axis=0))
    short = Rays(origins, turned, AT_POINT, AT_POINT, rays.masks)
    hits = search.any_hits(RayBatch(short, (len(origins),)), OPTIONS._replace(threads=threads))
    return np.asarray(np.reshape(hits, (-1, 3)).any(axis=1))


def inside_one(searched: Searched, point: Sequence[float], surface: bool = True) -> bool | None:
    """Return whether a point is inside or, if `surface`, on it; None where `inside` must answer."""
    x, y, z = point
    # The product of 0 and a coordinate that is not finite is NaN.
    if x * 0.0 + y * 0.0 + z * 0.0 != 0.0:
        return None
    way = a, b, c = way_out(searched, point)
    # The last argument is `once`: each crossing counts as one hit.
    crossings = quick_calls.count_hits(searched, (x, y, z, a, b, c), NEAREST, inf, True)
    # In a scene, an even number may be the sum of odd numbers of several leaves.
    if crossings is None or (crossings and crossings & 1 == 0 and searched.kind is Instanced):
        return None
    if crossings & 1 == 1 or not surface:
        return crossings & 1 == 1
    cast = searched.cast or searched.first_cast()
    # Three directions, as in `on_surface`; the argument 0 selects any-hit (see `cast_function`).
    met = [cast(point, turned, 0.0, 0.0, 0) for turned in (way, (c, a, b), (b, c, a))]
    return None if None in met else True in met
