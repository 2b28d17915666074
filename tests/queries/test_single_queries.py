"""Queries of one ray or point: they take a short way, and get what batches of one get."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.queries.batches import quick_calls, scratch
from bvh.queries.methods import point_queries, ray_queries
from bvh.traversal.points.closest_point import closest_points
from bvh.traversal.rays.every_hit.all_hits import gather_hits
from tests.queries.test_small_batches import targets

SEED = 11
TARGETS = targets()
MESHES = ("triangles", "split", "scene of meshes", "empty")
RANGES = (
    (0.0, np.inf), (0.25, 1.5), (-np.inf, np.inf), (np.nan, 1.0), (1.0, 0.5), (0.0, np.nan),
)  # fmt: skip

RAY_QUERIES = ("all_hits", "count_hits")
POINT_QUERIES: dict[str, dict[str, Any]] = {
    "closest_point": {}, "distance": {}, "one": {"k": 1}, "three": {"k": 3},
}  # fmt: skip


def _more_targets() -> None:
    rng = np.random.default_rng(SEED)
    mesh = TARGETS["triangles"]
    TARGETS["split"] = bvh.BVH.from_triangles(mesh.vertices, mesh.faces, quality="high")
    scene = TARGETS["scene of meshes"] = bvh.Scene()
    for i in range(5):
        pose = np.eye(4)
        pose[:3] += rng.normal(size=(3, 4)) * (i % 3)
        scene.add(mesh, pose)


_more_targets()


def rows(rng: Any) -> list[list[float]]:
    """Return coordinates, usual ones and hostile ones."""
    corners = TARGETS["triangles"].vertices
    special = [0.0, -0.0, 1e-310, 1e300, -1e308, 1e17, np.inf, -np.inf, np.nan]
    mixed = np.where(rng.random((40, 3)) < 0.5, rng.choice(special, (40, 3)), rng.normal(size=3))
    return [*rng.normal(size=(40, 3)).tolist(), *mixed.tolist(), *corners[:10].tolist()]


def same(one: Any, other: Any) -> None:
    """Check that two answers are the same, bit for bit, and of the same kinds."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert one.flags.writeable == other.flags.writeable
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, float):
        assert np.float64(one).tobytes() == np.float64(other).tobytes()
    elif isinstance(one, int | tuple):
        assert one == other
    else:
        # What hits are of is kept in different forms, and is the same where positions are, which
        # are found with normals.
        found = {"position", "_unread"}
        assert set(vars(one)) - found == set(vars(other)) - found
        names = {*vars(one), *({"position"} if "_source" in vars(one) else ())}
        for name in names - {"_source", "_unread"}:
            same(getattr(one, name), getattr(other, name))


def ask(target: Any, query: str, *args: Any, **options: Any) -> Any:
    """Return the answer of a query of points, by its name here."""
    method = getattr(target, "distance" if query == "distance" else "closest_point")
    return method(*args, **POINT_QUERIES[query], **options)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list, which the short ways append their answers to."""
    answers: list[Any] = []

    def heard(way: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            answers.append(way(*args))
            return answers[-1]

        return call

    for name in (*RAY_QUERIES, *list(POINT_QUERIES)[:2]):
        monkeypatch.setattr(quick_calls, name, heard(getattr(quick_calls, name)))
    assert ray_queries.quick_calls is point_queries.quick_calls is quick_calls
    return answers


@pytest.mark.answers
@pytest.mark.parametrize("edges", ["closed", "once"])
@pytest.mark.parametrize("name", TARGETS)
def test_one_ray_gets_what_a_batch_gets(name: str, edges: str, answered: list[Any]) -> None:
    target, rng = TARGETS[name], np.random.default_rng(SEED)
    origins, directions = rows(rng), rows(rng)[::-1]
    for query in RAY_QUERIES:
        method = getattr(target, query)
        # The first may load the kernel.
        method(origins[0], directions[0])
        answered.clear()
        for i, (o, d) in enumerate(zip(origins, directions, strict=True)):
            # `threads` alone leads the other way.
            limits = RANGES[i % len(RANGES)]
            wanted = method(o, d, *limits, edges=edges, threads=1)
            same(method(o, d, *limits, edges=edges), wanted)
            same(method(np.array(o), np.array(d), *limits, edges=edges), wanted)
            same(method(tuple(o), d, *limits, edges=edges), wanted)
        assert len(answered) == 3 * len(origins)
        assert [one is None for one in answered] == [name.startswith("empty")] * len(answered)


@pytest.mark.answers
@pytest.mark.parametrize("name", MESHES)
@pytest.mark.parametrize("query", POINT_QUERIES)
def test_one_point_gets_what_a_batch_gets(name: str, query: str, answered: list[Any]) -> None:
    target, rng = TARGETS[name], np.random.default_rng(SEED)
    points, limits = rows(rng), (np.inf, 0.5, 0.0, 1e308)
    ask(target, query, points[0])
    answered.clear()
    for i, point in enumerate(points):
        limit = limits[i % len(limits)]
        wanted = ask(target, query, point, limit, threads=1)
        same(ask(target, query, point, limit), wanted)
        same(ask(target, query, np.array(point), limit), wanted)
        same(ask(target, query, tuple(point), limit), wanted)
    assert len(answered) == 3 * len(points) and None not in answered
    for limit in (-1.0, -np.inf, np.nan):
        with pytest.raises(ValueError, match="max_distance must be a number of at least 0, got"):
            ask(target, query, points[0], limit)


def test_other_numbers_are_the_same_numbers() -> None:
    mesh = TARGETS["triangles"]

    class Own(np.ndarray):
        """An array of another class."""

    point, up = [1, -2, 0], [0, 0, 1]
    wanted, hits = mesh.closest_point(point, threads=1), mesh.all_hits(point, up, threads=1)
    exact = np.array(point, float)
    for kind in (np.float32, np.int64, np.float64, float, np.int8, np.float16):
        for three in (np.array(point, kind), [kind(x) for x in point], exact.view(Own)):
            same(mesh.closest_point(three), wanted)
            same(mesh.distance(three), wanted.distance)
            same(mesh.all_hits(three, up), hits)
            assert mesh.count_hits(three, up, edges="closed") == len(hits)
    strided = np.repeat(exact, 2)[::2]
    same(mesh.closest_point(strided), wanted)
    same(mesh.closest_point(exact.astype(">f8")), wanted)
    same(mesh.closest_point(point, 100), mesh.closest_point(point, 100.0, threads=1))
    assert exact.tolist() == point


def test_what_must_be_checked_is() -> None:
    mesh, boxes = TARGETS["triangles"], TARGETS["boxes"]
    up = (0.0, 0.0, 1.0)
    errors = (
        ("abc", "real numbers"), ((1.0, 2.0), "shape"), (("1", 2.0, 3.0), "real numbers"),
        ((1.0, 2.0, 3j), "real numbers"), (None, "None"), (np.ma.array(up), "masked"),
        ({1.0, 2.0, 3.0}, "real numbers"), ({1.0: 0, 2.0: 0, 3.0: 0}, "real numbers"),
    )  # fmt: skip
    for point, message in errors:
        for query in POINT_QUERIES:
            with pytest.raises((TypeError, ValueError), match=f"points must.*{message}"):
                ask(mesh, query, point)
    for query in POINT_QUERIES:
        with pytest.raises(TypeError, match="needs a BVH over triangles"):
            ask(boxes, query, up)
        with pytest.raises(TypeError, match="needs instances over triangles"):
            ask(TARGETS["scene"], query, up)
    for count in (0, True, 1.0):
        with pytest.raises((TypeError, ValueError), match="k must be"):
            mesh.closest_point(up, k=count)
    for query in RAY_QUERIES:
        with pytest.raises(ValueError, match="edges"):
            getattr(mesh, query)(up, up, edges="open")
        with pytest.raises(ValueError, match="directions"):
            getattr(mesh, query)(up, (0.0, 1.0))
        with pytest.raises(ValueError, match="not finite"):
            getattr(mesh, query)((np.nan, 0.0, 0.0), up, validate_rays=True)
    for three in ({1.0, 2.0, 3.0}, dict.fromkeys((1.0, 2.0, 3.0)), {1.0: 1.0, 2.0: 2.0}.keys()):
        for query in ("closest_hit", "any_hit", *RAY_QUERIES):
            with pytest.raises((TypeError, ValueError), match="directions"):
                getattr(mesh, query)(up, three)
    for three in (b"abc", np.ma.array(up)):
        for query in ("closest_hit", "any_hit", *RAY_QUERIES):
            with pytest.raises(TypeError, match="origins must"):
                getattr(mesh, query)(three, three)
    assert mesh.closest_point(up, k=100).distance.shape == (100,)
    assert mesh.closest_point([up]).distance.shape == (1,)


class Table:
    """Three rows, as tables have them: their items are the names of columns."""

    ndim = 2

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Any:
        return iter(range(3))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.rows)


def test_a_table_is_no_single_ray() -> None:
    rays = np.random.default_rng(SEED).normal(size=(2, 3, 3))
    for target in (TARGETS["triangles"], TARGETS["scene of meshes"]):
        for query in ("closest_hit", "any_hit", *RAY_QUERIES):
            same(getattr(target, query)(*map(Table, rays)), getattr(target, query)(*rays))


def test_there_may_be_many_hits(answered: list[Any]) -> None:
    """More than there is memory for at first."""
    count, far = scratch.FIRST_CAPACITY + 1, 10.0
    layers = np.zeros((count, 3, 3))
    layers[:, 1, 0] = layers[:, 2, 1] = 4.0
    layers[:, :, 2] = np.arange(count)[:, None]
    tall = bvh.BVH.from_triangles(layers.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))
    ray = (1.0, 1.0, -far), (0.0, 0.0, 1.0)
    tall.all_hits(*ray, 0.0, 1.0)
    answered.clear()
    for _ in range(2):
        assert len(tall.all_hits(*ray)) == tall.count_hits(*ray) == count
        assert len(tall.all_hits(*ray, 0.0, far + count - 2)) == count - 1
    assert [one is None for one in answered] == [True, False, False] * 2


def test_kernels_are_those_of_batches() -> None:
    """Whichever are first: each is compiled once for a kind of trees."""
    mesh, up = TARGETS["triangles"], (0.1, 0.2, 1.0)
    same(mesh.closest_point(up), mesh.closest_point(up, threads=1))
    same(mesh.all_hits(up, up), mesh.all_hits(up, up, threads=1))
    for kernel, kinds in (gather_hits, "TriangleRow.*AllGoal"), (closest_points, ".*TriangleRow"):
        found = [s.structure for s in kernel.specialisations if re.match(kinds, s.structure)]
        assert len(found) == 1, found


def test_answers_are_nobody_elses() -> None:
    """What is returned keeps its values when others are asked, and can be written to."""
    mesh, rng = TARGETS["scene of meshes"], np.random.default_rng(SEED)
    points = rng.normal(size=(20, 3))
    near = [mesh.closest_point(point) for point in points]
    rows_near = [mesh.closest_point(point, k=2) for point in points]
    hits = [mesh.all_hits(point, -point) for point in points]
    for i, point in enumerate(points):
        same(near[i], mesh.closest_point(point, threads=1))
        same(rows_near[i], mesh.closest_point(point, k=2, threads=1))
        same(hits[i], mesh.all_hits(point, -point, threads=1))
        assert hits[i].t.base is None and hits[i].prim_id.base is None
        near[i].position[:] = 7.0


@pytest.mark.parametrize("quality", ["medium", "high"])
def test_what_is_searched_may_change(quality: str) -> None:
    mesh = TARGETS["triangles"]
    tree = bvh.BVH.from_triangles(mesh.vertices, mesh.faces, quality=quality)
    inner, scene = bvh.Scene(), bvh.Scene()
    number = inner.add(tree)
    scene.add(inner)
    other = scene.add(tree)
    rng = np.random.default_rng(SEED)

    def check() -> None:
        for target in (tree, inner, scene):
            for point in rng.normal(size=(5, 3)):
                for query in POINT_QUERIES:
                    same(ask(target, query, point), ask(target, query, point, threads=1))
                for query in RAY_QUERIES:
                    method = getattr(target, query)
                    same(method(point, -point), method(point, -point, threads=1))
        for query in POINT_QUERIES:
            same(ask(scene, query, point), ask(pickle.loads(pickle.dumps(scene)), query, point))

    check()
    for _ in range(3):
        pose = np.eye(4)
        pose[:3] += rng.normal(size=(3, 4)) * 0.3
        inner.set_transform(number, pose)
        check()
        tree.refit(mesh.vertices + rng.normal(size=mesh.vertices.shape))
        check()
        scene.set_visible(other, False)
        check()
        scene.set_visible(other, True)
        scene.add(tree, pose)
        check()
    scene.add(TARGETS["boxes"])
    with pytest.raises(TypeError, match="needs instances over triangles"):
        scene.distance((0.0, 0.0, 0.0))
    same(scene.count_hits((0.0, 0.0, 9.0), (0.0, 0.1, -1.0), edges="closed"),
         len(scene.all_hits((0.0, 0.0, 9.0), (0.0, 0.1, -1.0), threads=1)))  # fmt: skip


def _differing(name: str, seed: int) -> int:
    """Return how many single answers are not those of a batch."""
    target, rng = TARGETS[name], np.random.default_rng(seed)
    points, directions = rng.normal(size=(2, 200, 3))
    near, hits = target.closest_point(points), target.all_hits(points, directions)
    wrong = 0
    for i in range(len(points)):
        one, own = target.closest_point(points[i]), target.all_hits(points[i], directions[i])
        wrong += one.distance != near.distance[i] or one.prim_id != near.prim_id[i]
        wrong += not np.array_equal(one.position, near.position[i])
        wrong += target.distance(points[i]) != near.distance[i]
        begin, end = hits.offsets[i : i + 2]
        wrong += not np.array_equal(own.t, hits.t[begin:end])
        wrong += not np.array_equal(own.prim_id, hits.prim_id[begin:end])
        wrong += target.count_hits(points[i], directions[i], edges="closed") != end - begin
    return wrong


def test_many_threads_may_ask() -> None:
    with ThreadPoolExecutor(8) as threads:
        names = ["triangles", "scene of meshes"] * 8
        assert set(threads.map(_differing, names, range(16))) == {0}


def test_a_tree_may_be_refitted_meanwhile() -> None:
    """Each answer is that of the tree before or after."""
    mesh, up = TARGETS["triangles"], np.array([0.0, 0.0, 100.0])
    tree = bvh.BVH.from_triangles(mesh.vertices, mesh.faces)
    point, ray = (0.1, 0.2, 0.3), ((0.1, 0.2, -1e3), (0.0, 0.0, 1.0))
    known, counts, done = set(), set(), []
    for shift in (0.0 * up, up):
        tree.refit(mesh.vertices + shift)
        known.add(tree.distance(point))
        counts.add(tuple(tree.all_hits(*ray).t))

    def hammer() -> tuple[set[Any], set[Any]]:
        distances, lists = set(), set()
        while not done:
            distances.add(tree.distance(point))
            lists.add(tuple(tree.all_hits(*ray).t))
        return distances, lists

    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(hammer) for _ in range(4)]
        for i in range(60):
            tree.refit(mesh.vertices + up * (i % 2))
        done.append(None)
        for future in futures:
            distances, lists = future.result()
            assert distances <= known and lists <= counts


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_may_ask() -> None:
    _differing("triangles", 1), _differing("scene of meshes", 1)
    child = os.fork()
    if child == 0:
        try:
            wrong = _differing("triangles", 2) + _differing("scene of meshes", 3)
        except BaseException:
            wrong = 1
        os._exit(min(wrong, 1))
    assert os.waitpid(child, 0)[1] == 0
