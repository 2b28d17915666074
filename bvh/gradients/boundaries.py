"""Derivatives of winding numbers, for arrays of NumPy, PyTorch and JAX alike.

A surface that moves changes its solid angle by the area that its boundary sweeps, as seen from the
point. Of an edge from a to b, both relative to the point, with n = b x a, that is

    (da . n / abs(a) + db . n / abs(b)) / (abs(a) abs(b) + a . b),

where da and db are the moves of its ends less that of the point (the law of Biot and Savart). With
a . b < 0 the divisor is n . n / (abs(a) abs(b) - a . b). There is no derivative on the edge: 0.
"""

import math

from bvh.gradients.formulas import cross, dot, largest, times


def _slopes(lib, points, ends, numbers):
    """Return the derivatives of winding numbers (...,) by the ends of edges (k, 2, 3)."""
    # Rows (..., k, 3) for the first ends, and for the second ones.
    xp = lib.xp
    seen = xp.isfinite(numbers)[..., None, None]
    start = xp.where(seen, points[..., None, :], 0.0)
    a, b, edge = ends[:, 0] - start, ends[:, 1] - start, ends[:, 1] - ends[:, 0]
    size = lib.fixed(xp.maximum(largest(lib, a), largest(lib, b)))[..., None]
    scale = xp.where(size > 0.0, size, 1.0)
    a, b = a / scale, b / scale
    n = cross(lib, edge / scale, a)
    square, along = dot(n, n), dot(a, b)
    usable = (square > 0.0) & seen[..., 0]

    def length(v):
        """Return the lengths of vectors, 1 where there is no derivative."""
        return xp.sqrt(xp.where(usable, dot(v, v), 1.0))

    first, last = length(a), length(b)
    ahead = along >= 0.0
    above = xp.where(ahead & usable, first * last + along, 1.0)
    below = xp.where(ahead | ~usable, 1.0, first * last - along)
    by = xp.where(ahead, 1.0 / above, below / xp.where(usable, square, 1.0))
    by = xp.where(usable, by, 0.0) / (4.0 * math.pi)
    return tuple(lib.bounded(times(by / far, n) / scale, 1) for far in (first, last))


def pull_winding(lib, points, ends, numbers, slopes):
    """Return the gradients of points and of the ends of edges by those of winding numbers."""
    first, last = _slopes(lib, points, ends, numbers)
    of_points = -times(slopes, (first + last).sum(-2))
    weights, count = slopes[..., None, None], math.prod(slopes.shape)
    parts = [(weights * rows).reshape((count, *rows.shape[-2:])).sum(0) for rows in (first, last)]
    return of_points, lib.xp.stack(parts, -2)


def push_winding(lib, points, ends, numbers, moved_points, moved_ends):
    """Return how winding numbers change where points and the ends of edges move."""
    first, last = _slopes(lib, points, ends, numbers)
    moves = moved_points[..., None, :]
    change = dot(first, moved_ends[:, 0] - moves) + dot(last, moved_ends[:, 1] - moves)
    return change.sum(-1)
