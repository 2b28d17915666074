"""`TriangleMesh` and `ElementMesh`, which add triangles, tetrahedra and hexahedra to a scene."""

import numpy as np
from numpy.typing import ArrayLike

from bvh.compat.embreex.rtcore_scene import EmbreeScene

# The triangles around a tetrahedron and a hexahedron, in the order in which embreex numbers them.
TETRA = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
HEXA = [
    [0, 2, 1], [0, 3, 2], [4, 5, 6], [4, 6, 7], [0, 1, 5], [0, 5, 4], [1, 2, 6], [1, 6, 5],
    [0, 7, 3], [0, 4, 7], [3, 6, 2], [3, 7, 6],
]  # fmt: skip


class TriangleMesh:
    """Triangles in a scene.

    Parameters
    ----------
    scene : EmbreeScene
    vertices : array_like, shape (n, 3), or (m, 3, 3) without indices
    indices : array_like of int, shape (m, 3), optional
    """

    def __init__(
        self, scene: EmbreeScene, vertices: ArrayLike, indices: ArrayLike | None = None
    ) -> None:
        points = np.asarray(vertices, np.float64)
        if indices is None:
            points = points.reshape(-1, 3)
            indices = np.arange(len(points)).reshape(-1, 3)
        self.mesh = scene.add_mesh(points, indices)


class ElementMesh(TriangleMesh):
    """Tetrahedra or hexahedra in a scene: the triangles around each.

    Parameters
    ----------
    scene : EmbreeScene
    vertices : array_like, shape (n, 3)
    indices : array_like of int, shape (m, 4) or (m, 8)
    """

    def __init__(self, scene: EmbreeScene, vertices: ArrayLike, indices: ArrayLike) -> None:
        cells = np.asarray(indices, np.int64)
        tables = {4: TETRA, 8: HEXA}
        if cells.ndim != 2 or cells.shape[1] not in tables:
            raise NotImplementedError(
                f"indices must have shape (m, 4) or (m, 8), got {cells.shape}"
            )
        super().__init__(scene, vertices, cells[:, tables[cells.shape[1]]].reshape(-1, 3))
