"""Distances between instances over spheres or capsules, and from these to instances over triangles.

A *part* of a leaf is a sphere, a capsule or a face. The nearest two axes, or axis and face, are
found by the search for triangles, with axes as triangles without area. The gap between the surfaces
of that pair is an upper bound of the distance. It is the distance where each instance has shapes of
one radius, and the axes are farther apart than the sum of both radii. Otherwise all pairs are
compared whose boxes are at most that far apart. Gaps are bounded in doubles (see `round_gaps`);
those that may be the least are computed in rational arithmetic.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.rational import round_gap
from bvh.geometry.pairs.round_gaps import SIZE, find_gaps
from bvh.geometry.transforms import moved
from bvh.queries.batches.distance_batches import find_closest_pair
from bvh.queries.batches.overlap_batches import RegionSearch, search_of
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import kernel_input
from bvh.runtime.jit import warms
from bvh.scene.instance_pairs import near_boxes, search_of_scene
from bvh.scene.scene_view import SceneView
from bvh.tree.arrays import TreeArrays, frozen_primitives
from bvh.tree.build import build
from bvh.tree.instanced import PRIM_MASK
from bvh.tree.primitives import Triangles
from bvh.tree.shapes import shape_of

Reals = NDArray[np.float64]
Ids = NDArray[np.int64]

# Pairs of parts at a time.
AT_ONCE = 1 << 14
# Larger than rounding errors of distances and radii, as a share of these.
SLACK = 2.0**-45


class Parts(NamedTuple):
    """Parts of a leaf in the world: spheres and capsules, given by their axes, or faces."""

    ids: Ids  # (n,): the prim_id of each part
    corners: Reals  # (n, 3, 3) of faces; start, end and again the end of axes
    radii: Reals  # (n,); 0 for faces
    boxes: Reals  # (n, 6) around spheres and capsules; arbitrary for faces

    def chosen(self, rows: Any) -> Parts:
        """Return the parts in some rows: an index array, or flags."""
        return Parts(*(column[rows] for column in self))


class PartPairs(NamedTuple):
    """Pairs of parts: pair k is the part rows[k] of `first` and rows2[k] of `second`."""

    first: Parts
    rows: Ids
    second: Parts
    rows2: Ids

    @property
    def ids(self) -> tuple[Ids, Ids]:
        """The ids of the first part of each pair, and of the second."""
        return self.first.ids[self.rows], self.second.ids[self.rows2]

    def gaps(self, begin: int = 0, end: int | None = None) -> Reals:
        """Return SIZE numbers for each of the pairs begin..end - 1: by default, for all pairs.

        The numbers are a lower and an upper bound of the gap between the surfaces; the two points
        of the axes, or of axis and face, that are nearest to each other (3 numbers each); and the
        direction (3 numbers) from the second to the first.
        """
        sides: list[Any] = []
        for parts, rows in ((self.first, self.rows), (self.second, self.rows2)):
            sides += map(kernel_input, (parts.corners, parts.radii, rows[begin:end]))
        gaps = np.empty((len(sides[2]), SIZE))
        find_gaps(*sides, gaps)
        return gaps

    def exact_gap(self, k: int) -> float:
        """Return the gap between the surfaces of pair k, rounded to the nearest double."""
        i, j = self.rows[k], self.rows2[k]
        corners, corners2 = self.first.corners[i].tolist(), self.second.corners[j].tolist()
        return round_gap(corners, float(self.first.radii[i]), corners2, float(self.second.radii[j]))


class Nearest(NamedTuple):
    """The nearest two parts of two instances."""

    distance: float  # between their surfaces; 0 if they touch
    prims: tuple[int, int]  # the prim_id of both parts
    position: Reals  # (2, 3): the nearest points of both surfaces


class RoundInstances:
    """Distances and contacts of pairs of leaves, of which at least one is over spheres or capsules.

    The first leaf, `side` 0, is one of `view`, and the second, `side` 1, one of `other`.
    """

    def __init__(self, view: SceneView, other: SceneView) -> None:
        """Compare leaves of `view`, side 0, with leaves of `other`, side 1."""
        self._views = view, other
        # By (side, leaf), once computed: the shapes, and the search among the boxes around them.
        self._cached_shapes: dict[tuple[int, int], Parts] = {}
        self._cached_boxes: dict[tuple[int, int], RegionSearch] = {}

    def nearest(self, leaf: int, leaf2: int, limit: float) -> Nearest | None:
        """Return the nearest parts of two leaves; None if their distance is above a limit."""
        leaves = leaf, leaf2
        is_round = [self.is_round(side, leaves[side]) for side in (0, 1)]
        if all(is_round):
            # Two leaves of one shape each, such as balls, need no search.
            first, second = self._shapes(0, leaf), self._shapes(1, leaf2)
            both = np.concatenate([first.boxes, second.boxes])
            if len(first.ids) == len(second.ids) == 1 and np.isfinite(both).all():
                row = np.zeros(1, np.int64)
                pair = PartPairs(first, row, second, row)
                return least_gap(pair, pair.gaps(), limit)
        radii = [self._shapes(k, leaves[k]).radii if is_round[k] else np.zeros(1) for k in (0, 1)]
        # The largest sum of the radii of two parts.
        most = sum(float(each.max(initial=0.0)) for each in radii)
        trees = [self._axes_or_faces(side, leaves[side]) for side in (0, 1)]
        maps = [view.maps[k] for view, k in zip(self._views, leaves, strict=True)]
        reach = (limit + most) * (1.0 + SLACK)
        near = find_closest_pair(trees[0], trees[1], (maps[0], maps[1]), max_distance=reach)
        if near.prim_id[0] < 0:
            return None
        pair = self.pairs_of(leaf, leaf2, near.prim_id[None].astype(np.int64))
        gaps = pair.gaps()
        same_radii = all((each == each[0]).all() for each in radii)
        # With several radii, or where shapes may touch, another pair than that of the nearest axes
        # may have the least gap. It is at most gaps[0, 1]: compare all pairs within that.
        if not same_radii or not near.distance * (1.0 - SLACK) > most:
            within = min(limit, float(gaps[0, 1])) * (1.0 + SLACK)
            pair = self._within(leaves, 0 if is_round[0] else 1, within)
            gaps = pair.gaps()
        return least_gap(pair, gaps, limit)

    def touching(self, leaf: int, leaf2: int, itself: bool = False) -> NDArray[np.int32]:
        """Return the ids of the pairs of parts of two leaves that touch, (m, 2), ascending.

        If `itself`, both are the same leaf, and each pair counts once, the lower part first.
        """
        side = 0 if self.is_round(0, leaf) else 1
        near = self._within((leaf, leaf2), side, reach=0.0)
        if itself:
            once = np.less(*near.ids)
            near = near._replace(rows=near.rows[once], rows2=near.rows2[once])
        touch = np.zeros(len(near.rows), np.bool_)
        for begin in range(0, len(touch), AT_ONCE):
            # Lower and upper bounds of the gaps.
            low, high = near.gaps(begin, begin + AT_ONCE)[:, :2].T
            touch[begin : begin + AT_ONCE] = high == 0.0
            # Where 0 is between the bounds, the exact gap decides.
            for k in np.flatnonzero((low == 0.0) & (high > 0.0)).tolist():
                touch[begin + k] = near.exact_gap(begin + k) == 0.0
        first, second = (ids[touch] for ids in near.ids)
        # Both ids in one number, to sort pairs by the first, then by the second.
        keys = np.sort(first << 32 | second)
        return np.stack([keys >> 32, keys & 0xFFFFFFFF], axis=1).astype(np.int32)

    def pairs_of(self, leaf: int, leaf2: int, prims: Ids) -> PartPairs:
        """Return m pairs of parts of two leaves; `prims`, (m, 2), has the ids of both parts."""
        rows = np.arange(len(prims))
        first, second = self._with_ids(0, leaf, prims[:, 0]), self._with_ids(1, leaf2, prims[:, 1])
        return PartPairs(first, rows, second, rows)

    def is_round(self, side: int, leaf: int) -> bool:
        """Return whether a leaf is over spheres or capsules."""
        view = self._views[side]
        return bool(view.round_trees[view.tree_of[leaf]])

    def _axes_or_faces(self, side: int, leaf: int) -> TreeArrays:
        """Return the tree of a leaf, or one over the axes of its shapes as faces without area."""
        view = self._views[side]
        k = view.tree_of[leaf]
        return _tree_over_axes(view.trees[k]) if view.round_trees[k] else view.shown_trees()[k]

    def _shapes(self, side: int, leaf: int) -> Parts:
        """Return the valid shapes of a leaf that is over spheres or capsules."""
        key, view = (side, leaf), self._views[side]
        if key not in self._cached_shapes:
            primitives = view.trees[view.tree_of[leaf]].primitives
            shape = shape_of(primitives)
            # `bounds` returns lower corners, upper corners, and which shapes are valid.
            ids = np.flatnonzero(shape.bounds(primitives.points)[2])
            points = shape.instances(primitives.points[ids], view.maps[leaf])
            boxes, radii = np.hstack(shape.bounds(points)[:2]), points[:, -1].copy()
            self._cached_shapes[key] = Parts(ids, axes_of(points), radii, boxes)
        return self._cached_shapes[key]

    def _search(self, side: int, leaf: int) -> RegionSearch:
        """Return the region search of the faces of a leaf, or of boxes around its shapes."""
        key, view = (side, leaf), self._views[side]
        if not self.is_round(side, leaf):
            only = view.only(np.arange(len(view)) == leaf)
            return search_of_scene(view)._replace(arrays=only)
        if key not in self._cached_boxes:
            boxes = self._shapes(side, leaf).boxes
            tree = BVH.from_boxes(boxes[:, :3], boxes[:, 3:], threads=1, warn=False)
            self._cached_boxes[key] = search_of(tree.arrays, tree.bounds)
        return self._cached_boxes[key]

    def _with_ids(self, side: int, leaf: int, ids: Ids) -> Parts:
        """Return the shapes or faces of a leaf that have the given ids."""
        if self.is_round(side, leaf):
            parts = self._shapes(side, leaf)
            return parts.chosen(np.searchsorted(parts.ids, ids))
        view = self._views[side]
        points, faces = view.trees[view.tree_of[leaf]].primitives
        corners = moved(points[faces[ids]].reshape(-1, 3), view.maps[leaf])
        # Faces have the radius 0, and need no boxes.
        return Parts(ids, corners.reshape(-1, 3, 3), np.zeros(len(ids)), np.empty((len(ids), 6)))

    def _within(self, leaves: tuple[int, int], side: int, reach: float) -> PartPairs:
        """Return all pairs of parts of two leaves whose boxes are within `reach`.

        The leaf on `side` is over spheres or capsules, whose boxes are searched for in the other.
        """
        shapes = self._shapes(side, leaves[side])
        other, leaf = 1 - side, leaves[1 - side]
        view = self._views[other]
        shape_rows, codes = near_boxes(self._search(other, leaf), shapes.boxes, reach, threads=1)
        prims = codes & PRIM_MASK
        if self.is_round(other, leaf):
            # The search is among the boxes of `_shapes`, so the ids are rows of these parts.
            others, rows = self._shapes(other, leaf), prims
        else:
            shown = ~np.isin(prims, _hidden(view.trees[view.tree_of[leaf]]))
            faces, rows = np.unique(prims[shown], return_inverse=True)
            shape_rows, others = shape_rows[shown], self._with_ids(other, leaf, faces)
        if side == 0:
            return PartPairs(shapes, shape_rows, others, rows)
        return PartPairs(others, rows, shapes, shape_rows)


def axes_of(points: Reals) -> Reals:
    """Return the axes of spheres or capsules as triangles (n, 3, 3) without area: start, end, end.

    A row of `points` has the box (6 numbers), the centre of a sphere or both ends of a capsule's
    axis (3 numbers each), and the radius.
    """
    start, end = points[:, 6:9], points[:, -4:-1]
    return np.stack([start, end, end], axis=1)


def _tree_over_axes(arrays: TreeArrays) -> TreeArrays:
    """Return a tree over the axes of a tree's shapes, NaN for shapes not valid; it is cached."""
    cached: TreeArrays | None = vars(arrays).get("_axes")
    if cached is None:
        shapes: Any = arrays.primitives
        corners = axes_of(shapes.points)
        _, _, is_valid = shape_of(shapes).bounds(shapes.points)
        corners[~is_valid] = np.nan
        faces = np.arange(3 * len(corners), dtype=np.int32).reshape(-1, 3)
        axes = frozen_primitives(Triangles(corners.reshape(-1, 3), faces))
        tree, _ = build(axes, "medium", threads=1, progress=None)
        cached = vars(arrays).setdefault("_axes", tree)
    return cached


def _hidden(arrays: TreeArrays) -> Ids:
    """Return the ids of the faces whose group bits are all 0, which queries ignore."""
    if not len(arrays.face_bits):
        return np.empty(0, np.int64)
    ids = arrays.nodes.ids
    return np.unique(ids[(arrays.face_bits == 0) & (ids >= 0)])


def least_gap(pairs: PartPairs, gaps: Reals, limit: float) -> Nearest | None:
    """Return the pair with the least gap, and of equal gaps the lowest ids; None above the limit.

    `gaps` is the result of `PartPairs.gaps` for all pairs: it begins with lower and upper bounds.
    """
    low, high, (first, second) = gaps[:, 0], gaps[:, 1], pairs.ids
    rows = np.flatnonzero(low <= min(float(high.min(initial=np.inf)), limit))
    best: tuple[float, int, int] = (np.inf, -1, -1)
    best_pair = -1
    # Pairs that surely touch come first, as they need no exact gap and rule out most others.
    for k in rows[np.lexsort((second[rows], first[rows], high[rows] > 0.0))].tolist():
        ids = int(first[k]), int(second[k])
        # Of pairs that touch, only lower ids can replace the best pair.
        if low[k] > best[0] or (low[k] == best[0] == 0.0 and ids > best[1:]):
            continue
        gap = pairs.exact_gap(k) if high[k] > 0.0 else 0.0
        if gap <= limit and (gap, *ids) < best:
            best, best_pair = (gap, *ids), k
    if best_pair < 0:
        return None
    parts = pairs.first.chosen(pairs.rows[[best_pair]])
    parts2 = pairs.second.chosen(pairs.rows2[[best_pair]])
    return Nearest(best[0], best[1:], _positions(parts, parts2, gaps[best_pair]))


def _positions(first: Parts, second: Parts, gap: Reals) -> Reals:
    """Return the points (2, 3) on the surfaces of two parts that are nearest to each other.

    `first` and `second` have one part each, and `gap` is the row of `PartPairs.gaps` for both: two
    bounds, the nearest points x and y of the axes, and the direction from y to x. Where the
    surfaces cross, the result is between x and y.
    """
    x, y, direction = gap[2:5], gap[5:8], gap[8:11]
    r, s = float(first.radii[0]), float(second.radii[0])
    for side, (outer, inner) in enumerate(((first, second), (second, first))):
        # The inner part is inside the outer one if its corner farthest from the outer axis is. Then
        # the surfaces are nearest in the direction from the axis to that corner.
        feet = np.array([_foot(outer.corners[0], corner) for corner in inner.corners[0]])
        off = np.linalg.norm(inner.corners[0] - feet, axis=1)
        k = int(off.argmax())
        if outer.radii[0] > inner.radii[0] and off[k] < abs(r - s):
            u = unit_along(inner.corners[0, k] - feet[k], outer.corners[0])
            places = feet[k] + outer.radii[0] * u, inner.corners[0, k] + inner.radii[0] * u
            return np.array(places if side == 0 else places[::-1])
    u = unit_along(direction, first.corners[0] if r > 0.0 else second.corners[0])
    return np.array([x - r * u, y + s * u])


def _foot(axis: Reals, point: Reals) -> Reals:
    """Return the point of the segment from axis[0] to axis[1] that is nearest to a point."""
    v = axis[1] - axis[0]
    square = float(v @ v)
    share = min(max(float((point - axis[0]) @ v) / square, 0.0), 1.0) if square else 0.0
    return np.asarray(axis[0] + share * v)


def unit_along(vector: Reals, axis: Reals) -> Reals:
    """Return the unit vector along `vector`; if that is 0, one at a right angle to an axis.

    `axis` has the ends of the axis in its first two rows; any direction will do if they are equal.
    """
    if not vector.any():
        v = axis[1] - axis[0]
        vector = np.cross(v, np.eye(3)[np.abs(v).argmin()]) if v.any() else np.eye(3)[0]
    # Scaled first, so that squares neither overflow nor underflow.
    vector = vector / np.abs(vector).max()
    return np.asarray(vector / np.linalg.norm(vector))


@warms("round instances")
def _warm() -> None:
    """Compile the bounds of gaps."""
    one = Parts(np.zeros(1, np.int64), np.zeros((1, 3, 3)), np.ones(1), np.zeros((1, 6)))
    rows = np.zeros(1, np.int64)
    PartPairs(one, rows, one, rows).gaps()
