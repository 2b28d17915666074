"""Points near and in spheres and capsules: against rationals, and trees over the moved shapes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import bvh
from tests.scene.test_round_shapes import even_map, nearly_even, world_tree


def exact_side(p: list[float], row: list[float]) -> int:
    """Return the sign of a point's distance from a capsule's axis less the radius, by rationals."""
    x, a, b = ([Fraction(c) for c in v] for v in (p, row[:3], row[3:6]))
    v, m = [c - d for c, d in zip(b, a, strict=True)], [c - d for c, d in zip(x, a, strict=True)]
    square = sum(c * c for c in v)
    t = min(max(sum(c * d for c, d in zip(m, v, strict=True)) / square, 0), 1) if square else 0
    off = sum((c - t * d) ** 2 for c, d in zip(m, v, strict=True)) - Fraction(row[6]) ** 2
    return (off > 0) - (off < 0)


def shapes(rng: np.random.Generator, grid: bool) -> tuple[np.ndarray, ...]:
    """Return ends of axes and radii; of a grid, many that touch points of it."""
    p = rng.integers(-3, 4, (30, 3)) * 1.0 if grid else rng.normal(size=(30, 3))
    r = rng.choice([0.0, 0.5, 1.0], 30) if grid else rng.random(30) * 0.4
    return p, p + (rng.integers(-1, 2, (30, 3)) if grid else rng.normal(size=(30, 3))), r


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=pytest.mark.long)])
def test_trees(grid: bool, count: int, rng: np.random.Generator) -> None:
    """A point is inside if it is in or on one; the sign of a distance is that of the inside."""
    p, q, r = shapes(rng, grid)
    x = rng.integers(-8, 9, (count, 3)) * 0.5 if grid else rng.normal(size=(count, 3)) * 2.0
    for tree, ends in ((bvh.BVH.from_spheres(p, r), p), (bvh.BVH.from_capsules(p, q, r), q)):
        rows = np.hstack([p, ends, r[:, None]]).tolist()
        sides = np.array([[exact_side(point, row) for row in rows] for point in x[:300].tolist()])
        inside, signed = tree.contains(x), tree.signed_distance(x)
        assert np.array_equal(inside[:300], (sides <= 0).any(axis=1))
        assert np.array_equal(signed[:300] < 0.0, ((sides < 0).any(axis=1)) & (sides != 0).all(1))
        assert np.array_equal(np.abs(signed), tree.distance(x))
        assert np.array_equal(signed[:300] == 0.0, (sides == 0).any(axis=1))
        assert not tree.contains([np.nan, 0.0, 0.0])
        assert tree.contains(x[5]) is bool(inside[5])
        near = tree.closest_point(x, k=2)
        off = near.position - x[:, None]
        assert np.allclose(np.linalg.norm(off, axis=2), near.distance, rtol=1e-9, atol=1e-12)
        for query in ("contains", "signed_distance"):
            with pytest.raises(TypeError, match="method='winding' needs a BVH over triangles"):
                getattr(tree, query)(x, method="winding")
        with pytest.raises(TypeError, match="winding_number needs a BVH over triangles"):
            tree.winding_number(x)


def scene_of(rng: np.random.Generator, grid: bool, faces: bool) -> Any:
    """Return a scene of shapes, with reflections, scales and a nested scene, and with meshes."""
    p, q, r = shapes(rng, grid)
    balls, limbs = bvh.BVH.from_spheres(p, r), bvh.BVH.from_capsules(p, q, r)
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]) * 2.0
    solid = bvh.BVH.from_triangles(corners, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    inner, scene = bvh.Scene(), bvh.Scene()
    inner.add(balls, even_map(rng, 0.5, grid))
    trees = [(balls, 1.0), (limbs, 2.0), (limbs, 0.25)]
    if faces:
        inner.add(solid, even_map(rng, 1.0, grid))
        trees[1:1] = [(solid, 1.0), (solid, 2.0)]
    for tree, scale in trees:
        scene.add(tree, even_map(rng, scale, grid), mask=1)
    scene.add(inner, even_map(rng, 2.0, grid), mask=2)
    scene.add(balls, mask=1)
    return scene


@pytest.mark.parametrize("faces", [False, True])
@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("count", [500, pytest.param(50_000, marks=pytest.mark.long)])
def test_scenes(grid: bool, faces: bool, count: int, rng: np.random.Generator) -> None:
    """The nearest of all leaves, with ties by leaf and id, for any mask, limit and k."""
    scene = scene_of(rng, grid, faces)
    x = rng.integers(-8, 9, (count, 3)) * 0.5 if grid else rng.normal(size=(count, 3)) * 3.0
    x[:3] = np.nan, 1e8, 1e200
    masks, columns, inside, strict, ids = scene.leaves.masks, [], [], [], []
    for k, leaf in enumerate(scene.leaves):
        alone: Any = bvh.Scene()
        if leaf.tree.kind in ("spheres", "capsules"):
            alone, rows = world_tree(leaf)
            if count == 500:
                for point, found in zip(x[3:30].tolist(), alone.contains(x[3:30]), strict=True):
                    sides = [exact_side(point, row) for row in rows.tolist()]
                    assert found == (min(sides) <= 0)
        else:
            alone.add(leaf.tree, leaf.transform)
        near = alone.closest_point(x, k=3)
        columns.append(near.distance)
        ids.append(near.prim_id.astype(np.int64) | k << 32)
        inside.append(alone.contains(x))
        strict.append(alone.signed_distance(x) < 0.0)
    d, names = np.stack(columns), np.stack(ids)
    for mask in (None, 1, 2):
        chosen = masks & np.uint32(3 if mask is None else mask) != 0
        order = np.lexsort((names[chosen].swapaxes(0, 1).reshape(count, -1),
                            d[chosen].swapaxes(0, 1).reshape(count, -1)))[:, :3]  # fmt: skip
        wanted = np.take_along_axis(d[chosen].swapaxes(0, 1).reshape(count, -1), order, 1)
        which = np.take_along_axis(names[chosen].swapaxes(0, 1).reshape(count, -1), order, 1)
        near, first = scene.closest_point(x, k=3, mask=mask), scene.closest_point(x, mask=mask)
        hit = np.isfinite(wanted)
        assert np.array_equal(near.distance, wanted)
        for found, columns_of in ((near, slice(None)), (first, 0)):
            some = hit[:, columns_of]
            assert np.array_equal(found.prim_id[some], which[:, columns_of][some] & 0xFFFFFFFF)
            assert np.array_equal(found.leaf[some], which[:, columns_of][some] >> 32)
        assert np.array_equal(first.distance, wanted[:, 0])
        assert np.array_equal(scene.distance(x, mask=mask), wanted[:, 0])
        limits = np.where(np.arange(count) % 2, wanted[:, 0], np.nextafter(wanted[:, 0], 0.0))
        within = scene.closest_point(x, limits, mask=mask)
        assert np.array_equal(within.mask, hit[:, 0] & (limits >= wanted[:, 0]))
        assert np.array_equal(scene.contains(x, mask=mask), np.stack(inside)[chosen].any(axis=0))
        negative = np.stack(strict)[chosen].any(axis=0) & (wanted[:, 0] > 0.0)
        sign = np.where(negative, -1.0, 1.0)
        assert np.array_equal(scene.signed_distance(x, mask=mask), sign * wanted[:, 0])
        off = np.linalg.norm(near.position[3:] - x[3:, None], axis=2)
        assert np.allclose(off, near.distance[3:], rtol=1e-9, atol=1e-12)
        if grid:
            # Shapes without a radius have no normals.
            continue
        # Off the surface, normals of shapes point along the way to the point, or against it.
        apart = (first.distance[3:] > 1e-3) & np.isnan(first.u[3:])
        way = (x[3:] - first.position[3:])[apart] / first.distance[3:][apart][:, None]
        turn = np.abs((way * first.normal[3:][apart]).sum(axis=1))
        assert np.allclose(turn, 1.0, atol=1e-9)
    one = scene.closest_point(x[7])
    assert (one.distance, one.leaf) == (scene.distance(x[7]), scene.closest_point(x).leaf[7])
    assert scene.contains(x[7]) is bool(scene.contains(x)[7])


@pytest.mark.parametrize("count", [4, pytest.param(40, marks=pytest.mark.long)])
def test_maps_that_are_nearly_even(count: int, rng: np.random.Generator) -> None:
    """Rotations in float32 and the like, of any size and far away; points on the surface."""
    for k in range(count):
        p, r, matrix, _ = nearly_even(rng, k % 2 == 1)
        scene = bvh.Scene()
        scene.add(bvh.BVH.from_capsules(p, p[::-1], r), matrix)
        tree, rows = world_tree(scene.leaves[0])
        which = rng.integers(0, 20, 2000)
        way = rng.normal(size=(2000, 3))
        way /= np.linalg.norm(way, axis=1)[:, None]
        off = 1.0 + rng.choice([0.0, 1e-16, -1e-16, 1e-12, -1e-12, 1e-7, -1e-7, 0.5], 2000)
        x = rows[which, :3] + way * (rows[which, 6] * off)[:, None]
        assert np.array_equal(scene.distance(x), tree.distance(x))
        assert np.array_equal(scene.contains(x), tree.contains(x))
        assert np.array_equal(scene.closest_point(x).prim_id, tree.closest_point(x).prim_id)


def test_other_leaves_are_refused() -> None:
    """Boxes beside shapes, by name; shapes, where winding numbers are needed."""
    scene = bvh.Scene()
    ball = scene.add(bvh.BVH.from_spheres([[0, 0, 0]], 1.0))
    box = scene.add(bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]), mask=2)
    with pytest.raises(TypeError, match=f"instance {box} is over boxes"):
        scene.distance([0, 0, 2])
    assert scene.distance([0, 0, 2], mask=1) == 1.0
    assert scene.signed_distance([0, 0, 0.5], mask=1) == -0.5
    for ask in (scene.winding_number, lambda x, mask: scene.contains(x, method="winding", mask=1)):
        with pytest.raises(TypeError, match=f"instance {ball} is over spheres"):
            ask([0, 0, 2], mask=1)
    scene.set_transform(ball, np.diag([3.0, 3.0, 3.0, 1.0]))
    assert scene.distance([0, 0, 2], mask=1) == 1.0
    near = scene.closest_point([0, 0, 5], mask=1)
    scene.set_transform(ball, np.diag([2.0, 2.0, 2.0, 1.0]))
    assert scene.distance([0, 0, 5], mask=1) == 3.0
    with pytest.raises(RuntimeError, match="has moved"):
        _ = near.normal
