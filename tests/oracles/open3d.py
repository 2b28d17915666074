"""Ray queries of a scene of several meshes in rational arithmetic: slow and obvious."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tests.oracles.vectors import cross, dot, minus

Vector = Sequence[Fraction]
Mesh = tuple[np.ndarray, np.ndarray]


class Found(NamedTuple):
    """Where a ray meets a triangle; the normal has any length."""

    t: Fraction
    geometry: int
    primitive: int
    u: Fraction
    v: Fraction
    normal: tuple[Fraction, ...]


def hits(meshes: Sequence[Mesh], ray: Sequence[float]) -> list[Found]:
    """Return all triangles that a ray touches from t = 0 on, by (t, geometry, primitive)."""
    numbers = [Fraction(float(x)) for x in ray]
    o, d = numbers[:3], numbers[3:]
    found = []
    for geometry, (vertices, faces) in enumerate(meshes):
        for primitive, face in enumerate(faces.tolist()):
            a, b, c = ([Fraction(float(x)) for x in vertices[i]] for i in face)
            e, f = minus(b, a), minus(c, a)
            n = cross(e, f)
            if dot(d, n) == 0:
                continue
            t = dot(minus(a, o), n) / dot(d, n)
            q = [o[i] + t * d[i] - a[i] for i in range(3)]
            u = dot(cross(q, f), n) / dot(n, n)
            v = dot(cross(e, q), n) / dot(n, n)
            if t >= 0 and u >= 0 and v >= 0 and u + v <= 1:
                found.append(Found(t, geometry, primitive, u, v, tuple(n)))
    return sorted(found)


def unit(normal: Sequence[Fraction]) -> list[float]:
    """Return a vector of length 1."""
    # Roots of fractions are rounded once they are near 1.
    largest = max(abs(x) for x in normal)
    scaled = [float(x / largest) for x in normal]
    return [x / math.hypot(*scaled) for x in scaled]
