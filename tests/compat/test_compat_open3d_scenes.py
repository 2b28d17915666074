"""Open3D's interface on our tree: how scenes are made, cameras, refusals."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import threading
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh.compat.open3d import RaycastingScene
from tests.cases.stand_ins import StandInMesh, Tensor
from tests.children import answer, fork

Rng = np.random.Generator

INVALID = RaycastingScene.INVALID_ID
CORNERS = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]], np.float32)
FACES = np.array([[0, 1, 2]], np.uint32)
DOWN = np.array([[0.75, 0.25, 9, 0, 0, -1]], np.float32)


def test_meshes_added_later_are_seen() -> None:
    """Ids count up, every mesh keeps its own faces, and what was added is a copy."""
    scene = RaycastingScene()
    assert repr(scene) == "RaycastingScene(0 geometries, 0 triangles)"
    for height in range(4):
        corners = CORNERS + [0, 0, height]
        assert scene.add_triangles(corners, FACES) == height
        corners[:] = np.nan
        answer = scene.cast_rays(DOWN)
        assert (answer["geometry_ids"][0], answer["primitive_ids"][0]) == (height, 0)
        assert answer["t_hit"][0] == 9 - height
        assert scene.count_intersections(DOWN)[0] == height + 1
    assert repr(scene) == "RaycastingScene(4 geometries, 4 triangles)"
    assert scene.list_intersections(DOWN)["geometry_ids"].tolist() == [3, 2, 1, 0]
    assert isinstance(scene.tree, bvh.BVH) and len(scene.tree) == 4
    assert scene.tree is scene.tree


def test_ties_go_to_the_lowest_ids() -> None:
    """Of meshes in the same place, the first; of faces, the first."""
    scene = RaycastingScene()
    for _ in range(3):
        scene.add_triangles(CORNERS, np.tile(FACES, (2, 1)))
    answer = scene.cast_rays(DOWN)
    assert (answer["geometry_ids"][0], answer["primitive_ids"][0]) == (0, 0)
    near = scene.compute_closest_points(DOWN[:, :3])
    assert (near["geometry_ids"][0], near["primitive_ids"][0]) == (0, 0)
    listed = scene.list_intersections(DOWN)
    ids = zip(listed["geometry_ids"].tolist(), listed["primitive_ids"].tolist(), strict=True)
    assert list(ids) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


def test_meshes_of_many_kinds() -> None:
    """Arrays, Tensors on any device, meshes of Open3D's two classes, pairs, trimesh."""
    box = trimesh.creation.box()
    scene = RaycastingScene(0, "CPU:0")
    wide, faces = box.vertices.astype(np.float64), box.faces.astype(np.int64)
    scene.add_triangles(vertex_positions=wide, triangle_indices=faces)
    scene.add_triangles(Tensor(wide, "CUDA:0"), Tensor(faces, "CUDA:0"))
    scene.add_triangles(StandInMesh(wide, faces))
    scene.add_triangles(StandInMesh(wide, faces, old=True))
    scene.add_triangles((wide, faces))
    scene.add_triangles(box)
    assert scene.add_triangles(mesh=box) == 6
    assert scene.count_intersections([[0.1, 0.2, 9.0, 0, 0, -1]]).tolist() == [14]
    # Meshes without triangles have ids, too.
    assert scene.add_triangles(StandInMesh(wide, None)) == 7
    assert scene.add_triangles(StandInMesh(None, None)) == 8
    assert len(scene.tree) == 7 * 12


def test_answers_come_back_on_the_device_of_the_question() -> None:
    """Everything is computed by the CPU all the same."""
    scene = RaycastingScene()
    scene.add_triangles(CORNERS, FACES)
    rays = Tensor(DOWN, "SYCL:0")
    for found in (scene.cast_rays(rays), scene.list_intersections(rays)):
        assert {array.device for array in found.values()} == {"SYCL:0"}
    assert scene.test_occlusions(rays).device == "SYCL:0"


def test_copies_answer_alike(rng: Rng) -> None:
    """By pickle and by copy, before and after the first question; a copy goes its own way."""
    sphere = trimesh.creation.icosphere(2)
    scene, rays = RaycastingScene(), rng.normal(size=(200, 6))
    scene.add_triangles(sphere)
    scene.add_triangles(sphere.vertices + 1.0, sphere.faces)
    fresh = copy.deepcopy(scene)
    wanted = scene.cast_rays(rays)
    for other in (fresh, copy.deepcopy(scene), pickle.loads(pickle.dumps(scene)), copy.copy(scene)):
        for name, array in other.cast_rays(rays).items():
            assert np.array_equal(array, wanted[name]), name
        assert other.add_triangles(CORNERS, FACES) == 2
    assert len(scene.tree) == 2 * len(sphere.faces)
    again = pickle.loads(pickle.dumps(wanted["t_hit"]))
    assert np.array_equal(again.numpy(), wanted["t_hit"])


def test_threads_share_a_scene(rng: Rng) -> None:
    """Whoever asks first, all find the same tree."""
    sphere = trimesh.creation.icosphere(2)
    scene, rays = RaycastingScene(), rng.normal(size=(2000, 6)).astype(np.float32)
    scene.add_triangles(sphere)
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(scene.cast_rays(rays))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 6
    assert all(np.array_equal(a["t_hit"], answers[0]["t_hit"]) for a in answers)


def test_occupancy_needs_no_votes() -> None:
    """Points on the lattice of a box whose faces are cut into squares, and far from the origin."""
    box = trimesh.creation.box((8, 8, 8)).subdivide().subdivide().subdivide()
    for offset in (0.0, 2.0**40):
        scene = RaycastingScene()
        scene.add_triangles(box.vertices + offset, box.faces)
        axis = np.arange(-5.0, 6.0)
        points = np.stack(np.meshgrid(axis, axis, axis), axis=-1)
        depth = np.abs(points).max(axis=-1)
        for votes in (1, 3):
            inside = scene.compute_occupancy(points + offset, nsamples=votes)
            assert np.array_equal(inside, depth <= 4)
            signed = scene.compute_signed_distance(points + offset, nsamples=votes)
            assert np.array_equal(np.sign(signed), np.sign(depth - 4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rays_of_matrices_pass_through_their_pixels(dtype: Any, rng: Rng) -> None:
    """Projected, any point of a ray is the centre of its pixel, at the depth of its t."""
    intrinsic = np.array([[500.0, 2.0, 16.0], [0.0, 480.0, 11.0], [0.0, 0.0, 1.0]])
    extrinsic = np.eye(4)
    extrinsic[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    extrinsic[:3, 3] = rng.normal(size=3)
    rays = RaycastingScene.create_rays_pinhole(intrinsic, extrinsic, 32, 20, dtype=dtype)
    assert rays.shape == (20, 32, 6) and rays.dtype == dtype
    at = rays[..., :3].astype(float) + 7.0 * rays[..., 3:].astype(float)
    seen = at @ extrinsic[:3, :3].T + extrinsic[:3, 3]
    pixels = seen @ intrinsic.T
    x, y = np.meshgrid(np.arange(32) + 0.5, np.arange(20) + 0.5)
    error = 1e-12 if dtype == np.float64 else 1e-3
    assert np.allclose(pixels[..., 2], 7.0, 0, error)
    assert np.allclose(pixels[..., 0] / pixels[..., 2], x, 0, error)
    assert np.allclose(pixels[..., 1] / pixels[..., 2], y, 0, error)
    named = RaycastingScene.create_rays_pinhole(
        intrinsic_matrix=Tensor(intrinsic, "CPU:0"), extrinsic_matrix=extrinsic,
        width_px=32, height_px=20, dtype=dtype,
    )  # fmt: skip
    assert type(named) is Tensor and np.array_equal(named.numpy(), rays)


def test_rays_of_views_look_where_they_should() -> None:
    """The middle at what is looked at, the sides the angle apart, up and right at the end."""
    center, eye = np.array([1.0, 2.0, 3.0]), np.array([1e7, 2.0, 3.0])
    scene = RaycastingScene()
    scene.add_triangles(CORNERS, FACES)
    rays = scene.create_rays_pinhole(
        fov_deg=60, center=center, eye=eye, up=[0, 0, 5], width_px=301, height_px=101,
        dtype=np.float64,
    )  # fmt: skip
    assert (rays[..., :3] == eye).all()
    assert np.allclose(rays[50, 150, 3:], [-1, 0, 0], 0, 1e-12)
    assert rays[0, 150, 5] < 0 < rays[100, 150, 5]
    # Half a pixel is missing on either side.
    first, last = rays[50, 0, 3:], rays[50, -1, 3:]
    assert np.allclose(np.abs([first[1], last[1]]), np.tan(np.pi / 6) * 300 / 301)
    # Looking along -x with z up, +y is to the right.
    assert first[1] > 0 > last[1]
    args = 60, center.tolist(), eye.tolist(), [0, 0, 1], 301, 101
    narrow = scene.create_rays_pinhole(*args)
    assert narrow.dtype == np.float32
    assert np.array_equal(narrow[..., 3:], rays[..., 3:].astype(np.float32))
    for width, height in ((0, 3), (3, 0), (0, 0)):
        assert scene.create_rays_pinhole(*args[:4], width, height).shape == (height, width, 6)
        assert scene.create_rays_pinhole(np.eye(3), np.eye(4), width, height).size == 0


VIEW = {"fov_deg": 60, "center": [0, 0, 0], "eye": [0, 0, 5], "up": [0, 1, 0]}
REFUSALS: list[tuple[Any, type[Exception], str]] = [
    (lambda s: s.add_triangles(5), TypeError, "mesh must be"),
    (lambda s: s.add_triangles(), TypeError, "add_triangles takes"),
    (lambda s: s.add_triangles(CORNERS, FACES, mesh=5), TypeError, "got both"),
    (lambda s: s.add_triangles(None, FACES), TypeError, "vertex_positions must be an array"),
    (lambda s: s.add_triangles(CORNERS[:, :2], FACES), ValueError, "vertex_positions must have"),
    (lambda s: s.add_triangles(CORNERS, FACES + 5), ValueError, "triangle_indices must index"),
    (lambda s: s.add_triangles(CORNERS, FACES * 1.0), TypeError, "triangle_indices must be int"),
    (lambda s: s.cast_rays(DOWN[:, :5]), ValueError, "rays must have shape (..., 6), got (1, 5)"),
    (lambda s: s.cast_rays(3.0), ValueError, "rays must have shape (..., 6), got ()"),
    (lambda s: s.cast_rays(None), TypeError, "rays must be an array"),
    (lambda s: s.cast_rays([["a"] * 6]), TypeError, "rays must be real numbers"),
    (lambda s: s.cast_rays(np.ma.array(DOWN)), TypeError, "rays must not be a masked array"),
    (lambda s: s.cast_rays(DOWN, nthreads=1.5), TypeError, "nthreads must be an integer"),
    (lambda s: s.test_occlusions(DOWN, "x"), TypeError, "t_min must be real"),
    (lambda s: s.compute_distance(DOWN), ValueError, "query_points must have shape (..., 3)"),
    (lambda s: s.compute_occupancy(CORNERS, nsamples=2), ValueError, "nsamples must be odd"),
    (lambda s: s.compute_occupancy(CORNERS, nsamples=-1), ValueError, "nsamples must be odd"),
    (lambda s: s.compute_signed_distance(CORNERS, nsamples=0), ValueError, "nsamples must be odd"),
    (lambda s: s.create_rays_pinhole(np.eye(4), np.eye(4), 3, 2), ValueError, "intrinsic_matrix"),
    (lambda s: s.create_rays_pinhole(np.eye(3), np.eye(3), 3, 2), ValueError, "extrinsic_matrix"),
    (lambda s: s.create_rays_pinhole(np.ones((3, 3)), np.eye(4), 3, 2), ValueError, "singular"),
    (lambda s: s.create_rays_pinhole(np.eye(3), np.eye(4), 1.5, 2), TypeError, "width_px must be"),
    (lambda s: s.create_rays_pinhole(np.eye(3), np.eye(4), 1, -2), ValueError, "height_px must"),
    (lambda s: s.create_rays_pinhole(np.eye(3), np.eye(4)), TypeError, "missing"),
    (lambda s: s.create_rays_pinhole(np.eye(3), np.eye(4), 1, 1, dtype=int), ValueError, "dtype"),
    *[
        (lambda s, c=change: s.create_rays_pinhole(**{**VIEW, **c}, width_px=3, height_px=2), *how)
        for change, *how in (
            ({"fov_deg": 180}, ValueError, "fov_deg must be between"),
            ({"fov_deg": np.nan}, ValueError, "fov_deg must be between"),
            ({"center": [0, 0, 5]}, ValueError, "center must differ from eye"),
            ({"up": [0, 0, -1]}, ValueError, "up must not be zero or along"),
            ({"eye": [0, np.inf, 0]}, ValueError, "center must differ"),
            ({"eye": [0, 0]}, ValueError, "eye must have shape (3,)"),
        )
    ],
]


@pytest.mark.parametrize(
    ("call", "kind", "message"), REFUSALS, ids=lambda x: x if isinstance(x, str) else ""
)
def test_refusals_name_the_argument(call: Any, kind: type[Exception], message: str) -> None:
    """What was wanted and what was got; the scene is as it was."""
    scene = RaycastingScene()
    scene.add_triangles(CORNERS, FACES)
    with pytest.raises(kind, match=re.escape(message)):
        call(scene)
    assert scene.cast_rays(DOWN)["t_hit"].tolist() == [9.0]


def test_open3d_is_never_imported() -> None:
    """Neither by the drop-in nor by what it is asked."""
    script = """
import json, sys, numpy as np
from bvh.compat.open3d import RaycastingScene
scene = RaycastingScene()
scene.add_triangles(np.eye(3), [[0, 1, 2]])
scene.cast_rays(np.ones((1, 6)))
print(json.dumps([name for name in sys.modules if name.startswith("open3d")]))
"""
    assert answer(fork(script)) == []


def test_everything_is_documented_and_annotated() -> None:
    """As `tests/promises/test_public.py` asks of what the package exports, or as in Open3D."""
    assert RaycastingScene.__doc__ and "nthreads" in RaycastingScene.__doc__
    for name, thing in inspect.getmembers(RaycastingScene, inspect.isroutine):
        if name.startswith("_"):
            continue
        doc = inspect.getdoc(thing) or ""
        assert "as in Open3D" in doc, name
        signature = inspect.signature(thing)
        assert signature.return_annotation is not inspect.Signature.empty, name
        for parameter in signature.parameters.values():
            if parameter.name not in ("self", "args", "kwargs"):
                assert parameter.annotation is not inspect.Parameter.empty, name
