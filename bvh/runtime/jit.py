"""Decorators that compile kernels, with every Numba option of the package, and `warmup`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import Parameter, Signature
from typing import Any

import numba
from numba import extending
from numba.core import dispatcher

from bvh.runtime.cache.kernel_cache import (
    BVHWarning,
    LateCache,
    cache_directory,
    fingerprint,
    notice,
    prune_cache,
)
from bvh.runtime.compiler.code_generator import host_features, leave_to_numba
from bvh.runtime.interrupts import raise_lost_interrupts
from bvh.runtime.progress_bars import ProgressLike, heard

__all__ = [
    "BVHWarning", "cache_directory", "fingerprint", "host_features", "notice", "prune_cache",
]  # fmt: skip

try:
    if os.environ.get("BVH_PLAIN_COMPILER") == "1":
        raise ImportError("asked for")
    from bvh.runtime.compiler.compilation import EntryCompiler, HelperCompiler
except (ImportError, AttributeError):
    # Another version of Numba: it compiles kernels as it does any function, and takes longer.
    leave_to_numba()
    HELPER: dict[str, Any] = {}
    ENTRY: dict[str, Any] = {}
else:
    HELPER = {"pipeline_class": HelperCompiler}
    ENTRY = {"pipeline_class": EntryCompiler}

# Numba's internals are untyped.
types: Any = numba.types
overload: Any = extending.overload
TypingError: Any = numba.core.errors.TypingError
typeof: Callable[[object], Any] = numba.typeof
Dispatcher: Any = dispatcher.Dispatcher

# error_model="numpy": a division by zero gives inf or NaN instead of a test and an exception.
# nogil: threads of the batch runner work side by side.
# forceinline and fastmath are always given: a function inherits options that it does not have from
# the first caller that compiles it, which may be a user's fastmath kernel.
# No fastmath, not even "contract": a fused multiply-add where none is written breaks the
# error-free transformations, and inf/NaN have a meaning in the slab tests.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": False,
    "forceinline": False,
}

# Wrappers for calls from C and Python cost a third of the compile time: entries are not called from
# C, helpers from neither.
NOT_FROM_C: dict[str, Any] = {"no_cfunc_wrapper": True}
NOT_FROM_PYTHON: dict[str, Any] = NOT_FROM_C | {"no_cpython_wrapper": True}


def _compiled(function: Any, **options: Any) -> Any:
    """Return the function with these options, to be compiled when it is first called."""
    # Numba computes the signature twice, which is half of its work at an import.
    code = function.__code__
    variable = function.__defaults__ or function.__kwdefaults__ or code.co_flags & VARIABLE
    if not variable and code.co_kwonlyargcount == code.co_posonlyargcount == 0:
        function.__signature__ = _signature(code.co_varnames[: code.co_argcount])
    compiled = numba.njit(**OPTIONS | options)(function)
    # Others get the signature with annotations.
    for one in (function, compiled):
        vars(one).pop("__signature__", None)
    return compiled


# Flags of functions with *arguments or **arguments.
VARIABLE = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


@cache
def _signature(names: tuple[str, ...]) -> Signature:
    return Signature([_parameter(name) for name in names])


@cache
def _parameter(name: str) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a helper that kernels call; it is not cached on its own."""
    return _for_types(_compiled(function, **NOT_FROM_PYTHON | HELPER))


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a small helper that is always inlined into its callers."""
    return _for_types(_compiled(function, **NOT_FROM_PYTHON | HELPER | {"forceinline": True}))


def _for_types(compiled: Any) -> Any:
    """Compile a helper for the types of its arguments, constants included.

    Numba compiles it again for each value of a constant, such as the row that an accessor reads.
    """
    if isinstance(compiled, Dispatcher):
        template = compiled.get_call_template

        def of_types(args: Any, kws: Any) -> Any:
            general = tuple(types.unliteral(arg) for arg in args)
            return template(general, {name: types.unliteral(arg) for name, arg in kws.items()})

        compiled.get_call_template = of_types
    return compiled


def alone(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels call by its address."""
    return numba.njit(**OPTIONS | NOT_FROM_PYTHON)(function)


def llvm_operation(function: Callable[..., Any]) -> Any:
    """Make an intrinsic from a function that returns (signature, codegen)."""
    return extending.intrinsic(function)


def literal_operation(function: Callable[..., Any]) -> Any:
    """Make an intrinsic whose constant arguments keep their values in their types."""
    return extending.intrinsic(prefer_literal=True)(function)


@llvm_operation
def stay_outlined(typingctx: Any) -> Any:
    """Forbid inlining of the function that calls this: for rare, long code.

    Without it LLVM inlines the exact arithmetic wherever it might be needed, which makes compile
    times ten times as long.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), codegen


def by_type(function: Callable[..., Any], inline: bool = False) -> Any:
    """Make the decorated function choose what `function` compiles to, by its arguments' types.

    With `inline` it is always inlined into its callers, as by `inlined`.
    """
    return overload(
        function, jit_options=OPTIONS | NOT_FROM_PYTHON | HELPER | {"forceinline": inline}
    )


def entry(function: Callable[..., Any]) -> Any:
    """Compile a kernel that Python calls, and cache its machine code on disk."""
    return _kept(_compiled(function, **NOT_FROM_C | ENTRY), function)


def _kept(compiled: Any, function: Callable[..., Any]) -> Any:
    """Attach the disk cache to a compiled function."""
    if isinstance(compiled, Dispatcher):
        compiled._cache = cache = LateCache(function)
        compiled._compiler.compile = cache.attempted(compiled._compiler.compile)
        # The first call with such arguments loads or compiles, and frees what that leaves behind.
        compiled._compile_for_args = raise_lost_interrupts()(compiled._compile_for_args)
    return compiled


def address_of(compiled: Any, signature: Any) -> int:
    """Compile a function for a signature; return the address of its machine code.

    It has the calling convention of compiled functions, not that of C. 0 where this version of
    Numba does not give the address.
    """
    compiled.compile(signature)
    try:
        result = compiled.overloads[signature.args]
        return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))
    except AttributeError:
        return 0


# Functions that compile the package, by the name of the part that each compiles.
recipes: dict[str, Callable[[], None]] = {}

# The modules that register such functions. Those of a family share most of their helpers, so that
# one process compiles them in half the time of several: rays, single shapes, trees, overlaps.
# Another process takes over from the end of a family.
FAMILIES = (
    ("queries.hierarchy", "scene.scene", "queries.refitting", "kernels"),
    ("geometry.transforms", "geometry.triangles", "geometry.boxes", "geometry.obbs",
     "geometry.planes", "geometry.spheres", "io.polygons", "picking.outlines",
     "scene.flattened_instances"),
    ("tree.build", "tree.epo", "tree.tlas", "tree.world_bounds", "io.untrusted"),
    ("queries.batches.overlap_batches", "scene.instance_pairs"),
)  # fmt: skip


def warms(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a function that compiles one part of the package's kernels by running them."""

    def register(recipe: Callable[[], None]) -> Callable[[], None]:
        recipes[name] = recipe
        return recipe

    return register


def all_recipes() -> dict[str, Callable[[], None]]:
    """Return the functions that compile the whole package, by the names of its parts."""
    for family in FAMILIES:
        for module in family:
            import_module(f"bvh.{module}")
    return recipes


def families() -> list[list[str]]:
    """Return the names of all parts, in a list for each family."""
    homes: dict[str, list[str]] = {}
    for name, recipe in all_recipes().items():
        homes.setdefault(recipe.__module__, []).append(name)
    return [[name for module in family for name in homes[f"bvh.{module}"]] for family in FAMILIES]


def warmup(progress: Callable[[str, int, int], object] | ProgressLike | None = None) -> None:
    """Compile all kernels or load them from the cache, so that no query has to wait for them.

    Parameters
    ----------
    progress : callable, bool or bar of tqdm, optional
        Called as progress(part, done, total) before each part and after the last. True shows a bar,
        of rich or tqdm; of tqdm, a bar or the class will do, too.
    """
    notice.silence()
    parts = all_recipes()
    with heard(progress) as report:  # type: ignore[arg-type]
        # A function is also given the name of the part, a bar is not.
        call: Any = progress if report is progress else lambda _, *count: report and report(*count)
        for i, (name, recipe) in enumerate(parts.items()):
            if report is not None:
                call(name, i, len(parts))
            recipe()
        if report is not None:
            call("", len(parts), len(parts))
    prune_cache()
