"""Open3D's interface on our tree beside Open3D itself, where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trimesh

from bvh.compat.open3d import RaycastingScene
from tests.oracles import open3d as oracle_o3

open3d = pytest.importorskip("open3d", reason="Open3D is not installed", exc_type=ImportError)
Theirs = open3d.t.geometry.RaycastingScene

Rng = np.random.Generator
Mesh = tuple[np.ndarray, np.ndarray]

INVALID = RaycastingScene.INVALID_ID
# Rays of a batch that pass so near to an edge that float32 is wrong.
FEW = 4


def turned(rng: Rng, mesh: Any, scale: float, offset: Any) -> Mesh:
    """Return a mesh in a position in which nothing is special."""
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    vertices, faces = np.array(mesh.vertices), np.array(mesh.faces, np.uint32)
    return (vertices @ turn * scale + offset).astype(np.float32), faces


def closed(rng: Rng) -> list[Mesh]:
    """Return closed meshes apart from each other."""
    kinds = trimesh.creation.icosphere(3), trimesh.creation.torus(1.0, 0.4), trimesh.creation.box()
    return [turned(rng, kind, 0.5, 3.0 * np.eye(4, 3)[i]) for i, kind in enumerate(kinds)]


def soup(rng: Rng) -> list[Mesh]:
    """Return meshes of triangles that lie about."""
    faces = np.arange(300, dtype=np.uint32).reshape(-1, 3)
    return [(rng.normal(size=(300, 3)).astype(np.float32), faces) for _ in range(3)]


@pytest.fixture(params=[closed, soup])
def pair(request: pytest.FixtureRequest, rng: Rng) -> tuple[Any, RaycastingScene, Rng]:
    """Return the same scene twice, theirs and ours, and a generator."""
    theirs, ours = Theirs(), RaycastingScene()
    for mesh in request.param(rng):
        assert theirs.add_triangles(*mesh) == ours.add_triangles(*mesh)
    return theirs, ours, rng


def rays_into(scene: RaycastingScene, rng: Rng, n: int) -> np.ndarray:
    """Return rays from around a scene to places in it, of all lengths."""
    low, high = scene.tree.bounds
    o, target = rng.uniform(low - 1, high + 1, (n, 3)), rng.uniform(low, high, (n, 3))
    return np.hstack([o, (target - o) * rng.uniform(0.1, 10, (n, 1))]).astype(np.float32)


def alike(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, np.ndarray]:
    """Check keys, shapes and types; return their answers as arrays."""
    plain = {name: tensor.numpy() for name, tensor in theirs.items()}
    assert set(plain) == set(ours)
    for name, array in plain.items():
        assert (array.shape, array.dtype) == (ours[name].shape, ours[name].dtype), name
    return plain


def test_cast_rays(pair: Any) -> None:
    """The same ids, but for few; t, weights and normals to the digits that float32 has."""
    theirs, ours, rng = pair
    rays = rays_into(ours, rng, 40_000).reshape(100, 400, 6)
    mine = ours.cast_rays(rays)
    known = alike(theirs.cast_rays(rays), mine)
    same = (known["geometry_ids"] == mine["geometry_ids"]) & (
        known["primitive_ids"] == mine["primitive_ids"]
    )
    assert_right_by_arithmetic(ours, rays[~same], mine["geometry_ids"][~same])
    hit = same & (mine["geometry_ids"] != INVALID)
    assert 1000 < np.count_nonzero(hit) < hit.size
    assert np.median(np.abs(known["t_hit"][hit] / mine["t_hit"][hit] - 1.0)) < 1e-6
    for name, error in (("t_hit", 1e-5), ("primitive_uvs", 2e-3), ("primitive_normals", 1e-3)):
        assert np.allclose(known[name][same], mine[name][same], 1e-3, error), name
    for low, high in ((0.0, np.inf), (0.1, 0.7), (2.0, 1.0)):
        occluded = theirs.test_occlusions(rays, low, high).numpy()
        assert np.count_nonzero(occluded != ours.test_occlusions(rays, low, high)) <= FEW


def assert_right_by_arithmetic(
    ours: RaycastingScene, rays: np.ndarray, geometries: np.ndarray
) -> None:
    """Rays that float32 decides otherwise are few, and ours are as rational numbers have them."""
    assert len(rays) <= FEW
    for ray, geometry in zip(rays, geometries, strict=True):
        found = oracle_o3.hits(ours._geometries, ray)
        assert geometry == (found[0].geometry if found else INVALID)


def test_lists(pair: Any) -> None:
    """The same crossings, in whatever order; some of a soup's are lost in float32."""
    theirs, ours, rng = pair
    rays = rays_into(ours, rng, 10_000)
    counts = theirs.count_intersections(rays).numpy(), ours.count_intersections(rays)
    assert counts[0].dtype == counts[1].dtype
    same = counts[0] == counts[1]
    assert np.count_nonzero(~same) <= FEW
    lists = []
    for listed in (theirs.list_intersections(rays), ours.list_intersections(rays)):
        plain = {name: np.asarray(array.numpy()) for name, array in listed.items()}
        kept = same[plain["ray_ids"]]
        order = ("primitive_ids", "geometry_ids", "ray_ids")
        rows = np.lexsort([plain[name][kept] for name in order])
        splits = plain.pop("ray_splits")
        assert np.array_equal(
            np.diff(splits.astype(int)), np.bincount(plain["ray_ids"], None, len(rays))
        )
        lists.append({name: array[kept][rows] for name, array in plain.items()})
    for name in ("ray_ids", "geometry_ids", "primitive_ids"):
        assert lists[0][name].dtype == lists[1][name].dtype
        assert np.array_equal(lists[0][name], lists[1][name])
    assert np.allclose(lists[0]["t_hit"], lists[1]["t_hit"], 1e-3, 1e-5)
    assert np.allclose(lists[0]["primitive_uvs"], lists[1]["primitive_uvs"], 0, 2e-3)


def test_points(pair: Any) -> None:
    """The same faces, but where several are as near; the same distances."""
    theirs, ours, rng = pair
    low, high = ours.tree.bounds
    points = rng.uniform(low - 1, high + 1, (3, 1000, 3)).astype(np.float32)
    mine = ours.compute_closest_points(points)
    known = alike(theirs.compute_closest_points(points), mine)
    distance = ours.compute_distance(points)
    assert np.allclose(theirs.compute_distance(points).numpy(), distance, 1e-5, 1e-6)
    for answer in (known, mine):
        assert np.allclose(np.linalg.norm(answer["points"] - points, axis=-1), distance, 0, 1e-4)
    same = (known["geometry_ids"] == mine["geometry_ids"]) & (
        known["primitive_ids"] == mine["primitive_ids"]
    )
    assert np.mean(same) > 0.3
    for name in ("points", "primitive_uvs", "primitive_normals"):
        assert np.allclose(known[name][same], mine[name][same], 0, 1e-3), name


def test_signs(rng: Rng) -> None:
    """The same insides of closed meshes."""
    theirs, ours = Theirs(), RaycastingScene()
    for mesh in closed(rng):
        assert theirs.add_triangles(*mesh) == ours.add_triangles(*mesh)
    low, high = ours.tree.bounds
    points = rng.uniform(low, high, (20_000, 3)).astype(np.float32)
    points[::2] = (points[::2] - low.astype(np.float32)) / 4 - 0.5
    inside = ours.compute_occupancy(points)
    known = theirs.compute_occupancy(points, nsamples=5).numpy()
    assert known.dtype == inside.dtype and np.array_equal(known, inside)
    assert 100 < np.count_nonzero(inside) < len(points) - 100
    signed = theirs.compute_signed_distance(points, nsamples=5).numpy()
    assert np.allclose(signed, ours.compute_signed_distance(points), 1e-5, 1e-6)


def test_cameras(rng: Rng) -> None:
    """The rays of both forms."""
    intrinsic = np.array([[500.0, 2.0, 30.0], [0.0, 480.0, 20.0], [0.0, 0.0, 1.0]])
    extrinsic = np.eye(4)
    extrinsic[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    extrinsic[:3, 3] = rng.normal(size=3)
    for args in (
        (intrinsic, extrinsic, 64, 48),
        (50.0, *rng.normal(size=(3, 3)), 64, 48),
        (90, [0, 0, 0], [1, 2, 3], [0, 0, 1], 3, 5),
    ):
        theirs = Theirs.create_rays_pinhole(*args).numpy()
        ours = RaycastingScene.create_rays_pinhole(*args)
        assert (theirs.shape, theirs.dtype) == (ours.shape, ours.dtype)
        assert np.allclose(theirs, ours, 0, 2e-6)


def test_tensors_and_meshes() -> None:
    """Tensors in, Tensors out; meshes of both classes, also one that is empty."""
    core = open3d.core
    box, scene = open3d.t.geometry.TriangleMesh.create_box(), RaycastingScene(device=core.Device())
    assert scene.add_triangles(box) == 0
    assert scene.add_triangles(box.to_legacy().translate([5, 0, 0])) == 1
    assert scene.add_triangles(open3d.t.geometry.TriangleMesh()) == 2
    assert scene.add_triangles(box.vertex.positions + 9.0, box.triangle.indices) == 3
    assert len(scene.tree) == 36
    for other in (open3d.t.geometry.PointCloud(), open3d.geometry.PointCloud()):
        with pytest.raises(TypeError, match="got open3d's PointCloud"):
            scene.add_triangles(other)
    rays = core.Tensor([[0.3, 0.6, 9, 0, 0, -1], [5.3, 0.6, 9, 0, 0, -1]], core.float32)
    answer = scene.cast_rays(rays)
    assert {type(tensor) for tensor in answer.values()} == {core.Tensor}
    assert answer["geometry_ids"].numpy().tolist() == [0, 1]
    assert answer["t_hit"].dtype == core.float32 and answer["t_hit"].numpy().tolist() == [8.0, 8.0]
    # A view of every second column, none of them next to another.
    wide = core.Tensor(np.repeat(rays.numpy().astype(np.float64), 2, axis=1))[:, ::2]
    assert scene.cast_rays(wide)["t_hit"].dtype == core.float64
    assert scene.test_occlusions(wide).numpy().tolist() == [True, True]
    assert scene.compute_distance(rays[:, :3]).numpy().tolist() == [8.0, 8.0]
    empty = core.Tensor(np.empty((0, 6), np.float32))
    assert list(scene.list_intersections(empty)["ray_splits"].shape) == [1]
    eye = core.Tensor([0.5, 0.5, 5.0])
    made = scene.create_rays_pinhole(60, [0, 0, 0], eye, [0, 1, 0], 4, 3)
    assert type(made) is core.Tensor and list(made.shape) == [3, 4, 6]
