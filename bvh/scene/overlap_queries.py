"""Overlap queries of a scene: faces that overlap a region, pairs of faces that meet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.queries.batches.overlap_batches import find_overlaps
from bvh.queries.overlap_queries import (
    affine_matrix,
    box_regions,
    plane_regions,
    sphere_regions,
)
from bvh.queries.overlap_results import SceneOverlaps, ScenePairs
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import thread_count
from bvh.runtime.progress_bars import ProgressLike, heard
from bvh.scene.content import SceneContent
from bvh.scene.instance_pairs import find_leaf_pairs, search_of_scene
from bvh.scene.instanced_trees import InstancedTrees
from bvh.traversal.overlaps.regions import Regions
from bvh.tree.instanced import hit_codes
from bvh.tree.primitives import Triangles


class SceneOverlapQueries(SceneContent):
    """Overlap queries of a scene. All sets are closed: what touches, overlaps.

    Leaves that are not visible, or whose mask is 0, are ignored; all others must be over triangles.
    """

    __slots__ = ()

    def overlap_box(
        self,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> SceneOverlaps:
        """Find the faces that have a point in common with an axis-aligned box of the world.

        The same as in the mesh that `flattened` returns, decided exactly on its vertices. Instances
        are not flattened for it.

        Parameters
        ----------
        lower, upper, threads, progress
            As in `BVH.overlap_box`, in the scene's coordinates.

        Returns
        -------
        SceneOverlaps
            The faces of each box, with instance_id and leaf, as from `BVH.overlap_box`.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape or type, or an instance leads to a tree over
            anything but triangles; the message names it.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> scene = bvh.Scene()
        >>> lifted = np.eye(4)
        >>> lifted[2, 3] = 2.0
        >>> scene.add(tree), scene.add(tree, lifted)
        (0, 1)
        >>> found = scene.overlap_box([0, 0, 1], [1, 1, 2])
        >>> found.instance_id, found.prim_id
        (array([1], dtype=int32), array([0], dtype=int32))
        """
        view = self._for_triangles("overlap_box")
        regions, shape = box_regions(lower, upper, view.bounds)
        return _overlaps(view, regions, shape, threads, progress)

    def overlap_sphere(
        self,
        center: ArrayLike,
        radius: ArrayLike,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> SceneOverlaps:
        """Find the faces that overlap a ball of the world.

        Parameters
        ----------
        center, radius, threads, progress
            As in `BVH.overlap_sphere`, in the scene's coordinates.

        Returns
        -------
        SceneOverlaps
            As in `overlap_box`.

        Raises
        ------
        ValueError, TypeError
            As in `overlap_box`.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> scene = bvh.Scene()
        >>> ids = scene.add_many(tree, [np.eye(4), np.diag([8.0, 8.0, 8.0, 1.0])])
        >>> scene.overlap_sphere([[0, 0, 1], [4, 4, 1]], 1).leaf
        array([0, 1, 1], dtype=int32)
        """
        view = self._for_triangles("overlap_sphere")
        regions, shape = sphere_regions(center, radius)
        return _overlaps(view, regions, shape, threads, progress)

    def overlap_frustum(
        self,
        planes: ArrayLike,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> SceneOverlaps:
        """Find the faces that overlap a convex polytope of the world, such as a view frustum.

        Nodes of trees that are surely inside the polytope are taken whole.

        Parameters
        ----------
        planes, threads, progress
            As in `BVH.overlap_frustum`, in the scene's coordinates.

        Returns
        -------
        SceneOverlaps
            As in `overlap_box`.

        Raises
        ------
        ValueError, TypeError
            As in `overlap_box`.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> scene = bvh.Scene()
        >>> ids = scene.add_many(tree, [np.eye(4), np.diag([8.0, 8.0, 8.0, 1.0])])
        >>> scene.overlap_frustum([[1, 0, 0, -2]])
        SceneOverlaps(1 faces)
        """
        view = self._for_triangles("overlap_frustum")
        regions, shape = plane_regions(planes)
        return _overlaps(view, regions, shape, threads, progress)

    def overlap_tree(
        self,
        other: Any,
        transform: ArrayLike | None = None,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> ScenePairs:
        """Find all pairs of faces, one of this scene and one of a tree or another scene, that meet.

        The same pairs as of the meshes that `flattened` returns, decided exactly on their vertices;
        nothing is flattened. The list is complete.

        Parameters
        ----------
        other : BVH or Scene
            Over triangles.
        transform, threads, progress
            As in `BVH.overlap_tree`: the transform moves the vertices of `other`, those of a scene
            from their positions in its own scene.

        Returns
        -------
        ScenePairs
            The own face comes first in each pair.

        Raises
        ------
        TypeError
            If one of both is not over triangles.
        ValueError
            If the transform is not an affine matrix of finite numbers.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> a = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> b = bvh.BVH.from_triangles([[0, 0, 0], [0, 0, 1], [1, 0, 1]], [[0, 1, 2]])
        >>> scene = bvh.Scene()
        >>> ids = scene.add_many(a, [np.eye(4), np.diag([1.0, -1.0, 1.0, 1.0])])
        >>> scene.overlap_tree(b).leaf.tolist()
        [[0, -1], [1, -1]]
        """
        view = self._for_triangles("overlap_tree")
        content: InstancedTrees | TreeBase
        if isinstance(other, SceneOverlapQueries):
            content = other._for_triangles("overlap_tree")
        elif isinstance(other, TreeBase):
            other._must_hold("overlap_tree", Triangles)
            content = other
        else:
            raise TypeError(f"other must be a BVH or a Scene, got {type(other).__name__}")
        matrix = None if transform is None else affine_matrix(transform)
        workers = thread_count(threads)
        with heard(progress) as report:
            codes = find_leaf_pairs(view, content, matrix, False, workers, report)
        return _pairs(view, content, *codes)

    def self_overlaps(
        self, *, threads: int | None = None, progress: ProgressLike | None = None
    ) -> ScenePairs:
        """Find all pairs of faces that meet elsewhere than in the vertices or edge they share.

        Faces of one instance and of two, by the rules of `BVH.self_overlaps`: the same pairs as in
        the mesh that `flattened` returns. Vertices of two instances are shared where their moved
        coordinates are equal.

        Parameters
        ----------
        threads, progress
            As in `BVH.overlap_tree`.

        Returns
        -------
        ScenePairs
            Of each pair, the face of the lower leaf, then prim_id, comes first.

        Raises
        ------
        TypeError
            If an instance leads to a tree over anything but triangles; the message names it.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> a = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> scene = bvh.Scene()
        >>> ids = scene.add_many(a, [np.eye(4), np.diag([2.0, 2.0, 1.0, 1.0]), np.eye(4)])
        >>> scene.self_overlaps().instance_id.tolist()
        [[0, 1], [0, 2], [1, 2]]
        """
        view = self._for_triangles("self_overlaps")
        workers = thread_count(threads)
        with heard(progress) as report:
            codes = find_leaf_pairs(view, view, None, True, workers, report)
        return _pairs(view, view, *codes)

    def _for_triangles(self, question: str) -> InstancedTrees:
        """Return what kernels work on, if all that counts is over triangles."""
        view = self._current()
        other = np.array([not isinstance(tree.primitives, Triangles) for tree in view.trees])
        if other.any():
            bad = np.flatnonzero(other[view.tree_of] & (view.masks != 0))
            if len(bad):
                kind = type(view.trees[view.tree_of[bad[0]]].primitives).__name__.lower()
                path = self.path(int(bad[0]))
                raise TypeError(f"{question} needs triangles; instance {path} leads to {kind}")
        return view


def _overlaps(
    view: InstancedTrees, regions: Regions, shape: tuple[int, ...], threads: int | None,
    progress: ProgressLike | None,
) -> SceneOverlaps:  # fmt: skip
    offsets, codes = find_overlaps(search_of_scene(view), regions, shape, threads, progress)
    leaf, prim = hit_codes(codes)
    return SceneOverlaps(prim, offsets, shape, view.owners[leaf], leaf)


def _pairs(
    view: InstancedTrees,
    content: InstancedTrees | TreeBase,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> ScenePairs:
    """Return pairs of codes as pairs of faces."""
    (leaf, prim), (leaf2, prim2) = hit_codes(first), hit_codes(second)
    owner = view.owners[leaf]
    if isinstance(content, InstancedTrees):
        owner2 = content.owners[leaf2]
    else:
        leaf2 = owner2 = np.full(len(second), -1, np.int32)
    return ScenePairs(
        np.stack([owner, owner2], axis=1),
        np.stack([leaf, leaf2], axis=1),
        np.stack([prim, prim2], axis=1),
    )
