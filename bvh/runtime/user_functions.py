"""Checks of users' compiled functions and their data, as queries and trees take them."""

from __future__ import annotations

import inspect
from typing import Any

from bvh.runtime.jit import Dispatcher, typeof, types
from bvh.runtime.user_calls import FILTER, Interface, UserCall, user_call


def user_function(name: str, function: Any, interface: Interface) -> Any:
    """Return a compiled function; raise a TypeError if kernels cannot call it."""
    got = getattr(function, "__name__", None) or type(function).__name__
    if not _is_compiled(function):
        raise TypeError(f"{name} must be a function compiled with numba.njit, got {got}")
    signature, parameters = inspect.signature(function.py_func), interface.parameters
    try:
        signature.bind(*parameters)
    except TypeError:
        raise TypeError(
            f"{name} must take ({', '.join(parameters)}), got {got}{signature}"
        ) from None
    return function


def user_data(data: Any) -> Any:
    """Return the data of a user's function; raise a TypeError if kernels cannot take it."""
    if not _is_passable(data):
        raise TypeError(
            "data must be an array of numbers, a number, or a tuple of them, got "
            f"{type(data).__name__}"
        )
    return data


def optional_filter(function: Any, data: Any, interface: Interface = FILTER) -> UserCall | None:
    """Return a filter with its data, as kernels take them; None where there is no filter."""
    if function is None:
        return None
    return user_call(user_function("filter", function, interface), user_data(data), interface)


def _is_compiled(function: object) -> bool:
    """Return whether kernels can call a function: one compiled with numba.njit."""
    return isinstance(function, Dispatcher) and not function.targetoptions.get("forceobj", False)


def _is_passable(value: object) -> bool:
    """Return whether Numba has a type for a value and all its parts."""
    try:
        kind = typeof(value)
    except (TypeError, ValueError):
        return False
    return not _holds_object(kind)


def _holds_object(kind: Any) -> bool:
    """Return whether a type is that of Python objects, or of an array or a tuple of them."""
    if isinstance(kind, types.BaseTuple):
        return any(_holds_object(part) for part in kind)
    return types.pyobject in (kind, getattr(kind, "dtype", None))
