"""The tree of a mesh that may change: made when first asked for, and anew after a change."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
import trimesh

from bvh.tree import BVH


class Kept(NamedTuple):
    """A tree, the mesh that it was made of, and the mesh's own hash at that time."""

    mesh: weakref.ref[Any]
    stamp: int
    tree: BVH


# By the identity of meshes: their hashes change, and neither pickles nor copies should carry trees.
_kept: dict[int, Kept] = {}


def tree_of(mesh: Any) -> BVH:
    """Return the tree over the faces that a mesh has now.

    Meshes of trimesh hash what they hold, and remember the hash until an array may have changed,
    so asking again takes about a microsecond.

    Parameters
    ----------
    mesh : trimesh.Trimesh

    Returns
    -------
    BVH

    Raises
    ------
    TypeError
        If it is not a mesh.

    Examples
    --------
    >>> import trimesh
    >>> from bvh.compat.mesh_trees import tree_of
    >>> box = trimesh.creation.box()
    >>> tree = tree_of(box)
    >>> tree is tree_of(box)
    True
    >>> box.vertices[0] *= 2.0
    >>> tree is tree_of(box)
    False
    """
    key = id(mesh)
    kept = _kept.get(key)
    if kept is None or kept.mesh() is not mesh:
        # Others may look alike, but their hashes do not tell that they have changed.
        if not isinstance(mesh, trimesh.Trimesh):
            raise TypeError(f"mesh must be a trimesh.Trimesh, got {type(mesh).__name__}")
        kept = None
    stamp = hash(mesh)
    if kept is not None and kept.stamp == stamp:
        return kept.tree
    # Two threads may both build it: they build the same.
    # Slices and copies of a tracked array make it forget its hash, a plain view does not.
    vertices, faces = mesh.vertices.view(np.ndarray), mesh.faces.view(np.ndarray)
    tree = BVH.from_triangles(vertices.reshape(-1, 3), faces.reshape(-1, 3))

    def forget(_: weakref.ref[Any]) -> None:
        _kept.pop(key, None)

    _kept[key] = Kept(weakref.ref(mesh, forget), stamp, tree)
    return tree
