"""Every Numba option of the package, and `warmup`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import extending
from numba.core import dispatcher

from bvh.compilation import ENTRY, HELPER
from bvh.kernel_cache import (
    BVHWarning,
    KernelCache,
    cache_directory,
    fingerprint,
    host_features,
    prune_cache,
)

__all__ = ["BVHWarning", "cache_directory", "fingerprint", "host_features", "prune_cache"]

# Numba's inside is untyped; what we use of it: its types, errors and compiled functions.
types: Any = numba.types
overload: Any = extending.overload
TypingError: Any = numba.core.errors.TypingError
typeof: Callable[[object], Any] = numba.typeof
Dispatcher: Any = dispatcher.Dispatcher

# error_model="numpy": a division by zero gives inf or NaN instead of a test and an exception.
# nogil: threads of the batch runner work side by side.
# forceinline and fastmath are said aloud in every case: Numba lets a function inherit what it does
# not say from the first caller that compiles it, a user's fastmath kernel among them.
# No fastmath, not even "contract": a fused multiply-add where none is written breaks the
# error-free transformations, and inf/NaN have a meaning in the slab tests.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": False,
    "forceinline": False,
}

# A helper that is only called by kernels needs no way in from Python or C, which costs a third of
# its compile time.
NOT_FROM_PYTHON: dict[str, Any] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a helper into the kernels that call it; it has no entry of its own in the cache."""
    return numba.njit(**OPTIONS | NOT_FROM_PYTHON | HELPER)(function)


def kept_kernel(function: Callable[..., Any]) -> Any:
    """Compile a helper of kernels that are made for a user's function, and keep it on disk.

    Those kernels are compiled in every process, and need not compile what they share.
    """
    return kernel(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a small helper that must melt into its caller (no call in an inner loop)."""
    return numba.njit(**OPTIONS | NOT_FROM_PYTHON | HELPER | {"forceinline": True})(function)


def alone(function: Callable[..., Any]) -> Any:
    """Compile a function with machine code of its own, which kernels call by its address."""
    return numba.njit(**OPTIONS | NOT_FROM_PYTHON)(function)


def llvm_operation(function: Callable[..., Any]) -> Any:
    """Make a function whose LLVM code is written by hand; it returns (signature, codegen)."""
    return extending.intrinsic(function)


def literal_operation(function: Callable[..., Any]) -> Any:
    """Make such a function whose constant arguments keep their values in their types."""
    return extending.intrinsic(prefer_literal=True)(function)


@llvm_operation
def stay_outlined(typingctx: Any) -> Any:
    """Keep the function that calls this out of its callers: for rare, long code.

    Without it LLVM copies the exact arithmetic into every place that might need it, and the
    compile time grows tenfold.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), codegen


def by_type(function: Callable[..., Any], melt: bool = False) -> Any:
    """Let the decorated function choose what `function` compiles to, by its arguments' types.

    With `melt` it melts into its caller, as what is `inlined` does.
    """
    return overload(function, jit_options=OPTIONS | NOT_FROM_PYTHON | HELPER | {"forceinline": melt})


def entry(function: Callable[..., Any]) -> Any:
    """Compile a kernel that Python calls, and keep its machine code on disk."""
    return _kept(numba.njit(**OPTIONS | ENTRY)(function), function)


def _kept(compiled: Any, function: Callable[..., Any]) -> Any:
    """Give a compiled function its place on disk."""
    # It is no dispatcher where Numba is switched off (NUMBA_DISABLE_JIT).
    if cache_directory() is not None and isinstance(compiled, Dispatcher):
        compiled._cache = cache = KernelCache(function)
        compiled._compiler.compile = cache.attempted(compiled._compiler.compile)
    return compiled


# What compiles the package, part by part.
recipes: list[tuple[str, Callable[[], None]]] = []


def warms(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a function that runs, and so compiles, one part of the package's kernels."""

    def register(recipe: Callable[[], None]) -> Callable[[], None]:
        recipes.append((name, recipe))
        return recipe

    return register


def warmup(progress: Callable[[str, int, int], object] | None = None) -> None:
    """Compile all kernels now, or load them from the cache, so that no query has to wait.

    Parameters
    ----------
    progress : callable, optional
        Called as progress(part, done, total) before each part and after the last.
    """
    for i, (name, recipe) in enumerate(recipes):
        if progress is not None:
            progress(name, i, len(recipes))
        recipe()
    if progress is not None:
        progress("", len(recipes), len(recipes))
    prune_cache()
