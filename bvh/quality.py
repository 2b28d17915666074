"""What a tree is worth: its cost by the surface area heuristic, its shape, and its audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arrays import TreeArrays, pack
from bvh.nodes import local_boxes
from bvh.primitives import arrays_of, count_of, world_bounds
from bvh.simd import WIDTH
from bvh.wide_nodes import CODES, LANE_BITS, LOWER, MAX_LEAF_ROWS, ORDER, ROWS, UPPER, WideNodes


@dataclass(frozen=True)
class TreeStats:
    """Figures of a tree, as `BVH.stats` returns them.

    Attributes
    ----------
    primitives, ignored : int
        All primitives, and those that no ray can hit because a coordinate is not finite or a
        box is empty.
    nodes, leaves, depth : int
        Nodes of the tree, the leaves among them, and the levels below the root.
    largest_leaf : int
        Primitives in the fullest leaf.
    sah_cost : float
        Expected node visits plus primitive tests of a random ray that meets the root's box.
    bytes : int
        Memory of nodes and primitives together.
    build_seconds : float
        Time that the build took.
    """

    primitives: int
    ignored: int
    nodes: int
    leaves: int
    depth: int
    largest_leaf: int
    sah_cost: float
    bytes: int
    build_seconds: float


def stats_of(arrays: TreeArrays, build_seconds: float) -> TreeStats:
    """Return the figures of a tree."""
    view = lanes_of(arrays.nodes.blocks)
    stored: list[NDArray[Any]] = [*arrays.nodes, arrays.groups, *arrays_of(arrays.primitives)]
    ids = arrays.nodes.ids
    first, count = rows_of(view.codes[view.leaf])
    held = np.concatenate([[0], np.cumsum((ids >= 0).sum(axis=1))])
    sizes = held[first + count] - held[first]
    return TreeStats(
        primitives=count_of(arrays.primitives),
        ignored=count_of(arrays.primitives) - len(np.unique(ids[ids >= 0])),
        nodes=len(view.codes),
        leaves=int(np.count_nonzero(view.leaf)),
        depth=wide_depth(view),
        largest_leaf=int(sizes.max(initial=0)),
        sah_cost=wide_cost(view, arrays.frame),
        bytes=sum(array.nbytes for array in stored),
        build_seconds=build_seconds,
    )


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


def wide_depth(view: Lanes) -> int:
    """Return the levels below the root of a wide tree, leaves being the last."""
    if len(view.codes) == 0:
        return 0
    depth, front = 0, np.zeros(1, np.int64)
    while len(front):
        front = view.codes[front][view.inner[front]].astype(np.int64)
        depth += 1
        if depth > len(view.codes):
            raise ValueError("the tree has a cycle")
    return depth


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
