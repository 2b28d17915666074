"""Issues of trimesh that its users reported: shown on its classes, absent with the drop-in.

Each test asks trimesh's own first and holds that it errs, so that it tells when it no longer
does. Where trimesh has mended the very example of a thread, the same error is shown on another.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import trimesh

from benchmarks.tasks.drop_in import drop_in
from benchmarks.tasks.task import Setting, measured
from benchmarks.timing import Patience
from bvh.compat.trimesh import CollisionManager, ProximityQuery, RayMeshIntersector
from bvh.scene.scene import Scene

Rays = tuple[np.ndarray, np.ndarray]


def embree(mesh: trimesh.Trimesh, **options: Any) -> Any:
    """Return trimesh's caster on Embree, or skip the test."""
    pytest.importorskip("embreex")
    return trimesh.ray.ray_pyembree.RayMeshIntersector(mesh, **options)


def rays_from(place: Any, targets: np.ndarray) -> Rays:
    """Return rays from one place to many."""
    origins = np.tile(np.asarray(place, float), (len(targets), 1))
    return origins, targets - origins


def counts(caster: Any, rays: Rays) -> np.ndarray:
    """Return how many places each ray hits."""
    return np.bincount(caster.intersects_location(*rays)[1], minlength=len(rays[0]))


def tiled_box() -> tuple[trimesh.Trimesh, Rays]:
    """Return a closed box of many faces, and rays from inside at all its features."""
    mesh = trimesh.creation.box(extents=[40, 40, 40]).subdivide_to_size(2)
    middles = mesh.vertices[mesh.edges_unique].mean(axis=1)
    targets = np.concatenate([mesh.vertices, middles, mesh.triangles_center])
    return mesh, rays_from([0.1, 0.2, 0.3], targets)


def ball_and_strays() -> tuple[trimesh.Trimesh, Rays]:
    """Return a ball, two lost faces far away from it, and rays at the ball."""
    strays = [
        trimesh.Trimesh([[far, far, far], [far + 1, far, far], [far, far + 1, far]], [[0, 1, 2]])
        for far in (1e7, -1e7)
    ]
    rng = np.random.default_rng(0)
    origins = rng.normal(size=(2_000, 3))
    origins *= 3.0 / np.linalg.norm(origins, axis=1)[:, None]
    directions = rng.normal(size=origins.shape) * 0.3 - origins
    return trimesh.util.concatenate([ball(), *strays]), (origins, directions)


def ball() -> trimesh.Trimesh:
    """Return the ball alone."""
    return trimesh.creation.icosphere(subdivisions=3)


def test_1180_rays_get_out_of_a_closed_mesh() -> None:
    """Of as many rays from inside as the thread's panorama has some find no surface."""
    mesh, rays = tiled_box()
    theirs = embree(mesh).intersects_location(*rays, multiple_hits=False)[0]
    assert len(theirs) < len(rays[0])
    ours = RayMeshIntersector(mesh).intersects_location(*rays, multiple_hits=False)
    assert ours[0].shape == rays[0].shape
    assert np.array_equal(ours[1], np.arange(len(rays[0])))


def test_1496_vertices_and_edges_are_missed() -> None:
    """The thread's rays through vertices and edges, on a box of more faces."""
    mesh, rays = tiled_box()
    caster = embree(mesh)
    missed = ~caster.intersects_any(*rays)
    ids = np.isin(np.arange(len(missed)), caster.intersects_id(*rays, multiple_hits=False)[1])
    assert missed.any()
    assert (missed == ids).any()
    ours = RayMeshIntersector(mesh)
    assert ours.intersects_any(*rays).all()
    assert np.array_equal(ours.intersects_id(*rays, multiple_hits=False)[1], np.arange(len(ids)))
    # The thread's own boxes.
    small = trimesh.creation.box(extents=np.full(3, 40)).subdivide_to_size(20)
    big = trimesh.creation.box(extents=np.full(3, 60)).subdivide_to_size(20)
    thread = rays_from(np.zeros(3), np.asarray(big.vertices))
    assert RayMeshIntersector(small).intersects_any(*thread).all()
    assert (counts(RayMeshIntersector(small), thread) == 1).all()


def test_2245_any_first_and_location_disagree() -> None:
    """Rays at vertices: Embree's class rounds them otherwise in each of its methods."""
    mesh = trimesh.creation.icosphere(subdivisions=3)
    mesh.apply_translation([0.1, 0.2, 0.3])
    rng = np.random.default_rng(0)
    origins = rng.normal(size=(50_000, 3)) * 50
    rays = origins, mesh.vertices[rng.integers(0, len(mesh.vertices), 50_000)] - origins

    def disagreements(caster: Any) -> int:
        any_hit = caster.intersects_any(*rays)
        first = caster.intersects_first(*rays) != -1
        located = counts(caster, rays) > 0
        single = np.isin(
            np.arange(len(origins)), caster.intersects_location(*rays, multiple_hits=False)[1]
        )
        return sum(int((any_hit != other).sum()) for other in (first, located, single))

    assert disagreements(embree(mesh)) > 100
    ours = RayMeshIntersector(mesh)
    assert disagreements(ours) == 0


@pytest.mark.parametrize("offset", [0.01, 0.001])
@pytest.mark.parametrize("scale_to_box", [True, False])
def test_48_a_ray_hits_what_it_leaves(offset: float, scale_to_box: bool) -> None:
    """The thread's wall in map coordinates, and a ray that starts before it and goes away."""
    corners = [
        [528980.85, 183526.1, 0], [528980.85, 183526.1, 3],
        [528982.3, 183523.55, 0], [528982.3, 183523.55, 3],
    ]  # fmt: skip
    mesh = trimesh.Trimesh(corners, [[1, 0, 2], [1, 2, 3]], process=False)
    a, b, c = mesh.vertices[:3]
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal)
    rays = (0.5 * (a + c) + [0, 0, 1] + offset * normal)[None], normal[None]
    assert embree(mesh, scale_to_box=scale_to_box).intersects_any(*rays).all()
    ours = RayMeshIntersector(mesh, scale_to_box)
    assert not ours.intersects_any(*rays).any()
    assert ours.intersects_any(rays[0], -rays[1]).all()


def test_48_precision_against_distance() -> None:
    """A corner of the thread's table (all of it: `bvh bench --task precision`)."""
    rng = np.random.default_rng(0)
    errors = {"embree": 0, "ours": 0}
    for corners in (rng.random((50, 3, 3)) - 0.5) * 1e5:
        mesh = trimesh.Trimesh(corners, [[0, 1, 2]], process=False)
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        normal /= np.linalg.norm(normal)
        for height in 10.0 ** -np.arange(10.0):
            rays = (corners.mean(axis=0) + normal * height)[None], normal[None]
            errors["embree"] += int(embree(mesh).intersects_any(*rays).sum())
            errors["ours"] += int(RayMeshIntersector(mesh).intersects_any(*rays).sum())
    assert errors["embree"] > 50
    assert errors["ours"] == 0


def test_2504_hits_are_miscounted_at_large_coordinates() -> None:
    """Lost faces make the scale small: the thread's duplicates are gone, but hits are lost."""
    mesh, rays = ball_and_strays()
    truth = counts(RayMeshIntersector(ball()), rays)
    assert (counts(embree(mesh), rays) != truth).sum() > 100
    assert np.array_equal(counts(RayMeshIntersector(mesh), rays), truth)
    # A box of a millimetre, ten kilometres away, and boxes at large coordinates.
    for size, offset, height in ((1e-3, 0.0, 1e4), (1.0, 1e7, 1e7), (1e8, 0.0, 1e9)):
        box = trimesh.creation.box(extents=[size] * 3).subdivide()
        box.apply_translation([offset] * 3)
        down = np.array([[offset, offset, offset + height]]), np.array([[0.0, 0.0, -1.0]])
        assert counts(RayMeshIntersector(box), down).tolist() == [2]


def test_2534_a_cavity_is_not_inside() -> None:
    """The thread's box is mended; a hollow ball with a thin wall is not."""
    outer, inner = (trimesh.creation.icosphere(subdivisions=3, radius=r) for r in (1.0, 1 - 1e-6))
    inner.invert()
    hollow = trimesh.util.concatenate([outer, inner])
    points = np.random.default_rng(0).uniform(-0.4, 0.4, (1_000, 3))
    assert embree(hollow).contains_points(points).sum() > 500
    assert not RayMeshIntersector(hollow).contains_points(points).any()
    boxes = trimesh.creation.box(), trimesh.creation.box(extents=[0.1] * 3)
    boxes[1].invert()
    cut = RayMeshIntersector(trimesh.util.concatenate(boxes))
    assert cut.contains_points([[0, 0, 0], [0.2, 0, 0], [0.6, 0, 0]]).tolist() == [
        False,
        True,
        False,
    ]


def test_1338_hits_are_far_from_the_face_that_is_hit() -> None:
    """As in the thread, a hit and the nearest point of its face are compared."""
    mesh, rays = ball_and_strays()

    def furthest(caster: Any) -> float:
        places, _, faces = caster.intersects_location(*rays)
        nearest = trimesh.triangles.closest_point(mesh.triangles[faces], places)
        return float(np.abs(nearest - places).max())

    # The ball's radius is 1.
    assert furthest(embree(mesh)) > 1.0
    assert furthest(RayMeshIntersector(mesh)) < 1e-15


def test_1055_nearest_points_are_off() -> None:
    """The nearest points of meshes that meet: as far apart as the distance, and on both."""
    pytest.importorskip("fcl")
    ring, place = trimesh.creation.torus(3.0, 1.0), np.eye(4)
    place[0, 3] = 1.0

    def gap(manager: Any) -> float:
        manager.add_object("ring", ring)
        distance, data = manager.min_distance_single(ring, place, return_data=True)
        assert distance == 0.0
        return float(np.linalg.norm(data.point("ring") - data.point("__external")))

    assert gap(trimesh.collision.CollisionManager()) > 0.01
    assert gap(CollisionManager()) == 0.0
    # Among several meshes, as in the thread: it is the nearest that is named, at its points.
    manager, balls = CollisionManager(), {}
    for k, by in enumerate(np.random.default_rng(0).normal(size=(20, 3)) * 9.0):
        balls[f"ball {k}"] = ball().apply_translation(by + 20.0)
        manager.add_object(f"ball {k}", balls[f"ball {k}"])
    distance, name, data = manager.min_distance_single(ring, None, True, True)
    first, second = data.point(name), data.point("__external")
    assert np.linalg.norm(first - second) == pytest.approx(distance, rel=1e-14)
    for mesh, point in ((balls[name], first), (ring, second)):
        assert ProximityQuery(mesh).on_surface([point])[1][0] < 1e-14
    every = {
        key: float(ProximityQuery(ring).on_surface(mesh.vertices)[1].min())
        for key, mesh in balls.items()
    }
    assert distance <= min(every.values())


def test_2454_pairs_that_may_touch() -> None:
    """Neighbours in a chain collide always, which trimesh's manager cannot leave out."""
    pytest.importorskip("fcl")
    link = trimesh.creation.box([1.2, 0.2, 0.2])
    theirs, scene, names = trimesh.collision.CollisionManager(), Scene(), "abcd"
    for k, name in enumerate(names):
        place = np.eye(4)
        place[0, 3] = k
        theirs.add_object(name, link, place)
        scene.add(link, place, name)
    joints = list(itertools.pairwise(names))
    assert theirs.in_collision_internal(return_names=True) == (True, set(joints))
    assert scene.collisions().tolist() == [[0, 1], [1, 2], [2, 3]]
    assert len(scene.collisions(ignore=joints)) == 0
    place[0, 3] = 1.0
    scene.set_transform(3, place)
    assert scene.collisions(ignore=joints).tolist() == [[0, 3], [1, 3]]


METHODS = ("intersects_first", "intersects_any", "intersects_location", "contains_points")


@pytest.mark.parametrize("wrong", [None, *METHODS, "on_surface"])
def test_no_wrong_answer_is_timed(wrong: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """`bvh bench --task drop-in` checks each answer before it times it."""

    def measure() -> list[str]:
        tasks = drop_in(Setting({"tasks": ["drop-in"], "threads": 1, "points": 400}, []), level=1)
        return [measured(task, [], 1, Patience(0.0))["what"] for task in tasks]

    if wrong is None:
        small = [f"{method}, batches of 100" for method in METHODS[:3:2]]
        assert measure() == [*METHODS[:3], *small, METHODS[3], "on_surface"]
        return
    owner = ProximityQuery if wrong == "on_surface" else RayMeshIntersector
    right = getattr(owner, wrong)

    def err(*args: Any) -> Any:
        found = right(*args)
        first = found[0] if isinstance(found, tuple) else found
        first[0] = ~first[0] if first.dtype != float else first[0] + 0.1
        return found

    monkeypatch.setattr(owner, wrong, err)
    with pytest.raises(SystemExit, match="wrong answer"):
        measure()
