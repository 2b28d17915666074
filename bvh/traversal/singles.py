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

from bvh.arguments import aligned
from bvh.jit import by_type, inlined, kernel, stay_outlined
from bvh.leaves import GROUP_SIZE, filter_triangles, read_group
from bvh.numerics import INF
from bvh.primitives import Boxes, Obbs, Triangles
from bvh.simd import (
    WIDTH,
    address,
    compress_order,
    fma,
    greater,
    highest_bit,
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
    prefetch_address,
    popcount,
    shifted,
    splat,
    store,
)
from bvh.traversal.block import (
    BLOCK,
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
from bvh.wide_nodes import (
    BLOCK_SIZE,
    CODES,
    LANE_BITS,
    LOWER,
    MAX_LEAF_ROWS,
    ORDER,
    UPPER,
    leaf_rows,
)

SLOTS = 16
# Numbers of a ray that a slot keeps side by side, up to END.
SLOT_ROWS = 32
# Depth never exceeds 2 * log2(n) + 8 <= 68; each level leaves up to WIDTH - 1 entries.
STACK = 70 * WIDTH

F = np.float32


@inlined
def spread(rows, row):
    """Return a ray's number in all lanes."""
    return splat(peek(rows, row), WIDTH)


@inlined
def enter_children(blocks, node, rows, planes):
    """Return (first, last) of a ray's stay in each of a node's children.

    `planes` are the rows of near and far planes: chosen by the sign of the direction, not by
    comparing their distances.
    """
    at = node * BLOCK_SIZE
    nx, ny, nz, fx, fy, fz = planes
    ix, iy, iz = spread(rows, INVERSE), spread(rows, INVERSE + 1), spread(rows, INVERSE + 2)
    tx = fma(load(blocks, at + nx, WIDTH), ix, spread(rows, NEAR))
    ty = fma(load(blocks, at + ny, WIDTH), iy, spread(rows, NEAR + 1))
    tz = fma(load(blocks, at + nz, WIDTH), iz, spread(rows, NEAR + 2))
    first = greater(greater(tx, ty), greater(tz, splat(F(0.0), WIDTH)))
    tx = fma(load(blocks, at + fx, WIDTH), ix, spread(rows, FAR))
    ty = fma(load(blocks, at + fy, WIDTH), iy, spread(rows, FAR + 1))
    tz = fma(load(blocks, at + fz, WIDTH), iz, spread(rows, FAR + 2))
    last = lesser(lesser(tx, ty), lesser(tz, spread(rows, END)))
    return first, last


@inlined
def plane_rows(octant):
    """Return the places of near and far planes in a node, for rays of an octant."""
    nx = 3 * WIDTH * (octant & 1)
    ny = WIDTH + 3 * WIDTH * (octant >> 1 & 1)
    nz = 2 * WIDTH + 3 * WIDTH * (octant >> 2)
    return nx, ny, nz, 3 * WIDTH - nx, 5 * WIDTH - ny, 7 * WIDTH - nz


@inlined
def test_group(tree, rays, block, r, rows, group, any_hit, cull):
    """Test ray r against a group of triangles and keep the best hit."""
    lanes = block.lanes
    o = (spread(rows, ORIGIN), spread(rows, ORIGIN + 1), spread(rows, ORIGIN + 2))
    d = (spread(rows, DIRECTION), spread(rows, DIRECTION + 1), spread(rows, DIRECTION + 2))
    maybe, inside, outside, den, size, numerator, margin, t_margin = filter_triangles(
        o,
        d,
        spread(rows, EDGE),
        spread(rows, T_ERROR),
        spread(rows, LOW),
        spread(rows, END),
        read_group(tree.groups, group),
    )
    bits = mask_bits(maybe)
    if bits != 0:
        q, spread_of_t = (
            numerator / size,
            t_margin / size + splat(peek(lanes, r + SLACK * WIDTH), WIDTH),
        )
        first, last = q - spread_of_t, q + spread_of_t
        sure = ((inside > margin) | (outside < -margin)) & (
            (first >= splat(peek(lanes, r + SURE_LOW * WIDTH), WIDTH))
            & (last <= splat(peek(lanes, r + SURE_HIGH * WIDTH), WIDTH))
        )
        store(lanes, SPARE, first)
        store(lanes, SPARE + WIDTH, last)
        settle(
            tree,
            rays,
            block,
            r,
            group,
            bits,
            mask_bits(sure),
            mask_bits(den > F(0.0)),
            any_hit,
            cull,
        )


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


def test_leaf(primitives, tree, rays, block, r, rows, code, any_hit, cull):
    """Test ray r against the primitives of a leaf and keep the best hit."""


def _test_triangles(primitives, tree, rays, block, r, rows, code, any_hit, cull):
    group, count = leaf_rows(code)
    for g in range(group, group + count):
        test_group(tree, rays, block, r, rows, g, any_hit, cull)
        # A hit brings the end nearer for the next group.
        poke(rows, END, peek(block.lanes, r + END * WIDTH))


def _test_solids(primitives, tree, rays, block, r, rows, code, any_hit, cull):
    first, count = leaf_rows(code)
    for i in range(first, first + count):
        prim = np.int64(peek(tree.ids, i))
        if offer_exact(tree, rays, block, r, prim, cull) and any_hit:
            poke(block.lanes, r + END * WIDTH, F(-INF))
    poke(rows, END, peek(block.lanes, r + END * WIDTH))


LEAF_TESTS = {Triangles: _test_triangles, Boxes: _test_solids, Obbs: _test_solids}


@by_type(test_leaf)
def _choose_leaf_test(primitives, tree, rays, block, r, rows, code, any_hit, cull):
    return LEAF_TESTS[primitives.instance_class]


class Slots(NamedTuple):
    """Scratch of the rays that are under way; pointers inside kernels."""

    codes: NDArray[np.int32]
    entries: NDArray[np.float32]
    child: NDArray[np.int32]
    first: NDArray[np.float32]
    rows: NDArray[np.float32]
    hits: NDArray[np.int64]
    ray: NDArray[np.int64]
    top: NDArray[np.int64]
    code: NDArray[np.int64]
    at_node: NDArray[np.int64]
    at_leaf: NDArray[np.int64]
    bucket: NDArray[np.int64]
    spare: NDArray[np.int64]
    sizes: NDArray[np.int64]


def new_slots() -> Slots:
    """Return the scratch of one thread."""
    return Slots(
        aligned(SLOTS * STACK, np.int32),
        aligned(SLOTS * STACK, np.float32),
        aligned(SLOTS * WIDTH, np.int32),
        aligned(SLOTS * WIDTH, np.float32),
        aligned(SLOTS * SLOT_ROWS, np.float32),
        *(np.empty(n, np.int64) for n in (*[SLOTS + 1] * 6, BLOCK, BLOCK, 9)),
    )


@inlined
def pointed_slots(slots):
    """Return slots with pointers in place of arrays."""
    return Slots(
        pointer(slots.codes),
        pointer(slots.entries),
        pointer(slots.child),
        pointer(slots.first),
        pointer(slots.rows),
        pointer(slots.hits),
        pointer(slots.ray),
        pointer(slots.top),
        pointer(slots.code),
        pointer(slots.at_node),
        pointer(slots.at_leaf),
        pointer(slots.bucket),
        pointer(slots.spare),
        pointer(slots.sizes),
    )


@inlined
def _seat(slots, slot, lanes, r):
    """Give ray r to a slot, with its numbers side by side."""
    poke(slots.ray, slot, r)
    for row in range(END + 1):
        poke(slots.rows, slot * SLOT_ROWS + row, peek(lanes, r + row * WIDTH))


@inlined
def pop(slots, slot, top):
    """Take the next entry that does not begin behind the best hit; one with it stays, for a tie.

    Returns (code, top), with top below the slot's stack when it is empty.
    """
    base = slot * STACK
    end = peek(slots.rows, slot * SLOT_ROWS + END)
    top -= 1
    while top >= base and peek(slots.entries, top) > end:
        top -= 1
    return np.int64(peek(slots.codes, max(top, base))), top


@inlined
def _queue(tree, slots, slot, code, nodes_waiting, leaves_waiting):
    """List a slot by what its ray has come to, without a branch; ask for its memory."""
    is_node = np.int64(code >= 0)
    node = address(tree.blocks, code * BLOCK_SIZE)
    leaf = address(tree.groups, (~code // MAX_LEAF_ROWS) * GROUP_SIZE)
    at = node if code >= 0 else leaf
    prefetch_address(at)
    prefetch_address(at + 64)
    prefetch_address(at + 128)
    prefetch_address(at + 192)
    prefetch_address(at + 256)
    poke(slots.code, slot, code)
    poke(slots.at_node, nodes_waiting, slot)
    poke(slots.at_leaf, leaves_waiting, slot)
    return nodes_waiting + is_node, leaves_waiting + (1 - is_node)


@kernel
def trace(tree, rays, block, slots, alive, count, octant, any_hit, cull):
    """Take the rays `alive[:count]` of a block, all of one octant, through the tree."""
    lanes, blocks = block.lanes, tree.blocks
    planes, shift = plane_rows(octant), np.int32(octant * LANE_BITS)
    taken = np.int64(0)
    nodes_waiting, leaves_waiting = np.int64(0), np.int64(0)
    # Let a ray into each slot, at the root.
    while taken < count and taken < SLOTS:
        _seat(slots, taken, lanes, peek(alive, taken))
        poke(slots.top, taken, taken * STACK)
        poke(slots.code, taken, 0)
        poke(slots.at_node, taken, taken)
        taken += 1
    nodes_waiting = taken
    while nodes_waiting + leaves_waiting > 0:
        # Test the children of every ray's node, in the order in which they will be pushed.
        for i in range(nodes_waiting):
            slot = peek(slots.at_node, i)
            node = peek(slots.code, slot)
            first, last = enter_children(
                blocks, node, shifted(slots.rows, slot * SLOT_ROWS), planes
            )
            at = node * BLOCK_SIZE
            order = load_ints(blocks, at + ORDER * WIDTH, WIDTH) >> shift
            first = permute(first, order)
            poke(slots.hits, i, mask_bits(first <= permute(last, order)))
            store(slots.first, i * WIDTH, first)
            store(
                slots.child, i * WIDTH, permute(load_ints(blocks, at + CODES * WIDTH, WIDTH), order)
            )
        # Push those that are entered. The two loops are apart so that more rays overlap: the second
        # waits for what the first computes.
        now, nodes_waiting = nodes_waiting, np.int64(0)
        for i in range(now):
            slot, bits = peek(slots.at_node, i), peek(slots.hits, i)
            top = peek(slots.top, slot)
            order = compress_order(bits)
            store(slots.codes, top, permute(load(slots.child, i * WIDTH, WIDTH), order))
            store(slots.entries, top, permute(load(slots.first, i * WIDTH, WIDTH), order))
            # The nearest is not pushed but visited next.
            code = np.int64(peek(slots.child, i * WIDTH + (highest_bit(bits) & (WIDTH - 1))))
            top += popcount(bits) - 1
            if bits == 0:
                code, top = pop(slots, slot, top + 1)
                if top < slot * STACK:
                    # Take the next ray in place of one that is done.
                    if taken == count:
                        continue
                    _seat(slots, slot, lanes, peek(alive, taken))
                    taken += 1
                    top, code = slot * STACK, np.int64(0)
            poke(slots.top, slot, top)
            nodes_waiting, leaves_waiting = _queue(
                tree, slots, slot, code, nodes_waiting, leaves_waiting
            )
        if nodes_waiting > 0 and leaves_waiting < SLOTS // 2:
            continue
        # Then test the leaves that were reached.
        now, leaves_waiting = leaves_waiting, np.int64(0)
        for i in range(now):
            slot = peek(slots.at_leaf, i)
            r = peek(slots.ray, slot)
            code = peek(slots.code, slot)
            rows = shifted(slots.rows, slot * SLOT_ROWS)
            test_leaf(tree.primitives, tree, rays, block, r, rows, code, any_hit, cull)
            code, top = pop(slots, slot, peek(slots.top, slot))
            if top < slot * STACK:
                if taken == count:
                    continue
                _seat(slots, slot, lanes, peek(alive, taken))
                taken += 1
                top, code = slot * STACK, np.int64(0)
            poke(slots.top, slot, top)
            nodes_waiting, leaves_waiting = _queue(
                tree, slots, slot, code, nodes_waiting, leaves_waiting
            )


@inlined
def trace_all(tree, rays, block, slots, alive, count, any_hit, cull):
    """Take the rays `alive[:count]` of a block through the tree, octant by octant."""
    lanes, sizes, bucket = block.lanes, slots.sizes, slots.bucket
    for k in range(9):
        poke(sizes, k, 0)
    for j in range(count):
        k = np.int64(peek_int(lanes, peek(alive, j) + OCTANT * WIDTH) & 7)
        poke(sizes, k + 1, peek(sizes, k + 1) + 1)
    for k in range(8):
        poke(sizes, k + 1, peek(sizes, k) + peek(sizes, k + 1))
    for j in range(count):
        r = peek(alive, j)
        k = np.int64(peek_int(lanes, r + OCTANT * WIDTH) & 7)
        at = peek(sizes, k)
        poke(bucket, at, r)
        poke(sizes, k, at + 1)
    begin = np.int64(0)
    for k in range(8):
        end = peek(sizes, k)
        if end > begin:
            trace(tree, rays, block, slots, shifted(bucket, begin), end - begin, k, any_hit, cull)
        begin = end
