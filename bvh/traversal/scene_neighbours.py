"""Points of a scene to their nearest k triangles, and to leaves that float32 does not suit.

As in `nearest_many`, but for leaves that float32 suits: there all is as in `stretching`. Elsewhere
boxes are measured in float64, in the frame of the tree and by weights (see `stretches`), which
loses 2**-49 of the point's `reach` beside what the way there has lost.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import inlined, kernel, stay_outlined
from bvh.nearest import between, nearest_on_triangle
from bvh.numerics import power_of_two
from bvh.placed import BLOCKS, GROUPS, IDS, TREE_SIZE, code_of, placed_corners
from bvh.simd import WIDTH, mask_bits, peek, pointer_to, poke, splat
from bvh.stretches import SCALE, STRETCH_SIZE, WEIGHTS
from bvh.traversal.nearest_many import EVEN, offer_near, push_near, square_limit
from bvh.traversal.point_visits import (
    UP,
    key_of,
    local_bound,
    local_distance,
    local_point,
    spread_point,
    square_bound,
)
from bvh.traversal.point_visits import code_of as node_of
from bvh.traversal.stretching import (
    BOX_ERROR,
    TRIANGLE_ERROR,
    push_stretched,
    seen_from,
    stretched_bounds,
)
from bvh.wide_nodes import LEAF_BITS, leaf_rows

F = np.float32
F4, I4 = np.float32(0.0), np.int32(0)
# Codes are below.
NO_CODE = 2**63 - 1
ALL_LANES = (1 << WIDTH) - 1


@kernel
def _offer_group(placed, ids, leaf, group, bits, p, count, distance, codes):
    """Put the lanes `bits` of a group among the nearest found, where they are nearer."""
    stay_outlined()
    for lane in range(WIDTH):
        prim = peek(ids, group * WIDTH + lane)
        if bits >> lane & 1 == 0 or prim < 0:
            continue
        code = code_of(leaf, prim)
        face = placed_corners(placed, code)
        worst = peek(distance, count - 1)
        if between(p, *face)[0] > worst:
            continue
        d = nearest_on_triangle(p, *face)[0]
        if d < worst or (d == worst and code < peek(codes, count - 1)):
            offer_near(distance, codes, count, d, code)


@inlined
def _measure_near(placed, stretches, scratch, p, seen, leaf, base, count, distance, codes):
    """Walk a leaf in float32."""
    q, reach, lost, _ = seen
    stack, at, row = scratch.stack, leaf * TREE_SIZE, leaf * STRETCH_SIZE
    blocks = pointer_to(peek(placed.trees, at + BLOCKS), F4)
    groups = pointer_to(peek(placed.trees, at + GROUPS), F4)
    ids = pointer_to(peek(placed.trees, at + IDS), I4)
    scale = peek(stretches, row + SCALE)
    box_error = BOX_ERROR * reach + lost + 1e-30
    error = TRIANGLE_ERROR * reach + lost + 1e-30
    point = spread_point(q)
    square = square_bound(local_bound(peek(distance, count - 1), scale), box_error)
    poke(stack, base, np.int64(0))
    top = base + 1
    while top > base:
        top -= 1
        entry = peek(stack, top)
        if entry > key_of(square):
            continue
        code = node_of(entry)
        if code >= 0:
            top = push_stretched(
                blocks, code, point, stretches, row, square, stack, top, scratch.spare
            )
            continue
        first, rows = leaf_rows(code)
        for group in range(first, first + rows):
            low, _ = stretched_bounds(groups, group, point, stretches, row)
            worst = local_distance(peek(distance, count - 1), scale) * UP + error
            bits = np.int64(mask_bits(low <= splat(F(min(worst, 1e30) * UP), WIDTH)))
            if bits != 0:
                _offer_group(placed, ids, leaf, group, bits, p, count, distance, codes)
        square = square_bound(local_bound(peek(distance, count - 1), scale), box_error)


@inlined
def _measure_far(placed, stretches, scratch, p, seen, leaf, base, count, distance, codes):
    """Walk a leaf in float64."""
    q, reach, lost, _ = seen
    stack, squares = scratch.stack, scratch.squares
    at, row = leaf * TREE_SIZE, leaf * STRETCH_SIZE
    blocks = pointer_to(peek(placed.trees, at + BLOCKS), F4)
    ids = pointer_to(peek(placed.trees, at + IDS), I4)
    weights = (
        peek(stretches, row + WEIGHTS), peek(stretches, row + WEIGHTS + 1),
        peek(stretches, row + WEIGHTS + 2),
    )  # fmt: skip
    scale = peek(stretches, row + SCALE)
    lost += 2.0**-49 * reach
    bound = square_limit(peek(distance, count - 1), scale, lost)
    poke(stack, base, np.int64(0))
    poke(squares, base, 0.0)
    top = base + 1
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
            _offer_group(placed, ids, leaf, group, np.int64(ALL_LANES), p, count, distance, codes)
        bound = square_limit(peek(distance, count - 1), scale, lost)


@kernel
def nearest_in_leaf(placed, stretches, scratch, p, x, leaf, base, count, distance, codes):
    """Put a leaf's triangles among the nearest found, where they are nearer than the last of them.

    `x` is p in the frame of the top level; the stack is free from `base` on.
    """
    stay_outlined()
    seen = seen_from(placed, stretches, leaf, x)
    if seen[3]:
        _measure_near(placed, stretches, scratch, p, seen, leaf, base, count, distance, codes)
    else:
        _measure_far(placed, stretches, scratch, p, seen, leaf, base, count, distance, codes)


@kernel
def nearest_many_in_scene(tree, stretches, mask, scratch, p, limit, count, distance, codes):
    """Fill `distance` and `codes` with the nearest triangles within a limit; NO_CODE for none."""
    stay_outlined()
    for i in range(count):
        poke(distance, i, limit)
        poke(codes, i, np.int64(NO_CODE))
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
            nearest_in_leaf(placed, stretches, scratch, p, x, leaf, top, count, distance, codes)
            bound = square_limit(peek(distance, count - 1), scale, lost)
