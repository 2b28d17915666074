"""Picks near spheres and capsules, against points spread over their surfaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bvh

FLAT = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 6.0, 120, 90)
DEEP = bvh.Camera.look_at([1.0, 2.0, 7.0], [0, 0, 0], fov_y=50, width=120, height=90)
CUT = bvh.Camera.look_at([0, 0, 4.0], [0, 0, 0], [0, 1, 0], 60, 120, 90, near=3.2, far=4.3)
CAMERAS = {"parallel": FLAT, "perspective": DEEP, "cut": CUT}


def slanting() -> Any:
    """Return a camera whose parallel rays are not perpendicular to its picture."""
    clip = np.diag([0.25, 0.3, -0.05, 1.0])
    clip[0, 2], clip[1, 2] = 0.1, -0.15
    return bvh.Camera.from_matrices(np.eye(4), clip, 120, 90)


def spread(p: Any, q: Any, radius: float, count: int = 120) -> np.ndarray:
    """Return points of the surface around an axis, those at right angles to it included."""
    p, q = np.array(p, float), np.array(q, float)
    axis = q - p if (p != q).any() else np.array([0.0, 0.0, 1.0])
    frame = np.linalg.svd(axis[None])[2]
    turn, rise = np.linspace(0, 2 * np.pi, count), np.linspace(-np.pi / 2, np.pi / 2, count + 1)
    a, b = np.meshgrid(turn, rise)
    ring = np.cos(a)[..., None] * frame[1] + np.sin(a)[..., None] * frame[2]
    unit = np.cos(b)[..., None] * ring + np.sin(b)[..., None] * axis / np.linalg.norm(axis)
    ends = [p + radius * unit[b <= 0.0], q + radius * unit[b >= 0.0]]
    middle = np.linspace(p, q, 400)[:, None] + radius * ring[0]
    return np.concatenate([*ends, middle.reshape(-1, 3)])


def nearest(camera: Any, points: np.ndarray, x: float, y: float) -> float:
    """Return the least distance in pixels of points that are seen."""
    px, py, depth = camera.project(points)
    seen = (depth >= camera.near) & (depth <= camera.far)
    return float(np.hypot(px - x, py - y)[seen].min(initial=np.inf))


@pytest.mark.parametrize("view", [*CAMERAS, "slanting"])
def test_distances(view: str, rng: np.random.Generator) -> None:
    """One sphere or capsule: as near as the nearest of many points of it; also in scenes."""
    camera = CAMERAS[view] if view in CAMERAS else slanting()
    near = 0
    for k in range(18):
        p, q = rng.uniform(-1.5, 1.5, (2, 3))
        radius = float(rng.choice([0.0, 0.02, 0.3, 0.8]))
        if k % 3 == 0:
            q = p
        if k % 3 == 1:
            q = p + rng.choice([0.0, 1e-9, 1.0]) * np.eye(3)[k % 9 // 3]
        tree = bvh.BVH.from_spheres([p], radius) if k % 2 and k % 3 == 0 else bvh.BVH.from_capsules(
            [p], [q], radius)  # fmt: skip
        points, scene = spread(p, q, radius), bvh.Scene()
        scene.add(tree, name="it")
        for x, y in rng.uniform(0.0, [120.0, 90.0], (12, 2)).tolist():
            pick, again = tree.pick(camera, x, y, 15.0), scene.pick(camera, x, y, 15.0)
            bound = nearest(camera, points, x, y)
            slack = 2e-2 + (2.0 if view == "cut" else 0.0)
            assert (pick is None) == (again is None)
            if pick is None:
                assert bound > 15.0 - slack
                continue
            assert again.name == "it" and again.screen_distance == pick.screen_distance
            assert (again.position == pick.position).all() and again.t == pick.t
            if pick.screen_distance == 0.0:
                assert tree.pick(camera, x, y).t == pick.t
                continue
            near += 1
            assert not tree.any_hit(*np.split(np.array(camera.ray(x, y)).ravel(), 2),
                                    camera.near, camera.far)  # fmt: skip
            assert bound <= np.hypot(pick.screen_distance, 0.4) + slack
            assert pick.screen_distance <= min(bound + 1e-7, 15.0) + (0.2 if view == "cut" else 0.0)
            at = np.array(camera.project(pick.position))
            np.testing.assert_allclose(
                np.hypot(*(at[:2] - [x, y])), pick.screen_distance, atol=1e-6
            )
            np.testing.assert_allclose(at[2], pick.t, rtol=1e-12)
            off = 1e-12 if view != "cut" else 6e-3
            assert tree.distance(pick.position) <= off
    assert near > 20


def test_the_nearest_to_the_camera(rng: np.random.Generator) -> None:
    """Of several instances the one in front; hidden ones, and those under a mask, are not found."""
    scene = bvh.Scene()
    scene.add(bvh.BVH.from_spheres([[0, 0, 0]], 1.0), name="ball")
    matrix = np.diag([0.5, -0.5, 0.5, 1.0])
    matrix[:3, 3] = 0.0, 0.0, 4.0
    scene.add(bvh.BVH.from_capsules([[-4, 0, 0]], [[4, 0, 0]], 0.1), matrix, name="bar", mask=2)
    scene.add(bvh.BVH.from_boxes([[-9, -9, -3]], [[9, 9, -2]]), name="wall")
    x, y, _ = FLAT.project([0.5, 0.1, 4.0])
    assert scene.pick(FLAT, x, y).name == "ball"
    pick = scene.pick(FLAT, x, y, 3.0)
    assert pick.name == "bar" and pick.vertex is None and np.isnan(pick.u)
    np.testing.assert_allclose(pick.position, [0.5, 0.05, 4.0], atol=1e-7)
    np.testing.assert_allclose(pick.normal, [0.0, 1.0, 0.0], atol=1e-7)
    np.testing.assert_allclose(pick.screen_distance, 0.05 * 15.0)
    assert pick.as_dict()["name"] == "bar" and not pick.front
    assert scene.pick(FLAT, x, y, 3.0, mask=1).name == "ball"
    assert scene.picker(FLAT, radius=3.0)(x, y).name == "bar"
    # Behind the wall.
    scene.add(bvh.BVH.from_spheres([[2.5, 0, -5]], 0.1), name="hidden")
    x, y, _ = FLAT.project([2.7, 0, -5])
    assert scene.pick(FLAT, x, y, 5.0).name == "wall"
    assert scene.pick(FLAT, x, y, 5.0, mask=0) is None


@pytest.mark.parametrize("count", [40, 5000])
def test_many(count: int, rng: np.random.Generator) -> None:
    """A tree of many: the nearest to the cursor of those not hidden, as one by one."""
    p = rng.uniform(-2.0, 2.0, (count, 3))
    q = p + rng.normal(scale=0.02, size=(count, 3))
    radii = rng.uniform(0.0, 0.1, count) * (40 / count) ** 0.5
    tree = bvh.BVH.from_capsules(p, q, radii)
    found = 0
    for x, y in rng.uniform(0.0, [120.0, 90.0], (40, 2)).tolist():
        pick = tree.pick(DEEP, x, y, 2.0)
        if pick is None or pick.screen_distance == 0.0:
            continue
        found += 1
        i = pick.prim_id
        alone = bvh.BVH.from_capsules(p[i : i + 1], q[i : i + 1], radii[i])
        distance = alone.pick(DEEP, x, y, 2.0).screen_distance
        assert abs(distance - pick.screen_distance) < 1e-9
        px, py, _ = DEEP.project(0.5 * p + 0.5 * q)
        for k in np.flatnonzero(np.hypot(px - x, py - y) < pick.screen_distance).tolist():
            # A nearer one is hidden.
            one = bvh.BVH.from_capsules(p[k : k + 1], q[k : k + 1], radii[k]).pick(DEEP, x, y, 2.0)
            assert one.screen_distance >= pick.screen_distance or one.screen_distance > 0.0
    assert found > 1


def test_hostile() -> None:
    """The eye in a ball, shapes through the plane of the eye, and none at all."""
    for tree in (
        bvh.BVH.from_spheres([[1.0, 2.0, 7.0]], 0.5), bvh.BVH.from_spheres(np.zeros((0, 3)), 1.0),
        bvh.BVH.from_spheres([[np.nan] * 3], 1.0),
        bvh.BVH.from_capsules([[0, 1, 6.0]], [[9, 9, 30.0]], 0.2),
        bvh.BVH.from_spheres([[0, 0, 0]], 1e200), bvh.BVH.from_spheres([[0, 0, 0]], 1e-200),
    ):  # fmt: skip
        for x in (0.0, 60.0, 60.5, 500.0, np.nan):
            pick = tree.pick(DEEP, x, 45.0, 5.0)
            assert pick is None or np.isfinite(pick.position).all()
