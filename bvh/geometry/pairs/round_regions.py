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
from bvh.geometry.arithmetic.vectors import cross, dot, minus, moved_along, scaled
from bvh.geometry.region_overlap import APART, ERROR, MEET, TINY, UNSURE, plane_height
from bvh.geometry.round_distances import nearest_on_surface, signed_distance
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import sqrt

# The most sides, of a polytope and of a cube around the shape, that are tested three by three.
MOST_SIDES = 18


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
def _surely_contains(planes, first, last, x):
    """Return whether the point x is surely in the polytope of planes first..last-1."""
    for k in range(first, last):
        f, e = plane_height(planes, k, x)
        if not e <= f < INF:
            return False
    return True


@kernel
def surface_and_planes(p, q, radius, planes, first, last):
    """Return APART, MEET or UNSURE for the surface `radius` off an axis p, q and a polytope.

    The polytope is that of planes first..last-1 of rows (n, offset), n . p + offset >= 0 inside.
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
    if p_inside or q_inside or _surely_meet(p, q, radius, planes, first, last):
        return MEET
    for i in range(first, last):
        for j in range(first, i + 1):
            answer = _by_two_planes(p, q, radius, planes, (first, last), i, j)
            if answer != UNSURE:
                return answer
    return _by_corners(p, q, radius, planes, (first, last))


@kernel
def _surely_meet(p, q, radius, planes, first, last):
    """Return whether a polytope surely has points on both sides of the surface, and so meets it.

    The arguments are those of `surface_and_planes`.
    """
    # A point x of both solids, by alternating projections: to a little inside of the plane that x
    # is farthest beyond, then to the shape of a slightly smaller radius.
    smaller = radius * (1.0 - 2.0**-16)
    x = 0.5 * p[0] + 0.5 * q[0], 0.5 * p[1] + 0.5 * q[1], 0.5 * p[2] + 0.5 * q[2]
    for _ in range(32):
        worst, step = 0.0, (0.0, 0.0, 0.0)
        for i in range(first, last):
            n, size = _unit(planes, i)
            depth = plane_height(planes, i, x)[0] / size - (radius - smaller) if size > 0.0 else 0.0
            if depth < worst:
                worst, step = depth, scaled(n, -depth * (1.0 + 2.0**-10))
        if not -INF < worst < 0.0:
            break
        x = moved_along(x, step, 1.0)
        if signed_distance(x, p, q, smaller) > 0.0:
            x = nearest_on_surface(x, p, q, smaller)
    if not _surely_contains(planes, first, last, x) or signed_distance(x, p, q, radius) > 0.0:
        return False
    # Then a point y of the polytope outside of the shape, from x along normals of the planes and
    # along lines in which two of them meet.
    far = 2.0 * radius + largest(minus(q, p))
    for i in range(first, last):
        for j in range(first, last):
            m, n = _unit(planes, i)[0], _unit(planes, j)[0]
            w = m if i == j else cross(m, n)
            for k in range(3):
                y = moved_along(x, w, far * (1.0 if k == 0 else (0.5 if k == 1 else 0.25)))
                if _surely_contains(planes, first, last, y) and (
                    signed_distance(y, p, q, radius) >= 0.0
                ):
                    return True
    return False


@kernel
def _by_two_planes(p, q, radius, planes, span, i, j):
    """Return MEET or APART for a surface and a polytope if planes i and j decide it, else UNSURE.

    The surface is `radius` off the axis p, q; the polytope's planes are span[0]..span[1]-1.
    """
    # The planes have unit normals m and n, divided by lengths a and b. u is the direction that
    # leads deepest into both, from the end of the axis that is farthest along it. MEET if points a
    # little out of and within the surface are in the polytope.
    (m, a), (n, b) = _unit(planes, i), _unit(planes, j)
    u = m[0] + n[0], m[1] + n[1], m[2] + n[2]
    length = sqrt(dot(u, u))
    if length > 2.0**-10 and radius > 0.0:
        end = p if dot(u, minus(p, q)) >= 0.0 else q
        inside, outside = True, True
        for side in range(2):
            far = (radius / length) * (1.0 + (2.0**-30 if side == 0 else -(2.0**-30)))
            x = moved_along(end, u, far)
            if not _surely_contains(planes, span[0], span[1], x):
                inside = False
                break
            d = signed_distance(x, p, q, radius)
            outside &= d >= 0.0 if side == 0 else d <= 0.0
        if inside and outside:
            return MEET
    # APART if a sum of both planes, through their common edge, separates it from the shape.
    if i == j or a == 0.0 or b == 0.0:
        return UNSURE
    c, square = dot(m, n), 1.0 - dot(m, n) * dot(m, n)
    v = minus(q, p)
    along, other = dot(m, v), dot(n, v)
    if along * other < 0.0:
        # The sum of both planes that is parallel to the axis.
        r, s = abs(other), abs(along)
        if _separates(p, q, radius, planes, (i, j, j), (r, s, 0.0)):
            return APART
    for end in range(2 if square > 2.0**-20 else 0):
        x, y = (
            plane_height(planes, i, q if end else p)[0] / a,
            plane_height(planes, j, q if end else p)[0] / b,
        )
        # The sum whose plane is perpendicular to the shortest segment from that end to the edge.
        r, s = (c * y - x) / square, (c * x - y) / square
        if _separates(p, q, radius, planes, (i, j, j), (r, s, 0.0)):
            return APART
    return UNSURE


@kernel
def _separates(p, q, radius, planes, chosen, factors):
    """Return whether a sum of three planes separates a sphere or capsule from their polytope.

    `chosen` are the planes' indices, which may repeat; `factors` multiply the planes, made to have
    unit normals. The result is False if a factor is negative or NaN.
    """
    # The polytope is where the sum is >= 0, and the shape must be where it is negative.
    stay_outlined()
    w, weight, top, last, error = (0.0, 0.0, 0.0), 0.0, 0.0, 0.0, TINY
    for k in range(3):
        factor = factors[0] if k == 0 else (factors[1] if k == 1 else factors[2])
        i = chosen[0] if k == 0 else (chosen[1] if k == 1 else chosen[2])
        n, size = _unit(planes, i)
        if not factor >= 0.0 or size == 0.0:
            return False
        w = w[0] + factor * n[0], w[1] + factor * n[1], w[2] + factor * n[2]
        (f, e), (g, h) = plane_height(planes, i, p), plane_height(planes, i, q)
        weight += factor
        factor /= size
        top += factor * f
        last += factor * g
        error += factor * (max(e, h) + ERROR * max(abs(f), abs(g)))
    reach = radius * (sqrt(dot(w, w)) + ERROR * weight)
    return weight > 0.0 and max(top, last) + reach + TINY < -(error + ERROR * reach)


@kernel
def _side(planes, span, box, i):
    """Return (unit normal, height of the cube's centre) of side i of a polytope cut by a cube.

    `box` is (centre of the cube, half of its edge), `span` the range (first, last) of the planes.
    Sides are first the planes of the polytope, then the six of the cube; normals point inside.
    """
    center, half = box
    count = span[1] - span[0]
    if i < count:
        n, size = _unit(planes, span[0] + i)
        return n, (plane_height(planes, span[0] + i, center)[0] / size if size > 0.0 else 0.0)
    k, sign = (i - count) // 2, 1.0 if (i - count) % 2 == 0 else -1.0
    return (sign if k == 0 else 0.0, sign if k == 1 else 0.0, sign if k == 2 else 0.0), half


@kernel
def _nearly_contains(planes, span, box, x):
    """Return whether x, relative to the cube's centre, is nearly in the polytope and the cube.

    It may be outside by 2**-32 of half the cube's edge: x is rounded, and verified later.
    """
    for i in range(span[1] - span[0] + 6):
        n, h = _side(planes, span, box, i)
        if not dot(n, x) + h >= -(2.0**-32) * box[1]:
            return False
    return True


@kernel
def _foot_on_axis(x, p, v):
    """Return the point of an axis p, p + v that is nearest to x."""
    return moved_along(p, v, point_triangle.along(dot(minus(x, p), v), dot(v, v)))


@inlined
def _combined(u, r, v, s, w, t):
    """Return the vector u r + v s + w t."""
    return (
        u[0] * r + v[0] * s + w[0] * t,
        u[1] * r + v[1] * s + w[1] * t,
        u[2] * r + v[2] * s + w[2] * t,
    )


@kernel
def _better(planes, span, box, p, v, x, best, least):
    """Return (point, square): the better of x and `best`, and its squared distance from an axis.

    The axis leads from p to p + v; `least` is the squared distance of `best`. x is better if it is
    nearer and nearly in the polytope (see `_nearly_contains`).
    """
    away = minus(x, _foot_on_axis(x, p, v))
    square = dot(away, away)
    if square < least and _nearly_contains(planes, span, box, x):
        return x, square
    return best, least


@kernel
def _by_corners(p, q, radius, planes, span):
    """Return MEET or APART for a surface and a polytope if its corners decide it, else UNSURE.

    The surface is `radius` off the axis p, q; the polytope's planes are span[0]..span[1]-1.
    """
    # The polytope is cut by a cube around the shape. `near` and `far` are its points nearest to the
    # axis and farthest from it, `least` and `most` their squared distances. All points are relative
    # to the cube's centre. All sides, all lines of two and all corners of three are tried. Sides
    # have the unit normals m, n, o and the heights f, g, h of the centre; a and v are the axis's
    # start and vector.
    stay_outlined()
    count = span[1] - span[0] + 6
    center = 0.5 * p[0] + 0.5 * q[0], 0.5 * p[1] + 0.5 * q[1], 0.5 * p[2] + 0.5 * q[2]
    box = center, 4.0 * (radius + largest(minus(q, p)))
    if count > MOST_SIDES or not 2.0**-900 < box[1] < 2.0**900:
        return UNSURE
    a, v = minus(p, center), minus(q, p)
    middle, found, far, most = (0.0, 0.0, 0.0), 0.0, (0.0, 0.0, 0.0), -1.0
    near, least = (0.0, 0.0, 0.0), INF
    for i in range(count):
        m, f = _side(planes, span, box, i)
        # Points of a side nearest to the ends of the axis, or where that crosses it.
        g, h = dot(m, a) + f, dot(m, a) + dot(m, v) + f
        for k in range(3):
            t = 0.0 if k == 0 else 1.0
            if k == 2 and (g < 0.0) != (h < 0.0):
                t = g / (g - h)
            off = g + t * (h - g) if k < 2 else 0.0
            x = _combined(a, 1.0, v, t, m, -off)
            near, least = _better(planes, span, box, a, v, x, near, least)
        for j in range(i):
            n, g = _side(planes, span, box, j)
            u, c = cross(m, n), dot(m, n)
            square = dot(u, u)
            if square < 2.0**-30:
                continue
            # The point of the line of both sides, x + t u, that is nearest to the axis.
            x = _combined(m, (c * g - f) / square, n, (c * f - g) / square, u, 0.0)
            w, along = minus(a, x), dot(v, u) / square
            y = _combined(v, 1.0, u, -along, u, 0.0)
            z = _combined(w, 1.0, u, -dot(w, u) / square, u, 0.0)
            t = point_triangle.along(-dot(z, y), dot(y, y))
            x = _combined(x, 1.0, u, dot(w, u) / square + t * along, u, 0.0)
            near, least = _better(planes, span, box, a, v, x, near, least)
            for k in range(j):
                o, h = _side(planes, span, box, k)
                det = dot(u, o)
                if abs(det) < 2.0**-20:
                    continue
                x = _combined(cross(n, o), -f / det, cross(o, m), -g / det, u, -h / det)
                if i < count - 6:
                    # The corner of three planes, none of the cube: write the vector from the axis
                    # to it as a sum of their normals. That sum may be a separating plane.
                    w = minus(x, _foot_on_axis(x, a, v))
                    factors = dot(w, cross(n, o)) / det, dot(w, cross(o, m)) / det, dot(w, u) / det
                    chosen = span[0] + i, span[0] + j, span[0] + k
                    if _separates(p, q, radius, planes, chosen, factors):
                        return APART
                if _nearly_contains(planes, span, box, x):
                    middle, found = _combined(middle, 1.0, x, 1.0, x, 0.0), found + 1.0
                    near, least = _better(planes, span, box, a, v, x, near, least)
                    w = minus(x, _foot_on_axis(x, a, v))
                    if dot(w, w) > most:
                        far, most = x, dot(w, w)
    if found == 0.0 or least == INF:
        return UNSURE
    # Moved a little towards the middle of all corners, points are surely in the polytope.
    middle = scaled(middle, 1.0 / found)
    inside, outside = False, False
    for k in range(3):
        share = 2.0**-32 if k == 0 else (2.0**-22 if k == 1 else 2.0**-12)
        for side in range(2):
            x = _combined(near if side == 0 else far, 1.0 - share, middle, share, center, 1.0)
            if not _surely_contains(planes, span[0], span[1], x):
                continue
            d = signed_distance(x, p, q, radius)
            inside |= d <= 0.0
            outside |= d >= 0.0
    return MEET if inside and outside else UNSURE
