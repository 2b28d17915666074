"""Anatomy of a tree: cost, fill and overlap by level, and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries.hierarchy import BVH
from bvh.runtime.simd import WIDTH
from bvh.tree.frame import FrameView
from bvh.tree.primitives import arrays_of
from bvh.tree.stats import half_areas, wide_levels
from bvh.tree.wide_nodes import lanes_of, rows_of

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# Nodes whose pairs of children are compared at a time.
CHUNK = 1 << 12


@dataclass(frozen=True, eq=False, repr=False)
class Anatomy:
    """Figures of a tree by level; the root is level 0, its children are level 1.

    Attributes
    ----------
    nodes, leaves : ndarray of int64, shape (levels,)
        Nodes and leaves on each level.
    node_cost, leaf_cost : ndarray of float64, shape (levels,)
        Expected visits of nodes, and of groups of primitives, by a random ray through the root's
        box. Their sum is the SAH cost.
    overlap : ndarray of float64, shape (levels,)
        Surface of the pairwise intersections of boxes in the same node, as a share of the surface
        of these boxes.
    fill : ndarray of int64, shape (WIDTH + 1,)
        Number of nodes by number of children.
    leaf_sizes : ndarray of int64
        Number of leaves by number of primitives.
    memory : dict of str to int
        Bytes of nodes, triangle groups and primitives.
    """

    nodes: Counts
    leaves: Counts
    node_cost: Floats
    leaf_cost: Floats
    overlap: Floats
    fill: Counts
    leaf_sizes: Counts
    memory: dict[str, int]

    def __repr__(self) -> str:
        levels, nodes, leaves = len(self.nodes), self.nodes.sum(), self.leaves.sum()
        return f"Anatomy({levels} levels, {nodes} nodes, {leaves} leaves)"


def anatomy_of(tree: BVH) -> Anatomy:
    """Return the figures of a tree by level.

    Parameters
    ----------
    tree : BVH

    Returns
    -------
    Anatomy

    Examples
    --------
    >>> import bvh
    >>> from bvh.pictures.anatomy import anatomy_of
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> anatomy_of(tree)
    Anatomy(2 levels, 1 nodes, 1 leaves)
    """
    arrays: Any = tree.arrays
    view = lanes_of(arrays.nodes.data)
    level = wide_levels(view)
    depth = int(level.max(initial=-1)) + 2 if len(level) else 0
    bounds = np.moveaxis(view.boxes, 1, 2)
    used = view.inner | view.leaf
    # Children are one level below their node.
    below = np.broadcast_to(level[:, None] + 1, used.shape)
    areas = np.zeros(used.shape)
    areas[used] = half_areas(bounds[used])
    whole = float(half_areas(FrameView(arrays.frame).box.reshape(1, 6).astype(np.float32))[0])
    # If the root has no surface, count every visit as certain.
    share = areas / whole if whole > 0.0 else used.astype(np.float64)
    first, rows = rows_of(view.codes[view.leaf])
    used_before = np.concatenate([[0], np.cumsum((arrays.nodes.ids >= 0).sum(axis=1))])
    node_cost = _sums(below[view.inner], share[view.inner], depth)
    if depth:
        node_cost[0] += 1.0
    common, surface = np.zeros(depth), _sums(below[used], areas[used], depth)
    for start in range(0, len(level), CHUNK):
        part = slice(start, start + CHUNK)
        shared = _common_areas(bounds[part], used[part])
        common += _sums(level[part] + 1, shared, depth)
    primitives: Any = arrays.primitives
    memory = {
        "nodes": sum(array.nbytes for array in arrays.nodes),
        "groups": int(arrays.groups.nbytes),
        tree.kind: sum(array.nbytes for array in arrays_of(primitives)),
    }
    return Anatomy(
        nodes=np.bincount(level, minlength=depth),
        leaves=np.bincount(below[view.leaf], minlength=depth),
        node_cost=node_cost,
        leaf_cost=_sums(below[view.leaf], share[view.leaf] * rows, depth),
        overlap=np.divide(common, surface, out=np.zeros(depth), where=surface > 0.0),
        fill=np.bincount(used.sum(axis=1), minlength=WIDTH + 1),
        leaf_sizes=np.bincount(used_before[first + rows] - used_before[first]),
        memory=memory,
    )


def _common_areas(bounds: NDArray[np.float32], used: NDArray[np.bool_]) -> Floats:
    """Return for each node half the surface of the pairwise intersections of its children."""
    found = np.zeros(len(bounds))
    for one in range(WIDTH):
        for other in range(one + 1, WIDTH):
            rows = np.flatnonzero(used[:, one] & used[:, other])
            a, b = bounds[rows, one], bounds[rows, other]
            both = np.hstack([np.maximum(a[:, :3], b[:, :3]), np.minimum(a[:, 3:], b[:, 3:])])
            meet = (both[:, :3] <= both[:, 3:]).all(axis=1)
            found[rows[meet]] += half_areas(both[meet])
    return found


def _sums(level: Counts, values: Floats, depth: int) -> Floats:
    """Return the sum of the values on each level."""
    return np.asarray(np.bincount(level, values, depth), np.float64)
