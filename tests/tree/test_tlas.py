"""Boxes that move: the tree over them is sound after every update, and answers as brute force."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bvh import BVH
from bvh.queries.tree_base import TreeBase
from bvh.runtime.calls.entries import entry
from bvh.runtime.simd import WIDTH
from bvh.tree import tlas
from bvh.tree.collapse import order_node
from bvh.tree.nodes import local_box, local_boxes
from bvh.tree.stats import check, wide_cost
from bvh.tree.tlas import Tlas
from bvh.tree.wide_nodes import lanes_of, octants_of
from tests.oracles import brute

Rng = np.random.Generator


def some_boxes(rng: Rng, n: int, size: float = 0.05) -> np.ndarray:
    """Return boxes at random places."""
    centre, half = rng.random((n, 3)), size * rng.random((n, 3))
    return np.hstack([centre - half, centre + half])


def tree_of(top: Tlas) -> BVH:
    """Return a tree that holds the arrays of a top level."""
    tree = object.__new__(BVH)
    tree._bounds, tree._quality, tree._build_seconds = top.bounds, "medium", 0.0
    TreeBase._set_arrays(tree, top.arrays)
    tree._face_ids = None
    return tree


def assert_sound(top: Tlas, rng: Rng) -> None:
    """Audit a top level, and compare its answers with brute force."""
    check(top.arrays)
    solid = np.isfinite(top.boxes).all(axis=1) & (top.boxes[:, :3] <= top.boxes[:, 3:]).all(axis=1)
    codes = lanes_of(top.arrays.nodes.data)
    assert codes.leaf.sum() == solid.sum() == len(top.arrays.nodes.ids)
    if not solid.any():
        assert np.isnan(top.bounds).all() and len(top.arrays.nodes.data) == 0
        return
    some = top.boxes[solid]
    assert np.array_equal(top.bounds, [some[:, :3].min(axis=0), some[:, 3:].max(axis=0)])
    frame = top.arrays.frame
    assert frame[1, 1] >= np.abs(some).max()
    local = (some.reshape(-1, 2, 3) - frame[0]) * 2.0 ** frame[1, 0]
    assert frame[1, 2] >= max(1.0, np.abs(local).max())
    assert top.cost == pytest.approx(wide_cost(codes, frame), rel=1e-6)
    tree = tree_of(top)
    span = np.ptp(top.bounds, axis=0).max()
    aims = some[rng.integers(len(some), size=300)]
    aims = np.where(rng.random((300, 3)) < 0.5, aims[:, :3], aims[:, 3:])
    with np.errstate(over="ignore"):
        o = rng.uniform(*top.bounds, (300, 3)) + span * rng.normal(size=(300, 3))
        d = aims - o
    hits = tree.closest_hit(o, d)
    t, prim = brute.closest_hit(tree, o, d)
    assert (hits.t.tobytes(), hits.prim_id.tobytes()) == (t.tobytes(), prim.tobytes())


@pytest.mark.parametrize("n", [0, 1, 2, WIDTH, WIDTH + 1, 3_000])
def test_few_boxes_that_move(n: int, rng: Rng) -> None:
    """Updates of some, of all and of none leave a sound tree."""
    top = Tlas(some_boxes(rng, n))
    assert_sound(top, rng)
    for count in (1, 3, n // 10, n):
        rows = rng.integers(n, size=count) if n else np.empty(0, np.int64)
        boxes = some_boxes(rng, len(rows))
        top.update(rows, boxes)
        expected = top.boxes.copy()
        for row, box in zip(rows, boxes, strict=True):
            expected[row] = box
        assert np.array_equal(top.boxes, expected)
        assert_sound(top, rng)
    top._refit(False)
    assert_sound(top, rng)


MOVES: dict[str, Callable[[Rng, np.ndarray], np.ndarray]] = {
    "nothing": lambda rng, b: b,
    "drift": lambda rng, b: b + 0.3,
    "noise": lambda rng, b: b + 0.2 * np.tile(rng.normal(size=(len(b), 3)), 2),
    "larger": lambda rng, b: 6.0 * b,
    "much larger": lambda rng, b: 1e6 * b,
    "smaller": lambda rng, b: 1e-6 * b,
    "largest": lambda rng, b: (b - 0.5) * 1e308,
    "least": lambda rng, b: 1e-310 * b,
    "a point": lambda rng, b: np.tile([3.0, -7.0, 0.1], (len(b), 2)),
    "far": lambda rng, b: b + 1e12,
    "flat": lambda rng, b: b * [1, 0, 1, 1, 0, 1],
    "none": lambda rng, b: np.full(b.shape, np.nan),
    "some": lambda rng, b: np.where(rng.random((len(b), 1)) < 0.1, np.nan, b),
    "infinite": lambda rng, b: np.where(rng.random((len(b), 1)) < 0.1, np.inf, b),
    "empty": lambda rng, b: np.where(rng.random((len(b), 1)) < 0.1, b[:, [3, 4, 5, 0, 1, 2]], b),
}  # fmt: skip


@pytest.mark.parametrize("share", [0.01, 1.0])
@pytest.mark.parametrize("move", MOVES)
def test_moves(move: str, share: float, rng: Rng) -> None:
    """There and back, whatever the boxes become."""
    boxes = some_boxes(rng, 1_000)
    top = Tlas(boxes)
    rows = np.sort(rng.permutation(1_000)[: int(share * 1_000)])
    for there in (MOVES[move](rng, boxes), boxes):
        top.update(rows, there[rows])
        assert_sound(top, rng)


def test_boxes_of_an_empty_tree_that_move() -> None:
    """All of them stay invalid: there is no root whose box the frame could have."""
    boxes = np.full((4, 6), np.nan)
    top = Tlas(boxes)
    frame = top.arrays.frame.copy()
    assert not top.update(np.arange(4), np.full((4, 6), np.inf))
    np.testing.assert_array_equal(top.arrays.frame, frame)
    assert top.update(np.arange(1), np.arange(6.0)[None]) and len(top.arrays.nodes.ids) == 1


def test_many_small_steps(rng: Rng) -> None:
    """Hundreds of updates of one box each lose nothing, and keep count of the cost."""
    top = Tlas(some_boxes(rng, 500))
    for _ in range(300):
        row = rng.integers(500, size=1)
        assert not top.update(row, top.boxes[row] + np.tile(0.1 * rng.normal(size=3), 2), rays=0)
    assert_sound(top, rng)


def test_outgrown_frames(rng: Rng) -> None:
    """A box that leaves the frame by far gets a tree in a new one, another does not."""
    top = Tlas(some_boxes(rng, 200))
    arrays = top.arrays
    assert not top.update(np.array([7]), np.array([[3.0, 3, 3, 3.1, 3.1, 3.1]]), rays=0)
    assert top.arrays is arrays and arrays.frame[1, 2] > 1.0
    assert_sound(top, rng)
    assert top.update(np.array([7]), np.array([[30.0, 3, 3, 31.0, 3.1, 3.1]]), rays=0)
    assert top.arrays is not arrays
    arrays = top.arrays
    assert_sound(top, rng)
    # As small as a frame may become, and smaller.
    small = some_boxes(rng, 200) * 0.1
    for row in range(200):
        top.update(np.array([row]), small[row : row + 1], rays=0)
    assert top.arrays is not arrays
    assert np.ptp(top.arrays.frame[2:], axis=0).max() > 0.1
    assert_sound(top, rng)


def test_it_is_built_anew_where_that_pays(rng: Rng) -> None:
    """Neither without rays nor without a loss, but in the end where there are both."""
    boxes = some_boxes(rng, 2_000)
    everything = np.arange(2_000)
    top = Tlas(boxes)
    assert not top.update(everything, boxes, rays=1e9)
    assert not top.update(everything, boxes, rays=1e9)
    mixed = rng.permutation(boxes)
    assert not top.update(everything, mixed, rays=0)
    assert not top.update(everything, mixed, rays=0)
    before = top.cost
    assert top.update(everything, mixed, rays=1e9)
    assert top.cost < 0.2 * before
    assert_sound(top, rng)


@pytest.mark.unaudited
def test_tracing_goes_on(rng: Rng) -> None:
    """Queries in another thread answer, rightly or not, while boxes move."""
    top = Tlas(some_boxes(rng, 2_000))
    o, d = rng.normal(size=(2_000, 3)), rng.normal(size=(2_000, 3))
    stop = threading.Event()
    found: list[int] = []

    def ask() -> None:
        while not stop.is_set():
            hits = tree_of(top).closest_hit(o, d, threads=1)
            found.append(int(hits.prim_id.max()))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for k in range(200):
            rows = rng.integers(2_000, size=(1, 50, 2_000)[k % 3])
            top.update(rows, some_boxes(rng, len(rows)))
    finally:
        stop.set()
        thread.join()
    assert found and max(found) < 2_000
    assert_sound(top, rng)


def test_bounds_that_are_found_while_boxes_move(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread, between what is old and what is new: they are not kept."""
    boxes = some_boxes(rng, 100)
    top = Tlas(boxes)
    move = tlas.move_boxes

    def asked_meanwhile(*arguments: Any) -> int:
        assert np.array_equal(top.bounds[1], boxes[:, 3:].max(axis=0))
        return int(move(*arguments))

    monkeypatch.setattr(tlas, "move_boxes", asked_meanwhile)
    largest = boxes[:, 3:].argmax(axis=0)[:1]
    top.update(largest, some_boxes(rng, 1))
    assert_sound(top, rng)


@entry
def _local(boxes, frame, found):
    """Bring boxes to the frame one by one."""
    for i in range(len(boxes)):
        low = (boxes[i, 0], boxes[i, 1], boxes[i, 2])
        high = (boxes[i, 3], boxes[i, 4], boxes[i, 5])
        centre = (frame[0, 0], frame[0, 1], frame[0, 2])
        a, b = local_box(low, high, centre, 2.0 ** frame[1, 0])
        for axis in range(3):
            found[i, axis], found[i, axis + 3] = a[axis], b[axis]


def test_local_boxes(rng: Rng) -> None:
    """One box is rounded as many are."""
    boxes = np.sort(rng.normal(size=(1_000, 2, 3)) * 10.0 ** rng.integers(-50, 3, (1_000, 1, 1)), 1)
    boxes[::5] = 0.0
    boxes = boxes.reshape(-1, 6)
    frame = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    found = np.empty((1_000, 6), np.float32)
    _local(boxes, frame, found)
    assert found.tobytes() == local_boxes(boxes[:, :3].copy(), boxes[:, 3:].copy(), frame).tobytes()


@entry
def _order(data):
    """Order one node's children."""
    order_node(data, np.int64(0))


def test_orders(rng: Rng) -> None:
    """Of every octant, the children by their centres along its diagonal, the nearest last."""
    for trial in range(200):
        used = trial % WIDTH + 1
        boxes = np.sort(rng.integers(-3, 4, (WIDTH, 2, 3)), 1).reshape(WIDTH, 6).astype(np.float32)
        nodes = np.zeros((8, WIDTH), np.float32)
        boxes[used:] = [np.inf] * 3 + [-np.inf] * 3
        nodes[:6] = boxes.T
        nodes[6].view(np.int32)[:used] = -1
        _order(nodes.reshape(-1))
        found = octants_of(nodes[7].view(np.int32)[None])[0]
        for octant in range(4):
            signs = [-1 if octant & 1 else 1, -1 if octant & 2 else 1, 1]
            nearest_first = np.argsort((boxes[:used, :3] + boxes[:used, 3:]) @ signs, kind="stable")
            unused = np.arange(used, WIDTH)
            assert np.array_equal(found[octant], [*nearest_first[::-1], *unused])
            assert np.array_equal(found[7 - octant], [*nearest_first, *unused])
