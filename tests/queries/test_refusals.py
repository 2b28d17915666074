"""What builders and queries refuse; the message names the argument that is wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH, BVHWarning
from bvh.tree.open_edges import open_edges
from tests.cases.partitions import parts_of

# What no argument of real numbers may be.
NOT_REAL: list[Any] = [
    np.ones((4, 3), bool),
    np.ones((4, 3), complex),
    np.full((4, 3), "1"),
    "words",
    np.ones((4, 3), object),
    np.ones((4, 3), "M8[s]"),
    np.ones(4, np.dtype([("x", float), ("y", float), ("z", float)])),
    None,
    np.ma.masked_array(np.ones((4, 3)), mask=False),
    [[1.0, 2.0, 3.0], [1.0, 2.0]],
]
NOT_POINTS: list[Any] = [1.0, [1.0, 2.0], np.ones((4, 4)), np.ones((3, 1)), np.ones((4, 0))]


@pytest.mark.parametrize("query", ["closest_hit", "any_hit"])
def test_refused_rays(query: str) -> None:
    """The message names the argument that is wrong."""
    ask = getattr(BVH.from_triangles(np.eye(3), [[0, 1, 2]]), query)
    good = {"origins": np.zeros((4, 3)), "directions": np.ones((4, 3))}
    for name in ("origins", "directions", "t_min", "t_max"):
        for bad in NOT_REAL:
            with pytest.raises((TypeError, ValueError), match=name):
                ask(**good | {name: bad})
    for name in good:
        for bad in NOT_POINTS:
            with pytest.raises(ValueError, match=name):
                ask(**good | {name: bad})
    with pytest.raises(ValueError, match=r"origins.*4.*directions.*5"):
        ask(np.zeros((4, 3)), np.ones((5, 3)))
    for name in ("t_min", "t_max"):
        with pytest.raises(ValueError, match=name):
            ask(**good, **{name: np.ones(5)})


@pytest.mark.parametrize(
    ("faces", "match"),
    [
        ([[0, 1, 2, 3]], "BVH.from_mesh takes quads"),
        ([0, 1, 2], "faces"),
        ([[0, 1]], "faces"),
        (np.zeros((1, 3, 3), int), "faces"),
        (0, "faces"),
        ([[0, 1, 2], [0, 1, 4]], "faces.* row 1"),
        ([[0, 1, 2], [0, 1, 2], [0, -1, 2]], "faces.* row 2"),
        (np.array([[0, 1, 2**64 - 1]], np.uint64), "faces.* row 0"),
        (np.array([[0, 1, 2**32]]), "faces.* row 0"),
        ([[0, 1, 2**70]], "faces"),
        ([[0.0, 1.0, 2.0]], "faces"),
        (np.ones((1, 3), bool), "faces"),
        *((bad, "faces") for bad in NOT_REAL),
    ],
)
def test_refused_faces(faces: Any, match: str) -> None:
    """Faces must be triangles of integers within the vertices."""
    with pytest.raises((TypeError, ValueError), match=match):
        BVH.from_triangles(np.ones((4, 3)), faces)


def test_refused_vertices_and_boxes() -> None:
    """The same for vertices, corners and transforms."""
    ones, eye = np.ones((4, 3)), np.tile(np.eye(4), (4, 1, 1))
    for bad in [*NOT_REAL, *NOT_POINTS, np.ones((2, 2, 3)), np.ones(3)]:
        with pytest.raises((TypeError, ValueError), match="vertices"):
            BVH.from_triangles(bad, [[0, 1, 2]])
        for name in ("lower", "upper"):
            corners = {"lower": ones, "upper": ones} | {name: bad}
            with pytest.raises((TypeError, ValueError), match=name):
                BVH.from_boxes(**corners)
            with pytest.raises((TypeError, ValueError), match=name):
                BVH.from_obbs(**corners, transforms=eye)
        with pytest.raises((TypeError, ValueError), match="transforms"):
            BVH.from_obbs(ones, ones, bad)
    with pytest.raises(ValueError, match=r"upper.*lower"):
        BVH.from_boxes(ones, ones[:3])
    matrices = [eye[0], eye[:3], eye[:, :3], eye.reshape(4, 16)]
    for place, value in ((0, 0.0), (3, np.nan), (5, np.inf), (12, 1.0), (15, 2.0)):
        matrices.append(eye.copy())
        matrices[-1][2].flat[place] = value
    for bad in matrices:
        with pytest.raises(ValueError, match="transforms"):
            BVH.from_obbs(ones, ones, bad)


def test_refused_options() -> None:
    """Threads, culling and quality."""
    mesh, corners = (np.eye(3), [[0, 1, 2]]), (np.zeros((1, 3)), np.ones((1, 3)))
    tree = BVH.from_triangles(*mesh)
    ray = np.zeros(3), np.ones(3)
    for threads in (0, -2, 1.5, True, "2", np.float64(2), [2]):
        for call, given in (tree.closest_hit, ray), (tree.any_hit, ray), (BVH.from_triangles, mesh):
            with pytest.raises((TypeError, ValueError), match="threads"):
                call(*given, threads=threads)
    assert tree.any_hit(*ray, threads=np.int8(2)) is True
    for cull in ("both", 1, 0, False, "", ["back"]):
        with pytest.raises((TypeError, ValueError), match="cull"):
            tree.closest_hit(*ray, cull=cull)
    for other in (BVH.from_boxes(*corners), BVH.from_obbs(*corners, np.eye(4)[None])):
        assert other.any_hit(*ray, cull=None) is True
        with pytest.raises(ValueError, match="cull"):
            other.any_hit(*ray, cull="back")
    for quality in ("low", "best", "", None, 1, ["medium"]):
        with pytest.raises((TypeError, ValueError), match="quality must be 'medium' or 'high'"):
            BVH.from_triangles(*mesh, quality=quality)


def test_masks_that_are_refused() -> None:
    """They are integers of 32 bits, one for each ray, or for all points."""
    tree, ray = BVH.from_triangles(np.eye(3), [[0, 1, 2]]), (np.ones(3), -np.ones(3))
    for query in (tree.closest_hit, tree.any_hit, tree.all_hits, tree.count_hits):
        query(*ray, mask=None)
        for mask in (-1, 2**32, 1.0, "a"):
            with pytest.raises((TypeError, ValueError), match="mask must be in"):  # or integers
                query(*ray, mask=mask)
        with pytest.raises(ValueError, match="mask must have a shape that broadcasts to the rays'"):
            query(*ray, mask=[1, 2])
    points = tree.closest_point, tree.distance, tree.signed_distance, tree.winding_number
    with pytest.warns(BVHWarning, match="has open edges"):
        tree.contains(ray[0])
    for ask in (*points, tree.contains):
        ask(ray[0], mask=None)
        for mask in ([1, 2], [1]):
            with pytest.raises(ValueError, match="mask must be one number"):
                ask(ray[0], mask=mask)
    with pytest.raises(ValueError, match="mask must be one number"):
        tree.caster(mask=[1, 2])


def test_more_primitives_than_ids() -> None:
    """A tree over n primitives has 2n - 1 nodes, and their ids are int32."""
    faces = np.broadcast_to(np.int8(0), (2**30 + 1, 3))
    with pytest.raises(ValueError, match=r"faces must have at most 1073741824 rows"):
        BVH.from_triangles(np.zeros((1, 3)), faces)


@pytest.fixture
def targets(tmp_path: Path) -> list[Any]:
    """Return a tree, a scene and parts of the same triangle, and the names of its queries."""
    mesh = np.eye(3), np.array([[0, 1, 2]])
    scene = bvh.Scene()
    scene.add(BVH.from_triangles(*mesh))
    return [BVH.from_triangles(*mesh), scene, parts_of(tmp_path / "parts", *mesh, np.zeros(1, int))]


RAY_QUERIES = ("closest_hit", "any_hit", "all_hits", "count_hits")


@pytest.mark.parametrize("lazily", [False, True])
def test_refused_flags_and_data(lazily: bool, targets: list[Any]) -> None:
    """Flags of queries are True or False, of single rays and batches; data has a filter."""
    single = np.ones(3), -np.ones(3)
    pairs: list[Any] = [single, (np.ones((4, 3)), -np.ones((4, 3)))]
    if lazily:
        da = pytest.importorskip("dask.array")
        pairs = [(da.from_array(np.ones((4, 3))), single[1])]
    flags: list[Any] = [1, 0, "yes", "", [], np.ones(2, bool), 1.0]
    for target, ray in ((target, ray) for target in targets for ray in pairs):
        for query in RAY_QUERIES:
            ask = getattr(target, query)
            ask(*ray, validate_rays=np.True_)
            for bad in (*flags, *(() if lazily else (None,))):
                with pytest.raises(TypeError, match="validate_rays must be True or False, got"):
                    ask(*ray, validate_rays=bad)
            if query in ("closest_hit", "any_hit"):
                ask(*ray, sort=np.False_)
                for bad in flags:
                    with pytest.raises(TypeError, match="sort must be True or False, got"):
                        ask(*ray, sort=bad)
            if target is not targets[2]:
                for data in (0, 3.5, (), np.ones(3)):
                    with pytest.raises(ValueError, match="data must be None where there is no fil"):
                        ask(*ray, data=data)
        if target is not targets[2]:
            with pytest.raises(TypeError, match="counters must be True or False, got 'all'"):
                target.closest_hit(*ray, counters="all")
            for bad in ({"sort": 1}, {"data": 5}):
                with pytest.raises((TypeError, ValueError), match=r"sort must be|data must be"):
                    target.visible(*ray, **bad)


@pytest.mark.parametrize("bad", [-1.0, -1, -5e-324, np.float32(-2), -np.inf, np.nan])
def test_refused_lengths(bad: Any, targets: list[Any]) -> None:
    """One for all queries must be a length; of many, one that is none finds nothing, alone."""
    points, many = np.array([[0.3, 0.3, 0.3], [0.4, 0.4, 0.4]]), [bad, 9.0]
    tree, scene, _ = targets
    asks: list[tuple[str, Callable[[Any], Any]]] = [
        ("max_distance", lambda x: tree.distance_to(tree, max_distance=x)),
        ("max_distance", lambda x: tree.distance_to(tree, np.tile(np.eye(4), (2, 1, 1)),
                                                    max_distance=x)),
        ("max_distance", lambda x: scene.clearances(x)),
        ("radius", lambda x: bvh.ray_sphere(points, [1, 0, 0], [0, 0, 0], x)),
        ("margin", lambda x: tree.visible(points[0], points, margin=x)),
    ]  # fmt: skip
    for target in targets:
        for p in (points[0], points):
            asks += [
                ("max_distance", lambda x, t=target, p=p: t.closest_point(p, x)),
                ("max_distance", lambda x, t=target, p=p: t.closest_point(p, x, k=2)),
                ("max_distance", lambda x, t=target, p=p: t.distance(p, x)),
                ("radius", lambda x, t=target, p=p: t.overlap_sphere(p, x)),
            ]
        assert target.closest_point(points, many).mask.tolist() == [False, True]
        assert np.isinf(target.distance(points, many)).tolist() == [True, False]
        assert target.overlap_sphere(points, many).counts.tolist() == [0, 1]
    for name, ask in asks:
        with pytest.raises(ValueError, match=f"{name} must be a .*number of at least 0, got"):
            ask(bad)
        ask(0.0)
    assert bvh.ray_sphere(points, [1, 0, 0], points, many).hit.tolist() == [False, True]
    with pytest.raises(ValueError, match="radius must be a finite number of at least 0, got inf"):
        tree.overlap_sphere(points, np.inf)


def test_refused_lengths_of_lazy_queries(targets: list[Any]) -> None:
    """They are refused at once, not in tasks."""
    da = pytest.importorskip("dask.array")
    points = da.from_array(np.ones((4, 3)))
    for target in targets:
        for query in ("closest_point", "distance"):
            with pytest.raises(ValueError, match="max_distance must be a number of at least 0"):
                getattr(target, query)(points, -1.0)
        with pytest.raises(ValueError, match="radius must be a finite number of at least 0"):
            target.overlap_sphere(points, -1.0)
        with pytest.raises(ValueError, match="method must be 'parity' or 'winding'"):
            target.signed_distance(points, method="guess")
        for ask in (target.contains, target.signed_distance, target.winding_number):
            with pytest.raises(ValueError, match="mask must be one number"):
                ask(np.ones((2, 3)), mask=[1, 2])


def test_refused_boxes(targets: list[Any]) -> None:
    """A single box with lower > upper is an error; one of several meets nothing, alone."""
    low, high = [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]
    turned = [0.0, 2.0, 0.0]
    for target in targets:
        with pytest.raises(ValueError, match=r"lower must not be above upper on any axis, got \["):
            target.overlap_box(turned, high)
        assert target.overlap_box([turned, low], high).counts.tolist() == [0, 1]
        assert target.overlap_box([turned], [high]).counts.tolist() == [0]
        # A NaN is bad data, as in a point.
        assert len(target.overlap_box([np.nan, 0.0, 0.0], high)) == 0
        assert len(target.overlap_box(low, low)) == 0
    ray = [-1.0, 0.5, 0.5], [1.0, 0.0, 0.0]
    # There it is the empty box, which all rays miss.
    assert not bvh.ray_box(*ray, turned, high).hit
    assert not bvh.ray_obb(*ray, turned, high, np.eye(4)).hit


def test_told_of_trees_of_nothing(tmp_path: Path) -> None:
    """Once for each, at the line of the caller; they are built, and miss."""
    nan, none = np.full((3, 3), np.nan), np.empty((0, 3))
    face, square = np.array([[0, 1, 2]]), np.empty((0, 4), int)
    eye = np.eye(4)[None]
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("it has no triangles", lambda: BVH.from_triangles([], [])),
        ("it has no triangles", lambda: BVH.from_triangles(np.eye(3), [])),
        ("of 1 triangle none is valid", lambda: BVH.from_triangles(nan, face)),
        ("it has no triangles", lambda: BVH.from_mesh((none, square))),
        ("it has no triangles", lambda: bvh.Scene().add((none, face[:0]))),
        ("of 3 boxes none is valid", lambda: BVH.from_boxes(np.ones((3, 3)), -np.eye(3))),
        ("it has no boxes", lambda: BVH.from_boxes(none, none)),
        ("of 1 box none is", lambda: BVH.from_obbs(np.ones((1, 3)), np.zeros((1, 3)), eye)),
        ("it has no triangles", lambda: bvh.partition([], tmp_path / "none")),
        ("of 1 triangle none is", lambda: bvh.partition((nan, face), tmp_path / "nan")),
    ]
    for message, build in cases:
        with pytest.warns(BVHWarning, match=f"will find nothing: {message}") as told:
            tree = build()
        assert len(told) == 1 and told[0].filename == __file__
        if isinstance(tree, BVH):
            assert not tree.any_hit([0.2, 0.2, 5.0], [0.0, 0.0, -1.0])


def test_not_told_of_what_is_empty_on_purpose(tmp_path: Path, rng: np.random.Generator) -> None:
    """Of one valid face among others, and of trees that queries and parts build themselves."""
    vertices, faces = rng.random((30, 3)), np.arange(30).reshape(-1, 3)
    lost = np.where(np.arange(30)[:, None] < 15, np.nan, vertices)
    point = [0.5, 0.5, 0.5]
    # Parts of which one has no valid face, and one that has none at all.
    parts = parts_of(tmp_path / "parts", lost, faces, np.arange(10) // 5)
    nothing = parts_of(tmp_path / "nothing", lost[:15], faces[:5], np.zeros(5, int))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree, scene = BVH.from_triangles(lost, faces), bvh.Scene()
        BVH.from_boxes([[0, 0, 0], [1, 1, 1]], [[1, 1, 1], [0, 0, 0]])
        BVH.from_triangles(vertices, faces, groups=0)
        assert scene.winding_number(point) == 0.0
        scene.add(tree, mask=1)
        assert scene.winding_number(point, mask=2) == 0.0
        bvh.partition([(lost[:15], faces[:5]), (vertices, faces)], tmp_path / "both")
        for some in (parts, nothing):
            some.closest_hit(point, [1.0, 0.0, 0.0])
            some.contains(point)
        tree.refit(np.full((30, 3), np.nan))


def test_errors_name_what_is_meant(tmp_path: Path) -> None:
    """Readers of saved trees and of meshes name each other, as do classes without them."""
    mesh, saved = tmp_path / "one.npz", tmp_path / "one.bvh"
    np.savez(mesh, vertices=np.eye(3), faces=[[0, 1, 2]])
    BVH.from_file(mesh).save(saved)
    with pytest.raises(ValueError, match=r"BVH\.from_file and bvh\.load_scene read other files"):
        bvh.load(mesh)
    with pytest.raises(ValueError, match=r"bvh\.load opens it"):
        BVH.from_file(saved)
    for kind, name, hint in (
        (BVH, "load", r": call bvh\.load.*bvh\.BVH\.from_file"), (BVH, "lode", "$"),
        (bvh.Scene, "load", r": call bvh\.load"),
        (bvh.Scene, "from_file", r": call bvh\.load_scene"),
    ):  # fmt: skip
        with pytest.raises(
            AttributeError, match=f"{kind.__name__}' has no attribute '{name}'{hint}"
        ):
            getattr(kind, name)
    with pytest.raises(TypeError, match=r"from_file for the file 'one\.glb', or bvh\.load_scene"):
        bvh.Scene().add("one.glb")


def test_open_edges_are_named() -> None:
    """How many there are, and the first few, by vertices; also of meshes without shared ones."""
    ball = trimesh.creation.icosphere(2)
    vertices, faces, lost = ball.vertices, ball.faces, [3, 40, 41]
    ring = ball.edges[np.isin(ball.edges_face, lost)]
    _, index, counts = np.unique(
        np.sort(ring, axis=1), axis=0, return_index=True, return_counts=True
    )
    open_ones = {frozenset(edge) for edge in ring[index[counts == 1]].tolist()}
    torn = BVH.from_triangles(vertices, np.delete(faces, lost, axis=0))
    count = len(open_ones)
    with pytest.raises(ValueError, match=f"other has open edges: {count}, between") as raised:
        BVH.from_mesh(ball).relation(torn)
    named = str(raised.value).partition("vertices ")[2].removesuffix(", ...").split(", ")
    assert len(named) == 4
    assert {frozenset(map(int, edge.split("-"))) for edge in named} <= open_ones
    with pytest.raises(ValueError, match=f"this mesh has open edges: {count}"):
        BVH.from_triangles(torn.vertices[torn.faces].reshape(-1, 3),
                           np.arange(3 * len(torn)).reshape(-1, 3)).penetration(torn)  # fmt: skip
    found = open_edges(torn._triangles())
    assert {frozenset(edge) for edge in found.tolist()} == open_ones and len(found) == count
    assert len(open_edges(BVH.from_mesh(ball)._triangles())) == 0
    scene = bvh.Scene()
    scene.add(ball), scene.add(torn)
    with pytest.raises(ValueError, match=f"instance 1 has open edges: {count}, between"):
        scene.relations()
