"""Points and polygons of mesh objects of PyVista, Open3D and meshio, without importing these."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.io.cells import surface_of_cells
from bvh.io.polygons import checked_corners
from bvh.runtime.arguments import rows

_CURVED = ("line", "triangle", "quad", "tetra", "hexahedron", "wedge", "pyramid")
# Kinds of VTK's cells by their numbers; curved ones have the kind of their corners.
VTK_KINDS = {
    0: "empty", 1: "vertex", 2: "vertex", 3: "line", 4: "line", 5: "triangle", 7: "polygon",
    8: "pixel", 9: "quad", 10: "tetra", 11: "voxel", 12: "hexahedron", 13: "wedge", 14: "pyramid",
    15: "penta_prism", 16: "hexa_prism", **dict(enumerate(_CURVED, 21)), 28: "quad",
    29: "hexahedron", 30: "quad", 31: "wedge", 32: "wedge", 33: "hexahedron", 34: "triangle",
    35: "line", 36: "polygon", 37: "pyramid",
    # Of Lagrange, and of Bezier.
    **dict(enumerate(2 * _CURVED, 68)),
}  # fmt: skip
VTK_STRIP, VTK_CURVED_POLYGON = 6, 36


class Polygons(NamedTuple):
    """Points (n, 3), corners of polygons, the offset of each, and its id in the source."""

    points: NDArray[np.float64]
    corners: NDArray[np.int32]
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32] | None  # None: 0, 1, 2, ...


def polygons_of(mesh: object) -> Polygons | None:
    """Return the polygons of an object of one of these libraries; None for any other object."""
    homes = {kind.__module__.partition(".")[0] for kind in type(mesh).__mro__}
    if "open3d" in homes:
        return _of_open3d(mesh)
    if "pyvista" in homes:
        library, found = "pyvista", _of_pyvista(mesh)
    elif "meshio" in homes and hasattr(mesh, "cells"):
        library, found = "meshio", _of_meshio(mesh)
    else:
        return None
    if len(found.offsets) < 2 and len(found.points):
        given = f"{library}'s {type(mesh).__name__} of {len(found.points)} points and none"
        raise ValueError(f"mesh must have faces, got {given}")
    return found


def _checked(
    points: ArrayLike, corners: NDArray[np.integer], offsets: ArrayLike,
    ids: NDArray[np.int32] | None = None,
) -> Polygons:  # fmt: skip
    points = rows("vertices", points)
    offsets = np.asarray(offsets, np.int64)
    return Polygons(points, checked_corners(corners, offsets, len(points)), offsets, ids)


def _of_pyvista(mesh: Any) -> Polygons:
    """Return the polygons of a data set with the ids of their cells; of all its blocks in turn."""
    _check_cells(mesh)
    if hasattr(mesh, "n_blocks"):
        mesh = mesh.combine()
    if getattr(mesh, "is_all_triangles", False) and not mesh.n_strips:
        faces = np.asarray(mesh.faces).reshape(-1, 4)[:, 1:]
        return _checked(mesh.points, faces.reshape(-1), 3 * np.arange(len(faces) + 1))
    if not hasattr(mesh, "cell_connectivity"):
        mesh = mesh.cast_to_unstructured_grid()
    # The name since 0.49.
    name = "cell_offsets" if hasattr(mesh, "cell_offsets") else "offset"
    corners, offsets = np.asarray(mesh.cell_connectivity), np.asarray(getattr(mesh, name))
    points, numbers = np.asarray(mesh.points, np.float64), np.asarray(mesh.celltypes)
    lengths = np.diff(offsets)
    blocks: list[tuple[str, NDArray[np.integer], NDArray[np.integer]]] = []
    # Cells of a type may still be of several sizes.
    for number, length in np.unique([numbers, lengths], axis=1).T.tolist():
        ids = np.flatnonzero((numbers == number) & (lengths == length))
        cells = corners[offsets[ids][:, None] + np.arange(length)]
        if number == VTK_STRIP:
            # Triangles strip by strip, with the same winding.
            steps = np.arange(max(length - 2, 0))[:, None] + np.arange(3)
            steps[1::2, 1:] = steps[1::2, :0:-1]
            blocks.append(("triangle", cells[:, steps].reshape(-1, 3), np.repeat(ids, len(steps))))
        elif number == VTK_CURVED_POLYGON:
            blocks.append(("polygon", cells[:, : length // 2], ids))
        else:
            blocks.append((VTK_KINDS.get(number, f"VTK {number}"), cells, ids))
    return _checked(points, *surface_of_cells(points, blocks))


def _check_cells(mesh: Any) -> None:
    """Check that a data set, or each of its blocks, has cells."""
    if hasattr(mesh, "n_blocks"):
        for block in mesh:
            _check_cells(block)
    elif mesh is not None and not hasattr(mesh, "n_cells"):
        raise TypeError(f"mesh must have cells, got pyvista's {type(mesh).__name__}")


def _of_open3d(mesh: Any) -> Polygons:
    """Return the triangles of a mesh of either of Open3D's interfaces."""
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
    """Return the surface of a mesh, with cell ids that are consecutive through all blocks."""
    ends = np.cumsum([len(block.data) for block in mesh.cells])
    pairs = zip(mesh.cells, ends, strict=True)
    blocks = [(part.type, part.data, np.arange(end - len(part.data), end)) for part, end in pairs]
    points = np.asarray(mesh.points, np.float64)
    if points.ndim == 2 and points.shape[1] == 2:
        points = np.hstack([points, np.zeros((len(points), 1))])
    return _checked(points, *surface_of_cells(points, blocks))
