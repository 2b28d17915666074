"""How dense is a cloud of points, and which of its points are in the lasso?"""

from pathlib import Path
from typing import Any

import numpy as np

import bvh
from bvh.apps.bundled import bundled
from bvh.docs.programs.gallery.sheet import BLUE, INK, ORANGE, THICK, Lit, Sheet, colours, rgb

TEXT = "from_points: their density, a lasso, and a pick"


def main(path: Path, width: int = 1000, count: int = 60_000) -> dict[str, Any]:
    """Draw a cloud in the colours of its density, and a selection; return what was found."""
    rng, (points, faces) = np.random.default_rng(6), bundled("meshes.organic").organic(40)
    surface = bvh.BVH.from_triangles(points, faces)
    rays = rng.standard_normal((8 * count, 3)) * [1.0, 1.0, 0.5]
    # A scanner from inside out: sparse where the surface is far or steep.
    hits = surface.closest_hit(3.0 * rays / np.linalg.norm(rays, axis=1, keepdims=True), -rays)
    cloud = hits.position[hits.mask][:count]
    tree, sheet = bvh.BVH.from_points(cloud), Sheet(width, 5.9, "Which points?", TEXT)
    gaps = tree.closest_point(cloud, k=9).distance[:, -1]
    camera = bvh.Camera.look_at([2.6, -6.5, 2.6], [0, 0, 0], fov_y=25, **sheet.raster(5.8, 4.7))
    a = np.linspace(0.0, 2.0 * np.pi, 90)
    middle, size = np.array([camera.width, camera.height]) * [[0.52], [0.42]], 0.19 * camera.height
    lasso = np.stack([middle[0, 0] + size * np.cos(a) * (1.2 + 0.2 * np.cos(3 * a)),
                      middle[1, 1] + size * np.sin(a)], axis=1)  # fmt: skip
    chosen = tree.pick_lasso(camera, lasso, what="faces")
    pick = tree.pick(camera, 0.3 * camera.width, 0.6 * camera.height, radius=20)
    view, (low, high) = Lit(tree, camera), np.quantile(gaps, [0.02, 0.98])
    dense = colours((gaps[view.id] - low) / (high - low), THICK[::-1])
    sheet.panel(0.1, 1.05, 5.8, 4.7, view.painted(dense))
    sheet.bar(9.2, 0.55, THICK[::-1], [f"{low:.3f}", f"{high:.3f}"], "8th neighbour at")
    inside = np.isin(view.id, chosen.ids)[:, None]
    axes = sheet.panel(6.1, 1.05, 5.8, 4.7, view.painted(np.where(inside, rgb(BLUE) * 1.2, 0.8)))
    axes.plot(*lasso.T, color=INK, lw=1.4)
    if pick is not None:
        x, y, _ = camera.project(pick.position)
        axes.plot(x, y, "o", color=ORANGE, ms=9)
        axes.annotate(f"point {pick.prim_id}", (x, y), (x - 120, y + 200), size=11.5, color=INK,
                      arrowprops={"arrowstyle": "-", "color": INK})  # fmt: skip
    sheet.save(path)
    return {"points": len(cloud), "lasso": len(chosen), "gap": float(np.median(gaps))}
