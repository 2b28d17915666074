"""Scenes of given leaves, and the flattened mesh that is the truth of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import bvh
from bvh.picking.projected import surface_of, transformed


class FlatScene(bvh.Scene):
    """A scene of rows (tree, map (3, 4), mask, instance), each instance a scene of its leaves.

    An instance that has one leaf is that tree. `points`, `faces` are the flattened mesh, `leaf`
    and `prim` tell where its faces are from.
    """

    __slots__ = ("faces", "leaf", "points", "prim")

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        super().__init__()
        owners = [row[3] for row in rows]
        for owner in range(max(owners) + 1):
            parts = [row for row in rows if row[3] == owner]
            if len(parts) == 1:
                tree, matrix, mask, _ = parts[0]
                self.add(tree, _square(matrix), name=f"part {owner}", mask=mask)
                continue
            inner = bvh.Scene()
            for tree, matrix, mask, _ in parts:
                inner.add(tree, _square(matrix), mask=mask)
            self.add(inner, name=f"part {owner}")
            if not parts:
                self.remove(owner)
        surfaces = [transformed(surface_of(tree), matrix) for tree, matrix, *_ in rows]
        starts = np.cumsum([0, *(len(s.points) for s in surfaces)])
        self.points = np.concatenate([s.points for s in surfaces])
        self.faces = np.concatenate(
            [s.faces + n for s, n in zip(surfaces, starts, strict=False)]
        ).astype(np.int32)
        self.leaf = np.repeat(np.arange(len(rows)), [len(s.faces) for s in surfaces])
        self.prim = np.concatenate([s.owners for s in surfaces])


def _square(matrix: Any) -> Any:
    return np.vstack([matrix, [0.0, 0.0, 0.0, 1.0]])


def world_triangles(scene: FlatScene) -> Any:
    """Return the placed corners of all faces, (n, 3, 3)."""
    return scene.points[scene.faces]
