"""Overlap tests of triangles, boxes and capsules with balls, boxes and convex polytopes.

A certificate is computed approximately and checked with an error bound: a common point of both
sets if they overlap, a separating plane if not. Where neither is found, which takes contact to
within some 2**-45, the result is UNSURE, and `rational` decides.

The surface around an axis meets a region, which is connected, if some point of this is within the
radius of the axis, and another is not nearer.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import (
    INF,
    dot_size,
    largest,
    lose_nan_max,
    lose_nan_min,
    row_of,
    vector,
)
from bvh.geometry.arithmetic.vectors import cross, dot, minus, scaled
from bvh.geometry.point_triangle import nearest_weights
from bvh.geometry.round_distances import nearest_on_surface, signed_distance
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import poke, sqrt

APART, MEET, UNSURE = 0, 1, -1

# Any result below has at most a dozen roundings of 2**-53, and its sizes as many.
ERROR = 32.0 * 2.0**-53
# More than the errors of products that underflow.
TINY = 2.0**-1060


@kernel
def triangle_and_sphere(v0, v1, v2, center, radius):
    """Return whether a triangle is within `radius` of a point: APART, MEET or UNSURE."""
    # Differences from the centre have a relative error of 2**-53, so that of both certificates is
    # ERROR times the sum of the absolute terms, also far from the coordinates' origin.
    a, b, c = minus(v0, center), minus(v1, center), minus(v2, center)
    v, w, _ = nearest_weights(a, b, c)
    u = max((1.0 - v) - w, 0.0)
    # The nearest point, and a bound of its error.
    x = (
        u * a[0] + v * b[0] + w * c[0],
        u * a[1] + v * b[1] + w * c[1],
        u * a[2] + v * b[2] + w * c[2],
    )
    y = (
        abs(x[0]) + ERROR * (u * abs(a[0]) + v * abs(b[0]) + w * abs(c[0])),
        abs(x[1]) + ERROR * (u * abs(a[1]) + v * abs(b[1]) + w * abs(c[1])),
        abs(x[2]) + ERROR * (u * abs(a[2]) + v * abs(b[2]) + w * abs(c[2])),
    )
    reach = radius * (u + v + w)
    if dot(y, y) * (1.0 + ERROR) + TINY <= (reach * reach) * (1.0 - ERROR) < INF:
        return MEET
    # The plane through the sphere's nearest point, towards x: are all corners beyond it?
    far = min(
        dot(x, a) - ERROR * dot_size(x, a),
        min(dot(x, b) - ERROR * dot_size(x, b), dot(x, c) - ERROR * dot_size(x, c)),
    )
    length = sqrt(dot(x, x) + TINY) * (1.0 + ERROR)
    if far - TINY > (radius * length) * (1.0 + ERROR) + TINY:
        return APART
    return UNSURE


@kernel
def box_and_sphere(low, high, center, radius):
    """Return whether a box is within `radius` of a point: APART, MEET or UNSURE."""
    total = 0.0
    for i in range(3):
        x = max(low[i] - center[i], max(center[i] - high[i], 0.0))
        total += x * x
    if total == 0.0 and _inside(low, high, center):
        return MEET
    square = radius * radius
    if total * (1.0 + ERROR) + TINY <= square * (1.0 - ERROR) < INF:
        return MEET
    if INF > total * (1.0 - ERROR) - TINY > square * (1.0 + ERROR):
        return APART
    return UNSURE


@inlined
def _inside(low, high, p):
    return low[0] <= p[0] <= high[0] and low[1] <= p[1] <= high[1] and low[2] <= p[2] <= high[2]


@inlined
def _height(planes, i, p):
    """Return n . p + offset for plane i, and a bound of its error."""
    n0, n1, n2, w = row_of(planes, 4 * i)
    x, y, z = n0 * p[0], n1 * p[1], n2 * p[2]
    return (x + y + z) + w, ERROR * (abs(x) + abs(y) + abs(z) + abs(w)) + TINY


@inlined
def _heights(planes, i, v0, v1, v2):
    """Return (heights, errors) of the corners of a triangle."""
    (f0, e0), (f1, e1) = _height(planes, i, v0), _height(planes, i, v1)
    f2, e2 = _height(planes, i, v2)
    return (f0, f1, f2), (e0, e1, e2)


@kernel
def triangle_and_planes(v0, v1, v2, planes, first, last, scratch):
    """Return APART, MEET or UNSURE for a triangle and the polytope of planes first..last-1."""
    # `scratch` has 2 * polygon_capacity(last - first) numbers.
    inside0, inside1, inside2 = True, True, True
    for i in range(first, last):
        (f0, f1, f2), (e0, e1, e2) = _heights(planes, i, v0, v1, v2)
        if f0 < -e0 and f1 < -e1 and f2 < -e2:
            return APART
        inside0 &= f0 >= e0
        inside1 &= f1 >= e1
        inside2 &= f2 >= e2
    if inside0 or inside1 or inside2:
        return MEET
    return _clipped(v0, v1, v2, planes, first, last, scratch)


# The most numbers that describe a triangle clipped by `planes` planes: three weights per corner.
polygon_capacity = inlined(lambda planes: 3 * (2 * planes + 16))


@inlined
def _set_row(array, i, x, y, z):
    poke(array, 3 * i, x)
    poke(array, 3 * i + 1, y)
    poke(array, 3 * i + 2, z)


@kernel
def _clipped(v0, v1, v2, planes, first, last, scratch):
    """Return the same as `triangle_and_planes`, by clipping the triangle.

    Points are weights of its corners, in two halves of `scratch`; planes are moved outward.
    """
    # Each step moves a corner of the polygon by an error of 8 * 2**-53, in weights, which changes a
    # plane's height by that times the heights at the corners. After k planes, moving the
    # next one outward by (k + 4) * 2**-48 of their sum keeps all that is inside within the
    # polygon: if it is empty, they are apart. If its middle is surely inside, they overlap.
    stay_outlined()
    capacity = polygon_capacity(last - first) // 3
    count, old, new = np.int64(3), np.int64(0), np.int64(capacity)
    _set_row(scratch, 0, 1.0, 0.0, 0.0)
    _set_row(scratch, 1, 0.0, 1.0, 0.0)
    _set_row(scratch, 2, 0.0, 0.0, 1.0)
    for i in range(first, last):
        # Rounding can make a polygon not quite convex, and a line then cut it more than twice.
        if 2 * count > capacity:
            return UNSURE
        (f0, f1, f2), (e0, e1, e2) = _heights(planes, i, v0, v1, v2)
        size = abs(f0) + abs(f1) + abs(f2)
        outward = max(e0, max(e1, e2)) + size * ((i - first) + 4) * 2.0**-48
        if not outward < INF:
            return UNSURE
        made = new
        p0, p1, p2 = vector(scratch, old + count - 1)
        f = (p0 * f0 + p1 * f1 + p2 * f2) + outward
        for j in range(count):
            q0, q1, q2 = vector(scratch, old + j)
            g = (q0 * f0 + q1 * f1 + q2 * f2) + outward
            if (f < 0.0) != (g < 0.0):
                t = f / (f - g)
                _set_row(scratch, made, p0 + t * (q0 - p0), p1 + t * (q1 - p1), p2 + t * (q2 - p2))
                made += 1
            if g >= 0.0:
                _set_row(scratch, made, q0, q1, q2)
                made += 1
            p0, p1, p2, f = q0, q1, q2, g
        count = made - new
        old, new = new, old
        if count == 0:
            return APART
    w0, w1, w2 = 0.0, 0.0, 0.0
    for j in range(count):
        q0, q1, q2 = vector(scratch, old + j)
        w0 += max(q0, 0.0)
        w1 += max(q1, 0.0)
        w2 += max(q2, 0.0)
    for i in range(first, last):
        (f0, f1, f2), (e0, e1, e2) = _heights(planes, i, v0, v1, v2)
        height = w0 * f0 + w1 * f1 + w2 * f2
        error = w0 * (e0 + ERROR * abs(f0)) + w1 * (e1 + ERROR * abs(f1))
        error += w2 * (e2 + ERROR * abs(f2))
        if not height >= 2.0 * error + TINY:
            return UNSURE
    return MEET


@kernel
def surface_and_sphere(p, q, radius, center, reach):
    """Return whether the surface around an axis is within `reach` of a point, or UNSURE."""
    # Distances have a relative error of 4 * 2**-53, but for the smallest.
    stay_outlined()
    d = abs(signed_distance(center, p, q, radius))
    if d == 0.0 or (d > 2.0**-1000 and d * (1.0 + ERROR) <= reach):
        return MEET
    return APART if d > 2.0**-1000 and d * (1.0 - ERROR) > reach else UNSURE


@kernel
def surface_and_box(p, q, radius, low, high):
    """Return whether the surface around an axis meets a box: APART, MEET or UNSURE."""
    stay_outlined()
    inside = True
    for k in range(8):
        x, y, z = high if k & 1 else low, high if k & 2 else low, high if k & 4 else low
        inside = inside and signed_distance((x[0], y[1], z[2]), p, q, radius) < 0.0
    if inside:
        return APART
    # Where the derivative of the squared distance along the axis changes its sign.
    v, first, last = minus(q, p), 0.0, 1.0
    for _ in range(64 if p != q else 0):
        t = 0.5 * (first + last)
        x = p[0] + t * v[0], p[1] + t * v[1], p[2] + t * v[2]
        away = minus(x, _nearest(low, high, x))
        if dot(away, v) > 0.0:
            last = t
        else:
            first = t
    # The ends themselves, not points next to them.
    t = 0.0 if first == 0.0 else (1.0 if last == 1.0 else first)
    x = q if t == 1.0 else (p[0] + t * v[0], p[1] + t * v[1], p[2] + t * v[2])
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
    """Return the point of a box that is nearest to x."""
    # One of the box's even if x is NaN.
    return (
        lose_nan_min(high[0], lose_nan_max(low[0], x[0])),
        lose_nan_min(high[1], lose_nan_max(low[1], x[1])),
        lose_nan_min(high[2], lose_nan_max(low[2], x[2])),
    )


@kernel
def _unit(planes, i):
    """Return a plane's unit normal and the normal's length; zeros if that is tiny or huge."""
    n0, n1, n2, _ = row_of(planes, 4 * i)
    size = largest((n0, n1, n2))
    if not 2.0**-900 < size < 2.0**900:
        return (0.0, 0.0, 0.0), 0.0
    n = n0 / size, n1 / size, n2 / size
    length = sqrt(dot(n, n))
    return scaled(n, 1.0 / length), size * length


@kernel
def _surely_holds(planes, first, last, x):
    """Return whether a point is surely in a polytope."""
    for k in range(first, last):
        f, e = _height(planes, k, x)
        if not e <= f < INF:
            return False
    return True


@kernel
def surface_and_planes(p, q, radius, planes, first, last):
    """Return APART, MEET or UNSURE for the surface around an axis and the polytope of planes."""
    stay_outlined()
    p_inside, q_inside = True, True
    for i in range(first, last):
        (f, e), (g, h), size = _height(planes, i, p), _height(planes, i, q), _unit(planes, i)[1]
        reach = radius * size
        error = max(e, h) + ERROR * reach
        if size == 0.0:
            # A plane without a normal excludes nothing, or else `to_local` would have said so.
            n0, n1, n2, _ = row_of(planes, 4 * i)
            if largest((n0, n1, n2)) == 0.0:
                continue
            return UNSURE
        if max(f, g) + reach < -error:
            return APART
        p_inside &= f - reach >= error
        q_inside &= g - reach >= error
    if p_inside or q_inside or _surely_meet(p, q, radius, planes, first, last):
        return MEET
    for i in range(first, last):
        for j in range(first, i + 1):
            answer = _by_two(p, q, radius, planes, (first, last), i, j)
            if answer != UNSURE:
                return answer
    return UNSURE


@kernel
def _surely_meet(p, q, radius, planes, first, last):
    """Return whether a polytope surely has points on both sides of the surface around an axis."""
    # A point in both, by alternating projections, each to a little inside.
    less = radius * (1.0 - 2.0**-16)
    x = 0.5 * p[0] + 0.5 * q[0], 0.5 * p[1] + 0.5 * q[1], 0.5 * p[2] + 0.5 * q[2]
    for _ in range(32):
        worst, step = 0.0, (0.0, 0.0, 0.0)
        for i in range(first, last):
            n, size = _unit(planes, i)
            depth = _height(planes, i, x)[0] / size - (radius - less) if size > 0.0 else 0.0
            if depth < worst:
                worst, step = depth, scaled(n, -depth * (1.0 + 2.0**-10))
        if not -INF < worst < 0.0:
            break
        x = x[0] + step[0], x[1] + step[1], x[2] + step[2]
        if signed_distance(x, p, q, less) > 0.0:
            x = nearest_on_surface(x, p, q, less)
    if not _surely_holds(planes, first, last, x) or signed_distance(x, p, q, radius) > 0.0:
        return False
    # One outside, along the planes' normals, and the lines in which two meet.
    far = 2.0 * radius + largest(minus(q, p))
    for i in range(first, last):
        for j in range(first, last):
            m, n = _unit(planes, i)[0], _unit(planes, j)[0]
            w = m if i == j else cross(m, n)
            for k in range(3):
                t = far * (1.0 if k == 0 else (0.5 if k == 1 else 0.25))
                y = x[0] + t * w[0], x[1] + t * w[1], x[2] + t * w[2]
                if _surely_holds(planes, first, last, y) and (
                    signed_distance(y, p, q, radius) >= 0.0
                ):
                    return True
    return False


@kernel
def _by_two(p, q, radius, planes, span, i, j):
    """Return the answer for a surface and a polytope if planes i and j decide it, else UNSURE."""
    # Points on either side of the surface, deepest inside both planes.
    (m, a), (n, b) = _unit(planes, i), _unit(planes, j)
    u = m[0] + n[0], m[1] + n[1], m[2] + n[2]
    length = sqrt(dot(u, u))
    if length > 2.0**-10 and radius > 0.0:
        end = p if dot(u, minus(p, q)) >= 0.0 else q
        inside, outside = True, True
        for side in range(2):
            far = (radius / length) * (1.0 + (2.0**-30 if side == 0 else -(2.0**-30)))
            x = end[0] + far * u[0], end[1] + far * u[1], end[2] + far * u[2]
            if not _surely_holds(planes, span[0], span[1], x):
                inside = False
                break
            d = signed_distance(x, p, q, radius)
            outside &= d >= 0.0 if side == 0 else d <= 0.0
        if inside and outside:
            return MEET
    # A plane between the edge of both and the axis, by a sum with positive factors.
    (f, e), (f2, e2) = _height(planes, i, p), _height(planes, i, q)
    (g, h), (g2, h2) = _height(planes, j, p), _height(planes, j, q)
    c, square = dot(m, n), 1.0 - dot(m, n) * dot(m, n)
    if i == j or not square > 2.0**-20 or a == 0.0 or b == 0.0:
        return UNSURE
    for end in range(2):
        x, y = (f2 if end else f) / a, (g2 if end else g) / b
        r, s = (c * y - x) / square, (c * x - y) / square
        if r > 0.0 and s > 0.0:
            w = r * m[0] + s * n[0], r * m[1] + s * n[1], r * m[2] + s * n[2]
            reach = radius * (sqrt(dot(w, w)) + ERROR * (r + s))
            r, s = r / a, s / b
            top = max(r * f + s * g, r * f2 + s * g2)
            sizes = r * max(abs(f), abs(f2)) + s * max(abs(g), abs(g2))
            error = r * max(e, e2) + s * max(h, h2) + ERROR * sizes
            if top + reach + TINY < -(error + ERROR * reach):
                return APART
    return UNSURE
