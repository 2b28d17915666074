"""Kernels compiled for a CPU that this machine need not have: optimised code, never run."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen

from bvh.runtime.compiler import cpu_levels
from bvh.runtime.compiler.cpu_levels import LEVELS, Target
from bvh.runtime.compiler.deferred import activate

# The system that each architecture's code is optimised for; others have the same code.
TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}


class _NoEngine:
    """In the place of an engine that would load machine code: only its symbols are known."""

    def __init__(self) -> None:
        self._defined: set[str] = set()

    def add_module(self, module: Any) -> None:
        self._defined |= {f.name for f in module.functions if not f.is_declaration}

    _load_defined_symbols = add_module

    def is_symbol_defined(self, name: str) -> bool:
        return name in self._defined

    def get_function_address(self, name: str) -> int:
        return 0

    def finalize_object(self) -> None:
        pass


class _Library(codegen.JITCodeLibrary):
    """Code without machine code."""

    def _get_compiled_object(self) -> bytes:
        return b""


def compile_for(level: str) -> None:
    """Let all kernels that this process compiles from now on be for a level of CPUs."""
    target = level_target(level)
    # Before other modules take it from there.
    cpu_levels.chosen_target = lambda: target
    # It chooses our compiler, before a part of it is imported.
    activate()
    from bvh.runtime.compiler import code_generator, compilation

    # Without a look at what this machine can run.
    code_generator.target = lambda: target
    triple = TRIPLES[LEVELS[level].architecture]

    class Generator(codegen.JITCPUCodegen):
        _library_class = _Library

        def _init(self, module: Any) -> None:
            # As Numba does, on a machine of that kind.
            self._tm = machine_of(target, triple)
            self._tm_features = target.features
            self._engine = _NoEngine()
            self._target_data = self._tm.target_data
            self._data_layout = str(self._target_data)
            self._loopvect, self._opt_level = False, 0

        def _create_empty_module(self, name: str) -> Any:
            module = super()._create_empty_module(name)
            module.triple = triple
            return module

        def set_env(self, env_name: str, env: Any) -> None:
            pass

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    code_generator._generator = lambda target: Generator("bvh.foreign")
    compilation.EntryLibrary._get_compiled_object = _Library._get_compiled_object
    if not isinstance(code_generator.kernel_context().codegen(), Generator):
        raise RuntimeError("kernels are left to Numba, which compiles for this machine alone")


def level_target(level: str) -> Target:
    """Return the target of a level, which this machine need not be able to run."""
    known = LEVELS[level]
    features = [f"+{name}" for name in known.features] + [f"-{name}" for name in known.without]
    return Target(level, known.cpu, ",".join(features))


def machine_of(target: Target, triple: str) -> Any:
    """Return LLVM's machine for code that may be loaded anywhere."""
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="default"
    )
