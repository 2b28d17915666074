"""Kernels that Python calls, compiled for the types of their arguments."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from bvh.runtime import jit
from bvh.runtime.calls import words
from bvh.runtime.calls.invocation import Call, called_from_python
from bvh.runtime.calls.linked import Specialisation, linked_kernel
from bvh.runtime.compiler.lazy_modules import numpy_support, types
from bvh.runtime.jit import Dispatcher


class Entry:
    """A function that Python calls, and that is compiled.

    There is a specialisation for each structure of arguments (see `words.structure_of`). A call
    tries their built-in functions (see `invocation`) in turn: each returns NotImplemented if the
    arguments do not fit. What words cannot hold, such as arrays that are not in C order, is left to
    Numba's own dispatcher. In other kernels, an entry is a helper like those of `jit`.
    """

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._calls: list[Call] = []
        self._kernels: dict[str, Specialisation] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call the kernel; the first call for a structure of arguments loads or compiles it."""
        for call in self._calls:
            result = call(*arguments)
            if result is not NotImplemented:
                return result
        kernel = self.specialised(arguments)
        new_call = None if kernel is None else called_from_python(kernel, arguments)
        if new_call is not None:
            self._calls.append(new_call)
            result = new_call(*arguments)
            if result is not NotImplemented:
                return result
        return self.numba_function(*arguments)

    @property
    def specialisations(self) -> list[Specialisation]:
        """The kernels that have been needed so far."""
        return [*self._kernels.values()]

    @functools.cached_property
    def numba_function(self) -> Dispatcher:
        """The function as Numba compiles and calls it, for arguments that words cannot hold."""
        return jit.called_by_numba(self.py_func)

    @functools.cached_property
    def helper(self) -> Dispatcher:
        """The function as other kernels call it."""
        return jit.kernel(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """Numba's type of this object where kernels use it: that of the helper."""
        return self.helper._numba_type_

    def specialised(self, arguments: tuple[Any, ...]) -> Specialisation | None:
        """Return the kernel for such arguments; None if words cannot hold them, or the results."""
        # Raises a TypeError for a wrong number of arguments.
        inspect.signature(self.py_func).bind(*arguments)
        structure = ",".join(map(words.structure_of, arguments))
        if structure not in self._kernels:
            name = f"{self.__module__}.{self.__name__}"
            found = linked_kernel(name, structure) or self._compiled(structure, arguments)
            if found is None:
                return None
            # Another thread may have compiled it, too.
            self._kernels.setdefault(structure, found)
        return self._kernels[structure]

    def _compiled(self, structure: str, arguments: tuple[Any, ...]) -> Specialisation | None:
        """Compile the kernel for such arguments; None if words cannot hold them, or the results."""
        kinds = tuple(words.canonical(jit.typeof(argument)) for argument in arguments)
        if words.OTHER in structure or not all(map(words.is_stored, kinds)):
            return None
        compiled = words.kernel_of_words(self.py_func, kinds)
        address = jit.address_of(compiled, (types.int64,))
        # Its return type is a `TypeRef` of the type of the results: see `words.kernel_of_words`.
        returned = compiled.overloads[types.int64,].signature.return_type.instance_type
        if not words.is_returned(returned):
            return None
        members = words.member_types(returned)
        results = tuple(str(numpy_support.as_dtype(kind).str[1:]) for kind in members)
        in_tuple = isinstance(returned, types.BaseTuple)
        return Specialisation(structure, address, results, in_tuple, compiled)


entry = Entry  # the decorator
