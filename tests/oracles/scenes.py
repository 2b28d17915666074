"""The truth about scenes: leaves found by plain recursion, maps and points in rational numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

import bvh

Matrix = list[list[Fraction]]


class Row(NamedTuple):
    """A leaf."""

    path: tuple[int, ...]
    tree: bvh.BVH
    matrix: np.ndarray
    mask: int
    name: str | None


def rational(matrix: np.ndarray) -> Matrix:
    """Return the exact value of a matrix."""
    return [[Fraction(float(x)) for x in row] for row in matrix]


def product(outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Return the product of two matrices, each entry rounded once."""
    a, b = rational(outer), rational(inner)
    return np.array(
        [[float(sum(a[i][k] * b[k][j] for k in range(4))) for j in range(4)] for i in range(4)]
    )


def moved(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return points under a map, each coordinate rounded once."""
    m, out = rational(matrix), np.full(points.shape, np.nan)
    for at, point in enumerate(points):
        if np.isfinite(point).all():
            p = [Fraction(float(x)) for x in point] + [Fraction(1)]
            out[at] = [float(sum(m[i][k] * p[k] for k in range(4))) for i in range(3)]
    return out


def leaves(scene: bvh.Scene) -> list[Row]:
    """Return the leaves of a scene in the order of their paths."""
    found: list[Row] = []

    def visit(
        part: bvh.Scene, path: tuple[int, ...], matrix: np.ndarray, mask: int, name: str | None
    ) -> None:
        for one in part:
            whole = product(matrix, one.transform) if path else one.transform
            bits = mask & one.mask if one.visible else 0
            label = name if one.name is None else one.name
            if isinstance(one.child, bvh.Scene):
                visit(one.child, (*path, one.id), whole, bits, label)
            else:
                found.append(Row((*path, one.id), one.child, whole, bits, label))

    visit(scene, (), np.eye(4), 0xFFFFFFFF, None)
    return sorted(found, key=lambda row: row.path)
