"""`python -m benchmarks.leaf_tests [MESH ...]`: a leaf test in float32 and one in float64.

Both are exact: vectors decide with error margins, and what they leave undecided is decided by
`bvh.primitives.test`. The one in float32 is that of `bvh.leaves`, WIDTH triangles a vector; the one
in float64 is written here, with the same formulas and half as many triangles a vector of as many
bytes. Both tell which triangles of a group a ray hits, on the same pairs as `pairs` finds them, and
every answer is compared with the exact test of all triangles before a time is printed.

The margins in float64. As in `bvh.leaves`, with e = 2**-53, and B the bound of coordinates of the
box and of the ray's origin, which stays where it is. C: rounding of v0 and of o to the local frame
and of the difference, 4.1 e B a component; d is exact. N is rounded from products of rounded edges,
by 5 e x a component, x = max(abs(e1)) * sum(abs(e2)). So U and V are wrong by 17 e B D s in sum,
den by 10 e D x, and W by less than 22 e B D s + 11 e D x: 32 e B D * tolerance covers all. T is
wrong by 15 e B x from N, 5 e B M from C and 7 e B M from three steps, t * den with
t * max(abs(d)) <= 3.1 B by 31 e B (M + x) more: 64 e B (M + x) covers them together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh
from bvh.arguments import aligned, kernel_input
from bvh.arrays import TreeArrays
from bvh.jit import entry, inlined, kernel, stay_outlined
from bvh.leaves import GROUP_SIZE, NORMAL, ROWS, SIZE, TOLERANCE, test_edges
from bvh.numerics import vector
from bvh.primitives import MISS, intersect
from bvh.simd import WIDTH, fma, lowest_bit, mask_bits, peek, select, splat
from bvh.simd import load as load_lanes
from bvh.traversal.block import END, LOW, SLACK, SURE_HIGH, SURE_LOW
from bvh.triangles import scaled_ray

from .pairs import Pairs, filtered, pairs_of
from .scenes import USUAL, load
from .timing import interleaved, medians
from .workloads import Workload, workloads

HALF = WIDTH // 2
UNIT = 2.0**-53
EDGE_ERROR, T_BOUND = 32.0 * UNIT, 64.0 * UNIT

NAMES = ("primary", "diffuse", "random")

# Numbers of a ray in float64: origin, direction, errors of edges and of t, range of t, sure range.
RAY = 12


def packed(arrays: TreeArrays) -> NDArray[np.float64]:
    """Return the leaf groups in float64: each in two halves of ROWS rows of HALF lanes."""
    points, faces = arrays.primitives.points, arrays.primitives.faces
    ids, s, bound = arrays.nodes.ids, 2.0 ** arrays.frame[1, 0], arrays.frame[1, 2]
    a, b, c = np.moveaxis(points[faces[ids]], 2, 0)
    e1, e2 = ((0.5 * end - 0.5 * a) * (2.0 * s) for end in (b, c))
    n = np.cross(e1, e2)
    sums = np.abs(e1).sum(axis=2) + np.abs(e2).sum(axis=2)
    longest = np.maximum(np.abs(e1).max(axis=2), np.abs(e2).max(axis=2))
    up = 1.0 + 2.0**-40
    groups = np.empty((len(ids), WIDTH, ROWS))
    groups[:, :, 0:3] = (a - arrays.frame[0]) * s
    groups[:, :, 3:6], groups[:, :, 6:9], groups[:, :, NORMAL : NORMAL + 3] = e1, e2, n
    groups[:, :, TOLERANCE] = sums * (1.0 + 0.5 * longest / bound) * up + 2.0**-900
    groups[:, :, SIZE] = (np.abs(n).sum(axis=2) + longest * sums) * up
    groups[ids < 0] = 0.0
    groups[ids < 0, TOLERANCE] = -1.0
    flat = aligned(groups.size, np.float64)
    flat[:] = groups.reshape(-1, 2, HALF, ROWS).swapaxes(2, 3).ravel()
    return flat


def rays_of(work: Workload, pairs: Pairs, frame: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the numbers of each ray in float64, RAY a row."""
    rays = np.empty((len(work), RAY))
    size = np.frexp(np.abs(work.directions).max(axis=1))[1] - 1
    rays[:, 0:3] = (work.origins - frame[0]) * 2.0 ** frame[1, 0]
    rays[:, 3:6] = np.ldexp(work.directions, -size[:, None])
    reach = np.maximum(np.abs(rays[:, :3]).max(axis=1), frame[1, 2])
    rays[:, 6] = EDGE_ERROR * reach * np.abs(rays[:, 3:6]).sum(axis=1) * (1.0 + 2.0**-40)
    rays[:, 7] = T_BOUND * reach
    for column, row in ((8, LOW), (9, END), (10, SURE_LOW), (11, SURE_HIGH)):
        rays[:, column] = pairs.rows[:, row].astype(np.float64) + pairs.entries
    return rays


@inlined
def _three(array, at):
    return (
        load_lanes(array, at, HALF),
        load_lanes(array, at + HALF, HALF),
        load_lanes(array, at + 2 * HALF, HALF),
    )


@inlined
def _spread(rays, at):
    return splat(peek(rays, at), HALF)


@inlined
def _spread_three(rays, at):
    return _spread(rays, at), _spread(rays, at + 1), _spread(rays, at + 2)


@inlined
def _filtered_half(rays, row, groups, at):
    """Return the lanes of half a group that a ray may hit, and those it surely hits, as bits."""
    n = _three(groups, at + NORMAL * HALF)
    maybe, passes, c, den = test_edges(
        _spread_three(rays, row),
        _spread_three(rays, row + 3),
        _three(groups, at),
        _three(groups, at + 3 * HALF),
        _three(groups, at + 6 * HALF),
        n,
        _spread(rays, row + 6) * load_lanes(groups, at + TOLERANCE * HALF, HALF),
    )
    if mask_bits(maybe) == 0:
        return np.int64(0), np.int64(0)
    along = fma(n[0], c[0], fma(n[1], c[1], n[2] * c[2]))
    size, numerator = abs(den), select(den < 0.0, -along, along)
    margin = fma(_spread(rays, row + 7), load_lanes(groups, at + SIZE * HALF, HALF), 2.0**-900)
    within = (numerator <= fma(_spread(rays, row + 9), size, margin)) & (
        numerator >= fma(_spread(rays, row + 8), size, -margin)
    )
    bits = mask_bits(maybe & within)
    if bits == 0:
        return np.int64(0), np.int64(0)
    t, room = numerator / size, margin / size
    low, high = _spread(rays, row + 10), _spread(rays, row + 11)
    return bits, bits & mask_bits(passes & (t - room >= low) & (t + room <= high))


@kernel
def _decide(primitives, reach, o, d, t_max, prim):
    """Test a triangle exactly."""
    stay_outlined()
    scaled = scaled_ray(o, d, reach)
    return intersect(primitives, np.int64(prim), o, d, scaled, 0.0, t_max, 0)[1] != MISS


@inlined
def _settle(tree, o, d, t_max, group, bits, sure):
    """Return the lanes that are hit."""
    left = bits & ~sure
    while left != 0:
        k = lowest_bit(left)
        left &= left - 1
        if _decide(tree.primitives, tree.frame[1, 1], o, d, t_max, tree.nodes.ids[group, k]):
            sure |= 1 << k
    return sure


@entry
def _in_floats(tree, origins, directions, t_max, rows, rays, met, hit):
    """Test all pairs in float32; return how many lanes were undecided."""
    undecided = 0
    for p in range(len(rays)):
        i, group = rays[p], met[p]
        bits, sure = filtered(rows, i, rows[i, END], tree.groups, group)
        if bits != sure:
            undecided += _count_bits(bits & ~sure)
            o, d = vector(origins, i), vector(directions, i)
            sure = _settle(tree, o, d, t_max, group, bits, sure)
        hit[p] = sure
    return undecided


@entry
def _in_doubles(tree, origins, directions, t_max, numbers, groups, rays, met, hit):
    """Test all pairs in float64; return how many lanes were undecided."""
    undecided = 0
    for p in range(len(rays)):
        i, group = rays[p], met[p]
        at = group * GROUP_SIZE
        bits, sure = _filtered_half(numbers, i * RAY, groups, at)
        more, surely = _filtered_half(numbers, i * RAY, groups, at + ROWS * HALF)
        bits, sure = bits | more << HALF, sure | surely << HALF
        if bits != sure:
            undecided += _count_bits(bits & ~sure)
            o, d = vector(origins, i), vector(directions, i)
            sure = _settle(tree, o, d, t_max, group, bits, sure)
        hit[p] = sure
    return undecided


@inlined
def _count_bits(bits):
    count = 0
    while bits != 0:
        bits &= bits - 1
        count += 1
    return count


@entry
def _exactly(tree, origins, directions, t_max, rays, met, hit):
    """Test all triangles of all pairs exactly; return how many there are."""
    count = 0
    for p in range(len(rays)):
        o, d = vector(origins, rays[p]), vector(directions, rays[p])
        hit[p] = 0
        for k in range(WIDTH):
            prim = tree.nodes.ids[met[p], k]
            if prim >= 0:
                count += 1
                if _decide(tree.primitives, tree.frame[1, 1], o, d, t_max, prim):
                    hit[p] |= 1 << k
    return count


def compare(tree: bvh.BVH, work: Workload, rounds: int, shuffled: bool) -> dict[str, Any]:
    """Return seconds a pair and undecided shares of both tests, by name; check their answers."""
    arrays = tree.arrays
    pairs = pairs_of(tree, work.origins, work.directions, work.t_max)
    if np.isinf(pairs.rows[:, SLACK]).any():
        raise SystemExit(f"{work.name}: some rays are from too far for either filter")
    order = np.arange(len(pairs.rays))
    if shuffled:
        np.random.default_rng(0).shuffle(order)
    met = pairs.rays[order], pairs.groups[order]
    rays = kernel_input(work.origins), kernel_input(work.directions), work.t_max
    numbers, groups = rays_of(work, pairs, arrays.frame), packed(arrays)
    hit = {name: np.zeros(len(order), np.int64) for name in ("exact", "float32", "float64")}
    contestants: dict[str, Callable[[], int]] = {
        "float32": lambda: _in_floats(arrays, *rays, pairs.rows, *met, hit["float32"]),
        "float64": lambda: _in_doubles(arrays, *rays, numbers, groups, *met, hit["float64"]),
    }
    tested = _exactly(arrays, *rays, *met, hit["exact"])
    left = {name: contestant() / max(tested, 1) for name, contestant in contestants.items()}
    for name in contestants:
        if not np.array_equal(hit[name], hit["exact"]):
            raise SystemExit(f"{work.name}: a wrong answer in {name}")
    seconds = medians(interleaved(contestants, rounds))
    return {
        "pairs": len(order),
        "seconds": {name: value / max(len(order), 1) for name, value in seconds.items()},
        "undecided": left,
    }


def works_of(tree: bvh.BVH, side: int, inside: bool) -> Iterator[Workload]:
    """Yield the usual rays, and rays at vertices, which no filter decides."""
    some = [w for w in workloads(tree, side, inside=inside) if w.name in NAMES]
    yield from some
    aims = tree.vertices[np.random.default_rng(0).integers(len(tree.vertices), size=side * side)]
    origins = np.ascontiguousarray(some[-1].origins)
    yield Workload("at vertices", "closest_hit", origins, aims[: len(origins)] - origins)


def main() -> None:
    """Print nanoseconds a group, and shares of undecided triangles, for each mesh and workload."""
    single, double = 4 * ROWS, 8 * ROWS
    print(f"bytes a triangle: float32 {single}, float64 {double}; {WIDTH} triangles a group")
    print(f"{'':<44} {'ns a group':^27} {'undecided triangles':^25}")
    print(
        f"{'mesh':<14} {'rays':<12} {'order':<9} {'pairs':>6} {'float32':>9} {'float64':>9} "
        f"{'ratio':>7} {'float32':>12} {'float64':>12}"
    )
    for name in sys.argv[1:] or USUAL:
        scene = load(name)
        tree = bvh.BVH.from_triangles(scene.vertices, scene.faces)
        for work in works_of(tree, 128, scene.inside):
            for order in ("by ray", "shuffled"):
                found = compare(tree, work, 31, order == "shuffled")
                ns = {kind: 1e9 * value for kind, value in found["seconds"].items()}
                left = found["undecided"]
                print(
                    f"{scene.name:<14} {work.name:<12} {order:<9} {found['pairs']:>6} "
                    f"{ns['float32']:>9.2f} {ns['float64']:>9.2f} "
                    f"{ns['float64'] / ns['float32']:>7.2f} {left['float32']:>12.5%} "
                    f"{left['float64']:>12.5%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
