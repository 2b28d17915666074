"""Warp's meshes, on the CPU, or on another device."""

from __future__ import annotations

import importlib
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..workloads import Workload
from .caster import Answer, Caster, Points, Query

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

    device = "cpu"

    def __init__(self, vertices: NDArray[np.float32], faces: NDArray[np.int32]) -> None:
        self.others: dict[str, Warp] = {}
        self.warp: Any = importlib.import_module("warp")
        if hasattr(self.warp, "LOG_ERROR"):
            self.warp.config.log_level = self.warp.LOG_ERROR
        else:
            self.warp.config.quiet = True
        self.warp.init()
        self._make(vertices, faces)

    def _make(self, vertices: NDArray[np.float32], faces: NDArray[np.int32]) -> None:
        self.given = vertices, faces
        ids = self.warp.array(faces.ravel(), dtype=self.warp.int32, device=self.device)
        self.mesh = self.warp.Mesh(points=self._vectors(vertices), indices=ids)

    def on(self, device: str) -> Warp:
        """Return the same mesh on a device."""
        if device == self.device:
            return self
        if device not in self.others:
            self.others[device] = other = copy(self)
            other.device = device
            other._make(*self.given)
        return self.others[device]

    def _vectors(self, values: NDArray[Any]) -> Any:
        return self.warp.array(values.astype(np.float32), dtype=self.warp.vec3, device=self.device)

    def _query(self, name: str, inputs: list[Any], types: list[Any], values: Any) -> Query:
        """Return the query of a kernel, given its inputs and the types of its outputs."""
        kernel = getattr(importlib.import_module(".warp_kernels", __package__), name)
        count = inputs[0].shape[0]
        outputs = [self.warp.zeros(count, dtype=kind, device=self.device) for kind in types]
        launch = self.warp.launch(
            kernel, count, inputs=[self.mesh.id, *inputs], outputs=outputs, device=self.device,
            record_cmd=True,
        )  # fmt: skip

        def call() -> None:
            launch.launch()
            self.warp.synchronize_device(self.device)

        return Query(call, lambda _: values(*(each.numpy() for each in outputs)))

    def rays(self, work: Workload) -> Query:
        inputs = [*map(self._vectors, work.rays), float(min(work.t_max, FAR))]
        if work.query == "any_hit":
            types = [self.warp.bool]
            return self._query("occluded", inputs, types, lambda hit: Answer(hit.astype(bool)))

        def answer(t: NDArray[np.float32], ids: NDArray[np.int32]) -> Answer:
            return Answer(ids >= 0, ids.astype(np.int64), t.astype(np.float64))

        return self._query("nearest", inputs, [self.warp.float32, self.warp.int32], answer)

    def counts(self, work: Workload) -> Query:
        rays = [*map(self._vectors, work.rays)]
        return self._query("counted", rays, [self.warp.int32], np.asarray)

    def closest_point(self, points: Points) -> Query:
        inputs = [self._vectors(points), FAR]
        return self._query("closest", inputs, [self.warp.vec3],
                           lambda found: np.linalg.norm(points - found, axis=1))  # fmt: skip

    def signed_distance(self, points: Points) -> Query:
        inputs = [self._vectors(points), FAR]
        return self._query("signed", inputs, [self.warp.float32], lambda found: found.astype(float))
