"""Which pipelines compile kernels: the package's own, or Numba's where these fail.

The package's own are private to Numba's versions. So the first compilation tries them on a small
kernel; where that raises anything, Numba compiles kernels as any function: with the same results,
but several times as slowly.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numba  # whole before its parts: threads may import at once
from numba.core import compiler, registry, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from bvh.runtime.compiler.code_generator import leave_to_numba
from bvh.runtime.registry import enrolled

Function = Callable[..., Any]


class Own(NamedTuple):
    """The package's own pipelines."""

    helper: Function
    entry: Function
    compile_helper: Function  # (dispatcher, signature)


_decided = False
_own: Own | None = None


def own_pipelines() -> Own | None:
    """Return the package's own pipelines, or None for Numba's; the first call decides."""
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
                _own = _imported()
                _try()
        except Exception as error:  # another version of Numba may raise any
            _own = None
            leave_to_numba()
            enrolled("warnings at the line of the caller")(
                f"kernels are compiled by Numba's own pipeline, several times as slowly: that of "
                f"bvh does not work with Numba {numba.__version__} "
                f"({type(error).__name__}: {error})"
            )
        except BaseException:
            _decided, _own = False, None
            raise
    return _own


def _imported() -> Own:
    from bvh.runtime.compiler.compilation import EntryCompiler, compile_helper
    from bvh.runtime.compiler.kept_helpers import KeptHelperCompiler

    return Own(KeptHelperCompiler, EntryCompiler, compile_helper)


def _try() -> None:
    """Compile a small kernel with a helper, to test the pipelines."""

    def dispatcher(function: Function, pipeline: Function) -> Dispatcher:
        # Without `nopython`, a failure would be followed by a trial in Python's object mode.
        options = {"nopython": True, "no_cpython_wrapper": True}
        return registry.CPUDispatcher(function, targetoptions=options, pipeline_class=pipeline)

    def twice(pair, axis):
        return 2.0 * pair[axis]

    helper = of_general_types(dispatcher(twice, helper_compiler))

    def power(number, count):
        for _ in range(count):
            number = helper((number, 1.0), 0)
        return number

    dispatcher(power, entry_compiler).compile((types.float64, types.int64))


def helper_compiler(*state: object) -> Any:
    """Return the compiler of a helper."""
    own = own_pipelines()
    return (own.helper if own else compiler.Compiler)(*state)


def entry_compiler(*state: object) -> Any:
    """Return the compiler of an entry."""
    own = own_pipelines()
    return (own.entry if own else compiler.Compiler)(*state)


def of_general_types(helper: Dispatcher) -> Dispatcher:
    """Have a helper compiled for the types of its arguments, without the values of constants."""
    # Numba would compile it again for each value of a constant, such as the row of an accessor.
    template, compile_by_numba = helper.get_call_template, helper.compile

    def of_types(args, kws):
        if own_pipelines() is None:
            return template(args, kws)
        general = tuple(types.unliteral(arg) for arg in args)
        return template(general, {name: types.unliteral(arg) for name, arg in kws.items()})

    def compile_for(signature):
        own = own_pipelines()
        return own.compile_helper(helper, signature) if own else compile_by_numba(signature)

    helper.get_call_template, helper.compile = of_types, compile_for
    return helper
