"""Terms of the volume that two solids share; kernels.

The formula is that of W. R. Franklin, 1987, "Polygon properties calculated from the vertex
neighborhoods": a sum of terms of the vertices, edges and faces of the result, each of which follows
from its neighbourhood alone. Here terms are summed by face. The derivation:

1. The boundary of the shared solid S consists of the parts of faces of each solid that are inside
   the other. By the divergence theorem the volume of S is the sum, over these parts P, of n . x / 3
   integrated over P, n being the outward normal: 6 V = sum of 2 n . x |P|, as n . x is constant.
2. Let a be the first corner of the face of P. The area of P is that of the fan of triangles a p q
   over the edges p q of P's border, counter-clockwise seen from outside, negative where q is to the
   right of p. So 6 V is the sum of a . (p x q) over all borders: the determinants of tetrahedra
   at the origin. First moments are those of tetrahedra: 24 M = sum of a . (p x q) (a + p + q).
3. A border consists of two kinds of edges, which give the two kinds of terms.

   - Parts of edges of the face that are inside the other solid (`add_faces`). Edges at a give
     a . (p x q) = 0, so only that across, b c, counts. With x(t) = b + t (c - b), dx = (c - b) dt,
     and d(t) the depth, 1 inside the other solid and 0 outside, its parts add

         6 V:   a . (b x c) times the integral of d dt                                    (share)
         24 M:  a . (b x c) times that of d (a + 2 x(t)) dt = share (a + 2 b) + twice (c - b),

     `twice` being the integral of 2 t d dt: a part from t to u has a . (p x q) = (u - t)
     a . (b x c), and p + q = 2 b + (u + t) (c - b). Integrating by parts, with D the depth at the
     end c and s = 1 where the edge enters the other solid at t, -1 where it leaves,

         share = D - sum of s t,    twice = D - sum of s t**2.

     An edge's sums are those of all its faces, up to its direction: in the other one, with 1 - t,
     they are share and 2 share - twice. Where d counts the sheets of the other solid around x(t),
     nothing else changes.
   - Segments p q in which a face of the first solid, with corner a, meets one of the second, with
     corner b (`add_segments`). Each borders on a part of both faces, in opposite directions, as
     both are on the boundary of S: a . (p x q) - b . (p x q) = (a - b) . (p x q), and for the
     moment both terms by themselves. `_segments` finds the ends, and which one is p.

4. Depths D, signs s, and which edges cross which faces follow from exact signs. Rounded are only
   the shares t and the points p and q: that changes a term by its rounding, while a wrong D or s
   would change it by its whole size.

If the winding of a face is reversed, b and c change places, so that its term changes sign and
nothing else: that is the factor `outward`. The area of S is that of the same fans.

All sums are of double-doubles. Coordinates are relative to an origin near the solids, over 2**e.
"""

import numpy as np

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.exact_sums import add_product, new_sum, take_sign
from bvh.geometry.arithmetic.predicates import AREA_ERROR, TINY, drop_axis
from bvh.geometry.arithmetic.vectors import cross
from bvh.geometry.pairs.common_polygons import corner_at, face_at
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms
from bvh.surfaces.pair_signs import SIDES

# The double-double in columns k and k + 1 of a row.
_read = inlined(lambda row, k: (row[k], row[k + 1]))
# The sums of `add_faces` and `add_segments`, in double-doubles but for the last two: six times the
# volume, 24 times its first moment, the sum of the sizes of the volume's terms, twice the area.
SUMS, SIZE, AREA = 10, 8, 9
# Bound of the rounding of a sum, as a share of the sizes of its terms: more than that of a term and
# of adding it to partial sums, up to 2**16 of them as large as all terms.
ROUNDING = 2.0**-84
# Columns of a table of edges: `share` and `twice` (step 3), as double-doubles.
SHARES = 4


@kernel
def _cross_sign(p, q, r, s, axis):
    """Return the exact sign of the component `axis` of (q - p) x (s - r)."""
    stay_outlined()
    p, q, r, s = drop_axis(p, axis), drop_axis(q, axis), drop_axis(r, axis), drop_axis(s, axis)
    left, right = (q[0] - p[0]) * (s[1] - r[1]), (q[1] - p[1]) * (s[0] - r[0])
    value = left - right
    if abs(value) > AREA_ERROR * (abs(left) + abs(right)) + TINY:
        return 1 if value > 0.0 else -1
    if left == right == 0.0 and abs(q[0] - p[0]) + abs(q[1] - p[1]) == 0.0:
        return 0
    # Exactly: q x s - q x r - p x s + p x r.
    total = new_sum()
    for factor, f, g in ((1.0, q, s), (-1.0, q, r), (-1.0, p, s), (1.0, p, r)):
        add_product(total, factor, f[0], g[1], 1.0, 1.0)
        add_product(total, -factor, f[1], g[0], 1.0, 1.0)
    return take_sign(total)


@inlined
def _direction_sign(p, q, r, s, axes, turns):
    """Return the sign of the dot product of (q - p) x (s - r) and the infinitesimal move.

    The move is, as in `move_apart`, by turns[k] along axes[k], each infinitely less than the last.
    """
    for k in range(3):
        sign = _cross_sign(p, q, r, s, axes[k])
        if sign != 0:
            return sign * turns[k]
    return 0


@entry
def move_apart(own, other, pairs, axes, turns, signs):
    """Replace `pair_signs` of 0 by those after the second mesh moves by an infinitesimal amount.

    The mesh moves along axis axes[0] in the direction of sign turns[0], and by amounts of higher
    orders along the other two. Signs of faces without area and of parallel edges stay 0.
    """
    for n in range(len(pairs)):
        i, j = pairs[n, 0], pairs[n, 1]
        for k in range(3):
            # If a face moves along its normal, corners of the other face in its plane get below it.
            if signs[n, k] == 0:
                p, q, r = face_at(other, j)
                signs[n, k] = -_direction_sign(p, q, p, r, axes, turns)
            if signs[n, 3 + k] == 0:
                p, q, r = face_at(own, i)
                signs[n, 3 + k] = _direction_sign(p, q, p, r, axes, turns)
            for m in range(3):
                if signs[n, SIDES + 3 * k + m] == 0:
                    p, q = corner_at(own, i, k), corner_at(own, i, (k + 1) % 3)
                    r, s = corner_at(other, j, m), corner_at(other, j, (m + 1) % 3)
                    signs[n, SIDES + 3 * k + m] = _direction_sign(r, s, p, q, axes, turns)


@kernel
def _root(parents, steps, k):
    """Return the root of point k and how much deeper k is; shorten the path to it (union-find).

    `steps` tells how much deeper each point is than its parent; it is 0 for a root.
    """
    depth = 0
    while parents[k] != k:
        above = parents[k]
        steps[k] += steps[above]
        parents[k] = parents[above]
        depth += steps[k]
        k = parents[k]
    return k, depth


@entry
def join_points(point_ids, first, changes, parents, steps):
    """Join the points that edges connect, and find how their depths differ.

    The depth of a point is the number of sheets of the other solid around it. `point_ids` (m, 3)
    are the numbers of the points at the corners of faces. first[e], for edge e = 3 i + k of face i,
    is the first edge with the same ends, or -1: only edges with first[e] = e are used, and
    `changes` (3 m,) has the change of the depth along these, from corner k on. `parents` (n,)
    becomes the root of each point, and `steps` (n,) how much deeper each point is than its root.
    """
    for k in range(len(parents)):
        parents[k], steps[k] = k, 0
    for edge in range(len(first)):
        if first[edge] == edge:
            i, k = edge // 3, edge % 3
            a, up = _root(parents, steps, point_ids[i, k])
            b, down = _root(parents, steps, point_ids[i, (k + 1) % 3])
            if a != b:
                # The depth of the end is that of the start and `changes`.
                parents[b] = a
                steps[b] = up + changes[edge] - down
    for k in range(len(parents)):
        root, depth = _root(parents, steps, k)
        parents[k], steps[k] = root, depth


@kernel
def _height(face, p, e):
    """Return the height of p over a face, times twice its area, over 2**(3 e): a double-double."""
    stay_outlined()
    u, v = floats.difference(face[1], face[0], -e), floats.difference(face[2], face[0], -e)
    return floats.dd_dot(floats.dd_cross(u, v), floats.difference(p, face[0], -e))


@entry
def find_crossings(edges, faces, origin, e, shares, points):
    """Write where edges (n, 2, 3) cross faces (n, 3, 3): shares (n, 2) and points (n, 6).

    A share is 0 at the start of an edge, 1 at its end. All are double-doubles; points are relative
    to `origin`, over 2**e. Where an edge is so near the plane that the share is inaccurate, the
    volume depends on the share no more than on the rounding of a term.
    """
    origin = origin[0], origin[1], origin[2]
    for n in range(len(edges)):
        face = face_at(faces, n)
        p, q = corner_at(edges, n, 0), corner_at(edges, n, 1)
        f, g = _height(face, p, e), _height(face, q, e)
        share = floats.dd_div(f, floats.dd_sub(f, g))
        if not (0.0 <= share[0] <= 1.0):
            share = (0.5 if np.isnan(share[0]) else min(max(share[0], 0.0), 1.0)), 0.0
        start, along = floats.difference(p, origin, -e), floats.difference(q, p, -e)
        shares[n, 0], shares[n, 1] = share
        for k in range(3):
            x = floats.dd_add(start[k], floats.dd_mul(share, along[k]))
            points[n, 2 * k], points[n, 2 * k + 1] = x


@entry
def add_shares(rows, shares, signs, table):
    """Subtract s t and s t**2 of each crossing from `share` and `twice` of its edge.

    These are, as double-doubles, in row rows[n] of `table` (see SHARES). t is in `shares` (n, 2);
    s, in `signs`, is 1 where the edge enters the other solid, -1 where it leaves.
    """
    for n in range(len(rows)):
        row, t = table[rows[n]], _read(shares[n], 0)
        for k in range(2):
            x = floats.dd_add(_read(row, 2 * k), (-signs[n] * t[0], -signs[n] * t[1]))
            row[2 * k], row[2 * k + 1] = x
            t = floats.dd_mul(t, t)


@inlined
def _sum3(a, b):
    """Return the sum of two vectors of double-doubles."""
    return (
        floats.dd_add(a[0], b[0]), floats.dd_add(a[1], b[1]), floats.dd_add(a[2], b[2])
    )  # fmt: skip


@inlined
def _scaled(a, factor):
    """Return a vector of double-doubles times a double-double."""
    return (
        floats.dd_mul(a[0], factor), floats.dd_mul(a[1], factor), floats.dd_mul(a[2], factor)
    )  # fmt: skip


@inlined
def _negative(a):
    """Return the negative of a double-double."""
    return -a[0], -a[1]


@kernel
def _volume(a, b, c):
    """Return (a . (b x c), size) of vectors of double-doubles; size sums the absolute terms."""
    stay_outlined()
    sizes = floats.cross_size(floats.high(b), floats.high(c))
    return floats.dd_dot(floats.dd_cross(b, c), a), floats.dot_size(floats.high(a), sizes)


@kernel
def _add(sums, volume, moment, size, area):
    """Add a term to the `sums` (see SUMS): six times a volume, 24 times its moment, and so on."""
    stay_outlined()
    x = floats.dd_add(_read(sums, 0), volume)
    sums[0], sums[1] = x
    for k in range(3):
        x = floats.dd_add(_read(sums, 2 + 2 * k), moment[k])
        sums[2 + 2 * k], sums[3 + 2 * k] = x
    sums[SIZE] += size
    sums[AREA] += area


@inlined
def _length(v):
    """Return the length of a vector."""
    return np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])


@entry
def add_faces(corners, outward, point_ids, depths, first, rows, table, origin, e, sums):
    """Add the terms of the parts of faces that are inside the other solid to `sums` (see SUMS).

    outward : (m,) 1 if the normal of a face points out of its solid, -1 if into it, 0 to skip it.
    point_ids, depths : numbers of the points at corners (m, 3), and the depth of each point.
    first : (3 m,) the first edge with the same ends, edge k of face i being 3 i + k.
    rows, table : (3 m,) the row of `table` with the shares (see SHARES) of each first edge; -1 if
        it crosses no face.
    origin, e : coordinates are relative to `origin`, over 2**e.
    """
    origin = origin[0], origin[1], origin[2]
    for i in range(len(corners)):
        # The face is a fan around its first corner, so that only the edge across counts.
        edge = first[3 * i + 1]
        row, end = rows[edge], depths[point_ids[i, 2]]
        if outward[i] == 0 or (row < 0 and end == 0):
            continue
        share = twice = np.float64(end), 0.0
        if row >= 0:
            share, twice = _read(table[row], 0), _read(table[row], 2)
            # The first edge with these ends runs from c to b: exchange t and 1 - t.
            if point_ids[edge // 3, edge % 3] != point_ids[i, 1]:
                twice = floats.dd_sub((2.0 * share[0], 2.0 * share[1]), twice)
        a = floats.difference(corner_at(corners, i, 0), origin, -e)
        b = floats.difference(corner_at(corners, i, 1), origin, -e)
        c = floats.difference(corner_at(corners, i, 2), origin, -e)
        volume, size = _volume(a, b, c)
        volume = volume[0] * outward[i], volume[1] * outward[i]
        moment = _sum3(_scaled(_sum3(a, _sum3(b, b)), share), _scaled(
            floats.difference(corner_at(corners, i, 2), corner_at(corners, i, 1), -e), twice
        ))  # fmt: skip
        u = floats.high(floats.difference(corner_at(corners, i, 1), corner_at(corners, i, 0), -e))
        v = floats.high(floats.difference(corner_at(corners, i, 2), corner_at(corners, i, 0), -e))
        area = _length(cross(u, v)) * share[0]
        _add(sums, floats.dd_mul(volume, share), _scaled(moment, volume), size, area)


@inlined
def _point(points, n):
    """Return point n, row n of (.., 6), as a vector of double-doubles."""
    return _read(points[n], 0), _read(points[n], 2), _read(points[n], 4)


@inlined
def _double_area(a, b, c, outward, p, q):
    """Return twice the signed area of triangle a p q in face a b c; p and q are relative to a.

    It is positive if a, p, q run counter-clockwise as seen from outside: where the normal of a b c
    points if `outward` is 1, on the other side if it is -1.
    """
    u, v = floats.high(floats.difference(b, a, 0)), floats.high(floats.difference(c, a, 0))
    size = max(floats.largest(u), floats.largest(v))
    if size == 0.0:
        return 0.0
    n = cross((u[0] / size, u[1] / size, u[2] / size), (v[0] / size, v[1] / size, v[2] / size))
    w = cross(p, q)
    length = _length(n)
    return outward * (n[0] * w[0] + n[1] * w[1] + n[2] * w[2]) / length if length > 0.0 else 0.0


@inlined
def _offset(p, r):
    """Return p - r of vectors of double-doubles, rounded to a vector of doubles."""
    return (
        floats.dd_sub(p[0], r[0])[0], floats.dd_sub(p[1], r[1])[0], floats.dd_sub(p[2], r[2])[0]
    )  # fmt: skip


@entry
def add_segments(own, other, outward, outward2, pairs, points, origin, e, sums):
    """Add the terms of segments in which pairs of faces meet to `sums` (see SUMS).

    Segment n is in faces pairs[n] of `own` and `other` (m, 3, 3), from row 2 n of `points` (.., 6)
    to the next one. Seen from outside, the shared part of the first face is on its left.
    `outward2` is the `outward` of the second solid; all else is as in `add_faces`.
    """
    origin = origin[0], origin[1], origin[2]
    for n in range(len(pairs)):
        i, j = pairs[n, 0], pairs[n, 1]
        p, q = _point(points, 2 * n), _point(points, 2 * n + 1)
        a, b = corner_at(own, i, 0), corner_at(other, j, 0)
        r, s = floats.difference(a, origin, -e), floats.difference(b, origin, -e)
        volume, size = _volume(floats.difference(a, b, -e), p, q)
        first, size1 = _volume(r, p, q)
        second, size2 = _volume(s, p, q)
        ends = _sum3(p, q)
        moment = _sum3(_scaled(_sum3(r, ends), first), _scaled(_sum3(s, ends), _negative(second)))
        area = _double_area(
            a, corner_at(own, i, 1), corner_at(own, i, 2), outward[i], _offset(p, r), _offset(q, r)
        ) - _double_area(
            b,
            corner_at(other, j, 1),
            corner_at(other, j, 2),
            outward2[j],
            _offset(p, s),
            _offset(q, s),
        )
        _add(sums, volume, moment, size + size1 + size2, area)


@entry
def sum_areas(corners, e, sums):
    """Add twice the areas of faces (m, 3, 3), in units of 2**(2 e), to `sums`, a double-double."""
    for i in range(len(corners)):
        a = corner_at(corners, i, 0)
        u = floats.difference(corner_at(corners, i, 1), a, -e)
        v = floats.difference(corner_at(corners, i, 2), a, -e)
        n = floats.dd_cross(u, v)
        square = floats.dd_dot(n, n)
        if square[0] > 0.0:
            sums[0], sums[1] = floats.dd_add(_read(sums, 0), floats.dd_sqrt(square))


@warms("volumes of solids")
def _warm() -> None:
    """Compile the kernels of this module, for the smallest arrays."""
    faces, pairs, three = np.zeros((1, 3, 3)), np.zeros((1, 2), np.int32), np.zeros(3)
    signs, outward = np.zeros((1, 15), np.int8), np.zeros(1, np.int8)
    whole, sums = np.zeros(3, np.int64), np.zeros(SUMS)
    move_apart(faces, faces, pairs, np.arange(3), np.ones(3, np.int8), signs)
    point_ids = np.zeros((1, 3), np.int64)
    join_points(point_ids, whole, whole.copy(), whole.copy(), whole.copy())
    shares, points = np.zeros((2, 2)), np.zeros((2, 6))
    find_crossings(np.zeros((1, 2, 3)), faces, three, 0, shares, points)
    add_shares(np.zeros(1, np.int64), shares, np.zeros(1), np.zeros((1, SHARES)))
    add_faces(faces, outward, point_ids, whole, whole, whole, np.zeros((1, SHARES)), three, 0, sums)
    sum_areas(faces, 0, sums)
    add_segments(faces, faces, outward, outward, pairs, points, three, 0, sums)
