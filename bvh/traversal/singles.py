"""Rays one by one, several in turn: while one waits for memory or a result, the others go on.

Each slot holds a ray and its stack. A round lets every slot whose next entry is a node take one
step, without a branch that depends on the ray; a second round tests the leaves that were reached.
A node's children are pushed nearest last, by the order that is stored for the ray's octant: no
sorting, no branch a child (Bikker 2024, "TinyBVH", its 8-wide layout).

All that the slots need lies behind one pointer, integers as the bits of float32: with a pointer for
each kind of number, the CPU's registers would not do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned
from bvh.jit import inlined, kernel
from bvh.leaves import GROUP_SIZE
from bvh.references import refer
from bvh.simd import (
    WIDTH,
    address,
    compress_order,
    fma,
    greater,
    lesser,
    load,
    load_ints,
    mask_bits,
    peek,
    peek_int,
    permute,
    poke,
    poke_int,
    popcount,
    prefetch_address,
    select,
    shifted,
    splat,
    store,
    store_ints,
)
from bvh.traversal.block import BLOCK, END, FAR, INVERSE, NEAR, OCTANT, SLACK
from bvh.traversal.goals import note_node
from bvh.traversal.leaf_tests import test_leaf
from bvh.traversal.leaf_visits import spread
from bvh.wide_nodes import BLOCK_SIZE, CODES, LANE_BITS, LEAF_BITS, ORDER

SLOTS = 32
# Depth never exceeds 2 * log2(n) + 8 <= 68; each level leaves up to WIDTH - 1 entries.
STACK = 70 * WIDTH

# What all slots share: for each that takes a step, where its ray enters the children, their order,
# and which are entered; then the slots that have come to a node, and those that have to a leaf.
FIRST = 0
ORDERS = FIRST + SLOTS * WIDTH
HITS = ORDERS + SLOTS * WIDTH
AT_NODE = HITS + SLOTS
AT_LEAF = AT_NODE + SLOTS + 8
HEADER = AT_LEAF + SLOTS + 8

# A slot, known by its place: the rows of its ray up to SLACK, its ray, stack pointer and next
# entry; then the stack of entries, and of where the ray enters them.
RAY, TOP, CODE = 28, 29, 30
STACK_CODES = 32
STACK_ENTRIES = STACK_CODES + STACK + WIDTH
SLOT_SIZE = STACK_ENTRIES + STACK + WIDTH


class Slots(NamedTuple):
    """Scratch of the rays that are under way; pointers inside kernels."""

    memory: NDArray[np.float32]
    bucket: NDArray[np.int64]
    spare: NDArray[np.int64]
    sizes: NDArray[np.int64]


def new_slots(size: int = SLOT_SIZE) -> Slots:
    """Return the scratch of one thread."""
    memory = aligned(HEADER + SLOTS * size, np.float32)
    return Slots(
        memory, np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(9, np.int64)
    )


@inlined
def plane_rows(octant):
    """Return the places of near and far planes in a node, for rays of an octant."""
    nx = 3 * WIDTH * (octant & 1)
    ny = WIDTH + 3 * WIDTH * (octant >> 1 & 1)
    nz = 2 * WIDTH + 3 * WIDTH * (octant >> 2)
    return nx, ny, nz, 3 * WIDTH - nx, 5 * WIDTH - ny, 7 * WIDTH - nz


@inlined
def enter_children(blocks, at, rows, planes):
    """Return (first, last) of a ray's stay in each child of the node at `at`.

    `planes` are the rows of near and far planes: chosen by the sign of the direction, not by
    comparing their distances.
    """
    nx, ny, nz, fx, fy, fz = planes
    ix, iy, iz = spread(rows, INVERSE), spread(rows, INVERSE + 1), spread(rows, INVERSE + 2)
    tx = fma(load(blocks, at + nx, WIDTH), ix, spread(rows, NEAR))
    ty = fma(load(blocks, at + ny, WIDTH), iy, spread(rows, NEAR + 1))
    tz = fma(load(blocks, at + nz, WIDTH), iz, spread(rows, NEAR + 2))
    first = greater(greater(tx, ty), greater(tz, splat(np.float32(0.0), WIDTH)))
    tx = fma(load(blocks, at + fx, WIDTH), ix, spread(rows, FAR))
    ty = fma(load(blocks, at + fy, WIDTH), iy, spread(rows, FAR + 1))
    tz = fma(load(blocks, at + fz, WIDTH), iz, spread(rows, FAR + 2))
    last = lesser(lesser(tx, ty), lesser(tz, spread(rows, END)))
    return first, last


@inlined
def _seat(memory, slot, lanes, r):
    """Give ray r to a slot, with its numbers side by side."""
    poke_int(memory, slot + RAY, r)
    for row in range(SLACK + 1):
        poke(memory, slot + row, peek(lanes, r + row * WIDTH))


@inlined
def pop(memory, slot, top):
    """Take the next entry that does not begin behind the best hit; one with it stays, for a tie.

    Returns (code, top), with top below the slot when its stack is empty.
    """
    end = peek(memory, slot + END)
    top -= 1
    while top >= slot and peek(memory, top + STACK_ENTRIES) > end:
        top -= 1
    return np.int64(peek_int(memory, max(top, slot) + STACK_CODES)), top


@inlined
def _queue(tree, memory, slot, code, nodes_waiting, leaves_waiting):
    """List a slot by what its ray has come to, without a branch; ask for its memory."""
    is_node = np.int64(code >= 0)
    node = address(tree.blocks, code * BLOCK_SIZE)
    leaf = address(tree.groups, (~code >> LEAF_BITS) * GROUP_SIZE)
    at = node if code >= 0 else leaf
    prefetch_address(at)
    prefetch_address(at + 64)
    prefetch_address(at + 128)
    prefetch_address(at + 192)
    poke_int(memory, slot + CODE, code)
    poke_int(memory, AT_NODE + nodes_waiting, slot)
    poke_int(memory, AT_LEAF + leaves_waiting, slot)
    return nodes_waiting + is_node, leaves_waiting + (1 - is_node)


@kernel
def trace(parts, memory, alive, count, octant, goal):
    """Take the rays `alive[:count]` of a query's block, all of one octant, through the tree."""
    tree, _, block = parts
    query = refer(parts)
    lanes, blocks = block.lanes, tree.blocks
    planes, shift = plane_rows(octant), np.int32(octant * LANE_BITS)
    none, entered = splat(np.int32(0), WIDTH), splat(np.int32(-1), WIDTH)
    taken = np.int64(0)
    nodes_waiting, leaves_waiting = np.int64(0), np.int64(0)
    # Let a ray into each slot, at the root.
    while taken < count and taken < SLOTS:
        slot = HEADER + taken * SLOT_SIZE
        _seat(memory, slot, lanes, peek(alive, taken))
        poke_int(memory, slot + TOP, slot)
        poke_int(memory, slot + CODE, 0)
        poke_int(memory, AT_NODE + taken, slot)
        taken += 1
    nodes_waiting = taken
    while nodes_waiting + leaves_waiting > 0:
        # Test the children of every ray's node.
        for i in range(nodes_waiting):
            slot = np.int64(peek_int(memory, AT_NODE + i))
            at = np.int64(peek_int(memory, slot + CODE)) * BLOCK_SIZE
            note_node(goal, block, np.int64(peek_int(memory, slot + RAY)))
            first, last = enter_children(blocks, at, shifted(memory, slot), planes)
            # Bring the answers into the order in which the children will be pushed.
            order = load_ints(blocks, at + ORDER * WIDTH, WIDTH) >> shift
            inside = permute(select(first <= last, entered, none), order)
            poke_int(memory, HITS + i, mask_bits(inside < np.int32(0)))
            store(memory, FIRST + i * WIDTH, first)
            store_ints(memory, ORDERS + i * WIDTH, order)
        # Push those that are entered. The two loops are apart so that more rays overlap: the second
        # waits for what the first computes.
        now, nodes_waiting = nodes_waiting, np.int64(0)
        for i in range(now):
            slot = np.int64(peek_int(memory, AT_NODE + i))
            bits = np.int64(peek_int(memory, HITS + i))
            top = np.int64(peek_int(memory, slot + TOP))
            at = np.int64(peek_int(memory, slot + CODE)) * BLOCK_SIZE
            order = permute(load_ints(memory, ORDERS + i * WIDTH, WIDTH), compress_order(bits))
            child = permute(load_ints(blocks, at + CODES * WIDTH, WIDTH), order)
            store_ints(memory, top + STACK_CODES, child)
            store(
                memory, top + STACK_ENTRIES, permute(load(memory, FIRST + i * WIDTH, WIDTH), order)
            )
            # The topmost comes next, whether it was pushed now or before: that saves a branch which
            # no CPU could predict.
            top += popcount(bits) - 1
            if top < slot or peek(memory, top + STACK_ENTRIES) > peek(memory, slot + END):
                _, top = pop(memory, slot, top)
                if top < slot:
                    # Take the next ray in place of one that is done.
                    if taken == count:
                        continue
                    _seat(memory, slot, lanes, peek(alive, taken))
                    taken += 1
                    top = slot
                    poke_int(memory, top + STACK_CODES, 0)
            code = np.int64(peek_int(memory, top + STACK_CODES))
            poke_int(memory, slot + TOP, top)
            nodes_waiting, leaves_waiting = _queue(
                tree, memory, slot, code, nodes_waiting, leaves_waiting
            )
        if nodes_waiting > 0 and leaves_waiting < SLOTS // 2:
            continue
        # Then test the leaves that were reached.
        now, leaves_waiting = leaves_waiting, np.int64(0)
        for i in range(now):
            slot = np.int64(peek_int(memory, AT_LEAF + i))
            r = np.int64(peek_int(memory, slot + RAY))
            code = np.int64(peek_int(memory, slot + CODE))
            test_leaf(tree.primitives, tree, block, query, r, shifted(memory, slot), code, goal)
            code, top = pop(memory, slot, np.int64(peek_int(memory, slot + TOP)))
            if top < slot:
                if taken == count:
                    continue
                _seat(memory, slot, lanes, peek(alive, taken))
                taken += 1
                top, code = slot, np.int64(0)
            poke_int(memory, slot + TOP, top)
            nodes_waiting, leaves_waiting = _queue(
                tree, memory, slot, code, nodes_waiting, leaves_waiting
            )


@inlined
def trace_all(parts, slots, alive, count, goal):
    """Take the rays `alive[:count]` of a query's block through the tree, octant by octant."""
    lanes, sizes, bucket = parts.block.lanes, slots.sizes, slots.bucket
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
            trace(parts, slots.memory, shifted(bucket, begin), end - begin, k, goal)
        begin = end
