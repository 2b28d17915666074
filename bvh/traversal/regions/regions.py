"""Regions of overlap queries (boxes, balls, convex polytopes) against nodes and primitives.

`to_local` transforms the region of a query to a tree's local frame; `reach` finds which of WIDTH
boxes there it may overlap; `decide`, whether it overlaps a primitive.

No result is lost. Boxes contain their primitives (see `nodes`). A local number computed here in
float64 has an error of 2**-50 of its terms; box corners are moved outward by a float32
step, radii and planes by the errors stated where they are computed. Numbers that overflow make a
region larger: comparisons are written so that NaN, too, means "may overlap".
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry import region_overlap as overlap
from bvh.geometry.arithmetic.floats import INF, finite, largest, next_above, row_of, vector
from bvh.geometry.arithmetic.vectors import minus, scaled
from bvh.geometry.boxes import read_box
from bvh.geometry.pairs import round_regions
from bvh.geometry.pairs.triangle_overlap import triangle_meets_box
from bvh.geometry.region_overlap import APART, MEET
from bvh.runtime.jit import by_type, inlined
from bvh.runtime.simd import WIDTH, convert, greater, peek, poke, select, splat
from bvh.tree import frame as frames
from bvh.tree.instanced import SPHERES, Instanced, instanced_capsule, kind_of, leaf_of
from bvh.tree.primitives import corners
from bvh.tree.shapes import KINDS, Boxes, Capsules, Spheres

F = np.float32
# The largest finite float32 corner: an unused lane, from +inf to -inf, is beyond it.
FARTHEST = 3.0e38
ERROR = 2.0**-48
TINY = 2.0**-500


class BoxRegions(NamedTuple):
    """Boxes by lower and upper corner, both (n, 3)."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


class SphereRegions(NamedTuple):
    """Balls by centre (n, 3) and radius (n,)."""

    center: NDArray[np.float64]
    radius: NDArray[np.float64]


class PlaneRegions(NamedTuple):
    """Polytopes by planes (n, k, 4): where all n . p + offset >= 0."""

    planes: NDArray[np.float64]
    shape: NDArray[np.int64]  # (k,)


Regions = BoxRegions | SphereRegions | PlaneRegions


def _local_box(region, i, frame, local, scale):
    """Write the corners of a box, rounded outward; False if it is empty or not finite."""
    low, high, centre = vector(region.lower, i), vector(region.upper, i), frames.centre(frame)
    if not (finite(low) and finite(high)):
        return False
    for axis in range(3):
        if not low[axis] <= high[axis]:
            return False
        first, last = F((low[axis] - centre[axis]) * scale), F((high[axis] - centre[axis]) * scale)
        poke(local, axis, max(np.float64(-next_above(-first)), -FARTHEST))
        poke(local, axis + 3, min(np.float64(next_above(last)), FARTHEST))
    return True


def _local_sphere(region, i, frame, local, scale):
    """Write a ball's centre and squared radius, enlarged by errors; False if it is not valid."""
    at, radius, centre = vector(region.center, i), peek(region.radius, i), frames.centre(frame)
    if not (finite(at) and 0.0 <= radius < INF):
        return False
    x, y, z = scaled(minus(at, centre), scale)
    # A difference has a relative error of 2**-53, and so has what `reach` subtracts from it; box
    # corners are at most 16, which the second term covers.
    r = radius * scale * (1.0 + ERROR) + (largest((x, y, z)) + 32.0) * ERROR + TINY
    poke(local, 0, x)
    poke(local, 1, y)
    poke(local, 2, z)
    poke(local, 3, r * r * (1.0 + ERROR))
    return True


def _local_planes(region, i, frame, local, scale):
    """Write (n, height) of each plane, moved outward; False if no point can be in the polytope."""
    # Inside, n . x + height >= 0; the largest component of n, unless n is 0, is 1 or -1.
    count, centre = peek(region.shape, 0), frames.centre(frame)
    for k in range(count):
        a, b, c, offset = row_of(region.planes, 4 * (i * count + k))
        n = (a, b, c)
        if not (finite(n) and abs(offset) < INF):
            return False
        size = largest(n)
        if size == 0.0:
            if offset < 0.0:
                return False
            # The plane excludes nothing; 1 only avoids a division by 0.
            size = 1.0
        n = (n[0] / size, n[1] / size, n[2] / size)
        x, y, z = n[0] * centre[0], n[1] * centre[1], n[2] * centre[2]
        w = offset / size
        height = ((x + y + z) + w) * scale
        terms = (abs(x) + abs(y) + abs(z) + abs(w)) * scale
        for axis in range(3):
            poke(local, 4 * k + axis, n[axis])
        # Box corners are at most 16.
        poke(local, 4 * k + 3, height + (terms + 64.0) * ERROR)
    return True


def _reach_box(region, local, low, high):
    first, last = vector(local, 0), vector(local, 1)
    below = (low[0] <= last[0]) & (low[1] <= last[1]) & (low[2] <= last[2])
    return below & (high[0] >= first[0]) & (high[1] >= first[1]) & (high[2] >= first[2])


@inlined
def _squared_gap(low, high, x):
    """Return the squared distance of a number from intervals, lane by lane, in float64."""
    zero = splat(np.float64(0.0), WIDTH)
    below = convert(low, np.float64(0.0)) - x
    above = x - convert(high, np.float64(0.0))
    gap = greater(greater(below, above), zero)
    return gap * gap


def _reach_sphere(region, local, low, high):
    """Return which boxes, in lanes, may overlap a ball: those within its squared radius."""
    # The negated comparison is true for NaN; unused lanes have low > high.
    total = (
        _squared_gap(low[0], high[0], peek(local, 0))
        + _squared_gap(low[1], high[1], peek(local, 1))
        + _squared_gap(low[2], high[2], peek(local, 2))
    )
    return ~(total > peek(local, 3)) & (low[0] <= high[0])


@inlined
def _farthest(low, high, n):
    """Return n times the end of intervals that is farther along it, in float64."""
    up = splat(n > 0.0, WIDTH)
    return convert(select(up, high, low), np.float64(0.0)) * n


def _reach_planes(region, local, low, high):
    """Return which boxes, in lanes, may overlap a region between planes."""
    inside = low[0] <= high[0]
    for k in range(peek(region.shape, 0)):
        top = (
            _farthest(low[0], high[0], peek(local, 4 * k))
            + _farthest(low[1], high[1], peek(local, 4 * k + 1))
            + _farthest(low[2], high[2], peek(local, 4 * k + 2))
            + peek(local, 4 * k + 3)
        )
        inside = inside & ~(top < 0.0)
    return inside


def _triangle_box(primitives, region, i, prim, scratch):
    low, high = vector(region.lower, i), vector(region.upper, i)
    return MEET if triangle_meets_box(*corners(primitives, prim), low, high) else APART


def _triangle_sphere(primitives, region, i, prim, scratch):
    center, radius = vector(region.center, i), peek(region.radius, i)
    return overlap.triangle_and_sphere(*corners(primitives, prim), center, radius)


def _triangle_planes(primitives, region, i, prim, scratch):
    (v0, v1, v2), count = corners(primitives, prim), peek(region.shape, 0)
    at, end = i * count, (i + 1) * count
    return overlap.triangle_and_planes(v0, v1, v2, region.planes, at, end, scratch)


def _box_box(primitives, region, i, prim, scratch):
    """Return whether a box and a region that is a box overlap."""
    low, high = read_box(primitives.points, prim)
    for axis in range(3):
        if low[axis] > peek(region.upper, 3 * i + axis):
            return APART
        if high[axis] < peek(region.lower, 3 * i + axis):
            return APART
    return MEET


def _box_sphere(primitives, region, i, prim, scratch):
    low, high = read_box(primitives.points, prim)
    return overlap.box_and_sphere(low, high, vector(region.center, i), peek(region.radius, i))


def _surface_box(capsule, region, i, scratch):
    p, q, radius = capsule
    low, high = vector(region.lower, i), vector(region.upper, i)
    return round_regions.surface_and_box(p, q, radius, low, high)


def _surface_sphere(capsule, region, i, scratch):
    p, q, radius = capsule
    center, reach = vector(region.center, i), peek(region.radius, i)
    return round_regions.surface_and_sphere(p, q, radius, center, reach)


def _surface_planes(capsule, region, i, scratch):
    (p, q, radius), count = capsule, peek(region.shape, 0)
    at, end = i * count, (i + 1) * count
    return round_regions.surface_and_planes(p, q, radius, region.planes, at, end)


TO_LOCAL = {BoxRegions: _local_box, SphereRegions: _local_sphere, PlaneRegions: _local_planes}
REACH = {BoxRegions: _reach_box, SphereRegions: _reach_sphere, PlaneRegions: _reach_planes}
DECIDE = {
    BoxRegions: _triangle_box, SphereRegions: _triangle_sphere, PlaneRegions: _triangle_planes
}  # fmt: skip
DECIDE_BOXES = {BoxRegions: _box_box, SphereRegions: _box_sphere}
DECIDE_ROUND = {
    BoxRegions: _surface_box, SphereRegions: _surface_sphere, PlaneRegions: _surface_planes
}  # fmt: skip


@by_type()
def to_local(region, i, frame, local, scale):
    """Write region i in local coordinates into `local`; return whether it is not empty."""
    # A box: both corners; a ball: its centre and squared radius; a polytope: four numbers a plane.
    return TO_LOCAL[region.instance_class]


@by_type(inline=True)
def reach(region, local, low, high):
    """Return the mask of the lanes whose boxes a region may overlap; unused lanes are not set."""
    return REACH[region.instance_class]


@by_type(inline=True)
def _decide_face(primitives, region, i, prim, scratch):
    return DECIDE[region.instance_class]


@by_type()
def _decide_round(capsule, region, i, scratch):
    """Return the answer for region i and the surface around an axis, with a radius."""
    return DECIDE_ROUND[region.instance_class]


def _decide_instanced(primitives, region, i, prim, scratch):
    if kind_of(primitives, leaf_of(prim)) >= SPHERES:
        return _decide_round(instanced_capsule(primitives, prim), region, i, scratch)
    return _decide_face(primitives, region, i, prim, scratch)


@by_type()
def decide(primitives, region, i, prim, scratch):
    """Return APART, MEET or UNSURE for region i and a primitive, in a scene the moved one."""
    # `scratch` is memory for the polygons to which planes cut a triangle.
    kind = primitives.instance_class
    if kind in (Spheres, Capsules):
        capsule = KINDS[kind].capsule
        return lambda primitives, region, i, prim, scratch: _decide_round(
            capsule(primitives.points, prim), region, i, scratch
        )
    if kind is Instanced:
        return _decide_instanced
    return (DECIDE_BOXES if kind is Boxes else DECIDE)[region.instance_class]
