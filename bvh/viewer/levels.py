"""The boxes of trees, level by level, and their edges as lines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvh.arrays import TreeArrays
from bvh.quality import wide_levels
from bvh.wide_nodes import lanes_of

Floats = NDArray[np.float64]

# Bit k of a corner's number tells the upper end of axis k; an edge joins two that differ in one.
EDGES = np.array([(a, a | 1 << k) for k in range(3) for a in range(8) if not a >> k & 1])


class BoxLevels:
    """The boxes of a tree's nodes, as rays meet them: level 0 is the box around all.

    Level k + 1 holds the boxes of all children of the nodes of level k, so each level holds the
    leaves that end there, too, but none that have ended before.

    Parameters
    ----------
    arrays : TreeArrays

    Attributes
    ----------
    depth : int
        The last level; -1 if the tree is empty.
    """

    def __init__(self, arrays: TreeArrays) -> None:
        self._lanes = lanes_of(arrays.nodes.blocks)
        self._levels = wide_levels(self._lanes)
        self._centre, self._k = arrays.frame[0], int(arrays.frame[1, 0])
        self.depth = int(self._levels.max()) + 1 if len(self._levels) else -1

    def boxes(self, level: int) -> Floats:
        """Return the lower and upper corners of a level's boxes, in the tree's coordinates.

        Parameters
        ----------
        level : int

        Returns
        -------
        ndarray, shape (n, 2, 3)
            As the nodes hold them: rounded outward to float32 in the tree's own frame.
        """
        used = self._lanes.inner | self._lanes.leaf
        used = used & (self._levels == max(level - 1, 0))[:, None]
        local = np.moveaxis(self._lanes.boxes, 1, 2)[used].reshape(-1, 2, 3).astype(np.float64)
        if level == 0 and len(local):
            local = np.stack([local[:, 0].min(axis=0), local[:, 1].max(axis=0)])[None]
        return np.asarray(np.ldexp(local, -self._k) + self._centre)


def largest(boxes: Floats, most: int) -> Floats:
    """Return the boxes of largest surface, in their order, where there are more than so many."""
    if len(boxes) <= most:
        return boxes
    x, y, z = np.moveaxis(boxes[:, 1] - boxes[:, 0], 1, 0)
    kept = np.argpartition(-(x * y + y * z + z * x), most)[:most]
    return boxes[np.sort(kept)]


def corners_of(boxes: Floats) -> Floats:
    """Return the corners of boxes (n, 2, 3), shape (n, 8, 3)."""
    upper = (np.arange(8)[:, None] >> np.arange(3) & 1).astype(bool)
    return np.where(upper, boxes[:, 1:2], boxes[:, 0:1])


def edges_of(corners: Floats) -> Floats:
    """Return the edges of boxes with such corners (n, 8, 3), as lines (12 n, 2, 3)."""
    return corners[:, EDGES].reshape(-1, 2, 3)
