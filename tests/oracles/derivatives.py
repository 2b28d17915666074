"""Derivatives of hits and closest points in rational arithmetic, and the errors due in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tests.oracles.vectors import dot, minus

Vector = tuple[Fraction, Fraction, Fraction]


def exact(values: Any) -> Vector:
    """Return three doubles as fractions."""
    x, y, z = (Fraction(float(value)) for value in values)
    return x, y, z


def cross(a: Vector, b: Vector, sign: int = -1) -> Vector:
    """Return a x b; with sign 1 and sizes, the size of its terms."""
    return (
        a[1] * b[2] + sign * a[2] * b[1],
        a[2] * b[0] + sign * a[0] * b[2],
        a[0] * b[1] + sign * a[1] * b[0],
    )


def sizes(a: Vector) -> Vector:
    return abs(a[0]), abs(a[1]), abs(a[2])


class ExactRates:
    """Rows of the derivative of (t, u, v), and for each entry the error of float64 that is due.

    With `certainty`, the share of its terms that n . d is, a row of float64 has a relative error
    of some units in the last place, divided by that, and by the share that an entry is of its own.
    """

    def __init__(self, direction: Any, corners: Any) -> None:
        d = exact(direction)
        v0, v1, v2 = (exact(corner) for corner in corners)
        e1, e2 = minus(v1, v0), minus(v2, v0)
        n, n_size = cross(e1, e2), cross(sizes(e1), sizes(e2), 1)
        den, den_size = dot(n, d), dot(n_size, sizes(d))
        self.certainty = float(abs(den) / den_size) if den_size else 0.0
        self.rows: list[list[Fraction]] = []
        self.errors: list[list[Fraction]] = []
        if den == 0:
            return
        for a, b in ((e1, e2), (d, e2), (e1, d)):
            row, size = cross(a, b), cross(sizes(a), sizes(b), 1)
            self.rows.append([x / den for x in row])
            unit = Fraction(1, 2**48)
            # Numbers may be below the smallest normal one, next to the largest of the row.
            largest = max(abs(x) for x in row) / abs(den)
            self.errors.append(
                [
                    unit * (s / abs(den) + abs(x) / abs(den) * (den_size / abs(den)))
                    + max(largest, 1) * Fraction(1, 2**1040)
                    for x, s in zip(row, size, strict=True)
                ]
            )

    def within(self, rows: Any) -> bool:
        """Return whether rows of doubles are as near to the exact ones as float64 allows.

        A row is 0 where it is beyond the range, by a factor of less than 2 perhaps.
        """
        for row, wants, errors in zip(np.asarray(rows), self.rows, self.errors, strict=True):
            largest = max(abs(x) for x in wants)
            beyond = not any(row) and largest >= 2**1023
            near = largest < 2**1024 and all(
                abs(Fraction(float(x)) - want) <= error
                for x, want, error in zip(row, wants, errors, strict=True)
            )
            if not (near or beyond):
                return False
        return True


def root(value: Fraction) -> Fraction:
    """Return the square root, to 4000 bits or more."""
    shift = max(0, 8000 + value.denominator.bit_length() - value.numerator.bit_length())
    scaled = (value.numerator << shift + shift % 2) // value.denominator
    return Fraction(math.isqrt(scaled), 1 << (shift + 1) // 2)


def blend(weights: Sequence[Fraction], corners: Sequence[Vector]) -> Vector:
    x, y, z = (
        sum((w * c[i] for w, c in zip(weights, corners, strict=True)), Fraction()) for i in range(3)
    )
    return x, y, z


def closest(rows: Sequence[Vector], free: Sequence[int]) -> tuple[Fraction, ...]:
    """Return distance, u, v and position of the point nearest to the first of `rows`.

    The corners of a face follow; it may move in what is spanned by those that are `free`.
    """
    point, *corners = rows
    first, *others = (corners[i] for i in free)
    edges = [minus(x, first) for x in others]
    sides = [dot(minus(point, first), edge) for edge in edges]
    weights = [Fraction()] * 3
    if len(edges) == 1:
        weights[free[1]] = sides[0] / dot(edges[0], edges[0])
    elif edges:
        a, b, c = dot(edges[0], edges[0]), dot(edges[0], edges[1]), dot(edges[1], edges[1])
        weights[free[1]] = (c * sides[0] - b * sides[1]) / (a * c - b * b)
        weights[free[2]] = (a * sides[1] - b * sides[0]) / (a * c - b * b)
    weights[free[0]] = 1 - sum(weights, Fraction())
    at = blend(weights, corners)
    offset = minus(point, at)
    return root(dot(offset, offset)), weights[1], weights[2], *at


def crossing(rows: Sequence[Vector]) -> tuple[Fraction, ...]:
    """Return t, u, v and position where a ray, the first two rows, meets the plane of a face."""
    origin, d, v0, v1, v2 = rows
    e1, e2, r = minus(v1, v0), minus(v2, v0), minus(origin, v0)
    den = dot(cross(e1, e2), d)
    t, u, v = (sign * dot(cross(*pair), x) / den for sign, pair, x in (
        (-1, (e1, e2), r), (1, (r, e2), d), (1, (e1, r), d)))  # fmt: skip
    return t, u, v, *blend((1 - u - v, u, v), (v0, v1, v2))


def slopes(
    function: Callable[[Sequence[Vector]], tuple[Fraction, ...]], rows: Any, way: Any
) -> list[Fraction]:
    """Return how the results of a function change as rows move, by differences."""
    step = Fraction(1, 2**2300)

    def moved(size: Fraction) -> tuple[Fraction, ...]:
        pairs = zip(map(exact, rows), map(exact, way), strict=True)
        return function([blend((Fraction(1), size), pair) for pair in pairs])

    return [(x - y) / (2 * step) for x, y in zip(moved(step), moved(-step), strict=True)]
