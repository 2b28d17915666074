"""Meshes in parts answer bit for bit as one tree."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed.out_of_core import part_visits
from bvh.distributed.out_of_core.parts import Parts
from tests.cases.families import FAMILIES, Family, build, families_of_meshes, sphere
from tests.cases.partitions import WAYS, cut_parts, parts_of, random_parts
from tests.cases.soups import soup

HITS = ("t", "u", "v", "front", "prim_id")
LISTS = (*HITS, "offsets", "shape")
POINTS = ("distance", "position", "u", "v", "prim_id")
OVERLAPS = ("prim_id", "offsets", "shape")
# Hits, and what else is tested with Dask as well: more families take long.
LAZY = (
    "layers_tied_by_rounding_1000", "duplicate_faces", "spoiled_vertices_nan", "beyond_largest",
    "beyond_denormal", "geo_offset_1e+07", "bad_rays_nan", "ranges_mixed", "inside_asteroid",
    "without_area_among_good", "one_face_often", "cull_back", "chaos_bits", "range_line",
)  # fmt: skip

Given = dict[str, Any]
As = Callable[[Any], Any]


def same(found: Any, wanted: Any, names: tuple[str, ...] = ()) -> None:
    """Check that two results, or their fields, are equal bit for bit, NaN being equal to NaN."""
    for name in names or ("",):
        a, b = (getattr(r, name) if name else r for r in (found, wanted))
        assert np.shape(a) == np.shape(b), name
        assert type(a) is type(b) or isinstance(a, np.ndarray) or np.ndim(a) == 0, name
        assert name == "prim_id" or np.asarray(a).dtype == np.asarray(b).dtype, name
        np.testing.assert_array_equal(a, b, err_msg=name)
        if np.asarray(a).dtype.kind == "f":
            real = ~np.isnan(np.asarray(b))
            signs = (np.signbit(np.asarray(x)[real]) for x in (a, b))
            np.testing.assert_array_equal(*signs, err_msg=f"sign of {name}")


def ask(target: Any, verb: str, arrays: Given, lazily: bool, **options: Any) -> Any:
    """Ask NumPy arrays; or Dask arrays, those with leading axes cut into two chunks."""
    if not lazily:
        return getattr(target, verb)(**arrays, **options)
    import dask
    import dask.array as da

    chunked = {
        name: da.from_array(a, (max(-(-len(a) // 2), 1), *a.shape[1:]))
        for name, a in ((name, np.asarray(given)) for name, given in arrays.items())
        if np.ndim(a) > (name in ("origins", "directions", "points"))
    }
    found = getattr(target, verb)(**(arrays | chunked), **options)
    with dask.config.set(scheduler="sync"):
        return found.compute() if hasattr(found, "compute") else dask.compute(found)[0]


def check_rays(parts: Parts, tree: bvh.BVH, rays: Given, lazily: bool = False, **cull: Any) -> None:
    """Check all queries of rays."""

    def check(verb: str, names: tuple[str, ...] = (), **options: Any) -> None:
        found = ask(parts, verb, rays, lazily, **options)
        same(found, getattr(tree, verb)(**rays, **options), names)

    check("closest_hit", HITS, **cull)
    check("any_hit", **cull)
    for edges, limit in (("once", 1), ("closed", 3)):
        check("count_hits", edges=edges, **cull)
        check("all_hits", LISTS, edges=edges, max_hits=limit, **cull)
    check("all_hits", LISTS, **cull)


def check_points(
    parts: Parts, tree: bvh.BVH, points: Any, rng: np.random.Generator, lazily: bool = False
) -> None:
    """Check all queries of points, without and with limits."""
    span = np.nan_to_num(np.ptp(tree.bounds / 2, axis=0).max(), posinf=1e300)
    limits = rng.uniform(0.0, span, len(points)) ** rng.uniform(0.3, 1.0, len(points))
    limits[::7], limits[3::11], limits[5::13] = 0.0, -1.0, np.nan
    for limit in (np.inf, limits):
        given = {"points": points, "max_distance": limit}
        for k in (None, 3):
            found = ask(parts, "closest_point", given, lazily, k=k)
            same(found, tree.closest_point(**given, k=k), POINTS)
        same(ask(parts, "distance", given, lazily), tree.distance(**given))
    for verb in ("contains", "signed_distance"):
        same(ask(parts, verb, {"points": points}, lazily), getattr(tree, verb)(points))


def check_regions(
    parts: Parts, tree: bvh.BVH, points: Any, rng: np.random.Generator, lazily: bool = False
) -> None:
    """Check all queries of regions, some of which touch vertices."""
    points = points[rng.permutation(len(points))[:40]]
    span = np.nan_to_num(np.ptp(tree.bounds / 8, axis=0))
    lower, upper = (
        points.copy(),
        points + span * rng.choice([0.0, 0.8, 4.0, -0.8], (len(points), 1)),
    )
    lower[::9], upper[4::9] = -np.inf, np.inf
    radii = span.max() * rng.choice([0.0, 0.4, 2.0, 8.0, -1.0], len(points))
    radii[3::11], radii[7::11] = np.nan, np.inf
    planes = np.empty((len(points), 3, 4))
    planes[..., :3] = rng.integers(-2, 3, (len(points), 3, 3))
    with np.errstate(all="ignore"):
        planes[..., 3] = -(planes[..., :3] @ points[:, :, None])[..., 0]
    for verb, arrays in (
        ("overlap_box", {"lower": lower, "upper": upper}),
        ("overlap_sphere", {"center": points, "radius": radii}),
        ("overlap_frustum", {"planes": planes}),
        ("overlap_frustum", {"planes": planes[:, :0]}),
    ):
        if verb == "overlap_frustum" and not np.abs(tree.bounds).max() < 1e150:
            # Beyond what is promised, products overflow: what is found depends on the tree.
            continue
        if lazily and arrays.get("planes", planes).shape[1] == 0:
            continue
        same(ask(parts, verb, arrays, lazily), getattr(tree, verb)(**arrays), OVERLAPS)


def check_family(family: Family, parts: Parts, rng: np.random.Generator, lazily: bool) -> None:
    """Check all queries with the rays of a family."""
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    rays = {
        "origins": family.origins, "directions": family.directions,
        "t_min": family.t_min, "t_max": family.t_max,
    }  # fmt: skip
    check_rays(parts, tree, rays, lazily, cull=family.cull)
    with np.errstate(all="ignore"):
        middles = family.vertices[family.faces].mean(axis=1)
    points = np.concatenate([family.origins, family.vertices, middles])
    check_points(parts, tree, points[rng.permutation(len(points))[:200]], rng, lazily)
    check_regions(parts, tree, points, rng, lazily)


@pytest.fixture
def small_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have 70 rays, or points, visit the parts together."""
    monkeypatch.setattr(part_visits, "TOGETHER", 70)
    monkeypatch.setattr(part_visits, "POINTS", 70)


@pytest.mark.usefixtures("small_visits")
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_hostile_families(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    family = build(name)
    parts = random_parts(tmp_path / "parts", family.vertices, family.faces, rng)
    check_family(family, parts, rng, lazily=False)


@pytest.mark.parametrize("name", LAZY)
def test_hostile_families_lazily(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    pytest.importorskip("dask.array")
    family = build(name)
    parts = random_parts(tmp_path / "parts", family.vertices, family.faces, rng, memory=30_000)
    check_family(family, parts, rng, lazily=True)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_in_every_way(
    name: str, way: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    family = build(name)
    parts = random_parts(tmp_path / "parts", family.vertices, family.faces, rng, 200_000, way)
    check_family(family, parts, rng, lazily=False)


def _mesh(name: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return a mesh that is hard to cut, or to bound."""
    vertices, faces = sphere(2)
    if name == "empty":
        return np.empty((0, 3)), np.empty((0, 3), np.int64)
    if name == "one triangle":
        return np.eye(3), np.array([[0, 1, 2]])
    if name == "not finite":
        return np.where(rng.random((90, 3)) < 2, np.nan, 0.0), np.arange(90).reshape(-1, 3)
    if name == "equal centroids":
        corners = rng.integers(1, 9, (200, 1, 3)) * np.array(
            [[2.0, -1, -1], [-1, 2, -1], [-1, -1, 2]]
        )
        return corners.reshape(-1, 3), np.arange(600).reshape(-1, 3)
    if name == "copies":
        return vertices, np.tile(faces, (3, 1))
    if name == "copies, shuffled":
        return vertices, rng.permutation(np.tile(faces, (3, 1)))
    if name == "large":
        return vertices * 1e308, faces
    if name == "denormal":
        return np.round(vertices * 1000) * 5e-324, faces
    if name == "far":
        return vertices + [1e7, -3e8, 1e9], faces
    if name == "soup":
        return soup(rng, 3000)
    return soup(rng, 500, size=np.exp(rng.normal(size=500) * 4))


MESHES = (
    "empty", "one triangle", "not finite", "equal centroids", "copies", "copies, shuffled",
    "large", "denormal", "far", "soup", "soup of all sizes",
)  # fmt: skip


@pytest.mark.usefixtures("small_visits")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MESHES)
def test_meshes(name: str, way: str, tmp_path: Path, rng: np.random.Generator) -> None:
    vertices, faces = _mesh(name, rng)
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = random_parts(tmp_path / "parts", vertices, faces, rng, way=way)
    assert len(parts) == len(faces)
    np.testing.assert_array_equal(parts.bounds, tree.bounds)
    scale = np.abs(np.nan_to_num(vertices)).max(initial=0.0) or 1.0
    bad = np.array([[np.nan, 0, 0], [np.inf, 0, 0], [0, 0, -np.inf], [0, 0, 0]])
    points = np.concatenate([vertices[:60], rng.uniform(-1.0, 1.0, (60, 3)) * scale, bad])
    with np.errstate(all="ignore"):
        aims = points[rng.permutation(len(points))] - points
    aims[-3:] = bad[1:]
    low = rng.choice([0.0, 0.5, 1.0, -np.inf, np.nan], len(points))
    high = rng.choice([0.5, 1.0, 2.0, np.inf, np.nan], len(points))
    for t_min, t_max in ((0.0, np.inf), (low, high)):
        rays = {"origins": points, "directions": aims, "t_min": t_min, "t_max": t_max}
        check_rays(parts, tree, rays)
    check_points(parts, tree, points, rng)
    check_regions(parts, tree, points, rng)


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_closed_mesh(count: int, tmp_path: Path, rng: np.random.Generator) -> None:
    vertices, faces = sphere(3)
    tree = bvh.BVH.from_triangles(vertices, faces)
    part = rng.integers(0, count, len(faces))
    # Each visit lets go of the part before.
    parts = parts_of(tmp_path / "parts", vertices, faces, part, memory=1)
    points = np.concatenate([rng.uniform(-1.2, 1.2, (500, 3)), vertices, vertices[faces].mean(1)])
    check_points(parts, tree, points, rng)
    aims = vertices[rng.integers(0, len(vertices), len(points))] - points
    check_rays(parts, tree, {"origins": points, "directions": aims})


@pytest.mark.parametrize("lazily", [False, True])
def test_winding_numbers(lazily: bool, tmp_path: Path, rng: np.random.Generator) -> None:
    if lazily:
        pytest.importorskip("dask.array")
    vertices, faces = sphere(4)
    faces = faces[rng.random(len(faces)) < 0.9]
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = random_parts(tmp_path / "parts", vertices, faces, rng, memory=90_000)
    points = rng.uniform(-1.2, 1.2, (30, 20, 3))
    points[0, :3, 0] = np.nan, np.inf, -np.inf
    exact = tree.winding_number(points, np.inf)
    for accuracy, error in ((2.0, 0.001), (4.0, 2e-5), (np.inf, 1e-12)):
        found = ask(parts, "winding_number", {"points": points}, lazily, accuracy=accuracy)
        np.testing.assert_allclose(found, exact, rtol=0.0, atol=error)
    clear = np.abs(exact - 0.5) > 0.001
    found = ask(parts, "contains", {"points": points}, lazily, method="winding")
    np.testing.assert_array_equal(found[clear], exact[clear] > 0.5)


def test_closest_points_whose_rounding_is_below_the_bound_of_a_part(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    """Distances have errors of some units in the last place; the box of a flat part has none."""
    turns = rng.uniform(0.0, 7.0, (600, 3)).cumsum(axis=1)
    corners = np.stack([np.cos(turns), np.sin(turns), np.full(turns.shape, 0.1)], axis=-1)
    vertices, faces = (corners * [9.0, 9.0, 1.0]).reshape(-1, 3), np.arange(1800).reshape(-1, 3)
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = parts_of(tmp_path / "parts", vertices, faces, np.arange(600) % 50)
    points = rng.uniform(-1.0, 1.0, (3000, 3)) * [4.0, 4.0, 0.9]
    check_points(parts, tree, points, rng)
    limit = tree.distance(points)
    same(parts.closest_point(points, limit), tree.closest_point(points, limit), POINTS)


def test_closest_point_depends_on_the_point_and_the_triangle_alone(
    rng: np.random.Generator,
) -> None:
    vertices, faces = soup(rng, 300, size=1e3)
    vertices += rng.uniform(-1e6, 1e6, 3)
    tree = bvh.BVH.from_triangles(vertices, faces)
    points = rng.normal(size=(50, 3)) + vertices[:50]
    whole = tree.closest_point(points, k=300)
    for face in range(0, 300, 10):
        alone = bvh.BVH.from_triangles(vertices, faces[face : face + 1]).closest_point(points)
        at = np.argmax(whole.prim_id == face, axis=1)
        for name in ("distance", "position", "u", "v"):
            wanted = getattr(whole, name)[np.arange(50), at]
            np.testing.assert_array_equal(getattr(alone, name), wanted)


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
        same(parts.overlap_sphere(points, limit), tree.overlap_sphere(points, limit), OVERLAPS)


@pytest.mark.parametrize(
    ("verb", "arguments", "options"),
    [
        ("closest_hit", 2, {"cull": "left"}), ("any_hit", 2, {"threads": 0}),
        ("count_hits", 2, {"edges": "never"}), ("all_hits", 2, {"max_hits": 0}),
        ("closest_hit", 2, {"validate_rays": True}), ("closest_point", 1, {"k": 0}),
        ("closest_point", 1, {"k": 1.5}), ("contains", 1, {"method": "guess"}),
        ("winding_number", 1, {"accuracy": 0.5}), ("winding_number", 1, {"accuracy": "2"}),
        ("overlap_frustum", 1, {}), ("overlap_box", 2, {"threads": -1}),
        ("distance", 1, {"threads": 1.5}), ("closest_hit", 2, {"sort": "yes", "progress": 5}),
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


@pytest.mark.parametrize("sort", [None, True, False])
def test_sorted_rays(sort: bool | None, tmp_path: Path, rng: np.random.Generator) -> None:
    vertices, faces = sphere(3)
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = random_parts(tmp_path / "parts", vertices, faces, rng)
    rays = rng.normal(size=(5000, 3)), rng.normal(size=(5000, 3))
    same(parts.closest_hit(*rays, sort=sort), tree.closest_hit(*rays), HITS)
    same(parts.any_hit(*rays, sort=sort), tree.any_hit(*rays))


@pytest.mark.usefixtures("small_visits")
@pytest.mark.parametrize(
    "verb",
    ["closest_hit", "any_hit", "count_hits", "all_hits", "closest_point", "distance", "contains",
     "signed_distance", "winding_number", "overlap_sphere"],
)  # fmt: skip
@pytest.mark.parametrize("size", [0, 300])
def test_progress(verb: str, size: int, tmp_path: Path, rng: np.random.Generator) -> None:
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
    open_part = parts._open.part
    monkeypatch.setattr(
        parts._open, "part", lambda number: (opened.append(number), open_part(number))[1]
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


def test_ties_between_parts_are_decided_by_ids(tmp_path: Path) -> None:
    """Layers whose real distances differ, and round to the same t, in parts in any order."""
    family = families_of_meshes.layers_tied_by_rounding(np.random.default_rng(1), 1e6)
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    count = len(family.faces)
    rays = {"origins": family.origins, "directions": family.directions}
    for number, part in enumerate([np.arange(count), np.arange(count)[::-1], np.arange(count) % 2]):
        parts = parts_of(tmp_path / f"{number}", family.vertices, family.faces, part)
        check_rays(parts, tree, rays)
    assert cut_parts(tmp_path / "cut", family.vertices, family.faces, 4).part_count > 4
