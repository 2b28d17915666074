"""Segments in which an edge of one face, in the plane of another face, meets that face; kernels.

So faces meet where walls stand on floors, and where parts with flat sides are side by side. Signs
in the plane decide which of few features each end of a segment is, and these identify it: a corner,
or an edge of both faces. Coordinates are those of the corner, or a crossing, rounded correctly.
"""

import numpy as np

from bvh.geometry.arithmetic.predicates import orient2d, projected
from bvh.geometry.pairs.common_polygons import (
    CROSSED,
    SECOND,
    UNSURE,
    edge_crossing,
    face_of,
    least,
    share_a_segment,
    sides_of,
)
from bvh.geometry.pairs.face_contacts import EDGE, UNDECIDED, edge_in, touches_at_most
from bvh.geometry.pairs.face_overlap import corner_index
from bvh.geometry.pairs.flat_contacts import AREA, POINT, SEGMENT
from bvh.geometry.pairs.triangle_overlap import along_common_line, spread_axis
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms

# The ends of a segment are in the order in which `rational.common` returns them, so that results do
# not depend on which function finds it. `common` cuts what the first face has in the plane by the
# edges of the second. If these cut off ends, the last end that is cut off comes first; ends that
# are not cut off follow in the order of corners and edges of the first face. Each end has a rank,
# and the end of the lower rank is first. The rank of an end that edge n cuts off is CUT - n. Else
# it is 2 i + 1 at corner i of the first face, and 2 i in the edge that ends there.
CUT = -1


@inlined
def _between(p, q, r):
    """Return whether r, on the line of p and q, is strictly between them."""
    k = 0 if p[0] != q[0] else (1 if p[1] != q[1] else 2)
    return min(p[k], q[k]) < r[k] < max(p[k], q[k])


@kernel
def _add_end(count, rank, code, point, last, codes, points):
    """Write an end of a segment, before an end of a higher rank; return the new number of ends.

    `rank`, `code` and `point` are those of the new end. `count`, 0 or 1, is the number of ends in
    `codes` (2,) and `points` (2, 3) so far, and `last` the rank of that end.
    """
    stay_outlined()
    at = count
    if count == 1 and rank < last:
        codes[1], at = codes[0], 0
        points[1, 0], points[1, 1], points[1, 2] = points[0, 0], points[0, 1], points[0, 2]
    codes[at] = code
    points[at, 0], points[at, 1], points[at, 2] = point
    return count + 1


@kernel
def _segment(a, k, b, first, codes, points):
    """Write the ends of the part of edge k of face a that is in face b; return how many there are.

    The edge is in the plane of b. `first` tells whether a is the first face of the pair. `codes`
    (2,) gets numbers as at `common_polygons.SECOND`, and `points` (2, 3) coordinates. The result is
    UNSURE if a crossing cannot be rounded correctly in double-doubles.
    """
    stay_outlined()
    p, q = a[k], a[(k + 1) % 3]
    i, j = corner_index(p, b), corner_index(q, b)
    if i >= 0 and j >= 0:
        # The edge is also one of b.
        m = (k + 1) % 3
        if first:
            _add_end(0, 2 * k + 1, k, p, 0, codes, points)
            return _add_end(1, 2 * m + 1, m, q, 2 * k + 1, codes, points)
        _add_end(0, 2 * i + 1, i, p, 0, codes, points)
        return _add_end(1, 2 * j + 1, j, q, 2 * i + 1, codes, points)
    axis = spread_axis(b)
    c = projected(b, axis)
    x, y, _ = projected((p, q, q), axis)
    # `starts` and `stops`: on which side of each edge of b are p and q, 1 if inside. `corners`: on
    # which side of the line from p to q is each corner of b.
    (s0, t0, _), (s1, t1, _), (s2, t2, _) = sides_of(c, orient2d(*c), (x, y, y))
    starts, stops = (s0, s1, s2), (t0, t1, t2)
    corners = orient2d(x, y, c[0]), orient2d(x, y, c[1]), orient2d(x, y, c[2])
    # The number of ends so far, and the rank (see CUT) of the one before, which orders them.
    count, last = 0, 0
    # Both ends of the edge, where they are in b.
    for e in range(2):
        corner = (k + e) % 3
        sides, point = starts if e == 0 else stops, a[corner]
        if least(sides) >= 0 and first:
            count = _add_end(count, 2 * corner + 1, corner, point, last, codes, points)
            last = 2 * corner + 1
        elif least(sides) >= 0:
            # Here b is the first face of the pair. If the end is inside b, edge k + 2 of a cuts the
            # line off at the start of edge k, edge k + 1 at its end. If it is on the border of b,
            # the rank is that of the corner or edge of b there.
            i = corner_index(point, b)
            edge = 0 if sides[0] == 0 else (1 if sides[1] == 0 else 2)
            rank = 2 * i + 1 if i >= 0 else 2 * ((edge + 1) % 3)
            rank = CUT - (k + 2 - e) % 3 if least(sides) > 0 else rank
            code = i if i >= 0 else SECOND + corner
            count = _add_end(count, rank, code, point, last, codes, points)
            last = rank
    # Corners of b inside of the edge, and crossings of the edge with edges of b.
    for n in range(3):
        if corners[n] == 0 and _between(p, q, b[n]):
            # Edges n and n + 2 of b meet there. The first of them that p or q is outside of cuts
            # the segment off.
            low, high = min(n, (n + 2) % 3), max(n, (n + 2) % 3)
            edge = low if min(starts[low], stops[low]) < 0 else high
            code, rank = (SECOND + n, CUT - edge) if first else (n, 2 * n + 1)
            count = _add_end(count, rank, code, b[n], last, codes, points)
            last = rank
        m = (n + 1) % 3
        if corners[n] * corners[m] < 0 and starts[n] * stops[n] < 0:
            code = CROSSED + (3 * k + n if first else 3 * n + k)
            rank = CUT - n if first else 2 * m
            # p is only a placeholder: the crossing is written next, to the row that the end got.
            count = _add_end(count, rank, code, p, last, codes, points)
            last = rank
            if not edge_crossing(p, q, b[n], b[m], axis, points[0 if codes[0] == code else 1]):
                return UNSURE
    return count


@kernel
def _segment_in_line(a, k, b, m, codes, points):
    """Write the ends of what edge k of face a and edge m of face b in one line share; return 2.

    `codes` and `points` are as in `_segment`, with a as the first face; ranks are as at CUT.
    """
    stay_outlined()
    p, q, r, s = a[k], a[(k + 1) % 3], b[m], b[(m + 1) % 3]
    axis = 0 if p[0] != q[0] else (1 if p[1] != q[1] else 2)
    # The corners of b towards p and towards q, and the edges of b that may cut off p and q: edge
    # m + 2 ends at the first corner of edge m, edge m + 1 begins at the second.
    alike = (p[axis] < q[axis]) == (r[axis] < s[axis])
    near, far = (m, (m + 1) % 3) if alike else ((m + 1) % 3, m)
    cut, cut2 = ((m + 2) % 3, (m + 1) % 3) if alike else ((m + 1) % 3, (m + 2) % 3)
    # Edges of b with an index below m cut a polygon, those above m the segment. Both ends are
    # neighbours in the polygon. If k is 2, it begins with the end at q, until an edge cuts off p.
    q_first = k == 2
    rank, rank2, code, code2 = 0, 1, k, (k + 1) % 3
    if _between(p, q, b[near]):
        code, rank, q_first = SECOND + near, CUT - cut if cut > m else 0, q_first and cut > m
    if _between(p, q, b[far]):
        code2, rank2 = SECOND + far, CUT - cut2 if cut2 > m else 1
    if rank == 0 and q_first:
        rank = 2
    start, end = b[near] if code >= SECOND else p, b[far] if code2 >= SECOND else q
    _add_end(0, rank, code, start, 0, codes, points)
    return _add_end(1, rank2, code2, end, rank, codes, points)


@kernel
def _flat_segment(a, b, codes, points):
    """Write the segment that two faces in one plane share; return 2, or 0 for none.

    `codes` and `points` are as in `_segment`, with a as the first face.
    """
    stay_outlined()
    for k in range(3):
        i, j = corner_index(a[k], b), corner_index(a[(k + 1) % 3], b)
        if i >= 0 and j >= 0:
            return _segment_in_line(a, k, b, i if j == (i + 1) % 3 else j, codes, points)
    axis = spread_axis(b)
    c, d = projected(a, axis), projected(b, axis)
    sides = sides_of(c, orient2d(*c), d)
    for k in range(3):
        for m in range(3):
            if share_a_segment(c, d, sides, k, m):
                return _segment_in_line(a, k, b, m, codes, points)
    return 0


@inlined
def _common_edge(a, b):
    """Return the edge of face a that is also one of face b; there must be one."""
    if corner_index(a[0], b) < 0:
        return 1
    return 0 if corner_index(a[1], b) >= 0 else 2


_ordered = inlined(lambda p, q: (min(p, q), max(p, q)))


@entry
def edge_segments(own, other, pairs, shared, signs, rows, codes, points):
    """Write the segments of pairs of faces of which one has an edge in the plane of the other.

    `own` and `other` are meshes, each as (vertices (n, 3), faces (m, 3)); a row of `pairs` (n, 2)
    is a face of each. `shared` (n,) is what `kinds_of_contact` has found; pairs of SEGMENT, EDGE
    and UNDECIDED are examined. `signs` are those of the UNDECIDED pairs: the first six columns are
    the sides of the second face's plane that the corners of the first are on, then the same with
    both swapped (`surfaces.pair_signs`). The first of `rows` (k,) get the pairs that share a
    segment; `codes` (k, 2), numbers as at `common_polygons.SECOND`, and `points` (k, 2, 3) get the
    ends of these. The last rows, backwards, get the pairs that rational numbers must decide, also
    those without such an edge. Return how many of both there are, and how many of the latter have a
    face without area.
    """
    at = left = thin = examined = 0
    for n in range(len(pairs)):
        kind = shared[n]
        if kind == POINT or kind == AREA:
            continue
        a, b = face_of(own, pairs[n, 0]), face_of(other, pairs[n, 1])
        s = t = (np.int8(0), np.int8(0), np.int8(0))
        if kind == UNDECIDED:
            sides = signs[examined]
            s, t = (sides[0], sides[1], sides[2]), (sides[3], sides[4], sides[5])
            examined += 1
        k, m = edge_in(s), edge_in(t)
        if kind == SEGMENT:
            size = _flat_segment(a, b, codes[at], points[at])
        elif kind == EDGE:
            size = _segment(a, _common_edge(a, b), b, True, codes[at], points[at])
        elif spread_axis(a) < 0 or spread_axis(b) < 0:
            size, thin = UNSURE, thin + 1
        elif touches_at_most(s) or touches_at_most(t):
            size = 0
        elif k >= 0:
            size = _segment(a, k, b, True, codes[at], points[at])
        elif m >= 0:
            size = _segment(b, m, a, False, codes[at], points[at])
        else:
            size = 0 if along_common_line(a, b, s, t) >= 0 else UNSURE
        if size == 2:
            rows[at] = n
            at += 1
        elif size == UNSURE:
            left += 1
            rows[len(rows) - left] = n
    return at, left, thin


@entry
def identify_ends(codes, pairs, first, second, edges, ends):
    """Write the edges (n, 2, 3) that ends of segments are on, and rows (2 n, 4) that identify ends.

    `codes` (n, 2) are those of `edge_segments`, `pairs` (n, 2) the faces. `first` and `second` are
    (faces, point_ids) of both meshes: the vertices of faces, and point ids of vertices. An edge is
    (mesh, vertex, vertex), with the mesh 0 or 1 and the lower vertex first; for a corner, its
    vertex twice. A row has the point ids of the ends of both edges that cross there; for a corner,
    its point id and -1 three times.
    """
    for n in range(len(pairs)):
        i, j = pairs[n, 0], pairs[n, 1]
        for e in range(2):
            code, row = np.int64(codes[n, e]), 2 * n + e
            if code < CROSSED:
                of_second = code >= SECOND
                faces, points = second if of_second else first
                face, k = j if of_second else i, code % SECOND
                edges[n, e, 0] = of_second
                edges[n, e, 1] = edges[n, e, 2] = faces[face, k]
                ends[row, 0] = points[faces[face, k]]
                ends[row, 1] = ends[row, 2] = ends[row, 3] = -1
            else:
                k, m = (code - CROSSED) // 3, (code - CROSSED) % 3
                edges[n, e, 0] = 0
                p, q = first[0][i, k], first[0][i, (k + 1) % 3]
                edges[n, e, 1], edges[n, e, 2] = _ordered(p, q)
                ends[row, 0], ends[row, 1] = _ordered(first[1][p], first[1][q])
                p, q = second[0][j, m], second[0][j, (m + 1) % 3]
                ends[row, 2], ends[row, 3] = _ordered(second[1][p], second[1][q])


@warms("segments of edges")
def _warm() -> None:
    """Compile the kernels of this module."""
    mesh, pairs = (np.zeros((3, 3)), np.zeros((1, 3), np.int32)), np.zeros((1, 2), np.int32)
    codes, rows = np.zeros((1, 2), np.int8), np.zeros(1, np.int64)
    signs, points = np.zeros((1, 15), np.int8), np.zeros((1, 2, 3))
    edge_segments(mesh, mesh, pairs, codes[:, 0].copy(), signs, rows, codes, points)
    ids = np.zeros((1, 3), np.int32), np.zeros(3, np.int32)
    edges, ends = np.zeros((1, 2, 3), np.int32), np.zeros((2, 4), np.int32)
    identify_ends(codes, pairs, ids, ids, edges, ends)
