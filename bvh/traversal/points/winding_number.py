"""Winding numbers of points: multipoles of far nodes, solid angles of near faces.

A node is far where its centre is more than `accuracy` times its radius away. The half of a face's
solid angle is the angle of a complex number (Van Oosterom and Strackee 1983, "The solid angle of a
plane triangle"), so the sum of many is the angle of their product plus full turns: one arc tangent
a lane.

Every point traverses the tree in the same order on every CPU, LANES children or faces at a time,
and arithmetic is that of IEEE 754 alone: libraries' arc tangents are not the same everywhere.
"""

import math

import numpy as np

from bvh.geometry.arithmetic.floats import NAN, finite, vector
from bvh.runtime.jit import entry, inlined, kernel
from bvh.runtime.simd import (
    as_floats,
    as_ints,
    convert,
    fma,
    greater,
    lane_numbers,
    lesser,
    load,
    lowest_bit,
    mask_bits,
    peek,
    pointer,
    pointer_to,
    poke,
    select,
    splat,
    sqrt,
    store,
)
from bvh.runtime.tuple_references import as_pointers, stack_memory
from bvh.traversal.points.point_bounds import local_point
from bvh.tree import frame as frames
from bvh.tree.triangle_groups import dot
from bvh.tree.winding_moments import CENTRE, CORNERS, LANES, RADIUS, SERIES, TERMS_SIZE, leaf_faces

F = np.float32
# From further away, in the local frame, the winding number is 0. The sum over all faces has a
# larger limit: where products of lengths would overflow.
OUT_OF_SIGHT = 2.0**20
EXACTLY_OUT_OF_SIGHT = 2.0**100
# A centre less than 2**-18 away is near whatever its radius: in float32 the point has an error of
# 2**-24 of the tree's size, and the vector between them one of 2**-6. Nor does anything overflow
# beyond that distance.
AT_HAND = 2.0**-36
# A tree has at most 68 levels; LANES - 1 children of each wait on the stack.
STACK_BYTES, ANGLES_BYTES = 8 * 512, 8 * LANES

# The arc tangent of t is t + t z P(z) / Q(z) with z = t**2, up to 0.66, good to 2**-52 (Moshier
# 1989, "Methods and programs for mathematical functions").
P = (
    -8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
    -1.228866684490136173410e2, -6.485021904942025371773e1,
)  # fmt: skip
Q = (
    2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
    4.853903996359136964868e2, 1.945506571482613964425e2,
)  # fmt: skip
STEEP = 0.66


@inlined
def _ring(terms, at, cosine, sine):
    """Return the two terms of a degree above 0, but for their polynomial in z."""
    return fma(load(terms, at, LANES), cosine, load(terms, at + LANES, LANES) * sine)


@inlined
def _series(terms, at, x, y, z, h):
    """Return the sum of the series in the direction x, y, z; h is the inverse of the distance.

    Order by order, by descending degrees m: (x + i y)**m has the real part xm, and ym.
    """
    w = z * z
    x2, y2 = fma(x, x, -(y * y)), F(2.0) * x * y
    x3, y3 = fma(x, x2, -(y * y2)), fma(x, y2, y * x2)
    x4, y4 = fma(x, x3, -(y * y3)), fma(x, y3, y * x3)
    x5, y5 = fma(x, x4, -(y * y4)), fma(x, y4, y * x4)
    v1 = fma(load(terms, at, LANES), z, _ring(terms, at + LANES, x, y))
    at += 3 * LANES
    v2 = _ring(terms, at + 3 * LANES, x2, y2)
    v2 = fma(_ring(terms, at + LANES, x, y), z, v2)
    v2 = fma(load(terms, at, LANES), w - F(1 / 3), v2)
    at += 5 * LANES
    v3 = _ring(terms, at + 5 * LANES, x3, y3)
    v3 = fma(_ring(terms, at + 3 * LANES, x2, y2), z, v3)
    v3 = fma(_ring(terms, at + LANES, x, y), w - F(1 / 5), v3)
    v3 = fma(load(terms, at, LANES), z * (w - F(3 / 5)), v3)
    at += 7 * LANES
    v4 = _ring(terms, at + 7 * LANES, x4, y4)
    v4 = fma(_ring(terms, at + 5 * LANES, x3, y3), z, v4)
    v4 = fma(_ring(terms, at + 3 * LANES, x2, y2), w - F(1 / 7), v4)
    v4 = fma(_ring(terms, at + LANES, x, y), z * (w - F(3 / 7)), v4)
    v4 = fma(load(terms, at, LANES), fma(w, w - F(6 / 7), F(3 / 35)), v4)
    at += 9 * LANES
    v5 = _ring(terms, at + 9 * LANES, x5, y5)
    v5 = fma(_ring(terms, at + 7 * LANES, x4, y4), z, v5)
    v5 = fma(_ring(terms, at + 5 * LANES, x3, y3), w - F(1 / 9), v5)
    v5 = fma(_ring(terms, at + 3 * LANES, x2, y2), z * (w - F(1 / 3)), v5)
    v5 = fma(_ring(terms, at + LANES, x, y), fma(w, w - F(2 / 3), F(1 / 21)), v5)
    v5 = fma(load(terms, at, LANES), z * fma(w, w - F(10 / 9), F(5 / 21)), v5)
    return fma(h, fma(h, fma(h, fma(h, v5, v4), v3), v2), v1) * h * h


@inlined
def _far_sum(terms, at, p, beta):
    """Return (the solid angles of the far children, a lane each; the bits of the near)."""
    none = splat(F(0.0), LANES)
    x = load(terms, at + CENTRE * LANES, LANES) - p[0]
    y = load(terms, at + (CENTRE + 1) * LANES, LANES) - p[1]
    z = load(terms, at + (CENTRE + 2) * LANES, LANES) - p[2]
    square = fma(x, x, fma(y, y, z * z))
    radius = load(terms, at + RADIUS * LANES, LANES)
    child = radius >= none
    # Where the distance is NaN, the child is near.
    far = child & (square > greater(beta * radius, splat(F(AT_HAND), LANES)))
    h = sqrt(splat(F(1.0), LANES) / square)
    value = _series(terms, at + SERIES * LANES, x * h, y * h, z * h, h)
    return select(far, value, none), mask_bits(child & ~far)


@inlined
def _corner(faces, at, count, p):
    """Return the vector to a corner of each face of a leaf, and its length."""
    v = (
        load(faces, at, LANES) - p[0],
        load(faces, at + count, LANES) - p[1],
        load(faces, at + 2 * count, LANES) - p[2],
    )
    return v, sqrt(dot(v, v))


@inlined
def _turn(re, im, around, faces, first, count, p):
    """Multiply complex numbers by the angles of a leaf's faces; count full turns."""
    at, none = CORNERS * first, splat(0.0, LANES)
    a, la = _corner(faces, at, count, p)
    b, lb = _corner(faces, at + 3 * count, count, p)
    c, lc = _corner(faces, at + 6 * count, count, p)
    x = fma(la * lb, lc, fma(dot(a, b), lc, fma(dot(b, c), la, dot(c, a) * lb)))
    normal = (
        fma(b[1], c[2], -(b[2] * c[1])),
        fma(b[2], c[0], -(b[0] * c[2])),
        fma(b[0], c[1], -(b[1] * c[0])),
    )
    y = dot(a, normal)
    s, t = fma(re, x, -(im * y)), fma(re, y, im * x)
    size = greater(abs(s), abs(t))
    # A face has no angle at its own corners. Lanes behind the last face contain other leaves'.
    used = (convert(lane_numbers(LANES), np.int64(0)) < count) & (size > none)
    # Scale numbers to between 1 and 3: only their direction counts.
    down = as_floats(np.int64(2046 << 52) - (as_ints(size) & np.int64(2047 << 52)))
    s, t = s * down, t * down
    up = im >= none
    turned = used & ~(up ^ (y >= none)) & ((t >= none) ^ up)
    step = select(up, splat(1.0, LANES), splat(-1.0, LANES))
    return select(used, s, re), select(used, t, im), around + select(turned, step, none)


@inlined
def angles(x, y):
    """Return the angles of complex numbers that are not zero, in lanes."""
    one, none = splat(1.0, LANES), splat(0.0, LANES)
    a, b = abs(x), abs(y)
    t = lesser(a, b) / greater(a, b)
    steep = t > splat(STEEP, LANES)
    t = select(steep, (t - one) / (t + one), t)
    z = t * t
    p = fma(z, fma(z, fma(z, fma(z, splat(P[0], LANES), P[1]), P[2]), P[3]), P[4])
    q = fma(z, fma(z, fma(z, fma(z, z + Q[0], Q[1]), Q[2]), Q[3]), Q[4])
    angle = fma(t, z * p / q, t)
    angle = select(steep, angle + math.pi / 4, angle)
    angle = select(b > a, math.pi / 2 - angle, angle)
    angle = select(x < none, math.pi - angle, angle)
    return select(y < none, -angle, angle)


@kernel
def _winding(tree, x, p, beta):
    """Return the winding number at x in the local frame, p times its power of two."""
    codes, terms, faces, _ = tree
    point = splat(F(x[0]), LANES), splat(F(x[1]), LANES), splat(F(x[2]), LANES)
    far, around = splat(F(0.0), LANES), splat(0.0, LANES)
    re, im = splat(1.0, LANES), splat(0.0, LANES)
    stack, top, seen = pointer_to(stack_memory(STACK_BYTES), np.int64(0)), np.int64(1), 0
    poke(stack, 0, np.int64(0))
    while top > 0:
        top -= 1
        code = peek(stack, top)
        if code < 0:
            first, count = leaf_faces(code)
            re, im, around = _turn(re, im, around, faces, first, count, p)
            seen += 1
            continue
        value, bits = _far_sum(terms, code * TERMS_SIZE, point, beta)
        far = far + value
        while bits != 0:
            lane = lowest_bit(bits)
            bits &= bits - 1
            poke(stack, top, peek(codes, code * LANES + lane))
            top += 1
    angle = convert(far, 0.0)
    if seen > 0:
        angle = angle + (angles(re, im) + around * (2.0 * math.pi)) * 2.0
    return _total(angle, pointer_to(stack_memory(ANGLES_BYTES), 0.0)) / (4.0 * math.pi)


@inlined
def _total(vector, memory):
    """Return the sum of the lanes, added in pairs."""
    store(memory, 0, vector)
    odd = peek(memory, 1) + peek(memory, 3), peek(memory, 5) + peek(memory, 7)
    even = peek(memory, 0) + peek(memory, 2), peek(memory, 4) + peek(memory, 6)
    return (even[0] + even[1]) + (odd[0] + odd[1])


@entry
def winding_numbers(tree, points, beta, begin, end, found):
    """Find the winding numbers at the points begin..end; `beta` is the accuracy squared.

    Where it is infinite, all faces are near.
    """
    _winding_numbers(
        as_pointers(tree), len(tree.codes), pointer(points), np.float32(beta), begin, end,
        pointer(found),
    )  # fmt: skip


@kernel
def _winding_numbers(tree, children, points, beta, begin, end, found):
    sight = OUT_OF_SIGHT if beta < F(np.inf) else EXACTLY_OUT_OF_SIGHT
    s = frames.scale(tree.frame)
    for i in range(begin, end):
        p, number = vector(points, i), NAN
        if finite(p):
            x, reach = local_point(tree.frame, p)
            number = 0.0
            if children > 0 and reach <= sight:
                number = _winding(tree, x, (p[0] * s, p[1] * s, p[2] * s), beta)
        poke(found, i, number)
