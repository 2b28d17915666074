"""Decorators that compile kernels, with every Numba option of the package, and `warmup`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any, TypeVar, cast

from bvh.runtime.caller_warnings import BVHWarning
from bvh.runtime.compiler.code_types import (
    CodeGenerator,
    Dispatcher,
    Operation,
    Signature,
    Type,
    Value,
)
from bvh.runtime.compiler.compile_notice import notice
from bvh.runtime.compiler.deferred import Deferred, at_activation
from bvh.runtime.compiler.lazy_modules import extending, typeof, types
from bvh.runtime.interrupts import raise_lost_interrupts
from bvh.runtime.progress_bars import ProgressLike, heard
from bvh.runtime.registry import enrolled

__all__ = ["BVHWarning", "Dispatcher", "notice", "typeof", "types"]

F = TypeVar("F", bound=Callable[..., object])
Function = Callable[..., object]
Options = dict[str, object]

# Makers of dispatchers are imported when Numba is, before other threads can import them.
at_activation(lambda: import_module("bvh.runtime.compiler.dispatchers"))

# error_model="numpy": a division by zero gives inf or NaN instead of a test and an exception.
# nogil: threads of the batch runner work side by side.
# forceinline and fastmath are always given: a function inherits options that it does not have from
# the first caller that compiles it, which may be a user's fastmath kernel.
# No fastmath, not even "contract": a fused multiply-add where none is written breaks the
# error-free transformations, and inf/NaN have a meaning in the slab tests.
OPTIONS: Options = {"nogil": True, "error_model": "numpy", "fastmath": False, "forceinline": False}

# Wrappers for calls from C and Python cost a third of the compile time: entries are not called from
# C, helpers from neither.
NOT_FROM_C: Options = {"no_cfunc_wrapper": True}
NOT_FROM_PYTHON: Options = NOT_FROM_C | {"no_cpython_wrapper": True}


def _made_by(maker: str, function: Function, *more: object, **options: object) -> Dispatcher:
    """Return a dispatcher of `function`, made when it is needed by `maker` of `dispatchers`.

    Numba's options are OPTIONS and `options`; `more` are further arguments of the maker.
    """

    def make(function: Function) -> Any:
        from bvh.runtime.compiler import dispatchers

        return getattr(dispatchers, maker)(function, OPTIONS | options, *more)

    return cast(Dispatcher, Deferred(function, make))


def kernel(function: Function) -> Dispatcher:
    """Return a helper that kernels call, compiled when needed; it is not cached on its own."""
    return _made_by("helper", function, **NOT_FROM_PYTHON)


def inlined(function: Function) -> Dispatcher:
    """Return a small helper that is always inlined into the kernels that call it."""
    return _made_by("helper", function, **NOT_FROM_PYTHON | {"forceinline": True})


def called_by_address(function: Function) -> Dispatcher:
    """Return a function that kernels call by its address; `address_of` compiles it."""
    return _made_by("compiled", function, **NOT_FROM_PYTHON)


def method(function: Function) -> Dispatcher:
    """Return a kernel that Python calls as a built-in function (see `python_calls`), cached."""
    return _made_by("entry", function, no_cpython_wrapper=True)


def called_by_numba(function: Function) -> Dispatcher:
    """Return a cached kernel that Numba's own dispatcher calls, for what words cannot hold."""
    return _made_by("entry", function, **NOT_FROM_C)


def _operation(function: Callable[..., Operation], literal: bool) -> Any:
    """Return a deferred Numba intrinsic; if `literal`, types of constants have their values.

    `function` takes Numba's typing context and types of arguments, and returns (signature, codegen)
    for these, or None.
    """
    made = Deferred(function, lambda define: extending.intrinsic(prefer_literal=literal)(define))
    # Numba looks for new intrinsics before it compiles, so all are made at the activation.
    at_activation(lambda: made.real)
    return made


llvm_operation = partial(_operation, literal=False)
literal_operation = partial(_operation, literal=True)


def emits(emit: Callable[..., Value]) -> CodeGenerator:
    """Return the code generator of an intrinsic, whose code emit(builder, *arguments) writes."""
    return lambda context, builder, signature, args: emit(builder, *args)


@llvm_operation
def stay_outlined(typingctx):
    """Forbid inlining of the function that calls this operation: for rare, long code."""
    # Else LLVM inlines the exact arithmetic wherever it might be needed, and compilation takes ten
    # times as long.

    def codegen(context, builder, sig, args):
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), codegen


def by_type(function: Function | None = None, inline: bool = False) -> Callable[[F], F]:
    """Return a decorator of functions that choose, by Numba's types of arguments, what to compile.

    Calls of the decorated function, or of `function` if given, compile to what it returns, as with
    `numba.extending.overload`. With `inline`, that is always inlined into callers.
    """

    def register(choose: F) -> F:
        def register_at_numba() -> None:
            from bvh.runtime.compiler.dispatchers import HELPER

            options = OPTIONS | NOT_FROM_PYTHON | HELPER | {"forceinline": inline}
            extending.overload(function or choose, jit_options=options)(choose)

        at_activation(register_at_numba)
        return choose

    return register


def compiled_call(run: Function, function: Function, kinds: tuple[Type, ...]) -> Dispatcher:
    """Return the kernel `run`, a C function of an address, cached on disk as `function`.

    It reads arguments of types `kinds` from words (see `calls.words`), and calls `function`.
    """
    run.__module__, run.__qualname__ = function.__module__, function.__qualname__
    return _made_by("entry", run, function, kinds, no_cpython_wrapper=True)


def address_of(compiled: Dispatcher, signature: Signature | tuple[Type, ...]) -> int:
    """Compile a function for a signature; return the address of its code.

    Given a tuple of the types of arguments, it is a function of C; given a signature of Numba,
    which also has the type of the result, one of Numba's calling convention.
    """
    with raise_lost_interrupts():
        compiled.compile(signature)
    if isinstance(signature, tuple):
        arguments, symbol = signature, "llvm_cfunc_wrapper_name"
    else:
        arguments, symbol = signature.args, "llvm_func_name"
    result = compiled.overloads[arguments]
    return int(result.library.get_pointer_to_function(getattr(result.fndesc, symbol)))


# Functions that compile the package, by the name of the part that each compiles.
recipes: dict[str, Callable[[], object]] = {}


def warms(name: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Return a decorator of functions that compile the kernels of the part `name` by calls."""

    def register(recipe: Callable[[], object]) -> Callable[[], object]:
        recipes[name] = recipe
        return recipe

    return register


def all_recipes() -> dict[str, Callable[[], object]]:
    """Return the functions that compile the whole package, by the names of its parts."""
    for module in chain(*enrolled("modules of kernels")):
        import_module(module)
    return recipes


def families() -> list[list[str]]:
    """Return the names of all parts; a list for each family, of kernels that share most helpers."""
    parts_of: dict[str, list[str]] = {}
    for name, recipe in all_recipes().items():
        parts_of.setdefault(recipe.__module__, []).append(name)
    modules = enrolled("modules of kernels")
    return [[name for module in family for name in parts_of[module]] for family in modules]


def warmup(progress: Callable[[str, int, int], object] | ProgressLike | None = None) -> None:
    """Compile all kernels or load them from the cache, so that no query has to wait for them.

    Parameters
    ----------
    progress : callable, bool or bar of tqdm, optional
        Called as progress(part, done, total) before each part, and after the last with an empty
        `part`. True shows a bar of rich or tqdm; a bar of tqdm, or its class, is also accepted.

    Examples
    --------
    >>> import bvh
    >>> bvh.warmup(progress=True)  # doctest: +SKIP
    """
    from bvh.runtime.compiler.kernel_cache import prune_cache

    notice.silence()
    parts = all_recipes()
    with heard(progress) as callback:  # type: ignore[arg-type]

        def report(part: str, done: int) -> None:
            # A user's function takes the name of the part, too; the callback of a bar does not.
            if callback is not None:
                name = (part,) if callback is progress else ()
                callback(*name, done, len(parts))  # type: ignore[call-arg]

        for done, (part, recipe) in enumerate(parts.items()):
            report(part, done)
            recipe()
        report("", len(parts))
    prune_cache()
