"""Task of cores: how calls scale on real threads, and on virtual cores beyond those of the machine.

Answers on threads are compared with those of one thread, bit by bit, before a time is taken.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import bvh
from bvh.runtime.cpus import task_threads

from ..processes import Row, available
from ..timing import interleaved
from ..virtual_cores import seconds_on_cores
from ..workloads import Workload, workloads
from .instances import lattice
from .points import samples
from .task import Setting

CORES = (1, 2, 4, 8, 16, 32, 64)
# Instances of the mesh in the scene; the side of the picture of a small batch.
INSTANCES, SMALL_SIDE = 27, 100

Calls = dict[str, Callable[..., Any]]


def cores(setting: Setting) -> Iterator[Row]:
    """Yield for each query its time on one core, and how many times as fast it is on more."""
    rounds, mesh = setting.options["rounds"], setting.scene
    for name, call in calls(setting).items():
        alone = call(threads=1)
        for threads in (2, 3, 16):
            if not same(alone, call(threads=threads)):
                raise SystemExit(f"wrong answer: {name} differs on {threads} threads")
        del alone
        # The numbers of cores take turns, as clock rates change with the hour.
        turns = [
            {n: seconds_on_cores(partial(call, threads=n), 1) for n in CORES} for _ in range(rounds)
        ]
        parts: dict[str, Any] = {"1 core, ms": 1e3 * median(turn[1] for turn in turns)}
        parts |= {f"{n} virtual": median(turn[1] / turn[n] for turn in turns) for n in CORES[1:]}
        for n in sorted({min(n, available()) for n in CORES[1:]} - {1}):
            timed = interleaved(
                {"one": partial(call, threads=1), "all": partial(call, threads=n)}, rounds
            )
            parts[f"{n} threads"] = median(timed["one"]) / median(timed["all"])
        yield {"mesh": mesh.name, "triangles": len(mesh.faces), "what": name,
               "table": "times as fast as on one core", "parts": parts}  # fmt: skip


def calls(setting: Setting) -> Calls:
    """Return the calls that are measured, each of which takes a number of threads."""
    tree, mesh, side = setting.tree, setting.scene, setting.options["side"]
    found: Calls = {}
    for size in (side, max(side // 2, 4), SMALL_SIDE):
        loads = {work.name: work for work in workloads(tree, size, inside=mesh.inside)}
        for name in ("primary", "random", "shadow"):
            found[f"{name}, {size}^2"] = partial(
                getattr(tree, loads[name].query), **of(loads[name])
            )
        if size == side:
            rest = loads
    camera = bvh.Camera.framing(tree.bounds, width=side, height=side, fill=0.94)
    found[f"camera, {side}^2"] = partial(tree.closest_hit, *camera.rays())
    found["position and normal"] = partial(located, tree, *rest["random"].rays)
    found["all hits"] = partial(tree.all_hits, *rest["random"].rays)
    found["count hits"] = partial(tree.count_hits, *rest["random"].rays)
    seen = rest["diffuse"].origins
    found["visible"] = partial(tree.visible, seen, rest["random"].origins[: len(seen)])
    scene, _ = lattice(mesh, INSTANCES)
    seen = bvh.Camera.framing(scene.bounds, width=side, height=side, fill=0.94)
    found["scene, camera"] = partial(scene.closest_hit, *seen.rays())
    lower, upper = scene.bounds
    rng = np.random.default_rng(0)
    ends = rng.uniform(lower, upper, (2, side * side, 3))
    found["scene, random"] = partial(scene.closest_hit, ends[0], ends[1] - ends[0])
    where = samples(tree, setting.options["points"])["in the box"]
    for method in ("closest_point", "signed_distance", "contains"):
        found[method] = partial(getattr(tree, method), where)
    found["build"] = partial(bvh.BVH.from_triangles, mesh.vertices, mesh.faces)
    found["build high"] = partial(found["build"], quality="high")
    found["refit"] = partial(refitted, copy.copy(tree), mesh.vertices)
    return found


def of(work: Workload) -> dict[str, Any]:
    """Return the arguments of a workload."""
    return {"origins": work.origins, "directions": work.directions, "t_max": work.t_max}


def located(tree: bvh.BVH, origins: Any, directions: Any, threads: int) -> Any:
    """Return the points and normals of the closest hits."""
    # Locations take the threads of the process.
    with task_threads(threads):
        hits = tree.closest_hit(origins, directions)
        return hits.position, hits.normal


def refitted(tree: bvh.BVH, vertices: Any, threads: int) -> bvh.BVH:
    """Return a tree after a refit."""
    tree.refit(vertices, threads=threads)
    return tree


def same(first: Any, second: Any) -> bool:
    """Return whether two answers are equal, bit by bit; trees need only be valid."""
    if isinstance(first, bvh.BVH):
        second.validate()
        return True
    if isinstance(first, tuple):
        return all(map(same, first, second))
    if isinstance(first, np.ndarray):
        return first.tobytes() == second.tobytes()
    # The columns of a result.
    arrays = {name: value for name, value in vars(first).items() if isinstance(value, np.ndarray)}
    return bool(arrays) and all(same(value, vars(second)[name]) for name, value in arrays.items())
