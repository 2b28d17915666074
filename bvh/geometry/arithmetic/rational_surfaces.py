"""Exact tests of spheres and capsules with balls and convex polytopes.

A sphere or capsule is the set of points within a radius of its axis, a segment given by its ends:
equal ones for a sphere. Its *surface* has the distance of the radius from the axis. Polytopes are
sets of points with a x + b y + c z + d >= 0 for all planes (a, b, c, d): integers, except for
`surface_meets_planes`.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from operator import mul
from typing import Any

from bvh.geometry.arithmetic.rational import Corners, Row, dot, less, scaled, square_to_edge


def surface_meets_sphere(
    axis: Corners, radius: float, center: Sequence[float], reach: float
) -> bool:
    """Return whether the point `center` is within `reach` of the surface of a sphere or capsule.

    The surface is at the distance `radius` from `axis`, a segment given by both ends.
    """
    (p, q, at, (r,), (s,)), _ = scaled([*axis, center, [radius], [reach]])
    n, d = square_to_edge(at, p, q)
    # The distance sqrt(n / d) from the axis is within r - s..r + s.
    return n <= (r + s) ** 2 * d and (r <= s or n >= (r - s) ** 2 * d)


def surface_meets_planes(axis: Corners, radius: float, planes: Sequence[Sequence[float]]) -> bool:
    """Return whether the surface of a sphere or capsule meets a polytope.

    The surface is at the distance `radius` from `axis`, a segment given by both ends. The polytope
    has a x + b y + c z + d >= 0 for each row (a, b, c, d) of `planes`.
    """
    # A plane without a normal and with a negative offset excludes all points.
    if any(not any(p[:3]) and p[3] < 0.0 for p in planes):
        return False
    ends, r, sides = _in_integers(axis, radius, [scaled([p])[0][0] for p in planes])
    # A polytope is connected: it meets the surface if it has a point within the radius of the axis
    # and one that is not nearer than the radius. Without a radius, the surface is the axis.
    return _is_near(ends, r, sides) and (r == 0 or _reaches_out(ends, r, sides))


def solid_meets_planes(
    axis: Corners, radius: float, planes: Sequence[Row], *, deeper: bool = False
) -> bool:
    """Return whether a solid sphere or capsule meets a polytope.

    The solid is within `radius` of `axis`, a segment given by both ends. The polytope has
    a x + b y + c z + d >= 0 for each row (a, b, c, d) of `planes`, integers. If `deeper`, only
    points of the solid count that are nearer to the axis than the radius.
    """
    return _is_near(*_in_integers(axis, radius, planes), deeper)


def solid_is_within(axis: Corners, radius: float, planes: Sequence[Row]) -> bool:
    """Return whether a solid sphere or capsule, within `radius` of `axis`, lies in a polytope.

    The polytope has a x + b y + c z + d >= 0 for each row (a, b, c, d) of `planes`, integers.
    """
    ends, r, sides = _in_integers(axis, radius, planes)
    # Both ends have a distance h / |normal| of at least r from each plane.
    heights = [(dot(side[:3], end) + side[3], side[:3]) for side in sides for end in ends]
    return all(h >= 0 and h * h >= r * r * dot(normal, normal) for h, normal in heights)


def solid_contains(axis: Corners, radius: float, x: Sequence[Fraction]) -> bool:
    """Return whether a point x is nearer than the radius to the axis, given by both ends."""
    (*ends, (r,)), scale = scaled([*axis, [radius]])
    at: Any = [scale * component for component in x]
    n, d = square_to_edge(at, ends[0], ends[1])
    return n < r * r * d


def _in_integers(
    axis: Corners, radius: float, planes: Sequence[Row]
) -> tuple[list[Row], int, list[Row]]:
    """Return (ends, radius, planes) with all lengths times one power of two: integers.

    Planes (a, b, c, d) with a normal (a, b, c) of 0 are left out. The others are sorted by the
    height of the axis's lower end over them: the first are the most likely to exclude the solid.
    """
    (*ends, (r,)), scale = scaled([*axis, [radius]])
    sides = {(*plane[:3], plane[3] * scale) for plane in planes if any(plane[:3])}

    def signed_square(plane: Row) -> Fraction:
        """Return the square of the lower end's height over a plane, with the height's sign."""
        low = min(dot(plane[:3], end) + plane[3] for end in ends)
        return Fraction(low * abs(low), dot(plane[:3], plane[:3]))

    return ends, r, sorted(sides, key=signed_square)


def _is_near(ends: Sequence[Row], r: int, planes: Sequence[Row], deeper: bool = False) -> bool:
    """Return whether a polytope has a point within r of a segment, or nearer than r if `deeper`.

    All numbers are integers of one scale (see `_in_integers`).
    """
    # The polytope's point nearest to the segment is a + t v + sum(f n), over at most three planes
    # of normals n, with factors f of at least 0. Every set of some planes gives a larger polytope,
    # whose nearest point bounds the distance from below; if this point is inside of all planes, it
    # is the nearest point. `fixed` is t: 0 or 1 at an end of the segment, None for any t between,
    # which a segment without length does not need.
    a, v = ends[0], less(ends[1], ends[0])
    choices = (0, 1, None) if any(v) else (0,)
    for count in range(4):
        for some in combinations(planes, count):
            for fixed in choices:
                found = _nearest_of(a, v, some, fixed)
                if found is None:
                    continue
                at, away = found
                square = sum(x * x for x in away)
                if square > r * r or (deeper and square == r * r):
                    return False
                x = [p + q for p, q in zip(at, away, strict=True)]
                if all(sum(map(mul, plane[:3], x)) + plane[3] >= 0 for plane in planes):
                    return True
    return False


def _nearest_of(
    a: Row, v: Row, planes: Sequence[Row], fixed: int | None
) -> tuple[list[Fraction], list[Fraction]] | None:
    """Return (x, w): x + w is the point of a polytope that is nearest to a segment.

    The polytope is that of the given planes. x = a + t v is the segment's point nearest to it, at
    t = `fixed`, 0 or 1, or at any t within 0..1 if `fixed` is None. The result is None unless x + w
    lies on every one of the planes, and where this point is not unique.
    """
    # Unknowns: a factor for each plane's normal in w, and t unless it is given. Equations: x + w is
    # in each plane, and for any t, w is perpendicular to v. At an end of the segment, w must not
    # lead back along it.
    free, t = fixed is None, Fraction(fixed or 0)
    columns = [*(plane[:3] for plane in planes), *([v] if free else [])]
    start = [x + (fixed or 0) * y for x, y in zip(a, v, strict=True)]
    equations = [
        [*(dot(plane[:3], column) for column in columns), -plane[3] - dot(plane[:3], tuple(start))]
        for plane in planes
    ]
    if free:
        equations.append([*(dot(v, plane[:3]) for plane in planes), 0, 0])
    solved = solution(equations)
    if solved is None or any(f < 0 for f in solved[: len(planes)]):
        return None
    away = [sum((f * plane[k] for f, plane in zip(solved, planes, strict=False)), Fraction(0))
            for k in range(3)]  # fmt: skip
    along = sum(x * y for x, y in zip(away, v, strict=True))
    if free:
        t = solved[-1]
    if not 0 <= t <= 1 or (fixed == 0 and along > 0) or (fixed == 1 and along < 0):
        return None
    return [x + t * y for x, y in zip(a, v, strict=True)], away


def solution(equations: Sequence[Sequence[int]]) -> list[Fraction] | None:
    """Return the solution x of n linear equations, or None if they are singular.

    An equation is a row of n coefficients and a value b: sum(coefficient * x) = b.
    """
    # Gauss-Jordan elimination.
    rows = [[Fraction(x) for x in equation] for equation in equations]
    for k in range(len(rows)):
        pivot = next((j for j in range(k, len(rows)) if rows[j][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for j in range(len(rows)):
            if j != k and rows[j][k]:
                factor = rows[j][k]
                rows[j] = [x - factor * y for x, y in zip(rows[j], rows[k], strict=True)]
    return [row[-1] for row in rows]


def _reaches_out(ends: Sequence[Row], r: int, planes: Sequence[Row]) -> bool:
    """Return whether a polytope that has a point near a segment has one at least r away from it."""
    # Cut the polytope by a box, 2 r around the segment: if it leaves the box, points of the cut are
    # on the box. The points of the cut that are farthest away are corners, of three planes each.
    box = [
        (*(s * (k == axis) for k in range(3)), 2 * r - min(s * end[axis] for end in ends))
        for axis in range(3) for s in (1, -1)
    ]  # fmt: skip
    p, q = ends
    for three in combinations([*box, *planes], 3):
        x: Any = solution([[*plane[:3], -plane[3]] for plane in three])
        if x is None or any(dot(plane[:3], x) + plane[3] < 0 for plane in (*box, *planes)):
            continue
        n, d = square_to_edge(tuple(x), p, q)
        if n >= r * r * d:
            return True
    return False
