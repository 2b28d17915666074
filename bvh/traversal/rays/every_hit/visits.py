"""Visits: pairs of a ray and a node, or leaf, that it enters, for goals that need all hits.

A ray that looks for all of its hits enters every box that it meets, in any order: children are not
sorted, no distances are stored, and no ray must wait for its last hit. The rays of a block that
share an octant have one stack of visits. Many are taken from its top at a time: those of nodes add
visits of the children that the ray enters, without a branch, and those of leaves wait in a queue
until there are many.

The stack. Visits are taken from its top and replaced by those of their children, in the same order,
so that depth never falls towards the top. When a visit at some depth is taken, all deeper ones are
taken with it: no depth ever has more than TAKEN * WIDTH visits, and the root's has a block's.

Certain hits. With T, den, M, B and e of `triangle_groups`, a hit is certain to be at s or beyond
where T >= s * abs(den) + margin: no division. For s within the box, the margin of 24 e B M covers
12 e B M in T and 10.5 e B M in s * den, as there. Rounding of s and of the fused step is below
4.2 e B abs(den), which the slack covers: at least 16 e B, it is added to SURE_LOW, and taken from
SURE_HIGH, once more. A limit that is not within LOW..END has all of the box on one side: it becomes
infinite.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime import simd
from bvh.runtime.jit import by_type, inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH
from bvh.runtime.tuple_references import refer
from bvh.traversal.rays import blocks, ray_numbers, slots
from bvh.traversal.rays.blocks import BLOCK, GROUP, OCTANTS, batch_index, ray_number
from bvh.traversal.rays.candidates import filter_ray
from bvh.traversal.rays.leaf_hits import append_hit, hit_weight
from bvh.traversal.rays.ray_batch import Context, mask_of
from bvh.traversal.rays.single_rays import enter_children
from bvh.tree.face_bits import selected_lanes
from bvh.tree.primitives import Triangles
from bvh.tree.triangle_groups import GROUP_SIZE, group_at, id_place, load_group
from bvh.tree.wide_nodes import all_planes, child_codes, first_row, leaf_rows, near_planes, node_at

F = np.float32

# Visits that are taken at a time: enough to hide the latency of memory. More depths than a tree
# has. Visits of leaves are made once there are more than LEAVES.
TAKEN = 64
DEPTHS = 70
LEAVES = 512

# Float32 numbers of a cache line; those of a node that are read here; those of a leaf that are
# prefetched, AHEAD visits before its own.
LINE, PLANES_AND_CODES, PREFETCHED, AHEAD = 16, 7 * WIDTH, 128, 4


class Visits(NamedTuple):
    """Scratch for visits: pairs of a node's or leaf's code and the lane index of a ray there."""

    codes: NDArray[np.int32]  # the stack
    rays: NDArray[np.int32]
    node_codes: NDArray[np.int32]  # visits of nodes, just taken from the stack
    node_rays: NDArray[np.int32]
    leaf_codes: NDArray[np.int32]  # the queue of visits of leaves
    leaf_rays: NDArray[np.int32]


def new_visits() -> Visits:
    """Return `Visits`, the scratch of one thread."""
    # The root has a block's visits, each depth TAKEN * WIDTH; stores may write WIDTH more.
    stack, leaves = BLOCK + (DEPTHS * TAKEN + 1) * WIDTH, LEAVES + TAKEN + WIDTH
    sizes = stack, stack, TAKEN + WIDTH, TAKEN + WIDTH, leaves, leaves
    return Visits(*(np.zeros(size, np.int32) for size in sizes))


@inlined
def _set_limits(lanes):
    """Narrow SURE_LOW..SURE_HIGH of a block's rays to where hits are certain without a division.

    A limit that excludes nothing of LOW..END becomes infinite (see "Certain hits" above).
    """
    for r in range(0, BLOCK // WIDTH * GROUP, GROUP):
        slack, infinite = blocks.slacks(lanes, r, WIDTH), simd.splat(F(INF), WIDTH)
        low, high = blocks.sure_lows(lanes, r, WIDTH), blocks.sure_highs(lanes, r, WIDTH)
        first, last = blocks.lows(lanes, r, WIDTH), blocks.ends(lanes, r, WIDTH)
        blocks.set_sure_low(lanes, r, simd.select(low > first, low + slack, -infinite))
        blocks.set_sure_high(lanes, r, simd.select(high < last, high - slack, infinite))


@inlined
def _filter(primitives, groups, group, lanes, r):
    """Return (bits, certain, back), lanes of triangle group `group`, for the ray at lane index r.

    These are triangles that the ray may hit, that it surely hits, and whose backs face it.
    `_set_limits` has set SURE_LOW and SURE_HIGH to bounds for a test without a division.
    """
    ray = blocks.numbers_of(lanes, r)
    bits, passes, den, numerator, margin = filter_ray(
        primitives, load_group(groups, group), ray, blocks.end(lanes, r)
    )
    size = abs(den)
    within = (numerator >= simd.fma(ray_numbers.sure_low(ray), size, margin)) & (
        numerator <= simd.fma(ray_numbers.sure_high(ray), size, -margin)
    )
    certain = bits & passes & np.int64(simd.mask_bits(within))
    return bits, certain, np.int64(simd.mask_bits(den > F(0.0)))


@kernel
def _test_triangles(primitives, context, visits, queued, goal):
    """Test the rays of `queued` visits against their leaves' triangles, exactly where uncertain."""
    stay_outlined()
    tree, rays, block = context
    context_ref = refer(context)
    lanes, groups, counts = block.lanes, tree.groups, goal.hits.counts
    for i in range(queued):
        # Beyond the queue there are old codes, or zeros: to prefetch by them does no harm.
        ahead = group_at(first_row(np.int64(simd.peek(visits.leaf_codes, i + AHEAD))))
        for k in range(0, min(GROUP_SIZE, PREFETCHED), LINE):
            simd.prefetch_address(simd.address(groups, ahead + k))
        r = np.int64(simd.peek(visits.leaf_rays, i))
        first, count = leaf_rows(np.int64(simd.peek(visits.leaf_codes, i)))
        for group in range(first, first + count):
            bits, certain, back = _filter(primitives, groups, group, lanes, r)
            if bits != 0:
                bits &= selected_lanes(tree, group, mask_of(rays, batch_index(block, r)))
                certain &= bits
            if goal.cull != 0:
                # In a tree, `culled_lanes` depends on the last two arguments alone.
                culled = certain & slots.culled_lanes(primitives, lanes, r, goal.cull, back)
                bits ^= culled
                certain ^= culled
            if not goal.listed:
                # Count certain hits; if sided, 1 from the back and -1 from the front.
                number, weight = ray_number(r), simd.popcount(certain)
                if goal.sided:
                    weight = 2 * simd.popcount(certain & back) - weight
                simd.poke(counts, number, simd.peek(counts, number) + weight)
                bits ^= certain
            while bits != 0:
                k = simd.lowest_bit(bits)
                bits &= bits - 1
                prim = np.int64(simd.peek(tree.ids, id_place(groups, group_at(group) + k)))
                # A ray that surely passes all edges meets none of them, so no edge rule applies.
                weight = np.int64(1)
                if certain >> k & 1 == 0:
                    weight = hit_weight(context_ref, r, prim, goal.cull, goal.once, goal.sided)
                if weight != 0:
                    append_hit(goal, r, prim, weight)


@kernel
def _test_others(primitives, context, visits, queued, goal):
    """Test the rays of `queued` visits against the primitives of their leaves, each exactly."""
    stay_outlined()
    tree, context_ref = context.tree, refer(context)
    for i in range(queued):
        r = np.int64(simd.peek(visits.leaf_rays, i))
        first, count = leaf_rows(np.int64(simd.peek(visits.leaf_codes, i)))
        for row in range(first, first + count):
            prim = np.int64(simd.peek(tree.ids, row))
            weight = hit_weight(context_ref, r, prim, goal.cull, goal.once, goal.sided)
            if weight != 0:
                append_hit(goal, r, prim, weight)


@by_type()
def _test_leaves(primitives, context, visits, queued, goal):
    """Test the rays of the first `queued` visits of leaves against the primitives of the leaves.

    Hits are appended to the goal, an `AllGoal`, or counted.
    """
    in_groups = primitives.instance_class is Triangles
    return (_test_triangles if in_groups else _test_others).py_func


@kernel
def _visit(context, visits, top, octant, queued, goal):
    """Make all visits on the stack, whose height is `top`, of rays of octant `octant`.

    Visits of leaves may wait: `queued` is the number of those that do, and is returned updated.
    """
    stay_outlined()
    tree, _, block = context
    lanes, nodes = block.lanes, tree.blocks
    x, y, z = near_planes(octant)
    planes = all_planes(x, y, z)
    while top > 0:
        # Divide visits from the top into those of nodes and of leaves.
        taken = min(top, TAKEN)
        top -= taken
        at_nodes = np.int64(0)
        for j in range(0, taken, WIDTH):
            codes = simd.load(visits.codes, top + j, WIDTH)
            rays = simd.load(visits.rays, top + j, WIDTH)
            used = (np.int64(1) << min(taken - j, WIDTH)) - 1  # lanes below the old top
            inner = np.int64(simd.mask_bits(codes >= np.int32(0))) & used
            order = simd.compress_order(inner)
            simd.store(visits.node_codes, at_nodes, simd.permute(codes, order))
            simd.store(visits.node_rays, at_nodes, simd.permute(rays, order))
            at_nodes += simd.popcount(inner)
            order = simd.compress_order(used ^ inner)
            simd.store(visits.leaf_codes, queued, simd.permute(codes, order))
            simd.store(visits.leaf_rays, queued, simd.permute(rays, order))
            queued += simd.popcount(used ^ inner)
        for i in range(at_nodes):
            at = node_at(np.int64(simd.peek(visits.node_codes, i)))
            for k in range(0, min(PLANES_AND_CODES, 4 * LINE), LINE):
                simd.prefetch_address(simd.address(nodes, at + k))
        # Push visits of the children that rays enter.
        for i in range(at_nodes):
            at = node_at(np.int64(simd.peek(visits.node_codes, i)))
            r = simd.peek(visits.node_rays, i)
            ray, end = blocks.numbers_of(lanes, np.int64(r)), blocks.end(lanes, np.int64(r))
            first, last = enter_children(nodes, at, ray, end, planes)
            bits = np.int64(simd.mask_bits(first <= last))
            order = simd.compress_order(bits)
            simd.store(visits.codes, top, simd.permute(child_codes(nodes, at, WIDTH), order))
            simd.store(visits.rays, top, simd.splat(r, WIDTH))
            top += simd.popcount(bits)
        if queued > LEAVES:
            _test_leaves(tree.primitives, context, visits, queued, goal)
            queued = np.int64(0)
    return queued


@kernel
def visit_all(tree, rays, block, goal):
    """Find all hits of the active rays of a block in a tree, not in a scene, for an `AllGoal`."""
    context, lanes, visits = Context(tree, rays, block), block.lanes, goal.visits
    _set_limits(lanes)
    queued = np.int64(0)
    for octant in range(OCTANTS):
        top = np.int64(0)
        # r is the lane index of the first of WIDTH rays (see `blocks.lane_index`). Rays that are
        # not active end at -INF.
        for r in range(0, BLOCK // WIDTH * GROUP, GROUP):
            octants = blocks.octants(lanes, r, WIDTH)
            active = blocks.ends(lanes, r, WIDTH) > F(-INF)
            bits = np.int64(simd.mask_bits((octants == np.int32(octant)) & active))
            # Begin at the root, whose code is 0. A ray's lane index is r plus its lane: those of
            # `bits` are moved to the front.
            simd.store(visits.codes, top, simd.splat(np.int32(0), WIDTH))
            simd.store(visits.rays, top, simd.compress_order(bits) + np.int32(r))
            top += simd.popcount(bits)
        if top > 0:
            queued = _visit(context, visits, top, octant, queued, goal)
    _test_leaves(tree.primitives, context, visits, queued, goal)
