"""Objects of other libraries that hold nothing to be hit."""

from __future__ import annotations

import numpy as np
import pytest

import bvh

CUBE = np.indices((2, 2, 2)).reshape(3, 8).T.astype(float)


def test_without_faces() -> None:
    """What has points and no faces is refused by name; what has nothing is an empty mesh."""
    pv, meshio = pytest.importorskip("pyvista"), pytest.importorskip("meshio")
    from pyvista import examples

    lines = pv.PolyData(CUBE, lines=[2, 0, 7])
    cells = [getattr(examples.cells, name)() for name in ("Line", "PolyVertex", "LagrangeCurve")]
    assert repr(bvh.BVH.from_mesh(pv.PolyData(CUBE))).startswith("BVH(8 points")
    assert repr(bvh.BVH.from_mesh(lines)).startswith("BVH(1 segment")
    for mesh in (*cells, pv.MultiBlock([lines, pv.PolyData(CUBE)])):
        name = type(mesh).__name__
        with pytest.raises(ValueError, match=f"mesh must have faces, got pyvista's {name} of "):
            bvh.BVH.from_mesh(mesh)
        with pytest.raises(ValueError, match="mesh must have faces"):
            bvh.Scene().add(mesh)
    with pytest.raises(ValueError, match="got meshio's Mesh of 8 points and none"):
        bvh.BVH.from_mesh(meshio.Mesh(CUBE, [("line", [[0, 7]])]))
    for mesh in (pv.PolyData(), pv.UnstructuredGrid(), pv.MultiBlock([None]), meshio.Mesh([], [])):
        assert len(bvh.BVH.from_mesh(mesh)) == 0
    assert len(bvh.BVH.from_mesh(pv.MultiBlock([lines, pv.PolyData(CUBE, [3, 0, 1, 2])]))) == 1
