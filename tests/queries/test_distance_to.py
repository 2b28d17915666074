"""Distances between two trees: against brute force, and against rational numbers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH
from bvh.geometry.arithmetic import rational
from bvh.traversal.pairs.closest_memory import CAPACITY
from tests.cases import contact_pairs, sizes
from tests.oracles import overlaps as oracle
from tests.oracles import points, scene_clearances
from tests.oracles.confirmed import confirm, digest, is_confirmed
from tests.queries.test_overlap_tree import moved
from tests.queries.test_overlaps import QUALITIES, grid_mesh, long_mesh

pytestmark = pytest.mark.answers
ULP = 2.0**-52
Mesh = tuple[np.ndarray, np.ndarray]


def exact(v: np.ndarray, f: np.ndarray, w: np.ndarray, g: np.ndarray) -> tuple[float, list[int]]:
    """Return the distance by rational numbers, and if meshes touch the lowest pair."""
    best, pair = np.inf, [-1, -1]
    for i, a in enumerate(v[f].tolist()):
        for j, b in enumerate(w[g].tolist()):
            if not (np.isfinite(a).all() and np.isfinite(b).all()):
                continue
            if oracle.triangles_touch(a, b):
                return 0.0, [i, j]
            d = rational.triangle_distance(a, b)
            if d < best:
                best, pair = d, [i, j]
    return best, pair


@pytest.mark.parametrize("name", ["grid", "long"])
@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_two_trees(name: str, scale: float, rng: np.random.Generator) -> None:
    """Apart by various distances, and touching."""
    make = {"grid": grid_mesh, "long": long_mesh}[name]
    (v, f), (w, g) = make(rng), make(rng)
    f, g = f[:8], g[:8]
    for offset in (0.0, 6.5):
        b = BVH.from_triangles((w + offset) * scale, g)
        distance, pair = exact(v * scale, f, (w + offset) * scale, g)
        for quality in QUALITIES:
            found = BVH.from_triangles(v * scale, f, quality=quality).distance_to(b)
            assert abs(found.distance - distance) <= 2 * ULP * distance
            if distance == 0.0:
                assert found.prim_id.tolist() == pair


def test_transforms_and_limits(rng: np.random.Generator) -> None:
    """A batch of transforms, with limits and hints, equals single queries."""
    (v, f), (w, g) = long_mesh(rng), long_mesh(rng)
    a, b = BVH.from_triangles(v, f), BVH.from_triangles(w, g)
    places = np.tile(np.eye(4), (3, 4, 1, 1))
    places[..., :3, 3] = rng.normal(size=(3, 4, 3)) * 8.0
    places[..., :3, :3] = np.linalg.qr(rng.normal(size=(3, 4, 3, 3)))[0]
    found = a.distance_to(b, places, threads=2)
    assert found.distance.shape == (3, 4)
    again = a.distance_to(b, places, hint=found)
    assert np.array_equal(found.distance, again.distance)
    assert np.array_equal(found.prim_id, again.prim_id)
    assert np.array_equal(found.position, again.position)
    for k in np.ndindex(3, 4):
        one = a.distance_to(b, places[k])
        other = BVH.from_triangles(moved(places[k], w), g)
        assert one.distance == found.distance[k] == a.distance_to(other).distance
        assert one.prim_id.tolist() == found.prim_id[k].tolist()
    limited = a.distance_to(b, places, max_distance=found.distance)
    assert np.array_equal(limited.distance, found.distance)
    short = np.nextafter(found.distance, -1.0)
    missed = a.distance_to(b, places, max_distance=short)
    assert not missed.mask.any()
    assert np.isinf(missed.distance).all()
    assert np.isnan(missed.position).all()


def test_nothing_there() -> None:
    """Empty meshes, boxes, bad hints."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    empty = BVH.from_triangles(np.zeros((0, 3)), np.zeros((0, 3), int))
    assert tree.distance_to(empty).distance == np.inf
    assert empty.distance_to(tree).prim_id.tolist() == [-1, -1]
    boxes = BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]])
    for pair in ((tree, boxes), (boxes, tree), (tree, 3)):
        with pytest.raises(TypeError):
            pair[0].distance_to(pair[1])
    with pytest.raises(ValueError, match="hint"):
        tree.distance_to(tree, hint=[0, 1])
    for hint in ([[0], [0, 0]], np.ma.array([0, 0], mask=True), "ab"):
        with pytest.raises((TypeError, ValueError), match="hint must"):
            tree.distance_to(tree, hint=hint)  # type: ignore[arg-type]
    assert isinstance(tree.distance_to(tree, hint=[-1, -1]), bvh.Clearances)


@pytest.mark.parametrize("scale", contact_pairs.SCALES)
@pytest.mark.parametrize("kind", contact_pairs.KINDS)
def test_single_pairs(kind: str, scale: str, rng: np.random.Generator) -> None:
    """Contacts that are hard to decide, and distances of all features, faces without area too."""
    for a, b in zip(*contact_pairs.pairs_of(kind, scale, 15, rng), strict=True):
        tree, other = BVH.from_triangles(a, [[0, 1, 2]]), BVH.from_triangles(b, [[0, 1, 2]])
        found = tree.distance_to(other)
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            continue
        touch = oracle.triangles_touch(a.tolist(), b.tolist())
        assert (found.distance == 0.0) == touch
        x, y = found.position
        size = max(np.abs(a).max(), np.abs(b).max())
        if touch:
            assert np.array_equal(x, y)
            for t in (tree, other):
                assert t.closest_point(x).distance <= 1e-12 * size
        else:
            real = rational.triangle_distance(a.tolist(), b.tolist())
            assert abs(found.distance - real) <= 2 * ULP * real
            assert abs(np.linalg.norm((x - y) / size) - real / size) <= 1e-14
            back = other.distance_to(tree)
            assert abs(back.distance - real) <= 2 * ULP * real


@pytest.mark.parametrize("family", sizes.FAMILIES)
def test_any_size(family: Any, rng: np.random.Generator) -> None:
    """From 0, where triangles touch, over the smallest double to the largest, never infinite."""
    for group in sizes.triangles(family, 40, rng):
        a, b = group[:3], group[3:]
        tree, other = BVH.from_triangles(a, [[0, 1, 2]]), BVH.from_triangles(b, [[0, 1, 2]])
        both, touch = (tree.distance_to(other), other.distance_to(tree)), tree.overlap_tree(other)
        for found in both:
            assert found.prim_id.tolist() == [0, 0] and np.isfinite(found.position).all()
        case = digest("two triangles", group, *(found.distance for found in both), len(touch))
        if is_confirmed(case):
            continue
        square = scene_clearances.squared_distance(a.tolist(), b.tolist())
        for found in both:
            assert points.ulps_off(found.distance, square) <= 2, group.tolist()
        assert len(touch) == (square == 0)
        confirm(case)


@pytest.mark.parametrize("family", sizes.FAMILIES)
def test_trees_of_any_size(family: Any, rng: np.random.Generator) -> None:
    """The best pair of faces, also just within a limit, and through a matrix."""
    f = np.arange(30).reshape(10, 3)
    v, w = sizes.triangles(family, 5, rng).reshape(30, 3), family(rng, 30)
    a, b = BVH.from_triangles(v, f), BVH.from_triangles(w, f)
    found = a.distance_to(b)
    assert (found.prim_id >= 0).all()
    case = digest("trees of ten triangles", v, w, found.distance)
    if not is_confirmed(case):
        squares = [
            scene_clearances.squared_distance(s, t) for s in v[f].tolist() for t in w[f].tolist()
        ]
        assert points.ulps_off(found.distance, min(squares)) <= 2
        confirm(case)
    for near in (a.distance_to(b, np.eye(4)), a.distance_to(b, max_distance=found.distance)):
        assert near.distance == found.distance
        assert np.array_equal(near.prim_id, found.prim_id)
    if found.distance > 0.0:
        below = np.nextafter(found.distance, 0.0)
        assert a.distance_to(b, max_distance=below).distance == np.inf


@pytest.mark.parametrize("kind", ["crossing", "needles"])
@pytest.mark.parametrize("scale", [1.0, 2.0**-1000, 2.0**1000])
def test_edges_almost_parallel_and_needles(
    kind: str, scale: float, rng: np.random.Generator
) -> None:
    """Where estimates in doubles are rounding errors, nothing nearer is left out for them."""
    for _ in range(25):
        if kind == "crossing":
            turn, gap = 2.0 ** -rng.uniform([10, 15], [40, 45])
            x, y, z, t = *rng.random(2), *rng.normal(size=2)
            a = np.array([[-x, 0, 0], [1 - x, 0, 0], [z, t, -1]])
            b = np.array([[-y, -y * turn, gap], [1 - y, turn - y * turn, gap], [z, t * turn, 1]])
            b[2, 2] = gap * rng.uniform(0.8, 1.2)
        else:
            a, b, s = *rng.normal(size=(2, 3, 3)), rng.random()
            off = 2.0 ** -rng.uniform(20, 60, (2, 1)) * rng.normal(size=(2, 3))
            a[2] = a[0] * s + a[1] * (1 - s) + off[0]
            b[0] = rng.dirichlet(np.ones(3)) @ a + off[1]
        turned = np.linalg.qr(rng.normal(size=(3, 3)))[0] * scale
        a, b = a @ turned, b @ turned
        found = BVH.from_triangles(a, [[0, 1, 2]]).distance_to(BVH.from_triangles(b, [[0, 1, 2]]))
        square = scene_clearances.squared_distance(a.tolist(), b.tolist())
        assert points.ulps_off(found.distance, square) <= 2


def test_a_segment_whose_normal_is_a_rounding_error() -> None:
    """Nothing is over a face like that: the distance is that of its edges."""
    segment = np.array([[0.5, 1.0, -0.5], [0.0, -0.5, 0.0], [0.25, 0.25, -0.25]])
    face = np.array([[0.0, 0.0, -1.0], [0.0, -1.0, -1.0], [0.0, 1.0, 0.0]])
    a, b = (BVH.from_triangles(t * (1 - 2.0**-53), [[0, 1, 2]]) for t in (segment, face))
    found = a.distance_to(b)
    assert abs(found.distance - 0.075**0.5) < 1e-15 and found.prim_id.tolist() == [0, 0]


def test_ties_have_the_lowest_ids(rng: np.random.Generator) -> None:
    """Cubes whose nearest corners, edges or faces are shared by several faces; in any order."""
    v, f = cube()
    for shift in ((2.0, 2.0, 2.0), (0.25, 2.0, 2.0), (0.0, 0.0, 3.0), (0.5, 0.25, 4.0)):
        order, turn = rng.permutation(12), rng.permutation(12)
        a, b = BVH.from_triangles(v, f[order]), BVH.from_triangles(v + shift, f[turn])
        found = a.distance_to(b)
        everything = [
            (one.distance_to(two).distance, i, j)
            for i, one in enumerate(singles(v, f[order]))
            for j, two in enumerate(singles(v + shift, f[turn]))
        ]
        assert (found.distance, *found.prim_id.tolist()) == min(everything)
        hint = found.prim_id[::-1] if rng.random() < 0.5 else rng.integers(0, 12, 2)
        hinted = a.distance_to(b, hint=hint)
        assert hinted.distance == found.distance
        assert np.array_equal(hinted.prim_id, found.prim_id)


def cube() -> Mesh:
    """Return a cube of size 1."""
    v = np.array([[x, y, z] for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)])
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    return v, np.array([half for a, b, c, d in quads for half in ([a, b, c], [a, c, d])])


def singles(v: np.ndarray, f: np.ndarray) -> list[BVH]:
    """Return a tree of each face."""
    return [BVH.from_triangles(v, row[None]) for row in f]


@pytest.mark.parametrize("count", [8, pytest.param(16, marks=pytest.mark.long)])
def test_brute_force(count: int, rng: np.random.Generator) -> None:
    """Bit for bit the best of all pairs by themselves; touching pairs too, and after a refit."""
    (v, f), (w, g) = grid_mesh(rng), long_mesh(rng)
    f, g = f[:count], g[:count]
    for shift in (0.0, 5.5, 1e7):
        a = BVH.from_triangles(v, f, quality="high")
        b = BVH.from_triangles(w, g)
        b.refit(w + shift)
        pairs = [
            (one.distance_to(two).distance, i, j)
            for i, one in enumerate(singles(v, f))
            for j, two in enumerate(singles(w + shift, g))
        ]
        found = a.distance_to(b)
        assert (found.distance, *found.prim_id.tolist()) == min(pairs)


def test_more_candidates_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fans whose apexes are so near that only rational numbers tell how far, in each of 529 pairs.

    Once with a pair after all these that is nearer.
    """
    measure = lru_cache(None)(rational.triangle_distance)
    monkeypatch.setattr(
        rational, "triangle_distance", lambda *pair: measure(*(tuple(map(tuple, t)) for t in pair))
    )
    count, gap = 23, 2.0**-70
    assert count**2 > CAPACITY
    angles = np.arange(count) * 2.0 * np.pi / count
    rim = np.stack([np.ones(count), np.cos(angles), np.sin(angles)], axis=1)
    v = np.concatenate([[[0.0, 0.0, 0.0]], rim])
    k = np.arange(count)
    f = np.stack([0 * k, 1 + k, 1 + (k + 1) % count], axis=1)
    w = v * [-1.0, 1.0, 1.0] - [gap, 0.0, 0.0]
    a, b = BVH.from_triangles(v, f), BVH.from_triangles(w, f)
    for limit, hint in ((np.inf, None), (gap, [7, 8]), (gap / 2, None)):
        found = a.distance_to(b, max_distance=limit, hint=hint)
        assert found.distance == (gap if limit >= gap else np.inf)
        assert found.prim_id.tolist() == ([0, 0] if limit >= gap else [-1, -1])
    nearer = np.array([[-gap / 2, 0.0, 0.0], [-1.0, 0.25, 0.0], [-1.0, 0.0, 0.25]])
    c = BVH.from_triangles(np.concatenate([w, nearer]), [*f, [count + 1, count + 2, count + 3]])
    found = a.distance_to(c)
    assert found.distance == gap / 2 and found.prim_id.tolist() == [0, count]
    # Each pair is measured once here, though all four answers need them.
    known = measure.cache_info()
    assert known.misses >= count**2 and known.hits > known.misses


def test_vertices_over_faces_at_any_scale() -> None:
    """Heights whose squares underflow, times those of normals; small faces far from large ones."""
    above = np.array([[0.0, 0.0, 1.0], [5.0, 5.0, 7.0], [5.0, 6.0, 7.0]])
    face = np.array([[-2.0, -2.0, 0.0], [4.0, -2.0, 0.0], [-2.0, 4.0, 0.0]])
    rows = np.arange(6).reshape(2, 3)
    for scale in 2.0 ** np.arange(-1000, 1000, 20):
        a = BVH.from_triangles(face * scale, rows[:1])
        b = BVH.from_triangles(np.concatenate([above, above * [1, 1, 2]]) * scale, rows)
        found = a.distance_to(b)
        assert found.distance == scale and found.prim_id.tolist() == [0, 0]
        assert b.distance_to(a, hint=[1, 0]).distance == scale
        if scale < 1.0:
            # The small face is at the large one's corner; a second one is at the distance 1.
            small = np.concatenate([face * scale + [0, 0, 1.0], face + [0, 0, 1.0 + 2.0**-30]])
            small[:3, 2] = 1.0
            found = BVH.from_triangles(small, rows).distance_to(a)
            assert found.distance == 1.0 and found.prim_id.tolist() == [0, 0]


@pytest.mark.parametrize("shape", [(), (1,), (2,), (3,), (0,), (2, 2)])
def test_tables(shape: tuple[int, ...]) -> None:
    """An array of clearances has one row each, with both positions and both faces."""
    tree, places = BVH.from_triangles(np.eye(3), [[0, 1, 2]]), np.zeros((*shape, 4, 4)) + np.eye(4)
    places[..., 2, 3] = np.arange(places[..., 0, 0].size).reshape(shape)
    found = tree.distance_to(tree, places)
    table = np.asarray(found)
    assert table.shape == shape and table.dtype.names == ("distance", "position", "prim_id")
    for name in table.dtype.names:
        assert np.array_equal(table[name], getattr(found, name))


def test_meshes_and_scenes() -> None:
    """The other of a pair is what scenes take: a tree, a mesh, or a scene, as it is flattened."""
    vertices, faces = grid_mesh(np.random.default_rng(3))
    tree = BVH.from_triangles(vertices, faces)
    lifted = np.eye(4)
    lifted[2, 3] = 2.0
    scene = bvh.Scene()
    scene.add(tree, lifted)
    wanted = tree.distance_to(tree, lifted).distance
    for other in (tree, (vertices, faces), trimesh.Trimesh(vertices, faces, process=False)):
        assert tree.distance_to(other, lifted).distance == wanted
    assert tree.distance_to(scene).distance == wanted
    boxes = BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]])
    for wrong, message in ((None, "^other must be"), ("a.stl", "^other must be"), (boxes, "boxes")):
        with pytest.raises(TypeError, match=message):
            tree.distance_to(wrong)
