"""Runs a query over a batch of rays: chunks on threads, progress, interruption."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.rays import Hits, RayBatch, shaped
from bvh.traversal.block import Rays
from bvh.traversal.closest_hit import any_hits, closest_hits, new_scratch
from bvh.workers import Progress, share

# Rays in a chunk: long enough to hide the call (about 1 us), short enough to balance two threads
# and to hear Ctrl-C at once.
CHUNK = 4096
import os
PACKETS = np.int64(os.environ.get('PK','0'))


def closest_hit(
    arrays: Any, rays: RayBatch, cull: int, threads: int, progress: Progress | None
) -> Hits:
    """Return the nearest hit of each ray."""
    n = rays.size
    t, u, v = np.empty(n), np.empty(n), np.empty(n)
    prim_id, front = np.empty(n, np.int32), np.empty(n, np.bool_)

    def work(begin: int, end: int) -> None:
        closest_hits(
            arrays, Rays(*rays[:4]), new_scratch(), PACKETS, cull, begin, end,
            t, prim_id, u, v, front.view(np.uint8),
        )  # fmt: skip

    share(n, CHUNK, work, threads, progress)
    return Hits(*shaped(rays.shape, t, prim_id, u, v, front))


def any_hit(
    arrays: Any, rays: RayBatch, cull: int, threads: int, progress: Progress | None
) -> NDArray[np.bool_] | bool:
    """Tell for each ray whether it hits anything."""
    hit = np.empty(rays.size, np.bool_)

    def work(begin: int, end: int) -> None:
        any_hits(
            arrays, Rays(*rays[:4]), new_scratch(), PACKETS, cull, begin, end, hit.view(np.uint8)
        )  # fmt: skip

    share(rays.size, CHUNK, work, threads, progress)
    return shaped(rays.shape, hit)[0]  # type: ignore[no-any-return]
