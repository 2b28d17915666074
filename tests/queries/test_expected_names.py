"""What users expect: normals of closest points, selections of trees, hints for wrong names."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import trimesh

import bvh


@pytest.fixture
def tree() -> bvh.BVH:
    return bvh.BVH.from_mesh(trimesh.creation.icosphere(subdivisions=2))


def test_normals_of_closest_points(tree: bvh.BVH, rng: np.random.Generator) -> None:
    """Those of the faces, of batches, single points, several faces, selections and copies."""
    points = 2.0 * rng.normal(size=(20, 3))
    near, corners = tree.closest_point(points), tree.vertices[tree.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    wanted = normals[near.prim_id]
    assert np.allclose(near.normal, wanted, rtol=0.0, atol=1e-15)
    assert not near.normal.flags.writeable
    assert np.array_equal(near[3:5].normal, near.normal[3:5])
    assert np.array_equal(copy.copy(near[3]).normal, near.normal[3])
    for k in range(3):
        assert np.array_equal(tree.closest_point(points[k]).normal, near.normal[k])
        assert np.array_equal(tree.closest_point(points[k], k=2).normal[0], near.normal[k])
    assert np.array_equal(tree.closest_point(points, k=2).normal[:, 0], near.normal)
    assert np.isnan(tree.closest_point([[9.0, 9, 9]], max_distance=1.0).normal).all()
    assert np.array_equal(pickle.loads(pickle.dumps(near)).normal, near.normal)
    with pytest.raises(AttributeError, match="these points do not know their faces"):
        _ = pickle.loads(pickle.dumps(tree.closest_point(points))).normal
    with pytest.raises(AttributeError, match="these points do not know their faces"):
        _ = bvh.ClosestPoints(near.distance, near.position, near.prim_id, near.u, near.v).normal


def test_normals_in_scenes_and_of_shapes(tree: bvh.BVH, rng: np.random.Generator) -> None:
    """Those of the flattened mesh, mirrored instances too; points and segments have none."""
    scene, moved = bvh.Scene(), np.diag([1.0, 2.0, -1.0, 1.0])
    moved[:3, 3] = 0.0, 0.0, 4.0
    scene.add(tree)
    number = scene.add(tree, moved)
    points = rng.normal(size=(20, 3)) + [0.0, 0.0, 2.0]
    near, flat = scene.closest_point(points), bvh.BVH.from_triangles(*scene.flattened()[:2])
    wanted = flat.closest_point(points)
    assert np.array_equal(near.distance, wanted.distance)
    assert np.allclose(near.normal, wanted.normal, rtol=0.0, atol=1e-12)
    assert np.array_equal(scene.closest_point(points[0]).normal, near.normal[0])
    late = scene.closest_point(points + [0.0, 0.0, 9.0])
    scene.set_transform(number, np.eye(4))
    assert scene.any_hit([0, 0, 5], [0, 0, -1])
    with pytest.raises(RuntimeError, match="has moved since"):
        _ = late.normal
    ball = bvh.BVH.from_spheres([[0.0, 0.0, 0.0]], 1.0)
    assert ball.closest_point([[0, 0, 3.0]]).normal.tolist() == [[0.0, 0.0, 1.0]]
    assert np.isnan(bvh.BVH.from_points(points).closest_point([0, 0, 0]).normal).all()


def test_selections_and_pickers_of_trees(tree: bvh.BVH) -> None:
    """As those of a scene with the tree alone."""
    scene = bvh.Scene()
    scene.add(tree)
    camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], width=100, height=100)
    around = [[20, 20], [80, 20], [50, 90]]
    for options in ({}, {"mode": "inside"}, {"visible_only": True}, {"what": "vertices"}):
        found = tree.pick_rect(camera, 30, 30, 70, 60, **options)
        assert np.array_equal(found.ids, scene.pick_rect(camera, 30, 30, 70, 60, **options).ids)
        found = tree.pick_lasso(camera, around, **options)
        assert np.array_equal(found.ids, scene.pick_lasso(camera, around, **options).ids)
        assert len(found) and (found.instance_id == -1).all()
    edge = 50.0 + 50.0 / np.tan(np.radians(22.5)) * 1.03 / np.sqrt(24.0)
    for source in (tree, scene):
        assert source.picker(camera)(50, 50).prim_id == source.pick(camera, 50, 50).prim_id
        assert source.picker(camera)(edge, 50) is None
        assert source.picker(camera, radius=8)(edge, 50) is not None


@pytest.mark.parametrize(
    "name, meant",
    [("distance", "t, in units"), ("points", "position"), ("prim_ids", "prim_id"), ("xyz", None)],
)
def test_unknown_attributes(tree: bvh.BVH, name: str, meant: str | None) -> None:
    """Errors say what an attribute is called here."""
    with pytest.raises(AttributeError, match=f"has no attribute {name!r}") as caught:
        getattr(tree.closest_hit([[0, 0, 5]], [0, 0, -1]), name)
    assert ("did you mean" in str(caught.value)) == (meant is not None)
    assert meant is None or meant in str(caught.value)


def test_fields_of_view_in_radians() -> None:
    """They are told, with what was meant; small ones in degrees are not."""
    with pytest.warns(bvh.BVHWarning, match=r"np.degrees\(0.7\) is 40.11"):
        bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], fov_y=0.7)
    bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], fov_y=1.0)
    bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], fov_y=0.1)
