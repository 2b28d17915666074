"""Packet rays in an instance's BLAS: setup and return.

The rays of a packet that enter an instance are set up side by side in a ray block of their own, by
`instance_setup`; there the packet goes on. Doubles are those of a plain tree: with t * 2**shift -
entry in the TLAS and tau = tau' * 2**k - entry' in the BLAS, tau = t * 2**(shift + k) -
(entry * 2**k + entry'), a sum in two parts.

A packet in which a ray's delta exceeds DELTA B, B the bound of the tree's frame, is traced singly.
That is e B / 64, and the margin of the interval test of packets has e B to spare.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, two_sum
from bvh.runtime import simd
from bvh.runtime.arguments import aligned
from bvh.runtime.jit import inlined, kernel, stay_outlined, types
from bvh.runtime.simd import WIDTH, Accessor
from bvh.traversal.rays import blocks, instance_setup
from bvh.traversal.rays.blocks import (
    BLOCK,
    DOUBLE_ROWS,
    GROUP,
    HALF,
    PACKET_RAYS,
    double_index,
    ray_number,
)
from bvh.traversal.rays.instance_setup import MAX_SCALE, MIN_SCALE
from bvh.traversal.rays.ray_batch import read_lanes
from bvh.traversal.rays.ray_setup import NEAR_ORIGIN, octant_of
from bvh.tree import frame as frames
from bvh.tree.instanced import BOUND, TRANSFORM_SIZE

F = np.float32
# The largest delta, as a share of the bound; and powers of two of t.
DELTA, MAX_SHIFT = 2.0**-30, 900.0


def _state(row: int, count: int = 1) -> tuple[Accessor, Accessor]:
    """Return functions that load and set rows of the state, doubles by the ray's number."""
    places = range(row * PACKET_RAYS, (row + count) * PACKET_RAYS, PACKET_RAYS)
    return simd.rows(types.float64, *places)[1:]


# The state of rays in the TLAS: origin, its error, and direction; where t_min and t_max are; the
# scale of t; and the interval of t around the closest hit.
_origins, _set_origins = _state(0, 3)
_directions, _set_directions = _state(3, 3)
_errors, _set_errors = _state(6)
_starts, _set_starts = _state(7)
_stops, _set_stops = _state(8)
_scales, _set_scales = _state(9)
_low_t, _set_low_t = _state(10)
_high_t, _set_high_t = _state(11)
_STATE_ROWS = 12

# Ends of the packet's rays in the TLAS, and of those in a BLAS that are yet to be traced.
_, ends, set_ends = simd.rows(types.float32, 0)
_, waiting, set_waiting = simd.rows(types.float32, PACKET_RAYS)


class MovedRays(NamedTuple):
    """Scratch of a packet in a scene; pointers inside kernels."""

    lanes: NDArray[np.float32]
    doubles: NDArray[np.float64]
    state: NDArray[np.float64]
    ends: NDArray[np.float32]


def new_moved_rays() -> MovedRays:
    """Return the scratch of one thread."""
    return MovedRays(
        aligned(32 * BLOCK, np.float32),
        aligned(DOUBLE_ROWS * BLOCK, np.float64),
        aligned(_STATE_ROWS * PACKET_RAYS, np.float64),
        aligned(2 * PACKET_RAYS, np.float32),
    )


@kernel
def start_moving(tree, rays, block, moved, begin, end):
    """Compute what all instances that a packet's rays enter share; return whether it can move."""
    lanes, doubles, state, frame = block.lanes, block.doubles, moved.state, tree.frame
    s, c = frames.scale(frame), frames.centre(frame)
    sound = True
    for i in range(0, PACKET_RAYS, HALF):
        r = begin + i // WIDTH * GROUP + i % WIDTH
        end_of_rays, at = blocks.ends(lanes, r, HALF), double_index(r)
        set_ends(moved.ends, i, end_of_rays)
        on = end_of_rays > F(-INF)
        active = simd.mask_bits(on)
        if active == 0:
            continue
        # Behind the last ray of a batch there are no numbers.
        first = simd.peek(block.which, ray_number(r) + simd.lowest_bit(active))
        which = simd.select(
            on, simd.load(block.which, ray_number(r), HALF), simd.splat(first, HALF)
        )
        o, d, t_min, t_max = read_lanes(rays, which)
        shift, entry = blocks.shifts(doubles, at, HALF), blocks.entries(doubles, at, HALF)
        p = (o[0] - c[0]) * s, (o[1] - c[1]) * s, (o[2] - c[2]) * s
        # Leave far origins, extreme lengths and disabled tests to single rays.
        ordinary = (
            (instance_setup.largest_of(p) <= NEAR_ORIGIN)
            & (abs(shift) <= MAX_SHIFT)
            & (blocks.entry_rests(doubles, at, HALF) == 0.0)
        )
        finite = blocks.slacks(lanes, r, HALF) < F(INF)
        if active & ~(simd.mask_bits(ordinary) & simd.mask_bits(finite)) != 0:
            sound = False
        k = simd.convert(simd.lesser(simd.greater(shift, -MAX_SHIFT), MAX_SHIFT), np.int64(0))
        unit, to_top = instance_setup.power(frames.exponent(frame) - k), instance_setup.power(k)
        x = d[0] * unit, d[1] * unit, d[2] * unit
        p, error = instance_setup.enter_tlas(p, x, entry)
        _set_origins(state, i, p)
        _set_directions(state, i, x)
        _set_errors(state, i, error)
        _set_starts(state, i, instance_setup.limited(t_min * to_top) - entry)
        _set_stops(state, i, instance_setup.limited(t_max * to_top) - entry)
        _set_scales(state, i, to_top)
        _set_high_t(state, i, simd.full_like(entry, INF))
    return sound


@inlined
def _move_half(tree, block, moved, i, r, leaf, inside):
    """Set HALF rays up for an instance; return the bits of those that packets cannot trace."""
    lanes, doubles, state, to = moved.lanes, block.doubles, moved.state, double_index(r)
    transforms, at = tree.primitives.transforms, leaf * TRANSFORM_SIZE
    before, shift = blocks.entries(doubles, to, HALF), blocks.shifts(doubles, to, HALF)
    # Transform the rays, and see that all may be set up at once.
    p, x = _origins(state, i, HALF), _directions(state, i, HALF)
    ray, size = instance_setup.local_ray(transforms, at, p, x, _errors(state, i, HALF))
    scale, total = instance_setup.power(ray.k), simd.convert(ray.k, 0.0) + shift
    sound = (
        (size > MIN_SCALE)
        & (size < MAX_SCALE)
        & (ray.delta <= DELTA * simd.peek(transforms, at + BOUND))
        & (abs(total) <= MAX_SHIFT)
    )
    # Clip them to the box of the BLAS, and to what is not behind their closest hits.
    high, to_top = _high_t(state, i, HALF), _scales(state, i, HALF)
    last = instance_setup.limited(high * to_top) - before
    times = _starts(state, i, HALF), _stops(state, i, HALF), last
    stay = instance_setup.stay_in(tree, transforms, at, ray, scale, before, times)
    meets = simd.mask_bits(sound & (stay.entry <= stay.leave)) & inside
    # Write their numbers; those that miss the box are inactive.
    low = (instance_setup.limited(_low_t(state, i, HALF) * to_top) - before) * scale
    first = simd.select(high < INF, low, simd.full_like(low, INF))
    limits = instance_setup.write_local_ray(lanes, r, WIDTH, transforms, at, ray, stay, first)
    bits = simd.splat(np.int64(meets), HALF) >> simd.convert(simd.lane_numbers(HALF), np.int64(0))
    active = (bits & 1) > simd.splat(np.int64(0), HALF)
    blocks.set_end(lanes, r, simd.select(active, limits.end, simd.full_like(first, -INF)))
    blocks.set_octant(lanes, r, octant_of(ray.inverse))
    entry, rest = two_sum(before * scale, stay.entry)
    blocks.set_entry(moved.doubles, to, entry)
    blocks.set_entry_rest(moved.doubles, to, rest)
    blocks.set_shift(moved.doubles, to, total)
    return inside & ~simd.mask_bits(sound)


@kernel
def move_rays(tree, block, moved, i, at, leaf, inside):
    """Set rays of a vector up for an instance; return whether packets can trace them."""
    # i is the first one's number in the packet.
    stay_outlined()
    lanes = moved.lanes
    bad = np.int64(0)
    for h in range(0, WIDTH, HALF):
        some = np.int64(inside) >> h & ((1 << HALF) - 1)
        if some == 0:
            blocks.set_end(lanes, at + h, simd.splat(F(-INF), HALF))
        else:
            bad |= np.int64(_move_half(tree, block, moved, i + h, at + h, leaf, some))
    # The closest so far is not in this BLAS, but a tie with it is for its id to decide.
    blocks.set_prim_before(lanes, at, blocks.prims(block.lanes, at, WIDTH))
    blocks.set_leaf_before(lanes, at, blocks.prim_instances(block.lanes, at, WIDTH))
    blocks.set_prim(lanes, at, simd.splat(np.int32(-1), WIDTH))
    return bad == 0


@kernel
def bring_back(block, moved, i, at, leaf):
    """Take the hits that a vector of rays has found in an instance back into the TLAS."""
    stay_outlined()
    lanes, state, tlas = moved.lanes, moved.state, block.lanes
    prims = blocks.prims(lanes, at, WIDTH)
    hit = prims >= np.int32(0)
    if simd.mask_bits(hit) == 0:
        return False
    before, owner = blocks.prims(tlas, at, WIDTH), blocks.prim_instances(tlas, at, WIDTH)
    blocks.set_prim(tlas, at, simd.select(hit, prims, before))
    blocks.set_prim_instance(tlas, at, simd.select(hit, simd.splat(np.int32(leaf), WIDTH), owner))
    for h in range(0, WIDTH, HALF):
        r, j, to = at + h, i + h, double_index(at + h)
        found = blocks.prims(lanes, r, HALF) >= np.int32(0)
        # From tau to t, which the next instance and the TLAS count from places of their own.
        k = simd.convert(blocks.shifts(moved.doubles, to, HALF), np.int64(0))
        entry = blocks.entries(moved.doubles, to, HALF)
        rest = blocks.entry_rests(moved.doubles, to, HALF)
        low = simd.convert(blocks.best_lows(lanes, r, HALF), 0.0)
        high = simd.convert(blocks.ends(lanes, r, HALF), 0.0)
        back = instance_setup.power(0 - k)
        low, high = ((low + rest) + entry) * back, ((high + rest) + entry) * back
        _set_low_t(state, j, simd.select(found, low, _low_t(state, j, HALF)))
        _set_high_t(state, j, simd.select(found, high, _high_t(state, j, HALF)))
        # The ray ends there in the TLAS as well.
        top = high * _scales(state, j, HALF) - blocks.entries(block.doubles, to, HALF)
        top = top + simd.convert(blocks.slacks(tlas, r, HALF), 0.0)
        end = simd.convert(blocks.ends(tlas, r, HALF), 0.0)
        blocks.set_end(tlas, r, simd.select(found, simd.lesser(top, end), end))
    blocks.set_prim(lanes, at, simd.splat(np.int32(-1), WIDTH))
    return True
