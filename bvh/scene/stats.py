"""Statistics of a scene: instances, leaves, trees and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bvh.scene.instances import depth_of, nested_scenes
from bvh.scene.scene import Scene
from bvh.tree.stats import TreeStats


@dataclass(frozen=True, repr=False)
class SceneStats:
    """Statistics of a scene; its `str` is a table."""

    # Of the scene itself; a scene of trees has one level.
    instances: int
    levels: int
    # Nested ones included, and those among them that are not visible.
    leaves: int
    hidden: int
    # In all leaves; and in all trees, each of which is stored once.
    primitives: int
    stored: int
    # Memory of the trees, and of the level above them.
    bytes: int
    instance_bytes: int
    # Of each tree of `Scene.leaves`, with the number of its leaves.
    trees: tuple[TreeStats, ...]
    placed: tuple[int, ...]

    def __repr__(self) -> str:
        return (
            f"SceneStats({self.instances} instances, {self.leaves} leaves, {len(self.trees)} trees,"
            f" {self.primitives} primitives, {_size(self.bytes + self.instance_bytes)})"
        )

    def __str__(self) -> str:
        levels = f", {self.levels} levels of scenes" if self.levels > 1 else ""
        rows = [
            ("instances", f"{self.instances}{levels}"),
            ("leaves", f"{self.leaves}, {self.hidden} of them hidden"),
            ("primitives", f"{self.primitives}, {self.stored} of them stored"),
            ("memory", f"{_size(self.bytes)}, and {_size(self.instance_bytes)} of instances"),
            ("trees", f"{len(self.trees)}"),
        ]
        lines = [f"{name:<16}{text}" for name, text in rows]
        heads = ("tree", "leaves", "primitives", "depth", "SAH cost", "memory", "build", "EPO")
        table: list[tuple[str, ...]] = [heads]
        for k, (tree, placed) in enumerate(zip(self.trees, self.placed, strict=True)):
            epo = "" if tree.epo is None else f"{tree.epo:.4g}"
            counts = map(str, (k, placed, tree.primitives, tree.depth))
            cost = (f"{tree.sah_cost:.4g}", _size(tree.bytes), f"{tree.build_seconds:.3g} s", epo)
            table.append((*counts, *cost))
        shown = 8 if any(line[-1] for line in table[1:]) else 7
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for line in table if self.trees else []:
            cells = [text.rjust(width) for text, width in zip(line, widths, strict=True)]
            lines.append("  ".join(cells[:shown]))
        return "\n".join(lines)


def scene_stats(scene: Scene, epo: bool = False) -> SceneStats:
    """Return the statistics of a scene; with `epo`, also that of each tree, which is slow."""
    leaves, parts = scene.leaves, nested_scenes(scene)
    trees = tuple(tree.stats(epo=epo) for tree in leaves.trees)
    placed = np.bincount(leaves.tree_of, minlength=len(trees))
    sizes = np.array([tree.primitives for tree in trees], np.int64)
    return SceneStats(
        instances=len(scene),
        levels=depth_of(parts),
        leaves=len(leaves),
        hidden=int(np.count_nonzero(leaves.masks == 0)),
        primitives=int((placed * sizes).sum()),
        stored=int(sizes.sum()),
        bytes=sum(tree.bytes for tree in trees),
        instance_bytes=_bytes_of(scene._current().arrays),
        trees=trees,
        placed=tuple(placed.tolist()),
    )


def _bytes_of(arrays: Any) -> int:
    """Return the memory of arrays in tuples."""
    if isinstance(arrays, np.ndarray):
        return arrays.nbytes
    return sum(_bytes_of(part) for part in arrays) if isinstance(arrays, tuple) else 0


def _size(count: int) -> str:
    return f"{count / 2**20:.2f} MiB"
