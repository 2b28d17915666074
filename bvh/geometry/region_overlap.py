"""Overlap tests of triangles and boxes with balls and convex polytopes.

The result is APART, MEET or UNSURE. A certificate is computed approximately and checked with an
error bound: a common point of both sets if they overlap, a separating plane if not. Where neither
is found, which takes contact to within some 2**-45, the result is UNSURE, and `rational` decides.

A polytope is the set of points with n . p + offset >= 0 for the planes first..last-1 of an array,
each a row (n, offset) of four numbers.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF, dot_size, row_of, vector
from bvh.geometry.arithmetic.vectors import absolute, combined, dot, minus
from bvh.geometry.boxes import is_box
from bvh.geometry.point_triangle import nearest_weights
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import poke, sqrt

APART, MEET, UNSURE = 0, 1, -1

# Any result below has at most a dozen roundings of 2**-53, and its sizes as many.
ERROR = 32.0 * 2.0**-53
# More than the errors of products that underflow.
TINY = 2.0**-1060


@kernel
def triangle_and_sphere(v0, v1, v2, center, radius):
    """Return APART, MEET or UNSURE for a triangle and the solid ball of a centre and radius."""
    # Differences from the centre have a relative error of 2**-53. So the error of both certificates
    # is at most ERROR times the sum of absolute terms, also far from the coordinates' origin.
    a, b, c = minus(v0, center), minus(v1, center), minus(v2, center)
    v, w, _ = nearest_weights(a, b, c)
    u = max((1.0 - v) - w, 0.0)
    # The approximate nearest point x, from the centre; y bounds the components of the exact point
    # of these weights, which is (u + v + w) times a point of the triangle.
    x = combined(u, a, v, b, w, c)
    f, g, h = combined(u, absolute(a), v, absolute(b), w, absolute(c))
    y = abs(x[0]) + ERROR * f, abs(x[1]) + ERROR * g, abs(x[2]) + ERROR * h
    reach = radius * (u + v + w)
    if dot(y, y) * (1.0 + ERROR) + TINY <= (reach * reach) * (1.0 - ERROR) < INF:
        return MEET
    # A separating plane has the normal x, and touches the ball: are all corners beyond it?
    far = min(
        dot(x, a) - ERROR * dot_size(x, a),
        min(dot(x, b) - ERROR * dot_size(x, b), dot(x, c) - ERROR * dot_size(x, c)),
    )
    length = sqrt(dot(x, x) + TINY) * (1.0 + ERROR)
    return APART if far - TINY > (radius * length) * (1.0 + ERROR) + TINY else UNSURE


@kernel
def box_and_sphere(low, high, center, radius):
    """Return APART, MEET or UNSURE for a solid box and the solid ball of a centre and radius."""
    total = 0.0  # the squared distance of the centre from the box
    for i in range(3):
        x = max(low[i] - center[i], max(center[i] - high[i], 0.0))
        total += x * x
    # Test whether the centre is in the box: a total of 0 may also come from squares that underflow.
    if is_box(low, center) and is_box(center, high):
        return MEET
    square = radius * radius
    if total * (1.0 + ERROR) + TINY <= square * (1.0 - ERROR) < INF:
        return MEET
    return APART if INF > total * (1.0 - ERROR) - TINY > square * (1.0 + ERROR) else UNSURE


@inlined
def plane_height(planes, i, p):
    """Return (height, error): n . p + offset of plane i, row (n, offset), and a bound of its error.

    The height is at least 0 inside the polytope, and multiplied by the length of n.
    """
    n0, n1, n2, w = row_of(planes, 4 * i)
    x, y, z = n0 * p[0], n1 * p[1], n2 * p[2]
    return (x + y + z) + w, ERROR * (abs(x) + abs(y) + abs(z) + abs(w)) + TINY


@inlined
def _heights(planes, i, v0, v1, v2):
    """Return (heights, errors) of the corners of a triangle over plane i, each of three numbers."""
    (f0, e0), (f1, e1) = plane_height(planes, i, v0), plane_height(planes, i, v1)
    f2, e2 = plane_height(planes, i, v2)
    return (f0, f1, f2), (e0, e1, e2)


@kernel
def triangle_and_planes(v0, v1, v2, planes, first, last, scratch):
    """Return APART, MEET or UNSURE for a triangle and the polytope of planes first..last-1.

    `planes` has rows (n, offset) with n . p + offset >= 0 inside. `scratch` is memory for
    2 * polygon_capacity(last - first) numbers.
    """
    # Decided at once if all corners are on the outer side of a plane, or one is inside of all.
    inside0, inside1, inside2 = True, True, True
    for i in range(first, last):
        (f0, f1, f2), (e0, e1, e2) = _heights(planes, i, v0, v1, v2)
        if f0 < -e0 and f1 < -e1 and f2 < -e2:
            return APART
        inside0 &= f0 >= e0
        inside1 &= f1 >= e1
        inside2 &= f2 >= e2
    if inside0 or inside1 or inside2:
        return MEET
    return _clipped(v0, v1, v2, planes, first, last, scratch)


# The number of doubles for the corners, three weights each, of a triangle clipped by some planes:
# a convex polygon has up to `planes` + 3, and `_clipped` needs room for twice as many.
polygon_capacity = inlined(lambda planes: 3 * (2 * planes + 16))


@inlined
def _set_row(array, i, x, y, z):
    """Write (x, y, z) to row i of an (n, 3) array."""
    poke(array, 3 * i, x)
    poke(array, 3 * i + 1, y)
    poke(array, 3 * i + 2, z)


@kernel
def _clipped(v0, v1, v2, planes, first, last, scratch):
    """Return the same as `triangle_and_planes`, by clipping the triangle with planes moved outward.

    A corner of the clipped polygon is stored as its weights of v0, v1 and v2. The polygon is in one
    half of `scratch`, and after each plane in the other half.
    """
    # Each step moves a corner of the polygon by an error of 8 * 2**-53, in weights, which changes a
    # plane's height by that times the heights at the corners. After k planes, moving the next one
    # outward by (k + 4) * 2**-48 of their sum keeps all that is inside within the polygon: if the
    # polygon is empty, the result is APART. If its middle is surely inside all planes, it is MEET.
    stay_outlined()
    capacity = polygon_capacity(last - first) // 3
    count, old, new = np.int64(3), np.int64(0), np.int64(capacity)
    _set_row(scratch, 0, 1.0, 0.0, 0.0)
    _set_row(scratch, 1, 0.0, 1.0, 0.0)
    _set_row(scratch, 2, 0.0, 0.0, 1.0)
    for i in range(first, last):
        # Rounding can make a polygon not quite convex, and a line then cut it more than twice: at
        # most, each edge gets a corner more.
        if 2 * count > capacity:
            return UNSURE
        (f0, f1, f2), (e0, e1, e2) = _heights(planes, i, v0, v1, v2)
        size = abs(f0) + abs(f1) + abs(f2)
        outward = max(e0, max(e1, e2)) + size * ((i - first) + 4) * 2.0**-48
        if not outward < INF:
            return UNSURE
        end = new
        p0, p1, p2 = vector(scratch, old + count - 1)
        f = (p0 * f0 + p1 * f1 + p2 * f2) + outward
        for j in range(count):
            q0, q1, q2 = vector(scratch, old + j)
            g = (q0 * f0 + q1 * f1 + q2 * f2) + outward
            if (f < 0.0) != (g < 0.0):
                t = f / (f - g)
                _set_row(scratch, end, p0 + t * (q0 - p0), p1 + t * (q1 - p1), p2 + t * (q2 - p2))
                end += 1
            if g >= 0.0:
                _set_row(scratch, end, q0, q1, q2)
                end += 1
            p0, p1, p2, f = q0, q1, q2, g
        count = end - new
        old, new = new, old
        if count == 0:
            return APART
    # The sums of all weights: the middle of the polygon, times the number of corners.
    w0, w1, w2 = 0.0, 0.0, 0.0
    for j in range(count):
        q0, q1, q2 = vector(scratch, old + j)
        w0, w1, w2 = w0 + max(q0, 0.0), w1 + max(q1, 0.0), w2 + max(q2, 0.0)
    for i in range(first, last):
        (f0, f1, f2), (e0, e1, e2) = _heights(planes, i, v0, v1, v2)
        height = w0 * f0 + w1 * f1 + w2 * f2
        error = w0 * (e0 + ERROR * abs(f0)) + w1 * (e1 + ERROR * abs(f1))
        error += w2 * (e2 + ERROR * abs(f2))
        if not height >= 2.0 * error + TINY:
            return UNSURE
    return MEET
