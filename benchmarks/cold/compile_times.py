"""Compile times: of Numba's front end, of LLVM, and of the emission of machine code."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

COMPILE, LLVM, EMISSION = "numba:compile", "numba:llvm_lock", "emission"


class CompileTimes:
    """CPU seconds of this process by stage, from events of Numba and llvmlite.

    LLVM parses, links and optimises, and then emits machine code; all other work of Numba is its
    front end, which types functions and lowers them to LLVM's language.
    """

    def __init__(self) -> None:
        # Compiled functions, helpers included.
        self.functions = 0
        self._seconds: Counter[str] = Counter()
        self._depth: Counter[str] = Counter()

    def start(self) -> None:
        """Listen from now on; must be called before Numba is imported, and imports it."""
        from llvmlite.binding import ExecutionEngine

        finalize: Any = ExecutionEngine.finalize_object

        def finalize_object(engine: Any) -> None:
            self._change(EMISSION, 1)
            try:
                finalize(engine)
            finally:
                self._change(EMISSION, -1)

        # Numba's engine copies the method while it is imported.
        ExecutionEngine.finalize_object = finalize_object
        from numba.core import event

        class Listener(event.Listener):  # type: ignore[misc]
            def on_start(_, event: Any) -> None:
                self._change(event.kind, 1)

            def on_end(_, event: Any) -> None:
                self._change(event.kind, -1)

        for kind in (COMPILE, LLVM):
            event.register(kind, Listener())

    def figures(self) -> dict[str, float]:
        """Return the seconds of each stage so far, and the number of functions."""
        emission, whole = self._seconds[EMISSION], self._seconds[COMPILE]
        llvm = self._seconds[LLVM] - emission
        return {
            "front end": whole - llvm - emission, "LLVM": llvm, "emission": emission,
            "functions": self.functions,
        }  # fmt: skip

    def _change(self, kind: str, step: int) -> None:
        """Begin or end a stage: outermost ones add up, with the clock's reading as the amount."""
        # Kernels from the cache go through LLVM, too, but are not compiled.
        if kind != COMPILE and not self._depth[COMPILE]:
            return
        self.functions += kind == COMPILE and step == 1
        outermost = self._depth[kind] == (0 if step == 1 else 1)
        self._depth[kind] += step
        if outermost:
            self._seconds[kind] -= step * time.process_time()
