"""What a tree is worth: its cost by the surface area heuristic, its shape, and its audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.arrays import TreeArrays
from bvh.nodes import Nodes, local_boxes
from bvh.primitives import count_of, world_bounds


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
    nodes, primitives, _ = arrays
    counts = nodes.links[:, 1]
    stored: list[NDArray[Any]] = [*nodes, *primitives]
    return TreeStats(
        primitives=count_of(primitives),
        ignored=count_of(primitives) - len(np.unique(nodes.order)),
        nodes=len(nodes.links),
        leaves=int(np.count_nonzero(counts)),
        depth=int(depths(nodes).max(initial=0)),
        largest_leaf=int(counts.max(initial=0)),
        sah_cost=sah_cost(nodes),
        bytes=sum(array.nbytes for array in stored),
        build_seconds=build_seconds,
    )


def half_areas(bounds: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return half the surface of each box."""
    x, y, z = (bounds[:, 3:] - bounds[:, :3]).astype(np.float64).T
    return np.asarray(x * y + y * z + z * x)


def sah_cost(nodes: Nodes, primitive_cost: float = 1.0) -> float:
    """Return the SAH cost of a tree, a node visit counting 1.

    MacDonald and Booth 1990, "Heuristics for ray tracing using space subdivision".
    """
    if len(nodes.links) == 0:
        return 0.0
    areas = half_areas(nodes.bounds)
    if areas[0] == 0.0:
        areas = np.ones_like(areas)
    count = nodes.links[:, 1]
    visits = areas[count == 0].sum()
    tests = (areas * count).sum() * primitive_cost
    return float((visits + tests) / areas[0])


def depths(nodes: Nodes) -> NDArray[np.int32]:
    """Return the level of each node, the root's being 0; -1 for a node that no parent names."""
    level = np.full(len(nodes.links), -1, np.int32)
    front = np.zeros(min(len(nodes.links), 1), np.int64)
    depth = 0
    while len(front):
        level[front] = depth
        inner = front[nodes.links[front, 1] == 0]
        left = nodes.links[inner, 0].astype(np.int64)
        front = np.concatenate([left, left + 1])
        depth += 1
        if depth > len(level):
            raise ValueError("the tree has a cycle")
    return level


def check(arrays: TreeArrays) -> None:
    """Raise a ValueError that names the first way in which a tree is not well-formed."""
    lower, upper, valid = world_bounds(arrays.primitives)
    ids = np.flatnonzero(valid).astype(np.int32)
    check_nodes(arrays.nodes, local_boxes(lower, upper, arrays.frame), ids)


def check_nodes(nodes: Nodes, boxes: NDArray[np.float32], ids: NDArray[np.int32]) -> None:
    """Raise a ValueError that names the first way in which a tree is not well-formed.

    Every one of the primitives `ids` must be in a leaf, and in none twice; every node must have
    one parent and lie within its box; and the boxes of a primitive's leaves must together reach as
    far as its own of the `boxes`. Mostly that is one leaf, but builders may split primitives.
    """
    bounds, links, order = nodes
    n = len(links)
    if n == 0:
        if len(ids):
            raise ValueError(f"{len(ids)} primitives are in no leaf")
        return
    index, count = links[:, 0].astype(np.int64), links[:, 1].astype(np.int64)
    leaf = count > 0
    if (count < 0).any() or (index < 0).any():
        raise ValueError("a link is negative")
    if (index[~leaf] + 1 >= n).any() or (index[leaf] + count[leaf] > len(order)).any():
        raise ValueError("a link points outside the tree")
    children = np.concatenate([index[~leaf], index[~leaf] + 1])
    if len(children) != n - 1 or len(np.unique(children)) != n - 1 or (children == 0).any():
        raise ValueError("a node has no parent, or more than one")
    if (depths(nodes) < 0).any():
        raise ValueError("a node cannot be reached from the root")
    parents = np.concatenate([np.flatnonzero(~leaf)] * 2)
    inside = (bounds[children, :3] >= bounds[parents, :3]) & (
        bounds[children, 3:] <= bounds[parents, 3:]
    )
    if not inside.all():
        raise ValueError(f"node {children[~inside.all(axis=1)][0]} sticks out of its parent")
    slots = np.repeat(index[leaf] - np.cumsum(count[leaf]) + count[leaf], count[leaf])
    slots = slots + np.arange(len(slots))
    if len(slots) != len(order) or len(np.unique(slots)) != len(slots):
        raise ValueError("a primitive's place in the order is in no leaf, or in more than one")
    prims = order[slots].astype(np.int64)
    if not np.array_equal(np.unique(prims), np.sort(ids)):
        raise ValueError("a primitive is in no leaf, or one that cannot be hit is in a leaf")
    owner = np.repeat(np.flatnonzero(leaf), count[leaf])
    if len(np.unique(owner * (int(prims.max()) + 1) + prims)) != len(prims):
        raise ValueError("a primitive is in a leaf twice")
    low, high = np.full((len(boxes), 3), np.inf), np.full((len(boxes), 3), -np.inf)
    np.minimum.at(low, prims, bounds[owner, :3])
    np.maximum.at(high, prims, bounds[owner, 3:])
    inside = (low[ids] <= boxes[ids, :3]) & (high[ids] >= boxes[ids, 3:])
    if not inside.all():
        raise ValueError(f"primitive {ids[~inside.all(axis=1)][0]} sticks out of its leaves")
