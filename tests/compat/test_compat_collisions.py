"""The collision manager: trimesh's interface, exact answers, without python-fcl."""

from __future__ import annotations

import inspect
import math
import pickle
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import trimesh

from bvh import BVH
from bvh.compat.trimesh import CollisionManager, scene_to_collision
from bvh.compat.trimesh_points import tree_of
from tests.oracles import points
from tests.scene.test_round_pairs import of_segments

THEIRS = trimesh.collision.CollisionManager
METHODS = [name for name, _ in inspect.getmembers(THEIRS, inspect.isfunction) if name[0] != "_"]


def at(*by: float) -> np.ndarray:
    """Return a translation."""
    matrix = np.eye(4)
    matrix[:3, 3] = by
    return matrix


def manager_of(mesh: Any, *places: np.ndarray) -> CollisionManager:
    """Return a manager of one mesh at several places, named by letters."""
    manager = CollisionManager()
    for name, place in zip("abcdefgh", places, strict=False):
        manager.add_object(name, mesh, place)
    return manager


def test_the_interface_is_trimeshs() -> None:
    """All methods, with the names, order and defaults of their arguments."""
    assert METHODS
    for method in METHODS:
        want = inspect.signature(getattr(THEIRS, method)).parameters.values()
        have = inspect.signature(getattr(CollisionManager, method)).parameters.values()
        assert [(p.name, p.default) for p in have] == [(p.name, p.default) for p in want], method
    want = inspect.signature(trimesh.collision.scene_to_collision).parameters
    assert list(inspect.signature(scene_to_collision).parameters) == list(want)
    for name in ("normal", "point", "depth", "index"):
        assert hasattr(trimesh.collision.ContactData, name)


def test_a_single_mesh() -> None:
    """Against all in the manager, by names and contacts, as trimesh's test has it."""
    cube = trimesh.creation.box()
    manager = manager_of(cube, at(0, 0, 0), at(5, 0, 0))
    assert manager.in_collision_single(cube) is True
    hit, names, data = manager.in_collision_single(cube, at(5.5, 0, 0), True, True)
    assert hit is True and names == {"b"} and len(data) > 0
    for contact in data:
        assert contact.names == {"b", "__external"}
        assert abs(contact.normal).max() == 1.0
        assert contact.point[0] >= 5.0 and (abs(contact.point - [5, 0, 0]) <= 0.5).all()
        assert all(0 <= contact.index(name) < 12 for name in contact.names)
        assert contact.depth == pytest.approx(0.5)
    assert "ContactData" in repr(data[0])
    assert manager.in_collision_single(cube, at(-5, 0, 0), True, True) == (False, set(), [])
    assert manager.in_collision_single(cube, at(-5, 0, 0), return_data=True) == (False, [])


def test_meshes_in_the_manager() -> None:
    """Added, moved, replaced and removed."""
    cube = trimesh.creation.box()
    manager = manager_of(cube, at(0, 0, 0), at(5, 0, 0))
    assert manager.in_collision_internal() is False
    manager.add_object("c", cube, at(5.25, 0, 0))
    hit, names, data = manager.in_collision_internal(return_names=True, return_data=True)
    assert hit is True and names == {("b", "c")} and {frozenset(c.names) for c in data} == {
        frozenset("bc")
    }  # fmt: skip
    manager.set_transform("c", at(-5, 0, 0))
    assert manager.in_collision_internal(return_names=True) == (False, set())
    manager.set_transform("c", at(1, 0, 0))
    assert manager.in_collision_internal(True) == (True, {("a", "c")})
    manager.add_object("c", cube, at(9, 0, 0))
    assert not manager.in_collision_internal() and "3 meshes" in repr(manager)
    manager.remove_object("c")
    assert manager.in_collision_internal(True, True) == (False, set(), [])
    for call in (
        lambda: manager.remove_object("c"),
        lambda: manager.set_transform("c", np.eye(4)),
        lambda: manager.min_distance_internal("c"),
    ):
        with pytest.raises(ValueError, match="c not in collision manager!"):
            call()
    assert pickle.loads(pickle.dumps(manager)).min_distance_internal() == 4.0


def test_two_managers() -> None:
    """Pairs of names, that of the own manager first; also a manager against itself."""
    cube = trimesh.creation.box()
    m, n = manager_of(cube, at(0, 0, 0), at(5, 0, 0)), CollisionManager()
    n.add_object("a", cube, at(-5, 0, 0))
    assert m.in_collision_other(n) is False
    n.add_object("z", cube, at(5, 0.5, 0))
    hit, names, data = m.in_collision_other(n, return_names=True, return_data=True)
    assert hit and names == {("b", "z")} and all(c.names == {"b", "z"} for c in data)
    assert n.in_collision_other(m, return_names=True) == (True, {("z", "b")})
    assert m.in_collision_other(m, return_names=True) == (True, {("a", "a"), ("b", "b")})
    distance, names, data = m.min_distance_other(n, True, True)
    assert distance == 0.0 and names == ("b", "z")
    n.remove_object("z")
    distance, names, data = m.min_distance_other(n, return_names=True, return_data=True)
    assert distance == 4.0 == data.distance and names == ("a", "a")
    with pytest.raises(TypeError, match="other_manager must be a CollisionManager"):
        m.in_collision_other(THEIRS)


def test_distances() -> None:
    """Of one mesh, of all, of one in the manager; the points are as far apart as it is said."""
    cube = trimesh.creation.box()
    manager = manager_of(cube, at(5, 0, 0), at(-5, 0, 0))
    assert manager.min_distance_single(cube) == 4.0
    assert manager.min_distance_single(cube, at(2, 0, 0), return_name=True) == (2.0, "a")
    assert manager.min_distance_single(cube, at(-2, 0, 0), True)[1] == "b"
    assert manager.min_distance_internal() == 9.0
    manager.add_object("c", cube, at(-2, 0, 0))
    distance, names, data = manager.min_distance_internal(return_names=True, return_data=True)
    assert distance == 2.0 and names == ("b", "c") and data.names == {"b", "c"}
    assert np.linalg.norm(data.point("b") - data.point("c")) == 2.0
    assert data.point("b")[0] == -4.5 and 0 <= data.index("b") < 12 and "distance 2" in repr(data)
    assert manager.min_distance_internal("a", return_names=True) == (6.0, ("a", "c"))
    # Colliding ones have distance 0: how deep they are is not told.
    assert manager.min_distance_single(cube, at(5.75, 0, 0)) == 0.0


def test_a_watertight_convex_mesh_is_solid() -> None:
    """What is inside collides with it, also a mesh that is not convex; others are surfaces."""
    big, small = trimesh.creation.box([4, 4, 4]), trimesh.creation.box()
    ring, wide = trimesh.creation.torus(0.5, 0.2), trimesh.creation.torus(4.0, 1.5)
    for outer, inner in ((big, small), (big, ring), (small, big), (ring, big)):
        manager = manager_of(outer, at(1, 2, 3))
        hit, names, data = manager.in_collision_single(inner, at(1, 2, 3), True, True)
        assert hit and names == {"a"} and [c.index("a") for c in data] == [-1]
        assert (abs(data[0].point - [1, 2, 3]) < 1.0).all() and np.isnan(data[0].normal).all()
        assert manager.min_distance_single(inner, at(1, 2, 3)) == 0.0
        assert manager.min_distance_single(inner, at(9, 2, 3)) > 0.0
    # One of two parts inside, which no vertex of the other tells.
    both = trimesh.util.concatenate([ring.copy().apply_translation([9, 0, 0]), ring])
    assert manager_of(big, np.eye(4)).in_collision_single(both)
    manager = manager_of(wide, np.eye(4), at(0.01, 0, 0))
    hollow = trimesh.creation.torus(4.0, 0.5)
    assert not manager_of(wide, np.eye(4)).in_collision_single(hollow)
    assert manager_of(wide, np.eye(4)).min_distance_single(hollow) > 0.9
    open_box = trimesh.Trimesh(big.vertices, big.faces[:-1])
    assert not manager_of(open_box, np.eye(4)).in_collision_single(small)


def test_nothing_to_compare() -> None:
    """Empty managers, a lonely mesh, meshes without faces."""
    manager, cube = CollisionManager(), trimesh.creation.box()
    assert manager.in_collision_internal(True, True) == (False, set(), [])
    assert manager.min_distance_internal(None, True, True) == (np.inf, (None, None), None)
    assert manager.min_distance_single(cube, None, True, True) == (np.inf, None, None)
    manager.add_object("a", cube)
    manager.add_object("none", trimesh.Trimesh())
    assert manager.min_distance_internal("a") == manager.min_distance_internal() == np.inf
    assert manager.in_collision_other(CollisionManager()) is False
    assert manager.in_collision_internal() is False


def test_spheres_and_capsules() -> None:
    """Surfaces, which a box is solid around."""
    manager, box = CollisionManager(), trimesh.creation.box([2.0, 2.0, 2.0])
    manager.add_object("box", box)
    manager.add_object("ball", BVH.from_spheres([[0, 0, 0]], 1.0), at(3.0, 0.0, 0.0))
    capsule = BVH.from_capsules([[0, 0, -1]], [[0, 0, 1]], 0.5)
    manager.add_object("capsule", capsule, at(3.0, 4.0, 0.0))
    assert not manager.in_collision_internal()
    assert manager.min_distance_internal(return_names=True) == (1.0, ("ball", "box"))
    manager.set_transform("ball", at(2.0, 0.0, 0.0))
    assert manager.in_collision_internal(return_names=True) == (True, {("ball", "box")})
    places = (at(0.0, 0.25, 0.0), True), (at(1.0, 0.0, 0.0), True), (at(9.0, 0.0, 0.0), False)
    for place, hit in places:
        small = BVH.from_spheres([[0, 0, 0]], 0.125)
        assert manager.in_collision_single(small, place) == hit
        small = BVH.from_capsules([[0, 0, 0.125]], [[0, 0, 0]], 0.125)
        assert manager.in_collision_single(small, place) == hit
    # A box within a ball or a capsule does not touch its surface.
    inner = trimesh.creation.box([0.25, 0.25, 0.25])
    assert not manager.in_collision_single(inner, at(3.0, 4.0, 0.0))
    with pytest.raises(TypeError, match="spheres or capsules, got triangles"):
        manager.add_object("tree", tree_of(box))


def test_contacts_of_spheres_and_capsules(rng: np.random.Generator) -> None:
    """Points, normals and depths, against the distance of the axes by rationals."""
    for k in range(30):
        p, q = rng.normal(size=(2, 2, 3))
        radii = rng.uniform(0.5, 1.5, 2)
        if k % 3 == 0:
            q[0] = p[0]
        if k % 5 == 0:
            p, q, radii = np.round(p * 2.0) * 0.5, np.round(q * 2.0) * 0.5, np.array([1.0, 1.0])
        first, second = (BVH.from_capsules(p[[i]], q[[i]], radii[i]) for i in (0, 1))
        manager = CollisionManager()
        manager.add_object("first", first)
        hit, data = manager.in_collision_single(second, return_data=True)
        ends = [[Fraction(x) for x in row] for row in (*p.tolist(), *q.tolist())]
        axes = math.sqrt(of_segments(ends[0], ends[2], ends[1], ends[3]))
        assert hit == (len(data) == 1)
        if not hit:
            assert axes > sum(radii) or axes < max(radii)
            continue
        (contact,) = data
        assert abs(contact.depth - (sum(radii) - axes)) < 1e-13
        assert contact.index("first") == contact.index("__external") == 0
        assert abs(np.linalg.norm(contact.normal) - 1.0) < 1e-12
        # The point is as deep in both.
        for tree in (first, second):
            off = tree.signed_distance(contact.point)
            if axes > 0.0 and contact.depth <= 2.0 * min(radii):
                assert abs(off + 0.5 * contact.depth) < 1e-9
        if axes > 0.0:
            step = np.linalg.inv(at(*-contact.normal * (contact.depth + 1e-9)))
            assert not manager.in_collision_single(second, step)


@pytest.mark.parametrize("count", [20, pytest.param(40, marks=pytest.mark.long)])
def test_contacts_of_round_shapes_and_meshes(count: int, rng: np.random.Generator) -> None:
    """The depth is that of the deepest point of the axis; for a ball in a cube in closed form."""
    cube = trimesh.creation.box([2.0, 2.0, 2.0])

    def signed(points: np.ndarray) -> np.ndarray:
        off = np.abs(points) - 1.0
        return np.linalg.norm(np.maximum(off, 0.0), axis=-1) + np.minimum(off.max(axis=-1), 0.0)

    manager, hits = CollisionManager(), 0
    manager.add_object("cube", cube)
    for k in range(count):
        p, q = rng.uniform(-1.6, 1.6, (2, 3))
        radius = float(rng.uniform(0.1, 0.5))
        q = p if k % 3 == 0 else q
        limb = BVH.from_capsules([p - 1.0], [q - 1.0], radius)
        axis = p + np.linspace(0.0, 1.0, 20_001)[:, None] * (q - p)
        hit, data = manager.in_collision_single(limb, at(1.0, 1.0, 1.0), return_data=True)
        least = float(signed(axis).min())
        for contact in data:
            assert contact.names == {"cube", "__external"}
            hits += 1
            assert -1e-12 <= radius - least - contact.depth + 1e-4 <= 3e-4
            face = contact.index("cube")
            if face < 0:
                assert np.isnan(contact.normal).all()
                continue
            np.testing.assert_allclose(contact.normal, cube.face_normals[face], atol=1e-12)
            assert abs(limb.signed_distance(contact.point - 1.0)) <= radius + 1e-12
        assert hit == (least <= radius)
    assert hits > 1.5 * count
    manager.add_object("ball", BVH.from_spheres([[0, 0, 0]], 0.5), at(0.0, 0.25, 1.25))
    _, data = manager.in_collision_internal(return_data=True)
    assert [contact.depth for contact in data] == [0.25, 0.25]
    np.testing.assert_allclose(data[0].point, [0.0, 0.25, 0.875], atol=1e-12)
    other = CollisionManager()
    other.add_object("ball", BVH.from_spheres([[0, 0, 0]], 0.5), at(0.0, 0.25, 1.25))
    hit, names, data = other.in_collision_other(manager, return_names=True, return_data=True)
    assert hit and names == {("ball", "cube"), ("ball", "ball")}
    # Of the two faces of the top, one is below the ball's centre, the other beside it.
    normals = [contact.normal for contact in data if len(contact.names) == 2]
    assert max(float(np.abs(normal - [0.0, 0.0, -1.0]).max()) for normal in normals) < 0.5
    assert min(float(np.abs(normal - [0.0, 0.0, -1.0]).max()) for normal in normals) < 1e-12
    distance, data = manager.min_distance_single(
        BVH.from_spheres([[0, 0, 0]], 0.5), at(0.0, 4.0, 0.0), return_data=True
    )
    assert distance == data.distance == 2.5
    assert data.point("cube").tolist() == [0.0, 1.0, 0.0]
    assert data.point("__external").tolist() == [0.0, 3.5, 0.0]
    # Open meshes bound nothing.
    manager.add_object("cube", trimesh.Trimesh(cube.vertices, cube.faces[:-1], process=False))
    _, data = manager.in_collision_single(
        BVH.from_spheres([[0, 0, 1]], 0.5), at(0.0, 0.0, 0.0), return_data=True
    )
    with pytest.raises(ValueError, match="depth needs closed meshes, but the mesh has open edges"):
        next(c for c in data if "cube" in c.names).depth  # noqa: B018


def test_refusals() -> None:
    """Other geometries have no faces; transforms must be matrices."""
    manager = CollisionManager()
    for bad in (trimesh.PointCloud([[0.0, 0.0, 0.0]]), [[0, 0, 0]]):
        with pytest.raises(TypeError, match="mesh must be a trimesh"):
            manager.add_object("a", bad)
    with pytest.raises(ValueError, match=r"transform must be \(4,4\)"):
        manager.add_object("a", trimesh.creation.box(), np.eye(3))
    with pytest.raises(ValueError, match="invertible"):
        manager.add_object("a", trimesh.creation.box(), np.diag([1.0, 1.0, 0.0, 1.0]))
    assert manager.in_collision_internal() is False and len(manager._scene) == 0


def test_trees_are_shared_and_meshes_are_as_they_were() -> None:
    """A mesh that is changed later is not changed in the manager."""
    cube = trimesh.creation.box()
    manager = manager_of(cube, at(0, 0, 0), at(3, 0, 0))
    assert len({id(leaf.tree) for leaf in manager._scene.leaves}) == 1
    assert manager._scene.leaves[0].tree is tree_of(cube)
    cube.apply_scale(3.0)
    assert manager.min_distance_internal() == 2.0
    manager.add_object("a", cube)
    assert manager.min_distance_internal() == 1.0


def test_a_scene_of_trimesh() -> None:
    """Nodes by their names, with their transforms."""
    scene = trimesh.Scene()
    cube = trimesh.creation.box()
    for name, by in (("left", -0.5), ("right", 0.25), ("away", 7.0)):
        scene.add_geometry(cube, node_name=name, transform=at(by, 0, 0))
    manager, objects = scene_to_collision(scene)
    assert set(objects) == {"left", "right", "away"}
    assert manager.in_collision_internal(return_names=True) == (True, {("left", "right")})
    assert manager.min_distance_internal("away") == pytest.approx(5.75, abs=1e-15)


def test_contact_points_are_on_both_faces(rng: np.random.Generator) -> None:
    """Of balls that meet at any place, and of boxes that share faces, edges, and corners."""
    ball, box = trimesh.creation.icosphere(subdivisions=2), trimesh.creation.box()
    cases = [(ball, trimesh.transformations.random_rotation_matrix(rng.random(3)))]
    cases[0][1][:3, 3] = rng.random(3)
    cases += [(box, at(*by)) for by in ([1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0], [0.5, 0, 0])]
    for mesh, place in cases:
        manager = manager_of(mesh, np.eye(4), place)
        _, data = manager.in_collision_internal(return_data=True)
        assert data
        for contact in data[:: max(1, len(data) // 40)]:
            for name, matrix in (("a", np.eye(4)), ("b", place)):
                corners = trimesh.transform_points(mesh.triangles[contact.index(name)], matrix)
                square = points.squared_distance(contact.point.tolist(), *corners.tolist())
                assert float(square) ** 0.5 < 1e-13


def test_answers_equal_those_of_fcl(rng: np.random.Generator) -> None:
    """Meshes at random places: whether, which, and how far, where neither is inside the other."""
    pytest.importorskip("fcl")
    ring, knob = trimesh.creation.torus(1.0, 0.4), trimesh.creation.icosphere(2).subdivide()
    knob.vertices[0] *= 0.5
    assert not (ring.is_convex or knob.is_convex)
    hits = 0
    for _ in range(5):
        ours, theirs = CollisionManager(), THEIRS()
        for k in range(6):
            place = trimesh.transformations.random_rotation_matrix(rng.random(3))
            place[:3, 3] = rng.random(3) * 6.0
            place = place.astype(np.float32).astype(float)
            for manager in (ours, theirs):
                manager.add_object(f"m{k}", (ring, knob)[k % 2], place)
        hit, names = ours.in_collision_internal(return_names=True)
        assert (hit, names) == theirs.in_collision_internal(return_names=True)
        hits += len(names)
        for k in range(6):
            wanted = theirs.min_distance_internal(f"m{k}")
            got = ours.min_distance_internal(f"m{k}")
            assert got == pytest.approx(max(wanted, 0.0), rel=1e-6, abs=1e-9)
    assert hits > 3


def test_a_mesh_that_is_refused_is_not_added() -> None:
    """A name that is none left a mesh without a name behind, and later questions failed."""
    manager = manager_of(trimesh.creation.box(), at(0, 0, 0))
    with pytest.raises(TypeError, match="unhashable"):
        manager.add_object(["b"], trimesh.creation.box(), at(0.5, 0, 0))
    assert manager.in_collision_internal(return_names=True) == (False, set())
    assert manager.min_distance_internal() == np.inf


@pytest.mark.parametrize(
    ("count", "places", "other"), [(100, [0.0], 2e-323), (1, [-1.5e308, 1.5e308], 1.4e308)]
)
def test_distances_at_the_ends_of_the_range(count: int, places: list[float], other: float) -> None:
    """Among the smallest, many meshes were searched for ever; the largest gave a warning."""
    meshes = [
        trimesh.Trimesh([[x, 0, 0]] * 3, [[0, 1, 2]], process=False) for x in (*places, other)
    ]
    first, second = CollisionManager(), CollisionManager()
    for k in range(count):
        second.add_object(k, meshes[-1])
        for x, mesh in enumerate(meshes[:-1]):
            first.add_object((k, x), mesh)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert first.min_distance_other(second) == abs(places[-1] - other)
