"""Traversal of rays in packets, which visit nodes together.

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
from bvh.runtime.jit import by_type, inlined, kernel
from bvh.runtime.simd import (
    WIDTH,
    compress_order,
    greater,
    lesser,
    load,
    lowest,
    mask_bits,
    peek,
    permute,
    poke,
    popcount,
    select,
    splat,
    store,
)
from bvh.runtime.tuple_references import refer
from bvh.traversal.rays.packet_leaf import intersect_packet_leaf
from bvh.traversal.rays.ray_block import (
    DIRECTION,
    END,
    GROUP,
    INVERSE,
    OCTANT,
    ORIGIN,
    read_int,
)
from bvh.traversal.rays.ray_slots import STACK, STACK_CHILDREN
from bvh.traversal.rays.single_rays import trace_all
from bvh.tree.frame import bound
from bvh.tree.primitives import Triangles
from bvh.tree.triangle_groups import UNIT
from bvh.tree.wide_nodes import (
    all_planes,
    child_codes,
    child_orders,
    near_planes,
    node_at,
    octant_shift,
)

# Rays of a packet, and the numbers of its vectors in a block.
PACKET_RAYS = 4 * WIDTH
PACKET = PACKET_RAYS // WIDTH * GROUP
F = np.float32
PACKET_MARGIN = F(10.0 * UNIT)


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
        elif intersect_packet_leaf(
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


def trace_packets(primitives, context, slots, stack, active, count, goal):
    """Trace the rays `active[:count]` of a block through a tree, in packets where possible."""


def _trace_others(primitives, context, slots, stack, active, count, goal):
    trace_all(context, slots, active, count, goal)


def _trace_triangles(primitives, context, slots, stack, active, count, goal):
    block = context.block
    j = np.int64(0)
    single = np.int64(0)
    while j < count:
        # Take the rays in the vectors of one packet.
        begin = peek(active, j) // PACKET * PACKET
        octant = read_int(block, peek(active, j), OCTANT)
        same = octant < 8
        k = j
        while k < count and peek(active, k) < begin + PACKET:
            same = same and read_int(block, peek(active, k), OCTANT) == octant
            k += 1
        if same and k - j >= PACKET_RAYS // 4:
            trace_packet(context, stack, begin, begin + PACKET, np.int64(octant), goal)
        else:
            for i in range(j, k):
                poke(slots.spare, single, peek(active, i))
                single += 1
        j = k
    trace_all(context, slots, slots.spare, single, goal)


def packable(primitives, block, active, count):
    """Return whether packets may be faster: most rays of the block point as their neighbours do."""


def _never(primitives, block, active, count):
    return False


def _packable_triangles(primitives, block, active, count):
    lanes = block.lanes
    close = np.int64(0)
    tries = np.int64(0)
    # Compare some rays with those eight further on.
    for j in range(0, count - 8, 16):
        a, b = peek(active, j), peek(active, j + 8)
        apart = F(0.0)
        for axis in range(3):
            row = (DIRECTION + axis) * WIDTH
            apart += abs(peek(lanes, a + row) - peek(lanes, b + row))
        close += np.int64(apart < F(0.25))
        tries += 1
    return 2 * close > tries


@by_type(packable)
def _choose_packable(primitives, block, active, count):
    return _packable_triangles if primitives.instance_class is Triangles else _never


@by_type(trace_packets)
def _choose_trace(primitives, context, slots, stack, active, count, goal):
    return _trace_triangles if primitives.instance_class is Triangles else _trace_others
