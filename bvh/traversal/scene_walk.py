"""Rays through a scene, several in turn, as in `singles`, on two levels with one stack each.

Where the top level leads to a leaf of the scene, the ray is brought into the frame of that leaf's
tree and goes on there, in the same slot and on the same stack; when nothing is left of the tree, it
returns to the top level.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import by_type, inlined, kernel, stay_outlined
from bvh.leaves import GROUP_SIZE
from bvh.placed import leaf_of, prim_of
from bvh.references import follow, refer
from bvh.simd import (
    WIDTH,
    address,
    compress_order,
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
from bvh.traversal.block import END, INVERSE, OCTANT, PRIM, PRIM_LEAF
from bvh.traversal.goals import Counted, Nearest, note_node
from bvh.traversal.scene_entrance import enter_leaf, put_octant
from bvh.traversal.scene_leaves import visit_leaf
from bvh.traversal.scene_slots import (
    AT_BLOCKS,
    AT_GROUPS,
    BASE,
    BEST,
    CODE,
    EXACT,
    HEADER,
    LEAF,
    OCTANT_SHIFT,
    RAY,
    SLOT_SIZE,
    STACK_CODES,
    STACK_ENTRIES,
    START_ERROR,
    TOP,
    blocks_of,
    doubles_of,
    planes_of,
    return_to_top,
    words_of,
)
from bvh.traversal.singles import AT_LEAF, AT_NODE, FIRST, HITS, ORDERS, SLOTS, enter_children
from bvh.wide_nodes import BLOCK_SIZE, CODES, LEAF_BITS, ORDER

F = np.float32
F4 = np.float32(0.0)


@inlined
def _take_place(tree, memory, slot, lanes, r):
    """Give a slot the numbers of its ray on the top level."""
    # What nodes need; the top level has no triangles.
    for row in range(INVERSE + 3):
        poke(memory, slot + row, peek(lanes, r + row * WIDTH))
    poke(memory, slot + END, peek(lanes, r + END * WIDTH))
    put_octant(memory, slot, np.int64(peek_int(lanes, r + OCTANT * WIDTH)) & 7)
    poke(words_of(memory, slot), AT_BLOCKS, address(tree.blocks, np.int64(0)))


@inlined
def _seat(tree, memory, slot, lanes, r):
    """Give ray r to a slot, at the root of the top level."""
    _take_place(tree, memory, slot, lanes, r)
    words = words_of(memory, slot)
    poke(words, BEST, np.int64(-1))
    poke(words, EXACT, np.int64(-2))
    poke(doubles_of(memory, slot), START_ERROR, -1.0)
    poke_int(memory, slot + RAY, r)
    poke_int(memory, slot + LEAF, -1)
    poke_int(memory, slot + BASE, slot)
    poke_int(memory, slot + TOP, slot)
    poke_int(memory, slot + CODE, 0)
    poke_int(memory, slot + STACK_CODES, 0)


@kernel
def _go_on(query, memory, slot, top):
    """Find the next node, or the next leaf of a tree, for the ray of a slot.

    Takes what is on the stack up to `top`; returns the new top, or one below the slot if nothing is
    left. Entries behind the best hit are dropped; one with it stays, for a tie.
    """
    stay_outlined()
    tree, rays, block = follow(query)
    r = np.int64(peek_int(memory, slot + RAY))
    while True:
        base, end = np.int64(peek_int(memory, slot + BASE)), peek(memory, slot + END)
        while top >= base and peek(memory, top + STACK_ENTRIES) > end:
            top -= 1
        if top >= base:
            code = np.int64(peek_int(memory, top + STACK_CODES))
            if code >= 0 or peek_int(memory, slot + LEAF) >= 0:
                return top
            # A leaf of the top level: its tree takes its place on the stack.
            leaf = np.int64(peek(tree.ids, ~code >> LEAF_BITS))
            if enter_leaf(tree, rays, block, memory, slot, r, leaf):
                poke_int(memory, slot + BASE, top)
                poke_int(memory, top + STACK_CODES, 0)
                poke(memory, top + STACK_ENTRIES, F(0.0))
                return top
            top -= 1
        elif peek_int(memory, slot + LEAF) >= 0:
            return_to_top(block, memory, slot, r)
            _take_place(tree, memory, slot, block.lanes, r)
            poke_int(memory, slot + BASE, slot)
        else:
            return slot - 1


def finish_ray(goal, block, memory, slot):
    """Write down which primitive a ray of a scene has found."""


def _name_best(goal, block, memory, slot):
    code = peek(words_of(memory, slot), BEST)
    r = np.int64(peek_int(memory, slot + RAY))
    # The halves of -1 are -1.
    poke_int(block.lanes, r + PRIM * WIDTH, np.int32(prim_of(code)))
    poke_int(block.lanes, r + PRIM_LEAF * WIDTH, np.int32(leaf_of(code)))


@by_type(finish_ray)
def _choose_finish(goal, block, memory, slot):
    if goal.instance_class in (Nearest, Counted):
        return _name_best
    return lambda goal, block, memory, slot: None


@inlined
def _queue(memory, slot, code, nodes_waiting, leaves_waiting):
    """List a slot by what its ray has come to, without a branch; ask for its memory."""
    words = words_of(memory, slot)
    is_node = np.int64(code >= 0)
    node = peek(words, AT_BLOCKS) + code * (4 * BLOCK_SIZE)
    leaf = peek(words, AT_GROUPS) + (~code >> LEAF_BITS) * (4 * GROUP_SIZE)
    at = node if code >= 0 else leaf
    prefetch_address(at)
    prefetch_address(at + 64)
    prefetch_address(at + 128)
    prefetch_address(at + 192)
    poke_int(memory, slot + CODE, code)
    poke_int(memory, AT_NODE + nodes_waiting, slot)
    poke_int(memory, AT_LEAF + leaves_waiting, slot)
    return nodes_waiting + is_node, leaves_waiting + (1 - is_node)


@inlined
def _next_code(query, block, memory, slot, top, goal):
    """Return (top, code) of what a ray comes to next; top is below the slot when it is done."""
    base = np.int64(peek_int(memory, slot + BASE))
    if (
        top < base
        or peek(memory, top + STACK_ENTRIES) > peek(memory, slot + END)
        or (peek_int(memory, slot + LEAF) < 0 and peek_int(memory, top + STACK_CODES) < 0)
    ):
        top = _go_on(query, memory, slot, top)
        if top < slot:
            finish_ray(goal, block, memory, slot)
    return top, np.int64(peek_int(memory, max(top, slot) + STACK_CODES))


@kernel
def walk(parts, memory, alive, count, goal):
    """Take the rays `alive[:count]` of a query's block through a scene."""
    tree, _, block = parts
    query = refer(parts)
    lanes = block.lanes
    none, entered = splat(np.int32(0), WIDTH), splat(np.int32(-1), WIDTH)
    nodes_waiting, leaves_waiting = np.int64(0), np.int64(0)
    taken = np.int64(0)
    while taken < count and taken < SLOTS:
        slot = HEADER + taken * SLOT_SIZE
        _seat(tree, memory, slot, lanes, peek(alive, taken))
        poke_int(memory, AT_NODE + taken, slot)
        taken += 1
    nodes_waiting = taken
    while nodes_waiting + leaves_waiting > 0:
        # Test the children of every ray's node.
        for i in range(nodes_waiting):
            slot = np.int64(peek_int(memory, AT_NODE + i))
            blocks = blocks_of(memory, slot)
            at = np.int64(peek_int(memory, slot + CODE)) * BLOCK_SIZE
            note_node(goal, block, np.int64(peek_int(memory, slot + RAY)))
            first, last = enter_children(blocks, at, shifted(memory, slot), planes_of(memory, slot))
            shift = np.int32(peek_int(memory, slot + OCTANT_SHIFT))
            order = load_ints(blocks, at + ORDER * WIDTH, WIDTH) >> shift
            inside = permute(select(first <= last, entered, none), order)
            poke_int(memory, HITS + i, mask_bits(inside < np.int32(0)))
            store(memory, FIRST + i * WIDTH, first)
            store_ints(memory, ORDERS + i * WIDTH, order)
        # Push those that are entered.
        now, nodes_waiting = nodes_waiting, np.int64(0)
        for i in range(now):
            slot = np.int64(peek_int(memory, AT_NODE + i))
            bits = np.int64(peek_int(memory, HITS + i))
            top = np.int64(peek_int(memory, slot + TOP))
            blocks = blocks_of(memory, slot)
            at = np.int64(peek_int(memory, slot + CODE)) * BLOCK_SIZE
            order = permute(load_ints(memory, ORDERS + i * WIDTH, WIDTH), compress_order(bits))
            child = permute(load_ints(blocks, at + CODES * WIDTH, WIDTH), order)
            store_ints(memory, top + STACK_CODES, child)
            entries = permute(load(memory, FIRST + i * WIDTH, WIDTH), order)
            store(memory, top + STACK_ENTRIES, entries)
            top += popcount(bits) - 1
            top, code = _next_code(query, block, memory, slot, top, goal)
            if top < slot:
                # Take the next ray in place of one that is done.
                if taken == count:
                    continue
                _seat(tree, memory, slot, lanes, peek(alive, taken))
                taken += 1
                top, code = slot, np.int64(0)
            poke_int(memory, slot + TOP, top)
            nodes_waiting, leaves_waiting = _queue(
                memory, slot, code, nodes_waiting, leaves_waiting
            )
        if nodes_waiting > 0 and leaves_waiting < SLOTS // 2:
            continue
        # Then test the leaves that were reached.
        now, leaves_waiting = leaves_waiting, np.int64(0)
        for i in range(now):
            slot = np.int64(peek_int(memory, AT_LEAF + i))
            r = np.int64(peek_int(memory, slot + RAY))
            code = np.int64(peek_int(memory, slot + CODE))
            visit_leaf(goal, tree, block, query, r, memory, slot, code)
            top = np.int64(peek_int(memory, slot + TOP)) - 1
            top, code = _next_code(query, block, memory, slot, top, goal)
            if top < slot:
                if taken == count:
                    continue
                _seat(tree, memory, slot, lanes, peek(alive, taken))
                taken += 1
                top, code = slot, np.int64(0)
            poke_int(memory, slot + TOP, top)
            nodes_waiting, leaves_waiting = _queue(
                memory, slot, code, nodes_waiting, leaves_waiting
            )
