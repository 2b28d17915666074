"""`Clearances` of two meshes, and of the instances of a scene: how near they are, and where."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bvh.queries.answers.result_bases import PerQuery
from bvh.runtime.arguments import FloatResult, IdResult, TruthResult, number_of

Ids = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class Clearances(PerQuery):
    """Distances of two meshes; every field has the leading shape of the transforms.

    Attributes
    ----------
    distance : ndarray of float64 or float
        0 where the meshes touch; +inf for a miss, beyond `max_distance`.
    position : ndarray of float64, shape (..., 2, 3)
        The nearest point of this tree's mesh, and of the other's; NaN for a miss.
    prim_id : ndarray of int32, shape (..., 2)
        The faces that these lie in, the lowest pair of several at the same distance; -1 for a miss.

    Examples
    --------
    >>> import bvh, numpy as np
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> lifts = np.tile(np.eye(4), (2, 1, 1))
    >>> lifts[:, 2, 3] = [0.0, 2.0]
    >>> found = tree.distance_to(tree, lifts)
    >>> found.distance, found.prim_id.shape, found.position.shape
    (array([0., 2.]), (2, 2), (2, 2, 3))
    """

    distance: FloatResult
    position: FloatResult
    prim_id: IdResult

    _noun = "pairs within reach"
    _more_axes: ClassVar = {"position": 2, "prim_id": 1}

    def __len__(self) -> int:
        return len(self.distance)

    @property
    def mask(self) -> TruthResult:
        """True where there is a pair within `max_distance`."""
        return self.prim_id[..., 0] >= 0


@dataclass(frozen=True, eq=False, repr=False)
class SceneClearances:
    """Distances of pairs of instances, ascending by their ids; the lower id of a pair is first.

    Attributes
    ----------
    distance : ndarray of float64, shape (m,)
        Between the surfaces; 0 where they touch.
    position : ndarray of float64, shape (m, 2, 3)
        The nearest point of each.
    instance_id : ndarray of int32, shape (m, 2)
        The two instances.
    leaf : ndarray of int32, shape (m, 2)
        Rows of `Scene.leaves` that are nearest to each other.
    prim_id : ndarray of int32, shape (m, 2)
        Faces of the leaves' trees that the positions lie in. Of several pairs at the same distance
        it is the lowest, by the leaf and face of the first instance, then of the second.

    Examples
    --------
    >>> import bvh, numpy as np
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> scene, lifted = bvh.Scene(), np.eye(4)
    >>> lifted[2, 3] = 2.0
    >>> ids = scene.add_many(tree, [np.eye(4), lifted])
    >>> found = scene.clearances()
    >>> found.distance, found.instance_id.tolist()
    (array([2.]), [[0, 1]])
    """

    distance: NDArray[np.float64]
    position: NDArray[np.float64]
    instance_id: Ids
    leaf: Ids
    prim_id: Ids

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.distance)

    def __getitem__(self, index: Any) -> SceneClearances:
        """Select pairs as from an array of shape (m,)."""
        return type(self)(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    def __repr__(self) -> str:
        count, touching = len(self), int(np.count_nonzero(self.distance == 0.0))
        pairs = number_of(count, "pairs of instances")
        if count == 0:
            return f"SceneClearances({pairs})"
        near, far = self.distance.min(), self.distance.max()
        return f"SceneClearances({pairs}, {touching} touching, distance {near:.6g} to {far:.6g})"
