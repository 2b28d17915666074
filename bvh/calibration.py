"""Cameras of other libraries: how their pixels lie in space."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bvh.arguments import reals
from bvh.projections import (
    Geometry,
    Raster,
    affine,
    inverse,
    matrix,
    picture_rows,
    pinhole,
    product,
    whole,
)

# How far from a rotation a matrix may be that went through a file of four digits.
RIGID_SLACK = 1e-3


def of_opencv(
    intrinsics: ArrayLike, extrinsics: ArrayLike, distortion: ArrayLike | None, raster: Raster
) -> Geometry:
    """Return how pixels lie for a camera matrix and a pose of OpenCV."""
    k = matrix("intrinsics", intrinsics, (3, 3))
    fixed = [k[1, 0], k[2, 0], k[2, 1], k[2, 2]]
    if fixed != [0.0, 0.0, 0.0, 1.0] or not (k[0, 0] > 0.0 and k[1, 1] > 0.0):
        raise ValueError(
            "intrinsics must be [[fx, skew, cx], [0, fy, cy], [0, 0, 1]] with positive fx and fy, "
            f"got {k.tolist()}"
        )
    pose = matrix("extrinsics", extrinsics, (3, 4), (4, 4))
    turn = pose[:3, :3]
    with np.errstate(over="ignore", invalid="ignore"):
        rigid = np.abs(turn @ turn.T - np.eye(3)).max() < RIGID_SLACK and np.linalg.det(turn) > 0.0
    if not rigid or pose[3:].tolist() not in ([], [[0.0, 0.0, 0.0, 1.0]]):
        raise ValueError(f"extrinsics must be a rotation and a translation, got {pose.tolist()}")
    if distortion is not None and not np.all(reals("distortion", distortion) == 0.0):
        raise ValueError("distortion must be zero: undistort the pixels first")
    x, y, w = product(whole(k)[0], whole(pose[:3])[0])
    # OpenCV's pixel (0, 0) has its centre at (0, 0), ours at (0.5, 0.5).
    x, y = ([2 * a + b for a, b in zip(row, w, strict=True)] for row in (x, y))
    return pinhole("intrinsics", *picture_rows([x, y, [2 * a for a in w]], raster))


def of_trimesh(
    source: Any, transform: ArrayLike | None, y: str, pixel_ratio: float
) -> tuple[Geometry, Raster]:
    """Return how pixels lie for a trimesh scene or camera, and how many there are."""
    lens = source
    if hasattr(source, "camera_transform"):
        # In this order: a scene that has no camera makes one, and puts it in its place.
        lens = source.camera
        transform = source.camera_transform if transform is None else transform
    if not (hasattr(lens, "resolution") and hasattr(lens, "fov")):
        raise TypeError(f"source must be a trimesh scene or camera, got {type(source).__name__}")
    width, height = (int(n) for n in lens.resolution)
    raster = Raster.checked(width, height, y, pixel_ratio)
    with np.errstate(all="ignore"):
        focal, fov = reals("focal", lens.focal), reals("fov", lens.fov)
    if not ((focal > 0.0) & (focal < np.inf) & (fov > 0.0) & (fov < 180.0)).all():
        raise ValueError(
            f"source must have a field of view between 0 and 180 degrees, got {fov.tolist()}"
        )
    towards_camera = inverse(affine("transform", np.eye(4) if transform is None else transform))
    a, b, c, _ = towards_camera
    ((fx, fy),), scale = whole(focal[None])
    # It looks along -z, y is up, and the middle of the picture is in its axis.
    x = [2 * fx * right - scale * width * back for right, back in zip(a, c, strict=True)]
    v = [-2 * fy * up - scale * height * back for up, back in zip(b, c, strict=True)]
    w = [-2 * scale * back for back in c]
    return pinhole("transform", *picture_rows([x, v, w], raster)), raster
