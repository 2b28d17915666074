"""What pairs of faces that meet share, as far as signs of few corners tell; kernels.

Most pairs of faces that meet where surfaces touch share only a point. These are found here by the
sides of the corners of one face: of the other's plane or, if that is their plane, of an edge.
"""

import numpy as np

from bvh.geometry.arithmetic.predicates import (
    exact_volume,
    filtered_above,
    filtered_turn,
    plane_of,
    projected,
)
from bvh.geometry.pairs.common_polygons import face_of
from bvh.geometry.pairs.flat_contacts import AREA, POINT, THIN, flat_contact
from bvh.geometry.pairs.triangle_overlap import common_axis, spread_axis
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms

# EDGE: faces in different planes that share a whole edge of both. UNDECIDED: other faces in
# different planes that may share more than a point, and faces without area.
EDGE, UNDECIDED = 3, 4


@inlined
def is_corner(p, t):
    """Return whether point p is a corner of triangle t."""
    # Without branches, as corners that faces share have any index.
    x, y, z = p
    one = (x == t[0][0]) & (y == t[0][1]) & (z == t[0][2])
    two = (x == t[1][0]) & (y == t[1][1]) & (z == t[1][2])
    return one | two | ((x == t[2][0]) & (y == t[2][1]) & (z == t[2][2]))


@inlined
def _side_of_plane(p, b, plane):
    """Return the side of face b's `plane` that p is on: 1 above, -1 below, 0 in it."""
    side = filtered_above(plane, p)
    if side != 0 or is_corner(p, b):
        return side
    return exact_volume(*b, p)


@inlined
def sides_of_corners(a, b):
    """Return the sides of face b's plane, 1, -1 or 0 for in it, that the corners of a are on."""
    plane = plane_of(*b)
    return (
        _side_of_plane(a[0], b, plane),
        _side_of_plane(a[1], b, plane),
        _side_of_plane(a[2], b, plane),
    )


@inlined
def touches_at_most(s):
    """Return whether a face meets a plane in at most a point, by the sides s of its corners."""
    total = s[0] + s[1] + s[2]
    zeros = (s[0] == 0) + (s[1] == 0) + (s[2] == 0)
    return abs(total) == 3 or (zeros == 1 and total != 0)


# The edge of a face that is in a plane, by the sides of its corners; -1 for none.
edge_in = inlined(
    lambda s: (
        0 if s[0] == 0 and s[1] == 0 else
        (1 if s[1] == 0 and s[2] == 0 else (2 if s[2] == 0 and s[0] == 0 else -1))
    )
)  # fmt: skip


@inlined
def _has_area(t):
    """Return whether a triangle has an area."""
    for axis in range(3):
        if filtered_turn(*projected(t, axis)) != 0:
            return True
    return spread_axis(t) >= 0


@kernel
def _kind_of_touch(a, b, plane):
    """Return the kind of contact, as in `kinds_of_contact`; `plane` is that of a."""
    # If a side is not 0, face a has an area.
    stay_outlined()
    t = (
        _side_of_plane(b[0], a, plane),
        _side_of_plane(b[1], a, plane),
        _side_of_plane(b[2], a, plane),
    )
    if touches_at_most(t):
        return POINT if _has_area(b) else UNDECIDED
    if t == (0, 0, 0):
        axis = spread_axis(a)
        flat = axis >= 0 and spread_axis(b) == axis
        return flat_contact(projected(a, axis), projected(b, axis)) if flat else UNDECIDED
    k = edge_in(t)
    if k >= 0 and b[k] != b[(k + 1) % 3] and is_corner(b[k], a) and is_corner(b[(k + 1) % 3], a):
        return EDGE
    return POINT if touches_at_most(sides_of_corners(a, b)) else UNDECIDED


@inlined
def _kind(a, b, plane):
    """Return the kind of contact, as in `kinds_of_contact`; `plane` is that of a."""
    axis = common_axis(a, b)
    if axis >= 0:
        kind = flat_contact(projected(a, axis), projected(b, axis))
        return UNDECIDED if kind == THIN else kind
    s0, s1 = filtered_above(plane, b[0]), filtered_above(plane, b[1])
    s2 = filtered_above(plane, b[2])
    p = b[0] if s0 == 0 else (b[1] if s1 == 0 else b[2])
    if abs(s0 + s1 + s2) == 2 and is_corner(p, a):
        # Two corners are on one side of the plane, and p is a corner that both faces have.
        return POINT if _has_area(b) else UNDECIDED
    return _kind_of_touch(a, b, plane)


@inlined
def _mark(mesh, i, used):
    """Set `used` (n,) for the vertices of face i of a mesh."""
    used[mesh[1][i, 0]] = used[mesh[1][i, 1]] = used[mesh[1][i, 2]] = True


@entry
def kinds_of_contact(own, other, pairs, kinds, used, used2):
    """Write to `kinds` (n,) what pairs of faces that meet share.

    `own` and `other` are meshes, each as (vertices (n, 3), faces (m, 3)); a row of `pairs` (n, 2)
    is a face of each. A kind is POINT only if both faces have an area and share at most a point,
    SEGMENT or AREA only if they have an area and are in one plane, EDGE only if they have an area
    and are in different planes; else it is UNDECIDED. True is written to `used` and `used2`, arrays
    (n,) for both meshes, for the vertices of pairs that may share a segment.
    """
    if len(pairs) == 0:
        return
    last = pairs[0, 0]
    a = face_of(own, last)
    plane = plane_of(*a)
    for n in range(len(pairs)):
        # Most pairs have the first face of the pair before.
        if pairs[n, 0] != last:
            last = pairs[n, 0]
            a = face_of(own, last)
            plane = plane_of(*a)
        b = face_of(other, pairs[n, 1])
        kinds[n] = _kind(a, b, plane)
        if kinds[n] != POINT and kinds[n] != AREA:
            _mark(own, last, used)
            _mark(other, pairs[n, 1], used2)


@warms("contacts of faces")
def _warm() -> None:
    """Compile the kernel of this module."""
    mesh = np.zeros((1, 3)), np.zeros((1, 3), np.int32)
    used = np.zeros(1, np.bool_)
    kinds_of_contact(mesh, mesh, np.zeros((1, 2), np.int32), np.empty(1, np.int8), used, used)
