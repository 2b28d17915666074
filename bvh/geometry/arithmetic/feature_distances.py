"""Distances from a point to a vertex, an edge and the plane of a face, as (distance, exponent).

A pair (d, e) is the distance d * 2**e, so that none over- or underflows. It is computed from exact
differences of coordinates, as double-doubles, and is rounded once at the end. Where double-doubles
do not give the distance from a plane or an edge to a few units in the last place, the volume or
area that the distance is computed from is summed exactly.
"""

import numpy as np

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.exact_sums import add_product, add_triple, leading, new_sum
from bvh.geometry.arithmetic.floats import LARGEST, SMALLEST
from bvh.geometry.arithmetic.vectors import dot, scaled
from bvh.runtime.jit import inlined, kernel, stay_outlined

# Cross products of double-doubles, and dot products with them, lose less than 2**-98 of the sizes
# of their terms. A result of at least 2**-45 of these is accurate to 2**-53, with a wide margin.
KEPT = 2.0**-45
# Vectors of this length may have overflowed; products below UNDERFLOW may have lost digits.
GREAT, UNDERFLOW = 2.0**1000, 2.0**-900


@inlined
def as_double(d, e):
    """Return d * 2**e for d >= 0, between the smallest and the largest double unless d is 0."""
    return min(max(floats.scale_by(d, e), SMALLEST), LARGEST) if d > 0.0 else 0.0


# The square root of a double-double that is not negative, rounded to a double.
root_of = inlined(lambda x: floats.dd_sqrt(x)[0] if x[0] != 0.0 else 0.0)
# A double-double, or a vector of them, times a power of two.
_times = inlined(lambda x, s: (x[0] * s, x[1] * s))
_all_times = inlined(lambda v, s: (_times(v[0], s), _times(v[1], s), _times(v[2], s)))


@inlined
def square_of(v):
    """Return (s, e): |v|**2 is s * 2**(2 e), for double-doubles s and the components of v."""
    # Scaled to a largest component of about 1, squares do not overflow.
    e = floats.exponent(floats.largest(floats.high(v)))
    w = _all_times(v, floats.power_of_two(-e))
    return floats.dd_dot(w, w), e


@kernel
def exact_cross(p, q, r, s):
    """Return (n, e): (q - p) x (s - r) is n * 2**e, to 2**-63 of its largest component.

    n is a vector of double-doubles; p, q, r and s are points of doubles.
    """
    # Expand it to q x s - q x r - p x s + p x r, and sum that exactly.
    stay_outlined()
    x, y, z = new_sum(), new_sum(), new_sum()
    for factor, f, g in ((1.0, q, s), (-1.0, q, r), (-1.0, p, s), (1.0, p, r)):
        add_product(x, factor, f[1], g[2], 1.0, 1.0)
        add_product(x, -factor, f[2], g[1], 1.0, 1.0)
        add_product(y, factor, f[2], g[0], 1.0, 1.0)
        add_product(y, -factor, f[0], g[2], 1.0, 1.0)
        add_product(z, factor, f[0], g[1], 1.0, 1.0)
        add_product(z, -factor, f[1], g[0], 1.0, 1.0)
    (x, i), (y, j), (z, k) = leading(x), leading(y), leading(z)
    e = max(i, max(j, k))
    power = floats.power_of_two
    return (_times(x, power(i - e)), _times(y, power(j - e)), _times(z, power(k - e))), e


@kernel
def exact_volume_of(p, a, b, c):
    """Return (v, e): ((b - a) x (c - a)) . (p - a) is v * 2**e, to 2**-63, v a double-double."""
    # Expand it to p . (a x b) + p . (b x c) + p . (c x a) - a . (b x c), and sum that exactly.
    stay_outlined()
    total = new_sum()
    for factor, x, y, z in ((-1.0, a, b, c), (1.0, p, a, b), (1.0, p, b, c), (1.0, p, c, a)):
        add_triple(total, factor, x, y, z)
    return leading(total)


@kernel
def height_over_base(volume, e, n, f):
    """Return (distance, exponent): the height of a volume over its base, abs(volume) / |normal|.

    The volume is `volume` * 2**e, a double-double; the normal of the base is n * 2**f, a vector of
    double-doubles. The height is distance * 2**exponent.
    """
    stay_outlined()
    if volume[0] == 0.0:
        return 0.0, np.int64(0)
    k = floats.exponent(abs(volume[0]))
    volume = _times(volume, floats.power_of_two(-k))
    square, scale = square_of(n)
    return root_of(floats.dd_div(floats.dd_mul(volume, volume), square)), k + e - scale - f


@inlined
def offset(p, q):
    """Return (v, e): p - q is v * 2**e, exactly but for underflow.

    The largest component of v, a vector of double-doubles, is about 1, or 0 for equal points.
    """
    # Quarters of the points cannot overflow.
    v, e = floats.difference(p, q, 0), np.int64(0)
    if not floats.largest(floats.high(v)) < GREAT:
        v, e = floats.difference(scaled(p, 0.25), scaled(q, 0.25), 0), np.int64(2)
    k = min(max(floats.exponent(floats.largest(floats.high(v))), -1022), 1022)
    return _all_times(v, floats.power_of_two(-k)), e + k


@kernel
def to_edge(p, a, b):
    """Return (distance, exponent, t) of p from the edge (a, b), with the nearest point a + t (b-a).

    The distance is distance * 2**exponent. An edge without length is the point a, with t = 0.
    """
    stay_outlined()
    # The vectors p - a, p - b and b - a are pa * 2**i, pb * 2**j and e * 2**k.
    (pa, i), (pb, j), (e, k) = offset(p, a), offset(p, b), offset(b, a)
    # A wrong sign, next to the end of the edge, changes the distance by less than rounding does.
    at_a, at_b = dot(floats.high(pa), floats.high(e)), dot(floats.high(pb), floats.high(e))
    if at_a <= 0.0 or at_b >= 0.0:
        near, i, t = (pa, i, 0.0) if at_a <= 0.0 else (pb, j, 1.0)
        square, scale = square_of(near)
        return root_of(square), scale + i, t
    # Between the ends: the distance is that from the line, |(p - a) x (b - a)| / |b - a|. From here
    # on i is the exponent of the cross product, `across` * 2**i.
    t = min(floats.scale_by(at_a / dot(floats.high(e), floats.high(e)), i - k), 1.0)
    across, i = floats.dd_cross(pa, e), i + k
    size = floats.largest(floats.cross_size(floats.high(pa), floats.high(e)))
    if floats.largest(floats.high(across)) < KEPT * size + UNDERFLOW:
        across, i = exact_cross(a, p, a, b)
    if floats.largest(floats.high(across)) == 0.0:
        return 0.0, i, t
    square, scale = square_of(across)
    length, e_scale = square_of(e)
    return root_of(floats.dd_div(square, length)), scale - e_scale + i - k, t


@kernel
def to_corner(p, corner, k):
    """Return (distance, exponent): the distance of p from a corner is distance * 2**exponent.

    2**k brings the difference of the points to about 1, so that its square is in range.
    """
    stay_outlined()
    square, scale = square_of(floats.difference(p, corner, k))
    return root_of(square), scale - k


@kernel
def face_normal(v0, v1, v2, k):
    """Return (n, sizes): the normal (v1-v0) x (v2-v0) times 2**(2 k), and its terms' sizes.

    n is a vector of double-doubles. 2**k brings the face's edges to about 1. `sizes` are sums of
    absolute terms (`floats.cross_size`).
    """
    stay_outlined()
    ab, ac = floats.difference(v1, v0, k), floats.difference(v2, v0, k)
    return floats.dd_cross(ab, ac), floats.cross_size(floats.high(ab), floats.high(ac))


@kernel
def to_plane(p, v0, v1, v2, k, n, n_size, a):
    """Return (distance, exponent): p is distance * 2**exponent from the plane of a face with area.

    2**k brings lengths to about 1. `n` and `n_size` are what `face_normal` returns for k; `a` is
    (p - v0) * 2**k in double-doubles.
    """
    stay_outlined()
    volume, e, f = floats.dd_dot(n, a), -3 * k, -2 * k
    size = floats.dot_size(n_size, floats.high(a))
    if abs(volume[0]) < KEPT * size:
        volume, e = exact_volume_of(p, v0, v1, v2)
    if floats.largest(floats.high(n)) < KEPT * floats.largest(n_size):
        n, f = exact_cross(v0, v1, v0, v2)
    return height_over_base(volume, e, n, f)
