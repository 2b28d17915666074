"""Numba's dispatchers of kernels, compiled by these pipelines, and cached."""

import warnings
from collections.abc import Callable
from typing import Any

import numba
from numba import extending
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaDebugInfoWarning

from bvh.runtime.cache.kernel_cache import KernelCache
from bvh.runtime.compiler.pipelines import entry_compiler, helper_compiler, of_general_types
from bvh.runtime.interrupts import raise_lost_interrupts

Function = Callable[..., object]
Options = dict[str, object]

HELPER: Options = {"pipeline_class": helper_compiler}
ENTRY: Options = {"pipeline_class": entry_compiler}

# Numba finds no line for a lambda: with NUMBA_DEBUGINFO, it would warn of those of this package.
warnings.filterwarnings("ignore", ".*<lambda>", NumbaDebugInfoWarning, r".*\Wbvh\W")


def compiled(function: Function, options: Options) -> Dispatcher:
    """Return the function with these options, to be compiled when it is first called."""
    return numba.njit(**options)(function)


def helper(function: Function, options: Options) -> Dispatcher:
    """Return a helper, compiled for types of arguments without the values of constants."""
    made = compiled(function, options | HELPER)
    return of_general_types(made) if isinstance(made, Dispatcher) else made


def entry(
    run: Function, options: Options, function: Function | None = None, kinds: Any = None
) -> Dispatcher:
    """Return a kernel that is cached on disk, as that of `function` for argument types `kinds`."""
    # By default, as that of `run` for each signature. With NUMBA_DISABLE_JIT, `made` is `run`.
    made = compiled(run, options | ENTRY)
    if isinstance(made, Dispatcher):
        made._cache = cache = KernelCache(function or run, kinds)
        made._compiler.compile = cache.attempted(made._compiler.compile)
        # The first call with such arguments loads or compiles, and frees what that leaves behind.
        made._compile_for_args = raise_lost_interrupts()(made._compile_for_args)
    return made


def choosing(function: Function, choose: Function, options: Options) -> None:
    """Let calls of a function compile to what `choose` returns for the types of arguments."""
    extending.overload(function, jit_options=options | HELPER)(choose)


def intrinsic(define: Callable[..., Any], prefer_literal: bool) -> Any:
    """Return an intrinsic; with `prefer_literal`, constants keep their values in their types."""
    return extending.intrinsic(prefer_literal=prefer_literal)(define)
