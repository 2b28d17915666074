"""Exact arithmetic in rows of integers: points, planes, faces, clipping, distances.

Doubles times a power of two are integers, whose sums and products are exact and several times
faster than those of fractions. A point is homogeneous: its coordinates times a weight, then the
weight, which is positive. Points of doubles and all results have no common factor, so that equal
points are equal rows. A plane is a row (a, b, c, d), or (a, b, d) for a line in the plane, up to a
positive factor; its product with a point is the height of the point, up to positive factors.
Products end with the shorter row: that of a plane with a vector leaves out d. Functions of
distances take points without weights: rows of coordinates that all have one scale (see `scaled`).

This arithmetic is slow, and decides only what floating-point filters do not.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cmp_to_key
from math import gcd, hypot, isqrt
from operator import mul, sub
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import LARGEST, SMALLEST

# How many doubles are tried near a point, and how far the first is, in sizes of a face.
TRIES, REACH = 200, 2.0**-8

Row = tuple[int, ...]
# Points of doubles, such as the three corners of a triangle.
Corners = Sequence[Sequence[float]]
# A squared distance, as a quotient of integers: numerator, and denominator above 0.
Square = tuple[int, int]


def _difference(a: Square, b: Square) -> int:
    """Return an integer with the sign of a - b, for two quotients (numerator, denominator)."""
    return a[0] * b[1] - b[0] * a[1]


_quotient = cmp_to_key(_difference)  # a key by which quotients are compared


def scaled(rows: Iterable[Iterable[float]]) -> tuple[list[Row], int]:
    """Return (rows * scale, scale) for the least power of two that makes doubles integers."""
    ratios = [[x.as_integer_ratio() for x in row] for row in rows]
    scale = max([d for row in ratios for _, d in row])
    return [tuple([n * (scale // d) for n, d in row]) for row in ratios], scale


def exact_point(p: Iterable[float]) -> Row:
    """Return a point (x, y, z) of doubles as a homogeneous row of integers (x w, y w, z w, w)."""
    (row,), weight = scaled([p])
    return *row, weight


def rounded(p: Row) -> list[float]:
    """Return the coordinates of a homogeneous point, each rounded to the nearest double."""
    # Python rounds the quotient of two integers correctly.
    return [x / p[-1] for x in p[:-1]]


def dot(a: Row, b: Row) -> int:
    """Return the sum of the products of two rows, up to the end of the shorter one."""
    return sum(map(mul, a, b))


def dots(a: Row, rows: Iterable[Row]) -> list[int]:
    """Return the dot products of a row with each of some others, up to the end of the shorter."""
    return [sum(map(mul, a, row)) for row in rows]


def cross(a: Row, b: Row) -> Row:
    """Return the cross product of the first three numbers of two rows."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def times(factor: int, row: Row) -> Row:
    """Return a multiple of a row."""
    return tuple([factor * x for x in row])


def product(a: Iterable[Row], b: Iterable[Row]) -> list[Row]:
    """Return the product of two matrices, each given by rows, as rows."""
    columns = list(zip(*b, strict=True))
    return [tuple(dots(row, columns)) for row in a]


def adjugate(x: Row, y: Row, z: Row) -> tuple[list[Row], int]:
    """Return the columns of the adjugate of a 3 x 3 matrix given by rows, and its determinant."""
    columns = [cross(y, z), cross(z, x), cross(x, y)]
    return columns, dot(x, columns[0])


def minus(a: Row, b: Row) -> Row:
    """Return the vector from homogeneous point b to a, without weight, times a positive factor."""
    v, w = (1, 1) if a[-1] == b[-1] else (a[-1], b[-1])
    return tuple([x * w - y * v for x, y in zip(a[:-1], b[:-1], strict=True)])


def mixed(a: Row, b: Row, f: int, g: int) -> Row:
    """Return the homogeneous point f a + g b, divided by the greatest common divisor of its row.

    Its weight, the last number, must not be 0, and becomes positive: equal points are equal rows.
    """
    row = [f * x + g * y for x, y in zip(a, b, strict=True)]
    factor = gcd(*row) if row[-1] > 0 else -gcd(*row)
    return tuple([x // factor for x in row])


def between(a: Row, b: Row, n: int, d: int) -> Row:
    """Return the homogeneous point a + n / d (b - a) of homogeneous points a and b, for d > 0."""
    return mixed(a, b, (d - n) * b[-1], n * a[-1])


def plane_through(normal: Row, p: Row) -> Row:
    """Return the plane (a, b, c, d) with the normal (a, b, c) through a homogeneous point p."""
    return *times(p[-1], normal), -dot(normal, p)


def crossing(p: Row, q: Row, plane: Row) -> Row:
    """Return the homogeneous point of a segment in a plane; its ends p, q are on opposite sides."""
    return mixed(p, q, -dot(plane, q), dot(plane, p))


def clipped(polygon: Sequence[Row], plane: Row, *, level: bool = False) -> list[Row]:
    """Return the part of a convex polygon, segment or point that is above a plane, or in it.

    With `level`, only what is in the plane. A polygon is a list of homogeneous corners in order,
    empty if nothing is left; `dot(plane, corner)` is positive above the plane, 0 in it.
    """
    heights = dots(plane, polygon)
    clip: list[Row] = []
    for i, p in enumerate(polygon):
        f, g = heights[i - 1], heights[i]
        if f < 0 < g or g < 0 < f:
            clip.append(mixed(polygon[i - 1], p, -g, f))
        if g == 0 or (g > 0 and not level):
            clip.append(p)
    return list(dict.fromkeys(clip))  # without repetitions


class Face(NamedTuple):
    """A triangle with exact corners and planes; all planes are 0 if it has no area."""

    corners: tuple[Row, Row, Row]  # homogeneous
    plane: Row
    # Planes across the face through its edges, the k-th from corner k to the next one: the inside
    # has positive heights.
    sides: tuple[Row, Row, Row]
    size: float  # the diagonal of its box, rounded
    has_area: bool


def exact_face(corners: Corners) -> Face:
    """Return the `Face` of a triangle with corners of doubles."""
    a, b, c = map(exact_point, corners)
    u, v, w = minus(b, a), minus(c, b), minus(a, c)
    normal = cross(u, v)
    sides = [plane_through(cross(normal, edge), p) for edge, p in ((u, a), (v, b), (w, c))]
    size = hypot(*[max(x) - min(x) for x in zip(*corners, strict=True)])
    plane = plane_through(normal, a)
    return Face((a, b, c), plane, (sides[0], sides[1], sides[2]), size, any(normal))


def common(a: Face, b: Face) -> tuple[bool, list[Row]]:
    """Return (flat, corners) of the intersection of two faces with areas.

    `flat` says whether both are in one plane. The corners are homogeneous points: a polygon in
    order, the two ends of a segment, a single point, or none.
    """
    polygon = list(a.corners)
    flat = not any(dots(b.plane, polygon))
    if not flat:
        polygon = clipped(polygon, b.plane, level=True)
    for side in b.sides:
        polygon = clipped(polygon, side)
    return flat, polygon


def crosses(face: Face, p: Row, q: Row) -> bool | None:
    """Return whether a segment p, q crosses a face; not if q is in its plane.

    None is for undecided: if p is in the plane, or the segment meets the border of the face.
    """
    near, far = dot(face.plane, p), dot(face.plane, q)
    if near == 0 and face.has_area:
        return None
    if not (near < 0 < far or far < 0 < near):
        return False
    least = min(dots(crossing(p, q, face.plane), face.sides))
    return None if least == 0 else least > 0


def doubles_near(m: Row, size: float, rng: Generator) -> Iterator[tuple[NDArray[np.float64], Row]]:
    """Yield random points near m, farther and farther, as doubles and as homogeneous points.

    `size` is about that of what is near. Points end where they overflow, or after TRIES.
    """
    at = np.array(rounded(m))
    # The first is so far that rounding cannot undo the step.
    size = max(size * REACH, float(np.abs(at).max()) * 2.0**-40, 2.0**-1000)
    for _ in range(TRIES):
        with np.errstate(over="ignore"):
            q = at + rng.normal(size=3) * size
        size *= 1.25
        if not np.isfinite(q).all():
            break
        yield q, exact_point(q.tolist())


def triangle_meets_sphere(corners: Corners, center: Sequence[float], radius: float) -> bool:
    """Return whether a triangle, segment or point is within `radius` of a point."""
    (*face, point, (reach,)), _ = scaled([*corners, center, [radius]])
    n, d = _square_to_face(point, face)
    return n <= reach * reach * d


def box_meets_sphere(corners: Corners, center: Sequence[float], radius: float) -> bool:
    """Return whether a solid box, of corners (lower, upper), is within `radius` of a point."""
    (low, high, point, (reach,)), _ = scaled([*corners, center, [radius]])
    gaps = [max(a - x, x - b, 0) for a, b, x in zip(low, high, point, strict=True)]
    return dot(tuple(gaps), tuple(gaps)) <= reach * reach


def triangle_meets_planes(corners: Corners, planes: Iterable[Sequence[float]]) -> bool:
    """Return whether a triangle, segment or point meets the polytope of some planes.

    The polytope has a x + b y + c z + d >= 0 for each plane (a, b, c, d), of doubles.
    """
    polygon = [exact_point(corner) for corner in corners]
    for plane in planes:
        polygon = clipped(polygon, scaled([plane])[0][0])
    return bool(polygon)


def triangle_distance(a: Corners, b: Corners) -> float:
    """Return the distance of two triangles that do not touch, to about a unit in the last place."""
    rows, scale = scaled([*a, *b])
    # The squared distance of the scaled triangles is scale**2 times that of the given ones.
    n, d = square_between(rows[:3], rows[3:])
    return root(n, d * scale * scale)


def square_between(p: Sequence[Row], q: Sequence[Row]) -> Square:
    """Return the squared distance of two triangles of one scale that do not pierce each other."""
    squares = [_square_to_face(x, q) for x in p] + [_square_to_face(x, p) for x in q]
    for i in range(3):
        squares += [_square_of_edges(p[i - 1], p[i], q[j - 1], q[j]) for j in range(3)]
    return min(squares, key=_quotient)


def round_gap(a: Corners, radius: float, b: Corners, radius2: float) -> float:
    """Return the distance of the surfaces of two spheres or capsules, or of one and a face.

    `a` and `b` are triangles: the face itself, with the radius 0, or an axis, as a triangle without
    area whose first two corners are its ends. The result is 0 if the surfaces touch or cross.
    """
    rows, scale = scaled([*a, *b, [radius], [radius2]])
    p, q, (r,), (s,) = rows[:3], rows[3:6], *rows[6:]
    pierced = pierces(p, q) or pierces(q, p)
    n, d = (0, 1) if pierced else square_between(p, q)
    if n > (r + s) ** 2 * d:
        return _root_difference(r + s, n, d, scale)
    # The shape of `corners` may be inside the other: then its corner farthest from the axis, at the
    # squared distance n / d, gives the gap excess - sqrt(n / d).
    for axis, corners, excess in ((p, q, r - s), (q, p, s - r)):
        n, d = max([square_to_edge(x, axis[0], axis[1]) for x in corners], key=_quotient)
        if excess > 0 and excess**2 * d > n:
            return _root_difference(excess, n, d, scale)
    return 0.0


def pierces(axis: Sequence[Row], face: Sequence[Row]) -> bool:
    """Return whether the segment of the first two rows of `axis` meets a face not parallel to it.

    All rows have one scale. A face without area, or a segment without length, counts as parallel.
    """
    edges, normal = _edges_of(face)
    f, g = (dot(normal, less(x, face[0])) for x in axis[:2])
    if f * g > 0 or f == g:
        # On one side of the plane, or parallel to it. If the segment meets the face within the
        # plane, `square_between` is 0 already. A face without an area has f = g = 0.
        return False
    # x is the crossing times f + g.
    f, g = abs(f), abs(g)
    x = tuple([g * u + f * v for u, v in zip(axis[0], axis[1], strict=True)])
    return _is_over([times(f + g, corner) for corner in face], edges, normal, x)


def _edges_of(face: Sequence[Row]) -> tuple[list[Row], Row]:
    """Return the vectors from each of three corners to the next, and the normal."""
    edges = [less(face[(i + 1) % 3], face[i]) for i in range(3)]
    return edges, cross(edges[0], edges[1])


def _is_over(face: Sequence[Row], edges: Sequence[Row], normal: Row, x: Row) -> bool:
    """Return whether a point x is on the inner side of all edges of a face."""
    pairs = zip(face, edges, strict=True)
    return all(dot(cross(edge, less(x, corner)), normal) >= 0 for corner, edge in pairs)


def _root_difference(x: int, n: int, d: int, scale: int) -> float:
    """Return abs(x - sqrt(n / d)) / scale for x >= 0, rounded once from some 200 bits.

    The result is never 0 or infinite: it stops at the smallest and the largest double.
    """
    # It is equal to abs(x**2 - n / d) / (x + sqrt(n / d)), in which nothing cancels. `total` is the
    # denominator times 2**shift.
    shift = max(0, 200 - n.bit_length() + d.bit_length())
    total = (x << shift) + isqrt((n << 2 * shift) // d)
    top, bottom = abs(x * x * d - n) << shift, d * total * scale
    if top >= bottom * int(LARGEST):
        return LARGEST
    return float(max(top / bottom, SMALLEST))


def less(a: Row, b: Row) -> Row:
    """Return the difference a - b of two rows."""
    return tuple(map(sub, a, b))


def square_to_edge(x: Row, a: Row, b: Row) -> Square:
    """Return the squared distance of a point x from a segment a, b, all of one scale."""
    # Between the ends, it is |w|**2 - (w . e)**2 / |e|**2, by Pythagoras.
    w, e = less(x, a), less(b, a)
    along, length = dot(w, e), dot(e, e)
    if along <= 0:
        return dot(w, w), 1
    if along >= length:
        w = less(x, b)
        return dot(w, w), 1
    return dot(w, w) * length - along * along, length


def _square_to_face(x: Row, face: Sequence[Row]) -> Square:
    """Return the squared distance of a point x from a triangle, segment or point of three rows."""
    # From the plane if the projection of x is in the triangle, else from the nearest edge.
    edges, normal = _edges_of(face)
    if any(normal) and _is_over(face, edges, normal, x):
        return dot(normal, less(x, face[0])) ** 2, dot(normal, normal)
    return min([square_to_edge(x, face[i], face[i - 2]) for i in range(3)], key=_quotient)


def _square_of_edges(p: Row, q: Row, r: Row, s: Row) -> Square:
    """Return the squared distance of two segments p, q and r, s, all of one scale."""
    u, v, w = less(q, p), less(s, r), less(r, p)
    n = cross(u, v)
    square = dot(n, n)
    # The nearest points of both lines are at these shares of u and v, here times `square`. If they
    # are not within the segments, an end of a segment is nearest.
    if square and 0 < dot(cross(w, v), n) < square and 0 < dot(cross(w, u), n) < square:
        return dot(w, n) ** 2, square
    ends = (p, r, s), (q, r, s), (r, p, q), (s, p, q)
    return min([square_to_edge(*three) for three in ends], key=_quotient)


def root(n: int, d: int) -> float:
    """Return the square root of n / d to about a unit in the last place; 0 only for 0."""
    if n == 0:
        return 0.0
    factor = gcd(n, d)
    n, d = n // factor, d // factor
    # The integer root of n / d * 2**shift has some 64 bits, for an even shift; the result is this
    # root over 2**(shift / 2), here the quotient above / below of integers.
    shift = d.bit_length() - n.bit_length() + 130
    shift += shift % 2
    above = isqrt((n << max(shift, 0)) // (d << max(-shift, 0))) << max(-shift // 2, 0)
    below = 1 << max(shift // 2, 0)
    return LARGEST if above >= below * int(LARGEST) else max(above / below, SMALLEST)
