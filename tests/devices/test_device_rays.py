"""Rays on a device: the same as on the CPU, bit for bit, in all hostile families."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trimesh
import warp as wp

import bvh
from meshes.organic import organic
from tests.cases.aims import features
from tests.cases.families import FAMILIES, build
from tests.oracles.devices import DEVICE, assert_same

pytestmark = pytest.mark.answers


def compare(tree: Any, there: Any, rays: tuple[Any, ...], **options: Any) -> int:
    """Compare all ray queries; return how many rays were left to the CPU by the first."""
    assert_same(there.closest_hit(*rays, **options), tree.closest_hit(*rays, **options))
    undecided = there.undecided
    assert_same(there.any_hit(*rays, **options), tree.any_hit(*rays, **options), "any_hit")
    for edges in ("once", "closed"):
        counts = (kind.count_hits(*rays, edges=edges, **options) for kind in (there, tree))
        assert_same(*counts, "count_hits")
        for limit in (None, 1, 3):
            lists = (
                kind.all_hits(*rays, edges=edges, max_hits=limit, **options)
                for kind in (there, tree)
            )
            assert_same(*lists)
    return undecided


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    family = build(name)
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    rays = family.origins, family.directions, family.t_min, family.t_max
    compare(tree, tree.to(DEVICE), rays, cull=family.cull)


def test_none_leaks(rng: np.random.Generator) -> None:
    """Rays from inside at edges and vertices of a closed mesh all hit; none is left to the CPU."""
    mesh = trimesh.creation.icosphere(4)
    tree = bvh.BVH.from_mesh(mesh)
    there, aims = tree.to(DEVICE), features(tree.vertices, tree.faces, rng)
    origins = rng.normal(size=aims.shape) * 0.1
    hits = there.closest_hit(origins, aims - origins)
    assert hits.mask.all() and there.undecided == 0
    assert_same(hits, tree.closest_hit(origins, aims - origins))
    # On a lattice they pass exactly through edges and vertices.
    box = bvh.BVH.from_mesh(trimesh.creation.box(extents=[4, 4, 4]).subdivide())
    grid = np.stack(np.meshgrid(*[np.arange(-3.0, 4.0)] * 3), -1).reshape(-1, 3) * 0.5
    across = np.roll(grid, 7, axis=0) - grid
    there = box.to(DEVICE)
    assert compare(box, there, (grid, across, -np.inf)) == 0


def test_a_mesh(rng: np.random.Generator) -> None:
    """Camera rays, secondary rays from surfaces, random ones; masks, sides, ranges, shapes."""
    vertices, faces = organic(5)
    groups = rng.integers(0, 4, len(faces))
    tree = bvh.BVH.from_triangles(vertices, faces, groups=groups, quality="high")
    there, reach = tree.to(DEVICE), np.abs(tree.bounds).max()
    camera = bvh.Camera.look_at(3 * tree.bounds[1], tree.bounds.mean(axis=0), [0, 0, 1], 40, 64, 48)
    rays = camera.rays()
    assert compare(tree, there, rays) == 0
    hits = tree.closest_hit(*rays)
    away = rng.normal(size=(int(hits.mask.sum()), 3))
    assert compare(tree, there, (hits.position[hits.mask], away)) == 0
    o, d = rng.normal(size=(2, 500, 3)) * reach
    for cull in ("back", "front"):
        compare(tree, there, (o, d, -0.5, 0.75), cull=cull)
    compare(tree, there, (o, d, rng.random(500), 1.0 + rng.random(500)))
    for mask in (2, rng.integers(0, 8, 500), 0):
        compare(tree, there, (o, d), mask=mask)
    assert_same(there.closest_hit(o[:4].reshape(2, 2, 3), d[0]).position,
                tree.closest_hit(o[:4].reshape(2, 2, 3), d[0]).position)  # fmt: skip
    assert repr(there.closest_hit(o[0], d[0])) == repr(tree.closest_hit(o[0], d[0]))


def test_other_trees(rng: np.random.Generator) -> None:
    """Compact trees, trees of one leaf and of nothing, refitted trees, trees deeper than stacks."""
    vertices, faces = organic(3)
    o, d = rng.normal(size=(2, 300, 3)) * np.abs(vertices).max()
    for tree in (
        bvh.BVH.from_triangles(vertices, faces, memory="compact"),
        bvh.BVH.from_triangles(vertices, faces[:3]),
        bvh.BVH.from_triangles(vertices, faces[:0]),
    ):
        compare(tree, tree.to(DEVICE), (o, d))
    tree = bvh.BVH.from_triangles(vertices, faces)
    there = tree.to(DEVICE)
    there.refit(vertices * [1.0, 2.0, 0.5])
    compare(tree, there, (o, d))
    tree.refit(vertices * [0.5, 1.0, 1.0])
    compare(tree, there, (o, d))
    assert np.array_equal(tree.bounds, bvh.BVH.from_triangles(tree.vertices, faces).bounds)
    there.target.top.depth = 1000
    assert compare(tree, there, (o, d)) == len(o)


def test_nothing_is_asked() -> None:
    """Batches of no rays and no points, of numpy and of a device."""
    tree, none = bvh.BVH.from_mesh(trimesh.creation.box()), np.zeros((0, 3))
    there, given = tree.to(DEVICE), wp.zeros(0, dtype=wp.vec3d, device=DEVICE)
    compare(tree, there, (none, [0.0, 0.0, 1.0]))
    assert_same(there.closest_point(none), tree.closest_point(none))
    assert_same(there.signed_distance(none), tree.signed_distance(none))
    assert there.closest_hit(given, given).t.shape == there.distance(given).shape == (0,)


def test_masks_without_groups(rng: np.random.Generator) -> None:
    """What has no groups has all bits: a mask of none ignores it."""
    tree = bvh.BVH.from_mesh(trimesh.creation.box())
    there, (o, d) = tree.to(DEVICE), rng.normal(size=(2, 30, 3))
    for mask in (0, 5, rng.integers(0, 2, 30)):
        compare(tree, there, (o, d), mask=mask)
        if np.ndim(mask) == 0:
            assert_same(there.closest_point(o, mask=mask), tree.closest_point(o, mask=mask))
            assert_same(there.contains(o, mask=mask), tree.contains(o, mask=mask))


def test_refusals() -> None:
    boxes = bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]])
    with pytest.raises(TypeError, match="to needs a BVH over triangles, not over boxes"):
        boxes.to(DEVICE)
    tree = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    known = wp.get_device(DEVICE)
    with pytest.raises(ValueError, match=rf"device must be one of .*{known}.*, got 'nowhere'"):
        tree.to("nowhere")
    there = tree.to(DEVICE)
    for rays, message in (
        (([0, 0], [0, 0, 1]), "origins must have shape"),
        (([0, 0, 0], ["a", "b", "c"]), "directions must be"),
        ((np.zeros((2, 3)), np.ones((3, 3))), "leading shapes do not broadcast"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            there.closest_hit(*rays)
    rays = np.zeros((2, 3)), [0, 0, 1]
    for options, message in (
        ({"max_hits": 0}, "max_hits must be at least 1"), ({"mask": -1}, "mask must be in 0"),
        ({"mask": [1, 2, 3]}, "mask must have a shape"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            there.all_hits(*rays, **options)
    given = [wp.zeros(count, dtype=wp.vec3d, device=DEVICE) for count in (2, 3)]
    with pytest.raises(ValueError, match=r"directions must have the leading shape \(2,\)"):
        there.any_hit(*given)
    with pytest.raises(ValueError, match="cull must be"):
        there.any_hit([0, 0, 0], [0, 0, 1], cull="both")
    with pytest.raises(TypeError, match=r"DeviceBVH\.closest_hit\(\) got an unexpected keyword"):
        there.closest_hit([0, 0, 0], [0, 0, 1], filter=None)
    with pytest.raises(AttributeError, match=r"the tree or scene on the CPU has it, host\.pick"):
        there.pick  # noqa: B018
    with pytest.raises(ValueError, match="edges must be"):
        there.count_hits([0, 0, 0], [0, 0, 1], edges="twice")


def test_misses_are_one_nan(rng: np.random.Generator) -> None:
    """What a miss does not have is the NaN of NumPy, bit for bit, on devices and on the CPU."""
    tree = bvh.BVH.from_mesh(trimesh.creation.icosphere(2))
    scene = bvh.Scene()
    scene.add(tree)
    o, d = rng.normal(size=(2, 5000, 3)) * [[[3.0]], [[1.0]]]
    nan = np.array(np.nan).view(np.int64)
    for kind in (tree, tree.to(DEVICE), scene, scene.to(DEVICE)):
        hits = kind.closest_hit(o, d)
        assert not hits.mask.all()
        for column in (hits.u, hits.v, hits.position, hits.normal):
            assert (column[~hits.mask].view(np.int64) == nan).all()
    for kind in (tree, tree.to(DEVICE)):
        near = kind.closest_point(o, 0.5)
        missed = near.prim_id < 0
        assert missed.any()
        for column in (near.u, near.v, near.position):
            assert (column[missed].view(np.int64) == nan).all()
    for one in (tree.closest_hit(o[0], o[0]), scene.closest_hit(o[0], o[0])):
        assert np.array([one.u, one.v]).view(np.int64).tolist() == [nan, nan]
    for query in ("all_hits", "closest_point"):
        # Batches of few and of many, by other kernels.
        found = getattr(tree, query)(o[:3], d[:3] if query == "all_hits" else 1e-3)
        for column in (found.u, found.v):
            kept = column[np.isnan(column)]
            assert (kept.view(np.int64) == nan).all()
