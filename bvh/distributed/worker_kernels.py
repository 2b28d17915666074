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

    A worker compiles kernels that are not in its cache, or loads them. Workers that share a home
    directory share a cache, and compile each kernel once. Where a home cannot be written to, the
    cache is a temporary folder of the machine.

    Parameters
    ----------
    parts : sequence of str, optional
        What to have ready, as ``bvh warmup --parts`` names it; all by default.

    Examples
    --------
    >>> from bvh.distributed import KernelPlugin
    >>> from distributed import Client
    >>> with Client(processes=False, dashboard_address=None) as client:
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
