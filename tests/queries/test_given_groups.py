"""Groups of faces as they are given: to polygons, wrong ones, and in statistics."""

from __future__ import annotations

import numpy as np
import pytest

from bvh import BVH


def test_groups_of_polygons() -> None:
    """They are given by face, and each triangle of a face has its bits."""
    vertices = [[0, 0, 0], [2, 0, 0], [2, 2, 0], [1, 1, 0], [0, 2, 0], [3, 0, 0]]
    mesh = vertices, [[1, 5, 2], [0, 1, 2, 3, 4]]
    tree = BVH.from_mesh(mesh, groups=[1, 2])
    np.testing.assert_array_equal(tree.groups, [1, 2, 2, 2])
    np.testing.assert_array_equal(BVH.from_mesh(mesh, groups=4).groups, [4] * 4)
    with pytest.raises(ValueError, match="groups must be one number, or one for each face"):
        BVH.from_mesh(mesh, groups=[1])


def test_statistics_count_groups() -> None:
    vertices, faces = np.eye(3), [[0, 1, 2], [2, 1, 0]]
    plain = BVH.from_triangles(vertices, faces).stats()
    stats = BVH.from_triangles(vertices, faces, groups=[5, 4]).stats()
    hiding = BVH.from_triangles(vertices, faces, groups=[5, 0]).stats()
    assert plain.groups is None
    assert stats.groups == hiding.groups == 2
    assert plain.bytes + 8 == stats.bytes < hiding.bytes
    assert "groups          2 of 32 bits are used" in str(stats)
    assert BVH.from_triangles(vertices, np.empty((0, 3), int), groups=1).stats().groups == 0
