"""Points of any size: beside the smallest double, up to the largest, and both in one triangle."""

from __future__ import annotations

import numpy as np

from bvh.geometry.arithmetic.floats import LARGEST, SMALLEST

LEVELS = np.array([LARGEST / 2, 1e300, 1e150, 1.0, 1e-150, 1e-300, 1e-310, SMALLEST])


def tiny(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return whole multiples of the smallest double."""
    return rng.integers(-9, 10, (n, 3)) * SMALLEST


def huge(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return points whose differences overflow."""
    return rng.uniform(-1.0, 1.0, (n, 3)) * LARGEST


def ends(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return coordinates at the ends of the range of doubles."""
    return (
        rng.choice([LARGEST, LARGEST / 2, 1.0, SMALLEST, 0.0], (n, 3))
        * rng.choice([-1, 1], n)[:, None]
    )


def unlike(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return coordinates of sizes so unlike that their products underflow."""
    return rng.integers(-2, 3, (n, 3)) * rng.choice(rng.choice(LEVELS, 3), (n, 3))


def slabs(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return points of which each axis has a size of its own."""
    return rng.integers(-1, 2, (n, 3)) * rng.choice(LEVELS, 3)


def flat(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return points of a plane along two axes, on small grids far from the origin or near it."""
    points = rng.integers(-5, 6, (n, 3)) * rng.choice([1e-160, 1e-300, 1e-320, SMALLEST])
    points[:, rng.integers(3)] = rng.choice([4.0, 1e308, 1e-5])
    return points


FAMILIES = (tiny, huge, ends, unlike, slabs, flat)


def triangles(family, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n groups of six points, of which the first three may coincide or lie on a line."""
    groups = np.stack([family(rng, 6) for _ in range(n)])
    kind = rng.integers(0, 8, n)
    groups[kind == 0, 1] = groups[kind == 0, 0]
    groups[kind == 1, 2] = 0.5 * groups[kind == 1, 0] + 0.5 * groups[kind == 1, 1]
    # The fourth on the edge of the others, or next to it.
    groups[kind == 2, 3] = 0.5 * groups[kind == 2, 0] + 0.5 * groups[kind == 2, 1]
    groups[kind == 3, 3] = groups[kind == 3, 0]
    groups[kind == 3, 3, 2] = np.nextafter(groups[kind == 3, 3, 2], 0.0)
    return groups
