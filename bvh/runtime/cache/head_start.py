"""A kernel that another process compiles while this one prepares to call it.

The kernel that casts rays takes half of the time of a first command, and a tree must be built
before it is called.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from threading import active_count
from typing import TYPE_CHECKING

from bvh.runtime.cache.kernel_folders import cache_roots
from bvh.runtime.cache.kernel_sources import PACKAGE
from bvh.runtime.cpus import allowed_cpus

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

# The option of Linux's prctl by which a process gets a signal when its parent ends.
PR_SET_PDEATHSIG = 1

# Calls by which this process helps others to compile, until it has begun.
_shares: list[Callable[[], None]] = []
# Processes that compile, and what this one does before it waits for them, by the name of the
# function, which begins the names of its files.
_compiling: dict[str, tuple["BaseProcess", Callable[[], None] | None]] = {}


def compile_meanwhile(
    name: str, work: Callable[[], None], share: Callable[[], None] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> None:  # fmt: skip
    """Call work(), which compiles the function `name`, in another process; do not wait.

    This process calls share(), which lowers some of the helpers of `name`, in `take_part`. When it
    must wait for the function, it first calls meanwhile(), to compile what comes next.

    It does nothing if kernels are linked or not stored, if the function has been compiled before,
    by any version, if there is a single CPU, if no process can be started, or if a fork is not
    safe: outside Linux, and while this process has other threads. The other process stores the
    kernel in the folder that both use, and ends with this one, however that ends.
    """
    setting = os.environ.get("BVH_CACHE_DIR", "")
    stored = setting.lower() != "off" and not (PACKAGE / "linked").exists()
    helps = stored and allowed_cpus() > 1 and not _is_compiled(name, setting)
    if helps and sys.platform == "linux" and active_count() == 1:
        from multiprocessing import get_context

        arguments = work, os.getpid()
        process = get_context("fork").Process(target=_call_silently, args=arguments, daemon=True)
        # The mask stays in the other process: Ctrl-C is for this one.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        except OSError:
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _compiling[name] = process, meanwhile
        if share is not None:
            _shares.append(share)


def take_part() -> None:
    """Do the share of this process in what others compile, once its arguments have been checked."""
    while _shares:
        # What fails here is compiled with the kernel, whose errors are raised.
        with contextlib.suppress(Exception):
            _shares.pop()()


def wait_for(name: str) -> bool:
    """Wait for a process that compiles the function `name`; return whether one succeeded."""
    process, meanwhile = _compiling.pop(name, (None, None))
    if process is None:
        return False
    if meanwhile is not None and process.is_alive():
        meanwhile()
    process.join()
    return process.exitcode == 0


def _is_compiled(name: str, setting: str) -> bool:
    """Return whether a folder of kernels has a file of the function `name`.

    Folders are not compared with the fingerprint of this version, which takes half a second.
    """
    try:
        return any(path for root in cache_roots(setting) for path in root.glob(f"*/{name}.*"))
    except OSError:  # of a name that is too long, or a folder that is removed meanwhile
        return True


def _call_silently(work: Callable[[], None], parent: int) -> None:
    """Call work() without output; end with the process `parent`, even if that is killed."""
    # What fails here is tried again by that process, which prints errors and warnings. Its readers
    # wait until nobody has its pipes.
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() == parent:
        work()
