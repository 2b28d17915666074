"""The ground of pictures: a plane below everything, on which there is a shadow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bvh import BVH, Camera, Scene
from bvh.camera.placement import AXES
from bvh.pictures.rendering import render
from meshes.sphere import geodesic_sphere

SIZE = {"width": 48, "height": 36}


@pytest.fixture
def ball() -> BVH:
    """Return a ball of 180 faces, somewhere."""
    points, faces = geodesic_sphere(3)
    return BVH.from_triangles(points + [3.0, -2.0, 7.0], faces)


def darker(source: Any, camera: Camera, ground: Any, shade: str = "normals") -> np.ndarray:
    """Return where a picture with ground is darker than one without; elsewhere they are equal."""
    plain = render(source, camera, shade, ground=False).pixels.astype(int)
    found = render(source, camera, shade, ground=ground).pixels
    assert np.all(found <= plain)
    return (found < plain).all(axis=-1)


def test_where_the_shadow_is(ball: BVH) -> None:
    """Below the ball, soft, and not on it; the same for any number of threads."""
    camera = Camera.framing(ball, **SIZE)
    shadow = darker(ball, camera, True)
    mask = ball.closest_hit(*camera.rays()).mask
    assert shadow.any() and not shadow[mask].any()
    x, y, _ = camera.project([3.0, -2.0, 7.0 - 1.02])
    assert not mask[int(y) + 3, int(x)] and shadow[int(y) + 3, int(x)]
    pictures = [render(ball, camera, "clay", threads=threads) for threads in (1, 2)]
    assert np.array_equal(pictures[0].pixels, pictures[1].pixels)
    assert len(np.unique(pictures[0].pixels[shadow], axis=0)) > 30
    # From below, there is nothing to see of it.
    assert not darker(ball, Camera.framing(ball, [0.1, 0, 1], **SIZE), True).any()


def test_shadow_is_that_of_a_floor(ball: BVH) -> None:
    """It is where a real floor is darker than far away, but for the rim of the soft shadow."""
    camera = Camera.framing(ball, **SIZE)
    mask = ball.closest_hit(*camera.rays()).mask
    shadow = darker(ball, camera, True)
    low = ball.bounds[0, 2]
    far = 60.0 * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]) + [3.0, -2.0]
    floor = np.column_stack([far, np.full(4, low)])
    points = np.vstack([ball.vertices, floor])
    both = np.vstack([ball.faces, [[0, 1, 2], [0, 2, 3]] + np.array(len(ball.vertices))])
    # The ground has twice the rays of what stands on it.
    data = render(
        BVH.from_triangles(points, both), camera, data=("ao", "shadow"), softness=12.0,
        light_rays=32,
        reach=0.25 * float(np.linalg.norm(ball.bounds[1] - ball.bounds[0])),
    ).data  # fmt: skip
    dark = (data["ao"] < 0.9) | (data["shadow"] < 0.9)
    assert shadow[dark & ~mask].all()
    light = (data["ao"] == 1.0) & (data["shadow"] == 1.0) & ~mask
    assert not shadow[light].any() and light.any()


def test_which_way_is_up(ball: BVH) -> None:
    """As asked for, of the scene, or the axis that is upright in the picture."""
    scene = Scene()
    scene.add(ball)
    for name in AXES:
        camera = Camera.framing(ball, up=name, **SIZE)
        named = render(ball, camera, ground=name).pixels
        assert darker(ball, camera, name).any()
        scene.up = name
        for source, ground in ((ball, AXES[name]), (ball, True), (scene, True)):
            assert np.array_equal(render(source, camera, ground=ground).pixels, named)
        assert np.array_equal(
            render(ball, camera, "clay").pixels, render(ball, camera, "clay", ground=name).pixels
        )


def test_by_default(ball: BVH) -> None:
    """In clay and of materials; not if the camera is rolled or inside, nor below nothing."""
    camera = Camera.framing(ball, **SIZE)
    for shade in ("clay", "material"):
        assert darker(ball, camera, None, shade).any()
    for shade in ("normals", "ao", "shadow", "depth"):
        assert not darker(ball, camera, None, shade).any()
    rolled = Camera.framing(ball, up=[1.0, 2.0, 3.0], **SIZE)
    assert not darker(ball, rolled, None, "clay").any()
    assert darker(ball, rolled, [1.0, 2.0, 3.0], "clay").any()
    within = replace(camera, eye=ball.bounds.mean(axis=0) + 0.99)
    assert not darker(ball, within, None, "clay").any()
    assert not darker(BVH.from_triangles([], []), camera, True).any()


def test_refused(ball: BVH) -> None:
    """What is neither yes, no nor a direction."""
    for bad in ("Z", [0, 0, 0], [1, 2], 3):
        with pytest.raises((ValueError, TypeError), match="ground must"):
            render(ball, Camera.framing(ball, **SIZE), ground=bad)  # type: ignore[arg-type]


def test_truths_of_numpy(ball: BVH) -> None:
    """They were taken for directions."""
    camera = Camera.framing(ball, **SIZE)
    assert darker(ball, camera, np.True_, "ao").any()
    assert not darker(ball, camera, np.False_, "clay").any()
