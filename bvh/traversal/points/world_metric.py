"""The world metric of an instance: how lengths in its tree compare with lengths in the world.

A point q and a vertex v in the local frame of a tree (see `nodes`), whose map has the linear part
L, are |L (q - v)| * 2**-k apart in the world. K = L * 2**-e has entries of at most 1, so the
*stretched* distance |K (q - v)| is that of the world times the scale 2**(k - e). With n the lengths
of K's columns,

    |K v| <= n[0] |v[0]| + n[1] |v[1]| + n[2] |v[2]|,

which bounds the effect of errors of coordinates. Boxes have a distance of components x, y, z along
the axes of the tree, for which

    |K v|**2 >= w[0] x**2 + w[1] y**2 + w[2] z**2,    w[i] = n[i]**2 * lambda,

where lambda is the least eigenvalue of the matrix of cosines between the columns. It is 1 where
they are at right angles: for rotations and reflections, after any scaling along the axes. Shear
makes it smaller, and the bound looser (where it matters, `world_distances` uses another). The
eigenvalues of the cosines are
1 + 2 sqrt(p) cos(angle), accurate to far better than 2**-20, which is subtracted.

The rounding of a moved vertex, 2**-53 of its coordinates, is stretched here, too.
"""

from __future__ import annotations

import math

from bvh.geometry.arithmetic.floats import exponent, power_of_two
from bvh.runtime.jit import entry, inlined
from bvh.tree.frame import exponent as exponent_of
from bvh.tree.frame import farthest

# A leaf's row: K by rows; w; n; the scale, 0 where float64 over- or underflows; a bound of the
# rounding of vertices; lambda.
ROWS, WEIGHTS, LENGTHS, SCALE, ROUNDING, LEAST, METRIC_SIZE = 0, 9, 12, 15, 16, 17, 20

# Scales, and lengths of columns beside 1, within which nothing over- or underflows.
MAX_EXPONENT, MIN_LENGTH, MIN_WEIGHT = 900, 2.0**-300, 2.0**-100


@inlined
def _least_eigenvalue(a, b, c):
    """Return a lower bound of the eigenvalues of a matrix with unit diagonal and a, b, c off it."""
    p = (a * a + b * b + c * c) / 3.0
    least = 1.0
    if p > 0.0:
        root = math.sqrt(p)
        angle = math.acos(min(max(a * b * c / (p * root), -1.0), 1.0)) / 3.0
        least += 2.0 * root * math.cos(angle + 2.0 * math.pi / 3.0)
    return max(least * (1.0 - 2.0**-20) - 2.0**-20, 0.0)


@entry
def fill_metrics(rows, maps, frames, tree_of, out):
    """Fill the rows of the leaves `rows`.

    Parameters
    ----------
    rows : ndarray of int64
    maps : ndarray of float64, shape (n, 3, 4)
    frames : ndarray of float64, shape (m, 4, 3)
        Of the trees.
    tree_of : ndarray of int32, shape (n,)
        The tree of each leaf.
    out : ndarray of float64, shape (n, METRIC_SIZE)
    """
    for i in rows:
        m, frame, row = maps[i], frames[tree_of[i]], out[i]
        size = 0.0
        for r in range(3):
            for column in range(3):
                size = max(size, abs(m[r, column]))
        e = exponent(size) + 1
        shift, s = exponent_of(frame) - e, power_of_two(-e)
        for r in range(3):
            for column in range(3):
                row[ROWS + 3 * r + column] = m[r, column] * s
        least = 1.0
        for column in range(3):
            x, y, z = row[ROWS + column], row[ROWS + 3 + column], row[ROWS + 6 + column]
            row[LENGTHS + column] = math.sqrt(x * x + y * y + z * z)
            least = min(least, row[LENGTHS + column])
        row[SCALE] = 0.0
        if least < MIN_LENGTH or abs(e) > MAX_EXPONENT or abs(shift) > MAX_EXPONENT:
            continue
        cosines = (0.0, 0.0, 0.0)
        for column in range(3):
            other = (column + 1) % 3
            product = 0.0
            for r in range(3):
                product += (row[ROWS + 3 * r + column] / row[LENGTHS + column]) * (
                    row[ROWS + 3 * r + other] / row[LENGTHS + other]
                )
            cosines = (cosines[1], cosines[2], product)
        eigenvalue = _least_eigenvalue(cosines[0], cosines[1], cosines[2])
        row[LEAST] = eigenvalue
        rounding = 0.0
        for axis in range(3):
            weight = eigenvalue * row[LENGTHS + axis] * row[LENGTHS + axis]
            # Denormal float32 numbers have no relative precision.
            row[WEIGHTS + axis] = weight if weight > MIN_WEIGHT else 0.0
            far = abs(m[axis, 0]) + abs(m[axis, 1]) + abs(m[axis, 2])
            rounding += (far * farthest(frame) + abs(m[axis, 3])) * 2.0**-53 + 2.0**-1074
        scale = power_of_two(shift)
        row[ROUNDING] = rounding * scale * (1.0 + 2.0**-20)
        if row[ROUNDING] < 2.0**100:
            row[SCALE] = scale
