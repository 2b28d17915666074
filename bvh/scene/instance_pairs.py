"""Overlap searches of scenes: faces that overlap regions, pairs of faces that meet.

Pairs of leaves whose boxes meet are searched tree against tree. Boxes of one tree, transformed to
the frame of the other, rule out faces (see `tree_to_tree`); the others are tested exactly, by their
vertices in world coordinates.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.transforms import moved
from bvh.queries.batches import overlap_batches
from bvh.queries.hierarchy import BVH
from bvh.queries.results import SceneOverlaps, ScenePairs
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

# Pairs of leaves, or of their subtrees, in a chunk of a thread.
PAIRS_AT_ONCE = 256

STILL = np.eye(3, 4)


def search_of_scene(
    view: SceneView, counted: Callable[[Any], SceneOverlaps] | None = None
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
    """The leaves of one of two scenes in a search for pairs."""

    trees: list[TreeArrays]
    frames: Reals  # (m, 4, 3)
    tree_of: NDArray[np.int32]
    maps: Reals  # (n, 3, 4)
    inverses: Reals
    boxes: Reals  # (n, 6)
    visible: NDArray[np.bool_]  # (n,): and not empty


def side_of(content: SceneView | TreeBase) -> Side:
    """Return one side of a search for pairs: a scene's, or a tree as a single leaf."""
    if isinstance(content, SceneView):
        boxes = content.tlas.boxes
        visible = (content.masks != 0) & (boxes[:, 0] <= boxes[:, 3])
        placed = content.frames, content.tree_of, content.maps, content.inverses
        return Side(content.shown_trees(), *placed, boxes, visible)
    arrays, still, first = content._shown_arrays(), STILL[None], np.zeros(1, np.int32)
    boxes, visible = content.bounds.reshape(1, 6), np.array([len(arrays.nodes.data) > 0])
    return Side([arrays], arrays.frame[None], first, still, still, boxes, visible)


def _moved_boxes(boxes: Reals, matrix: Reals) -> Reals:
    """Return boxes around transformed boxes, and around their content, transformed and rounded."""
    linear, shift, size = matrix[:3, :3], matrix[:3, 3], np.abs(matrix[:3, :3])
    with np.errstate(all="ignore"):
        low, high = boxes[:, :3], boxes[:, 3:]
        centre, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        reach = (np.abs(centre) + half) @ size.T + np.abs(shift)
        middle, reach = centre @ linear.T + shift, half @ size.T + reach * 2.0**-46 + 2.0**-1000
        low, high = middle - reach, middle + reach
        # Boxes that overflow become unbounded.
        low = np.where(np.isnan(low), -np.inf, low)
        return np.hstack([low, np.where(np.isnan(high), np.inf, high)])


def near_leaves(
    view: SceneView, first: Side, second: Side, transform: Reals | None, threads: int,
    reach: float = 0.0,
) -> tuple[Rows, Rows]:  # fmt: skip
    """Return the pairs of leaves whose boxes meet, or are within `reach` along every axis."""
    rows2 = np.flatnonzero(second.visible)
    boxes = second.boxes[rows2]
    if transform is not None:
        boxes = _moved_boxes(boxes, transform)
    if not (len(rows2) and first.visible.any()):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    low, high = boxes[:, :3], boxes[:, 3:]
    if reach > 0.0:
        with np.errstate(over="ignore"):
            low, high = np.nextafter(low - reach, -np.inf), np.nextafter(high + reach, np.inf)
    # Clipped to the scene's bounds, all corners are finite.
    low, high = np.maximum(low, view.tlas.bounds[0]), np.minimum(high, view.tlas.bounds[1])
    search = overlap_batches.search_of(view.tlas.arrays, view.tlas.bounds)
    regions = BoxRegions(kernel_input(low), kernel_input(high))
    offsets, rows = overlap_batches.find_regions(search, regions, len(low), threads, None)
    rows2 = np.repeat(rows2, np.diff(offsets))
    kept = first.visible[rows]
    return rows[kept], rows2[kept]


class PairJob(NamedTuple):
    """Two scenes, and the pairs of their leaves whose boxes meet."""

    first: Side
    second: Side
    transform: Reals | None
    itself: bool
    rows: Rows
    rows2: Rows


def find_leaf_pairs(
    view: SceneView, content: SceneView | TreeBase, transform: Reals | None, itself: bool,
    threads: int, progress: Progress | None,
    kept: Callable[[Rows, Rows], NDArray[np.bool_]] | None = None,
) -> ScenePairs:  # fmt: skip
    """Return the pairs of faces that meet, ascending, in pairs of leaves that `kept` selects."""
    first = side_of(view)
    second = first if content is view else side_of(content)
    rows, rows2 = near_leaves(view, first, second, transform, threads)
    if itself:
        # Each pair once, the lower leaf and face first.
        kept = np.less_equal
    if kept is not None:
        chosen = kept(rows, rows2)
        rows, rows2 = rows[chosen], rows2[chosen]
    job = PairJob(first, second, transform, itself, rows, rows2)
    which, entries = tasks_of(job, threads)
    most, shape = int(np.bincount(which).max(initial=0)), (overlap_batches.PAIRS, 2)
    shelf = Shelf(lambda: (new_pair_search(most), np.empty(shape, np.int32)))
    parts: list[Rows] = []
    cancel = np.zeros(1, np.int32)

    def work(begin: int, end: int) -> None:
        found: list[Rows] = []
        with shelf.scratch() as (pair_search, pairs):
            for pair, to_first in begun(job, which, entries, begin, end, pair_search):
                codes = np.array([job.rows[pair], job.rows2[pair]]) << CODE_BITS
                start = _start_of(job, pair, to_first)
                met = overlap_batches.meeting_pairs(*start, pair_search, pairs, cancel)
                found += [codes | faces for faces in met]
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
    """Return the pair of leaves of each task, and its first pair of subtrees."""
    count = len(job.rows)
    if count == 0 or count >= overlap_batches.TASKS * threads or threads == 1:
        return np.arange(count), np.zeros((count, ENTRY), np.int64)
    # Few pairs of leaves are split into pairs of subtrees, which threads share.
    parts = overlap_batches.TASKS * threads // count
    to_first, pair_search = maps_to_first(job, np.arange(count)), new_pair_search(parts)
    starts = (_start_of(job, k, to_first[k]) for k in range(count))
    split = overlap_batches.split_pair
    entries = [split(*start, pair_search, parts).copy() for start in starts]
    return np.repeat(np.arange(count), [*map(len, entries)]), np.concatenate(entries)


def begun(
    job: PairJob, which: Rows, entries: Rows, begin: int, end: int, pair_search: PairSearch
) -> Iterator[tuple[int, Reals]]:
    """Begin the search of each pair of leaves in tasks begin..end; yield it and its transform."""
    begins = np.flatnonzero(np.diff(which[begin:end], prepend=-1)) + begin
    stops = [*begins[1:].tolist(), end]
    to_first = maps_to_first(job, which[begins])
    for first, stop, matrix in zip(begins.tolist(), stops, to_first, strict=True):
        begin_with(pair_search, entries[first:stop])
        yield int(which[first]), matrix


def _start_of(job: PairJob, k: int, to_first: Reals) -> tuple[TreeArrays, TreeArrays, Reals, bool]:
    """Return the trees of a pair of leaves, their transform, and whether it is one leaf twice."""
    return *trees_of(job, k), to_first, job.itself and bool(job.rows[k] == job.rows2[k])


def maps_to_first(job: PairJob, pairs: Rows) -> Reals:
    """Return the transforms between the frames of pairs of leaves."""
    first, second = job.first, job.second
    rows, rows2 = job.rows[pairs], job.rows2[pairs]
    target = first.frames[first.tree_of[rows]], first.maps[rows], first.inverses[rows]
    source = second.frames[second.tree_of[rows2]], second.maps[rows2]
    return frame_maps(*target, *source, job.transform, job.itself)


def trees_of(job: PairJob, k: int) -> tuple[TreeArrays, TreeArrays]:
    """Return the trees of a pair of leaves."""
    first, second = job.first, job.second
    tree, tree2 = first.tree_of[job.rows[k]], second.tree_of[job.rows2[k]]
    return first.trees[tree], second.trees[tree2]


def _ascending(parts: list[Rows]) -> tuple[Rows, Rows]:
    """Return pairs in order, each once, as several leaves of a tree may have a face."""
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
    # Arrays without axes seem iterable.
    single = isinstance(ignore, str | bytes) or getattr(ignore, "ndim", 2) == 0
    if single or not isinstance(ignore, Iterable):
        raise TypeError(f"ignore must be pairs of instances, got {ignore!r}")
    known = set(table.column("ids")[table.column("child") >= 0].tolist())
    ids_of: dict[str, list[int]] = {}
    for number, name in table.names.items():
        ids_of.setdefault(name, []).append(number)

    def ids(end: Any) -> list[int]:
        if isinstance(end, str):
            if end not in ids_of:
                raise ValueError(f"ignore: there is no instance with the name {str(end)!r}")
            return ids_of[end]
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
    """Compile the kernels for regions of scenes; pairs use those of trees."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    one = np.zeros(1, np.int32)
    view = SceneView([tree], one, np.eye(3, 4)[None], np.ones(1, np.uint32), one)
    corners, ones = (np.zeros((1, 3)), np.ones((1, 3))), np.ones(1)
    every = np.ones((1, 1, 4)), np.ones(1, np.int64)
    for regions in (BoxRegions(*corners), SphereRegions(corners[0], ones), PlaneRegions(*every)):
        search_of_scene(view).overlaps(regions, (), None, None)
