"""Single rays and points, and batches of rays, with little overhead.

Checking and converting arguments takes as long as a hundred rays. So arguments that are already as
kernels take them are not checked, and the memory of a thread is reused (`scratch.py`).

Kernels and answers are those of batches. Each query here returns None where the query of batches
must answer: to check arguments, or for more hits than there is memory for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries import results
from bvh.queries.batches import scratch
from bvh.queries.batches.block_chunks import MIN_BLOCKS
from bvh.queries.batches.ray_batches import source_of, trace_few, trace_many
from bvh.queries.batches.scratch import HIT_SHELVES, POINT_SHELVES, id_type_of, result_columns
from bvh.queries.query_arguments import RayBatch, plain_ray, plain_rays
from bvh.queries.results import AllHits, Hits
from bvh.runtime.arguments import shaped, thread_count
from bvh.runtime.calls.prepared_calls import PreparedKernel
from bvh.runtime.cpus import settings
from bvh.traversal.rays.blocks import BLOCK
from bvh.traversal.rays.candidates import ClosestGoal
from bvh.traversal.rays.every_hit.all_hits import FILLED, NEXT, gather_hits
from bvh.traversal.rays.hit_details import Columns
from bvh.traversal.rays.one_ray import BLOCKED, HIT, cast_function
from bvh.tree.arrays import TreeArrays
from bvh.tree.instanced import CODE_BITS, PRIM_MASK, Instanced, named_codes
from bvh.tree.primitives import Custom, Triangles
from bvh.tree.shapes import HOLLOW

# Batches of at most this many rays are traced by one thread, in the order of their rays.
SMALL_BATCH = MIN_BLOCKS * BLOCK
# Most closest faces of a single point.
MOST_FACES = 64

# Closest hits and any hits, without culling.
CLOSEST, ANY = ClosestGoal(False, 0), ClosestGoal(True, 0)
NO_NUMBERS, NO_IDS, NO_CODES = np.empty(0), np.empty(0, np.int32), np.empty(0, np.int64)
COPY, BYTE = np.ndarray.copy, np.dtype(np.uint8)
# Creates named tuples, faster than their classes do.
new_tuple = tuple.__new__


class Searched:
    """Arrays of a tree or scene for single calls, with functions and arguments made for them."""

    __slots__ = ("_near", "_rays", "arrays", "cast", "kind", "rounded", "split")

    arrays: TreeArrays  # of a scene, those of its top level, which may be replaced (see `adopt`)
    kind: type  # of the arrays' primitives
    split: bool  # whether a primitive may be in several leaves of a tree
    rounded: bool  # whether there may be round shapes
    # Casts a single ray (see `cast_function`): returns a tuple for eight numbers, a boolean for two
    # points, a range and a 0, and over triangles `Hits` for two points and a range. None before the
    # first call.
    cast: Callable[..., Any] | None
    # Kernels of rays and of points with the tree, their first argument; None before the first call.
    _rays: PreparedKernel | None
    _near: PreparedKernel | None

    def __init__(self, arrays: TreeArrays, split: bool) -> None:
        self.kind, self.split = type(arrays.primitives), split
        self.rounded = isinstance(arrays.primitives, HOLLOW)
        self.adopt(arrays)

    def adopt(self, arrays: TreeArrays) -> None:
        """Search other arrays from now on; functions made for those before are made anew."""
        self.arrays = arrays
        self.cast = self._rays = self._near = None

    def first_cast(self) -> Callable[..., Any]:
        """Set `cast` for the present arrays and return it; compile it for a new kind of tree."""
        # Forms of calls besides those with eight numbers. BLOCKED: is there any hit; HIT: also the
        # closest hit as an object, with `source` as its source.
        last_form = HIT if self.kind is Triangles else BLOCKED
        while True:
            arrays = self.arrays
            source = arrays.primitives, 0, None
            cast = cast_function(arrays, last_form=last_form, hits=Hits, source=source)
            self.cast = cast
            # If another thread has replaced the arrays, perhaps before `cast` was set, try again.
            if self.arrays is arrays:
                return cast

    def for_rays(self, one: scratch.OneRay) -> PreparedKernel:
        """Return the kernel `gather_hits` with its first argument stored.

        `one` has the other arguments, whose types choose the compiled form of the kernel.
        """
        prepared, arrays = self._rays, self.arrays
        # It may be for arrays that have been replaced since. Two threads may both make it.
        if prepared is None or prepared.owner is not arrays:
            kernel: Any = gather_hits.specialised((arrays.row, *one.others[0].arguments))
            prepared = self._rays = PreparedKernel(kernel, arrays.row, arrays)
        return prepared

    def for_points(self) -> PreparedKernel | None:
        """Return the kernel `closest_points` with its target stored; None if there is no target."""
        prepared, arrays = self._near, self.arrays
        if prepared is None or prepared.owner is not arrays:
            target = self.point_target(arrays)
            if target is None:
                return None
            with POINT_SHELVES[self.kind].scratch() as one:
                kernel: Any = one.closest.specialised((target, *one.given, one.found))
            prepared = self._near = PreparedKernel(kernel, target, arrays)
        return prepared

    def point_target(self, arrays: TreeArrays) -> Any:
        """Return the target of points, with all bits as mask; None unless over triangles."""
        from bvh.traversal.points.closest_point import TreeTarget

        # -1: the mask of all bits.
        return TreeTarget(arrays.row, -1) if self.kind is Triangles else None

    def for_batch(self, rays: int, threads: int | None) -> tuple[TreeArrays, Any]:
        """Return the arrays to search, and None; the view of a scene overrides this method.

        There, `rays`, the number of rays, decides whether one merged tree is searched and returned.
        """
        return self.arrays, None


def cast_ray(searched: Searched, ray: tuple[float, ...], t_min: float, t_max: float) -> Any:
    """Return (t, prim_id, u, v, front), in a scene also leaf, of a ray (ox, oy, oz, dx, dy, dz)."""
    return (searched.cast or searched.first_cast())(*ray, t_min, t_max)


def closest_hit(
    searched: Searched, origins: Any, directions: Any, t_min: Any, t_max: Any, threads: int | None
) -> Hits | None:
    """Return the closest hit of each ray, for arguments that `Searched.cast` did not accept.

    None where the query of batches must answer.
    """
    if not type(t_min) is type(t_max) is float:
        return None
    ray = plain_ray(origins, directions)
    if ray is None:
        batch = plain_rays(origins, directions, t_min, t_max)
        return None if batch is None else _closest_hits(searched, batch, threads)
    # Checks `threads`, which a single ray does not need.
    _threads_for(1, threads)
    hit = cast_ray(searched, ray, t_min, t_max)
    if searched.kind is not Instanced:
        # Positions on triangles follow from u and v.
        needed_ray = None if searched.kind is Triangles else ray
        return results.hits_of(hit, (searched.arrays.primitives, 0, needed_ray))
    # A scene: the `Searched` is its view.
    view: Any = searched
    t, prim_id, u, v, front, leaf = hit
    owner = view.owners.item(leaf) if leaf >= 0 else -1
    return results.scene_hits_of((t, prim_id, u, v, front, owner, leaf), (view, view.moves, ray))


def any_hit(
    searched: Searched, origins: Any, directions: Any, t_min: Any, t_max: Any, threads: int | None
) -> NDArray[np.bool_] | bool | None:
    """Return whether each ray hits anything; None where the query of batches must answer."""
    if not type(t_min) is type(t_max) is float:
        return None
    ray = plain_ray(origins, directions)
    if ray is not None:
        # Checks `threads`, which a single ray does not need.
        _threads_for(1, threads)
        return cast_ray(searched, ray, t_min, t_max)[1] >= 0  # type: ignore[no-any-return]
    batch = plain_rays(origins, directions, t_min, t_max)
    if batch is None:
        return None
    n = batch.size
    arrays, hits = searched.for_batch(n, threads)[0], np.empty(n, scratch.BOOL)
    primitives: object = arrays.primitives
    no_ids = NO_CODES if type(primitives) is Instanced else NO_IDS
    # For any hit, kernels write the column `front` alone: whether there is one.
    out = NO_NUMBERS, no_ids, NO_NUMBERS, NO_NUMBERS, hits.view(BYTE)
    is_traced = _trace_hits(arrays, batch, n, ANY, out, _threads_for(n, threads))
    return shaped(batch.shape, hits)[0] if is_traced else None


def _threads_for(n: int, threads: int | None) -> int:
    """Return the number of threads to use for n rays; check the argument `threads`."""
    if n <= SMALL_BATCH and threads is None:
        # Raises an error for a wrong BVH_NUM_THREADS.
        settings()
        return 1
    return thread_count(threads)


def _closest_hits(searched: Searched, batch: RayBatch, threads: int | None) -> Any:
    """Return the closest hit of each ray of a batch; None for custom primitives and empty trees."""
    n, rays, shape = batch.size, batch.rays, batch.shape
    arrays, merged = searched.for_batch(n, threads)
    workers = _threads_for(n, threads)
    primitives: Any = arrays.primitives
    t, prim_id, u, v, front = result_columns(n, id_type_of(primitives))
    if not _trace_hits(arrays, batch, n, CLOSEST, (t, prim_id, u, v, front.view(BYTE)), workers):
        return None
    if type(primitives) is Instanced:
        owner, leaf, prim_id = named_codes(prim_id, primitives.owners, workers)
        columns = shaped(shape, t, prim_id, u, v, front, owner, leaf)
        return results.scene_hits_of(columns, source_of(arrays, searched, rays, shape))
    columns = shaped(shape, t, prim_id, u, v, front)
    if merged is None:
        return results.hits_of(columns, source_of(arrays, None, rays, shape))
    # A merged tree is over triangles: positions of hits follow without the rays. `named` replaces
    # its face ids by those of the scene: prim_id, instance_id and leaf.
    view: Any = searched
    return merged.named(results.hits_of(columns, (view, view.moves, None)), workers)


def _trace_hits(
    arrays: TreeArrays, batch: RayBatch, n: int, goal: ClosestGoal, out: tuple[Any, ...],
    threads: int,
) -> bool:  # fmt: skip
    """Write the hits of n rays to the columns `out`, and return True.

    Return False for trees over custom primitives and empty ones, which are left to batches.
    """
    if type(arrays.primitives) is Custom or arrays.nodes.data.size == 0:
        return False
    if n <= SMALL_BATCH and len(batch.shape) == 1:
        trace_few(arrays.row, batch.rays, n, goal, new_tuple(Columns, out))
    else:
        trace_many(arrays.row, batch, n, goal, new_tuple(Columns, out), threads)
    return True


def all_hits(
    searched: Searched, origin: Any, direction: Any, t_min: Any, t_max: Any, once: bool
) -> AllHits | None:
    """Return the hits of one ray, if `once` one for each crossing; None if batches must answer."""
    view: Any = searched
    given = plain_ray(origin, direction)
    gathered = _gathered(searched, given, t_min, t_max, scratch.STORED + once)
    if gathered is None:
        return None
    memory, one, arrays = gathered
    n, primitives = one.state[FILLED], arrays.primitives
    # Copies of prim_id, t, u, v, front and offsets, in a scene also of the leaves. The empty tuples
    # below are the leading shape of a single ray.
    columns = [*map(COPY, one.few[n] if n <= scratch.FEW else one.views(n))]
    if view.kind is not Instanced:
        ray = None if view.kind is Triangles else one.numbers[:6].tolist()
        hits = results.all_hits_of((*columns, ()), (primitives, 0, ray))
    else:
        leaf, ray = columns.pop(), None if view.plain else one.numbers[:6].tolist()
        # `take` is faster than indexing.
        owners = primitives.owners.take(leaf)
        hits = results.scene_all_hits_of((*columns, (), owners, leaf), (view, view.moves, ray))
    HIT_SHELVES[memory.id_type].give_back(memory)
    return hits


def count_hits(
    searched: Searched, ray: tuple[float, ...] | None, t_min: Any, t_max: Any, once: bool
) -> int | None:
    """Return how many hits a ray (ox, oy, oz, dx, dy, dz) has; if `once`, one for each crossing.

    None where the query of batches must answer, and if `ray` is None.
    """
    # In a split tree hits are listed, so that a primitive in several leaves counts once.
    mode = (scratch.LISTED if searched.split else scratch.COUNTED) + once
    gathered = _gathered(searched, ray, t_min, t_max, mode)
    if gathered is None:
        return None
    memory, one, _ = gathered
    count: int = one.counts[0]
    HIT_SHELVES[memory.id_type].give_back(memory)
    return count


def _gathered(
    searched: Searched, ray: tuple[float, ...] | None, t_min: Any, t_max: Any, mode: int
) -> tuple[scratch.HitMemory, scratch.OneRay, Any] | None:
    """Find the hits of one ray: counted, listed or stored, by the `mode` (see `scratch.MODES`).

    Returns the memory with the hits, which the caller gives back to HIT_SHELVES, its part for a
    single ray, and the arrays that were searched; None where batches must answer.
    """
    if ray is None or not type(t_min) is type(t_max) is float:
        return None
    kind = searched.kind
    if kind is Custom or searched.rounded or searched.arrays.nodes.data.size == 0:
        return None
    memory = HIT_SHELVES[np.int64 if kind is Instanced else np.int32].take()
    one = memory.single
    if one is None:
        one = memory.single = scratch.OneRay(memory)
    prepared = searched.for_rays(one)
    prepared.call(prepared.address, one.addresses[mode], *ray, t_min, t_max)
    # NEXT is the next block to be traced. If it is not 1, the memory did not suffice for the hits
    # of block 0: a batch answers, and this memory is not used again.
    return (memory, one, prepared.owner) if one.state[NEXT] == 1 else None


def closest_point(
    searched: Searched, point: Sequence[float], limit: float, count: int | None
) -> Any:
    """Return the closest point within `limit`, or the closest points in the `count` nearest faces.

    With a `count`, the nearest point comes first. None where the query of batches must answer.
    """
    if count is not None:
        return _nearest(searched, point, limit, count)
    one = _measured(searched, point, limit, True)
    if one is None:
        return None
    # `name` is the face, in a scene its code, as of `named_codes`; -1 for a miss.
    numbers, name = one.numbers, one.name[0]
    distance, u, v, position = numbers[4], numbers[5], numbers[6], one.position.copy()
    POINT_SHELVES[searched.kind].give_back(one)
    if searched.kind is Triangles:
        source = searched.arrays.primitives, 0, None
        return results.points_of((distance, position, name, u, v), source)
    leaf, prim_id = name >> CODE_BITS, name & PRIM_MASK if name >= 0 else -1
    view: Any = searched
    owner = view.owners.item(leaf) if leaf >= 0 else -1
    columns = distance, position, prim_id, u, v, owner, leaf
    return results.scene_points_of(columns, (view, view.moves, None))


def distance(searched: Searched, point: Sequence[float], limit: float) -> float | None:
    """Return the distance to the closest face, inf beyond `limit`; None if batches must answer."""
    one = _measured(searched, point, limit, False)
    if one is None:
        return None
    found: float = one.numbers[4]
    POINT_SHELVES[searched.kind].give_back(one)
    return found


def _measured(
    searched: Searched, point: Sequence[float], limit: float, with_position: bool
) -> scratch.OnePoint | None:
    """Find the closest face of one point; return the memory with the answer (see `OnePoint`).

    The caller gives it back to its shelf. Without `with_position`, only the distance is computed.
    None where the query of batches must answer.
    """
    prepared = searched.for_points()
    if prepared is None:
        return None
    one = POINT_SHELVES[searched.kind].take()
    # Addresses of the arguments with positions, then of those for the distance alone.
    prepared.call(prepared.address, one.addresses[0 if with_position else 1], *point, limit)
    return one


def _nearest(searched: Searched, point: Sequence[float], limit: float, count: int) -> Any:
    """Return the closest points in the `count` nearest faces; None if batches must answer."""
    prepared, kind = searched.for_points(), searched.kind
    if prepared is None or type(count) is not int or not 1 <= count <= MOST_FACES:
        return None
    one = POINT_SHELVES[kind].take()
    # The kernel reads the point and the limit from `numbers`.
    one.numbers[0], one.numbers[1], one.numbers[2], one.numbers[3] = *point, limit
    d, names = np.empty(count), np.empty(count, np.int64)
    weights, position = np.empty((count, 2)), np.empty((count, 3))
    found = type(one.found)(d, names, weights, position)
    one.nearest(*prepared.arguments, *one.given, count, found)
    POINT_SHELVES[kind].give_back(one)
    u, v = weights[:, 0], weights[:, 1]
    if kind is Triangles:
        source = searched.arrays.primitives, 0, None
        return results.points_of((d, position, names.astype(np.int32), u, v), source)
    view: Any = searched
    owner, leaf, prim_id = named_codes(names, view.owners)
    columns = d, position, prim_id, u, v, owner, leaf
    return results.scene_points_of(columns, (view, view.moves, None))
