"""Arrays in and out of devices, without copies where types and devices allow it.

Arguments are arrays of Warp, PyTorch, JAX, CuPy and all that have ``__cuda_array_interface__`` or
``__dlpack__``, and anything that numpy reads. Answers are in the library of the arguments.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.runtime.foreign_arrays import is_other, kind_of


def is_on_device(value: object) -> bool:
    """Return whether an argument is an array of Warp or of another library than numpy."""
    return isinstance(value, wp.array) or is_other(value)


def first_on_device(*values: object) -> Any:
    """Return the first argument that is on a device, else None; answers are in its library."""
    return next((value for value in values if is_on_device(value)), None)


def _torch(value: object) -> Any:
    """Return the module torch if a value is its tensor, else None; it is never imported."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


@contextmanager
def stream_of(like: Any, device: Any) -> Iterator[None]:
    """Run a block of code on PyTorch's current stream if `like` is its tensor, on a GPU."""
    torch = _torch(like)
    if torch is not None and device.is_cuda:
        with wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(device.ordinal))):
            yield
    else:
        yield


@functools.cache
def numpy_type(dtype: Any) -> tuple[Any, tuple[int, ...]]:
    """Return (numpy's type of the scalars, shape of an item) of Warp's `dtype`; () for a number."""
    scalar = getattr(dtype, "_wp_scalar_type_", dtype)
    return wp.dtype_to_numpy(scalar), tuple(getattr(dtype, "_shape_", ()))


def read(name: str, value: Any, device: Any, dtype: Any) -> tuple[Any, tuple[int, ...]]:
    """Return (array, leading shape) of the argument `name`: a flat array of Warp on `device`.

    Its items are of Warp's type `dtype`, numbers or vectors. It shares the memory of `value` where
    type and layout allow it. A TypeError or ValueError names an argument of wrong kind or shape.
    """
    kind, item = numpy_type(dtype)
    if not is_on_device(value):
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{name} must be numbers, got {array.dtype}")
        host = np.array(array, kind, order="C", copy=None)
        leading = _leading(name, host.shape, item)
        if host.size == 1 and not item:
            return one_number(host.item(), dtype, device.alias), leading
        return wp.array(host.reshape(-1, *item), dtype=dtype, device=device), leading
    array = value if isinstance(value, wp.array) else _imported(name, value)
    if str(array.device) != str(device):
        raise TypeError(f"{name} must be on {device}, where the tree is, got {kind_of(value)} on "
                        f"{array.device}")  # fmt: skip
    array = array if array.is_contiguous else array.contiguous()
    # An array of Warp's vectors is read as one of numbers with one more axis.
    shape = (*array.shape, *getattr(array.dtype, "_shape_", ()))
    leading, size = _leading(name, shape, item), int(np.prod(shape))
    source, scalar = (getattr(t, "_wp_scalar_type_", t) for t in (array.dtype, dtype))
    flat = view_as(array, source, size)
    if source != scalar:
        flat = wp.empty(size, dtype=scalar, device=device)
        wp.utils.array_cast(view_as(array, source, size), flat)
    return view_as(flat, dtype, int(np.prod(leading))), leading


@functools.lru_cache(maxsize=64)
def one_number(value: float, dtype: Any, device: str) -> Any:
    """Return an array of one number on a device. Never write to it: it is kept for other calls."""
    return wp.array([value], dtype=dtype, device=device)


def view_as(array: Any, dtype: Any, *shape: int) -> Any:
    """Return an array of another type and shape on the memory of an array of Warp."""
    view = wp.array(ptr=array.ptr, dtype=dtype, shape=shape, device=array.device, copy=False)
    # A view of memory must keep its owner alive.
    view._keep = array
    return view


def _imported(name: str, value: Any) -> Any:
    """Return the argument `name`, an array of another library, as one of Warp on its memory."""
    try:
        if _torch(value) is not None:
            return wp.from_torch(value.detach(), requires_grad=False)
        if hasattr(value, "__cuda_array_interface__"):
            return wp.array(value, copy=False)
        return wp.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array that supports DLPack: {error}") from None


def _leading(name: str, shape: tuple[int, ...], item: tuple[int, ...]) -> tuple[int, ...]:
    """Return the leading shape of the argument `name`: `shape`, for vectors without the last axis.

    `item` is the shape of an item: () for numbers. A ValueError names an argument whose last axis
    is not as long as vectors are.
    """
    if item and shape[-1:] != item:
        raise ValueError(f"{name} must have shape (..., {item[0]}), got {shape}")
    return tuple(shape[:-1] if item else shape)


def to_library(array: Any, shape: tuple[int, ...], like: Any) -> Any:
    """Return an answer, a flat array of Warp, with leading shape `shape`, in the library of `like`.

    Vectors become rows in other libraries than Warp. For `like` None the answer becomes an array of
    numpy, or a number if the shape is ().
    """
    # Warp has no arrays without axes.
    if isinstance(like, wp.array):
        return array.reshape(shape or (1,))
    _, item = numpy_type(array.dtype)
    shape = (*shape, *item)
    if like is None:
        rows: NDArray[Any] = array.numpy().reshape(shape)
        return rows if shape else rows[()].item()
    if item:
        array = view_as(array, wp.float64, int(np.prod(shape)))
    if _torch(like) is not None:
        return wp.to_torch(array, requires_grad=False).reshape(shape)
    if hasattr(like, "__array_namespace__"):
        namespace = like.__array_namespace__()
    else:
        # CuPy has that method since version 14; its module has the functions anyway.
        namespace = sys.modules[type(like).__module__.partition(".")[0]]
    return namespace.reshape(namespace.from_dlpack(array), shape)


def on_host(value: Any) -> Any:
    """Return an array of a device as numpy's; anything else as it is."""
    if isinstance(value, wp.array):
        return value.numpy()
    if _torch(value) is not None:
        return value.detach().cpu().numpy()
    return np.asarray(value) if is_other(value) else value
