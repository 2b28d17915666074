"""What the page "Migrating" says of other libraries, row by row, where these are installed."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from bvh import BVH
from bvh.compat.trimesh import install

BALL = trimesh.creation.icosphere(3)
V, F = np.array(BALL.vertices), np.array(BALL.faces)
TREE = BVH.from_triangles(V, F)


def test_pysdf(rng: np.random.Generator) -> None:
    """Distances with the sign turned, containment, the nearest vertex."""
    sdf_of = pytest.importorskip("pysdf").SDF
    points = rng.uniform(-1.5, 1.5, (300, 3))
    theirs = sdf_of(V, F)
    assert np.allclose(theirs(points), -TREE.signed_distance(points), atol=1e-5)
    assert np.array_equal(theirs.contains(points), TREE.contains(points))
    assert np.array_equal(theirs.nn(points), BVH.from_points(V).closest_point(points).prim_id)


def test_point_cloud_utils(rng: np.random.Generator) -> None:
    """Closest points, signed distances, rays, nearest neighbours."""
    pcu = pytest.importorskip("point_cloud_utils")
    points = rng.uniform(-1.5, 1.5, (300, 3))
    distance, _, _ = pcu.closest_points_on_mesh(points, V, F)
    assert np.allclose(distance, TREE.closest_point(points).distance, atol=1e-6)
    # These are off by thousandths: the distance to the point that they name is ours.
    signed, face, weights = pcu.signed_distance_to_mesh(points, V, F)
    assert np.allclose(signed, TREE.signed_distance(points), atol=5e-3)
    near = pcu.interpolate_barycentric_coords(F, face, weights, V)
    assert np.allclose(np.linalg.norm(near - points, axis=1), TREE.distance(points))
    ways = -points / np.linalg.norm(points, axis=1)[:, None]
    _, _, t = pcu.ray_mesh_intersection(V, F, points * 3.0, ways)
    assert np.allclose(t, TREE.closest_hit(points * 3.0, ways).t, atol=1e-4)
    far, ids = pcu.k_nearest_neighbors(points, V, 3)
    near = BVH.from_points(V).closest_point(points, k=3)
    assert np.allclose(far, near.distance)
    assert (ids == near.prim_id).mean() > 0.99


def test_libigl(rng: np.random.Generator) -> None:
    """Squared distances, winding numbers, rays."""
    igl = pytest.importorskip("igl")
    points = rng.uniform(-1.5, 1.5, (300, 3))
    square = igl.point_mesh_squared_distance(points, V, F)[0]
    assert np.allclose(square, TREE.distance(points) ** 2)
    assert np.allclose(igl.winding_number(V, F, points), TREE.winding_number(points), atol=1e-2)
    assert np.allclose(np.abs(igl.signed_distance(points, V, F)[0]), TREE.distance(points))
    origins, ways = points * 3.0, -points
    boxes = igl.AABB()
    boxes.init(V, F)
    ids, t, _ = boxes.intersect_ray_first(V, F, origins, ways, np.inf)
    hits = TREE.closest_hit(origins, ways)
    assert np.array_equal(ids, hits.prim_id)
    assert np.allclose(t, hits.t, rtol=1e-5)
    every = boxes.intersect_ray(V, F, origins, ways)
    counts = np.bincount(TREE.all_hits(origins, ways).ray_id, minlength=len(points))
    assert np.array_equal([len(one) for one in every], counts)
    for o, d, wanted in zip(origins[:20], ways, hits.t, strict=False):
        assert np.isclose(igl.ray_mesh_intersect(o, d, V, F, first=True)[0][1], wanted, rtol=1e-5)


def test_fcl(rng: np.random.Generator) -> None:
    """Distances, and whether two bodies meet."""
    fcl = pytest.importorskip("fcl")
    bodies = []
    for _ in range(2):
        model = fcl.BVHModel()
        model.beginModel(len(V), len(F))
        model.addSubModel(V, F)
        model.endModel()
        bodies.append(model)
    for x in (1.5, 1.99, 2.5):
        place = fcl.Transform(np.array([x, 0.1, 0.2]))
        objects = [fcl.CollisionObject(bodies[0]), fcl.CollisionObject(bodies[1], place)]
        matrix = np.eye(4)
        matrix[:3, 3] = x, 0.1, 0.2
        meets = fcl.collide(*objects, fcl.CollisionRequest(), fcl.CollisionResult()) > 0
        assert meets == (len(TREE.overlap_tree(TREE, matrix)) > 0)
        assert (TREE.relation(TREE, matrix) == "overlapping") == meets
        if not meets:
            found = fcl.DistanceResult()
            fcl.distance(*objects, fcl.DistanceRequest(), found)
            assert TREE.distance_to(TREE, matrix).distance == pytest.approx(found.min_distance)


def test_depths_beside_fcl(rng: np.random.Generator) -> None:
    """Where a corner of one box is in another, its depth is fcl's."""
    fcl = pytest.importorskip("fcl")
    for _ in range(20):
        depth = rng.uniform(0.01, 0.3)
        shift = np.array([1.0 - depth, 0.4, 0.35])
        objects = [fcl.CollisionObject(fcl.Box(1, 1, 1)),
                   fcl.CollisionObject(fcl.Box(1, 1, 1), fcl.Transform(shift))]  # fmt: skip
        found = fcl.CollisionResult()
        fcl.collide(*objects, fcl.CollisionRequest(enable_contact=True), found)
        matrix = np.eye(4)
        matrix[:3, 3] = shift
        box = BVH.from_mesh(trimesh.creation.box())
        theirs = max(contact.penetration_depth for contact in found.contacts)
        assert box.penetration(box, matrix).depth == pytest.approx(theirs, rel=1e-6)


def test_trimesh_thickness() -> None:
    """Thickness and longest rays of trimesh are exact while installed."""
    plate = trimesh.creation.box([4.0, 4.0, 0.5])
    points, normals = np.array([[0.3, 0.2, 0.25]]), np.array([[0.0, 0.0, 1.0]])
    with install():
        found = trimesh.proximity.thickness(plate, points, normals=normals, method="ray")
        assert np.allclose(found, BVH.from_mesh(plate).thickness(points_at=points))
        assert np.allclose(trimesh.proximity.longest_ray(plate, points, -normals), 0.5)
        _, radii = trimesh.proximity.max_tangent_sphere(plate, points, normals=normals)
        ours = BVH.from_mesh(plate).thickness(points_at=points, method="sphere")
        assert np.allclose(2.0 * radii, ours, rtol=1e-3)
