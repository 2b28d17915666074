"""Exact tests of triangles and boxes with spheres and polytopes, in rational numbers.

They are slow, and decide only what floating-point filters cannot.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import LARGEST, SMALLEST

Point = NDArray[Any]  # of fractions


def _exact(numbers: Iterable[float]) -> Point:
    return np.array([Fraction(x) for x in numbers], object)


def triangle_meets_sphere(
    corners: Sequence[Sequence[float]], center: Sequence[float], radius: float
) -> bool:
    """Return whether a triangle, segment or point is within `radius` of a point."""
    origin, square = _exact(center), Fraction(radius) ** 2
    points = [_exact(corner) - origin for corner in corners]
    edges = [points[(i + 1) % 3] - points[i] for i in range(3)]
    normal = np.cross(edges[0], edges[1])
    if any(normal) and all(
        np.cross(normal, edge) @ point <= 0 for point, edge in zip(points, edges, strict=True)
    ):
        return bool((normal @ points[0]) ** 2 <= square * (normal @ normal))
    for point, edge in zip(points, edges, strict=True):
        length, along = edge @ edge, -(point @ edge)
        # The distance from the edge's line counts where its foot is on the edge.
        if 0 < along < length and (point @ point) * length - along**2 <= square * length:
            return True
        if point @ point <= square:
            return True
    return False


def box_meets_sphere(
    corners: Sequence[Sequence[float]], center: Sequence[float], radius: float
) -> bool:
    """Return whether a box, given by its corners, is within `radius` of a point."""
    total = Fraction(0)
    for low, high, x in zip(*map(_exact, (*corners, center)), strict=True):
        total += max(low - x, x - high, Fraction(0)) ** 2
    return total <= Fraction(radius) ** 2


def triangle_meets_planes(
    corners: Sequence[Sequence[float]], planes: Iterable[Sequence[float]]
) -> bool:
    """Return whether a triangle, segment or point meets the polytope n . p + offset >= 0."""
    polygon = [_exact(corner) for corner in corners]
    for *normal, offset in map(_exact, planes):
        heights = [np.array(normal) @ point + offset for point in polygon]
        kept: list[Point] = []
        for i, point in enumerate(polygon):
            last, f, g = polygon[i - 1], heights[i - 1], heights[i]
            if f * g < 0:
                kept.append(last + f / (f - g) * (point - last))
            if g >= 0:
                kept.append(point)
        polygon = kept
        if not polygon:
            return False
    return True


def triangle_distance(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> float:
    """Return the distance of two triangles that do not touch, rounded to a double."""
    p, q = [_exact(corner) for corner in a], [_exact(corner) for corner in b]
    squares = [_square_to_face(x, q) for x in p] + [_square_to_face(x, p) for x in q]
    for i in range(3):
        squares += [_square_of_edges(p[i - 1], p[i], q[j - 1], q[j]) for j in range(3)]
    return root(min(squares))


def _square_to_edge(x: Point, a: Point, b: Point) -> Fraction:
    """Return the squared distance of a point from a segment."""
    w, e = x - a, b - a
    length = e @ e
    t = min(max(w @ e / length, Fraction(0)), Fraction(1)) if length else Fraction(0)
    w = w - t * e
    return sum((x * x for x in w), Fraction(0))


def _square_to_face(x: Point, face: list[Point]) -> Fraction:
    """Return the squared distance of a point from a triangle."""
    edges = [face[(i + 1) % 3] - face[i] for i in range(3)]
    normal = np.cross(edges[0], edges[1])
    if any(normal) and all(
        np.cross(edge, x - corner) @ normal >= 0 for corner, edge in zip(face, edges, strict=True)
    ):
        return Fraction((normal @ (x - face[0])) ** 2 / (normal @ normal))
    return min(_square_to_edge(x, face[i], face[(i + 1) % 3]) for i in range(3))


def _square_of_edges(p: Point, q: Point, r: Point, s: Point) -> Fraction:
    """Return the squared distance of two segments."""
    u, v, w = q - p, s - r, r - p
    n = np.cross(u, v)
    square = sum((x * x for x in n), Fraction(0))
    if square and 0 < np.cross(w, v) @ n < square and 0 < np.cross(w, u) @ n < square:
        return Fraction((w @ n) ** 2 / square)
    return min(
        _square_to_edge(p, r, s), _square_to_edge(q, r, s),
        _square_to_edge(r, p, q), _square_to_edge(s, p, q),
    )  # fmt: skip


def root(square: Fraction) -> float:
    """Return the square root of a number, to about a unit in the last place."""
    # It is 0 only for 0, and at most the largest double.
    if square == 0:
        return 0.0
    # An integer root of some 64 bits.
    shift = square.denominator.bit_length() - square.numerator.bit_length() + 130
    shift += shift % 2
    whole = isqrt(int(square * Fraction(2) ** shift))
    exact = whole * Fraction(2) ** (-shift // 2)
    return float(min(max(exact, Fraction(SMALLEST)), Fraction(LARGEST)))
