"""Results of queries: closest hits, all hits, closest points."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Entries = TypeVar("Entries", bound="PerQuery")

new_object = object.__new__


def format_shape(shape: tuple[int, ...]) -> str:
    """Return the shape of a batch, such as 480 x 640."""
    return " x ".join(map(str, shape))


def count_instances(instance_id: NDArray[np.int32]) -> str:
    """Return how many instances there are among ids, as a part of a repr."""
    return f"{len(np.unique(instance_id))} instances"


class PerQuery:
    """Base of results with one entry a query: all fields have the leading shape of the batch."""

    def __len__(self) -> int:
        return len(getattr(self, self._first()))

    def __getitem__(self: Entries, index: Any) -> Entries:
        """Select entries as from an array of the batch's shape."""
        return type(self)(**{name: array[index] for name, array in self._fields().items()})

    @property
    def mask(self) -> Any:
        """True where there is a hit, or a closest point."""
        return self.prim_id >= 0  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        values = self._fields()
        if np.ndim(values[self._first()]) == 0:
            inner = ", ".join(f"{name}={value!r}" for name, value in values.items())
        else:
            inner = self._summary(self.mask)
        return f"{type(self).__name__}({inner})"

    def _summary(self, mask: NDArray[np.bool_]) -> str:
        """Return what a repr says of a batch."""
        raise NotImplementedError

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def _first(self) -> str:
        return fields(self)[0].name  # type: ignore[arg-type]


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

    def _summary(self, mask: NDArray[np.bool_]) -> str:
        hits = ""
        if mask.any():
            near, far = float(self.t[mask].min()), float(self.t[mask].max())
            hits = f"{self._owners(mask)}, t {near:.6g} to {far:.6g}"
        count = int(np.count_nonzero(mask))
        return f"{count} of {format_shape(mask.shape)} rays hit{hits}{self._costs()}"

    def _owners(self, mask: NDArray[np.bool_]) -> str:
        """Return how many instances are hit, where that is known."""
        return ""

    def _costs(self) -> str:
        """Return the average cost of a ray, where that is known."""
        return ""


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
        return f" {count_instances(self.instance_id[mask])}"


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
    nodes : ndarray of int32 or int
        Nodes whose children the ray was tested against, `WIDTH` of them at a time.
    tests : ndarray of int32 or int
        Primitives that the ray was tested against.
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
class AllHits:
    """All hits of each ray, those of ray i at ``offsets[i] : offsets[i + 1]``, nearest first.

    Attributes
    ----------
    prim_id : ndarray of int32, shape (m,)
        Faces, or boxes, that are hit.
    t, u, v : ndarray of float64, shape (m,)
        As in `Hits`.
    front : ndarray of bool, shape (m,)
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
        return query_of(self.offsets)

    @property
    def counts(self) -> Any:
        """Hits of each ray, with the rays' leading shape; an int for a single ray."""
        return counts_of(self.offsets, self.shape)

    def __len__(self) -> int:
        """Return the number of all hits."""
        return len(self.t)

    def __repr__(self) -> str:
        n = len(self.offsets) - 1
        owners = self._owners() if len(self) else ""
        return f"{type(self).__name__}({len(self)} hits of {n} ray{'s' if n != 1 else ''}{owners})"

    def _owners(self) -> str:
        """Return how many instances are hit, where that is known."""
        return ""


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

    def _owners(self) -> str:
        return f" on {count_instances(self.instance_id)}"


def query_of(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the query that each item of a ragged result belongs to."""
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))


def counts_of(offsets: NDArray[np.int64], shape: tuple[int, ...]) -> Any:
    """Return the items of each query of a ragged result; an int for a single query."""
    counts = np.diff(offsets)
    return counts.reshape(shape) if shape else int(counts[0])


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

    def _summary(self, mask: NDArray[np.bool_]) -> str:
        share = f"{int(np.count_nonzero(mask))} of {format_shape(mask.shape)} found"
        if not mask.any():
            return share
        near, far = float(self.distance[mask].min()), float(self.distance[mask].max())
        return f"{share}, distance {near:.6g} to {far:.6g}"


@dataclass(frozen=True, eq=False, repr=False)
class SceneClosestPoints(ClosestPoints):
    """Closest points of a scene.

    With `k` they are sorted by (distance, leaf, prim_id).

    Attributes
    ----------
    instance_id : ndarray of int32 or int
        Instance that the closest point is on, by its id in the scene of the query; -1 for a miss.
    leaf : ndarray of int32 or int
        Row of `Scene.leaves`, which distinguishes the instances of nested scenes. -1 for a miss.
    prim_id : ndarray of int32 or int
        Face of the leaf's tree; -1 for a miss.
    """

    instance_id: Any
    leaf: Any
