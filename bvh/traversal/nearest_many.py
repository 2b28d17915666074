"""Points to their nearest k triangles; and points that float32 does not suit.

Boxes are measured in float64: their bounds are exact there, so that only the point, brought to the
local frame, and the operations lose anything: 4 * 2**-53 of the point's largest coordinate P, and
as much of the distance. A box whose computed d**2 exceeds ((best + 2**-49 P) (1 + 2**-48))**2 holds
nothing at `best` or nearer. Where P, or its square, is no number any more, nothing is discarded.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import entry, inlined, kernel, stay_outlined
from bvh.nearest import between, nearest_on_triangle
from bvh.numerics import INF, finite, power_of_two, vector
from bvh.primitives import corners
from bvh.references import as_pointers
from bvh.simd import (
    WIDTH,
    mask_bits,
    peek,
    peek_int,
    pointer,
    poke,
    shifted,
    splat,
)
from bvh.traversal.point_visits import (
    FAR,
    LEAF_ERROR,
    UP,
    group_bounds,
    local_distance,
    local_point,
    spread_point,
)
from bvh.traversal.points_scratch import pointed_scratch
from bvh.wide_nodes import BLOCK_SIZE, CODES, LOWER, UPPER, leaf_rows

EVEN = (1.0, 1.0, 1.0)


@inlined
def _box_square(blocks, at, x, weights):
    """Return the square of the weighted distance to one child, -1 where there is none."""
    square = 0.0
    for axis in range(3):
        low = np.float64(peek(blocks, at + (LOWER + axis) * WIDTH))
        high = np.float64(peek(blocks, at + (UPPER + axis) * WIDTH))
        if low > high:
            return -1.0
        off = max(max(low - x[axis], x[axis] - high), 0.0)
        square += off * off * weights[axis]
    return square


@inlined
def square_limit(best, scale, lost):
    """Return what the square of a box's distance must exceed to be of no use.

    `lost` is what distances may be wrong by, apart from a share of themselves.
    """
    bound = (local_distance(best, scale) + lost + 1e-300) * (1.0 + 2.0**-48)
    return bound * bound * (1.0 + 2.0**-48)


@kernel
def push_near(blocks, code, x, weights, bound, scratch, top):
    """Put the children that may be near enough on the stack, the nearest on top.

    `weights` are those of the squares of the three components of a distance.
    """
    stack, squares = scratch.stack, scratch.squares
    first = top
    for lane in range(WIDTH):
        at = code * BLOCK_SIZE + lane
        square = _box_square(blocks, at, x, weights)
        # What is no number is not beyond the bound.
        if square == -1.0 or square > bound:
            continue
        k = top
        while k > first and peek(squares, k - 1) < square:
            poke(stack, k, peek(stack, k - 1))
            poke(squares, k, peek(squares, k - 1))
            k -= 1
        poke(stack, k, np.int64(peek_int(blocks, at + CODES * WIDTH)))
        poke(squares, k, square)
        top += 1
    return top


@inlined
def offer_near(distance, ids, count, d, prim):
    """Put a triangle among the nearest found, sorted by (distance, id), once."""
    for i in range(count):
        if peek(ids, i) == prim:
            return
    k = count - 1
    while k > 0 and (peek(distance, k - 1), peek(ids, k - 1)) > (d, prim):
        poke(distance, k, peek(distance, k - 1))
        poke(ids, k, peek(ids, k - 1))
        k -= 1
    poke(distance, k, d)
    poke(ids, k, prim)


@kernel
def nearest_many(tree, scratch, p, limit, count, distance, ids):
    """Fill `distance` and `ids` with the nearest triangles within a limit; NOBODY's id for none."""
    stay_outlined()
    for i in range(count):
        poke(distance, i, limit)
        poke(ids, i, np.int32(2**31 - 1))
    frame, stack, squares = tree.frame, scratch.stack, scratch.squares
    scale = power_of_two(int(peek(frame, 3)))
    x, reach = local_point(frame, p)
    near = reach <= FAR
    point = spread_point(x)
    error = LEAF_ERROR * (reach + peek(frame, 5)) * UP + 1e-30
    lost = 2.0**-49 * reach
    bound = square_limit(limit, scale, lost)
    poke(stack, 0, np.int64(0))
    poke(squares, 0, 0.0)
    top = np.int64(1)
    all_lanes = np.int64((1 << WIDTH) - 1)
    while top > 0:
        top -= 1
        if peek(squares, top) > bound:
            continue
        code = peek(stack, top)
        if code >= 0:
            top = push_near(tree.blocks, code, x, EVEN, bound, scratch, top)
            continue
        first, rows = leaf_rows(code)
        for group in range(first, first + rows):
            bits = all_lanes
            if near:
                low, _ = group_bounds(tree.groups, group, point)
                worst = local_distance(peek(distance, count - 1), scale) * UP + error
                bits = mask_bits(low <= splat(np.float32(min(worst, 1e30)), WIDTH))
            for lane in range(WIDTH):
                prim = peek(tree.ids, group * WIDTH + lane)
                if bits >> lane & 1 == 0 or prim < 0:
                    continue
                face = corners(tree.primitives, np.int64(prim))
                worst = peek(distance, count - 1)
                if between(p, *face)[0] > worst:
                    continue
                d = nearest_on_triangle(p, *face)[0]
                if d < worst or (d == worst and prim < peek(ids, count - 1)):
                    offer_near(distance, ids, count, d, prim)
                    bound = square_limit(peek(distance, count - 1), scale, lost)


@kernel
def measure_far(tree, scratch, p, limit):
    """Return (distance, id, u, v) of the nearest triangle, as `nearest_many` finds it."""
    stay_outlined()
    distance, ids = scratch.lows, scratch.ids
    nearest_many(tree, scratch, p, limit, np.int64(1), distance, ids)
    prim = np.int64(peek(ids, 0))
    if prim == 2**31 - 1:
        return INF, prim, 0.0, 0.0
    d, u, v = nearest_on_triangle(p, *corners(tree.primitives, prim))
    return d, prim, u, v


@entry
def nearest_points(
    tree, points, limits, scratch, begin, end, count, distance, ids, weights, position
):
    """Find the nearest `count` triangles of the points begin..end, rows of `count` each."""
    if len(tree.nodes.blocks) > 0:
        _nearest_points(
            as_pointers(tree), pointer(points), pointer(limits), np.int64(len(limits) > 1),
            pointed_scratch(scratch), begin, end, count, pointer(distance), pointer(ids),
        )  # fmt: skip
    else:
        for i in range(begin * count, end * count):
            ids[i] = -1
    for i in range(begin, end):
        p = vector(points, i)
        for at in range(i * count, (i + 1) * count):
            if ids[at] < 0:
                distance[at] = INF
                weights[at, :], position[at, :] = np.nan, np.nan
                continue
            a, b, c = corners(tree.primitives, np.int64(ids[at]))
            _, u, v = nearest_on_triangle(p, a, b, c)
            weights[at, 0], weights[at, 1] = u, v
            w = (1.0 - u) - v
            for axis in range(3):
                position[at, axis] = (w * a[axis] + u * b[axis]) + v * c[axis]


@kernel
def _nearest_points(tree, points, limits, step, scratch, begin, end, count, distance, ids):
    for i in range(begin, end):
        p, limit = vector(points, i), peek(limits, i * step)
        rows = shifted(ids, i * count)
        if finite(p) and limit >= 0.0:
            nearest_many(tree, scratch, p, limit, count, shifted(distance, i * count), rows)
            for k in range(count):
                if peek(rows, k) == 2**31 - 1:
                    poke(rows, k, np.int32(-1))
        else:
            for k in range(count):
                poke(rows, k, np.int32(-1))
