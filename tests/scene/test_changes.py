"""Each change of a scene, then each query: the answers of a scene that never was another one."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh.scene import merged_leaves, table
from tests.cases.moving_parts import transform

Rng = np.random.Generator


class World:
    """A scene of two kinds of meshes, with a nested scene twice; `part` is changed."""

    def __init__(self, part: str, rng: Rng) -> None:
        self.rng = rng
        meshes = trimesh.creation.icosphere(1), trimesh.creation.box()
        groups = rng.integers(1, 4, 80).astype(np.uint32)
        self.ball = bvh.BVH.from_mesh(meshes[0])
        self.box = bvh.BVH.from_triangles(meshes[1].vertices, meshes[1].faces, groups=groups[:12])
        self.inner, self.scene = bvh.Scene(), bvh.Scene()
        self.inner.add_many(self.box, self.maps(2), ["left", None])
        self.scene.add_many(self.ball, self.maps(3), ["a", "b", None], masks=[1, 3, 2**32 - 1])
        self.scene.add_many(self.inner, self.maps(2), masks=[5, 6])
        self.part = self.inner if part == "nested" else self.scene

    def maps(self, n: int) -> np.ndarray:
        """Return rigid transforms, and mirrored ones."""
        return np.array([transform("rigid", self.rng) for _ in range(n)])


def set_up(world: World) -> None:
    world.part.up = "y"


CHANGES: dict[str, Callable[[World], Any]] = {
    "add": lambda w: w.part.add(w.ball, w.maps(1)[0], "new", 7),
    "add_many": lambda w: w.part.add_many(w.box, w.maps(2)),
    "remove": lambda w: w.part.remove(w.part.ids[0]),
    "replace": lambda w: w.part.replace(w.part.ids[1], w.box if w.part is w.scene else w.ball),
    "set_transform": lambda w: w.part.set_transform(w.part.ids[1], w.maps(1)[0]),
    "set_transforms": lambda w: w.part.set_transforms(w.part.ids[:2], w.maps(2)),
    "set_mask": lambda w: w.part.set_mask(w.part.ids, 2),
    "set_visible": lambda w: w.part.set_visible(w.part.ids[0], False),
    "refit": lambda w: (w.box if w.part is w.inner else w.ball).refit(
        (w.box if w.part is w.inner else w.ball).vertices * 1.5
    ),
    "rename": lambda w: w.part.rename(w.part.ids[0], "other"),
    "up": set_up,
}  # fmt: skip


def points(count: int = 40) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, 3)) * 4


def rays() -> tuple[np.ndarray, np.ndarray]:
    return points(), np.random.default_rng(2).normal(size=(40, 3))


def camera(scene: bvh.Scene) -> bvh.Camera:
    return bvh.Camera.orthographic([0, 0, 60], [0, 0, 0], [0, 1, 0], 25.0, 40, 40)


QUERIES: dict[str, Callable[[bvh.Scene], Any]] = {
    "closest_hit": lambda s: s.closest_hit(*rays()),
    "positions": lambda s: [s.closest_hit(*rays()).position, s.closest_hit(*rays()).normal],
    "one ray": lambda s: [s.closest_hit(o, -o) for o in points(5)],
    "caster": lambda s: [s.caster(mask=2)(*o, *-o) for o in points(5)],
    "any_hit": lambda s: s.any_hit(*rays(), mask=1),
    "all_hits": lambda s: [s.all_hits(*rays()), s.all_hits(points(1)[0], [0.1, 0.2, -1.0])],
    "count_hits": lambda s: [s.count_hits(*rays()), s.count_hits([0, 0, 50], [0.01, 0, -1])],
    "exclude": lambda s: s.closest_hit(*rays(), exclude=s.ids[-1]),
    "visible": lambda s: s.visible(points(), points()[::-1]),
    "closest_point": lambda s: [s.closest_point(points()), s.closest_point(points(1)[0], k=3)],
    "distance": lambda s: [s.distance(points()), s.distance(points(1)[0])],
    "contains": lambda s: [s.contains(points()), s.contains(points(), mask=2)],
    "signed_distance": lambda s: s.signed_distance(points()),
    "winding_number": lambda s: [s.winding_number(points()), s.winding_number(points(), mask=2)],
    "overlap_box": lambda s: s.overlap_box(points() - 1.0, points() + 1.0),
    "self_overlaps": lambda s: s.self_overlaps(),
    "collisions": lambda s: s.collisions(),
    "clearances": lambda s: s.clearances(),
    "pick": lambda s: [
        p and (p.t, p.leaf, p.prim_id, p.name, p.position)
        for x in range(0, 40, 7) for p in [s.pick(camera(s), x, 20.0), s.pick(camera(s), x, 9, 3)]
    ],
    "pick_rect": lambda s: list(s.pick_rect(camera(s), 5, 5, 30, 30, visible_only=True)),
    "bounds": lambda s: s.bounds,
    "flattened": lambda s: s.flattened(),
    "leaves": lambda s: [
        s.leaves.tree_of, s.leaves.matrices, s.leaves.masks, s.leaves.instance_id,
        [(leaf.path, leaf.name, leaf.transform) for leaf in s.leaves],
    ],
    "instances": lambda s: [(one.id, one.name, one.transform, one.mask, one.visible) for one in s],
    "names": lambda s: [s.names(s.ids), s.ids, s.up, repr(s)],
    "stats": lambda s: re.sub(r"[\d.e-]+ s\b", "", str(s.stats()).partition("memory")[0]),
}  # fmt: skip


def assert_equal(found: Any, wanted: Any, what: str) -> None:
    """Compare answers bit for bit."""
    if is_dataclass(wanted):
        names = [field.name for field in fields(wanted)]
        found, wanted = ([getattr(each, name) for name in names] for each in (found, wanted))
    if isinstance(wanted, list | tuple):
        assert len(found) == len(wanted), what
        for mine, theirs in zip(found, wanted, strict=True):
            assert_equal(mine, theirs, what)
    else:
        mine, theirs = np.asarray(found), np.asarray(wanted)
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape, what
        assert mine.tolist() == theirs.tolist() or mine.tobytes() == theirs.tobytes(), what


@pytest.fixture(params=[False, True], ids=["instanced", "merged"])
def _merging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge leaves at the first batch of rays, or as usual."""
    if request.param:
        monkeypatch.setattr(merged_leaves, "RAY_SECONDS", 1e9)
        monkeypatch.setattr(merged_leaves, "FINEST", 0.0)


@pytest.mark.usefixtures("_merging")
@pytest.mark.parametrize("part", ["outer", "nested"])
def test_each_change_then_each_query(part: str, rng: Rng) -> None:
    """In a random order, so that no query relies on one before it."""
    world = World(part, rng)
    for change in [*CHANGES, *rng.permutation([*CHANGES])[:4]]:
        for query in QUERIES.values():
            query(world.scene)
        cast, (o, d) = world.scene.caster(), rays()
        CHANGES[change](world)
        fresh = copy.deepcopy(world.scene)
        for name in rng.permutation([*QUERIES]).tolist():
            assert_equal(QUERIES[name](world.scene), QUERIES[name](fresh), f"{name} after {change}")
        wanted = fresh.closest_hit(o, d)
        hits = [cast(*ray) for ray in np.hstack([o, d]).tolist()]
        assert [(t, leaf) for t, *_, leaf in hits] == list(zip(wanted.t, wanted.leaf, strict=True))


def effects_of(change: str, world: World) -> list[str]:
    """Return the effects of a change, as the columns of the table."""
    scene = world.scene
    scene.winding_number(points(3))
    scene.contains(points(3), method="parity")
    leaves, view = scene._current_leaves(), scene.view()
    before = leaves.maps.copy(), leaves.masks.copy(), view.moves, view.masks.copy()
    trees, closed = view.one_trees, set(view.seen_closed)
    assert trees and closed
    CHANGES[change](world)
    now, after = scene.view(), scene._current_leaves()
    if after is not leaves:
        assert now is not view
        return ["new"] * 6
    same = np.array_equal(after.maps, before[0]) and np.array_equal(after.masks, before[1])
    of_leaves = "kept" if same else "updated"
    if now is not view:
        return [of_leaves, *["new"] * 5]
    return [
        of_leaves, "kept", "kept" if view.moves == before[2] else "updated",
        "kept" if np.array_equal(view.masks, before[3]) else "updated",
        "kept" if view.one_trees is trees and trees else "dropped",
        "kept" if view.seen_closed == closed else "dropped",
    ]  # fmt: skip


@pytest.mark.parametrize("part", ["outer", "nested"])
def test_the_table_of_effects(part: str, rng: Rng) -> None:
    """Each cell of the table in the module's docstring."""
    rows = re.findall(r"^(\w.*?) {2,}(.*(?:new|kept).*)$", table.__doc__ or "", re.M)
    assert len(rows) == 5
    listed = {name: cells.split() for names, cells in rows for name in names.split(", ")}
    listed |= {"add_many": listed["add"], "set_transforms": listed["set_transform"]}
    assert listed.keys() == CHANGES.keys()
    for change, effects in listed.items():
        assert effects_of(change, World(part, rng)) == effects, change
