"""Rays of cameras, made on a device."""

from __future__ import annotations

from typing import Any

import warp as wp

from bvh.devices.exact.floats import OPTIONS
from bvh.devices.trees import device_of

wp.set_module_options(OPTIONS)

HALF = wp.float64(0.5)


@wp.kernel
def _fill(
    width: int, ratio: wp.float64, centre: wp.vec2d, step_x: wp.vec3d, step_y: wp.vec3d,
    start: wp.vec3d, rays: wp.array2d(dtype=wp.vec3d),
):  # fmt: skip
    """Write rays[row, column]: directions, or origins of parallel rays, as `Camera.ray` does."""
    j, i = wp.tid()
    right = (wp.float64(i) + HALF) / ratio - centre[0]
    down = (wp.float64(j) + HALF) / ratio - centre[1]
    rays[j, i] = (right * step_x + down * step_y) + start


def camera_rays(camera: Any, device: Any) -> tuple[Any, Any]:
    """Return (origins, directions) of a camera's rays on a device, (height, width) vectors.

    What all rays share has one item: the origin, or the direction of an orthographic camera.
    """
    there = device_of(device)
    shape = camera.height, camera.width
    moved = wp.empty(shape, dtype=wp.vec3d, device=there)
    start, same = camera.forward, camera.eye
    if not camera.perspective:
        start, same = same, start
    vectors = (wp.vec3d(*v) for v in (camera.step_x, camera.step_y, start))
    inputs = [camera.width, camera.pixel_ratio, wp.vec2d(*camera.centre), *vectors, moved]
    wp.launch(_fill, shape, inputs=inputs, device=there)
    others = wp.array([same], dtype=wp.vec3d, device=there)
    return (others, moved) if camera.perspective else (moved, others)
