"""Builders: well-formed trees of hostile primitives, the same answers, the same for any threads."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bvh import BVH
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.simd import WIDTH
from bvh.tree.build import QUALITIES, build_binary, prepare
from bvh.tree.builders import binned_sah, sbvh
from bvh.tree.builders import bins as binning
from bvh.tree.builders.records import COUNT, FIRST_ID, ID, load, outward, store
from bvh.tree.builders.subtrees import deepest_level
from bvh.tree.frame import local_frame
from bvh.tree.nodes import SMALLEST_PLANE, Nodes, local_boxes
from bvh.tree.primitives import Triangles, world_bounds
from bvh.tree.wide_nodes import lanes_of
from tests.cases.binary_trees import check_nodes, depths, sah_cost
from tests.cases.family_parts import grid
from tests.oracles import brute

Mesh = tuple[np.ndarray, np.ndarray]
Rng = np.random.Generator
FLAT = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def placed(corners: np.ndarray) -> Mesh:
    """Return triangles (n, 3, 3) as a mesh."""
    return corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3)


def long_thin(rng: Rng, n: int) -> Mesh:
    """Return needles across a unit cube, in every direction."""
    ends = rng.random((n, 2, 3))
    return placed(np.concatenate([ends, ends[:, :1] + 1e-3 * rng.normal(size=(n, 1, 3))], axis=1))


def spoiled(rng: Rng, n: int) -> Mesh:
    """Return triangles of all sizes, some without area, some not finite."""
    corners = rng.normal(size=(n, 3, 3)) * 2.0 ** rng.integers(-40, 40, (n, 1, 1))
    corners[::7, 2] = corners[::7, 1]
    corners[::11] = corners[::11, :1]
    corners[5::13, rng.integers(3), rng.integers(3)] = rng.choice([np.nan, np.inf, -np.inf])
    return placed(corners)


def random(rng: Rng, n: int) -> Mesh:
    """Return small triangles in a unit cube."""
    return placed(rng.random((n, 1, 3)) + 0.02 * rng.normal(size=(n, 3, 3)))


MESHES: dict[str, Callable[[Rng], Mesh]] = {
    "empty": lambda rng: (FLAT, np.empty((0, 3), int)),
    "one": lambda rng: placed(FLAT[None]),
    "two": lambda rng: placed(np.stack([FLAT, FLAT + 1.0])),
    "a group and one": lambda rng: random(rng, 9),
    "identical": lambda rng: (FLAT, np.tile([0, 1, 2], (9_000, 1))),
    "two heaps": lambda rng: placed(np.repeat([FLAT, FLAT + 1e9], 3_000, axis=0)),
    "same centres": lambda rng: placed((FLAT - 0.25)[None] * rng.random((6_000, 1, 1))),
    "on a line": lambda rng: placed(FLAT + np.arange(6_000)[:, None, None] * [1.0, 0.0, 0.0]),
    "flat": lambda rng: placed(random(rng, 6_000)[0].reshape(-1, 3, 3) * [1.0, 1.0, 0.0]),
    "powers": lambda rng: placed(
        FLAT * rng.choice([-1.0, 1.0], (6_000, 1, 1)) * 2.0 ** rng.integers(-140, 0, (6_000, 1, 1))
    ),
    "random": lambda rng: random(rng, 20_000),
    "long thin": lambda rng: long_thin(rng, 12_000),
    "hostile": lambda rng: spoiled(rng, 9_000),
    "all NaN": lambda rng: placed(np.full((50, 3, 3), np.nan)),
}  # fmt: skip


def triangles_of(mesh: Mesh) -> Triangles:
    """Return a mesh as kernels take it."""
    return Triangles(kernel_input(mesh[0]), kernel_input(mesh[1].astype(np.int32)))


def binary_of(mesh: Mesh, quality: str, threads: int = 1) -> Nodes:
    """Return the binary tree that a mesh's wide nodes are made of."""
    return build_binary(triangles_of(mesh), quality, threads, None)[0]


def assert_same(some: Any, others: Any) -> None:
    """Compare arrays byte for byte."""
    for a, b in zip(some, others, strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def boxes_of(mesh: Mesh) -> tuple[np.ndarray, np.ndarray, Triangles]:
    """Return local boxes and ids of what can be hit, by the way that is not fused."""
    triangles = triangles_of(mesh)
    lower, upper, valid = world_bounds(triangles)
    ids = np.flatnonzero(valid).astype(np.int32)
    frame, _ = local_frame(lower[ids], upper[ids])
    return local_boxes(lower, upper, frame), ids, triangles


def rays_through(tree: BVH, rng: Rng, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Return rays through the bounds of a tree, half of them at vertices."""
    if np.isnan(tree.bounds).any():
        return np.zeros((n, 3)), np.ones((n, 3))
    o = tree.bounds[0] + (rng.random((n, 3)) * 3.0 - 1.0) * np.ptp(tree.bounds, axis=0).max()
    used = tree.vertices[tree.faces].reshape(-1, 3)
    used = used[np.isfinite(used).all(axis=1)]
    d = rng.uniform(*tree.bounds, (n, 3)) - o
    d[::2] = used[rng.integers(len(used), size=len(d[::2]))] - o[::2]
    return o, d


@pytest.mark.parametrize("quality", QUALITIES)
@pytest.mark.parametrize("name", MESHES)
def test_trees(name: str, quality: str, rng: Rng) -> None:
    """Well-formed, bounded in depth, the same for any threads; answers are those of brute force."""
    mesh = MESHES[name](rng)
    boxes, ids, _ = boxes_of(mesh)
    nodes = binary_of(mesh, quality)
    check_nodes(nodes, boxes, ids)
    assert depths(nodes).max(initial=0) <= deepest_level(len(ids))
    assert nodes.links[:, 1].max(initial=0) <= WIDTH
    inner = np.flatnonzero(nodes.links[:, 1] == 0)
    assert (nodes.links[inner, 0] > inner).all()
    assert len(nodes.order) <= (1.0 + sbvh.BUDGET * (quality == "high")) * len(ids)
    tree = BVH.from_triangles(*mesh, quality=quality, threads=1)
    tree.validate()
    held = tree.arrays.nodes.ids
    assert np.array_equal(np.sort(held[held >= 0]), np.sort(nodes.order))
    assert tree.stats().ignored == len(mesh[1]) - len(ids)
    for threads in (2, 3):
        assert_same(binary_of(mesh, quality, threads), nodes)
        other = BVH.from_triangles(*mesh, quality=quality, threads=threads).arrays
        assert_same(
            (*other.nodes, other.groups, other.frame),
            (*tree.arrays.nodes, tree.arrays.groups, tree.arrays.frame),
        )
    rays = rays_through(tree, rng)
    hits = tree.closest_hit(*rays)
    t, prim = brute.closest_hit(tree, *rays)
    assert (hits.t.tobytes(), hits.prim_id.tobytes()) == (t.tobytes(), prim.tobytes())


@pytest.mark.parametrize("quality", QUALITIES)
def test_boxes(quality: str, rng: Rng) -> None:
    """Boxes, some of them empty, go through every builder."""
    lower = rng.random((5_000, 3))
    tree = BVH.from_boxes(lower, lower + rng.uniform(-0.01, 0.1, (5_000, 3)), quality=quality)
    tree.validate()
    assert 0 < tree.stats().ignored < 5_000


@pytest.mark.parametrize("offset", [0.0, 1e7, -1e150])
def test_preparation(offset: float, rng: Rng) -> None:
    """The fused way equals bounds in the world, then the frame, then local boxes, bit for bit."""
    points, faces = spoiled(rng, 40_000)
    boxes, ids, triangles = boxes_of((points * max(1.0, abs(offset) / 1e10) + offset, faces))
    lower, upper, _ = world_bounds(triangles)
    frame, bounds = local_frame(lower[ids], upper[ids])
    for threads in (1, 3):
        records, count, other_frame, other_bounds, joined = prepare(triangles, threads)
        made = records[: len(ids)]
        assert len(records) == 2 * count == 2 * len(ids)
        assert (made[:, ID].view(np.int32) - FIRST_ID == ids).all()
        assert (np.hstack([-made[:, :3], made[:, 4:7]]) == boxes[ids]).all()
        assert joined is not None and (joined[0] == made.max(axis=0))[[0, 1, 2, 4, 5, 6]].all()
        assert (other_frame == frame).all() and (other_bounds == bounds).all()


@entry
def _outward(records):
    for i in range(len(records)):
        store(records, i, outward(load(records, i)))


def test_one_step_outward() -> None:
    """As `np.nextafter` takes it, for every kind of number; what is near zero leaves it."""
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 3.4028235e38, -3.4028235e38]
    for size in (1e-45, SMALLEST_PLANE, np.nextafter(np.float32(SMALLEST_PLANE), np.float32(0.0))):
        special += [size, -size]
    bits = np.random.default_rng(1).integers(0, 2**32, 8_000, dtype=np.uint32)
    numbers = np.concatenate([np.array(special, np.float32), bits.view(np.float32)])
    numbers = np.resize(numbers[~np.isnan(numbers)], (1_000, 8))
    numbers = np.ascontiguousarray(numbers)
    stepped = numbers.copy()
    _outward(stepped)
    lanes = [0, 1, 2, 4, 5, 6]
    with np.errstate(over="ignore"):
        expected = np.nextafter(numbers, np.float32(np.inf))
    expected[np.abs(numbers) < SMALLEST_PLANE] = SMALLEST_PLANE
    assert (stepped[:, lanes] == expected[:, lanes]).all()
    assert stepped[:, [3, 7]].tobytes() == numbers[:, [3, 7]].tobytes()


def test_no_denormal_planes() -> None:
    """Of a mesh that is symmetric: products with denormal numbers take some hundred cycles."""
    tree = BVH.from_triangles(*grid(64))
    planes = np.abs(lanes_of(tree._arrays.nodes.data).boxes)
    assert (planes >= SMALLEST_PLANE).all()


def test_a_mesh_that_is_a_point() -> None:
    """Its area is too small for float32; its nodes are full all the same."""
    tree = BVH.from_triangles(np.ones((3, 3)), np.tile([0, 1, 2], (10_000, 1)))
    nodes = tree._arrays.nodes
    assert nodes.size <= 2 * len(nodes.ids) // WIDTH + 1


def test_quality_pays(rng: Rng) -> None:
    """Better trees cost less, by the surface area heuristic, where large triangles lie oblique."""
    small, large = random(rng, 5_000), long_thin(rng, 100)
    mesh = placed(np.concatenate([m[0][m[1]] for m in (small, large)]))
    costs = [
        (
            sah_cost(binary_of(mesh, quality), 1.0 / WIDTH),
            BVH.from_triangles(*mesh, quality=quality).stats().sah_cost,
        )
        for quality in QUALITIES
    ]
    (medium, wide_medium), (high, wide_high) = costs
    assert high < medium and wide_high < wide_medium


@pytest.mark.parametrize("quality", QUALITIES)
def test_progress_and_interruption(quality: str, rng: Rng) -> None:
    """Progress rises to all primitives; what it raises ends the build, and the next is sound."""
    mesh = random(rng, 50_000)
    told: list[tuple[int, int]] = []
    BVH.from_triangles(*mesh, quality=quality, progress=lambda *now: told.append(now))
    assert told[0] == (0, 50_000) and told[-1] == (50_000, 50_000)
    assert all(a <= b for a, b in itertools.pairwise(told))

    calls = itertools.count()

    def stop(done: int, total: int) -> Any:
        # Not at the first call: that comes before any kernel runs.
        if next(calls) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BVH.from_triangles(*mesh, quality=quality, progress=stop)
    BVH.from_triangles(*mesh, quality=quality).validate()


@pytest.mark.parametrize("quality", QUALITIES)
def test_threads_share_the_top(quality: str, rng: Rng) -> None:
    """Any number of threads builds the same tree, also where many triangles cross planes."""
    needles, small = long_thin(rng, 9_000), random(rng, 16_000)
    mesh = placed(np.concatenate([some[0].reshape(-1, 3, 3) for some in (needles, small)]))
    nodes = binary_of(mesh, quality)
    boxes, ids, _ = boxes_of(mesh)
    check_nodes(nodes, boxes, ids)
    wide = BVH.from_triangles(*mesh, quality=quality, threads=1).arrays.nodes
    for threads in (2, 3, 16):
        # `parts`, the last of the arrays, says how threads share the nodes.
        assert_same(binary_of(mesh, quality, threads)[:-1], nodes[:-1])
        assert_same(BVH.from_triangles(*mesh, quality=quality, threads=threads).arrays.nodes, wide)


def test_memory(rng: Rng) -> None:
    """A build takes at most twice the memory of a finished tree on top of it."""
    n = 200_000
    mesh = random(rng, n)
    triangles = triangles_of(mesh)
    binned_sah.build(prepare(triangles, 2).records, threads=2)
    tracemalloc.start()
    binned_sah.build(prepare(triangles, 2).records, threads=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 230 * n


@pytest.mark.parametrize("bits", [0, 3])
def test_best_split(bits: int, rng: Rng) -> None:
    """The cheapest of all splits between bins, some of which are empty."""

    @entry
    def split(bins, stride, used, bits, sides):
        return binning.best_split(bins, stride, used, bits, sides)

    stride, used = 2 * WIDTH, (WIDTH + 3, 0, 2)
    for _ in range(20):
        low, size = rng.random((3 * stride, 3)), rng.random((3 * stride, 3))
        counts = rng.integers(0, 3, 3 * stride) * rng.integers(1, 30, 3 * stride)
        rows = np.zeros((3 * stride, 8), np.float32)
        rows[:, :3], rows[:, 4:7] = -low, low + size
        rows[counts == 0, :7] = -np.inf
        rows[:, COUNT] = counts.astype(np.int32).view(np.float32)
        cost, axis, last, lefts = split(rows, stride, used, bits, binning.new_sides(stride))

        costs = {}
        for a, b in [(k, bin) for k in range(3) for bin in range(used[k] - 1)]:
            costs[a, b] = 0.0
            middle, end = a * stride + b + 1, a * stride + used[a]
            for some in (slice(a * stride, middle), slice(middle, end)):
                box, groups = (
                    rows[some].max(axis=0).astype(float),
                    -(-counts[some].sum() // (1 << bits)),
                )
                x, y, z = box[:3] + box[4:7]
                costs[a, b] += (x * y + y * z + z * x) * groups if groups else np.inf
        least = min(costs.values())
        assert (axis == -1) == (least == np.inf)
        if axis >= 0:
            assert cost == pytest.approx(least, rel=1e-5)
            assert costs[axis, last] == pytest.approx(least, rel=1e-5)
            assert lefts == counts[axis * stride : axis * stride + last + 1].sum()
