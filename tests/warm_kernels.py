"""Kernels, compiled before the tests begin."""

from __future__ import annotations

import contextlib
import gc
import zlib
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np

import bvh
from bvh.runtime.compiler.kernel_cache import cache_directory
from bvh.runtime.compiler.warming import compile_together
from bvh.runtime.jit import all_recipes, families, notice


def compile_package(processes: int) -> None:
    """Compile what the package has, and what several tests need, unless a note says it is there.

    Kernels of which some are there, as after a change, are completed.
    """
    note = f"compiled-for-tests-{zlib.crc32(repr([*OF_TESTS]).encode()):08x}"
    folder = cache_directory()
    if folder is not None and not (folder / note).exists():
        rays, *others = families()
        # Another process may take over the last parts of a family.
        parts = [[*rays[:1], *OF_TESTS, *rays[1:]], *others]
        # An error here comes up again in the test that needs the kernel.
        with contextlib.suppress(OSError, RuntimeError):
            compile_together(processes, lambda done, total: None, parts, compile_part)
            (folder / note).touch()


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


def compact_groups() -> None:
    """Compile the queries of compact trees, and what refits them."""
    tree = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]], memory="compact")
    rays = np.ones((2, 3)), -np.ones((2, 3))
    tree.closest_hit(*rays)
    tree.any_hit(*rays)
    for edges in ("once", "closed"):
        tree.all_hits(*rays, edges=edges)
        tree.count_hits(*rays, edges=edges)
    tree.all_hits(*rays, max_hits=2)
    tree.closest_point(rays[0])
    tree.closest_point(rays[0], k=3)
    tree.contains(rays[0])
    tree.refit(np.eye(3) * 2.0)


def exceptions_of_users() -> None:
    """Compile what raises the exception of a user's function."""

    @numba.njit
    def fails(ray_id, prim_id, t, u, v, data):
        raise ValueError

    with contextlib.suppress(ValueError):
        bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]]).closest_hit(
            np.ones((2, 3)), -np.ones((2, 3)), filter=fails
        )


# Beside the parts of the package, what ordinary tests need: `.ci/run` fails where a kernel is
# compiled when a test first needs it, as another process may then wait for it.
OF_TESTS: dict[str, Callable[[], None]] = {
    "all hits of boxes": all_hits_of_boxes, "compact groups": compact_groups,
    "exceptions of users": exceptions_of_users,
}  # fmt: skip


def stored() -> set[str]:
    """Return the names of the package's kernels in the cache."""
    folder = cache_directory()
    return set() if folder is None else {path.name for path in folder.glob("bvh.*")}


def stored_at(kernel: str) -> float:
    """Return when a kernel in the cache was stored."""
    return (cache_directory() or Path()).joinpath(kernel).stat().st_mtime
