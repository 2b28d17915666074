"""Queries of Dask arrays: results whose fields are Dask arrays of the same chunks.

Of parts there is a task for each chunk and each group of parts, and a tree of tasks that merge. A
group is what fits into the memory that `Parts` is given, so that a worker that has mapped it can
answer for many chunks. Nothing is computed, compiled or sent here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from bvh.distributed import chunk_tasks
from bvh.distributed.chunk_tasks import Arguments, Found, Lazy, Options, query_chunks
from bvh.distributed.lazy_lists import lazy_lists
from bvh.distributed.merging import Column, merge
from bvh.distributed.out_of_core.part_targets import declared
from bvh.distributed.out_of_core.parts import Parts
from bvh.queries.verbs import Merge, Verb
from bvh.runtime.foreign_arrays import is_lazy
from bvh.scene.scene import Scene

if TYPE_CHECKING:
    from dask.array import Array

# Results of groups that one task merges.
TOGETHER = 8


def answer(query: MethodType, arguments: Arguments) -> Any:
    """Return the result of a query of a tree, a scene or parts, lazily."""
    verb, target = declared(query), chunk_tasks.searched(query.__self__)
    given, shapes = chunk_tasks.checked_options(query, arguments), chunk_tasks.shapes_of(verb)
    # One mask stays a number, as queries of points and regions take it.
    mask: object = given.get("mask")
    is_one = np.ndim(mask) == 0 and not is_lazy(mask)  # type: ignore[arg-type]
    names = [n for n in shapes if n in given and not (n == "mask" and is_one)]
    arrays = {n: chunk_tasks.as_dask(n, given.pop(n), shapes[n]) for n in names}
    arrays = chunk_tasks.unified(arrays, shapes)
    if verb.merge is Merge.LISTS:
        return lazy_lists(target, verb, arrays, given)
    if isinstance(target, Parts):
        columns = _of_parts(target, verb, arrays, given)
    else:
        columns = query_chunks(target, verb, arrays, given)
    record = verb.record(isinstance(target, Scene), bool(given.get("counters")))
    return columns[verb.name] if record is None else record(**columns)


def _of_parts(parts: Parts, verb: Verb, arrays: Lazy, options: Options) -> Lazy:
    """Return the columns of the result of a query of parts."""
    if verb.merge is None:
        return {verb.name: _by_sides(parts, verb, arrays, options)}
    results = [query_chunks(group, verb, arrays, options) for group in parts.groups()]
    while len(results) > 1:
        runs = [results[k : k + TOGETHER] for k in range(0, len(results), TOGETHER)]
        results = [_merged(verb.merge, run, "k" in options) for run in runs]
    return results[0]


def _by_sides(parts: Parts, verb: Verb, arrays: Lazy, options: Options) -> Array:
    """Return what crossings of all parts together, or their winding numbers, decide."""
    import dask.array as da

    rest = {name: given for name, given in options.items() if name != "method"}

    def found(query: Callable[..., object]) -> Array:
        other = declared(query)
        return _of_parts(parts, other, arrays, rest)[other.name]

    if options["method"] == "winding":
        inside = found(parts.winding_number) > 0.5
    else:
        inside = found(parts._crossings) % 2 == 1
    if verb.name == "contains":
        return inside if options["method"] == "winding" else inside | found(parts._touched)
    near = found(parts.distance)
    return da.where(inside & (near > 0.0) & (near < np.inf), -near, near)


def _merged(how: Merge, results: list[Lazy], several: bool) -> Lazy:
    """Return one result for several groups, lazily; of `several` points for each query."""
    import dask.array as da

    if len(results) == 1:
        return results[0]
    names = list(results[0])
    axes = {n: ["k"] * several + ["i"] * (n == "position") for n in names}
    cores = [f"({','.join(axes[n])})" for n in names]
    found = da.apply_gufunc(
        _merged_chunk,
        f"{','.join(cores * len(results))}->{','.join(cores)}",
        *(result[n] for result in results for n in names),
        output_dtypes=[results[0][n].dtype for n in names],
        how=how,
        cores={n: len(axes[n]) for n in names},
    )
    return dict(zip(names, found if len(names) > 1 else [found], strict=True))


def _merged_chunk(*columns: Column, how: Merge, cores: dict[str, int]) -> Found:
    """Return one result of several for a chunk; each column with so many axes of a query."""
    count = len(cores)
    results = [
        {n: _flat(c, cores[n]) for n, c in zip(cores, columns[begin : begin + count], strict=True)}
        for begin in range(0, len(columns), count)
    ]
    mine = {name: column.copy() for name, column in results[0].items()}
    for other in results[1:]:
        merge(how, mine, other)
    found = [c.reshape(full.shape) for c, full in zip(mine.values(), columns, strict=False)]
    return tuple(found) if count > 1 else found[0]


def _flat(column: Column, core: int) -> Column:
    """Return a column with a single leading axis."""
    return column.reshape(-1, *column.shape[column.ndim - core :])
