"""What points ask of scenes: as the flattened mesh answers, bit for bit."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH, Scene
from bvh.queries.batches import containment
from bvh.queries.results import ClosestPoints
from tests.cases.scans import SCANS
from tests.oracles import points as oracle_points
from tests.oracles import scene_points as oracle_spt

Rng = np.random.Generator
FIELDS = ("distance", "position", "prim_id", "u", "v", "leaf", "instance_id")
# Points on a grid of tenths; where matrices have shifts.
TENTHS = np.moveaxis(np.indices((4, 4, 4)), 0, -1).reshape(-1, 3) / 10.0
SHIFTS = np.pad(np.ones((3, 1)), ((0, 1), (3, 0)))
TRUCK = SCANS / "CesiumMilkTruck.glb"


def soup(n: int, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Return triangles of any shape at random places."""
    corners = rng.normal(size=(n, 1, 3)) + rng.normal(size=(n, 3, 3)) * 0.2
    return corners.reshape(-1, 3), np.arange(3 * n).reshape(-1, 3)


def turn(rng: Rng) -> np.ndarray:
    """Return a rotation, or a reflection."""
    return np.linalg.qr(rng.normal(size=(3, 3)))[0]


def matrix(rng: Rng, kind: int) -> np.ndarray:
    """Return a map of one of eight kinds."""
    m = np.eye(4)
    m[:3, :3] = [
        lambda: turn(rng),
        lambda: turn(rng) @ np.diag(np.exp(rng.normal(size=3))),
        lambda: rng.normal(size=(3, 3)),
        lambda: turn(rng) @ np.diag([1.0, 1.0, 10.0 ** rng.uniform(-9, -1)]) @ turn(rng),
        lambda: rng.normal(size=(3, 3)) * 10.0 ** rng.uniform(-8, 3),
        lambda: np.diag(rng.choice([-1.0, 1.0], 3))[rng.permutation(3)],
        lambda: np.array([[1.0, 1.0, 1.0], [0.0, 1e-3, 1.0], [0.0, 0.0, 1e-5]]),
        lambda: turn(rng),
    ][kind]()
    m[:3, 3] = rng.normal(size=3) * 5.0
    if kind == 7:
        m[:3, 3] += 1e7
    return m


def zoo(rng: Rng, count: int) -> Scene:
    """Return a scene of `count` instances of all kinds, some of them scenes."""
    trees = [BVH.from_triangles(*soup(n, rng)) for n in (1, 5, 40, 200)]
    inner, scene = Scene(), Scene()
    for kind in range(4):
        inner.add(trees[kind], matrix(rng, kind))
    for k in range(count):
        child: Any = inner if k % 10 == 9 else trees[rng.integers(4)]
        scene.add(child, matrix(rng, k % 8), mask=int(rng.choice([1, 2, 3])))
    scene.set_visible(3, False)
    return scene


def around(vertices: np.ndarray, n: int, rng: Rng) -> np.ndarray:
    """Return points on, near, among and far from vertices, and two that are not finite."""
    some = vertices[rng.integers(0, len(vertices), (3, n))]
    steps = 10.0 ** rng.uniform(-12, 1, (n, 1))
    return np.concatenate(
        [
            some[0],
            some[1] + rng.normal(size=(n, 3)) * steps,
            rng.normal(size=(n, 3)) * 8.0,
            0.5 * (some[1] + some[2]),
            rng.normal(size=(n // 4, 3)) * 10.0 ** rng.uniform(-8, 12, (n // 4, 1)),
            [[np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0]],
        ]
    )


def assert_as_flattened(scene: Scene, points: np.ndarray, mask: int = 0xFFFFFFFF) -> None:
    """Compare with the tree of the flattened mesh, with limits that are just met, and for k."""
    vertices, faces, leaf_id, prim_id = scene.flattened(mask)
    flat = BVH.from_triangles(vertices, faces)
    owners = scene.leaves.instance_id

    def check(near: ClosestPoints, wanted: Any) -> None:
        hit = wanted.mask
        for name in ("distance", "position", "u", "v"):
            assert np.array_equal(getattr(near, name), getattr(wanted, name), equal_nan=True)
        assert np.array_equal(near.mask, hit)
        assert np.array_equal(near.prim_id[hit], prim_id[wanted.prim_id[hit]])
        assert np.array_equal(near.leaf[hit], leaf_id[wanted.prim_id[hit]])
        assert np.array_equal(near.instance_id[hit], owners[near.leaf[hit]])
        assert (near.leaf[~hit] == -1).all() and (near.instance_id[~hit] == -1).all()
        assert near.prim_id.dtype == near.leaf.dtype == near.instance_id.dtype == np.int32

    wanted = flat.closest_point(points)
    check(scene.closest_point(points, mask=mask), wanted)
    assert np.array_equal(scene.distance(points, mask=mask, threads=2), wanted.distance)
    check(scene.closest_point(points, wanted.distance, mask=mask), wanted)
    with np.errstate(invalid="ignore"):
        below = np.where(wanted.mask, np.nextafter(wanted.distance, -np.inf), -1.0)
    assert not scene.closest_point(points, below, mask=mask).mask.any()
    check(scene.closest_point(points, 0.5, mask=mask), flat.closest_point(points, 0.5))
    some = points[:: max(len(points) // 500, 1)]
    for k in (1, 4):
        check(scene.closest_point(some, k=k, mask=mask), flat.closest_point(some, k=k))


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.long)])
def test_as_the_flattened_mesh(count: int, rng: Rng) -> None:
    """Instances of all kinds, nested, under every mask."""
    scene = zoo(rng, 120)
    points = around(scene.flattened()[0], count, rng)
    assert_as_flattened(scene, points)
    for mask in (1, 2):
        assert_as_flattened(scene, points[::3], mask)


@pytest.mark.slow
def test_many_points_as_the_flattened_mesh(rng: Rng) -> None:
    """Ten scenes with ten thousands of points each."""
    for _ in range(10):
        scene = zoo(rng, 150)
        assert_as_flattened(scene, around(scene.flattened()[0], 5000, rng))


@pytest.mark.parametrize("kind", range(8))
def test_one_kind_of_map(kind: int, rng: Rng) -> None:
    """Scenes of a single kind, so that the top level suits them, however small or far."""
    scene, tree = Scene(), BVH.from_triangles(*soup(60, rng))
    scene.add_many(tree, np.stack([matrix(rng, kind) for _ in range(12)]))
    assert_as_flattened(scene, around(scene.flattened()[0], 300, rng))


@pytest.mark.parametrize("scale", [1e-140, 1e-60, 1e60, 1e140])
def test_scales(scale: float, rng: Rng) -> None:
    """Trees, or scenes, of any size; both at once."""
    vertices, faces = soup(30, rng)
    for own, map_scale in ((scale, 1.0), (1.0, scale), (scale, 1.0 / scale)):
        scene, tree = Scene(), BVH.from_triangles(vertices * own, faces)
        for kind in (0, 1, 2):
            m = matrix(rng, kind) * map_scale
            m[:3, 3] *= own
            m[3] = [0.0, 0.0, 0.0, 1.0]
            scene.add(tree, m)
        flat = scene.flattened()[0]
        size = np.abs(flat).max()
        assert_as_flattened(scene, around(flat / size, 60, rng) * size)


def test_against_rational_numbers(rng: Rng) -> None:
    """The least distance of all to 4 units in the last place; of equal ones, the first."""
    scene, inner, tree = Scene(), Scene(), BVH.from_triangles(*soup(3, rng))
    inner.add(tree, matrix(rng, 1))
    for kind in (0, 2, 5):
        scene.add(tree, matrix(rng, kind))
        scene.add(inner, matrix(rng, kind))
    scene.add(tree, scene[0].transform)
    scene.set_visible(2, False)
    points = around(scene.flattened()[0], 12, rng)[:-5]
    near = scene.closest_point(points)
    for i, point in enumerate(points.tolist()):
        square, pairs = oracle_spt.nearest(scene, point)
        assert oracle_points.ulps_off(near.distance[i], square) <= 4.0
        if len({leaf for leaf, _ in pairs}) > 1:
            assert near.leaf[i] == min(pairs)[0]


def test_vertices_beyond_the_largest_double() -> None:
    """They stop there, as in the flattened mesh: no distance is 0 because of them."""
    scene = Scene()
    faces = [[0, 1, 2], [1, 3, 1]]
    scene.add(
        ([[0, 0, 0], [1.7e308, 0, 0], [0, 1, 0], [1.7e308, 0, 1e300]], faces),
        [[1, 0, 0, 1e308], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
    )
    flat = BVH.from_triangles(*scene.flattened()[:2])
    where = np.array([[0, 0, 0], [1e308, 0, 5], [1.7e308, 0, 0]])
    found = scene.closest_point(where, k=2).distance
    assert np.array_equal(found, flat.closest_point(where, k=2).distance)
    assert found[:, 0].tolist() == scene.distance(where).tolist() == [1e308, 5.0, 0.0]


def test_ties_go_to_the_first_leaf(rng: Rng) -> None:
    """The same triangles, twice in one place, in either order of the top level."""
    tree = BVH.from_triangles(*soup(50, rng))
    scene, m = Scene(), matrix(rng, 2)
    scene.add_many(tree, np.stack([m, matrix(rng, 0), m]))
    points = rng.normal(size=(200, 3)) * 5.0
    near = scene.closest_point(points, k=2)
    assert not (near.leaf[:, 0] == 2).any()
    both = near.leaf[:, 0] == 0
    assert both.any() and np.array_equal(near.prim_id[both, 0], near.prim_id[both, 1])


def test_follows_changes(rng: Rng) -> None:
    """Moved, hidden, removed, replaced; within nested scenes, too."""
    scene = zoo(rng, 30)
    points = around(scene.flattened()[0], 100, rng)
    inner = scene[9].child
    for change in (
        lambda: scene.set_transform(1, matrix(rng, 2)),
        lambda: inner.set_transform(0, matrix(rng, 1)),
        lambda: scene.set_visible(1, False),
        lambda: inner.remove(2),
        lambda: scene.remove(4),
        lambda: scene.replace(5, inner),
    ):
        change()
        assert_as_flattened(scene, points)
    for other in (copy.copy(scene), copy.deepcopy(scene), pickle.loads(pickle.dumps(scene))):
        assert np.array_equal(other.distance(points), scene.distance(points))


def solids(rng: Rng) -> Scene:
    """Return a scene of closed meshes that overlap."""
    import trimesh

    balls = [trimesh.creation.icosphere(subdivisions=n) for n in (1, 2)]
    meshes = [*balls, trimesh.creation.box()]
    trees = [BVH.from_triangles(m.vertices, m.faces, quality="high") for m in meshes]
    inner, scene = Scene(), Scene()
    for tree in trees:
        inner.add(tree, matrix(rng, 2))
    for k in range(30):
        scene.add(inner if k % 10 == 9 else trees[k % 3], matrix(rng, k % 3), mask=1 + k % 2)
    return scene


def test_inside_at_least_one(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the trees of all leaves say, each by itself; however few crossings are in memory."""
    scene = solids(rng)
    for mask in (0xFFFFFFFF, 1):
        vertices, faces, leaf_id, _ = scene.flattened(mask)
        middles = vertices[faces[rng.integers(0, len(faces), 100)]].mean(axis=1)
        points = np.concatenate([around(vertices, 400, rng), middles, np.zeros((1, 3))])
        wanted, strictly = np.zeros((2, len(points)), np.bool_)
        for leaf in np.unique(leaf_id):
            one = BVH.from_triangles(vertices, faces[leaf_id == leaf])
            wanted |= one.contains(points)
            strictly |= one.signed_distance(points) < 0.0
        assert 0 < np.count_nonzero(wanted) < len(points)
        for most in (containment.MAX_CROSSINGS, 64, 1):
            monkeypatch.setattr(containment, "MAX_CROSSINGS", most)
            assert np.array_equal(scene.contains(points, mask=mask), wanted)
        signed, distance = (
            scene.signed_distance(points, mask=mask),
            scene.distance(points, mask=mask),
        )
        assert np.array_equal(np.abs(signed), distance)
        assert np.array_equal(signed < 0.0, strictly & (distance > 0.0))
        clear = (distance > 1e-6) & (distance < 1e6)
        winding = scene.contains(points[clear], method="winding", mask=mask)
        assert np.count_nonzero(winding != wanted[clear]) < 0.01 * len(winding)


def test_open_surfaces_at_their_present_places(rng: Rng) -> None:
    """The parity of an open surface depends on the direction of the ray, not on earlier places."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]], warn=False)
    for _ in range(20):
        maps = np.tile(np.eye(4), (2, 1, 1))
        maps[:, :3, 3] = rng.integers(0, 10, (2, 3)) / 10.0
        scene, wanted = Scene(), Scene()
        wanted.add_many(tree, maps)
        ids = scene.add_many(tree, maps + rng.integers(-5, 6, (2, 4, 4)) / 7.0 * SHIFTS)
        assert scene.bounds.shape == (2, 3)
        scene.set_transforms(ids, maps)
        # Many of these points are as far from two sides of the box, but for rounding.
        low, high = wanted.bounds
        points = np.concatenate([low + TENTHS, high - TENTHS, (0.5 * (low + high))[None]])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bvh.BVHWarning)
            inside = wanted.contains(points)
            assert np.array_equal(scene.contains(points), inside)
            assert [scene.contains(point) for point in points] == inside.tolist()


def test_winding_numbers(rng: Rng) -> None:
    """Of the flattened mesh, whose tree is kept until the scene changes."""
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=2)
    scene, other = Scene(), Scene()
    tree = BVH.from_triangles(ball.vertices, ball.faces)
    scene.add_many(tree, np.stack([np.eye(4), np.diag([2.0, 2.0, 2.0, 1.0])]))
    a = scene.add(tree, np.diag([-4.0, 4.0, 4.0, 1.0]), mask=1)
    points = [[0.1, 0.2, 0.3], [0.1, 1.5, 0.2], [3.0, 0.5, 0.2], [9.0, 0.0, 0.0]]
    exact = scene.winding_number(points, np.inf)
    assert np.allclose(exact, [1.0, 0.0, -1.0, 0.0])
    assert np.allclose(scene.winding_number(points, np.inf, mask=2), [2.0, 1.0, 0.0, 0.0])
    flat = BVH.from_triangles(*scene.flattened()[:2])
    assert np.array_equal(scene.winding_number(points), flat.winding_number(points))
    assert scene.contains(points, method="winding").tolist() == [True, True, True, False]
    whole = scene._as_one_tree(-1, False)
    assert scene._as_one_tree(-1, False) is whole
    other.add(tree)
    assert scene._as_one_tree(-1, False) is whole
    scene.set_transform(a, np.eye(4))
    assert np.allclose(scene.winding_number(points, np.inf), [3.0, 1.0, 0.0, 0.0])
    assert isinstance(scene.winding_number(points[0]), float)


def test_shapes(rng: Rng) -> None:
    """Scalars for a point, the leading shape for more, one axis more for k; empty scenes."""
    scene = zoo(rng, 10)
    one = scene.closest_point([0.0, 1.0, 2.0])
    assert type(one.distance) is float and type(one.instance_id) is type(one.leaf) is int
    assert one.position.shape == (3,) and repr(one).startswith("ClosestPoints(distance=")
    assert type(scene.contains([0.0, 1.0, 2.0])) is bool
    many = scene.closest_point(np.zeros((2, 5, 3)), k=3)
    assert many.leaf.shape == (2, 5, 3) and many.position.shape == (2, 5, 3, 3)
    part = many[0, ..., 1]
    assert type(part) is ClosestPoints and part.leaf.shape == (5,)
    hidden = Scene()
    hidden.add(scene[0].child, visible=False)
    for empty in (Scene(), hidden):
        near = empty.closest_point(np.zeros((4, 3)), k=2)
        assert (near.distance == np.inf).all() and (near.instance_id == -1).all()
        assert np.isnan(near.position).all() and near.position.shape == (4, 2, 3)
        assert empty.signed_distance([0.0, 0.0, 0.0]) == np.inf
        assert empty.contains(np.zeros((2, 3))).tolist() == [False, False]
        assert empty.winding_number([0.0, 0.0, 0.0]) == 0.0
    assert scene.closest_point(np.empty((0, 3))).leaf.shape == (0,)
    told: list[tuple[int, int]] = []
    scene.closest_point(np.zeros((1000, 3)), progress=lambda *part: told.append(part))
    assert told[-1] == (1000, 1000)


def test_boxes_out_of_sight(rng: Rng) -> None:
    """The instance that is no mesh does not count."""
    scene = zoo(rng, 4)
    scene.set_visible(scene.add(BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]])), False)
    scene.closest_point([0.0, 0.0, 0.0])


@pytest.mark.skipif(not TRUCK.exists(), reason="needs a mesh that is not here")
def test_a_scene_of_trimesh(rng: Rng) -> None:
    """The truck, whose wheels are instances."""
    scene = bvh.load_scene(TRUCK)
    assert_as_flattened(scene, around(scene.flattened()[0], 500, rng))
