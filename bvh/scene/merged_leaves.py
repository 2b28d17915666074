"""Merged tree of a scene: one tree over the triangles of all leaves, built where that pays.

Rays traverse one tree faster than many small ones: they are set up once, not in each leaf that they
enter. The hits are the same, because a scene is defined by its mesh. But a merged tree stores each
instance's triangles, and any move makes it outdated. So it is built only for scenes of few
triangles, and after rays have lost the time of a build (see `tree.tlas`): RAY_SECONDS a ray; times
of builds are measured.
"""

import time
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.transforms import moved
from bvh.queries.results import Hits
from bvh.runtime.arguments import shaped, thread_count
from bvh.tree.arrays import TreeArrays, bytes_of
from bvh.tree.build import build
from bvh.tree.instanced import CODE_BITS, named_codes
from bvh.tree.primitives import Triangles, arrays_of

# Most triangles or vertices, and leaves, of a merged tree, which then has some 14 MB. At that size
# it was still faster for all kinds of rays, even where all leaves shared a BLAS.
MAX_ROWS, MAX_LEAVES = 1 << 17, 1 << 12
# Time a ray that a merged tree saves: 60 to 240 ns in scenes of 50 and of 700 leaves.
RAY_SECONDS = 1e-7
# Faces smaller than this share of the scene's size often need the exact test. If more than one in
# FEW faces is, rays are faster in the leaves' local frames.
FINEST, FEW = 2.0**-14, 32
# Least time of a build, for each leaf and for each triangle.
LEAF_SECONDS, FACE_SECONDS = 5e-6, 1e-7


class Mesh(NamedTuple):
    """Leaves of a scene as one mesh in world coordinates, with the leaf and face of each face."""

    vertices: NDArray[np.float64]
    faces: NDArray[np.int32]
    leaf_id: NDArray[np.int32]
    prim_id: NDArray[np.int32]


def mesh_of_leaves(chosen: list[int], meshes: list[Triangles], maps: NDArray[np.float64]) -> Mesh:
    """Return some leaves of a scene as one mesh in world coordinates.

    `chosen` are their rows, `meshes` their local meshes, and `maps` the maps of all leaves.
    """
    vertices = np.empty((sum(len(mesh.points) for mesh in meshes), 3))
    count = sum(len(mesh.faces) for mesh in meshes)
    faces = np.empty((count, 3), np.int32)
    leaf_id, prim_id = np.empty(count, np.int32), np.empty(count, np.int32)
    at = begin = 0
    for leaf, mesh in zip(chosen, meshes, strict=True):
        end, to = begin + len(mesh.faces), at + len(mesh.points)
        faces[begin:end] = mesh.faces + np.int32(at)
        leaf_id[begin:end], prim_id[begin:end] = leaf, np.arange(end - begin)
        vertices[at:to] = moved(mesh.points, maps[leaf])
        at, begin = to, end
    return Mesh(vertices, faces, leaf_id, prim_id)


def is_coarse(mesh: Mesh) -> bool:
    """Return whether at most one in FEW faces is smaller than FINEST of the mesh's size."""
    # Halves do not overflow when they are subtracted.
    corners = [0.5 * mesh.vertices[mesh.faces[:, k]] for k in range(3)]
    sizes = np.maximum.reduce(corners) - np.minimum.reduce(corners)
    extent = np.ptp(0.5 * mesh.vertices, axis=0).max()
    small = np.count_nonzero(sizes.max(axis=1) < FINEST * extent)
    return bool(small * FEW <= len(mesh.faces))


class MergedTree(NamedTuple):
    """Tree over the mesh of a scene."""

    arrays: TreeArrays
    # The code of each face (see `instanced`), and a last row of -1, which the -1 of misses index.
    codes: NDArray[np.int64]
    owners: NDArray[np.int32]  # the instance of each leaf

    def named(self, hits: Any, threads: int = 1) -> Any:
        """Return `hits` of the tree as hits of the scene; the booleans of `any_hit` as they are."""
        if not isinstance(hits, Hits):
            return hits
        shape = np.shape(hits.t)
        rows = np.asarray(hits.prim_id, np.int32).reshape(-1)
        owner, leaf, prim = named_codes(self.codes, self.owners, threads, rows)
        prim, owner, leaf = shaped(shape, prim, owner, leaf)
        found = Hits(hits.t, prim, hits.u, hits.v, hits.front, owner, leaf)
        vars(found)["_source"] = vars(hits).get("_source")
        return found


def _can_merge(tree: TreeArrays) -> bool:
    """Return whether a tree is over triangles without hidden faces, as merged trees are."""
    hidden = (tree.face_bits == 0) & (tree.nodes.ids >= 0) if len(tree.face_bits) else False
    return isinstance(tree.primitives, Triangles) and not np.any(hidden)


class LeafMerger:
    """Merged tree of a scene, and the decision when to build it.

    Columns of leaves, those of `SceneView`, may change in place; then `forget` must be called.
    """

    # Measured time of a build divided by its `_least_seconds`, for the fastest build so far.
    slowness: ClassVar[float] = 4.0

    def __init__(
        self, trees: Sequence[TreeArrays], tree_of: NDArray[np.int32], maps: NDArray[np.float64],
        masks: NDArray[np.int32], owners: NDArray[np.int32],
    ) -> None:  # fmt: skip
        self._trees, self._tree_of, self._maps = trees, tree_of, maps
        self._masks, self._owners = masks, owners
        self._plain = all(map(_can_merge, trees))
        self.forget()

    def forget(self) -> None:
        """Drop the merged tree, after leaves have changed."""
        # Rays of all queries since then, whether a thread builds a tree, and the merged tree.
        self._rays, self._building = 0.0, False
        self._tree: MergedTree | None = None
        # The least time of a build, once computed; infinite where there are too many triangles.
        self._seconds: float | None = None
        # Replaced at each change of leaves, so that a build in progress notices it.
        self._changes = object()

    @property
    def nbytes(self) -> int:
        """Bytes of the merged tree, if there is one."""
        return bytes_of(self._tree)

    def tree_for(self, rays: int, threads: int | None) -> MergedTree | None:
        """Return the merged tree for `rays` rays; None if it does not pay, or is being built."""
        if self._tree is not None:
            return self._tree
        count = len(self._tree_of)
        if not (self._plain and 0 < count <= MAX_LEAVES) or self._building:
            return None
        self._rays += rays
        # The seconds that these rays would have saved in a merged tree, against those of its build.
        saved = self._rays * RAY_SECONDS
        if saved <= self.slowness * LEAF_SECONDS * count:
            return None
        if self._seconds is None:
            self._seconds = self._least_seconds()
        if saved <= self.slowness * self._seconds:
            return None
        # Meanwhile, queries of other threads search the instances.
        self._building = True
        try:
            return self._build(self._seconds, thread_count(threads))
        finally:
            self._building = False

    def _visible(self) -> list[int]:
        return np.flatnonzero(self._masks).tolist()

    def _least_seconds(self) -> float:
        """Return the least time of a build; infinite for no triangles, or too many."""
        sizes = np.array([[*map(len, arrays_of(tree.primitives))] for tree in self._trees])
        which = self._tree_of[self._visible()]
        points, faces = sizes[which].sum(axis=0).tolist() if len(which) else (0, 0)
        if not 0 < faces <= MAX_ROWS or points > MAX_ROWS:
            return float(np.inf)
        return LEAF_SECONDS * len(which) + FACE_SECONDS * faces

    def _build(self, least: float, threads: int) -> MergedTree | None:
        """Build the merged tree; None if faces are too small, or leaves change meanwhile."""
        changes, began = self._changes, time.perf_counter()
        visible = self._visible()
        meshes: list[Any] = [self._trees[self._tree_of[leaf]].primitives for leaf in visible]
        mesh = mesh_of_leaves(visible, meshes, self._maps)
        if not is_coarse(mesh):
            self._seconds = float(np.inf)
            return None
        arrays, _ = build(Triangles(mesh.vertices, mesh.faces), "medium", threads, None)
        codes = np.append(mesh.leaf_id.astype(np.int64) << CODE_BITS | mesh.prim_id, -1)
        tree = MergedTree(arrays, codes, self._owners.copy())
        # The minimum, because the first build may have included compiling kernels.
        spent = time.perf_counter() - began
        LeafMerger.slowness = min(LeafMerger.slowness, spent / least)
        if changes is not self._changes:
            # Leaves have changed meanwhile.
            return None
        self._tree = tree
        return tree
