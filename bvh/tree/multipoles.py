"""Multipole expansion of the solid angle of a piece of surface, as seen from far away.

With the regular solid harmonics R_lm = r**l P_lm(cos theta) exp(i m phi) / (l + m)! and the
irregular ones I_lm = (l - m)! P_lm(cos theta) exp(i m phi) / r**(l + 1), both without (-1)**m,

    1 / |x - y| = sum over l and m of conj(R_lm(y)) I_lm(x)    where |y| < |x|.

A piece of surface at y with the area vector n, whose solid angle at x is minus the derivative of
that along n, has the multipoles M_lm = n . grad R_lm(y). Moving the centre away by s makes them the
sum over l' and m' of M_l'm' R_(l-l')(m-m')(s) (Dehnen 2014, "A fast multipole method for stellar
dynamics", appendix A). The first is l = 1: n itself.

The harmonic of order l and degree m is in slot l (l + 1) + m; that of degree -m is (-1)**m times
the conjugate.
"""

import numpy as np

from bvh.runtime.arguments import kernel_input
from bvh.runtime.jit import inlined, kernel

# The order of the expansion: its error falls with the distance to this power.
ORDER = 5
SLOTS = (ORDER + 1) ** 2
# A shift needs harmonics of lower orders only.
LOWER_SLOTS = ORDER**2
# Numbers in a series: two for each degree above 0 of each order.
SERIES_SIZE = ORDER * (ORDER + 2)

# An irregular harmonic in a direction (x, y, z) is (2 l - 1)!! times (x + i y)**m times a
# polynomial in z that begins with z**(l - m). The sign is (-1)**(l + 1): solid angles are minus the
# sum of their series, and the direction here is that of centre - point, not of point - centre.
FACTORS = kernel_input(np.array([0.0, 1.0, -3.0, 15.0, -105.0, 945.0]))

# A rule of six points on a triangle, exact for polynomials of degree 4 (Dunavant 1985, "High degree
# efficient symmetrical Gaussian quadrature rules for the triangle"): barycentrics, and weight.
_NEAR, _FAR, _HEAVY, _LIGHT = (
    0.44594849091596488632, 0.091576213509770743460, 0.22338158967801146570, 0.10995174365532186764
)  # fmt: skip
_ROWS = [
    (*np.roll([b, b, 1.0 - 2.0 * b], k), weight)
    for b, weight in ((_NEAR, _HEAVY), (_FAR, _LIGHT))
    for k in range(3)
]
RULE = kernel_input(np.array(_ROWS))


@inlined
def _mirror(re, im, order):
    """Set the harmonics of degree -m of an order: those of degree m, conjugated, times (-1)**m."""
    # `re` and `im` have the real and imaginary parts of all slots; that of degree 0 is `middle`.
    middle, factor = order * (order + 1), -1.0
    for m in range(1, order + 1):
        re[middle - m], im[middle - m] = factor * re[middle + m], -factor * im[middle + m]
        factor = -factor


@kernel
def regular(x, y, z, re, im):
    """Write the regular harmonics of orders below ORDER at (x, y, z) to `re` and `im`.

    These are real and imaginary parts; order l and degree m are in slot l (l + 1) + m.
    """
    # (l**2 - m**2) R_lm = (2 l - 1) z R_(l-1)m - r**2 R_(l-2)m, and
    # 2 l R_ll = (x + i y) R_(l-1)(l-1); `at`, `below` and `under` are slots of l, l - 1 and l - 2.
    square = x * x + y * y + z * z
    re[0], im[0] = 1.0, 0.0
    for order in range(1, ORDER):
        at, below, under = order * (order + 1), order * (order - 1), (order - 1) * (order - 2)
        for m in range(order):
            a, b = (2.0 * order - 1.0) * z, 1.0 / (order * order - m * m)
            re[at + m], im[at + m] = a * re[below + m] * b, a * im[below + m] * b
            if m < order - 1:
                re[at + m] -= square * re[under + m] * b
                im[at + m] -= square * im[under + m] * b
        last, half = below + order - 1, 0.5 / order
        re[at + order] = (x * re[last] - y * im[last]) * half
        im[at + order] = (x * im[last] + y * re[last]) * half
        _mirror(re, im, order)


@kernel
def mean_regular(a, b, c, away, mean):
    """Write the means of regular harmonics over the triangle a, b, c to `mean`, (2, LOWER_SLOTS).

    The rows of `mean` are real and imaginary parts. `away`, of the same shape, is scratch.
    """
    mean[:] = 0.0
    for i in range(len(RULE)):
        p, q, r, weight = RULE[i, 0], RULE[i, 1], RULE[i, 2], RULE[i, 3]
        regular(
            p * a[0] + q * b[0] + r * c[0], p * a[1] + q * b[1] + r * c[1],
            p * a[2] + q * b[2] + r * c[2], away[0], away[1],
        )  # fmt: skip
        for part in range(2):
            for k in range(LOWER_SLOTS):
                mean[part, k] += weight * away[part, k]


@kernel
def add_shifted(part, top, away, total):
    """Add the multipoles of a part, moved to another centre, to those of `total`, both (2, SLOTS).

    The part has orders up to `top`. `away` are the regular harmonics of the vector from the new
    centre to the old one. Rows are real and imaginary parts; order l and degree m are in slot
    l (l + 1) + m. Negative degrees of `total` are left to `complete`.
    """
    for order in range(1, ORDER + 1):
        for m in range(order + 1):
            x, y = 0.0, 0.0
            for lower in range(1, min(order, top) + 1):
                rest = order - lower
                i, j = lower * (lower + 1), rest * (rest + 1) + m
                # The part's degree m' is k, in slot i + k. The shift's degree m - k, in slot j - k,
                # must be in -rest..rest.
                for k in range(max(-lower, m - rest), min(lower, m + rest) + 1):
                    a, b, c, d = part[0, i + k], part[1, i + k], away[0, j - k], away[1, j - k]
                    x += a * c - b * d
                    y += a * d + b * c
            total[0, order * (order + 1) + m] += x
            total[1, order * (order + 1) + m] += y


@inlined
def complete(total):
    """Compute the negative degrees of multipoles (2, SLOTS) from the positive ones, in place."""
    for order in range(1, ORDER + 1):
        _mirror(total[0], total[1], order)


@inlined
def set_first(part, n):
    """Set the multipoles of order 1 of a part with the area vector n, which are n . grad R_1m."""
    # Slot 2 is degree 0: z. Slot 3 is degree 1: (x + i y) / 2; slot 1 is degree -1.
    part[0, 2], part[1, 2] = n[2], 0.0
    part[0, 3], part[1, 3] = 0.5 * n[0], 0.5 * n[1]
    part[0, 1], part[1, 1] = -part[0, 3], part[1, 3]


@inlined
def write_series(total, rows, at, step):
    """Write multipoles to rows[at::step], as factors of polynomials whose sum is a solid angle.

    Order by order, these are the real part of degree 0, then the real and the imaginary part of
    degrees 1, 2 and so on, doubled because the negative degrees contribute the same.
    """
    for order in range(1, ORDER + 1):
        for m in range(order + 1):
            factor = FACTORS[order] if m == 0 else 2.0 * FACTORS[order]
            rows[at] = factor * total[0, order * (order + 1) + m]
            at += step
            if m > 0:
                rows[at] = factor * total[1, order * (order + 1) + m]
                at += step
