"""Bins: equal intervals of the centres of a range of records, and the split between two of them.

Records move back and forth between the two halves of one array and keep their order. The bins give
the boxes of both sides; the move itself bounds the centres, which the next split needs.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF
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


@inlined
def _drop(r, at, first, bins, counts):
    """Add a record to its bins `at` on each axis, of the set of bins that begins at `first`."""
    x, y, z = first + at[0], first + at[1] + BINS, first + at[2] + 2 * BINS
    counts[x] += 1
    counts[y] += 1
    counts[z] += 1
    record.add(bins, x, r)
    record.add(bins, y, r)
    record.add(bins, z, r)


@kernel
def fill_bins(records, begin, end, centres, scale, used, bins, counts):
    """Count the records of the `used` bins of each axis, and bound them."""
    # Neighbours often fall into the same bins, so that one store waits for the other: in long
    # ranges every second record goes into a second set of bins.
    second = 3 * BINS if end - begin >= 4 * BINS else 0
    for first in range(0, second + 1, 3 * BINS):
        for axis in range(3):
            for b in range(first + axis * BINS, first + axis * BINS + used):
                record.store(bins, b, record.nothing())
                counts[b] = 0
    first = 0
    for i in range(begin, end):
        r = record.load(records, i)
        _drop(r, record.bins_of(record.centre(r), centres, scale, used - 1), first, bins, counts)
        first = second - first
    if second > 0:
        for axis in range(3):
            for b in range(axis * BINS, axis * BINS + used):
                record.add(bins, b, record.load(bins, second + b))
                counts[b] += counts[second + b]


@inlined
def sweep(bins, counts, first, used, group_bits, costs):
    """Return (cost, bin, records on the left) of the cheapest split between bins of one axis."""
    # Sweep from the right, then from the left, and add both sides' costs. An empty side has the
    # cost NaN, infinity times zero, which is never the lowest.
    box, count = record.nothing(), 0
    for b in range(used - 1, 0, -1):
        box = record.join(box, record.load(bins, first + b))
        count += counts[first + b]
        costs[b] = record.half_area(box) * groups(count, group_bits)
    best, best_bin, best_count = np.float32(INF), 0, 0
    box, count = record.nothing(), 0
    for b in range(used - 1):
        box = record.join(box, record.load(bins, first + b))
        count += counts[first + b]
        cost = record.half_area(box) * groups(count, group_bits) + costs[b + 1]
        if cost < best:
            best, best_bin, best_count = cost, b, count
    return best, best_bin, best_count


@kernel
def best_split(bins, counts, scale, used, group_bits, costs):
    """Return (cost, axis, bin, records on the left) of the cheapest split; axis -1 if none."""
    # No side is empty: the lowest centre is in the first bin and the highest in the last.
    best, best_axis, best_bin, best_count = np.float32(INF), -1, 0, 0
    for axis in range(3):
        if record.lane4(scale, axis) == 0.0:
            continue
        cost, b, count = sweep(bins, counts, axis * BINS, used, group_bits, costs)
        if cost < best:
            best, best_axis, best_bin, best_count = cost, axis, b, count
    return best, best_axis, best_bin, best_count


@kernel
def bound_halves(bins, used, axis, last, boxes):
    """Write the boxes of both sides of a split."""
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
    """Move records to the rows from `left` or `right` on; bound the centres of both sides."""
    # The split: the axis, the last bin on the left, minus twice the lowest centre on the axis, and
    # the number of bins in a unit of it.
    axis, last, low, scale = split
    lefts, rights = record.nothing(), record.nothing()
    for i in range(begin, end):
        r = record.load(records, i)
        # The same float32 arithmetic as in `bins_of`.
        at = record.lane_of(records, i, axis + record.UPPER) - record.lane_of(records, i, axis)
        is_left = np.int32((at + low) * scale) <= last
        record.store(records, left if is_left else right, r)
        step = np.int64(is_left)
        left += step
        right += 1 - step
        c = record.centre(r)
        lefts = record.join(lefts, record.only_if(is_left, c))
        rights = record.join(rights, record.only_if(not is_left, c))
    record.store(boxes, LEFT_CENTRES, lefts)
    record.store(boxes, RIGHT_CENTRES, rights)


@kernel
def bound(records, begin, end, boxes, box_row, centres_row):
    """Bound a range of records and their centres."""
    box, centres = record.nothing(), record.nothing()
    for i in range(begin, end):
        r = record.load(records, i)
        box = record.join(box, r)
        centres = record.join(centres, record.centre(r))
    record.store(boxes, box_row, box)
    record.store(boxes, centres_row, centres)


@kernel
def cut_in_half(records, begin, end, boxes):
    """Bound both halves of a range, without moving its records."""
    middle = begin + ((end - begin) >> 1)
    bound(records, begin, middle, boxes, LEFT, LEFT_CENTRES)
    bound(records, middle, end, boxes, RIGHT, RIGHT_CENTRES)
