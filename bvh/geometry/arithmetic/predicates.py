"""Exact orientation predicates: signs of areas and volumes spanned by points.

`orient2d` and `orient3d` are the predicates of Shewchuk 1997, "Adaptive precision floating-point
arithmetic and fast robust geometric predicates". A float64 filter with an error bound answers
first, and exact sums where it does not decide. They are exact for all finite doubles.

The bounds. A difference of two doubles is off by 2**-53 of itself, so a product of two of them by
three such units, the difference of two products by four of the sum of their sizes, and with a third
factor and two more sums by eight: AREA_ERROR and VOLUME_ERROR are larger by half, which also covers
the rounding of the sizes. A product that underflows loses 2**-1075, times the third factor of a
volume; TINY times that factor covers six of them, and is no subnormal number, as products of these
take over a hundred cycles. Where a product overflows, the size is infinite or NaN, so that the
filter does not decide.
"""

import numpy as np

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.exact_sums import add_product, add_triple, new_sum, take_sign
from bvh.geometry.arithmetic.floats import cross_size, difference, dot_size, exponent
from bvh.geometry.arithmetic.vectors import cross, dot, minus
from bvh.runtime.compiler.code_types import Operation, Type, TypingContext
from bvh.runtime.compiler.lazy_modules import ir, types
from bvh.runtime.jit import inlined, kernel, llvm_operation, stay_outlined

AREA_ERROR = 6.0 * 2.0**-53
VOLUME_ERROR = 12.0 * 2.0**-53
TINY = 2.0**-1020


@inlined
def drop_axis(p, axis):
    """Return a point projected along an axis: its two other coordinates, in cyclic order.

    This order keeps orientations: a left turn in 2D is one seen from the axis's positive end.
    """
    if axis == 0:
        return p[1], p[2]
    if axis == 1:
        return p[2], p[0]
    return p[0], p[1]


# A triangle projected along an axis: three points in the plane.
projected = inlined(
    lambda t, axis: (drop_axis(t[0], axis), drop_axis(t[1], axis), drop_axis(t[2], axis))
)


@inlined
def filtered_turn(a, b, c):
    """Return 1 if a, b, c turns left, -1 if right, 0 where rounding could change the sign."""
    left, right = (b[0] - a[0]) * (c[1] - a[1]), (b[1] - a[1]) * (c[0] - a[0])
    return floats.sign_beyond(left - right, AREA_ERROR * (abs(left) + abs(right)) + TINY)


@kernel
def orient2d(a, b, c):
    """Return the exact sign of the area of a, b, c in 2D: 1 left turn, -1 right, 0 on a line."""
    stay_outlined()
    turn = filtered_turn(a, b, c)
    if turn != 0:
        return turn
    # The area is 0 if both products have the same factors, or each has a factor 0.
    if b == c or ((b[0] == a[0] or c[1] == a[1]) and (b[1] == a[1] or c[0] == a[0])):
        return 0
    return _exact_area(a, b, c)


@kernel
def _exact_area(a, b, c):
    """Return the exact sign of twice the area of a, b, c in 2D: a x b + b x c + c x a."""
    stay_outlined()
    total = new_sum()
    for p, q in ((a, b), (b, c), (c, a)):
        add_product(total, 1.0, p[0], q[1], 1.0, 1.0)
        add_product(total, -1.0, p[1], q[0], 1.0, 1.0)
    return take_sign(total)


@inlined
def plane_of(a, b, c):
    """Return (a, normal, sizes): (b-a) x (c-a) in doubles, and its `cross_size`."""
    p, q = minus(b, a), minus(c, a)
    return a, cross(p, q), cross_size(p, q)


@inlined
def filtered_above(plane, p):
    """Return 1 if p is above a `plane_of` a triangle, on the side that its normal points to.

    It is -1 if p is below, 0 where rounding could change the sign.
    """
    a, n, sizes = plane
    r = minus(p, a)
    floor = TINY * (1.0 + (abs(r[0]) + abs(r[1]) + abs(r[2])))
    return floats.sign_beyond(dot(n, r), VOLUME_ERROR * dot_size(sizes, r) + floor)


@llvm_operation
def _determinant(typingctx: TypingContext, p: Type, q: Type, r: Type) -> Operation:
    """Return r . (p x q) of 3-tuples of integers below 2**60 as (sign, first, second, exponent).

    The value is sign * (first * 2**53 + second) * 2**exponent, with an error below 2**exponent.
    `first` and `second` are integers below 2**53. The sign is 1 or -1; 0 has 0 for both integers.
    """

    def codegen(context, builder, signature, args):
        """Emit integer arithmetic of 128 and 192 bits."""
        b, wide, whole = builder, ir.IntType(128), ir.IntType(192)
        half, mask = wide(64), wide(2**64 - 1)
        p, q, r = ([b.sext(b.extract_value(v, i), wide) for i in range(3)] for v in args)
        # A component of p x q is below 2**121. Cut in two, its products with r are below 2**124.
        low = top = wide(0)
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            c = b.sub(b.mul(p[j], q[k]), b.mul(p[k], q[j]))
            low = b.add(low, b.mul(r[i], b.and_(c, mask)))
            top = b.add(top, b.mul(r[i], b.ashr(c, half)))
        value = b.add(b.shl(b.sext(top, whole), whole(64)), b.sext(low, whole))
        negative = b.icmp_signed("<", value, whole(0))
        size = b.select(negative, b.neg(value), value)
        # 0 has no leading one, and need not be moved.
        zeros = b.ctlz(b.or_(size, whole(1)), ir.IntType(1)(1))
        size = b.shl(size, zeros)
        # The highest 53 of the 192 bits, and the next 53.
        long = ir.IntType(64)
        parts = [b.trunc(b.lshr(size, whole(at)), long) for at in (139, 86)]
        parts[1] = b.and_(parts[1], long(2**53 - 1))
        sign = b.select(negative, long(-1), long(1))
        exponent = b.sub(long(86), b.trunc(zeros, long))
        return context.make_tuple(b, signature.return_type, [sign, *parts, exponent])

    return types.UniTuple(types.int64, 4)(p, q, r), codegen


@inlined
def _integer(x, s):
    """Return (n, exact) with the integer n of x * s, for a double x and a power of two s.

    It is not exact where x * s has a fraction or is not below 2**60; n is then useless.
    """
    y = x * s
    n = np.int64(y if abs(y) < 2.0**60 else 0.0)
    # If x * s underflows to 0, n is not exact.
    return n, np.float64(n) == y and (n != 0 or x == 0.0)


# 2**k for k in -1000..1000; else 0, which makes all numbers but 0 inexact in `_integer`.
_power = inlined(lambda k: floats.from_bits((k + 1023) << 52) if abs(k) <= 1000 else 0.0)


@inlined
def _integers(v, i, j, k):
    """Return (n, e, exact): if exact, v's components times 2**i, 2**j, 2**k are n times 2**e.

    v is a vector of double-doubles, n a tuple of three integers, useless if not exact.
    """
    # 2**e is the least power for which all components are below 2**60.
    e = max(exponent(v[0][0]) + i, max(exponent(v[1][0]) + j, exponent(v[2][0]) + k)) - 59
    a, b, c = _power(i - e), _power(j - e), _power(k - e)
    (x, x_exact), (y, y_exact) = _integer(v[0][0], a), _integer(v[1][0], b)
    z, z_exact = _integer(v[2][0], c)
    exact = x_exact and y_exact and z_exact
    if v[0][1] != 0.0 or v[1][1] != 0.0 or v[2][1] != 0.0:
        # Low parts of double-doubles, by the same powers.
        (f, x_exact), (g, y_exact) = _integer(v[0][1], a), _integer(v[1][1], b)
        h, z_exact = _integer(v[2][1], c)
        x, y, z, exact = x + f, y + g, z + h, exact and x_exact and y_exact and z_exact
    return (x, y, z), e, exact


@inlined
def _cleared(v, x, y, z):
    """Return a vector of double-doubles with 0 for the components whose flag x, y or z is set."""
    none = (0.0, 0.0)
    return none if x else v[0], none if y else v[1], none if z else v[2]


@kernel
def integer_volume(p, q, r):
    """Return (decided, value, e): if decided, the volume r . (p x q) is value * 2**e.

    p, q and r are vectors of double-doubles. It is decided if powers of two, one for each axis and
    one for each vector, make all components integers below 2**60. The value is a double-double with
    the sign of the volume, off by less than 2**-105 of itself.
    """
    stay_outlined()
    # Leave out components that are only multiplied by zeros, as they need not become integers:
    # those of p and q if r is 0 on both other axes; that of r if both are 0 on another axis.
    x, y, z = r[0][0] == 0.0, r[1][0] == 0.0, r[2][0] == 0.0
    if x or y or z:
        p, q = _cleared(p, y and z, z and x, x and y), _cleared(q, y and z, z and x, x and y)
    x, y = max(abs(p[0][0]), abs(q[0][0])), max(abs(p[1][0]), abs(q[1][0]))
    z = max(abs(p[2][0]), abs(q[2][0]))
    if x == 0.0 or y == 0.0 or z == 0.0:
        r = _cleared(r, y == 0.0 or z == 0.0, z == 0.0 or x == 0.0, x == 0.0 or y == 0.0)
    # Scale each axis by the components of p and q along it, and then each vector.
    i, j, k = exponent(x), exponent(y), exponent(z)
    p, e, p_exact = _integers(p, -i, -j, -k)
    q, f, q_exact = _integers(q, -i, -j, -k)
    r, g, r_exact = _integers(r, -i, -j, -k)
    sign, first, second, h = _determinant(p, q, r)
    value = floats.fast_two_sum(2.0**53 * np.float64(sign * first), np.float64(sign * second))
    return p_exact and q_exact and r_exact, value, e + f + g + h + i + j + k


@kernel
def orient3d(a, b, c, p):
    """Return the exact sign of (p-a) . ((b-a) x (c-a)): 1 if p is above the triangle a, b, c."""
    stay_outlined()
    side = filtered_above(plane_of(a, b, c), p)
    return side if side != 0 else exact_volume(a, b, c, p)


@kernel
def exact_volume(a, b, c, p):
    """Return the exact sign of (p-a) . ((b-a) x (c-a)), by integers, else by exact sums.

    It is the result of `orient3d`, for points that its filter does not decide.
    """
    stay_outlined()
    # Common cases of 0: all points in one plane across an axis; p is a corner of the triangle.
    for k in range(3):
        if a[k] == b[k] == c[k] == p[k]:
            return 0
    if p == a or p == b or p == c:
        return 0
    u, v, r = difference(b, a, 0), difference(c, a, 0), difference(p, a, 0)
    decided, value, _ = integer_volume(u, v, r)
    if decided:
        return floats.sign(value[0])
    # Expanded: p . (b x c) - a . (b x c) - p . (a x c) - p . (b x a).
    total = new_sum()
    add_triple(total, 1.0, p, b, c)
    add_triple(total, -1.0, a, b, c)
    add_triple(total, -1.0, p, a, c)
    add_triple(total, -1.0, p, b, a)
    return take_sign(total)
