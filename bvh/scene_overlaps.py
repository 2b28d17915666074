"""What else a scene is asked: which faces meet a region, another scene, or each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.arguments import thread_count
from bvh.hierarchy import Hierarchy
from bvh.leaf_pairs import find_leaf_pairs
from bvh.overlap_queries import affine_matrix, box_regions, plane_regions, sphere_regions
from bvh.placed import hit_codes
from bvh.primitives import Triangles
from bvh.progress_bars import ProgressLike, heard
from bvh.scene_content import SceneContent
from bvh.scene_searches import find_in_scene
from bvh.traversal.region_reach import Regions
from bvh.two_level import TwoLevel

Ids = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class SceneOverlaps:
    """What each query of a batch meets in a scene.

    Query i, counted along the batch's leading shape, meets what stands at
    ``offsets[i] : offsets[i + 1]``, which is also ``overlaps[i]``.

    Attributes
    ----------
    instance_id : ndarray of int32, shape (m,)
        The instance that each face is of, by its id in the scene that was asked.
    leaf : ndarray of int32, shape (m,)
        Its row of `Scene.leaves`; ascending within each query.
    prim_id : ndarray of int32, shape (m,)
        Its number in the leaf's tree; ascending within each leaf, each once.
    offsets : ndarray of int64, shape (n + 1,)
        Where each query's part begins; the last is m.
    shape : tuple of int
        Leading shape of the batch; () for a single query.
    """

    instance_id: Ids
    leaf: Ids
    prim_id: Ids
    offsets: NDArray[np.int64]
    shape: tuple[int, ...]

    @property
    def query_id(self) -> NDArray[np.int64]:
        """The query of each face, counted flat, shape (m,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @property
    def counts(self) -> Any:
        """How many faces each query meets, with the batch's leading shape; an int for one query."""
        counts = np.diff(self.offsets)
        return counts.reshape(self.shape) if self.shape else int(counts[0])

    def __len__(self) -> int:
        """Return the number of queries, 1 for a single one."""
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> SceneOverlaps:
        """Return what one query meets."""
        i = range(len(self))[index]
        part = slice(*self.offsets[i : i + 2].tolist())
        offsets = self.offsets[i : i + 2] - self.offsets[i]
        return SceneOverlaps(
            self.instance_id[part], self.leaf[part], self.prim_id[part], offsets, ()
        )

    def __repr__(self) -> str:
        met = int(np.count_nonzero(self.counts))
        return f"SceneOverlaps({met} of {len(self)} queries meet {len(self.prim_id)} faces)"


@dataclass(frozen=True, eq=False, repr=False)
class ScenePairs:
    """Pairs of faces that meet, ascending by the first's leaf and prim_id, then the second's.

    Attributes
    ----------
    instance_id : ndarray of int32, shape (m, 2)
        The instance that each face is of; -1 for faces of a tree.
    leaf : ndarray of int32, shape (m, 2)
        The row of its scene's `leaves`; -1 for faces of a tree.
    prim_id : ndarray of int32, shape (m, 2)
        Its number in the leaf's tree.
    """

    instance_id: Ids
    leaf: Ids
    prim_id: Ids

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.prim_id)

    def __repr__(self) -> str:
        return f"ScenePairs({len(self)} pairs of faces)"


class SceneOverlapQueries(SceneContent):
    """The questions of overlap that scenes are asked.

    All sets are closed: what touches, overlaps. Leaves that are not visible, or whose mask is 0, do
    not count; all others must be over triangles.
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
            What each box meets, with instance_id and leaf; a single box is a batch of shape ().

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
        return _found(view, regions, shape, threads, progress)

    def overlap_sphere(
        self,
        center: ArrayLike,
        radius: ArrayLike,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> SceneOverlaps:
        """Find the faces that come as near to a point of the world as a radius.

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
        return _found(view, regions, shape, threads, progress)

    def overlap_frustum(
        self,
        planes: ArrayLike,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> SceneOverlaps:
        """Find the faces that have a point in a convex polytope of the world, such as a frustum.

        Nodes of trees that surely lie in the polytope are taken whole.

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
        SceneOverlaps(1 of 1 queries meet 1 faces)
        """
        view = self._for_triangles("overlap_frustum")
        regions, shape = plane_regions(planes)
        return _found(view, regions, shape, threads, progress)

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
            from where its own instances have brought them.

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
        content: TwoLevel | Hierarchy
        if isinstance(other, SceneOverlapQueries):
            content = other._for_triangles("overlap_tree")
        elif isinstance(other, Hierarchy):
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

    def _for_triangles(self, question: str) -> TwoLevel:
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


def _found(
    view: TwoLevel,
    regions: Regions,
    shape: tuple[int, ...],
    threads: int | None,
    progress: ProgressLike | None,
) -> SceneOverlaps:
    """Return what regions meet."""
    workers = 1 if shape == () and threads is None else thread_count(threads)
    with heard(progress) as report:
        offsets, codes = find_in_scene(view, regions, math.prod(shape), workers, report)
    leaf, prim = hit_codes(codes)
    return SceneOverlaps(view.owners[leaf], leaf, prim, offsets, shape)


def _pairs(
    view: TwoLevel,
    content: TwoLevel | Hierarchy,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> ScenePairs:
    """Return pairs of codes as pairs of faces."""
    (leaf, prim), (leaf2, prim2) = hit_codes(first), hit_codes(second)
    owner = view.owners[leaf]
    if isinstance(content, TwoLevel):
        owner2 = content.owners[leaf2]
    else:
        leaf2 = owner2 = np.full(len(second), -1, np.int32)
    return ScenePairs(
        np.stack([owner, owner2], axis=1),
        np.stack([leaf, leaf2], axis=1),
        np.stack([prim, prim2], axis=1),
    )
