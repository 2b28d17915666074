"""Refit: a tree over primitives that have moved, with the shape of the tree over those before.

Much faster than a new tree and as right, but slower to trace the more the primitives have changed
places: who is next to whom is still decided by where they were.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned, kernel_input, owned
from bvh.arrays import TreeArrays, frozen
from bvh.jit import entry
from bvh.leaves import GROUP_SIZE, pack_group
from bvh.node_boxes import box_of, half_area_of, local_box, order_node, peek_box, poke_box
from bvh.nodes import local_boxes, local_frame
from bvh.numerics import INF, finite, power_of_two, vector
from bvh.primitives import Triangles, count_of, world_bounds
from bvh.simd import WIDTH, peek, peek_int
from bvh.wide_nodes import BLOCK_SIZE, CODES, LOWER, WideNodes, leaf_rows
from bvh.workers import Progress, share

# Nodes that a thread takes at a time.
CHUNK = 512

F = np.float32


@entry
def _fit_triangles(triangles, ids, frame, begin, end, blocks, groups):
    """Bound the leaves of the nodes begin..end, and lay out their triangles.

    Those without a triangle become empty boxes.
    """
    centre, s, bound = vector(frame, 0), power_of_two(int(frame[1, 0])), frame[1, 2]
    for at in range(begin * WIDTH, end * WIDTH):
        base = at // WIDTH * BLOCK_SIZE + at % WIDTH
        code = np.int64(peek_int(blocks, base + CODES * WIDTH))
        if code >= 0:
            continue
        low, high = (INF, INF, INF), (-INF, -INF, -INF)
        first, count = leaf_rows(code)
        for g in range(first, first + count):
            a, b = pack_group(triangles, ids, centre, s, bound, g, groups)
            low = (min(low[0], a[0]), min(low[1], a[1]), min(low[2], a[2]))
            high = (max(high[0], b[0]), max(high[1], b[1]), max(high[2], b[2]))
        near, far = (F(INF), F(INF), F(INF)), (F(-INF), F(-INF), F(-INF))
        if low[0] < INF:
            near, far = local_box(low, high, centre, s)
        poke_box(blocks, base, near, far)


@entry
def _fit_solids(boxes, ids, begin, end, blocks):
    """Bound the leaves of the nodes begin..end by the local boxes of what they hold."""
    for at in range(begin * WIDTH, end * WIDTH):
        base = at // WIDTH * BLOCK_SIZE + at % WIDTH
        code = np.int64(peek_int(blocks, base + CODES * WIDTH))
        if code >= 0:
            continue
        low, high = (F(INF), F(INF), F(INF)), (F(-INF), F(-INF), F(-INF))
        first, count = leaf_rows(code)
        for i in range(first, first + count):
            b = boxes[np.int64(peek(ids, i))]
            low = (min(low[0], b[0]), min(low[1], b[1]), min(low[2], b[2]))
            high = (max(high[0], b[3]), max(high[1], b[4]), max(high[2], b[5]))
        poke_box(blocks, base, low, high)


@entry
def _bound_inner(blocks, root):
    """Bound inner children, which come after their parents; put the root's box into `root`."""
    for node in range(len(blocks) // BLOCK_SIZE - 1, -1, -1):
        for c in range(WIDTH):
            base = node * BLOCK_SIZE + c
            # No lane has the root for its child; 0 marks those that are not used.
            child = np.int64(peek_int(blocks, base + CODES * WIDTH))
            if child > 0:
                low, high = box_of(blocks, child)
                poke_box(blocks, base, low, high)
    low, high = box_of(blocks, np.int64(0))
    for axis in range(3):
        root[0, axis], root[1, axis] = low[axis], high[axis]


@entry
def _fill_empty(blocks, root, corner):
    """Give children that have lost all they held a point within their parents.

    A lane whose box is empty would be none.
    """
    nodes = len(blocks) // BLOCK_SIZE
    for axis in range(3):
        corner[0, axis] = root[0, axis]
    for node in range(nodes):
        low, _ = box_of(blocks, node)
        if low[0] == F(INF):
            low = (corner[node, 0], corner[node, 1], corner[node, 2])
        for c in range(WIDTH):
            base = node * BLOCK_SIZE + c
            code = np.int64(peek_int(blocks, base + CODES * WIDTH))
            if code > 0:
                corner[code, 0], corner[code, 1], corner[code, 2] = low
            if code != 0 and peek(blocks, base + LOWER * WIDTH) == F(INF):
                poke_box(blocks, base, low, low)


@entry
def _order_nodes(begin, end, blocks):
    """Find the visiting orders of the nodes begin..end."""
    for node in range(begin, end):
        order_node(blocks, node)


@entry
def _cost(blocks, frame):
    """Return the SAH cost of nodes (see `quality.wide_cost`)."""
    total, visits = 0.0, 0.0
    for at in range(len(blocks) // BLOCK_SIZE * WIDTH):
        base = at // WIDTH * BLOCK_SIZE + at % WIDTH
        code = np.int64(peek_int(blocks, base + CODES * WIDTH))
        if code == 0:
            continue
        count = 1
        if code < 0:
            _, count = leaf_rows(code)
        low, high = peek_box(blocks, base)
        total += count * half_area_of(low, high)
        visits += count
    whole = half_area_of(vector(frame, 2), vector(frame, 3))
    return 1.0 + (total / whole if whole > 0.0 else visits)


def cost_of(arrays: TreeArrays) -> float:
    """Return the SAH cost of a tree; 0 if there is nothing in it."""
    return float(_cost(arrays.nodes.blocks, arrays.frame)) if len(arrays.nodes.blocks) else 0.0


@entry
def _mark(ids, held):
    """Mark the primitives that are in leaves."""
    for i in range(ids.size):
        prim = np.int64(peek(ids, i))
        if prim >= 0:
            held[prim] = True


@entry
def _mark_corners(faces, held, used):
    """Mark the vertices of triangles."""
    for i in range(len(faces)):
        if held[i]:
            for k in range(3):
                used[np.int64(peek(faces, 3 * i + k))] = True


@entry
def _bound_used(points, used, bounds):
    """Bound the used vertices; tell whether all of them are finite."""
    low, high, sound = (INF, INF, INF), (-INF, -INF, -INF), True
    for i in range(len(used)):
        if used[i]:
            p = vector(points, i)
            sound &= finite(p)
            low = (min(low[0], p[0]), min(low[1], p[1]), min(low[2], p[2]))
            high = (max(high[0], p[0]), max(high[1], p[1]), max(high[2], p[2]))
    for axis in range(3):
        bounds[0, axis], bounds[1, axis] = low[axis], high[axis]
    return sound


class Members(NamedTuple):
    """Which primitives are in leaves, and which vertices are theirs."""

    held: NDArray[np.bool_]
    used: NDArray[np.bool_]  # one for each vertex; none for solids


def members_of(arrays: TreeArrays) -> Members:
    """Return what a tree holds."""
    primitives = arrays.primitives
    held = np.zeros(count_of(primitives), np.bool_)
    _mark(arrays.nodes.ids, held)
    if not isinstance(primitives, Triangles):
        return Members(held, held[:0])
    used = np.zeros(len(primitives.points), np.bool_)
    _mark_corners(primitives.faces, held, used)
    return Members(kernel_input(held), kernel_input(used))


def refitted(
    arrays: TreeArrays,
    points: NDArray[np.float64],
    threads: int,
    members: Members | None = None,
    progress: Progress | None = None,
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
    members : Members, optional
        What `members_of` says of the arrays, where it is known.
    progress : callable, optional
        Called as progress(done, total) in nodes.

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
    held, used = members_of(arrays) if members is None else members
    boxes, lost = np.empty((0, 6), np.float32), False
    if isinstance(moved, Triangles):
        some = np.empty((2, 3))
        if held.all() and len(held) > 0 and _bound_used(moved.points, used, some):
            frame, bounds = local_frame(some[:1], some[1:])
        else:
            lower, upper, valid = world_bounds(moved)
            lost = _must_be_held(name, valid, held)
            frame, bounds = local_frame(lower[valid], upper[valid])
            if lost:
                ids = kernel_input(np.where((ids >= 0) & valid[ids], ids, np.int32(-1)))
    else:
        lower, upper, valid = world_bounds(moved)
        if _must_be_held(name, valid, held):
            raise ValueError(
                f"{name}: primitive {np.flatnonzero(held & ~valid)[0]} cannot be hit any more; "
                "build a new tree"
            )
        frame, bounds = local_frame(lower[valid], upper[valid])
        boxes = local_boxes(lower, upper, frame)
    if np.isnan(bounds[0, 0]):
        none = aligned(0, np.float32)
        empty = TreeArrays(WideNodes(none, ids[:0]), none, moved, np.zeros((4, 3)))
        return frozen(empty), owned(bounds)
    whole = np.vstack([frame, np.zeros((2, 3))])
    blocks = aligned(len(arrays.nodes.blocks), np.float32)
    groups = aligned(len(ids) * GROUP_SIZE if triangles else 0, np.float32)
    told, boxes, old = kernel_input(whole), kernel_input(boxes), arrays.nodes.blocks

    def fit(begin: int, end: int) -> None:
        part = slice(begin * BLOCK_SIZE, end * BLOCK_SIZE)
        blocks[part] = old[part]
        if triangles:
            _fit_triangles(moved, ids, told, begin, end, blocks, groups)
        else:
            _fit_solids(boxes, ids, begin, end, blocks)

    def order(begin: int, end: int) -> None:
        _order_nodes(begin, end, blocks)

    count = len(blocks) // BLOCK_SIZE
    share(count, CHUNK, fit, threads, progress)
    _bound_inner(blocks, whole[2:])
    if lost:
        _fill_empty(blocks, whole[2:], np.empty((count, 3), np.float32))
    share(count, CHUNK, order, threads)
    return frozen(TreeArrays(WideNodes(blocks, ids), groups, moved, whole)), owned(bounds)


def _must_be_held(name: str, valid: NDArray[np.bool_], held: NDArray[np.bool_]) -> bool:
    """Refuse what can be hit and is not in the tree; tell whether there is the reverse."""
    if (valid & ~held).any():
        raise ValueError(
            f"{name}: primitive {np.flatnonzero(valid & ~held)[0]} could not be hit before and is "
            "not in the tree; build a new tree"
        )
    return bool((held & ~valid).any())
