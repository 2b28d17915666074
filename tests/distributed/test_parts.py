"""Meshes in parts answer bit for bit as one tree: hostile meshes, cut in any way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed.out_of_core import part_visits
from tests.cases.families import FAMILIES, build, families_of_meshes, sphere
from tests.cases.part_checks import (
    POINTS,
    ask,
    check_family,
    check_points,
    check_rays,
    check_regions,
    same,
)
from tests.cases.partitions import WAYS, cut_parts, open_some, parts_of, random_parts
from tests.cases.soups import soup

# Families that are tested with Dask as well: it takes long.
LAZY = (
    "layers_tied_by_rounding_1000", "duplicate_faces", "spoiled_vertices_nan", "beyond_largest",
    "beyond_denormal", "geo_offset_1e+07", "bad_rays_nan", "ranges_mixed", "inside_asteroid",
    "without_area_among_good", "one_face_often", "cull_back", "chaos_bits", "range_line",
)  # fmt: skip


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
    open_some(parts, rng)
    check_family(family, parts, rng, lazily=False)


@pytest.mark.parametrize("name", LAZY)
def test_hostile_families_lazily(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    pytest.importorskip("dask.array")
    family = build(name)
    parts = random_parts(tmp_path / "parts", family.vertices, family.faces, rng, memory=30_000)
    check_family(family, parts, rng, lazily=True)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_in_every_way(
    name: str, way: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    family = build(name)
    parts = random_parts(tmp_path / "parts", family.vertices, family.faces, rng, 200_000, way)
    open_some(parts, rng)
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


# Each mesh in two ways, each way with half of the meshes; the others are slow.
CUTS = [
    pytest.param(name, way, marks=pytest.mark.slow if (i + j) % 4 > 1 else ())
    for i, name in enumerate(MESHES)
    for j, way in enumerate(WAYS)
]


@pytest.mark.usefixtures("small_visits")
@pytest.mark.parametrize(("name", "way"), CUTS)
def test_meshes(name: str, way: str, tmp_path: Path, rng: np.random.Generator) -> None:
    vertices, faces = _mesh(name, rng)
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = random_parts(tmp_path / "parts", vertices, faces, rng, way=way)
    open_some(parts, rng)
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


@pytest.mark.parametrize(
    "count", [7, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 64))]
)
def test_closed_mesh(count: int, tmp_path: Path, rng: np.random.Generator) -> None:
    vertices, faces = sphere(3)
    tree = bvh.BVH.from_triangles(vertices, faces)
    part = rng.integers(0, count, len(faces))
    # Each visit lets go of the part before.
    parts = parts_of(tmp_path / "parts", vertices, faces, part, memory=1)
    points = np.concatenate(
        [rng.uniform(-1.2, 1.2, (300, 3)), vertices, vertices[faces[::4]].mean(1)]
    )
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
    points = rng.uniform(-1.2, 1.2, (5, 20, 3))
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
    points = rng.uniform(-1.0, 1.0, (300, 3)) * [4.0, 4.0, 0.9]
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


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)])
def test_ties_between_parts_are_decided_by_ids(whole: bool, tmp_path: Path) -> None:
    """Layers whose real distances differ, and round to the same t, in parts in any order."""
    family = families_of_meshes.layers_tied_by_rounding(np.random.default_rng(1), 1e6)
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    count = len(family.faces)
    rays = {"origins": family.origins, "directions": family.directions}
    each = [np.arange(count), np.arange(count)[::-1]] if whole else []
    for number, part in enumerate([np.arange(count) % 2, *each]):
        parts = parts_of(tmp_path / f"{number}", family.vertices, family.faces, part)
        check_rays(parts, tree, rays)
    assert cut_parts(tmp_path / "cut", family.vertices, family.faces, 4).part_count > 4
