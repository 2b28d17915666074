"""Volumes that tetrahedra share, in rational numbers: faces clipped by the planes of the other."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from tests.oracles.vectors import cross, dot, minus

Vector = tuple[Fraction, ...]
# Faces of a tetrahedron whose volume (b - a) x (c - a) . (d - a) is positive, seen from outside.
FACES = ((0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2))


def shared_moments(first: np.ndarray, second: np.ndarray) -> tuple[Fraction, Vector]:
    """Return volume and first moment of what two tetrahedra (4, 3) of positive volume share."""
    solids = [
        [tuple(map(Fraction, row)) for row in corners.tolist()] for corners in (first, second)
    ]
    volume, moment = Fraction(0), [Fraction(0)] * 3
    for which, (own, other) in enumerate((solids, solids[::-1])):
        planes = [_plane(other, face) for face in FACES]
        for face in FACES:
            normal, _ = _plane(own, face)
            polygon: list[Vector] = [own[k] for k in face]
            for n, d in planes:
                # Of two equal faces one counts; faces with opposite sides bound nothing.
                if not any(cross(n, normal)) and dot(n, own[face[0]]) == d:
                    polygon = polygon if which == 0 and dot(n, normal) > 0 else []
                else:
                    polygon = _clipped(polygon, n, d)
            for b, c in pairwise(polygon[1:]):
                a = polygon[0]
                six = dot(a, cross(b, c))
                volume += six / 6
                for k in range(3):
                    moment[k] += six / 24 * (a[k] + b[k] + c[k])
    return volume, tuple(moment)


def _plane(corners: Sequence[Vector], face: tuple[int, ...]) -> tuple[Vector, Fraction]:
    a, b, c = (corners[k] for k in face)
    normal = cross(minus(b, a), minus(c, a))
    return normal, dot(normal, a)


def _clipped(polygon: list[Vector], normal: Vector, offset: Fraction) -> list[Vector]:
    """Return the part of a polygon below a plane."""
    heights, found = [dot(normal, p) - offset for p in polygon], []
    for i, p in enumerate(polygon):
        f, g = heights[i - 1], heights[i]
        if f * g < 0:
            t = f / (f - g)
            found.append(tuple(x + t * (y - x) for x, y in zip(polygon[i - 1], p, strict=True)))
        if g <= 0:
            found.append(p)
    return found
