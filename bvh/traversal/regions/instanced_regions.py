"""Regions of overlap queries in the frame of an instance's tree, and boxes against them.

Regions become planes or, for a ball, three rows of an affine map, so that boxes of nodes need no
transform. The error E of a row is 2**-48 of the terms: two dozen roundings of 2**-53, and that of
vertices. Planes are divided by s * sum(abs(g)) and taken as float32; with B the bound of the frame,
2**-18 B covers their rounding, that of a box's centre and half extents, and of seven steps:
20 * 2**-24 B.

Balls are measured in float64, where 2**-47 of the terms covers the errors in lanes, too.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF, largest, power_of_two, row_of
from bvh.geometry.arithmetic.vectors import dot, scaled
from bvh.runtime.jit import by_type, inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH, convert, fused, greater, mask_bits, peek, poke, splat
from bvh.traversal.regions.regions import BoxRegions, PlaneRegions, SphereRegions
from bvh.tree import frame as frames
from bvh.tree.instanced import MAP_SIZE

F = np.float32
# Errors of float64, as a share of the terms, and of float32, as a share of the frame's bound.
ERROR = 2.0**-48
FLOAT_ERROR = 2.0**-18
# The error of a product that underflows, with some margin.
LOST = 2.0**-1070
# Sums of abs(g) within which division by them loses nothing.
MIN_SIZE, MAX_SIZE = 2.0**-900, 2.0**900
TINY = 2.0**-1000

# Numbers of a plane, or of an axis of a ball: g (3), h, and the error bound of g . x + h.
ROW = 5
# Result of `approach` if no primitive of the instance can overlap the region.
OUTSIDE = -1


@inlined
def _column(maps, at, j):
    """Return column j of the matrix (M, t), 3 rows by 4 columns, stored from index `at` on."""
    return peek(maps, at + j), peek(maps, at + 4 + j), peek(maps, at + 8 + j)


@inlined
def _plane_in_leaf(instanced, leaf, frame, n, w):
    """Return (s g, h, E): n . y + w = s g . x' + h within E, for the points of an instance.

    y is a point in the world, and x' the same point in `frame`, the frame of the instance's tree;
    `leaf` is the row of that tree in `instanced`.
    """
    # With y = M x + t, the instance's map, and x = c + s x': g = n M and h = g . c + n . t + w.
    maps, at = instanced.maps, MAP_SIZE * leaf
    s = power_of_two(-np.int64(frames.exponent(frame)))
    c, bound, t = frames.centre(frame), frames.bound(frame) * s, _column(maps, at, 3)
    x, y, z = n[0] * t[0], n[1] * t[1], n[2] * t[2]
    h = ((x + y) + z) + w
    terms = abs(x) + abs(y) + abs(z) + abs(w)
    g = dot(n, _column(maps, at, 0)), dot(n, _column(maps, at, 1)), dot(n, _column(maps, at, 2))
    for j in range(3):
        m = _column(maps, at, j)
        size = abs(n[0] * m[0]) + abs(n[1] * m[1]) + abs(n[2] * m[2])
        terms += size * (abs(c[j]) + bound)
    h += dot(g, c)
    # A product that underflows loses up to LOST, times the number by which it is multiplied next.
    lost = (abs(c[0]) + abs(c[1]) + abs(c[2]) + 3.0 * bound + 8.0) * LOST
    return scaled(g, s), h, terms * ERROR + lost


@inlined
def _put_row(rows, at, g, h, error):
    """Write the row (g, h, error), five numbers, from index `at` on: g . x + h within `error`."""
    for axis in range(3):
        poke(rows, at + axis, g[axis])
    poke(rows, at + 3, h)
    poke(rows, at + 4, error)


@kernel
def _add_plane(instanced, leaf, frame, n, w, rows, count):
    """Append the half-space n . y + w >= 0 to the `count` rows of a region; return the new count.

    Nothing is appended if the root's box is surely inside; OUTSIDE is returned if it is surely
    outside. y is in the world; the row is in local coordinates of `frame`, the frame of the
    instance's tree, and `leaf` is the row of that tree in `instanced`.
    """
    stay_outlined()
    size = largest(n)
    if size == 0.0:
        # The half-space is all of space: `to_local` has excluded polytopes with an empty one.
        return count
    n = n[0] / size, n[1] / size, n[2] / size
    g, h, error = _plane_in_leaf(instanced, leaf, frame, n, w / size)
    # The largest and the smallest value in the root's box.
    top = bottom = h
    for j in range(3):
        a, b = g[j] * frames.lowest(frame, j), g[j] * frames.highest(frame, j)
        top += max(a, b)
        bottom += min(a, b)
    if top < -error:
        return np.int64(OUTSIDE)
    if bottom > error:
        return count
    total = abs(g[0]) + abs(g[1]) + abs(g[2])
    if MIN_SIZE < total < MAX_SIZE and error < MAX_SIZE:
        by = 1.0 / total
        # Rows are read as float32: the last factor covers the rounding of the margin itself.
        margin = (error * by + FLOAT_ERROR * frames.bound(frame)) * (1.0 + 2.0**-20)
        _put_row(rows, ROW * count, scaled(g, by), h * by, margin)
    else:
        # With an infinite error, no box is outside and none is inside.
        _put_row(rows, ROW * count, (0.0, 0.0, 0.0), 0.0, INF)
    return count + 1


@inlined
def _on_axis(axis, n):
    """Return the vector whose component along `axis` is n, and 0 along the others."""
    return (n if axis == 0 else 0.0, n if axis == 1 else 0.0, n if axis == 2 else 0.0)


def _approach_planes(region, i, instanced, leaf, frame, rows):
    """Write the planes of polytope i that may cut an instance's tree to `rows`; return how many.

    Returns OUTSIDE, which is negative, if the tree is surely outside. `frame` is the frame of the
    tree, and `leaf` the row of the tree in `instanced`.
    """
    planes, planes_each, count = region.planes, peek(region.shape, 0), np.int64(0)
    for k in range(planes_each):
        a, b, c, w = row_of(planes, 4 * (i * planes_each + k))
        count = _add_plane(instanced, leaf, frame, (a, b, c), w, rows, count)
        if count < 0:
            break
    return count


def _approach_box(region, i, instanced, leaf, frame, rows):
    """Write the planes of box i that may cut an instance's tree to `rows`; return how many.

    Returns OUTSIDE, which is negative, if the tree is surely outside. `frame` is the frame of the
    tree, and `leaf` the row of the tree in `instanced`.
    """
    count = np.int64(0)
    for k in range(6):  # the half-space x - lower >= 0 of an axis for even k, else upper - x >= 0
        axis, n = k >> 1, (1.0 if k & 1 == 0 else -1.0)
        w = -peek(region.lower, 3 * i + axis) if k & 1 == 0 else peek(region.upper, 3 * i + axis)
        count = _add_plane(instanced, leaf, frame, _on_axis(axis, n), w, rows, count)
        if count < 0:
            break
    return count


def _approach_ball(region, i, instanced, leaf, frame, rows):
    """Write ball i to `rows` in `frame`, that of an instance's tree; return 3, the number of rows.

    Row k, (g, h, error), gives component k of y - centre as g . x' + h, for a point x' of the tree
    that is y in the world; the squared radius follows. `leaf` is the tree's row in `instanced`.
    """
    for axis in range(3):
        n, w = _on_axis(axis, 1.0), -peek(region.center, 3 * i + axis)
        g, h, error = _plane_in_leaf(instanced, leaf, frame, n, w)
        # Twice the error: also for the rounding in `_squares_on_axis`.
        _put_row(rows, ROW * axis, g, h, 2.0 * error)
    radius = peek(region.radius, i)
    poke(rows, 3 * ROW, radius * radius)
    return np.int64(3)


@by_type()
def approach(region, i, instanced, leaf, frame, rows):
    """Write region i to `rows`, in the frame of the tree of an instance; return how many rows.

    Returns OUTSIDE if no primitive of the instance can overlap the region, and 0 if all primitives
    are surely inside. `leaf` is the row of the tree in `instanced`, `frame` the frame of the tree.
    A row is (g, h, error), ROW numbers, for a point x' of the tree that is y in the world:
    g . x' + h, within the error, is n . y + w of a plane, or a coordinate of y - centre of a ball.
    The three rows of a ball are followed by its squared radius.
    """
    return {
        BoxRegions: _approach_box, PlaneRegions: _approach_planes, SphereRegions: _approach_ball
    }[region.instance_class]  # fmt: skip


def _sift_planes(region, rows, count, low, high):
    """Return (near, inside): bits of the boxes that a polytope may overlap, and surely contains.

    `rows` are the polytope's `count` planes, from `approach`: points with g . x' + h >= 0 are
    inside. low..high is a box in each lane. `region` is unused; the signature is that of `sift`.
    """
    half = F(0.5)
    centre = ((low[0] + high[0]) * half, (low[1] + high[1]) * half, (low[2] + high[2]) * half)
    extent = ((high[0] - low[0]) * half, (high[1] - low[1]) * half, (high[2] - low[2]) * half)
    # Unused lanes have low > high.
    near = low[0] <= high[0]
    inside = near
    for k in range(count):
        at = ROW * k
        x, y, z = F(peek(rows, at)), F(peek(rows, at + 1)), F(peek(rows, at + 2))
        # In a box, g . x' + h goes from middle - spread to middle + spread.
        height, margin = F(peek(rows, at + 3)), F(peek(rows, at + 4))
        middle = fused(centre[0], x, fused(centre[1], y, fused(centre[2], z, splat(height, WIDTH))))
        spread = fused(extent[0], abs(x), fused(extent[1], abs(y), extent[2] * abs(z)))
        near = near & ~(middle + spread < -margin)  # not >=: NaN must count as near
        inside = inside & (middle - spread > margin)
    return np.int64(mask_bits(near)), np.int64(mask_bits(inside))


@inlined
def _squares_on_axis(rows, at, centre, extent):
    """Return (lower, upper): squared bounds of boxes' distances on one axis from a ball's centre.

    `centre` and `extent` are the centres and half sizes of boxes, a box in each lane. The row at
    index `at` of `rows`, (g, h, error), gives the coordinate g . x' + h relative to the ball.
    """
    x, y, z = peek(rows, at), peek(rows, at + 1), peek(rows, at + 2)
    middle = abs(((centre[0] * x + centre[1] * y) + centre[2] * z) + peek(rows, at + 3))
    spread = (extent[0] * abs(x) + extent[1] * abs(y)) + extent[2] * abs(z)
    spread = spread + peek(rows, at + 4)
    gap = greater(middle - spread, splat(0.0, WIDTH))
    most = middle + spread
    return gap * gap, most * most


def _sift_ball(region, rows, count, low, high):
    """Return (near, inside): bits of the boxes that a ball may overlap, and surely contains.

    `rows` are the ball's three rows and its squared radius, from `_approach_ball`; low..high is a
    box in each lane. `region` and `count` are unused; the signature is that of `sift`.
    """
    a = convert(low[0], 0.0), convert(low[1], 0.0), convert(low[2], 0.0)
    b = convert(high[0], 0.0), convert(high[1], 0.0), convert(high[2], 0.0)
    centre = ((a[0] + b[0]) * 0.5, (a[1] + b[1]) * 0.5, (a[2] + b[2]) * 0.5)
    extent = ((b[0] - a[0]) * 0.5, (b[1] - a[1]) * 0.5, (b[2] - a[2]) * 0.5)
    gap0, most0 = _squares_on_axis(rows, 0, centre, extent)
    gap1, most1 = _squares_on_axis(rows, ROW, centre, extent)
    gap2, most2 = _squares_on_axis(rows, 2 * ROW, centre, extent)
    # ERROR and TINY cover rounding and underflow. Unused lanes have low > high; NaN is near.
    square, used = peek(rows, 3 * ROW), low[0] <= high[0]
    near = used & ~((gap0 + gap1) + gap2 > square * (1.0 + ERROR) + TINY)
    inside = used & ((most0 + most1) + most2 < square * (1.0 - ERROR) - TINY)
    return np.int64(mask_bits(near)), np.int64(mask_bits(inside))


@by_type(inline=True)
def sift(region, rows, count, low, high):
    """Return (near, inside): bits of the boxes that a region may overlap, and surely contains.

    `rows` are the region's `count` rows, from `approach`; `region` only tells its kind. low..high
    is a box in each lane; an unused lane is in neither.
    """
    return _sift_ball if region.instance_class is SphereRegions else _sift_planes
