"""What a tree is worth: its cost by the surface area heuristic, and its audit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arrays import TreeArrays, pack
from bvh.nodes import local_boxes
from bvh.primitives import world_bounds
from bvh.simd import WIDTH
from bvh.wide_nodes import CODES, LANE_BITS, LOWER, MAX_LEAF_ROWS, ORDER, ROWS, UPPER, WideNodes


class Lanes(NamedTuple):
    """Wide nodes as arrays of one row a node, one column a child."""

    boxes: NDArray[np.float32]  # (nodes, 6, lanes)
    codes: NDArray[np.int32]
    orders: NDArray[np.int32]
    inner: NDArray[np.bool_]
    leaf: NDArray[np.bool_]


def lanes_of(blocks: NDArray[np.float32]) -> Lanes:
    """Return wide nodes by lanes."""
    rows = blocks.reshape(-1, ROWS, WIDTH)
    codes = rows[:, CODES].view(np.int32)
    used = rows[:, LOWER] <= rows[:, UPPER]
    return Lanes(
        rows[:, :6], codes, rows[:, ORDER].view(np.int32), used & (codes >= 0), used & (codes < 0)
    )


def rows_of(codes: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (first, count) of the rows of leaves."""
    at = ~codes.astype(np.int64)
    return at // MAX_LEAF_ROWS, at % MAX_LEAF_ROWS + 1


def wide_levels(view: Lanes) -> NDArray[np.int64]:
    """Return on which level below the root each node of a wide tree is."""
    levels = np.zeros(len(view.codes), np.int64)
    level, front = 0, np.zeros(min(len(view.codes), 1), np.int64)
    while len(front):
        if level > len(view.codes):
            raise ValueError("the tree has a cycle")
        levels[front] = level
        front = view.codes[front][view.inner[front]].astype(np.int64)
        level += 1
    return levels


def wide_cost(view: Lanes, frame: NDArray[np.float64]) -> float:
    """Return the SAH cost of a wide tree: visits of nodes and of rows of primitives.

    MacDonald and Booth 1990, "Heuristics for ray tracing using space subdivision".
    """
    if len(view.codes) == 0:
        return 0.0
    bounds = np.moveaxis(view.boxes, 1, 2)
    areas = half_areas(bounds[view.inner]), half_areas(bounds[view.leaf])
    whole = float(half_areas(frame[2:4].reshape(1, 6).astype(np.float32))[0])
    _, count = rows_of(view.codes[view.leaf])
    if whole == 0.0:
        return float(len(view.codes) + count.sum())
    return 1.0 + float(areas[0].sum() + (areas[1] * count).sum()) / whole


def half_areas(bounds: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return half the surface of each box."""
    x, y, z = (bounds[:, 3:] - bounds[:, :3]).astype(np.float64).T
    return np.asarray(x * y + y * z + z * x)


def check(arrays: TreeArrays) -> None:
    """Raise a ValueError that names the first way in which a tree is not well-formed."""
    lower, upper, valid = world_bounds(arrays.primitives)
    ids = np.flatnonzero(valid).astype(np.int32)
    frame = arrays.frame
    check_wide(arrays.nodes, local_boxes(lower, upper, frame), ids)
    groups = pack(arrays.primitives, arrays.nodes, frame, 1)
    if not np.array_equal(groups.view(np.int32), arrays.groups.view(np.int32)):
        raise ValueError("a leaf's copy of its triangles differs from them")


def check_wide(nodes: WideNodes, boxes: NDArray[np.float32], ids: NDArray[np.int32]) -> None:
    """Raise a ValueError that names the first way in which wide nodes are not well-formed.

    Every node must have one parent, which comes before it, and lie within the box that it has
    there; every row of primitives must be in one leaf; every one of the primitives `ids` must be
    in a leaf, in none twice, and the boxes of its leaves must together reach as far as its own of
    the `boxes`; and the visiting orders must be permutations.
    """
    view = lanes_of(nodes.blocks)
    n = len(view.codes)
    if n == 0:
        if len(ids):
            raise ValueError(f"{len(ids)} primitives are in no leaf")
        return
    bounds = np.moveaxis(view.boxes, 1, 2)
    parents, _ = np.nonzero(view.inner)
    children = view.codes[view.inner].astype(np.int64)
    if (children >= n).any() or not np.array_equal(np.sort(children), np.arange(1, n)):
        raise ValueError("a node has no parent, or more than one")
    if (children <= parents).any():
        raise ValueError("a node comes before its parent")
    lower, upper = view.boxes[:, :3].min(axis=2), view.boxes[:, 3:].max(axis=2)
    held = bounds[view.inner]
    inside = (lower[children] >= held[:, :3]) & (upper[children] <= held[:, 3:])
    if not inside.all():
        raise ValueError(f"node {children[~inside.all(axis=1)][0]} sticks out of its parent")
    first, count = rows_of(view.codes[view.leaf])
    if (first + count > len(nodes.ids)).any():
        raise ValueError("a leaf points outside the tree")
    owner = np.repeat(np.arange(len(first)), count)
    rows = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
    if not np.array_equal(np.sort(rows), np.arange(len(nodes.ids))):
        raise ValueError("a row of primitives is in no leaf, or in more than one")
    held_ids = nodes.ids[rows]
    used = held_ids >= 0
    owner, prims = (
        np.broadcast_to(owner[:, None], used.shape)[used],
        held_ids[used].astype(np.int64),
    )
    check_primitives(bounds[view.leaf], owner, prims, boxes, ids)
    places = np.sort(
        view.orders[:, None, :] >> (LANE_BITS * np.arange(8))[None, :, None] & (WIDTH - 1), axis=2
    )
    if not (places == np.arange(WIDTH)).all():
        raise ValueError("a visiting order leaves out a child")


def check_primitives(
    leaves: NDArray[np.float32],
    owner: NDArray[np.int64],
    prims: NDArray[np.int64],
    boxes: NDArray[np.float32],
    ids: NDArray[np.int32],
) -> None:
    """Check that primitive prims[i] is rightly in leaf owner[i], whose box is leaves[owner[i]]."""
    if not np.array_equal(np.unique(prims), np.sort(ids)):
        raise ValueError("a primitive is in no leaf, or one that cannot be hit is in a leaf")
    if len(np.unique(owner * (int(prims.max()) + 1) + prims)) != len(prims):
        raise ValueError("a primitive is in a leaf twice")
    low, high = np.full((len(boxes), 3), np.inf), np.full((len(boxes), 3), -np.inf)
    np.minimum.at(low, prims, leaves[owner, :3])
    np.maximum.at(high, prims, leaves[owner, 3:])
    inside = (low[ids] <= boxes[ids, :3]) & (high[ids] >= boxes[ids, 3:])
    if not inside.all():
        raise ValueError(f"primitive {ids[~inside.all(axis=1)][0]} sticks out of its leaves")
