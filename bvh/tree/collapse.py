"""Collapse of a binary tree to wide nodes, and the visiting orders of their children."""

from __future__ import annotations

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.arguments import aligned
from bvh.runtime.jit import entry, inlined
from bvh.runtime.simd import (
    WIDTH,
    lane,
    lane_numbers,
    lowest_bit,
    mask_bits,
    popcount,
    select,
    splat,
)
from bvh.runtime.threads import reserve_call_memory
from bvh.tree.nodes import Nodes, is_leaf
from bvh.tree.wide_nodes import (
    NO_BOX,
    NODE_SIZE,
    WideNodes,
    child_boxes,
    child_codes,
    half_area_of,
    leaf_code,
    node_at,
    octant_shift,
    set_child_box,
    set_child_code,
    set_child_orders,
)

# A lane's number in the fields of all octants.
_IN_EVERY_OCTANT = np.uint32(sum(1 << octant_shift.py_func(octant) for octant in range(8))).astype(
    np.int32
)


@inlined
def order_node(data, node):
    """Set the visiting orders of a node for all octants, nearest child last.

    Children are sorted by their centres along the diagonal of the octant: each counts those that
    are nearer.
    """
    at = node_at(node)
    numbers, none = lane_numbers(WIDTH), splat(np.int32(0), WIDTH)
    # The used lanes come first.
    unused = mask_bits(child_codes(data, at) == none)
    used = min(lowest_bit(unused), np.int64(WIDTH))
    low, high = child_boxes(data, at)
    x, y, z = low[0] + high[0], low[1] + high[1], low[2] + high[2]
    infinite = splat(np.float32(INF), WIDTH)
    is_used = numbers < splat(np.int32(used), WIDTH)
    orders = select(is_used, none, numbers * splat(_IN_EVERY_OCTANT, WIDTH))
    for octant in range(4):
        keys = (-x if octant & 1 else x) + (-y if octant & 2 else y) + z
        keys = select(is_used, keys, infinite)
        near_bits, far_bits = np.int64(octant_shift(7 - octant)), np.int64(octant_shift(octant))
        for c in range(used):
            key = splat(lane(keys, np.int32(c)), WIDTH)
            earlier = numbers < splat(np.int32(c), WIDTH)
            nearer = np.int64(popcount(mask_bits((keys < key) | ((keys == key) & earlier))))
            # The opposite octant has the opposite order.
            near = splat(np.int32(c << near_bits), WIDTH)
            far = splat(np.int32(c << far_bits), WIDTH)
            orders = (
                orders
                | select(numbers == splat(np.int32(nearer), WIDTH), near, none)
                | select(numbers == splat(np.int32(used - 1 - nearer), WIDTH), far, none)
            )
    set_child_orders(data, at, orders)


@inlined
def _box(bounds, i):
    """Return the box of a binary node."""
    return ((bounds[i, 0], bounds[i, 1], bounds[i, 2]), (bounds[i, 3], bounds[i, 4], bounds[i, 5]))


@entry
def _collapse(bounds, links, order, lanes, data, ids, scratch):
    """Collapse a tree, opening the largest children until nodes are full; return their number."""
    pending, children, areas = scratch
    pending[0, 0], pending[0, 1] = 0, 0
    waiting, nodes, rows = 1, 1, 0
    while waiting > 0:
        waiting -= 1
        root, node = pending[waiting, 0], pending[waiting, 1]
        children[0] = root
        areas[0] = -1.0 if is_leaf(links, root) else 1.0
        n = 1
        # Open inner children until the node is full or has leaves only.
        while n < WIDTH:
            best = 0
            for c in range(1, n):
                if areas[c] > areas[best]:
                    best = c
            if areas[best] < 0.0:
                break
            left = np.int64(links[children[best], 0])
            for i, c in ((left, best), (left + 1, n)):
                children[c] = i
                areas[c] = -1.0 if is_leaf(links, i) else half_area_of(*_box(bounds, i))
            n += 1
        for c in range(n):
            i = children[c]
            code = nodes
            if is_leaf(links, i):
                first, count = np.int64(links[i, 0]), np.int64(links[i, 1])
                used_rows = (count + lanes - 1) // lanes
                code = leaf_code(rows, used_rows)
                for k in range(used_rows * lanes):
                    ids[rows + k // lanes, k % lanes] = order[first + k] if k < count else -1
                rows += used_rows
            else:
                nodes += 1
            low, high = _box(bounds, i)
            set_child_box(data, node_at(node) + c, low, high)
            set_child_code(data, node_at(node) + c, code)
        low, high = NO_BOX
        for c in range(n, WIDTH):
            set_child_box(data, node_at(node) + c, low, high)
            set_child_code(data, node_at(node) + c, 0)
        order_node(data, node)
        # Queue inner children so that the first is expanded next.
        k = nodes - 1
        for c in range(n - 1, -1, -1):
            if not is_leaf(links, children[c]):
                pending[waiting, 0], pending[waiting, 1] = children[c], k
                waiting += 1
                k -= 1
    return nodes


def widen(binary: Nodes, lanes: int) -> WideNodes:
    """Collapse a binary tree to wide nodes, with rows of `lanes` primitives."""
    rows = int((-(-binary.links[:, 1] // lanes)).sum())
    if rows == 0:
        return WideNodes(aligned(0, np.float32), np.empty((0, lanes), np.int32))
    # A wide node stands for an inner node or more; memory that is not touched costs nothing.
    inner = len(binary.links) // 2 + 1
    capacity, ids = aligned(inner * NODE_SIZE, np.float32), np.empty((rows, lanes), np.int32)
    pending = np.empty((inner + 1, 2), np.int64)
    scratch = pending, np.empty(WIDTH, np.int64), np.empty(WIDTH)
    reserve_call_memory()
    data = aligned(_collapse(*binary, lanes, capacity, ids, scratch) * NODE_SIZE, np.float32)
    data[:] = capacity[: len(data)]
    return WideNodes(data, ids)
