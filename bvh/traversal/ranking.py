"""The nearest hits that a filter accepts: one of each ray, or a few.

A filter is told t, u and v, so every candidate is decided exactly; what comes behind the last of as
many hits as are wanted is never looked at.
"""

from __future__ import annotations

import numpy as np

from bvh.crossings import crosses
from bvh.jit import inlined, kernel, stay_outlined
from bvh.numerics import INF
from bvh.primitives import MISS, test, weights
from bvh.references import follow
from bvh.simd import WIDTH, lowest_bit, peek, poke
from bvh.traversal.accepting import accepts, has_filter
from bvh.traversal.block import END, local_interval, number_of
from bvh.traversal.leaf_visits import filter_group
from bvh.traversal.query import read_ray
from bvh.traversal.winners import name_winner
from bvh.triangles import scaled_ray
from bvh.wide_nodes import leaf_rows

F = np.float32


@kernel
def rank(query, r, prim, goal):
    """Put a primitive into its place among the nearest hits of ray r, if it is one of them."""
    stay_outlined()
    tree, rays, block = follow(query)
    lanes, kept = block.lanes, goal.kept
    number = number_of(r)
    ray = peek(block.which, number)
    o, d, t_min, t_max = read_ray(rays, ray)
    scaled = scaled_ray(o, d, peek(tree.frame, 4))
    t, side = test(tree.primitives, prim, o, d, scaled, t_min, t_max, goal.cull)
    if side == MISS:
        return
    first = number * goal.most
    count = peek(kept.counts, number)
    # Find its place from behind.
    at = count
    while at > 0 and _before(t, prim, kept, first + at - 1):
        at -= 1
    if at == goal.most:
        return
    if at > 0 and peek(kept.prims, first + at - 1) == prim:
        # Another leaf has had it.
        return
    if goal.once and not crosses(tree.primitives, prim, o, d):
        return
    # For a filter alone u and v are worth finding.
    if has_filter(goal.accept):
        u, v = weights(tree.primitives, prim, o, d, scaled, t_min, t_max)
        if not accepts(goal.accept, tree.primitives, ray, prim, t, u, v, goal.data):
            return
    last = min(count, goal.most - 1)
    for j in range(last, at, -1):
        poke(kept.t, first + j, peek(kept.t, first + j - 1))
        poke(kept.prims, first + j, peek(kept.prims, first + j - 1))
    poke(kept.t, first + at, t)
    poke(kept.prims, first + at, prim)
    poke(kept.counts, number, last + 1)
    name_winner(tree.primitives, block, r, np.int64(peek(kept.prims, first)))
    if goal.any_hit:
        poke(lanes, r + END * WIDTH, F(-INF))
    elif last + 1 == goal.most:
        _, high = local_interval(block, r, peek(kept.t, first + last))
        poke(lanes, r + END * WIDTH, min(peek(lanes, r + END * WIDTH), high))


@inlined
def _before(t, prim, kept, i):
    """Tell whether a hit comes before the one that is kept at i."""
    other = peek(kept.t, i)
    return t < other or (t == other and prim < peek(kept.prims, i))


@inlined
def is_done(block, r, goal):
    """Tell whether a ray that wants any hit has one."""
    return goal.any_hit and peek(block.lanes, r + END * WIDTH) == F(-INF)


def rank_triangles(primitives, tree, block, query, r, rows, code, goal):
    """Rank the hits of ray r with the triangles of a leaf."""
    group, count = leaf_rows(code)
    for g in range(group, group + count):
        bits, _, _, _, _ = filter_group(tree, rows, g)
        while bits != 0:
            k = lowest_bit(bits)
            bits &= bits - 1
            rank(query, r, np.int64(peek(tree.ids, g * WIDTH + k)), goal)
            if is_done(block, r, goal):
                bits = np.int64(0)
        poke(rows, END, peek(block.lanes, r + END * WIDTH))
        if is_done(block, r, goal):
            return


def rank_solids(primitives, tree, block, query, r, rows, code, goal):
    """Rank the hits of ray r with the solids of a leaf."""
    first, count = leaf_rows(code)
    for i in range(first, first + count):
        rank(query, r, np.int64(peek(tree.ids, i)), goal)
        if is_done(block, r, goal):
            break
    poke(rows, END, peek(block.lanes, r + END * WIDTH))
