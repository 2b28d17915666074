"""The kernel cache of a function, made when the function is first compiled or loaded.

To make it is to read all sources and to look for a folder: what only imports the package, or asks
for its version, need not wait for that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from bvh.kernel_cache import KernelCache


class LateCache:
    """Stands for the `KernelCache` of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def real(self) -> Any:
        """The cache itself."""
        return KernelCache(self._function)

    def attempted(self, compiling: Callable[..., Any]) -> Callable[..., Any]:
        """Return what compiles, and tells the cache where it fails or is interrupted."""

        def attempt(*arguments: Any) -> Any:
            return self.real.attempted(compiling)(*arguments)

        return attempt

    def __getattr__(self, name: str) -> Any:
        if name in ("real", "_function"):
            raise AttributeError(name)
        return getattr(self.real, name)
