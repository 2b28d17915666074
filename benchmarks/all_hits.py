"""`python -m benchmarks.all_hits [MESH ...]`: all hits and counted hits, beside others'.

Open3D lists all intersections through Embree; trimesh collects them ray by ray, through embreex
where that is installed, and through its r-tree. All take turns, and no time is printed before our
answers equal brute force and agree with each peer's on 99 % of the rays. (Theirs are not all
right: Embree's float32 misses some edges and counts others twice, and trimesh stops at 100 hits.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh
from .casters import installed
from .processes import Row, answer_parent, rows_of
from .report import disturbed, times
from .scenes import USUAL, load
from .timing import geometric_mean, undisturbed
from .workloads import workloads

SIDE, SAMPLE = 256, 200
# Rays for casters that are thousands of times slower.
FEW = 500
AGREEMENT = 0.99

Counts = NDArray[np.int64]
Peer = tuple[Callable[[], object], Callable[[Any], Counts]]


def measure(options: dict[str, Any]) -> Iterator[Row]:
    """Yield a row for each workload and question."""
    scene = load(options["mesh"])
    tree = bvh.BVH.from_triangles(scene.vertices, scene.faces)
    for work in workloads(tree, SIDE, inside=scene.inside):
        if work.name not in ("primary", "diffuse", "random"):
            continue
        for few in (False, True):
            some = work.some(work.name, FEW) if few else work
            o, d = some.origins, some.directions
            _validate(tree, o[:SAMPLE], d[:SAMPLE])
            for question, peers in _peers(scene, o, d, few).items():
                if not peers:
                    continue
                ask = tree.all_hits if question == "all hits" else tree.count_hits
                calls: dict[str, Callable[[], object]] = {
                    "bvh": lambda ask=ask, o=o, d=d: ask(o, d, threads=options["threads"])
                }
                counts = tree.count_hits(o, d, edges="closed")
                for name, (call, count) in peers.items():
                    agree = float(np.mean(count(call()) == counts))
                    if agree < AGREEMENT:
                        print(f"{name} counts other hits than bvh on {1 - agree:.1%} of the rays")
                    calls[name] = call
                seconds, foreign = undisturbed(calls, options["rounds"])
                yield {
                    "mesh": scene.name, "what": f"{question}, {work.name}" + ", few" * few,
                    "threads": options["threads"], "seconds": seconds, "foreign": foreign,
                    "count": len(o),
                }  # fmt: skip


def _validate(tree: bvh.BVH, o: NDArray[np.float64], d: NDArray[np.float64]) -> None:
    """Compare our hits with those of every ray and triangle by itself."""
    corners = np.moveaxis(tree.vertices[tree.faces], 1, 0)
    got = tree.all_hits(o, d)
    for i in range(len(o)):
        each = bvh.ray_triangle(o[i], d[i], *corners)
        order = np.lexsort((np.flatnonzero(each.hit), each.t[each.hit]))
        mine = slice(*got.offsets[i : i + 2])
        if not np.array_equal(got.prim_id[mine], np.flatnonzero(each.hit)[order]):
            raise SystemExit(f"bvh is wrong about ray {i}")


def _peers(
    scene: Any, o: NDArray[np.float64], d: NDArray[np.float64], few: bool
) -> dict[str, dict[str, Peer]]:
    """Return for each question what answers it beside us: its call, and how to count its hits."""
    peers: dict[str, dict[str, Peer]] = {"all hits": {}, "count": {}}
    if installed("open3d") and not few:
        import open3d as o3d

        rays = o3d.core.Tensor(np.hstack([o, d]).astype(np.float32))
        caster = o3d.t.geometry.RaycastingScene()
        caster.add_triangles(
            o3d.core.Tensor(scene.vertices.astype(np.float32)),
            o3d.core.Tensor(scene.faces.astype(np.uint32)),
        )
        peers["all hits"]["Open3D"] = (
            lambda: caster.list_intersections(rays),
            lambda found: np.diff(found["ray_splits"].numpy()),
        )
        peers["count"]["Open3D"] = (
            lambda: caster.count_intersections(rays),
            lambda found: found.numpy(),
        )
    import trimesh

    mesh = trimesh.Trimesh(scene.vertices, scene.faces, process=False)

    def through(module: Any) -> Peer:
        intersector = module.RayMeshIntersector(mesh)
        return (
            lambda: intersector.intersects_id(o, d, return_locations=True, multiple_hits=True),
            lambda found: np.bincount(found[1], minlength=len(o)),
        )

    if installed("embreex") and not few:
        peers["all hits"]["trimesh + embreex"] = through(trimesh.ray.ray_pyembree)
    if installed("rtree") and few:
        # Apart from the others: it leaves nothing of theirs in the caches.
        peers["all hits"]["trimesh"] = through(trimesh.ray.ray_triangle)
    return peers


def main() -> None:
    """Measure each mesh on one thread and on two, and print the ratios."""
    ratios: dict[str, list[float]] = {}
    for name in sys.argv[1:] or USUAL:
        for threads in (1, 2):
            for row in rows_of("all_hits", {"mesh": name, "rounds": 5}, threads):
                each = times(row)
                cells = [f"bvh {1e6 * each['bvh']:.3f} us a ray"]
                for peer, seconds in each.items():
                    if peer != "bvh":
                        cells.append(f"{peer} {seconds / each['bvh']:.2f} times that")
                        ratios.setdefault(peer, []).append(seconds / each["bvh"])
                mark = " !" if disturbed(row) else ""
                print(f"{row['mesh']:<18} {threads} {row['what']:<24} {', '.join(cells)}{mark}")
    for peer, found in ratios.items():
        print(
            f"{peer}: {geometric_mean(found):.2f} times as long as bvh, {min(found):.2f} at least"
        )


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        answer_parent(measure)
    else:
        main()
