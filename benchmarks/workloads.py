"""Workloads: batches of rays as programs cast them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import bvh

Floats = NDArray[np.float64]

TILE = 4
# Position of the lamp from the mesh's centre, in its spans.
LAMP = np.array([0.6, 0.4, 1.2])
# Workloads that geometric means are taken over.
BATCHES = ["primary", "primary tiled", "diffuse", "diffuse shuffled", "random", "shadow"]


def dashed(name: str) -> str:
    """Return a name as the command line has it."""
    return name.replace(" ", "-")


@dataclass(frozen=True)
class Workload:
    """Batch of rays of one kind: arrays of shape (n, 3), and the end of all rays."""

    name: str
    query: Literal["closest_hit", "any_hit"]
    origins: Floats
    directions: Floats
    t_max: float = np.inf

    def __len__(self) -> int:
        """Return the number of rays."""
        return len(self.origins)

    @property
    def rays(self) -> tuple[Floats, Floats]:
        """Origins and directions."""
        return self.origins, self.directions

    def of(self, rays: NDArray[np.int64]) -> Workload:
        """Return some of the rays."""
        return replace(self, origins=self.origins[rays], directions=self.directions[rays])

    def sample(self, count: int) -> Workload:
        """Return `count` of the rays, picked at random; or all of them, in order."""
        if count >= len(self):
            return self
        return self.of(np.random.default_rng(0).choice(len(self), count, replace=False))


def workloads(
    tree: bvh.BVH, side: int, *, inside: bool = False, seed: int = 0
) -> Iterator[Workload]:
    """Yield the batches of rays, about ``side * side`` rays each.

    primary : a camera's rays, row by row.
    primary tiled : the same rays, tile by tile of 4 x 4 pixels.
    diffuse : rays bounced off what the camera sees, cosine-weighted, in the order of the pixels.
    diffuse shuffled : the same rays in no order.
    random : rays from a sphere around the mesh towards points of its box.
    shadow : segments from what the camera sees to a lamp, asked for any hit.

    The side of the picture is a multiple of 4; `inside` puts the camera and the lamp into the mesh.
    If float32 holds the vertices, it holds the rays, too, so that all casters get the same.
    """
    rng = np.random.default_rng(seed)
    single = bool((tree.vertices == tree.vertices.astype(np.float32)).all())

    def rounded(array: Floats) -> Floats:
        array = array.astype(np.float32).astype(np.float64) if single else array
        return np.ascontiguousarray(array)

    def work(name: str, origins: Floats, directions: Floats) -> Workload:
        return Workload(name, "closest_hit", rounded(origins), rounded(directions))

    lower, upper = tree.bounds
    span = float(np.linalg.norm(upper - lower))
    center = 0.5 * lower + 0.5 * upper
    outer = bvh.Camera.framing(tree.bounds, width=side, height=side, fill=0.94)
    camera = inner_camera(tree, side) if inside else outer
    primary = work("primary", *(a.reshape(-1, 3) for a in camera.rays()))
    yield primary
    yield replace(primary.of(tiles(side, side)), name="primary tiled")

    points, normals = _visible(tree, primary)
    bounce = rng.normal(size=points.shape)
    bounce /= np.linalg.norm(bounce, axis=1, keepdims=True)
    diffuse = work("diffuse", points + 1e-5 * span * normals, normals + 0.999 * bounce)
    yield diffuse
    yield replace(diffuse.of(rng.permutation(len(points))), name="diffuse shuffled")

    around = rng.normal(size=(side * side, 3))
    around = rounded(center + span * around / np.linalg.norm(around, axis=1, keepdims=True))
    yield work("random", around, rng.uniform(lower, upper, size=(side * side, 3)) - around)

    lamp = center + (upper - lower) * [0.0, 0.0, 0.2] if inside else center + span * LAMP
    segments = work("shadow", diffuse.origins, lamp - diffuse.origins)
    yield replace(segments, query="any_hit", t_max=1.0)


def inner_camera(tree: bvh.BVH, side: int) -> bvh.Camera:
    """Return a camera at one end of a building that looks along its length."""
    lower, upper = tree.bounds
    size = upper - lower
    along = int(size[:2].argmax())
    eye, target = 0.5 * lower + 0.5 * upper, 0.5 * lower + 0.5 * upper
    eye[along], target[along] = lower[along] + 0.06 * size[along], upper[along]
    eye[2], target[2] = lower[2] + 0.35 * size[2], lower[2]
    return bvh.Camera.look_at(eye, target, fov_y=55.0, width=side, height=side)


def tiles(width: int, height: int) -> NDArray[np.int64]:
    """Return the pixels of a picture tile by tile, row by row within each."""
    pixels = np.arange(width * height).reshape(height // TILE, TILE, width // TILE, TILE)
    return pixels.transpose(0, 2, 1, 3).reshape(-1)


def _visible(tree: bvh.BVH, work: Workload) -> tuple[Floats, Floats]:
    """Return the points that rays hit, and the unit normals there, towards the rays' origins."""
    hits = tree.closest_hit(*work.rays)
    v0, v1, v2 = (tree.vertices[tree.faces[hits.prim_id[hits.mask], i]] for i in range(3))
    normals = np.cross(v1 - v0, v2 - v0)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    normals *= np.where(hits.front[hits.mask], 1.0, -1.0)[:, None]
    o, d, t = (a[hits.mask] for a in (*work.rays, hits.t))
    return o + t[:, None] * d, normals
