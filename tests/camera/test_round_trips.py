"""From pixels to rays and back, what a rectangle shows, and how cameras are counted and kept."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import Camera
from bvh.geometry.arithmetic.rational import triangle_meets_planes
from bvh.pictures.rendering import render
from tests.oracles import cameras as oracle

Rng = np.random.Generator
WAYS = list(itertools.product(("down", "up"), (1.0, 2.0, 1.25)))


def cameras(rng: Rng, size: tuple[int, int] = (640, 480), **options: Any) -> Iterator[Camera]:
    """Make a camera of every kind, near the origin."""
    sizes = {"width": size[0], "height": size[1]}
    eye, target, up = rng.normal(size=(3, 3)) * [[0.5], [3], [1]]
    yield Camera.look_at(eye, target, up, rng.uniform(5, 150), **sizes, **options)
    yield Camera.orthographic(eye, target, up, rng.uniform(0.1, 100), **sizes, **options)
    box = np.sort(rng.normal(size=(2, 3)), axis=0)
    yield Camera.framing(box, rng.normal(size=3), fov_y=50, **sizes, **options)
    k = oracle.intrinsics(rng, *size)
    yield Camera.from_opencv(k, oracle.pose(rng, 0.5), *size, **options)
    for made in oracle.projections(rng):
        view = oracle.pose(rng, 0.5)
        yield Camera.from_matrices(view, made.matrix, *size, **made.options, **options)
    lens = trimesh.scene.Camera(resolution=size, fov=rng.uniform(5, 150, 2))
    yield Camera.from_trimesh(lens, oracle.pose(rng, 0.5), **options)


def places(camera: Camera, rng: Rng) -> np.ndarray:
    """Return the corners of the picture, its middle, and places in and around it, shape (2, n)."""
    size = np.array([camera.width, camera.height]) / camera.pixel_ratio
    corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.5]])
    return (np.concatenate([corners, rng.uniform(-0.2, 1.2, (30, 2))]) * size).T


def blur(camera: Camera, p: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Return how far, in pixels, the rounding of points may carry them: a unit in the last place.

    That of the whole chain of roundings from the ray to the point is a few times as much.
    """
    size = np.abs(p) @ np.abs(camera.gradients[:2]).T.max(axis=1)
    shift = np.abs(p) @ np.abs(camera.gradients[2])
    reach = np.abs(camera.centre).max() + max(camera.width, camera.height) * 1.2
    if not camera.perspective:
        return 2.0**-52 * size
    return 2.0**-52 * (size + reach * shift) / depth


@pytest.mark.parametrize(("y", "ratio"), WAYS)
def test_round_trips(y: str, ratio: float, rng: Rng) -> None:
    """A point on the ray of (x, y) is at (x, y), within 1e-9 of a pixel, and at depth t."""
    for _ in range(5):
        for camera in cameras(rng, y=y, pixel_ratio=ratio):
            x, py = places(camera, rng)
            origin, direction = camera.ray(x, py)
            for t in (1e-3, 0.37, 5.0, 1e3, 1e6):
                p = origin + t * direction
                got = camera.project(p)
                error = np.maximum(np.abs(got[0] - x), np.abs(got[1] - py))
                assert np.all(error <= 1e-10 + 2 * blur(camera, p, t))
                # What is farther is rounded to more than that, where rays are parallel.
                if 0.37 <= t <= (1e6 if camera.perspective else 5.0):
                    assert error.max() < 1e-9
                assert np.allclose(got[2], t, rtol=1e-12, atol=4e-16 * np.abs(p).max() * 3)


@pytest.mark.parametrize("far", [1e3, 1e7])
def test_round_trips_far_from_the_origin(far: float, rng: Rng) -> None:
    """With the eye at 1e7 a pixel is as sharp as the rounding of points there lets it be."""
    for y, ratio in WAYS:
        shift = rng.uniform(-far, far, 3)
        for camera in cameras(rng, y=y, pixel_ratio=ratio):
            moved = Camera(**{**camera._parts(), "eye": camera.eye + shift})
            x, py = places(moved, rng)
            origin, direction = moved.ray(x, py)
            for t in (1.0, 1e3):
                # Points that are exact have no rounding to blame.
                p = origin + t * direction
                got = moved.project(p)
                error = np.maximum(np.abs(got[0] - x), np.abs(got[1] - py))
                assert np.all(error <= 1e-10 + 2 * blur(moved, p, t))
    eye = np.array([1e7, -2e7, 3e7])
    camera = Camera.look_at(eye, eye + [0, 0, -1], [0, 1, 0], 2 * math.degrees(math.atan(0.5)))
    for p in ((0, 0, -4), (0.25, 0.5, -8), (-0.125, 1, -2), (1, -1, -4)):
        x, py, depth = camera.project(eye + p)
        assert x == pytest.approx(400 + 600 * p[0] / -p[2], abs=1e-9)
        assert (py, depth) == (pytest.approx(300 - 600 * p[1] / -p[2], abs=1e-9), -p[2])


@pytest.mark.parametrize(("y", "ratio"), WAYS)
def test_hits_return_to_their_pixels(y: str, ratio: float, rng: Rng) -> None:
    """What the ray of a pixel hits is at that pixel: by its depth, and by its weights."""
    for camera in cameras(rng, y=y, pixel_ratio=ratio):
        x, py = places(camera, rng)
        # A sheet behind the picture, tilted, and wider than it.
        origin, direction = camera.ray(x, py)
        reach = np.abs(origin + 7 * direction - camera.eye).max()
        frame = np.stack([camera.right, camera.up], axis=0)
        corners = 8 * reach * np.array([[-1, -1], [1, -1], [0, 1.5]]) @ frame
        sheet = camera.eye + 5 * camera.forward + corners + 0.02 * corners[:, ::-1]
        tree = bvh.BVH.from_triangles(sheet, [[0, 1, 2]])
        hits = tree.closest_hit(origin, direction, camera.t_min, 1e9)
        seen = hits.t > 0
        weights = np.stack([1 - hits.u - hits.v, hits.u, hits.v], axis=-1)
        for p in (origin + hits.t[:, None] * direction, weights @ sheet):
            got = camera.project(p)
            error = np.maximum(np.abs(got[0] - x), np.abs(got[1] - py))[hits.mask & seen]
            far = 4 * reach * np.ones(3)
            assert len(error) and error.max() < 1e-10 + 8 * blur(camera, far[None], 5.0)[0]
            assert np.allclose(got[2][hits.mask], hits.t[hits.mask], rtol=1e-9)


def test_pictures_are_upright(rng: Rng) -> None:
    """What is rendered to a file does not depend on how the camera counts."""
    tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 1]], [[0, 1, 2]])
    wanted = None
    for y, ratio in (("down", 1.0), ("up", 1.0), ("up", 2.0), ("down", 4.0)):
        camera = Camera.look_at([1, 2, 9], [1, 1, 0], [0, 1, 0], 50, 64, 48, y=y, pixel_ratio=ratio)
        pixels = render(tree, camera).pixels
        wanted = pixels if wanted is None else wanted
        assert np.array_equal(pixels, wanted)


def test_cursor_rays_are_the_same_bits(rng: Rng) -> None:
    """Also outside of the picture, and for whatever kind of number."""
    for y, ratio in WAYS:
        for camera in cameras(rng, y=y, pixel_ratio=ratio):
            for x, py in (*places(camera, rng).T, (0, 7), (np.float32(3), True), (1e300, -1e9)):
                origin, direction = camera.ray(float(x), float(py))
                six = camera.cursor_ray(x, py)
                assert all(type(number) is float for number in six)
                assert six == (*origin, *direction)
            assert math.isnan(camera.cursor_ray(math.nan, 1.0)[0 if not camera.perspective else 3])
    for camera in cameras(rng, (5, 3), pixel_ratio=2.0):
        for part, six in zip(camera.rays(), ((0, 1, 2), (3, 4, 5)), strict=True):
            assert part.shape == (3, 5, 3)
            for j, i in np.ndindex(3, 5):
                ray = camera.cursor_ray((i + 0.5) / 2, (j + 0.5) / 2)
                assert part[j, i].tolist() == [ray[k] for k in six]


def test_ways_of_counting(rng: Rng) -> None:
    """The same camera with y up, or with more device pixels to a unit, sees the same."""
    for seed in rng.integers(2**32, size=2):
        size = (64, 48)
        plain = list(cameras(np.random.default_rng(seed), size))
        for y, ratio in WAYS:
            made = list(cameras(np.random.default_rng(seed), size, y=y, pixel_ratio=ratio))
            for camera, other in zip(plain, made, strict=True):
                x, py = places(camera, rng)
                down = py if y == "down" else camera.height - py
                for a, b in ((other.ray(x / ratio, down / ratio), camera.ray(x, py)),
                             (other.upright().ray(x, py), camera.ray(x, py))):  # fmt: skip
                    for got, wanted in zip(a, b, strict=True):
                        assert np.allclose(got, wanted, rtol=1e-12, atol=1e-12)
                assert np.allclose(other.up, camera.up) and np.allclose(other.right, camera.right)
                assert other.half_height == pytest.approx(camera.half_height)
                for a, b in zip(other.rays(), camera.rays(), strict=True):
                    # The first row is the uppermost with y down, the lowest with y up.
                    a = a if y == "down" else a[::-1]
                    assert np.allclose(a, b, rtol=1e-12, atol=1e-12)


def test_behind_the_eye_and_beyond(rng: Rng) -> None:
    """No pixel shows what is behind a perspective camera; what is not finite is nowhere."""
    for camera in cameras(rng):
        x, y, depth = camera.project(camera.eye - 2 * camera.forward)
        assert depth == pytest.approx(-2.0)
        assert (math.isnan(x) and math.isnan(y)) or not camera.perspective
        x, y, depth = camera.project(camera.eye)
        assert depth == 0.0 and (math.isnan(x) or not camera.perspective)
        good = camera.eye + 3 * camera.forward
        given = np.array([[good, [np.nan, 0, 0]], [[0, np.inf, 0], good]])
        found = camera.project(given)
        for part in found:
            assert part.shape == (2, 2) and np.isnan(part).tolist() == [[0, 1], [1, 0]]
        assert camera.project(given[:0])[0].shape == (0, 2)
        assert [part.shape for part in camera.project([])] == [(0,)] * 3
        assert camera.project(good) == tuple(part[0, 0] for part in found)
        camera.project([1.7e308, -1.7e308, 1.7e308])
    for bad in (None, "point", [1, 2], np.ones((2, 4)), [[1], [1, 2]], [True] * 3):
        with pytest.raises((TypeError, ValueError), match="points"):
            camera.project(bad)


@pytest.mark.parametrize("planes", [(0.0, math.inf), (2.0, 9.0), (2.0, math.inf)])
def test_frusta(planes: tuple[float, float], rng: Rng) -> None:
    """Points are inside if they project into the rectangle, between near and far."""
    met = 0
    for y, ratio in WAYS:
        for camera in cameras(rng, y=y, pixel_ratio=ratio):
            camera = Camera(**{**camera._parts(), "near": planes[0], "far": planes[1]})
            size = np.array([camera.width, camera.height]) / ratio
            x0, y0, x1, y1 = rng.uniform(-0.2, 1.2, 4) * [*size, *size]
            found = camera.frustum(x0, y0, x1, y1)
            assert found.shape == (5 + math.isfinite(planes[1]), 4)
            assert np.allclose(np.linalg.norm(found[:, :3], axis=1), 1.0)
            assert np.array_equal(found[:4], camera.frustum(x1, y1, x0, y0)[:4])
            origin, direction = camera.ray(*(rng.uniform(-1, 2, (400, 2)) * size).T)
            p = origin + rng.uniform(-5, 12, 400)[:, None] * direction
            x, py, depth = camera.project(p)
            margins = [(x - min(x0, x1)), (max(x0, x1) - x), (py - min(y0, y1)),
                       (max(y0, y1) - py), depth - planes[0], planes[1] - depth]  # fmt: skip
            wanted = np.min(margins, axis=0)
            sure = ~(np.abs(wanted) < 1e-6)
            inside = (p @ found[:, :3].T + found[:, 3] >= 0).all(axis=1)
            assert np.array_equal(inside[sure], wanted[sure] > 0)
            met += int(inside.sum())
    assert met > 100


def test_frusta_of_exact_cameras() -> None:
    """Where all numbers are dyadic, planes are exact: touching is inside. Points have frusta."""
    flat = Camera.orthographic([0, 0, 4], [0, 0, 0], [0, 1, 0], 16.0, 16, 16, near=-1, far=8)
    planes = flat.frustum(4, 12, 8, 8)
    assert planes.tolist() == [[1, 0, 0, 4], [-1, 0, 0, 0], [0, -1, 0, 0], [0, 1, 0, 4],
                               [0, 0, -1, 5], [0, 0, 1, 4]]  # fmt: skip
    k = np.array([[8.0, 0, 7.5], [0, 8, 7.5], [0, 0, 1]])
    camera = Camera.from_opencv(k, np.eye(4), 16, 16)
    corners = np.array([[1.0, 1, 8], [1, 3, 8], [3, 2, 8]])
    for x0, y0, x1, y1 in (
        (0, 0, 9, 16),
        (9, 9, 9, 9),
        (10, 10, 10, 10),
        (0, 0, 8.9, 16),
        (9, 0, 9, 16),
        (11, 10, 16, 16),
        (0, 0, 16, 8),
        (11.1, 0, 12, 16),
    ):
        planes = camera.frustum(x0, y0, x1, y1)
        wanted = x0 <= 11 and x1 >= 9 and y1 >= 9
        tree = bvh.BVH.from_triangles(np.concatenate([corners, -corners]), [[0, 1, 2], [3, 4, 5]])
        assert tree.overlap_frustum(planes).tolist() == [0] * wanted
        assert triangle_meets_planes(corners.tolist(), planes.tolist()) == wanted
    assert Camera(**{**flat._parts(), "near": -math.inf}).frustum(0, 0, 1, 1).shape == (5, 4)
    for k, name in enumerate(("x0", "y0", "x1", "y1")):
        for bad in (math.nan, math.inf, None, "1", [1.0]):
            given: list[Any] = [0.0, 0.0, 1.0, 1.0]
            given[k] = bad
            with pytest.raises((TypeError, ValueError), match=name):
                camera.frustum(*given)


def test_resized(rng: Rng) -> None:
    """As much is seen from top to bottom, whatever the width; twice the size is twice as sharp."""
    for y, ratio in WAYS:
        for camera in cameras(rng, y=y, pixel_ratio=ratio):
            twice = camera.resized(2 * camera.width, 2 * camera.height)
            x, py = places(camera, rng)
            for got, wanted in zip(twice.ray(2 * x, 2 * py), camera.ray(x, py), strict=True):
                assert np.allclose(got, wanted, rtol=1e-13, atol=1e-13)
            wide = camera.resized(3 * camera.width, camera.height)
            more = camera.width / ratio
            for got, wanted in zip(wide.ray(x + more, py), camera.ray(x, py), strict=True):
                assert np.allclose(got, wanted, rtol=1e-12, atol=1e-12)
            assert (wide.width, wide.height) == (3 * camera.width, camera.height)
            assert (wide.y, wide.pixel_ratio, wide.near, wide.far) == (
                y, ratio, camera.near, camera.far)  # fmt: skip
            assert camera.resized(camera.width, camera.height) == camera
            for bad in (0, -1, 1.5, None):
                for size, name in (((bad, 5), "width"), ((5, bad), "height")):
                    with pytest.raises((TypeError, ValueError), match=name):
                        camera.resized(*size)


def test_cameras_are_values(rng: Rng) -> None:
    """They are equal, hashed, copied, pickled and shown by their numbers, and cannot be changed."""
    seen = set()
    for y, ratio in WAYS:
        for camera in cameras(rng, y=y, pixel_ratio=ratio):
            for other in (
                pickle.loads(pickle.dumps(camera)),
                copy.deepcopy(camera),
                Camera(**camera._parts()),
            ):
                assert other == camera and hash(other) == hash(camera)
                assert repr(other) == repr(camera) and type(other) is Camera
                assert np.array_equal(other.gradients, camera.gradients)
                for array in (other.eye, other.step_x, other.gradients, other.centre):
                    with pytest.raises(ValueError, match="read-only"):
                        array[0] = 1.0
            assert camera != camera.resized(10, 10) and camera != "camera"
            seen |= {camera, copy.copy(camera)}
    assert len(seen) == len(WAYS) * len(list(cameras(rng)))


def test_numbers_that_make_no_camera() -> None:
    """The message names what is wrong, however the camera is made."""
    good = Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0])._parts()
    for name in ("eye", "forward", "step_x", "step_y", "centre"):
        for bad in ([1.0], [np.nan, 1, 1], [np.inf] * len(good[name]), None, "abc"):
            with pytest.raises((TypeError, ValueError), match=name):
                Camera(**good | {name: bad})
    with pytest.raises(ValueError, match="steps"):
        Camera(**good | {"step_x": good["step_y"]})
    aims = {"eye": [0, 0, 5], "target": [0, 0, 0], "up": [0, 1, 0]}
    bounds = [[0, 0, 0], [1, 1, 1]]
    for name, values in (
        ("y must", ("left", None, 1)),
        ("pixel_ratio", (0, -1, math.nan, "2")),
        ("near", (-1, math.nan, math.inf)),
        ("far", (0, -1, math.nan, None)),
    ):
        for bad in values:
            change: dict[str, Any] = {name.split()[0]: bad}
            with pytest.raises((TypeError, ValueError), match=name):
                Camera.look_at(**aims, **change)
            if name != "near" or bad != -1:
                with pytest.raises((TypeError, ValueError), match=name):
                    Camera.orthographic(**aims, **change)
            if name in ("y must", "pixel_ratio"):
                with pytest.raises((TypeError, ValueError), match=name):
                    Camera.framing(bounds, **change)
    with pytest.raises(ValueError, match="view_height"):
        Camera.orthographic(**aims, view_height=1e-310)
    with pytest.raises(ValueError, match="near"):
        Camera.look_at(**aims, near=3.0, far=3.0)
