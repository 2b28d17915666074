"""Tasks of queries, one for each chunk of Dask arrays.

A tree is one key of the graph (see `tree_handles`), and the columns of a result share their tasks:
``dask.compute(hits.t, hits.prim_id)`` casts once. Rays of a source are made in the tasks that cast
them, in blocks that stay in the caches of a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from operator import getitem
from types import EllipsisType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bvh.distributed.merging import Column, Columns, Kinds
from bvh.distributed.out_of_core.part_targets import declared, refuse
from bvh.distributed.out_of_core.parts import Parts
from bvh.distributed.tree_handles import Handle, Searched, handle_of
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
# The columns of the result for a chunk, or its only column.
Found = Column | tuple[Column, ...]
Shape = tuple[int, ...]
# Function of a `RaySource`: it returns (origins, directions).
Maker = Callable[..., tuple[ArrayLike, ArrayLike]]
Slices = tuple[slice, ...]

# Rays of a block: 6 MB of directions, and as much of results. Chunks of millions that are made and
# cast at a time take half as long again: each array is new memory, cleared first, and never cached.
BLOCK = 1 << 18

all_of = slice(None)


class RayBlocks:
    """Rays of a chunk, made when they are cast; `place` has its slices of the source."""

    def __init__(self, function: Maker, args: tuple[object, ...], place: Slices) -> None:
        self._function, self._args, self.place = function, args, place
        self.shape = tuple(axis.stop - axis.start for axis in place)

    def cast(
        self, target: Searched, verb: str, options: dict[str, object], bounds: dict[str, Column]
    ) -> Iterator[tuple[Slices, Slices, object]]:
        """Yield (slices of the chunk, slices of the source, result) of each block of rays."""
        # `bounds` are arguments that are arrays, such as `t_min`, and broadcast with the chunk.
        # Blocks have a full slice along axes of length 1, as results may be longer there.
        # A chunk is one block if each block would visit all parts, or for a filter, which gets the
        # row of a ray in its chunk.
        undivided = isinstance(target, Parts) or options.get("filter") is not None
        most = prod(self.shape) if undivided else BLOCK
        sizes = block_shape(self.shape, most)
        begins = [range(0, max(n, 1), size) for n, size in zip(self.shape, sizes, strict=True)]
        for begin in product(*begins):
            block = [slice(b, min(b + k, n))
                     for b, k, n in zip(begin, sizes, self.shape, strict=True)]  # fmt: skip
            within = [all_of if n == 1 else s for s, n in zip(block, self.shape, strict=True)]
            place = [slice(axis.start + s.start, axis.start + s.stop)
                     for s, axis in zip(block, self.place, strict=True)]  # fmt: skip
            with task_threads(1):
                origins, directions = map(np.asarray, self._function(*place, *self._args))
            shape = tuple(axis.stop - axis.start for axis in place)
            rays = _shared(origins, shape), np.broadcast_to(directions, (*shape, 3))
            some = {name: _part_of(array, within) for name, array in bounds.items()}
            found = getattr(target, verb)(*rays, **some, **options)
            yield tuple(within), tuple(place), found


def block_shape(shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return the shape of blocks of at most `most` rays, about as long along all axes."""
    sizes = [max(size, 1) for size in shape]
    while prod(sizes) > max(most, 1):
        longest = sizes.index(max(sizes))
        sizes[longest] = -(-sizes[longest] // 2)
    return tuple(sizes)


def _part_of(array: Column, within: list[slice]) -> Column:
    """Return the part of an array that broadcasts with the block `within` a chunk."""
    # Axes are matched from the last; those before the axes of the rays are not divided.
    axes = zip(array.shape[::-1], reversed(within), strict=False)
    return array[(..., *[all_of if size == 1 else some for size, some in axes][::-1])]


def _shared(origins: Column, shape: tuple[int, ...]) -> Column:
    """Return origins of rays of a shape; one point if all share it, which saves a copy."""
    # Strides of 0 tell that one point was broadcast.
    if origins.size and not any(origins.strides[:-1]):
        one: Column = origins[(0,) * (origins.ndim - 1)]
        return one
    return np.broadcast_to(origins, (*shape, 3))


def searched(target: object) -> Searched:
    """Return the target, if it is a tree, a scene or parts; else raise a TypeError."""
    if not isinstance(target, Searched):
        raise TypeError(f"target must be a BVH, a Scene or Parts, got {type(target).__name__}")
    return target


def shapes_of(verb: Verb) -> dict[str, Shape]:
    """Return the arguments that may be Dask arrays, each with its shape for one query.

    `rays` replaces origins and directions by an array whose blocks are `RayBlocks`.
    """
    return {"rays": (), **verb.arrays}


def checked_options(query: MethodType, arguments: Arguments) -> Options:
    """Return the arguments that are given; raise for those that are not valid."""
    # A task is one thread unless `threads` says otherwise: the scheduler runs as many tasks as
    # there are CPUs.
    verb = declared(query)
    given: Options = {name: each for name, each in arguments.items() if each is not None}
    if given.pop("progress", False) is not False:
        use = "dask.diagnostics.ProgressBar, or distributed.progress"
        raise ValueError(f"progress must be None for Dask arrays: use {use}")
    for name in given.keys() - shapes_of(verb).keys() - set(verb.options):
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


def query_chunks(target: Searched, verb: Verb, arrays: Lazy, options: Options) -> Lazy:
    """Return the columns of a result as Dask arrays: one task for each chunk."""
    import dask.array as da

    ids = np.int64 if isinstance(target, Parts) else np.int32
    kinds = verb.columns(isinstance(target, Scene), bool(options.get("counters")), ids)
    shapes, inputs, rank = shapes_of(verb), list[Any](), 0
    # `da.blockwise` takes each array with names of its axes: leading ones are shared, those of one
    # query are not.
    for name, array in arrays.items():
        core = [f"{name} {k}" for k in range(len(shapes[name]))]
        inputs += [array, (*_leading(array.ndim - len(core)), *core)]
        rank = max(rank, array.ndim - len(core))
    # Unlike outputs of `apply_gufunc`, these are fused with later operations.
    leading, sizes = _leading(rank), {"k": options.get("k", 0), "i": 3}
    # The data of a filter may be an array for all faces: one key, as the tree is.
    data = {"data": held("data", options["data"])} if "data" in options else {}
    rest = {name: given for name, given in options.items() if name not in data}
    task, kind = _ChunkQuery(verb.name, list(arrays), kinds, rest), next(iter(kinds.values()))
    found = da.blockwise(
        task, leading, *inputs, target=target_key(target), dtype=kind,
        meta=np.empty((0,) * rank, kind), **data,
    )  # fmt: skip
    if len(kinds) == 1:
        return {verb.name: found}
    # A task returns a tuple of columns; for each, `getitem` with its number takes it out, and adds
    # the axes of one query: k answers, three coordinates.
    columns = {}
    for number, (name, kind) in enumerate(kinds.items()):
        core = ["k"] * bool(sizes["k"]) + ["i"] * (name == "position")
        columns[name] = da.blockwise(
            getitem, (*leading, *core), found, leading, number, None, dtype=kind,
            new_axes={axis: sizes[axis] for axis in core},
            meta=np.empty((0,) * (rank + len(core)), kind), token=f"{verb.name}-{name}",
        )  # fmt: skip
    return columns


def _leading(rank: int) -> tuple[str, ...]:
    """Return names of leading axes, numbered from the last, so that equal names broadcast."""
    return tuple(f"axis {k}" for k in range(rank, 0, -1))


class _ChunkQuery:
    """Function of a task: the query of a chunk; it returns a tuple of columns, or the only one.

    `names` are those of the arguments that are arrays, `kinds` the types of the columns.
    """

    def __init__(self, verb: str, names: list[str], kinds: Kinds, options: Options) -> None:
        self._verb, self._names, self._kinds, self._options = verb, names, kinds, options
        self.__name__ = verb

    def __call__(self, *arrays: Any, target: Handle, **data: Any) -> Found:
        given = dict(zip(self._names, map(_alone, arrays), strict=True))
        with task_threads(self._options["threads"]):
            if "rays" in given:
                found = self._of_blocks(given.pop("rays"), target.open(), given, data)
            else:
                query = getattr(target.open(), self._verb)
                found = self._columns(query(**given, **self._options, **data))
        return found if len(self._kinds) > 1 else found[0]

    def _columns(self, found: object) -> tuple[Column, ...]:
        """Return the columns of a result; those of a single query become arrays, too."""
        if len(self._kinds) == 1:
            return (np.asarray(found),)
        return tuple(np.asarray(getattr(found, k), kind) for k, kind in self._kinds.items())

    def _of_blocks(
        self, rays: RayBlocks, target: Searched, given: Columns, data: Options
    ) -> tuple[Column, ...]:
        """Return the columns of the results of all blocks of a chunk."""
        columns: tuple[Column, ...] | None = None
        rank = len(rays.shape)
        for within, _, result in rays.cast(target, self._verb, self._options | data, given):
            found = self._columns(result)
            if columns is None:
                # The shape for the chunk: other arguments may add axes before those of the rays,
                # or lengthen axes of length 1. The first block may be all.
                shape = found[0].shape
                ends = zip(rays.shape, shape[len(shape) - rank :], strict=True)
                full = (*shape[: len(shape) - rank], *(b if a == 1 else a for a, b in ends))
                if full == shape:
                    return found
                columns = tuple(np.empty(full, column.dtype) for column in found)
            for column, some in zip(columns, found, strict=True):
                index: tuple[slice | EllipsisType, ...] = (..., *within)
                column[index] = some
        assert columns is not None
        return columns

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return "bvh", self._verb, self._names, self._kinds, self._options


def _alone(block: Any) -> Any:
    """Return the only block of nested lists, which Dask makes for axes that the result lacks."""
    while isinstance(block, list):
        (block,) = block
    return block


def held(name: str, value: object) -> Delayed:
    """Return a value as one key of a graph, which all tasks that use it share."""
    from dask.base import tokenize
    from dask.delayed import delayed

    return delayed(value, name=f"{name}-{tokenize(value)}", traverse=False)


def target_key(target: Searched) -> Delayed:
    """Return a tree, a scene or parts as one key of a graph."""
    return held(type(target).__name__.lower(), handle_of(target))


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


def unified(arrays: Lazy, shapes: dict[str, Shape]) -> Lazy:
    """Return arrays with the same chunks along their leading axes, which must broadcast."""
    import dask.array as da

    leading = {name: a.shape[: a.ndim - len(shapes[name])] for name, a in arrays.items()}
    try:
        np.broadcast_shapes(*leading.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in leading.items() if shape)
        raise ValueError(f"leading shapes do not broadcast: {listed}") from None
    if "rays" in arrays:
        # Blocks of rays are no arrays and cannot be cut, so other arrays get the chunks of rays.
        rays = arrays["rays"]
        arrays = {n: a if n == "rays" else _chunked_as(a, rays) for n, a in arrays.items()}
    # Leading axes are numbered from the last; an axis of the queries themselves has a name.
    pairs: list[Any] = []
    for name, array in arrays.items():
        tail = [f"{name} {k}" for k in range(len(shapes[name]))]
        pairs += [array, (*range(len(leading[name]), 0, -1), *tail)]
    return dict(zip(arrays, da.core.unify_chunks(*pairs)[1], strict=True))


def _chunked_as(array: Array, rays: Array) -> Array:
    """Return an array of numbers with the chunks of rays, along the axes that are as long."""
    last = range(-1, -1 - min(array.ndim, rays.ndim), -1)
    alike = {k + array.ndim: rays.chunks[k] for k in last if array.shape[k] == rays.shape[k]}
    return array.rechunk(alike)
