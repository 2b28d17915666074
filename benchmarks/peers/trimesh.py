"""trimesh without compiled code of its own: rtree finds candidates, numpy tests them."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..casters import Answer, Asked, Call, Caster, Points, one_by_one
from ..workloads import Workload


class RTree(Caster):
    """trimesh's own caster, on rtree: thousands of times slower, so for a few rays only."""

    name = "r-tree"
    module = "rtree"
    distribution = "rtree"
    floats = np.float64
    ids = np.int64
    # Building takes minutes above the one, casting above the other.
    most_triangles = 100_000
    most_rays = 2_000
    one_thread = True
    note = "trimesh's own rays and proximity, float64, on rtree"

    def __init__(self, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> None:
        trimesh = importlib.import_module("trimesh")
        self.proximity = importlib.import_module("trimesh.proximity")
        self.mesh = trimesh.Trimesh(vertices, faces, process=False)
        module = importlib.import_module("trimesh.ray.ray_triangle")
        self.caster = module.RayMeshIntersector(self.mesh)
        self.caster.intersects_first(np.ones((1, 3)), np.ones((1, 3)))

    def batch(self, work: Workload) -> Call:
        """Return the call that casts all rays of a workload at once."""
        rays = work.origins, work.directions
        if work.query == "any_hit":
            return lambda: self.caster.intersects_location(*rays, multiple_hits=False)
        return lambda: self.caster.intersects_first(*rays)

    def singles(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one."""
        rays = zip(work.origins[:, None], work.directions[:, None], strict=True)
        return one_by_one([lambda o=o, d=d: self.caster.intersects_first(o, d) for o, d in rays])

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says."""
        if work.query == "any_hit":
            # It knows no end of a ray, so what lies behind is left out here.
            places, ray, _ = result
            length = np.linalg.norm(work.directions[ray], axis=1)
            near = np.linalg.norm(places - work.origins[ray], axis=1) <= work.t_max * length
            hit = np.zeros(len(work), bool)
            hit[ray[near]] = True
            return Answer(hit)
        ids = np.asarray(result).astype(np.int64)
        return Answer(ids >= 0, ids)

    def hits(self, work: Workload) -> Asked:
        """Return what lists all hits."""
        rays = work.origins, work.directions
        return Asked(
            lambda: self.caster.intersects_id(*rays, return_locations=True, multiple_hits=True),
            lambda found: np.bincount(found[1], minlength=len(work)),
        )

    def closest_point(self, points: Points) -> Asked:
        """Return what finds the nearest points."""
        return Asked(
            lambda: self.proximity.closest_point(self.mesh, points), lambda found: found[1]
        )

    def signed_distance(self, points: Points) -> Asked:
        """Return what finds signed distances, which are positive inside."""
        return Asked(
            lambda: self.proximity.signed_distance(self.mesh, points), lambda found: -found
        )
