"""Exact tests of triangles and boxes with spheres and polytopes, in rational numbers.

They are slow, and decide only what floating-point filters cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
