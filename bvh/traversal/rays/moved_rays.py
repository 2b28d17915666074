"""Moved rays: rays of a block in the BLAS of an instance, their setup and return.

The rays that enter an instance are set up side by side in a ray block of their own, with the
bounds of `instance_setup`. Its doubles mean the same as in a tree: with tau' = t * 2**shift - entry
in the TLAS and tau = tau' * 2**k - entry' in the BLAS,
tau = t * 2**(shift + k) - (entry * 2**k + entry'), a sum in two parts.

A ray *fails* if it cannot be set up so: it is then traced singly, from the start.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, power_of_two, two_sum
from bvh.runtime import simd
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.memory import aligned
from bvh.runtime.simd import Accessor
from bvh.traversal.rays import blocks, instance_setup, ray_numbers, ray_setup
from bvh.traversal.rays.blocks import BLOCK, HALF, double_index, lane_index, ray_number
from bvh.traversal.rays.instance_setup import MAX_SCALE, MIN_SCALE, Stay, limited, power
from bvh.traversal.rays.instanced_rays import WORST
from bvh.traversal.rays.ray_batch import read_lanes
from bvh.traversal.rays.ray_numbers import largest_of
from bvh.traversal.rays.ray_setup import NEAR_ORIGIN, clip_axis, inverse_of, octant_of
from bvh.tree import frame as frames
from bvh.tree import instanced
from bvh.tree.instanced import BOUND, HIGHEST, LOWEST, TRANSFORM_SIZE

F = np.float32
# Rays fail if the exponent from t to distances is beyond this.
MAX_SHIFT = 900.0

# The state of rays in the TLAS, rows of doubles with a ray in each column. ORIGIN, DIRECTION: where
# the ray enters the TLAS, and its direction. ERROR: a bound of the error of ORIGIN. START, STOP:
# distances of t_min and t_max from there. ENTRY, SHIFT: as in blocks. SCALE: 2**SHIFT. LOW_T,
# HIGH_T: the interval of t around the closest hit. END: the ray's end before the first instance.
(_ORIGIN, _DIRECTION, _ERROR, _START, _STOP, _SCALE, _ENTRY, _SHIFT, _LOW_T, _HIGH_T, _END,
 _STATE_ROWS) = 0, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15  # fmt: skip


class MovedRays(NamedTuple):
    """Scratch of moved rays; pointers inside kernels."""

    block: blocks.Block  # the rays in the BLAS
    state: NDArray[np.float64]  # of the rays in the TLAS, by number: see above
    numbers: NDArray[np.int64]  # of each ray in `block`, its number in the block of the TLAS
    places: NDArray[np.int64]  # of each ray, its group * GROUP_RAYS + its place (see `streams`)
    active: NDArray[np.int64]  # lane indices, in `block`, of the rays that meet the BLAS
    failed: NDArray[np.int64]  # the number of rays that failed, and their lane indices in the TLAS


def new_moved_rays() -> MovedRays:
    """Return `MovedRays`, the scratch of one thread."""
    integers = (np.zeros(BLOCK + HALF, np.int64) for _ in range(4))
    return MovedRays(blocks.new_block(), aligned(_STATE_ROWS * BLOCK, np.float64), *integers)


def _accessors(row: int, count: int = 1) -> tuple[Accessor, Accessor, Accessor]:
    """Return accessors (read, load, store) of rows of the state; the index is a ray's number."""
    return simd.rows(np.float64, *range(row * BLOCK, (row + count) * BLOCK, BLOCK))


_, _, _set_origins = _accessors(_ORIGIN, 3)
_, _, _set_directions = _accessors(_DIRECTION, 3)
_, _, _set_errors = _accessors(_ERROR)
# START, STOP, SCALE, ENTRY and SHIFT.
_, _, _set_times = _accessors(_START, 5)
_, _, _set_low_t = _accessors(_LOW_T)
_, _, _set_high_t = _accessors(_HIGH_T)
_scale, _, _ = _accessors(_SCALE)
_entry, _, _ = _accessors(_ENTRY)
_end, _, _set_ends = _accessors(_END)


@inlined
def fail(block, moved, r):
    """List the ray at r of the TLAS's block as failed, and end it: it will be traced singly."""
    count = simd.peek(moved.failed, np.int64(0)) + 1
    simd.poke(moved.failed, np.int64(0), count)
    simd.poke(moved.failed, count, r)
    blocks.set_end(block.lanes, r, F(-INF))


@kernel
def start_moving(tree, rays, block, moved):
    """Write to `moved.state` what all instances need of a block's active rays; some rays fail.

    A ray is active if its end is not -inf. `block` is that of the TLAS.
    """
    lanes, doubles, state, frame = block.lanes, block.doubles, moved.state, tree.frame
    s, c = frames.scale(frame), frames.centre(frame)
    simd.poke(moved.failed, np.int64(0), np.int64(0))
    for i in range(0, BLOCK, HALF):
        r, at = lane_index(i), double_index(lane_index(i))
        ends = blocks.ends(lanes, r, HALF)
        is_active = ends > F(-INF)
        active = simd.mask_bits(is_active)
        if active == 0:
            continue
        # Lanes without an active ray read the first active one: their numbers may be of no ray.
        first = simd.peek(block.which, i + simd.lowest_bit(active))
        which = simd.select(is_active, simd.load(block.which, i, HALF), simd.splat(first, HALF))
        o, d, t_min, t_max = read_lanes(rays, which)
        shift, entry = blocks.shifts(doubles, at, HALF), blocks.entries(doubles, at, HALF)
        p = (o[0] - c[0]) * s, (o[1] - c[1]) * s, (o[2] - c[2]) * s
        # Rays of far origins, extreme lengths, and without float32 tests fail.
        ordinary = (
            (largest_of(p) <= NEAR_ORIGIN)
            & (abs(shift) <= MAX_SHIFT)
            & (blocks.entry_rests(doubles, at, HALF) == 0.0)
        )
        finite = blocks.slacks(lanes, r, HALF) < F(INF)
        _set_ends(state, i, simd.convert(ends, 0.0))
        fails = active & ~(simd.mask_bits(ordinary) & simd.mask_bits(finite))
        while fails != 0:
            fail(block, moved, r + simd.lowest_bit(fails))
            fails &= fails - 1
        k = simd.convert(simd.lesser(simd.greater(shift, -MAX_SHIFT), MAX_SHIFT), np.int64(0))
        unit, to_tlas = power(frames.exponent(frame) - k), power(k)
        x = d[0] * unit, d[1] * unit, d[2] * unit
        p, error = instance_setup.enter_tlas(p, x, entry)
        start, stop = limited(t_min * to_tlas) - entry, limited(t_max * to_tlas) - entry
        _set_origins(state, i, p)
        _set_directions(state, i, x)
        _set_errors(state, i, error)
        _set_times(state, i, (start, stop, to_tlas, entry, shift))
        # No hit so far.
        _set_high_t(state, i, simd.full_like(entry, INF))


@inlined
def _gathered(state, numbers, row):
    """Return row `row` of the state for the HALF rays whose numbers are the vector `numbers`."""
    return simd.gather(state, numbers, 1, row * BLOCK)


@inlined
def _three_rows(state, numbers, row):
    """Return three rows of the state, from `row` on, for the HALF rays of the vector `numbers`."""
    x, y = _gathered(state, numbers, row), _gathered(state, numbers, row + 1)
    return x, y, _gathered(state, numbers, row + 2)


@inlined
def _move_some(tree, moved, i, leaf):
    """Set up HALF rays of `moved.numbers`, from i on, for the instance in row `leaf`.

    Returns (meets, fails), bits of lanes: rays that meet the root's box, and rays that cannot be
    set up here and must be traced singly.
    """
    block, state, numbers = moved.block, moved.state, simd.load(moved.numbers, i, HALF)
    lanes, r = block.lanes, lane_index(i)
    transforms, at = tree.primitives.transforms, leaf * TRANSFORM_SIZE
    bound = simd.peek(transforms, at + BOUND)
    # Transform the rays, with the largest component of directions in [1, 2), as in ray setup, and
    # find those that can be set up side by side.
    p = _three_rows(state, numbers, _ORIGIN)
    # The second term is for the rounding of A P + b (see `instance_setup`).
    error = _gathered(state, numbers, _ERROR) + largest_of(p) * 2.0**-50
    p = instanced.local_point(transforms, at, p)
    q = instanced.local_direction(transforms, at, _three_rows(state, numbers, _DIRECTION))
    size = largest_of(q)
    k = (simd.as_ints(size) >> 52) - 1023
    # 2**-k and 2**k.
    unit, scale, shift = power(0 - k), power(k), _gathered(state, numbers, _SHIFT)
    q = q[0] * unit, q[1] * unit, q[2] * unit
    inverse = inverse_of(q[0]), inverse_of(q[1]), inverse_of(q[2])
    delta = instance_setup.delta_of(transforms, at, error, largest_of(p), unit)
    total = simd.convert(k, 0.0) + shift
    sound = (
        (size > MIN_SCALE)
        & (size < MAX_SCALE)
        & (delta <= WORST * bound)
        & (abs(total) <= MAX_SHIFT)
    )
    # Clip them to the root's box, and at their closest hits, whose distances are low_t..high_t.
    # `before` is where a ray enters the TLAS.
    before, to_tlas = _gathered(state, numbers, _ENTRY), _gathered(state, numbers, _SCALE)
    low_t, high_t = _gathered(state, numbers, _LOW_T), _gathered(state, numbers, _HIGH_T)
    start, stop = _gathered(state, numbers, _START), _gathered(state, numbers, _STOP)
    last = simd.lesser(stop, limited(high_t * to_tlas) - before) * scale
    start, stop = start * scale, stop * scale
    lost, entry, leave = instance_setup.widened(tree, scale, before, start, last)
    margin = delta + ray_setup.CLIP_MARGIN * bound
    for axis in range(3):
        low = simd.peek(transforms, at + LOWEST + axis)
        high = simd.peek(transforms, at + HIGHEST + axis)
        entry, leave = clip_axis(low, high, p[axis], inverse[axis], margin, entry, leave)
    meets = simd.mask_bits(sound & (entry <= leave))
    if meets != 0:
        # Count from where rays enter the root's box: float32 has most digits there.
        origin = p[0] + entry * q[0], p[1] + entry * q[1], p[2] + entry * q[2]
        margin = (delta + ray_setup.MARGIN * bound) * ray_setup.UP
        ray_numbers.write_axes(lanes, r, simd.WIDTH, origin, q, inverse, margin)
        spread, stay = abs(q[0]) + abs(q[1]) + abs(q[2]), Stay(start, stop, entry, leave, lost)
        first = (limited(low_t * to_tlas) - before) * scale
        first = simd.select(high_t < INF, first, simd.full_like(first, INF))
        instance_setup.write_local_limits(
            lanes, r, simd.WIDTH, transforms, at, spread, delta, stay, first
        )
        blocks.set_octant(lanes, r, octant_of(inverse))
        blocks.set_prim(lanes, r, simd.splat(np.int32(-1), HALF))
        place, (tau_entry, rest) = double_index(r), two_sum(before * scale, entry)
        blocks.set_entry(block.doubles, place, tau_entry)
        blocks.set_entry_rest(block.doubles, place, rest)
        blocks.set_shift(block.doubles, place, total)
    return meets, ~simd.mask_bits(sound)


@kernel
def move_rays(tree, block, moved, leaf, count):
    """Set up the rays `moved.numbers[:count]` for the instance whose tree is in row `leaf`.

    Returns how many meet the root's box of that BLAS; these are listed in `moved.active`. `block`
    is that of the TLAS, where rays that cannot be set up here are ended.
    """
    stay_outlined()
    # The last vector is filled with copies of the last ray.
    for i in range(count, count + -count % HALF):
        simd.poke(moved.numbers, i, simd.peek(moved.numbers, count - 1))
    active = np.int64(0)
    for i in range(0, count, HALF):
        meets, fails = _move_some(tree, moved, i, leaf)
        lanes = (np.int64(1) << min(HALF, count - i)) - 1
        meets, fails = np.int64(meets) & lanes, np.int64(fails) & lanes
        while meets != 0:
            simd.poke(moved.active, active, lane_index(i + simd.lowest_bit(meets)))
            active += 1
            meets &= meets - 1
        while fails != 0:
            fail(block, moved, lane_index(simd.peek(moved.numbers, i + simd.lowest_bit(fails))))
            fails &= fails - 1
    return active


@kernel
def bring_back(block, moved, r, leaf):
    """Write the hit of a moved ray in an instance to the ray of the TLAS from which it was made.

    The moved ray is at r of `moved.block`, the ray of the TLAS in `block`; `leaf` is the row of the
    instance's tree.
    """
    stay_outlined()
    (lanes, doubles, _), state, tlas = moved.block, moved.state, block.lanes
    number, place = simd.peek(moved.numbers, ray_number(r)), double_index(r)
    tlas_r = lane_index(number)
    blocks.set_prim(tlas, tlas_r, blocks.prim(lanes, r))
    blocks.set_prim_instance(tlas, tlas_r, leaf)
    # Convert tau to t, because the next instance and the TLAS count from other places.
    to_t = power_of_two(-int(blocks.shift(doubles, place)))
    entry, rest = blocks.entry(doubles, place), blocks.entry_rest(doubles, place)
    low, high = np.float64(blocks.best_low(lanes, r)), np.float64(blocks.end(lanes, r))
    low, high = ((low + rest) + entry) * to_t, ((high + rest) + entry) * to_t
    _set_low_t(state, number, low)
    _set_high_t(state, number, high)
    # The ray ends at this hit in the TLAS as well.
    distance = high * _scale(state, number) - _entry(state, number)
    end = F(distance + np.float64(blocks.slack(tlas, tlas_r)))
    blocks.set_end(tlas, tlas_r, min(end, blocks.end(tlas, tlas_r)))


@kernel
def restart(block, moved, active):
    """Reset the rays of a block that have failed, to be traced again; return how many there are.

    The reset rays have no hit; their lane indices are written to `active`.
    """
    count = simd.peek(moved.failed, np.int64(0))
    for i in range(count):
        r = simd.peek(moved.failed, i + 1)
        blocks.set_end(block.lanes, r, F(_end(moved.state, ray_number(r))))
        blocks.set_best_low(block.lanes, r, F(INF))
        blocks.set_prim(block.lanes, r, np.int32(-1))
        simd.poke(active, i, r)
    return count
