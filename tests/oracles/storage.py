"""The slow truth about figures of trees: every box against every triangle, in rational numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from bvh import BVH
from bvh.tree.wide_nodes import lanes_of, rows_of

Point = list[Fraction]


def cut(polygon: list[Point], axis: int, plane: Fraction, side: int) -> list[Point]:
    """Return the part of a polygon on a side of a plane."""
    kept: list[Point] = []
    for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        p, q = side * (a[axis] - plane), side * (b[axis] - plane)
        if p >= 0:
            kept.append(a)
        if p * q < 0:
            kept.append([x + p / (p - q) * (y - x) for x, y in zip(a, b, strict=True)])
    return kept


def normal(polygon: list[Point]) -> Point:
    """Return twice the area of a polygon, as a vector."""
    total = [Fraction(0)] * 3
    for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            total[k] += a[i] * b[j] - a[j] * b[i]
    return total


def share_inside(triangle: list[Point], box: Any) -> Fraction:
    """Return the share of a triangle's area within a box."""
    whole, part = normal(triangle), triangle
    for axis in range(3):
        part = cut(part, axis, Fraction(float(box[axis])), 1)
        part = cut(part, axis, Fraction(float(box[axis + 3])), -1)
    k = max(range(3), key=lambda k: abs(whole[k]))
    return normal(part)[k] / whole[k] if part and whole[k] else Fraction(0)


def local_triangles(tree: BVH) -> dict[int, list[Point]]:
    """Return the triangles that can be hit, in the local frame of a tree."""
    frame = tree.arrays.frame
    centre, scale = [Fraction(x) for x in frame[0]], Fraction(2) ** int(frame[1, 0])
    found = {}
    for prim, face in enumerate(tree.faces):
        corners = tree.vertices[face]
        if np.isfinite(corners).all():
            found[prim] = [
                [(Fraction(x) - c) * scale for x, c in zip(corner, centre, strict=True)]
                for corner in corners
            ]
    return found


def held_by(view: Any, ids: np.ndarray, node: int, lane: int) -> set[int]:
    """Return the primitives below a lane."""
    code = view.codes[node, lane]
    if view.leaf[node, lane]:
        first, count = rows_of(view.codes[node, lane : lane + 1])
        return set(ids[first[0] : first[0] + count[0]].ravel().tolist()) - {-1}
    lanes = np.flatnonzero(view.inner[code] | view.leaf[code])
    return set().union(*(held_by(view, ids, code, k) for k in lanes))


def epo(tree: BVH) -> float:
    """Return the end-point overlap, by its definition."""
    view, ids = lanes_of(tree.arrays.nodes.data), tree.arrays.nodes.ids
    triangles = local_triangles(tree)
    areas = {
        prim: math.sqrt(sum(float(x) ** 2 for x in normal(t))) for prim, t in triangles.items()
    }
    total = 0.0
    for node, lane in np.argwhere(view.inner | view.leaf):
        held = held_by(view, ids, node, lane)
        cost = 1
        if view.leaf[node, lane]:
            cost = int(rows_of(view.codes[node, lane : lane + 1])[1][0])
        for prim, triangle in triangles.items():
            if prim not in held:
                inside = share_inside(triangle, view.boxes[node, :, lane])
                total += cost * float(inside) * areas[prim]
    return total / sum(areas.values())


def depths(tree: BVH) -> tuple[list[int], list[int]]:
    """Return the level and the number of primitives of each leaf, in no order."""
    view, ids = lanes_of(tree.arrays.nodes.data), tree.arrays.nodes.ids
    levels, sizes = [], []

    def visit(node: int, level: int) -> None:
        for lane in np.flatnonzero(view.inner[node] | view.leaf[node]):
            if view.leaf[node, lane]:
                first, count = rows_of(view.codes[node, lane : lane + 1])
                levels.append(level + 1)
                sizes.append(int((ids[first[0] : first[0] + count[0]] >= 0).sum()))
            else:
                visit(int(view.codes[node, lane]), level + 1)

    if len(view.codes):
        visit(0, 0)
    return levels, sizes
