"""Winding numbers as sums of solid angles, in decimal arithmetic of many digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache

import numpy as np

DIGITS = 120


@cache
def half_turn() -> Decimal:
    """Return pi, by Machin's formula."""
    return 4 * (4 * _arc_tangent(Decimal(1) / 5) - _arc_tangent(Decimal(1) / 239))


def _arc_tangent(t: Decimal) -> Decimal:
    """Return the arc tangent of a number of at most 1, by halving it, and the series."""
    halvings = 0
    while abs(t) > Decimal("0.05"):
        t, halvings = t / (1 + (1 + t * t).sqrt()), halvings + 1
    total, power, n = Decimal(0), t, 1
    while abs(power) > Decimal(10) ** (-2 * DIGITS) and power:
        total += power / n if n % 4 == 1 else -power / n
        power, n = power * t * t, n + 2
    return total * 2**halvings


def _angle(y: Decimal, x: Decimal) -> Decimal:
    """Return the argument of x + i y."""
    if abs(y) > abs(x):
        return (half_turn() / 2 if y > 0 else -half_turn() / 2) - _arc_tangent(x / y)
    if x > 0:
        return _arc_tangent(y / x)
    return _arc_tangent(y / x) + (half_turn() if y >= 0 else -half_turn())


def winding_number(
    vertices: np.ndarray, faces: np.ndarray, point: np.ndarray, step: str = "0"
) -> Decimal:
    """Return the winding number of faces; those in a plane with the point count 0.

    The point moves by (step, step**2, step**3).
    """
    with localcontext() as context:
        context.prec = 2 * DIGITS
        p, total = [Decimal(x) for x in point.tolist()], Decimal(0)
        p = [x + Decimal(step) ** (k + 1) if Decimal(step) else x for k, x in enumerate(p)]
        used = np.unique(faces)
        seen = {
            i: [Decimal(x) - o for x, o in zip(vertices[i].tolist(), p, strict=True)]
            for i in used.tolist()
        }
        far = {i: sum((x * x for x in a), Decimal(0)).sqrt() for i, a in seen.items()}
        # The argument of the product of a few factors is the sum of theirs: one arc tangent each.
        for i, j, k in faces.tolist():
            (a, la), (b, lb), (c, lc) = ((seen[n], far[n]) for n in (i, j, k))
            im = (
                a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2])
                + a[2] * (b[0] * c[1] - b[1] * c[0])
            )  # fmt: skip
            if im:
                re = la * lb * lc + _dot(a, b) * lc + _dot(b, c) * la + _dot(c, a) * lb
                total += _angle(im, re)
        return +(total / (2 * half_turn()))


def _dot(a: list[Decimal], b: list[Decimal]) -> Decimal:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def ulps(found: float, exact: Decimal) -> float:
    """Return how many units in the last place a number is off."""
    with localcontext() as context:
        context.prec = DIGITS
        unit = Decimal(float(np.spacing(max(abs(float(exact)), 2.0**-1000))))
        return float(abs(Decimal(float(found)) - exact) / unit)
