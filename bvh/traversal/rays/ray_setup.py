"""Ray setup: rays in the local frame of a tree, clipped to its box, written to a ray block.

A ray enters the local frame x' = (x - c) * 2**k with its direction scaled to a largest component in
[1, 2), so its parameter is t' = t * 2**shift. It is clipped to the root's box, and its origin moved
to where it enters; tau = t' - entry is what float32 lanes count, from 0 to about 2. WIDTH rays at a
time are set up side by side: read, scaled and moved as doubles, clipped as float32. Rays with very
far origins or extreme lengths are set up one by one, as doubles.

Margins, with e = 2**-24 and B the bound of coordinates, o included. Planes of a box are met at
plane * inverse + near (far) with near, far = -o * inverse -+ margin * abs(inverse). Rounding moves
a plane by at most 4 e B (d and its inverse, times plane - o) + 3 e B (o, a product and a sum in
near and far) + 3 e B (a product and a sum, fused or not); a component of d below 2**-60 is set to
that, which moves a plane by at most 2**-58 B; rounding of o in float64 moves it by less than
2**-30 B. The margin of 11 e B covers all.

Clipping. In float32, with o up to A, the box's planes are met within e (6 A + 7 B): one rounding of
o, of the plane, and of three results, and three of the inverse and the product. Both sides of the
box are moved outward by 8 e A + 2**-18 B. If A is above FAR_STEP B, the ray is clipped again from
its entry. A rounded t' is moved outward, or inward for what is sure, by 2**-22 of it.

Far origins. The new origin is o + entry * d. Up to 2**20 times the size of the tree float64 loses
at most 2**-30 B; beyond that the sum is done in double-doubles and the entry is refined, up to
2**70. For still farther rays, and where the frame cannot hold the ray at all, the float32 tests are
disabled: such a ray enters every node, and exact tests decide every primitive. It is dropped only
if it misses the box by 2**-50 A, which covers rounding and, over the way of A, d below 2**-60.
"""

import numpy as np

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.floats import INF, LARGEST, SMALLEST
from bvh.geometry.arithmetic.vectors import moved_along
from bvh.runtime import simd
from bvh.runtime.jit import inlined, kernel
from bvh.runtime.simd import WIDTH
from bvh.traversal.rays import blocks, ray_numbers
from bvh.traversal.rays.blocks import BLOCK, HALF, double_index, lane_index
from bvh.traversal.rays.ray_batch import prefetch_some, read_lanes, read_ray
from bvh.traversal.rays.ray_numbers import Limits, largest_of
from bvh.tree import frame as frames
from bvh.tree.primitives import is_ray
from bvh.tree.triangle_groups import EDGE_ERROR, T_BOUND, UNIT

MARGIN = 11.0 * UNIT  # of the slab test, as a share of the tree's bound
# Margins of clipping in float32, as shares of the origin's largest coordinate and of the tree's
# bound; the relative error of rounded distances.
CLIP_ERROR, CLIP_MARGIN, AROUND = 8.0 * UNIT, 2.0**-18, 2.0**-22
STEEPEST = 2.0**60  # the largest size of 1 / d in the tests of boxes
# Largest local coordinates of origins: of those that are moved in float64, and in double-doubles.
NEAR_ORIGIN, FAR_ORIGIN = 2.0**20, 2.0**70
FAR_STEP = 16.0  # rays from beyond this times the tree's bound are clipped in two steps
UP = 1.0 + 2.0**-20  # this factor covers the rounding of a bound to float32
F = np.float32
ALL = (1 << WIDTH) - 1


@inlined
def inverse_of(d):
    """Return 1/d of components of directions, doubles, limited to +-STEEPEST."""
    limit = simd.select(d < 0.0, -STEEPEST, STEEPEST)
    return simd.select(abs(d) < 1.0 / STEEPEST, limit, 1.0 / d)


@inlined
def clip_axis(low, high, p, inverse, margin, start, stop):
    """Return (start, stop), a ray's interval, clipped to the slab low..high, widened by a margin.

    `p` and `inverse` are the coordinates of the origin and of 1 / direction along the axis; they,
    the margin and the interval may be vectors. The ray misses the slab where start > stop.
    """
    a = ((low - p) - margin) * inverse
    b = ((high - p) + margin) * inverse
    return simd.greater(start, simd.lesser(a, b)), simd.lesser(stop, simd.greater(a, b))


@inlined
def clip(frame, p, inverse, margin, start, stop):
    """Return (start, stop), a ray's interval, clipped to the root's box, enlarged by `margin`.

    p is the ray's origin, `inverse` 1 / direction. The ray misses the box where start > stop.
    """
    low, high = frames.lower_corner(frame), frames.upper_corner(frame)
    start, stop = clip_axis(low[0], high[0], p[0], inverse[0], margin, start, stop)
    start, stop = clip_axis(low[1], high[1], p[1], inverse[1], margin, start, stop)
    return clip_axis(low[2], high[2], p[2], inverse[2], margin, start, stop)


@inlined
def octant_of(inverse):
    """Return the octant of a direction, by 1 / direction: bit k is set where component k is < 0."""
    x = simd.as_ints(inverse[0]) >> 63
    y = simd.as_ints(inverse[1]) >> 63
    z = simd.as_ints(inverse[2]) >> 63
    return (x & 1) | ((y & 1) << 1) | ((z & 1) << 2)


@inlined
def disabled_axes(d):
    """Return (p, inverse, margin) of a ray along d that enters all boxes, except unused lanes."""
    # Near planes are met at about -1, far ones at 1; those of unused lanes at inf and -inf.
    e = 2.0**-100
    inverse = -e if d[0] < 0.0 else e, -e if d[1] < 0.0 else e, -e if d[2] < 0.0 else e
    return (0.0, 0.0, 0.0), inverse, 2.0**100


@inlined
def disabled_limits(bound):
    """Return `Limits` with which exact tests decide everything; `bound` is of the tree's frame."""
    # Errors are infinite, and no distance is sure. `low` and `end` are finite: they will be
    # multiplied by den, which may be zero.
    return Limits(INF, INF, -(2.0**100), max(bound, 1.0), INF, -INF, INF, INF)


@inlined
def _limits(bound, d, interval, rest, t_min, t_max, grain):
    """Return the `Limits` of a ray along d that enters the root's box at the distance entry + rest.

    All are in local units. `interval` is (start, entry, leave): t_min moved outward, and where the
    ray enters and leaves the box. t_min and t_max are moved inward; `grain` is t's spacing at 0.
    """
    start, entry, leave = interval
    spread = abs(d[0]) + abs(d[1]) + abs(d[2])
    # The roundings of `entry`, of float32 distances within the box, and of t near 0.
    slack = abs(entry) * 2.0**-51 + ((16.0 * UNIT + 2.0**-49) * bound + 2.0 * grain)
    return Limits(
        spread * (EDGE_ERROR * UP * bound),
        T_BOUND * UP * bound,
        simd.greater((start - entry) - rest, -bound) - slack,
        ((leave - entry) - rest) * UP + slack,
        ((t_min - entry) - rest) + slack,
        ((t_max - entry) - rest) - slack,
        slack,
        INF,
    )


@inlined
def _write_doubles(block, r, entry, rest, shift):
    """Write entry, rest and shift of the ray at lane index r, or of the HALF rays from r on."""
    place = double_index(r)
    blocks.set_entry(block.doubles, place, entry)
    blocks.set_entry_rest(block.doubles, place, rest)
    blocks.set_shift(block.doubles, place, shift)


@inlined
def _write_ray(block, r, axes, limits, entry, rest, shift):
    """Write a ray, without a hit so far, to lane index r; `axes` are (p, d, inverse, margin).

    Distances on the ray are t * 2**shift; it enters the box at `entry` + `rest`.
    """
    p, d, inverse, margin = axes
    ray_numbers.write_axes(block.lanes, r, WIDTH, p, d, inverse, margin)
    ray_numbers.write_limits(block.lanes, r, WIDTH, limits)
    blocks.set_octant(block.lanes, r, octant_of(inverse))
    blocks.set_prim(block.lanes, r, np.int32(-1))
    _write_doubles(block, r, entry, rest, shift)


@inlined
def _local_bound(t, shift, sign):
    """Return t * 2**shift for t_min or t_max, moved by `sign` times the rounding of a hit's t."""
    # The rounded t of a hit is compared with a bound: they may be equal where the real t is beyond
    # the bound. The largest double, to which a larger t rounds, becomes infinite if it grows.
    if abs(t) == INF:
        return t
    return floats.scale_by(t + sign * (abs(t) * 2.0**-52 + SMALLEST), shift)


@inlined
def local_origin(frame, o):
    """Return (high, low), two vectors whose exact sum is the origin o in the local frame."""
    s, c = frames.scale(frame), frames.centre(frame)
    px, qx = floats.two_sum(o[0], -c[0])
    py, qy = floats.two_sum(o[1], -c[1])
    pz, qz = floats.two_sum(o[2], -c[2])
    return (px * s, py * s, pz * s), (qx * s, qy * s, qz * s)


@inlined
def _along(p, low, t, d):
    """Return the coordinate p + low + t * d along an axis as a double-double, (high, low)."""
    product, e = floats.two_product(t, d)
    s, f = floats.two_sum(p, product)
    return floats.two_sum(s, f + (e + low))


@inlined
def advance(p, low, t, d):
    """Return the point (p + low) + t * d as the sum of two vectors, (high, low)."""
    x, a = _along(p[0], low[0], t, d[0])
    y, b = _along(p[1], low[1], t, d[1])
    z, c = _along(p[2], low[2], t, d[2])
    return (x, y, z), (a, b, c)


@kernel
def set_up_ray(block, frame, r, o, d, t_min, t_max):
    """Write a valid ray to lane index r of a block; return False if it misses the root's box."""
    bound = frames.bound(frame)
    # Scale d by 2**-k, its largest component to [1, 2); in two steps near the limits of doubles.
    k = floats.exponent(floats.largest(d))
    scale = floats.power_of_two(-k)
    x, y, z = d[0] * scale, d[1] * scale, d[2] * scale
    if k <= -1022 or k > 1021:
        k2 = floats.exponent(floats.largest((x, y, z)))
        scale = floats.power_of_two(-k2)
        x, y, z = x * scale, y * scale, z * scale
        k = min(k, 1022) + k2
    shift = frames.exponent(frame) + k  # in the frame, the ray along q is at t * 2**shift
    q, inverse = (x, y, z), (inverse_of(x), inverse_of(y), inverse_of(z))
    p, low = local_origin(frame, o)
    away = floats.largest(p)  # the largest coordinate of the origin
    # The interval that may hold hits, moved outward by the rounding of t.
    start, stop = _local_bound(t_min, shift, -1.0), _local_bound(t_max, shift, 1.0)
    # The spacing of t near 0 and the largest t, as distances in the frame.
    grain, limit = floats.scale_by(SMALLEST, shift), floats.scale_by(LARGEST, shift)
    margin = away * 2.0**-50 + CLIP_MARGIN * bound
    entry, leave = clip(frame, p, inverse, margin, start, stop)
    if entry > leave and margin < INF:
        return False
    # Disable the float32 tests if the frame cannot hold the ray, or t is too coarse or too short.
    if not (away <= FAR_ORIGIN and grain < UNIT and limit > 4.0 * (away + bound)):
        disabled, (zero, inverse, margin) = disabled_limits(bound), disabled_axes(q)
        _write_ray(block, r, (zero, q, inverse, margin), disabled, 0.0, 0.0, float(shift))
        return True
    # Move the origin to where the ray enters the box, at `entry` and, from far away, a `rest`.
    rest = 0.0
    if away <= NEAR_ORIGIN:
        p = moved_along(p, q, entry)
    else:
        p, low = advance(p, low, entry, q)
        # The rest of the way is short, but perhaps longer than the box.
        margin = floats.largest(p) * 2.0**-50 + CLIP_MARGIN * bound
        rest, leave = clip(frame, p, inverse, margin, start - entry, stop - entry)
        if rest > leave:
            return False
        p, _ = advance(p, low, rest, q)
        leave += entry
    # The interval in which hits surely count, moved inward by the rounding of t.
    first, last = _local_bound(t_min, shift, 1.0), _local_bound(t_max, shift, -1.0)
    limits = _limits(bound, q, (start, entry, leave), rest, first, last, grain)
    _write_ray(block, r, (p, q, inverse, MARGIN * bound), limits, entry, rest, float(shift))
    return True


@inlined
def _read_scaled(block, frame, rays, i):
    """Return (p, q, (t_min, t_max), shift, ordinary) of the HALF rays of a block from i on.

    p is the local origin, q the direction, scaled to a largest component in [1, 2). Distances along
    q are t * 2**shift; t_min and t_max are returned as such. `ordinary` has the bits of lanes where
    these vectors are valid: rays with directions of ordinary lengths, and t_min <= t_max.
    """
    o, d, t_min, t_max = read_lanes(rays, simd.load(block.which, i, HALF))
    s, c, exponent = frames.scale(frame), frames.centre(frame), frames.exponent(frame)
    k = simd.as_ints(largest_of(d)) >> 52  # the largest biased exponent
    # Powers of two, made from their biased exponents.
    scale = simd.as_floats((2046 - k) << 52)
    shift = k + (exponent - 1023)
    to_local = simd.as_floats((shift + 1023) << 52)
    # Exponents of lengths within -900..900, and shifts within -1000..1000, are ordinary.
    ordinary = (k > max(123, 23 - exponent)) & (k < min(1923, 2023 - exponent)) & (t_min <= t_max)
    p = (o[0] - c[0]) * s, (o[1] - c[1]) * s, (o[2] - c[2]) * s
    q, times = (d[0] * scale, d[1] * scale, d[2] * scale), (t_min * to_local, t_max * to_local)
    return p, q, times, simd.convert(shift, 0.0), simd.mask_bits(ordinary)


@inlined
def _narrowed(a, b):
    """Return two vectors of doubles as one of float32, the lanes of a before those of b."""
    return simd.joined(simd.convert(a, F(0.0)), simd.convert(b, F(0.0)))


@inlined
def _axes_narrowed(a, b):
    """Return, for each of three axes, `_narrowed` of the vectors of a and b."""
    return _narrowed(a[0], b[0]), _narrowed(a[1], b[1]), _narrowed(a[2], b[2])


# The two halves of a float32 vector, as vectors of doubles.
_halves = inlined(
    lambda v: (
        simd.convert(simd.part(v, 0, HALF), 0.0),
        simd.convert(simd.part(v, HALF, HALF), 0.0),
    )
)


@inlined
def _around(t):
    """Return (lower, upper) float32 bounds of the distances from which t has been rounded."""
    a, b = t * F(1.0 - AROUND), t * F(1.0 + AROUND)
    return simd.lesser(a, b), simd.greater(a, b)


@inlined
def _inverse_lanes(d):
    """Return 1/d of components of directions, in float32 lanes, limited to +-STEEPEST."""
    limit = simd.select(d < F(0.0), F(-STEEPEST), F(STEEPEST))
    return simd.select(abs(d) < F(1.0 / STEEPEST), limit, F(1.0) / d)


@inlined
def _set_up_lanes(block, frame, rays, i, valid):
    """Write the WIDTH rays of a block from the i-th on; return (meets, others), bits of lanes.

    Both are among the bits `valid`, of lanes that have rays of their own. `meets`: rays that meet
    the root's box; the end of all other lanes becomes -inf. `others`: rays that `set_up_ray` must
    set up, as they are far, of extreme length, or perhaps invalid.
    """
    # The halves a and b are read as doubles, and tested as one vector of float32.
    lanes, r, bound = block.lanes, lane_index(i), frames.bound(frame)
    pa, qa, times_a, shift_a, ordinary_a = _read_scaled(block, frame, rays, i)
    pb, qb, times_b, shift_b, ordinary_b = _read_scaled(block, frame, rays, i + HALF)
    p, q = _axes_narrowed(pa, pb), _axes_narrowed(qa, qb)
    away = largest_of(p)
    # The product with 0 is NaN unless all components are finite.
    finite = ((q[0] + q[1] + q[2]) + (p[0] + p[1] + p[2])) * F(0.0) == F(0.0)
    ordinary = simd.mask_bits(finite & (away <= F(NEAR_ORIGIN))) & (ordinary_a | ordinary_b << HALF)
    start, sure_start = _around(_narrowed(times_a[0], times_b[0]))
    sure_stop, stop = _around(_narrowed(times_a[1], times_b[1]))
    inverse = _inverse_lanes(q[0]), _inverse_lanes(q[1]), _inverse_lanes(q[2])
    margin = F(CLIP_MARGIN * bound)
    entry, leave = clip(frame, p, inverse, away * F(CLIP_ERROR) + margin, start, stop)
    meets = simd.mask_bits(entry <= leave) & ordinary & valid
    if meets == 0:
        blocks.set_end(lanes, r, simd.splat(F(-INF), WIDTH))
        return meets, ~ordinary & valid
    # From here on, distances are counted from the entry.
    start, leave = start - entry, leave - entry
    sure_start, sure_stop = sure_start - entry, sure_stop - entry
    ea, eb = _halves(entry)
    pa, pb = moved_along(pa, qa, ea), moved_along(pb, qb, eb)
    p = _axes_narrowed(pa, pb)
    # From far away, clip once more, from the entry, where rounding is less.
    if simd.mask_bits(away > F(FAR_STEP * bound)) & meets != 0:
        more, leave = clip(frame, p, inverse, margin, start, leave)
        meets &= simd.mask_bits(more <= leave)
        start, leave = start - more, leave - more
        sure_start, sure_stop = sure_start - more, sure_stop - more
        ma, mb = _halves(more)
        p = _axes_narrowed(moved_along(pa, qa, ma), moved_along(pb, qb, mb))
        ea, eb = ea + ma, eb + mb
    slack = abs(entry) * F(2.0**-51) + F(17.0 * UNIT * bound)
    wide = slack + F(4.0 * UNIT * bound)  # and two roundings of distances within the box
    limits = Limits(
        (abs(q[0]) + abs(q[1]) + abs(q[2])) * F(EDGE_ERROR * UP * bound),
        simd.splat(F(T_BOUND * UP * bound), WIDTH),
        simd.greater(start, F(-bound)) - wide,
        simd.select(simd.mask_of(meets, WIDTH), leave * F(UP) + slack, F(-INF)),
        sure_start + wide,
        sure_stop - wide,
        slack,
        simd.splat(F(INF), WIDTH),
    )
    ray_numbers.write_axes(lanes, r, WIDTH, p, q, inverse, F(MARGIN * bound))
    ray_numbers.write_limits(lanes, r, WIDTH, limits)
    x, y, z = simd.as_ints(inverse[0]), simd.as_ints(inverse[1]), simd.as_ints(inverse[2])
    blocks.set_octant(lanes, r, (x >> 31) | (y >> 31) << 1 | (z >> 31) << 2)
    blocks.set_prim(lanes, r, simd.splat(np.int32(-1), WIDTH))
    none = simd.splat(0.0, HALF)
    _write_doubles(block, r, ea, none, shift_a)
    _write_doubles(block, r + HALF, eb, none, shift_b)
    return meets, ~ordinary & valid


@kernel
def set_up_block(block, frame, rays, count, active, order, ahead):
    """Write the rays `block.which[:count]` to the block; return how many meet the root's box.

    The lane indices of these are written to `active`; the end of the others becomes -inf. The rays
    of the next block of `order`, which begins at `ahead` (see `first_of`), are prefetched.
    """
    found, filled = np.int64(0), -(-count // WIDTH) * WIDTH
    # The last vector is filled with copies of the last ray.
    for i in range(count, filled):
        simd.poke(block.which, i, simd.peek(block.which, count - 1))
    for i in range(filled, BLOCK, WIDTH):
        blocks.set_end(block.lanes, lane_index(i), simd.splat(F(-INF), WIDTH))
    for i in range(0, filled, WIDTH):
        r = lane_index(i)
        prefetch_some(order, ahead, i, rays)
        prefetch_some(order, ahead, i + HALF, rays)
        meets, others = _set_up_lanes(block, frame, rays, i, (1 << min(WIDTH, count - i)) - 1)
        while others != 0:
            j = simd.lowest_bit(others)
            others &= others - 1
            ray = read_ray(rays, simd.peek(block.which, i + j))
            if is_ray(*ray) and set_up_ray(block, frame, r + j, *ray):
                meets |= np.int64(1) << j
        if meets == ALL:
            simd.store(active, found, simd.convert(simd.lane_numbers(WIDTH), np.int64(0)) + r)
            found += WIDTH
            meets = 0
        while meets != 0:
            simd.poke(active, found, r + simd.lowest_bit(meets))
            found += 1
            meets &= meets - 1
    return found
