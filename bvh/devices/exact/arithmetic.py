"""Floating-point functions for device kernels: the same as `geometry.arithmetic.floats` has.

Every function gives, bit for bit, what its namesake for CPUs gives; they are written again because
Warp compiles them. A double-double is a ``vec2d``, high part first; a vector of them is two
``vec3d``, of high and of low parts. Nothing here may be contracted (see `is_contracted`).
"""

import warp as wp

from bvh.geometry.arithmetic import floats

f8, i8 = wp.float64, wp.int64

ZERO, ONE, TWO, FOUR = f8(0.0), f8(1.0), f8(2.0), f8(4.0)
INF = f8(float("inf"))
LARGEST, SMALLEST = f8(floats.LARGEST), f8(floats.SMALLEST)
DD_ERROR = f8(floats.DD_ERROR)
BIAS, LOW, HIGH = i8(1023), i8(-1022), i8(1023)
MANTISSA_BITS, EXPONENTS = i8(52), i8(0x7FF)
FAR_LOW, FAR_HIGH = i8(-2100), i8(2100)
NAN_BITS = i8(0x7FF8000000000000)

# Bounds of `round_quotient`: of errors, of quotients, and of the sizes of both numbers.
MORE = f8(1.01)
TINY_SHARE = f8(2.0**-40)
QUOTIENT_LEAST, QUOTIENT_MOST = f8(2.0**-900), f8(2.0**900)
SIZE_LEAST, SIZE_MOST = f8(2.0**-700), f8(2.0**700)


@wp.func
def is_contracted(x: wp.vec2d):
    """Return whether a module fuses products and sums, by a number and its rounded square."""
    return x[0] * x[0] - x[1] != ZERO


@wp.func
def nan():
    """Return the NaN of NumPy, by its bits: compilers for GPUs have others for the constant."""
    return wp.cast(NAN_BITS, wp.float64)


@wp.func
def exponent(x: wp.float64):
    """Return floor(log2(abs(x))) of a normal double; -1023 for zero and denormals."""
    return ((wp.cast(x, wp.int64) >> MANTISSA_BITS) & EXPONENTS) - BIAS


@wp.func
def power_of_two(k: wp.int64):
    """Return 2**k, k clamped to the normal range."""
    return wp.cast((wp.min(wp.max(k, LOW), HIGH) + BIAS) << MANTISSA_BITS, wp.float64)


@wp.func
def scale_by(x: wp.float64, k: wp.int64):
    """Return x * 2**k in steps, so that no factor over- or underflows alone."""
    k = wp.min(wp.max(k, FAR_LOW), FAR_HIGH)
    half = wp.min(wp.max(k, LOW), HIGH)
    rest = wp.min(wp.max(k - half, LOW), HIGH)
    return (x * power_of_two(half)) * power_of_two(rest) * power_of_two(k - half - rest)


@wp.func
def sign_of(x: wp.float64):
    """Return -1, 0 or 1."""
    return wp.where(x > ZERO, 1, 0) - wp.where(x < ZERO, 1, 0)


@wp.func
def largest(v: wp.vec3d):
    """Return the largest absolute component."""
    return wp.max(wp.abs(v[0]), wp.max(wp.abs(v[1]), wp.abs(v[2])))


@wp.func
def two_sum(a: wp.float64, b: wp.float64):
    """Return (s, e) with s = fl(a+b) and s + e = a + b exactly (Knuth)."""
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


@wp.func
def fast_two_sum(a: wp.float64, b: wp.float64):
    """Return (s, e) like `two_sum`, for abs(a) >= abs(b) or a = 0 (Dekker)."""
    s = a + b
    return s, b - (s - a)


# On GPUs by one fused operation, which has the remark `rest`: a test finds no other. Elsewhere by
# halves of 26 bits (Dekker, Veltkamp).
_REST = """
#if defined(__CUDA_ARCH__)
    double rest;
    asm("fma.rn.f64 %0, %1, %2, %3; // rest" : "=d"(rest) : "d"(a), "d"(b), "d"(-p));
    return rest;
#else
    const double c = 134217729.0 * a, a_high = c - (c - a), a_low = a - a_high;
    const double d = 134217729.0 * b, b_high = d - (d - b), b_low = b - b_high;
    return ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
"""


@wp.func_native(_REST)
def _rest(a: wp.float64, b: wp.float64, p: wp.float64) -> wp.float64:
    """Return a * b - p for p = fl(a*b), exactly, unless it underflows."""


@wp.func
def two_product(a: wp.float64, b: wp.float64):
    """Return (p, e) with p = fl(a*b) and p + e = a * b exactly, unless it underflows."""
    p = a * b
    return p, _rest(a, b, p)


@wp.func
def difference(a: wp.vec3d, b: wp.vec3d, k: wp.int64):
    """Return (high, low) of (a - b) * 2**k, exact unless it under- or overflows."""
    s = power_of_two(k)
    x, e = two_sum(a[0], -b[0])
    y, f = two_sum(a[1], -b[1])
    z, g = two_sum(a[2], -b[2])
    return wp.vec3d(x * s, y * s, z * s), wp.vec3d(e * s, f * s, g * s)


@wp.func
def cross(a: wp.vec3d, b: wp.vec3d):
    """Return the cross product, each operation rounded."""
    return wp.vec3d(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@wp.func
def dot(a: wp.vec3d, b: wp.vec3d):
    """Return the dot product, each operation rounded."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@wp.func
def cross_size(a: wp.vec3d, b: wp.vec3d):
    """Return the sum of the absolute terms of each component of a cross product."""
    return wp.vec3d(
        wp.abs(a[1] * b[2]) + wp.abs(a[2] * b[1]), wp.abs(a[2] * b[0]) + wp.abs(a[0] * b[2]),
        wp.abs(a[0] * b[1]) + wp.abs(a[1] * b[0]),
    )  # fmt: skip


@wp.func
def dot_size(a: wp.vec3d, b: wp.vec3d):
    """Return the sum of the absolute terms of a dot product."""
    return wp.abs(a[0] * b[0]) + wp.abs(a[1] * b[1]) + wp.abs(a[2] * b[2])


@wp.func
def difference_of_products(
    a: wp.float64, a_low: wp.float64, b: wp.float64, b_low: wp.float64,
    c: wp.float64, c_low: wp.float64, d: wp.float64, d_low: wp.float64,
):  # fmt: skip
    """Return (high, low, size) of a * b - c * d of double-doubles; size is |a b| + |c d|."""
    m, e = two_product(a, b)
    n, f = two_product(c, d)
    s, g = two_sum(m, -n)
    return (
        s,
        g + ((e - f) + ((a * b_low + a_low * b) - (c * d_low + c_low * d))),
        wp.abs(m) + wp.abs(n),
    )


@wp.func
def sized_cross(a: wp.vec3d, a_low: wp.vec3d, b: wp.vec3d, b_low: wp.vec3d):
    """Return (high, low, sizes) of the cross product of two vectors of double-doubles."""
    x, x_low, x_size = difference_of_products(
        a[1], a_low[1], b[2], b_low[2], a[2], a_low[2], b[1], b_low[1]
    )
    y, y_low, y_size = difference_of_products(
        a[2], a_low[2], b[0], b_low[0], a[0], a_low[0], b[2], b_low[2]
    )
    z, z_low, z_size = difference_of_products(
        a[0], a_low[0], b[1], b_low[1], a[1], a_low[1], b[0], b_low[0]
    )
    return wp.vec3d(x, y, z), wp.vec3d(x_low, y_low, z_low), wp.vec3d(x_size, y_size, z_size)


@wp.func
def sized_dot(n: wp.vec3d, n_low: wp.vec3d, sizes: wp.vec3d, a: wp.vec3d, a_low: wp.vec3d):
    """Return (double-double, size) of the dot product of `sized_cross` (n) with a vector a.

    The size is the sum of the absolute terms, by which DD_ERROR bounds the error.
    """
    x, ex = two_product(n[0], a[0])
    y, ey = two_product(n[1], a[1])
    z, ez = two_product(n[2], a[2])
    xy, f = two_sum(x, y)
    s, g = two_sum(xy, z)
    low = (
        (ex + (n[0] * a_low[0] + n_low[0] * a[0])) + (ey + (n[1] * a_low[1] + n_low[1] * a[1]))
        + (ez + (n[2] * a_low[2] + n_low[2] * a[2]))
    )  # fmt: skip
    size = sizes[0] * wp.abs(a[0]) + sizes[1] * wp.abs(a[1]) + sizes[2] * wp.abs(a[2])
    high, low = fast_two_sum(s, low + (f + g))
    return wp.vec2d(high, low), size


@wp.func
def round_quotient(n: wp.vec2d, n_size: wp.float64, d: wp.vec2d, d_size: wp.float64):
    """Return (decided, n / d) of two double-doubles, rounded correctly if decided."""
    # Decided if the quotient, changed by its largest error, rounds to the same double.
    inverse = ONE / d[0]
    q = n[0] * inverse
    size, reach = wp.abs(q), wp.abs(inverse)
    p, e = two_product(q, d[0])
    rest = (((n[0] - p) - e) + (n[1] - q * d[1])) * inverse
    error = DD_ERROR * ((n_size + size * d_size) * reach + FOUR * size)
    margin = MORE * error
    up = q + (rest + margin)
    down = q + (rest - margin)
    decided = (
        up == down
        and error < TINY_SHARE * size
        and size > QUOTIENT_LEAST
        and size < QUOTIENT_MOST
        and n_size > SIZE_LEAST
        and d_size > SIZE_LEAST
        and n_size < SIZE_MOST
        and d_size < SIZE_MOST
    )
    return decided, up


@wp.func
def dd_add(a: wp.vec2d, b: wp.vec2d):
    """Add two double-doubles (AccurateDWPlusDW)."""
    s_high, s_low = two_sum(a[0], b[0])
    t_high, t_low = two_sum(a[1], b[1])
    v_high, v_low = fast_two_sum(s_high, s_low + t_high)
    high, low = fast_two_sum(v_high, t_low + v_low)
    return wp.vec2d(high, low)


@wp.func
def dd_mul(a: wp.vec2d, b: wp.vec2d):
    """Multiply two double-doubles (DWTimesDW1)."""
    p, e = two_product(a[0], b[0])
    high, low = fast_two_sum(p, e + (a[0] * b[1] + a[1] * b[0]))
    return wp.vec2d(high, low)


@wp.func
def dd_div(a: wp.vec2d, b: wp.vec2d):
    """Divide two double-doubles (DWDivDW2)."""
    t_high = a[0] / b[0]
    p, e = two_product(t_high, b[0])
    p_high, p_low = fast_two_sum(p, e + t_high * b[1])
    delta = (a[0] - p_high) + (a[1] - p_low)
    high, low = fast_two_sum(t_high, delta / b[0])
    return wp.vec2d(high, low)


@wp.func
def _dd(v: wp.vec3d, low: wp.vec3d, i: int):
    return wp.vec2d(v[i], low[i])


@wp.func
def _minor(a: wp.vec3d, a_low: wp.vec3d, b: wp.vec3d, b_low: wp.vec3d, j: int, k: int):
    """Return a[j] * b[k] - a[k] * b[j] of double-doubles."""
    product = dd_mul(_dd(a, a_low, j), _dd(b, b_low, k))
    return dd_add(product, -dd_mul(_dd(a, a_low, k), _dd(b, b_low, j)))


@wp.func
def dd_cross(a: wp.vec3d, a_low: wp.vec3d, b: wp.vec3d, b_low: wp.vec3d):
    """Return (high, low) of the cross product of two vectors of double-doubles."""
    x, y = _minor(a, a_low, b, b_low, 1, 2), _minor(a, a_low, b, b_low, 2, 0)
    z = _minor(a, a_low, b, b_low, 0, 1)
    return wp.vec3d(x[0], y[0], z[0]), wp.vec3d(x[1], y[1], z[1])


@wp.func
def dd_dot(a: wp.vec3d, a_low: wp.vec3d, b: wp.vec3d, b_low: wp.vec3d):
    """Return the dot product of two vectors of double-doubles."""
    x, y = dd_mul(_dd(a, a_low, 0), _dd(b, b_low, 0)), dd_mul(_dd(a, a_low, 1), _dd(b, b_low, 1))
    return dd_add(dd_add(x, y), dd_mul(_dd(a, a_low, 2), _dd(b, b_low, 2)))
