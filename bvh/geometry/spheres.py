"""The interval of a ray in a solid ball, and `ray_sphere`.

The ray is (o, d), the ball all points within `radius` of `center`; radius 0 makes a point.

With m = o - center the ray's line meets the ball where a t**2 + 2 b t + c <= 0, for a = d.d,
b = d.m, c = m.m - r**2. It does so exactly when the discriminant F = b**2 - a c is not negative;
here F = a r**2 - (d x m).(d x m), which cancels only for lines that nearly touch. Values that
double-doubles cannot decide are sums of products of four given doubles: exact sums round them.

Numerically stable roots: Press et al. 2007, "Numerical Recipes", section 5.6; the discriminant as
a distance from the line: Haines et al. 2019, "Precision improvements for ray/sphere intersection",
Ray Tracing Gems, chapter 7.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.exact_sums import (
    add_dot,
    add_product,
    add_sums,
    difference_terms,
    new_sum,
    rounded,
    rounded_apart,
    term,
)
from bvh.geometry.arithmetic.floats import DD_ERROR, INF, LARGEST, SMALLEST, cross_size
from bvh.geometry.arithmetic.roots import root_finder, root_side
from bvh.geometry.arithmetic.vectors import cross, dot, minus, scaled
from bvh.geometry.boxes import clipped
from bvh.geometry.ray_shapes import intersect_each
from bvh.runtime.arguments import FloatResult, TruthResult, lengths, points
from bvh.runtime.calls.entries import entry
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms

# Double-doubles are used for lengths between 2**-REACH and 2**REACH; others could over- or
# underflow.
REACH = 900
# Error bound of expressions in plain doubles with fewer than 20 roundings, as a share of the sizes
# of their terms.
PLAIN_ERROR = 2.0**-48
# Share of the size of its terms above which a double-double is accurate (see `is_accurate`); and
# the error of a quotient of two such, as a share of itself.
ACCURATE, ROOT_ERROR = 2.0**77 * DD_ERROR, 2.0**-72


# Whether the relative error of a double-double is below 2**-75, by the size of its terms. Its error
# is below 4 * DD_ERROR of its size: DD_ERROR for each of the products behind the discriminant and
# for the squares of the cross product, whose own error counts twice.
is_accurate = inlined(lambda value, size: abs(value[0]) > ACCURATE * size + 2.0**-600)


@inlined
def length_exponent(p, center, radius):
    """Return e such that the components of p - center, and the radius, are below about 2**e."""
    # Halves cannot overflow.
    half = minus(scaled(p, 0.5), scaled(center, 0.5))
    return floats.power_above(max(floats.largest(half), 0.5 * radius))


@kernel
def _add_surface(total, o, center, radius, x, y):
    """Add (m.m - radius**2) * x * y, m = o - center, to a sum."""
    stay_outlined()
    for i in range(3):
        m = difference_terms(o, center, i)
        add_sums(total, m, m, term(x), term(y))
    add_product(total, -1.0, radius, radius, x, y)


@kernel
def _exact_root(o, d, center, radius, k):
    """Return (sign, root) of the discriminant (d.m)**2 - d.d (m.m - radius**2), m = o - center.

    The sign is exact; the root, 0 unless it is 1, is rounded and divided by 2**k.
    """
    stay_outlined()
    total = new_sum()
    for i in range(3):
        _add_surface(total, o, center, radius, -d[i], d[i])
        for j in range(3):
            m, n = difference_terms(o, center, i), difference_terms(o, center, j)
            add_sums(total, term(d[i]), term(d[j]), m, n)
    f, e = rounded_apart(total)
    if f <= 0.0:
        return floats.sign(f), (0.0, 0.0)
    root, scale = floats.dd_sqrt((f * floats.power_of_two(e & 1), 0.0)), (e >> 1) - k
    return 1, (floats.scale_by(root[0], scale), floats.scale_by(root[1], scale))


@kernel
def _exact_half_slope(o, d, center, k):
    """Return d.m over 2**k, m = o - center, correctly rounded, as a double-double."""
    stay_outlined()
    total = new_sum()
    add_dot(total, 1.0, d, o)
    add_dot(total, -1.0, d, center)
    return rounded(total, k), 0.0


@kernel
def exact_surface(o, center, radius):
    """Return (c, e): m.m - radius**2 is c * 2**e, m = o - center, c rounded, as a double-double."""
    stay_outlined()
    total = new_sum()
    _add_surface(total, o, center, radius, 1.0, 1.0)
    c, e = rounded_apart(total)
    return (c, 0.0), e


@inlined
def tested_quotient(n, d, k, sure):
    """Return (sure, t): t is n / d * 2**k of double-doubles, surely the nearest double if `sure`.

    The argument `sure` tells whether n and d are accurate to 2**-75 of themselves; if not, the
    result is not sure. A t that is not zero never becomes zero or infinite.
    """
    if n[0] == 0.0:
        return sure, 0.0
    # If a relative error of ROOT_ERROR does not change the rounded quotient, that is the nearest
    # double (Ziv's test).
    q = floats.dd_div(n, d)
    margin = abs(q[0]) * ROOT_ERROR
    nearest = q[0] + (q[1] + margin)
    t = floats.scale_by(nearest, k)
    sure = sure and nearest == q[0] + (q[1] - margin) and 2.0**-1000 < abs(t) < LARGEST
    if t == 0.0:
        t = SMALLEST if (n[0] > 0.0) == (d[0] > 0.0) else -SMALLEST
    return sure, max(min(t, LARGEST), -LARGEST)


@inlined
def both_roots(a, b, c, root, e, lift, sure):
    """Return (sure, near, far): the t * 2**e for which a t**2 + 2 b t + c * 2**lift is zero.

    All numbers are double-doubles, `root` that of the discriminant b**2 - a c * 2**lift. They are
    accurate (`is_accurate`) if the argument `sure` is True; the result tells whether near and far
    are surely the nearest doubles.
    """
    # q is -b plus the root with the sign of -b, so that nothing cancels; the results are q / a and
    # c / q.
    sign = 1.0 if b[0] < 0.0 else -1.0
    q = floats.dd_add((-b[0], -b[1]), (sign * root[0], sign * root[1]))
    first, big = tested_quotient(q, a, e, sure)
    second, small = tested_quotient(c, q, e + lift, sure)
    return first and second, min(big, small), max(big, small)


@kernel
def _root_sign(shape, t, h, far):
    """Return the exact sign of root - (t + h), of the far root if `far`, else of the near one.

    `shape` is (o, d, center, radius). The doubles t and h are added without rounding.
    """
    # The equation at s = t + h is d.d s**2 + 2 d.m s + m.m - radius**2 = 0, m = o - center; half
    # its derivative is d.d s + d.m.
    stay_outlined()
    o, d, center, radius = shape
    value, slope = new_sum(), new_sum()
    _add_surface(value, o, center, radius, 1.0, 1.0)
    s, one = (t, h), term(1.0)
    for i in range(3):
        m, x = difference_terms(o, center, i), term(d[i])
        add_sums(value, x, x, s, s)
        add_sums(value, x, m, s, (1.0, 1.0))
        add_sums(slope, x, x, s, one)
        add_sums(slope, x, m, one, one)
    return root_side(value, slope, far)


# The kernel (shape, estimate, far) of the double that is nearest to a root.
_nearest_root = root_finder(_root_sign)


@kernel
def _surely_missed(o, d, center, radius):
    """Return whether the line of a ray misses a ball, if plain doubles are sure of that."""
    # Sums of products of rounded differences: each is off by less than 12 * 2**-53 of its terms.
    m = minus(o, center)
    n, sizes = cross(d, m), cross_size(d, m)
    square, size = dot(d, d), dot(sizes, sizes)
    ball = square * (radius * radius)
    # No underflow or overflow matters between these sizes.
    moderate = 2.0**-400 < square < 2.0**400 and 2.0**-400 < size < 2.0**900
    return moderate and dot(n, n) - ball > PLAIN_ERROR * (size + ball)


@kernel
def sphere_interval(o, d, center, radius):
    """Return (hit, near, far) of the line of a finite ray in a closed ball, for t of any sign.

    A hit is decided exactly; a miss is (False, inf, -inf). Both ends are rounded correctly where
    they are in the range of normal doubles.
    """
    stay_outlined()
    if _surely_missed(o, d, center, radius):
        return False, INF, -INF
    hit, sure, near, far = _solved(o, d, center, radius)
    if hit and not sure:
        near = _nearest_root((o, d, center, radius), near, False)
        far = _nearest_root((o, d, center, radius), far, True)
    return hit, near, far


@kernel
def _solved(o, d, center, radius):
    """Return (hit, sure, near, far) of `sphere_interval`; if not sure, near and far are rough."""
    # Scale directions by 2**-k and lengths by 2**-e to about one. The line meets the sphere where
    # a t**2 + 2 b t + c = 0; f is the discriminant.
    e = length_exponent(o, center, radius)
    k = min(max(floats.exponent(floats.largest(d)), -1022), 1022)
    u = floats.unrounded(d, k)
    a = floats.dd_dot(u, u)

    m = floats.difference(o, center, -e)
    square = floats.two_product(radius * floats.power_of_two(-e), radius * floats.power_of_two(-e))
    usable = -REACH <= e <= REACH

    normal, normal_size = floats.dd_cross(u, m), floats.cross_size(floats.high(u), floats.high(m))
    f = floats.dd_sub(floats.dd_mul(a, square), floats.dd_dot(normal, normal))
    f_size = a[0] * square[0] + floats.dot_size(normal_size, normal_size)
    sure = usable and is_accurate(f, f_size)
    if sure:
        side = floats.sign(f[0])
        root = floats.dd_sqrt((abs(f[0]), f[1]))
    else:
        side, root = _exact_root(o, d, center, radius, k + e)
    if side < 0:
        return False, True, INF, -INF

    b = floats.dd_dot(u, m)
    if not (usable and is_accurate(b, floats.dot_size(floats.high(u), floats.high(m)))):
        # b is rounded to a double, which is not accurate enough for a result that is sure.
        b, sure = _exact_half_slope(o, d, center, k + e), False
    if side == 0:
        sure, t = tested_quotient((-b[0], -b[1]), a, e - k, sure)
        return True, sure, t, t

    c, lift = floats.dd_sub(floats.dd_dot(m, m), square), 0
    if not (usable and is_accurate(c, floats.dot_size(floats.high(m), floats.high(m)) + square[0])):
        (c, lift), sure = exact_surface(o, center, radius), False
        lift -= 2 * e
    sure, near, far = both_roots(a, b, c, root, e - k, lift, sure)
    return True, sure, near, far


@entry
def _ray_sphere(rays, balls, hits):
    """Write to `hits`, a `SphereHit` of arrays, the result of each ray and its own ball."""
    (origins, directions, t_min, t_max), (center, radius) = rays, balls
    hit, t_near, t_far = hits
    for i in range(len(hit)):
        o, d = floats.vector(origins, i), floats.vector(directions, i)
        m, r, interval = floats.vector(center, i), radius[i, 0], (False, INF, -INF)
        # A ray or a ball that is not finite, or a ray without direction, misses.
        if floats.can_hit(o, d) and floats.finite(m) and 0.0 <= r < INF:
            interval = sphere_interval(o, d, m, r)
        hit[i], t_near[i], t_far[i] = clipped(interval, t_min[i], t_max[i])


class SphereHit(NamedTuple):
    """Result of `ray_sphere`; each field has the leading shape of the arguments."""

    hit: TruthResult
    t_near: FloatResult
    t_far: FloatResult


def ray_sphere(
    origins: ArrayLike, directions: ArrayLike, center: ArrayLike, radius: ArrayLike,
    t_min: ArrayLike = 0.0, t_max: ArrayLike = np.inf,
) -> SphereHit:  # fmt: skip
    """Intersect rays with solid balls, one to one after broadcasting.

    Balls are closed: a ray that touches one hits, and a ray that starts inside hits at the start
    of its range. Whether the ray's line meets the ball is decided exactly for the given doubles.

    Parameters
    ----------
    origins, directions, t_min, t_max
        As in `ray_box`.
    center : array_like, shape (..., 3)
    radius : array_like, shape (...)
        0 makes a point. A single radius must be finite and not negative; in an array, balls of
        other radii are missed.

    Returns
    -------
    hit, t_near, t_far
        As in `ray_box`: the nearest doubles, where they are normal ones. Both ends are equal where
        the line touches the ball.

    Notes
    -----
    Haines et al. 2019, "Precision improvements for ray/sphere intersection", Ray Tracing Gems,
    chapter 7.

    Examples
    --------
    >>> import bvh
    >>> bvh.ray_sphere([-4, 0, 0], [2, 0, 0], center=[0, 0, 0], radius=1)
    SphereHit(hit=True, t_near=1.5, t_far=2.5)
    >>> bvh.ray_sphere([-4, 1, 0], [2, 0, 0], center=[0, 0, 0], radius=1)  # touches
    SphereHit(hit=True, t_near=2.0, t_far=2.0)
    """
    if is_other(origins, directions, center, radius, t_min, t_max):
        return foreign_answer(ray_sphere, locals())
    rays = origins, directions, t_min, t_max
    balls = {
        "center": points("center", center),
        "radius": lengths("radius", radius, finite=True)[..., None],
    }
    return intersect_each(_ray_sphere, SphereHit, rays, balls)


warms("rays and spheres")(lambda: ray_sphere([0, 0, 5], [0, 0, -1], [0, 0, 0], 1))
