"""Work that is asked for more often than it can be done: the latest asking counts."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Latest:
    """Does some work in the thread that asks for it; who asks meanwhile has it done once more.

    Parameters
    ----------
    work : callable
        Takes nothing and looks for itself at what there is to do.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._lock = threading.Condition()
        self._busy = self._wanted = False

    def __call__(self) -> None:
        """Do the work now, or soon, should it be under way."""
        with self._lock:
            self._wanted = True
            if self._busy:
                return
            self._busy = True
        try:
            while self._begin():
                self._work()
        except BaseException:
            with self._lock:
                self._busy = False
                self._lock.notify_all()
            raise

    def rest(self, seconds: float) -> bool:
        """Wait until nothing is under way, at most so long; tell whether that is so."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._busy, seconds)

    def _begin(self) -> bool:
        """Take what is wanted; rest if nothing is."""
        with self._lock:
            self._busy, self._wanted = self._wanted, False
            if not self._busy:
                self._lock.notify_all()
            return self._busy
