"""The code generator of kernels: a second one of Numba's, for another CPU.

Numba has one code generator for the process, for the host or ``NUMBA_CPU_NAME``. The second is for
the level that `cpu_levels` chooses, so that users' own kernels are compiled as without this
package. They can call and inline functions of this package, which are linked as LLVM code. All this
is private to Numba; if a version of it differs, Numba's own generator compiles the kernels.
"""

from typing import Any

from llvmlite import ir
from numba.core import base, codegen, cpu, registry, types

from bvh.runtime.compiler import cpu_levels
from bvh.runtime.compiler.code_types import Context
from bvh.runtime.interrupts import deferred_interrupts

_left_to_numba = False

# Results of `get_function`, which generate code for a call, by function and signature.
_found: dict[tuple[object, object], object] = {}


def leave_to_numba() -> None:
    """Let Numba's own generator compile kernels; call it before anything is compiled."""
    global _left_to_numba
    _left_to_numba = True
    cpu_levels.forget_target()


@cpu_levels.cached_for_target
def target() -> cpu_levels.Target:
    """Return the CPU that kernels are compiled for: the chosen one, or Numba's."""
    chosen = cpu_levels.chosen_target()
    # The level was chosen by numpy's list of features; if Numba detects fewer, its CPU is used.
    native = cpu_levels.NATIVE
    usable = [native, *cpu_levels.levels_of(*cpu_levels.numba_features())]
    has_generator = hasattr(codegen, "JITCPUCodegen") and hasattr(registry, "CPUTarget")
    if _left_to_numba or not has_generator or chosen.level not in usable:
        return cpu_levels.target_of(native)
    return chosen


def host_features() -> dict[str, bool]:
    """Return the features of the CPU that kernels are compiled for, by LLVM's names."""
    return cpu_levels.parsed(target().features)


@cpu_levels.cached_for_target
def kernel_context() -> Context:
    """Return Numba's target context for kernels."""
    numbas = registry.cpu_target.target_context
    _delay_interrupts(numbas.codegen())
    if _left_to_numba:
        return numbas
    context = numbas.subtarget()
    context.__class__ = KernelContext
    if target().level != cpu_levels.NATIVE:
        context._internal_codegen = _generator(target())
        _delay_interrupts(context.codegen())
    return context


class KernelContext(cpu.CPUContext):
    """Numba's target context, which imports its registries once, and not for each function."""

    def load_additional_registries(self) -> None:
        # Install new entries of registries that are imported; import all only if there are none.
        for imported in [*self._registries]:
            self.install_registry(imported)
        if not self._registries:
            super().load_additional_registries()

    def create_cfunc_wrapper(
        self, library: Any, fndesc: Any, env: object, call_helper: object
    ) -> None:
        """Add to a kernel's library the C function that calls it, for `jit.address_of`."""
        # A call of a kernel gives (status, result). Kernels never raise, so the status is ignored,
        # and `env` and `call_helper` too, by which Numba's wrapper would report exceptions.
        module = self.create_module("cfunc_wrapper")
        result, kinds = fndesc.restype, fndesc.argtypes
        kernel = ir.Function(
            module, self.call_conv.get_function_type(result, kinds), fndesc.llvm_func_name
        )
        kind = ir.FunctionType(self.get_value_type(result), map(self.get_value_type, kinds))
        wrapper = ir.Function(module, kind, fndesc.llvm_cfunc_wrapper_name)
        builder = ir.IRBuilder(wrapper.append_basic_block())
        builder.ret(self.call_conv.call_function(builder, kernel, result, kinds, wrapper.args)[1])
        library.add_ir_module(module)

    def get_function(self, fn: object, sig: object, _firstcall: bool = True) -> object:
        """Return the generator of code for a call of a function; found once for each signature."""
        # Numba asks for this at each use of an array. No registry has it; Numba would load all.
        if fn == "__array__":
            raise NotImplementedError
        if not isinstance(fn, str | types.Function):
            return super().get_function(fn, sig, _firstcall)
        if (fn, sig) not in _found:
            _found[fn, sig] = super().get_function(fn, sig, _firstcall)
        # A copy for this context: compilations with other flags have other contexts.
        found = object.__new__(base._wrap_impl)
        found.__dict__.update(_found[fn, sig].__dict__, _context=self)
        return found


def _generator(chosen: cpu_levels.Target) -> codegen.CPUCodegen:
    """Return a code generator like Numba's, but for the CPU `chosen`."""

    class Generator(codegen.JITCPUCodegen):
        def _get_host_cpu_name(self) -> str:
            return chosen.cpu

        def _get_host_cpu_features(self) -> str:
            return chosen.features

    return Generator("bvh.exec")


def _delay_interrupts(generator: codegen.CPUCodegen) -> None:
    """Delay Ctrl-C while LLVM emits machine code: its callbacks would lose the exception."""
    engine = generator._engine
    finalize = engine.finalize_object

    def finalize_object() -> None:
        with deferred_interrupts():
            finalize()

    engine.finalize_object = finalize_object
