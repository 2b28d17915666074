"""Single rays: slab tests of a node's boxes, with several rays interleaved to hide memory latency.

Each slot contains a ray and its stack. A round lets every slot whose next entry is a node take one
step, without a branch that depends on the ray; a second round tests the leaves that were reached.
A node's children are pushed nearest last, by the order that is stored for the ray's octant: no
sorting, no branch a child (Bikker 2024, "TinyBVH", its 8-wide layout).

The loop is the same for a tree and for a scene; `load_ray`, `current_arrays`, `child_planes` and
`next_entry` are chosen by type.
"""

from __future__ import annotations

import numpy as np

from bvh.runtime.jit import by_type, inlined, kernel
from bvh.runtime.simd import (
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
from bvh.runtime.tuple_references import refer
from bvh.traversal.rays.candidates import ClosestGoal, CountGoal, intersect_leaf, spread
from bvh.traversal.rays.instanced_rays import (
    child_planes_in_scene,
    load_ray_of_scene,
    next_entry_in_scene,
)
from bvh.traversal.rays.ray_batch import Context
from bvh.traversal.rays.ray_memory import (
    BEST,
    BEST_LOW,
    CHILD,
    END,
    ENTERED,
    ENTRIES,
    FAR,
    HEADER,
    INVERSE,
    LEAF_QUEUE,
    NEAR,
    NODE_QUEUE,
    OCTANT,
    OCTANTS,
    ORDERS,
    SLOT_SIZE,
    SLOTS,
    STACK_CHILDREN,
    STACK_ENTRIES,
    TOP,
    batch_index,
    by_scene,
    current_arrays,
    ray_of,
    read_int,
    read_row,
    reset_closest,
    set_closest_primitive,
    slot_integers,
)
from bvh.tree.triangle_groups import group_at
from bvh.tree.wide_nodes import (
    all_planes,
    child_codes,
    child_orders,
    first_row,
    near_planes,
    node_at,
    octant_shift,
)


@inlined
def enter_children(nodes, at, ray, planes):
    """Return (first, last): where a ray enters and leaves each child of the node at `at`.

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
    last = lesser(lesser(tx, ty), lesser(tz, spread(ray, END)))
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
    for row in range(BEST_LOW + 1):
        poke(memory, slot + row, read_row(block, r, row))
    reset_closest(memory, slot, r)


load_ray = by_scene(_load_ray_of_tree, load_ray_of_scene)


def _child_planes_in_tree(tree, memory, slot, octant):
    """Return (planes, shift) for `enter_children`, and for the order of children."""
    x, y, z = near_planes(octant)
    return all_planes(x, y, z), np.int32(octant_shift(octant))


child_planes = by_scene(_child_planes_in_tree, child_planes_in_scene)


def _next_entry_in_tree(tree, context_ref, memory, slot, top):
    """Pop the stack of a slot from `top` on; return the new top, below the slot if it is empty.

    Entries behind the closest hit are dropped; one with it stays, for a tie.
    """
    while top >= slot and peek(memory, top + STACK_ENTRIES) > peek(memory, slot + END):
        top -= 1
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


@inlined
def _queue(tree, memory, slot, child, nodes_waiting, leaves_waiting):
    """List a slot by its next entry, without a branch; prefetch that entry's memory."""
    nodes, groups, _ = current_arrays(tree, memory, slot)
    is_node = np.int64(child >= 0)
    node = address(nodes, node_at(child))
    leaf = address(groups, group_at(first_row(child)))
    at = node if child >= 0 else leaf
    prefetch_address(at)
    prefetch_address(at + 64)
    prefetch_address(at + 128)
    prefetch_address(at + 192)
    poke_int(memory, slot + CHILD, child)
    poke_int(memory, NODE_QUEUE + nodes_waiting, slot)
    poke_int(memory, LEAF_QUEUE + leaves_waiting, slot)
    return nodes_waiting + is_node, leaves_waiting + (1 - is_node)


@inlined
def _advance(goal, context, context_ref, memory, slot, top, active, count, waiting):
    """Advance a slot to its next entry, or to the next of the rays `active[:count]`.

    `waiting`, returned updated: the next ray, and how many slots wait at nodes and at leaves.
    """
    tree, _, block = context
    next_ray, nodes_waiting, leaves_waiting = waiting
    top = next_entry(tree, context_ref, memory, slot, top)
    if top < slot:
        finish_ray(goal, tree, block, memory, slot)
        if next_ray == count:
            return waiting
        load_ray(tree, block, memory, slot, peek(active, next_ray))
        next_ray += 1
        top = slot
        poke_int(memory, top + STACK_CHILDREN, 0)
    child = np.int64(peek_int(memory, top + STACK_CHILDREN))
    poke_int(memory, slot + TOP, top)
    nodes_waiting, leaves_waiting = _queue(tree, memory, slot, child, nodes_waiting, leaves_waiting)
    return next_ray, nodes_waiting, leaves_waiting


@kernel
def trace(context, memory, active, count, octant, goal):
    """Trace the rays `active[:count]` of a ray block through a tree or a scene.

    In a tree they are all of one octant; in a scene it is not used.
    """
    tree, _, block = context
    context_ref = refer(context)
    none, entered = splat(np.int32(0), WIDTH), splat(np.int32(-1), WIDTH)
    next_ray, leaves_waiting = np.int64(0), np.int64(0)
    # Load a ray into each slot, at the root.
    while next_ray < count and next_ray < SLOTS:
        slot = HEADER + next_ray * SLOT_SIZE
        load_ray(tree, block, memory, slot, peek(active, next_ray))
        poke_int(memory, slot + TOP, slot)
        poke_int(memory, slot + CHILD, 0)
        poke_int(memory, NODE_QUEUE + next_ray, slot)
        next_ray += 1
    nodes_waiting = next_ray
    while nodes_waiting + leaves_waiting > 0:
        # Test the children of every ray's node.
        for i in range(nodes_waiting):
            slot = np.int64(peek_int(memory, NODE_QUEUE + i))
            nodes, _, _ = current_arrays(tree, memory, slot)
            at = node_at(np.int64(peek_int(memory, slot + CHILD)))
            count_node(goal, block, ray_of(memory, slot))
            planes, shift = child_planes(tree, memory, slot, octant)
            first, last = enter_children(nodes, at, shifted(memory, slot), planes)
            # Bring the answers into the order in which the children will be pushed.
            order = child_orders(nodes, at) >> shift
            inside = permute(select(first <= last, entered, none), order)
            poke_int(memory, ENTERED + i, mask_bits(inside < np.int32(0)))
            store(memory, ENTRIES + i * WIDTH, first)
            store_ints(memory, ORDERS + i * WIDTH, order)
        # Push those that are entered. The two loops are apart so that more rays overlap: the second
        # waits for what the first computes.
        now, nodes_waiting = nodes_waiting, np.int64(0)
        for i in range(now):
            slot = np.int64(peek_int(memory, NODE_QUEUE + i))
            nodes, _, _ = current_arrays(tree, memory, slot)
            bits = np.int64(peek_int(memory, ENTERED + i))
            top = np.int64(peek_int(memory, slot + TOP))
            at = node_at(np.int64(peek_int(memory, slot + CHILD)))
            order = permute(load_ints(memory, ORDERS + i * WIDTH, WIDTH), compress_order(bits))
            child = permute(child_codes(nodes, at), order)
            store_ints(memory, top + STACK_CHILDREN, child)
            entries = permute(load(memory, ENTRIES + i * WIDTH, WIDTH), order)
            store(memory, top + STACK_ENTRIES, entries)
            # The topmost comes next, whether it was pushed now or before: that saves a branch which
            # no CPU could predict.
            top += popcount(bits) - 1
            next_ray, nodes_waiting, leaves_waiting = _advance(
                goal, context, context_ref, memory, slot, top, active, count,
                (next_ray, nodes_waiting, leaves_waiting),
            )  # fmt: skip
        if nodes_waiting > 0 and leaves_waiting < SLOTS // 2:
            continue
        # Then test the leaves that were reached.
        now, leaves_waiting = leaves_waiting, np.int64(0)
        for i in range(now):
            slot = np.int64(peek_int(memory, LEAF_QUEUE + i))
            child = np.int64(peek_int(memory, slot + CHILD))
            tested = intersect_leaf(goal, tree, block, context_ref, memory, slot, child)
            count_tests(goal, tree, block, memory, slot, tested)
            top = np.int64(peek_int(memory, slot + TOP)) - 1
            next_ray, nodes_waiting, leaves_waiting = _advance(
                goal, context, context_ref, memory, slot, top, active, count,
                (next_ray, nodes_waiting, leaves_waiting),
            )  # fmt: skip


def _trace_scene(tree, rays, block, slots, active, count, goal):
    trace(Context(tree, rays, block), slots.memory, active, count, np.int64(0), goal)


def _trace_octants(tree, rays, block, slots, active, count, goal):
    """Trace the rays `active[:count]` of a ray block through a tree or a scene."""
    context, sizes, bucket = Context(tree, rays, block), slots.sizes, slots.bucket
    for k in range(OCTANTS + 1):
        poke(sizes, k, 0)
    for j in range(count):
        k = np.int64(read_int(block, peek(active, j), OCTANT) & (OCTANTS - 1))
        poke(sizes, k + 1, peek(sizes, k + 1) + 1)
    for k in range(OCTANTS):
        poke(sizes, k + 1, peek(sizes, k) + peek(sizes, k + 1))
    for j in range(count):
        r = peek(active, j)
        k = np.int64(read_int(block, r, OCTANT) & (OCTANTS - 1))
        at = peek(sizes, k)
        poke(bucket, at, r)
        poke(sizes, k, at + 1)
    begin = np.int64(0)
    for k in range(OCTANTS):
        end = peek(sizes, k)
        if end > begin:
            trace(context, slots.memory, shifted(bucket, begin), end - begin, k, goal)
        begin = end


trace_all = by_scene(_trace_octants, _trace_scene)
