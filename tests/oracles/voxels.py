"""Solids of voxels, of which sets tell how they are related; and their surfaces as meshes."""

from __future__ import annotations

import itertools

import numpy as np

Voxels = frozenset[tuple[int, int, int]]


def random_voxels(rng: np.random.Generator, size: int) -> Voxels:
    """Return a few voxels of a cube of `size`, often a box of them."""
    if rng.random() < 0.5:
        low, high = np.sort(rng.integers(0, size + 1, (2, 3)), axis=0)
        high = np.maximum(high, low + 1)
        box = itertools.product(*(range(a, b) for a, b in zip(low, high, strict=True)))
        return frozenset((int(x), int(y), int(z)) for x, y, z in box)
    some = rng.integers(0, size, (int(rng.integers(1, 8)), 3))
    return frozenset((int(x), int(y), int(z)) for x, y, z in some)


def relation(a: Voxels, b: Voxels) -> str:
    """Return how two solids of closed voxels are related."""
    if a == b:
        return "equal"
    if a < b:
        return "inside"
    if a > b:
        return "contains"
    if a & b:
        return "overlapping"
    near = {
        (x + i, y + j, z + k)
        for x, y, z in a
        for i, j, k in itertools.product((-1, 0, 1), repeat=3)
    }
    return "touching" if near & b else "disjoint"


def surface(
    voxels: Voxels, rng: np.random.Generator, walls: bool = False, merged: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return a mesh of the voxels, each square cut one way or the other.

    With `walls` each voxel has all its faces, so that those between two voxels are double.
    """
    corners: list[np.ndarray] = []
    for voxel in sorted(voxels):
        for axis, side in itertools.product(range(3), (0, 1)):
            step = np.eye(3, dtype=int)[axis] * (2 * side - 1)
            if not walls and tuple(int(x) for x in np.array(voxel) + step) in voxels:
                continue
            square = np.zeros((4, 3))
            square[:, axis] = side
            square[:, (axis + 1) % 3] = [0, 1, 1, 0]
            square[:, (axis + 2) % 3] = [0, 0, 1, 1]
            square = (square if side else square[::-1]) + voxel
            corners.append(np.roll(square, int(rng.integers(2)), axis=0))
    squares = np.array(corners)
    triangles = np.concatenate([squares[:, [0, 1, 2]], squares[:, [0, 2, 3]]])
    points = triangles.reshape(-1, 3)
    if not merged:
        return points, np.arange(len(points)).reshape(-1, 3)
    vertices, index = np.unique(points, axis=0, return_inverse=True)
    return vertices, index.reshape(-1, 3)
