"""Regions that meet the surfaces of spheres and capsules, against fractions; also in scenes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH
from bvh.queries.batches import overlap_batches
from bvh.tree.shapes import shape_of
from tests.oracles import round_regions as oracle
from tests.scene.test_round_shapes import even_map

KINDS = ["spheres", "capsules"]
# Shares of the inputs: rational arithmetic decides some polytopes and shapes, in milliseconds each.
FEW_OR_ALL = [False, pytest.param(True, marks=pytest.mark.long)]
QUERIES: dict[str, Any] = {
    "overlap_box": oracle.surface_meets_box,
    "overlap_sphere": oracle.surface_meets_sphere,
    "overlap_frustum": oracle.surface_meets_planes,
}


def shapes_of(kind: str, rng: np.random.Generator, n: int, scale: float, grid: bool) -> Any:
    """Return a tree and the rows (p, q, [radius]) of its shapes by id."""
    p = rng.integers(0, 9, (n, 3)) * scale if grid else rng.random((n, 3)) * 9.0 * scale
    v = rng.integers(-2, 3, (n, 3)) * scale if grid else rng.normal(size=(n, 3)) * scale
    r = rng.choice([0.0, 1.0, 2.0, 5.0], n) * scale if grid else rng.random(n) * 3.0 * scale
    p[-1] = np.nan
    q = p if kind == "spheres" else p + v
    tree = BVH.from_spheres(p, r) if kind == "spheres" else BVH.from_capsules(p, q, r)
    return tree, [*zip(p.tolist(), q.tolist(), r[:, None].tolist(), strict=True)][:-1]


def regions_of(rng: np.random.Generator, n: int, scale: float, grid: bool) -> dict[str, Any]:
    """Return arguments of each query: small and large regions, on a grid or not."""
    at = rng.integers(0, 9, (n, 3)) * scale if grid else rng.random((n, 3)) * 9.0 * scale
    size = rng.integers(0, 4, (n, 3)) * scale if grid else rng.random((n, 3)) * 5.0 * scale
    size[: n // 4] *= 4.0
    radius = size[:, 0].copy()
    lower, upper = at - size, at + size * (rng.random((n, 1)) < 0.8)
    normals = rng.integers(-2, 3, (n, 5, 3)).astype(float)
    if not grid:
        normals = rng.normal(size=(n, 5, 3))
    # Around a point, or with a corner at it.
    heights = size[:, [0, 1, 2, 0, 0]] * rng.integers(0, 2, (n, 5))
    offsets = heights - (normals * at[:, None]).sum(axis=2)
    planes = np.concatenate([normals, offsets[..., None]], axis=2)
    return {
        "overlap_box": (lower, upper), "overlap_sphere": (at, radius), "overlap_frustum": (planes,)
    }  # fmt: skip


def wanted_of(truth: Any, shapes: Any, queries: Any) -> list[list[int]]:
    """Return the shapes that each region meets."""
    each = zip(*(q.tolist() for q in queries), strict=True)
    return [[i for i, shape in enumerate(shapes) if truth(shape, *query)] for query in each]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("scale", "grid"), [(1.0, True), (1.0, False), (2.0**300, True)])
@pytest.mark.parametrize("complete", FEW_OR_ALL)
def test_regions(
    kind: str, query: str, scale: float, grid: bool, complete: bool, rng: np.random.Generator
) -> None:
    """Of a tree, and of a scene whose transforms round nothing."""
    n, m = (30, 30) if complete else (15, 12)
    if query == "overlap_frustum":
        n, m = (10, 6) if complete else (5, 3)
    tree, shapes = shapes_of(kind, rng, n, scale, grid)
    given = regions_of(rng, m, scale, grid)[query]
    wanted = wanted_of(QUERIES[query], shapes, given)
    found = getattr(tree, query)(*given)
    assert not complete or len(found.prim_id) > 0
    assert [found[i].tolist() for i in range(len(found))] == wanted
    single = getattr(tree, query)(*(each[0] for each in given))
    assert single.prim_id.tolist() == wanted[0]
    if not grid or query == "overlap_frustum":
        return
    turn = np.array([[0.0, -2.0, 0.0, scale], [2.0, 0, 0, 0], [0, 0, 2.0, -scale], [0, 0, 0, 1]])
    scene = bvh.Scene()
    ids = scene.add_many(tree, [np.eye(4), turn])
    moved = [
        [(turn[:3, :3] @ p + turn[:3, 3]).tolist() for p in shape[:2]] + [[2.0 * shape[2][0]]]
        for shape in shapes
    ]
    found = getattr(scene, query)(*given)
    moved_wanted = wanted_of(QUERIES[query], moved, given)
    assert [found[i].tolist() for i in range(len(found))] == [
        [*a, *b] for a, b in zip(wanted, moved_wanted, strict=True)
    ]
    assert set(found.instance_id.tolist()) == set(ids)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("complete", FEW_OR_ALL)
def test_scenes(kind: str, query: str, complete: bool, rng: np.random.Generator) -> None:
    """Turned instances beside a mesh, as trees of the shapes that they are; masks."""
    n, m = (200, 100) if complete else (40, 20)
    tree, _ = shapes_of(kind, rng, n, 1.0, False)
    face = BVH.from_triangles([[0, 0, 0], [9, 0, 0], [0, 9, 0]], [[0, 1, 2]])
    scene = bvh.Scene()
    scene.add(face, mask=1)
    turn = even_map(rng, 1.5, grid=False)
    scene.add(tree, turn, mask=2)
    given = regions_of(rng, m, 1.0, False)[query]
    shapes: Any = tree._arrays.primitives
    points = shape_of(shapes).instances(shapes.points, turn[:3])
    ends = points[:, 6:9], points[:, -4:-1], points[:, -1]
    flat = BVH.from_spheres(*ends[1:]) if kind == "spheres" else BVH.from_capsules(*ends)
    found, own = getattr(scene, query)(*given), getattr(flat, query)(*given)
    faces = getattr(face, query)(*given)
    for i in range(20):
        assert found[i].tolist() == faces[i].tolist() + own[i].tolist()
    assert np.array_equal(getattr(scene, query)(*given, mask=2).prim_id, own.prim_id)
    assert np.array_equal(getattr(scene, query)(*given, mask=1).prim_id, faces.prim_id)


def test_large_regions(rng: np.random.Generator) -> None:
    """All shapes are in a region without planes; none that is empty, or within a shape."""
    tree = BVH.from_spheres(rng.random((50, 3)), 3.0)
    assert len(tree.overlap_frustum(np.empty((0, 4))).prim_id) == 50
    assert len(tree.overlap_box([-np.inf] * 3, [np.inf] * 3).prim_id) == 50
    assert len(tree.overlap_box([0, 0, 0], [1, 1, 1]).prim_id) == 0
    assert len(tree.overlap_sphere([0.5, 0.5, 0.5], 0.5).prim_id) == 0
    cube = [[1, 0, 0, 0], [-1, 0, 0, 1], [0, 1, 0, 0], [0, -1, 0, 1], [0, 0, 1, 0], [0, 0, -1, 1]]
    assert len(tree.overlap_frustum(np.array(cube, float)).prim_id) == 0
    assert len(tree.overlap_frustum([[1, 0, 0, -1e3], [-1, 0, 0, 0]]).prim_id) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("complete", FEW_OR_ALL)
def test_few_need_rationals(
    kind: str, complete: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of pairs with polytopes and narrow frusta, fewer than one in a hundred; some by rationals."""
    asked: list[int] = []
    decide = overlap_batches._overlaps

    def count(*given: Any) -> bool:
        asked.append(1)
        return decide(*given)

    monkeypatch.setattr(overlap_batches, "_overlaps", count)
    n, m = (100, 60) if complete else (60, 20)
    tree, shapes = shapes_of(kind, rng, n, 1.0, False)
    tree.overlap_frustum(*regions_of(rng, m, 1.0, False)["overlap_frustum"])
    frusta = []
    for _ in range(m):
        places = rng.random((2, 3)) * 9.0
        camera = bvh.Camera.look_at(*places, fov_y=40, width=64, height=48, near=0.5, far=6.0)
        x, y, size = rng.uniform(0.0, 40.0, 3)
        frusta.append(camera.frustum(x, y, x + size, y + 0.1 * size))
    found = tree.overlap_frustum(np.stack(frusta))
    assert len(asked) <= 0.01 * 2 * m * n
    for k in range(6 if complete else 1):
        some = rng.choice(n - 1, 30 if complete else 6, replace=False).tolist()
        truth = [i for i in sorted(some) if oracle.surface_meets_planes(shapes[i], frusta[k])]
        assert truth == [i for i in found[k].tolist() if i in some]
