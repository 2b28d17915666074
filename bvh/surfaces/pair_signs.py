"""Signs of pairs of faces, and the points in which edges cross faces; kernels.

Of two faces six signs say on which sides of each other's planes their corners are, and nine how
their edges pass each other. Where an edge surely crosses a face, the point is found in
double-doubles and rounded; all else is left to rational numbers.

Where two surfaces touch, signs also say on which side of the other surface each half-plane of a
face at a shared segment is, and so which kinds of cells meet there.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.predicates import orient2d, orient3d, projected
from bvh.geometry.pairs.common_polygons import (
    MOST,
    ROWS,
    common_polygons,
    corner_at,
    face_at,
    least,
    most,
    overlap,
    share_a_segment,
    share_an_area,
    sides_of,
)
from bvh.geometry.pairs.face_contacts import edge_in, sides_of_corners, touches_at_most
from bvh.geometry.pairs.face_overlap import corner_index
from bvh.geometry.pairs.flat_contacts import POINT, flat_contact
from bvh.geometry.pairs.triangle_overlap import along_common_line, common_axis, spread_axis
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms

# Signs of a pair, in this order: the sides of the first face's corners, those of the second's, and
# how edges i and j pass each other, at SIDES + 3 i + j.
SIDES, SIGNS = 6, 15


@entry
def pair_signs(own, other, pairs, signs):
    """Write the signs (n, SIGNS) of `pairs` (n, 2) of faces of `own` and `other`, (m, 3, 3).

    Of faces a, b: `orient3d` of b and a's corners, of a and b's corners, of all pairs of edges.
    """
    for n in range(len(pairs)):
        i, j = pairs[n, 0], pairs[n, 1]
        a, b = face_at(own, i), face_at(other, j)
        s, t = sides_of_corners(a, b), sides_of_corners(b, a)
        signs[n, 0], signs[n, 1], signs[n, 2] = s
        signs[n, 3], signs[n, 4], signs[n, 5] = t
        flat = s == t == (0, 0, 0) and (spread_axis(a) >= 0 or spread_axis(b) >= 0)
        for k in range(9):
            # The sign is 0 for edges in one plane, and for edges that share an end.
            p, q = corner_at(own, i, k // 3), corner_at(own, i, (k // 3 + 1) % 3)
            c, d = corner_at(other, j, k % 3), corner_at(other, j, (k + 1) % 3)
            is_zero = flat or p == c or p == d or q == c or q == d
            signs[n, SIDES + k] = 0 if is_zero else orient3d(p, q, c, d)


# Kinds of cells, as bits: in both solids, in the first alone, in the second alone.
IN_BOTH, IN_FIRST, IN_SECOND = 1, 2, 4
ALL_KINDS = IN_BOTH | IN_FIRST | IN_SECOND
# OPEN is a bit of contacts whose cells signs do not decide, UNKNOWN is in place of a sign.
OPEN, UNKNOWN = 8, 2


class Joints(NamedTuple):
    """How faces of a closed surface, which meet at corners and edges only, are joined.

    corners : (m, 3, 3) of the faces.
    outward : (m,) 1 if the normal points out of the solid, -1 if it points into it, or UNKNOWN; 0
        for faces that bound nothing.
    twins : (m, 3) the number, 3 i + k, of the same edge of the neighbour; -1 unless just one other
        face that is not cancelled has the edge.
    bends : (m, 3) at an edge, -1 if the solid is convex, 1 if it is reflex, 0 if both faces are in
        one plane, or UNKNOWN.
    pieces : (m,) the first face of the piece, connected by edges, that each face belongs to.
    hashes : (m,) equal for faces with the same corners.
    """

    corners: NDArray[np.float64]
    outward: NDArray[np.int8]
    twins: NDArray[np.int64]
    bends: NDArray[np.int8]
    pieces: NDArray[np.int64]
    hashes: NDArray[np.uint64]


@entry
def find_bends(joints):
    """Set the `bends` of `Joints`; set their `outward` to 0 for faces without area."""
    corners, outward, twins, bends, _, _ = joints
    for i in range(len(corners)):
        if outward[i] != 0 and spread_axis(face_at(corners, i)) < 0:
            outward[i] = 0
    bends[:] = UNKNOWN
    for i in range(len(corners)):
        for k in range(3):
            twin = twins[i, k]
            # Both faces of an edge have the same bend.
            if twin > 3 * i + k and abs(outward[i]) == 1 and abs(outward[twin // 3]) == 1:
                apex = corner_at(corners, twin // 3, (twin + 2) % 3)
                a, b, c = face_at(corners, i)
                bends[i, k] = bends[twin // 3, twin % 3] = outward[i] * orient3d(a, b, c, apex)


@inlined
def _kinds_on(side, outside, inside):
    """Return the kinds of cells (bits) along a half-plane that is on a `side` of a solid.

    They are `outside` if it is outside the solid (1), `inside` if inside (-1), none in its surface.
    """
    return outside if side > 0 else (inside if side < 0 else 0)


@kernel
def _kinds_at_joint(joints, j, k, p, height, outside, inside):
    """Return the kinds of cells along a half-plane from edge k of face j through a point p.

    `height` is the side of the face, 1 or -1, that p is on; the rest is as in `_kinds_on`.
    """
    stay_outlined()
    corners, outward, twins, bends, _, _ = joints
    bend, side = bends[j, k], height * outward[j]
    if bend == UNKNOWN:
        return OPEN
    if side != bend:
        # Above face j, the half-plane is outside if the solid is convex or flat at the edge; below
        # it, the half-plane is inside if the solid is reflex or flat.
        return _kinds_on(side, outside, inside)
    i = twins[j, k] // 3
    a, b, c = face_at(corners, i)
    # Else the neighbour i decides, 0 if the half-plane is that of the neighbour itself.
    return _kinds_on(outward[i] * orient3d(a, b, c, p), outside, inside)


@inlined
def _kinds_beyond(bend, outside, inside):
    """Return the kinds of cells along the plane of a face, beyond an edge where the face ends.

    The plane is `outside` of the solid there if the `bend` is convex (-1), `inside` if reflex (1).
    """
    return OPEN if bend == UNKNOWN else _kinds_on(-bend, outside, inside)


@inlined
def _kinds_along(a, s, joints, j, k, outside, inside):
    """Return the kinds of cells along face a, on either side of face j of the other surface.

    s are the sides of face j that the corners of a are on. Edge k of face j, none if k is -1, is in
    the plane of a. `outside` and `inside` are as in `_kinds_on`.
    """
    found = 0
    for side in (-1, 1):
        m = 0 if s[0] == side else (1 if s[1] == side else (2 if s[2] == side else -1))
        if m >= 0 and k < 0:
            found |= _kinds_on(side * joints.outward[j], outside, inside)
        elif m >= 0:
            p = a[0] if m == 0 else (a[1] if m == 1 else a[2])
            found |= _kinds_at_joint(joints, j, k, p, side, outside, inside)
    return found


@kernel
def _cells_across(first, second, i, j, s):
    """Return the kinds of cells at the segment that faces i and j share; -1 if there is none.

    The faces are in different planes; s are the sides of face j that the corners of face i are on.
    """
    stay_outlined()
    a, b = face_at(first.corners, i), face_at(second.corners, j)
    t = sides_of_corners(b, a)
    if touches_at_most(t):
        return -1
    k, m = edge_in(s), edge_in(t)
    if k >= 0 and m >= 0:
        if not overlap(a[k], a[(k + 1) % 3], b[m], b[(m + 1) % 3]):
            return -1
    elif along_common_line(a, b, s, t) >= 0:
        return -1
    if first.outward[i] == UNKNOWN or second.outward[j] == UNKNOWN:
        return OPEN
    # If the faces pass through each other, all kinds of cells meet there.
    if k < 0 and m < 0:
        return ALL_KINDS
    found = _kinds_along(a, s, second, j, m, IN_FIRST, IN_BOTH | IN_SECOND)
    return found | _kinds_along(b, t, first, i, k, IN_SECOND, IN_BOTH | IN_FIRST)


@inlined
def _passes(sides, sides2, k):
    """Return whether edge k of a triangle passes through the inside of another in its plane.

    sides[n][m] is the side of the other's edge n for this one's corner m; sides2 is the reverse.
    """
    m, passed = (k + 1) % 3, least(sides2[k]) < 0 < most(sides2[k])
    for n in range(3):
        passed = passed and max(sides[n][k], sides[n][m]) > 0
    return passed


@inlined
def _may_pass(bend, p, q, a):
    """Return whether an edge p, q may pass through a triangle a in 2D, or along its border."""
    # An edge whose `bend` is 0 only divides a flat part of the surface.
    if bend == 0:
        return False
    s, t, u = orient2d(p, q, a[0]), orient2d(p, q, a[1]), orient2d(p, q, a[2])
    zeros = (s == 0) + (t == 0) + (u == 0)
    return zeros > 1 or (min(s, min(t, u)) < 0 and max(s, max(t, u)) > 0)


@kernel
def _cells_in_plane(first, second, i, j, known):
    """Return the kinds of cells where faces i and j, in one plane, share a segment or area, or -1.

    Kinds that are `known` need not be found again: the result may be 0 if there can be no others.
    """
    stay_outlined()
    a, b = face_at(first.corners, i), face_at(second.corners, j)
    axis = spread_axis(a)
    a, b = projected(a, axis), projected(b, axis)
    turn, turn2 = orient2d(a[0], a[1], a[2]), orient2d(b[0], b[1], b[2])
    # Whether both solids are on the same side of the plane.
    same_side = first.outward[i] * turn == second.outward[j] * turn2
    found = IN_BOTH if same_side else IN_FIRST | IN_SECOND
    bends = first.bends[i, 0], first.bends[i, 1], first.bends[i, 2]
    bends2 = second.bends[j, 0], second.bends[j, 1], second.bends[j, 2]
    if found & known == found and first.outward[i] != UNKNOWN != second.outward[j]:
        # Other kinds of cells are at edges where the solid is not flat.
        passed = False
        for k in range(3):
            m = (k + 1) % 3
            passed = passed or _may_pass(bends[k], a[k], a[m], b)
            passed = passed or _may_pass(bends2[k], b[k], b[m], a)
        if not passed:
            return 0
    if flat_contact(a, b) == POINT:
        return -1
    # Row k: the sides of a face's edge k on which the corners of the other are.
    sides, sides2 = sides_of(a, turn, b), sides_of(b, turn2, a)
    if not share_an_area(sides, sides2):
        # Edges in one line may touch.
        found = -1
        for k in range(3):
            for m in range(3):
                if share_a_segment(a, b, sides, k, m):
                    found = max(found, 0) | _kinds_beyond(bends2[m], IN_FIRST, IN_BOTH | IN_SECOND)
                    found |= _kinds_beyond(bends[k], IN_SECOND, IN_BOTH | IN_FIRST)
        return found
    if first.outward[i] == UNKNOWN or second.outward[j] == UNKNOWN:
        return OPEN
    for k in range(3):
        if bends2[k] != 0 and _passes(sides, sides2, k):
            found |= _kinds_beyond(bends2[k], IN_FIRST, IN_BOTH | IN_SECOND)
        if bends[k] != 0 and _passes(sides2, sides, k):
            found |= _kinds_beyond(bends[k], IN_SECOND, IN_BOTH | IN_FIRST)
    return found


@inlined
def _cells_of_one(first, second, i, j):
    """Return the kinds of cells on both sides of two faces with the same corners; -1 for others."""
    if first.hashes[i] != second.hashes[j]:
        return -1
    a, b = face_at(first.corners, i), face_at(second.corners, j)
    k, m = corner_index(a[0], b), corner_index(a[1], b)
    if min(k, min(m, corner_index(a[2], b))) < 0:
        return -1
    if first.outward[i] == UNKNOWN or second.outward[j] == UNKNOWN:
        return OPEN
    turn = 1 if m == (k + 1) % 3 else -1
    return IN_BOTH if first.outward[i] == second.outward[j] * turn else IN_FIRST | IN_SECOND


@entry
def cells_at_contacts(first, second, pairs, met, met2, same, same2, undecided):
    """Return the kinds of cells, as bits, at contacts of pairs of faces; stop once all are found.

    `first` and `second` are `Joints`. True is written to `met` and `met2` for the first faces of
    pieces in contact, to `same` and `same2` for faces that both surfaces have, and to `undecided`
    (n,) for pairs that signs do not decide.
    """
    for n in range(len(pairs)):
        i, j = pairs[n, 0], pairs[n, 1]
        if first.outward[i] != 0 and second.outward[j] != 0:
            if _cells_of_one(first, second, i, j) >= 0:
                same[i] = same2[j] = True
    found = 0
    for n in range(len(pairs)):
        i, j = pairs[n, 0], pairs[n, 1]
        if first.outward[i] == 0 or second.outward[j] == 0:
            continue
        piece, piece2 = first.pieces[i], second.pieces[j]
        a, b = face_at(first.corners, i), face_at(second.corners, j)
        if same[i] and same2[j]:
            # Two faces that both surfaces have share an edge at most. The cells around it are found
            # at the pairs of each such face and itself, and of a face that only one surface has.
            cells = _cells_of_one(first, second, i, j)
        else:
            s = (0, 0, 0) if common_axis(a, b) >= 0 else sides_of_corners(a, b)
            if s == (0, 0, 0):
                # A result of 0 may stand for -1, no contact: only if both pieces are marked.
                known = found if met[piece] and met2[piece2] else 0
                cells = _cells_in_plane(first, second, i, j, known)
            else:
                cells = -1 if touches_at_most(s) else _cells_across(first, second, i, j, s)
        if cells >= 0:
            met[piece] = met2[piece2] = True
            undecided[n] = cells >= OPEN
            found |= cells & ALL_KINDS
            if found == ALL_KINDS:
                break
    return found


@entry
def count_crossings(faces, p, q):
    """Return how many faces a segment p, q crosses; -1 if it may meet an edge, or end in a face."""
    p, q, count = (p[0], p[1], p[2]), (q[0], q[1], q[2]), 0
    low, high = floats.lower_of(p, q), floats.upper_of(p, q)
    for i in range(len(faces)):
        a, b, c = face_at(faces, i)
        # Skip faces whose boxes do not meet that of the segment: most of them.
        top = floats.upper_of(a, floats.upper_of(b, c))
        bottom = floats.lower_of(floats.lower_of(a, b), c)
        if top[0] < low[0] or top[1] < low[1] or top[2] < low[2]:
            continue
        if bottom[0] > high[0] or bottom[1] > high[1] or bottom[2] > high[2]:
            continue
        # A face is missed if both ends are on one side of it, or if the line passes it outside.
        sides = orient3d(a, b, c, p) * orient3d(a, b, c, q)
        if sides > 0:
            continue
        s, t, u = orient3d(p, q, a, b), orient3d(p, q, b, c), orient3d(p, q, c, a)
        least, most = min(s, min(t, u)), max(s, max(t, u))
        if least < 0 and most > 0:
            continue
        if sides == 0 or least == 0 or most == 0:
            return -1
        count += 1
    return count


@kernel
def _height(face, p, e):
    """Return (height, size) of a point over a face, times twice the face's area.

    The height is a double-double, `size` sums its absolute terms. Lengths are scaled by 2**-e.
    """
    stay_outlined()
    u, v = floats.difference(face[1], face[0], -e), floats.difference(face[2], face[0], -e)
    r = floats.difference(p, face[0], -e)
    size = floats.dot_size(floats.cross_size(floats.high(u), floats.high(v)), floats.high(r))
    return floats.dd_dot(floats.dd_cross(u, v), r), size


@entry
def crossing_points(edges, faces, points):
    """Write where edges (n, 2, 3) cross the planes of faces (n, 3, 3), rounded; NaN if unsure."""
    for n in range(len(edges)):
        face = face_at(faces, n)
        p, q = corner_at(edges, n, 0), corner_at(edges, n, 1)
        reach = max(floats.reach_of(face[0], face[1], face[2]), floats.reach_of(p, q, q))
        e = min(max(floats.exponent(reach) + 1, -1022), 1022)
        (f, size), (g, size2) = _height(face, p, e), _height(face, q, e)
        # Both heights have errors below DD_ERROR of their sizes. Unless one is too small, at least
        # 55 bits of `share`, the place of the crossing from 0 at p to 1 at q, are right. The other
        # limits exclude underflow and overflow.
        least, most = min(abs(f[0]), abs(g[0])), max(size, size2)
        sure = least > 2.0**-44 * most and most > 2.0**-700 and -900 < e < 900
        share = floats.dd_div(f, floats.dd_sub(f, g)) if sure else (floats.NAN, 0.0)
        direction = floats.difference(q, p, 0)
        for k in range(3):
            x = floats.dd_add((p[k], 0.0), floats.dd_mul(share, direction[k]))
            # Rounding must not take the point beyond the ends.
            low, high = min(p[k], q[k]), max(p[k], q[k])
            points[n, k] = min(max(x[0], low), high) if sure else floats.NAN


@warms("where faces meet")
def _warm() -> None:
    """Compile what intersections and relations need besides pairs of faces."""
    faces, signs = np.zeros((1, 3, 3)), np.empty((1, SIGNS), np.int8)
    pair_signs(faces, faces, np.zeros((1, 2), np.int32), signs)
    crossing_points(np.zeros((1, 2, 3)), faces, np.empty((1, 3)))
    count_crossings(faces, np.zeros(3), np.ones(3))
    twins, bends = np.zeros((1, 3), np.int64), np.zeros((1, 3), np.int8)
    pieces, pairs, flags = np.zeros(1, np.int64), np.zeros((1, 2), np.int32), np.zeros(1, np.bool_)
    joints = Joints(faces, bends[:, 0].copy(), twins, bends, pieces, pieces.astype(np.uint64))
    find_bends(joints)
    cells_at_contacts(joints, joints, pairs, flags, flags, flags, flags, flags)
    scratch, corners = np.zeros((ROWS, MOST + 1), np.int64), np.zeros((MOST, 3))
    mesh = faces[0], np.zeros((1, 3), np.int32)
    common_polygons(mesh, mesh, pairs, scratch, corners, pieces, pieces)
