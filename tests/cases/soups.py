"""Triangles at random places, rays at them, and whether two answers are the same."""

from __future__ import annotations

import numpy as np

from bvh import BVH, Hits

Mesh = tuple[np.ndarray, np.ndarray]
MANY = 20_000
FLAT = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def at_places(places: np.ndarray, size: float | np.ndarray = 1.0) -> Mesh:
    """Put a triangle of the given size at each place."""
    corners = places[:, None] + FLAT * np.reshape(size, (-1, 1, 1))
    return corners.reshape(-1, 3), np.arange(3 * len(places)).reshape(-1, 3)


def soup(rng: np.random.Generator, n: int = MANY, size: float = 0.1) -> Mesh:
    """Return triangles at random places."""
    return at_places(rng.random((n, 3)), size)


def rays_at(tree: BVH, rng: np.random.Generator, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Return rays through random points of a tree's bounds."""
    span = np.ptp(tree.bounds, axis=0).max()
    d = rng.normal(size=(n, 3))
    return rng.uniform(*tree.bounds, (n, 3)) - d * span, d


def same(a: Hits, b: Hits) -> bool:
    """Tell whether two answers agree bit for bit."""
    return all(
        np.asarray(getattr(a, f)).tobytes() == np.asarray(getattr(b, f)).tobytes()
        for f in ("t", "prim_id", "u", "v", "front")
    )
