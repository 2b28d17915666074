"""Moved rays: those of a packet in the BLAS of an instance, and what their packet does there.

The rays of a packet that enter an instance are set up side by side in a ray block of their own, in
the frame of the BLAS, as `instanced_rays` does it for one ray; there the packet goes on. Doubles
are those of a plain tree: with t * 2**shift - entry in the TLAS and tau = tau' * 2**k - entry' in
the BLAS, tau = t * 2**(shift + k) - (entry * 2**k + entry'), a sum in two parts.

Bounds are those of `instanced_rays`, with DELTA B, B the bound of the tree's frame, for *delta*: a
packet in which a ray, or the rounding of vertices, exceeds it is traced singly. That is e B / 64,
and the margin of the interval test of packets has e B to spare. A direction's components are below
2, so abs(dx) + abs(dy) + abs(dz) < 6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, two_sum
from bvh.runtime.arguments import aligned
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import (
    WIDTH,
    as_floats,
    as_ints,
    convert,
    full_like,
    greater,
    lane_numbers,
    lesser,
    load,
    load_ints,
    lowest_bit,
    mask_bits,
    peek,
    select,
    splat,
    store,
    store_ints,
)
from bvh.traversal.rays.packet_closest import HERE, LEAF_BEFORE, MOVED_OCTANT, PRIM_BEFORE
from bvh.traversal.rays.ray_batch import read_lanes
from bvh.traversal.rays.ray_memory import (
    BEST_LOW,
    BLOCK,
    DOUBLE_ROWS,
    EDGE_FLOOR,
    END,
    ENTRY,
    ENTRY_REST,
    GROUP,
    HALF,
    PACKET_RAYS,
    PRIM,
    PRIM_INSTANCE,
    SHIFT,
    SLACK,
    T_FLOOR,
    T_SLOPE,
    double_index,
    ray_number,
)
from bvh.traversal.rays.ray_setup import (
    MARGIN,
    NEAR_ORIGIN,
    UP,
    Limits,
    clip_axis,
    inverse_of,
    octant_of,
    write_axis,
    write_limits,
)
from bvh.tree import frame as frames
from bvh.tree.instanced import (
    BOUND,
    HIGHEST,
    LOWEST,
    NORM,
    SHIFT_ERROR,
    TRANSFORM_SIZE,
    VERTEX_ERROR,
    local_direction,
    local_point,
)
from bvh.tree.triangle_groups import EDGE_ERROR, T_BOUND, TINY, UNIT

F = np.float32
# The largest delta, as a share of the bound; scales of directions and of t.
DELTA = 2.0**-30
LEAST_SIZE, LARGEST_SIZE, MAX_SHIFT = 2.0**-400, 2.0**400, 900.0

# Rows of the state, of PACKET_RAYS doubles each: origin and direction in the TLAS, the error of the
# former, t_min and t_max there, the scale of t, and the interval of t around the closest hit.
P, X, ERROR, START, STOP, TO_TOP, LOW_T, HIGH_T, STATE_ROWS = 0, 3, 6, 7, 8, 9, 10, 11, 12


class MovedRays(NamedTuple):
    """Scratch of a packet in a scene; pointers inside kernels."""

    lanes: NDArray[np.float32]
    doubles: NDArray[np.float64]
    state: NDArray[np.float64]
    ends: NDArray[np.float32]  # of the packet's rays in the TLAS, and of those yet to be traced


def new_moved_rays() -> MovedRays:
    """Return the scratch of one thread."""
    return MovedRays(
        aligned(32 * BLOCK, np.float32),
        aligned(DOUBLE_ROWS * BLOCK, np.float64),
        aligned(STATE_ROWS * PACKET_RAYS, np.float64),
        aligned(2 * PACKET_RAYS, np.float32),
    )


@inlined
def _largest(v):
    return greater(abs(v[0]), greater(abs(v[1]), abs(v[2])))


@inlined
def _power(k):
    """Return powers of two; k is within -1022..1023, or its ray is refused."""
    return as_floats((k + 1023) << 52)


@inlined
def _limit(t):
    """Keep infinities out of differences: nothing within reach of a ray is that far."""
    return lesser(greater(t, -(2.0**500)), 2.0**500)


@inlined
def _three_rows(state, row, j):
    return (
        load(state, row * PACKET_RAYS + j, HALF),
        load(state, (row + 1) * PACKET_RAYS + j, HALF),
        load(state, (row + 2) * PACKET_RAYS + j, HALF),
    )


@kernel
def start_moving(tree, rays, block, moved, begin, end):
    """Compute what all instances that a packet's rays enter share; return whether it can move."""
    lanes, state, frame = block.lanes, moved.state, tree.frame
    s, c = frames.scale(frame), frames.centre(frame)
    sound = True
    for i in range(0, PACKET_RAYS, HALF):
        r = begin + i // WIDTH * GROUP + i % WIDTH
        store(moved.ends, i, load(lanes, r + END * WIDTH, HALF))
        on = load(lanes, r + END * WIDTH, HALF) > F(-INF)
        active = mask_bits(on)
        if active == 0:
            continue
        # Behind the last ray of a batch there are no numbers.
        first = peek(block.which, ray_number(r) + lowest_bit(active))
        which = select(on, load(block.which, ray_number(r), HALF), splat(first, HALF))
        o, d, t_min, t_max = read_lanes(rays, which)
        shift = load(block.doubles, double_index(r, SHIFT), HALF)
        entry = load(block.doubles, double_index(r, ENTRY), HALF)
        p = (o[0] - c[0]) * s, (o[1] - c[1]) * s, (o[2] - c[2]) * s
        ordinary = (
            (_largest(p) <= NEAR_ORIGIN)
            & (abs(shift) <= MAX_SHIFT)
            & (load(block.doubles, double_index(r, ENTRY_REST), HALF) == 0.0)
        )
        # The float32 tests are enabled.
        finite = load(lanes, r + SLACK * WIDTH, HALF) < F(INF)
        if active & ~(mask_bits(ordinary) & mask_bits(finite)) != 0:
            sound = False
        k = convert(lesser(greater(shift, -MAX_SHIFT), MAX_SHIFT), np.int64(0))
        unit, to_top = _power(frames.exponent(frame) - k), _power(k)
        x = d[0] * unit, d[1] * unit, d[2] * unit
        p = p[0] + entry * x[0], p[1] + entry * x[1], p[2] + entry * x[2]
        for axis in range(3):
            store(state, (P + axis) * PACKET_RAYS + i, p[axis])
            store(state, (X + axis) * PACKET_RAYS + i, x[axis])
        error = _largest(p) * 2.0**-51 + abs(entry) * 2.0**-50
        store(state, ERROR * PACKET_RAYS + i, error)
        store(state, START * PACKET_RAYS + i, _limit(t_min * to_top) - entry)
        store(state, STOP * PACKET_RAYS + i, _limit(t_max * to_top) - entry)
        store(state, TO_TOP * PACKET_RAYS + i, to_top)
        store(state, HIGH_T * PACKET_RAYS + i, full_like(entry, INF))
    return sound


@inlined
def _move_half(tree, block, moved, i, r, leaf, inside):
    """Set HALF rays up for an instance; return the bits of those that packets cannot trace."""
    lanes, state = moved.lanes, moved.state
    transforms, at = tree.primitives.transforms, leaf * TRANSFORM_SIZE
    bound, norm = peek(transforms, at + BOUND), peek(transforms, at + NORM)
    delta = DELTA * bound
    p, x = _three_rows(state, P, i), _three_rows(state, X, i)
    error = load(state, ERROR * PACKET_RAYS + i, HALF) + _largest(p) * 2.0**-50
    to_top = load(state, TO_TOP * PACKET_RAYS + i, HALF)
    before = load(block.doubles, double_index(r, ENTRY), HALF)
    shift = load(block.doubles, double_index(r, SHIFT), HALF)
    q = local_direction(transforms, at, x)
    size = _largest(q)
    k = (as_ints(size) >> 52) - 1023
    unit, scale = _power(0 - k), _power(k)
    q = q[0] * unit, q[1] * unit, q[2] * unit
    p = local_point(transforms, at, p)
    # 1 / size is at most the unit.
    lost = (_largest(p) + 4.0 * bound) * (unit * (2.0**-49 * norm) + 2.0**-50)
    lost = (lost + error * norm) + (
        peek(transforms, at + SHIFT_ERROR) + peek(transforms, at + VERTEX_ERROR)
    )
    total = convert(k, 0.0) + shift
    sound = (
        (size > LEAST_SIZE)
        & (size < LARGEST_SIZE)
        & (lost * UP <= delta)
        & (abs(total) <= MAX_SHIFT)
    )
    inverse = inverse_of(q[0]), inverse_of(q[1]), inverse_of(q[2])
    lost = (abs(before) + 4.0 * frames.bound(tree.frame)) * scale * 2.0**-50
    start = load(state, START * PACKET_RAYS + i, HALF) * scale
    stop = load(state, STOP * PACKET_RAYS + i, HALF) * scale
    high = load(state, HIGH_T * PACKET_RAYS + i, HALF)
    last = lesser(stop, (_limit(high * to_top) - before) * scale)
    entry, leave = start - abs(start) * 2.0**-50 - lost, last + abs(last) * 2.0**-50 + lost
    margin = 2.0**-18 * bound + delta
    for axis in range(3):
        low, top = peek(transforms, at + LOWEST + axis), peek(transforms, at + HIGHEST + axis)
        entry, leave = clip_axis(low, top, p[axis], inverse[axis], margin, entry, leave)
    meets = mask_bits(sound & (entry <= leave)) & inside
    for axis in range(3):
        origin = p[axis] + entry * q[axis]
        write_axis(
            lanes, r + axis * WIDTH, WIDTH, origin, q[axis], inverse[axis],
            (MARGIN * bound + delta) * UP,
        )  # fmt: skip
    spread = abs(q[0]) + abs(q[1]) + abs(q[2])
    slack = ((abs(entry) + 4.0 * bound) * 2.0**-50 + lost) + 16.0 * UNIT * bound
    low_t = load(state, LOW_T * PACKET_RAYS + i, HALF)
    first = (_limit(low_t * to_top) - before) * scale - entry - slack
    limits = Limits(
        spread * ((EDGE_ERROR * bound + 3.0 * delta) * UP),
        full_like(entry, (T_BOUND * bound + 1.1 * delta) * UP),
        greater(start - entry, full_like(entry, -bound)) - slack,
        (leave - entry) * UP + slack,
        start + abs(start) * 2.0**-50 - entry + slack,
        stop - abs(stop) * 2.0**-50 - entry - slack,
        slack,
        select(high < INF, first, full_like(entry, INF)),
    )
    write_limits(lanes, r, WIDTH, limits)
    bits = splat(np.int64(meets), HALF) >> convert(lane_numbers(HALF), np.int64(0))
    active = (bits & 1) > splat(np.int64(0), HALF)
    store(lanes, r + END * WIDTH, select(active, limits.end, full_like(entry, -INF)))
    store_ints(lanes, r + MOVED_OCTANT * WIDTH, octant_of(inverse))
    entry, rest = two_sum(before * scale, entry)
    store(moved.doubles, double_index(r, ENTRY), entry)
    store(moved.doubles, double_index(r, ENTRY_REST), rest)
    store(moved.doubles, double_index(r, SHIFT), total)
    return inside & ~mask_bits(sound)


@kernel
def move_rays(tree, block, moved, i, at, leaf, inside):
    """Set the rays `inside` of a vector up for an instance; return whether packets can trace them.

    i is the first one's number in the packet.
    """
    stay_outlined()
    lanes, transforms = moved.lanes, tree.primitives.transforms
    bad = np.int64(0)
    for h in range(0, WIDTH, HALF):
        some = np.int64(inside) >> h & ((1 << HALF) - 1)
        bad |= np.int64(_move_half(tree, block, moved, i + h, at + h, leaf, some))
    where = leaf * TRANSFORM_SIZE
    bound, error = peek(transforms, where + BOUND), peek(transforms, where + VERTEX_ERROR)
    slope, floor = F(26.0 * bound * error * UP), F(105.0 * bound * error * error * UP) + TINY
    edge = F(165.0 * bound * error * UP)
    store(lanes, at + EDGE_FLOOR * WIDTH, splat(edge, WIDTH))
    store(lanes, at + T_SLOPE * WIDTH, splat(slope, WIDTH))
    store(lanes, at + T_FLOOR * WIDTH, splat(floor, WIDTH))
    before = load_ints(block.lanes, at + PRIM * WIDTH, WIDTH)
    owner = load_ints(block.lanes, at + PRIM_INSTANCE * WIDTH, WIDTH)
    store_ints(lanes, at + PRIM_BEFORE * WIDTH, before)
    store_ints(lanes, at + LEAF_BEFORE * WIDTH, owner)
    store_ints(lanes, at + HERE * WIDTH, splat(np.int32(-1), WIDTH))
    return bad == 0


@kernel
def bring_back(block, moved, i, at, leaf):
    """Take the hits that a vector of rays has found in an instance back into the TLAS."""
    stay_outlined()
    lanes, state = moved.lanes, moved.state
    prims = load_ints(lanes, at + HERE * WIDTH, WIDTH)
    hit = prims >= np.int32(0)
    if mask_bits(hit) == 0:
        return False
    before = load_ints(block.lanes, at + PRIM * WIDTH, WIDTH)
    owner = load_ints(block.lanes, at + PRIM_INSTANCE * WIDTH, WIDTH)
    store_ints(block.lanes, at + PRIM * WIDTH, select(hit, prims, before))
    store_ints(
        block.lanes, at + PRIM_INSTANCE * WIDTH, select(hit, splat(np.int32(leaf), WIDTH), owner)
    )
    for h in range(0, WIDTH, HALF):
        r, j = at + h, i + h
        found = load_ints(lanes, r + HERE * WIDTH, HALF) >= np.int32(0)
        k = convert(load(moved.doubles, double_index(r, SHIFT), HALF), np.int64(0))
        entry = load(moved.doubles, double_index(r, ENTRY), HALF)
        rest, back = load(moved.doubles, double_index(r, ENTRY_REST), HALF), _power(0 - k)
        low = convert(load(lanes, r + BEST_LOW * WIDTH, HALF), 0.0)
        high = convert(load(lanes, r + END * WIDTH, HALF), 0.0)
        low, high = ((low + rest) + entry) * back, ((high + rest) + entry) * back
        low_at, high_at = LOW_T * PACKET_RAYS + j, HIGH_T * PACKET_RAYS + j
        store(state, low_at, select(found, low, load(state, low_at, HALF)))
        store(state, high_at, select(found, high, load(state, high_at, HALF)))
        top = high * load(state, TO_TOP * PACKET_RAYS + j, HALF)
        end = convert(load(block.lanes, r + END * WIDTH, HALF), 0.0)
        top = top - load(block.doubles, double_index(r, ENTRY), HALF)
        top = top + convert(load(block.lanes, r + SLACK * WIDTH, HALF), 0.0)
        store(block.lanes, r + END * WIDTH, select(found, lesser(top, end), end))
    store_ints(lanes, at + HERE * WIDTH, splat(np.int32(-1), WIDTH))
    return True
