"""Trees: what builders make of hostile meshes, the audit, copies, threads, and interruption."""

from __future__ import annotations

import copy
import math
import multiprocessing
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bvh import BVH, Hits
from bvh.arrays import build_binary
from bvh.nodes import Nodes, local_boxes
from bvh.primitives import world_bounds
from bvh.quality import check, check_nodes, check_wide, lanes_of
from bvh.simd import WIDTH
from bvh.traversal.closest_hit import any_hits, closest_hits
from bvh.wide_nodes import WideNodes

Mesh = tuple[np.ndarray, np.ndarray]
MANY = 20_000
FLAT = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def at_places(places: np.ndarray, size: float | np.ndarray = 1.0) -> Mesh:
    """Put a triangle of the given size at each place."""
    corners = places[:, None] + FLAT * np.reshape(size, (-1, 1, 1))
    return corners.reshape(-1, 3), np.arange(3 * len(places)).reshape(-1, 3)


def soup(rng: np.random.Generator, n: int = MANY, size: float = 0.1) -> Mesh:
    """Return triangles at random places."""
    return at_places(rng.random((n, 3)), size)


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


def rays_at(tree: BVH, rng: np.random.Generator, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Return rays through random points of a tree's bounds."""
    span = np.ptp(tree.bounds, axis=0).max()
    d = rng.normal(size=(n, 3))
    return rng.uniform(*tree.bounds, (n, 3)) - d * span, d


def same(a: Hits, b: Hits) -> bool:
    """Tell whether two answers agree bit for bit."""
    return all(
        np.asarray(getattr(a, f)).tobytes() == np.asarray(getattr(b, f)).tobytes()
        for f in ("t", "prim_id", "u", "v", "front")
    )


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
    assert stats.largest_leaf <= 2 * WIDTH
    assert stats.ignored == (n if name == "all NaN" else 0)
    for threads in (2, 5):
        other = BVH.from_triangles(*mesh, threads=threads)
        for a, b in zip(tree.arrays.nodes, other.arrays.nodes, strict=True):
            assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())


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
    # In WIDTH lanes of four bytes each: eight rows of a node, a row of ids, ten rows of a group of
    # triangles; three vertices and a face.
    assert one.bytes == 4 * WIDTH * (8 + 1 + 10) + 72 + 12
    tree = BVH.from_triangles(*soup(rng, 3_000))
    stats, ids = tree.stats(), tree.arrays.nodes.ids
    boxes, codes, _, inner, leaf = lanes_of(tree.arrays.nodes.blocks)
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
    assert stats.sah_cost == pytest.approx(cost) and 0.0 < stats.build_seconds < 60.0
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
    assert repr(tree) == f"BVH(100 triangles, {tree.stats().nodes} nodes)"
    assert (len(tree), tree.kind) == (100, "triangles")
    assert np.array_equal(tree.vertices, vertices) and np.array_equal(tree.faces, faces)
    used = vertices[faces].reshape(-1, 3)
    assert np.array_equal(tree.bounds, [used.min(axis=0), used.max(axis=0)])
    boxes = BVH.from_boxes([[0, 1, 2], [3, 3, 3]], [[5, 5, 5], [4, 9, 4]])
    obbs = BVH.from_obbs([[0, 1, 2]], [[5, 5, 5]], np.diag([2.0, 1, 1, 1])[None])
    assert repr(boxes).startswith("BVH(2 boxes, ") and repr(obbs) == "BVH(1 obbs, 1 nodes)"
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
    compiled = len(closest_hits.signatures), len(any_hits.signatures)
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
        nodes, groups, primitives, frame = other.arrays
        arrays = (*nodes, groups, *primitives, frame, other.bounds)
        assert not any(a.flags.writeable for a in arrays)
    assert (len(closest_hits.signatures), len(any_hits.signatures)) == compiled


# One wrong entry each, and what the audit says; `leaf` is the fullest one.
CORRUPTIONS = {
    "links[inner, 0] = inner": "parent",
    "links[inner, 0] = 0": "parent",
    "links[inner, 0] = links[0, 0]": "parent",
    "links[inner, 0] = len(links) - 1": "outside",
    "links[inner, 0] = 2**31 - 1": "outside",
    "links[inner, 0] = -1": "negative",
    "links[leaf, 1] = -1": "negative",
    "links[leaf, 0] = len(order)": "outside",
    "links[leaf, 1] = 2**31 - 1": "outside",
    "links[leaf, 1] -= 1": "primitive",
    "order[0] = order[1]": "primitive",
    "order[0] = 10**6": "primitive",
    "order[0] = -1": "primitive",
    "bounds[1, 3] = 2": "node 1 sticks out",
    "bounds[2, 1] = -2": "node 2 sticks out",
    "bounds[2, 4] = nan": "sticks out",
    "bounds[0, 0] = nextafter(bounds[0, 0], bounds[0, 3])": "sticks out",
    "bounds[leaf, 5] = nextafter(bounds[leaf, 5], bounds[leaf, 2])": "sticks out",
    "bounds[leaf, 2] = nextafter(bounds[leaf, 2], bounds[leaf, 5])": "sticks out",
}


def boxes_of(tree: BVH) -> tuple[np.ndarray, np.ndarray]:
    """Return the local boxes of a tree's primitives, and the ids of all."""
    lower, upper, _ = world_bounds(tree.arrays.primitives)
    return local_boxes(lower, upper, tree.arrays.frame), np.arange(len(tree), dtype=np.int32)


@pytest.mark.parametrize("change", CORRUPTIONS)
def test_the_audit_of_binary_trees_finds(change: str, rng: np.random.Generator) -> None:
    """Every kind of corruption."""
    tree = BVH.from_triangles(*soup(rng, 200, 0.5))
    boxes, ids = boxes_of(tree)
    made, _, _ = build_binary(tree.arrays.primitives, "medium", 1, None)
    nodes = Nodes(*(array.copy() for array in made))
    check_nodes(nodes, boxes, ids)
    places = {
        "inner": np.flatnonzero(nodes.links[1:, 1] == 0)[0] + 1,
        "leaf": nodes.links[:, 1].argmax(),
    }
    exec(change, vars(np) | nodes._asdict() | places)
    with pytest.raises(ValueError, match=CORRUPTIONS[change]):
        check_nodes(nodes, boxes, ids)


def test_the_audit_finds_what_no_single_entry_shows() -> None:
    """A cycle away from the root, and a tree that is missing."""
    boxes = np.tile(np.array([-1, -1, -1, 1, 1, 1], np.float32), (5, 1))
    # The root is a leaf; 1 and 3 are each other's parents, 2 and 4 leaves.
    links = np.array([[0, 1], [3, 0], [1, 1], [1, 0], [2, 1]], np.int32)
    order = np.arange(3, dtype=np.int32)
    with pytest.raises(ValueError, match="root"):
        check_nodes(Nodes(boxes, links, order), boxes[:3], order)
    with pytest.raises(ValueError, match="3 primitives"):
        check_nodes(Nodes(boxes[:0], links[:0], order[:0]), boxes[:3], order)


# The same for wide nodes: lane k of node p is the last inner child, l of node q the fullest leaf.
WIDE_CORRUPTIONS = {
    "codes[p, k] = 0": "no parent",
    "codes[p, k] = p": "no parent",
    "codes[p, k] = len(codes)": "no parent",
    "codes[p, k] = 2**31 - 1": "no parent",
    "codes[p, k] = codes[0, inner[0]][0]": "no parent",
    "codes[p, k], codes[0, inner[0].argmax()] = codes[0, inner[0].argmax()], p": "no parent",
    "codes[p, k] = ~(8 * len(ids))": "no parent",
    "boxes[p, 0, k] = inf": "no parent",
    "codes[q, l] = ~(8 * len(ids))": "outside",
    "codes[q, l] = -(2**31)": "outside",
    "codes[q, l] -= 1": "(?:row of primitives|outside)",
    "codes[q, l] += 1 if ~codes[q, l] % 8 else 8": "row of primitives",
    "codes[q, l] = codes[leaf][codes[leaf] != codes[q, l]][0]": "row of primitives",
    "boxes[q, 3, l] = -inf": "row of primitives",
    "ids[0, 0] = ids[1, 0]": "primitive is in no leaf",
    "ids[0, 0] = 10**6": "primitive is in no leaf",
    "ids[0, 0] = -1": "primitive is in no leaf",
    "ids[where(ids < 0)[0][0], -1] = ids[where(ids < 0)[0][0], 0]": "in a leaf twice",
    "boxes[p, 0, k] = nextafter(boxes[p, 0, k], boxes[p, 3, k])": "sticks out of its parent",
    "boxes[p, 4, k] = nextafter(boxes[p, 4, k], boxes[p, 1, k])": "sticks out of its parent",
    "boxes[q, 2, l] = nextafter(boxes[q, 2, l], boxes[q, 5, l])": "sticks out of its leaves",
    "boxes[q, 5, l] = nextafter(boxes[q, 5, l], boxes[q, 2, l])": "sticks out of its leaves",
    "orders[q, 0] ^= 1": "visiting order",
    "orders[p, -1] ^= 1 << 15": "visiting order",
    "orders[q] = 0": "visiting order",
}


@pytest.mark.parametrize("change", WIDE_CORRUPTIONS)
def test_the_audit_finds(change: str, rng: np.random.Generator) -> None:
    """Every kind of corruption."""
    tree = BVH.from_triangles(*soup(rng, 2_000, 0.5))
    boxes, ids = boxes_of(tree)
    nodes = WideNodes(*(array.copy() for array in tree.arrays.nodes))
    check_wide(nodes, boxes, ids)
    view = lanes_of(nodes.blocks)
    p, k = np.argwhere(view.inner)[-1]
    q, l = np.unravel_index(np.where(view.leaf, ~view.codes % 8, -1).argmax(), view.leaf.shape)  # noqa: E741
    places = {"ids": nodes.ids, "p": p, "k": k, "q": q, "l": l}
    with np.errstate(invalid="ignore"):
        exec(change, vars(np) | view._asdict() | places)
        with pytest.raises(ValueError, match=WIDE_CORRUPTIONS[change]):
            check_wide(nodes, boxes, ids)


def test_the_audit_finds_what_is_not_in_the_nodes(rng: np.random.Generator) -> None:
    """A tree that is missing, and copies of triangles that are none."""
    tree = BVH.from_triangles(*soup(rng, 200))
    boxes, ids = boxes_of(tree)
    with pytest.raises(ValueError, match="200 primitives are in no leaf"):
        check_wide(WideNodes(*(array[:0] for array in tree.arrays.nodes)), boxes, ids)
    groups = tree.arrays.groups.copy()
    check(tree.arrays._replace(groups=groups))
    for place in (0, 7 * WIDTH, 9 * WIDTH, len(groups) - 1):
        spoiled = groups.copy()
        spoiled.view(np.int32)[place] ^= 1
        with pytest.raises(ValueError, match="copy of its triangles"):
            check(tree.arrays._replace(groups=spoiled))


def test_many_threads_share_a_tree(rng: np.random.Generator) -> None:
    """Queries and builds from eight Python threads at once, each on threads of its own."""
    mesh = soup(rng)
    tree = BVH.from_triangles(*mesh)
    batches = [rays_at(tree, rng, 6_000) for _ in range(8)]
    wanted = [tree.closest_hit(*rays, threads=1) for rays in batches]

    def work(i: int) -> bool:
        other = BVH.from_triangles(*mesh, threads=2)
        return same(other.closest_hit(*batches[i], threads=2), wanted[i]) and all(
            same(tree.closest_hit(*batches[i], threads=threads), wanted[i])
            and np.array_equal(tree.any_hit(*batches[i], threads=threads), wanted[i].mask)
            for threads in (1, 2, 5)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_queries_and_builds(rng: np.random.Generator) -> None:
    """On threads of its own: those of the parent do not exist there."""
    context = multiprocessing.get_context("fork")
    mesh = soup(rng)
    tree = BVH.from_triangles(*mesh, threads=2)
    rays = rays_at(tree, rng, 20_000)
    wanted = tree.closest_hit(*rays, threads=2)
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        again = BVH.from_triangles(*mesh, threads=2).closest_hit(*rays, threads=2)
        sender.send(same(tree.closest_hit(*rays, threads=2), wanted) and same(again, wanted))

    process = context.Process(target=child)
    process.start()
    try:
        assert receiver.poll(60) and receiver.recv()
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [0, 1, 9_000, MANY])
def test_progress(n: int, threads: int, rng: np.random.Generator) -> None:
    """It never goes back, ends at (total, total), and its exceptions stop the work."""
    mesh, calls = soup(rng, n), []
    tree = BVH.from_triangles(*mesh, threads=threads, progress=lambda *call: calls.append(call))
    reports = [calls]
    rays = np.zeros((n, 3)), np.ones(3)
    for ask in (tree.closest_hit, tree.any_hit):
        reports.append([])
        ask(*rays, threads=threads, progress=lambda *call: reports[-1].append(call))
    for report in reports:
        assert report and report[-1] == (n, n)
        assert report == sorted(report) and {total for _, total in report} == {n}
        assert all(type(number) is int for call in report for number in call)

    def stop(*call: int) -> None:
        calls.append(call)
        raise LookupError("the callback's own")

    for ask, given in (BVH.from_triangles, mesh), (tree.closest_hit, rays), (tree.any_hit, rays):
        calls.clear()
        with pytest.raises(LookupError, match="own"):
            ask(*given, threads=threads, progress=stop)
        assert len(calls) == 1
    # Nothing is left behind that would disturb the next one.
    assert len(tree.closest_hit(*rays, threads=threads)) == n


RUNNING = "import numpy as np; from bvh import BVH; say = lambda *_: print('running', flush=True)"
LONG = {
    "build": """
faces = np.random.default_rng(0).integers(0, 10**6, (3 * 10**6, 3))
BVH.from_triangles(np.random.rand(10**6, 3), faces, threads=THREADS, progress=say)
""",
    # A thousand triangles that every ray must test, and misses.
    "batch": """
tree = BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 1]], [[0, 1, 2]] * 1000)
ends = np.full(5 * 10**6, 9.0)
tree.closest_hit([0.9, 0.9, 3], [0, 0, -1], 0, ends, threads=THREADS, progress=say)
""",
}


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to another process")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("what", LONG)
def test_ctrl_c(what: str, threads: int) -> None:
    """A long job ends with KeyboardInterrupt, at once."""
    script = RUNNING + LONG[what].replace("THREADS", str(threads)) + "print('finished')"
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "running\n"
        began = time.perf_counter()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        # A second is promised; a busy machine gets a few.
        assert time.perf_counter() - began < 5.0
        assert "finished" not in output
        assert errors.rstrip().endswith("KeyboardInterrupt")
    finally:
        process.kill()


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
