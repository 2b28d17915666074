"""Angles of single edges as seen from a point, where `boundary_angles` cannot sum them up in lanes.

That is next to edges and vertices, at rays that pass them closely, and far away. What is computed,
with projections (x, y, h) of vertices and factors (re, im) of edges, is explained there. A *way* is
an axis and a sign: the rays of points have directions next to a coordinate axis (see WAYS).

Numbers are double-doubles, of doubles or of lanes, and vectors three of them.
"""

import numpy as np

from bvh.geometry.arithmetic.exact_sums import add_product, leading, new_sum
from bvh.geometry.arithmetic.floats import (
    dd_add,
    dd_div,
    dd_sqrt,
    dd_sub,
    exponent,
    fast_two_sum,
    largest,
    power_of_two,
    reach_of,
    scale_by,
    two_product,
    two_sum,
    vector,
)
from bvh.geometry.triangles import scaled_ray
from bvh.runtime import simd
from bvh.runtime.arguments import kernel_input
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.tree.edge_rule import moved_side

# The rotation of a quaternion of integers, times the square of its length: rows that are orthogonal
# and of length NORM. The last one is next to the x axis, in no plane that meshes are likely to have
# faces in.
_W, _X, _Y, _Z = 1021, 5, -17, 8
AHEAD = (
    _W * _W + _X * _X - _Y * _Y - _Z * _Z, 2 * (_X * _Y + _W * _Z), 2 * (_X * _Z - _W * _Y)
)  # fmt: skip
ACROSS = (
    (2 * (_X * _Y - _W * _Z), _W * _W - _X * _X + _Y * _Y - _Z * _Z, 2 * (_Y * _Z + _W * _X)),
    (2 * (_X * _Z + _W * _Y), 2 * (_Y * _Z - _W * _X), _W * _W - _X * _X - _Y * _Y + _Z * _Z),
)
NORM = _W * _W + _X * _X + _Y * _Y + _Z * _Z
ROWS = tuple(tuple(float(x) for x in row) for row in (*ACROSS, AHEAD))
LENGTH = float(NORM)
# Directions next to the axes x, y and z, down each, then up: AHEAD with its coordinates rotated.
UPWARD = np.stack([np.roll(np.array(AHEAD, np.float64), axis) for axis in range(3)])
WAYS = kernel_input(np.vstack([-UPWARD, UPWARD]))

LEAST = 2.0**-1000  # in place of an imaginary part 0 whose sign is known
# Turns in a radian, 1 / (2 pi), as a double-double.
TURNS = (0.15915494309189535, -9.839338337591243e-18)

# The opposite of a double-double.
opposite = inlined(lambda a: (-a[0], -a[1]))


@inlined
def plus(a, b):
    """Return a + b of double-doubles; the error is relative to abs(a) + abs(b), not to the sum."""
    s, e = two_sum(a[0], b[0])
    return fast_two_sum(s, e + (a[1] + b[1]))


@inlined
def times(a, k):
    """Return the product of a double-double a and a double k."""
    p, e = two_product(a[0], k)
    return fast_two_sum(p, simd.fused(a[1], k, e))


@inlined
def product(a, b):
    """Return the product of two double-doubles."""
    p, e = two_product(a[0], b[0])
    return fast_two_sum(p, simd.fused(a[0], b[1], simd.fused(a[1], b[0], e)))


@inlined
def sum_of(p, q, r):
    """Return the sum of three double-doubles."""
    s, e = two_sum(p[0], q[0])
    s, f = two_sum(s, r[0])
    return fast_two_sum(s, (p[1] + q[1]) + (r[1] + (e + f)))


# The product of a vector of double-doubles with a row of ROWS, of doubles.
rotated = inlined(
    lambda a, row: sum_of(times(a[0], row[0]), times(a[1], row[1]), times(a[2], row[2]))
)
# The squared length of a vector.
square = inlined(lambda x, y, z: sum_of(product(x, x), product(y, y), product(z, z)))


@inlined
def way_of(d):
    """Return (axis, sign) of a direction of WAYS: axis 0 to 2, and 1.0 for up or -1.0 for down."""
    x, y, z = abs(d[0]), abs(d[1]), abs(d[2])
    if x > y and x > z:
        return np.int64(0), (1.0 if d[0] > 0.0 else -1.0)
    if y > z:
        return np.int64(1), (1.0 if d[1] > 0.0 else -1.0)
    return np.int64(2), (1.0 if d[2] > 0.0 else -1.0)


# A double-double times 2**k, for any k.
_shifted = inlined(lambda x, k: (scale_by(x[0], k), scale_by(x[1], k)))


@inlined
def _scaled(v, s):
    """Return a vector v of double-doubles times s, a power of two."""
    return (v[0][0] * s, v[0][1] * s), (v[1][0] * s, v[1][1] * s), (v[2][0] * s, v[2][1] * s)


@inlined
def _cross(a, b):
    """Return the cross product of two vectors of double-doubles."""
    return (
        dd_sub(product(a[1], b[2]), product(a[2], b[1])),
        dd_sub(product(a[2], b[0]), product(a[0], b[2])),
        dd_sub(product(a[0], b[1]), product(a[1], b[0])),
    )


@inlined
def _dot(a, b):
    """Return the dot product of two vectors of double-doubles."""
    return sum_of(product(a[0], b[0]), product(a[1], b[1]), product(a[2], b[2]))


@kernel
def _away(v, q):
    """Return v - q of a vertex v and a point q, as double-doubles scaled to about one.

    A vertex at q itself is seen in the direction (-1, 0, 0).
    """
    stay_outlined()
    # Lest differences overflow.
    s = 1.0 if max(largest(v), largest(q)) < 2.0**1000 else 0.25
    x = two_sum(v[0] * s, -q[0] * s)
    y = two_sum(v[1] * s, -q[1] * s)
    z = two_sum(v[2] * s, -q[2] * s)
    size = max(abs(x[0]), max(abs(y[0]), abs(z[0])))
    if size == 0.0:
        return (-1.0, 0.0), (0.0, 0.0), (0.0, 0.0)
    # `exponent` is right for normal numbers alone.
    k = -exponent(size) if size >= 2.0**-1000 else 1000 - exponent(size * 2.0**1000)
    return _shifted(x, k), _shifted(y, k), _shifted(z, k)


@kernel
def _exact_moment(a, b):
    """Return (m, e) such that m * 2**e is the cross product of a and b, of double-doubles.

    Each component is good to 2**-60 of itself; the scale is needed as products may underflow.
    """
    stay_outlined()
    x, f = _exact_difference(a[1], b[2], a[2], b[1])
    y, g = _exact_difference(a[2], b[0], a[0], b[2])
    z, h = _exact_difference(a[0], b[1], a[1], b[0])
    e = max(f, max(g, h))
    return (_shifted(x, f - e), _shifted(y, g - e), _shifted(z, h - e)), e


@kernel
def _exact_difference(a, b, c, d):
    """Return (x, e) such that x * 2**e is a * b - c * d, of double-doubles.

    x is a double-double below 2**64.
    """
    # By exact sums of products of four doubles, of which two are 1.
    stay_outlined()
    total = new_sum()
    for i in range(2):
        for j in range(2):
            add_product(total, 1.0, a[i], b[j], 1.0, 1.0)
            add_product(total, -1.0, c[i], d[j], 1.0, 1.0)
    return leading(total)


@kernel
def _exact_dot(a, row):
    """Return the dot product of a, of double-doubles, and `row`, of doubles, to 2**-60 of it."""
    stay_outlined()
    total = new_sum()
    for i in range(2):
        add_product(total, 1.0, a[0][i], row[0], 1.0, 1.0)
        add_product(total, 1.0, a[1][i], row[1], 1.0, 1.0)
        add_product(total, 1.0, a[2][i], row[2], 1.0, 1.0)
    return _shifted(*leading(total))


@kernel
def _exactly_projected(a, axis, way):
    """Return (x, y, h), to 2**-60 of themselves, of a vertex at the vector a from the point.

    (x + i y) / h is the vertex's stereographic projection from the direction of the point's ray,
    which is next to `axis`, 0 to 2; `way` is 1.0 if the ray leads up, -1.0 if down.
    """
    stay_outlined()
    v = a if axis == 0 else ((a[1], a[2], a[0]) if axis == 1 else (a[2], a[0], a[1]))
    v = times(v[0], way), times(v[1], way), times(v[2], way)
    x, y = _exact_dot(v, ROWS[0]), _exact_dot(v, ROWS[1])
    z, r = _exact_dot(v, ROWS[2]), times(dd_sqrt(square(*v)), LENGTH)
    if z[0] <= 0.0:
        return x, y, plus(r, opposite(z))
    if x[0] == 0.0 and y[0] == 0.0:
        # A vertex on the ray, seen from the point moved by (e, e**2, e**3), is off the ray in the
        # direction (-1, 0, 0): minus column k of ROWS, that of the x axis in permuted vectors.
        k = (3 - axis) % 3
        x = (-way * (ROWS[0][0] if k == 0 else (ROWS[0][1] if k == 1 else ROWS[0][2])), 0.0)
        y = (-way * (ROWS[1][0] if k == 0 else (ROWS[1][1] if k == 1 else ROWS[1][2])), 0.0)
        return x, y, (0.0, 0.0)
    far = plus(r, z)
    return product(x, far), product(y, far), plus(product(x, x), product(y, y))


@kernel
def _opposite_factor(a, b, d):
    """Return the factor (re, im) of an edge whose ends are seen at an angle above 90 degrees.

    a and b are the vectors from the point to its ends, of double-doubles, and d is the direction of
    the point's ray. Only the angle of re + i im has a meaning.
    """
    # About c = -d the half of the area is the argument of
    #     (|a| |b| + a . b) |c| + c . (b |a| + a |b|) + i c . m,    m = a x b,
    # where the sums cancel for a and b in opposite directions. With the edge u = b - a,
    #     |a| |b| + a . b = m . m / (|a| |b| - a . b),
    #     b |a| + a |b| = (u x m) (|a| + |b|) / u.u
    #                     + u m.m ((b.u)**2 - (a.u)**2) / (u.u)**2 / (b.u |a| - a.u |b|),
    # because (u x m) / u.u is the part of a, and of b, across u: nothing cancels.
    stay_outlined()
    m, e = _exact_moment(a, b)
    u = dd_sub(b[0], a[0]), dd_sub(b[1], a[1]), dd_sub(b[2], a[2])
    none = (0.0, 0.0)
    if max(abs(m[0][0]), max(abs(m[1][0]), abs(m[2][0]))) == 0.0:
        # The point is on the edge: m is the moment for a point moved by an infinitesimal,
        # u x (e, e**2, e**3), of which the first order that is not 0 counts; m.m counts as 0.
        m, scale = (none, u[2], opposite(u[1])), 0.0
        if u[2][0] == 0.0 and u[1][0] == 0.0:
            m = opposite(u[2]), none, u[0]
    else:
        # The result may have any positive factor: all of it is divided by `scale`, 2**(e + k). Then
        # m is about 1, and m.m becomes `scale` times the product of the new m with itself.
        k = exponent(max(abs(m[0][0]), max(abs(m[1][0]), abs(m[2][0]))))
        m, scale = _scaled(m, power_of_two(-k)), scale_by(1.0, e + k)
    la, lb = dd_sqrt(_dot(a, a)), dd_sqrt(_dot(b, b))
    uu, mm, ab = _dot(u, u), times(_dot(m, m), scale), _dot(a, b)
    au, bu = _dot(a, u), _dot(b, u)
    height = _cross(u, m)
    c = (-d[0], 0.0), (-d[1], 0.0), (-d[2], 0.0)
    first = times(dd_div(mm, dd_sub(product(la, lb), ab)), LENGTH)
    second = dd_div(product(_dot(c, height), plus(la, lb)), uu)
    rest = product(mm, dd_sub(product(bu, bu), product(au, au)))
    rest = dd_div(rest, dd_sub(product(bu, la), product(au, lb)))
    third = dd_div(product(rest, _dot(c, u)), product(uu, uu))
    # The angles of factors are counted about d = -c, hence the opposite.
    return sum_of(first, second, third), opposite(_dot(c, m))


@kernel
def exact_factor(q, d, a, b):
    """Return the factor (re, im) of the edge from a to b, for a point q with a ray along d.

    Only the angle of re + i im has a meaning: the larger part is scaled to about 1. The angle is
    good to 2**-60, and the sign of im is exact where the angle is 90 degrees or more.
    """
    stay_outlined()
    axis, way = way_of(d)
    u, v = _away(a, q), _away(b, q)
    if _dot(u, v)[0] < 0.0:
        re, im = _opposite_factor(u, v, d)
        im = times(im, way)
    else:
        xa, ya, ha = _exactly_projected(u, axis, way)
        xb, yb, hb = _exactly_projected(v, axis, way)
        re = sum_of(product(ha, hb), product(xa, xb), product(ya, yb))
        im = plus(product(xa, yb), opposite(product(ya, xb)))
    if re[0] <= 0.0:
        side = way * moved_side(q, d, scaled_ray(q, d, reach_of(q, a, b)), a, b)
        if side == 0.0:
            # The edge is along the ray.
            return (1.0, 0.0), (0.0, 0.0)
        if im[0] * side <= 0.0:
            im = (side * max(abs(im[0]), LEAST), 0.0)
    s = power_of_two(-exponent(max(abs(re[0]), abs(im[0]))))
    return (re[0] * s, re[1] * s), (im[0] * s, im[1] * s)


@kernel
def far_number(loops, s, q):
    """Return the winding number at a point q far away, outside of the box of the surface.

    `loops` is the boundary as in `boundary_angles.add_boundary`; s is a power of two that scales
    its half size to at most 1.
    """
    # The ray that leads away from the box crosses nothing: there are only the edges' angles.
    # With any c, the area of a triangle is twice the argument of |a| |b| |c| + ... + i c . (a x b).
    # The c from q to the centre of the boundary makes c . (a x b) = c . ((a - c) x (b - c)), whose
    # factors are small and exact; nothing but terms of different edges cancels.
    stay_outlined()
    m = vector(loops.frame, 0)
    c = two_sum(m[0] * s, -q[0] * s), two_sum(m[1] * s, -q[1] * s), two_sum(m[2] * s, -q[2] * s)
    # p scales vectors from q to about 1, but not those between vertices, u.
    p = power_of_two(-exponent(max(abs(c[0][0]), max(abs(c[1][0]), abs(c[2][0])))))
    c = _scaled(c, p)
    lc, total = dd_sqrt(_dot(c, c)), (0.0, 0.0)
    before = c, c, lc
    for i in range(loops.size):
        v = vector(loops.points, i)
        u = two_sum(v[0] * s, -m[0] * s), two_sum(v[1] * s, -m[1] * s), two_sum(v[2] * s, -m[2] * s)
        a = dd_add(c[0], times(u[0], p)), dd_add(c[1], times(u[1], p)), dd_add(c[2], times(u[2], p))
        now = u, a, dd_sqrt(_dot(a, a))
        if simd.peek(loops.begins, i) == 0:
            (ua, a, la), (ub, b, lb) = before, now
            n = _cross(ua, ub)
            re = plus(product(product(la, lb), lc), product(_dot(a, b), lc))
            re = sum_of(re, product(_dot(b, c), la), product(_dot(c, a), lb))
            # An angle is below 2 / FAR**2: its tangent, summed here, is good to 2**-53 of it.
            total = dd_add(total, dd_div(_dot(c, n), re))
        before = now
    # Both factors of each cross product n are not scaled by p.
    return ((total[0] * TURNS[0]) * p) * p
