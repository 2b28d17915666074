"""The drop-in for trimesh: the interface of both its casters, and exact answers behind it."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from typing import Any

import numpy as np
import pytest
import trimesh
from trimesh import triangles

import bvh
import bvh.compat.trimesh as drop_in
from bvh.compat.trimesh import RayMeshIntersector
from bvh.compat.trimesh_points import tree_of
from meshes.organic import organic
from tests.oracles import brute
from tests.oracles import trimesh as oracle_tm
from tests.traversal.test_brute import hard_rays

RTREE = trimesh.ray.ray_triangle.RayMeshIntersector
METHODS = (
    "intersects_id", "intersects_location", "intersects_first", "intersects_any", "contains_points",
)  # fmt: skip
DOWN = np.array([[0.0, 0.0, -1.0]])


def embree() -> Any:
    """Return trimesh's class on Embree, or skip the test."""
    if not trimesh.ray.has_embree:
        pytest.skip("embreex is not installed")
    return trimesh.ray.ray_pyembree.RayMeshIntersector


def lumps(level: int = 6) -> trimesh.Trimesh:
    """Return a closed mesh of no particular shape."""
    return trimesh.Trimesh(*organic(level), process=False)


def grid_rays(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rays down onto the unit box, through the vertices and edges of its faces, too."""
    x = np.linspace(-0.75, 0.75, n)
    origins = np.array([[a, b, 2.0] for a in x for b in x])
    return origins, np.tile([0.0, 0.0, -2.0], (n * n, 1))


def arguments(function: Any) -> dict[str, inspect.Parameter]:
    """Return a function's parameters, also of one that trimesh has wrapped to log its time."""
    if "args" in inspect.signature(function).parameters:
        inner = [cell.cell_contents for cell in function.__closure__]
        function = next(thing for thing in inner if inspect.isfunction(thing))
    return dict(inspect.signature(function).parameters)


def check_signatures(theirs: type, ours: type) -> None:
    """Compare the names of arguments, and their order as far as both orders agree."""
    for method in (*METHODS, "__init__"):
        want, have = arguments(getattr(theirs, method)), arguments(getattr(ours, method))
        for name, parameter in want.items():
            assert name in have or name == "kwargs", (method, name)
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                kinds = {p.kind for p in have.values()}
                assert inspect.Parameter.VAR_KEYWORD in kinds, method
            elif parameter.default is not inspect.Parameter.empty and name != "max_hits":
                assert have[name].default == parameter.default, (method, name)
        leading = [name for name, p in want.items() if p.default is inspect.Parameter.empty]
        if method != "__init__":
            leading = [name for name in leading if name != "kwargs"]
            assert list(have)[: len(leading)] == leading, method


def test_signatures_of_the_rtree_class() -> None:
    """Names, defaults and order of arguments; it has them all by position, too."""
    check_signatures(RTREE, RayMeshIntersector)
    order = list(inspect.signature(RTREE.intersects_id).parameters)
    assert list(inspect.signature(RayMeshIntersector.intersects_id).parameters)[:5] == order[:5]


def test_signatures_of_the_embree_class() -> None:
    """Both our class and its stand-in take what Embree's takes; the stand-in in its order."""
    theirs = embree()
    check_signatures(theirs, RayMeshIntersector)
    with drop_in.install():
        ours = type(trimesh.creation.box().ray)
    check_signatures(theirs, ours)
    order = list(arguments(theirs.intersects_id))
    assert list(arguments(ours.intersects_id))[: len(order)] == order


def test_constructors() -> None:
    """Both classes' ways to name the mesh; one mesh, neither none nor two."""
    box = trimesh.creation.box()
    for made in (
        RayMeshIntersector(box), RayMeshIntersector(mesh=box), RayMeshIntersector(geometry=box),
        RayMeshIntersector(box, False), RayMeshIntersector(geometry=box, scale_to_box=False),
    ):  # fmt: skip
        assert made.mesh is box
        assert "RayMeshIntersector(" in repr(made)
    with pytest.raises(TypeError, match="one mesh"):
        RayMeshIntersector()
    with pytest.raises(TypeError, match="one mesh"):
        RayMeshIntersector(box, geometry=box)
    with pytest.raises(TypeError, match="mesh must be a trimesh"):
        RayMeshIntersector([[0, 0, 0]]).intersects_any([[0, 0, 1]], DOWN)


def test_only_meshes_whose_hash_tells_of_changes() -> None:
    """Another's mesh would have the tree of what it once was."""

    class Alike:
        vertices, faces = np.array(trimesh.creation.box().vertices), np.array([[0, 1, 2]])

    with pytest.raises(TypeError, match="got Alike"):
        RayMeshIntersector(Alike()).intersects_any(DOWN, DOWN)


@pytest.mark.parametrize("hit", [True, False])
def test_shapes_and_dtypes(hit: bool) -> None:
    """The same kinds of arrays for hits and for none."""
    ray = RayMeshIntersector(trimesh.creation.box())
    origins = np.array([[0.25, 0.1, 2.0], [0.25, 0.1, -2.0]]) + (0.0 if hit else 9.0)
    directions = np.repeat(DOWN, 2, axis=0)
    count = 2 if hit else 0
    for found in (
        ray.intersects_id(origins, directions, return_locations=True),
        ray.intersects_location(origins, directions)[::-1],
        ray.intersects_id(origins, directions),
    ):
        tri, index, *_ = found if found[0].ndim == 1 else found[::-1]
        assert tri.dtype == index.dtype == np.int64
        assert tri.shape == index.shape == (count,)
    locations, index, tri = ray.intersects_location(origins, directions)
    assert locations.shape == (count, 3)
    assert locations.dtype == np.float64
    first, hits = ray.intersects_first(origins, directions), ray.intersects_any(origins, directions)
    assert first.dtype == np.int64
    assert hits.dtype == np.bool_
    assert (first >= 0).tolist() == hits.tolist() == [hit, False]
    assert first[1] == -1


@pytest.mark.parametrize("nothing", [np.zeros((0, 3)), np.zeros((0, 3), int), []])
def test_no_rays_no_points(nothing: Any) -> None:
    """None in, none out."""
    box = trimesh.creation.box()
    ray = RayMeshIntersector(box)
    assert [len(a) for a in ray.intersects_id(nothing, nothing, return_locations=True)] == [0] * 3
    assert ray.intersects_location(nothing, nothing)[0].shape == (0, 3)
    assert ray.intersects_first(nothing, nothing).shape == (0,)
    assert ray.intersects_any(nothing, nothing).shape == (0,)
    assert ray.contains_points(nothing).shape == (0,)
    closest, distance, face = drop_in.closest_point(box, nothing)
    assert (closest.shape, distance.shape, face.shape) == ((0, 3), (0,), (0,))
    assert drop_in.signed_distance(box, nothing).shape == (0,)


def test_meshes_without_faces() -> None:
    """Nothing is hit, nothing is inside, nothing is near."""
    empty = trimesh.Trimesh()
    ray = RayMeshIntersector(empty)
    points = np.eye(3)
    assert not ray.intersects_any(points, points).any()
    assert ray.intersects_location(points, points)[0].shape == (0, 3)
    assert not ray.contains_points(points).any()
    closest, distance, face = drop_in.closest_point(empty, points)
    assert np.isnan(closest).all()
    assert (distance == np.inf).all()
    assert (face == -1).all()
    assert (drop_in.signed_distance(empty, points) == -np.inf).all()


@pytest.mark.parametrize("installed", [False, True])
def test_open_meshes_are_told_once(installed: bool) -> None:
    """Where inside is a guess, as trees tell it: at the caller's line, once until a change."""
    ball = trimesh.creation.icosphere(subdivisions=3)
    ball.update_faces(ball.triangles_center[:, 2] < 0.9)
    # Watertight, and the same with vertices of its own for each face.
    closed = trimesh.creation.icosphere()
    loose = trimesh.Trimesh(**triangles.to_kwargs(closed.triangles), process=False)
    assert closed.is_watertight and not loose.is_watertight
    sheet = trimesh.Trimesh([[0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0]], [[0, 1, 2], [0, 2, 3]])
    points = np.array([[0.0, 0.1, 0.2], [0.0, 0.1, 5.0]])
    with drop_in.install() if installed else contextlib.nullcontext():

        def contains(mesh: Any) -> Any:
            return mesh.contains(points) if installed else drop_in.contains(mesh, points)

        for _ in range(2):
            with pytest.warns(
                bvh.BVHWarning, match="has open edges: containment is a guess"
            ) as told:
                assert contains(ball).tolist() == [True, False]
            assert len(told) == 1 and told[0].filename == __file__
            with warnings.catch_warnings():
                warnings.simplefilter("error", bvh.BVHWarning)
                contains(ball)
                # By the side of a face, which is told from nothing else.
                drop_in.signed_distance(sheet, [[0.5, 0.25, 1.0]])
                for mesh in (closed, loose):
                    assert contains(mesh).tolist() == [True, False]
            ball.apply_scale(1.25)
        with pytest.warns(bvh.BVHWarning, match="has open edges"):
            drop_in.signed_distance(sheet, [[9.0, 1.0, -0.5]])


def test_refusals() -> None:
    """Wrong shapes and types are named."""
    ray = RayMeshIntersector(trimesh.creation.box())
    with pytest.raises(ValueError, match="ray_directions"):
        ray.intersects_any(np.zeros((2, 3)), DOWN)
    for bad in (np.zeros(3), np.zeros((2, 2)), np.zeros((1, 2, 3))):
        with pytest.raises(ValueError, match="ray_origins"):
            ray.intersects_id(bad, bad)
        with pytest.raises(ValueError, match="points"):
            ray.contains_points(bad)
        with pytest.raises(ValueError, match="points"):
            drop_in.closest_point(ray.mesh, bad)
    with pytest.raises((TypeError, ValueError), match="ray_origins"):
        ray.intersects_first("up", DOWN)
    with pytest.raises((TypeError, ValueError), match="max_hits"):
        ray.intersects_id(DOWN, DOWN, max_hits=0)


def test_bad_rays_and_points_are_alone(rng: np.random.Generator) -> None:
    """Rays and points that are not finite, or have no direction, leave the others as they were."""
    mesh = lumps()
    ray = RayMeshIntersector(mesh)
    o, d = hard_rays(tree_of(mesh), 200, rng)
    first, (where, index, tri) = ray.intersects_first(o, d), ray.intersects_location(o, d)
    worse_o, worse_d = o.copy(), d.copy()
    worse_o[::7], worse_d[1::7], worse_d[2::7] = np.nan, np.inf, 0.0
    good = np.isin(np.arange(200) % 7, (3, 4, 5, 6))
    again = ray.intersects_first(worse_o, worse_d)
    assert np.array_equal(again[good], first[good])
    assert (again[~good] == -1).all()
    assert np.array_equal(ray.intersects_any(worse_o, worse_d), again >= 0)
    kept = good[index]
    for got, want in zip(
        ray.intersects_location(worse_o, worse_d), (where, index, tri), strict=True
    ):
        assert np.array_equal(got, want[kept])
    bad = o.copy()
    bad[~good] = np.nan
    for query in (drop_in.closest_point, drop_in.signed_distance, drop_in.contains):
        for got, want in zip(_parts(query(mesh, bad)), _parts(query(mesh, o)), strict=True):
            assert np.array_equal(got[good], want[good])
    closest, distance, face = drop_in.closest_point(mesh, bad)
    assert np.isnan(closest[~good]).all()
    assert np.isnan(distance[~good]).all()
    assert (face[~good] == -1).all()
    assert np.isnan(drop_in.signed_distance(mesh, bad)[~good]).all()
    assert not drop_in.contains(mesh, bad)[~good].any()


def _parts(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def test_either_order_of_arguments() -> None:
    """By position, the orders of both classes; by keyword, all names of both."""
    ray = RayMeshIntersector(trimesh.creation.box(extents=[1, 1, 1]))
    rays = np.array([[0.25, 0.125, 2.0]]), DOWN
    three = ray.intersects_id(*rays, return_locations=True)
    first = ray.intersects_id(*rays, multiple_hits=False)
    for got, want in (
        (ray.intersects_id(*rays, True), three),  # (return_locations)
        (ray.intersects_id(*rays, True, True), three),  # (return_locations, multiple_hits)
        (ray.intersects_id(*rays, False, False), first),
        (ray.intersects_id(*rays, np.False_, np.False_), first),
        (ray.intersects_id(*rays, True, 20, True), three),  # (multiple_hits, max_hits, ...)
        (ray.intersects_id(*rays, True, 2), ray.intersects_id(*rays)),
        (ray.intersects_id(*rays, multiple_hits=1), three[:2]),  # numbers that are flags
        (ray.intersects_id(*rays, multiple_hits=0), first),
        (ray.intersects_id(*rays, multiple_hits=None), first),
        (ray.intersects_id(*rays, 1, np.int64(1)), three),
        (ray.intersects_id(*rays, False, np.int64(20)), first),
        (ray.intersects_id(*rays, True, 1, False), first),
        (ray.intersects_id(*rays, max_hits=1), first),
        (ray.intersects_id(*rays, False, True, some="thing"), three[:2]),
    ):
        assert len(got) == len(want)
        assert all(map(np.array_equal, got, want))
    assert len(ray.intersects_location(*rays, False)[0]) == 1
    assert len(ray.intersects_location(*rays, multiple_hits=False, max_hits=5)[0]) == 1
    assert ray.intersects_any(*rays, multiple_hits=False).all()
    assert ray.intersects_first(*rays, multiple_hits=True).shape == (1,)


def test_either_order_where_embree_was(installed: None) -> None:
    """Embree's stand-in reads a third argument as Embree does, and still takes r-tree's order."""
    embree()
    ray = trimesh.creation.box().ray
    rays = np.array([[0.25, 0.125, 2.0]]), DOWN
    assert len(ray.intersects_id(*rays, False)) == 2
    assert len(ray.intersects_id(*rays, False)[0]) == 1
    assert len(ray.intersects_id(*rays, True, 20, True)) == 3
    assert len(ray.intersects_id(*rays, True, 1)[0]) == 1
    assert len(ray.intersects_id(*rays, True, False)) == 3
    assert len(ray.intersects_id(*rays, np.True_, np.False_)) == 3
    assert len(ray.intersects_id(*rays, multiple_hits=1)[0]) == 2
    # A vertex in the middle of a face: each place once, also where only faces are asked for.
    fine = trimesh.creation.box().subdivide().subdivide().ray
    assert len(fine.intersects_id([[0.0, 0.0, 2.0]], DOWN)[0]) == 2
    assert len(RayMeshIntersector(fine.mesh).intersects_id([[0.0, 0.0, 2.0]], DOWN)[0]) > 2


def test_hits_equal_the_rational_truth(rng: np.random.Generator) -> None:
    """All faces touched, each place once, the nearest, and max_hits of them."""
    mesh = trimesh.creation.box().subdivide()
    ray = RayMeshIntersector(mesh)
    o, d = grid_rays(9)
    more_o, more_d = hard_rays(tree_of(mesh), 60, rng)
    o, d = np.concatenate([o, more_o]), np.concatenate([d, more_d])
    touched = oracle_tm.hits(mesh, o, d)
    tri, index = ray.intersects_id(o, d)
    assert list(zip(index, tri, strict=True)) == [(r, f) for r, _, f in touched]
    once = oracle_tm.places(touched)
    where, index, tri = ray.intersects_location(o, d)
    assert list(zip(index, tri, strict=True)) == [(r, f) for r, _, f in once]
    assert len({(r, *p) for r, p in zip(index, where.tolist(), strict=True)}) == len(where)
    for (r, t, _), place in zip(once, where, strict=True):
        for axis in range(3):
            exact = oracle_tm.Fraction(o[r, axis]) + t * oracle_tm.Fraction(d[r, axis])
            assert abs(float(exact - oracle_tm.Fraction(place[axis]))) <= 2e-16
    for most in (1, 2):
        kept = [h for i, h in enumerate(once) if i < most or once[i - most][0] != h[0]]
        got = ray.intersects_id(o, d, return_locations=True, max_hits=most)
        assert list(zip(got[1], got[0], strict=True)) == [(r, f) for r, _, f in kept]
    near = {r: f for r, _, f in reversed(once)}
    assert ray.intersects_first(o, d).tolist() == [near.get(r, -1) for r in range(len(o))]


def test_hits_equal_brute_force(rng: np.random.Generator) -> None:
    """The first hit over the same leaf test, on hard rays; all methods agree with it."""
    mesh = lumps(8)
    ray, tree = RayMeshIntersector(mesh), tree_of(mesh)
    o, d = hard_rays(tree, 2_000, rng)
    t, prim = brute.closest_hit(tree, o, d)
    assert np.array_equal(ray.intersects_first(o, d), prim)
    assert np.array_equal(ray.intersects_any(o, d), prim >= 0)
    for i in range(0, 2_000, 100):
        assert ray.intersects_first(o[i : i + 1], d[i : i + 1]).tolist() == [prim[i]]
        assert ray.intersects_any(o[i : i + 1], d[i : i + 1]).tolist() == [prim[i] >= 0]
    tri, index = ray.intersects_id(o, d, multiple_hits=False)
    assert np.array_equal(index, np.flatnonzero(prim >= 0))
    assert np.array_equal(tri, prim[prim >= 0])
    where, index, tri = ray.intersects_location(o, d)
    begins = np.flatnonzero(np.append(True, index[1:] != index[:-1]))
    assert np.array_equal(tri[begins], prim[prim >= 0])
    along = o[index[begins]] + t[prim >= 0, None] * d[index[begins]]
    assert np.allclose(where[begins], along, rtol=0, atol=1e-9)


def test_agreement_with_rtree(rng: np.random.Generator) -> None:
    """Rays that hit no edge: the same faces, and places within rounding."""
    pytest.importorskip("rtree")
    mesh = lumps()
    o = rng.normal(size=(60, 3)) * 3
    d = rng.normal(size=(60, 3)) - o
    theirs, ours = RTREE(mesh), RayMeshIntersector(mesh)
    order = np.lexsort
    for options in ({}, {"multiple_hits": False}):
        a = theirs.intersects_id(o, d, return_locations=True, **options)
        b = ours.intersects_id(o, d, return_locations=True, **options)
        turn = order((a[0], a[1])), order((b[0], b[1]))
        for x, y in zip(a[:2], b[:2], strict=True):
            assert np.array_equal(x[turn[0]], y[turn[1]])
            assert x.dtype == y.dtype
        assert np.allclose(a[2][turn[0]], b[2][turn[1]], rtol=0, atol=1e-9)
    assert np.array_equal(theirs.intersects_first(o, d), ours.intersects_first(o, d))
    assert np.array_equal(theirs.intersects_any(o, d), ours.intersects_any(o, d))
