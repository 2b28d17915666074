"""Trees over spheres and capsules: rays against brute force, files, refits, what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH
from tests.cases.saved_trees import Parts


def brute(
    o: np.ndarray, d: np.ndarray, centers: np.ndarray, radii: np.ndarray, t_min: float, t_max: float
) -> np.ndarray:
    """Return the first crossing of each ray and sphere in a range, (n, m); inf for none."""
    found = bvh.ray_sphere(o[:, None], d[:, None], centers, radii, -np.inf, np.inf)
    near, far = found.t_near, found.t_far
    with np.errstate(invalid="ignore"):
        first = np.where(found.hit & (near >= t_min) & (near <= t_max), near, np.inf)
        second = np.where(found.hit & (far >= t_min) & (far <= t_max), far, np.inf)
    return np.where(np.isinf(first), second, first)


def both_ends(
    o: np.ndarray, d: np.ndarray, centers: np.ndarray, radii: np.ndarray, t_min: float, t_max: float
) -> np.ndarray:
    """Return all crossings of rays and spheres in a range: rows (ray, t, sphere, 0 or 1), sorted.

    1 is for those where the ray leaves the sphere.
    """
    found = bvh.ray_sphere(o[:, None], d[:, None], centers, radii, -np.inf, np.inf)
    rows = []
    for side, t in enumerate((found.t_near, found.t_far)):
        with np.errstate(invalid="ignore"):
            ray, ball = np.nonzero(found.hit & (t >= t_min) & (t <= t_max))
        rows.append(np.stack([ray, t[ray, ball], ball, np.full(len(ray), side)], axis=1))
    every = np.concatenate(rows)
    return every[np.lexsort(every.T[::-1])]


def world(rng: np.random.Generator, kind: str) -> tuple[np.ndarray, ...]:
    """Return centres, radii, origins and directions: anywhere, on a grid that touches, far away."""
    count, rays = 300, 600
    if kind == "grid":
        centers = rng.integers(0, 7, (count, 3)).astype(float)
        radii = rng.choice([0.0, 0.5, 1.0, 2.0], count)
        o = rng.integers(-2, 9, (rays, 3)) * 0.5
        d = rng.integers(-1, 2, (rays, 3)).astype(float)
        d[~d.any(axis=1)] = 1.0
        return centers, radii, o, d
    centers, radii = rng.random((count, 3)), rng.random(count) * 0.1
    centers[::50], radii[::60] = np.nan, -1.0
    o, d = rng.random((rays, 3)), rng.normal(size=(rays, 3))
    scale, shift = (1e-6, 5e6) if kind == "far" else (1.0, 0.0)
    return centers * scale + shift, radii * scale, o * scale + shift, d


@pytest.mark.parametrize("kind", ["anywhere", "grid", "far"])
@pytest.mark.parametrize("span", [(0.0, np.inf), (-1.0, 0.5), (0.25, 0.25)])
def test_rays(kind: str, span: tuple[float, float], rng: np.random.Generator) -> None:
    """The nearest with ties by id, from outside and inside; counts, lists, single rays."""
    centers, radii, o, d = world(rng, kind)
    good = np.isfinite(centers).all(axis=1) & (radii >= 0.0)
    wanted = np.full((len(o), len(radii)), np.inf)
    wanted[:, good] = brute(o, d, centers[good], radii[good], *span)
    t = wanted.min(axis=1)
    ids = np.where(np.isinf(t), -1, wanted.argmin(axis=1))
    for quality in ("medium", "high"):
        tree = BVH.from_spheres(centers, radii, quality=quality)
        hits = tree.closest_hit(o, d, *span)
        assert np.array_equal(hits.t, t)
        assert np.array_equal(hits.prim_id, ids)
        assert np.array_equal(tree.any_hit(o, d, *span), ids >= 0)
        rows = both_ends(o, d, centers[good], radii[good], *span)
        rows[:, 2] = np.flatnonzero(good)[rows[:, 2].astype(int)]
        counts = np.bincount(rows[:, 0].astype(int), minlength=len(o))
        assert np.array_equal(tree.count_hits(o, d, *span), counts)
        every = tree.all_hits(o, d, *span)
        columns = every.ray_id, every.t, every.prim_id, ~every.front
        assert np.array_equal(np.stack(columns, axis=1), rows)
        at = o[every.ray_id] + every.t[:, None] * d[every.ray_id]
        assert np.array_equal(every.position, at)
        begins = np.concatenate([[0], np.cumsum(counts)])[rows[:, 0].astype(int)]
        for limit in (1, 3, 100):
            first = rows[np.arange(len(rows)) - begins < limit]
            few = tree.all_hits(o, d, *span, max_hits=limit)
            columns = few.ray_id, few.t, few.prim_id, ~few.front
            assert np.array_equal(np.stack(columns, axis=1), first)
        one = tree.all_hits(o[3], d[3], *span)
        assert np.array_equal(one.t, rows[rows[:, 0] == 3, 1])
        assert tree.count_hits(o[3], d[3], *span) == counts[3]
        # Culled at their backs, spheres are met where rays enter them; at their fronts, where they
        # leave them.
        for side, code in (("back", 0), ("front", 1)):
            some = rows[rows[:, 3] == code]
            left = tree.all_hits(o, d, *span, cull=side)
            columns = left.ray_id, left.t, left.prim_id, ~left.front
            assert np.array_equal(np.stack(columns, axis=1), some)
            hits = tree.closest_hit(o, d, *span, cull=side)
            nearest = np.full(len(o), np.inf)
            np.minimum.at(nearest, some[:, 0].astype(int), some[:, 1])
            assert np.array_equal(hits.t, nearest)
            assert (hits.front[hits.mask] == (code == 0)).all()
            first = np.searchsorted(some[:, 0], np.flatnonzero(hits.mask))
            assert np.array_equal(hits.prim_id[hits.mask], some[first, 2])
            assert np.array_equal(tree.any_hit(o, d, *span, cull=side), np.isfinite(nearest))
            culled = np.bincount(some[:, 0].astype(int), minlength=len(o))
            assert np.array_equal(tree.count_hits(o, d, *span, cull=side), culled)
            begins = np.concatenate([[0], np.cumsum(culled)])[some[:, 0].astype(int)]
            few = tree.all_hits(o, d, *span, cull=side, max_hits=2)
            assert np.array_equal(few.t, some[np.arange(len(some)) - begins < 2, 1])
            cast = tree.caster(cull=side)
            assert [cast(*o[k], *d[k], *span)[0] for k in range(20)] == nearest[:20].tolist()
    hits = tree.closest_hit(o, d, *span)
    if kind == "anywhere":
        own = hits.prim_id[hits.mask]
        normal = (hits.position[hits.mask] - centers[own]) / radii[own][:, None]
        front = (hits.normal[hits.mask] * d[hits.mask]).sum(axis=1) < 0.0
        assert np.array_equal(front, hits.front[hits.mask])
        assert np.abs(hits.normal[hits.mask] - normal).max(initial=0.0) < 1e-9
    cast = tree.caster()
    for k in range(20):
        assert cast(*o[k], *d[k], *span)[:2] == (t[k], ids[k])


@pytest.mark.parametrize("span", [(0.0, np.inf), (-1.0, 0.5)])
def test_capsules(span: tuple[float, float], rng: np.random.Generator, tmp_path: Path) -> None:
    """As trees over one capsule each, of which `test_capsules.py` asks rationals; also moved."""
    p, radii, o, d = world(rng, "anywhere")
    p, radii = p[:40], radii[:40]
    q = p + rng.normal(size=p.shape) * 0.1
    good = np.isfinite(p).all(axis=1) & (radii >= 0.0)
    wanted = np.full((len(o), len(p)), np.inf)
    for k in np.flatnonzero(good):
        one = BVH.from_capsules(p[k : k + 1], q[k : k + 1], radii[k])
        wanted[:, k] = one.closest_hit(o, d, *span).t
    tree = BVH.from_capsules(p + 1.0, q, radii * 0.5)
    tree.refit(p, q=q, radii=radii)
    tree.save(tmp_path / "capsules.bvh")
    for any_tree in (BVH.from_capsules(p, q, radii), tree, bvh.load(tmp_path / "capsules.bvh")):
        hits = any_tree.closest_hit(o, d, *span)
        assert np.array_equal(hits.t, wanted.min(axis=1))
        assert np.array_equal(hits.prim_id[hits.mask], wanted.argmin(axis=1)[hits.mask])
        counts = np.zeros(len(o), np.int64)
        for k in np.flatnonzero(good):
            one = BVH.from_capsules(p[k : k + 1], q[k : k + 1], radii[k])
            entries = one.closest_hit(o, d, *span, cull="back")
            inside = one.contains(o + span[0] * d) & (one.distance(o + span[0] * d) > 1e-9)
            assert not (entries.mask & inside).any()
            counts += one.count_hits(o, d, *span)
            assert np.array_equal(one.count_hits(o, d, *span) > 0, np.isfinite(wanted[:, k]))
        assert np.array_equal(any_tree.count_hits(o, d, *span), counts)
    own = hits.prim_id[hits.mask]
    assert np.abs(np.linalg.norm(hits.normal[hits.mask], axis=1) - 1.0).max() < 1e-9
    off = hits.position[hits.mask] - hits.normal[hits.mask] * radii[own][:, None]
    axes = BVH.from_segments(p, q)
    assert max(axes.distance(x) for x in off) < 1e-9
    front = (hits.normal[hits.mask] * d[hits.mask]).sum(axis=1) < 0.0
    assert np.array_equal(front, hits.front[hits.mask])
    with pytest.raises(TypeError, match="needs q to refit"):
        tree.refit(p, radii=radii)
    with pytest.raises(ValueError, match="q must have the shape of p"):
        BVH.from_capsules(p, q[1:], 1.0)
    with pytest.raises(TypeError, match="capsules"):
        tree.winding_number([0, 0, 0])


@pytest.mark.parametrize(
    ("p", "q", "x", "wanted"),
    [
        ([0, 0, 0], None, [1e-310, 0, 0], [1, 0, 0]),
        ([0, 0, 0], None, [0, -5e-324, 0], [0, -1, 0]),
        ([-1e308, 0, 0], None, [1e308, 0, 0], [-1e308, 0, 0]),
        ([0, 0, 0], [1e-310, 0, 0], [0, 2, 0], [0, 1, 0]),
        ([0, 0, 0], [1e-310, 0, 0], [0, 0, 0], None),
        ([-1e308, 0, 0], [1e308, 0, 0], [0, 3, 0], [0, 1, 0]),
    ],
)
def test_positions_at_the_ends_of_the_range(p: Any, q: Any, x: Any, wanted: Any) -> None:
    """They are finite and on the surface, however near to the axis or far away a point is."""
    tree = BVH.from_spheres([p], 1.0) if q is None else BVH.from_capsules([p], [q], 1.0)
    found = tree.closest_point(x)
    assert np.isfinite(found.distance)
    if wanted is None:
        assert np.linalg.norm(found.position) == pytest.approx(1.0, rel=1e-15)
    else:
        np.testing.assert_allclose(found.position, wanted, rtol=1e-15, atol=1e-15)


def test_files_refits_and_pickles(rng: np.random.Generator, tmp_path: Path) -> None:
    """A tree is the same again; spheres that move and grow; damaged files are refused."""
    centers, radii, o, d = world(rng, "anywhere")
    tree = BVH.from_spheres(centers, radii)
    wanted = tree.closest_hit(o, d)
    tree.save(tmp_path / "balls.bvh")
    for again in (bvh.load(tmp_path / "balls.bvh"), pickle.loads(pickle.dumps(tree))):
        assert again.kind == "spheres"
        assert np.array_equal(again.closest_hit(o, d).t, wanted.t)
        again.validate()
    moved, grown = centers + 0.25, radii * 1.5
    tree.refit(moved, radii=grown)
    new = BVH.from_spheres(moved, grown)
    assert np.array_equal(tree.closest_hit(o, d).t, new.closest_hit(o, d).t)
    with pytest.raises(TypeError, match="needs radii to refit"):
        tree.refit(moved)
    with pytest.raises(TypeError, match="needs no upper"):
        tree.refit(moved, moved, radii=grown)


@pytest.mark.parametrize("kind", ["sphere", "capsule"])
def test_damaged_files(kind: str, rng: np.random.Generator, tmp_path: Path) -> None:
    """A radius that leaves its box is refused."""
    p, q, path = rng.random((50, 3)), rng.random((50, 3)), tmp_path / "damaged.bvh"
    tree = BVH.from_spheres(p, 0.1) if kind == "sphere" else BVH.from_capsules(p, q, 0.1)
    tree.save(path)
    parts = Parts(path.read_bytes())
    parts.arrays["points"][7, -1] = 0.2
    path.write_bytes(parts.joined())
    with pytest.raises(ValueError, match=f"{kind} 7 is not in its box"):
        bvh.load(path)


def test_pictures() -> None:
    """A sphere is drawn round."""
    tree = BVH.from_spheres([[0, 0, 0]], 1.0)
    camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 40, 40)
    mask = tree.closest_hit(*camera.rays()).mask
    assert abs(mask.mean() - np.pi / 16) < 0.01


def test_negative_radii_are_told() -> None:
    with pytest.warns(bvh.BVHWarning):
        BVH.from_spheres([[0, 0, 0]], [-1.0])
