"""Closed outlines in a picture, and tests of which projected triangles touch them or are inside.

An outline is a closed polygon in pixels, simple or not, without repeated consecutive points (but it
may be a single point); its region is the closed set of the points on it and of those with an odd
winding number. A corner of a projected triangle is a homogeneous point (x, y, w): with w = 1 in
front of the eye, with w <= 0 in or behind the plane of the eye, where x and y are in units of
pixels times w. The image of a triangle is then the intersection of the cone over its corners with
the plane w = 1: a triangle that reaches behind the eye is not clipped; its image may be unbounded.

All decisions are exact signs of determinants: with w = 1 those of `predicates.orient2d`.
"""

import itertools
from collections.abc import Sequence
from math import inf

import numpy as np

from bvh.geometry.arithmetic.exact_sums import add_triple, new_sum, take_sign
from bvh.geometry.arithmetic.floats import finite, vector
from bvh.geometry.arithmetic.predicates import orient2d
from bvh.geometry.arithmetic.rational import Row, between, cross, dot, dots, scaled, times
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms

Edge = tuple[Row, Row]

# Verdicts on triangles, and locations of points.
APART, MEET, UNSURE = 0, 1, -1
OUTSIDE, BORDER, INTERIOR = -1, 0, 1

# The error of a determinant, relative to the sum of its absolute terms: five roundings of 2**-53
# on any path (a product, a difference, a product and two sums), doubled.
ERROR = 10.0 * 2.0**-53
# More than what underflow loses of a product of two factors; to be multiplied by the third factor.
TINY = 2.0**-1020  # not subnormal, which is slow


@inlined
def outline_point(outline, i):
    """Return point i of an outline as a homogeneous point (x, y, 1)."""
    return (outline[i, 0], outline[i, 1], 1.0)


@kernel
def turn(p, q, r):
    """Return the sign of det[p, q, r] of homogeneous points: 1 for a left turn, 0 on one line."""
    # With all weights 1, in front of the eye, this is the orientation of points of the picture.
    stay_outlined()
    if p[2] == 1.0 and q[2] == 1.0 and r[2] == 1.0:
        return orient2d(p, q, r)
    value, size = 0.0, 0.0
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        left, right = q[j] * r[k], q[k] * r[j]
        value += p[i] * (left - right)
        size += abs(p[i]) * (abs(left) + abs(right))
    if abs(value) > ERROR * size + TINY * (1.0 + (abs(p[0]) + abs(p[1]) + abs(p[2]))):
        return 1 if value > 0.0 else -1
    total = new_sum()
    add_triple(total, 1.0, p, q, r)
    return take_sign(total)


@inlined
def _order_along(p, q, i):
    """Return the sign of p[i] q[2] - q[i] p[2]: the order of two points along axis i, 0 or 1."""
    if p[2] == 1.0 and q[2] == 1.0:
        return (1 if p[i] > q[i] else 0) - (1 if p[i] < q[i] else 0)
    return turn(p, q, (0.0, -1.0, 0.0) if i == 0 else (1.0, 0.0, 0.0))


@kernel
def locate(outline, v):
    """Return where point v, in front of the eye, is in an outline: OUTSIDE, BORDER or INTERIOR."""
    # A ray along +x from v crosses the edges p, q that span the height of v and pass v on the side
    # of +x. `before` and `above` are the signs of the heights of p and q over v.
    stay_outlined()
    odd = False
    p = outline_point(outline, len(outline) - 1)
    above = _order_along(p, v, 1)
    for i in range(len(outline)):
        q = outline_point(outline, i)
        before, above = above, _order_along(q, v, 1)
        if before == 0 and above == 0:
            if _order_along(p, v, 0) * _order_along(q, v, 0) <= 0:
                return BORDER
        elif before * above <= 0:
            side = turn(p, q, v)
            if side == 0:
                return BORDER
            if (before > 0) != (above > 0) and (above > 0) == (side > 0):
                odd = not odd
        p = q
    return INTERIOR if odd else OUTSIDE


@kernel
def _meets_on_line(p, q, a, b):
    """Return whether the segment p, q meets the image of the edge a, b, all on one line."""
    # Two intervals of a line intersect if one contains an end of the other. Only p and q are
    # known to be in front of the eye.
    stay_outlined()
    if p[0] == q[0] and p[1] == q[1]:
        return _holds_point(p, a, b)
    axis = 0 if p[0] != q[0] else 1
    order = _order_along(p, q, axis)
    for v in (a, b):
        # A corner at the eye itself has no image.
        at_eye = v[0] == 0.0 and v[1] == 0.0 and v[2] == 0.0
        if not at_eye and _between(p, q, v, order, axis):
            return True
    order = _order_along(a, b, axis)
    return order != 0 and (_between(a, b, p, order, axis) or _between(a, b, q, order, axis))


@kernel
def _holds_point(p, a, b):
    """Return whether a point p is in the image of the edge a, b, all on one line."""
    for axis in range(2):
        order = _order_along(a, b, axis)
        if order != 0:
            return _between(a, b, p, order, axis)
    # Both ends are on one line of sight: the image is a point.
    v = a if a[2] > 0.0 else b
    return v[2] > 0.0 and _order_along(v, p, 0) == 0 and _order_along(v, p, 1) == 0


@inlined
def _between(p, q, v, order, axis):
    """Return whether v is in the cone over p and q; order = `_order_along(p, q, axis)` is not 0."""
    return _order_along(v, q, axis) * order >= 0 and _order_along(p, v, axis) * order >= 0


@inlined
def _crosses(p, q, a, b, sa, sb, sp, sq):
    """Return whether the segment p, q meets the image of the edge a, b.

    sa, sb are the signs of det[p, q, a], det[p, q, b]; sp, sq of det[a, b, p], det[a, b, q].
    """
    if sp == 0 and sq == 0:
        return sa == 0 and sb == 0 and _meets_on_line(p, q, a, b)
    # det[a, b, q] p - det[a, b, p] q = det[p, q, a] b - det[p, q, b] a. This vector is in the cones
    # over p, q and over a, b if the four coefficients are all >= 0, or all <= 0.
    if sa >= 0 and sb <= 0 and sq >= 0 and sp <= 0:
        return True
    return sa <= 0 and sb >= 0 and sq <= 0 and sp >= 0


@inlined
def _all_in_front(a, b, c):
    """Return whether a triangle is entirely in front of the eye."""
    return a[2] == 1.0 and b[2] == 1.0 and c[2] == 1.0


@inlined
def _box(a, b, c):
    """Return the bounds (x0, y0, x1, y1) of a triangle in front of the eye."""
    low = min(a[0], min(b[0], c[0])), min(a[1], min(b[1], c[1]))
    return low + (max(a[0], max(b[0], c[0])), max(a[1], max(b[1], c[1])))


@inlined
def _beyond_one_side(p, q, box):
    """Return whether both ends of a segment are beyond one side of a box (x0, y0, x1, y1)."""
    x0, y0, x1, y1 = box
    return (
        (p[0] < x0 and q[0] < x0) or (p[0] > x1 and q[0] > x1)
        or (p[1] < y0 and q[1] < y0) or (p[1] > y1 and q[1] > y1)
    )  # fmt: skip


@kernel
def _segment_meets(p, q, a, b, c, sign):
    """Return whether the segment p, q meets the image of a triangle; `sign` is turn(a, b, c)."""
    # Reject triangles strictly on one side of the line.
    stay_outlined()
    sa, sb, sc = turn(p, q, a), turn(p, q, b), turn(p, q, c)
    if (sa > 0 and sb > 0 and sc > 0) or (sa < 0 and sb < 0 and sc < 0):
        return False
    # An end is in the image if its signs at all edges are that of the triangle, or 0. If neither
    # end is in the image, the segment must cross an edge.
    pa, pb, pc = turn(b, c, p), turn(c, a, p), turn(a, b, p)
    if sign != 0 and pa * sign >= 0 and pb * sign >= 0 and pc * sign >= 0:
        return True
    qa, qb, qc = turn(b, c, q), turn(c, a, q), turn(a, b, q)
    if sign != 0 and qa * sign >= 0 and qb * sign >= 0 and qc * sign >= 0:
        return True
    return (
        _crosses(p, q, a, b, sa, sb, pc, qc)
        or _crosses(p, q, b, c, sb, sc, pa, qa)
        or _crosses(p, q, c, a, sc, sa, pb, qb)
    )


@kernel
def _outline_meets(outline, a, b, c):
    """Return whether the image of a triangle a, b, c meets the outline."""
    stay_outlined()
    in_front, box = _all_in_front(a, b, c), _box(a, b, c)
    sign = turn(a, b, c)
    p = outline_point(outline, len(outline) - 1)
    for i in range(len(outline)):
        q = outline_point(outline, i)
        if not (in_front and _beyond_one_side(p, q, box)) and _segment_meets(p, q, a, b, c, sign):
            return True
        p = q
    return False


@kernel
def _enters(p, q, a, b, c, sign):
    """Return whether the segment p, q meets the interior of a triangle with area.

    `sign` is turn(a, b, c). All points are in front of the eye.
    """
    # The line must have corners on both sides, and the segment must not be outside of an edge.
    sa, sb, sc = turn(p, q, a), turn(p, q, b), turn(p, q, c)
    if (sa >= 0 and sb >= 0 and sc >= 0) or (sa <= 0 and sb <= 0 and sc <= 0):
        return False
    return not (
        (turn(a, b, p) * sign <= 0 and turn(a, b, q) * sign <= 0)
        or (turn(b, c, p) * sign <= 0 and turn(b, c, q) * sign <= 0)
        or (turn(c, a, p) * sign <= 0 and turn(c, a, q) * sign <= 0)
    )


@kernel
def _judge_inside(outline, deep, a, b, c):
    """Return MEET if a triangle is certainly inside the region of an outline, else UNSURE.

    The triangle is in front of the eye, and all of its corners are in the region; `deep` tells
    whether one of them is in the interior.
    """
    stay_outlined()
    box = _box(a, b, c)
    sign = turn(a, b, c)
    p = outline_point(outline, len(outline) - 1)
    for i in range(len(outline)):
        q = outline_point(outline, i)
        if not _beyond_one_side(p, q, box):
            # Not APART: where an outline runs along itself, both sides may be in the region.
            if sign == 0 or _enters(p, q, a, b, c, sign):
                return UNSURE
        p = q
    # No segment meets the triangle's interior, so all of it is where a corner off the border is.
    return MEET if deep else UNSURE


@inlined
def _box_of(outline):
    """Return the bounds (x0, y0, x1, y1) of an outline."""
    # Not by methods of arrays, which take a second to compile.
    low_x, low_y, high_x, high_y = inf, inf, -inf, -inf
    for i in range(len(outline)):
        x, y = outline[i, 0], outline[i, 1]
        low_x, low_y = min(low_x, x), min(low_y, y)
        high_x, high_y = max(high_x, x), max(high_y, y)
    return low_x, low_y, high_x, high_y


@entry
def judge_triangles(outline, convex, want_inside, points, locations, faces, first, last, verdicts):
    """Write MEET, APART or UNSURE for triangles first..last-1 and the region of an outline.

    MEET: a triangle touches the region; if `want_inside`, it is inside. If `convex`, the region is
    convex, so that a triangle is inside if its corners are. `faces` (m, 3) are indices of `points`
    (n, 3), homogeneous, whose `locations` (n,) `judge_points` has written. Triangles with corners
    that are not finite are APART.
    """
    low_x, low_y, high_x, high_y = _box_of(outline)
    for i in range(first, last):
        fa, fb, fc = np.int64(faces[i, 0]), np.int64(faces[i, 1]), np.int64(faces[i, 2])
        a, b, c = vector(points, fa), vector(points, fb), vector(points, fc)
        highest = max(locations[fa], max(locations[fb], locations[fc]))
        lowest = min(locations[fa], min(locations[fb], locations[fc]))
        verdicts[i] = APART
        if not (finite(a) and finite(b) and finite(c)):
            continue
        x0, y0, x1, y1 = _box(a, b, c)
        outside = x1 < low_x or x0 > high_x or y1 < low_y or y0 > high_y
        if outside and _all_in_front(a, b, c):
            continue
        if want_inside:
            if lowest >= BORDER:
                verdicts[i] = MEET
                if not convex:
                    verdicts[i] = _judge_inside(outline, highest == INTERIOR, a, b, c)
        elif highest >= BORDER:
            verdicts[i] = MEET
        elif (a[2] > 0.0 or b[2] > 0.0 or c[2] > 0.0) and _outline_meets(outline, a, b, c):
            # A triangle that meets no outline lies where its corners do: outside.
            verdicts[i] = MEET


@entry
def judge_points(outline, points, first, last, locations):
    """Write to `locations` OUTSIDE, BORDER or INTERIOR for homogeneous points first..last-1."""
    low_x, low_y, high_x, high_y = _box_of(outline)
    for i in range(first, last):
        v = vector(points, i)
        locations[i] = OUTSIDE  # also behind the eye
        if v[2] == 1.0 and not (low_x <= v[0] <= high_x and low_y <= v[1] <= high_y):
            continue
        if finite(v) and v[2] > 0.0:
            locations[i] = locate(outline, v)


def encloses(outline: Sequence[Sequence[float]], triangle: Sequence[Sequence[float]]) -> bool:
    """Return whether all of a triangle is in the region of an outline, in rational numbers.

    `outline` (n, 2) and `triangle` (3, 2 or more) are in pixels. `judge_triangles` leaves to this
    function triangles that are UNSURE, mostly in lassos that touch or run along themselves.
    """
    rows, _ = scaled([point[:2] for point in (*outline, *triangle)])
    *around, a, b, c = [(x, y, 1) for x, y in rows]
    edges = [(p, q) for p, q in zip(around, around[1:] + around[:1], strict=True) if p != q]
    if not all(v in around or _contains(edges, v) for v in (a, b, c)):
        return False
    area = dot(cross(a, b), c)
    if area == 0:
        p, q = min(a, b, c), max(a, b, c)
        return p == q or all(_contains(edges, m) for m in _middles((p, q), edges))
    sides = ((a, b), (b, c), (c, a))
    inward = [times(1 if area > 0 else -1, cross(*side)) for side in sides]
    near = [edge for edge in edges if not _apart(edge, (a, b, c))]
    cut = False
    for p, q in near:
        for middle in _middles((p, q), [*near, *sides]):
            # A part in the interior of the triangle must have the region on both of its sides.
            if min(dots(middle, inward)) > 0:
                cut = True
                across = (p[1] - q[1], q[0] - p[0], 0)
                if not (is_odd(edges, middle, across) and is_odd(edges, middle, times(-1, across))):
                    return False
    # If no outline runs through the triangle, all of it lies where its centroid does.
    return cut or _contains(edges, (a[0] + b[0] + c[0], a[1] + b[1] + c[1], 3))


def _apart(edge: Edge, triangle: Sequence[Row]) -> bool:
    """Return whether the boxes of an edge and of a triangle are apart."""
    spans = zip(zip(*edge, strict=True), zip(*triangle, strict=True), strict=True)
    return any(max(ends) < min(corners) or min(ends) > max(corners) for ends, corners in spans)


def _middles(edge: Edge, others: Sequence[Edge]) -> list[Row]:
    """Return the middle of each part into which the lines of `others` cut an edge.

    Edges of `others` on the line of the edge itself cut it at their ends.
    """
    from fractions import Fraction

    p, q = edge
    axis = 0 if p[0] != q[0] else 1
    cuts = {Fraction(0), Fraction(1)}
    for r, s in others:
        before, after = dots(cross(r, s), edge)
        if before != after:
            cuts.add(Fraction(before, before - after))
        elif before == 0:
            cuts |= {Fraction(v[axis] - p[axis], q[axis] - p[axis]) for v in (r, s)}
    inner = sorted(t for t in cuts if 0 <= t <= 1)
    half = [(t + u) / 2 for t, u in itertools.pairwise(inner)]
    return [between(p, q, *t.as_integer_ratio()) for t in half]


def is_odd(edges: Sequence[Edge], start: Row, along: Row) -> bool:
    """Return whether a ray crosses an odd number of edges, so that its start is in their region.

    `start` is a homogeneous point, `along` a direction (x, y, 0). No edge may contain `start` and
    run along it.
    """
    odd, ahead = False, cross(start, along)
    for p, q in edges:
        if (dot(ahead, p) > 0) != (dot(ahead, q) > 0):
            # The edge is at t = -(first product / second), ahead if their signs differ.
            line = cross(p, q)
            odd ^= dot(line, start) * dot(line, along) < 0
    return odd


def _contains(edges: Sequence[Edge], v: Row) -> bool:
    """Return whether a homogeneous point is in the region of an outline, given by its edges."""
    on = any(
        dot(cross(p, q), v) == 0 and times(v[2], min(p, q)) <= v <= times(v[2], max(p, q))
        for p, q in edges
    )
    return on or is_odd(edges, v, (1, 0, 0))


@warms("selections in a picture")
def _warm() -> None:
    """Compile the kernels of rectangles and lassos."""
    outline, points = kernel_input(np.eye(3, 2)), kernel_input(np.ones((3, 3)))
    faces, locations = kernel_input(np.zeros((1, 3), np.int32)), np.empty(3, np.int8)
    judge_points(outline, points, 0, 3, locations)
    locations = kernel_input(locations)
    judge_triangles(outline, False, False, points, locations, faces, 0, 1, np.empty(1, np.int8))
