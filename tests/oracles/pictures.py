"""The slow truth of pictures and charts: exact places, single shadow rays, costs node by node."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from bvh import BVH
from bvh.runtime.simd import WIDTH


def exact_side(point: Any, corners: Any) -> Fraction:
    """Return the volume that tells on which side of a face's plane a point is."""
    p, a, b, c = ([Fraction(float(x)) for x in row] for row in (point, *corners))
    u, v, w = ([x - y for x, y in zip(row, p, strict=True)] for row in (a, b, c))
    return (
        u[0] * (v[1] * w[2] - v[2] * w[1])
        - u[1] * (v[0] * w[2] - v[2] * w[0])
        + u[2] * (v[0] * w[1] - v[1] * w[0])
    )


def exact_normal(corners: Any) -> list[Fraction]:
    """Return the normal of a face by its winding, twice its area long."""
    a, b, c = ([Fraction(float(x)) for x in row] for row in corners)
    u, v = ([x - y for x, y in zip(row, a, strict=True)] for row in (b, c))
    return [u[i - 2] * v[i - 1] - u[i - 1] * v[i - 2] for i in range(3)]


def half_surface(box: Any) -> Fraction:
    """Return half the surface of a box given by its six numbers."""
    x, y, z = (Fraction(float(box[k + 3])) - Fraction(float(box[k])) for k in range(3))
    return x * y + y * z + z * x


def walk(tree: BVH) -> list[dict[str, Any]]:
    """Return all nodes of a tree, by level, each with the boxes of its children."""
    from bvh.tree.wide_nodes import lanes_of, rows_of

    arrays: Any = tree.arrays
    view = lanes_of(arrays.nodes.data)
    found, front = [], [(0, 0)] if len(view.codes) else []
    while front:
        node, level = front.pop()
        children = []
        for c in range(WIDTH):
            if not (view.inner[node, c] or view.leaf[node, c]):
                continue
            child = {"box": view.boxes[node, :, c], "leaf": bool(view.leaf[node, c])}
            if child["leaf"]:
                first, rows = (int(x[0]) for x in rows_of(view.codes[node, c : c + 1]))
                child["rows"] = rows
                child["size"] = int((arrays.nodes.ids[first : first + rows] >= 0).sum())
            else:
                front.append((int(view.codes[node, c]), level + 1))
            children.append(child)
        found.append({"level": level, "children": children})
    return found
