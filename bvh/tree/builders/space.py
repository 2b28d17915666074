"""Spatial splits: the planes that a range of records can be split at, and the split at one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import inlined, kernel
from bvh.tree.builders.bins import (
    BINS,
    LEFT,
    LEFT_CENTRES,
    RIGHT,
    RIGHT_CENTRES,
    groups,
)
from bvh.tree.builders.clipping import clip, local_triangle
from bvh.tree.builders.records import (
    UPPER,
    centre,
    half_area,
    id_of,
    join,
    lane4,
    lane_of,
    load,
    nothing,
    store,
)


class SplitSource(NamedTuple):
    """Triangles, their local frame and their records."""

    triangles: Any
    frame: Any
    records: Any


class SpacePlane(NamedTuple):
    """A plane between two of the BINS intervals of an axis of a box."""

    box: Any  # its record, as a row of an array
    axis: Any
    last: Any  # the last interval on the left
    scale: Any  # intervals in a unit of each axis


@inlined
def _span(records, i, axis, low, scale):
    """Return the first and the last of the BINS intervals of space that a record overlaps."""
    first = np.int64((-lane_of(records, i, axis) - low) * scale)
    last = np.int64((lane_of(records, i, axis + UPPER) - low) * scale)
    first = min(max(first, 0), BINS - 1)
    return first, min(max(last, first), BINS - 1)


@inlined
def _plane(low, scale, b):
    """Return where interval b of space begins."""
    return np.float64(np.float32(low + np.float32(b) / scale))


@kernel
def fill_space(source, begin, end, box, scale, bins, counts, v):
    """Bound the parts of records in each interval of each axis; count the ends of records there.

    `counts` has the beginnings, then the endings. The last row of the bins is overwritten.
    """
    triangles, frame, records = source
    spare = len(bins) - 1
    for b in range(3 * BINS):
        store(bins, b, nothing())
        counts[b] = 0
        counts[3 * BINS + b] = 0
    for i in range(begin, end):
        r = load(records, i)
        is_known = False
        for axis in range(3):
            times = lane4(scale, axis)
            if times == 0.0:
                continue
            low = -lane_of(box, 0, axis)
            first, last = _span(records, i, axis, low, times)
            row = axis * BINS
            counts[row + first] += 1
            counts[3 * BINS + row + last] += 1
            if first == last:
                store(bins, row + first, join(load(bins, row + first), r))
                continue
            if not is_known:
                local_triangle(triangles, np.int64(id_of(records, i)), frame, v)
                is_known = True
            for b in range(first, last + 1):
                start, stop = _plane(low, times, b), _plane(low, times, b + 1)
                if clip(v, records, i, axis, start, stop, bins, spare):
                    store(bins, row + b, join(load(bins, row + b), load(bins, spare)))


@kernel
def best_plane(bins, counts, scale, capacity, group_bits, costs):
    """Return (cost, axis, bin, left, right) of the cheapest plane of at most `capacity` pieces."""
    best, best_axis, best_bin, best_left, best_right = np.float32(INF), -1, 0, 0, 0
    for axis in range(3):
        if lane4(scale, axis) == 0.0:
            continue
        first = axis * BINS
        box, right = nothing(), 0
        for b in range(BINS - 1, 0, -1):
            box = join(box, load(bins, first + b))
            right += counts[3 * BINS + first + b]
            costs[b] = half_area(box) * groups(right, group_bits) if right > 0 else np.float32(0.0)
        all_of = right + counts[3 * BINS + first]
        box, left = nothing(), 0
        for b in range(BINS - 1):
            box = join(box, load(bins, first + b))
            left += counts[first + b]
            right = all_of - _ended(counts, first, b)
            if (
                left == 0
                or right == 0
                or left == all_of
                or right == all_of
                or left + right > capacity
            ):
                continue
            cost = half_area(box) * groups(left, group_bits) + costs[b + 1]
            if cost < best:
                best, best_axis, best_bin, best_left, best_right = cost, axis, b, left, right
    return best, best_axis, best_bin, best_left, best_right


@inlined
def _ended(counts, first, b):
    """Return how many records end in the intervals up to b."""
    count = 0
    for k in range(first, first + b + 1):
        count += counts[3 * BINS + k]
    return count


@kernel
def part(source, begin, end, plane, left, right, counts, halves, pieces, v):
    """Move records to the side of a plane that they are on, and pieces of them to both.

    Bounds both sides, and returns the number of records on each. A record that crosses the plane
    stays whole where that is cheaper. `counts` are the numbers on each side if all are cut.
    """
    triangles, frame, records = source
    box, axis, last, scale = plane
    low, times = -lane_of(box, 0, axis), lane4(scale, axis)
    border = _plane(low, times, last + 1)
    whole_left, whole_right = load(halves, LEFT), load(halves, RIGHT)
    lefts, rights = counts
    left_box, right_box, left_centres, right_centres = nothing(), nothing(), nothing(), nothing()
    left_at, right_at = left, right
    for i in range(begin, end):
        r = load(records, i)
        from_bin, to_bin = _span(records, i, axis, low, times)
        goes_left, goes_right = from_bin <= last, to_bin > last
        left_piece, right_piece = r, r
        if goes_left and goes_right:
            local_triangle(triangles, np.int64(id_of(records, i)), frame, v)
            has_left = clip(
                v, records, i, axis, -np.float64(lane_of(records, i, axis)), border, pieces, 0
            )
            has_right = clip(
                v,
                records,
                i,
                axis,
                border,
                np.float64(lane_of(records, i, axis + UPPER)),
                pieces,
                1,
            )
            area_left, area_right = half_area(whole_left), half_area(whole_right)
            cut = area_left * lefts + area_right * rights
            keep_left = half_area(join(whole_left, r)) * lefts + area_right * (rights - 1)
            keep_right = area_left * (lefts - 1) + half_area(join(whole_right, r)) * rights
            if not has_right or (has_left and keep_left <= min(cut, keep_right)):
                goes_right = False
                whole_left = join(whole_left, r)
                rights -= 1
            elif not has_left or keep_right <= cut:
                goes_left = False
                whole_right = join(whole_right, r)
                lefts -= 1
            else:
                left_piece, right_piece = load(pieces, 0), load(pieces, 1)
        if goes_left:
            store(records, left_at, left_piece)
            left_box, left_centres = (
                join(left_box, left_piece),
                join(left_centres, centre(left_piece)),
            )
            left_at += 1
        if goes_right:
            store(records, right_at, right_piece)
            right_box = join(right_box, right_piece)
            right_centres = join(right_centres, centre(right_piece))
            right_at += 1
    store(halves, LEFT, left_box)
    store(halves, RIGHT, right_box)
    store(halves, LEFT_CENTRES, left_centres)
    store(halves, RIGHT_CENTRES, right_centres)
    return left_at - left, right_at - right
