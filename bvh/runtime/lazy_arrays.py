"""Lazy arrays, such as Dask's: queries of them are answered by a module above all others."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

Result = TypeVar("Result")

# The module whose `lazy_query` answers; set by the package itself, which alone knows all modules.
handler = ""


def is_lazy(*arguments: Any) -> bool:
    """Return whether one of the arguments is a lazy array."""
    return any(hasattr(type(argument), "__dask_graph__") for argument in arguments)


def lazy_answer(target: Any, verb: str, **arguments: Any) -> Result:  # type: ignore[type-var]
    """Return the lazy result of a query, with the arguments that the method was given."""
    answer: Callable[..., Result] = import_module(handler).lazy_query
    return answer(target, verb, arguments)
