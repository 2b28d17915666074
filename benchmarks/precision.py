"""`python -m benchmarks.precision`: rays that leave a surface, and what says that they hit it.

The table that a user of trimesh drew up in its issue 48. Rays start above the middle of triangles
and go straight away from them, so that none can hit the triangle that it leaves. A row has
triangles of one size, a column origins at one height above them; a number is the share of rays
that are said to hit nevertheless. Rows that are zero throughout are exact.

`--speed` measures `mesh.ray` with the drop-in beside trimesh's own, in turns.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import trimesh
from numpy.typing import NDArray

from bvh.compat.trimesh import RayMeshIntersector, closest_point, contains

from .machine import machine
from .timing import DISTURBED, medians, undisturbed

Places = NDArray[np.float64]
Hit = Callable[[trimesh.Trimesh, Places, Places], NDArray[np.bool_]]

SIZES = tuple(10.0**i for i in range(6))
# Rays for the r-tree, which takes thousands of times as long.
FEW = 40

HEIGHTS = tuple(10.0**-i for i in range(10))


def ours(mesh: trimesh.Trimesh, origins: Places, directions: Places) -> NDArray[np.bool_]:
    """Ask the drop-in."""
    return RayMeshIntersector(mesh).intersects_any(origins, directions)


def rtree(mesh: trimesh.Trimesh, origins: Places, directions: Places) -> NDArray[np.bool_]:
    """Ask trimesh's class on r-tree."""
    caster = trimesh.ray.ray_triangle.RayMeshIntersector(mesh)
    return np.asarray(caster.intersects_any(origins, directions))


def embreex(mesh: trimesh.Trimesh, origins: Places, directions: Places) -> NDArray[np.bool_]:
    """Ask trimesh's class on Embree."""
    caster = trimesh.ray.ray_pyembree.RayMeshIntersector(mesh)
    return np.asarray(caster.intersects_any(origins, directions))


def open3d(mesh: trimesh.Trimesh, origins: Places, directions: Places) -> NDArray[np.bool_]:
    """Ask Open3D, which has float32 only."""
    library = importlib.import_module("open3d")
    scene = library.t.geometry.RaycastingScene()
    scene.add_triangles(
        library.core.Tensor(np.asarray(mesh.vertices, np.float32)),
        library.core.Tensor(np.asarray(mesh.faces, np.uint32)),
    )
    rays = np.hstack([origins, directions]).astype(np.float32)
    return np.isfinite(scene.cast_rays(library.core.Tensor(rays))["t_hit"].numpy())


CASTERS: dict[str, Hit] = {"bvh": ours, "rtree": rtree, "embreex": embreex, "open3d": open3d}


def installed() -> dict[str, Hit]:
    """Return the casters that are on this machine."""
    found = {}
    for name, caster in CASTERS.items():
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        found[name] = caster
    return found


def share(hit: Hit, size: float, height: float, count: int) -> float:
    """Return the share of rays that are said to hit the triangle which they leave."""
    rng = np.random.default_rng(0)
    false = 0
    # One triangle at a time, as the others may well be in a ray's way.
    for corners in (rng.random((count, 3, 3)) - 0.5) * size:
        mesh = trimesh.Trimesh(corners, [[0, 1, 2]], process=False)
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        normal /= np.linalg.norm(normal)
        origin = corners.mean(axis=0) + normal * height
        false += int(hit(mesh, origin[None], normal[None])[0])
    return false / count


def table(name: str, hit: Hit, count: int) -> list[list[float]]:
    """Measure and print the table of one caster."""
    print(f"\n{name}: share of {count} rays that hit what they leave")
    print("size \\ height " + " ".join(f"{height:7.0e}" for height in HEIGHTS))
    result = []
    for size in SIZES:
        row = [share(hit, size, height, count) for height in HEIGHTS]
        print(f"{size:13.0f} " + " ".join(f"{value:7.4f}" for value in row), flush=True)
        result.append(row)
    return result


def speed(rounds: int) -> None:
    """Time `mesh.ray` and `mesh.nearest` with the drop-in and without."""
    mesh = trimesh.creation.icosphere(subdivisions=5)
    rng = np.random.default_rng(1)
    origins = rng.normal(size=(20_000, 3)) * 3.0
    directions = rng.normal(size=origins.shape) * 0.5 - origins
    points = rng.normal(size=(2_000, 3))
    casters: dict[str, Any] = {"bvh": RayMeshIntersector(mesh)}
    if "embreex" in installed():
        casters["embreex"] = trimesh.ray.ray_pyembree.RayMeshIntersector(mesh)
    casters["rtree"] = trimesh.ray.ray_triangle.RayMeshIntersector(mesh)
    # Rays at edges may be lost by others, but no more than a few.
    hits = casters["bvh"].intersects_first(origins, directions)
    for name, caster in casters.items():
        some_rays = origins[:FEW], directions[:FEW]
        if np.mean(caster.intersects_first(*some_rays) == hits[:FEW]) < 0.95:
            raise SystemExit(f"{name} answers something else")
    print(f"\n{len(mesh.faces)} faces; microseconds a ray or point, and the time over ours")
    for query in ("intersects_first", "intersects_any", "intersects_location"):
        some = {name: FEW if name == "rtree" else len(origins) for name in casters}
        calls = {
            name: lambda c=caster, n=some[name], q=query: getattr(c, q)(origins[:n], directions[:n])
            for name, caster in casters.items()
        }
        _report(query, calls, some, rounds)
    theirs = {name: caster.contains_points for name, caster in casters.items()}
    some = {name: FEW if name == "rtree" else len(points) for name in theirs}
    calls = {name: lambda f=f, n=some[name]: f(points[:n]) for name, f in theirs.items()}
    calls["bvh"] = lambda: contains(mesh, points)
    _report("contains", calls, some, rounds)
    nearest = {
        "bvh": lambda: closest_point(mesh, points),
        "rtree": lambda: trimesh.proximity.closest_point(mesh, points),
    }
    _report("closest_point", nearest, dict.fromkeys(nearest, len(points)), rounds)


def _report(query: str, calls: dict[str, Any], some: dict[str, int], rounds: int) -> None:
    seconds, foreign = undisturbed(calls, rounds, attempts=1)
    each = {name: time / some[name] * 1e6 for name, time in medians(seconds).items()}
    mark = "!" if foreign is not None and foreign > DISTURBED else ""
    cells = [f"{name} {value:.3g} ({value / each['bvh']:.3g})" for name, value in each.items()]
    print(f"{query:20s} {'  '.join(cells)} {mark}", flush=True)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="rays a number of the table")
    parser.add_argument("--only", help="casters, separated by commas")
    parser.add_argument("--json", help="file for the tables")
    parser.add_argument("--speed", action="store_true", help="measure times instead")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    about = machine()
    print(about["processor"], about["versions"])
    if options.speed:
        speed(options.rounds)
        return
    wanted = options.only.split(",") if options.only else list(CASTERS)
    found = {name: hit for name, hit in installed().items() if name in wanted}
    tables = {name: table(name, hit, options.count) for name, hit in found.items()}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(
                {"machine": about, "sizes": SIZES, "heights": HEIGHTS, "tables": tables}, file
            )
    if "bvh" in tables and np.any(tables["bvh"]):
        raise SystemExit("the drop-in says that a ray hits what it leaves")


if __name__ == "__main__":
    main()
