"""Distances from points to triangles in rational arithmetic: slow, obvious, and right."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from fractions import Fraction

from tests.oracles.vectors import cross, dot, minus

Vector = Sequence[Fraction]


def squared_distance(p: Sequence[float], *corners: Sequence[float]) -> Fraction:
    """Return the exact square of the distance from a point to a triangle."""
    q = [Fraction(x) for x in p]
    a, b, c = ([Fraction(x) for x in corner] for corner in corners)
    best = min(_to_segment(q, a, b), _to_segment(q, b, c), _to_segment(q, c, a))
    n = cross(minus(b, a), minus(c, a))
    if any(n) and all(
        dot(n, cross(minus(end, begin), minus(q, begin))) >= 0
        for begin, end in ((a, b), (b, c), (c, a))
    ):
        best = min(best, dot(n, minus(q, a)) ** 2 / dot(n, n))
    return best


def ulps_off(distance: float, square: Fraction) -> float:
    """Return by how many units in the last place a distance misses the root of an exact square.

    Instead of a root beyond the smallest or the largest double, it should be that.
    """
    if square == 0 or distance == 0.0:
        return 0.0 if square == 0 and distance == 0.0 else math.inf
    if not math.isfinite(distance):
        return math.inf
    d = Fraction(distance)
    half = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    unit = Fraction(2) ** (half - 200)
    root = math.isqrt(int(square / unit**2)) * unit
    root = min(max(root, Fraction(math.ulp(0.0))), Fraction(sys.float_info.max))
    return float(abs(d - root) / Fraction(math.ulp(float(root))))


def _to_segment(p: Vector, a: Vector, b: Vector) -> Fraction:
    d = minus(b, a)
    t = Fraction(0)
    if any(d):
        t = min(max(dot(minus(p, a), d) / dot(d, d), Fraction(0)), Fraction(1))
    off = [p[i] - a[i] - t * d[i] for i in range(3)]
    return dot(off, off)
