"""Candidates of a ray at a leaf: their filter, the exact choice of the closest hit, and ties.

The bounds of the filter depend on whether the triangles are those of a tree or moved ones of a
scene. A slot keeps its ray's closest primitive so far, with an interval of tau that surely contains
the rounded t. A hit whose interval lies before that replaces it, one behind it is dropped; where
the intervals overlap, and where the filter is unsure of a hit, exact t decide. Of equal distances,
the lowest id wins the tie.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.edge_sides import (
    NO_VERTEX,
    filtered_sides,
    passing,
    passing_nothing,
    side_at,
    turned,
)
from bvh.geometry.arithmetic.floats import INF
from bvh.geometry.triangles import distance
from bvh.runtime.jit import by_type, inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH, Vec, fma, lowest_bit, mask_bits, select, splat
from bvh.runtime.tuple_references import follow
from bvh.traversal.face_mask import selected_lanes
from bvh.traversal.rays import blocks, leaf_hits, ray_numbers, slots
from bvh.traversal.rays.blocks import batch_index
from bvh.traversal.rays.hit_details import prefetch_vertices
from bvh.traversal.rays.leaf_hits import AllGoal, FirstGoal
from bvh.traversal.rays.near_candidates import refined
from bvh.traversal.rays.ray_batch import mask_of, read_exact
from bvh.tree.arrays import pointers_at
from bvh.tree.instanced import Instanced, by_scene, kind_of, primitives_class, row_of
from bvh.tree.primitives import MISS, Triangles, corner_at, corners, distance_of, intersect, meets
from bvh.tree.rows import TRIANGLES
from bvh.tree.triangle_groups import TINY, group_at, load_group, test_distance, test_edges
from bvh.tree.wide_nodes import leaf_rows

F = np.float32


class ClosestGoal(NamedTuple):
    """Goal of a traversal: the closest hit, or with `any_hit` the first one found."""

    any_hit: bool
    cull: int  # the side whose hits do not count: 1 is the back, -1 the front, 0 neither


class CountGoal(NamedTuple):
    """The closest hit, and its cost: nodes and primitives visited for each ray."""

    any_hit: bool
    cull: int
    nodes: NDArray[np.int32]  # by the number of the ray in the batch
    tests: NDArray[np.int32]


class Filtered(NamedTuple):
    """Result of the filter of a triangle group; inside kernels."""

    bits: int  # lanes that may be hit
    passes: int  # lanes whose edges are surely passed on the inner side; of use only within `bits`
    den: Vec  # d . N, a vector; positive where the back faces the ray
    numerator: Vec  # of the distance, whose denominator is the size of den
    margin: Vec  # its error bound


class Candidates(NamedTuple):
    """Candidates of a triangle group; inside kernels."""

    bits: int  # lanes that may be hit
    certain: int  # lanes that surely are hit
    sure: int  # lanes whose distances surely are in the range of the ray
    den: Vec  # d . N, a vector; positive where the back faces the ray
    first: Vec  # the interval of tau that surely contains the hit, two vectors
    last: Vec


def _edge_margin(primitives, ray, tolerance):
    """Return the error bounds of the edge tests of a group; negative ones for unused lanes."""
    return ray_numbers.edge(ray) * tolerance


def _moved_edge_margin(primitives, ray, tolerance):
    # The tolerance of an unused lane is negative, and its margin must be, whatever is added.
    margin = fma(ray_numbers.edge(ray), tolerance, ray_numbers.edge_floor(ray))
    return select(tolerance > splat(F(0.0), WIDTH), margin, splat(F(-INF), WIDTH))


edge_margin = by_scene(_edge_margin, _moved_edge_margin)


def _distance_margin(primitives, ray, size, tolerance):
    """Return the error bounds of the distances of a group, times den."""
    return fma(ray_numbers.t_error(ray), size, splat(TINY, WIDTH))


def _moved_distance_margin(primitives, ray, size, tolerance):
    moved = fma(ray_numbers.t_slope(ray), tolerance, ray_numbers.t_floor(ray))
    return fma(ray_numbers.t_error(ray), size, moved)


distance_margin = by_scene(_distance_margin, _moved_distance_margin)


@inlined
def filter_group(tree, block, memory, slot, group):
    """Filter a triangle group for a slot's ray, without a branch."""
    _, groups, _ = slots.current_arrays(tree, memory, slot)
    ray = slots.ray_numbers(tree.primitives, block, memory, slot)
    triangles = load_group(groups, group)
    return filter_ray(tree.primitives, triangles, ray, slots.end(memory, slot))


@inlined
def filter_ray(primitives, triangles, ray, end):
    """Filter a group, from `load_group`, for a ray, by its numbers, up to tau = `end`."""
    v0, e1, e2, n, tolerance, size, _ = triangles
    o, d = ray_numbers.origin(ray), ray_numbers.direction(ray)
    margin = edge_margin(primitives, ray, tolerance)
    maybe, passes, c, den = test_edges(o, d, v0, e1, e2, n, margin)
    margin = distance_margin(primitives, ray, size, tolerance)
    low, high = ray_numbers.low(ray), splat(end, WIDTH)
    within, numerator, _ = test_distance(c, den, low, high, n, margin)
    bits, sure = np.int64(mask_bits(maybe & within)), np.int64(mask_bits(passes))
    return Filtered(bits, sure, den, numerator, margin)


@inlined
def candidates_of(ray, found):
    """Return the candidates that the filter has left for a ray, with their intervals of tau."""
    size = abs(found.den)
    t, error = found.numerator / size, found.margin / size + ray_numbers.slack(ray)
    first, last = t - error, t + error
    within = (first >= ray_numbers.sure_low(ray)) & (last <= ray_numbers.sure_high(ray))
    sure = np.int64(mask_bits(within))
    return Candidates(found.bits, found.bits & found.passes & sure, sure, found.den, first, last)


@inlined
def load_closest(block, memory, slot, r, best):
    """Give a slot to ray r of a block, with the bounds of its closest hit, primitive `best`."""
    slots.reset_closest(memory, slot, r)
    slots.set_best(memory, slot, best)
    slots.set_best_low(memory, slot, blocks.best_low(block.lanes, r))
    slots.set_end(memory, slot, blocks.end(block.lanes, r))


@inlined
def _set_closest(memory, slot, prim, low, high):
    """Make a hit the closest of a slot's ray."""
    slots.set_best(memory, slot, prim)
    slots.set_best_low(memory, slot, low)
    slots.set_end(memory, slot, min(slots.end(memory, slot), high))


@kernel
def accept_exact(context_ref, memory, slot, prim, cull):
    """Test a primitive exactly; keep it if it is the closest, return whether it is hit."""
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
    """Keep a hit of a slot's ray at the exact distance t if it is the first by (t, id)."""
    stay_outlined()
    tree, rays, block = follow(context_ref)
    best = slots.best(memory, slot)
    low, high = slots.tau_interval(tree.primitives, block, memory, slot, t)
    if best >= 0 and high >= slots.best_low(memory, slot):
        # Surely behind the closest hit; or that hit again, from another leaf.
        if low > slots.end(memory, slot) or best == prim:
            return
        # Both are hits: compare their exact distances.
        best_t = slots.exact_t(memory, slot)
        if slots.exact(memory, slot) != best:
            ray = read_exact(tree, rays, batch_index(block, slots.ray(memory, slot)))
            best_t = distance_of(tree.primitives, best, *ray, cull)
        if best_t < t or (best_t == t and best < prim):
            prim, t = best, best_t
            low, high = slots.tau_interval(tree.primitives, block, memory, slot, t)
    _set_closest(memory, slot, prim, low, high)
    slots.set_exact(memory, slot, prim)
    slots.set_exact_t(memory, slot, t)


@kernel
def _resolve_candidates(context_ref, memory, slot, group, bits, certain, sure, back, any_hit, cull):
    """Decide the lanes `bits` of a triangle group, whose intervals are stored, one by one."""
    # `certain` and `sure` are those of `Candidates`; lanes in `back` are seen from behind.
    stay_outlined()
    tree, rays, block = follow(context_ref)
    others = bits & ~certain
    while others != 0:
        prim = slots.primitive_at(tree, memory, slot, group_at(group) + lowest_bit(others))
        prefetch_vertices(tree.primitives, prim)
        others &= others - 1
    bits, certain = refined(
        tree.primitives, tree, rays, block, memory, slot, group, bits, certain, sure
    )
    # Certain ones first: what is behind them need not be decided.
    others = certain & ~slots.culled_lanes(tree.primitives, memory, slot, cull, back)
    bits &= ~certain
    while others != 0:
        k = lowest_bit(others)
        others &= others - 1
        low, high = slots.interval(memory, k)
        if high < slots.best_low(memory, slot):
            prim = slots.primitive_at(tree, memory, slot, group_at(group) + k)
            _set_closest(memory, slot, prim, low, high)
            if any_hit:
                # One hit suffices: behind -inf, nothing else is visited.
                slots.set_end(memory, slot, F(-INF))
                return
        elif low <= slots.end(memory, slot):
            # This hit may be closer: compare exact distances below.
            bits |= np.int64(1) << k
    if bits == 0:
        return
    index = batch_index(block, slots.ray(memory, slot))
    o, d, (d_scaled, floor, e, f), t_min, t_max = read_exact(tree, rays, index)
    # The sides of a vertex are computed once for all of its triangles.
    near = passing_nothing()
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
                side, vertex = filtered_sides(o, d_scaled, floor, vertices)
                if vertex != NO_VERTEX:
                    near = passing(o, d, d_scaled, turned(vertices, vertex)[0])
            if vertex != NO_VERTEX:
                # Both are hit at one t where the ray meets a vertex or an edge that they share.
                tied = (
                    best >= 0
                    and (near.through or corner_at(vertices, near.end) != NO_VERTEX)
                    and meets(tree.primitives, best, near.vertex)
                    and (near.through or meets(tree.primitives, best, near.end))
                )
                if tied and best < prim:
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


def accept_closest_of_group(goal, tree, block, context_ref, memory, slot, group, found):
    """Keep the closest hit of a slot's ray with the candidates of a triangle group."""
    bits = found.bits
    slots.set_intervals(memory, 0, (found.first, found.last))
    if goal.cull == 0 and bits & (bits - 1) == 0 and bits & found.certain != 0:
        # The usual case: one hit, certain, and closer than the closest so far.
        k = lowest_bit(bits)
        low, high = slots.interval(memory, k)
        if high < slots.best_low(memory, slot):
            prim = slots.primitive_at(tree, memory, slot, group_at(group) + k)
            _set_closest(memory, slot, prim, low, high)
            if goal.any_hit:
                slots.set_end(memory, slot, F(-INF))
            return
    back = np.int64(mask_bits(found.den > F(0.0)))
    _resolve_candidates(
        context_ref, memory, slot, group, bits, found.certain, found.sure, back, goal.any_hit,
        goal.cull,
    )  # fmt: skip


def accept_closest(goal, context_ref, memory, slot, prim):
    """Keep the hit of a slot's ray with a primitive that no filter has tested, if it is closest."""
    if accept_exact(context_ref, memory, slot, prim, goal.cull) and goal.any_hit:
        slots.set_end(memory, slot, F(-INF))


# For each goal, its functions for the candidates of a group and for a single primitive.
ACCEPTS = {
    ClosestGoal: (accept_closest_of_group, accept_closest),
    CountGoal: (accept_closest_of_group, accept_closest),
    FirstGoal: (leaf_hits.rank_group, leaf_hits.rank_hit),
    AllGoal: (leaf_hits.collect_group, leaf_hits.collect_hit),
}


def _own_faces(tree, memory, slot):
    """Return the tree, in a scene that of a leaf, whose faces a slot's ray is tested against."""
    return tree


def _faces_of_leaf(tree, memory, slot):
    return pointers_at(row_of(tree.primitives, slots.instance(memory, slot)), tree.primitives)


_faces_of = by_scene(_own_faces, _faces_of_leaf)


@inlined
def accept_group(goal, tree, block, context_ref, memory, slot, group, found):
    """Apply the goal to the candidates of a triangle group whose faces the ray's mask selects."""
    _, rays, _ = follow(context_ref)
    mask = mask_of(rays, batch_index(block, slots.ray(memory, slot)))
    bits = found.bits & selected_lanes(_faces_of(tree, memory, slot), group, mask)
    if bits != 0:
        certain = found.certain & bits
        selected = Candidates(bits, certain, found.sure, found.den, found.first, found.last)
        accept_candidates(goal, tree, block, context_ref, memory, slot, group, selected)


@by_type(inline=True)
def accept_candidates(goal, tree, block, context_ref, memory, slot, group, found):
    """Apply the goal to the candidates of a triangle group."""
    return ACCEPTS[goal.instance_class][0]


@by_type(inline=True)
def accept_primitive(goal, context_ref, memory, slot, prim):
    """Apply the goal to a primitive that no filter has tested."""
    return ACCEPTS[goal.instance_class][1]


@inlined
def intersect_group(goal, tree, block, context_ref, memory, slot, group):
    """Intersect a slot's ray with a triangle group."""
    found = filter_group(tree, block, memory, slot, group)
    if found.bits != 0:
        ray = slots.ray_numbers(tree.primitives, block, memory, slot)
        candidates = candidates_of(ray, found)
        accept_group(goal, tree, block, context_ref, memory, slot, group, candidates)


@inlined
def _intersect_triangles(goal, tree, block, context_ref, memory, slot, child):
    """Intersect a ray with the triangle groups of a leaf; see `intersect_leaf` for the result."""
    group, count = leaf_rows(child)
    for g in range(group, group + count):
        intersect_group(goal, tree, block, context_ref, memory, slot, g)
    return group, group + count, np.int64(WIDTH)


@inlined
def _intersect_others(goal, tree, block, context_ref, memory, slot, child):
    """Intersect a ray with the primitives of a leaf, one by one."""
    first, count = leaf_rows(child)
    for i in range(first, first + count):
        accept_primitive(goal, context_ref, memory, slot, slots.primitive_at(tree, memory, slot, i))
    return first, first + count, np.int64(1)


def _intersect_instance(goal, tree, block, context_ref, memory, slot, child):
    if kind_of(tree.primitives, slots.instance(memory, slot)) == TRIANGLES:
        return _intersect_triangles(goal, tree, block, context_ref, memory, slot, child)
    return _intersect_others(goal, tree, block, context_ref, memory, slot, child)


@by_type(inline=True)
def intersect_leaf(goal, tree, block, context_ref, memory, slot, child):
    """Intersect a slot's ray with a leaf of its current tree, for a goal.

    Returns (first, end, lanes): rows of ids that were tested, `end` excluded; ids in a row.
    """
    kind = primitives_class(tree)
    if kind is Instanced:
        return _intersect_instance
    return (_intersect_triangles if kind is Triangles else _intersect_others).py_func
