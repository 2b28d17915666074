"""Interferences of a scene's instances: how they are related, what they share, where they meet."""

from functools import cache
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.queries.answers.interferences import UNKNOWN, Interferences
from bvh.runtime.arguments import number_of
from bvh.runtime.threads import Progress
from bvh.scene.scene_view import SceneView
from bvh.scene.solids.instance_solids import InstanceSolids, Rows, near_instances
from bvh.scene.solids.round_relations import Round, nearest_parts
from bvh.tree.primitives import THIN, Triangles

Reals = NDArray[np.float64]
NOWHERE = np.full((2, 3), nan)


class _State(NamedTuple):
    """Whether the mesh of an instance is a solid."""

    open_edges: int  # -1 for instances that are not over triangles
    oriented: bool
    why: str | None  # why it is no solid


class _Row(NamedTuple):
    """The columns of `Interferences` for one pair of instances."""

    relation: str
    volume: float
    depth: float
    distance: float
    position: Reals
    note: str = ""


def find_interferences(
    view: SceneView, names: dict[int, str], ignored: Rows, margin: float, threads: int,
    progress: Progress | None = None,
) -> Interferences:  # fmt: skip
    """Return the pairs of a scene's instances that are not disjoint, or within a margin."""
    pairs, solids = near_instances(view, ignored, margin, threads), InstanceSolids(view)

    @cache
    def state(owner: int) -> _State:
        return _state_of(solids, owner)

    kept, rows = [], []
    for k, (a, b) in enumerate(pairs.tolist()):
        row = _row_of(solids, (a, b), (state(a), state(b)), margin, threads)
        if row is not None:
            kept.append((a, b))
            rows.append(row)
        if progress is not None:
            progress(k + 1, len(pairs))
    columns: Any = zip(*rows, strict=True) if rows else ((),) * 6
    relation, *numbers, position, note = columns
    volume, depth, distance = (np.array(column, np.float64) for column in numbers)
    states = [[state(owner) for owner in pair] for pair in kept]
    return Interferences(
        np.array(relation, "<U11"), volume, depth, distance,
        np.array(position, np.float64).reshape(-1, 2, 3),
        np.array(kept, np.int32).reshape(-1, 2),
        np.array([[names.get(k, "") for k in pair] for pair in kept], np.str_).reshape(-1, 2),
        np.array([[s.open_edges for s in two] for two in states], np.int64).reshape(-1, 2),
        np.array([[s.oriented for s in two] for two in states], np.bool_).reshape(-1, 2),
        np.array(note, np.str_),
    )  # fmt: skip


def _state_of(solids: InstanceSolids, owner: int) -> _State:
    """Return whether the mesh of an instance is a solid."""
    view = solids.view
    if view.round_trees[view.tree_of[solids.leaves(owner)]].any():
        try:
            solids.solid("interferences", owner)
        except ValueError as error:
            return _State(-1, False, str(error))
        return _State(0, True, None)
    for leaf in solids.leaves(owner).tolist():
        primitives = view.trees[view.tree_of[leaf]].primitives
        if not isinstance(primitives, Triangles):
            kind = type(primitives).__name__.lower()
            return _State(-1, False, f"instance {owner} is over {kind}")
    tree = solids.tree(owner)
    count = 0 if tree.is_closed else len(tree.open_edges())
    why = f"instance {owner} has {number_of(count, 'open edges')}" if count else None
    if tree.kind in THIN:
        why = f"instance {owner} is over {tree.kind}"
    return _State(count, tree.is_oriented, why)


def _row_of(
    solids: InstanceSolids, pair: tuple[int, int], states: tuple[_State, _State], margin: float,
    threads: int,
) -> _Row | None:  # fmt: skip
    """Return the row of two instances; None if they are disjoint, by more than the margin."""
    why = "; ".join(state.why for state in states if state.why)
    if min(state.open_edges for state in states) < 0:
        # No query measures both.
        boxes = "boxes are within the margin" if margin else "boxes meet"
        return _Row(UNKNOWN, nan, nan, nan, NOWHERE, f"{boxes}; {why}")
    ends = [solids.solid("interferences", owner) for owner in pair] if not why else []
    if any(isinstance(solid, Round) for solid in ends):
        relation = solids.relation(pair, margin, threads)
        found = nearest_parts(ends[0], ends[1], margin)
        depth = nan if relation not in ("touching", "disjoint") else 0.0
        at = (found.distance, found.position) if found else (0.0, NOWHERE)
        note = "" if depth == 0.0 else "spheres and capsules have no volume and depth here"
        return None if relation == "disjoint" else _Row(relation, depth, depth, *at, note)
    first, second = map(solids.tree, pair)
    if why:
        near = first.distance_to(second, max_distance=margin, threads=threads)
        if not near.mask:
            return None
        return _Row(UNKNOWN, nan, nan, float(near.distance), near.position, why)
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
    ends = deep.point, deep.point + deep.depth * deep.direction
    position = np.array(ends if deep.own else ends[::-1])
    return _Row(str(relation), volume, float(deep.depth), 0.0, position, note)
