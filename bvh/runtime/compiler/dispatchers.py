"""Numba's dispatchers of kernels, and which pipelines compile them: the package's own, or Numba's.

The package's own are private to Numba's versions. So the first compilation tries them on a small
kernel; where that raises anything, Numba compiles kernels as any function: with the same results,
but several times as slowly.
"""

import os
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import numba  # whole before its parts: threads may import at once
from numba.core import compiler, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaDebugInfoWarning

from bvh.runtime.cache.kernel_files import helpers
from bvh.runtime.caller_warnings import warn_caller
from bvh.runtime.compiler.code_generator import leave_to_numba
from bvh.runtime.compiler.deferred import real_of
from bvh.runtime.compiler.kernel_cache import KernelCache, cache_folder
from bvh.runtime.interrupts import raise_lost_interrupts

Function = Callable[..., Any]
Options = dict[str, object]

# Numba finds no line for a lambda: with NUMBA_DEBUGINFO, it would warn of those of this package.
warnings.filterwarnings("ignore", ".*<lambda>", NumbaDebugInfoWarning, r".*\Wbvh\W")

# Whether it is known which pipelines compile; the module of the package's own, or None for Numba's.
_decided = False
_own: ModuleType | None = None


def own_pipelines() -> ModuleType | None:
    """Return the module of the package's own compilers, or None; the first call decides."""
    global _decided, _own
    with global_compiler_lock:
        if _decided:
            return _own
        # Set before the trial, which calls this function, too.
        _decided = True
        try:
            if os.environ.get("BVH_PLAIN_COMPILER") == "1":
                leave_to_numba()
            else:
                # Imported here, because another version of Numba may lack something that it needs.
                _own = import_module("bvh.runtime.compiler.stored_helpers")
                _try()
        except Exception as error:  # another version of Numba may raise any
            _own = None
            leave_to_numba()
            warn_caller(
                f"kernels are compiled by Numba's own pipeline, several times as slowly: that of "
                f"bvh does not work with Numba {numba.__version__} "
                f"({type(error).__name__}: {error})"
            )
        except BaseException:
            _decided, _own = False, None
            raise
    return _own


def _try() -> None:
    """Compile a small kernel with a helper, to test the pipelines."""

    def twice(pair, axis):
        return 2.0 * pair[axis]

    options: Options = {"no_cpython_wrapper": True}
    doubled = helper(twice, options)

    def power(number, count):
        for _ in range(count):
            number = doubled((number, 1.0), 0)
        return number

    compiled(power, options | ENTRY).compile((types.float64, types.int64))


def _compiler(name: str, *state: object) -> Any:
    """Return the package's compiler of class `name`, or Numba's, for Numba's arguments `state`."""
    own = own_pipelines()
    return (getattr(own, name) if own else compiler.Compiler)(*state)


HELPER: Options = {"pipeline_class": partial(_compiler, "StoredHelperCompiler")}
ENTRY: Options = {"pipeline_class": partial(_compiler, "EntryCompiler")}


def compiled(function: Function, options: Options) -> Dispatcher:
    """Return Numba's dispatcher of a function, which is compiled when it is first called."""
    if numba.config.DISABLE_JIT:
        raise ValueError("NUMBA_DISABLE_JIT must not be set: bvh runs compiled kernels only")
    return numba.njit(**options)(function)


def helper(function: Function, options: Options) -> Dispatcher:
    """Return the dispatcher of a helper, which is compiled once for all values of constants."""
    # Numba would compile it again for each value of a constant, such as the row of an accessor.
    made = compiled(function, options | HELPER)
    numbas_template, compile_by_numba = made.get_call_template, made.compile

    def template_for(args, kws):
        if own_pipelines() is None:
            return numbas_template(args, kws)
        general = tuple(types.unliteral(arg) for arg in args)
        return numbas_template(general, {name: types.unliteral(arg) for name, arg in kws.items()})

    def compile_for(signature):
        own = own_pipelines()
        return own.compile_helper(made, signature) if own else compile_by_numba(signature)

    made.get_call_template, made.compile = template_for, compile_for
    return made


def entry(
    run: Function, options: Options, function: Function | None = None, kinds: Any = None
) -> Dispatcher:
    """Return the dispatcher of `run`, cached on disk as `function` for argument types `kinds`."""
    # By default, it is cached as `run` for each signature.
    made = compiled(run, options | ENTRY)
    made._cache = cache = KernelCache(function or run, kinds, own_pipelines)
    made._compiler.compile = cache.attempted(made._compiler.compile)
    # The first call with such arguments loads or compiles, and frees what that leaves behind.
    made._compile_for_args = raise_lost_interrupts()(made._compile_for_args)
    return made


@raise_lost_interrupts()
def lower(function: Function, *arguments: object) -> None:
    """Lower a helper for the types of `arguments`, and store it for other processes."""
    made = real_of(function)
    if own_pipelines() is not None:
        helpers.use_folder(cache_folder())
        made.compile(tuple(map(numba.typeof, arguments)))
        helpers.store()
