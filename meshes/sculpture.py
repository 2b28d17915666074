"""The surface of `organic` with edges that follow its ridges, for pictures.

The grid of `organic` runs across the ridges, which then have teeth in light. Here the edge of two
faces is flipped where both new faces agree better with the normals of their corners: the vertices
and the number of faces stay the same, and the surface is closed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .organic import organic
from .shapes import Mesh

SWEEPS = 8
# Least gain of a flip, in cosines, and the least cosines between a new face and the old ones
# together, and between both new faces.
LEAST, ALIKE, FLAT = 1e-4, 0.3, 0.2


def sculpture(frequency: int = 51) -> Mesh:
    """Return the sculpture of ``20 * frequency**2`` triangles."""
    points, faces = organic(frequency)
    for _ in range(SWEEPS):
        _flip(points, faces)
    return points, faces


def _flip(points: NDArray[np.float64], faces: NDArray[np.int64]) -> None:
    """Flip the edges with the largest gain of both of their faces, in place."""
    normals, across = np.zeros_like(points), _across(points, faces)
    for corner in faces.T:
        np.add.at(normals, corner, across)
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    # Both sides of each edge, from a to b, with the corners c and d opposite.
    start, end = faces.ravel(), faces[:, [1, 2, 0]].ravel()
    keys = np.minimum(start, end) * len(points) + np.maximum(start, end)
    order = np.argsort(keys, kind="stable").reshape(-1, 2)
    edges = keys[order[:, 0]]
    face, (a, b) = order // 3, (start[order[:, 0]], end[order[:, 0]])
    c, d = (faces[face[:, k], (order[:, k] + 2) % 3] for k in (0, 1))
    first, second = np.stack([c, a, d], axis=1), np.stack([d, b, c], axis=1)
    old, one, two = _unit(across), _unit(_across(points, first)), _unit(_across(points, second))
    gain = _fit(one, normals[first]) + _fit(two, normals[second])
    gain -= _fit(old, normals[faces])[face].sum(axis=1)
    together = old[face].sum(axis=1)
    new = np.minimum(c, d) * len(points) + np.maximum(c, d)
    good = (gain > LEAST) & ((one * two).sum(axis=1) > FLAT)
    good &= ((one * together).sum(axis=1) > ALIKE) & ((two * together).sum(axis=1) > ALIKE)
    # The new edge must not be an edge already.
    place = np.searchsorted(edges, new[good])
    good[good] = edges[np.minimum(place, len(edges) - 1)] != new[good]
    # A face has one flip in a sweep, and a new edge comes once.
    order = np.flatnonzero(good)[np.argsort(-gain[good], kind="stable")]
    best = np.full(len(faces), len(order))
    np.minimum.at(best, face[order].ravel(), np.arange(len(order)).repeat(2))
    rows = order[(best[face[order]] == np.arange(len(order))[:, None]).all(axis=1)]
    rows = rows[np.unique(new[rows], return_index=True)[1]]
    faces[face[rows, 0]], faces[face[rows, 1]] = first[rows], second[rows]


def _across(points: NDArray[np.float64], faces: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the normals of faces, twice as long as their areas."""
    a, b, c = points[faces.T]
    (x, y, z), (u, v, w) = (b - a).T, (c - a).T
    return np.stack([y * w - z * v, z * u - x * w, x * v - y * u], axis=1)


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return vectors of length one."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1)[:, None])


def _fit(normal: NDArray[np.float64], corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of cosines between a face's normal and those of its corners."""
    return np.asarray((normal[:, None] * corners).sum(axis=(1, 2)))
