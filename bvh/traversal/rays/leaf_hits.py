"""Goals of several hits of a ray: all of them, or the first ones that a filter accepts.

A *filter* here is a user's function that accepts hits or not.

All hits are appended as they are found, a ray and a primitive each; `all_hits` sorts them. The
first hits are sorted by (t, id), and decided exactly, as a filter takes t, u and v. Once a ray has
`max_hits` of them, it ends at the last. Arguments are named as in `slots`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.calls.user_calls import call_filter, call_scene_filter
from bvh.runtime.compiler.lazy_modules import types
from bvh.runtime.jit import by_type, inlined, kernel, stay_outlined
from bvh.runtime.simd import lowest_bit, mask_bits, peek, poke
from bvh.runtime.tuple_references import as_pointers, borrowed, follow, makes_pointers_of
from bvh.traversal.rays import blocks, slots
from bvh.traversal.rays.blocks import BLOCK, batch_index, ray_number
from bvh.traversal.rays.ray_batch import read_exact
from bvh.tree.edge_rule import crosses, is_ahead
from bvh.tree.instanced import Ids, Instanced, by_scene, leaf_of, precedes, prim_of
from bvh.tree.primitives import BACK, MISS, intersect, weights
from bvh.tree.triangle_groups import group_at

F = np.float32


class FirstGoal(NamedTuple):
    """The `max_hits` closest hits that a filter accepts; with `any_hit`, any one accepted hit.

    `accept` and `data` are the function and the data of a `UserCall`, 0 for no filter. With `once`,
    a ray through an edge hits only one of its faces, by `edge_rule`. `cull` is the side whose hits
    do not count: 1 is the back, -1 the front, 0 neither.
    """

    any_hit: bool
    cull: int
    once: bool
    max_hits: int
    accept: object
    data: object
    hits: NearestHits


class AllGoal(NamedTuple):
    """All hits; `cull` and `once` are as in `FirstGoal`.

    If `listed`, hits are appended to `hits`; otherwise they are only counted there. With `sided`,
    which needs `once`, hits from the back count 1 and those from the front -1, for rays whose
    origin is moved by the infinitesimal of `edge_rule`: see `hit_weight`.
    """

    cull: int
    once: bool
    sided: bool
    listed: bool
    hits: FoundHits
    visits: tuple[NDArray[np.int32], ...]  # `Visits`, scratch


class NearestHits(NamedTuple):
    """Up to `max_hits` closest hits of each ray of a block; pointers inside kernels.

    The hits of ray i of the block begin at i * max_hits, sorted by (t, id).
    """

    t: NDArray[np.float64]
    prims: Ids
    counts: NDArray[np.int64]  # hits of each ray; an unused number


class FoundHits(NamedTuple):
    """Hits of a block in the order in which they were found; pointers inside kernels."""

    rays: NDArray[np.int64]  # number of the ray in the block
    prims: Ids
    # Hits of each ray, or the sum of their weights if not listed; then, those of all rays, also
    # beyond the capacity.
    counts: NDArray[np.int64]
    capacity: int  # of `rays` and `prims`


def new_nearest_hits(max_hits: int, ids: DTypeLike = np.int32) -> NearestHits:
    """Return memory for `max_hits` hits of each ray of a block, whose ids have the type `ids`."""
    size = BLOCK * max_hits
    return NearestHits(np.empty(size), np.empty(size, ids), np.empty(BLOCK + 1, np.int64))


def new_found_hits(capacity: int, ids: DTypeLike = np.int32) -> FoundHits:
    """Return memory for `capacity` hits of a block, whose ids have the type `ids`."""
    rays, prims = np.empty(capacity, np.int64), np.empty(capacity, ids)
    return FoundHits(rays, prims, np.empty(BLOCK + 1, np.int64), capacity)


@makes_pointers_of(FirstGoal)
def _first_goal_pointers(arrays):
    """Return a `FirstGoal` for kernels; its `data` is borrowed: references are not counted."""
    nearest, data = as_pointers(arrays.hits), borrowed(arrays.data)
    return FirstGoal(
        arrays.any_hit, arrays.cull, arrays.once, arrays.max_hits, arrays.accept, data, nearest
    )  # fmt: skip


def _clear_counts(goal):
    """Clear the hits of a goal for a new block of rays."""
    for i in range(BLOCK + 1):
        poke(goal.hits.counts, i, 0)


@by_type()
def begin_block(goal):
    """Clear the hits of a `FirstGoal` or an `AllGoal`; other goals have theirs in the block."""
    has_hits = goal.instance_class in (FirstGoal, AllGoal)
    return _clear_counts if has_hits else lambda goal: None


@inlined
def append_hit(goal, r, prim, weight):
    """Append a hit of the ray at lane index r to an `AllGoal` that is `listed`; else only count it.

    Listed hits count 1 each, and those beyond the capacity are counted without being stored. Hits
    of a goal that is not listed count `weight`, from `hit_weight`.
    """
    found = goal.hits
    i, size = ray_number(r), peek(found.counts, BLOCK)
    poke(found.counts, i, peek(found.counts, i) + (1 if goal.listed else weight))
    if not goal.listed:
        return
    poke(found.counts, BLOCK, size + 1)
    if size < found.capacity:
        poke(found.rays, size, i)
        poke(found.prims, size, prim)


@kernel
def hit_weight(context_ref, r, prim, cull, once, sided):
    """Return 1 if the ray at lane index r hits `prim`, else 0; if `sided`, -1 for a front hit.

    The test is exact. Hits on the side `cull` (1: back, -1: front) do not count. With `once`,
    `edge_rule` decides which face a ray through an edge hits, and if `sided`, also whether a ray
    hits a face that it begins on.
    """
    stay_outlined()
    tree, rays, block = follow(context_ref)
    ray = read_exact(tree, rays, batch_index(block, r))
    t, side = intersect(tree.primitives, prim, *ray, cull)
    if side == MISS or (once and not crosses(tree.primitives, prim, ray[0], ray[1])):
        return np.int64(0)
    if not sided:
        return np.int64(1)
    if t == 0.0 and not is_ahead(tree.primitives, prim, side):
        return np.int64(0)
    return np.int64(side)  # 1: the back, -1: the front


@inlined
def collect_hit(goal, context_ref, memory, slot, prim):
    """Test a slot's ray against a primitive exactly; append the hit, if any, to an `AllGoal`."""
    r = slots.ray(memory, slot)
    weight = hit_weight(context_ref, r, prim, goal.cull, goal.once, goal.sided)
    if weight != 0:
        append_hit(goal, r, prim, weight)


def collect_group(goal, tree, context_ref, memory, slot, group, candidates):
    """Append the hits of a slot's ray among the `Candidates` of a triangle group to an `AllGoal`.

    Candidates that are not certain are tested exactly.
    """
    back = np.int64(mask_bits(candidates.den > F(0.0)))
    culled = slots.culled_lanes(tree.primitives, memory, slot, goal.cull, back)
    # Lanes whose backs the ray meets in the world: those that culling the back would exclude.
    from_back = slots.culled_lanes(tree.primitives, memory, slot, BACK, back)
    r, bits = slots.ray(memory, slot), candidates.bits
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        prim = slots.primitive_at(tree, memory, slot, group_at(group) + k)
        if candidates.certain >> k & 1:
            # A ray that surely passes all edges meets none of them, so no edge rule applies.
            if not culled >> k & 1:
                # The weight is 1, but -1 for a sided hit from the front, as in `hit_weight`.
                exits = not goal.sided or from_back >> k & 1 == 1
                append_hit(goal, r, prim, np.int64(1) if exits else np.int64(-1))
        else:
            collect_hit(goal, context_ref, memory, slot, prim)


# What a filter gets to know of a primitive: its id, in a scene its instance and its id there.
_named = by_scene(
    lambda primitives, prim: (prim,),
    lambda primitives, prim: (peek(primitives.owners, leaf_of(prim)), prim_of(prim)),
)


@by_type()
def accepts(accept, primitives, ray, prim, t, u, v, data):
    """Return whether a filter accepts a hit, (t, u, v) on `prim`, of ray number `ray` of the batch.

    `accept` is the address of the filter, 0 for none, or a compiled function, and `data` what it is
    called with. `prim` is an id, or a scene's code, of which the filter gets instance and id.
    """
    if isinstance(accept, types.Dispatcher):
        return lambda accept, primitives, ray, prim, t, u, v, data: bool(
            accept(ray, *_named(primitives, prim), t, u, v, data)
        )
    call = call_scene_filter if primitives.instance_class is Instanced else call_filter
    return lambda accept, primitives, ray, prim, t, u, v, data: (
        accept == 0 or call(accept, (ray, *_named(primitives, prim), t, u, v, data))
    )


@by_type(inline=True)
def has_filter(accept):
    """Return whether there is a filter: a compiled function, or an address that is not 0."""
    if isinstance(accept, types.Dispatcher):
        return lambda accept: True
    return lambda accept: accept != 0


def rank_group(goal, tree, context_ref, memory, slot, group, candidates):
    """Insert hits among `Candidates`, each tested exactly, into the first hits of a slot's ray."""
    bits = candidates.bits
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        prim = slots.primitive_at(tree, memory, slot, group_at(group) + k)
        _rank(goal, context_ref, memory, slot, prim)


def rank_hit(goal, context_ref, memory, slot, prim):
    """Insert the hit, if any, of a slot's ray on a primitive into the ray's first hits.

    The goal is a `FirstGoal`. A ray that has `max_hits` hits ends at the last one; with `any_hit`
    it is done after the first.
    """
    _rank(goal, context_ref, memory, slot, prim)


@kernel
def _rank(goal, context_ref, memory, slot, prim):
    """Insert the hit of a slot's ray on `prim` into its first hits: `rank_hit`, not inlined."""
    stay_outlined()
    # A primitive of the same leaf that was tested before may have ended the ray.
    if goal.any_hit and slots.end(memory, slot) == F(-INF):
        return
    tree, _, block = follow(context_ref)
    r = slots.ray(memory, slot)
    inserted = _insert(goal, context_ref, r, prim)
    first, count = ray_number(r) * goal.max_hits, peek(goal.hits.counts, ray_number(r))
    if goal.any_hit:
        if inserted:
            slots.set_end(memory, slot, F(-INF))
    elif count == goal.max_hits:
        # End the ray at its last hit, in the slot and in the block, whose end is that in the TLAS.
        t = peek(goal.hits.t, first + count - 1)
        _, high = slots.tau_interval(tree.primitives, block, memory, slot, t)
        slots.set_end(memory, slot, min(slots.end(memory, slot), high))
        _, high = blocks.tau_around(block, r, t)
        blocks.set_end(block.lanes, r, min(blocks.end(block.lanes, r), high))


@inlined
def _insert(goal, context_ref, r, prim):
    """Insert the hit of the ray at r on `prim` into its first hits; return whether that is done.

    It is not done for a miss, for a hit that is not among the first or is one of them already, and
    for a hit that the edge rule or the filter rejects.
    """
    tree, rays, block = follow(context_ref)
    hits, number = goal.hits, ray_number(r)
    index = batch_index(block, r)
    ray = read_exact(tree, rays, index)
    t, side = intersect(tree.primitives, prim, *ray, goal.cull)
    if side == MISS:
        return False
    first = number * goal.max_hits
    count = peek(hits.counts, number)
    # Find its place among the sorted hits, from the last one to the first.
    place = count
    while place > 0 and _before(tree.primitives, t, prim, hits, first + place - 1):
        place -= 1
    if place == goal.max_hits:
        return False
    if place > 0 and peek(hits.prims, first + place - 1) == prim:
        # The same hit, from another leaf.
        return False
    if goal.once and not crosses(tree.primitives, prim, ray[0], ray[1]):
        return False
    # Only a filter needs u and v.
    if has_filter(goal.accept):
        u, v = weights(tree.primitives, prim, *ray)
        if not accepts(goal.accept, tree.primitives, index, prim, t, u, v, goal.data):
            return False
    # Move the hits behind it; the last one is lost if there are `max_hits` already.
    last = min(count, goal.max_hits - 1)
    for j in range(last, place, -1):
        poke(hits.t, first + j, peek(hits.t, first + j - 1))
        poke(hits.prims, first + j, peek(hits.prims, first + j - 1))
    poke(hits.t, first + place, t)
    poke(hits.prims, first + place, prim)
    poke(hits.counts, number, last + 1)
    # Callers read the closest hit, or whether there is any, from the block.
    blocks.set_closest_primitive(tree.primitives, block, r, np.int64(peek(hits.prims, first)))
    return True


@inlined
def _before(primitives, t, prim, hits, i):
    """Return whether a hit at t on `prim` comes before hit i of the `NearestHits`, by (t, id)."""
    other = peek(hits.t, i)
    return t < other or (t == other and precedes(primitives, prim, peek(hits.prims, i)))
