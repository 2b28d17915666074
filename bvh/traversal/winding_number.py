"""Winding numbers of points: nodes far away by their terms, near faces by their solid angles.

A node is far where its centre is more than `accuracy` times its radius away. The half of a face's
solid angle is the angle of a complex number (Van Oosterom and Strackee 1983, "The solid angle of a
plane triangle"), so the sum of many is the angle of their product and the times it has gone around:
one arc tangent a leaf.
"""

from __future__ import annotations

import math

import numpy as np

from bvh.jit import entry, inlined, kernel
from bvh.leaves import dot, three
from bvh.nearest import cross
from bvh.nearest import dot as product
from bvh.numerics import NAN, finite, power_of_two, vector
from bvh.primitives import corners
from bvh.simd import (
    WIDTH,
    fma,
    greater,
    load,
    lowest_bit,
    mask_bits,
    peek,
    peek_int,
    pointer,
    poke,
    select,
    splat,
    sqrt,
    store,
)
from bvh.traversal.point_visits import local_point, spread_point
from bvh.traversal.points_scratch import pointed_scratch
from bvh.traversal.query import pointed_tree
from bvh.wide_nodes import BLOCK_SIZE, CODES, leaf_rows
from bvh.winding import AREA, CENTRE, FIRST, RADIUS, TERMS_SIZE

F = np.float32
# From further away, in the local frame, there is nothing left to be seen.
OUT_OF_SIGHT = 2.0**20
# A centre less than 2**-18 away is near whatever its radius: float32 holds the point to 2**-24 of
# the tree's size, and knows the way to it to 2**-6. Nothing under- or overflows beyond it, either.
AT_HAND = 2.0**-36


@inlined
def _far_sum(terms, at, p, beta):
    """Return (4 pi times the far children's winding numbers, a lane each; the bits of the near)."""
    c, n = three(terms, at + CENTRE * WIDTH), three(terms, at + AREA * WIDTH)
    r = (c[0] - p[0], c[1] - p[1], c[2] - p[2])
    square = dot(r, r)
    radius, none = load(terms, at + RADIUS * WIDTH, WIDTH), splat(F(0.0), WIDTH)
    child = radius >= none
    near = child & (square <= greater(beta * radius, splat(F(AT_HAND), WIDTH)))
    t, o = three(terms, at + FIRST * WIDTH), three(terms, at + (FIRST + 3) * WIDTH)
    across = fma(r[0], fma(t[0], r[0], fma(o[0], r[1], o[1] * r[2])), dot_two(t, o, r))
    inverse = splat(F(1.0), WIDTH) / square
    once = dot(n, r) + (t[0] + t[1] + t[2]) - F(3.0) * across * inverse
    value = once * inverse * sqrt(inverse)
    # Where there is no child, the value may be no number.
    return select(near | ~child, none, value), mask_bits(near)


@inlined
def dot_two(t, o, r):
    """Return the terms of r . T r without its first component."""
    return fma(r[1], fma(t[1], r[1], o[2] * r[2]), t[2] * r[2] * r[2])


@inlined
def _complex_of(p, face, scale):
    """Return the complex number whose angle is half the solid angle of a face, of size one."""
    a, b, c = _from(p, face[0], scale), _from(p, face[1], scale), _from(p, face[2], scale)
    la, lb, lc = math.sqrt(product(a, a)), math.sqrt(product(b, b)), math.sqrt(product(c, c))
    x = la * lb * lc + product(a, b) * lc + product(b, c) * la + product(c, a) * lb
    y = product(a, cross(b, c))
    size = math.sqrt(x * x + y * y)
    if size == 0.0:
        return 1.0, 0.0
    return x / size, y / size


@inlined
def _from(p, v, scale):
    return ((v[0] - p[0]) * scale, (v[1] - p[1]) * scale, (v[2] - p[2]) * scale)


@inlined
def _turn(x, y, around, p, face, scale):
    """Turn a complex number by a face's angle; count how often it has gone around."""
    s, t = _complex_of(p, face, scale)
    up, other = y >= 0.0, t >= 0.0
    x, y = x * s - y * t, x * t + y * s
    if up == other and (y >= 0.0) != up:
        around += 1.0 if up else -1.0
    return x, y, around


@kernel
def _winding(tree, terms, owned, scratch, p, beta):
    """Return the winding number at p, with the square of the accuracy."""
    x, reach = local_point(tree.frame, p)
    if not reach <= OUT_OF_SIGHT:
        return 0.0
    scale = power_of_two(int(peek(tree.frame, 3)))
    point, stack, top = spread_point(x), scratch.stack, np.int64(1)
    far, angle = splat(F(0.0), WIDTH), 0.0
    poke(stack, 0, np.int64(0))
    while top > 0:
        top -= 1
        code = peek(stack, top)
        if code < 0:
            first, rows = leaf_rows(code)
            re, im, around = 1.0, 0.0, 0.0
            for at in range(first * WIDTH, (first + rows) * WIDTH):
                prim = peek(owned, at)
                if prim >= 0:
                    face = corners(tree.primitives, np.int64(prim))
                    re, im, around = _turn(re, im, around, p, face, scale)
            angle += 2.0 * math.atan2(im, re) + 4.0 * math.pi * around
            continue
        value, bits = _far_sum(terms, code * TERMS_SIZE, point, beta)
        far = far + value
        while bits != 0:
            lane = lowest_bit(bits)
            bits &= bits - 1
            child = peek_int(tree.blocks, code * BLOCK_SIZE + CODES * WIDTH + lane)
            poke(stack, top, np.int64(child))
            top += 1
    store(scratch.spare, 0, far)
    for lane in range(WIDTH):
        angle += np.float64(peek(scratch.spare, lane))
    return angle / (4.0 * math.pi)


@entry
def winding_numbers(tree, terms, points, scratch, beta, begin, end, found):
    """Find the winding numbers at the points begin..end; `beta` is the accuracy squared."""
    if len(tree.nodes.blocks) > 0:
        _winding_numbers(
            pointed_tree(tree), pointer(terms.terms), pointer(terms.owned), pointer(points),
            pointed_scratch(scratch), np.float32(beta), begin, end, pointer(found),
        )  # fmt: skip
    else:
        for i in range(begin, end):
            found[i] = 0.0 if finite(vector(points, i)) else NAN


@kernel
def _winding_numbers(tree, terms, owned, points, scratch, beta, begin, end, found):
    for i in range(begin, end):
        p = vector(points, i)
        poke(found, i, _winding(tree, terms, owned, scratch, p, beta) if finite(p) else NAN)


@entry
def winding_sums(primitives, frame, valid, points, begin, end, found):
    """Sum the solid angles of all faces, in the order of their ids, for the points begin..end."""
    scale = power_of_two(int(frame[1, 0]))
    for i in range(begin, end):
        p = vector(points, i)
        if not finite(p):
            found[i] = NAN
            continue
        re, im, around = 1.0, 0.0, 0.0
        if local_point(frame, p)[1] <= 2.0**300:
            for k in range(len(valid)):
                if valid[k]:
                    re, im, around = _turn(re, im, around, p, corners(primitives, k), scale)
        found[i] = math.atan2(im, re) / (2.0 * math.pi) + around
