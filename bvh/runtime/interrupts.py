"""Ctrl-C where Python would lose it: in callbacks of foreign code and in finalizers."""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[list[object]]:
    """Defer SIGINT to the end of the block, and then call its handler.

    Python cannot raise a KeyboardInterrupt through a callback of ctypes: it prints and ignores it.
    Yields a list, to which an item is appended when a signal is deferred.
    """
    handler: Any = signal.getsignal(signal.SIGINT)
    waiting: list[object] = []
    # Only the main thread runs handlers, and only it may set them; SIG_DFL and SIG_IGN are not
    # callable. ValueError: in the main thread of a subinterpreter, no handler can be set.
    deferred = callable(handler) and _in_main_thread()
    try:
        if deferred:
            signal.signal(signal.SIGINT, lambda number, frame: waiting.append(frame))
    except ValueError:
        deferred = False
    try:
        yield waiting
    finally:
        if deferred:
            signal.signal(signal.SIGINT, handler)
            if waiting:
                handler(signal.SIGINT, None)


@contextlib.contextmanager
def raise_lost_interrupts() -> Iterator[Callable[[], None]]:
    """Raise a KeyboardInterrupt at the end of a block in which Python has discarded it.

    Python prints and ignores an exception in a finalizer (LLVM's objects have one each) or in a
    callback of a weak reference. A call of the function that this yields raises it earlier.
    """
    lost: list[BaseException] = []

    def check() -> None:
        if lost:
            raise lost.pop()

    if not _in_main_thread():
        yield check
        return
    hook = sys.unraisablehook

    def note(unraisable: Any) -> None:
        # Exits are noted as well as interrupts, because a handler of signals may raise SystemExit.
        if isinstance(unraisable.exc_value, Exception):
            hook(unraisable)
        else:
            lost.append(unraisable.exc_value or unraisable.exc_type())

    sys.unraisablehook = note
    try:
        yield check
    finally:
        sys.unraisablehook = hook
    check()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
