"""Trees that follow their vertices: every query on them is as exact as on new ones."""

from __future__ import annotations

import gc
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH
from bvh.tree.build import QUALITIES
from bvh.tree.changes import changes
from tests.cases.soups import rays_at, same, soup
from tests.oracles import brute
from tests.oracles.top_level import assert_true

Rng = np.random.Generator


def assert_like_new(tree: BVH, rng: Rng, n: int = 200) -> None:
    """Audit a tree; compare it with brute force and with a new one."""
    tree.validate()
    fresh = BVH.from_triangles(tree.vertices, tree.faces)
    assert tree.bounds.tobytes() == fresh.bounds.tobytes()
    assert tree.stats().ignored == fresh.stats().ignored
    if np.isnan(tree.bounds).any():
        assert not tree.any_hit(rng.normal(size=(n, 3)), rng.normal(size=(n, 3))).any()
        return
    o, d = rays_at(fresh, rng, n)
    hits = tree.closest_hit(o, d)
    t, prim = brute.closest_hit(tree, o, d)
    assert (hits.t.tobytes(), hits.prim_id.tobytes()) == (t.tobytes(), prim.tobytes())
    assert same(hits, fresh.closest_hit(o, d))
    assert np.array_equal(tree.any_hit(o, d), hits.mask)
    for i in range(0, n, 20):
        assert tree.closest_hit(o[i], d[i]).prim_id == prim[i]


@pytest.mark.parametrize("quality", QUALITIES)
def test_a_hundred_frames(quality: str, rng: Rng) -> None:
    """A surface that waves and drifts, until nothing is where it was."""
    points, faces = soup(rng, 1_200, 0.05)
    tree = BVH.from_triangles(points, faces, quality=quality)
    arrays, notes, ratios = tree.arrays, changes.trees, []
    for frame in range(100):
        time = 0.05 * frame
        new = points + 0.2 * np.sin(7.0 * points[:, [1, 2, 0]] + time) + 0.3 * time
        ratios.append(tree.refit(new, threads=1 + frame % 2))
        assert tree.arrays is not arrays and changes.trees != notes
        assert tree.vertices.tobytes() == new.tobytes()
        arrays, notes = tree.arrays, changes.trees
        if frame % 10 == 9:
            assert_like_new(tree, rng)
            assert not any(array.flags.writeable for array in (*arrays.nodes, arrays.groups))
    assert_true(tree, *rays_at(tree, rng, 3))
    assert all(0.3 < ratio < 10.0 for ratio in ratios)
    assert tree.refit(points) == pytest.approx(1.0, abs=0.2 if quality == "high" else 1e-12)


def test_the_ratio(rng: Rng) -> None:
    """It is that of the costs that `stats` tells, and grows as neighbours part."""
    points, faces = soup(rng, 3_000, 0.02)
    tree = BVH.from_triangles(points, faces)
    before = tree.stats().sah_cost
    mixed = rng.permutation(points.reshape(-1, 9)).reshape(-1, 3)
    ratio = tree.refit(mixed)
    assert ratio == pytest.approx(tree.stats().sah_cost / before, rel=1e-5) and ratio > 5.0
    assert tree.refit(2.0 * points + 1.0) == pytest.approx(1.0, rel=1e-3)
    assert BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), int)).refit([]) == 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("quality", QUALITIES)
def test_vertices_that_come_back(quality: str, bad: float, rng: Rng) -> None:
    """Faces leave with a vertex that is not finite, and are there again with it."""
    points, faces = soup(rng, 1_000, 0.1)
    tree = BVH.from_triangles(points, faces, quality=quality)
    for share in (0.01, 0.5, 1.0, 0.999, 0.0):
        new = points + 0.01 * rng.normal(size=points.shape)
        lost = np.repeat(rng.random(len(faces)) < share, 3)
        new[lost, rng.integers(3)] = bad
        tree.refit(new)
        assert tree.stats().ignored == lost.sum() // 3
        assert_like_new(tree, rng)
    rotten = points.copy()
    rotten[4] = bad
    tree = BVH.from_triangles(rotten, faces, quality=quality)
    tree.refit(2.0 * rotten)
    before = tree.arrays
    with pytest.raises(ValueError, match=r"vertices: primitive 1 could not be hit before"):
        tree.refit(points)
    assert tree.arrays is before
    assert_like_new(tree, rng)


def test_solids(rng: Rng) -> None:
    """Boxes and oriented boxes are given as they were made."""
    lower = rng.random((500, 3))
    upper, turns = lower + 0.05, np.tile(np.eye(4), (500, 1, 1))
    turns[:, :3] += 0.2 * rng.normal(size=(500, 3, 4))
    o, d = 3.0 * rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    pairs: list[tuple[BVH, BVH, tuple[Any, ...]]] = [
        (BVH.from_boxes(lower, upper), BVH.from_boxes(2 * lower, 3 * upper), ()),
        (
            BVH.from_obbs(lower, upper, np.tile(np.eye(4), (500, 1, 1))),
            BVH.from_obbs(2 * lower, 3 * upper, turns),
            (turns,),
        ),
    ]
    for tree, fresh, more in pairs:
        tree.refit(2 * lower, 3 * upper, *more)
        tree.validate()
        aims = rng.uniform(*fresh.bounds, d.shape)
        assert same(tree.closest_hit(o, aims - o), fresh.closest_hit(o, aims - o))
        assert tree.bounds.tobytes() == fresh.bounds.tobytes()
        with pytest.raises(TypeError, match="needs upper to refit"):
            tree.refit(lower)
        with pytest.raises(ValueError, match=r"upper must have shape \(500, 3\)"):
            tree.refit(lower, upper[1:], *more)
        with pytest.raises(ValueError, match="primitive 3 cannot be hit any more"):
            tree.refit(lower, np.where(np.arange(500)[:, None] == 3, -9.0, upper), *more)
    with pytest.raises(TypeError, match="needs no transforms to refit"):
        pairs[0][0].refit(lower, upper, turns)
    with pytest.raises(ValueError, match=r"transforms must have shape \(500, 4, 4\)"):
        pairs[1][0].refit(lower, upper, turns[1:])


def test_an_interrupted_refit_changes_nothing(rng: Rng) -> None:
    points, faces = soup(rng, 10)
    tree = BVH.from_triangles(points, faces)
    arrays = tree.arrays

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tree.refit(points, progress=interrupt)
    assert tree.arrays is arrays


def test_what_was_made_of_the_tree_before(rng: Rng) -> None:
    """Casters go on with the tree that they were made of, whatever becomes of it."""
    points, faces = soup(rng, 400)
    tree = BVH.from_triangles(points, faces)
    o, d = rays_at(tree, rng, 30)
    frames = [points, points[:, [1, 2, 0]] * 1.5, points * 0.7, points[:, [2, 1, 0]]]
    casters, answers = [], []
    for k, frame in enumerate(frames):
        if k:
            tree.refit(frame)
        casters.append(tree.caster())
        answers.append(tree.closest_hit(o, d))
    del tree
    gc.collect()
    for cast, hits in zip(casters, answers, strict=True):
        found = [cast(*o[i], *d[i]) for i in range(30)]
        assert [hit[:2] for hit in found] == list(zip(hits.t, hits.prim_id, strict=True))


def test_points_and_pairs(rng: Rng) -> None:
    """Queries that are no rays see the tree as it is, what they keep of it included."""
    points, faces = soup(rng, 300)
    tree = BVH.from_triangles(points, faces)
    q = rng.random((50, 3))
    for new in (points, points[:, [1, 2, 0]] * 2.0, points):
        tree.refit(new)
        fresh = BVH.from_triangles(new, faces)
        assert np.array_equal(tree.distance(q), fresh.distance(q))
        assert np.allclose(tree.winding_number(q), fresh.winding_number(q), atol=0.02)
        assert np.array_equal(tree.count_hits(q, q - 0.5), fresh.count_hits(q, q - 0.5))
        assert np.array_equal(
            tree.overlap_box(q[0], q[0] + 0.3), fresh.overlap_box(q[0], q[0] + 0.3)
        )


def test_copies_and_files(tmp_path: Path, rng: Rng) -> None:
    """A refitted tree can be pickled, saved, mapped, and refitted again where it comes to."""
    points, faces = soup(rng, 500)
    tree = BVH.from_triangles(points, faces)
    new = points + 0.1 * rng.normal(size=points.shape)
    new[30] = np.nan
    tree.refit(new)
    o, d = rays_at(tree, rng, 100)
    hits = tree.closest_hit(o, d)
    tree.save(tmp_path / "tree.bvh")
    copies = [pickle.loads(pickle.dumps(tree))]
    copies += [bvh.load(tmp_path / "tree.bvh", mmap=mmap, audit=True) for mmap in (False, True)]
    for copy in copies:
        assert same(copy.closest_hit(o, d), hits)
        assert copy.refit(new) == 1.0
        copy.refit(2.0 * new)
        assert_like_new(copy, rng)
    assert same(tree.closest_hit(o, d), hits)


@pytest.mark.unaudited
def test_queries_under_way(rng: Rng) -> None:
    """Every answer in other threads is that of some frame, single rays and batches alike."""
    points, faces = soup(rng, 2_000, 0.3)
    frames = [points, points[:, [1, 2, 0]], 0.5 * points, points[:, [2, 0, 1]]]
    trees = [BVH.from_triangles(frame, faces) for frame in frames]
    o, d = rays_at(trees[0], rng, 500)
    answers = [t.closest_hit(o, d) for t in trees]
    wholes = {hits.t.tobytes() for hits in answers}
    tree = BVH.from_triangles(points, faces)
    stop, wrong, asked = threading.Event(), [], [0, 0]

    def ask_batches() -> None:
        while not stop.is_set():
            asked[0] += 1
            if tree.closest_hit(o, d, threads=1).t.tobytes() not in wholes:
                wrong.append("a batch")

    def answer_rays() -> None:
        while not stop.is_set():
            i = asked[1] % 500
            asked[1] += 1
            if tree.closest_hit(o[i], d[i]).t not in [hits.t[i] for hits in answers]:
                wrong.append(f"ray {i}")

    threads = [threading.Thread(target=ask) for ask in (ask_batches, answer_rays, answer_rays)]
    for thread in threads:
        thread.start()
    try:
        for k in range(150):
            tree.refit(frames[k % 4], threads=1 + k % 2)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong and min(asked) > 0
    assert same(tree.closest_hit(o, d), answers[149 % 4])
