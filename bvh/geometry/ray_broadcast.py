"""Rays broadcast against shapes, for the ray tests of single shapes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.runtime.arguments import common_shape, kernel_input, points, reals


class BroadcastRays(NamedTuple):
    """Rays, flat, as kernels take them, and their leading shape."""

    origins: NDArray[np.float64]
    directions: NDArray[np.float64]
    t_min: NDArray[np.float64]
    t_max: NDArray[np.float64]
    shape: tuple[int, ...]


def broadcast_rays(
    origins: ArrayLike,
    directions: ArrayLike,
    t_min: ArrayLike,
    t_max: ArrayLike,
    **shapes: NDArray[np.float64],
) -> tuple[BroadcastRays, list[NDArray[np.float64]]]:
    """Check rays and broadcast them against the vectors of a shape: one row of each for a ray."""
    o, d = points("origins", origins), points("directions", directions)
    low, high = reals("t_min", t_min), reals("t_max", t_max)
    shape = common_shape(
        origins=o.shape[:-1],
        directions=d.shape[:-1],
        t_min=low.shape,
        t_max=high.shape,
        **{name: array.shape[:-1] for name, array in shapes.items()},
    )

    def full(array: NDArray[np.float64], tail: tuple[int, ...]) -> NDArray[np.float64]:
        return kernel_input(np.broadcast_to(array, shape + tail).reshape(-1, *tail))

    rays = BroadcastRays(full(o, (3,)), full(d, (3,)), full(low, ()), full(high, ()), shape)
    return rays, [full(array, array.shape[-1:]) for array in shapes.values()]


def shaped(shape: tuple[int, ...], *arrays: NDArray[Any]) -> tuple[Any, ...]:
    """Give flat results the leading shape of a batch; scalars for a single query."""
    if shape == ():
        return tuple(array[0].item() for array in arrays)
    return tuple(array.reshape(shape) for array in arrays)
