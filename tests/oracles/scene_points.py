"""The truth about points and scenes: every face of every leaf, moved and measured as rationals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import bvh
from tests.oracles import points as oracle_points
from tests.oracles import scenes as oracle_scn


def nearest(scene: bvh.Scene, point: Sequence[float]) -> tuple[Fraction, list[tuple[int, int]]]:
    """Return the square of the least distance, and the (leaf, face) pairs that have it."""
    found: list[tuple[Fraction, tuple[int, int]]] = []
    for leaf, row in enumerate(oracle_scn.leaves(scene)):
        if row.mask == 0:
            continue
        vertices = oracle_scn.moved(row.tree.vertices, row.matrix)
        for prim, face in enumerate(row.tree.faces):
            square = oracle_points.squared_distance(point, *vertices[face].tolist())
            found.append((square, (leaf, prim)))
    least = min(found)[0]
    return least, [pair for square, pair in found if square == least]
