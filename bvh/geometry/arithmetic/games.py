"""Matrix games: weights of the rows of small matrices that make the sums of columns equal."""

from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


@cache
def choices(count: int, size: int) -> NDArray[np.int64]:
    """Return all choices of some of a number of things, one in a row."""
    return np.array(list(combinations(range(count), size)))


def equaliser(games: Reals) -> Reals:
    """Return weights of the rows of matrices (..., k, k) that make the sums of columns equal.

    They are at least 0, and add up to 1; if there are none, any such weights.
    """
    size, last = games.shape[-1], games[..., 1:] - games[..., :1]
    others = choices(size, size - 1)[::-1]
    weights = np.stack(
        [(-1) ** k * _determinant(last[..., others[k], :]) for k in range(size)], axis=-1
    )
    with np.errstate(all="ignore"):
        weights = np.maximum(weights / weights.sum(axis=-1, keepdims=True), 0.0)
        weights /= weights.sum(axis=-1, keepdims=True)
    found: Reals = np.where(np.isfinite(weights).all(axis=-1, keepdims=True), weights, 1.0 / size)
    return found


def _determinant(m: Reals) -> Reals:
    """Return the determinants of matrices (..., k, k), k up to 3."""
    if m.shape[-1] == 1:
        return np.asarray(m[..., 0, 0])
    minors = [
        m[..., 0, i] * _determinant(m[..., 1:, [j for j in range(m.shape[-1]) if j != i]])
        for i in range(m.shape[-1])
    ]
    return np.asarray(sum((-1) ** i * minor for i, minor in enumerate(minors)))
