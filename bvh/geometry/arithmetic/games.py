"""Matrix games: equalising strategies, the weights of rows that make all column sums equal."""

from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


@cache
def choices(count: int, size: int) -> NDArray[np.int64]:
    """Return all sets of `size` of the indices 0..count-1, one a row, in lexicographic order."""
    return np.array(list(combinations(range(count), size)))


def equaliser(games: Reals) -> Reals:
    """Return weights (..., k), for the rows of matrices (..., k, k), that equalise column sums.

    Weights are at least 0 and add up to 1. Where no such weights make all weighted sums of columns
    equal, up to rounding, others are returned: callers may only rely on sign and sum. k is 2 to 4.
    """
    # Cramer's rule: the weight of a row is the signed minor, without that row, of the differences
    # of all other columns from the first one. Set k of the reversed choices lacks row k.
    size, differences = games.shape[-1], games[..., 1:] - games[..., :1]
    minors = differences[..., choices(size, size - 1)[::-1], :]
    weights = _determinants(minors) * np.resize([1.0, -1.0], size)
    with np.errstate(all="ignore"):
        weights = np.maximum(weights / weights.sum(axis=-1, keepdims=True), 0.0)
        weights /= weights.sum(axis=-1, keepdims=True)
    valid = np.isfinite(weights).all(axis=-1, keepdims=True)
    return np.asarray(np.where(valid, weights, 1.0 / size))


def _determinants(matrices: Reals) -> Reals:
    """Return the determinants of matrices (..., k, k), k up to 3."""
    m = np.moveaxis(matrices, (-2, -1), (0, 1))
    if len(m) == 1:
        return np.asarray(m[0, 0])
    if len(m) == 2:
        return np.asarray(m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0])
    first = m[0, 0] * (m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1])
    second = m[0, 1] * (m[1, 2] * m[2, 0] - m[1, 0] * m[2, 2])
    return np.asarray(first + second + m[0, 2] * (m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0]))
