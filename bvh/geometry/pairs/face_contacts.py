"""What pairs of faces that meet share, as far as signs of few corners tell; kernels.

Most pairs of faces that meet where surfaces touch share only a point. These are found here by the
sides of the corners of one face: of the other's plane or, if that is their plane, of an edge.
"""

import numpy as np

from bvh.geometry.arithmetic.predicates import exact_volume, filtered_above, plane_of, projected
from bvh.geometry.pairs.face_overlap import corner_index
from bvh.geometry.pairs.flat_contacts import POINT, THIN, flat_contact
from bvh.geometry.pairs.triangle_overlap import common_axis, spread_axis
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms

# EDGE: faces in different planes that share a whole edge of both. UNDECIDED: other faces in
# different planes that may share more than a point, and faces without area.
EDGE, UNDECIDED = 3, 4

_vertex = inlined(lambda vertices, i: (vertices[i, 0], vertices[i, 1], vertices[i, 2]))
_face_of = inlined(
    lambda mesh, i: (
        _vertex(mesh[0], mesh[1][i, 0]),
        _vertex(mesh[0], mesh[1][i, 1]),
        _vertex(mesh[0], mesh[1][i, 2]),
    )
)


@inlined
def _side_of_plane(p, b, plane):
    """Return the side of face b's `plane` that p is on: 1 above, -1 below, 0 in it."""
    if corner_index(p, b) >= 0:
        return 0
    side = filtered_above(plane, p)
    return side if side != 0 else exact_volume(*b, p)


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


@kernel
def _kind_of_touch(a, b, s):
    """Return the kind of contact of faces a and b by `sides_of_corners`, of which some are 0."""
    # If a side is not 0, face b has an area.
    stay_outlined()
    axis = spread_axis(a)
    if axis < 0:
        return UNDECIDED
    if s == (0, 0, 0):
        flat = spread_axis(b) == axis
        return flat_contact(projected(a, axis), projected(b, axis)) if flat else UNDECIDED
    if touches_at_most(s):
        return POINT
    k = edge_in(s)
    if k >= 0 and corner_index(a[k], b) >= 0 and corner_index(a[(k + 1) % 3], b) >= 0:
        return EDGE
    return POINT if touches_at_most(sides_of_corners(b, a)) else UNDECIDED


@entry
def kinds_of_contact(own, other, pairs, kinds):
    """Write what pairs (n, 2) of faces that meet share: POINT, SEGMENT, AREA, EDGE or UNDECIDED.

    `own` and `other` are (vertices (n, 3), faces (m, 3)). Faces have an area, unless UNDECIDED, and
    are in one plane for SEGMENT and AREA, in different ones for EDGE.
    """
    for n in range(len(pairs)):
        a, b = _face_of(own, pairs[n, 0]), _face_of(other, pairs[n, 1])
        axis = common_axis(a, b)
        if axis >= 0:
            kind = flat_contact(projected(a, axis), projected(b, axis))
            kinds[n] = UNDECIDED if kind == THIN else kind
            continue
        s = sides_of_corners(a, b)
        across = s[0] != 0 and s[1] != 0 and s[2] != 0
        kinds[n] = UNDECIDED if across else _kind_of_touch(a, b, s)


@warms("contacts of faces")
def _warm() -> None:
    """Compile the kernel of this module."""
    mesh = np.zeros((1, 3)), np.zeros((1, 3), np.int32)
    kinds_of_contact(mesh, mesh, np.zeros((1, 2), np.int32), np.empty(1, np.int8))
