"""Warp's meshes, on the CPU."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..casters import Answer, Asked, Call, Caster, Points, one_by_one
from ..workloads import Workload

FAR = 1e30


class Warp(Caster):
    """Warp's `Mesh`, asked in kernels on the CPU, which it runs on one thread.

    Arrays are made before the clock starts, results among them, as its documentation advises; of
    single rays the launches, too.
    """

    name = "Warp"
    module = "warp"
    distribution = "warp-lang"
    one_thread = True
    note = "its CPU device, float32, one thread"

    def __init__(self, vertices: NDArray[np.float32], faces: NDArray[np.int32]) -> None:
        self.warp: Any = importlib.import_module("warp")
        if hasattr(self.warp, "LOG_ERROR"):
            self.warp.config.log_level = self.warp.LOG_ERROR
        else:
            self.warp.config.quiet = True
        self.warp.init()
        points, ids = self._vectors(vertices), self._array(faces.ravel(), self.warp.int32)
        self.mesh = self.warp.Mesh(points=points, indices=ids)

    @property
    def _kernels(self) -> Any:
        return importlib.import_module(".warp_kernels", __package__)

    def _array(self, values: NDArray[Any], kind: Any) -> Any:
        return self.warp.array(values, dtype=kind, device="cpu")

    def _vectors(self, values: NDArray[Any]) -> Any:
        return self._array(values.astype(np.float32), self.warp.vec3)

    def _made(self, count: int, kind: Any) -> Any:
        return self.warp.zeros(count, dtype=kind, device="cpu")

    def _asked(self, kernel: Any, inputs: list[Any], outputs: list[Any]) -> Call:
        launch = self.warp.launch(
            kernel, outputs[0].shape[0], inputs=[self.mesh.id, *inputs], outputs=outputs,
            device="cpu", record_cmd=True,
        )  # fmt: skip

        def call() -> list[Any]:
            launch.launch()
            return outputs

        return call

    def batch(self, work: Workload) -> Call:
        """Return the call that casts all rays of a workload at once."""
        rays = self._vectors(work.origins), self._vectors(work.directions)
        far = float(min(work.t_max, FAR))
        if work.query == "any_hit":
            found = [self._made(len(work), self.warp.bool)]
            return self._asked(self._kernels.occluded, [*rays, far], found)
        found = [self._made(len(work), self.warp.float32), self._made(len(work), self.warp.int32)]
        return self._asked(self._kernels.nearest, [*rays, far], found)

    def singles(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one."""
        rays = zip(work.origins[:, None], work.directions[:, None], strict=True)
        each = [Workload(work.name, work.query, o, d, work.t_max) for o, d in rays]
        return one_by_one([self.batch(one) for one in each])

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says."""
        if work.query == "any_hit":
            return Answer(result[0].numpy().astype(bool))
        ids = result[1].numpy().astype(np.int64)
        return Answer(ids >= 0, ids, result[0].numpy().astype(np.float64))

    def counts(self, work: Workload) -> Asked:
        """Return what counts all hits."""
        rays = [self._vectors(work.origins), self._vectors(work.directions)]
        found = [self._made(len(work), self.warp.int32)]
        return Asked(self._asked(self._kernels.counted, rays, found), lambda out: out[0].numpy())

    def closest_point(self, points: Points) -> Asked:
        """Return what finds the nearest points."""
        found = [self._made(len(points), self.warp.vec3)]
        return Asked(
            self._asked(self._kernels.closest, [self._vectors(points), FAR], found),
            lambda out: np.linalg.norm(points - out[0].numpy(), axis=1),
        )

    def signed_distance(self, points: Points) -> Asked:
        """Return what finds signed distances."""
        found = [self._made(len(points), self.warp.float32)]
        return Asked(
            self._asked(self._kernels.signed, [self._vectors(points), FAR], found),
            lambda out: out[0].numpy().astype(np.float64),
        )
