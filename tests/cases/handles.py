"""How handles of task graphs travel."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from bvh.distributed.handles import Handle, mapped_content

RAYS = np.tile([[0.1, 0.2, 3.0]], (40, 1)), np.tile([[0.0, 0.0, -1.0]], (40, 1))


def lazily(target: Any) -> Any:
    """Return the lazy distances of RAYS, in chunks."""
    import dask.array as da

    origins, directions = (da.from_array(a, chunks=(10, 3)) for a in RAYS)
    return target.closest_hit(origins, directions).t


def there(handle: Any) -> Any:
    """Return a handle as another process gets it."""
    return pickle.loads(pickle.dumps(handle))


def kind_of(handle: Handle) -> str:
    """Return "mapped tree", "mapped scene", "scene", or "bytes" for what is pickled whole."""
    recipe = handle.recipe
    if not callable(recipe):
        return "bytes"
    return f"mapped {recipe.args[0]}" if recipe.func is mapped_content else "scene"


def checksum_of(handle: Handle) -> str:
    """Return the checksum of the file of a mapped tree or scene."""
    checksum: str = handle.recipe.args[2]
    return checksum


def trees_of(handle: Handle) -> list[Handle]:
    """Return the handles of the trees of a scene in memory."""
    trees: list[Handle] = handle.recipe.args[1]
    return trees
