"""Surface of finite-element cells: flat cells, and the outer facets of solid ones."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.caller_warnings import warn_caller

Ints = NDArray[np.integer]

# Corners of flat cells, and of the facets of solid ones, in the numbering of VTK and meshio.
FLAT = {"triangle": 3, "quad": 4}
FACETS = {
    "tetra": ((0, 1, 3), (1, 2, 3), (2, 0, 3), (0, 2, 1)),
    "pyramid": ((0, 3, 2, 1), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)),
    "wedge": ((0, 1, 2), (3, 5, 4), (0, 3, 4, 1), (1, 4, 5, 2), (2, 5, 3, 0)),
    "hexahedron": (
        (0, 4, 7, 3), (1, 2, 6, 5), (0, 1, 5, 4), (3, 7, 6, 2), (0, 3, 2, 1), (4, 5, 6, 7),
    ),
    "penta_prism": (
        (0, 4, 3, 2, 1), (5, 6, 7, 8, 9), (0, 1, 6, 5), (1, 2, 7, 6), (2, 3, 8, 7), (3, 4, 9, 8),
        (4, 0, 5, 9),
    ),
    "hexa_prism": (
        (0, 5, 4, 3, 2, 1), (6, 7, 8, 9, 10, 11), (0, 1, 7, 6), (1, 2, 8, 7), (2, 3, 9, 8),
        (3, 4, 10, 9), (4, 5, 11, 10), (5, 0, 6, 11),
    ),
}  # fmt: skip
CORNERS = FLAT | {kind: 1 + max(map(max, facets)) for kind, facets in FACETS.items()}
WIDEST = max(len(facet) for facets in FACETS.values() for facet in facets)

# Other names of kinds; kinds whose corners are in another order.
NAMES = {"quadrilateral": "quad", "tetrahedron": "tetra"}
ORDERS = {"pixel": ("quad", [0, 1, 3, 2]), "voxel": ("hexahedron", [0, 1, 3, 2, 4, 5, 7, 6])}

# Kinds without a surface.
THIN = {"empty", "vertex", "line", "curve"}


def surface_of_cells(
    points: NDArray[np.float64], blocks: list[tuple[str, Any, Ints]]
) -> tuple[Ints, NDArray[np.int64], NDArray[np.int32]]:
    """Return corners and offsets of the polygons on the surface of cells, and the cell of each.

    Flat cells are taken as they are, and of solid cells the facets that no other cell shares, solid
    or flat, wound so that they face outward. Points and lines have no surface; cells of unknown
    kinds are left out with a warning. Of curved cells only the corners are used.

    `blocks` holds the kind of some cells, whose trailing digits are ignored, their vertices, a cell
    a row, and their numbers. Corners and offsets are as of `polygons.corner_lists`, but unchecked.
    """
    flat: list[tuple[Ints, Ints]] = []
    solid: list[tuple[str, Ints, Ints]] = []
    for name, cells, ids in blocks:
        kind = name.lower().removeprefix("vtk_lagrange_").removeprefix("vtk_bezier_")
        kind = kind.rstrip("0123456789")
        kind = NAMES.get(kind, kind)
        if len(ids) == 0 or kind in THIN:
            continue
        if kind != "polygon" and kind not in CORNERS | ORDERS:
            warn_caller(
                f"{len(ids)} cells of the kind {name!r} are left out: only others are known"
            )
            continue
        rows = np.asarray(cells)
        if kind in ORDERS:
            kind, corner_order = ORDERS[kind]
            rows = rows[:, corner_order]
        if rows.dtype.kind not in "iu":
            raise TypeError(f"cells must be integers, got an array of {rows.dtype}")
        rows = rows[:, : CORNERS.get(kind)].astype(np.int64)
        if kind in FACETS:
            solid.append((kind, rows, ids))
        else:
            flat.append((rows, ids))
    flat += _outside(points, flat, solid)
    if not flat:
        return np.empty(0, np.int32), np.zeros(1, np.int64), np.empty(0, np.int32)
    corners = np.concatenate([rows.reshape(-1) for rows, _ in flat])
    lengths = np.concatenate([np.full(len(rows), rows.shape[1]) for rows, _ in flat])
    ids = np.concatenate([ids for _, ids in flat])
    order = np.argsort(ids, kind="stable")
    begins, lengths = (np.cumsum(lengths) - lengths)[order], lengths[order]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    sources = np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])
    return corners[sources], offsets, ids[order].astype(np.int32)


def _outside(
    points: NDArray[np.float64], flat: list[tuple[Ints, Ints]], solid: list[tuple[str, Ints, Ints]]
) -> Iterator[tuple[Ints, Ints]]:
    """Yield the facets of solid cells that no other cell shares."""
    if not solid:
        return
    facets = []
    for kind, cells, ids in solid:
        if cells.min() < 0 or cells.max() >= len(points):
            raise ValueError(f"cells must index the {len(points)} vertices")
        # Cells that are not finite have no boundary facets, and cannot be hit.
        with np.errstate(all="ignore"):
            local = points[cells]
            local -= local.mean(axis=1, keepdims=True)
            # Relative to the cell's size, so that no product over- or underflows.
            local /= np.abs(local).max(axis=(1, 2), keepdims=True)
        for corners in FACETS[kind]:
            rows, spans = cells[:, corners], local[:, corners]
            with np.errstate(invalid="ignore"):
                normal = np.cross(spans, np.roll(spans, -1, axis=1)).sum(axis=1)
                # Files differ on which way the first facet of a wedge faces.
                inward = (normal * spans.mean(axis=1)).sum(axis=1) < 0.0
            facets.append((np.where(inward[:, None], rows[:, ::-1], rows), ids))
    known = [rows for rows, _ in facets + flat if rows.shape[1] <= WIDEST]
    keys = np.concatenate([_keys(rows) for rows in known])
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
    """Return the vertices of facets in ascending order, each once, and -1 where there is none."""
    keys = np.full((len(rows), WIDEST), -1, np.int64)
    keys[:, : rows.shape[1]] = np.sort(rows, axis=1)
    # A hexahedron may have two corners in one, and a triangle for a facet.
    keys[:, 1:][keys[:, 1:] == keys[:, :-1]] = -1
    return np.sort(keys, axis=1)
