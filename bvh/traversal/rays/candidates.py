"""Candidates for the closest hit, decided exactly; of equal distances, the lowest id wins the tie.

A slot keeps its ray's closest primitive so far, with an interval of tau that surely contains the
rounded t. A hit whose interval lies before that replaces it, one behind it is dropped; where the
intervals overlap, and where the filter is unsure of a hit, exact t decide.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.geometry.triangles import scaled_ray
from bvh.runtime.jit import by_type, inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH, lowest_bit, mask_bits, peek, poke, store
from bvh.runtime.tuple_references import follow
from bvh.traversal.rays.ray_batch import read_ray
from bvh.traversal.rays.ray_block import (
    BEST_LOW,
    END,
    PRIM,
    PRIM_INSTANCE,
    SPARE,
    batch_index,
    local_interval,
    read_int,
    read_row,
    write_int,
    write_row,
)
from bvh.traversal.rays.ray_slots import (
    BEST,
    EXACT,
    EXACT_T,
    current_arrays,
    instance_in,
    ray_of,
    reset_closest,
    slot_doubles,
    slot_integers,
    slot_interval,
)
from bvh.tree.frame import farthest
from bvh.tree.instanced import Instanced, code_of, is_mirrored, leaf_of, prim_of
from bvh.tree.primitives import MISS, intersect

F = np.float32


class Candidates(NamedTuple):
    """Result of the filter of a triangle group; inside kernels."""

    bits: Any  # lanes that may be hit
    certain: Any  # lanes that surely are hit
    den: Any  # d . N, a vector; positive where the back faces the ray
    first: Any  # the interval of tau that surely contains the hit, two vectors
    last: Any


def closest_primitive(primitives, block, r):
    """Return the closest primitive of ray r of a block, an id or a scene's code; -1 for none."""


def _closest_id(primitives, block, r):
    return np.int64(read_int(block, r, PRIM))


def _closest_code(primitives, block, r):
    prim = np.int64(read_int(block, r, PRIM))
    if prim < 0:
        return prim
    return code_of(read_int(block, r, PRIM_INSTANCE), prim)


@by_type(closest_primitive, inline=True)
def _choose_closest(primitives, block, r):
    return _closest_code if primitives.instance_class is Instanced else _closest_id


def set_closest_primitive(primitives, block, r, prim):
    """Write the closest primitive of ray r of a block."""


def _set_closest_id(primitives, block, r, prim):
    write_int(block, r, PRIM, prim)


def _set_closest_code(primitives, block, r, prim):
    # The halves of -1 are -1.
    write_int(block, r, PRIM, prim_of(prim))
    write_int(block, r, PRIM_INSTANCE, leaf_of(prim))


@by_type(set_closest_primitive, inline=True)
def _choose_set_closest(primitives, block, r, prim):
    return _set_closest_code if primitives.instance_class is Instanced else _set_closest_id


def primitive_of(primitives, memory, slot, prim):
    """Return the primitive of the query with an id in the current tree of a slot's ray."""


@by_type(primitive_of, inline=True)
def _choose_primitive(primitives, memory, slot, prim):
    if primitives.instance_class is Instanced:
        return lambda primitives, memory, slot, prim: code_of(instance_in(memory, slot), prim)
    return lambda primitives, memory, slot, prim: np.int64(prim)


def back_lanes(primitives, memory, slot, back):
    """Return the lanes whose back faces the ray in the world, from those in their tree."""


def _back_lanes_in_scene(primitives, memory, slot, back):
    # Bits of a group only: all of them are flipped.
    return ~back if is_mirrored(primitives, instance_in(memory, slot)) else back


@by_type(back_lanes, inline=True)
def _choose_back_lanes(primitives, memory, slot, back):
    if primitives.instance_class is Instanced:
        return _back_lanes_in_scene
    return lambda primitives, memory, slot, back: back


def tau_interval(primitives, block, memory, slot, t):
    """Return (low, high) in float32 around the tau of an exact t, in units of the slot's tree."""


@by_type(tau_interval, inline=True)
def _choose_interval(primitives, block, memory, slot, t):
    if primitives.instance_class is Instanced:
        return lambda primitives, block, memory, slot, t: slot_interval(
            block, memory, slot, ray_of(memory, slot), t
        )
    return lambda primitives, block, memory, slot, t: local_interval(block, ray_of(memory, slot), t)


@inlined
def is_culled(cull, back, lane):
    """Return whether a lane's hit is culled; `back` has the lanes whose back faces the ray."""
    return cull != 0 and (cull > 0) == (back >> lane & 1 == 1)


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


@inlined
def _set_exact(memory, slot, prim, t):
    """Keep the exact t of the closest hit."""
    poke(slot_integers(memory, slot), EXACT, prim)
    poke(slot_doubles(memory, slot), EXACT_T, t)


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
    words = slot_integers(memory, slot)
    low, high = tau_interval(tree.primitives, block, memory, slot, t)
    best = peek(words, BEST)
    if best < 0 or high < peek(memory, slot + BEST_LOW):
        _set_closest(memory, slot, prim, low, high)
        _set_exact(memory, slot, prim, t)
    elif low <= peek(memory, slot + END) and best != prim:
        # Both are hits: compare their exact distances.
        best_t = peek(slot_doubles(memory, slot), EXACT_T)
        if peek(words, EXACT) != best:
            best_t, _ = intersect(tree.primitives, best, o, d, scaled, t_min, t_max, 0)
        if t < best_t or (t == best_t and prim < best):
            _set_closest(memory, slot, prim, low, high)
            _set_exact(memory, slot, prim, t)
        else:
            low, high = tau_interval(tree.primitives, block, memory, slot, best_t)
            _set_closest(memory, slot, best, low, high)
            _set_exact(memory, slot, best, best_t)
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
    _, _, ids = current_arrays(tree, memory, slot)
    back = back_lanes(tree.primitives, memory, slot, back)
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        prim = primitive_of(tree.primitives, memory, slot, peek(ids, group * WIDTH + k))
        if certain >> k & 1:
            if is_culled(cull, back, k):
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
            _, _, ids = current_arrays(tree, memory, slot)
            prim = primitive_of(tree.primitives, memory, slot, peek(ids, group * WIDTH + k))
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
