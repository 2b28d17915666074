"""Winding numbers as sums of solid angles, in decimal arithmetic of many digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache

import numpy as np

from tests.oracles.vectors import dot

DIGITS = 60


@cache
def half_turn() -> Decimal:
    """Return pi, by Machin's formula."""
    with localcontext() as context:
        context.prec = 4 * DIGITS
        return 4 * (4 * _arc_tangent(Decimal(1) / 5) - _arc_tangent(Decimal(1) / 239))


def _arc_tangent(t: Decimal) -> Decimal:
    """Return the arc tangent of a number, by halving it, and the series."""
    halvings = 0
    while abs(t) > Decimal("0.01"):
        t, halvings = t / (1 + (1 + t * t).sqrt()), halvings + 1
    total, power, n = Decimal(0), t, 1
    while abs(power) > abs(t) * Decimal(10) ** (-4 * DIGITS):
        total += power / n if n % 4 == 1 else -power / n
        power, n = power * t * t, n + 2
    return total * 2**halvings


def winding_number(
    vertices: np.ndarray, faces: np.ndarray, point: np.ndarray, step: str = "0"
) -> Decimal:
    """Return the winding number of faces; those in a plane with the point count 0.

    The point moves by (step, step**2, step**3).
    """
    with localcontext() as context:
        context.prec = (4 if Decimal(step) else 2) * DIGITS
        p = [Decimal(x) for x in point.tolist()]
        p = [x + Decimal(step) ** (k + 1) if Decimal(step) else x for k, x in enumerate(p)]
        seen = {
            i: [Decimal(x) - o for x, o in zip(vertices[i].tolist(), p, strict=True)]
            for i in np.unique(faces).tolist()
        }
        far = {i: dot(a, a).sqrt() for i, a in seen.items()}
        # Half of a face's solid angle is the argument of a complex number, and the sum of arguments
        # that of the product: with a negative real part they are negated, and half turns counted.
        turns, real, imaginary = 0, Decimal(1), Decimal(0)
        for i, j, k in faces.tolist():
            (a, la), (b, lb), (c, lc) = ((seen[n], far[n]) for n in (i, j, k))
            im = (
                a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2])
                + a[2] * (b[0] * c[1] - b[1] * c[0])
            )  # fmt: skip
            if not im:
                continue
            re = la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb
            sign = 1 if im > 0 else -1
            if re < 0:
                turns, re, im = turns + sign, -re, -im
                sign = -sign
            real, imaginary = real * re - imaginary * im, real * im + imaginary * re
            if real < 0:
                turns, real, imaginary = turns + sign, -real, -imaginary
        angle = _arc_tangent(imaginary / real) if real else Decimal(0)
        if not real:
            angle = half_turn() / 2 if imaginary > 0 else -half_turn() / 2
        return Decimal(turns) / 2 + angle / (2 * half_turn())


def ulps(found: float, exact: Decimal) -> float:
    """Return how many units in the last place a number is off."""
    with localcontext() as context:
        context.prec = 4 * DIGITS
        unit = Decimal(float(np.spacing(max(abs(float(exact)), 2.0**-1000))))
        return float(abs(Decimal(float(found)) - exact) / unit)
