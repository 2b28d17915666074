"""`python -m benchmarks.overlaps [mesh ...]`: overlaps of meshes, beside fcl and others.

Each mesh is taken against itself, moved by a tenth of its extent. All answers are compared before
anything is timed, and all contestants take turns. A peer is left out where it is not installed;
all of them need one thread, and so do we but for the column that says otherwise.

What peers answer: fcl, through `trimesh.collision`, stops at 100 000 contacts, knows each pair by
one or more contacts, and decides in float64 with tolerances. Open3D leaves out all pairs that share
a vertex, tests every face against every other, and decides in float64. trimesh's r-tree finds faces
whose boxes meet a box: candidates, which would still have to be tested.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh

from .machine import machine
from .scenes import NAMES, Scene, load
from .timing import undisturbed

Call = Callable[[], Any]
Pairs = NDArray[np.int64]

# Faces up to which Open3D's self-intersections, of which it tests all pairs, are waited for.
MOST_FOR_ALL_PAIRS = 20_000
QUERIES = 1_000


def installed(name: str) -> Any:
    """Return a module, None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def validate(what: str, ours: Pairs, theirs: Pairs) -> None:
    """Say how two lists of pairs differ; refuse when it is by more than a thousandth."""
    mine, other = ({tuple(pair) for pair in rows.tolist()} for rows in (ours, theirs))
    only, lost = len(mine - other), len(other - mine)
    if only or lost:
        print(f"  {what}: {len(mine)} pairs of ours, {only} not theirs; {lost} of theirs not ours")
    if only + lost > max(2, len(mine) // 1000):
        raise SystemExit(f"{what}: answers differ")


def of_two(scene: Scene, tree: bvh.BVH, moved: NDArray[np.float64]) -> dict[str, Call]:
    """Return what finds all pairs of a mesh and the moved one, validated."""
    other = bvh.BVH.from_triangles(moved, scene.faces)
    ours = tree.overlap_tree(other, threads=1)
    calls: dict[str, Call] = {
        "bvh": lambda: tree.overlap_tree(other, threads=1),
        "bvh, 2 threads": lambda: tree.overlap_tree(other, threads=2),
    }
    if installed("fcl") is not None:
        import trimesh
        from trimesh.collision import CollisionManager

        managers = []
        for name, points in (("a", scene.vertices), ("b", moved)):
            manager = CollisionManager()
            manager.add_object(name, trimesh.Trimesh(points, scene.faces, process=False))
            managers.append(manager)
        first, second = managers

        def contacts() -> Any:
            return first.in_collision_other(second, return_data=True)[1]

        def pairs() -> Any:
            return [(c.index("a"), c.index("b")) for c in contacts()]

        validate("fcl", ours.astype(np.int64), np.array(sorted(set(pairs()))).reshape(-1, 2))
        calls |= {"fcl contacts": contacts, "fcl pairs": pairs}
    print(f"  {len(ours)} pairs")
    return calls


def of_itself(scene: Scene, tree: bvh.BVH) -> dict[str, Call]:
    """Return what finds the faces of a mesh that meet each other, validated."""
    ours = tree.self_overlaps(threads=1)
    print(f"  {len(ours)} pairs")
    calls: dict[str, Call] = {
        "bvh": lambda: tree.self_overlaps(threads=1),
        "bvh, 2 threads": lambda: tree.self_overlaps(threads=2),
    }
    open3d = installed("open3d")
    if open3d is not None and len(scene.faces) <= MOST_FOR_ALL_PAIRS:
        mesh = open3d.geometry.TriangleMesh(
            open3d.utility.Vector3dVector(scene.vertices),
            open3d.utility.Vector3iVector(scene.faces),
        )
        theirs = np.sort(np.asarray(mesh.get_self_intersecting_triangles()).reshape(-1, 2), axis=1)
        corners = scene.faces[ours]
        apart = ~(corners[:, 0, :, None] == corners[:, 1, None, :]).any(axis=(1, 2))
        validate("Open3D", ours[apart].astype(np.int64), np.unique(theirs, axis=0).astype(np.int64))
        calls["Open3D"] = mesh.get_self_intersecting_triangles
    return calls


def of_regions(scene: Scene, tree: bvh.BVH) -> dict[str, Call]:
    """Return what asks for the faces in small boxes and balls around vertices, validated."""
    rng = np.random.default_rng(0)
    middle = scene.vertices[rng.integers(0, len(scene.vertices), QUERIES)]
    radius = 0.01 * float(np.ptp(scene.vertices, axis=0).max())
    low, high = middle - radius, middle + radius
    found = tree.overlap_box(low, high, threads=1)
    calls: dict[str, Call] = {
        "bvh boxes": lambda: tree.overlap_box(low, high, threads=1),
        "bvh balls": lambda: tree.overlap_sphere(middle, radius, threads=1),
        "bvh boxes, one by one": lambda: [
            tree.overlap_box(a, b) for a, b in zip(low, high, strict=True)
        ],
    }
    print(f"  {len(found.prim_id) / QUERIES:.1f} faces a box")
    if installed("rtree") is not None:
        import trimesh

        index = trimesh.Trimesh(scene.vertices, scene.faces, process=False).triangles_tree
        boxes = np.hstack([low, high]).tolist()
        for i in range(0, QUERIES, 50):
            if not set(found[i].tolist()) <= set(index.intersection(boxes[i])):
                raise SystemExit("r-tree: answers differ")
        calls["r-tree candidates"] = lambda: [list(index.intersection(box)) for box in boxes]
    return calls


def report(what: str, calls: dict[str, Call], rounds: int) -> None:
    """Time contestants in turn, and print medians and ratios to the first."""
    seconds, foreign = undisturbed(calls, rounds)
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    ours = next(iter(medians.values()))
    mark = "!" if foreign is not None and foreign > 0.05 else " "
    for name, time in medians.items():
        print(f"{mark} {what:<14} {name:<22} {1e3 * time:>10.3f} ms {time / ours:>8.2f} x")


def main() -> None:
    """Measure each mesh."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overlaps", description=__doc__)
    parser.add_argument("mesh", nargs="*", default=["organic", "cad_part"], help=NAMES)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    about = machine()
    print(about["processor"], about["versions"])
    for name in options.mesh:
        scene = load(name)
        print(f"{scene.name}, {len(scene.faces)} triangles")
        tree = bvh.BVH.from_triangles(scene.vertices, scene.faces)
        moved = scene.vertices + np.ptp(scene.vertices, axis=0) / 10.0
        report("two meshes", of_two(scene, tree, moved), options.rounds)
        report("itself", of_itself(scene, tree), options.rounds)
        report("1000 regions", of_regions(scene, tree), options.rounds)


if __name__ == "__main__":
    main()
