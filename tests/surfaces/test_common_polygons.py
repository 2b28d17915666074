"""Polygons that faces in one plane share, against rational numbers, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from bvh import BVH
from bvh.geometry.arithmetic.rational import common, exact_face, rounded
from tests.surfaces.test_relations import MAPS


def fan(sides: int, rng: np.random.Generator) -> BVH:
    """Return a fan of faces in a plane around a random point."""
    angle, k = 2 * np.pi * np.arange(sides) / sides, np.arange(sides)
    rim = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points = np.concatenate([rng.uniform(-0.3, 0.3, (1, 2)), rim + rng.uniform(-0.5, 0.5, 2)])
    faces = np.stack([0 * k, 1 + k, 1 + (k + 1) % sides], axis=1)
    return BVH.from_triangles(np.concatenate([points, 0.75 + 0.0 * points[:, :1]], axis=1), faces)


@pytest.mark.parametrize("count", [8, pytest.param(60, marks=pytest.mark.long)])
def test_polygons_to_the_last_bit(count: int, rng: np.random.Generator) -> None:
    """Faces in one plane on grids, under shears, and in fans: as clipped in rational numbers."""
    sizes = set()
    for case in range(count):
        if case % 4 == 3:
            trees = [fan(12, rng), fan(9, rng)]
        else:
            size, trees = (3, 1000, 2**20)[case % 4], []
            matrix = MAPS[rng.integers(len(MAPS))] * 2.0 ** rng.integers(-20, 20)
            for _ in range(2):
                corners = rng.integers(-size, size + 1, (30, 3, 3)).astype(np.float64)
                corners[:, :, 2] = 1.0
                faces = np.arange(90).reshape(-1, 3)
                trees.append(BVH.from_triangles(corners.reshape(-1, 3) @ matrix.T, faces))
        own, other = (
            [exact_face((tree.vertices[face] + 0.0).tolist()) for face in tree.faces]
            for tree in trees
        )
        found, pairs, wanted = trees[0].intersections(trees[1]), [], []
        for i, j in trees[0].overlap_tree(trees[1]).tolist():
            shared = []
            if own[i].has_area and other[j].has_area:
                shared = common(own[i], other[j])[1]
            if len(shared) > 2:
                pairs.append([i, j])
                wanted.append(np.array([rounded(p) for p in shared]))
                sizes.add(len(shared))
        assert found.polygon_faces.tolist() == pairs
        assert all(map(np.array_equal, found.polygons, wanted))
    assert len(sizes) >= 3
