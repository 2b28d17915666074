"""Arguments as in Open3D, arrays or Tensors; results are of the kind of the input."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from bvh.runtime.arguments import one_index, reals, thread_count
from bvh.runtime.threads import share

REAL_TYPES = (np.dtype(np.float32), np.dtype(np.float64))

# Rows that a thread processes at a time, to fit its cache.
CHUNK = 1 << 13


class Tensor(Protocol):
    """Methods of a Tensor of Open3D that are used here."""

    device: object

    def cpu(self) -> Tensor: ...
    def numpy(self) -> NDArray[Any]: ...
    @staticmethod
    def from_numpy(array: NDArray[Any]) -> Tensor: ...
    def to(self, device: object) -> Tensor: ...


class NumpyTensor(np.ndarray[Any, Any]):
    """A numpy array with some methods of Open3D's Tensor.

    So code for Tensors, such as ``ans["t_hit"].numpy()``, also runs on numpy arrays. Functions of
    Open3D 0.18 that take plain arrays for Tensors need that ``.numpy()``, too.
    """

    def numpy(self) -> NDArray[Any]:
        """Return a view as a plain array."""
        return self.view(np.ndarray)

    def cpu(self) -> NumpyTensor:
        """Return the array itself, which is on the CPU."""
        return self

    def isfinite(self) -> NDArray[np.bool_]:
        """Return which elements are finite."""
        return np.isfinite(self)

    def isinf(self) -> NDArray[np.bool_]:
        """Return which elements are infinite."""
        return np.isinf(self)

    def isnan(self) -> NDArray[np.bool_]:
        """Return which elements are NaN."""
        return np.isnan(self)


Given = ArrayLike | Tensor
Answer = NumpyTensor | Tensor


class InputRows:
    """Checked rows of an argument, float32 or else float64; gives results its shape and kind."""

    def __init__(self, name: str, value: Given, width: int, nthreads: int) -> None:
        self._like = value
        array = plain(value)
        masked = isinstance(array, np.ma.MaskedArray)
        if not isinstance(array, np.ndarray) or array.dtype not in REAL_TYPES or masked:
            array = reals(name, array)
            if array.shape == (0,):
                array = array.reshape(0, width)
        rows = array.view(np.ndarray)
        if rows.shape[-1:] != (width,):
            raise ValueError(f"{name} must have shape (..., {width}), got {rows.shape}")
        self.shape, self.dtype = rows.shape[:-1], rows.dtype
        self.flat: NDArray[Any] = rows.reshape(-1, width)
        self.threads = thread_limit(nthreads)

    def origins_and_directions(self) -> NDArray[np.float64]:
        """Return rays (..., 6) as two contiguous arrays; a single one is a batch of one."""
        parts = np.empty((2, len(self.flat), 3))

        def work(begin: int, end: int) -> None:
            # Column by column, which is faster than rows of three.
            for column in range(6):
                parts[column // 3, begin:end, column % 3] = self.flat[begin:end, column]

        share(len(self.flat), CHUNK, work, self.threads)
        return parts.reshape(2, *(self.shape or (1,)), 3)

    def shaped(self, array: NDArray[Any]) -> Answer:
        """Return flat rows or numbers in the leading shape."""
        return self.give(array.reshape(self.shape + array.shape[1:]))

    def reals(self, array: ArrayLike) -> Answer:
        """Return real numbers in the leading shape and in the type of the input."""
        return self.shaped(narrowed(np.asarray(array).reshape(-1), self.dtype))

    def give(self, array: NDArray[Any]) -> Answer:
        """Return an array as a Tensor if the input was one."""
        return given_like(array, self._like)


def thread_limit(nthreads: int) -> int:
    """Return the threads to use; Open3D takes 0 and negative numbers for all CPUs."""
    number = one_index("nthreads", nthreads)
    return thread_count(number if number > 0 else None)


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Return whether a value is a Tensor of Open3D, which this package never imports."""
    kind = type(value)
    return kind.__name__ == "Tensor" and kind.__module__.partition(".")[0] == "open3d"


def plain(value: Given | None) -> ArrayLike:
    """Return a Tensor as a numpy array, and any other value unchanged."""
    return value.cpu().numpy() if is_tensor(value) else cast(ArrayLike, value)


def given_like(array: NDArray[Any], *values: object) -> Answer:
    """Return an array as a Tensor if one of the values is one, on its device."""
    for value in values:
        if is_tensor(value):
            return type(value).from_numpy(array).to(value.device)
    return array.view(NumpyTensor)


def narrowed(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Return a copy of another type; overflow gives infinity."""
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(dtype)
