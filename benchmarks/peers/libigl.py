"""libigl's tree of boxes, in float64."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..casters import Answer, Asked, Call, Caster, Points, one_by_one
from ..workloads import Workload


class Libigl(Caster):
    """libigl's `AABB`, which casts batches of rays since 2.6."""

    name = "libigl"
    module = "igl"
    distribution = "libigl"
    floats = np.float64
    ids = np.int64
    note = "igl.AABB, float64; signed distances build its tree at every call"

    def __init__(self, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> None:
        self.igl = importlib.import_module("igl")
        self.mesh = vertices, faces
        self.nodes: Any = None
        self.moments: Any = None
        if hasattr(self.igl, "AABB"):
            self.nodes = self.igl.AABB()
            self.nodes.init(vertices, faces)

    def batch(self, work: Workload) -> Call | None:
        """Return the call that casts all rays of a workload at once."""
        if not hasattr(self.nodes, "intersect_ray_first"):
            return None
        rays, far = (work.origins, work.directions), float(work.t_max)
        # What it calls min_t is the t that a hit must be nearer than. Nothing finds any hit.
        return lambda: self.nodes.intersect_ray_first(*self.mesh, *rays, far)

    def singles(self, work: Workload) -> Call | None:
        """Return the call that casts the rays one by one."""
        if not hasattr(self.nodes, "intersect_ray_first"):
            return None
        cast = self.nodes.intersect_ray_first
        rays = zip(work.origins[:, None], work.directions[:, None], strict=True)
        return one_by_one([lambda o=o, d=d: cast(*self.mesh, o, d) for o, d in rays])

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says."""
        ids, t, _ = result
        hit = (ids >= 0) & np.isfinite(t)
        return Answer(hit, np.where(hit, ids, -1), np.where(hit, t, np.inf))

    def hits(self, work: Workload) -> Asked | None:
        """Return what lists all hits."""
        if not hasattr(self.nodes, "intersect_ray"):
            return None
        return Asked(
            lambda: self.nodes.intersect_ray(*self.mesh, work.origins, work.directions),
            lambda found: np.array([len(hits) for hits in found]),
        )

    def closest_point(self, points: Points) -> Asked:
        """Return what finds the nearest points."""
        if self.nodes is None:
            ask = self.igl.point_mesh_squared_distance
            return Asked(lambda: ask(points, *self.mesh), lambda found: np.sqrt(found[0]))
        return Asked(
            lambda: self.nodes.squared_distance(*self.mesh, points),
            lambda found: np.sqrt(found[0]),
        )

    def signed_distance(self, points: Points) -> Asked:
        """Return what finds signed distances.

        It builds its tree at every call: it can be had in no other way. With its other ways to find
        a sign, its distances are off.
        """
        sign = self.igl.SIGNED_DISTANCE_TYPE_PSEUDONORMAL
        return Asked(
            lambda: self.igl.signed_distance(points, *self.mesh, sign_type=sign),
            lambda found: found[0],
        )

    def winding_number(self, points: Points) -> Asked | None:
        """Return what finds winding numbers, with the tree that is for them."""
        if not hasattr(self.igl, "FastWindingNumberBVH"):
            return None
        if self.moments is None:
            self.moments = self.igl.FastWindingNumberBVH()
            self.moments.init(*self.mesh)
        return Asked(lambda: self.moments.winding_number(points), np.ravel)
