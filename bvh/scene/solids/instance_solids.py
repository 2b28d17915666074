"""Instances as solids in world coordinates: which are near, how they are related and interfere."""

from functools import cache, partial
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.queries.answers.interferences import UNKNOWN, Interferences
from bvh.queries.hierarchy import BVH
from bvh.queries.results import ScenePairs
from bvh.queries.solid_queries import must_bound_a_solid
from bvh.runtime.arguments import number_of
from bvh.runtime.threads import Progress
from bvh.scene.merged_leaves import mesh_of_leaves
from bvh.scene.scene_view import SceneView
from bvh.scene.solids.instance_contacts import candidates
from bvh.scene.solids.round_relations import Solid, nearest_parts, relation_of, round_of
from bvh.tree.primitives import THIN, Triangles

Rows = NDArray[np.int64]
Reals = NDArray[np.float64]
NOWHERE = np.full((2, 3), nan)


class InstanceSolids:
    """A scene's instances as solids in world coordinates; an `owner` is the id of an instance."""

    def __init__(self, view: SceneView) -> None:
        self.view = view
        # `tree(owner)` returns a tree over the mesh of an instance, built by the first call.
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

    def solid(self, query: str, owner: int) -> Solid:
        """Return an instance as a tree, or as a ball or capsule; ValueError if it is no solid.

        `query` is the method that the message names.
        """
        name, leaves = f"instance {owner}", self.leaves(owner)
        trees = self.view.tree_of[leaves]
        if not self.view.round_trees[trees].any():
            must_bound_a_solid(query, name, self.tree(owner))
            return self.tree(owner)
        if len(leaves) != 1:
            raise ValueError(f"{query} needs one sphere or capsule a solid, but {name} has more")
        return round_of(
            query, name, self.view.trees[trees[0]].primitives, self.view.maps[leaves[0]]
        )


def _relation(first: Solid, second: Solid, margin: float, threads: int) -> str:
    """Return `BVH.relation` of two solids; those at most `margin` apart are "touching"."""
    if isinstance(first, BVH) and isinstance(second, BVH):
        return str(first.relation(second, margin=margin, threads=threads))
    found = relation_of(first, second)
    near = found == "disjoint" and nearest_parts(first, second, margin) is not None
    return "touching" if near else found


def near_instances(view: SceneView, ignored: Rows, reach: float, threads: int) -> Rows:
    """Return the ids (n, 2) of instances whose boxes are within `reach` of each other, ascending.

    `ignored` has ``lower id << 32 | higher id`` for pairs of instances to leave out.
    """
    nearby = candidates(view, view, ignored, reach, threads)
    pairs, side = nearby.owners[nearby.begins[:-1]], nearby.job.first
    visible = side.visible
    ids, row, counts = np.unique(view.owners[visible], return_inverse=True, return_counts=True)
    if (counts < 2).all():
        return pairs
    # An instance inside another one may be far from the boxes of all leaves of the latter. So
    # instances of several leaves are compared by the box around all of these.
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
    """Return how a scene's instances are related as solids: the pairs that are not disjoint.

    Solids at most `margin` apart are "touching". ValueError if an instance whose box is within
    `margin` of that of another is no solid.
    """
    pairs, solids = near_instances(view, ignored, margin, threads), InstanceSolids(view)
    answers = []
    for k, (a, b) in enumerate(pairs.tolist()):
        first, second = (solids.solid("relations", owner) for owner in (a, b))
        answers.append(_relation(first, second, margin, threads))
        if progress is not None:
            progress(k + 1, len(pairs))
    relation = np.array(answers, "<U11")
    related = relation != "disjoint"
    return ScenePairs(pairs[related].astype(np.int32), relation=relation[related])


class _Solidity(NamedTuple):
    """Whether an instance is a solid."""

    open_edges: int  # -1 for instances that are not over triangles, nor one sphere or capsule
    oriented: bool  # whether the winding of all faces agrees
    flaw: str | None  # why the instance is no solid; None if it is one


class _Row(NamedTuple):
    """The columns of `Interferences` for one pair of instances; NaN where nothing is measured."""

    relation: str
    volume: float
    depth: float
    distance: float
    position: Reals  # (2, 3): where they are nearest or deepest, on the first and on the second
    note: str = ""


def find_interferences(
    view: SceneView, names: dict[int, str], ignored: Rows, margin: float, threads: int,
    progress: Progress | None = None,
) -> Interferences:  # fmt: skip
    """Return the interferences of all pairs of a scene's instances that are not disjoint.

    `names` has the names of instances by id; pairs within `margin` touch.
    """
    pairs, solids = near_instances(view, ignored, margin, threads), InstanceSolids(view)
    solidity = cache(partial(_solidity_of, solids))
    related, rows = [], []
    for k, (a, b) in enumerate(pairs.tolist()):
        row = _row_of(solids, (a, b), (solidity(a), solidity(b)), margin, threads)
        if row is not None:
            related.append((a, b))
            rows.append(row)
        if progress is not None:
            progress(k + 1, len(pairs))
    columns: Any = zip(*rows, strict=True) if rows else ((),) * len(_Row._fields)
    relation, *numbers, position, note = columns
    volume, depth, distance = (np.array(column, np.float64) for column in numbers)
    states = [[solidity(owner) for owner in pair] for pair in related]
    return Interferences(
        np.array(relation, "<U11"), volume, depth, distance,
        np.array(position, np.float64).reshape(-1, 2, 3),
        np.array(related, np.int32).reshape(-1, 2),
        np.array([[names.get(k, "") for k in pair] for pair in related], np.str_).reshape(-1, 2),
        np.array([[s.open_edges for s in two] for two in states], np.int64).reshape(-1, 2),
        np.array([[s.oriented for s in two] for two in states], np.bool_).reshape(-1, 2),
        np.array(note, np.str_),
    )  # fmt: skip


def _solidity_of(solids: InstanceSolids, owner: int) -> _Solidity:
    """Return whether the instance `owner` is a solid, and if not, why."""
    view = solids.view
    if view.round_trees[view.tree_of[solids.leaves(owner)]].any():
        try:
            solids.solid("interferences", owner)
        except ValueError as error:
            return _Solidity(open_edges=-1, oriented=False, flaw=str(error))
        return _Solidity(open_edges=0, oriented=True, flaw=None)
    for leaf in solids.leaves(owner):
        primitives = view.trees[view.tree_of[leaf]].primitives
        if not isinstance(primitives, Triangles):
            kind = type(primitives).__name__.lower()
            return _Solidity(open_edges=-1, oriented=False, flaw=f"instance {owner} is over {kind}")
    tree = solids.tree(owner)
    count = 0 if tree.is_closed else len(tree.open_edges())
    flaw = f"instance {owner} has {number_of(count, 'open edges')}" if count else None
    if tree.kind in THIN:
        flaw = f"instance {owner} is over {tree.kind}"
    return _Solidity(count, tree.is_oriented, flaw)


def _row_of(
    solids: InstanceSolids, pair: tuple[int, int], states: tuple[_Solidity, _Solidity],
    margin: float, threads: int,
) -> _Row | None:  # fmt: skip
    """Return the row of two instances; None if they are farther apart than `margin`.

    `pair` has the ids of the instances, and `states` says which of them are solids.
    """
    flaws = "; ".join(state.flaw for state in states if state.flaw)
    if min(state.open_edges for state in states) < 0:
        # No query measures an instance that is neither over triangles nor one sphere or capsule.
        boxes = "boxes are within the margin" if margin else "boxes meet"
        return _Row(UNKNOWN, nan, nan, nan, NOWHERE, f"{boxes}; {flaws}")
    view = solids.view
    if any(view.round_trees[view.tree_of[solids.leaves(k)]].any() for k in pair):
        return _round_row(solids, pair, flaws, margin, threads)
    first, second = map(solids.tree, pair)
    if flaws:
        near = first.distance_to(second, max_distance=margin, threads=threads)
        if not near.mask:
            return None
        return _Row(UNKNOWN, nan, nan, float(near.distance), near.position, flaws)
    relation = first.relation(second, margin=margin, threads=threads)
    if relation == "disjoint":
        return None
    if relation == "touching":
        near = first.distance_to(second, max_distance=margin, threads=threads)
        return _Row(relation, 0.0, 0.0, float(near.distance), near.position)
    volume, note = nan, ""
    try:
        volume = float(first.overlap_volume(second, threads=threads).volume)
    except ValueError as error:
        # A mesh that crosses itself is related to others, but has no volume.
        note = str(error)
    if relation == "equal":
        note = f"the same solid twice; {note}".strip("; ")
    deep = first.penetration(second, threads=threads)
    # The deepest point, and the nearest one on the other surface. `own` says that the deepest is of
    # the first instance, whose point comes first.
    ends = deep.point, deep.point + deep.depth * deep.direction
    position = np.array(ends if deep.own else ends[::-1])
    return _Row(str(relation), volume, float(deep.depth), 0.0, position, note)


def _round_row(
    solids: InstanceSolids, pair: tuple[int, int], flaws: str, margin: float, threads: int
) -> _Row | None:
    """Return the row of two instances, one or both a sphere or capsule; None if disjoint."""
    try:
        first, second = (solids.solid("interferences", owner) for owner in pair)
        relation = _relation(first, second, margin, threads)
    except ValueError as error:
        return _Row(UNKNOWN, nan, nan, nan, NOWHERE, flaws or str(error))
    if relation == "disjoint":
        return None
    near = nearest_parts(first, second, margin)
    distance, position = (near.distance, near.position) if near else (0.0, NOWHERE)
    if relation == "touching":
        return _Row(relation, 0.0, 0.0, distance, position)
    note = "volumes and depths of spheres and capsules are not measured"
    return _Row(relation, nan, nan, 0.0, position, note)
