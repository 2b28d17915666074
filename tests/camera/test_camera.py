"""Cameras: where the rays of pixels begin and where they go."""

from __future__ import annotations

import itertools
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import Camera

KINDS = (Camera.look_at, Camera.orthographic)


def placed(camera: Camera, points: np.ndarray) -> np.ndarray:
    """Return (x, y, depth) of points in a picture, x and y in pixels, by plain geometry."""
    offset = np.asarray(points) - camera.eye
    depth = offset @ camera.forward
    scale = camera.height / 2 / camera.half_height / (depth if camera.perspective else 1.0)
    x = camera.width / 2 + offset @ camera.right * scale
    y = camera.height / 2 - offset @ camera.up * scale
    return np.stack([x, y, depth], axis=-1)


def some_camera(kind: Any, rng: np.random.Generator, width: int = 7, height: int = 5) -> Camera:
    """Return a camera somewhere, looking somewhere."""
    eye, target, up = rng.normal(size=(3, 3))
    return kind(eye, target, up, rng.uniform(1, 120), width, height)


@pytest.mark.parametrize("kind", KINDS)
def test_rays_go_through_pixel_centres(kind: Any, rng: np.random.Generator) -> None:
    """Pixel (i, j) has its centre at (i + 0.5, j + 0.5); x runs right and y down."""
    for _ in range(50):
        camera = some_camera(kind, rng)
        origins, directions = camera.rays()
        assert origins.shape == directions.shape == (5, 7, 3)
        for j, i in np.ndindex(5, 7):
            for got, wanted in zip(
                camera.ray(i + 0.5, j + 0.5), (origins, directions), strict=True
            ):
                assert got.shape == (3,) and np.array_equal(got, wanted[j, i])
        x, y, depth = np.moveaxis(placed(camera, origins + 3.0 * directions), -1, 0)
        assert np.allclose(x, np.arange(7) + 0.5, rtol=0, atol=1e-9)
        assert np.allclose(y, np.arange(5)[:, None] + 0.5, rtol=0, atol=1e-9)
        # t is depth along the view.
        assert np.allclose(depth, 3.0, rtol=1e-12)
        # The middle pixel looks along the view.
        assert np.allclose(directions[2, 3], camera.forward, atol=1e-12)
        assert np.allclose(origins[2, 3], camera.eye, atol=1e-12)


def test_known_cameras() -> None:
    """From above, up being y: the picture's right is x."""
    camera = Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2)
    origins, directions = camera.rays()
    assert np.all(origins == [0, 0, 5])
    assert np.allclose(directions[0, :, 0], [-1.5, -0.5, 0.5, 1.5])
    assert np.allclose(directions[:, 0, 1], [0.5, -0.5]) and np.all(directions[..., 2] == -1)
    # The upper border is half the field of view away.
    for fov in (1e-3, 30.0, 90.0, 179.9):
        camera = Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], fov, 40, 30)
        _, top = camera.ray(20, 0)
        assert np.degrees(np.arctan2(top[1], -top[2])) == pytest.approx(fov / 2)
    camera = Camera.orthographic([1, 2, 5], [1, 2, 0], [0, 1, 0], 6.0, 4, 3)
    origins, directions = camera.rays()
    assert np.all(directions == [0, 0, -1]) and np.all(origins[..., 2] == 5)
    assert np.allclose(origins[0, :, 0], [-2, 0, 2, 4])
    assert np.allclose(origins[:, 0, 1], [4, 2, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_axes_are_orthonormal(kind: Any, rng: np.random.Generator) -> None:
    """Near and far, small and large, and however long the given directions are."""
    for scale, offset in itertools.product((1e-150, 1.0, 1e150), (0.0, 1e7)):
        for _ in range(30):
            eye, target, up = rng.normal(size=(3, 3))
            shift = scale * offset
            given = [
                scale * eye + shift,
                scale * target + shift,
                10.0 ** rng.integers(-99, 99) * up,
            ]
            camera = kind(*given)
            axes = np.stack([camera.right, camera.up, -camera.forward])
            assert np.allclose(axes @ axes.T, np.eye(3), rtol=0, atol=1e-14)
            assert np.linalg.det(axes) == pytest.approx(1.0)
            assert camera.up @ up > 0.0
            assert np.allclose(camera.forward, (target - eye) / np.linalg.norm(target - eye),
                               atol=1e-13 if offset == 0.0 else 1e-7)  # fmt: skip
            assert np.array_equal(camera.eye, given[0])


def test_rays_of_points_in_the_picture(rng: np.random.Generator) -> None:
    """`ray` broadcasts, takes what lies outside, and is the inverse of the projection."""
    for kind in KINDS:
        camera = some_camera(kind, rng, 640, 480)
        x, y = rng.uniform(-500, 1500, 20), rng.uniform(-500, 1500, (3, 1))
        origins, directions = camera.ray(x, y)
        assert origins.shape == directions.shape == (3, 20, 3)
        found = placed(camera, origins + 2.5 * directions)
        assert np.allclose(found[..., 0], x) and np.allclose(found[..., 1], y)
        assert camera.ray([1, 2], 3)[1].shape == (2, 3)
        assert camera.ray(np.float32(1), np.int8(3))[0].shape == (3,)
        for bad in (True, 1j, None, "1", [[1], [1, 2]]):
            with pytest.raises((TypeError, ValueError), match="x"):
                camera.ray(bad, 1.0)
        with pytest.raises(ValueError):
            camera.ray([1, 2], [1, 2, 3])


def boxes(rng: np.random.Generator) -> list[np.ndarray]:
    """Return bounds of all kinds."""
    found = [np.sort(rng.normal(size=(2, 3)), axis=0) for _ in range(20)]
    found += [np.sort(rng.normal(size=(2, 3)), axis=0) * [100, 1, 0.01] for _ in range(20)]
    found += [np.array([[0, 0, 0], [1, 1, 1]]) * 10.0**k for k in (-100, -3, 3, 100)]
    found += [1e7 + np.array([[0, 0, 0], [1, 1, 1]]), np.array([[0, 0, 0], [1, 2, 0]])]
    return [*found, np.array([[0, 0, 0], [0, 0, 1]]), np.array([[3, 4, 5], [3, 4, 5]])]


def test_framing_shows_the_whole_box(rng: np.random.Generator) -> None:
    """All corners are inside the picture and before the eye, from every direction."""
    for bounds in boxes(rng):
        corners = np.array(list(itertools.product(*bounds.T)))
        middle = bounds.mean(axis=0)
        directions = [*rng.normal(size=(10, 3)), [1, 0, 0], [0, -1, 1e-3], None]
        for direction in directions:
            size = [(800, 600), (50, 400), (400, 50), (1, 1)][rng.integers(4)]
            fov = [5.0, 35.0, 120.0][rng.integers(3)]
            camera = Camera.framing(bounds, direction, fov_y=fov, width=size[0], height=size[1])
            x, y, depth = placed(camera, corners).T
            assert np.all(depth > 0)
            assert np.all((x >= 0) & (x <= size[0]) & (y >= 0) & (y <= size[1]))
            where = placed(camera, middle)[:2] / size
            assert np.allclose(where, 0.5, atol=1e-6)
            if direction is not None:
                cosine = camera.forward @ direction / np.linalg.norm(direction)
                assert cosine == pytest.approx(1.0)


def extent(camera: Camera, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the size of points in the picture, and their middle, as shares of its sides."""
    places = placed(camera, points)[:, :2] / (camera.width, camera.height)
    low, high = places.min(axis=0), places.max(axis=0)
    return high - low, (low + high) / 2


def test_framing_is_no_wider_than_it_needs(rng: np.random.Generator) -> None:
    """The corner of a cube that is nearest to the border is at four fifths of the way there."""
    bounds, corners = (
        [[-1, -1, -1], [1, 1, 1]],
        np.array(list(itertools.product((-1, 1), repeat=3))),
    )
    for direction in rng.normal(size=(50, 3)):
        camera = Camera.framing(bounds, direction, width=640, height=480)
        x, y, _ = placed(camera, corners).T
        assert max(np.abs(x / 320 - 1).max(), np.abs(y / 240 - 1).max()) == pytest.approx(0.8)


def test_framed_models_fill_four_fifths(rng: np.random.Generator) -> None:
    """Vertices of trees and of instances, exactly and in the middle; unused ones do not count."""
    mesh = trimesh.creation.icosphere(subdivisions=2)
    mesh.vertices *= [3.0, 1.0, 0.5]
    points, faces = np.vstack([mesh.vertices, [[99.0, 0.0, 0.0]]]), mesh.faces
    tree = bvh.BVH.from_triangles(points, faces)
    scene, moves = bvh.Scene(), [np.eye(4) + np.pad(rng.normal(size=(3, 4)), ((0, 1), (0, 0)))]
    scene.add(tree)
    scene.add(tree, moves[0])
    scene.add(tree, np.diag([50.0, 50.0, 50.0, 1.0]), mask=0)
    placed_too = mesh.vertices @ moves[0][:3, :3].T + moves[0][:3, 3]
    for source, seen in ((tree, mesh.vertices), (scene, np.vstack([mesh.vertices, placed_too]))):
        for direction in rng.normal(size=(20, 3)):
            for width, height in ((640, 480), (300, 800), (90, 90)):
                camera = Camera.framing(source, direction, width=width, height=height)
                size, middle = extent(camera, np.asarray(seen))
                assert size.max() == pytest.approx(0.8)
                filled = Camera.framing(source, direction, width=width, height=height, fill=1.0)
                assert extent(filled, np.asarray(seen))[0].max() == pytest.approx(1.0)
                assert np.allclose(middle, 0.5, atol=1e-3)
                assert np.allclose(np.cross(camera.forward, direction), 0.0, atol=1e-12)


def test_framing_of_points_and_boxes() -> None:
    """A single point is in the middle; boxes and oriented boxes are framed by their bounds."""
    point = bvh.BVH.from_triangles([[1.0, 2.0, 3.0]], [[0, 0, 0]])
    boxes = bvh.BVH.from_boxes([[0.0, 0.0, 0.0]], [[1.0, 2.0, 3.0]])
    for tree in (point, boxes):
        if not np.isfinite(tree.bounds).all():
            continue
        camera = Camera.framing(tree, width=80, height=60)
        _, middle = extent(camera, np.array(list(itertools.product(*tree.bounds.T))))
        assert np.allclose(middle, 0.5, atol=1e-3)


def test_framing_by_default_looks_obliquely_down() -> None:
    """Whatever axis is up."""
    for up in (*np.eye(3), *-np.eye(3), [1, 2, 3], [1e-200, 0, 0]):
        camera = Camera.framing([[0, 0, 0], [1, 2, 3]], up=up)
        up = np.asarray(up) / np.abs(up).max()
        assert -0.9 < camera.forward @ up / np.linalg.norm(up) < -0.2
        assert camera.up @ up > 0


def test_rays_meet_the_mesh(rng: np.random.Generator) -> None:
    """Rays aimed at points of the picture hit where those points are in space."""
    tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    cameras = (
        Camera.look_at([1, 1, 9], [1, 1, 0], [0, 1, 0], 50, 64, 48),
        Camera.orthographic([1, 1, 9], [1, 1, 0], [0, 1, 0], 9, 64, 48),
    )
    for camera in cameras:
        hits = tree.closest_hit(*camera.rays())
        assert hits.t.shape == (48, 64) and 0 < hits.mask.sum() < 48 * 64
        points = rng.dirichlet([1, 1, 1], 50) @ tree.vertices
        x, y, depth = placed(camera, points).T
        aimed = tree.closest_hit(*camera.ray(x, y))
        assert aimed.mask.all() and np.allclose(aimed.t, depth)


@pytest.mark.parametrize("kind", KINDS)
def test_a_camera_does_not_change(kind: Any) -> None:
    """It owns its numbers."""
    eye, target = np.array([0.0, 0.0, 5.0]), np.zeros(3)
    camera = kind(eye, target, [0, 1, 0], 40, 8, 6)
    before = [a.copy() for a in camera.rays()]
    eye[:] = 9.0
    for got, wanted in zip(camera.rays(), before, strict=True):
        assert np.array_equal(got, wanted)
    with pytest.raises(FrozenInstanceError):
        camera.width = 9
    assert (type(camera.width), type(camera.height)) == (int, int)


GOOD = {"eye": [0, 0, 5], "target": [0, 0, 0], "up": [0, 1, 0], "width": 8, "height": 6}
BAD = [
    *(({name: value}, name) for name in ("eye", "target", "up") for value in (
        [1, 2], [1, 2, 3, 4], [[1, 2, 3]], 1.0, [0, np.nan, 1], [0, np.inf, 1], "abc",
        [True, False, True], [1j, 0, 0], [[1], [1, 2]])),
    ({"eye": None}, "eye"),
    ({"target": None}, "target"),
    ({"eye": [1, 2, 3], "target": [1, 2, 3]}, "target"),
    ({"up": [0, 0, 0]}, "up"),
    ({"up": [0, 0, 7]}, "up"),
    ({"up": [0, 0, -1e-9]}, "up"),
    *(({name: value}, name) for name in ("width", "height")
      for value in (0, -1, 1.5, "8", None, 8.0)),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_refused(kind: Any) -> None:
    """The message names the argument."""
    assert kind(**GOOD).width == 8
    for change, name in BAD:
        with pytest.raises((TypeError, ValueError), match=name):
            kind(**GOOD | change)


def test_refused_openings_and_bounds() -> None:
    """Fields of view, heights of the view, and what is to be framed."""
    for fov in (0.0, -1.0, 180.0, 400.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="fov_y"):
            Camera.look_at(**GOOD, fov_y=fov)
    for height in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="view_height"):
            Camera.orthographic(**GOOD, view_height=height)
    bounds = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    for bad in (bounds.T, bounds[0], bounds * np.nan, bounds + np.inf, None, "box", bounds > 0):
        with pytest.raises((TypeError, ValueError), match="bounds"):
            Camera.framing(bad)
    for bad in ([0, 0, 0], [0, np.nan, 1], [1, 2]):
        with pytest.raises(ValueError, match="direction"):
            Camera.framing(bounds, bad)
    with pytest.raises(ValueError, match="up"):
        Camera.framing(bounds, [0, 0, 2], up="z")
    for bad in (0.0, -0.5, 1.01, np.nan, "1"):
        with pytest.raises((TypeError, ValueError), match="fill"):
            Camera.framing(bounds, fill=bad)
    with pytest.raises(ValueError, match="bounds"):
        Camera.framing(bvh.BVH.from_triangles([], []).bounds)


def test_along_the_default_up() -> None:
    """Without an axis that is up, a view along the default has another: y on maps, -z under y."""
    for end in ([0, 0, 5], [0, 0, -5]):
        for camera in (Camera.look_at(end, [0, 0, 0]), Camera.orthographic(end, [0, 0, 0])):
            assert np.allclose(camera.project([0, 0.5, 0])[0], camera.width / 2)
            assert camera.project([0, 0.5, 0])[1] < camera.height / 2
    scene = bvh.Scene()
    scene.add(trimesh.creation.box())
    for axis, above in {"y": [0, 0, -0.5], "x": [0, 0, 0.5], "z": [0, 0.5, 0]}.items():
        scene.up = axis
        direction = -np.eye(3)["xyz".index(axis)]
        camera = Camera.framing(scene, direction)
        assert camera.project(above)[1] < camera.height / 2 - 1
        with pytest.raises(ValueError, match="up must not be along the view"):
            Camera.framing(scene, direction, up=axis)


def test_numbers_near_the_largest() -> None:
    """Differences that overflow do not become directions; what has no answer is a ValueError."""
    camera = Camera.look_at([1e308, 0, 5], [-1e308, 0, 5])
    assert camera.forward.tolist() == [-1.0, 0.0, 0.0]
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="bounds"):
        Camera.framing([[-1e308] * 3, [1e308] * 3])
    for bad in ("45", None, [45.0, 46.0]):
        with pytest.raises((TypeError, ValueError), match="fov_y"):
            Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], fov_y=bad)
