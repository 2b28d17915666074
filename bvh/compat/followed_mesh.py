"""`FollowedMesh`: the tree over a mesh of another library that may change between queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bvh.queries.hierarchy import BVH


class FollowedMesh:
    """A tree that is built on first use, refitted where only vertices moved, else built again.

    `stamps` returns what changes with the vertices of a mesh, and what changes with its faces;
    `vertices` those to refit the tree to. Without it, every change builds a tree.
    """

    def __init__(
        self, stamps: Callable[[Any], tuple[Any, Any]], build: Callable[[Any], BVH],
        vertices: Callable[[Any], Any] | None = None,
    ) -> None:  # fmt: skip
        self._stamps, self._build, self._vertices = stamps, build, vertices
        self._state: tuple[tuple[Any, Any], BVH] | None = None

    def tree_of(self, mesh: Any) -> BVH:
        """Return the tree over the mesh as it is now."""
        stamps, state = self._stamps(mesh), self._state
        if state is None or state[0] != stamps:
            # Two threads may both build the same tree.
            tree = state[1] if state and state[0][1] == stamps[1] else None
            if tree is None or not self._refitted(tree, mesh):
                tree = self._build(mesh)
            state = self._state = stamps, tree
        return state[1]

    def _refitted(self, tree: BVH, mesh: Any) -> bool:
        """Refit the tree, unless faces that were not finite have no place in it."""
        points: Any = None if self._vertices is None else self._vertices(mesh)
        fits = points is not None and len(points) == len(tree.vertices)
        if fits and np.isfinite(tree.vertices).all():
            tree.refit(points)
            return True
        return False
