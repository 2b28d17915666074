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

KINDS = {np.float64: wp.float64, np.int32: wp.int32, np.int64: wp.int64, np.bool_: wp.bool}
WIDE = {3: wp.vec3d}


def is_on_device(value: object) -> bool:
    """Return whether an argument is an array of Warp or of another library than numpy."""
    return isinstance(value, wp.array) or is_other(value)


def library_of(*values: object) -> Any:
    """Return the first argument whose library answers are in; None for numpy's."""
    return next((value for value in values if is_on_device(value)), None)


def _torch(value: object) -> Any:
    """Return the module torch if a value is its tensor, else None; it is never imported."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


@contextmanager
def stream_of(like: Any, device: Any) -> Iterator[None]:
    """Run a block on the current stream of a library, if it has streams."""
    torch = _torch(like)
    if torch is not None and device.is_cuda:
        with wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(device.ordinal))):
            yield
    else:
        yield


def read(name: str, value: Any, device: Any, kind: Any, width: int = 0) -> tuple[Any, Any]:
    """Return (array, leading shape) of an argument: on a device, flat, of type `kind`.

    With a `width` it is an array of vectors. A TypeError or ValueError names an argument of the
    wrong kind or shape.
    """
    if not is_on_device(value):
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{name} must be numbers, got {array.dtype}")
        host = np.array(array, kind, order="C", copy=None)
        shape = _leading(name, host.shape, width)
        if host.size == 1 and not width:
            return one_number(host.item(), KINDS[kind], device.alias), shape
        dtype, flat = (WIDE[width], (-1, width)) if width else (KINDS[kind], -1)
        return wp.array(host.reshape(flat), dtype=dtype, device=device), shape
    array = value if isinstance(value, wp.array) else _imported(name, value)
    if str(array.device) != str(device):
        raise TypeError(f"{name} must be on {device}, where the tree is, got {kind_of(value)} on "
                        f"{array.device}")  # fmt: skip
    # An array of Warp's vectors is read as one of numbers with one more axis.
    size = getattr(array.dtype, "_length_", 1)
    scalar = getattr(array.dtype, "_wp_scalar_type_", array.dtype)
    if not array.is_contiguous:
        array = array.contiguous()
    shape = (*array.shape, size) if size > 1 else tuple(array.shape)
    flat = seen_as(array, scalar, int(np.prod(shape)))
    if scalar != KINDS[kind]:
        cast = wp.empty(flat.shape, dtype=KINDS[kind], device=device)
        wp.utils.array_cast(flat, cast)
        flat = cast
    leading = _leading(name, shape, width)
    return seen_as(flat, WIDE[width], flat.shape[0] // width) if width else flat, leading


@functools.lru_cache(maxsize=64)
def one_number(value: float, dtype: Any, device: str) -> Any:
    """Return an array of one number, which kernels only read: most calls have the same."""
    return wp.array([value], dtype=dtype, device=device)


def seen_as(array: Any, dtype: Any, *shape: int) -> Any:
    """Return the memory of an array as another array, of a type and shape."""
    view = wp.array(ptr=array.ptr, dtype=dtype, shape=shape, device=array.device, copy=False)
    # A view of memory must keep its owner alive.
    view._keep = array
    return view


def _imported(name: str, value: Any) -> Any:
    """Return an array of another library as one of Warp that shares its memory."""
    torch = _torch(value)
    if torch is not None:
        return wp.from_torch(value.detach(), requires_grad=False)
    try:
        if hasattr(value, "__cuda_array_interface__"):
            return wp.array(value, copy=False)
        return wp.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array that supports DLPack: {error}") from None


def _leading(name: str, shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    if width and shape[-1:] != (width,):
        raise ValueError(f"{name} must have shape (..., {width}), got {shape}")
    return tuple(shape[:-1] if width else shape)


def given(array: Any, shape: tuple[int, ...], like: Any, width: int = 0) -> Any:
    """Return an answer, a flat array of Warp, in a shape and in the library of an argument.

    With a `width` it is an array of vectors, which become rows in other libraries than Warp.
    """
    if width and not isinstance(like, wp.array):
        array, shape = seen_as(array, wp.float64, array.shape[0] * width), (*shape, width)
    if like is None:
        found: NDArray[Any] = array.numpy().reshape(shape)
        return found if shape else found[()].item()
    shaped = array.reshape(shape or (1,))
    if isinstance(like, wp.array):
        return shaped
    torch = _torch(like)
    if torch is not None:
        tensor = wp.to_torch(shaped, requires_grad=False)
        return tensor.reshape(shape)
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(like, jax.Array):
        return wp.to_jax(shaped).reshape(shape)
    space = sys.modules[type(like).__module__.partition(".")[0]]
    return space.reshape(space.from_dlpack(shaped), shape)


def on_host(value: Any) -> Any:
    """Return an array of a device as numpy's; anything else as it is."""
    if isinstance(value, wp.array):
        return value.numpy()
    torch = _torch(value)
    if torch is not None:
        return value.detach().cpu().numpy()
    return np.asarray(value) if is_other(value) else value
