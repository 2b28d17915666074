"""The two levels of a scene as kernels see them: a tree over the boxes of leaves, and their trees.

`Placed` says how a leaf is known, `traversal.scene_entrance` how rays get there; here its rows are
filled. With the local frame x' = (x - c) * 2**k of the top level and x'' = (y - c'') * 2**k'' of a
tree, y = W x for the correctly rounded inverse W of the leaf's map, the way between them is
x'' = A x' + b with A = W * 2**(k'' - k), exact, and b = (W c - c'') * 2**k''.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.affine import determinant_sign, near_sum
from bvh.arguments import kernel_input
from bvh.arrays import TreeArrays
from bvh.extents import extent_of, gathered, instance_bounds, skew_of, solid_bounds
from bvh.hierarchy import Hierarchy
from bvh.jit import entry, inlined
from bvh.numerics import power_of_two, scale_by
from bvh.obbs import inverses
from bvh.placed import BLOCKS as AT_BLOCKS
from bvh.placed import (
    BOUND,
    BOXES,
    FACES,
    FLIPS,
    HIGHEST,
    KIND,
    LOWEST,
    NORM,
    OBBS,
    POINTS,
    SHIFT_ERROR,
    TREE_SIZE,
    TRIANGLES,
    VERTEX_ERROR,
    WAY_SIZE,
    Placed,
)
from bvh.placed import GROUPS as AT_GROUPS
from bvh.placed import IDS as AT_IDS
from bvh.primitives import Boxes, Obbs, Triangles, arrays_of
from bvh.stretches import STRETCH_SIZE, fill_stretches
from bvh.top_level import TopLevel
from bvh.traversal.one_ray import addresses_of

KINDS: dict[type, int] = {Triangles: TRIANGLES, Boxes: BOXES, Obbs: OBBS}


@entry
def fill_ways(rows, maps, inverses, boxes, frame, frames, skews, tree_of, ways):
    """Fill the ways of the leaves `rows`.

    Parameters
    ----------
    rows : ndarray of int64
    maps, inverses : ndarray of float64, shape (n, 3, 4)
    boxes : ndarray of float64, shape (n, 6)
        Of the leaves, in the world.
    frame : ndarray of float64, shape (4, 3)
        Of the top level.
    frames : ndarray of float64, shape (m, 4, 3)
        Of the trees.
    skews : ndarray of float64, shape (m, 2)
        Of the trees (see `extents`).
    tree_of : ndarray of int32, shape (n,)
    ways : ndarray of float64, shape (n * WAY_SIZE,)
    """
    for i in rows:
        own = frames[tree_of[i]]
        k = int(own[1, 0])
        shift, scale = k - int(frame[1, 0]), power_of_two(k)
        at = i * WAY_SIZE
        norm, shift_error, vertex_error = 0.0, 0.0, 0.0
        for row in range(3):
            w = (
                inverses[i, row, 0], inverses[i, row, 1], inverses[i, row, 2], inverses[i, row, 3]
            )  # fmt: skip
            c = (frame[0, 0], frame[0, 1], frame[0, 2])
            _, moved = near_sum(w, c)
            total, terms, lost = 0.0, abs(w[3]) + abs(own[0, row]), 0.0
            for axis in range(3):
                entry = scale_by(w[axis], shift)
                ways[at + 4 * row + axis] = entry
                total += abs(entry)
                terms += abs(w[axis] * c[axis])
                reach = max(abs(boxes[i, axis]), abs(boxes[i, 3 + axis]))
                lost += abs(w[axis]) * (2.0**-53 * reach + 2.0**-1074)
            ways[at + 4 * row + 3] = (moved - own[0, row]) * scale
            norm = max(norm, total)
            shift_error = max(shift_error, terms * scale * 2.0**-51)
            vertex_error = max(vertex_error, lost * scale)
            most, far = skews[tree_of[i], 0], skews[tree_of[i], 1]
            if most > 0.0:
                lost = 2.0 * most * (lost + 2.0**-53 * abs(w[3])) + 2.0**-52 * far
                vertex_error = max(vertex_error, lost * scale)
        for axis in range(3):
            ways[at + LOWEST + axis] = own[2, axis]
            ways[at + HIGHEST + axis] = own[3, axis]
        ways[at + BOUND] = own[1, 2]
        ways[at + NORM] = norm
        ways[at + SHIFT_ERROR] = shift_error
        ways[at + VERTEX_ERROR] = vertex_error * (1.0 + 2.0**-20)
        ways[at + FLIPS] = 1.0 if _column_sign(maps, i) < 0 else 0.0


@inlined
def _column_sign(maps, i):
    """Return the sign of the determinant of a map."""
    return determinant_sign(
        (maps[i, 0, 0], maps[i, 1, 0], maps[i, 2, 0]),
        (maps[i, 0, 1], maps[i, 1, 1], maps[i, 2, 1]),
        (maps[i, 0, 2], maps[i, 1, 2], maps[i, 2, 2]),
    )


def _addresses(tree: Hierarchy) -> list[int]:
    """Return the row of a tree in `Placed.trees`."""
    arrays = tree.arrays
    row = [0] * TREE_SIZE
    points, *faces = arrays_of(arrays.primitives)
    row[AT_BLOCKS], row[AT_GROUPS] = arrays.nodes.blocks.ctypes.data, arrays.groups.ctypes.data
    row[AT_IDS], row[POINTS] = arrays.nodes.ids.ctypes.data, points.ctypes.data
    row[FACES] = faces[0].ctypes.data if faces else 0
    row[KIND] = KINDS[type(arrays.primitives)]
    return row


class TwoLevel:
    """What kernels work on when a scene is asked: its leaves, and a tree over their boxes.

    Parameters
    ----------
    trees : sequence of BVH
        Over triangles, boxes or oriented boxes.
    tree_of : ndarray of int32, shape (n,)
        Which of the trees each leaf is.
    maps : ndarray of float64, shape (n, 3, 4)
        Affine maps of the leaves, invertible.
    masks : ndarray of uint32, shape (n,)
    owners : ndarray of int32, shape (n,)
        The instances that leaves belong to.

    Attributes
    ----------
    arrays : TreeArrays
        Over `Placed`. They change in place when leaves move, and are others when the top level has
        been built anew.
    place : int
        The address of the addresses of all arrays, for the kernel of a single ray.
    """

    __slots__ = (
        "_before", "_extents", "_frames", "_inverses", "_maps", "_masks", "_now", "_placed",
        "_skews", "_solid", "_split", "_stretches", "_top", "_tree_of", "_trees", "_ways", "arrays",
        "place",
    )  # fmt: skip

    arrays: TreeArrays
    place: int
    # What `place` leads to, and what it led to before.
    _now: Any
    _before: Any
    # Of where leaves are now, once points have asked for it.
    _stretches: NDArray[np.float64] | None

    def __init__(
        self,
        trees: Sequence[Hierarchy],
        tree_of: NDArray[np.int32],
        maps: NDArray[np.float64],
        masks: NDArray[np.uint32],
        owners: NDArray[np.int32],
    ) -> None:
        # The arrays whose addresses kernels are told must live as long as this does.
        self._trees = [tree.arrays for tree in trees]
        self._tree_of = kernel_input(np.array(tree_of, np.int32))
        self._maps = np.array(maps, np.float64, order="C").reshape(-1, 3, 4)
        self._inverses, _ = inverses(self._maps)
        self._masks = np.array(masks, np.uint32).view(np.int32)
        self._frames = kernel_input(
            np.stack([tree.frame for tree in self._trees]) if len(trees) else np.empty((0, 4, 3))
        )
        self._stretches = None
        self._split = any(tree._quality == "high" for tree in trees)
        table = np.array([_addresses(tree) for tree in trees], np.int64).reshape(-1, TREE_SIZE)
        self._ways = np.zeros(len(self._maps) * WAY_SIZE)
        self._extents = gathered([extent_of(tree.arrays, tree.bounds) for tree in trees])
        skews = [skew_of(tree) for tree in self._trees]
        self._skews = kernel_input(np.array(skews, np.float64).reshape(-1, 2))
        self._solid = np.array([not isinstance(t.primitives, Triangles) for t in self._trees], bool)
        self._top = TopLevel(self._bounded(np.arange(len(self._maps))))
        self._placed = Placed(
            kernel_input(self._maps.reshape(-1)),
            kernel_input(self._inverses.reshape(-1)),
            kernel_input(self._ways),
            kernel_input(table[self._tree_of].reshape(-1)),
            kernel_input(self._masks),
            kernel_input(np.array(owners, np.int32)),
        )
        self._now = None
        self._open()

    def __len__(self) -> int:
        """Return the number of leaves."""
        return len(self._maps)

    @property
    def split(self) -> bool:
        """Whether some tree has primitives in several of its leaves."""
        return self._split

    def owner(self, leaf: int) -> int:
        """Return the instance that a leaf belongs to; -1 for -1."""
        return int(self._placed.owners[leaf]) if leaf >= 0 else -1

    @property
    def stretches(self) -> NDArray[np.float64]:
        """What points measure leaves by: see `stretches`."""
        # Two threads may both fill them: they find the same.
        if self._stretches is None:
            found = np.zeros((len(self), STRETCH_SIZE))
            self._stretch(np.arange(len(self), dtype=np.int64), found)
            self._stretches = found
        return kernel_input(self._stretches.reshape(-1))

    @property
    def plain(self) -> bool:
        """Whether all trees are over triangles."""
        return all(isinstance(tree.primitives, Triangles) for tree in self._trees)

    @property
    def flipped(self) -> NDArray[np.bool_]:
        """Which leaves are reflected."""
        return np.asarray(self._ways.reshape(-1, WAY_SIZE)[:, FLIPS] != 0.0)

    def first_solid(self, mask: int) -> tuple[int, str] | None:
        """Return the first leaf within a mask that is not over triangles, and what it is over."""
        kinds = self._placed.trees.reshape(-1, TREE_SIZE)[:, KIND]
        found = np.flatnonzero((kinds != TRIANGLES) & (self._masks & np.int32(mask) != 0))
        if len(found) == 0:
            return None
        leaf = int(found[0])
        return leaf, type(self._trees[self._tree_of[leaf]].primitives).__name__.lower()

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays; trees are not counted."""
        top = self.arrays
        arrays = (*self._placed, *top.nodes, top.frame, self._top.boxes, self._tree_of)
        return sum(array.nbytes for array in arrays)

    @property
    def trees(self) -> list[TreeArrays]:
        """The trees, each once."""
        return self._trees

    @property
    def maps(self) -> NDArray[np.float64]:
        """The affine maps of the leaves, read-only, shape (n, 3, 4)."""
        return kernel_input(self._maps)

    @property
    def inverses(self) -> NDArray[np.float64]:
        """The correctly rounded inverses of the maps, read-only, shape (n, 3, 4)."""
        return kernel_input(self._inverses)

    @property
    def masks(self) -> NDArray[np.int32]:
        """The masks of the leaves, read-only, shape (n,)."""
        return kernel_input(self._masks)

    @property
    def owners(self) -> NDArray[np.int32]:
        """The instances that leaves belong to, read-only, shape (n,)."""
        return self._placed.owners

    @property
    def frames(self) -> NDArray[np.float64]:
        """The frames of the trees (see `TreeArrays`), read-only, shape (m, 4, 3)."""
        return self._frames

    @property
    def tree_of(self) -> NDArray[np.int32]:
        """Which of the trees each leaf is, read-only, shape (n,)."""
        return self._tree_of

    @property
    def boxes_tree(self) -> TreeArrays:
        """The top level as a tree over the boxes of leaves."""
        return self._top.arrays

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Lower and upper corner of all leaves, shape (2, 3); NaN if there is nothing in them."""
        return self._top.bounds

    @property
    def boxes(self) -> NDArray[np.float64]:
        """Lower and upper corner of each leaf, shape (n, 6); +inf and -inf if there is nothing."""
        return self._top.boxes

    def move(
        self, leaves: NDArray[np.int64], maps: NDArray[np.float64], rays: float | None = None
    ) -> None:
        """Give leaves other maps.

        Parameters
        ----------
        leaves : ndarray of int64, shape (k,)
        maps : ndarray of float64, shape (k, 3, 4)
        rays : float, optional
            Rays that have been cast since the last time, where it is known.
        """
        some = kernel_input(maps)
        self._maps[leaves] = some
        if self._stretches is not None:
            self._stretch(leaves, self._stretches)
        self._inverses[leaves], _ = inverses(some)
        boxes = self._bounded(leaves)
        told: dict[str, Any] = {} if rays is None else {"rays": rays}
        if self._top.update(kernel_input(leaves), boxes, **told):
            self._open()
        else:
            self._place(leaves)

    def set_masks(self, leaves: NDArray[np.int64], masks: NDArray[np.uint32]) -> None:
        """Give leaves other masks."""
        self._masks[leaves] = np.asarray(masks, np.uint32).view(np.int32)

    def _bounded(self, leaves: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return boxes in the world around leaves, as their maps are now."""
        which = self._tree_of[leaves]
        boxes = instance_bounds(self._extents, which, self._maps[leaves])
        solid = self._solid[which]
        if solid.any():
            rows = self._inverses[leaves[solid]]
            boxes[solid] = solid_bounds(self._extents, which[solid], rows, self._skews)
        return boxes

    def _stretch(self, leaves: NDArray[np.int64], out: NDArray[np.float64]) -> None:
        """Find what points measure leaves by."""
        fill_stretches(
            kernel_input(leaves), kernel_input(self._maps), self._frames, self._tree_of, out
        )

    def _place(self, leaves: NDArray[np.int64]) -> None:
        """Find the ways to leaves."""
        fill_ways(
            kernel_input(leaves), kernel_input(self._maps), kernel_input(self._inverses),
            self._top.boxes, self.arrays.frame, self._frames, self._skews, self._tree_of,
            self._ways,
        )  # fmt: skip

    def _open(self) -> None:
        """Take up a top level that has been built anew."""
        top = self._top.arrays
        # A single ray in another thread knows its arrays by address: what was stays for a while.
        self._before = self._now
        placed: Any = self._placed
        self.arrays = top._replace(primitives=placed)
        self._place(np.arange(len(self), dtype=np.int64))
        places = addresses_of(self.arrays)
        self._now = self.arrays, places
        self.place = places.ctypes.data
