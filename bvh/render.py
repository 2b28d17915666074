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
from bvh.rays import CountedHits, Hits
from bvh.simd import WIDTH
from bvh.tree import BVH
from bvh.workers import Progress

SHADES = ("normals", "clay", "depth", "id", "cost")

# Rays traced at once: a band of rows, small enough to keep memory low and progress lively.
BAND_RAYS = 1 << 18

# Colours of a ray's cost, from nothing to as much as HOTTEST visits of nodes and groups of
# primitives: the same in all pictures, so that they can be compared.
HEAT = np.array([[0.0, 0.0, 0.05], [0.1, 0.1, 0.6], [0.7, 0.1, 0.4], [1.0, 0.6, 0.1], [1, 1, 0.9]])
HOTTEST = 60.0

SKY = np.array([[0.93, 0.95, 0.98], [0.78, 0.83, 0.90]])


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
    tree: BVH,
    camera: Camera,
    shade: str = "normals",
    *,
    samples: int = 1,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Picture:
    """Cast a camera's rays at a tree over triangles and shade what they hit.

    Parameters
    ----------
    tree : BVH
        Over triangles.
    camera : Camera
    shade : {"normals", "clay", "depth", "id", "cost"}
        "normals" colours by the face normal turned to the camera, "clay" lights smooth normals
        with a lamp and its shadow, "depth" fades with distance, "id" gives each face a colour,
        "cost" shows what each ray takes to trace: nodes and groups of triangles, black for none,
        white for 60 and more.
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
    if tree.kind != "triangles":
        raise ValueError(f"tree must hold triangles, got {tree.kind}")
    # Picture files begin at the top and know device pixels only.
    camera = camera.upright()
    shader = _Shader(tree, camera, threads)
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
        hits = tree.closest_hit(
            origins,
            directions,
            camera.t_min,
            camera.t_max,
            threads=threads,
            counters=shade == "cost",
        )
        seconds += time.perf_counter() - began
        if isinstance(hits, CountedHits):
            colours = _heat(hits)
        else:
            colours = np.where(
                hits.mask[..., None],
                shader.colours(shade, hits, origins, directions),
                shader.sky(rows)[:, None],
            )
        # Average the samples of each pixel.
        blocks = colours.reshape(bottom - top, samples, camera.width, samples, 3)
        mean = blocks.mean(axis=(1, 3))
        pixels[top:bottom] = np.clip(mean * 255.0 + 0.5, 0.0, 255.0).astype(np.uint8)
        if progress is not None:
            progress(bottom * camera.width * samples**2, total)
    return Picture(pixels, total, seconds)


class _Shader:
    """Turns hits into colours between 0 and 1."""

    def __init__(self, tree: BVH, camera: Camera, threads: int | None) -> None:
        self.tree = tree
        self.camera = camera
        self.threads = threads
        with np.errstate(invalid="ignore", over="ignore"):
            v0, v1, v2 = (tree.vertices[tree.faces[:, i]] for i in range(3))
            self.normals = _normalised(np.cross(v1 - v0, v2 - v0))
        self.vertex_normals: NDArray[np.float64] | None = None
        corners = np.stack(np.meshgrid(*tree.bounds.T, indexing="ij"), axis=-1).reshape(-1, 3)
        depth = (corners - camera.eye) @ camera.forward
        self.near, self.far = float(depth.min()), float(depth.max())

    def sky(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a colour for each row of the picture."""
        share = (rows / self.camera.height)[:, None]
        return np.asarray(SKY[0] * (1.0 - share) + SKY[1] * share)

    def colours(
        self,
        shade: str,
        hits: Hits,
        origins: NDArray[np.float64],
        directions: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the colours of hits, shape (..., 3); those of misses mean nothing."""
        ids = np.maximum(hits.prim_id, 0)
        if len(self.normals) == 0:
            return np.zeros((*np.shape(ids), 3))
        if shade == "id":
            return _hashed_colours(ids)
        if shade == "depth":
            t = np.where(hits.mask, hits.t, self.near)
            share = (t - self.near) / max(self.far - self.near, np.finfo(np.float64).tiny)
            return np.repeat((1.0 - 0.85 * np.clip(share, 0.0, 1.0))[..., None], 3, axis=-1)
        facing = np.where(hits.front, 1.0, -1.0)[..., None]
        if shade == "normals":
            return np.asarray(self.normals[ids] * facing * 0.5 + 0.5)
        return self._clay(hits, ids, facing, origins, directions)

    def _clay(
        self,
        hits: Hits,
        ids: NDArray[np.int32],
        facing: NDArray[np.float64],
        origins: NDArray[np.float64],
        directions: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        u, v = np.nan_to_num(hits.u)[..., None], np.nan_to_num(hits.v)[..., None]
        corner = self.smooth_normals()[self.tree.faces[ids]]
        weighted = (1 - u - v) * corner[..., 0, :] + u * corner[..., 1, :] + v * corner[..., 2, :]
        normal = _normalised(weighted) * facing
        camera = self.camera
        lamp = _normalised(0.9 * camera.up - 0.75 * camera.right - 0.8 * camera.forward)
        # Start shadow rays a little above the face, so that it does not shadow itself.
        t = np.where(hits.mask, hits.t, 0.0)[..., None]
        lift = 1e-4 * np.abs(self.tree.bounds[1] - self.tree.bounds[0]).max()
        start = origins + t * directions + lift * (self.normals[ids] * facing + lamp)
        lit = ~np.asarray(self.tree.any_hit(start, lamp, threads=self.threads))
        key = np.clip(normal @ lamp, 0.0, 1.0) * np.where(lit, 1.0, 0.25)
        sky = 0.5 + 0.5 * (normal @ camera.up)
        warm, cool = np.array([1.0, 0.93, 0.84]), np.array([0.62, 0.72, 0.88])
        albedo = np.array([0.88, 0.70, 0.58])
        light = 0.95 * key[..., None] * warm + 0.36 * sky[..., None] * cool
        return np.asarray((albedo * light) ** (1 / 1.6))

    def smooth_normals(self) -> NDArray[np.float64]:
        """Return the mean normal of the faces around each vertex."""
        if self.vertex_normals is None:
            total = np.zeros_like(self.tree.vertices)
            for i in range(3):
                np.add.at(total, self.tree.faces[:, i], np.nan_to_num(self.normals))
            self.vertex_normals = _normalised(total)
        return self.vertex_normals


def _normalised(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return vectors of length 1; zero where there is no direction."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0.0))


def _heat(hits: CountedHits) -> NDArray[np.float64]:
    """Return the colours of what rays cost."""
    cost = hits.nodes + hits.tests / WIDTH
    place = np.clip(cost / HOTTEST, 0.0, 1.0) * (len(HEAT) - 1)
    return np.stack(
        [np.interp(place, np.arange(len(HEAT)), HEAT[:, channel]) for channel in range(3)], axis=-1
    )


def _hashed_colours(ids: NDArray[np.int32]) -> NDArray[np.float64]:
    """Give each id a colour of its own, as unlike its neighbours' as can be."""
    # Multiply by the golden ratio's odd 32-bit fraction and take three bytes (Knuth).
    mixed = (ids.astype(np.uint32) + np.uint32(1)) * np.uint32(2654435769)
    shifts = np.array([24, 16, 8], np.uint32)
    return np.asarray(0.2 + 0.75 * ((mixed[..., None] >> shifts) & np.uint32(255)) / 255.0)
