"""End-point overlap (EPO) of a tree: the area in its boxes that belongs to other subtrees.

A ray that hits a triangle inside a node's box visits the node, in vain if the triangle belongs to
another. The SAH cost depends on the boxes alone; EPO adds up, over all boxes of a tree, the area of
the triangles inside that belong to other subtrees, as a share of all area. Together the two predict
the speed of a tree better than either (Aila, Karras and Laine 2013, "On quality metrics of bounding
volume hierarchies").

Each triangle is taken through the tree and clipped to every box that it reaches into (Sutherland
and Hodgman 1974, "Reentrant polygon clipping"); where nothing is left of it, nothing below can
contain a part of it. A triangle that was split belongs to all nodes above any of its parts.
"""

import math

import numpy as np

from bvh.geometry.arithmetic.floats import INF, vector
from bvh.geometry.arithmetic.vectors import cross, minus
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import kernel_input, thread_count
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import kernel
from bvh.runtime.memory import Shelf
from bvh.runtime.simd import WIDTH, sqrt
from bvh.runtime.threads import share
from bvh.tree.builders.space import local_triangle
from bvh.tree.primitives import Triangles
from bvh.tree.wide_nodes import child_code, child_lower, child_upper, leaf_rows, node_at, node_count

# Triangles that a thread takes at a time.
CHUNK = 512

# Each of six planes adds a corner at most.
CORNERS = 9


@entry
def _rows_below(data, first, last):
    """Set the rows first[i, c]..last[i, c] - 1 of leaves in lane c of node i, or below it."""
    # They are consecutive, because a binary tree is collapsed depth first.
    for node in range(node_count(data) - 1, -1, -1):
        for c in range(WIDTH):
            code = child_code(data, node_at(node) + c)
            if code > 0:
                for i in range(WIDTH):
                    first[node, c] = min(first[node, c], first[code, i])
                    last[node, c] = max(last[node, c], last[code, i])
            elif code < 0:
                row, count = leaf_rows(code)
                first[node, c], last[node, c] = row, row + count


@kernel
def _cut(polygon, count, axis, plane, side, out):
    """Keep the part of a polygon where side * (x - plane) >= 0; return its number of corners."""
    n = 0
    for i in range(count):
        j = i + 1 if i + 1 < count else 0
        a, b = side * (polygon[i, axis] - plane), side * (polygon[j, axis] - plane)
        if a >= 0.0:
            for k in range(3):
                out[n, k] = polygon[i, k]
            n += 1
        if (a > 0.0 and b < 0.0) or (a < 0.0 and b > 0.0):
            t = a / (a - b)
            for k in range(3):
                out[n, k] = polygon[i, k] + t * (polygon[j, k] - polygon[i, k])
            out[n, axis] = plane
            n += 1
    return n


@kernel
def _area(polygon, count):
    """Return twice the area of a flat polygon."""
    x, y, z = 0.0, 0.0, 0.0
    c = vector(polygon, 0)
    for i in range(1, count - 1):
        n = cross(minus(vector(polygon, i), c), minus(vector(polygon, i + 1), c))
        x, y, z = x + n[0], y + n[1], z + n[2]
    return sqrt(x * x + y * y + z * z)


@kernel
def _clip(triangle, data, at, one, other):
    """Clip a triangle to a child's box; return (corners, twice the area) of the rest."""
    count = 3
    for i in range(3):
        for k in range(3):
            one[i, k] = triangle[i, k]
    for i in range(6):
        axis, side = i >> 1, 1.0 if i & 1 == 0 else -1.0
        plane = np.float64(
            child_lower(data, at, axis) if i & 1 == 0 else child_upper(data, at, axis)
        )
        # Most boxes cut with few of their planes.
        least, most = INF, -INF
        for k in range(count):
            height = side * (one[k, axis] - plane)
            least, most = min(least, height), max(most, height)
        if most < 0.0:
            return 0, 0.0
        if least < 0.0:
            count = _cut(one, count, axis, plane, side, other)
            one, other = other, one
    return count, _area(one, count)


@entry
def _overlap(triangles, frame, data, members, begin, end, scratch):
    """Return the area of the triangles of a range, and that of what overlaps."""
    # Triangle i is in the rows rows[offsets[i] : offsets[i + 1]] of leaves (see `_rows_below`).
    first, last, offsets, rows = members
    stack, polygons = scratch
    triangle, one, other = polygons[0], polygons[1], polygons[2]
    whole, over = 0.0, 0.0
    for prim in range(begin, end):
        if offsets[prim] == offsets[prim + 1]:
            continue
        local_triangle(triangles, prim, frame, triangle)
        whole += _area(triangle, 3)
        stack[0] = 0
        waiting = 1
        while waiting > 0:
            waiting -= 1
            node = stack[waiting]
            for c in range(WIDTH):
                at = node_at(node) + c
                code = child_code(data, at)
                if code == 0:
                    break
                count, area = _clip(triangle, data, at, one, other)
                if count == 0:
                    continue
                belongs = False
                for row in rows[offsets[prim] : offsets[prim + 1]]:
                    belongs |= first[node, c] <= row < last[node, c]
                if not belongs:
                    # A node is visited once, a leaf's rows one by one.
                    over += area * (1 if code > 0 else leaf_rows(code)[1])
                if code > 0:
                    stack[waiting] = code
                    waiting += 1
    return whole, over


def overlap_of(tree: BVH, threads: int | None = None) -> float | None:
    """Return the end-point overlap of a tree; None for boxes, which have no area."""
    # Each box counts with its cost as in the SAH cost: 1 for a node, its rows for a leaf.
    arrays = tree._arrays
    data, ids, primitives, frame = (
        arrays.nodes.data,
        arrays.nodes.ids,
        arrays.primitives,
        arrays.frame,
    )
    if not isinstance(primitives, Triangles):
        return None
    nodes = arrays.nodes.size
    if nodes == 0:
        return 0.0
    first = np.full((nodes, WIDTH), len(ids), np.int32)
    last = np.zeros((nodes, WIDTH), np.int32)
    _rows_below(data, first, last)
    rows, prims = np.nonzero(ids >= 0)[0], ids[ids >= 0]
    order = np.argsort(prims, kind="stable")
    count = len(primitives.faces)
    offsets = np.searchsorted(prims[order], np.arange(count + 1))
    members = tuple(kernel_input(array) for array in (first, last, offsets, rows[order]))
    totals = np.zeros((-(-count // CHUNK), 2))

    # The stack has at most one entry a node.
    shelf = Shelf(lambda: (np.empty(nodes + 1, np.int64), np.empty((3, CORNERS + 1, 3))))

    def work(begin: int, end: int) -> None:
        with shelf.scratch() as scratch:
            part = _overlap(primitives, frame, data, members, begin, end, scratch)
        totals[begin // CHUNK] = part

    share(count, CHUNK, work, thread_count(threads))
    whole, over = (math.fsum(column) for column in totals.T)
    return over / whole if whole > 0.0 else 0.0
