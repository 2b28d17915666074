"""Results of queries: closest hits, all hits, closest points, overlaps, pairs in a scene."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bvh.queries.answers.locations import Located, LocatedPerQuery, SourcedPerQuery, normals_at
from bvh.queries.answers.other_libraries import in_library_of, in_numpy
from bvh.queries.answers.result_bases import Ragged, Record, Table, factory_of, listed_kinds
from bvh.queries.verbs import COST_COLUMNS, SCENE_COLUMNS
from bvh.runtime.arguments import FloatResult, IdResult, TruthResult, number_of

Ids = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class Hits(LocatedPerQuery):
    """Closest hits of rays; every field has the rays' leading shape.

    `mask` is True where a ray hits, and ``hits[hits.mask]`` are those hits. The hit of a single ray
    is true or false by itself; that of a batch is a ValueError, as of arrays. `numpy.asarray` of
    hits is a structured array with their fields, for tables and files.

    `position` and `normal` are computed on first access and cached. For that, hits and their copies
    refer to what was hit: the vertices and faces of a tree, as they were before a later refit; the
    trees of a scene; the parts of `Parts`, which are opened again. Pickles hold each of the two
    only if it was accessed. For Dask arrays both are Dask arrays, which cast the rays once more.

    Attributes
    ----------
    t : ndarray of float64 or float
        Distance along the ray in units of its direction's length; +inf for a miss.
    prim_id : ndarray of int32 or int
        Face, or other primitive, that is hit; -1 for a miss.
    u, v : ndarray of float64 or float
        Weights of the face's second and third vertex, so that the hit is
        (1-u-v) v0 + u v1 + v v2. NaN for a miss, and for boxes, spheres and capsules; of custom
        primitives, the numbers that their function returns.
    front : ndarray of bool or bool
        True where the ray meets the face against its winding normal, or enters the box, sphere or
        capsule. False for a miss.
    instance_id, leaf : ndarray of int32, int or None
        Of a scene: the instance that is hit, by its id in the scene of the query, and the row of
        `Scene.leaves`, which identifies instances in nested scenes; -1 for a miss. None of trees.
        In a scene `prim_id` is a primitive of the leaf's tree.
    nodes, tests : ndarray of int32, int or None
        With ``counters=True``: the nodes whose children the ray was tested against, `WIDTH` of them
        at a time; and the primitives. Otherwise None.

    Examples
    --------
    >>> import bvh
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> hits = tree.closest_hit([[0.2, 0.3, 5.0], [2.0, 2.0, 5.0]], [0.0, 0.0, -1.0])
    >>> hits.mask, hits.t, hits.prim_id
    (array([ True, False]), array([ 5., inf]), array([ 0, -1], dtype=int32))
    >>> hits[hits.mask].u
    array([0.2])
    >>> tree.closest_hit([[0.2, 0.3, 5.0], [2.0, 2.0, 5.0]], [0, 0, -1], counters=True).tests
    array([1, 0], dtype=int32)
    """

    t: FloatResult
    prim_id: IdResult
    u: FloatResult
    v: FloatResult
    front: TruthResult
    instance_id: IdResult = None
    leaf: IdResult = None
    nodes: IdResult = None
    tests: IdResult = None

    _noun = "rays hit"

    def _owners_text(self, mask: NDArray[np.bool_]) -> str:
        """Return the number of instances hit by the rays of `mask` as text; empty for a tree."""
        if self.instance_id is None:
            return ""
        return f" {number_of(len(np.unique(self.instance_id[mask])), 'instances')}"

    def _costs_text(self) -> str:
        """Return the average cost of a ray as text; empty without counters."""
        if self.nodes is None or self.nodes.size == 0:
            return ""
        nodes, tests = self.nodes.mean(), self.tests.mean()
        return f", {number_of(nodes, 'nodes', '.4g')} and {number_of(tests, 'tests', '.4g')} a ray"


@dataclass(frozen=True, eq=False, repr=False)
class AllHits(Located, Ragged, Table):
    """All hits of each ray, those of ray i at ``offsets[i] : offsets[i + 1]``, nearest first.

    `position` and `normal`, shape (m, 3), are computed on first access, as in `Hits`.

    Attributes
    ----------
    prim_id : ndarray of int32, shape (m,)
        Faces, or other primitives, that are hit.
    t, u, v, front : ndarray of float64, and of bool for `front`, shape (m,)
        As in `Hits`.
    offsets : ndarray of int64, shape (n + 1,)
        Where the hits of each ray begin, rays counted flat; the last entry is m.
    shape : tuple of int
        Leading shape of the rays.
    instance_id, leaf : ndarray of int32, shape (m,), or None
        As in `Hits`.

    Examples
    --------
    >>> import bvh
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> hits = tree.all_hits([[0.2, 0.3, 5.0], [2.0, 2.0, 5.0], [0.1, 0.1, 4.0]], [0, 0, -1])
    >>> hits.counts, hits.ray_id, hits.t
    (array([1, 0, 1]), array([0, 2]), array([5., 4.]))
    >>> hits.t[hits.offsets[2] : hits.offsets[3]]
    array([4.])
    """

    prim_id: Ids
    t: NDArray[np.float64]
    u: NDArray[np.float64]
    v: NDArray[np.float64]
    front: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    shape: tuple[int, ...]
    instance_id: IdResult = None
    leaf: IdResult = None

    @property
    def ray_id(self) -> NDArray[np.int64]:
        """The index of the ray of each hit, in the flat batch, shape (m,)."""
        return self._query_ids()

    def _columns(self) -> dict[str, NDArray[np.generic]]:
        """Return the columns of a table of hits by name, with the ray of each hit."""
        return {"ray_id": self.ray_id} | self._entries()

    def __len__(self) -> int:
        """Return the number of all hits."""
        return int(self.t.shape[0])

    def __repr__(self) -> str:
        hits, rays = number_of(len(self), "hits"), number_of(self.offsets.shape[0] - 1, "rays")
        ids = () if self.instance_id is None else in_numpy(self.instance_id)
        owners = f" on {number_of(len(np.unique(ids)), 'instances')}" if len(ids) else ""
        return f"AllHits({hits} of {rays}{owners})"


@dataclass(frozen=True, eq=False, repr=False)
class ClosestPoints(SourcedPerQuery):
    """Closest points of a surface; every field has the leading shape of the query points.

    With `k` the fields have one more axis: the closest, the second, and so on, by
    (distance, prim_id), in a scene (distance, leaf, prim_id), followed by misses.

    Attributes
    ----------
    distance : ndarray of float64 or float
        +inf for a miss.
    position : ndarray of float64, shape (..., 3)
        The closest point; NaN for a miss.
    prim_id : ndarray of int32 or int
        The face, sphere or capsule that it is on, the lowest of several at the same distance; -1
        for a miss.
    u, v : ndarray of float64 or float
        As in `Hits`; NaN for a miss, and for spheres and capsules.
    instance_id, leaf : ndarray of int32, int or None
        As in `Hits`.

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
    instance_id: IdResult = None
    leaf: IdResult = None

    _more_axes: ClassVar = {"position": 1}

    @cached_property
    def normal(self) -> FloatResult:
        """Unit normals of the faces that the points lie in; read-only, shape (..., 3).

        (v1-v0) x (v2-v0) of each face, scaled to length 1, as in `Hits.normal`; of spheres and
        capsules they point outward. NaN for a miss, and for faces without area, such as points and
        segments. Computed on first access.

        Raises
        ------
        AttributeError, RuntimeError, ValueError
            If points were pickled, an instance has moved, or a part's file is gone or changed.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> tree.closest_point([0.25, 0.25, 2.0]).normal
        array([0., 0., 1.])
        """
        return normals_at(self)


@dataclass(frozen=True, eq=False, repr=False)
class Overlaps(Ragged):
    """Primitives that overlap the region of each query.

    Query i, counted along the batch's leading shape, overlaps
    ``prim_id[offsets[i] : offsets[i + 1]]``; ``overlaps[i]`` is its result alone. The result of a
    single query, of shape (), is also a sequence of ids: its length, its items and
    `numpy.asarray` of it are those of `prim_id`.

    Attributes
    ----------
    prim_id : ndarray of int32, shape (m,)
        Faces, or other primitives; ascending within each query, each once.
    offsets : ndarray of int64, shape (n + 1,)
        Where each query's part of `prim_id` begins; the last entry is m.
    shape : tuple of int
        Leading shape of the batch; () for a single query.
    instance_id, leaf : ndarray of int32, shape (m,), or None
        As in `Hits`; leaves ascend within each query, and `prim_id` within each leaf.

    Examples
    --------
    >>> import bvh
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> found = tree.overlap_sphere([[0, 0, 0], [5, 5, 5]], 0.5)
    >>> found.prim_id, found.counts
    (array([0], dtype=int32), array([1, 0]))
    """

    prim_id: Ids
    offsets: NDArray[np.int64]
    shape: tuple[int, ...]
    instance_id: IdResult = None
    leaf: IdResult = None

    @property
    def query_id(self) -> NDArray[np.int64]:
        """The index of the query of each entry of `prim_id`, in the flat batch, shape (m,)."""
        return self._query_ids()

    def __len__(self) -> int:
        """Return the number of queries; of a single query, the number of primitives."""
        return int(self.offsets.shape[0] - 1 if self.shape else self.prim_id.shape[0])

    def __getitem__(self, index: Any) -> Any:
        """Return the result of query `index` of a batch; of a single query, items of `prim_id`."""
        if not self.shape:
            return self.prim_id[index]
        try:
            i = range(len(self))[operator.index(index)]
        except IndexError:
            raise IndexError(f"there is no query {index} of {len(self)}") from None
        begin, end = in_numpy(self.offsets[i : i + 2]).tolist()
        columns = {name: column[begin:end] for name, column in self._entries().items()}
        offsets = in_library_of(np.array([0, end - begin], np.int64), self.offsets)
        return type(self)(**columns, offsets=offsets, shape=())

    def _only(self, chosen: NDArray[np.bool_]) -> Self:
        """Return these overlaps with only the entries for which `chosen`, shape (m,), is True."""
        columns = {name: column[chosen] for name, column in self._entries().items()}
        # A part now begins at the number of chosen entries before it.
        offsets = np.append(0, np.cumsum(chosen))[self.offsets].astype(np.int64)
        return type(self)(**columns, offsets=offsets, shape=self.shape)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the ids of a single query as an array; a TypeError for a batch of queries."""
        if self.shape:
            raise TypeError("only the result of a single query is an array: see prim_id, offsets")
        ids: Ids = in_numpy(self.prim_id)
        converted = ids if dtype is None else ids.astype(dtype, copy=False)
        if copy is False and converted is not ids:
            raise ValueError(f"ids are int32: there is no {converted.dtype} array without a copy")
        return converted.copy() if copy and converted is ids else converted

    def tolist(self) -> list[object]:
        """Return a list of ids for each query, in lists nested like the batch's leading shape.

        Examples
        --------
        >>> import bvh
        >>> bvh.BVH.from_points([[0, 0, 0]]).overlap_sphere([[0, 0, 0], [5, 5, 5]], 0.5).tolist()
        [[0], []]
        """
        lists: Any = in_numpy(self.prim_id)
        if self.shape:
            lists = np.empty(len(self), object)
            lists[:] = [self[i].tolist() for i in range(len(self))]
            lists = lists.reshape(self.shape)
        return lists.tolist()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        text = number_of(self.prim_id.shape[0], "primitives")
        if self.shape:
            some, queries = np.count_nonzero(in_numpy(self.counts)), number_of(len(self), "queries")
            text = f"{some} of {queries} meet{'s' if len(self) == 1 else ''} {text}"
        return f"Overlaps({text})"


@dataclass(frozen=True, eq=False, repr=False)
class ScenePairs(Record):
    """Pairs of a scene: faces that meet, or instances that are not disjoint.

    Pairs of faces ascend by leaf and prim_id of the first, then of the second face; pairs of
    instances by their ids.

    Attributes
    ----------
    instance_id : ndarray of int32, shape (m, 2)
        Instance of each face; -1 for faces of a tree. Or the two instances, the lower id first.
    leaf : ndarray of int32, shape (m, 2), or None
        Row of its scene's `leaves`; -1 for faces of a tree. None of pairs of instances.
    prim_id : ndarray of int32, shape (m, 2), or None
        Face of the leaf's tree. None of pairs of instances.
    relation : ndarray of str, shape (m,), or None
        Relation of the first instance to the second, as `BVH.relation` returns it.

    Examples
    --------
    >>> import bvh
    >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> ids = scene.add(mesh), scene.add(mesh)
    >>> pairs = scene.self_overlaps()
    >>> pairs.instance_id.tolist(), pairs.prim_id.tolist()
    ([[0, 1]], [[0, 0]])
    """

    instance_id: Ids
    leaf: IdResult = None
    prim_id: IdResult = None
    relation: NDArray[np.str_] | None = None

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.instance_id)

    def __repr__(self) -> str:
        if self.relation is None:
            return f"ScenePairs({number_of(len(self), 'pairs of faces')})"
        return f"ScenePairs({listed_kinds('pairs of instances', self.relation)})"


# Functions (values, source) that make results faster than their classes do (see `factory_of`), of
# trees and, with their additional columns, of scenes. Hits with costs are not made by them.
hits_of = factory_of(Hits, *SCENE_COLUMNS, *COST_COLUMNS)
scene_hits_of = factory_of(Hits, *COST_COLUMNS)
all_hits_of, scene_all_hits_of = factory_of(AllHits, *SCENE_COLUMNS), factory_of(AllHits)
points_of, scene_points_of = factory_of(ClosestPoints, *SCENE_COLUMNS), factory_of(ClosestPoints)

# Deprecated: names that a scene's results and counted hits had in 0.2.0, also in its pickles.
SceneHits = CountedHits = CountedSceneHits = Hits
SceneAllHits, SceneClosestPoints, SceneOverlaps = AllHits, ClosestPoints, Overlaps
