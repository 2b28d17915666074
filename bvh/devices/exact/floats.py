"""Floating-point functions for device kernels: the same as `geometry.arithmetic.floats` has.

Every function gives, bit for bit, what its namesake for CPUs gives; they are written again because
Warp compiles them. A double-double is a ``vec2d``, high part first; a vector of them is a `dd3`, a
matrix with one in each row. `dd_add`, `dd_mul` and `dd_div` are of Joldes, Muller and Popescu 2017,
"Tight and rigorous error bounds for basic building blocks of double-word arithmetic". Products and
sums must not be contracted (see `is_contracted`), so modules of kernels have `OPTIONS`.
"""

import warp as wp

from bvh.geometry.arithmetic import floats

OPTIONS = {"fuse_fp": False, "enable_backward": False, "fast_math": False}

f4, f8, i8 = wp.float32, wp.float64, wp.int64
dd3 = wp.types.matrix(shape=(3, 2), dtype=wp.float64)

ZERO, ONE, TWO, FOUR = f8(0.0), f8(1.0), f8(2.0), f8(4.0)
ZERO4, ONE4 = f4(0.0), f4(1.0)
INF = f8(float("inf"))
LARGEST, SMALLEST = f8(floats.LARGEST), f8(floats.SMALLEST)
DD_ERROR = f8(floats.DD_ERROR)
MANTISSA_BITS, NAN_BITS = i8(52), i8(0x7FF8000000000000)

# Of `round_quotient`: a factor for the rounding of its error bound; the largest relative error; and
# the ranges of quotients and of the sizes of both numbers.
MORE = f8(1.01)
TINY_SHARE = f8(2.0**-40)
QUOTIENT_LEAST, QUOTIENT_MOST = f8(2.0**-900), f8(2.0**900)
SIZE_LEAST, SIZE_MOST = f8(2.0**-700), f8(2.0**700)


@wp.func
def is_contracted(x: wp.vec2d):
    """Return whether the module that calls this fuses products and sums, for x = (y, fl(y * y)).

    A fused operation computes the rounding error of y * y, which is not 0 for the y in use.
    """
    return x[0] * x[0] - x[1] != ZERO


@wp.func
def nan():
    """Return the NaN of NumPy, by its bits: compilers for GPUs have others for the constant."""
    return wp.cast(NAN_BITS, wp.float64)


@wp.func
def exponent(x: wp.float64):
    """Return floor(log2(abs(x))); -1023 for zero and denormals, 1024 for infinities and NaN."""
    return (wp.int32(wp.cast(x, wp.int64) >> MANTISSA_BITS) & 0x7FF) - 1023


@wp.func
def power_of_two(k: int):
    """Return 2**k, k clamped to the normal range."""
    return wp.cast(wp.int64(wp.min(wp.max(k, -1022), 1023) + 1023) << MANTISSA_BITS, wp.float64)


@wp.func
def scale_by(x: wp.float64, k: int):
    """Return x * 2**k, in steps: no factor overflows or underflows where the product does not."""
    # Beyond 2100 the product is 0 or infinite whatever x is.
    k = wp.min(wp.max(k, -2100), 2100)
    half = wp.min(wp.max(k, -1022), 1023)
    rest = wp.min(wp.max(k - half, -1022), 1023)
    return (x * power_of_two(half)) * power_of_two(rest) * power_of_two(k - half - rest)


@wp.func
def sign_of(x: wp.float64):
    """Return the sign of x, -1, 0 or 1; 0 for NaN."""
    return wp.where(x > ZERO, 1, 0) - wp.where(x < ZERO, 1, 0)


@wp.func
def largest(v: wp.vec3d):
    """Return the largest absolute value of a vector's components."""
    return wp.max(wp.abs(v[0]), wp.max(wp.abs(v[1]), wp.abs(v[2])))


@wp.func
def sum_of(v: wp.vec3d):
    """Return the sum of the absolute values of a vector's components."""
    return wp.abs(v[0]) + wp.abs(v[1]) + wp.abs(v[2])


@wp.func
def cross_size(a: wp.vec3d, b: wp.vec3d):
    """Return for each component of a x b the sum of the absolute values of its two products."""
    return wp.vec3d(
        wp.abs(a[1] * b[2]) + wp.abs(a[2] * b[1]), wp.abs(a[2] * b[0]) + wp.abs(a[0] * b[2]),
        wp.abs(a[0] * b[1]) + wp.abs(a[1] * b[0]),
    )  # fmt: skip


@wp.func
def dot_size(a: wp.vec3d, b: wp.vec3d):
    """Return the sum of the absolute values of the three products of a . b."""
    return wp.dot(wp.abs(a), wp.abs(b))


@wp.func
def two_sum(a: wp.float64, b: wp.float64):
    """Return (s, e) with s = fl(a+b) and s + e = a + b exactly (Knuth)."""
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


@wp.func
def fast_two_sum(a: wp.float64, b: wp.float64):
    """Return a + b as a double-double, for abs(a) >= abs(b) or a = 0 (Dekker)."""
    s = a + b
    return wp.vec2d(s, b - (s - a))


# On GPUs by one fused operation with the remark `rest`; a test rejects all without one. Elsewhere
# by halves of 26 bits (Dekker, Veltkamp).
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
def high(a: dd3):
    """Return the high parts of a vector of double-doubles."""
    return wp.vec3d(a[0, 0], a[1, 0], a[2, 0])


@wp.func
def unrounded(v: wp.vec3d):
    """Return a vector of doubles as one of double-doubles."""
    return dd3(v[0], ZERO, v[1], ZERO, v[2], ZERO)


@wp.func
def difference(a: wp.vec3d, b: wp.vec3d, k: int):
    """Return (a - b) * 2**k as double-doubles, exact unless it under- or overflows."""
    s = power_of_two(k)
    x, e = two_sum(a[0], -b[0])
    y, f = two_sum(a[1], -b[1])
    z, g = two_sum(a[2], -b[2])
    return dd3(x * s, e * s, y * s, f * s, z * s, g * s)


@wp.func
def _across(a: wp.vec2d, b: wp.vec2d):
    """Return the cross terms of a * b: the products of high with low parts."""
    return a[0] * b[1] + a[1] * b[0]


@wp.func
def difference_of_products(a: wp.vec2d, b: wp.vec2d, c: wp.vec2d, d: wp.vec2d):
    """Return (a * b - c * d, size), a double-double and |a b| + |c d| of the high parts.

    By DD_ERROR the size bounds the error. The product of low parts is left out.
    """
    m, e = two_product(a[0], b[0])
    n, f = two_product(c[0], d[0])
    s, g = two_sum(m, -n)
    low = g + ((e - f) + (_across(a, b) - _across(c, d)))
    return wp.vec2d(s, low), wp.abs(m) + wp.abs(n)


@wp.func
def sized_cross(a: dd3, b: dd3):
    """Return (a x b, sizes) of vectors of double-doubles; `sizes` are as of `cross_size`."""
    x, x_size = difference_of_products(a[1], b[2], a[2], b[1])
    y, y_size = difference_of_products(a[2], b[0], a[0], b[2])
    z, z_size = difference_of_products(a[0], b[1], a[1], b[0])
    return dd3(x[0], x[1], y[0], y[1], z[0], z[1]), wp.vec3d(x_size, y_size, z_size)


@wp.func
def sized_dot(n: dd3, sizes: wp.vec3d, a: dd3):
    """Return (n . a, size) for a result (n, sizes) of `sized_cross`: a double-double and its size.

    The size is the sum of the absolute values of all products; the error is at most DD_ERROR of it.
    """
    x, ex = two_product(n[0, 0], a[0, 0])
    y, ey = two_product(n[1, 0], a[1, 0])
    z, ez = two_product(n[2, 0], a[2, 0])
    xy, f = two_sum(x, y)
    s, g = two_sum(xy, z)
    low = (ex + _across(n[0], a[0])) + (ey + _across(n[1], a[1])) + (ez + _across(n[2], a[2]))
    size = wp.dot(sizes, wp.abs(high(a)))
    return fast_two_sum(s, low + (f + g)), size


@wp.func
def round_quotient(n: wp.vec2d, n_size: wp.float64, d: wp.vec2d, d_size: wp.float64):
    """Return (decided, n / d) of two double-doubles; the quotient is correctly rounded if decided.

    The errors of n and d are at most DD_ERROR times `n_size` and `d_size`.
    """
    # It is decided if the quotient, changed by its largest error, rounds to the same double, and
    # if no number is so large or small that a product of the bound may overflow or underflow.
    inverse = ONE / d[0]
    q = n[0] * inverse
    size, reach = wp.abs(q), wp.abs(inverse)
    p, e = two_product(q, d[0])
    rest = (((n[0] - p) - e) + (n[1] - q * d[1])) * inverse
    error = DD_ERROR * ((n_size + size * d_size) * reach + FOUR * size)
    margin = MORE * error
    up = q + (rest + margin)
    down = q + (rest - margin)
    decided = up == down and error < TINY_SHARE * size
    decided = decided and size > QUOTIENT_LEAST and size < QUOTIENT_MOST
    decided = decided and n_size > SIZE_LEAST and n_size < SIZE_MOST
    return decided and d_size > SIZE_LEAST and d_size < SIZE_MOST, up


@wp.func
def dd_add(a: wp.vec2d, b: wp.vec2d):
    """Return a + b of double-doubles (AccurateDWPlusDW)."""
    s_high, s_low = two_sum(a[0], b[0])
    t_high, t_low = two_sum(a[1], b[1])
    v = fast_two_sum(s_high, s_low + t_high)
    return fast_two_sum(v[0], t_low + v[1])


@wp.func
def dd_mul(a: wp.vec2d, b: wp.vec2d):
    """Return a * b of double-doubles (DWTimesDW1)."""
    p, e = two_product(a[0], b[0])
    return fast_two_sum(p, e + _across(a, b))


@wp.func
def dd_div(a: wp.vec2d, b: wp.vec2d):
    """Return a / b of double-doubles (DWDivDW2)."""
    q = a[0] / b[0]
    p, e = two_product(q, b[0])
    v = fast_two_sum(p, e + q * b[1])
    delta = (a[0] - v[0]) + (a[1] - v[1])
    return fast_two_sum(q, delta / b[0])


@wp.func
def dd_cross(a: dd3, b: dd3):
    """Return the cross product of two vectors of double-doubles."""
    x = dd_add(dd_mul(a[1], b[2]), -dd_mul(a[2], b[1]))
    y = dd_add(dd_mul(a[2], b[0]), -dd_mul(a[0], b[2]))
    z = dd_add(dd_mul(a[0], b[1]), -dd_mul(a[1], b[0]))
    return dd3(x[0], x[1], y[0], y[1], z[0], z[1])


@wp.func
def dd_dot(a: dd3, b: dd3):
    """Return the dot product of two vectors of double-doubles."""
    return dd_add(dd_add(dd_mul(a[0], b[0]), dd_mul(a[1], b[1])), dd_mul(a[2], b[2]))
