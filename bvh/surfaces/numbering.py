"""Numbers of distinct rows, edges and connected parts; two meshes that meet, with point ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.pairs.face_contacts import kinds_of_contact
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


@entry
def match_rows(rows, table, first):
    """Write the number of the first row that is equal to each of `rows` (n, k), to `first` (n,).

    `table`, a power of two above n, is memory of -1: a hash table with open addressing.
    """
    for n in range(len(rows)):
        code = np.int64(0)
        for k in range(rows.shape[1]):
            # An odd number without a pattern, 2**64 divided by the golden ratio, as an int64.
            code = (code ^ rows[n, k]) * np.int64(-0x61C8864680B583EB)
            code ^= code >> 32
        at, same = code & (len(table) - 1), False
        while not same and table[at] >= 0:
            same = True
            for k in range(rows.shape[1]):
                same = same and rows[table[at], k] == rows[n, k]
            at = at if same else (at + 1) & (len(table) - 1)
        if not same:
            table[at] = n
        first[n] = table[at]


def first_rows(rows: NDArray[Any]) -> Whole:
    """Return (n,) the number of the first row that is equal to each of `rows` (n, k).

    Rows are of integers or, without -0.0 and NaN, of doubles.
    """
    first, size = np.empty(len(rows), np.int64), 1 << (2 * len(rows)).bit_length()
    match_rows(kernel_input(rows).view(np.int64), np.full(size, -1, np.int32), first)
    return first


def first_edges(ends: NDArray[Any]) -> Whole:
    """Return (n,) the first of some edges (n, 2) that has the same ends, in either direction."""
    one, two = ends.T
    return first_rows(np.stack([np.minimum(one, two), np.maximum(one, two)], axis=1))


def runs(ordered: Whole) -> tuple[Whole, Whole]:
    """Return (starts, lengths) of the runs of equal numbers in an array."""
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)])
    return starts, np.diff(starts, append=len(ordered))


def next_corner(corners: Whole) -> Whole:
    """Return the next corner in the same face for each corner; corner k of face i is 3 i + k."""
    return np.where(corners % 3 == 2, corners - 2, corners + 1)


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
    """One of two meshes."""

    vertices: Reals  # (n, 3)
    faces: Ids  # (m, 3)
    point_ids: Ids  # (n,): numbers of points, equal for vertices of both at one point; some unset

    def corners(self, faces: Any) -> Reals:
        """Return the corners (..., 3, 3) of a face or of many."""
        return np.asarray(self.vertices[self.faces[faces]])

    def edge(self, i: int, k: int) -> tuple[int, int]:
        """Return the point ids of the ends of edge k of face i, the smaller one first."""
        a, b = self.point_ids[self.faces[i, [k, (k + 1) % 3]]].tolist()
        return (a, b) if a < b else (b, a)


def kinds_of_pairs(
    meshes: tuple[tuple[Reals, Ids], tuple[Reals, Ids]], pairs: Ids
) -> tuple[Mesh, Mesh, Ids, NDArray[np.int8]]:
    """Return (own, other, pairs, shared) of pairs of faces of two meshes that meet.

    `meshes` are two of (vertices (n, 3), faces (m, 3)), `pairs` (k, 2) all faces of both that meet.
    `shared` is the kind of contact of each pair (see `kinds_of_contact`). The point ids of vertices
    are set where a pair may share a segment.
    """
    shared = np.empty(len(pairs), np.int8)
    arrays = [(kernel_input(vertices), kernel_input(faces)) for vertices, faces in meshes]
    flags = [np.zeros(len(vertices), np.bool_) for vertices, _ in arrays]
    kinds_of_contact(*arrays, kernel_input(pairs), shared, *flags)
    used = [np.flatnonzero(some) for some in flags]
    # Adding 0.0 turns -0.0 into 0.0.
    firsts = first_rows(np.concatenate([arrays[k][0][used[k]] for k in (0, 1)]) + 0.0)
    point_ids = [np.empty(len(some), np.int32) for some in flags]
    for ids, some, numbers in zip(point_ids, used, np.split(firsts, [len(used[0])]), strict=True):
        ids[some] = numbers
    own, other = (Mesh(*arrays[k], kernel_input(point_ids[k])) for k in (0, 1))
    return own, other, pairs, shared


@warms("numbers of edges")
def _warm() -> None:
    """Compile the kernels of this module."""
    ids = np.zeros(3, np.int64)
    first_rows(np.zeros((1, 2), np.int64))
    connected(ids, ids, 3)
