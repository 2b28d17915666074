"""Numbers of distinct rows and ids; faces of two meshes that meet, numbered anew."""

from __future__ import annotations

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


def row_ranks(rows: NDArray[Any]) -> Whole:
    """Return the rank of each row (n, k) among the distinct rows, equal for equal rows.

    Rows are compared by the last column, then by the one before it, and so on.
    """
    # The keys, all below `bound`, have the order of the rows by the columns so far.
    keys, bound = np.zeros(len(rows), np.int64), 1
    for column in rows.T[::-1]:
        ranks, count = _ordered_integers(column)
        if bound * count >= 1 << 63:
            keys, bound = _ranks_of(keys)
        keys, bound = keys * count + ranks, bound * count
    return _ranks_of(keys)[0]


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


def first_rows(rows: NDArray[Any]) -> Whole:
    """Return the index of the first of each group of equal rows (n, k), ascending."""
    ranks = row_ranks(rows)
    first = np.empty(ranks.max(initial=-1) + 1, np.int64)
    # In reverse, so that the first of equal rows is written last.
    first[ranks[::-1]] = np.arange(len(rows))[::-1]
    return np.sort(first)


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


@inlined
def _end(point_ids, edge, higher):
    """Return the higher or the lower point of an edge, 3 i + k of face i."""
    i, k = edge // 3, edge % 3
    p, q = point_ids[i, k], point_ids[i, k + 1 if k < 2 else 0]
    return max(p, q) if higher else min(p, q)


@entry
def sort_edges(point_ids, order, first, counts):
    """Sort the edges of faces by their ends: write `order` (3 m,) and `first` (3 m,).

    `point_ids` (m, 3) are numbers of points; edge 3 i + k of face i begins at its corner k. `order`
    gets all edges by their lower point, then by the higher one, then by number; `first`, for each
    edge, the first one with the same ends. `counts` (n + 1,) is memory for n points.
    """
    # Sort by the higher point into `first`, then by the lower one into `order`: both by counting.
    for higher in (True, False):
        counts[:] = 0
        for edge in range(len(order)):
            counts[_end(point_ids, edge, higher) + 1] += 1
        for point in range(1, len(counts)):
            counts[point] += counts[point - 1]
        for n in range(len(order)):
            edge = n if higher else first[n]
            point = _end(point_ids, edge, higher)
            if higher:
                first[counts[point]] = edge
            else:
                order[counts[point]] = edge
            counts[point] += 1
    last, low, high = np.int64(0), np.int64(-1), np.int64(-1)
    for n in range(len(order)):
        edge = order[n]
        p, q = _end(point_ids, edge, False), _end(point_ids, edge, True)
        if p != low or q != high:
            last, low, high = edge, p, q
        first[edge] = last


@entry
def connect(a, b, part):
    """Write to `part` (n,) the lowest number that is connected to each, by neighbours a[i], b[i].

    On entry, each is its own part.
    """
    # A part is a tree whose root is its lowest number; paths are halved as they are followed.
    for n in range(len(a)):
        i, j = a[n], b[n]
        while part[i] != i:
            part[i] = part[part[i]]
            i = part[i]
        while part[j] != j:
            part[j] = part[part[j]]
            j = part[j]
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
    pairs, shared = pairs[some], shared[some]
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
    sort_edges(np.arange(3).reshape(1, 3), ids, ids.copy(), np.zeros(4, np.int64))
    connect(ids, ids, ids.copy())
