"""Rays as programs cast them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import bvh

TILE = 4

# What a geometric mean is taken over.
BATCHES = ["primary", "primary tiled", "diffuse", "diffuse shuffled", "random", "shadow"]


class Workload(NamedTuple):
    """Rays of one kind.

    Attributes
    ----------
    name : str
    query : {"closest_hit", "any_hit"}
    origins, directions : ndarray of float64, shape (n, 3)
    t_max : float
        Of all rays.
    """

    name: str
    query: str
    origins: NDArray[np.float64]
    directions: NDArray[np.float64]
    t_max: float = np.inf

    def __len__(self) -> int:
        """Return the number of rays."""
        return len(self.origins)

    def some(self, name: str, count: int, seed: int = 0) -> Workload:
        """Return `count` of the rays, picked at random, under another name."""
        return Workload(name, *self.sample(count, seed)[0][1:])

    def sample(self, count: int, seed: int = 0) -> tuple[Workload, NDArray[np.int64]]:
        """Return `count` of the rays, picked at random, and which they are; or all, in order."""
        if count >= len(self):
            return self, np.arange(len(self))
        pick = np.random.default_rng(seed).choice(len(self), count, replace=False)
        rays = self.origins[pick], self.directions[pick]
        return Workload(self.name, self.query, *rays, self.t_max), pick


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

    If float32 holds the vertices, it holds the rays too, so that everyone is asked the same.

    Parameters
    ----------
    tree
        A tree over triangles.
    side
        Width and height of the picture, a multiple of 4.
    inside
        Put the camera and the lamp into the mesh.
    seed
        Of the random rays.
    """
    rng = np.random.default_rng(seed)
    single = bool((tree.vertices == tree.vertices.astype(np.float32)).all())
    lower, upper = tree.bounds
    span = float(np.linalg.norm(upper - lower))
    center = 0.5 * lower + 0.5 * upper

    camera = inner_camera(tree, side) if inside else outer_camera(tree, side)
    eyes, looks = camera.rays()
    origins, directions = (_held(a.reshape(-1, 3), single) for a in (eyes, looks))
    yield Workload("primary", "closest_hit", origins, directions)
    order = tiles(side, side)
    yield Workload("primary tiled", "closest_hit", origins[order], directions[order])

    points, normals = _seen(tree, origins, directions)
    points = _held(points + 1e-5 * span * normals, single)
    bounce = rng.normal(size=points.shape)
    bounce /= np.linalg.norm(bounce, axis=1, keepdims=True)
    bounce = _held(normals + 0.999 * bounce, single)
    yield Workload("diffuse", "closest_hit", points, bounce)
    order = rng.permutation(len(points))
    yield Workload("diffuse shuffled", "closest_hit", points[order], bounce[order])

    around = rng.normal(size=(side * side, 3))
    around = center + span * around / np.linalg.norm(around, axis=1, keepdims=True)
    within = rng.uniform(lower, upper, size=(side * side, 3))
    around = _held(around, single)
    yield Workload("random", "closest_hit", around, _held(within - around, single))

    lamp = center + (upper - lower) * [0.0, 0.0, 0.2] if inside else center + span * LAMP
    yield Workload("shadow", "any_hit", points, _held(lamp - points, single), 1.0)


LAMP = np.array([0.6, 0.4, 1.2])


def outer_camera(tree: bvh.BVH, side: int) -> bvh.Camera:
    """Return the camera that sees all of a mesh from outside."""
    return bvh.Camera.framing(tree.bounds, width=side, height=side)


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
    """Return the pixels of a picture, tile by tile, row by row within each."""
    pixels = np.arange(width * height).reshape(height // TILE, TILE, width // TILE, TILE)
    return pixels.transpose(0, 2, 1, 3).reshape(-1)


def _seen(
    tree: bvh.BVH, origins: NDArray[np.float64], directions: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the points that rays hit, and the unit normals there, towards the rays' origins."""
    hits = tree.closest_hit(origins, directions)
    seen = hits.mask
    v0, v1, v2 = (tree.vertices[tree.faces[hits.prim_id[seen], i]] for i in range(3))
    normals = np.cross(v1 - v0, v2 - v0)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    normals *= np.where(hits.front[seen], 1.0, -1.0)[:, None]
    return origins[seen] + hits.t[seen][:, None] * directions[seen], normals


def _held(array: NDArray[np.float64], single: bool) -> NDArray[np.float64]:
    """Return a contiguous array, rounded to what float32 holds if asked to."""
    if single:
        array = array.astype(np.float32).astype(np.float64)
    return np.ascontiguousarray(array)
