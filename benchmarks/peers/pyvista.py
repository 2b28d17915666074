"""VTK's cell locator behind PyVista's `PolyData`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..casters import Answer, Asked, Call, Caster, Points
from ..workloads import Workload

# VTK knows segments only; a ray ends so many times the mesh's size behind its origin.
BEYOND = 4.0
# What PyVista takes for it unless it is told otherwise.
TOLERANCE = float(np.finfo(np.float32).eps)


class PyVista(Caster):
    """VTK's `vtkStaticCellLocator`, the fastest of VTK's, which PyVista keeps for a mesh.

    It is called for each ray from Python, as VTK offers nothing else. (`multi_ray_trace` is
    embreex behind trimesh, which has a column of its own.)
    """

    name = "PyVista"
    module = "pyvista"
    distribution = "pyvista"
    floats = np.float64
    ids = np.int64
    one_thread = True
    note = "VTK's vtkStaticCellLocator, float64, one call a ray or point"

    def __init__(self, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> None:
        pyvista = importlib.import_module("pyvista")
        self.vtk = importlib.import_module("vtkmodules.vtkCommonDataModel")
        self.core = importlib.import_module("vtkmodules.vtkCommonCore")
        self.mesh = pyvista.PolyData.from_regular_faces(vertices, faces)
        self.locator = self.vtk.vtkStaticCellLocator()
        self.locator.SetDataSet(self.mesh)
        self.locator.BuildLocator()
        self.size = float(np.linalg.norm(np.ptp(vertices, axis=0)))

    def _segments(self, work: Workload) -> list[Any]:
        if np.isfinite(work.t_max):
            return list(zip(work.origins, work.origins + work.t_max * work.directions, strict=True))
        length = np.linalg.norm(work.directions, axis=1, keepdims=True)
        ends = work.origins + work.directions * (BEYOND * self.size / length)
        return list(zip(work.origins, ends, strict=True))

    def batch(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one; it returns faces and places."""
        segments, cell = self._segments(work), self.vtk.vtkGenericCell()
        cast, number = self.locator.IntersectWithLine, self.core.reference

        def call() -> list[tuple[int, float]]:
            found = []
            t, part, face = number(0.0), number(0), number(0)
            place, local = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
            for start, end in segments:
                hit = cast(start, end, TOLERANCE, t, place, local, part, face, cell)
                found.append((int(face), float(t)) if hit else (-1, np.inf))
            return found

        return call

    def singles(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one."""
        return self.batch(work)

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says."""
        ids = np.array([face for face, _ in result])
        if work.query == "any_hit":
            return Answer(ids >= 0)
        length = np.linalg.norm(work.directions, axis=1)
        t = np.array([t for _, t in result]) * BEYOND * self.size / length
        return Answer(ids >= 0, ids, t)

    def hits(self, work: Workload) -> Asked:
        """Return what lists all hits."""
        segments, cell = self._segments(work), self.vtk.vtkGenericCell()
        cast = self.locator.IntersectWithLine

        def call() -> list[Any]:
            found = []
            for start, end in segments:
                points, faces = self.core.vtkPoints(), self.core.vtkIdList()
                cast(start, end, TOLERANCE, points, faces, cell)
                found.append((points, faces))
            return found

        return Asked(call, lambda found: np.array([faces.GetNumberOfIds() for _, faces in found]))

    def closest_point(self, points: Points) -> Asked:
        """Return what finds the nearest points."""
        # PyVista makes a locator of its own, once.
        self.mesh.find_closest_cell(points[0])
        return Asked(
            lambda: self.mesh.find_closest_cell(points, return_closest_point=True),
            lambda found: np.linalg.norm(points - found[1], axis=1),
        )

    def signed_distance(self, points: Points) -> Asked:
        """Return what finds signed distances, as `compute_implicit_distance` does."""
        pyvista = importlib.import_module("pyvista")
        cloud = pyvista.PolyData(points)
        return Asked(
            lambda: cloud.compute_implicit_distance(self.mesh),
            lambda found: np.asarray(found["implicit_distance"]),
        )
