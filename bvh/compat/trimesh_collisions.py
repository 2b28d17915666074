"""Collisions and distances of many meshes, with the interface of `trimesh.collision`."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.compat.managed_meshes import ManagedMeshes
from bvh.compat.trimesh_points import tree_of
from bvh.runtime.arguments import number_of, reals

EXTERNAL = "__external"


class CollisionManager(ManagedMeshes):
    """Meshes under rigid or other affine transforms, asked which of them collide.

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
    >>> manager.in_collision_internal(), manager.min_distance_internal()
    (False, 2.0)
    """

    def __repr__(self) -> str:
        return f"CollisionManager({number_of(len(self._ids), 'meshes')})"

    def add_object(self, name: Hashable, mesh: Any, transform: ArrayLike | None = None) -> Any:
        """Add a mesh as it is now; one with the same name is replaced.

        Parameters
        ----------
        name : hashable
        mesh : trimesh.Trimesh
            Meshes that are added again share their tree.
        transform : array_like, shape (4, 4), optional
            From the mesh's coordinates to the world: affine and invertible.

        Returns
        -------
        Instance
            Its placement in a `bvh.Scene`.

        Raises
        ------
        ValueError, TypeError
            If the transform has another shape or is singular; for anything but a Trimesh.

        Examples
        --------
        >>> import trimesh, bvh.compat.trimesh
        >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
        >>> manager.add_object("box", box).visible
        True
        """
        # All that may fail comes before the mesh is in the scene.
        known, tree, matrix = name in self._ids, tree_of(mesh), _matrix(transform)
        solid = bool(len(tree) and mesh.is_convex and mesh.is_watertight)
        number = self._scene.add(tree, matrix)
        if known:
            self.remove_object(name)
        self._ids[name], self._names[number] = number, name
        if solid:
            self._solid.add(number)
        return self._scene[number]

    def remove_object(self, name: Hashable) -> None:
        """Remove a mesh.

        Parameters
        ----------
        name : hashable

        Raises
        ------
        ValueError
            If there is none with this name.

        Examples
        --------
        >>> import trimesh, bvh.compat.trimesh
        >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
        >>> _ = manager.add_object("box", box)
        >>> manager.remove_object("box")
        >>> manager.in_collision_single(box)
        False
        """
        number = self._id(name)
        self._scene.remove(number)
        self._solid.discard(number)
        del self._ids[name], self._names[number]

    def set_transform(self, name: Hashable, transform: ArrayLike) -> None:
        """Change the transform of a mesh.

        Parameters
        ----------
        name, transform
            As in `add_object`.

        Raises
        ------
        ValueError
            If there is no mesh with this name; as in `add_object`.

        Examples
        --------
        >>> import trimesh, bvh.compat.trimesh
        >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
        >>> _ = manager.add_object("box", box)
        >>> manager.set_transform("box", [[1, 0, 0, 3], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
        >>> manager.min_distance_single(box)
        2.0
        """
        number = self._id(name)
        self._scene.set_transform(number, _matrix(transform))

    def in_collision_single(
        self,
        mesh: Any,
        transform: ArrayLike | None = None,
        return_names: bool = False,
        return_data: bool = False,
    ) -> Any:
        """Tell whether a mesh collides with any in the manager.

        Parameters
        ----------
        mesh, transform
            As in `add_object`.
        return_names : bool
            Also return the names of all that it collides with.
        return_data : bool
            Also return all contacts.

        Returns
        -------
        is_collision : bool
        names : set
            If asked for.
        contacts : list of ContactData
            If asked for: each pair of faces that touch, and each mesh inside a convex one. Names
            are that of the mesh in the manager, and "__external".

        Examples
        --------
        >>> import trimesh, bvh.compat.trimesh
        >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
        >>> _ = manager.add_object("box", box)
        >>> manager.in_collision_single(box, return_names=True)
        (True, {'box'})
        """
        hit, names, data = self._colliding(_one(mesh, transform), return_names, return_data)
        return _chosen(hit, {first for first, _ in names}, data, return_names, return_data)

    def in_collision_internal(self, return_names: bool = False, return_data: bool = False) -> Any:
        """Tell whether any two meshes in the manager collide.

        Parameters
        ----------
        return_names, return_data
            As in `in_collision_single`.

        Returns
        -------
        is_collision, names, contacts
            As of `in_collision_single`; names are pairs in alphabetical order.

        Examples
        --------
        >>> import trimesh, bvh.compat.trimesh
        >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
        >>> _ = manager.add_object("a", box), manager.add_object("b", box)
        >>> manager.in_collision_internal(return_names=True)
        (True, {('a', 'b')})
        """
        hit, names, data = self._colliding(self, return_names, return_data)
        ordered = {_alphabetical(pair) for pair in names} if return_names else set()
        return _chosen(hit, ordered, data, return_names, return_data)

    def in_collision_other(
        self,
        other_manager: CollisionManager,
        return_names: bool = False,
        return_data: bool = False,
    ) -> Any:
        """Tell whether any mesh in the manager collides with any in another manager.

        Parameters
        ----------
        other_manager : CollisionManager
        return_names, return_data
            As in `in_collision_single`.

        Returns
        -------
        is_collision, names, contacts
            As of `in_collision_internal`; the name of the mesh in this manager is first.

        Examples
        --------
        >>> import trimesh, bvh.compat.trimesh
        >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
        >>> _ = manager.add_object("box", box)
        >>> manager.in_collision_other(manager, return_names=True)
        (True, {('box', 'box')})
        """
        hit, names, data = self._colliding(_managed(other_manager), return_names, return_data)
        return _chosen(hit, names, data, return_names, return_data)

    def min_distance_single(
        self,
        mesh: Any,
        transform: ArrayLike | None = None,
        return_name: bool = False,
        return_data: bool = False,
    ) -> Any:
        """Return the distance of a mesh from the nearest one in the manager.

        Parameters
        ----------
        mesh, transform
            As in `add_object`.
        return_name : bool
            Also return the name of the nearest mesh.
        return_data : bool
            Also return the nearest points.

        Returns
        -------
        distance : float
            0 if it collides with one; +inf if the manager is empty.
        name : hashable
            If asked for; None if the manager is empty.
        data : DistanceData
            If asked for; None if the manager is empty.

        Examples
        --------
        >>> import trimesh, bvh.compat.trimesh
        >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
        >>> _ = manager.add_object("box", box)
        >>> manager.min_distance_single(box, trimesh.transformations.translation_matrix([3, 0, 0]))
        2.0
        """
        distance, names, data = self._nearest(_one(mesh, transform))
        return _chosen(distance, names[0], data, return_name, return_data)

    def min_distance_internal(
        self, name: Hashable = None, return_names: bool = False, return_data: bool = False
    ) -> Any:
        """Return the distance between the two meshes in the manager that are nearest.

        Parameters
        ----------
        name : hashable, optional
            Only distances from the mesh with this name.
        return_names, return_data : bool
            Also return the names of the nearest meshes, in alphabetical order; the nearest points.

        Returns
        -------
        distance : float
            0 if two collide; +inf if there are none.
        names : tuple
            If asked for; (None, None) if there are none.
        data : DistanceData
            If asked for; None if there are none.

        Raises
        ------
        ValueError
            If there is no mesh with this name.

        Examples
        --------
        >>> import trimesh, bvh.compat.trimesh
        >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
        >>> _ = manager.add_object("a", box), manager.add_object("b", box)
        >>> manager.min_distance_internal(return_names=True)
        (0.0, ('a', 'b'))
        """
        other = self
        if name is not None:
            other, number = CollisionManager(), self._id(name)
            one = self._scene[number]
            theirs = other._scene.add(one.child, one.transform)
            other._ids[name], other._names[theirs] = theirs, name
            other._solid = {theirs} if number in self._solid else set()
        distance, names, data = self._nearest(other, None if name is None else self._id(name))
        if data is not None and return_names:
            names = _alphabetical(names)
        return _chosen(distance, names, data, return_names, return_data)

    def min_distance_other(
        self,
        other_manager: CollisionManager,
        return_names: bool = False,
        return_data: bool = False,
    ) -> Any:
        """Return the distance between the nearest meshes, one in each of two managers.

        Parameters
        ----------
        other_manager : CollisionManager
        return_names, return_data
            As in `min_distance_internal`.

        Returns
        -------
        distance, names, data
            As of `min_distance_internal`; the name of the mesh in this manager is first.

        Examples
        --------
        >>> import trimesh, bvh.compat.trimesh
        >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
        >>> _ = manager.add_object("box", box)
        >>> manager.min_distance_other(manager)
        0.0
        """
        distance, names, data = self._nearest(_managed(other_manager))
        return _chosen(distance, names, data, return_names, return_data)


def scene_to_collision(scene: Any) -> tuple[CollisionManager, dict[Hashable, Any]]:
    """Create a manager of the meshes of a scene.

    Parameters
    ----------
    scene : trimesh.Scene

    Returns
    -------
    manager : CollisionManager
        With the names of the scene's nodes.
    objects : dict
        By the names, what `CollisionManager.add_object` returns.

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


def _one(mesh: Any, transform: ArrayLike | None) -> CollisionManager:
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


def _alphabetical(names: tuple[Any, Any]) -> tuple[Any, Any]:
    first, second = sorted(names)
    return first, second


def _chosen(answer: Any, names: Any, data: Any, named: bool, detailed: bool) -> Any:
    """Return an answer, with names and data where they are asked for."""
    more = [part for part, wanted in ((names, named), (data, detailed)) if wanted]
    return (answer, *more) if more else answer
