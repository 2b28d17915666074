"""Helpers that another process, or another entry of this one, has lowered: they are only linked.

A helper is identified by its code, the values that it closes over, the types of its arguments and
its flags; the folder of kernels stands for all else. Helpers that have no such name in another
process, such as a user's function, are lowered in each.
"""

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, cast

from llvmlite import binding
from llvmlite.binding import ModuleRef
from numba.core import codegen, compiler, types
from numba.core.dispatcher import Dispatcher
from numba.core.environment import Environment

from bvh.runtime.cache.kernel_files import helpers
from bvh.runtime.compiler.code_types import Context, Type
from bvh.runtime.compiler.compilation import (
    EntryCompiler,
    HelperCompiler,
    HelperLibrary,
    callable_of,
    compile_helper,
)
from bvh.runtime.compiler.deferred import real_of
from bvh.runtime.compiler.kernel_cache import instructions

__all__ = ["EntryCompiler", "StoredHelperCompiler", "compile_helper"]

# Numba's own functions that are identified by name and types.
NUMBAS = ("ol_max.<locals>.impl", "ol_min.<locals>.impl", "ol_int.<locals>.impl")

# Compiled or loaded helpers of this process, by key.
_compiled: dict[str, compiler.CompileResult] = {}


class StoredHelperCompiler(HelperCompiler):
    """A compiler of helpers that lowers only those that are not stored."""

    def compile_extra(self, func: Any) -> compiler.CompileResult:
        """Return a compiled helper: one of this process, a stored one, or a new one.

        Of one of this process, the library is used again in the result of another dispatcher.
        """
        state, parts = self.state, _identity(func)
        key = state.key = None if parts is None else _key(parts, state.args, state.flags)
        if key in _compiled:
            compiled = _compiled[key]
            return _result(state.targetctx, compiled.library, compiled.fndesc, compiled.signature)
        result = key and _rebuilt(state.targetctx, key)
        if result is None:
            result = super().compile_extra(func)
            if key:
                result.library.key = key
                _add(result)
        if key:
            _compiled[key] = result
        return result


def _identity(function: Any) -> tuple[object, ...] | None:
    """Return parts that identify a function in all processes.

    None if it closes over None, or over an object that is described by its address.
    """
    cells = []
    for cell in function.__closure__ or ():
        value = real_of(cell.cell_contents)
        if isinstance(value, Dispatcher):
            value = _identity(value.py_func)
        if value is None or " at 0x" in repr(value):
            return None
        cells.append((type(value), value))
    place = function.__module__, function.__qualname__, function.__defaults__
    return *place, instructions(function.__code__), *cells


def _key(parts: object, kinds: Iterable[Type], flags: compiler.Flags) -> str | None:
    """Return a helper's key, by `_identity` and types of arguments; None if it cannot be stored."""
    classes = repr([*_classes(kinds)])
    text = repr((parts, kinds, classes, flags.get_mangle_string(), flags.forceinline))
    # Neither addresses nor classes that functions define identify anything in other processes.
    if " at 0x" in text or "<locals>" in classes:
        return None
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _classes(kinds: Iterable[Type]) -> Iterator[type]:
    """Yield the classes of named tuples, also nested: texts of types do not name their modules."""
    for kind in kinds:
        if isinstance(kind, types.BaseNamedTuple):
            yield kind.instance_class
        if isinstance(kind, types.BaseTuple):
            yield from _classes(kind.types)


def _add(result: compiler.CompileResult) -> None:
    """Add a helper to those to store, unless it, or something that it calls, cannot be stored."""
    library = result.library
    # Numba's runtime, "nrt", is linked by every entry itself.
    called = [_stored(other) for other in library._linking_libraries if other.name != "nrt"]
    if None in called or library.has_dynamic_globals:
        library.key = None
        return
    result.fndesc.typemap = result.fndesc.calltypes = None
    code = zlib.compress(library._final_module.as_bitcode(), 1)
    # A record: code, keys of what it calls, Numba's descriptor, and signature.
    helpers.add(library.key, (code, called, result.fndesc, result.signature))


def _stored(library: codegen.CodeLibrary) -> str | None:
    """Return the key of a library that a helper calls, or None if it cannot be stored."""
    if isinstance(library, HelperLibrary) or library.name not in NUMBAS:
        return getattr(library, "key", None)
    # One of Numba's own functions is stored here, under a hash of its code.
    code = library._get_module_for_linking().as_bitcode()
    key = hashlib.sha256(code).hexdigest()[:32]
    helpers.add(key, (zlib.compress(code, 1), [], None, None))
    return key


class StoredLibrary(HelperLibrary):
    """The code of a stored helper, which is read when it is linked."""

    def __init__(
        self, generator: codegen.CPUCodegen, key: str, code: bytes, called: list[HelperLibrary]
    ) -> None:
        """Take compressed bitcode, and the libraries that the helper calls."""
        super().__init__(generator, key)
        self.key, self._code, self._linking_libraries = key, code, called
        self._finalized = True

    @property
    def _final_module(self) -> ModuleRef:
        return binding.parse_bitcode(zlib.decompress(self._code))


# Libraries of stored helpers by key; None if the helper, or one that it calls, is missing.
_libraries: dict[str, HelperLibrary | None] = {}


def _library(generator: codegen.CPUCodegen, key: str) -> HelperLibrary | None:
    """Return the library of a helper; None if it, or something that it calls, is not stored."""
    if key in _compiled:
        return cast(HelperLibrary, _compiled[key].library)
    if key not in _libraries:
        # A record begins with the code, and the keys of what it calls (see `_add`).
        code, keys, *_ = helpers.find(key) or (b"", ())
        called = [found for other in keys if (found := _library(generator, other))]
        complete = code and len(called) == len(keys)
        _libraries[key] = StoredLibrary(generator, key, code, called) if complete else None
    return _libraries[key]


def _rebuilt(context: Context, key: str) -> compiler.CompileResult | None:
    """Return a stored helper as the result of Numba's compiler; None if it is not stored."""
    library = _library(context.codegen(), key)
    if library is None:
        return None
    # A record ends with Numba's descriptor and the signature (see `_add`).
    return _result(context, library, *helpers.find(key)[2:])


def _result(
    context: Context, library: HelperLibrary, description: Any, signature: Any
) -> compiler.CompileResult:
    """Return a helper as the result of a compilation, and register it with Numba's context."""
    # Made anew for each dispatcher: Numba removes the function from its tables with the dispatcher.
    environment = Environment.from_fndesc(description)
    function = callable_of(description, environment, library)
    context.insert_user_function(function, description, [library])
    return compiler.compile_result(
        target_context=context, typing_context=context.typing_context, entry_point=function,
        signature=signature, objectmode=False, lifted=(), fndesc=description, library=library,
        environment=environment, reload_init=[], metadata={},
    )  # fmt: skip
