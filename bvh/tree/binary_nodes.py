"""Binary nodes of a tree, as devices have them, made from its wide nodes.

The children of a wide node are split into halves, and these again, along the longest axis of their
middles. A binary node has the boxes of both children, axis by axis as (lower, upper, lower, upper),
and two numbers for each child: (node, 0), or (first primitive, number of primitives) of a leaf.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, field
from bvh.tree import wide_nodes
from bvh.tree.triangle_groups import ROWS, SIZE, TOLERANCE, V0
from bvh.tree.wide_nodes import WideNodes, child_code, child_lower, child_upper, node_at

# A pending range of children is a row: begin, end, the binary node over the range, and the level
# of this node below the wide node.
PENDING_SIZE = 4
_read, _write = field(np.int64, *range(PENDING_SIZE))
_pending_at = inlined(lambda pending, row: _read(pending, row * PENDING_SIZE))
_set_pending = inlined(lambda pending, row, item: _write(pending, row * PENDING_SIZE, item))


class Numbering(NamedTuple):
    """How nodes and primitives of a tree are numbered on a device."""

    numbers: NDArray[np.int32]  # the first binary node of each wide one; -1 if it has one child
    starts: NDArray[np.int64]  # primitives before each row of ids, and at the end their total
    first_node: int  # added to numbers of nodes
    first_primitive: int  # added to numbers of primitives


@inlined
def _is_used(data, at):
    """Return whether the lane at position `at` of the wide nodes `data` has a child."""
    # The box of an unused lane extends from inf to -inf.
    return child_lower(data, at, 0) <= child_upper(data, at, 0)


@inlined
def _twice_middle(data, at, axis):
    """Return twice the middle, on an axis, of the box of the child at position `at`."""
    return child_lower(data, at, axis) + child_upper(data, at, axis)


@inlined
def _write_child(data, code, numbering, children, node, column):
    """Write two numbers for a child to children[node, column] and the next column.

    They are (binary node, 0), or (first primitive, number of primitives) for a leaf. `code` is the
    child's code in the wide nodes `data`, and `numbering` a `Numbering`.
    """
    # A wide node with one child has no binary node: its child takes its place.
    while code >= 0 and numbering.numbers[code] < 0:
        at = node_at(np.int64(code))
        while not _is_used(data, at):
            at += 1
        code = child_code(data, at)
    if code >= 0:
        children[node, column] = numbering.first_node + numbering.numbers[code]
        children[node, column + 1] = 0
    else:
        first, rows = wide_nodes.leaf_rows(code)
        starts = numbering.starts  # the number of primitives before each row of ids
        children[node, column] = numbering.first_primitive + starts[first]
        children[node, column + 1] = starts[first + rows] - starts[first]


@inlined
def _sort(data, order, begin, end):
    """Sort order[begin:end], positions of children in `data`, by the middles of their boxes.

    They are sorted along the axis on which these middles spread most.
    """
    longest, axis = np.float32(-1.0), 0
    for k in range(3):
        low = high = _twice_middle(data, order[begin], k)
        for i in range(begin + 1, end):
            x = _twice_middle(data, order[i], k)
            low, high = min(low, x), max(high, x)
        if high - low > longest:
            longest, axis = high - low, k
    # Insertion sort: there are at most WIDTH children.
    for i in range(begin + 1, end):
        child, j = order[i], i
        x = _twice_middle(data, child, axis)
        while j > begin and _twice_middle(data, order[j - 1], axis) > x:
            order[j] = order[j - 1]
            j -= 1
        order[j] = child


@inlined
def _write_box(data, order, begin, end, boxes, node, side):
    """Write the box around some children of a wide node as that of a child of binary node `node`.

    These are at the positions order[begin:end] of `data`. For each axis, a row of boxes[node] gets
    lower and upper in columns 0 and 1 for the left child, `side` 0, in 2 and 3 for the right one.
    """
    for axis in range(3):
        low, high = child_lower(data, order[begin], axis), child_upper(data, order[begin], axis)
        for i in range(begin + 1, end):
            low = min(low, child_lower(data, order[i], axis))
            high = max(high, child_upper(data, order[i], axis))
        boxes[node, axis, 2 * side], boxes[node, axis, 2 * side + 1] = low, high


@entry
def _number(data, numbers):
    """Write the number of each wide node's first binary node; return how many binary nodes exist.

    A wide node with a single child needs no binary node: its number is -1.
    """
    total = 0
    for node in range(len(numbers)):
        used = 0
        for lane in range(WIDTH):
            if _is_used(data, node_at(node) + lane):
                used += 1
        numbers[node] = -1
        if used > 1:
            numbers[node] = total
            total += used - 1  # A binary tree over n children has n - 1 nodes.
    return total


@entry
def _split(data, numbering, levels, order, pending, boxes, children):
    """Write all binary nodes to `boxes` and `children`; return the number of levels.

    The last row of `children` gets the root (see `binary_nodes`). `levels`, 0 at first, gets the
    number of binary levels above each wide node. `order` and `pending` are scratch: the positions
    of a wide node's children, and a stack of (begin, end, binary node, level): ranges of `order`
    that are still to be split, and the level of the binary node below the wide node.
    """
    deepest = 0
    _write_child(data, np.int32(0), numbering, children, len(boxes), 0)
    for wide in range(len(levels)):
        count = 0
        for lane in range(WIDTH):
            at = node_at(wide) + lane
            if _is_used(data, at):
                order[count] = at
                count += 1
                code = child_code(data, at)
                if code >= 0:
                    # Right for an only child, which takes its parent's place; others are set below.
                    levels[code] = levels[wide]
        number, waiting = np.int64(numbering.numbers[wide]), 0
        new_node = number + 1
        if count > 1:
            _set_pending(pending, 0, (0, count, number, 1))
            waiting = 1
        while waiting > 0:
            waiting -= 1
            begin, end, node, level = _pending_at(pending, waiting)
            deepest = max(deepest, levels[wide] + level)
            _sort(data, order, begin, end)
            middle = begin + (end - begin + 1) // 2
            for side in range(2):
                first, last = (begin, middle) if side == 0 else (middle, end)
                _write_box(data, order, first, last, boxes, node, side)
                if last - first > 1:
                    children[node, 2 * side] = numbering.first_node + new_node
                    children[node, 2 * side + 1] = 0
                    _set_pending(pending, waiting, (first, last, new_node, level + 1))
                    new_node += 1
                    waiting += 1
                else:
                    code = child_code(data, order[first])
                    _write_child(data, code, numbering, children, node, 2 * side)
                    if code >= 0:
                        levels[code] = levels[wide] + level
    return deepest


def binary_nodes(
    nodes: WideNodes, starts: NDArray[np.int64], first_node: int, first_primitive: int
) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int32], int]:
    """Convert wide nodes to n binary nodes; return (boxes, children, root, levels).

    `boxes` (n, 3, 4) has, for each axis, the lower and upper coordinate of the left child, then
    those of the right child. `children` (n, 4) has two numbers for each child, and `root` (2,) for
    the root: (node, 0), or (first primitive, number of primitives) for a leaf. Nodes are numbered
    from `first_node` on, and primitives from `first_primitive` on. `levels` counts the levels.
    `starts` (rows + 1,) has the number of primitives before each row of ids, and last their total.
    """
    numbers, levels = np.empty(nodes.size, np.int32), np.zeros(nodes.size, np.int32)
    count, deepest = int(_number(nodes.data, numbers)), 0
    boxes, children = np.empty((count, 3, 4), np.float32), np.zeros((count + 1, 4), np.int32)
    if nodes.size:
        numbering = Numbering(numbers, starts, first_node, first_primitive)
        order, pending = np.empty(WIDTH, np.int64), np.empty((WIDTH, PENDING_SIZE), np.int64)
        deepest = int(_split(nodes.data, numbering, levels, order, pending, boxes, children))
    return boxes, children[:-1], children[-1, :2], deepest


def unpacked_triangles(
    groups: NDArray[np.float32], ids: NDArray[np.int32], prims: int
) -> NDArray[np.float32]:
    """Return the triangles of a tree's leaves one after the other, (n, 3, 4).

    Their rows are v0, e1 and e2; the last column has the tolerance, the size, and 1, or 2 if the
    triangle is in several leaves. `groups` are triangle groups of float32, and `ids` (groups,
    WIDTH) the ids in their lanes, of `prims` triangles; -1 for none.
    """
    used = ids >= 0
    found = ids[used]
    lanes = groups.reshape(-1, ROWS, WIDTH).transpose(0, 2, 1)[used]
    triangles = np.empty((len(found), 3, 4), np.float32)
    triangles[:, :, :3] = lanes[:, V0 : V0 + 9].reshape(-1, 3, 3)
    triangles[:, :2, 3] = lanes[:, [TOLERANCE, SIZE]]
    triangles[:, 2, 3] = np.where(np.bincount(found, minlength=prims)[found] > 1, 2.0, 1.0)
    return triangles
