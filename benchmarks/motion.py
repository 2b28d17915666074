"""`python -m benchmarks.motion`: scenes that move, meshes that deform, and a cursor that hovers.

Peers have no instances and no refit: they build their tree of the whole mesh in every frame. Each
answer is compared with that of a tree built anew before a time is taken.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh

from . import peers
from .instances import placed
from .machine import machine
from .processes import Row, answer_parent, rows_of
from .report import disturbed, times
from .scenes import Scene, load
from .timing import undisturbed

INSTANCES = 10_000
RAYS = 1 << 16
PICKS = 2_000


def moving(options: dict[str, Any]) -> Iterator[Row]:
    """Yield what a frame takes when all of many instances move, and its rays."""
    threads = options["threads"]
    mesh = load("organic-3")
    scene, bounds = placed(mesh, options["instances"])
    rng = np.random.default_rng(2)
    camera = bvh.Camera.framing(bounds, width=256, height=256)
    o, d = camera.rays()
    first = np.stack([instance.transform for instance in scene])
    frames = []
    for _ in range(8):
        maps = first.copy()
        maps[:, :3, 3] += rng.uniform(-0.2, 0.2, (len(maps), 3))
        frames.append(maps)
    ids, turn = scene.ids, iter(range(1 << 30))

    def move() -> None:
        scene.set_transforms(ids, frames[next(turn) % len(frames)])
        scene.any_hit(o[0, 0], d[0, 0])

    def rays() -> Any:
        return scene.closest_hit(o, d, threads=threads)

    calls: dict[str, Any] = {"bvh": move, "bvh, rays": rays}
    move()
    vertices, faces, _leaf, _ = scene.flattened()
    whole = bvh.BVH.from_triangles(vertices, faces, quality="low")
    wanted = whole.closest_hit(o, d)
    if not np.array_equal(rays().t, wanted.t):
        raise SystemExit("the scene and its mesh differ")
    calls["bvh, mesh built anew"] = lambda: bvh.BVH.from_triangles(
        vertices, faces, quality="low", threads=threads
    )
    for peer in peers.found(peers.EMBREE):
        given = peer.given(vertices, faces)
        calls[f"{peer.name}, mesh built anew"] = lambda peer=peer, given=given: peer(*given)
    yield _row("10 000 instances move", calls, options, len(faces))


def deforming(options: dict[str, Any]) -> Iterator[Row]:
    """Yield what a frame takes when a mesh of 100 000 triangles deforms."""
    threads = options["threads"]
    mesh: Scene = load("organic-71")
    tree = bvh.BVH.from_triangles(mesh.vertices, mesh.faces)
    frames = [_wave(mesh.vertices, phase) for phase in np.linspace(0.0, 6.0, 8)]
    turn = iter(range(1 << 30))

    def refit() -> float:
        return tree.refit(frames[next(turn) % len(frames)], threads=threads)

    refit()
    low, high = tree.bounds
    rng = np.random.default_rng(0)
    o = rng.uniform(low, high, (RAYS, 3))
    d = rng.normal(size=(RAYS, 3))
    fresh = bvh.BVH.from_triangles(frames[0], mesh.faces)
    if not np.array_equal(tree.closest_hit(o, d).t, fresh.closest_hit(o, d).t):
        raise SystemExit("the refitted tree differs")
    calls: dict[str, Any] = {"bvh": refit}
    for quality in ("low", "medium"):
        calls[f"bvh, {quality} built anew"] = lambda quality=quality: bvh.BVH.from_triangles(
            frames[0], mesh.faces, quality=quality, threads=threads
        )
    for peer in peers.found(peers.EMBREE):
        given = peer.given(frames[0], mesh.faces)
        calls[f"{peer.name}, built anew"] = lambda peer=peer, given=given: peer(*given)
    yield _row("a mesh deforms", calls, options, len(mesh.faces))
    yield _row(
        "its rays",
        {
            "bvh": lambda: tree.closest_hit(o, d, threads=threads),
            "bvh, fresh tree": lambda: fresh.closest_hit(o, d, threads=threads),
        },
        options,
        RAYS,
    )


def _wave(vertices: NDArray[np.float64], phase: float) -> NDArray[np.float64]:
    size = np.ptp(vertices, axis=0).max()
    moved = vertices.copy()
    moved[:, 2] += 0.05 * size * np.sin(8.0 * vertices[:, 0] / size + phase)
    return moved


def _row(what: str, calls: dict[str, Any], options: dict[str, Any], count: int) -> Row:
    seconds, foreign = undisturbed(calls, options["rounds"])
    return {
        "mesh": "", "what": what, "threads": options["threads"], "seconds": seconds,
        "foreign": foreign, "count": count,
    }  # fmt: skip


def hovering(options: dict[str, Any]) -> Iterator[Row]:
    """Yield the latencies of single picks, each call by itself."""
    mesh = load("organic-3")
    scene, bounds = placed(mesh, options["instances"])
    camera = bvh.Camera.framing(bounds, width=1280, height=960)
    rng = np.random.default_rng(0)
    cursors = np.stack([rng.uniform(0, 1280, PICKS), rng.uniform(0, 960, PICKS)], axis=1)
    cursors = cursors.round(3)
    points = cursors.tolist()
    picker, turn = scene.picker(camera), scene.ids[0].item()
    maps = list(_nudged(scene[turn].transform, rng))

    def spread(call: Any) -> list[float]:
        spent = []
        for i, (x, y) in enumerate(points):
            began = time.perf_counter()
            call(i, x, y)
            spent.append(time.perf_counter() - began)
        return spent

    def move(i: int, x: float, y: float) -> None:
        scene.set_transform(turn, maps[i % len(maps)])
        scene.pick(camera, x, y)

    calls: dict[str, Any] = {
        "pick": lambda i, x, y: scene.pick(camera, x, y),
        "picker": lambda i, x, y: picker(x, y),
        "pick, radius 4": lambda i, x, y: scene.pick(camera, x, y, radius=4.0),
        "set_transform and pick": move,
    }
    vertices, faces, _, _ = scene.flattened()
    o, d = camera.ray(*cursors.T)
    rays = np.concatenate([np.broadcast_to(o, d.shape), d], axis=1).astype(np.float32)
    for peer in peers.found(peers.EMBREE):
        caster: Any = peer.made(vertices, faces)
        if peer.name == "Open3D":
            cast, given = caster.scene.cast_rays, [(caster.tensor(ray[None]),) for ray in rays]
        else:
            cast = caster.scene.run
            given = [(ray[None, :3].copy(), ray[None, 3:].copy()) for ray in rays]
        calls[f"{peer.name}, one ray"] = lambda i, x, y, cast=cast, given=given: cast(*given[i])
    flat = bvh.BVH.from_triangles(vertices, faces).closest_hit(o, d)
    for i in range(0, PICKS, 10):
        pick = scene.pick(camera, *points[i])
        if (np.inf if pick is None else pick.t) != flat.t[i]:
            raise SystemExit("a pick differs from its mesh's hit")
    spent: dict[str, list[list[float]]] = {name: [] for name in calls}
    for _ in range(options["rounds"]):
        for name, call in calls.items():
            spent[name].append(spread(call))
    for name, rounds in spent.items():
        yield {
            "mesh": "", "what": name, "threads": options["threads"], "foreign": None,
            "seconds": {"bvh": [float(x) for x in np.percentile(rounds, [10, 50, 90, 99])]},
            "count": PICKS,
        }  # fmt: skip


def _nudged(matrix: NDArray[np.float64], rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    for _ in range(64):
        moved = matrix.copy()
        moved[:3, 3] += rng.uniform(-0.2, 0.2, 3)
        yield moved


def measure(options: dict[str, Any]) -> Iterator[Row]:
    """Yield all rows of one process."""
    yield from {"moving": moving, "deforming": deforming, "hovering": hovering}[options["what"]](
        options
    )


def main() -> None:
    """Measure on one thread and on two, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.motion", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--instances", type=int, default=INSTANCES)
    options = parser.parse_args()
    about = machine()
    print(about["processor"], about["versions"])
    given = {"rounds": options.rounds, "instances": options.instances}
    for what in ("moving", "deforming"):
        for threads in (1, 2):
            for row in rows_of("motion", {**given, "what": what}, threads):
                each = {name: each * row["count"] for name, each in times(row).items()}
                cells = [f"bvh {1e3 * each['bvh']:.3f} ms"]
                for other, seconds in each.items():
                    if other != "bvh":
                        cells.append(
                            f"{other} {1e3 * seconds:.2f} ms ({seconds / each['bvh']:.2f})"
                        )
                mark = " !" if disturbed(row) else ""
                print(f"{row['what']:<24} {threads} {', '.join(cells)}{mark}")
    for row in rows_of("motion", {**given, "what": "hovering"}, 1):
        low, middle, high, last = (1e6 * x for x in row["seconds"]["bvh"])
        print(
            f"{row['what']:<24} median {middle:.2f} us; a tenth below {low:.2f}, a tenth above "
            f"{high:.2f}, a hundredth above {last:.2f}"
        )


if __name__ == "__main__":
    import sys

    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        answer_parent(measure)
    else:
        main()
