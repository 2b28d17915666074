"""Tasks of exactness: hits of what a ray leaves, rays lost between triangles, rays at features.

In `precision`, rays start above the middle of triangles and go straight away from them, so that
none can hit the triangle that it leaves. A row has triangles of one size, a column origins at one
height above them; a number is the share of rays that are reported to hit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import bvh

from ..peers.caster import Caster, Ours
from ..processes import Row
from ..scenes import Scene, generator, load
from ..workloads import Floats, Workload
from .rays import batch
from .task import Setting, Task

SIZES = tuple(10.0**i for i in range(6))
HEIGHTS = tuple(10.0**-i for i in range(10))
RAYS = 200

# Hostile meshes whose vertices and edges are aimed at, by FEWEST rays at least.
HOSTILE = (
    "flat_grid", "fan", "needles", "needle_prism_tilted", "coincident_layers",
    "degenerate_among_good",
)  # fmt: skip
FEWEST = 500


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


def features(setting: Setting) -> Iterator[Task]:
    """Yield the tasks of rays that pass exactly through vertices and edges.

    Each is timed beside rays through points a tenth nearer to the middle of a face.
    """
    rng, down = np.random.default_rng(0), np.array([0.0, 0.0, -1.0])
    land, hostile = _plateau(161), generator("hostile", "meshes")()
    meshes = [Scene(name, *hostile[name]) for name in HOSTILE]
    for mesh in (land, load("terrain"), load("cad_part"), *meshes):
        tree = bvh.BVH.from_triangles(mesh.vertices, mesh.faces)
        lower, upper = tree.bounds
        span = float((upper - lower).max())
        eye = np.round(0.5 * (lower + upper) + span * np.array([0.31, -0.42, 1.13]), 3)
        faces, used = mesh.vertices[mesh.faces], np.unique(mesh.faces, return_index=True)[1]
        middles = faces.mean(axis=1)
        corners = _aims(faces.reshape(-1, 3)[used], middles[used // 3], setting)
        edges = _aims(faces[:, [0, 2]].mean(axis=1), middles, setting)
        cases = {
            "vertices from a point": (eye, corners - eye),
            "edges from a point": (eye, edges - eye),
            "vertices from above": (corners - span * down, down),
        }
        if mesh is land:
            cases["along diagonals"] = (corners + 0.25 * span, np.full(3, -1.0))
        for name, (o, d) in cases.items():
            yield _beside(setting, tree, mesh, name, *np.broadcast_arrays(o, d))
        yield _sights(setting, tree, mesh, np.broadcast_to(eye, corners[0].shape), corners, rng)


def _aims(points: Floats, middles: Floats, setting: Setting) -> Floats:
    """Return as many points as the option says, or all, and as many nearer to the middles."""
    step = -(-len(points) // setting.options["points"])
    shape = (max(-(-len(points) // step), FEWEST), 3)
    nearer = points + 0.1 * (middles - points)
    return np.stack([np.resize(of[::step], shape) for of in (points, nearer)])


def _plateau(n: int) -> Scene:
    """Return a grid of land, n x n points that are ten metres apart, at geographic coordinates."""
    x, y = np.indices((n, n)) / n
    height = 800 + 120 * np.sin(7 * x) * np.cos(5 * y) + 15 * np.sin(31 * x) * np.sin(43 * y)
    points = np.stack([447312.4 + 10 * n * x, 5411208.7 + 10 * n * y, height], axis=-1)
    first = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    corners = first[:, None] + np.array([[0, n, n + 1], [0, n + 1, 1]])[:, None]
    return Scene("grid", points.reshape(-1, 3), corners.reshape(-1, 3).astype(np.int32))


def _beside(setting: Setting, tree: bvh.BVH, mesh: Scene, name: str, o: Floats, d: Floats) -> Task:
    """Return the task of casting the rays of the first row, beside those of the second."""
    at, beside = (Workload(name, "closest_hit", o[i].copy(), d[i].copy()) for i in range(2))
    task = batch(tree, at, setting.threads, mesh)
    return task._replace(
        ours={**task.ours, "bvh, beside": Ours(tree, setting.threads).rays(beside).call}
    )


def _sights(
    setting: Setting, tree: bvh.BVH, mesh: Scene, eyes: Floats, ends: Floats,
    rng: np.random.Generator,
) -> Task:  # fmt: skip
    """Return the task of lines of sight to vertices, beside those to points near them."""
    points = ends[0]

    def check() -> None:
        some = rng.choice(len(points), 200)
        work = Workload("sight", "any_hit", eyes[some], points[some] - eyes[some], 1.0 - 1e-9)
        hidden = tree.closest_hit(*work.rays).t < work.t_max
        if not np.array_equal(tree.visible(*np.stack([eyes[some], points[some]])), ~hidden):
            raise SystemExit("wrong answer: a line of sight")

    calls = {
        name: partial(tree.visible, eyes, at, threads=setting.threads)
        for name, at in zip(("bvh", "bvh, beside"), ends, strict=True)
    }
    return Task("sight of vertices", "ray", len(points), mesh, calls, check, lambda *_: None)
