"""Where meshes meet: curves in which two meet or one meets itself, and sections by planes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.queries.answers.sections import sections_by
from bvh.queries.answers.solids import Intersections
from bvh.queries.methods.distance_queries import DistanceQueries
from bvh.queries.methods.overlap_queries import OverlapQueries
from bvh.queries.query_arguments import affine_matrices
from bvh.tree.primitives import Triangles


class SectionQueries(DistanceQueries, OverlapQueries[NDArray[np.int32]]):
    """Where the mesh of a tree meets another, itself, or a plane."""

    __slots__ = ()

    def intersections(
        self, other: Any = None, transform: ArrayLike | None = None, *, threads: int | None = None
    ) -> Intersections:
        """Find the curves in which this mesh and another meet, or this one meets itself.

        Which faces meet, and which segments share an end, is decided exactly, so that no curve has
        a crack. Coordinates are rounded. Faces that have no more than a point in common contribute
        nothing, and faces without area are ignored.

        Parameters
        ----------
        other : BVH or mesh, optional
            The other mesh, closed or open. By default this mesh itself: its faces that meet beyond
            the vertices or edge they share, as `self_overlaps` finds them.
        transform, threads
            Matrix (4, 4) that moves `other`, and number of threads, as in `overlap_tree`.

        Returns
        -------
        Intersections
            The segments, with their faces, and the polylines that they form.

        Examples
        --------
        >>> import bvh, trimesh
        >>> ball = bvh.BVH.from_mesh(trimesh.creation.icosphere(3))
        >>> floor = bvh.BVH.from_triangles([[-2, -2, 0.1], [2, -2, 0.1], [0, 3, 0.1]], [[0, 1, 2]])
        >>> found = ball.intersections(floor)
        >>> len(found.polylines), found.closed.tolist()
        (1, [True])
        """
        from bvh.surfaces.curves import curves_of
        from bvh.surfaces.numbering import kinds_of_pairs

        if other is None:
            if transform is not None:
                raise ValueError("transform must be None where there is no other mesh")
            self._must_hold("intersections", Triangles)
            first = tree = self._snapshot()
            vertices, pairs = first.vertices, first.self_overlaps(threads=threads)
        else:
            first, tree = self._two_snapshots("intersections", other)
            vertices = tree.vertices
            matrix = None if transform is None else affine_matrices(transform)
            pairs = first.overlap_tree(tree, matrix, threads=threads)
            vertices = vertices if matrix is None else moved_vertices(tree.vertices, matrix)
        meshes = (first.vertices, first.faces), (vertices, tree.faces)
        curves = curves_of(*kinds_of_pairs(meshes, pairs), same_mesh=other is None)
        return Intersections._of(curves)

    def section(self, planes: ArrayLike) -> Any:
        """Cut this mesh by a plane, or by many.

        Vertices in the plane count as above it, so that the section of a closed mesh consists of
        closed polylines, without a crack, wherever the plane is: faces in the plane are cut as
        if just below it. Where more than two faces share an edge, as where two solids meet in
        it, each line follows one solid. Seen from where the normal points, faces whose
        normals point outward give lines that have the solid on their left.

        Parameters
        ----------
        planes : array_like, shape (..., 4)
            (nx, ny, nz, offset) each: the points with n . p + offset = 0, above which n . p +
            offset > 0, as in `overlap_frustum`; the plane z = 10 is (0, 0, 1, -10). Normals need
            not be normalised.

        Returns
        -------
        Section, or Sections of many planes
            Polylines in the planes, with loops, areas and holes.

        Notes
        -----
        Consecutive planes with the same normal share work: each cut of a stack is
        computed from only the faces that it may meet.

        Examples
        --------
        >>> import bvh, trimesh
        >>> tree = bvh.BVH.from_mesh(trimesh.creation.torus(2.0, 0.5))
        >>> cut = tree.section([1, 0, 0, 0.25])
        >>> len(cut.loops), cut.closed.tolist()
        (2, [True, True])
        >>> tree.section([[0, 0, 1, -0.1], [0, 0, 1, 0.1]])
        Sections(256 segments by 2 planes)
        """
        self._must_hold("section", Triangles, thin=False)
        now = self._snapshot()
        return sections_by(now.vertices, now.faces, planes, None)


def moved_vertices(vertices: NDArray[np.float64], m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return vertices (n, 3) moved by a matrix (4, 4), every operation rounded, as in kernels."""
    x, y, z = vertices.T
    return np.stack([((m[i, 0] * x + m[i, 1] * y) + m[i, 2] * z) + m[i, 3] for i in range(3)], 1)
