"""`python -m benchmarks.fallback [MESH ...]`: how often the filter of a hit cannot decide."""

from __future__ import annotations

import sys

import numpy as np

import bvh
from benchmarks.scenes import USUAL, load
from benchmarks.workloads import workloads
from bvh.arrays import build_binary
from bvh.jit import entry
from bvh.nodes import is_leaf
from bvh.numerics import power_of_two, vector
from bvh.primitives import corners
from bvh.triangles import filtered_side, scaled_ray

# More than a tree is ever deep (see `bvh.nodes`).
STACK_SIZE = 96


@entry
def _count(bounds, links, order, frame, primitives, origins, directions):
    """Return (sides asked for, sides left undecided) over all leaves that the rays pass."""
    stack = np.empty(STACK_SIZE, np.int64)
    asked, undecided = 0, 0
    size = power_of_two(int(frame[1, 0]))
    for i in range(len(origins)):
        o, d = vector(origins, i), vector(directions, i)
        d_scaled, floor, _, _ = scaled_ray(o, d, frame[1, 1])
        stack[0] = 0
        waiting = 1
        while waiting > 0:
            waiting -= 1
            node = stack[waiting]
            # Clip the ray to the box; a plane that it lies in does not count.
            first, last = 0.0, np.inf
            for axis in range(3):
                local = (o[axis] - frame[0, axis]) * size
                a = (bounds[node, axis] - local) / (d[axis] * size)
                b = (bounds[node, axis + 3] - local) / (d[axis] * size)
                if a == a and b == b:
                    first, last = max(first, min(a, b)), min(last, max(a, b))
            if first > last:
                continue
            if not is_leaf(links, node):
                stack[waiting], stack[waiting + 1] = links[node, 0], links[node, 0] + 1
                waiting += 2
                continue
            for slot in range(links[node, 0], links[node, 0] + links[node, 1]):
                v0, v1, v2 = corners(primitives, np.int64(order[slot]))
                asked += 3
                undecided += filtered_side(o, d_scaled, floor, v0, v1) == 0
                undecided += filtered_side(o, d_scaled, floor, v1, v2) == 0
                undecided += filtered_side(o, d_scaled, floor, v2, v0) == 0
    return asked, undecided


def fallback_share(tree: bvh.BVH, origins: np.ndarray, directions: np.ndarray) -> float:
    """Return the share of side tests that exact arithmetic has to decide."""
    primitives = tree.arrays.primitives
    nodes, frame, _ = build_binary(primitives, "medium", 1, None)
    rays = np.ascontiguousarray(origins), np.ascontiguousarray(directions)
    asked, undecided = _count(*nodes, frame, primitives, *rays)
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
