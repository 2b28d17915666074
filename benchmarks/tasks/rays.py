"""Tasks of rays: nearest hits and any hits in batches and one by one, and all hits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import bvh

from ..peers.caster import Call, Caster, Ours, Query
from ..scenes import Scene
from ..workloads import BATCHES, Workload, dashed
from .task import Picked, Setting, Task
from .validation import against_brute_force, agreement, hits_against_brute_force

SINGLES = 2_000
# Width of the picture whose rays' hits are all listed.
HITS_SIDE = 256


def batches(setting: Setting) -> Iterator[Task]:
    """Yield the batches that are asked for; the task scaling has two."""
    names = [name for name in BATCHES if dashed(name) in setting.tasks]
    names += ["primary", "random"] if "scaling" in setting.tasks else []
    for work in setting.workloads(*names) if names else ():
        yield batch(setting.tree, work, setting.threads, setting.scene)


def batch(tree: bvh.BVH, work: Workload, threads: int, mesh: Scene) -> Task:
    """Return the task of casting all rays of a workload at once."""
    ours = Ours(tree, threads).rays(work)
    right = ours.values(ours.call())
    span = float(np.linalg.norm(tree.bounds[1] - tree.bounds[0]))
    return Task(
        work.name, "ray", len(work), mesh, {"bvh": ours.call},
        partial(against_brute_force, tree, work),
        lambda peer, picked: peer.query("rays", work.of(picked)),
        lambda found, picked: agreement(right.of(picked), found, work.of(picked), span),
        {"hits": float(right.hit.mean())},
    )  # fmt: skip


def singles(setting: Setting) -> Iterator[Task]:
    """Yield the tasks of casting rays one by one; many, so that none is in a cache.

    The method takes a ray as batches have it; the caster is for those who need every microsecond.
    """
    if "single" in setting.tasks:
        (work,) = setting.workloads("random")
        yield from single_tasks(setting.tree, work.sample(SINGLES), setting.scene)


def single_tasks(tree: bvh.BVH, work: Workload, mesh: Scene) -> Iterator[Task]:
    """Yield the tasks of casting the rays of a workload one by one."""
    arrays = list(zip(work.origins, work.directions, strict=True))
    floats = list(zip(work.origins.tolist(), work.directions.tolist(), strict=True))
    numbers = np.hstack([work.origins, work.directions]).tolist()
    cast = tree.caster()

    def check() -> None:
        against_brute_force(tree, work)
        hits = tree.closest_hit(*work.rays)
        if [cast(*ray)[:2] for ray in numbers] != list(zip(hits.t, hits.prim_id, strict=True)):
            raise SystemExit("wrong answer: the caster differs from closest_hit")

    method = {"bvh": each(tree.closest_hit, arrays), "bvh, floats": each(tree.closest_hit, floats)}
    for name, calls in (("single", method), ("single, caster", {"bvh": each(cast, numbers)})):
        query = partial(one_by_one, work)
        yield Task(name, "ray", len(work), mesh, calls, check, query)


def each(function: Callable[..., Any], inputs: list[Any]) -> Call:
    """Return the call that calls a function with each of some inputs."""

    def call() -> None:
        for arguments in inputs:
            function(*arguments)

    return call


def one_by_one(work: Workload, peer: Caster, picked: Picked) -> Query | None:
    """Return a peer's query of single rays, whose answers are compared in batches."""
    call = peer.singles(work.of(picked))
    return None if call is None else Query(call, lambda result: None)


def all_hits(setting: Setting) -> Iterator[Task]:
    """Yield the tasks of listing all hits of rays, and of counting them.

    Not all peers are right: Embree's float32 misses some edges and counts others twice, and
    trimesh stops at 100 hits.
    """
    if "all-hits" in setting.tasks:
        names = ("primary", "diffuse", "random") if setting.options["full"] else ("random",)
        for work in setting.workloads(*names, max_side=HITS_SIDE):
            yield from hit_tasks(setting.tree, work, setting.threads, setting.scene)


def hit_tasks(tree: bvh.BVH, work: Workload, threads: int, mesh: Scene) -> Iterator[Task]:
    """Yield the tasks of listing and counting all hits of a workload."""
    rays = work.rays
    right = tree.count_hits(*rays, edges="closed")
    for name, query, method in (
        ("all hits", "hits", tree.all_hits), ("count hits", "counts", tree.count_hits)
    ):  # fmt: skip
        yield Task(
            f"{name}, {work.name}", "ray", len(work), mesh,
            {"bvh": partial(method, *rays, threads=threads)},
            partial(hits_against_brute_force, tree, work),
            lambda peer, picked, query=query: peer.query(query, work.of(picked)),
            lambda found, picked: float(np.mean(found == right[picked])),
            {"hits": float(np.mean(right))},
        )  # fmt: skip
