"""Sources of rays: blocks of a chunk, sums over results of blocks."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

import bvh
from tests.cases.families import sphere
from tests.cases.partitions import parts_of

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
chunk_tasks = pytest.importorskip("bvh.distributed.chunk_tasks")

CAMERA = bvh.Camera.look_at([0.0, 1.0, 4.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0], 40.0, 61, 47)


@pytest.fixture(scope="module")
def tree() -> bvh.BVH:
    return bvh.BVH.from_triangles(*sphere(3))


@pytest.fixture
def source() -> Any:
    return bvh.distributed.camera_rays(CAMERA, (40, 33))


@pytest.mark.parametrize("most", [1, 7, 100, 1 << 18])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5, 0), (61, 47), (1, 2000), (3, 4, 5)])
def test_blocks_cover_a_shape(
    shape: tuple[int, ...], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_tasks, "BLOCK", most)
    covered = np.zeros(shape, np.int64)
    for block in chunk_tasks.ray_blocks(shape, False):
        assert covered[block].size <= most
        covered[block] += 1
    assert (covered == 1).all()
    assert len(chunk_tasks.ray_blocks(shape, True)) == 1


@pytest.mark.parametrize("block", [1, 50, 10_000])
@pytest.mark.parametrize("verb", ["closest_hit", "any_hit", "count_hits"])
def test_blocks_change_no_answer(
    verb: str, block: int, tree: bvh.BVH, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_tasks, "BLOCK", block if verb == "closest_hit" else max(block, 20))
    source = bvh.distributed.camera_rays(CAMERA, (20, 33))
    found = getattr(source, verb)(tree, t_max=3.3)
    wanted = getattr(tree, verb)(*CAMERA.rays(), 0.0, 3.3)
    if verb == "closest_hit":
        names = "t", "prim_id", "u", "v", "front"
        columns = dask.compute(*(getattr(found, name) for name in names), scheduler="sync")
        for name, column in zip(names, columns, strict=True):
            np.testing.assert_array_equal(column, getattr(wanted, name))
    else:
        np.testing.assert_array_equal(found.compute(scheduler="sync"), wanted)


def _rays(rows: slice, columns: slice) -> Any:
    y = np.arange(rows.start, rows.stop)[:, None] * 0.1
    x = np.arange(columns.start, columns.stop) * 0.1
    directions = np.stack(np.broadcast_arrays(x - 1.0, y, -1.0), axis=-1)
    return np.array([0.0, 0.0, 3.0]), directions


@pytest.mark.parametrize("shape", [(1, 30), (4, 30), (1, 1), (0, 30)])
def test_small_shapes(
    shape: tuple[int, int], tree: bvh.BVH, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_tasks, "BLOCK", 16)
    wanted = tree.closest_hit(*_rays(*map(slice, (0, 0), shape)))
    found = bvh.distributed.RaySource(_rays, shape, (2, 25)).closest_hit(tree)
    assert found.t.shape == wanted.t.shape
    np.testing.assert_array_equal(found.t.compute(scheduler="sync"), wanted.t)
    np.testing.assert_array_equal(found.prim_id.compute(scheduler="sync"), wanted.prim_id)


def _histogram(hits: Any, *place: slice) -> Any:
    assert hits.t.shape == tuple(axis.stop - axis.start for axis in place)
    return np.histogram(hits.t[hits.mask], bins=9, range=(2.0, 5.0))[0]


def _rows(hits: Any, rows: slice, columns: slice) -> Any:
    """Return the number of hits of each row of the picture."""
    counts = np.zeros(CAMERA.height, np.int64)
    counts[rows] = hits.mask.sum(axis=1)
    return counts


def test_sums(
    tree: bvh.BVH, source: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = tree.closest_hit(*CAMERA.rays())
    parts = parts_of(tmp_path, *sphere(3), np.arange(len(tree)) % 5, memory=1)
    monkeypatch.setattr(chunk_tasks, "BLOCK", 300)
    for target in (tree, parts):
        with cluster.as_current():
            np.testing.assert_array_equal(
                source.reduce(target, _histogram).compute(),
                _histogram(wanted, slice(0, 47), slice(0, 61)),
            )
        found = source.reduce(target, _rows, t_max=9.0).compute(scheduler="sync")
        np.testing.assert_array_equal(found, wanted.mask.sum(axis=1))
        total = source.reduce(target, lambda hit, *_: int(hit.sum()), "any_hit")
        assert total.compute(scheduler="threads") == wanted.mask.sum()
    lists = source.reduce(tree, lambda hits, *_: len(hits.t), "all_hits")
    assert lists.compute(scheduler="sync") == tree.count_hits(*CAMERA.rays(), edges="closed").sum()


def test_bad_sums(tree: bvh.BVH, source: Any) -> None:
    with pytest.raises(ValueError, match=r"verb must be one of closest_hit, .* got 'contains'"):
        source.reduce(tree, _histogram, "contains")
    with pytest.raises(ValueError, match="progress must be None"):
        source.reduce(tree, _histogram, progress=True)
    with pytest.raises(TypeError, match="function must be callable, got str"):
        source.reduce(tree, "sum")


@njit
def _not_own(ray_id: Any, prim_id: Any, t: Any, u: Any, v: Any, data: Any) -> Any:
    return prim_id != data[ray_id]


def test_filters_count_the_rays_of_a_chunk(tree: bvh.BVH, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of a block."""
    monkeypatch.setattr(chunk_tasks, "BLOCK", 100)
    rays = CAMERA.rays()
    first = tree.closest_hit(*rays)
    source = bvh.distributed.camera_rays(CAMERA, 1000)
    found = source.closest_hit(tree, filter=_not_own, data=first.prim_id.reshape(-1).copy())
    wanted = tree.closest_hit(*rays, filter=_not_own, data=first.prim_id.reshape(-1).copy())
    assert (wanted.prim_id != first.prim_id).any()
    np.testing.assert_array_equal(found.prim_id.compute(scheduler="sync"), wanted.prim_id)


def _from_points(part: slice, points: Any) -> Any:
    return points[part], np.array([0.0, 0.0, -1.0])


def _total(hits: Any, *place: slice) -> int:
    return int(hits.sum())


def test_arguments_are_one_key(tree: bvh.BVH) -> None:
    """However many tasks there are."""
    points = np.random.default_rng(5).normal(size=(4000, 3))
    source = bvh.distributed.RaySource(_from_points, (4000,), 100, (points,))
    for lazy in (source.any_hit(tree), source.reduce(tree, _total, "any_hit")):
        assert len(pickle.dumps(dict(lazy.__dask_graph__()))) < 3 * points.nbytes + tree_bytes(tree)
    found = source.any_hit(tree).compute(scheduler="sync")
    np.testing.assert_array_equal(found, tree.any_hit(points, [0.0, 0.0, -1.0]))


def tree_bytes(tree: bvh.BVH) -> int:
    """Return the bytes that a tree is pickled to."""
    return len(pickle.dumps(tree))


def test_bad_options(tree: bvh.BVH, source: Any) -> None:
    """They are refused before a graph is made."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'tmax'"):
        source.closest_hit(tree, tmax=5.0)
    with pytest.raises(ValueError, match="threads"):
        source.any_hit(tree, threads=0)
    with pytest.raises(ValueError, match="cull"):
        source.reduce(tree, _histogram, cull="left")
    with pytest.raises(ValueError, match=r"t_max must be a number .* shape \(61,\)"):
        source.any_hit(tree, t_max=np.ones(61))
    with pytest.raises(ValueError, match="mask must be a number"):
        source.reduce(tree, _histogram, mask=da.ones(61, dtype=int))
    with pytest.raises(TypeError, match="target must be a BVH, a Scene or Parts, got str"):
        source.closest_hit("tree")
    with pytest.raises(ValueError, match="shape must be at least 0, got -7"):
        bvh.distributed.RaySource(_rays, (-7,))
