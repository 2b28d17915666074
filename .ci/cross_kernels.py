"""Compile kernels for 64-bit Arm on another machine, as .ci/arm64 does.

    python .ci/cross_kernels.py KERNELS FINGERPRINT

KERNELS is a folder of kernels that this machine has compiled for itself: it says which functions
are wanted, for which types. They are compiled again, for Linux on arm64, and stored in
BVH_CACHE_DIR under FINGERPRINT, which a Python of that kind gives. Emulated, that Python would take
twenty times as long to compile them.
"""

from __future__ import annotations

import pickle
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen, registry

from bvh.runtime.cache import kernel_cache
from bvh.runtime.cache.kernel_versions import KernelVersion
from bvh.runtime.compiler import code_generator, compilation
from bvh.runtime.compiler.cpu_levels import LEVELS, Target

TRIPLE = "aarch64-unknown-linux-gnu"
LEVEL = "aarch64"
CPU = Target(LEVEL, LEVELS[LEVEL].cpu, ",".join(f"+{name}" for name in LEVELS[LEVEL].features))


class NoEngine:
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


class ObjectLibrary(codegen.JITCodeLibrary):
    """Code that is emitted when it is stored, and not loaded."""

    def _get_compiled_object(self) -> bytes:
        return bytes(self._codegen._tm.emit_object(self._final_module))


class CrossGenerator(codegen.JITCPUCodegen):
    """Numba's code generator, for a CPU that this machine has not."""

    _library_class = ObjectLibrary

    def _init(self, module: Any) -> None:
        # As Numba does on arm64.
        self._tm = llvm.Target.from_triple(TRIPLE).create_target_machine(
            cpu=CPU.cpu, features=CPU.features, opt=codegen.config.OPT, reloc="default",
            codemodel="jitdefault", jit=True,
        )  # fmt: skip
        self._tm_features = CPU.features
        self._engine = NoEngine()
        self._target_data = self._tm.target_data
        self._data_layout = str(self._target_data)
        self._loopvect, self._opt_level = False, 0

    def _create_empty_module(self, name: str) -> Any:
        module = super()._create_empty_module(name)
        module.triple = TRIPLE
        return module

    def set_env(self, env_name: str, env: Any) -> None:
        pass


def cross_context() -> Any:
    """Return Numba's target context for kernels of arm64."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    generator = CrossGenerator("bvh.cross")
    return registry.cpu_target.target_context.subtarget(_internal_codegen=generator)


def retarget(known: str) -> None:
    """Let all that is compiled from now on be for arm64, and be stored under its fingerprint."""
    context = cross_context()
    code_generator.target = kernel_cache.target = lambda: CPU
    code_generator.kernel_context = kernel_cache.kernel_context = lambda: context
    kernel_cache.version_of = lambda package: KernelVersion(known, known)
    compilation.kernel_context = lambda: context
    compilation.EntryLibrary._get_compiled_object = ObjectLibrary._get_compiled_object


def wanted(folder: Path) -> list[tuple[str, str, Any]]:
    """Return module, name and types of arguments of all kernels in a folder."""
    found = []
    for file in sorted(folder.iterdir()):
        if file.suffix != ".lock" and not file.name.startswith(("sources-", "tmp")):
            _, description, *_ = pickle.loads(file.read_bytes()[32:])
            found.append((description.modname, description.qualname, description.argtypes))
    return found


def main() -> None:
    folder, known = Path(sys.argv[1]), sys.argv[2]
    retarget(known)
    for module, name, kinds in wanted(folder):
        try:
            compiled = getattr(import_module(module), name)
        except (ImportError, AttributeError):
            # Of a test that makes its kernels itself.
            continue
        compiled.compile(kinds)


if __name__ == "__main__":
    main()
