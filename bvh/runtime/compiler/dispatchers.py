"""Numba's dispatchers of kernels, with our compilers where they suit its version."""

import os
import warnings
from collections.abc import Callable
from typing import Any

import numba
from numba import extending, types
from numba.core import event, sigutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaDebugInfoWarning

from bvh.runtime.cache.kernel_cache import KernelCache
from bvh.runtime.compiler.code_generator import leave_to_numba
from bvh.runtime.interrupts import raise_lost_interrupts

Function = Callable[..., object]
Options = dict[str, object]

try:
    if os.environ.get("BVH_PLAIN_COMPILER") == "1":
        raise ImportError("asked for")
    from bvh.runtime.compiler.compilation import EntryCompiler
    from bvh.runtime.compiler.kept_helpers import KeptHelperCompiler
except (ImportError, AttributeError):
    # Another version of Numba: it compiles kernels as it does any function, and takes longer.
    leave_to_numba()
    HELPER: Options = {}
    ENTRY: Options = {}
else:
    HELPER = {"pipeline_class": KeptHelperCompiler}
    ENTRY = {"pipeline_class": EntryCompiler}

# Numba finds no line for a lambda, and would say so of ours wherever NUMBA_DEBUGINFO is set.
warnings.filterwarnings("ignore", ".*<lambda>", NumbaDebugInfoWarning, r".*\Wbvh\W")


def compiled(function: Function, options: Options) -> Dispatcher:
    """Return the function with these options, to be compiled when it is first called."""
    return numba.njit(**options)(function)


def helper(function: Function, options: Options) -> Dispatcher:
    """Return a helper, compiled for the types of its arguments, constants included."""
    # Numba compiles it again for each value of a constant, such as the row that an accessor reads.
    made = compiled(function, options | HELPER)
    if isinstance(made, Dispatcher):
        template = made.get_call_template

        def of_types(args, kws):
            general = tuple(types.unliteral(arg) for arg in args)
            return template(general, {name: types.unliteral(arg) for name, arg in kws.items()})

        def compile_quietly(signature):
            kinds, result = sigutils.normalize_signature(signature)
            if kinds not in made.overloads:
                told = event.trigger_event("numba:compile", {"dispatcher": made, "args": kinds})
                with global_compiler_lock, made._compiling_counter, told:
                    made.add_overload(made._compiler.compile(kinds, result))
            return made.overloads[kinds].entry_point

        made.get_call_template = of_types
        if HELPER:
            # Numba times each, by events of all that it calls.
            made.compile = compile_quietly
    return made


def entry(
    run: Function, options: Options, function: Function | None = None, kinds: Any = None
) -> Dispatcher:
    """Return a kernel that is cached on disk; as another function, for types of arguments."""
    made = compiled(run, options | ENTRY)
    if isinstance(made, Dispatcher):
        made._cache = cache = KernelCache(function or run, kinds)
        made._compiler.compile = cache.attempted(made._compiler.compile)
        # The first call with such arguments loads or compiles, and frees what that leaves behind.
        made._compile_for_args = raise_lost_interrupts()(made._compile_for_args)
    return made


def choosing(function: Function, choose: Function, options: Options) -> None:
    """Let a function compile to what another chooses by the types of arguments."""
    extending.overload(function, jit_options=options | HELPER)(choose)


def intrinsic(define: Callable[..., Any], prefer_literal: bool) -> Any:
    """Return an intrinsic; with `prefer_literal`, constants keep their values in their types."""
    return extending.intrinsic(prefer_literal=prefer_literal)(define)
