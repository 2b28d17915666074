"""Nearest points of trees against brute force over the same leaf test: same face, same double."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

import bvh
from bvh.geometry.arithmetic.floats import LARGEST
from bvh.io.mesh_files import read_file
from tests.cases import sizes
from tests.cases.scans import SCANS
from tests.cases.soups import at_places, soup
from tests.oracles import brute_points
from tests.traversal.test_brute import OURS, SCAN_NAMES

QUALITIES = ("medium", "high")


def points_near(tree: bvh.BVH, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return points on, near, in the box of, and far from a surface."""
    corners = tree.vertices[tree.faces]
    lower, upper = tree.bounds
    size, middle = (upper - lower).max(), 0.5 * lower + 0.5 * upper
    weights = rng.dirichlet(np.ones(3), n)
    weights[rng.random(n) < 0.2, 2] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    corners = corners[np.isfinite(corners).all(axis=(1, 2))]
    on = np.einsum("nk,nkx->nx", weights, corners[rng.integers(0, len(corners), n)])
    steps = rng.choice([0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1e-2], (n, 1))
    away = rng.normal(size=(n, 3)) * size
    return np.concatenate(
        [
            corners.reshape(-1, 3)[rng.integers(0, 3 * len(corners), n // 4)],
            on + away * steps,
            rng.uniform(lower, upper, (n, 3)),
            middle + away[: n // 2] * 10,
            middle + away[: n // 8] * 1e3,
            middle + away[: max(n // 100, 4)] * 1e12,
            [[np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0]],
        ]
    )


def assert_equal_to_brute_force(tree: bvh.BVH, points: np.ndarray, filtered: bool = False) -> None:
    """Compare ids and distances bit for bit, without limits and with limits that are just met."""
    near = tree.closest_point(points, threads=1)
    distance, prim = brute_points.closest_point(tree, points, filtered=filtered)
    assert np.count_nonzero(near.prim_id != prim) == 0
    assert np.array_equal(near.distance, distance)
    assert np.array_equal(tree.distance(points, threads=2), distance)
    again = tree.closest_point(points, threads=2)
    for name in ("distance", "position", "prim_id", "u", "v"):
        assert np.array_equal(getattr(near, name), getattr(again, name), equal_nan=True)
    with np.errstate(invalid="ignore"):
        below = np.nextafter(distance, -np.inf)
    met = tree.closest_point(points, distance)
    assert np.array_equal(met.prim_id, prim)
    assert not tree.closest_point(points, np.where(near.mask, below, np.nan)).mask.any()
    first = tree.closest_point(points, k=1)
    assert np.array_equal(first.prim_id[:, 0], prim)
    assert np.array_equal(first.distance[:, 0], distance)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("quality", QUALITIES)
def test_our_meshes(name: str, quality: str, rng: np.random.Generator) -> None:
    """All kinds of points on our own meshes."""
    tree = bvh.BVH.from_triangles(*OURS[name](), quality=quality)
    assert_equal_to_brute_force(tree, points_near(tree, 150, rng), filtered=True)


@pytest.mark.parametrize("name", SCAN_NAMES)
def test_scans(name: str, rng: np.random.Generator) -> None:
    """A bounded share of points on real scans."""
    if not (SCANS / name).is_file():
        pytest.skip(f"no {name} at hand")
    tree = bvh.BVH.from_mesh(read_file(SCANS / name, "a mesh"))
    assert_equal_to_brute_force(tree, points_near(tree, 100, rng), filtered=True)


def families(rng: np.random.Generator) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return soups of all scales, and of faces that are hard to tell apart."""
    vertices, faces = soup(rng, 1000)
    whole = rng.integers(0, 5, (3000, 3)).astype(float)
    broken = whole.copy()
    broken[::50], broken[7::90] = np.nan, np.inf
    flat = vertices.copy()
    flat[:, 2] = 0.0
    return {
        "soup": (vertices, faces),
        "whole numbers": (whole, np.arange(3000).reshape(-1, 3)),
        "broken": (broken, np.arange(3000).reshape(-1, 3)),
        "duplicates": (vertices, np.concatenate([faces, faces[::-1], np.roll(faces, 1, axis=1)])),
        "degenerate": (vertices, np.stack([faces[:, 0], faces[:, 0], faces[:, 2]], axis=1)),
        "points": (vertices, np.repeat(faces[:, :1], 3, axis=1)),
        "flat": (flat, faces),
        "offset": (vertices * 1e-3 + 1e7, faces),
        "huge": (vertices * 1e150, faces),
        "tiny": (vertices * 1e-150, faces),
        "beyond": (vertices * 1e306, faces),
        "denormal": (vertices * 1e-318, faces),
        "sizes": at_places(rng.random((1000, 3)), 10.0 ** rng.uniform(-12, 1, 1000)),
    }


FAMILIES = tuple(families(np.random.default_rng(0)))
# Nearly all of its distances are decided by exact sums.
LONG = "beyond"


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long) if name == LONG else name for name in FAMILIES],
)
def test_soups(name: str, rng: np.random.Generator) -> None:
    """Soups of all scales, in trees of all kinds."""
    vertices, faces = families(rng)[name]
    for quality in QUALITIES:
        tree = bvh.BVH.from_triangles(vertices, faces, quality=quality)
        with np.errstate(over="ignore", invalid="ignore"):
            points = points_near(tree, 100, rng)
        if name in ("whole numbers", "broken"):
            points = np.concatenate([points, rng.integers(0, 9, (300, 3)) / 2])
        assert_equal_to_brute_force(tree, points)


@pytest.mark.parametrize("quality", QUALITIES)
def test_several(quality: str, rng: np.random.Generator) -> None:
    """The nearest k are the first k of all faces, sorted by distance and id."""
    vertices, faces = soup(rng, 60)
    faces = np.concatenate([faces, faces[::2]])
    tree = bvh.BVH.from_triangles(vertices, faces, quality=quality)
    points = np.concatenate([rng.random((40, 3)), rng.normal(size=(20, 3)) * 300])
    limits = rng.uniform(0.1, 400.0, len(points))
    alone = [bvh.BVH.from_triangles(vertices, faces[i : i + 1]) for i in range(len(faces))]
    distance = np.stack([tree.distance(points) for tree in alone], axis=1)
    order = np.argsort(distance, axis=1, kind="stable")
    ranked = np.take_along_axis(distance, order, axis=1)
    for k in (1, 3, len(faces), len(faces) + 5):
        near = tree.closest_point(points, k=k)
        kept = min(k, len(faces))
        assert near.prim_id.shape == (60, k)
        assert near.position.shape == (60, k, 3)
        assert np.array_equal(near.prim_id[:, :kept], order[:, :kept])
        assert np.array_equal(near.distance[:, :kept], ranked[:, :kept])
        assert (near.prim_id[:, kept:] == -1).all()
        assert np.isinf(near.distance[:, kept:]).all()
        assert np.isnan(near.position[:, kept:]).all()
        close = tree.closest_point(points, limits, k=k)
        wanted = np.where(ranked[:, :kept] <= limits[:, None], order[:, :kept], -1)
        assert np.array_equal(close.prim_id[:, :kept], wanted)


def test_positions(rng: np.random.Generator) -> None:
    """Positions lie where the weights say, and as far away as the distance says."""
    tree = bvh.BVH.from_triangles(*soup(rng, 2000))
    points = rng.uniform(-0.5, 1.5, (2000, 3))
    for near in (tree.closest_point(points), tree.closest_point(points, k=2)[:, 1]):
        a, b, c = np.moveaxis(tree.vertices[tree.faces[near.prim_id]], 1, 0)
        u, v = near.u[:, None], near.v[:, None]
        assert np.allclose((1 - u - v) * a + u * b + v * c, near.position, rtol=0, atol=1e-15)
        off = np.linalg.norm(points - near.position, axis=1)
        assert np.allclose(off, near.distance, rtol=1e-11, atol=1e-15)


def test_limits() -> None:
    """The limit itself counts; NaN and negative limits miss; arrays broadcast."""
    tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    point = [0.25, 0.25, 0.1]
    assert tree.closest_point(point, 0.1).prim_id == 0
    limits = [0.1, np.nextafter(0.1, 0), -1.0, np.nan, np.inf]
    assert tree.closest_point(point, limits).mask.tolist() == [True, False, False, False, True]
    assert tree.closest_point([[0.1, 0.1, 0.0]], 0.0).distance.tolist() == [0.0]
    near = tree.closest_point(np.zeros((4, 1, 3)), np.ones(5))
    assert near.distance.shape == (4, 5)


def test_shapes(rng: np.random.Generator) -> None:
    """Results have the points' leading shape; a single point gives scalars."""
    tree = bvh.BVH.from_triangles(*soup(rng, 100))
    near = tree.closest_point([0.5, 0.5, 2.0])
    assert type(near.distance) is float
    assert type(near.prim_id) is int
    assert near.position.shape == (3,)
    assert type(tree.distance([0.5, 0.5, 2.0])) is float
    assert "ClosestPoints(distance=" in repr(near)
    batch = tree.closest_point(rng.random((2, 5, 3)))
    assert batch.prim_id.dtype == np.int32
    assert batch.position.shape == (2, 5, 3)
    assert len(batch) == 2
    assert batch[1].distance.shape == (5,)
    several = tree.closest_point(rng.random((2, 5, 3)), k=3)
    for nearest in (several[..., 0], several[:, :, 0], several[..., :1][..., 0]):
        assert np.array_equal(nearest.position, several.position[:, :, 0])
        assert np.array_equal(nearest.distance, several.distance[:, :, 0])
    assert np.array_equal(several[several.mask].position, several.position[several.mask])
    assert "10 of 2 x 5 found" in repr(batch)
    empty = tree.closest_point(np.empty((0, 3)))
    assert empty.distance.shape == (0,)
    assert "0 of 0" in repr(empty)
    assert tree.closest_point(np.empty((0, 3)), k=4).prim_id.shape == (0, 4)
    # A point given as float32 or as integers, in any layout.
    points = np.asfortranarray(rng.random((50, 3)).astype(np.float32))
    assert np.array_equal(tree.distance(points), tree.distance(points.astype(float)))


def test_empty_tree() -> None:
    """Nothing is near where there is nothing, or nothing finite."""
    for vertices, faces in ((np.empty((0, 3)), []), (np.full((3, 3), np.nan), [[0, 1, 2]])):
        tree = bvh.BVH.from_triangles(vertices, np.array(faces, int).reshape(-1, 3))
        near = tree.closest_point([[0.0, 0.0, 0.0]])
        assert near.distance[0] == np.inf
        assert near.prim_id[0] == -1
        assert np.isnan(near.position).all()
        assert tree.closest_point([0.0, 0.0, 0.0], k=2).prim_id.tolist() == [-1, -1]
        assert tree.signed_distance([0.0, 0.0, 0.0]) == np.inf
        assert not tree.contains([0.0, 0.0, 0.0])
        assert tree.winding_number([0.0, 0.0, 0.0]) == 0.0


def test_threads_and_copies(rng: np.random.Generator) -> None:
    """One tree answers many threads at once, and a copy answers the same; progress adds up."""
    tree = bvh.BVH.from_triangles(*soup(rng, 3000))
    points = rng.random((3000, 3))
    wanted = tree.distance(points)
    found: list[np.ndarray] = []
    workers = [
        threading.Thread(target=lambda: found.append(tree.distance(points, threads=2)))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    assert all(np.array_equal(distance, wanted) for distance in found)
    assert np.array_equal(pickle.loads(pickle.dumps(tree)).distance(points), wanted)
    seen: list[tuple[int, int]] = []
    tree.closest_point(points, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3000, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OURS, *SCAN_NAMES])
def test_many_points(name: str, rng: np.random.Generator) -> None:
    """10**5 points a mesh."""
    if name in OURS:
        tree = bvh.BVH.from_triangles(*OURS[name]())
    elif (SCANS / name).is_file():
        tree = bvh.BVH.from_mesh(read_file(SCANS / name, "a mesh"))
    else:
        pytest.skip(f"no {name} at hand")
    # Few far points: brute force has to measure every face for them.
    points = points_near(tree, 40_000, rng)
    points = np.concatenate([points[:90_000], points[90_000:][:10_000:10]])
    assert_equal_to_brute_force(tree, points, filtered=True)


@pytest.mark.parametrize("family", sizes.FAMILIES)
def test_any_size(family, rng: np.random.Generator) -> None:
    """Trees and scenes of points of any size: every point has its face, at a finite distance."""
    vertices = sizes.triangles(family, 10, rng).reshape(-1, 3)
    faces = np.arange(60).reshape(20, 3)
    tree, scene = bvh.BVH.from_triangles(vertices, faces), bvh.Scene()
    scene.add(tree), scene.add(tree)
    points = np.concatenate([family(rng, 10), vertices[:5]])
    assert_equal_to_brute_force(tree, points)
    distance, prim = brute_points.closest_point(tree, points)
    assert (distance <= LARGEST).all() and (prim >= 0).all() and (distance[10:] == 0.0).all()
    for target in (tree, scene):
        near = target.closest_point(points)
        assert np.array_equal(near.distance, distance) and np.array_equal(near.prim_id, prim)
        assert np.isfinite(near.position).all()
        assert np.array_equal(target.closest_point(points, k=3).distance[:, 0], distance)
        one = target.closest_point(points[0])
        assert one.distance == distance[0] and one.prim_id == prim[0]
