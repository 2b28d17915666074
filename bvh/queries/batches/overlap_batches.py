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
from bvh.runtime.memory import Shelf
from bvh.runtime.threads import Progress, share, share_long
from bvh.traversal.pairs import meeting_pairs
from bvh.traversal.pairs.meeting_pairs import ONE_TREE, TWO_MESHES, PairSearch
from bvh.traversal.pairs.pair_frames import addresses
from bvh.traversal.pairs.pair_walk import ENTRY
from bvh.traversal.regions import region_search
from bvh.traversal.regions.regions import BoxRegions, PlaneRegions, Regions, SphereRegions
from bvh.tree.arrays import TreeArrays, TreeRow, frozen_primitives
from bvh.tree.build import build
from bvh.tree.instanced import CODE_BITS, PRIM_MASK, split_codes
from bvh.tree.primitives import Primitives, Triangles
from bvh.tree.shapes import HOLLOW, Boxes, CapsuleShape, SphereShape

Ids = NDArray[np.int32]
Keys = NDArray[np.int64]
# Numbers of primitives in kernels: in a scene the leaf in the high bits (see `instanced`).
Codes = NDArray[np.int64]
Ints = NDArray[np.int64]

# Results are sorted by keys of 64 bits: the query's number in its chunk, the leaf, the primitive.
LEAF_BITS, PRIM_BITS = 24, MAX_PRIMITIVES.bit_length() - 1
QUERY_SHIFT = LEAF_BITS + PRIM_BITS

NO_KEYS = np.empty(0, np.int64)

# Queries that a thread takes at a time, and the capacity for their results; a search that finds
# more continues in a larger buffer.
QUERIES_AT_ONCE = 256
CAPACITY = 4 * region_search.MAX_LEAF_SIZE
LARGEST_CAPACITY = 1 << 20
# Pairs of subtrees that a pair of trees is split into: for each thread, and the most in total.
TASKS, MAX_TASKS = 64, 1 << 14


class RegionSearch(NamedTuple):
    """Search of a tree, or a scene, for the primitives that overlap regions."""

    arrays: TreeArrays
    bounds: NDArray[np.float64]  # lower and upper corner of all primitives, (2, 3)
    owners: Ids | None  # the instance of each leaf of a scene; None of a tree, whose codes are ids
    # corners(code) returns the corners of a primitive as lists: 3 of a triangle, 2 of a box; of a
    # round shape both ends of its axis, and a list of its radius.
    corners: Callable[[int], Any]
    select: Callable[[Any], Overlaps] | None = None  # selects the overlaps that a mask allows

    def overlaps(
        self, regions: Regions, shape: tuple[int, ...], threads: int | None,
        progress: Progress | None,
    ) -> Overlaps:  # fmt: skip
        """Return the primitives that overlap each region; `shape` is the regions' leading shape."""
        regions = type(regions)(*(kernel_input(array) for array in regions))
        if shape == () and progress is None:
            # Checked, although one region needs no threads.
            if threads is not None:
                thread_count(threads)
            # Keys of a single region are its codes, copied as the search may refill their buffer.
            codes = _find_keys(self, regions, 0, 1, lambda _, codes: codes.copy())
            offsets = np.array([0, len(codes)])
        else:
            count, workers = math.prod(shape), thread_count(threads)
            offsets, codes = find_overlaps(self, regions, count, workers, progress)
        if self.owners is None:
            found = Overlaps(codes.astype(np.int32), offsets, shape)
        else:
            leaf, prim = split_codes(codes)
            found = Overlaps(prim, offsets, shape, self.owners[leaf], leaf)
        return found if self.select is None else self.select(found)


def search_of(
    arrays: TreeArrays, bounds: NDArray[np.float64], select: Callable[[Any], Overlaps] | None = None
) -> RegionSearch:
    """Return the region search of a tree with `bounds` (2, 3); `select` applies a mask."""
    primitives = arrays.primitives

    def corners(prim: int) -> Any:
        """Return the corners of a triangle or box; of a round shape the result of `axis_of`."""
        if isinstance(primitives, Triangles):
            return primitives.points[primitives.faces[prim]].tolist()
        if isinstance(primitives, HOLLOW):
            return axis_of(primitives.points[prim])
        return primitives.points[prim].reshape(2, 3).tolist()

    return RegionSearch(arrays, bounds, None, corners, select)


def axis_of(row: NDArray[np.float64]) -> Any:
    """Return both ends of the axis of a round shape, (3,) each, and its radius, (1,), as lists.

    `row` has the six numbers of the shape's box, then the centre of a sphere, which is both ends,
    or the two ends of a capsule's axis, then the radius.
    """
    return [row[6:9].tolist(), row[-4:-1].tolist(), row[-1:].tolist()]


def find_overlaps(
    search: RegionSearch, regions: Regions, count: int, threads: int, progress: Progress | None
) -> tuple[Ints, Codes]:
    """Return (offsets, codes): region i overlaps ``codes[offsets[i] : offsets[i + 1]]``.

    `regions` are `count` regions in arrays as kernels take them. Codes are ids, in a scene with the
    leaf in the high half; they ascend for each region.
    """
    # Of each chunk, by its first region: the number of results of each region, and their codes.
    parts: dict[int, tuple[Ints, Codes]] = {}

    def work(begin: int, end: int) -> None:
        def keys_of(queries: Ints, codes: Codes) -> Keys:
            """Return a key of 64 bits for each pair, which sorts by query, leaf and primitive."""
            # In a scene, the leaf is moved from bit 32 down to PRIM_BITS, to leave room above.
            if search.owners is not None:
                codes = (codes >> CODE_BITS) << PRIM_BITS | codes & PRIM_MASK
            return (queries - begin) << QUERY_SHIFT | codes

        keys = _find_keys(search, regions, begin, end, keys_of)
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
    return offsets, np.concatenate([NO_KEYS, *(codes for _, codes in ordered)])


def _find_keys(
    search: RegionSearch, regions: Regions, begin: int, end: int,
    keys_of: Callable[[Ints, Codes], Keys],
) -> Keys:  # fmt: skip
    """Return the keys of the primitives that regions begin..end-1 overlap, ascending, each once.

    `keys_of(queries, codes)` returns a key for each pair of a region's number and a primitive's
    code.
    """
    if len(search.arrays.nodes.data) == 0:
        return NO_KEYS
    state, capacity, done = region_search.new_search(regions, begin), CAPACITY, False
    found, parts = region_search.new_found(capacity), [NO_KEYS]
    while not done:
        # The kernel stops when `found` might be full, and continues in the next call.
        done = region_search.search_regions(search.arrays.row, regions, end, state, found)
        count = int(state.state[region_search.COUNT])
        parts.append(keys_of(*_decided(search, regions, found, count)))
        if not done and capacity < LARGEST_CAPACITY:
            capacity *= 4
            found = region_search.new_found(capacity)
    return ascending(np.concatenate(parts))


def _codes(search: RegionSearch, keys: Keys) -> Codes:
    """Return the codes of the primitives in keys: the reverse of `keys_of` in `find_overlaps`."""
    prim = keys & (MAX_PRIMITIVES - 1)
    if search.owners is None:
        return prim
    return (keys >> PRIM_BITS & ((1 << LEAF_BITS) - 1)) << CODE_BITS | prim


def _decided(
    search: RegionSearch, regions: Regions, found: region_search.Found, count: int
) -> tuple[Ints, Codes]:
    """Return the regions and codes, (m,) each, of overlapping pairs among the `count` pairs found.

    Pairs that the kernel has left undecided are decided here; instead of the code they have its
    complement, which is negative.
    """
    queries, codes = found.query[:count], found.prim[:count]
    undecided = (codes < 0).nonzero()[0]
    if len(undecided):
        codes = codes.copy()
        codes[undecided] = ~codes[undecided]
        overlaps = np.ones(count, np.bool_)
        overlaps[undecided] = [
            _overlaps(search.corners(int(codes[i])), regions, int(queries[i])) for i in undecided
        ]
        queries, codes = queries[overlaps], codes[overlaps]
    return queries, codes


def _overlaps(corners: Any, regions: Regions, query: int) -> bool:
    """Return whether region number `query` overlaps a primitive, in rational numbers.

    `corners` are those of `RegionSearch`. Kernels leave no box region undecided for triangles and
    boxes, so these do not come here.
    """
    is_round, is_box = len(corners[-1]) == 1, len(corners) == 2
    if isinstance(regions, SphereRegions):
        center, radius = regions.center[query].tolist(), float(regions.radius[query])
        if is_round:
            return rational_surfaces.surface_meets_sphere(
                corners[:2], corners[2][0], center, radius
            )
        test = rational.box_meets_sphere if is_box else rational.triangle_meets_sphere
        return test(corners, center, radius)
    if isinstance(regions, PlaneRegions):
        planes = regions.planes[query].tolist()
    else:
        planes = _sides(regions, query)
    if is_round:
        return rational_surfaces.surface_meets_planes(corners[:2], corners[2][0], planes)
    return rational.triangle_meets_planes(corners, planes)


def _sides(boxes: BoxRegions, query: int) -> list[list[float]]:
    """Return the planes (nx, ny, nz, offset) of box number `query`; their normals point inward."""
    normals = np.vstack([np.eye(3), -np.eye(3)])
    offsets = np.concatenate([-boxes.lower[query], boxes.upper[query]])
    return np.column_stack([normals, offsets]).tolist()  # type: ignore[no-any-return]


def ascending(keys: Keys) -> Keys:
    """Return keys sorted, each once: a search may find a face in several leaves of a tree."""
    # Faster than `np.unique`, by a factor of 30 for many keys.
    if len(keys) > 1:
        keys = np.sort(keys)
        is_first = np.ones(len(keys), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        if not is_first.all():
            keys = keys[is_first]
    return keys


class TreePair(NamedTuple):
    """Two trees whose faces may meet, as kernels take them."""

    row: TreeRow
    row2: TreeRow
    motions: Ints  # see `pair_frames.set_motions`
    leaf: int  # the row of the first tree's map, if `motions` have maps
    leaf2: int
    shared: int  # TWO_MESHES, ONE_MESH or ONE_TREE


def find_pairs(
    arrays: TreeArrays, others: TreeArrays, transform: NDArray[np.float64] | None, itself: bool,
    threads: int, progress: Progress | None,
) -> Ids:  # fmt: skip
    """Return the pairs of faces of two trees that meet, (m, 2) ids, ascending.

    `transform` (4, 4) moves the second tree. If `itself`, both trees are one, and shared vertices
    and edges do not count as contacts.
    """
    parts = [NO_KEYS]
    matrix = None if transform is None else kernel_input(transform)
    # No maps of leaves, only a matrix of the second tree (see `pair_frames.set_motions`).
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
        parts.extend(rows[:, 0] << 32 | rows[:, 1] for rows in found)

    size = max(1, len(tasks) // (8 * threads))
    share_long(len(tasks), size, work, threads, cancel, progress)
    # The first id is in the high half of a key, the second in the low half.
    keys = ascending(np.concatenate(parts))
    return keys.view("<i4").reshape(-1, 2)[:, ::-1].copy()


def split_pair(pair: TreePair, count: int) -> Ints:
    """Return about `count` pairs of subtrees that make up a pair of trees, for threads to share.

    The shape is (m, ENTRY): each row is the entry of a pair on the stack of a search.
    """
    search = meeting_pairs.new_pair_search(count)
    # The entry of the pair of roots is all zeros.
    meeting_pairs.begin_with(search, np.zeros((1, ENTRY), np.int64))
    meeting_pairs.split(*pair, search, count)
    first, height = search.state[meeting_pairs.FIRST], search.state[meeting_pairs.HEIGHT]
    return search.stack[first:height].reshape(-1, ENTRY)


def pairs_that_meet(pair: TreePair, search: PairSearch, cancel: NDArray[np.int32]) -> list[Ints]:
    """Return the pairs of faces that a search finds, in arrays (n, 2); end if `cancel` is not 0."""
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
