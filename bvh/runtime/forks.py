"""Forks of a process that compiles: no child starts with a lock that is never released.

A child has only the thread that forked. If another thread was compiling or loading a kernel,
Numba's lock would stay taken in the child for ever, and LLVM would be in an undefined state. So a
fork waits until no thread compiles. If that takes too long, or Ctrl-C interrupts it, the first
compilation in the child raises a RuntimeError.
"""

import _thread
import os
import threading
import time
from types import SimpleNamespace
from typing import Any

from bvh.runtime.interrupts import deferred_interrupts

# The longest that a fork waits; any single query compiles faster.
PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.05

# Owner of a re-entrant lock for the import of Numba, which two threads cannot import together.
activation: Any = SimpleNamespace(_lock=threading.RLock())
# Owners of the locks that forks take, as a child may replace their `_lock`: `activation`, and after
# their import those of Numba and llvmlite. In the order in which threads take the locks: a user's
# function, which is compiled with Numba's lock, may contain a kernel that activates this package.
_holders: list[Any] = [activation]


def guard_compiler() -> None:
    """Make forks take Numba's and LLVM's locks, too; called under `activation` after the import."""
    from llvmlite.binding import ffi
    from numba.core import compiler_lock, registry

    numbas, llvms = compiler_lock.global_compiler_lock, getattr(ffi.lib, "_lock", None)
    # Numba makes its contexts at their first use, under locks that forks do not take, and takes its
    # own lock for that: so here, while forks wait for `activation` alone.
    _ = registry.cpu_target.target_context
    _holders[:] = [x for x in (numbas, activation, llvms) if hasattr(x, "_lock")]


class _Fork(threading.local):
    """For each thread: the locks that its fork has taken, and whether it was interrupted."""

    taken: tuple[Any, ...] = ()  # those of a fork that began before this module was imported
    interrupted = False


_fork = _Fork()


class Refusal:
    """Replaces the compiler's lock in a child that cannot compile."""

    def acquire(self, *_: object) -> bool:
        raise RuntimeError(
            "this process was forked while another thread compiled, and cannot compile any more: "
            "call bvh.warmup() before forking, or start processes with the method 'spawn'"
        )

    __enter__ = acquire

    def release(self, *_: object) -> None:
        """Do nothing: it is never acquired."""

    __exit__ = release

    def _is_owned(self) -> bool:
        return False  # for Numba


def _take_locks() -> None:
    """Take the locks of all holders, before a fork; give up after a timeout or Ctrl-C."""
    _fork.taken, _fork.interrupted = (), False
    until = time.monotonic() + PATIENCE_SECONDS
    try:
        with deferred_interrupts() as signals:
            # Again if another thread, for whose activation this one has waited, has added holders:
            # Numba's lock must be taken first.
            while len(_fork.taken) < len(_holders):
                _release_taken()
                for holder in [*_holders]:
                    lock = holder._lock
                    while not lock.acquire(timeout=POLL_SECONDS):
                        if signals or time.monotonic() > until:
                            return
                    _fork.taken += (lock,)
    except BaseException:
        # Python ignores exceptions here; the parent is interrupted after the fork.
        _fork.interrupted = True


def _release_taken() -> None:
    """Release the locks that this thread's fork has taken."""
    for lock in reversed(_fork.taken):
        lock.release()
    _fork.taken = ()


def _release_locks() -> None:
    """Release the locks in the parent, and interrupt it if the fork was interrupted."""
    _release_taken()
    if _fork.interrupted:
        # Python ignores exceptions here, too: interrupt the main thread a little later.
        again = threading.Timer(POLL_SECONDS, _thread.interrupt_main)
        again.daemon = True
        again.start()


def _begin_child() -> None:
    """Release the locks in the child; replace them if the fork could not take all of them."""
    if len(_fork.taken) == len(_holders):
        _release_taken()
        return
    # Every compilation takes the first lock, and fails there. The others become usable, because
    # LLVM's objects are freed under its lock.
    for holder in _holders[1:]:
        holder._lock = threading.RLock()
    _holders[0]._lock = Refusal()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_take_locks, after_in_parent=_release_locks, after_in_child=_begin_child
    )


class ForkSafeLock:
    """A re-entrant lock that a forked child finds free, whichever thread of the parent has it.

    Use it as ``with guard.lock:``, which releases the lock that was acquired, also in a child that
    was forked inside the block and has a new one.
    """

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.lock = threading.RLock()
