"""Candidates of a ray at a leaf: their filter, the exact choice of the closest hit, and ties.

A slot stores its ray's closest primitive so far, with an interval of tau, best_low..end, that
surely contains the rounded hit. A hit whose interval lies before that replaces it, one behind it is
dropped; where they overlap, and where the filter is unsure of a hit, exact distances decide. Of
hits at equal distances, the one with the lowest id is the closest.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic import edge_sides
from bvh.geometry.arithmetic.edge_sides import NO_VERTEX, passing, side_at, turned
from bvh.geometry.arithmetic.floats import INF
from bvh.geometry.triangles import distance
from bvh.runtime.jit import by_type, inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH, Vec, fma, lowest_bit, mask_bits, select, splat
from bvh.runtime.tuple_references import follow
from bvh.traversal.rays import blocks, leaf_hits, ray_numbers, slots
from bvh.traversal.rays.blocks import batch_index
from bvh.traversal.rays.hit_details import prefetch_vertices
from bvh.traversal.rays.leaf_hits import AllGoal, FirstGoal
from bvh.traversal.rays.near_candidates import refined
from bvh.traversal.rays.ray_batch import mask_of, read_exact
from bvh.traversal.rays.slots import Filtered
from bvh.tree.arrays import pointers_at
from bvh.tree.face_bits import selected_lanes
from bvh.tree.instanced import Instanced, by_scene, kind_of, precedes, primitives_class, row_of
from bvh.tree.primitives import MISS, Triangles, corner_at, corners, distance_of, intersect, meets
from bvh.tree.rows import TRIANGLES
from bvh.tree.triangle_groups import TINY, group_at, load_group, test_distance, test_edges
from bvh.tree.wide_nodes import leaf_rows

F = np.float32


class ClosestGoal(NamedTuple):
    """Goal of a traversal: the closest hit of each ray, or with `any_hit` any one of them."""

    any_hit: bool
    cull: int  # the side whose hits do not count: 1 is the back, -1 the front, 0 neither


class CountGoal(NamedTuple):
    """As `ClosestGoal`, with counts of the work for each ray, by its number in the batch."""

    any_hit: bool
    cull: int
    nodes: NDArray[np.int32]  # nodes visited
    tests: NDArray[np.int32]  # primitives tested


class Candidates(NamedTuple):
    """The triangles of a group that a ray may hit; inside kernels. Integers are bits of lanes."""

    bits: int  # lanes that may be hit
    certain: int  # lanes of `bits` that surely are hit
    sure: int  # lanes whose distances, if hit, surely are in the range of the ray
    den: Vec  # d . N; positive where the back faces the ray
    first: Vec  # the interval of tau, first..last, that surely contains the hit
    last: Vec


def _edge_margin(primitives, ray, tolerance):
    """Return the error bounds of the edge tests of a ray and a group; negative in unused lanes.

    `ray` are the ray's `ray_numbers`; `tolerance`, a vector, is the group's.
    """
    return ray_numbers.edge(ray) * tolerance


def _moved_edge_margin(primitives, ray, tolerance):
    """Return the error bounds of the edge tests of a ray moved into a BLAS and a group."""
    # In unused lanes the tolerance is negative; so must be the bound, whatever is added.
    margin = fma(ray_numbers.edge(ray), tolerance, ray_numbers.edge_floor(ray))
    return select(tolerance > splat(F(0.0), WIDTH), margin, splat(F(-INF), WIDTH))


def _distance_margin(primitives, ray, size, tolerance):
    """Return the error bounds of a ray's distances to a group's triangles, times abs(den).

    den is direction . normal; `size` and `tolerance`, vectors, are the group's.
    """
    return fma(ray_numbers.t_error(ray), size, splat(TINY, WIDTH))


def _moved_distance_margin(primitives, ray, size, tolerance):
    """Return the error bounds of distances, times abs(den), for a ray moved into a BLAS."""
    moved = fma(ray_numbers.t_slope(ray), tolerance, ray_numbers.t_floor(ray))
    return fma(ray_numbers.t_error(ray), size, moved)


edge_margin = by_scene(_edge_margin, _moved_edge_margin)
distance_margin = by_scene(_distance_margin, _moved_distance_margin)


@inlined
def filter_group(tree, block, memory, slot, group):
    """Return the `Filtered` of a slot's ray and triangle group `group` of its current tree."""
    _, groups, _ = slots.current_arrays(tree, memory, slot)
    ray = slots.ray_numbers(tree.primitives, block, memory, slot)
    return filter_ray(tree.primitives, load_group(groups, group), ray, slots.end(memory, slot))


@inlined
def filter_ray(primitives, triangles, ray, end):
    """Return the `Filtered` of a ray, by its `ray_numbers`, and triangles, from `load_group`.

    Hits behind the distance `end`, tau, are excluded. `primitives` selects the error bounds.
    """
    v0, e1, e2, n, tolerance, size, _ = triangles
    o, d = ray_numbers.origin(ray), ray_numbers.direction(ray)
    margin = edge_margin(primitives, ray, tolerance)
    maybe, passes, c, den = test_edges(o, d, v0, e1, e2, n, margin)
    margin = distance_margin(primitives, ray, size, tolerance)
    within, numerator, _ = test_distance(c, den, ray_numbers.low(ray), splat(end, WIDTH), n, margin)
    bits, passed = np.int64(mask_bits(maybe & within)), np.int64(mask_bits(passes))
    return Filtered(bits, passed, den, numerator, margin)


@inlined
def _candidates_of(ray, filtered, bits):
    """Return `Candidates` of the lanes `bits` of a `Filtered`; `ray` are the `ray_numbers`."""
    _, passes, den, numerator, margin = filtered
    size = abs(den)
    t, error = numerator / size, margin / size + ray_numbers.slack(ray)
    first, last = t - error, t + error
    within = (first >= ray_numbers.sure_low(ray)) & (last <= ray_numbers.sure_high(ray))
    sure = np.int64(mask_bits(within))
    return Candidates(bits, bits & passes & sure, sure, den, first, last)


@inlined
def load_closest(block, memory, slot, r, best):
    """Give a slot to the ray at r of a block, whose closest hit so far is on `best` (-1: none)."""
    slots.assign_ray(memory, slot, r)
    slots.set_best(memory, slot, best)
    slots.set_best_low(memory, slot, blocks.best_low(block.lanes, r))
    slots.set_end(memory, slot, blocks.end(block.lanes, r))


@inlined
def _set_closest(memory, slot, prim, low, high):
    """Make a hit on `prim`, with tau in low..high, the closest so far; end the ray at `high`."""
    slots.set_best(memory, slot, prim)
    slots.set_best_low(memory, slot, low)
    slots.set_end(memory, slot, min(slots.end(memory, slot), high))


@kernel
def accept_exact(context_ref, memory, slot, prim, cull):
    """Test a slot's ray exactly against `prim`, pass a hit to `accept_hit`; return whether it hits.

    Hits on the side `cull` do not count: 1 is the back, -1 the front, 0 neither.
    """
    stay_outlined()
    tree, rays, block = follow(context_ref)
    ray = read_exact(tree, rays, batch_index(block, slots.ray(memory, slot)))
    t, side = intersect(tree.primitives, prim, *ray, cull)
    if side == MISS:
        return False
    accept_hit(context_ref, memory, slot, prim, t, cull)
    return True


@kernel
def accept_hit(context_ref, memory, slot, prim, t, cull):
    """Record a hit of a slot's ray on `prim`, at the exact t, if it is the closest by (t, id).

    `cull` is as in `accept_exact`: the hit is not on that side.
    """
    stay_outlined()
    tree, rays, block = follow(context_ref)
    best = slots.best(memory, slot)
    low, high = slots.tau_interval(tree.primitives, block, memory, slot, t)
    if best >= 0 and high >= slots.best_low(memory, slot):
        # Surely behind the closest hit; or that hit again, from another leaf.
        if low > slots.end(memory, slot) or best == prim:
            return
        best_t = slots.exact_t(memory, slot)
        if slots.exact(memory, slot) != best:
            ray = read_exact(tree, rays, batch_index(block, slots.ray(memory, slot)))
            best_t = distance_of(tree.primitives, best, *ray, cull)
        if best_t < t or (best_t == t and precedes(tree.primitives, best, prim)):
            prim, t = best, best_t
            low, high = slots.tau_interval(tree.primitives, block, memory, slot, t)
    _set_closest(memory, slot, prim, low, high)
    slots.set_exact(memory, slot, prim)
    slots.set_exact_t(memory, slot, t)


@kernel
def _resolve_candidates(context_ref, memory, slot, group, bits, certain, sure, back, any_hit, cull):
    """Update the closest hit of a slot's ray with the candidates `bits` of a triangle group.

    Their intervals of tau are stored in `slots.interval`. All masks are bits of lanes: `certain`
    surely are hit, `sure` have distances in the ray's range if hit, `back` are seen from behind.
    Hits on the side `cull` (1: back, -1: front) do not count. With `any_hit`, a hit ends the ray.
    """
    stay_outlined()
    tree, rays, block = follow(context_ref)
    uncertain = bits & ~certain
    while uncertain != 0:
        prim = slots.primitive_at(tree, memory, slot, group_at(group) + lowest_bit(uncertain))
        prefetch_vertices(tree.primitives, prim)
        uncertain &= uncertain - 1
    bits, certain = refined(
        tree.primitives, tree, rays, block, memory, slot, group, bits, certain, sure
    )
    # Certain hits first: what is behind them need not be decided.
    hits = certain & ~slots.culled_lanes(tree.primitives, memory, slot, cull, back)
    bits &= ~certain
    while hits != 0:
        k = lowest_bit(hits)
        hits &= hits - 1
        low, high = slots.interval(memory, k)
        if high < slots.best_low(memory, slot):
            prim = slots.primitive_at(tree, memory, slot, group_at(group) + k)
            _set_closest(memory, slot, prim, low, high)
            if any_hit:
                slots.set_end(memory, slot, F(-INF))
                return
        elif low <= slots.end(memory, slot):
            bits |= np.int64(1) << k  # it may be closer: compare exact distances below
    if bits == 0:
        return
    index = batch_index(block, slots.ray(memory, slot))
    # d_scaled is d times a power of two, `floor` a bound of underflow, and e, f are exponents.
    o, d, (d_scaled, floor, e, f), t_min, t_max = read_exact(tree, rays, index)
    # `near`, the `Passing` of the last vertex that needed one, serves all triangles of the vertex.
    near = edge_sides.passing_nothing()
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        prim = slots.primitive_at(tree, memory, slot, group_at(group) + k)
        (low, high), best = slots.interval(memory, k), slots.best(memory, slot)
        if low > slots.end(memory, slot) or best == prim:
            continue
        tied, through = False, NO_VERTEX
        if certain >> k & 1 == 0:
            vertices = corners(tree.primitives, prim)
            side, vertex = np.int64(MISS), corner_at(vertices, near.vertex)
            if vertex == NO_VERTEX:
                # The filter decides the side, or returns a vertex by which it is to be decided.
                side, vertex = edge_sides.filtered_sides(o, d_scaled, floor, vertices)
                if vertex != NO_VERTEX:
                    near = passing(o, d, d_scaled, turned(vertices, vertex)[0])
            if vertex != NO_VERTEX:
                # This triangle and `best` are hit at one t if the ray meets what they share.
                tied = (
                    best >= 0
                    and (near.through or corner_at(vertices, near.end) != NO_VERTEX)
                    and meets(tree.primitives, best, near.vertex)
                    and (near.through or meets(tree.primitives, best, near.end))
                )
                if tied and precedes(tree.primitives, best, prim):
                    continue
                side, near = side_at(o, d, d_scaled, floor, near, turned(vertices, vertex))
                through = vertex if near.through else NO_VERTEX
            if side == MISS or side == cull:
                continue
        if tied:
            # The lower id wins; the interval stays as it is, and t, if it is stored.
            if slots.exact(memory, slot) == best:
                slots.set_exact(memory, slot, prim)
            slots.set_best(memory, slot, prim)
        elif sure >> k & 1 and high < slots.best_low(memory, slot):
            _set_closest(memory, slot, prim, low, high)
        else:
            t = distance(o, d, e, f, corners(tree.primitives, prim), through)
            if not t_min <= t <= t_max:
                continue
            accept_hit(context_ref, memory, slot, prim, t, cull)
        if any_hit:
            slots.set_end(memory, slot, F(-INF))
            return


def accept_closest_of_group(goal, tree, context_ref, memory, slot, group, candidates):
    """Update a slot's closest hit by `Candidates` of a group; if `any_hit`, a hit ends the ray."""
    bits = candidates.bits
    slots.set_intervals(memory, 0, (candidates.first, candidates.last))
    if goal.cull == 0 and bits & (bits - 1) == 0 and bits & candidates.certain != 0:
        # The usual case: one hit, certain, and closer than the closest so far.
        k = lowest_bit(bits)
        low, high = slots.interval(memory, k)
        if high < slots.best_low(memory, slot):
            prim = slots.primitive_at(tree, memory, slot, group_at(group) + k)
            _set_closest(memory, slot, prim, low, high)
            if goal.any_hit:
                slots.set_end(memory, slot, F(-INF))  # the ray is done
            return
    back = np.int64(mask_bits(candidates.den > F(0.0)))
    _resolve_candidates(
        context_ref, memory, slot, group, bits, candidates.certain, candidates.sure, back,
        goal.any_hit, goal.cull,
    )  # fmt: skip


def _accept_closest(goal, context_ref, memory, slot, prim):
    """Update a slot's closest hit by the exact test of `prim`; if `any_hit`, a hit ends the ray."""
    if accept_exact(context_ref, memory, slot, prim, goal.cull) and goal.any_hit:
        slots.set_end(memory, slot, F(-INF))  # the ray is done


# For each goal, its functions for the candidates of a group and for a single primitive.
ACCEPTS = {
    ClosestGoal: (accept_closest_of_group, _accept_closest),
    CountGoal: (accept_closest_of_group, _accept_closest),
    FirstGoal: (leaf_hits.rank_group, leaf_hits.rank_hit),
    AllGoal: (leaf_hits.collect_group, leaf_hits.collect_hit.py_func),
}


def _tree_of_instance(tree, memory, slot):
    """Return the tree, in pointers, of the instance of a scene that a slot's ray is in."""
    return pointers_at(row_of(tree.primitives, slots.instance(memory, slot)), tree.primitives)


# The tree, in pointers, that a slot's ray is in.
_current_tree = by_scene(lambda tree, memory, slot: tree, _tree_of_instance)


@inlined
def accept_group(goal, tree, block, context_ref, memory, slot, group, ray, filtered):
    """Apply the goal to the candidates in `filtered`, except faces that the ray's mask excludes.

    `ray` are the `ray_numbers` of the slot's ray; `filtered` is the `Filtered` of ray and group.
    """
    _, rays, _ = follow(context_ref)
    mask = mask_of(rays, batch_index(block, slots.ray(memory, slot)))
    bits = filtered.bits & selected_lanes(_current_tree(tree, memory, slot), group, mask)
    if bits != 0:
        candidates = _candidates_of(ray, filtered, bits)
        accept_candidates(goal, tree, context_ref, memory, slot, group, candidates)


@by_type(inline=True)
def accept_candidates(goal, tree, context_ref, memory, slot, group, candidates):
    """Apply the goal to `Candidates` of a triangle group: decide them, and record their hits."""
    of_group, _ = ACCEPTS[goal.instance_class]
    return of_group


@by_type(inline=True)
def accept_primitive(goal, context_ref, memory, slot, prim):
    """Test a slot's ray against a primitive exactly, and apply the goal to the hit, if any."""
    _, of_primitive = ACCEPTS[goal.instance_class]
    return of_primitive


@by_type(inline=True)
def in_groups(tree, memory, slot):
    """Return whether the leaves of the tree that a slot's ray is in have triangle groups."""
    kind = primitives_class(tree)
    if kind is Instanced:
        return lambda tree, memory, slot: (
            kind_of(tree.primitives, slots.instance(memory, slot)) == TRIANGLES
        )
    answer = kind is Triangles
    return lambda tree, memory, slot: answer


@inlined
def _intersect_others(goal, tree, block, context_ref, memory, slot, child):
    """Test a slot's ray exactly against the primitives of the leaf `child` for a goal."""
    first, count = leaf_rows(child)
    for i in range(first, first + count):
        accept_primitive(goal, context_ref, memory, slot, slots.primitive_at(tree, memory, slot, i))


def _intersect_instance(goal, tree, block, context_ref, memory, slot, child):
    """Test a slot's ray against the leaf `child` of its BLAS for a goal."""
    if not in_groups(tree, memory, slot):
        _intersect_others(goal, tree, block, context_ref, memory, slot, child)
        return
    first, count = leaf_rows(child)
    for group in range(first, first + count):
        filtered = filter_group(tree, block, memory, slot, group)
        if filtered.bits != 0:
            ray = slots.ray_numbers(tree.primitives, block, memory, slot)
            accept_group(goal, tree, block, context_ref, memory, slot, group, ray, filtered)


@by_type(inline=True)
def intersect_leaf(goal, tree, block, context_ref, memory, slot, child):
    """Test a slot's ray against a leaf of its tree, not of one over triangles, for a goal."""
    in_scene = primitives_class(tree) is Instanced
    return _intersect_instance if in_scene else _intersect_others.py_func
