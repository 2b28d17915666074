"""A tour: a cursor that hovers, a lasso that selects, and what each ray costs, as an animation."""

from pathlib import Path
from typing import Any

import numpy as np

import bvh
from bvh.docs.programs.gallery.scenery import statues
from bvh.docs.programs.gallery.sheet import FAINT, GREEN, INK, RED, Floats, Lit, rgb
from bvh.pictures import render

CURSOR = np.array([[0, 0], [0, 17], [4, 13], [7, 19], [10, 18], [7, 12], [12, 12]], float)
Line = Floats | list[Floats]


def drawn(pixels: Floats, call: str, text: str, lasso: Line, cursor: Line) -> Any:
    """Return a frame with its caption, a lasso and a cursor."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.fromarray((255 * pixels).astype(np.uint8))
    draw, size = ImageDraw.Draw(image), image.width // 42
    draw.text((12, 8), call, fill=INK, font=ImageFont.load_default(size))
    draw.text((12, 12 + size), text, fill=FAINT, font=ImageFont.load_default(size))
    if len(lasso) > 1:
        draw.line([tuple(point) for point in lasso], fill=INK, width=2)
    if len(cursor):
        draw.polygon([tuple(point) for point in CURSOR + cursor], fill=INK, outline="white")
    return image


def main(path: Path, width: int = 800, frequency: int = 13, n: int = 20) -> dict[str, int]:
    """Write n frames of each part; return how many faces were hovered over, and selected."""
    (scene, floor), height = statues(frequency), width * 7 // 16
    frames, faces, at = [], set(), [0, 0, 1.35]
    camera = bvh.Camera.look_at([0, -13, 4.2], at, "z", 16.8, 2 * width, 2 * height)
    # High enough for shadows that end in the picture.
    view = Lit(scene, camera, floor, lamp=[-0.3, -0.6, 1.6])
    hover, pixel = scene.picker(camera), np.array([width, height])
    for s in np.linspace(0.0, 1.0, 2 * n):
        cursor = np.array([0.13 + 0.72 * s, 0.53 - 0.15 * np.sin(9.0 * s)]) * pixel
        pick, text, paint = hover(*2.0 * cursor), "nothing", np.full((len(view.id), 3), 0.8)
        if pick is not None and pick.instance_id != floor:
            text, mine = f"{pick.name}, face {pick.face_id}", view.instance == pick.instance_id
            paint[mine] *= [0.8, 0.93, 1.05]
            paint[mine & (view.id == pick.prim_id)] = rgb(RED)
            faces.add((pick.instance_id, pick.prim_id))
        shown = view.painted(paint, wires=True)
        frames.append(drawn(shown, "hover = scene.picker(camera)", text, [], cursor))
    plain, paint, a = view.painted(wires=True), paint * 0.0 + 0.8, np.linspace(0.0, 6.3, n)
    lasso = np.stack([0.56 + 0.17 * np.cos(a), 0.56 + 0.2 * np.sin(a)], axis=1)
    lasso, call = lasso * pixel, "scene.pick_lasso(camera, polygon)"
    for k in range(n):
        found = len(scene.pick_lasso(camera, 2.0 * lasso[: k + 1])) if k > 1 else 0
        frames.append(drawn(plain, call, f"{found} faces", lasso[: k + 1], lasso[k]))
    chosen = scene.pick_lasso(camera, 2.0 * lasso)
    for row, instance in enumerate(chosen.instance_id):
        paint[(view.instance == instance) & np.isin(view.id, chosen[row])] = rgb(GREEN)
    selected = view.painted(paint, wires=True)
    frames += [drawn(selected, call, f"{len(chosen)} faces", lasso, [])] * (n // 2)
    costs, call = render(scene, camera, "cost").pixels[::2, ::2] / 255.0, 'shade="cost"'
    for s in [*np.linspace(0.0, 1.0, n), *[1.0] * (n // 2)]:
        mixed = np.where(np.arange(width)[:, None] < s * width, costs, selected)
        mixed[: height // 6] = 1.0
        frames.append(drawn(mixed, call, "nodes and groups of triangles that a ray visits", [], []))
    style = {"duration": 80, "loop": 0, "quality": 80, "method": 6}
    frames[0].save(path, save_all=True, append_images=frames[1:], **style)
    return {"faces": len(faces), "selected": len(chosen)}
