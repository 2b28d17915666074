"""A line of text on the terminal, or in a notebook, while a kernel is compiled."""

import contextlib
import os
import sys
import threading
import time

# Shorter compilations, as of a user's filter, print nothing.
AFTER_SECONDS = 0.5
# The width of a line, padded so that it overwrites a progress bar.
LINE = 79


class CompileNotice:
    """Prints one line per process if a compilation takes long, and sums the time of all."""

    def __init__(self) -> None:
        self.enabled = True
        # The number of nested compilations under way; when the outermost began; the seconds that
        # past ones took. A forked child has no compilation under way.
        self._depth, self._since, self._spent = 0, 0.0, 0.0
        self._timer: threading.Timer | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def silence(self) -> None:
        """Print nothing in this process: the user has asked to compile."""
        self.enabled = False

    def begin(self, line: str) -> None:
        """Note the start of a compilation; if it takes long, print `line`, unless it is nested."""
        self._depth += 1
        if self._depth > 1:
            return
        self._since = time.perf_counter()
        if self.enabled and _is_read():
            self._timer = threading.Timer(AFTER_SECONDS, self._print, (line,))
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Note the end of a compilation, successful or not."""
        self._depth -= 1
        if self._depth == 0:
            self._spent += time.perf_counter() - self._since
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    @property
    def busy(self) -> bool:
        """Whether a kernel is being compiled, or loaded, in this process."""
        return self._depth > 0

    def clock(self) -> float:
        """Return seconds, for differences; the clock stands still during compilations."""
        now = time.perf_counter()
        return (self._since if self._depth else now) - self._spent

    def _print(self, line: str) -> None:
        """Print the line, the first and last of this process."""
        if self.enabled:
            self.enabled = False
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"\r{line:<{LINE}}\n" if sys.stderr.isatty() else f"{line}\n")
                sys.stderr.flush()

    def _forget(self) -> None:
        """Reset in a forked child: compilations under way are the parent's."""
        self._depth, self._timer = 0, None


def _is_read() -> bool:
    """Return whether somebody reads stderr: at a terminal, or below the cell of a notebook."""
    # A program without a console has no stderr.
    try:
        # A notebook shows the stream of its Jupyter kernel, although that is no terminal.
        shown = type(sys.stderr).__module__.startswith("ipykernel.")
        # While a progress bar of rich is shown, its stream stands for the terminal.
        stream = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
        return stream is not None and (shown or stream.isatty())
    except (AttributeError, ValueError):
        return False


notice = CompileNotice()
