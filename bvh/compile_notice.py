"""One line for whoever waits at a terminal while something compiles."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

# What takes less is not worth a line.
AFTER_SECONDS = 3.0


class CompileNotice:
    """Says once in a process that a kernel is being compiled, while it is."""

    def __init__(self) -> None:
        self._wanted = True
        self._depth = 0
        self._timer: threading.Timer | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def silence(self) -> None:
        """Say nothing in this process: somebody asked for this very work."""
        self._wanted = False

    def begin(self, line: str) -> None:
        """Note that a kernel is missing; of those compiled inside others, the first is told of."""
        self._depth += 1
        if self._depth == 1 and self._wanted and _is_terminal():
            self._timer = threading.Timer(AFTER_SECONDS, self._say, (line,))
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Note that it is there, or will not be."""
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _say(self, line: str) -> None:
        if self._wanted:
            self._wanted = False
            # Whatever is wrong with the terminal is no reason to fail.
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()

    def _forget(self) -> None:
        """Leave what is under way to the process that this one was forked from."""
        self._depth, self._timer = 0, None


def _is_terminal() -> bool:
    """Tell whether somebody may be reading; a program without a console has no stderr at all."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False
