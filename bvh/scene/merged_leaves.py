"""Merged tree of a scene: one tree over the triangles of all leaves, built where that pays.

Rays traverse one tree faster than many small ones: they are set up once, not in each leaf that they
enter. The hits are the same, because a scene is defined by its mesh. But a merged tree stores each
instance's triangles, and any move makes it outdated. So it is built only for scenes of few
triangles, and only once rays without it have lost as much time as a build takes (`tree.tlas` says
why). A ray loses RAY_SECONDS; the time of a build follows from those of earlier builds.
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

# Largest number of triangles or vertices, and of leaves, of a merged tree, which then has some
# 14 MB. At that size it was still faster for all kinds of rays, even where all leaves shared a
# BLAS.
MAX_ROWS, MAX_LEAVES = 1 << 17, 1 << 12
# Time that a merged tree saves for each ray: 60 to 240 ns in scenes of 50 and of 700 leaves.
RAY_SECONDS = 1e-7
# Faces smaller than this share of the scene's size often need the exact test. If more than one in
# FEW faces is so small, rays are faster in the leaves' own frames.
FINEST, FEW = 2.0**-14, 32
# Least time of a build, for each leaf and for each triangle.
LEAF_SECONDS, FACE_SECONDS = 5e-6, 1e-7


class Mesh(NamedTuple):
    """Leaves of a scene as one mesh in world coordinates."""

    vertices: NDArray[np.float64]  # (n, 3)
    faces: NDArray[np.int32]  # (m, 3)
    leaf_id: NDArray[np.int32]  # (m,): the leaf of each face
    prim_id: NDArray[np.int32]  # (m,): the face in the tree of its leaf


def mesh_of_leaves(leaves: list[int], meshes: list[Triangles], maps: NDArray[np.float64]) -> Mesh:
    """Return leaves of a scene as one mesh in world coordinates.

    `leaves` are k indices, `meshes` the k meshes of these leaves in local coordinates, and `maps`,
    (n, 3, 4), the maps of all n leaves of the scene.
    """
    face_counts = [len(mesh.faces) for mesh in meshes]
    firsts = np.cumsum([0, *(len(mesh.points) for mesh in meshes)])
    vertices, faces = np.empty((firsts[-1], 3)), np.empty((sum(face_counts), 3), np.int32)
    end = 0
    for leaf, mesh, first in zip(leaves, meshes, firsts[:-1], strict=True):
        begin, end = end, end + len(mesh.faces)
        vertices[first : first + len(mesh.points)] = moved(mesh.points, maps[leaf])
        faces[begin:end] = mesh.faces + np.int32(first)
    leaf_id = np.repeat(np.array(leaves, np.int32), face_counts)
    prim_id = [np.arange(count, dtype=np.int32) for count in face_counts]
    return Mesh(vertices, faces, leaf_id, np.concatenate([np.empty(0, np.int32), *prim_id]))


def is_coarse(mesh: Mesh) -> bool:
    """Return whether at most one in FEW faces is smaller than FINEST times the mesh's size.

    Sizes are the longest sides of boxes. At smaller faces rays often need the exact test, which
    makes a merged tree slow.
    """
    # Halves of coordinates, as the difference of two doubles may overflow.
    corners = [0.5 * mesh.vertices[mesh.faces[:, k]] for k in range(3)]
    sizes = np.maximum.reduce(corners) - np.minimum.reduce(corners)
    extent = np.ptp(0.5 * mesh.vertices, axis=0).max()
    small = np.count_nonzero(sizes.max(axis=1) < FINEST * extent)
    return bool(small * FEW <= len(mesh.faces))


class MergedTree(NamedTuple):
    """Tree over the mesh of all visible leaves of a scene (see `Mesh`)."""

    arrays: TreeArrays
    codes: NDArray[np.int64]  # the leaf << CODE_BITS | prim_id of each face, and a last -1
    owners: NDArray[np.int32]  # the instance of each leaf

    def named(self, hits: Hits, threads: int = 1) -> Hits:
        """Return hits in the merged tree as hits of the scene, with leaves, instances and faces."""
        shape = np.shape(hits.t)
        rows = np.asarray(hits.prim_id, np.int32).reshape(-1)
        owner, leaf, prim = named_codes(self.codes, self.owners, threads, rows)
        prim, owner, leaf = shaped(shape, prim, owner, leaf)
        of_scene = Hits(hits.t, prim, hits.u, hits.v, hits.front, owner, leaf)
        # Positions and normals are computed from `_source`, which is the scene for `hits`, too.
        vars(of_scene)["_source"] = vars(hits).get("_source")
        return of_scene


def _can_merge(tree: TreeArrays) -> bool:
    """Return whether a tree is over triangles, none of which is hidden by its group bits."""
    # Row by row of leaves, `ids` has the face in each lane, -1 for none, and `face_bits` its group
    # bits: 0 hides the face.
    hidden = (tree.face_bits == 0) & (tree.nodes.ids >= 0) if len(tree.face_bits) else False
    return isinstance(tree.primitives, Triangles) and not np.any(hidden)


class LeafMerger:
    """Merged tree of a scene, and the decision when to build it."""

    # Measured time of a build divided by its `_least_seconds`: the least of all builds, at most 4.
    slowness: ClassVar[float] = 4.0

    def __init__(
        self, trees: Sequence[TreeArrays], tree_of: NDArray[np.int32], maps: NDArray[np.float64],
        masks: NDArray[np.int32], owners: NDArray[np.int32],
    ) -> None:  # fmt: skip
        """Take the arrays of a `SceneView`: leaf i has trees[tree_of[i]], maps[i], masks[i], ...

        A mask is 0 for a hidden leaf; `owners` are ids of instances. Maps and masks may change in
        place; then `forget` must be called.
        """
        self._trees, self._tree_of, self._maps = trees, tree_of, maps
        self._masks, self._owners = masks, owners
        self._mergeable = all(map(_can_merge, trees))
        self.forget()

    def forget(self) -> None:
        """Drop the merged tree, after leaves have changed."""
        self._tree: MergedTree | None = None
        # Rays of all queries since the change, and whether a thread builds a tree.
        self._rays, self._building = 0.0, False
        # The least time of a build, once computed; infinite where none is worth it.
        self._seconds: float | None = None
        # Replaced here, so that a build in progress notices the change.
        self._changes = object()

    @property
    def nbytes(self) -> int:
        """Bytes of the merged tree, if there is one."""
        return bytes_of(self._tree)

    def tree_for(self, rays: int, threads: int | None) -> MergedTree | None:
        """Return the merged tree for `rays` rays; None if it does not pay, or is being built.

        The rays of all calls count: once they would have saved the time of a build, it is built by
        `threads` threads, None for the default.
        """
        if self._tree is not None:
            return self._tree
        count = len(self._tree_of)
        if not (self._mergeable and 0 < count <= MAX_LEAVES) or self._building:
            return None
        self._rays += rays
        # A build takes `slowness` times its least time. The time for the leaves alone, which needs
        # no count of faces, rules out most calls.
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
        """Return the leaves whose mask is not 0."""
        return np.flatnonzero(self._masks).tolist()

    def _least_seconds(self) -> float:
        """Return the least time of a build in seconds; infinite for no triangles, or too many."""
        # Rows are (vertices, faces) of each tree.
        sizes = np.array([[*map(len, arrays_of(tree.primitives))] for tree in self._trees])
        trees = self._tree_of[self._visible()]
        points, faces = sizes[trees].sum(axis=0).tolist() if len(trees) else (0, 0)
        if not 0 < faces <= MAX_ROWS or points > MAX_ROWS:
            return float(np.inf)
        return LEAF_SECONDS * len(trees) + FACE_SECONDS * faces

    def _build(self, least: float, threads: int) -> MergedTree | None:
        """Build the merged tree; None if faces are too small, or leaves change meanwhile.

        `least` is the result of `_least_seconds`, with which the measured time is compared.
        """
        # `forget` replaces `_changes`.
        changes, began = self._changes, time.perf_counter()
        visible = self._visible()
        meshes: list[Any] = [self._trees[self._tree_of[leaf]].primitives for leaf in visible]
        mesh = mesh_of_leaves(visible, meshes, self._maps)
        if not is_coarse(mesh):
            self._seconds = float(np.inf)
            return None
        arrays, _ = build(Triangles(mesh.vertices, mesh.faces), "medium", threads, None)
        # The last code, -1, is that of misses: they have the prim_id -1, which indexes it.
        codes = np.append(mesh.leaf_id.astype(np.int64) << CODE_BITS | mesh.prim_id, -1)
        tree = MergedTree(arrays, codes, self._owners.copy())
        # The minimum, because the first build may have included compiling kernels.
        spent = time.perf_counter() - began
        LeafMerger.slowness = min(LeafMerger.slowness, spent / least)
        if changes is not self._changes:
            return None
        self._tree = tree
        return tree
