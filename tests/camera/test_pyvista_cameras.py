"""Cameras of PyVista: their rays are those that VTK draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bvh import Camera

pv = pytest.importorskip("pyvista")

PLACE: Any = [(1.0, 2.0, 5.0), (0.0, 0.3, 0.0), (0.0, 1.0, 0.0)]


def lens(**options: Any) -> Any:
    """Return a camera at a place, with attributes set."""
    made = pv.Camera()
    made.position, made.focal_point, made.up = PLACE
    for name, value in options.items():
        setattr(made, name, value)
    return made


def test_perspective() -> None:
    made = lens(view_angle=40.0, clipping_range=(0.3, 7.0))
    ours, same = Camera.from_pyvista(made, (64, 48)), Camera.look_at(*PLACE, 40.0, 64, 48)
    assert np.allclose(ours.rays()[1], same.rays()[1], rtol=0, atol=1e-14)
    assert np.allclose(ours.eye, same.eye, rtol=0, atol=1e-14)
    # The clipping range is that of what VTK shows.
    assert (ours.near, ours.far) == (0.0, np.inf)
    ours = Camera.from_pyvista(made, (64, 48), near=0.5, far=9.0, y="up", pixel_ratio=2.0)
    assert (ours.near, ours.far, ours.y, ours.pixel_ratio) == (0.5, 9.0, "up", 2.0)


def test_parallel() -> None:
    made = lens(parallel_projection=True, parallel_scale=2.5)
    ours, same = Camera.from_pyvista(made, (64, 48)), Camera.orthographic(*PLACE, 5.0, 64, 48)
    assert not ours.perspective
    for mine, theirs in zip(ours.rays(), same.rays(), strict=True):
        assert np.allclose(mine, theirs, rtol=0, atol=1e-14)


@pytest.mark.parametrize("parallel", [False, True])
def test_what_only_matrices_tell(parallel: bool, rng: np.random.Generator) -> None:
    """Horizontal angles, shifted windows, and transforms: as VTK's whole matrix projects."""
    made = lens(view_angle=50.0, parallel_projection=parallel)
    made.UseHorizontalViewAngleOn()
    made.SetWindowCenter(0.3, -0.2)
    made.model_transform_matrix = pv.transformations.axis_angle_rotation((1, 2, 3), 30.0)
    ours = Camera.from_pyvista(made, (64, 48))
    points = rng.uniform(-1.0, 1.0, (20, 3))
    whole = made.GetCompositeProjectionTransformMatrix(64 / 48, -1.0, 1.0)
    clip = pv.array_from_vtkmatrix(whole) @ np.column_stack([points, np.ones(20)]).T
    x, y = clip[:2] / clip[3]
    mine = ours.project(points)
    assert np.allclose(mine[0], 32.0 * (1.0 + x)) and np.allclose(mine[1], 24.0 * (1.0 - y))


def test_plotters() -> None:
    class Plotter:
        camera, window_size = lens(), [64, 48]

    ours = Camera.from_pyvista(Plotter())
    assert (ours.width, ours.height) == (64, 48)
    assert ours == Camera.from_pyvista(Plotter.camera, (64, 48))
    assert Camera.from_pyvista(Plotter(), (32, 24)).width == 32


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((3, (4, 4)), TypeError, "source must be a plotter or camera of pyvista or VTK, got int"),
        ((lens(),), ValueError, "size must be the width and the height of the picture, got None"),
        ((lens(), 64), ValueError, "size must be a width and a height, got 64"),
        ((lens(), (64, 0)), ValueError, "height must be at least 1, got 0"),
    ],
)
def test_refusals(arguments: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        Camera.from_pyvista(*arguments)
