"""Overlap tests of triangles with triangles and boxes, as closed sets, in every degenerate case.

All is decided by exact signs of areas and volumes (`predicates`). A face without area is treated as
the segment or the point that it is.

The sides of triangle b that the corners of a are on are three signs: 1 above its plane, as seen by
`orient3d`, -1 below, 0 in it.

Triangles: Guigue and Devillers 2003, "Fast and robust triangle-triangle overlap test using
orientation predicates". Boxes: separating axes, Akenine-Möller 2001, "Fast 3D triangle-box overlap
testing", each axis as a sign.
"""

import numpy as np

from bvh.geometry.arithmetic.edge_sides import turned
from bvh.geometry.arithmetic.predicates import (
    drop_axis,
    exact_volume,
    filtered_above,
    filtered_turn,
    orient2d,
    orient3d,
    plane_of,
    projected,
)
from bvh.geometry.arithmetic.vectors import cross, minus
from bvh.geometry.boxes import entered_and_left
from bvh.runtime.jit import inlined, kernel, stay_outlined


@inlined
def common_axis(a, b):
    """Return an axis on which all corners of two triangles have one coordinate; -1 for none."""
    for k in range(3):
        x = a[0][k]
        if x == a[1][k] == a[2][k] and x == b[0][k] == b[1][k] == b[2][k]:
            return k
    return -1


@inlined
def triangles_touch(a0, a1, a2, b0, b1, b2):
    """Return whether the triangles a0, a1, a2 and b0, b1, b2 have a point in common."""
    # Most pairs end here: all of one triangle is on one side of the other's plane.
    a, b = (a0, a1, a2), (b0, b1, b2)
    if common_axis(a, b) >= 0:
        return _touch_across(a, b)
    s = _filtered_sides(b, a)
    if _on_one_side(s):
        return False
    t = _filtered_sides(a, b)
    if _on_one_side(t):
        return False
    return _decide(a, b, s, t)


@inlined
def _filtered_sides(b, a):
    """Return the sides of b's plane that a's corners are on: 1 above, -1 below, 0 for unsure."""
    plane = plane_of(*b)
    return filtered_above(plane, a[0]), filtered_above(plane, a[1]), filtered_above(plane, a[2])


# Whether all corners of a triangle are on one side of a plane, and none in it, by their sides s.
_on_one_side = inlined(lambda s: s[0] != 0 and s[0] == s[1] and s[0] == s[2])


@inlined
def _sides(b, a, s):
    """Return the exact sides of b's plane that a's corners are on, by the `_filtered_sides` s."""
    return (
        s[0] if s[0] != 0 else exact_volume(*b, a[0]),
        s[1] if s[1] != 0 else exact_volume(*b, a[1]),
        s[2] if s[2] != 0 else exact_volume(*b, a[2]),
    )


@inlined
def _apex(s):
    """Return (index, up) of the apex: the corner that a plane cuts off from the other two.

    s are the sides of the plane that the corners are on: 1 above, -1 below, 0 in it, not all equal.
    If `up`, the apex is above the plane or in it, and the others are not above; else it is below or
    in it, and the others are not below. Neither edge at the apex lies in the plane.
    """
    above = np.int64(s[0] > 0) + np.int64(s[1] > 0) + np.int64(s[2] > 0)
    below = np.int64(s[0] < 0) + np.int64(s[1] < 0) + np.int64(s[2] < 0)
    if above == 1:
        side, up = 1, True
    elif below == 1:
        side, up = -1, False
    else:
        side, up = 0, above == 0
    index = 0 if s[0] == side else (1 if s[1] == side else 2)
    return index, up


@inlined
def line_separates(v, x, y, p, q):
    """Return whether the line of v and x surely separates y from both p and q, all in 2D."""
    side = filtered_turn(v, x, y)
    return side != 0 and side == -filtered_turn(v, x, p) and side == -filtered_turn(v, x, q)


@inlined
def widest_axis(t):
    """Return the axis, 0 to 2, along which a triangle projects to the largest area, rounded."""
    n = cross(minus(t[1], t[0]), minus(t[2], t[0]))
    x, y, z = abs(n[0]), abs(n[1]), abs(n[2])
    return 0 if x >= y and x >= z else (1 if y >= z else 2)


@inlined
def _surely_apart(a, b):
    """Return whether a line along an edge surely separates the projections of two triangles."""
    axis = widest_axis(a)
    p, q = projected(a, axis), projected(b, axis)
    return _edge_separates(p, q) or _edge_separates(q, p)


@inlined
def _edge_separates(t, u):
    """Return whether the line of an edge of triangle t surely separates it from u, in 2D."""
    (a, b, c), (p, q, r) = t, u
    return (
        (line_separates(a, b, c, p, q) and line_separates(a, b, c, q, r))
        or (line_separates(b, c, a, p, q) and line_separates(b, c, a, q, r))
        or (line_separates(c, a, b, p, q) and line_separates(c, a, b, q, r))
    )


@kernel
def _decide(a, b, s, t):
    """Return whether two triangles touch, exactly; s and t are the `_filtered_sides` of b and a."""
    stay_outlined()
    # Most pairs that are left are of faces in one plane: separate their projections.
    if _surely_apart(a, b):
        return False
    s = _sides(b, a, s)
    if _on_one_side(s):
        return False
    t = _sides(a, b, t)
    if _on_one_side(t):
        return False
    if s == (0, 0, 0) or t == (0, 0, 0):
        return touch_flat(a, b)
    return along_common_line(a, b, s, t) <= 0


@kernel
def _touch_across(a, b):
    """Return, exactly, whether two triangles touch that are in one plane, normal to an axis."""
    stay_outlined()
    return not _surely_apart(a, b) and touch_flat(a, b)


@inlined
def along_common_line(a, b, s, t):
    """Return 1 if triangles in different planes share nothing, 0 or -1 if a point, -1 if a segment.

    s are the exact sides of b's plane that the corners of a are on, t those of a's plane that the
    corners of b are on: 1, -1 or 0. Neither s nor t may have three equal signs.
    """
    # Each triangle meets the line that their planes share in an interval. A shared point gives 0,
    # or -1 where it is all of one triangle's interval and inside of the other's.
    i, up = _apex(s)
    j, up_b = _apex(t)
    # Reverse a triangle if the other's apex is not above it: then two signs compare the intervals'
    # ends (Guigue and Devillers), each 1 if one interval ends before the other begins.
    p, q = turned(a, i), turned(b, j)
    if not up:
        q = q[0], q[2], q[1]
    if not up_b:
        p = p[0], p[2], p[1]
    first = orient3d(p[0], p[1], q[0], q[1])
    return first if first > 0 else max(first, orient3d(p[0], p[2], q[2], q[0]))


@inlined
def spread_axis(t):
    """Return the first axis along which a triangle projects to an area; -1 if it has no area."""
    for axis in range(3):
        if orient2d(*projected(t, axis)) != 0:
            return axis
    return -1


@kernel
def touch_flat(a, b):
    """Return, exactly, whether triangles touch: both in one plane, or at least one without area."""
    stay_outlined()
    i, j = spread_axis(a), spread_axis(b)
    if i >= 0 and j >= 0:
        return _areas_touch(a, b, i)
    if i < 0 and j < 0:
        return _segments_touch(_ends(a), _ends(b))
    if i < 0:
        return _pierces(_ends(a), b, j)
    return _pierces(_ends(b), a, i)


@inlined
def before(p, q):
    """Return whether point p comes before q in lexicographic order: by x, then y, then z."""
    return p[0] < q[0] or (p[0] == q[0] and (p[1] < q[1] or (p[1] == q[1] and p[2] < q[2])))


@inlined
def _ends(t):
    """Return (low, high), the lexicographic ends of a triangle without area: segment or point."""
    low = t[1] if before(t[1], t[0]) else t[0]
    low = t[2] if before(t[2], low) else low
    high = t[0] if before(t[1], t[0]) else t[1]
    high = t[2] if before(high, t[2]) else high
    return low, high


@kernel
def _pierces(ends, t, axis):
    """Return whether a segment intersects a triangle, whose projection along `axis` has an area."""
    stay_outlined()
    p, q = ends
    s0, s1 = orient3d(*t, p), orient3d(*t, q)
    if s0 == 0 and s1 == 0:
        return _areas_touch((p, q, q), t, axis)
    if s0 * s1 > 0:
        return False
    # The line crosses the plane: within the triangle if it passes all edges on one side.
    e0, e1, e2 = orient3d(p, q, t[0], t[1]), orient3d(p, q, t[1], t[2]), orient3d(p, q, t[2], t[0])
    return min(e0, min(e1, e2)) >= 0 or max(e0, max(e1, e2)) <= 0


@kernel
def _parted(x, y, z, t):
    """Return whether the line of x, y separates triangle x, y, z from t, in 2D."""
    stay_outlined()
    s0, s1, s2 = orient2d(x, y, t[0]), orient2d(x, y, t[1]), orient2d(x, y, t[2])
    return s0 != 0 and s0 == s1 and s0 == s2 and orient2d(x, y, z) * s0 <= 0


@kernel
def _areas_touch(a, b, axis):
    """Return whether two triangles in one plane, one with an area, touch, seen along `axis`."""
    # They are apart if the line of an edge separates them: their Minkowski sum has no other edges.
    stay_outlined()
    p, q = projected(a, axis), projected(b, axis)
    for _ in range(3):
        if _parted(*p, q) or _parted(*q, p):
            return False
        p, q = turned(p, 1), turned(q, 1)
    return True


@kernel
def _segments_touch(first, second):
    """Return whether two segments in space, or points, have a point in common."""
    # In 2D, segments are apart if the line of one has the other on one side. Of segments in a plane
    # in space, one of the projections along axes keeps that, and none separates segments that
    # touch. Segments in one line are apart if their boxes are.
    stay_outlined()
    (p, q), (r, s) = first, second
    for i in range(3):
        if max(p[i], q[i]) < min(r[i], s[i]) or max(r[i], s[i]) < min(p[i], q[i]):
            return False
    if orient3d(p, q, r, s) != 0:
        return False
    for axis in range(3):
        a, b = drop_axis(p, axis), drop_axis(q, axis)
        c, d = drop_axis(r, axis), drop_axis(s, axis)
        if orient2d(a, b, c) * orient2d(a, b, d) > 0 or orient2d(c, d, a) * orient2d(c, d, b) > 0:
            return False
    return True


@inlined
def _edge_misses(a, b, side, low, high):
    """Return whether the edge a, b of a triangle has the rectangle low..high on its outer side.

    All points are in 2D, and touching counts as False. `side` is 1 if the third corner is left of
    the edge, -1 if right, and 0 if it is in line: then both sides are outer ones.
    """
    # The rectangle's corners that are farthest to the left and to the right of the line.
    left = (low[0] if b[1] > a[1] else high[0], high[1] if b[0] > a[0] else low[1])
    right = (high[0] if b[1] > a[1] else low[0], low[1] if b[0] > a[0] else high[1])
    return (side >= 0 and orient2d(a, b, left) < 0) or (side <= 0 and orient2d(a, b, right) > 0)


@kernel
def triangle_meets_box(v0, v1, v2, low, high):
    """Return whether a triangle and a solid box, low <= high, have a point in common, exactly."""
    for i in range(3):
        if max(v0[i], max(v1[i], v2[i])) < low[i] or min(v0[i], min(v1[i], v2[i])) > high[i]:
            return False
    for v in (v0, v1, v2):
        if low[0] <= v[0] <= high[0] and low[1] <= v[1] <= high[1] and low[2] <= v[2] <= high[2]:
            return True
    # The separating axes that are left: cross products of an edge and an axis, by projection along
    # the axis; the triangle's normal. Flat boxes and triangles need no others, because one of the
    # projections is one-to-one in their plane.
    sides = (0, 0, 0)
    for axis in range(3):
        a, b, c = drop_axis(v0, axis), drop_axis(v1, axis), drop_axis(v2, axis)
        p, q = drop_axis(low, axis), drop_axis(high, axis)
        side = orient2d(a, b, c)
        if (
            _edge_misses(a, b, side, p, q)
            or _edge_misses(b, c, side, p, q)
            or _edge_misses(c, a, side, p, q)
        ):
            return False
        sides = (sides[1], sides[2], side)
    # The signs of the normal's components give the corners farthest along it.
    bottom, top = entered_and_left(sides, low, high)
    return orient3d(v0, v1, v2, top) >= 0 and orient3d(v0, v1, v2, bottom) <= 0
