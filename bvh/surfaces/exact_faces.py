"""Faces in rational numbers: what two of them have in common, and which way a segment crosses one.

They are slow, and decide what signs of volumes alone do not tell: few faces in most questions. A
point is homogeneous integers without a common factor, its weight last and positive; a vector is
integers, times any positive number, as only signs of products with it are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd

Point = tuple[int, int, int, int]
Vector = tuple[int, int, int]
Face = tuple[Point, Point, Point]


def exact_point(p: Iterable[float]) -> Point:
    """Return a point of doubles."""
    (a, i), (b, j), (c, k) = (x.as_integer_ratio() for x in p)
    # Weights are powers of two, so the largest is the least that all numbers have in common.
    w = max(i, j, k)
    return a * (w // i), b * (w // j), c * (w // k), w


def exact_face(corners: Iterable[Iterable[float]]) -> Face:
    """Return a triangle of doubles."""
    a, b, c = corners
    return exact_point(a), exact_point(b), exact_point(c)


def rounded(p: Point) -> list[float]:
    """Return the doubles nearest to a point."""
    return [x / p[3] for x in p[:3]]


def minus(a: Point, b: Point) -> Vector:
    """Return the direction from one point to another, times both of their weights."""
    v, w = a[3], b[3]
    if v == w:
        return a[0] - b[0], a[1] - b[1], a[2] - b[2]
    return a[0] * w - b[0] * v, a[1] * w - b[1] * v, a[2] * w - b[2] * v


def cross(a: Vector, b: Vector) -> Vector:
    """Return a cross product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def dot(a: Vector, b: Vector) -> int:
    """Return a dot product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def mixed(a: Point, b: Point, f: int, g: int) -> Point:
    """Return f a + g b, whose weight is not 0."""
    x, y, z, w = (f * p + g * q for p, q in zip(a, b, strict=True))
    k = gcd(x, y, z, w)
    k = -k if w < 0 else k
    return x // k, y // k, z // k, w // k


def between(a: Point, b: Point, share: Fraction) -> Point:
    """Return the point at a share of the way from a to b."""
    n, d = share.as_integer_ratio()
    return mixed(a, b, (d - n) * b[3], n * a[3])


def sign(x: int) -> int:
    """Return -1, 0 or 1."""
    return (x > 0) - (x < 0)


def normal_of(face: Face) -> Vector:
    """Return the normal of a face; 0 if it has no area."""
    return cross(minus(face[1], face[0]), minus(face[2], face[0]))


def heights_over(n: Vector, origin: Point, points: Sequence[Point]) -> list[int]:
    """Return the heights of points over a plane, times their weights and one number for all."""
    x, y, z, w = origin
    at = n[0] * x + n[1] * y + n[2] * z
    return [(n[0] * p[0] + n[1] * p[1] + n[2] * p[2]) * w - at * p[3] for p in points]


def crossing(p: Point, q: Point, f: int, g: int) -> Point:
    """Return where a segment crosses a plane, by the heights of its ends on both sides of it."""
    return mixed(p, q, -g, f)


def _clipped(polygon: Sequence[Point], heights: Sequence[int]) -> list[Point]:
    """Clip a convex polygon, a segment or a point to heights of at least 0."""
    kept: list[Point] = []
    for i, point in enumerate(polygon):
        f, g = heights[i - 1], heights[i]
        if f * g < 0:
            kept.append(crossing(polygon[i - 1], point, f, g))
        if g >= 0:
            kept.append(point)
    return list(dict.fromkeys(kept))


def common(a: Face, b: Face) -> tuple[bool, list[Point]]:
    """Return (flat, corners) of what two faces with areas share: a point, segment or polygon.

    `flat` says whether both are in one plane. Of a polygon the corners are in order.
    """
    n = normal_of(b)
    heights = heights_over(n, b[0], a)
    flat = not any(heights)
    found: list[Point] = list(a)
    if not flat:
        found = _clipped(found, heights)
        found = _clipped(found, [-height for height in heights_over(n, b[0], found)])
    for i in range(3):
        inward = cross(n, minus(b[(i + 1) % 3], b[i]))
        found = _clipped(found, heights_over(inward, b[i], found))
    return flat, found


def is_crossed(face: Face, q: Point, p: Point) -> bool | None:
    """Return whether a face is crossed strictly between two points; None where that is unsure.

    It is where q is in the face's plane, and where the segment meets an edge.
    """
    n = normal_of(face)
    if not any(n):
        return False
    near, far = sign(dot(n, minus(q, face[0]))), sign(dot(n, minus(p, face[0])))
    if near == 0:
        return None
    if near * far >= 0:
        return False
    way, corners = minus(p, q), [minus(corner, q) for corner in face]
    sides = {sign(dot(cross(corners[i - 1], corners[i]), way)) for i in range(3)}
    if {-1, 1} <= sides:
        return False
    return None if 0 in sides else True


def wings(face: Face, m: Point, axis: Vector) -> list[Vector] | None:
    """Return the directions in which a face goes off a line through m, seen at m.

    They are two where the line passes through the face, one where it runs along an edge, and none
    where m is not in the face; None where m is an end of either.
    """
    n = normal_of(face)
    if not any(n) or dot(n, minus(m, face[0])) != 0:
        return []
    heights = []
    for i in range(3):
        edge = minus(face[(i + 1) % 3], face[i])
        heights.append(sign(dot(cross(n, edge), minus(m, face[i]))))
    if min(heights) < 0:
        return []
    if dot(n, axis) != 0 or heights.count(0) > 1:
        return None
    across = cross(n, axis)
    if 0 not in heights:
        return [across, (-across[0], -across[1], -across[2])]
    i = heights.index(0)
    inward = cross(n, minus(face[(i + 1) % 3], face[i]))
    if any(cross(axis, minus(face[(i + 1) % 3], face[i]))):
        return None
    return [inward]
