"""Single rays: slab tests of a node's boxes, with several rays interleaved to hide memory latency.

Each slot has a ray and its stack. A round lets every slot whose next entry is a node take one step,
without a branch that depends on the ray. When most slots have reached a leaf, the filter tests all
of these, and what it has found is decided after that.
A node's children are pushed nearest last, by the order that is stored for the ray's octant: no
sorting, no branch a child (Bikker 2024, "TinyBVH", its 8-wide layout). Where any hit will do they
are pushed as they come.

The loop is the same for a tree and for a scene; `load_ray`, `current_arrays` and `next_entry` are
chosen by type.
"""

from __future__ import annotations

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import by_type, inlined, kernel
from bvh.runtime.simd import (
    WIDTH,
    address,
    compress_order,
    fma,
    greater,
    highest_bit,
    lesser,
    load,
    mask_bits,
    peek,
    peek_int,
    permute,
    poke,
    poke_int,
    popcount,
    prefetch_address,
    splat,
    store,
    store_ints,
)
from bvh.runtime.tuple_references import refer
from bvh.traversal.rays.candidates import (
    ClosestGoal,
    CountGoal,
    Filtered,
    accept_group,
    candidates_of,
    filter_group,
    intersect_leaf,
    load_closest,
    spread,
)
from bvh.traversal.rays.instanced_rays import (
    load_ray_of_scene,
    next_entry_in_scene,
)
from bvh.traversal.rays.leaf_hits import AllGoal
from bvh.traversal.rays.ray_batch import Context
from bvh.traversal.rays.ray_memory import (
    BEST,
    CHILD,
    DONE_QUEUE,
    END,
    FAR,
    FOUND,
    FOUND_BITS,
    FOUND_DEN,
    FOUND_GROUP,
    FOUND_MARGIN,
    FOUND_NUMERATOR,
    FOUND_PASSES,
    FOUND_SIZE,
    FOUND_SLOT,
    HEADER,
    INVERSE,
    LEAF_QUEUE,
    NEAR,
    NODE_QUEUE,
    OCTANT,
    OCTANTS,
    RAY,
    SLOT_SIZE,
    SLOTS,
    STACK_CHILDREN,
    STACK_ENTRIES,
    TOP,
    batch_index,
    by_scene,
    child_planes,
    current_arrays,
    primitives_class,
    ray_numbers,
    ray_of,
    read_int,
    set_closest_primitive,
    slot_integers,
    write_octant,
)
from bvh.tree.instanced import Instanced
from bvh.tree.primitives import Triangles
from bvh.tree.wide_nodes import (
    child_codes,
    child_orders,
    leaf_rows,
    node_at,
    prefetch_child,
)

F = np.float32


@inlined
def enter_children(nodes, at, ray, end, planes):
    """Return (first, last): where a ray up to `end` enters and leaves each child of a node at `at`.

    `planes` are those of `all_planes`: near and far ones are chosen by the sign of the direction,
    not by comparing their distances.
    """
    nx, ny, nz, fx, fy, fz = planes
    ix, iy, iz = spread(ray, INVERSE), spread(ray, INVERSE + 1), spread(ray, INVERSE + 2)
    tx = fma(load(nodes, at + nx, WIDTH), ix, spread(ray, NEAR))
    ty = fma(load(nodes, at + ny, WIDTH), iy, spread(ray, NEAR + 1))
    tz = fma(load(nodes, at + nz, WIDTH), iz, spread(ray, NEAR + 2))
    first = greater(greater(tx, ty), greater(tz, splat(np.float32(0.0), WIDTH)))
    tx = fma(load(nodes, at + fx, WIDTH), ix, spread(ray, FAR))
    ty = fma(load(nodes, at + fy, WIDTH), iy, spread(ray, FAR + 1))
    tz = fma(load(nodes, at + fz, WIDTH), iz, spread(ray, FAR + 2))
    last = lesser(lesser(tx, ty), lesser(tz, splat(end, WIDTH)))
    return first, last


def count_node(goal, block, r):
    """Count a node that ray r visits, if the goal counts."""


def _count_node(goal, block, r):
    i = batch_index(block, r)
    poke(goal.nodes, i, peek(goal.nodes, i) + np.int32(1))


@by_type(count_node, inline=True)
def _choose_node_count(goal, block, r):
    return _count_node if goal.instance_class is CountGoal else lambda goal, block, r: None


def count_tests(goal, tree, block, memory, slot, tested):
    """Count the primitives in the rows of ids that a slot's ray was tested against."""


def _count_tests(goal, tree, block, memory, slot, tested):
    _, _, ids = current_arrays(tree, memory, slot)
    i, used = batch_index(block, ray_of(memory, slot)), np.int32(0)
    for k in range(tested[0], tested[1]):
        used += np.int32(peek(ids, k) >= 0)
    poke(goal.tests, i, peek(goal.tests, i) + used)


@by_type(count_tests, inline=True)
def _choose_test_count(goal, tree, block, memory, slot, tested):
    if goal.instance_class is CountGoal:
        return _count_tests
    return lambda goal, tree, block, memory, slot, tested: None


def _load_ray_of_tree(tree, block, memory, slot, r):
    """Load ray r into a slot, at the root."""
    # A packet may have found one before it gave up.
    load_closest(block, memory, slot, r)
    write_octant(memory, slot, np.int64(read_int(block, r, OCTANT)) & (OCTANTS - 1))


load_ray = by_scene(_load_ray_of_tree, load_ray_of_scene)


def in_order(goal, tree):
    """Return whether a slot's next child is the nearest, and those behind its end are dropped."""


@by_type(in_order, inline=True)
def _choose_order(goal, tree):
    # An end that does not move before the ray is done drops nothing.
    if primitives_class(tree) is Instanced or goal.instance_class is CountGoal:
        return lambda goal, tree: True
    if goal.instance_class is AllGoal:
        return lambda goal, tree: False
    return lambda goal, tree: not goal.any_hit


def _next_entry_in_tree(tree, context_ref, memory, slot, top, ordered):
    """Pop the stack of a slot from `top` on; return the new top, below the slot if it is empty.

    Entries behind the closest hit are dropped; one with it stays, for a tie.
    """
    end = peek(memory, slot + END)
    if not ordered:
        return top if end > F(-INF) else slot - 1
    # WIDTH entries at a time, without a branch that no CPU could predict. What lies below the
    # slot's stack may be anything.
    while True:
        entries = load(memory, top + (STACK_ENTRIES - WIDTH + 1), WIDTH)
        bits = mask_bits(entries <= splat(end, WIDTH))
        top += highest_bit(bits) - (WIDTH - 1)
        if bits != 0 or top < slot:
            return top


next_entry = by_scene(_next_entry_in_tree, next_entry_in_scene)


def finish_ray(goal, tree, block, memory, slot):
    """Write the closest primitive of a slot's ray to the ray block, if the goal has one."""


def _store_primitive(goal, tree, block, memory, slot):
    prim = peek(slot_integers(memory, slot), BEST)
    set_closest_primitive(tree.primitives, block, ray_of(memory, slot), prim)


@by_type(finish_ray, inline=True)
def _choose_finish(goal, tree, block, memory, slot):
    if goal.instance_class in (ClosestGoal, CountGoal):
        return _store_primitive
    return lambda goal, tree, block, memory, slot: None


def test_leaves(goal, tree, block, context_ref, memory, count):
    """Test the rays of the first slots that wait at leaves; pop these, or their first groups."""


def _test_groups(goal, tree, block, context_ref, memory, count):
    found = np.int64(0)
    # All filters first: few groups have candidates, and no CPU could predict which.
    for i in range(count):
        slot = np.int64(peek_int(memory, LEAF_QUEUE + i))
        child = np.int64(peek_int(memory, slot + CHILD))
        first, rows = leaf_rows(child)
        for group in range(first, first + rows):
            at = FOUND + found * FOUND_SIZE
            result = filter_group(tree, block, memory, slot, group)
            poke_int(memory, at + FOUND_SLOT, slot)
            poke_int(memory, at + FOUND_GROUP, group)
            poke_int(memory, at + FOUND_BITS, result.bits)
            poke_int(memory, at + FOUND_PASSES, result.passes)
            store(memory, at + FOUND_DEN, result.den)
            store(memory, at + FOUND_NUMERATOR, result.numerator)
            store(memory, at + FOUND_MARGIN, result.margin)
            found += np.int64(result.bits != 0)
            if tree.has_bits:
                prefetch_address(address(tree.face_bits, group * WIDTH))
        count_tests(goal, tree, block, memory, slot, (first * WIDTH, (first + rows) * WIDTH))
        poke_int(memory, slot + TOP, np.int64(peek_int(memory, slot + TOP)) - 1)
    for i in range(found):
        at = FOUND + i * FOUND_SIZE
        slot = np.int64(peek_int(memory, at + FOUND_SLOT))
        group = np.int64(peek_int(memory, at + FOUND_GROUP))
        bits = np.int64(peek_int(memory, at + FOUND_BITS))
        passes = np.int64(peek_int(memory, at + FOUND_PASSES))
        den = load(memory, at + FOUND_DEN, WIDTH)
        numerator = load(memory, at + FOUND_NUMERATOR, WIDTH)
        margin = load(memory, at + FOUND_MARGIN, WIDTH)
        result = candidates_of(
            ray_numbers(tree.primitives, block, memory, slot),
            Filtered(bits, passes, den, numerator, margin),
        )
        accept_group(goal, tree, block, context_ref, memory, slot, group, result)


def _test_whole(goal, tree, block, context_ref, memory, count):
    for i in range(count):
        slot = np.int64(peek_int(memory, LEAF_QUEUE + i))
        child = np.int64(peek_int(memory, slot + CHILD))
        tested = intersect_leaf(goal, tree, block, context_ref, memory, slot, child)
        count_tests(goal, tree, block, memory, slot, tested)
        poke_int(memory, slot + TOP, np.int64(peek_int(memory, slot + TOP)) - 1)


@by_type(test_leaves, inline=True)
def _choose_leaves(goal, tree, block, context_ref, memory, count):
    return _test_groups if primitives_class(tree) is Triangles else _test_whole


@inlined
def _advance(tree, context_ref, memory, slot, top, ordered, waiting):
    """Queue a slot by its next entry from `top` on, without a branch; prefetch that entry.

    `waiting`, returned updated: how many slots wait at nodes, at leaves, and for a ray.
    """
    at_nodes, at_leaves, without_ray = waiting
    top = next_entry(tree, context_ref, memory, slot, top, ordered)
    nodes, groups, _ = current_arrays(tree, memory, slot)
    child = np.int64(peek_int(memory, top + STACK_CHILDREN))
    prefetch_child(nodes, groups, child, 4)
    poke_int(memory, slot + TOP, top)
    poke_int(memory, slot + CHILD, child)
    poke_int(memory, NODE_QUEUE + at_nodes, slot)
    poke_int(memory, LEAF_QUEUE + at_leaves, slot)
    poke_int(memory, DONE_QUEUE + without_ray, slot)
    done = np.int64(top < slot)
    is_node = np.int64(child >= 0) & (done ^ 1)
    return at_nodes + is_node, at_leaves + (1 - done - is_node), without_ray + done


@kernel
def trace(context, memory, active, count, goal):
    """Trace the rays `active[:count]` of a ray block through a tree or a scene."""
    tree, _, block = context
    context_ref = refer(context)
    ordered = in_order(goal, tree)
    next_ray, at_nodes, at_leaves = np.int64(0), np.int64(0), np.int64(0)
    without_ray = min(count, np.int64(SLOTS))
    for i in range(without_ray):
        slot = HEADER + i * SLOT_SIZE
        poke_int(memory, DONE_QUEUE + i, slot)
        poke_int(memory, slot + RAY, -1)
    while at_nodes + at_leaves + without_ray > 0:
        # Load the next rays into the slots whose rays are done, at the root.
        for i in range(without_ray):
            slot = np.int64(peek_int(memory, DONE_QUEUE + i))
            if ray_of(memory, slot) >= 0:
                finish_ray(goal, tree, block, memory, slot)
            if next_ray < count:
                load_ray(tree, block, memory, slot, peek(active, next_ray))
                poke_int(memory, slot + TOP, slot)
                poke_int(memory, slot + CHILD, 0)
                poke_int(memory, NODE_QUEUE + at_nodes, slot)
                next_ray += 1
                at_nodes += 1
        # Test the children of every ray's node; push those that are entered.
        for i in range(at_nodes):
            slot = np.int64(peek_int(memory, NODE_QUEUE + i))
            nodes, _, _ = current_arrays(tree, memory, slot)
            at = node_at(np.int64(peek_int(memory, slot + CHILD)))
            count_node(goal, block, ray_of(memory, slot))
            planes, shift = child_planes(memory, slot)
            ray = ray_numbers(tree.primitives, block, memory, slot)
            first, last = enter_children(nodes, at, ray, peek(memory, slot + END), planes)
            top = np.int64(peek_int(memory, slot + TOP))
            codes = child_codes(nodes, at)
            if ordered:
                # Bring the children into the order in which they are pushed.
                order = child_orders(nodes, at) >> shift
                first = permute(first, order)
                bits = np.int64(mask_bits(first <= permute(last, order)))
                front = compress_order(bits)
                store(memory, top + STACK_ENTRIES, permute(first, front))
                codes = permute(codes, order)
            else:
                bits = np.int64(mask_bits(first <= last))
                front = compress_order(bits)
            store_ints(memory, top + STACK_CHILDREN, permute(codes, front))
            # The topmost comes next, whether it was pushed now or before.
            poke_int(memory, slot + TOP, top + popcount(bits) - 1)
        # The loops are apart so that more rays overlap: the second waits for what the first
        # computes.
        now = at_nodes
        at_nodes = without_ray = np.int64(0)
        for i in range(now):
            slot = np.int64(peek_int(memory, NODE_QUEUE + i))
            top = np.int64(peek_int(memory, slot + TOP))
            at_nodes, at_leaves, without_ray = _advance(
                tree, context_ref, memory, slot, top, ordered, (at_nodes, at_leaves, without_ray)
            )
        if at_nodes + without_ray > 0 and at_leaves < 3 * SLOTS // 4:
            continue
        # Test the leaves that were reached.
        test_leaves(goal, tree, block, context_ref, memory, at_leaves)
        now, at_leaves = at_leaves, np.int64(0)
        for i in range(now):
            slot = np.int64(peek_int(memory, LEAF_QUEUE + i))
            top = np.int64(peek_int(memory, slot + TOP))
            at_nodes, at_leaves, without_ray = _advance(
                tree, context_ref, memory, slot, top, ordered, (at_nodes, at_leaves, without_ray)
            )


@inlined
def trace_all(tree, rays, block, slots, active, count, goal):
    """Trace the rays `active[:count]` of a ray block through a tree or a scene."""
    trace(Context(tree, rays, block), slots.memory, active, count, goal)
