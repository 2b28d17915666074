"""Queries of Dask arrays equal those of NumPy arrays, on every scheduler."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

import bvh
from bvh.distributed.handles import handle_of
from tests.cases.families import sphere
from tests.cases.handles import checksum_of, kind_of
from tests.cases.partitions import parts_of

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

HITS = ("t", "u", "v", "front", "prim_id")
POINTS = ("distance", "position", "u", "v", "prim_id")
N = (60, 40)


@pytest.fixture(scope="module")
def tree() -> bvh.BVH:
    return bvh.BVH.from_triangles(*sphere(3))


@pytest.fixture
def rays(rng: np.random.Generator) -> tuple[Any, Any]:
    origins = rng.uniform(-2.0, 2.0, (*N, 3))
    return origins, rng.uniform(-0.7, 0.7, (*N, 3)) - origins


def chunked(array: Any, *chunks: int) -> Any:
    return da.from_array(array, chunks=chunks)


def same(found: Any, wanted: Any, names: tuple[str, ...]) -> None:
    (computed,) = dask.compute(found)
    assert type(computed) is type(wanted)
    for name in names:
        lazy, a, b = (getattr(result, name) for result in (found, computed, wanted))
        assert lazy.dtype == a.dtype == b.dtype
        assert lazy.shape == a.shape
        np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.usefixtures("scheduler")
def test_rays_of_a_tree(tree: bvh.BVH, rays: Any) -> None:
    origins, directions = chunked(rays[0], 17, 19, 2), chunked(rays[1], 60, 7, 3)
    hits = tree.closest_hit(origins, directions)
    assert hits.t.chunks == ((17, 17, 17, 9), hits.t.chunks[1])
    same(hits, tree.closest_hit(*rays), HITS)
    same(tree.closest_hit(origins, rays[1], counters=True), tree.closest_hit(*rays, counters=True),
         (*HITS, "nodes", "tests"))  # fmt: skip
    for verb in ("any_hit", "count_hits"):
        found = getattr(tree, verb)(origins, directions, 0.1, chunked(np.full(N, 2.0), 60, 40))
        wanted = getattr(tree, verb)(*rays, 0.1, 2.0)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.compute(), wanted)


@pytest.mark.usefixtures("scheduler")
def test_points_of_a_tree(tree: bvh.BVH, rays: Any) -> None:
    points = chunked(rays[0], 17, 40, 3)
    same(tree.closest_point(points), tree.closest_point(rays[0]), POINTS)
    same(tree.closest_point(points, 0.3, k=4), tree.closest_point(rays[0], 0.3, k=4), POINTS)
    for verb in ("distance", "signed_distance", "contains", "winding_number"):
        found, wanted = getattr(tree, verb)(points), getattr(tree, verb)(rays[0])
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.compute(), wanted)
    for verb in ("signed_distance", "contains"):
        found = getattr(tree, verb)(points, method="winding")
        np.testing.assert_array_equal(found, getattr(tree, verb)(rays[0], method="winding"))


@pytest.mark.usefixtures("scheduler")
def test_lists(tree: bvh.BVH, rays: Any) -> None:
    origins, directions = chunked(rays[0], 17, 19, 3), chunked(rays[1], 60, 7, 3)
    lists = tree.all_hits(origins, directions)
    assert lists.chunks.shape == (4, 8)
    found, wanted = lists.compute(), tree.all_hits(*rays)
    for name in (*HITS, "offsets", "shape"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
    corners = rays[0], rays[0] + 0.2
    found = tree.overlap_box(
        chunked(corners[0], 17, 40, 3), chunked(corners[1], 60, 9, 3)
    ).compute()
    wanted_boxes = tree.overlap_box(*corners)
    np.testing.assert_array_equal(found.prim_id, wanted_boxes.prim_id)
    np.testing.assert_array_equal(found.counts, wanted_boxes.counts)


@pytest.mark.usefixtures("scheduler")
def test_scene(tree: bvh.BVH, rays: Any) -> None:
    scene = bvh.Scene()
    scene.add(tree, name="one")
    scene.add(tree, transform=np.diag([0.5, 0.5, -0.5, 1.0]), mask=2)
    origins = chunked(rays[0], 30, 30, 3)
    names = (*HITS, "instance_id", "leaf")
    hits = scene.closest_hit(origins, rays[1])
    masked = scene.closest_hit(origins, rays[1], mask=2)
    wanted = scene.closest_hit(*rays)
    wanted_masked = scene.closest_hit(*rays, mask=2)
    near = scene.closest_point(origins)
    wanted_near = scene.closest_point(rays[0])
    # A graph has a snapshot of the scene.
    scene.set_transform(0, np.diag([3.0, 3.0, 3.0, 1.0]))
    same(hits, wanted, names)
    same(masked, wanted_masked, names)
    same(near, wanted_near, (*POINTS, "instance_id", "leaf"))


@pytest.mark.parametrize("scheduler", ["sync", "threads", "cluster"], indirect=True)
@pytest.mark.usefixtures("scheduler")
def test_parts(tree: bvh.BVH, rays: Any, tmp_path: Path) -> None:
    vertices, faces = sphere(3)
    parts = parts_of(tmp_path / "p", vertices, faces, np.arange(len(faces)) % 11, memory=30_000)
    assert len(parts.groups()) > 2
    origins = chunked(rays[0], 30, 40, 3)
    (hits,) = dask.compute(parts.closest_hit(origins, rays[1]))
    wanted = tree.closest_hit(*rays)
    for name in HITS:
        np.testing.assert_array_equal(getattr(hits, name), getattr(wanted, name))
    (near,) = dask.compute(parts.closest_point(origins))
    for name in POINTS:
        wanted_point = getattr(tree.closest_point(rays[0]), name)
        np.testing.assert_array_equal(getattr(near, name), wanted_point)
    for verb in ("distance", "signed_distance", "contains"):
        found = getattr(parts, verb)(origins).compute()
        np.testing.assert_array_equal(found, getattr(tree, verb)(rays[0]))
    for verb in ("any_hit", "count_hits"):
        found = getattr(parts, verb)(origins, rays[1]).compute()
        np.testing.assert_array_equal(found, getattr(tree, verb)(*rays))
    lists, wanted_lists = parts.all_hits(origins, rays[1]).compute(), tree.all_hits(*rays)
    for name in (*HITS, "offsets"):
        np.testing.assert_array_equal(getattr(lists, name), getattr(wanted_lists, name))


def test_building_a_graph_computes_nothing(tree: bvh.BVH, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("computed")

    rays = da.map_blocks(never, chunks=((5, 5), (3,)), dtype=float, meta=np.empty((0, 0)))
    monkeypatch.setattr("bvh.queries.batches.ray_batches.RaySearch.closest_hits", never)
    hits = tree.closest_hit(rays, rays)
    assert hits.t.shape == (10,)
    assert "lazy" in repr(hits)
    points = tree.closest_point(rays, k=2)
    assert points.position.shape == (10, 2, 3)


def test_fields_share_their_tasks(tree: bvh.BVH) -> None:
    calls = []

    def made(block: Any) -> Any:
        calls.append(block.shape)
        return block

    rays = da.ones((6, 3), chunks=(2, 3)).map_blocks(made, dtype=float, meta=np.empty((0, 0)))
    hits = tree.closest_hit(rays, [0.0, 0.0, 1.0])
    with dask.config.set(scheduler="sync"):
        dask.compute(hits.t, hits.prim_id, hits.u, hits.front)
    assert len(calls) == 3


def test_the_tree_is_one_key(tree: bvh.BVH) -> None:
    rays = da.ones((100, 3), chunks=(1, 3))
    graph = dict(tree.closest_hit(rays, [0.0, 0.0, 1.0]).t.__dask_graph__())
    whole = len(pickle.dumps(tree))
    sizes = sorted(len(pickle.dumps(value)) for value in graph.values())
    assert whole < sizes[-1] < 1.1 * whole
    assert sizes[-2] < 10_000


def test_tokens_follow_the_content() -> None:
    vertices, faces = sphere(1)
    tokens = {
        dask.base.tokenize(bvh.BVH.from_triangles(v, f))
        for v, f in [
            (vertices, faces),
            (vertices, faces),
            (vertices * 2, faces),
            (vertices, faces[1:]),
        ]
    }
    assert len(tokens) == 3
    scenes = [bvh.Scene() for _ in range(3)]
    for scene, scale in zip(scenes, (1.0, 1.0, 2.0), strict=True):
        scene.add(bvh.BVH.from_triangles(vertices, faces), transform=np.diag([scale] * 3 + [1.0]))
    assert len({dask.base.tokenize(scene) for scene in scenes}) == 2


def test_refit_does_not_change_a_graph() -> None:
    vertices, faces = sphere(2)
    tree = bvh.BVH.from_triangles(vertices, faces)
    hits = tree.closest_hit(da.zeros((4, 3)), [0.0, 0.0, 1.0])
    before = tree.closest_hit([0.0, 0.0, 0.0], [0.0, 0.0, 1.0]).t
    tree.refit(vertices * 2)
    assert (hits.t.compute(scheduler="sync") == before).all()


def test_a_mapped_tree_travels_as_its_path(tmp_path: Path, cluster: Any) -> None:
    vertices, faces = sphere(3)
    bvh.BVH.from_triangles(vertices, faces).save(tmp_path / "ball.bvh")
    mapped = bvh.load(tmp_path / "ball.bvh", mmap=True)
    for _ in range(2):
        handle = handle_of(mapped)
        assert kind_of(handle) == "mapped tree"
        assert len(pickle.dumps(handle)) < 1000
        mapped.closest_hit([0.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    assert kind_of(handle_of(bvh.load(tmp_path / "ball.bvh"))) == "bytes"
    hits = mapped.closest_hit(da.zeros((8, 3), chunks=2), [0.1, 0.2, 1.0])
    with cluster.as_current():
        assert (hits.t.compute() == mapped.closest_hit(np.zeros(3), [0.1, 0.2, 1.0]).t).all()


@pytest.mark.parametrize("how", ["missing", "another"])
def test_a_mapped_tree_that_is_not_there(how: str, tmp_path: Path) -> None:
    vertices, faces = sphere(1)
    path = tmp_path / "ball.bvh"
    bvh.BVH.from_triangles(vertices, faces).save(path)
    text = pickle.dumps(handle_of(bvh.load(path, mmap=True)))
    path.unlink()
    if how == "another":
        bvh.BVH.from_triangles(vertices * 2, faces).save(path)
    handle = pickle.loads(text)
    with pytest.raises(ValueError, match=str(path)) as error:
        handle.open()
    assert checksum_of(handle) in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((da.ones((4, 2)), [0.0, 0.0, 1.0]), "origins must have shape"),
        ((da.ones((4, 3)), da.ones((5, 3))), "leading shapes"),
        ((da.ones((9, 3))[da.arange(9) > 3], [0.0, 0.0, 1.0]), "origins has unknown chunks"),
    ],
)
def test_bad_arrays(arguments: Any, message: str, tree: bvh.BVH) -> None:
    with pytest.raises(ValueError, match=message):
        tree.closest_hit(*arguments)


def test_masked_arrays_beside_lazy_ones(tree: bvh.BVH) -> None:
    with pytest.raises(TypeError, match="directions must not be a masked array"):
        tree.closest_hit(da.ones((4, 3)), np.ma.masked_less(np.ones((4, 3)), 2))


def test_progress_is_not_for_lazy_queries(tree: bvh.BVH) -> None:
    with pytest.raises(ValueError, match="progress"):
        tree.closest_hit(da.ones((4, 3)), [0.0, 0.0, 1.0], progress=True)


@njit
def _even(ray_id: int, prim_id: int, t: float, u: float, v: float, data: int) -> bool:
    return prim_id % data == 0


@pytest.mark.usefixtures("scheduler")
def test_filter(tree: bvh.BVH, rays: Any) -> None:
    found = tree.closest_hit(chunked(rays[0], 60, 40, 3), rays[1], filter=_even, data=2)
    same(found, tree.closest_hit(*rays, filter=_even, data=2), HITS)


def test_one_ray(tree: bvh.BVH) -> None:
    hits = tree.closest_hit(da.zeros(3), da.ones(3))
    assert hits.t.shape == ()
    assert hits.t.compute(scheduler="sync") == tree.closest_hit(np.zeros(3), np.ones(3)).t


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("kind", ["tree", "scene", "boxes", "parts"])
def test_positions_and_normals(kind: str, tree: bvh.BVH, rays: Any, tmp_path: Path) -> None:
    """They are those of the target when it was queried, also of chosen and of rounded hits."""
    target: Any = tree
    if kind == "scene":
        target = bvh.Scene()
        moving = target.add(tree)
    elif kind == "boxes":
        lower = np.random.default_rng(5).uniform(-1.0, 1.0, (20, 3))
        target = bvh.BVH.from_boxes(lower, lower + 0.3)
    elif kind == "parts":
        owners = np.arange(len(tree)) % 11
        place = tmp_path / "parts"
        target = parts_of(place, tree.vertices, tree.faces, owners, memory=30_000)
    found = target.closest_hit(*(chunked(each, 17, 40, 3) for each in rays))
    wanted, near = target.closest_hit(*rays), None
    names = "position", "normal"
    expected = [np.array(getattr(wanted, name)) for name in names]
    if kind != "boxes":
        near = target.closest_point(chunked(rays[0], 17, 40, 3), k=2)
        close = np.array(target.closest_point(rays[0], k=2).normal)
    if kind == "scene":
        target.set_transform(moving, np.diag([2.0, 2.0, 2.0, 1.0]))
    for name, array in zip(names, expected, strict=True):
        lazy = getattr(found, name)
        assert lazy.shape == array.shape and lazy.chunks[:2] == found.t.chunks
        np.testing.assert_array_equal(lazy.compute(), array)
        np.testing.assert_array_equal(getattr(found[3], name).compute(), array[3])
        assert getattr(found.astype("float32"), name).dtype == np.float32
    if near is not None:
        np.testing.assert_array_equal(near.normal.compute(), close)
