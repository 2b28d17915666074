"""Winding numbers by a series: multipoles of far nodes, solid angles of near faces.

A node is far where its centre is more than `accuracy` times its radius away. The half of a face's
solid angle is the angle of a complex number (Van Oosterom and Strackee 1983, "The solid angle of a
plane triangle"), so the sum of many is the angle of their product plus full turns: one arc tangent
a lane.

Every point traverses the tree in the same order on every CPU, LANES children or faces at a time,
and arithmetic is that of IEEE 754 alone: libraries' arc tangents are not the same everywhere.
`boundary_angles` has winding numbers without the error of a series, in time that grows with the
number of open edges.
"""

import math

import numpy as np

from bvh.geometry.arithmetic.floats import NAN, finite, vector
from bvh.geometry.arithmetic.vectors import scaled
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel
from bvh.runtime.tuple_references import as_pointers, stack_memory
from bvh.traversal.points.boundary_angles import angles, unit_scale
from bvh.traversal.points.point_bounds import local_point
from bvh.tree import frame as frames
from bvh.tree.wide_nodes import leaf_rows
from bvh.tree.winding_moments import CENTRE, CORNERS, LANES, RADIUS, SERIES, TERMS_SIZE

F = np.float32
# At points further away, in the local frame, the winding number is 0.
OUT_OF_SIGHT = 2.0**20
# The square of 2**-18. A centre at less than this distance is near, whatever its radius: in float32
# the point has an error of 2**-24 of the tree's size, and the vector between them one of 2**-6 of
# itself. Nor does anything overflow beyond that distance.
AT_HAND = 2.0**-36
# Memory for the stack, as LANES - 1 children wait at each of 68 levels at most; and for one vector.
STACK_BYTES, ANGLES_BYTES = 8 * 512, 8 * LANES

# The dot product of two vectors of lanes, rounded alike on every CPU.
dot = inlined(lambda a, b: simd.fused(a[0], b[0], simd.fused(a[1], b[1], a[2] * b[2])))


@inlined
def _ring(terms, at, cosine, sine):
    """Return c cosine + s sine, in lanes: c are the terms from `at` on, s the LANES after them."""
    c, s = simd.load(terms, at, LANES), simd.load(terms, at + LANES, LANES)
    return simd.fused(c, cosine, s * sine)


@inlined
def _series(terms, at, x, y, z, h):
    """Return the solid angles of a node's children, in lanes, by their multipole series.

    The factors of the series are the terms from `at` on. x, y, z are unit vectors from the point to
    the children's centres, and h is 1 over the distance.
    """
    # It is v1 h**2 + v2 h**3 + ... + v5 h**6, where each v sums spherical harmonics of one order:
    # polynomials of z times x, y or the xm + i ym = (x + i y)**m, from the highest m to 0.
    w = z * z
    x2, y2 = simd.fused(x, x, -(y * y)), F(2.0) * x * y
    x3, y3 = simd.fused(x, x2, -(y * y2)), simd.fused(x, y2, y * x2)
    x4, y4 = simd.fused(x, x3, -(y * y3)), simd.fused(x, y3, y * x3)
    x5, y5 = simd.fused(x, x4, -(y * y4)), simd.fused(x, y4, y * x4)
    v1 = simd.fused(simd.load(terms, at, LANES), z, _ring(terms, at + LANES, x, y))
    at += 3 * LANES
    v2 = _ring(terms, at + 3 * LANES, x2, y2)
    v2 = simd.fused(_ring(terms, at + LANES, x, y), z, v2)
    v2 = simd.fused(simd.load(terms, at, LANES), w - F(1 / 3), v2)
    at += 5 * LANES
    v3 = _ring(terms, at + 5 * LANES, x3, y3)
    v3 = simd.fused(_ring(terms, at + 3 * LANES, x2, y2), z, v3)
    v3 = simd.fused(_ring(terms, at + LANES, x, y), w - F(1 / 5), v3)
    v3 = simd.fused(simd.load(terms, at, LANES), z * (w - F(3 / 5)), v3)
    at += 7 * LANES
    v4 = _ring(terms, at + 7 * LANES, x4, y4)
    v4 = simd.fused(_ring(terms, at + 5 * LANES, x3, y3), z, v4)
    v4 = simd.fused(_ring(terms, at + 3 * LANES, x2, y2), w - F(1 / 7), v4)
    v4 = simd.fused(_ring(terms, at + LANES, x, y), z * (w - F(3 / 7)), v4)
    v4 = simd.fused(simd.load(terms, at, LANES), simd.fused(w, w - F(6 / 7), F(3 / 35)), v4)
    at += 9 * LANES
    v5 = _ring(terms, at + 9 * LANES, x5, y5)
    v5 = simd.fused(_ring(terms, at + 7 * LANES, x4, y4), z, v5)
    v5 = simd.fused(_ring(terms, at + 5 * LANES, x3, y3), w - F(1 / 9), v5)
    v5 = simd.fused(_ring(terms, at + 3 * LANES, x2, y2), z * (w - F(1 / 3)), v5)
    v5 = simd.fused(_ring(terms, at + LANES, x, y), simd.fused(w, w - F(2 / 3), F(1 / 21)), v5)
    v5 = simd.fused(simd.load(terms, at, LANES), z * simd.fused(w, w - F(10 / 9), F(5 / 21)), v5)
    return simd.fused(h, simd.fused(h, simd.fused(h, simd.fused(h, v5, v4), v3), v2), v1) * h * h


@inlined
def _far_sum(terms, at, p, beta):
    """Return (solid angles of a node's far children, 0 in other lanes; bits of near children).

    The node's terms begin at `at`; p is the point, `beta` the square of the accuracy: a child is
    far if its squared distance exceeds beta times its squared radius, and AT_HAND, below which
    float32 is too inaccurate.
    """
    # RADIUS has squares of radii, -1 where there is no child.
    none = simd.splat(F(0.0), LANES)
    x = simd.load(terms, at + CENTRE * LANES, LANES) - p[0]
    y = simd.load(terms, at + (CENTRE + 1) * LANES, LANES) - p[1]
    z = simd.load(terms, at + (CENTRE + 2) * LANES, LANES) - p[2]
    square = simd.fused(x, x, simd.fused(y, y, z * z))
    radius = simd.load(terms, at + RADIUS * LANES, LANES)
    child = radius >= none
    # If the distance is NaN, the child is near.
    far = child & (square > simd.greater(beta * radius, simd.splat(F(AT_HAND), LANES)))
    h = simd.sqrt(simd.splat(F(1.0), LANES) / square)
    value = _series(terms, at + SERIES * LANES, x * h, y * h, z * h, h)
    return simd.select(far, value, none), simd.mask_bits(child & ~far)


@inlined
def _corner(faces, at, count, p):
    """Return (vectors, lengths) from p to one corner of each face of a leaf, in lanes.

    The x of the corners are `count` numbers from `at` on, one for each face; y and z follow alike.
    """
    v = (
        simd.load(faces, at, LANES) - p[0],
        simd.load(faces, at + count, LANES) - p[1],
        simd.load(faces, at + 2 * count, LANES) - p[2],
    )
    return v, simd.sqrt(dot(v, v))


@inlined
def _multiplied(re, im, around, faces, first, count, p):
    """Return (re, im, around): re + i im times the complex numbers of a leaf's faces, in lanes.

    The number x + i y of a face has half its solid angle, seen from p, as its angle. The sum of all
    angles is that of the product plus `around` full turns. The leaf has `count` faces, at most one
    a lane, from number `first` on.
    """
    at, none = CORNERS * first, simd.splat(0.0, LANES)
    a, la = _corner(faces, at, count, p)
    b, lb = _corner(faces, at + 3 * count, count, p)
    c, lc = _corner(faces, at + 6 * count, count, p)
    x = simd.fused(
        la * lb, lc, simd.fused(dot(a, b), lc, simd.fused(dot(b, c), la, dot(c, a) * lb))
    )
    normal = (
        simd.fused(b[1], c[2], -(b[2] * c[1])),
        simd.fused(b[2], c[0], -(b[0] * c[2])),
        simd.fused(b[0], c[1], -(b[1] * c[0])),
    )
    y = dot(a, normal)
    s, t = simd.fused(re, x, -(im * y)), simd.fused(re, y, im * x)
    # A face has no angle at its own corners. Lanes behind the last face have faces of other leaves.
    used = (simd.convert(simd.lane_numbers(LANES), np.int64(0)) < count) & (
        simd.greater(abs(s), abs(t)) > none
    )
    scale = unit_scale(s, t)
    s, t = s * scale, t * scale
    # Angles add up beyond a half turn if both factors are on one side of the real axis, and their
    # product is on the other.
    up = im >= none
    turned = used & ~(up ^ (y >= none)) & ((t >= none) ^ up)
    step = simd.select(up, simd.splat(1.0, LANES), simd.splat(-1.0, LANES))
    around = around + simd.select(turned, step, none)
    return simd.select(used, s, re), simd.select(used, t, im), around


@kernel
def _winding(tree, x, p, beta):
    """Return the winding number at the point x in the local frame of a tree.

    p is the point in the world times the frame's scale, as corners of faces are stored; `tree` is a
    `WindingTerms` of pointers, and `beta` the square of the accuracy.
    """
    # `far` sums solid angles of far nodes; re, im and `around` those of faces (see `_multiplied`).
    codes, terms, faces, _ = tree
    point = simd.splat(F(x[0]), LANES), simd.splat(F(x[1]), LANES), simd.splat(F(x[2]), LANES)
    far, around = simd.splat(F(0.0), LANES), simd.splat(0.0, LANES)
    re, im = simd.splat(1.0, LANES), simd.splat(0.0, LANES)
    stack, top, seen = simd.pointer_to(stack_memory(STACK_BYTES), np.int64(0)), np.int64(1), 0
    simd.poke(stack, 0, np.int64(0))
    while top > 0:
        top -= 1
        code = simd.peek(stack, top)
        if code < 0:
            first, count = leaf_rows(code)
            re, im, around = _multiplied(re, im, around, faces, first, count, p)
            seen += 1
            continue
        value, bits = _far_sum(terms, code * TERMS_SIZE, point, beta)
        far = far + value
        while bits != 0:
            lane = simd.lowest_bit(bits)
            bits &= bits - 1
            simd.poke(stack, top, simd.peek(codes, code * LANES + lane))
            top += 1
    angle = simd.convert(far, 0.0)
    if seen > 0:
        angle = angle + (angles(re, im) + around * (2.0 * math.pi)) * 2.0
    return _total(angle, simd.pointer_to(stack_memory(ANGLES_BYTES), 0.0)) / (4.0 * math.pi)


@inlined
def _total(vector, memory):
    """Return the sum of the 8 lanes, in an order that no CPU changes; `memory` is for a vector."""
    simd.store(memory, 0, vector)
    odd = simd.peek(memory, 1) + simd.peek(memory, 3), simd.peek(memory, 5) + simd.peek(memory, 7)
    even = simd.peek(memory, 0) + simd.peek(memory, 2), simd.peek(memory, 4) + simd.peek(memory, 6)
    return (even[0] + even[1]) + (odd[0] + odd[1])


@entry
def winding_numbers(tree, points, beta, begin, end, found):
    """Write to `found` the winding numbers at the points begin..end-1.

    They are NaN for points that are not finite, and 0 far away. `tree` is a `WindingTerms`, and
    `beta` the square of the accuracy.
    """
    arrays, where, numbers = as_pointers(tree), simd.pointer(points), simd.pointer(found)
    limit, s, is_empty = F(beta), frames.scale(arrays.frame), len(tree.codes) == 0
    for i in range(begin, end):
        p, number = vector(where, i), NAN
        if finite(p):
            x, reach = local_point(arrays.frame, p)
            number = 0.0
            if reach <= OUT_OF_SIGHT and not is_empty:
                number = _winding(arrays, x, scaled(p, s), limit)
        simd.poke(numbers, i, number)
