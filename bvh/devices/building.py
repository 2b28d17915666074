"""Nodes of a tree on a device: built over faces or over the leaves of a scene, and refitted.

A build sorts the primitives, which are faces or leaves of a scene, along a Morton curve, joins
neighbours where their codes differ least (Apetrei 2014, "Fast and simple agglomerative LBVH
construction") and turns nodes with few primitives into leaves. Boxes are fitted upward from leaves,
by whichever thread comes second to a node, and are rounded outward. The tree that is built is the
top of a `Target`: its only tree, or the tree over the leaves of a scene.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from bvh.devices.exact import floats
from bvh.devices.exact.floats import INF, ONE, OPTIONS, ZERO, f4, f8, i8
from bvh.devices.exchange import view_as
from bvh.devices.layout import Part, Target
from bvh.devices.stages.moved import vertices_of
from bvh.tree.frame import local_frame

wp.set_module_options(OPTIONS)

# Primitives that a thread of `find_box` takes.
STRIDE = 64
# NO_CODE is the code of primitives without a box: above all others, which are below 2**60.
# ABOVE_ROWS is added to gaps between different codes, so that they are above those of equal codes.
NO_CODE, ABOVE_ROWS = i8(2**62), i8(2**32)
# Boxes are widened by OUTWARD of a coordinate plus LEAST_OUTWARD: more than rounding to float32 may
# change it by, which is 2**-24 of it, or 2**-150.
OUTWARD, LEAST_OUTWARD = f8(2.0**-22), f8(2.0**-100)
HALF = f8(0.5)
# Cells of Morton codes: 2**20 along each axis, for local coordinates from -1 to 1.
GRID, LAST_CELL = f8(2.0**19), i8(2**20 - 1)
NO_NODE = -1


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    __threadfence();
#endif
""")
def fence():
    """Let other threads see what was written before they see what is written after."""


@wp.func
def box_of(target: Target, prim: int):
    """Return (valid, lower, upper): the corners of the box of a face, or of a leaf of a scene.

    A face is valid if all its vertices are finite, a leaf unless its tree is empty.
    """
    if target.is_scene != 0:
        low, high = target.leaf_boxes[prim, 0], target.leaf_boxes[prim, 1]
        return low[0] <= high[0], low, high
    a, b, c = vertices_of(target, prim)
    valid = wp.isfinite(a) and wp.isfinite(b) and wp.isfinite(c)
    return valid, wp.min(a, wp.min(b, c)), wp.max(a, wp.max(b, c))


@wp.kernel
def find_box(
    target: Target, in_leaf: wp.array(dtype=wp.int32), box: wp.array2d(dtype=wp.float64),
    counts: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Find the `box` of all valid primitives in the tree, (2, 3): its lower and upper corner.

    At first the corners are inf and -inf. `in_leaf` is 1 for primitives in the tree, else 0.
    `counts`, at first 0, gets the number of valid primitives in the tree, and of those not in it.
    """
    lower, upper = wp.vec3d(INF), wp.vec3d(-INF)
    count, others = int(0), int(0)
    for k in range(STRIDE):
        i = wp.tid() * STRIDE + k
        if i < in_leaf.shape[0]:
            valid, low, high = box_of(target, i)
            if valid and in_leaf[i] != 0:
                lower, upper = wp.min(lower, low), wp.max(upper, high)
                count += 1
            elif valid:
                others += 1
    for axis in range(3):
        wp.atomic_min(box, 0, axis, lower[axis])
        wp.atomic_max(box, 1, axis, upper[axis])
    wp.atomic_add(counts, 0, count)
    wp.atomic_add(counts, 1, others)


@wp.kernel
def write_codes(target: Target, ids: wp.array(dtype=wp.int32), codes: wp.array(dtype=wp.int64)):
    """Write the Morton codes of the primitives `ids`, by which these are sorted later.

    A code interleaves the bits of the grid cell of the middle of a box, 20 for each axis. Invalid
    primitives have the code NO_CODE.
    """
    i = wp.tid()
    valid, low, high = box_of(target, ids[i])
    code = i8(0)
    s, centre = floats.power_of_two(target.top.exponent), target.top.centre
    middle = ((low - centre) * s + (high - centre) * s) * HALF
    for axis in range(3):
        cell = wp.min(wp.max(i8((middle[axis] + ONE) * GRID), i8(0)), LAST_CELL)
        for bit in range(20):
            code |= ((cell >> i8(bit)) & i8(1)) << i8(3 * bit + axis)
    codes[i] = wp.where(valid, code, NO_CODE)


@wp.func
def _gap(codes: wp.array(dtype=wp.int64), i: int):
    """Return a measure of how different the sorted `codes` of rows i and i + 1 are.

    It is the larger, the higher the first bit in which they differ. Equal codes are told apart by
    the bits of their rows; these gaps are smaller than all others.
    """
    different = codes[i] ^ codes[i + 1]
    return wp.where(different != i8(0), different + ABOVE_ROWS, i8(i ^ (i + 1)))


@wp.kernel
def join(
    target: Target, count: int, most: int, codes: wp.array(dtype=wp.int64),
    met: wp.array(dtype=wp.int32), root: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Join the first `count` rows of `Target.ids`, sorted by code, into nodes; write the root.

    Nodes with at most `most` rows become leaves. Node k divides its rows after row k. A thread
    starts at a row and goes upward: a range of rows left..right joins the neighbour across the
    smaller gap, under one parent. `met`, NO_NODE at first, gets for each node the outer end of the
    range of the child whose thread came first; that thread stops, and the second one goes on.
    """
    left, right, node = wp.tid(), wp.tid(), int(0)
    if target.is_scene == 0 and left == count - 1:
        # The last of all triangles is the last of its leaf.
        target.triangles[left, 2][3] = f4(-1.0)
    while count > most and right - left < count - 1:
        # The range is the left child (side 0) of the node after it, or the right child (side 1) of
        # the node before it.
        side, parent = int(0), int(right)
        if right == count - 1 or (left > 0 and _gap(codes, left - 1) < _gap(codes, right)):
            side, parent = 1, left - 1
        is_leaf = right - left < most
        target.children[parent][2 * side] = wp.where(is_leaf, left, node)
        target.children[parent][2 * side + 1] = wp.where(is_leaf, right - left + 1, 0)
        fence()
        other = wp.atomic_exch(met, parent, wp.where(side == 0, left, right))
        if other == NO_NODE:
            return
        left, right = wp.where(side == 0, left, other), wp.where(side == 0, other, right)
        node = parent
        if right - left < most:
            # All its rows are in one leaf, a child of a node above: this node is not used.
            target.children[node] = wp.vec4i(NO_NODE, 0, NO_NODE, 0)
        elif target.is_scene == 0:
            # Mark the last triangles of its children that are leaves.
            if node - left < most:
                target.triangles[node, 2][3] = f4(-1.0)
            if right - node - 1 < most:
                target.triangles[right, 2][3] = f4(-1.0)
    root[0] = node


@wp.kernel
def write_parents(target: Target, parents: wp.array(dtype=wp.int32)):
    """Write `parents`: 2 * parent + side for each node but the root.

    `side` is 0 for a left child, 1 for a right one.
    """
    node, side = wp.tid()
    children = target.children[node]
    if children[2 * side] >= 0 and children[2 * side + 1] == 0:
        parents[children[2 * side]] = 2 * node + side


@wp.kernel
def fit_boxes(
    target: Target, parents: wp.array(dtype=wp.int32), met: wp.array(dtype=wp.int32),
    levels: wp.array(dtype=wp.int32), boxes: wp.array3d(dtype=wp.float32),
    depth: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Write the boxes of leaves and, upward, those of nodes, and the depth of the tree.

    A thread starts at each child that is a leaf, on side 0 (left) or 1 of its node. `met`, 0 at
    first, counts the threads that have come to a node: only the second one goes on upward, as both
    boxes are known then. `levels`, 0 at first, gets the height of each node, `parents` is that of
    `write_parents`, and `boxes` is `Target.boxes` as (nodes, 3, 4) numbers.
    """
    node, side = wp.tid()
    first, count = target.children[node][2 * side], target.children[node][2 * side + 1]
    if count == 0:
        return
    lower, upper = wp.vec3d(INF), wp.vec3d(-INF)
    for j in range(first, first + count):
        valid, low, high = box_of(target, target.ids[j])
        if valid:
            lower, upper = wp.min(lower, low), wp.max(upper, high)
    # The box in local coordinates, rounded outward; inf and -inf if no primitive is valid.
    near, far = wp.vec3(wp.inf), wp.vec3(-wp.inf)
    if lower[0] < INF:
        s, centre = floats.power_of_two(target.top.exponent), target.top.centre
        for axis in range(3):
            x, y = (lower[axis] - centre[axis]) * s, (upper[axis] - centre[axis]) * s
            near[axis] = f4(x - wp.abs(x) * OUTWARD - LEAST_OUTWARD)
            far[axis] = f4(y + wp.abs(y) * OUTWARD + LEAST_OUTWARD)
    level = int(1)
    while node >= 0:
        for axis in range(3):
            boxes[node, axis, 2 * side] = near[axis]
            boxes[node, axis, 2 * side + 1] = far[axis]
        wp.atomic_max(levels, node, level)
        fence()
        if wp.atomic_add(met, node, 1) == 0:
            return
        # What another thread has written is read by atomic operations, past caches.
        for axis in range(3):
            low4 = wp.atomic_add(boxes, node, axis, 2 - 2 * side, f4(0.0))
            high4 = wp.atomic_add(boxes, node, axis, 3 - 2 * side, f4(0.0))
            near[axis] = wp.min(near[axis], low4)
            far[axis] = wp.max(far[axis], high4)
        level = wp.atomic_max(levels, node, 0) + 1
        parent = parents[node]
        node, side = wp.where(parent < 0, NO_NODE, parent // 2), parent % 2
    depth[0] = level - 1


@wp.kernel
def write_areas(target: Target, areas: wp.array(dtype=wp.float64)):
    """Write to areas[2 * node + side], 0 at first, the weight of a child in the SAH cost.

    It is half the area of its box, times the number of primitives of a leaf; 0 for empty boxes.
    """
    node, side = wp.tid()
    k, children = 2 * side, target.children[node]
    x, y, z = target.boxes[node, 0], target.boxes[node, 1], target.boxes[node, 2]
    a, b, c = f8(x[k + 1]) - f8(x[k]), f8(y[k + 1]) - f8(y[k]), f8(z[k + 1]) - f8(z[k])
    if children[k] >= 0 and a >= ZERO:
        areas[2 * node + side] = (a * b + b * c + c * a) * f8(wp.max(children[k + 1], 1))


def copied(kind: Any, record: Any) -> Any:
    """Return a copy of a struct, which shares its arrays."""
    copy = kind()
    for name in kind.vars:
        setattr(copy, name, getattr(record, name))
    return copy


def full(target: Any, value: int, count: int) -> Any:
    """Return `count` equal integers, on the device of a target."""
    return wp.full(count, value, dtype=wp.int32, device=target.ids.device)


def launch(kernel: Any, dim: Any, target: Any, *inputs: Any) -> None:
    """Launch a kernel of a target."""
    wp.launch(kernel, dim, inputs=[target, *inputs], device=target.ids.device)


def set_frame(target: Any, in_leaf: Any) -> tuple[int, int]:
    """Give the top of a target the frame and the box of its primitives as they are now.

    Return (number of valid primitives in the tree, number of valid ones that are not in it).
    `in_leaf` (n,) is 1 for primitives in the tree, else 0.
    """
    corners = np.repeat([[np.inf], [-np.inf]], 3, axis=1)
    box, counts = wp.array(corners, dtype=f8, device=in_leaf.device), full(target, 0, 2)
    launch(find_box, -(-len(in_leaf) // STRIDE), target, in_leaf, box, counts)
    (lower, upper), (count, others) = box.numpy(), counts.numpy().tolist()
    top = copied(Part, target.top)
    top.is_empty = int(count == 0)
    if count:
        (centre, (k, farthest, bound)), _ = local_frame(lower[None], upper[None])
        top.centre, top.exponent = wp.vec3d(*centre), int(k)
        top.farthest, top.bound = farthest, bound
        # In local coordinates, rounded outward as boxes are.
        local = np.ldexp(np.stack([lower, upper]) - centre, int(k))
        local += [[-1.0], [1.0]] * (np.abs(local) * OUTWARD.value + LEAST_OUTWARD.value)
        top.lower, top.upper = (wp.vec3d(*row) for row in local)
    target.top = top
    return count, others


def build(target: Any, ids: Any, count: int, most: int) -> None:
    """Write the ids and children of a tree over primitives `ids`, of which `count` are valid.

    Leaves have up to `most` primitives. The target has room for all ids and for count - 1 nodes;
    unless it is a scene, the marks of its triangles are 1 on entry.
    """
    rows, top = len(ids), copied(Part, target.top)
    # The sort needs as much room again, in the second halves.
    codes = wp.empty(2 * rows, dtype=wp.int64, device=ids.device)
    order, root = full(target, 0, 2 * rows), full(target, 0, 1)
    wp.copy(order, ids)
    launch(write_codes, rows, target, order, codes)
    wp.utils.radix_sort_pairs(codes, order, rows)
    wp.copy(target.ids, order, count=rows)
    top.nodes = count - 1 if count > most else 0
    if count:
        launch(join, count, target, count, most, codes, full(target, NO_NODE, count), root)
    top.root, top.count = int(root.numpy()[0]), 0 if top.nodes else count
    target.top = top


def fit(target: Any) -> None:
    """Write the depth of a target's top, and the boxes of its nodes."""
    top, depth = copied(Part, target.top), full(target, 0, 1)
    nodes = int(top.nodes)
    if nodes:
        # The nodes of the top are the first ones of the target.
        parents, boxes = full(target, NO_NODE, nodes), view_as(target.boxes, f4, nodes, 3, 4)
        met, levels = full(target, 0, nodes), full(target, 0, nodes)
        launch(write_parents, (nodes, 2), target, parents)
        launch(fit_boxes, (nodes, 2), target, parents, met, levels, boxes, depth)
    top.depth = int(depth.numpy()[0])
    target.top = top


def cost_of(target: Any) -> float:
    """Return the SAH cost of a target's top, 0 if it is empty.

    It is the expected number of nodes and primitives that a ray through the box of the root meets.
    """
    nodes = int(target.top.nodes)
    sides = np.maximum(np.subtract(target.top.upper, target.top.lower), 0.0)
    # Half the area of the box of the root.
    whole = float(sides @ np.roll(sides, 1))
    if not nodes or not whole:
        return float(not target.top.is_empty)
    areas = wp.zeros(2 * nodes, dtype=f8, device=target.children.device)
    wp.launch(write_areas, (nodes, 2), inputs=[target, areas], device=areas.device)
    return 1.0 + float(wp.utils.array_sum(areas)) / whole
