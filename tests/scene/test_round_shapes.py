"""Spheres and capsules in scenes: rays against trees over the moved shapes, maps, refusals."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from tests.geometry.test_capsules import exact_crossings
from tests.geometry.test_spheres import is_close, square_root
from tests.oracles.scenes import moved


def even_map(rng: np.random.Generator, scale: float, grid: bool) -> np.ndarray:
    """Return a rotation or reflection, a scale and a shift; of a grid, exact ones."""
    matrix = np.eye(4)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    if grid:
        turn = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], 3)
    matrix[:3, :3] = turn * scale
    matrix[:3, 3] = rng.integers(-3, 4, 3) if grid else rng.normal(size=3) * 2.0
    return matrix


def world_tree(leaf: Any) -> tuple[bvh.BVH, np.ndarray]:
    """Return a tree over a leaf's shapes in the world, and their ends and radii in rows."""
    points, matrix = leaf.tree.arrays.primitives.points, leaf.transform
    third = sum(Fraction(float(x)) ** 2 for x in matrix[:3, :3].ravel()) / 3
    radii = points[:, -1] * float(square_root(third))
    p = moved(points[:, 6:9], matrix)
    if leaf.tree.kind == "spheres":
        return bvh.BVH.from_spheres(p, radii), np.hstack([p, p, radii[:, None]])
    q = moved(points[:, 9:12], matrix)
    return bvh.BVH.from_capsules(p, q, radii), np.hstack([p, q, radii[:, None]])


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.long)])
def test_rays(grid: bool, count: int, rng: np.random.Generator, tmp_path: Path) -> None:
    """The nearest, with ties by instance; masks, counts, nested scenes; some by rationals."""
    p = rng.integers(-3, 4, (30, 3)) * 1.0 if grid else rng.normal(size=(30, 3))
    r = rng.choice([0.0, 0.5, 1.0], 30) if grid else rng.random(30) * 0.4
    q = p + (rng.integers(-1, 2, (30, 3)) if grid else rng.normal(size=(30, 3)))
    balls, limbs = bvh.BVH.from_spheres(p, r), bvh.BVH.from_capsules(p, q, r)
    mesh = bvh.BVH.from_triangles(rng.random((9, 3)) * 4.0, np.arange(9).reshape(3, 3))
    inner, scene = bvh.Scene(), bvh.Scene()
    inner.add(balls, even_map(rng, 0.5, grid))
    inner.add(mesh, even_map(rng, 1.0, grid))
    trees = balls, limbs, mesh, limbs, bvh.BVH.from_boxes(p - 0.1, p + 0.1)
    for tree, scale in zip(trees, (1.0, 2.0, 1.0, 0.25, 1.0), strict=True):
        scene.add(tree, even_map(rng, scale, grid), mask=1)
    scene.add(inner, even_map(rng, 2.0, grid), mask=2)
    scene.add(balls, mask=1)
    o = rng.integers(-8, 9, (count, 3)) * 0.5 if grid else rng.normal(size=(count, 3)) * 4.0
    d = rng.integers(-1, 2, (count, 3)) * 1.0 if grid else rng.normal(size=(count, 3))
    d[~d.any(axis=1)] = 1.0
    rows, hits_of, total = {}, [], np.zeros(count, np.int64)
    for k, leaf in enumerate(scene.leaves):
        alone: Any = bvh.Scene()
        if leaf.tree.kind in ("spheres", "capsules"):
            alone, rows[k] = world_tree(leaf)
        else:
            alone.add(leaf.tree, leaf.transform)
        hits_of.append(alone.closest_hit(o, d))
        total += alone.count_hits(o, d)
    each, masks = np.arange(count), scene.leaves.masks
    for mask in (3, 1, 2):
        t = np.stack([hits.t for hits in hits_of])
        t[masks & mask == 0] = np.inf
        which = t.argmin(axis=0)
        hits = scene.closest_hit(o, d, mask=mask)
        assert np.array_equal(hits.t, t.min(axis=0))
        for name in ("prim_id", "front"):
            wanted = np.stack([getattr(each, name) for each in hits_of])[which, each]
            assert np.array_equal(getattr(hits, name)[hits.mask], wanted[hits.mask])
        assert np.array_equal(hits.leaf[hits.mask], which[hits.mask])
        assert np.array_equal(scene.any_hit(o, d, mask=mask), hits.mask)
    assert np.array_equal(scene.count_hits(o, d), total)
    every, parts = scene.all_hits(o, d), []
    for k, leaf in enumerate(scene.leaves):
        alone = bvh.Scene()
        if k in rows:
            alone = world_tree(leaf)[0]
        else:
            alone.add(leaf.tree, leaf.transform)
        found = alone.all_hits(o, d)
        leaves = np.full(len(found.t), k)
        parts.append(np.stack([found.ray_id, found.t, leaves, found.prim_id, ~found.front], 1))
    wanted = np.concatenate(parts)
    wanted = wanted[np.lexsort(wanted.T[::-1])]
    columns = every.ray_id, every.t, every.leaf, every.prim_id, ~every.front
    assert np.array_equal(np.stack(columns, axis=1), wanted)
    few = scene.all_hits(o, d, max_hits=2)
    begins = np.searchsorted(wanted[:, 0], wanted[:, 0])
    assert np.array_equal(few.t, wanted[np.arange(len(wanted)) - begins < 2, 1])
    for side, code in (("back", 0), ("front", 1)):
        some = scene.all_hits(o, d, cull=side)
        solid = np.isin(some.leaf, list(rows))
        ends = wanted[(wanted[:, 4] == code) & np.isin(wanted[:, 2], list(rows))]
        columns = some.ray_id, some.t, some.leaf, some.prim_id
        assert np.array_equal(np.stack(columns, axis=1)[solid], ends[:, :4])
        seen = np.full(count, np.inf)
        np.minimum.at(seen, some.ray_id, some.t)
        hits = scene.closest_hit(o, d, cull=side)
        assert np.array_equal(hits.t, seen)
        assert (hits.front[np.isin(hits.leaf, list(rows)) & hits.mask] == (code == 0)).all()
        assert np.array_equal(scene.any_hit(o, d, cull=side), np.isfinite(seen))
        assert np.array_equal(scene.count_hits(o, d, cull=side), np.diff(some.offsets))
    hits = scene.closest_hit(o, d)
    for i in np.flatnonzero(hits.mask)[:50].tolist():
        if int(hits.leaf[i]) in rows:
            row = rows[int(hits.leaf[i])][hits.prim_id[i]].tolist()
            near, far = exact_crossings(o[i].tolist(), d[i].tolist(), row[:3], row[3:6], row[6])
            assert is_close(float(hits.t[i]), near if hits.front[i] else far)
    scene.save(tmp_path / "round.bvh")
    loaded = bvh.load(tmp_path / "round.bvh"), bvh.load(tmp_path / "round.bvh", mmap=True)
    for again in (*loaded, pickle.loads(pickle.dumps(scene))):
        assert np.array_equal(again.closest_hit(o[:500], d[:500]).t, hits.t[:500])


def nearly_even(rng: np.random.Generator, single: bool) -> tuple[Any, ...]:
    """Return points, radii, an even map but for rounding, in float32 if single, and its scale."""
    p, r = rng.normal(size=(20, 3)), rng.random(20) * 10.0 ** rng.uniform(-4, 1)
    turn, scale = np.linalg.qr(rng.normal(size=(3, 3)))[0], 10.0 ** rng.uniform(-6, 6)
    uneven = turn * (1.0 + rng.uniform(-3e-7, 3e-7, (3, 3)))
    matrix = np.eye(4)
    matrix[:3, :3] = scale * (turn.astype(np.float32) if single else uneven)
    matrix[:3, 3] = rng.normal(size=3) * scale * 10.0 ** rng.uniform(-3, 8)
    return p, r, matrix, scale


@pytest.mark.parametrize("count", [4, pytest.param(40, marks=pytest.mark.long)])
def test_maps_that_are_nearly_even(count: int, rng: np.random.Generator) -> None:
    """Rotations in float32 and the like, of any size and far away; rays that nearly touch."""
    for k in range(count):
        p, r, matrix, scale = nearly_even(rng, k % 2 == 1)
        scene = bvh.Scene()
        scene.add(bvh.BVH.from_spheres(p, r), matrix)
        tree, rows = world_tree(scene.leaves[0])
        which = rng.integers(0, 20, 2000)
        o = rows[which, :3] + rng.normal(size=(2000, 3)) * scale * 10.0
        across = np.cross(rows[which, :3] - o, rng.normal(size=(2000, 3)))
        across /= np.linalg.norm(across, axis=1)[:, None]
        off = 1.0 + rng.choice([0.0, 1e-16, -1e-16, 1e-12, -1e-12, 1e-7, -1e-7, -0.3], 2000)
        d = rows[which, :3] + across * (rows[which, 6] * off)[:, None] - o
        assert np.array_equal(scene.closest_hit(o, d).t, tree.closest_hit(o, d).t)


def test_other_maps_leave_nothing(tmp_path: Path) -> None:
    """A child that is refused with its map is no part of the scene, nor of its file."""
    shear, scene = np.diag([1.0, 2.0, 1.0, 1.0]), bvh.Scene()
    number = scene.add(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]))
    scene.set_transform(number, shear)
    for ask in (
        lambda tree: scene.add(tree, shear), lambda tree: scene.add_many(tree, [np.eye(4), shear]),
        lambda tree: scene.replace(number, tree),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="one scale for all axes"):
            ask(bvh.BVH.from_spheres([[0.0, 0.0, 0.0]], 1.0))
    assert len(scene.leaves.trees) == len(scene) == 1
    scene.save(tmp_path / "scene.bvh")
    assert len(bvh.load(tmp_path / "scene.bvh")) == 1


@pytest.mark.parametrize("kind", ["spheres", "capsules"])
def test_other_maps_are_refused(kind: str) -> None:
    """Of instances when they are set, of nested scenes by the product when they are queried."""
    one = [[0.0, 0.0, 0.0]]
    tree = (
        bvh.BVH.from_spheres(one, 1.0)
        if kind == "spheres"
        else bvh.BVH.from_capsules(one, one, 1.0)
    )
    scene, wide = bvh.Scene(), np.diag([1.0, 2.0, 1.0, 1.0])
    number = scene.add(tree)
    other = scene.add(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), wide)
    for ask in (
        lambda: scene.add(tree, wide), lambda: scene.add_many(tree, wide[None]),
        lambda: scene.set_transform(number, wide), lambda: scene.replace(other, tree),
        lambda: scene.set_transforms([other, number], [wide, wide]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"one scale for all axes, and a shift, for {kind}"):
            ask()
    assert scene.closest_hit([0, 0, 5], [0, 0, -1]).t == 4.0
    outer = bvh.Scene()
    outer.add(scene, wide)
    for _ in range(2):
        with pytest.raises(ValueError, match=f"instance 0 leads to {kind}"):
            outer.closest_hit([0, 0, 5], [0, 0, -1])
    outer.set_transform(0, np.diag([-2.0, 2.0, 2.0, 1.0]))
    assert outer.closest_hit([0, 0, 5], [0, 0, -1]).t == 3.0
