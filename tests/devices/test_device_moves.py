"""Scenes whose instances move: kernels place them, and answers are those of the CPU's scene."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trimesh
import warp as wp

import bvh
from bvh.devices import trees
from bvh.devices.instances import place
from bvh.geometry import transforms
from bvh.geometry.obbs import inverses
from tests.devices.test_device_rays import compare
from tests.devices.test_device_scenes import map_of, rays_of
from tests.oracles.devices import DEVICE, assert_same

pytestmark = pytest.mark.answers


def matrices(count: int, rng: np.random.Generator) -> np.ndarray:
    """Return maps of all kinds: any, rotations, mirrors and shears on a grid, nearly flat ones."""
    maps = np.array([map_of(k % 3, rng) for k in range(count)])
    maps[::4, :3, :3] @= np.eye(3) + np.triu(rng.integers(-2, 3, (3, 3)), 1)
    maps[1::4, :3, 2] *= 2.0 ** -rng.integers(0, 40, (len(maps[1::4]), 1))
    maps[2::8, :3] *= 2.0 ** rng.integers(-60, 60, (len(maps[2::8]), 1, 1))
    return maps


def scenes(count: int, rng: np.random.Generator) -> tuple[bvh.Scene, Any]:
    """Return a scene with instances of three trees, one of them without faces, and its copy."""
    shapes = trimesh.creation.icosphere(1), trimesh.creation.torus(1.0, 0.3, 8, 6)
    empty = bvh.BVH.from_triangles(np.eye(3), np.zeros((0, 3), int), warn=False)
    children, scene = [*map(bvh.BVH.from_mesh, shapes), empty], bvh.Scene()
    for k, matrix in enumerate(matrices(count, rng)):
        scene.add(children[k % 3], matrix)
    return scene, scene.to(DEVICE)


@pytest.mark.parametrize("given", ["numpy", "warp"])
def test_moves(given: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """All, some and single instances move; trees stay where they are."""
    scene, there = scenes(30, rng)
    compare(scene, there, rays_of(rng, 90))
    before = there.target.triangles
    monkeypatch.setattr(trees, "scene_on", None)
    for ids in (np.arange(30), rng.permutation(30)[:8], np.array([7])):
        maps: Any = matrices(len(ids), rng)
        if given == "warp":
            maps = wp.array(maps, dtype=wp.float64, device=DEVICE)
            ids = wp.array(ids, dtype=wp.int64, device=DEVICE)
        there.set_transforms(ids, maps)
        compare(scene, there, rays_of(rng, 90))
        o, d = rays_of(rng, 90)
        hits, wanted = there.closest_hit(o, d), scene.closest_hit(o, d)
        assert_same(hits.position, wanted.position)
        assert_same(hits.normal, wanted.normal)
    scene.set_transform(3, np.eye(4))
    scene.set_visible([3, 4, 5], [True, False, True])
    compare(scene, there, rays_of(rng, 90))
    assert there.target.triangles is before


def test_hidden_leaves_of_other_kinds(rng: np.random.Generator) -> None:
    """No ray enters them; to show one is refused, as at first."""
    scene = bvh.Scene()
    scene.add(trimesh.creation.box())
    ball = scene.add(bvh.BVH.from_spheres([[5.0, 0.0, 0.0]], [1.0]), visible=False)
    scene.add(bvh.BVH.from_boxes([[1.0, 2.0, 3.0]], [[2.0, 3.0, 4.0]]), mask=0)
    copy = scene.to(DEVICE)
    rays = rng.normal(size=(2, 50, 3))
    assert_same(copy.closest_hit(*rays), scene.closest_hit(*rays))
    scene.set_visible(ball, True)
    with pytest.raises(TypeError, match="leaf 1 is over spheres"):
        copy.closest_hit(*rays)
    scene.set_visible(ball, False)
    assert_same(copy.closest_hit(*rays), scene.closest_hit(*rays))


def test_refused(rng: np.random.Generator) -> None:
    """What the CPU refuses is refused by the same words, and changes nothing."""
    scene, there = scenes(5, rng)
    bad = np.tile(np.eye(4), (5, 2, 1, 1))
    bad[0, 1, 1, 1], bad[1, 1, 0, 3], bad[2, 1, 0, :3] = np.nan, np.inf, bad[2, 1, 1, :3]
    bad[3, 1, 3, 0], bad[4, 1, :3, :3] = 1.0, np.eye(3) * 1e-301
    rays = rays_of(rng, 60)
    before = scene.closest_hit(*rays)
    for maps in (*bad, np.eye(4), bad[0, :1], np.eye(3)[None]):
        with pytest.raises(ValueError) as wanted:
            scene.set_transforms([0, 1], maps)
        for some in (maps, wp.array(maps, dtype=wp.float64, device=DEVICE)):
            with pytest.raises(ValueError) as found:
                there.set_transforms([0, 1], some)
            assert str(found.value) == str(wanted.value)
    with pytest.raises(KeyError, match="there is no instance 9"):
        there.set_transforms([0, 9], bad[:, 0][:2])
    assert_same(there.closest_hit(*rays), before)


def test_nested(rng: np.random.Generator) -> None:
    """Leaves of nested scenes move with them; singular products are refused until mended."""
    scene, _ = scenes(6, rng)
    outer = bvh.Scene()
    outer.add_many(scene, [map_of(k, rng) for k in (1, 2)])
    there = outer.to(DEVICE)
    for moved, number in ((outer, 1), (scene, 0), (outer, 0)):
        moved.set_transform(number, map_of(2, rng))
        compare(outer, there, rays_of(rng, 60))
    flat = np.diag([1e-200, 1e-200, 1e-200, 1.0])
    scene.set_transform(0, flat)
    there.set_transforms([0], flat[None])
    for kind in (outer, there):
        with pytest.raises(ValueError, match="product of the transforms along path"):
            kind.any_hit([0.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    outer.set_transform(0, np.eye(4))
    compare(outer, there, rays_of(rng, 60))


def test_extreme_maps(rng: np.random.Generator) -> None:
    """Inverses that the device does not decide are those of the CPU; others are within an ulp."""
    scene, there = scenes(12, rng)
    maps = matrices(12, rng)
    maps[3:6, :3] *= 1e-100
    maps[6:8, :3, 3] *= 1e200
    maps[8, :3, :3] *= 1e150
    for some in (slice(9), slice(9, 12)):
        there.set_transforms(np.arange(12)[some], maps[some])
        compare(scene, there, rays_of(rng, 12))
        found = there.target.inverses.numpy()[some]
        wanted = inverses(maps[some, :3].copy())[0]
        assert (np.abs(found - wanted) <= np.spacing(np.abs(wanted))).all()


def test_positions_of_earlier_hits(rng: np.random.Generator) -> None:
    """They are refused where the instance has moved since, as on the CPU, and read elsewhere."""
    scene, there = scenes(9, rng)
    at = np.tile(np.eye(4), (9, 1, 1))
    at[:, 0, 3] = 4.0 * np.arange(9)
    there.set_transforms(np.arange(9), at)
    o = np.array([0.1, 0.0, 9.0]) + at[[0, 3, 6], :3, 3]
    hits, wanted = there.closest_hit(o, [0.0, 0.0, -1.0]), scene.closest_hit(o, [0.0, 0.0, -1.0])
    position = wanted.position
    at[:, 1, 3] = 0.25
    there.set_transforms([3], at[3:4])
    later = there.closest_hit(o, [0.0, 0.0, -1.0])
    assert_same(hits[::2].position, position[::2])
    with pytest.raises(RuntimeError, match="instance 3 has moved since it was hit"):
        hits[1].position  # noqa: B018
    wanted = scene.closest_hit(o, [0.0, 0.0, -1.0])
    position = wanted.position
    scene.remove(8)
    assert_same(there.closest_hit(o, [0.0, 0.0, -1.0]), wanted)
    assert_same(later.position, position)


def test_boxes(rng: np.random.Generator) -> None:
    """Boxes of leaves contain all moved vertices, closely; that of the top contains the boxes."""
    scene, there = scenes(60, rng)
    there.set_transforms(np.arange(60), matrices(60, rng))
    target, leaves = there.target, scene.leaves
    boxes, reach = target.leaf_boxes.numpy(), target.reach.numpy()
    for leaf, k in enumerate(leaves.tree_of):
        tree = leaves.trees[k]
        if not len(tree.faces):
            assert (boxes[leaf, 0] == np.inf).all() and (boxes[leaf, 1] == -np.inf).all()
            continue
        vertices = transforms.moved(tree.vertices, leaves.matrices[leaf])
        lower, upper = vertices.min(axis=0), vertices.max(axis=0)
        assert (boxes[leaf, 0] <= lower).all() and (upper <= boxes[leaf, 1]).all()
        assert (boxes[leaf, 1] - boxes[leaf, 0] <= 1.5 * (upper - lower) + 1e-9 * reach[leaf]).all()
        assert (reach[leaf] == np.abs(boxes[leaf]).max(axis=0)).all()
    top, count = target.top, int((boxes[:, 0, 0] < np.inf).sum())
    assert int(top.nodes) == count - 1
    ends = np.array([top.lower, top.upper]) * 2.0**-top.exponent + np.array(top.centre)
    assert (ends[0] <= boxes[:, 0]).all() and (boxes[:, 1] <= ends[1]).all()
    assert sorted(target.ids.numpy()[:count]) == [i for i in range(60) if i % 3 != 2]


def test_inverses(rng: np.random.Generator) -> None:
    """Exact sums decide where double-doubles do not: of integers, half-way quotients, flat maps."""
    maps = np.zeros((200, 3, 4))
    maps[:100] = rng.integers(-3, 4, (100, 3, 4))
    maps[100:] = rng.normal(size=(100, 3, 4))
    maps[150:, 2, :3] = maps[150:, 0, :3] + maps[150:, 1, :3] + 1e-13 * maps[150:, 2, :3]
    wanted, status = inverses(maps)
    maps, wanted = maps[status == 0], wanted[status == 0]
    scene = bvh.Scene()
    scene.add_many(
        bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]]), np.tile(np.eye(4), (len(maps), 1, 1))
    )
    there = scene.to(DEVICE)
    assert place(there.target, there._extents, np.arange(len(maps)), maps) == 0
    found = there.target.inverses.numpy()
    assert (np.abs(found - wanted) <= np.spacing(np.abs(wanted))).all()
    assert (found == wanted).mean() > 0.99
