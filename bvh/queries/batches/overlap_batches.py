"""Batches of overlap queries: chunks on threads, growing buffers, sorted results.

Cases that kernels leave undecided are decided here in rational numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic import rational, rational_surfaces
from bvh.queries.results import Overlaps
from bvh.runtime.arguments import MAX_PRIMITIVES, kernel_input, thread_count
from bvh.runtime.jit import warms
from bvh.runtime.threads import Progress, Shelf, share, share_long
from bvh.traversal.pairs import meeting_pairs
from bvh.traversal.pairs.meeting_pairs import ONE_TREE, TWO_MESHES, PairSearch
from bvh.traversal.pairs.pair_frames import addresses
from bvh.traversal.pairs.pair_walk import ENTRY
from bvh.traversal.regions import region_search
from bvh.traversal.regions.regions import BoxRegions, PlaneRegions, Regions, SphereRegions
from bvh.tree.arrays import TreeArrays, TreeRow, frozen_primitives
from bvh.tree.build import build
from bvh.tree.instanced import CODE_BITS, PRIM_MASK, hit_codes
from bvh.tree.primitives import Primitives, Triangles
from bvh.tree.shapes import HOLLOW, Boxes, CapsuleShape, SphereShape

Ids = NDArray[np.int32]
Keys = NDArray[np.int64]
# Numbers of primitives in kernels: in a scene the leaf in the high bits (see `instanced`).
Codes = NDArray[np.int64]

# Results are sorted by keys: the query's number in its chunk, the leaf, the primitive.
LEAF_BITS, PRIM_BITS = 24, MAX_PRIMITIVES.bit_length() - 1
QUERY_SHIFT = LEAF_BITS + PRIM_BITS

# Queries that a thread takes at a time, and the capacity for their results; a search that finds
# more continues in a larger buffer.
QUERIES_AT_ONCE = 256
CAPACITY = 4 * region_search.MAX_LEAF_SIZE
LARGEST_CAPACITY = 1 << 20
# Pairs of subtrees that a pair of trees is split into: for each thread, and the most in total.
TASKS, MAX_TASKS = 64, 1 << 14


class RegionSearch(NamedTuple):
    """How a tree, or a scene, is searched for the primitives that overlap regions."""

    arrays: TreeArrays
    # Lower and upper corner of all primitives, shape (2, 3).
    bounds: NDArray[np.float64]
    # The instance of each leaf of a scene; None of a tree, whose codes are ids.
    owners: Ids | None
    # Corners of the primitive with a code, as lists: 3 of a triangle, 2 of a box, 2 and the radius
    # in a list of 1 of a round shape.
    corners: Callable[[int], Any]
    # Selects the overlaps that a mask allows; None for all.
    select: Callable[[Any], Overlaps] | None = None

    def overlaps(
        self, regions: Regions, shape: tuple[int, ...], threads: int | None,
        progress: Progress | None,
    ) -> Overlaps:  # fmt: skip
        """Return the primitives that overlap each region, if `select` keeps them."""
        regions = type(regions)(*(kernel_input(array) for array in regions))
        if shape == () and progress is None:
            if threads is not None:
                thread_count(threads)
            # A copy, because `code` is a view of a buffer that may be filled again.
            codes = _search(self, regions, 0, 1, lambda _, code: code.copy())
            offsets = np.array([0, len(codes)])
        else:
            count, workers = math.prod(shape), thread_count(threads)
            offsets, codes = find_regions(self, regions, count, workers, progress)
        if self.owners is None:
            found = Overlaps(codes.astype(np.int32), offsets, shape)
        else:
            leaf, prim = hit_codes(codes)
            found = Overlaps(prim, offsets, shape, self.owners[leaf], leaf)
        return found if self.select is None else self.select(found)


def search_of(
    arrays: TreeArrays, bounds: NDArray[np.float64],
    select: Callable[[Any], Overlaps] | None = None,
) -> RegionSearch:  # fmt: skip
    """Return the region search of a tree over triangles, boxes or round shapes."""
    primitives = arrays.primitives

    def corners(prim: int) -> Any:
        if isinstance(primitives, Triangles):
            return primitives.points[primitives.faces[prim]].tolist()
        if isinstance(primitives, HOLLOW):
            return axis_of(primitives.points[prim])
        return primitives.points[prim].reshape(2, 3).tolist()

    return RegionSearch(arrays, bounds, None, corners, select)


def axis_of(row: NDArray[np.float64]) -> Any:
    """Return both ends of the axis of a round shape, and its radius, as lists."""
    return [row[6:9].tolist(), row[-4:-1].tolist(), row[-1:].tolist()]


def find_regions(
    search: RegionSearch, regions: Regions, count: int, threads: int, progress: Progress | None
) -> tuple[NDArray[np.int64], Codes]:
    """Return (offsets, codes): region i overlaps ``codes[offsets[i] : offsets[i + 1]]``."""
    # `regions` are `count` regions in arrays as kernels take them.
    parts: dict[int, tuple[NDArray[np.int64], Codes]] = {}

    def work(begin: int, end: int) -> None:
        def key(query: NDArray[np.int64], code: Codes) -> Keys:
            """Return keys, which sort by query, leaf and primitive."""
            if search.owners is not None:
                code = (code >> CODE_BITS) << PRIM_BITS | code & PRIM_MASK
            return (query - begin) << QUERY_SHIFT | code

        keys = _search(search, regions, begin, end, key)
        parts[begin] = np.bincount(keys >> QUERY_SHIFT, minlength=end - begin), _codes(search, keys)

    if count and len(search.arrays.nodes.data):
        size = min(QUERIES_AT_ONCE, max(1, -(-count // (8 * threads))))
        share(count, size, work, threads, progress)
    elif progress is not None:
        progress(count, count)
    offsets = np.zeros(count + 1, np.int64)
    ordered = [parts[begin] for begin in sorted(parts)]
    if ordered:
        np.cumsum(np.concatenate([sizes for sizes, _ in ordered]), out=offsets[1:])
    return offsets, joined([codes for _, codes in ordered])


def _search(
    search: RegionSearch, regions: Regions, begin: int, end: int,
    key: Callable[[NDArray[np.int64], Codes], Keys],
) -> Keys:  # fmt: skip
    """Return the keys of the primitives that queries begin..end find, ascending.

    `key` computes them from the numbers of queries and the codes of primitives.
    """
    if len(search.arrays.nodes.data) == 0:
        return np.empty(0, np.int64)
    state, capacity, done = region_search.new_search(regions, begin), CAPACITY, False
    found, parts = region_search.new_found(capacity), []
    while not done:
        done = region_search.search_regions(search.arrays.row, regions, end, state, found)
        parts.append(key(*_decided(search, regions, found, int(state.state[region_search.COUNT]))))
        if not done and capacity < LARGEST_CAPACITY:
            capacity *= 4
            found = region_search.new_found(capacity)
    return ascending(joined(parts))


def _codes(search: RegionSearch, keys: Keys) -> Codes:
    """Return the codes of primitives in keys, without the query."""
    prim = keys & (MAX_PRIMITIVES - 1)
    if search.owners is None:
        return prim
    return (keys >> PRIM_BITS & ((1 << LEAF_BITS) - 1)) << CODE_BITS | prim


def _decided(
    search: RegionSearch, regions: Regions, found: region_search.Found, count: int
) -> tuple[NDArray[np.int64], Codes]:
    """Return queries and codes; those that the kernel has left undecided are decided here."""
    # Undecided primitives have the complements of their codes, which are negative.
    query, code = found.query[:count], found.prim[:count]
    undecided = (code < 0).nonzero()[0]
    if len(undecided):
        code = code.copy()
        code[undecided] = ~code[undecided]
        kept = np.ones(count, np.bool_)
        kept[undecided] = [
            _overlaps(search.corners(int(code[i])), regions, int(query[i])) for i in undecided
        ]
        query, code = query[kept], code[kept]
    return query, code


def _overlaps(corners: Any, regions: Regions, query: int) -> bool:
    """Decide in rational numbers whether a region overlaps a primitive."""
    if len(corners[-1]) == 1:
        axis, (radius,) = corners[:2], corners[2]
        if isinstance(regions, SphereRegions):
            given = regions.center[query].tolist(), float(regions.radius[query])
            return rational_surfaces.surface_meets_sphere(axis, radius, *given)
        if isinstance(regions, PlaneRegions):
            return rational_surfaces.surface_meets_planes(
                axis, radius, regions.planes[query].tolist()
            )
        return rational_surfaces.surface_meets_planes(axis, radius, _sides(regions, query))
    if isinstance(regions, SphereRegions):
        solid = len(corners) == 2
        test = rational.box_meets_sphere if solid else rational.triangle_meets_sphere
        return test(corners, regions.center[query].tolist(), float(regions.radius[query]))
    assert isinstance(regions, PlaneRegions)
    return rational.triangle_meets_planes(corners, regions.planes[query].tolist())


def _sides(box: BoxRegions, query: int) -> list[list[float]]:
    """Return the planes of a box."""
    faces = np.vstack([np.eye(3), -np.eye(3)])
    heights = np.concatenate([-box.lower[query], box.upper[query]])
    planes: list[list[float]] = np.column_stack([faces, heights]).tolist()
    return planes


def joined(parts: list[Keys]) -> Keys:
    """Return the parts of a result as one."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def ascending(keys: Keys) -> Keys:
    """Return keys in order, each once: a search may find a face in several leaves of a tree."""
    if len(keys) > 1:
        keys = np.sort(keys)
        first = np.ones(len(keys), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=first[1:])
        if not first.all():
            keys = keys[first]
    return keys


class TreePair(NamedTuple):
    """Two trees whose faces may meet, as kernels take them."""

    row: TreeRow
    row2: TreeRow
    motions: NDArray[np.int64]  # see `pair_frames.set_motions`
    leaf: int  # the row of the first tree's map, if `motions` have maps
    leaf2: int
    shared: int  # TWO_MESHES, ONE_MESH or ONE_TREE


def find_pairs(
    arrays: TreeArrays, others: TreeArrays, transform: NDArray[np.float64] | None, itself: bool,
    threads: int, progress: Progress | None,
) -> Ids:  # fmt: skip
    """Return the pairs of faces that meet, (m, 2), ascending.

    `transform` moves the second tree. If `itself`, both are one tree, and shared vertices and edges
    do not count as contacts.
    """
    parts: list[Keys] = []
    matrix = None if transform is None else kernel_input(transform)
    motions, shared = addresses(None, None, None, matrix), ONE_TREE if itself else TWO_MESHES
    pair = TreePair(arrays.row, others.row, motions, 0, 0, shared)
    tasks = np.empty((0, ENTRY), np.int64)
    if len(arrays.nodes.data) and len(others.nodes.data):
        tasks = split_pair(pair, min(TASKS * threads, MAX_TASKS))
    shelf = Shelf(lambda: meeting_pairs.new_pair_search(len(tasks)))
    cancel = np.zeros(1, np.int32)

    def work(begin: int, end: int) -> None:
        with shelf.scratch() as search:
            meeting_pairs.begin_with(search, tasks[begin:end])
            found = pairs_that_meet(pair, search, cancel)
        parts.append(joined([rows[:, 0] << 32 | rows[:, 1] for rows in found]))

    size = max(1, len(tasks) // (8 * threads))
    share_long(len(tasks), size, work, threads, cancel, progress)
    keys = ascending(joined(parts))
    return np.stack([keys >> 32, keys & 0xFFFFFFFF], axis=1).astype(np.int32)


def split_pair(pair: TreePair, wanted: int) -> NDArray[np.int64]:
    """Return pairs of subtrees, about `wanted`, that make up a pair of trees."""
    search = meeting_pairs.new_pair_search(wanted)
    meeting_pairs.begin_with(search, np.zeros((1, ENTRY), np.int64))
    meeting_pairs.split(*pair, search, wanted)
    first, height = search.state[meeting_pairs.FIRST], search.state[meeting_pairs.HEIGHT]
    return search.stack[first:height].reshape(-1, ENTRY)


def pairs_that_meet(
    pair: TreePair, search: PairSearch, cancel: NDArray[np.int32]
) -> list[NDArray[np.int64]]:
    """Return the pairs of faces that a search finds, in parts (n, 2), until it is cancelled."""
    found, done = [], False
    while not (done or cancel[0]):
        done = meeting_pairs.meet(*pair, search, meeting_pairs.STEPS)
        count = int(search.state[meeting_pairs.MET])
        if count:
            found.append(search.pairs[:count].astype(np.int64))
    return found


@warms("overlaps")
def _warm() -> None:
    """Compile the kernels of overlaps."""
    kinds: tuple[Primitives, ...] = (
        Triangles(np.eye(3), np.arange(3, dtype=np.int32).reshape(1, 3)),
        Boxes(np.array([[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]])),
        SphereShape.arrays(SphereShape.points_of(np.zeros((1, 3)), 1.0)),
        CapsuleShape.arrays(CapsuleShape.points_of(np.zeros((1, 3)), np.ones((1, 3)), 1.0)),
    )
    corners = np.zeros((1, 3)), np.ones((1, 3))
    for kind in kinds:
        arrays, bounds = build(frozen_primitives(kind), "medium", 1, None)
        search = search_of(arrays, bounds)
        search.overlaps(BoxRegions(*corners), (), None, None)
        search.overlaps(SphereRegions(corners[0], np.ones(1)), (), None, None)
        if not isinstance(kind, Boxes):
            search.overlaps(PlaneRegions(np.ones((1, 1, 4)), np.ones(1, np.int64)), (), None, None)
        if isinstance(kind, Triangles):
            find_pairs(arrays, arrays, None, True, 1, None)
