"""Corner normals: smooth where a surface bends a little, sharp along creases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Largest angle between faces, in degrees, across which normals are smooth.
CREASE = 42.0

# Pairs of faces that are compared at a time, and the largest number of faces around a vertex whose
# pairs are compared: the tip of a fan of thousands needs no smooth shading.
PAIRS = 1 << 21
MAX_FACES = 64


def corner_normals(points: Floats, faces: NDArray[np.int32]) -> tuple[Floats, NDArray[np.int64]]:
    """Return unit normals, and the index of the normal of each corner of each face.

    A corner's normal is the mean over the faces around its vertex without a crease to its own, each
    weighted by its angle there (Thürmer and Wüthrich 1998, "Computing vertex normals from polygonal
    facets"). Coincident vertices count as one. Zero where faces have no area.

    Parameters
    ----------
    points : ndarray, shape (n, 3)
    faces : ndarray of int, shape (m, 3)

    Returns
    -------
    normals : ndarray of float64, shape (k, 3)
    index : ndarray of int64, shape (m, 3)
    """
    vertices = _merged(points)
    owners = vertices[faces].reshape(-1)
    flat, angles = _faces(points, faces)
    weighted = flat.repeat(3, axis=0) * angles.reshape(-1)[:, None]
    count = int(vertices.max(initial=-1)) + 1
    sums = [np.bincount(owners, weighted[:, k], count) for k in range(3)]
    # Of empty arrays, bincount returns integers.
    means = unit(np.stack(sums, axis=1).astype(np.float64))
    # Where all faces are close to their mean, no two of them form a crease.
    close = (flat.repeat(3, axis=0) * means[owners]).sum(axis=1) >= math.cos(
        math.radians(CREASE / 2)
    )
    creased = np.zeros(count, np.bool_)
    creased[owners[~close & (np.abs(flat).max(axis=1, initial=0.0) > 0.0).repeat(3)]] = True
    index = owners.copy()
    corners = np.flatnonzero(creased[owners])
    index[corners] = count + np.arange(len(corners))
    own = unit(_around(owners[corners], corners // 3, flat, weighted[corners]))
    return np.concatenate([means, own]), index.reshape(-1, 3)


def _around(owners: NDArray[Any], faces: NDArray[Any], flat: Floats, weighted: Floats) -> Floats:
    """Return for each corner the sum over the corners at its vertex without a crease to it."""
    order = np.argsort(owners, kind="stable")
    faces, weighted = faces[order], weighted[order]
    _, first, size = np.unique(owners[order], return_index=True, return_counts=True)
    sums = weighted.copy()
    group = np.repeat(np.arange(len(first)), size)
    todo = np.flatnonzero(size[group] <= MAX_FACES)
    bound = math.cos(math.radians(CREASE))
    step = max(1, PAIRS // MAX_FACES)
    for begin in range(0, len(todo), step):
        rows = todo[begin : begin + step]
        sizes = size[group[rows]]
        first_of_pair = np.repeat(rows, sizes)
        ends = np.cumsum(sizes)
        second = np.arange(ends[-1]) - np.repeat(ends - sizes - first[group[rows]], sizes)
        together = (flat[faces[first_of_pair]] * flat[faces[second]]).sum(axis=1) >= bound
        together |= first_of_pair == second
        part = np.repeat(np.arange(len(rows)), sizes)[together]
        for k in range(3):
            sums[rows, k] = np.bincount(part, weighted[second[together], k], len(rows))
    found = np.empty_like(sums)
    found[order] = sums
    return found


def _faces(points: Floats, faces: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Return the unit normals of faces, or zero, and their angles, shape (m, 3)."""
    with np.errstate(all="ignore"):
        corners = points[faces]
        edges = unit(np.nan_to_num(np.roll(corners, -1, axis=1) - corners))
        normals = np.cross(edges[:, 0], edges[:, 1])
        # Of two pairs of edges, take the one that is farther from parallel.
        others = np.cross(edges[:, 1], edges[:, 2])
        swap = (others * others).sum(axis=1) > (normals * normals).sum(axis=1)
        normals[swap] = others[swap]
        turns = (edges * np.roll(edges, 1, axis=1)).sum(axis=2)
        angles = math.pi - np.arccos(np.clip(turns, -1.0, 1.0))
    return unit(normals), angles


def _merged(points: Floats) -> NDArray[np.int64]:
    """Return numbers of vertices, the same for coincident ones."""
    if len(points) == 0:
        return np.empty(0, np.int64)
    # Adding zero turns -0.0 into 0.0.
    order = np.lexsort((points + 0.0).T)
    rows = points[order]
    numbers = np.cumsum(np.r_[False, (rows[1:] != rows[:-1]).any(axis=1)])
    found = np.empty(len(points), np.int64)
    found[order] = numbers
    return found


def unit(vectors: Floats) -> Floats:
    """Return unit vectors; zero for zero."""
    largest = largest_of(vectors)[..., None]
    scaled = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0.0)
    length = np.sqrt(np.einsum("...i,...i->...", scaled, scaled))[..., None]
    return np.asarray(np.divide(scaled, length, out=scaled, where=length > 0.0))


def largest_of(vectors: Floats) -> Floats:
    """Return the largest absolute coordinate of each vector."""
    # Faster than max over an axis of three.
    x, y, z = np.moveaxis(np.abs(vectors), -1, 0)
    return np.asarray(np.maximum(np.maximum(x, y), z))
