"""Signs of pairs of faces, and the points in which edges cross faces; kernels.

Of two faces six signs say on which sides of each other's planes their corners are, and nine how
their edges pass each other. Where an edge surely crosses a face, the point is found in
double-doubles and rounded; all else is left to rational numbers.
"""

import numpy as np

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.predicates import orient3d
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms

# Signs of a pair, in this order: the sides of the first face's corners, those of the second's, and
# how edges i and j pass each other, at SIDES + 3 i + j.
SIDES, SIGNS = 6, 15

_corner = inlined(lambda faces, i, k: (faces[i, k, 0], faces[i, k, 1], faces[i, k, 2]))


@entry
def pair_signs(own, other, pairs, signs):
    """Write the signs (n, SIGNS) of pairs of faces, given by their corners (m, 3, 3)."""
    for n in range(len(pairs)):
        i, j = pairs[n, 0], pairs[n, 1]
        a = _corner(own, i, 0), _corner(own, i, 1), _corner(own, i, 2)
        b = _corner(other, j, 0), _corner(other, j, 1), _corner(other, j, 2)
        for k in range(3):
            signs[n, k] = orient3d(b[0], b[1], b[2], _corner(own, i, k))
            signs[n, 3 + k] = orient3d(a[0], a[1], a[2], _corner(other, j, k))
            p, q = _corner(own, i, k), _corner(own, i, (k + 1) % 3)
            for m in range(3):
                r, s = _corner(other, j, m), _corner(other, j, (m + 1) % 3)
                signs[n, SIDES + 3 * k + m] = orient3d(p, q, r, s)


@entry
def count_crossings(faces, p, q):
    """Return how many faces a segment crosses; -1 if it may meet an edge or end in a face."""
    p, q, count = (p[0], p[1], p[2]), (q[0], q[1], q[2]), 0
    low, high = floats.lower_of(p, q), floats.upper_of(p, q)
    for i in range(len(faces)):
        a, b, c = _corner(faces, i, 0), _corner(faces, i, 1), _corner(faces, i, 2)
        # Skip faces whose boxes do not meet that of the segment: most of them.
        top, bottom = floats.upper_of(a, floats.upper_of(b, c)), floats.lower_of(a, b)
        bottom = floats.lower_of(bottom, c)
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
    """Return the height of a point over a face, times twice its area, and the size of its terms.

    The height is a double-double. Differences of coordinates are scaled by 2**-e, to at most one.
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
        face = _corner(faces, n, 0), _corner(faces, n, 1), _corner(faces, n, 2)
        p, q = _corner(edges, n, 0), _corner(edges, n, 1)
        reach = max(floats.reach_of(face[0], face[1], face[2]), floats.reach_of(p, q, q))
        e = min(max(floats.exponent(reach) + 1, -1022), 1022)
        (f, size), (g, size2) = _height(face, p, e), _height(face, q, e)
        # Both heights have errors below DD_ERROR of their sizes. Unless one is too small, at least
        # 55 bits of `share`, the place of the crossing from 0 at p to 1 at q, are right.
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
