"""One state: each query answers for a tree as it was at one moment, whatever refits it meanwhile.

A refit is done at each place where a query reads the tree, one run after the other.
"""

from __future__ import annotations

import inspect
import os
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh.pictures.rendering import render
from bvh.queries import tree_base
from bvh.queries.tree_base import TreeBase

BALL = trimesh.creation.icosphere(1)
FACES = np.array(BALL.faces)
STATES = np.array(BALL.vertices), BALL.vertices * 1.3 + [0.1, 0.2, -0.1]
OTHER = bvh.BVH.from_mesh(trimesh.creation.icosphere(1).apply_translation([1.2, 0.0, 0.0]))
TURN = trimesh.transformations.rotation_matrix(0.3, [1.0, 2.0, 3.0], [0.1, 0.0, 0.0])
POINTS = np.random.default_rng(5).standard_normal((40, 3))
RAYS = POINTS * 3.0, np.roll(POINTS, 7, axis=0) - POINTS * 2.0
# In the second state alone inside.
SMALL = bvh.BVH.from_mesh(trimesh.creation.icosphere(0, 0.05).apply_translation([0.1, 0.2, 1.05]))
GROUPS = np.arange(len(FACES)) % 3 + 1
CAMERA = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 60.0, 48, 32)
# Attributes that change with each refit; read by queries.
MOVING = "_arrays", "_bounds", "_quick"

Ask = Callable[[bvh.BVH], Any]


def _saved(tree: bvh.BVH) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tree.bvh")
        tree.save(path)
        found = bvh.load(path)
    return found.vertices, found.bounds


def _pickled(tree: bvh.BVH) -> Any:
    found = pickle.loads(pickle.dumps(tree))
    return found.vertices, found.bounds, found.arrays.frame


def _hit_points(tree: bvh.BVH) -> Any:
    hits = tree.closest_hit(*RAYS)
    return hits, hits.position, hits.normal


def _every_hit(tree: bvh.BVH) -> Any:
    hits = tree.all_hits(*RAYS, mask=1)
    return hits, hits.position, hits.normal


def _picked(radius: float, mask: int | None) -> Ask:
    def ask(tree: bvh.BVH) -> Any:
        pick = tree.pick(CAMERA, 30.0, 14.0, radius, mask=mask)
        return pick and (pick.t, pick.prim_id, pick.position, pick.normal, pick.vertex.position)

    return ask


QUERIES: dict[str, list[Ask]] = {
    "closest_hit": [
        _hit_points,
        lambda t: t.closest_hit([0, 0, 5.0], [0.1, 0, -1.0]),
        lambda t: t.closest_hit(*RAYS, mask=2),
        lambda t: t.closest_hit(*RAYS, counters=True),
    ],
    "any_hit": [lambda t: t.any_hit(*RAYS), lambda t: t.any_hit(*RAYS, mask=2)],
    "all_hits": [_every_hit, lambda t: t.all_hits(*RAYS, max_hits=1)],
    "count_hits": [lambda t: t.count_hits(*RAYS), lambda t: t.count_hits(*RAYS, mask=3)],
    "caster": [
        lambda t: t.caster()(0, 0, 5, 0.1, 0, -1),
        lambda t: t.caster(mask=2)(0, 0, 5, 0, 0, -1),
    ],
    "visible": [
        lambda t: t.visible(POINTS, [2, 2, 2]),
        lambda t: t.visible([0, 0, 0], [3.0, 3, 3]),
    ],
    "pick": [_picked(0.0, None), _picked(0.0, 2), _picked(3.0, None), _picked(3.0, 2)],
    "pick_rect": [
        lambda t: t.pick_rect(CAMERA, 20, 4, 40, 24).ids,
        lambda t: t.pick_rect(CAMERA, 20, 4, 40, 24, visible_only=True, mask=2).ids,
    ],
    "pick_lasso": [lambda t: t.pick_lasso(CAMERA, [[20, 4], [40, 4], [30, 24]]).ids],
    "closest_point": [
        lambda t: t.closest_point(POINTS),
        lambda t: t.closest_point([0.1, 0.2, 0.3]),
        lambda t: t.closest_point(POINTS, k=3, mask=2),
    ],
    "distance": [lambda t: t.distance(POINTS), lambda t: t.distance(POINTS, mask=2)],
    "signed_distance": [
        lambda t: t.signed_distance(POINTS),
        lambda t: t.signed_distance([0.1, 0.2, 0.3]),
        lambda t: t.signed_distance(POINTS, method="winding"),
    ],
    "contains": [
        lambda t: t.contains(POINTS),
        lambda t: t.contains([0.1, 0.2, 1.0]),
        lambda t: t.contains(POINTS, method="winding", mask=3),
    ],
    "winding_number": [
        lambda t: t.winding_number(POINTS),
        lambda t: t.winding_number(POINTS, mask=2),
    ],
    "overlap_box": [
        lambda t: t.overlap_box([-2, -2, 0], [2, 2, 9.0]),
        lambda t: t.overlap_box(POINTS - 1.0, POINTS + 1.0, mask=2),
    ],
    "overlap_sphere": [lambda t: t.overlap_sphere(POINTS, 0.5)],
    "overlap_frustum": [lambda t: t.overlap_frustum([[1.0, 0, 0, -0.9]])],
    "overlap_tree": [
        lambda t: t.overlap_tree(OTHER),
        lambda t: t.overlap_tree(OTHER, TURN, mask=2),
        lambda t: OTHER.overlap_tree(t),
        lambda t: t.overlap_tree(t, TURN),
    ],
    "self_overlaps": [lambda t: t.self_overlaps()],
    "distance_to": [
        lambda t: t.distance_to(OTHER),
        lambda t: OTHER.distance_to(t, np.stack([TURN, TURN])),
        lambda t: t.distance_to(t, trimesh.transformations.translation_matrix([4.0, 0, 0])),
    ],
    "relation": [
        lambda t: t.relation(OTHER),
        lambda t: t.relation(SMALL),
        lambda t: t.relation(t),
        lambda t: OTHER.relation(t, TURN),
    ],
    "penetration": [
        lambda t: t.penetration(OTHER),
        lambda t: OTHER.penetration(t, TURN),
        lambda t: t.penetration(t, TURN),
    ],
    "overlap_volume": [
        lambda t: t.overlap_volume(OTHER),
        lambda t: OTHER.overlap_volume(t, TURN),
        lambda t: t.overlap_volume(t, TURN),
    ],
    "volume": [lambda t: t.volume],
    "centroid": [lambda t: t.centroid],
    "area": [lambda t: t.area],
    "intersections": [
        lambda t: t.intersections(OTHER).segments,
        lambda t: t.intersections(t, TURN).segments,
        lambda t: OTHER.intersections(t).segments,
        lambda t: t.intersections(),
    ],
    "section": [
        lambda t: t.section([0, 0, 1.0, -0.5]).segments,
        lambda t: t.section([[0, 0, 1.0, -0.5], [0, 0, 1.0, 0.0]]).segments,
    ],
    "thickness": [
        lambda t: t.thickness(),
        lambda t: t.thickness(method="sphere"),
        lambda t: t.thickness(points_at=POINTS),
    ],
    "save": [_saved],
    "__getstate__": [_pickled],
    "framing": [lambda t: bvh.Camera.framing(t, width=30, height=20).rays()],
    "render": [lambda t: np.asarray(render(t, CAMERA, "clay").pixels)],
    "stats": [lambda t: t.stats().sah_cost],
    "validate": [lambda t: t.validate()],
}
# Methods that are no queries of the geometry, or are tested elsewhere.
# A picker is `pick` with a camera.
OTHERS = {"face_of", "open_edges", "picker", "refit", "to"}


def plain(answer: Any) -> Any:
    """Return an answer as plain data that can be compared, bit for bit."""
    if isinstance(answer, np.ndarray):
        return answer.dtype.str, answer.shape, answer.tobytes()
    if isinstance(answer, tuple | list):
        return [plain(part) for part in answer]
    if is_dataclass(answer):
        return [plain(getattr(answer, field.name)) for field in fields(answer)]
    return repr(answer)


def new(state: int) -> bvh.BVH:
    """Return a tree that has been refitted, and is in a state."""
    tree = bvh.BVH.from_triangles(STATES[0], FACES, groups=GROUPS)
    tree.refit(STATES[1 - state])
    tree.refit(STATES[state])
    return tree


@contextmanager
def refitted_at(tree: bvh.BVH, place: int) -> Iterator[list[int]]:
    """Refit a tree from its first state to the second before its attributes are read once more."""
    reads, slots = [0], {name: vars(TreeBase)[name] for name in MOVING}

    def patched(name: str) -> property:
        slot = slots[name]

        def get(self: Any) -> Any:
            # No other thread refits while one holds the lock.
            if self is tree and not tree_base.state_guard.lock._is_owned():
                reads[0] += 1
                if reads[0] - 1 == place:
                    for other, was in slots.items():
                        setattr(TreeBase, other, was)
                    tree.refit(STATES[1])
            return slot.__get__(self, TreeBase)

        return property(get, slot.__set__, slot.__delete__)

    try:
        for name in MOVING:
            setattr(TreeBase, name, patched(name))
        yield reads
    finally:
        for name, was in slots.items():
            setattr(TreeBase, name, was)


@pytest.mark.parametrize("name", QUERIES)
def test_a_refit_at_each_read(name: str) -> None:
    """Whenever it is refitted, the answer is that for one of the two states."""
    different = name in ("validate", "self_overlaps")
    for number, ask in enumerate(QUERIES[name]):
        right = [plain(ask(new(state))) for state in (0, 1)]
        different |= right[0] != right[1]
        place, reads = 0, [1]
        # Until a query has no read left at which it was not refitted.
        while reads[0] > place - 1:
            tree = new(0)
            with refitted_at(tree, place) as reads:
                found = plain(ask(tree))
            assert found in right, (number, place)
            place += 1
    assert different


def test_all_queries_are_here() -> None:
    """No public method of trees is left out."""
    methods = {
        name for name, value in inspect.getmembers(bvh.BVH, inspect.isfunction)
        if not name.startswith("_")
    }  # fmt: skip
    assert methods <= set(QUERIES) | OTHERS


def test_a_snapshot_is_whole() -> None:
    """A snapshot has all that a tree has, and stays."""
    tree = new(0)
    now = tree._snapshot()
    for name in TreeBase.__slots__:
        if name != "_first_use":
            assert getattr(now, name) is getattr(tree, name)
    tree.refit(STATES[1])
    assert np.array_equal(now.vertices, STATES[0])
    assert not np.array_equal(now.bounds, tree.bounds)


def test_closed_before_a_refit() -> None:
    """Whether a mesh bounds a solid is found out anew where a refit tears it open."""
    soup = BALL.vertices[FACES].reshape(-1, 3)
    tree = bvh.BVH.from_triangles(soup, np.arange(len(soup)).reshape(-1, 3))
    assert tree.relation(OTHER) == "overlapping"
    torn = soup.copy()
    torn[:3] += 0.01
    tree.refit(torn)
    with pytest.raises(ValueError, match="this mesh has open edges: 6, between the vertices"):
        tree.relation(OTHER)
    tree.refit(soup)
    assert tree.relation(OTHER) == "overlapping"


@pytest.mark.parametrize("rounds", [1, pytest.param(15, marks=pytest.mark.long)])
def test_while_another_thread_refits(rounds: int) -> None:
    """For a moment by chance, too: what asks most often."""
    asked = ("signed_distance", "intersections", "penetration", "relation")
    right = {name: [plain(QUERIES[name][0](new(k))) for k in (0, 1)] for name in asked}
    tree, done = new(0), threading.Event()

    def refit() -> None:
        while not done.is_set():
            tree.refit(STATES[1])
            tree.refit(STATES[0])

    thread = threading.Thread(target=refit)
    thread.start()
    try:
        for _ in range(rounds):
            for name in asked:
                assert plain(QUERIES[name][0](tree)) in right[name], name
    finally:
        done.set()
        thread.join()
