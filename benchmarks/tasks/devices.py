"""Tasks of a device: rays and points there, beside Warp's own mesh queries on the same device.

Arrays lie there before the clock starts; a second call of ours also sends them and brings answers
back, and a third is that of the CPU. Answers are compared with the CPU's, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..peers.caster import Call, Caster, Ours, Query
from ..workloads import Workload
from .points import AGREES, samples
from .task import Picked, Setting, Task
from .validation import agreement

RAYS = ("primary", "diffuse", "random")


def devices(setting: Setting) -> Iterator[Task]:
    """Yield batches of rays and closest points on a device."""
    tree, name = setting.tree, setting.options["device"]
    there = tree.to(name)
    span = float(np.linalg.norm(tree.bounds[1] - tree.bounds[0]))
    for work in setting.workloads(*RAYS):
        query = Ours(tree, setting.threads).rays(work)
        truth = query.values(query.call())
        check(there, tree, work)
        yield Task(
            f"{work.name} on {name}", "ray", len(work), setting.scene,
            calls(there, "closest_hit", work.rays, partial(tree.closest_hit, *work.rays)),
            partial(check, there, tree, work),
            partial(rays_of, name, work),
            lambda found, picked, truth=truth, work=work: agreement(
                truth.of(picked), found, work.of(picked), span
            ),
            {"undecided": there.undecided},
        )  # fmt: skip
    where = samples(tree, setting.options["points"])["near it"]
    distances = tree.distance(where)
    margin = AGREES * (np.abs(where).max(axis=1) + np.abs(tree.bounds).max())
    yield Task(
        f"closest points on {name}", "point", len(where), setting.scene,
        calls(there, "closest_point", (where,), partial(tree.closest_point, where)),
        partial(check_points, there, tree, where), partial(points_of, name, where),
        lambda found, i: float(np.mean(np.abs(found - distances[i]) <= margin[i])),
    )  # fmt: skip


def calls(there: Any, query: str, inputs: tuple[Any, ...], on_cpu: Call) -> dict[str, Call]:
    """Return our calls: with arrays on the device, with numpy's, and on the CPU."""
    import warp as wp

    placed = [wp.array(rows, dtype=wp.vec3d, device=there.device) for rows in inputs]
    ask = getattr(there, query)

    def call() -> None:
        ask(*placed)
        wp.synchronize_device(there.device)

    return {"bvh": call, "bvh, sent and brought back": partial(ask, *inputs), "bvh, CPU": on_cpu}


def check(there: Any, tree: Any, work: Workload) -> None:
    """End the program if a hit differs from the CPU's."""
    found, right = there.closest_hit(*work.rays), tree.closest_hit(*work.rays)
    for name in ("t", "prim_id", "u", "v", "front"):
        if getattr(found, name).tobytes() != getattr(right, name).tobytes():
            raise SystemExit(f"wrong answer: {name} on {there.device} differs from the CPU's")


def check_points(there: Any, tree: Any, where: np.ndarray) -> None:
    """End the program if a distance differs from the CPU's."""
    if there.distance(where).tobytes() != tree.distance(where).tobytes():
        raise SystemExit(f"wrong answer: distances on {there.device} differ from the CPU's")


def rays_of(name: str, work: Workload, peer: Caster, picked: Picked) -> Query | None:
    """Return a peer's query of rays, if it has one on the device."""
    return peer.on(name).query("rays", work.of(picked)) if hasattr(peer, "on") else None


def points_of(name: str, where: np.ndarray, peer: Caster, picked: Picked) -> Query | None:
    """Return a peer's query of points, if it has one on the device."""
    return peer.on(name).query("closest_point", where[picked]) if hasattr(peer, "on") else None
