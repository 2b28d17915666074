"""Candidates of a ray at a leaf: the filter that finds them; the closest hit, exactly; ties.

The bounds of the filter depend on whether the triangles are those of a tree or moved ones of a
scene. A slot keeps its ray's closest primitive so far, with an interval of tau that surely contains
the rounded t. A hit whose interval lies before that replaces it, one behind it is dropped; where
the intervals overlap, and where the filter is unsure of a hit, exact t decide. Of equal distances,
the lowest id wins the tie.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.geometry.triangles import scaled_ray
from bvh.runtime.jit import by_type, inlined, kernel, stay_outlined
from bvh.runtime.simd import (
    WIDTH,
    fma,
    lowest_bit,
    mask_bits,
    peek,
    poke,
    select,
    splat,
    store,
)
from bvh.runtime.tuple_references import follow
from bvh.traversal.rays.counted_faces import counted_lanes
from bvh.traversal.rays.leaf_hits import (
    AllGoal,
    FirstGoal,
    collect_group,
    collect_hit,
    rank_group,
    rank_hit,
)
from bvh.traversal.rays.ray_batch import read_ray
from bvh.traversal.rays.ray_memory import (
    BEST,
    BEST_LOW,
    DIRECTION,
    EDGE,
    EDGE_FLOOR,
    END,
    EXACT,
    EXACT_T,
    LOW,
    ORIGIN,
    PRIM,
    SLACK,
    SPARE,
    SURE_HIGH,
    SURE_LOW,
    T_ERROR,
    T_FLOOR,
    T_SLOPE,
    batch_index,
    by_scene,
    culled_lanes,
    current_arrays,
    instance_in,
    primitive_at,
    primitives_class,
    ray_numbers,
    ray_of,
    read_int,
    read_row,
    reset_closest,
    slot_doubles,
    slot_integers,
    tau_interval,
    write_int,
    write_row,
)
from bvh.tree.frame import farthest
from bvh.tree.instanced import Instanced, kind_of
from bvh.tree.primitives import MISS, Triangles, intersect
from bvh.tree.rows import TRIANGLES
from bvh.tree.triangle_groups import TINY, load_group, test_distance, test_edges
from bvh.tree.wide_nodes import leaf_rows

F = np.float32


class ClosestGoal(NamedTuple):
    """Goal of a traversal: the closest hit, or with `any_hit` the first one found."""

    any_hit: Any
    cull: Any


class CountGoal(NamedTuple):
    """The closest hit, and its cost: nodes and primitives visited for each ray."""

    any_hit: Any
    cull: Any
    nodes: Any
    tests: Any


class Filtered(NamedTuple):
    """Result of the filter of a triangle group; inside kernels."""

    bits: Any  # lanes that may be hit
    passes: Any  # lanes whose edges are surely passed on the inner side
    den: Any  # d . N, a vector; positive where the back faces the ray
    numerator: Any  # of the distance, whose denominator is the size of den
    margin: Any  # its error bound


class Candidates(NamedTuple):
    """Candidates of a triangle group; inside kernels."""

    bits: Any  # lanes that may be hit
    certain: Any  # lanes that surely are hit
    den: Any  # d . N, a vector; positive where the back faces the ray
    first: Any  # the interval of tau that surely contains the hit, two vectors
    last: Any


@inlined
def spread(ray, row):
    """Return a ray's number in all lanes; `ray` is what `ray_numbers` returns."""
    lanes, step = ray
    return splat(peek(lanes, row * step), WIDTH)


@inlined
def spread_three(ray, row):
    """Return three numbers of a ray, each in all lanes."""
    return spread(ray, row), spread(ray, row + 1), spread(ray, row + 2)


def _edge_margin(primitives, ray, tolerance):
    """Return the error bounds of the edge tests of a group; negative ones for unused lanes."""
    return spread(ray, EDGE) * tolerance


def _moved_edge_margin(primitives, ray, tolerance):
    # The tolerance of an unused lane is negative.
    margin = fma(spread(ray, EDGE), tolerance, spread(ray, EDGE_FLOOR))
    return select(tolerance > splat(F(0.0), WIDTH), margin, splat(F(-INF), WIDTH))


edge_margin = by_scene(_edge_margin, _moved_edge_margin)


def _distance_margin(primitives, ray, size, tolerance):
    """Return the error bounds of the distances of a group, times den."""
    return fma(spread(ray, T_ERROR), size, splat(TINY, WIDTH))


def _moved_distance_margin(primitives, ray, size, tolerance):
    moved = fma(spread(ray, T_SLOPE), tolerance, spread(ray, T_FLOOR))
    return fma(spread(ray, T_ERROR), size, moved)


distance_margin = by_scene(_distance_margin, _moved_distance_margin)


@inlined
def filter_group(tree, block, memory, slot, group):
    """Filter a triangle group for a slot's ray, without a branch."""
    _, groups, _ = current_arrays(tree, memory, slot)
    ray = ray_numbers(tree.primitives, block, memory, slot)
    triangles = load_group(groups, group)
    return filter_ray(tree.primitives, triangles, ray, peek(memory, slot + END))


@inlined
def filter_ray(primitives, triangles, ray, end):
    """Filter a group, as by `load_group`, for a ray, as by `ray_numbers`, up to `end`."""
    v0, e1, e2, n, tolerance, size = triangles
    o, d = spread_three(ray, ORIGIN), spread_three(ray, DIRECTION)
    margin = edge_margin(primitives, ray, tolerance)
    maybe, passes, c, den = test_edges(o, d, v0, e1, e2, n, margin)
    margin = distance_margin(primitives, ray, size, tolerance)
    within, numerator, _ = test_distance(c, den, spread(ray, LOW), splat(end, WIDTH), n, margin)
    bits, sure = np.int64(mask_bits(maybe & within)), np.int64(mask_bits(passes))
    return Filtered(bits, sure, den, numerator, margin)


@inlined
def candidates_of(ray, found):
    """Return the candidates of what the filter of a group has found for a ray."""
    size = abs(found.den)
    t, error = found.numerator / size, found.margin / size + spread(ray, SLACK)
    first, last = t - error, t + error
    sure = mask_bits((first >= spread(ray, SURE_LOW)) & (last <= spread(ray, SURE_HIGH)))
    return Candidates(found.bits, found.bits & found.passes & sure, found.den, first, last)


@inlined
def load_closest(block, memory, slot, r):
    """Load into a slot the closest hit of ray r from a block, the end of the ray included."""
    reset_closest(memory, slot, r)
    poke(slot_integers(memory, slot), BEST, np.int64(read_int(block, r, PRIM)))
    poke(memory, slot + BEST_LOW, read_row(block, r, BEST_LOW))
    poke(memory, slot + END, read_row(block, r, END))


@inlined
def store_closest(block, memory, slot, r):
    """Store the closest hit of a slot as that of ray r of a block, the end of the ray included."""
    write_int(block, r, PRIM, peek(slot_integers(memory, slot), BEST))
    write_row(block, r, BEST_LOW, peek(memory, slot + BEST_LOW))
    write_row(block, r, END, peek(memory, slot + END))


@inlined
def _set_closest(memory, slot, prim, low, high):
    """Make a hit the closest of a slot's ray."""
    poke(slot_integers(memory, slot), BEST, prim)
    poke(memory, slot + BEST_LOW, low)
    poke(memory, slot + END, min(peek(memory, slot + END), high))


@kernel
def accept_exact(context_ref, memory, slot, prim, cull):
    """Test a primitive exactly; keep it if it is the closest, return whether it is hit."""
    stay_outlined()
    tree, rays, block = follow(context_ref)
    o, d, t_min, t_max = read_ray(rays, batch_index(block, ray_of(memory, slot)))
    scaled = scaled_ray(o, d, farthest(tree.frame))
    t, side = intersect(tree.primitives, prim, o, d, scaled, t_min, t_max, cull)
    if side == MISS:
        return False
    words, own = slot_integers(memory, slot), slot_doubles(memory, slot)
    low, high = tau_interval(tree.primitives, block, memory, slot, t)
    best = peek(words, BEST)
    if best >= 0 and high >= peek(memory, slot + BEST_LOW):
        if low > peek(memory, slot + END) or best == prim:
            return True
        # Both are hits: compare their exact distances.
        best_t = peek(own, EXACT_T)
        if peek(words, EXACT) != best:
            best_t, _ = intersect(tree.primitives, best, o, d, scaled, t_min, t_max, 0)
        if best_t < t or (best_t == t and best < prim):
            prim, t = best, best_t
            low, high = tau_interval(tree.primitives, block, memory, slot, t)
    _set_closest(memory, slot, prim, low, high)
    poke(words, EXACT, prim)
    poke(own, EXACT_T, t)
    return True


@inlined
def accept_certain(context_ref, memory, slot, prim, low, high, cull):
    """Keep a certain hit within an interval of tau if it is the closest."""
    if low > peek(memory, slot + END):
        return
    if high < peek(memory, slot + BEST_LOW):
        _set_closest(memory, slot, prim, low, high)
    else:
        accept_exact(context_ref, memory, slot, prim, cull)


@kernel
def _resolve_candidates(context_ref, memory, slot, group, bits, certain, back, any_hit, cull):
    """Decide the lanes `bits` of a triangle group, whose intervals are in SPARE, one by one."""
    stay_outlined()
    tree, _, block = follow(context_ref)
    lanes = block.lanes
    culled = culled_lanes(tree.primitives, memory, slot, cull, back)
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        prim = primitive_at(tree, memory, slot, group * WIDTH + k)
        if certain >> k & 1:
            if culled >> k & 1:
                continue
            low, high = peek(lanes, SPARE + k), peek(lanes, SPARE + WIDTH + k)
            accept_certain(context_ref, memory, slot, prim, low, high, cull)
        elif not accept_exact(context_ref, memory, slot, prim, cull):
            continue
        if any_hit:
            # Nothing is left to find.
            poke(memory, slot + END, F(-INF))
            return


def accept_closest_of_group(goal, tree, block, context_ref, memory, slot, group, found):
    """Keep the closest hit of a slot's ray with the candidates of a triangle group."""
    bits, lanes = found.bits, block.lanes
    store(lanes, SPARE, found.first)
    store(lanes, SPARE + WIDTH, found.last)
    if goal.cull == 0 and bits & (bits - 1) == 0 and bits & found.certain != 0:
        # The usual case: one hit, certain, and closer than the closest so far.
        k = lowest_bit(bits)
        high = peek(lanes, SPARE + WIDTH + k)
        if high < peek(memory, slot + BEST_LOW):
            prim = primitive_at(tree, memory, slot, group * WIDTH + k)
            _set_closest(memory, slot, prim, peek(lanes, SPARE + k), high)
            if goal.any_hit:
                poke(memory, slot + END, F(-INF))
            return
    back = np.int64(mask_bits(found.den > F(0.0)))
    _resolve_candidates(
        context_ref, memory, slot, group, bits, found.certain, back, goal.any_hit, goal.cull
    )


def accept_closest(goal, context_ref, memory, slot, prim):
    """Keep the closest hit of a slot's ray with a primitive without a filter."""
    if accept_exact(context_ref, memory, slot, prim, goal.cull) and goal.any_hit:
        poke(memory, slot + END, F(-INF))


# For each goal, its functions for the candidates of a group and for a single primitive.
ACCEPTS = {
    ClosestGoal: (accept_closest_of_group, accept_closest),
    CountGoal: (accept_closest_of_group, accept_closest),
    FirstGoal: (rank_group, rank_hit),
    AllGoal: (collect_group, collect_hit),
}


@inlined
def accept_group(goal, tree, block, context_ref, memory, slot, group, found):
    """Apply the goal to those candidates of a triangle group that count for a slot's ray."""
    bits = counted_lanes(tree.primitives, tree, context_ref, memory, slot, group, found.bits)
    if bits != 0:
        certain = found.certain & bits
        counted = Candidates(bits, certain, found.den, found.first, found.last)
        accept_candidates(goal, tree, block, context_ref, memory, slot, group, counted)


def accept_candidates(goal, tree, block, context_ref, memory, slot, group, found):
    """Apply the goal to the candidates of a triangle group."""


@by_type(accept_candidates, inline=True)
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
    found = filter_group(tree, block, memory, slot, group)
    if found.bits != 0:
        ray = ray_numbers(tree.primitives, block, memory, slot)
        candidates = candidates_of(ray, found)
        accept_group(goal, tree, block, context_ref, memory, slot, group, candidates)


def intersect_leaf(goal, tree, block, context_ref, memory, slot, child):
    """Intersect a slot's ray with a leaf of its current tree; the goal decides what is kept.

    Returns the rows of ids that were tested.
    """


@inlined
def _intersect_triangles(goal, tree, block, context_ref, memory, slot, child):
    group, count = leaf_rows(child)
    for g in range(group, group + count):
        intersect_group(goal, tree, block, context_ref, memory, slot, g)
    return group * WIDTH, (group + count) * WIDTH


@inlined
def _intersect_others(goal, tree, block, context_ref, memory, slot, child):
    first, count = leaf_rows(child)
    for i in range(first, first + count):
        accept_primitive(goal, context_ref, memory, slot, primitive_at(tree, memory, slot, i))
    return first, first + count


def _intersect_instance(goal, tree, block, context_ref, memory, slot, child):
    if kind_of(tree.primitives, instance_in(memory, slot)) == TRIANGLES:
        return _intersect_triangles(goal, tree, block, context_ref, memory, slot, child)
    return _intersect_others(goal, tree, block, context_ref, memory, slot, child)


@by_type(intersect_leaf, inline=True)
def _choose_leaf(goal, tree, block, context_ref, memory, slot, child):
    kind = primitives_class(tree)
    if kind is Instanced:
        return _intersect_instance
    return (_intersect_triangles if kind is Triangles else _intersect_others).py_func
