"""Sources of rays, which make the rays of a chunk in the task that casts them.

A ray is 48 bytes. Where rays follow from a camera or a formula, they need not be sent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bvh.camera.camera import Camera
from bvh.distributed import chunk_tasks
from bvh.distributed.chunk_tasks import Options, RayBlocks, RayFunction, delayed_value
from bvh.distributed.handles import Handle, Searchable
from bvh.distributed.lazy_queries import lazy_result
from bvh.distributed.out_of_core.part_targets import declared
from bvh.distributed.out_of_core.parts import tile_rays
from bvh.queries.results import Hits
from bvh.queries.verbs import Verb
from bvh.runtime.arguments import number_of, whole_number
from bvh.runtime.cpus import task_threads
from bvh.runtime.registry import extra

if TYPE_CHECKING:
    from dask.array import Array
    from dask.delayed import Delayed

VERBS = ("closest_hit", "any_hit", "count_hits", "all_hits")

# Sums that one task adds.
TOGETHER = 16


class RaySource:
    """Rays that a function makes, block by block, in the tasks that cast them.

    Its queries take a tree, a scene or parts, then options by name, each one for all rays. Results
    are lazy: fields are Dask arrays of the source's shape and chunks.

    Parameters
    ----------
    function : callable
        ``function(*slices, *args) -> (origins, directions)``, with one slice of the shape, start
        and stop given, for each of its axes. Returns arrays of shape (..., 3) that broadcast to the
        shape of the slices. It is pickled, and called in several threads or processes, for one
        block of a chunk after another; the same slices must give the same rays, as a task may be
        run again.
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
        self, function: RayFunction, shape: tuple[int, ...],
        chunks: int | str | tuple[int | str | tuple[int, ...], ...] = "auto",
        args: tuple[object, ...] = (),
    ) -> None:  # fmt: skip
        with extra("dask", "sources of rays need Dask"):
            from dask.array.core import normalize_chunks
        # Six numbers a ray: a million rays are 48 MB.
        self.chunks = normalize_chunks(chunks, shape, dtype=np.dtype("V48"), limit="48MB")
        self._maker = partial(RayBlocks, function, args)
        self.shape = tuple(whole_number("shape", size, least=0) for size in shape)

    def _blocks(self) -> Array:
        """Return a Dask array of the rays' shape, whose chunks are `RayBlocks`."""
        import dask.array as da

        # As there is no axis for coordinates, Dask fuses this with the query that takes it. The
        # maker of rays is one key, however large its arguments are.
        meta, maker = np.empty((0,) * len(self.shape), object), delayed_value("maker", self._maker)
        return da.map_blocks(_blocks_of, chunks=self.chunks, dtype=object, meta=meta, maker=maker)

    def _answer(self, verb: str, target: Searchable, options: Options) -> Any:
        """Return the lazy result of the query named `verb` of `target`."""
        declaration, given = _checked(target, verb, options)
        return lazy_result(target, declaration, {"rays": self._blocks()}, given)

    def closest_hit(self, target: Searchable, **options: Any) -> Hits:
        """Return the closest hits, lazily; options as in `BVH.closest_hit`.

        Examples
        --------
        >>> import bvh
        >>> from bvh.distributed import camera_rays
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> rays = camera_rays(bvh.Camera.look_at([0, 0, 3], [0, 0, 0], [0, 1, 0], 60, 4, 3))
        >>> rays.closest_hit(tree).t.compute().shape
        (3, 4)
        """
        hits: Hits = self._answer("closest_hit", target, options)
        return hits

    def any_hit(self, target: Searchable, **options: Any) -> Array:
        """Return which rays hit anything, lazily; options as in `BVH.any_hit`.

        Examples
        --------
        >>> import bvh
        >>> from bvh.distributed import RaySource
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> RaySource(lambda rows: ([0.2, 0.2, 5.0], [0, 0, -1]), (2,)).any_hit(tree).compute()
        array([ True,  True])
        """
        return self._answer("any_hit", target, options)

    def count_hits(self, target: Searchable, **options: Any) -> Array:
        """Return the number of hits of each ray, lazily; options as in `BVH.count_hits`.

        Examples
        --------
        >>> import bvh, bvh.distributed
        >>> boxes = bvh.BVH.from_boxes([[0, 0, 0], [0, 0, 1]], [[1, 1, 1], [1, 1, 2]])
        >>> rays = bvh.distributed.RaySource(lambda rows: ([0.5, 0.5, 3.0], [0, 0, -1]), (2,))
        >>> rays.count_hits(boxes).compute().tolist()
        [2, 2]
        """
        return self._answer("count_hits", target, options)

    def reduce(
        self, target: Searchable, function: Callable[..., ArrayLike], verb: str = "closest_hit",
        **options: Any,
    ) -> Delayed:  # fmt: skip
        """Return the sum of a function of the results of blocks of rays, lazily.

        For small outputs of many rays, such as counts, histograms and pictures of few pixels. This
        is the fastest method: each block is made, cast and reduced in the caches of a CPU, and
        memory does not depend on the size of chunks.

        Parameters
        ----------
        target : BVH, Scene or Parts
            A task queries all parts, one after another.
        function : callable
            ``function(result, *slices) -> number or ndarray``, with the result of a block, and
            where its rays are in the source. All that it returns is added; of NumPy's booleans that
            is "or". It is pickled.
        verb : {"closest_hit", "any_hit", "count_hits", "all_hits"}
        **options
            Options of the query, without `progress`.

        Returns
        -------
        dask.delayed.Delayed
            The sum. That of floats may depend on the chunks in its last bits.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> from bvh.distributed import camera_rays
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> camera = bvh.Camera.look_at([0, 0, 3], [0, 0, 0], [0, 1, 0], 60, width=400, height=300)
        >>> def histogram(hits, rows, columns):
        ...     return np.histogram(hits.t, bins=4, range=(0.0, 4.0))[0]
        >>> camera_rays(camera).reduce(tree, histogram).compute()
        array([   0,    0,    0, 3741])
        """
        from dask.delayed import delayed

        if verb not in VERBS:
            raise ValueError(f"verb must be one of {', '.join(VERBS)}, got {verb!r}")
        if not callable(function):
            raise TypeError(f"function must be callable, got {type(function).__name__}")
        _, options = _checked(target, verb, options)
        task = partial(_sum_of_chunk, verb=verb, options=options)
        chunks = chunk_tasks.blockwise(
            task, [(self._blocks(), len(self.shape))], target=chunk_tasks.delayed_target(target),
            function=delayed_value("function", function),
        )  # fmt: skip
        sums = chunks.to_delayed().reshape(-1).tolist()
        while len(sums) > 1:
            groups = [sums[k : k + TOGETHER] for k in range(0, len(sums), TOGETHER)]
            sums = [delayed(partial(reduce, add), pure=True)(group) for group in groups]
        return sums[0]

    def __repr__(self) -> str:
        return f"RaySource({number_of(' x '.join(map(str, self.shape)), 'rays')})"


def camera_rays(camera: Camera, tile: int | tuple[int, int] = 2048) -> RaySource:
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
    shape = camera.height, camera.width
    return RaySource(tile_rays, shape, tile, (camera, camera.pixel_ratio))


def _checked(target: Searchable, verb: str, options: Options) -> tuple[Verb, Options]:
    """Return the declaration of the query `verb`, and `options`, checked to be one for all rays."""
    query = getattr(chunk_tasks.checked_target(target), verb)
    given, declaration = chunk_tasks.checked_options(query, options), declared(query)
    for name in declaration.arrays.keys() & given:
        if shape := np.shape(given[name]):
            raise ValueError(f"{name} must be a number for a source of rays, got shape {shape}")
    return declaration, given


def _blocks_of(*, maker: partial[RayBlocks], block_info: Any = None) -> RayBlocks:
    """Return ``maker(place)``, the rays of the chunk that `map_blocks` describes in `block_info`.

    Its entry None is about the output: "array-location" has (start, stop) for each axis.
    """
    return maker(tuple(slice(*ends) for ends in block_info[None]["array-location"]))


def _sum_of_chunk(
    rays: RayBlocks, target: Handle, function: Callable[..., ArrayLike], verb: str, options: Options
) -> ArrayLike:
    """Return the sum of ``function(result, *slices of the source)`` over the blocks of a chunk."""
    with task_threads(options["threads"]):
        results = rays.cast(target.open(), verb, options)
        return reduce(add, (function(result, *place) for _, place, result in results))
