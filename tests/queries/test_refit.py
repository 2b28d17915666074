"""Refit: trees over primitives that have moved are well-formed and answer like new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH
from bvh.queries.tree_base import TreeBase
from bvh.tree.arrays import TreeArrays
from bvh.tree.build import QUALITIES
from bvh.tree.refit import refitted
from tests.cases.soups import at_places, rays_at, same, soup
from tests.oracles import brute

Rng = np.random.Generator


def tree_of(arrays: TreeArrays, bounds: np.ndarray, quality: str = "medium") -> BVH:
    """Return a tree of arrays that were not built."""
    tree = object.__new__(BVH)
    tree._bounds, tree._quality, tree._build_seconds = bounds, quality, 0.0
    TreeBase._set_arrays(tree, arrays)
    tree._face_ids = None
    return tree


def moved(tree: BVH, points: Any, threads: int = 2) -> BVH:
    """Return a tree over triangles with its vertices moved."""
    return tree_of(*refitted(tree.arrays, np.asarray(points, np.float64), threads))


def needles(rng: Rng, n: int = 1_500) -> tuple[np.ndarray, np.ndarray]:
    """Return small triangles and long oblique ones, which builders split."""
    small, faces = soup(rng, n, 0.03)
    ends = rng.random((n // 8, 2, 3))
    long = np.concatenate([ends, ends[:, :1] + 1e-3 * rng.normal(size=(n // 8, 1, 3))], axis=1)
    more = np.arange(3 * len(long)).reshape(-1, 3)
    return np.concatenate([small, long.reshape(-1, 3)]), np.concatenate([faces, more + 3 * n])


def turn(points: np.ndarray) -> np.ndarray:
    """Return points turned round an oblique axis."""
    a, b = np.cos(2.0), np.sin(2.0)
    return points @ np.array([[a, -b, 0], [b, a, 0], [0, 0, 1]]) @ np.eye(3)[[1, 2, 0]]


MOVES: dict[str, Callable[[Rng, np.ndarray], np.ndarray]] = {
    "nothing": lambda rng, p: p,
    "noise": lambda rng, p: p + 0.1 * rng.normal(size=p.shape),
    "shuffled": lambda rng, p: rng.permutation(p),
    "turned": lambda rng, p: turn(p),
    "mirrored": lambda rng, p: -p,
    "larger": lambda rng, p: p * 1e6,
    "smaller": lambda rng, p: p * 1e-6,
    "flat": lambda rng, p: p * [1.0, 0.0, 1.0],
    "far": lambda rng, p: p + 1e12,
    "largest": lambda rng, p: (p - 0.5) * 1e308,
    "least": lambda rng, p: p * 1e-310,
    "a point": lambda rng, p: np.tile([3.0, -7.0, 0.1], (len(p), 1)),
    "two heaps": lambda rng, p: p + 1e9 * (np.arange(len(p)) // 3 % 2)[:, None],
}  # fmt: skip


def rays_of(tree: BVH, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Return rays through a tree's bounds, a third of them at vertices, some from very far."""
    with np.errstate(over="ignore", invalid="ignore"):
        o, d = rays_at(tree, rng)
        aims = tree.vertices[rng.integers(len(tree.vertices), size=len(o))]
        d[::3] = aims[::3] - o[::3]
        o[::50] -= 1e25 * d[::50]
    return o, d


def assert_answers(tree: BVH, fresh: BVH, rng: Rng) -> None:
    """Compare a refitted tree with its audit, a fresh tree and brute force."""
    tree.validate()
    assert tree.bounds.tobytes() == fresh.bounds.tobytes()
    assert tree.arrays.frame[:2].tobytes() == fresh.arrays.frame[:2].tobytes()
    assert tree.stats().ignored == fresh.stats().ignored
    rays = rays_of(fresh, rng)
    hits = tree.closest_hit(*rays)
    assert same(hits, fresh.closest_hit(*rays))
    assert np.array_equal(tree.any_hit(*rays), hits.mask)
    t, prim = brute.closest_hit(tree, *rays)
    assert (hits.t.tobytes(), hits.prim_id.tobytes()) == (t.tobytes(), prim.tobytes())
    for i in range(0, len(rays[0]), 20):
        assert tree.closest_hit(rays[0][i], rays[1][i]).prim_id == prim[i]


def moves_of_builders() -> list[Any]:
    """Return moves and builders, of which ordinary runs take one a move."""
    return [
        pytest.param(move, quality, marks=pytest.mark.long if (i + j) % len(QUALITIES) else ())
        for i, move in enumerate(MOVES)
        for j, quality in enumerate(QUALITIES)
    ]


@pytest.mark.parametrize("move, quality", moves_of_builders())
def test_moves(move: str, quality: str, rng: Rng) -> None:
    """A refitted tree answers like a fresh one, bit for bit, and can be refitted again."""
    points, faces = needles(rng)
    tree = BVH.from_triangles(points, faces, quality=quality)
    before = [array.tobytes() for array in (*tree.arrays.nodes, tree.arrays.groups)]
    new = MOVES[move](rng, points)
    other = moved(tree, new)
    assert_answers(other, BVH.from_triangles(new, faces, quality=quality), rng)
    assert_answers(moved(other, points), tree, rng)
    assert before == [array.tobytes() for array in (*tree.arrays.nodes, tree.arrays.groups)]
    assert not any(array.flags.writeable for array in (*other.arrays.nodes, other.arrays.groups))


@pytest.mark.parametrize("quality", QUALITIES)
def test_the_same_vertices_make_the_same_tree(quality: str, rng: Rng) -> None:
    """Nothing changes but boxes of triangles that were split; threads change nothing."""
    tree = BVH.from_triangles(*needles(rng, 30_000), quality=quality)
    one, three = (moved(tree, tree.vertices, threads).arrays for threads in (1, 3))
    for some, others in ((one, three), (one, tree.arrays)):
        if others is three or quality != "high":
            assert some.nodes.data.tobytes() == others.nodes.data.tobytes()
        assert some.nodes.ids.tobytes() == others.nodes.ids.tobytes()
        assert some.groups.tobytes() == others.groups.tobytes()
        assert some.frame.tobytes() == others.frame.tobytes()


@pytest.mark.parametrize("quality", QUALITIES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_triangles_that_are_not_finite_any_more(bad: float, quality: str, rng: Rng) -> None:
    """They miss, single or in whole branches of the tree, down to all of them."""
    places = rng.random((2_000, 3))
    points, faces = at_places(places, 0.1)
    tree = BVH.from_triangles(points, faces, quality=quality)
    near = np.repeat(np.linalg.norm(places - 0.5, axis=1), 3)
    for lost in (rng.random(len(points)) < 0.05, near < 0.4, near > 0.1):
        new = points + 0.01 * rng.normal(size=points.shape)
        new[lost, rng.integers(3)] = bad
        other = moved(tree, new)
        fresh = BVH.from_triangles(new, faces, quality=quality)
        assert 0 < fresh.stats().ignored < len(faces)
        o, d = rays_at(fresh, rng)
        other.validate()
        assert other.stats().ignored == fresh.stats().ignored
        assert same(other.closest_hit(o, d), fresh.closest_hit(o, d))
        # From so far that every node is entered, and every triangle is decided exactly.
        o, d = o[:40] - 1e25 * d[:40], d[:40]
        assert same(other.closest_hit(o, d), fresh.closest_hit(o, d))
        with pytest.raises(ValueError, match=r"vertices: primitive \d+ .* build a new tree"):
            moved(other, points)
    none = moved(tree, np.full(points.shape, bad))
    none.validate()
    assert np.isnan(none.bounds).all() and none.stats().ignored == len(faces)
    assert not none.any_hit(*rays_at(tree, rng)).any()


def test_triangles_that_were_not_finite(rng: Rng) -> None:
    """They may stay so; the tree has no place for them if they do not."""
    points, faces = soup(rng, 500)
    spoiled = points.copy()
    spoiled[7] = np.nan
    tree = BVH.from_triangles(spoiled, faces)
    moved(tree, 2.0 * spoiled).validate()
    with pytest.raises(ValueError, match=r"vertices: primitive 2 .* build a new tree"):
        moved(tree, points)


def test_shapes(rng: Rng) -> None:
    """Faces stay, so the number of vertices does."""
    tree = BVH.from_triangles(*soup(rng, 10))
    with pytest.raises(ValueError, match=r"vertices must have shape \(30, 3\), got \(29, 3\)"):
        moved(tree, np.zeros((29, 3)))
    for faces in (np.empty((0, 3), int), [[0, 1, 2]]):
        small = BVH.from_triangles(np.eye(3), faces)
        other = moved(small, 2.0 * np.eye(3))
        other.validate()
        assert other.closest_hit([1, 1, 1], [-1, -1, -1]).prim_id == len(faces) - 1


def test_solids(rng: Rng) -> None:
    """Boxes and oriented boxes move as well; whether they can be hit must not change."""
    lower = rng.random((1_000, 3))
    upper = lower + rng.uniform(0.01, 0.1, lower.shape)
    upper[5] = lower[5] - 1.0
    turns = np.tile(np.eye(4), (len(lower), 1, 1))
    shears = turns.copy()
    shears[:, :3] += 0.3 * rng.normal(size=(len(lower), 3, 4))
    o, d = rng.normal(size=(500, 3)) * 3.0, rng.normal(size=(500, 3))
    for make, args in ((BVH.from_boxes, [(), ()]), (BVH.from_obbs, [(turns,), (shears,)])):
        make_any: Any = make
        tree = make_any(lower, upper, *args[0])
        fresh = make_any(1e3 * lower, 1e3 * upper, *args[1])
        other = tree_of(*refitted(tree.arrays, fresh.arrays.primitives.points, 2))
        other.validate()
        assert other.stats().ignored == 1
        aims = rng.uniform(*fresh.bounds, d.shape)
        assert same(other.closest_hit(o, aims - o), fresh.closest_hit(o, aims - o))
        points = tree.arrays.primitives.points.copy()
        points[5, 3:6] = 9.0
        with pytest.raises(ValueError, match=r"boxes: primitive 5 could not be hit"):
            refitted(tree.arrays, points, 1)
        points[5:7, 3:6] = -9.0
        with pytest.raises(ValueError, match=r"boxes: primitive 6 cannot be hit any more"):
            refitted(tree.arrays, points, 1)


def test_a_refitted_tree_is_held_like_any_other(rng: Rng) -> None:
    """Its arrays serve every query: single rays, and the caster."""
    points, faces = soup(rng, 300)
    new = points[:, [2, 0, 1]] * 5.0
    tree = moved(BVH.from_triangles(points, faces), new)
    o, d = rays_at(tree, rng, 50)
    hits = tree.closest_hit(o, d)
    cast = tree.caster()
    for i in range(50):
        assert cast(*o[i], *d[i])[1] == hits.prim_id[i]
        if hits.mask[i]:
            corners = new[faces[hits.prim_id[i]]]
            assert bvh.ray_triangle(o[i], d[i], *corners).t == hits.t[i]
