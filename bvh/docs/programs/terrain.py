"""What is seen from here: the viewshed, the horizon and the shadows of a terrain.

``python -m bvh.docs.programs.terrain`` computes them for a generated one of a million cells.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import bvh
from bvh.docs.programs.gallery.sheet import BLUE, Lit, Sheet, colours

Floats = NDArray[np.float64]

STEP, SHADE = 7.0, ["#4d5c69", "#e9d8a6"]
TEXT = "Rays from a summit to every point of a raster, and from every point to the sun"


def landscape(n: int = 1000, seed: int = 3) -> Floats:
    """Return heights (n, n) of hills of all sizes, by the midpoints of ever smaller squares."""
    rng = np.random.default_rng(seed)
    heights, size, rough = rng.random((3, 3)) * 900.0, 2, 450.0
    while size < n:
        fine = np.empty((2 * size + 1, 2 * size + 1))
        fine[::2, ::2] = heights
        fine[1::2, ::2] = 0.5 * (heights[1:] + heights[:-1])
        fine[:, 1::2] = 0.5 * (fine[:, 2::2] + fine[:, :-1:2])
        heights, size, rough = fine + rough * (rng.random(fine.shape) - 0.5), 2 * size, 0.47 * rough
    return np.asarray(heights[:n, :n])


def viewshed(tree: bvh.BVH, eye: Floats, above: float = 0.0) -> NDArray[np.bool_]:
    """Return which vertices of a terrain, or points above them, see an eye."""
    return np.asarray(tree.visible(tree.vertices + [0.0, 0.0, above], eye))


def horizon(tree: bvh.BVH, eye: Floats, azimuths: Floats, steps: int = 30) -> Floats:
    """Return the angle of the horizon above the level, in radians, in each direction from x on."""
    low, high = np.full(azimuths.shape, -0.5 * np.pi), np.full(azimuths.shape, 0.5 * np.pi)
    for _ in range(steps):
        middle = 0.5 * (low + high)
        level = np.stack([np.cos(azimuths), np.sin(azimuths), np.tan(middle)], axis=-1)
        blocked = np.asarray(tree.any_hit(eye, level))
        low, high = np.where(blocked, middle, low), np.where(blocked, high, middle)
    return low


def shadows(tree: bvh.BVH, points: Floats, sun: Floats) -> NDArray[np.bool_]:
    """Return which points, a little above the ground, do not see the sun."""
    return np.asarray(tree.any_hit(points, sun))


def main(path: Path, width: int = 1000, n: int = 700) -> dict[str, float]:
    """Draw both; return the share that is seen, and the highest horizon in degrees."""
    sheet = Sheet(width, 7.2, "What is seen from here?", TEXT)
    axis = STEP * (np.arange(n) - 0.5 * (n - 1))
    tree = bvh.BVH.from_heightfield(landscape(n), axis, axis)
    top = tree.vertices[tree.vertices[:, 2].argmax()] + [0.0, 0.0, 20.0]
    size, map_size = sheet.raster(6.7, 6.0), sheet.raster(5.1, 5.1)
    reach, sun = STEP * n, np.array([-0.8, 0.45, 0.24])
    camera = bvh.Camera.look_at(
        [-0.95 * reach, -1.05 * reach, 0.85 * reach], [0, 0, 0], fov_y=46, **size
    )
    view = Lit(tree, camera, contrast=0.8, lamp=[-0.8, 0.45, 0.5])
    dark = shadows(tree, view.position + [0.0, 0.0, 0.5], sun)
    sheet.panel(-0.1, 1.2, 6.7, 6.0, view.painted(colours(1.0 - dark, SHADE)))
    above = bvh.Camera.orthographic([0, 0, 9e4], [0, 0, 0], "y", 0.98 * reach, **map_size)
    seen = Lit(tree, above, contrast=0.5, lamp=[-0.6, 0.5, 0.7])
    sees = np.asarray(tree.visible(seen.position + [0.0, 0.0, 0.5], top))
    sheet.panel(6.6, 1.75, 5.1, 5.1, seen.painted(colours(1.0 * sees, ["#e4e7ea", BLUE])))
    sheet.text(6.6, 1.62, "Blue: the summit is seen from here", size=12.5)
    sheet.text(0.3, 1.62, "Dark: in the shadow of a low sun", size=12.5)
    sheet.save(path)
    angles = horizon(tree, top, np.linspace(0.0, 2.0 * np.pi, 360, endpoint=False))
    return {
        "seen": float(viewshed(tree, top, 0.5).mean()),
        "horizon": float(np.degrees(angles.max())),
    }


if __name__ == "__main__":
    from bvh.runtime.arguments import grouped

    terrain = bvh.BVH.from_heightfield(landscape(), STEP * np.arange(1000), STEP * np.arange(1000))
    summit = terrain.vertices[terrain.vertices[:, 2].argmax()] + [0.0, 0.0, 2.0]
    share, count = viewshed(terrain, summit, 0.01).mean(), grouped(len(terrain.vertices))
    print(f"{share:.1%} of {count} points are seen from the summit")  # noqa: T201
