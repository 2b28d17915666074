"""Instances as solids in world coordinates, which of them are near each other, their relations."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.transforms import moved
from bvh.queries.hierarchy import BVH
from bvh.queries.results import ScenePairs
from bvh.queries.solid_queries import must_bound_a_solid
from bvh.runtime.arguments import kernel_input
from bvh.runtime.threads import Progress
from bvh.scene.scene_view import SceneView
from bvh.scene.solids.instance_contacts import candidates
from bvh.scene.solids.round_relations import Solid, nearest_parts, relation_of, round_of
from bvh.tree.primitives import Triangles

Rows = NDArray[np.int64]


class InstanceSolids:
    """A scene's instances in world coordinates; trees over meshes are built when first needed."""

    def __init__(self, view: SceneView) -> None:
        self.view = view
        # A tree over the mesh of an instance, whose leaves are all over triangles.
        self.tree = cache(self._tree)

    def solid(self, query: str, owner: int) -> Solid:
        """Return an instance as a solid; raise a ValueError that names the query if it is none."""
        name, trees = f"instance {owner}", self.view.tree_of[self.leaves(owner)]
        if not self.view.round_trees[trees].any():
            must_bound_a_solid(query, name, self.tree(owner))
            return self.tree(owner)
        if len(trees) != 1:
            raise ValueError(f"{query} needs one sphere or capsule a solid, but {name} has more")
        (leaf,) = self.leaves(owner)
        return round_of(query, name, self.view.trees[trees[0]].primitives, self.view.maps[leaf])

    def relation(self, pair: tuple[int, int], margin: float, threads: int) -> str:
        """Return `BVH.relation` of two instances."""
        first, second = (self.solid("relations", owner) for owner in pair)
        if isinstance(first, BVH) and isinstance(second, BVH):
            return str(first.relation(second, margin=margin, threads=threads))
        found = relation_of(first, second)
        near = found == "disjoint" and nearest_parts(first, second, margin) is not None
        return "touching" if near else found

    def leaves(self, owner: int) -> Rows:
        """Return the visible leaves of an instance."""
        return np.flatnonzero((self.view.owners == owner) & (self.view.masks != 0))

    def _tree(self, owner: int) -> BVH:
        points, faces, count = [], [], 0
        for leaf in self.leaves(owner).tolist():
            triangles = self.view.trees[self.view.tree_of[leaf]].primitives
            assert isinstance(triangles, Triangles)
            points.append(moved(triangles.points, self.view.maps[leaf]))
            faces.append(triangles.faces + count)
            count += len(triangles.points)
        return BVH.from_triangles(
            kernel_input(np.concatenate(points)), np.concatenate(faces), warn=False
        )


def near_instances(view: SceneView, ignored: Rows, reach: float, threads: int) -> Rows:
    """Return the pairs of instances whose boxes are within `reach` of each other, ascending.

    `ignored` are the keys of pairs to leave out (see `instance_pairs.ignored_keys`).
    """
    found = candidates(view, view, ignored, reach, threads)
    pairs, side = found.owners[found.begins[:-1]], found.job.first
    ids, of, counts = np.unique(view.owners[side.visible], return_inverse=True, return_counts=True)
    if (counts < 2).all():
        return pairs
    # An instance may be inside another of several leaves, and far from the boxes of all of them.
    low, high = np.full((len(ids), 3), np.inf), np.full((len(ids), 3), -np.inf)
    np.minimum.at(low, of, side.boxes[side.visible, :3])
    np.maximum.at(high, of, side.boxes[side.visible, 3:])
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
    """Return the relations of a scene's instances that are not disjoint."""
    pairs, solids = near_instances(view, ignored, margin, threads), InstanceSolids(view)
    answers = []
    for k, (a, b) in enumerate(pairs.tolist()):
        answers.append(solids.relation((a, b), margin, threads))
        if progress is not None:
            progress(k + 1, len(pairs))
    relation = np.array(answers, "<U11")
    related = relation != "disjoint"
    return ScenePairs(pairs[related].astype(np.int32), relation=relation[related])
