"""Bins: equal intervals of the centres of a range of records, and the split between two of them.

Records move back and forth between the two halves of one array and keep their order. The bins give
the boxes of both sides; the move itself bounds the centres, which the next split needs.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime import simd
from bvh.runtime.jit import inlined, kernel
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
# The number of bins for a range of `count` records.
bins_for = inlined(lambda count: min(BINS, MIN_BINS + (count >> 3)))


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
    last, stride = np.int32(used - 1), np.int32(BINS)
    for i in range(begin, end - 1, 2):
        record.drop(bins, 0, record.load(records, i), centres, scale, last, stride)
        record.drop(bins, second, record.load(records, i + 1), centres, scale, last, stride)
    if (end - begin) & 1:
        record.drop(bins, 0, record.load(records, end - 1), centres, scale, last, stride)
    if second > 0:
        for axis in range(3):
            for b in range(axis * BINS, axis * BINS + used):
                both = record.join_bins(record.load(bins, b), record.load(bins, second + b))
                record.store(bins, b, both)


@inlined
def sweep(bins, first, used, group_bits, costs):
    """Return (cost, last bin on the left, records on the left) of the cheapest split of one axis.

    The axis has `used` bins, rows of `bins` from `first` on. A side costs its half area for each
    started group of 1 << group_bits records. `costs` is scratch.
    """
    # Sweep from the right, then from the left, and add both sides' costs. An empty side has the
    # cost NaN, infinity times zero, which is never the lowest.
    box, count = record.nothing(), 0
    for b in range(used - 1, 0, -1):
        bin = record.load(bins, first + b)
        box = record.join(box, bin)
        count += record.count_of(bin)
        costs[b] = record.half_area(box) * groups(count, group_bits)
    best, best_bin, best_count = np.float32(INF), 0, 0
    box, count = record.nothing(), 0
    for b in range(used - 1):
        bin = record.load(bins, first + b)
        box = record.join(box, bin)
        count += record.count_of(bin)
        cost = record.half_area(box) * groups(count, group_bits) + costs[b + 1]
        if cost < best:
            best, best_bin, best_count = cost, b, count
    return best, best_bin, best_count


@kernel
def best_split(bins, scale, used, group_bits, costs):
    """Return (cost, axis, last bin on the left, records on the left) of the cheapest split.

    The axis is -1 if nothing can be split. `bins`, `scale` and `used` are as in `fill_bins`; the
    cost and `costs` (scratch) as in `sweep`.
    """
    # The scale of narrow axes is 0. On others no side is empty: both end bins have a centre.
    best, best_axis, best_bin, best_count = np.float32(INF), -1, 0, 0
    for axis in range(3):
        if simd.lane(scale, np.int32(axis)) == 0.0:
            continue
        cost, b, count = sweep(bins, axis * BINS, used, group_bits, costs)
        if cost < best:
            best, best_axis, best_bin, best_count = cost, axis, b, count
    return best, best_axis, best_bin, best_count


@kernel
def bound_halves(bins, used, axis, last, boxes):
    """Write the boxes of both sides of the split after bin `last` to rows LEFT and RIGHT.

    The axis has `used` bins.
    """
    box = record.nothing()
    for b in range(axis * BINS, axis * BINS + last + 1):
        box = record.join(box, record.load(bins, b))
    record.store(boxes, LEFT, box)
    box = record.nothing()
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
    none = record.nothing()
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
    box, centres = record.nothing(), record.nothing()
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
