"""Embree behind embreex."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..casters import Answer, Asked, Call, Caster, installed, one_by_one
from ..workloads import Workload


class Embreex(Caster):
    """Embree behind embreex, which casts on one thread whatever the machine has."""

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

    def batch(self, work: Workload) -> Call:
        """Return the call that casts all rays of a workload at once."""
        return self._call(work.origins.astype(np.float32), work.directions.astype(np.float32), work)

    def singles(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one, given as arrays of shape (1, 3)."""
        rows = [a.astype(np.float32)[:, None] for a in (work.origins, work.directions)]
        return one_by_one([self._call(o, d, work) for o, d in zip(*rows, strict=True)])

    def _call(self, o: NDArray[np.float32], d: NDArray[np.float32], work: Workload) -> Call:
        if work.query == "any_hit":
            far = np.full(len(o), work.t_max, np.float32)
            return lambda: self.scene.run(o, d, dists=far, query="OCCLUDED")
        return lambda: self.scene.run(o, d)

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says; distances come from another call."""
        if work.query == "any_hit":
            return Answer(np.asarray(result) == 0)
        rays = work.origins.astype(np.float32), work.directions.astype(np.float32)
        ids = np.asarray(result).astype(np.int64)
        return Answer(ids >= 0, ids, np.asarray(self.scene.run(*rays, output=True)["tfar"]))

    def hits(self, work: Workload) -> Asked | None:
        """Return what lists all hits: it finds only the nearest, trimesh asks it again behind."""
        if not installed("trimesh.ray.ray_pyembree"):
            return None
        trimesh = importlib.import_module("trimesh")
        module = importlib.import_module("trimesh.ray.ray_pyembree")
        mesh = trimesh.Trimesh(self.vertices.astype(np.float64), self.faces, process=False)
        caster = module.RayMeshIntersector(mesh)
        rays = work.origins, work.directions
        return Asked(
            lambda: caster.intersects_id(*rays, return_locations=True, multiple_hits=True),
            lambda found: np.bincount(found[1], minlength=len(work)),
        )
