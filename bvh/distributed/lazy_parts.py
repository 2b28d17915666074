"""Lazy queries of parts: a task for each chunk and group of parts, and a tree of reductions.

A group is what fits into the memory that `Parts` is given, so that a worker that has mapped it can
answer for many chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.chunk_tasks import HIT_FIELDS, POINT_FIELDS, query_chunks
from bvh.distributed.out_of_core.part_results import nearest_first
from bvh.distributed.out_of_core.parts import Parts
from bvh.queries.results import ClosestPoints, Hits

# Results of groups that one task reduces.
TOGETHER = 8

RESULTS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "closest_hit": (Hits, HIT_FIELDS | {"prim_id": np.int64}),
    "closest_point": (ClosestPoints, POINT_FIELDS | {"prim_id": np.int64}),
}
REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "any_hit": np.logical_or, "_touched": np.logical_or, "distance": np.minimum,
    "count_hits": np.add, "_crossings": np.add, "winding_number": np.add,
}  # fmt: skip


def query_parts(parts: Parts, verb: str, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return the result of a query of parts as Dask arrays."""
    if verb in ("contains", "signed_distance"):
        return _by_sides(parts, verb, arrays, options)
    results = [query_chunks(group, verb, arrays, options) for group in parts.groups()]
    while len(results) > 1:
        results = [
            _reduced(verb, results[k : k + TOGETHER], options.get("k"))
            for k in range(0, len(results), TOGETHER)
        ]
    return results[0]


def _by_sides(parts: Parts, verb: str, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return what crossings of all parts together, or their winding numbers, decide."""
    import dask.array as da

    method = options["method"]
    options = {name: given for name, given in options.items() if name != "method"}
    if method == "winding":
        inside = query_parts(parts, "winding_number", arrays, options) > 0.5
    else:
        inside = query_parts(parts, "_crossings", arrays, options) % 2 == 1
    if verb == "contains":
        if method == "winding":
            return inside
        return inside | query_parts(parts, "_touched", arrays, options)
    found = query_parts(parts, "distance", arrays, options)
    return da.where(inside & (found > 0.0) & (found < np.inf), -found, found)


def _reduced(verb: str, results: list[Any], count: int | None) -> Any:
    """Return one result for several groups, lazily; of `count` points for each query."""
    import dask.array as da

    if len(results) == 1:
        return results[0]
    if verb in REDUCTIONS:
        return reduce(REDUCTIONS[verb], results)
    kind, fields = RESULTS[verb]
    if count is None:
        cores = ["(i)" if name == "position" else "()" for name in fields]
    else:
        cores = ["(k,i)" if name == "position" else "(k)" for name in fields]
    columns = [getattr(result, name) for result in results for name in fields]
    found = da.apply_gufunc(
        _least if count is None else _nearest,
        f"{','.join(cores * len(results))}->{','.join(cores)}",
        *columns,
        output_dtypes=list(fields.values()),
        fields=list(fields),
    )
    return kind(*found)


def _least(*columns: NDArray[Any], fields: list[str]) -> tuple[NDArray[Any], ...]:
    """Return of several results the least by (t or distance, id), query by query."""
    count, prim = len(fields), fields.index("prim_id")
    best = [column.copy() for column in columns[:count]]
    for begin in range(count, len(columns), count):
        other = columns[begin : begin + count]
        closer = (other[0] < best[0]) | ((other[0] == best[0]) & (other[prim] < best[prim]))
        closer = (other[prim] >= 0) & (closer | (best[prim] < 0))
        for mine, theirs in zip(best, other, strict=True):
            mine[closer] = theirs[closer]
    return tuple(best)


def _nearest(*columns: NDArray[Any], fields: list[str]) -> tuple[NDArray[Any], ...]:
    """Return of several results the first k by (distance, id), query by query."""
    count, k = len(fields), columns[0].shape[-1]
    joined = [
        np.concatenate(columns[i::count], axis=-2 if name == "position" else -1)
        for i, name in enumerate(fields)
    ]
    both = dict(zip(fields, joined, strict=True))
    order = nearest_first(both["distance"], both["prim_id"])[..., :k]
    return tuple(
        np.take_along_axis(column, order[..., None], -2)
        if name == "position"
        else np.take_along_axis(column, order, -1)
        for name, column in both.items()
    )
