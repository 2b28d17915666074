"""Validation of answers: ours against brute force, a peer's against ours."""

from __future__ import annotations

import numpy as np

import bvh

from ..peers.caster import Answer
from ..workloads import Workload

TESTS = 8_000_000
TOLERANCE = 1e-4


def against_brute_force(tree: bvh.BVH, work: Workload, count: int = 40) -> None:
    """Compare a sample of our answers with the test of every face; SystemExit if one is wrong."""
    sample = work.sample(max(4, min(count, TESTS // max(len(tree), 1))))
    corners = np.moveaxis(tree.vertices[tree.faces], 1, 0)
    hits = tree.closest_hit(*sample.rays, t_max=work.t_max)
    for i, (o, d) in enumerate(zip(*sample.rays, strict=True)):
        each = bvh.ray_triangle(o, d, *corners, t_max=work.t_max)
        nearest = each.t.min(initial=np.inf)
        prim = int(each.t.argmin()) if np.isfinite(nearest) else -1
        if hits.t[i] != nearest or hits.prim_id[i] != prim:
            raise SystemExit(f"wrong answer: ray {o} {d} has t {hits.t[i]}, not {nearest}")
        if work.query == "any_hit" and tree.any_hit(o, d, t_max=work.t_max) != (prim >= 0):
            raise SystemExit(f"wrong answer: ray {o} {d}")


def hits_against_brute_force(tree: bvh.BVH, work: Workload, count: int = 200) -> None:
    """Compare our lists and counts of all hits with the test of every face."""
    corners = np.moveaxis(tree.vertices[tree.faces], 1, 0)
    o, d = work.origins[:count], work.directions[:count]
    hits, counts = tree.all_hits(o, d), tree.count_hits(o, d, edges="closed")
    for i in range(len(o)):
        each = bvh.ray_triangle(o[i], d[i], *corners)
        order = np.lexsort((np.flatnonzero(each.hit), each.t[each.hit]))
        ids = hits.prim_id[slice(*hits.offsets[i : i + 2])]
        if not np.array_equal(ids, np.flatnonzero(each.hit)[order]) or counts[i] != len(order):
            raise SystemExit(f"wrong answer: all hits of ray {o[i]} {d[i]}")


def agreement(ours: Answer, theirs: Answer, work: Workload, span: float) -> float:
    """Return the share of rays on which two casters agree.

    They agree on a miss; on a hit whose distances differ by less than 1e-4 of the mesh's span; and,
    unless the distances differ by less than 1e-6 of it, as on a common edge, on the triangle.
    """
    same = ours.hit == theirs.hit
    both = ours.hit & theirs.hit
    if ours.t is not None and theirs.t is not None and ours.ids is not None:
        length = np.linalg.norm(work.directions, axis=1)
        with np.errstate(invalid="ignore"):
            apart = np.abs(ours.t - theirs.t) * length / span
        same &= ~both | ((apart < TOLERANCE) & ((ours.ids == theirs.ids) | (apart < 1e-6)))
    elif ours.ids is not None and theirs.ids is not None:
        same &= ours.ids == theirs.ids
    return float(same.mean()) if len(same) else 1.0
