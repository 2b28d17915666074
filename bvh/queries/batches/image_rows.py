"""Rows of an image among the directions of rays that come without a shape."""

import numpy as np
from numpy.typing import NDArray

from bvh.traversal.rays.ray_batch import TILE_WIDTH

# Rays that are looked at: more where a row does not end among fewer. Rows that are then looked at.
SAMPLES, ROWS = (1 << 10, 1 << 12, 1 << 14), 64


def row_length(directions: NDArray[np.float64]) -> int:
    """Return how many rays a row of an image has; 0 where the directions are not those of one.

    In a row the direction moves on by steady small steps; the next row begins with a jump.
    """
    for size in SAMPLES:
        some = directions[:size]
        steps = _steps(some[1:], some[:-1])
        middle = min(len(steps) // 2, 2 * TILE_WIDTH)
        usual = float(np.partition(steps[: 2 * middle + 1], middle)[middle])
        jumps = np.flatnonzero(~((steps < 2.0 * usual) & (steps > 0.5 * usual)))
        if len(jumps) > 1:
            row = int(jumps[0]) + 1
            if not (np.diff(jumps) == row).all():
                return 0
            # The sample may have seen two jumps only.
            last, first = directions[row - 1 :: row][:ROWS], directions[row::row][:ROWS]
            steps = _steps(first, last[: len(first)])
            return 0 if ((steps < 2.0 * usual) & (steps > 0.5 * usual)).any() else row
    return 0


def _steps(after: NDArray[np.float64], before: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of the steps along the axes."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.abs(after - before)
        return np.asarray(steps[:, 0] + steps[:, 1] + steps[:, 2])
