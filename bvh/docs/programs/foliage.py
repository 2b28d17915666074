"""Foliage: leaves cut out of cards, by a filter that accepts hits where a texture is opaque.

Run with ``python -m bvh.docs.programs.foliage``.
"""

import numba
import numpy as np
from numpy.typing import NDArray

import bvh

Floats = NDArray[np.float64]


@numba.njit
def is_opaque(ray_id, prim_id, t, u, v, data):
    """Return whether the texture is opaque where the ray hits the card: the filter."""
    uv, alpha = data
    a, b, c = uv[prim_id]
    x = (1.0 - u - v) * a[0] + u * b[0] + v * c[0]
    y = (1.0 - u - v) * a[1] + u * b[1] + v * c[1]
    rows, columns = alpha.shape
    return alpha[int(y * (rows - 1) + 0.5), int(x * (columns - 1) + 0.5)] > 0.5


def leaf_texture(size: int = 64) -> NDArray[np.float64]:
    """Return the texture of a leaf: 1 inside, 0 outside."""
    x, y = np.meshgrid(np.linspace(-1.0, 1.0, size), np.linspace(0.0, 1.0, size))
    return (np.abs(x) < 0.8 * np.sin(np.pi * y) ** 1.5).astype(float)


def cards(count: int, seed: int = 0) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Return square cards in a unit cube: vertices, faces, and uv of their corners (m, 3, 2)."""
    rng = np.random.default_rng(seed)
    sides = np.linalg.qr(rng.normal(size=(count, 3, 3)))[0][:, :2] * 0.05
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    vertices = rng.random((count, 1, 3)) + (corners - 0.5) @ sides
    quad = np.array([[0, 1, 2], [0, 2, 3]])
    faces = (4 * np.arange(count)[:, None, None] + quad).reshape(-1, 3)
    return vertices.reshape(-1, 3), faces, np.tile(corners[quad], (count, 1, 1))


def light_through(count: int = 2_000, side: int = 100) -> tuple[float, float]:
    """Return the share of sunlight that passes between whole cards, and between leaves."""
    vertices, faces, uv = cards(count)
    tree = bvh.BVH.from_triangles(vertices, faces)
    x, y = np.meshgrid(np.linspace(0.0, 1.0, side), np.linspace(0.0, 1.0, side))
    sun = np.stack([x, y, np.full_like(x, 2.0)], axis=-1), np.array([0.0, 0.0, -1.0])
    blocked = tree.any_hit(*sun)
    shaded = tree.any_hit(*sun, filter=is_opaque, data=(uv, leaf_texture()))
    return 1.0 - float(np.mean(blocked)), 1.0 - float(np.mean(shaded))


if __name__ == "__main__":
    whole, cut = light_through()
    print(f"light through cards {whole:.1%}, through leaves {cut:.1%}")  # noqa: T201
