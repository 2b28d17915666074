"""`python -m benchmarks.chart FILE.svg`: speed and leaks beside the peers, as a picture."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import numpy as np

import bvh
from benchmarks.peers import casters
from benchmarks.workloads import workloads
from meshes.organic import organic
from meshes.sphere import geodesic_sphere

OURS, THEIRS, TEXT, FAINT = "#d9622b", "#8d99a6", "#2b2f33", "#6b7280"


def measure() -> dict[str, tuple[float, int, int]]:
    """Return (median seconds a ray, rays lost, rays aimed) of each caster found."""
    vertices, faces = organic()
    sphere, sphere_faces = geodesic_sphere(32)
    edges = np.concatenate([sphere_faces[:, [0, 1]], sphere_faces[:, [1, 2]]])
    aims = np.concatenate([sphere, sphere[edges].mean(axis=1)])
    tree = bvh.BVH.from_triangles(vertices, faces)
    rays = {name: r for name, _, r in workloads(tree, 1 << 16)}["random"]
    contestants = list(casters(vertices, faces))
    seconds: dict[str, list[float]] = {name: [] for name, _ in contestants}
    expected = tree.closest_hit(*rays).mask
    for turn in range(6):
        for name, cast in contestants:
            # A slow caster gets fewer rays, but the same ones.
            count = len(rays[0]) if name != "trimesh r-tree" else 1_000
            began = time.perf_counter()
            ids = cast(rays[0][:count], rays[1][:count])
            if turn:
                seconds[name].append((time.perf_counter() - began) / count)
            elif np.mean((ids >= 0) != expected[:count]) > 1e-3:
                raise SystemExit(f"{name} answers something else")
    result = {}
    for name, cast in casters(sphere, sphere_faces):
        some = aims if name != "trimesh r-tree" else aims[:: len(aims) // 2_000]
        eyes = np.full_like(some, 0.1)
        lost = int(np.count_nonzero(cast(eyes, some - eyes) < 0))
        result[name] = float(np.median(seconds[name])), lost, len(some)
    return result


def draw(result: dict[str, tuple[float, int, int]]) -> str:
    """Return the chart as SVG: a bar of rays per second (logarithmic) and a count of leaks."""
    rows = sorted(result.items(), key=lambda item: item[1][0])
    top, step, left, width = 64, 34, 150, 330
    rates = [1 / seconds for _, (seconds, _, _) in rows]
    low, high = 10 ** math.floor(math.log10(min(rates))), max(rates) * 1.05
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{top + step * len(rows)}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="24" font-weight="600" fill="{TEXT}">Rays per second</text>',
        f'<text x="{left}" y="42" fill="{FAINT}" font-size="11">one thread, random rays, '
        "52 020 triangles, logarithmic</text>",
        f'<text x="580" y="24" font-weight="600" fill="{TEXT}">Rays lost</text>',
        f'<text x="580" y="42" fill="{FAINT}" font-size="11">aimed at vertices and edges</text>',
    ]
    for i, (name, (seconds, lost, aimed)) in enumerate(rows):
        y = top + step * i
        share = math.log(1 / seconds / low) / math.log(high / low)
        colour = OURS if name == "bvh" else THEIRS
        weight = "600" if name == "bvh" else "400"
        rate = 1 / seconds
        label = f"{rate / 1e6:.1f} million" if rate > 1e5 else f"{rate:,.0f}".replace(",", " ")
        lines += [
            f'<text x="{left - 10}" y="{y + 15}" text-anchor="end" fill="{TEXT}" '
            f'font-weight="{weight}">{name}</text>',
            f'<rect x="{left}" y="{y}" width="{max(width * share, 2):.0f}" height="20" rx="3" '
            f'fill="{colour}"/>',
            f'<text x="{left + max(width * share, 2) + 8:.0f}" y="{y + 15}" fill="{TEXT}">'
            f"{label}</text>",
            f'<text x="580" y="{y + 15}" fill="{TEXT}" font-weight="{weight}">'
            f"{lost:,} of {aimed:,}</text>".replace(",", " "),
        ]
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """Measure, print and draw."""
    result = measure()
    for name, (seconds, lost, aimed) in result.items():
        print(f"{name:<18} {1e-6 / seconds:>8.3f} Mray/s, {lost} of {aimed} rays lost")
    Path(sys.argv[1]).write_text(draw(result))


if __name__ == "__main__":
    main()
