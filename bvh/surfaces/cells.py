"""Cells around a point: which sides of two closed surfaces meet there, decided exactly.

A point is inside a closed surface if a ray from it crosses the surface an odd number of times. Near
a point of a segment in which faces meet, space is divided into wedges by the planes of the faces
that pass through it, sorted around the segment by exact signs. One wedge is looked at: from a
double in it, where a ray decides, to the point, in rational numbers. The others follow, as each
face that is passed is another crossing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, cmp_to_key, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import kernel_input
from bvh.surfaces.exact_faces import (
    Face,
    Point,
    Vector,
    between,
    exact_face,
    exact_point,
    is_crossed,
    minus,
    rounded,
    sign,
    wings,
)
from bvh.surfaces.pair_signs import count_crossings

Direction = tuple[int, int]
Cell = tuple[bool, ...]  # inside the first surface, inside the second

# How often another way to a point is tried, and the part of a face's size that it is long.
TRIES, REACH = 200, 2.0**-8

# Points times faces that are tested one by one.
AT_ONCE = 1 << 22

# Faces of which all are looked through; ways out of a solid that are tried, and the first.
FEW, WAYS = 200_000, 4
OUT = np.array([0.51, 0.8125, 0.671875])


class Solid:
    """A closed surface: its tree and the corners of its faces, (m, 3, 3)."""

    def __init__(self, tree: Any, corners: NDArray[np.float64]) -> None:
        self.tree, self.corners = tree, corners

    @cached_property
    def _boxes(self) -> tuple[Any, ...]:
        """Boxes of faces in an order along an axis, that order, the axis, and how long they are."""
        lower, upper = self.corners.min(axis=1), self.corners.max(axis=1)
        axis = int(np.argmax(np.ptp(lower, axis=0) - (upper - lower).max(axis=0)))
        order = np.argsort(lower[:, axis])
        longest = (upper[:, axis] - lower[:, axis]).max()
        return lower[order], upper[order], order, axis, longest

    def is_inside(self, q: NDArray[np.float64]) -> bool | None:
        """Return whether a point is inside; None where that is unsure, such as on a face."""
        if len(self.corners) > FEW:
            return bool(self.tree.contains(q))
        # Without the kernels of rays, for the same reason.
        low, high = self.tree.bounds
        for k in range(WAYS):
            with np.errstate(all="ignore"):
                away = high + (high - low + np.abs(high)) * (OUT + 0.1 * k * OUT[::-1])
            if not np.isfinite(away).all():
                return bool(self.tree.contains(q))
            count = count_crossings(self._faces, kernel_input(q), kernel_input(away))
            if count >= 0:
                return bool(count & 1)
        return None

    def are_inside(self, points: NDArray[np.float64], threads: int) -> NDArray[np.int8]:
        """Return 1 for points that are inside, 0 for others, -1 where that is unsure."""
        if len(points) * len(self.corners) > AT_ONCE:
            return np.asarray(self.tree.contains(points, threads=threads)).astype(np.int8)
        known = map(self.is_inside, points)
        return np.array([-1 if one is None else one for one in known], np.int8)

    @cached_property
    def _faces(self) -> NDArray[np.float64]:
        return kernel_input(self.corners)

    def faces_at(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> list[Face]:
        """Return the faces whose boxes meet a box, and perhaps not all of these."""
        if len(self.corners) > FEW:
            found = self.tree.overlap_box(low, high).prim_id
        else:
            # Without the kernels of regions, which take seconds to compile.
            lower, upper, order, k, longest = self._boxes
            first = np.searchsorted(lower[:, k], np.nextafter(low[k] - longest, -np.inf))
            last = np.searchsorted(lower[:, k], high[k], "right")
            lower, upper = lower[first:last], upper[first:last]
            found = order[first:last][((lower <= high) & (upper >= low)).all(axis=1)]
        return [exact_face(corners) for corners in self.corners[found].tolist()]


def cells_at(
    solids: Sequence[Solid], m: Point, axis: Vector, size: float, rng: np.random.Generator
) -> set[Cell] | None:
    """Return the cells around a point of a segment; None if it is an end of one of its faces.

    The first face, if any, has this size.
    """
    at = np.array(rounded(m))
    low, high = np.nextafter(at, -np.inf), np.nextafter(at, np.inf)
    walls: list[tuple[Vector, int]] = []
    for which, solid in enumerate(solids):
        for face in solid.faces_at(low, high):
            found = wings(face, m, axis)
            if found is None:
                return None
            walls += [(wing, which) for wing in found]
    drop = max(range(3), key=lambda k: abs(axis[k]))
    flat = [(_across(wing, axis, drop), which) for wing, which in walls]
    size = max(size * REACH, float(np.abs(at).max()) * 2.0**-40, 2.0**-1000)
    for _ in range(TRIES):
        way = rng.normal(size=3)
        with np.errstate(over="ignore"):
            q = at + way * size
        size *= 1.25
        if not np.isfinite(q).all():
            break
        start = _across(minus(exact_point(q.tolist()), m), axis, drop)
        if not any(start) or any(_turn(start, wall) == 0 for wall, _ in flat):
            continue
        cell = [_is_inside(solid, q, m, at) for solid in solids]
        if None in cell:
            continue
        cells = {tuple(map(bool, cell))}
        ordered = sorted(flat, key=cmp_to_key(partial(_later, start)))
        for i, (wall, which) in enumerate(ordered):
            cell[which] = not cell[which]
            if i + 1 == len(ordered) or _order(start, wall, ordered[i + 1][0]) != 0:
                cells.add(tuple(map(bool, cell)))
        return cells
    raise ArithmeticError("two surfaces are too close to the largest or smallest doubles")


def _across(v: Vector, axis: Vector, drop: int) -> Direction:
    """Return a vector as it is seen along an axis, times a positive number."""
    i, j = (drop + 1) % 3, (drop + 2) % 3
    whole, part = abs(axis[drop]), v[drop] if axis[drop] > 0 else -v[drop]
    return v[i] * whole - part * axis[i], v[j] * whole - part * axis[j]


def _turn(a: Direction, b: Direction) -> int:
    """Return the side of a direction on which another is; 0 for the same and the opposite."""
    return sign(a[0] * b[1] - a[1] * b[0])


def _order(start: Direction, a: Direction, b: Direction) -> int:
    """Compare two directions by the angles from a start, which is none of them."""
    first, second = _turn(start, a), _turn(start, b)
    return second - first if first != second else -_turn(a, b)


def _later(start: Direction, a: tuple[Direction, int], b: tuple[Direction, int]) -> int:
    return _order(start, a[0], b[0])


def _is_inside(
    solid: Solid, q: NDArray[np.float64], m: Point, at: NDArray[np.float64]
) -> bool | None:
    """Return whether what is just before m, coming from q, is inside; None where that is unsure."""
    low = np.nextafter(np.minimum(q, at), -np.inf)
    high = np.nextafter(np.maximum(q, at), np.inf)
    inside, start = solid.is_inside(q), exact_point(q.tolist())
    if inside is None:
        return None
    for face in solid.faces_at(low, high):
        crossed = is_crossed(face, start, m)
        if crossed is None:
            return None
        inside ^= crossed
    return inside


def middle(a: Point, b: Point, rng: np.random.Generator) -> Point:
    """Return a point of a segment that is not special."""
    return between(a, b, Fraction(int(rng.integers(1 << 19, 3 << 19)), 1 << 21))


def size_of(points: Sequence[Point]) -> float:
    """Return about how far points are apart."""
    reach = np.ptp([rounded(p) for p in points], axis=0)
    return math.hypot(*reach.tolist())
