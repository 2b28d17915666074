"""Single rays in a scene: from its TLAS to its BLAS and back.

At a leaf of the TLAS a single ray is transformed into the frame of an instance's BLAS and continues
there, in the same slot and on the same stack; when no entry of the BLAS is left, it returns.

Where delta (see `instance_setup`) is beyond WORST B, B the bound of the tree's frame, the float32
tests are disabled in this instance, as in `ray_setup.set_up_ray`: all is decided exactly.

Arguments are named as in `slots`.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF, largest, power_of_two, scale_by
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import address, as_ints, greater, lane, lesser, load, mask_bits, peek
from bvh.runtime.tuple_references import follow
from bvh.traversal.rays import blocks, instance_setup, ray_numbers, ray_setup, slots
from bvh.traversal.rays.blocks import OCTANTS, batch_index, double_index
from bvh.traversal.rays.instance_setup import MAX_SCALE, MIN_SCALE, Stay
from bvh.traversal.rays.ray_batch import mask_of, read_ray
from bvh.traversal.rays.ray_setup import CLIP_MARGIN, MARGIN, NEAR_ORIGIN, UP, inverse_of
from bvh.tree import frame as frames
from bvh.tree.instanced import BOUND, COLUMNS, HIGHEST, LOWEST, NORM, TRANSFORM_SIZE, leaf_of
from bvh.tree.wide_nodes import first_row

F = np.float32
# The float32 tests are disabled in an instance if delta is beyond this share of the bound.
WORST = 2.0**-10
# Lanes of a ray's axes: three of them, and an idle one.
AXES = 4
# Beyond this exponent from t to distances in the TLAS, t may overflow or lose digits there.
MAX_SHIFT = 980


@inlined
def _enter_tlas(tree, block, memory, slot, r, ray):
    """Write to a slot the numbers of the ray at r of the block that all instances share.

    `ray` is (o, d, t_min, t_max). The scale of t becomes 0 where t would overflow, or lose digits,
    in the TLAS: `_enter_blas` then disables the float32 tests.
    """
    o, d, t_min, t_max = ray
    frame, doubles, place = tree.frame, block.doubles, double_index(r)
    shift = int(blocks.shift(doubles, place))
    k = frames.exponent(frame) - shift
    # The direction in the TLAS, along which distances are t * 2**shift.
    x = scale_by(d[0], k), scale_by(d[1], k), scale_by(d[2], k)
    entry, rest = blocks.entry(doubles, place), blocks.entry_rest(doubles, place)
    p, low = ray_setup.local_origin(frame, o)
    if largest(p) <= NEAR_ORIGIN:
        p, error = instance_setup.enter_tlas(p, x, entry)
    else:
        p, low = ray_setup.advance(p, low, entry, x)
        p, _ = ray_setup.advance(p, low, rest, x)
        error = 2.0**-51 * largest(p) + 2.0**-95 * abs(entry)
    slots.set_tlas_origin(memory, slot, p)
    slots.set_tlas_direction(memory, slot, x)
    # The second term is for the rounding of A P + b (see `instance_setup`).
    slots.set_tlas_error(memory, slot, error + largest(p) * 2.0**-50)
    scale = power_of_two(shift) if -MAX_SHIFT < shift < MAX_SHIFT else 0.0
    slots.set_tlas_scale(memory, slot, scale)
    low, high = instance_setup.limited(t_min * scale), instance_setup.limited(t_max * scale)
    low, high = blocks.since_entry(block, r, low), blocks.since_entry(block, r, high)
    slots.set_tlas_range(memory, slot, (low, high))


@kernel
def _enter_blas(context_ref, memory, slot, leaf):
    """Set up a slot's ray for the instance whose tree is in row `leaf` of the scene's trees.

    Returns False if the ray misses the root's box of that BLAS, or its mask excludes the instance.
    """
    stay_outlined()
    tree, rays, block = follow(context_ref)
    r = slots.ray(memory, slot)
    instanced, index = tree.primitives, batch_index(block, r)
    if peek(instanced.masks, leaf) & mask_of(rays, index) == 0:
        return False
    if slots.tlas_error(memory, slot) < 0.0:
        # This is the first instance of the ray.
        _enter_tlas(tree, block, memory, slot, r, read_ray(rays, index))
    # Transform the ray, its axes side by side, and bound the error.
    transforms, at = instanced.transforms, leaf * TRANSFORM_SIZE
    bound, norm = peek(transforms, at + BOUND), peek(transforms, at + NORM)
    q = _transformed(transforms, at, slots.tlas_direction(memory, slot))
    p = _transformed(transforms, at, slots.tlas_origin(memory, slot))
    # The fourth column is the translation.
    p = p + load(transforms, at + COLUMNS + 9, AXES)
    # Scale the direction to a largest component in [1, 2): `unit` is 2**-k and `scale` 2**k.
    size = _largest_lane(q)
    k = (as_ints(size) >> 52) - 1023
    unit, scale = instance_setup.power(0 - k), instance_setup.power(k)
    q, error = q * unit, slots.tlas_error(memory, slot)
    delta = instance_setup.delta_of(transforms, at, error, _largest_lane(p), unit)
    # Where the error is not bounded well enough, visit all nodes and decide all primitives exactly.
    to_tlas = slots.tlas_scale(memory, slot)
    enabled = blocks.slack(block.lanes, r) < F(INF) and to_tlas > 0.0
    enabled = enabled and MIN_SCALE < size < MAX_SCALE and norm < MAX_SCALE
    if not (enabled and delta <= WORST * bound and to_tlas * scale < 2.0**1000):
        slots.open_tree(instanced, memory, slot, leaf)
        _disable_tests(memory, slot, (lane(q, 0), lane(q, 1), lane(q, 2)), bound)
        return True
    # Clip it to the box of the BLAS, and at the closest hit in other instances.
    has_hit = slots.best(memory, slot) >= 0
    start, stop = slots.tlas_range(memory, slot)
    last = min(stop, slots.before_high(memory, slot)) if has_hit else stop
    start, stop, last = start * scale, stop * scale, last * scale
    before = blocks.entry(block.doubles, double_index(r))  # where the ray enters the TLAS
    lost, entry, leave = instance_setup.widened(tree, scale, before, start, last)
    inverse, margin = inverse_of(q), delta + CLIP_MARGIN * bound
    low, high = load(transforms, at + LOWEST, AXES), load(transforms, at + HIGHEST, AXES)
    near, far = ((low - p) - margin) * inverse, ((high - p) + margin) * inverse
    near, far = lesser(near, far), greater(near, far)
    entry = max(entry, max(lane(near, 0), max(lane(near, 1), lane(near, 2))))
    leave = min(leave, min(lane(far, 0), min(lane(far, 1), lane(far, 2))))
    if entry > leave:
        return False
    # Overwrite the rows of the TLAS in the slot.
    slots.open_tree(instanced, memory, slot, leaf)
    margin = (delta + MARGIN * bound) * UP
    ray_numbers.write_axis(memory, slot, 1, p + entry * q, q, inverse, margin)
    sizes = abs(q)
    spread = lane(sizes, 0) + lane(sizes, 1) + lane(sizes, 2)
    stay = Stay(start, stop, entry, leave, lost)
    first = slots.before_low(memory, slot) * scale if has_hit else INF
    instance_setup.write_local_limits(memory, slot, 1, transforms, at, spread, delta, stay, first)
    slots.set_octant(memory, slot, mask_bits(inverse < 0.0) & (OCTANTS - 1))
    slots.set_blas_entry(memory, slot, entry)
    slots.set_blas_scale(memory, slot, scale)
    return True


@inlined
def _transformed(transforms, at, v):
    """Return a vector v of the TLAS in the frame of a BLAS, an axis in each of AXES lanes.

    The local transform begins at index `at` of `transforms`. Only the first three lanes are valid:
    a column has three numbers, so that the last lane has some of the next column.
    """
    at += COLUMNS
    x, y = load(transforms, at, AXES) * v[0], load(transforms, at + 3, AXES) * v[1]
    return x + y + load(transforms, at + 6, AXES) * v[2]


@inlined
def _largest_lane(v):
    """Return the largest absolute value of the first three lanes of a vector."""
    sizes = abs(v)
    return max(lane(sizes, 0), max(lane(sizes, 1), lane(sizes, 2)))


@inlined
def _disable_tests(memory, slot, q, bound):
    """Set up a slot's ray to visit all of a BLAS with exact tests alone.

    q is the ray's direction there, and `bound` the largest coordinate of the BLAS's frame.
    """
    # With infinite error bounds, float32 tests decide nothing, whatever the direction is.
    p, inverse, margin = ray_setup.disabled_axes(q)
    ray_numbers.write_axes(memory, slot, 1, p, (1.0, 1.0, 1.0), inverse, margin)
    ray_numbers.write_limits(memory, slot, 1, ray_setup.disabled_limits(bound))
    ray_numbers.write_floors(memory, slot, 1, INF, INF, INF)
    slots.set_octant(memory, slot, ray_setup.octant_of(inverse))


@inlined
def _store_closest_interval(block, memory, slot, r):
    """Write a slot's before_low and before_high: bounds of the closest hit's distance in the TLAS.

    The hit is in the BLAS that the ray leaves.
    """
    if slots.exact(memory, slot) == slots.best(memory, slot):
        t = instance_setup.limited(slots.exact_t(memory, slot) * slots.tlas_scale(memory, slot))
        low = high = blocks.since_entry(block, r, t)
    else:
        # The slack of the ray in the BLAS covers the rounding.
        entry, scale = slots.blas_entry(memory, slot), slots.blas_scale(memory, slot)
        low = (np.float64(slots.best_low(memory, slot)) + entry) / scale
        high = (np.float64(slots.end(memory, slot)) + entry) / scale
    slots.set_before_low(memory, slot, low)
    slots.set_before_high(memory, slot, high)


@inlined
def _leave_blas(block, memory, slot, r):
    """Make a slot's ray leave its BLAS: write its end, as a distance in the TLAS, to the block."""
    lanes, best = block.lanes, slots.best(memory, slot)
    slack = blocks.slack(lanes, r)
    if slots.end(memory, slot) == F(-INF):
        # The ray is done, as one hit suffices.
        blocks.set_end(lanes, r, F(-INF))
    elif best >= 0 and leaf_of(best) == slots.instance(memory, slot):
        _store_closest_interval(block, memory, slot, r)
        # Where t has no scale in the TLAS, the end stays as it was.
        if slack < F(INF) and slots.tlas_scale(memory, slot) > 0.0:
            end = slots.before_high(memory, slot) + slack
            blocks.set_end(lanes, r, min(blocks.end(lanes, r), F(end)))
    slots.set_instance(memory, slot, -1)


@inlined
def _load_tlas_numbers(tree, block, memory, slot, r):
    """Write to a slot what the ray at r needs for boxes of the TLAS's nodes, except for its end."""
    slots.load_planes(memory, slot, block, r)
    slots.set_octant(memory, slot, blocks.octant(block.lanes, r))
    slots.set_nodes(memory, slot, address(tree.blocks, np.int64(0)))


def load_ray_of_scene(tree, block, memory, slot, r):
    """Give a slot to the ray at r of a block, without a hit so far, at the root of the TLAS."""
    _load_tlas_numbers(tree, block, memory, slot, r)
    slots.set_end(memory, slot, blocks.end(block.lanes, r))
    slots.assign_ray(memory, slot, r)
    # No instance so far: a negative error makes the first one call `_enter_tlas`.
    slots.set_tlas_error(memory, slot, -1.0)
    slots.set_instance(memory, slot, -1)
    # The stack begins at height 0, which has the index of the slot.
    slots.set_base(memory, slot, slot)


def next_entry_in_scene(tree, context_ref, memory, slot, top, ordered):
    """Return the stack's top once it is at the next node, or leaf of a BLAS, up to the ray's end.

    BLASes are entered and left on the way. A top is slot + height; one below the slot tells that
    nothing is left. `ordered` is unused, as children are always ordered in a scene.
    """
    if top < slot:
        return top
    if (
        top < slots.base(memory, slot)
        or slots.stack_entry(memory, top) > slots.end(memory, slot)
        or (slots.instance(memory, slot) < 0 and slots.stack_child(memory, top) < 0)
    ):
        return _change_level(context_ref, memory, slot, top)
    return top


@kernel
def _change_level(context_ref, memory, slot, top):
    """Return the stack's top once it is at the next node, or leaf of a BLAS; below slot: none left.

    This is `next_entry_in_scene` where entries are dropped, or a BLAS is entered or left.
    """
    # Entries behind the closest hit are dropped; those at the same distance stay, for ties.
    stay_outlined()
    tree, _, block = follow(context_ref)
    r, in_tlas = slots.ray(memory, slot), slots.instance(memory, slot) < 0
    while True:
        base, end = slots.base(memory, slot), slots.end(memory, slot)
        while top >= base and slots.stack_entry(memory, top) > end:
            top -= 1
        if top >= base:
            child = slots.stack_child(memory, top)
            if slots.instance(memory, slot) >= 0:
                return top
            if child >= 0:
                # Load these only now: few rays that leave a BLAS come to another node of the TLAS.
                if not in_tlas:
                    _load_tlas_numbers(tree, block, memory, slot, r)
                return top
            # The root of the BLAS, code 0, replaces the leaf of the TLAS on the stack.
            leaf = np.int64(peek(tree.ids, first_row(child)))
            if _enter_blas(context_ref, memory, slot, leaf):
                slots.set_base(memory, slot, top)
                slots.set_stack_children(memory, top, 0)
                slots.set_stack_entries(memory, top, F(0.0))
                return top
            top -= 1
        elif slots.instance(memory, slot) >= 0:
            _leave_blas(block, memory, slot, r)
            slots.set_end(memory, slot, blocks.end(block.lanes, r))
            slots.set_base(memory, slot, slot)
        else:
            return slot - 1
