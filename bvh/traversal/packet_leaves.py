"""A packet of rays at a leaf: its box against vectors of rays, then triangle by triangle."""

from __future__ import annotations

import numpy as np

from bvh.jit import inlined, kernel, stay_outlined
from bvh.leaves import GROUP_SIZE, NORMAL, SIZE, TOLERANCE, test_distance, test_edges
from bvh.numerics import INF
from bvh.references import follow
from bvh.simd import (
    WIDTH,
    fma,
    greater,
    lesser,
    load,
    load_ints,
    lowest_bit,
    mask_bits,
    peek,
    poke,
    popcount,
    select,
    splat,
    store,
    store_ints,
)
from bvh.traversal.block import (
    BEST_LOW,
    DIRECTION,
    EDGE,
    END,
    FAR,
    GROUP,
    INVERSE,
    LOW,
    NEAR,
    ORIGIN,
    PRIM,
    SLACK,
    SPARE,
    SURE_HIGH,
    SURE_LOW,
    T_ERROR,
)
from bvh.traversal.leaf_visits import test_group
from bvh.traversal.offers import offer_exact, offer_sure
from bvh.wide_nodes import leaf_rows

F = np.float32
# Rays of a vector that enter a leaf, at least, for it to be tested triangle by triangle.
ENOUGH = WIDTH // 2


@inlined
def _enter_box(blocks, box, lanes, at, planes):
    """Return which rays of a vector enter a box."""
    nx, ny, nz, fx, fy, fz = planes
    ix, iy, iz = (
        load(lanes, at + INVERSE * WIDTH, WIDTH),
        load(lanes, at + (INVERSE + 1) * WIDTH, WIDTH),
        load(lanes, at + (INVERSE + 2) * WIDTH, WIDTH),
    )
    tx = fma(splat(peek(blocks, box + nx), WIDTH), ix, load(lanes, at + NEAR * WIDTH, WIDTH))
    ty = fma(splat(peek(blocks, box + ny), WIDTH), iy, load(lanes, at + (NEAR + 1) * WIDTH, WIDTH))
    tz = fma(splat(peek(blocks, box + nz), WIDTH), iz, load(lanes, at + (NEAR + 2) * WIDTH, WIDTH))
    first = greater(greater(tx, ty), greater(tz, splat(F(0.0), WIDTH)))
    tx = fma(splat(peek(blocks, box + fx), WIDTH), ix, load(lanes, at + FAR * WIDTH, WIDTH))
    ty = fma(splat(peek(blocks, box + fy), WIDTH), iy, load(lanes, at + (FAR + 1) * WIDTH, WIDTH))
    tz = fma(splat(peek(blocks, box + fz), WIDTH), iz, load(lanes, at + (FAR + 2) * WIDTH, WIDTH))
    last = lesser(lesser(tx, ty), lesser(tz, load(lanes, at + END * WIDTH, WIDTH)))
    return mask_bits(first <= last)


@inlined
def test_packet_leaf(tree, block, query, stack, begin, end, code, box, planes, any_hit, cull):
    """Test a packet's rays against a leaf; tell whether any of them has a new best hit."""
    lanes = block.lanes
    group, count = leaf_rows(code)
    changed = False
    # As many as there are lanes, which the compiler must not see: it would write the loop out.
    triangles = WIDTH + np.int64(code > 0)
    for at in range(begin, end, GROUP):
        inside = _enter_box(tree.blocks, box, lanes, at, planes)
        if inside == 0:
            continue
        if popcount(inside) < ENOUGH:
            while inside != 0:
                r = at + lowest_bit(inside)
                inside &= inside - 1
                for row in range(SLACK + 1):
                    poke(stack.rows, row, peek(lanes, r + row * WIDTH))
                for g in range(group, group + count):
                    test_group(tree, block, query, r, stack.rows, g, any_hit, cull)
            changed = True
            continue
        for g in range(group, group + count):
            for k in range(triangles):
                if _triangle(tree, block, query, at, g, k, any_hit, cull):
                    changed = True
    return changed


@inlined
def _three(lanes, at, row):
    return (
        load(lanes, at + row * WIDTH, WIDTH),
        load(lanes, at + (row + 1) * WIDTH, WIDTH),
        load(lanes, at + (row + 2) * WIDTH, WIDTH),
    )


@inlined
def _corner(groups, at):
    return (
        splat(peek(groups, at), WIDTH),
        splat(peek(groups, at + WIDTH), WIDTH),
        splat(peek(groups, at + 2 * WIDTH), WIDTH),
    )


@inlined
def _triangle(tree, block, query, at, group, k, any_hit, cull):
    """Test a vector of rays against one triangle; tell whether a best hit may have changed."""
    lanes, groups = block.lanes, tree.groups
    base = group * GROUP_SIZE + k
    tolerance = peek(groups, base + TOLERANCE * WIDTH)
    if tolerance < F(0.0):
        return False
    n = _corner(groups, base + NORMAL * WIDTH)
    maybe, passes, c, den = test_edges(
        _three(lanes, at, ORIGIN),
        _three(lanes, at, DIRECTION),
        load(lanes, at + EDGE * WIDTH, WIDTH),
        _corner(groups, base),
        _corner(groups, base + 3 * WIDTH),
        _corner(groups, base + 6 * WIDTH),
        n,
        splat(tolerance, WIDTH),
    )
    if mask_bits(maybe) == 0:
        return False
    end = load(lanes, at + END * WIDTH, WIDTH)
    within, t, room = test_distance(
        c,
        den,
        load(lanes, at + T_ERROR * WIDTH, WIDTH),
        load(lanes, at + LOW * WIDTH, WIDTH),
        end,
        n,
        splat(peek(groups, base + SIZE * WIDTH), WIDTH),
    )
    maybe = maybe & within & (end > F(-INF))
    bits = mask_bits(maybe)
    if bits == 0:
        return False
    prim = np.int32(peek(tree.ids, group * WIDTH + k))
    room = room + load(lanes, at + SLACK * WIDTH, WIDTH)
    low, high = t - room, t + room
    sure = (
        maybe
        & passes
        & (low >= load(lanes, at + SURE_LOW * WIDTH, WIDTH))
        & (high <= load(lanes, at + SURE_HIGH * WIDTH, WIDTH))
    )
    if cull != 0:
        # Drop sure hits from the side that is not asked for.
        zero = splat(F(0.0), WIDTH)
        unseen = mask_bits(sure & (den > zero if cull > 0 else den < zero))
        bits &= ~unseen
        if bits == 0:
            return False
        sure = sure & (den < zero if cull > 0 else den > zero)
    best_low = load(lanes, at + BEST_LOW * WIDTH, WIDTH)
    # What is surely nearer than the best replaces it, in all lanes at once.
    better = sure & (low <= end) & (high < best_low)
    if mask_bits(better) != 0:
        # Minima, for a choice between old and new would become a masked store, which may be slow.
        none = splat(F(INF), WIDTH)
        held = load_ints(lanes, at + PRIM * WIDTH, WIDTH)
        store_ints(lanes, at + PRIM * WIDTH, select(better, splat(prim, WIDTH), held))
        store(lanes, at + BEST_LOW * WIDTH, lesser(select(better, low, none), best_low))
        nearer = splat(F(-INF), WIDTH) if any_hit else high
        store(lanes, at + END * WIDTH, lesser(select(better, nearer, none), end))
    bits &= ~mask_bits(better | (sure & (low > end)))
    if bits != 0:
        store(lanes, SPARE, low)
        store(lanes, SPARE + WIDTH, high)
        settle_rays(query, at, np.int64(prim), bits, mask_bits(sure), any_hit, cull)
    return True


@kernel
def settle_rays(query, at, prim, bits, sure, any_hit, cull):
    """Offer a triangle as a hit to those rays of a vector that the lanes could not settle."""
    stay_outlined()
    _, _, block = follow(query)
    lanes = block.lanes
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        if sure >> k & 1:
            low, high = peek(lanes, SPARE + k), peek(lanes, SPARE + WIDTH + k)
            offer_sure(query, block, at + k, prim, low, high, cull)
        elif not offer_exact(query, at + k, prim, cull):
            continue
        if any_hit:
            poke(lanes, at + k + END * WIDTH, F(-INF))
