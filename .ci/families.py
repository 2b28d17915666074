"""Picture of hostile families for the page "Correctness": python .ci/families.py draws it.

Meshes are stretched to a cube, axis by axis. What rays hit is marked; rays that hit nothing, and
do not pass by far away, are drawn in red.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
# The tests, whose families these are, are not installed.
sys.path.insert(0, str(ROOT))

import bvh  # noqa: E402
from tests.cases.families import build  # noqa: E402

PANELS = {
    "fan_hub_0.25": "128 faces around a vertex",
    "many_on_an_edge": "12 faces on an edge",
    "silhouette_exact_edge": "silhouettes met exactly",
    "grid_exact_vertex": "aims at the vertices of a grid",
    "integer_terrain_oblique": "aims at edges of a terrain",
    "rays_in_faces_diagonal": "rays within faces",
    "needles_1e-06": "needles, 1 to 1e-6",
    "one_ulp_off_plane_1": "origins an ulp off a plane",
    "lattice_3": "integers at integers",
    "inside_asteroid": "rays from inside, none may leave",
    "layers_2.22045e-16": "layers an ulp apart",
    "chaos_uniform": "noise",
}
FROM = np.array([[0.86, 0.5, 0.0], [-0.26, 0.45, 0.85]])
BLUE, GREEN, RED = "#3b6fb6", "#2f8f4e", "#c0443c"


def flat(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return points @ FROM.T


def main(path: Path) -> None:
    figure = Figure(figsize=(8.8, 7.9), dpi=100)
    axes = figure.subplots(3, 4)
    for axis, (name, title) in zip(axes.flat, PANELS.items(), strict=True):
        one = build(name)
        low = one.vertices.min(0)
        size = np.ptp(one.vertices, axis=0)
        size[size == 0] = size.max()
        corners = (one.vertices - low) / size
        tree = bvh.BVH.from_triangles(one.vertices, one.faces)
        hits = tree.closest_hit(one.origins, one.directions, one.t_min, one.t_max, cull=one.cull)
        edges = np.concatenate([one.faces[:, [0, 1]], one.faces[:, [1, 2]], one.faces[:, [2, 0]]])
        sides = flat(corners[np.unique(np.sort(edges, axis=1), axis=0)])
        axis.add_collection(LineCollection(sides, colors=BLUE, linewidths=0.5, alpha=0.6))
        directions = one.directions / size
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        directions = np.divide(
            directions, lengths, where=lengths > 0, out=np.zeros_like(directions)
        )
        origins = (one.origins - low) / size
        found = hits.mask
        at = one.origins[found] + hits.t[found, None] * one.directions[found]
        at = (at - low) / size
        before = np.minimum(0.35, np.linalg.norm(at - origins[found], axis=1))[:, None]
        rays = np.stack([at - before * directions[found], at], axis=1)
        axis.add_collection(LineCollection(flat(rays), colors=GREEN, linewidths=0.6, alpha=0.6))
        axis.plot(*flat(at).T, ".", color=GREEN, markersize=3)
        # The point of the ray that is nearest the middle of the mesh.
        near = ((0.5 - origins) * directions).sum(1)[:, None] * directions + origins
        passing = ~found & (np.abs(near - 0.5).max(1) < 0.7)
        missed = np.stack([near - 0.3 * directions, near + 0.3 * directions], axis=1)[passing]
        axis.add_collection(LineCollection(flat(missed), colors=RED, linewidths=0.5, alpha=0.5))
        axis.set_title(title, fontsize=9)
        low, high = flat(corners).min(0), flat(corners).max(0)
        middle, half = (low + high) / 2, 0.62 * (high - low).max()
        axis.set_xlim(middle[0] - half, middle[0] + half)
        axis.set_ylim(middle[1] - half, middle[1] + half)
        axis.set_aspect("equal")
        axis.axis("off")
    figure.tight_layout(pad=0.6, h_pad=2.0)
    figure.savefig(path, pil_kwargs={"quality": 80, "method": 6})


if __name__ == "__main__":
    main(ROOT / "bvh" / "docs" / "stages" / "families.webp")
