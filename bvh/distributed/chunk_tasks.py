"""Tasks of queries, one for each chunk of Dask arrays, and the fields of their results.

A tree is one key of the graph (see `tree_handles`), and the fields of a result share their tasks:
``dask.compute(hits.t, hits.prim_id)`` casts once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.out_of_core.parts import Parts
from bvh.distributed.tree_handles import handle_of
from bvh.queries.results import (
    ClosestPoints,
    CountedHits,
    CountedSceneHits,
    Hits,
    SceneClosestPoints,
    SceneHits,
)
from bvh.runtime.cpus import task_threads
from bvh.scene.scene import Scene

FLOAT, ID, BOOL, COUNT = np.float64, np.int32, np.bool_, np.int64

# Fields of results and their dtypes; `position` has one more axis.
HIT_FIELDS = {"t": FLOAT, "prim_id": ID, "u": FLOAT, "v": FLOAT, "front": BOOL}
POINT_FIELDS = {"distance": FLOAT, "position": FLOAT, "prim_id": ID, "u": FLOAT, "v": FLOAT}
SCENE_FIELDS = {"instance_id": ID, "leaf": ID}
COST_FIELDS = {"nodes": ID, "tests": ID}
SINGLE_FIELDS = {
    "any_hit": BOOL, "count_hits": COUNT, "distance": FLOAT, "signed_distance": FLOAT,
    "contains": BOOL, "winding_number": FLOAT, "_crossings": COUNT, "_touched": BOOL,
}  # fmt: skip

# Arguments that are arrays, with the number of axes of one query.
AXES = {
    "rays": 0, "origins": 1, "directions": 1, "t_min": 0, "t_max": 0, "mask": 0,
    "points": 1, "max_distance": 0, "lower": 1, "upper": 1, "center": 1, "radius": 0, "planes": 2,
}  # fmt: skip


def query_chunks(target: Any, verb: str, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return the result of a query as Dask arrays: one task for each chunk."""
    import dask.array as da

    fields, wrap = _fields(target, verb, options)
    # The data of a filter may be an array for all faces: sent once, as the tree is.
    options = dict(options)
    data = options.pop("data", None)
    rank = max(array.ndim - AXES[name] for name, array in arrays.items())
    inputs: list[Any] = []
    for name, array in arrays.items():
        core = [f"{name} {k}" for k in range(AXES[name])]
        inputs += [array, (*_leading(array.ndim - len(core)), *core)]
    # Unlike the fields of `apply_gufunc`, these are fused with what is computed of them.
    leading, sizes = _leading(rank), {"k": options.get("k", 0), "i": 3}
    task, single = _Task(verb, list(arrays), fields, options), len(fields) == 1
    kind = next(iter(fields.values())) if single else np.float64
    none = np.empty((0,) * rank, kind)
    keys = {"target": target_key(target)} | ({} if data is None else {"data": data_key(data)})
    found = da.blockwise(task, leading, *inputs, **keys, dtype=kind, meta=none)
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

    def __call__(self, *arrays: NDArray[Any], target: Any, data: Any = None) -> Any:
        given = dict(zip(self._names, map(_alone, arrays), strict=True))
        if data is not None:
            given["data"] = data
        if "rays" in given:
            given["origins"], given["directions"] = given.pop("rays")
        with task_threads(self._options.get("threads") or 1):
            found = getattr(target.open(), self._verb)(**given, **self._options)
        if len(self._fields) == 1:
            return np.asarray(found)
        # Numbers of a single query become arrays of the type that was declared.
        return tuple(np.asarray(getattr(found, k), kind) for k, kind in self._fields.items())

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return "bvh", self._verb, self._names, self._fields, self._options


def _alone(block: Any) -> Any:
    """Return the only block along the axes of the queries themselves, which are not split."""
    while isinstance(block, list):
        (block,) = block
    return block


def target_key(target: Any) -> Any:
    """Return a tree as one key of a graph."""
    from dask.base import tokenize
    from dask.delayed import delayed

    handle = handle_of(target)
    name = f"{type(target).__name__.lower()}-{tokenize(handle)}"
    return delayed(handle, name=name, traverse=False)


def data_key(data: Any) -> Any:
    """Return the data of a filter as one key of a graph."""
    from dask.base import tokenize
    from dask.delayed import delayed

    return delayed(data, name=f"data-{tokenize(data)}", traverse=False)


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
    return array.rechunk({k + array.ndim: rays.chunks[k] for k in last if array.shape[k] == rays.shape[k]})


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
