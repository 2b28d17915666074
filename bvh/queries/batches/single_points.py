"""Queries of one plain point: one call of the kernel, with little more around it.

The kernel is that of batches, and so are the answers. It is called only after a batch has compiled
it, so that nothing of what that needs is imported here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries.batches.kept_calls import Kept, Searched, call_for_point, calls, kept_call
from bvh.queries.query_arguments import plain_point
from bvh.queries.results import ClosestPoints, SceneClosestPoints, new_object
from bvh.runtime.jit import entry_points
from bvh.runtime.threads import Shelf
from bvh.tree.instanced import CODE_BITS, PRIM_MASK, Instanced, hit_codes
from bvh.tree.primitives import Triangles

# Faces that are found for a single point; for more of them it is a batch.
MOST = 64

# The arrays of a tree and a mask; those of a scene, its metrics and a mask. With what keeps alive
# what the arrays refer to.
Target = tuple[Searched, object]


class OnePoint:
    """One point, and what is written about it, as the kernels take them."""

    def __init__(self, scene: bool) -> None:
        from bvh.traversal.points.scratch import new_scratch

        numbers, name, none = np.zeros(10), np.zeros(1, np.int64), np.empty(0)
        self.scratch = tuple(new_scratch(scene))
        self.point, self.limit = numbers[:3].reshape(1, 3), numbers[3:4]
        self.position = numbers[7:]
        weights, position = numbers[5:7].reshape(1, 2), self.position.reshape(1, 3)
        found = numbers[4:5], name, weights, position
        distance = numbers[4:5], name, none.reshape(0, 2), none.reshape(0, 3)
        given = numbers, self.point, self.limit, self.scratch, 0, 1
        self.kept = Kept(*given, found), Kept(*given, distance)
        self.found, self.distance = (kept.address for kept in self.kept)
        # Items of these are read and written sooner than those of arrays.
        self.numbers: Any = numbers.data
        self.name = name.data


SHELVES: dict[type, Shelf[OnePoint]] = {
    Triangles: Shelf(partial(OnePoint, False)),
    Instanced: Shelf(partial(OnePoint, True)),
}


def closest_point(
    searched: Target | None, point: Any, limit: float, count: int | None
) -> ClosestPoints | None:
    """Return the closest point, or those in `count` faces; None where more must be done for it."""
    if count is not None:
        return _nearest(searched, point, limit, count)
    ready = _ready(searched, point)
    if ready is None:
        return None
    target, kind, (run, kernel), (x, y, z), one = ready
    run(None, kernel, target.address, one.found, x, y, z, limit)
    numbers, name = one.numbers, one.name[0]
    # Without the slow `__init__` of a frozen class.
    near = new_object(ClosestPoints if kind is Triangles else SceneClosestPoints)
    fields = near.__dict__
    fields["distance"], fields["position"] = numbers[4], one.position.copy()
    fields["prim_id"], fields["u"], fields["v"] = name, numbers[5], numbers[6]
    if kind is Instanced:
        # Both are -1 for -1.
        leaf = name >> CODE_BITS
        fields["prim_id"] = name & PRIM_MASK if name >= 0 else -1
        owners = target.arrays.primitives.owners
        fields["instance_id"] = owners.item(leaf) if leaf >= 0 else -1
        fields["leaf"] = leaf
    SHELVES[kind].give_back(one)
    return near


def distance(searched: Target | None, point: Any, limit: float) -> float | None:
    """Return the distance of a point; None where more must be done for it."""
    ready = _ready(searched, point)
    if ready is None:
        return None
    target, kind, (run, kernel), (x, y, z), one = ready
    run(None, kernel, target.address, one.distance, x, y, z, limit)
    found: float = one.numbers[4]
    SHELVES[kind].give_back(one)
    return found


def _nearest(searched: Target | None, point: Any, limit: float, count: Any) -> ClosestPoints | None:
    """Return the closest points in `count` faces."""
    if searched is None or type(count) is not int or not 1 <= count <= MOST:
        return None
    (target,), kind = searched[0].arguments, searched[0].kind
    numbers = plain_point(point)
    kernel = entry_points.get(("nearest_points", kind))
    if numbers is None or kernel is None:
        return None
    one = SHELVES[kind].take()
    written = one.numbers
    written[0], written[1], written[2] = numbers
    written[3] = limit
    d, names = np.empty(count), np.empty(count, np.int64)
    weights, position = np.empty((count, 2)), np.empty((count, 3))
    found = d, names, weights, position
    kernel(target, one.point, one.limit, one.scratch, 0, 1, count, found)
    SHELVES[kind].give_back(one)
    near = new_object(ClosestPoints if kind is Triangles else SceneClosestPoints)
    fields: dict[str, NDArray[Any]] = near.__dict__
    fields["distance"], fields["position"] = d, position
    fields["u"], fields["v"] = weights[:, 0], weights[:, 1]
    if kind is Triangles:
        fields["prim_id"] = names.astype(np.int32)
    else:
        leaf, fields["prim_id"] = hit_codes(names)
        owners = searched[0].arrays.primitives.owners[leaf]
        owners[leaf < 0] = -1
        fields["instance_id"], fields["leaf"] = owners, leaf
    return near


def _ready(searched: Target | None, point: Any) -> Any:
    """Return what is searched, its kind, the kernel's call, the point, and memory; or None."""
    if searched is None:
        return None
    numbers = plain_point(point)
    if numbers is None:
        return None
    target = searched[0]
    kind = target.kind
    key = "closest_points", kind
    call = calls.get(key)
    if call is None:
        # Before a batch has compiled the kernel, or without an address of it.
        call = kept_call(call_for_point, key) if key in entry_points else None
        if call is None:
            return None
    return target, kind, call, numbers, SHELVES[kind].take()
