"""Numbers of distinct rows and ids; faces of two meshes that meet, numbered anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.pairs.face_contacts import kinds_of_contact
from bvh.geometry.pairs.flat_contacts import POINT
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, warms

Reals = NDArray[np.float64]
Ids = NDArray[np.int32]
Whole = NDArray[np.int64]
Columns = Sequence[NDArray[Any]] | NDArray[Any]


def row_ranks(rows: NDArray[Any]) -> Whole:
    """Return the rank of each row (n, k) among the distinct rows, equal for equal rows.

    Rows are compared by the last column, then by the one before it, and so on.
    """
    return _ranks_of(_keys_of(rows.T))[0]


def come_in_pairs(columns: Columns) -> bool:
    """Return whether there is an even number of each row of some columns (n,)."""
    keys = np.sort(_keys_of(columns))
    return len(keys) % 2 == 0 and bool((keys[::2] == keys[1::2]).all())


def _keys_of(columns: Columns) -> Whole:
    """Return integers (n,) in the order of the rows of some columns (n,), as in `row_ranks`."""
    # The keys, all below `bound`, have the order of the rows by the columns so far.
    keys, bound = np.zeros(len(columns[0]), np.int64), 1
    for column in columns[::-1]:
        ranks, count = _ordered_integers(column)
        if bound * count >= 1 << 63:
            keys, bound = _ranks_of(keys)
        keys, bound = keys * count + ranks, bound * count
    return keys


def _ordered_integers(column: NDArray[Any]) -> tuple[Whole, int]:
    """Return (integers, bound): integers from 0 to bound - 1 that are ordered as a column."""
    if column.dtype.kind == "i" and len(column):
        low, high = int(column.min()), int(column.max())
        if high - low < 1 << 20:
            return column.astype(np.int64) - low, high - low + 1
    return _ranks_of(column)


def _ranks_of(column: NDArray[Any]) -> tuple[Whole, int]:
    """Return (ranks, count): the rank of each number among the distinct ones, and their count."""
    # An unstable sort, which is the fastest, as equal numbers get equal ranks.
    order, ranks = np.argsort(column), np.empty(len(column), np.int64)
    ordered = column[order]
    ranks[order] = np.cumsum(np.concatenate([[0], ordered[1:] != ordered[:-1]]))[: len(column)]
    return ranks, int(ranks.max(initial=0)) + 1


def numbered(ids: NDArray[Any], count: int) -> tuple[Whole, Whole]:
    """Return (distinct, rows): the distinct `ids`, ascending, and the row there of each id.

    `ids` (n,) are 0 to `count` - 1.
    """
    # To sort a few ids is faster than to go through flags of all `count` numbers.
    if len(ids) < count // 32:
        return np.unique(ids, return_inverse=True)
    used, rows = np.zeros(count, np.bool_), np.empty(count, np.int64)
    used[ids] = True
    distinct = np.flatnonzero(used)
    rows[distinct] = np.arange(len(distinct))
    return distinct, rows[ids]


@entry
def sort_edges(low, high, order, first, counts):
    """Sort edges by their ends: write `order` (m,) and `first` (m,).

    `low` and `high` (m,) are numbers of their lower and higher ends. `order` gets all edges by
    `low`, then by `high`, then by number; `first`, for each edge, the first one with the same ends.
    `counts` (n + 1,) is memory for n numbers.
    """
    # Sort by `high` into `first`, then by `low` into `order`: both by counting.
    for step in range(2):
        ends = high if step == 0 else low
        counts[:] = 0
        for edge in range(len(ends)):
            counts[ends[edge] + 1] += 1
        for k in range(1, len(counts)):
            counts[k] += counts[k - 1]
        for n in range(len(ends)):
            edge = n if step == 0 else first[n]
            place = counts[ends[edge]]
            counts[ends[edge]] = place + 1
            if step == 0:
                first[place] = edge
            else:
                order[place] = edge
    last = np.int64(0)
    for n in range(len(order)):
        edge = order[n]
        if n == 0 or low[edge] != low[last] or high[edge] != high[last]:
            last = edge
        first[edge] = last


def sorted_edges(ends: Whole) -> tuple[Whole, Whole]:
    """Return both results of `sort_edges` for edges (m, 2), in either direction."""
    order, first = np.empty((2, len(ends)), np.int64)
    one, two = ends.T
    counts = np.empty(ends.max(initial=0) + 2, np.int64)
    sort_edges(np.minimum(one, two), np.maximum(one, two), order, first, counts)
    return order, first


@inlined
def _root(part, i):
    """Return the root of i, and halve the path to it."""
    while part[i] != i:
        part[i] = part[part[i]]
        i = part[i]
    return i


@entry
def connect(a, b, part):
    """Write to `part` (n,) the lowest number that is connected to each, by neighbours a[i], b[i].

    On entry, each is its own part.
    """
    # A part is a tree whose root is its lowest number.
    for n in range(len(a)):
        i, j = _root(part, a[n]), _root(part, b[n])
        part[max(i, j)] = min(i, j)
    for i in range(len(part)):
        part[i] = part[part[i]]


def connected(a: Whole, b: Whole, count: int) -> Whole:
    """Return (count,) the lowest number that is connected to each, by neighbours a[i], b[i]."""
    part = np.arange(count)
    connect(kernel_input(a), kernel_input(b), part)
    return part


class Mesh(NamedTuple):
    """Some faces of one of two meshes."""

    corners: Reals  # (m, 3, 3)
    faces: Ids  # (m, 3): vertices
    point_ids: Whole  # (m, 3): numbers of points, equal in both meshes for corners at one point
    ids: Ids  # (m,): numbers of the faces in the whole mesh

    def edge(self, i: int, k: int) -> tuple[int, int]:
        """Return the point ids of the ends of edge k of face i, the smaller one first."""
        a, b = int(self.point_ids[i, k]), int(self.point_ids[i, (k + 1) % 3])
        return (a, b) if a < b else (b, a)


def faces_that_meet(
    meshes: tuple[tuple[Reals, Ids], tuple[Reals, Ids]], pairs: Ids
) -> tuple[Mesh, Mesh, Ids, NDArray[np.int8]]:
    """Return (own, other, pairs, shared) of the pairs of faces that may share more than a point.

    `meshes` are two of (vertices (n, 3), faces (m, 3)), `pairs` (k, 2) all faces of both that meet.
    The pairs that are returned are rows of `own` and `other`, which have the faces of these pairs
    alone. `shared` is the kind of contact of each (see `kinds_of_contact`).
    """
    shared = np.empty(len(pairs), np.int8)
    arrays = [(kernel_input(vertices), kernel_input(faces)) for vertices, faces in meshes]
    kinds_of_contact(*arrays, kernel_input(pairs), shared)
    some = np.flatnonzero(shared != POINT)
    pairs, shared = pairs.take(some, 0), shared.take(some)
    ids, points, rows = [], [], []
    for side, (vertices, faces) in enumerate(meshes):
        used, pairs[:, side] = numbered(pairs[:, side], len(faces))
        used_vertices, vertex_rows = numbered(faces[used].reshape(-1), len(vertices))
        ids.append(used.astype(np.int32))
        # Adding 0.0 turns -0.0 into 0.0, so that equal corners get equal numbers.
        points.append(vertices[used_vertices] + 0.0)
        rows.append(vertex_rows.reshape(-1, 3))
    point_ids = np.split(row_ranks(np.concatenate(points)), [len(points[0])])
    own, other = (
        Mesh(points[k][rows[k]], meshes[k][1][ids[k]], point_ids[k][rows[k]], ids[k])
        for k in (0, 1)
    )
    return own, other, pairs, shared


@warms("numbers of edges")
def _warm() -> None:
    """Compile the kernels of this module."""
    ids = np.zeros(3, np.int64)
    sorted_edges(np.zeros((1, 2), np.int64))
    connected(ids, ids, 3)
