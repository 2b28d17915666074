"""The interval of a ray in a solid ball, and `ray_sphere`.

With m = o - center the ray's line meets the ball where a t**2 + 2 b t + c <= 0, for a = d.d,
b = d.m, c = m.m - r**2. It does so exactly when the discriminant F = b**2 - a c is not negative;
here F = a r**2 - (d x m).(d x m), which cancels only for lines that nearly touch. Values that
double-doubles cannot decide are sums of products of four given doubles: exact sums round them.

Numerically stable roots: Press et al. 2007, "Numerical Recipes", section 5.6; the discriminant as
a distance from the line: Haines et al. 2019, "Precision improvements for ray/sphere intersection",
Ray Tracing Gems, chapter 7.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.exact_sums import add_dot, add_product, divide, new_sum
from bvh.geometry.arithmetic.floats import DD_ERROR, INF, LARGEST, SMALLEST
from bvh.geometry.arithmetic.vectors import minus, scaled
from bvh.geometry.boxes import clipped
from bvh.geometry.ray_shapes import intersect_each
from bvh.runtime.arguments import FloatResult, TruthResult, lengths, points
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.jit import entry, inlined, kernel, stay_outlined, warms

# Double-doubles are used for lengths between 2**-REACH and 2**REACH; others could over- or
# underflow.
REACH = 900


@inlined
def _is_accurate(value, size):
    """Return whether the relative error of a double-double is below 2**-60."""
    # Its error is below 4 * DD_ERROR of its size: DD_ERROR for each of the products behind the
    # discriminant and for the squares of the cross product, whose own error counts twice.
    return abs(value[0]) > 2.0**62 * DD_ERROR * size + 2.0**-600


@kernel
def _rounded(total, k):
    """Return total / 2**k, correctly rounded, as a double-double."""
    stay_outlined()
    unit = new_sum()
    # A quarter of k each: the four factors make 2**k, and none leaves the range of doubles.
    p = floats.power_of_two
    add_product(unit, 1.0, p(k >> 2), p((k + 1) >> 2), p((k + 2) >> 2), p((k + 3) >> 2))
    return divide(total, unit), 0.0


@kernel
def _add_surface(total, factor, o, center, r, x):
    """Add factor * (m.m - r**2) * x**2 to the sum."""
    stay_outlined()
    for i in range(3):
        add_product(total, factor, o[i], o[i], x, x)
        add_product(total, -factor, o[i], center[i], x, x)
        add_product(total, -factor, o[i], center[i], x, x)
        add_product(total, factor, center[i], center[i], x, x)
    add_product(total, -factor, r, r, x, x)


@kernel
def _add_discriminant(total, o, d, center, r):
    """Add (d.m)**2 - d.d (m.m - r**2) to the sum."""
    stay_outlined()
    for i in range(3):
        _add_surface(total, -1.0, o, center, r, d[i])
        for j in range(3):
            add_product(total, 1.0, d[i], d[j], o[i], o[j])
            add_product(total, -1.0, d[i], d[j], o[i], center[j])
            add_product(total, -1.0, d[i], d[j], center[i], o[j])
            add_product(total, 1.0, d[i], d[j], center[i], center[j])


@inlined
def _dd_sqrt(f):
    """Return the square root of a positive double-double (one step of Newton's method)."""
    s = math.sqrt(f[0])
    p, e = floats.two_product(s, s)
    return floats.fast_two_sum(s, (((f[0] - p) - e) + f[1]) / (2.0 * s))


@kernel
def _exact_root(o, d, center, r, k, e):
    """Return the sign of the discriminant, and its root over 2**(k + e)."""
    stay_outlined()
    total = new_sum()
    _add_discriminant(total, o, d, center, r)
    f = _rounded(total, 2 * (k + e))
    if f[0] <= 0.0:
        return floats.sign(f[0]), (0.0, 0.0)
    if f[0] > 2.0**-900 or k + e < -1500:
        return 1, _dd_sqrt(f)
    # Keep the bits of a small discriminant: it is the square of a root that is not so small.
    total = new_sum()
    _add_discriminant(total, o, d, center, r)
    root = _dd_sqrt(_rounded(total, 2 * (k + e) - 1000))
    return 1, (root[0] * 2.0**-500, root[1] * 2.0**-500)


@kernel
def _exact_half_slope(o, d, center, k):
    """Return d.m over 2**k, correctly rounded."""
    stay_outlined()
    total = new_sum()
    add_dot(total, 1.0, d, o)
    add_dot(total, -1.0, d, center)
    return _rounded(total, k)


@kernel
def _exact_surface(o, center, r, k):
    """Return m.m - r**2 over 2**(k - lift), correctly rounded, and lift, which avoids underflow."""
    stay_outlined()
    total = new_sum()
    _add_surface(total, 1.0, o, center, r, 1.0)
    c = _rounded(total, k)
    if c[0] == 0.0 or abs(c[0]) > 2.0**-900:
        return c, 0
    total = new_sum()
    _add_surface(total, 1.0, o, center, r, 1.0)
    return _rounded(total, k - 1000), 1000


@inlined
def _unscaled(n, d, k):
    """Return (n/d) * 2**k; what is not zero never becomes zero, and never infinite."""
    if n[0] == 0.0:
        return 0.0
    t = floats.scale_by(floats.dd_div(n, d)[0], k)
    if t == 0.0:
        return SMALLEST if (n[0] > 0.0) == (d[0] > 0.0) else -SMALLEST
    return max(min(t, LARGEST), -LARGEST)


@kernel
def sphere_interval(o, d, center, r):
    """Return (hit, near, far) of the line of a finite ray in a closed ball, for t of any sign."""
    # A hit is decided exactly; both ends are good to about an ulp. +inf and -inf for a miss.

    # Scale directions by 2**-k and lengths by 2**-e to about one; halves cannot overflow.
    half = minus(scaled(o, 0.5), scaled(center, 0.5))
    e = min(max(floats.exponent(max(floats.largest(half), 0.5 * r)) + 1, -1022), 1022)
    k = min(max(floats.exponent(floats.largest(d)), -1022), 1022)
    u = floats.unrounded(d, k)
    a = floats.dd_dot(u, u)

    m = floats.difference(o, center, -e)
    square = floats.two_product(r * floats.power_of_two(-e), r * floats.power_of_two(-e))
    usable = -REACH <= e <= REACH

    normal, normal_size = floats.dd_cross(u, m), floats.cross_size(floats.high(u), floats.high(m))
    f = floats.dd_sub(floats.dd_mul(a, square), floats.dd_dot(normal, normal))
    f_size = a[0] * square[0] + floats.dot_size(normal_size, normal_size)
    if usable and _is_accurate(f, f_size):
        side = floats.sign(f[0])
        root = _dd_sqrt((abs(f[0]), f[1]))
    else:
        side, root = _exact_root(o, d, center, r, k, e)
    if side < 0:
        return False, INF, -INF

    b = floats.dd_dot(u, m)
    if not (usable and _is_accurate(b, floats.dot_size(floats.high(u), floats.high(m)))):
        b = _exact_half_slope(o, d, center, k + e)
    if side == 0:
        t = _unscaled((-b[0], -b[1]), a, e - k)
        return True, t, t

    c, lift = floats.dd_sub(floats.dd_dot(m, m), square), 0
    if not (
        usable and _is_accurate(c, floats.dot_size(floats.high(m), floats.high(m)) + square[0])
    ):
        c, lift = _exact_surface(o, center, r, 2 * e)
    # Add what has the same sign, so that no root suffers from cancellation.
    if b[0] >= 0.0:
        q = floats.dd_add((-b[0], -b[1]), (-root[0], -root[1]))
        near, far = _unscaled(q, a, e - k), _unscaled(c, q, e - k - lift)
    else:
        q = floats.dd_sub(root, b)
        near, far = _unscaled(c, q, e - k - lift), _unscaled(q, a, e - k)
    return True, min(near, far), max(near, far)


@entry
def _ray_sphere(rays, balls, hits):
    """Test each ray against its own ball."""
    center, radius = balls
    hit, t_near, t_far = hits
    for i in range(len(hit)):
        o, d = floats.vector(rays.origins, i), floats.vector(rays.directions, i)
        m, r = floats.vector(center, i), radius[i, 0]
        hit[i], t_near[i], t_far[i] = False, INF, -INF
        # A ray or a ball that is not finite, or a ray without direction, misses.
        if floats.can_hit(o, d) and floats.finite(m) and 0.0 <= r < INF:
            interval = sphere_interval(o, d, m, r)
            hit[i], t_near[i], t_far[i] = clipped(interval, rays.t_min[i], rays.t_max[i])


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
        0 makes a point. One for all rays must be finite and not negative; of many, those that are
        not are misses.

    Returns
    -------
    hit, t_near, t_far
        As in `ray_box`, but good to two units in the last place, unless components of the
        direction, or of the positions, differ by a factor beyond 2**400. Both ends are equal where
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
