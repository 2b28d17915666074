"""Locks between processes that would compile the same kernel."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

from bvh.kernel_folders import KernelFolder

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
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def take(self, folder: KernelFolder, name: str) -> bool:
        """Wait until a lock is ours; False if another process may still hold it."""
        if folder.path / name in self._held:
            return True
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if self._taken(folder, name):
                    return True
            except OSError:
                return False
            if time.monotonic() > until:
                return False
            time.sleep(POLL_SECONDS)

    def _taken(self, folder: KernelFolder, name: str) -> bool:
        """Take a lock if nobody has it; raises OSError where there can be none."""
        path = folder.path / name
        file = folder.open(name, os.O_RDWR | os.O_CREAT)
        try:
            # Whoever held it before has removed the file: a lock on it keeps nobody out.
            if _lock(file) and folder.holds(file, name):
                self._held[path] = file
        finally:
            if path not in self._held:
                os.close(file)
        return path in self._held

    def give_up(self, folder: KernelFolder, name: str) -> None:
        """Let others have a lock, if it is ours."""
        file = self._held.pop(folder.path / name, None)
        if file is None:
            return
        # Windows removes no file that is open: there it stays, to be locked again.
        folder.remove(name)
        os.close(file)

    def _forget(self) -> None:
        """Leave the locks to the process that this one was forked from."""
        while self._held:
            os.close(self._held.popitem()[1])


# What a system says of a lock that somebody has; all else means that there are no locks.
TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)

if sys.platform == "win32":
    import msvcrt

    def _try(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _try(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock(file: int) -> bool:
    """Lock an open file if nobody has; raises OSError if the disk knows no locks."""
    try:
        _try(file)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        raise
    return True
