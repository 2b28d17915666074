"""Bins: equal intervals of the centres of a range of records, and the split between two of them.

Records move back and forth between the two halves of one array and keep their order. The bins give
the boxes of both sides; the move itself bounds the centres, which the next split needs.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime import simd
from bvh.runtime.jit import inlined, kernel
from bvh.runtime.memory import aligned
from bvh.runtime.simd import WIDTH
from bvh.tree.builders import records as record

BINS = 16
MIN_BINS = 8
# 1 << GROUP_BITS primitives are tested together.
GROUP_BITS = WIDTH.bit_length() - 1

# Boxes of a range's halves, then of the halves' centres.
LEFT, RIGHT, LEFT_CENTRES, RIGHT_CENTRES = range(4)


# The number of groups of 1 << bits records, the last of which may be incomplete.
groups = inlined(lambda count, bits: np.float32((count + (1 << bits) - 1) >> bits))
# The number of bins on each axis, which is 0 where the scale is 0: the centres are too close.
used_bins = inlined(
    lambda scale, used: (
        used if simd.lane(scale, np.int32(0)) != 0.0 else 0,
        used if simd.lane(scale, np.int32(1)) != 0.0 else 0,
        used if simd.lane(scale, np.int32(2)) != 0.0 else 0,
    )
)
# The number of bins for a range of `count` records.
bins_for = inlined(lambda count: min(BINS, MIN_BINS + (count >> 3)))


def new_sides(count: int) -> NDArray[np.float32]:
    """Return the scratch of `best_split` for up to `count` bins on each axis."""
    # The left sides of all splits, then the right sides. WIDTH rows are read at once: zeros in rows
    # that are not written, lest they hold subnormal numbers, which are slow.
    sides = aligned(8 * (3 * count + WIDTH), np.float32)
    sides[:] = 0.0
    return sides.reshape(-1, 4)


@kernel
def fill_bins(records, begin, end, centres, scale, used, bins):
    """Put records begin..end into `used` bins of each axis; the bins of axis k begin at k * BINS.

    `centres` is the box of the records' doubled centres, and `scale` is `records.scales` of this
    box for `used` bins.
    """
    # Neighbours often fall into the same bins, so that one store waits for the other: in long
    # ranges every second record goes into a second set of bins.
    second = 3 * BINS if end - begin >= 4 * BINS else 0
    for first in range(0, second + 1, 3 * BINS):
        for axis in range(3):
            for b in range(first + axis * BINS, first + axis * BINS + used):
                record.store(bins, b, record.empty_bin())
    for i in range(begin, end - 1, 2):
        record.drop(bins, 0, record.load(records, i), centres, scale, BINS)
        record.drop(bins, second, record.load(records, i + 1), centres, scale, BINS)
    if (end - begin) & 1:
        record.drop(bins, 0, record.load(records, end - 1), centres, scale, BINS)
    if second > 0:
        for axis in range(3):
            for b in range(axis * BINS, axis * BINS + used):
                both = record.join_bins(record.load(bins, b), record.load(bins, second + b))
                record.store(bins, b, both)


@inlined
def _put_side(sides, row, box, count):
    """Write the size of a box, and the last lane of `count`, four int32, to a row of `sides`."""
    last = simd.lane_numbers(4) == 3
    simd.store(sides, 4 * row, simd.select(last, simd.as_floats(count), record.size_of(box)))


@inlined
def _side_costs(sides, row, group_bits):
    """Return the costs of WIDTH sides, rows of `sides` from `row` on, in lanes."""
    x, y, z, count = simd.load_fours(sides, 4 * row, WIDTH)
    some = simd.as_ints(count) + np.int32((1 << group_bits) - 1)
    groups = simd.convert(some >> np.int32(group_bits), np.float32(0.0))
    return ((x * y + y * z) + z * x) * groups


@inlined
def _put_sides(bins, first, used, sides):
    """Write the sizes and counts of both sides of each split of one axis to `sides`.

    The axis has `used` bins, rows of `bins` from `first` on. The sides of the split after bin b are
    in row first + b of each half of `sides`.
    """
    half, none = len(sides) >> 1, simd.splat(np.int32(0), 4)
    box, count = record.empty_box(), none
    for b in range(first + used - 2, first - 1, -1):
        bin = record.load(bins, b + 1)
        box, count = record.join(box, bin), count + record.counts_in(bin)
        _put_side(sides, half + b, box, count)
    box, count = record.empty_box(), none
    for b in range(first, first + used - 1):
        bin = record.load(bins, b)
        box, count = record.join(box, bin), count + record.counts_in(bin)
        _put_side(sides, b, box, count)


@kernel
def best_split(bins, stride, used, group_bits, sides):
    """Return (cost, axis, last bin on the left, records on the left) of the cheapest split.

    Axis k has used[k] bins, rows of `bins` from k * stride on. A side of a split costs its half
    area for each started group of 1 << group_bits records. The axis is -1 if nothing can be split.
    `sides` is scratch: see `new_sides`.
    """
    for axis in range(3):
        _put_sides(bins, axis * stride, used[axis], sides)
    half, numbers = len(sides) >> 1, simd.lane_numbers(WIDTH)
    best, best_rows = simd.splat(np.float32(INF), WIDTH), numbers
    for axis in range(3):
        for b in range(0, used[axis] - 1, WIDTH):
            row = axis * stride + b
            # The cost of an empty side is NaN, infinity times zero, which is never the lowest.
            cost = _side_costs(sides, row, group_bits) + _side_costs(sides, half + row, group_bits)
            is_less = (cost < best) & (numbers < np.int32(used[axis] - 1 - b))
            best = simd.select(is_less, cost, best)
            best_rows = simd.select(is_less, numbers + np.int32(row), best_rows)
    cost = simd.lowest(best)
    if cost == np.float32(INF):
        return cost, -1, 0, 0
    lane = simd.lowest_bit(simd.mask_bits(best <= simd.splat(cost, WIDTH)))
    row = np.int64(simd.lane(best_rows, np.int32(lane)))
    return cost, row // stride, row % stride, np.int64(simd.peek_int(sides, 4 * row + 3))


@kernel
def bound_halves(bins, used, axis, last, boxes):
    """Write the boxes of both sides of the split after bin `last` to rows LEFT and RIGHT.

    The axis has `used` bins.
    """
    box = record.empty_box()
    for b in range(axis * BINS, axis * BINS + last + 1):
        box = record.join(box, record.load(bins, b))
    record.store(boxes, LEFT, box)
    box = record.empty_box()
    for b in range(axis * BINS + last + 1, axis * BINS + used):
        box = record.join(box, record.load(bins, b))
    record.store(boxes, RIGHT, box)


@kernel
def move(records, begin, end, split, left, right, boxes):
    """Move records begin..end to rows from `left` on, or from `right` on, by a split between bins.

    `split` is (axis, last bin on the left, minus twice the lowest centre on the axis, bins in a
    unit of the axis). Writes the boxes of both sides' doubled centres to rows LEFT_CENTRES and
    RIGHT_CENTRES of `boxes`.
    """
    axis, last, low, scale = split
    none = record.empty_box()
    lefts, rights = none, none
    low, scale = simd.splat(low, 8), simd.splat(scale, 8)
    border = simd.splat(np.float32(last + 1), 8)
    # The next row on the left is `left`. Of the i - begin records moved so far, all but those on
    # the left are on the right, where the next row thus is both + i - left.
    both = left + right - begin
    for i in range(begin, end):
        r = record.load(records, i)
        c = record.centre(r)
        # The same float32 arithmetic as in `bins_of`, of one axis in all lanes.
        mask = (record.spread_lane(c, axis + record.UPPER) + low) * scale < border
        is_left = simd.mask_bits(mask) != 0
        record.store(records, left if is_left else both + i - left, r)
        left += np.int64(is_left)
        lefts = record.join(lefts, simd.select(mask, c, none))
        rights = record.join(rights, simd.select(mask, none, c))
    record.store(boxes, LEFT_CENTRES, lefts)
    record.store(boxes, RIGHT_CENTRES, rights)


@kernel
def bound(records, begin, end, boxes, box_row, centres_row):
    """Write the box of records begin..end, and of their doubled centres, to rows of `boxes`."""
    box, centres = record.empty_box(), record.empty_box()
    for i in range(begin, end):
        r = record.load(records, i)
        box = record.join(box, r)
        centres = record.join(centres, record.centre(r))
    record.store(boxes, box_row, box)
    record.store(boxes, centres_row, centres)


@kernel
def cut_in_half(records, begin, end, boxes):
    """Write the boxes of both halves of records begin..end, and of their centres, to `boxes`."""
    # The left half has the first (end - begin) // 2 records; none is moved.
    middle = begin + ((end - begin) >> 1)
    bound(records, begin, middle, boxes, LEFT, LEFT_CENTRES)
    bound(records, middle, end, boxes, RIGHT, RIGHT_CENTRES)
