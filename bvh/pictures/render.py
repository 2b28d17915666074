"""Pictures of what a camera's rays hit."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import whole_number
from bvh.camera import Camera
from bvh.pictures.shading import SHADES, Shader
from bvh.scene import Scene
from bvh.tree import BVH
from bvh.workers import Progress

# Rays traced at once: a band of rows, small enough to keep memory low and progress lively.
BAND_RAYS = 1 << 18


@dataclass(frozen=True, eq=False)
class Picture:
    """A rendered picture.

    Attributes
    ----------
    pixels : ndarray of uint8, shape (height, width, 3)
    rays : int
        Rays that were cast.
    seconds : float
        Time spent casting them, shading not included.
    """

    pixels: NDArray[np.uint8]
    rays: int
    seconds: float

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to an image file; the ending tells the format."""
        check_picture_path(path)
        from PIL import Image

        Image.fromarray(self.pixels).save(path)


def check_picture_path(path: str | os.PathLike[str]) -> None:
    """Raise if no picture can be written to a path, before any work is done for it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('saving pictures needs pillow: pip install "raybvh[cli]"') from error
    file = Path(path)
    if file.suffix.lower() not in Image.registered_extensions():
        raise ValueError(f"cannot write {file}: unknown picture format {file.suffix!r}")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {file.parent}")


def render(
    source: BVH | Scene,
    camera: Camera,
    shade: str = "normals",
    *,
    samples: int = 1,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Picture:
    """Cast a camera's rays at a tree over triangles, or at a scene, and shade what they hit.

    Parameters
    ----------
    source : BVH or Scene
        A tree over triangles, or a scene of any trees.
    camera : Camera
    shade : {"normals", "clay", "depth", "id", "instance", "cost"}
        "normals" colours by the normal in the world, turned to the camera; "clay" lights smooth
        normals with a lamp and its shadow; "depth" fades with distance; "id" gives each face a
        colour, "instance" each instance one, darker where it is seen at a slant; "cost" shows what
        each ray takes to trace: nodes and groups of triangles, black for none, white for 60 and
        more.
    samples : int
        Rays along each side of a pixel: 2 means four rays a pixel.
    threads : int, optional
        Threads to use; one for each CPU by default.
    progress : callable, optional
        Called as progress(done, total) in rays.

    Returns
    -------
    Picture

    Raises
    ------
    ValueError
        If `shade` or `samples` is not one of those, or the tree does not hold triangles.
    """
    if shade not in SHADES:
        raise ValueError(f"shade must be one of {SHADES}, got {shade!r}")
    samples = whole_number("samples", samples)
    if isinstance(source, BVH) and source.kind != "triangles":
        raise ValueError(f"tree must hold triangles, got {source.kind}")
    # Picture files begin at the top and know device pixels only.
    camera = camera.upright()
    shader = Shader(source, camera, threads)
    pixels = np.empty((camera.height, camera.width, 3), np.uint8)
    offsets = (np.arange(samples) + 0.5) / samples
    columns = (np.arange(camera.width)[:, None] + offsets).reshape(-1)
    total = camera.height * camera.width * samples**2
    band = max(1, BAND_RAYS // (camera.width * samples**2))
    seconds = 0.0
    for top in range(0, camera.height, band):
        bottom = min(top + band, camera.height)
        rows = (np.arange(top, bottom)[:, None] + offsets).reshape(-1)
        origins, directions = camera.ray(*np.meshgrid(columns, rows))
        began = time.perf_counter()
        hits = source.closest_hit(
            origins,
            directions,
            camera.t_min,
            camera.t_max,
            threads=threads,
            counters=shade == "cost",
        )
        seconds += time.perf_counter() - began
        colours = shader.colours(shade, hits, origins, directions, rows)
        # Average the samples of each pixel.
        blocks = colours.reshape(bottom - top, samples, camera.width, samples, 3)
        mean = blocks.mean(axis=(1, 3))
        pixels[top:bottom] = np.clip(mean * 255.0 + 0.5, 0.0, 255.0).astype(np.uint8)
        if progress is not None:
            progress(bottom * camera.width * samples**2, total)
    return Picture(pixels, total, seconds)
