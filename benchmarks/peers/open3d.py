"""Embree behind Open3D."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..casters import Answer, Asked, Call, Caster, Points, one_by_one
from ..workloads import Workload


class Open3D(Caster):
    """Embree behind Open3D's `RaycastingScene`.

    Its `nthreads` argument changes nothing: it uses as many threads as the process has CPUs, so a
    figure for one thread needs a process that is bound to one CPU.
    """

    name = "Open3D"
    module = "open3d"
    distribution = "open3d"
    ids = np.uint32
    note = "Embree, float32, through RaycastingScene"

    def __init__(self, vertices: NDArray[np.float32], faces: NDArray[np.uint32]) -> None:
        library = importlib.import_module("open3d")
        self.tensor = library.core.Tensor
        self.scene = library.t.geometry.RaycastingScene()
        self.scene.add_triangles(self.tensor.from_numpy(vertices), self.tensor.from_numpy(faces))
        # The tree is built when the first ray is cast.
        self.scene.cast_rays(self.tensor(np.ones((1, 6), np.float32)))

    def batch(self, work: Workload) -> Call:
        """Return the call that casts all rays of a workload at once."""
        return self._call(self._rays(work), work)

    def singles(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one, given as tensors of shape (1, 6)."""
        rows = np.array(self._rays(work).numpy())[:, None]
        return one_by_one([self._call(self.tensor(row), work) for row in rows])

    def _rays(self, work: Workload) -> Any:
        rays = np.concatenate([work.origins, work.directions], axis=1)
        return self.tensor(rays.astype(np.float32))

    def _call(self, rays: Any, work: Workload) -> Call:
        if work.query == "any_hit":
            return lambda: self.scene.test_occlusions(rays, tnear=0.0, tfar=work.t_max)
        return lambda: self.scene.cast_rays(rays)

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says."""
        if work.query == "any_hit":
            return Answer(result.numpy())
        ids = result["primitive_ids"].numpy()
        hit = ids != self.scene.INVALID_ID
        return Answer(hit, np.where(hit, ids, 0).astype(np.int64) - ~hit, result["t_hit"].numpy())

    def hits(self, work: Workload) -> Asked:
        """Return what lists all hits."""
        rays = self._rays(work)
        return Asked(
            lambda: self.scene.list_intersections(rays),
            lambda found: np.diff(found["ray_splits"].numpy()),
        )

    def counts(self, work: Workload) -> Asked:
        """Return what counts all hits."""
        rays = self._rays(work)
        return Asked(lambda: self.scene.count_intersections(rays), lambda found: found.numpy())

    def closest_point(self, points: Points) -> Asked:
        """Return what finds the nearest points."""
        given = self.tensor(points.astype(np.float32))

        def said(found: Any) -> Points:
            return np.asarray(np.linalg.norm(points - found["points"].numpy(), axis=1))

        return Asked(lambda: self.scene.compute_closest_points(given), said)

    def signed_distance(self, points: Points) -> Asked:
        """Return what finds signed distances, their sign by rays."""
        given = self.tensor(points.astype(np.float32))
        return Asked(
            lambda: self.scene.compute_signed_distance(given),
            lambda found: np.asarray(found.numpy(), np.float64),
        )
