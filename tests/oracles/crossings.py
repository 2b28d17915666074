"""The slow truth about crossings: the ray is really moved, by less than any number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.oracles.rays import Vector, integers


def crosses(o: Vector, d: Vector, v0: Vector, v1: Vector, v2: Vector) -> bool:
    """Tell whether a line, moved by (e, e**2, e**3), passes strictly within a triangle."""
    points, _ = integers([*o, *v0, *v1, *v2])
    direction, _ = integers(d)
    # Sides of edges are integers below 2**bits, and so are their changes over e.
    bits = sum(max(abs(x).bit_length() for x in part) for part in (points, points, direction)) + 8
    moved = [x << 3 * bits for x in points]
    for axis in range(3):
        moved[axis] += 1 << (2 - axis) * bits
    a, b, c = ([moved[i + k] - moved[k] for k in range(3)] for i in (3, 6, 9))
    sides = [_volume(direction, *pair) for pair in ((a, b), (b, c), (c, a))]
    return min(sides) > 0 or max(sides) < 0


def _volume(d: list[int], a: list[int], b: list[int]) -> int:
    cross = (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
    return sum(x * y for x, y in zip(d, cross, strict=True))


def crossed(
    vertices: NDArray[np.float64], faces: NDArray[np.integer], o: Vector, d: Vector
) -> list[int]:
    """Return the faces that a line crosses, once moved."""
    return [
        prim
        for prim, corners in enumerate(vertices[faces].tolist())
        if np.isfinite(corners).all() and crosses(o, d, *corners)
    ]
