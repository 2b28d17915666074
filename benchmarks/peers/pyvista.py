"""VTK's cell locator through PyVista's `PolyData`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..workloads import Workload
from .caster import Answer, Call, Caster, Points, Query

# VTK casts segments only; a ray ends at this many times the mesh's size from its origin.
BEYOND = 4.0
# PyVista's default tolerance.
TOLERANCE = float(np.finfo(np.float32).eps)


class PyVista(Caster):
    """VTK's `vtkStaticCellLocator`, the fastest of VTK's, which PyVista keeps for a mesh.

    It is called for each ray from Python, as VTK offers nothing else. (`multi_ray_trace` is
    embreex through trimesh, which has a column of its own.)
    """

    name = "PyVista"
    module = "pyvista"
    distribution = "pyvista"
    floats = np.float64
    ids = np.int64
    one_thread = True
    note = "VTK's vtkStaticCellLocator, float64, one call a ray or point"

    def __init__(self, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> None:
        self.pyvista = importlib.import_module("pyvista")
        self.vtk = importlib.import_module("vtkmodules.vtkCommonDataModel")
        self.core = importlib.import_module("vtkmodules.vtkCommonCore")
        self.mesh = self.pyvista.PolyData.from_regular_faces(vertices, faces)
        self.locator = self.vtk.vtkStaticCellLocator()
        self.locator.SetDataSet(self.mesh)
        self.locator.BuildLocator()
        self.size = float(np.linalg.norm(np.ptp(vertices, axis=0)))

    def _segments(self, work: Workload) -> tuple[NDArray[np.float64], list[Any]]:
        """Return the t of the ends of segments, and the segments."""
        o, d = work.rays
        far = BEYOND * self.size / np.linalg.norm(d, axis=1)
        ends = np.full(len(work), work.t_max) if np.isfinite(work.t_max) else far
        return ends, list(zip(o, o + ends[:, None] * d, strict=True))

    def rays(self, work: Workload) -> Query:
        (ends, segments), cell = self._segments(work), self.vtk.vtkGenericCell()
        cast, number = self.locator.IntersectWithLine, self.core.reference

        def call() -> list[tuple[int, float]]:
            found = []
            t, part, face = number(0.0), number(0), number(0)
            point, local = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
            for start, end in segments:
                hit = cast(start, end, TOLERANCE, t, point, local, part, face, cell)
                found.append((int(face), float(t)) if hit else (-1, np.inf))
            return found

        def answer(found: list[tuple[int, float]]) -> Answer:
            ids, t = (np.array(column) for column in zip(*found, strict=True))
            return Answer(ids >= 0) if work.query == "any_hit" else Answer(ids >= 0, ids, t * ends)

        return Query(call, answer)

    def singles(self, work: Workload) -> Call:
        return self.rays(work).call

    def hits(self, work: Workload) -> Query:
        (_, segments), cell = self._segments(work), self.vtk.vtkGenericCell()
        cast = self.locator.IntersectWithLine

        def call() -> list[Any]:
            found = []
            for start, end in segments:
                points, faces = self.core.vtkPoints(), self.core.vtkIdList()
                cast(start, end, TOLERANCE, points, faces, cell)
                found.append((points, faces))
            return found

        return Query(call, lambda found: np.array([faces.GetNumberOfIds() for _, faces in found]))

    def closest_point(self, points: Points) -> Query:
        # PyVista builds a locator for this, once.
        self.mesh.find_closest_cell(points[0])
        return Query(
            lambda: self.mesh.find_closest_cell(points, return_closest_point=True),
            lambda found: np.linalg.norm(points - found[1], axis=1),
        )

    def signed_distance(self, points: Points) -> Query:
        """Return the query for signed distances, by `compute_implicit_distance`."""
        cloud = self.pyvista.PolyData(points)
        return Query(
            lambda: cloud.compute_implicit_distance(self.mesh),
            lambda found: np.asarray(found["implicit_distance"]),
        )
