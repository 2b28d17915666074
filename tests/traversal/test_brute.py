"""Trees against brute force over the same leaf test: same primitive, bit-identical t."""

from __future__ import annotations

import os
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh.io.mesh_files import read_file
from meshes.cad_part import cad_part
from meshes.interior import interior
from meshes.organic import organic
from meshes.terrain import terrain
from tests.cases import aims
from tests.cases.families import build
from tests.cases.scans import SCANS
from tests.oracles import brute

OURS = {
    "organic": lambda: organic(12),
    "interior": lambda: interior(0.4),
    "terrain": lambda: terrain(32),
    "cad_part": lambda: cad_part(48),
}

SCAN_NAMES = ("stanford-bunny.ply", "rocker-arm.ply", "ogre.ply")


def hard_rays(tree: bvh.BVH, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return random rays, axis-parallel rays through vertices, and rays aimed at features."""
    vertices, faces = tree.vertices, tree.faces
    o, d = aims.random_rays(*tree.bounds, n - 2 * (n // 4), rng)
    o_axis, d_axis = aims.axis_rays(vertices, n // 4, rng)
    targets = aims.features(vertices, faces[rng.integers(0, len(faces), n // 4)], rng)
    targets = targets[rng.integers(0, len(targets), n // 4)]
    o_aim, _ = aims.random_rays(*tree.bounds, n // 4, rng)
    return np.concatenate([o, o_axis, o_aim]), np.concatenate([d, d_axis, targets - o_aim])


def assert_equal_to_brute_force(tree: bvh.BVH, n: int, rng: np.random.Generator) -> None:
    """Compare n hard rays, on one thread and two, as any hit, and with ranges and culling."""
    tree.validate()
    o, d = hard_rays(tree, n, rng)
    hits = tree.closest_hit(o, d, threads=1)
    t, prim = brute.closest_hit(tree, o, d)
    assert np.count_nonzero(hits.prim_id != prim) == 0
    assert np.array_equal(hits.t, t)
    again = tree.closest_hit(o, d, threads=2)
    for name in ("t", "prim_id", "u", "v", "front"):
        equal = np.array_equal(getattr(hits, name), getattr(again, name), equal_nan=name in "tuv")
        assert equal, name
    assert np.array_equal(tree.any_hit(o, d), hits.mask)
    # The other side of the first hit, and the first hit alone, its t being both ends of the range.
    few = slice(None, None, 10)
    t_min = np.where(hits.mask, hits.t, 0.0)[few]
    for low, high in ((np.nextafter(t_min, np.inf), np.inf), (t_min, t_min), (-np.inf, t_min)):
        for cull in (None, "back", "front"):
            got = tree.closest_hit(o[few], d[few], low, high, cull=cull)
            code = {None: 0, "back": 1, "front": -1}[cull]
            t, prim = brute.closest_hit(tree, o[few], d[few], low, high, code)
            assert np.array_equal(got.prim_id, prim)
            assert np.array_equal(got.t, t)
            assert np.array_equal(tree.any_hit(o[few], d[few], low, high, cull=cull), got.mask)


@pytest.mark.parametrize("name", OURS)
def test_our_meshes(name: str, rng: np.random.Generator) -> None:
    """A bounded share of rays on our own meshes."""
    assert_equal_to_brute_force(bvh.BVH.from_triangles(*OURS[name]()), 700, rng)


@pytest.mark.answers
def test_ranges_that_end_at_the_largest_double() -> None:
    """To which all t beyond it are rounded, of either sign."""
    family, largest = build("t_range_of_doubles_overflow"), np.finfo(np.float64).max
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    rays = family.origins, family.directions
    ends = (-np.inf, -largest, 0.0, largest, np.inf)
    for low, high in combinations_with_replacement(ends, 2):
        hits, (t, prim) = (
            tree.closest_hit(*rays, low, high),
            brute.closest_hit(tree, *rays, low, high),
        )
        np.testing.assert_array_equal(hits.t, t)
        np.testing.assert_array_equal(hits.prim_id, prim)
        assert hits.mask.any() == (low <= -largest <= high or low <= largest <= high)


@pytest.mark.long
@pytest.mark.parametrize("name", SCAN_NAMES)
def test_scans(name: str, rng: np.random.Generator) -> None:
    """A bounded share of rays on real scans."""
    if not (SCANS / name).is_file():
        pytest.skip(f"no {name} at hand")
    assert_equal_to_brute_force(bvh.BVH.from_mesh(read_file(SCANS / name, "a mesh")), 1_000, rng)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OURS, *SCAN_NAMES])
def test_a_million_rays(name: str, rng: np.random.Generator) -> None:
    """BVH_BRUTE_RAYS rays (a million by default) on every mesh: hours of brute force."""
    if name in OURS:
        tree = bvh.BVH.from_triangles(*OURS[name]())
    elif (SCANS / name).is_file():
        tree = bvh.BVH.from_mesh(read_file(SCANS / name, "a mesh"))
    else:
        pytest.skip(f"no {name} at hand")
    assert_equal_to_brute_force(tree, int(os.environ.get("BVH_BRUTE_RAYS", "1000000")), rng)


def test_a_batch_equals_its_rays_one_by_one(rng: np.random.Generator) -> None:
    """The order and the size of a batch do not matter."""
    tree = bvh.BVH.from_triangles(*organic(8))
    o, d = hard_rays(tree, 400, rng)
    hits = tree.closest_hit(o, d)
    for i in range(len(o)):
        one = tree.closest_hit(o[i], d[i])
        assert (one.prim_id, one.front) == (hits.prim_id[i], hits.front[i])
        assert np.array_equal([one.t, one.u, one.v], [hits.t[i], hits.u[i], hits.v[i]], True)
    order = rng.permutation(len(o))
    shuffled = tree.closest_hit(o[order], d[order])
    assert np.array_equal(shuffled.t, hits.t[order])
    assert np.array_equal(shuffled.prim_id, hits.prim_id[order])


def test_boxes(rng: np.random.Generator) -> None:
    """Trees over boxes and oriented boxes, touching, overlapping, flat, and of all sizes."""
    n = 600
    lower = rng.integers(-8, 8, (n, 3)).astype(float)
    upper = lower + rng.integers(0, 4, (n, 3))
    lower[::3] += rng.normal(size=(n // 3, 3))
    upper[::3] = lower[::3] + rng.random((n // 3, 3))
    trees = [bvh.BVH.from_boxes(lower, upper)]
    matrices = np.tile(np.eye(4), (n, 1, 1))
    matrices[:, :3, :3] = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0] * rng.uniform(
        0.1, 2, (n, 1, 3)
    )
    matrices[:, :3, 3] = rng.normal(size=(n, 3)) * 5
    matrices[: n // 2, :3, :3] = np.eye(3)[rng.permutation(3)]
    matrices[: n // 2, :3, 3] = rng.integers(-4, 5, (n // 2, 3))
    trees.append(bvh.BVH.from_obbs(lower, upper, matrices))
    for tree in trees:
        tree.validate()
        o = rng.integers(-12, 13, (3_000, 3)).astype(float)
        d = rng.integers(-2, 3, (3_000, 3)).astype(float)
        o[::2] += rng.normal(size=(1_500, 3))
        d[::3] = rng.normal(size=(1_000, 3))
        for low, high in ((0.0, np.inf), (-np.inf, np.inf), (-3.0, 2.0)):
            hits = tree.closest_hit(o, d, low, high)
            t, prim = brute.closest_hit(tree, o, d, low, high)
            assert np.array_equal(hits.prim_id, prim)
            assert np.array_equal(hits.t, t)
            assert np.array_equal(tree.any_hit(o, d, low, high), hits.mask)


def test_far_origins(rng: np.random.Generator) -> None:
    """From so far away that float32 knows nothing: speck beside giant, and distances all alike."""
    corner = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    # A triangle that vanishes beside another one, and a ray that float64 hardly holds.
    vertices = np.concatenate([corner, corner * 1e188 + [0, 0, 1e188]])
    tree = bvh.BVH.from_triangles(vertices, [[0, 1, 2], [3, 4, 5]])
    o, d = np.array([[0.25, -7e291, -1.0]]), np.array([[0.0, 7e291, 1.0]])
    for t_min in (-np.inf, 0.0):
        t, prim = brute.closest_hit(tree, o, d, t_min)
        hits = tree.closest_hit(o, d, t_min)
        assert (prim.tolist(), t.tolist()) == ([0], [1.0])
        assert (hits.prim_id.tolist(), hits.t.tolist()) == ([0], [1.0])
    # Distances that share a double: the lowest id wins.
    n = 300
    levels = rng.permutation(n)[:, None, None] / n * [0.0, 0.0, 1.0]
    vertices = (corner + levels).reshape(-1, 3) * 1e-150
    tree = bvh.BVH.from_triangles(vertices, np.arange(3 * n).reshape(-1, 3))
    for away, length in ((1e200, 1.0), (-1e200, 1.0), (1e200, 1e100), (1e100, 1e-100)):
        o = np.array([0.25e-150, 0.25e-150, away])
        d = np.array([0.0, 0.0, -np.copysign(length, away)])
        hit = tree.closest_hit(o, d)
        assert (hit.prim_id, hit.t) == (0, abs(away) / length)


@pytest.mark.parametrize("n", [300, pytest.param(20_000, marks=pytest.mark.long)])
def test_farther_origins(n: int, rng: np.random.Generator) -> None:
    """Beyond what the frame holds: rays past the box, through the ball, and along its edges."""
    ball = trimesh.creation.icosphere(1)
    for scale in (1.0, 2.0**-300, 2.0**300):
        tree, seen = bvh.BVH.from_triangles(ball.vertices * scale, ball.faces), 0
        # Along an axis, past the ball by less than its size on a way of 2**65 to 2**700 times that.
        far = 2.0 ** rng.integers(65, 700, n)
        slope = rng.integers(-2, 3, (n, 2)) * rng.choice([0.0, 0.25, 1.0], (n, 1))
        ends = rng.choice([*ball.vertices.ravel(), -1.0, 1.0], (n, 2)) + slope * [[0.5, 1.0]]
        o = np.column_stack([ends - slope, -far]) * scale
        d = np.column_stack([slope / far[:, None], np.ones(n)])
        # A fifth of them, in any direction, through the middle of the ball.
        o[::5] = d[::5] = rng.normal(size=(len(o[::5]), 3))
        o[::5] *= -far[::5, None] * scale
        axes, lengths = rng.permutation(3), 2.0 ** rng.integers(-200, 200, n)
        o, d = o[:, axes] * rng.choice([-1.0, 1.0], 3), (d * lengths[:, None])[:, axes]
        for low, high in ((0.0, np.inf), (-np.inf, np.inf), (-3.0, 2.0)):
            t, prim = brute.closest_hit(tree, o, d, low, high)
            hits = tree.closest_hit(o, d, low, high)
            assert np.array_equal(hits.prim_id, prim) and np.array_equal(hits.t, t)
            assert np.array_equal(tree.any_hit(o, d, low, high), hits.mask)
            seen += np.count_nonzero(hits.mask)
        assert seen > n // 20


def test_products_that_underflow() -> None:
    """Small numbers times smaller ones, which a large direction brings back into sight."""
    triangle = np.array(
        [[4.9689721843293556e-61, 1.3548617843556614e-302, 1.1129297390984752e156],
         [-1.7310611450389874e-112, 1.2555063654244246e-260, 1.0691249908648119e-305],
         [9.86762915247846e-194, -8.120154611990115e-272, 5.274618224570865e-139]]
    )  # fmt: skip
    o = np.array([-8.015722029746516e-287, 1.135121134343677e-286, 4.490709450456516e91])
    d = np.array([8.901095091087818e-153, -6.65935510237017e-203, -5.255388857073262e230])
    tree = bvh.BVH.from_triangles(triangle, [[0, 1, 2]])
    t = bvh.ray_triangle(o, d, *triangle, -np.inf).t
    assert t == -4.6860414420238265e-138
    assert tree.closest_hit(o, d, -np.inf).t == tree.closest_hit(o[None], d, -np.inf).t[0] == t


@pytest.mark.parametrize("distance", [1e6, 1e10, 1e15, 1e16, 1e17, 1e20, 1e30])
@pytest.mark.parametrize("in_scene", [False, True])
def test_a_range_that_ends_at_the_hit_holds_it(distance: float, in_scene: bool) -> None:
    """A hit counts by its rounded t: far away, the real one may be behind the whole triangle."""
    rng = np.random.default_rng(3)
    corners = rng.uniform(0.5, 1.0, (200, 3, 3))
    source: Any = bvh.BVH.from_triangles(corners.reshape(-1, 3), np.arange(600).reshape(-1, 3))
    if in_scene:
        scene = bvh.Scene()
        scene.add(source, transform=np.diag([2.0, -0.5, 1.0, 1.0]))
        corners = corners * [2.0, -0.5, 1.0]
        source = scene
    origins = corners.mean(axis=1)
    origins[:, 1] -= distance
    rays = origins, [0.0, 1.0, 0.0]
    hits = source.closest_hit(*rays)
    assert hits.mask.all() or distance > 1e7
    found = np.flatnonzero(hits.mask)
    origins, t = origins[found], hits.t[found]
    for low, high in ((0.0, t), (t, np.inf), (t, t)):
        again = source.closest_hit(origins, rays[1], low, high)
        np.testing.assert_array_equal(again.t, t)
        np.testing.assert_array_equal(again.prim_id, hits.prim_id[found])
        assert source.any_hit(origins, rays[1], low, high).all()
        assert (source.all_hits(origins, rays[1], low, high).counts > 0).all()
    for k in range(0, len(found), 20):
        assert source.closest_hit(origins[k], rays[1], t[k], t[k]).t == t[k]
