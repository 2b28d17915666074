"""A fractal landscape at geographic coordinates, where float32 would lose every detail."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .shapes import Mesh, grid

EASTING = 4.5e5
NORTHING = 5.4e6
HIGHEST = 2000.0
EXTENT = 8000.0
SEED = 20


def terrain(n: int = 128) -> Mesh:
    """Return a square of land, ``n`` × ``n`` cells of two triangles each.

    Parameters
    ----------
    n
        Cells along a side of 8 km. Among powers of two, a larger ``n`` refines the same land.

    Returns
    -------
    vertices, faces
        Eastings from 4.5e5, northings from 5.4e6 and heights from 0 to 2000, all in metres and
        rounded to millimetres, as a survey would give them. Triangles face up.
    """
    if n < 1:
        raise ValueError(f"n is {n}; it must be 1 or more")
    height = _valleys(_midpoints(n)[: n + 1, : n + 1])
    rng = np.random.default_rng(SEED + 1)
    step = EXTENT / n
    shift = rng.uniform(-0.05, 0.05, (2, n + 1, n + 1))
    points = np.empty((n + 1, n + 1, 3))
    points[..., 0] = EASTING + (np.arange(n + 1)[:, None] + shift[0]) * step
    points[..., 1] = NORTHING + (np.arange(n + 1)[None, :] + shift[1]) * step
    points[..., 2] = height + rng.uniform(-0.02, 0.02, height.shape)
    np.maximum(points[..., 2], 0.0, out=points[..., 2])
    return grid(np.round(points, 3))


def _midpoints(n: int) -> NDArray[np.float64]:
    """Return a square of heights made by midpoint displacement, its side a power of two ≥ n.

    Every level draws from a generator of its own, so that finer squares extend coarser ones.
    """
    size = 1 << max(2, (n - 1).bit_length())
    height = np.zeros((size + 1, size + 1))
    step = size
    height[::step, ::step] = np.random.default_rng([SEED, 0]).uniform(-1.0, 1.0, (2, 2))
    amplitude, level = 1.0, 0
    while step > 1:
        half, level = step // 2, level + 1
        rng = np.random.default_rng([SEED, level])
        known = height[::step, ::step]
        middle = (known[:-1, :-1] + known[1:, :-1] + known[:-1, 1:] + known[1:, 1:]) / 4.0
        height[half::step, half::step] = middle + amplitude * rng.uniform(-1, 1, middle.shape)
        # Average the two known neighbours of an edge point with the centres beside it.
        for array in (height, height.T):
            centres = np.pad(array[half::step, half::step], ((0, 0), (1, 1)), mode="edge")
            along = array[:-1:step, ::step] + array[step::step, ::step]
            edge = (along + centres[:, :-1] + centres[:, 1:]) / 4.0
            array[half::step, ::step] = edge + amplitude * rng.uniform(-0.7, 0.7, edge.shape)
        amplitude *= 0.47 if level > 2 else 0.65
        step = half
    return height


def _valleys(height: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return heights scaled to 0..2000, the low land flattened and the peaks sharpened."""
    share = (height - height.min()) / (height.max() - height.min())
    bent: NDArray[np.float64] = HIGHEST * share * share * (1.6 - 0.6 * share)
    return bent
