"""A drive: what does the lidar of a moving car see of a street with trees, return by return?"""

from pathlib import Path

import numpy as np

import bvh
from bvh.docs.programs import lidar
from bvh.docs.programs.gallery.scenery import street
from bvh.docs.programs.gallery.sheet import BLUE, ORANGE, RED, Sheet
from bvh.runtime.arguments import grouped

TEXT = "Returns: {} first (blue), {} second (orange), {} third (red)"


def main(path: Path, width: int = 1000, beams: int = 96, columns: int = 1800) -> list[int]:
    """Draw the points of one turn, coloured by return; return how many there are of each."""
    solid, leaves = (bvh.BVH.from_triangles(*part) for part in street(24))
    # A turn takes a tenth of a second, in which the car drives two metres.
    turn, dip = np.meshgrid(np.linspace(0, 2 * np.pi, columns), np.linspace(-0.4, 0.3, beams))
    pulses = np.stack([np.cos(dip) * np.cos(turn), np.cos(dip) * np.sin(turn), np.sin(dip)], -1)
    cars = np.stack([turn / np.pi, 0 * turn, 0 * turn + 2.0], -1)
    found = np.full((beams, columns, lidar.RETURNS), np.nan)
    for k in range(columns):
        ray, rng = np.ascontiguousarray(pulses[:, k]), np.random.default_rng(k)
        lidar.scan(leaves.arrays, cars[0, k], ray, 80.0, 0.02, rng, found[:, k])
    wall = solid.closest_hit(cars, pulses, t_max=80.0).t[..., None]
    found = np.sort(np.concatenate([np.where(found < wall, found, np.inf), wall], axis=2))[..., :3]
    counts: list[int] = np.isfinite(found).sum(axis=(0, 1)).tolist()
    sheet = Sheet(
        width, 6.6, "What does the lidar of a moving car see?", TEXT.format(*map(grouped, counts))
    )
    camera = bvh.Camera.look_at([-21, -26, 19], [3, 1, 2], fov_y=30, **sheet.raster(12, 5.5))
    axes = sheet.panel(0, 1.1, 12, 5.5)
    axes.set(xlim=(0, camera.width), ylim=(camera.height, 0))
    for k, colour in enumerate((BLUE, ORANGE, RED)):
        hit = np.isfinite(found[..., k])
        x, y, depth = camera.project(cars[hit] + found[hit, k, None] * pulses[hit])
        axes.scatter(x, y, s=36.0 / np.maximum(depth, 1.0), c=colour, lw=0)
    sheet.save(path)
    return counts
