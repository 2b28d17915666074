"""Queries of other libraries' arrays: numpy's answers bit for bit, in the caller's library."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bvh
from bvh.runtime.foreign_arrays import as_numpy
from tests.cases.families import sphere
from tests.cases.libraries import Arrays, aimed, library, plain
from tests.cases.partitions import parts_of

Given = dict[str, Any]


@pytest.fixture(scope="module")
def tree() -> bvh.BVH:
    return bvh.BVH.from_triangles(*sphere(2))


@pytest.fixture(scope="module")
def scene(tree: bvh.BVH) -> bvh.Scene:
    made = bvh.Scene()
    for x in (0.0, 1.5):
        matrix = np.eye(4)
        matrix[0, 3] = x
        made.add(tree, matrix)
    return made


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> bvh.Parts:
    vertices, faces = sphere(2)
    which = np.arange(len(faces)) % 3
    return parts_of(tmp_path_factory.mktemp("parts") / "sphere", vertices, faces, which)


def questions(*shape: int) -> list[tuple[str, Given, Given]]:
    """Return queries: their names, arguments that are arrays, and options."""
    origins, directions = aimed(*shape)
    rays = {"origins": origins, "directions": directions}
    ranged = rays | {"t_min": np.full(shape, 0.1), "t_max": np.full(shape, 1.5)}
    points, limits = {"points": origins}, {"max_distance": np.full(shape, 0.75)}
    boxes = {"lower": origins, "upper": origins + 0.5}
    balls = {"center": origins, "radius": np.full(shape, 0.5)}
    planes = {"planes": np.concatenate([directions, np.ones((*shape, 1))], -1)[..., None, :]}
    return [
        ("closest_hit", rays, {}),
        ("closest_hit", ranged, {"cull": "back", "threads": 1}),
        ("any_hit", rays, {}),
        ("any_hit", ranged, {"sort": True}),
        ("all_hits", ranged, {}),
        ("all_hits", rays, {"max_hits": 1, "edges": "once"}),
        ("count_hits", rays, {"edges": "closed"}),
        ("closest_point", points | limits, {}),
        ("closest_point", points, {"k": 2}),
        ("distance", points | limits, {}),
        ("signed_distance", points, {}),
        ("contains", points, {}),
        ("contains", points, {"method": "winding"}),
        ("signed_distance", points, {"method": "winding"}),
        ("winding_number", points, {"accuracy": 3.0}),
        ("overlap_box", boxes, {}),
        ("overlap_sphere", balls, {}),
        ("overlap_frustum", planes, {}),
    ]


def assert_same(found: Any, wanted: Any, kind: type[Any]) -> None:
    """Compare a result with numpy's: fields, their types and shapes, and what follows from them."""
    if is_dataclass(wanted):
        assert type(found) is type(wanted)
        for field in fields(wanted):
            mine, theirs = getattr(found, field.name), getattr(wanted, field.name)
            if field.name == "shape" or theirs is None:
                assert mine == theirs
            else:
                assert_same(mine, theirs, kind)
        for name in ("mask", "counts", "ray_id", "query_id", "position", "normal"):
            # Hits in parts have no positions.
            if hasattr(wanted, name):
                assert_same(getattr(found, name), getattr(wanted, name), kind)
        return
    assert isinstance(found, kind)
    given, expected = plain(found), np.asarray(wanted)
    assert given.shape == expected.shape
    if isinstance(wanted, np.ndarray):
        assert given.dtype == expected.dtype
    assert given.dtype.kind == expected.dtype.kind
    np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("shape", [(40,), (3, 5), (1,), (0,), ()], ids=str)
def test_all_queries(
    arrays: Arrays, tree: bvh.BVH, scene: bvh.Scene, parts: bvh.Parts, shape: tuple[int, ...]
) -> None:
    for target in (tree, scene, parts):
        for verb, given, options in questions(*shape):
            ask, context = getattr(target, verb), f"{type(target).__name__}.{verb}"
            made = {name: arrays.make(array) for name, array in given.items()}
            found, wanted = ask(**made, **options), ask(**given, **options)
            try:
                assert_same(found, wanted, arrays.kind)
            except AssertionError as error:
                raise AssertionError(f"{context}: {error}") from error


def test_what_only_some_have(arrays: Arrays, tree: bvh.BVH, scene: bvh.Scene) -> None:
    rays = aimed(30)
    made = [arrays.make(array) for array in rays]
    for target in (tree, scene):
        found = target.closest_hit(*made, counters=True)
        assert_same(found, target.closest_hit(*rays, counters=True), arrays.kind)
        matrix = np.diag([0.9, 1.1, 1.0, 1.0])
        pairs = target.overlap_tree(tree, arrays.make(matrix))
        assert_same(pairs, target.overlap_tree(tree, matrix), arrays.kind)
    matrices = np.tile(np.eye(4), (5, 1, 1))
    matrices[:, 0, 3] = np.arange(5.0)
    for shape in ((), (5,)):
        given = matrices[1] if shape == () else matrices
        apart = tree.distance_to(tree, arrays.make(given), max_distance=arrays.make(np.array(2.5)))
        wanted = tree.distance_to(tree, given, max_distance=2.5)
        assert_same(apart, wanted, arrays.kind)
        assert shape == () or repr(apart) == repr(wanted)
    masks = np.arange(30, dtype=np.int32) % 4
    hits = scene.closest_hit(*made, mask=arrays.make(masks))
    assert_same(hits, scene.closest_hit(*rays, mask=masks), arrays.kind)
    wanted = scene.face_of(plain(hits.leaf), plain(hits.prim_id))
    assert_same(scene.face_of(hits.leaf, hits.prim_id), wanted, arrays.kind)


def test_ids_of_parts(arrays: Arrays, parts: bvh.Parts) -> None:
    origins, directions = map(arrays.make, aimed(20))
    hits = parts.closest_hit(origins, directions)
    ids = plain(hits.prim_id)
    assert ids.dtype == plain(parts.closest_hit(origins[0, :], directions[0, :]).prim_id).dtype
    assert_same(parts.corners(hits.prim_id), parts.corners(ids), arrays.kind)
    for mine, theirs in zip(parts.source_of(hits.prim_id), parts.source_of(ids), strict=True):
        assert_same(mine, theirs, arrays.kind)


def test_functions(arrays: Arrays) -> None:
    origins, directions = aimed(20)
    shift = np.eye(4)
    shift[:3, 3] = 0.25
    one = np.ones(3)
    calls: list[tuple[Any, list[Any]]] = [
        (bvh.ray_triangle, [np.array([2.0, -1, 0]), np.array([-1.0, 2, 0]), np.zeros(3)]),
        (bvh.ray_plane, [np.array([0.0, 0, 1]), np.array(0.25)]),
        (bvh.ray_box, [-one, one]),
        (bvh.ray_obb, [-one, one, shift]),
        (bvh.ray_sphere, [np.zeros(3), np.array(1.0)]),
    ]
    for function, shapes in calls:
        for rays in ([origins, directions], [origins[0], directions[0]]):
            wanted = function(*rays, *shapes)
            found = function(*map(arrays.make, [*rays, *shapes]))
            assert type(found) is type(wanted)
            for mine, theirs in zip(found, wanted, strict=True):
                assert_same(mine, theirs, arrays.kind)


def test_results_are_used_as_numpys_are(arrays: Arrays, tree: bvh.BVH, scene: bvh.Scene) -> None:
    rays = aimed(30)
    made = [arrays.make(array) for array in rays]
    for target in (tree, scene):
        hits, wanted = target.closest_hit(*made), target.closest_hit(*rays)
        assert len(hits) == 30 and repr(hits) == repr(wanted)
        assert_same(hits[2:5], wanted[2:5], arrays.kind)
        assert "t=" in repr(hits[3])
        assert repr(target.closest_hit(*made, counters=True)) == repr(
            target.closest_hit(*rays, counters=True)
        )
        every = target.all_hits(*made)
        assert repr(every) == repr(target.all_hits(*rays)) and len(every) == every.t.shape[0]
        near, expected = target.closest_point(made[0]), target.closest_point(rays[0])
        assert_same(near[4:9], expected[4:9], arrays.kind)
        assert_same(near[4].position, expected[4].position, arrays.kind)
        assert len(near) == 30 and repr(near) == repr(expected)
        met, all_met = target.overlap_sphere(made[0], 0.75), target.overlap_sphere(rays[0], 0.75)
        assert len(met) == 30 and repr(met) == repr(all_met)
        assert_same(met[3], all_met[3], arrays.kind)
        assert met.tolist() == all_met.tolist() and met[3].tolist() == all_met[3].tolist()
        np.testing.assert_array_equal(np.asarray(met[3]), np.asarray(all_met[3]))
    if arrays.name != "strict":
        hits = tree.closest_hit(*made)
        # Asked for before they are pickled.
        assert hits.position.shape == hits.normal.shape
        again = pickle.loads(pickle.dumps(hits))
        assert_same(again, tree.closest_hit(*rays), arrays.kind)
        assert_same(copy.copy(again), again, arrays.kind)


def test_trees_of_their_arrays(arrays: Arrays, tree: bvh.BVH) -> None:
    vertices, faces = sphere(2)
    mine, ids = arrays.make(vertices), arrays.make(faces.astype(np.int32))
    for made in (bvh.BVH.from_triangles(mine, ids), bvh.BVH.from_mesh((mine, ids))):
        np.testing.assert_array_equal(made.vertices, tree.vertices)
        np.testing.assert_array_equal(made.faces, tree.faces)
    boxes = bvh.BVH.from_boxes(arrays.make(vertices - 0.1), arrays.make(vertices + 0.1))
    assert boxes.bounds.tolist() == [[-1.1] * 3, [1.1] * 3]
    matrices = np.tile(np.eye(4), (3, 1, 1))
    corners = arrays.make(vertices[:3] - 0.1), arrays.make(vertices[:3] + 0.1)
    assert bvh.BVH.from_obbs(*corners, arrays.make(matrices)).kind == "obbs"
    scene = bvh.Scene()
    assert scene.add(tree, arrays.make(np.eye(4))) == 0
    assert len(scene.add_many(tree, arrays.make(matrices))) == 3
    moved = bvh.BVH.from_triangles(vertices, faces)
    moved.refit(arrays.make(vertices * 2.0))
    assert moved.bounds.tolist() == [[-2.0] * 3, [2.0] * 3]


def test_memory_is_shared(arrays: Arrays) -> None:
    """Of what comes in, if it is float64; and of what goes out, where the library lets it be."""
    mine = arrays.make(aimed(500)[0])
    view = as_numpy("points", mine)
    again = as_numpy("points", mine)
    assert np.shares_memory(view, again)
    if arrays.name != "jax":
        mine[3, 1] = 11.0
        assert view[3, 1] == 11.0


def test_results_can_be_written_to(torch: Any, tree: bvh.BVH) -> None:
    origins, directions = map(torch.from_numpy, aimed(100))
    hits = tree.closest_hit(origins, directions)
    hits.t[:] = 7.0
    assert (hits[5].t == 7.0) and (tree.closest_hit(origins, directions).t != 7.0).any()


def test_layouts(torch: Any, tree: bvh.BVH) -> None:
    """Views of any strides, negated ones, other numbers; subclasses and parameters."""
    origins, directions = aimed(60)
    wanted = tree.closest_hit(origins, directions).t
    mine, towards = torch.from_numpy(origins), torch.from_numpy(directions)
    wide = torch.zeros(60, 7, dtype=torch.float64)
    wide[:, 2:5] = mine
    across = mine.t().contiguous().t()
    negated = torch.complex(mine, -mine).conj().imag
    assert negated.is_neg()
    parameter = torch.nn.Parameter(mine, requires_grad=False)
    for view in (wide[:, 2:5], across, negated, parameter):
        np.testing.assert_array_equal(tree.closest_hit(view, towards).t.numpy(), wanted)
    reverse = tree.closest_hit(mine[::2], towards[::2]).t
    np.testing.assert_array_equal(reverse.numpy(), wanted[::2])
    few = origins.astype(np.float32)
    short = tree.closest_hit(torch.from_numpy(few), towards).t
    assert short.dtype == torch.float64
    np.testing.assert_array_equal(short.numpy(), tree.closest_hit(few, directions).t)
    whole = torch.tensor([[3, 0, 0], [0, 4, 0]])
    assert tree.closest_hit(whole, -whole).prim_id.dtype == torch.int32


def test_views_of_read_only_arrays_that_run_backwards(tree: bvh.BVH) -> None:
    with library("strict") as arrays:
        origins, directions = aimed(40)
        backwards = origins[::-1]
        backwards.flags.writeable = False
        found = tree.closest_hit(arrays.make(backwards), directions)
        assert_same(found, tree.closest_hit(backwards, directions), arrays.kind)


def test_numpy_and_numbers_beside_them(arrays: Arrays, tree: bvh.BVH) -> None:
    """The result is of the one library that is not numpy."""
    origins, directions = aimed(25)
    wanted = tree.closest_hit(origins, directions, 0.0, 1.5)
    for rays in (
        (arrays.make(origins), directions, 0.0, np.float64(1.5)),
        (origins, arrays.make(directions), np.zeros(25), 1.5),
        (origins, directions.tolist(), arrays.make(np.array(0.0)), 1.5),
    ):
        assert_same(tree.closest_hit(*rays), wanted, arrays.kind)


class Exporter:
    """Memory of numpy that DLPack gives, in no library."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)


def test_what_is_like_an_array(tree: bvh.BVH) -> None:
    """In no library that is known: numpy's results."""
    pytest.importorskip("array_api_compat")
    points = aimed(9)[0]
    found = tree.distance(Exporter(points))
    assert type(found) is np.ndarray and (found == tree.distance(points)).all()
