"""The slow truth of overlaps, in rational numbers: a linear programme a pair.

Convex sets are given by what generates or bounds them, and whether they meet is decided by clipping
one with the other's half-spaces; nothing here knows of signs of volumes. Rational points are
homogeneous integers without a common factor, their weight last: fractions take five times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any

from tests.oracles.rays import integers
from tests.oracles.vectors import cross, dot, minus

Point = tuple[Fraction, ...]
Weighted = tuple[int, ...]
# Of a half-space: all points where it is not negative.
Plane = tuple[int, ...]
Triangle = Sequence[Sequence[float]]


def exact(points: Iterable[Sequence[float]]) -> list[Point]:
    """Return points as fractions."""
    return [tuple(Fraction(float(x)) for x in p) for p in points]


def scaled(*points: Sequence[float]) -> tuple[list[Weighted], int]:
    """Return points times the least power of two that makes them integers; that power."""
    numbers, unit = integers([x for p in points for x in p])
    return [tuple(numbers[i : i + 3]) for i in range(0, len(numbers), 3)], unit


def weighted(point: Iterable[Any]) -> Weighted:
    """Return a point of finite numbers of any kind as homogeneous integers."""
    ratios = [x.as_integer_ratio() for x in point]
    weight = lcm(*(q for _, q in ratios))
    return (*(p * (weight // q) for p, q in ratios), weight)


def clip(polygon: list[Weighted], plane: Plane) -> list[Weighted]:
    """Return the part of a convex polygon, segment or point on one side of a plane."""
    kept: list[Weighted] = []
    a, b, c, d = plane
    values = [a * x + b * y + c * z + d * w for x, y, z, w in polygon]
    for i, (p, f) in enumerate(zip(polygon, values, strict=True)):
        q, g = polygon[i - 1], values[i - 1]
        if (f < 0 < g) or (g < 0 < f):
            # Where the line of p and q is neither.
            point = [abs(g) * x + abs(f) * y for x, y in zip(p, q, strict=True)]
            factor = gcd(*point)
            kept.append(tuple(x // factor for x in point))
        if f >= 0:
            kept.append(p)
    return list(dict.fromkeys(kept))


def clipped(polygon: Iterable[Iterable[Any]], planes: Iterable[Plane]) -> list[Weighted]:
    """Return the corners of the part of a polygon on one side of all planes."""
    corners = list(dict.fromkeys(map(weighted, polygon)))
    for plane in planes:
        if not corners:
            break
        corners = clip(corners, plane)
    return corners


def clip_all(polygon: list[Point], planes: Iterable[Sequence[Any]]) -> list[Point]:
    """Clip a polygon of fractions by planes of numbers of any kind."""
    # A plane's factor does not matter if it is positive.
    found = clipped(polygon, [weighted(plane)[:-1] for plane in planes])
    return [tuple(Fraction(x, p[-1]) for x in p[:-1]) for p in found]


def plane_through(normal: Weighted, point: Weighted, unit: int) -> Plane:
    """Return a plane, given a normal and a point times a unit."""
    return (*(unit * x for x in normal), -dot(normal, point))


def bounds_of(triangle: Triangle) -> list[Plane]:
    """Return half-spaces whose intersection is a triangle, segment or point."""
    (a, b, c), one = scaled(*triangle)
    normal = cross(minus(b, a), minus(c, a))
    if any(normal):
        planes = []
        for p, q in ((a, b), (b, c), (c, a)):
            planes.append(plane_through(cross(normal, minus(q, p)), p, one))
        return [*planes, *both(plane_through(normal, a, one))]
    p, q = min(a, b, c), max(a, b, c)
    along = minus(q, p)
    planes = []
    # All that is on the line: no component off it, and between the ends.
    for axis in range(3):
        unit = tuple(int(k == axis) for k in range(3))
        if p == q:
            planes += both(plane_through(unit, p, one))
        elif any(cross(along, unit)):
            planes += both(plane_through(cross(along, unit), p, one))
    if p != q:
        planes.append(plane_through(along, p, one))
        planes.append(plane_through(tuple(-x for x in along), q, one))
    return planes


def both(plane: Plane) -> list[Plane]:
    return [plane, tuple(-x for x in plane)]


def common(a: Triangle, b: Triangle) -> list[Weighted]:
    """Return the corners of what two triangles have in common."""
    # Comparisons of floats are exact.
    for x, y in zip(zip(*a, strict=True), zip(*b, strict=True), strict=True):
        if max(x) < min(y) or max(y) < min(x):
            return []
    return clipped(a, bounds_of(b))


def triangles_touch(a: Triangle, b: Triangle) -> bool:
    return bool(common(a, b))


def triangle_meets_box(t: Triangle, lower: Sequence[float], upper: Sequence[float]) -> bool:
    (low, high), one = scaled(lower, upper)
    planes: list[Plane] = []
    for axis in range(3):
        unit = tuple(int(k == axis) for k in range(3))
        planes.append(plane_through(unit, low, one))
        planes.append(plane_through(tuple(-x for x in unit), high, one))
    return bool(clipped(t, planes))


def triangle_meets_planes(t: Triangle, planes: Sequence[Sequence[float]]) -> bool:
    return bool(clipped(t, [weighted(plane)[:-1] for plane in planes]))


def squared_distance(p: Weighted, triangle: Sequence[Weighted]) -> Fraction:
    """Return the squared distance of a point from a triangle, segment or point, of integers."""
    a, b, c = triangle
    normal = cross(minus(b, a), minus(c, a))
    if any(normal):
        inside = all(
            dot(cross(normal, minus(q, r)), minus(p, r)) >= 0 for r, q in ((a, b), (b, c), (c, a))
        )
        if inside:
            return Fraction(dot(normal, minus(p, a)) ** 2, dot(normal, normal))
    found = []
    for r, q in ((a, b), (b, c), (c, a)):
        along, off = minus(q, r), minus(p, r)
        length, before = dot(along, along), dot(along, off)
        if before <= 0:
            found.append(Fraction(dot(off, off)))
        elif before >= length:
            found.append(Fraction(dot(minus(p, q), minus(p, q))))
        else:
            found.append(Fraction(dot(off, off) * length - before**2, length))
    return min(found)


def triangle_meets_sphere(t: Triangle, center: Sequence[float], radius: float) -> bool:
    (*corners, middle, (r, _, _)), _ = scaled(*t, center, (radius, 0.0, 0.0))
    return squared_distance(middle, corners) <= r**2


def faces_overlap(a: Triangle, b: Triangle) -> bool:
    """Tell whether two faces meet elsewhere than in what they share."""
    shared = set(map(weighted, a)) & set(map(weighted, b))
    if len(shared) == 3:
        return True
    found = common(a, b)
    if len(shared) == 2:
        # More than a segment: an area.
        first, *others = ([Fraction(x, p[3]) for x in p[:3]] for p in found)
        return any(any(cross(minus(others[0], first), minus(other, first))) for other in others[1:])
    return bool(set(found) - shared)
