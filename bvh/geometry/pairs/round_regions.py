"""Overlap tests of the surfaces of spheres and capsules with balls, boxes and convex polytopes.

The shape is given by its axis, from p to q, and its radius. Its surface meets a region, which is
connected, if some point of the region is within the radius of the axis, and another is not nearer.
Certificates, results and polytopes are as in `region_overlap`: such points, or a separating plane,
a sum of planes of the region with positive factors. A polytope within a shape has no certificate
here, and is UNSURE.
"""

from bvh.geometry import point_triangle
from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.floats import INF, dot_size, largest, row_of
from bvh.geometry.arithmetic.vectors import combined, cross, dot, minus, moved_along, plus, scaled
from bvh.geometry.region_overlap import APART, ERROR, MEET, TINY, UNSURE, plane_height
from bvh.geometry.round_distances import signed_distance
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import sqrt

# The most turns on the way to a point of a polytope that is outside of a solid; and the most planes
# that are taken three by three.
MOST_TURNS, MOST_PLANES = 8, 12


@kernel
def surface_and_sphere(p, q, radius, center, reach):
    """Return APART, MEET or UNSURE for a surface and the ball of a centre and radius `reach`.

    The surface has the distance `radius` from the axis p, q.
    """
    # Distances have a relative error of 4 * 2**-53, but for the smallest.
    stay_outlined()
    d = abs(signed_distance(center, p, q, radius))
    if d == 0.0 or (d > 2.0**-1000 and d * (1.0 + ERROR) <= reach):
        return MEET
    return APART if d > 2.0**-1000 and d * (1.0 - ERROR) > reach else UNSURE


@kernel
def surface_and_box(p, q, radius, low, high):
    """Return APART, MEET or UNSURE for the surface `radius` off an axis p, q and a solid box."""
    stay_outlined()
    # A box is inside the shape, which is convex, if its corners are: apart from its surface.
    inside = True
    for cx in (low[0], high[0]):
        for cy in (low[1], high[1]):
            for cz in (low[2], high[2]):
                inside = inside and signed_distance((cx, cy, cz), p, q, radius) < 0.0
    if inside:
        return APART
    # The axis's point nearest to the box, by bisection: the derivative of its squared distance from
    # the box changes its sign there.
    v, first, last = minus(q, p), 0.0, 1.0
    for _ in range(64 if p != q else 0):
        t = 0.5 * (first + last)
        x = moved_along(p, v, t)
        away = minus(x, _nearest(low, high, x))
        if dot(away, v) > 0.0:
            last = t
        else:
            first = t
    # The ends themselves, not points next to them.
    t = 0.0 if first == 0.0 else (1.0 if last == 1.0 else first)
    x = q if t == 1.0 else moved_along(p, v, t)
    y = _nearest(low, high, x)
    if signed_distance(y, p, q, radius) <= 0.0:
        return MEET
    # The box is behind the plane through its point y; is the axis beyond it by the radius?
    u, a, b = minus(x, y), minus(p, y), minus(q, y)
    far = min(dot(u, a) - ERROR * dot_size(u, a), dot(u, b) - ERROR * dot_size(u, b))
    length = sqrt(dot(u, u) + TINY) * (1.0 + ERROR)
    return APART if far - TINY > (radius * length) * (1.0 + ERROR) + TINY else UNSURE


@inlined
def _nearest(low, high, x):
    """Return the point of a box that is nearest to x; a point of the box even if x is NaN."""
    return (
        floats.lose_nan_min(high[0], floats.lose_nan_max(low[0], x[0])),
        floats.lose_nan_min(high[1], floats.lose_nan_max(low[1], x[1])),
        floats.lose_nan_min(high[2], floats.lose_nan_max(low[2], x[2])),
    )


@kernel
def _unit(planes, i):
    """Return (unit normal, length) of the normal of plane i; zeros if it is tiny or huge."""
    n0, n1, n2, _ = row_of(planes, 4 * i)
    size = largest((n0, n1, n2))
    if not 2.0**-900 < size < 2.0**900:
        return (0.0, 0.0, 0.0), 0.0
    n = n0 / size, n1 / size, n2 / size
    length = sqrt(dot(n, n))
    return scaled(n, 1.0 / length), size * length


@kernel
def _local_plane(planes, i, p, inward):
    """Return (unit normal, height of p over it) of plane i moved inward by the length `inward`.

    Both are 0 if the plane's normal is tiny or huge.
    """
    n, size = _unit(planes, i)
    return n, (plane_height(planes, i, p)[0] / size - inward if size > 0.0 else 0.0)


@kernel
def _surely_contains(planes, span, x):
    """Return whether the point x is surely in the polytope of planes span[0]..span[1]-1."""
    for k in range(span[0], span[1]):
        f, e = plane_height(planes, k, x)
        if not e <= f < INF:
            return False
    return True


@kernel
def surface_and_planes(p, q, radius, planes, first, last):
    """Return APART, MEET or UNSURE for the surface `radius` off an axis p, q and a polytope.

    The polytope has the planes first..last-1.
    """
    stay_outlined()
    # Whether the balls around the ends of the axis are in the polytope: the surface then meets it.
    # f and g are heights of p and q over a plane, e and h bounds of their errors.
    p_inside, q_inside = True, True
    for i in range(first, last):
        (f, e), (g, h) = plane_height(planes, i, p), plane_height(planes, i, q)
        _, size = _unit(planes, i)
        reach = radius * size
        error = max(e, h) + ERROR * reach
        if size == 0.0:
            # Callers have checked that a plane without a normal excludes nothing.
            n0, n1, n2, _ = row_of(planes, 4 * i)
            if largest((n0, n1, n2)) == 0.0:
                continue
            return UNSURE
        if max(f, g) + reach < -error:
            return APART
        p_inside &= f - reach >= error
        q_inside &= g - reach >= error
    return MEET if p_inside or q_inside else _by_features(p, q, radius, planes, (first, last))


@kernel
def _by_features(p, q, radius, planes, span):
    """Return MEET or APART if the polytope's nearest point to the axis decides it, else UNSURE.

    Arguments are as in `surface_and_planes`, with `span` for (first, last).
    """
    # The nearest point is on the axis, on a plane next to an end of the axis, on the line of two
    # planes, or a corner of three. All such points x of planes a little further inside are tried:
    # one of them may be in the polytope and in the shape; or the shortest vector w from the axis to
    # it may be a sum of the planes' normals, and the same sum of the planes separate both.
    # In the loops, points are relative to p; m, n, o are unit normals, f, g, h heights of p.
    stay_outlined()
    v, few = minus(q, p), span[1] - span[0] <= MOST_PLANES
    inward = 2.0**-32 * (radius + largest(v))
    start, end = 0.0, 1.0
    for i in range(span[0], span[1]):
        f, g = plane_height(planes, i, p)[0], plane_height(planes, i, q)[0]
        if f < 0.0 < g:
            start = max(start, f / (f - g))
        elif g < 0.0 < f:
            end = min(end, f / (f - g))
    solid = p, q, radius
    x = scaled(v, 0.5 * start + 0.5 * end)
    if _is_common(solid, planes, span, x):
        return _by_outer_points(solid, planes, span, x)
    for i in range(span[0], span[1]):
        m, f = _local_plane(planes, i, p, inward)
        for x in (scaled(m, -f), moved_along(v, m, -f - dot(m, v))):
            if _is_common(solid, planes, span, x):
                return _by_outer_points(solid, planes, span, x)
        for j in range(span[0], i):
            n, g = _local_plane(planes, j, p, inward)
            u, c = cross(m, n), dot(m, n)
            square = dot(u, u)
            if square < 2.0**-30:
                continue
            # The point of the line x + t u that is nearest to the axis.
            x = moved_along(scaled(m, (c * g - f) / square), n, (c * f - g) / square)
            y = moved_along(v, u, -dot(v, u) / square)
            t = point_triangle.along(dot(x, y), dot(y, y))
            w = moved_along(x, y, -t)
            x = moved_along(w, v, t)
            if _is_common(solid, planes, span, x):
                return _by_outer_points(solid, planes, span, x)
            r, s = (dot(w, m) - c * dot(w, n)) / square, (dot(w, n) - c * dot(w, m)) / square
            if _separates(solid, planes, (i, j, j), (r, s, 0.0)):
                return APART
            for k in range(span[0], j if few else span[0]):
                o, h = _local_plane(planes, k, p, inward)
                det = dot(u, o)
                if abs(det) < 2.0**-20:
                    continue
                x = combined(-f / det, cross(n, o), -g / det, cross(o, m), -h / det, u)
                if _is_common(solid, planes, span, x):
                    return _by_outer_points(solid, planes, span, x)
                w = moved_along(x, v, -point_triangle.along(dot(x, v), dot(v, v)))
                factors = dot(w, cross(n, o)) / det, dot(w, cross(o, m)) / det, dot(w, u) / det
                if _separates(solid, planes, (i, j, k), factors):
                    return APART
    return UNSURE


@kernel
def _is_common(solid, planes, span, x):
    """Return whether x, relative to p, is surely in a polytope and in a solid (p, q, radius)."""
    p, q, radius = solid
    x = plus(p, x)
    return _surely_contains(planes, span, x) and signed_distance(x, p, q, radius) <= 0.0


@kernel
def _by_outer_points(solid, planes, span, x):
    """Return MEET if a point of the polytope is found outside of the solid, else UNSURE.

    The solid is (p, q, radius). The search begins at a point x, relative to p, that both have in
    common.
    """
    # Go as far as the polytope allows along normals of planes and along lines in which two of them
    # meet; from the farthest point so found, once more.
    p, q, radius = solid
    x, far = plus(p, x), 4.0 * (radius + largest(minus(q, p)))
    few = span[1] - span[0] <= MOST_PLANES
    for _ in range(MOST_TURNS):
        best, most = x, -INF
        for i in range(span[0], span[1]):
            for j in range(span[0] if few else i, span[1] if few else i + 1):
                m, n = _local_plane(planes, i, x, 0.0)[0], _local_plane(planes, j, x, 0.0)[0]
                w, t = m if i == j else cross(m, n), far
                for k in range(span[0], span[1]):
                    o, h = _local_plane(planes, k, x, 0.0)
                    t = min(t, h / -dot(o, w)) if dot(o, w) < 0.0 else t
                y = moved_along(x, w, t * (1.0 - 2.0**-20))
                if _surely_contains(planes, span, y):
                    d = signed_distance(y, p, q, radius)
                    if d >= 0.0:
                        return MEET
                    best, most = (y, d) if d > most else (best, most)
        x = best
    return UNSURE


@kernel
def _separates(solid, planes, chosen, factors):
    """Return whether a sum of three planes separates a sphere or capsule from their polytope.

    `solid` is (p, q, radius). `chosen` are the planes' indices, which may repeat; `factors`
    multiply the planes with unit normals: if one is negative or NaN, the result is False.
    """
    # The polytope is where the sum is >= 0, and the shape must be where it is negative.
    stay_outlined()
    p, q, radius = solid
    w, weight, top, last, error = (0.0, 0.0, 0.0), 0.0, 0.0, 0.0, TINY
    for k in range(3):
        factor = factors[0] if k == 0 else (factors[1] if k == 1 else factors[2])
        i = chosen[0] if k == 0 else (chosen[1] if k == 1 else chosen[2])
        n, size = _unit(planes, i)
        if not factor >= 0.0 or size == 0.0:
            return False
        w = moved_along(w, n, factor)
        (f, e), (g, h) = plane_height(planes, i, p), plane_height(planes, i, q)
        weight += factor
        factor /= size
        top += factor * f
        last += factor * g
        error += factor * (max(e, h) + ERROR * max(abs(f), abs(g)))
    reach = radius * (sqrt(dot(w, w)) + ERROR * weight)
    return weight > 0.0 and max(top, last) + reach + TINY < -(error + ERROR * reach)
