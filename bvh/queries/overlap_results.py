"""Results of overlap queries: primitives that overlap regions, and pairs of faces."""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bvh.queries.results import counts_of, query_of

Ids = NDArray[np.int32]
Result = TypeVar("Result", bound="Overlaps")


@dataclass(frozen=True, eq=False, repr=False)
class Overlaps:
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

    @property
    def query_id(self) -> NDArray[np.int64]:
        """The query of each entry of `prim_id`, counted flat, shape (m,)."""
        return query_of(self.offsets)

    @property
    def counts(self) -> Any:
        """Primitives of each query, with the batch's leading shape; an int for a single query."""
        return counts_of(self.offsets, self.shape)

    def __len__(self) -> int:
        """Return the number of queries; of a single query, the number of primitives."""
        return len(self.offsets) - 1 if self.shape else len(self.prim_id)

    def __getitem__(self: Result, index: Any) -> Any:
        """Return the result of one query of a batch; of a single query, ids."""
        if not self.shape:
            return self.prim_id[index]
        try:
            i = range(len(self))[operator.index(index)]
        except IndexError:
            raise IndexError(f"there is no query {index} of {len(self)}") from None
        begin, end = self.offsets[i : i + 2].tolist()
        parts = {
            field.name: getattr(self, field.name)[begin:end]
            for field in fields(self)
            if field.name not in ("offsets", "shape")
        }
        return type(self)(**parts, offsets=np.array([0, end - begin]), shape=())

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
        count, what = len(self.prim_id), self._noun()
        if not self.shape:
            return f"{type(self).__name__}({count} {what})"
        queries = int(np.count_nonzero(self.counts))
        return f"{type(self).__name__}({queries} of {len(self)} queries meet {count} {what})"

    def _noun(self) -> str:
        return "primitives"


@dataclass(frozen=True, eq=False, repr=False)
class SceneOverlaps(Overlaps):
    """Faces of a scene that overlap the region of each query.

    Attributes
    ----------
    instance_id : ndarray of int32, shape (m,)
        Instance of each face, by its id in the scene of the query.
    leaf : ndarray of int32, shape (m,)
        Its row of `Scene.leaves`; ascending within each query.
    prim_id : ndarray of int32, shape (m,)
        Face of the leaf's tree; ascending within each leaf, each once.
    """

    instance_id: Ids
    leaf: Ids

    def _noun(self) -> str:
        return "faces"


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
