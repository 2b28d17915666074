"""Trees over points and segments: nearest ones by brute force, overlaps, picks, no hit by a ray."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH

KINDS = ["points", "segments"]


def thin(kind: str, rng: np.random.Generator, count: int = 500) -> tuple[BVH, np.ndarray]:
    """Return a tree and the ends of what it is over, (n, 2, 3)."""
    p = rng.random((count, 3))
    if kind == "points":
        return BVH.from_points(p), np.stack([p, p], axis=1)
    q = p + rng.normal(size=p.shape) * 0.1
    q[::7] = p[::7]
    return BVH.from_segments(p, q), np.stack([p, q], axis=1)


def distances(x: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the distance of each point to each segment."""
    way = ends[:, 1] - ends[:, 0]
    square = (way * way).sum(axis=1)
    t = ((x[:, None] - ends[:, 0]) * way).sum(axis=2) / np.where(square == 0.0, 1.0, square)
    near = ends[:, 0] + np.clip(t, 0.0, 1.0)[:, :, None] * way
    return np.linalg.norm(near - x[:, None], axis=2)


@pytest.mark.parametrize("kind", KINDS)
def test_nearest(kind: str, rng: np.random.Generator) -> None:
    """The closest and the k nearest, in a tree and in a scene."""
    tree, ends = thin(kind, rng)
    assert repr(tree) == f"BVH(500 {kind}, {tree.arrays.nodes.size} nodes)"
    x = rng.random((50, 3))
    wanted = distances(x, ends)
    order = np.argsort(wanted, axis=1, kind="stable")[:, :4]
    found = tree.closest_point(x, k=4)
    assert np.array_equal(found.prim_id, order)
    assert np.abs(found.distance - np.take_along_axis(wanted, order, axis=1)).max() < 1e-15
    scene = bvh.Scene()
    scene.add(tree)
    again = scene.closest_point(x)
    assert np.array_equal(again.prim_id, order[:, 0])
    copy = pickle.loads(pickle.dumps(tree))
    assert np.array_equal(copy.closest_point(x).prim_id, again.prim_id)


@pytest.mark.parametrize("kind", KINDS)
def test_overlaps_and_distances(kind: str, rng: np.random.Generator, tmp_path: Path) -> None:
    """Balls and boxes, another tree; rays miss; saved files; refits."""
    tree, ends = thin(kind, rng)
    center = np.full((1, 3), 0.5)
    inside = np.flatnonzero(distances(center, ends)[0] <= 0.25)
    assert tree.overlap_sphere(center[0], 0.25).prim_id.tolist() == inside.tolist()
    if kind == "points":
        kept = ((ends[:, 0] >= 0.25) & (ends[:, 0] <= 0.75)).all(axis=1)
        found = tree.overlap_box([0.25] * 3, [0.75] * 3).prim_id
        assert found.tolist() == np.flatnonzero(kept).tolist()
    ball = BVH.from_mesh(trimesh.creation.icosphere(3))
    lifted = np.eye(4)
    lifted[2, 3] = 5.0
    least = min(ball.distance(p) for p in ends.reshape(-1, 3) - lifted[:3, 3])
    assert tree.distance_to(ball, lifted).distance == pytest.approx(least, rel=1e-12)
    x = rng.random((200, 3))
    assert not tree.any_hit(x, ends[:200, 0] - x).any()
    tree.save(tmp_path / "thin.bvh")
    assert repr(bvh.load(tmp_path / "thin.bvh")) == repr(tree)
    tree.refit(tree.vertices + 1.0)
    assert len(tree.overlap_box([1.0] * 3, [1.9] * 3))


@pytest.mark.parametrize("kind", KINDS)
def test_picks(kind: str, rng: np.random.Generator) -> None:
    """Within some pixels, by a rectangle; in a scene beside a mesh that hides what is behind it."""
    camera = bvh.Camera.look_at([0.5, 0.5, 5], [0.5, 0.5, 0.5], [0, 1, 0], 40.0, 400, 300)
    tree, ends = thin(kind, rng, 3)
    at = ends[0].mean(axis=0)
    x, y = camera.project(at)[:2]
    picked = tree.pick(camera, x + 2.0, y, radius=4.0)
    assert picked is not None
    assert picked.prim_id == 0 or kind == "segments"
    assert tree.pick(camera, x, y) is None
    scene = bvh.Scene()
    scene.add(tree, name="thin")
    chosen = scene.pick_rect(camera, x - 3, y - 3, x + 3, y + 3)
    assert len(chosen)
    wall = BVH.from_mesh(trimesh.creation.box(bounds=[[-3, -3, 2], [3, 3, 2.5]]))
    scene.add(wall, name="wall")
    assert scene.pick(camera, x + 2.0, y, radius=4.0).name == "wall"


def test_objects_of_other_libraries(rng: np.random.Generator) -> None:
    """Point clouds, paths and lines of trimesh, PyVista and Open3D."""
    points = rng.random((4, 3))
    made: list[tuple[Any, str, int]] = [
        (trimesh.PointCloud(points), "points", 4),
        (trimesh.load_path(points), "segments", 3),
        (trimesh.load_path(points[:, :2]), "segments", 3),
    ]
    pv = pytest.importorskip("pyvista")
    made += [
        (pv.PolyData(points), "points", 4), (pv.PointSet(points), "points", 4),
        (pv.lines_from_points(points), "segments", 3), (pv.MultipleLines(points), "segments", 3),
    ]  # fmt: skip
    try:
        import open3d
    except ImportError:
        open3d = None
    if open3d is not None:
        cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(points))
        lines = open3d.geometry.LineSet(
            cloud.points, open3d.utility.Vector2iVector(np.array([[0, 1], [2, 3]], np.int32))
        )
        made += [(cloud, "points", 4), (lines, "segments", 2)]
        made += [(open3d.t.geometry.PointCloud.from_legacy(cloud), "points", 4)]
        made += [(open3d.t.geometry.LineSet.from_legacy(lines), "segments", 2)]
    for mesh, noun, count in made:
        tree = BVH.from_mesh(mesh)
        assert repr(tree).startswith(f"BVH({count} {noun}"), type(mesh)
        assert tree.distance(tree.vertices[0]) == 0.0


def test_none_at_all() -> None:
    with pytest.warns(bvh.BVHWarning):
        assert len(BVH.from_points(np.empty((0, 3)))) == 0
