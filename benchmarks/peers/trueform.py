"""trueform's trees, in float32."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..casters import Answer, Asked, Call, Caster, Points, one_by_one
from ..workloads import Workload


class Trueform(Caster):
    """trueform, through its batches of rays and points."""

    name = "trueform"
    module = "trueform"
    distribution = "trueform"
    note = "float32; signs by winding numbers"

    def __init__(self, vertices: NDArray[np.float32], faces: NDArray[np.int32]) -> None:
        self.library = importlib.import_module("trueform")
        self.mesh = self.library.Mesh(faces, vertices)
        self.mesh.build_tree()

    def _rays(self, work: Workload) -> Any:
        return self.library.Ray(
            origin=work.origins.astype(np.float32), direction=work.directions.astype(np.float32)
        )

    def batch(self, work: Workload) -> Call:
        """Return the call that casts all rays of a workload at once; nothing finds any hit."""
        rays, cast, mesh = self._rays(work), self.library.ray_cast, self.mesh
        ends = (0.0, work.t_max) if np.isfinite(work.t_max) else None
        return lambda: cast(rays, mesh, config=ends)

    def singles(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one."""
        cast, mesh, ray = self.library.ray_cast, self.mesh, self.library.Ray
        each = zip(work.origins.astype(np.float32), work.directions.astype(np.float32), strict=True)
        rays = [ray(origin=o, direction=d) for o, d in each]
        return one_by_one([lambda r=r: cast(r, mesh) for r in rays])

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says."""
        ids, t = np.asarray(result[0]).astype(np.int64), np.asarray(result[1], np.float64)
        if work.query == "any_hit":
            return Answer(ids >= 0)
        return Answer(ids >= 0, ids, np.where(ids >= 0, t, np.inf))

    def closest_point(self, points: Points) -> Asked:
        """Return what finds the nearest points."""
        given, search = self.library.Point(points.astype(np.float32)), self.library.neighbor_search
        return Asked(lambda: search(self.mesh, given), lambda found: np.sqrt(found[1]))

    def signed_distance(self, points: Points) -> Asked:
        """Return what finds signed distances."""
        given, ask = self.library.Point(points.astype(np.float32)), self.library.signed_distance
        self.mesh.build_winding_moments()
        return Asked(lambda: ask(self.mesh, given), lambda found: np.asarray(found, np.float64))
