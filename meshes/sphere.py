"""Geodesic spheres of any frequency: closed, outward, every vertex shared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .shapes import Mesh

GOLDEN = (1.0 + 5.0**0.5) / 2.0

CORNERS = np.array(
    [
        (-1, GOLDEN, 0), (1, GOLDEN, 0), (-1, -GOLDEN, 0), (1, -GOLDEN, 0),
        (0, -1, GOLDEN), (0, 1, GOLDEN), (0, -1, -GOLDEN), (0, 1, -GOLDEN),
        (GOLDEN, 0, -1), (GOLDEN, 0, 1), (-GOLDEN, 0, -1), (-GOLDEN, 0, 1),
    ]
)  # fmt: skip

TRIANGLES = np.array(
    [
        (0, 11, 5), (0, 5, 1), (0, 1, 7), (0, 7, 10), (0, 10, 11),
        (1, 5, 9), (5, 11, 4), (11, 10, 2), (10, 7, 6), (7, 1, 8),
        (3, 9, 4), (3, 4, 2), (3, 2, 6), (3, 6, 8), (3, 8, 9),
        (4, 9, 5), (2, 4, 11), (6, 2, 10), (8, 6, 7), (9, 8, 1),
    ]
)  # fmt: skip


def sphere(frequency: int) -> Mesh:
    """Return the unit geodesic sphere of ``20 * frequency**2`` triangles.

    Parameters
    ----------
    frequency
        Number of parts every edge of the icosahedron is cut into.

    Returns
    -------
    vertices, faces
        ``10 * frequency**2 + 2`` points at distance 1 from the origin, and the outward triangles.
    """
    if frequency < 1:
        raise ValueError(f"frequency is {frequency}; it must be 1 or more")
    weights, cells = _lattice(frequency)
    corners = np.broadcast_to(TRIANGLES[:, None, :], (20, len(weights), 3))
    shares = np.broadcast_to(weights, corners.shape)

    # Name a point by the corners that reach it, in ascending order, so that faces agree on edges.
    named = np.where(shares > 0, corners, len(CORNERS))
    order = np.argsort(named, axis=-1)
    named = np.take_along_axis(named, order, axis=-1).reshape(-1, 3)
    shares = np.take_along_axis(shares, order, axis=-1).reshape(-1, 3)
    key = named @ np.array([169, 13, 1]) * (frequency + 1) ** 2
    key += shares @ np.array([frequency + 1, 1, 0])
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)

    padded = np.vstack([CORNERS, np.zeros(3)])
    vertices = (padded[named[first]] * shares[first, :, None]).sum(axis=1)
    vertices /= np.sqrt((vertices * vertices).sum(axis=1, keepdims=True))
    number = inverse.reshape(20, len(weights))
    return vertices, number[:, cells].reshape(-1, 3).astype(np.int64)


def geodesic_sphere(
    frequency: int,
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0),
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Mesh:
    """Return the geodesic sphere squashed by ``scale`` along the axes, then moved by ``offset``.

    An odd number of negative scales turns the winding over, so that it stays outward.
    """
    vertices, faces = sphere(frequency)
    if np.prod(np.sign(scale)) < 0:
        faces = faces[:, ::-1].copy()
    return vertices * np.asarray(scale, dtype=np.float64) + np.asarray(offset, np.float64), faces


def _lattice(frequency: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return barycentric weights of the points of one cut triangle, and its small triangles."""
    rows = np.repeat(np.arange(frequency + 1), np.arange(1, frequency + 2))
    starts = np.arange(frequency + 1) * np.arange(1, frequency + 2) // 2
    along = np.arange(len(rows)) - starts[rows]
    weights = np.column_stack([frequency - rows, rows - along, along])

    # Row r holds r + 1 points; up triangles hang below each of them, down triangles between.
    tops = np.flatnonzero(rows < frequency)
    below = tops + rows[tops] + 1
    up = np.column_stack([tops, below, below + 1])
    left = np.flatnonzero((rows < frequency) & (along < rows))
    down = np.column_stack([left, left + rows[left] + 2, left + 1])
    return weights, np.vstack([up, down])
