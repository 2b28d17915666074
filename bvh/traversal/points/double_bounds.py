"""Nodes as a point sees them in float64, and rows of nearest triangles.

Boxes are measured in float64: their bounds are exact there, so that only the point, brought to the
local frame, and the operations lose anything: 4 * 2**-53 of the point's largest coordinate P, and
as much of the distance. A box whose computed d**2 exceeds ((best + 2**-49 P) (1 + 2**-48))**2 holds
nothing at `best` or nearer. Where P, or its square, is no number any more, nothing is discarded.
"""

from __future__ import annotations

import numpy as np

from bvh.runtime.jit import inlined, kernel
from bvh.runtime.simd import WIDTH, peek, poke
from bvh.traversal.points.point_bounds import local_distance
from bvh.tree.wide_nodes import child_code, child_lower, child_upper, node_at

EVEN = (1.0, 1.0, 1.0)


@inlined
def _box_square(blocks, at, x, weights):
    """Return the square of the weighted distance to one child, -1 where there is none."""
    square = 0.0
    for axis in range(3):
        low = np.float64(child_lower(blocks, at, axis))
        high = np.float64(child_upper(blocks, at, axis))
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
        at = node_at(code) + lane
        square = _box_square(blocks, at, x, weights)
        # NaN is not beyond the bound.
        if square == -1.0 or square > bound:
            continue
        k = top
        while k > first and peek(squares, k - 1) < square:
            poke(stack, k, peek(stack, k - 1))
            poke(squares, k, peek(squares, k - 1))
            k -= 1
        poke(stack, k, child_code(blocks, at))
        poke(squares, k, square)
        top += 1
    return top


@inlined
def insert_nearest(distance, names, count, d, name):
    """Insert a triangle into rows sorted by (distance, name), once; the last row drops out."""
    for i in range(count):
        if peek(names, i) == name:
            return
    k = count - 1
    while k > 0 and (peek(distance, k - 1), peek(names, k - 1)) > (d, name):
        poke(distance, k, peek(distance, k - 1))
        poke(names, k, peek(names, k - 1))
        k -= 1
    poke(distance, k, d)
    poke(names, k, name)
