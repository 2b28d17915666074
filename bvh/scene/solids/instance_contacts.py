"""Contacts of instances, and distances between instances.

The TLAS yields pairs of leaves whose boxes are near each other, sorted by their instances. Two
instances touch as soon as two of their faces do. Of the pairs of leaves of two instances, those
with the nearest boxes come first, so that distances rule out most of the others.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import SMALLEST
from bvh.queries.answers.clearances import Clearances
from bvh.queries.hierarchy import BVH
from bvh.runtime.jit import warms
from bvh.runtime.memory import Shelf
from bvh.runtime.threads import Progress, share_long
from bvh.scene import instance_pairs
from bvh.scene.scene_view import SceneView
from bvh.scene.table import IDENTITY
from bvh.traversal.pairs import meeting_pairs
from bvh.tree.arrays import TreeArrays

Ids = NDArray[np.int32]
Rows = NDArray[np.int64]
Reals = NDArray[np.float64]
Work = Callable[[int, int], None]

# Pairs of instances, and pairs of leaves or subtrees that may touch, in a chunk of a thread.
PAIRS_AT_ONCE = 64
TASKS_AT_ONCE = 512
# Factor of the distances of boxes, so that rounding leaves them below those of the faces in them.
SLACK = 1.0 - 2.0**-48


class NearbyLeaves(NamedTuple):
    """Pairs of leaves that may be near each other, sorted by instances, then `lower_bounds`."""

    job: instance_pairs.PairJob
    owners: Rows  # (n, 2): the ids of the two instances of each pair of leaves
    begins: Rows  # (g + 1,): the first pair of leaves of each pair of instances, then n
    lower_bounds: Reals  # (n,): of the distance of each pair of leaves
    is_round: NDArray[np.bool_]  # (n,): whether one of both leaves is over spheres or capsules
    rounds: Any  # the `RoundInstances` that measures these; None if there are none

    @property
    def instances(self) -> Rows:
        """The index of the pair of instances of each pair of leaves."""
        sizes = np.diff(self.begins)
        return np.repeat(np.arange(len(sizes)), sizes)


def candidates(
    view: SceneView, content: SceneView, ignored: Rows, reach: float, threads: int
) -> NearbyLeaves:
    """Return the pairs of leaves of different instances whose boxes are at most `reach` apart.

    The first leaf is one of `view`, the second one of `content`, which is `view` for pairs within a
    scene. `ignored` has ``lower id << 32 | higher id`` for pairs of instances to leave out.
    """
    first = instance_pairs.side_of(view)
    second = first if content is view else instance_pairs.side_of(content)
    rows, rows2 = instance_pairs.near_leaves(
        view, first, second, transform=None, threads=threads, reach=reach
    )
    owner, owner2 = view.owners[rows].astype(np.int64), content.owners[rows2].astype(np.int64)
    boxes, others = first.boxes[rows], second.boxes[rows2]
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = np.maximum(others[:, :3] - boxes[:, 3:], boxes[:, :3] - others[:, 3:])
        # NaN, a difference of infinities, counts as no gap.
        gaps = np.where(gaps > 0.0, gaps, 0.0)
        lower_bounds = np.hypot(np.hypot(gaps[:, 0], gaps[:, 1]), gaps[:, 2]) * SLACK
    selected = lower_bounds <= reach
    if content is view:
        selected &= owner < owner2
    if len(ignored):
        selected &= ~np.isin(owner << 32 | owner2, ignored)
    order = np.flatnonzero(selected)
    order = order[np.lexsort((lower_bounds[order], owner2[order], owner[order]))]
    owners = np.stack([owner, owner2], axis=1)[order]
    # A pair of instances begins where the ids change. The row appended to the ids gives the end.
    begins = np.flatnonzero(np.diff(owners, axis=0, prepend=-1, append=-2).any(axis=1))
    motions = instance_pairs.motions_of(first, second)
    job = instance_pairs.PairJob(first, second, False, rows[order], rows2[order], motions)
    is_round = view.round_trees[view.tree_of[job.rows]]
    is_round = is_round | content.round_trees[content.tree_of[job.rows2]]
    rounds = None
    if is_round.any():
        from bvh.scene.solids.round_instances import RoundInstances

        rounds = RoundInstances(view, content)
    return NearbyLeaves(job, owners, begins, lower_bounds[order], is_round, rounds)


def _without_round(nearby: NearbyLeaves) -> NearbyLeaves:
    """Return all pairs of instances, but only pairs of leaves without spheres and capsules."""
    rows = np.flatnonzero(~nearby.is_round)
    sizes = np.bincount(nearby.instances[rows], minlength=len(nearby.begins) - 1)
    job = nearby.job._replace(rows=nearby.job.rows[rows], rows2=nearby.job.rows2[rows])
    begins, owners = np.concatenate([[0], np.cumsum(sizes)]), nearby.owners[rows]
    return NearbyLeaves(job, owners, begins, nearby.lower_bounds[rows], nearby.is_round[rows], None)


def _subtree_worker(
    nearby: NearbyLeaves, which: Rows, entries: Rows, touching: NDArray[np.bool_], enough: Ids,
    cancel: Ids,
) -> Work:  # fmt: skip
    """Return a function for `share_long` that searches for contacts; a task is a pair of subtrees.

    Task i is the pair `entries[i]` of subtrees of the pair `which[i]` of leaves. The function sets
    `touching`, a flag for each pair of instances. A contact copies ``enough[1]`` to ``enough[0]``;
    the search stops once ``enough[0]`` or ``cancel[0]`` is not 0.
    """
    # `group_of` has the pair of instances of each pair of leaves. One pair of leaves has up to
    # `most` tasks, for which a search needs room.
    job, group_of, most = nearby.job, nearby.instances, int(np.bincount(which).max())
    shelf = Shelf(lambda: meeting_pairs.new_pair_search(most))

    def work(begin: int, end: int) -> None:
        """Search the tasks begin..end - 1, those of one pair of leaves together."""
        with shelf.scratch() as search:
            for k in instance_pairs.begin_searches(which, entries, begin, end, search):
                pair, group, done = instance_pairs.pair_of(job, k), group_of[k], False
                while not (done or touching[group] or enough[0] or cancel[0]):
                    done = meeting_pairs.meet(*pair, search, meeting_pairs.STEPS)
                    if search.state[meeting_pairs.MET]:
                        touching[group] = True
                        enough[0] = enough[1]

    return work


def _leaf_worker(
    nearby: NearbyLeaves, touching: NDArray[np.bool_], enough: Ids, cancel: Ids
) -> Work:
    """Return a function for `share_long` that searches for contacts; a task is a pair of leaves.

    It sets `touching`, and stops by `enough` and `cancel`, as that of `_subtree_worker` does.
    """
    job = nearby.job
    trees, trees2 = job.first.tree_of[job.rows], job.second.tree_of[job.rows2]
    # `job` keeps the trees at these addresses alive.
    sides = _row_addresses(job.first.trees, trees), _row_addresses(job.second.trees, trees2)
    # Rows for the kernel: the indices of two trees, of the pair of instances, and of two leaves.
    tasks = np.stack([trees, trees2, nearby.instances, job.rows, job.rows2], axis=1)
    tasks = tasks.astype(np.int64)
    shelf = Shelf(lambda: meeting_pairs.new_pair_search(1))

    def work(begin: int, end: int) -> None:
        """Search the tasks begin..end - 1 by calls of one kernel, until cancelled."""
        done = False
        with shelf.scratch() as search:
            # Begin with task 0; a height below 0 says that its search has not begun.
            search.state[meeting_pairs.FIRST], search.state[meeting_pairs.HEIGHT] = 0, -1
            given = tasks[begin:end], job.motions, search, touching, enough
            while not (done or cancel[0]):
                done = meeting_pairs.find_contacts(*sides, *given, meeting_pairs.STEPS)

    return work


def _row_addresses(trees: list[TreeArrays], used: NDArray[np.int32]) -> Rows:
    """Return the addresses of the rows of trees, (len(trees),); 0 for those not in `used`."""
    addresses = np.zeros(len(trees), np.int64)
    for number in np.unique(used).tolist():
        addresses[number] = trees[number].row.address
    return addresses


def find_touching(
    view: SceneView, content: SceneView, ignored: Rows, threads: int,
    progress: Progress | None = None, only_one: bool = False,
) -> Ids:  # fmt: skip
    """Return the ids (m, 2), ascending, of pairs of instances of `view` and `content` that touch.

    Arguments are as in `candidates`. If `only_one`, the search stops at the first contact found.
    """
    nearby = candidates(view, content, ignored, reach=0.0, threads=threads)
    pairs = nearby.owners[nearby.begins[:-1]].astype(np.int32)
    touching = np.zeros(len(pairs), np.bool_)
    # Searches stop once enough[0] is not 0; a contact sets it to enough[1].
    cancel, enough = np.zeros(1, np.int32), np.array([0, only_one], np.int32)
    if nearby.rounds is not None:
        _flag_round_contacts(nearby, touching, only_one)
        if only_one and touching.any():
            return pairs[touching]
        nearby = _without_round(nearby)
    which, entries = instance_pairs.tasks_of(nearby.job, threads)
    # Tasks are pairs of subtrees if pairs of leaves were split, or ruled out by their upper nodes.
    if len(which) and not np.array_equal(which, np.arange(len(nearby.job.rows))):
        work = _subtree_worker(nearby, which, entries, touching, enough, cancel)
    else:
        work = _leaf_worker(nearby, touching, enough, cancel)
    size = min(TASKS_AT_ONCE, max(1, len(which) // (8 * threads)))
    share_long(len(which), size, work, threads, cancel, progress)
    return pairs[touching]


def _flag_round_contacts(nearby: NearbyLeaves, touching: NDArray[np.bool_], only_one: bool) -> None:
    """Flag in `touching` the pairs of instances, or `only_one`, that touch with a round leaf."""
    job, group_of = nearby.job, nearby.instances
    for k in np.flatnonzero(nearby.is_round).tolist():
        leaves = int(job.rows[k]), int(job.rows2[k])
        if not touching[group_of[k]] and nearby.rounds.nearest(*leaves, limit=0.0):
            touching[group_of[k]] = True
            if only_one:
                return


class _NearestFaces(NamedTuple):
    """The nearest faces so far of two instances, and their distance."""

    distance: float
    # Leaf and face of the first instance, then of the second: ties go to the lowest.
    faces: tuple[int, int, int, int]
    position: Reals  # (2, 3): the closest points, of the first instance and of the second


def _measure(
    nearby: NearbyLeaves, k: int, nearest: _NearestFaces | None, limit: float, cancel: Ids | None
) -> _NearestFaces | None:
    """Return the nearest faces of pair `k` of leaves if nearer than `nearest`, else `nearest`.

    Only distances up to `limit` are found, and none once ``cancel[0]`` is not 0. Spheres and
    capsules count as faces.
    """
    # Imported here, as collisions do not need its many kernels.
    from bvh.queries.batches.distance_batches import find_closest_pair

    job = nearby.job
    leaf, leaf2 = int(job.rows[k]), int(job.rows2[k])
    if nearby.is_round[k]:
        parts = nearby.rounds.nearest(leaf, leaf2, limit)
        if parts is None:
            return nearest
        distance, (prim, prim2), position = parts
    else:
        first, second = instance_pairs.trees_of(job, k)
        maps = job.first.maps[leaf], job.second.maps[leaf2]
        near = find_closest_pair(first, second, maps, max_distance=limit, cancel=cancel)
        (prim, prim2), distance, position = near.prim_id.tolist(), near.distance, near.position
        if prim < 0 or (cancel is not None and cancel[0]):
            return nearest
    new = _NearestFaces(float(distance), (leaf, prim, leaf2, prim2), position)
    # Compared by distance, then by leaves and faces.
    return new if nearest is None or new[:2] < nearest[:2] else nearest


def find_clearances(
    view: SceneView, content: SceneView, ignored: Rows, max_distance: float, threads: int,
    progress: Progress | None = None,
) -> Clearances:  # fmt: skip
    """Return the clearances of pairs of instances up to `max_distance` apart (see `candidates`)."""
    nearby = candidates(view, content, ignored, max_distance, threads)
    count = len(nearby.begins) - 1
    results: list[_NearestFaces | None] = [None] * count
    cancel = np.zeros(1, np.int32)

    def work(begin: int, end: int) -> None:
        """Measure the pairs begin..end - 1 of instances."""
        for group in range(begin, end):
            nearest, limit = None, max_distance
            # By increasing bounds: once one is above the least distance so far, all others are.
            for k in range(int(nearby.begins[group]), int(nearby.begins[group + 1])):
                if nearby.lower_bounds[k] > limit or cancel[0]:
                    break
                nearest = _measure(nearby, k, nearest, limit, cancel)
                limit = nearest.distance if nearest else limit
            results[group] = nearest

    size = min(PAIRS_AT_ONCE, max(1, count // (8 * threads)))
    share_long(count, size, work, threads, cancel, progress)
    within = [group for group, nearest in enumerate(results) if nearest]
    nearest = [each for each in results if each]
    return _clearances(nearby.owners[nearby.begins[within]], nearest)


def find_closest(view: SceneView, content: SceneView, ignored: Rows, threads: int) -> Clearances:
    """Return the clearance of the nearest pair of instances, if there is one (see `candidates`)."""
    # Only pairs of leaves within a reach are measured, which grows until it has a pair of faces.
    bounds = np.concatenate([view.tlas.bounds, content.tlas.bounds])
    with np.errstate(over="ignore"):
        size = float(np.ptp(bounds, axis=0).max())
    # The first reach above 0: about half the spacing of leaves that are evenly spread.
    spacing = max(size / max(1.0, 2.0 * np.cbrt(min(len(view), len(content)))), SMALLEST)
    reach = 0.0
    while True:
        nearby = candidates(view, content, ignored, reach, threads)
        nearest: _NearestFaces | None = None
        limit, owners = np.inf, nearby.owners[:0]
        for k in np.argsort(nearby.lower_bounds, kind="stable").tolist():
            if nearby.lower_bounds[k] > limit:
                break
            before, nearest = nearest, _measure(nearby, k, nearest, limit, None)
            if nearest is not before:
                owners = nearby.owners[k : k + 1]
            limit = nearest.distance if nearest else limit
        if limit <= reach or reach == np.inf:
            return _clearances(owners, [nearest] if nearest else [])
        if nearest:
            # Pairs that may be nearer than this one are all within this reach.
            reach = limit
        elif reach < size:
            reach = max(4.0 * reach, spacing)
        else:
            # Nothing is within the size of both scenes, or a scene is empty, so that size is NaN.
            reach = np.inf


def _clearances(owners: Rows, nearest: list[_NearestFaces]) -> Clearances:
    """Return the clearances of n pairs of instances: ids `owners` (n, 2), and nearest faces."""
    faces = np.array([each.faces for each in nearest], np.int32).reshape(-1, 2, 2)
    leaf, prim = (np.ascontiguousarray(faces[:, :, k]) for k in range(2))
    distance = np.array([each.distance for each in nearest], np.float64)
    position = np.array([each.position for each in nearest], np.float64).reshape(-1, 2, 3)
    return Clearances(distance, position, prim, owners.astype(np.int32), leaf)


@warms("contacts in scenes")
def _warm() -> None:
    """Compile the kernels of contacts that pairs of faces in scenes do not use."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    two, maps = np.arange(2, dtype=np.int32), np.tile(IDENTITY, (2, 1, 1))
    view = SceneView([tree], 0 * two, maps, np.ones(2, np.uint32), two)
    find_touching(view, view, np.empty(0, np.int64), 1)
