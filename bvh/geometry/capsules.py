"""The interval of a ray in a solid capsule: all points within a radius of a segment.

The ray is (o, d); the axis leads from p to q. With m = o - p and v = q - p, the ray's line meets
the endless cylinder around the axis where |d x v|**2 t**2 + 2 (d x v).(m x v) t + |m x v|**2 - r**2
v.v <= 0; it does so exactly when F = r**2 |d x v|**2 - (m . d x v)**2 is not negative, and the
discriminant is v.v F. A capsule lies in its cylinder. So a line enters it where it enters the
cylinder, if that is between the planes across the axis through both ends; else, where it enters the
ball of the end beyond which it enters the cylinder. On which side of an end's plane that is follows
from two signs: whether the line passes the plane within the radius, and on which side it comes
closest to the axis. All these signs are of polynomials of at most degree 6, which exact sums decide
where double-doubles cannot.

Ericson 2005, "Real-time collision detection", sections 5.1.9 and 5.3.7.
"""

from bvh.geometry import spheres
from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.exact_sums import (
    add_dot,
    add_product,
    add_product_of_six,
    add_six_sums,
    add_sums,
    difference_terms,
    new_sum,
    take_sign,
    term,
)
from bvh.geometry.arithmetic.floats import DD_ERROR, INF, cross_size, dot_size
from bvh.geometry.arithmetic.roots import root_finder, root_side
from bvh.geometry.arithmetic.vectors import cross, dot, minus
from bvh.geometry.spheres import PLAIN_ERROR, REACH, is_accurate, length_exponent
from bvh.runtime.jit import inlined, kernel, stay_outlined

# Whether a double-double surely has the sign of the exact value; `size` is the sum of its absolute
# terms. All values here lose less than 62 * 2**-106 < DD_ERROR of these: the longest is a square of
# a difference of products of two dot products with differences.
is_decided = inlined(lambda value, size: abs(value[0]) > 2.0 * DD_ERROR * size + 2.0**-600)


@inlined
def _normal_terms(d, p, q, i):
    """Return component i of d x (q - p), exactly, as four pairs of factors to multiply and add."""
    j, k = (i + 1) % 3, (i + 2) % 3
    return (d[j], q[k]), (d[j], -p[k]), (-d[k], q[j]), (d[k], p[j])


@kernel
def _is_parallel(d, p, q):
    """Return whether a direction d is exactly parallel to the axis p, q, or the axis is a point."""
    stay_outlined()
    for i in range(3):
        total = new_sum()
        for x, y in _normal_terms(d, p, q, i):
            add_product(total, 1.0, x, y, 1.0, 1.0)
        if take_sign(total) != 0:
            return False
    return True


@kernel
def _exact_side(o, d, p, q, radius):
    """Return the sign of F = radius**2 |n|**2 - (m . n)**2, with n = d x (q - p) and m = o - p.

    It is 1 if the line of a ray meets the inside of the endless cylinder, 0 if it touches, -1 if it
    misses.
    """
    stay_outlined()
    total = new_sum()
    for i in range(3):
        for x, y in _normal_terms(d, p, q, i):
            for z, w in _normal_terms(d, p, q, i):
                add_product_of_six(total, (x, y, radius), (z, w, radius))
            # The square of m . n: products of all pairs of its 24 terms.
            for m in difference_terms(o, p, i):
                for j in range(3):
                    for z, w in _normal_terms(d, p, q, j):
                        for n in difference_terms(o, p, j):
                            add_product_of_six(total, (-m, x, y), (n, z, w))
    return take_sign(total)


@kernel
def _exact_nearest(o, d, p, q):
    """Return the sign of (m.v)(d.d) - (m.d)(d.v), m = o - p, v = q - p.

    It is negative if the ray's line comes closest to the line of the axis beyond p, seen from q.
    """
    stay_outlined()
    total = new_sum()
    for i in range(3):
        for j in range(3):
            m, x = difference_terms(o, p, i), term(d[j])
            add_sums(total, m, difference_terms(q, p, i), x, x)
            add_sums(total, m, difference_terms(q, p, j), x, term(-d[i]))
    return take_sign(total)


@kernel
def _exact_passage(o, d, p, q, radius):
    """Return the sign of radius**2 (d.v)**2 - |m (d.v) - d (m.v)|**2, m = o - p, v = q - p.

    It is positive if the line passes the plane through p, across the axis, within the radius of p.
    """
    # The last square is m.m (d.v)**2 - 2 m.d (d.v) (m.v) + d.d (m.v)**2, summed over the indices i
    # and j of d.v or m.v, and k.
    stay_outlined()
    total = new_sum()
    for i in range(3):
        for j in range(3):
            x, v, m = term(d[i]), difference_terms(q, p, i), difference_terms(o, p, i)
            y, w, n = term(d[j]), difference_terms(q, p, j), difference_terms(o, p, j)
            add_six_sums(total, (x, term(radius), term(radius)), (y, v, w))
            for k in range(3):
                z, u = term(d[k]), difference_terms(o, p, k)
                add_six_sums(total, (x, y, u), (v, w, (-u[0], -u[1])))
                add_six_sums(total, (x, z, u), (v, w, n))
                add_six_sums(total, (x, z, u), (v, w, n))
                add_six_sums(total, (z, term(-d[k]), m), (v, w, n))
    return take_sign(total)


@inlined
def _place_terms(o, d, p, t, h, i):
    """Return component i of o - p + (t + h) d as four pairs of factors to multiply and add."""
    return (o[i], 1.0), (-p[i], 1.0), (d[i], t), (d[i], h)


@kernel
def _root_sign(shape, t, h, far):
    """Return the exact sign of root - (t + h), of the far root if `far`, else of the near one.

    The root is a t of the ray on the cylinder; `shape` is (o, d, p, q, radius). The doubles t and h
    are added without rounding.
    """
    # With the place w = m + (t + h) d of the line, the equation is |w x v|**2 - radius**2 v.v = 0,
    # and half its derivative (w x v) . (d x v) = (w.d) (v.v) - (w.v) (d.v). The square |w x v|**2
    # is (w.w) (v.v) - (w.v)**2. In both, terms i = j cancel.
    stay_outlined()
    o, d, p, q, radius = shape
    value, slope = new_sum(), new_sum()
    for i in range(3):
        for j in range(3):
            if i == j:
                continue
            for w, x in _place_terms(o, d, p, t, h, i):
                for v in difference_terms(q, p, j):
                    for z in difference_terms(q, p, j):
                        for y, s in _place_terms(o, d, p, t, h, i):
                            add_product_of_six(value, (w, x, v), (y, s, z))
                        add_product_of_six(slope, (w, x, v), (d[i], z, 1.0))
                    for z in difference_terms(q, p, i):
                        for y, s in _place_terms(o, d, p, t, h, j):
                            add_product_of_six(value, (-w, x, v), (y, s, z))
                        add_product_of_six(slope, (-w, x, v), (d[j], z, 1.0))
        for v in difference_terms(q, p, i):
            for z in difference_terms(q, p, i):
                add_product(value, -1.0, radius, radius, v, z)
    return root_side(value, slope, far)


# The kernel (shape, estimate, far) of the double that is nearest to a root.
_nearest_root = root_finder(_root_sign)


@inlined
def frame_of(o, d, p, q, radius):
    """Return (u, v, m, r, usable, e): d, q - p, o - p and radius, each scaled to about one.

    u, v and m are vectors of double-doubles; m and r have one scale. A root t of the cylinder's
    equation with scaled numbers is t * 2**e with given ones. If not `usable`, products could over-
    or underflow.
    """
    # The axis has a scale of its own, which cancels: it may be short or long.
    e, f = length_exponent(o, p, radius), length_exponent(q, p, 0.0)
    k = floats.power_above(floats.largest(d))
    u, v, m = floats.unrounded(d, k), floats.difference(q, p, -f), floats.difference(o, p, -e)
    return u, v, m, radius * floats.power_of_two(-e), max(abs(e), abs(f)) <= REACH, e - k


@kernel
def _surely_missed(o, d, p, q, radius):
    """Return whether the line of a ray misses the endless cylinder, if plain doubles are sure."""
    # F = radius**2 |n|**2 - (m . n)**2 is negative for a miss (see `_exact_side`). Each of its two
    # terms is off by less than 20 * 2**-53 of its size.
    m, v = minus(o, p), minus(q, p)
    n, sizes = cross(d, v), cross_size(d, v)
    w, size = dot(m, n), dot_size(m, sizes)
    dd, vv = dot(d, d), dot(v, v)
    ball, most = radius * radius * dot(n, n), size * size + radius * radius * dot(sizes, sizes)
    # No underflow or overflow matters between these sizes.
    moderate = 2.0**-200 < dd < 2.0**200 and 2.0**-200 < vv < 2.0**200
    moderate = moderate and 2.0**-400 < most < 2.0**900
    return moderate and w * w - ball > PLAIN_ERROR * most


@kernel
def _beyond_end(o, d, p, q, radius, along):
    """Return (entered, left): whether a line enters, and leaves, the cylinder beyond its end p.

    Beyond p means: on the side of the plane through p, across the axis, that q is not on. `along`
    is the sign of d.v, with v = q - p.
    """
    # A line that passes the plane of the end within the radius enters on one side of it and leaves
    # on the other; any other line enters and leaves on the side on which it comes closest to the
    # axis.
    stay_outlined()
    u, v, m, r, usable, _ = frame_of(o, d, p, q, radius)
    uh, vh, mh = floats.high(u), floats.high(v), floats.high(m)
    mv, dv, md, dd = (
        floats.dd_dot(m, v), floats.dd_dot(u, v), floats.dd_dot(m, u), floats.dd_dot(u, u)
    )  # fmt: skip
    mv_size, dv_size, md_size = dot_size(mh, vh), dot_size(uh, vh), dot_size(mh, uh)
    # On which side the line comes closest to the axis: the sign of `_exact_nearest`.
    s = floats.dd_sub(floats.dd_mul(mv, dd), floats.dd_mul(md, dv))
    if usable and is_decided(s, mv_size * dd[0] + md_size * dv_size):
        nearest = floats.sign(s[0])
    else:
        nearest = _exact_nearest(o, d, p, q)
    if along == 0:
        # The line is parallel to the plane, and all of it is on one side.
        return nearest < 0, nearest < 0
    # Whether it passes the plane within the radius: the sign of `_exact_passage`.
    total, size = floats.dd_mul(floats.two_product(r, r), floats.dd_mul(dv, dv)), 0.0
    for i in range(3):
        x = floats.dd_sub(floats.dd_mul(m[i], dv), floats.dd_mul(u[i], mv))
        x_size = abs(mh[i]) * dv_size + abs(uh[i]) * mv_size
        total = floats.dd_sub(total, floats.dd_mul(x, x))
        size += x_size * x_size
    if usable and is_decided(total, size + (r * r) * dv_size**2):
        within = total[0] > 0.0
    else:
        within = _exact_passage(o, d, p, q, radius) > 0
    first, last = within or nearest < 0, not within and nearest < 0
    return (first, last) if along > 0 else (last, first)


@kernel
def _cylinder(o, d, p, q, radius):
    """Return (side, sure, near, far) of a line and the endless cylinder around the axis.

    `side` is exact: -1 for a miss, 0 if the line touches, 1 for a hit. It is 2 if the line is
    parallel to the axis, or the axis is a point; near and far then mean nothing. `sure` tells
    whether near and far are known to be rounded correctly; else they are estimates.
    """
    # In scaled numbers, the line meets the cylinder where a t**2 + 2 b t + c = 0, for n = u x v,
    # a = n.n, b = n.(m x v), c = |m x v|**2 - r**2 v.v. The discriminant is v.v f, with the F of
    # `_exact_side` for f.
    stay_outlined()
    u, v, m, r, usable, e = frame_of(o, d, p, q, radius)
    uh, vh, mh = floats.high(u), floats.high(v), floats.high(m)
    n, n_size = floats.dd_cross(u, v), cross_size(uh, vh)
    a, a_size = floats.dd_dot(n, n), floats.dot_size(n_size, n_size)
    if not (usable and is_accurate(a, a_size)) and _is_parallel(d, p, q):
        return 2, True, INF, -INF
    w, w_size = floats.dd_dot(m, n), dot_size(mh, n_size)
    square = floats.two_product(r, r)
    f = floats.dd_sub(floats.dd_mul(square, a), floats.dd_mul(w, w))
    f_size = square[0] * a_size + w_size * w_size
    sure = usable and is_accurate(f, f_size)
    if usable and is_decided(f, f_size):
        side = floats.sign(f[0])
    else:
        side = _exact_side(o, d, p, q, radius)
    if side < 0:
        return side, True, INF, -INF
    moment, moment_size = floats.dd_cross(m, v), cross_size(mh, vh)
    b, b_size = floats.dd_dot(n, moment), floats.dot_size(n_size, moment_size)
    length = floats.dd_dot(v, v)
    c = floats.dd_sub(floats.dd_dot(moment, moment), floats.dd_mul(square, length))
    c_size = floats.dot_size(moment_size, moment_size) + square[0] * length[0]
    sure = sure and is_accurate(a, a_size) and is_accurate(b, b_size) and is_accurate(c, c_size)
    root = (0.0, 0.0)
    if side > 0 and abs(f[0]) > 0.0:
        root = floats.dd_sqrt(floats.dd_mul((abs(f[0]), f[1]), length))
    sure, near, far = spheres.both_roots(a, b, c, root, e, 0, sure)
    return side, sure, near, far


@kernel
def capsule_interval(o, d, p, q, radius):
    """Return (hit, near, far) of the line of a finite ray in a solid capsule, for t of any sign.

    The capsule is all points within `radius` of the segment p, q. A hit is decided exactly; a miss
    is (False, inf, -inf). Both ends are rounded correctly where they are normal doubles.
    """
    stay_outlined()
    if _surely_missed(o, d, p, q, radius):
        return False, INF, -INF
    side, sure, near, far = _cylinder(o, d, p, q, radius)
    if side < 0:
        return False, INF, -INF
    # The sign of d.v: whether the line goes from the end p to q, or back.
    v = minus(q, p)
    size = dot_size(d, v)
    along = floats.sign_beyond(dot(d, v), PLAIN_ERROR * size)
    if along == 0 or not 2.0**-900 < size < INF:
        total = new_sum()
        add_dot(total, 1.0, d, q)
        add_dot(total, -1.0, d, p)
        along = take_sign(total)
    # Where the line enters and leaves: 0 in the cylinder, 1 in the ball of p, 2 in that of q.
    if side == 2:
        # A line along the axis meets both balls or none, and first the ball of p if it leads to q.
        entered, left = (1, 2) if along >= 0 else (2, 1)
    else:
        enters_p, leaves_p = _beyond_end(o, d, p, q, radius, along)
        enters_q, leaves_q = _beyond_end(o, d, q, p, radius, -along)
        entered = 1 if enters_p else (2 if enters_q else 0)
        left = 1 if leaves_p else (2 if leaves_q else 0)
    if entered == 0 and not sure:
        near = _nearest_root((o, d, p, q, radius), near, False)
    if left == 0 and not sure:
        far = _nearest_root((o, d, p, q, radius), far, True)
    for end, center in ((1, p), (2, q)):
        if entered == end or left == end:
            hit, first, last = spheres.sphere_interval(o, d, center, radius)
            if not hit:
                return False, INF, -INF
            near, far = first if entered == end else near, last if left == end else far
    return True, near, far
