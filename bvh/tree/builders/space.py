"""Spatial splits: the planes that a range of records can be split at, and the split at one.

A triangle that crosses a plane is clipped: it goes to both sides, with the box of its part there.

Why nothing is lost. A part is closed at both planes, and its box contains it: so every point of a
triangle is in the box of one of its parts, however often they are cut again. Vertices are rounded
to the local frame, by at most 2**-49 (coordinates are below 16). A point of the real triangle, and
the point of the rounded triangle with the same barycentric coordinates, differ no more than that.
So each part is cut off at planes SLACK further out than needed, where its corners are computed with
an error below 2**-45; extended by SLACK again, and rounded outward to float32, its box contains the
real points up to the planes themselves, where the box is cut off.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime import simd
from bvh.runtime.jit import inlined, kernel
from bvh.tree.builders import bins as binning
from bvh.tree.builders import records as record
from bvh.tree.builders.bins import BINS, GROUP_BITS, LEFT, LEFT_CENTRES, RIGHT, RIGHT_CENTRES
from bvh.tree.frame import into_frame
from bvh.tree.primitives import Triangles, corners

# See above: more than all rounding of vertices and corners.
SLACK = 2.0**-44

# A plane: its axis, the last of the BINS intervals on its left, the records on its left and right.
NO_PLANE = (-1, 0, 0, 0)


class Spatial(NamedTuple):
    """Input and scratch of spatial splits."""

    triangles: Triangles
    frame: NDArray[np.float64]  # of the records
    overlap: np.float32  # half the surface of an overlap of halves for which planes are tried
    bins: NDArray[np.float32]  # scratch from here on: the intervals of each axis
    counts: NDArray[np.int32]  # of records that begin in each interval, then of those that end
    corners: NDArray[np.float64]  # of a triangle in the local frame


@kernel
def local_triangle(triangles, i, frame, out):
    """Write the vertices of triangle i in the local frame to `out`, (3, 3)."""
    vertices = corners(triangles, i)
    for k in range(3):
        out[k, 0], out[k, 1], out[k, 2] = into_frame(frame, vertices[k])


@inlined
def _extended(lower, upper, p, is_inside):
    """Return (lower, upper), the corners of a box, extended to contain point p if `is_inside`."""
    # Points and corners are four lanes.
    mask = simd.splat(is_inside, 4)
    return (
        simd.select(mask, simd.lesser(lower, p), lower),
        simd.select(mask, simd.greater(upper, p), upper),
    )


@kernel
def _clip(v, r, axis, low, high):
    """Return the record of the part of a record's triangle between two planes across an axis.

    `v` (3, 3) are the local vertices of the triangle, `r` is the record. The planes are at `low`
    and `high`, which float32 can hold. Lower > upper in the record of an empty part.
    """
    # SLACK covers the rounding of vertices and corners: see the top of this file.
    begin, end = low - SLACK, high + SLACK
    lower, upper = simd.splat(INF, 4), simd.splat(-INF, 4)
    for k in range(3):
        after = k + 1 if k < 2 else 0
        a, b = record.corner(v, k), record.corner(v, after)
        at, to = v[k, axis], v[after, axis]
        least, most = min(at, to), max(at, to)
        # A corner of the part is a vertex, or the crossing of an edge with a plane.
        lower, upper = _extended(lower, upper, a, begin <= at <= end)
        if least < begin < most:
            p = a + (b - a) * simd.splat((begin - at) / (to - at), 4)
            lower, upper = _extended(lower, upper, p, True)
        if least < end < most:
            p = a + (b - a) * simd.splat((end - at) / (to - at), 4)
            lower, upper = _extended(lower, upper, p, True)
    slack = simd.splat(SLACK, 4)
    lower, upper = lower - slack, upper + slack
    box = record.box_record(
        simd.convert(lower, np.float32(0.0)), simd.convert(upper, np.float32(0.0)),
        record.id_in(r),
    )  # fmt: skip
    # Never beyond what is clipped, nor beyond the planes.
    planes = record.slab(np.int32(axis), np.float32(-low), np.float32(high))
    return record.meet(record.outward(box), record.meet(r, planes))


# The coordinate at which interval b of an axis begins, with `scale` intervals in a unit from `low`.
_plane = inlined(lambda low, scale, b: np.float64(np.float32(low + np.float32(b) / scale)))


@kernel
def fill_intervals(spatial, records, begin, end, box):
    """Bound the parts of records begin..end in each of the BINS intervals of each axis of a box.

    The bins of `spatial` get the boxes of the parts, and count records that are in one interval.
    `counts` counts the other records twice: first those that begin in each interval, and from
    3 * BINS on those that end in each.
    """
    triangles, frame, _, bins, counts, v = spatial
    scale = record.scales(box, np.float32(BINS))
    for b in range(3 * BINS):
        record.store(bins, b, record.empty_bin())
        counts[b] = 0
        counts[3 * BINS + b] = 0
    for i in range(begin, end):
        r = record.load(records, i)
        spans = record.spans_of(r, box, scale, np.int32(BINS - 1))
        if spans[:3] == spans[3:]:
            record.put(bins, spans[0], r)
            record.put(bins, BINS + spans[1], r)
            record.put(bins, 2 * BINS + spans[2], r)
            continue
        has_vertices = False
        for axis in range(3):
            first, last, base = spans[axis], spans[axis + 3], axis * BINS
            if first == last:
                record.put(bins, base + first, r)
                continue
            counts[base + first] += 1
            counts[3 * BINS + base + last] += 1
            if not has_vertices:
                local_triangle(triangles, np.int64(record.id_of(records, i)), frame, v)
                has_vertices = True
            low, in_unit = -simd.lane(box, np.int32(axis)), simd.lane(scale, np.int32(axis))
            for b in range(first, last + 1):
                start, stop = _plane(low, in_unit, b), _plane(low, in_unit, b + 1)
                piece = _clip(v, r, axis, start, stop)
                if record.overlaps(piece):
                    record.add(bins, base + b, piece)


@kernel
def best_plane(spatial, scale, capacity, sides):
    """Return (cost, plane) of the cheapest plane, of those that leave at most `capacity` pieces.

    The plane is (axis, last interval on the left, records on the left, on the right). Intervals,
    `scale` in a unit, are those of `fill_intervals` in `spatial`; `sides` is scratch.
    """
    bins, counts = spatial.bins, spatial.counts
    best, best_axis, best_bin, best_left, best_right = np.float32(INF), -1, 0, 0, 0
    for axis in range(3):
        if simd.lane(scale, np.int32(axis)) == 0.0:
            continue
        first = axis * BINS
        box, right = record.empty_box(), 0
        for b in range(BINS - 1, -1, -1):
            bin = record.load(bins, first + b)
            box = record.join(box, bin)
            right += record.count_of(bin) + counts[3 * BINS + first + b]
            sides[b, 0] = record.half_area(box) * binning.groups(right, GROUP_BITS)
        box, left, all_of = record.empty_box(), 0, right
        for b in range(BINS - 1):
            bin = record.load(bins, first + b)
            box = record.join(box, bin)
            left += record.count_of(bin) + counts[first + b]
            right -= record.count_of(bin) + counts[3 * BINS + first + b]
            # Each side must have some records, and fewer than all.
            one_sided = min(left, right) == 0 or max(left, right) == all_of
            if one_sided or left + right > capacity:
                continue
            cost = record.half_area(box) * binning.groups(left, GROUP_BITS) + sides[b + 1, 0]
            if cost < best:
                best, best_axis, best_bin, best_left, best_right = cost, axis, b, left, right
    return best, (best_axis, best_bin, best_left, best_right)


@kernel
def may_cut(spatial, halves, axis):
    """Return whether planes are tried: there is no best split, or its halves overlap enough."""
    # Rows LEFT and RIGHT of `halves` are the boxes of its sides; `axis` is -1 if there is no split.
    if axis < 0:
        return True
    shared = record.meet(record.load(halves, LEFT), record.load(halves, RIGHT))
    return record.overlaps(shared) and record.half_area(shared) > spatial.overlap


@kernel
def cheaper_plane(spatial, records, span, box, halves, split, sides):
    """Return (cost, plane) of the cheapest plane for a range of records with a box.

    `span` is (begin, end, most pieces). `split` is (cost, axis) of the best split between bins, the
    axis -1 for none; rows LEFT and RIGHT of `halves` are the boxes of its sides. If no plane is
    cheaper than the split, or its sides hardly overlap, the result is (cost of the split,
    NO_PLANE). `sides` is scratch of `best_plane`.
    """
    begin, end, capacity = span
    cost, axis = split
    if not may_cut(spatial, halves, axis):
        return cost, NO_PLANE
    fill_intervals(spatial, records, begin, end, box)
    scale = record.scales(box, np.float32(BINS))
    plane_cost, plane = best_plane(spatial, scale, capacity, sides)
    return (plane_cost, plane) if plane_cost < cost else (cost, NO_PLANE)


@kernel
def split_at_plane(spatial, records, begin, end, plane, targets, box, halves):
    """Move records begin..end to their side of a plane; cut those that cross it, or choose a side.

    `plane` is as in `best_plane`, and `box` the one that intervals divide. `targets` are the first
    rows of the left and the right side. Writes the boxes of both sides and of their centres to
    `halves`, and returns the number of records on each side. A record that crosses the plane stays
    whole where that is cheaper.
    """
    triangles, frame, _, bins, _, v = spatial
    axis, last, lefts, rights = plane
    binning.bound_halves(bins, BINS, axis, last, halves)
    scale = record.scales(box, np.float32(BINS))
    low, in_unit = -simd.lane(box, np.int32(axis)), simd.lane(scale, np.int32(axis))
    border = _plane(low, in_unit, last + 1)
    # Costs are by the boxes of all parts on each side, extended by the records that stay whole.
    whole_left, whole_right = record.load(halves, LEFT), record.load(halves, RIGHT)
    left_box, right_box = record.empty_box(), record.empty_box()
    left_centres, right_centres = record.empty_box(), record.empty_box()
    left_at, right_at = targets
    for i in range(begin, end):
        r = record.load(records, i)
        spans = record.spans_of(r, box, scale, np.int32(BINS - 1))
        from_bin, to_bin = spans[axis], spans[axis + 3]
        goes_left, goes_right = from_bin <= last, to_bin > last
        left_piece, right_piece = r, r
        if goes_left and goes_right:
            local_triangle(triangles, np.int64(record.id_of(records, i)), frame, v)
            start = -np.float64(record.lane_of(records, i, axis))
            stop = np.float64(record.lane_of(records, i, axis + record.UPPER))
            left_piece = _clip(v, r, axis, start, border)
            right_piece = _clip(v, r, axis, border, stop)
            has_left, has_right = record.overlaps(left_piece), record.overlaps(right_piece)
            area_left, area_right = record.half_area(whole_left), record.half_area(whole_right)
            # The costs of cutting the record, and of keeping all of it on one side.
            cut = area_left * lefts + area_right * rights
            larger_left = record.half_area(record.join(whole_left, r))
            larger_right = record.half_area(record.join(whole_right, r))
            keep_left = larger_left * lefts + area_right * (rights - 1)
            keep_right = area_left * (lefts - 1) + larger_right * rights
            if not has_right or (has_left and keep_left <= min(cut, keep_right)):
                goes_right, left_piece = False, r
                whole_left = record.join(whole_left, r)
                rights -= 1
            elif not has_left or keep_right <= cut:
                goes_left, right_piece = False, r
                whole_right = record.join(whole_right, r)
                lefts -= 1
        if goes_left:
            record.store(records, left_at, left_piece)
            left_box = record.join(left_box, left_piece)
            left_centres = record.join(left_centres, record.centre(left_piece))
            left_at += 1
        if goes_right:
            record.store(records, right_at, right_piece)
            right_box = record.join(right_box, right_piece)
            right_centres = record.join(right_centres, record.centre(right_piece))
            right_at += 1
    record.store(halves, LEFT, left_box)
    record.store(halves, RIGHT, right_box)
    record.store(halves, LEFT_CENTRES, left_centres)
    record.store(halves, RIGHT_CENTRES, right_centres)
    return left_at - targets[0], right_at - targets[1]
