"""Binary trees, which builders make before they are collapsed: their cost, depth and audit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvh.tree.nodes import Nodes
from bvh.tree.stats import check_primitives
from bvh.tree.wide_nodes import half_areas


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


def check_nodes(nodes: Nodes, boxes: NDArray[np.float32], ids: NDArray[np.int32]) -> None:
    """Raise a ValueError that names the first way in which a tree is not well-formed.

    Every one of the primitives `ids` must be in a leaf, and in none twice; every node must have
    one parent and lie within its box; and the boxes of a primitive's leaves must together reach as
    far as its own of the `boxes`. Mostly that is one leaf, but builders may split primitives.
    """
    bounds, links, order, _ = nodes
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
    check_primitives(bounds, np.repeat(np.flatnonzero(leaf), count[leaf]), prims, boxes, ids)
