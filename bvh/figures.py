"""The figures of a tree: size, shape, cost and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import thread_count
from bvh.arrays import TreeArrays
from bvh.epo import overlap_of
from bvh.primitives import arrays_of, count_of
from bvh.quality import lanes_of, rows_of, wide_cost, wide_levels


@dataclass(frozen=True, repr=False)
class TreeStats:
    """Figures of a tree, as `BVH.stats` returns them. `str` makes a table of them.

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
        Expected node visits plus primitive tests of a random ray that meets the root's box
        (MacDonald and Booth 1990, "Heuristics for ray tracing using space subdivision").
    bytes : int
        Memory of nodes and primitives together.
    build_seconds : float
        Time that the build took.
    bytes_per_primitive : float
    leaf_depths : tuple of int
        Entry k: the leaves on level k; the root is level 0, and never a leaf itself.
    leaf_sizes : tuple of int
        Entry k: the leaves of k primitives. One that was split counts in each of its leaves.
    epo : float or None
        Effective partial overlap: over all boxes of nodes and leaves, the area of triangles within
        that belong to others, as a share of all area; a box counts as in `sah_cost`. None where it
        was not asked for, and for boxes (Aila, Karras and Laine 2013, "On quality metrics of
        bounding volume hierarchies").
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
    epo: float | None = None

    def __repr__(self) -> str:
        size = f"{self.bytes / 2**20:.2f} MiB"
        return (
            f"TreeStats({self.primitives} primitives, {self.nodes} nodes, depth {self.depth}, "
            f"SAH cost {self.sah_cost:.4g}, {size})"
        )

    def __str__(self) -> str:
        rows = [
            ("primitives", f"{self.primitives}, {self.ignored} of them ignored"),
            ("nodes", f"{self.nodes}"),
            ("leaves", f"{self.leaves}, {self.largest_leaf} primitives at most"),
            ("depth", f"{self.depth}"),
            ("SAH cost", f"{self.sah_cost:.4g}"),
            ("memory", f"{self.bytes / 2**20:.2f} MiB, {self.bytes_per_primitive:.1f} bytes each"),
            ("build", f"{self.build_seconds:.3g} s"),
            ("leaves by depth", _pairs(self.leaf_depths)),
            ("leaves by size", _pairs(self.leaf_sizes)),
        ]
        if self.epo is not None:
            rows.insert(5, ("EPO", f"{self.epo:.4g}"))
        return "\n".join(f"{name:<16}{text}" for name, text in rows)


def _pairs(histogram: tuple[int, ...]) -> str:
    """Write a histogram without its zeros."""
    return ", ".join(f"{k}: {count}" for k, count in enumerate(histogram) if count) or "none"


def stats_of(arrays: TreeArrays, build_seconds: float, epo: bool = False) -> TreeStats:
    """Return the figures of a tree."""
    view = lanes_of(arrays.nodes.blocks)
    stored: list[NDArray[Any]] = [*arrays.nodes, arrays.groups, *arrays_of(arrays.primitives)]
    ids, count = arrays.nodes.ids, count_of(arrays.primitives)
    first, rows = rows_of(view.codes[view.leaf])
    held = np.concatenate([[0], np.cumsum((ids >= 0).sum(axis=1))])
    sizes = held[first + rows] - held[first]
    depths = wide_levels(view)[np.nonzero(view.leaf)[0]] + 1
    known = np.zeros(count, np.bool_)
    known[ids[ids >= 0]] = True
    size = sum(array.nbytes for array in stored)
    return TreeStats(
        primitives=count,
        ignored=count - int(np.count_nonzero(known)),
        nodes=len(view.codes),
        leaves=len(sizes),
        depth=int(depths.max(initial=0)),
        largest_leaf=int(sizes.max(initial=0)),
        sah_cost=wide_cost(view, arrays.frame),
        bytes=size,
        build_seconds=build_seconds,
        bytes_per_primitive=size / max(count, 1),
        leaf_depths=tuple(np.bincount(depths).tolist()),
        leaf_sizes=tuple(np.bincount(sizes).tolist()),
        epo=overlap_of(arrays, thread_count(None)) if epo else None,
    )
