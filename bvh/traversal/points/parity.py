"""Points inside or outside by parity: directions of their rays, and which of them are near faces.

A *way* is one of six directions next to the axes, down and up (see `edge_factors.WAYS`).
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF, finite, vector
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import by_type, inlined, kernel
from bvh.runtime.tuple_references import as_pointers, stack_memory
from bvh.traversal.points.point_bounds import (
    BOX_ERROR,
    FAR,
    LEAF_ERROR,
    UP,
    F,
    box_squares,
    group_bounds,
    local_point,
    spread_point,
    square_bound,
)
from bvh.tree import frame as frames
from bvh.tree.arrays import is_empty
from bvh.tree.instanced import primitives_class
from bvh.tree.primitives import Triangles
from bvh.tree.wide_nodes import STACK, child_code, leaf_rows, node_at

STACK_BYTES = 8 * STACK


@inlined
def _sooner(least, way, depth, k):
    """Return (depth, k) if the depth is less than `least`; else, or if NaN, (least, way)."""
    return simd.select(depth < least, depth, least), simd.select(depth < least, k, way)


@entry
def write_ways_out(corners, ways, points, directions):
    """Write to `directions` for each point the row of `ways` along which it leaves a box soonest.

    `corners` are the box's lower and upper corner, (2, 3). The six `ways` are directions next to
    the axes x, y and z, three down, then three up.
    """
    box, table = simd.pointer(corners), simd.pointer(ways)
    low, high = vector(box, 0), vector(box, 1)
    where, out = simd.pointer(points), simd.pointer(directions)
    for i in range(len(points)):
        # Unrolled: a loop takes six times as long.
        x, y, z = vector(where, i)
        least, way = _sooner(INF, np.int64(0), x - low[0], np.int64(0))
        least, way = _sooner(least, way, y - low[1], np.int64(1))
        least, way = _sooner(least, way, z - low[2], np.int64(2))
        least, way = _sooner(least, way, high[0] - x, np.int64(3))
        least, way = _sooner(least, way, high[1] - y, np.int64(4))
        least, way = _sooner(least, way, high[2] - z, np.int64(5))
        x, y, z = vector(table, way)
        simd.poke(out, 3 * i, x)
        simd.poke(out, 3 * i + 1, y)
        simd.poke(out, 3 * i + 2, z)


def _may_touch_group(tree, code, point, error):
    """Return whether a point may be within `error` of a triangle of a leaf, given by its code."""
    first, rows = leaf_rows(code)
    for group in range(first, first + rows):
        low, _ = group_bounds(tree.groups, group, point)
        if simd.mask_bits(low <= error) != 0:
            return True
    return False


@by_type(inline=True)
def _may_touch(tree, code, point, error):
    """Return whether a point in the box of a leaf, given by its code, may be on a primitive of it.

    True for other primitives than triangles, which are not tested. The point's coordinates are each
    in all lanes (`spread_point`); `error` bounds the errors of distances from it.
    """
    if primitives_class(tree) is Triangles:
        return _may_touch_group
    return lambda tree, code, point, error: True


@kernel
def _near_face(tree, stack, p):
    """Return False if the finite point p surely is on no face; `stack` is scratch memory."""
    x, reach = local_point(tree.frame, p)
    if not reach <= FAR:
        return True
    # Boxes and faces that may contain the point are those at a distance within its error.
    point, bound = spread_point(x), square_bound(0.0, BOX_ERROR * reach + 1e-30)
    error = F((LEAF_ERROR * (reach + frames.bound(tree.frame))) * UP + 1e-30)
    simd.poke(stack, 0, np.int64(0))
    top = np.int64(1)
    while top > 0:
        top -= 1
        at = node_at(simd.peek(stack, top))
        bits = np.int64(simd.mask_bits(box_squares(tree.blocks, at, point) <= bound))
        while bits != 0:
            code = np.int64(child_code(tree.blocks, at + simd.lowest_bit(bits)))
            bits &= bits - 1
            if code >= 0:
                simd.poke(stack, top, code)
                top += 1
            elif _may_touch(tree, code, point, error):
                return True
    return False


@entry
def decide_parity(tree_row, points, crossings, surface, found, near):
    """Write to `found` whether each point is inside: whether its number of crossings is odd.

    `crossings` has the number of crossings of one ray from each point. If `surface`, the indices of
    points that are not inside but may be on a face are written to `near`, to be tested exactly.
    Returns the number of these indices, 0 unless `surface`.
    """
    tree, stack = as_pointers(tree_row), simd.pointer_to(stack_memory(STACK_BYTES), np.int64(0))
    where, empty, count = simd.pointer(points), is_empty(tree_row), np.int64(0)
    for i in range(len(crossings)):
        odd = simd.peek(crossings, i) & 1
        simd.poke(found, i, np.uint8(odd))
        if surface and odd == 0 and not empty:
            p = vector(where, i)
            if finite(p) and _near_face(tree, stack, p):
                simd.poke(near, count, np.int64(i))
                count += 1
    return count
