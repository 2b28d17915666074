"""Results of queries: closest hits, all hits, closest points, overlaps."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries.answers.hit_points import Located, LocatedPerQuery
from bvh.queries.answers.other_libraries import given_like, in_numpy
from bvh.queries.answers.result_bases import Costs, PerQuery, Ragged, Table

Ids = NDArray[np.int32]

new_object = object.__new__

# Columns of lists of hits with an entry a hit.
ENTRIES = ("prim_id", "t", "u", "v", "front", "instance_id", "leaf")


@dataclass(frozen=True, eq=False, repr=False)
class Hits(LocatedPerQuery):
    """Closest hits of rays; every field has the rays' leading shape.

    `mask` is True where a ray hits, and ``hits[hits.mask]`` are those hits. `numpy.asarray` of hits
    is a structured array with their fields, for tables and files.

    `position` and `normal` are found when they are first asked for, and kept. For this, hits keep
    what they hit in memory: the vertices and faces of a tree, as they were at the query if it has
    been refitted since, or the trees of a scene; of `Parts`, which parts to open. Hits that are
    pickled have those of the two that were asked for before, and copies know what the original
    knows.

    Attributes
    ----------
    t : ndarray of float64 or float
        Distance along the ray in units of its direction's length; +inf for a miss.
    prim_id : ndarray of int32 or int
        Face, or box, that is hit; -1 for a miss.
    u, v : ndarray of float64 or float
        Weights of the face's second and third vertex, so that the hit is
        (1-u-v) v0 + u v1 + v v2. NaN for a miss and for boxes.
    front : ndarray of bool or bool
        The ray meets the face against its winding normal, or enters the box from outside.
        False for a miss.
    """

    t: Any
    prim_id: Any
    u: Any
    v: Any
    front: Any

    _noun = "rays hit"


@dataclass(frozen=True, eq=False, repr=False)
class SceneHits(Hits):
    """Closest hits of rays in a scene.

    Attributes
    ----------
    instance_id : ndarray of int32 or int
        Instance that is hit, by its id in the scene of the query; -1 for a miss.
    leaf : ndarray of int32 or int
        Row of `Scene.leaves` that is hit, which distinguishes the instances of nested scenes. -1
        for a miss.
    prim_id : ndarray of int32 or int
        Face, or box, of the leaf's tree; -1 for a miss.
    """

    instance_id: Any
    leaf: Any

    def _owners(self, mask: NDArray[np.bool_]) -> str:
        return f" {len(np.unique(self.instance_id[mask]))} instances"


@dataclass(frozen=True, eq=False, repr=False)
class CountedHits(Costs, Hits):
    """Closest hits of rays, and the cost of each ray.

    Attributes
    ----------
    nodes, tests : ndarray of int32 or int
        Nodes whose children the ray was tested against, `WIDTH` of them at a time; and primitives.
    """

    nodes: Any
    tests: Any


@dataclass(frozen=True, eq=False, repr=False)
class CountedSceneHits(Costs, SceneHits):
    """Closest hits of rays in a scene, and the cost of each ray.

    Attributes
    ----------
    nodes, tests : ndarray of int32 or int
        As in `CountedHits`.
    """

    nodes: Any
    tests: Any


@dataclass(frozen=True, eq=False, repr=False)
class AllHits(Located, Ragged, Table):
    """All hits of each ray, those of ray i at ``offsets[i] : offsets[i + 1]``, nearest first.

    `position` and `normal`, shape (m, 3), are found when they are first asked for, as in `Hits`.

    Attributes
    ----------
    prim_id : ndarray of int32, shape (m,)
        Faces, or boxes, that are hit.
    t, u, v, front : ndarray of float64, and of bool for `front`, shape (m,)
        As in `Hits`.
    offsets : ndarray of int64, shape (n + 1,)
        Where the hits of each ray begin, rays counted flat; the last entry is m.
    shape : tuple of int
        Leading shape of the rays.
    """

    prim_id: NDArray[np.int32]
    t: NDArray[np.float64]
    u: NDArray[np.float64]
    v: NDArray[np.float64]
    front: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    shape: tuple[int, ...]

    @property
    def ray_id(self) -> NDArray[np.int64]:
        """The ray of each hit, counted flat, shape (m,)."""
        return self._queries()

    def _columns(self) -> dict[str, Any]:
        rest = {name: column for name, column in vars(self).items() if name in ENTRIES}
        return {"ray_id": self.ray_id} | rest

    def __len__(self) -> int:
        """Return the number of all hits."""
        return int(self.t.shape[0])

    def __repr__(self) -> str:
        n = self.offsets.shape[0] - 1
        ids = in_numpy(vars(self).get("instance_id", ()))
        owners = f" on {len(np.unique(ids))} instances" if len(ids) else ""
        return f"{type(self).__name__}({len(self)} hits of {n} ray{'s' if n != 1 else ''}{owners})"


@dataclass(frozen=True, eq=False, repr=False)
class SceneAllHits(AllHits):
    """All hits of each ray in a scene.

    Attributes
    ----------
    instance_id, leaf : ndarray of int32, shape (m,)
        As in `SceneHits`.
    """

    instance_id: NDArray[np.int32]
    leaf: NDArray[np.int32]


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
    """

    distance: Any
    position: Any
    prim_id: Any
    u: Any
    v: Any

    def __getitem__(self, index: Any) -> ClosestPoints:
        """Select points as from an array of the same shape."""
        parts = index if isinstance(index, tuple) else (index,)
        # An ellipsis would take in the axis of coordinates, too.
        last = slice(None) if any(part is Ellipsis for part in parts) else Ellipsis
        return type(self)(
            **{
                name: array[(*parts, last) if name == "position" else index]
                for name, array in self._fields().items()
            }
        )


@dataclass(frozen=True, eq=False, repr=False)
class SceneClosestPoints(ClosestPoints):
    """Closest points of a scene.

    With `k` they are sorted by (distance, leaf, prim_id).

    Attributes
    ----------
    instance_id, leaf, prim_id : ndarray of int32 or int
        As in `SceneHits`.
    """

    instance_id: Any
    leaf: Any


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
        Faces, or boxes; ascending within each query, each once.
    offsets : ndarray of int64, shape (n + 1,)
        Where each query's part of `prim_id` begins; the last entry is m.
    shape : tuple of int
        Leading shape of the batch; () for a single query.
    """

    prim_id: Ids
    offsets: NDArray[np.int64]
    shape: tuple[int, ...]

    _noun = "primitives"

    @property
    def query_id(self) -> NDArray[np.int64]:
        """The query of each entry of `prim_id`, counted flat, shape (m,)."""
        return self._queries()

    def __len__(self) -> int:
        """Return the number of queries; of a single query, the number of primitives."""
        return int(self.offsets.shape[0] - 1 if self.shape else self.prim_id.shape[0])

    def __getitem__(self, index: Any) -> Any:
        """Return the result of one query of a batch; of a single query, ids."""
        if not self.shape:
            return self.prim_id[index]
        try:
            i = range(len(self))[operator.index(index)]
        except IndexError:
            raise IndexError(f"there is no query {index} of {len(self)}") from None
        begin, end = in_numpy(self.offsets[i : i + 2]).tolist()
        columns = {
            name: column[begin:end]
            for name, column in vars(self).items()
            if name not in ("offsets", "shape")
        }
        offsets = given_like(np.array([0, end - begin], np.int64), self.offsets)
        return type(self)(**columns, offsets=offsets, shape=())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if self.shape:
            raise TypeError("only the result of a single query is an array: see prim_id, offsets")
        ids: NDArray[Any] = in_numpy(self.prim_id)
        wanted = ids if dtype is None else ids.astype(dtype, copy=False)
        if copy is False and wanted is not ids:
            raise ValueError(f"ids are int32: there is no {wanted.dtype} array without a copy")
        return wanted.copy() if copy and wanted is ids else wanted

    def tolist(self) -> list[Any]:
        """Return the ids of each query as lists, nested as the batch is."""
        if not self.shape:
            ids: list[Any] = in_numpy(self.prim_id).tolist()
            return ids
        flat = np.empty(len(self), object)
        flat[:] = [self[i].tolist() for i in range(len(self))]
        nested: list[Any] = flat.reshape(self.shape).tolist()
        return nested

    def __repr__(self) -> str:
        count, what = self.prim_id.shape[0], self._noun
        if not self.shape:
            return f"{type(self).__name__}({count} {what})"
        queries = int(np.count_nonzero(in_numpy(self.counts)))
        return f"{type(self).__name__}({queries} of {len(self)} queries meet {count} {what})"


@dataclass(frozen=True, eq=False, repr=False)
class SceneOverlaps(Overlaps):
    """Faces of a scene that overlap the region of each query.

    Attributes
    ----------
    instance_id, leaf : ndarray of int32, shape (m,)
        As in `SceneHits`; leaves ascend within each query.
    prim_id : ndarray of int32, shape (m,)
        Face of the leaf's tree; ascending within each leaf, each once.
    """

    instance_id: Ids
    leaf: Ids

    _noun = "faces"


@dataclass(frozen=True, eq=False, repr=False)
class ScenePairs:
    """Pairs of faces that meet, ascending by the first's leaf and prim_id, then the second's.

    Attributes
    ----------
    instance_id : ndarray of int32, shape (m, 2)
        Instance of each face; -1 for faces of a tree.
    leaf : ndarray of int32, shape (m, 2)
        Row of its scene's `leaves`; -1 for faces of a tree.
    prim_id : ndarray of int32, shape (m, 2)
        Face of the leaf's tree.
    """

    instance_id: Ids
    leaf: Ids
    prim_id: Ids

    def __len__(self) -> int:
        """Return the number of pairs."""
        return int(self.prim_id.shape[0])

    def __repr__(self) -> str:
        return f"ScenePairs({len(self)} pairs of faces)"
