"""Ambient occlusion: the visible share of the sky for each pixel of a picture.

Run with ``python -m bvh.docs.programs.ambient_occlusion MESH PICTURE.png``.
"""

import sys

import numpy as np
from numpy.typing import NDArray

import bvh


def open_sky(tree: bvh.BVH, camera: bvh.Camera, samples: int = 64) -> NDArray[np.float64]:
    """Return the visible share of the sky for each pixel, 1 for a miss."""
    rng = np.random.default_rng(0)
    origins, directions = camera.rays()
    hits = tree.closest_hit(origins, directions)
    # Of misses these are NaN, and so are their rays, which miss.
    point, normal = hits.position, np.where(hits.front[..., None], hits.normal, -hits.normal)
    span = float(np.ptp(tree.bounds, axis=0).max())
    sky = np.where(hits.mask, 0.0, 1.0)
    for _ in range(samples):
        # A point on the unit sphere plus the normal is distributed like the cosine.
        directions = rng.normal(size=point.shape)
        directions = directions / np.linalg.norm(directions, axis=-1, keepdims=True) + normal
        blocked = tree.any_hit(point + 1e-9 * span * normal, directions, t_max=span)
        sky += np.where(hits.mask & ~blocked, 1.0 / samples, 0.0)
    return sky


if __name__ == "__main__":
    import trimesh
    from PIL import Image

    if len(sys.argv) != 3:
        sys.exit("python -m bvh.docs.programs.ambient_occlusion MESH PICTURE.png")

    tree = bvh.BVH.from_mesh(trimesh.load(sys.argv[1], process=False))
    middle, size = tree.bounds.mean(axis=0), np.ptp(tree.bounds, axis=0).max()
    camera = bvh.Camera.look_at(middle + size * np.array([1.0, 0.7, 1.4]), middle, [0, 1, 0])
    Image.fromarray((255 * open_sky(tree, camera)).astype(np.uint8)).save(sys.argv[2])
