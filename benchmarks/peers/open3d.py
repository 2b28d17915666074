"""Embree through Open3D."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..workloads import Workload
from .caster import Answer, Caster, Points, Query


class Open3D(Caster):
    """Embree through Open3D's `RaycastingScene`.

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

    def _rays(self, work: Workload) -> Any:
        return self.tensor(np.concatenate(work.rays, axis=1).astype(np.float32))

    def rays(self, work: Workload) -> Query:
        rays = self._rays(work)
        if work.query == "any_hit":
            return Query(
                lambda: self.scene.test_occlusions(rays, tnear=0.0, tfar=work.t_max),
                lambda found: Answer(found.numpy()),
            )

        def answer(found: Any) -> Answer:
            ids = found["primitive_ids"].numpy()
            hit = ids != self.scene.INVALID_ID
            ids = np.where(hit, ids, 0).astype(np.int64) - ~hit
            return Answer(hit, ids, found["t_hit"].numpy())

        return Query(lambda: self.scene.cast_rays(rays), answer)

    def hits(self, work: Workload) -> Query:
        rays = self._rays(work)
        return Query(
            lambda: self.scene.list_intersections(rays),
            lambda found: np.diff(found["ray_splits"].numpy()),
        )

    def counts(self, work: Workload) -> Query:
        rays = self._rays(work)
        return Query(lambda: self.scene.count_intersections(rays), lambda found: found.numpy())

    def closest_point(self, points: Points) -> Query:
        queries, search = self.tensor(points.astype(np.float32)), self.scene.compute_closest_points
        return Query(
            lambda: search(queries),
            lambda found: np.linalg.norm(points - found["points"].numpy(), axis=1),
        )

    def signed_distance(self, points: Points) -> Query:
        """Return the query for signed distances, their sign by rays."""
        queries, ask = self.tensor(points.astype(np.float32)), self.scene.compute_signed_distance
        return Query(lambda: ask(queries), lambda found: found.numpy().astype(np.float64))
