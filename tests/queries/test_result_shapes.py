"""The shapes of results: the same rules for trees and scenes, for every query."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bvh import BVH, Scene

UNIT = [[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]
TETRAHEDRON = (np.eye(4)[:, :3] * 9.0, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
SHAPES = [(), (1,), (4,), (0,), (2, 3), (2, 0)]

RAYS = ("closest_hit", "any_hit", "count_hits", "all_hits")
POINTS = ("closest_point", "distance", "signed_distance", "contains", "winding_number")
REGIONS = ("overlap_box", "overlap_sphere", "overlap_frustum")


def arguments(query: str, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return arguments of a query with some leading shape."""
    at = np.full((*shape, 3), 0.25)
    if query in RAYS:
        return at + [0, 0, 1], np.broadcast_to([0.0, 0.0, -1.0], at.shape)
    if query in POINTS:
        return (at,)
    if query == "overlap_box":
        return at - 1.0, at + 1.0
    if query == "overlap_sphere":
        return at, np.full(shape, 2.0)
    return (np.broadcast_to([1.0, 0.0, 0.0, 0.0], (*shape, 2, 4)),)


def described(result: Any) -> dict[str, Any]:
    """Return types, shapes and lengths of a result and of its fields."""
    kinds: dict[str, Any] = {}
    names = getattr(type(result), "__dataclass_fields__", None)
    fields = {"": result} if names is None else {name: getattr(result, name) for name in names}
    # Those of scenes alone.
    fields = {name: value for name, value in fields.items() if name not in ("instance_id", "leaf")}
    for name in ("counts", "ray_id", "query_id", "mask"):
        if hasattr(result, name):
            fields[name] = getattr(result, name)
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            kinds[name] = value.dtype, value.shape
        else:
            kinds[name] = type(value), value if isinstance(value, tuple) else ()
    try:
        kinds["len"] = len(result)
    except TypeError:
        kinds["len"] = None
    return kinds


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("query", [*RAYS, *POINTS, *REGIONS])
def test_a_scene_answers_as_a_tree(query: str, shape: tuple[int, ...]) -> None:
    """What a scene adds is columns; a single query has Python's scalars in both."""
    tree, scene = BVH.from_triangles(*TETRAHEDRON), Scene()
    scene.add(tree)
    wanted, found = (getattr(target, query)(*arguments(query, shape)) for target in (tree, scene))
    added = described(found)
    common = {name: added.pop(name) for name in described(wanted)}
    assert common == described(wanted)
    assert set(added) in ({"instance_id", "leaf"}, set())
    for name in added:
        assert np.shape(getattr(found, name)) == np.shape(wanted.prim_id)
    if query in REGIONS:
        # A part of a batch is the result of a single query.
        parts = [target[0] for target in (wanted, found) if shape and len(target)]
        assert all(
            part.shape == () and part.counts == len(part) == len(part.prim_id) > 2 for part in parts
        )
    if query == "closest_point":
        for k in (1, 2):
            many = [target.closest_point(*arguments(query, shape), k=k) for target in (tree, scene)]
            assert [each.distance.shape for each in many] == 2 * [(*shape, k)]
            assert [each.position.shape for each in many] == 2 * [(*shape, k, 3)]


def test_single_results_have_scalars() -> None:
    tree = BVH.from_triangles(*UNIT)
    scene = Scene()
    scene.add(tree)
    for target in (tree, scene):
        assert type(target.closest_hit([0.2, 0.2, 1], [0, 0, -1]).t) is float
        assert type(target.all_hits([0.2, 0.2, 1], [0, 0, -1]).counts) is int
        assert type(target.count_hits([0.2, 0.2, 1], [0, 0, -1])) is int
        assert type(target.overlap_box([0, 0, 0], [1, 1, 1]).counts) is int
        assert type(target.contains([0, 0, 1])) is bool
        assert type(target.distance([0, 0, 1])) is float


def test_a_single_overlap_is_a_sequence_of_ids() -> None:
    """It stands for its `prim_id` wherever a sequence or an array is taken; it is never changed."""
    tree, scene = BVH.from_triangles(*TETRAHEDRON), Scene()
    scene.add(tree)
    for target in (tree, scene):
        found, nothing = (target.overlap_sphere([0.1, 0.1, 0.1], r) for r in (1.0, 0.01))
        ids = found.prim_id.tolist()
        assert len(ids) == 3
        assert found.tolist() == list(found) == sorted(found) == ids
        assert (
            list(reversed(found)) == ids[::-1]
            and found[-1] == ids[2]
            and found[1:].tolist() == ids[1:]
        )
        assert ids[1] in found and 9 not in found and len(found) == found.counts == 3
        assert not nothing and list(nothing) == [] and np.asarray(nothing).dtype == np.int32
        assert (found == np.array(ids)).all() and np.concatenate([found, nothing]).tolist() == ids
        np.testing.assert_array_equal(tree.faces[found], tree.faces[ids])
        assert np.shares_memory(np.asarray(found), found.prim_id)
        assert not np.shares_memory(np.array(found), found.prim_id)
        assert np.asarray(found, float).dtype == float
        with pytest.raises(ValueError, match="no float64 array without a copy"):
            found.__array__(float, copy=False)
        with pytest.raises(IndexError):
            found[3]


def test_a_batch_of_overlaps_takes_one_index() -> None:
    tree = BVH.from_triangles(*TETRAHEDRON)
    batch = tree.overlap_sphere(np.zeros((2, 3, 3)), 1.0)
    assert len(batch) == 6 and batch[-1].tolist() == batch[np.int64(5)].tolist() == [1, 2, 3]
    for index in (slice(2), 1.0, (0, 1), None):
        with pytest.raises(TypeError, match="integer"):
            batch[index]
    for index in (6, -7):
        with pytest.raises(IndexError, match=f"no query {index} of 6"):
            batch[index]
    with pytest.raises(TypeError, match="single query"):
        np.asarray(batch)


def test_results_are_structured_arrays() -> None:
    """With a field for each column; never an array of objects."""
    tree = BVH.from_triangles(*UNIT)
    scene = Scene()
    scene.add(tree)
    rays = np.array([[[0.2, 0.2, 5.0], [2.0, 2.0, 5.0]]]), [0.0, 0.0, -1.0]
    names = ("t", "prim_id", "u", "v", "front")
    for target, more in ((tree, ()), (scene, ("instance_id", "leaf"))):
        for hits in (target.closest_hit(*rays), target.closest_hit(rays[0][0, 0], rays[1])):
            table = np.asarray(hits)
            assert table.dtype.names == (*names, *more) and table.shape == np.shape(hits.t)
            for name in table.dtype.names:
                assert np.array_equal(table[name], getattr(hits, name), equal_nan=True)
            assert table["prim_id"].dtype == np.int32 and table["front"].dtype == np.bool_
            assert np.array(hits, table.dtype).shape == table.shape
            with pytest.raises(TypeError, match="is an array of the fields t, prim_id, u, v, fro"):
                np.asarray(hits, float)
        every = target.all_hits(*rays)
        table = np.asarray(every)
        assert table["ray_id"].tolist() == [0] and set(table.dtype.names) == {
            "ray_id", *names, *more,
        }  # fmt: skip
        near = target.closest_point(rays[0])
        table = np.asarray(near)
        assert table.shape == (1, 2) and np.array_equal(table["position"], near.position)
    counted = np.asarray(tree.closest_hit(*rays, counters=True))
    assert {"nodes", "tests"} < set(counted.dtype.names)
    with pytest.raises(TypeError, match="must be real numbers"):
        tree.closest_hit(tree.closest_hit(*rays), rays[1])


@pytest.mark.parametrize("kind", [BVH, Scene])
def test_truth(kind: type) -> None:
    """The result of a single query is true where it finds something; that of a batch is refused."""
    tree = target = BVH.from_triangles(*UNIT)
    if kind is Scene:
        target = Scene()
        target.add(tree)
    ray, away = ([0.2, 0.2, 1.0], [0.0, 0.0, -1.0]), ([0.2, 0.2, 1.0], [0.0, 0.0, 1.0])
    answers = {
        target.closest_hit: (ray, away), target.all_hits: (ray, away),
        target.closest_point: (([0.0, 0.0, 1.0],), ([0.0, 0.0, 1.0], 0.5)),
        target.overlap_sphere: (([0.0, 0.0, 0.0], 0.1), ([9.0, 9.0, 9.0], 0.1)),
    }  # fmt: skip
    for query, (found, missed) in answers.items():
        assert bool(query(*found)) is True and bool(query(*missed)) is False
        for shape in ((1,), (2, 3), (0,)):
            batch = query(*(np.broadcast_to(a, shape + np.shape(a)) for a in found))
            with pytest.raises(ValueError, match=r"of a batch is ambiguous: use \.[mc]"):
                bool(batch)
