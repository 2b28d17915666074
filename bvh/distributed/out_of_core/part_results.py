"""Merging of answers from parts of a mesh: the least by (t, id), sums, sorted lists.

Distances of different parts can be compared because t is the real distance, correctly rounded, for
each triangle alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.out_of_core.open_parts import OpenParts
from bvh.queries.results import AllHits, ClosestPoints, Hits


class HitParts(NamedTuple):
    """Parts that hits are in: what their positions and normals follow from."""

    opened: OpenParts

    def leaves_of(
        self, parts: tuple[NDArray[np.int32]], ids: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> Iterator[tuple[Any, None, NDArray[np.int64], NDArray[np.int64]]]:
        """Open one part after another: yield its triangles, and which of them which rows hit."""
        number = parts[0].reshape(-1)[rows]
        for k in np.unique(number).tolist():
            some = rows[number == k]
            with self.opened.part(k) as part:
                triangles = part.tree.arrays.primitives
                yield triangles, None, some, np.searchsorted(part.ids, ids[some])


class Closest(NamedTuple):
    """Closest hits so far of a flat batch of rays, as columns; misses have t inf and id -1."""

    t: NDArray[np.float64]
    prim_id: NDArray[np.int64]
    u: NDArray[np.float64]
    v: NDArray[np.float64]
    front: NDArray[np.bool_]
    part: NDArray[np.int32]  # that is hit

    @classmethod
    def misses(cls, n: int) -> Closest:
        """Return n misses."""
        return cls(
            np.full(n, np.inf), np.full(n, -1, np.int64), np.full(n, np.nan), np.full(n, np.nan),
            np.zeros(n, np.bool_), np.full(n, -1, np.int32),
        )  # fmt: skip

    def take(self, rows: NDArray[np.int64], other: Closest) -> None:
        """Replace the hits of some rays by those of another part that are closer."""
        _take(self, rows, other)

    def shaped(self, shape: tuple[int, ...], opened: OpenParts) -> Hits:
        """Return them as a result of the rays' leading shape."""
        t, prim_id, u, v, front = (shaped(column, shape) for column in self[:5])
        hits = Hits(t, prim_id, u, v, front)
        vars(hits)["_source"] = HitParts(opened), 0, (self.part.reshape(*shape, 1),)
        return hits


class Nearest(NamedTuple):
    """Closest points so far of a flat batch of points, as columns; `k` of each on one more axis."""

    distance: NDArray[np.float64]
    position: NDArray[np.float64]
    prim_id: NDArray[np.int64]
    u: NDArray[np.float64]
    v: NDArray[np.float64]

    @classmethod
    def misses(cls, n: int, k: int | None = None) -> Nearest:
        """Return n misses, or k for each of n points."""
        shape = (n,) if k is None else (n, k)
        return cls(
            np.full(shape, np.inf), np.full((*shape, 3), np.nan), np.full(shape, -1, np.int64),
            np.full(shape, np.nan), np.full(shape, np.nan),
        )  # fmt: skip

    def reach(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the distance at which a face may still count for each of some points."""
        return self.distance[rows] if self.distance.ndim == 1 else self.distance[rows, -1]

    def take(self, rows: NDArray[np.int64], other: Nearest) -> None:
        """Replace the points of some queries by those of another part that are closer."""
        if self.distance.ndim == 1:
            _take(self, rows, other)
            return
        both = [np.concatenate([m[rows], o], axis=1) for m, o in zip(self, other, strict=True)]
        order = nearest_first(both[0], both[2])[:, : self.distance.shape[1]]
        for mine, candidates in zip(self, both, strict=True):
            at = order[..., None] if mine.ndim == 3 else order
            mine[rows] = np.take_along_axis(candidates, at, axis=1)

    def shaped(self, shape: tuple[int, ...]) -> ClosestPoints:
        """Return them as a result of the points' leading shape."""
        shape = (*shape, *self.distance.shape[1:])
        columns = (shaped(c, (*shape, 3) if c is self.position else shape) for c in self)
        distance, position, prim_id, u, v = columns
        return ClosestPoints(distance, position, prim_id, u, v)


def _take(mine: Closest | Nearest, rows: NDArray[np.int64], other: Closest | Nearest) -> None:
    """Replace entries by those of another part that are less by (t or distance, id)."""
    hit = np.flatnonzero(other.prim_id >= 0)
    rows, t, prim_id = rows[hit], other[0][hit], other.prim_id[hit]
    columns: Any = mine
    least, least_id = columns[0][rows], mine.prim_id[rows]
    better = (least_id < 0) | (t < least) | ((t == least) & (prim_id < least_id))
    hit, rows = hit[better], rows[better]
    pairs: Any = zip(mine, other, strict=True)
    for column, theirs in pairs:
        column[rows] = theirs[hit]


def nearest_first(distance: NDArray[np.float64], prim_id: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how to sort the last axis by (distance, id), misses at the end."""
    return np.lexsort((prim_id, distance, prim_id < 0), axis=-1)


class Lists(NamedTuple):
    """Hits of a flat batch of rays, with the ray of each."""

    ray_id: NDArray[np.int64]
    prim_id: NDArray[np.int64]
    t: NDArray[np.float64]
    u: NDArray[np.float64]
    v: NDArray[np.float64]
    front: NDArray[np.bool_]
    part: NDArray[np.int32]

    @classmethod
    def empty(cls) -> Lists:
        """Return no hits."""
        kinds = (np.int64, np.int64, np.float64, np.float64, np.float64, np.bool_, np.int32)
        columns: list[Any] = [np.empty(0, kind) for kind in kinds]
        return cls(*columns)

    def sorted(self, limit: int | None) -> Lists:
        """Return the hits by (ray, t, id), the first `limit` of each ray."""
        order = np.lexsort((self.prim_id, self.t, self.ray_id))
        if limit is not None:
            ray_id = self.ray_id[order]
            starts = np.flatnonzero(np.append(True, ray_id[1:] != ray_id[:-1]))[: len(ray_id)]
            first = np.repeat(starts, np.diff(np.append(starts, len(ray_id))))
            order = order[np.arange(len(order)) - first < limit]
        columns: list[Any] = [column[order] for column in self]
        return Lists(*columns)

    def shaped(self, shape: tuple[int, ...], size: int, opened: OpenParts) -> AllHits:
        """Return sorted hits as a result of the rays' leading shape."""
        columns: list[Any] = list(self[1:6])
        prim_id, t, u, v, front = columns
        hits = AllHits(prim_id, t, u, v, front, offsets_of(self.ray_id, size), shape)
        vars(hits)["_source"] = HitParts(opened), 0, (self.part,)
        return hits


def offsets_of(query: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return where the entries of each query begin, which are sorted by query."""
    return np.append(0, np.cumsum(np.bincount(query, minlength=size))).astype(np.int64)


def joined(lists: list[Lists]) -> Lists:
    """Return the hits of several parts as one."""
    return Lists(*(np.concatenate(columns) for columns in zip(*lists, strict=True)))


def shaped(column: NDArray[Any], shape: tuple[int, ...]) -> Any:
    """Return a column of a flat batch with the shape of the queries; a scalar for a single one."""
    return column.reshape(shape) if shape else column[0].item()
