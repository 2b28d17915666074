"""Functions that users compile with Numba and hand to a query or a tree."""

from __future__ import annotations

from typing import Any

from bvh.jit import is_compiled


def user_function(name: str, function: Any) -> Any:
    """Return a compiled function; refuse what kernels cannot call."""
    if is_compiled(function):
        return function
    got = getattr(function, "__name__", None) or type(function).__name__
    raise TypeError(f"{name} must be a function compiled with numba.njit, got {got}")


def optional_function(name: str, function: Any) -> Any:
    """Return a compiled function, or None."""
    return None if function is None else user_function(name, function)
