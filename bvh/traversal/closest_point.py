"""Points one by one through the tree, to the nearest triangle.

The way is gone in float32 bounds alone: each group of triangles gives a distance that the nearest
triangle surely has not more than, and leaves those triangles that may be as near as the best such
bound. What is left in the end, usually one triangle, is measured exactly. Ties are kept, so that
the lowest id wins.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import entry, inlined, kernel, stay_outlined
from bvh.nearest import between, nearest_on_triangle
from bvh.numerics import INF, NAN, finite, power_of_two, vector
from bvh.primitives import corners
from bvh.references import as_pointers
from bvh.simd import (
    WIDTH,
    load,
    lowest,
    mask_bits,
    peek,
    permute,
    pointer,
    poke,
    popcount,
    store,
)
from bvh.simd.lanes import compress_order
from bvh.traversal.nearest_many import measure_far
from bvh.traversal.point_visits import (
    BOX_ERROR,
    FAR,
    LEAF_ERROR,
    UP,
    code_of,
    group_bounds,
    key_of,
    local_bound,
    local_point,
    push_children,
    spread_point,
    square_bound,
)
from bvh.traversal.points_scratch import ROOM, pointed_scratch
from bvh.wide_nodes import leaf_rows

NOBODY = 2**31 - 1


@kernel
def settle(primitives, scratch, count, p, best, prim, u, v):
    """Return (distance, id, u, v) of the nearest among candidates and the best before."""
    stay_outlined()
    ids, lows = scratch.ids, scratch.lows
    limit = best
    if count > 1:
        # Measure in doubles first: what is surely beyond another needs no more.
        for i in range(count):
            low, high = between(p, *corners(primitives, np.int64(peek(ids, i))))
            poke(lows, i, low)
            limit = min(limit, high)
    else:
        poke(lows, 0, 0.0)
    for i in range(count):
        if peek(lows, i) > limit:
            continue
        k = np.int64(peek(ids, i))
        d, s, t = nearest_on_triangle(p, *corners(primitives, k))
        if d < best or (d == best and k < prim):
            best, prim, u, v = d, k, s, t
            limit = min(limit, d)
    return best, prim, u, v


@inlined
def keep_near(scratch, count, bound):
    """Drop the candidates that are further than the bound; return how many are left."""
    kept = np.int64(0)
    for i in range(count):
        low = peek(scratch.bounds, i)
        poke(scratch.bounds, kept, low)
        poke(scratch.ids, kept, peek(scratch.ids, i))
        kept += np.int64(low <= bound)
    return kept


@kernel
def _nearest(tree, scratch, p, x, reach, limit):
    """Return (distance, id, u, v) of the triangle nearest to p, id NOBODY if none is within limit.

    `x` is p in the local frame, and `reach` its largest coordinate.
    """
    stack, spare, ids, groups = scratch.stack, scratch.spare, tree.ids, tree.groups
    scale = power_of_two(int(peek(tree.frame, 3)))
    box_error = BOX_ERROR * reach + 1e-30
    # In doubles: what is added here is lost in float32 where it is small.
    error = np.float32((LEAF_ERROR * (reach + peek(tree.frame, 5))) * UP + 1e-30)
    point = spread_point(x)
    best, prim, u, v = limit, np.int64(NOBODY), NAN, NAN
    bound = local_bound(limit, scale)
    square = square_bound(bound, box_error)
    poke(stack, 0, np.int64(0))
    top, count = np.int64(1), np.int64(0)
    while top > 0:
        top -= 1
        entry = peek(stack, top)
        if entry > key_of(square):
            continue
        code = code_of(entry)
        if code >= 0:
            top = push_children(tree.blocks, code, point, square, stack, top, spare)
            continue
        first, rows = leaf_rows(code)
        for group in range(first, first + rows):
            low, high = group_bounds(groups, group, point)
            nearest = lowest(high) + error
            if nearest < bound:
                bound = nearest
                square = square_bound(bound, box_error)
            low = low - error
            bits = mask_bits(low <= bound)
            if bits == 0:
                continue
            order = compress_order(bits)
            store(scratch.bounds, count, permute(low, order))
            store(scratch.ids, count, permute(load(ids, group * WIDTH, WIDTH), order))
            count += popcount(bits)
            if count > ROOM - WIDTH:
                count = keep_near(scratch, count, bound)
                if count > ROOM // 2:
                    best, prim, u, v = settle(tree.primitives, scratch, count, p, best, prim, u, v)
                    count = np.int64(0)
                    bound = min(bound, local_bound(best, scale))
                    square = square_bound(bound, box_error)
    count = keep_near(scratch, count, bound)
    return settle(tree.primitives, scratch, count, p, best, prim, u, v)


@inlined
def nearest_to(tree, scratch, p, limit):
    """Return (distance, id, u, v) of the triangle nearest to p; NOBODY for points not finite."""
    d, found, u, v = INF, np.int64(NOBODY), NAN, NAN
    if finite(p) and limit >= 0.0:
        x, reach = local_point(tree.frame, p)
        if reach <= FAR:
            d, found, u, v = _nearest(tree, scratch, p, x, reach, limit)
        else:
            d, found, u, v = measure_far(tree, scratch, p, limit)
    return d, found, u, v


@inlined
def _place(primitives, prim, u, v, position, i):
    """Write the point of given weights."""
    a, b, c = corners(primitives, prim)
    w = (1.0 - u) - v
    for axis in range(3):
        poke(position, 3 * i + axis, (w * a[axis] + u * b[axis]) + v * c[axis])


@entry
def closest_points(tree, points, limits, scratch, begin, end, distance, prim, weights, position):
    """Find the nearest triangle of the points begin..end.

    `weights` (n, 2) and `position` (n, 3) may be empty: they are left out then.
    """
    if len(tree.nodes.blocks) > 0:
        _closest_points(
            as_pointers(tree), pointer(points), pointer(limits), np.int64(len(limits) > 1),
            pointed_scratch(scratch), begin, end, pointer(distance), pointer(prim),
            pointer(weights), pointer(position), len(position) > 0,
        )  # fmt: skip
        return
    for i in range(begin, end):
        distance[i], prim[i] = INF, -1
        if len(position) > 0:
            weights[i, :], position[i, :] = NAN, NAN


@kernel
def _closest_points(
    tree, points, limits, step, scratch, begin, end, distance, prim, weights, position, whole
):  # fmt: skip
    for i in range(begin, end):
        p, limit = vector(points, i), peek(limits, i * step)
        d, found, u, v = nearest_to(tree, scratch, p, limit)
        if found == NOBODY:
            poke(distance, i, INF)
            poke(prim, i, np.int32(-1))
            u, v = NAN, NAN
        else:
            poke(distance, i, d)
            poke(prim, i, np.int32(found))
        if whole:
            poke(weights, 2 * i, u)
            poke(weights, 2 * i + 1, v)
            if found == NOBODY:
                for axis in range(3):
                    poke(position, 3 * i + axis, NAN)
            else:
                _place(tree.primitives, found, u, v, position, i)
