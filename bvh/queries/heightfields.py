"""Height fields: heights on a grid of rows and columns, as two triangles for each cell."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.io.meshes import Surface
from bvh.runtime.arguments import MAX_PRIMITIVES, reals

# Names of dimensions that run along x and y.
AXES = {
    "x": {
        "x", "lon", "long", "longitude", "rlon", "grid_longitude", "easting", "eastings", "e",
        "projection_x_coordinate",
    },
    "y": {
        "y", "lat", "latitude", "rlat", "grid_latitude", "northing", "northings", "n",
        "projection_y_coordinate",
    },
}  # fmt: skip


def surface_of_heights(z: Any, x: ArrayLike | None, y: ArrayLike | None, transform: Any) -> Surface:
    """Return the triangles of a height field, two for each cell, and the cells as `face_ids`.

    The arguments are those of `BVH.from_heightfield`, which are checked here.
    """
    if isinstance(z, str | os.PathLike):
        raise TypeError(
            f"z must be an array of heights, got the path {os.fspath(z)!r}: read it with rasterio, "
            "and give read(1, masked=True) and the transform"
        )
    # True if the first axis of `z` runs along x, so that rows and columns are exchanged.
    is_transposed = False
    if hasattr(z, "dims") and hasattr(z, "coords"):
        # An array of xarray, with the names and coordinates of its axes.
        if len(z.dims) == 2:
            is_transposed = _has_x_first(z)
            x_name, y_name = z.dims if is_transposed else z.dims[::-1]
            if transform is None and x is None and y is None:
                x, y = z.coords.get(x_name, None), z.coords.get(y_name, None)
        z = z.data
    if np.ma.isMaskedArray(z):
        # Masked heights become NaN, which integers do not have.
        z = np.ma.filled(z.astype(np.float64) if z.dtype.kind in "iu" else z, np.nan)
    heights = reals("z", z)
    if heights.ndim != 2 or min(heights.shape) < 2:
        raise ValueError(f"z must have shape (rows, columns), at least (2, 2), got {heights.shape}")
    row_count, column_count = heights.shape
    if 2 * (row_count - 1) * (column_count - 1) > MAX_PRIMITIVES:
        raise ValueError(f"z must have at most {MAX_PRIMITIVES // 2} cells, got {heights.shape}")
    row, column = np.arange(row_count)[:, None], np.arange(column_count)
    if is_transposed:
        row, column = column, row
    vertices = np.empty((row_count, column_count, 3))
    vertices[..., 0], vertices[..., 1], keeps_orientation = _positions(row, column, x, y, transform)
    vertices[..., 2] = heights
    corner = np.arange(row_count * column_count, dtype=np.int32).reshape(heights.shape)
    a, b, c, d = corner[:-1, :-1], corner[:-1, 1:], corner[1:, 1:], corner[1:, :-1]
    # Corners of cells: a, b at columns j, j + 1 of row i; d, c at the same columns of row i + 1. A
    # grid that is mirrored or transposed, but not both, winds them the other way: the order of the
    # corners is chosen so that normals point upward.
    halves = (a, b, c, a, c, d) if keeps_orientation != is_transposed else (a, c, b, a, d, c)
    faces = np.stack(halves, axis=2).reshape(-1, 3)
    cells = np.repeat(np.arange(len(faces) // 2, dtype=np.int32), 2)
    return Surface(vertices.reshape(-1, 3), faces, cells)


def _positions(
    row: Any, column: Any, x: ArrayLike | None, y: ArrayLike | None, transform: Any
) -> tuple[Any, Any, bool]:
    """Return the x and y of grid points, and whether the grid keeps its orientation.

    `row` and `column` are indices, which broadcast to the shape of the grid. The last result is
    False for a mirrored grid: exactly one axis runs against x or y, or `transform` mirrors.
    """
    if transform is not None:
        if x is not None or y is not None:
            raise ValueError("transform must not be given together with x or y")
        # Coefficients of rasterio place corners of pixels; heights are at the middles of pixels. A
        # determinant below 0 mirrors the grid.
        # A list, as some versions of affine.Affine would become a matrix.
        given = [*transform] if isinstance(transform, Iterable) else transform
        numbers = reals("transform", given)
        if numbers.shape not in ((6,), (9,)):
            raise ValueError(f"transform must be six numbers, got {transform!r}")
        # The last three of nine numbers, as of affine.Affine, are 0, 0, 1.
        a, b, c, d, e, f = numbers[:6]
        right, down = column + 0.5, row + 0.5
        return a * right + b * down + c, d * right + e * down + f, bool(a * e - b * d > 0.0)
    xs, ys = _axis("x", x, column.size), _axis("y", y, row.size)
    return xs[column], ys[row], (xs[-1] > xs[0]) == (ys[-1] > ys[0])


def _has_x_first(z: Any) -> bool:
    """Return whether the first dimension of a DataArray runs along x; False if unknown."""
    first, second = (_axis_of(name, z.coords.get(name, None)) for name in z.dims)
    if first is not None and first == second:
        raise ValueError(f"z must have one dimension along x and one along y, got {z.dims}")
    # If the axis of one dimension is unknown, that of the other decides.
    return first == "x" or second == "y"


def _axis_of(name: Any, coordinate: Any) -> str | None:
    """Return the axis along which a dimension of xarray runs, "x" or "y"; None if it is unknown.

    The attributes "axis" and "standard_name" of its `coordinate` are looked up in AXES, then the
    `name` of the dimension.
    """
    attributes = getattr(coordinate, "attrs", {})
    for given in (attributes.get("axis"), attributes.get("standard_name"), name):
        for axis, names in AXES.items():
            if str(given).lower() in names:
                return axis
    return None


def _axis(name: str, given: ArrayLike | None, size: int) -> NDArray[np.float64]:
    """Return coordinates of `size` rows or columns: `given`, checked, or by default 0, 1, 2, ..."""
    if given is None:
        return np.arange(size, dtype=np.float64)
    coordinates = reals(name, np.asarray(given))
    # A step of 0, which the test below rejects, stands for a wrong shape.
    steps = np.diff(coordinates) if coordinates.shape == (size,) else np.zeros(1)
    if not ((steps > 0.0).all() or (steps < 0.0).all()):
        shape = coordinates.shape
        raise ValueError(f"{name} must be {size} numbers that rise or fall, got {shape}")
    return coordinates
