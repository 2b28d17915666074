"""`Intersections` of meshes and planes; `Penetrations` and `OverlapVolumes` of solids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from bvh.queries.answers.result_bases import PerQuery
from bvh.runtime.arguments import FloatResult, IdResult, TruthResult, number_of

if TYPE_CHECKING:
    from bvh.surfaces.curves import Curves, Polygons

Ids = NDArray[np.int32]
Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Intersections:
    """Segments in which two meshes meet, or a mesh meets itself or a plane.

    Attributes
    ----------
    segments : ndarray of float64, shape (n, 2, 3)
        The ends of each segment. Segments that share an end have it bit for bit.
    faces : ndarray of int32, shape (n, 2) or (n, 1)
        The faces that meet there: of this mesh, and of the other. Where several pairs of faces
        share a segment, it is listed once, with the lowest pair. For a section, the face cut there.
    edges : ndarray of int32, shape (n, 2, 3)
        For each end of a segment, the edge of a mesh that it is on: 0 for this mesh or 1 for the
        other, then the vertices of the edge, the lower id first; twice the same where the end is
        a vertex.
    polygon_faces : ndarray of int32, shape (p, 2)
        For each of `polygons`, the faces, of this mesh and of the other, that share it.

    Examples
    --------
    >>> import bvh, trimesh
    >>> a = bvh.BVH.from_mesh(trimesh.creation.box())
    >>> found = a.intersections(a, trimesh.transformations.translation_matrix([0.5, 0.3, 0.2]))
    >>> found
    Intersections(15 segments, 1 polyline, 1 closed)
    >>> found.polylines[0].shape
    (16, 3)
    """

    segments: Reals
    faces: Ids
    edges: Ids
    polygon_faces: Ids
    _polygons: Polygons
    _ends: NDArray[np.int64]  # numbers of the ends of each segment, (n, 2), equal if they share one
    _normal: Reals | None = None  # of the plane of a section

    @classmethod
    def _of(cls, curves: Curves) -> Intersections:
        """Return `curves` as a result; both have the same fields, in another order."""
        segments, faces, edges, ends, polygons, polygon_faces = curves
        return cls(segments, faces, edges, polygon_faces, polygons, ends)

    @cached_property
    def polygons(self) -> list[Reals]:
        """Convex polygons (k, 3) that two faces in one plane share, computed when first read."""
        return self._polygons.arrays()

    @cached_property
    def _lines(self) -> tuple[list[Reals], NDArray[np.bool_]]:
        """The m polylines, points (k, 3) each, and which of them are closed, (m,)."""
        from bvh.surfaces.sections import chained, leftmost, points_of

        # Where an even number of segments, more than two, meet, a line of a section goes on along
        # the leftmost one, which bounds the same solid. Without a `turn`, lines end there.
        turn = None if self._normal is None else leftmost(self.segments, self._normal)
        lines = chained(self._ends, turn)
        closed = np.array([is_closed for _, is_closed in lines], np.bool_)
        return [points_of(self.segments, line) for line, _ in lines], closed

    @property
    def polylines(self) -> list[Reals]:
        """The segments, chained to polylines: points (k, 3) of each.

        A closed polyline ends with its first point. Polylines end at points where one segment, or
        more than two, meet. In a section they go on at points where an even number meet, along the
        solid if faces are wound alike.
        """
        return self._lines[0]

    @property
    def closed(self) -> NDArray[np.bool_]:
        """True for polylines that are closed, shape (m,).

        All are closed in sections of a closed mesh, and for two closed meshes in general position.
        """
        return self._lines[1]

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.segments)

    def __repr__(self) -> str:
        parts = [
            number_of(len(self), "segments"), number_of(len(self.polylines), "polylines"),
            f"{np.count_nonzero(self.closed)} closed",
        ]  # fmt: skip
        count = len(self.polygon_faces)
        parts += [number_of(count, "polygons")] if count else []
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True, eq=False, repr=False)
class Penetrations(PerQuery):
    """How deep two solids are in each other; every field has the leading shape of the transforms.

    Attributes
    ----------
    depth : ndarray of float64 or float
        The largest distance from a place in both solids to the surface of one; 0 if no place is in
        both.
    point : ndarray of float64, shape (..., 3)
        The deepest place; NaN if the depth is 0.
    direction : ndarray of float64, shape (..., 3)
        From the deepest place to the nearest point of that surface; of length 1, or NaN.
    prim_id : ndarray of int32, shape (..., 2)
        The faces of this solid and of the other that are nearest to the point; -1 if the depth is
        0.
    own : ndarray of bool, shape (...)
        True if the depth is measured to the other's surface, from a point of this solid; False if
        it is measured to this solid's surface, and if the depth is 0.
    error : ndarray of float64 or float
        The depth is larger by at most this.
    length : ndarray of float64 or float
        Length of the longest part of an edge of one solid that is inside the other, if no vertex
        or middle of a face is; else 0.

    Examples
    --------
    >>> import bvh, trimesh
    >>> a = bvh.BVH.from_mesh(trimesh.creation.box())
    >>> found = a.penetration(a, trimesh.transformations.translation_matrix([0.75, 0.5, 0.5]))
    >>> found.depth, found.pierces
    (0.25, False)
    """

    depth: FloatResult
    point: FloatResult
    direction: FloatResult
    prim_id: IdResult
    own: TruthResult
    error: FloatResult
    length: FloatResult

    _noun = "penetrations"
    _more_axes: ClassVar = {"point": 1, "direction": 1, "prim_id": 1}

    def __len__(self) -> int:
        return len(self.depth)

    @property
    def mask(self) -> TruthResult:
        """True where the depth is not 0."""
        return self.depth > 0.0

    @property
    def pierces(self) -> TruthResult:
        """True where no vertex of one solid is inside the other, but parts of edges are."""
        return self.length > 0.0


@dataclass(frozen=True, eq=False, repr=False)
class OverlapVolumes(PerQuery):
    """What two solids share; every field has the leading shape of the transforms.

    Attributes
    ----------
    volume : ndarray of float64 or float
        0 exactly where the solids are apart or only touch.
    centroid : ndarray of float64, shape (..., 3)
        The centre of mass of what they share; NaN if the volume is 0.
    area : ndarray of float64 or float
        The area of its surface.
    bounds : ndarray of float64, shape (..., 2, 3)
        Lower and upper corner of its box; NaN if the volume is 0. Where the solids also touch
        elsewhere, the box may contain such places, too.

    Examples
    --------
    >>> import bvh, trimesh
    >>> a = bvh.BVH.from_mesh(trimesh.creation.box())
    >>> found = a.overlap_volume(a, trimesh.transformations.translation_matrix([0.75, 0.5, 0]))
    >>> found.volume, found.area, found.centroid.tolist()
    (0.125, 1.75, [0.375, 0.25, 0.0])
    """

    volume: FloatResult
    centroid: FloatResult
    area: FloatResult
    bounds: FloatResult

    _noun = "overlap volumes"
    _more_axes: ClassVar = {"centroid": 1, "bounds": 2}

    def __len__(self) -> int:
        return len(self.volume)

    @property
    def mask(self) -> TruthResult:
        """True where the volume is not 0."""
        return self.volume > 0.0
