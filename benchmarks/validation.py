"""Answers are checked before a time is printed: ours by brute force, and beside the peers'."""

from __future__ import annotations

import numpy as np

import bvh

from .casters import Answer
from .workloads import Workload

TESTS = 8_000_000
AGREEMENT = 0.999
TOLERANCE = 1e-4


def against_brute_force(tree: bvh.BVH, work: Workload, most: int = 40) -> None:
    """Check a sample of the answers: one ray at a time, and against each single face.

    Raises
    ------
    SystemExit
        If an answer is wrong.
    """
    some = work.some("sample", max(4, min(most, TESTS // max(len(tree), 1))))
    corners = [tree.vertices[tree.faces[:, i]] for i in range(3)]
    hits = tree.closest_hit(some.origins, some.directions, t_max=some.t_max)
    for i, (o, d) in enumerate(zip(some.origins, some.directions, strict=True)):
        each = bvh.ray_triangle(o, d, *corners, t_max=some.t_max)
        nearest = each.t.min(initial=np.inf)
        prim = int(each.t.argmin()) if np.isfinite(nearest) else -1
        if hits.t[i] != nearest or hits.prim_id[i] != prim:
            raise SystemExit(f"wrong answer: ray {o} {d} has t {hits.t[i]}, not {nearest}")
        if work.query == "any_hit" and tree.any_hit(o, d, t_max=some.t_max) != (prim >= 0):
            raise SystemExit(f"wrong answer: ray {o} {d}")


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
