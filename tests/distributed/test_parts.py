"""Meshes in parts answer bit for bit as one tree."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed.out_of_core.parts import Parts
from tests.cases.families import FAMILIES, build, sphere
from tests.cases.partitions import parts_of, random_parts

HITS = ("t", "u", "v", "front", "prim_id")
POINTS = ("distance", "position", "u", "v", "prim_id")


def same(found: Any, wanted: Any, names: tuple[str, ...]) -> None:
    """Check that the fields of two results are equal bit for bit, NaN being equal to NaN."""
    for name in names:
        a, b = np.asarray(getattr(found, name)), np.asarray(getattr(wanted, name))
        assert a.shape == b.shape, name
        np.testing.assert_array_equal(a, b, err_msg=name)


def check_rays(parts: Parts, tree: bvh.BVH, *rays: Any, cull: str | None = None) -> None:
    """Check all queries of rays."""
    same(parts.closest_hit(*rays, cull=cull), tree.closest_hit(*rays, cull=cull), HITS)
    np.testing.assert_array_equal(parts.any_hit(*rays, cull=cull), tree.any_hit(*rays, cull=cull))
    for edges in ("once", "closed"):
        options = {"edges": edges, "cull": cull}
        wanted = tree.count_hits(*rays, **options)
        np.testing.assert_array_equal(parts.count_hits(*rays, **options), wanted)
        for limit in (None, 2):
            found = parts.all_hits(*rays, max_hits=limit, **options)
            same(found, tree.all_hits(*rays, max_hits=limit, **options), (*HITS, "offsets"))


def check_points(parts: Parts, tree: bvh.BVH, points: Any, **limit: Any) -> None:
    """Check all queries of points."""
    same(parts.closest_point(points, **limit), tree.closest_point(points, **limit), POINTS)
    np.testing.assert_array_equal(parts.distance(points, **limit), tree.distance(points, **limit))


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_hostile_families(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    family = build(name)
    if len(family.faces) == 0:
        pytest.skip("no faces, no parts")
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    parts = random_parts(tmp_path / "parts", family.vertices, family.faces, rng)
    rays = family.origins, family.directions, family.t_min, family.t_max
    check_rays(parts, tree, *rays, cull=family.cull)
    points = np.concatenate([family.origins[:200], family.vertices[:200]])
    check_points(parts, tree, points)


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_closed_mesh(count: int, tmp_path: Path, rng: np.random.Generator) -> None:
    vertices, faces = sphere(3)
    tree = bvh.BVH.from_triangles(vertices, faces)
    part = rng.integers(0, count, len(faces))
    parts = parts_of(tmp_path / "parts", vertices, faces, part, memory=1)
    points = np.concatenate([rng.uniform(-1.2, 1.2, (500, 3)), vertices, vertices[faces].mean(1)])
    check_points(parts, tree, points)
    check_points(parts, tree, points, max_distance=0.05)
    for verb in ("contains", "signed_distance"):
        np.testing.assert_array_equal(getattr(parts, verb)(points), getattr(tree, verb)(points))
    rays = points, vertices[rng.integers(0, len(vertices), len(points))] - points
    check_rays(parts, tree, *rays)
    check_rays(parts, tree, *rays, 0.1, rng.uniform(0.2, 1.0, len(points)))


def test_single_queries_are_scalars(tmp_path: Path) -> None:
    vertices, faces = sphere(1)
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 3)
    ray = [3.0, 0.1, 0.2], [-1.0, 0.0, 0.0]
    assert repr(parts.closest_hit(*ray)) == repr(tree.closest_hit(*ray))
    assert parts.any_hit(*ray) is True
    assert parts.count_hits(*ray) == 2
    assert isinstance(parts.distance([1.0, 2.0, 3.0]), float)
    assert parts.contains([0.0, 0.0, 0.0]) is True


def test_shapes_of_batches(tmp_path: Path) -> None:
    vertices, faces = sphere(1)
    parts = parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 3)
    origins = np.zeros((4, 5, 3))
    assert parts.closest_hit(origins, [0.0, 0.0, 1.0]).t.shape == (4, 5)
    assert parts.all_hits(origins, [0.0, 0.0, 1.0]).counts.shape == (4, 5)
    assert parts.closest_point(origins).position.shape == (4, 5, 3)
    assert len(parts.closest_hit(np.zeros((0, 3)), [0.0, 0.0, 1.0])) == 0


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
