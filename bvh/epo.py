"""EPO, the effective partial overlap of a tree: what lies in its boxes without belonging there.

A ray that hits something in a node's box has to look at the node, for nothing where what it hits
belongs to another. The SAH cost knows the boxes alone; this adds up, over all boxes of a tree, the
area of the triangles within that belong to other subtrees, as a share of all area. Together the two
tell more of how fast a tree is than either (Aila, Karras and Laine 2013, "On quality metrics of
bounding volume hierarchies").

Each triangle is taken through the tree and clipped to every box that it reaches into (Sutherland
and Hodgman 1974, "Reentrant polygon clipping"); where nothing is left of it, nothing below can
have a part of it either. A triangle that was split belongs to all nodes above any of its parts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import kernel_input
from bvh.arrays import TreeArrays
from bvh.jit import entry, kernel, warms
from bvh.numerics import power_of_two
from bvh.primitives import Triangles, corners
from bvh.simd import WIDTH, peek, peek_int
from bvh.wide_nodes import BLOCK_SIZE, CODES, LOWER, UPPER, leaf_rows
from bvh.workers import Shelf, share

# Triangles that a thread takes at a time.
CHUNK = 512

# Each of six planes adds a corner at most.
CORNERS = 9


@entry
def _number_leaves(blocks, first, last, pending):
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
        code = np.int64(peek_int(blocks, node * BLOCK_SIZE + CODES * WIDTH + c))
        if code > 0:
            pending[waiting, 0], pending[waiting, 1] = code, 0
            waiting += 1
        elif code < 0:
            leaves += 1
            last[node, c] = leaves
    return leaves


@entry
def _leaves_of_primitives(blocks, ids, first, offsets, places, count_only):
    """List the leaves of each primitive: places[offsets[i] : offsets[i + 1]] in the end.

    With `count_only`, offsets[i + 1] counts them; without it, offsets[i] is where the next goes.
    """
    for at in range(len(blocks) // BLOCK_SIZE * WIDTH):
        node, c = at // WIDTH, at % WIDTH
        code = np.int64(peek_int(blocks, node * BLOCK_SIZE + CODES * WIDTH + c))
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
                    places[offsets[prim]] = first[node, c]
                    offsets[prim] += 1


@kernel
def _cut(given, count, axis, plane, side, kept):
    """Keep the part of a polygon where side * (x - plane) >= 0; return its number of corners."""
    n = 0
    for i in range(count):
        j = i + 1 if i + 1 < count else 0
        a, b = side * (given[i, axis] - plane), side * (given[j, axis] - plane)
        if a >= 0.0:
            for k in range(3):
                kept[n, k] = given[i, k]
            n += 1
        if (a > 0.0 and b < 0.0) or (a < 0.0 and b > 0.0):
            t = a / (a - b)
            for k in range(3):
                kept[n, k] = given[i, k] + t * (given[j, k] - given[i, k])
            kept[n, axis] = plane
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
def _clip(triangle, blocks, base, one, other):
    """Clip a triangle to the box of the lane at `base`; return (corners, twice the area) left."""
    count = 3
    for i in range(3):
        for k in range(3):
            one[i, k] = triangle[i, k]
    for axis in range(3):
        low = np.float64(peek(blocks, base + (LOWER + axis) * WIDTH))
        high = np.float64(peek(blocks, base + (UPPER + axis) * WIDTH))
        # Most boxes cut with few of their planes.
        least, most = one[0, axis], one[0, axis]
        for i in range(1, count):
            least, most = min(least, one[i, axis]), max(most, one[i, axis])
        if least > high or most < low:
            return 0, 0.0
        if least < low:
            count = _cut(one, count, axis, low, 1.0, other)
            one, other = other, one
        if most > high:
            count = _cut(one, count, axis, high, -1.0, other)
            one, other = other, one
        if count == 0:
            return 0, 0.0
    return count, _area(one, count)


@entry
def _overlap(
    points, faces, frame, blocks, first, last, offsets, places, begin, end, totals, stack, polygons
):  # fmt: skip
    """Add up, over the triangles of a range, their area and what overlaps, into `totals`."""
    s = power_of_two(int(frame[1, 0]))
    triangles = Triangles(points, faces)
    triangle, one, other = polygons[0], polygons[1], polygons[2]
    whole, over = 0.0, 0.0
    for prim in range(begin, end):
        if offsets[prim] == offsets[prim + 1]:
            continue
        vertices = corners(triangles, prim)
        for axis in range(3):
            triangle[0, axis] = (vertices[0][axis] - frame[0, axis]) * s
            triangle[1, axis] = (vertices[1][axis] - frame[0, axis]) * s
            triangle[2, axis] = (vertices[2][axis] - frame[0, axis]) * s
        whole += _area(triangle, 3)
        stack[0] = 0
        waiting = 1
        while waiting > 0:
            waiting -= 1
            node = stack[waiting]
            for c in range(WIDTH):
                base = node * BLOCK_SIZE + c
                code = np.int64(peek_int(blocks, base + CODES * WIDTH))
                if code == 0:
                    break
                count, area = _clip(triangle, blocks, base, one, other)
                if count == 0:
                    continue
                belongs = False
                for i in range(offsets[prim], offsets[prim + 1]):
                    if first[node, c] <= places[i] < last[node, c]:
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
    (blocks, ids), _, primitives, frame = arrays
    if not isinstance(primitives, Triangles):
        return None
    nodes = len(blocks) // BLOCK_SIZE
    if nodes == 0:
        return 0.0
    first, last = np.zeros((nodes, WIDTH), np.int32), np.zeros((nodes, WIDTH), np.int32)
    _number_leaves(blocks, first, last, np.empty((nodes + 1, 2), np.int64))
    count = len(primitives.faces)
    offsets, places = np.zeros(count + 1, np.int64), np.empty(0, np.int32)
    _leaves_of_primitives(blocks, ids, first, offsets, places, True)
    np.cumsum(offsets, out=offsets)
    places = np.empty(int(offsets[-1]), np.int32)
    _leaves_of_primitives(blocks, ids, first, offsets, places, False)
    # Each offset has moved on to the next one's.
    offsets[1:] = offsets[:-1].copy()
    offsets[0] = 0
    totals = np.zeros((-(-count // CHUNK), 2))
    given = tuple(kernel_input(array) for array in (first, last, offsets, places))

    # A node waits with those of its parents' other children.
    shelf = Shelf(lambda: (np.empty(nodes + 1, np.int64), np.empty((3, CORNERS + 1, 3))))

    def work(begin: int, end: int) -> None:
        for start in range(begin, end, CHUNK):
            stop = min(start + CHUNK, end)
            with shelf.scratch() as scratch:
                part = totals[start // CHUNK]
                _overlap(*primitives, frame, blocks, *given, start, stop, part, *scratch)

    share(count, CHUNK, work, threads)
    whole, over = (math.fsum(column) for column in totals.T)
    return over / whole if whole > 0.0 else 0.0


@warms("figures of trees")
def _warm() -> None:
    """Compile what the overlap needs."""
    from bvh.arrays import build

    points: NDArray[np.float64] = np.eye(3)
    faces = np.array([[0, 1, 2]], np.int32)
    triangles = Triangles(kernel_input(points), kernel_input(faces))
    overlap_of(build(triangles, "medium", 1, None)[0], 1)
