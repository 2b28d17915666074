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
from typing import Any, NamedTuple

import numpy as np
import trimesh
from numpy.typing import NDArray

import bvh
from bvh.compat.trimesh import ProximityQuery, RayMeshIntersector

from .machine import machine
from .timing import DISTURBED, medians, undisturbed
from .validation import AGREEMENT, TOLERANCE

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


class Question(NamedTuple):
    """What casters are asked, each by a call that takes how many rays or points it is asked."""

    name: str
    calls: dict[str, Callable[[int], Any]]
    counts: dict[str, int]
    # Tells of which rays or points an answer is the right one: ours against the obvious, theirs
    # against ours.
    same: Callable[[Any, Any], NDArray[np.bool_]]


def questions(mesh: trimesh.Trimesh, many: int) -> list[Question]:
    """Return what is asked of a mesh: `many` rays, and a tenth as many points."""
    rng = np.random.default_rng(1)
    origins = rng.normal(size=(many, 3)) * 3.0
    directions = rng.normal(size=origins.shape) * 0.5 - origins
    points = rng.normal(size=(many // 10, 3))
    casters: dict[str, Any] = {"bvh": RayMeshIntersector(mesh)}
    if "embreex" in installed():
        casters["embreex"] = trimesh.ray.ray_pyembree.RayMeshIntersector(mesh)
    if "rtree" in installed():
        casters["rtree"] = trimesh.ray.ray_triangle.RayMeshIntersector(mesh)

    def of_rays(method: str, same: Any) -> Question:
        calls = {"truth": truth[method]} | {
            name: lambda n, c=caster: getattr(c, method)(origins[:n], directions[:n])
            for name, caster in casters.items()
        }
        return Question(method, calls, sizes(many), same)

    def sizes(count: int) -> dict[str, int]:
        return {name: min(FEW, count) if name == "rtree" else count for name in casters}

    def located(n: int) -> Any:
        """Return all places, rays and faces as brute force finds them."""
        corners = np.moveaxis(np.asarray(mesh.triangles), 1, 0)
        rows = []
        for i in range(n):
            each = bvh.ray_triangle(origins[i], directions[i], *corners)
            found = sorted(zip(each.t[each.hit].tolist(), np.flatnonzero(each.hit), strict=True))
            # At an edge there are several faces.
            rows += [(t, i, f) for k, (t, f) in enumerate(found) if not k or found[k - 1][0] != t]
        t, ray, face = (np.array([row[k] for row in rows]) for k in range(3))
        return origins[ray] + t[:, None] * directions[ray], ray, face

    def first(n: int) -> Places:
        _, ray, face = located(n)
        result = np.full(n, -1)
        result[ray[::-1]] = face[::-1]
        return result

    def inside(n: int) -> NDArray[np.bool_]:
        corners = np.moveaxis(np.asarray(mesh.triangles), 1, 0)
        crossed = [bvh.ray_triangle(p, [0.3, 0.5, 0.8], *corners).hit.sum() for p in points[:n]]
        return np.array(crossed) % 2 == 1

    truth = {
        "intersects_first": first,
        "intersects_any": lambda n: first(n) >= 0,
        "intersects_location": located,
    }

    def same_places(mine: Any, theirs: Any) -> NDArray[np.bool_]:
        """Compare the places on each ray, in whatever order they come."""
        count = int(max([*mine[1], *theirs[1], -1])) + 1
        tables = []
        for places, ray, _ in (mine, theirs):
            along = np.einsum("ij,ij->i", places - origins[ray], directions[ray])
            order = np.lexsort((along, ray))
            tables.append([places[order[ray[order] == i]] for i in range(count)])
        span = float(mesh.scale) * TOLERANCE
        return np.array(
            [len(a) == len(b) and np.allclose(a, b, 0, span) for a, b in zip(*tables, strict=True)]
        )

    nearest: dict[str, Callable[[int], Any]] = {
        "truth": lambda n: trimesh.proximity.closest_point_naive(mesh, points[:n]),
        "bvh": lambda n: ProximityQuery(mesh).on_surface(points[:n]),
    }
    if "rtree" in installed():
        nearest["rtree"] = lambda n: trimesh.proximity.closest_point(mesh, points[:n])

    def same_points(mine: Any, theirs: Any) -> NDArray[np.bool_]:
        """Compare places and distances; of faces that share an edge any may be told."""
        return np.isclose(mine[1], theirs[1], 1e-9, 1e-12) & np.isclose(
            mine[0], theirs[0], 0, 1e-6
        ).all(axis=1)

    whole = {"truth": inside} | {
        name: lambda n, f=caster.contains_points: f(points[:n]) for name, caster in casters.items()
    }
    return [
        of_rays("intersects_first", np.equal),
        of_rays("intersects_any", np.equal),
        of_rays("intersects_location", same_places),
        Question("contains", whole, sizes(len(points)), np.equal),
        Question("closest_point", nearest, dict.fromkeys(nearest, len(points)), same_points),
    ]


def shares(question: Question) -> dict[str, float]:
    """Check a sample of our answers; return the shares of others' answers that are ours, too.

    Raises
    ------
    SystemExit
        If an answer of ours is not that of brute force.
    """
    truth = question.calls["truth"]
    few = min(FEW, question.counts["bvh"])
    mine = question.calls["bvh"]
    if not question.same(truth(few), mine(few)).all():
        raise SystemExit(f"wrong answer: {question.name}")
    return {
        name: float(
            np.mean(question.same(mine(question.counts[name]), call(question.counts[name])))
        )
        for name, call in question.calls.items()
        if name not in ("truth", "bvh")
    }


def speed(rounds: int, level: int = 5, many: int = 20_000) -> None:
    """Time `mesh.ray` and `mesh.nearest` with the drop-in and without, where answers are right."""
    mesh = trimesh.creation.icosphere(subdivisions=level)
    asked = questions(mesh, many)
    agreed = [shares(question) for question in asked]
    print(f"\n{len(mesh.faces)} faces; microseconds a ray or point, and the time over ours")
    print(f"~ fewer than {AGREEMENT:.1%} of the answers are ours, too")
    for question, alike in zip(asked, agreed, strict=True):
        calls = {
            name: lambda f=call, n=question.counts[name]: f(n)
            for name, call in question.calls.items()
            if name != "truth"
        }
        seconds, foreign = undisturbed(calls, rounds, attempts=1)
        each = {name: t / question.counts[name] * 1e6 for name, t in medians(seconds).items()}
        cells = [
            f"{name} {value:.3g} ({value / each['bvh']:.3g})"
            + ("~" if alike.get(name, 1.0) < AGREEMENT else "")
            for name, value in each.items()
        ]
        mark = "!" if foreign is not None and foreign > DISTURBED else ""
        print(f"{question.name:20s} {'  '.join(cells)} {mark}", flush=True)


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
