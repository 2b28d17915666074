"""Rays by the billion, and meshes larger than memory: Dask, and parts in files.

Each file imports only from those above it. `out_of_core` needs no Dask, and fsspec only
for URLs; the rest is for Dask arrays and clusters.

| file | contents |
|---|---|
| `part_folder.py` | Folder of a partitioned mesh: written part by part, and its index, read and checked |
| `fetched_files.py` | Local copies of fetched files, under names that contain their digests |
| `merging.py` | Merging of answers from parts of a mesh: the least by (t, id), the first k, sums, sorted lists |
| `out_of_core/` | Meshes larger than memory: cut into parts, each a tree in a file, and queried as one tree |
| `handles.py` | Handles of trees, scenes and parts, which stand for them in task graphs |
| `chunk_tasks.py` | Tasks of queries, one for each chunk of Dask arrays |
| `lazy_queries.py` | Queries of Dask arrays: results whose fields are Dask arrays of the same chunks, or lists |
| `ray_sources.py` | Sources of rays, which make the rays of a chunk in the task that casts them |
| `kernel_plugin.py` | Kernels on the workers of a cluster, ready before tasks, and memory that workers reuse |
"""

from importlib import import_module
from typing import Any

import bvh

_MODULES = bvh._modules_of(__spec__)

__all__ = sorted(_MODULES)
__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
