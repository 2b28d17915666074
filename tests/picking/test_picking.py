"""What is under a cursor, against brute force over the flattened scene."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.io.trimesh_scenes import Attributes
from bvh.picking.projected import nearest_on_triangles
from bvh.picking.results import Pick
from tests.cases.family_parts import sphere
from tests.cases.flat_scene import FlatScene, world_triangles
from tests.picking.test_marquee import IDENTITY, some_camera, some_scene


def test_picks_equal_brute_force(rng: np.random.Generator) -> None:
    """The nearest of all faces of the flattened scene, by the leaf test alone."""
    scene, camera = some_scene(rng), some_camera()
    triangles = world_triangles(scene)
    shown = np.flatnonzero(scene.leaves.masks[scene.leaf])
    found = 0
    for x, y in rng.uniform(0, [160, 120], (300, 2)):
        pick = scene.pick(camera, x, y)
        a, b, c = (triangles[shown, k] for k in range(3))
        hit, t, u, v = bvh.ray_triangle(*camera.ray(x, y), a, b, c)
        if not hit.any():
            assert pick is None
            continue
        best = int(np.where(hit, t, np.inf).argmin())
        row = shown[best]
        assert pick is not None
        assert (pick.t, pick.u, pick.v) == (t[best], u[best], v[best])
        assert (pick.leaf, pick.prim_id) == (scene.leaf[row], scene.prim[row])
        assert pick.path == (pick.leaf // 2, pick.leaf % 2)
        assert pick.instance_id == pick.leaf // 2
        assert pick.name == f"part {pick.leaf // 2}" and pick.screen_distance == 0.0
        hovered = scene.picker(camera)(x, y)
        assert hovered is not None and hovered._hit == pick._hit
        everything = scene.pick_all(camera, x, y)
        assert [p.t for p in everything] == sorted(t[hit].tolist())
        assert everything[0]._hit == pick._hit
        found += 1
    assert found > 30


def test_attributes_of_a_pick(rng: np.random.Generator) -> None:
    """Position, normals, uv and what is nearest, by their definitions."""
    vertices, faces = sphere(3)
    vertices = vertices / np.linalg.norm(vertices, axis=1, keepdims=True)
    ball = bvh.BVH.from_triangles(vertices, faces)
    camera = some_camera()
    for mirrored in (False, True):
        linear = np.linalg.qr(rng.normal(0, 1, (3, 3)))[0] * [1.0, 2.0, 0.5]
        if (np.linalg.det(linear) < 0) != mirrored:
            linear[0] = -linear[0]
        matrix = np.hstack([linear, [[0.1], [0.2], [0.3]]])
        scene = FlatScene([(ball, matrix, 1, 2)])
        scene._attributes[id(ball)] = (ball, Attributes(vertices, vertices[:, :2]))
        for x, y in rng.uniform([60, 40], [100, 80], (50, 2)):
            pick = scene.pick(camera, x, y)
            if pick is None:
                continue
            at = np.add(*(np.array(part) for part in (pick._ray[:3], 0.0)))
            at = at + pick.t * np.array(pick._ray[3:])
            assert np.allclose(pick.position, at, atol=1e-12)
            assert np.allclose(linear @ pick.local_position + matrix[:, 3], at, atol=1e-12)
            assert np.allclose(camera.project(pick.position)[:2], (x, y), atol=1e-9)
            assert np.isclose(np.linalg.norm(pick.normal), 1.0)
            assert (pick.normal @ np.array(pick._ray[3:]) < 0) == pick.front != mirrored
            local = pick.local_position / np.linalg.norm(pick.local_position)
            wanted = local @ np.linalg.inv(linear)
            wanted /= np.linalg.norm(wanted)
            assert pick.smooth_normal is not None and pick.smooth_normal @ wanted > 0.98
            assert pick.uv is not None and np.allclose(pick.uv, pick.local_position[:2])
            corners = world_triangles(scene)[pick.prim_id]
            px, py, _ = camera.project(corners)
            distance = np.hypot(px - x, py - y)
            near = pick.vertex
            assert near is not None and near.id == faces[pick.prim_id][distance.argmin()]
            assert np.isclose(near.distance, distance.min())
            assert np.array_equal(near.position, corners[distance.argmin()])
            edge = pick.edge
            assert edge is not None
            t = np.linspace(0, 1, 2001)[:, None]
            along = [a + t * (b - a) for a, b in zip(corners, np.roll(corners, -1, 0), strict=True)]
            every = [np.hypot(*(np.array(camera.project(p)[:2]).T - (x, y)).T) for p in along]
            best = int(np.argmin([d.min() for d in every]))
            assert np.isclose(edge.distance, every[best].min(), atol=0.02)
            assert edge.vertices == (
                faces[pick.prim_id][edge.side], faces[pick.prim_id][(edge.side + 1) % 3]
            )  # fmt: skip
            told = json.loads(json.dumps(pick.resolve().as_dict()))
            assert told["prim_id"] == pick.prim_id and told["vertex"]["id"] == near.id
            assert "prim_id" in repr(pick)
        bare = FlatScene([(ball, IDENTITY, 1, 0)]).pick(camera, 80, 60)
        assert bare is not None and bare.uv is None and bare.smooth_normal is None


def wire(points: Any) -> bvh.BVH:
    """Return faces without area: the segments between points."""
    n = len(points)
    faces = [[k, k + 1, k + 1] for k in range(n - 1)] or [[0, 0, 0]]
    return bvh.BVH.from_triangles(points, faces)


def test_wires_and_points_are_picked_within_the_radius() -> None:
    camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 100.0, 100, 100)
    # In pixels: x to the right and y down, both with 50 in the middle.
    line = wire([[-20, 10, 2], [20, 10, 2]])
    dot = wire([[0, -10, 1]])
    floor = bvh.BVH.from_triangles(
        [[-40, -40, 0], [40, -40, 0], [40, 40, 0], [-40, 40, 0]], [[0, 1, 2], [0, 2, 3]]
    )
    scene = FlatScene([(floor, IDENTITY, 1, 0), (line, IDENTITY, 1, 1), (dot, IDENTITY, 1, 2)])
    # On the floor behind the wire; the wire is nearer to the camera, and 3 pixels away.
    pick = scene.pick(camera, 55.5, 43.0)
    assert pick is not None and pick.instance_id == 0
    assert scene.pick(camera, 55.5, 43.0, 2.9).instance_id == 0  # type: ignore[union-attr]
    pick = scene.pick(camera, 55.5, 43.0, 3.0)
    assert pick is not None and (pick.instance_id, pick.prim_id) == (1, 0)
    assert pick.screen_distance == 3.0 and np.allclose(pick.position, [5.5, 10.0, 2.0])
    assert pick.t == 7.0 and pick.vertex is not None and pick.vertex.id == 1
    pick = scene.pick(camera, 52.0, 60.0, 2)
    assert pick is not None and pick.instance_id == 2 and np.allclose(pick.position, [0, -10, 1])
    # From below, the floor hides them; masked, it does not.
    below = bvh.Camera.orthographic([0, 0, -9], [0, 0, 0], [0, 1, 0], 100.0, 100, 100)
    pick = scene.pick(below, 52.0, 60.0, 5)
    assert pick is not None and pick.instance_id == 0
    apart = FlatScene([(floor, IDENTITY, 2, 0), (dot, IDENTITY, 1, 2)])
    assert apart.pick(below, 52.0, 60.0, 5).instance_id == 0  # type: ignore[union-attr]
    assert apart.pick(below, 52.0, 60.0, 5, mask=1).instance_id == 2  # type: ignore[union-attr]
    assert apart.pick(below, 56.0, 60.0, 5, mask=1) is None


def test_a_hit_stands_for_its_instance(rng: np.random.Generator) -> None:
    """With a radius: of all instances the nearest, by dense sampling of the disc."""
    ball = bvh.BVH.from_triangles(*sphere(2))
    rows = []
    for i in range(10):
        matrix = np.hstack([0.2 * np.eye(3), rng.normal(0, 1.0, (3, 1))])
        rows.append((ball, matrix, 1, i))
    scene, camera, reach = FlatScene(rows), some_camera(), 6.0
    angle = rng.random(4000) * 2 * np.pi
    radius = reach * np.sqrt(rng.random(4000)) * 0.999
    offsets = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    beside = 0
    for x, y in rng.uniform([30, 20], [130, 100], (150, 2)):
        pick = scene.pick(camera, x, y, reach)
        hits = scene.closest_hit(*camera.ray(x + offsets[:, 0], y + offsets[:, 1]))
        seen = set(np.unique(hits.instance_id[hits.prim_id >= 0]).tolist())
        own = scene.pick(camera, x, y)
        if pick is None:
            assert not seen and own is None
            continue
        assert pick.screen_distance <= reach
        if own is not None:
            assert pick.t <= own.t
        if pick.screen_distance == 0.0:
            assert own is not None and pick._hit == own._hit
        else:
            beside += 1
            assert own is None or own.instance_id != pick.instance_id
            at = camera.project(pick.position)
            assert np.isclose(np.hypot(at[0] - x, at[1] - y), pick.screen_distance)
            some = hits.instance_id == pick.instance_id
            if some.any():
                # None of the samples is nearer.
                assert np.hypot(*offsets[some].T).min() > pick.screen_distance - 1e-9
    assert beside > 20


@pytest.mark.parametrize("count", [100, pytest.param(100_000, marks=pytest.mark.long)])
def test_the_nearest_of_oriented_boxes(rng: np.random.Generator, count: int) -> None:
    """The article's job: under the mouse the nearest box, never the first."""
    half = rng.uniform(0.2, 1.0, (count, 3)) * 4.0 / count ** (1 / 3)
    transforms = np.tile(np.eye(4), (count, 1, 1))
    transforms[:, :3, :3] = np.linalg.qr(rng.normal(0, 1, (count, 3, 3)))[0]
    transforms[:, :3, 3] = rng.uniform(-4, 4, (count, 3))
    tree = bvh.BVH.from_obbs(-half, half, transforms)
    scene, camera = FlatScene([(tree, IDENTITY, 1, 0)]), some_camera()
    behind = found = 0
    for x, y in rng.uniform([40, 30], [120, 90], (60, 2)):
        pick = scene.pick(camera, x, y)
        hit, near, _ = bvh.ray_obb(*camera.ray(x, y), -half, half, transforms)
        if not hit.any():
            assert pick is None
            continue
        best = int(np.where(hit, near, np.inf).argmin())
        assert pick is not None and (pick.prim_id, pick.t) == (best, near[best])
        found += 1
        behind += int(np.flatnonzero(hit)[0]) != best
        ray = np.array(pick._ray)
        assert pick.normal @ ray[3:] < 0 and pick.front
        local = np.linalg.inv(transforms[best])[:3] @ [*(ray[:3] + pick.t * ray[3:]), 1.0]
        side = np.abs(local) / half[best]
        assert np.isclose(side.max(), 1.0)
        axis = transforms[best][:3, int(side.argmax())]
        assert np.isclose(np.abs(axis @ pick.normal), 1.0)
        assert pick.vertex is None and pick.edge is None and pick.uv is None
        json.dumps(pick.as_dict(), allow_nan=False)
    assert found > 20 and behind > 10


def test_nearest_points_on_what_reaches_behind_the_eye() -> None:
    """A floor under the camera: the nearest point is found on the part in front."""
    camera = bvh.Camera.look_at([0, 0, 1], [0, 9, 1], [0, 0, 1], 90.0, 100, 100)
    floor = np.array([[[-50, -50, 0], [50, -50, 0], [0, 80, 0.0]]])
    # Above the horizon, at (50, 49.375), which is the image of the far corner.
    near = nearest_on_triangles(camera, floor, 50.0, 40.0)
    assert np.isclose(near.distance[0], 10.625) and np.isclose(near.depth[0], 80.0)
    assert np.allclose(near.weights[0], [0, 0, 1])
    # On the floor itself.
    near = nearest_on_triangles(camera, floor, 50.0, 75.0)
    assert near.distance[0] == 0.0 and np.isclose(near.depth[0], 2.0)
    assert np.allclose(near.weights[0] @ floor[0], [0, 2, 0])
    # All of it behind.
    assert nearest_on_triangles(camera, floor - [0, 200, 0], 50.0, 75.0).distance[0] == np.inf


def test_slanting_parallel_rays_pick_wires_in_front_of_a_wall() -> None:
    """Depth does not grow along such rays as along the normal of the picture."""
    wall = bvh.BVH.from_triangles(
        [[-99, -99, -5], [99, -99, -5], [99, 99, -5], [-99, 99, -5.0]], [[0, 1, 2], [0, 2, 3]]
    )
    for slant in (-3.0, 0.0, 0.5, 2.0):
        projection = np.diag([0.5, 0.5, -0.1, 1.0])
        projection[0, 2] = slant
        camera = bvh.Camera.from_matrices(np.eye(4), projection, 100, 100)
        for aside in (-4.0, 2.0):
            origin, direction = camera.ray(50.0 + aside, 50.0)
            x, y, z = origin + 4.9 * direction
            line = wire([[x, y - 9, z], [x, y + 9, z]])
            scene = FlatScene([(wall, IDENTITY, 1, 0), (line, IDENTITY, 1, 1)])
            pick = scene.pick(camera, 50.0, 50.0, 5)
            assert pick is not None and pick.instance_id == 1


def test_contact_behind_the_eye_of_parallel_rays() -> None:
    """What lies on a wall is seen in front of it, also where depths are negative."""
    for z in (-5.0, 5.0):
        camera = bvh.Camera.orthographic([0, 0, 0], [0, 0, -1], [0, 1, 0], 4.0, 99, 99, near=-9)
        wall = bvh.BVH.from_triangles(
            [[-9, -9, z], [9, -9, z], [9, 9, z], [-9, 9, z]], [[0, 1, 2], [0, 2, 3]]
        )
        line = wire([[0.05, -5, z], [0.05, 5, z]])
        face = bvh.BVH.from_triangles([[0, 0, z], [0.5, 0, z], [0, 0.5, z]], [[0, 1, 2]])
        scene = FlatScene([(line, IDENTITY, 1, 0), (wall, IDENTITY, 1, 1), (face, IDENTITY, 1, 2)])
        pick = scene.pick(camera, 49.5, 49.5, 5)
        assert pick is not None and pick.instance_id == 0
        told = scene.pick_rect(camera, 0, 0, 99, 99, what="vertices", visible_only=True)
        assert told.instance_id.tolist() == [2] and told.ids.tolist() == [0, 1, 2]


def test_a_pick_stays_what_it_was() -> None:
    """Whatever comes or goes between the pick and the question."""
    camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
    face = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    for radius in (0.0, 2.0):
        scene, lifted = bvh.Scene(), np.eye(4)
        lifted[2, 3] = 1.0
        low, high = scene.add(face, name="low"), scene.add(face, lifted, name="high")
        held = [scene.pick(camera, 55, 45, radius) for _ in range(3)]
        held += [*scene.pick_all(camera, 55, 45)[:1], scene.picker(camera)(55, 45)]
        again = pickle.loads(pickle.dumps(held[0]))
        scene.set_transform(high, np.diag([1.0, 1.0, -1.0, 1.0]))
        scene.remove(low)
        for pick in (*held, again):
            assert pick is not None and (pick.instance_id, pick.name) == (high, "high")
            assert scene[pick.instance_id].child is face or pick is again
        scene.remove(high)
        assert scene.pick(camera, 55, 45, radius) is None
        assert pick is not None and np.allclose(pick.position[:2], 0.2)
        kept = (pick.position, pick.local_position, pick.normal, pick.vertex.position)  # type: ignore[union-attr]
        assert not any(array.flags.writeable for array in kept)
    with pytest.raises(TypeError, match="camera must be a Camera, got NoneType"):
        scene.pick(None, 1, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="camera must be a Camera, got int"):
        scene.picker(3)  # type: ignore[arg-type]


def test_hostile_cursors(rng: np.random.Generator) -> None:
    scene, camera = some_scene(rng, 4), some_camera()
    for x, y in ((np.nan, 5.0), (5.0, np.inf), (1e300, 0.0), (-1e9, 1e9)):
        for radius in (0.0, 3.0):
            assert scene.pick(camera, x, y, radius) is None
        assert scene.pick_all(camera, x, y) == []
    for radius in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="radius must be"):
            scene.pick(camera, 1, 1, radius)
    assert not hasattr(object.__new__(Pick), "__dict__")
