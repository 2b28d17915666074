"""The slow truth about polygons cut into triangles, in rational numbers."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np

Point = tuple[Fraction, Fraction]


def seen_along(points: Any, axis: int) -> list[Point]:
    """Return points without one coordinate."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    return [(Fraction(float(p[i])), Fraction(float(p[j]))) for p in points]


def area(polygon: list[Point]) -> Fraction:
    """Return twice the signed area of a polygon."""
    pairs = zip(polygon, polygon[1:] + polygon[:1], strict=True)
    return sum((a[0] * b[1] - b[0] * a[1] for a, b in pairs), Fraction(0))


def is_simple(polygon: list[Point]) -> bool:
    """Tell whether no two sides of a polygon touch but for neighbours at their corner."""
    n = len(polygon)
    sides = [(polygon[k], polygon[(k + 1) % n]) for k in range(n)]
    if len(set(polygon)) < n:
        return False
    for i in range(n):
        for k in range(i + 1, n):
            (a, b), (c, d) = sides[i], sides[k]
            if k == i + 1 or (i == 0 and k == n - 1):
                # Neighbours meet in their corner alone, unless one folds back onto the other.
                p, q, r = (a, b, d) if k == i + 1 else (c, d, b)
                back = (p[0] - q[0]) * (r[0] - q[0]) + (p[1] - q[1]) * (r[1] - q[1]) > 0
                if area([p, q, r]) == 0 and back:
                    return False
            elif _touch(a, b, c, d):
                return False
    return True


def _touch(a: Point, b: Point, c: Point, d: Point) -> bool:
    s, t = area([a, b, c]), area([a, b, d])
    u, v = area([c, d, a]), area([c, d, b])
    if (s > 0) == (t > 0) and s != 0 and t != 0:
        return False
    if (u > 0) == (v > 0) and u != 0 and v != 0:
        return False
    if s == t == 0:
        spans = [(min(p[k], q[k]), max(p[k], q[k])) for p, q in ((a, b), (c, d)) for k in (0, 1)]
        return all(max(spans[k][0], spans[k + 2][0]) <= min(spans[k][1], spans[k + 2][1])
                   for k in (0, 1))  # fmt: skip
    return True


def assert_border(polygon: list[int], triangles: Any) -> None:
    """The directed sides of triangles cancel out but for those of their polygon."""
    assert _border([face.tolist() for face in triangles]) == _border([polygon])


def _border(polygons: list[list[int]]) -> Counter[tuple[int, int]]:
    """Return how often each side is left over, gone along from its lower vertex to its higher."""
    sides: Counter[tuple[int, int]] = Counter()
    for polygon in polygons:
        for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True):
            sides[min(a, b), max(a, b)] += 1 if a < b else -1 if a > b else 0
    return Counter({side: count for side, count in sides.items() if count})


def assert_tiled(points: np.ndarray, polygon: list[int], triangles: Any, axis: int) -> None:
    """A simple polygon is tiled: all triangles turn as it does, and their areas add up to its own.

    Both together leave no room for an overlap: the triangles have the border of the polygon, so
    each point is covered as often as the polygon winds around it.
    """
    whole = area(seen_along(points[polygon], axis))
    parts = [area(seen_along(points[face], axis)) for face in triangles]
    assert sum(parts) == whole
    assert all(part * whole > 0 for part in parts)
    assert_border(polygon, triangles)
