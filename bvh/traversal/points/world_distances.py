"""Distances in the world from a point to the boxes and triangles of an instance, in float32.

For K, the lengths n of its columns and the weights w see `world_metric`. Here u = 2**-24, B bounds
the coordinates of the tree's frame, q is the point there, and S = sum(n[i] (abs(q[i]) + B)) its
`reach`.

- Boxes, by weights: q is off by u n . abs(q) < u S, and the operations, with rounded weights,
  lose 6 u of the distance, which the rounding up of the limit covers.
- Boxes, by a direction, where shear makes the former poor. Any g bounds the distance from below:
  with m = K^T g, the least m . (q - y) / |g| over a box, whose y are chosen axis by axis. The best
  g leads to the nearest point of the box, which a few steps from axis to axis come near enough to.
  K^T g is off by 4 u n[i] |g|, the differences and their sum lose 7 u n[i] |g| (abs(q[i]) + B),
  and |g| 4 u of itself: 16 u S in all.
- Triangles: p - v0 is off by 2 u (abs(q[i]) + B) a component, K and the product with it lose 4 u
  of that: 6 u S in length. Edges are off by 2 u B, and stretching them loses 8 u B a component:
  10 u S. From p to the corners it is 19 u S, then; a product with a direction of length 1 loses
  7 u of 3 S, and the point guessed is off by 6 u S, 10 u S and its own steps: less than 64 u S on
  both sides, with the 4 units in the last place that the leaf test may lose.

A point is transformed to the frame of a tree by x'' = A x' + b from that of the TLAS (see
`instanced_rays`). x' is off by 2**-53 of itself, A and the operations by 2**-51 of their terms,
and b by the bound in its row: the stretched distance of all that is at most

    2**-50 sum(n[i] (abs(A) abs(x') + abs(b))[i]) + sum(n) * the error of b.

The rounding of vertices is added.
"""

from __future__ import annotations

import numpy as np

from bvh.geometry.arithmetic.floats import INF, largest
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH, greater, lesser, peek, select, shifted, splat
from bvh.traversal.points.point_bounds import UNIT, UP, corner_bounds, push_squares
from bvh.traversal.points.world_metric import LEAST, LENGTHS, ROUNDING, ROWS, SCALE, WEIGHTS
from bvh.tree.instanced import BOUND, SHIFT_ERROR, TRANSFORM_SIZE
from bvh.tree.triangle_groups import (
    cross,
    dot,
    group_at,
    group_edges,
    group_origin,
    group_tolerance,
)
from bvh.tree.wide_nodes import child_boxes, node_at

F = np.float32
# Points further away, in local units of the tree, are handled in float64.
FAR_FROM_LEAF, FARTHEST = 4096.0, 2.0**40
BOX_ERROR, TRIANGLE_ERROR = 16.0 * UNIT * UP, 64.0 * UNIT * UP
# Below this eigenvalue, distances to boxes are bounded by a direction, found in so many steps.
SHEARED, STEPS = 0.75, 2


@inlined
def _row(transforms, at, x):
    """Return a row of the map times a point, and the sum of the terms' sizes."""
    row = shifted(transforms, at)
    a, b, c = peek(row, 0) * x[0], peek(row, 1) * x[1], peek(row, 2) * x[2]
    shift = peek(row, 3)
    return (a + b + c) + shift, abs(a) + abs(b) + abs(c) + abs(shift)


@inlined
def seen_from(instanced, metric, leaf, x):
    """Transform a point from the frame of the TLAS to that of a BLAS.

    Returns (point, reach, lost, near): `lost` bounds the error of stretched distances from the
    point; `near` is whether float32 is accurate enough.
    """
    transforms, at = instanced.transforms, leaf * TRANSFORM_SIZE
    q0, s0 = _row(transforms, at, x)
    q1, s1 = _row(transforms, at + 4, x)
    q2, s2 = _row(transforms, at + 8, x)
    n0, n1, n2 = peek(metric, LENGTHS), peek(metric, LENGTHS + 1), peek(metric, LENGTHS + 2)
    lost = 2.0**-50 * (n0 * s0 + n1 * s1 + n2 * s2)
    lost += (n0 + n1 + n2) * peek(transforms, at + SHIFT_ERROR) + peek(metric, ROUNDING)
    reach = n0 * abs(q0) + n1 * abs(q1) + n2 * abs(q2)
    reach += (n0 + n1 + n2) * peek(transforms, at + BOUND)
    if peek(metric, SCALE) == 0.0:
        lost = INF
    near = reach <= FAR_FROM_LEAF and lost < INF and largest((q0, q1, q2)) < FARTHEST
    return (q0, q1, q2), reach, lost * (1.0 + 2.0**-20), near


@inlined
def _entry(metric, k):
    return F(peek(metric, ROWS + k))


@inlined
def _stretch(metric, v):
    """Return K times a vector of lanes."""
    return (
        v[0] * _entry(metric, 0) + v[1] * _entry(metric, 1)
        + v[2] * _entry(metric, 2),
        v[0] * _entry(metric, 3) + v[1] * _entry(metric, 4)
        + v[2] * _entry(metric, 5),
        v[0] * _entry(metric, 6) + v[1] * _entry(metric, 7)
        + v[2] * _entry(metric, 8),
    )  # fmt: skip


@inlined
def stretched_bounds(groups, group, p, metric):
    """Return (low, high) of the stretched distances to a group's triangles, less all errors."""
    at = group_at(group)
    v0, (e1, e2) = group_origin(groups, at), group_edges(groups, at)
    a = _stretch(metric, (p[0] - v0[0], p[1] - v0[1], p[2] - v0[2]))
    e1, e2 = _stretch(metric, e1), _stretch(metric, e2)
    return corner_bounds(a, e1, e2, cross(e1, e2), group_tolerance(groups, at))


@inlined
def _off(low, high, p):
    """Return how far the ends of intervals are from a coordinate, 0 within."""
    return greater(greater(low - p, p - high), splat(F(0.0), WIDTH))


@inlined
def _weighed(blocks, at, p, metric):
    """Return lower bounds of squared distances to boxes, by weights."""
    low, high = child_boxes(blocks, at)
    x, y, z = _off(low[0], high[0], p[0]), _off(low[1], high[1], p[1]), _off(low[2], high[2], p[2])
    return (
        x * x * F(peek(metric, WEIGHTS)) + y * y * F(peek(metric, WEIGHTS + 1))
        + z * z * F(peek(metric, WEIGHTS + 2))
    )  # fmt: skip


@inlined
def _column(metric, k):
    return _entry(metric, k), _entry(metric, 3 + k), _entry(metric, 6 + k)


@inlined
def _along(g, column):
    """Return the products of vectors of lanes with a column of K."""
    return g[0] * column[0] + g[1] * column[1] + g[2] * column[2]


@inlined
def _step(g, r, near, far, column, share):
    """Minimise the lengths of vectors to boxes along one axis."""
    moved = greater(lesser(r - _along(g, column) * share, far), near)
    change = moved - r
    g = (g[0] + change * column[0], g[1] + change * column[1], g[2] + change * column[2])
    return g, moved


@inlined
def _least_along(g, near, far, column):
    """Return the least component along g of the vectors to an interval."""
    m = _along(g, column)
    return lesser(m * near, m * far)


@inlined
def _directed(blocks, at, p, metric):
    """Return lower bounds of squared distances to boxes, by directions."""
    low, high = child_boxes(blocks, at)
    none = splat(F(0.0), WIDTH)
    # Vectors from points of the box to p lie between `near` and `far`.
    near = p[0] - high[0], p[1] - high[1], p[2] - high[2]
    far = p[0] - low[0], p[1] - low[1], p[2] - low[2]
    x = greater(lesser(none, far[0]), near[0])
    y = greater(lesser(none, far[1]), near[1])
    z = greater(lesser(none, far[2]), near[2])
    g = _stretch(metric, (x, y, z))
    c0, c1, c2 = _column(metric, 0), _column(metric, 1), _column(metric, 2)
    n0, n1, n2 = peek(metric, LENGTHS), peek(metric, LENGTHS + 1), peek(metric, LENGTHS + 2)
    s0 = F(1.0 / (n0 * n0 + 1e-30))
    s1 = F(1.0 / (n1 * n1 + 1e-30))
    s2 = F(1.0 / (n2 * n2 + 1e-30))
    for _ in range(STEPS):
        g, x = _step(g, x, near[0], far[0], c0, s0)
        g, y = _step(g, y, near[1], far[1], c1, s1)
        g, z = _step(g, z, near[2], far[2], c2, s2)
    least = _least_along(g, near[0], far[0], c0)
    least = least + _least_along(g, near[1], far[1], c1)
    least = greater(least + _least_along(g, near[2], far[2], c2), none)
    square = dot(g, g)
    # Where that is too small, there is no bound; for unused lanes it is NaN.
    known = square > F(1e-24)
    squares = select(known, least * least / select(known, square, none + F(1.0)), none)
    return select(low[0] <= high[0], squares, splat(F(INF), WIDTH))


@kernel
def push_stretched(blocks, code, p, metric, bound, stack, top, spare):
    """Put the children of a leaf's node on the stack as `push_children` does, stretched."""
    stay_outlined()
    at = node_at(code)
    if peek(metric, LEAST) < SHEARED:
        squares = _directed(blocks, at, p, metric)
    else:
        squares = _weighed(blocks, at, p, metric)
    return push_squares(blocks, code, squares, bound, stack, top, spare)
