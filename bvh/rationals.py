"""The last word on spheres and polytopes, in Python's rational numbers: slow, and seldom asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

Point = list[Fraction]


def _exact(numbers: Iterable[float]) -> Point:
    return [Fraction(x) for x in numbers]


def _minus(a: Point, b: Point) -> Point:
    return [a[0] - b[0], a[1] - b[1], a[2] - b[2]]


def _dot(a: Point, b: Point) -> Fraction:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Point, b: Point) -> Point:
    return [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]


def triangle_meets_sphere(
    corners: Sequence[Sequence[float]], center: Sequence[float], radius: float
) -> bool:
    """Tell whether a triangle, segment or point comes as near to a point as `radius`."""
    origin, square = _exact(center), Fraction(radius) ** 2
    points = [_minus(_exact(corner), origin) for corner in corners]
    edges = [_minus(points[(i + 1) % 3], points[i]) for i in range(3)]
    normal = _cross(edges[0], edges[1])
    if any(normal) and all(
        _dot(_cross(normal, edge), point) <= 0 for point, edge in zip(points, edges, strict=True)
    ):
        return _dot(normal, points[0]) ** 2 <= square * _dot(normal, normal)
    for point, edge in zip(points, edges, strict=True):
        length, along = _dot(edge, edge), -_dot(point, edge)
        # The distance from the edge's line counts where its foot is on the edge.
        if 0 < along < length and _dot(point, point) * length - along**2 <= square * length:
            return True
        if _dot(point, point) <= square:
            return True
    return False


def box_meets_sphere(
    corners: Sequence[Sequence[float]], center: Sequence[float], radius: float
) -> bool:
    """Tell whether a box, given by its lower and upper corner, comes as near to a point."""
    total = Fraction(0)
    for low, high, x in zip(*map(_exact, (*corners, center)), strict=True):
        total += max(low - x, x - high, Fraction(0)) ** 2
    return total <= Fraction(radius) ** 2


def triangle_meets_planes(
    corners: Sequence[Sequence[float]], planes: Iterable[Sequence[float]]
) -> bool:
    """Tell whether a triangle, segment or point has a point with n . p + offset >= 0 for all."""
    polygon = [_exact(corner) for corner in corners]
    for *normal, offset in map(_exact, planes):
        heights = [_dot(normal, point) + offset for point in polygon]
        kept: list[Point] = []
        for i, point in enumerate(polygon):
            last, f, g = polygon[i - 1], heights[i - 1], heights[i]
            if f * g < 0:
                t = f / (f - g)
                kept.append([x + t * (y - x) for x, y in zip(last, point, strict=True)])
            if g >= 0:
                kept.append(point)
        polygon = kept
        if not polygon:
            return False
    return True
