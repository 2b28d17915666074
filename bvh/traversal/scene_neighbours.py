"""Points of a scene to their nearest k triangles, and to leaves that float32 does not suit.

As in `nearest_many`: boxes are measured in float64, those of a leaf's tree in its own frame, where
they are stretched to distances of the world (see `stretches`).

A point is brought to the frame of a tree by the way x'' = A x' + b from the top level (see
`scene_entrance`). x' is wrong by 2**-53 of itself, A and the operations by 2**-51 of their terms,
and b by what its leaf says: with the lengths n of the columns of K, the stretched distance of all
that is at most

    2**-50 sum(n[i] (abs(A) abs(x') + abs(b))[i]) + sum(n) * the error of b.

What vertices are rounded by comes on top. Boxes lose 2**-49 of the point's own n . abs(x'') more,
in their differences.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import inlined, kernel, stay_outlined
from bvh.leaves import E1, E2, GROUP_SIZE, TOLERANCE, V0, three
from bvh.leaves import cross as cross_lanes
from bvh.nearest import between, nearest_on_triangle
from bvh.numerics import INF, largest, power_of_two
from bvh.placed import (
    BLOCKS,
    BOUND,
    GROUPS,
    IDS,
    SHIFT_ERROR,
    TREE_SIZE,
    WAY_SIZE,
    code_of,
    placed_corners,
)
from bvh.simd import WIDTH, load, mask_bits, peek, pointer_to, poke, splat
from bvh.stretches import LENGTHS, ROUNDING, ROWS, SCALE, STRETCH_SIZE, WEIGHTS
from bvh.traversal.nearest_many import EVEN, offer_near, push_near, square_limit
from bvh.traversal.point_visits import (
    UNIT,
    UP,
    corner_bounds,
    local_distance,
    local_point,
    spread_point,
)
from bvh.wide_nodes import LEAF_BITS, leaf_rows

F = np.float32
F4, I4 = np.float32(0.0), np.int32(0)
# Codes are below.
NO_CODE = 2**63 - 1
# A leaf is left to float64 if the point is further away, as its tree counts it.
FAR_FROM_LEAF, FARTHEST = 4096.0, 2.0**40
# See `scene_nearest`.
STRETCHED_ERROR = 64.0 * UNIT


@inlined
def _row(ways, at, x):
    """Return a row of a way with a point, and the sum of the terms' sizes."""
    a, b, c = peek(ways, at) * x[0], peek(ways, at + 1) * x[1], peek(ways, at + 2) * x[2]
    shift = peek(ways, at + 3)
    return (a + b + c) + shift, abs(a) + abs(b) + abs(c) + abs(shift)


@inlined
def seen_from(placed, stretches, leaf, x):
    """Bring a point from the top level to the frame of a leaf's tree.

    Returns (point, reach, lost, near): `reach` is what differences of coordinates lose shares of,
    `lost` what stretched distances from the point are wrong by, and `near` tells whether float32
    serves.
    """
    ways, way, row = placed.ways, leaf * WAY_SIZE, leaf * STRETCH_SIZE
    q0, s0 = _row(ways, way, x)
    q1, s1 = _row(ways, way + 4, x)
    q2, s2 = _row(ways, way + 8, x)
    n0, n1, n2 = (
        peek(stretches, row + LENGTHS), peek(stretches, row + LENGTHS + 1),
        peek(stretches, row + LENGTHS + 2),
    )  # fmt: skip
    lost = 2.0**-50 * (n0 * s0 + n1 * s1 + n2 * s2)
    lost += (n0 + n1 + n2) * peek(ways, way + SHIFT_ERROR) + peek(stretches, row + ROUNDING)
    reach = n0 * abs(q0) + n1 * abs(q1) + n2 * abs(q2)
    reach += (n0 + n1 + n2) * peek(ways, way + BOUND)
    if peek(stretches, row + SCALE) == 0.0:
        lost = INF
    near = reach <= FAR_FROM_LEAF and lost < INF and largest((q0, q1, q2)) < FARTHEST
    return (q0, q1, q2), reach, lost * (1.0 + 2.0**-20), near


@inlined
def _stretch(stretches, row, v):
    """Return K times a vector of lanes."""
    at = row + ROWS
    return (
        v[0] * F(peek(stretches, at)) + v[1] * F(peek(stretches, at + 1))
        + v[2] * F(peek(stretches, at + 2)),
        v[0] * F(peek(stretches, at + 3)) + v[1] * F(peek(stretches, at + 4))
        + v[2] * F(peek(stretches, at + 5)),
        v[0] * F(peek(stretches, at + 6)) + v[1] * F(peek(stretches, at + 7))
        + v[2] * F(peek(stretches, at + 8)),
    )  # fmt: skip


@inlined
def stretched_bounds(groups, group, p, stretches, row):
    """Return (low, high) of the stretched distances to a group's triangles, less all errors."""
    at = group * GROUP_SIZE
    v0 = three(groups, at + V0 * WIDTH)
    a = _stretch(stretches, row, (p[0] - v0[0], p[1] - v0[1], p[2] - v0[2]))
    e1 = _stretch(stretches, row, three(groups, at + E1 * WIDTH))
    e2 = _stretch(stretches, row, three(groups, at + E2 * WIDTH))
    return corner_bounds(
        a, e1, e2, cross_lanes(e1, e2), load(groups, at + TOLERANCE * WIDTH, WIDTH)
    )


@kernel
def nearest_in_leaf(tree, stretches, scratch, p, x, leaf, base, count, distance, ids):
    """Put a leaf's triangles among the nearest found, where they are nearer than the last of them.

    `x` is p in the frame of the top level; the stack is free from `base` on.
    """
    stay_outlined()
    placed, stack, squares = tree.primitives, scratch.stack, scratch.squares
    at, row = leaf * TREE_SIZE, leaf * STRETCH_SIZE
    blocks = pointer_to(peek(placed.trees, at + BLOCKS), F4)
    groups = pointer_to(peek(placed.trees, at + GROUPS), F4)
    rows_of_ids = pointer_to(peek(placed.trees, at + IDS), I4)
    q, reach, lost, near = seen_from(placed, stretches, leaf, x)
    weights = (
        peek(stretches, row + WEIGHTS), peek(stretches, row + WEIGHTS + 1),
        peek(stretches, row + WEIGHTS + 2),
    )  # fmt: skip
    scale = peek(stretches, row + SCALE)
    error = STRETCHED_ERROR * UP * reach + lost + 1e-30
    point = spread_point(q if near else (0.0, 0.0, 0.0))
    lost += 2.0**-49 * reach
    bound = square_limit(peek(distance, count - 1), scale, lost)
    poke(stack, base, np.int64(0))
    poke(squares, base, 0.0)
    top = base + 1
    all_lanes = np.int64((1 << WIDTH) - 1)
    while top > base:
        top -= 1
        if peek(squares, top) > bound:
            continue
        code = peek(stack, top)
        if code >= 0:
            top = push_near(blocks, code, q, weights, bound, scratch, top)
            continue
        first, rows = leaf_rows(code)
        for group in range(first, first + rows):
            bits = all_lanes
            if near:
                low, _ = stretched_bounds(groups, group, point, stretches, row)
                worst = local_distance(peek(distance, count - 1), scale) * UP + error
                bits = mask_bits(low <= splat(F(min(worst, 1e30)), WIDTH))
            for lane in range(WIDTH):
                prim = peek(rows_of_ids, group * WIDTH + lane)
                if bits >> lane & 1 == 0 or prim < 0:
                    continue
                face_code = code_of(leaf, prim)
                face = placed_corners(placed, face_code)
                worst = peek(distance, count - 1)
                if between(p, *face)[0] > worst:
                    continue
                d = nearest_on_triangle(p, *face)[0]
                if d < worst or (d == worst and face_code < peek(ids, count - 1)):
                    offer_near(distance, ids, count, d, face_code)
                    bound = square_limit(peek(distance, count - 1), scale, lost)


@kernel
def nearest_many_in_scene(tree, stretches, mask, scratch, p, limit, count, distance, ids):
    """Fill `distance` and `ids` with the nearest triangles within a limit; NO_CODE for none."""
    stay_outlined()
    for i in range(count):
        poke(distance, i, limit)
        poke(ids, i, np.int64(NO_CODE))
    placed, frame, stack, squares = tree.primitives, tree.frame, scratch.stack, scratch.squares
    scale = power_of_two(int(peek(frame, 3)))
    x, reach = local_point(frame, p)
    lost = 2.0**-49 * reach
    bound = square_limit(limit, scale, lost)
    poke(stack, 0, np.int64(0))
    poke(squares, 0, 0.0)
    top = np.int64(1)
    while top > 0:
        top -= 1
        if peek(squares, top) > bound:
            continue
        code = peek(stack, top)
        if code >= 0:
            top = push_near(tree.blocks, code, x, EVEN, bound, scratch, top)
            continue
        leaf = np.int64(peek(tree.ids, ~code >> LEAF_BITS))
        if peek(placed.masks, leaf) & mask != 0:
            nearest_in_leaf(tree, stretches, scratch, p, x, leaf, top, count, distance, ids)
            bound = square_limit(peek(distance, count - 1), scale, lost)
