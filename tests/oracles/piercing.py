"""The slow truth about edges inside of solids, in fractions: cut at all planes, then parity."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from tests.oracles.vectors import cross, dot, minus

Point = list[Fraction]
Face = list[Point]


def exact(vertices: Any, faces: Any) -> list[Face]:
    """Return the corners of faces as fractions."""
    return [[[Fraction(float(x)) for x in vertices[i]] for i in face] for face in faces]


def edges_of(faces: list[Face]) -> list[tuple[Any, Any]]:
    """Return each edge once."""
    return sorted({tuple(sorted(map(tuple, (f[k - 1], f[k])))) for f in faces for k in range(3)})


def is_inside(p: Sequence[Fraction], faces: list[Face], rng: random.Random) -> bool:
    """Return whether a point is strictly inside: a ray to it that meets no edge decides."""
    while True:
        way = [Fraction(rng.randrange(-1000, 1000), 997) for _ in range(3)]
        count = 0
        for corners in faces:
            normal = cross(minus(corners[1], corners[0]), minus(corners[2], corners[0]))
            if not any(normal):
                continue
            slope, height = dot(normal, way), dot(normal, minus(corners[0], p))
            if slope == 0:
                break
            x = [a + height / slope * b for a, b in zip(p, way, strict=True)]
            sides = [
                dot(normal, cross(minus(corners[k], corners[k - 1]), minus(x, corners[k - 1])))
                for k in range(3)
            ]
            if min(sides) >= 0 and height == 0:
                return False
            if min(sides) == 0:
                break
            count += min(sides) > 0 and height / slope > 0
        else:
            return count % 2 == 1


def longest_part(edges: Iterable[tuple[Any, Any]], faces: list[Face], rng: random.Random) -> float:
    """Return the length of the longest part of an edge that is strictly inside."""
    best = 0.0
    for p, q in edges:
        way, cuts = minus(q, p), {Fraction(0), Fraction(1)}
        for a, b, c in faces:
            normal = cross(minus(b, a), minus(c, a))
            for n, origin in [
                (normal, a), *((cross(normal, minus(v, u)), u) for u, v in ((a, b), (b, c), (c, a)))
            ]:  # fmt: skip
                f, g = dot(n, minus(p, origin)), dot(n, minus(q, origin))
                if f != g and 0 < f / (f - g) < 1:
                    cuts.add(f / (f - g))
        run = Fraction(0)
        for s, t in pairwise(sorted(cuts)):
            middle = [x + (s + t) / 2 * y for x, y in zip(p, way, strict=True)]
            run = run + (t - s) if is_inside(middle, faces, rng) else Fraction(0)
            best = max(best, float(run) * float(dot(way, way)) ** 0.5)
    return best
