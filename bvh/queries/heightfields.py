"""Height fields: heights on a grid of rows and columns as triangles, numbered by cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.io.meshes import Surface
from bvh.runtime.arguments import MAX_PRIMITIVES, reals


def surface_of_heights(z: Any, x: ArrayLike | None, y: ArrayLike | None, transform: Any) -> Surface:
    """Return the triangles of a height field, and the cell of each."""
    if hasattr(z, "dims") and hasattr(z, "coords"):
        # An array of xarray, by the coordinates of its axes.
        rows, columns = z.dims if len(z.dims) == 2 else (None, None)
        if transform is None and x is None and y is None and columns in z.coords:
            x, y = z.coords[columns], z.coords.get(rows, None)
        z = z.data
    heights = reals("z", np.ma.filled(z, np.nan) if np.ma.isMaskedArray(z) else z)
    if heights.ndim != 2 or min(heights.shape) < 2:
        raise ValueError(f"z must have shape (rows, columns), at least (2, 2), got {heights.shape}")
    count, width = heights.shape
    if 2 * (count - 1) * (width - 1) > MAX_PRIMITIVES:
        raise ValueError(f"z must have at most {MAX_PRIMITIVES // 2} cells, got {heights.shape}")
    vertices = np.empty((count, width, 3))
    if transform is not None:
        if x is not None or y is not None:
            raise ValueError("transform must not be given together with x or y")
        a, b, c, d, e, f = reals("transform", list(transform)[:6])
        column, row = np.arange(width) + 0.5, np.arange(count)[:, None] + 0.5
        vertices[..., 0], vertices[..., 1] = a * column + b * row + c, d * column + e * row + f
        upward = a * e - b * d > 0.0
    else:
        across, along = _axis("x", x, width), _axis("y", y, count)
        vertices[..., 0], vertices[..., 1] = across, along[:, None]
        upward = (across[-1] > across[0]) == (along[-1] > along[0])
    vertices[..., 2] = heights
    corner = np.arange(count * width, dtype=np.int32).reshape(count, width)
    a, b, c, d = corner[:-1, :-1], corner[:-1, 1:], corner[1:, 1:], corner[1:, :-1]
    halves = (a, b, c, a, c, d) if upward else (a, c, b, a, d, c)
    faces = np.stack(halves, axis=2).reshape(-1, 3)
    cells = np.repeat(np.arange(len(faces) // 2, dtype=np.int32), 2)
    return Surface(vertices.reshape(-1, 3), faces, cells)


def _axis(name: str, given: ArrayLike | None, size: int) -> NDArray[np.float64]:
    """Return the coordinates of the rows or columns."""
    if given is None:
        return np.arange(size, dtype=np.float64)
    found = reals(name, np.asarray(given))
    steps = np.diff(found) if found.shape == (size,) else np.zeros(1)
    if not ((steps > 0.0).all() or (steps < 0.0).all()):
        raise ValueError(f"{name} must be {size} numbers that rise or fall, got {found.shape}")
    return found
