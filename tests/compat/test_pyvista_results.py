"""Results in a PyVista plotter: what it holds is what the trees answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bvh
from bvh.docs.programs.pyvista_results import plotter_of

pv = pytest.importorskip("pyvista")


def solids() -> tuple[Any, Any]:
    """Return a box of quads, and a ball that reaches out of its sides."""
    return pv.Cube().clean(), pv.Sphere(radius=0.6)


def test_a_plotter_shows_what_trees_answer() -> None:
    """Distances at points, hits at their places, and the cells that were hit."""
    box, ball = solids()
    origins = np.array([[0.1, 0.2, 9.0], [9.0, 0.1, 0.2], [9.0, 9.0, 9.0]])
    directions = np.array([[0.0, 0.0, -1.0], [-3.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
    plotter = plotter_of(box, ball, origins, directions)
    try:
        assert set(plotter.actors) >= {"surface", "other", "rays", "hits"}
        distances = box.point_data["distance"]
        assert np.allclose(distances, np.sqrt(0.75) - 0.6, atol=0.02)
        assert (bvh.BVH.from_mesh(ball).signed_distance(box.points) == distances).all()
        hits = pv.wrap(plotter.actors["hits"].mapper.dataset)
        np.testing.assert_allclose(hits.points, [[0.1, 0.2, 0.5], [0.5, 0.1, 0.2]], atol=1e-6)
        assert hits["t"].tolist() == pytest.approx([8.5, 8.5 / 3.0])
        # One cell for each quad, whichever of its triangles is hit.
        normals = box.compute_normals(point_normals=False, auto_orient_normals=True)["Normals"]
        seen = normals[box.cell_data["seen"] == 1]
        assert sorted(seen.round().tolist()) == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    finally:
        plotter.close()


def test_rays_that_all_miss() -> None:
    """There is nothing to draw of them."""
    plotter = plotter_of(*solids(), [[9.0, 9.0, 9.0]], [0.0, 0.0, -1.0])
    try:
        assert "hits" not in plotter.actors and "surface" in plotter.actors
    finally:
        plotter.close()
