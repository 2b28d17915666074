"""Spheres and capsules in rectangles and lassos: exact contacts, and distances from rays."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.geometry.arithmetic.rational_surfaces import solid_meets_planes
from bvh.picking.region import lasso
from bvh.picking.rounds import RoundRegion

# Pixels are units of space in one, and depth times 1 / 32 in the other; both centres at (32, 32).
FLAT = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 64.0, 64, 64)
PINHOLE = [[32.0, 0.0, 31.5], [0.0, 32.0, 31.5], [0.0, 0.0, 1.0]]
DEEP = bvh.Camera.from_opencv(PINHOLE, np.eye(3, 4), 64, 64)
CUT = bvh.Camera.from_opencv(PINHOLE, np.eye(3, 4), 64, 64, near=2.5, far=4.5)
TILTED = bvh.Camera.look_at([3, -4, 2], [0, 0, 0], [0, 0, 1], 60.0, 80, 60)
EIGHT = [[10, 10], [50, 50], [50, 10], [10, 50]]


def ball(center: Any, radius: float) -> bvh.BVH:
    return bvh.BVH.from_spheres([center], radius)


def touches(tree: bvh.BVH, camera: Any, region: Any, mode: Any = "touching", **more: Any) -> bool:
    """Return whether a rectangle, of four numbers, or a lasso selects the first primitive."""
    if np.ndim(region) == 1:
        return 0 in tree.pick_rect(camera, *region, mode=mode, **more).ids
    return 0 in tree.pick_lasso(camera, region, mode=mode, **more).ids


def as_lasso(x0: float, y0: float, x1: float, y1: float) -> list[list[float]]:
    return [[x0, y0], [x1, y0], [x1, y1], [x0, y1]]


def gaps(camera: Any, pixels: np.ndarray, p: Any, q: Any) -> np.ndarray:
    """Return the distances of rays, between near and far, from an axis."""
    origins, directions = camera.ray(pixels[:, 0], pixels[:, 1])
    low, high = np.zeros(len(pixels)), np.ones(len(pixels))

    def off(s: np.ndarray) -> np.ndarray:
        at = np.asarray(p) + s[:, None] * (np.asarray(q) - p)
        t = ((at - origins) * directions).sum(axis=1) / (directions * directions).sum(axis=1)
        t = t.clip(camera.near, camera.far)
        return np.linalg.norm(at - origins - t[:, None] * directions, axis=1)

    for _ in range(50):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        nearer = off(a) < off(b)
        low, high = np.where(nearer, low, a), np.where(nearer, b, high)
    return off(0.5 * low + 0.5 * high)


def edge_gap(camera: Any, outline: Any, p: Any, q: Any) -> float:
    """Return the least distance of rays through the edges of an outline from an axis."""
    ends = np.array(outline)
    along = np.roll(ends, -1, axis=0) - ends
    low, high = np.zeros(len(ends)), np.ones(len(ends))
    for _ in range(7):
        s = np.linspace(low, high, 21)
        pixels = ends + s[:, :, None] * along
        found = gaps(camera, pixels.reshape(-1, 2), p, q).reshape(s.shape)
        best = np.take_along_axis(s, found.argmin(axis=0)[None], axis=0)[0]
        step = (high - low) / 20
        low, high = np.maximum(best - step, 0.0), np.minimum(best + step, 1.0)
    return float(found.min())


def is_wound(outline: Any, x: float, y: float) -> bool:
    odd = False
    for (x0, y0), (x1, y1) in zip(outline, [*outline[1:], outline[0]], strict=True):
        if (y0 > y) != (y1 > y) and x < x0 + (x1 - x0) * (y - y0) / (y1 - y0):
            odd = not odd
    return odd


def check(rng: np.random.Generator, rounds: int) -> None:
    """Random shapes, regions and cameras, by distances from rays."""
    decided = {"touching": [0, 0], "inside": [0, 0]}
    for k in range(rounds):
        camera = (FLAT, DEEP, TILTED, CUT)[k % 4]
        scale = 12.0 if camera is FLAT else 1.0
        p = rng.uniform(-1, 1, 3) * scale + ([0, 0, 0] if k % 4 in (0, 2) else [0, 0, 3.0])
        q = p if k % 3 == 0 else p + rng.normal(0, 0.7, 3) * scale
        radius = float(rng.choice([0.02, 0.2, 0.5])) * scale
        tree = ball(p, radius) if k % 3 == 0 else bvh.BVH.from_capsules([p], [q], radius)
        if k % 2:
            outline = as_lasso(*rng.uniform(0, 64, 4))
        else:
            outline = rng.uniform(0, 64, (int(rng.integers(3, 7)), 2)).tolist()
        nearest = edge_gap(camera, outline, p, q)
        depth = (np.array([p, q]) - camera.eye) @ camera.forward
        margin = min((depth - radius).min() - camera.near, camera.far - (depth + radius).max())
        # A point of the axis that is seen, if one is.
        share = np.linspace(0, 1, 1001)[:, None]
        axis = p + share * (q - p)
        x, y, z = camera.project(axis)
        seen = (z > camera.near) & (z < camera.far)
        partly = not seen.any() and nearest > radius
        if abs(nearest - radius) < 1e-7 or abs(margin) < 1e-7 or partly:
            continue
        held = bool(seen.any()) and is_wound(outline, x[seen][0], y[seen][0])
        touching, inside = nearest < radius or held, nearest > radius and held and margin > 0
        for mode, truth in (("touching", touching), ("inside", inside)):
            assert touches(tree, camera, outline, mode) == truth, (k, mode)
            if k % 2:
                (x0, y0), _, (x1, y1), _ = outline
                assert touches(tree, camera, [x0, y0, x1, y1], mode) == truth, (k, mode)
            decided[mode][int(truth)] += 1
    assert min(map(min, decided.values())) > rounds // 40


def test_random_regions(rng: np.random.Generator) -> None:
    check(rng, 18)


@pytest.mark.long
def test_many_random_regions(rng: np.random.Generator) -> None:
    check(rng, 1200)


@pytest.mark.parametrize("camera", [TILTED, DEEP])
def test_no_ray_contradicts(camera: Any, rng: np.random.Generator) -> None:
    """What a ray through a region hits touches it."""
    p = rng.normal(0, 0.7, (60, 3)) + [0, 0, 3.0 if camera is DEEP else 0.0]
    tree = bvh.BVH.from_capsules(p, p + rng.normal(0, 0.3, (60, 3)), rng.uniform(0, 0.2, 60))
    x, y = np.meshgrid(np.linspace(10, 30, 60), np.linspace(20, 50, 60))
    hits = tree.all_hits(*camera.ray(x.ravel(), y.ravel()), camera.near, camera.far)
    met = set(hits.prim_id.tolist())
    found = set(tree.pick_rect(camera, 10, 20, 30, 50).ids.tolist())
    assert met and met <= found and len(found - met) < 6
    assert found == set(tree.pick_lasso(camera, as_lasso(10, 20, 30, 50)).ids.tolist())
    seen = set(tree.pick_rect(camera, 10, 20, 30, 50, visible_only=True).ids.tolist())
    first = tree.closest_hit(*camera.ray(x.ravel(), y.ravel())).prim_id
    assert seen <= found and len(set(first[first >= 0].tolist()) - seen) < 3


def test_contact_is_exact() -> None:
    """Touching counts, and the next double does not."""
    more, less = np.inf, -np.inf
    # In parallel: a disc of radius 5 about (32, 32), along an axis, and at a corner (36, 35).
    disc = ball([0, 0, 0], 5.0)
    # In perspective: a ball of 3 at 5 is seen by slopes up to 3 / 4, which are 24 pixels.
    sphere = ball([0, 0, 5], 3.0)
    for tree, camera, reach in ((disc, FLAT, 5.0), (sphere, DEEP, 24.0)):
        edge = 32.0 + reach
        off = np.nextafter(edge, more)
        for shape in (lambda *r: r, as_lasso):
            assert touches(tree, camera, shape(edge, 20, 63, 40))
            assert not touches(tree, camera, shape(off, 20, 63, 40))
            assert touches(tree, camera, shape(edge, 32, edge, 32))
            assert not touches(tree, camera, shape(off, 31, off, 33))
            wide = 32 - reach, 32 - reach, edge, edge
            assert touches(tree, camera, shape(*wide), "inside")
            assert not touches(tree, camera, shape(*wide[:3], np.nextafter(edge, less)), "inside")
            assert touches(tree, camera, shape(*wide[:3], off), "inside")
    for shape in (lambda *r: r, as_lasso):
        assert touches(disc, FLAT, shape(36, 35, 60, 60))
        assert not touches(disc, FLAT, shape(np.nextafter(36, more), 35, 60, 60))
    # Oblique edges: in perspective through (50, 56), at right angles to (18, 24).
    lens = [[40.0, 0.0, 31.5], [0.0, 40.0, 31.5], [0.0, 0.0, 1.0]]
    camera = bvh.Camera.from_opencv(lens, np.eye(3, 4), 64, 64)
    for far, mode in (([90, 90], "touching"), ([-300, -300], "inside")):
        edge = [[50.0 - 80, 56.0 + 60], [50.0 + 80, 56.0 - 60]]
        assert touches(sphere, camera, [*edge, far], mode)
        edge[0][0] = float(np.nextafter(edge[0][0], more if mode == "touching" else less))
        assert not touches(sphere, camera, [*edge, far], mode)
    # In parallel through (36, 35), at right angles to the radius.
    oblique = [[36 - 15, 35 + 20], [36 + 15, 35 - 20], [100, 100]]
    assert touches(disc, FLAT, oblique)
    assert not touches(disc, FLAT, [[np.nextafter(21, more), 55], *oblique[1:]])
    around = [oblique[0], oblique[1], [-200, -200]]
    assert touches(disc, FLAT, around, "inside")
    assert not touches(disc, FLAT, [[np.nextafter(21, less), 55], *around[1:]], "inside")


def test_corners_next_to_discs(rng: np.random.Generator) -> None:
    """Corners within some roundings of a circle, by fractions."""
    answers = []
    for _ in range(60):
        n, m = sorted(rng.integers(1, 40, 2).tolist())
        a, b, c = m * m - n * n, 2 * m * n, m * m + n * n
        scale = 2.0 ** -int(rng.integers(6, 9))
        x, y = 32.0 + a * scale, 32.0 + b * scale
        for _ in range(int(rng.integers(0, 3))):
            x = float(np.nextafter(x, rng.choice([-np.inf, np.inf])))
        radius, corner = c * scale, (Fraction(x) - 32, Fraction(y) - 32)
        truth = corner[0] ** 2 + corner[1] ** 2 <= Fraction(radius) ** 2
        tree = ball([0, 0, 0], radius)
        assert touches(tree, FLAT, [x, y, 1e4, 1e4]) == truth
        assert touches(tree, FLAT, as_lasso(x, y, 1e4, 1e4)) == truth
        answers.append(truth)
    assert 10 < sum(answers) < 59


def test_certificates_agree_with_rationals(rng: np.random.Generator) -> None:
    """Wedges of lassos that are almost touched, and planes that are rounded."""
    sure, met = 0, 0
    for k in range(36):
        camera = (DEEP, TILTED, CUT)[k % 3]
        p = rng.uniform(-1, 1, 3) + ([0, 0, 0] if k % 3 == 1 else [0, 0, 3.5])
        q = p if k % 2 else p + rng.normal(0, 0.3, 3)
        outline = rng.uniform(0, 64, (3, 2)).tolist()
        off = float(rng.choice([1e-15, 1e-12, 1e-9, 1e-7, 1e-5]) * rng.choice([-1, 1]))
        radius = edge_gap(camera, outline, p, q) * (1.0 + off)
        row = np.array([[*p, *q, radius]])
        for want_inside in (False, True):
            region = RoundRegion(camera, lasso(camera, outline), want_inside, 1)
            told = bool(region._meeting(row)[0])
            axis = [p.tolist(), q.tolist()]
            assert told == any(
                solid_meets_planes(axis, radius, piece, deeper=want_inside)
                for piece in region._pieces
            )
            sure, met = sure + 1, met + told
    assert met > 10 and sure - met > 10


def test_hostile() -> None:
    """Behind the camera, around the eye, cut by planes, without a size, not finite."""
    whole, spot = [0, 0, 64, 64], [30, 30, 31, 31]
    for shape in (lambda *r: r, as_lasso):
        for region in (shape(*whole), shape(*spot)):
            assert not touches(ball([0, 0, -5], 3.0), DEEP, region)
            assert touches(ball([0, 0, 0.5], 3.0), DEEP, region)
            assert not touches(ball([0, 0, 0.5], 3.0), DEEP, region, "inside")
            assert touches(ball([0, 0, -5], 5.0), DEEP, region)  # at the eye
            # All that is between near and far lies within.
            assert not touches(ball([0, 0, 3], 900.0), CUT, region)
            assert not touches(ball([0, 0, 9], 4.0), CUT, region)
            assert touches(ball([0, 0, 9], 4.5), CUT, shape(31, 31, 33, 33))
            assert not touches(ball([0, 0, 9], 4.5), CUT, shape(34, 31, 35, 33))
        # A disc in the region, and the region in the disc.
        assert touches(ball([0, 0, 5], 0.5), DEEP, shape(*whole), "inside")
        assert touches(ball([0, 0, 5], 4.0), DEEP, shape(*spot))
        assert not touches(ball([0, 0, 5], 4.0), DEEP, shape(*spot), "inside")
        assert not touches(ball([0, 0, 4], 1.0), CUT, shape(*whole), "inside")
        assert touches(ball([0, 0, 3.5], 1.0), CUT, shape(*whole), "inside")
        # Large numbers.
        assert touches(ball([0, 0, 0], 1e150), FLAT, shape(*whole))
        assert touches(ball([0, 0, 5], 1e-150), DEEP, shape(*whole), "inside")
    tree = bvh.BVH.from_spheres([[np.nan, 0, 5], [0, 0, 5], [0, 0, 6]], [1.0, -1.0, 1.0])
    assert tree.pick_rect(DEEP, *whole).ids.tolist() == [2]
    with pytest.raises(TypeError, match="vertices needs a BVH over triangles, not over spheres"):
        tree.pick_rect(DEEP, *whole, what="vertices")
    with pytest.raises(TypeError, match="not over capsules"):
        bvh.BVH.from_capsules([[0, 0, 5]], [[1, 0, 5]], 1).pick_lasso(DEEP, EIGHT, what="vertices")


def test_lassos_that_touch_themselves() -> None:
    """Odd winding numbers count; edges that are run along twice bound nothing, but touch."""
    for x, y, touching, inside in ((32, 15, 0, 0), (18, 30, 1, 1), (46, 30, 1, 1), (32, 32, 1, 0)):
        disc = ball([x - 32, 32 - y, 0], 3.0)
        assert touches(disc, FLAT, EIGHT) == touching
        assert touches(disc, FLAT, EIGHT, "inside") == inside
    # A square with a spike inwards, and one outwards, through discs.
    square = as_lasso(10, 10, 50, 50)
    for tip, disc in (([30, 30], ball([-2, 10, 0], 3.0)), ([30, 5], ball([-2, 25, 0], 1.0))):
        spiked = [square[0], [30, 10], tip, [30, 10], *square[1:]]
        assert touches(disc, FLAT, spiked)
        assert touches(disc, FLAT, spiked, "inside") == (tip[1] == 30)
    # Only an edge, and only a point.
    for flat in ([[10, 32], [50, 32], [30, 32]], [[32, 32]] * 3):
        assert touches(ball([0, 0, 0], 1.0), FLAT, flat)
        assert not touches(ball([0, 0, 0], 1.0), FLAT, flat, "inside")
        assert not touches(ball([0, 5, 0], 1.0), FLAT, flat)


def test_points_segments_and_spheres_agree(rng: np.random.Generator) -> None:
    """Without a radius they are points and segments; without a length, spheres."""
    p, q = rng.normal(0, 1, (2, 80, 3))
    points, wires = bvh.BVH.from_points(p), bvh.BVH.from_segments(p, q)
    zero, thin = bvh.BVH.from_spheres(p, 0.0), bvh.BVH.from_capsules(p, q, 0.0)
    balls, short = bvh.BVH.from_spheres(p, 0.2), bvh.BVH.from_capsules(p, p, 0.2)
    star = rng.uniform(0, 60, (7, 2))
    for one, other in ((points, zero), (wires, thin), (balls, short)):
        for mode in ("touching", "inside"):
            chosen = [t.pick_rect(TILTED, 20, 10, 50, 45, mode=mode).ids for t in (one, other)]
            assert chosen[0].tolist() == chosen[1].tolist()
            chosen = [t.pick_lasso(TILTED, star, mode=mode).ids for t in (one, other)]
            assert chosen[0].tolist() == chosen[1].tolist()


@pytest.mark.parametrize("count", [40, 3000])
def test_scenes_and_many(count: int, rng: np.random.Generator) -> None:
    """A tree of many: as one by one; instances, masks, and what is hidden."""
    p = rng.uniform(-1.5, 1.5, (count, 3))
    radii = rng.uniform(0.01, 0.3, count) * (40 / count) ** 0.5
    tree = bvh.BVH.from_capsules(p, p + rng.normal(0, 0.05, (count, 3)), radii)
    matrix = np.diag([-0.5, 0.5, 0.5, 1.0])
    matrix[:3, 3] = 0.2, 0.1, 0.3
    scene = bvh.Scene()
    scene.add(tree, matrix, name="many")
    some = rng.choice(count, 25, replace=False)
    rows = tree.arrays.primitives.points
    for mode in ("touching", "inside"):
        found = scene.pick_rect(TILTED, 25, 20, 48, 38, mode=mode)
        assert set(found.ids.tolist()) == set(
            scene.pick_lasso(TILTED, as_lasso(25, 20, 48, 38), mode=mode).ids.tolist()
        )
        for k in some.tolist():
            alone = bvh.Scene()
            one = bvh.BVH.from_capsules(rows[k : k + 1, 6:9], rows[k : k + 1, 9:12], radii[k])
            alone.add(one, matrix)
            told = alone.pick_rect(TILTED, 25, 20, 48, 38, mode=mode)
            assert (len(told.ids) > 0) == (k in found.ids)
            whole = alone.pick_rect(TILTED, 25, 20, 48, 38, mode=mode, what="instances")
            assert len(whole) == len(told.ids)
    assert len(scene.pick_rect(TILTED, 25, 20, 48, 38, mask=0).ids) == 0
    assert len(scene.pick_rect(TILTED, 0, 0, 80, 60, what="instances", mode="inside")) == 1
    assert len(scene.pick_rect(TILTED, 25, 20, 48, 38, what="instances", mode="inside")) == 0


def test_what_is_hidden_is_left_out() -> None:
    """A wall hides a ball, a ball hides a face; a ball smaller than a pixel is seen."""
    scene = bvh.Scene()
    scene.add(bvh.BVH.from_boxes([[-20, -20, 0]], [[20, 20, 1]]), name="wall")
    scene.add(ball([0, 0, -5], 3.0), name="hidden")
    scene.add(ball([5, 5, 3], 2.0), name="shown")
    scene.add(ball([-5.3, 5.2, 3], 0.01), name="small")
    scene.add(([[4, 4, 2], [6, 4, 2], [5, 6, 2]], [[0, 1, 2]]), name="face")
    names = scene.pick_rect(FLAT, 0, 0, 64, 64, visible_only=True).names
    assert sorted(names) == ["shown", "small", "wall"]
    lasso = as_lasso(0, 0, 64, 64)
    names = scene.pick_lasso(FLAT, lasso, visible_only=True, mode="inside").names
    assert sorted(names) == ["shown", "small", "wall"]
    seen = scene.pick_rect(FLAT, 0, 0, 64, 64, visible_only=True, what="instances")
    assert sorted(seen.names) == ["shown", "small", "wall"]
    assert len(scene.pick_rect(FLAT, 34, 25, 35, 26, visible_only=True).ids) == 1
