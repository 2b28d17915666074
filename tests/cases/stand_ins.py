"""As much of Open3D as its drop-in looks at, for tests where Open3D is not installed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np


class Tensor:
    """An array on a device."""

    __module__ = "open3d.pybind.core"

    def __init__(self, array: np.ndarray, device: str) -> None:
        self._array, self.device = array, device

    @staticmethod
    def from_numpy(array: np.ndarray) -> Tensor:
        """Share the memory of an array."""
        assert type(array) is np.ndarray
        return Tensor(array, "CPU:0")

    def to(self, device: str) -> Tensor:
        """Move to another device."""
        return Tensor(self._array, device)

    def cpu(self) -> Tensor:
        """Move to where numpy can read it."""
        return self.to("CPU:0")

    def numpy(self) -> np.ndarray:
        """Return the memory, if it is the CPU's."""
        assert self.device == "CPU:0"
        return self._array


class StandInMesh:
    """A mesh of `open3d.t`, whose attributes are maps; of the older class with `old`."""

    __module__ = "open3d.pybind.t.geometry"

    def __init__(self, vertices: Any, faces: Any, old: bool = False) -> None:
        if old:
            self.vertices, self.triangles = vertices, faces
            return
        self.vertex, self.triangle = AttributeMap(), AttributeMap()
        if vertices is not None:
            self.vertex.positions = Tensor(vertices, "CUDA:0")
        if faces is not None:
            self.triangle.indices = Tensor(faces, "CUDA:0")


class AttributeMap(SimpleNamespace):
    """Attributes that can be asked for by name."""

    def __contains__(self, name: str) -> bool:
        return hasattr(self, name)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)
