"""The slow truth of overlaps in scenes: every face that can be seen, moved in rational numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import bvh
from tests.oracles import overlaps, scenes


class Face(NamedTuple):
    """A face of a leaf, by its corners in the world."""

    instance: int
    leaf: int
    prim: int
    corners: list[list[float]]


def faces(scene: bvh.Scene) -> list[Face]:
    """Return all faces of a scene, leaf by leaf, but for those that are not finite or not seen."""
    found = []
    for number, leaf in enumerate(scenes.leaves(scene)):
        if leaf.mask:
            points = scenes.moved(leaf.tree.vertices, leaf.matrix)
            for prim, corners in enumerate(points[leaf.tree.faces]):
                if np.isfinite(corners).all():
                    found.append(Face(leaf.path[0], number, prim, corners.tolist()))
    return found


def pairs(own: list[Face], others: list[Face]) -> list[tuple[Face, Face]]:
    """Return the pairs of faces that meet."""
    return [
        (a, b) for a in own for b in others if overlaps.triangles_touch(a.corners, b.corners)
    ]  # fmt: skip


def self_pairs(own: list[Face]) -> list[tuple[Face, Face]]:
    """Return the pairs of faces that meet elsewhere than in what they share."""
    return [
        (a, b)
        for i, a in enumerate(own)
        for b in own[i + 1 :]
        if overlaps.faces_overlap(a.corners, b.corners)
    ]


def placed(face: Face, matrix: Any) -> Face:
    """Return a face moved in float64, as `overlap_tree` says."""
    m = np.asarray(matrix)
    corners = [
        [float(((r[0] * x + r[1] * y) + r[2] * z) + r[3]) for r in m[:3]]
        for x, y, z in face.corners
    ]
    return face._replace(corners=corners)
