"""Rays by the billion, and meshes larger than memory: Dask, and parts in files.

`parts` and `partitioning` need nothing but NumPy; the rest is for Dask arrays and clusters.

| file | content |
|---|---|
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bvh.distributed.lazy_lists import LazyLists, join
    from bvh.distributed.parts import Parts
    from bvh.distributed.ray_sources import RaySource, camera_rays
    from bvh.distributed.worker_kernels import KernelPlugin

__all__ = ["KernelPlugin", "LazyLists", "Parts", "RaySource", "camera_rays", "join"]

_MODULES = {
    "KernelPlugin": "worker_kernels",
    "LazyLists": "lazy_lists",
    "Parts": "parts",
    "RaySource": "ray_sources",
    "camera_rays": "ray_sources",
    "join": "lazy_lists",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
