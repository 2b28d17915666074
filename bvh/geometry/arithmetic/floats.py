"""Floating-point functions for kernels: bits, powers of two, error-free transformations.

A *double-double* is an unevaluated sum of two doubles, high part first; its operations lose about
2**-102 of their operands' magnitudes (Joldes, Muller, Popescu 2017, "Tight and rigorous error
bounds for basic building blocks of double-word arithmetic"). Every filter of this package states
its error bound where it is used, and leaves what it cannot decide to exact sums.
"""

import numpy as np

from bvh.runtime.compiler.code_types import Operation, Type, TypingContext
from bvh.runtime.compiler.lazy_modules import ir, types
from bvh.runtime.jit import by_type, emits, inlined, llvm_operation
from bvh.runtime.simd import HAS_FMA, as_floats, as_ints, fused, peek, sqrt

INF = np.inf
NAN = np.nan
LARGEST = np.finfo(np.float64).max
SMALLEST = np.nextafter(0.0, 1.0)

# Bound of the errors of the package's double-double expressions, as a share of the sizes of their
# terms: `sized_dot` loses up to 38 * 2**-106, the longest expression of `capsules` up to 62.
DD_ERROR = 2.0**-100


@llvm_operation
def bits(typingctx: TypingContext, x: Type) -> Operation:
    """Return the 64 bits of a double as an integer."""
    return types.int64(types.float64), emits(lambda b, x: b.bitcast(x, ir.IntType(64)))


@llvm_operation
def from_bits(typingctx: TypingContext, x: Type) -> Operation:
    """Return the double with the given 64 bits."""
    return types.float64(types.int64), emits(lambda b, x: b.bitcast(x, ir.DoubleType()))


# The larger of a and b; a if b is NaN. If a is NaN, b is never larger: the result is NaN.
lose_nan_max = inlined(lambda a, b: b if b > a else a)
# The smaller of a and b; a if b is NaN.
lose_nan_min = inlined(lambda a, b: b if b < a else a)
# The sign of a number: -1, 0 or 1; 0 for NaN.
sign = inlined(lambda x: (1 if x > 0 else 0) - (1 if x < 0 else 0))
# floor(log2(abs(x))) of a normal double; -1023 for zero and denormals.
exponent = inlined(lambda x: ((bits(x) >> 52) & 0x7FF) - 1023)
# The k of the least power of two 2**k above a size, clamped to -1022..1022.
power_above = inlined(lambda size: min(max(exponent(size) + 1, -1022), 1022))
# 2.0**k, where k is clamped to the exponents of normal doubles, -1022..1023.
power_of_two = inlined(lambda k: from_bits((min(max(k, -1022), 1023) + 1023) << 52))


@inlined
def sign_beyond(value, error):
    """Return the sign of a value; 0 where its error, also NaN or inf, could have changed it."""
    if abs(value) > error:
        return 1 if value > 0.0 else -1
    return 0


@inlined
def scale_by(x, k):
    """Return x * 2**k for any integer k, exactly unless the result is denormal or overflows."""
    # By three powers of two, as one that is a double may not suffice. All have exponents of the
    # sign of k: where the result does not overflow, no step does. Beyond 2100, any x but 0 becomes
    # infinite or 0.
    k = min(max(k, -2100), 2100)
    half = min(max(k, -1022), 1023)
    rest = min(max(k - half, -1022), 1023)
    return (x * power_of_two(half)) * power_of_two(rest) * power_of_two(k - half - rest)


@inlined
def next_above(x):
    """Return the least float32 above x; x itself if that is inf or NaN."""
    # The bits of positive floats are in order; those of negative ones in the reverse order. Adding
    # 0.0 turns -0.0 into 0.0.
    word = as_ints(x + np.float32(0.0))
    return as_floats(np.int32(word + (1 if word >= 0 else -1))) if x < INF else x


# The largest absolute component of a 3-tuple.
largest = inlined(lambda v: max(abs(v[0]), max(abs(v[1]), abs(v[2]))))


@inlined
def vector(array, i):
    """Return row i of an array of shape (n, 3), or of a pointer to its numbers, as a 3-tuple."""
    return (peek(array, 3 * i), peek(array, 3 * i + 1), peek(array, 3 * i + 2))


@inlined
def row_of(array, at):
    """Return the four numbers from flat index `at` on, a row of an affine map or a plane."""
    return peek(array, at), peek(array, at + 1), peek(array, at + 2), peek(array, at + 3)


# The largest absolute component of three 3-tuples, such as the vertices of a triangle.
reach_of = inlined(lambda a, b, c: max(largest(a), max(largest(b), largest(c))))
# The smaller components of two vectors.
lower_of = inlined(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]), min(a[2], b[2])))
# The larger components of two vectors.
upper_of = inlined(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2])))


@inlined
def finite(v):
    """Return whether all components of a 3-tuple are finite (0 * inf and 0 * NaN are NaN)."""
    # The first test, of the sum, fails for finite components if they overflow together.
    return (v[0] + v[1] + v[2]) * 0.0 == 0.0 or (
        v[0] * 0.0 == 0.0 and v[1] * 0.0 == 0.0 and v[2] * 0.0 == 0.0
    )


# Whether a ray is finite and its direction is not zero.
can_hit = inlined(lambda o, d: finite(o) and finite(d) and largest(d) > 0.0)


@inlined
def two_sum(a, b):
    """Return (s, e) with s = fl(a+b) and s + e = a + b exactly (Knuth)."""
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


@inlined
def fast_two_sum(a, b):
    """Return (s, e) with s = fl(a+b) and s + e = a + b exactly (Dekker).

    abs(a) must be at least abs(b), or a 0, which `two_sum`, slower, does not require.
    """
    s = a + b
    return s, b - (s - a)


if HAS_FMA:

    @inlined
    def two_product(a, b):
        """Return (p, e) with p = fl(a*b) and p + e = a * b exactly, unless it underflows."""
        p = a * b
        return p, fused(a, b, -p)

else:

    @inlined
    def two_product(a, b):
        """Return (p, e) with p = fl(a*b) and p + e = a * b exactly (Dekker, Veltkamp)."""
        p = a * b
        # Split each factor, by 2**27 + 1, into two halves of 26 bits: their products are exact.
        c = 134217729.0 * a
        ah = c - (c - a)
        al = a - ah
        c = 134217729.0 * b
        bh = c - (c - b)
        bl = b - bh
        return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@inlined
def dd_add(a, b):
    """Add two double-doubles; error below 3 * 2**-106 of the sum (AccurateDWPlusDW)."""
    sh, sl = two_sum(a[0], b[0])
    th, tl = two_sum(a[1], b[1])
    vh, vl = fast_two_sum(sh, sl + th)
    return fast_two_sum(vh, tl + vl)


# Subtract two double-doubles.
dd_sub = inlined(lambda a, b: dd_add(a, (-b[0], -b[1])))


@inlined
def dd_mul(a, b):
    """Multiply two double-doubles; error below 7 * 2**-106 of the product (DWTimesDW1)."""
    p, e = two_product(a[0], b[0])
    return fast_two_sum(p, e + (a[0] * b[1] + a[1] * b[0]))


@inlined
def dd_div(a, b):
    """Divide two double-doubles; error below 15 * 2**-106 of the quotient (DWDivDW2)."""
    th = a[0] / b[0]
    p, e = two_product(th, b[0])
    ph, pl = fast_two_sum(p, e + th * b[1])
    delta = (a[0] - ph) + (a[1] - pl)
    return fast_two_sum(th, delta / b[0])


@inlined
def dd_sqrt(a):
    """Return the square root of a positive double-double, by a step of Newton's method."""
    s = sqrt(a[0])
    p, e = two_product(s, s)
    return fast_two_sum(s, (((a[0] - p) - e) + a[1]) / (2.0 * s))


@inlined
def dd_cross(a, b):
    """Return the cross product of two vectors of double-doubles."""
    return (
        dd_sub(dd_mul(a[1], b[2]), dd_mul(a[2], b[1])),
        dd_sub(dd_mul(a[2], b[0]), dd_mul(a[0], b[2])),
        dd_sub(dd_mul(a[0], b[1]), dd_mul(a[1], b[0])),
    )


@inlined
def dd_dot(a, b):
    """Return the dot product of two vectors of double-doubles."""
    return dd_add(dd_add(dd_mul(a[0], b[0]), dd_mul(a[1], b[1])), dd_mul(a[2], b[2]))


@inlined
def cross_size(a, b):
    """Return, for each component of a x b, the sum of its two terms' absolute values."""
    x, y, z = abs(a[1] * b[2]), abs(a[2] * b[0]), abs(a[0] * b[1])
    return x + abs(a[2] * b[1]), y + abs(a[0] * b[2]), z + abs(a[1] * b[0])


# The sum of the absolute terms of a dot product: its rounding error is a share of that.
dot_size = inlined(lambda a, b: abs(a[0] * b[0]) + abs(a[1] * b[1]) + abs(a[2] * b[2]))


@inlined
def difference(a, b, k):
    """Return (a - b) * 2**k of 3-tuples of doubles: three double-doubles.

    They are exact unless they under- or overflow.
    """
    s = power_of_two(k)
    x = two_sum(a[0], -b[0])
    y = two_sum(a[1], -b[1])
    z = two_sum(a[2], -b[2])
    return (x[0] * s, x[1] * s), (y[0] * s, y[1] * s), (z[0] * s, z[1] * s)


@inlined
def unrounded(v, k):
    """Return v * 2**-k, for a vector v of doubles, as a vector of double-doubles (high, 0.0)."""
    s = power_of_two(-k)
    return (v[0] * s, 0.0), (v[1] * s, 0.0), (v[2] * s, 0.0)


# The high parts of a vector of double-doubles: the vector rounded to doubles.
high = inlined(lambda a: (a[0][0], a[1][0], a[2][0]))


@by_type(inline=True)
def _mixed_products(a, b):
    """Return a[0] * b[1] + a[1] * b[0]: each high part times the other number's low part.

    Numbers are (high, low), or (high,) for a double, whose low part is 0; at most one is a double.
    """
    if len(a) == 1:
        return lambda a, b: a[0] * b[1]
    return (lambda a, b: a[1] * b[0]) if len(b) == 1 else lambda a, b: a[0] * b[1] + a[1] * b[0]


@inlined
def difference_of_products(a, b):
    """Return (a[0] * a[1] - b[0] * b[1], size): a double-double, and the sum of both |products|.

    a and b are pairs of factors; each factor is a double-double (high, low) or a double (high,).
    """
    # Low parts are at most 2**-53 of high ones, so leaving out the product of two of them and
    # rounding the other corrections lose less than 16 * 2**-106 of the size, and 8 where one of
    # each two factors is a double.
    m, e = two_product(a[0][0], a[1][0])
    n, f = two_product(b[0][0], b[1][0])
    s, g = two_sum(m, -n)
    return (s, g + ((e - f) + (_mixed_products(*a) - _mixed_products(*b)))), abs(m) + abs(n)


@inlined
def sized_cross(a, b):
    """Return (a x b, sizes): double-doubles, and sums of the absolute terms of each component.

    The error of a component is below 16 * 2**-106 of its size. Components of a and b are
    double-doubles (high, low) or doubles (high,).
    """
    x, sx = difference_of_products((a[1], b[2]), (a[2], b[1]))
    y, sy = difference_of_products((a[2], b[0]), (a[0], b[2]))
    z, sz = difference_of_products((a[0], b[1]), (a[1], b[0]))
    return (x, y, z), (sx, sy, sz)


@inlined
def sized_dot(n, sizes, a):
    """Return (n . a, size): a double-double, and the sum of its absolute terms.

    n is a cross product by `sized_cross`, and `sizes` the sizes of its components. Components of a
    are double-doubles (high, low) or doubles (high,). The error of n . a, with that of n, is below
    38 * 2**-106 of the size.
    """
    x, ex = two_product(n[0][0], a[0][0])
    y, ey = two_product(n[1][0], a[1][0])
    z, ez = two_product(n[2][0], a[2][0])
    xy, f = two_sum(x, y)
    s, g = two_sum(xy, z)
    low = (ex + _mixed_products(n[0], a[0])) + (ey + _mixed_products(n[1], a[1]))
    low = low + (ez + _mixed_products(n[2], a[2]))
    size = sizes[0] * abs(a[0][0]) + sizes[1] * abs(a[1][0]) + sizes[2] * abs(a[2][0])
    return fast_two_sum(s, low + (f + g)), size


@inlined
def are_equal_products(a, b, c, d):
    """Return whether a * b = c * d exactly; False where under- or overflow leaves it unknown."""
    # Above 2**-900 the rounding error of a product is a double: p + e and q + f are the products.
    p, e = two_product(a, b)
    q, f = two_product(c, d)
    both_zero = (a == 0.0 or b == 0.0) and (c == 0.0 or d == 0.0)
    return p == q and e == f and (both_zero or 2.0**-900 < abs(p) < INF)


@inlined
def round_quotient(n, n_size, d, d_size):
    """Return (decided, n / d); if decided, the quotient is the double nearest to the exact one.

    n and d are double-doubles, of numbers or of SIMD lanes. Each is off by at most DD_ERROR times
    its size `n_size` or `d_size`, the sum of the absolute terms that it was computed from.
    """
    # The quotient's relative error is the sum of both operands' relative errors and the division's
    # own. If the double nearest to the two ends of that interval is the same, it is the nearest to
    # the true quotient (Ziv's test). Sizes below 2**-700 could hide an underflow and are left
    # undecided.
    #
    # There is one division: q is off by two units in the last place, which `rest` corrects.
    inverse = 1.0 / d[0]
    q = n[0] * inverse
    q_size, inverse_size = abs(q), abs(inverse)
    # The remainder of the high parts is rounded once at most; the low parts correct it.
    p, e = two_product(q, d[0])
    rest = (((n[0] - p) - e) + (n[1] - q * d[1])) * inverse
    error = DD_ERROR * ((n_size + q_size * d_size) * inverse_size + 4.0 * q_size)
    margin = 1.01 * error
    up = q + (rest + margin)
    down = q + (rest - margin)
    # The estimate is linear, so relative errors must be far below one; and no number near under- or
    # overflow.
    decided = (
        (up == down)
        & (error < 2.0**-40 * q_size)
        & (q_size > 2.0**-900)
        & (q_size < 2.0**900)
        & (n_size > 2.0**-700)
        & (d_size > 2.0**-700)
        & (n_size < 2.0**700)
        & (d_size < 2.0**700)
    )
    return decided, up
