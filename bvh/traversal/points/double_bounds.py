"""Bounds of the distances from a point to boxes in float64, and sorted rows of nearest triangles.

Bounds of boxes are exact in float64, so errors come only from the point, transformed to the local
frame, and from the operations: 4 * 2**-53 of the point's largest coordinate P, and as much of the
distance. A box whose computed d**2 exceeds ((best + 2**-49 P) (1 + 2**-48))**2 contains nothing at
`best` or nearer. Where P, or its square, overflows, nothing is discarded.
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
    """Return the bound of squared distances beyond which boxes are discarded.

    `lost` bounds the absolute error of distances.
    """
    bound = (local_distance(best, scale) + lost + 1e-300) * (1.0 + 2.0**-48)
    return bound * bound * (1.0 + 2.0**-48)


@kernel
def push_near(blocks, code, x, weights, bound, scratch, top):
    """Push the children that may be near enough, the nearest on top.

    `weights` apply to the squares of the three components of a distance.
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
