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
# Corners are clamped to this: an unused lane, from +inf to -inf, is beyond it.
FARTHEST = 3.0e38
# Bounds of errors in float64, as a share of the terms, and of those by underflow.
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
    """Convex polytopes, each where n . p + offset >= 0 for all of its k planes (n, offset)."""

    planes: NDArray[np.float64]  # (number of polytopes, k, 4)
    shape: NDArray[np.int64]  # (1,): k, as kernels get the address of `planes` without its shape


Regions = BoxRegions | SphereRegions | PlaneRegions


def _local_box(region, i, frame, local, scale):
    """Write the corners of box i, local and rounded outward, to `local[:6]`: lower, then upper.

    Local coordinates are (x - centre of `frame`) * `scale`. Returns False, with `local` undefined,
    if the box is empty or not finite.
    """
    low, high, centre = vector(region.lower, i), vector(region.upper, i), frames.centre(frame)
    if not (finite(low) and finite(high)):
        return False
    for axis in range(3):
        if not low[axis] <= high[axis]:
            return False
        # A step outward covers the rounding; beyond FARTHEST there are only unused, infinite boxes.
        first, last = F((low[axis] - centre[axis]) * scale), F((high[axis] - centre[axis]) * scale)
        poke(local, axis, max(np.float64(-next_above(-first)), -FARTHEST))
        poke(local, axis + 3, min(np.float64(next_above(last)), FARTHEST))
    return True


def _local_sphere(region, i, frame, local, scale):
    """Write ball i in local coordinates to `local[:4]`: its centre, then its squared radius.

    Local coordinates are (x - centre of `frame`) * `scale`. The radius is enlarged by all errors.
    Returns False, with nothing written, if a number is not finite or the radius is negative.
    """
    center, radius = vector(region.center, i), peek(region.radius, i)
    if not (finite(center) and 0.0 <= radius < INF):
        return False
    x, y, z = scaled(minus(center, frames.centre(frame)), scale)
    # ERROR, 2**-48, of all terms covers the rounding of the centre and the radius, and in `reach`
    # that of differences from box corners, which are at most 16.
    r = radius * scale * (1.0 + ERROR) + (largest((x, y, z)) + 32.0) * ERROR + TINY
    poke(local, 0, x)
    poke(local, 1, y)
    poke(local, 2, z)
    poke(local, 3, r * r * (1.0 + ERROR))
    return True


def _local_planes(region, i, frame, local, scale):
    """Write the planes of polytope i, local and moved outward, to `local`: (n, height) of each.

    A point x' = (x - centre of `frame`) * `scale` is inside a plane where n . x' + height >= 0.
    Returns False, with `local` undefined, if a plane is not finite or excludes all of space.
    """
    # Planes are divided by the largest component of n, which becomes 1 or -1, unless n is 0.
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
        # The sum of the sizes of the terms of `height`.
        terms = (abs(x) + abs(y) + abs(z) + abs(w)) * scale
        for axis in range(3):
            poke(local, 4 * k + axis, n[axis])
        # 64 is above the sum of n . x': box corners are at most 16, components of n at most 1.
        poke(local, 4 * k + 3, height + (terms + 64.0) * ERROR)
    return True


def _reach_box(region, local, low, high):
    """Return the mask of the node boxes low..high, a box in each lane, that box `local` overlaps.

    `local` is the query's box, from `_local_box`: an unused lane, from inf to -inf, is beyond it.
    `region` is unused; the signature is that of `reach`.
    """
    first, last = vector(local, 0), vector(local, 1)
    below = (low[0] <= last[0]) & (low[1] <= last[1]) & (low[2] <= last[2])
    return below & (high[0] >= first[0]) & (high[1] >= first[1]) & (high[2] >= first[2])


@inlined
def _squared_gap(low, high, x):
    """Return the squared distances, in float64, of the number x from the intervals low..high.

    `low` and `high` are vectors of WIDTH lanes, an interval in each; within it the distance is 0.
    """
    zero = splat(np.float64(0.0), WIDTH)
    below = convert(low, np.float64(0.0)) - x
    above = x - convert(high, np.float64(0.0))
    gap = greater(greater(below, above), zero)
    return gap * gap


def _reach_sphere(region, local, low, high):
    """Return the mask of the node boxes low..high, a box in each lane, that a ball may overlap.

    `local` is the ball, from `_local_sphere`; `region` is unused, for the signature of `reach`.
    """
    # Not <=: NaN must mean "may overlap". Unused lanes have low > high.
    total = (
        _squared_gap(low[0], high[0], peek(local, 0))
        + _squared_gap(low[1], high[1], peek(local, 1))
        + _squared_gap(low[2], high[2], peek(local, 2))
    )
    return ~(total > peek(local, 3)) & (low[0] <= high[0])


@inlined
def _largest_product(low, high, n):
    """Return the largest n * x, in float64, of x in the intervals low..high, one in each lane."""
    up = splat(n > 0.0, WIDTH)
    return convert(select(up, high, low), np.float64(0.0)) * n


def _reach_planes(region, local, low, high):
    """Return the mask of the node boxes low..high, a box in each lane, that a polytope may overlap.

    `local` has (n, height) of each plane, from `_local_planes`; n . x + height >= 0 is inside. A
    box is excluded if its corner of largest n . x is outside of any one plane: then all of it is.
    """
    # Unused lanes have low > high. Not >= below: NaN must mean "may overlap".
    inside = low[0] <= high[0]
    for k in range(peek(region.shape, 0)):
        top = (
            _largest_product(low[0], high[0], peek(local, 4 * k))
            + _largest_product(low[1], high[1], peek(local, 4 * k + 1))
            + _largest_product(low[2], high[2], peek(local, 4 * k + 2))
            + peek(local, 4 * k + 3)
        )
        inside = inside & ~(top < 0.0)
    return inside


@by_type()
def to_local(region, i, frame, local, scale):
    """Write region i, in local coordinates of a tree and enlarged by rounding errors, to `local`.

    Written are both corners of a box, the centre and squared radius of a ball, or (n, height) of
    each plane of a polytope, n . x + height >= 0. Returns False if nothing overlaps the region, as
    it is empty or not finite. `scale` is the scale of `frame`, the frame of the tree.
    """
    return {
        BoxRegions: _local_box, SphereRegions: _local_sphere, PlaneRegions: _local_planes
    }[region.instance_class]  # fmt: skip


@by_type(inline=True)
def reach(region, local, low, high):
    """Return the mask of the node boxes, in lanes, that a region may overlap.

    `local` has the region's numbers, from `to_local`; `region` only tells its kind and the number
    of planes. `low` and `high` are the corners of the boxes, a vector for each axis. The mask is
    False in unused lanes.
    """
    return {
        BoxRegions: _reach_box, SphereRegions: _reach_sphere, PlaneRegions: _reach_planes
    }[region.instance_class]  # fmt: skip


@by_type(inline=True)
def _numbers_of(region, i):
    """Return region i, in world coordinates, as the last arguments of overlap tests.

    They are (lower, upper) of a box, (center, radius) of a ball, or (planes, first, end) of a
    polytope: the array of all planes, and the range of the rows of polytope i.
    """
    return {
        BoxRegions: lambda region, i: (vector(region.lower, i), vector(region.upper, i)),
        SphereRegions: lambda region, i: (vector(region.center, i), peek(region.radius, i)),
        PlaneRegions: lambda region, i: (
            region.planes, i * peek(region.shape, 0), (i + 1) * peek(region.shape, 0)
        ),
    }[region.instance_class]  # fmt: skip


@inlined
def _box_and_box(low, high, lower, upper):
    """Return MEET if the boxes low..high and lower..upper overlap or touch, else APART."""
    if low[0] > upper[0] or low[1] > upper[1] or low[2] > upper[2]:
        return APART
    if high[0] < lower[0] or high[1] < lower[1] or high[2] < lower[2]:
        return APART
    return MEET


@inlined
def _triangle_and_box(v0, v1, v2, low, high):
    """Return MEET if a triangle and the box low..high overlap or touch, else APART."""
    return MEET if triangle_meets_box(v0, v1, v2, low, high) else APART


@by_type(inline=True)
def _decide_triangle(primitives, region, i, prim, scratch):
    """Return APART, MEET or UNSURE (not decided) for region i and triangle `prim`, in the world.

    `scratch` is memory for the polygons to which planes cut the triangle.
    """
    if region.instance_class is PlaneRegions:
        return lambda primitives, region, i, prim, scratch: overlap.triangle_and_planes(
            *corners(primitives, prim), *_numbers_of(region, i), scratch
        )
    test = _triangle_and_box if region.instance_class is BoxRegions else overlap.triangle_and_sphere
    return lambda primitives, region, i, prim, scratch: test(
        *corners(primitives, prim), *_numbers_of(region, i)
    )


@by_type()
def _decide_round(capsule, region, i):
    """Return APART, MEET or UNSURE (not decided) for region i and the surface of a capsule.

    `capsule` is (p, q, radius): p and q are the ends of its axis, in the world, equal for a sphere.
    """
    test = {
        BoxRegions: round_regions.surface_and_box,
        SphereRegions: round_regions.surface_and_sphere,
        PlaneRegions: round_regions.surface_and_planes,
    }[region.instance_class]
    return lambda capsule, region, i: test(*capsule, *_numbers_of(region, i))


def _decide_instanced(primitives, region, i, prim, scratch):
    """Return APART, MEET or UNSURE (not decided) for region i and a primitive of a scene.

    `prim` is the code of a triangle, sphere or capsule, which is moved to the world. `scratch` is
    memory for the polygons to which planes cut a triangle.
    """
    if kind_of(primitives, leaf_of(prim)) >= SPHERES:
        return _decide_round(instanced_capsule(primitives, prim), region, i)
    return _decide_triangle(primitives, region, i, prim, scratch)


@by_type()
def decide(primitives, region, i, prim, scratch):
    """Return APART, MEET or UNSURE (not decided) for region i and a primitive, in the world.

    `prim` is the primitive's id, in a scene its code. `scratch` is memory for the polygons to which
    planes cut a triangle.
    """
    kind = primitives.instance_class
    if kind in (Spheres, Capsules):
        capsule = KINDS[kind].capsule
        return lambda primitives, region, i, prim, scratch: _decide_round(
            capsule(primitives.points, prim), region, i
        )
    if kind is Boxes:
        test = _box_and_box if region.instance_class is BoxRegions else overlap.box_and_sphere
        return lambda primitives, region, i, prim, scratch: test(
            *read_box(primitives.points, prim), *_numbers_of(region, i)
        )
    if kind is Instanced:
        return _decide_instanced
    return _decide_triangle(primitives, region, i, prim, scratch)
