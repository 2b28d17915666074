"""Queries of other libraries' arrays, such as PyTorch's: results are arrays of the same library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.queries.verbs import verb_of
from bvh.runtime.foreign_arrays import as_numpy, is_other, kind_of
from bvh.runtime.registry import extra


class Library(NamedTuple):
    """A library of arrays, such as PyTorch, and the device on which its arrays are."""

    namespace: Any  # of the array API, as array-api-compat returns it
    device: Any

    @classmethod
    def of(cls, arrays: dict[str, object]) -> Library | None:
        """Return the library of arguments, given by name, with the device of the first one.

        None if array-api-compat knows the library of none of them: results are then numpy's. Arrays
        of two libraries raise a TypeError.
        """
        name = next(iter(arrays))
        other = f"{name} is {kind_of(arrays[name])}: queries of other arrays than numpy's"
        with extra("arrays", f"{other} need array-api-compat"):
            import array_api_compat as compat
        known = {name: a for name, a in arrays.items() if compat.is_array_api_obj(a)}
        spaces = {name: compat.array_namespace(array) for name, array in known.items()}
        if not known:
            return None
        first, *rest = spaces
        for name in rest:
            if spaces[name] is not spaces[first]:
                raise TypeError(
                    f"{first} and {name} must be arrays of one library, got "
                    f"{kind_of(known[first])} and {kind_of(known[name])}"
                )
        return cls(spaces[first], compat.device(known[first]))

    def array(self, array: NDArray[Any]) -> Any:
        """Return an array of numpy as an array of the library, on the same memory if possible.

        A TypeError is raised if the library would round the array, as JAX does without 64 bits.
        """
        import array_api_compat as compat

        if not (array.flags.c_contiguous and array.flags.writeable):
            # Some libraries support no read-only arrays, or none with gaps: they would write to the
            # array, or end the process.
            array = array.copy()
        try:
            given = self.namespace.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError, ValueError):
            given = self.namespace.asarray(array)
        dtype = getattr(self.namespace, "bool" if array.dtype == np.bool_ else array.dtype.name)
        if given.dtype != dtype:
            raise TypeError(
                f"results of {array.dtype} would be rounded to {given.dtype} in "
                f"{self.namespace.__name__}: pass numpy arrays, or allow types of 64 bits, in JAX "
                "by jax.config.update('jax_enable_x64', True)"
            )
        if self.device is not None and compat.device(given) != self.device:
            given = compat.to_device(given, self.device)
        return given

    def result(
        self, found: Any, id_type: type[np.generic] = np.int32,
        integer_type: type[np.generic] = np.int64,
    ) -> Any:  # fmt: skip
        """Return the result `found` of a query with its arrays and numbers in the library.

        `found` is a dataclass of results, a tuple, an array or a number. Python integers become
        arrays: of `id_type` for a `prim_id`, int32 for other fields of a dataclass, `integer_type`
        if `found` itself is an integer.
        """
        if is_dataclass(found) and not isinstance(found, type):
            columns = {field.name: getattr(found, field.name) for field in fields(found)}
            for name in columns.keys() - {"shape"}:  # which stays a tuple of Python's integers
                if columns[name] is not None:
                    kind = id_type if name == "prim_id" else np.int32
                    columns[name] = self.result(columns[name], integer_type=kind)
            made = type(found)(**columns)
            if "_source" in vars(found):
                # Hits compute their positions and normals from it.
                vars(made)["_source"] = vars(found)["_source"]
            return made
        if isinstance(found, tuple):
            make: Any = getattr(found, "_make", tuple)
            return make(map(self.result, found))
        return self.array(np.asarray(found, integer_type if type(found) is int else None))


def answer(query: Callable[..., object], arguments: dict[str, object]) -> Any:
    """Return the result of `query`, with arrays in the library of its array arguments.

    `query` is a function or bound method; `arguments` are all its arguments by name, at least one
    of them an array of another library than numpy.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    others = {name: value for name, value in given.items() if is_other(value)}
    plain = {name: as_numpy(name, value) for name, value in others.items()}
    library = Library.of(others)
    if library is None:
        return query(**given | plain)
    verb = verb_of(query)
    # The type of a result that is one array, or the class of a result; int64 if undeclared.
    returned = np.int64 if verb is None else verb.returns
    if returned is not np.bool_:
        # All libraries have booleans; if this one lacks numbers of 64 bits, raise before the query.
        library.array(np.empty(0))
    # Ids of primitives are int32, except those of meshes in parts.
    id_type = getattr(getattr(query, "__self__", None), "_id_type", np.int32)
    # The type of a result that is a Python integer: an id, or a count.
    integer_type = id_type if returned is np.int32 else np.int64
    return library.result(query(**given | plain), id_type, integer_type)


def in_numpy(value: Any) -> Any:
    """Return an array of another library as a numpy array; anything else as it is."""
    return as_numpy("array", value) if is_other(value) else value


def in_library_of(found: Any, like: Any) -> Any:
    """Return a numpy array or number as an array of the library of `like`; unchanged for numpy."""
    if not is_other(like):
        return found
    library = Library.of({"array": like})
    return found if library is None else library.result(found)
