"""A kernel that another process compiles while this one prepares to call it.

The kernel that casts rays takes half of the time of a first command, and a tree must be built
before it is called.
"""

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
    by any version, if there is a single CPU, or if a fork is not safe: outside Linux, and while
    this process has other threads. The other process stores the kernel in the folder that both use,
    and ends when this one exits.
    """
    setting = os.environ.get("BVH_CACHE_DIR", "")
    stored = setting.lower() != "off" and not (PACKAGE / "linked").exists()
    helps = stored and allowed_cpus() > 1 and not _is_compiled(name, setting)
    if helps and sys.platform == "linux" and active_count() == 1:
        from multiprocessing import get_context

        process = get_context("fork").Process(target=_call_silently, args=(work,), daemon=True)
        process.start()
        _compiling[name] = process, meanwhile
        if share is not None:
            _shares.append(share)


def take_part() -> None:
    """Do the share of this process in what others compile, once its arguments have been checked."""
    while _shares:
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
    return any(path for root in cache_roots(setting) for path in root.glob(f"*/{name}.*"))


def _call_silently(work: Callable[[], None]) -> None:
    """Call work() without output, and ignore Ctrl-C, which is for the process that started this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What fails here is tried again by that process, which prints errors and warnings.
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    work()
