"""Streams: rays of one octant that visit nodes together, each tested on its own.

A *group* is up to GROUP_RAYS rays of a block and one stack: nodes not yet visited, each with the
mask of the rays that enter it. A node stays in registers while the rays of its mask are tested
against its boxes, one by one, and is pushed once for all of them; the triangles of a leaf are
loaded once. The more nodes the rays of a group share, the more is saved.

Groups take turns, which hides latencies as the slots of single rays do: a visit ends with taking
the next entry, which is fetched while the others are visited. Entries behind the closest hits are
not dropped, as those of single rays are, but visited, where the tests of the rays fail: there are
few, and they cost no branch.

Arguments: `memory` is that of the groups, and `group` the index of one; `slot_memory` has the slot
in which results of the filter are decided (see `slots`, also for `context_ref` and r).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, power_of_two
from bvh.runtime import simd
from bvh.runtime.jit import by_type, inlined, kernel
from bvh.runtime.memory import aligned
from bvh.runtime.simd import WIDTH, field, rows
from bvh.runtime.tuple_references import refer
from bvh.traversal.rays import blocks, slots
from bvh.traversal.rays.blocks import BLOCK, OCTANTS, numbers_of
from bvh.traversal.rays.candidates import accept_group, filter_ray, load_closest
from bvh.traversal.rays.ray_batch import Context
from bvh.traversal.rays.single_rays import enter_children
from bvh.tree import wide_nodes
from bvh.tree.instanced import by_scene, code_of, leaf_of, prim_of
from bvh.tree.triangle_groups import load_group
from bvh.tree.wide_nodes import MAX_LEAF_ROWS, STACK

# Rays of a group, with a bit of masks for each. Groups of a block: full ones, and one more for each
# octant.
GROUP_RAYS = 32
GROUPS = BLOCK // GROUP_RAYS + OCTANTS
# Results of the filter are decided once there are more than this; those of one more leaf fit, too.
MOST_FILTERED = 128
# The slot for decisions, behind the results of the filter.
SLOT = slots.FILTERED + (MOST_FILTERED + MAX_LEAF_ROWS * GROUP_RAYS) * slots.FILTERED_SIZE

# Shared by all groups: the bit of each ray in masks, 0 for none; for each octant, the group that
# its next ray joins; a group that is full; for this round and the next one, a queue of groups whose
# next entry is a node, and a queue of those whose next entry is a leaf.
_OPEN = GROUP_RAYS + 16
_FULL = _OPEN + 16
_QUEUES = _FULL + 16
LEAVES_QUEUE = 2 * GROUPS
QUEUES = 0, 2 * LEAVES_QUEUE
_GROUPS = _QUEUES + 4 * LEAVES_QUEUE
# Layout of a group: numbers; its rays, and a place for none; the rows of its stack.
_RAYS = 16
_CHILDREN = _RAYS + GROUP_RAYS + 16
_ROW = STACK + WIDTH
GROUP_SIZE = _CHILDREN + 2 * _ROW

F, I4 = np.float32, np.int32
# The bit that stands for no ray, beyond those of a mask; the bits of a mask, without the sign that
# an int32 is extended by when it is read.
NO_RAY = 1 << GROUP_RAYS
LOW_BITS = NO_RAY - 1

bit, _ = field(np.int32, 0)
open_group, set_open_group = field(np.int32, _OPEN)
queued, queue = field(np.int32, _QUEUES)
# Numbers of a group: its next entry and the mask of the rays that enter it; the mask of rays that
# are not done; the height of its stack; its size; near planes and shift of orders of its octant.
child, set_child = field(np.int32, 0)
mask, set_mask = field(np.int32, 1)
alive, set_alive = field(np.int32, 2)
top, set_top = field(np.int32, 3)
size, set_size = field(np.int32, 4)
planes, set_planes = field(np.int32, 5, 6, 7)
shift, set_shift = field(np.int32, 8)
ray, set_ray = field(np.int32, _RAYS)
stack_child, _, set_stack_children = rows(np.int32, _CHILDREN)
stack_mask, _, set_stack_masks = rows(np.int32, _CHILDREN + _ROW)


class Streams(NamedTuple):
    """Scratch of streams in a tree, or in the BLAS of an instance; pointers inside kernels."""

    groups: NDArray[np.float32]  # from `new_groups`
    slot: NDArray[np.float32]  # results of the filter, then a slot without a stack


def new_groups() -> NDArray[np.float32]:
    """Return the memory of the groups of rays of a block, which begins with the bit of each ray."""
    groups = aligned(_GROUPS + GROUPS * GROUP_SIZE, np.float32)
    groups.fill(0.0)
    groups[:GROUP_RAYS].view(np.int32)[:] = 1 << np.arange(GROUP_RAYS)
    return groups


def new_streams() -> Streams:
    """Return `Streams`, the scratch of one thread."""
    return Streams(new_groups(), aligned(SLOT + slots.STACKLESS, np.float32))


@inlined
def _test_node(nodes, lanes, memory, group, at):
    """Return the masks of the rays of a group that enter each child of the node at index `at`.

    The result is a vector with a lane for each child. Only the rays in the group's current mask are
    tested; `lanes` are those of the rays' block.
    """
    bits = mask(memory, group) & LOW_BITS
    nx, ny, nz = planes(memory, group)
    places, none = wide_nodes.all_planes(nx, ny, nz), simd.splat(I4(0), WIDTH)
    entered = none
    while bits != 0:
        # Two at a time, the second perhaps none: fewer trip counts differ, and are mispredicted.
        more = bits & (bits - 1)
        i, j = simd.lowest_bit(bits), simd.lowest_bit(more | NO_RAY)
        bits = more & (more - 1)
        r, s = ray(memory, group + i), ray(memory, group + j)
        first, last = enter_children(nodes, at, numbers_of(lanes, r), blocks.end(lanes, r), places)
        entered = entered | simd.select(first <= last, simd.splat(I4(bit(memory, i)), WIDTH), none)
        first, last = enter_children(nodes, at, numbers_of(lanes, s), blocks.end(lanes, s), places)
        entered = entered | simd.select(first <= last, simd.splat(I4(bit(memory, j)), WIDTH), none)
    return entered


@inlined
def _enter_node(tree, lanes, memory, group, waiting):
    """Push the children of a group's node that any of its rays enters; queue the group again.

    Each child is pushed with the mask of the rays that enter it. Returns `waiting`, the ends of the
    queues of groups at nodes and at leaves, updated.
    """
    at = wide_nodes.node_at(child(memory, group))
    entered = _test_node(tree.blocks, lanes, memory, group, at)
    # Nearest last, by the order that is stored for the octant.
    order = wide_nodes.child_orders(tree.blocks, at, WIDTH) >> I4(shift(memory, group))
    entered = simd.permute(entered, order)
    bits = np.int64(simd.mask_bits(entered != I4(0)))
    front = simd.compress_order(bits)
    height = top(memory, group)
    set_stack_masks(memory, group + height, simd.permute(entered, front))
    codes = simd.permute(simd.permute(wide_nodes.child_codes(tree.blocks, at, WIDTH), order), front)
    set_stack_children(memory, group + height, codes)
    return advance(tree, memory, group, height + simd.popcount(bits), waiting)


@inlined
def advance(tree, memory, group, height, waiting):
    """Pop the top entry of a group's stack; queue the group by it, and prefetch the node or leaf.

    `height` is the height of the stack; a group whose stack is empty is done. Returns `waiting`,
    the ends of the queues of groups at nodes and at leaves, updated.
    """
    # Without a branch: the group is written to both queues, and one gets longer.
    at_nodes, at_leaves = waiting
    height -= 1
    bits = stack_mask(memory, group + height) & alive(memory, group)
    while bits == 0 and height > 0:
        # Skip an entry whose rays are all done, as one hit suffices.
        height -= 1
        bits = stack_mask(memory, group + height) & alive(memory, group)
    code = np.int64(stack_child(memory, group + height))
    # Six cache lines: a triangle group of eight lanes; a node has four.
    wide_nodes.prefetch_child(tree.blocks, tree.groups, code, 6)
    set_child(memory, group, code)
    set_mask(memory, group, bits)
    set_top(memory, group, height)
    queue(memory, at_nodes, group)
    queue(memory, at_leaves, group)
    more = np.int64(height >= 0)
    is_node = np.int64(code >= 0) & more
    return at_nodes + is_node, at_leaves + (more - is_node)


@inlined
def _test_leaf(tree, block, memory, slot_memory, group, stored):
    """Filter the triangles of a group's leaf for its rays; store results that may have hits.

    Returns how many results are in `slot_memory`; `stored` is how many were before. A result has
    the ray's place, group * GROUP_RAYS + its number in the group, and the triangle group's number.
    """
    first, count = wide_nodes.leaf_rows(child(memory, group))
    for row in range(first, first + count):
        triangles = load_group(tree.groups, row)
        bits = mask(memory, group) & LOW_BITS
        while bits != 0:
            k = simd.lowest_bit(bits)
            r = ray(memory, group + k)
            numbers, end = numbers_of(block.lanes, r), blocks.end(block.lanes, r)
            filtered = filter_ray(tree.primitives, triangles, numbers, end)
            # Without a branch: the next result overwrites one that has no candidates.
            slots.set_filtered(slot_memory, stored, group * GROUP_RAYS + k, row, filtered)
            stored += np.int64(filtered.bits != 0)
            bits &= bits - 1
    return stored


def _load_ray_of_tree(primitives, block, memory, slot, r):
    """Give a slot to the ray at lane index r of a block, not in a scene, with its closest hit."""
    load_closest(block, memory, slot, r, blocks.prim(block.lanes, r))


def _load_moved(primitives, block, memory, slot, r):
    """Give a slot to the moved ray at lane index r of a block in a BLAS, with its closest hit."""
    # The closest hit, if any, is in this instance, or was found in another one before.
    lanes = block.lanes
    best = blocks.prim(lanes, r)
    if best >= 0:
        best = code_of(slots.instance(memory, slot), best)
    else:
        best = blocks.prim_before(lanes, r)
        if best >= 0:
            best = code_of(blocks.leaf_before(lanes, r), best)
    load_closest(block, memory, slot, r, best)
    slots.set_slack(memory, slot, blocks.slack(lanes, r))
    # The doubles of a moved ray lead from t to tau in the BLAS in one step. A slot has two, by way
    # of the TLAS: the first becomes that one, and the second changes nothing.
    shift = int(blocks.shift(block.doubles, blocks.double_index(r)))
    slots.set_tlas_scale(memory, slot, power_of_two(shift))
    slots.set_blas_scale(memory, slot, 1.0)
    slots.set_blas_entry(memory, slot, 0.0)


def _store_id(primitives, block, memory, slot, r):
    """Write the id of a slot's closest primitive, -1 for none, to the ray at r of the block."""
    blocks.set_prim(block.lanes, r, slots.best(memory, slot))


def _store_moved(primitives, block, memory, slot, r):
    """Write the id of a slot's closest primitive, -1 if not in this BLAS, to the moved ray at r."""
    # A hit in another instance is already in the block of the TLAS.
    best = slots.best(memory, slot)
    here = best >= 0 and leaf_of(best) == slots.instance(memory, slot)
    blocks.set_prim(block.lanes, r, prim_of(best) if here else np.int64(-1))


_load_ray = by_scene(_load_ray_of_tree, _load_moved)
_store_primitive = by_scene(_store_id, _store_moved)


@inlined
def _decide(goal, tree, block, context_ref, memory, slot_memory, count):
    """Apply the goal to `count` stored results of the filter; write closest hits to the block."""
    slot = np.int64(SLOT)
    for i in range(count):
        place, row, filtered = slots.filtered_at(slot_memory, i)
        group, k = place // GROUP_RAYS, place % GROUP_RAYS
        r = ray(memory, group + k)
        _load_ray(tree.primitives, block, slot_memory, slot, r)
        numbers = numbers_of(block.lanes, r)
        accept_group(goal, tree, block, context_ref, slot_memory, slot, row, numbers, filtered)
        _store_primitive(tree.primitives, block, slot_memory, slot, r)
        blocks.set_best_low(block.lanes, r, slots.best_low(slot_memory, slot))
        blocks.set_end(block.lanes, r, slots.end(slot_memory, slot))
        if goal.any_hit and slots.end(slot_memory, slot) == F(-INF):
            # One hit suffices: end this ray in its group.
            set_alive(memory, group, alive(memory, group) & ~(np.int64(1) << k))


@inlined
def _form_groups(block, memory, active, count):
    """Divide the rays `active[:count]`, lane indices of a block, into groups by octants.

    Each group is queued at the root. Returns how many groups there are.
    """
    # All octants begin with the same group, which is full: their first rays form new groups.
    set_size(memory, _FULL, GROUP_RAYS)
    for octant in range(OCTANTS):
        set_open_group(memory, octant, _FULL)
    groups = np.int64(0)
    for j in range(count):
        r = simd.peek(active, j)
        octant = blocks.octant(block.lanes, r)
        group = open_group(memory, octant)
        joined = size(memory, group)
        if joined == GROUP_RAYS:
            group, joined = _GROUPS + groups * GROUP_SIZE, np.int64(0)
            set_open_group(memory, octant, group)
            queue(memory, groups, group)
            set_planes(memory, group, wide_nodes.near_planes(octant))
            set_shift(memory, group, wide_nodes.octant_shift(octant))
            set_child(memory, group, 0)
            set_top(memory, group, 0)
            groups += 1
        set_ray(memory, group + joined, r)
        set_size(memory, group, joined + 1)
        all_rays = (np.int64(2) << joined) - 1
        set_mask(memory, group, all_rays)
        set_alive(memory, group, all_rays)
    return groups


# Functions for `visit_leaves`, by the class of the scratch: of a tree or a BLAS, or of a TLAS.
LEAF_VISITS: dict[type, Callable[..., object]] = {}


@by_type(inline=True)
def visit_leaves(goal, tree, block, context_ref, scratch, first, last, waiting):
    """Intersect the queued groups first..last with their leaves, and queue their next entries.

    `waiting` are the ends of the queues of groups at nodes and at leaves; it is returned updated.
    """
    return LEAF_VISITS[scratch.instance_class]


def _test_leaves(goal, tree, block, context_ref, scratch, first, last, waiting):
    """Intersect queued groups first..last with their triangle leaves; return updated `waiting`."""
    i, memory = first, scratch.groups
    while i < last:
        stored = np.int64(0)
        while i < last and stored <= MOST_FILTERED:
            group = queued(memory, i)
            stored = _test_leaf(tree, block, memory, scratch.slot, group, stored)
            waiting = advance(tree, memory, group, top(memory, group), waiting)
            i += 1
        _decide(goal, tree, block, context_ref, memory, scratch.slot, stored)
    return waiting


LEAF_VISITS[Streams] = _test_leaves


@kernel
def trace(tree, rays, block, scratch, active, count, goal):
    """Trace the rays `active[:count]`, lane indices of a block, through a tree, a BLAS or a TLAS.

    `scratch` is `Streams`, for a TLAS `SceneStreams`. Closest hits are written to the block.
    """
    context_ref, memory = refer(Context(tree, rays, block)), scratch.groups
    groups, now, then = _form_groups(block, memory, active, count), QUEUES[0], QUEUES[1]
    # `now` and `then` are where the queues of this round and of the next one begin; `nodes` and
    # `leaves` are the ends of this round's, of groups at nodes and at leaves.
    nodes, leaves = now + groups, now + LEAVES_QUEUE
    while nodes > now or leaves > now + LEAVES_QUEUE:
        waiting = then, then + LEAVES_QUEUE
        waiting = visit_leaves(
            goal, tree, block, context_ref, scratch, now + LEAVES_QUEUE, leaves, waiting
        )
        for i in range(now, nodes):
            waiting = _enter_node(tree, block.lanes, memory, queued(memory, i), waiting)
        now, then = then, now
        nodes, leaves = waiting
