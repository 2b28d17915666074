"""Derivatives of t, u and v of hits in rational arithmetic, and the errors due in float64."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

Vector = tuple[Fraction, Fraction, Fraction]


def exact(values: Any) -> Vector:
    """Return three doubles as fractions."""
    x, y, z = (Fraction(float(value)) for value in values)
    return x, y, z


def minus(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def cross(a: Vector, b: Vector, sign: int = -1) -> Vector:
    """Return a x b; with sign 1 and sizes, the size of its terms."""
    return (
        a[1] * b[2] + sign * a[2] * b[1],
        a[2] * b[0] + sign * a[0] * b[2],
        a[0] * b[1] + sign * a[1] * b[0],
    )


def dot(a: Vector, b: Vector) -> Fraction:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


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
