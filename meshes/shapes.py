"""Boxes, grids, lathes and sweeps: the parts the generators put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Mesh = tuple[NDArray[np.float64], NDArray[np.int64]]


def merged(parts: Iterable[Mesh]) -> Mesh:
    """Return all parts as one mesh; vertices stay apart, so seams between parts stay open."""
    vertices: list[NDArray[np.float64]] = [np.zeros((0, 3))]
    faces: list[NDArray[np.int64]] = [np.zeros((0, 3), dtype=np.int64)]
    count = 0
    for points, triangles in parts:
        vertices.append(points)
        faces.append(triangles + count)
        count += len(points)
    return np.concatenate(vertices), np.concatenate(faces)


def moved(mesh: Mesh, offset: ArrayLike, turn: float = 0.0, scale: float = 1.0) -> Mesh:
    """Return the mesh scaled, turned by ``turn`` degrees about z, then moved by ``offset``."""
    vertices, faces = mesh
    angle = np.radians(turn)
    c, s = round(float(np.cos(angle)), 15), round(float(np.sin(angle)), 15)
    matrix = scale * np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    matrix[2, 2] = scale
    return vertices @ matrix.T + np.asarray(offset, dtype=np.float64), faces


def mirrored(mesh: Mesh, axis: int) -> Mesh:
    """Return the mesh with one coordinate negated, its winding turned over to match."""
    signs = np.ones(3)
    signs[axis] = -1.0
    return mesh[0] * signs, mesh[1][:, ::-1].copy()


def rectangle(corner: ArrayLike, first: ArrayLike, second: ArrayLike) -> Mesh:
    """Return two triangles spanning a parallelogram; they face ``first`` × ``second``."""
    a = np.asarray(corner, dtype=np.float64)
    u, v = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return np.stack([a, a + u, a + u + v, a + v]), np.array([[0, 1, 2], [0, 2, 3]])


def box(low: Sequence[float], high: Sequence[float]) -> Mesh:
    """Return the closed box between two corners, 12 triangles facing out."""
    ends = np.array([low, high], dtype=np.float64)
    picks = np.array([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(8)])
    quads = np.array(
        [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    )
    return ends[picks, np.arange(3)], quads[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)


def grid(points: NDArray[np.float64], closed: bool = False) -> Mesh:
    """Return two triangles for every cell of a grid of points.

    Parameters
    ----------
    points
        Shape ``(rows, columns, 3)``. Triangles face (down the rows) × (along the columns).
    closed
        Whether the last column joins the first one again.
    """
    rows, columns = points.shape[:2]
    number = np.arange(rows * columns).reshape(rows, columns)
    right = np.roll(number, -1, axis=1)
    cells = slice(None) if closed else slice(0, -1)
    a, b = number[:-1, cells], number[1:, cells]
    c, d = right[1:, cells], right[:-1, cells]
    faces = np.stack([a, b, c, a, c, d], axis=-1).reshape(-1, 3)
    return points.reshape(-1, 3), faces


def lathe(profile: ArrayLike, segments: int, flutes: int = 0, depth: float = 0.0) -> Mesh:
    """Return a profile turned about the z axis.

    Parameters
    ----------
    profile
        Rows ``(radius, height)``; upwards means facing out.
    segments
        Number of sides.
    flutes, depth
        Number of grooves around, and the share of the radius each takes away. Grooves keep
        sharp edges between them when ``segments`` is a multiple of ``2 * flutes``.
    """
    radius, height = np.asarray(profile, dtype=np.float64).T
    angle = 2.0 * np.pi * np.arange(segments) / segments
    groove = 1.0 - depth * np.abs(np.sin(flutes * angle / 2.0))
    points = np.empty((len(radius), segments, 3))
    points[..., 0] = radius[:, None] * np.cos(angle) * groove
    points[..., 1] = radius[:, None] * np.sin(angle) * groove
    points[..., 2] = height[:, None]
    # Run from the top down: rows × columns then points away from the axis.
    vertices, faces = grid(points[::-1], closed=True)
    corners = vertices[faces]
    flat = (corners == np.roll(corners, 1, axis=1)).all(axis=2).any(axis=1)
    return vertices, faces[~flat]


def arc(segments: int, start: float = 0.0, stop: float = 180.0) -> NDArray[np.float64]:
    """Return ``segments + 1`` points ``(cos, sin)`` of the unit circle between two angles."""
    angle = np.radians(np.linspace(start, stop, segments + 1))
    return np.column_stack([np.cos(angle), np.sin(angle)])
