"""The drop-in for trimesh in all meshes at once: installed, gone again, and through changes."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
import bvh.compat.trimesh as drop_in
from bvh.compat import trimesh_points
from bvh.compat.trimesh import ProximityQuery, RayMeshIntersector
from bvh.compat.trimesh_points import tree_of
from tests.cases.soups import soup
from tests.compat.test_compat_trimesh import DOWN, RTREE, grid_rays, lumps


def places_of_trimesh() -> dict[str, Any]:
    """Return what installing changes."""
    names: dict[str, Any] = {
        "rtree": trimesh.ray.ray_triangle.RayMeshIntersector.intersects_id,
        "contains": trimesh.ray.ray_util.contains_points,
        "closest": trimesh.proximity.closest_point,
        "signed": trimesh.proximity.signed_distance,
        "ray": inspect.getattr_static(trimesh.Trimesh, "ray", None),
    }
    if trimesh.ray.has_embree:
        names["embree"] = trimesh.ray.ray_pyembree.RayMeshIntersector.contains_points
    return names


def test_install_and_uninstall() -> None:
    """Meshes made before, meanwhile and after; twice is once; all is given back."""
    before = places_of_trimesh()
    old, plain = trimesh.creation.box(), trimesh.creation.box(use_embree=False)
    theirs = old.ray, plain.ray
    drop_in.install()
    drop_in.install()
    try:
        new, other = trimesh.creation.box(), trimesh.creation.box(use_embree=False)
        sphere = trimesh.primitives.Sphere()
        for mesh in (old, plain, new, other, sphere, new.copy(), copy.deepcopy(old)):
            assert isinstance(mesh.ray, RayMeshIntersector)
            assert mesh.ray.mesh is mesh
            ray = mesh.ray
            assert mesh.ray is ray
            assert mesh.ray.intersects_any([[0.1, 0.2, 3.0]], DOWN).all()
        new.ray = trimesh.ray.ray_triangle.RayMeshIntersector(old)
        assert isinstance(new.ray, RayMeshIntersector)
        assert new.ray.mesh is old
        plain.ray = other.ray
        assert all(
            a is not b for a, b in zip(before.values(), places_of_trimesh().values(), strict=True)
        )
    finally:
        drop_in.uninstall()
        drop_in.uninstall()
    assert places_of_trimesh() == before
    assert old.ray is theirs[0]
    assert type(plain.ray) is RTREE
    assert plain.ray.mesh is other
    assert type(other.ray) is RTREE
    assert type(new.ray) is RTREE
    assert type(sphere.ray) is type(theirs[0]) is type(trimesh.creation.box().ray)
    assert sphere.ray.mesh is sphere


def test_contexts() -> None:
    """A context uninstalls at its end, but not what was installed before it."""
    with drop_in.install():
        with drop_in.install():
            pass
        assert isinstance(trimesh.creation.box().ray, RayMeshIntersector)
    assert type(trimesh.creation.box().ray) is not RayMeshIntersector
    assert "ray" not in vars(trimesh.Trimesh)


class Counting(trimesh.ray.ray_triangle.RayMeshIntersector):
    """A user's own caster, on top of trimesh's."""

    asked = 0

    def intersects_id(self, *args: Any, **kwargs: Any) -> Any:
        """Count, and ask trimesh."""
        self.asked += 1
        return super().intersects_id(*args, **kwargs)


def test_subclasses_stay_what_they_are(installed: None) -> None:
    """Methods of their own are asked, by those of trimesh, too, and find trimesh's own below."""
    pytest.importorskip("rtree", reason="trimesh's own caster needs it")
    mesh = trimesh.creation.box()
    mesh.ray = own = Counting(mesh)
    assert mesh.ray is own
    assert sorted(own.intersects_location([[0.1, 0.2, 3.0]], DOWN)[2].tolist()) == [4, 8]
    assert own.intersects_any([[0.1, 0.2, 3.0]], DOWN).all()
    assert mesh.contains([[0.1, 0.2, 0.3]]).all()
    assert own.asked == 3


def test_what_was_taken_while_installed_works_afterwards() -> None:
    """A method of trimesh's class that somebody holds, or that a thread is about to call."""
    pytest.importorskip("rtree", reason="trimesh's own caster needs it")
    mesh = trimesh.creation.box(use_embree=False)
    with drop_in.install():
        method = RTREE.intersects_first
        bound = vars(mesh)["ray"].intersects_first
    assert method(vars(mesh)["ray"], [[0.1, 0.2, 3.0]], DOWN).tolist() == [4]
    assert bound([[0.1, 0.2, 3.0]], DOWN).tolist() == [4]


def test_all_is_installed_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where trimesh lacks a name, what was replaced before it is given back."""
    before = places_of_trimesh()
    monkeypatch.delattr(trimesh.ray.ray_util, "contains_points")
    with pytest.raises(AttributeError):
        drop_in.install()
    monkeypatch.undo()
    assert places_of_trimesh() == before
    with drop_in.install():
        assert places_of_trimesh() != before


def test_ray_stays_an_attribute(installed: None) -> None:
    """It can be given, replaced by something else, taken away and missed."""
    mesh = trimesh.creation.box()
    mesh.ray = "mine"
    assert mesh.ray == "mine"
    mesh.ray = own = RayMeshIntersector(mesh)
    assert mesh.ray is own
    drop_in.uninstall()
    assert mesh.ray is own
    drop_in.install()
    del mesh.ray
    assert not hasattr(mesh, "ray")


def test_what_trimesh_builds_on_it(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """`contains`, `nearest` and `thickness` come to us; the r-tree is never asked."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("trimesh's own ray caster was used")

    monkeypatch.setattr(trimesh.ray.ray_triangle, "ray_triangle_id", refuse)
    monkeypatch.setattr(trimesh.proximity, "nearby_faces", refuse)
    mesh = trimesh.creation.box(use_embree=False)
    assert mesh.contains([[0.0, 0.1, 0.2], [3, 3, 3]]).tolist() == [True, False]
    util = trimesh.ray.ray_util.contains_points
    assert util(mesh.ray, [[0.0, 0.1, 0.2]]).all()
    assert util(intersector=mesh.ray, points=[[0.0, 0.1, 0.2]]).all()
    closest, distance, face = mesh.nearest.on_surface([[0.1, 0.2, 3.0]])
    assert np.allclose(closest, [[0.1, 0.2, 0.5]], rtol=0, atol=1e-15)
    assert distance.tolist() == [2.5]
    assert mesh.face_normals[face[0]].tolist() == [0.0, 0.0, 1.0]
    assert mesh.nearest.signed_distance([[0.0, 0.0, 0.25]]).tolist() == [0.25]
    point = np.array([[0.1, 0.2, 0.5]])
    assert np.allclose(trimesh.proximity.thickness(mesh, point, method="ray"), 1.0)
    assert np.allclose(trimesh.proximity.longest_ray(mesh, point * 0.5, -DOWN), 0.25)


@pytest.mark.parametrize("make", [RayMeshIntersector, ProximityQuery])
def test_trees_follow_their_mesh(make: Any) -> None:
    """Any change that trimesh's hash sees makes a new tree; otherwise it is the same one."""
    mesh = lumps()
    query = make(mesh)

    def ask() -> Any:
        if make is ProximityQuery:
            return query.on_surface([[0.1, 0.2, 9.0]])[1][0]
        return query.intersects_location([[0.0, 0.0, 9.0]], DOWN)[0][:, 2].max(initial=-np.inf)

    tree, first = tree_of(mesh), ask()
    assert tree_of(mesh) is tree
    assert ask() == first
    mesh.vertices[:] *= 0.5
    assert ask() != first
    assert tree_of(mesh) is not tree
    mesh.vertices = mesh.vertices * 2.0
    assert ask() == first
    mesh.apply_translation([0.0, 0.0, 0.25])
    assert ask() != first
    mesh.update_faces(np.zeros(len(mesh.faces), bool))
    assert abs(ask()) == np.inf
    assert np.array_equal(tree_of(mesh).vertices, mesh.vertices)


def test_primitives_change() -> None:
    """A primitive's hash is of its parameters."""
    box = trimesh.primitives.Box()
    ray = RayMeshIntersector(box)
    assert ray.intersects_location([[0.1, 0.2, 9.0]], DOWN)[0][:, 2].tolist() == [0.5, -0.5]
    box.primitive.extents = [1, 1, 4]
    assert ray.intersects_location([[0.1, 0.2, 9.0]], DOWN)[0][:, 2].tolist() == [2.0, -2.0]


def test_trees_die_with_their_mesh() -> None:
    """Nothing keeps a mesh alive that nobody holds, nor its tree."""
    gc.collect()
    count = len(trimesh_points._followed)
    mesh = trimesh.creation.box()
    RayMeshIntersector(mesh).intersects_any(DOWN, DOWN)
    assert len(trimesh_points._followed) == count + 1
    del mesh
    gc.collect()
    assert len(trimesh_points._followed) == count


def test_copies_and_pickles(installed: None) -> None:
    """Of our class, of a mesh that holds one, and of a mesh under the installed drop-in."""
    o, d = grid_rays(5)
    mesh = lumps()
    want = RayMeshIntersector(mesh).intersects_first(o, d)
    ray = RayMeshIntersector(mesh, False)
    for again in (pickle.loads(pickle.dumps(ray)), copy.deepcopy(ray)):
        assert type(again) is RayMeshIntersector
        assert again.mesh is not mesh
        assert np.array_equal(again.intersects_first(o, d), want)
    assert copy.copy(ray).mesh is mesh
    stand_in = pickle.loads(pickle.dumps(mesh.ray))
    assert np.array_equal(stand_in.intersects_first(o, d), want)
    content = pickle.dumps(mesh)
    assert b"bvh" not in content
    assert np.array_equal(pickle.loads(content).ray.intersects_first(o, d), want)
    mesh.ray = ray
    assert pickle.loads(pickle.dumps(mesh)).ray.mesh.vertices.shape == mesh.vertices.shape
    assert np.array_equal(mesh.copy().ray.intersects_first(o, d), want)
    assert pickle.loads(pickle.dumps(ProximityQuery(mesh))).on_surface(DOWN)[2].shape == (1,)


def test_threads() -> None:
    """Many threads ask a mesh at once, the first of them while its tree is made."""
    mesh = lumps(8)
    o, d = grid_rays(40)
    ray = RayMeshIntersector(mesh)
    answers: list[Any] = [None] * 6

    def work(i: int) -> None:
        answers[i] = (
            ray.intersects_first(o, d),
            ray.contains_points(o),
            drop_in.closest_point(mesh, o)[1],
        )

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in answers[1:]:
        assert all(map(np.array_equal, answer, answers[0]))


def test_nearest_points_are_the_trees(rng: np.random.Generator) -> None:
    """The tree's, bit for bit; of faces as near to 1e-8, the one ahead and the point on it."""
    mesh = trimesh.creation.icosphere(subdivisions=2)
    points = rng.normal(size=(500, 3)) * rng.choice([0.5, 2.0], (500, 1))
    # Beside a plane in which a point is as near to two faces, by all but 1e-9 of the distance.
    points[:50] = mesh.face_normals[mesh.face_adjacency[:50]].mean(axis=1) * 0.25
    points[:50] += mesh.face_normals[mesh.face_adjacency[:50, 0]] * 1e-9
    closest, distance, face = drop_in.closest_point(mesh, points)
    near = tree_of(mesh).closest_point(points)
    gap = tree_of(mesh).closest_point(points, k=2).distance[:, 1] - near.distance
    alone = gap > near.distance * 1e-8
    assert 100 < alone.sum() < 400
    assert np.array_equal(closest[alone], near.position[alone])
    assert np.array_equal(distance[alone], near.distance[alone])
    assert np.array_equal(face[alone], near.prim_id[alone])
    assert (distance >= near.distance).all() and (distance <= near.distance * (1 + 1e-8)).all()
    assert np.allclose(np.linalg.norm(points - closest, axis=1), distance, rtol=0, atol=1e-15)
    off = closest - trimesh.triangles.closest_point(mesh.triangles[face], closest)
    assert np.abs(off).max() < 1e-15
    # Where the mesh is round, a face that a point sees is one that faces it.
    ahead = np.einsum("ij,ij->i", mesh.face_normals[face], points - closest)
    outside = np.linalg.norm(points, axis=1) > 1.0
    assert (ahead[outside] > 0.0).all()


def test_many_faces_as_near() -> None:
    """At the pole of a fan of a thousand faces it is still the one that faces the point."""
    angle = np.linspace(0, 2 * np.pi, 1001)[:-1]
    rim = np.stack([np.cos(angle), np.sin(angle), np.full(1000, -1.0)], axis=1)
    mesh = trimesh.Trimesh(
        np.vstack([[0, 0, 0], rim]), [[0, i, i % 1000 + 1] for i in range(1, 1001)], process=False
    )
    points = np.array([[np.cos(a), np.sin(a), 9.0] for a in angle[[7, 300]] + np.pi / 1000])
    face = drop_in.closest_point(mesh, points)[2]
    dots = mesh.face_normals @ points.T
    assert (dots[face, [0, 1]] >= np.sort(dots, axis=0)[-500]).all()


def test_signs() -> None:
    """Positive inside, whichever way faces are turned; in open meshes by the side of a face."""
    mesh = lumps(8)
    points = np.random.default_rng(0).uniform(*mesh.bounds, (400, 3))
    signed = drop_in.signed_distance(mesh, points)
    inside = bvh.BVH.from_mesh(mesh).contains(points)
    assert np.array_equal(signed > 0, inside)
    assert np.array_equal(drop_in.contains(mesh, points), inside)
    inverted = mesh.copy()
    inverted.invert()
    assert np.array_equal(drop_in.signed_distance(inverted, points), signed)
    on_it = mesh.triangles_center[:20]
    assert (drop_in.signed_distance(mesh, on_it) >= 0.0).all()
    sheet = trimesh.Trimesh([[0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0]], [[0, 1, 2], [0, 2, 3]])
    places = [[0.5, 0.25, 1.0], [0.5, 0.25, -1.0], [1.0, 1.0, -0.5], [9.0, 1.0, -0.5]]
    got = drop_in.signed_distance(sheet, places)
    assert got[:3].tolist() == [-1.0, 1.0, 0.5]
    assert got[3] < -7.0


def test_bodies_that_overlap() -> None:
    """What two of them share is outside, of the sign, too; all of it where they are the same."""
    box = trimesh.creation.box()
    for shift, inside in ((0.5, [True, False, True]), (0.0, [False, False, False])):
        pair = trimesh.util.concatenate([box, box.copy().apply_translation([shift, 0, 0])])
        assert pair.is_watertight
        points = [[-0.25, 0.125, 0.0], [0.25, 0.125, 0.0], [0.75, 0.125, 0.0]]
        assert drop_in.contains(pair, points).tolist() == inside
        assert (drop_in.signed_distance(pair, points) > 0).tolist() == inside


def test_open_meshes_answer_the_same_every_time(rng: np.random.Generator) -> None:
    """A ball with a hole: parity where both sides agree, the winding number where they do not."""
    ball = trimesh.creation.icosphere(subdivisions=3)
    ball.update_faces(ball.triangles_center[:, 2] < 0.9)
    points = rng.uniform(-1.2, 1.2, (2_000, 3))
    radius = np.linalg.norm(points, axis=1)
    first = drop_in.contains(ball, points)
    assert np.array_equal(first, drop_in.contains(ball, points))
    assert not first[radius > 1.0].any()
    below = points[:, 2] < 0.0
    assert np.mean(first[(radius < 0.95) & below]) > 0.9


def test_faces_without_area_and_without_numbers(rng: np.random.Generator) -> None:
    """Soups of degenerate faces, and vertices that are not finite: no warning, no crash."""
    vertices, faces = soup(rng, 300)
    vertices = np.array(vertices)
    vertices[faces[::5, 1]] = vertices[faces[::5, 0]]
    vertices[faces[1::7, 2]] = np.nan
    mesh = trimesh.Trimesh(vertices, faces, process=False, validate=False)
    points = rng.normal(size=(200, 3))
    with np.errstate(all="ignore"):
        watertight = mesh.is_watertight
    assert not watertight
    ray = RayMeshIntersector(mesh)
    first = ray.intersects_first(points, -points)
    assert np.array_equal(first, tree_of(mesh).closest_hit(points, -points).prim_id)
    assert drop_in.signed_distance(mesh, points).shape == (200,)
    assert drop_in.closest_point(mesh, points)[0].shape == (200, 3)
    assert ray.contains_points(points).shape == (200,)


def test_open_meshes_by_winding_numbers() -> None:
    """On demand they decide alone, without a warning, and until it is uninstalled."""
    rng = np.random.default_rng(3)
    ball = trimesh.creation.icosphere(subdivisions=3)
    points = rng.uniform(-1.1, 1.1, (4000, 3))
    size = np.linalg.norm(points, axis=1)
    points = points[np.abs(size - 1.0) > 0.15]
    right = np.linalg.norm(points, axis=1) < 1.0
    ball.update_faces(rng.random(len(ball.faces)) > 0.02)
    assert not ball.is_watertight
    # As it stays where it is installed again.
    outer = drop_in.install()
    with warnings.catch_warnings():
        warnings.simplefilter("error", bvh.BVHWarning)
        with drop_in.install(contains="winding"), drop_in.install():
            for mesh in (ball, trimesh.Trimesh(ball.vertices, ball.faces[:, ::-1])):
                assert np.array_equal(mesh.contains(points), right)
                assert np.array_equal(mesh.nearest.signed_distance(points) > 0.0, right)
        assert np.array_equal(drop_in.contains(ball, points, opened="winding"), right)
    with outer, pytest.warns(bvh.BVHWarning, match=r"install\(contains='winding'\)"):
        assert not np.array_equal(ball.contains(points), right)
    with pytest.raises(ValueError, match="contains must be"):
        drop_in.install(contains="parity")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="opened must be"):
        drop_in.contains(ball, points, opened="parity")  # type: ignore[arg-type]
