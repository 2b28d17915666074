"""`python -m benchmarks.instances [mesh]`: rays through many instances of a mesh, and memory.

No binding of Embree for Python offers its instances, so peers cast at the mesh that all instances
make together, and so does a tree of our own. Instances stand in a jittered lattice, turned and
scaled at random, small enough in number that the whole mesh fits the memory. The vertices of that
mesh are rounded for float32; ours are exact, so a few rays at edges hit other faces.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh
from .casters import PEERS, installed
from .machine import machine
from .processes import Row, answer_parent, rows_of
from .report import disturbed, times
from .scenes import NAMES, load
from .timing import undisturbed
from .workloads import Workload

COUNTS = (100, 1_000)
# Faces up to which the whole mesh is made.
MOST = 12_000_000
RAYS = 1 << 18


def placed(mesh: Any, count: int, seed: int = 0) -> tuple[bvh.Scene, NDArray[np.float64]]:
    """Return a scene of `count` instances of a mesh of unit size, and its bounds."""
    rng = np.random.default_rng(seed)
    centre = 0.5 * (mesh.vertices.min(axis=0) + mesh.vertices.max(axis=0))
    tree = bvh.BVH.from_triangles(
        (mesh.vertices - centre) / np.ptp(mesh.vertices, axis=0).max(), mesh.faces
    )
    side = int(np.ceil(count ** (1 / 3)))
    cells = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    maps = np.tile(np.eye(4), (count, 1, 1))
    turns, _ = np.linalg.qr(rng.normal(size=(count, 3, 3)))
    maps[:, :3, :3] = turns * rng.uniform(0.5, 1.2, (count, 1, 1))
    maps[:, :3, 3] = cells[:count] + rng.uniform(-0.3, 0.3, (count, 3))
    scene = bvh.Scene()
    scene.add_many(tree, maps)
    return scene, scene.bounds


def loads(scene: bvh.Scene, seed: int = 1) -> Iterator[Workload]:
    """Yield camera rays, rays from what those hit into all directions, and random rays."""
    rng = np.random.default_rng(seed)
    side = int(RAYS**0.5)
    camera = bvh.Camera.framing(scene.bounds, width=side, height=side)
    o, d = (np.ascontiguousarray(a.reshape(-1, 3)) for a in camera.rays())
    yield _work("primary", o, d)
    hits = scene.closest_hit(o, d)
    at = np.flatnonzero(hits.mask)
    at = at[rng.integers(0, len(at), RAYS)]
    away = rng.normal(size=(RAYS, 3))
    start = o[at] + hits.t[at, None] * d[at] * (1.0 - 1e-4)
    yield _work("diffuse", start, np.where(((away * d[at]).sum(1) > 0)[:, None], -away, away))
    low, high = scene.bounds
    yield _work("random", rng.uniform(low, high, (RAYS, 3)), rng.normal(size=(RAYS, 3)))


def _work(name: str, o: NDArray[np.float64], d: NDArray[np.float64]) -> Workload:
    o, d = (a.astype(np.float32).astype(np.float64) for a in (o, d))
    return Workload(name, "closest_hit", o, d, np.inf)


def measure(options: dict[str, Any]) -> Iterator[Row]:
    """Yield a row for each load."""
    threads, mesh = options["threads"], load(options["mesh"])
    scene, _ = placed(mesh, options["count"])
    calls: dict[str, Any] = {}
    ids: dict[str, Any] = {}
    casters = []
    if options["count"] * len(mesh.faces) <= MOST:
        vertices, faces, leaf, _prim = scene.flattened()
        whole = bvh.BVH.from_triangles(vertices, faces)
        single = vertices.astype(np.float32), faces.astype(np.uint32)
        casters = [make(*single) for name, make in PEERS.items() if installed(name)]
    for work in loads(scene):
        rays = work.origins, work.directions
        hits = scene.closest_hit(*rays)
        calls = {"bvh": lambda rays=rays: scene.closest_hit(*rays, threads=threads)}
        if options["count"] * len(mesh.faces) <= MOST:
            flat = whole.closest_hit(*rays)
            ids = {"leaf": np.append(leaf, -1)[flat.prim_id], "t": flat.t}
            if not all(np.array_equal(getattr(hits, name), ids[name]) for name in ids):
                raise SystemExit("the scene and its mesh differ")
            calls["bvh, one mesh"] = lambda rays=rays: whole.closest_hit(*rays, threads=threads)
        for caster in casters:
            call = caster.batch(work)
            answer = caster.answer(work, call())
            if (answer.hit != hits.mask).mean() > 1e-3:
                raise SystemExit(f"{caster.name} differs in {(answer.hit != hits.mask).sum()} rays")
            calls[caster.name] = call
        seconds, foreign = undisturbed(calls, options["rounds"])
        yield {
            "mesh": mesh.name, "what": work.name, "threads": threads, "seconds": seconds,
            "foreign": foreign, "count": len(hits.t), "instances": options["count"],
        }  # fmt: skip


def memory(name: str, count: int) -> str:
    """Return what a scene takes, and what its mesh would."""
    mesh = load(name)
    scene, _ = placed(mesh, count)
    tree = scene.leaves[0].tree
    held = scene.nbytes
    whole = tree.stats().bytes * count
    return (
        f"{count} instances: {held / 2**20:.1f} MiB, {held / count:.0f} bytes an instance with the "
        f"mesh's tree; as one mesh {whole / 2**30:.2f} GiB, {whole / held:.0f} times as much"
    )


def main() -> None:
    """Measure on one thread and on two."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instances", description=__doc__)
    parser.add_argument("mesh", nargs="*", default=["organic-16", "organic"], help=NAMES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)))
    options = parser.parse_args()
    about = machine()
    print(about["processor"], about["versions"])
    for name in options.mesh:
        for count in map(int, options.counts.split(",")):
            for threads in (1, 2):
                given = {"mesh": name, "rounds": options.rounds, "count": count}
                for row in rows_of("instances", given, threads):
                    each = times(row)
                    cells = [f"bvh {1e9 * each['bvh']:.0f} ns a ray"]
                    for other, seconds in each.items():
                        if other != "bvh":
                            cells.append(f"{other} {seconds / each['bvh']:.2f} times that")
                    mark = " !" if disturbed(row) else ""
                    print(
                        f"{row['mesh']:<12} x {count:<6} {threads} {row['what']:<8} "
                        f"{', '.join(cells)}{mark}"
                    )
        print(memory(name, 10_000))


if __name__ == "__main__":
    import sys

    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        answer_parent(measure)
    else:
        main()
