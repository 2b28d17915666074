"""Point queries of a scene: as of a tree, with a mask, and with the instance that is closest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bvh.io.trimesh_scenes import Attributes
from bvh.queries import containment, point_queries
from bvh.queries.batches import point_batches
from bvh.queries.hierarchy import BVH
from bvh.queries.point_arguments import point_batch
from bvh.queries.results import SceneClosestPoints
from bvh.queries.targets import Target
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import ALL_BITS, bit_masks
from bvh.runtime.changes import changes
from bvh.runtime.jit import warms
from bvh.runtime.progress_bars import ProgressLike
from bvh.scene.content import SceneContent
from bvh.scene.instanced_trees import InstancedTrees
from bvh.scene.instances import Instances


class ScenePoints(SceneContent):
    """Point queries of a scene."""

    __slots__ = ("_wound",)

    # The scene as one tree, for winding numbers, by the mask and whether reflected faces are turned
    # back; and the number of changes when it was built.
    _wound: tuple[int, dict[tuple[int, bool], BVH]]

    def _begin(self, table: Instances, attributes: dict[int, tuple[TreeBase, Attributes]]) -> None:
        super()._begin(table, attributes)
        self._wound = -1, {}

    def closest_point(
        self,
        points: ArrayLike,
        max_distance: ArrayLike = np.inf,
        *,
        k: int | None = None,
        mask: int = ALL_BITS,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> SceneClosestPoints:
        """Find the closest point of all instances for each point.

        The same point as of the mesh that `flattened` returns, bit for bit; of equal distances, the
        leaf that comes first, which has the lowest instance_id, and there the lowest prim_id.
        Nothing is flattened: a scene of any number of instances takes no more memory.

        Parameters
        ----------
        points, max_distance, k, threads, progress
            As in `BVH.closest_point`, in the scene's coordinates.
        mask : int
            32 bits; leaves whose mask shares none of them are ignored, and those that are not
            visible.

        Returns
        -------
        SceneClosestPoints
            With `instance_id` and `leaf`.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape or type, or an instance that counts is not over
            triangles.

        Notes
        -----
        Leaves are discarded by distances in the world, whatever their maps: scaling along the axes
        of a tree, rotation and reflection cost nothing; shear makes its boxes seem nearer than they
        are, by the root of the least eigenvalue of the cosines between the map's columns.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> scene = bvh.Scene()
        >>> scene.add(tree), scene.add(tree, np.diag([4.0, 4.0, 4.0, 1.0]))
        (0, 1)
        >>> near = scene.closest_point([2.0, 1.0, 0.5])
        >>> near.distance, near.instance_id, near.u, near.v
        (0.5, 1, 0.5, 0.25)
        """
        target = self._point_target("closest_point", mask, measured=True)
        found: SceneClosestPoints = point_queries.closest_point(
            target, points, max_distance, k, threads, progress
        )
        return found

    def distance(
        self,
        points: ArrayLike,
        max_distance: ArrayLike = np.inf,
        *,
        mask: int = ALL_BITS,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Return the distance of each point from the nearest instance, as `closest_point` has it.

        Parameters
        ----------
        points, max_distance, mask, threads, progress
            As in `closest_point`.

        Returns
        -------
        ndarray of float64 or float, shape (...)
            +inf for points that miss.
        """
        target = self._point_target("distance", mask, measured=True)
        return point_queries.distance(target, points, max_distance, threads, progress)

    def signed_distance(
        self,
        points: ArrayLike,
        *,
        mask: int = ALL_BITS,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Return the distance of each point from the nearest surface, negative inside.

        The sign is that of `contains`; points on a surface have 0.0. Where instances overlap, the
        distance is still that from the nearest surface, even if it is within another instance.

        Parameters
        ----------
        points, mask, threads, progress
            As in `closest_point`.

        Returns
        -------
        ndarray of float64 or float, shape (...)
            +inf for points that are not finite, or if there is no surface.
        """
        target = self._point_target("signed_distance", mask, measured=True)
        return point_queries.signed_distance(target, points, threads, progress)

    def contains(
        self,
        points: ArrayLike,
        *,
        method: str = "parity",
        mask: int = ALL_BITS,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Return for each point whether it is inside at least one leaf: in the union of all.

        Parameters
        ----------
        points : array_like, shape (..., 3)
            Points that are not finite are outside.
        method : {"parity", "winding"}
            "parity" counts for each leaf how often a ray from the point crosses it: right for
            leaves that are closed, each by itself, however their faces are turned, and however they
            overlap; a point on a face, one with an area, is inside. "winding" tests whether the
            winding numbers of all leaves together exceed a half, the faces of reflected ones turned
            back: for meshes with holes and gaps, and those that are closed only together.
        mask, threads, progress
            As in `closest_point`.

        Returns
        -------
        ndarray of bool or bool, shape (...)

        Raises
        ------
        ValueError, TypeError
            As for `closest_point`.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
        >>> tree = bvh.BVH.from_triangles(vertices, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
        >>> scene = bvh.Scene()
        >>> scene.add(tree), scene.add(tree, np.diag([2.0, 2.0, 2.0, 1.0]))
        (0, 1)
        >>> scene.contains([[0.1, 0.1, 0.1], [0.5, 0.5, 0.5], [1.0, 1.0, 1.0]])
        array([ True,  True, False])
        """
        winding = point_queries.by_winding(method)
        target = self._point_target("contains", mask)
        if not winding:
            return point_queries.contains(target, points, threads, progress)
        tree = self._as_one_tree(target.mask, turned=True)
        return tree.winding_number(points, threads=threads, progress=progress) > 0.5

    def winding_number(
        self,
        points: ArrayLike,
        accuracy: float = 2.0,
        *,
        mask: int = ALL_BITS,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Return how often the surfaces of all instances together wind around each point.

        The sum over the leaves, as of the mesh that `flattened` returns: 2 where two closed ones
        overlap, and -1 in one that is reflected, whose faces are turned over.

        Parameters
        ----------
        points, accuracy
            As in `BVH.winding_number`.
        mask, threads, progress
            As in `closest_point`.

        Returns
        -------
        ndarray of float64 or float, shape (...)
            As from `BVH.winding_number`.

        Notes
        -----
        Solid angles change under affine maps, so this query alone flattens the scene: a tree of
        the whole is built by the first one and kept until the scene changes.
        """
        target = self._point_target("winding_number", mask)
        tree = self._as_one_tree(target.mask, turned=False)
        return tree.winding_number(points, accuracy, threads=threads, progress=progress)

    def _point_target(self, query: str, mask: int, measured: bool = False) -> Target:
        """Return what kernels work on, if all leaves that the mask chooses are over triangles.

        Where distances are `measured`, it has what that needs.
        """
        bits = bit_masks("mask", mask)
        if bits.ndim:
            raise ValueError(f"mask must be one number, got an array of shape {bits.shape}")
        signed = int(bits.view(np.int32))
        view = self._current()
        solid = None if view.plain else view.first_not_triangles(signed)
        if solid is not None:
            leaf, kind = solid
            raise TypeError(
                f"{query} needs instances over triangles, and instance {view.owner(leaf)} is "
                f"over {kind}"
            )
        metrics = view.metrics if measured else None
        return Target(view.arrays, view.split, view, signed, metrics)

    def _as_one_tree(self, bits: int, turned: bool) -> BVH:
        """Return the flattened scene as a tree, with the faces of reflected leaves turned back."""
        now, key = changes.count, (bits, turned)
        seen, kept = self._wound
        tree = kept.get(key)
        if tree is not None and seen == now:
            return tree
        vertices, faces, leaf_id, _ = self.flattened(bits & ALL_BITS)
        if turned:
            flipped = self._current().flipped[leaf_id]
            faces[flipped] = faces[flipped][:, ::-1]
        # What has changed in the process may have been another scene.
        if (
            tree is None
            or not np.array_equal(tree.vertices, vertices, equal_nan=True)
            or not np.array_equal(tree.faces, faces)
        ):
            tree = BVH.from_triangles(vertices, faces)
        self._wound = now, (kept if seen == now else {}) | {key: tree}
        return tree


@warms("point queries of scenes")
def _warm() -> None:
    """Compile what points ask of scenes."""
    points, faces = np.eye(3), np.arange(3, dtype=np.int32).reshape(1, 3)
    tree = BVH.from_triangles(points, faces)
    view = InstancedTrees(
        [tree], np.zeros(1, np.int32), np.eye(4)[None, :3], np.ones(1, np.uint32),
        np.zeros(1, np.int32),
    )  # fmt: skip
    batch = point_batch(np.zeros((1, 3)))
    target = Target(view.arrays, mask=-1, metrics=view.metrics)
    for count in (None, 1):
        point_batches.find_closest(target, batch, count, 1, None)
    containment.inside(Target(view.arrays, owner=view), batch.points, 1)
