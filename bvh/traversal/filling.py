"""Rays brought to a block several at a time; what is out of the ordinary, one by one."""

from __future__ import annotations

import numpy as np

from bvh.jit import inlined, kernel
from bvh.leaves import EDGE_ERROR, T_BOUND, UNIT
from bvh.numerics import (
    INF,
    power_of_two,
    vector,
)
from bvh.primitives import is_ray
from bvh.simd import (
    WIDTH,
    as_floats,
    as_ints,
    convert,
    gather,
    greater,
    lane_numbers,
    lesser,
    load,
    load_threes,
    lowest_bit,
    mask_bits,
    peek,
    poke,
    select,
    splat,
    store,
    store_ints,
)
from bvh.traversal.block import (
    BEST_LOW,
    BLOCK,
    DIRECTION,
    EDGE,
    END,
    ENTRY,
    ENTRY_REST,
    FAR,
    HALF,
    INVERSE,
    LOW,
    NEAR,
    OCTANT,
    ORIGIN,
    PRIM,
    SHIFT,
    SLACK,
    SURE_HIGH,
    SURE_LOW,
    T_ERROR,
    T_PRIM,
    place,
    place_of_double,
)
from bvh.traversal.entrance import MARGIN, NEAR_ORIGIN, STEEPEST, prepare
from bvh.traversal.query import read_ray

F = np.float32


@inlined
def _narrow(lanes, at, value):
    """Store doubles as float32."""
    store(lanes, at, convert(value, F(0.0)))


@inlined
def _scale_lanes(biased):
    """Return 2**(biased - 1023), for biased exponents of normal numbers."""
    return as_floats(biased << 52)


@inlined
def _limit(x):
    """Keep infinities out of differences: nothing within reach of a ray is that far."""
    return greater(lesser(x, splat(2.0**1000, HALF)), splat(-(2.0**1000), HALF))


@inlined
def prepare_lanes(block, frame, r, o, d, t_min, t_max):
    """Bring HALF rays side by side to the block at r, all at once.

    Returns the bits of rays that meet the root's box, and of those that are not ordinary and must
    be brought by `prepare`: far, of extreme length, or not valid.
    """
    lanes, doubles = block.lanes, block.doubles
    s, bound = power_of_two(int(peek(frame, 3))), peek(frame, 5)
    zero = splat(0.0, HALF)
    size = greater(abs(d[0]), greater(abs(d[1]), abs(d[2])))
    k = as_ints(size) >> 52
    scale = _scale_lanes(2046 - k)
    shift = k + (int(peek(frame, 3)) - 1023)
    x, y, z = d[0] * scale, d[1] * scale, d[2] * scale
    px, py, pz = (
        (o[0] - peek(frame, 0)) * s,
        (o[1] - peek(frame, 1)) * s,
        (o[2] - peek(frame, 2)) * s,
    )
    away = greater(abs(px), greater(abs(py), abs(pz)))
    # A NaN anywhere makes the sum NaN.
    sound = ((d[0] + d[1] + d[2]) + (px + py + pz)) * 0.0 == zero
    ordinary = (
        sound
        & (k > 123)
        & (k < 1923)
        & (shift > -1000)
        & (shift < 1000)
        & (away <= NEAR_ORIGIN)
        & (t_min <= t_max)
    )
    to_local = _scale_lanes(shift + 1023)
    t0, t1 = _limit(t_min * to_local), _limit(t_max * to_local)
    start, stop = t0 - abs(t0) * 2.0**-52, t1 + abs(t1) * 2.0**-52
    entry, leave = start, stop
    room = away * 2.0**-50 + 2.0**-18 * bound
    steep, flat = splat(STEEPEST, HALF), splat(1.0 / STEEPEST, HALF)
    i0 = select(abs(x) < flat, select(x < zero, -steep, steep), 1.0 / x)
    i1 = select(abs(y) < flat, select(y < zero, -steep, steep), 1.0 / y)
    i2 = select(abs(z) < flat, select(z < zero, -steep, steep), 1.0 / z)
    a, b = ((peek(frame, 6) - px) - room) * i0, ((peek(frame, 9) - px) + room) * i0
    entry, leave = greater(entry, lesser(a, b)), lesser(leave, greater(a, b))
    a, b = ((peek(frame, 7) - py) - room) * i1, ((peek(frame, 10) - py) + room) * i1
    entry, leave = greater(entry, lesser(a, b)), lesser(leave, greater(a, b))
    a, b = ((peek(frame, 8) - pz) - room) * i2, ((peek(frame, 11) - pz) + room) * i2
    entry, leave = greater(entry, lesser(a, b)), lesser(leave, greater(a, b))
    reached = ordinary & (entry <= leave)
    meets = mask_bits(reached)
    others = mask_bits(ordinary) ^ ((1 << HALF) - 1)
    asleep = splat(-INF, HALF)
    if meets == 0:
        _narrow(lanes, r + END * WIDTH, asleep)
        return meets, others
    px, py, pz = px + entry * x, py + entry * y, pz + entry * z
    m = MARGIN * bound
    _store_axis(lanes, r, px, x, i0, m)
    _store_axis(lanes, r + WIDTH, py, y, i1, m)
    _store_axis(lanes, r + 2 * WIDTH, pz, z, i2, m)
    spread = abs(x) + abs(y) + abs(z)
    slack = abs(entry) * 2.0**-51 + (16.0 * UNIT + 2.0**-49) * bound
    up = 1.0 + 2.0**-20
    _narrow(lanes, r + EDGE * WIDTH, spread * (EDGE_ERROR * up * bound))
    _narrow(lanes, r + T_ERROR * WIDTH, splat(T_BOUND * up * bound, HALF))
    _narrow(lanes, r + LOW * WIDTH, greater(start - entry, splat(-bound, HALF)) - slack)
    _narrow(lanes, r + END * WIDTH, select(reached, (leave - entry) * up + slack, asleep))
    _narrow(lanes, r + SURE_LOW * WIDTH, (t0 - entry) + slack)
    _narrow(lanes, r + SURE_HIGH * WIDTH, (t1 - entry) - slack)
    _narrow(lanes, r + SLACK * WIDTH, slack)
    _narrow(lanes, r + BEST_LOW * WIDTH, splat(INF, HALF))
    one = splat(np.int64(1), HALF)
    none = splat(np.int64(0), HALF)
    octant = (
        select(i0 < zero, one, none)
        | (select(i1 < zero, one, none) << 1)
        | (select(i2 < zero, one, none) << 2)
    )
    store_ints(lanes, r + OCTANT * WIDTH, convert(octant, np.int32(0)))
    store_ints(lanes, r + PRIM * WIDTH, splat(np.int32(-1), HALF))
    store_ints(lanes, r + T_PRIM * WIDTH, splat(np.int32(-1), HALF))
    at = place_of_double(r, 0)
    store(doubles, at + ENTRY * WIDTH, entry)
    store(doubles, at + ENTRY_REST * WIDTH, zero)
    store(doubles, at + SHIFT * WIDTH, convert(shift, 0.0))
    return meets, others


@inlined
def _store_axis(lanes, at, p, d, i, m):
    """Store what an axis needs."""
    across, room = p * i, abs(i) * m
    _narrow(lanes, at + NEAR * WIDTH, -across - room)
    _narrow(lanes, at + FAR * WIDTH, room - across)
    _narrow(lanes, at + INVERSE * WIDTH, i)
    _narrow(lanes, at + ORIGIN * WIDTH, p)
    _narrow(lanes, at + DIRECTION * WIDTH, d)


@inlined
def _rows(array, step, consecutive, first, index):
    """Return rows of three of the rays `index`, as three vectors."""
    if step == 0:
        x, y, z = vector(array, np.int64(0))
        return splat(x, HALF), splat(y, HALF), splat(z, HALF)
    if consecutive:
        return load_threes(array, 3 * first, HALF)
    return gather(array, index, 3, 0), gather(array, index, 3, 1), gather(array, index, 3, 2)


@inlined
def _numbers(array, step, index):
    """Return numbers of the rays `index`."""
    if step == 0:
        return splat(peek(array, np.int64(0)), HALF)
    return gather(array, index, 1, 0)


@kernel
def fill(block, frame, rays, count, alive):
    """Bring the rays `block.which` to the block; list those that meet the root's box.

    Returns how many there are.
    """
    found = np.int64(0)
    whole = count // HALF * HALF
    for i in range(whole, BLOCK, HALF):
        _narrow(block.lanes, place(i) + END * WIDTH, splat(-INF, HALF))
    for i in range(0, whole, HALF):
        r = place(i)
        index = load(block.which, i, HALF)
        first = peek(block.which, i)
        # Each of them: in an order that is given, the first and the last alone would not tell.
        steps = convert(lane_numbers(HALF), np.int64(0))
        consecutive = mask_bits(index == steps + first) == (1 << HALF) - 1
        o = _rows(rays.origins, rays.o_step, consecutive, first, index)
        d = _rows(rays.directions, rays.d_step, consecutive, first, index)
        low, high = (
            _numbers(rays.t_min, rays.low_step, index),
            _numbers(rays.t_max, rays.high_step, index),
        )
        meets, others = prepare_lanes(block, frame, r, o, d, low, high)
        # Those that are out of the ordinary come one by one.
        while others != 0:
            j = lowest_bit(others)
            others &= others - 1
            meets |= _prepare_one(block, frame, rays, i + j) << j
        while meets != 0:
            poke(alive, found, r + lowest_bit(meets))
            found += 1
            meets &= meets - 1
    for i in range(whole, count):
        if _prepare_one(block, frame, rays, i):
            poke(alive, found, place(i))
            found += 1
    return found


@inlined
def _prepare_one(block, frame, rays, i):
    """Bring ray i to the block; return 1 if it meets the root's box, else 0."""
    o, d, low, high = read_ray(rays, peek(block.which, i))
    return np.int64(is_ray(o, d, low, high) and prepare(block, frame, place(i), o, d, low, high))
