"""Ctrl-C while foreign code calls Python back, where an exception would get lost."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def held_back() -> Iterator[list[object]]:
    """Let SIGINT wait until the end of the block, and then do what it does.

    Python cannot raise a KeyboardInterrupt through a callback of ctypes: it prints and forgets it.
    Yields a list in which a signal that waits appears.
    """
    handler = signal.getsignal(signal.SIGINT)
    waiting: list[object] = []
    kept = False
    # Only the main thread runs handlers, and only it may set them. SIG_DFL and SIG_IGN are none.
    if callable(handler) and threading.current_thread() is threading.main_thread():
        # In the main thread of an interpreter that is not the main one, none can be set.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, lambda number, frame: waiting.append(frame))
            kept = True
    try:
        yield waiting
    finally:
        if kept:
            assert callable(handler)
            signal.signal(signal.SIGINT, handler)
            if waiting:
                handler(signal.SIGINT, None)
