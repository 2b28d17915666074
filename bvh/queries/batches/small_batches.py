"""Small batches of plain rays: one call of the kernel, with little more than that around it.

Arguments that are what kernels take as they come are told apart sooner than they are checked and
converted, which takes as long as a hundred rays. All others go the way of `ray_batches`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries.answers.hit_points import source_of
from bvh.queries.batches.ray_batches import (
    BOOL,
    MIN_BLOCKS,
    NO_PERMUTATION,
    SHELF,
    kernel_for,
)
from bvh.queries.results import Hits, SceneHits, new_object
from bvh.runtime.cpus import settings
from bvh.runtime.jit import entry_points
from bvh.traversal.rays.candidates import ClosestGoal
from bvh.traversal.rays.closest_hit import no_measurements
from bvh.traversal.rays.hit_details import Columns
from bvh.traversal.rays.ray_batch import AUTO, Order, Rays
from bvh.traversal.rays.ray_memory import BLOCK
from bvh.tree.instanced import Instanced, hit_codes, ids_of, owners_of
from bvh.tree.primitives import Custom

# Rays of a small batch.
MOST = MIN_BLOCKS * BLOCK

UNMEASURED = no_measurements()
CLOSEST, ANY = ClosestGoal(False, 0), ClosestGoal(True, 0)
NOTHING, NO_IDS, NO_CODES = np.empty(0), np.empty(0, np.int32), np.empty(0, np.int64)

# As of `_searched` of trees and scenes.
Searched = tuple[Any, object, Any]


def closest_hit(searched: Searched, rays: Rays) -> Hits | None:
    """Return the closest hit of each ray; None where more must be done for it."""
    arrays, owner, whole = searched
    n, primitives = len(rays.origins), arrays.primitives
    t, u, v, front = np.empty(n), np.empty(n), np.empty(n), np.empty(n, BOOL)
    prim_id = np.empty(n, ids_of(primitives))
    if not _run(arrays, rays, n, CLOSEST, (prim_id, t, u, v, front)):
        return None
    if type(primitives) is not Instanced:
        # Without the slow `__init__` of a frozen class.
        hits = new_object(Hits)
        hits.__dict__.update(t=t, prim_id=prim_id, u=u, v=v, front=front)
        if whole is None:
            hits.__dict__["_source"] = source_of(arrays, None, rays)
            return hits
        # A merged tree is over triangles, which need no rays.
        hits.__dict__["_source"] = owner, owner.moves, None  # type: ignore[attr-defined]
        named: Hits = whole.named(hits)
        return named
    leaf, prim_id = hit_codes(prim_id)
    owners = owners_of(primitives, leaf)
    found = new_object(SceneHits)
    found.__dict__.update(
        t=t, prim_id=prim_id, u=u, v=v, front=front, instance_id=owners, leaf=leaf
    )
    found.__dict__["_source"] = source_of(arrays, owner, rays)
    return found


def any_hit(searched: Searched, rays: Rays) -> NDArray[np.bool_] | None:
    """Return for each ray whether it hits anything; None where more must be done for it."""
    arrays, _, _ = searched
    n, ids = len(rays.origins), NO_CODES if type(arrays.primitives) is Instanced else NO_IDS
    hit = np.empty(n, BOOL)
    return hit if _run(arrays, rays, n, ANY, (ids, NOTHING, NOTHING, NOTHING, hit)) else None


def _run(arrays: Any, rays: Rays, n: int, goal: ClosestGoal, out: tuple[Any, ...]) -> bool:
    """Call the kernel; return False for trees that it does not know, or that are empty.

    It takes plain tuples for named ones, and truths as bytes.
    """
    # One thread suffices; a wrong BVH_NUM_THREADS is an error all the same.
    settings()
    kind = type(arrays.primitives)
    if kind is Custom or arrays.nodes.data.size == 0:
        return False
    order = n, 0, NO_PERMUTATION, AUTO
    kernel = entry_points.get(("closest_hits", kind, ClosestGoal))
    if kernel is None:
        prim_id, t, u, v, front = out
        columns = Columns(prim_id, t, u, v, front.view(np.uint8))
        kernel = kernel_for(arrays, rays, Order(*order), goal, columns)
    scratch = SHELF.take()
    scratch.measured[:] = UNMEASURED
    kernel(arrays.row, rays, order, scratch, goal, 0, -(-n // BLOCK), out)
    SHELF.give_back(scratch)
    return True
