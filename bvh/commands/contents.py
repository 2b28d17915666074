"""What trees and scenes hold, in a few words."""

from __future__ import annotations

from typing import Any

import numpy as np

from bvh.scene import Scene


def content_of(source: Any) -> str:
    """Return what a tree or a scene holds, in a few words."""
    if not isinstance(source, Scene):
        return f"{len(source)} {source.kind}"
    leaves = source.leaves
    counts = np.array([len(tree) for tree in leaves.trees], np.int64)
    kinds = {tree.kind for tree in leaves.trees}
    what = kinds.pop() if len(kinds) == 1 else "primitives"
    stored = f"{counts.sum()} {what} in {len(counts)} trees"
    return f"{len(source)} instances, {counts[leaves.tree_of].sum()} {what}; {stored}"
