"""Kernels, compiled before the tests begin."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable

import numpy as np

import bvh
from bvh.runtime.cache.kernel_cache import cache_directory, notice
from bvh.runtime.compiler.warming import compile_together
from bvh.runtime.jit import all_recipes, families

# A cache that has fewer kernels is that of a first run.
FEW = 60


def compile_package(processes: int) -> None:
    """Compile what the package has, and what several tests need, if the cache is nearly empty."""
    folder = cache_directory()
    if folder is not None and len(list(folder.glob("bvh.*"))) < FEW:
        rays, *others = families()
        # What stands last in a family another process may take over.
        parts = [[*rays[:1], *OF_TESTS, *rays[1:]], *others]
        # What fails here fails in the test that needs it.
        with contextlib.suppress(OSError, RuntimeError):
            compile_together(processes, lambda done, total: None, parts, compile_part)


def compile_part(name: str) -> None:
    """Compile the kernels of one part of the package, or of tests."""
    notice.silence()
    # Compilers make and drop many objects; those that stay need not be looked at again and again.
    gc.freeze()
    (OF_TESTS.get(name) or all_recipes()[name])()


def all_hits_of_boxes() -> None:
    """Compile `all_hits` and `count_hits` of boxes and oriented boxes."""
    corners, rays = (np.zeros((1, 3)), np.ones((1, 3))), (np.ones((2, 3)), -np.ones((2, 3)))
    for tree in (bvh.BVH.from_boxes(*corners), bvh.BVH.from_obbs(*corners, np.eye(4)[None])):
        tree.all_hits(*rays)
        tree.count_hits(*rays)


OF_TESTS: dict[str, Callable[[], None]] = {"all hits of boxes": all_hits_of_boxes}
