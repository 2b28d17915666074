"""Refit: new boxes for a tree whose primitives have moved, with the old topology.

It is much faster than a build and as correct, but rays take longer the more the order of the
primitives in space has changed.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, finite, lower_of, upper_of, vector
from bvh.runtime import simd
from bvh.runtime.arguments import kernel_input, owned
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.runtime.memory import aligned
from bvh.runtime.simd import WIDTH, peek
from bvh.runtime.threads import Progress, copied, share
from bvh.tree import frame as frames
from bvh.tree import wide_nodes
from bvh.tree.arrays import TreeArrays, frozen
from bvh.tree.collapse import order_node
from bvh.tree.frame import local_frame
from bvh.tree.nodes import local_box
from bvh.tree.primitives import Primitives, Triangles, count_of, world_bounds
from bvh.tree.triangle_groups import GROUP_SIZE, first_id, pack_group
from bvh.tree.wide_nodes import NO_BOX, NODE_SIZE, WideNodes

# Nodes that a thread takes at a time, at most and at least; and points.
CHUNK, LEAST, POINTS_AT_ONCE = 512, 64, 1 << 14


@entry
def _fit(triangles, corners, rows, frame, begin, end, data, groups, is_done):
    """Set the boxes of leaves below nodes begin..end; finish nodes whose descendants are all there.

    A finished node has visiting orders, and boxes of all its children; `is_done` tells which of the
    nodes begin..end are finished. Primitives are `triangles`, whose `groups` are filled, or else
    boxes with `corners`, (lower, upper) of (n, 3); the other argument is None. `rows` and `data`
    are those of `WideNodes`.
    """
    centre, s, bound = frames.centre(frame), frames.scale(frame), frames.bound(frame)
    for number in range(begin * WIDTH, end * WIDTH):
        at = wide_nodes.child_at(number)
        code = wide_nodes.child_code(data, at)
        if code >= 0:
            continue
        low, high = (INF, INF, INF), (-INF, -INF, -INF)
        first, count = wide_nodes.leaf_rows(code)
        for row in range(first, first + count):
            # Numba compiles one of these branches, and no code for the argument that is None.
            if triangles is not None:
                a, b = pack_group(triangles, rows, centre, s, bound, row, groups)
                low, high = lower_of(low, a), upper_of(high, b)
            if corners is not None:
                prim = np.int64(peek(rows, row))
                low = lower_of(low, vector(corners[0], prim))
                high = upper_of(high, vector(corners[1], prim))
        lower, upper = NO_BOX
        if low[0] < INF:
            lower, upper = local_box(low, high, centre, s)
        wide_nodes.set_child_box(data, at, lower, upper)
    # Children before their parents, as they have higher numbers.
    for node in range(end - 1, begin - 1, -1):
        done = True
        for c in range(WIDTH):
            child = np.int64(wide_nodes.child_code(data, wide_nodes.node_at(node) + c))
            if child > 0:
                done &= child < end and is_done[child]
        is_done[node] = done
        if done:
            _bound_and_order(data, node)


@inlined
def _bound_and_order(data, node):
    """Set the boxes of a node's inner children, whose own children have boxes; set its orders."""
    for c in range(WIDTH):
        at = wide_nodes.node_at(node) + c
        child = wide_nodes.child_code(data, at)
        if child > 0:
            low, high = wide_nodes.node_box(data, child)
            wide_nodes.set_child_box(data, at, low, high)
    order_node(data, node)


@entry
def _fit_others(data, is_done, root):
    """Finish the nodes that `_fit` has left, with `is_done` False; write the root's box (2, 3)."""
    # Children before their parents, as they have higher numbers.
    for node in range(len(is_done) - 1, -1, -1):
        if not is_done[node]:
            _bound_and_order(data, node)
    low, high = wide_nodes.node_box(data, np.int64(0))
    for axis in range(3):
        root[0, axis], root[1, axis] = low[axis], high[axis]


@entry
def _fill_empty(data, root, corner):
    """Replace the boxes of children without primitives by a point of their parents' boxes.

    A lane with an empty box would be taken for an unused one. All nodes are ordered again. `root`
    (2, 3) is the root's box. `corner` (nodes, 3) is scratch: a point of the box of each node.
    """
    for axis in range(3):
        corner[0, axis] = root[0, axis]
    for node in range(wide_nodes.node_count(data)):
        low, _ = wide_nodes.node_box(data, node)
        if low[0] == INF:
            low = corner[node, 0], corner[node, 1], corner[node, 2]
        for c in range(WIDTH):
            at = wide_nodes.node_at(node) + c
            code = wide_nodes.child_code(data, at)
            if code > 0:
                corner[code, 0], corner[code, 1], corner[code, 2] = low
            if code != 0 and wide_nodes.child_lower(data, at, 0) == INF:
                wide_nodes.set_child_box(data, at, low, low)
        order_node(data, node)


@entry
def _cost(data, frame):
    """Return the SAH cost of the nodes `data`, which are not empty.

    It is the expected number of nodes and rows of ids that a ray through the root's box visits: 1
    for the root, and for each child, or each row of a leaf, the ratio of its area to the root's. A
    ray visits all if the root has no area.
    """
    zeros, ones = simd.splat(np.int32(0), WIDTH), simd.splat(np.int32(1), WIDTH)
    totals, visits, none = simd.splat(0.0, WIDTH), simd.splat(0.0, WIDTH), simd.splat(0.0, WIDTH)
    for node in range(wide_nodes.node_count(data)):
        at = wide_nodes.node_at(node)
        codes = wide_nodes.child_codes(data, at, WIDTH)
        # Visits of a child: the rows of a leaf, one for a node, none for an unused lane.
        rows = simd.select(codes < zeros, wide_nodes.rows_in(codes), ones)
        counts = simd.convert(simd.select(codes == zeros, zeros, rows), 0.0)
        low, high = wide_nodes.child_boxes(data, at)
        x = simd.convert(high[0], 0.0) - simd.convert(low[0], 0.0)
        y = simd.convert(high[1], 0.0) - simd.convert(low[1], 0.0)
        z = simd.convert(high[2], 0.0) - simd.convert(low[2], 0.0)
        # Boxes of unused lanes are infinite: `select` leaves their areas out.
        areas = counts * (x * y + y * z + z * x)
        totals = totals + simd.select(counts > none, areas, none)
        visits = visits + counts
    total, visited = 0.0, 0.0
    for lane in range(WIDTH):
        total += simd.lane(totals, np.int32(lane))
        visited += simd.lane(visits, np.int32(lane))
    root_area = wide_nodes.half_area_of(frames.lower_corner(frame), frames.upper_corner(frame))
    return 1.0 + (total / root_area if root_area > 0.0 else visited)


def cost_of(arrays: TreeArrays) -> float:
    """Return the SAH cost of a tree (see `TreeStats.sah_cost`); 0 if it is empty."""
    return float(_cost(arrays.nodes.data, arrays.frame)) if len(arrays.nodes.data) else 0.0


@entry
def _mark(rows, in_leaf):
    """Set in_leaf[prim] for all primitives in leaves; `rows` end with ids, -1 in unused lanes."""
    for row in range(len(rows)):
        for i in range(first_id(rows, row), (row + 1) * rows.shape[1]):
            prim = np.int64(peek(rows, i))
            if prim >= 0:
                in_leaf[prim] = True


@entry
def _mark_corners(faces, in_leaf, used):
    """Set used[vertex] for all vertices of the faces that are `in_leaf`."""
    for i in range(len(faces)):
        if in_leaf[i]:
            for k in range(3):
                used[np.int64(peek(faces, 3 * i + k))] = True


@entry
def _bound_used(points, used, bounds):
    """Write the bounds (2, 3) of the used vertices; return whether all of them are finite."""
    low, high, all_finite = (INF, INF, INF), (-INF, -INF, -INF), True
    for i in range(len(used)):
        if used[i]:
            p = vector(points, i)
            all_finite &= finite(p)
            low, high = lower_of(low, p), upper_of(high, p)
    for axis in range(3):
        bounds[0, axis], bounds[1, axis] = low[axis], high[axis]
    return all_finite


class Members(NamedTuple):
    """Which primitives are in leaves, and which vertices they use."""

    in_leaf: NDArray[np.bool_]  # one for each primitive
    used: NDArray[np.bool_]  # one for each vertex; empty for primitives other than triangles


def members_of(arrays: TreeArrays) -> Members:
    """Return which primitives and vertices are in the leaves of a tree."""
    primitives = arrays.primitives
    # By kernels, not by in_leaf[ids] = True: NumPy converts indices in a buffer, and
    # ignores a failure to allocate it.
    in_leaf = np.zeros(count_of(primitives), np.bool_)
    _mark(arrays.nodes.rows, in_leaf)
    if not isinstance(primitives, Triangles):
        return Members(in_leaf, in_leaf[:0])
    used = np.zeros(len(primitives.points), np.bool_)
    _mark_corners(primitives.faces, in_leaf, used)
    return Members(kernel_input(in_leaf), kernel_input(used))


def refitted(
    arrays: TreeArrays, points: NDArray[np.float64], threads: int, members: Members | None = None,
    progress: Progress | None = None,
) -> tuple[TreeArrays, NDArray[np.float64]]:  # fmt: skip
    """Return the tree with its primitives moved, and its bounds in the world, shape (2, 3).

    `points` replace those of the primitives; `members` are `members_of` the tree, if they are
    known. Each leaf of a triangle that was split gets the whole box of the triangle. Triangles with
    a vertex that is no longer finite are removed from the leaves. Raises ValueError if the shape of
    `points` is wrong, if a primitive can be hit that is not in the tree, or if a box can no longer
    be hit.
    """
    primitives, rows, ids = arrays.primitives, arrays.nodes.rows, arrays.nodes.ids
    name = "vertices" if isinstance(primitives, Triangles) else "boxes"
    if points.shape != primitives.points.shape:
        raise ValueError(f"{name} must have shape {primitives.points.shape}, got {points.shape}")
    points = copied(points, threads)
    points.flags.writeable = False
    moved = primitives._replace(points=points)
    triangles = moved if isinstance(moved, Triangles) else None
    members = members_of(arrays) if members is None else members
    local, bounds, corners, valid = _placement(name, moved, members, threads)
    # No primitive can be hit: return an empty tree.
    if np.isnan(bounds[0, 0]):
        none = aligned(0, np.float32)
        groups = aligned(0, arrays.groups.dtype)
        empty = TreeArrays(WideNodes(none, rows[:0]), groups, moved, np.zeros((4, 3)))
        return frozen(empty), owned(bounds)
    # Remove the triangles that can no longer be hit.
    if valid is not None:
        rows = kernel_input(np.where((ids >= 0) & valid[ids], ids, np.int32(-1)))
    full_frame = np.vstack([local, np.zeros((2, 3))])
    data = aligned(len(arrays.nodes.data), np.float32)
    groups = aligned(len(rows) * GROUP_SIZE if triangles else 0, arrays.groups.dtype)
    count = arrays.nodes.size
    frame, old, is_done = kernel_input(full_frame), arrays.nodes.data, np.empty(count, np.bool_)

    def fit(begin: int, end: int) -> None:
        part = slice(begin * NODE_SIZE, end * NODE_SIZE)
        data[part] = old[part]
        _fit(triangles, corners, rows, frame, begin, end, data, groups, is_done)

    share(count, CHUNK, fit, threads, progress, LEAST)
    _fit_others(data, is_done, full_frame[2:])
    if valid is not None:
        _fill_empty(data, full_frame[2:], np.empty((count, 3), np.float32))
    return frozen(TreeArrays(WideNodes(data, rows), groups, moved, full_frame)), owned(bounds)


Corners = tuple[NDArray[np.float64], NDArray[np.float64]]


def _placement(
    name: str, moved: Primitives, members: Members, threads: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], Corners | None, NDArray[np.bool_] | None]:
    """Return (frame, bounds, corners, valid) of moved primitives; raise if they cannot be refitted.

    `frame` (2, 3) is the local frame, and `bounds` (2, 3) the box of all primitives in the world.
    `corners` are lower and upper corners (n, 3) of each box, None for triangles. `valid` (n,) says
    which triangles can be hit; it is None if all in leaves can. `name` is for error messages.
    """
    if isinstance(moved, Triangles):
        box = _used_box(moved.points, members.used, threads)
        if members.in_leaf.all() and len(members.in_leaf) > 0 and box is not None:
            return *local_frame(box[:1], box[1:]), None, None
    lower, upper, valid = world_bounds(moved)
    new, lost = valid & ~members.in_leaf, members.in_leaf & ~valid
    if new.any():
        raise ValueError(
            f"{name}: primitive {new.argmax()} could not be hit before and is not in the tree; "
            "build a new tree"
        )
    if lost.any() and not isinstance(moved, Triangles):
        raise ValueError(
            f"{name}: primitive {lost.argmax()} cannot be hit any more; build a new tree"
        )
    frame, bounds = local_frame(lower[valid], upper[valid])
    if isinstance(moved, Triangles):
        return frame, bounds, None, valid if lost.any() else None
    return frame, bounds, (kernel_input(lower), kernel_input(upper)), None


def _used_box(
    points: NDArray[np.float64], used: NDArray[np.bool_], threads: int
) -> NDArray[np.float64] | None:
    """Return the box (2, 3) of the vertices that are `used`, None if one of them is not finite."""
    chunks = max(-(-len(points) // POINTS_AT_ONCE), 1)
    boxes, finite = np.empty((chunks, 2, 3)), np.zeros(chunks, np.bool_)

    def bound(begin: int, end: int) -> None:
        k = begin // POINTS_AT_ONCE
        finite[k] = _bound_used(points[begin:end], used[begin:end], boxes[k])

    share(len(points), POINTS_AT_ONCE, bound, threads)
    if not finite.all():
        return None
    (low, high), *others = boxes
    # Of zeros with different signs the first one is kept, as in one pass over all.
    for lower, upper in others:
        low, high = np.where(lower < low, lower, low), np.where(upper > high, upper, high)
    return np.stack([low, high])
