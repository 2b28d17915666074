"""Where compiling goes: Numba's front end, LLVM, and the emission of machine code."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

COMPILE, LLVM = "numba:compile", "numba:llvm_lock"


class CompileTimes:
    """CPU seconds of this process, by what Numba and llvmlite tell of themselves.

    LLVM parses, links and optimises, and then emits machine code; all else that Numba does while it
    compiles is its front end: it types functions and writes them down for LLVM.
    """

    def __init__(self) -> None:
        # Functions that have been compiled, helpers among them.
        self.functions = 0
        self._seconds: Counter[str] = Counter()
        self._depth: Counter[str] = Counter()
        self._began: dict[str, float] = {}

    def start(self) -> None:
        """Listen from now on; must come before Numba is imported, which it does."""
        from llvmlite.binding import ExecutionEngine

        finalize: Any = ExecutionEngine.finalize_object

        def finalize_object(engine: Any) -> None:
            self._enter("emission")
            try:
                finalize(engine)
            finally:
                self._leave("emission")

        # Numba's own engine takes the method over while it is imported.
        ExecutionEngine.finalize_object = finalize_object
        from numba.core import event

        class Listener(event.Listener):  # type: ignore[misc]
            def on_start(_, event: Any) -> None:
                self._enter(event.kind)

            def on_end(_, event: Any) -> None:
                self._leave(event.kind)

        for kind in (COMPILE, LLVM):
            event.register(kind, Listener())

    def figures(self) -> dict[str, float]:
        """Return the seconds of each part so far, and the number of functions."""
        emission, whole = self._seconds["emission"], self._seconds[COMPILE]
        llvm = self._seconds[LLVM] - emission
        return {
            "front_end": whole - llvm - emission, "llvm": llvm, "emission": emission,
            "functions": self.functions,
        }  # fmt: skip

    def _enter(self, kind: str) -> None:
        # What is loaded from the cache goes through LLVM, too, and is not compiled.
        if kind != COMPILE and not self._depth[COMPILE]:
            return
        self.functions += kind == COMPILE
        if not self._depth[kind]:
            self._began[kind] = time.process_time()
        self._depth[kind] += 1

    def _leave(self, kind: str) -> None:
        if not self._depth[kind]:
            return
        self._depth[kind] -= 1
        if not self._depth[kind]:
            self._seconds[kind] += time.process_time() - self._began[kind]
