"""Exact volumes of three vectors on a device, by expansions of doubles.

A volume is r . (p x q) of three vectors of double-doubles, each the exact difference of two points.
Where double-doubles do not decide (see `triangles`), up to 192 doubles are summed to it, as an
expansion that does not overlap.

Shewchuk 1997, "Adaptive precision floating-point arithmetic", section 2.
"""

import warp as wp

from bvh.devices.exact import floats
from bvh.devices.exact.floats import ONE, ZERO, dd3, f8
from bvh.geometry.arithmetic import exact_sums

# Six terms of a determinant, eight products of a term's high and low parts, four doubles a product.
# Steps that take limbs off add a few.
PRODUCTS = 6 * 8 * 4
COMPONENTS = 6 * 8 * 4 + 8
LIMB = f8(2.0**32)
LOWEST = -exact_sums.BASE
Expansion = wp.types.vector(length=COMPONENTS, dtype=wp.float64)

# Numbers of other sizes are left to the CPU (see `is_moderate`).
LEAST, MOST = f8(2.0**-280), f8(2.0**280)


@wp.func
def is_moderate(v: dd3):
    """Return whether every part is 0 or of a size from LEAST to MOST.

    Then no product of three parts overflows, and none loses digits by underflow.
    """
    fits = bool(True)
    for i in range(3):
        for k in range(2):
            x = wp.abs(v[i, k])
            fits = fits and (x == ZERO or (x > LEAST and x < MOST))
    return fits


@wp.func
def exact_sum(p: dd3, q: dd3, r: dd3, cut: bool):
    """Return (decided, value, k): the volume r . (p x q) is value * 2**k, a double-double.

    Without `cut`, k is 0, the sign of `value` is exact, and its error at most 2**-103 of it. With
    `cut`, both are bit for bit those of `exact_sums.leading` on CPUs: the highest three limbs of 32
    bits, where limbs end at multiples of 32 bits; k is LOWEST if the volume is 0.
    """
    # All is in one function: passing an expansion copies it, which takes longer than the sum. It
    # has `length` components, from the smallest on; `total` is their sum, rounded.
    fits = is_moderate(p) and is_moderate(q) and is_moderate(r)
    expansion = Expansion()
    length, taken, top_limb, sign = int(0), int(0), int(0), wp.float64(1.0)
    total, digits = wp.vec2d(), wp.float64(0.0)
    limbs = wp.vec3d()
    # Three times two steps that take limbs off follow the products of 48 terms, four numbers each.
    last = wp.where(fits, wp.where(cut, PRODUCTS + 6, PRODUCTS), 0)
    for step in range(last):
        x = wp.float64(0.0)
        if step < PRODUCTS:
            # Each axis occurs twice, once with each sign, with all eight choices of high or low
            # parts. The exact product of three doubles is the sum of four.
            term, number = step // 4, step % 4
            i, odd, parts = term % 3, (term // 3) % 2, term // 6
            a = p[(i + 1 + odd) % 3, parts & 1]
            b = q[(i + 2 - odd) % 3, (parts >> 1) & 1]
            c = r[i, (parts >> 2) & 1]
            c = wp.where(odd != 0, -c, c)
            product, rest = floats.two_product(a, b)
            product = wp.where(number < 2, rest, product)
            product, rest = floats.two_product(product, c)
            x = wp.where(number % 2 == 0, rest, product)
        else:
            if step == PRODUCTS:
                sign = wp.where(total[0] < ZERO, -ONE, ONE)
                for i in range(length):
                    expansion[i] = sign * expansion[i]
                total = sign * total
                # The highest bit of the sum, which may have been rounded up to a power of two.
                top = floats.exponent(total[0])
                if total[1] < ZERO and total[0] == floats.power_of_two(top):
                    top -= 1
                top_limb = top >> 5
            unit = floats.power_of_two((top_limb - taken) << 5)
            if step % 2 == 0:
                digits = wp.floor(total[0] / unit)
                x = -digits * unit
            else:
                # A negative rest: the limb was rounded up, so it is lowered by one.
                if total[0] < ZERO:
                    digits -= ONE
                    x = unit
                limbs[taken] = digits
                taken += 1
        # Add the number, from the smallest component on; zeros are left out.
        if x != ZERO:
            count = int(0)
            for i in range(length):
                s, rest = floats.two_sum(x, expansion[i])
                x = s
                if rest != ZERO:
                    expansion[count] = rest
                    count += 1
            if x != ZERO:
                expansion[count] = x
                count += 1
            length = count
        if step >= PRODUCTS - 1:
            # From the largest component down, until the sum is not a double; then add the others.
            total = wp.vec2d()
            i = length - 1
            while i >= 0 and total[1] == ZERO:
                total = floats.fast_two_sum(total[0], expansion[i])
                i -= 1
            rest = wp.float64(0.0)
            for j in range(i + 1):
                rest += expansion[j]
            total = floats.fast_two_sum(total[0], total[1] + rest)
    if not cut:
        return fits, total, 0
    if limbs[0] == ZERO:
        return fits, wp.vec2d(), LOWEST
    total = floats.fast_two_sum(sign * LIMB * limbs[0], sign * limbs[1])
    total = floats.fast_two_sum(total[0], total[1] + (sign / LIMB) * limbs[2])
    return fits, total, (top_limb - 1) << 5
