"""`python -m benchmarks.fallback [MESH ...]`: how often the filter of a hit cannot decide."""

from __future__ import annotations

import sys

import numpy as np

import bvh
from benchmarks.scenes import USUAL, load
from benchmarks.workloads import workloads
from bvh.jit import entry
from bvh.nodes import STACK_SIZE, enter, is_leaf, local_ray
from bvh.numerics import vector
from bvh.primitives import corners
from bvh.triangles import filtered_side, scaled_ray


@entry
def _count(tree, origins, directions):
    """Return (sides asked for, sides left undecided) over all leaves that the rays pass."""
    stack = np.empty(STACK_SIZE, np.int64)
    bounds, links, order = tree.nodes.bounds, tree.nodes.links, tree.nodes.order
    asked, undecided = 0, 0
    for i in range(len(origins)):
        o, d = vector(origins, i), vector(directions, i)
        ray = local_ray(vector(tree.frame, 0), int(tree.frame[1, 0]), o, d)
        d_scaled, floor, _, _ = scaled_ray(o, d, tree.frame[1, 1])
        stack[0] = 0
        waiting = 1
        while waiting > 0:
            waiting -= 1
            node = stack[waiting]
            first, last = enter(bounds, node, ray, 0.0, np.inf)
            if first > last:
                continue
            if not is_leaf(links, node):
                stack[waiting], stack[waiting + 1] = links[node, 0], links[node, 0] + 1
                waiting += 2
                continue
            for slot in range(links[node, 0], links[node, 0] + links[node, 1]):
                v0, v1, v2 = corners(tree.primitives, np.int64(order[slot]))
                asked += 3
                undecided += filtered_side(o, d_scaled, floor, v0, v1) == 0
                undecided += filtered_side(o, d_scaled, floor, v1, v2) == 0
                undecided += filtered_side(o, d_scaled, floor, v2, v0) == 0
    return asked, undecided


def fallback_share(tree: bvh.BVH, origins: np.ndarray, directions: np.ndarray) -> float:
    """Return the share of side tests that exact arithmetic has to decide."""
    asked, undecided = _count(
        tree.arrays, np.ascontiguousarray(origins), np.ascontiguousarray(directions)
    )
    return undecided / max(asked, 1)


def main() -> None:
    """Print the share for each mesh and workload."""
    for name in sys.argv[1:] or USUAL:
        scene = load(name)
        tree = bvh.BVH.from_triangles(scene.vertices, scene.faces)
        for work in workloads(tree, 128, inside=scene.inside):
            share = fallback_share(tree, work.origins, work.directions)
            print(f"{scene.name:<24} {work.name:<17} {share:>10.4%}")


if __name__ == "__main__":
    main()
