"""Faces that count for a mask, among those that a query of all faces has found."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries.results import Overlaps


def counted_ids(
    groups: NDArray[np.uint32] | None, ids: NDArray[np.int32], mask: int
) -> NDArray[np.bool_]:
    """Return which of the faces `ids` share a bit with a mask; without groups they have all."""
    if groups is None:
        return np.full(len(ids), mask != 0)
    return np.asarray(groups[ids] & np.uint32(mask & 0xFFFFFFFF) != 0)


def only(found: Overlaps, kept: NDArray[np.bool_]) -> Any:
    """Return those entries of overlaps that are kept."""
    columns: dict[str, Any] = {
        name: column[kept]
        for name, column in vars(found).items()
        if name not in ("offsets", "shape")
    }
    offsets = np.append(0, np.cumsum(kept))[found.offsets].astype(np.int64)
    return replace(found, **columns, offsets=offsets)
