"""Distances and contacts of two trees, at least one over spheres or capsules: as in a scene."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.transforms import EVEN, affine_maps, even_scales, refuse
from bvh.queries.answers.clearances import Clearances
from bvh.queries.methods.distance_queries import hint_pairs
from bvh.queries.query_arguments import flat_rows, reported
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import common_shape, lengths, shaped, thread_count
from bvh.runtime.progress_bars import ProgressLike
from bvh.runtime.threads import Progress, share
from bvh.scene.scene_view import SceneView
from bvh.scene.solids.round_instances import RoundInstances
from bvh.tree.instanced import CODE_BITS
from bvh.tree.shapes import HOLLOW

Reals = NDArray[np.float64]

STILL = np.eye(3, 4)
# Transforms that a thread takes at a time.
AT_ONCE = 16


def distances(
    tree: TreeBase, other: TreeBase, transform: ArrayLike | None, max_distance: ArrayLike,
    hint: Any, threads: int | None, progress: ProgressLike | None,
) -> Clearances:  # fmt: skip
    """Return the result of `BVH.distance_to`; hints are checked, and save nothing."""
    maps, limits = maps_of(other, transform), lengths("max_distance", max_distance)
    hints = hint_pairs(hint, tree._arrays, other._arrays)
    shape = common_shape(
        transform=maps.shape[:-2], max_distance=limits.shape, hint=hints.shape
    )  # fmt: skip
    maps = np.broadcast_to(maps, (*shape, 3, 4)).reshape(-1, 3, 4)
    given = tree, other, maps, flat_rows(limits, shape), thread_count(threads)
    distance, position, prim_id = reported(_find, progress, *given)
    position, prim_id = position.reshape(*shape, 2, 3), prim_id.reshape(*shape, 2)
    return Clearances(shaped(shape, distance)[0], position, prim_id)


def contacts(tree: TreeBase, other: TreeBase) -> Any:
    """Return the search for pairs of parts that meet (see `find_pairs`)."""

    def run(
        transform: Reals | None, itself: bool, threads: int, progress: Progress | None
    ) -> NDArray[np.int32]:
        view = _view_of(tree, other, maps_of(other, transform))
        pairs = RoundInstances(view, view).touching(0, 0 if itself else 1, itself)
        if progress is not None:
            progress(1, 1)
        return pairs

    return run


def leaf_contacts(
    view: SceneView, content: SceneView | TreeBase, transform: Reals | None,
    rows: NDArray[np.int64], rows2: NDArray[np.int64], itself: bool,
) -> tuple[NDArray[np.bool_], list[NDArray[np.int64]]]:  # fmt: skip
    """Return which pairs of leaves have no round shapes; codes of parts of the others that meet.

    The second leaves are those of a scene, or a tree that a transform moves. If `itself`, they are
    of the same scene, and pairs of parts of one leaf count once.
    """
    if isinstance(content, TreeBase):
        one, maps = np.zeros(1, np.int32), maps_of(content, transform)[None]
        content = SceneView([content], one, maps, np.ones(1, np.uint32), one)
    elif transform is not None:
        raise ValueError("transform must be None for two scenes with spheres or capsules")
    rounds = view.round_trees[view.tree_of[rows]] | content.round_trees[content.tree_of[rows2]]
    instances, found = RoundInstances(view, content), []
    for leaf, leaf2 in zip(rows[rounds].tolist(), rows2[rounds].tolist(), strict=True):
        codes = np.array([leaf, leaf2]) << CODE_BITS
        found.append(codes | instances.touching(leaf, leaf2, itself and leaf == leaf2))
    return ~rounds, found


def maps_of(other: TreeBase, transform: ArrayLike | None) -> Reals:
    """Return checked maps (..., 3, 4)."""
    if transform is None:
        return STILL
    maps = affine_maps("transform", transform)
    if isinstance(other._arrays.primitives, HOLLOW):
        shape = maps.shape[:-2]
        refuse(
            "transform", shape, np.isnan(even_scales(maps.reshape(-1, 3, 4))),
            f"{EVEN}, for {other.kind}",
        )  # fmt: skip
    return maps


def _view_of(tree: TreeBase, other: TreeBase, transform: Reals) -> SceneView:
    """Return a scene of two trees, the second moved."""
    two = np.arange(2, dtype=np.int32)
    return SceneView([tree, other], two, np.stack([STILL, transform]), np.ones(2, np.uint32), two)


def _find(
    tree: TreeBase, other: TreeBase, maps: Reals, limits: Reals, threads: int,
    progress: Progress | None,
) -> tuple[Reals, Reals, NDArray[np.int32]]:  # fmt: skip
    """Return distances, positions and parts for each of some maps, and limits."""
    count = len(maps)
    found = np.full(count, math.inf), np.full((count, 2, 3), np.nan), np.full((count, 2), -1)

    def work(begin: int, end: int) -> None:
        view = _view_of(tree, other, maps[begin])
        for k in range(begin, end):
            if k > begin:
                view.move(np.array([1]), maps[k : k + 1])
            limit = float(limits[k])
            near = RoundInstances(view, view).nearest(0, 1, limit) if limit >= 0.0 else None
            if near is not None:
                found[0][k], found[1][k], found[2][k] = near.distance, near.position, near.prims

    share(count, AT_ONCE, work, threads, progress)
    return found[0], found[1], found[2].astype(np.int32)
