"""Rays one by one, several in turn: while one waits for memory or a result, the others go on.

Each slot holds a ray and its stack. A round lets every slot whose next entry is a node take one
step, without a branch that depends on the ray; a second round tests the leaves that were reached.
A node's children are pushed nearest last, by the order that is stored for the ray's octant: no
sorting, no branch a child (Bikker 2024, "TinyBVH", its 8-wide layout).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.jit import by_type, inlined, kernel, stay_outlined
from bvh.leaves import filter_triangles, read_group
from bvh.numerics import INF
from bvh.primitives import Boxes, Obbs, Triangles
from bvh.simd import (
    WIDTH,
    compress,
    fma,
    greater,
    highest_bit,
    lane,
    lesser,
    load,
    load_ints,
    lowest_bit,
    mask_bits,
    peek,
    peek_int,
    permute,
    pointer,
    poke,
    popcount,
    splat,
    store,
)
from bvh.traversal.block import (
    DIRECTION,
    EDGE,
    END,
    FAR,
    INVERSE,
    LOW,
    NEAR,
    OCTANT,
    ORIGIN,
    PRIM,
    SLACK,
    SPARE,
    SURE_HIGH,
    SURE_LOW,
    T_ERROR,
)
from bvh.traversal.offers import offer_exact, offer_sure
from bvh.wide_nodes import BLOCK_SIZE, CODES, LANE_BITS, LOWER, ORDER, UPPER, leaf_rows

SLOTS = 16
# Depth never exceeds 2 * log2(n) + 8 <= 68; each level leaves up to WIDTH - 1 entries.
STACK = 70 * WIDTH

F = np.float32


@inlined
def spread(lanes, row, r):
    """Return a ray's number in all lanes."""
    return splat(peek(lanes, r + row * WIDTH), WIDTH)


@inlined
def enter_children(blocks, node, lanes, r):
    """Return (first, last) of ray r's stay in each of a node's children."""
    at = node * BLOCK_SIZE
    octant = np.int64(peek_int(lanes, r + OCTANT * WIDTH))
    # Choose near and far planes by the sign of the direction, not by comparing their distances.
    nx = at + 3 * WIDTH * (octant & 1)
    ny = at + WIDTH + 3 * WIDTH * (octant >> 1 & 1)
    nz = at + 2 * WIDTH + 3 * WIDTH * (octant >> 2)
    ix, iy, iz = spread(lanes, INVERSE, r), spread(lanes, INVERSE + 1, r), spread(lanes, INVERSE + 2, r)
    tx = fma(load(blocks, nx, WIDTH), ix, spread(lanes, NEAR, r))
    ty = fma(load(blocks, ny, WIDTH), iy, spread(lanes, NEAR + 1, r))
    tz = fma(load(blocks, nz, WIDTH), iz, spread(lanes, NEAR + 2, r))
    first = greater(greater(tx, ty), greater(tz, splat(F(0.0), WIDTH)))
    fx, fy, fz = (
        2 * at + 3 * WIDTH - nx,
        2 * at + 5 * WIDTH - ny,
        2 * at + 7 * WIDTH - nz,
    )
    tx = fma(load(blocks, fx, WIDTH), ix, spread(lanes, FAR, r))
    ty = fma(load(blocks, fy, WIDTH), iy, spread(lanes, FAR + 1, r))
    tz = fma(load(blocks, fz, WIDTH), iz, spread(lanes, FAR + 2, r))
    last = lesser(lesser(tx, ty), lesser(tz, spread(lanes, END, r)))
    return first, last


@inlined
def step(blocks, node, lanes, r, codes, entries, top):
    """Push the children that ray r enters but the nearest, nearest last.

    Returns the new top of the stack, how many children are entered, and the nearest one's code. It
    is taken from the register: a load that follows a wider store to its place has to wait.
    """
    first, last = enter_children(blocks, node, lanes, r)
    at = node * BLOCK_SIZE
    octant = np.int32(peek_int(lanes, r + OCTANT * WIDTH))
    order = load_ints(blocks, at + ORDER * WIDTH, WIDTH) >> (octant * np.int32(LANE_BITS))
    child = permute(load_ints(blocks, at + CODES * WIDTH, WIDTH), order)
    first = permute(first, order)
    hit = first <= permute(last, order)
    bits = mask_bits(hit)
    store(codes, top, compress(child, hit, bits))
    store(entries, top, compress(first, hit, bits))
    nearest = lane(permute(child, splat(np.int32(highest_bit(bits)), WIDTH)), 0)
    return top + popcount(bits) - 1, bits, np.int64(nearest)


@inlined
def test_group(tree, rays, block, r, group, any_hit, cull):
    """Test ray r against a group of triangles and keep the best hit."""
    lanes = block.lanes
    o = (spread(lanes, ORIGIN, r), spread(lanes, ORIGIN + 1, r), spread(lanes, ORIGIN + 2, r))
    d = (spread(lanes, DIRECTION, r), spread(lanes, DIRECTION + 1, r), spread(lanes, DIRECTION + 2, r))
    maybe, inside, outside, den, size, numerator, margin, t_margin = filter_triangles(
        o, d, spread(lanes, EDGE, r), spread(lanes, T_ERROR, r),
        spread(lanes, LOW, r), spread(lanes, END, r), read_group(tree.groups, group),
    )
    bits = mask_bits(maybe)
    if bits != 0:
        q, spread_of_t = numerator / size, t_margin / size + spread(lanes, SLACK, r)
        first, last = q - spread_of_t, q + spread_of_t
        sure = ((inside > margin) | (outside < -margin)) & (
            (first >= spread(lanes, SURE_LOW, r)) & (last <= spread(lanes, SURE_HIGH, r))
        )
        store(lanes, SPARE, first)
        store(lanes, SPARE + WIDTH, last)
        settle(tree, rays, block, r, group, bits, mask_bits(sure), mask_bits(den > F(0.0)), any_hit, cull)


@kernel
def settle(tree, rays, block, r, group, bits, sure, back, any_hit, cull):
    """Offer the lanes `bits` of a group as hits of ray r."""
    stay_outlined()
    lanes = block.lanes
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        prim = np.int64(peek(tree.ids, group * WIDTH + k))
        if sure >> k & 1:
            if cull != 0 and (cull > 0) == (back >> k & 1 == 1):
                continue
            low, high = peek(lanes, SPARE + k), peek(lanes, SPARE + WIDTH + k)
            offer_sure(tree, rays, block, r, prim, low, high, cull)
        elif not offer_exact(tree, rays, block, r, prim, cull):
            continue
        if any_hit:
            # Nothing is left to find.
            poke(lanes, r + END * WIDTH, F(-INF))
            return


def test_leaf(primitives, tree, rays, block, r, code, any_hit, cull):
    """Test ray r against the primitives of a leaf and keep the best hit."""


def _test_triangles(primitives, tree, rays, block, r, code, any_hit, cull):
    group, count = leaf_rows(code)
    for g in range(group, group + count):
        test_group(tree, rays, block, r, g, any_hit, cull)


def _test_solids(primitives, tree, rays, block, r, code, any_hit, cull):
    first, count = leaf_rows(code)
    for i in range(first, first + count):
        prim = np.int64(peek(tree.ids, i))
        if offer_exact(tree, rays, block, r, prim, cull) and any_hit:
            poke(block.lanes, r + END * WIDTH, F(-INF))


LEAF_TESTS = {Triangles: _test_triangles, Boxes: _test_solids, Obbs: _test_solids}


@by_type(test_leaf)
def _choose_leaf_test(primitives, tree, rays, block, r, code, any_hit, cull):
    return LEAF_TESTS[primitives.instance_class]


class Slots(NamedTuple):
    """Scratch of the rays that are under way."""

    codes: NDArray[np.int32]
    entries: NDArray[np.float32]
    ray: NDArray[np.int64]
    top: NDArray[np.int64]
    code: NDArray[np.int64]
    at_node: NDArray[np.int64]
    at_leaf: NDArray[np.int64]


def new_slots() -> Slots:
    """Return the scratch of one thread."""
    return Slots(
        np.empty(SLOTS * STACK, np.int32),
        np.empty(SLOTS * STACK, np.float32),
        np.empty(SLOTS, np.int64),
        np.empty(SLOTS, np.int64),
        np.empty(SLOTS, np.int64),
        np.empty(SLOTS + 1, np.int64),
        np.empty(SLOTS + 1, np.int64),
    )


@inlined
def pointed_slots(slots):
    """Return slots with pointers in place of arrays."""
    return Slots(
        pointer(slots.codes),
        pointer(slots.entries),
        pointer(slots.ray),
        pointer(slots.top),
        pointer(slots.code),
        pointer(slots.at_node),
        pointer(slots.at_leaf),
    )


@inlined
def pop(slots, lanes, slot, top, r):
    """Take the next entry that does not begin behind the best hit; one with it stays, for a tie.

    Returns (code, top), with top below the slot's stack when it is empty.
    """
    base = slot * STACK
    end = peek(lanes, r + END * WIDTH)
    top -= 1
    while top >= base and peek(slots.entries, top) > end:
        top -= 1
    return np.int64(peek(slots.codes, max(top, base))), top


@inlined
def _queue(slots, slot, code, nodes_waiting, leaves_waiting):
    """List a slot by what its ray has come to, without a branch."""
    is_node = np.int64(code >= 0)
    poke(slots.code, slot, code)
    poke(slots.at_node, nodes_waiting, slot)
    poke(slots.at_leaf, leaves_waiting, slot)
    return nodes_waiting + is_node, leaves_waiting + (1 - is_node)


@kernel
def trace(tree, rays, block, slots, alive, count, any_hit, cull):
    """Take the rays `alive[:count]` of a block through the tree."""
    lanes, blocks = block.lanes, tree.blocks
    taken = np.int64(0)
    nodes_waiting, leaves_waiting = np.int64(0), np.int64(0)
    # Let a ray into each slot, at the root.
    while taken < count and taken < SLOTS:
        poke(slots.ray, taken, peek(alive, taken))
        poke(slots.top, taken, taken * STACK)
        poke(slots.code, taken, 0)
        poke(slots.at_node, taken, taken)
        taken += 1
    nodes_waiting = taken
    while nodes_waiting + leaves_waiting > 0:
        # Let every ray at a node take one step.
        now, nodes_waiting = nodes_waiting, np.int64(0)
        for i in range(now):
            slot = peek(slots.at_node, i)
            r = peek(slots.ray, slot)
            node = peek(slots.code, slot)
            top, bits, code = step(blocks, node, lanes, r, slots.codes, slots.entries, peek(slots.top, slot))
            if bits == 0:
                code, top = pop(slots, lanes, slot, top + 1, r)
                if top < slot * STACK:
                    # Take the next ray in place of one that is done.
                    if taken == count:
                        continue
                    poke(slots.ray, slot, peek(alive, taken))
                    taken += 1
                    top, code = slot * STACK, np.int64(0)
            poke(slots.top, slot, top)
            nodes_waiting, leaves_waiting = _queue(slots, slot, code, nodes_waiting, leaves_waiting)
        if nodes_waiting > 0 and leaves_waiting < SLOTS // 2:
            continue
        # Then test the leaves that were reached.
        now, leaves_waiting = leaves_waiting, np.int64(0)
        for i in range(now):
            slot = peek(slots.at_leaf, i)
            r = peek(slots.ray, slot)
            code = peek(slots.code, slot)
            test_leaf(tree.primitives, tree, rays, block, r, code, any_hit, cull)
            code, top = pop(slots, lanes, slot, peek(slots.top, slot), r)
            if top < slot * STACK:
                if taken == count:
                    continue
                poke(slots.ray, slot, peek(alive, taken))
                taken += 1
                top, code = slot * STACK, np.int64(0)
            poke(slots.top, slot, top)
            nodes_waiting, leaves_waiting = _queue(slots, slot, code, nodes_waiting, leaves_waiting)
