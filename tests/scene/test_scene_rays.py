"""Rays in scenes: the same hits as in the mesh that all instances make together, bit for bit."""

from __future__ import annotations

import os
import time
from typing import Any

import numba
import numpy as np
import pytest
import trimesh

import bvh
from tests.cases.families import build
from tests.cases.moving_parts import (
    KINDS,
    MILD,
    PLAIN,
    hard_rays,
    nested,
    parts,
    scene_of,
    transform,
)

RANGES: tuple[tuple[float, float, Any], ...] = (
    (0.0, np.inf, None), (-np.inf, np.inf, "back"), (0.0, 1.0, "front"), (0.5, 2.0, None)
)  # fmt: skip


class Flat:
    """The mesh of a scene in a tree, and where its faces come from."""

    def __init__(self, scene: bvh.Scene) -> None:
        self.vertices, self.faces, self.leaf, self.prim = scene.flattened()
        self.tree = bvh.BVH.from_triangles(self.vertices, self.faces)

    def named(self, hits: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the leaf and the primitive of hits of the mesh."""
        found = hits.prim_id >= 0
        leaf, prim = (np.append(x, -1)[hits.prim_id] for x in (self.leaf, self.prim))
        return np.where(found, leaf, -1), np.where(found, prim, -1)


def assert_same(scene: bvh.Scene, hits: Any, flat: Flat, wanted: Any) -> None:
    """Compare hits of a scene with those of its mesh, all fields."""
    leaf, prim = flat.named(wanted)
    assert np.array_equal(hits.leaf, leaf)
    assert np.array_equal(hits.prim_id, prim)
    owners = np.append(scene.leaves.instance_id, np.int32(-1))
    assert np.array_equal(hits.instance_id, owners[leaf])
    assert np.array_equal(hits.t, wanted.t)
    for name in ("u", "v"):
        assert np.array_equal(getattr(hits, name), getattr(wanted, name), equal_nan=True)
    assert np.array_equal(hits.front, wanted.front)


def assert_all_verbs(scene: bvh.Scene, n: int, rng: np.random.Generator) -> None:
    """Compare what rays ask of a scene with what they ask of its mesh."""
    flat = Flat(scene)
    with np.errstate(all="ignore"):
        o, d = hard_rays(flat.vertices, flat.faces, n, rng)
    for low, high, cull in RANGES:
        hits = scene.closest_hit(o, d, low, high, cull=cull, threads=2)
        wanted = flat.tree.closest_hit(o, d, low, high, cull=cull)
        assert_same(scene, hits, flat, wanted)
        assert np.array_equal(scene.any_hit(o, d, low, high, cull=cull), wanted.mask)
    few = slice(0, n // 4)
    for edges in ("closed", "once"):
        many = scene.all_hits(o[few], d[few], -np.inf, edges=edges)
        wanted = flat.tree.all_hits(o[few], d[few], -np.inf, edges=edges)
        assert np.array_equal(many.offsets, wanted.offsets)
        assert_same(scene, many, flat, wanted)
        counts = scene.count_hits(o[few], d[few], -np.inf, edges=edges)
        assert np.array_equal(counts, wanted.counts)
    for most in (1, 3):
        many = scene.all_hits(o[few], d[few], max_hits=most)
        assert_same(scene, many, flat, flat.tree.all_hits(o[few], d[few], max_hits=most))
    first = scene.closest_hit(o[:20], d[:20])
    cast = scene.caster()
    for i in range(20):
        hit = cast(*o[i], *d[i])
        assert hit[0] == first.t[i]
        assert (hit[1], hit[5]) == (first.prim_id[i], first.leaf[i])
        one = scene.closest_hit(o[i], d[i])
        assert (one.t, one.leaf, one.prim_id) == (first.t[i], first.leaf[i], first.prim_id[i])
        assert one.instance_id == first.instance_id[i]


@pytest.mark.parametrize("kind", KINDS)
def test_scenes_equal_their_meshes(kind: str, rng: np.random.Generator) -> None:
    """Transforms of one kind; with instances that coincide; nested two deep."""
    assert_all_verbs(scene_of(kind, 20, rng), 400, rng)
    assert_all_verbs(scene_of(kind, 12, rng, ("same", "exact")), 400, rng)
    assert_all_verbs(nested(scene_of(kind, 3, rng), rng), 400, rng)


@pytest.mark.parametrize("rays", [200, pytest.param(2_000, marks=pytest.mark.slow)])
def test_five_hundred_instances(rays: int, rng: np.random.Generator) -> None:
    """Nested, with many rays."""
    scene = bvh.Scene()
    trees = parts()
    inner = scene_of("random", 10, rng, PLAIN)
    for _ in range(100):
        scene.add(trees[rng.integers(0, 3)], transform(PLAIN[rng.integers(0, 4)], rng))
    for _ in range(40):
        scene.add(inner, transform("rigid", rng))
    assert len(scene.leaves) == 500
    assert_all_verbs(scene, rays, rng)


@pytest.mark.slow
def test_a_million_rays(rng: np.random.Generator) -> None:
    """Through five hundred instances, nested two deep."""
    scene = nested(scene_of("random", 56, rng, PLAIN), rng)
    flat = Flat(scene)
    for _ in range(10):
        # From farther away than this, all faces are decided exactly: a matter of hours.
        o, d = hard_rays(flat.vertices, flat.faces, 100_000, rng, far=12.0)
        assert_same(scene, scene.closest_hit(o, d), flat, flat.tree.closest_hit(o, d))


@pytest.mark.slow
def test_fuzzed_scenes(rng: np.random.Generator) -> None:
    """Scenes of any kind, for as long as BVH_FUZZ_SECONDS says."""
    end = time.monotonic() + float(os.environ.get("BVH_FUZZ_SECONDS", "60"))
    while time.monotonic() < end:
        kinds = [str(kind) for kind in rng.choice(KINDS, 3)]
        scene = scene_of(kinds[0], int(rng.integers(1, 30)), rng, tuple(kinds[1:]))
        assert_all_verbs(nested(scene, rng, 1) if rng.random() < 0.3 else scene, 400, rng)


@pytest.mark.parametrize("rays", [1_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_exact_transforms_equal_plain_arithmetic(rays: int, rng: np.random.Generator) -> None:
    """Where numpy moves vertices without rounding, the scene has that mesh's hits bit for bit."""
    ball = trimesh.creation.icosphere(2)
    ball.vertices = np.round(ball.vertices * 2.0**30) * 2.0**-30
    tree = bvh.BVH.from_mesh(ball)
    scene, points, faces = bvh.Scene(), [], []
    for i in range(60):
        m = transform("exact", rng)
        scene.add(tree, m)
        points.append(tree.vertices @ m[:3, :3].T + m[:3, 3])
        faces.append(tree.faces + i * len(tree.vertices))
    mesh = bvh.BVH.from_triangles(np.concatenate(points), np.concatenate(faces))
    o, d = hard_rays(mesh.vertices, mesh.faces, rays, rng)
    hits, wanted = scene.closest_hit(o, d), mesh.closest_hit(o, d)
    assert np.array_equal(hits.t, wanted.t)
    assert np.array_equal(hits.leaf * len(tree) + hits.prim_id, np.where(
        wanted.mask, wanted.prim_id, -len(tree) - 1
    ))  # fmt: skip
    assert np.array_equal(hits.u, wanted.u, equal_nan=True)


def test_other_roundings_move_hits_as_far_as_vertices(rng: np.random.Generator) -> None:
    """A mesh whose vertices numpy has moved: the bound that `Scene` states."""
    tree = bvh.BVH.from_mesh(trimesh.creation.icosphere(3))
    scene, points, faces, sizes = bvh.Scene(), [], [], []
    for i in range(40):
        m = transform(("random", "rigid", "far")[i % 3], rng)
        scene.add(tree, m)
        points.append(tree.vertices @ m[:3, :3].T + m[:3, 3])
        faces.append(tree.faces + i * len(tree.vertices))
        sizes.append((np.abs(m[:3, :3]).sum(axis=1) + np.abs(m[:3, 3])).max())
    mesh = bvh.BVH.from_triangles(np.concatenate(points), np.concatenate(faces))
    n = 2_000
    inside = rng.dirichlet([1, 1, 1], n)
    aimed = mesh.faces[rng.integers(0, len(mesh.faces), n)]
    targets = np.einsum("ij,ijk->ik", inside, mesh.vertices[aimed])
    o = targets + rng.normal(size=(n, 3)) * 10
    d = targets - o
    hits, wanted = scene.closest_hit(o, d), mesh.closest_hit(o, d)
    same = (hits.leaf * len(tree) + hits.prim_id == wanted.prim_id) & wanted.mask
    assert same.mean() > 0.999
    corners = mesh.vertices[mesh.faces[wanted.prim_id[same]]]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    slope = np.abs((normal * d[same]).sum(axis=1))
    # Vertices differ by 4 ulp of the terms of M v at most; a plane through three of them that far
    # off moves by that over the sine of its narrowest view: here faces are nearly regular.
    away = 4 * 2.0**-52 * np.array(sizes)[hits.leaf[same]] * 20
    difference = np.abs(hits.t[same] - wanted.t[same])
    assert (difference * slope <= away + 4 * 2.0**-53 * wanted.t[same] * slope).all()


def test_no_leaks_through_closed_instances(rng: np.random.Generator) -> None:
    """From inside a closed instance, no ray at a feature escapes."""
    tree = bvh.BVH.from_mesh(trimesh.creation.icosphere(3))
    for kind in ("random", "rigid", "squash", "far", "exact", "tiny"):
        scene, m = bvh.Scene(), transform(kind, rng)
        # Others nearby, so that the ray meets several leaves.
        scene.add(tree, m)
        for _ in range(4):
            scene.add(tree, transform(kind, rng))
        vertices, faces, leaf, _ = scene.flattened()
        own = vertices[: len(tree.vertices)]
        a, b = own[faces[leaf == 0][:, 0]], own[faces[leaf == 0][:, 1]]
        part = rng.random((len(a), 1))
        targets = np.concatenate([own, 0.5 * a + 0.5 * b, a * (1 - part) + b * part])
        inside = np.array([[0.1, 0.2, 0.05]]) @ m[:3, :3].T + m[:3, 3]
        assert scene.any_hit(inside, targets - inside).all()
        assert scene.closest_hit(inside, targets - inside).mask.all()


def test_boxes_in_scenes_are_oriented_boxes(rng: np.random.Generator) -> None:
    """A box under a transform has the hits that `from_obbs` has, bit for bit."""
    lower = rng.normal(size=(50, 3))
    upper = lower + rng.random((50, 3))
    maps = np.stack([transform(MILD[i % 4], rng) for i in range(50)])
    obbs = bvh.BVH.from_obbs(lower, upper, maps)
    scene = bvh.Scene()
    for i in range(50):
        scene.add(bvh.BVH.from_boxes(lower[i : i + 1], upper[i : i + 1]), maps[i])
    centres = np.einsum("nij,nj->ni", maps[:, :3, :3], 0.5 * lower + 0.5 * upper) + maps[:, :3, 3]
    targets = centres[rng.integers(0, 50, 4_000)] + rng.normal(size=(4_000, 3)) * 0.2
    o = targets + rng.normal(size=(4_000, 3)) * 5
    for low, high in ((0.0, np.inf), (-np.inf, np.inf), (0.9, 1.1)):
        hits = scene.closest_hit(o, targets - o, low, high)
        wanted = obbs.closest_hit(o, targets - o, low, high)
        assert np.array_equal(hits.instance_id, wanted.prim_id)
        assert np.array_equal(hits.t, wanted.t)
        assert np.array_equal(hits.front, wanted.front)
    counts = scene.count_hits(o, targets - o)
    assert np.array_equal(counts, obbs.count_hits(o, targets - o))


def test_mixed_scenes(rng: np.random.Generator) -> None:
    """Triangles, boxes and oriented boxes under exact transforms: the nearest of them all."""
    boxes = bvh.BVH.from_boxes([[0, 0, 0], [2, 0, 0]], [[1, 1, 1], [3, 1, 1]])
    turned = transform("exact", rng)
    obbs = bvh.BVH.from_obbs([[0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0]], turned[None])
    ball = parts()[0]
    scene = bvh.Scene()
    kinds = [boxes, obbs, ball]
    maps = [transform("exact", rng) for _ in range(30)]
    for i, m in enumerate(maps):
        scene.add(kinds[i % 3], m)
    o = rng.normal(size=(2_000, 3)) * 20
    d = rng.normal(size=(2_000, 3)) - o * 0.2
    hits = scene.closest_hit(o, d)
    best = np.full(len(o), np.inf)
    owner = np.full(len(o), -1)
    for i, m in enumerate(maps):
        if i % 3 == 2:
            moved = bvh.BVH.from_triangles(ball.vertices @ m[:3, :3].T + m[:3, 3], ball.faces)
        elif i % 3 == 1:
            moved = bvh.BVH.from_obbs([[0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0]], (m @ turned)[None])
        else:
            corners = np.array([[[0, 0, 0], [1, 1, 1]], [[2, 0, 0], [3, 1, 1]]]) @ m[:3, :3].T
            corners = corners + m[:3, 3]
            moved = bvh.BVH.from_boxes(corners.min(axis=1), corners.max(axis=1))
        t = moved.closest_hit(o, d).t
        owner = np.where(t < best, i, owner)
        best = np.minimum(best, t)
    assert np.array_equal(hits.t, best)
    # Reflected balls are rounded differently by no one: these maps are exact.
    assert np.array_equal(hits.instance_id, owner)


def test_masks(rng: np.random.Generator) -> None:
    """A ray sees an instance if they share a bit; what is hidden is seen by none."""
    tree, scene = parts()[1], bvh.Scene()
    for i in range(4):
        m = np.eye(4)
        m[2, 3] = -3.0 * i
        scene.add(tree, m, mask=1 << i)
    o, d = np.zeros((5, 3)), np.tile([0.0, 0.0, -1.0], (5, 1))
    o[:, 2] = 9.0
    masks = np.array([1, 2, 4, 8, 0])
    assert scene.closest_hit(o, d, mask=masks).instance_id.tolist() == [0, 1, 2, 3, -1]
    assert scene.any_hit(o, d, mask=masks).tolist() == [True] * 4 + [False]
    assert scene.count_hits(o, d, mask=masks).tolist() == [2, 2, 2, 2, 0]
    assert scene.closest_hit(o[0], d[0], mask=12).instance_id == 2
    assert scene.caster(mask=8)(0.0, 0.0, 9.0, 0.0, 0.0, -1.0)[5] == 3
    scene.set_visible(0, False)
    assert scene.closest_hit(o[0], d[0]).instance_id == 1
    assert not scene.any_hit(o[0], d[0], mask=1)
    scene.set_visible(0, True)
    scene.set_mask(0, 0x80000000)
    assert scene.closest_hit(o[0], d[0], mask=0x80000000).instance_id == 0
    for bad, kind in (
        (-1, ValueError),
        (2**32, ValueError),
        (1.5, TypeError),
        ([1, 2], ValueError),
    ):
        with pytest.raises(kind, match="mask"):
            scene.closest_hit(o, d, mask=bad)


def test_filters(rng: np.random.Generator) -> None:
    """A filter is told the instance."""

    @numba.njit
    def others(ray_id, instance_id, prim_id, t, u, v, data):
        return instance_id != data[ray_id]

    scene = scene_of("rigid", 20, rng)
    flat = Flat(scene)
    o, d = hard_rays(flat.vertices, flat.faces, 300, rng)
    first = scene.closest_hit(o, d)
    hits = scene.closest_hit(o, d, filter=others, data=first.instance_id)
    lists = scene.all_hits(o, d)
    wanted = np.full(300, np.inf)
    kept = lists.instance_id != first.instance_id[lists.ray_id]
    np.minimum.at(wanted, lists.ray_id[kept], lists.t[kept])
    assert np.array_equal(hits.t, wanted)
    assert np.array_equal(scene.any_hit(o, d, filter=others, data=first.instance_id), hits.mask)
    some = scene.all_hits(o, d, filter=others, data=first.instance_id)
    assert np.array_equal(some.t, lists.t[kept])
    with pytest.raises(TypeError, match="instance_id"):
        scene.closest_hit(o, d, filter=numba.njit(lambda ray_id, prim_id: True))


@pytest.mark.answers
@pytest.mark.parametrize("name", ["mixed_scales_1e+30", "mixed_scales_1e+75"])
def test_trees_that_are_tiny_in_their_scene(name: str, rng: np.random.Generator) -> None:
    """Distances in units of their frames overflow float32."""
    family = build(name)
    for count in (2, 3, 5, 9, 17) * 2:
        part, scene = rng.integers(0, count, len(family.faces)), bvh.Scene()
        for number in np.unique(part):
            scene.add(bvh.BVH.from_triangles(family.vertices, family.faces[part == number]))
        flat, rays = Flat(scene), np.tile([family.origins, family.directions], (1, count, 1))
        assert_same(scene, scene.closest_hit(*rays), flat, flat.tree.closest_hit(*rays))


def test_reflections_turn_faces_over() -> None:
    """The front is where the moved vertices wind counterclockwise."""
    tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    for m in (np.eye(4), np.diag([-1.0, 1.0, 1.0, 1.0])):
        scene = bvh.Scene()
        scene.add(tree, m)
        o, d = [0.25 * m[0, 0], 0.25, 1.0], [0.0, 0.0, -1.0]
        front = m[0, 0] > 0
        assert scene.closest_hit(o, d).front == front
        assert bool(scene.closest_hit([o], [d], cull="back").mask[0]) == front
        assert bool(scene.closest_hit([o], [d], cull="front").mask[0]) != front


def test_counted_rays(rng: np.random.Generator) -> None:
    """Counting changes no hit."""
    scene = scene_of("rigid", 20, rng)
    flat = Flat(scene)
    o, d = hard_rays(flat.vertices, flat.faces, 300, rng)
    hits, counted = scene.closest_hit(o, d), scene.closest_hit(o, d, counters=True)
    assert_same(scene, counted, flat, flat.tree.closest_hit(o, d))
    assert np.array_equal(hits.t, counted.t)
    assert (counted.nodes[counted.mask] > 0).all()


def test_empty_scenes_and_trees() -> None:
    """Nothing is hit where there is nothing."""
    scene = bvh.Scene()
    ray = [0.25, 0.25, 1.0], [0.0, 0.0, -1.0]
    for _ in range(2):
        assert scene.closest_hit(*ray).prim_id == scene.closest_hit(*ray).leaf == -1
        assert scene.closest_hit([ray[0]], [ray[1]]).instance_id.tolist() == [-1]
        assert not scene.any_hit(*ray)
        assert len(scene.all_hits(*ray)) == 0
        assert scene.caster()(*ray[0], *ray[1])[5] == -1
        scene.add(bvh.BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), int)))
    scene.add(bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]))
    assert scene.closest_hit(*ray).instance_id == 2


def test_bad_rays_miss(rng: np.random.Generator) -> None:
    """And leave the rest of their batch alone."""
    scene = scene_of("rigid", 10, rng)
    flat = Flat(scene)
    o, d = hard_rays(flat.vertices, flat.faces, 100, rng)
    wanted = scene.closest_hit(o, d)
    o[::9], d[1::9] = np.nan, 0.0
    hits = scene.closest_hit(o, d)
    good = np.isfinite(o).all(axis=1) & d.any(axis=1)
    assert np.array_equal(hits.t[good], wanted.t[good])
    assert not hits.mask[~good].any()


def test_custom_trees_are_refused() -> None:
    """They have no vertices that a transform could move."""

    @numba.njit
    def never(prim_id, origin, direction, t_min, t_max, data):
        return np.inf, 0.0, 0.0

    tree = bvh.BVH.from_custom([[0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0]], never, 0.0)
    with pytest.raises(TypeError, match="child must be over triangles"):
        bvh.Scene().add(tree)
