"""Segments of edges in planes of faces: those by signs are those by rational numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bvh import BVH
from bvh.surfaces import curves


def flat_parts(rng: np.random.Generator, kind: int) -> BVH:
    """Return faces of which many are in one plane or stand on it, on a grid, tilted or not."""
    points = rng.random((20, 3)) if kind == 0 else rng.integers(0, 5, (20, 3)).astype(float)
    points[:14, 2] = 0.0
    points = points @ rng.integers(-2, 3, (3, 3)).T if kind == 2 else points
    walls = np.column_stack([rng.integers(0, 14, (16, 2)), rng.integers(14, 20, 16)])
    faces = rng.permutation(np.concatenate([rng.integers(0, 14, (10, 3)), walls]))
    # Without faces that have no area, which leave all to rational numbers.
    u, v = np.moveaxis(points[faces[:, 1:]] - points[faces[:, :1]], 1, 0)
    return BVH.from_triangles(points, faces[np.cross(u, v).any(axis=1)], warn=False)


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.long)])
def test_edges_in_planes(
    count: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments by signs in planes are those by rational numbers, in the same order."""
    trees = [[flat_parts(rng, n % 3) for _ in range(2)] for n in range(count)]
    trees = [pair for pair in trees if min(map(len, pair))]
    found = [a.intersections(b) for a, b in trees] + [a.intersections() for a, _ in trees]
    decided = 0

    def leave_all(*given: Any) -> tuple[int, int, int]:
        nonlocal decided
        decided += fast(*given)[0]
        shared, rows = given[3], given[5]
        rows[:] = np.flatnonzero((shared != curves.POINT) & (shared != curves.AREA))
        return 0, len(rows), 0

    fast = curves.edge_segments
    monkeypatch.setattr(curves, "edge_segments", leave_all)
    wanted = [a.intersections(b) for a, b in trees] + [a.intersections() for a, _ in trees]
    for one, other in zip(found, wanted, strict=True):
        for name in ("segments", "faces", "edges", "polygon_faces"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
        assert all(map(np.array_equal, one.polygons, other.polygons))
        # Numbers of ends differ, but not which are equal.
        pairs = np.stack([one._ends.ravel(), other._ends.ravel()], axis=1)
        counts = {len(np.unique(each, axis=0)) for each in (pairs, pairs[:, :1], pairs[:, 1:])}
        assert len(counts) == 1
    assert decided > 20 * count
