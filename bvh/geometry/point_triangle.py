"""Distance from a point to a triangle: a filter with a proven bound, then an exact computation.

`nearest_on_triangle` is the leaf test of all point queries: a function of one point and one
triangle alone, so that every traversal, and brute force, gives the same double. It works on exact
differences of coordinates, as double-doubles, and rounds once at the end (`feature_distances`).

The nearest point is in the face if the projection is, else on an edge. Where double-doubles leave
that undecided, edges are used: the results then differ by less than the distance of the projection
from the edge, some 2**-98 of its distance from the corners. A face whose area they cannot
distinguish from 0 (flatter than 2**-90 of its length) is treated as its edges. Where a distance is
so small that this would matter, and where differences are so large or so unlike that they overflow
or underflow, exact sums decide.

Regions of the nearest point: Ericson 2005, "Real-Time Collision Detection", 5.1.5.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic import feature_distances, floats
from bvh.geometry.arithmetic.exact_sums import add_product, leading, new_sum
from bvh.geometry.arithmetic.feature_distances import GREAT
from bvh.geometry.arithmetic.floats import INF, NAN
from bvh.geometry.arithmetic.vectors import cross, dot, minus, negated, scaled
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import sqrt

# Error bound of cross products of double-doubles and dot products with them, as a share of their
# terms (see `feature_distances`); faces whose normals are below FLAT of their terms count as edges.
DOUBT = 2.0**-98
FLAT = 2.0**-90
# Below this share of the largest difference, distances that double-doubles leave open are exact.
NEAR = 2.0**-30
# Differences below this share of the largest, but for 0: their products could underflow.
UNLIKE = 2.0**-200
# Faces whose squared area is below this share of its terms have weights from double-doubles.
SLENDER = 2.0**-10
# Error bound, as a share of the terms, of values computed in doubles from rounded operands: fewer
# than 16 roundings on any path.
SIDE_ERROR = 2.0**-48

# For `distance_bounds`: see its comment. Beyond these sizes its products could over- or underflow.
FILTER_ERROR = 64.0 * 2.0**-53
FILTER_REACH = 2.0**200


# num / den clamped to 0..1, 0 for den <= 0: the share of an edge at which the foot of a point is.
along = inlined(lambda num, den: min(max(num / den, 0.0), 1.0) if den > 0.0 else 0.0)


@inlined
def nearest_weights(a, b, c):
    """Return (s, t, inside): weights of v1 and v2 in the nearest point of a triangle, rounded.

    `a`, `b` and `c` lead from the corners v0, v1 and v2 to the point, or all three the other way.
    However inaccurate, weights are not negative and add up to at most 1, up to a rounding. `inside`
    tells whether the nearest point is in the face, not on an edge, by the same rounded numbers.
    """
    # The regions, in order: corners v0, v1, v2; edges v0 v1, v0 v2, v1 v2; the face (`inside`). The
    # names d1 to d6, va, vb and vc are Ericson's.
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
def distance_bounds(p, v0, v1, v2):
    """Return bounds (low, high) of the distance from a point p to a triangle.

    They hold for the exact distance and for the rounded one of `nearest_on_triangle`. They are
    (0, inf) where coordinates are too large or small for this estimate.
    """
    # Any point of the triangle bounds the distance from above, and any direction g from below: a
    # triangle is the hull of its corners, so the distance is at least the least g . (p - v) / |g|.
    # So both bounds hold however inaccurate the approximate nearest point is. Let u = 2**-53 and
    # `size` be the largest component of all p - v, which are computed to u of themselves. A product
    # with g / |g| has an error of (1.8 + 3 * 1.8 + 4 * 1.8) u size, and a difference from the
    # approximate point, with weights of sum 1, one of less than 1.8 * 16 u size. 64 u size covers
    # both, and the error of the leaf test, 4 units in the last place.
    a, b, c = minus(p, v0), minus(p, v1), minus(p, v2)
    size = floats.reach_of(a, b, c)
    if not 1.0 / FILTER_REACH < size < FILTER_REACH:
        return 0.0, INF
    s, t, inside = nearest_weights(a, b, c)
    e1, e2 = minus(a, b), minus(a, c)
    g = (a[0] - s * e1[0] - t * e2[0], a[1] - s * e1[1] - t * e2[1], a[2] - s * e1[2] - t * e2[2])
    error = FILTER_ERROR * size
    top = sqrt(dot(g, g)) + error
    if inside:
        # Across the face: the normal gives the direction more accurately than a difference does.
        n = cross(e1, e2)
        g = n if dot(n, a) >= 0.0 else negated(n)
    length = sqrt(dot(g, g))
    if not length > 0.0:
        return 0.0, top
    return min(dot(g, a), min(dot(g, b), dot(g, c))) / length - error, top


@kernel
def side_of_edge(n, e, a):
    """Return (sign, value) of n . (e x a): 1 if a point is on the inner side of an edge e.

    n is the normal of the triangle, and `a` leads from the start of the edge to the point, all in
    double-doubles; the value is rounded. The sign is 0 if double-doubles do not decide it.
    """
    stay_outlined()
    size = floats.dot_size(floats.high(n), floats.cross_size(floats.high(e), floats.high(a)))
    value = floats.dd_dot(n, floats.dd_cross(e, a))[0]
    return floats.sign_beyond(value, DOUBT * size), value


@inlined
def _sure_side(n, sizes, e, a):
    """Return the `side_of_edge` of vectors rounded to doubles, n with the `cross_size` `sizes`."""
    value = dot(n, cross(e, a))
    error = SIDE_ERROR * floats.dot_size(sizes, floats.cross_size(e, a))
    return floats.sign_beyond(value, error), value


@inlined
def _sure_corner(off, e, f):
    """Return whether a corner of a triangle is surely its nearest point to a given point.

    `off` leads from the corner to the given point, e and f from the corner to both others.
    """
    # It is if the point is surely behind the corner along both edges. A dot product, of three terms
    # with five roundings each, is off by less than the margin, 32 * 2**-53 of the largest factors.
    margin = SIDE_ERROR * floats.largest(off)
    return dot(e, off) < -margin * floats.largest(e) and dot(f, off) < -margin * floats.largest(f)


@kernel
def nearest_on_triangle(p, v0, v1, v2):
    """Return (distance, u, v) of the point (1-u-v) v0 + u v1 + v v2 that is nearest to p.

    All arguments are finite. The distance is within 4 units in the last place of the exact one, and
    the same double for the same point and corners in every traversal. It is 0 only for points of
    the triangle, else between the smallest and the largest double.
    """
    stay_outlined()
    a, b, c = minus(p, v0), minus(p, v1), minus(p, v2)
    ab, bc, ca = minus(v1, v0), minus(v2, v1), minus(v0, v2)
    size = floats.reach_of(a, b, c)
    if size == 0.0:
        return 0.0, 0.0, 0.0
    d, e, u, v = NAN, np.int64(0), 0.0, 0.0
    # Products of differences times 2**k do not overflow, nor underflow unless `is_unlike`.
    k = min(-floats.exponent(size), 1022)
    if size < GREAT and not is_unlike((a, b, c), (ab, bc, ca), size):
        s = floats.power_of_two(k)
        a, b, c = scaled(a, s), scaled(b, s), scaled(c, s)
        ab, bc, ca = scaled(ab, s), scaled(bc, s), scaled(ca, s)
        d, e, u, v = _nearest(p, v0, v1, v2, k, (a, b, c), (ab, bc, ca))
    # The distance is NaN, and "not >=" holds, if double-doubles were not usable or did not decide.
    if not d >= 0.0:
        d, e, u, v = _nearest_of_all(p, v0, v1, v2, k, True)
    return feature_distances.as_double(d, e), u, v


@inlined
def _least(vectors):
    """Return the smallest absolute component of a tuple of three vectors."""
    a, b, c = vectors
    x, y, z = min(abs(a[0]), abs(a[1])), min(abs(a[2]), abs(b[0])), min(abs(b[1]), abs(b[2]))
    return min(min(x, y), min(z, min(abs(c[0]), min(abs(c[1]), abs(c[2])))))


@inlined
def _has_below(v, least):
    """Return whether a vector has a component that is below `least`, but not 0."""
    x, y, z = abs(v[0]), abs(v[1]), abs(v[2])
    return 0.0 < x < least or 0.0 < y < least or 0.0 < z < least


@inlined
def is_unlike(some, others, size):
    """Return whether a component of six vectors, three and three, is below UNLIKE * size but not 0.

    `size` is the largest absolute component of all. Products of such small ones may underflow.
    """
    least = size * UNLIKE
    # Most often no component is below, not even a zero.
    if min(_least(some), _least(others)) >= least:
        return False
    (a, b, c), (d, e, f) = some, others
    return (
        _has_below(a, least) or _has_below(b, least) or _has_below(c, least)
        or _has_below(d, least) or _has_below(e, least) or _has_below(f, least)
    )  # fmt: skip


@inlined
def _nearest(p, v0, v1, v2, k, off, edges):
    """Return (distance, exponent, u, v) of a point from a triangle, by regions decided in doubles.

    The distance is NaN if even double-doubles do not decide the region. `off` are the vectors from
    the corners to p, `edges` those from each corner to the next, rounded and times 2**k.
    """
    a, b, c = off
    ab, bc, ca = edges
    ba, cb, ac = negated(ab), negated(bc), negated(ca)
    # The weights u and v are appended to (distance, exponent).
    if _sure_corner(a, ab, ac):
        return feature_distances.to_corner(p, v0, k) + (0.0, 0.0)
    if _sure_corner(b, bc, ba):
        return feature_distances.to_corner(p, v1, k) + (1.0, 0.0)
    if _sure_corner(c, ca, cb):
        return feature_distances.to_corner(p, v2, k) + (0.0, 1.0)
    # Values w of edges are the weights of the opposite corners, up to a common factor.
    n, sizes = cross(ab, ac), floats.cross_size(ab, ac)
    s0, w2 = _sure_side(n, sizes, ab, a)
    s1, w0 = _sure_side(n, sizes, bc, b)
    s2, w1 = _sure_side(n, sizes, ca, c)
    total = w0 + w1 + w2
    if s0 > 0 and s1 > 0 and s2 > 0 and total > SLENDER * floats.dot_size(sizes, sizes):
        normal, n_size = feature_distances.face_normal(v0, v1, v2, k)
        to_v0, weights = floats.difference(p, v0, k), (w1 / total, w2 / total)
        return feature_distances.to_plane(p, v0, v1, v2, k, normal, n_size, to_v0) + weights
    # Beyond one edge and between its ends: the nearest point is on that edge.
    if s0 < 0 and dot(ab, a) > 0.0 and dot(ba, b) > 0.0:
        return feature_distances.to_edge(p, v0, v1) + (0.0,)
    if s1 < 0 and dot(bc, b) > 0.0 and dot(cb, c) > 0.0:
        d, e, t = feature_distances.to_edge(p, v1, v2)
        return d, e, 1.0 - t, t
    if s2 < 0 and dot(ca, c) > 0.0 and dot(ac, a) > 0.0:
        d, e, t = feature_distances.to_edge(p, v2, v0)
        return d, e, 0.0, 1.0 - t
    return _nearest_of_all(p, v0, v1, v2, k, False)


@kernel
def _exact_side(a, b, c, p, scale):
    """Return (sign, value / 2**scale) of ((b - a) x (c - a)) . ((b - a) x (p - a)).

    The exact sign is 1 if p is on the inner side of the edge a, b of the triangle a, b, c.
    """
    stay_outlined()
    total = new_sum()
    # With (b - a) x (c - a) = a x b + b x c + c x a, it is a sum of products of cross products:
    # (f x g) . (h x q) = (f . h) (g . q) - (f . q) (g . h), where terms i = j of both cancel.
    for f, g in ((a, b), (b, c), (c, a)):
        for h, q in ((a, b), (b, p), (p, a)):
            for i in range(3):
                for j in range(3):
                    if i != j:
                        add_product(total, 1.0, f[i], h[i], g[j], q[j])
                        add_product(total, -1.0, f[i], q[i], g[j], h[j])
    value, e = leading(total)
    return floats.sign(value[0]), floats.scale_by(value[0], e - scale)


@kernel
def _nearest_of_all(p, v0, v1, v2, k, exactly):
    """Return (distance, exponent, u, v) of `_nearest`, for points whose region doubles leave open.

    If `exactly`, exact sums decide the region. Else double-doubles of lengths times 2**k do; the
    distance is NaN where they leave the region open and that could matter, near the triangle.
    """
    stay_outlined()
    best, e, u, v, unsure = INF, np.int64(0), 0.0, 0.0, False
    # Sides s of the edges, and weights w of the corners opposite to them. Edges are skipped if the
    # point is surely on their inner side (s > 0); all are tested if the triangle is flat (s = 0).
    s0, s1, s2, w0, w1, w2 = 0, 0, 0, 0.0, 0.0, 0.0
    if exactly:
        n, f = feature_distances.exact_cross(v0, v1, v0, v2)
        if floats.largest(floats.high(n)) > 0.0:
            s0, w2 = _exact_side(v0, v1, v2, p, 2 * f)
            s1, w0 = _exact_side(v1, v2, v0, p, 2 * f)
            s2, w1 = _exact_side(v2, v0, v1, p, 2 * f)
            if s0 >= 0 and s1 >= 0 and s2 >= 0:
                total = w0 + w1 + w2
                volume, e = feature_distances.exact_volume_of(p, v0, v1, v2)
                weights = w1 / total, w2 / total
                return feature_distances.height_over_base(volume, e, n, f) + weights
    else:
        a, b = floats.difference(p, v0, k), floats.difference(p, v1, k)
        n, n_size = feature_distances.face_normal(v0, v1, v2, k)
        if floats.largest(floats.high(n)) > FLAT * floats.largest(n_size):
            s0, w2 = side_of_edge(n, floats.difference(v1, v0, k), a)
            s1, w0 = side_of_edge(n, floats.difference(v2, v1, k), b)
            s2, w1 = side_of_edge(n, floats.difference(v0, v2, k), floats.difference(p, v2, k))
            if s0 > 0 and s1 > 0 and s2 > 0:
                total = w0 + w1 + w2
                weights = w1 / total, w2 / total
                return feature_distances.to_plane(p, v0, v1, v2, k, n, n_size, a) + weights
        unsure = s0 * s1 * s2 == 0
    if s0 <= 0:
        best, e, u = feature_distances.to_edge(p, v0, v1)
    if s1 <= 0:
        d, f, t = feature_distances.to_edge(p, v1, v2)
        if floats.scale_by(d, f - e) < best:
            best, e, u, v = d, f, 1.0 - t, t
    if s2 <= 0:
        d, f, t = feature_distances.to_edge(p, v2, v0)
        if floats.scale_by(d, f - e) < best:
            best, e, u, v = d, f, 0.0, 1.0 - t
    # At small distances a wrong side could change the result, unless that is exactly 0.
    if unsure and best > 0.0 and floats.scale_by(best, e + k) < NEAR:
        best = NAN
    return best, e, u, v


def distances_to_edges(
    offsets: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the distances (...) of points from the nearest one of three edges.

    `edges` (..., 3, 3) are the vectors of the edges, `offsets` (..., 3, 3) those from the start of
    each edge to the point.
    """
    # The share is that of the nearest point on the edge; NaN, of an edge of length 0, becomes 0.
    with np.errstate(all="ignore"):
        share = (offsets * edges).sum(axis=-1) / (edges * edges).sum(axis=-1)
    share = np.clip(np.nan_to_num(share), 0.0, 1.0)
    off = ((offsets - share[..., None] * edges) ** 2).sum(axis=-1)
    return np.asarray(np.sqrt(off.min(axis=-1)))
