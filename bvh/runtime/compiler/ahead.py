"""A process that compiles ahead what mostly follows: rays, while this process compiles a builder.

It is started by the first compilation of a process, where a CPU is idle that this one does not
need, and has a low priority from its first instruction on. What both need is compiled by one of
them, and the other waits for the file. After the first rays it goes on to other queries, where
nobody waits for it, ends with the process that has started it, and is not started again once it has
compiled all of them.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from bvh.runtime import jit
from bvh.runtime.cache.kernel_cache import cache_folder, kernel_shelves, notice
from bvh.runtime.cache.kernel_files import helpers, locked_file, locks
from bvh.runtime.cpus import default_threads, idle_cpus
from bvh.runtime.registry import enrolled

# ``off`` forbids the process; ``on`` starts it also where no CPU is idle.
SWITCH = "BVH_COMPILE_AHEAD"
# What it runs, given names of parts; its standard input ends with the process that has started it.
PROGRAM = """import os
if hasattr(os, "nice"): os.nice({})
from bvh.runtime.compiler.ahead import compile_ahead
compile_ahead({}, {})"""
# In the folder of kernels: what it locks, and what it leaves when it is done.
LOCK, DONE = "ahead.lock", "ahead.done"
NICENESS = 10
# CPUs without work from which on one is left for it: one is for this process.
IDLE = 1.5
# By whether rays are cast in scenes: what it compiles at once, and then at a low priority.
PARTS = {
    False: (["first rays"],
            ["trees and queries", "point queries", "filters and custom primitives"]),
    True: (["first rays in scenes", "first rays"],
           ["rays in scenes", "selections in a picture", "trees and queries"]),
}  # fmt: skip
# In the name of files of the kernel that takes longest to compile.
RAYS = ".closest_hits."

_begun = _scenes = False


def expect(scenes: bool) -> None:
    """Tell whether the first rays are cast in a scene, if that is known."""
    global _scenes
    _scenes = scenes


def start() -> None:
    """Start the process where it is of use, at the first call."""
    global _begun
    if _begun:
        return
    _begun = True
    # No process or thread can be started, or a setting is wrong, which a query tells.
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        if not is_wanted():
            return
        folder: Any = cache_folder()
        first = not any(RAYS in name for name in folder.names())
        _start(*PARTS[_scenes])
        from bvh.runtime.compiler.pipelines import own_pipelines

        if first and own_pipelines():
            # A builder takes less time than rays, which these are a part of.
            enrolled("helpers of rays")()
            helpers.store()


def is_wanted() -> bool:
    """Return whether there is an idle CPU and something to compile, and this process may say so."""
    folder = cache_folder()
    if os.environ.get(SWITCH, "").lower() == "off" or folder is None or default_threads() < 2:
        return False
    # One of many that do the same: of multiprocessing, joblib, or Dask.
    processes, workers = map(sys.modules.get, ("multiprocessing.process", "distributed.worker"))
    if processes is not None and processes.current_process().name != "MainProcess":
        return False
    if workers is not None and len(workers.Worker._instances):
        return False
    # In a frozen or embedding program this is not Python, and would start the program again.
    name = os.path.basename(sys.executable or "").lower()
    if getattr(sys, "frozen", False) or not name.startswith("python"):
        return False
    if kernel_shelves() or DONE in folder.names() or not os.access(folder.path, os.W_OK):
        return False
    lock = locked_file(folder, LOCK)
    if lock is None:
        return False
    os.close(lock)
    if os.environ.get(SWITCH, "").lower() == "on":
        return True
    # Last, as it takes a tenth of a second.
    idle = idle_cpus()
    return idle is None or idle >= IDLE


def _start(first: Sequence[str], then: Sequence[str]) -> None:
    folder: Any = cache_folder()
    # What this process has imported; no folder that is relative, whatever is in it by now.
    paths = os.pathsep.join(path for path in sys.path if os.path.isabs(path))
    settings = {"PYTHONPATH": paths, "BVH_CACHE_DIR": str(folder.path.parent)}
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM.format(NICENESS, first, then)],
        env={**os.environ, **settings}, cwd=folder.path, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        # On Windows: no window, and a low priority.
        creationflags=0x0800_4000 if sys.platform == "win32" else 0,
    )  # fmt: skip
    atexit.register(_end, child, os.getpid())
    # No zombie is left when it ends first.
    threading.Thread(target=child.wait, name="bvh ahead", daemon=True).start()


def _end(child: "subprocess.Popen[bytes]", parent: int) -> None:
    """End the process at the exit of the one that has started it, not at that of a fork."""
    if os.getpid() == parent:
        # An unfinished kernel counts as absent, its lock as free.
        child.terminate()
        child.wait()


def compile_ahead(first: Sequence[str], then: Sequence[str]) -> None:
    """Compile parts, and then others; the program of the process."""
    # The process that has started this one handles Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    notice.silence()
    folder: Any = cache_folder()
    # The lock is kept until this process ends; its folder is that of the other process, unless
    # that has changed Numba's settings since.
    if not os.path.samefile(folder.path, ".") or locked_file(folder, LOCK) is None:
        return
    families = enrolled("modules of kernels")
    # Rays in trees and in scenes are in these; all modules take longer to import.
    for module in families[0][: len(first)]:
        import_module(module)
    for name in first:
        jit.recipes[name]()
    # From here on, this process is not waited for.
    locks.waived = hasattr(os, "nice")
    for name in then:
        jit.all_recipes()[name]()
    with contextlib.suppress(OSError):
        folder.write(DONE, b"")
    # Numba is not taken apart.
    os._exit(0)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)
