"""Which of the triangles that a filter lets through is the nearest hit.

A block keeps for each ray its best hit so far, with an interval of tau that surely contains the
rounded t. A hit whose interval lies before that replaces it, one behind it is dropped; where the
intervals meet, and where the filter could not tell whether there is a hit, exact t decide.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import inlined, kernel, stay_outlined
from bvh.primitives import MISS, test
from bvh.references import follow
from bvh.simd import WIDTH, peek, peek_int, poke, poke_int
from bvh.traversal.block import (
    BEST_LOW,
    BEST_T,
    END,
    PRIM,
    T_PRIM,
    local_interval,
    number_of,
    place_of_double,
)
from bvh.traversal.query import read_ray
from bvh.triangles import scaled_ray


@inlined
def take(block, r, prim, low, high):
    """Make a hit the best of ray r."""
    lanes = block.lanes
    poke_int(lanes, r + PRIM * WIDTH, prim)
    poke(lanes, r + BEST_LOW * WIDTH, low)
    poke(lanes, r + END * WIDTH, min(peek(lanes, r + END * WIDTH), high))


@inlined
def _note(block, r, prim, t):
    """Keep the exact t of a hit."""
    poke_int(block.lanes, r + T_PRIM * WIDTH, prim)
    poke(block.doubles, place_of_double(r, BEST_T), t)


@kernel
def offer_exact(query, r, prim, cull):
    """Test a primitive exactly and keep the hit if it is the best; tell whether there is a hit."""
    stay_outlined()
    tree, rays, block = follow(query)
    o, d, t_min, t_max = read_ray(rays, peek(block.which, number_of(r)))
    scaled = scaled_ray(o, d, peek(tree.frame, 4))
    t, side = test(tree.primitives, prim, o, d, scaled, t_min, t_max, cull)
    if side == MISS:
        return False
    lanes = block.lanes
    low, high = local_interval(block, r, t)
    best = np.int64(peek_int(lanes, r + PRIM * WIDTH))
    if best < 0 or high < peek(lanes, r + BEST_LOW * WIDTH):
        take(block, r, prim, low, high)
        _note(block, r, prim, t)
    elif low <= peek(lanes, r + END * WIDTH) and best != prim:
        # Both are hits: compare their exact distances.
        best_t = peek(block.doubles, place_of_double(r, BEST_T))
        if peek_int(lanes, r + T_PRIM * WIDTH) != best:
            best_t, _ = test(tree.primitives, best, o, d, scaled, t_min, t_max, 0)
        if t < best_t or (t == best_t and prim < best):
            take(block, r, prim, low, high)
            _note(block, r, prim, t)
        else:
            low, high = local_interval(block, r, best_t)
            take(block, r, best, low, high)
            _note(block, r, best, best_t)
    return True


@inlined
def offer_sure(query, block, r, prim, low, high, cull):
    """Keep a sure hit within an interval of tau if it is the best."""
    lanes = block.lanes
    if low > peek(lanes, r + END * WIDTH):
        return
    if high < peek(lanes, r + BEST_LOW * WIDTH):
        take(block, r, prim, low, high)
    else:
        offer_exact(query, r, prim, cull)
