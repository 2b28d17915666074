"""Distances of points from spheres and capsules, to 4 units in the last place, and nearest points.

A capsule is the set of points within `radius` of its axis, from a to b; a sphere is one with a = b.
Distances from its surface are negative inside.

A point at a distance d from the centre or axis is d - r = (d**2 - r**2) / (d + r) away from the
surface. Only the numerator cancels: it is computed in double-doubles, or by exact sums.
"""

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.exact_sums import (
    add_sums,
    difference_terms,
    leading,
    new_sum,
    take_sign,
    term,
)
from bvh.geometry.arithmetic.feature_distances import offset, to_edge
from bvh.geometry.arithmetic.floats import LARGEST, SMALLEST, cross_size, dot_size, largest
from bvh.geometry.arithmetic.vectors import cross, dot, minus, moved_along, scaled
from bvh.geometry.capsules import frame_of, is_decided
from bvh.geometry.spheres import REACH, exact_surface, is_accurate, length_exponent
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import sqrt

# Used for a ray's direction: `frame_of` does not scale it, so that its e is the scale of lengths.
UNSCALED = (0.5, 0.0, 0.0)
# k such that all numbers times 2**-k have differences that do not overflow: 30, or 0 as a rule.
_shift_of = inlined(
    lambda p, a, b, radius: 30 if max(floats.reach_of(p, a, b), radius) > 2.0**990 else 0
)


@inlined
def _as_distance(n, d, e):
    """Return n / d * 2**e of doubles n and d > 0; it is 0 only for n = 0, and never infinite."""
    if n == 0.0:
        return 0.0
    size = min(max(floats.scale_by(abs(n) / d, e), SMALLEST), LARGEST)
    return size if n > 0.0 else -size


@kernel
def _to_sphere(p, center, radius, shift):
    """Return 2**shift times the signed distance of a point from a sphere, negative inside."""
    # (|m|**2 - r**2) / (|m| + r), for m = p - center.
    stay_outlined()
    e = length_exponent(p, center, radius)
    r = radius * floats.power_of_two(-e)
    m, square = floats.difference(p, center, -e), floats.two_product(r, r)
    square_of_m, h = floats.dd_dot(m, m), floats.high(m)
    # The numerator is c * 2**f.
    c, f = floats.dd_sub(square_of_m, square), 2 * e
    if not (-REACH <= e <= REACH and is_accurate(c, floats.dot_size(h, h) + square[0])):
        c, f = exact_surface(p, center, radius)
    return _as_distance(c[0], sqrt(square_of_m[0]) + r, f - e + shift)


@kernel
def _is_beyond(p, a, b):
    """Return whether the point of the axis a, b nearest to p is a: exactly, (p-a).(b-a) <= 0."""
    stay_outlined()
    # v = b - a and m = p - a, each times a power of two, which does not change the sign.
    _, v, m, _, usable, _ = frame_of(p, UNSCALED, a, b, 0.0)
    value = floats.dd_dot(m, v)
    if usable and is_decided(value, dot_size(floats.high(m), floats.high(v))):
        return value[0] <= 0.0
    total, one = new_sum(), term(1.0)
    for i in range(3):
        add_sums(total, difference_terms(p, a, i), difference_terms(b, a, i), one, one)
    return take_sign(total) <= 0


@kernel
def signed_distance(p, a, b, radius):
    """Return the distance of a finite point from a capsule around the axis a, b, negative inside.

    It is within 4 units in the last place, 0 on the surface alone, and finite.
    """
    # Between the ends, the distance from the axis less the radius r is
    # F / (|v| (|m x v| + r |v|)), with F = |m x v|**2 - r**2 v.v, m = p - a and v = b - a. Lengths
    # are divided by 2**shift, lest they overflow.
    stay_outlined()
    shift = _shift_of(p, a, b, radius)
    unit = floats.power_of_two(-shift)
    p, a, b, radius = scaled(p, unit), scaled(a, unit), scaled(b, unit), radius * unit
    if a == b or _is_beyond(p, a, b):
        return _to_sphere(p, a, radius, shift)
    if _is_beyond(p, b, a):
        return _to_sphere(p, b, radius, shift)
    _, v, m, r, usable, e = frame_of(p, UNSCALED, a, b, radius)
    length = floats.dd_dot(v, v)
    n, n_size = floats.dd_cross(m, v), cross_size(floats.high(m), floats.high(v))
    square = floats.dd_mul(floats.two_product(r, r), length)
    across = floats.dd_dot(n, n)
    c = floats.dd_sub(across, square)
    if not (usable and is_accurate(c, floats.dot_size(n_size, n_size) + square[0])):
        return _to_side(p, a, b, radius, shift)
    side = sqrt(length[0])
    return _as_distance(c[0], side * (sqrt(across[0]) + r * side), e + shift)


@kernel
def _to_side(p, a, b, radius, shift):
    """Return 2**shift times the distance of `signed_distance`, from F by exact sums.

    The nearest point of the axis is between its ends a and b.
    """
    # F / (v.v (d + r)), with the distance d from the axis: c * 2**g is F, den * 2**e is d + r, and
    # v * 2**k the vector of the axis. |m x v|**2 is the sum of m[i]**2 v[j]**2 - m[i] v[i] m[j]
    # v[j] over all i and j.
    stay_outlined()
    total = new_sum()
    for i in range(3):
        m, v = difference_terms(p, a, i), difference_terms(b, a, i)
        add_sums(total, term(-radius), term(radius), v, v)
        for j in range(3):
            n, w = difference_terms(p, a, j), difference_terms(b, a, j)
            add_sums(total, m, m, w, w)
            add_sums(total, m, (-n[0], -n[1]), v, w)
    c, g = leading(total)
    if c[0] == 0.0:
        return 0.0
    d, f, _ = to_edge(p, a, b)
    v, k = offset(b, a)
    e = max(floats.exponent(d) + f, floats.exponent(radius))
    den = floats.scale_by(d, f - e) + floats.scale_by(radius, -e)
    return _as_distance(c[0], floats.dd_dot(v, v)[0] * den, g - 2 * k - e + shift)


@inlined
def _by_largest(v):
    """Return a vector divided by its largest component, which is not 0."""
    # The reciprocals of the smallest doubles are infinite: scale small vectors up first.
    up = 2.0**200 if largest(v) < 2.0**-900 else 1.0
    return scaled(scaled(v, up), 1.0 / (largest(v) * up))


@kernel
def nearest_on_surface(p, a, b, radius):
    """Return the point of the surface of a capsule with the axis a, b nearest to p, rounded.

    A point p on the axis has several nearest points; any one of them is returned.
    """
    stay_outlined()
    shift = _shift_of(p, a, b, radius)
    unit, back = floats.power_of_two(-shift), floats.power_of_two(shift)
    p, a, b, radius = scaled(p, unit), scaled(a, unit), scaled(b, unit), radius * unit
    v, foot = minus(b, a), a
    size = largest(v)
    if size > 0.0:
        u = _by_largest(v)
        along = (dot(minus(p, a), u) / dot(u, u)) / size
        if along > 0.0:
            foot = moved_along(a, v, min(along, 1.0))
    away = minus(p, foot)
    if largest(away) == 0.0:
        # From a point of the axis, any direction across it leads to the surface: cross the axis
        # with the coordinate axis along which it is shortest.
        away, least = (1.0, 0.0, 0.0), min(abs(v[0]), min(abs(v[1]), abs(v[2])))
        if size > 0.0:
            x, y = 1.0 if abs(v[0]) == least else 0.0, 1.0 if abs(v[1]) == least else 0.0
            away = cross(v, (x, 0.0 if x else y, 0.0 if x or y else 1.0))
    away = _by_largest(away)
    far = radius / sqrt(dot(away, away))
    return scaled(moved_along(foot, away, far), back)
