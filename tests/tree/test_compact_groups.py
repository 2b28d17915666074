"""Compact trees: the same answers bit for bit, what their groups hold, and how large they are."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.runtime.simd import WIDTH
from bvh.tree.compact_groups import GRID, ORIGIN_UNIT, UNUSED
from bvh.tree.frame import FrameView
from tests.cases.families import FAMILIES, build
from tests.cases.saved_trees import Parts
from tests.cases.soups import rays_at, same, soup
from tests.oracles import brute

Rng = np.random.Generator
Pair = tuple[bvh.BVH, bvh.BVH]
UTM = np.array([5e5, 5.4e6, 100.0])


def pair_of(vertices: Any, faces: Any, **options: Any) -> Pair:
    """Return a full and a compact tree of a mesh."""
    full = bvh.BVH.from_triangles(vertices, faces, **options)
    return full, bvh.BVH.from_triangles(vertices, faces, memory="compact", **options)


def assert_same(a: Any, b: Any, *fields: str) -> None:
    """Compare two answers, or their fields, bit for bit."""
    for field in fields:
        assert_same(getattr(a, field), getattr(b, field))
    if not fields:
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def assert_alike(trees: Pair, *rays: Any, cull: Any = None, mask: Any = None) -> None:
    """Compare all that rays and points ask of a full and a compact tree."""
    full, compact = trees
    options = {"cull": cull, "mask": mask}
    assert same(*(tree.closest_hit(*rays, **options) for tree in trees))
    assert_same(*(tree.any_hit(*rays, **options) for tree in trees))
    for edges in ("closed", "once"):
        every = [tree.all_hits(*rays, edges=edges, **options) for tree in trees]
        assert_same(*every, "ray_id", "t", "prim_id", "u", "v")
        assert_same(*(tree.count_hits(*rays, edges=edges, **options) for tree in trees))
    first = [tree.all_hits(*rays, max_hits=2, **options) for tree in trees]
    assert_same(*first, "ray_id", "t", "prim_id")
    points = np.reshape(rays[0], (-1, 3))[:100]
    for count in (None, 3):
        near = [tree.closest_point(points, k=count, mask=mask) for tree in trees]
        assert_same(*near, "distance", "prim_id", "u", "v")
    assert compact.arrays.compact and not full.arrays.compact
    assert "_full" not in vars(compact.arrays)


# A third of them; the others are long.
SOME = [
    pytest.param(name, marks=pytest.mark.long) if i % 3 else name for i, name in enumerate(FAMILIES)
]


@pytest.mark.parametrize("name", SOME)
def test_families(name: str) -> None:
    """Hostile meshes and rays, whose answers `test_exactness` proves."""
    family = build(name)
    quality = ("medium", "high")[len(name) % 2]
    trees = pair_of(family.vertices, family.faces, quality=quality)
    rays = family.origins, family.directions, family.t_min, family.t_max
    assert_alike(trees, *rays, cull=family.cull)


def rays_beside(corners: np.ndarray, rng: Rng, n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """Return rays at distances from edges, from 1e-12 to 1e-3, that few margins leave open."""
    which, side = rng.integers(0, len(corners), n), rng.integers(0, 3, n)
    a, b = corners[which, side], corners[which, (side + 1) % 3]
    target = a + rng.random((n, 1)) * (b - a)
    off = rng.choice([-1.0, 1.0], (n, 1)) * 10.0 ** rng.uniform(-12, -3, (n, 1))
    target += off * (corners[which, (side + 2) % 3] - target)
    d = rng.normal(size=(n, 3))
    return target - d * np.ptp(corners) * 10.0 ** rng.uniform(-7, 2, (n, 1)), d


@pytest.mark.parametrize("kind", ["alike", "mixed", "utm", "flat", "tiny", "huge"])
def test_beside_edges(kind: str, rng: Rng) -> None:
    """Triangles of one size and of many in a group: brute force and the full tree agree."""
    for count in (1, 20, 300):
        size = 10.0 ** rng.uniform(-6.0 if kind == "mixed" else -1.0, 0.0, (count, 1, 1))
        corners = rng.normal(size=(count, 1, 3)) + size * rng.normal(size=(count, 3, 3))
        corners *= [1.0, 1.0, 1e-4 if kind == "flat" else 1.0]
        corners *= {"tiny": 1e-150, "huge": 1e149}.get(kind, 1.0)
        corners += UTM if kind == "utm" else 0.0
        trees = pair_of(corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))
        o, d = rays_beside(corners, rng)
        assert_alike(trees, o, d)
        hits, (t, prim) = trees[1].closest_hit(o, d), brute.closest_hit(trees[1], o, d)
        assert np.array_equal(hits.t, t) and np.array_equal(hits.prim_id, prim)


@pytest.mark.long
def test_single_questions(rng: Rng) -> None:
    """One ray, one point, casters, filters, counters, and loops of the user's own."""
    trees = pair_of(*soup(rng, 500, 0.3))
    rays = rays_at(trees[0], rng)
    for o, d in zip(*rays, strict=True):
        hits = [tree.closest_hit(o, d) for tree in trees]
        assert same(*hits)
        assert_same(*(tree.caster()(*o, *d) for tree in trees))
        assert_same(*(tree.count_hits(o, d) for tree in trees))
        assert_same(*(tree.closest_point(o) for tree in trees), "distance", "prim_id")
    counted = [tree.closest_hit(*rays, counters=True) for tree in trees]
    assert same(*counted)
    assert_same(*counted, "nodes", "tests")


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6, 1e149, 2.0**1020])
def test_numbers(scale: float, rng: Rng) -> None:
    """Vertices are at most half a step off, and lanes without a triangle say so."""
    vertices, faces = soup(rng, 1000, 10.0 ** rng.uniform(-6, -1, 1000))
    tree = bvh.BVH.from_triangles((vertices - 0.5) * scale, faces, memory="compact")
    rows = tree.arrays.groups.reshape(-1, 12, WIDTH).astype(np.float64)
    grids = tree.arrays.groups.reshape(-1, 12, WIDTH)[:, GRID]
    steps = (grids[:, 3].astype(np.int32) << 16).view(np.float32).astype(np.float64)[:, None]
    frame = FrameView(tree.arrays.frame)
    local = np.ldexp(tree.vertices - frame.centre, frame.exponent)
    ids = tree.arrays.nodes.ids
    used = ids >= 0
    assert np.array_equal(rows[:, 0] != UNUSED, used)
    for axis in range(3):
        v0 = grids[:, axis, None] * ORIGIN_UNIT + rows[:, axis] * steps
        e1, e2 = rows[:, 3 + axis] * steps, rows[:, 6 + axis] * steps
        for k, stored in enumerate((v0, v0 + e1, v0 + e2)):
            off = np.abs(stored - local[tree.faces[ids, k], axis]) / steps
            assert off[used].max() <= 0.501


@pytest.mark.parametrize("quality", ["medium", "high"])
def test_size(quality: Any, rng: Rng) -> None:
    """At most 45 bytes a triangle beside what the caller has, and copies where that can change."""
    x, y = np.divmod(np.arange(151.0**2), 151)
    vertices = np.stack([x, y, 5.0 * np.sin(x / 9.0) * np.cos(y / 7.0)], axis=1)
    a = (np.arange(150)[:, None] * 151 + np.arange(150)).reshape(-1, 1)
    faces = np.concatenate([a + [0, 151, 152], a + [0, 152, 1]]).astype(np.int32)
    full, compact = pair_of(vertices, faces, quality=quality)
    assert compact.nbytes == compact.stats().bytes < full.nbytes
    vertices.flags.writeable = faces.flags.writeable = False
    shared = bvh.BVH.from_triangles(vertices, faces, quality=quality, memory="compact")
    assert np.shares_memory(shared.vertices, vertices) and np.shares_memory(shared.faces, faces)
    assert shared.nbytes - vertices.nbytes - faces.nbytes <= 45 * len(faces)
    assert 2 * shared.arrays.groups.nbytes == full.arrays.groups.nbytes


@pytest.mark.long
def test_other_questions(rng: Rng) -> None:
    """Overlaps, distances and scenes ask full groups, which the tree then keeps."""
    trees = full, compact = pair_of(*soup(rng, 500, 0.3))
    size = compact.nbytes
    rays = rays_at(full, rng)
    assert_same(*(tree.overlap_sphere(rays[0], 0.3) for tree in trees), "prim_id", "offsets")
    assert compact.nbytes == size + full.arrays.groups.nbytes
    assert_same(full.overlap_tree(compact), full.overlap_tree(full))
    assert_same(*(tree.self_overlaps() for tree in trees))
    assert compact.distance_to(full).distance == 0.0
    scenes = bvh.Scene(), bvh.Scene()
    for scene, tree in zip(scenes, trees, strict=True):
        scene.add(tree)
        scene.add(full, np.diag([2.0, 1.0, -1.0, 1.0]))
    hits = [scene.closest_hit(*rays) for scene in scenes]
    assert same(*hits)
    assert_same(*hits, "instance_id")
    assert compact.arrays.compact


def test_faces_with_groups(rng: Rng) -> None:
    """Masks, and faces that no query meets."""
    bits = rng.integers(0, 4, 500)
    trees = pair_of(*soup(rng, 500, 0.3), groups=bits)
    for mask in (None, 1, 2, 0):
        assert_alike(trees, *rays_at(trees[0], rng), mask=mask)
    assert trees[0].distance_to(trees[1]).distance == 0.0


def test_refit(rng: Rng) -> None:
    """A compact tree stays compact, and triangles may go and return."""
    vertices, faces = soup(rng, 500, 0.3)
    trees = pair_of(vertices, faces)
    lost = np.where(rng.random((len(vertices), 1)) < 0.5, np.nan, vertices)
    for moved in (vertices * 3.0, lost, np.full_like(vertices, np.nan), vertices + UTM):
        for tree in trees:
            tree.refit(moved)
        trees[1].validate()
        rays = rng.normal(size=(2, 100, 3))
        if np.isfinite(moved).any():
            rays = rays_at(trees[0], rng)
        assert_alike(trees, *rays)


def test_files_and_pickles(tmp_path: Path, rng: Rng) -> None:
    """They hold the compact groups, and come back as they were."""
    full, tree = pair_of(*soup(rng, 500, 0.3))
    path, rays = tmp_path / "compact.bvh", rays_at(tree, rng)
    tree.save(path)
    for again in (pickle.loads(pickle.dumps(tree)), bvh.load(path), bvh.load(path, mmap=True)):
        assert_same(again.arrays.groups, tree.arrays.groups)
        assert_alike((full, again), *rays)
    full.save(tmp_path / "full.bvh")
    assert 1.1 * path.stat().st_size < (tmp_path / "full.bvh").stat().st_size
    parts = Parts(path.read_bytes())
    assert parts.header.version == 6 and parts.header.compact
    parts.arrays["groups"][WIDTH] += 1
    path.write_bytes(parts.joined())
    with pytest.raises(ValueError, match="a leaf's copy of its triangles differs"):
        bvh.load(path)


def test_other_widths(rng: Rng) -> None:
    """Trees that were pickled or saved for other vectors are built again as compact ones."""
    tree = bvh.BVH.from_triangles(*soup(rng, 100, 0.3), memory="compact")
    state = tree.__getstate__()
    again = object.__new__(bvh.BVH)
    again.__setstate__({**state, "_width": 2 * WIDTH})
    assert_same(again.arrays.groups, tree.arrays.groups)
