"""Results of queries: closest hits, all hits, closest points, overlaps."""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.lazy_arrays import is_lazy

Ids = NDArray[np.int32]
Entries = TypeVar("Entries", bound="PerQuery")

new_object = object.__new__


class PerQuery:
    """Base of results with one entry a query: all fields have the leading shape of the batch."""

    prim_id: Any
    _noun = "found"  # What entries are called in a repr, after their number.

    def __len__(self) -> int:
        return len(self.prim_id)

    def __getitem__(self: Entries, index: Any) -> Entries:
        """Select entries as from an array of the batch's shape."""
        return type(self)(**{name: array[index] for name, array in self._fields().items()})

    @property
    def mask(self) -> Any:
        """True where there is a hit, or a closest point."""
        return self.prim_id >= 0

    def __repr__(self) -> str:
        values, mask = self._fields(), self.mask
        shape = " x ".join(map(str, np.shape(mask)))
        if is_lazy(mask):
            inner = f"{shape or 1} queries, lazy"
        elif np.ndim(mask) == 0:
            inner = ", ".join(f"{name}={value!r}" for name, value in values.items())
        else:
            inner = f"{int(np.count_nonzero(mask))} of {shape} {self._noun}"
            if mask.any():
                name = next(iter(values))
                near, far = values[name][mask].min(), values[name][mask].max()
                inner += f"{self._owners(mask)}, {name} {near:.6g} to {far:.6g}"
            inner += self._costs()
        return f"{type(self).__name__}({inner})"

    def _owners(self, mask: NDArray[np.bool_]) -> str:
        """Return how many instances are hit, where that is known."""
        return ""

    def _costs(self) -> str:
        """Return the average cost of a ray, where that is known."""
        return ""

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, repr=False)
class Hits(PerQuery):
    """Closest hits of rays; every field has the rays' leading shape.

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


class Costs:
    """Mixin of hits that know what each ray has cost: `nodes` and `tests`."""

    nodes: Any
    tests: Any

    def _costs(self) -> str:
        if self.nodes.size == 0:
            return ""
        return f", {self.nodes.mean():.4g} nodes and {self.tests.mean():.4g} tests a ray"


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


class Ragged:
    """Base of results with any number of entries a query, which begin at `offsets`."""

    offsets: NDArray[np.int64]
    shape: tuple[int, ...]

    @property
    def counts(self) -> Any:
        """Entries of each query, with the batch's leading shape; an int for a single query."""
        counts = np.diff(self.offsets)
        return counts.reshape(self.shape) if self.shape else int(counts[0])

    def _queries(self) -> NDArray[np.int64]:
        """Return the query that each entry belongs to."""
        rows = np.arange(len(self.offsets) - 1, dtype=np.int64)
        return np.repeat(rows, np.diff(self.offsets))


@dataclass(frozen=True, eq=False, repr=False)
class AllHits(Ragged):
    """All hits of each ray, those of ray i at ``offsets[i] : offsets[i + 1]``, nearest first.

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

    def __len__(self) -> int:
        """Return the number of all hits."""
        return len(self.t)

    def __repr__(self) -> str:
        n = len(self.offsets) - 1
        ids = vars(self).get("instance_id", ())
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
        full = (*parts, slice(None)) if any(part is Ellipsis for part in parts) else index
        return type(self)(
            **{
                name: array[full if name == "position" else index]
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
        return len(self.offsets) - 1 if self.shape else len(self.prim_id)

    def __getitem__(self, index: Any) -> Any:
        """Return the result of one query of a batch; of a single query, ids."""
        if not self.shape:
            return self.prim_id[index]
        try:
            i = range(len(self))[operator.index(index)]
        except IndexError:
            raise IndexError(f"there is no query {index} of {len(self)}") from None
        begin, end = self.offsets[i : i + 2].tolist()
        columns = {
            name: column[begin:end]
            for name, column in vars(self).items()
            if name not in ("offsets", "shape")
        }
        return type(self)(**columns, offsets=np.array([0, end - begin]), shape=())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if self.shape:
            raise TypeError("only the result of a single query is an array: see prim_id, offsets")
        ids: NDArray[Any] = self.prim_id
        wanted = ids if dtype is None else ids.astype(dtype, copy=False)
        if copy is False and wanted is not ids:
            raise ValueError(f"ids are int32: there is no {wanted.dtype} array without a copy")
        return wanted.copy() if copy and wanted is ids else wanted

    def tolist(self) -> list[Any]:
        """Return the ids of each query as lists, nested as the batch is."""
        if not self.shape:
            ids: list[Any] = self.prim_id.tolist()
            return ids
        flat = np.empty(len(self), object)
        flat[:] = [self[i].tolist() for i in range(len(self))]
        nested: list[Any] = flat.reshape(self.shape).tolist()
        return nested

    def __repr__(self) -> str:
        count, what = len(self.prim_id), self._noun
        if not self.shape:
            return f"{type(self).__name__}({count} {what})"
        queries = int(np.count_nonzero(self.counts))
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
        return len(self.prim_id)

    def __repr__(self) -> str:
        return f"ScenePairs({len(self)} pairs of faces)"
