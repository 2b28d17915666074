"""Statistics of a scene: instances, leaves, trees and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bvh.runtime.arguments import number_of
from bvh.scene.leaves import depth_of
from bvh.scene.table import nested_scenes
from bvh.tree.stats import TreeStats, wide_levels
from bvh.tree.wide_nodes import lanes_of


@dataclass(frozen=True, repr=False)
class SceneStats:
    """Statistics of a scene, returned by `Scene.stats`. `str` formats them as a table.

    Attributes
    ----------
    instances : int
        Of the scene itself, as ``len(scene)``.
    levels : int
        Levels of nested scenes; 1 for a scene of trees.
    leaves, hidden : int
        Number of leaves (see `Scene.leaves`), and of those that no ray can hit, because an instance
        on their path is not visible, or because the masks on it share no bit.
    primitives, shown, stored : int
        Number of primitives in all leaves, in those not hidden, and in all trees, each once.
    depth : int
        Levels of nodes from the root of the tree over the leaves to the deepest node's primitives.
    bytes, instance_bytes : int
        Memory of the trees, each once, and of the level above them, with tables cached by queries.
    trees : tuple of TreeStats
        Of each tree of ``scene.leaves.trees``.
    placed : tuple of int
        Number of leaves of each tree.

    Examples
    --------
    >>> import bvh, numpy as np
    >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> ids = scene.add_many(mesh, [np.eye(4)] * 3, visible=[True, True, False])
    >>> stats = scene.stats()
    >>> stats.instances, stats.hidden, stats.primitives, stats.stored
    (3, 1, 3, 1)
    """

    instances: int
    levels: int
    leaves: int
    hidden: int
    primitives: int
    shown: int
    stored: int
    depth: int
    bytes: int
    instance_bytes: int
    trees: tuple[TreeStats, ...]
    placed: tuple[int, ...]

    def __repr__(self) -> str:
        primitives = number_of(self.primitives, "primitives")
        return (
            f"SceneStats({number_of(self.instances, 'instances')} of "
            f"{number_of(len(self.trees), 'trees')}, {primitives}, {self.shown} shown, "
            f"{self.stored} stored, depth {self.depth}, {_size(self.bytes + self.instance_bytes)})"
        )

    def __str__(self) -> str:
        levels = f", {self.levels} levels of scenes" if self.levels > 1 else ""
        rows = [
            ("instances", f"{self.instances}{levels}"),
            ("leaves", f"{self.leaves}, {self.hidden} of them hidden"),
            ("primitives", f"{self.primitives}, {self.shown} shown, {self.stored} stored"),
            ("depth", f"{self.depth}"),
            ("memory", f"{_size(self.bytes)}, and {_size(self.instance_bytes)} of instances"),
            ("trees", f"{len(self.trees)}"),
        ]
        lines = [f"{name:<16}{text}" for name, text in rows]
        return "\n".join([*lines, *self.tree_lines()])

    def tree_lines(self) -> list[str]:
        """Return the lines of a table of the trees, with its head first; none without trees.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> ids = scene.add(mesh), scene.add(mesh)
        >>> [line.split() for line in scene.stats().tree_lines()][0]
        ['tree', 'leaves', 'primitives', 'depth', 'SAH', 'cost', 'memory', 'build']
        """
        heads = ("tree", "leaves", "primitives", "depth", "SAH cost", "memory", "build")
        table: list[tuple[str, ...]] = [heads]
        for k, (tree, placed) in enumerate(zip(self.trees, self.placed, strict=True)):
            counts = map(str, (k, placed, tree.primitives, tree.depth))
            cost = (f"{tree.sah_cost:.4g}", _size(tree.bytes), f"{tree.build_seconds:.3g} s")
            table.append((*counts, *cost))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return ["  ".join(map(str.rjust, line, widths)) for line in table] if self.trees else []


def scene_stats(scene: Any) -> SceneStats:
    """Return the statistics of a `Scene`."""
    arrays, leaves, parts = scene._current().arrays, scene.leaves, nested_scenes(scene)
    trees = tuple(tree.stats() for tree in leaves.trees)
    placed = np.bincount(leaves.tree_of, minlength=len(trees))
    sizes = np.array([tree.primitives for tree in trees], np.int64)
    hidden = leaves.masks == 0
    # A leaf's tree begins one level below the node of the TLAS with the leaf's box in a lane.
    lanes = lanes_of(arrays.nodes.data)
    nodes_with_leaves = np.nonzero(lanes.leaf)[0]
    levels_above = int(wide_levels(lanes)[nodes_with_leaves].max(initial=-1)) + 1
    return SceneStats(
        instances=len(scene),
        levels=depth_of(parts),
        leaves=len(leaves),
        hidden=int(np.count_nonzero(hidden)),
        primitives=int((placed * sizes).sum()),
        shown=int(sizes[leaves.tree_of[~hidden]].sum()),
        stored=int(sizes.sum()),
        depth=levels_above + max((tree.depth for tree in trees), default=0),
        bytes=sum(tree.nbytes for tree in leaves.trees),
        instance_bytes=scene.view().nbytes,
        trees=trees,
        placed=tuple(placed.tolist()),
    )


def _size(count: int) -> str:
    """Return a number of bytes as text in MiB."""
    return f"{count / 2**20:.2f} MiB"
