"""Overlap test of two faces of one mesh, beyond the corner or edge that they share.

Corners are shared where their coordinates are equal, so that it does not matter whether a mesh's
vertices are merged. Two faces that share a corner are, near it, two sectors of planes: they meet
elsewhere if and only if the sectors have a direction in common, because both are convex. Signs of
volumes decide, as in `triangle_overlap`.
"""

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
from bvh.geometry.pairs.flat_contacts import AREA, SEGMENT, THIN, flat_contact
from bvh.geometry.pairs.triangle_overlap import (
    common_axis,
    line_separates,
    spread_axis,
    triangles_touch,
    widest_axis,
)
from bvh.runtime.jit import inlined, kernel, stay_outlined


@inlined
def corner_index(p, t):
    """Return the index of the corner of triangle t that is at point p, -1 for none."""
    return 0 if p == t[0] else (1 if p == t[1] else (2 if p == t[2] else -1))


# Whether a triangle has two equal corners.
_repeats = inlined(lambda t: t[0] == t[1] or t[1] == t[2] or t[2] == t[0])


@inlined
def faces_overlap(a, b):
    """Return whether two faces meet elsewhere than in a corner or edge that they share."""
    # Faces that share an edge overlap where they have an area in common; faces that share all three
    # corners always overlap.
    i, j, k = corner_index(a[0], b), corner_index(a[1], b), corner_index(a[2], b)
    if i < 0 and j < 0 and k < 0:
        return triangles_touch(*a, *b)
    if _repeats(a) or _repeats(b):
        return _overlap_repeated(a, b)
    if i >= 0 and j >= 0 and k >= 0:
        return True
    axis, shared = common_axis(a, b), THIN
    if axis >= 0:
        shared = flat_contact(projected(a, axis), projected(b, axis))
    if shared != THIN:
        # Faces that share an edge share no other segment.
        one_corner = (i < 0 and j < 0) or (j < 0 and k < 0) or (k < 0 and i < 0)
        return shared == AREA or (one_corner and shared == SEGMENT)
    # Rotate both to begin with the shared corner or edge. The corner of b that is not on the shared
    # edge has the index 3 - i - j, as 0 + 1 + 2 = 3.
    if i >= 0 and j >= 0:
        return _fold(*a, b[3 - i - j])
    if j >= 0 and k >= 0:
        return _fold(*turned(a, 1), b[3 - j - k])
    if k >= 0 and i >= 0:
        return _fold(*turned(a, 2), b[3 - k - i])
    if i >= 0:
        return _sectors_meet(a, turned(b, i))
    if j >= 0:
        return _sectors_meet(turned(a, 1), turned(b, j))
    return _sectors_meet(turned(a, 2), turned(b, k))


@inlined
def _fold(x, y, a, b):
    """Return whether faces x, y, a and x, y, b, which share an edge, have an area in common."""
    return filtered_above(plane_of(x, y, a), b) == 0 and _flat_fold(x, y, a, b)


@kernel
def _flat_fold(x, y, a, b):
    """Return the result of `_fold` by exact signs."""
    # They share an area if all is in one plane, and a and b are on one side of the edge x, y. Most
    # of these faces are in one plane, on either side of their edge.
    stay_outlined()
    axis = widest_axis((x, y, a))
    p, q = drop_axis(x, axis), drop_axis(y, axis)
    side = filtered_turn(p, q, drop_axis(a, axis))
    if side * filtered_turn(p, q, drop_axis(b, axis)) < 0:
        return False
    if exact_volume(x, y, a, b) != 0:
        return False
    # Projections in which the plane is a line have signs of 0; the others agree.
    for axis in range(3):
        p, q = drop_axis(x, axis), drop_axis(y, axis)
        if orient2d(p, q, drop_axis(a, axis)) * orient2d(p, q, drop_axis(b, axis)) > 0:
            return True
    return False


@inlined
def _sectors_meet(a, b):
    """Return whether two faces that share only their first corners, a[0] = b[0], meet elsewhere."""
    # d1 and d2 are the sides of the plane of a on which b[1] and b[2] are; e1 and e2 those of b on
    # which a[1] and a[2] are: 1 above, -1 below, 0 where rounding could change the sign.
    plane = plane_of(*a)
    d1, d2 = filtered_above(plane, b[1]), filtered_above(plane, b[2])
    if d1 * d2 > 0:
        return False
    plane = plane_of(*b)
    e1, e2 = filtered_above(plane, a[1]), filtered_above(plane, a[2])
    if e1 * e2 > 0:
        return False
    # If no sign is 0, one of the two tests at the end of `_decide_sectors` suffices.
    if d1 * d2 < 0 and e1 * e2 < 0:
        return d2 * e1 > 0
    return _decide_sectors(a, b)


@inlined
def _surely_apart(a, b):
    """Return whether the line of an edge at a[0] surely separates the projected sectors."""
    # A direction in both sectors would be in both projected sectors. Most faces in one plane, such
    # as those of a fan, are decided here.
    axis = widest_axis(a)
    (v, c, d), (_, e, f) = projected(a, axis), projected(b, axis)
    return (
        line_separates(v, c, d, e, f) or line_separates(v, d, c, e, f)
        or line_separates(v, e, f, c, d) or line_separates(v, f, e, c, d)
    )  # fmt: skip


@kernel
def _decide_sectors(a, b):
    """Return the result of `_sectors_meet` by exact signs."""
    stay_outlined()
    if _surely_apart(a, b):
        return False
    d1, d2, e1, e2 = orient3d(*a, b[1]), orient3d(*a, b[2]), orient3d(*b, a[1]), orient3d(*b, a[2])
    # Apart if the other corners of one face are strictly on one side of the other face's plane.
    if d1 * d2 > 0 or e1 * e2 > 0:
        return False
    # Both faces are in one plane, or one of them has no area.
    if (d1 == 0 and d2 == 0) or (e1 == 0 and e2 == 0):
        i, j = spread_axis(a), spread_axis(b)
        return _flat_sectors(a, b, i) if i >= 0 and j >= 0 else _overlap_thin(a, b, i, j)
    # The line from b[1] to b[2] pierces a's plane upward (t > 0) or downward. The crossing is in
    # the sector of a if the line passes the edges v, a[1] and a[2], v on their inner sides; the
    # volumes of line and edge have the signs e1 and -e2.
    t = d2 - d1
    return t * e1 >= 0 and t * e2 <= 0


@inlined
def _within(v, a1, a2, turn, p):
    """Return whether the 2D sector at v from a1 to a2 contains the direction from v to p.

    `turn` is 1 if v, a1, a2 turns left, -1 if right.
    """
    return turn * orient2d(v, a1, p) >= 0 and turn * orient2d(v, p, a2) >= 0


@kernel
def _flat_sectors(a, b, axis):
    """Return whether two faces in one plane with the same first corner meet elsewhere, too.

    The plane is not parallel to `axis`.
    """
    stay_outlined()
    (v, a1, a2), (_, b1, b2) = projected(a, axis), projected(b, axis)
    s, t = orient2d(v, a1, a2), orient2d(v, b1, b2)
    if _within(v, a1, a2, s, b1) or _within(v, a1, a2, s, b2):
        return True
    return _within(v, b1, b2, t, a1) or _within(v, b1, b2, t, a2)


@kernel
def _touch(a, b):
    """Return the same as `triangles_touch`, by a call: its code is then compiled only once."""
    stay_outlined()
    return triangles_touch(*a, *b)


@kernel
def _overlap_thin(a, b, i, j):
    """Return whether faces with the same first corner, of which one has no area, meet elsewhere.

    i and j are the `spread_axis` of a and of b.
    """
    # A face without area is two segments that begin at the corner. Convex sets that begin there
    # meet elsewhere if and only if the far end of one meets the other.
    stay_outlined()
    v = a[0]
    for k in range(2 if i < 0 else 1):
        a1, a2 = (a[1 + k], a[1 + k]) if i < 0 else (a[1], a[2])
        for m in range(2 if j < 0 else 1):
            b1, b2 = (b[1 + m], b[1 + m]) if j < 0 else (b[1], b[2])
            if a1 == v or b1 == v:
                continue
            if _touch((a1, a2, a2), (v, b1, b2)) or _touch((b1, b2, b2), (v, a1, a2)):
                return True
    return False


@kernel
def _overlap_repeated(a, b):
    """Return whether faces that share a corner meet elsewhere, if one has two equal corners."""
    stay_outlined()
    # Count the different corners that both share; the last one is v, corner `index` of a.
    shared, index, v = 0, 0, a[0]
    for i in range(3):
        repeated = (i > 0 and a[i] == a[0]) or (i > 1 and a[i] == a[1])
        if corner_index(a[i], b) >= 0 and not repeated:
            shared, index, v = shared + 1, i, a[i]
    if shared != 1:
        # They share two corners: the face with a repeated corner is the shared edge.
        return False
    a, b = turned(a, index), turned(b, corner_index(v, b))
    return _overlap_thin(a, b, spread_axis(a), spread_axis(b))
