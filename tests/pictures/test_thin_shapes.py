"""Pictures and selections of trees over points and segments, which rays never hit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image
from typer.testing import CliRunner

import bvh
from bvh.apps.cli.cli import app
from bvh.apps.viewer.drawing import PageFrame, drawing_of, face_triangles
from bvh.pictures.drawn_shapes import faces_of_each, thickened
from bvh.pictures.rendering import render

POINTS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [np.nan, 0, 0], [1, 1, 0.5]])
CAMERA = bvh.Camera.look_at([0.5, 0.5, 6], [0.5, 0.5, 0], [0, 1, 0], 30.0, 80, 60)


@pytest.mark.parametrize("kind", ["points", "segments"])
def test_balls_and_tubes_are_closed(kind: str) -> None:
    """Each is closed, faces outward, and encloses its point or segment."""
    ends = np.where(np.isfinite(POINTS), POINTS, 0.25) + [0.3, -0.2, 0.1]
    ends[0] = POINTS[0]  # A segment without length.
    tree = bvh.BVH.from_points(POINTS)
    if kind == "segments":
        tree = bvh.BVH.from_segments(POINTS, ends)
    vertices, faces = thickened(tree, 0.05)
    each = faces_of_each(tree)
    assert len(faces) == each * len(tree)
    for k in np.flatnonzero(np.isfinite(POINTS).all(axis=1)).tolist():
        ball = trimesh.Trimesh(vertices, faces[k * each : (k + 1) * each], process=False)
        assert ball.is_watertight and ball.volume > 0.0
        solid = bvh.BVH.from_mesh(ball)
        assert solid.contains(POINTS[k]) and (kind == "points" or solid.contains(ends[k]))
        assert np.abs(solid.distance(POINTS[k])) <= 0.05


def test_each_point_is_drawn_where_it_is() -> None:
    """The ids of pixels are those of the tree; misses and points that are not finite have none."""
    cloud = bvh.BVH.from_points(POINTS)
    ids = render(cloud, CAMERA, data="id").data["id"]
    assert set(np.unique(ids).tolist()) == {-1, 0, 1, 2, 4}
    for k in (0, 1, 2, 4):
        x, y = CAMERA.project(POINTS[k])[:2]
        rows, columns = np.nonzero(ids == k)
        assert np.hypot(rows + 0.5 - y, columns + 0.5 - x).max() < 3.0
    with pytest.raises(ValueError, match='"cost" is for what rays hit, not for points'):
        render(cloud, CAMERA, "cost")
    assert (render(bvh.BVH.from_points(POINTS[3:4]), CAMERA, data="id").data["id"] == -1).all()


def test_wires_are_drawn() -> None:
    wires = bvh.BVH.from_segments(POINTS[[0, 1]], POINTS[[1, 2]])
    ids = render(wires, CAMERA, data="id").data["id"]
    for k, middle in enumerate(([0.5, 0, 0], [0.5, 0.5, 0])):
        x, y = CAMERA.project(middle)[:2]
        assert ids[int(y), int(x)] == k


def test_the_viewer_draws_them() -> None:
    scene = bvh.Scene()
    scene.add(bvh.BVH.from_points(POINTS[:3]), name="cloud")
    scene.add(bvh.BVH.from_segments(POINTS[:2], POINTS[1:3]), name="wires")
    parts = drawing_of(scene, PageFrame.around(scene.bounds)).parts
    assert [len(part.faces) for part in parts] == [3 * 8, 2 * 24]
    tree = scene.leaves.trees[0]
    marked = face_triangles(tree, np.array([1]))
    assert np.allclose(marked.mean(axis=(0, 1)), POINTS[1], atol=1e-12)


def test_those_hidden_by_a_face_are_not_visible() -> None:
    """Alone all are; behind a wall only those beyond its border are."""
    scene = bvh.Scene()
    scene.add(bvh.BVH.from_points(POINTS), name="cloud")
    scene.add(bvh.BVH.from_segments(POINTS[[0, 2]], POINTS[[2, 4]]), name="wires")
    everything = (0, 0, 80, 60)

    def seen() -> dict[int, list[int]]:
        found = scene.pick_rect(CAMERA, *everything, visible_only=True)
        ids = np.split(found.ids, found.offsets[1:-1])
        return {i: each.tolist() for i, each in zip(found.instance_id.tolist(), ids, strict=True)}

    assert seen() == {0: [0, 1, 2, 4], 1: [0, 1]}
    # A wall before x < 0.3, which hides two of the points and the first segment.
    wall = trimesh.creation.box([2.0, 4.0, 0.1])
    wall.apply_translation([-0.7, 0.5, 3.0])
    scene.add(wall, name="wall")
    x = CAMERA.project([0.3, 0.5, 3.05])[0]
    hidden = [k for k in (0, 1, 2, 4) if CAMERA.project(POINTS[k])[0] < x]
    assert hidden == [0, 2]
    assert {i: each for i, each in seen().items() if i < 2} == {0: [1, 4], 1: [1]}


def test_commands_take_clouds(tmp_path: Path) -> None:
    path = tmp_path / "cloud.ply"
    trimesh.PointCloud(POINTS[:3]).export(path)
    told = CliRunner().invoke(app, ["info", str(path)])
    assert told.exit_code == 0 and "points          3" in told.stdout
    # They are no surface, closed or open.
    assert "closed" not in told.stdout
    picture = tmp_path / "cloud.png"
    told = CliRunner().invoke(
        app, ["render", str(path), "-o", str(picture), "--shade", "material", "--size", "64x48"]
    )
    assert told.exit_code == 0 and len(np.unique(np.asarray(Image.open(picture).convert("L")))) > 5
    told = CliRunner().invoke(app, ["view", str(path), "--html", str(tmp_path / "cloud.html")])
    assert told.exit_code == 0 and "3 points" in told.stdout
