"""Cameras of matrices: against the definitions of OpenCV, OpenGL, Vulkan and trimesh."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import trimesh

from bvh import Camera
from tests.oracles import cameras as oracle

SIZE = (64, 48)
WAYS = list(itertools.product(("down", "up"), (1.0, 2.0, 1.5)))


def way(y: str, ratio: float) -> dict[str, Any]:
    """Return the arguments that tell how pixels are counted."""
    return {"y": y, "pixel_ratio": ratio}


def counted(x: Any, y: Any, direction: str, ratio: float) -> tuple[float, float]:
    """Return device pixels from the upper left corner as the camera counts them."""
    ratio = oracle.F(ratio)
    return float(x / ratio), float((y if direction == "down" else SIZE[1] - y) / ratio)


def tolerance(camera: Camera, p: np.ndarray) -> float:
    """Return what one rounding of the eye and the basis moves the pixel of a point by."""
    offset = p - camera.eye
    depth = float(camera.gradients[2] @ offset) if camera.perspective else 1.0
    size = np.abs(camera.gradients[:2]).sum() * (np.abs(p).sum() + np.abs(camera.eye).sum())
    wide = np.abs(camera.gradients[:2] @ offset).sum() / abs(depth) + np.abs(camera.centre).sum()
    return 2.0**-50 * (size / abs(depth) + wide)


def visible_points(camera: Camera, rng: np.random.Generator, n: int = 20) -> np.ndarray:
    """Return points before the camera, in and around the picture."""
    x, y = rng.uniform(-0.5, 1.5, (2, n)) * np.array([SIZE]).T / camera.pixel_ratio
    origin, direction = camera.ray(x, y)
    return origin + rng.uniform(0.1, 20, n)[:, None] * direction


@pytest.mark.parametrize(("y", "ratio"), WAYS)
def test_opencv(y: str, ratio: float, rng: np.random.Generator) -> None:
    """What cv2.projectPoints puts at (u, v) is at (u + 0.5, v + 0.5); depth is z."""
    worst = 0.0
    for _ in range(40):
        k, pose = oracle.intrinsics(rng, *SIZE), oracle.pose(rng)
        given = pose if rng.random() < 0.5 else pose[:3]
        camera = Camera.from_opencv(k, given, *SIZE, **way(y, ratio))
        assert np.allclose(camera.eye, -pose[:3, :3].T @ pose[:3, 3], atol=1e-14)
        assert np.allclose(camera.forward, pose[2, :3], atol=1e-15)
        for p in visible_points(camera, rng):
            u, v, z = oracle.opencv_project(k, pose, p)
            wanted = counted(u + oracle.F(1, 2), v + oracle.F(1, 2), y, ratio)
            *got, depth = camera.project(p)
            error = np.abs(np.array(got) - wanted).max()
            worst = max(worst, error)
            assert error <= min(1e-9, tolerance(camera, p))
            assert depth == pytest.approx(float(z), rel=1e-13)
    assert worst < 1e-10


def test_opencv_pixel_centres() -> None:
    """A point that OpenCV draws in the middle of pixel (3, 2) is met by the ray of that pixel."""
    k = np.array([[8.0, 0, 3], [0, 8, 2], [0, 0, 1]])
    camera = Camera.from_opencv(k, np.eye(4), 8, 6, distortion=np.zeros(5))
    origins, directions = camera.rays()
    assert origins[2, 3].tolist() == [0, 0, 0] and directions[2, 3].tolist() == [0, 0, 1]
    assert directions[4, 4].tolist() == [0.125, 0.25, 1]
    assert (camera.right.tolist(), camera.up.tolist()) == ([1, 0, 0], [0, -1, 0])
    assert camera.project([0, 0, 7]) == (3.5, 2.5, 7.0)


@pytest.mark.parametrize(("y", "ratio"), WAYS)
def test_renderers(y: str, ratio: float, rng: np.random.Generator) -> None:
    """Projections of every convention, off centre, agree with gluProject; planes are found."""
    for made in [p for _ in range(4) for p in oracle.projections(rng)]:
        view = oracle.pose(rng)
        camera = Camera.from_matrices(view, made.matrix, *SIZE, **made.options, **way(y, ratio))
        assert camera.perspective == made.perspective
        assert camera.near == pytest.approx(made.near, rel=1e-9, abs=1e-12)
        assert camera.far == pytest.approx(made.far, rel=1e-9)
        assert (camera.t_min, camera.t_max) == (camera.near, camera.far)
        forward = -view[2, :3]
        assert np.allclose(camera.forward, forward, atol=1e-14)
        assert np.allclose(camera.eye, -view[:3, :3].T @ view[:3, 3], atol=1e-13)
        for p in visible_points(camera, rng, 8):
            px, py, z = oracle.to_window(oracle.to_clip(view, made.matrix, p), *SIZE, made.up)
            wanted = counted(px, py, y, ratio)
            *got, depth = camera.project(p)
            assert np.abs(np.array(got) - wanted).max() <= min(1e-9, 4 * tolerance(camera, p))
            assert depth == pytest.approx(-float(view[2] @ [*p, 1]), rel=1e-11)
            # What the renderer clips is outside of the range.
            low, high = (-1, 1) if made.depth == "opengl" else (0, 1)
            assert (camera.near <= depth <= camera.far) == (low <= z <= high)


def test_views_that_scale_shear_and_mirror(rng: np.random.Generator) -> None:
    """The picture agrees, and t stays the distance from the plane of the eye in the world."""
    for made in [p for _ in range(6) for p in oracle.projections(rng)]:
        view = oracle.pose(rng)
        view[:3, :3] = view[:3, :3] @ np.diag(rng.choice([-1, 1], 3) * rng.uniform(0.3, 3, 3))
        view[:3, :3] += rng.uniform(-0.1, 0.1, (3, 3))
        scaled = made.matrix * rng.uniform(0.1, 10)
        camera = Camera.from_matrices(view, scaled, *SIZE, **made.options)
        plain = Camera.from_matrices(view, made.matrix, *SIZE, **made.options)
        normal = -view[2, :3] / np.linalg.norm(view[2, :3])
        assert camera.near == pytest.approx(plain.near) and camera.far == pytest.approx(plain.far)
        assert camera.forward @ normal == pytest.approx(1.0)
        for p in visible_points(camera, rng, 5):
            px, py, _ = oracle.to_window(oracle.to_clip(view, scaled, p), *SIZE, made.up)
            x, y, depth = camera.project(p)
            assert abs(x - px) < 1e-9 and abs(y - py) < 1e-9
            assert depth == pytest.approx(normal @ (p - camera.eye))


def test_products_of_matrices(rng: np.random.Generator) -> None:
    """The product of projection and view, in float64 or float32, with no view beside it."""
    for made in oracle.projections(rng):
        view = oracle.pose(rng)
        camera = Camera.from_matrices(view, made.matrix, *SIZE, **made.options)
        for dtype, slack in ((np.float64, 1e-9), (np.float32, 0.05)):
            product = (made.matrix.astype(dtype) @ view.astype(dtype)).astype(dtype)
            other = Camera.from_matrices(np.eye(4), product, *SIZE, **made.options)
            assert np.allclose(other.forward, camera.forward, atol=slack)
            p = visible_points(camera, rng, 20)
            for got, wanted in zip(other.project(p)[:2], camera.project(p)[:2], strict=True):
                assert np.allclose(got, wanted, atol=slack)
            shift = 0.0 if made.perspective else other.forward @ camera.eye
            near = pytest.approx(camera.near + shift, rel=1e-2 if slack > 1e-3 else 1e-6, abs=slack)
            assert other.near == near


def test_oblique_parallel_projections() -> None:
    """A cabinet projection: depth is that of the planes, and rays run along its lines."""
    projection = np.diag([0.5, 0.5, -0.1, 1.0])
    projection[:2, 2] = [-0.25, -0.125]
    camera = Camera.from_matrices(np.eye(4), projection, *SIZE)
    origin, direction = camera.ray(32, 24)
    assert origin.tolist() == [0, 0, 0] and direction.tolist() == [-0.5, -0.25, -1]
    assert camera.project(3 * direction) == (32.0, 24.0, 3.0)
    assert (camera.near, camera.far) == (-10.0, 10.0)


def test_far_planes_at_infinity() -> None:
    """Lengyel's matrices, with a little to spare at the far end, have none either."""
    for slope, near in ((-1.0, -1.0), (1e-7 - 1.0, -1.0), (2.0**-53 - 1.0, -1.0)):
        matrix = np.diag([1.0, 1.0, slope, 0.0])
        matrix[2, 3], matrix[3, 2] = near, -1.0
        camera = Camera.from_matrices(np.eye(4), matrix, 8, 6)
        assert math.isinf(camera.far) and camera.near == pytest.approx(0.5)


@pytest.mark.parametrize(("y", "ratio"), WAYS)
def test_trimesh_cameras(y: str, ratio: float, rng: np.random.Generator) -> None:
    """The rays are those of trimesh, which counts pixels from below, whatever the transform."""
    for _ in range(5):
        lens = trimesh.scene.Camera(resolution=SIZE, fov=rng.uniform(5, 150, 2))
        transform = oracle.pose(rng)
        if rng.random() < 0.5:
            transform[:3, :3] *= rng.uniform(0.2, 5)
        scene = trimesh.Scene(trimesh.creation.box(), camera=lens, camera_transform=transform)
        origins, directions, pixels = scene.camera_rays()
        for source, given in ((scene, None), (lens, transform)):
            camera = Camera.from_trimesh(source, given, **way(y, ratio))
            assert (camera.width, camera.height) == SIZE
            assert (camera.t_min, camera.t_max) == (0.0, math.inf)
            x, py = (pixels.T + 0.5) / ratio
            got = camera.ray(x, py if y == "up" else SIZE[1] / ratio - py)
            assert np.allclose(got[0], origins, rtol=0, atol=1e-14)
            unit = got[1] / np.linalg.norm(got[1], axis=1)[:, None]
            length = np.linalg.norm(directions, axis=1)[:, None]
            assert np.allclose(unit, directions / length, rtol=0, atol=1e-13)


def test_trimesh_makes_cameras_up() -> None:
    """A scene without a camera has one that sees it; a camera alone looks along -z."""
    scene = trimesh.Scene(trimesh.creation.box(extents=[1, 2, 3]))
    camera = Camera.from_trimesh(scene, near=0.5)
    x, y, depth = camera.project(scene.bounds)
    assert np.abs(x / camera.width - 0.5).max() < 0.5 + 1e-9 and depth.min() > 0
    assert np.abs(y / camera.height - 0.5).max() < 0.5 + 1e-9
    assert camera.near == 0.5
    lens = trimesh.scene.Camera(resolution=SIZE, focal=(50, 60))
    alone = Camera.from_trimesh(lens)
    assert alone.eye.tolist() == [0, 0, 0] and alone.forward.tolist() == [0, 0, -1]
    assert alone.project([1, 1, -1]) == pytest.approx((32 + 50, 24 - 60, 1))


EYE = np.eye(4)
FRUSTUM = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1.5, -1], [0, 0, -1, 0]])
K = np.array([[50.0, 0, 32], [0, 50, 24], [0, 0, 1]])


def changed(matrix: np.ndarray, **entries: float) -> np.ndarray:
    """Return a matrix with entries such as m12 replaced."""
    matrix = matrix.copy()
    for name, value in entries.items():
        matrix[int(name[1]), int(name[2])] = value
    return matrix


NO_MATRIX: list[Any] = [
    None,
    "abc",
    1.0,
    np.eye(2),
    np.eye(5),
    np.ones((4, 4), bool),
    [[1], [1, 2]],
]
BAD_OPENCV: list[tuple[dict[str, Any], str]] = [
    *(({name: bad}, name) for name in ("intrinsics", "extrinsics") for bad in NO_MATRIX),
    *(({"intrinsics": changed(K, **{name: value})}, "intrinsics")
      for name in ("m00", "m11") for value in (0.0, -50.0, np.nan, np.inf)),
    *(({"intrinsics": changed(K, **{name: 0.5})}, "intrinsics")
      for name in ("m10", "m20", "m21", "m22")),
    ({"intrinsics": changed(K, m22=np.nan)}, "intrinsics"),
    *(({"extrinsics": bad}, "extrinsics") for bad in (
        EYE * 2, np.diag([1.0, 1, -1, 1]), np.diag([1.0, 1, 0, 1]), changed(EYE, m01=0.1),
        changed(EYE, m30=1.0), changed(EYE, m33=2.0), changed(EYE, m03=np.nan),
        np.eye(3), changed(EYE, m00=1e300), np.zeros((4, 4)))),
    *(({"distortion": bad}, "distortion") for bad in ([0.1, 0, 0, 0], [0, np.nan, 0, 0], "k1")),
    *(({name: bad}, name) for name in ("width", "height") for bad in (0, -1, 1.5, "8", None)),
    *(({"y": bad}, "^y must") for bad in ("left", None, 1, "")),
    *(({"pixel_ratio": bad}, "pixel_ratio") for bad in (0.0, -1.0, np.nan, np.inf, None, "2")),
    *(({"near": bad}, "near") for bad in (-1.0, np.nan, np.inf, None, "2")),
    *(({"far": bad}, "far") for bad in (0.0, -1.0, np.nan, None)),
]  # fmt: skip


@pytest.mark.parametrize(("change", "name"), BAD_OPENCV)
def test_refused_by_opencv(change: dict[str, Any], name: str) -> None:
    """The message names the argument."""
    good = {"intrinsics": K, "extrinsics": EYE, "width": 64, "height": 48}
    assert Camera.from_opencv(**good).width == 64
    with pytest.raises((TypeError, ValueError), match=name):
        Camera.from_opencv(**good | change)


BAD_MATRICES: list[tuple[dict[str, Any], str]] = [
    *(({name: bad}, name) for name in ("view", "projection") for bad in (
        *NO_MATRIX, EYE * np.nan, changed(EYE, m03=np.inf), np.zeros((4, 4)))),
    ({"view": np.diag([1.0, 1, 0, 1])}, "view"),
    ({"view": [[1, 2, 3, 0], [4, 5, 6, 0], [7, 8, 9, 0], [0, 0, 0, 1]]}, "view"),
    ({"view": changed(EYE, m03=2.0).T}, "view.*column vectors"),
    ({"projection": changed(FRUSTUM, m02=0.5).T}, "projection"),
    *(({"projection": changed(FRUSTUM, **{name: 0.0})}, "projection")
      for name in ("m00", "m11", "m23", "m32")),
    ({"projection": changed(FRUSTUM, m20=0.2)}, "projection.*parallel"),
    ({"projection": changed(FRUSTUM, m23=1.0)}, "reversed_z=True"),
    ({"reversed_z": True}, "reversed_z=False"),
    ({"projection": changed(FRUSTUM, m22=1.5)}, "projection.*depths"),
    ({"projection": np.diag([1.0, 1, 0, 1])}, "projection"),
    ({"projection": np.diag([1.0, 0, 1, 1])}, "projection"),
    ({"projection": np.diag([1e-320, 1.0, 1, 1])}, "projection"),
    *(({"depth": bad}, "depth") for bad in ("gl", "", None, 1, ["opengl"])),
    *(({"reversed_z": bad}, "reversed_z") for bad in (1, None, "yes")),
    ({"width": 0}, "width"), ({"height": 2.5}, "height"), ({"y": "Down"}, "y"),
    ({"pixel_ratio": 0}, "pixel_ratio"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "name"), BAD_MATRICES)
def test_refused_by_matrices(change: dict[str, Any], name: str) -> None:
    """The message names the argument."""
    good = {"view": EYE, "projection": FRUSTUM, "width": 64, "height": 48}
    assert Camera.from_matrices(**good).perspective
    with pytest.raises((TypeError, ValueError), match=name):
        Camera.from_matrices(**good | change)


def test_transposed_projections(rng: np.random.Generator) -> None:
    """Matrices for row vectors are refused, in the middle and off centre, with any view."""
    flat = np.diag([0.5, 0.5, -0.02, 1.0])
    flat[2, 3] = -1.0
    matrices = [(flat, {}), (FRUSTUM, {"depth": "direct3d"})]
    for made in [p for _ in range(20) for p in oracle.projections(rng)]:
        middle = made.matrix.copy()
        middle[:2, 2:] = 0.0
        matrices += [(middle, made.options), (made.matrix, made.options)]
    matrices.append((changed(FRUSTUM, m23=-2.0), {}))
    for matrix, options in matrices:
        if np.array_equal(matrix, matrix.T):
            continue
        for view in (EYE, oracle.pose(rng)):
            Camera.from_matrices(view, matrix, *SIZE, **options)
            with pytest.raises(ValueError, match="projection"):
                Camera.from_matrices(view, matrix.T, *SIZE, **options)
    with pytest.raises(ValueError, match=r"column vectors \(transpose it\), got the last row \[0"):
        Camera.from_matrices(EYE, changed(FRUSTUM, m23=-0.2).T, *SIZE)


def test_refused_by_trimesh() -> None:
    """No scene, no field of view, no affine transform."""
    lens = trimesh.scene.Camera(resolution=SIZE, fov=(40, 30))
    for bad in (None, "scene", trimesh.creation.box(), np.eye(4)):
        with pytest.raises(TypeError, match="source"):
            Camera.from_trimesh(bad)
    for bad in NO_MATRIX[1:] + [EYE[:3], np.zeros((4, 4)), EYE * np.nan, EYE * 2]:
        with pytest.raises((TypeError, ValueError), match="transform"):
            Camera.from_trimesh(lens, bad)
    for fov in ((0, 30), (40, -30), (180, 90), (90, 190), (np.nan, 30)):
        with pytest.raises(ValueError, match="source"):
            Camera.from_trimesh(trimesh.scene.Camera(resolution=SIZE, fov=fov))
    for bad in ({"y": "?"}, {"pixel_ratio": 0.0}, {"near": -1.0}, {"far": -1.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            Camera.from_trimesh(lens, **bad)
