"""Exact sums of products of doubles, and their signs and quotients.

A sum is a long fixed-point number (Kulisch 2013) that represents every product of up to six
doubles, denormal or huge, without rounding: an array of LIMBS integers, where limb i counts units
of 2**(32*i - BASE), and of the range of limbs in use. Limbs are signed, and 2**25 products can be
added before carries must be propagated. It is slow (about 20 ns a product of four), needs no
scaling and never fails; filters make its use rare.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import (
    LARGEST,
    SMALLEST,
    bits,
    fast_two_sum,
    power_of_two,
    scale_by,
)
from bvh.runtime.compiler.code_types import Operation, TypingContext
from bvh.runtime.compiler.lazy_modules import cgutils, ir, types
from bvh.runtime.jit import inlined, kernel, llvm_operation, stay_outlined

BASE = 6528  # the smallest product, six denormals, is a multiple of 2**-6444: limb 2
LIMBS = 401  # the largest, six times 2**1024, ends below 2**(6144 + BASE) = 2**(32 * 396)
LOWEST, HIGHEST = LIMBS, LIMBS + 1  # two more slots: the range of limbs in use
MASK = 0xFFFFFFFF  # of the 32 bits of a limb


@llvm_operation
def new_sum(typingctx: TypingContext) -> Operation:
    """Return an empty sum, an array on the caller's stack: in a loop, the same each time."""
    kind = types.Array(types.int64, 1, "C")

    def codegen(context, builder, signature, args):
        """Emit an array of zeros on the stack; its slot LOWEST is LIMBS: no limb is in use."""
        # Numba's arrays take long to import and are needed only when a kernel is compiled.
        from numba.np import arrayobj

        word = ir.IntType(64)
        # Numba's own helper would fill the memory at each call of the function, used or not.
        with builder.goto_entry_block():
            data = builder.alloca(word, size=ir.Constant(word, LIMBS + 2))
        cgutils.memset(builder, data, ir.Constant(word, 8 * (LIMBS + 2)), 0)
        builder.store(ir.Constant(word, LIMBS), builder.gep(data, [ir.Constant(word, LOWEST)]))
        array = context.make_array(kind)(context, builder)
        arrayobj.populate_array(
            array, data=data, shape=[ir.Constant(word, LIMBS + 2)], strides=[ir.Constant(word, 8)],
            itemsize=ir.Constant(word, 8), meminfo=None,
        )  # fmt: skip
        return array._getvalue()

    return kind(), codegen


@kernel
def _mantissa(x, shift):
    """Return abs(x)'s integer mantissa << min(shift, 10) as two limbs of 32 bits, low and high."""
    # Two limbs have room for the 53 bits of a mantissa and a shift of 10. Callers distribute longer
    # shifts, of up to 31 bits, over four mantissas.
    stay_outlined()
    word = bits(x)
    m = word & 0xFFFFFFFFFFFFF
    # Normal doubles have a hidden leading bit; denormals, with the exponent bits 0, have none.
    if (word >> 52) & 0x7FF:
        m |= 1 << 52
    m <<= min(shift, 10)
    return np.uint64(m & MASK), np.uint64(m >> 32)


@kernel
def _unit(x):
    """Return e such that abs(x) = m * 2**e with the integer mantissa m, of up to 53 bits."""
    # Denormals, with the exponent bits 0, have the unit of the exponent bits 1.
    return max((bits(x) >> 52) & 0x7FF, 1) - 1075


@kernel
def _multiply(a0, a1, b0, b1):
    """Return the four 32-bit limbs, lowest first, of (a0 + a1 * 2**32) * (b0 + b1 * 2**32)."""
    stay_outlined()
    mask = np.uint64(MASK)
    half = np.uint64(32)
    low = a0 * b0
    mid = a0 * b1 + (low >> half)  # at most (2**32 - 1)**2 + 2**32 - 1: no overflow
    other = a1 * b0 + (mid & mask)
    top = a1 * b1 + (mid >> half) + (other >> half)
    return low & mask, other & mask, top & mask, top >> half


@inlined
def _add_at(total, limb, value, negative):
    """Add an unsigned value of 64 bits to two limbs of a sum from `limb` on, or subtract it."""
    low, top = np.int64(value & np.uint64(MASK)), np.int64(value >> np.uint64(32))
    if negative:
        low, top = -low, -top
    total[limb] += low
    total[limb + 1] += top


@kernel
def add_product(total, factor, x, y, z, w):
    """Add factor * x * y * z * w to a sum, for factor +1.0 or -1.0 and finite doubles."""
    stay_outlined()
    if x == 0.0 or y == 0.0 or z == 0.0 or w == 0.0:
        return
    negative = ((bits(x) ^ bits(y) ^ bits(z) ^ bits(w)) < 0) != (factor < 0.0)
    # The product is an integer times 2**(position - BASE). Align it with the limbs by a shift of up
    # to 31 bits, distributed over the four mantissas, each of which is shifted by at most 10.
    position = _unit(x) + _unit(y) + _unit(z) + _unit(w) + BASE
    limb, shift = position >> 5, position & 31
    p = _multiply(*_mantissa(x, shift), *_mantissa(y, max(shift - 10, 0)))
    q = _multiply(*_mantissa(z, max(shift - 20, 0)), *_mantissa(w, max(shift - 30, 0)))
    for i in range(4):
        if p[i] == np.uint64(0):
            continue
        for j in range(4):
            _add_at(total, limb + i + j, p[i] * q[j], negative)
    total[LOWEST] = min(total[LOWEST], limb)
    total[HIGHEST] = max(total[HIGHEST], limb + 8)


@kernel
def add_product_of_six(total, x, y):
    """Add x[0] * x[1] * x[2] * y[0] * y[1] * y[2], of finite doubles, to the sum."""
    stay_outlined()
    position, negative = BASE, False
    for a in (x[0], x[1], x[2], y[0], y[1], y[2]):
        if a == 0.0:
            return
        position += _unit(a)
        negative = negative != (bits(a) < 0)
    limb, shift = position >> 5, position & 31
    # As in `add_product`; the last two factors need no shift, as the first four have 40 spare bits.
    p = _multiply(*_mantissa(x[0], shift), *_mantissa(x[1], max(shift - 10, 0)))
    q = _multiply(*_mantissa(x[2], max(shift - 20, 0)), *_mantissa(y[0], max(shift - 30, 0)))
    r = _multiply(*_mantissa(y[1], 0), *_mantissa(y[2], 0))
    mask, half = np.uint64(MASK), np.uint64(32)
    for i in range(4):
        for j in range(4):
            partial = p[i] * q[j]
            for part, up in ((partial & mask, 0), (partial >> half, 1)):
                if part == np.uint64(0):
                    continue
                for k in range(4):
                    _add_at(total, limb + i + j + up + k, part * r[k], negative)
    total[LOWEST] = min(total[LOWEST], limb)
    total[HIGHEST] = max(total[HIGHEST], limb + 12)


@kernel
def add_triple(total, factor, a, b, c):
    """Add factor * a . (b x c) to the sum, for factor +1.0 or -1.0 and vectors of doubles."""
    stay_outlined()
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        add_product(total, factor, a[i], b[j], c[k], 1.0)
        add_product(total, -factor, a[i], b[k], c[j], 1.0)


# Component i of the vector a - b, exactly, as the two terms of a sum; and a number as such a sum.
difference_terms = inlined(lambda a, b, i: (a[i], -b[i]))
term = inlined(lambda x: (x, 0.0))


@kernel
def add_sums(total, a, b, c, d):
    """Add a * b * c * d to the sum `total`: products of sums, each given as a pair of terms."""
    stay_outlined()
    for x in a:
        for y in b:
            for z in c:
                for w in d:
                    add_product(total, 1.0, x, y, z, w)


@kernel
def add_six_sums(total, x, y):
    """Add x[0] * x[1] * x[2] * y[0] * y[1] * y[2], as `add_sums` does."""
    stay_outlined()
    for a in x[0]:
        for b in x[1]:
            for c in x[2]:
                if a == 0.0 or b == 0.0 or c == 0.0:
                    continue
                for d in y[0]:
                    for e in y[1]:
                        for f in y[2]:
                            add_product_of_six(total, (a, b, c), (d, e, f))


@kernel
def add_dot(total, factor, a, b):
    """Add factor * a . b to the sum, for factor +1.0 or -1.0 and vectors of doubles."""
    add_product(total, factor, a[0], b[0], 1.0, 1.0)
    add_product(total, factor, a[1], b[1], 1.0, 1.0)
    add_product(total, factor, a[2], b[2], 1.0, 1.0)


@kernel
def _carry(total):
    """Propagate carries, so that all limbs but the topmost are in 0..2**32-1."""
    carry = 0
    for i in range(total[LOWEST], total[HIGHEST] + 1):
        value = total[i] + carry
        total[i] = value & MASK
        carry = value >> 32
    total[total[HIGHEST] + 1] += carry


@kernel
def take_sign(total):
    """Return the sign of the sum, and replace it by its absolute value, without carries."""
    stay_outlined()
    if total[LOWEST] == LIMBS:
        return 0
    _carry(total)
    # Once carries are propagated, the topmost limb alone is signed.
    top = total[HIGHEST] + 1
    if total[top] < 0:
        for i in range(total[LOWEST], top + 1):
            total[i] = -total[i]
        _carry(total)
        return -1
    for i in range(total[LOWEST], top + 1):
        if total[i] != 0:
            return 1
    return 0


@kernel
def _top_bit(total):
    """Return the position of the highest set bit of a positive sum with propagated carries."""
    i = total[HIGHEST] + 1
    while total[i] == 0:
        i -= 1
    value = total[i]
    bit = -1
    while value:
        value >>= 1
        bit += 1
    return 32 * i + bit  # bit 0 is the lowest of limb 0


@kernel
def _align(total, top, count, out):
    """Copy a positive sum to the first `count` limbs of `out`, its highest bit in limb count - 2.

    That bit, now at the position `top`, becomes the limb's highest. The last limb becomes 0, so
    that the copy can be doubled.
    """
    stay_outlined()
    first = top - 31 - 32 * (count - 2)  # the bit that is moved to bit 0 of the copy
    for i in range(count - 1):
        bit = first + 32 * i
        limb = bit >> 5
        shift = bit & 31
        value = 0
        if total[LOWEST] <= limb <= total[HIGHEST] + 1:
            value = total[limb] >> shift
        if shift and total[LOWEST] <= limb + 1 <= total[HIGHEST] + 1:
            value |= (total[limb + 1] << (32 - shift)) & MASK
        out[i] = value
    out[count - 1] = 0


@kernel
def _at_least(a, b, count):
    """Return whether a >= b, for absolute values of `count` limbs, the lowest first."""
    for i in range(count - 1, -1, -1):
        if a[i] != b[i]:
            return a[i] > b[i]
    return True


@kernel
def divide(n, d):
    """Return the quotient of two sums, rounded to the nearest double (ties to even).

    A quotient that is not zero never becomes 0 or inf: it stops at the smallest denormal and at
    the largest finite double. The denominator must not be zero. Both sums are overwritten.
    """
    stay_outlined()
    n_sign, d_sign = take_sign(n), take_sign(d)
    if n_sign == 0:
        return 0.0
    # Align both top bits: the quotient of the copies is in (1/2, 2).
    n_top, d_top = _top_bit(n), _top_bit(d)
    count = max((n_top >> 5) - n[LOWEST], (d_top >> 5) - d[LOWEST]) + 4
    # At most LIMBS: no product reaches beyond limb 397.
    rest, divisor = new_sum(), new_sum()
    _align(n, n_top, count, rest)
    _align(d, d_top, count, divisor)
    # Divide bit by bit: 56 bits give 55 or 56 significant ones, two more than a double has.
    quotient = 0
    for _ in range(56):
        quotient <<= 1
        if _at_least(rest, divisor, count):
            quotient |= 1
            borrow = 0
            for i in range(count):
                value = rest[i] - divisor[i] + borrow
                rest[i] = value & MASK
                borrow = value >> 32
        carry = 0
        for i in range(count):
            value = (rest[i] << 1) | carry
            rest[i] = value & MASK
            carry = value >> 32
    sticky = 0  # 1 if a remainder is left: the quotient is a little larger than its 56 bits
    for i in range(count):
        if rest[i] != 0:
            sticky = 1
    # The first of the 56 bits counts 2**(n_top - d_top).
    return _round(n_sign * d_sign, np.int64(quotient), np.int64(sticky), n_top - d_top - 55)


@kernel
def leading(total):
    """Return (x, e), x a double-double: x * 2**e is the sum to a relative error of 2**-63.

    With the exponent apart, sums may be beyond the range of doubles. The sum is overwritten.
    """
    stay_outlined()
    sign = take_sign(total)
    if sign == 0:
        return (0.0, 0.0), -BASE
    unit = 2.0**32 * sign
    i = total[HIGHEST] + 1
    while total[i] == 0:
        i -= 1
    high, low = fast_two_sum(unit * total[i], (unit * 2.0**-32) * total[i - 1])
    # If the top limb has few bits, bits of the third one are needed as well.
    return fast_two_sum(high, low + (unit * 2.0**-64) * total[i - 2]), 32 * (i - 1) - BASE


@kernel
def rounded(total, k):
    """Return the sum divided by 2**k, as `divide` rounds it; the sum is overwritten.

    abs(k) may be up to 6132.
    """
    stay_outlined()
    unit, p = new_sum(), power_of_two
    # A sixth of k each: the six factors make 2**k, and none leaves the range of normal doubles.
    x, y = (p(k // 6), p((k + 1) // 6), p((k + 2) // 6)), (p((k + 3) // 6), p((k + 4) // 6))
    add_product_of_six(unit, x, (*y, p((k + 5) // 6)))
    return divide(total, unit)


@kernel
def rounded_apart(total):
    """Return (x, e): x * 2**e is the sum, x rounded to the nearest double of 1..2 or -2..-1, or 0.

    The sum is overwritten.
    """
    stay_outlined()
    sign = take_sign(total)
    if sign == 0:
        return 0.0, 0
    e = _top_bit(total) - BASE
    return sign * rounded(total, e), e


@kernel
def _round(sign, m, sticky, unit):
    """Round sign * m * 2**unit to the nearest double, ties to even, but never to 0 or inf.

    m is a positive integer of 55 or 56 bits. `sticky` is 1 if the exact value exceeds m by less
    than 1, and 0 if it is m.
    """
    stay_outlined()
    # Keep 53 bits, or as many as a denormal result has.
    drop = max(3 if m >> 55 else 2, -1074 - unit)
    # More than all bits: the value is below half of the smallest denormal.
    if drop > 60:
        return sign * SMALLEST
    rest = m & ((1 << drop) - 1)
    half = 1 << (drop - 1)
    mantissa = m >> drop
    if rest > half or (rest == half and (sticky or mantissa & 1)):
        mantissa += 1
    if mantissa == 0:
        return sign * SMALLEST
    # Far beyond the largest double.
    if unit + drop + 53 > 1100:
        return sign * LARGEST
    return sign * min(scale_by(float(mantissa), unit + drop), LARGEST)


@kernel
def triple_sign(o, d, a, b):
    """Return the exact sign of d . ((a - o) x (b - o)), for vectors of finite doubles."""
    stay_outlined()
    # Expanded, it is d . (a x b) + d . (o x a) - d . (o x b).
    total = new_sum()
    add_triple(total, 1.0, d, a, b)
    add_triple(total, 1.0, d, o, a)
    add_triple(total, -1.0, d, o, b)
    return take_sign(total)
