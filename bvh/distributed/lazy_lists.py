"""Lists of hits and overlaps of Dask arrays: a result for each chunk, and their union.

How many hits there are is not known before they are found, so that they are not Dask arrays.
"""

from __future__ import annotations

from dataclasses import fields
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.chunk_tasks import Lazy, Options, held, shapes_of, target_key, unified
from bvh.distributed.merging import Columns
from bvh.distributed.tree_handles import Handle, Searched
from bvh.queries.results import AllHits, Overlaps
from bvh.queries.verbs import Verb
from bvh.runtime.arguments import number_of
from bvh.runtime.cpus import task_threads

if TYPE_CHECKING:
    from dask.delayed import Delayed

# Results for a chunk: of a scene, those of a scene.
ChunkLists = AllHits | Overlaps


class LazyLists:
    """Results of `all_hits`, or of an overlap query, one for each chunk of the arguments.

    How many hits there are is known only when they have been found, so these results are not Dask
    arrays.

    Attributes
    ----------
    chunks : ndarray of dask.delayed.Delayed
        The result of each chunk, arranged as the chunks of the leading axes. Reduce them where they
        are, by ``dask.delayed(function)(chunk)``, where all lists are too large for one machine.

    Examples
    --------
    >>> import bvh, dask.array as da
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> origins = da.from_array([[0.2, 0.2, 5.0], [2.0, 2.0, 5.0], [0.3, 0.1, 4.0]], chunks=(2, 3))
    >>> lists = tree.all_hits(origins, [0.0, 0.0, -1.0])
    >>> lists
    LazyLists(2 chunks)
    >>> lists.compute().counts
    array([1, 0, 1])
    """

    def __init__(self, chunks: NDArray[np.object_]) -> None:
        self.chunks = chunks

    def joined(self) -> Delayed:
        """Return one result for all chunks, lazily: a `Delayed` of the class of the chunks'.

        Examples
        --------
        >>> import bvh, dask.array as da
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> origins = da.from_array([[0.2, 0.2, 5.0], [2, 2, 5], [0.3, 0.1, 4]], chunks=(2, 3))
        >>> tree.all_hits(origins, [0.0, 0.0, -1.0]).joined().compute().t
        array([5., 4.])
        """
        from dask.delayed import delayed

        return delayed(join)(self.chunks.tolist(), self.chunks.shape)

    def compute(self, **options: Any) -> ChunkLists:
        """Compute all chunks, and return one result; options as in `dask.compute`.

        Examples
        --------
        >>> import bvh, dask.array as da
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> origins = da.from_array([[0.2, 0.2, 5.0], [2, 2, 5], [0.3, 0.1, 4]], chunks=(2, 3))
        >>> tree.all_hits(origins, [0.0, 0.0, -1.0]).compute().counts
        array([1, 0, 1])
        """
        found: ChunkLists = self.joined().compute(**options)
        return found

    def __repr__(self) -> str:
        return f"LazyLists({number_of(self.chunks.size, 'chunks')})"


def lazy_lists(target: Searched, verb: Verb, arrays: Lazy, options: Options) -> LazyLists:
    """Return the lists of a query of Dask arrays, whose chunks are the same."""
    import dask.array as da
    from dask.delayed import delayed

    shapes = shapes_of(verb)
    ranks = {name: a.ndim - len(shapes[name]) for name, a in arrays.items()}
    leading = np.broadcast_shapes(*(a.shape[: ranks[name]] for name, a in arrays.items()))
    full = {n: da.broadcast_to(a, leading + a.shape[ranks[n] :]) for n, a in arrays.items()}
    full = unified(full, shapes)
    task, key = delayed(_query, pure=True), target_key(target)
    if "data" in options:
        options = options | {"data": held("data", options["data"])}
    rank = len(leading)
    blocks = {n: a.to_delayed().reshape(a.numblocks[:rank]) for n, a in full.items()}
    chunks = np.empty(next(iter(blocks.values())).shape, object)
    for index in np.ndindex(chunks.shape):
        given = {name: block[index] for name, block in blocks.items()}
        chunks[index] = task(key, verb.name, given, options)
    return LazyLists(chunks)


def _query(handle: Handle, verb: str, arrays: Columns, options: Options) -> ChunkLists:
    """Answer a query of one chunk."""
    with task_threads(options["threads"]):
        found: ChunkLists = getattr(handle.open(), verb)(**arrays, **options)
        return found


def join(chunks: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Join results of chunks, such as those of `LazyLists.chunks`, to the result of all.

    Parameters
    ----------
    chunks : nested list, or ndarray of object
        Results of `all_hits`, or of an overlap query, computed, and arranged as the chunks of the
        leading axes.
    shape : tuple of int, optional
        Number of chunks along each axis; by default as deep as the lists are.

    Returns
    -------
    AllHits, SceneAllHits, Overlaps or SceneOverlaps
        Of the class of the chunks' results, with all their queries in order.

    Examples
    --------
    >>> import bvh
    >>> from bvh.distributed import join
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> down = [0.0, 0.0, -1.0]
    >>> first = tree.all_hits([[0.2, 0.2, 5.0], [2.0, 2.0, 5.0]], down)
    >>> second = tree.all_hits([[0.3, 0.1, 4.0]], down)
    >>> join([first, second]).counts
    array([1, 0, 1])
    """
    grid = np.empty(_depth(chunks) if shape is None else shape, object)
    for index in np.ndindex(grid.shape):
        grid[index] = reduce(getitem, index, chunks)
    if grid.ndim == 0:
        return grid[()]
    # The number of each query among those of all chunks, one chunk after another.
    parts, numbers, begin = list(grid.flat), np.empty(grid.shape, object), 0
    for index, part in zip(np.ndindex(grid.shape), parts, strict=True):
        numbers[index] = np.arange(begin, begin + part.counts.size).reshape(part.shape)
        begin += part.counts.size
    number = np.block(numbers.tolist())
    sizes = np.concatenate([part.counts.reshape(-1) for part in parts])
    counts, starts = sizes[number].reshape(-1), (np.cumsum(sizes) - sizes)[number].reshape(-1)
    offsets = np.append(0, np.cumsum(counts)).astype(np.int64)
    rows: NDArray[np.int64] | slice = slice(None)
    if grid.ndim > 1:
        rows = np.repeat(starts - offsets[:-1], counts) + np.arange(offsets[-1])
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])[rows]
        for field in fields(parts[0])
        if field.name not in ("offsets", "shape")
    }
    return type(parts[0])(**columns, offsets=offsets, shape=number.shape)


def _depth(chunks: Any) -> tuple[int, ...]:
    """Return the shape of nested lists of results."""
    shape: list[int] = []
    while isinstance(chunks, list | tuple) or (isinstance(chunks, np.ndarray) and chunks.ndim):
        if len(chunks) == 0:
            raise ValueError("chunks must hold at least one result")
        shape.append(len(chunks))
        chunks = chunks[0]
    return tuple(shape)
