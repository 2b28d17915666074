"""Distances and contacts of two trees, at least one over spheres or capsules.

Both trees become the leaves of a scene, whose search (`RoundInstances`) is used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.transforms import EVEN, affine_maps, even_scales, refuse
from bvh.queries.answers.clearances import Clearances
from bvh.queries.methods.distance_queries import hint_pairs
from bvh.queries.query_arguments import flat_rows, with_progress
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import common_shape, lengths, shaped, thread_count
from bvh.runtime.progress_bars import ProgressLike
from bvh.runtime.threads import Progress, share
from bvh.scene.scene_view import SceneView
from bvh.scene.solids.round_instances import RoundInstances
from bvh.scene.table import IDENTITY
from bvh.tree.instanced import CODE_BITS
from bvh.tree.shapes import HOLLOW

Reals = NDArray[np.float64]

# Transforms that a thread takes at a time.
AT_ONCE = 16


def distances(
    tree: TreeBase, other: TreeBase, transform: ArrayLike | None, max_distance: ArrayLike,
    hint: Any, threads: int | None, progress: ProgressLike | None,
) -> Clearances:  # fmt: skip
    """Return ``tree.distance_to(other, ...)`` for these arguments; the hint is only checked."""
    maps, limits = maps_of(other, transform), lengths("max_distance", max_distance)
    hints = hint_pairs(hint, tree._arrays, other._arrays)
    shape = common_shape(transform=maps.shape[:-2], max_distance=limits.shape, hint=hints.shape)
    maps = np.broadcast_to(maps, (*shape, 3, 4)).reshape(-1, 3, 4)
    given = tree, other, maps, flat_rows(limits, shape), thread_count(threads)
    distance, position, prim_id = with_progress(_find_nearest, progress, *given)
    position, prim_id = position.reshape(*shape, 2, 3), prim_id.reshape(*shape, 2)
    return Clearances(shaped(shape, distance)[0], position, prim_id)


def contacts(tree: TreeBase, other: TreeBase) -> Any:
    """Return a function that finds the pairs of faces or shapes of two trees that meet."""

    def run(
        transform: Reals | None, itself: bool, threads: int, progress: Progress | None
    ) -> NDArray[np.int32]:
        """Return the ids (m, 2) of pairs that meet, ascending; `transform` moves `other`.

        If `itself`, both trees are one, and each pair counts once. One thread searches: `threads`
        is unused, as the signature is shared with `overlap_batches.find_pairs`.
        """
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
    """Search the pairs of leaves that have spheres or capsules for pairs of parts that meet.

    Pair k is the leaf rows[k] of `view` and rows2[k] of `content`: a scene, or a tree that
    `transform` moves. If `itself`, both are one scene, and pairs of parts of one leaf count once.

    Return (flags (n,), codes): the flags are True for pairs of leaves without spheres and capsules,
    which are not searched. For each other pair, `codes` has the pairs (m, 2) of parts that meet,
    each as ``leaf << 32 | id``.
    """
    if isinstance(content, TreeBase):
        first, maps = np.zeros(1, np.int32), maps_of(content, transform)[None]
        content = SceneView([content], first, maps, np.ones(1, np.uint32), first)
    elif transform is not None:
        raise ValueError("transform must be None for two scenes with spheres or capsules")
    rounds = view.round_trees[view.tree_of[rows]] | content.round_trees[content.tree_of[rows2]]
    instances, codes = RoundInstances(view, content), []
    for leaf, leaf2 in zip(rows[rounds].tolist(), rows2[rounds].tolist(), strict=True):
        leaf_codes = np.array([leaf, leaf2]) << CODE_BITS
        codes.append(leaf_codes | instances.touching(leaf, leaf2, itself and leaf == leaf2))
    return ~rounds, codes


def maps_of(other: TreeBase, transform: ArrayLike | None) -> Reals:
    """Return the first three rows of transforms (..., 4, 4) of the tree `other`, checked.

    ValueError unless all are affine maps, and EVEN for spheres and capsules.
    """
    if transform is None:
        return IDENTITY
    maps = affine_maps("transform", transform)
    if isinstance(other._arrays.primitives, HOLLOW):
        uneven = np.isnan(even_scales(maps.reshape(-1, 3, 4)))
        refuse("transform", maps.shape[:-2], uneven, f"{EVEN}, for {other.kind}")
    return maps


def _view_of(tree: TreeBase, other: TreeBase, moved: Reals) -> SceneView:
    """Return the view of a scene of two trees, the second under the map `moved`, (3, 4)."""
    two, masks = np.arange(2, dtype=np.int32), np.ones(2, np.uint32)
    return SceneView([tree, other], two, np.stack([IDENTITY, moved]), masks, owners=two)


def _find_nearest(
    tree: TreeBase, other: TreeBase, maps: Reals, limits: Reals, threads: int,
    progress: Progress | None,
) -> tuple[Reals, Reals, NDArray[np.int32]]:  # fmt: skip
    """Return distances (n,), positions (n, 2, 3) and parts (n, 2) for n `maps` of the second tree.

    They are infinite, NaN and -1 where the distance is above the limit in `limits` (n,).
    """
    count = len(maps)
    distance, position = np.full(count, math.inf), np.full((count, 2, 3), np.nan)
    prims = np.full((count, 2), -1, np.int32)

    def work(begin: int, end: int) -> None:
        """Measure for the maps begin..end - 1, by moving the second tree of one scene."""
        view = _view_of(tree, other, maps[begin])
        for k in range(begin, end):
            if k > begin:
                view.move(np.array([1]), maps[k : k + 1])
            limit = float(limits[k])
            near = RoundInstances(view, view).nearest(0, 1, limit) if limit >= 0.0 else None
            if near is not None:
                distance[k], position[k], prims[k] = near.distance, near.position, near.prims

    share(count, AT_ONCE, work, threads, progress)
    return distance, position, prims
