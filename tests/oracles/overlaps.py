"""The slow truth of overlaps, in rational numbers: a linear programme a pair.

Convex sets are given by what generates or bounds them, and whether they meet is decided by clipping
one with the other's half-spaces; nothing here knows of signs of volumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Point = tuple[Fraction, ...]
Plane = tuple[Fraction, Fraction, Fraction, Fraction]


def exact(points: Sequence[Sequence[float]]) -> list[Point]:
    """Return points as fractions."""
    return [tuple(Fraction(float(x)) for x in p) for p in points]


def sub(a: Point, b: Point) -> Point:
    return tuple(x - y for x, y in zip(a, b, strict=True))


def dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def cross(a: Point, b: Point) -> Point:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def clip(polygon: list[Point], plane: Plane) -> list[Point]:
    """Return the part of a convex polygon, segment or point where n . p + offset >= 0."""
    kept: list[Point] = []
    values = [dot(plane[:3], p) + plane[3] for p in polygon]
    for i, (p, f) in enumerate(zip(polygon, values, strict=True)):
        q, g = polygon[i - 1], values[i - 1]
        if f * g < 0:
            t = f / (f - g)
            kept.append(tuple(x + t * (y - x) for x, y in zip(p, q, strict=True)))
        if f >= 0:
            kept.append(p)
    return list(dict.fromkeys(kept))


def clip_all(polygon: list[Point], planes: Sequence[Plane]) -> list[Point]:
    for plane in planes:
        if polygon:
            polygon = clip(polygon, plane)
    return polygon


def plane_through(normal: Point, point: Point) -> Plane:
    return (normal[0], normal[1], normal[2], -dot(normal, point))


def bounds_of(triangle: list[Point]) -> list[Plane]:
    """Return half-spaces whose intersection is a triangle, segment or point."""
    a, b, c = triangle
    normal = cross(sub(b, a), sub(c, a))
    if any(normal):
        planes = []
        for p, q in ((a, b), (b, c), (c, a)):
            planes.append(plane_through(cross(normal, sub(q, p)), p))
        return [*planes, *both(plane_through(normal, a))]
    p, q = min(triangle), max(triangle)
    along = sub(q, p)
    planes = []
    # All that is on the line: no component off it, and between the ends.
    for axis in range(3):
        unit = tuple(Fraction(int(k == axis)) for k in range(3))
        if p == q:
            planes += both(plane_through(unit, p))
        elif any(cross(along, unit)):
            planes += both(plane_through(cross(along, unit), p))
    if p != q:
        planes.append(plane_through(along, p))
        planes.append(plane_through(tuple(-x for x in along), q))
    return planes


def both(plane: Plane) -> list[Plane]:
    return [plane, (-plane[0], -plane[1], -plane[2], -plane[3])]


def common(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> list[Point]:
    """Return the corners of what two triangles have in common."""
    return clip_all(list(dict.fromkeys(exact(a))), bounds_of(exact(b)))


def triangles_touch(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> bool:
    return bool(common(a, b))


def box_planes(lower: Sequence[float], upper: Sequence[float]) -> list[Plane]:
    planes = []
    for axis in range(3):
        unit = [Fraction(int(k == axis)) for k in range(3)]
        planes.append((*unit, -Fraction(float(lower[axis]))))
        planes.append((*(-x for x in unit), Fraction(float(upper[axis]))))
    return planes  # type: ignore[return-value]


def triangle_meets_box(
    t: Sequence[Sequence[float]], lower: Sequence[float], upper: Sequence[float]
) -> bool:
    return bool(clip_all(list(dict.fromkeys(exact(t))), box_planes(lower, upper)))


def triangle_meets_planes(t: Sequence[Sequence[float]], planes: Sequence[Sequence[float]]) -> bool:
    return bool(clip_all(list(dict.fromkeys(exact(t))), exact(planes)))  # type: ignore[arg-type]


def squared_distance(p: Point, triangle: list[Point]) -> Fraction:
    """Return the squared distance of a point from a triangle, segment or point."""
    a, b, c = triangle
    normal = cross(sub(b, a), sub(c, a))
    if any(normal):
        inside = all(
            dot(cross(normal, sub(q, r)), sub(p, r)) >= 0 for r, q in ((a, b), (b, c), (c, a))
        )
        if inside:
            return dot(normal, sub(p, a)) ** 2 / dot(normal, normal)
    found = []
    for r, q in ((a, b), (b, c), (c, a)):
        along = sub(q, r)
        length = dot(along, along)
        t = min(max(dot(along, sub(p, r)) / length, Fraction(0)), Fraction(1)) if length else 0
        near = tuple(x + t * y for x, y in zip(r, along, strict=True))
        found.append(dot(sub(p, near), sub(p, near)))
    return min(found)


def triangle_meets_sphere(
    t: Sequence[Sequence[float]], center: Sequence[float], radius: float
) -> bool:
    return squared_distance(exact([center])[0], exact(t)) <= Fraction(float(radius)) ** 2


def faces_overlap(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> bool:
    """Tell whether two faces meet elsewhere than in what they share."""
    shared = set(exact(a)) & set(exact(b))
    if len(shared) == 3:
        return True
    found = set(common(a, b))
    if len(shared) == 2:
        # More than a segment: an area.
        p = sorted(found)
        return any(any(cross(sub(p[-1], p[0]), sub(q, p[0]))) for q in p)
    return bool(found - shared)
