"""Merging of answers from parts of a mesh: the least by (t, id), sums, sorted lists.

Distances of different parts can be compared because t is the real distance, correctly rounded, for
each triangle alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.queries.results import AllHits, ClosestPoints, Hits


class Closest(NamedTuple):
    """Closest hits so far of a flat batch of rays, as columns; misses have t inf and id -1."""

    t: NDArray[np.float64]
    prim_id: NDArray[np.int64]
    u: NDArray[np.float64]
    v: NDArray[np.float64]
    front: NDArray[np.bool_]

    @classmethod
    def misses(cls, n: int) -> Closest:
        """Return n misses."""
        return cls(
            np.full(n, np.inf), np.full(n, -1, np.int64), np.full(n, np.nan), np.full(n, np.nan),
            np.zeros(n, np.bool_),
        )  # fmt: skip

    def take(self, rows: NDArray[np.int64], other: Closest) -> None:
        """Replace the hits of some rays by those of another part that are closer."""
        t, prim_id = self.t[rows], self.prim_id[rows]
        hit = other.prim_id >= 0
        better = hit & (
            (prim_id < 0) | (other.t < t) | ((other.t == t) & (other.prim_id < prim_id))
        )
        for mine, theirs in zip(self, other, strict=True):
            mine[rows[better]] = theirs[better]

    def shaped(self, shape: tuple[int, ...]) -> Hits:
        """Return them as a result of the rays' leading shape."""
        t, prim_id, u, v, front = (shaped(column, shape) for column in self)
        return Hits(t, prim_id, u, v, front)


class Nearest(NamedTuple):
    """Closest points so far of a flat batch of points, as columns."""

    distance: NDArray[np.float64]
    position: NDArray[np.float64]
    prim_id: NDArray[np.int64]
    u: NDArray[np.float64]
    v: NDArray[np.float64]

    @classmethod
    def misses(cls, n: int) -> Nearest:
        """Return n misses."""
        return cls(
            np.full(n, np.inf), np.full((n, 3), np.nan), np.full(n, -1, np.int64),
            np.full(n, np.nan), np.full(n, np.nan),
        )  # fmt: skip

    def take(self, rows: NDArray[np.int64], other: Nearest) -> None:
        """Replace the points of some queries by those of another part that are closer."""
        d, prim_id = self.distance[rows], self.prim_id[rows]
        better = (other.prim_id >= 0) & (
            (prim_id < 0)
            | (other.distance < d)
            | ((other.distance == d) & (other.prim_id < prim_id))
        )
        for mine, theirs in zip(self, other, strict=True):
            mine[rows[better]] = theirs[better]

    def shaped(self, shape: tuple[int, ...]) -> ClosestPoints:
        """Return them as a result of the points' leading shape."""
        columns = (shaped(c, (*shape, 3)) if c.ndim == 2 else shaped(c, shape) for c in self)
        distance, position, prim_id, u, v = columns
        return ClosestPoints(distance, position, prim_id, u, v)


class Lists(NamedTuple):
    """Hits of a flat batch of rays, in any order, with the ray of each."""

    ray_id: NDArray[np.int64]
    prim_id: NDArray[np.int64]
    t: NDArray[np.float64]
    u: NDArray[np.float64]
    v: NDArray[np.float64]
    front: NDArray[np.bool_]

    @classmethod
    def empty(cls) -> Lists:
        """Return no hits."""
        kinds = (np.int64, np.int64, np.float64, np.float64, np.float64, np.bool_)
        columns: list[Any] = [np.empty(0, kind) for kind in kinds]
        return cls(*columns)

    def sorted(self, shape: tuple[int, ...], size: int, limit: int | None) -> AllHits:
        """Return the lists of each ray by (t, id), the first `limit` of each."""
        order = np.lexsort((self.prim_id, self.t, self.ray_id))
        ray_id = self.ray_id[order]
        offsets = np.searchsorted(ray_id, np.arange(size + 1)).astype(np.int64)
        if limit is not None:
            kept = np.arange(len(order)) - offsets[ray_id] < limit
            order, ray_id = order[kept], ray_id[kept]
            offsets = np.searchsorted(ray_id, np.arange(size + 1)).astype(np.int64)
        columns: list[Any] = [column[order] for column in self[1:]]
        prim_id, t, u, v, front = columns
        return AllHits(prim_id, t, u, v, front, offsets, shape)


def joined(lists: list[Lists]) -> Lists:
    """Return the hits of several parts as one."""
    return Lists(*(np.concatenate(columns) for columns in zip(*lists, strict=True)))


def shaped(column: NDArray[Any], shape: tuple[int, ...]) -> Any:
    """Return a column of a flat batch with the shape of the queries; a scalar for a single one."""
    return column.reshape(shape) if shape else column[0].item()
