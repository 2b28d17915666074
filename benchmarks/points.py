"""`python -m benchmarks.points [MESH ...]`: nearest points and signed distances, beside the peers.

Open3D and libigl are asked the same as we are, with numbers that float32 holds, and trimesh the
same of fewer points, as it takes a hundred times as long. A peer that is not installed is left out.
No time is printed before a sample of our distances equals brute force over all faces, and none of
a peer's is less; where a peer's is more, or its sign another, that is said. A ratio is the peer's
time over ours.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh
from .processes import Row, answer_parent, rows_of
from .scenes import NAMES, USUAL, load
from .timing import DISTURBED, medians, undisturbed
from bvh.arguments import kernel_input
from bvh.jit import entry
from bvh.nearest import nearest_on_triangle
from bvh.numerics import vector
from bvh.primitives import corners

Call = Callable[[], Any]
Points = NDArray[np.float64]

QUERIES = ("closest_point", "signed_distance")
# Of the points for the others; trimesh is timed by as many, and its time scaled up.
FEW = 200
SAMPLE = 50
# What float32 keeps of coordinates, where a peer calculates in it, in sizes of the mesh.
AGREES = 2e-5


def places(tree: bvh.BVH, count: int) -> Iterator[tuple[str, Points]]:
    """Yield points near the surface, anywhere in the box, and outside of it."""
    rng = np.random.default_rng(0)
    faces = tree.vertices[tree.faces]
    lower, upper = tree.bounds
    size = (upper - lower).max()
    weights = rng.dirichlet(np.ones(3), count)
    on = np.einsum("nk,nkx->nx", weights, faces[rng.integers(0, len(faces), count)])
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
        # Builds its tree at every call: it can be had in no other way. With its other ways to find
        # a sign, its distances are off.
        sign = igl.SIGNED_DISTANCE_TYPE_PSEUDONORMAL
        return lambda: igl.signed_distance(points, vertices, faces, sign_type=sign)[0]
    if not hasattr(igl, "AABB"):
        return lambda: igl.point_mesh_squared_distance(points, vertices, faces)
    nodes = igl.AABB()
    nodes.init(vertices, faces)
    return lambda: nodes.squared_distance(vertices, faces, points)


def _trimesh(tree: bvh.BVH, query: str, points: Points) -> Call:
    trimesh = importlib.import_module("trimesh")
    mesh = trimesh.Trimesh(np.array(tree.vertices), np.array(tree.faces), process=False)
    proximity = importlib.import_module("trimesh.proximity")
    ask = proximity.closest_point if query == QUERIES[0] else proximity.signed_distance
    return lambda: ask(mesh, points)


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


@entry
def _measure_all(triangles, points, found):
    """Find the least distance of each point by the leaf test of every face."""
    for i in range(len(points)):
        p = vector(points, i)
        found[i] = np.inf
        for prim in range(len(triangles.faces)):
            found[i] = min(found[i], nearest_on_triangle(p, *corners(triangles, prim))[0])


def check_ours(tree: bvh.BVH, points: Points) -> None:
    """Compare a sample of our distances with brute force."""
    some = kernel_input(points[:SAMPLE])
    found = np.empty(len(some))
    _measure_all(tree.arrays.primitives, some, found)
    if not np.array_equal(found, tree.distance(some)):
        raise SystemExit("our distances differ from brute force")


def check_peer(name: str, query: str, ours: Points, theirs: Points, size: Points) -> None:
    """Compare our answers with a peer's: nobody may be nearer; say how many are further."""
    ours = ours[: len(theirs)]
    room = AGREES * size[: len(theirs)]
    if (np.abs(theirs) < np.abs(ours) - room).any():
        raise SystemExit(f"{query}: {name} finds something nearer")
    further = np.mean(np.abs(theirs) > np.abs(ours) + room)
    wrong = np.mean((np.sign(ours) != np.sign(theirs)) & (np.abs(ours) > room))
    for share, what in ((further, "are further than the nearest"), (wrong, "have another sign")):
        if share > 0.0:
            print(f"  {query}: {share:.2%} of the answers of {name} {what}", flush=True)


def measure(options: dict[str, Any]) -> Iterator[Row]:
    """Yield the seconds of each query and kind of points on one mesh."""
    scene = load(options["mesh"])
    tree = bvh.BVH.from_triangles(_single(scene.vertices), scene.faces)
    for kind, points in places(tree, options["count"]):
        check_ours(tree, points)
        size = np.abs(points).max(axis=1) + np.abs(tree.bounds).max()
        for query in QUERIES:
            ask = getattr(tree, query)
            calls: dict[str, Call] = {"bvh": partial(ask, points, threads=options["threads"])}
            slow: dict[str, float] = {}
            ours = tree.distance(points) if query == QUERIES[0] else calls["bvh"]()
            for name, (module, make) in PEERS.items():
                if importlib.util.find_spec(module) is None:
                    continue
                asked = points[:FEW] if name == "trimesh" else points
                call = make(tree, query, asked)
                began = time.perf_counter()
                answer = call()
                spent = time.perf_counter() - began
                check_peer(name, query, ours, said(name, query, asked, answer), size)
                if name == "trimesh":
                    # Once, and for a few points: it takes a thousand times as long.
                    slow[name] = spent * len(points) / len(asked)
                else:
                    calls[name] = call
            seconds, foreign = undisturbed(calls, options["rounds"])
            times = medians(seconds) | slow
            yield {"mesh": scene.name, "points": kind, "query": query, "count": len(points),
                   "threads": options["threads"], "seconds": times,
                   "foreign": foreign}  # fmt: skip


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
            for row in rows_of("points", task, threads):
                print(line(row), flush=True)


if __name__ == "__main__":
    # A child gets its task as JSON.
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        answer_parent(measure)
    else:
        main()
