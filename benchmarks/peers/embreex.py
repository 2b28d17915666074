"""Embree through embreex."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..workloads import Workload
from .caster import Answer, Caster, Query


class Embreex(Caster):
    """Embree through embreex, which casts on one thread on any machine."""

    name = "embreex"
    module = "embreex.rtcore_scene"
    distribution = "embreex"
    one_thread = True
    note = "Embree, float32, one thread"

    def __init__(self, vertices: NDArray[np.float32], faces: NDArray[np.int32]) -> None:
        self.scene = importlib.import_module("embreex.rtcore_scene").EmbreeScene()
        mesh = importlib.import_module("embreex.mesh_construction").TriangleMesh
        self.mesh = mesh(self.scene, vertices, faces)
        ray = np.ones((1, 3), np.float32)
        self.scene.run(ray, ray)

    def rays(self, work: Workload) -> Query:
        rays = work.origins.astype(np.float32), work.directions.astype(np.float32)
        run = self.scene.run
        if work.query == "any_hit":
            far = np.full(len(work), work.t_max, np.float32)
            return Query(
                lambda: run(*rays, dists=far, query="OCCLUDED"),
                lambda found: Answer(np.asarray(found) == 0),
            )

        def answer(found: Any) -> Answer:
            ids = np.asarray(found).astype(np.int64)
            # Distances come from a call of their own.
            return Answer(ids >= 0, ids, np.asarray(run(*rays, output=True)["tfar"]))

        return Query(lambda: run(*rays), answer)
