"""A solid of a mesh with holes: what is inside, how deep, and which voxels?"""

from pathlib import Path

import numpy as np

import bvh
from bvh.docs.programs.gallery.scenery import holed
from bvh.docs.programs.gallery.sheet import GREEN, INK, RED, Lit, Sheet, colours, rgb

DEPTH = ["#1d4e79", "#6aa5cc", "#f3f0e8", "#f5e2c2", "#ecc088"]
TEXT = "The mesh; its signed distance, where red closes the holes; its voxels"


def main(path: Path, width: int = 1000, frequency: int = 51, n: int = 72) -> dict[str, float]:
    """Draw the mesh, a slice of its signed distance, and its voxels; return their volume."""
    shell = bvh.BVH.from_triangles(*holed(frequency))
    sheet = Sheet(width, 5.4, "What is inside a mesh with holes?", TEXT)
    low, high = shell.bounds
    size = sheet.raster(3.8, 4.2)
    camera = bvh.Camera.look_at([2.6, -6.5, 2.2], [0, 0, 0], fov_y=24, **size)
    sheet.panel(0.1, 1.1, 3.8, 4.2, Lit(shell, camera).painted())
    columns, rows = size["width"] // 2, size["height"] // 2
    x, z = np.meshgrid(np.linspace(-1.4, 1.4, columns), np.linspace(1.55, -1.55, rows))
    cut = np.stack([x, np.zeros_like(x), z], axis=-1)
    winding, distance = shell.winding_number(cut), shell.distance(cut)
    signed = np.where(winding > 0.5, -distance, distance)
    axes, levels = sheet.panel(4.1, 1.1, 3.8, 4.2), np.linspace(-0.6, 1.2, 37)
    axes.contourf(x, z, signed, levels, colors=colours(levels / 1.2 + 0.5, DEPTH), extend="both")
    axes.contour(x, z, winding, [0.5], colors=RED, linewidths=1.8)
    axes.contourf(x, z, distance, [0.0, 0.014], colors=INK)
    step = (high - low).max() / n
    grid = np.indices((n, n, n)).reshape(3, -1).T * step + low + step / 2
    full = grid[shell.winding_number(grid) > 0.5]
    voxels = bvh.BVH.from_boxes(full - 0.5 * step, full + 0.5 * step)
    sheet.panel(8.1, 1.1, 3.8, 4.2, Lit(voxels, camera).painted(rgb(GREEN)))
    sheet.save(path)
    return {"volume": len(full) * step**3}
