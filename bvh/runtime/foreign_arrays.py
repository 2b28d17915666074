"""Arrays of other libraries: detection, conversion, and queries of them.

Queries of lazy arrays, such as Dask's, and of arrays such as PyTorch's and JAX's are answered by
functions of upper folders, which are enrolled for them (see `registry`).
"""

import sys
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.registry import enrolled

Result = TypeVar("Result")

# Common types. A look into this set is cheaper than the look-up of an attribute.
ORDINARY = frozenset(
    [np.ndarray, float, int, bool, list, tuple, str, type(None), np.float64, np.int64]
)

# Devices of DLPack whose memory we can read: the CPU's, and that which is pinned for CUDA.
HOST = frozenset([1, 3])


def is_lazy(*arguments: object) -> bool:
    """Return whether one of the arguments is an array of Dask, or of xarray with data of Dask."""
    return any(type(argument) not in ORDINARY and _is_lazy(argument) for argument in arguments)


def is_other(*arguments: object) -> bool:
    """Return whether one of the arguments is an array that is neither numpy's nor lazy."""
    for argument in arguments:
        kind = type(argument)
        if kind in ORDINARY or isinstance(argument, np.ndarray | np.generic):
            continue
        is_array = hasattr(kind, "__dlpack__") or hasattr(kind, "__array_namespace__")
        if is_array and not _is_lazy(argument):
            return True
    return False


def _is_lazy(value: Any) -> bool:
    """Return whether a value has a graph of Dask."""
    # Arrays of xarray have this method, too; it returns None unless their data are lazy.
    return hasattr(type(value), "__dask_graph__") and value.__dask_graph__() is not None


def foreign_answer(query: Callable[..., Result], values: Mapping[str, object]) -> Result:
    """Return the result of a query (a function or method) as arrays of its arguments' library.

    `values` has the arguments by name, and may have more, as `locals()` has. At least one is an
    array of another library, or a lazy one; both raise a TypeError.
    """
    given = {name: values[name] for name in signature(query).parameters}
    lazy = [name for name, value in given.items() if is_lazy(value)]
    others = [name for name, value in given.items() if is_other(value)]
    if lazy and others:
        kinds = f"Dask's and {kind_of(given[others[0]])}"
        raise TypeError(f"{lazy[0]} and {others[0]} must be arrays of one library, got {kinds}")
    answer = enrolled("queries of lazy arrays" if lazy else "queries of other arrays")
    found: Result = answer(query, given)
    return found


def kind_of(value: object) -> str:
    """Return the library and class of an array, such as "torch.Tensor", for messages."""
    kind = type(value)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def as_numpy(name: str, value: Any) -> NDArray[Any]:
    """Return an array of another library as a numpy array, of the same memory if possible.

    Raises a TypeError if the memory cannot be read: the array is traced, on another device, or
    requires gradients, which would end here.
    """
    tracer = getattr(sys.modules.get("jax.core"), "Tracer", ())
    if isinstance(value, tracer):
        cure = "inside jax.jit, vmap and grad use the functions of bvh.jax"
        raise TypeError(f"{name} must be an array that is there, got one that JAX traces: {cure}")
    if getattr(value, "requires_grad", False):
        torch: Any = sys.modules.get("torch")
        if torch is None or torch.is_grad_enabled():
            cure = f"pass {name}.detach(), or use the functions of bvh.torch, which have gradients"
            raise TypeError(f"{name} requires grad, which ends here: {cure}")
        value = value.detach()
    if not _is_on_host(value):
        got = f"{kind_of(value)} on {getattr(value, 'device', 'another device')}"
        raise TypeError(f"{name} must be on the CPU, got {got}: move it there first")
    if hasattr(value, "resolve_neg"):
        # PyTorch's views of negated memory are exported as if they were not negated.
        value = value.resolve_neg()
    try:
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError):
        # Types that DLPack or numpy does not know, and arrays on several devices.
        pass
    try:
        return np.asarray(value)
    except (RuntimeError, TypeError, ValueError) as error:
        kind = f"{kind_of(value)} of {getattr(value, 'dtype', 'unknown type')}"
        raise TypeError(f"{name} must be what numpy can read, got {kind}: {error}") from None


def _is_on_host(value: Any) -> bool:
    """Return whether the memory of an array is the CPU's; True if unknown."""
    if not hasattr(value, "__dlpack_device__"):
        return True
    try:
        return int(value.__dlpack_device__()[0]) in HOST
    except (BufferError, RuntimeError, TypeError, ValueError):
        # Devices without memory, and arrays on several devices.
        return getattr(getattr(value, "device", None), "type", "cpu") == "cpu"
