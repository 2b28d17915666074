"""Compilation ahead: a child process compiles kernels of rays while this one reads and builds."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from bvh.apps.cli.compiling import python_path
from bvh.queries.hierarchy import BVH
from bvh.runtime.cache.kernel_cache import kernel_shelves
from bvh.runtime.jit import cache_directory, notice
from bvh.scene.scene import Scene

PROGRAM = "from bvh.apps.cli.ahead import cast_at_nothing; cast_at_nothing({}, {})"

# Prefix of cache files of the kernel that takes longest to compile.
RAYS = "bvh.traversal.rays.closest_hit."

# Suffixes of scene files.
SCENES = (".glb", ".gltf")


def compile_ahead(path: Path, counters: bool) -> None:
    """Start a process that compiles kernels of rays, if there are none and a CPU is free.

    This process loads them from the cache when it needs them, or waits for their locks.

    Parameters
    ----------
    path : Path
        The file at whose content rays will be cast.
    counters : bool
        Whether visited nodes are counted.
    """
    if _cpus() < 2 or not _is_empty():
        return
    arguments = path.suffix.lower() in SCENES, counters
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM.format(*arguments)],
            env=os.environ | python_path(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        # No process can be started: then this one compiles.
        return
    # An unfinished kernel counts as absent.
    atexit.register(_end, child)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    child.wait()


def cast_at_nothing(scene: bool, counters: bool) -> None:
    """Cast rays at an empty tree or scene, which needs the same kernels."""
    # The parent process handles Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    notice.silence()
    empty: BVH | Scene = BVH.from_triangles([], [])
    if scene:
        tree, empty = empty, Scene()
        empty.add(tree)
    empty.closest_hit(np.zeros((2, 3)), np.ones((2, 3)), counters=counters)


def _is_empty() -> bool:
    """Return whether there is a writable cache without kernels of rays."""
    folder = cache_directory()
    try:
        return (
            folder is not None
            and os.access(folder, os.W_OK)
            and not kernel_shelves()
            and not any(name.startswith(RAYS) for name in os.listdir(folder))
        )
    except OSError:
        return False


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
