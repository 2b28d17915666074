"""Distance from a point to a triangle: a filter with a proven bound, then an exact computation.

`nearest_on_triangle` is the leaf test of all point queries: a function of one point and one
triangle alone, so that every traversal, and brute force, gives the same double. It works on exact
differences of coordinates, as double-doubles, and rounds once at the end: where a double-double is
not accurate to a few units in the last place of the distance from a plane or an edge, the volume or
area that it comes from is summed exactly.

The nearest point is in the face if the projection is, else on an edge. Where double-doubles leave
that undecided, edges are used: the results then differ by less than the distance of the projection
from the edge, some 2**-98 of its distance from the corners. A face whose area they cannot
distinguish from 0 (flatter than 2**-90 of its length) is treated as its edges.

Regions of the nearest point: Ericson 2005, "Real-Time Collision Detection", 5.1.5.
"""

from __future__ import annotations

import math

import numpy as np

from bvh.geometry.arithmetic.exact_sums import add_product, add_triple, new_sum, rounded
from bvh.geometry.arithmetic.floats import (
    INF,
    cross_size,
    dd_cross,
    dd_div,
    dd_dot,
    dd_mul,
    difference,
    dot_size,
    exponent,
    high,
    largest,
    power_of_two,
    scale_by,
    two_product,
)
from bvh.geometry.arithmetic.vectors import cross, dot, minus, negated, scaled
from bvh.runtime.jit import inlined, kernel, stay_outlined

# Cross products of double-doubles, and dot products with them, lose less than 2**-98 of the sizes
# of their terms. A result of at least 2**-45 of these is accurate to 2**-53, with a wide margin.
KEPT = 2.0**-45
DOUBT = 2.0**-98
FLAT = 2.0**-90
# Below this share of its terms, a face's area has its weights from double-doubles.
SLENDER = 2.0**-10
# A sign computed in doubles from rounded operands: fewer than 16 roundings on any path.
SIDE_ERROR = 2.0**-48

# `between`: see its docstring. Beyond these sizes its products of four could over- or underflow.
FILTER_ERROR = 64.0 * 2.0**-53
FILTER_REACH = 2.0**200


@inlined
def along(num, den):
    """Return num / den clamped to 0..1; 0 where den is 0."""
    return min(max(num / den, 0.0), 1.0) if den > 0.0 else 0.0


@inlined
def nearest_weights(a, b, c):
    """Return (s, t, inside): the weights of v1 and v2 in the nearest point, approximately.

    `a`, `b` and `c` lead from the corners v0, v1 and v2 to the point, or all back.
    """
    e1, e2 = minus(a, b), minus(a, c)
    d1, d2, d3, d4, d5, d6 = dot(e1, a), dot(e2, a), dot(e1, b), dot(e2, b), dot(e1, c), dot(e2, c)
    s, t, inside = 0.0, 0.0, False
    if d1 <= 0.0 and d2 <= 0.0:
        pass
    elif d3 >= 0.0 and d4 <= d3:
        s = 1.0
    elif d6 >= 0.0 and d5 <= d6:
        t = 1.0
    else:
        va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
        if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
            s = along(d1, d1 - d3)
        elif vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
            t = along(d2, d2 - d6)
        elif va <= 0.0 and d4 >= d3 and d5 >= d6:
            t = along(d4 - d3, (d4 - d3) + (d5 - d6))
            s = 1.0 - t
        else:
            s = along(vb, va + vb + vc)
            t = min(along(vc, va + vb + vc), 1.0 - s)
            inside = True
    return s, t, inside


@inlined
def between(p, v0, v1, v2):
    """Return (low, high) that the distance from a point to a triangle lies between.

    Any point of the triangle bounds the distance from above, and any direction g from below: a
    triangle is the hull of its corners, so the distance is at least the least g . (p - v) / |g|. So
    both bounds hold however inaccurate the approximate nearest point is. With u = 2**-53 and `size`
    the largest component of all p - v, which are computed to u of themselves, a product with g /
    |g| has an error of (1.8 + 3 * 1.8 + 4 * 1.8) u size, and a difference from the approximate
    point, with weights of sum 1, of less than 1.8 * 16 u size: 64 u size covers both, and the error
    of the leaf test, 4 units in the last place.
    """
    a, b, c = minus(p, v0), minus(p, v1), minus(p, v2)
    size = max(largest(a), max(largest(b), largest(c)))
    if not 1.0 / FILTER_REACH < size < FILTER_REACH:
        return 0.0, INF
    s, t, inside = nearest_weights(a, b, c)
    e1, e2 = minus(a, b), minus(a, c)
    g = (a[0] - s * e1[0] - t * e2[0], a[1] - s * e1[1] - t * e2[1], a[2] - s * e1[2] - t * e2[2])
    error = FILTER_ERROR * size
    top = math.sqrt(dot(g, g)) + error
    if inside:
        # Across the face: the normal gives the direction more accurately than a difference does.
        n = cross(e1, e2)
        g = n if dot(n, a) >= 0.0 else negated(n)
    length = math.sqrt(dot(g, g))
    if not length > 0.0:
        return 0.0, top
    return min(dot(g, a), min(dot(g, b), dot(g, c))) / length - error, top


@inlined
def root_of(x):
    """Return the square root of a double-double, rounded to a double."""
    r = math.sqrt(x[0])
    if r == 0.0:
        return 0.0
    p, e = two_product(r, r)
    return r + (((x[0] - p) - e) + x[1]) / (2.0 * r)


@inlined
def square_of(v):
    """Return |v|**2 of a vector of double-doubles as (double-double, e), times 2**(2 e)."""
    e = exponent(largest(high(v)))
    s = power_of_two(-e)
    w = (
        (v[0][0] * s, v[0][1] * s),
        (v[1][0] * s, v[1][1] * s),
        (v[2][0] * s, v[2][1] * s),
    )
    return dd_dot(w, w), e


@kernel
def _exact_area(a, b, c):
    """Return (b - a) x (c - a), every component rounded once, as double-doubles."""
    stay_outlined()
    x, y, z = new_sum(), new_sum(), new_sum()
    for p, q in ((a, b), (b, c), (c, a)):
        add_product(x, 1.0, p[1], q[2], 1.0, 1.0)
        add_product(x, -1.0, p[2], q[1], 1.0, 1.0)
        add_product(y, 1.0, p[2], q[0], 1.0, 1.0)
        add_product(y, -1.0, p[0], q[2], 1.0, 1.0)
        add_product(z, 1.0, p[0], q[1], 1.0, 1.0)
        add_product(z, -1.0, p[1], q[0], 1.0, 1.0)
    return (rounded(x), 0.0), (rounded(y), 0.0), (rounded(z), 0.0)


@kernel
def exact_cross(p, q, r, s):
    """Return (q - p) x (s - r), every component rounded once, as double-doubles."""
    stay_outlined()
    x, y, z = new_sum(), new_sum(), new_sum()
    for factor, f, g in ((1.0, q, s), (-1.0, q, r), (-1.0, p, s), (1.0, p, r)):
        add_product(x, factor, f[1], g[2], 1.0, 1.0)
        add_product(x, -factor, f[2], g[1], 1.0, 1.0)
        add_product(y, factor, f[2], g[0], 1.0, 1.0)
        add_product(y, -factor, f[0], g[2], 1.0, 1.0)
        add_product(z, factor, f[0], g[1], 1.0, 1.0)
        add_product(z, -factor, f[1], g[0], 1.0, 1.0)
    return (rounded(x), 0.0), (rounded(y), 0.0), (rounded(z), 0.0)


@kernel
def exact_volume_of(p, a, b, c):
    """Return ((b - a) x (c - a)) . (p - a), rounded once."""
    stay_outlined()
    total = new_sum()
    for factor, x, y, z in ((-1.0, a, b, c), (1.0, p, a, b), (1.0, p, b, c), (1.0, p, c, a)):
        add_triple(total, factor, x, y, z)
    return rounded(total)


@kernel
def to_edge(p, a, b, k):
    """Return (distance, t) of the point a + t (b - a) of an edge that is nearest, times 2**k."""
    stay_outlined()
    pa, pb, e = difference(p, a, k), difference(p, b, k), difference(b, a, k)
    # A wrong sign, next to the end of the edge, changes the distance by less than rounding does.
    at_a, at_b = dot(high(pa), high(e)), dot(high(pb), high(e))
    if at_a <= 0.0 or at_b >= 0.0:
        near = pa if at_a <= 0.0 else pb
        square, scale = square_of(near)
        return scale_by(root_of(square), scale), (0.0 if at_a <= 0.0 else 1.0)
    across = dd_cross(pa, e)
    size = largest(cross_size(high(pa), high(e)))
    if size > 0.0 and largest(high(across)) < KEPT * size:
        s = power_of_two(k)
        across = _exact_area(scaled(a, s), scaled(b, s), scaled(p, s))
    t = at_a / (at_a - at_b)
    if largest(high(across)) == 0.0:
        return 0.0, t
    square, scale = square_of(across)
    length, e_scale = square_of(e)
    return scale_by(root_of(dd_div(square, length)), scale - e_scale), t


@inlined
def side_of_edge(n, e, a):
    """Return the sign of n . (e x a), and the value; sign 0 where double-doubles leave it open."""
    h, eh, ah = high(n), high(e), high(a)
    size = dot_size(h, cross_size(eh, ah))
    exact = dd_dot(n, dd_cross(e, a))[0]
    if abs(exact) > DOUBT * size:
        return (1 if exact > 0.0 else -1), exact
    return 0, exact


@kernel
def to_plane(p, v0, v1, v2, k, n, n_size, a):
    """Return the distance to the plane of a face that has an area, times 2**k."""
    stay_outlined()
    volume = dd_dot(n, a)
    size = dot_size(n_size, high(a))
    if size > 0.0:
        s = power_of_two(k)
        if abs(volume[0]) < KEPT * size:
            volume = (
                exact_volume_of(scaled(p, s), scaled(v0, s), scaled(v1, s), scaled(v2, s)),
                0.0,
            )
        if largest(high(n)) < KEPT * largest(n_size):
            n = _exact_area(scaled(v0, s), scaled(v1, s), scaled(v2, s))
    if volume[0] == 0.0:
        return 0.0
    e = exponent(abs(volume[0]))
    s = power_of_two(-e)
    volume = (volume[0] * s, volume[1] * s)
    square, scale = square_of(n)
    return scale_by(root_of(dd_div(dd_mul(volume, volume), square)), e - scale)


@inlined
def _sure_side(n, sizes, e, a):
    """Return the sign of n . (e x a) of doubles, and the value; sign 0 where it is unsure."""
    value = dot(n, cross(e, a))
    if abs(value) > SIDE_ERROR * dot_size(sizes, cross_size(e, a)):
        return (1 if value > 0.0 else -1), value
    return 0, value


@inlined
def _sure_corner(off, e, f):
    """Return whether a point, `off` from the corner of edges e and f, is surely beyond it."""
    margin = SIDE_ERROR * largest(off)
    return dot(e, off) < -margin * largest(e) and dot(f, off) < -margin * largest(f)


@kernel
def nearest_on_triangle(p, v0, v1, v2):
    """Return (distance, u, v) of the point (1-u-v) v0 + u v1 + v v2 that is nearest to p.

    The distance is within 4 units in the last place of the exact one (see above), and the same
    double for the same point and corners.
    """
    stay_outlined()
    post = np.int64(0)
    far = max(max(largest(p), largest(v0)), max(largest(v1), largest(v2)))
    if far > 2.0**1000:
        # So that no difference overflows.
        p, v0, v1, v2 = (
            scaled(p, 2.0**-30), scaled(v0, 2.0**-30), scaled(v1, 2.0**-30), scaled(v2, 2.0**-30)
        )  # fmt: skip
        post = np.int64(30)
    size = max(largest(minus(p, v0)), max(largest(minus(p, v1)), largest(minus(p, v2))))
    if size == 0.0:
        return 0.0, 0.0, 0.0
    k = min(-exponent(size), 1022)
    d, u, v = _nearest(p, v0, v1, v2, k)
    return scale_by(d, post - k), u, v


@inlined
def _nearest(p, v0, v1, v2, k):
    """Return (distance times 2**k, u, v), by the region of the nearest point."""
    s = power_of_two(k)
    a, b, c = scaled(minus(p, v0), s), scaled(minus(p, v1), s), scaled(minus(p, v2), s)
    ab, bc, ca = scaled(minus(v1, v0), s), scaled(minus(v2, v1), s), scaled(minus(v0, v2), s)
    ba, cb, ac = negated(ab), negated(bc), negated(ca)
    if _sure_corner(a, ab, ac):
        return _to_corner(p, v0, k), 0.0, 0.0
    if _sure_corner(b, bc, ba):
        return _to_corner(p, v1, k), 1.0, 0.0
    if _sure_corner(c, ca, cb):
        return _to_corner(p, v2, k), 0.0, 1.0
    n, sizes = cross(ab, ac), cross_size(ab, ac)
    s0, w2 = _sure_side(n, sizes, ab, a)
    s1, w0 = _sure_side(n, sizes, bc, b)
    s2, w1 = _sure_side(n, sizes, ca, c)
    whole = w0 + w1 + w2
    if s0 > 0 and s1 > 0 and s2 > 0 and whole > SLENDER * dot_size(sizes, sizes):
        area, areas = double_area(v0, v1, v2, k)
        d = to_plane(p, v0, v1, v2, k, area, areas, difference(p, v0, k))
        return d, w1 / whole, w2 / whole
    # Beyond one edge and between its ends: it has the nearest point.
    if s0 < 0 and dot(ab, a) > 0.0 and dot(ba, b) > 0.0:
        d, t = to_edge(p, v0, v1, k)
        return d, t, 0.0
    if s1 < 0 and dot(bc, b) > 0.0 and dot(cb, c) > 0.0:
        d, t = to_edge(p, v1, v2, k)
        return d, 1.0 - t, t
    if s2 < 0 and dot(ca, c) > 0.0 and dot(ac, a) > 0.0:
        d, t = to_edge(p, v2, v0, k)
        return d, 0.0, 1.0 - t
    return _nearest_of_all(p, v0, v1, v2, k)


@kernel
def _to_corner(p, corner, k):
    """Return the distance to a corner, times 2**k."""
    stay_outlined()
    square, scale = square_of(difference(p, corner, k))
    return scale_by(root_of(square), scale)


@inlined
def double_area(v0, v1, v2, k):
    """Return the normal of a face as double-doubles, and the sizes of its terms."""
    ab, ac = difference(v1, v0, k), difference(v2, v0, k)
    return dd_cross(ab, ac), cross_size(high(ab), high(ac))


@kernel
def _nearest_of_all(p, v0, v1, v2, k):
    """Return the same as `_nearest` where doubles do not decide the region."""
    stay_outlined()
    a, b, c = difference(p, v0, k), difference(p, v1, k), difference(p, v2, k)
    n, n_size = double_area(v0, v1, v2, k)
    # Edges on whose inner side the point surely is are skipped.
    s0, s1, s2 = 0, 0, 0
    if largest(high(n)) > FLAT * largest(n_size):
        s0, w2 = side_of_edge(n, difference(v1, v0, k), a)
        s1, w0 = side_of_edge(n, difference(v2, v1, k), b)
        s2, w1 = side_of_edge(n, difference(v0, v2, k), c)
        if s0 > 0 and s1 > 0 and s2 > 0:
            whole = w0 + w1 + w2
            return to_plane(p, v0, v1, v2, k, n, n_size, a), w1 / whole, w2 / whole
    best, u, v = INF, 0.0, 0.0
    if s0 <= 0:
        best, u = to_edge(p, v0, v1, k)
    if s1 <= 0:
        d, t = to_edge(p, v1, v2, k)
        if d < best:
            best, u, v = d, 1.0 - t, t
    if s2 <= 0:
        d, t = to_edge(p, v2, v0, k)
        if d < best:
            best, u, v = d, 0.0, 1.0 - t
    return best, u, v
