"""Drop-in replacement for Blender's `mathutils.bvhtree.BVHTree`, in float64 and exact.

Vectors are those of `mathutils` where that is installed, else tuples.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from math import hypot
from typing import Any, Self

import numpy as np

from bvh.queries.answers.locations import normals_of
from bvh.queries.hierarchy import BVH

__all__ = ["BVHTree"]
__dir__ = __all__.copy

# Location, normal, polygon and distance; four None for a miss.
Found = tuple[Any, Any, int | None, float | None]
NOTHING: Found = (None, None, None, None)


@cache
def _vector_class() -> Any:
    """Return `mathutils.Vector`; a function that makes tuples where mathutils is not installed."""
    try:
        return import_module("mathutils").Vector
    except ImportError:
        return lambda v: tuple(map(float, v))


class BVHTree:
    """Tree over polygons with the methods of Blender's: one ray or point a call, ids of polygons.

    Examples
    --------
    >>> from bvh.compat.mathutils import BVHTree
    >>> corners = [(0, 0, 0), (2, 0, 0), (2, 2, 0), (0, 2, 0)]
    >>> tree = BVHTree.FromPolygons(corners, [(0, 1, 2, 3)])
    >>> location, normal, index, distance = tree.ray_cast((1, 1, 5), (0, 0, -1))
    >>> tuple(location), index, distance
    ((1.0, 1.0, 0.0), 0, 5.0)
    >>> tree.ray_cast((9, 9, 5), (0, 0, -1))
    (None, None, None, None)
    """

    def __init__(self, tree: BVH) -> None:
        """Wrap a tree over triangles, whose `face_of` gives polygons."""
        self.tree = tree

    @classmethod
    def FromPolygons(
        cls, vertices: Iterable[Any], polygons: Sequence[Sequence[int]],
        all_triangles: bool = False, epsilon: float = 0.0,
    ) -> Self:  # fmt: skip
        """Build a tree over polygons, the indices of their vertices.

        `all_triangles` and `epsilon` have no effect: hits of any polygons are exact.
        """
        faces = [list(polygon) for polygon in polygons]
        points = np.array([tuple(v) for v in vertices], np.float64).reshape(-1, 3)
        if not faces:
            return cls(BVH.from_triangles(points, [], warn=False))
        return cls(BVH.from_mesh((points, faces)))

    @classmethod
    def FromObject(
        cls, object: Any, depsgraph: Any, deform: bool = True, render: bool = False,
        cage: bool = False, epsilon: float = 0.0,
    ) -> Self:  # fmt: skip
        """Build a tree over a mesh object of ``bpy``, in object coordinates.

        With `deform` its modifiers are applied, as `depsgraph` evaluates them. `render`, `cage` and
        `epsilon` have no effect.
        """
        source = object.evaluated_get(depsgraph) if deform else object
        mesh = source.to_mesh()
        try:
            return cls.FromPolygons(
                [v.co for v in mesh.vertices], [p.vertices for p in mesh.polygons]
            )
        finally:
            source.to_mesh_clear()

    def ray_cast(self, origin: Any, direction: Any, distance: float = np.inf) -> Found:
        """Return (location, normal, index, distance) of the first hit, or four None.

        The direction is normalised, as in Blender: distances are lengths.
        """
        along = np.array(tuple(direction), np.float64)
        length = hypot(*along.tolist())  # which does not underflow
        if not length > 0.0:  # Not <=, so that NaN is a miss, too.
            return NOTHING
        hit = self.tree.closest_hit(tuple(origin), along, t_max=distance / length)
        if not hit:
            return NOTHING
        return self._found(hit.position, hit.prim_id, float(hit.t) * length)

    def find_nearest(self, origin: Any, distance: float = 1.84467e19) -> Found:
        """Return (location, normal, index, distance) of the nearest point of a polygon.

        If none is within `distance`, all four are None.
        """
        near = self.tree.closest_point(np.array(tuple(origin), np.float64), max_distance=distance)
        if near.prim_id < 0:
            return NOTHING
        return self._found(near.position, near.prim_id, near.distance)

    def find_nearest_range(self, origin: Any, distance: float = 1.84467e19) -> list[Found]:
        """Return results of `find_nearest` for all polygons within a distance, by ascending id."""
        at, tree = np.array(tuple(origin), np.float64), self.tree
        radius = min(distance, 1e300)  # a radius must be finite, `distance` need not
        ids = np.asarray(tree.overlap_sphere(at, radius).prim_id)
        if not len(ids):
            return []
        near = BVH.from_triangles(tree.vertices, tree.faces[ids]).closest_point(at, k=len(ids))
        prims = ids[near.prim_id]
        # The nearest triangles come first: a polygon keeps the result of its nearest one.
        faces, first = np.unique(tree.face_of(prims), return_index=True)
        normals = normals_of(tree.vertices[tree.faces[prims[first]]]).tolist()
        points, lengths = near.position[first].tolist(), near.distance[first].tolist()
        ends = zip(map(_vector_class(), points), map(_vector_class(), normals), strict=True)
        rows = zip(ends, faces.tolist(), lengths, strict=True)
        return [(point, normal, face, length) for (point, normal), face, length in rows]

    def overlap(self, other_tree: Self) -> list[tuple[int, int]]:
        """Return the pairs (polygon, other polygon) that meet or touch, each once, ascending."""
        pairs = self.tree.overlap_tree(other_tree.tree)
        sides = zip((self.tree, other_tree.tree), pairs.T, strict=True)
        faces = (np.asarray(tree.face_of(prims)).tolist() for tree, prims in sides)
        return sorted(set(zip(*faces, strict=True)))

    def _found(self, at: Any, prim: Any, distance: Any) -> Found:
        """Return (location, normal, polygon, distance) for a point `at` on the triangle `prim`."""
        normal = normals_of(self.tree.vertices[self.tree.faces[prim]])
        vector, face = _vector_class(), int(self.tree.face_of(prim))
        return vector(at), vector(normal), face, float(distance)
