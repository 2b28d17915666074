"""Packets: rays that visit nodes together, and leaves one triangle after the other.

A packet is a run of vectors of rays of one octant. Nodes are tested for all of its rays together,
by the interval of their origins and inverse directions: a child is left out only if no ray between
them enters it. At a leaf each vector of rays is tested against the leaf's box, and where enough of
its rays enter, against one triangle after the other; where few do, they go one by one.

The interval test. For an inverse i > 0 (and mirrored for i < 0) a near plane p is met no sooner
than min((p - o) i) over the box of origins and inverses, which its corners bound; a far plane no
later than max. With e = 2**-24, rounding of p - o (2.1 e B), of the product, of i (2.1 e B each)
and of o (1.1 e B) moves a plane by less than 8 e B, covered by a margin of 10 e B.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.arguments import aligned
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import (
    WIDTH,
    compress_order,
    fma,
    greater,
    lesser,
    load,
    load_ints,
    lowest,
    lowest_bit,
    mask_bits,
    peek,
    permute,
    poke,
    popcount,
    select,
    splat,
    store,
    store_ints,
)
from bvh.runtime.tuple_references import follow, refer
from bvh.traversal.rays.candidates import (
    accept_certain,
    accept_exact,
    intersect_group,
    load_closest,
    store_closest,
)
from bvh.traversal.rays.ray_memory import (
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
    STACK,
    STACK_CHILDREN,
    SURE_HIGH,
    SURE_LOW,
    T_ERROR,
    read_row,
)
from bvh.tree.frame import bound
from bvh.tree.triangle_groups import (
    E1,
    E2,
    NORMAL,
    SIZE,
    TINY,
    TOLERANCE,
    UNIT,
    V0,
    group_at,
    test_distance,
    test_edges,
    three,
)
from bvh.tree.wide_nodes import (
    all_planes,
    child_codes,
    child_orders,
    leaf_rows,
    near_planes,
    node_at,
    octant_shift,
)

# Rays of a packet, and the numbers of its vectors in a block.
PACKET_RAYS = 4 * WIDTH
PACKET = PACKET_RAYS // WIDTH * GROUP
F = np.float32
PACKET_MARGIN = F(10.0 * UNIT)
# Rays of a vector that must enter a leaf for it to be tested triangle by triangle.
MIN_RAYS = WIDTH // 2


class PacketStack(NamedTuple):
    """Scratch of a packet; pointers inside kernels."""

    children: NDArray[np.int32]
    entries: NDArray[np.float32]
    boxes: NDArray[np.int32]
    slot: NDArray[np.float32]  # without a stack, for rays that leave the packet at a leaf


def new_packet_stack() -> PacketStack:
    """Return the scratch of one thread."""
    return PacketStack(
        aligned(STACK, np.int32),
        aligned(STACK, np.float32),
        aligned(STACK, np.int32),
        aligned(STACK_CHILDREN, np.float32),
    )


@inlined
def _highest(vector):
    """Return the largest lane."""
    return -lowest(-vector)


@inlined
def _range(lanes, row, begin, end):
    """Return (smallest, largest) of a row over the active rays of a packet."""
    low, high = splat(F(INF), WIDTH), splat(F(-INF), WIDTH)
    for at in range(begin, end, GROUP):
        value = load(lanes, at + row * WIDTH, WIDTH)
        active = load(lanes, at + END * WIDTH, WIDTH) > F(-INF)
        low = lesser(low, select(active, value, low))
        high = greater(high, select(active, value, high))
    return lowest(low), _highest(high)


@inlined
def _end(lanes, begin, end):
    """Return the largest end of a packet's rays."""
    high = splat(F(-INF), WIDTH)
    for at in range(begin, end, GROUP):
        high = greater(high, load(lanes, at + END * WIDTH, WIDTH))
    return _highest(high)


@inlined
def _axis(lanes, axis, negative, begin, end, reach):
    """Return the interval of an axis: origins for near and far planes, and both inverses."""
    o_low, o_high = _range(lanes, ORIGIN + axis, begin, end)
    i_low, i_high = _range(lanes, INVERSE + axis, begin, end)
    margin = PACKET_MARGIN * reach
    o_low, o_high = o_low - margin, o_high + margin
    near, far = (o_low, o_high) if negative else (o_high, o_low)
    return splat(near, WIDTH), splat(far, WIDTH), splat(i_low, WIDTH), splat(i_high, WIDTH)


@inlined
def _sooner(nodes, at, axis):
    near, _, low, high = axis
    away = load(nodes, at, WIDTH) - near
    return lesser(away * low, away * high)


@inlined
def _later(nodes, at, axis):
    _, far, low, high = axis
    away = load(nodes, at, WIDTH) - far
    return greater(away * low, away * high)


@inlined
def _enter_box(nodes, box, lanes, at, planes):
    """Return which rays of a vector enter a box."""
    nx, ny, nz, fx, fy, fz = planes
    ix, iy, iz = three(lanes, at + INVERSE * WIDTH)
    near_x, near_y, near_z = three(lanes, at + NEAR * WIDTH)
    tx = fma(splat(peek(nodes, box + nx), WIDTH), ix, near_x)
    ty = fma(splat(peek(nodes, box + ny), WIDTH), iy, near_y)
    tz = fma(splat(peek(nodes, box + nz), WIDTH), iz, near_z)
    first = greater(greater(tx, ty), greater(tz, splat(F(0.0), WIDTH)))
    far_x, far_y, far_z = three(lanes, at + FAR * WIDTH)
    tx = fma(splat(peek(nodes, box + fx), WIDTH), ix, far_x)
    ty = fma(splat(peek(nodes, box + fy), WIDTH), iy, far_y)
    tz = fma(splat(peek(nodes, box + fz), WIDTH), iz, far_z)
    last = lesser(lesser(tx, ty), lesser(tz, load(lanes, at + END * WIDTH, WIDTH)))
    return mask_bits(first <= last)


@inlined
def _intersect_leaf(goal, tree, block, context_ref, stack, packet, child, box, planes):
    """Intersect a packet's rays with a leaf; return whether any may have a new closest hit.

    `packet` is where its vectors of rays begin and end, `stack` its scratch.
    """
    lanes, begin, end = block.lanes, packet[0], packet[1]
    group, count = leaf_rows(child)
    changed = False
    # The number of lanes, hidden from the compiler, which would unroll the loop.
    triangles = WIDTH + np.int64(child > 0)
    for at in range(begin, end, GROUP):
        inside = _enter_box(tree.blocks, box, lanes, at, planes)
        if inside == 0:
            continue
        if popcount(inside) < MIN_RAYS:
            while inside != 0:
                r = at + lowest_bit(inside)
                inside &= inside - 1
                _intersect_alone(goal, tree, block, context_ref, stack.slot, r, group, count)
            changed = True
            continue
        for g in range(group, group + count):
            for k in range(triangles):
                if _intersect_triangle(goal, tree, block, context_ref, stack.slot, at, g, k):
                    changed = True
    return changed


@inlined
def _intersect_alone(goal, tree, block, context_ref, memory, r, group, count):
    """Intersect ray r with the groups of a leaf, in a slot."""
    slot = np.int64(0)
    for row in range(SLACK + 1):
        poke(memory, slot + row, read_row(block, r, row))
    load_closest(block, memory, slot, r)
    for g in range(group, group + count):
        intersect_group(goal, tree, block, context_ref, memory, slot, g)
    store_closest(block, memory, slot, r)


@inlined
def _corner(groups, at):
    return (
        splat(peek(groups, at), WIDTH),
        splat(peek(groups, at + WIDTH), WIDTH),
        splat(peek(groups, at + 2 * WIDTH), WIDTH),
    )


@inlined
def _intersect_triangle(goal, tree, block, context_ref, memory, at, group, k):
    """Intersect a vector of rays with a triangle; return whether a closest hit may have changed."""
    lanes, groups, cull = block.lanes, tree.groups, goal.cull
    base = group_at(group) + k
    tolerance = peek(groups, base + TOLERANCE * WIDTH)
    if tolerance < F(0.0):
        return False
    n = _corner(groups, base + NORMAL * WIDTH)
    maybe, passes, c, den = test_edges(
        three(lanes, at + ORIGIN * WIDTH),
        three(lanes, at + DIRECTION * WIDTH),
        _corner(groups, base + V0 * WIDTH),
        _corner(groups, base + E1 * WIDTH),
        _corner(groups, base + E2 * WIDTH),
        n,
        load(lanes, at + EDGE * WIDTH, WIDTH) * splat(tolerance, WIDTH),
    )
    if mask_bits(maybe) == 0:
        return False
    end = load(lanes, at + END * WIDTH, WIDTH)
    size = splat(peek(groups, base + SIZE * WIDTH), WIDTH)
    within, t, error = test_distance(
        c,
        den,
        load(lanes, at + LOW * WIDTH, WIDTH),
        end,
        n,
        fma(load(lanes, at + T_ERROR * WIDTH, WIDTH), size, splat(TINY, WIDTH)),
    )
    maybe = maybe & within & (end > F(-INF))
    bits = mask_bits(maybe)
    if bits == 0:
        return False
    prim = np.int32(peek(tree.ids, group * WIDTH + k))
    error = error + load(lanes, at + SLACK * WIDTH, WIDTH)
    low, high = t - error, t + error
    certain = (
        maybe
        & passes
        & (low >= load(lanes, at + SURE_LOW * WIDTH, WIDTH))
        & (high <= load(lanes, at + SURE_HIGH * WIDTH, WIDTH))
    )
    if cull != 0:
        # Drop certain hits on the culled side.
        zero = splat(F(0.0), WIDTH)
        unseen = mask_bits(certain & (den > zero if cull > 0 else den < zero))
        bits &= ~unseen
        if bits == 0:
            return False
        certain = certain & (den < zero if cull > 0 else den > zero)
    best_low = load(lanes, at + BEST_LOW * WIDTH, WIDTH)
    # Hits that are surely closer than the closest so far replace it, in all lanes.
    better = certain & (low <= end) & (high < best_low)
    if mask_bits(better) != 0:
        # Minima, for a choice between old and new would become a masked store, which may be slow.
        none = splat(F(INF), WIDTH)
        before = load_ints(lanes, at + PRIM * WIDTH, WIDTH)
        store_ints(lanes, at + PRIM * WIDTH, select(better, splat(prim, WIDTH), before))
        store(lanes, at + BEST_LOW * WIDTH, lesser(select(better, low, none), best_low))
        nearer = splat(F(-INF), WIDTH) if goal.any_hit else high
        store(lanes, at + END * WIDTH, lesser(select(better, nearer, none), end))
    bits &= ~mask_bits(better | (certain & (low > end)))
    if bits != 0:
        store(lanes, SPARE, low)
        store(lanes, SPARE + WIDTH, high)
        _resolve_rays(
            context_ref, memory, at, np.int64(prim), bits, mask_bits(certain), goal.any_hit, cull
        )
    return True


@kernel
def _resolve_rays(context_ref, memory, at, prim, bits, certain, any_hit, cull):
    """Decide a triangle for the rays `bits` of a vector, whose intervals are in SPARE."""
    stay_outlined()
    _, _, block = follow(context_ref)
    lanes, slot = block.lanes, np.int64(0)
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        load_closest(block, memory, slot, at + k)
        if certain >> k & 1:
            low, high = peek(lanes, SPARE + k), peek(lanes, SPARE + WIDTH + k)
            accept_certain(context_ref, memory, slot, prim, low, high, cull)
        elif not accept_exact(context_ref, memory, slot, prim, cull):
            continue
        if any_hit:
            poke(memory, slot + END, F(-INF))
        store_closest(block, memory, slot, at + k)


@kernel
def trace_packet(context, stack, begin, end, octant, goal):
    """Trace the vectors of rays begin..end of a block, all of one octant, through a tree."""
    tree, _, block = context
    context_ref = refer(context)
    lanes, nodes = block.lanes, tree.blocks
    nx, ny, nz = near_planes(octant)
    planes = all_planes(nx, ny, nz)
    _, _, _, fx, fy, fz = planes
    shift = np.int32(octant_shift(octant))
    reach = F(bound(tree.frame))
    x = _axis(lanes, 0, octant & 1 != 0, begin, end, reach)
    y = _axis(lanes, 1, octant & 2 != 0, begin, end, reach)
    z = _axis(lanes, 2, octant & 4 != 0, begin, end, reach)
    limit = _end(lanes, begin, end)
    child, box, top = np.int64(0), np.int64(0), np.int64(0)
    while True:
        if child >= 0:
            at = node_at(child)
            first = greater(
                greater(_sooner(nodes, at + nx, x), _sooner(nodes, at + ny, y)),
                greater(_sooner(nodes, at + nz, z), splat(F(0.0), WIDTH)),
            )
            last = lesser(
                lesser(_later(nodes, at + fx, x), _later(nodes, at + fy, y)),
                lesser(_later(nodes, at + fz, z), splat(limit, WIDTH)),
            )
            order = child_orders(nodes, at) >> shift
            first = permute(first, order)
            # An unused lane gives inf - inf or inf * 0 at worst, and a NaN enters nothing.
            bits = mask_bits(first <= permute(last, order))
            if bits != 0:
                front = compress_order(bits)
                children = permute(child_codes(nodes, at), order)
                store(stack.children, top, permute(children, front))
                store(stack.entries, top, permute(first, front))
                store(
                    stack.boxes, top, (permute(order, front) & np.int32(WIDTH - 1)) + np.int32(at)
                )
                top += popcount(bits)
        elif _intersect_leaf(
            goal, tree, block, context_ref, stack, (begin, end), child, box, planes
        ):
            limit = _end(lanes, begin, end)
        # Take the next entry that does not begin behind all closest hits.
        top -= 1
        while top >= 0 and peek(stack.entries, top) > limit:
            top -= 1
        if top < 0:
            return
        child, box = np.int64(peek(stack.children, top)), np.int64(peek(stack.boxes, top))
