"""Trees over data sets of VTK and PyVista, which may change between queries.

Modification times of VTK miss some changes: NumPy writes to its memory without updating them. So
data sets are compared by checksums of points and cells.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.meshes import surface_of
from bvh.queries.hierarchy import BVH
from bvh.queries.results import AllHits

# Weights of a checksum: odd, so that a change of one item of 64 bits always changes the sum.
WEIGHTS = np.random.default_rng(0).integers(0, 2**63, 4096, dtype=np.uint64) * 2 + 1


class FollowedDataSet:
    """A tree over a data set's surface, refitted while its triangles stay the same, else new."""

    def __init__(self) -> None:
        self._state: tuple[tuple[Any, Any], BVH] | None = None

    def tree_of(self, data: Any) -> BVH:
        """Return the tree over a data set as it is now."""
        data = wrapped(data)
        stamps, state = _stamps_of(data), self._state
        if state is None or state[0] != stamps:
            # If the second stamps are equal, the tree is over the same cells.
            tree = state[1] if state and state[0][1] == stamps[1] else None
            # Two threads may both build the same tree.
            if tree is None or not _refitted(tree, data):
                tree = BVH.from_mesh(data)
            state = self._state = stamps, tree
        return state[1]


def _refitted(tree: BVH, data: Any) -> bool:
    """Refit the tree to the points of a data set of the same cells, if possible; return whether."""
    import pyvista as pv

    # Faces that were not finite are in no leaf, and would stay out of the refitted tree.
    if len(data.points) != len(tree.vertices) or not np.isfinite(tree.vertices).all():
        return False
    # Where points are decides how polygons are cut into triangles, and which side of the facets of
    # solid cells is outward. Triangles of PolyData, which have the numbers of its cells, stay.
    only_triangles = isinstance(data, pv.PolyData) and tree.face_ids is None
    if not only_triangles and not np.array_equal(surface_of(data).faces, tree.faces):
        return False
    tree.refit(np.asarray(data.points, np.float64))
    return True


def wrapped(data: Any) -> Any:
    """Return a data set of VTK as PyVista's; one of PyVista unchanged."""
    import pyvista as pv

    return data if isinstance(data, pv.DataSet | pv.MultiBlock) else pv.wrap(data)


def crossings(tree: BVH, start: Any, end: Any) -> tuple[AllHits, NDArray[np.int64]]:
    """Return the hits of the segment from start to end, sorted by t, and the cell (n,) of each.

    A crossing at an edge or vertex that faces share is one hit; t is 0 at the start, 1 at the end.
    """
    begin = np.asarray(start, np.float64)
    hits = tree.all_hits(begin, np.asarray(end, np.float64) - begin, t_max=1.0, edges="once")
    return hits, np.asarray(tree.face_of(hits.prim_id), np.int64)


def checksum(array: NDArray[Any]) -> tuple[Any, ...]:
    """Return a hashable checksum of content, shape and type: 0.6 ms for a million float64."""
    octets = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    words = octets[: octets.size // 8 * 8].view(np.uint64)
    full = words.size // len(WEIGHTS) * len(WEIGHTS)
    # Sums modulo 2**64 of rows of len(WEIGHTS) words, with weights, so that they depend on the
    # order. The last words, which fill no row, and the last octets are returned themselves.
    sums = np.einsum("ij,j->i", words[:full].reshape(-1, len(WEIGHTS)), WEIGHTS)
    return array.shape, array.dtype.str, sums.tobytes(), octets[8 * full :].tobytes()


def _stamps_of(data: Any) -> tuple[Any, Any]:
    """Return two stamps of a data set: the first changes with its points, the second with cells."""
    import pyvista as pv

    if isinstance(data, pv.MultiBlock):
        # All stamps in the second one: any change of a block builds a new tree.
        return None, [None if block is None else _stamps_of(block) for block in data]
    # `listed` data sets store points and cells; `grids` store points, explicit ones cells as well.
    listed, grids = pv.PolyData | pv.UnstructuredGrid, pv.StructuredGrid | pv.ExplicitStructuredGrid
    points = data.GetPoints() if isinstance(data, listed | grids) else None
    has_cells = isinstance(data, pv.UnstructuredGrid | pv.ExplicitStructuredGrid)
    if isinstance(data, pv.PolyData):
        cells = [data.GetPolys(), data.GetStrips(), data.GetLines(), data.GetVerts()]
    else:
        cells = [data.GetCells()] if has_cells else []
    arrays = [a for part in cells for a in (part.GetOffsetsArray(), part.GetConnectivityArray())]
    # The modification time of types that are not `listed` tells all changes but those of ghost
    # arrays and coordinates.
    if not isinstance(data, listed):
        arrays += [data.GetCellGhostArray(), data.GetPointGhostArray()]
    if isinstance(data, pv.RectilinearGrid):
        arrays += [data.GetXCoordinates(), data.GetYCoordinates(), data.GetZCoordinates()]
    kinds = checksum(data.celltypes) if isinstance(data, pv.UnstructuredGrid) else None
    time = None if isinstance(data, listed) else data.GetMTime()
    first = None if points is None else _stamp_of(points.GetData())
    return first, [kinds, time, *map(_stamp_of, arrays)]


def _stamp_of(array: Any) -> Any:
    """Return a VTK array's checksum; its modification time if not contiguous; None if empty."""
    from vtkmodules.util.numpy_support import vtk_to_numpy

    if array is None or array.GetNumberOfValues() == 0:
        return None
    if not array.HasStandardMemoryLayout():
        return array.GetMTime()
    return checksum(vtk_to_numpy(array))  # type: ignore[no-untyped-call]
