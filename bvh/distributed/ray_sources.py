"""Sources of rays, which make the rays of a chunk in the task that casts them.

A ray is 48 bytes. Where rays follow from a camera or a formula, they need not be sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.distributed.lazy_queries import lazy_query

Maker = Callable[..., tuple[Any, Any]]


class RaySource:
    """Rays that a function makes, chunk by chunk, in the tasks that cast them.

    Its queries take a tree, a scene or parts, then the options of the query by name. Their results
    are lazy: fields are Dask arrays of the shape and chunks of the source.

    Parameters
    ----------
    function : callable
        ``function(*slices, *args) -> (origins, directions)``, with one slice of the shape, start
        and stop given, for each of its axes. Returns arrays of shape (..., 3) that broadcast to the
        shape of the chunk. It is pickled, and called in several threads or processes; the same
        slices must give the same rays, as a task may be run again.
    shape : tuple of int
        Shape of the rays, without the axis of coordinates.
    chunks : int, tuple or "auto"
        As in `dask.array`, for the axes of `shape`. "auto" makes chunks of at most a million rays.
    args : tuple
        Further arguments of the function.

    Attributes
    ----------
    shape : tuple of int
    chunks : tuple of tuple of int
        Sizes of the chunks along each axis.

    Examples
    --------
    >>> import bvh, numpy as np
    >>> from bvh.distributed import RaySource
    >>> def above(rows, columns):
    ...     y, x = np.mgrid[rows, columns] * 0.25
    ...     return np.stack([x, y, np.ones_like(x)], axis=-1), [0.0, 0.0, -1.0]
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> hits = RaySource(above, (4, 4), chunks=2).closest_hit(tree)
    >>> int(hits.mask.sum())
    13
    """

    def __init__(
        self,
        function: Maker,
        shape: tuple[int, ...],
        chunks: Any = "auto",
        args: tuple[Any, ...] = (),
    ) -> None:
        from dask.array.core import normalize_chunks

        # Six numbers a ray: a million rays are 48 MB.
        self.chunks = normalize_chunks(chunks, shape, dtype=np.dtype("V48"), limit="48MB")
        self.shape, self._function, self._args = tuple(map(int, shape)), function, args

    def _pairs(self) -> Any:
        """Return a Dask array of the rays' shape, whose blocks are pairs (origins, directions).

        Without an axis for coordinates it is fused with the query that takes it.
        """
        import dask.array as da
        from dask.base import tokenize
        from dask.blockwise import blockwise
        from dask.highlevelgraph import HighLevelGraph
        from dask.layers import ArraySliceDep

        name, axes = f"rays-{tokenize(self)}", tuple(range(len(self.shape)))
        make = _Maker(self._function, self._args)
        layer = blockwise(make, name, axes, ArraySliceDep(self.chunks), axes, numblocks={})
        graph = HighLevelGraph.from_collections(name, layer, dependencies=[])
        return da.Array(graph, name, self.chunks, dtype=np.float64)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return "bvh.RaySource", self._function, self.shape, self.chunks, self._args

    def closest_hit(self, target: Any, **options: Any) -> Any:
        """Return the closest hits, lazily; options as in `BVH.closest_hit`."""
        return lazy_query(target, "closest_hit", {"rays": self._pairs(), **options})

    def any_hit(self, target: Any, **options: Any) -> Any:
        """Return which rays hit anything, lazily; options as in `BVH.any_hit`."""
        return lazy_query(target, "any_hit", {"rays": self._pairs(), **options})

    def count_hits(self, target: Any, **options: Any) -> Any:
        """Return the number of hits of each ray, lazily; options as in `BVH.count_hits`."""
        return lazy_query(target, "count_hits", {"rays": self._pairs(), **options})

    def __repr__(self) -> str:
        return f"RaySource({' x '.join(map(str, self.shape))} rays)"


def camera_rays(camera: Camera, tile: int | tuple[int, int] = 1024) -> RaySource:
    """Return the rays of a camera's pixels, made tile by tile in the tasks that cast them.

    Parameters
    ----------
    camera : Camera
    tile : int or (int, int)
        Rows and columns of device pixels in a chunk.

    Returns
    -------
    RaySource
        Of shape (height, width), with the rays of `Camera.rays`. The range of the camera is not
        part of it: pass `camera.t_min` and `camera.t_max` to queries where it matters.

    Examples
    --------
    >>> import bvh
    >>> from bvh.distributed import camera_rays
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> camera = bvh.Camera.look_at([0, 0, 3], [0, 0, 0], [0, 1, 0], 60, width=400, height=300)
    >>> rays = camera_rays(camera, tile=(100, 200))
    >>> rays
    RaySource(300 x 400 rays)
    >>> hits = rays.closest_hit(tree)
    >>> hits.t.chunks
    ((100, 100, 100), (200, 200))
    >>> bool((hits.mask.compute() == tree.closest_hit(*camera.rays()).mask).all())
    True
    """
    return RaySource(_tile, (camera.height, camera.width), tile, (camera,))


def _tile(rows: slice, columns: slice, camera: Camera) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rays of a tile of a camera's picture."""
    x = (np.arange(columns.start, columns.stop) + 0.5) / camera.pixel_ratio
    y = (np.arange(rows.start, rows.stop) + 0.5) / camera.pixel_ratio
    return camera.ray(x, y[:, None])


class _Maker:
    """Function of a task that makes the rays of a chunk."""

    def __init__(self, function: Maker, args: tuple[Any, ...]) -> None:
        self._function, self._args = function, args
        self.__name__ = "rays"

    def __call__(self, slices: tuple[slice, ...]) -> tuple[NDArray[Any], NDArray[Any]]:
        shape = tuple(part.stop - part.start for part in slices)
        origins, directions = map(np.asarray, self._function(*slices, *self._args))
        return _shared(origins, shape), np.broadcast_to(directions, (*shape, 3))

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return "bvh.rays", self._function, self._args


def _shared(origins: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return origins of rays of a shape: one point where all share it, which saves a copy."""
    if origins.size and not any(origins.strides[:-1]):
        one: NDArray[Any] = origins[(0,) * (origins.ndim - 1)]
        return one
    return np.broadcast_to(origins, (*shape, 3))
