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
)
from bvh.simd import (
    WIDTH,
    peek,
    poke,
    poke_int,
)
from bvh.traversal.block import (
    BEST_LOW,
    DIRECTION,
    EDGE,
    END,
    ENTRY,
    ENTRY_REST,
    FAR,
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
    place_of_double,
)

MARGIN = 6.0 * UNIT
STEEPEST = 2.0**60
F = np.float32
NEAR_ORIGIN, FAR_ORIGIN = 2.0**20, 2.0**70


@inlined
def local_bound(t, shift, step):
    """Return t, one float step off, as a local parameter; infinite where t is as good as."""
    if t >= LARGEST or t <= -LARGEST:
        return INF if t > 0.0 else -INF
    return scale_by(t + step, shift)


@inlined
def inverse_of(d):
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
def along(o, rest, t, d):
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
    ix, iy, iz = inverse_of(x), inverse_of(y), inverse_of(z)
    (px, qx), (py, qy), (pz, qz) = (
        two_sum(o[0], -peek(frame, 0)),
        two_sum(o[1], -peek(frame, 1)),
        two_sum(o[2], -peek(frame, 2)),
    )
    px, py, pz = px * s, py * s, pz * s
    away = largest((px, py, pz))
    start = local_bound(t_min, shift, -SMALLEST)
    stop = local_bound(t_max, shift, SMALLEST)
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
            px, qx = along(px, qx * s, entry, x)
            py, qy = along(py, qy * s, entry, y)
            pz, qz = along(pz, qz * s, entry, z)
            # What is left is small, but perhaps not as small as the box.
            room = 2.0**-18 * bound + 2.0**-50 * largest((px, py, pz))
            rest, leave = _clip(
                frame, (px, py, pz), (ix, iy, iz), room, start - entry, stop - entry
            )
            if rest > leave:
                return False
            px, _ = along(px, qx, rest, x)
            py, _ = along(py, qy, rest, y)
            pz, _ = along(pz, qz, rest, z)
            leave += entry
        spread = abs(x) + abs(y) + abs(z)
        slack = 16.0 * UNIT * bound + 2.0**-51 * (abs(entry) + 4.0 * bound) + 2.0 * grain
        end = ((leave - entry) - rest) * (1.0 + 2.0**-20) + slack
        low = max((start - entry) - rest, -bound) - slack
        edge, t_error = EDGE_ERROR * bound * spread, T_BOUND * bound
        sure_low = (local_bound(t_min, shift, SMALLEST) - entry) - rest + slack
        sure_high = (local_bound(t_max, shift, -SMALLEST) - entry) - rest - slack
    else:
        # Keep the ray's signs and give up the rest. `low` is finite: it will be multiplied by den,
        # which may be zero.
        entry, slack, end, low, edge, t_error = 0.0, INF, bound, -(2.0**100), INF, INF
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
