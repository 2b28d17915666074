"""Conversion of arrays and Tensors of Open3D: results are of the kind of the input."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import reals

REAL_TYPES = (np.dtype(np.float32), np.dtype(np.float64))


class NumpyTensor(np.ndarray[Any, Any]):
    """A numpy array with some methods of Open3D's Tensor.

    So code for Tensors, such as ``ans["t_hit"].numpy()``, also runs on numpy arrays. Functions of
    Open3D 0.18 that take plain arrays for Tensors need that ``.numpy()``, too.

    Examples
    --------
    >>> import numpy as np
    >>> from bvh.compat.tensors import NumpyTensor
    >>> t_hit = np.array([1.0, np.inf]).view(NumpyTensor)
    >>> t_hit.isfinite().numpy()
    array([ True, False])
    """

    def numpy(self) -> NDArray[Any]:
        """Return a view as a plain array."""
        return self.view(np.ndarray)

    def cpu(self) -> NumpyTensor:
        """Return the array itself, which is on the CPU."""
        return self

    def isfinite(self) -> Any:
        """Return which elements are finite."""
        return np.isfinite(self)

    def isinf(self) -> Any:
        """Return which elements are infinite."""
        return np.isinf(self)

    def isnan(self) -> Any:
        """Return which elements are NaN."""
        return np.isnan(self)


class InputRows:
    """Checked input rows, and conversion of results to their shape, type and kind.

    float32 and float64 keep their type, other numbers become float64.
    """

    def __init__(self, name: str, value: Any, width: int) -> None:
        self._like = value
        array = plain(value)
        kept = isinstance(array, np.ndarray) and array.dtype in REAL_TYPES
        if not kept or isinstance(array, np.ma.MaskedArray):
            array = reals(name, array)
            if array.shape == (0,):
                array = array.reshape(0, width)
        self.rows: NDArray[Any] = array.view(np.ndarray)
        if self.rows.shape[-1:] != (width,):
            raise ValueError(f"{name} must have shape (..., {width}), got {self.rows.shape}")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of real numbers in results."""
        return self.rows.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading shape."""
        return self.rows.shape[:-1]

    @property
    def flat(self) -> NDArray[Any]:
        """The rows, shape (n, width)."""
        return self.rows.reshape(-1, self.rows.shape[-1])

    def shaped(self, array: NDArray[Any]) -> Any:
        """Return flat rows or numbers in the leading shape."""
        return self.give(array.reshape(self.shape + array.shape[1:]))

    def reals(self, array: Any) -> Any:
        """Return real numbers in the leading shape and in the type of the input."""
        return self.shaped(narrowed(np.asarray(array).reshape(-1), self.dtype))

    def give(self, array: NDArray[Any]) -> Any:
        """Return an array as a Tensor if the input was one."""
        return given_like(array, self._like)


def is_tensor(value: Any) -> bool:
    """Return whether a value is a Tensor of Open3D, which this package never imports."""
    kind = type(value)
    return kind.__name__ == "Tensor" and kind.__module__.partition(".")[0] == "open3d"


def plain(value: Any) -> Any:
    """Return a Tensor as a numpy array, and any other value unchanged."""
    return value.cpu().numpy() if is_tensor(value) else value


def given_like(array: NDArray[Any], *values: Any) -> Any:
    """Return an array as a Tensor if one of the values is one, on its device."""
    for value in values:
        if is_tensor(value):
            return type(value).from_numpy(array).to(value.device)
    return array.view(NumpyTensor)


def narrowed(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return a copy of another type; overflow gives infinity."""
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(dtype)
