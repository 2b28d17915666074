"""`python -m benchmarks.points [MESH ...]`: nearest points and signed distances, beside the peers.

Open3D and libigl are asked the same as we are, with numbers that float32 holds, and trimesh the
same of fewer points, as it takes a hundred times as long. A peer that is not installed is left out.
No time is printed before a sample of our distances equals brute force over all faces, and all of
them agree with each peer's; a ratio is the peer's time over ours.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh
from benchmarks.processes import Row, answer_parent, rows_of
from benchmarks.scenes import NAMES, USUAL, load
from benchmarks.timing import DISTURBED, medians, undisturbed

Call = Callable[[], Any]
Points = NDArray[np.float64]

QUERIES = ("closest_point", "signed_distance")
# Of the points for the others; trimesh is timed by as many, and its time scaled up.
FEW = 1000
SAMPLE = 200
# What float32 keeps of coordinates, where a peer calculates in it, in sizes of the mesh.
AGREES = 2e-5
# The share of signs that may differ: a peer's ray may graze an edge.
SIGNS = 1e-3


def places(tree: bvh.BVH, count: int) -> Iterator[tuple[str, Points]]:
    """Yield points near the surface, anywhere in the box, and outside of it."""
    rng = np.random.default_rng(0)
    corners = tree.vertices[tree.faces]
    lower, upper = tree.bounds
    size = (upper - lower).max()
    weights = rng.dirichlet(np.ones(3), count)
    on = np.einsum("nk,nkx->nx", weights, corners[rng.integers(0, len(corners), count)])
    away = rng.normal(size=(count, 3)) * size
    yield "at the surface", _single(on + 1e-3 * away)
    yield "near it", _single(on + 2e-2 * away)
    yield "in the box", _single(rng.uniform(lower, upper, (count, 3)))
    yield "far away", _single(0.5 * (lower + upper) + 5.0 * away)


def _single(points: Points) -> Points:
    """Round to what float32 holds."""
    return points.astype(np.float32).astype(np.float64)


def _open3d(tree: bvh.BVH, query: str, points: Points) -> Call:
    o3d = importlib.import_module("open3d")
    scene = o3d.t.geometry.RaycastingScene()
    scene.add_triangles(
        o3d.core.Tensor(tree.vertices.astype(np.float32)),
        o3d.core.Tensor(tree.faces.astype(np.uint32)),
    )
    ask = scene.compute_closest_points if query == QUERIES[0] else scene.compute_signed_distance
    given = o3d.core.Tensor(points.astype(np.float32))
    return lambda: ask(given)


def _libigl(tree: bvh.BVH, query: str, points: Points) -> Call:
    igl = importlib.import_module("igl")
    vertices, faces = np.array(tree.vertices), np.array(tree.faces, np.int64)
    if query == QUERIES[1]:
        # Builds its tree at every call: it can be had in no other way.
        return lambda: igl.signed_distance(points, vertices, faces)[0]
    if not hasattr(igl, "AABB"):
        return lambda: igl.point_mesh_squared_distance(points, vertices, faces)
    nodes = igl.AABB()
    nodes.init(vertices, faces)
    return lambda: nodes.squared_distance(vertices, faces, points)


def _trimesh(tree: bvh.BVH, query: str, points: Points) -> Call:
    trimesh = importlib.import_module("trimesh")
    mesh = trimesh.Trimesh(np.array(tree.vertices), np.array(tree.faces), process=False)
    few = points[:FEW]
    if query == QUERIES[0]:
        return lambda: trimesh.proximity.closest_point(mesh, few)
    return lambda: trimesh.proximity.signed_distance(mesh, few)


PEERS: dict[str, tuple[str, Callable[[bvh.BVH, str, Points], Call]]] = {
    "Open3D": ("open3d", _open3d),
    "libigl": ("igl", _libigl),
    "trimesh": ("rtree", _trimesh),
}


def said(name: str, query: str, points: Points, result: Any) -> Points:
    """Return the distances behind a peer's answer, signed as ours are."""
    if name == "Open3D":
        if query == QUERIES[1]:
            return np.asarray(result.numpy(), np.float64)
        return np.asarray(np.linalg.norm(points - result["points"].numpy(), axis=1))
    if name == "libigl":
        first = result[0] if isinstance(result, tuple) else result
        return np.asarray(np.sqrt(first) if query == QUERIES[0] else first)
    # Positive inside.
    return np.asarray(result[1] if query == QUERIES[0] else -result)


def check_ours(tree: bvh.BVH, points: Points) -> None:
    """Compare a sample of our distances with brute force: a tree of its own for each face group."""
    some = points[:SAMPLE]
    best = np.full(len(some), np.inf)
    corners = tree.vertices[tree.faces]
    low, high = corners.min(axis=1), corners.max(axis=1)
    wanted = tree.distance(some)
    for i, p in enumerate(some):
        # Faces whose boxes are near enough, each measured alone.
        gap = np.maximum(np.maximum(low - p, p - high), 0.0)
        near = np.flatnonzero((gap * gap).sum(axis=1) <= wanted[i] ** 2 * (1.0 + 1e-9))
        if len(near):
            alone = bvh.BVH.from_triangles(tree.vertices, tree.faces[near[:64]])
            best[i] = alone.closest_point(p, k=len(near[:64])).distance.min()
            if len(near) > 64:
                rest = bvh.BVH.from_triangles(tree.vertices, tree.faces[near[64:]])
                best[i] = min(best[i], rest.distance(p))
    if not np.array_equal(best, wanted):
        raise SystemExit("our distances differ from brute force")


def check_peer(name: str, query: str, ours: Points, theirs: Points, size: Points) -> None:
    """Compare our answers with a peer's, where float32 allows."""
    ours = ours[: len(theirs)]
    room = AGREES * size[: len(theirs)]
    if (np.abs(np.abs(ours) - np.abs(theirs)) > room).any():
        raise SystemExit(f"{query}: distances differ from those of {name}")
    if query == QUERIES[1]:
        wrong = np.mean((np.sign(ours) != np.sign(theirs)) & (np.abs(ours) > room))
        if wrong > SIGNS:
            print(f"  ({name}: {wrong:.2%} of the signs differ)", flush=True)


def measure(options: dict[str, Any]) -> Iterator[Row]:
    """Yield the seconds of each query and kind of points on one mesh."""
    scene = load(options["mesh"])
    tree = bvh.BVH.from_triangles(_single(scene.vertices), scene.faces)
    for kind, points in places(tree, options["count"]):
        check_ours(tree, points)
        size = np.abs(points).max(axis=1) + np.abs(tree.bounds).max()
        for query in QUERIES:
            ask = getattr(tree, query)
            calls: dict[str, Call] = {
                "bvh": lambda ask=ask, points=points: ask(points, threads=options["threads"])
            }
            ours = tree.distance(points) if query == QUERIES[0] else calls["bvh"]()
            for name, (module, make) in PEERS.items():
                if importlib.util.find_spec(module) is None:
                    continue
                call = make(tree, query, points)
                check_peer(name, query, ours, said(name, query, points[:FEW] if name == "trimesh" else points, call()), size)
                calls[name] = call
            seconds, foreign = undisturbed(calls, options["rounds"])
            times = medians(seconds)
            if "trimesh" in times:
                times["trimesh"] *= len(points) / len(points[:FEW])
            yield {"mesh": scene.name, "triangles": len(scene.faces), "points": kind,
                   "query": query, "threads": options["threads"], "count": len(points),
                   "seconds": times, "foreign": foreign}  # fmt: skip


def line(row: Row) -> str:
    """Return a row as it is printed."""
    seconds, ours = row["seconds"], row["seconds"]["bvh"]
    ratios = "".join(
        f"{seconds[name] / ours:>9.2f}" if name in seconds else f"{'-':>9}" for name in PEERS
    )
    doubt = "  !" if row["foreign"] is not None and row["foreign"] > DISTURBED else ""
    return (
        f"{row['mesh']:<16} {row['query']:<16} {row['points']:<15} {row['threads']:>7} "
        f"{1e6 * ours / row['count']:>9.2f}{ratios}{doubt}"
    )


def main() -> None:
    """Measure and print; each mesh and number of threads in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.points", description=__doc__)
    parser.add_argument("meshes", nargs="*", default=USUAL, help=NAMES)
    parser.add_argument("--count", type=int, default=50_000, help="points of each kind")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2", help="numbers of threads, by commas")
    options = parser.parse_args()
    names = "".join(f"{name:>9}" for name in PEERS)
    print(f"{'':<57}{'us':>9}{'times as long: ':>{9 * len(PEERS)}}")
    print(f"{'mesh':<16} {'query':<16} {'points':<15} {'threads':>7} {'bvh':>9}{names}")
    for mesh in options.meshes:
        task = {"mesh": mesh, "count": options.count, "rounds": options.rounds}
        for threads in map(int, options.threads.split(",")):
            for row in rows_of("benchmarks.points_task", task, threads):
                print(line(row), flush=True)


if __name__ == "__main__":
    main()
