"""Kernels on the workers of a cluster, ready before tasks, and memory that workers reuse."""

import asyncio
import ctypes
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bvh.distributed.out_of_core.open_parts import byte_count
from bvh.runtime.jit import all_recipes
from bvh.runtime.registry import extra

if TYPE_CHECKING:
    from distributed import WorkerPlugin
else:
    with extra("dask", "bvh.distributed.KernelPlugin needs distributed"):
        from distributed import WorkerPlugin

# Parameters of glibc's mallopt, and the largest M_MMAP_THRESHOLD that is set: larger blocks are
# never reused.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, LARGEST = -1, -3, 1 << 25


class KernelPlugin(WorkerPlugin):
    """Plugin of workers that prepares kernels before tasks, and reuses memory for arrays.

    A worker loads the kernels from its cache, or compiles those that are not there. Workers that
    share a home directory share a cache. Where a home cannot be written to, the cache is a
    temporary folder of the machine. Workers that join later do the same before they take tasks.

    Parameters
    ----------
    parts : sequence of str, optional
        Which kernels, by the names that ``bvh warmup --parts`` takes; all by default. Rays and
        trees need "trees and queries".
    keep_memory : int or str
        Bytes of freed memory that a worker reuses for its next arrays (with glibc). Dask makes its
        workers return all to the operating system, which takes a third of the time of casting rays;
        0 changes nothing.

    Raises
    ------
    ImportError
        If `distributed` is not installed: ``pip install "raybvh[dask]"``.

    Examples
    --------
    >>> from bvh.distributed import KernelPlugin
    >>> from distributed import Client
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     names = list(client.register_plugin(KernelPlugin(["builders"])).values())
    >>> names[0]["status"]
    'OK'
    """

    name = "bvh-kernels"

    def __init__(
        self, parts: Sequence[str] | None = None, *, keep_memory: int | str = "256MB"
    ) -> None:
        self._kept_bytes = byte_count("keep_memory", keep_memory)
        recipes = all_recipes()
        if not isinstance(parts, Sequence | None):
            raise TypeError(f"parts must be names of kernels, got {type(parts).__name__}")
        parts = [parts] if isinstance(parts, str) else parts
        self._parts = list(recipes if parts is None else parts)
        for part in self._parts:
            if part not in recipes:
                raise ValueError(f"parts must be of {', '.join(recipes)}, got {part!r}")

    async def setup(self, worker: Any) -> None:
        """Prepare a worker of Dask, in a thread, as it must answer its scheduler meanwhile."""
        await asyncio.to_thread(self._warm, worker.address)

    def _warm(self, address: str) -> None:
        """Compile or load the kernels, and set the memory that the worker at `address` reuses."""
        keep_freed_memory(self._kept_bytes)
        recipes = all_recipes()
        for part in self._parts:
            # The worker may have another version of bvh, with other kernels.
            if part not in recipes:
                raise ValueError(f"bvh on {address} has no kernels called {part!r}")
            recipes[part]()


def keep_freed_memory(size: int) -> bool:
    """Let malloc keep up to `size` freed bytes in a Dask worker; return whether it does.

    The nanny of a worker sets MALLOC_TRIM_THRESHOLD_ to 64 kB, so that the operating system clears
    each large array first: a third of the time of casting rays. Without that variable, glibc adapts
    itself, and nothing is changed.
    """
    if size <= 0 or "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    # Its values are C integers; it returns 1 if it has set the parameter.
    done = mallopt(M_TRIM_THRESHOLD, min(size, 2**31 - 1))
    return bool(done and mallopt(M_MMAP_THRESHOLD, min(size, LARGEST)))
