"""Hits of rays in rational arithmetic, in trimesh's form."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tests.oracles.vectors import cross, dot, minus

Vector = tuple[Fraction, ...]


def vector(values: Any) -> Vector:
    """Return three numbers as they are, exactly."""
    return tuple(Fraction(float(x)) for x in values)


def distance_along(origin: Any, direction: Any, corners: Any) -> Fraction | None:
    """Return t where a ray meets a closed triangle; None for a miss, or in its plane."""
    o, d = vector(origin), vector(direction)
    a, b, c = (vector(corner) for corner in corners)
    normal = cross(minus(b, a), minus(c, a))
    slope = dot(normal, d)
    if slope == 0:
        return None
    t = dot(normal, minus(a, o)) / slope
    if t < 0:
        return None
    place = tuple(x + t * y for x, y in zip(o, d, strict=True))
    for p, q in ((a, b), (b, c), (c, a)):
        if dot(normal, cross(minus(q, p), minus(place, p))) < 0:
            return None
    return t


def hits(mesh: Any, origins: Any, directions: Any) -> list[tuple[int, Fraction, int]]:
    """Return (ray, t, face) of all faces that rays touch, sorted."""
    found = []
    for ray, (o, d) in enumerate(zip(origins, directions, strict=True)):
        for face, corners in enumerate(mesh.vertices[mesh.faces]):
            t = distance_along(o, d, corners)
            if t is not None:
                found.append((ray, t, face))
    return sorted(found)


def places(found: list[tuple[int, Fraction, int]]) -> list[tuple[int, Fraction, int]]:
    """Return the hits at different places of each ray, each with its lowest face."""
    kept: dict[tuple[int, Fraction], int] = {}
    for ray, t, face in found:
        kept.setdefault((ray, t), face)
    return [(ray, t, face) for (ray, t), face in kept.items()]
