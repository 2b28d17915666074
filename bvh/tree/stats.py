"""Statistics of a tree: its size, shape, SAH cost and memory; and the check of its structure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import number_of
from bvh.runtime.simd import WIDTH
from bvh.tree.arrays import TreeArrays, bytes_of
from bvh.tree.build import pack
from bvh.tree.frame import FrameView
from bvh.tree.nodes import local_boxes
from bvh.tree.primitives import arrays_of, count_of, world_bounds
from bvh.tree.wide_nodes import Lanes, WideNodes, half_areas, lanes_of, octants_of, rows_of


@dataclass(frozen=True, repr=False)
class TreeStats:
    """Statistics of a tree, returned by `BVH.stats`. `str` formats them as a table.

    Attributes
    ----------
    primitives, ignored : int
        Number of all primitives, and of those that cannot be hit because a coordinate is not
        finite or a box is empty.
    nodes, leaves, depth : int
        Number of nodes without the leaves, number of leaves, and number of levels below the root.
    largest_leaf : int
        Number of primitives in the largest leaf.
    sah_cost : float
        Expected number of node visits and primitive tests of a random ray that meets the root's box
        (MacDonald and Booth 1990, "Heuristics for ray tracing using space subdivision").
    bytes : int
        Memory of nodes and primitives, and of the groups of faces. `BVH.nbytes` counts tables that
        queries keep, too.
    build_seconds : float
        Duration of the build.
    bytes_per_primitive : float
    leaf_depths : tuple of int
        Entry k is the number of leaves on level k; the root is level 0 and never a leaf.
    leaf_sizes : tuple of int
        Entry k is the number of leaves with k primitives. A primitive that was split counts in each
        of its leaves.
    groups : int or None
        Number of the 32 bits that at least one face has; None if no face was given groups.

    Examples
    --------
    >>> import bvh
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> stats = tree.stats()
    >>> stats.primitives, stats.ignored, stats.nodes, stats.leaves, stats.depth
    (1, 0, 1, 1, 1)
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
    bytes_per_primitive: float
    leaf_depths: tuple[int, ...]
    leaf_sizes: tuple[int, ...]
    groups: int | None = None

    def __repr__(self) -> str:
        size = f"{self.bytes / 2**20:.2f} MiB"
        return (
            f"TreeStats({number_of(self.primitives, 'primitives')}, "
            f"{number_of(self.nodes, 'nodes')}, depth {self.depth}, "
            f"SAH cost {self.sah_cost:.4g}, {size})"
        )

    def __str__(self) -> str:
        rows = [
            ("primitives", f"{self.primitives}, {self.ignored} of them ignored"),
            ("nodes", f"{self.nodes}"),
            ("leaves", f"{self.leaves}, {number_of(self.largest_leaf, 'primitives')} at most"),
            ("depth", f"{self.depth}"),
            ("SAH cost", f"{self.sah_cost:.4g}"),
            ("memory", f"{self.bytes / 2**20:.2f} MiB, {self.bytes_per_primitive:.1f} bytes each"),
            ("build", f"{self.build_seconds:.3g} s"),
            ("leaves by depth", _pairs(self.leaf_depths)),
            ("leaves by size", _pairs(self.leaf_sizes)),
        ]
        if self.groups is not None:
            rows.insert(1, ("groups", f"{self.groups} of 32 bits are used"))
        return "\n".join(f"{name:<16}{text}" for name, text in rows)


def _pairs(histogram: tuple[int, ...]) -> str:
    """Format a histogram as "index: count" pairs, without counts of 0."""
    return ", ".join(f"{k}: {count}" for k, count in enumerate(histogram) if count) or "none"


def stats_of(
    arrays: TreeArrays, build_seconds: float, bits: NDArray[np.uint32] | None = None
) -> TreeStats:
    """Return the statistics of a tree; `bits` (m,) are the group bits of its faces, if given."""
    view = lanes_of(arrays.nodes.data)
    stored = *arrays.nodes, arrays.groups, *arrays_of(arrays.primitives)
    size = bytes_of(stored) + (0 if bits is None else bits.nbytes + arrays.face_bits.nbytes)
    ids, count = arrays.nodes.ids, count_of(arrays.primitives)
    first, rows = rows_of(view.codes[view.leaf])
    # The number of primitives before each row of ids.
    before = np.concatenate([[0], np.cumsum((ids >= 0).sum(axis=1))])
    sizes = before[first + rows] - before[first]
    depths = wide_levels(view)[np.nonzero(view.leaf)[0]] + 1
    used = np.zeros(count, np.bool_)
    used[ids[ids >= 0]] = True
    return TreeStats(
        primitives=count, ignored=count - int(np.count_nonzero(used)), nodes=len(view.codes),
        leaves=len(sizes), depth=int(depths.max(initial=0)), largest_leaf=int(sizes.max(initial=0)),
        sah_cost=wide_cost(view, arrays.frame), bytes=size, build_seconds=build_seconds,
        bytes_per_primitive=size / max(count, 1), leaf_depths=tuple(np.bincount(depths).tolist()),
        leaf_sizes=tuple(np.bincount(sizes).tolist()),
        groups=None if bits is None else int(np.bitwise_or.reduce(bits)).bit_count(),
    )  # fmt: skip


def wide_levels(view: Lanes) -> NDArray[np.int64]:
    """Return the level of each wide node, (nodes,); the root is level 0. Raise for a cycle."""
    levels = np.zeros(len(view.codes), np.int64)
    # The nodes of one level after the other; an empty tree has none.
    level, nodes = 0, np.zeros(min(len(view.codes), 1), np.int64)
    while len(nodes):
        if level > len(view.codes):
            raise ValueError("the tree has a cycle")
        levels[nodes] = level
        nodes = view.codes[nodes][view.inner[nodes]].astype(np.int64)
        level += 1
    return levels


def wide_cost(view: Lanes, frame: NDArray[np.float64]) -> float:
    """Return the expected number of nodes and rows of primitives that a random ray visits.

    The ray meets the root's box. It meets the box of another node or leaf with a probability that
    is the ratio of both surface areas. `refit.cost_of` returns the same by a compiled kernel.
    """
    if len(view.codes) == 0:
        return 0.0
    bounds = np.moveaxis(view.boxes, 1, 2)
    areas = half_areas(bounds[view.inner]), half_areas(bounds[view.leaf])
    root_area = float(half_areas(FrameView(frame).box.reshape(1, 6).astype(np.float32))[0])
    _, count = rows_of(view.codes[view.leaf])
    # A ray through a root without area may visit everything.
    if root_area == 0.0:
        return float(len(view.codes) + count.sum())
    return 1.0 + float(areas[0].sum() + (areas[1] * count).sum()) / root_area


def check(arrays: TreeArrays) -> None:
    """Raise a ValueError that names the first error in the structure of a tree, if it has any."""
    lower, upper, valid = world_bounds(arrays.primitives)
    ids = np.flatnonzero(valid).astype(np.int32)
    check_wide(arrays.nodes, local_boxes(lower, upper, arrays.frame), ids)
    groups = pack(arrays.primitives, arrays.nodes, arrays.frame, 1, arrays.groups.dtype)
    if not np.array_equal(groups.view(np.int32), arrays.groups.view(np.int32)):
        raise ValueError("a triangle group differs from its triangles")


def check_wide(nodes: WideNodes, boxes: NDArray[np.float32], ids: NDArray[np.int32]) -> None:
    """Raise a ValueError that names the first error in the structure of wide nodes.

    Every node but the root must have one parent, which comes before it and has a box around it.
    Every row of primitives must be in one leaf. Each of the primitives `ids` must be in a leaf, in
    no leaf twice, and its row of `boxes` (all primitives, 6), in local coordinates, must be in the
    union of its leaves' boxes. Visiting orders must be permutations of the lanes.
    """
    view = lanes_of(nodes.data)
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
    outer = bounds[view.inner]
    inside = (lower[children] >= outer[:, :3]) & (upper[children] <= outer[:, 3:])
    if not inside.all():
        raise ValueError(f"node {children[~inside.all(axis=1)][0]} sticks out of its parent")
    first, count = rows_of(view.codes[view.leaf])
    if (first + count > len(nodes.rows)).any():
        raise ValueError("a leaf points outside the tree")
    # For each row of each leaf: the number of the leaf, and that of the row.
    owner = np.repeat(np.arange(len(first)), count)
    rows = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
    if not np.array_equal(np.sort(rows), np.arange(len(nodes.rows))):
        raise ValueError("a row of primitives is in no leaf, or in more than one")
    row_ids = nodes.ids[rows]
    used = row_ids >= 0
    owner = np.broadcast_to(owner[:, None], used.shape)[used]
    check_primitives(bounds[view.leaf], owner, row_ids[used].astype(np.int64), boxes, ids)
    if not (np.sort(octants_of(view.orders), axis=2) == np.arange(WIDTH)).all():
        raise ValueError("a visiting order leaves out a child")


def check_primitives(
    leaves: NDArray[np.float32], owner: NDArray[np.int64], prims: NDArray[np.int64],
    boxes: NDArray[np.float32], ids: NDArray[np.int32],
) -> None:  # fmt: skip
    """Raise a ValueError unless exactly the primitives `ids` are in leaves, and in their boxes.

    prims[i] is in the leaf owner[i], whose box (6,) is leaves[owner[i]]. `boxes` (n, 6) are the
    boxes of all primitives; each must be in the union of the boxes of the primitive's leaves.
    """
    # With counts, as NumPy sorts then: its tables of hashes take many times as long.
    if not np.array_equal(np.unique(prims, return_counts=True)[0], np.sort(ids)):
        raise ValueError("a primitive is in no leaf, or one that cannot be hit is in a leaf")
    # Each pair of leaf and primitive has a number of its own.
    pairs = np.sort(owner * (int(prims.max()) + 1) + prims)
    if (pairs[1:] == pairs[:-1]).any():
        raise ValueError("a primitive is in a leaf twice")
    low, high = np.full((len(boxes), 3), np.inf), np.full((len(boxes), 3), -np.inf)
    np.minimum.at(low, prims, leaves[owner, :3])
    np.maximum.at(high, prims, leaves[owner, 3:])
    inside = (low[ids] <= boxes[ids, :3]) & (high[ids] >= boxes[ids, 3:])
    if not inside.all():
        raise ValueError(f"primitive {ids[~inside.all(axis=1)][0]} sticks out of its leaves")
