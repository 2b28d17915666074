"""Splits of a large mesh into parts: binned SAH over a grid of centroids.

A grid counts the triangles whose centroids lie in each of its cells, and has the box of those
triangles. Bins of the surface area heuristic are slabs of cells, so that all splits down to the
cells are chosen from one pass over the triangles.
"""

import numpy as np
from numpy.typing import NDArray

# Cells along each axis.
CELLS = 64


class Grid:
    """Counts and boxes of triangles by the cell that their centroid is in.

    `counts`, `low` and `high`, the lower and upper corners of boxes, have a row for each cell; z
    varies fastest.
    """

    def __init__(self, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> None:
        """Begin without triangles; `lower` and `upper` (3,) are corners of the box of centroids."""
        self._lower = lower
        # Halved first: the extent of coordinates of 1e308 would overflow.
        self._half = 0.5 * upper - 0.5 * lower
        self.counts = np.zeros(CELLS**3, np.int64)
        self.low = np.full((CELLS**3, 3), np.inf)
        self.high = np.full((CELLS**3, 3), -np.inf)

    def cells_of(self, corners: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the number (n,) of the cell of each triangle, with vertices `corners` (n, 3, 3).

        A coordinate of a centroid that is not finite counts as the lowest.
        """
        with np.errstate(all="ignore"):
            place = (0.5 * centroids(corners) - 0.5 * self._lower) / self._half
            place *= CELLS
            place[~np.isfinite(place)] = 0.0
        x, y, z = np.clip(place, 0, CELLS - 1, out=place).astype(np.int64).T
        return np.asarray((x * CELLS + y) * CELLS + z)

    def add(self, corners: NDArray[np.float64]) -> None:
        """Count triangles, whose vertices are `corners` (n, 3, 3), and extend boxes of cells."""
        cells = self.cells_of(corners)
        order = np.argsort(cells.astype(np.int32), kind="stable")
        used, starts, counts = np.unique(cells[order], return_index=True, return_counts=True)
        self.counts[used] += counts
        low, high = (box[order] for box in _boxes(corners))
        self.low[used] = np.fmin(self.low[used], np.fmin.reduceat(low, starts))
        self.high[used] = np.fmax(self.high[used], np.fmax.reduceat(high, starts))


def centroids(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the centres (n, 3) of the boxes of triangles (n, 3, 3), by which builders split."""
    # Halved first, so that no sum overflows.
    low, high = _boxes(corners)
    low *= 0.5
    high *= 0.5
    return np.add(low, high, out=low)


def _boxes(corners: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (lower, upper) corners (n, 3) of the boxes of triangles (n, 3, 3), NaN for NaN."""
    # This is much faster than a reduction along an axis of length three.
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    return np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)


# A block of cells: its range along each axis, by which it indexes arrays of the grid.
_Block = tuple[slice, ...]


def parts_of_cells(grid: Grid, largest: int) -> NDArray[np.int32]:
    """Return the part that each cell of a grid belongs to, numbered from 0 in the order of splits.

    Parts have at most `largest` triangles, except those of a single cell.
    """
    counts = grid.counts.reshape(CELLS, CELLS, CELLS)
    low, high = (array.reshape(CELLS, CELLS, CELLS, 3) for array in (grid.low, grid.high))
    parts, number = np.zeros((CELLS,) * 3, np.int32), 0
    stack: list[_Block] = [(slice(0, CELLS),) * 3]
    while stack:
        block = stack.pop()
        halves = None
        if counts[block].sum() > largest:
            halves = _best_cut(block, counts, low, high, largest)
        if halves is None:
            parts[block] = number
            number += 1
        else:
            # The first half is taken next.
            stack += reversed(halves)
    return parts.reshape(-1)


def _best_cut(
    block: _Block, counts: NDArray[np.int64], low: NDArray[np.float64], high: NDArray[np.float64],
    largest: int,
) -> tuple[_Block, _Block] | None:  # fmt: skip
    """Return the halves of a block with the least SAH cost; None if one cell has all triangles.

    `counts`, `low` and `high` are those of the grid, indexed by (x, y, z). Halves with less than a
    quarter of `largest` triangles are avoided: a part costs as much as many nodes.
    """
    total = int(counts[block].sum())
    # Whether a half is small, the cost, the axis, and the last slab of the first half.
    best: tuple[bool, float, int, int] | None = None
    for axis in range(3):
        others = tuple(a for a in range(3) if a != axis)
        # Bins are slabs of cells; `below` has the triangles before each cut between two slabs.
        bins = counts[block].sum(axis=others)
        below = np.cumsum(bins)[:-1]
        if len(below) == 0:
            continue
        lows, highs = low[block].min(axis=others), high[block].max(axis=others)
        with np.errstate(over="ignore"):
            cost = _areas(lows, highs)[:-1] * below
            cost += _areas(lows[::-1], highs[::-1])[::-1][1:] * (total - below)
        smaller = np.minimum(below, total - below)
        is_small = smaller < min(largest, total) // 4
        for cut in np.flatnonzero(smaller > 0).tolist():
            # If all cuts have a small half, take the most even one.
            key = bool(is_small[cut]), float(-smaller[cut] if is_small[cut] else cost[cut])
            if best is None or (*key, axis, cut) < best:
                best = *key, axis, cut
    if best is None:
        return None
    *_, axis, last = best
    middle = block[axis].start + last + 1
    halves = slice(block[axis].start, middle), slice(middle, block[axis].stop)
    low_half, high_half = ((*block[:axis], half, *block[axis + 1 :]) for half in halves)
    return low_half, high_half


def _areas(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return half the surface areas (n,) of boxes around the first bin, the first two, and so on.

    `low` and `high` (n, 3) are the corners of the boxes of n bins.
    """
    # The box of an empty bin is from inf to -inf.
    with np.errstate(all="ignore"):
        extent = np.maximum.accumulate(high) - np.minimum.accumulate(low)
        x, y, z = np.maximum(extent, 0.0).T
        areas = x * y + y * z + z * x
    return np.asarray(np.nan_to_num(areas, nan=0.0, posinf=np.finfo(float).max))
