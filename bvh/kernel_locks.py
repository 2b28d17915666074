"""Locks between processes that would compile the same kernel."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

# The longest that anyone waits; no kernel takes that long. Then it is compiled twice.
PATIENCE_SECONDS = 300.0
POLL_SECONDS = 0.05


class KernelLocks:
    """The locks that this process holds, each a file that is gone when it is given up.

    The system gives up the locks of a process that ends, however it ends. Nothing depends on them
    but time: where a disk knows no locks, or somebody waits too long, a kernel is compiled twice.
    """

    def __init__(self) -> None:
        self._held: dict[Path, int] = {}

    def take(self, path: Path) -> bool:
        """Wait until a lock is ours; False if another process may still hold it."""
        if path in self._held:
            return True
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            except OSError:
                return False
            if _lock(file):
                # Whoever held it before has removed the file: a lock on it keeps nobody out.
                if _is_at(file, path):
                    self._held[path] = file
                    return True
            elif time.monotonic() > until:
                os.close(file)
                return False
            else:
                time.sleep(POLL_SECONDS)
            os.close(file)

    def give_up(self, path: Path) -> None:
        """Let others have a lock, if it is ours."""
        file = self._held.pop(path, None)
        if file is None:
            return
        # Windows removes no file that is open: there it stays, to be locked again.
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(file)


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> bool:
        """Lock an open file if nobody has."""
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(file: int) -> bool:
        """Lock an open file if nobody has."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False
