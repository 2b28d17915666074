"""Modules of Numba and LLVM for code that runs when kernels are compiled."""

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from bvh.runtime.compiler.deferred import activate, at_activation

__all__ = ["cgutils", "errors", "extending", "ir", "numpy_support", "types"]


class LazyModule:
    """Stands for a module, which it imports when one of its attributes is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        # Called for attributes that are not stored yet. Special names must not import anything.
        if name.startswith("__"):
            raise AttributeError(name)
        activate()
        found = self.__dict__[name] = getattr(import_module(self._name), name)
        return found


if TYPE_CHECKING:
    from llvmlite import ir
    from numba import extending, types
    from numba.core import cgutils, errors
    from numba.np import numpy_support
else:
    ir, cgutils = LazyModule("llvmlite.ir"), LazyModule("numba.core.cgutils")
    extending, types = LazyModule("numba.extending"), LazyModule("numba.types")
    errors, numpy_support = LazyModule("numba.core.errors"), LazyModule("numba.np.numpy_support")
    # Forks wait for an activation, but not for other imports, whose locks would stay taken.
    for _module in (ir, cgutils, extending, types, errors, numpy_support):
        at_activation(partial(import_module, _module._name))


def type_of_kind(kind: Any) -> Any:
    """Return Numba's type of a class of numpy's numbers, or of a tuple of them."""
    if isinstance(kind, tuple):
        return types.Tuple([type_of_kind(part) for part in kind])
    return numpy_support.from_dtype(np.dtype(kind))


def typeof(value: object) -> Any:
    """Return Numba's type of an argument."""
    activate()
    from numba import typeof

    return typeof(value)
