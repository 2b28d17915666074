"""`python -m benchmarks.all_hits [MESH ...]`: all hits and counted hits, beside others'.

No time is printed before a sample of our hits equals brute force; the share of rays on which a peer
finds as many hits is told. (Theirs are not all right: Embree's float32 misses some edges and counts
others twice, and trimesh stops at 100 hits.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import bvh

from .casters import Asked, Caster, Ours
from .tasks import Entrant, Task
from .workloads import Workload

WORKLOADS = ("primary", "diffuse", "random")
SIDE, SAMPLE = 256, 200


def hit_tasks(tree: bvh.BVH, work: Workload, threads: int) -> Iterator[Task]:
    """Yield the tasks of listing all hits of the rays, and of counting them."""
    expected = tree.count_hits(work.origins, work.directions, edges="closed")
    ours = Ours(tree, threads)

    def check() -> None:
        validate(tree, work.origins[:SAMPLE], work.directions[:SAMPLE])

    for question, asked in (("all hits", Caster.hits), ("count hits", Caster.counts)):
        method = asked.__name__

        def entrant(peer: Caster, count: int, method: str = method) -> Entrant | None:
            some, picked = work.sample(count)
            asked: Asked | None = getattr(peer, method)(some)
            if asked is None:
                return None
            return Entrant(
                asked.call, lambda found: float(np.mean(asked.said(found) == expected[picked]))
            )

        calls = {"bvh": getattr(ours, method)(work).call}
        name = f"{question}, {work.name}"
        facts = {"hits": float(np.mean(expected))}
        yield Task(name, "ray", len(work), calls, check, entrant, facts)


def validate(tree: bvh.BVH, o: NDArray[np.float64], d: NDArray[np.float64]) -> None:
    """Compare our hits with those of every ray and triangle by itself."""
    corners = np.moveaxis(tree.vertices[tree.faces], 1, 0)
    got = tree.all_hits(o, d)
    counted = tree.count_hits(o, d, edges="closed")
    for i in range(len(o)):
        each = bvh.ray_triangle(o[i], d[i], *corners)
        order = np.lexsort((np.flatnonzero(each.hit), each.t[each.hit]))
        mine = slice(*got.offsets[i : i + 2])
        if not np.array_equal(got.prim_id[mine], np.flatnonzero(each.hit)[order]):
            raise SystemExit(f"bvh is wrong about ray {i}")
        if counted[i] != len(order):
            raise SystemExit(f"bvh counts the hits of ray {i} wrong")


if __name__ == "__main__":
    from .session import main

    main("all_hits", __doc__, ["all-hits"], every=True)
