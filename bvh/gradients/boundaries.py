"""Derivatives of winding numbers, for arrays of NumPy, PyTorch and JAX alike.

A surface that moves changes its solid angle by the area that its boundary sweeps, as seen from the
point. Of an edge from a to b, both relative to the point, with n = b x a, that is

    (da . n / abs(a) + db . n / abs(b)) / (abs(a) abs(b) + a . b),

where da and db are the moves of its ends less that of the point (the law of Biot and Savart). With
a . b < 0 the divisor is n . n / (abs(a) abs(b) - a . b). On the edge, where there is none, the
derivative is given as 0.
"""

import math

from bvh.gradients.formulas import Rule, cross, dot, largest, times


def _slopes(lib, points, ends, numbers):
    """Return the derivatives of winding numbers (...,) by the `ends` of open edges (k, 2, 3).

    They are two arrays (..., k, 3), for the first and for the second ends, and 0 where there is no
    derivative: for a point on an edge, and where the winding `numbers` of `points` (..., 3) are not
    finite. `lib` is an `ArrayLibrary`.
    """
    xp = lib.xp
    seen = xp.isfinite(numbers)[..., None, None]
    start = xp.where(seen, points[..., None, :], 0.0)
    a, b, edge = ends[:, 0] - start, ends[:, 1] - start, ends[:, 1] - ends[:, 0]
    # The scale is a constant: results do not depend on it.
    size = lib.fixed(xp.maximum(largest(lib, a), largest(lib, b)))[..., None]
    scale = xp.where(size > 0.0, size, 1.0)
    a, b = a / scale, b / scale
    n = cross(lib, edge / scale, a)
    square, along = dot(n, n), dot(a, b)
    usable = (square > 0.0) & seen[..., 0]

    def length(v):
        """Return the lengths of vectors, 1 where there is no derivative."""
        return xp.sqrt(xp.where(usable, dot(v, v), 1.0))

    length_a, length_b = length(a), length(b)
    # 1 over the divisor of the formula, by the branch that does not cancel: `above` and `below` are
    # abs(a) abs(b) plus and minus a . b.
    ahead = along >= 0.0
    above = xp.where(ahead & usable, length_a * length_b + along, 1.0)
    below = xp.where(ahead | ~usable, 1.0, length_a * length_b - along)
    inverse = xp.where(ahead, 1.0 / above, below / xp.where(usable, square, 1.0))
    factor = xp.where(usable, inverse, 0.0) / (4.0 * math.pi)
    both = (times(factor / r, n) / scale for r in (length_a, length_b))
    return tuple(lib.zero_unless_finite(rows, 1) for rows in both)


def pull_winding(lib, points, ends, numbers, gradients):
    """Return gradients of points, (..., 3), and of `ends` of edges, (k, 2, 3).

    `gradients` has those of the winding `numbers`, (...,); `lib` is an `ArrayLibrary`.
    """
    # A move of the point is the opposite move of both ends of all edges.
    first, last = _slopes(lib, points, ends, numbers)
    by_points = -times(gradients[0], (first + last).sum(-2))
    weights, count = gradients[0][..., None, None], math.prod(numbers.shape)
    by_ends = [(weights * rows).reshape((count, *rows.shape[-2:])).sum(0) for rows in (first, last)]
    return by_points, lib.xp.stack(by_ends, -2)


def push_winding(lib, points, ends, numbers, tangents):
    """Return (tangents of the winding `numbers`, (...,),).

    `tangents` are those of `points`, (..., 3), and of the `ends` of edges, (k, 2, 3); `lib` is an
    `ArrayLibrary`.
    """
    first, last = _slopes(lib, points, ends, numbers)
    moves, moved = tangents[0][..., None, :], tangents[1]
    change = dot(first, moved[:, 0] - moves) + dot(last, moved[:, 1] - moves)
    return (change.sum(-1),)


WINDING_RULE = Rule(pull_winding, push_winding, 2, 1)
