"""A ray of a scene at a leaf of a tree: as `leaf_visits`, `ranking` and `collecting`, but placed.

Rows of triangles are filtered as they lie in their tree; what the filter leaves open is decided on
the moved triangles in the world. Hits of different leaves meet as intervals of tau in the frame of
the leaf that the ray is in, or by their exact t.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import by_type, inlined, kernel, stay_outlined
from bvh.leaves import GROUP_SIZE, NORMAL, SIZE, TOLERANCE, three, with_sign_of
from bvh.leaves import cross as cross_lanes
from bvh.leaves import dot as dot_lanes
from bvh.numerics import INF
from bvh.placed import FLIPS, TRIANGLES, WAY_SIZE, code_of, kind_of
from bvh.primitives import MISS, test
from bvh.references import follow
from bvh.simd import (
    WIDTH,
    fma,
    greater,
    lesser,
    load,
    lowest_bit,
    mask_bits,
    peek,
    peek_int,
    pointer_to,
    poke,
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
    SLACK,
    SPARE,
    SURE_HIGH,
    SURE_LOW,
    T_ERROR,
    number_of,
)
from bvh.traversal.collecting import add_hit, touches
from bvh.traversal.goals import Collected, Counted, Nearest, Ranked
from bvh.traversal.leaf_visits import spread, spread_three
from bvh.traversal.query import read_ray
from bvh.traversal.ranking import is_done, rank
from bvh.traversal.scene_slots import (
    AT_GROUPS,
    AT_IDS,
    BEST,
    EDGE_FLOOR,
    EXACT,
    EXACT_T,
    LEAF,
    T_FLOOR,
    T_SLOPE,
    doubles_of,
    slot_interval,
    words_of,
)
from bvh.triangles import scaled_ray
from bvh.wide_nodes import leaf_rows

F = np.float32
F4, I4 = np.float32(0.0), np.int32(0)


@inlined
def filter_placed(groups, memory, slot, group):
    """Filter a group of triangles as `leaf_visits.filter_group` does, with bounds for moved ones.

    Returns (bits, sure, den, first, last).
    """
    at = group * GROUP_SIZE
    rows = slot
    v0, e1, e2 = three(groups, at), three(groups, at + 3 * WIDTH), three(groups, at + 6 * WIDTH)
    n = three(groups, at + NORMAL * WIDTH)
    tolerance = load(groups, at + TOLERANCE * WIDTH, WIDTH)
    o, d = spread_three(memory, rows + ORIGIN), spread_three(memory, rows + DIRECTION)
    c = (v0[0] - o[0], v0[1] - o[1], v0[2] - o[2])
    r = cross_lanes(c, d)
    den = dot_lanes(d, n)
    u = dot_lanes(r, e2)
    v = -dot_lanes(r, e1)
    w = (den - u) - v
    inside, outside = lesser(lesser(u, v), w), greater(greater(u, v), w)
    margin = fma(spread(memory, rows + EDGE), tolerance, spread(memory, rows + EDGE_FLOOR))
    none = splat(F(0.0), WIDTH)
    # The tolerance of an unused lane is negative.
    maybe = ((inside >= -margin) | (outside <= margin)) & (tolerance > none)
    if mask_bits(maybe) == 0:
        return np.int64(0), np.int64(0), den, none, none
    size = abs(den)
    numerator = with_sign_of(dot_lanes(n, c), den)
    margin_t = fma(
        spread(memory, rows + T_ERROR),
        load(groups, at + SIZE * WIDTH, WIDTH),
        fma(spread(memory, rows + T_SLOPE), tolerance, spread(memory, rows + T_FLOOR)),
    )
    within = (numerator <= fma(spread(memory, rows + END), size, margin_t)) & (
        numerator >= fma(spread(memory, rows + LOW), size, -margin_t)
    )
    bits = np.int64(mask_bits(maybe & within))
    if bits == 0:
        return bits, np.int64(0), den, none, none
    t = numerator / size
    room = margin_t / size + spread(memory, rows + SLACK)
    first, last = t - room, t + room
    passes = (inside > margin) | (outside < -margin)
    sure = mask_bits(
        passes
        & (first >= spread(memory, rows + SURE_LOW))
        & (last <= spread(memory, rows + SURE_HIGH))
    )
    return bits, np.int64(sure), den, first, last


@inlined
def _take(memory, slot, code, low, high):
    """Make a hit the best of a slot's ray."""
    poke(words_of(memory, slot), BEST, code)
    poke(memory, slot + BEST_LOW, low)
    poke(memory, slot + END, min(peek(memory, slot + END), high))


@inlined
def _note(memory, slot, code, t):
    """Keep the exact t of a hit."""
    poke(words_of(memory, slot), EXACT, code)
    poke(doubles_of(memory, slot), EXACT_T, t)


@kernel
def offer_placed(query, r, memory, slot, code, cull):
    """Test a primitive exactly and keep the hit if it is the best; tell whether there is a hit."""
    stay_outlined()
    tree, rays, block = follow(query)
    o, d, t_min, t_max = read_ray(rays, peek(block.which, number_of(r)))
    scaled = scaled_ray(o, d, peek(tree.frame, 4))
    t, side = test(tree.primitives, code, o, d, scaled, t_min, t_max, cull)
    if side == MISS:
        return False
    words = words_of(memory, slot)
    low, high = slot_interval(block, memory, slot, r, t)
    best = peek(words, BEST)
    if best < 0 or high < peek(memory, slot + BEST_LOW):
        _take(memory, slot, code, low, high)
        _note(memory, slot, code, t)
    elif low <= peek(memory, slot + END) and best != code:
        best_t = peek(doubles_of(memory, slot), EXACT_T)
        if peek(words, EXACT) != best:
            best_t, _ = test(tree.primitives, best, o, d, scaled, t_min, t_max, 0)
        if t < best_t or (t == best_t and code < best):
            _take(memory, slot, code, low, high)
            _note(memory, slot, code, t)
        else:
            low, high = slot_interval(block, memory, slot, r, best_t)
            _take(memory, slot, best, low, high)
            _note(memory, slot, best, best_t)
    return True


@kernel
def _settle(query, r, memory, slot, ids, leaf, group, bits, sure, back, any_hit, cull):
    """Offer the lanes `bits` of a group as hits of a slot's ray."""
    stay_outlined()
    tree, _, block = follow(query)
    if peek(tree.primitives.ways, leaf * WAY_SIZE + FLIPS) != 0.0:
        back = ~back
    lanes = block.lanes
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        code = code_of(leaf, peek(ids, group * WIDTH + k))
        if sure >> k & 1:
            if cull != 0 and (cull > 0) == (back >> k & 1 == 1):
                continue
            low, high = peek(lanes, SPARE + k), peek(lanes, SPARE + WIDTH + k)
            if low > peek(memory, slot + END):
                continue
            if high < peek(memory, slot + BEST_LOW):
                _take(memory, slot, code, low, high)
            else:
                offer_placed(query, r, memory, slot, code, cull)
        elif not offer_placed(query, r, memory, slot, code, cull):
            continue
        if any_hit:
            poke(memory, slot + END, F(-INF))
            return


def visit_leaf(goal, tree, block, query, r, memory, slot, code):
    """Test a slot's ray against a leaf of its tree, to the goal's end."""


@inlined
def _find_nearest(goal, tree, block, query, r, memory, slot, code):
    lanes = block.lanes
    words, leaf = words_of(memory, slot), np.int64(peek_int(memory, slot + LEAF))
    ids = pointer_to(peek(words, AT_IDS), I4)
    first, count = leaf_rows(code)
    if kind_of(tree.primitives, leaf) != TRIANGLES:
        for i in range(first, first + count):
            prim = code_of(leaf, peek(ids, i))
            if offer_placed(query, r, memory, slot, prim, np.int64(0)) and goal.any_hit:
                poke(memory, slot + END, F(-INF))
        return
    groups = pointer_to(peek(words, AT_GROUPS), F4)
    for g in range(first, first + count):
        bits, sure, den, low, high = filter_placed(groups, memory, slot, g)
        if bits == 0:
            continue
        store(lanes, SPARE, low)
        store(lanes, SPARE + WIDTH, high)
        if goal.cull == 0 and bits & (bits - 1) == 0 and bits & sure != 0:
            # What happens most: one hit, sure, and nearer than the best.
            k = lowest_bit(bits)
            last = peek(lanes, SPARE + WIDTH + k)
            if last < peek(memory, slot + BEST_LOW):
                prim = code_of(leaf, peek(ids, g * WIDTH + k))
                _take(memory, slot, prim, peek(lanes, SPARE + k), last)
                if goal.any_hit:
                    poke(memory, slot + END, F(-INF))
                continue
        back = mask_bits(den > F(0.0))
        _settle(query, r, memory, slot, ids, leaf, g, bits, sure, back, goal.any_hit, goal.cull)


def _visit_nearest(goal, tree, block, query, r, memory, slot, code):
    _find_nearest(goal, tree, block, query, r, memory, slot, code)


def _visit_counted(goal, tree, block, query, r, memory, slot, code):
    leaf = np.int64(peek_int(memory, slot + LEAF))
    ids = pointer_to(peek(words_of(memory, slot), AT_IDS), I4)
    lanes = WIDTH if kind_of(tree.primitives, leaf) == TRIANGLES else 1
    first, count = leaf_rows(code)
    used = np.int32(0)
    for i in range(first * lanes, (first + count) * lanes):
        used += np.int32(peek(ids, i) >= 0)
    i = peek(block.which, number_of(r))
    poke(goal.tests, i, peek(goal.tests, i) + used)
    _find_nearest(goal, tree, block, query, r, memory, slot, code)


@kernel
def _rank_placed(goal, query, r, memory, slot, code):
    """Rank a hit, and bring the end nearer if that has changed it."""
    stay_outlined()
    rank(query, r, code, goal)
    _, _, block = follow(query)
    number = number_of(r)
    if is_done(block, r, goal):
        poke(memory, slot + END, F(-INF))
    elif peek(goal.kept.counts, number) == goal.most:
        t = peek(goal.kept.t, number * goal.most + goal.most - 1)
        _, high = slot_interval(block, memory, slot, r, t)
        poke(memory, slot + END, min(peek(memory, slot + END), high))


def _visit_ranked(goal, tree, block, query, r, memory, slot, code):
    words, leaf = words_of(memory, slot), np.int64(peek_int(memory, slot + LEAF))
    ids = pointer_to(peek(words, AT_IDS), I4)
    first, count = leaf_rows(code)
    if kind_of(tree.primitives, leaf) != TRIANGLES:
        for i in range(first, first + count):
            _rank_placed(goal, query, r, memory, slot, code_of(leaf, peek(ids, i)))
            if is_done(block, r, goal):
                return
        return
    groups = pointer_to(peek(words, AT_GROUPS), F4)
    for g in range(first, first + count):
        bits, _, _, _, _ = filter_placed(groups, memory, slot, g)
        while bits != 0:
            k = lowest_bit(bits)
            bits &= bits - 1
            _rank_placed(goal, query, r, memory, slot, code_of(leaf, peek(ids, g * WIDTH + k)))
            if is_done(block, r, goal):
                return


def _visit_collected(goal, tree, block, query, r, memory, slot, code):
    words, leaf = words_of(memory, slot), np.int64(peek_int(memory, slot + LEAF))
    ids = pointer_to(peek(words, AT_IDS), I4)
    first, count = leaf_rows(code)
    cull = goal.cull
    if kind_of(tree.primitives, leaf) != TRIANGLES:
        for i in range(first, first + count):
            prim = code_of(leaf, peek(ids, i))
            if touches(query, r, prim, cull, goal.once):
                add_hit(goal.found, r, prim)
        return
    flips = np.int64(peek(tree.primitives.ways, leaf * WAY_SIZE + FLIPS) != 0.0)
    groups = pointer_to(peek(words, AT_GROUPS), F4)
    for g in range(first, first + count):
        bits, sure, den, _, _ = filter_placed(groups, memory, slot, g)
        if bits == 0:
            continue
        back = np.int64(mask_bits(den > F(0.0))) ^ -flips
        while bits != 0:
            k = lowest_bit(bits)
            bits &= bits - 1
            prim = code_of(leaf, peek(ids, g * WIDTH + k))
            if sure >> k & 1:
                if cull == 0 or (cull > 0) != (back >> k & 1 == 1):
                    add_hit(goal.found, r, prim)
            elif touches(query, r, prim, cull, goal.once):
                add_hit(goal.found, r, prim)


VISITS = {
    Nearest: _visit_nearest,
    Counted: _visit_counted,
    Ranked: _visit_ranked,
    Collected: _visit_collected,
}


@by_type(visit_leaf, inline=True)
def _choose_visit(goal, tree, block, query, r, memory, slot, code):
    return VISITS[goal.instance_class]
