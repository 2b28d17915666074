"""`BVH.distance_to`: the distance between the meshes of two trees."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.queries.answers.clearances import Clearances
from bvh.queries.query_arguments import affine_matrices, flat_rows, with_progress
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import common_shape, integers, lengths, shaped, thread_count
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.progress_bars import ProgressLike
from bvh.runtime.registry import enrolled
from bvh.tree.primitives import Triangles, count_of
from bvh.tree.shapes import HOLLOW, Capsules, Spheres

if TYPE_CHECKING:
    from bvh.tree.arrays import TreeArrays


class DistanceQueries(TreeBase):
    """The distance between two trees."""

    __slots__ = ()

    # Constructor of `BVH`.
    from_mesh: Callable[[Any], TreeBase]

    def distance_to(
        self, other: Any, transform: ArrayLike | None = None, *,
        max_distance: ArrayLike = math.inf, hint: Clearances | ArrayLike | None = None,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Clearances:  # fmt: skip
        """Find the distance between this mesh and another, and where they are nearest.

        The distance is 0 exactly where the meshes touch, which is decided exactly for the vertices
        (see `overlap_tree`), and otherwise within 2 units in the last place of the real distance;
        a distance too large or too small for a double is the largest or the smallest positive one.
        Both trees are searched together, nearest pairs of boxes first (Larsen, Gottschalk, Lin,
        Manocha 1999, "Fast proximity queries with swept sphere volumes").

        Parameters
        ----------
        other : BVH, Scene or mesh
            Over triangles, spheres or capsules. A mesh is anything that `from_mesh` takes, and is
            built into a tree in each call; so is a scene, which must be over triangles, as its
            `flattened` mesh, whose faces `prim_id` then numbers.
        transform : array_like, shape (..., 4, 4), optional
            Finite affine matrices that map `other` to this tree's world, one a query. Vertices
            are computed in float64, x' = ((m00 x + m01 y) + m02 z) + m03, and the answer is about
            these; faces whose vertices are not finite, or overflow, are ignored. If either
            tree is over spheres or capsules, they must be invertible, and move the tree as an
            instance of a scene.
        max_distance : array_like, shape (...)
            Meshes farther apart are a miss; broadcast against the transforms. A single number must
            be at least 0; in an array, entries that are negative or NaN are misses.
        hint : Clearances or array_like of int, shape (..., 2), optional
            An earlier result for the same trees, such as the last one of a moving pair, or pairs of
            faces; -1 for none. It saves time, and changes nothing else.
        threads, progress
            Number of threads, and callback or bar, as in `closest_hit`; progress is in transforms.

        Returns
        -------
        Clearances
            Distance, positions and faces for each transform; a float and small arrays for one.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> a = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> lifted = np.eye(4)
        >>> lifted[:3, 3] = 0.25, 0.25, 2.0
        >>> found = a.distance_to(a, lifted)
        >>> found.distance
        2.0
        >>> found.prim_id
        array([0, 0], dtype=int32)
        >>> a.distance_to(a, [np.eye(4), lifted], max_distance=1.5, hint=found.prim_id).distance
        array([ 0., inf])
        """
        from bvh.queries.batches.distance_batches import find_closest_pairs, quick_distance

        other = self._tree_of(other)
        if has_shapes("distance_to", self, other):
            if is_other(transform, max_distance, hint):
                return foreign_answer(self.distance_to, locals())
            measure: Any = enrolled("distances of round trees")
            pair = self._snapshot(), other._snapshot()
            options: Any = transform, max_distance, hint, threads, progress
            return measure(*pair, *options)  # type: ignore[no-any-return]
        other = self._other_tree("distance_to", other)
        arrays = self._shown_arrays()
        others = arrays if other is self else other._shown_arrays()
        has_hidden = len(self._arrays.face_bits) or len(other._arrays.face_bits)
        valid_threads = threads is None or (type(threads) is int and threads > 0)
        # The quick call does not check whether hints are hidden faces.
        if progress is None and valid_threads and not has_hidden:
            near = quick_distance(arrays, others, transform, max_distance, hint)
            if near is not None:
                return near
        if is_other(transform, max_distance, hint):
            return foreign_answer(self.distance_to, locals())
        moves = None if transform is None else affine_matrices(transform)
        limits, pairs = lengths("max_distance", max_distance), hint_pairs(hint, arrays, others)
        pairs = self._shown_pairs(other, pairs)
        shape = common_shape(
            transform=() if moves is None else moves.shape[:-2], max_distance=limits.shape,
            hint=pairs.shape,
        )  # fmt: skip
        count, workers = math.prod(shape), thread_count(threads)
        if moves is not None and moves.shape[:-2] != shape:
            moves = np.broadcast_to(moves, (*shape, 4, 4))
        limits, pairs = flat_rows(limits, shape), flat_rows(pairs, shape)
        given = arrays, others, moves, limits, pairs, count, workers
        found = with_progress(find_closest_pairs, progress, *given)
        position, prim_id = found.position.reshape(*shape, 2, 3), found.prim_id.reshape(*shape, 2)
        return Clearances(shaped(shape, found.distance)[0], position, prim_id)

    def _tree_of(self, other: Any) -> Any:
        """Return `other` as a tree: itself if it is a tree, one built over a scene or a mesh."""
        if isinstance(other, TreeBase):
            return other
        try:
            return self.from_mesh(other.flattened()[:2] if hasattr(other, "flattened") else other)
        except TypeError as error:
            raise TypeError(f"other must be a BVH, a Scene or a mesh: {error}") from None

    def _two_snapshots(self, query: str, other: Any) -> tuple[Self, Self]:
        """Return snapshots of this tree and of `other`, a tree or mesh; errors name the `query`.

        If both are one tree, so are the snapshots.
        """
        tree: Any = self._other_tree(query, self._tree_of(other))
        now = self._snapshot()
        return now, now if tree is self else tree._snapshot()

    def _shown_pairs(self, other: TreeBase, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the codes `pairs`, as of `hint_pairs`, with -1 for those with a hidden face.

        Hidden are faces without any bit in the `groups` of their tree.
        """
        for tree, ids in ((self, pairs >> 32), (other, pairs & 0xFFFFFFFF)):
            groups = tree._groups
            if groups is not None and len(tree._arrays.face_bits):
                hidden = groups[np.where(pairs < 0, 0, ids)] == 0
                pairs = np.where(hidden, -1, pairs)
        return pairs


def has_shapes(query: str, tree: TreeBase, other: object) -> bool:
    """Return whether both are trees, and at least one of them is over spheres or capsules.

    If one is, a TypeError that names `query` is raised unless the other, if it is a tree, is over
    triangles, spheres or capsules.
    """
    trees = [each for each in (tree, other) if isinstance(each, TreeBase)]
    if not any(isinstance(each._arrays.primitives, HOLLOW) for each in trees):
        return False
    for each in trees:
        each._must_hold(query, Triangles, Spheres, Capsules)
    return len(trees) == 2


def hint_pairs(
    hint: Clearances | ArrayLike | None, arrays: TreeArrays, others: TreeArrays
) -> NDArray[np.int64]:
    """Return the argument `hint` as checked codes ``first << 32 | second``; -1 for no pair.

    Ids must be below the numbers of primitives in `arrays` and `others`, those of the two trees.
    """
    if hint is None:
        return np.full((), -1, np.int64)
    pairs = integers("hint", hint.prim_id if isinstance(hint, Clearances) else hint)
    if pairs.ndim == 0 or pairs.shape[-1] != 2:
        raise ValueError(f"hint must have shape (..., 2), got {pairs.shape}")
    counts = np.array([count_of(arrays.primitives), count_of(others.primitives)])
    bad = ((pairs < -1) | (pairs >= counts)).any(axis=-1)
    if bad.any():
        pair = pairs[bad][0].tolist()
        raise ValueError(f"hint must hold ids below {counts.tolist()}, or -1, got {pair}")
    pairs = pairs.astype(np.int64)
    return np.where((pairs < 0).any(axis=-1), -1, pairs[..., 0] << 32 | pairs[..., 1])
