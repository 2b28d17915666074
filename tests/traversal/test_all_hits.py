"""All hits, counted hits and the first few: complete, in order, and in agreement."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.io.mesh_files import read_file
from meshes.hostile import needle_prism
from meshes.sphere import geodesic_sphere
from tests.cases import aims
from tests.cases.families import FAMILIES, Family, build
from tests.cases.family_parts import cube, layers, sphere
from tests.cases.scans import SCANS
from tests.cases.soups import soup
from tests.oracles import crossings as oracle_crossings
from tests.oracles import rays as oracle
from tests.oracles.confirmed import confirm, digest, is_confirmed
from tests.traversal.test_brute import SCAN_NAMES

SEED = int(os.environ.get("BVH_FUZZ_SEED", "0")) % 2**32

# Rays of a family whose crossings are decided in integers of thousands of bits.
MOVED = 12


def assert_agree(tree: bvh.BVH, rays: tuple[Any, ...], cull: str | None = None) -> bvh.AllHits:
    """Check that all verbs tell the same of rays; return all hits."""
    everything = tree.all_hits(*rays, cull=cull)
    nearest = tree.closest_hit(*rays, cull=cull)
    counts = np.diff(everything.offsets)
    some = counts > 0
    first = everything.offsets[:-1][some]
    assert np.array_equal(nearest.mask, some)
    assert np.array_equal(tree.any_hit(*rays, cull=cull), some)
    assert np.array_equal(tree.count_hits(*rays, cull=cull, edges="closed"), counts)
    for name in ("prim_id", "t", "u", "v", "front"):
        ours, theirs = getattr(everything, name)[first], getattr(nearest, name)[some]
        assert np.array_equal(ours, theirs, equal_nan=name in "uv"), name
    for most in (1, 3, 70):
        few = tree.all_hits(*rays, cull=cull, max_hits=most)
        kept = np.arange(len(everything)) - np.repeat(everything.offsets[:-1], counts) < most
        for name in ("ray_id", "prim_id", "t", "front"):
            assert np.array_equal(getattr(few, name), getattr(everything, name)[kept]), name
    return everything


def assert_exact(family: Family, qualities: Sequence[str]) -> None:
    """Compare all hits of trees with the oracle's."""
    mesh = family.vertices, family.faces
    rays = family.origins, family.directions, family.t_min, family.t_max
    for quality in qualities:
        tree = bvh.BVH.from_triangles(*mesh, quality=quality)
        got = assert_agree(tree, rays, family.cull)
        once = tree.all_hits(*rays, cull=family.cull, edges="once")
        assert np.array_equal(tree.count_hits(*rays, cull=family.cull), np.diff(once.offsets))
        answers = got.ray_id, got.prim_id, got.t, once.offsets, once.prim_id
        case = digest("all hits", *mesh, *rays, str(family.cull), *answers)
        if is_confirmed(case):
            continue
        want = oracle.all_hits(*mesh, *rays, cull=family.cull)
        assert np.array_equal(got.ray_id, want.ray_id)
        assert np.array_equal(got.prim_id, want.prim_id)
        assert np.array_equal(got.t, want.t)
        for i in range(min(MOVED, len(family.origins))):
            mine = got.prim_id[slice(*got.offsets[i : i + 2])].tolist()
            ray = family.origins[i], family.directions[i]
            crossed = oracle_crossings.crossed(*mesh, *ray) if mine else ()
            wanted = [prim for prim in mine if prim in crossed]
            assert once.prim_id[slice(*once.offsets[i : i + 2])].tolist() == wanted
        confirm(case)


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    """The oracle's set in its order, in every family of hostile meshes and rays."""
    print(f"seed {SEED}")
    family = build(name, SEED)
    assert_exact(family, ("medium", "high") if len(family.faces) < 3_000 else ("medium",))


SOLIDS = {
    "sphere": lambda: geodesic_sphere(16),
    "squashed": lambda: geodesic_sphere(16, scale=(1.0, 1e-3, 1e-6)),
    "offset": lambda: geodesic_sphere(16, offset=(1e7, -2e7, 3e7)),
    "tiny": lambda: geodesic_sphere(6, scale=(1e-150, 1e-150, 1e-150)),
    "huge": lambda: geodesic_sphere(6, scale=(1e150, 1e150, 1e150)),
    "needle": needle_prism,
    "cube": lambda: cube(1.0),
}


@pytest.mark.parametrize("name", SOLIDS)
def test_parity(name: str, rng: np.random.Generator) -> None:
    """Rays at every feature cross an odd number of times from inside, an even one from outside."""
    vertices, faces = SOLIDS[name]()
    tree = bvh.BVH.from_triangles(vertices, faces)
    targets = aims.features(vertices, faces, rng)
    center = vertices.mean(axis=0)
    span = np.ptp(vertices, axis=0)
    outside = center + span * np.array([3.0, -2.5, 2.0])
    for origin, parity in ((center, 1), (outside, 0)):
        counts = tree.count_hits(origin, targets - origin)
        assert np.count_nonzero(counts % 2 != parity) == 0
    # The whole line, whatever it is aimed at.
    lines = tree.count_hits(targets, targets[::-1] - targets, -np.inf, np.inf)
    assert np.count_nonzero(lines % 2) == 0


def test_parity_along_edges_and_faces(rng: np.random.Generator) -> None:
    """Rays that run along edges, in faces and through corners of a grid of cubes."""
    vertices, faces = cube(1.0)
    tree = bvh.BVH.from_triangles(vertices, faces)
    grid = np.stack(np.meshgrid(*[np.arange(-2.0, 2.5, 0.5)] * 3, indexing="ij"), -1).reshape(-1, 3)
    steps = rng.integers(-2, 3, (len(grid), 3)).astype(float)
    counts = tree.count_hits(grid, steps, -np.inf, np.inf)
    assert np.count_nonzero(counts % 2) == 0
    outside = (np.abs(grid) > 1.0).any(axis=1)
    counts = tree.count_hits(grid, steps)
    assert np.count_nonzero(counts[outside] % 2) == 0
    strictly = (np.abs(grid) < 1.0).all(axis=1) & steps.any(axis=1)
    assert np.all(counts[strictly] % 2 == 1)


@pytest.mark.parametrize("quality", ["medium", "high"])
def test_layers(quality: str, rng: np.random.Generator) -> None:
    """150 layers give 150 hits; ten layers 1e-7 apart give ten; two equal triangles two."""
    for heights in (np.arange(150.0), np.arange(10) * 1e-7, np.zeros(2), np.zeros(1000)):
        tree = bvh.BVH.from_triangles(*layers(heights, rng), quality=quality)
        hits = tree.all_hits([0.1, 0.2, -5.0], [0.0, 0.0, 1.0])
        per_layer = len(hits) // len(heights)
        assert len(hits) == per_layer * len(heights) and per_layer >= 1
        assert np.array_equal(np.unique(hits.t), np.unique(heights + 5.0))
        assert np.array_equal(np.lexsort((hits.prim_id, hits.t)), np.arange(len(hits)))


def test_rays_that_enter_every_node(rng: np.random.Generator) -> None:
    """Rays from so far away that float32 decides nothing visit all nodes, a block at a time."""
    heights = rng.permutation(1500).astype(float)
    vertices = np.tile([[0.0, 0, 0], [4, 0, 0], [0, 4, 0]], (len(heights), 1))
    vertices[:, 2] = np.repeat(heights, 3)
    o = np.tile([0.5, 0.5, -1e40], (257, 1))
    for quality in ("medium", "high"):
        tree = bvh.BVH.from_triangles(vertices, np.arange(4500).reshape(-1, 3), quality=quality)
        assert (tree.count_hits(o, [0.0, 0.0, 1.0]) == len(heights)).all()


def test_many_hits_a_ray(rng: np.random.Generator) -> None:
    """Lists that outgrow all scratch memory, for some rays of a block and not for others."""
    n = 30_000
    heights = rng.permutation(n).astype(float)
    vertices = np.tile([[0.0, 0, 0], [4, 0, 0], [0, 4, 0]], (n, 1))
    vertices[:, 2] = np.repeat(heights, 3)
    tree = bvh.BVH.from_triangles(vertices, np.arange(3 * n).reshape(-1, 3))
    o = np.tile([9.0, 9.0, -1.0], (600, 1))
    o[[3, 255, 256, 599]] = [0.5, 0.5, -1.0]
    for threads in (1, 2):
        hits = tree.all_hits(o, [0.0, 0.0, 1.0], threads=threads)
        assert hits.counts[[3, 255, 256, 599]].tolist() == [n] * 4 and len(hits) == 4 * n
        assert np.array_equal(hits.prim_id[:n], np.argsort(heights))
        assert np.array_equal(hits.t.reshape(4, n)[2], np.arange(n) + 1.0)


def test_memory(rng: np.random.Generator) -> None:
    """What is promised: 37 bytes a hit, and 110 for those of a block, whatever the chunks."""
    n, rays = 250, 8_192
    tree = bvh.BVH.from_triangles(*layers(np.arange(float(n)), rng))
    o = np.tile([0.1, 0.2, -5.0], (rays, 1))
    tree.all_hits(o[:300], [0.0, 0.0, 1.0])
    for count in (rays // 2, rays):
        tracemalloc.start()
        hits = len(tree.all_hits(o[:count], [0.0, 0.0, 1.0], threads=1))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 37 * hits + 110 * hits * 256 / count + 2e6


def test_soups(rng: np.random.Generator) -> None:
    """Batches of every size, and split trees, which hold a triangle more than once."""
    for quality in ("medium", "high"):
        tree = bvh.BVH.from_triangles(*soup(rng, 3_000, 1.5), quality=quality)
        for n in (1, 255, 257, 1_500):
            o, d = aims.random_rays(*tree.bounds, n, rng)
            assert_agree(tree, (o, d))


def test_boxes(rng: np.random.Generator) -> None:
    """Boxes and oriented boxes: each that is met, once, at the end where the ray comes in."""
    lower = rng.random((300, 3))
    upper = lower + 0.3 * rng.random((300, 3))
    o, d = aims.random_rays(np.zeros(3), np.ones(3), 500, rng)
    matrices = np.tile(np.eye(4), (300, 1, 1))
    for tree in (bvh.BVH.from_boxes(lower, upper), bvh.BVH.from_obbs(lower, upper, matrices)):
        hits = assert_agree(tree, (o, d))
        met, near, _ = bvh.ray_box(o[:, None], d[:, None], lower, upper)
        assert np.array_equal(hits.counts, met.sum(axis=1))
        assert np.array_equal(hits.t, near[hits.ray_id, hits.prim_id])
        assert np.array_equal(tree.count_hits(o, d), hits.counts)


def test_shapes() -> None:
    """One ray, images, no rays and no mesh."""
    tree = bvh.BVH.from_triangles(*sphere())
    one = tree.all_hits([0.0, 0.0, -9.0], [0.01, 0.02, 1.0])
    assert one.offsets.tolist() == [0, 2] and one.counts == 2 and len(one) == 2
    assert tree.count_hits([0.0, 0.0, -9.0], [0.01, 0.02, 1.0]) == 2
    image = tree.all_hits(np.zeros((5, 7, 3)), np.ones(3))
    assert image.counts.shape == (5, 7) and len(image.offsets) == 36
    assert repr(image) == f"AllHits({len(image)} hits of 35 rays)"
    for rays in (np.zeros((0, 3)), np.ones(3)), (np.ones((4, 3)), np.zeros(3)):
        empty = tree.all_hits(*rays)
        assert len(empty) == 0 and empty.offsets[-1] == 0
        assert empty.prim_id.dtype == np.int32 and empty.front.dtype == np.bool_
    nothing = bvh.BVH.from_triangles(np.zeros((0, 3)), np.zeros((0, 3), int))
    assert len(nothing.all_hits(np.zeros((3, 3)), np.ones(3))) == 0
    assert nothing.count_hits(np.zeros((3, 3)), np.ones(3)).tolist() == [0, 0, 0]


def test_more_than_an_integer_holds() -> None:
    """A `max_hits` past 64 bits keeps all."""
    tree = bvh.BVH.from_triangles(*sphere())
    assert len(tree.all_hits([0.0, 0.0, -9.0], [0.01, 0.02, 1.0], max_hits=2**70)) == 2


def test_progress() -> None:
    """Told in rays, up to all of them."""
    tree = bvh.BVH.from_triangles(*sphere())
    told: list[tuple[int, int]] = []
    tree.all_hits(np.zeros((9_000, 3)), np.ones(3), progress=lambda *at: told.append(at))
    assert told[-1] == (9_000, 9_000)
    nothing = bvh.BVH.from_triangles(np.zeros((0, 3)), np.zeros((0, 3), int))
    for ask in (nothing.all_hits, nothing.count_hits):
        told.clear()
        ask(np.zeros((9, 3)), np.ones(3), progress=lambda *at: told.append(at))
        assert told[-1] == (9, 9)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCAN_NAMES)
def test_scans(name: str, rng: np.random.Generator) -> None:
    """2 000 random rays, some of them aimed at features, against rational arithmetic."""
    if not (SCANS / name).is_file():
        pytest.skip(f"{name} is not at hand")
    tree = bvh.BVH.from_mesh(read_file(SCANS / name, "a mesh"))
    o, d = aims.random_rays(*tree.bounds, 2_000, rng)
    d[::4] = aims.features(tree.vertices, tree.faces, rng)[: len(d[::4])] - o[::4]
    got = assert_agree(tree, (o, d))
    want = oracle.all_hits(tree.vertices, tree.faces, o, d)
    assert np.array_equal(got.ray_id, want.ray_id) and np.array_equal(got.prim_id, want.prim_id)
    assert np.array_equal(got.t, want.t)
