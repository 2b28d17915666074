"""Blender's BVHTree on ours: what its documentation says, and brute force."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trimesh

from bvh import BVH
from bvh.compat.mathutils import BVHTree

SQUARES = [(0, 1, 2, 3), (4, 5, 6, 7)]
CORNERS = [(0, 0, 0), (2, 0, 0), (2, 2, 0), (0, 2, 0), (0, 0, 3), (2, 0, 3), (2, 2, 3), (0, 2, 3)]


def test_polygons() -> None:
    """Locations, normals, indices of polygons, lengths; four None for a miss."""
    tree = BVHTree.FromPolygons(CORNERS, SQUARES)
    location, normal, index, distance = tree.ray_cast((0.5, 1.5, 5), (0, 0, -2))
    assert tuple(location) == (0.5, 1.5, 3.0)
    assert tuple(normal) == (0.0, 0.0, 1.0)
    assert (index, distance) == (1, 2.0)
    assert tree.ray_cast((0.5, 1.5, 5), (0, 0, -2), 1.9) == (None,) * 4
    assert tree.ray_cast((0.5, 1.5, 5), (0, 0, 0)) == (None,) * 4
    for size in (1e-300, 1e-200, 1e200, 1e300):
        assert tree.ray_cast((0.5, 1.5, 5), (0, 0, -size))[2:] == (1, pytest.approx(2.0))
    assert tree.find_nearest((1, 1, 1))[2:] == (0, 1.0)
    assert tree.find_nearest((1, 1, 1), 0.5) == (None,) * 4
    assert [found[2] for found in tree.find_nearest_range((1, 1, 1), 2.5)] == [0, 1]
    assert tree.find_nearest_range((1, 1, 9), 0.5) == []
    empty = BVHTree.FromPolygons([], [])
    assert empty.ray_cast((0, 0, 0), (0, 0, 1)) == (None,) * 4
    assert empty.find_nearest((0, 0, 0)) == (None,) * 4


def test_overlap(rng: np.random.Generator) -> None:
    """Pairs of polygons, each once, as `overlap_tree` has them of triangles."""
    ball = trimesh.creation.icosphere(2)
    a = BVHTree.FromPolygons(ball.vertices, ball.faces)
    b = BVHTree.FromPolygons(ball.vertices + [1.0, 0.2, 0.1], ball.faces)
    pairs = BVH.from_mesh(ball).overlap_tree(b.tree)
    assert a.overlap(b) == [tuple(pair) for pair in pairs.tolist()]
    squares = BVHTree.FromPolygons(CORNERS, SQUARES)
    wall = BVHTree.FromPolygons([(1, -1, -1), (1, 3, -1), (1, 3, 9), (1, -1, 9)], [(0, 1, 2, 3)])
    assert squares.overlap(wall) == [(0, 0), (1, 0)]


def test_rays_and_points(rng: np.random.Generator) -> None:
    """The same as our own queries, one by one."""
    ball = trimesh.creation.icosphere(3)
    tree, own = BVHTree.FromPolygons(ball.vertices, ball.faces), BVH.from_mesh(ball)
    for _ in range(50):
        o, d = rng.normal(size=(2, 3))
        hit, found = own.closest_hit(o, d), tree.ray_cast(o, d)
        assert found[2] == (hit.prim_id if hit else None)
        if hit:
            assert found[3] == pytest.approx(hit.t * np.linalg.norm(d))
        near = own.closest_point(o)
        assert tree.find_nearest(o)[2:] == (near.prim_id, near.distance)


def test_objects() -> None:
    """A mesh object as bpy has it, evaluated or not."""

    class Object:
        def evaluated_get(self, depsgraph: Any) -> Object:
            return self

        def to_mesh(self) -> Any:
            return SimpleNamespace(
                vertices=[SimpleNamespace(co=c) for c in CORNERS],
                polygons=[SimpleNamespace(vertices=p) for p in SQUARES],
            )

        def to_mesh_clear(self) -> None:
            self.cleared = True

    thing = Object()
    tree = BVHTree.FromObject(thing, None)
    assert thing.cleared
    assert tree.ray_cast((0.5, 1.5, 5), (0, 0, -1))[2] == 1


def test_beside_blender(rng: np.random.Generator) -> None:
    """The same calls through mathutils itself."""
    theirs_of = pytest.importorskip("mathutils.bvhtree").BVHTree
    ball = trimesh.creation.icosphere(3)
    given = [tuple(v) for v in ball.vertices], ball.faces.tolist()
    theirs, ours = theirs_of.FromPolygons(*given), BVHTree.FromPolygons(*given)
    same = 0
    for _ in range(200):
        o, d = rng.normal(size=(2, 3))
        a, b = theirs.ray_cast(o, d), ours.ray_cast(o, d)
        same += a[2] == b[2]
        assert np.allclose(theirs.find_nearest(o)[0], ours.find_nearest(o)[0], atol=1e-5)
    assert same >= 198
