"""Nearest hits and any hits: in batches, and one ray at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import bvh

from .casters import Caster, Ours
from .tasks import Entrant, Task
from .validation import against_brute_force, agreement
from .workloads import Workload

SINGLES = 2_000
# Single rays whose answers are looked at.
FEW = 100


def batch(tree: bvh.BVH, work: Workload, threads: int) -> Task:
    """Return the task of casting all rays of a workload at once."""
    ours = Ours(tree, threads)
    expected = ours.answer(work, ours.batch(work)())
    span = float(np.linalg.norm(tree.bounds[1] - tree.bounds[0]))

    def entrant(peer: Caster, count: int) -> Entrant | None:
        some, picked = work.sample(count)
        call = peer.batch(some)
        if call is None:
            return None
        return Entrant(
            call,
            lambda result: agreement(expected.of(picked), peer.answer(some, result), some, span),
        )

    return Task(
        work.name, "ray", len(work), {"bvh": ours.batch(work)},
        lambda: against_brute_force(tree, work), entrant, {"hits": float(expected.hit.mean())},
    )  # fmt: skip


def singles(tree: bvh.BVH, work: Workload, threads: int) -> Iterator[Task]:
    """Yield the tasks of casting rays one by one; many, so that none is in a cache.

    The method takes a ray as batches have it; the caster is for who wants every microsecond.
    """
    some = work.some("single", SINGLES)
    ours = Ours(tree, threads)

    def entrant(peer: Caster, count: int) -> Entrant | None:
        call = peer.singles(some.sample(count)[0])
        # What it answers has been looked at in batches.
        return None if call is None else Entrant(call, lambda result: 1.0)

    def check() -> None:
        against_brute_force(tree, some)
        few = some.sample(FEW)[0]
        hits, cast = tree.closest_hit(few.origins, few.directions), tree.caster()
        rays = np.hstack([few.origins, few.directions]).tolist()
        if [cast(*ray)[:2] for ray in rays] != list(zip(hits.t, hits.prim_id, strict=True)):
            raise SystemExit("wrong answer: the caster differs from closest_hit")

    method = {"bvh": ours.singles(some), "bvh, floats": ours.floats_one_by_one(some)}
    yield Task("single", "ray", len(some), method, check, entrant, {})
    caster = {"bvh": ours.through_caster(some)}
    yield Task("single, caster", "ray", len(some), caster, check, entrant, {})
