"""Kernels on the workers of a cluster: compiled, or loaded, before tasks come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bvh.runtime.jit import all_recipes

if TYPE_CHECKING:
    from distributed import WorkerPlugin
else:
    try:
        from distributed import WorkerPlugin
    except ImportError:
        raise ImportError(
            'bvh.distributed.KernelPlugin needs distributed: pip install "raybvh[dask]"'
        ) from None


class KernelPlugin(WorkerPlugin):
    """Plugin of workers that has their kernels ready before tasks come.

    A worker loads the kernels from its cache, or compiles those that are not there. Workers that
    share a home directory share a cache, and compile each kernel once. Where a home cannot be
    written to, the cache is a temporary folder of the machine. Workers that join later do the same
    before they take tasks.

    Parameters
    ----------
    parts : sequence of str, optional
        Which kernels, by the names that ``bvh warmup --parts`` takes; all by default. Rays and
        trees need "trees and queries".

    Raises
    ------
    ValueError
        If there are no kernels of such a name; the message lists all names.
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

    def __init__(self, parts: Sequence[str] | None = None) -> None:
        known = all_recipes()
        wanted = (
            list(known) if parts is None else [parts] if isinstance(parts, str) else list(parts)
        )
        for part in wanted:
            if part not in known:
                raise ValueError(f"parts must be of {', '.join(known)}, got {part!r}")
        self._parts = wanted

    async def setup(self, worker: Any) -> None:
        """Compile or load the kernels, in a thread: a worker must answer meanwhile."""
        await asyncio.to_thread(self._warm)

    def _warm(self) -> None:
        recipes = all_recipes()
        for part in self._parts:
            recipes[part]()
