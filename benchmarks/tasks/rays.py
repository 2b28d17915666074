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
# Rays of a small batch.
FEW = 100
# Width of the picture whose rays' hits are all listed.
HITS_SIDE = 256


def batches(setting: Setting) -> Iterator[Task]:
    """Yield the batches that are asked for; the task scaling has two."""
    names = [name for name in BATCHES if dashed(name) in setting.tasks]
    for work in setting.workloads(*names or ("primary", "random")):
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
    tree, (batch,) = setting.tree, setting.workloads("random")
    work = batch.sample(SINGLES)
    arrays, numbers = list(zip(*work.rays, strict=True)), np.hstack(work.rays).tolist()
    floats = list(zip(*(rows.tolist() for rows in work.rays), strict=True))
    method, caster = tree.closest_hit, tree.caster()

    def check() -> None:
        against_brute_force(tree, work)
        hits = method(*work.rays)
        if [caster(*ray)[:2] for ray in numbers] != list(zip(hits.t, hits.prim_id, strict=True)):
            raise SystemExit("wrong answer: the caster differs from closest_hit")

    for name, calls in (
        ("single", {"bvh": each(method, arrays), "bvh, lists of floats": each(method, floats)}),
        ("single, caster", {"bvh": each(caster, numbers)}),
    ):
        query = partial(one_by_one, work)
        yield Task(name, "ray", len(work), setting.scene, calls, check, query)
    count = max(len(work) // FEW, 1)
    few = list(zip(*(np.array_split(rows, count) for rows in work.rays), strict=True))
    calls = {"bvh": each(method, few)}
    yield Task(f"batches of {FEW}", "ray", len(work), setting.scene, calls, check,
               partial(in_small_batches, work))  # fmt: skip


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


def in_small_batches(work: Workload, peer: Caster, picked: Picked) -> Query | None:
    """Return a peer's query of rays in small batches, without answers: other tasks check them."""
    rows = [picked[begin : begin + FEW] for begin in range(0, len(picked), FEW)]
    queries = [peer.query("rays", work.of(some)) for some in rows]
    calls = [query.call for query in queries if query is not None]
    if len(calls) < len(rows):
        return None
    return Query(each(lambda call: call(), [(call,) for call in calls]), lambda result: None)


def all_hits(setting: Setting) -> Iterator[Task]:
    """Yield the tasks of listing all hits of rays, and of counting them.

    Not all peers are right: Embree's float32 misses some edges and counts others twice, and
    trimesh stops at 100 hits.
    """
    tree = setting.tree
    names = ("primary", "diffuse", "random") if setting.options["full"] else ("random",)
    for work in setting.workloads(*names, max_side=HITS_SIDE):
        right = tree.count_hits(*work.rays, edges="closed")
        for name, query, method in (
            ("all hits", "hits", tree.all_hits), ("count hits", "counts", tree.count_hits)
        ):  # fmt: skip
            yield Task(
                f"{name}, {work.name}", "ray", len(work), setting.scene,
                {"bvh": partial(method, *work.rays, threads=setting.threads)},
                partial(hits_against_brute_force, tree, work),
                lambda peer, picked, work=work, query=query: peer.query(query, work.of(picked)),
                lambda found, picked, right=right: float(np.mean(found == right[picked])),
                {"hits": float(np.mean(right))},
            )  # fmt: skip
