"""What a command will ask, compiled by another process while this one reads and builds."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

import bvh
from bvh.jit import cache_directory, notice
from bvh.kernel_cache import kernel_shelves
from bvh.scene import Scene
from bvh.tree import BVH

PROGRAM = "from bvh.commands.ahead import ask_nothing; ask_nothing({}, {})"

# The kernel of rays, which is most of what there is to compile.
RAYS = "bvh.traversal.closest_hit."

# Files that hold scenes, as far as their names tell.
SCENES = (".glb", ".gltf")


def compile_ahead(path: Path, counters: bool) -> None:
    """Start a process that compiles kernels of rays, where there are none and a CPU is free.

    This process finds them in the cache when it needs them, or waits for what is left to do.

    Parameters
    ----------
    path : Path
        The file that rays are cast at.
    counters : bool
        Whether what they visit is counted.
    """
    if _cpus() < 2 or not _is_empty():
        return
    asked = path.suffix.lower() in SCENES, counters
    room = [str(Path(bvh.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    settings = {"PYTHONPATH": os.pathsep.join(filter(None, room))}
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM.format(*asked)],
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        # No room for another process, or no interpreter: then this one compiles.
        return
    # What is half done by then counts as absent.
    atexit.register(_end, child)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    child.wait()


def ask_nothing(scene: bool, counters: bool) -> None:
    """Cast rays at a tree or a scene of nothing: it needs the same kernels, and few to build."""
    # The process that has started this one hears Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    notice.silence()
    nothing: BVH | Scene = BVH.from_triangles([], [])
    if scene:
        tree, nothing = nothing, Scene()
        nothing.add(tree)
    nothing.closest_hit(np.zeros((2, 3)), np.ones((2, 3)), counters=counters)


def _is_empty() -> bool:
    """Tell whether a cache is there to be filled, and nothing has filled it yet."""
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
