"""Single rays: slab tests of a node's boxes, with several rays interleaved to hide memory latency.

Each slot has a ray and its stack. A round lets every slot whose next entry is a node take one step,
without a branch that depends on the ray. When most slots have reached a leaf, the filter tests all
of these, and its results are decided after that.
The children of a node that a ray enters are pushed nearest last, by the order that is stored for
the ray's octant: no sorting, no branch for each child (Bikker 2024, "TinyBVH", its 8-wide layout).
For any hit they are pushed in the order of the node.

The loop is the same for a tree and for a scene. Arguments are named as in `slots`.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime import simd
from bvh.runtime.jit import by_type, inlined, kernel
from bvh.runtime.simd import WIDTH
from bvh.runtime.tuple_references import refer
from bvh.traversal.rays import blocks, candidates, ray_numbers, slots
from bvh.traversal.rays.blocks import batch_index
from bvh.traversal.rays.candidates import ClosestGoal, CountGoal
from bvh.traversal.rays.instanced_rays import load_ray_of_scene, next_entry_in_scene
from bvh.traversal.rays.leaf_hits import AllGoal
from bvh.traversal.rays.slots import HEADER, SLOT_SIZE, SLOTS
from bvh.tree.instanced import Instanced, by_scene, primitives_class
from bvh.tree.primitives import Triangles
from bvh.tree.triangle_groups import group_at, id_place
from bvh.tree.wide_nodes import child_codes, child_orders, leaf_rows, node_at, prefetch_child

F = np.float32


@inlined
def enter_children(nodes, at, ray, end, planes):
    """Return (first, last), tau where a ray up to `end` enters and leaves the children of a node.

    The node is at index `at` of `nodes`; `ray` are the `ray_numbers`. Both results are vectors; a
    child is entered if first <= last. `planes`, from `all_planes`, are the places of near and far
    planes, chosen by the signs of the direction, not by comparing their distances.
    """
    nx, ny, nz, fx, fy, fz = planes
    ix, iy, iz = ray_numbers.inverse(ray)
    x, y, z = ray_numbers.near(ray)
    tx = simd.fma(simd.load(nodes, at + nx, WIDTH), ix, x)
    ty = simd.fma(simd.load(nodes, at + ny, WIDTH), iy, y)
    tz = simd.fma(simd.load(nodes, at + nz, WIDTH), iz, z)
    first = simd.greater(simd.greater(tx, ty), simd.greater(tz, simd.splat(np.float32(0.0), WIDTH)))
    x, y, z = ray_numbers.far(ray)
    tx = simd.fma(simd.load(nodes, at + fx, WIDTH), ix, x)
    ty = simd.fma(simd.load(nodes, at + fy, WIDTH), iy, y)
    tz = simd.fma(simd.load(nodes, at + fz, WIDTH), iz, z)
    last = simd.lesser(simd.lesser(tx, ty), simd.lesser(tz, simd.splat(end, WIDTH)))
    return first, last


def _count_node(goal, block, r):
    """Add 1 to the nodes that the ray at lane index r has visited; `goal` is a `CountGoal`."""
    i = batch_index(block, r)
    simd.poke(goal.nodes, i, simd.peek(goal.nodes, i) + np.int32(1))


@by_type(inline=True)
def count_node(goal, block, r):
    """Add 1 to the nodes that the ray at r has visited, if `goal` is a `CountGoal`."""
    return _count_node if goal.instance_class is CountGoal else lambda goal, block, r: None


def _count_tests(goal, tree, block, memory, slot):
    """Add the number of primitives in a slot's leaf to the tests of its ray."""
    _, groups, ids = slots.current_arrays(tree, memory, slot)
    first, count = leaf_rows(slots.child(memory, slot))
    lanes = WIDTH if candidates.in_groups(tree, memory, slot) else 1
    i, used = batch_index(block, slots.ray(memory, slot)), np.int32(0)
    for row in range(first, first + count):
        at = id_place(groups, group_at(row)) if lanes > 1 else row
        for k in range(lanes):
            # Unused lanes have the id -1.
            used += np.int32(simd.peek(ids, at + k) >= 0)
    simd.poke(goal.tests, i, simd.peek(goal.tests, i) + used)


@by_type(inline=True)
def count_tests(goal, tree, block, memory, slot):
    """Count the primitives of the leaf that a slot's ray is tested against, for a `CountGoal`."""
    if goal.instance_class is CountGoal:
        return _count_tests
    return lambda goal, tree, block, memory, slot: None


def _load_ray_of_tree(tree, block, memory, slot, r):
    """Give a slot to the ray at lane index r of a block, at the root, without a hit so far."""
    candidates.load_closest(block, memory, slot, r, slots.NO_PRIM)
    slots.set_octant(memory, slot, blocks.octant(block.lanes, r))


load_ray = by_scene(_load_ray_of_tree, load_ray_of_scene)


@by_type(inline=True)
def in_order(goal, tree):
    """Return whether children are pushed nearest last, and those behind the ray's end dropped.

    That pays if the end of a ray moves before the ray is done. In a scene children are always in
    order, as `next_entry_in_scene` expects; a `CountGoal` counts as for closest hits.
    """
    if primitives_class(tree) is Instanced or goal.instance_class is CountGoal:
        return lambda goal, tree: True
    if goal.instance_class is AllGoal:
        return lambda goal, tree: False
    return lambda goal, tree: not goal.any_hit


def _next_entry_in_tree(tree, context_ref, memory, slot, top, ordered):
    """Return the top of a slot's stack, at most `top`, once entries behind the ray's end are gone.

    A top is slot + height, the index of the topmost entry; one below the slot tells that nothing is
    left. If not `ordered`, entries have no distances: a ray that is done, whose end is -inf, pops
    all, other rays none.
    """
    # Entries behind the closest hit are dropped; one at its distance stays, for a tie.
    end = slots.end(memory, slot)
    if not ordered:
        return top if end > F(-INF) else slot - 1
    # WIDTH entries at a time: a branch for each could not be predicted. Numbers below the slot's
    # stack may have any value.
    while True:
        entries = slots.stack_entries(memory, top - (WIDTH - 1), WIDTH)
        bits = simd.mask_bits(entries <= simd.splat(end, WIDTH))
        top += simd.highest_bit(bits) - (WIDTH - 1)  # highest_bit(0) is -1
        if bits != 0 or top < slot:
            return top


next_entry = by_scene(_next_entry_in_tree, next_entry_in_scene)


def _store_primitive(goal, tree, block, memory, slot):
    """Write the closest primitive of a slot's ray to the block; `goal` is unused."""
    r, prim = slots.ray(memory, slot), slots.best(memory, slot)
    blocks.set_closest_primitive(tree.primitives, block, r, prim)


@by_type(inline=True)
def finish_ray(goal, tree, block, memory, slot):
    """Write the closest primitive of a slot's ray to the block, for a `ClosestGoal` or `CountGoal`.

    Other goals have recorded their hits already.
    """
    if goal.instance_class in (ClosestGoal, CountGoal):
        return _store_primitive
    return lambda goal, tree, block, memory, slot: None


def _test_groups(goal, tree, block, context_ref, memory, count):
    """Test the rays of `count` slots at leaves of triangles: filter all, then decide candidates."""
    stored = np.int64(0)
    # All filters first: few groups have candidates, and branches could not predict which.
    for i in range(count):
        slot = slots.waiting_at_leaf(memory, i)
        first, rows = leaf_rows(slots.child(memory, slot))
        for group in range(first, first + rows):
            filtered = candidates.filter_group(tree, block, memory, slot, group)
            # Without a branch: the next result overwrites one that has no candidates.
            slots.set_filtered(memory, stored, slot, group, filtered)
            stored += np.int64(filtered.bits != 0)
            if tree.has_bits:
                simd.prefetch_address(simd.address(tree.face_bits, group * WIDTH))
        count_tests(goal, tree, block, memory, slot)
        slots.set_top(memory, slot, slots.top(memory, slot) - 1)  # pop the leaf
    for i in range(stored):
        slot, group, filtered = slots.filtered_at(memory, i)
        ray = slots.ray_numbers(tree.primitives, block, memory, slot)
        candidates.accept_group(goal, tree, block, context_ref, memory, slot, group, ray, filtered)


def _test_one_by_one(goal, tree, block, context_ref, memory, count):
    """Test the rays of `count` slots that wait at leaves, one leaf after the other, and pop it."""
    for i in range(count):
        slot = slots.waiting_at_leaf(memory, i)
        child = slots.child(memory, slot)
        candidates.intersect_leaf(goal, tree, block, context_ref, memory, slot, child)
        count_tests(goal, tree, block, memory, slot)
        slots.set_top(memory, slot, slots.top(memory, slot) - 1)


@by_type(inline=True)
def test_leaves(goal, tree, block, context_ref, memory, count):
    """Test the rays of the `count` slots that wait at leaves, and pop these leaves."""
    return _test_groups if primitives_class(tree) is Triangles else _test_one_by_one


@inlined
def _advance(tree, context_ref, memory, slot, ordered, waiting):
    """Queue a slot by its next entry, the topmost not behind its ray's end; prefetch that entry.

    `waiting` is (how many slots wait at nodes, at leaves, for a ray); it is returned updated.
    `ordered` tells that entries have distances (see `in_order`).
    """
    # Without a branch: the slot is written to the ends of all three queues, and one gets longer.
    at_nodes, at_leaves, without_ray = waiting
    top = next_entry(tree, context_ref, memory, slot, slots.top(memory, slot), ordered)
    nodes, groups, _ = slots.current_arrays(tree, memory, slot)
    child = slots.stack_child(memory, top)
    # Four cache lines, a node of eight lanes. If nothing is left, `child` is any number: no harm.
    prefetch_child(nodes, groups, child, 4)
    slots.set_top(memory, slot, top)
    slots.set_child(memory, slot, child)
    slots.queue_at_node(memory, at_nodes, slot)
    slots.queue_at_leaf(memory, at_leaves, slot)
    slots.queue_for_ray(memory, without_ray, slot)
    done = np.int64(top < slot)
    is_node = np.int64(child >= 0) & (done ^ 1)
    return at_nodes + is_node, at_leaves + (1 - done - is_node), without_ray + done


@kernel
def trace(context, memory, active, count, goal):
    """Trace the rays `active[:count]`, lane indices of a block, through a tree or a scene.

    context : `Context` of the tree, the rays of the batch and the block.
    memory : `Slots.memory`, scratch.
    goal : `ClosestGoal` or `CountGoal`, whose hits are written to the block, or `FirstGoal` or
        `AllGoal`, which hold their hits.
    """
    tree, _, block = context
    context_ref = refer(context)
    ordered = in_order(goal, tree)
    next_ray, at_nodes, at_leaves = np.int64(0), np.int64(0), np.int64(0)
    without_ray = min(count, np.int64(SLOTS))
    for i in range(without_ray):
        slot = HEADER + i * SLOT_SIZE
        slots.queue_for_ray(memory, i, slot)
        slots.set_ray(memory, slot, -1)
    while at_nodes + at_leaves + without_ray > 0:
        # Load the next rays into the slots whose rays are done, at the root.
        for i in range(without_ray):
            slot = slots.waiting_for_ray(memory, i)
            if slots.ray(memory, slot) >= 0:
                finish_ray(goal, tree, block, memory, slot)
            if next_ray < count:
                load_ray(tree, block, memory, slot, simd.peek(active, next_ray))
                slots.set_top(memory, slot, slot)
                slots.set_child(memory, slot, 0)
                slots.queue_at_node(memory, at_nodes, slot)
                next_ray += 1
                at_nodes += 1
        # Test the children of every ray's node; push those that are entered.
        for i in range(at_nodes):
            slot = slots.waiting_at_node(memory, i)
            nodes, _, _ = slots.current_arrays(tree, memory, slot)
            at = node_at(slots.child(memory, slot))
            count_node(goal, block, slots.ray(memory, slot))
            planes, shift = slots.child_planes(memory, slot)
            ray = slots.ray_numbers(tree.primitives, block, memory, slot)
            first, last = enter_children(nodes, at, ray, slots.end(memory, slot), planes)
            # The node's own entry, at the top, is overwritten by its children.
            top = slots.top(memory, slot)
            codes = child_codes(nodes, at, WIDTH)
            if ordered:
                # Bring the children into the order in which they are pushed.
                order = child_orders(nodes, at, WIDTH) >> shift
                first = simd.permute(first, order)
                bits = np.int64(simd.mask_bits(first <= simd.permute(last, order)))
                front = simd.compress_order(bits)
                slots.set_stack_entries(memory, top, simd.permute(first, front))
                codes = simd.permute(codes, order)
            else:
                bits = np.int64(simd.mask_bits(first <= last))
                front = simd.compress_order(bits)
            slots.set_stack_children(memory, top, simd.permute(codes, front))
            # The topmost comes next, whether it was pushed now or before.
            slots.set_top(memory, slot, top + simd.popcount(bits) - 1)
        # The loops are apart so that more rays overlap: the second waits for what the first
        # computes.
        waiting = np.int64(0), at_leaves, np.int64(0)
        for i in range(at_nodes):
            slot = slots.waiting_at_node(memory, i)
            waiting = _advance(tree, context_ref, memory, slot, ordered, waiting)
        at_nodes, at_leaves, without_ray = waiting
        # Go on while there is other work, until three quarters of the slots wait at leaves.
        if at_nodes + without_ray > 0 and at_leaves < 3 * SLOTS // 4:
            continue
        # Test the leaves that were reached.
        test_leaves(goal, tree, block, context_ref, memory, at_leaves)
        waiting = at_nodes, np.int64(0), without_ray
        for i in range(at_leaves):
            slot = slots.waiting_at_leaf(memory, i)
            waiting = _advance(tree, context_ref, memory, slot, ordered, waiting)
        at_nodes, at_leaves, without_ray = waiting
