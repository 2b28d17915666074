"""Arrays as callers of Open3D have them: numpy's in, numpy's out; Tensors in, Tensors out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import reals

KEPT = (np.dtype(np.float32), np.dtype(np.float64))


class NumpyTensor(np.ndarray[Any, Any]):
    """A numpy array with those methods of Open3D's Tensor that programs call on answers.

    So what is written for Tensors, ``ans["t_hit"].numpy()``, also runs on numpy arrays alone.
    Functions of Open3D 0.18 that take plain arrays for Tensors want that ``.numpy()``, too.

    Examples
    --------
    >>> import numpy as np
    >>> from bvh.compat.tensors import NumpyTensor
    >>> t_hit = np.array([1.0, np.inf]).view(NumpyTensor)
    >>> t_hit.isfinite().numpy()
    array([ True, False])
    """

    def numpy(self) -> NDArray[Any]:
        """Return the same memory as a plain array."""
        return self.view(np.ndarray)

    def cpu(self) -> NumpyTensor:
        """Return the array itself: its memory is the CPU's."""
        return self

    def isfinite(self) -> Any:
        """Tell which elements are neither infinite nor NaN."""
        return np.isfinite(self)

    def isinf(self) -> Any:
        """Tell which elements are infinite."""
        return np.isinf(self)

    def isnan(self) -> Any:
        """Tell which elements are NaN."""
        return np.isnan(self)


class Asked:
    """Rows that a caller asks about, and how answers are given back.

    float32 and float64 rows stay what they are, all other numbers become float64.
    """

    def __init__(self, name: str, value: Any, width: int) -> None:
        self._like = value
        array = plain(value)
        kept = isinstance(array, np.ndarray) and array.dtype in KEPT
        if not kept or isinstance(array, np.ma.MaskedArray):
            array = reals(name, array)
            if array.shape == (0,):
                array = array.reshape(0, width)
        self.rows: NDArray[Any] = array.view(np.ndarray)
        if self.rows.shape[-1:] != (width,):
            raise ValueError(f"{name} must have shape (..., {width}), got {self.rows.shape}")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of real numbers in answers."""
        return self.rows.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading shape."""
        return self.rows.shape[:-1]

    @property
    def flat(self) -> NDArray[Any]:
        """The rows, shape (n, width)."""
        return self.rows.reshape(-1, self.rows.shape[-1])

    def answer(self, array: NDArray[Any]) -> Any:
        """Return rows of answers, or numbers, in the leading shape."""
        return self.give(array.reshape(self.shape + array.shape[1:]))

    def reals(self, array: Any) -> Any:
        """Return real numbers in the leading shape, and in the type of the question."""
        return self.answer(narrowed(np.asarray(array).reshape(-1), self.dtype))

    def give(self, array: NDArray[Any]) -> Any:
        """Return an array as the kind that the question was."""
        return given_like(array, self._like)


def is_tensor(value: Any) -> bool:
    """Tell whether a value is a Tensor of Open3D, which this package never imports."""
    kind = type(value)
    return kind.__name__ == "Tensor" and kind.__module__.partition(".")[0] == "open3d"


def plain(value: Any) -> Any:
    """Return a Tensor's memory as a numpy array, and all else as it is."""
    return value.cpu().numpy() if is_tensor(value) else value


def given_like(array: NDArray[Any], *values: Any) -> Any:
    """Return an array as a Tensor, where one of the values is one, on its device."""
    for value in values:
        if is_tensor(value):
            return type(value).from_numpy(array).to(value.device)
    return array.view(NumpyTensor)


def narrowed(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return a new array of another type; what is too large for it becomes infinite."""
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(dtype)
