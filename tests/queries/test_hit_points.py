"""Positions and normals of hits: what they are, whose they stay, and where there are none."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numba
import numpy as np
import pytest

import bvh
from bvh.queries.batches import quick_calls

Rng = np.random.Generator


def rays_at(rng: Rng, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return rays from a ball of radius 6 to points near the origin."""
    origins = rng.normal(size=(*shape, 3))
    origins *= 6.0 / np.linalg.norm(origins, axis=-1, keepdims=True)
    return origins, rng.uniform(-1.0, 1.0, (*shape, 3)) - origins


def soup(rng: Rng, n: int) -> tuple[Any, Any]:
    """Return triangles around the origin, turned in any way."""
    places = rng.uniform(-1.5, 1.5, (n, 1, 3))
    return (places + rng.normal(size=(n, 3, 3))).reshape(-1, 3), np.arange(3 * n).reshape(-1, 3)


def placed(rng: Rng, mirrored: bool) -> Any:
    """Return a matrix that turns, shears, scales and, if wanted, reflects."""
    matrix = np.eye(4)
    matrix[:3, :3] = rng.normal(size=(3, 3)) + 2.0 * np.eye(3)
    if (np.linalg.det(matrix[:3, :3]) < 0.0) != mirrored:
        matrix[0, :3] *= -1.0
    matrix[:3, 3] = rng.uniform(-1.0, 1.0, 3)
    return matrix


def check(hits: Any, origins: Any, directions: Any, corners: Any) -> None:
    """Compare with the rays, and with the corners (..., 3, 3) of the faces that are hit."""
    at, normal, mask = hits.position, hits.normal, hits.mask
    assert at.shape == normal.shape == (*mask.shape, 3)
    assert np.isnan(at[~mask]).all() and np.isnan(normal[~mask]).all()
    assert np.allclose(at[mask], (origins + hits.t[..., None] * directions)[mask])
    a, b, c = np.moveaxis(corners, -2, 0)
    wanted = np.cross(b - a, c - a)
    wanted /= np.linalg.norm(wanted, axis=-1, keepdims=True)
    assert np.allclose(normal[mask], wanted[mask])
    against = (normal * directions).sum(axis=-1) < 0.0
    assert np.array_equal(against[mask], hits.front[mask])
    assert hits.position is at and hits.normal is normal
    for array in (at, normal):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


@pytest.mark.parametrize("shape", [(40,), (7, 6), (5000,)])
def test_trees(shape: tuple[int, ...], rng: Rng) -> None:
    """Small and large batches, and those of other shapes."""
    vertices, faces = soup(rng, 200)
    tree = bvh.BVH.from_triangles(vertices, faces)
    origins, directions = rays_at(rng, shape)
    for options in ({}, {"counters": True}, {"sort": True}):
        hits = tree.closest_hit(origins, directions, **options)
        check(hits, origins, directions, vertices[faces[hits.prim_id]])
    # Picked from, they are those of the whole.
    assert np.array_equal(hits[1:3].position, hits.position[1:3], equal_nan=True)
    assert np.array_equal(hits[hits.mask].normal, hits.normal[hits.mask])
    one = tree.closest_hit(origins.reshape(-1, 3)[0], directions.reshape(-1, 3)[0])
    assert one.position.shape == one.normal.shape == (3,)
    first = hits.position.reshape(-1, 3)[0]
    assert np.array_equal(one.position, first, equal_nan=True)
    assert tree.closest_hit(origins[:0], directions[:0]).position.shape == (0, *shape[1:], 3)


@pytest.mark.parametrize("count", [3, 4096])
def test_scenes(count: int, rng: Rng) -> None:
    """As of the flattened mesh, reflected instances among them; merged into one tree, or not."""
    vertices, faces = soup(rng, 40)
    tree, scene = bvh.BVH.from_triangles(vertices, faces), bvh.Scene()
    inner = bvh.Scene()
    inner.add(tree, placed(rng, True))
    for child, mirrored in ((tree, False), (tree, True), (inner, False), (inner, True)):
        scene.add(child, placed(rng, mirrored))
    whole, index, leaf, prim = scene.flattened()
    row = {key: k for k, key in enumerate(zip(leaf.tolist(), prim.tolist(), strict=True))}
    origins, directions = rays_at(rng, (count,))
    for _ in range(3):
        hits = scene.closest_hit(origins, directions)
        keys = zip(hits.leaf.tolist(), hits.prim_id.tolist(), strict=True)
        check(hits, origins, directions, whole[index[[row.get(key, 0) for key in keys]]])
    if count > 9:
        assert set(hits.leaf[hits.mask].tolist()) == {0, 1, 2, 3}
    some = int(hits.mask.argmax())
    one = scene.closest_hit(origins[some], directions[some])
    assert np.array_equal(one.position, hits.position[some], equal_nan=True)
    assert np.array_equal(one.normal, hits.normal[some], equal_nan=True)


def test_normals_follow_the_inverse_transpose(rng: Rng) -> None:
    """Turned over by a reflection, as `front` is."""
    tree, scene = bvh.BVH.from_triangles(*soup(rng, 40)), bvh.Scene()
    for mirrored in (False, True):
        matrix = placed(rng, mirrored)
        number = scene.add(tree, matrix)
        origins, directions = rays_at(rng, (50,))
        hits = scene.closest_hit(origins, directions)
        hits = hits[hits.instance_id == number]
        corners = tree.vertices[tree.faces[hits.prim_id]]
        own = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        wanted = own @ np.linalg.inv(matrix[:3, :3]) * (-1.0 if mirrored else 1.0)
        assert np.allclose(hits.normal, wanted / np.linalg.norm(wanted, axis=1, keepdims=True))
        scene.remove(number)


def test_far_from_the_origin() -> None:
    """On the face, where the ray's own point is off by what its distance has cost."""
    tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    origin, direction = np.array([0.25, 0.5, 1e15]), np.array([0.0, 0.0, -49.0])
    hit = tree.closest_hit(origin, direction)
    assert hit.position.tolist() == [0.25, 0.5, 0.0]
    assert (origin + hit.t * direction)[2] != 0.0


def test_boxes(rng: Rng) -> None:
    """The point of the ray, kept although the caller's arrays change; sides, turned and mapped."""
    lower = rng.uniform(-2.0, 2.0, (30, 3))
    upper = lower + rng.uniform(0.2, 1.0, (30, 3))
    turned = np.stack([placed(rng, k % 2 == 1) for k in range(30)])
    boxes, obbs = bvh.BVH.from_boxes(lower, upper), bvh.BVH.from_obbs(lower, upper, turned)
    scene, matrix = bvh.Scene(), placed(rng, True)
    scene.add(boxes, matrix)
    scene.add(obbs)
    for target in (boxes, obbs, scene):
        for shape in ((60,), (9, 7)):
            origins, directions = rays_at(rng, shape)
            hits = target.closest_hit(origins, directions)
            where = np.where(hits.mask, hits.t, np.nan)[..., None] * directions + origins
            part = hits[1:]
            origins[...] = directions[...] = 0.0
            assert np.allclose(hits.position, where, equal_nan=True)
            assert np.array_equal(part.position, hits.position[1:], equal_nan=True)
            assert np.allclose(np.linalg.norm(hits.normal[hits.mask], axis=-1), 1.0)
    # A little inside and a little outside, along the normal.
    origins, directions = rays_at(rng, (200,))
    for k in range(30):
        for lone in (
            bvh.BVH.from_boxes(lower[k : k + 1], upper[k : k + 1]),
            bvh.BVH.from_obbs(lower[k : k + 1], upper[k : k + 1], turned[k : k + 1]),
        ):
            hits = lone.closest_hit(origins, directions)
            at, normal = hits.position[hits.front], hits.normal[hits.front]
            for step, wanted in ((1e-6, 0), (-1e-6, 1)):
                # A ray from inside a box hits it at once.
                found = lone.closest_hit(at + step * normal, normal, t_max=0.0)
                assert (found.mask == wanted).all()


def test_custom_primitives() -> None:
    @numba.njit
    def plane(prim_id, origin, direction, t_min, t_max, data):
        return (1.0 - origin[2]) / direction[2], 7.0, 8.0

    tree = bvh.BVH.from_custom([[0, 0, 1]], [[1, 1, 1]], plane)
    hits = tree.closest_hit([[0.5, 0.5, 0.0], [0.5, 0.5, 3.0]], [[0, 0, 1], [0, 0, 1]])
    assert np.array_equal(hits.position, [[0.5, 0.5, 1.0], [np.nan] * 3], equal_nan=True)
    with pytest.raises(AttributeError, match="custom primitives have no normals"):
        hits.normal  # noqa: B018


def test_after_a_refit(rng: Rng) -> None:
    """The geometry at the time of the query, of trees and of scenes of them."""
    vertices, faces = soup(rng, 100)
    origins, directions = rays_at(rng, (50,))
    for single in (False, True):
        tree, scene = bvh.BVH.from_triangles(vertices, faces), bvh.Scene()
        scene.add(tree)
        given = ([0.3, 0.2, 9.0], [-0.01, 0.0, -1.0]) if single else (origins, directions)
        early = [target.closest_hit(*given) for target in (tree, scene)]
        wanted = [target.closest_hit(*given).position for target in (tree, scene)]
        tree.refit(vertices + [0.0, 0.0, 5.0])
        late = [target.closest_hit(*given) for target in (tree, scene)]
        for before, at, after in zip(early, wanted, late, strict=True):
            assert np.array_equal(before.position, at, equal_nan=True)
            assert not np.array_equal(after.position, at, equal_nan=True)


def test_after_a_move(rng: Rng) -> None:
    """Refused for what has moved, right for what has not, and for what was asked before."""
    tree, scene = (
        bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]),
        bvh.Scene(),
    )
    for x in (0.0, 5.0):
        matrix = np.eye(4)
        matrix[0, 3] = x
        scene.add(tree, matrix)
    origins, down = np.array([[0.2, 0.2, 3.0], [5.2, 0.2, 3.0]]), [0.0, 0.0, -1.0]
    asked, hits = scene.closest_hit(origins, down), scene.closest_hit(origins, down)
    single = scene.closest_hit(origins[1], down)
    before = asked.position.copy()
    scene.set_transform(1, np.diag([2.0, 2.0, 2.0, 1.0]))
    # What has not been queried since is still where it was.
    assert np.array_equal(scene.closest_hit(origins, down).position[0], [0.2, 0.2, 0.0])
    for late in (hits, single):
        with pytest.raises(RuntimeError, match="instance 1 has moved since it was hit: read"):
            late.normal  # noqa: B018
    assert np.array_equal(hits[0].position, before[0]) and np.array_equal(asked.position, before)
    assert np.array_equal(hits[:1].normal, [[0.0, 0.0, 1.0]])
    # With one more instance, the table of instances is another one.
    late = scene.closest_hit(origins, down)
    scene.add(tree)
    assert scene.closest_hit(origins, down).mask.any() and late.position.shape == (2, 3)


def checked_list(target: Any, origins: Any, directions: Any, **options: Any) -> Any:
    """Return all hits of rays, with positions and normals that are those of closest hits."""
    hits = target.all_hits(origins, directions, **options)
    rays = (np.broadcast_to(x, (*hits.shape, 3)).reshape(-1, 3) for x in (origins, directions))
    o, d = (column[hits.ray_id] for column in rays)
    # Of those at equal t, as boxes have around the same point, the lowest is the closest.
    near = target.closest_hit(o, d, hits.t, hits.t)
    alike = near.prim_id == hits.prim_id
    if "leaf" in vars(hits):
        alike &= near.leaf == hits.leaf
    assert hits.position.shape == hits.normal.shape == (len(hits), 3)
    assert np.count_nonzero(alike) > 0.5 * len(hits) > 2
    assert np.array_equal(hits.position[alike], near.position[alike])
    assert np.array_equal(hits.normal[alike], near.normal[alike])
    assert hits.position is hits.position and not hits.normal.flags.writeable
    return hits


def test_lists(rng: Rng) -> None:
    """Of trees over triangles and boxes, and of scenes; of batches and of one ray."""
    vertices, faces = soup(rng, 200)
    lower = rng.uniform(-2.0, 2.0, (40, 3))
    turned = np.stack([placed(rng, k % 2 == 1) for k in range(40)])
    trees = [
        bvh.BVH.from_triangles(vertices, faces), bvh.BVH.from_boxes(lower, lower + 0.7),
        bvh.BVH.from_obbs(lower, lower + 0.7, turned),
    ]  # fmt: skip
    scene, mixed = bvh.Scene(), bvh.Scene()
    for mirrored in (False, True):
        scene.add(trees[0], placed(rng, mirrored))
        for tree in trees:
            mixed.add(tree, placed(rng, mirrored))
    for target in (*trees, scene, mixed):
        for shape in ((60,), (4, 1, 9)):
            origins, directions = rays_at(rng, shape)
            whole = checked_list(target, origins, directions)
            first = checked_list(target, origins, directions, max_hits=2, edges="once")
            assert len(first) < len(whole)
        checked_list(target, origins[0, 0, 0], directions)
        # The rays are kept although the caller's arrays change, or are not copied at all.
        given = origins.copy(), directions.copy()
        hits = target.all_hits(*given)
        given[0][...] = given[1][...] = 0.0
        assert np.array_equal(hits.position, target.all_hits(origins, directions).position)
        flat = origins.reshape(-1, 3), directions.reshape(-1, 3)
        for k, (o, d) in enumerate(zip(*flat, strict=True)):
            one = target.all_hits(o, d)
            row = slice(*hits.offsets[k : k + 2])
            assert np.array_equal(one.position, hits.position[row])
            assert np.array_equal(one.normal, target.all_hits(*flat).normal[row])


def test_lists_that_are_copied_refitted_and_moved(rng: Rng) -> None:
    """As closest hits do: they know what was hit when it was, and refuse what has moved."""
    vertices, faces = soup(rng, 5000)
    tree, scene = bvh.BVH.from_triangles(vertices, faces), bvh.Scene()
    number = scene.add(tree)
    origins, directions = rays_at(rng, (8,))
    late = scene.all_hits([0, 0, 9], [0, 0, -1])
    hits = tree.all_hits(origins, directions, max_hits=3)
    fresh = tree.all_hits(origins, directions, max_hits=3)
    before = fresh.position
    scene.set_transform(number, np.diag([2.0, 2.0, 2.0, 1.0]))
    scene.any_hit([0, 0, 9], [0, 0, -1])
    with pytest.raises(RuntimeError, match="instance 0 has moved since it was hit"):
        late.position  # noqa: B018
    tree.refit(vertices + [0.0, 0.0, 5.0])
    assert np.array_equal(hits.position, before)
    for other in (copy.copy(hits), copy.deepcopy(fresh), pickle.loads(pickle.dumps(hits))):
        assert np.array_equal(other.position, before)
    assert len(pickle.dumps(fresh)) < 4000
    with pytest.raises(AttributeError, match="do not know what they hit"):
        pickle.loads(pickle.dumps(fresh)).normal  # noqa: B018
    assert "position" not in np.asarray(hits).dtype.names


def test_copies_and_pickles(rng: Rng) -> None:
    """A pickle has what was asked for, and never the tree."""
    vertices, faces = soup(rng, 5000)
    tree = bvh.BVH.from_triangles(vertices, faces)
    origins, directions = rays_at(rng, (8,))
    hits = tree.closest_hit(origins, directions)
    assert len(pickle.dumps(hits)) < 4000
    for other in (copy.copy(hits), copy.deepcopy(hits)):
        assert np.array_equal(other.position, hits.position, equal_nan=True)
    again = pickle.loads(pickle.dumps(hits))
    assert np.array_equal(again.position, hits.position, equal_nan=True)
    assert np.array_equal(again.t, hits.t)
    with pytest.raises(AttributeError, match="do not know what they hit"):
        again.normal  # noqa: B018
    assert not hasattr(bvh.Hits(1.0, 0, 0.2, 0.2, True), "position")
    assert copy.deepcopy(again).t.shape == (8,)


def test_rounded_hits(rng: Rng) -> None:
    tree = bvh.BVH.from_triangles(*soup(rng, 100))
    for hits in (
        tree.closest_hit(*rays_at(rng, (30,))),
        tree.closest_hit([0, 0, 5.0], [0, 0, -1.0]),
    ):
        short = hits.astype(np.float32)
        for name in ("t", "u", "v"):
            wanted = np.asarray(getattr(hits, name)).astype(np.float32)
            assert getattr(short, name).dtype == np.float32
            assert np.array_equal(getattr(short, name), wanted, equal_nan=True)
        assert type(short) is bvh.Hits and np.array_equal(short.prim_id, hits.prim_id)
        assert short.position.dtype == short.normal.dtype == np.float32
        assert np.allclose(short.position, hits.position, atol=1e-5, equal_nan=True)
    for bad in (np.int32, "U3", bool):
        with pytest.raises(TypeError, match="dtype must be a type of floats"):
            hits.astype(bad)


def test_small_batches_say_the_same(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit as the way that all other batches go."""
    tree = bvh.BVH.from_triangles(*soup(rng, 100))
    origins, directions = rays_at(rng, (40,))
    short = tree.closest_hit(origins, directions)
    monkeypatch.setattr(quick_calls, "closest_hit", lambda *_: None)
    long = tree.closest_hit(origins, directions)
    assert np.array_equal(short.position, long.position, equal_nan=True)
