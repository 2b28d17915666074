"""Overlap searches of scenes: faces that overlap regions, pairs of faces that meet.

Pairs are searched tree against tree, for the pairs of leaves whose boxes meet. Whether faces meet
is decided by their vertices in the world, which are computed for those that may. The boxes of one
tree are transformed to the frame of the other only to rule out faces (see `tree_to_tree`).
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.transforms import moved
from bvh.queries.batches import overlap_batches
from bvh.queries.hierarchy import BVH
from bvh.queries.results import Overlaps, ScenePairs
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import kernel_input, one_index
from bvh.runtime.jit import warms
from bvh.runtime.threads import Progress, Shelf, share_long
from bvh.scene.scene_view import SceneView
from bvh.scene.table import Instances
from bvh.traversal.overlaps.regions import BoxRegions, PlaneRegions, SphereRegions
from bvh.traversal.overlaps.tree_pairs import ENTRY, PairSearch, begin_with, new_pair_search
from bvh.traversal.overlaps.tree_to_tree import frame_maps
from bvh.tree.arrays import TreeArrays
from bvh.tree.instanced import CODE_BITS, PRIM_MASK, hit_codes
from bvh.tree.primitives import Triangles

Keys = NDArray[np.int64]

# Pairs by ids or names, or an array of ids, (k, 2).
PairsLike = Iterable[tuple[int | str, int | str]] | ArrayLike

Rows = NDArray[np.int64]
Reals = NDArray[np.float64]

# Pairs of leaves, or of their subtrees, that a thread takes at a time.
PAIRS_AT_ONCE = 256

STILL = np.eye(3, 4)


def search_of_scene(
    view: SceneView, counted: Callable[[Any], Overlaps] | None = None
) -> overlap_batches.RegionSearch:
    """Return the region search of a scene."""

    def corners(code: int) -> Any:
        leaf, prim = code >> CODE_BITS, code & PRIM_MASK
        primitives = view.trees[view.tree_of[leaf]].primitives
        assert isinstance(primitives, Triangles)
        return moved(primitives.points[primitives.faces[prim]], view.maps[leaf]).tolist()

    top = view.arrays, view.tlas.bounds, view.owners
    return overlap_batches.RegionSearch(*top, corners, counted)


class Side(NamedTuple):
    """One of the two scenes of a search for pairs: its leaves, in arrays."""

    trees: list[TreeArrays]
    frames: Reals  # (m, 4, 3)
    tree_of: NDArray[np.int32]
    maps: Reals  # (n, 3, 4)
    inverses: Reals
    boxes: Reals  # (n, 6)
    visible: NDArray[np.bool_]  # (n,): and not empty


def side_of(content: SceneView | TreeBase) -> Side:
    """Return one side of a search for pairs: a scene, or a tree as a scene of one leaf."""
    if isinstance(content, SceneView):
        boxes = content.tlas.boxes
        visible = (content.masks != 0) & (boxes[:, 0] <= boxes[:, 3])
        placed = content.frames, content.tree_of, content.maps, content.inverses
        return Side(content.shown_trees(), *placed, boxes, visible)
    arrays, still, first = content._shown_arrays(), STILL[None], np.zeros(1, np.int32)
    boxes, visible = content.bounds.reshape(1, 6), np.array([len(arrays.nodes.data) > 0])
    return Side([arrays], arrays.frame[None], first, still, still, boxes, visible)


def _moved_boxes(boxes: Reals, matrix: Reals) -> Reals:
    """Return boxes around moved boxes, and around what is in them, moved with rounding."""
    linear, shift, size = matrix[:3, :3], matrix[:3, 3], np.abs(matrix[:3, :3])
    with np.errstate(all="ignore"):
        low, high = boxes[:, :3], boxes[:, 3:]
        centre, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        reach = (np.abs(centre) + half) @ size.T + np.abs(shift)
        middle, reach = centre @ linear.T + shift, half @ size.T + reach * 2.0**-46 + 2.0**-1000
        low, high = middle - reach, middle + reach
        # Of what overflows nothing is known.
        low = np.where(np.isnan(low), -np.inf, low)
        return np.hstack([low, np.where(np.isnan(high), np.inf, high)])


def near_leaves(
    view: SceneView, own: Side, other: Side, transform: Reals | None, threads: int,
    reach: float = 0.0,
) -> tuple[Rows, Rows]:  # fmt: skip
    """Return the pairs of leaves whose boxes meet, or are within `reach` along every axis."""
    theirs = np.flatnonzero(other.visible)
    boxes = other.boxes[theirs]
    if transform is not None:
        boxes = _moved_boxes(boxes, transform)
    if not (len(theirs) and own.visible.any()):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    low, high = boxes[:, :3], boxes[:, 3:]
    if reach > 0.0:
        with np.errstate(over="ignore"):
            low, high = np.nextafter(low - reach, -np.inf), np.nextafter(high + reach, np.inf)
    # Nothing is outside the scene's bounds; this also makes all corners finite.
    low, high = np.maximum(low, view.tlas.bounds[0]), np.minimum(high, view.tlas.bounds[1])
    search = overlap_batches.search_of(view.tlas.arrays, view.tlas.bounds)
    regions = BoxRegions(kernel_input(low), kernel_input(high))
    offsets, mine = overlap_batches.find_regions(search, regions, len(low), threads, None)
    theirs = np.repeat(theirs, np.diff(offsets))
    kept = own.visible[mine]
    return mine[kept], theirs[kept]


class PairJob(NamedTuple):
    """A search for pairs: two scenes, and the pairs of their leaves whose boxes meet."""

    own: Side
    other: Side
    transform: Reals | None
    itself: bool
    mine: Rows
    theirs: Rows


def find_leaf_pairs(
    view: SceneView, content: SceneView | TreeBase, transform: Reals | None, itself: bool,
    threads: int, progress: Progress | None,
    kept: Callable[[Rows, Rows], NDArray[np.bool_]] | None = None,
) -> ScenePairs:  # fmt: skip
    """Return the pairs of faces that meet, ascending, of pairs of leaves that `kept` chooses."""
    own = side_of(view)
    other = own if content is view else side_of(content)
    mine, theirs = near_leaves(view, own, other, transform, threads)
    if itself:
        # Each pair once, the lower leaf and face first.
        kept = np.less_equal
    if kept is not None:
        rows = kept(mine, theirs)
        mine, theirs = mine[rows], theirs[rows]
    job = PairJob(own, other, transform, itself, mine, theirs)
    which, entries = tasks_of(job, threads)
    most, shape = int(np.bincount(which).max(initial=0)), (overlap_batches.PAIRS, 2)
    shelf = Shelf(lambda: (new_pair_search(most), np.empty(shape, np.int32)))
    parts: list[Rows] = []
    cancel = np.zeros(1, np.int32)

    def work(begin: int, end: int) -> None:
        found: list[Rows] = []
        with shelf.scratch() as (pair_search, pairs):
            for pair, to_first in begun(job, which, entries, begin, end, pair_search):
                codes = np.array([job.mine[pair], job.theirs[pair]]) << CODE_BITS
                start = _start_of(job, pair, to_first)
                met = overlap_batches.meeting_pairs(*start, pair_search, pairs, cancel)
                found += [codes | rows for rows in met]
        parts.extend(found)

    size = min(PAIRS_AT_ONCE, max(1, len(which) // (8 * threads)))
    share_long(len(which), size, work, threads, cancel, progress)
    (leaf, prim), (leaf2, prim2) = map(hit_codes, _ascending(parts))
    owner = view.owners[leaf]
    if isinstance(content, SceneView):
        owner2 = content.owners[leaf2]
    else:
        leaf2 = owner2 = np.full(len(leaf2), -1, np.int32)
    columns = (owner, owner2), (leaf, leaf2), (prim, prim2)
    return ScenePairs(*(np.stack(pair, axis=1) for pair in columns))


def tasks_of(job: PairJob, threads: int) -> tuple[Rows, Rows]:
    """Return the pair of leaves of each task, and the pair of subtrees that it begins with."""
    count = len(job.mine)
    if count == 0 or count >= overlap_batches.TASKS * threads or threads == 1:
        return np.arange(count), np.zeros((count, ENTRY), np.int64)
    # Few pairs of leaves: open them, for threads to share.
    wanted = overlap_batches.TASKS * threads // count
    to_first, pair_search = maps_to_first(job, np.arange(count)), new_pair_search(wanted)
    starts = (_start_of(job, k, to_first[k]) for k in range(count))
    split = overlap_batches.split_pair
    entries = [split(*start, pair_search, wanted).copy() for start in starts]
    return np.repeat(np.arange(count), [*map(len, entries)]), np.concatenate(entries)


def begun(
    job: PairJob, which: Rows, entries: Rows, begin: int, end: int, pair_search: PairSearch
) -> Iterator[tuple[int, Reals]]:
    """Begin the search of each pair of leaves in tasks begin..end; yield it, and its transform."""
    begins = np.flatnonzero(np.diff(which[begin:end], prepend=-1)) + begin
    stops = [*begins[1:].tolist(), end]
    to_first = maps_to_first(job, which[begins])
    for first, stop, matrix in zip(begins.tolist(), stops, to_first, strict=True):
        begin_with(pair_search, entries[first:stop])
        yield int(which[first]), matrix


def _start_of(job: PairJob, k: int, to_first: Reals) -> tuple[TreeArrays, TreeArrays, Reals, bool]:
    """Return the trees of a pair of leaves, their transform, and whether they are one leaf."""
    return *trees_of(job, k), to_first, job.itself and bool(job.mine[k] == job.theirs[k])


def maps_to_first(job: PairJob, pairs: Rows) -> Reals:
    """Return the transforms between the frames of pairs of leaves."""
    own, other = job.own, job.other
    mine, theirs = job.mine[pairs], job.theirs[pairs]
    first = own.frames[own.tree_of[mine]], own.maps[mine], own.inverses[mine]
    second = other.frames[other.tree_of[theirs]], other.maps[theirs]
    return frame_maps(*first, *second, job.transform, job.itself)


def trees_of(job: PairJob, k: int) -> tuple[TreeArrays, TreeArrays]:
    """Return the trees of a pair of leaves."""
    own, other = job.own, job.other
    mine, theirs = own.tree_of[job.mine[k]], other.tree_of[job.theirs[k]]
    return own.trees[mine], other.trees[theirs]


def _ascending(parts: list[Rows]) -> tuple[Rows, Rows]:
    """Return pairs in order, each once: a leaf of a tree may not be the only one with a face."""
    rows = np.concatenate(parts) if parts else np.empty((0, 2), np.int64)
    first, second = rows[:, 0], rows[:, 1]
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    new = np.append(True, (first[1:] != first[:-1]) | (second[1:] != second[:-1]))[: len(rows)]
    return first[new], second[new]


def ignored_keys(table: Instances, ignore: PairsLike | None) -> Keys:
    """Return the pairs to ignore as keys, the lower id in the high bits; ascending."""
    if ignore is None:
        return np.empty(0, np.int64)
    # Arrays without axes pass for iterable.
    single = isinstance(ignore, str | bytes) or getattr(ignore, "ndim", 2) == 0
    if single or not isinstance(ignore, Iterable):
        raise TypeError(f"ignore must be pairs of instances, got {ignore!r}")
    known = set(table.column("ids")[table.column("child") >= 0].tolist())
    named: dict[str, list[int]] = {}
    for number, name in table.names.items():
        named.setdefault(name, []).append(number)

    def ids(end: Any) -> list[int]:
        if isinstance(end, str):
            if end not in named:
                raise ValueError(f"ignore: there is no instance with the name {str(end)!r}")
            return named[end]
        number = one_index("an instance in ignore", end)
        if number not in known:
            raise ValueError(f"ignore: there is no instance {number}")
        return [number]

    found: set[tuple[int, int]] = set()
    for pair in ignore:
        ends = None if isinstance(pair, str | bytes) or not isinstance(pair, Iterable) else [*pair]
        if ends is None or len(ends) != 2:
            raise ValueError(f"ignore must be pairs of instances, and one of them is {pair!r}")
        found.update(itertools.product(ids(ends[0]), ids(ends[1])))
    return np.array(sorted({min(pair) << 32 | max(pair) for pair in found}), np.int64)


@warms("overlaps in scenes")
def _warm() -> None:
    """Compile what regions of scenes need; pairs need what those of trees do."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    one = np.zeros(1, np.int32)
    view = SceneView([tree], one, np.eye(3, 4)[None], np.ones(1, np.uint32), one)
    corners, ones = (np.zeros((1, 3)), np.ones((1, 3))), np.ones(1)
    every = np.ones((1, 1, 4)), np.ones(1, np.int64)
    for regions in (BoxRegions(*corners), SphereRegions(corners[0], ones), PlaneRegions(*every)):
        search_of_scene(view).overlaps(regions, (), None, None)
