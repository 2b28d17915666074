"""Sources of pictures: surfaces for rays of cameras, and occluders of light."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import TruthResult
from bvh.scene.scene import Scene


@runtime_checkable
class InParts(Protocol):
    """A mesh in parts: `bvh.Parts`, whose folder is above this one."""

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Lower and upper corner, shape (2, 3)."""

    @property
    def any_hit(self) -> Callable[..., TruthResult]:
        """The method (origins, directions, ...) that returns whether each ray hits anything."""

    @property
    def visible_tree(self) -> "Callable[..., RenderSource]":
        """The method (camera, samples, ...) that returns a smaller source with the same picture."""


# Occluders of light.
Occluders = BVH | Scene | InParts


@dataclass(frozen=True, eq=False)
class RenderSource:
    """Source of a picture: a surface that a camera sees, and the occluders of light.

    Attributes
    ----------
    surface : BVH or Scene
        Hit by the rays of the camera.
    occluders : BVH, Scene or Parts
        Hit by rays to lights.
    ids : ndarray of int64, optional
        Where `surface` is over some triangles of a mesh, their ids there.
    """

    surface: BVH | Scene
    occluders: Occluders
    ids: NDArray[np.int64] | None = None

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Lower and upper corner of the occluders, shape (2, 3)."""
        return self.occluders.bounds


# Subjects of pictures.
Pictured = BVH | Scene | InParts | RenderSource
