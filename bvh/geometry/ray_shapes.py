"""Arguments and results of the `ray_*` functions, which test each ray against its own shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.ray_broadcast import broadcast_rays, shaped

Hit = TypeVar("Hit")


class ShapeRays(NamedTuple):
    """Rays as these kernels take them, one row each."""

    origins: NDArray[np.float64]
    directions: NDArray[np.float64]
    t_min: NDArray[np.float64]
    t_max: NDArray[np.float64]


def intersect_each(
    kernel: Callable[..., None],
    result: type[Hit],
    rays: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    shapes: dict[str, NDArray[np.float64]],
    *options: int,
) -> Hit:
    """Run a kernel on rays and shapes, one to one after broadcasting.

    Parameters
    ----------
    kernel : function
        Called as kernel(rays, arrays of the shapes, *options, result of arrays).
    result : type
        A named tuple: first whether there is a hit, then doubles.
    rays : tuple
        Origins, directions, t_min and t_max.
    shapes : dict
        The vectors that make a shape, by the names of the arguments.
    options : int
        Passed on to the kernel.

    Returns
    -------
    result
        With the leading shape of the arguments; scalars for a single ray.
    """
    batch, arrays = broadcast_rays(*rays, **shapes)
    n = len(batch.t_min)
    named_tuple: Any = result
    fields = len(named_tuple._fields)
    hits = named_tuple(np.empty(n, np.bool_), *(np.empty(n) for _ in range(1, fields)))
    kernel(ShapeRays(*batch[:4]), tuple(arrays), *options, hits)
    return result(*shaped(batch.shape, *hits))
