"""View of a scene for kernels: a TLAS over the boxes of leaves, and the BLAS that they share.

A *leaf* is a leaf instance (`Scene.leaves`): a tree at the end of a path through nested scenes.
`Instanced` describes its row in the arrays of kernels, `traversal.rays.instanced_rays` how rays
enter its tree; this file fills the rows. With the local frame x' = (x - c) * 2**k of the TLAS and
x'' = (y - c'') * 2**k'' of a tree, and y = W x for the correctly rounded inverse W of the leaf's
map, the transform between the frames is x'' = A x' + b with A = W * 2**(k'' - k), exact, and
b = (W c - c'') * 2**k''.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import row_of, scale_by
from bvh.geometry.obbs import inverses
from bvh.geometry.transforms import EVEN, determinant_sign, even_scales, rounded_dot
from bvh.queries.batches.quick_calls import Searched
from bvh.queries.hierarchy import BVH
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.scene.merged_leaves import LeafMerger, MergedTree
from bvh.traversal.points.world_metric import METRIC_SIZE, fill_metrics
from bvh.tree import instanced
from bvh.tree.arrays import TreeArrays, bytes_of
from bvh.tree.build import in_full, without_hidden
from bvh.tree.frame import bound, centre, exponent, highest, lowest, scale
from bvh.tree.primitives import Triangles
from bvh.tree.tlas import Tlas
from bvh.tree.world_bounds import (
    GROWTH,
    Extents,
    box_instance_bounds,
    extent_of,
    gathered,
    instance_bounds,
    skew_of,
)


@entry
def fill_transforms(rows, maps, inverses, boxes, frame, frames, skews, tree_of, transforms):
    """Write the transforms from the frame of a TLAS to those of the BLAS of leaves, with margins.

    Leaf i of `rows` gets TRANSFORM_SIZE numbers of `transforms` (see `instanced`). It has the map
    maps[i] (3, 4) with its inverse, the world box boxes[i], and the tree k = tree_of[i]. `frame` is
    that of the TLAS, frames[k] that of the tree. skews[k] has K and F, which bound rounded rows of
    oriented boxes (0 for other trees), and the largest radius (see `world_bounds.skew_of`).
    """
    # The transform of a point is x'' = A x' + b, with the centre c of `frame`, A = W * 2**shift,
    # written column by column, and b = (W c - tree_centre) * unit; `w` are the rows of the inverse
    # W. `norm` is the largest sum of absolute values in a row of A. `shift_error` bounds the error
    # of b: two roundings of 2**-53 of the absolute terms, and as much for the rounding of these.
    # `vertex_error` bounds how far rounding moves vertices in the tree's frame: in the world by
    # 2**-53 of a coordinate, or the least double, 2**-1074. Row r of map i begins at 12 i + 4 r.
    for i in rows:
        tree_frame = frames[tree_of[i]]
        c, tree_centre = centre(frame), centre(tree_frame)
        shift, unit = exponent(tree_frame) - exponent(frame), scale(tree_frame)
        at = i * instanced.TRANSFORM_SIZE
        norm, shift_error, vertex_error = 0.0, 0.0, 0.0
        for row in range(3):
            w = row_of(inverses, 12 * i + 4 * row)
            _, image = rounded_dot(w, c)
            total, terms, error = 0.0, abs(w[3]) + abs(tree_centre[row]), 0.0
            for axis in range(3):
                scaled = scale_by(w[axis], shift)
                transforms[at + 3 * axis + row] = scaled
                total += abs(scaled)
                terms += abs(w[axis] * c[axis])
                reach = max(abs(boxes[i, axis]), abs(boxes[i, 3 + axis]))
                error += abs(w[axis]) * (2.0**-53 * reach + 2.0**-1074)
            transforms[at + 9 + row] = (image - tree_centre[row]) * unit
            norm = max(norm, total)
            shift_error = max(shift_error, terms * unit * 2.0**-51)
            vertex_error = max(vertex_error, error * unit)
            row_sum, far = skews[tree_of[i], 0], skews[tree_of[i], 1]
            # K is above 0 for oriented boxes, whose rows are rounded once more.
            if row_sum > 0.0:
                error = 2.0 * row_sum * (error + 2.0**-53 * abs(w[3])) + 2.0**-52 * far
                vertex_error = max(vertex_error, error * unit)
        # Spheres and capsules may extend beyond their image by GROWTH radii; others have -1.
        vertex_error += GROWTH * max(skews[tree_of[i], 2], 0.0) * unit
        for axis in range(3):
            transforms[at + instanced.LOWEST + axis] = lowest(tree_frame, axis)
            transforms[at + instanced.HIGHEST + axis] = highest(tree_frame, axis)
        transforms[at + instanced.BOUND] = bound(tree_frame)
        transforms[at + instanced.NORM] = norm
        transforms[at + instanced.SHIFT_ERROR] = shift_error
        # The factor covers the rounding of the bound itself.
        transforms[at + instanced.VERTEX_ERROR] = vertex_error * (1.0 + 2.0**-20)
        x, y, z = row_of(maps, 12 * i), row_of(maps, 12 * i + 4), row_of(maps, 12 * i + 8)
        mirrored = determinant_sign(x[:3], y[:3], z[:3]) < 0
        transforms[at + instanced.MIRRORED] = 1.0 if mirrored else 0.0


class SceneView(Searched):
    """TLAS over the leaves of a scene, their transforms, and the BLAS that they share.

    Arrays are read-only, but change in place when leaves move, unless the TLAS is rebuilt.

    Attributes
    ----------
    arrays : TreeArrays
        The TLAS, over `Instanced`.
    trees : list of TreeArrays
        The BLAS, each once.
    tree_of : ndarray of int32, shape (n,)
        Index of each leaf's tree in `trees`.
    maps, inverses : ndarray of float64, shape (n, 3, 4)
        From the tree's coordinates to the scene's, and back.
    masks : ndarray of int32, shape (n,)
        0 for leaves that are not visible.
    owners : ndarray of int32, shape (n,)
        The id of the outermost instance that each leaf belongs to.
    frames : ndarray of float64, shape (m, 4, 3)
        The frames of the trees.
    tlas : Tlas
        With ``boxes``, (n, 6), around the leaves, and their ``bounds``.
    moves : int
        Number of calls of `move`.
    """

    def __init__(
        self, trees: Sequence[TreeBase], tree_of: NDArray[np.int32], maps: NDArray[np.float64],
        masks: NDArray[np.uint32], owners: NDArray[np.int32],
    ) -> None:  # fmt: skip
        """Make the view of n leaves over `trees`, from copies of the other arrays, a row a leaf.

        `tree_of` are indices in `trees`, `maps` (n, 3, 4) from a tree's coordinates to the scene's,
        `masks` 0 for hidden leaves, and `owners` the ids of their outermost instances.
        """
        # Referenced here, because kernels only have the addresses of their rows.
        self.trees = [in_full(tree._grouped_arrays()) for tree in trees]
        self.tree_of = kernel_input(np.array(tree_of, np.int32))
        self._maps = np.array(maps, np.float64, order="C").reshape(-1, 3, 4)
        self._inverses, _ = inverses(self._maps)
        self._masks = np.array(masks, np.uint32).view(np.int32)
        frames = np.array([tree.frame for tree in self.trees], np.float64)
        self.frames = kernel_input(frames.reshape(-1, 4, 3))
        # Read-only views of the arrays that are written here.
        self.maps, self.inverses = kernel_input(self._maps), kernel_input(self._inverses)
        self.masks = kernel_input(self._masks)
        self.owners = kernel_input(np.array(owners, np.int32))
        # See `metrics`; None before the first query of points.
        self._metrics: NDArray[np.float64] | None = None
        # Masks whose trees have been checked for open edges.
        self.seen_closed: set[int] = set()
        # Trees of all leaves for winding numbers (see `SceneQueries._as_one_tree`).
        self.one_trees: dict[tuple[int, bool], BVH] = {}
        # For each leaf, the value of `moves` after the last call of `move` that moved it, or 0.
        self.moves, self.moved_at = 0, np.zeros(len(self._maps), np.int64)
        # See `shown_trees`.
        self._shown: list[TreeArrays] | None = None
        self.merger = LeafMerger(self.trees, self.tree_of, self.maps, self.masks, self.owners)
        # Addresses of the trees for kernels.
        rows = np.array([tree.row.address for tree in self.trees], np.int64)
        self._transforms = np.zeros(len(self._maps) * instanced.TRANSFORM_SIZE)
        # Of each tree (K, F, largest radius) of `skew_of`; the radius is -1 unless the tree is over
        # spheres or capsules.
        skews = [skew_of(tree) for tree in self.trees]
        self._skews = kernel_input(np.array(skews, np.float64).reshape(-1, 3))
        self._boxes_of = np.array([tree.bounds for tree in trees], np.float64).reshape(-1, 6)
        # Which trees are over triangles; whether all are; which are over spheres or capsules.
        self._plain = np.array([isinstance(t.primitives, Triangles) for t in self.trees], bool)
        self.plain = bool(self._plain.all())
        self.round_trees = self._skews[:, 2] >= 0.0
        self.tlas = Tlas(self._bounded(np.arange(len(self._maps))))
        columns = self._maps, self._inverses, self._transforms, rows[self.tree_of]
        new: Any = instanced.Instanced
        flat = (kernel_input(array.reshape(-1)) for array in columns)
        self._instanced = new(*flat, self.masks, self.owners)
        top = self.tlas.arrays._replace(primitives=self._instanced)
        super().__init__(top, any(tree._quality == "high" for tree in trees))
        self.rounded = bool(self.round_trees.any())
        self._update_transforms(np.arange(len(self), dtype=np.int64))

    def __len__(self) -> int:
        """Return the number of leaves."""
        return len(self._maps)

    @cached_property
    def extents(self) -> Extents:
        """Boxes around the trees, by which turned or scaled leaves are bounded (`world_bounds`)."""
        boxes = self._boxes_of.reshape(-1, 2, 3)
        return gathered([extent_of(*each) for each in zip(self.trees, boxes, strict=True)])

    @property
    def metrics(self) -> NDArray[np.float64]:
        """How maps of leaves scale distances, METRIC_SIZE numbers a leaf, flat (`world_metric`)."""
        # Two threads may both compute them: the results are equal.
        if self._metrics is None:
            metrics = np.zeros((len(self), METRIC_SIZE))
            all_leaves = kernel_input(np.arange(len(self), dtype=np.int64))
            fill_metrics(all_leaves, self.maps, self.frames, self.tree_of, metrics)
            self._metrics = metrics
        return kernel_input(self._metrics.reshape(-1))

    @property
    def flipped(self) -> NDArray[np.bool_]:
        """Flags (n,): whether the map of each leaf is a reflection."""
        return np.asarray(self._transforms[instanced.MIRRORED :: instanced.TRANSFORM_SIZE] != 0.0)

    def shown_trees(self) -> list[TreeArrays]:
        """Return `trees` without hidden faces, for searches of pairs of faces; they are cached."""
        if self._shown is None:
            self._shown = [without_hidden(tree) for tree in self.trees]
        return self._shown

    def point_target(self, arrays: TreeArrays) -> Any:
        """Return the TLAS `arrays` as kernels of points search it; None unless over triangles."""
        from bvh.traversal.points.instanced_closest_point import SceneTarget

        # The mask -1 has all bits.
        return SceneTarget(arrays.row, self.metrics, -1) if self.plain else None

    def for_batch(self, rays: int, threads: int | None) -> tuple[TreeArrays, MergedTree | None]:
        """Return (arrays, merged tree) to search for `rays` rays: the TLAS, if the tree is None."""
        merged = self.merger.tree_for(rays, threads)
        return self.arrays if merged is None else merged.arrays, merged

    def first_other(self, mask: int, accept_round: bool = False) -> tuple[int, str] | None:
        """Return the first leaf that is not over triangles, of those that an int32 mask selects.

        The result is (leaf, kind of its primitives), or None if there is no such leaf. If
        `accept_round`, leaves over spheres and capsules are passed over, too.
        """
        if self.plain:
            return None
        passed = self._plain | self.round_trees if accept_round else self._plain
        others = np.flatnonzero(~passed[self.tree_of] & (self._masks & np.int32(mask) != 0))
        kinds = [type(self.trees[k].primitives).__name__.lower() for k in self.tree_of[others[:1]]]
        return (int(others[0]), kinds[0]) if kinds else None

    def selected(self, mask: int) -> tuple[bool, NDArray[np.bool_]]:
        """Return whether an int32 mask selects leaves over spheres or capsules, and which others.

        The second result has flags, (n,), of the selected leaves that are not over these shapes.
        """
        chosen = self._masks & np.int32(mask) != 0
        if self.plain:
            return False, chosen
        is_round = self.round_trees[self.tree_of]
        return bool((chosen & is_round).any()), chosen & ~is_round

    def only(self, leaves: NDArray[np.bool_]) -> TreeArrays:
        """Return the arrays of the TLAS with all leaves hidden that are False in `leaves`, (n,)."""
        # The masks themselves must not change, as other queries may run meanwhile.
        masks = kernel_input(np.where(leaves, self._masks, np.int32(0)))
        return self.arrays._replace(primitives=self._instanced._replace(masks=masks))

    @property
    def nbytes(self) -> int:
        """Bytes of the view's arrays and of trees over all leaves, without those of `trees`."""
        from bvh.queries.batches.distance_batches import cached_tables

        tlas = self.arrays
        arrays = *self._instanced, *tlas.nodes, tlas.frame, self.tlas.boxes, self.tree_of
        shown = [tree for tree in self._shown or () if not any(tree is t for t in self.trees)]
        # Trees without hidden faces share nodes and primitives with those that have them.
        tree_tables = [(tree.groups, cached_tables(tree)) for tree in shown]
        others = sum(tree.nbytes for tree in self.one_trees.values())
        return bytes_of(arrays, self._metrics, tree_tables) + self.merger.nbytes + others

    def move(self, leaves: NDArray[np.int64], maps: NDArray[np.float64]) -> None:
        """Set the maps of leaves, (k,), to maps (k, 3, 4), and update what depends on them."""
        new = kernel_input(maps)
        self._forget_trees()
        self.moves += 1
        self.moved_at[leaves] = self.moves
        self._maps[leaves] = new
        # `_near`, the prepared search for points, refers to an array of metrics. If two threads
        # computed metrics, that may be the array that was not kept, and is not updated below.
        if self._near is not None and self._near.arguments[0].metrics.base is not self._metrics:
            self._near = None
        if self._metrics is not None:
            fill_metrics(kernel_input(leaves), self.maps, self.frames, self.tree_of, self._metrics)
        self._inverses[leaves], _ = inverses(new)
        if self.tlas.update(kernel_input(leaves), self._bounded(leaves)):
            self.adopt(self.tlas.arrays._replace(primitives=self._instanced))
            # The TLAS was rebuilt in another frame, from which all transforms begin.
            leaves = np.arange(len(self), dtype=np.int64)
        self._update_transforms(leaves)

    def _forget_trees(self) -> None:
        """Drop the merged tree and the trees for winding numbers, which are over all leaves."""
        self.merger.forget()
        self.one_trees = {}

    def set_masks(self, leaves: NDArray[np.int64], masks: NDArray[np.uint32]) -> None:
        """Set the masks of leaves, (k,), to masks (k,); 0 hides a leaf."""
        self._forget_trees()
        self.seen_closed.clear()
        self._masks[leaves] = np.asarray(masks, np.uint32).view(np.int32)

    def _bounded(self, leaves: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return world boxes (k, 6) around `leaves`, k indices, under their current maps."""
        which_tree, maps = self.tree_of[leaves], self._maps[leaves]
        is_round = self.round_trees[which_tree]
        is_box = ~self._plain[which_tree] & ~is_round
        # Under a shift, a mesh's box is exactly that of its tree, moved: corners round as vertices
        # do. The boxes of shapes, such as boxes and spheres, are exact under the identity alone.
        exact = (maps[:, :, :3] == np.eye(3)).all(axis=(1, 2))
        exact &= self._plain[which_tree] | ~maps[:, :, 3].any(axis=1)
        with np.errstate(over="ignore"):
            shifted = self._boxes_of[which_tree] + np.tile(maps[:, :, 3], 2)
        # Boxes that are empty or overflow are bounded below.
        exact &= np.isfinite(shifted).all(axis=1)
        if exact.all() and not is_round.any():
            return np.asarray(shifted)
        boxes = instance_bounds(self.extents, which_tree, maps)
        if is_round.any():
            boxes[is_round] = self._grown(leaves[is_round], boxes[is_round])
        if is_box.any():
            # Instances of boxes are defined by the rounded inverses of maps (see `world_bounds`).
            rows, trees = self._inverses[leaves[is_box]], which_tree[is_box]
            boxes[is_box] = box_instance_bounds(self.extents, trees, rows, self._skews)
        boxes[exact] = shifted[exact]
        return boxes

    def _grown(self, leaves: NDArray[np.int64], boxes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `boxes` (k, 6) of k `leaves` over spheres or capsules, grown by GROWTH radii.

        The maps of such leaves may scale axes a little differently, which GROWTH covers; ValueError
        if they do by more. Their mean scales, which multiply radii, are written to the transforms.
        """
        # The last column of `_skews` is the largest radius of a tree. Scales are NaN if uneven.
        scales, radii = even_scales(self._maps[leaves]), self._skews[self.tree_of[leaves], 2]
        bad = np.flatnonzero(np.isnan(scales))
        if len(bad):
            leaf = int(leaves[bad[0]])
            kind = type(self.trees[self.tree_of[leaf]].primitives).__name__.lower()
            what = f"instance {self.owners[leaf]} leads to {kind}, whose transform in the scene"
            raise ValueError(f"{what} must be {EVEN}")
        at = leaves * instanced.TRANSFORM_SIZE + instanced.SCALE
        self._transforms[at] = scales
        with np.errstate(over="ignore"):
            growth = GROWTH * radii * scales
            return np.hstack([boxes[:, :3] - growth[:, None], boxes[:, 3:] + growth[:, None]])

    def _update_transforms(self, leaves: NDArray[np.int64]) -> None:
        """Compute the transforms from the frame of the TLAS to those of the trees of `leaves`."""
        columns = self.maps, self.inverses, self.tlas.boxes, self.arrays.frame
        trees = self.frames, self._skews, self.tree_of
        fill_transforms(kernel_input(leaves), *columns, *trees, self._transforms)
