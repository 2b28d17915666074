"""Runs overlap queries: chunks on threads, buffers, what is left to rationals, sorted results."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh import rationals
from bvh.arguments import kernel_input
from bvh.arrays import TreeArrays, frozen_primitives
from bvh.build import build
from bvh.jit import warms
from bvh.primitives import Boxes, Primitives, Triangles
from bvh.traversal.overlaps import (
    COUNT,
    MOST_OF_LEAF,
    Found,
    new_found,
    new_search,
    search_regions,
)
from bvh.traversal.placing import way_between
from bvh.traversal.region_reach import BoxRegions, PlaneRegions, Regions, SphereRegions
from bvh.traversal.tree_pairs import (
    ENTRY,
    FIRST,
    HEIGHT,
    MET,
    MOST_OF_LEAVES,
    STEPS,
    begin_with,
    meet,
    new_meeting,
)
from bvh.workers import Progress, Shelf, hold_memory_ready, share, share_long

Ids = NDArray[np.int32]
Keys = NDArray[np.int64]

# Queries that a thread takes at a time, and the room for their results; a search that finds more
# goes on in a larger buffer.
CHUNK = 256
ROOM = 4 * MOST_OF_LEAF
LARGEST_ROOM = 1 << 20
# Pairs of subtrees for each thread, and for all; and the room for pairs of faces.
TASKS, MOST_TASKS = 64, 1 << 14
PAIRS = 4 * MOST_OF_LEAVES


def find_regions(
    arrays: TreeArrays,
    regions: Regions,
    count: int,
    threads: int,
    progress: Progress | None,
) -> tuple[NDArray[np.int64], Ids]:
    """Return (offsets, ids): the primitives that each region meets, ascending."""
    regions = type(regions)(*(kernel_input(array) for array in regions))
    parts: dict[int, Keys] = {}

    def work(begin: int, end: int) -> None:
        parts[begin] = _search(arrays, regions, begin, end)

    if count and len(arrays.nodes.blocks):
        share(count, min(CHUNK, max(1, -(-count // (8 * threads)))), work, threads, progress)
    elif progress is not None:
        progress(count, count)
    keys = _joined([parts[begin] for begin in sorted(parts)])
    sizes = np.bincount(keys >> 32, minlength=count)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets, keys.astype(np.int32)


def find_region(arrays: TreeArrays, regions: Regions) -> Ids:
    """Return the primitives that the only region meets, ascending."""
    if len(arrays.nodes.blocks) == 0:
        return np.empty(0, np.int32)
    regions = type(regions)(*(kernel_input(array) for array in regions))
    return _search(arrays, regions, 0, 1).astype(np.int32)


def _search(arrays: TreeArrays, regions: Regions, begin: int, end: int) -> Keys:
    """Return the keys of what queries begin..end find: the query above, the primitive below."""
    search, room, done = new_search(regions, begin), ROOM, False
    found, parts = new_found(room), []
    while not done:
        done = search_regions(arrays, regions, end, search, found)
        number = int(search.state[COUNT])
        parts.append(_decided(arrays, regions, found, number))
        if not done and room < LARGEST_ROOM:
            room *= 4
            found = new_found(room)
    return _ordered(_joined(parts))


def _decided(arrays: TreeArrays, regions: Regions, found: Found, count: int) -> Keys:
    """Return the keys of results, those decided that the kernel left open."""
    query, prim = found.query[:count], found.prim[:count]
    open_ = prim < 0
    if open_.any():
        unsure, prim = np.flatnonzero(open_), prim.copy()
        prim[unsure] = ~prim[unsure]
        met = [_meets(arrays, regions, int(query[i]), int(prim[i])) for i in unsure]
        kept = np.ones(count, np.bool_)
        kept[unsure] = met
        query, prim = query[kept], prim[kept]
    return query << 32 | prim


def _meets(arrays: TreeArrays, regions: Regions, query: int, prim: int) -> bool:
    """Tell in rational numbers whether a region meets a primitive."""
    primitives = arrays.primitives
    solid = not isinstance(primitives, Triangles)
    rows = primitives.points[prim].reshape(2, 3) if solid else None
    if isinstance(primitives, Triangles):
        rows = primitives.points[primitives.faces[prim]]
    corners: Any = None if rows is None else rows.tolist()
    if isinstance(regions, SphereRegions):
        test = rationals.box_meets_sphere if solid else rationals.triangle_meets_sphere
        return test(corners, regions.center[query].tolist(), float(regions.radius[query]))
    assert isinstance(regions, PlaneRegions)
    return rationals.triangle_meets_planes(corners, regions.planes[query].tolist())


def find_pairs(
    arrays: TreeArrays,
    others: TreeArrays,
    transform: NDArray[np.float64] | None,
    itself: bool,
    threads: int,
    progress: Progress | None,
) -> Ids:
    """Return the pairs of faces that meet, (m, 2), ascending."""
    parts: list[Keys] = []
    tasks = np.empty((0, ENTRY), np.int64)
    if len(arrays.nodes.blocks) and len(others.nodes.blocks):
        way = way_between(arrays.frame, others.frame, transform, itself)
        wanted = min(TASKS * threads, MOST_TASKS)
        start = new_meeting(wanted)
        begin_with(start, np.zeros((1, ENTRY), np.int64))
        hold_memory_ready()
        meet(arrays, others, way, itself, start, np.empty((0, 2), np.int32), wanted, 0)
        tasks = start.stack[start.state[FIRST] : start.state[HEIGHT]].reshape(-1, ENTRY)
    shelf = Shelf(lambda: (new_meeting(len(tasks)), np.empty((PAIRS, 2), np.int32)))
    cancel = np.zeros(1, np.int32)

    def work(begin: int, end: int) -> None:
        found, done = [], False
        with shelf.scratch() as (meeting, pairs):
            begin_with(meeting, tasks[begin:end])
            while not (done or cancel[0]):
                done = meet(arrays, others, way, itself, meeting, pairs, 0, STEPS)
                rows = pairs[: int(meeting.state[MET])]
                if len(rows):
                    found.append(rows[:, 0].astype(np.int64) << 32 | rows[:, 1])
        parts.append(_joined(found))

    if len(tasks):
        size = max(1, len(tasks) // (8 * threads))
        share_long(len(tasks), size, work, threads, cancel, progress)
    elif progress is not None:
        progress(0, 0)
    keys = _ordered(_joined(parts))
    return np.stack([keys >> 32, keys & 0xFFFFFFFF], axis=1).astype(np.int32)


def _joined(parts: list[Keys]) -> Keys:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _ordered(keys: Keys) -> Keys:
    """Return keys in ascending order, each once: a leaf may not be the only one with a face."""
    if len(keys) > 1:
        keys = np.sort(keys)
        first = np.ones(len(keys), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=first[1:])
        if not first.all():
            keys = keys[first]
    return keys


@warms("overlaps")
def _warm() -> None:
    """Compile what the queries of overlap need."""
    kinds: tuple[Primitives, ...] = (
        Triangles(np.eye(3), np.arange(3, dtype=np.int32).reshape(1, 3)),
        Boxes(np.array([[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]])),
    )
    corners = np.zeros((1, 3)), np.ones((1, 3))
    for kind in kinds:
        arrays, _ = build(frozen_primitives(kind), "medium", 1, None)
        find_region(arrays, BoxRegions(*corners))
        find_region(arrays, SphereRegions(corners[0], np.ones(1)))
        if isinstance(kind, Triangles):
            find_region(arrays, PlaneRegions(np.ones((1, 1, 4)), np.ones(1, np.int64)))
            find_pairs(arrays, arrays, None, True, 1, None)
