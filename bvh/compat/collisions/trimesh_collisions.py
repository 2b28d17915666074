"""Collisions and distances of many meshes, with the interface of `trimesh.collision`."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any

import numpy as np
import trimesh
from numpy.typing import ArrayLike, NDArray

from bvh.compat.collisions.contact_data import Names
from bvh.compat.collisions.managed_meshes import ManagedMeshes
from bvh.compat.trimesh_points import tree_of
from bvh.runtime.arguments import number_of, reals
from bvh.scene.table import Instance

EXTERNAL = "__external"


class CollisionManager(ManagedMeshes):
    """Meshes under rigid or other affine transforms, with queries of collisions and distances.

    A drop-in replacement for `trimesh.collision.CollisionManager`, without python-fcl. Meshes
    collide if their surfaces have a common point, by an exact test; they are closed sets, so
    touching is enough. As in trimesh, a watertight convex mesh is solid: it collides with whatever
    is inside it, and is at distance 0 from it. All other meshes are surfaces. Distances are those
    of the surfaces, never negative, as penetration depth is not defined; trimesh's are negative
    where one of two colliding meshes is convex.

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

    def __repr__(self) -> str:
        return f"CollisionManager({number_of(len(self._ids), 'meshes')})"

    def add_object(
        self, name: Hashable, mesh: trimesh.Trimesh, transform: ArrayLike | None = None
    ) -> Instance:
        """Add a mesh as it is now, as in trimesh; one with the same name is replaced.

        Returns its instance in a `bvh.Scene`. A mesh that is added several times has one tree. The
        transform may be any affine, invertible matrix. Raises a ValueError or TypeError if its
        shape is not (4, 4), if it is singular, or if `mesh` is not a Trimesh.
        """
        # Everything that may fail precedes the addition to the scene.
        replaces, tree, matrix = name in self._ids, tree_of(mesh), _matrix(transform)
        solid = bool(len(tree) and mesh.is_convex and mesh.is_watertight)
        number = self._scene.add(tree, matrix)
        if replaces:
            self.remove_object(name)
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

        With `return_names` also the names of all that it collides with; with `return_data` all
        contacts: each pair of faces that touch, and each mesh inside a convex one. Names are that
        of the mesh in the manager, and "__external".
        """
        hit, names, data = self._colliding(_one(mesh, transform), return_names, return_data)
        return _chosen(hit, {first for first, _ in names}, data, return_names, return_data)

    def in_collision_internal(self, return_names: bool = False, return_data: bool = False) -> Any:
        """Return whether any two meshes in the manager collide, as in `in_collision_single`.

        Names are pairs in alphabetical order.
        """
        hit, names, data = self._colliding(self, return_names, return_data)
        ordered = {_alphabetical(pair) for pair in names} if return_names else set()
        return _chosen(hit, ordered, data, return_names, return_data)

    def in_collision_other(
        self, other_manager: CollisionManager, return_names: bool = False, return_data: bool = False
    ) -> Any:
        """Return whether meshes of two managers collide, as in `in_collision_single`.

        Names are pairs, of which that in this manager is first.
        """
        hit, names, data = self._colliding(_managed(other_manager), return_names, return_data)
        return _chosen(hit, names, data, return_names, return_data)

    def min_distance_single(
        self, mesh: trimesh.Trimesh, transform: ArrayLike | None = None, return_name: bool = False,
        return_data: bool = False,
    ) -> Any:  # fmt: skip
        """Return the distance of a mesh from the nearest one in the manager, as in trimesh.

        It is 0 if it collides with one, and +inf, with None for name and data, if there is none.
        """
        distance, names, data = self._nearest(_one(mesh, transform))
        return _chosen(distance, names[0], data, return_name, return_data)

    def min_distance_internal(
        self, name: Hashable = None, return_names: bool = False, return_data: bool = False
    ) -> Any:
        """Return the distance of the two meshes in the manager that are nearest, as in trimesh.

        With a `name` only distances from that mesh; ValueError if there is none. Names are in
        alphabetical order, (None, None) if there is no pair, with distance +inf and no data.
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

        It is as in `min_distance_internal`; of the names, that in this manager is first.
        """
        distance, names, data = self._nearest(_managed(other_manager))
        return _chosen(distance, names, data, return_names, return_data)


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
    matrix = np.eye(4) if transform is None else reals("transform", transform)
    if matrix.shape != (4, 4):
        raise ValueError(f"transform must be (4,4)! It has shape {matrix.shape}")
    return matrix


def _one(mesh: trimesh.Trimesh, transform: ArrayLike | None) -> CollisionManager:
    """Return a manager of one mesh."""
    manager = CollisionManager()
    manager.add_object(EXTERNAL, mesh, transform)
    return manager


def _managed(manager: CollisionManager) -> CollisionManager:
    """Return a manager to compare another with, which may be the same: all pairs count then."""
    if not isinstance(manager, CollisionManager):
        raise TypeError(f"other_manager must be a CollisionManager, got {type(manager).__name__}")
    found = copy.copy(manager)
    found._scene = copy.copy(manager._scene)
    return found


def _alphabetical(names: Names) -> Names:
    return tuple(sorted(names))  # type: ignore[return-value, type-var]


def _chosen(answer: object, names: object, data: object, named: bool, detailed: bool) -> Any:
    """Return an answer, with names if `named` and data if `detailed`."""
    more = [part for part, included in ((names, named), (data, detailed)) if included]
    return (answer, *more) if more else answer
