"""`python -m benchmarks.fallback [MESH ...]`: how often the filter of leaves asks the exact test.

Each ray is tested against the triangles of all leaves that it enters before its nearest hit, as
`pairs` finds them, with the filter of `bvh.leaves` in float32. Counted are the triangles that it
cannot decide, and those it surely hits so near to the nearest hit that only exact distances tell
which is nearer. The figures are what no order of visits avoids; a traversal that has not found the
nearest hit yet may ask a little more. Shadow rays are asked for their nearest hit, too. The exact
distance of the hit that is returned is not counted: every hit has one.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

import bvh
from bvh.jit import entry
from bvh.simd import WIDTH, lowest_bit

from .pairs import filtered, pairs_of
from .scenes import USUAL, load
from .workloads import workloads

# Rays of each workload that are looked at.
SAMPLE = 2000


class Fallback(NamedTuple):
    """What the filter leaves open.

    Attributes
    ----------
    rays : float
        Share of rays with at least one exact test.
    undecided : float
        Triangles a ray of which the filter cannot tell whether they are hit.
    ties : float
        Triangles a ray that are surely hit, perhaps as near as the nearest.
    tested : float
        Triangles a ray that the filter was asked about.
    """

    rays: float
    undecided: float
    ties: float
    tested: float


@entry
def _count(rows, ends, groups, ids, rays, met, nearest, counts):
    """Count triangles left undecided, ties, and all that are tested, in three columns."""
    sure_before = np.zeros(len(rows), np.bool_)
    for p in range(len(rays)):
        i, group = rays[p], met[p]
        for k in range(WIDTH):
            counts[i, 2] += ids[group, k] >= 0
        bits, sure = filtered(rows, i, ends[i], groups, group)
        while bits != 0:
            k = lowest_bit(bits)
            bits &= bits - 1
            # The nearest hit itself needs no test where it is sure, but for a second copy of it.
            if sure >> k & 1 == 0:
                counts[i, 0] += 1
            elif ids[group, k] == nearest[i] and not sure_before[i]:
                sure_before[i] = True
            else:
                counts[i, 1] += 1


def fallback(
    tree: bvh.BVH, origins: np.ndarray, directions: np.ndarray, t_max: float = np.inf
) -> Fallback:
    """Return how often exact tests decide about rays."""
    pairs = pairs_of(tree, origins, directions, t_max)
    nearest = np.asarray(tree.closest_hit(origins, directions, 0.0, t_max).prim_id)
    counts = np.zeros((len(origins), 3), np.int64)
    _count(
        pairs.rows, pairs.ends, tree.arrays.groups, tree.arrays.nodes.ids, pairs.rays,
        pairs.groups, nearest, counts,
    )  # fmt: skip
    return Fallback(float(counts[:, :2].any(axis=1).mean()), *counts.mean(axis=0).tolist())


def main() -> None:
    """Print the figures for each mesh and workload."""
    print(f"{'':<38} {'rays with':>12} {'triangles a ray:':>32}")
    print(
        f"{'mesh':<20} {'rays':<17} {'exact tests':>12} {'undecided':>12} {'ties':>10} "
        f"{'tested':>8}"
    )
    for name in sys.argv[1:] or USUAL:
        scene = load(name)
        tree = bvh.BVH.from_triangles(scene.vertices, scene.faces)
        for work in workloads(tree, 128, inside=scene.inside):
            some = work.some(work.name, SAMPLE)
            found = fallback(tree, some.origins, some.directions, some.t_max)
            print(
                f"{scene.name:<20} {work.name:<17} {found.rays:>12.3%} {found.undecided:>12.5f} "
                f"{found.ties:>10.5f} {found.tested:>8.1f}"
            )


if __name__ == "__main__":
    main()
