"""Rays that hurt: aimed at vertices, at edges, at random, and from everywhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def features(vertices: Array, faces: NDArray[np.integer], rng: np.random.Generator) -> Array:
    """Return every vertex, every edge's midpoint and a random point of every edge, (n, 3)."""
    edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    edges = np.unique(edges, axis=0)
    a, b = vertices[edges[:, 0]], vertices[edges[:, 1]]
    w = rng.random((len(edges), 1))
    return np.concatenate([vertices[np.unique(faces)], (a + b) / 2, a + w * (b - a)])


def random_rays(
    lower: Array, upper: Array, n: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return rays that start on a sphere around a box, or in it, and pass through the box."""
    center, radius = (lower + upper) / 2, np.linalg.norm(upper - lower)
    o = rng.normal(size=(n, 3))
    o = center + radius * o / np.linalg.norm(o, axis=1, keepdims=True)
    inside = rng.random(n) < 0.3
    o[inside] = rng.uniform(lower, upper, (int(inside.sum()), 3))
    return o, rng.uniform(lower, upper, (n, 3)) - o


def axis_rays(vertices: Array, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return axis-parallel rays that pass exactly through vertices."""
    o = vertices[rng.integers(0, len(vertices), n)].copy()
    axis = rng.integers(0, 3, n)
    d = np.zeros((n, 3))
    d[np.arange(n), axis] = rng.choice([-1.0, 1.0], n)
    span = np.ptp(vertices, axis=0).max()
    return o - np.where(rng.random((n, 1)) < 0.5, 0.0, 2.0 * span) * d, d
