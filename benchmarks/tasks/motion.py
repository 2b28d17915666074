"""Tasks of motion: instances that move, meshes that deform, and picks under a cursor.

Peers have no instances and no refit: they build their tree of the whole mesh in every frame. Each
answer is compared with that of a new tree before a time is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh

from ..peers import EMBREE
from ..scenes import Scene, load
from ..workloads import Workload
from .builds import rebuild
from .instances import lattice
from .rays import each, one_by_one
from .task import Setting, Task

COUNT = 10_000
PICKS = 2_000


def motion(setting: Setting) -> Iterator[Task]:
    """Yield the tasks of picks, of moving instances, and of a deforming mesh."""
    scene, mesh = lattice(load("organic-3"), setting.options["instances"] or COUNT)
    yield picks(scene, mesh)
    yield moving(scene, mesh, setting.threads)
    yield deforming(setting.threads)


def steps(calls: Callable[[Any], Any], frames: Any) -> Callable[[], Any]:
    """Return the call that passes the next of some frames to a function."""
    frame = cycle(frames)
    return lambda: calls(next(frame))


def picks(scene: bvh.Scene, mesh: Scene) -> Task:
    """Return the task of picking what is under a cursor, one pick a call."""
    camera = bvh.Camera.framing(scene.bounds, width=1280, height=960, fill=0.94)
    rng = np.random.default_rng(0)
    cursors = rng.uniform(0, 1, (PICKS, 2)) * [1280, 960]
    points, picker, moved = cursors.tolist(), scene.picker(camera), scene.ids[0].item()
    maps = np.tile(scene[moved].transform, (64, 1, 1))
    maps[:, :3, 3] += rng.uniform(-0.2, 0.2, (64, 3))
    o, d = camera.ray(*cursors.T)
    work = Workload("pick", "closest_hit", np.broadcast_to(o, d.shape), d)

    move = steps(partial(scene.set_transform, moved), maps)
    calls = {
        "bvh": each(partial(scene.pick, camera), points),
        "bvh, picker": each(picker, points),
        "bvh, radius 4": each(partial(scene.pick, camera, radius=4.0), points),
        "bvh, after set_transform": each(lambda x, y: (move(), scene.pick(camera, x, y)), points),
    }

    def check() -> None:
        flat = bvh.BVH.from_triangles(mesh.vertices, mesh.faces).closest_hit(o, d)
        for i in range(0, PICKS, 10):
            pick = scene.pick(camera, *points[i])
            if (np.inf if pick is None else pick.t) != flat.t[i]:
                raise SystemExit("wrong answer: a pick differs from its mesh's hit")

    # float32 cannot resolve all of the answers; those of batches have been compared.
    return Task("pick", "ray", PICKS, mesh, calls, check, partial(one_by_one, work))


def moving(scene: bvh.Scene, mesh: Scene, threads: int) -> Task:
    """Return the task of a frame in which all instances move."""
    rng = np.random.default_rng(2)
    o, d = bvh.Camera.framing(scene.bounds, width=256, height=256, fill=0.94).rays()
    frames = np.tile([instance.transform for instance in scene], (8, 1, 1, 1))
    frames[..., :3, 3] += rng.uniform(-0.2, 0.2, frames[..., :3, 3].shape)

    def show(maps: NDArray[np.float64]) -> None:
        scene.set_transforms(scene.ids, maps)
        # The tree is updated by the first ray.
        scene.any_hit(o[0, 0], d[0, 0])

    def check() -> None:
        show(frames[0])
        vertices, faces, _, _ = scene.flattened()
        whole = bvh.BVH.from_triangles(vertices, faces)
        if not np.array_equal(scene.closest_hit(o, d).t, whole.closest_hit(o, d).t):
            raise SystemExit("wrong answer: the moved scene and its mesh differ")

    build = partial(bvh.BVH.from_triangles, mesh.vertices, mesh.faces, threads=threads)
    calls = {
        "bvh": steps(show, frames),
        "bvh, its rays": lambda: scene.closest_hit(o, d, threads=threads),
        "bvh, new tree of the mesh": build,
    }
    name = f"{len(scene)} instances move"
    return Task(name, "call", 1, mesh, calls, check, partial(rebuild, mesh, EMBREE))


def deforming(threads: int) -> Task:
    """Return the task of a frame in which a mesh of 100 000 triangles deforms."""
    mesh = load("organic-71")
    tree = bvh.BVH.from_triangles(mesh.vertices, mesh.faces)
    size, frames = np.ptp(mesh.vertices, axis=0).max(), np.tile(mesh.vertices, (8, 1, 1))
    phases = np.linspace(0.0, 6.0, 8)[:, None]
    frames[..., 2] += 0.05 * size * np.sin(8.0 * frames[..., 0] / size + phases)
    rng = np.random.default_rng(0)
    o, d = rng.uniform(*tree.bounds, (4096, 3)), rng.normal(size=(4096, 3))
    fresh = bvh.BVH.from_triangles(frames[0], mesh.faces)

    def check() -> None:
        tree.refit(frames[0])
        if not np.array_equal(tree.closest_hit(o, d).t, fresh.closest_hit(o, d).t):
            raise SystemExit("wrong answer: the refitted tree and a new one differ")

    build = partial(bvh.BVH.from_triangles, frames[0], mesh.faces, threads=threads)
    refit = {"bvh": steps(partial(tree.refit, threads=threads), frames), "bvh, new tree": build}
    return Task("a mesh deforms", "call", 1, mesh, refit, check, partial(rebuild, mesh, EMBREE))
