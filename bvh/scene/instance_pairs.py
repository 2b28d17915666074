"""Overlap searches of scenes: faces that overlap regions, pairs of faces that meet.

Pairs of leaves whose boxes meet are searched tree against tree. Boxes of one tree, transformed to
the frame of the other, rule out faces (see `pair_frames`); the others are tested exactly, by their
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
from bvh.queries.results import Overlaps, ScenePairs
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import kernel_input, one_index
from bvh.runtime.jit import warms
from bvh.runtime.memory import Shelf
from bvh.runtime.registry import enrolled
from bvh.runtime.threads import Progress, share_long
from bvh.scene.scene_view import SceneView
from bvh.scene.table import IDENTITY, Instances
from bvh.traversal.pairs import meeting_pairs
from bvh.traversal.pairs.pair_frames import addresses
from bvh.traversal.pairs.pair_walk import ENTRY
from bvh.traversal.regions.regions import BoxRegions, PlaneRegions, SphereRegions
from bvh.tree.arrays import TreeArrays
from bvh.tree.instanced import CODE_BITS, PRIM_MASK, split_codes
from bvh.tree.primitives import Triangles
from bvh.tree.shapes import HOLLOW, shape_of

Keys = NDArray[np.int64]

# Pairs of instances by their ids or names, or an array of ids, (k, 2).
PairsLike = Iterable[tuple[int | str, int | str]] | ArrayLike

Rows = NDArray[np.int64]
Reals = NDArray[np.float64]

# Pairs of leaves, or of their subtrees, in a chunk of a thread.
PAIRS_AT_ONCE = 256


def search_of_scene(
    view: SceneView, select: Callable[[Any], Overlaps] | None = None
) -> overlap_batches.RegionSearch:
    """Return the region search of a scene; `select`, if given, returns the overlaps to keep."""

    def corners(code: int) -> Any:
        """Return the corners of a triangle in world coordinates, lists (3, 3).

        For a sphere or capsule, return both ends of its axis, and a list of its radius. `code` is
        the leaf times 2**32, plus the id of the primitive in the leaf's tree.
        """
        leaf, prim = code >> CODE_BITS, code & PRIM_MASK
        primitives = view.trees[view.tree_of[leaf]].primitives
        if isinstance(primitives, HOLLOW):
            (row,) = shape_of(primitives).instances(primitives.points[[prim]], view.maps[leaf])
            return overlap_batches.axis_of(row)
        assert isinstance(primitives, Triangles)
        return moved(primitives.points[primitives.faces[prim]], view.maps[leaf]).tolist()

    top = view.arrays, view.tlas.bounds, view.owners
    return overlap_batches.RegionSearch(*top, corners, select)


class Side(NamedTuple):
    """The leaves of one of two scenes in a search for pairs."""

    trees: list[TreeArrays]
    tree_of: NDArray[np.int32]  # (n,): index of each leaf's tree
    maps: Reals  # (n, 3, 4): from the tree's coordinates to the scene's
    inverses: Reals  # (n, 3, 4): from the scene's coordinates to the tree's
    boxes: Reals  # (n, 6): lower and upper corner of each leaf in the scene
    visible: NDArray[np.bool_]  # (n,): whether each is visible and not empty


def side_of(content: SceneView | TreeBase) -> Side:
    """Return the leaves of a scene as one side of a search for pairs; a tree is a single leaf."""
    if isinstance(content, SceneView):
        boxes = content.tlas.boxes
        # Empty leaves have lower corners above the upper ones.
        visible = (content.masks != 0) & (boxes[:, 0] <= boxes[:, 3])
        placed = content.tree_of, content.maps, content.inverses
        return Side(content.shown_trees(), *placed, boxes, visible)
    arrays, maps, first = content._shown_arrays(), IDENTITY[None], np.zeros(1, np.int32)
    boxes, visible = content.bounds.reshape(1, 6), np.array([len(arrays.nodes.data) > 0])
    return Side([arrays], first, maps, maps, boxes, visible)


def _moved_boxes(boxes: Reals, matrix: Reals) -> Reals:
    """Return boxes (n, 6) around the images of `boxes`, (n, 6), under an affine matrix.

    They are a little larger, for the rounding of moved vertices and of this computation.
    """
    linear, shift, size = matrix[:3, :3], matrix[:3, 3], np.abs(matrix[:3, :3])
    with np.errstate(all="ignore"):
        low, high = boxes[:, :3], boxes[:, 3:]
        centre, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        # The sum of the absolute terms of a coordinate. Each of fewer than 20 roundings, here and
        # of moved vertices, is off by at most 2**-53 of it, or underflows; the margin covers 128.
        terms = (np.abs(centre) + half) @ size.T + np.abs(shift)
        moved_centre = centre @ linear.T + shift
        moved_half = half @ size.T + terms * 2.0**-46 + 2.0**-1000
        low, high = moved_centre - moved_half, moved_centre + moved_half
        # Where numbers overflow, to infinity minus infinity, boxes become unbounded.
        low = np.where(np.isnan(low), -np.inf, low)
        return np.hstack([low, np.where(np.isnan(high), np.inf, high)])


def near_leaves(
    view: SceneView, first: Side, second: Side, transform: Reals | None, threads: int,
    reach: float = 0.0,
) -> tuple[Rows, Rows]:  # fmt: skip
    """Return all pairs of visible leaves whose boxes are within `reach` along every axis.

    `first` is the side of `view`. `transform`, (4, 4), moves the leaves of `second`; None leaves
    them where they are. The result is (leaves of `first`, leaves of `second`), two arrays (n,).
    """
    rows2 = np.flatnonzero(second.visible)
    boxes = second.boxes[rows2]
    if transform is not None:
        boxes = _moved_boxes(boxes, transform)
    if not (len(rows2) and first.visible.any()):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    search = overlap_batches.search_of(view.tlas.arrays, view.tlas.bounds)
    which, rows = near_boxes(search, boxes, reach, threads)
    visible = first.visible[rows]
    return rows[visible], rows2[which[visible]]


def near_boxes(
    search: overlap_batches.RegionSearch, boxes: Reals, reach: float, threads: int
) -> tuple[Rows, Rows]:
    """Return pairs of a row of `boxes` (n, 6) and a code of a primitive within `reach` of it."""
    low, high = boxes[:, :3], boxes[:, 3:]
    if reach > 0.0:
        with np.errstate(over="ignore"):
            low, high = np.nextafter(low - reach, -np.inf), np.nextafter(high + reach, np.inf)
    # Nothing is outside the bounds; clipping to them makes infinite corners finite.
    low, high = np.maximum(low, search.bounds[0]), np.minimum(high, search.bounds[1])
    regions = BoxRegions(kernel_input(low), kernel_input(high))
    offsets, codes = overlap_batches.find_overlaps(search, regions, len(low), threads, None)
    return np.repeat(np.arange(len(low)), np.diff(offsets)), codes


class PairJob(NamedTuple):
    """Two scenes, and the pairs of their leaves to search for faces that meet."""

    first: Side
    second: Side
    itself: bool  # whether both sides are one scene, in which each pair of faces counts once
    rows: Rows  # (n,): the leaf of `first` of each pair
    rows2: Rows  # (n,): the leaf of `second` of each pair
    motions: Rows  # addresses of the maps of both sides (see `motions_of`)


def motions_of(first: Side, second: Side, matrix: Reals | None = None) -> Rows:
    """Return the addresses of the maps and inverses of `first`, the maps of `second`, and `matrix`.

    The matrix, (4, 4), moves all leaves of `second`; None: they stay. The caller must keep these
    arrays alive.
    """
    return addresses(first.maps, first.inverses, second.maps, matrix)


def find_leaf_pairs(
    view: SceneView, content: SceneView | TreeBase, transform: Reals | None, itself: bool,
    threads: int, progress: Progress | None,
    select: Callable[[Rows, Rows], NDArray[np.bool_]] | None = None,
) -> ScenePairs:  # fmt: skip
    """Return the pairs of a face of `view` and a face of `content` that meet, ascending.

    `transform`, (4, 4) or None, moves `content`, a scene or a tree. If `itself`, `content` is
    `view`: each pair counts once, and faces that only share vertices or an edge do not count.
    Otherwise ``select(leaves of view, leaves of content)``, if given, returns (n,) flags: which of
    n pairs of leaves are searched.
    """
    first = side_of(view)
    second = first if content is view else side_of(content)
    rows, rows2 = near_leaves(view, first, second, transform, threads)
    if itself:
        # Each pair once, the lower leaf and face first.
        select = np.less_equal
    if select is not None:
        chosen = select(rows, rows2)
        rows, rows2 = rows[chosen], rows2[chosen]
    matrix = None if transform is None else kernel_input(transform)
    parts: list[Rows] = []
    has_round = not isinstance(content, TreeBase) and content.rounded
    if view.rounded or has_round or isinstance(content.arrays.primitives, HOLLOW):
        # Contacts of leaves with spheres or capsules are found first, by
        # `round_trees.leaf_contacts`; `is_left`, (n,), flags the other pairs of leaves.
        given = view, content, transform, rows, rows2, itself
        is_left, parts = enrolled("contacts of round leaves")(*given)
        rows, rows2 = rows[is_left], rows2[is_left]
    job = PairJob(first, second, itself, rows, rows2, motions_of(first, second, matrix))
    which, entries = tasks_of(job, threads)
    # The most tasks that one pair of leaves has: if all are in a chunk, they are one search.
    most = int(np.bincount(which).max(initial=0))
    shelf = Shelf(lambda: meeting_pairs.new_pair_search(most))
    cancel = np.zeros(1, np.int32)

    def work(begin: int, end: int) -> None:
        """Search tasks begin..end - 1; add the pairs of faces to `parts`, as pairs of codes."""
        codes: list[Rows] = []
        with shelf.scratch() as search:
            for k in begin_searches(which, entries, begin, end, search):
                leaf_codes = np.array([job.rows[k], job.rows2[k]]) << CODE_BITS
                met = overlap_batches.pairs_that_meet(pair_of(job, k), search, cancel)
                codes += [leaf_codes | faces for faces in met]
        parts.extend(codes)

    size = min(PAIRS_AT_ONCE, max(1, len(which) // (8 * threads)))
    share_long(len(which), size, work, threads, cancel, progress)
    (leaf, prim), (leaf2, prim2) = map(split_codes, _ascending(parts))
    owner = view.owners[leaf]
    if isinstance(content, SceneView):
        owner2 = content.owners[leaf2]
    else:
        # A tree alone has neither leaves nor instances.
        leaf2 = owner2 = np.full(len(leaf2), -1, np.int32)
    columns = (owner, owner2), (leaf, leaf2), (prim, prim2)
    return ScenePairs(*(np.stack(pair, axis=1) for pair in columns))


def tasks_of(job: PairJob, threads: int) -> tuple[Rows, Rows]:
    """Return the t tasks of a search: (pair of leaves (t,), pair of subtrees (t, ENTRY)).

    Pairs of leaves are indices of `job.rows`, ascending; pairs of subtrees are entries for the
    stack of `pair_walk`. If there are few pairs of leaves, each is split into several tasks, so
    that all threads have some.
    """
    # Without a split, each task is a pair of leaves, and its entry of zeros the pair of both roots.
    count = len(job.rows)
    if count == 0 or count >= overlap_batches.TASKS * threads or threads == 1:
        return np.arange(count), np.zeros((count, ENTRY), np.int64)
    size = overlap_batches.TASKS * threads // count
    entries = [overlap_batches.split_pair(pair_of(job, k), size) for k in range(count)]
    return np.repeat(np.arange(count), [*map(len, entries)]), np.concatenate(entries)


def begin_searches(
    which: Rows, entries: Rows, begin: int, end: int, pair_search: meeting_pairs.PairSearch
) -> Iterator[int]:
    """Yield the index of each pair of leaves in tasks begin..end - 1, with its search begun.

    `which` and `entries` are the results of `tasks_of`. `pair_search` then begins with all pairs of
    subtrees of these tasks that belong to the yielded pair of leaves.
    """
    # The tasks of a pair of leaves are consecutive.
    begins = np.flatnonzero(np.diff(which[begin:end], prepend=-1)) + begin
    for first, stop in itertools.pairwise([*begins.tolist(), end]):
        meeting_pairs.begin_with(pair_search, entries[first:stop])
        yield int(which[first])


def pair_of(job: PairJob, k: int) -> overlap_batches.TreePair:
    """Return pair `k` of leaves as kernels take it.

    Within one scene, kernels do not report faces that share no more than a corner or an edge.
    """
    (first, second), leaf, leaf2 = trees_of(job, k), int(job.rows[k]), int(job.rows2[k])
    # Whether the leaves are of two meshes, are parts of one mesh, or are the same tree.
    shared = meeting_pairs.TWO_MESHES
    if job.itself:
        shared = meeting_pairs.ONE_TREE if leaf == leaf2 else meeting_pairs.ONE_MESH
    return overlap_batches.TreePair(first.row, second.row, job.motions, leaf, leaf2, shared)


def trees_of(job: PairJob, k: int) -> tuple[TreeArrays, TreeArrays]:
    """Return the trees of pair `k` of leaves: the one in `job.first`, then that in `job.second`."""
    sides = (job.first, job.rows), (job.second, job.rows2)
    first, second = (side.trees[side.tree_of[rows[k]]] for side, rows in sides)
    return first, second


def _ascending(parts: list[Rows]) -> tuple[Rows, Rows]:
    """Return all pairs of codes in `parts`, arrays (n, 2), as two sorted columns, each pair once.

    A face may be in several nodes of a tree, so a search may find a pair more than once.
    """
    rows = np.concatenate(parts) if parts else np.empty((0, 2), np.int64)
    first, second = rows[:, 0], rows[:, 1]
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    # The first pair is new, unless there is none.
    new = np.append(True, (first[1:] != first[:-1]) | (second[1:] != second[:-1]))[: len(rows)]
    return first[new], second[new]


def ignored_keys(table: Instances, ignore: PairsLike | None) -> Keys:
    """Return the keys ``lower id << 32 | higher id`` of pairs of instances to ignore, ascending.

    `ignore` is the user's argument, None or pairs of ids or names, where a name stands for all
    instances that have it. `table` has the instances of the scene.
    """
    if ignore is None:
        return np.empty(0, np.int64)
    # An array without axes is an instance of Iterable, but cannot be iterated over.
    single = isinstance(ignore, str | bytes) or getattr(ignore, "ndim", 2) == 0
    if single or not isinstance(ignore, Iterable):
        raise TypeError(f"ignore must be pairs of instances, got {ignore!r}")
    existing = set(table.column("ids")[table.column("child") >= 0].tolist())
    ids_of: dict[str, list[int]] = {}
    for number, name in table.names.items():
        ids_of.setdefault(name, []).append(number)

    def ids(end: Any) -> list[int]:
        """Return the ids that one end of a pair, an id or a name, stands for."""
        if isinstance(end, str):
            if end not in ids_of:
                raise ValueError(f"ignore: there is no instance with the name {str(end)!r}")
            return ids_of[end]
        number = one_index("an instance in ignore", end)
        if number not in existing:
            raise ValueError(f"ignore: there is no instance {number}")
        return [number]

    pairs: set[tuple[int, int]] = set()
    for pair in ignore:
        ends = None if isinstance(pair, str | bytes) or not isinstance(pair, Iterable) else [*pair]
        if ends is None or len(ends) != 2:
            raise ValueError(f"ignore must be pairs of instances, and one of them is {pair!r}")
        pairs.update(itertools.product(ids(ends[0]), ids(ends[1])))
    return np.array(sorted({min(pair) << 32 | max(pair) for pair in pairs}), np.int64)


@warms("overlaps in scenes")
def _warm() -> None:
    """Compile the kernels for regions of scenes; pairs of faces use the kernels of trees."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    first = np.zeros(1, np.int32)
    view = SceneView([tree], first, np.eye(3, 4)[None], np.ones(1, np.uint32), first)
    lower, upper, radii = np.zeros((1, 3)), np.ones((1, 3)), np.ones(1)
    polytopes = PlaneRegions(planes=np.ones((1, 1, 4)), shape=np.ones(1, np.int64))
    for regions in (BoxRegions(lower, upper), SphereRegions(lower, radii), polytopes):
        search_of_scene(view).overlaps(regions, shape=(), threads=None, progress=None)
