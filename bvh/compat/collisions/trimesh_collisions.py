"""Collisions and distances of many meshes, with the interface of `trimesh.collision`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

import numpy as np
import trimesh
from numpy.typing import ArrayLike, NDArray

from bvh.compat.collisions.contacts import (
    ROUND,
    ContactData,
    DistanceData,
    Names,
    Reals,
    contact_places,
    depth_in_mesh,
    depth_of_meshes,
    point_inside,
)
from bvh.compat.trimesh_points import tree_of
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import number_of, reals, thread_count
from bvh.scene.instance_pairs import find_leaf_pairs
from bvh.scene.scene import Scene
from bvh.scene.scene_view import SceneView
from bvh.scene.solids.instance_contacts import candidates, find_closest, find_touching
from bvh.scene.table import Instance

NO_PAIRS = np.empty(0, np.int64)  # pairs of instances that a search leaves out: none
# A mesh, or a part of it, inside a solid one: ids of the pair, and a point that is inside.
Inside = tuple[int, int, Reals]
EXTERNAL = "__external"  # the name of a mesh that is in no manager


class CollisionManager:
    """Meshes under rigid or other affine transforms, with queries of collisions and distances.

    A drop-in replacement for `trimesh.collision.CollisionManager`, without python-fcl. Meshes
    collide if their surfaces have a common point, by an exact test; they are closed sets, so
    touching is enough. As in trimesh, a watertight convex mesh is solid: it collides with whatever
    is inside it, and is at distance 0 from it. All other meshes are surfaces. Distances are those
    of the surfaces, never negative; trimesh's are negative where one of two colliding meshes is
    convex. Contacts have the depth of the two meshes, as `BVH.penetration` measures it; those of
    spheres and capsules a depth of their own, see `ContactData`.

    Examples
    --------
    >>> import trimesh, bvh.compat.trimesh
    >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
    >>> away = trimesh.transformations.translation_matrix([3.0, 0.0, 0.0])
    >>> _ = manager.add_object("still", box), manager.add_object("moving", box, away)
    >>> manager.in_collision_internal(), manager.min_distance_internal(return_names=True)
    (False, (2.0, ('moving', 'still')))
    >>> manager.in_collision_single(box, return_names=True), manager.min_distance_single(box)
    ((True, {'still'}), 0.0)
    >>> manager.set_transform("moving", np.eye(4))
    >>> manager.in_collision_internal(return_names=True)
    (True, {('moving', 'still')})
    >>> manager.remove_object("moving")
    >>> manager.in_collision_other(manager, return_names=True), manager.min_distance_other(manager)
    ((True, {('still', 'still')}), 0.0)
    """

    def __init__(self) -> None:
        self._scene = Scene()
        self._ids: dict[Hashable, int] = {}
        # The names of meshes by their ids, and the ids of solid ones.
        self._names: dict[int, Hashable] = {}
        self._solid: set[int] = set()

    def __repr__(self) -> str:
        return f"CollisionManager({number_of(len(self._ids), 'meshes')})"

    def add_object(
        self, name: Hashable, mesh: trimesh.Trimesh | BVH, transform: ArrayLike | None = None
    ) -> Instance:
        """Add a mesh as it is now, as in trimesh; a mesh with the same name is replaced.

        `mesh` may also be a `BVH` over spheres or capsules, of which the surfaces count. Returns
        the new instance in a `bvh.Scene`. A mesh that is added several times has one tree. The
        transform may be any affine, invertible matrix. Raises a ValueError or TypeError if its
        shape is not (4, 4), if it is singular, or if `mesh` is none of these.
        """
        # Everything that may fail precedes the addition to the scene.
        replaces, matrix, solid = name in self._ids, _matrix(transform), False
        if not isinstance(mesh, BVH):
            tree = tree_of(mesh)
            solid = bool(len(tree) and mesh.is_convex and mesh.is_watertight)
        elif mesh.kind in ROUND:
            tree = mesh
        else:
            raise TypeError(f"mesh must be a mesh, spheres or capsules, got {mesh.kind}")
        number = self._scene.add(tree, matrix)
        if replaces:
            self.remove_object(name)
        return self._named(name, number, solid)

    def _named(self, name: Hashable, number: int, solid: bool) -> Instance:
        """Store the name of the instance `number`, and whether it is solid; return it."""
        self._ids[name], self._names[number] = number, name
        if solid:
            self._solid.add(number)
        return self._scene[number]

    def remove_object(self, name: Hashable) -> None:
        """Remove the mesh with a name, as in trimesh; ValueError if there is none."""
        number = self._id(name)
        self._scene.remove(number)
        self._solid.discard(number)
        del self._ids[name], self._names[number]

    def set_transform(self, name: Hashable, transform: ArrayLike) -> None:
        """Change the transform of the mesh with a name: arguments and errors as in `add_object`."""
        self._scene.set_transform(self._id(name), _matrix(transform))

    def in_collision_single(
        self, mesh: trimesh.Trimesh, transform: ArrayLike | None = None, return_names: bool = False,
        return_data: bool = False,
    ) -> Any:  # fmt: skip
        """Return whether a mesh collides with any in the manager, as in trimesh.

        With `return_names` also the set of names of all that it collides with; with `return_data`
        all contacts: each pair of faces that touch, and each mesh inside a convex one. Contacts
        have the name of the mesh in the manager, and "__external" for `mesh`.
        """
        hit, names, data = self._colliding(_manager_of(mesh, transform), return_names, return_data)
        return _chosen(hit, {first for first, _ in names}, data, return_names, return_data)

    def in_collision_internal(self, return_names: bool = False, return_data: bool = False) -> Any:
        """Return whether any two meshes in the manager collide, as in trimesh.

        With `return_names` also a set of pairs of names, each in alphabetical order; with
        `return_data` also all contacts, as in `in_collision_single`.
        """
        hit, names, data = self._colliding(self, return_names, return_data)
        ordered = {_alphabetical(pair) for pair in names} if return_names else set()
        return _chosen(hit, ordered, data, return_names, return_data)

    def in_collision_other(
        self, other_manager: CollisionManager, return_names: bool = False, return_data: bool = False
    ) -> Any:
        """Return whether meshes of two managers collide, as in trimesh.

        With `return_names` also a set of pairs of names, first the name in this manager; with
        `return_data` also all contacts, as in `in_collision_single`.
        """
        hit, names, data = self._colliding(_copy_of(other_manager), return_names, return_data)
        return _chosen(hit, names, data, return_names, return_data)

    def min_distance_single(
        self, mesh: trimesh.Trimesh, transform: ArrayLike | None = None, return_name: bool = False,
        return_data: bool = False,
    ) -> Any:  # fmt: skip
        """Return the distance of a mesh from the nearest one in the manager, as in trimesh.

        It is 0 if they collide. Without a mesh in the manager it is +inf, and name and data None.
        `return_name` and `return_data` add the nearest mesh's name, and a `DistanceData`.
        """
        distance, names, data = self._nearest(_manager_of(mesh, transform))
        return _chosen(distance, names[0], data, return_name, return_data)

    def min_distance_internal(
        self, name: Hashable = None, return_names: bool = False, return_data: bool = False
    ) -> Any:
        """Return the distance of the two meshes in the manager that are nearest, as in trimesh.

        With a `name` only distances from that mesh count; a ValueError if there is none. Names are
        in alphabetical order. Without a pair the result is +inf, names (None, None), no data.
        """
        if name is None:
            distance, names, data = self._nearest(self)
        else:
            distance, names, data = self._nearest(self._only(name), self._id(name))
        if data is not None and return_names:
            names = _alphabetical(names)
        return _chosen(distance, names, data, return_names, return_data)

    def min_distance_other(
        self, other_manager: CollisionManager, return_names: bool = False, return_data: bool = False
    ) -> Any:
        """Return the distance between the nearest meshes, one in each of two managers.

        Names begin with that in this manager. Without a pair: +inf, names (None, None), no data.
        """
        distance, names, data = self._nearest(_copy_of(other_manager))
        return _chosen(distance, names, data, return_names, return_data)

    def _id(self, name: Hashable) -> int:
        """Return the id, in the scene, of the mesh with a name."""
        if name not in self._ids:
            raise ValueError(f"{name} not in collision manager!")
        return self._ids[name]

    def _only(self, name: Hashable) -> CollisionManager:
        """Return a new manager with only the mesh that has a name in this one, as it is now."""
        result, number = CollisionManager(), self._id(name)
        instance = self._scene[number]
        copied = result._scene.add(instance.child, instance.transform)
        result._named(name, copied, number in self._solid)
        return result

    def _views(self, other: CollisionManager) -> tuple[SceneView, SceneView]:
        """Return the views of both scenes: if `other` is this manager, one object, twice.

        By that, searches know that pairs are within one scene, and take each once.
        """
        view = self._scene.view()
        return view, view if other is self else other._scene.view()

    def _colliding(
        self, other: CollisionManager, named: bool, detailed: bool
    ) -> tuple[bool, set[Names], list[ContactData]]:
        """Return whether meshes collide with those of `other`, the names of pairs, and contacts.

        If `other` is this manager, its meshes are compared with each other. All pairs are returned
        if `named` or `detailed`, with contacts if `detailed`; else the search ends at the first.
        """
        (view, content), threads = self._views(other), thread_count(None)
        any_one = not (named or detailed)
        touching = find_touching(view, content, NO_PAIRS, threads, only_one=any_one)
        inside = [] if any_one and len(touching) else self._inside(other, touching, any_one)
        pairs = [*map(tuple, touching.tolist()), *((a, b) for a, b, _ in inside)]
        names = {(self._names[a], other._names[b]) for a, b in pairs}
        data = self._contacts(other) if detailed and len(touching) else []
        for a, b, point in inside if detailed else ():
            both, depth = (self._names[a], other._names[b]), self._depth(other, a, b)
            data.append(ContactData(both, (-1, -1), np.full(3, np.nan), point, depth))
        return len(pairs) > 0, names, data

    def _contacts(self, other: CollisionManager) -> list[ContactData]:
        """Return a contact for each pair of faces that touch, of this manager and of `other`."""
        (view, content), threads = self._views(other), thread_count(None)

        def compared(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
            """Return which pairs of leaves to compare: in one manager, each two leaves once."""
            return first < second if content is view else np.ones(len(first), np.bool_)

        transform, progress, itself = None, None, False  # if True, shared edges do not count
        pairs = find_leaf_pairs(view, content, transform, itself, threads, progress, compared)
        points, normals, depths, has_round = contact_places(view, content, pairs)
        # Functions that measure depths, for two meshes, or two prims with a sphere or capsule.
        shared: dict[Any, Callable[[], float]] = {}
        contacts: list[ContactData] = []
        owners, faces = map(tuple, pairs.instance_id.tolist()), map(tuple, pairs.prim_id.tolist())
        for k, ((first, second), prims) in enumerate(zip(owners, faces, strict=True)):
            key = first, second, (prims if has_round[k] else None)
            if key not in shared:
                shared[key] = self._depth(other, *key, float(depths[k]))
            names = self._names[first], other._names[second]
            contacts.append(ContactData(names, prims, normals[k], points[k], shared[key]))
        return contacts

    def _depth(
        self, other: CollisionManager, first: int, second: int,
        prims: tuple[int, int] | None = None, known_depth: float = np.nan,
    ) -> Callable[[], float]:  # fmt: skip
        """Return a function that returns how deep two objects, as they are now, are in each other.

        `first` and `second` are ids here and in `other`. With spheres or capsules, `prims` has the
        ids of a shape and a face: only that shape counts. The depth is `known_depth` unless NaN.
        """
        if not np.isnan(known_depth):
            return lambda: known_depth
        instances = self._scene[first], other._scene[second]
        placed = [(instance.child, np.array(instance.transform)) for instance in instances]
        is_round = [tree.kind in ROUND for tree, _ in placed]
        if not any(is_round):
            return cache(lambda: depth_of_meshes(placed))
        k = is_round.index(True)
        chosen = range(len(placed[k][0])) if prims is None else [prims[k]]
        return cache(lambda: depth_in_mesh(*placed[1 - k], *placed[k], chosen))

    def _inside(
        self, other: CollisionManager, touching: NDArray[np.int32], any_one: bool,
        ignored: NDArray[np.int64] = NO_PAIRS,
    ) -> list[Inside]:  # fmt: skip
        """Return (id, id in `other`, inner point) for pairs of a mesh and a solid one around it.

        If `any_one`, the first is enough. Left out are pairs of ids in `touching` (n, 2), and those
        in `ignored`, one number each: the first id times 2**32, plus the second.
        """
        if not (self._solid or other._solid):
            return []
        view, content = self._views(other)
        # Pairs of instances whose boxes meet.
        pairs = candidates(view, content, ignored, reach=0.0, threads=thread_count(None)).owners
        left_out, result = set(map(tuple, touching.tolist())), list[Inside]()
        for first, second in np.unique(pairs, axis=0).tolist():
            if (first, second) in left_out:
                continue
            point = self._inner_point(other, first, second)
            if point is not None:
                result.append((first, second, point))
                if any_one:
                    break
        return result

    def _inner_point(self, other: CollisionManager, first: int, second: int) -> Reals | None:
        """Return a point of one of two meshes, by ids, inside the other, a solid one; or None."""
        sides = [(self, first), (other, second)]
        for (manager, number), (inner_manager, inner) in (sides, sides[::-1]):
            if number in manager._solid:
                connected = inner in inner_manager._solid  # Solid meshes are convex.
                solid, inner_mesh = manager._scene[number], inner_manager._scene[inner]
                if (point := point_inside(solid, inner_mesh, connected)) is not None:
                    return point
        return None

    def _nearest(
        self, other: CollisionManager, excluded: int | None = None
    ) -> tuple[float, Names, DistanceData | None]:
        """Return the distance of the nearest meshes of both managers, their names, and its data.

        The mesh with the id `excluded` is not compared with the only mesh of the other manager,
        which is a copy of it. Without a pair the result is inf, (None, None) and None.
        """
        view, content = self._views(other)
        # A pair to ignore is the first id times 2**32, plus the second, which is 0 here.
        ignored = NO_PAIRS if excluded is None else np.array([excluded << 32])
        result = find_closest(view, content, ignored, thread_count(None))
        if len(result) == 0:
            return np.inf, (None, None), None
        if result.distance[0] > 0.0:
            # No surfaces touch, but a mesh may be inside a solid one; any such pair will do.
            touching = np.empty((0, 2), np.int32)
            inside = self._inside(other, touching, any_one=True, ignored=ignored)
            for first, second, point in inside:
                names, points = (self._names[first], other._names[second]), np.stack([point, point])
                return 0.0, names, DistanceData(names, (-1, -1), points, 0.0)
        first, second = result.instance_id[0].tolist()
        names = self._names[first], other._names[second]
        distance, (face, face2) = float(result.distance[0]), result.prim_id[0].tolist()
        return distance, names, DistanceData(names, (face, face2), result.position[0], distance)


def scene_to_collision(scene: trimesh.Scene) -> tuple[CollisionManager, dict[Hashable, Instance]]:
    """Create a manager of the meshes of a trimesh scene, by the names of its nodes, as in trimesh.

    Also returns, by the names, the instances that `CollisionManager.add_object` returns.

    Examples
    --------
    >>> import trimesh
    >>> from bvh.compat.trimesh import scene_to_collision
    >>> manager, objects = scene_to_collision(trimesh.creation.box().scene())
    >>> manager, len(objects)
    (CollisionManager(1 mesh), 1)
    """
    manager, objects = CollisionManager(), {}
    for node in scene.graph.nodes_geometry:
        matrix, geometry = scene.graph[node]
        objects[node] = manager.add_object(node, scene.geometry[geometry], matrix)
    return manager, objects


def _matrix(transform: ArrayLike | None) -> NDArray[np.float64]:
    """Return a transform as float64, checked to be (4, 4); the identity for None."""
    matrix = np.eye(4) if transform is None else reals("transform", transform)
    if matrix.shape != (4, 4):
        raise ValueError(f"transform must be (4,4)! It has shape {matrix.shape}")
    return matrix


def _manager_of(mesh: trimesh.Trimesh, transform: ArrayLike | None) -> CollisionManager:
    """Return a new manager of one mesh, under the name EXTERNAL."""
    manager = CollisionManager()
    manager.add_object(EXTERNAL, mesh, transform)
    return manager


def _copy_of(manager: CollisionManager) -> CollisionManager:
    """Return a copy with its own scene, so that a manager meets itself like any other manager."""
    if not isinstance(manager, CollisionManager):
        raise TypeError(f"other_manager must be a CollisionManager, got {type(manager).__name__}")
    result = copy.copy(manager)
    result._scene = copy.copy(manager._scene)
    return result


def _alphabetical(names: Names) -> Names:
    """Return two names in alphabetical order."""
    return tuple(sorted(names))  # type: ignore[return-value, type-var]


def _chosen(answer: object, names: object, data: object, named: bool, detailed: bool) -> Any:
    """Return `answer` alone, or a tuple of it, the names if `named`, and the data if `detailed`."""
    more = [part for part, included in ((names, named), (data, detailed)) if included]
    return (answer, *more) if more else answer
