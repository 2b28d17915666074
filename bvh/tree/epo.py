"""Effective partial overlap (EPO) of a tree: the area in its boxes that belongs to other subtrees.

A ray that hits a triangle inside a node's box visits the node, in vain if the triangle belongs to
another. The SAH cost depends on the boxes alone; EPO adds up, over all boxes of a tree, the area of
the triangles inside that belong to other subtrees, as a share of all area. Together the two predict
the speed of a tree better than either (Aila, Karras and Laine 2013, "On quality metrics of bounding
volume hierarchies").

Each triangle is taken through the tree and clipped to every box that it reaches into (Sutherland
and Hodgman 1974, "Reentrant polygon clipping"); where nothing is left of it, nothing below can
contain a part of it. A triangle that was split belongs to all nodes above any of its parts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import kernel_input
from bvh.runtime.jit import entry, kernel, warms
from bvh.runtime.simd import WIDTH
from bvh.runtime.threads import Shelf, share
from bvh.tree import frame as frames
from bvh.tree.arrays import TreeArrays
from bvh.tree.primitives import Triangles, corners
from bvh.tree.wide_nodes import (
    child_at,
    child_code,
    child_lower,
    child_upper,
    leaf_rows,
    node_at,
    node_count,
)

# Triangles that a thread takes at a time.
CHUNK = 512

# Each of six planes adds a corner at most.
CORNERS = 9


@entry
def _number_leaves(data, first, last, pending):
    """Number the leaves of a tree from left to right; return how many there are.

    Lane c of node i, or what is below it, has the leaves first[i, c]..last[i, c].
    """
    # Each entry: a node, and its next lane.
    pending[0, 0] = pending[0, 1] = 0
    waiting, leaves = 1, 0
    while waiting > 0:
        node, c = pending[waiting - 1, 0], pending[waiting - 1, 1]
        if c == WIDTH:
            waiting -= 1
            if waiting > 0:
                parent = pending[waiting - 1, 0]
                last[parent, pending[waiting - 1, 1] - 1] = leaves
            continue
        pending[waiting - 1, 1] = c + 1
        first[node, c] = leaves
        last[node, c] = leaves
        code = child_code(data, node_at(node) + c)
        if code > 0:
            pending[waiting, 0], pending[waiting, 1] = code, 0
            waiting += 1
        elif code < 0:
            leaves += 1
            last[node, c] = leaves
    return leaves


@entry
def _leaves_of_primitives(data, ids, first, offsets, leaves, count_only):
    """List the leaves of each primitive: leaves[offsets[i] : offsets[i + 1]] in the end.

    With `count_only`, offsets[i + 1] counts them; without it, offsets[i] is the next index.
    """
    for number in range(node_count(data) * WIDTH):
        node, c = number // WIDTH, number % WIDTH
        code = child_code(data, child_at(number))
        if code >= 0:
            continue
        row, count = leaf_rows(code)
        for i in range(row, row + count):
            for k in range(ids.shape[1]):
                prim = np.int64(ids[i, k])
                if prim < 0:
                    continue
                if count_only:
                    offsets[prim + 1] += 1
                else:
                    leaves[offsets[prim]] = first[node, c]
                    offsets[prim] += 1


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
    for i in range(1, count - 1):
        ax, ay, az = (
            polygon[i, 0] - polygon[0, 0],
            polygon[i, 1] - polygon[0, 1],
            polygon[i, 2] - polygon[0, 2],
        )
        bx, by, bz = (
            polygon[i + 1, 0] - polygon[0, 0],
            polygon[i + 1, 1] - polygon[0, 1],
            polygon[i + 1, 2] - polygon[0, 2],
        )
        x += ay * bz - az * by
        y += az * bx - ax * bz
        z += ax * by - ay * bx
    return math.sqrt(x * x + y * y + z * z)


@kernel
def _clip(triangle, data, at, one, other):
    """Clip a triangle to a child's box; return (corners, twice the area) of the rest."""
    count = 3
    for i in range(3):
        for k in range(3):
            one[i, k] = triangle[i, k]
    for axis in range(3):
        low = np.float64(child_lower(data, at, axis))
        high = np.float64(child_upper(data, at, axis))
        # Most boxes cut with few of their planes.
        lowest, highest = one[0, axis], one[0, axis]
        for i in range(1, count):
            lowest, highest = min(lowest, one[i, axis]), max(highest, one[i, axis])
        if lowest > high or highest < low:
            return 0, 0.0
        if lowest < low:
            count = _cut(one, count, axis, low, 1.0, other)
            one, other = other, one
        if highest > high:
            count = _cut(one, count, axis, high, -1.0, other)
            one, other = other, one
        if count == 0:
            return 0, 0.0
    return count, _area(one, count)


class LeafNumbers(NamedTuple):
    """The leaves below each child, and those of each primitive.

    Leaves are numbered from left to right. Lane c of node i, or what is below it, has the leaves
    first[i, c] <= k < last[i, c]; primitive i is in leaves[offsets[i] : offsets[i + 1]].
    """

    first: NDArray[np.int32]
    last: NDArray[np.int32]
    offsets: NDArray[np.int64]
    leaves: NDArray[np.int32]


@entry
def _overlap(triangles, frame, data, numbers, begin, end, totals, scratch):
    """Add up, over the triangles of a range, their area and what overlaps, into `totals`."""
    first, last, offsets, leaves = numbers
    stack, polygons = scratch
    s, centre = frames.scale(frame), frames.centre(frame)
    triangle, one, other = polygons[0], polygons[1], polygons[2]
    whole, over = 0.0, 0.0
    for prim in range(begin, end):
        if offsets[prim] == offsets[prim + 1]:
            continue
        vertices = corners(triangles, prim)
        for axis in range(3):
            triangle[0, axis] = (vertices[0][axis] - centre[axis]) * s
            triangle[1, axis] = (vertices[1][axis] - centre[axis]) * s
            triangle[2, axis] = (vertices[2][axis] - centre[axis]) * s
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
                for i in range(offsets[prim], offsets[prim + 1]):
                    if first[node, c] <= leaves[i] < last[node, c]:
                        belongs = True
                if not belongs:
                    # A node is visited once, a leaf's rows one by one.
                    over += area * (1 if code > 0 else leaf_rows(code)[1])
                if code > 0:
                    stack[waiting] = code
                    waiting += 1
    totals[0], totals[1] = whole, over


def overlap_of(arrays: TreeArrays, threads: int) -> float | None:
    """Return the effective partial overlap of a tree; None for boxes, which have no area.

    Each box counts with its cost as in the SAH cost: 1 for a node, its rows for a leaf.
    """
    (data, ids), _, primitives, frame = arrays
    if not isinstance(primitives, Triangles):
        return None
    nodes = arrays.nodes.size
    if nodes == 0:
        return 0.0
    first, last = np.zeros((nodes, WIDTH), np.int32), np.zeros((nodes, WIDTH), np.int32)
    _number_leaves(data, first, last, np.empty((nodes + 1, 2), np.int64))
    count = len(primitives.faces)
    offsets, leaves = np.zeros(count + 1, np.int64), np.empty(0, np.int32)
    _leaves_of_primitives(data, ids, first, offsets, leaves, True)
    np.cumsum(offsets, out=offsets)
    leaves = np.empty(int(offsets[-1]), np.int32)
    _leaves_of_primitives(data, ids, first, offsets, leaves, False)
    # Each offset has moved on to the next one's.
    offsets[1:] = offsets[:-1].copy()
    offsets[0] = 0
    totals = np.zeros((-(-count // CHUNK), 2))
    numbers = LeafNumbers(*(kernel_input(array) for array in (first, last, offsets, leaves)))

    # The stack has at most one entry a node.
    shelf = Shelf(lambda: (np.empty(nodes + 1, np.int64), np.empty((3, CORNERS + 1, 3))))

    def work(begin: int, end: int) -> None:
        for start in range(begin, end, CHUNK):
            stop = min(start + CHUNK, end)
            with shelf.scratch() as scratch:
                part = totals[start // CHUNK]
                _overlap(primitives, frame, data, numbers, start, stop, part, scratch)

    share(count, CHUNK, work, threads)
    whole, over = (math.fsum(column) for column in totals.T)
    return over / whole if whole > 0.0 else 0.0


@warms("figures of trees")
def _warm() -> None:
    """Compile what the overlap needs."""
    from bvh.tree.build import build

    points: NDArray[np.float64] = np.eye(3)
    faces = np.array([[0, 1, 2]], np.int32)
    triangles = Triangles(kernel_input(points), kernel_input(faces))
    overlap_of(build(triangles, "medium", 1, None)[0], 1)
