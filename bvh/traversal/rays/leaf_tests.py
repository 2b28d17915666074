"""Intersection of a ray with a leaf: the filter of triangle groups, then the test of candidates.

The bounds of the filter depend on whether the triangles are those of a tree or moved ones of a
scene; what is done with a candidate depends on the goal. Both are chosen by type.
"""

from __future__ import annotations

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import by_type, inlined
from bvh.runtime.simd import WIDTH, fma, mask_bits, peek, select, shifted, splat
from bvh.traversal.rays.candidates import (
    Candidates,
    accept_closest,
    accept_closest_of_group,
    primitive_of,
)
from bvh.traversal.rays.goals import AllGoal, ClosestGoal, CountGoal, FirstGoal, note_leaf
from bvh.traversal.rays.leaf_all_hits import collect_group, collect_hit
from bvh.traversal.rays.leaf_first_hits import rank_group, rank_hit
from bvh.traversal.rays.ray_block import (
    DIRECTION,
    EDGE,
    END,
    LOW,
    ORIGIN,
    SLACK,
    SURE_HIGH,
    SURE_LOW,
    T_ERROR,
)
from bvh.traversal.rays.ray_slots import (
    EDGE_FLOOR,
    T_FLOOR,
    T_SLOPE,
    current_arrays,
    instance_in,
    primitives_class,
    ray_of,
)
from bvh.tree.instanced import TRIANGLES, Instanced, kind_of
from bvh.tree.primitives import Triangles
from bvh.tree.triangle_groups import (
    TINY,
    group_at,
    group_edges,
    group_normal,
    group_origin,
    group_sizes,
    group_tolerance,
    test_distance,
    test_edges,
)
from bvh.tree.wide_nodes import leaf_rows

F = np.float32

# For each goal, its functions for the candidates of a group and for a single primitive.
ACCEPTS = {
    ClosestGoal: (accept_closest_of_group, accept_closest),
    CountGoal: (accept_closest_of_group, accept_closest),
    FirstGoal: (rank_group, rank_hit),
    AllGoal: (collect_group, collect_hit),
}


@inlined
def spread(ray, row):
    """Return a ray's number in all lanes."""
    return splat(peek(ray, row), WIDTH)


@inlined
def spread_three(ray, row):
    """Return three numbers of a ray, each in all lanes."""
    return spread(ray, row), spread(ray, row + 1), spread(ray, row + 2)


def edge_margin(primitives, ray, tolerance):
    """Return the error bounds of the edge tests of a group; negative ones for unused lanes."""


def _edge_margin_in_tree(primitives, ray, tolerance):
    return spread(ray, EDGE) * tolerance


def _edge_margin_in_scene(primitives, ray, tolerance):
    # The tolerance of an unused lane is negative.
    margin = fma(spread(ray, EDGE), tolerance, spread(ray, EDGE_FLOOR))
    return select(tolerance > splat(F(0.0), WIDTH), margin, splat(F(-INF), WIDTH))


@by_type(edge_margin, inline=True)
def _choose_edge_margin(primitives, ray, tolerance):
    in_scene = primitives.instance_class is Instanced
    return _edge_margin_in_scene if in_scene else _edge_margin_in_tree


def distance_margin(primitives, ray, size, tolerance):
    """Return the error bounds of the distances of a group, times den."""


def _distance_margin_in_tree(primitives, ray, size, tolerance):
    return fma(spread(ray, T_ERROR), size, splat(TINY, WIDTH))


def _distance_margin_in_scene(primitives, ray, size, tolerance):
    moved = fma(spread(ray, T_SLOPE), tolerance, spread(ray, T_FLOOR))
    return fma(spread(ray, T_ERROR), size, moved)


@by_type(distance_margin, inline=True)
def _choose_distance_margin(primitives, ray, size, tolerance):
    in_scene = primitives.instance_class is Instanced
    return _distance_margin_in_scene if in_scene else _distance_margin_in_tree


@inlined
def filter_group(tree, memory, slot, group):
    """Return the candidates of a triangle group for a slot's ray."""
    _, groups, _ = current_arrays(tree, memory, slot)
    ray, at = shifted(memory, slot), group_at(group)
    e1, e2 = group_edges(groups, at)
    n, tolerance = group_normal(groups, at), group_tolerance(groups, at)
    maybe, passes, c, den = test_edges(
        spread_three(ray, ORIGIN),
        spread_three(ray, DIRECTION),
        group_origin(groups, at),
        e1,
        e2,
        n,
        edge_margin(tree.primitives, ray, tolerance),
    )
    zero, none = np.int64(0), splat(F(0.0), WIDTH)
    if mask_bits(maybe) == 0:
        return Candidates(zero, zero, den, none, none)
    within, t, error = test_distance(
        c,
        den,
        spread(ray, LOW),
        spread(ray, END),
        n,
        distance_margin(tree.primitives, ray, group_sizes(groups, at), tolerance),
    )
    bits = np.int64(mask_bits(maybe & within))
    if bits == 0:
        return Candidates(zero, zero, den, none, none)
    error = error + spread(ray, SLACK)
    first, last = t - error, t + error
    certain = mask_bits(
        passes & (first >= spread(ray, SURE_LOW)) & (last <= spread(ray, SURE_HIGH))
    )
    return Candidates(bits, np.int64(certain), den, first, last)


def accept_group(goal, tree, block, context_ref, memory, slot, group, found):
    """Apply the goal to the candidates of a triangle group."""


@by_type(accept_group, inline=True)
def _choose_accept_group(goal, tree, block, context_ref, memory, slot, group, found):
    return ACCEPTS[goal.instance_class][0]


def accept_primitive(goal, context_ref, memory, slot, prim):
    """Apply the goal to a primitive without a filter."""


@by_type(accept_primitive, inline=True)
def _choose_accept(goal, context_ref, memory, slot, prim):
    return ACCEPTS[goal.instance_class][1]


@inlined
def intersect_group(goal, tree, block, context_ref, memory, slot, group):
    """Intersect a slot's ray with a triangle group."""
    found = filter_group(tree, memory, slot, group)
    if found.bits != 0:
        accept_group(goal, tree, block, context_ref, memory, slot, group, found)


def intersect_leaf(goal, tree, block, context_ref, memory, slot, child):
    """Intersect a slot's ray with a leaf of its current tree; the goal decides what is kept."""


@inlined
def _intersect_triangles(goal, tree, block, context_ref, memory, slot, child):
    group, count = leaf_rows(child)
    _, _, ids = current_arrays(tree, memory, slot)
    note_leaf(goal, block, ray_of(memory, slot), ids, group * WIDTH, (group + count) * WIDTH)
    for g in range(group, group + count):
        intersect_group(goal, tree, block, context_ref, memory, slot, g)


@inlined
def _intersect_others(goal, tree, block, context_ref, memory, slot, child):
    first, count = leaf_rows(child)
    _, _, ids = current_arrays(tree, memory, slot)
    note_leaf(goal, block, ray_of(memory, slot), ids, first, first + count)
    for i in range(first, first + count):
        prim = primitive_of(tree.primitives, memory, slot, peek(ids, i))
        accept_primitive(goal, context_ref, memory, slot, prim)


def _intersect_instance(goal, tree, block, context_ref, memory, slot, child):
    if kind_of(tree.primitives, instance_in(memory, slot)) == TRIANGLES:
        _intersect_triangles(goal, tree, block, context_ref, memory, slot, child)
    else:
        _intersect_others(goal, tree, block, context_ref, memory, slot, child)


@by_type(intersect_leaf, inline=True)
def _choose_leaf(goal, tree, block, context_ref, memory, slot, child):
    kind = primitives_class(tree)
    if kind is Instanced:
        return _intersect_instance
    return (_intersect_triangles if kind is Triangles else _intersect_others).py_func
