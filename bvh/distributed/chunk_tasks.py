"""Tasks of queries, one for each chunk of Dask arrays, and the fields of their results.

A tree is one key of the graph (see `tree_handles`), and the fields of a result share their tasks:
``dask.compute(hits.t, hits.prim_id)`` casts once.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.out_of_core.parts import Parts
from bvh.distributed.ray_blocks import RayBlocks
from bvh.distributed.tree_handles import handle_of
from bvh.queries.hierarchy import BVH
from bvh.queries.query_arguments import check_method, check_options
from bvh.queries.results import (
    ClosestPoints,
    CountedHits,
    CountedSceneHits,
    Hits,
    SceneClosestPoints,
    SceneHits,
)
from bvh.runtime.arguments import cull_code, flag, lengths, thread_limit, whole_number
from bvh.runtime.cpus import task_threads
from bvh.runtime.foreign_arrays import is_lazy
from bvh.scene.scene import Scene

FLOAT, ID, BOOL, COUNT = np.float64, np.int32, np.bool_, np.int64

# Fields of results and their dtypes; `position` has one more axis.
HIT_FIELDS = {"t": FLOAT, "prim_id": ID, "u": FLOAT, "v": FLOAT, "front": BOOL}
POINT_FIELDS = {"distance": FLOAT, "position": FLOAT, "prim_id": ID, "u": FLOAT, "v": FLOAT}
SCENE_FIELDS = {"instance_id": ID, "leaf": ID}
COST_FIELDS = {"nodes": ID, "tests": ID}
SINGLE_FIELDS = {
    "any_hit": BOOL, "visible": BOOL, "count_hits": COUNT, "distance": FLOAT,
    "signed_distance": FLOAT, "contains": BOOL, "winding_number": FLOAT, "_crossings": COUNT,
    "_touched": BOOL,
}  # fmt: skip

NO_PROGRESS = (
    "progress must be None for Dask arrays: use dask.diagnostics.ProgressBar, or "
    "distributed.progress"
)

# Arguments that are arrays, with the number of axes of one query.
AXES = {
    "rays": 0, "origins": 1, "directions": 1, "t_min": 0, "t_max": 0, "mask": 0,
    "points": 1, "max_distance": 0, "lower": 1, "upper": 1, "center": 1, "radius": 0, "planes": 2,
    "p": 1, "q": 1,
}  # fmt: skip


def checked_options(target: Any, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that are given; raise for those that no query would take.

    A task is one thread unless `threads` says otherwise: the scheduler runs as many tasks as there
    are CPUs.
    """
    if not isinstance(target, BVH | Scene | Parts):
        raise TypeError(f"target must be a BVH, a Scene or Parts, got {type(target).__name__}")
    given = {name: value for name, value in arguments.items() if value is not None}
    if given.pop("progress", False) is not False:
        raise ValueError(NO_PROGRESS)
    known = {"rays", *signature(getattr(type(target), verb)).parameters}
    for name in given:
        if name not in known:
            raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}")
    cull_code(given.get("cull"))
    flags = given.get("sort"), given.get("validate_rays", False)
    check_options(*flags, given.get("filter"), given.get("data"))
    flag("counters", given.get("counters", False))
    check_method(given.get("method", "parity"))
    for name in {"k", "max_hits"} & set(given):
        given[name] = whole_number(name, given[name])
    for name in {"max_distance", "radius"} & set(given):
        if np.ndim(given[name]) == 0 and not is_lazy(given[name]):
            lengths(name, given[name], finite=name == "radius")
    return given | {"threads": thread_limit(given.get("threads", 1))}


def query_chunks(target: Any, verb: str, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return the result of a query as Dask arrays: one task for each chunk."""
    import dask.array as da

    fields, wrap = _fields(target, verb, options)
    rank = max(array.ndim - AXES[name] for name, array in arrays.items())
    inputs: list[Any] = []
    for name, array in arrays.items():
        core = [f"{name} {k}" for k in range(AXES[name])]
        inputs += [array, (*_leading(array.ndim - len(core)), *core)]
    # Unlike the fields of `apply_gufunc`, these are fused with what is computed of them.
    leading, sizes = _leading(rank), {"k": options.get("k", 0), "i": 3}
    # The data of a filter may be an array for all faces: one key, as the tree is.
    data = {"data": held("data", options["data"])} if "data" in options else {}
    rest = {name: given for name, given in options.items() if name not in data}
    task, single = _Task(verb, list(arrays), fields, rest), len(fields) == 1
    kind = next(iter(fields.values())) if single else np.float64
    none = np.empty((0,) * rank, kind)
    found = da.blockwise(
        task, leading, *inputs, target=target_key(target), dtype=kind, meta=none, **data
    )
    if single:
        return wrap(found)
    columns = []
    for number, (name, kind) in enumerate(fields.items()):
        core = ["k"] * bool(sizes["k"]) + ["i"] * (name == "position")
        none = np.empty((0,) * (rank + len(core)), kind)
        new = {axis: sizes[axis] for axis in core}
        columns.append(
            da.blockwise(
                _field, (*leading, *core), found, leading, number, None, new_axes=new, dtype=kind,
                meta=none, token=f"{verb}-{name}",
            )
        )  # fmt: skip
    return wrap(*columns)


def _leading(rank: int) -> tuple[str, ...]:
    """Return the names of leading axes, counted from the last, so that they broadcast."""
    return tuple(f"axis {k}" for k in range(rank, 0, -1))


def _field(found: tuple[NDArray[Any], ...], number: int) -> NDArray[Any]:
    """Return a field of the result of a chunk."""
    return found[number]


class _Task:
    """Function of a task: one query of one chunk, as a tuple of its fields."""

    def __init__(
        self, verb: str, names: list[str], fields: dict[str, Any], options: dict[str, Any]
    ) -> None:
        self._verb, self._names, self._fields, self._options = verb, names, fields, options
        self.__name__ = verb

    def __call__(self, *arrays: NDArray[Any], target: Any, **data: Any) -> Any:
        given = dict(zip(self._names, map(_alone, arrays), strict=True))
        with task_threads(self._options["threads"]):
            if "rays" in given:
                found = self._of_blocks(given.pop("rays"), target.open(), given, data)
            else:
                found = self._columns(
                    getattr(target.open(), self._verb)(**given, **self._options, **data)
                )
        return found if len(self._fields) > 1 else found[0]

    def _columns(self, found: Any) -> tuple[NDArray[Any], ...]:
        """Return the fields of a result; those of a single query become arrays, too."""
        if len(self._fields) == 1:
            return (np.asarray(found),)
        return tuple(np.asarray(getattr(found, k), kind) for k, kind in self._fields.items())

    def _of_blocks(
        self,
        rays: RayBlocks,
        target: Any,
        given: dict[str, NDArray[Any]],
        data: dict[str, Any],
    ) -> tuple[NDArray[Any], ...]:
        """Return the fields of the results of all blocks of a chunk."""
        whole: tuple[NDArray[Any], ...] | None = None
        rank = len(rays.shape)
        for within, _, result in rays.cast(target, self._verb, self._options | data, given):
            found = self._columns(result)
            if whole is None:
                shape = found[0].shape
                ends = zip(rays.shape, shape[len(shape) - rank :], strict=True)
                full = (*shape[: len(shape) - rank], *(b if a == 1 else a for a, b in ends))
                if full == shape:
                    return found
                whole = tuple(np.empty(full, column.dtype) for column in found)
            for column, some in zip(whole, found, strict=True):
                index: Any = (..., *within)
                column[index] = some
        assert whole is not None
        return whole

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return "bvh", self._verb, self._names, self._fields, self._options


def _alone(block: Any) -> Any:
    """Return the only block along the axes of the queries themselves, which are not split."""
    while isinstance(block, list):
        (block,) = block
    return block


def held(name: str, value: Any) -> Any:
    """Return a value as one key of a graph."""
    from dask.base import tokenize
    from dask.delayed import delayed

    return delayed(value, name=f"{name}-{tokenize(value)}", traverse=False)


def target_key(target: Any) -> Any:
    """Return a tree, a scene or parts as one key of a graph."""
    return held(type(target).__name__.lower(), handle_of(target))


def _fields(
    target: Any, verb: str, options: dict[str, Any]
) -> tuple[dict[str, Any], Callable[..., Any]]:
    """Return the fields of a query's result with their dtypes, and its class."""
    if verb in SINGLE_FIELDS:
        return {verb: SINGLE_FIELDS[verb]}, lambda field: field
    in_scene, counted = isinstance(target, Scene), bool(options.get("counters"))
    fields: dict[str, Any] = dict(HIT_FIELDS if verb == "closest_hit" else POINT_FIELDS)
    fields |= (SCENE_FIELDS if in_scene else {}) | (COST_FIELDS if counted else {})
    if isinstance(target, Parts):
        fields["prim_id"] = np.int64
    kind: type[Any]
    if verb == "closest_hit" and counted:
        kind = CountedSceneHits if in_scene else CountedHits
    elif verb == "closest_hit":
        kind = SceneHits if in_scene else Hits
    else:
        kind = SceneClosestPoints if in_scene else ClosestPoints
    return fields, lambda *columns: kind(**dict(zip(fields, columns, strict=True)))


def as_dask(name: str, value: Any) -> Any:
    """Return an argument as a Dask array whose last axis, if it has one, is in one chunk."""
    import dask.array as da

    array = value if isinstance(value, da.Array) else da.from_array(np.asarray(value), chunks=-1)
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(f"{name} has unknown chunks: call its compute_chunk_sizes() first")
    axes = AXES[name]
    if axes:
        width = {"planes": "k, 4"}.get(name, "3")
        if array.ndim < axes or array.shape[-1] != int(width[-1]):
            raise ValueError(f"{name} must have shape (..., {width}), got {array.shape}")
        array = array.rechunk(dict.fromkeys(range(array.ndim - axes, array.ndim), -1))
    return array


def _chunked_as(array: Any, rays: Any) -> Any:
    """Return an array of numbers with the chunks of rays, along the axes that are as long."""
    last = range(-1, -1 - min(array.ndim, rays.ndim), -1)
    return array.rechunk(
        {k + array.ndim: rays.chunks[k] for k in last if array.shape[k] == rays.shape[k]}
    )


def unified(names: list[str], arrays: list[Any]) -> list[Any]:
    """Return arrays with the same chunks along their leading axes, which must broadcast."""
    import dask.array as da

    shapes = [a.shape[: a.ndim - AXES[n]] for n, a in zip(names, arrays, strict=True)]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(f"{n} {s}" for n, s in zip(names, shapes, strict=True) if s)
        raise ValueError(f"leading shapes do not broadcast: {listed}") from None
    if names[:1] == ["rays"]:
        # Their blocks are no arrays, and cannot be cut: all else takes their chunks.
        arrays = [arrays[0], *(_chunked_as(a, arrays[0]) for a in arrays[1:])]
    # Leading axes are numbered from the last; an axis of the queries themselves has a name.
    pairs: list[Any] = []
    for name, array, shape in zip(names, arrays, shapes, strict=True):
        tail = [f"{name} {k}" for k in range(array.ndim - len(shape))]
        pairs += [array, (*range(len(shape), 0, -1), *tail)]
    found: list[Any] = da.core.unify_chunks(*pairs)[1]
    return found
