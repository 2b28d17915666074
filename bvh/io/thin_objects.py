"""Lines and points of mesh objects, as faces without area; for those that have no other faces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.runtime.arguments import rows

# Vertices, and faces (i, i, i) of points or (i, j, j) of segments.
Thin = tuple[NDArray[np.float64], NDArray[np.int32]]


def thin_of(mesh: Any) -> Thin | None:
    """Return the vertices and faces of an object that has only lines or points; None for others.

    Such are data sets of PyVista (lines, or else vertices or points), `trimesh.PointCloud`, paths
    of trimesh, and Open3D's `PointCloud` and `LineSet`, of both its kinds. A face is a segment of a
    polyline, numbered along all of them, or a point.
    """
    homes = {kind.__module__.partition(".")[0] for kind in type(mesh).__mro__}
    if "pyvista" in homes and not getattr(mesh, "n_blocks", 0):
        return _of_pyvista(mesh)
    name = type(mesh).__name__
    if "open3d" in homes and name in ("PointCloud", "LineSet") and not mesh.is_empty():
        legacy = hasattr(mesh, "points")
        points = mesh.points if legacy else mesh.point["positions"].numpy()
        if name == "PointCloud":
            return faces_of_points(points)
        return _faces_of_lines(points, mesh.lines if legacy else mesh.line["indices"].numpy())
    if "trimesh" in homes and hasattr(mesh, "entities"):
        points = np.asarray(mesh.vertices, np.float64)
        lines = np.concatenate([np.empty((0, 2), int), *(e.nodes for e in mesh.entities)])
        # The points of planar paths have two coordinates.
        flat = np.zeros((len(points), 3 - points.shape[1]))
        return _faces_of_lines(np.hstack([points, flat]), lines)
    if "trimesh" in homes and hasattr(mesh, "vertices") and not hasattr(mesh, "faces"):
        return faces_of_points(mesh.vertices)
    return None


def _of_pyvista(mesh: Any) -> Thin | None:
    """Return the result of `thin_of` for a data set of PyVista."""
    if not hasattr(mesh, "points"):
        return None
    if mesh.n_cells == 0:
        return faces_of_points(mesh.points) if len(mesh.points) else None
    if not hasattr(mesh, "lines") or len(mesh.faces) or mesh.n_strips:
        return None
    steps = list(_steps(np.asarray(mesh.lines)))
    if steps:
        return _faces_of_lines(mesh.points, np.concatenate(steps))
    return faces_of_points(np.asarray(mesh.points)[np.concatenate([*_cells(mesh.verts)])])


def _cells(numbers: NDArray[np.integer]) -> Iterable[NDArray[np.integer]]:
    """Yield the points of each cell in a flat list of VTK, where its length precedes them."""
    at = 0
    while at < len(numbers):
        yield numbers[at + 1 : at + 1 + numbers[at]]
        at += 1 + int(numbers[at])


def _steps(lines: NDArray[np.integer]) -> Iterable[NDArray[np.integer]]:
    """Yield the segments of polylines."""
    for cell in _cells(lines):
        yield np.stack([cell[:-1], cell[1:]], axis=1)


def faces_of_points(points: ArrayLike) -> Thin:
    """Return points with a face for each, of three times the same corner."""
    found = rows("points", points)
    return found, np.repeat(np.arange(len(found), dtype=np.int32)[:, None], 3, axis=1)


def faces_of_segments(p: ArrayLike, q: ArrayLike) -> Thin:
    """Return the ends of segments with a face for each, whose last two corners are one."""
    first, second = rows("p", p), rows("q", q)
    if first.shape != second.shape:
        raise ValueError(f"q must have the shape of p, {first.shape}, got {second.shape}")
    pairs = np.arange(2 * len(first), dtype=np.int32).reshape(-1, 2)
    return np.stack([first, second], axis=1).reshape(-1, 3), pairs[:, [0, 1, 1]]


def _faces_of_lines(points: ArrayLike, lines: ArrayLike) -> Thin:
    """Return points with a face for each line, a pair of their indices."""
    ends = np.asarray(lines).reshape(-1, 2).astype(np.int32)
    return rows("points", points), ends[:, [0, 1, 1]]
