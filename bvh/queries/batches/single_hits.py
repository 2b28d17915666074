"""All hits of one plain ray, and how many: one call of the kernel, with little more around it.

The kernel is that of batches, and so are the answers. What a batch must do first, such as to
compile the kernel, or to find memory for many hits, is left to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bvh.queries.batches.hit_memory import HIT_SHELVES, HitMemory
from bvh.queries.batches.kept_calls import Kept, Searched, call_for_ray, calls, kept_call
from bvh.queries.batches.ray_batches import ALL, BOOL, NO_PERMUTATION, SHELF
from bvh.queries.query_arguments import plain_ray
from bvh.queries.results import AllHits, SceneAllHits, new_object
from bvh.runtime.jit import entry_points
from bvh.runtime.user_calls import NO_CALL
from bvh.traversal.rays.every_hit.all_hits import FILLED, NEXT
from bvh.traversal.rays.leaf_hits import AllGoal
from bvh.traversal.rays.ray_batch import EVERY, SINGLES
from bvh.tree.instanced import Instanced
from bvh.tree.primitives import Triangles

ORDER = 1, 0, NO_PERMUTATION, SINGLES
# What is wanted: to count the hits, to list them for that, or to keep them.
COUNTED, LISTED, KEPT = 0, 2, 4
# For each of these and each rule of edges: whether each crossing is one hit, whether hits are
# listed, and whether they are kept, as of `AllGoal` and `Wanted`.
WAYS = [
    (once, listed, kept)
    for listed, kept in ((False, False), (True, False), (True, True))
    for once in (False, True)
]
# Lists of so few hits have views of the memory that they are copied from.
FEW = 8


class OneRay:
    """One ray, and what its hits are written to, as the kernel takes them."""

    def __init__(self, memory: HitMemory) -> None:
        numbers, counts = np.zeros(8), np.zeros(1, np.int64)
        o, d = numbers[:3].reshape(1, 3), numbers[3:6].reshape(1, 3)
        rays, scratch = (o, d, numbers[6:7], numbers[7:], EVERY), SHELF.take()
        gathered = memory.pairs, memory.out, counts, memory.state
        self.ways = [
            Kept(
                numbers, rays, ORDER, scratch, (0, once, listed, memory.found, memory.visits),
                (NO_CALL.function, NO_CALL.data, ALL, listed, kept, kept), gathered, 0, 1,
            )
            for once, listed, kept in WAYS
        ]  # fmt: skip
        self.addresses = [kept.address for kept in self.ways]
        # Items of these are read and written sooner than those of arrays.
        self.numbers: Any = numbers.data
        self.counts: Any = counts.data
        self.state: Any = memory.state.data
        self.out = memory.out
        self.few = [self.columns(count) for count in range(FEW + 1)]

    def columns(self, n: int) -> tuple[Any, ...]:
        """Return offsets, and views of n hits: t, u, v, front, prim_id; of codes also the leaf."""
        prim_id, t, u, v, front = (column[:n] for column in self.out)
        hits = np.array((0, n), np.int64), t, u, v, front.view(BOOL)
        if prim_id.dtype == np.int32:
            return *hits, prim_id
        halves = prim_id.view(np.int32).reshape(n, 2)
        low, high = (0, 1) if np.little_endian else (1, 0)
        return *hits, halves[:, low], halves[:, high]


def all_hits(target: Any, origin: Any, direction: Any, t_min: Any, t_max: Any, once: bool) -> Any:
    """Return the hits of a ray in a tree or scene; None where more must be done for them."""
    # What is behind the arrays of a scene lives as long as this names it.
    searched, owner, _ = type(target)._at_once(target)
    memory = _run(searched, origin, direction, t_min, t_max, KEPT + once)
    if memory is None:
        return None
    one: OneRay = memory.single
    n = one.state[FILLED]
    in_scene = searched.kind is Instanced
    # Without the slow `__init__` of a frozen class.
    hits = new_object(SceneAllHits if in_scene else AllHits)
    fields = hits.__dict__
    offsets, t, u, v, front, prim_id, *leaves = one.few[n] if n <= FEW else one.columns(n)
    fields["prim_id"], fields["t"] = prim_id.copy(), t.copy()
    fields["u"], fields["v"], fields["front"] = u.copy(), v.copy(), front.copy()
    fields["offsets"], fields["shape"] = offsets.copy(), ()
    whole = searched.kind is Triangles or (in_scene and owner.plain)
    ray = None if whole else one.numbers[:6].tolist()
    fields["_source"] = (
        (owner, owner.moves, ray) if in_scene else (searched.arrays.primitives, 0, ray)
    )
    if in_scene:
        leaf = leaves[0].copy()
        # Sooner than by an index.
        fields["instance_id"] = searched.arrays.primitives.owners.take(leaf)
        fields["leaf"] = leaf
    HIT_SHELVES[memory.ids].give_back(memory)
    return hits


def count_hits(
    target: Any, origin: Any, direction: Any, t_min: Any, t_max: Any, once: bool
) -> int | None:
    """Return how many hits a ray has in a tree or scene; None where more must be done for that."""
    searched, _owner, split = type(target)._at_once(target)
    way = (LISTED if split else COUNTED) + once
    memory = _run(searched, origin, direction, t_min, t_max, way)
    if memory is None:
        return None
    count: int = memory.single.counts[0]
    HIT_SHELVES[memory.ids].give_back(memory)
    return count


def _run(
    searched: Searched, origin: Any, direction: Any, t_min: Any, t_max: Any, way: int
) -> HitMemory | None:
    """Call the kernel for one ray; return the memory with its hits, or None without an answer."""
    if not type(t_min) is type(t_max) is float:
        return None
    ray = plain_ray(origin, direction)
    if ray is None or not searched.castable:
        return None
    kind = searched.kind
    key = "gather_hits", kind, AllGoal
    call = calls.get(key)
    if call is None:
        # Before a batch has compiled the kernel, or without an address of it; there is none for
        # users' primitives.
        call = kept_call(call_for_ray, key) if key in entry_points else None
        if call is None:
            return None
    run, kernel = call
    memory = HIT_SHELVES[np.int64 if kind is Instanced else np.int32].take()
    one: OneRay = memory.single
    if one is None:
        one = memory.single = OneRay(memory)
    numbers = one.numbers
    numbers[6], numbers[7] = t_min, t_max
    ox, oy, oz, dx, dy, dz = ray
    run(None, kernel, searched.address, one.addresses[way], ox, oy, oz, dx, dy, dz)
    # Otherwise there are more hits than memory for them; it is full of them, and given up.
    return memory if one.state[NEXT] == 1 else None
