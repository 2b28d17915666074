"""Both trees of a pair in one frame, aligned with the world: their maps, boxes and triangles.

A side of a pair is a tree whose vertices are moved: by the map of an instance, correctly rounded,
and then by an affine matrix, every operation rounded. The frame of a pair is the world's, less a
centre, times a power of two that makes all coordinates about 1. Boxes and triangle groups are
mapped there in float64, by their centre and half extents. Margins cover the errors of the maps, the
rounding of vertices, fewer than 50 * 2**-53 of the terms, and the float32 rows of triangle groups.
Overflow makes a box larger, up to all of space.

Both sides are also measured along one direction, which no box is too large for: any direction
bounds a distance from below.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import (
    INF,
    exponent,
    finite,
    largest,
    power_of_two,
    row_of,
    vector,
)
from bvh.geometry.arithmetic.vectors import dot, minus, scaled
from bvh.geometry.transforms import transformed_point
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import peek, poke, sqrt
from bvh.traversal.overlaps.tree_to_tree import applied
from bvh.tree.frame import bound, centre, farthest
from bvh.tree.frame import exponent as frame_exponent
from bvh.tree.primitives import corners
from bvh.tree.triangle_groups import dot as lanes_dot

# The numbers of a side: the map from a tree's local frame to that of the pair, shift, margins; the
# instance's map and whether there is one; the matrix and whether there is one; the direction along
# which both sides are measured, in the tree's frame, shift, margin; the bound of that frame.
LINEAR, SHIFT, MARGIN = 0, 9, 12
MAP, MAPPED, MATRIX, MOVED = 15, 27, 28, 40
ALONG, ALONG_SHIFT, ALONG_MARGIN, BOUND, SIDE_SIZE = 41, 44, 45, 46, 47
# Those that lanes take, as float32: the map, shift, direction.
FLOATS = 16

ERROR = 2.0**-47
GROUP_ERROR = 2.0**-19
# Of a sum of products with a direction, where no term is above 4; and of those in float32, by the
# largest product.
ALONG_ERROR = 2.0**-44
LANES_ERROR = 2.0**-18
SHORTER = 1.0 - 2.0**-40
# So that sums of a few coordinates do not overflow.
LESS = 2.0**-10
F = np.float32


@inlined
def set_motion(side, mapped, maps, at, moved, matrices, place):
    """Set by what the vertices of a side are moved: the numbers at positions, if at all."""
    for i in range(12):
        one = 1.0 if i % 5 == 0 else 0.0
        poke(side, MAP + i, peek(maps, at + i) if mapped else one)
        poke(side, MATRIX + i, peek(matrices, place + i) if moved else one)
    poke(side, MAPPED, 1.0 if mapped else 0.0)
    poke(side, MOVED, 1.0 if moved else 0.0)


@inlined
def _sized(side, at, p):
    """Return the sum of the sizes of the terms of `applied`."""
    a, b, c = row_of(side, at), row_of(side, at + 4), row_of(side, at + 8)
    return (
        abs(a[0]) * p[0] + abs(a[1]) * p[1] + abs(a[2]) * p[2] + abs(a[3]),
        abs(b[0]) * p[0] + abs(b[1]) * p[1] + abs(b[2]) * p[2] + abs(b[3]),
        abs(c[0]) * p[0] + abs(c[1]) * p[1] + abs(c[2]) * p[2] + abs(c[3]),
    )


@inlined
def _both(side, row, column):
    """Return an entry of the product of the matrix and the map of a side."""
    at = MATRIX + 4 * row
    return (
        peek(side, at) * peek(side, MAP + column)
        + peek(side, at + 1) * peek(side, MAP + 4 + column)
        + peek(side, at + 2) * peek(side, MAP + 8 + column)
    )


# The centre of a side in the world.
_middle = inlined(lambda frame, side: applied(side, MATRIX, applied(side, MAP, centre(frame))))


@kernel
def _radius(frame, side):
    """Return a bound of the distance of what is in a side from its centre, along any axis."""
    stay_outlined()
    widest = 0.0
    for row in range(3):
        size = abs(_both(side, row, 0)) + abs(_both(side, row, 1)) + abs(_both(side, row, 2))
        widest = max(widest, size)
    return widest * (power_of_two(-frame_exponent(frame)) * LESS) * bound(frame)


@kernel
def _set_side(frame, side, c, k):
    """Set the map of a side to the frame with centre c and scale 2**k."""
    stay_outlined()
    s, local = power_of_two(k), power_of_two(-frame_exponent(frame))
    far, at = farthest(frame), minus(scaled(_middle(frame, side), s), scaled(c, s))
    size = _sized(side, MATRIX, _sized(side, MAP, (far, far, far)))
    for row in range(3):
        total = 0.0
        for column in range(3):
            entry = (_both(side, row, column) * local) * s
            total += abs(entry)
            poke(side, LINEAR + 3 * row + column, entry)
        poke(side, SHIFT + row, at[row])
        margin = (size[row] * s + abs(c[row] * s)) * ERROR + 2.0**-100
        margin += total * bound(frame) * GROUP_ERROR + 0.0 * at[row]
        if not margin < INF:
            # All of space: lanes that are not numbers would be left out.
            margin = INF
            poke(side, SHIFT + row, 0.0)
            for column in range(3):
                poke(side, LINEAR + 3 * row + column, 0.0)
        poke(side, MARGIN + row, margin)
    poke(side, BOUND, bound(frame))


@kernel
def set_sides(tree, other, own, theirs):
    """Set the maps of both sides, whose motions are set; return the frame's scale and extent."""
    stay_outlined()
    c, c2 = _middle(tree.frame, own), _middle(other.frame, theirs)
    reach = largest(minus(scaled(c, LESS), scaled(c2, LESS)))
    reach += _radius(tree.frame, own) + _radius(other.frame, theirs)
    k = min(max(-exponent(reach / LESS), -1022), 1000)
    _set_side(tree.frame, own, c, k)
    _set_side(other.frame, theirs, c, k)
    return power_of_two(k), reach * power_of_two(k) / LESS


@kernel
def set_direction(own, theirs, g):
    """Measure both sides, whose maps are set, along a direction from theirs to this; 0 for none."""
    stay_outlined()
    length = sqrt(dot(g, g))
    f = SHORTER / length if 1e-100 < length < 1e100 else 0.0
    for row in range(3):
        # Where one side is all of space, nothing is known of both.
        f = f if peek(own, MARGIN + row) + peek(theirs, MARGIN + row) < INF else 0.0
    for k in range(2):
        side = own if k == 0 else theirs
        for i in range(ALONG, BOUND):
            poke(side, i, 0.0)
        if not f > 0.0:
            continue
        margin, size = ALONG_ERROR, 0.0
        for row in range(3):
            to = g[row] * f
            poke(side, ALONG_SHIFT, peek(side, ALONG_SHIFT) + to * peek(side, SHIFT + row))
            margin += abs(to) * peek(side, MARGIN + row)
            for column in range(3):
                entry = to * peek(side, LINEAR + 3 * row + column)
                poke(side, ALONG + column, peek(side, ALONG + column) + entry)
        for column in range(3):
            size += abs(peek(side, ALONG + column))
        poke(side, ALONG_MARGIN, margin + LANES_ERROR * size * peek(side, BOUND))


@inlined
def set_floats(side, floats):
    """Store the map of a side and the direction in the tree's frame as float32."""
    for i in range(12):
        poke(floats, i, F(peek(side, LINEAR + i)))
    for i in range(3):
        poke(floats, 12 + i, F(peek(side, ALONG + i)))


# The products of vectors in lanes, in a tree's frame, with the direction.
towards = inlined(lambda floats, p: lanes_dot(p, vector(floats, 4)))


@inlined
def turned(floats, p):
    """Return a vector, or vectors in lanes, in the frame of the pair, without the shift."""
    return (
        lanes_dot(p, vector(floats, 0)),
        lanes_dot(p, vector(floats, 1)),
        lanes_dot(p, vector(floats, 2)),
    )


@inlined
def placed(floats, p):
    """Return a point, or points in lanes, in the frame of the pair."""
    x, y, z = turned(floats, p)
    return x + peek(floats, 9), y + peek(floats, 10), z + peek(floats, 11)


@kernel
def _moved(side, p):
    """Return a vertex of a side that has moved."""
    stay_outlined()
    if peek(side, MAPPED) != 0.0:
        p = transformed_point(side, np.int64(MAP), p)
    if peek(side, MOVED) != 0.0:
        p = applied(side, MATRIX, p)
    return p


@inlined
def side_corners(triangles, prim, side):
    """Return (finite, corners) of a triangle of a side in the world."""
    a, b, c = corners(triangles, prim)
    if peek(side, MAPPED) + peek(side, MOVED) != 0.0:
        a, b, c = _moved(side, a), _moved(side, b), _moved(side, c)
    return finite(a) and finite(b) and finite(c), (a, b, c)
