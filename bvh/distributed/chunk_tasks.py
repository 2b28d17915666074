"""Tasks of queries, one for each chunk of Dask arrays.

A tree is one key of the graph (see `handles`), and the columns of a result share their tasks:
``dask.compute(hits.t, hits.prim_id)`` casts once. Rays of a source are made in the tasks that cast
them, in blocks that stay in the caches of a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from operator import getitem
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bvh.distributed.handles import Handle, Searchable, handle_of
from bvh.distributed.merging import VECTORS, Column, Kinds
from bvh.distributed.out_of_core.part_targets import NO_COUNTERS, NO_FILTER, declared
from bvh.distributed.out_of_core.parts import Parts
from bvh.queries.query_arguments import check_method, check_options
from bvh.queries.verbs import Verb
from bvh.runtime.arguments import cull_code, flag, lengths, numbers, thread_limit, whole_number
from bvh.runtime.cpus import task_threads
from bvh.runtime.foreign_arrays import is_lazy
from bvh.scene.scene import Scene

if TYPE_CHECKING:
    from dask.array import Array
    from dask.delayed import Delayed

# Arguments of a query by name, those that are not arrays, and Dask arrays by name.
Arguments = dict[str, object]
Options = dict[str, Any]
LazyColumns = dict[str, "Array"]
Shape = tuple[int, ...]
# Function of a `RaySource`: it returns (origins, directions).
RayFunction = Callable[..., tuple[ArrayLike, ArrayLike]]
Slices = tuple[slice, ...]

# Rays of a block: 6 MB of directions, and as much of results. Chunks of millions that are made and
# cast at a time take half as long again: each array is new memory, cleared first, and never cached.
BLOCK = 1 << 18


class RayBlocks:
    """Rays of a chunk, made block by block when they are cast; `shape` is the chunk's."""

    def __init__(self, function: RayFunction, args: tuple[object, ...], place: Slices) -> None:
        """``function(*slices, *args)`` makes rays; `place` has the chunk's slices of the source."""
        self._function, self._args, self.place = function, args, place
        self.shape = tuple(axis.stop - axis.start for axis in place)

    def cast(
        self, target: Searchable, verb: str, options: Options
    ) -> Iterator[tuple[Slices, Slices, object]]:
        """Yield for each block (its slices in the chunk, and in the source, the query's result)."""
        for within in ray_blocks(self.shape, isinstance(target, Parts) or "filter" in options):
            place = tuple(slice(axis.start + s.start, axis.start + s.stop)
                          for s, axis in zip(within, self.place, strict=True))  # fmt: skip
            shape = *(axis.stop - axis.start for axis in place), 3
            # Queries in the user's function take one thread by default.
            with task_threads(1):
                rays = [np.broadcast_to(a, shape) for a in self._function(*place, *self._args)]
            yield within, place, getattr(target, verb)(*rays, **options)


def ray_blocks(shape: Shape, undivided: bool) -> list[Slices]:
    """Return the slices of the blocks of a chunk, each of at most BLOCK rays.

    The chunk is one block if `undivided`: for parts, as each block would visit all of them, and for
    a filter, as its ray_id counts the rays of the chunk.
    """
    from dask.array.core import normalize_chunks, slices_from_chunks

    whole = undivided or math.prod(shape) <= BLOCK
    # With a type of one byte, the limit in bytes counts rays; -1 makes one block.
    sizes = normalize_chunks(-1 if whole else "auto", shape, limit=BLOCK, dtype=np.int8)
    return list(slices_from_chunks(sizes))


def checked_target(target: object) -> Searchable:
    """Return the target, if it is a tree, a scene or parts; else raise a TypeError."""
    if not isinstance(target, Searchable):
        raise TypeError(f"target must be a BVH, a Scene or Parts, got {type(target).__name__}")
    return target


def checked_options(query: MethodType, arguments: Arguments) -> Options:
    """Check the `arguments` of a lazy `query`, by name; return those that are not None.

    `threads` is added, 1 by default, as the scheduler runs as many tasks as there are CPUs.
    """
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
        if "filter" in given:
            raise ValueError(NO_FILTER.format(given["filter"]))
        if counters:
            raise ValueError(NO_COUNTERS)
    check_method(given.get("method", "parity"))
    for name in {"k", "max_hits"} & set(given):
        given[name] = whole_number(name, given[name])
    for name in {"max_distance", "radius"} & set(given):
        if np.ndim(given[name]) == 0 and not is_lazy(given[name]):
            lengths(name, given[name], finite=name == "radius")
    return given | {"threads": thread_limit(given.get("threads", 1))}


def kinds_of(target: Searchable, verb: Verb, options: Options) -> Kinds:
    """Return {name: type} of a result's columns, in order; ids of parts are int64, others int32."""
    ids = np.int64 if isinstance(target, Parts) else np.int32
    return verb.columns(isinstance(target, Scene), bool(options.get("counters")), ids)


def chunk_results(
    target: Delayed, verb: Verb, arrays: LazyColumns, options: Options, kinds: Kinds | None
) -> Array:
    """Return a Dask array of objects, one for each chunk of the arguments `arrays`.

    An object is the tuple of the columns `kinds` of the chunk's result or, where `kinds` is None,
    the result itself. `target` computes to a `Handle`, and `verb` declares the query.
    """
    # Names of the last axes of each argument, those within a query, which chunks do not split.
    core_axes = {
        name: [f"{name} {k}" for k in range(len(verb.arrays.get(name, ())))] for name in arrays
    }
    inputs = [
        (array, array.ndim - len(core_axes[name]), *core_axes[name])
        for name, array in arrays.items()
    ]
    # The data of a filter may be an array for all faces: one key, as the tree is.
    data = {"data": delayed_value("data", options["data"])} if "data" in options else {}
    rest = {name: given for name, given in options.items() if name not in data}
    task = partial(_query_chunk, verb=verb.name, names=list(arrays), kinds=kinds, options=rest)
    return blockwise(task, inputs, token=verb.name, target=target, **data)


def blockwise(task: Callable[..., Any], inputs: list[tuple[Any, ...]], **options: Any) -> Array:
    """Return a Dask array of objects, one for each chunk: ``task(*blocks of inputs, **options)``.

    An input is (array, number of its leading axes, which broadcast, *names of its other axes).
    `options` are further keyword arguments of the task.
    """
    import dask.array as da

    rank = max(rank for _, rank, *_ in inputs)
    named = [item for array, k, *core in inputs for item in (array, (*_leading(k), *core))]
    # Unlike outputs of `apply_gufunc`, these are fused with later operations.
    meta = np.empty((0,) * rank, object)
    return da.blockwise(task, _leading(rank), *named, dtype=object, meta=meta, **options)


def separated(results: Array, verb: Verb, kinds: Kinds, options: Options) -> LazyColumns:
    """Return the columns of a result as Dask arrays by name.

    `results` is a Dask array whose chunks are tuples of the columns `kinds` of a query, which
    `verb` declares; of `options`, k is the number of answers to it, if it has several.
    """
    import dask.array as da

    # A task is ``getitem(tuple of a chunk, number)``; in `blockwise` the index None marks a
    # constant. New axes are those within a query: "k" answers, "i" three coordinates.
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
    """Return names of `rank` leading axes: ..., "axis 2", "axis 1"."""
    # Numbered from the last axis, so that arrays of different ranks broadcast by equal names.
    return tuple(f"axis {k}" for k in range(rank, 0, -1))


def _query_chunk(
    *arrays: Any, target: Handle, verb: str, names: list[str], kinds: Kinds | None,
    options: Options, **data: Any,
) -> Any:  # fmt: skip
    """Return the columns `kinds` of the result for a chunk, or the result if that is None.

    `arrays` are the chunk's blocks of the arguments `names`, of which "rays" is a `RayBlocks`.
    """
    given, options = dict(zip(names, map(_only_block, arrays), strict=True)), options | data
    with task_threads(options["threads"]):
        if "rays" not in given:
            answer = getattr(target.open(), verb)(**given, **options)
            return answer if kinds is None else _columns(answer, kinds)
        rays, columns = given["rays"], tuple[Column, ...]()
        assert kinds is not None
        for within, _, result in rays.cast(target.open(), verb, options):
            of_block = _columns(result, kinds)
            # If the chunk is one block, its columns need not be copied.
            if of_block[0].shape == rays.shape:
                return of_block
            columns = columns or tuple(np.empty(rays.shape, c.dtype) for c in of_block)
            for column, some in zip(columns, of_block, strict=True):
                column[within] = some
        return columns


def _columns(answer: object, kinds: Kinds) -> tuple[Column, ...]:
    """Return the columns of a result as arrays, also where a single query gives numbers."""
    # A result with one column is not a record.
    if len(kinds) == 1:
        return (np.asarray(answer),)
    return tuple(np.asarray(getattr(answer, name), kind) for name, kind in kinds.items())


def _only_block(block: Any) -> Any:
    """Return a block without the lists of one item around it, one for each axis results lack."""
    while isinstance(block, list):
        (block,) = block
    return block


def delayed_value(name: str, value: object) -> Delayed:
    """Return a value as one key of a graph, for all tasks; `name` and content name the key."""
    from dask.base import tokenize
    from dask.delayed import delayed

    return delayed(value, name=f"{name}-{tokenize(value)}", traverse=False)


def delayed_target(target: Searchable) -> Delayed:
    """Return the handle of a tree, scene or parts, as they are now, as one key of a graph."""
    return delayed_value(type(target).__name__.lower(), handle_of(target))


def as_dask(name: str, value: object, shape: Shape) -> Array:
    """Return the argument `name` as a Dask array (..., *shape) whose last axes are not split.

    `shape` is the shape of the argument for one query; -1 stands for an arbitrary size, and
    is never the last. Only the last size is compared here; tasks check the others.
    """
    import dask.array as da

    array: Any = value
    if not isinstance(value, da.Array):
        array = da.from_array(numbers(name, array), chunks=-1)
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(f"{name} has unknown chunks: call its compute_chunk_sizes() first")
    if not shape:
        return array
    if array.ndim < len(shape) or array.shape[-1] != shape[-1]:
        expected = ", ".join("k" if size < 0 else str(size) for size in shape)
        raise ValueError(f"{name} must have shape (..., {expected}), got {array.shape}")
    return array.rechunk(dict.fromkeys(range(array.ndim - len(shape), array.ndim), -1))
