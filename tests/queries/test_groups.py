"""Groups of faces: a query with a mask answers as if there were only the faces that count."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH, Scene
from tests.cases.families import FAMILIES, build

ALL = 0xFFFFFFFF
MASKS = (1, 6, 8, 0, 0x80000000, ALL)
QUALITIES = ("medium", "high")
EYE = np.eye(4)


def bits_for(rng: np.random.Generator, count: int) -> Any:
    """Return groups of three bits, some faces without any, and the highest bit of some."""
    return rng.integers(0, 8, count).astype(np.uint32) | (rng.random(count) < 0.2) << np.uint32(31)


def soup(rng: np.random.Generator, count: int) -> Any:
    """Return triangles of all sizes in a unit cube."""
    vertices = rng.random((count, 1, 3)) + rng.normal(size=(count, 3, 3)) * rng.random(
        (count, 1, 1)
    )
    return vertices.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3)


def rays_for(rng: np.random.Generator, vertices: Any, count: int) -> Any:
    """Return rays around the finite vertices, half of them through vertices and midpoints."""
    points = np.asarray(vertices)[np.isfinite(vertices).all(axis=1)]
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.where(high > low, high - low, 1.0)
    origins = low + (rng.random((count, 3)) * 2 - 0.5) * size
    aims = low + rng.random((count, 3)) * size
    chosen = points[rng.integers(len(points), size=(count // 2, 2))]
    aims[: count // 2] = 0.5 * chosen[:, 0] + 0.5 * chosen[:, 1]
    aims[: count // 4] = chosen[: count // 4, 0]
    return origins, aims - origins


def same_hits(found: Any, wanted: Any, names: Any) -> None:
    """Compare hits bit for bit; those wanted are of faces with other ids."""
    np.testing.assert_array_equal(found.prim_id, names[wanted.prim_id])
    for field in ("t", "u", "v", "front"):
        np.testing.assert_array_equal(getattr(found, field), getattr(wanted, field), field)


def same_answers(tree: Any, mesh: Any, groups: Any, mask: int | None, rays: Any) -> None:
    """Compare all queries with those of a tree of the faces that count."""
    vertices, faces = mesh
    given = {} if mask is None else {"mask": mask}
    kept = np.flatnonzero(groups & np.uint32(ALL if mask is None else mask))
    few, names = BVH.from_triangles(vertices, faces[kept]), np.append(kept, -1)
    points = rays[0]
    same_hits(tree.closest_hit(*rays, **given), few.closest_hit(*rays), names)
    same_hits(tree.closest_hit(*rays, sort=True, **given), few.closest_hit(*rays), names)
    for cull in (None, "back"):
        found = tree.any_hit(*rays, cull=cull, **given)
        np.testing.assert_array_equal(found, few.any_hit(*rays, cull=cull))
    for edges in ("closed", "once"):
        for limit in (None, 2):
            found = tree.all_hits(*rays, edges=edges, max_hits=limit, **given)
            wanted = few.all_hits(*rays, edges=edges, max_hits=limit)
            same_hits(found, wanted, names)
            np.testing.assert_array_equal(found.offsets, wanted.offsets)
        found = tree.count_hits(*rays, edges=edges, **given)
        np.testing.assert_array_equal(found, few.count_hits(*rays, edges=edges))
    for k in (None, 3):
        near, nearest = tree.closest_point(points, k=k, **given), few.closest_point(points, k=k)
        np.testing.assert_array_equal(near.prim_id, names[nearest.prim_id])
        np.testing.assert_array_equal(near.position, nearest.position)
    np.testing.assert_array_equal(tree.distance(points, **given), few.distance(points))
    np.testing.assert_array_equal(tree.winding_number(points, **given), few.winding_number(points))
    upper = points + np.ptp(points, axis=0) / 8
    boxes, wanted = tree.overlap_box(points, upper, **given), few.overlap_box(points, upper)
    np.testing.assert_array_equal(boxes.prim_id, names[wanted.prim_id])
    np.testing.assert_array_equal(boxes.offsets, wanted.offsets)
    casts, cast = tree.caster(**given), few.caster()
    for i in range(min(len(points), 20)):
        ray = (*rays[0][i].tolist(), *rays[1][i].tolist())
        t, prim, *others = cast(*ray)
        np.testing.assert_array_equal(casts(*ray), (t, names[prim], *others))
        same_hits(
            tree.closest_hit(*(part[i] for part in rays), **given),
            few.closest_hit(*(part[i] for part in rays)), names,
        )  # fmt: skip


@pytest.mark.answers
@pytest.mark.parametrize("quality", QUALITIES)
def test_a_tree_of_the_faces_that_count(quality: str) -> None:
    """Rays, points and regions get the same answers, whatever builder made the tree."""
    rng = np.random.default_rng(3)
    mesh = soup(rng, 400)
    groups = bits_for(rng, 400)
    tree = BVH.from_triangles(*mesh, groups=groups, quality=quality)
    rays = rays_for(rng, mesh[0], 700)
    for mask in (None, *MASKS):
        same_answers(tree, mesh, groups, mask, rays)


@pytest.mark.answers
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_hostile_meshes(name: str) -> None:
    """Ties, shared edges, faces without area and without finite vertices change nothing."""
    case = build(name)
    vertices, faces, rays = case.vertices, case.faces, (case.origins, case.directions)
    groups = bits_for(np.random.default_rng(5), len(faces))
    tree = BVH.from_triangles(vertices, faces, groups=groups)
    with np.errstate(all="ignore"):
        mask = 6
        same_answers(tree, (vertices, faces), groups, mask, rays)
        kept = np.flatnonzero(groups & np.uint32(mask))
        few, names = BVH.from_triangles(vertices, faces[kept]), np.append(kept, -1)
        given = (*rays, case.t_min, case.t_max)
        same_hits(
            tree.closest_hit(*given, mask=mask, cull=case.cull),
            few.closest_hit(*given, cull=case.cull), names,
        )  # fmt: skip


@pytest.mark.answers
def test_masks_of_rays_in_streams_and_alone() -> None:
    """Each ray of a picture, or of none, has its own mask; faces behind others are reached."""
    rng = np.random.default_rng(7)
    vertices, faces = soup(rng, 300)
    groups = bits_for(rng, 300)
    tree = BVH.from_triangles(vertices, faces, groups=groups)
    x, y = np.meshgrid(np.linspace(-1, 2, 96), np.linspace(-1, 2, 64))
    targets = np.stack([x, y, np.zeros_like(x)], axis=-1)
    origin = np.array([0.5, 0.5, 6.0])
    masks = rng.integers(0, 8, x.shape).astype(np.uint32)
    masks[:32] = 2
    for query in (tree.closest_hit, lambda *a, **k: tree.all_hits(*a, **k, max_hits=1)):
        hits = query(origin, targets - origin, mask=masks)
        for mask in range(8):
            its = masks == mask
            alone = query(origin, (targets - origin)[its], mask=mask)
            if hasattr(hits, "offsets"):
                counts = np.diff(hits.offsets)
                np.testing.assert_array_equal(counts[its.ravel()], np.diff(alone.offsets))
            else:
                np.testing.assert_array_equal(hits.prim_id[its], alone.prim_id)
                np.testing.assert_array_equal(hits.t[its], alone.t)
                met = alone.prim_id[alone.prim_id >= 0]
                assert (groups[met] & np.uint32(mask)).all()
    blocked = tree.any_hit(origin, targets - origin, mask=masks)
    np.testing.assert_array_equal(blocked, np.diff(hits.offsets).reshape(x.shape) > 0)
    counted = tree.closest_hit(origin, targets - origin, mask=2, counters=True)
    plain = tree.closest_hit(origin, targets - origin, mask=2)
    np.testing.assert_array_equal(counted.prim_id, plain.prim_id)


@pytest.mark.answers
def test_inside_of_the_faces_that_count() -> None:
    """Two closed surfaces in one mesh, each a group: inside is inside of those that count."""
    import trimesh

    inner, outer = trimesh.creation.box(extents=[1, 1, 1]), trimesh.creation.icosphere(3)
    both = trimesh.util.concatenate([inner, outer])
    groups = np.repeat([1, 2], [len(inner.faces), len(outer.faces)])
    tree = BVH.from_mesh(both, groups=groups)
    points = np.random.default_rng(9).random((500, 3)) * 3 - 1.5
    for mask, mesh in ((1, inner), (2, outer), (3, both)):
        alone = BVH.from_mesh(mesh)
        for method in ("parity", "winding"):
            wanted = alone.contains(points, method=method)
            np.testing.assert_array_equal(
                tree.contains(points, method=method, mask=mask), wanted, method
            )
        found = tree.signed_distance(points, mask=mask)
        np.testing.assert_array_equal(found, alone.signed_distance(points))
    assert not tree.contains(points, mask=4).any()
    assert np.isposinf(tree.signed_distance(points, mask=4)).all()


@pytest.mark.answers
def test_trees_without_groups() -> None:
    """Their faces, and boxes, have all bits: only a mask of 0 chooses nothing."""
    tree, corners = BVH.from_triangles(np.eye(3), [[0, 1, 2]]), (np.zeros((1, 3)), np.ones((1, 3)))
    ray = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.5]]), np.array([-1.0, -1.0, -1.0])
    assert tree.groups is None
    boxes = BVH.from_boxes(*corners), BVH.from_obbs(*corners, EYE[None])
    for any_tree in (tree, *boxes):
        for mask in (1, ALL, [4, 8]):
            assert any_tree.any_hit(*ray, mask=mask).all()
            assert any_tree.closest_hit(*ray, mask=mask).mask.all()
        assert any_tree.caster(mask=5)(1.0, 1.0, 1.0, -1.0, -1.0, -1.0)[1] == 0
        assert any_tree.caster(mask=0)(1.0, 1.0, 1.0, -1.0, -1.0, -1.0)[1] == -1
        for query in (any_tree.closest_hit, any_tree.any_hit, any_tree.count_hits):
            nothing = query(*ray, mask=0, validate_rays=True)
            assert not np.any(getattr(nothing, "mask", nothing))
        np.testing.assert_array_equal(any_tree.any_hit(*ray, mask=[0, 2]), [False, True])
        np.testing.assert_array_equal(any_tree.count_hits(*ray, -np.inf, mask=[1, 0]) > 0, [1, 0])
    for any_tree in (tree, boxes[0]):
        assert len(any_tree.overlap_box([0, 0, 0], [1, 1, 1], mask=2)) == 1
        assert len(any_tree.overlap_sphere([0, 0, 0], 2.0, mask=0)) == 0
    points = ray[0]
    assert (tree.closest_point(points, mask=3).prim_id == 0).all()
    assert np.isposinf(tree.distance(points, mask=0)).all()
    assert not tree.contains(points, mask=0).any()
    assert (tree.winding_number(points, mask=0) == 0.0).all()


@pytest.mark.answers
# Its meshes have open edges, and what parity says of them must be the same, too.
@pytest.mark.filterwarnings("ignore:.*has open edges:bvh.BVHWarning")
@pytest.mark.parametrize("nested", [False, True])
def test_scenes(nested: bool) -> None:
    """A ray's mask must share bits with the instance's mask and with the face's groups."""
    rng = np.random.default_rng(11)
    meshes = [soup(rng, count) for count in (90, 60, 40)]
    groups = [bits_for(rng, 90), bits_for(rng, 60), None]
    maps = np.tile(EYE, (9, 1, 1))
    maps[:, :3, :3] = rng.normal(size=(9, 3, 3))
    maps[:, :3, 3] = 2.0 * rng.normal(size=(9, 3))
    masks = rng.integers(0, 8, 9).tolist()

    def scene_of(trees: Any, masks: Any) -> Any:
        scene = Scene()
        for k in range(9):
            child = trees[k % 3]
            if nested:
                child = Scene()
                child.add(trees[k % 3])
            scene.add(child, maps[k], mask=masks[k])
        return scene

    scene = scene_of(
        [BVH.from_triangles(*m, groups=g) for m, g in zip(meshes, groups, strict=True)], masks
    )
    rays = 3.0 * rng.normal(size=(600, 3)), rng.normal(size=(600, 3))
    x, y = np.meshgrid(np.linspace(-1, 1, 96), np.linspace(-1, 1, 64))
    picture = np.array([0.0, 0.0, 8.0]), np.stack([x, y, np.full_like(x, -1.0)], axis=-1)
    for mask in (None, 1, 6, 0, ALL):
        bits = np.uint32(ALL if mask is None else mask)
        kept = [
            np.arange(len(m[1])) if g is None else np.flatnonzero(g & bits)
            for m, g in zip(meshes, groups, strict=True)
        ]
        few = scene_of(
            [BVH.from_triangles(m[0], m[1][k]) for m, k in zip(meshes, kept, strict=True)],
            [int(m & bits) for m in masks],
        )
        names = [np.append(k, -1) for k in kept]

        def named(found: Any, names: Any = names) -> Any:
            leaf, prim = np.asarray(found.leaf), np.asarray(found.prim_id)
            every = np.stack([np.append(n, np.full(200 - len(n), -1)) for n in names])
            return np.where(prim >= 0, every[leaf % 3, prim], -1)

        given = {} if mask is None else {"mask": mask}
        for some in (rays, picture):
            hits, wanted = scene.closest_hit(*some, **given), few.closest_hit(*some)
            np.testing.assert_array_equal(hits.prim_id, named(wanted))
            np.testing.assert_array_equal(hits.leaf, wanted.leaf)
            np.testing.assert_array_equal(hits.t, wanted.t)
            np.testing.assert_array_equal(scene.any_hit(*some, **given), few.any_hit(*some))
        every, wanted = scene.all_hits(*rays, **given), few.all_hits(*rays)
        np.testing.assert_array_equal(every.prim_id, named(wanted))
        np.testing.assert_array_equal(scene.count_hits(*rays, **given), few.count_hits(*rays))
        for k in (None, 3):
            near, wanted = (
                scene.closest_point(rays[0], k=k, **given),
                few.closest_point(rays[0], k=k),
            )
            np.testing.assert_array_equal(near.prim_id, named(wanted))
            np.testing.assert_array_equal(near.distance, wanted.distance)
        upper = rays[0] + 0.5
        found, wanted = scene.overlap_box(rays[0], upper, **given), few.overlap_box(rays[0], upper)
        np.testing.assert_array_equal(found.prim_id, named(wanted))
        np.testing.assert_array_equal(found.offsets, wanted.offsets)
        found, wanted = scene.self_overlaps(**given), few.self_overlaps()
        np.testing.assert_array_equal(found.prim_id, named(wanted))
        np.testing.assert_array_equal(
            scene.winding_number(rays[0][:90], **given), few.winding_number(rays[0][:90])
        )
        np.testing.assert_array_equal(
            scene.contains(rays[0][:90], **given), few.contains(rays[0][:90])
        )
        casts, cast = scene.caster(**given), few.caster()
        for i in range(40):
            ray = (*rays[0][i].tolist(), *rays[1][i].tolist())
            assert casts(*ray)[0] == cast(*ray)[0]


def test_pairs_of_faces() -> None:
    """Masks of both sides choose among the pairs."""
    rng = np.random.default_rng(13)
    mesh, groups = soup(rng, 120), bits_for(rng, 120)
    other, others = soup(rng, 80), bits_for(rng, 80)
    a = BVH.from_triangles(*mesh, groups=groups)
    b = BVH.from_triangles(*other, groups=others)
    pairs = BVH.from_triangles(*mesh).overlap_tree(BVH.from_triangles(*other))
    for mask, theirs in ((1, 6), (None, 2), (4, None), (0, None)):
        own_bits, bits = (np.uint32(ALL if m is None else m) for m in (mask, theirs))
        kept = (groups[pairs[:, 0]] & own_bits != 0) & (others[pairs[:, 1]] & bits != 0)
        found = a.overlap_tree(b, mask=mask, other_mask=theirs)
        np.testing.assert_array_equal(found, pairs[kept])


@pytest.mark.answers
def test_distances_and_contacts_of_faces_without_bits() -> None:
    """They are met by nothing, hints that name them included."""
    vertices = [[x, y, z] for z in (0.0, 1.0) for x, y in ((0, 0), (1, 0), (0, 1))]
    two = BVH.from_triangles(vertices, [[0, 1, 2], [3, 4, 5]], groups=[0, 1])
    one, lifted = BVH.from_triangles(vertices, [[3, 4, 5]]), np.diag([1.0, 1.0, -1.0, 1.0])
    for matrix in (None, lifted):
        wanted = 0.0 if matrix is None else 2.0
        for hint in (None, [0, 0], [1, 0], [[0, 1], [1, 1], [-1, -1]]):
            found = two.distance_to(two, matrix, hint=hint)
            assert np.all(found.distance == wanted) and np.all(found.prim_id == 1)
        found = one.distance_to(two, matrix)
        assert found.distance == wanted and found.prim_id.tolist() == [0, 1]
        for few, count in ((two, 1), (BVH.from_triangles(vertices[:3], [[0, 1, 2]], groups=0), 0)):
            scene = Scene()
            scene.add(two)
            scene.add(few, matrix)
            assert scene.clearances().distance.tolist() == [wanted] * count
            assert len(scene.collisions()) == (count if matrix is None else 0)
    assert np.isposinf(two.distance_to(few).distance)


def test_what_becomes_of_groups(tmp_path: Path) -> None:
    """Copies, pickles, files and refitted trees have them; what reads them cannot write."""
    rng = np.random.default_rng(15)
    (vertices, faces), groups = soup(rng, 80), bits_for(rng, 80)
    rays = rays_for(rng, vertices, 300)
    tree = BVH.from_triangles(vertices, faces, groups=groups)
    tree.save(tmp_path / "one.bvh")
    scene = Scene()
    scene.add(tree, mask=3)
    scene.save(tmp_path / "scene.bvh")
    saved: Any = bvh.load(tmp_path / "scene.bvh")
    np.testing.assert_array_equal(
        saved.closest_hit(*rays, mask=2).prim_id, scene.closest_hit(*rays, mask=2).prim_id
    )
    others = (
        pickle.loads(pickle.dumps(tree)), copy.copy(tree), copy.deepcopy(tree),
        bvh.load(tmp_path / "one.bvh"), bvh.load(tmp_path / "one.bvh", mmap=True),
    )  # fmt: skip
    moved = vertices + 0.1 * rng.normal(size=vertices.shape)
    for other in others:
        assert other.groups.dtype == np.uint32
        np.testing.assert_array_equal(other.groups, groups)
        for mask in (None, 2, 5):
            np.testing.assert_array_equal(
                other.closest_hit(*rays, mask=mask).prim_id,
                tree.closest_hit(*rays, mask=mask).prim_id,
            )
        with pytest.raises(ValueError, match="read-only"):
            other.groups[0] = 1
    cast = tree.caster(mask=2)
    before = cast(*rays[0][0], *rays[1][0])
    tree.refit(moved)
    assert cast(*rays[0][0], *rays[1][0]) == before
    whole = BVH.from_triangles(vertices, faces, groups=groups | 8)
    whole.refit(moved)
    for mask in (None, 2):
        same_answers(tree, (moved, faces), groups, mask, rays)
        same_answers(whole, (moved, faces), groups | 8, mask, rays)
        again = scene.closest_hit(*rays, mask=mask)
        wanted = tree.closest_hit(*rays, mask=mask)
        np.testing.assert_array_equal(again.prim_id, wanted.prim_id)
