"""Queries of Dask arrays: results whose fields are Dask arrays of the same chunks, or lists.

Parts have a task for each chunk and each group of parts, and a tree of tasks that merge. A group
fits into the `memory` of `Parts`, so that a worker that has mapped it can answer for many chunks.
Nothing is computed, compiled or sent here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import getitem
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bvh.distributed import chunk_tasks
from bvh.distributed.chunk_tasks import Arguments, LazyColumns, Options, chunk_results
from bvh.distributed.handles import Searchable
from bvh.distributed.merging import Column, Kinds, merge
from bvh.distributed.out_of_core.part_targets import declared
from bvh.distributed.out_of_core.parts import Parts
from bvh.queries.answers.result_bases import columns_of
from bvh.queries.results import AllHits, Overlaps
from bvh.queries.verbs import Merge, Verb
from bvh.runtime.arguments import common_shape, number_of
from bvh.runtime.foreign_arrays import is_lazy

if TYPE_CHECKING:
    from dask.array import Array
    from dask.delayed import Delayed

# Results of groups that one task merges.
TOGETHER = 8

# Results for a chunk; those of a scene have columns of scenes, too.
ChunkLists = AllHits | Overlaps


class LazyLists:
    """Results of `all_hits`, or of an overlap query, one for each chunk of the arguments.

    Only the query determines the number of hits, so these results are not Dask arrays.

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

        return delayed(join)(self.chunks.tolist())

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
        result: ChunkLists = self.joined().compute(**options)
        return result

    def __repr__(self) -> str:
        return f"LazyLists({number_of(self.chunks.size, 'chunks')})"


def answer(query: MethodType, arguments: Arguments) -> Any:
    """Return the lazy result of the method `query`; some `arguments`, by name, are Dask arrays."""
    verb, given = declared(query), chunk_tasks.checked_options(query, arguments)
    # A single mask stays a number, as queries of points and regions take no array of masks.
    mask: object = given.get("mask")
    single = np.ndim(mask) == 0 and not is_lazy(mask)  # type: ignore[arg-type]
    names = [n for n in verb.arrays if n in given and not (n == "mask" and single)]
    arrays = {n: chunk_tasks.as_dask(n, given.pop(n), verb.arrays[n]) for n in names}
    common_shape(**{n: a.shape[: a.ndim - len(verb.arrays[n])] for n, a in arrays.items()})
    return lazy_result(chunk_tasks.checked_target(query.__self__), verb, arrays, given)


def lazy_result(target: Searchable, verb: Verb, arrays: LazyColumns, options: Options) -> Any:
    """Return the lazy result of a query: a Dask array, a record of Dask arrays, or `LazyLists`."""
    if verb.merge is Merge.LISTS:
        # None: chunks are results, not tuples of columns.
        key = chunk_tasks.delayed_target(target)
        return LazyLists(chunk_results(key, verb, arrays, options, None).to_delayed())
    # The winding number is no sum over groups of parts, as each group has more open edges.
    whole = verb.name == "winding_number" or options.get("method") == "winding"
    if isinstance(target, Parts) and verb.merge is None and not whole:
        return _inside_or_signed(target, verb, arrays, options)
    groups = target.groups() if isinstance(target, Parts) and not whole else [target]
    # Made once: a tree or scene may change before positions and normals are used.
    keys = [*map(chunk_tasks.delayed_target, groups)]
    kinds = chunk_tasks.kinds_of(target, verb, options)
    columns = _columns(keys, verb, arrays, options, kinds)
    if verb.record is None:
        return columns[verb.name]
    result = verb.record(**columns)

    def further_column(name: str) -> Array:
        """Return the `position` or `normal` of the result, by a query of its own."""
        return _columns(keys, verb, arrays, options, kinds | {name: np.float64})[name]

    # The record calls this when its position or normal is asked for.
    vars(result)["_source"] = further_column
    return result


def _columns(
    keys: list[Delayed], verb: Verb, arrays: LazyColumns, options: Options, kinds: Kinds
) -> LazyColumns:
    """Return the columns `kinds` of a result by name, merged if there are several `keys`.

    `keys` are the handles of the targets in the graph: a tree, a scene, or groups of parts.
    """
    results = [chunk_results(key, verb, arrays, options, kinds) for key in keys]
    rank = results[0].ndim
    task = partial(_merged, how=verb.merge, names=list(kinds), rank=rank)
    while len(results) > 1:
        runs = [results[k : k + TOGETHER] for k in range(0, len(results), TOGETHER)]
        results = [chunk_tasks.blockwise(task, [(r, rank) for r in run]) for run in runs]
    return chunk_tasks.separated(results[0], verb, kinds, options)


def _inside_or_signed(parts: Parts, verb: Verb, arrays: LazyColumns, options: Options) -> Array:
    """Return the lazy result of `contains` or `signed_distance`, as `verb` says, by parity."""
    import dask.array as da

    rest = {name: given for name, given in options.items() if name != "method"}

    def column_of(query: Callable[..., object]) -> Array:
        """Return the lazy result of another query of the same points."""
        return lazy_result(parts, declared(query), arrays, rest)

    inside = column_of(parts._crossings) % 2 == 1
    if verb.name == "contains":
        return inside | column_of(parts._touched)
    near = column_of(parts.distance)
    return da.where(inside & (near > 0.0) & (near < np.inf), -near, near)


def _merged(
    *results: tuple[Column, ...], how: Merge | None, names: list[str], rank: int
) -> tuple[Column, ...]:
    """Return the result for a chunk of queries, merged as `how` says from groups of parts.

    A result is the tuple of the columns `names`, whose first `rank` axes are those of the queries.
    """
    # `merge` takes columns with one axis of queries, and writes to those of the first group.
    assert how is not None
    first, *others = (
        {n: c.reshape(-1, *c.shape[rank:]) for n, c in zip(names, result, strict=True)}
        for result in results
    )
    first = {name: column.copy() for name, column in first.items()}
    for other in others:
        merge(how, first, other)
    return tuple(c.reshape(full.shape) for c, full in zip(first.values(), results[0], strict=True))


def join(chunks: Any) -> Any:
    """Join results of chunks, such as those of `LazyLists.chunks`, to the result of all.

    Parameters
    ----------
    chunks : nested list, or ndarray of object
        Results of `all_hits`, or of an overlap query, computed, and arranged as the chunks of the
        leading axes.

    Returns
    -------
    AllHits or Overlaps
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
    grid = np.empty(_grid_shape(chunks), object)
    for index in np.ndindex(grid.shape):
        grid[index] = reduce(getitem, index, chunks)
    if grid.ndim == 0:
        return grid[()]
    # `number` is an array of the joined shape: the number of each query when the queries of all
    # chunks are counted one chunk after another, the order in which entries are concatenated.
    results, numbers, begin = list(grid.flat), np.empty(grid.shape, object), 0
    for index, result in np.ndenumerate(grid):
        numbers[index] = np.arange(begin, begin + result.counts.size).reshape(result.shape)
        begin += result.counts.size
    number = np.block(numbers.tolist())
    sizes = np.concatenate([result.counts.reshape(-1) for result in results])
    counts, starts = sizes[number].reshape(-1), (np.cumsum(sizes) - sizes)[number].reshape(-1)
    offsets = np.append(0, np.cumsum(counts)).astype(np.int64)
    # Row of each joined entry among the concatenated entries; one axis of chunks keeps the order.
    rows: NDArray[np.int64] | slice = slice(None)
    if grid.ndim > 1:
        rows = np.repeat(starts - offsets[:-1], counts) + np.arange(offsets[-1])
    columns = {
        name: np.concatenate([getattr(result, name) for result in results])[rows]
        for name in columns_of(results[0])
        if name not in ("offsets", "shape")
    }
    return type(results[0])(**columns, offsets=offsets, shape=number.shape)


def _grid_shape(chunks: Any) -> tuple[int, ...]:
    """Return the shape of a grid of results, which is nested lists, tuples or arrays."""
    shape: list[int] = []
    while isinstance(chunks, list | tuple) or (isinstance(chunks, np.ndarray) and chunks.ndim):
        if len(chunks) == 0:
            raise ValueError("chunks must hold at least one result")
        shape.append(len(chunks))
        chunks = chunks[0]
    return tuple(shape)
