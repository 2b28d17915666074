"""Numbers of distinct rows and ids; faces of two meshes that meet, numbered anew."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.pairs.face_contacts import kinds_of_contact
from bvh.geometry.pairs.flat_contacts import POINT
from bvh.runtime.arguments import kernel_input

Reals = NDArray[np.float64]
Ids = NDArray[np.int32]
Whole = NDArray[np.int64]


def names_of(rows: NDArray[Any]) -> Whole:
    """Return the rank of each row (n, k) among the distinct rows, equal for equal rows.

    Rows are compared by the last column, then by the one before it, and so on.
    """
    # Numbers that are ordered as the rows, by the columns so far, and a bound of them.
    keys, bound = np.zeros(len(rows), np.int64), 1
    for column in rows.T[::-1]:
        ranks, count = _numbers_of(column)
        if bound * count >= 1 << 63:
            keys, bound = _ranks_of(keys)
        keys, bound = keys * count + ranks, bound * count
    return _ranks_of(keys)[0]


def _numbers_of(column: NDArray[Any]) -> tuple[Whole, int]:
    """Return (numbers, bound): integers in the order of a column, 0 to bound - 1."""
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
    """Return the first ones of equal rows (n, k): their indices, ascending."""
    ranks = names_of(rows)
    first = np.empty(ranks.max(initial=-1) + 1, np.int64)
    # Of several numbers for one place, the last one is kept.
    first[ranks[::-1]] = np.arange(len(rows))[::-1]
    return np.sort(first)


def numbered(ids: NDArray[Any], count: int) -> tuple[Whole, Whole]:
    """Return (distinct, rows): the distinct ones of `ids` (n,), ascending, and where each is there.

    `ids` are 0 to `count` - 1.
    """
    if len(ids) < count // 32:
        return np.unique(ids, return_inverse=True)
    used, rows = np.zeros(count, np.bool_), np.empty(count, np.int64)
    used[ids] = True
    distinct = np.flatnonzero(used)
    rows[distinct] = np.arange(len(distinct))
    return distinct, rows[ids]


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
    """Return (own, other, pairs, shared): those of `pairs` that may share more than a point.

    `meshes` are two of (vertices (n, 3), faces (m, 3)), `pairs` the faces of both that meet. The
    result has pairs by the rows of faces in `own` and `other`; `shared` is what `kinds_of_contact`
    finds.
    """
    shared = np.empty(len(pairs), np.int8)
    own, other = ((kernel_input(vertices), kernel_input(faces)) for vertices, faces in meshes)
    kinds_of_contact(own, other, kernel_input(pairs), shared)
    some = np.flatnonzero(shared != POINT)
    pairs, shared = pairs[some], shared[some]
    ids, points, rows = [], [], []
    for side, (vertices, faces) in enumerate(meshes):
        used, pairs[:, side] = numbered(pairs[:, side], len(faces))
        of_faces, of_corners = numbered(faces[used].reshape(-1), len(vertices))
        ids.append(used.astype(np.int32))
        # Adding 0.0 turns -0.0 into 0.0, so that equal corners get equal numbers.
        points.append(vertices[of_faces] + 0.0)
        rows.append(of_corners.reshape(-1, 3))
    numbers = np.split(names_of(np.concatenate(points)), [len(points[0])])
    this, that = (
        Mesh(points[k][rows[k]], meshes[k][1][ids[k]], numbers[k][rows[k]], ids[k]) for k in (0, 1)
    )
    return this, that, pairs, shared
