"""Winding numbers of points: signed crossings of a ray, and angles over the boundary's edges.

The directions in which a surface is seen from q lie on the unit sphere. For a direction x let D(x)
be how often the surface passes the ray from q to x, from its back less from its front: the winding
number is the mean of D over the sphere. The boundary of the surface is seen as arcs, the shorter
ones between the directions a and b to the ends of an edge, and D changes by one across each. So
does the sum, over all edges, of the signed triangles (a, b, c) for a fixed direction c, because
arcs to c cancel, as a boundary has as many edges to a vertex as from it. Hence the difference of D
and that sum is the same everywhere; and at -c it is D(-c), because no triangle of arcs below half a
turn with the corner c has the antipode of c inside. With the ray's direction d = -c,

    winding number = D(d) + sum of the areas of (a, b, -d) over all edges / (4 pi),

an integer for a surface without boundary (the antipodal method of arXiv 2605.01536, 2026).

The area. Let the plane be the stereographic projection from d. A vertex at distance r, z of that
along d, and at x + i y across, has the projection (x + i y) / (r - z), and the triangle the area
-2 arg(1 + conj(a) b), where angles are counted about d. Times the denominators h = r - z:

    re = h_a h_b + x_a x_b + y_a y_b,    im = x_a y_b - y_a x_b.

Where z > 0, x, y and h are multiplied by r + z, so that h = x**2 + y**2 has no cancellation. The
sum of the arguments is the argument of the product, but for full turns: factors, and products, with
re < 0 are negated, and the half turn is counted with the sign of im. That sign is the only one that
matters: it tells on which side of an edge the ray passes, and `edge_rule` decides it if rounding
could have changed it, as it decides crossings. So both parts are those of one point, q moved by
(e, e**2, e**3) for an infinitesimal e > 0, also if the ray meets edges or vertices.

Errors. Numbers are double-doubles; vectors from q are exact. d has integer coordinates and length,
and x, y, z are those in an integer basis. With sums that lose 2**-104 of their terms' sizes, re and
im are off by less than 2**-98 of the sizes of theirs. `_exact_factor` takes over where that could
be felt: next to a vertex or edge, where re and im cancel to 2**-40; at rays close to a vertex,
where x and y do; where rounding could have changed the sign of im. There, the angle is good to
2**-60.

On the boundary itself, q has no single value; there, too, it is moved: a vertex at q is seen in
the direction (-1, 0, 0), and an edge through q on the side of that.
"""

import math

import numpy as np

from bvh.geometry.arithmetic.exact_sums import add_product, leading, new_sum
from bvh.geometry.arithmetic.floats import (
    NAN,
    dd_add,
    dd_div,
    dd_sqrt,
    dd_sub,
    exponent,
    fast_two_sum,
    finite,
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
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH
from bvh.runtime.tuple_references import as_pointers, stack_memory
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
# Directions next to the axes: down each, then up. Those of axis k are turned by k.
UPWARD = np.stack([np.roll(np.array(AHEAD, np.float64), axis) for axis in range(3)])
WAYS = kernel_input(np.vstack([-UPWARD, UPWARD]))

# Beyond the first of these distances, in sizes of the boundary, points outside of the surface's box
# have another formula, whose result is 0 beyond the last one. Points in the box that are further
# away than the second have none.
FAR, FARTHEST, OUT_OF_SIGHT = 2.0**16, 2.0**100, 2.0**500
# Limits of `_exact_factor` (see above), with margins.
CANCELLED, NEAR_RAY, UNSURE, SHORTEST = 2.0**-40, 2.0**-43, 2.0**-92, 2.0**-100
LEAST = 2.0**-1000
EXACT_BYTES, POINT_BYTES = 8 * 4 * WIDTH, 8 * 5 * WIDTH

# The arc tangent of t is t + t z P(z) / Q(z) with z = t**2, up to 0.66, good to 2**-52 (Moshier
# 1989, "Methods and programs for mathematical functions").
P = (
    -8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
    -1.228866684490136173410e2, -6.485021904942025371773e1,
)  # fmt: skip
Q = (
    2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
    4.853903996359136964868e2, 1.945506571482613964425e2,
)  # fmt: skip
STEEP = 0.66
# 1 / (2 pi) as a double-double.
TURNS = (0.15915494309189535, -9.839338337591243e-18)

# The opposite of a double-double.
opposite = inlined(lambda a: (-a[0], -a[1]))


@inlined
def plus(a, b):
    """Add two double-doubles; the error is relative to the sizes of both."""
    s, e = two_sum(a[0], b[0])
    return fast_two_sum(s, e + (a[1] + b[1]))


@inlined
def times(a, k):
    """Multiply a double-double by a double."""
    p, e = two_product(a[0], k)
    return fast_two_sum(p, simd.fused(a[1], k, e))


@inlined
def product(a, b):
    """Multiply two double-doubles."""
    p, e = two_product(a[0], b[0])
    return fast_two_sum(p, simd.fused(a[0], b[1], simd.fused(a[1], b[0], e)))


@inlined
def sum_of(p, q, r):
    """Add three double-doubles."""
    s, e = two_sum(p[0], q[0])
    s, f = two_sum(s, r[0])
    return fast_two_sum(s, (p[1] + q[1]) + (r[1] + (e + f)))


rotated = inlined(
    lambda a, row: sum_of(times(a[0], row[0]), times(a[1], row[1]), times(a[2], row[2]))
)
square = inlined(lambda x, y, z: sum_of(product(x, x), product(y, y), product(z, z)))


@inlined
def chosen(mask, a, b):
    """Select between double-doubles."""
    return simd.select(mask, a[0], b[0]), simd.select(mask, a[1], b[1])


@inlined
def _permuted(v, first, second, way):
    """Return coordinates, in lanes, from the axis of each way on, with its sign `way`."""
    # `first` are the lanes of ways along the axis 0, `second` those along the axis 1.
    x, y, z = v
    return (
        simd.select(first, x, simd.select(second, y, z)) * way,
        simd.select(first, y, simd.select(second, z, x)) * way,
        simd.select(first, z, simd.select(second, x, y)) * way,
    )


@inlined
def _projected(v, q):
    """Return how points see a vertex: x, y, h, the sizes of x and y and of r, lanes in doubt."""
    none = simd.splat(0.0, WIDTH)
    a = two_sum(v[0], -q[0]), two_sum(v[1], -q[1]), two_sum(v[2], -q[2])
    x, y, z = rotated(a, ROWS[0]), rotated(a, ROWS[1]), rotated(a, ROWS[2])
    r = times(dd_sqrt(square(*a)), LENGTH)
    ahead = z[0] > none
    far = plus(r, chosen(ahead, z, opposite(z)))
    across, bound = abs(x[0]) + abs(y[0]), r[0]
    doubt = ~((across > NEAR_RAY * bound) & (bound > simd.splat(SHORTEST, WIDTH)))
    h = chosen(ahead, sum_of(product(x, x), product(y, y), (none, none)), far)
    x, y = chosen(ahead, product(x, far), x), chosen(ahead, product(y, far), y)
    across = simd.select(ahead, across * far[0], across)
    bound = simd.select(ahead, bound * far[0], bound)
    return x, y, h, across, bound, doubt


@inlined
def _turned(turns, re, im, sides):
    """Negate numbers with a negative real part; count half turns by the signs of `sides`."""
    none, one = simd.splat(0.0, WIDTH), simd.splat(1.0, WIDTH)
    back = re[0] < none
    step = simd.select(sides > none, one, -one)
    turns = turns + simd.select(back, step, none)
    return turns, chosen(back, opposite(re), re), chosen(back, opposite(im), im)


@kernel
def _arguments(loops, s, points, directions, which, used, q, first, second, way):
    """Return (half turns, re, im): in lanes, the sum of the arguments of all edges."""
    # `q` are the points `which`, scaled by s, as `_permuted`; those of the lanes `used` count.
    none, one = simd.splat(0.0, WIDTH), simd.splat(1.0, WIDTH)
    memory = simd.pointer_to(stack_memory(EXACT_BYTES), 0.0)
    turns, re, im = none, (one, none), (none, none)
    before = (one, none), (none, none), (none, none), none, none, used != used
    for i in range(loops.size):
        v = vector(loops.points, i)
        v = simd.splat(v[0] * s, WIDTH), simd.splat(v[1] * s, WIDTH), simd.splat(v[2] * s, WIDTH)
        now = _projected(_permuted(v, first, second, way), q)
        if simd.peek(loops.begins, i) == 0:
            xa, ya, ha, across_a, bound_a, doubt_a = before
            xb, yb, hb, across_b, bound_b, doubt_b = now
            x = sum_of(product(ha, hb), product(xa, xb), product(ya, yb))
            y = plus(product(xa, yb), opposite(product(ya, xb)))
            size = ha[0] * hb[0] + across_a * across_b
            doubt = (abs(x[0]) + abs(y[0]) < CANCELLED * size) | doubt_a | doubt_b
            size = bound_a * across_b + bound_b * across_a
            doubt = doubt | ((x[0] < none) & (abs(y[0]) < UNSURE * size))
            left = np.int64(simd.mask_bits(doubt & used))
            if left != 0:
                x, y = _decided(loops, i, points, directions, which, left, x, y, memory)
            turns, x, y = _turned(turns, x, y, y[0])
            real = plus(product(re, x), opposite(product(im, y)))
            im = plus(product(re, y), product(im, x))
            # Both factors are on one side of the real axis if the product's real part is negative.
            turns, re, im = _turned(turns, real, im, y[0])
            size = simd.greater(abs(re[0]), abs(im[0]))
            # Scaled to between 1 and 3: only the direction counts.
            scale = simd.as_floats(
                np.int64(2046 << 52) - (simd.as_ints(size) & np.int64(2047 << 52))
            )
            re, im = (re[0] * scale, re[1] * scale), (im[0] * scale, im[1] * scale)
        before = now
    return turns, re, im


@kernel
def _decided(loops, i, points, directions, which, left, x, y, memory):
    """Return the factors of the edge that ends at vertex i, of the lanes `left` exactly."""
    stay_outlined()
    for k, part in enumerate((x[0], x[1], y[0], y[1])):
        simd.store(memory, k * WIDTH, part)
    while left != 0:
        lane = simd.lowest_bit(left)
        left &= left - 1
        at = which + lane
        re, im = _exact_factor(
            vector(points, at), vector(directions, at), vector(loops.points, i - 1),
            vector(loops.points, i),
        )  # fmt: skip
        simd.poke(memory, lane, re[0])
        simd.poke(memory, WIDTH + lane, re[1])
        simd.poke(memory, 2 * WIDTH + lane, im[0])
        simd.poke(memory, 3 * WIDTH + lane, im[1])
    return (
        (simd.load(memory, 0, WIDTH), simd.load(memory, WIDTH, WIDTH)),
        (simd.load(memory, 2 * WIDTH, WIDTH), simd.load(memory, 3 * WIDTH, WIDTH)),
    )


@inlined
def way_of(d):
    """Return the axis and the sign of a direction of WAYS."""
    x, y, z = abs(d[0]), abs(d[1]), abs(d[2])
    if x > y and x > z:
        return np.int64(0), (1.0 if d[0] > 0.0 else -1.0)
    if y > z:
        return np.int64(1), (1.0 if d[1] > 0.0 else -1.0)
    return np.int64(2), (1.0 if d[2] > 0.0 else -1.0)


@kernel
def _away(v, q):
    """Return v - q as double-doubles, scaled to about one; for v at q, the direction of v."""
    stay_outlined()
    s = 1.0 if max(largest(v), largest(q)) < 2.0**1000 else 0.25
    x = two_sum(v[0] * s, -q[0] * s)
    y = two_sum(v[1] * s, -q[1] * s)
    z = two_sum(v[2] * s, -q[2] * s)
    size = max(abs(x[0]), max(abs(y[0]), abs(z[0])))
    if size == 0.0:
        return (-1.0, 0.0), (0.0, 0.0), (0.0, 0.0)
    # Twice, as denormal numbers are to be multiplied by more than a power of two can be.
    k = -exponent(size) if size >= 2.0**-1000 else 1000 - exponent(size * 2.0**1000)
    return (
        (scale_by(x[0], k), scale_by(x[1], k)), (scale_by(y[0], k), scale_by(y[1], k)),
        (scale_by(z[0], k), scale_by(z[1], k)),
    )  # fmt: skip


@kernel
def _exact_moment(a, b):
    """Return (cross product of two vectors times 2**-e, e), each component to 2**-60 of itself."""
    stay_outlined()
    x, f = _exact_difference(a[1], b[2], a[2], b[1])
    y, g = _exact_difference(a[2], b[0], a[0], b[2])
    z, h = _exact_difference(a[0], b[1], a[1], b[0])
    e = max(f, max(g, h))
    f, g, h = f - e, g - e, h - e
    return (
        (scale_by(x[0], f), scale_by(x[1], f)), (scale_by(y[0], g), scale_by(y[1], g)),
        (scale_by(z[0], h), scale_by(z[1], h)),
    ), e  # fmt: skip


@kernel
def _exact_difference(a, b, c, d):
    """Return a * b - c * d of double-doubles as `leading` does, below 2**64 times 2**e."""
    stay_outlined()
    total = new_sum()
    for i in range(2):
        for j in range(2):
            add_product(total, 1.0, a[i], b[j], 1.0, 1.0)
            add_product(total, -1.0, c[i], d[j], 1.0, 1.0)
    return leading(total)


@kernel
def _exact_across(a, row):
    """Return the product of a vector of double-doubles with one of doubles, to 2**-60 of itself."""
    stay_outlined()
    total = new_sum()
    for i in range(2):
        add_product(total, 1.0, a[0][i], row[0], 1.0, 1.0)
        add_product(total, 1.0, a[1][i], row[1], 1.0, 1.0)
        add_product(total, 1.0, a[2][i], row[2], 1.0, 1.0)
    x, e = leading(total)
    return scale_by(x[0], e), scale_by(x[1], e)


@kernel
def _exactly_projected(a, axis, way):
    """Return (x, y, h) of a vector along a way."""
    stay_outlined()
    v = a if axis == 0 else ((a[1], a[2], a[0]) if axis == 1 else (a[2], a[0], a[1]))
    v = times(v[0], way), times(v[1], way), times(v[2], way)
    x, y = _exact_across(v, ROWS[0]), _exact_across(v, ROWS[1])
    z, r = _exact_across(v, ROWS[2]), times(dd_sqrt(square(*v)), LENGTH)
    if z[0] <= 0.0:
        return x, y, plus(r, opposite(z))
    if x[0] == 0.0 and y[0] == 0.0:
        # A vertex on the ray is seen from the moved point, beside it.
        k = (3 - axis) % 3
        x = (-way * (ROWS[0][0] if k == 0 else (ROWS[0][1] if k == 1 else ROWS[0][2])), 0.0)
        y = (-way * (ROWS[1][0] if k == 0 else (ROWS[1][1] if k == 1 else ROWS[1][2])), 0.0)
        return x, y, (0.0, 0.0)
    far = plus(r, z)
    return product(x, far), product(y, far), plus(product(x, x), product(y, y))


@inlined
def _dot(a, b):
    return sum_of(product(a[0], b[0]), product(a[1], b[1]), product(a[2], b[2]))


@kernel
def _opposite_factor(a, b, d):
    """Return the factor of an edge whose ends are seen at an angle above 90 degrees."""
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
    curved = 1.0
    if max(abs(m[0][0]), max(abs(m[1][0]), abs(m[2][0]))) == 0.0:
        # On the edge: the moment of one that is moved by an infinitesimal, u x (e, e**2, e**3).
        m, curved = (none, u[2], opposite(u[1])), 0.0
        if u[2][0] == 0.0 and u[1][0] == 0.0:
            m = opposite(u[2]), none, u[0]
    else:
        # Scaled to about 1.
        size = max(abs(m[0][0]), max(abs(m[1][0]), abs(m[2][0])))
        k = exponent(size)
        s = power_of_two(-k)
        m = (
            (m[0][0] * s, m[0][1] * s), (m[1][0] * s, m[1][1] * s), (m[2][0] * s, m[2][1] * s)
        )  # fmt: skip
        curved = scale_by(1.0, e + k)
    la, lb = dd_sqrt(_dot(a, a)), dd_sqrt(_dot(b, b))
    uu, mm, ab = _dot(u, u), times(_dot(m, m), curved), _dot(a, b)
    au, bu = _dot(a, u), _dot(b, u)
    height = (
        dd_sub(product(u[1], m[2]), product(u[2], m[1])),
        dd_sub(product(u[2], m[0]), product(u[0], m[2])),
        dd_sub(product(u[0], m[1]), product(u[1], m[0])),
    )
    c = (-d[0], 0.0), (-d[1], 0.0), (-d[2], 0.0)
    first = times(dd_div(mm, dd_sub(product(la, lb), ab)), LENGTH)
    second = dd_div(product(_dot(c, height), plus(la, lb)), uu)
    rest = product(mm, dd_sub(product(bu, bu), product(au, au)))
    rest = dd_div(rest, dd_sub(product(bu, la), product(au, lb)))
    third = dd_div(product(rest, _dot(c, u)), product(uu, uu))
    # Angles of factors are counted about d.
    return sum_of(first, second, third), opposite(_dot(c, m))


@kernel
def _exact_factor(q, d, a, b):
    """Return (re, im) of the edge (a, b): the angle to 2**-60, the sign of im exactly."""
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
    # Scaled to about 1.
    s = power_of_two(-exponent(max(abs(re[0]), abs(im[0]))))
    return (re[0] * s, re[1] * s), (im[0] * s, im[1] * s)


@kernel
def _far_number(loops, s, q):
    """Return the winding number at a point far away, outside of the box of the surface."""
    # The ray away from a point in the box crosses nothing.
    # With any c, the area of a triangle is twice the argument of |a| |b| |c| + ... + i c . (a x b).
    # The c from q to the centre of the boundary makes c . (a x b) = c . ((a - c) x (b - c)), whose
    # factors are small and exact; nothing but terms of different edges cancels.
    stay_outlined()
    m = vector(loops.frame, 0)
    c = two_sum(m[0] * s, -q[0] * s), two_sum(m[1] * s, -q[1] * s), two_sum(m[2] * s, -q[2] * s)
    k = -exponent(max(abs(c[0][0]), max(abs(c[1][0]), abs(c[2][0]))))
    p = power_of_two(k)
    c = (c[0][0] * p, c[0][1] * p), (c[1][0] * p, c[1][1] * p), (c[2][0] * p, c[2][1] * p)
    lc, total = dd_sqrt(_dot(c, c)), (0.0, 0.0)
    before = c, c, lc
    for i in range(loops.size):
        v = vector(loops.points, i)
        u = two_sum(v[0] * s, -m[0] * s), two_sum(v[1] * s, -m[1] * s), two_sum(v[2] * s, -m[2] * s)
        a = dd_add(c[0], times(u[0], p)), dd_add(c[1], times(u[1], p)), dd_add(c[2], times(u[2], p))
        now = u, a, dd_sqrt(_dot(a, a))
        if simd.peek(loops.begins, i) == 0:
            (ua, a, la), (ub, b, lb) = before, now
            n = (
                dd_sub(product(ua[1], ub[2]), product(ua[2], ub[1])),
                dd_sub(product(ua[2], ub[0]), product(ua[0], ub[2])),
                dd_sub(product(ua[0], ub[1]), product(ua[1], ub[0])),
            )
            re = plus(product(product(la, lb), lc), product(_dot(a, b), lc))
            re = sum_of(re, product(_dot(b, c), la), product(_dot(c, a), lb))
            # An angle is below 2 / FAR**2: its cube is nothing to 2**-53 of it.
            total = dd_add(total, dd_div(_dot(c, n), re))
        before = now
    return ((total[0] * TURNS[0]) * p) * p


@inlined
def _polynomial(a, z, factors):
    """Return the value of a polynomial: `a`, of its highest powers, and four factors."""
    a = simd.fused(a, z, factors[0])
    return simd.fused(simd.fused(simd.fused(a, z, factors[1]), z, factors[2]), z, factors[3])


@inlined
def angles(x, y):
    """Return the angles of complex numbers that are not zero, in lanes."""
    one, none = simd.full_like(x, 1.0), simd.full_like(x, 0.0)
    a, b = abs(x), abs(y)
    t = simd.lesser(a, b) / simd.greater(a, b)
    steep = t > simd.full_like(x, STEEP)
    t = simd.select(steep, (t - one) / (t + one), t)
    z, p = t * t, simd.full_like(x, P[0])
    angle = simd.fused(t, z * _polynomial(p, z, P[1:]) / _polynomial(z + Q[0], z, Q[1:]), t)
    angle = simd.select(steep, angle + math.pi / 4, angle)
    angle = simd.select(b > a, math.pi / 2 - angle, angle)
    angle = simd.select(x < none, math.pi - angle, angle)
    return simd.select(y < none, -angle, angle)


@entry
def add_boundary(loops, points, directions, begin, end, found):
    """Make winding numbers of the signed crossings of points along directions of WAYS."""
    # Results are NaN for points that are not finite.
    lines, rays, where = as_pointers(loops), simd.pointer(directions), simd.pointer(points)
    numbers, s = simd.pointer(found), simd.peek(lines.frame, 3)
    memory = simd.pointer_to(stack_memory(POINT_BYTES), 0.0)
    m, low, high = vector(lines.frame, 0), vector(lines.around, 0), vector(lines.around, 1)
    for i in range(begin, end, WIDTH):
        size, used = min(end - i, WIDTH), np.int64(0)
        for k in range(WIDTH):
            p, axis, way = vector(where, i + min(k, size - 1)), np.int64(0), 1.0
            x = (p[0] - m[0]) * s, (p[1] - m[1]) * s, (p[2] - m[2]) * s
            if not finite(p):
                simd.poke(numbers, i + min(k, size - 1), NAN)
            if k < size and lines.size > 0 and finite(p):
                beside = p[0] < low[0] or p[1] < low[1] or p[2] < low[2]
                beside = beside or p[0] > high[0] or p[1] > high[1] or p[2] > high[2]
                if beside and not largest(x) <= FAR:
                    far = largest(x) <= OUT_OF_SIGHT
                    simd.poke(numbers, i + k, _far_number(lines, s, p) if far else 0.0)
                elif largest(x) <= FARTHEST:
                    used |= np.int64(1) << k
                    axis, way = way_of(vector(rays, i + k))
            if used >> k & 1 == 0:
                # No point, or one that is finished.
                p = m
            for j in range(3):
                simd.poke(memory, j * WIDTH + k, p[j] * s)
            simd.poke(memory, 3 * WIDTH + k, np.float64(axis))
            simd.poke(memory, 4 * WIDTH + k, way)
        if used == 0:
            continue
        axes, way = simd.load(memory, 3 * WIDTH, WIDTH), simd.load(memory, 4 * WIDTH, WIDTH)
        one = simd.splat(1.0, WIDTH)
        first, second = axes < one, axes == one
        q = (
            simd.load(memory, 0, WIDTH), simd.load(memory, WIDTH, WIDTH),
            simd.load(memory, 2 * WIDTH, WIDTH),
        )  # fmt: skip
        q = _permuted(q, first, second, way)
        lanes = simd.mask_of(used, WIDTH)
        turns, re, im = _arguments(lines, s, where, rays, i, lanes, q, first, second, way)
        # What the low parts change of the angle, and of the factor.
        rest = (im[1] * re[0] - re[1] * im[0]) / (re[0] * re[0] + im[0] * im[0])
        angle = angles(re[0], im[0])
        part = simd.fused(angle, TURNS[0], simd.fused(angle, TURNS[1], rest * TURNS[0]))
        simd.store(memory, 0, turns * way * simd.splat(0.5, WIDTH))
        simd.store(memory, WIDTH, part * way)
        for k in range(size):
            if used >> k & 1:
                whole = simd.peek(numbers, i + k) - simd.peek(memory, k)
                simd.poke(numbers, i + k, whole - simd.peek(memory, WIDTH + k))
