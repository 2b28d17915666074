"""Queries of meshes in parts: shapes, arguments and progress, and what is opened for them."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

import bvh
from bvh.distributed.out_of_core import part_visits
from bvh.distributed.out_of_core.part_targets import PartRays
from tests.cases.families import sphere
from tests.cases.part_checks import HITS, OVERLAPS, POINTS, ask, check_rays, same
from tests.cases.partitions import parts_of, random_parts


def test_single_queries_are_scalars(tmp_path: Path) -> None:
    vertices, faces = sphere(1)
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 3)
    ray, point = ([3.0, 0.1, 0.2], [-1.0, 0.0, 0.0]), [0.5, 0.1, 0.2]
    for verb, given in (
        ("closest_hit", ray), ("all_hits", ray), ("closest_point", (point,)),
        ("overlap_box", (point, [2.0, 2.0, 2.0])), ("overlap_sphere", (point, 0.7)),
        ("overlap_frustum", ([[1.0, 0.0, 0.0, -0.5]],)),
    ):  # fmt: skip
        found, wanted = (getattr(target, verb)(*given) for target in (parts, tree))
        assert repr(found) == repr(wanted)
    assert parts.overlap_sphere(point, 0.7).tolist() == tree.overlap_sphere(point, 0.7).tolist()
    same(parts.closest_point(point, k=2), tree.closest_point(point, k=2), POINTS)
    for verb, given in (
        ("any_hit", ray), ("count_hits", ray), ("distance", (point,)),
        ("signed_distance", (point,)), ("contains", (point,)), ("winding_number", (point,)),
    ):  # fmt: skip
        found, wanted = (getattr(target, verb)(*given) for target in (parts, tree))
        assert type(found) is type(wanted)
        assert found == pytest.approx(wanted, abs=0.001)


def test_surfaces_are_searched_by_the_given_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vertices, faces = sphere(1)
    parts = parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 3)
    used, any_hits = set(), PartRays.any_hits

    def spied(rays: PartRays, batch: Any, options: Any) -> Any:
        used.add(options.threads)
        return any_hits(rays, batch, options)

    monkeypatch.setattr(PartRays, "any_hits", spied)
    assert parts.contains(vertices, threads=3).all()
    assert used == {3}


def test_shapes_of_batches(tmp_path: Path, rng: np.random.Generator) -> None:
    vertices, faces = sphere(1)
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 3)
    normal, uniform = rng.normal, rng.uniform
    for origins, directions, t_max in (
        (normal(size=(4, 1, 3)), normal(size=(5, 3)), np.inf),
        (normal(size=3), normal(size=(6, 3)), uniform(0, 3, 6)),
        (normal(size=3), normal(size=3), uniform(0, 3, (2, 3))),
        (normal(size=(2, 3)), normal(size=3), uniform(0, 3, (4, 1))),
        (np.zeros((0, 3)), normal(size=3), np.inf),
        (np.zeros((4, 0, 3)), normal(size=3), np.inf),
        (normal(size=(1, 3)), normal(size=3), np.inf),
    ):
        rays = {"origins": origins, "directions": directions, "t_max": t_max}
        check_rays(parts, tree, rays)
    for points, limit in (
        (normal(size=(4, 5, 3)), uniform(0, 1, 5)), (normal(size=3), uniform(0, 1, (2, 2))),
        (np.zeros((0, 3)), np.inf), (np.zeros((3, 0, 3)), np.inf),
    ):  # fmt: skip
        for k in (None, 3):
            found, wanted = (t.closest_point(points, limit, k=k) for t in (parts, tree))
            same(found, wanted, POINTS)
        same(parts.distance(points, limit), tree.distance(points, limit))
        for verb in ("contains", "signed_distance"):
            same(getattr(parts, verb)(points), getattr(tree, verb)(points))
        assert np.shape(parts.winding_number(points)) == points.shape[:-1]
        found, wanted = (t.overlap_box(points, points + 0.5) for t in (parts, tree))
        same(found, wanted, OVERLAPS)
        radius = np.minimum(limit, 1.5)
        same(parts.overlap_sphere(points, radius), tree.overlap_sphere(points, radius), OVERLAPS)


@pytest.mark.parametrize(
    ("verb", "arguments", "options"),
    [
        ("closest_hit", 2, {"cull": "left"}), ("any_hit", 2, {"threads": 0}),
        ("count_hits", 2, {"edges": "never"}), ("all_hits", 2, {"max_hits": 0}),
        ("closest_hit", 2, {"validate_rays": True}), ("closest_point", 1, {"k": 0}),
        ("closest_point", 1, {"k": 1.5}), ("contains", 1, {"method": "guess"}),
        ("winding_number", 1, {"accuracy": 0.5}), ("winding_number", 1, {"accuracy": "2"}),
        ("overlap_frustum", 1, {}), ("overlap_box", 2, {"threads": -2}),
        ("distance", 1, {"threads": 1.5}), ("closest_hit", 2, {"sort": "yes", "progress": 5}),
        ("closest_hit", 2, {"progress": 5}), ("all_hits", 2, {"validate_rays": "yes"}),
        ("signed_distance", 1, {"method": "guess"}), ("closest_point", 1, {"max_distance": -1.0}),
    ],
)  # fmt: skip
def test_bad_arguments(verb: str, arguments: int, options: dict[str, Any], tmp_path: Path) -> None:
    """They are refused as by a tree."""
    vertices, faces = sphere(1)
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 3)
    given = [np.full((2, 3), np.nan)] * arguments
    with pytest.raises((ValueError, TypeError)) as wanted:
        getattr(tree, verb)(*given, **options)
    with pytest.raises(wanted.type) as found:
        getattr(parts, verb)(*given, **options)
    assert str(found.value) == str(wanted.value)


@njit
def _every(ray_id: int, prim_id: int, t: float, u: float, v: float, data: int) -> bool:
    return True


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize(
    ("verb", "options", "message"),
    [
        ("closest_hit", {"counters": True}, "counters must be False for parts"),
        ("closest_hit", {"filter": _every}, "filter must be None for parts"),
        ("any_hit", {"filter": _every}, "filter must be None for parts"),
        ("all_hits", {"filter": _every}, "filter must be None for parts"),
        ("count_hits", {"filter": _every}, "filter must be None for parts"),
        ("count_hits", {"data": 3}, "data must be None where there is no filter"),
    ],
)
def test_options_that_parts_do_not_take(
    verb: str, options: dict[str, Any], message: str, lazily: bool, tmp_path: Path
) -> None:
    """They are named, also before a lazy query is computed; queries that parts lack are absent."""
    vertices, faces = sphere(1)
    parts = parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 3)
    origins: Any = np.zeros((4, 3))
    if lazily:
        origins = pytest.importorskip("dask.array").from_array(origins)
    with pytest.raises(ValueError, match=message):
        getattr(parts, verb)(origins, [0.0, 0.0, 1.0], **options)
    for name in ("caster", "visible", "pick", "overlap_tree", "self_overlaps", "distance_to"):
        assert not hasattr(parts, name)


def test_positions_of_hits(tmp_path: Path, rng: np.random.Generator) -> None:
    """Those of one tree, bit for bit, found when they are asked for, in the parts that were hit."""
    vertices, faces = sphere(3)
    vertices = vertices * rng.uniform(0.9, 1.1, (len(vertices), 1))
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = random_parts(tmp_path / "parts", vertices, faces, rng, memory=1, way="by an axis")
    for shape in ((50,), (6, 5)):
        origins = rng.normal(size=(*shape, 3)) * 3.0
        rays = origins, rng.uniform(-0.7, 0.7, (*shape, 3)) - origins
        for verb, options in (
            ("closest_hit", {}), ("all_hits", {}), ("all_hits", {"max_hits": 1}),
        ):  # fmt: skip
            found, wanted = (getattr(t, verb)(*rays, **options) for t in (parts, tree))
            again = pickle.loads(pickle.dumps(found))
            assert "position" not in vars(found) and len(vars(found)) < 9
            same(found, wanted, ("position", "normal"))
            assert not found.position.flags.writeable and found.normal is found.normal
            with pytest.raises(AttributeError, match="do not know what they hit"):
                again.position  # noqa: B018
        hits = parts.closest_hit(*rays)
        for index in (slice(1, 4), hits.mask, 0, (Ellipsis, slice(2))):
            same(hits[index], tree.closest_hit(*rays)[index], ("position", "normal"))
        assert hits.astype(np.float32).position.dtype == np.float32
    for one in ((origins[0, 0], rays[1][0, 0]), ([9.0, 9.0, 9.0], [1.0, 0.0, 0.0])):
        same(parts.closest_hit(*one), tree.closest_hit(*one), ("position", "normal"))
        same(parts.all_hits(*one), tree.all_hits(*one), ("position", "normal"))


def test_normals_of_closest_points(tmp_path: Path, rng: np.random.Generator) -> None:
    """Those of one tree, bit for bit, of the nearest point and of several, and of single points."""
    vertices, faces = sphere(3)
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = random_parts(tmp_path / "parts", vertices, faces, rng, memory=1, way="by an axis")
    points, limits = rng.normal(size=(6, 5, 3)), rng.uniform(0.0, 1.0, (6, 5))
    for options in ({}, {"k": 3}, {"k": 1}):
        for given in ((points, limits), (points[0, 0],), (points[0, 0], 0.0)):
            near, wanted = (t.closest_point(*given, **options) for t in (parts, tree))
            again = pickle.loads(pickle.dumps(near))
            same(near, wanted, (*POINTS, "normal"))
            assert not near.normal.flags.writeable
            with pytest.raises(AttributeError, match="do not know their faces"):
                again.normal  # noqa: B018
        near, wanted = (t.closest_point(points, limits, **options) for t in (parts, tree))
        for index in (slice(1, 4), wanted.mask if not options else 0, 0, (Ellipsis, slice(2))):
            same(near[index], wanted[index], (*POINTS, "normal"))


def test_signs_by_winding_numbers(tmp_path: Path, rng: np.random.Generator) -> None:
    """Of a mesh with a hole, of arrays and lazy ones; where no rounding decides, as of one tree."""
    vertices, faces = sphere(3)
    faces = faces[rng.random(len(faces)) < 0.9]
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = random_parts(tmp_path / "parts", vertices, faces, rng, memory=90_000)
    points = rng.uniform(-1.3, 1.3, (300, 3))
    # Half of them are moved to where the number is nearer to a half than the error of a series.
    near, far = 0.3 * points[:150], 1.5 * points[:150]
    for _ in range(24):
        middle = (near + far) / 2
        inside = tree.winding_number(middle, np.inf)[:, None] > 0.5
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    points[:150] = near
    clear = np.abs(tree.winding_number(points, np.inf) - 0.5) > 1e-9
    wanted = tree.signed_distance(points, method="winding")
    for lazily in (False, True):
        if lazily:
            pytest.importorskip("dask.array")
        found = ask(parts, "signed_distance", {"points": points}, lazily, method="winding")
        np.testing.assert_array_equal(found[clear], wanted[clear])
        np.testing.assert_array_equal(np.abs(found), np.abs(wanted))
        found = ask(parts, "contains", {"points": points}, lazily, method="winding")
        np.testing.assert_array_equal(found[clear], wanted[clear] < 0.0)
    assert 9 < np.count_nonzero(wanted < 0.0) < 291 and clear.sum() > 280


def test_memory_of_rays_that_enter_many_boxes(tmp_path: Path, rng: np.random.Generator) -> None:
    """Pairs of rays with boxes are a million at a time: there are two million."""
    vertices, faces = sphere(3)
    part = rng.integers(0, 16, len(faces))
    parts = parts_of(tmp_path / "parts", vertices, faces, part, memory=1)
    origins = rng.uniform(-0.3, 0.3, (1 << 17, 3)) + [3.0, 2.0, 1.0]
    parts.any_hit(origins[:9], -origins[:9])
    tracemalloc.start()
    try:
        assert parts.any_hit(origins, -origins).all()
        assert tracemalloc.get_traced_memory()[1] < 130_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("sort", [None, True, False])
def test_sorted_rays(sort: bool | None, tmp_path: Path, rng: np.random.Generator) -> None:
    vertices, faces = sphere(3)
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = random_parts(tmp_path / "parts", vertices, faces, rng)
    rays = rng.normal(size=(5000, 3)), rng.normal(size=(5000, 3))
    same(parts.closest_hit(*rays, sort=sort), tree.closest_hit(*rays), HITS)
    same(parts.any_hit(*rays, sort=sort), tree.any_hit(*rays))


@pytest.mark.parametrize(
    "verb",
    ["closest_hit", "any_hit", "count_hits", "all_hits", "closest_point", "distance", "contains",
     "signed_distance", "winding_number", "overlap_sphere"],
)  # fmt: skip
@pytest.mark.parametrize("size", [0, 300])
def test_progress(
    verb: str, size: int, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_visits, "TOGETHER", 70)
    monkeypatch.setattr(part_visits, "POINTS", 70)
    vertices, faces = sphere(2)
    parts = parts_of(tmp_path / "parts", vertices, faces, rng.integers(0, 9, len(faces)))
    points, seen = rng.normal(size=(size, 3)), list[tuple[int, int]]()
    rays = verb in ("closest_hit", "any_hit", "count_hits", "all_hits")
    second = [points] if rays else [0.5] if verb.startswith("overlap") else []
    getattr(parts, verb)(points, *second, progress=lambda *step: seen.append(step))
    assert seen == sorted(seen)
    assert seen[-1] == (size, size)
    assert {total for _, total in seen} == {size}
    if size:
        assert len(seen) > 2


def test_parts_that_are_too_far_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vertices, faces = sphere(2)
    row = np.concatenate([vertices + [10.0 * k, 0.0, 0.0] for k in range(20)])
    faces = np.concatenate([faces + k * len(vertices) for k in range(20)])
    part = np.repeat(np.arange(20), len(faces) // 20)
    parts, opened = parts_of(tmp_path / "parts", row, faces, part), list[int]()
    open_part = parts.opened.part
    monkeypatch.setattr(
        parts.opened, "part", lambda number: (opened.append(number), open_part(number))[1]
    )
    parts.closest_point([[31.0, 0.0, 2.0]])
    parts.distance([[31.0, 0.0, 2.0]])
    parts.closest_hit([31.0, 0.0, 9.0], [0.0, 0.0, -1.0])
    parts.closest_hit([35.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    parts.all_hits([25.0, 0.0, 0.0], [1.0, 0.0, 0.0], max_hits=2)
    parts.overlap_sphere([31.0, 0.0, 2.0], 1.5)
    assert set(opened) == {3, 4}
    opened.clear()
    parts.overlap_frustum([[1.0, 0.0, 0.0, -48.0], [-1.0, 0.0, 0.0, 51.5]])
    assert opened == [5]


def test_pickled_parts_open_the_same_files(tmp_path: Path) -> None:
    vertices, faces = sphere(1)
    parts = parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 3)
    text = pickle.dumps(parts)
    assert len(text) < 4000
    again = pickle.loads(text)
    ray = [3.0, 0.1, 0.2], [-1.0, 0.0, 0.0]
    assert again.closest_hit(*ray).t == parts.closest_hit(*ray).t


def test_groups_divide_the_parts(tmp_path: Path) -> None:
    vertices, faces = sphere(2)
    parts = parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 5, memory=1)
    groups = parts.groups()
    assert len(groups) == 5
    hits = [group.closest_hit(np.zeros(3), [0.1, 0.2, 1.0]) for group in groups]
    assert min((hit.t, hit.prim_id) for hit in hits if hit.prim_id >= 0) == (
        parts.closest_hit(np.zeros(3), [0.1, 0.2, 1.0]).t,
        parts.closest_hit(np.zeros(3), [0.1, 0.2, 1.0]).prim_id,
    )
    np.testing.assert_array_equal(groups[0].bounds, parts.bounds)


def test_source_of_a_triangle(tmp_path: Path) -> None:
    vertices, faces = sphere(1)
    parts = bvh.partition([(vertices, faces), (vertices + 9.0, faces)], tmp_path / "parts")
    source, face = parts.source_of([0, len(faces), 2 * len(faces) - 1, -1])
    assert source.tolist() == [0, 1, 1, -1]
    assert face.tolist() == [0, 0, len(faces) - 1, -1]
    with pytest.raises(ValueError, match="prim_id"):
        parts.source_of(2 * len(faces))
