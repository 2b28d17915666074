"""A ray at a leaf: the filter of a group of triangles, and what it leaves to be decided."""

from __future__ import annotations

import numpy as np

from bvh.jit import inlined, kernel, stay_outlined
from bvh.leaves import GROUP_SIZE, NORMAL, SIZE, TOLERANCE, test_distance, test_edges, three
from bvh.numerics import INF
from bvh.references import follow
from bvh.simd import (
    WIDTH,
    load,
    lowest_bit,
    mask_bits,
    peek,
    poke,
    poke_int,
    splat,
    store,
)
from bvh.traversal.block import (
    BEST_LOW,
    DIRECTION,
    EDGE,
    END,
    LOW,
    ORIGIN,
    PRIM,
    SLACK,
    SPARE,
    SURE_HIGH,
    SURE_LOW,
    T_ERROR,
)
from bvh.traversal.goals import note_leaf
from bvh.traversal.offers import offer_exact, offer_sure
from bvh.wide_nodes import leaf_rows

F = np.float32


@inlined
def spread(rows, row):
    """Return a ray's number in all lanes."""
    return splat(peek(rows, row), WIDTH)


@inlined
def spread_three(rows, row):
    """Return three numbers of a ray, each in all lanes."""
    return spread(rows, row), spread(rows, row + 1), spread(rows, row + 2)


@inlined
def filter_group(tree, rows, group):
    """Filter a group of triangles for the ray whose numbers lie side by side in `rows`.

    Returns (bits, sure, den, first, last): lanes that may be hit, those that surely are, d . N,
    and the interval of tau that surely holds the hit of each.
    """
    groups, at = tree.groups, group * GROUP_SIZE
    n = three(groups, at + NORMAL * WIDTH)
    maybe, passes, c, den = test_edges(
        spread_three(rows, ORIGIN),
        spread_three(rows, DIRECTION),
        spread(rows, EDGE),
        three(groups, at),
        three(groups, at + 3 * WIDTH),
        three(groups, at + 6 * WIDTH),
        n,
        load(groups, at + TOLERANCE * WIDTH, WIDTH),
    )
    none = splat(F(0.0), WIDTH)
    if mask_bits(maybe) == 0:
        return np.int64(0), np.int64(0), den, none, none
    within, t, room = test_distance(
        c,
        den,
        spread(rows, T_ERROR),
        spread(rows, LOW),
        spread(rows, END),
        n,
        load(groups, at + SIZE * WIDTH, WIDTH),
    )
    bits = np.int64(mask_bits(maybe & within))
    if bits == 0:
        return bits, np.int64(0), den, none, none
    room = room + spread(rows, SLACK)
    first, last = t - room, t + room
    sure = mask_bits(passes & (first >= spread(rows, SURE_LOW)) & (last <= spread(rows, SURE_HIGH)))
    return bits, np.int64(sure), den, first, last


@inlined
def test_group(tree, block, query, r, rows, group, any_hit, cull):
    """Test ray r, its numbers side by side in `rows`, against a group; keep the best hit."""
    lanes = block.lanes
    bits, sure, den, first, last = filter_group(tree, rows, group)
    if bits == 0:
        return
    store(lanes, SPARE, first)
    store(lanes, SPARE + WIDTH, last)
    if cull == 0 and bits & (bits - 1) == 0 and bits & sure != 0:
        # What happens most: one hit, sure, and nearer than the best.
        k = lowest_bit(bits)
        low, high = peek(lanes, SPARE + k), peek(lanes, SPARE + WIDTH + k)
        if high < peek(lanes, r + BEST_LOW * WIDTH):
            end = min(high, peek(rows, END))
            if any_hit:
                # Nothing is left to find.
                end = F(-INF)
            poke_int(lanes, r + PRIM * WIDTH, peek(tree.ids, group * WIDTH + k))
            poke(lanes, r + BEST_LOW * WIDTH, low)
            poke(lanes, r + END * WIDTH, end)
            poke(rows, END, end)
            return
    settle(query, r, group, bits, sure, mask_bits(den > F(0.0)), any_hit, cull)
    # A hit brings the end nearer for the next group.
    poke(rows, END, peek(lanes, r + END * WIDTH))


@kernel
def settle(query, r, group, bits, sure, back, any_hit, cull):
    """Offer the lanes `bits` of a group as hits of ray r."""
    stay_outlined()
    tree, _, block = follow(query)
    lanes = block.lanes
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        prim = np.int64(peek(tree.ids, group * WIDTH + k))
        if sure >> k & 1:
            if cull != 0 and (cull > 0) == (back >> k & 1 == 1):
                continue
            low, high = peek(lanes, SPARE + k), peek(lanes, SPARE + WIDTH + k)
            offer_sure(query, block, r, prim, low, high, cull)
        elif not offer_exact(query, r, prim, cull):
            continue
        if any_hit:
            poke(lanes, r + END * WIDTH, F(-INF))
            return


def visit_triangles(primitives, tree, block, query, r, rows, code, goal):
    """Keep the best hit of ray r with the triangles of a leaf."""
    group, count = leaf_rows(code)
    note_leaf(goal, tree, block, r, group, count)
    for g in range(group, group + count):
        test_group(tree, block, query, r, rows, g, goal.any_hit, goal.cull)


def visit_solids(primitives, tree, block, query, r, rows, code, goal):
    """Keep the best hit of ray r with the solids of a leaf."""
    first, count = leaf_rows(code)
    note_leaf(goal, tree, block, r, first, count)
    for i in range(first, first + count):
        prim = np.int64(peek(tree.ids, i))
        if offer_exact(query, r, prim, goal.cull) and goal.any_hit:
            poke(block.lanes, r + END * WIDTH, F(-INF))
    poke(rows, END, peek(block.lanes, r + END * WIDTH))
