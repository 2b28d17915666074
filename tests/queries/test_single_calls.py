"""Single rays, pairs and points as Python's objects, which are read where they are in memory."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import pickle
import sys
import sysconfig
import weakref
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.queries.batches import point_batches, ray_batches
from bvh.queries.methods import sight_queries
from bvh.runtime.calls import python_calls
from meshes.sphere import geodesic_sphere
from tests.queries.test_single_queries import RANGES, TARGETS, rows, same

SEED = 3
Point = namedtuple("Point", "x y z")
UP = (0.0, 0.0, 1.0)


class Own(tuple):  # type: ignore[type-arg]
    """A tuple of another class."""

    __slots__ = ()


def forms(row: list[float]) -> list[Any]:
    """Return one point in all forms that a point may have."""
    exact = np.array(row)
    wide, shifted = np.repeat(exact, 2)[::2], np.empty(25, np.uint8)[1:].view(np.float64)
    shifted[:] = exact
    fixed = exact.copy()
    fixed.flags.writeable = False
    return [
        tuple(row), row, exact, exact[::-1].copy()[::-1], wide, shifted, fixed, Point(*row),
        Own(row), exact.astype(">f8"), tuple(exact), list(exact),
    ]  # fmt: skip


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects have their parts where methods do not expect them."""
    # Batches come first: kernels that a process calls then for the first time are called by Numba,
    # which compiles them again.
    for target in TARGETS.values():
        rays = np.zeros((2, 3)), np.ones((2, 3))
        for ask in (target.closest_hit, target.any_hit, target.visible, target.contains):
            with contextlib.suppress(TypeError):
                ask(*(rays[:1] if ask == target.contains else rays), threads=1)
    monkeypatch.setattr(python_calls, "known_types", lambda: [0] * 6)


def fresh(name: str) -> Any:
    """Return a copy of a target that has cast no ray."""
    return pickle.loads(pickle.dumps(TARGETS[name]))


@pytest.mark.answers
@pytest.mark.parametrize("name", TARGETS)
def test_a_ray_of_any_objects(name: str) -> None:
    target, rng = TARGETS[name], np.random.default_rng(SEED)
    for i, (o, d) in enumerate(zip(rows(rng)[::4], rows(rng)[::-4], strict=True)):
        limits = RANGES[i % len(RANGES)]
        wanted = target.closest_hit(o, d, *limits, threads=1)
        blocked = target.any_hit(o, d, *limits, threads=1)
        assert target.caster()(*o, *d, *limits)[:2] == (wanted.t, wanted.prim_id)
        for origin, direction in zip(forms(o), forms(d)[::-1], strict=True):
            same(target.closest_hit(origin, direction, *limits), wanted)
            assert target.any_hit(origin, direction, *limits) is blocked
        same(target.closest_hit(tuple(o), tuple(d), *map(np.float64, limits)), wanted)


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("name", ["triangles", "boxes", "scene"])
def test_where_objects_cannot_be_read(name: str) -> None:
    known, target, rng = TARGETS[name], fresh(name), np.random.default_rng(SEED)
    for p, q in rng.normal(size=(20, 2, 3)):
        same(target.closest_hit(p, q), known.closest_hit(p, q, threads=1))
        assert target.any_hit(tuple(p), q) is known.any_hit(p, q, threads=1)
        assert target.visible(p, q) is known.visible(p, q, threads=1)
        if name == "triangles":
            assert target.contains(p) is known.contains(p, threads=1)


def test_types_are_known() -> None:
    """On every Python that this is tested on."""
    assert all(python_calls.known_types()) == (not sysconfig.get_config_var("Py_GIL_DISABLED"))


def test_what_no_ray_is() -> None:
    tree = TARGETS["triangles"]
    three = [1.0, 2.0, 3.0]
    for wrong in (
        (1.0, 2.0),
        [1.0] * 4,
        np.zeros(2),
        np.zeros((2, 3))[None, :, :2],
        "abc",
        None,
        1.0,
        {},
    ):
        for ask in (tree.closest_hit, tree.any_hit):
            with pytest.raises((TypeError, ValueError), match="origins must"):
                ask(wrong, three)
            with pytest.raises((TypeError, ValueError), match="directions must"):
                ask(three, wrong)
    for limits in (("0", 1.0), (0.0, None), (0.0, 1j), (True, 1.0)):
        with pytest.raises((TypeError, ValueError), match="t_m"):
            tree.closest_hit(three, three, *limits)
    with pytest.raises(TypeError):
        tree.closest_hit(three)


@pytest.mark.parametrize("name", ["triangles", "scene of meshes"])
def test_arguments_of_casters(name: str) -> None:
    cast = TARGETS[name].caster()
    six = dict(zip(("ox", "oy", "oz", "dx", "dy", "dz"), (0.1, 0.2, -9.0, *UP), strict=True))
    wanted = cast(*six.values())
    assert wanted[1] >= 0 and wanted == cast(**six) == cast(0.1, 0.2, **dict([*six.items()][2:]))
    t = wanted[0]
    assert wanted == cast(*six.values(), 0.0, t) == cast(*six.values(), t_max=t, t_min=t)
    assert cast(*six.values(), t_max=float(np.nextafter(t, 0.0)))[1] != wanted[1]
    assert wanted == cast(*map(np.float64, six.values())) and cast(0, 0, 0, 0, 0, 0)[1] == -1
    # Names that are no constants of a program.
    assert wanted == cast(**{"".join(list(name)): value for name, value in six.items()})
    for given, named in (
        ((), {}), ((1.0,) * 4, {}), ((1.0,) * 5, {}), ((1.0,) * 9, {}), ((1.0,) * 70, {}),
        ((1.0,) * 6, {"ox": 1.0}), ((1.0,) * 5, {"t_max": 1.0}), ((1.0,) * 6, {"far": 1.0}),
        (("x",) * 6, {}), ((None,) * 6, {}), ((1.0,) * 6, {"t_max": "x"}), ((UP, UP), {}),
        ((UP, UP, 0.0, 1.0), {}), ((1j,) * 6, {}),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            cast(*given, **named)
    with pytest.raises(OverflowError):
        cast(10**400, 0, 0, 0, 0, 1)

    class Failing:
        def __float__(self) -> float:
            raise LookupError("no number")

    with pytest.raises(LookupError, match="no number"):
        cast(0.0, 0.0, 0.0, 0.0, 0.0, Failing())


def test_hits_are_as_others() -> None:
    tree = TARGETS["triangles"]
    hit = tree.closest_hit((0.1, 0.2, -9.0), UP)
    other = tree.closest_hit([0.1, 0.2, -9.0], UP, threads=1)
    assert type(hit) is bvh.Hits and [*vars(hit)] == [*vars(other)] and hit.mask is True
    assert hit != other and hash(hit) != hash(other)
    copied = pickle.loads(pickle.dumps(hit))
    assert [*vars(copied)] == ["t", "prim_id", "u", "v", "front"] and repr(copied) == repr(hit)
    fields = [field.name for field in dataclasses.fields(hit)]
    assert dataclasses.replace(hit, t=1.0).t == 1.0 and fields[:5] == [*vars(copied)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        hit.t = 1.0  # type: ignore[misc]
    assert np.array_equal(hit.position, other.position)
    assert np.array_equal(hit.normal, other.normal) and "position" in vars(hit)
    assert gc.is_tracked(hit) and weakref.ref(hit)() is hit


def ask_all(tree: Any, cast: Any, array: Any) -> None:
    """Ask with all results and all errors that methods have."""
    o, far = (0.1, 0.2, -9.0), (9.0, 9.0, 9.0)
    tree.closest_hit(o, UP), tree.closest_hit(array, list(UP)), tree.closest_hit(far, UP)
    tree.any_hit(o, UP), tree.any_hit(far, array), cast(*o, *UP), cast(*far, *UP, t_max=1.0)
    tree._quick.cast(o, (1, 2, 3), 0.0, 1.0)
    for wrong in ((), ("x",) * 6):
        with pytest.raises(TypeError):
            cast(*wrong)


def test_references_are_counted() -> None:
    tree, array = fresh("triangles"), np.array([0.1, 0.2, -9.0])
    cast, hit = tree.caster(), tree.closest_hit(array, UP)
    held = [None, bvh.Hits, vars(hit)["_source"], UP, array, array.dtype, "prim_id", tree._quick]
    ask_all(tree, cast, array)
    # Arrays in cycles of earlier tests refer to the type, too, until they are collected.
    gc.collect()
    before = [sys.getrefcount(thing) for thing in held]
    for _ in range(500):
        ask_all(tree, cast, array)
    after = [sys.getrefcount(thing) for thing in held]
    assert all(abs(a - b) < 100 for a, b in zip(before, after, strict=True))
    # The function keeps the arrays, and nothing else keeps them.
    nodes = weakref.ref(tree.arrays.nodes.data)
    del tree, hit, held
    assert nodes() is not None and cast(*array, *UP)[1] >= 0
    del cast
    assert nodes() is None


def hostile(rng: Any) -> Any:
    """Return points, usual ones, hostile ones, and some of a sphere of three holes' surface."""
    corners, faces = geodesic_sphere(3)
    beyond = [[np.nan, 0, 0], [np.inf, 0, 0], [1e308, -1e308, 0], [0, 0, 0], [0, 0, 1e-310]]
    middle = corners[faces].mean(axis=1)
    edges = corners[faces[:, :2]].mean(axis=1)
    parts = [rng.normal(size=(100, 3)) * 0.7, corners, middle[:40], edges[:40], beyond]
    return np.vstack([*parts, rng.normal(size=(5, 3)) * 1e200])


@pytest.mark.answers
@pytest.mark.parametrize("quality", ["medium", "high"])
@pytest.mark.parametrize("in_scene", [False, True])
def test_single_points_and_pairs(quality: Any, in_scene: bool) -> None:
    corners, faces = geodesic_sphere(3)
    target: Any = bvh.BVH.from_triangles(corners, faces, quality=quality)
    if in_scene:
        tree, target = target, bvh.Scene()
        pose = np.eye(4)
        pose[:3, 3] = 0.3
        target.add(tree), target.add(tree, pose)
    points = hostile(np.random.default_rng(SEED))
    others = np.roll(points, 1, axis=0)
    inside, signed = target.contains(points), target.signed_distance(points)
    for margin in (1e-10, 0.0, 0.5):
        seen = target.visible(points, others, margin=margin)
        for p, q, one in zip(points, others, seen, strict=True):
            assert target.visible(tuple(p.tolist()), q, margin=margin) is bool(one)
    for p, within, far in zip(points, inside, signed, strict=True):
        assert target.contains(p) is target.contains(p.tolist()) is bool(within)
        same(target.signed_distance(p), float(far))
    assert 50 < inside.sum() < 250 and np.isfinite(signed).sum() > 200


def test_single_points_need_no_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the kernels are there."""
    tree = bvh.BVH.from_triangles(*geodesic_sphere(3))
    p, q = (0.1, 0.2, 0.3), (2.0, 0.0, 0.0)
    wanted = tree.contains(p), tree.signed_distance(p), tree.visible(p, q)
    assert wanted == (True, tree.signed_distance([p])[0], False)
    for module, name in (
        (ray_batches, "_trace"),
        (point_batches, "_fill"),
        (sight_queries, "_ends"),
    ):
        monkeypatch.setattr(module, name, None)
    assert (tree.contains(p), tree.signed_distance(p), tree.visible(p, q)) == wanted


def test_batches_compile_no_single_rays() -> None:
    tree, some = fresh("triangles"), np.random.default_rng(SEED).normal(size=(2, 4, 3))
    tree.closest_hit(*some), tree.any_hit(*some), tree.closest_hit(*some, threads=1)
    assert tree._quick.cast is None
    tree.closest_hit(*some[:, 0])
    assert tree._quick.cast is not None


def test_pairs_have_the_rays_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit."""
    rng, asked = np.random.default_rng(SEED), []

    class Quick:
        def cast(self, *given: Any) -> bool:
            asked.append(given)
            return False

    class Target:
        _quick = Quick()

    for k in range(2_000):
        p, q = rng.normal(size=(2, 3)) * 10.0 ** rng.integers(-20, 20, (2, 1))
        q = p * (1.0 + rng.normal(size=3) * 1e-9) if k % 3 == 0 else q
        margin = (1e-10, 0.0, 1e-6)[k % 3]
        (o, d, low, high), finite = sight_queries._segments(
            *sight_queries._ends(p, q, margin, None), None
        )
        assert finite and sight_queries._visible_pair(Target(), p, q, margin) is True
        start, along, *limits, _ = asked.pop()
        assert (*start, *along, *limits) == (*o, *d, low, high)


def test_warnings_of_single_points() -> None:
    """As of batches: once a tree."""
    corners, faces = geodesic_sphere(2)
    for query in ("contains", "signed_distance"):
        tree = bvh.BVH.from_triangles(corners, faces[1:])
        tree.distance([0.0, 0.0, 0.0]), tree.count_hits(UP, UP)
        with pytest.warns(bvh.BVHWarning, match="open edges"):
            getattr(tree, query)((0.1, 0.2, 0.3))
        getattr(tree, query)((0.1, 0.2, 0.3))


def test_threads_share_a_function() -> None:
    tree, rng = TARGETS["triangles"], np.random.default_rng(SEED)
    o, d = rng.normal(size=(2, 500, 3))
    wanted = tree.closest_hit(o, d)

    def differing(_: int) -> int:
        found = [tree.closest_hit(p, q) for p, q in zip(o, d, strict=True)]
        return sum(hit.t != t for hit, t in zip(found, wanted.t, strict=True))

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(differing, range(8))) == {0}
