"""Embree through embreex."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..workloads import Workload
from .caster import Answer, Caster, Query, installed


class Embreex(Caster):
    """Embree through embreex, which casts on one thread on any machine."""

    name = "embreex"
    module = "embreex.rtcore_scene"
    distribution = "embreex"
    one_thread = True
    note = "Embree, float32, one thread; all hits are collected by trimesh"

    def __init__(self, vertices: NDArray[np.float32], faces: NDArray[np.int32]) -> None:
        self.vertices, self.faces = vertices, faces
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

    def hits(self, work: Workload) -> Query | None:
        """Return the query for all hits: Embree finds the nearest, trimesh asks again behind it."""
        if not installed("trimesh.ray.ray_pyembree"):
            return None
        trimesh = importlib.import_module("trimesh")
        module = importlib.import_module("trimesh.ray.ray_pyembree")
        mesh = trimesh.Trimesh(self.vertices.astype(np.float64), self.faces, process=False)
        list_all, rays = module.RayMeshIntersector(mesh).intersects_id, work.rays
        return Query(
            lambda: list_all(*rays, return_locations=True, multiple_hits=True),
            lambda found: np.bincount(found[1], minlength=len(work)),
        )
