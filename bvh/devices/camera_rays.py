"""Rays of cameras, made on a device."""

from __future__ import annotations

from typing import Any

import warp as wp

from bvh.devices.exact.floats import OPTIONS
from bvh.devices.trees import device_of

wp.set_module_options(OPTIONS)

HALF = wp.float64(0.5)


@wp.kernel
def _write_rays(
    ratio: wp.float64, centre: wp.vec2d, step_x: wp.vec3d, step_y: wp.vec3d,
    start: wp.vec3d, rays: wp.array2d(dtype=wp.vec3d),
):  # fmt: skip
    """Write (a step_x + b step_y) + start to rays[row, column], as `Camera.ray` computes it.

    (a, b) is the middle of the pixel over `ratio`, minus `centre`. With `start` the direction
    forward these are directions of rays, with the eye they are origins of parallel rays.
    """
    j, i = wp.tid()
    right = (wp.float64(i) + HALF) / ratio - centre[0]
    down = (wp.float64(j) + HALF) / ratio - centre[1]
    rays[j, i] = (right * step_x + down * step_y) + start


def camera_rays(camera: Any, device: Any) -> tuple[Any, Any]:
    """Return (origins, directions) of a camera's rays, arrays of Warp on a device.

    The directions are (height, width) vectors, and there is one origin; for an orthographic camera
    it is the other way round.
    """
    there = device_of(device)
    shape = camera.height, camera.width
    varying = wp.empty(shape, dtype=wp.vec3d, device=there)
    start, constant = camera.forward, camera.eye
    if not camera.perspective:
        start, constant = constant, start
    vectors = (wp.vec3d(*v) for v in (camera.step_x, camera.step_y, start))
    inputs = [camera.pixel_ratio, wp.vec2d(*camera.centre), *vectors, varying]
    wp.launch(_write_rays, shape, inputs=inputs, device=there)
    shared = wp.array([constant], dtype=wp.vec3d, device=there)
    return (shared, varying) if camera.perspective else (varying, shared)
