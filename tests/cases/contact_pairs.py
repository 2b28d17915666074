"""Pairs of triangles, as (n, 3, 3) arrays, of kinds whose contacts are hard to decide."""

from __future__ import annotations

import numpy as np

Pairs = tuple[np.ndarray, np.ndarray]


def whole(rng: np.random.Generator, shape: tuple[int, ...], end: int) -> np.ndarray:
    return rng.integers(0, end, shape).astype(float)


def tight(rng: np.random.Generator, n: int) -> Pairs:
    """Corners on a grid of 3: most share planes, lines, or points; many have no area."""
    return whole(rng, (n, 3, 3), 3), whole(rng, (n, 3, 3), 3)


def grid(rng: np.random.Generator, n: int) -> Pairs:
    """Corners on a grid of 5."""
    return whole(rng, (n, 3, 3), 5), whole(rng, (n, 3, 3), 5)


def flat(rng: np.random.Generator, n: int) -> Pairs:
    """All in two parallel planes, along any axis."""
    a, b = grid(rng, n)
    a[..., 2], b[..., 2] = 0.0, rng.integers(0, 2, (n, 1))
    turn = rng.integers(0, 3)
    return np.roll(a, turn, axis=2), np.roll(b, turn, axis=2)


def tilted(rng: np.random.Generator, n: int) -> Pairs:
    """All in one plane that is parallel to no axis."""
    a, b = whole(rng, (n, 3, 3), 4), whole(rng, (n, 3, 3), 4)
    for t in (a, b):
        t[..., 2] = 2.0 * t[..., 0] - t[..., 1]
    return a, b


def lines(rng: np.random.Generator, n: int) -> Pairs:
    """Segments and points, many on one line."""
    a = whole(rng, (n, 3, 1), 4) * rng.integers(-1, 2, (n, 1, 3))
    b = whole(rng, (n, 3, 1), 4) * rng.integers(-1, 2, (n, 1, 3)) + rng.integers(0, 2, (n, 1, 3))
    return a, b


def loose(rng: np.random.Generator, n: int) -> Pairs:
    """Corners anywhere in a cube."""
    return rng.random((n, 3, 3)), rng.random((n, 3, 3))


def grazing(rng: np.random.Generator, n: int) -> Pairs:
    """A corner of one within a rounding of the other; some of the former are segments."""
    a, b = loose(rng, n)
    b[:, 0] = np.einsum("ij,ijk->ik", rng.dirichlet([1.0, 1.0, 1.0], n), a)
    thin = rng.random(n) < 0.3
    b[thin, 1] = b[thin, 0]
    return a, b


KINDS = {kind.__name__: kind for kind in (tight, grid, flat, tilted, lines, loose, grazing)}

# Factor and offset, and the share of pairs that is tried.
SCALES = {
    "as is": (1.0, 0.0, 1.0),
    "tiny": (1e-150, 0.0, 0.2),
    "huge": (1e150, 0.0, 0.2),
    "far": (0.1, 1e7, 0.3),
}


def pairs_of(kind: str, scale: str, n: int, rng: np.random.Generator) -> Pairs:
    factor, offset, share = SCALES[scale]
    a, b = KINDS[kind](rng, int(n * share))
    return a * factor + offset, b * factor + offset


def glued(rng: np.random.Generator, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return b with none to three corners of each triangle replaced by those of a."""
    glued = b.copy()
    for i, count in enumerate(rng.integers(0, 4, len(a))):
        p, q = rng.permutation(3)[:count], rng.permutation(3)[:count]
        glued[i, p] = a[i, q]
    return glued
