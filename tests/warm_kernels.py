"""The package's kernels, compiled before the tests begin."""

from __future__ import annotations

import contextlib

from bvh.runtime.cache.kernel_cache import notice
from bvh.runtime.compiler.warming import compile_together
from bvh.runtime.jit import all_recipes, cache_directory, families

# A cache that has fewer kernels is that of a first run.
FEW = 60


def compile_package(processes: int) -> None:
    """Fill the cache of kernels, if it is nearly empty."""
    folder = cache_directory()
    if folder is not None and len(list(folder.glob("bvh.*"))) < FEW:
        # What fails here fails in the test that needs it.
        with contextlib.suppress(OSError, RuntimeError):
            compile_together(processes, lambda done, total: None, families(), compile_part)


def compile_part(name: str) -> None:
    """Compile the kernels of one part of the package."""
    notice.silence()
    all_recipes()[name]()
