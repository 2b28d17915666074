"""Geometries of a RaycastingScene, and the tree over all of them."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from bvh.compat.surface import Geometry, Surface
from bvh.compat.tensors import plain
from bvh.io.meshes import triangles_of
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import face_rows, one_index, owned, rows, thread_count


class Geometries:
    """Base of `RaycastingScene`: its meshes and its tree.

    The tree is built by the first query after the last mesh.

    Parameters
    ----------
    nthreads, device
        As in `RaycastingScene`.
    """

    def __init__(self, nthreads: int = 0, device: Any = None) -> None:
        self._threads = thread_limit(nthreads)
        self._geometries: list[Geometry] = []
        # The meshes of the tree, and the tree.
        self._built: tuple[list[Geometry], Surface] | None = None

    @overload
    def add_triangles(self, vertex_positions: Any, triangle_indices: Any) -> int: ...

    @overload
    def add_triangles(self, mesh: Any, /) -> int: ...

    @overload
    def add_triangles(self, *, mesh: Any) -> int: ...

    def add_triangles(
        self, vertex_positions: Any = None, triangle_indices: Any = None, *, mesh: Any = None
    ) -> int:
        """Add a mesh to the scene.

        Parameters
        ----------
        vertex_positions : array_like or Tensor, shape (n, 3)
            Coordinates, converted to float64. Or a mesh, as the only argument.
        triangle_indices : array_like or Tensor of int, shape (m, 3)
            Vertex indices; the normal is (v1-v0) x (v2-v0).
        mesh : open3d.t.geometry.TriangleMesh, or any mesh that `bvh.BVH.from_mesh` takes

        Returns
        -------
        int
            The geometry id of the mesh.

        Raises
        ------
        ValueError, TypeError
            If an argument has the wrong shape or type, or an index is out of range; the message
            names it.
        """
        if triangle_indices is None:
            if (mesh is None) == (vertex_positions is None):
                raise TypeError("add_triangles takes a mesh, or vertex_positions and indices")
            vertices, faces = triangles_of(vertex_positions if mesh is None else mesh)
        elif mesh is not None:
            raise TypeError("add_triangles takes either a mesh or triangle_indices, got both")
        else:
            vertices, faces = plain(vertex_positions), plain(triangle_indices)
        points = rows("vertex_positions", vertices)
        index = face_rows("triangle_indices", faces, len(points))
        self._geometries = [*self._geometries, (owned(points), owned(index, np.int32))]
        return len(self._geometries) - 1

    @property
    def tree(self) -> BVH:
        """The tree over all triangles, for other queries.

        Its prim_id counts the triangles of all geometries in their order.
        """
        return self._surface().tree

    def __repr__(self) -> str:
        count = len(self._geometries)
        triangles = sum(len(faces) for _, faces in self._geometries)
        plural = "y" if count == 1 else "ies"
        return f"{type(self).__name__}({count} geometr{plural}, {triangles} triangles)"

    def _surface(self) -> Surface:
        """Return all triangles and their tree, built if a mesh is new."""
        geometries, built = self._geometries, self._built
        if built is None or built[0] is not geometries:
            # Two threads may both build the same.
            built = self._built = geometries, Surface(geometries, self._threads)
        return built[1]


def thread_limit(nthreads: int) -> int:
    """Return the threads to use; Open3D takes 0 and negative numbers for all CPUs."""
    number = one_index("nthreads", nthreads)
    return thread_count(number if number > 0 else None)
