"""Tasks of queries, one for each chunk of Dask arrays.

A tree is one key of the graph (see `handles`), and the columns of a result share their tasks:
``dask.compute(hits.t, hits.prim_id)`` casts once. Rays of a source are made in the tasks that cast
them, in blocks that stay in the caches of a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from operator import getitem
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bvh.distributed.handles import Handle, Searched, handle_of
from bvh.distributed.merging import VECTORS, Column, Kinds
from bvh.distributed.out_of_core.part_targets import declared, refuse
from bvh.distributed.out_of_core.parts import Parts
from bvh.queries.query_arguments import check_method, check_options
from bvh.queries.verbs import Verb
from bvh.runtime.arguments import cull_code, flag, lengths, thread_limit, whole_number
from bvh.runtime.cpus import task_threads
from bvh.runtime.foreign_arrays import is_lazy
from bvh.scene.scene import Scene

if TYPE_CHECKING:
    from dask.array import Array
    from dask.delayed import Delayed

# Arguments of a query by name, those that are not arrays, and columns of a lazy result.
Arguments = dict[str, object]
Options = dict[str, Any]
Lazy = dict[str, "Array"]
Shape = tuple[int, ...]
# Function of a `RaySource`: it returns (origins, directions).
Maker = Callable[..., tuple[ArrayLike, ArrayLike]]
Slices = tuple[slice, ...]

# Rays of a block: 6 MB of directions, and as much of results. Chunks of millions that are made and
# cast at a time take half as long again: each array is new memory, cleared first, and never cached.
BLOCK = 1 << 18


class RayBlocks:
    """Rays of a chunk, made when they are cast; `place` are the chunk's slices of the source."""

    def __init__(self, function: Maker, args: tuple[object, ...], place: Slices) -> None:
        self._function, self._args, self.place = function, args, place
        self.shape = tuple(axis.stop - axis.start for axis in place)

    def cast(
        self, target: Searched, verb: str, options: Options
    ) -> Iterator[tuple[Slices, Slices, object]]:
        """Yield (slices of the chunk, slices of the source, result) of each block of rays."""
        # A chunk is one block if each block would visit all parts, or for a filter, which gets the
        # row of a ray in its chunk.
        undivided = isinstance(target, Parts) or options.get("filter") is not None
        sizes = block_shape(self.shape, prod(self.shape) if undivided else BLOCK)
        begins = [range(0, max(n, 1), size) for n, size in zip(self.shape, sizes, strict=True)]
        for begin in product(*begins):
            within = tuple(slice(b, min(b + k, n))
                           for b, k, n in zip(begin, sizes, self.shape, strict=True))  # fmt: skip
            place = tuple(slice(axis.start + s.start, axis.start + s.stop)
                          for s, axis in zip(within, self.place, strict=True))  # fmt: skip
            shape = *(axis.stop - axis.start for axis in place), 3
            with task_threads(1):
                rays = [np.broadcast_to(a, shape) for a in self._function(*place, *self._args)]
            yield within, place, getattr(target, verb)(*rays, **options)


def block_shape(shape: Shape, most: int) -> Shape:
    """Return the shape of blocks of at most `most` rays, about as long along all axes."""
    sizes = [max(size, 1) for size in shape]
    while prod(sizes) > max(most, 1):
        longest = sizes.index(max(sizes))
        sizes[longest] = -(-sizes[longest] // 2)
    return tuple(sizes)


def searched(target: object) -> Searched:
    """Return the target, if it is a tree, a scene or parts; else raise a TypeError."""
    if not isinstance(target, Searched):
        raise TypeError(f"target must be a BVH, a Scene or Parts, got {type(target).__name__}")
    return target


def checked_options(query: MethodType, arguments: Arguments) -> Options:
    """Return the arguments that are given; raise for those that are not valid."""
    # A task is one thread unless `threads` says otherwise: the scheduler runs as many tasks as
    # there are CPUs.
    verb = declared(query)
    given: Options = {name: each for name, each in arguments.items() if each is not None}
    if given.pop("progress", False) is not False:
        use = "dask.diagnostics.ProgressBar, or distributed.progress"
        raise ValueError(f"progress must be None for Dask arrays: use {use}")
    for name in given.keys() - verb.arrays.keys() - set(verb.options):
        raise TypeError(f"{verb.name}() got an unexpected keyword argument {name!r}")
    cull_code(given.get("cull"))
    flags = given.get("sort"), given.get("validate_rays", False)
    check_options(*flags, given.get("filter"), given.get("data"))
    counters = flag("counters", given.get("counters", False))
    if isinstance(query.__self__, Parts):
        refuse(given.get("filter"), counters)
    check_method(given.get("method", "parity"))
    for name in {"k", "max_hits"} & set(given):
        given[name] = whole_number(name, given[name])
    for name in {"max_distance", "radius"} & set(given):
        if np.ndim(given[name]) == 0 and not is_lazy(given[name]):
            lengths(name, given[name], finite=name == "radius")
    return given | {"threads": thread_limit(given.get("threads", 1))}


def kinds_of(target: Searched, verb: Verb, options: Options) -> Kinds:
    """Return the columns of the result for a target, with their types."""
    ids = np.int64 if isinstance(target, Parts) else np.int32
    return verb.columns(isinstance(target, Scene), bool(options.get("counters")), ids)


def chunk_results(
    target: Delayed, verb: Verb, arrays: Lazy, options: Options, kinds: Kinds | None
) -> Array:
    """Return an array of results, one for each chunk: tuples of columns of `kinds`, or lists."""
    cores = {name: len(verb.arrays.get(name, ())) for name in arrays}
    inputs = [
        (array, array.ndim - cores[name], *(f"{name} {k}" for k in range(cores[name])))
        for name, array in arrays.items()
    ]
    # The data of a filter may be an array for all faces: one key, as the tree is.
    data = {"data": delayed_value("data", options["data"])} if "data" in options else {}
    rest = {name: given for name, given in options.items() if name not in data}
    task = _ChunkQuery(verb.name, list(arrays), kinds, rest)
    return blockwise(task, inputs, target=target, **data)


def blockwise(task: Callable[..., Any], inputs: list[tuple[Any, ...]], **options: Any) -> Array:
    """Return an array of objects, one for each chunk: the results of a task.

    An input is an array, how many of its axes are those of the result, and names of the others.
    """
    import dask.array as da

    rank = max(rank for _, rank, *_ in inputs)
    named = [item for array, k, *core in inputs for item in (array, (*_leading(k), *core))]
    # Unlike outputs of `apply_gufunc`, these are fused with later operations.
    meta = np.empty((0,) * rank, object)
    return da.blockwise(task, _leading(rank), *named, dtype=object, meta=meta, **options)


def separated(results: Array, verb: Verb, kinds: Kinds, options: Options) -> Lazy:
    """Return the columns of results of chunks, as Dask arrays by name."""
    # `getitem` takes a column out, and adds the axes of one query: k answers, three coordinates.
    import dask.array as da

    leading, sizes = _leading(results.ndim), {"k": options.get("k", 0), "i": 3}
    columns = {}
    for number, (name, kind) in enumerate(kinds.items()):
        core = ["k"] * bool(sizes["k"]) + ["i"] * (name in VECTORS)
        columns[name] = da.blockwise(
            getitem, (*leading, *core), results, leading, number, None, dtype=kind,
            new_axes={axis: sizes[axis] for axis in core},
            meta=np.empty((0,) * (results.ndim + len(core)), kind), token=f"{verb.name}-{name}",
        )  # fmt: skip
    return columns


def _leading(rank: int) -> tuple[str, ...]:
    """Return names of leading axes, numbered from the last, so that equal names broadcast."""
    return tuple(f"axis {k}" for k in range(rank, 0, -1))


class _ChunkQuery:
    """Function of a task: the query of a chunk; it returns a tuple of columns, or lists.

    `names` are those of the arguments that are arrays, or "rays" for `RayBlocks`; `kinds` are the
    types of the columns, None for lists.
    """

    def __init__(self, verb: str, names: list[str], kinds: Kinds | None, options: Options) -> None:
        self._verb, self._names, self._kinds, self._options = verb, names, kinds, options
        self.__name__ = verb

    def __call__(self, *arrays: Any, target: Handle, **data: Any) -> Any:
        given = dict(zip(self._names, map(_alone, arrays), strict=True))
        options = self._options | data
        with task_threads(options["threads"]):
            if "rays" in given:
                return self._of_blocks(given["rays"], target.open(), options)
            answer = getattr(target.open(), self._verb)(**given, **options)
        return answer if self._kinds is None else self._columns(answer)

    def _columns(self, answer: object) -> tuple[Column, ...]:
        """Return the columns of a result; those of a single query become arrays, too."""
        assert self._kinds is not None
        if len(self._kinds) == 1:
            return (np.asarray(answer),)
        return tuple(np.asarray(getattr(answer, k), kind) for k, kind in self._kinds.items())

    def _of_blocks(self, rays: RayBlocks, target: Searched, options: Options) -> tuple[Column, ...]:
        """Return the columns of the results of all blocks of a chunk."""
        columns: tuple[Column, ...] = ()
        for within, _, result in rays.cast(target, self._verb, options):
            answer = self._columns(result)
            if answer[0].shape == rays.shape:
                return answer
            columns = columns or tuple(np.empty(rays.shape, column.dtype) for column in answer)
            for column, some in zip(columns, answer, strict=True):
                column[within] = some
        return columns

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return "bvh", self._verb, self._names, self._kinds, self._options


def _alone(block: Any) -> Any:
    """Return the only block of nested lists, which Dask makes for axes that the result lacks."""
    while isinstance(block, list):
        (block,) = block
    return block


def delayed_value(name: str, value: object) -> Delayed:
    """Return a value as one key of a graph, which all tasks that use it share."""
    from dask.base import tokenize
    from dask.delayed import delayed

    return delayed(value, name=f"{name}-{tokenize(value)}", traverse=False)


def delayed_target(target: Searched) -> Delayed:
    return delayed_value(type(target).__name__.lower(), handle_of(target))


def as_dask(name: str, value: object, shape: Shape) -> Array:
    """Return an argument as a Dask array, not split along the axes of one query, of `shape`."""
    import dask.array as da

    array = value if isinstance(value, da.Array) else da.from_array(np.asarray(value), chunks=-1)
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(f"{name} has unknown chunks: call its compute_chunk_sizes() first")
    axes = len(shape)
    if axes:
        if array.ndim < axes or array.shape[-1] != shape[-1]:
            expected = ", ".join("k" if size < 0 else str(size) for size in shape)
            raise ValueError(f"{name} must have shape (..., {expected}), got {array.shape}")
        array = array.rechunk(dict.fromkeys(range(array.ndim - axes, array.ndim), -1))
    return array
