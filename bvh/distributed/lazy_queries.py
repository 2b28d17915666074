"""Queries of Dask arrays: results whose fields are Dask arrays of the same chunks.

Nothing is computed, compiled or sent here.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import numpy as np

from bvh.distributed.chunk_tasks import AXES, as_dask, checked_options, query_chunks, unified
from bvh.distributed.lazy_lists import lazy_lists
from bvh.distributed.lazy_parts import query_parts
from bvh.distributed.out_of_core.parts import Parts
from bvh.runtime.foreign_arrays import is_lazy


def answer(query: MethodType, arguments: dict[str, Any]) -> Any:
    """Return the result of a method of a tree, a scene or parts, as Dask arrays."""
    return lazy_query(query.__self__, query.__name__, arguments)


def lazy_query(target: Any, verb: str, arguments: dict[str, Any]) -> Any:
    """Return the result of a query as Dask arrays.

    Parameters
    ----------
    target : BVH, Scene or Parts
    verb : str
        The method.
    arguments : dict
        Its arguments; `progress` is not for lazy queries.

    Raises
    ------
    ValueError, TypeError
        If an array has unknown chunks, or no last axis of 3; the message names it.
    """
    given = checked_options(target, verb, arguments)
    # One mask stays a number, as queries of points and regions take it.
    whole = (
        {"mask"} if np.ndim(given.get("mask", 0)) == 0 and not is_lazy(given.get("mask")) else ()
    )
    names = [name for name in AXES if name in given and name not in whole]
    arrays = unified(names, [as_dask(name, given.pop(name)) for name in names])
    if verb == "all_hits" or verb.startswith("overlap"):
        return lazy_lists(target, verb, dict(zip(names, arrays, strict=True)), given)
    if isinstance(target, Parts):
        return query_parts(target, verb, dict(zip(names, arrays, strict=True)), given)
    return query_chunks(target, verb, dict(zip(names, arrays, strict=True)), given)
