"""Warnings of trees of nothing, hints at the right function, and open edges by name."""

from __future__ import annotations

import inspect
import pickle
import traceback
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


def test_unknown_options_name_the_one_that_is_meant() -> None:
    """In queries, constructors and picks, of trees, scenes and cameras; other errors stay."""
    tree, scene = BVH.from_mesh(trimesh.creation.box()), bvh.Scene()
    scene.add(tree)
    camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], width=4, height=4)
    ray = [0.1, 0.2, 5.0], [0.0, 0.0, -1.0]
    cases: list[tuple[Callable[..., Any], tuple[Any, ...], str, str]] = [
        (tree.closest_hit, ray, "tmax", "t_max"),
        (scene.closest_hit, ray, "tmin", "t_min"),
        (tree.closest_point, ray[:1], "max_dist", "max_distance"),
        (BVH.from_triangles, (np.eye(3), [[0, 1, 2]]), "qualty", "quality"),
        (scene.pick_rect, (camera, 0, 0, 4, 4), "visible", "visible_only"),
        (bvh.Camera.look_at, ray, "fov", "fov_y"),
    ]
    for call, arguments, wrong, meant in cases:
        text = rf"{call.__qualname__}\(\) got .* '{wrong}'\. Did you mean '{meant}'\?$"
        with pytest.raises(TypeError, match=text):
            call(*arguments, **{wrong: 1})
    with pytest.raises(TypeError, match=r"keyword argument 'of_nothing'$"):
        tree.closest_hit(*ray, of_nothing=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"BVH.closest_hit\(\) takes from 3 to 5 positional"):
        tree.closest_hit(*ray, 0.0, 1.0, -1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"BVH.closest_hit\(\) missing .* 'directions'$"):
        tree.closest_hit(ray[0])  # type: ignore[call-arg]
    # An error within the query, of a call with options, stays as it is.
    with pytest.raises(ValueError, match=r"cull must be .*, got 'bakc'; did you mean 'back'\?$"):
        tree.closest_hit(*ray, cull="bakc")  # type: ignore[arg-type]
    assert tree.closest_hit(origins=ray[0], directions=ray[1], t_max=9.0, mask=1).t == 4.5


def test_public_methods_keep_their_signatures() -> None:
    """And documentation, types of arguments and pickles; tracebacks show a line of the package."""
    for kind in BVH, bvh.Scene, bvh.Camera, bvh.Parts:
        for name, member in vars(kind).items():
            function = getattr(member, "__func__", member)
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            first = inspect.unwrap(function)
            assert inspect.signature(function) == inspect.signature(first)
            assert function.__doc__ == first.__doc__
            assert function.__annotations__ == first.__annotations__
            assert pickle.loads(pickle.dumps(getattr(kind, name))) == getattr(kind, name)
    with pytest.raises(ValueError, match="origins") as error:
        BVH.from_mesh(trimesh.creation.box()).closest_hit([0.0, 1.0], [0.0, 0.0, -1.0], mask=1)
    frames = traceback.extract_tb(error.value.__traceback__)
    assert frames[1].name == "closest_hit" and frames[1].filename.endswith("ray_queries.py")
    assert all(frame.line for frame in frames)


def test_results_of_one_query_are_no_sequences() -> None:
    """An attempt to unpack one names its fields; batches give their entries."""
    tree = BVH.from_mesh(trimesh.creation.box())
    with pytest.raises(TypeError, match="a single Hits is no sequence: take its t, prim_id, u, v"):
        _t, _prim_id = tree.closest_hit([0.1, 0.2, 5.0], [0.0, 0.0, -1.0])
    hits = tree.closest_hit([[0.1, 0.2, 5.0], [9.0, 9.0, 5.0]], [0.0, 0.0, -1.0])
    assert [hit.t for hit in hits] == [4.5, np.inf]
    with pytest.raises(AttributeError, match=r"did you mean numpy\.asarray\(hits\)\.reshape\?"):
        _ = hits.reshape


def test_told_of_infinite_thickness() -> None:
    """Where rays leave an open mesh; not where they meet a face."""
    box = trimesh.creation.box()
    bottom, open_above = box.face_normals[:, 2] < -0.5, box.face_normals[:, 2] < 0.5
    tree = BVH.from_triangles(box.vertices, box.faces[open_above])
    below = np.flatnonzero(bottom[open_above])
    methods: tuple[Any, ...] = ("ray", "sphere")
    for method in methods:
        with pytest.warns(BVHWarning, match="open edges: thickness is inf at 2 rays"):
            assert np.array_equal(np.flatnonzero(np.isinf(tree.thickness(method=method))), below)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.allclose(tree.thickness(np.delete(np.arange(len(tree)), below)), 1.0)
