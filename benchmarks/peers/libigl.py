"""libigl's tree of boxes, in float64."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..workloads import Workload
from .caster import Answer, Caster, Points, Query


class Libigl(Caster):
    """libigl's `AABB`, of version 2.6 or later."""

    name = "libigl"
    module = "igl"
    distribution = "libigl"
    floats = np.float64
    ids = np.int64
    note = "igl.AABB, float64; signed distances build its tree at every call"

    def __init__(self, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> None:
        self.igl = importlib.import_module("igl")
        self.mesh = vertices, faces
        self.nodes = self.igl.AABB()
        self.nodes.init(vertices, faces)
        self.moments: Any = None

    def rays(self, work: Workload) -> Query:
        def answer(found: Any) -> Answer:
            ids, t, _ = (np.atleast_1d(column) for column in found)
            hit = (ids >= 0) & np.isfinite(t)
            return Answer(hit, np.where(hit, ids, -1), np.where(hit, t, np.inf))

        # Its argument min_t is the t that a hit must be nearer than. No method finds any hit.
        cast, far = self.nodes.intersect_ray_first, float(work.t_max)
        return Query(lambda: cast(*self.mesh, *work.rays, far), answer)

    def hits(self, work: Workload) -> Query:
        return Query(
            lambda: self.nodes.intersect_ray(*self.mesh, *work.rays),
            lambda found: np.array([len(hits) for hits in found]),
        )

    def closest_point(self, points: Points) -> Query:
        search = self.nodes.squared_distance
        return Query(lambda: search(*self.mesh, points), lambda found: np.sqrt(found[0]))

    def signed_distance(self, points: Points) -> Query:
        """Return the query for signed distances, which builds its tree at every call.

        libigl has no other interface. With its other methods for the sign, distances are wrong.
        """
        ask, sign = self.igl.signed_distance, self.igl.SIGNED_DISTANCE_TYPE_PSEUDONORMAL
        return Query(lambda: ask(points, *self.mesh, sign_type=sign), lambda found: found[0])

    def winding_number(self, points: Points) -> Query:
        """Return the query for winding numbers, with libigl's tree for them."""
        if self.moments is None:
            self.moments = self.igl.FastWindingNumberBVH()
            self.moments.init(*self.mesh)
        return Query(lambda: self.moments.winding_number(points), np.ravel)
