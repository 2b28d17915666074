"""Wide nodes: WIDTH boxes tested at a time; their layout, known in this file alone.

Node i is a block of 8 rows of WIDTH float32 lanes, one lane a child: lower x y z, upper x y z
(local frame, rounded outward), the child's code, and the visiting order, the last two as int32
bits. A code >= 0 is a node; a code < 0 is a leaf, ~(first * 8 + count - 1), of up to 8 consecutive
rows of `ids`. An unused lane has lower = +inf and upper = -inf, which no ray enters.

Lane k of the order row holds, for each of the 8 octants of directions, the child to be pushed
k-th, so that the nearest comes last: 2, 3 or 4 bits an octant for 4, 8 or 16 lanes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.jit import entry, inlined, kernel
from bvh.nodes import is_leaf
from bvh.numerics import INF
from bvh.simd import WIDTH, poke_int

ROWS = 8
BLOCK_SIZE = ROWS * WIDTH
LOWER, UPPER, CODES, ORDER = 0, 3, 6, 7
LANE_BITS = {4: 2, 8: 3, 16: 4}[WIDTH]

LEAF_BITS = 3
MAX_LEAF_ROWS = 1 << LEAF_BITS


class WideNodes(NamedTuple):
    """A wide tree over rows of primitive ids."""

    blocks: NDArray[np.float32]  # (nodes * BLOCK_SIZE,)
    ids: NDArray[np.int32]  # (rows, lanes), -1 for none


@inlined
def leaf_code(first, count):
    """Return the code of a leaf of `count` rows from `first` on."""
    return ~(first * MAX_LEAF_ROWS + count - 1)


@inlined
def leaf_rows(code):
    """Return (first, count) of a leaf's rows."""
    at = ~code
    return at >> LEAF_BITS, (at & (MAX_LEAF_ROWS - 1)) + 1


@inlined
def _half_area(bounds, i):
    x = np.float64(bounds[i, 3]) - bounds[i, 0]
    y = np.float64(bounds[i, 4]) - bounds[i, 1]
    z = np.float64(bounds[i, 5]) - bounds[i, 2]
    return x * y + y * z + z * x


@kernel
def order_children(bounds, children, n, keys, rank, orders):
    """Pack the visiting order of a node's n children for all octants."""
    for k in range(WIDTH):
        orders[k] = 0
    for octant in range(4):
        for c in range(WIDTH):
            rank[c] = c
            keys[c] = INF
        for c in range(n):
            # Distance of the box's centre along the diagonal of the octant.
            i = children[c]
            x, y, z = (
                bounds[i, 0] + bounds[i, 3],
                bounds[i, 1] + bounds[i, 4],
                bounds[i, 2] + bounds[i, 5],
            )
            keys[c] = (-x if octant & 1 else x) + (-y if octant & 2 else y) + z
        # Sort by insertion: nearest first.
        for c in range(1, n):
            k = c
            while k > 0 and keys[rank[k - 1]] > keys[c]:
                rank[k] = rank[k - 1]
                k -= 1
            rank[k] = c
        # The opposite octant has the opposite order.
        for c in range(WIDTH):
            far, near = (rank[n - 1 - c], rank[c]) if c < n else (c, c)
            orders[c] |= far << (octant * LANE_BITS)
            orders[c] |= near << ((7 - octant) * LANE_BITS)


class CollapseScratch(NamedTuple):
    """What `collapse` needs beside the two trees."""

    pending: NDArray[np.int64]  # (n, 2): a binary node, and its wide node
    children: NDArray[np.int64]
    areas: NDArray[np.float64]
    keys: NDArray[np.float64]
    rank: NDArray[np.int64]
    orders: NDArray[np.int64]


def new_scratch(links: NDArray[np.int32]) -> CollapseScratch:
    """Return the scratch for a binary tree."""
    return CollapseScratch(
        np.empty((len(links) // 2 + 2, 2), np.int64), np.empty(WIDTH, np.int64), np.empty(WIDTH),
        np.empty(WIDTH), np.empty(WIDTH, np.int64), np.empty(WIDTH, np.int64),
    )  # fmt: skip


@entry
def collapse(bounds, links, order, lanes, blocks, ids, count_only, scratch):
    """Collapse a binary tree, opening the child of largest area until a node is full.

    Returns (nodes, rows of ids); with `count_only` nothing is written.
    """
    pending, children, areas, keys, rank, orders = scratch
    pending[0, 0], pending[0, 1] = 0, 0
    waiting, nodes, rows = 1, 1, 0
    while waiting > 0:
        waiting -= 1
        root, at = pending[waiting, 0], pending[waiting, 1]
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
                areas[c] = -1.0 if is_leaf(links, i) else _half_area(bounds, i)
            n += 1
        if not count_only:
            order_children(bounds, children, n, keys, rank, orders)
        for c in range(WIDTH):
            base = at * BLOCK_SIZE + c
            if not count_only:
                for axis in range(3):
                    used = c < n
                    blocks[base + (LOWER + axis) * WIDTH] = (
                        bounds[children[c], axis] if used else INF
                    )
                    blocks[base + (UPPER + axis) * WIDTH] = (
                        bounds[children[c], axis + 3] if used else -INF
                    )
                poke_int(blocks, base + ORDER * WIDTH, orders[c])
                poke_int(blocks, base + CODES * WIDTH, 0)
            if c >= n:
                continue
            i = children[c]
            if is_leaf(links, i):
                first, count = np.int64(links[i, 0]), np.int64(links[i, 1])
                used_rows = (count + lanes - 1) // lanes
                if not count_only:
                    poke_int(blocks, base + CODES * WIDTH, leaf_code(rows, used_rows))
                    for k in range(used_rows * lanes):
                        ids[rows + k // lanes, k % lanes] = order[first + k] if k < count else -1
                rows += used_rows
            else:
                if not count_only:
                    poke_int(blocks, base + CODES * WIDTH, nodes)
                nodes += 1
        # Queue inner children so that the first is expanded next.
        inner = 0
        for c in range(n):
            if not is_leaf(links, children[c]):
                inner += 1
        k = nodes - 1
        for c in range(n - 1, -1, -1):
            if not is_leaf(links, children[c]):
                pending[waiting, 0], pending[waiting, 1] = children[c], k
                waiting += 1
                k -= 1
    return nodes, rows
