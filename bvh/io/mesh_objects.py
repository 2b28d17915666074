"""Points and polygons of objects of PyVista, Open3D and meshio, without importing these.

The polygons of finite-element cells are flat cells, and the outer facets of solid ones. Lines and
points of objects that have no other faces become faces without area.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.io.polygons import checked_corners
from bvh.runtime import arguments
from bvh.runtime.caller_warnings import warn_caller

Ints = NDArray[np.integer]
Points = NDArray[np.float64]
# Vertices, and faces (i, i, i) of points or (i, j, j) of segments.
Thin = tuple[NDArray[np.float64], NDArray[np.int32]]
# Cells of one kind and size: the kind, a row of vertices for each, their numbers.
Block = tuple[str, Any, Ints]
Cells = tuple[Ints, Ints]

# Kinds of curved cells in the order of their numbers, from 21, 68 and 75 on.
_CURVED = ("line", "triangle", "quad", "tetra", "hexahedron", "wedge", "pyramid")
# Kinds of VTK's cells by their numbers; curved ones have the kind of their corners.
VTK_KINDS = {
    0: "empty", 1: "vertex", 2: "vertex", 3: "line", 4: "line", 5: "triangle", 7: "polygon",
    8: "pixel", 9: "quad", 10: "tetra", 11: "voxel", 12: "hexahedron", 13: "wedge", 14: "pyramid",
    15: "penta_prism", 16: "hexa_prism", **dict(enumerate(_CURVED, 21)), 28: "quad",
    29: "hexahedron", 30: "quad", 31: "wedge", 32: "wedge", 33: "hexahedron", 34: "triangle",
    35: "line", 36: "polygon", 37: "pyramid",
    # Lagrange cells, then Bezier cells.
    **dict(enumerate(2 * _CURVED, 68)),
}  # fmt: skip
VTK_STRIP, VTK_CURVED_POLYGON = 6, 36

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


class Polygons(NamedTuple):
    """Polygon i has the vertices ``points[corners[offsets[i] : offsets[i + 1]]]``.

    It is the face or cell ``ids[i]`` of its source.
    """

    points: NDArray[np.float64]
    corners: NDArray[np.int32]
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32] | None  # None: 0, 1, 2, ...


def _libraries_of(mesh: object) -> set[str]:
    """Return the names of the packages that define an object's class and its bases."""
    return {kind.__module__.partition(".")[0] for kind in type(mesh).__mro__}


def is_graph(value: object) -> bool:
    """Return whether an object is like a `trimesh.Scene`: it has a graph of nodes and geometry."""
    return hasattr(value, "graph") and hasattr(value, "geometry")


def polygons_of(mesh: object) -> Polygons | None:
    """Return the polygons of a mesh of Open3D, PyVista or meshio; None for any other object."""
    libraries = _libraries_of(mesh)
    if "open3d" in libraries:
        return _of_open3d(mesh)
    if "pyvista" in libraries:
        library, polygons = "pyvista", _of_pyvista(mesh)
    elif "meshio" in libraries and hasattr(mesh, "cells"):
        library, polygons = "meshio", _of_meshio(mesh)
    else:
        return None
    if len(polygons.offsets) < 2 and len(polygons.points):
        given = f"{library}'s {type(mesh).__name__} of {len(polygons.points)} points and none"
        raise ValueError(f"mesh must have faces, got {given}")
    return polygons


def _checked(
    points: ArrayLike, corners: Ints, offsets: ArrayLike, ids: NDArray[np.int32] | None = None
) -> Polygons:
    """Return `Polygons` of these fields; raise if points, corners or offsets are not valid."""
    points = arguments.rows("vertices", points)
    offsets = np.asarray(offsets, np.int64)
    return Polygons(points, checked_corners(corners, offsets, len(points)), offsets, ids)


def _of_pyvista(mesh: Any) -> Polygons:
    """Return the polygons of a data set of PyVista, or of all its blocks, with ids of cells."""
    _check_cells(mesh)
    if hasattr(mesh, "n_blocks"):
        mesh = mesh.combine()
    if getattr(mesh, "is_all_triangles", False) and not mesh.n_strips:
        # A row of `mesh.faces` is the number of corners, 3, and the corners.
        faces = np.asarray(mesh.faces).reshape(-1, 4)[:, 1:]
        return _checked(mesh.points, faces.reshape(-1), 3 * np.arange(len(faces) + 1))
    if not hasattr(mesh, "cell_connectivity"):
        mesh = mesh.cast_to_unstructured_grid()
    # PyVista 0.49 has renamed `offset`.
    name = "cell_offsets" if hasattr(mesh, "cell_offsets") else "offset"
    corners, offsets = np.asarray(mesh.cell_connectivity), np.asarray(getattr(mesh, name))
    points, numbers = np.asarray(mesh.points, np.float64), np.asarray(mesh.celltypes)
    lengths = np.diff(offsets)
    blocks: list[Block] = []
    # Cells of one type, `number`, may have several numbers of corners: polygons, strips. Type and
    # length are combined in one integer, which is faster to sort.
    longest = int(lengths.max(initial=0)) + 1
    for code in np.unique(numbers.astype(np.int64) * longest + lengths).tolist():
        number, length = divmod(code, longest)
        ids = np.flatnonzero((numbers == number) & (lengths == length))
        cells = corners[offsets[ids][:, None] + np.arange(length)]
        if number == VTK_STRIP:
            # Triangles strip by strip. Every other one is reversed, so that all are wound alike.
            steps = np.arange(max(length - 2, 0))[:, None] + np.arange(3)
            steps[1::2, 1:] = steps[1::2, :0:-1]
            blocks.append(("triangle", cells[:, steps].reshape(-1, 3), np.repeat(ids, len(steps))))
        elif number == VTK_CURVED_POLYGON:
            # The first half of the points are corners, the others are on the edges between them.
            blocks.append(("polygon", cells[:, : length // 2], ids))
        else:
            blocks.append((VTK_KINDS.get(number, f"VTK {number}"), cells, ids))
    return _checked(points, *_surface_of_cells(points, blocks))


def _check_cells(mesh: Any) -> None:
    """Check that a data set, or each of its blocks, has cells."""
    if hasattr(mesh, "n_blocks"):
        for block in mesh:
            _check_cells(block)
    elif mesh is not None and not hasattr(mesh, "n_cells"):
        raise TypeError(f"mesh must have cells, got pyvista's {type(mesh).__name__}")


def _of_open3d(mesh: Any) -> Polygons:
    """Return the triangles of a mesh of Open3D, of its legacy or its tensor interface."""
    if hasattr(mesh, "triangles"):
        points, faces = np.asarray(mesh.vertices), np.asarray(mesh.triangles)
    elif hasattr(mesh, "triangle"):
        # Either map may lack its entry if the mesh is empty.
        has_points, has_faces = "positions" in mesh.vertex, "indices" in mesh.triangle
        points = mesh.vertex["positions"].cpu().numpy() if has_points else np.empty((0, 3))
        faces = mesh.triangle["indices"].cpu().numpy() if has_faces else np.empty(0, np.int32)
    else:
        raise TypeError(f"mesh must have triangles, got open3d's {type(mesh).__name__}")
    faces = faces.reshape(-1, 3)
    return _checked(points, faces.reshape(-1), 3 * np.arange(len(faces) + 1))


def _of_meshio(mesh: Any) -> Polygons:
    """Return the polygons of a mesh of meshio; cells are numbered through all its blocks."""
    ends = np.cumsum([len(block.data) for block in mesh.cells])
    pairs = zip(mesh.cells, ends, strict=True)
    blocks = [(part.type, part.data, np.arange(end - len(part.data), end)) for part, end in pairs]
    points = _in_space(mesh.points)
    return _checked(points, *_surface_of_cells(points, blocks))


def _surface_of_cells(
    points: Points, blocks: list[Block]
) -> tuple[Ints, NDArray[np.int64], NDArray[np.int32]]:
    """Return corners and offsets of the polygons on the surface of cells, and the cell of each.

    Trailing digits of kinds are ignored. Flat cells stay as they are. Solid cells are replaced by
    the facets that no other cell shares, solid or flat, wound so that they face outward. Points and
    lines have no surface; cells of unknown kinds are left out with a warning. Of curved cells only
    the corners are used. Corners and offsets are as in `Polygons`, unchecked.
    """
    flat, solid = list[Cells](), list[Block]()
    for name, cells, ids in blocks:
        kind = name.lower().removeprefix("vtk_lagrange_").removeprefix("vtk_bezier_")
        kind = kind.rstrip("0123456789")
        kind = NAMES.get(kind, kind)
        if len(ids) == 0 or kind in THIN:
            continue
        if kind != "polygon" and kind not in CORNERS | ORDERS:
            what = f"{len(ids)} cells of the kind {name!r}"
            warn_caller(f"{what} are left out: this kind is not known")
            continue
        rows = np.asarray(cells)
        if kind in ORDERS:
            kind, corner_order = ORDERS[kind]
            rows = rows[:, corner_order]
        if rows.dtype.kind not in "iu":
            raise TypeError(f"cells must be integers, got an array of {rows.dtype}")
        # Polygons, which are not in CORNERS, keep all vertices.
        rows = rows[:, : CORNERS.get(kind)].astype(np.int64)
        if kind in FACETS:
            solid.append((kind, rows, ids))
        else:
            flat.append((rows, ids))
    flat += _outer_facets(points, flat, solid)
    if not flat:
        return np.empty(0, np.int32), np.zeros(1, np.int64), np.empty(0, np.int32)
    corners = np.concatenate([rows.reshape(-1) for rows, _ in flat])
    lengths = np.concatenate([np.full(len(rows), rows.shape[1]) for rows, _ in flat])
    ids = np.concatenate([ids for _, ids in flat])
    # Sort the polygons by their cells; `begins` is where they are before that.
    order = np.argsort(ids, kind="stable")
    begins, lengths = (np.cumsum(lengths) - lengths)[order], lengths[order]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    sources = np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])
    return corners[sources], offsets, ids[order].astype(np.int32)


def _outer_facets(points: Points, flat: list[Cells], solid: list[Block]) -> Iterator[Cells]:
    """Yield the facets of solid cells that no other cell shares, and the cell of each."""
    if not solid:
        return
    # Cells with a facet, the places of its corners in them, and the numbers of the cells.
    facets: list[tuple[Any, tuple[int, ...], Ints]] = []
    finite = np.asarray(np.isfinite(points).all(axis=1))
    for kind, cells, ids in solid:
        if cells.min() < 0 or cells.max() >= len(points):
            raise ValueError(f"cells must index the {len(points)} vertices")
        # Of a cell with a vertex that is not finite, only the facets with that vertex stay, which
        # trees ignore.
        is_finite = np.asarray(finite[cells].all(axis=1))
        for corners in FACETS[kind]:
            stays: Any = slice(None)
            if not is_finite.all():
                stays = is_finite | ~finite[cells[:, corners]].all(axis=1)
            facets.append((cells[stays], corners, ids[stays]))
    # Flat cells, which may equal a facet, come after all facets: `single` begins with facets.
    comparable = [cells[:, corners] for cells, corners, _ in facets]
    comparable += [rows for rows, _ in flat if rows.shape[1] <= WIDEST]
    single, begin = _are_single(comparable), 0
    for owners, places, ids in facets:
        alone = single[begin : begin + len(owners)]
        begin += len(owners)
        yield _outward(points, owners[alone], places), ids[alone]


def _are_single(lists: list[Ints]) -> NDArray[np.bool_]:
    """Return which facets have vertices that no other one has; `lists` are vertices (n, k)."""
    widest = max(rows.shape[1] for rows in lists)
    keys = np.concatenate([_keys(rows, widest) for rows in lists])
    # As many numbers of vertices in an integer as fit: that is faster to sort.
    bits = int(keys.max(initial=1)).bit_length()
    step = max(63 // bits, 1)
    words = [np.zeros(len(keys), np.int64) for _ in range(0, widest, step)]
    for k in range(widest):
        words[k // step] |= keys[:, k] << (bits * (k % step))
    order = np.lexsort(words)
    # A facet is single if it differs from both neighbours in sorted order.
    differs = np.ones(len(keys) + 1, np.bool_)
    differs[1:-1] = np.any([word[order][1:] != word[order][:-1] for word in words], axis=0)
    single = np.empty(len(keys), np.bool_)
    single[order] = differs[1:] & differs[:-1]
    return single


def _keys(rows: Ints, width: int) -> Ints:
    """Return a key (width,) of each facet: 0 as often as needed, then 1 + its vertices, sorted."""
    keys = np.zeros((len(rows), width), np.int64)
    part = keys[:, width - rows.shape[1] :]
    part[:] = np.sort(rows, axis=1) + 1
    # Two corners of a hexahedron may be the same vertex, so that a facet is a triangle.
    repeated = part[:, 1:] == part[:, :-1]
    if repeated.any():
        part[:, 1:][repeated] = 0
        keys.sort(axis=1)
    return keys


def _outward(points: Points, cells: Any, corners: tuple[int, ...]) -> Ints:
    """Return a facet of each solid cell, the one with these corners, wound so that it faces out.

    NaN, as of cells without a size, leaves the winding unchanged.
    """
    rows = cells[:, corners]
    with np.errstate(all="ignore"):
        centred = points[cells]
        centred -= centred.mean(axis=1, keepdims=True)
        # Relative to the cell's size, so that no product over- or underflows.
        centred /= np.abs(centred).max(axis=(1, 2), keepdims=True)
        places = centred[:, corners]
        normal = np.cross(places, np.roll(places, -1, axis=1)).sum(axis=1)
        # The centre of the cell is 0. Files differ on how the first facet of a wedge faces.
        inward = (normal * places.mean(axis=1)).sum(axis=1) < 0.0
    return np.asarray(np.where(inward[:, None], rows[:, ::-1], rows))


def thin_of(mesh: Any) -> Thin | None:
    """Return the vertices and faces of an object that has only lines or points; None for others.

    A face is a segment (i, j, j) of a polyline, one line after another, or a point (i, i, i). Such
    objects are data sets of PyVista (lines, or else vertices or points), `trimesh.PointCloud`,
    paths of trimesh, and Open3D's `PointCloud` and `LineSet`, legacy and tensor.
    """
    libraries = _libraries_of(mesh)
    if "pyvista" in libraries and not getattr(mesh, "n_blocks", 0):
        return _thin_of_pyvista(mesh)
    name = type(mesh).__name__
    if "open3d" in libraries and name in ("PointCloud", "LineSet") and not mesh.is_empty():
        legacy = hasattr(mesh, "points")
        points = mesh.points if legacy else mesh.point["positions"].numpy()
        if name == "PointCloud":
            return faces_of_points(points)
        return _faces_of_lines(points, mesh.lines if legacy else mesh.line["indices"].numpy())
    if "trimesh" in libraries and hasattr(mesh, "entities"):
        lines = np.concatenate([np.empty((0, 2), int), *(e.nodes for e in mesh.entities)])
        return _faces_of_lines(_in_space(mesh.vertices), lines)
    if "trimesh" in libraries and hasattr(mesh, "vertices") and not hasattr(mesh, "faces"):
        return faces_of_points(mesh.vertices)
    return None


def _in_space(points: ArrayLike) -> NDArray[np.float64]:
    """Return points of two coordinates with z = 0 as the third; other points unchanged."""
    array = np.asarray(points, np.float64)
    planar = array.ndim == 2 and array.shape[1] == 2
    return np.pad(array, ((0, 0), (0, 1))) if planar else array


def _thin_of_pyvista(mesh: Any) -> Thin | None:
    """Return the segments of a PyVista data set, or else its points; None if it has other cells."""
    if not hasattr(mesh, "points"):
        return None
    if mesh.n_cells == 0:
        return faces_of_points(mesh.points) if len(mesh.points) else None
    if not hasattr(mesh, "lines") or len(mesh.faces) or mesh.n_strips:
        return None
    lines = [np.stack([each[:, :-1], each[:, 1:]], axis=2) for each in _cells(mesh.lines)]
    if lines:
        return _faces_of_lines(mesh.points, np.concatenate([each.reshape(-1, 2) for each in lines]))
    ids = np.concatenate([each.reshape(-1) for each in _cells(mesh.verts)])
    return faces_of_points(np.asarray(mesh.points)[ids])


def _cells(given: ArrayLike) -> Iterator[Ints]:
    """Yield the points of cells in a flat list of VTK: [n, n points, m, m points, ...].

    Those of all cells, shape (cells, n), if these have as many points; or of each, shape (1, n).
    """
    numbers = np.asarray(given)
    size = int(numbers[0]) + 1 if len(numbers) else 1
    if len(numbers) and len(numbers) % size == 0 and (numbers[::size] == size - 1).all():
        yield numbers.reshape(-1, size)[:, 1:]
        return
    begin = 0
    while begin < len(numbers):
        end = begin + 1 + int(numbers[begin])
        yield numbers[None, begin + 1 : end]
        begin = end


def faces_of_points(points: ArrayLike) -> Thin:
    """Return points (n, 3) as vertices, and a face (i, i, i) for point i."""
    vertices = arguments.rows("points", points)
    return vertices, np.repeat(np.arange(len(vertices), dtype=np.int32)[:, None], 3, axis=1)


def faces_of_segments(p: ArrayLike, q: ArrayLike) -> Thin:
    """Return the ends p and q (n, 3) of n segments as vertices, and a face (i, j, j) for each."""
    first, second = arguments.rows("p", p), arguments.rows("q", q)
    if first.shape != second.shape:
        raise ValueError(f"q must have the shape of p, {first.shape}, got {second.shape}")
    pairs = np.arange(2 * len(first), dtype=np.int32).reshape(-1, 2)
    return np.stack([first, second], axis=1).reshape(-1, 3), pairs[:, [0, 1, 1]]


def _faces_of_lines(points: ArrayLike, lines: ArrayLike) -> Thin:
    """Return points as vertices, and a face (i, j, j) for each line (i, j) of two points."""
    ends = np.asarray(lines).reshape(-1, 2).astype(np.int32)
    return arguments.rows("points", points), ends[:, [0, 1, 1]]
