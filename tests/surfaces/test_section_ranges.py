"""Sections of vertices and by planes at the ends of the range of doubles, and of infinite ones."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from bvh import BVH

BALL = trimesh.creation.icosphere(2)
PLANE = np.array([0.3, 0.2, 1.0, -0.1])


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.filterwarnings("error", "ignore:.*finite:bvh.BVHWarning")
def test_vertices_that_are_not_finite(value: float) -> None:
    """Their faces are left out, of sections by one plane and by several."""
    vertices = np.vstack([BALL.vertices, [value, 1.0, 0.0]])
    faces = np.vstack([BALL.faces, [0, 1, len(BALL.vertices)]])
    tree, whole = BVH.from_triangles(vertices, faces, warn=False), BVH.from_mesh(BALL)
    for plane in (PLANE, [1.0, 0.0, 0.0, -1.0], [0.0, 0.0, 1.0, 0.0]):
        wanted = whole.section(plane).segments
        assert np.array_equal(tree.section(plane).segments, wanted)
        both = tree.section([plane, plane]).segments
        assert np.array_equal(both, np.concatenate([wanted, wanted]))


@pytest.mark.parametrize("exponent", [-1000, 990, 1000, 1020])
@pytest.mark.filterwarnings("error")
def test_large_and_small_planes_and_meshes(exponent: int) -> None:
    """A power of two in the plane changes nothing; one in the mesh scales its section."""
    scale = 2.0**exponent
    wanted = BVH.from_mesh(BALL).section(PLANE).segments
    assert len(wanted) > 40
    found = BVH.from_mesh(BALL).section(PLANE * scale).segments
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=4e-16)
    grown = BVH.from_triangles(BALL.vertices * scale, BALL.faces)
    found = grown.section(PLANE * [1.0, 1.0, 1.0, scale]).segments / scale
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=4e-16)


@pytest.mark.filterwarnings("error", "ignore:.*open edges:bvh.BVHWarning")
def test_differences_beyond_the_largest_double() -> None:
    """Edges between corners of opposite signs are cut where they meet the plane."""
    far = 1.7e308
    corners = [[-far, 0.0, -far], [far, 0.0, far], [0.0, far, -far]]
    (segment,) = BVH.from_triangles(corners, [[0, 1, 2]]).section([0.0, 0.0, 1.0, 0.0]).segments
    assert segment.tolist() == [[far / 2, far / 2, 0.0], [0.0, 0.0, 0.0]]
