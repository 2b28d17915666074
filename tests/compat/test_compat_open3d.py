"""Open3D's interface on our tree: answers, shapes and types, without Open3D."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trimesh

from bvh.compat.open3d import RaycastingScene
from tests.cases.stand_ins import Tensor
from tests.oracles import brute
from tests.oracles import open3d as oracle_o3
from tests.oracles.crossings import crossed
from tests.oracles.points import squared_distance, ulps_off

Rng = np.random.Generator
Mesh = tuple[np.ndarray, np.ndarray]

INVALID = RaycastingScene.INVALID_ID
TRIANGLE = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]], np.float32), np.array([[0, 1, 2]], np.uint32)


def scene_of(*meshes: Mesh) -> RaycastingScene:
    """Return a scene of meshes."""
    scene = RaycastingScene()
    for i, mesh in enumerate(meshes):
        assert scene.add_triangles(*mesh) == i
    return scene


def lattice_boxes(rng: Rng, count: int) -> list[Mesh]:
    """Return closed boxes with small whole numbers for coordinates, which touch and overlap."""
    meshes = []
    for _ in range(count):
        box = trimesh.creation.box(rng.integers(1, 5, 3) * 2)
        meshes.append((box.vertices + rng.integers(-3, 4, 3), box.faces.astype(np.uint32)))
    return meshes


def lattice_rays(rng: Rng, n: int) -> np.ndarray:
    """Return rays through vertices and along edges, in coordinates that float32 holds."""
    rays = rng.integers(-9, 10, (n, 6)).astype(np.float64)
    rays[:, 3:] = rng.integers(-3, 4, (n, 3))
    rays[::5] += rng.integers(-8, 9, (len(rays[::5]), 6)) / 16
    return rays


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rays_against_rational_arithmetic(dtype: Any, rng: Rng) -> None:
    """Every field of every answer, on boxes that share planes, edges and corners."""
    meshes = lattice_boxes(rng, 3)
    scene, rays = scene_of(*meshes), lattice_rays(rng, 80).astype(dtype)
    answer = scene.cast_rays(rays)
    occluded = scene.test_occlusions(rays)
    assert answer["t_hit"].dtype == dtype
    for i, ray in enumerate(rays):
        found = oracle_o3.hits(meshes, ray) if ray[3:].any() else []
        assert occluded[i] == bool(found)
        if not found:
            assert answer["t_hit"][i] == np.inf
            assert answer["geometry_ids"][i] == answer["primitive_ids"][i] == INVALID
            assert not answer["primitive_uvs"][i].any() and not answer["primitive_normals"][i].any()
            continue
        first = found[0]
        assert answer["t_hit"][i] == dtype(float(first.t))
        assert answer["geometry_ids"][i] == first.geometry
        assert answer["primitive_ids"][i] == first.primitive
        uv = [float(first.u), float(first.v)]
        assert np.allclose(answer["primitive_uvs"][i], uv, 0, 4 * np.finfo(dtype).eps)
        normal = oracle_o3.unit(first.normal)
        assert np.allclose(answer["primitive_normals"][i], normal, 0, 4 * np.finfo(dtype).eps)


def test_crossings_have_one_owner(rng: Rng) -> None:
    """Lists and counts hold what a ray crosses once it is moved by less than any number."""
    meshes = lattice_boxes(rng, 3)
    scene, rays = scene_of(*meshes), lattice_rays(rng, 60)
    rays = rays[rays[:, 3:].any(axis=1)]
    counts, listed = scene.count_intersections(rays), scene.list_intersections(rays)
    assert counts.dtype == np.int32
    splits = listed["ray_splits"]
    assert np.array_equal(np.diff(splits.astype(int)), counts)
    assert np.array_equal(listed["ray_ids"], np.repeat(np.arange(len(rays)), counts))
    for i, ray in enumerate(rays):
        owners = {
            (g, p) for g, (v, f) in enumerate(meshes) for p in crossed(v, f, ray[:3], ray[3:])
        }
        wanted = [h for h in oracle_o3.hits(meshes, ray) if (h.geometry, h.primitive) in owners]
        some = slice(int(splits[i]), int(splits[i + 1]))
        ids = zip(listed["geometry_ids"][some], listed["primitive_ids"][some], strict=True)
        assert [(int(g), int(p)) for g, p in ids] == [(h.geometry, h.primitive) for h in wanted]
        assert listed["t_hit"][some].tolist() == [float(h.t) for h in wanted]
        uvs = [(float(h.u), float(h.v)) for h in wanted]
        assert np.allclose(listed["primitive_uvs"][some], np.reshape(uvs, (-1, 2)), 0, 1e-15)


def test_points_against_rational_arithmetic(rng: Rng) -> None:
    """Nearest points, distances, and their signs."""
    meshes = lattice_boxes(rng, 2)
    # Boxes that overlap would have no inside that is well defined.
    meshes[1] = meshes[1][0] + [30, 0, 0], meshes[1][1]
    scene, points = scene_of(*meshes), rng.integers(-12, 13, (60, 3)) / 2 + [0.25, 0, 0]
    points[::2, 0] += 30
    near, distance = scene.compute_closest_points(points), scene.compute_distance(points)
    signed, inside = scene.compute_signed_distance(points), scene.compute_occupancy(points)
    corners = [[v[face] for face in f] for v, f in meshes]
    for i, point in enumerate(points):
        squares = [[squared_distance(point, *c) for c in mesh] for mesh in corners]
        least = min(min(mesh) for mesh in squares)
        assert ulps_off(float(distance[i]), least) <= 4
        geometry, primitive = int(near["geometry_ids"][i]), int(near["primitive_ids"][i])
        assert squares[geometry][primitive] == least
        w = near["primitive_uvs"][i]
        at = np.array([1 - w.sum(), *w]) @ corners[geometry][primitive]
        assert np.allclose(at, near["points"][i], 0, 1e-13)
        assert np.isclose(np.linalg.norm(point - near["points"][i]), distance[i], 1e-13, 1e-13)
        box = [(v.min(0), v.max(0)) for v, _ in meshes]
        within = any((low < point).all() and (point < high).all() for low, high in box)
        assert signed[i] == (-distance[i] if within else distance[i])
        assert inside[i] == (within or least == 0)


def test_rays_equal_brute_force(rng: Rng) -> None:
    """Bit for bit, whatever the threads, and float32 rays like the same rays in float64."""
    sphere = trimesh.creation.icosphere(3)
    meshes = [(sphere.vertices + rng.normal(size=3), sphere.faces) for _ in range(3)]
    scene = scene_of(*meshes)
    rays = rng.normal(size=(2000, 6)).astype(np.float32)
    wide = scene.cast_rays(rays.astype(np.float64))
    t, prim = brute.closest_hit(scene.tree, rays[:, :3].astype(float), rays[:, 3:].astype(float))
    assert np.array_equal(wide["t_hit"], t)
    ids = wide["geometry_ids"].astype(np.int64) * len(sphere.faces) + wide["primitive_ids"]
    assert np.array_equal(ids[prim >= 0], prim[prim >= 0])
    assert (wide["primitive_ids"][prim < 0] == INVALID).all()
    for threads in (0, 1, 2, -1):
        narrow = scene.cast_rays(rays, nthreads=threads)
        for name, array in wide.items():
            assert np.array_equal(narrow[name], array.astype(narrow[name].dtype)), name
        assert narrow["t_hit"].dtype == narrow["primitive_normals"].dtype == np.float32


@pytest.mark.parametrize("shape", [(), (0,), (11,), (1, 2, 3), (32, 14), (2, 0, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.asarray, Tensor.from_numpy])
def test_shapes_and_types(shape: Any, dtype: Any, kind: Callable[..., Any], rng: Rng) -> None:
    """Leading shapes are those of the questions; Tensors in, Tensors out; ids are uint32."""
    sphere = trimesh.creation.icosphere(1)
    scene = RaycastingScene(nthreads=1, device="CPU:0")
    scene.add_triangles(sphere)
    rays = kind(rng.uniform(-1, 1, (*shape, 6)).astype(dtype))
    points = kind(rng.uniform(-1, 1, (*shape, 3)).astype(dtype))

    def check(array: Any, wanted: tuple[int, ...], form: Any) -> None:
        assert type(array) is Tensor if kind != np.asarray else isinstance(array, np.ndarray)
        plain = array.numpy()
        assert type(plain) is np.ndarray and plain.shape == wanted and plain.dtype == form
        assert plain.flags.c_contiguous and plain.flags.writeable

    tails = {"primitive_uvs": (2,), "primitive_normals": (3,), "points": (3,)}
    for answer in (scene.cast_rays(rays), scene.compute_closest_points(points)):
        assert len(answer) == 5
        for name, array in answer.items():
            form = np.uint32 if name.endswith("_ids") else dtype
            check(array, shape + tails.get(name, ()), form)
    check(scene.test_occlusions(rays), shape, np.bool_)
    counts = scene.count_intersections(rays)
    check(counts, shape, np.int32)
    for result in (
        scene.compute_distance(points),
        scene.compute_signed_distance(points, nsamples=3),
        scene.compute_occupancy(query_points=points, nthreads=1, nsamples=5),
    ):
        check(result, shape, dtype)
    n, m = int(np.prod(shape)), int(counts.numpy().sum())
    listed = scene.list_intersections(rays)
    assert set(listed) == {
        "ray_splits", "ray_ids", "t_hit", "geometry_ids", "primitive_ids", "primitive_uvs",
    }  # fmt: skip
    for name, array in listed.items():
        wanted = (n + 1,) if name == "ray_splits" else (m, *tails.get(name, ()))
        form = dtype if name in ("t_hit", "primitive_uvs") else np.uint32
        check(array, wanted, form)


def test_numpy_answers_work_where_tensors_are_expected() -> None:
    """What programs call on Tensors runs on numpy arrays; other numbers become float64."""
    scene = scene_of(TRIANGLE)
    t_hit = scene.cast_rays([[0.7, 0.2, 1, 0, 0, -1], [9, 9, 9, 1, 0, 0]])["t_hit"]
    assert t_hit.dtype == np.float64
    assert t_hit.isfinite().tolist() == [True, False]
    assert t_hit.isinf().numpy().tolist() == [False, True]
    assert not t_hit.isnan().any()
    assert t_hit[t_hit.isfinite()].cpu().numpy().tolist() == [1.0]
    whole = scene.cast_rays(np.array([[0, 0, 1, 0, 0, -1]]))["t_hit"]
    assert (whole.dtype, whole.tolist()) == (np.float64, [1.0])
    assert scene.compute_distance([]).shape == (0,)
    half = scene.compute_distance(np.zeros((1, 3), np.float16))
    assert half.dtype == np.float64


def test_what_misses() -> None:
    """Rays and points that are not finite miss and leave the others alone; so does no scene."""
    rays = np.array([[0.7, 0.2, 1, 0, 0, -1]] * 4)
    rays[0, 0], rays[1, 5], rays[2, 5] = np.nan, np.inf, 0.0
    points = np.array([[np.nan, 0, 0], [0, np.inf, 0], [1, 0, 2]])
    nothing = np.empty((0, 3)), np.empty((0, 3), int)
    bad = np.full((3, 3), np.nan), TRIANGLE[1]
    for scene, hit in (
        (scene_of(TRIANGLE), True),
        (scene_of(nothing, bad, TRIANGLE), True),
        (scene_of(), False),
        (scene_of(nothing), False),
        (scene_of(bad, nothing), False),
    ):
        answer = scene.cast_rays(rays)
        assert answer["t_hit"].tolist() == [np.inf] * 3 + [1.0 if hit else np.inf]
        for name in ("geometry_ids", "primitive_ids"):
            assert (answer[name][:3] == INVALID).all()
        geometries = len(scene._geometries)
        assert answer["geometry_ids"][3] == (geometries - 1 if hit else INVALID)
        assert not answer["primitive_normals"][:3].any() and not answer["primitive_uvs"][:3].any()
        assert scene.test_occlusions(rays).tolist() == [False] * 3 + [hit]
        assert scene.count_intersections(rays).tolist() == [0, 0, 0, hit]
        assert scene.list_intersections(rays)["ray_splits"].tolist() == [0, 0, 0, 0, hit]
        near = scene.compute_closest_points(points)
        assert (near["primitive_ids"][:2] == INVALID).all() and np.isnan(near["points"][:2]).all()
        distance = scene.compute_distance(points).tolist()
        assert distance == [np.inf] * 2 + [2.0 if hit else np.inf]
        assert scene.compute_occupancy(points).tolist() == [0, 0, 0]


@pytest.mark.parametrize("rays", [[], np.empty(0, np.float32), np.empty((0, 6))])
def test_no_rays(rays: Any) -> None:
    """Empty arrays of any shape and type are no rays."""
    scene = scene_of(TRIANGLE)
    assert scene.cast_rays(rays)["t_hit"].shape == (0,)
    assert scene.list_intersections(rays)["ray_splits"].tolist() == [0]


def test_degenerate_faces_have_no_normal() -> None:
    """The nearest point may lie on a face without area: the segment that it is."""
    flat = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0]], float), np.array([[0, 1, 2]])
    near = scene_of(flat).compute_closest_points([[0.5, 1.0, 0.0]])
    assert near["points"].tolist() == [[0.5, 0.0, 0.0]]
    assert np.isnan(near["primitive_normals"]).all()
    tiny = TRIANGLE[0].astype(float) * 1e-140, TRIANGLE[1]
    assert scene_of(tiny).cast_rays([[7e-141, 2e-141, 1, 0, 0, -1]])[
        "primitive_normals"
    ].tolist() == [[0.0, 0.0, 1.0]]


def test_float64_is_kept() -> None:
    """Millimetres ten thousand kilometres away, which float32 does not hold."""
    offset = np.array([1e7 + 0.5, -1e7, 1e7])
    scene = scene_of((TRIANGLE[0] * 1e-3 + offset, TRIANGLE[1]))
    rays = np.hstack([offset + [6e-4, 3e-4, 1.0], [0, 0, -1.0]])[None]
    answer = scene.cast_rays(rays)
    assert answer["t_hit"][0] == rays[0, 2] - 1e7 == 1.0
    assert np.allclose(answer["primitive_uvs"], [[0.3, 0.3]], 0, 1e-5)
    assert scene.cast_rays(rays.astype(np.float32))["geometry_ids"][0] == INVALID
    assert scene.compute_distance(rays[:, :3]).dtype == np.float64


def test_the_range_of_occlusions_is_closed() -> None:
    """Both ends belong to it, in units of the direction's length."""
    scene, ray = scene_of(TRIANGLE), np.array([[0.7, 0.2, 1, 0, 0, -2]], np.float32)
    for low, high, hit in ((0.5, 0.5, 1), (0.6, 9, 0), (0, 0.4, 0), (0.5, np.inf, 1), (1, 0, 0)):
        assert scene.test_occlusions(ray, low, high) == bool(hit)
    assert not scene.test_occlusions(ray, tnear=np.nextafter(0.5, 1))
    assert not scene.test_occlusions(ray, tfar=np.nextafter(0.5, 0))
