"""Which regions surfaces of spheres and capsules meet, by fractions: all candidates of minima."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import lcm

from tests.oracles.vectors import dot

Vector = list[Fraction]
Planes = Sequence[Sequence[float]]


def _vector(p: Sequence[float]) -> Vector:
    return [Fraction(x) for x in p]


def _at(p: Vector, q: Vector, t: Fraction) -> Vector:
    return [a + t * (b - a) for a, b in zip(p, q, strict=True)]


def square_of(x: Vector, p: Vector, q: Vector) -> Fraction:
    """Return the squared distance of a point from a segment."""
    v, w = [b - a for a, b in zip(p, q, strict=True)], [b - a for a, b in zip(p, x, strict=True)]
    length = dot(v, v)
    t = min(max(dot(v, w) / length, Fraction(0)), Fraction(1)) if length else Fraction(0)
    away = [a - b for a, b in zip(x, _at(p, q, t), strict=True)]
    return dot(away, away)


def _determinant(m: list[list[int]]) -> int:
    if not m:
        return 1
    minors = ([[*row[:k], *row[k + 1 :]] for row in m[1:]] for k in range(len(m)))
    return sum((-1) ** k * m[0][k] * _determinant(n) for k, n in enumerate(minors))


def _solved(m: list[Vector], values: Vector) -> Vector | None:
    """Solve equations by Cramer's rule, each multiplied by what makes its numbers integers."""
    rows = []
    for row in ([*row, x] for row, x in zip(m, values, strict=True)):
        common = lcm(*(x.denominator for x in row))
        rows.append([x.numerator * (common // x.denominator) for x in row])
    d = _determinant([row[:-1] for row in rows])
    if d == 0:
        return None
    replaced = ([[*row[:k], row[-1], *row[k + 1 : -1]] for row in rows] for k in range(len(m)))
    return [Fraction(_determinant(each), d) for each in replaced]


def _holds(planes: list[Vector], x: Vector) -> bool:
    return all(dot(plane[:3], x) + plane[3] >= 0 for plane in planes)


def _least(planes: list[Vector], p: Vector, q: Vector) -> Fraction | None:
    """Return the squared distance of a segment from a polytope, None if this is empty."""
    # On the affine hull of each face, for both ends and all of the line.
    v, found = [b - a for a, b in zip(p, q, strict=True)], []
    for count in range(4):
        for face in combinations(planes, count):
            for mode in (0, 1, 2):
                # Unknowns: t, and the factors of the normals; rows are multiples of directions.
                start = p if mode != 1 else q
                move = v if mode == 2 else [Fraction(0)] * 3
                rows = [[dot(n[:3], move), *(dot(n[:3], m[:3]) for m in face)] for n in face]
                values = [-n[3] - dot(n[:3], start) for n in face]
                first = [Fraction(0), *(dot(v, m[:3]) for m in face)]
                if mode != 2:
                    first = [Fraction(1), *(Fraction(0) for _ in face)]
                solved = _solved([first, *rows], [Fraction(0), *values])
                if solved is None or not 0 <= solved[0] <= 1:
                    continue
                s = [a + solved[0] * b for a, b in zip(start, move, strict=True)]
                terms = zip(solved[1:], face, strict=True)
                parts = [[f * c for c in m[:3]] for f, m in terms]
                x = [sum(each, Fraction(0)) for each in zip(s, *parts, strict=True)]
                if _holds(planes, x):
                    found.append(square_of(x, p, q))
    return min(found) if found else None


def surface_meets_planes(shape: Sequence[Sequence[float]], given: Planes) -> bool:
    """Return whether the surface of a shape (p, q, [radius]) meets a polytope."""
    p, q, (r,) = map(_vector, shape)
    planes = [_vector(plane) for plane in given]
    least = _least(planes, p, q)
    if least is None or least > r * r:
        return False
    # Some corner of the part in a large box is outside, or on the surface.
    box = []
    for axis, side in product(range(3), (1, -1)):
        low = min(side * p[axis], side * q[axis]) - 3 * r - 1
        box.append([Fraction(side * (k == axis)) for k in range(3)] + [-low])
    for three in combinations([*planes, *box], 3):
        x = _solved([plane[:3] for plane in three], [-plane[3] for plane in three])
        if x is not None and _holds(planes, x) and _holds(box, x) and square_of(x, p, q) >= r * r:
            return True
    return False


def surface_meets_box(
    shape: Sequence[Sequence[float]], lower: Sequence[float], upper: Sequence[float]
) -> bool:
    """Return whether the surface of a shape meets a box."""
    p, q, (r,) = map(_vector, shape)
    low, high = _vector(lower), _vector(upper)
    if any(a > b for a, b in zip(low, high, strict=True)):
        return False
    corners = product(*zip(low, high, strict=True))
    if all(square_of([*corner], p, q) < r * r for corner in corners):
        return False
    # Between the points where the axis crosses planes of the box, a parabola.
    v = [b - a for a, b in zip(p, q, strict=True)]
    ends = [(end[k] - p[k]) / v[k] for k in range(3) if v[k] for end in (low, high)]
    times = sorted({Fraction(0), Fraction(1), *(t for t in ends if 0 < t < 1)})

    def square(t: Fraction) -> Fraction:
        x = _at(p, q, t)
        gaps = [max(a - c, c - b, Fraction(0)) for a, b, c in zip(low, high, x, strict=True)]
        return dot(gaps, gaps)

    found = [square(t) for t in times]
    for a, b in pairwise(times):
        # By values at three points: the vertex of the parabola.
        f, g, h = square(a), square((a + b) / 2), square(b)
        bend = f - 2 * g + h
        if bend:
            t = a + (b - a) * (3 * f - 4 * g + h) / (4 * bend)
            if a < t < b:
                found.append(square(t))
    return min(found) <= r * r


def surface_meets_sphere(
    shape: Sequence[Sequence[float]], center: Sequence[float], radius: float
) -> bool:
    """Return whether the surface of a shape meets a ball."""
    p, q, (r,) = map(_vector, shape)
    square, s = square_of(_vector(center), p, q), Fraction(radius)
    return square <= (r + s) ** 2 and (r <= s or square >= (r - s) ** 2)
