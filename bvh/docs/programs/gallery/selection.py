"""Selection: which faces are under the cursor, in the rectangle, and in the lasso?"""

from pathlib import Path
from typing import Any

import numpy as np

import bvh
from bvh.docs.programs.gallery.scenery import statues
from bvh.docs.programs.gallery.sheet import GREEN, INK, ORANGE, RED, Lit, Sheet, rgb

TEXT = "Scene.pick, pick_rect and pick_lasso, which takes what is hidden, too"


def main(path: Path, width: int = 1000, frequency: int = 20) -> dict[str, Any]:
    """Draw a pick, a rectangle and a lasso; return what was picked and how many were selected."""
    (scene, floor), sheet = statues(frequency), Sheet(width, 5.8, "Which faces are selected?", TEXT)
    camera = bvh.Camera.look_at([0, -13, 4.2], [0, 0, 1.2], fov_y=14.3, **sheet.raster(12, 4.8))
    grid, a = camera.width / 120.0, np.linspace(0.0, 2.0 * np.pi, 90)
    lasso = grid * np.stack([95 + 8 * np.cos(a) + 2 * np.cos(3 * a), 24 + 9 * np.sin(a)], axis=1)
    x0, y0, x1, y1 = box = grid * np.array([53, 14, 68, 28])
    pick = scene.pick(camera, 29 * grid, 20 * grid)
    assert pick is not None
    chosen = scene.pick_rect(camera, *box, visible_only=True), scene.pick_lasso(camera, lasso)
    view = Lit(scene, camera, floor)
    paint = np.full((len(view.id), 3), 0.8)
    for selection, name in zip(chosen, (ORANGE, GREEN), strict=True):
        for row, instance in enumerate(selection.instance_id):
            paint[(view.instance == instance) & np.isin(view.id, selection[row])] = rgb(name)
    paint[(view.instance == pick.instance_id) & (view.id == pick.prim_id)] = rgb(RED)
    axes = sheet.panel(0, 1, 12, 4.8, view.painted(paint, wires=True))
    axes.plot([x0, x1, x1, x0, x0], [y0, y0, y1, y1, y0], "--", color=INK, lw=1.4)
    axes.plot(*lasso.T, color=INK, lw=1.4)
    x, y, _ = camera.project([pick.position, pick.position + 0.4 * pick.normal])
    axes.plot(x, y, color=RED, lw=2.0)
    text = f"{pick.name}, face {pick.face_id}, t = {pick.t:.3f}"
    line = {"arrowstyle": "-", "color": INK}
    axes.annotate(text, (x[0], y[0]), (20 * grid, grid), size=11.5, color=INK, arrowprops=line)
    sheet.save(path)
    return {"pick": pick.name, "rectangle": len(chosen[0]), "lasso": len(chosen[1])}
