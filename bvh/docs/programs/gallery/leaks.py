"""Leaks: which rays slip through a wall that are aimed at its edges and vertices?"""

from pathlib import Path

import numpy as np

import bvh
from bvh.apps.bundled import bundled
from bvh.docs.programs.gallery.scenery import wall
from bvh.docs.programs.gallery.sheet import GREEN, RED, Floats, Lit, Sheet
from bvh.runtime.arguments import grouped

EYE = np.array([0.7123, 0.5321, 2.0123], np.float32).astype(float)


def main(path: Path, width: int = 1000, n: int = 40) -> dict[str, int]:
    """Draw the rays that bvh and each installed peer lose; return how many."""
    points, faces = wall(n)
    sides = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2))
    edges, used = np.unique(sides, axis=0, return_counts=True)
    inner = edges[~np.isin(edges, edges[used == 1]).any(axis=1)]
    aims = np.concatenate([(points[inner] * [[4 - k], [k]]).sum(axis=1) / 4 for k in range(5)])
    # Rounded to float32, for all alike; the wall is wider than the rays.
    rays = np.unique((aims - EYE).astype(np.float32).astype(float), axis=0)
    work = bundled("benchmarks.workloads").Workload("leaks", "closest_hit", EYE + 0 * rays, rays)
    peers, lost = bundled("benchmarks.peers"), dict[str, Floats]()
    for caster in (bundled("benchmarks.peers.caster").Ours, *peers.available()):
        query = caster.of_mesh(points, faces).query("rays", work)
        if query is not None:
            lost[caster.name] = EYE + rays[~query.values(query.call()).hit]
    text = f"{grouped(len(rays))} rays at edges and corners of {grouped(len(faces))} faces; all hit"
    title, height = "Which rays slip through the wall?", 1.3 + 3.05 * -(-len(lost) // 3)
    sheet = Sheet(width, height, title, text)
    camera = bvh.Camera.look_at(EYE, [0.75, 0.5, 0.0], "y", 28.4, **sheet.raster(3.75, 2.5))
    shown = Lit(bvh.BVH.from_triangles(points, faces), camera).painted()
    for k, (name, missed) in enumerate(lost.items()):
        left, top = 0.3 + 3.85 * (k % 3), 1.5 + 3.05 * (k // 3)
        axes = sheet.panel(left, top, 3.75, 2.5, shown)
        axes.triplot(*camera.project(points)[:2], faces, color="white", lw=0.5, alpha=0.5)
        axes.scatter(*camera.project(missed)[:2], s=26, c=RED, lw=0.6, edgecolors="white", zorder=3)
        sheet.text(left, top - 0.12, name, size=12.5, weight="bold")
        count, pen = len(missed) or "none", RED if len(missed) else GREEN
        sheet.text(left + 3.7, top - 0.12, f"{count} lost", size=12.5, ha="right", color=pen)
    sheet.text(11.7, 0.76, "●  a ray that is lost", size=12.5, color=RED, ha="right")
    sheet.save(path)
    return {name: len(missed) for name, missed in lost.items()}
