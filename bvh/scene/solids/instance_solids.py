"""Instances as solids in world coordinates, which of them are near each other, their relations."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries.hierarchy import BVH
from bvh.queries.results import ScenePairs
from bvh.queries.solid_queries import must_bound_a_solid
from bvh.runtime.threads import Progress
from bvh.scene.merged_leaves import mesh_of_leaves
from bvh.scene.scene_view import SceneView
from bvh.scene.solids.instance_contacts import candidates

Rows = NDArray[np.int64]


class InstanceSolids:
    """The meshes of a scene's instances in world coordinates; `owner` is the id of an instance."""

    def __init__(self, view: SceneView) -> None:
        self.view = view
        # Trees are built when first needed.
        self.tree = cache(self._tree)

    def leaves(self, owner: int) -> list[int]:
        """Return the visible leaves of an instance."""
        return np.flatnonzero((self.view.owners == owner) & (self.view.masks != 0)).tolist()

    def _tree(self, owner: int) -> BVH:
        """Return a tree over the mesh of an instance, whose leaves are all over triangles."""
        view, leaves = self.view, self.leaves(owner)
        meshes: list[Any] = [view.trees[view.tree_of[leaf]].primitives for leaf in leaves]
        mesh = mesh_of_leaves(leaves, meshes, view.maps)
        return BVH.from_triangles(mesh.vertices, mesh.faces, warn=False)


def near_instances(view: SceneView, ignored: Rows, reach: float, threads: int) -> Rows:
    """Return the ids (n, 2) of instances whose boxes are within `reach` of each other, ascending.

    `ignored` are the keys of pairs to leave out (see `instance_pairs.ignored_keys`).
    """
    nearby = candidates(view, view, ignored, reach, threads)
    pairs, side = nearby.owners[nearby.begins[:-1]], nearby.job.first
    visible = side.visible
    ids, row, counts = np.unique(view.owners[visible], return_inverse=True, return_counts=True)
    if (counts < 2).all():
        return pairs
    # An instance may be inside another of several leaves, and far from the boxes of all of them.
    # So instances of several leaves are compared by the box around all.
    low, high = np.full((len(ids), 3), np.inf), np.full((len(ids), 3), -np.inf)
    np.minimum.at(low, row, side.boxes[visible, :3])
    np.maximum.at(high, row, side.boxes[visible, 3:])
    keys = [pairs[:, 0] << 32 | pairs[:, 1]]
    with np.errstate(over="ignore"):
        for k in np.flatnonzero(counts > 1).tolist():
            near = ((low - reach <= high[k]) & (high + reach >= low[k])).all(axis=1)
            near[k] = False
            others = ids[near].astype(np.int64)
            keys.append(np.minimum(others, ids[k]) << 32 | np.maximum(others, ids[k]))
    every = np.setdiff1d(np.concatenate(keys), ignored)
    return np.stack([every >> 32, every & 0xFFFFFFFF], axis=1)


def find_relations(
    view: SceneView, ignored: Rows, margin: float, threads: int, progress: Progress | None = None
) -> ScenePairs:
    """Return the pairs of a scene's instances that are not disjoint, with their relations."""
    pairs, solids = near_instances(view, ignored, margin, threads), InstanceSolids(view)
    answers = []
    for k, (a, b) in enumerate(pairs.tolist()):
        for owner in (a, b):
            must_bound_a_solid("relations", f"instance {owner}", solids.tree(owner))
        answers.append(solids.tree(a).relation(solids.tree(b), margin=margin, threads=threads))
        if progress is not None:
            progress(k + 1, len(pairs))
    relation = np.array(answers, "<U11")
    related = relation != "disjoint"
    return ScenePairs(pairs[related].astype(np.int32), relation=relation[related])
