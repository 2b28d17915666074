"""Lazy arrays, such as Dask's: queries of them are answered by a module above all others."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

Result = TypeVar("Result")

# The module whose `lazy_query` answers: above all that calls it, and imported when first used.
HANDLER = "bvh.distributed.lazy_queries"

# What arguments usually are: told apart sooner than by an attribute that they lack.
ORDINARY = frozenset([np.ndarray, float, int, list, tuple, str, type(None)])


def is_lazy(*arguments: Any) -> bool:
    """Return whether one of the arguments is a lazy array."""
    for argument in arguments:
        kind = type(argument)
        if kind not in ORDINARY and hasattr(kind, "__dask_graph__"):
            # None from what may hold a lazy array and does not, as xarray's arrays.
            if argument.__dask_graph__() is not None:
                return True
    return False


def lazy_answer(target: Any, verb: str, arguments: dict[str, Any]) -> Result:  # type: ignore[type-var]
    """Return the lazy result of a query; `arguments` are the method's, by name."""
    given = {name: value for name, value in arguments.items() if name != "self"}
    answer: Callable[..., Result] = import_module(HANDLER).lazy_query
    return answer(target, verb, given)
