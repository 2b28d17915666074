"""How rays are brought to a tree: into its local frame, clipped to its box, into float32 lanes.

A ray enters the local frame x' = (x - c) * 2**k with its direction scaled to a largest component in
[1, 2), so its parameter is t' = t * 2**shift. It is clipped to the root's box in float64 and given
a new origin there; tau = t' - entry is what float32 lanes count, from 0 to about 2.

Margins. Near and far planes of a box are met at fma(plane, inverse, near) and fma(plane, inverse,
far) with near, far = -o / d -+ margin * abs(1 / d), rounded from float64. With e = 2**-24 and B the
bound of coordinates, o included, rounding moves a plane by at most e B (inverse) + e B (near or
far) + 2 e B (the fused step); a component of d below 2**-60 is taken for that, which moves nothing
by more than 2**-58 B; rounding of o in float64 is below 2**-30 B. The margin of 6 e B covers all.

Far origins. The new origin is o + entry * d. Up to 2**20 times the size of the tree float64 loses
at most 2**-30 B; beyond that the sum is done in double-doubles and the entry is refined, up to
2**70. Still farther rays, and frames that cannot hold the ray at all, enter every node and have
every primitive decided exactly.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import inlined, kernel
from bvh.leaves import EDGE_ERROR, T_BOUND, UNIT
from bvh.numerics import (
    INF,
    LARGEST,
    SMALLEST,
    exponent,
    largest,
    power_of_two,
    scale_by,
    two_product,
    two_sum,
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
    poke_int,
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
from bvh.traversal.query import read_ray

MARGIN = 6.0 * UNIT
STEEPEST = 2.0**60
F = np.float32
NEAR_ORIGIN, FAR_ORIGIN = 2.0**20, 2.0**70


@inlined
def _local_bound(t, shift, step):
    """Return t, one float step off, as a local parameter; infinite where t is as good as."""
    if t >= LARGEST or t <= -LARGEST:
        return INF if t > 0.0 else -INF
    return scale_by(t + step, shift)


@inlined
def _inverse(d):
    """Return 1/d, its size limited."""
    if abs(d) < 1.0 / STEEPEST:
        return -STEEPEST if d < 0.0 else STEEPEST
    return 1.0 / d


@inlined
def _clip(frame, o, inverse, room, start, stop):
    """Return (entry, exit) of a ray's stay in the root's box, `room` larger on every side."""
    for axis in range(3):
        a = (peek(frame, 6 + axis) - room - o[axis]) * inverse[axis]
        b = (peek(frame, 9 + axis) + room - o[axis]) * inverse[axis]
        start, stop = max(start, min(a, b)), min(stop, max(a, b))
    return start, stop


@inlined
def _along(o, rest, t, d):
    """Return o + rest + t*d as (high, low)."""
    p, e = two_product(t, d)
    s, f = two_sum(o, p)
    return two_sum(s, f + (e + rest))


@kernel
def prepare(block, frame, r, o, d, t_min, t_max):
    """Bring a valid ray to place r of the block; return False where it misses the root's box."""
    lanes, doubles = block.lanes, block.doubles
    s, bound = power_of_two(int(peek(frame, 3))), peek(frame, 5)
    # Scale the direction; a denormal one needs a second step.
    k = exponent(largest(d))
    scale = power_of_two(-k)
    x, y, z = d[0] * scale, d[1] * scale, d[2] * scale
    if k <= -1022 or k > 1021:
        k2 = exponent(largest((x, y, z)))
        scale = power_of_two(-k2)
        x, y, z = x * scale, y * scale, z * scale
        k = min(k, 1022) + k2
    shift = int(peek(frame, 3)) + k
    ix, iy, iz = _inverse(x), _inverse(y), _inverse(z)
    (px, qx), (py, qy), (pz, qz) = (
        two_sum(o[0], -peek(frame, 0)),
        two_sum(o[1], -peek(frame, 1)),
        two_sum(o[2], -peek(frame, 2)),
    )
    px, py, pz = px * s, py * s, pz * s
    away = largest((px, py, pz))
    start = _local_bound(t_min, shift, -SMALLEST)
    stop = _local_bound(t_max, shift, SMALLEST)
    rest = 0.0
    # Distances that share a double, denormal or the largest one, must not be told apart.
    grain, most = scale_by(SMALLEST, shift), scale_by(LARGEST, shift)
    if away <= FAR_ORIGIN and grain < UNIT and most > 4.0 * (away + bound):
        room = 2.0**-18 * bound + 2.0**-50 * away
        entry, leave = _clip(frame, (px, py, pz), (ix, iy, iz), room, start, stop)
        if entry > leave:
            return False
        if away <= NEAR_ORIGIN:
            px, py, pz = px + entry * x, py + entry * y, pz + entry * z
        else:
            px, qx = _along(px, qx * s, entry, x)
            py, qy = _along(py, qy * s, entry, y)
            pz, qz = _along(pz, qz * s, entry, z)
            # What is left is small, but perhaps not as small as the box.
            room = 2.0**-18 * bound + 2.0**-50 * largest((px, py, pz))
            rest, leave = _clip(
                frame, (px, py, pz), (ix, iy, iz), room, start - entry, stop - entry
            )
            if rest > leave:
                return False
            px, _ = _along(px, qx, rest, x)
            py, _ = _along(py, qy, rest, y)
            pz, _ = _along(pz, qz, rest, z)
            leave += entry
        spread = abs(x) + abs(y) + abs(z)
        slack = 16.0 * UNIT * bound + 2.0**-51 * (abs(entry) + 4.0 * bound) + 2.0 * grain
        end = ((leave - entry) - rest) * (1.0 + 2.0**-20) + slack
        low = max((start - entry) - rest, -bound) - slack
        edge, t_error = EDGE_ERROR * bound * spread, T_BOUND * bound
        sure_low = (_local_bound(t_min, shift, SMALLEST) - entry) - rest + slack
        sure_high = (_local_bound(t_max, shift, -SMALLEST) - entry) - rest - slack
    else:
        # Keep the ray's signs and give up the rest.
        entry, slack, end, low, edge, t_error = 0.0, INF, bound, -INF, INF, INF
        sure_low, sure_high = INF, -INF
    m = MARGIN * bound
    at = r
    # Rays that have been given up have bit 3: no packet takes them.
    octant = 0 if slack < INF else 8
    for axis in range(3):
        i, p, q = (ix, px, x) if axis == 0 else ((iy, py, y) if axis == 1 else (iz, pz, z))
        if i < 0.0:
            octant |= 1 << axis
        if slack < INF:
            poke(lanes, at + WIDTH * (INVERSE + axis), np.float32(i))
            poke(lanes, at + WIDTH * (NEAR + axis), np.float32(-p * i - m * abs(i)))
            poke(lanes, at + WIDTH * (FAR + axis), np.float32(-p * i + m * abs(i)))
            poke(lanes, at + WIDTH * (ORIGIN + axis), np.float32(p))
        else:
            # Planes count for nothing but those of unused lanes, which are infinite.
            poke(
                lanes,
                at + WIDTH * (INVERSE + axis),
                np.float32(-(2.0**-100) if i < 0.0 else 2.0**-100),
            )
            poke(lanes, at + WIDTH * (NEAR + axis), np.float32(-1.0))
            poke(lanes, at + WIDTH * (FAR + axis), np.float32(1.0))
            poke(lanes, at + WIDTH * (ORIGIN + axis), np.float32(0.0))
        poke(lanes, at + WIDTH * (DIRECTION + axis), np.float32(q))
    up = 1.0 + 2.0**-20
    poke(lanes, at + EDGE * WIDTH, np.float32(edge * up))
    poke(lanes, at + T_ERROR * WIDTH, np.float32(t_error * up))
    poke(lanes, at + LOW * WIDTH, np.float32(low))
    poke(lanes, at + END * WIDTH, np.float32(end))
    poke(lanes, at + SURE_LOW * WIDTH, np.float32(sure_low))
    poke(lanes, at + SURE_HIGH * WIDTH, np.float32(sure_high))
    poke(lanes, at + SLACK * WIDTH, np.float32(slack))
    poke(lanes, at + BEST_LOW * WIDTH, np.float32(INF))
    poke_int(lanes, at + OCTANT * WIDTH, octant)
    poke_int(lanes, at + PRIM * WIDTH, -1)
    poke_int(lanes, at + T_PRIM * WIDTH, -1)
    poke(doubles, place_of_double(at, ENTRY), entry)
    poke(doubles, place_of_double(at, ENTRY_REST), rest)
    poke(doubles, place_of_double(at, SHIFT), float(shift))
    return True


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
