"""Trees of trimesh meshes: built on first use, and again after a change."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import trimesh

from bvh.queries.hierarchy import BVH

# A mesh, its hash when its tree was built, and the tree; by id() of the mesh, because hashes
# change, and pickles and copies must not contain trees.
_cache: dict[int, tuple[weakref.ref[Any], int, BVH]] = {}


def tree_of(mesh: Any) -> BVH:
    """Return the tree over the current faces of a mesh.

    Meshes of trimesh hash their arrays, and store the hash until an array may have changed, so a
    second call takes about a microsecond.
    """
    key = id(mesh)
    cached = _cache.get(key)
    if cached is None or cached[0]() is not mesh:
        # Hashes of other types may not change with their content.
        if not isinstance(mesh, trimesh.Trimesh):
            raise TypeError(f"mesh must be a trimesh.Trimesh, got {type(mesh).__name__}")
        cached = None
    stamp = hash(mesh)
    if cached is not None and cached[1] == stamp:
        return cached[2]
    # Two threads may both build the same tree. Views keep the stored hash of a tracked array, which
    # slices and copies would discard.
    vertices, faces = mesh.vertices.view(np.ndarray), mesh.faces.view(np.ndarray)
    tree = BVH.from_triangles(vertices.reshape(-1, 3), faces.reshape(-1, 3))

    def forget(_: weakref.ref[Any]) -> None:
        _cache.pop(key, None)

    _cache[key] = weakref.ref(mesh, forget), stamp, tree
    return tree
