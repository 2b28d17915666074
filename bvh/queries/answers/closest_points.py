"""Closest points of trees and scenes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bvh.queries.answers.result_bases import PerQuery
from bvh.runtime.arguments import FloatResult, IdResult


@dataclass(frozen=True, eq=False, repr=False)
class ClosestPoints(PerQuery):
    """Closest points of a tree; every field has the leading shape of the query points.

    With `k` the fields have one more axis: the closest, the second, and so on, by
    (distance, prim_id), followed by misses.

    Attributes
    ----------
    distance : ndarray of float64 or float
        +inf for a miss.
    position : ndarray of float64, shape (..., 3)
        The closest point; NaN for a miss.
    prim_id : ndarray of int32 or int
        The face that it lies in, the lowest of several at the same distance; -1 for a miss.
    u, v : ndarray of float64 or float
        Weights of the face's second and third vertex, so that the position is
        (1-u-v) v0 + u v1 + v v2. NaN for a miss.

    Examples
    --------
    >>> import bvh
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> near = tree.closest_point([[0.25, 0.25, 2.0], [-3.0, 0.0, 4.0]], max_distance=3.0)
    >>> near.mask, near.distance, near.position[0]
    (array([ True, False]), array([ 2., inf]), array([0.25, 0.25, 0.  ]))
    """

    distance: FloatResult
    position: FloatResult
    prim_id: IdResult
    u: FloatResult
    v: FloatResult

    _more_axes: ClassVar = {"position": 1}


@dataclass(frozen=True, eq=False, repr=False)
class SceneClosestPoints(ClosestPoints):
    """Closest points of a scene.

    With `k` they are sorted by (distance, leaf, prim_id).

    Attributes
    ----------
    instance_id, leaf, prim_id : ndarray of int32 or int
        As in `SceneHits`.

    Examples
    --------
    >>> import bvh, numpy as np
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> scene = bvh.Scene()
    >>> ids = scene.add_many(tree, [np.eye(4), np.diag([2.0, 2.0, 2.0, 1.0])], ["small", "large"])
    >>> scene.closest_point([[0.1, 0.1, 2.0], [5.0, 0.0, 0.0]]).instance_id
    array([0, 1], dtype=int32)
    """

    instance_id: IdResult
    leaf: IdResult
