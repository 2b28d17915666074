"""`python -m benchmarks.instances [mesh]`: rays through many instances of a mesh, and memory.

No binding of Embree for Python offers its instances, so peers cast at the mesh that all instances
make together, and so does a tree of our own. Instances stand in a jittered lattice, turned and
scaled at random, small enough in number that the whole mesh fits the memory. The vertices of that
mesh are rounded for float32; ours are exact, so a few rays at edges hit other faces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh

from .casters import Answer, Caster, Ours
from .scenes import Scene
from .tasks import Entrant, Task
from .validation import against_brute_force, agreement
from .workloads import Workload

MESH, COUNT = "organic-16", 100
LOADS = ("primary", "diffuse", "random")


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


def loads(scene: bvh.Scene, side: int, seed: int = 0) -> Iterator[Workload]:
    """Yield camera rays, rays from what those hit into all directions, and random rays."""
    rng = np.random.default_rng(seed)
    count = side * side
    camera = bvh.Camera.framing(scene.bounds, width=side, height=side)
    o, d = (np.ascontiguousarray(a.reshape(-1, 3)) for a in camera.rays())
    yield _work("primary", o, d)
    hits = scene.closest_hit(o, d)
    at = np.flatnonzero(hits.mask)
    at = at[rng.integers(0, len(at), count)]
    away = rng.normal(size=(count, 3))
    start = o[at] + hits.t[at, None] * d[at] * (1.0 - 1e-4)
    yield _work("diffuse", start, np.where(((away * d[at]).sum(1) > 0)[:, None], -away, away))
    low, high = scene.bounds
    yield _work("random", rng.uniform(low, high, (count, 3)), rng.normal(size=(count, 3)))


def _work(name: str, o: NDArray[np.float64], d: NDArray[np.float64]) -> Workload:
    o, d = (a.astype(np.float32).astype(np.float64) for a in (o, d))
    return Workload(f"scene {name}", "closest_hit", o, d)


def held(mesh: Any, count: int) -> tuple[bvh.Scene, Scene]:
    """Return a scene of instances, and the mesh that they make together, for the peers."""
    scene, _ = placed(mesh, count)
    vertices, faces, _, _ = scene.flattened()
    return scene, Scene(f"{count} x {mesh.name}", vertices, faces)


def instance_tasks(
    scene: bvh.Scene, whole: Scene, side: int, threads: int, names: Iterable[str] = LOADS
) -> Iterator[Task]:
    """Yield the tasks of casting rays of some names through instances."""
    tree = bvh.BVH.from_triangles(whole.vertices, whole.faces)
    leaf = np.append(scene.flattened()[2], -1)
    span = float(np.linalg.norm(tree.bounds[1] - tree.bounds[0]))
    for work in loads(scene, side):
        if work.name.removeprefix("scene ") not in names:
            continue
        flat = tree.closest_hit(work.origins, work.directions)
        expected = Answer(flat.mask, flat.prim_id, flat.t)

        def check(work: Workload = work, flat: bvh.Hits = flat) -> None:
            hits = scene.closest_hit(work.origins, work.directions)
            if not (np.array_equal(hits.leaf, leaf[flat.prim_id]) and (hits.t == flat.t).all()):
                raise SystemExit("the scene and its mesh differ")
            against_brute_force(tree, work, most=4)

        def entrant(
            peer: Caster, count: int, work: Workload = work, expected: Answer = expected
        ) -> Entrant | None:
            some, picked = work.sample(count)
            call = peer.batch(some)
            if call is None:
                return None
            return Entrant(
                call,
                lambda found: agreement(expected.of(picked), peer.answer(some, found), some, span),
            )

        calls = {
            "bvh": Ours(scene, threads).batch(work),
            "bvh, one mesh": Ours(tree, threads).batch(work),
        }
        facts = {
            "mesh": whole.name,
            "hits": float(flat.mask.mean()), "instances": len(scene), "triangles": len(tree),
            "bytes": scene.nbytes, "bytes as one mesh": tree.stats().bytes,
        }  # fmt: skip
        yield Task(work.name, "ray", len(work), calls, check, entrant, facts)


if __name__ == "__main__":
    from .session import main

    main("instances", __doc__, ["scene"], every=True)
