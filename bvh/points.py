"""Batches of points, checked once, and what a query gives back for them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.arguments import common_shape, kernel_input, points, reals


class PointBatch(NamedTuple):
    """Points as kernels read them: flat, C-contiguous, float64.

    There is a limit of the distance for every point, or a single one for all.
    """

    points: NDArray[np.float64]
    limits: NDArray[np.float64]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(self.shape)


def point_batch(places: ArrayLike, max_distance: ArrayLike = np.inf) -> PointBatch:
    """Check and flatten points, and broadcast the limits of their distances."""
    rows, limits = points("points", places), reals("max_distance", max_distance)
    shape = common_shape(points=rows.shape[:-1], max_distance=limits.shape)
    flat = kernel_input(np.broadcast_to(rows, (*shape, 3)).reshape(-1, 3))
    if limits.size == 1:
        return PointBatch(flat, kernel_input(limits.reshape(1)), shape)
    return PointBatch(flat, kernel_input(np.broadcast_to(limits, shape).reshape(-1)), shape)


@dataclass(frozen=True, eq=False, repr=False)
class ClosestPoints:
    """The nearest point of a tree for each point, every field with the points' leading shape.

    Where several were asked for, with one more axis: the nearest, the second, and so on, by
    (distance, prim_id), filled up with misses.

    Attributes
    ----------
    distance : ndarray of float64 or float
        +inf for a miss.
    position : ndarray of float64, shape (..., 3)
        The nearest point; NaN for a miss.
    prim_id : ndarray of int32 or int
        The face that it lies in, the lowest of several as near; -1 for a miss.
    u, v : ndarray of float64 or float
        Weights of the face's second and third vertex, so that the position is
        (1-u-v) v0 + u v1 + v v2. NaN for a miss.
    """

    distance: Any
    position: Any
    prim_id: Any
    u: Any
    v: Any

    @property
    def mask(self) -> Any:
        """True where there is a nearest point."""
        return self.prim_id >= 0

    def __len__(self) -> int:
        return len(self.distance)

    def __getitem__(self, index: Any) -> ClosestPoints:
        """Select points as from an array of the same shape."""
        picked = {field.name: getattr(self, field.name) for field in fields(self)}
        parts = index if isinstance(index, tuple) else (index,)
        # An ellipsis would take in the axis of coordinates, too.
        full = (*parts, slice(None)) if any(part is Ellipsis for part in parts) else index
        return type(self)(
            **{name: a[full if name == "position" else index] for name, a in picked.items()}
        )

    def __repr__(self) -> str:
        if np.ndim(self.distance) == 0:
            inner = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
            return f"{type(self).__name__}({inner})"
        mask = self.mask
        share = f"{int(np.count_nonzero(mask))} of {' x '.join(map(str, mask.shape))} found"
        if not mask.any():
            return f"{type(self).__name__}({share})"
        near, far = float(self.distance[mask].min()), float(self.distance[mask].max())
        return f"{type(self).__name__}({share}, distance {near:.6g} to {far:.6g})"


@dataclass(frozen=True, eq=False, repr=False)
class SceneClosestPoints(ClosestPoints):
    """The nearest point of a scene for each point.

    Where several were asked for, they are sorted by (distance, leaf, prim_id).

    Attributes
    ----------
    instance_id : ndarray of int32 or int
        The instance that the nearest point is on, by its id in the scene that was asked; -1 for a
        miss.
    leaf : ndarray of int32 or int
        The row of `Scene.leaves`: tells the instances apart that a nested scene is made of. -1 for
        a miss.
    prim_id : ndarray of int32 or int
        Face of the leaf's tree; -1 for a miss.
    """

    instance_id: Any
    leaf: Any
