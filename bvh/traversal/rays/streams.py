"""Streams: rays of one octant that visit nodes together, each tested on its own.

A *group* is up to GROUP_RAYS rays of a block and one stack: nodes not yet visited, each with the
mask of the rays that enter it. A node stays in registers while the rays of its mask are tested
against its boxes, one by one, and a push is one for all of them; so are the loads of a leaf. Rays
need not enter the same nodes, as those of a packet do, only some: the fewer, the less is shared.

Groups take turns, which hides latencies as the slots of single rays do: each visits a node, then
all take their next entries. A node that one ray alone enters is dropped where that ray's closest
hit is nearer; for more of them it is visited, and the slab test drops them one by one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.arguments import aligned
from bvh.runtime.jit import inlined, kernel, types
from bvh.runtime.simd import (
    WIDTH,
    compress_order,
    field,
    lesser,
    lowest_bit,
    mask_bits,
    peek,
    permute,
    popcount,
    rows,
    select,
    splat,
)
from bvh.runtime.tuple_references import refer
from bvh.traversal.rays import blocks, slots
from bvh.traversal.rays.blocks import BLOCK, OCTANTS, numbers_of
from bvh.traversal.rays.candidates import Filtered, accept_group, candidates_of, filter_ray
from bvh.traversal.rays.packets.packet_closest import load_packed, store_packed
from bvh.traversal.rays.ray_batch import Context
from bvh.traversal.rays.single_rays import enter_children
from bvh.tree.triangle_groups import load_group
from bvh.tree.wide_nodes import (
    MAX_LEAF_ROWS,
    STACK,
    all_planes,
    child_codes,
    child_orders,
    leaf_rows,
    near_planes,
    node_at,
    octant_shift,
    prefetch_child,
)

# Rays of a group: bits of a mask. Groups of a block: full ones, and one more for each octant.
GROUP_RAYS = 32
GROUPS = BLOCK // GROUP_RAYS + OCTANTS
# What the filter has found is decided when there may be no room for another leaf.
FOUND_ROOM = 128
SLOT = slots.FOUND + (FOUND_ROOM + MAX_LEAF_ROWS * GROUP_RAYS) * slots.FOUND_SIZE

# What all groups share: queues of those whose next entry is a node, and of those where it is a
# leaf; for each octant, the group that its next ray joins.
_QUEUE = GROUPS + 16
_OPEN = 2 * _QUEUE
_FULL = _OPEN + 16
_GROUPS = _FULL + 16
# Of a group: numbers, its rays, and the rows of its stack.
_RAYS = 16
_CHILDREN = _RAYS + GROUP_RAYS
_ROW = STACK + WIDTH
GROUP_SIZE = _CHILDREN + 3 * _ROW + 16

F, I4 = np.float32, np.int32
LOW_BITS = (1 << GROUP_RAYS) - 1

at_node, queue_at_node = field(types.int32, 0)
at_leaf, queue_at_leaf = field(types.int32, _QUEUE)
open_group, set_open_group = field(types.int32, _OPEN)
child, set_child = field(types.int32, 0)
mask, set_mask = field(types.int32, 1)
alive, set_alive = field(types.int32, 2)
top, set_top = field(types.int32, 3)
size, set_size = field(types.int32, 4)
planes, set_planes = field(types.int32, 5, 6, 7)
shift, set_shift = field(types.int32, 8)
ray, set_ray = field(types.int32, _RAYS)
stack_child, _, set_stack_children = rows(types.int32, _CHILDREN)
stack_mask, _, set_stack_masks = rows(types.int32, _CHILDREN + _ROW)
stack_entry, _, set_stack_entries = rows(types.float32, _CHILDREN + 2 * _ROW)


class Streams(NamedTuple):
    """Scratch of streams; pointers inside kernels."""

    groups: NDArray[np.float32]
    slot: NDArray[np.float32]  # what the filter has found, then a slot without a stack


def new_streams() -> Streams:
    """Return the scratch of one thread."""
    groups = aligned(_GROUPS + GROUPS * GROUP_SIZE, np.float32)
    groups.fill(0.0)
    return Streams(groups, aligned(SLOT + slots.STACKLESS, np.float32))


@inlined
def _enter_node(nodes, lanes, memory, group):
    """Push the children of a group's node that any of its rays enters."""
    at, bits = node_at(child(memory, group)), mask(memory, group) & LOW_BITS
    nx, ny, nz = planes(memory, group)
    both = all_planes(nx, ny, nz)
    none, infinite = splat(I4(0), WIDTH), splat(F(INF), WIDTH)
    entered, sooner = none, infinite
    while bits != 0:
        r = ray(memory, group + lowest_bit(bits))
        first, last = enter_children(nodes, at, numbers_of(lanes, r), blocks.end(lanes, r), both)
        enters = first <= last
        entered = entered | select(enters, splat(I4(bits & -bits), WIDTH), none)
        sooner = lesser(select(enters, first, infinite), sooner)
        bits &= bits - 1
    # Nearest last, by the order that is stored for the octant.
    order = child_orders(nodes, at, WIDTH) >> I4(shift(memory, group))
    sooner = permute(sooner, order)
    bits = np.int64(mask_bits(sooner < infinite))
    front = compress_order(bits)
    order = permute(order, front)
    height = top(memory, group)
    set_stack_entries(memory, group + height, permute(sooner, front))
    set_stack_masks(memory, group + height, permute(entered, order))
    set_stack_children(memory, group + height, permute(child_codes(nodes, at, WIDTH), order))
    set_top(memory, group, height + popcount(bits))


@inlined
def _advance(tree, block, memory, group, waiting):
    """Take the next entry of a group; queue the group by it, prefetch what it is."""
    # `waiting`, returned updated: how many groups wait at nodes, and at leaves.
    at_nodes, at_leaves = waiting
    height, active, bits = top(memory, group), alive(memory, group) & LOW_BITS, np.int64(0)
    while height > 0:
        height -= 1
        bits = stack_mask(memory, group + height) & active
        if bits & (bits - 1) != 0:
            break
        # The nearest hit of a ray alone may be before the entry.
        r = ray(memory, group + lowest_bit(bits | 1 << (GROUP_RAYS - 1)))
        if bits != 0 and stack_entry(memory, group + height) <= blocks.end(block.lanes, r):
            break
        bits = np.int64(0)
    code = np.int64(stack_child(memory, group + height))
    prefetch_child(tree.blocks, tree.groups, code, 4)
    set_child(memory, group, code)
    set_mask(memory, group, bits)
    set_top(memory, group, height)
    queue_at_node(memory, at_nodes, group)
    queue_at_leaf(memory, at_leaves, group)
    more = np.int64(bits != 0)
    is_node = np.int64(code >= 0) & more
    return at_nodes + is_node, at_leaves + (more - is_node)


@inlined
def _test_leaf(tree, block, memory, slot_memory, group, found):
    """Filter the triangles of a group's leaf for its rays; return how many are found by then."""
    first, count = leaf_rows(child(memory, group))
    for row in range(first, first + count):
        triangles = load_group(tree.groups, row)
        bits = mask(memory, group) & LOW_BITS
        while bits != 0:
            k = lowest_bit(bits)
            r = ray(memory, group + k)
            numbers, end = numbers_of(block.lanes, r), blocks.end(block.lanes, r)
            result = filter_ray(tree.primitives, triangles, numbers, end)
            slots.set_found(slot_memory, found, group * GROUP_RAYS + k, row, result)
            found += np.int64(result.bits != 0)
            bits &= bits - 1
    return found


@inlined
def _decide(goal, tree, block, context_ref, memory, slot_memory, count):
    """Decide what the filter has found for `count` rays, one after the other."""
    slot = np.int64(SLOT)
    for i in range(count):
        (place, row, bits, passes), (den, numerator, margin) = slots.found(slot_memory, i)
        group, k = place // GROUP_RAYS, place % GROUP_RAYS
        r = ray(memory, group + k)
        load_packed(tree.primitives, block, slot_memory, slot, r)
        found = Filtered(bits, passes, den, numerator, margin)
        result = candidates_of(numbers_of(block.lanes, r), found)
        accept_group(goal, tree, block, context_ref, slot_memory, slot, row, result)
        store_packed(tree.primitives, block, slot_memory, slot, r)
        if goal.any_hit and slots.end(slot_memory, slot) == F(-INF):
            # Nothing is left to find for this ray.
            set_alive(memory, group, alive(memory, group) & ~(np.int64(1) << k))


@inlined
def _form_groups(block, memory, active, count):
    """Divide rays into groups by octants, each at the root; return how many groups there are."""
    set_size(memory, _FULL, GROUP_RAYS)
    for octant in range(OCTANTS):
        set_open_group(memory, octant, _FULL)
    groups = np.int64(0)
    for j in range(count):
        r = peek(active, j)
        octant = blocks.octant(block.lanes, r) & (OCTANTS - 1)
        group = open_group(memory, octant)
        joined = size(memory, group)
        if joined == GROUP_RAYS:
            group, joined = _GROUPS + groups * GROUP_SIZE, np.int64(0)
            set_open_group(memory, octant, group)
            queue_at_node(memory, groups, group)
            set_planes(memory, group, near_planes(octant))
            set_shift(memory, group, octant_shift(octant))
            set_child(memory, group, 0)
            set_top(memory, group, 0)
            groups += 1
        set_ray(memory, group + joined, r)
        set_size(memory, group, joined + 1)
        whole = (np.int64(2) << joined) - 1
        set_mask(memory, group, whole)
        set_alive(memory, group, whole)
    return groups


@kernel
def trace_streams(tree, rays, block, streams, active, count, goal):
    """Trace the rays `active[:count]` of a ray block through a tree over triangles."""
    context_ref, memory = refer(Context(tree, rays, block)), streams.groups
    at_nodes, at_leaves = _form_groups(block, memory, active, count), np.int64(0)
    while at_nodes + at_leaves > 0:
        for i in range(at_nodes):
            _enter_node(tree.blocks, block.lanes, memory, at_node(memory, i))
        i = found = np.int64(0)
        while i < at_leaves:
            while i < at_leaves and found <= FOUND_ROOM:
                group = at_leaf(memory, i)
                queue_at_node(memory, at_nodes + i, group)
                found = _test_leaf(tree, block, memory, streams.slot, group, found)
                i += 1
            _decide(goal, tree, block, context_ref, memory, streams.slot, found)
            found = np.int64(0)
        # Take the next entries after all pushes: they wait for what these compute.
        now = at_nodes + at_leaves
        at_nodes = at_leaves = np.int64(0)
        for i in range(now):
            waiting = at_nodes, at_leaves
            at_nodes, at_leaves = _advance(tree, block, memory, at_node(memory, i), waiting)
