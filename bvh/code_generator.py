"""The code generator of our kernels: Numba's, told another CPU.

Numba has one for the process, told of the host's CPU or of ``NUMBA_CPU_NAME``. Ours is a second one
beside it, for the level that `cpu_levels` chooses, so that a user's own kernels are compiled as
they would be without us, whichever are first. They can call and inline our functions: those are
linked as LLVM's code, not as machine code. Everything here is private to Numba; where it is not
found as expected, kernels are compiled by Numba's own generator, for what that is told.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numba  # noqa: F401 (whole before its parts: threads may import at once)
from numba.core import codegen as _codegen
from numba.core import registry as _registry

from bvh.cpu_levels import NATIVE, Target, parsed, target_of, wanted_target
from bvh.interrupts import held_back

codegen: Any = _codegen
registry: Any = _registry


_left_to_numba = False


def leave_to_numba() -> None:
    """Let Numba's own generator compile kernels; to be said before anything is compiled."""
    global _left_to_numba
    _left_to_numba = True


@lru_cache(maxsize=1)
def target() -> Target:
    """Return what kernels are compiled for."""
    wanted = wanted_target()
    known = hasattr(codegen, "JITCPUCodegen") and hasattr(registry, "CPUTarget")
    return target_of(NATIVE) if _left_to_numba or not known else wanted


def host_features() -> dict[str, bool]:
    """The CPU features that kernels are compiled for, as LLVM is told."""
    return parsed(target().features)


@lru_cache(maxsize=1)
def kernel_context() -> Any:
    """Return Numba's target context for kernels: made when one is first loaded or compiled."""
    context = registry.cpu_target.target_context
    _hear_interrupts(context.codegen())
    if target().level == NATIVE:
        return context
    generator = _generator(target())
    _hear_interrupts(generator)
    return context.subtarget(_internal_codegen=generator)


def _generator(target: Target) -> Any:
    class Generator(codegen.JITCPUCodegen):  # type: ignore[misc]
        def _get_host_cpu_name(self) -> str:
            return target.cpu

        def _get_host_cpu_features(self) -> str:
            return target.features

    return Generator("bvh.exec")


def _hear_interrupts(generator: Any) -> None:
    """Let Ctrl-C wait while LLVM asks for machine code, or hands it over.

    That is done in callbacks, where it would be lost. LLVM itself hears nothing anyway.
    """
    engine = generator._engine
    finalize = engine.finalize_object

    def finalize_object() -> None:
        with held_back():
            finalize()

    engine.finalize_object = finalize_object
