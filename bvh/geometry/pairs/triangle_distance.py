"""Distance of two triangles: a filter with a proven bound, then features in double-doubles.

`distance_bounds` is the filter. `triangle_distance` measures triangles that do not touch (see
`triangle_overlap`): a function of the two triangles alone, so that every traversal, and brute
force, gives the same double. The distance is that of a vertex from a face or of two edges, and is
reduced to the features that it is between: two vertices, a vertex and an edge, a vertex and a face,
or two edges. Edges begin with the lower end, so that the same features give the same double from
whatever two faces they are reached: faces that share the nearest vertex or edge are at the same
distance.

Which features these are is decided in double-doubles. A wrong decision moves a nearest point by
2**-98 of the sizes compared, over the sine of the angle between edges. With sines above PARALLEL,
distances above 2**-66 of the triangles' size change by less than 2**-55 of themselves; at smaller
angles, edges count as parallel and faces as their edges. Smaller distances are not `sure`, and
callers measure them in rational arithmetic.

Pairs of segments: Lumelsky 1985, "On fast computation of distance between line segments"; triangles
by their features: Larsen, Gottschalk, Lin, Manocha 1999, "Fast proximity queries with swept sphere
volumes".
"""

import numpy as np

from bvh.geometry.arithmetic import feature_distances, floats
from bvh.geometry.arithmetic.feature_distances import GREAT, KEPT
from bvh.geometry.arithmetic.floats import INF, LARGEST
from bvh.geometry.arithmetic.vectors import cross, dot, minus, moved_along, negated, scaled
from bvh.geometry.pairs.triangle_overlap import before
from bvh.geometry.point_triangle import SIDE_ERROR, along, is_unlike, side_of_edge
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import sqrt

# `distance_bounds`: see its comment. Beyond these sizes its products could over- or underflow.
FILTER_ERROR = 2.0**-45
FILTER_REACH = 2.0**200
# Squares of normals that are not above this are inaccurate, as their products underflow.
TINY = 2.0**-960
# Sines below which edges count as parallel and faces as flat, and below which that is right.
PARALLEL = 2.0**-70
SURELY_PARALLEL = 2.0**-97
# Distances, as shares of the triangles' size, below which the choice of features may be wrong; the
# second where edges counted as parallel, or faces as flat, that may not be.
NEAREST, NEAREST_FLAT = 2.0**-66, 2.0**-42
SIGN_ERROR = 2.0**-46  # of `_surely_off_segments`, as a share of the terms
# A normal above this share of its terms is accurate to this share of itself.
ACCURATE = 2.0**-20


@inlined
def _dot_products(w, u, v):
    """Return (u.u, u.v, u.w, v.v, v.w, |u x v|**2) of two segments, given by their vectors u and v.

    w leads from the start of segment v to the start of segment u.
    """
    a, b, e = dot(u, u), dot(u, v), dot(v, v)
    return a, b, dot(u, w), e, dot(v, w), a * e - b * b


@inlined
def _nearest_of_segments(w, u, v):
    """Return (s, t): shares, 0 to 1, of segments u and v where they are nearest, rounded.

    w leads from the start of v to the start of u.
    """
    # s of the lines, clamped; then the best t for it; if that is clamped, the best s for t.
    a, b, c, e, f, den = _dot_products(w, u, v)
    s = along(b * f - c * e, den)
    t = b * s + f
    if t <= 0.0:
        t, s = 0.0, along(-c, a)
    elif t >= e:
        t, s = 1.0, along(b - c, a)
    else:
        t /= e
    return s, t


@inlined
def _foot(t, n, q):
    """Return (inside, foot): whether a point q projects into a triangle t of normal n, and where.

    Both are rounded, but the foot is a point of the triangle however inaccurate the normal is. If
    not `inside`, the foot is q.
    """
    # x, y, z: weights of t[2], t[0] and t[1] in the foot, up to a factor, negative beyond an edge.
    u, v, r = minus(t[1], t[0]), minus(t[2], t[0]), minus(q, t[0])
    x, y, z = dot(cross(u, r), n), 0.0, 0.0
    if x >= 0.0:
        y = dot(cross(minus(t[2], t[1]), minus(q, t[1])), n)
        if y >= 0.0:
            z = dot(cross(r, v), n)
            total = x + y + z
            if z >= 0.0 and total > TINY:
                return True, moved_along(moved_along(t[0], u, z / total), v, x / total)
    return False, q


@kernel
def nearest_features(a, b):
    """Return (square, x, y, g): nearest points x of triangle a and y of b, and their distance**2.

    All is rounded. Edges are measured from edges, and corners from faces: a point where an edge
    pierces a face is not found. g is a direction from y to x, more accurate than x - y where it is
    the normal of a face or of two edges.
    """
    stay_outlined()
    best, x, y = INF, a[0], b[0]
    g = minus(x, y)
    for i in range(3):
        p, u = a[i], minus(a[(i + 1) % 3], a[i])
        for j in range(3):
            r, v = b[j], minus(b[(j + 1) % 3], b[j])
            s, t = _nearest_of_segments(minus(p, r), u, v)
            xs, yt = moved_along(p, u, s), moved_along(r, v, t)
            d = minus(xs, yt)
            square = dot(d, d)
            if square < best:
                best, x, y, g = square, xs, yt, d
                if 0.0 < s < 1.0 and 0.0 < t < 1.0:
                    n = cross(u, v)
                    if floats.largest(n) > 0.0:
                        g = n if dot(n, d) >= 0.0 else negated(n)
    for side in range(2):
        face, other = (a, b) if side == 0 else (b, a)
        n = cross(minus(face[1], face[0]), minus(face[2], face[0]))
        for j in range(3):
            q = other[j]
            inside, foot = _foot(face, n, q)
            if inside:
                d = minus(q, foot) if side == 1 else minus(foot, q)
                square = dot(d, d)
                if square < best:
                    # From y to x, as d.
                    best, g = square, n if dot(n, d) >= 0.0 else negated(n)
                    x, y = (foot, q) if side == 0 else (q, foot)
    return best, x, y, g


# The least dot product of g with a corner of a triangle.
_least = inlined(lambda g, t: min(dot(g, t[0]), min(dot(g, t[1]), dot(g, t[2]))))


@inlined
def distance_bounds(a, b):
    """Return (low, high, g, x, y): bounds of the distance of two triangles, and nearest points.

    The lower bound is the gap along g, a direction from b to a. The points x of a and y of b are
    rounded and relative to b[0]. Out of the filter's range, bounds are (0, inf), and g is 0.
    """
    # The distance of any two points, x of a and y of b, is an upper bound; the gap between the
    # projections on any direction g is a lower one. With u = 2**-53 and `size` the largest
    # difference of vertices, a product with g / |g| is off by less than 20 u size, a point by 10 u
    # size: 2**-45 size covers both.
    o = b[0]
    p = minus(a[0], o), minus(a[1], o), minus(a[2], o)
    q = minus(o, o), minus(b[1], o), minus(b[2], o)
    size = max(floats.reach_of(*p), floats.reach_of(*q))
    if not 1.0 / FILTER_REACH < size < FILTER_REACH:
        return 0.0, INF, (0.0, 0.0, 0.0), p[0], q[0]
    square, x, y, g = nearest_features(p, q)
    error = FILTER_ERROR * size
    gg, low = dot(g, g), 0.0
    if gg > TINY:
        low = (_least(g, p) + _least(negated(g), q)) / sqrt(gg) - error
    return low, sqrt(square) + error, g, x, y


@inlined
def _doubtful(n, sizes):
    """Return (flat, unsure): whether a cross product counts as 0, and whether that may be wrong.

    n is a vector of double-doubles; `sizes` are the sums of its components' absolute terms.
    """
    length, size = floats.largest(floats.high(n)), floats.largest(sizes)
    return length <= PARALLEL * size, SURELY_PARALLEL * size < length <= PARALLEL * size


@kernel
def _between_edges(p, q, r, s, k):
    """Return (inside, unsure, distance, x, y) of the lines of edges p, q and r, s.

    If `inside`, the lines' nearest points are within both edges, at their shares x and y, and
    `distance` is that of the lines times 2**k, which brings lengths to about 1; else it is inf. If
    `unsure`, the edges count as parallel but may not be.
    """
    stay_outlined()
    u, v = floats.difference(q, p, k), floats.difference(s, r, k)
    n, sizes = floats.dd_cross(u, v), floats.cross_size(floats.high(u), floats.high(v))
    flat, unsure = _doubtful(n, sizes)
    if flat:
        return False, unsure, INF, 0.0, 0.0
    w = floats.difference(r, p, k)
    # x0 and x1 are x and x - 1, y0 and y1 are y and y - 1, all times a positive factor.
    across, other = floats.dd_cross(w, v), floats.dd_cross(w, u)
    x0 = floats.dd_dot(across, n)[0]
    x1 = floats.dd_dot(floats.dd_cross(floats.difference(r, q, k), v), n)[0]
    y0 = floats.dd_dot(other, n)[0]
    y1 = floats.dd_dot(floats.dd_cross(floats.difference(s, p, k), u), n)[0]
    if not (x0 > 0.0 and x1 < 0.0 and y0 > 0.0 and y1 < 0.0):
        return False, False, INF, 0.0, 0.0
    # The real volume is `volume` * 2**e, the normal n * 2**f; exact sums replace inaccurate ones.
    volume, e, f = floats.dd_dot(n, w), -3 * k, -2 * k
    if abs(volume[0]) < KEPT * floats.dot_size(sizes, floats.high(w)):
        volume, e = feature_distances.exact_volume_of(s, p, q, r)
    if floats.largest(floats.high(n)) < KEPT * floats.largest(sizes):
        n, f = feature_distances.exact_cross(p, q, r, s)
    d, e = feature_distances.height_over_base(volume, e, n, f)
    return True, False, floats.scale_by(d, e + k), x0 / (x0 - x1), y0 / (y0 - y1)


@inlined
def _surely_off_segments(w, u, v):
    """Return whether a nearest point of the lines of two segments is surely off its segment.

    u and v are the segments' vectors; w leads from the start of v to the start of u.
    """
    # The shares are s / den and t / den, computed with fewer than 16 roundings on any path.
    a, b, c, e, f, den = _dot_products(w, u, v)
    s, t = b * f - c * e, a * f - b * c
    far = sqrt(dot(w, w)) + sqrt(a) + sqrt(e)
    wide_s, wide_t = SIGN_ERROR * sqrt(a) * e * far, SIGN_ERROR * a * sqrt(e) * far
    return s < -wide_s or s - den > wide_s or t < -wide_t or t - den > wide_t


@inlined
def point_on(p, q, t):
    """Return the point p + t (q - p) of a segment, t clamped to 0..1."""
    if t <= 0.0:
        return p
    return q if t >= 1.0 else moved_along(p, minus(q, p), t)


@inlined
def _square_to_edge(w, v):
    """Return the rounded squared distance of a point from a segment.

    w leads from the segment's start to the point, v from its start to its end.
    """
    d = moved_along(w, v, -along(dot(v, w), dot(v, v)))
    return dot(d, d)


# The nearer of two results (distance, point, point).
_better = inlined(lambda nearest, d, x, y: (d, x, y) if d < nearest[0] else nearest)


@kernel
def _measure_edges(p, q, r, s, k, limit, nearest):
    """Measure an edge p, q from an edge r, s; return (unsure, nearest), updated.

    `nearest` is (distance times 2**k, point of the first triangle, point of the second) of the
    nearest features so far. An end is measured from the other edge only if their rounded squared
    distance times 4**k is at most `limit`. If `unsure`, the edges count as parallel but may not be.
    """
    stay_outlined()
    # The same features give the same double, whatever the order of their ends is.
    if before(q, p):
        p, q = q, p
    if before(s, r):
        r, s = s, r
    f = floats.power_of_two(k)
    u, v, w = scaled(minus(q, p), f), scaled(minus(s, r), f), scaled(minus(p, r), f)
    unsure = False
    if not _surely_off_segments(w, u, v):
        inside, unsure, d, x, y = _between_edges(p, q, r, s, k)
        if inside:
            nearest = _better(nearest, d, point_on(p, q, x), point_on(r, s, y))
    for end in range(2):
        point = p if end == 0 else q
        if _square_to_edge(scaled(minus(point, r), f), v) <= limit:
            d, e, t = feature_distances.to_edge(point, r, s)
            nearest = _better(nearest, floats.scale_by(d, e + k), point, point_on(r, s, t))
        point = r if end == 0 else s
        if _square_to_edge(scaled(minus(point, p), f), u) <= limit:
            d, e, t = feature_distances.to_edge(point, p, q)
            nearest = _better(nearest, floats.scale_by(d, e + k), point_on(p, q, t), point)
    return unsure, nearest


@kernel
def _over_face(point, face, k):
    """Return (inside, unsure, distance times 2**k, foot) of a point over a face.

    If `inside`, the point's projection to the face's plane, the foot, is in the face; else the
    distance is inf, and `foot` the point. If `unsure`, the face counts as flat but may not be.
    """
    stay_outlined()
    a, b, c = face
    n, sizes = feature_distances.face_normal(a, b, c, k)
    flat, unsure = _doubtful(n, sizes)
    if flat:
        return False, unsure, INF, point
    to_a = floats.difference(point, a, k)
    s0, w2 = side_of_edge(n, floats.difference(b, a, k), to_a)
    s1, w0 = side_of_edge(n, floats.difference(c, b, k), floats.difference(point, b, k))
    s2, w1 = side_of_edge(n, floats.difference(a, c, k), floats.difference(point, c, k))
    if not (s0 > 0 and s1 > 0 and s2 > 0):
        return False, False, INF, point
    total = w0 + w1 + w2
    x, y = w1 / total, w2 / total
    foot = moved_along(moved_along(a, minus(b, a), x), minus(c, a), y)
    d, e = feature_distances.to_plane(point, a, b, c, k, n, sizes, to_a)
    return True, False, floats.scale_by(d, e + k), foot


# A triangle times a number.
all_scaled = inlined(lambda t, f: (scaled(t[0], f), scaled(t[1], f), scaled(t[2], f)))


@inlined
def _size_of(a, b):
    """Return the largest coordinate difference of a vertex of triangle a or b from a[0]."""
    o = a[0]
    size = max(floats.largest(minus(a[1], o)), floats.largest(minus(a[2], o)))
    return max(size, floats.reach_of(minus(b[0], o), minus(b[1], o), minus(b[2], o)))


# The edges of a triangle, from each corner to the next one; a number limited to finite doubles.
_edges_of = inlined(lambda t: (minus(t[1], t[0]), minus(t[2], t[1]), minus(t[0], t[2])))
_within_range = inlined(lambda x: min(max(x, -LARGEST), LARGEST))


@inlined
def put_back(p, k):
    """Return a point times 2**k, its coordinates limited to finite doubles."""
    p = scaled(p, floats.power_of_two(k))
    return _within_range(p[0]), _within_range(p[1]), _within_range(p[2])


@kernel
def triangle_distance(a, b):
    """Return (sure, low, high, x, y) of two triangles that do not touch.

    If `sure`, both bounds are the distance, within 2 units in the last place of the exact one;
    otherwise the exact one is between them. x and y are nearest points of a and b, rounded.
    """
    stay_outlined()
    # Lengths are divided by 2**post, lest they overflow; 2**k then brings them to about 1.
    size, post = _size_of(a, b), np.int64(0)
    if not size < GREAT:
        a, b, post = all_scaled(a, 2.0**-30), all_scaled(b, 2.0**-30), np.int64(30)
        size = _size_of(a, b)
    unlike = is_unlike(_edges_of(a), _edges_of(b), size)
    k = min(-floats.exponent(size), 1022)
    f, o = floats.power_of_two(k), b[0]
    p = all_scaled((minus(a[0], o), minus(a[1], o), minus(a[2], o)), f)
    q = all_scaled((minus(o, o), minus(b[1], o), minus(b[2], o)), f)
    # Features are measured exactly only if their rounded squared distance is at most `limit`, a
    # little more than the least one.
    square, _, _, _ = nearest_features(p, q)
    limit = sqrt(square) + FILTER_ERROR
    limit *= limit * (1.0 + FILTER_ERROR)
    nearest, doubt = (INF, a[0], b[0]), False
    for i in range(3):
        i1 = (i + 1) % 3
        u = minus(p[i1], p[i])
        for j in range(3):
            j1 = (j + 1) % 3
            v, w = minus(q[j1], q[j]), minus(p[i], q[j])
            s, t = _nearest_of_segments(w, u, v)
            d = minus(moved_along(w, u, s), scaled(v, t))
            # Between edges that are almost parallel, squares are off by less than FILTER_ERROR.
            if dot(d, d) <= limit + FILTER_ERROR:
                unsure, nearest = _measure_edges(a[i], a[i1], b[j], b[j1], k, limit, nearest)
                doubt = doubt or unsure
    for side in range(2):
        face, points = (a, b) if side == 0 else (b, a)
        u, v = scaled(minus(face[1], face[0]), f), scaled(minus(face[2], face[0]), f)
        n, sizes = cross(u, v), floats.cross_size(u, v)
        nn, accurate = dot(n, n), floats.largest(n) > ACCURATE * floats.largest(sizes)
        for j in range(3):
            r = scaled(minus(points[j], face[0]), f)
            # A lower bound of the height over the face, times |n|.
            h = abs(dot(n, r)) - SIDE_ERROR * floats.dot_size(sizes, r)
            if not (accurate and h > 0.0 and h * h > nn * limit * (1.0 + ACCURATE)):
                point = points[j]
                inside, unsure, d, foot = _over_face(point, face, k)
                doubt = doubt or unsure
                if inside and side == 0:
                    nearest = _better(nearest, d, foot, point)
                elif inside:
                    nearest = _better(nearest, d, point, foot)
    d, x, y = nearest
    sure, low, high = True, d, d
    if unlike:
        # Products may have underflowed. `limit` is above the square of the distance.
        sure, low, high = False, 0.0, sqrt(limit)
    elif d < NEAREST or (d < NEAREST_FLAT and doubt):
        # Wrong decisions change d by far less than these margins.
        sure = False
        low, high = d * (1.0 - 2.0**-20) - 2.0**-60, d * (1.0 + 2.0**-20) + 2.0**-60
    low = feature_distances.as_double(low, post - k)
    high = feature_distances.as_double(high, post - k)
    return sure, low, high, put_back(x, post), put_back(y, post)
