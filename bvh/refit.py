"""Refit: a tree over primitives that have moved, with the shape of the tree over those before.

Much faster than a new tree and as right, but slower to trace the more the primitives have changed
places: who is next to whom is still decided by where they were.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned, kernel_input, owned
from bvh.arrays import TreeArrays, frozen, pack
from bvh.jit import entry, inlined
from bvh.nodes import local_boxes, local_frame
from bvh.numerics import INF
from bvh.primitives import Triangles, world_bounds
from bvh.simd import WIDTH, peek, peek_int, poke, poke_int
from bvh.wide_nodes import (
    BLOCK_SIZE,
    CODES,
    LOWER,
    ORDER,
    UPPER,
    WideNodes,
    leaf_rows,
    order_children,
)
from bvh.workers import share

# Nodes that a thread takes at a time.
CHUNK = 2048

F = np.float32


@inlined
def _poke_box(blocks, base, low, high):
    """Set the box of the lane that begins at `base`."""
    for axis in range(3):
        poke(blocks, base + (LOWER + axis) * WIDTH, low[axis])
        poke(blocks, base + (UPPER + axis) * WIDTH, high[axis])


@inlined
def _box_of(blocks, node):
    """Return the box around all lanes of a node; lower > upper if there is nothing in them."""
    low, high = (F(INF), F(INF), F(INF)), (F(-INF), F(-INF), F(-INF))
    for c in range(WIDTH):
        at = node * BLOCK_SIZE + c
        low = (
            min(low[0], peek(blocks, at + LOWER * WIDTH)),
            min(low[1], peek(blocks, at + (LOWER + 1) * WIDTH)),
            min(low[2], peek(blocks, at + (LOWER + 2) * WIDTH)),
        )
        high = (
            max(high[0], peek(blocks, at + UPPER * WIDTH)),
            max(high[1], peek(blocks, at + (UPPER + 1) * WIDTH)),
            max(high[2], peek(blocks, at + (UPPER + 2) * WIDTH)),
        )
    return low, high


@entry
def _bound_leaves(boxes, ids, begin, end, blocks):
    """Bound the leaves of the nodes begin..end; those without a primitive become empty boxes."""
    lanes = ids.shape[1]
    for at in range(begin * WIDTH, end * WIDTH):
        base = at // WIDTH * BLOCK_SIZE + at % WIDTH
        code = np.int64(peek_int(blocks, base + CODES * WIDTH))
        if code >= 0:
            continue
        low, high = (F(INF), F(INF), F(INF)), (F(-INF), F(-INF), F(-INF))
        first, count = leaf_rows(code)
        for i in range(first * lanes, (first + count) * lanes):
            prim = np.int64(peek(ids, i))
            if prim >= 0:
                low = (
                    min(low[0], boxes[prim, 0]),
                    min(low[1], boxes[prim, 1]),
                    min(low[2], boxes[prim, 2]),
                )
                high = (
                    max(high[0], boxes[prim, 3]),
                    max(high[1], boxes[prim, 4]),
                    max(high[2], boxes[prim, 5]),
                )
        _poke_box(blocks, base, low, high)


@entry
def _bound_inner(blocks, root):
    """Bound inner children, which come after their parents; put the root's box into `root`."""
    for node in range(len(blocks) // BLOCK_SIZE - 1, -1, -1):
        for c in range(WIDTH):
            base = node * BLOCK_SIZE + c
            # No lane has the root for its child; 0 marks those that are not used.
            child = np.int64(peek_int(blocks, base + CODES * WIDTH))
            if child > 0:
                low, high = _box_of(blocks, child)
                _poke_box(blocks, base, low, high)
    low, high = _box_of(blocks, 0)
    for axis in range(3):
        root[0, axis], root[1, axis] = low[axis], high[axis]


@entry
def _fill_empty(blocks, root):
    """Give children that have lost all they held a point within their parents.

    A lane whose box is empty would be none.
    """
    nodes = len(blocks) // BLOCK_SIZE
    corner = np.empty((nodes, 3), np.float32)
    for axis in range(3):
        corner[0, axis] = root[0, axis]
    for node in range(nodes):
        low, _ = _box_of(blocks, node)
        if low[0] == F(INF):
            low = (corner[node, 0], corner[node, 1], corner[node, 2])
        for c in range(WIDTH):
            base = node * BLOCK_SIZE + c
            code = np.int64(peek_int(blocks, base + CODES * WIDTH))
            if code > 0:
                corner[code, 0], corner[code, 1], corner[code, 2] = low
            if code != 0 and peek(blocks, base + LOWER * WIDTH) == F(INF):
                _poke_box(blocks, base, low, low)


@entry
def _order_nodes(begin, end, blocks):
    """Find the visiting orders of the nodes begin..end."""
    bounds, children = np.empty((WIDTH, 6), np.float32), np.arange(WIDTH)
    keys, rank, orders = np.empty(WIDTH), np.empty(WIDTH, np.int64), np.empty(WIDTH, np.int64)
    for node in range(begin, end):
        used = 0
        for c in range(WIDTH):
            base = node * BLOCK_SIZE + c
            used += peek_int(blocks, base + CODES * WIDTH) != 0
            for axis in range(3):
                bounds[c, axis] = peek(blocks, base + (LOWER + axis) * WIDTH)
                bounds[c, axis + 3] = peek(blocks, base + (UPPER + axis) * WIDTH)
        # The used lanes come first.
        order_children(bounds, children, used, keys, rank, orders)
        for c in range(WIDTH):
            poke_int(blocks, node * BLOCK_SIZE + ORDER * WIDTH + c, np.int32(orders[c]))


def refitted(
    arrays: TreeArrays, points: NDArray[np.float64], threads: int
) -> tuple[TreeArrays, NDArray[np.float64]]:
    """Return the tree with its primitives moved, and its bounds in the world, shape (2, 3).

    Parameters
    ----------
    arrays : TreeArrays
        Of any tree; they are left as they are.
    points : ndarray of float64
        What takes the place of `arrays.primitives.points`, of the same shape.
    threads : int
        Threads to use.

    Returns
    -------
    TreeArrays, ndarray of float64
        Where triangles have been split between leaves, each has the whole box of its triangle.
        Triangles with a vertex that is not finite any more leave the tree.

    Raises
    ------
    ValueError
        If the shape is wrong; if a primitive can be hit now that is not in the tree; if a box
        cannot be hit any more.
    """
    primitives, ids = arrays.primitives, arrays.nodes.ids
    triangles = isinstance(primitives, Triangles)
    name = "vertices" if triangles else "boxes"
    if points.shape != primitives.points.shape:
        raise ValueError(f"{name} must have shape {primitives.points.shape}, got {points.shape}")
    moved = primitives._replace(points=owned(points))
    lower, upper, valid = world_bounds(moved)
    held = np.zeros(len(valid), np.bool_)
    held[ids[ids >= 0]] = True
    if (valid & ~held).any():
        raise ValueError(
            f"{name}: primitive {np.flatnonzero(valid & ~held)[0]} could not be hit before and is "
            "not in the tree; build a new tree"
        )
    lost = bool((held & ~valid).any())
    if lost and not triangles:
        raise ValueError(
            f"{name}: primitive {np.flatnonzero(held & ~valid)[0]} cannot be hit any more; build a "
            "new tree"
        )
    if lost:
        ids = np.where((ids >= 0) & valid[ids], ids, np.int32(-1))
    frame, bounds = local_frame(*_extent(lower, upper, valid))
    if not valid.any():
        nodes = WideNodes(aligned(0, np.float32), ids[:0])
        whole = np.zeros((2, 3))
    else:
        boxes = local_boxes(lower, upper, frame)
        blocks, whole = _blocks(arrays.nodes.blocks, ids, boxes, lost, threads)
        nodes = WideNodes(blocks, ids)
    frame = np.vstack([frame, whole])
    groups = pack(moved, nodes, frame, threads)
    return frozen(TreeArrays(nodes, groups, moved, frame)), owned(bounds)


def _extent(
    lower: NDArray[np.float64], upper: NDArray[np.float64], valid: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the one box around all that are valid, or none."""
    if not valid.all():
        lower, upper = lower[valid], upper[valid]
    if len(lower) == 0:
        return lower, upper
    # Column by column: along rows of three it takes ten times as long.
    return np.array([[x.min() for x in lower.T]]), np.array([[x.max() for x in upper.T]])


def _blocks(
    old: NDArray[np.float32],
    ids: NDArray[np.int32],
    boxes: NDArray[np.float32],
    lost: bool,
    threads: int,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the nodes with new boxes and orders, and the root's box."""
    ids, boxes = kernel_input(ids), kernel_input(boxes)
    blocks, root = aligned(len(old), np.float32), np.empty((2, 3))
    blocks[:] = old
    count = len(blocks) // BLOCK_SIZE

    def bound(begin: int, end: int) -> None:
        _bound_leaves(boxes, ids, begin, end, blocks)

    def order(begin: int, end: int) -> None:
        _order_nodes(begin, end, blocks)

    share(count, CHUNK, bound, threads)
    _bound_inner(blocks, root)
    if lost:
        _fill_empty(blocks, root)
    share(count, CHUNK, order, threads)
    return blocks, root
