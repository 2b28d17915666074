"""The surface of cells: their triangles and polygons, and what is outside of solids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[Any]

# Corners of flat cells, and of the facets of solid ones; VTK numbers them so, and meshio.
FLAT = {"triangle": 3, "quad": 4}
FACETS = {
    "tetra": ((0, 1, 3), (1, 2, 3), (2, 0, 3), (0, 2, 1)),
    "pyramid": ((0, 3, 2, 1), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)),
    "wedge": ((0, 1, 2), (3, 5, 4), (0, 3, 4, 1), (1, 4, 5, 2), (2, 5, 3, 0)),
    "hexahedron": (
        (0, 4, 7, 3), (1, 2, 6, 5), (0, 1, 5, 4), (3, 7, 6, 2), (0, 3, 2, 1), (4, 5, 6, 7),
    ),
}  # fmt: skip
CORNERS = FLAT | {kind: 1 + max(map(max, facets)) for kind, facets in FACETS.items()}


def surface_of_cells(
    points: NDArray[np.float64], blocks: list[tuple[str, Any, Ints]]
) -> tuple[Ints, NDArray[np.int64], NDArray[np.int32]]:
    """Return the polygons that cells show, and the cell of each.

    Flat cells are taken as they are. Of solid cells those facets are taken that no other cell has,
    solid or flat, wound so that they face outward. What has neither, such as points and lines, or
    is of a kind that is not known here, is left out. Of curved cells the corners alone are used.

    Parameters
    ----------
    points : ndarray of float64, shape (n, 3)
    blocks : list of (str, ndarray of int or pair of ndarray, ndarray of int)
        The kind of some cells, digits behind it not counting; their vertices, a cell a row, or for
        "polygon" a pair (corners, offsets); and the number of each cell.

    Returns
    -------
    corners, offsets
        As `polygons.corner_lists` returns them, unchecked.
    cell : ndarray of int32, shape (k,)
    """
    flat: list[tuple[Ints, Ints]] = []
    solid: list[tuple[str, Ints, Ints]] = []
    ragged: list[tuple[Ints, Ints, Ints]] = []
    for name, cells, ids in blocks:
        kind = name.rstrip("0123456789")
        if kind == "polygon":
            ragged.append((*cells, ids))
        elif kind in CORNERS and len(cells):
            rows = np.asarray(cells)[:, : CORNERS[kind]]
            if kind in FLAT:
                flat.append((rows, ids))
            else:
                solid.append((kind, rows, ids))
    flat += _outside(points, flat, solid)
    lists = [_as_lists(rows, ids) for rows, ids in flat]
    lists += [(corners, np.diff(offsets), ids) for corners, offsets, ids in ragged]
    if not lists:
        return np.empty(0, np.int32), np.zeros(1, np.int64), np.empty(0, np.int32)
    corners, lengths, ids = (np.concatenate(parts) for parts in zip(*lists, strict=True))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    order = np.argsort(ids, kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        corners, offsets = _reordered(corners, offsets, order)
    return corners, offsets, ids[order].astype(np.int32)


def _as_lists(rows: Ints, ids: Ints) -> tuple[Ints, Ints, Ints]:
    return rows.reshape(-1), np.full(len(rows), rows.shape[1]), ids


def _reordered(corners: Ints, offsets: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Return lists in another order."""
    lengths = np.diff(offsets)[order]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(offsets[:-1][order] - ends[:-1], lengths) + np.arange(ends[-1])
    return corners[places], ends


def _outside(
    points: NDArray[np.float64],
    flat: list[tuple[Ints, Ints]],
    solid: list[tuple[str, Ints, Ints]],
) -> Iterator[tuple[Ints, Ints]]:
    """Yield the facets of solid cells that no other cell has."""
    if not solid:
        return
    facets = []
    for kind, cells, ids in solid:
        if cells.min() < 0 or cells.max() >= len(points):
            raise ValueError(f"cells must index the {len(points)} vertices")
        middle = points[cells].mean(axis=1)
        for corners in FACETS[kind]:
            rows = cells[:, corners]
            spans = points[rows] - middle[:, None]
            normal = np.cross(spans[:, 1] - spans[:, 0], spans[:, 2] - spans[:, 0])
            # What files call the first facet of a wedge is outside in some and inside in others.
            inward = (normal * spans[:, 0]).sum(axis=1) < 0.0
            facets.append((np.where(inward[:, None], rows[:, ::-1], rows), ids))
    keys = np.concatenate([_keys(rows) for rows, _ in facets + flat])
    order = np.lexsort(keys.T)
    step = np.r_[True, (keys[order][1:] != keys[order][:-1]).any(axis=1), True]
    single = np.empty(len(keys), np.bool_)
    single[order] = step[1:] & step[:-1]
    begin = 0
    for rows, ids in facets:
        alone = single[begin : begin + len(rows)]
        begin += len(rows)
        yield rows[alone], ids[alone]


def _keys(rows: Ints) -> Ints:
    """Return the vertices of facets in ascending order, four columns, -1 where there is none."""
    keys = np.full((len(rows), 4), -1, np.int64)
    keys[:, : rows.shape[1]] = np.sort(rows, axis=1)
    return keys
