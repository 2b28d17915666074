"""Points one by one through a scene, to the nearest triangle: as `closest_point`, but placed.

The leaves of the top level are visited like nodes, and a leaf's tree is walked to its end on the
same stack, in its own local frame, where distances are stretched to those of the world (see
`stretching`). How far the nearest surely is, is carried from leaf to leaf as a distance in the
world; triangles that may be as near are measured on their moved vertices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned
from bvh.jit import entry, inlined, kernel, stay_outlined
from bvh.nearest import nearest_on_triangle
from bvh.numerics import INF, NAN, finite, power_of_two, vector
from bvh.placed import BLOCKS, GROUPS, IDS, TREE_SIZE, code_of, placed_corners
from bvh.references import as_pointers
from bvh.simd import (
    WIDTH,
    lowest,
    lowest_bit,
    mask_bits,
    peek,
    pointer,
    pointer_to,
    poke,
    shifted,
    store,
)
from bvh.stretches import SCALE, STRETCH_SIZE
from bvh.traversal.closest_point import keep_near, settle
from bvh.traversal.point_visits import (
    BOX_ERROR,
    FAR,
    UP,
    key_of,
    local_bound,
    local_point,
    push_children,
    spread_point,
    square_bound,
)
from bvh.traversal.point_visits import code_of as node_of
from bvh.traversal.points_scratch import ROOM
from bvh.traversal.scene_neighbours import NO_CODE, nearest_in_leaf, nearest_many_in_scene
from bvh.traversal.scene_slots import STACK
from bvh.traversal.stretching import BOX_ERROR as STRETCHED_BOX_ERROR
from bvh.traversal.stretching import (
    TRIANGLE_ERROR,
    push_stretched,
    seen_from,
    stretched_bounds,
)
from bvh.wide_nodes import LEAF_BITS, leaf_rows

F = np.float32
F4, I4 = np.float32(0.0), np.int32(0)


class ScenePointScratch(NamedTuple):
    """Scratch of one thread; pointers inside kernels."""

    stack: NDArray[np.int64]
    squares: NDArray[np.float64]
    spare: NDArray[np.float32]
    bounds: NDArray[np.float64]
    ids: NDArray[np.int64]
    lows: NDArray[np.float64]


def new_scratch() -> ScenePointScratch:
    """Return the scratch of one thread: stacks for two trees."""
    return ScenePointScratch(
        aligned(2 * STACK, np.int64),
        aligned(2 * STACK, np.float64),
        aligned(2 * WIDTH, np.float32),
        aligned(ROOM + WIDTH, np.float64),
        aligned(ROOM + WIDTH, np.int64),
        aligned(ROOM + WIDTH, np.float64),
    )


@inlined
def _pointed(scratch):
    """Return scratch with pointers in place of arrays."""
    return ScenePointScratch(
        pointer(scratch.stack),
        pointer(scratch.squares),
        pointer(scratch.spare),
        pointer(scratch.bounds),
        pointer(scratch.ids),
        pointer(scratch.lows),
    )


@kernel
def _through_leaf(tree, stretches, scratch, p, x, leaf, base, so_far):
    """Walk the tree of a leaf; `so_far` is what has been found before, and what is returned.

    It is (candidates, how near the nearest surely is, best, code, u, v).
    """
    count, near, best, found, u, v = so_far
    placed = tree.primitives
    q, reach, lost, serves = seen_from(placed, stretches, leaf, x)
    if not serves:
        best, found, u, v = settle(placed, scratch, count, p, best, found, u, v)
        return _far_leaf(tree, stretches, scratch, p, x, leaf, base, (best, found, u, v))
    stack, spare = scratch.stack, scratch.spare
    at, row = leaf * TREE_SIZE, leaf * STRETCH_SIZE
    blocks = pointer_to(peek(placed.trees, at + BLOCKS), F4)
    groups = pointer_to(peek(placed.trees, at + GROUPS), F4)
    ids = pointer_to(peek(placed.trees, at + IDS), I4)
    scale = peek(stretches, row + SCALE)
    box_error = STRETCHED_BOX_ERROR * reach + lost + 1e-30
    error = TRIANGLE_ERROR * reach + lost + 1e-30
    rounded_error = F(error * UP)
    point = spread_point(q)
    bound = local_bound(near, scale)
    square = square_bound(bound, box_error)
    poke(stack, base, np.int64(0))
    top = base + 1
    while top > base:
        top -= 1
        entry = peek(stack, top)
        if entry > key_of(square):
            continue
        code = node_of(entry)
        if code >= 0:
            top = push_stretched(blocks, code, point, stretches, row, square, stack, top, spare)
            continue
        first, rows = leaf_rows(code)
        for group in range(first, first + rows):
            low, high = stretched_bounds(groups, group, point, stretches, row)
            nearest = (np.float64(lowest(high)) + error) / scale
            if nearest < near:
                near = nearest
                bound = local_bound(near, scale)
                square = square_bound(bound, box_error)
            low = low - rounded_error
            bits = np.int64(mask_bits(low <= bound))
            if bits == 0:
                continue
            store(spare, 0, low)
            while bits != 0:
                k = lowest_bit(bits)
                bits &= bits - 1
                poke(scratch.bounds, count, np.float64(peek(spare, k)) / scale)
                poke(scratch.ids, count, code_of(leaf, peek(ids, group * WIDTH + k)))
                count += 1
            if count > ROOM - WIDTH:
                count = keep_near(scratch, count, _rounded_up(near))
                if count > ROOM // 2:
                    best, found, u, v = settle(placed, scratch, count, p, best, found, u, v)
                    count = np.int64(0)
                    near = min(near, best)
                    bound = local_bound(near, scale)
                    square = square_bound(bound, box_error)
    return count, near, best, found, u, v


@inlined
def _rounded_up(near):
    """Return no less than what a distance, which was rounded, can be."""
    return near * (1.0 + 2.0**-48) + 1e-323


@kernel
def _far_leaf(tree, stretches, scratch, p, x, leaf, base, so_far):
    """Measure a leaf in float64, after all candidates have been settled."""
    stay_outlined()
    best, found, u, v = so_far
    distance, ids = scratch.lows, scratch.ids
    poke(distance, 0, best)
    poke(ids, 0, found)
    nearest_in_leaf(
        tree.primitives, stretches, scratch, p, x, leaf, base, np.int64(1), distance, ids
    )
    if peek(ids, 0) != found:
        found = peek(ids, 0)
        best, u, v = nearest_on_triangle(p, *placed_corners(tree.primitives, found))
    return np.int64(0), best, best, found, u, v


@kernel
def _nearest(tree, stretches, mask, scratch, p, x, reach, limit):
    """Return (distance, code, u, v) of the nearest triangle, NO_CODE if none is within limit."""
    stay_outlined()
    stack, spare, placed = scratch.stack, scratch.spare, tree.primitives
    scale = power_of_two(int(peek(tree.frame, 3)))
    box_error = BOX_ERROR * reach + 1e-30
    point = spread_point(x)
    so_far = (np.int64(0), limit, limit, np.int64(NO_CODE), NAN, NAN)
    square = square_bound(local_bound(limit, scale), box_error)
    poke(stack, 0, np.int64(0))
    top = np.int64(1)
    while top > 0:
        top -= 1
        entry = peek(stack, top)
        if entry > key_of(square):
            continue
        code = node_of(entry)
        if code >= 0:
            top = push_children(tree.blocks, code, point, square, stack, top, spare)
            continue
        leaf = np.int64(peek(tree.ids, ~code >> LEAF_BITS))
        if peek(placed.masks, leaf) & mask != 0:
            so_far = _through_leaf(tree, stretches, scratch, p, x, leaf, top, so_far)
            square = square_bound(local_bound(so_far[1], scale), box_error)
    count, near, best, found, u, v = so_far
    count = keep_near(scratch, count, _rounded_up(near))
    return settle(placed, scratch, count, p, best, found, u, v)


@kernel
def _nearest_to(tree, stretches, mask, scratch, p, limit):
    """Return (distance, code, u, v) of the nearest triangle; NO_CODE for points not finite."""
    d, found, u, v = INF, np.int64(NO_CODE), NAN, NAN
    if finite(p) and limit >= 0.0:
        x, reach = local_point(tree.frame, p)
        if reach <= FAR:
            return _nearest(tree, stretches, mask, scratch, p, x, reach, limit)
        lows, ids = scratch.lows, scratch.ids
        nearest_many_in_scene(
            tree, stretches, mask, scratch, p, limit, np.int64(1), lows, ids
        )  # fmt: skip
        found = peek(ids, 0)
        if found != NO_CODE:
            d, u, v = nearest_on_triangle(p, *placed_corners(tree.primitives, found))
    return d, found, u, v


@inlined
def _write(placed, p_weights, position, i, found, u, v):
    """Write the weights and the place of a nearest point."""
    poke(p_weights, 2 * i, u)
    poke(p_weights, 2 * i + 1, v)
    a, b, c = placed_corners(placed, found)
    w = (1.0 - u) - v
    for axis in range(3):
        poke(position, 3 * i + axis, (w * a[axis] + u * b[axis]) + v * c[axis])


@inlined
def _write_miss(p_weights, position, i):
    poke(p_weights, 2 * i, NAN)
    poke(p_weights, 2 * i + 1, NAN)
    for axis in range(3):
        poke(position, 3 * i + axis, NAN)


@entry
def nearest_in_scene(
    tree, stretches, mask, points, limits, scratch, begin, end, count, distance, codes, weights,
    position,
):  # fmt: skip
    """Find the nearest `count` triangles of the points begin..end, rows of `count` each.

    `weights` (n, 2) and `position` (n, 3) may be empty: they are left out then.
    """
    if len(tree.nodes.blocks) > 0:
        _nearest_in_scene(
            as_pointers(tree), pointer(stretches), mask, pointer(points), pointer(limits),
            np.int64(len(limits) > 1), _pointed(scratch), begin, end, count, pointer(distance),
            pointer(codes), pointer(weights), pointer(position), len(position) > 0,
        )  # fmt: skip
        return
    for i in range(begin * count, end * count):
        distance[i], codes[i] = INF, -1
        if len(position) > 0:
            weights[i, :], position[i, :] = NAN, NAN


@kernel
def _nearest_in_scene(
    tree, stretches, mask, points, limits, step, scratch, begin, end, count, distance, codes,
    weights, position, whole,
):  # fmt: skip
    placed = tree.primitives
    for i in range(begin, end):
        p, limit = vector(points, i), peek(limits, i * step)
        at = i * count
        if count == 1:
            d, found, u, v = _nearest_to(tree, stretches, mask, scratch, p, limit)
            poke(distance, at, d)
            poke(codes, at, found)
            if whole and found != NO_CODE:
                _write(placed, weights, position, at, found, u, v)
        elif finite(p) and limit >= 0.0:
            nearest_many_in_scene(
                tree, stretches, mask, scratch, p, limit, count, shifted(distance, at),
                shifted(codes, at),
            )  # fmt: skip
            for j in range(at, at + count):
                found = peek(codes, j)
                if whole and found != NO_CODE:
                    _, u, v = nearest_on_triangle(p, *placed_corners(placed, found))
                    _write(placed, weights, position, j, found, u, v)
        else:
            for j in range(at, at + count):
                poke(codes, j, np.int64(NO_CODE))
        for j in range(at, at + count):
            if peek(codes, j) == NO_CODE:
                poke(distance, j, INF)
                poke(codes, j, np.int64(-1))
                if whole:
                    _write_miss(weights, position, j)
