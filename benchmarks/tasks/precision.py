"""Tasks of exactness: hits of the surface that a ray leaves, and rays lost between triangles.

Rays start above the middle of triangles and go straight away from them, so that none can hit the
triangle that it leaves. A row has triangles of one size, a column origins at one height above them;
a number is the share of rays that are reported to hit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..peers.caster import Caster, Ours
from ..processes import Row
from ..scenes import generator
from ..workloads import Workload
from .task import Setting

SIZES = tuple(10.0**i for i in range(6))
HEIGHTS = tuple(10.0**-i for i in range(10))
RAYS = 200


def precision(setting: Setting) -> Iterator[Row]:
    """Yield the table of each caster, row by row."""
    count = min(RAYS, setting.options["points"])
    for peer in (Ours, *setting.peers):
        if not hasattr(peer, "rays"):
            continue
        for size in SIZES:
            parts = {f"{h:.0e}": false_hits(peer, size, h, count) for h in HEIGHTS}
            if peer is Ours and any(parts.values()):
                raise SystemExit("wrong answer: a ray hits what it leaves")
            yield {
                "mesh": "", "what": f"{peer.name}, size {size:.0f}", "parts": parts,
                "table": f"share of {count} rays that hit the triangle that they leave, by height",
            }  # fmt: skip


def false_hits(peer: type[Caster], size: float, height: float, count: int) -> float:
    """Return the share of rays that are reported to hit the triangle that they leave."""
    rng = np.random.default_rng(0)
    false = 0
    # One triangle at a time, as another may well be in a ray's path.
    for corners in (rng.random((count, 3, 3)) - 0.5) * size:
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        normal /= np.linalg.norm(normal)
        origins = (corners.mean(axis=0) + normal * height)[None]
        work = Workload("precision", "closest_hit", origins, normal[None])
        query = peer.of_mesh(corners, np.array([[0, 1, 2]])).query("rays", work)
        false += int(query.values(query.call()).hit[0])
    return false / count


def leaks(setting: Setting) -> Iterator[Row]:
    """Yield how many rays are lost that are cast from inside a sphere at vertices and edges."""
    if setting.threads > 1:
        return
    points, faces = generator("sphere", "geodesic_sphere")(32)
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]]])
    aims = np.concatenate([points, points[edges].mean(axis=1)])
    eyes = np.full_like(aims, 0.1)
    work = Workload("leaks", "closest_hit", eyes, aims - eyes)
    lost = {}
    for peer in (Ours, *(peer for peer in setting.peers if peer.max_rays > len(aims))):
        query = peer.of_mesh(points, faces).query("rays", work)
        if query is not None:
            lost[peer.name] = int(np.count_nonzero(~query.values(query.call()).hit))
    if lost["bvh"]:
        raise SystemExit("wrong answer: a ray leaves a closed mesh")
    yield {"what": "leaks", "mesh": "sphere-32", "triangles": len(faces), "count": len(aims),
           "lost": lost}  # fmt: skip
