"""Gaps between the surfaces of spheres and capsules, and between these and faces: bounds.

A sphere or capsule is its axis from p to q, as the triangle (p, q, q) without area, with a radius;
p = q for a sphere. A face has the radius 0.
With d the distance of both triangles, and m the greatest distance of a corner of the second from
the axis of the first, the gap is the largest of 0, d - r - s outside, and r - s - m where the
second is inside the first, or as much with both swapped: distances from an axis are convex, so
that their maximum over a triangle is at a corner.
"""

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.floats import INF, vector
from bvh.geometry.arithmetic.vectors import dot, minus, moved_along, plus
from bvh.geometry.pairs.triangle_distance import FILTER_ERROR, FILTER_REACH, distance_bounds
from bvh.geometry.point_triangle import along
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel
from bvh.runtime.simd import peek, pointer, poke, shifted, sqrt

# The error of sums and differences of radii, and of the last rounding, as a share of these.
SUM_ERROR = 2.0**-50
# Numbers of a result: both bounds, the nearest points of both triangles, and a direction from the
# second to the first.
SIZE = 11


@inlined
def _foot(p, a, b):
    """Return the point of the segment a, b that is nearest to p, in doubles."""
    v = minus(b, a)
    return moved_along(a, v, along(dot(minus(p, a), v), dot(v, v)))


@inlined
def _farthest(t, a, b):
    """Return the greatest distance of a corner of triangle t from the segment a, b, in doubles."""
    most, v = 0.0, minus(b, a)
    for k in range(3):
        w = minus(t[k], a)
        d = moved_along(w, v, -along(dot(w, v), dot(v, v)))
        most = max(most, dot(d, d))
    return sqrt(most)


@inlined
def _inner_gap(a, r, b, s, error):
    """Return bounds (low, high) of the gap from b, of radius s, to the surface of a around b.

    a is an axis of radius r; the rounded gap is off by at most `error`. It is negative if b reaches
    out of a.
    """
    gap = (r - s) - _farthest(b, a[0], a[1])
    return gap - error, gap + error


# The corners of triangle i of an array (n, 3, 3).
_corners = inlined(
    lambda rows, i: (vector(rows, 3 * i), vector(rows, 3 * i + 1), vector(rows, 3 * i + 2))
)


@kernel
def _gap(a, r, b, s):
    """Return (low, high, x, y, g) of triangles a and b, faces or axes, with radii r and s.

    low and high are bounds of the surfaces' gap, (0, inf) if sizes are out of the filter's range. x
    and y are the nearest points of the triangles, rounded, and g is a direction from y to x.
    """
    # All is computed relative to a corner, which loses nothing but the rounding of differences.
    o = b[0]
    if a[1] == a[2] and b[1] == b[2] and (a[0] == a[1] or o == b[1]):
        # A sphere, and another one or a capsule: a foot on its axis is off by less than `error`.
        x, y = minus(a[0], o), (0.0, 0.0, 0.0)
        if a[0] != a[1]:
            x = _foot(y, x, minus(a[1], o))
        elif o != b[1]:
            y = _foot(x, y, minus(b[1], o))
        g = minus(x, y)
        low = high = sqrt(dot(g, g))
    else:
        low, high, g, x, y = distance_bounds(a, b)
    size = floats.reach_of(minus(a[0], o), minus(a[1], o), minus(a[2], o))
    size = max(size, max(floats.largest(minus(b[1], o)), floats.largest(minus(b[2], o))))
    error = FILTER_ERROR * size + SUM_ERROR * (r + s)
    x, y = plus(x, o), plus(y, o)
    if not 1.0 / FILTER_REACH < size < FILTER_REACH or not error < INF:
        return 0.0, INF, x, y, g
    low, high = max(low - (r + s) - error, 0.0), max(high - (r + s) + error, 0.0)
    # Only the one with the larger radius can be around the other.
    for side in range(2):
        below, above = _inner_gap(a, r, b, s, error) if side == 0 else _inner_gap(b, s, a, r, error)
        if (r > s) == (side == 0):
            low, high = max(low, below), max(high, above)
    return low, high, x, y, g


@entry
def find_gaps(corners, radii, rows, others, other_radii, other_rows, found):
    """Write bounds of the gaps of pairs, and nearest points, to `found` (pairs, SIZE).

    The k-th pair is the shape rows[k] of `corners` (n, 3, 3) and `radii` (n,), and other_rows[k] of
    `others` and `other_radii`. A row is (low, high, x, y, g) as `_gap` returns them.
    """
    t, u, out = pointer(corners), pointer(others), pointer(found)
    r, s = pointer(radii), pointer(other_radii)
    for k in range(len(rows)):
        i, j = peek(pointer(rows), k), peek(pointer(other_rows), k)
        low, high, x, y, g = _gap(_corners(t, i), peek(r, i), _corners(u, j), peek(s, j))
        row = shifted(out, SIZE * k)
        poke(row, 0, low)
        poke(row, 1, high)
        for axis in range(3):
            poke(row, 2 + axis, x[axis])
            poke(row, 5 + axis, y[axis])
            poke(row, 8 + axis, g[axis])
