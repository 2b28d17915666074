"""Trees: what builders make of hostile meshes, their figures, and their copies."""

from __future__ import annotations

import copy
import math
import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bvh import BVH, Scene
from bvh.runtime.arguments import number_of
from bvh.runtime.simd import WIDTH
from bvh.traversal.rays.closest_hit import closest_hits
from bvh.tree import build as builds
from bvh.tree.wide_nodes import WideNodes, lanes_of
from tests.cases.soups import FLAT, MANY, Mesh, at_places, rays_at, same, soup


def exponential(rng: np.random.Generator) -> Mesh:
    """Return triangles at powers of two around the centre: a greedy tree peels off few at a time.

    Left to itself, it would be more than 50 levels deep.
    """
    places = np.ldexp(rng.choice([-1.0, 1.0], (2_000, 1)), -rng.integers(0, 140, (2_000, 1)))
    return at_places(places * [1.0, 1.0, 1.0], np.abs(places) * 0.1)


MESHES: dict[str, Callable[[np.random.Generator], Mesh]] = {
    "random": soup,
    "identical": lambda rng: (FLAT, np.tile([0, 1, 2], (MANY, 1))),
    "nearly identical": lambda rng: at_places(1.0 + rng.integers(0, 3, (MANY, 3)) * 2.0**-52),
    "collinear": lambda rng: at_places(np.arange(MANY)[:, None] * [1.0, 0.0, 0.0], 0.1),
    "exponential": exponential,
    "two heaps": lambda rng: at_places(np.repeat([[0.0, 0, 0], [1e9, 0, 0]], MANY // 2, axis=0)),
    "all sizes": lambda rng: at_places(np.zeros((2_000, 3)), 2.0 ** np.linspace(-480, 480, 2_000)),
    "far away": lambda rng: at_places(1e7 + rng.random((MANY, 3)), 1e-3),
    "tiny": lambda rng: at_places(1e-150 * rng.random((MANY, 3)), 1e-152),
    "huge": lambda rng: at_places(1e150 * rng.random((MANY, 3)), 1e148),
    "one": lambda rng: (FLAT, np.array([[0, 1, 2]])),
    "two": lambda rng: at_places(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])),
    "none": lambda rng: (FLAT, np.empty((0, 3), int)),
    "all NaN": lambda rng: (FLAT * np.nan, np.tile([0, 1, 2], (50, 1))),
}


@pytest.mark.parametrize("name", MESHES)
def test_builds(name: str, rng: np.random.Generator) -> None:
    """A tree is well-formed, bounded in depth, and the same for any number of threads."""
    mesh = MESHES[name](rng)
    tree = BVH.from_triangles(*mesh, threads=1)
    tree.validate()
    stats, n = tree.stats(), len(mesh[1])
    assert (len(tree), stats.primitives) == (n, n)
    assert stats.depth <= 2 * math.log2(max(n, 1)) + 8
    # Every node but the root is one of a node's WIDTH children.
    assert 0 <= stats.leaves <= (WIDTH - 1) * stats.nodes + 1
    assert stats.largest_leaf <= WIDTH
    assert stats.ignored == (n if name == "all NaN" else 0)
    for threads in (2, 5):
        other = BVH.from_triangles(*mesh, threads=threads)
        for a, b in zip(tree.arrays.nodes, other.arrays.nodes, strict=True):
            assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())


@pytest.mark.parametrize("quality", ["medium", "high"])
def test_small_trees_are_built_by_one_thread(
    quality: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waking other threads would take longer, unless of quality "high"."""
    monkeypatch.setattr(builds, "FEWEST_SHARED", MANY + 1)
    asked: list[int] = []
    prepare = builds.prepare
    monkeypatch.setattr(
        builds, "prepare",
        lambda given, threads, spare: asked.append(threads) or prepare(given, threads, spare),
    )  # fmt: skip
    for count in (MANY, MANY + 1):
        BVH.from_triangles(*soup(rng, count), quality=quality, threads=2)
    assert asked == [1 if quality == "medium" else 2, 2]


def test_copies_of_a_triangle_give_the_lowest_id() -> None:
    """However many share the same place."""
    tree = BVH.from_triangles(FLAT, np.tile([0, 1, 2], (MANY, 1)))
    hit = tree.closest_hit([0.25, 0.25, 1.0], [0.0, 0.0, -1.0])
    assert (hit.prim_id, hit.t, hit.u, hit.v) == (0, 1.0, 0.25, 0.25)


def test_stats(rng: np.random.Generator) -> None:
    """Figures of a known tree, and of a random one counted again."""
    one = BVH.from_triangles(FLAT, [[0, 1, 2]]).stats()
    assert (one.primitives, one.ignored, one.nodes, one.leaves, one.depth) == (1, 0, 1, 1, 1)
    assert one.largest_leaf == 1
    # The root is visited, and its only leaf's only row, which has the same box.
    assert one.sah_cost == 2.0
    # In WIDTH lanes of four bytes each: eight rows of a node, a row of ids, eleven rows of a
    # group of triangles; three vertices and a face.
    assert one.bytes == 4 * WIDTH * (8 + 1 + 11) + 72 + 12
    mesh, began = soup(rng, 3_000), time.perf_counter()
    tree = BVH.from_triangles(*mesh)
    elapsed = time.perf_counter() - began
    stats, ids = tree.stats(), tree.arrays.nodes.ids
    boxes, codes, _, inner, leaf = lanes_of(tree.arrays.nodes.data)
    inside, leaves, depth, cost = [(0, 1)], [], 0, 1.0
    whole = surface(tree.arrays.frame[2:].reshape(6))
    while inside:
        node, level = inside.pop()
        depth = max(depth, level)
        for k in range(WIDTH):
            share = surface(boxes[node, :, k]) / whole
            if inner[node, k]:
                cost += share
                inside.append((codes[node, k], level + 1))
            elif leaf[node, k]:
                rows, first = (~codes[node, k]) % 8 + 1, (~codes[node, k]) // 8
                leaves.append((ids[first : first + rows] >= 0).sum())
                cost += share * rows
    assert (stats.leaves, stats.depth, stats.largest_leaf) == (len(leaves), depth, max(leaves))
    assert (stats.nodes, sum(leaves)) == (len(codes), 3_000)
    assert stats.sah_cost == pytest.approx(cost)
    assert 0.0 < stats.build_seconds <= elapsed
    empty = BVH.from_triangles([], []).stats()
    assert (empty.sah_cost, empty.nodes, empty.leaves, empty.depth) == (0.0, 0, 0, 0)


def surface(box: np.ndarray) -> float:
    """Return half the surface of a box of six numbers."""
    x, y, z = (box[3:] - box[:3]).astype(float)
    return x * y + y * z + z * x


def test_properties(rng: np.random.Generator) -> None:
    """repr, len, kind, bounds, vertices and faces; no half-made and no changed trees."""
    vertices, faces = soup(rng, 100)
    # A vertex that no face uses does not count.
    vertices = np.vstack([vertices, [[1e9, 1e9, 1e9]]])
    tree = BVH.from_triangles(vertices, faces)
    assert repr(tree) == f"BVH(100 triangles, {number_of(tree.stats().nodes, 'nodes')})"
    assert (len(tree), tree.kind) == (100, "triangles")
    assert np.array_equal(tree.vertices, vertices) and np.array_equal(tree.faces, faces)
    used = vertices[faces].reshape(-1, 3)
    assert np.array_equal(tree.bounds, [used.min(axis=0), used.max(axis=0)])
    boxes = BVH.from_boxes([[0, 1, 2], [3, 3, 3]], [[5, 5, 5], [4, 9, 4]])
    obbs = BVH.from_obbs([[0, 1, 2]], [[5, 5, 5]], np.diag([2.0, 1, 1, 1])[None])
    assert repr(boxes).startswith("BVH(2 boxes, ") and repr(obbs) == "BVH(1 obb, 1 node)"
    assert boxes.bounds.tolist() == [[0, 1, 2], [5, 9, 5]]
    # Corners under a transform are rounded outward.
    assert np.all(np.abs(obbs.bounds - [[0, 1, 2], [10, 5, 5]]) < 1e-13)
    assert np.all((obbs.bounds - [[0, 1, 2], [10, 5, 5]]) * [[-1], [1]] >= 0)
    for other in (boxes, obbs):
        other.validate()
        for name in ("vertices", "faces"):
            with pytest.raises(AttributeError, match=other.kind):
                getattr(other, name)
    with pytest.raises(TypeError, match="from_triangles"):
        BVH()
    for name in ("bounds", "faces", "anything"):
        with pytest.raises(AttributeError):
            setattr(tree, name, 1)


def test_faces_that_are_not_finite_are_ignored(rng: np.random.Generator) -> None:
    """Ids stay, the others' answers stay, and the ignored are counted."""
    vertices, faces = soup(rng, 2_000)
    bad = np.sort(rng.choice(2_000, 300, replace=False))
    spoiled = vertices.copy()
    spoiled[faces[bad, rng.integers(0, 3, 300)], rng.integers(0, 3, 300)] = rng.choice(
        [np.nan, np.inf, -np.inf], 300
    )
    good = np.setdiff1d(np.arange(2_000), bad)
    tree, small = BVH.from_triangles(spoiled, faces), BVH.from_triangles(vertices, faces[good])
    tree.validate()
    assert (len(tree), tree.stats().ignored, small.stats().ignored) == (2_000, 300, 0)
    assert np.array_equal(tree.bounds, small.bounds)
    rays = rays_at(small, rng)
    hits, wanted = tree.closest_hit(*rays), small.closest_hit(*rays)
    assert wanted.mask.sum() > 50 and np.array_equal(hits.t, wanted.t)
    assert np.array_equal(hits.prim_id[hits.mask], good[wanted.prim_id[wanted.mask]])
    # The same for boxes: NaN, infinite, and turned inside out.
    lower = np.array([[0.0, 0, 0], [np.nan, 0, 0], [0, 0, 0], [0, 2, 0], [3, 3, 3]])
    upper = np.array([[1.0, 1, 1], [1, 1, 1], [1, np.inf, 1], [1, 1, 1], [4, 4, 3]])
    eyes = np.tile(np.eye(4), (5, 1, 1))
    for boxes in (BVH.from_boxes(lower, upper), BVH.from_obbs(lower, upper, eyes)):
        boxes.validate()
        assert (len(boxes), boxes.stats().ignored) == (5, 3)
        assert boxes.closest_hit([3.5, 3.5, 9], [0, 0, -1]).prim_id == 4
        assert boxes.closest_hit([0.5, 1.5, 9], [0, 0, -1]).prim_id == -1


def test_older_pickles(rng: np.random.Generator) -> None:
    """Of a tree whose ids were not in triangle groups: refused."""
    tree = BVH.from_triangles(*soup(rng, 500))
    state = tree.__getstate__()
    data, ids = tree.arrays.nodes.data, tree.arrays.nodes.ids
    nodes, groups = WideNodes(data, ids.copy()), np.zeros(len(ids) * 11 * WIDTH, np.float32)
    with pytest.raises(ValueError, match=r"pickled by bvh 0.2.0 or before: build it again"):
        BVH.__new__(BVH).__setstate__(
            {**state, "_arrays": tree.arrays._replace(nodes=nodes, groups=groups)}
        )


@pytest.mark.parametrize("kind", ["triangles", "boxes", "obbs"])
def test_pickles_and_copies(kind: str, rng: np.random.Generator) -> None:
    """They answer bit for bit, are read-only, and compile nothing."""
    lower = rng.random((500, 3))
    corners = lower, lower + 0.1 * rng.random((500, 3))
    tree = {
        "triangles": lambda: BVH.from_triangles(*soup(rng, 500)),
        "boxes": lambda: BVH.from_boxes(*corners),
        "obbs": lambda: BVH.from_obbs(*corners, np.tile(np.eye(4), (500, 1, 1))),
    }[kind]()
    rays = rays_at(tree, rng)
    hits, any_hit = tree.closest_hit(*rays), tree.any_hit(*rays)
    assert hits.mask.sum() > 20
    compiled = len(closest_hits.specialisations)
    buffers: list[Any] = []
    apart = pickle.dumps(tree, protocol=5, buffer_callback=buffers.append)
    copies = [pickle.loads(pickle.dumps(tree, protocol)) for protocol in (2, 3, 4, 5)]
    copies += [pickle.loads(apart, buffers=[bytes(b) for b in buffers])]
    copies += [copy.copy(tree), copy.deepcopy(tree)]
    for other in copies:
        assert same(other.closest_hit(*rays), hits)
        assert np.array_equal(other.any_hit(*rays), any_hit)
        other.validate()
        assert (repr(other), other.stats()) == (repr(tree), tree.stats())
        assert np.array_equal(other.bounds, tree.bounds)
        nodes, groups, primitives, frame, bits = other.arrays
        arrays = (*nodes, groups, *primitives, frame, bits, other.bounds)
        assert not any(a.flags.writeable for a in arrays)
    assert len(closest_hits.specialisations) == compiled


@pytest.mark.slow
def test_copies_of_a_triangle_build_as_fast_as_any_mesh(rng: np.random.Generator) -> None:
    """Within twice the time of a random mesh of the same size, the best of three each."""
    n = 200_000
    copies = FLAT, np.tile([0, 1, 2], (n, 1))
    meshes, seconds = (soup(rng, n), copies), ([], [])
    for _ in range(3):
        for mesh, times in zip(meshes, seconds, strict=True):
            began = time.perf_counter()
            BVH.from_triangles(*mesh)
            times.append(time.perf_counter() - began)
    assert min(seconds[1]) < 2.0 * min(seconds[0])


def test_weights_do_not_depend_on_what_else_there_is() -> None:
    """A face far away changes neither t, u nor v of a hit that is hard to weigh."""
    tiny = np.array([
        [-1.7302361967701516e-100, -1.3635969712657035e-101, -8.635923564887963e-101],
        [-2.5573456499693826e-100, -8.901970953702757e-101, -7.204640109304637e-101],
        [-2.2800663169831768e-100, -1.7496198082996254e-101, -4.048015200685472e-101],
    ])  # fmt: skip
    origin = [-2.0899575288905458e-100, -3.098471252443759e-101, 5000003.355464373]
    direction = [0.0, 0.0, -5000003.355464373]
    alone = BVH.from_triangles(tiny, [[0, 1, 2]]).closest_hit(origin, direction)
    for power in range(0, 60, 3):
        far = tiny + [2.0**power, 0.0, 0.0]
        far[1] += 1.0
        far[2, 1] += 1.0
        points = np.concatenate([tiny, far])
        hit = BVH.from_triangles(points, [[0, 1, 2], [3, 4, 5]]).closest_hit(origin, direction)
        assert (hit.prim_id, hit.t, hit.u, hit.v) == (0, alone.t, alone.u, alone.v)


def test_any_hit_of_single_rays(rng: np.random.Generator) -> None:
    """One by one, rays get the answers that they get in a batch, in trees and in scenes."""
    tree = BVH.from_triangles(*soup(rng))
    scene = Scene()
    scene.add(tree)
    origins, directions = rays_at(tree, rng, 60)
    directions[::9] *= [[0.0], [np.nan], [-1.0], [np.inf], [1e-300], [0.0], [-0.0]]
    source: Any
    for source in (tree, scene):
        batch = source.any_hit(origins, directions, 0.0, 1.5)
        ones = [source.any_hit(*ray, 0.0, 1.5) for ray in zip(origins, directions, strict=True)]
        assert all(type(one) is bool for one in ones)
        assert np.array_equal(ones, batch) and 0 < sum(ones) < 60
