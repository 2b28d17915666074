"""Sections at the ends of the range of doubles, of infinite vertices, and without segments."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import trimesh

from bvh import BVH

BALL = trimesh.creation.icosphere(2)
PLANE = np.array([0.3, 0.2, 1.0, -0.1])


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.filterwarnings("error", "ignore:.*finite:bvh.BVHWarning")
def test_vertices_that_are_not_finite(value: float) -> None:
    """Their faces are left out, of sections by one plane and by several."""
    vertices = np.vstack([BALL.vertices, [value, 1.0, 0.0]])
    faces = np.vstack([BALL.faces, [0, 1, len(BALL.vertices)]])
    tree, whole = BVH.from_triangles(vertices, faces, warn=False), BVH.from_mesh(BALL)
    for plane in (PLANE, [1.0, 0.0, 0.0, -1.0], [0.0, 0.0, 1.0, 0.0]):
        wanted = whole.section(plane).segments
        assert np.array_equal(tree.section(plane).segments, wanted)
        both = tree.section([plane, plane]).segments
        assert np.array_equal(both, np.concatenate([wanted, wanted]))


@pytest.mark.parametrize("exponent", [-1000, 990, 1000, 1020])
@pytest.mark.filterwarnings("error")
def test_large_and_small_planes_and_meshes(exponent: int) -> None:
    """A power of two in the plane changes nothing; one in the mesh scales its section."""
    scale = 2.0**exponent
    wanted = BVH.from_mesh(BALL).section(PLANE).segments
    assert len(wanted) > 40
    found = BVH.from_mesh(BALL).section(PLANE * scale).segments
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=4e-16)
    grown = BVH.from_triangles(BALL.vertices * scale, BALL.faces)
    found = grown.section(PLANE * [1.0, 1.0, 1.0, scale]).segments / scale
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=4e-16)


@pytest.mark.filterwarnings("error", "ignore:.*open edges:bvh.BVHWarning")
def test_differences_beyond_the_largest_double() -> None:
    """Edges between corners of opposite signs are cut where they meet the plane."""
    far = 1.7e308
    corners = [[-far, 0.0, -far], [far, 0.0, far], [0.0, far, -far]]
    (segment,) = BVH.from_triangles(corners, [[0, 1, 2]]).section([0.0, 0.0, 1.0, 0.0]).segments
    assert segment.tolist() == [[far / 2, far / 2, 0.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("tilt", [1e-150, 1e-170, 1e-300, 5e-324])
@pytest.mark.filterwarnings("error")
def test_axes_in_almost_horizontal_planes(tilt: float) -> None:
    """Are unit vectors at right angles, the second one the steepest way up, and give areas."""
    cut = BVH.from_mesh(trimesh.creation.box()).section([0.6 * tilt, 0.8 * tilt, 1.0, -0.1])
    assert cut.axes @ cut.axes.T == pytest.approx(np.eye(2), abs=1e-15)
    assert np.cross(*cut.axes) == pytest.approx([0.0, 0.0, 1.0], abs=1e-15)
    assert cut.axes[0, 2] == 0.0 < cut.axes[1, 2]
    assert cut.area == pytest.approx(1.0, abs=1e-14)


def test_drawings_of_nothing() -> None:
    """A plane beside the mesh gives a drawing without lines, which programs read."""
    cut = BVH.from_mesh(BALL).section([0.0, 0.0, 1.0, -9.0])
    assert "<path" not in cut.to_svg() and len(cut.loops) == cut.area == 0
    drawing = trimesh.load(io.StringIO(cut.to_dxf()), file_type="dxf")
    assert len(drawing.entities) == 0


@pytest.mark.parametrize("method", ["ray", "sphere"])
def test_thickness_at_points_without_a_closest_point(method: Any) -> None:
    """Points that are not finite, and all points of a tree without valid faces, have NaN."""
    plate = BVH.from_mesh(trimesh.creation.box([4, 4, 0.5]))
    points = [[0.3, 0.2, 0.25], [np.nan, 0.0, 0.0]]
    found = plate.thickness(points_at=points, method=method)
    assert found[0] == pytest.approx(0.5) and np.isnan(found[1])
    for faces in (np.empty((0, 3), int), [[0, 1, 2]]):
        nothing = BVH.from_triangles([[np.nan] * 3] * 3, faces, warn=False)
        assert np.isnan(nothing.thickness(points_at=points, method=method)).all()
