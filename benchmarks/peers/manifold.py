"""manifold3d: rays at closed meshes, in float64, one segment a call."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..workloads import Workload
from .caster import Answer, Caster, Query


class Manifold(Caster):
    """manifold3d's `ray_cast`, of version 3.5 or later, which lists all hits of a segment."""

    name = "manifold3d"
    module = "manifold3d"
    distribution = "manifold3d"
    floats = np.float64
    ids = np.uint64
    # A call is for one ray, whose candidates are what its box meets.
    max_rays = 2_000
    one_thread = True
    note = "Manifold.ray_cast, float64, closed meshes, one segment a call; all hits are found"

    def __init__(self, vertices: NDArray[np.float64], faces: NDArray[np.uint64]) -> None:
        module: Any = importlib.import_module("manifold3d")
        self.body = module.Manifold(module.Mesh64(vertices, faces))
        # What is not closed becomes nothing.
        self.reach = float(np.ptp(vertices, axis=0).max()) * 4.0 + 1.0
        self.middle = vertices.mean(axis=0)
        self.body.ray_cast((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether there is a version that casts rays."""
        return super().is_installed() and hasattr(
            importlib.import_module(cls.module).Manifold, "ray_cast"
        )

    def rays(self, work: Workload) -> Query | None:
        """Return the query for nearest hits, if the mesh is closed."""
        if self.body.is_empty():
            return None
        origins, ways = (np.asarray(rows, np.float64) for rows in work.rays)
        far = self.reach + np.linalg.norm(origins - self.middle, axis=1)
        length = np.minimum(far / np.linalg.norm(ways, axis=1), float(work.t_max))
        starts, ends = origins.tolist(), (origins + length[:, None] * ways).tolist()
        cast = self.body.ray_cast

        def run() -> list[Any]:
            return [cast(a, b) for a, b in zip(starts, ends, strict=True)]

        def answer(found: list[Any]) -> Answer:
            hit = np.array([len(hits) > 0 for hits in found])
            if work.query == "any_hit":
                return Answer(hit)
            first = np.array([hits[0].distance if hits else np.inf for hits in found])
            # Faces are numbered anew.
            ids = np.array([hits[0].face_id if hits else -1 for hits in found], np.int64)
            return Answer(hit, ids, first * length)

        return Query(run, answer)
