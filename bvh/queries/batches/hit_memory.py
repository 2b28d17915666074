"""Memory of a thread for all hits of rays: those of a ray block, and those of a chunk."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bvh.runtime.threads import Shelf
from bvh.traversal.rays.blocks import BLOCK
from bvh.traversal.rays.every_hit.all_hits import Pairs, new_columns, new_pairs
from bvh.traversal.rays.every_hit.visits import new_visits
from bvh.traversal.rays.hit_details import Columns
from bvh.traversal.rays.leaf_hits import new_found_hits, new_nearest_hits

# Hits of a ray block that there is memory for at first.
FIRST_CAPACITY = 16 * BLOCK


class HitMemory:
    """Memory of one thread: the hits of a ray block, and those of a chunk."""

    def __init__(self, ranked: int, ids: Any) -> None:
        self.ids = ids
        self.visits = new_visits()
        self.nearest = new_nearest_hits(max(ranked, 1), ids)
        self.state = np.zeros(3, np.int64)
        self.out: Columns = new_columns(FIRST_CAPACITY, ids)
        self.reserve(max(ranked * BLOCK, FIRST_CAPACITY))
        self.grown = False
        # How a single ray is given this memory (see `single_hits`); None before the first.
        self.single: Any = None

    def reserve(self, capacity: int) -> None:
        """Reserve memory for the hits of a ray block."""
        self.found = new_found_hits(capacity, self.ids)
        self.pairs: Pairs = new_pairs(capacity, self.ids)
        self.grown = True

    def enlarge_out(self, capacity: int) -> None:
        """Reserve memory for the hits of a chunk."""
        self.out = new_columns(capacity, self.ids)
        self.grown = True


# Kept from batch to batch, by the type of ids, as long as it has not grown.
HIT_SHELVES: dict[Any, Shelf[HitMemory]] = {
    ids: Shelf(partial(HitMemory, 0, ids)) for ids in (np.int32, np.int64)
}
