"""What boxes, balls and polytopes meet: every tree against brute force in rational numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH
from bvh.queries.batches import overlap_batches
from tests.cases import soups
from tests.oracles import overlaps as oracle

QUALITIES = ["medium", "high"]
FLAT = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def grid_mesh(rng: np.random.Generator, n: int = 60) -> soups.Mesh:
    """Return faces on a grid of 5: some without area, one not finite."""
    vertices = rng.integers(0, 5, (n, 3)).astype(float)
    vertices[-1] = np.nan
    return vertices, rng.integers(0, n, (n, 3))


def long_mesh(rng: np.random.Generator, n: int = 60) -> soups.Mesh:
    """Return long thin faces, which trees of high quality hold in several leaves."""
    a = rng.random((n, 3)) * 4.0
    b = a + rng.normal(size=(n, 3)) * 2.0
    points = np.stack([a, b, b + rng.normal(size=(n, 3)) * 0.3], axis=1)
    return points.reshape(-1, 3), np.arange(3 * n).reshape(-1, 3)


MESHES = {"grid": grid_mesh, "long": long_mesh}


def corners_of(mesh: soups.Mesh) -> dict[int, list[list[float]]]:
    """Return the corners of all finite faces by their ids."""
    corners = mesh[0][mesh[1]]
    return {i: t.tolist() for i, t in enumerate(corners) if np.isfinite(t).all()}


def check(
    trees: list[BVH], name: str, truth: Any, corners: dict[int, Any], *queries: np.ndarray
) -> None:
    """Compare a batch in several trees over a mesh with the truth, one query and face at a time."""
    wanted = [
        [prim for prim, t in corners.items() if truth(t, *query)]
        for query in zip(*(q.tolist() for q in queries), strict=True)
    ]
    for tree in trees:
        found = getattr(tree, name)(*queries)
        assert found.offsets.dtype == np.int64
        assert found.prim_id.dtype == np.int32
        assert len(found) == len(wanted)
        assert 0 < len(found.prim_id) < len(found) * len(corners)
        assert [found[i].tolist() for i in range(len(found))] == wanted
        assert np.array_equal(found.query_id, np.repeat(np.arange(len(found)), found.counts))


@pytest.mark.parametrize("name", MESHES)
@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_regions(name: str, scale: float, rng: np.random.Generator) -> None:
    """Boxes, balls and polytopes on grids, so that they often only touch."""
    vertices, faces = MESHES[name](rng)
    vertices = vertices * scale
    trees = [BVH.from_triangles(vertices, faces, quality=quality) for quality in QUALITIES]
    corners = corners_of((vertices, faces))
    n = 20
    lower = rng.integers(-1, 5, (n, 3)) * scale
    upper = lower + rng.integers(0, 3, (n, 3)) * scale
    check(trees, "overlap_box", oracle.triangle_meets_box, corners, lower, upper)
    radius = rng.integers(0, 4, n) * scale
    check(trees, "overlap_sphere", oracle.triangle_meets_sphere, corners, lower, radius)
    normals = rng.integers(-2, 3, (n, 4, 3)).astype(float)
    planes = np.concatenate([normals, rng.integers(-2, 6, (n, 4, 1)) * scale], axis=2)
    check(trees, "overlap_frustum", oracle.triangle_meets_planes, corners, planes)


def test_far_and_fine(rng: np.random.Generator) -> None:
    """Millimetres at 1e7, and regions far larger than the mesh."""
    vertices, faces = long_mesh(rng)
    vertices = vertices * 1e-3 + 1e7
    trees = [BVH.from_triangles(vertices, faces, quality=quality) for quality in QUALITIES]
    corners = corners_of((vertices, faces))
    center = vertices[rng.integers(0, len(vertices), 20)]
    # Large balls whose surface passes through a vertex, but for a rounding.
    away = rng.normal(size=(20, 3)) * 10.0 ** rng.integers(-3, 9, (20, 1))
    radius = np.linalg.norm((center + away) - center, axis=1)
    check(trees, "overlap_sphere", oracle.triangle_meets_sphere, corners, center + away, radius)
    low, high = np.minimum(center, center + away), np.maximum(center, center + away)
    check(trees, "overlap_box", oracle.triangle_meets_box, corners, low, high)
    planes = np.concatenate([away, -(away * center).sum(axis=1)[:, None]], axis=1)[:, None]
    check(trees, "overlap_frustum", oracle.triangle_meets_planes, corners, planes)


def test_boxes_as_primitives(rng: np.random.Generator) -> None:
    """Trees over boxes answer boxes and balls."""
    n = 200
    lower = rng.integers(-5, 5, (n, 3)).astype(float)
    upper = lower + rng.integers(0, 3, (n, 3))
    lower[7] = np.nan
    tree = BVH.from_boxes(lower, upper)
    low = rng.integers(-6, 6, (50, 3)).astype(float)
    high = low + rng.integers(0, 4, (50, 3))
    found, near = tree.overlap_box(low, high), tree.overlap_sphere(low, 2.0)
    for i in range(50):
        wanted = ((lower <= high[i]) & (upper >= low[i])).all(axis=1)
        assert found[i].tolist() == np.flatnonzero(wanted).tolist()
        gap = np.maximum(np.maximum(lower - low[i], low[i] - upper), 0.0)
        assert near[i].tolist() == np.flatnonzero((gap**2).sum(axis=1) <= 4.0).tolist()


def test_shapes() -> None:
    """The result of one query is a sequence of ids, a batch has a part for each; all broadcast."""
    tree = BVH.from_triangles(FLAT, [[0, 1, 2]])
    for ids in (
        tree.overlap_box([0, 0, 0], [1, 1, 1]),
        tree.overlap_sphere([0, 0, 1], 1),
        tree.overlap_frustum(np.empty((0, 4))),
        tree.overlap_frustum([]),
        tree.overlap_frustum([[0, 0, 0, 0], [0, 0, 2, 0]]),
        tree.overlap_box([-np.inf] * 3, [np.inf] * 3),
    ):
        assert ids.prim_id.dtype == np.asarray(ids).dtype == np.int32
        assert ids.tolist() == list(ids) == [0] and ids[0] == 0 and len(ids) == ids.counts == 1
        assert np.eye(3)[ids].tolist() == [[1, 0, 0]] and repr(ids) == "Overlaps(1 primitive)"
    batch = tree.overlap_box(np.zeros((2, 3, 3)), np.ones(3))
    assert (len(batch), batch.shape, batch.counts.tolist()) == (6, (2, 3), [[1, 1, 1], [1, 1, 1]])
    assert batch.query_id.tolist() == [0, 1, 2, 3, 4, 5]
    assert len(tree.overlap_sphere(np.zeros(3), np.ones(4))) == 4
    assert len(tree.overlap_frustum(np.zeros((5, 2, 4)))) == 5
    assert len(tree.overlap_frustum(np.zeros((5, 0, 4))).prim_id) == 5
    none = tree.overlap_box(np.zeros((0, 3)), np.ones(3))
    assert (len(none), none.prim_id.tolist(), none.offsets.tolist()) == (0, [], [0])
    some = tree.overlap_sphere([[9, 9, 9], [0, 0, 0]], 1)
    assert repr(some) == "Overlaps(1 of 2 queries meet 1 primitive)"
    assert some[-1].tolist() == [0] and some.tolist() == [[], [0]]
    assert batch.tolist() == [[[0], [0], [0]], [[0], [0], [0]]]
    with pytest.raises(TypeError, match="single query"):
        np.asarray(some)
    with pytest.raises(IndexError):
        some[2]


def test_bad_queries_meet_nothing() -> None:
    """And leave the rest of their batch alone."""
    tree = BVH.from_triangles(FLAT, [[0, 1, 2]])
    low, high = np.zeros((5, 3)), np.ones((5, 3))
    low[0, 1], high[1, 2], low[2, 0] = np.nan, np.nan, 2.0
    assert tree.overlap_box(low, high).counts.tolist() == [0, 0, 0, 1, 1]
    center = np.zeros((6, 3))
    center[0, 0], center[1, 1] = np.nan, np.inf
    radius = [1.0, 1.0, -1.0, np.nan, np.inf, 0.0]
    assert tree.overlap_sphere(center, radius).counts.tolist() == [0, 0, 0, 0, 0, 1]
    planes = np.ones((5, 2, 4))
    planes[0, 0, 0], planes[1, 1, 3], planes[2, 0] = np.nan, np.inf, (0, 0, 0, -1)
    assert tree.overlap_frustum(planes).counts.tolist() == [0, 0, 0, 1, 1]


def test_empty_trees() -> None:
    """Nothing meets nothing."""
    nothing = [[np.nan] * 3] * 3
    for tree in (
        BVH.from_triangles(np.empty((0, 3)), []),
        BVH.from_triangles(nothing, [[0, 1, 2]]),
    ):
        assert tree.overlap_box([0, 0, 0], [1, 1, 1]).tolist() == []
        assert tree.overlap_sphere(np.zeros((2, 3)), 1).counts.tolist() == [0, 0]
        assert tree.overlap_frustum(np.zeros((2, 1, 4))).counts.tolist() == [0, 0]


@pytest.mark.parametrize("quality", QUALITIES)
def test_long_lists_and_threads(quality: str, rng: np.random.Generator) -> None:
    """Lists longer than any buffer are complete; threads change nothing; progress is told."""
    mesh = soups.soup(rng, 20_000)
    tree = BVH.from_triangles(*mesh, quality=quality)
    lower = rng.random((700, 3)) - 0.2
    lower[5] = -1.0
    upper = lower + 0.15
    upper[5] = 2.0
    one = tree.overlap_box(lower, upper, threads=1)
    calls: list[tuple[int, int]] = []
    two = tree.overlap_box(lower, upper, threads=2, progress=lambda *call: calls.append(call))
    assert calls[-1] == (700, 700)
    assert np.array_equal(one.prim_id, two.prim_id)
    assert np.array_equal(one.offsets, two.offsets)
    assert np.array_equal(one[5], np.arange(20_000))
    for i in (0, 5, 699):
        assert np.array_equal(one[i], tree.overlap_box(lower[i], upper[i]))
    # Six planes say what a box says.
    planes = np.concatenate(
        [
            np.concatenate(
                [np.broadcast_to(s * np.eye(3), (700, 3, 3)), -s * p[:, :, None]], axis=2
            )
            for s, p in ((1.0, lower), (-1.0, upper))
        ],
        axis=1,
    )
    same = tree.overlap_frustum(planes)
    assert np.array_equal(one.prim_id, same.prim_id)
    assert np.array_equal(one.offsets, same.offsets)


def test_one_region_finds_more_than_the_largest_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest buffer is filled again and again, and what it had before stays found."""
    monkeypatch.setattr(overlap_batches, "LARGEST_CAPACITY", overlap_batches.CAPACITY)
    count = 5 * overlap_batches.CAPACITY
    low = np.stack([np.arange(count), np.zeros(count), np.zeros(count)], axis=1)
    corners = np.stack([low, low + [0.5, 0.0, 0.0], low + [0.0, 0.5, 0.0]], axis=1)
    tree = BVH.from_triangles(corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))
    scene = bvh.Scene()
    scene.add(tree)
    for source in (tree, scene):
        for found in (
            source.overlap_box(low.min(axis=0), low.max(axis=0) + 1.0),
            source.overlap_sphere([0.0, 0.0, 0.0], 2.0 * count),
            source.overlap_frustum([[0.0, 0.0, 1.0, 1.0]]),
        ):
            assert np.array_equal(found.prim_id, np.arange(count))
