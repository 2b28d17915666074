"""`Clearances` of two meshes, and of the instances of a scene: distances and nearest points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bvh.queries.answers.result_bases import PerQuery
from bvh.runtime.arguments import FloatResult, IdResult, TruthResult, number_of


@dataclass(frozen=True, eq=False, repr=False)
class Clearances(PerQuery):
    """Distances of two meshes; every field has the leading shape of the transforms.

    Those of a scene have a row for each pair of instances, ascending by their ids, the lower id of
    a pair first.

    Attributes
    ----------
    distance : ndarray of float64 or float
        0 where the meshes touch; +inf for a miss, beyond `max_distance`.
    position : ndarray of float64, shape (..., 2, 3)
        The nearest point of this tree's mesh, and of the other's; NaN for a miss.
    prim_id : ndarray of int32, shape (..., 2)
        The faces that these two points lie in; of several pairs at the same distance the lowest, in
        a scene by leaf and face. -1 for a miss.
    instance_id, leaf : ndarray of int32, shape (m, 2), or None
        Of a scene: the two instances, and the rows of `Scene.leaves` that are nearest to each
        other. None of trees.

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
    instance_id: IdResult = None
    leaf: IdResult = None

    _noun = "pairs within reach"
    _more_axes: ClassVar = {"position": 2, "prim_id": 1, "instance_id": 1, "leaf": 1}

    def __len__(self) -> int:
        return len(self.distance)

    @property
    def mask(self) -> TruthResult:
        """True where the meshes are within `max_distance`: misses have the faces -1."""
        return self.prim_id[..., 0] >= 0

    def __bool__(self) -> bool:
        """Return whether the meshes, or in a scene any instances, are within `max_distance`."""
        return len(self) > 0 if self._is_of_scene() else super().__bool__()

    def _is_of_scene(self) -> bool:
        """Return whether these are pairs of instances; False for a single pair."""
        return self.instance_id is not None and np.ndim(self.distance) > 0

    def __repr__(self) -> str:
        if not self._is_of_scene():
            return super().__repr__()
        pairs = number_of(len(self), "pairs of instances")
        if len(self) == 0:
            return f"Clearances({pairs})"
        near, far = self.distance.min(), self.distance.max()
        touching = np.count_nonzero(self.distance == 0.0)
        return f"Clearances({pairs}, {touching} touching, distance {near:.6g} to {far:.6g})"


# Deprecated: the name that those of a scene had in 0.2.0, also in its pickles.
SceneClearances = Clearances
