"""The slow truth about pages: rays of their pixels and boxes of trees, in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from bvh.runtime.simd import WIDTH
from bvh.tree.arrays import TreeArrays

Vector = tuple[Fraction, Fraction, Fraction]
Box = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]


def turned(wxyz: Any, vector: Vector) -> Vector:
    """Return q v q* / |q|**2 for a quaternion q, w first."""
    w, x, y, z = (Fraction(float(part)) for part in wxyz)
    a, b, c = vector
    # q v, then times the conjugate of q.
    p = (
        -x * a - y * b - z * c,
        w * a + y * c - z * b,
        w * b + z * a - x * c,
        w * c + x * b - y * a,
    )
    norm = w * w + x * x + y * y + z * z
    return (
        (-p[0] * x + p[1] * w - p[2] * z + p[3] * y) / norm,
        (-p[0] * y + p[1] * z + p[2] * w - p[3] * x) / norm,
        (-p[0] * z - p[1] * y + p[2] * x + p[3] * w) / norm,
    )


def pixel_ray(wxyz: Any, tangent: float, width: int, height: int, x: float, y: float) -> Vector:
    """Return the direction of a pixel with depth 1: x to the right, y down, z ahead.

    `tangent` is that of half the vertical field of view.
    """
    half = Fraction(tangent)
    across = (2 * Fraction(x) / width - 1) * half * Fraction(width, height)
    down = (2 * Fraction(y) / height - 1) * half
    return turned(wxyz, (across, down, Fraction(1)))


def boxes_at(arrays: TreeArrays, level: int) -> list[Box]:
    """Return the boxes of a level in the tree's coordinates, by following children."""
    blocks = arrays.nodes.data.reshape(-1, 8, WIDTH)
    codes = blocks[:, 6].copy().view(np.int32)
    centre = [Fraction(float(c)) for c in arrays.frame[0]]
    size = Fraction(2) ** -int(arrays.frame[1, 0])

    def lanes(node: int) -> list[tuple[Box, int]]:
        found = []
        for lane in range(WIDTH):
            low, high = blocks[node, :3, lane], blocks[node, 3:6, lane]
            if low[0] <= high[0]:
                ends = [
                    tuple(Fraction(float(v)) * size + c for v, c in zip(end, centre, strict=True))
                    for end in (low, high)
                ]
                found.append(((ends[0], ends[1]), int(codes[node, lane])))
        return found

    def below(node: int, depth: int) -> list[Box]:
        if depth == 1:
            return [box for box, _ in lanes(node)]
        return [box for _, code in lanes(node) if code >= 0 for box in below(code, depth - 1)]

    if len(blocks) == 0:
        return []
    if level > 0:
        return below(0, level)
    boxes = below(0, 1)
    low = tuple(min(box[0][k] for box in boxes) for k in range(3))
    high = tuple(max(box[1][k] for box in boxes) for k in range(3))
    return [(low, high)]
