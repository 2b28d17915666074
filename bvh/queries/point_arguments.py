"""Batches of query points: checked, flat, with their limits."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.runtime.arguments import common_shape, kernel_input, points, reals


class PointBatch(NamedTuple):
    """Points as kernels take them, flat, and their leading shape.

    `limits` has the largest distance for each point, or a single one for all.
    """

    points: NDArray[np.float64]
    limits: NDArray[np.float64]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(self.shape)


def point_batch(positions: ArrayLike, max_distance: ArrayLike = np.inf) -> PointBatch:
    """Check and flatten points; broadcast the limits of their distances."""
    rows, limits = points("points", positions), reals("max_distance", max_distance)
    shape = common_shape(points=rows.shape[:-1], max_distance=limits.shape)
    flat = kernel_input(np.broadcast_to(rows, (*shape, 3)).reshape(-1, 3))
    if limits.size == 1:
        return PointBatch(flat, kernel_input(limits.reshape(1)), shape)
    return PointBatch(flat, kernel_input(np.broadcast_to(limits, shape).reshape(-1)), shape)
