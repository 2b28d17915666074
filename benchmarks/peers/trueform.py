"""trueform's trees, in float32."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..workloads import Workload
from .caster import Answer, Caster, Points, Query


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

    def rays(self, work: Workload) -> Query:
        """Return the query that casts a batch, or one ray as arrays of shape (3,)."""
        o, d = (a.astype(np.float32)[0 if len(work) == 1 else ...] for a in work.rays)
        rays, cast, mesh = self.library.Ray(origin=o, direction=d), self.library.ray_cast, self.mesh
        ends = (0.0, work.t_max) if np.isfinite(work.t_max) else None

        def answer(found: Any) -> Answer:
            ids, t = np.asarray(found[0]).astype(np.int64), np.asarray(found[1], np.float64)
            if work.query == "any_hit":
                return Answer(ids >= 0)
            return Answer(ids >= 0, ids, np.where(ids >= 0, t, np.inf))

        # No function finds any hit.
        return Query(lambda: cast(rays, mesh, config=ends), answer)

    def closest_point(self, points: Points) -> Query:
        queries = self.library.Point(points.astype(np.float32))
        search = self.library.neighbor_search
        return Query(lambda: search(self.mesh, queries), lambda found: np.sqrt(found[1]))

    def signed_distance(self, points: Points) -> Query:
        queries = self.library.Point(points.astype(np.float32))
        ask = self.library.signed_distance
        self.mesh.build_winding_moments()
        return Query(lambda: ask(self.mesh, queries), lambda found: np.asarray(found, np.float64))
