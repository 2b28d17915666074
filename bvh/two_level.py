"""The two levels of a scene as kernels see them: a tree over the boxes of leaves, and their trees.

`Placed` says how a leaf is known, `traversal.scene_entrance` how rays get there; here its rows are
filled. With the local frame x' = (x - c) * 2**k of the top level and x'' = (y - c'') * 2**k'' of a
tree, y = W x for the correctly rounded inverse W of the leaf's map, the way between them is
x'' = A x' + b with A = W * 2**(k'' - k), exact, and b = (W c - c'') * 2**k''.
"""

from __future__ import annotations

import numpy as np

from bvh.affine import determinant_sign, near_sum
from bvh.jit import entry, inlined
from bvh.numerics import power_of_two, scale_by
from bvh.placed import (
    BOUND,
    FLIPS,
    HIGHEST,
    LOWEST,
    NORM,
    SHIFT_ERROR,
    VERTEX_ERROR,
    WAY_SIZE,
)


@entry
def fill_ways(rows, maps, inverses, boxes, frame, frames, tree_of, ways):
    """Fill the ways of the leaves `rows`.

    Parameters
    ----------
    rows : ndarray of int64
    maps, inverses : ndarray of float64, shape (n, 3, 4)
    boxes : ndarray of float64, shape (n, 6)
        Of the leaves, in the world.
    frame : ndarray of float64, shape (4, 3)
        Of the top level.
    frames : ndarray of float64, shape (m, 4, 3)
        Of the trees.
    tree_of : ndarray of int32, shape (n,)
    ways : ndarray of float64, shape (n * WAY_SIZE,)
    """
    for i in rows:
        own = frames[tree_of[i]]
        k = int(own[1, 0])
        shift, scale = k - int(frame[1, 0]), power_of_two(k)
        at = i * WAY_SIZE
        norm, shift_error, vertex_error = 0.0, 0.0, 0.0
        for row in range(3):
            w = (
                inverses[i, row, 0], inverses[i, row, 1], inverses[i, row, 2], inverses[i, row, 3]
            )  # fmt: skip
            c = (frame[0, 0], frame[0, 1], frame[0, 2])
            _, moved = near_sum(w, c)
            total, terms, lost = 0.0, abs(w[3]) + abs(own[0, row]), 0.0
            for axis in range(3):
                entry = scale_by(w[axis], shift)
                ways[at + 4 * row + axis] = entry
                total += abs(entry)
                terms += abs(w[axis] * c[axis])
                reach = max(abs(boxes[i, axis]), abs(boxes[i, 3 + axis]))
                lost += abs(w[axis]) * (2.0**-53 * reach + 2.0**-1074)
            ways[at + 4 * row + 3] = (moved - own[0, row]) * scale
            norm = max(norm, total)
            shift_error = max(shift_error, terms * scale * 2.0**-51)
            vertex_error = max(vertex_error, lost * scale)
        for axis in range(3):
            ways[at + LOWEST + axis] = own[2, axis]
            ways[at + HIGHEST + axis] = own[3, axis]
        ways[at + BOUND] = own[1, 2]
        ways[at + NORM] = norm
        ways[at + SHIFT_ERROR] = shift_error
        ways[at + VERTEX_ERROR] = vertex_error * (1.0 + 2.0**-20)
        ways[at + FLIPS] = 1.0 if _column_sign(maps, i) < 0 else 0.0


@inlined
def _column_sign(maps, i):
    """Return the sign of the determinant of a map."""
    return determinant_sign(
        (maps[i, 0, 0], maps[i, 1, 0], maps[i, 2, 0]),
        (maps[i, 0, 1], maps[i, 1, 1], maps[i, 2, 1]),
        (maps[i, 0, 2], maps[i, 1, 2], maps[i, 2, 2]),
    )
