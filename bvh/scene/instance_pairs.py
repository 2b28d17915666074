"""Overlap searches of scenes: faces that overlap regions, pairs of faces that meet.

Pairs are searched tree against tree, for the pairs of leaves whose boxes meet. Whether faces meet
is decided by their vertices in the world, which are computed for those that may. The boxes of one
tree are transformed to the frame of the other only to rule out faces (see `pair_frames`).
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
from bvh.traversal.pairs import meeting_pairs
from bvh.traversal.pairs.pair_frames import addresses
from bvh.traversal.pairs.pair_walk import ENTRY
from bvh.traversal.regions.regions import BoxRegions, PlaneRegions, SphereRegions
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
        placed = content.tree_of, content.maps, content.inverses
        return Side(content.shown_trees(), *placed, boxes, visible)
    arrays, still, first = content._shown_arrays(), STILL[None], np.zeros(1, np.int32)
    boxes, visible = content.bounds.reshape(1, 6), np.array([len(arrays.nodes.data) > 0])
    return Side([arrays], first, still, still, boxes, visible)


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
    itself: bool
    mine: Rows
    theirs: Rows
    motions: Rows  # addresses in the arrays of both sides: see `pair_frames.set_motions`


def motions_of(own: Side, other: Side, matrix: Reals | None = None) -> Rows:
    """Return the table of what moves the leaves of both sides."""
    return addresses(own.maps, own.inverses, other.maps, matrix)


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
    matrix = None if transform is None else kernel_input(transform)
    job = PairJob(own, other, itself, mine, theirs, motions_of(own, other, matrix))
    which, entries = tasks_of(job, threads)
    most = int(np.bincount(which).max(initial=0))
    shelf = Shelf(lambda: meeting_pairs.new_pair_search(most))
    parts: list[Rows] = []
    cancel = np.zeros(1, np.int32)

    def work(begin: int, end: int) -> None:
        found: list[Rows] = []
        with shelf.scratch() as search:
            for k in begun(which, entries, begin, end, search):
                codes = np.array([job.mine[k], job.theirs[k]]) << CODE_BITS
                met = overlap_batches.pairs_that_meet(pair_of(job, k), search, cancel)
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
    entries = [overlap_batches.split_pair(pair_of(job, k), wanted) for k in range(count)]
    return np.repeat(np.arange(count), [*map(len, entries)]), np.concatenate(entries)


def begun(
    which: Rows, entries: Rows, begin: int, end: int, pair_search: meeting_pairs.PairSearch
) -> Iterator[int]:
    """Begin the search of each pair of leaves in tasks begin..end, and yield it."""
    begins = np.flatnonzero(np.diff(which[begin:end], prepend=-1)) + begin
    for first, stop in itertools.pairwise([*begins.tolist(), end]):
        meeting_pairs.begin_with(pair_search, entries[first:stop])
        yield int(which[first])


def pair_of(job: PairJob, k: int) -> overlap_batches.TreePair:
    """Return a pair of leaves as kernels take it."""
    (own, other), leaf, leaf2 = trees_of(job, k), int(job.mine[k]), int(job.theirs[k])
    shared = meeting_pairs.TWO_MESHES
    if job.itself:
        shared = meeting_pairs.ONE_TREE if leaf == leaf2 else meeting_pairs.ONE_MESH
    return overlap_batches.TreePair(own.row, other.row, job.motions, leaf, leaf2, shared)


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
