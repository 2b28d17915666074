"""Lines of sight: end points are left out, whatever they lie on."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numba
import numpy as np
import pytest
import trimesh

import bvh

Rng = np.random.Generator
WALL = [[0, -9, -9], [0, 9, -9], [0, 9, 9], [0, -9, 9]], [[0, 1, 2, 3]]


@pytest.fixture(scope="module")
def wall() -> bvh.BVH:
    """Return a square in the plane x = 0."""
    return bvh.BVH.from_mesh(WALL)


def targets(wall: bvh.BVH) -> tuple[Any, Any]:
    scene = bvh.Scene()
    scene.add(wall)
    return wall, scene


def test_ends_on_surfaces(wall: bvh.BVH) -> None:
    """One or both on the wall: seen; on two sides of it: hidden."""
    on, left, right = [0.0, 0.5, 0.25], [-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]
    for target in targets(wall):
        for margin in (0.0, 1e-10, 1e-6):
            for p, q, seen in (
                (on, left, True), (on, right, True), (left, right, False),
                (left, [-2.0, 1.0, 0.0], True), (on, [0.0, 3.0, 2.0], True), (on, on, True),
                (left, left, True), (left, [1.0, 50.0, 0.0], True),
            ):  # fmt: skip
                assert target.visible(p, q, margin=margin) is seen
                assert target.visible(q, p, margin=margin) is seen


@pytest.mark.parametrize("shift", [0.0, 1e7])
def test_walls_of_a_room_see_each_other(shift: float, rng: Rng) -> None:
    """Points of hits, which are rounded, and turned with the room."""
    box = trimesh.creation.box([3.0, 4.0, 5.0])
    box.apply_transform(trimesh.transformations.random_rotation_matrix(rng.random(3)))
    box.apply_translation([shift, shift, -shift])
    centre = np.array([shift, shift, -shift])
    room = bvh.BVH.from_mesh(box)
    hits = room.closest_hit(centre, rng.normal(size=(300, 3)))
    at, normal = hits.position, hits.normal
    first, second = np.triu_indices(300, 1)
    across = np.abs((normal[first] * normal[second]).sum(axis=1)) < 0.5
    # Not in a corner, where all is within the margin.
    away = np.linalg.norm(at[first] - at[second], axis=1) > 0.1
    pairs = across & away
    seen = room.visible(at[first], at[second])
    assert seen[pairs].all() and pairs.sum() > 1000
    assert room.visible(at, centre).all() and room.visible(centre, at).all()
    outside = centre + 9.0 * normal
    assert not room.visible(centre, outside).any() and room.visible(at, at + normal).all()


def test_as_any_hit(rng: Rng) -> None:
    """Of points off the surface, what a segment hits; in all shapes."""
    mesh = trimesh.creation.icosphere(subdivisions=2)
    ball = bvh.BVH.from_mesh(mesh)
    for target in targets(ball):
        p, q = rng.uniform(-2, 2, (2, 4000, 3))
        wanted = ~np.asarray(target.any_hit(p, q - p, t_max=1.0))
        assert 0.1 < wanted.mean() < 0.9
        for margin in (0.0, 1e-10):
            assert np.array_equal(target.visible(p, q, margin=margin), wanted)
            assert np.array_equal(target.visible(q, p, margin=margin), wanted)
        found = target.visible(p[:5, None], q[:7], threads=1, sort=True)
        assert found.shape == (5, 7) and found[2, 3] == target.visible(p[2], q[3])
        assert target.visible(np.empty((0, 3)), q[0]).shape == (0,)


def test_margins(wall: bvh.BVH) -> None:
    """Lengths along the line, as shares of the largest coordinate."""
    eye = np.array([-1.0, 0.0, 0.0])
    for scale in (1.0, 2.0**40, 2.0**-200, 2.0**1000):
        tree = bvh.BVH.from_mesh((np.array(WALL[0]) * scale, WALL[1]))
        for beyond, margin, seen in (
            (0.5e-10, 1e-10, True), (2e-10, 1e-10, False), (2.0**-40, 0.0, False),
            (1e-3, 1e-2, True), (1e-1, 1e-2, False), (1.0, 1.1, True),
        ):  # fmt: skip
            q = np.array([beyond, 0.0, 0.0])
            assert tree.visible(eye * scale, q * scale, margin=margin) is seen
            assert tree.visible(q * scale, eye * scale, margin=margin) is seen


def test_exactly_between_without_a_margin(rng: Rng) -> None:
    """With margin 0: the rounded t of the segment's ray is strictly between 0 and 1."""
    tree = bvh.BVH.from_triangles([[1, -9, -9], [1, 9, -9], [1, 0, 9]], [[0, 1, 2]])
    for _ in range(200):
        p = np.array([rng.uniform(-1.0, 0.9), 0.0, 0.0])
        q = np.array([1.0 + rng.integers(-3, 4) * 2.0**-52, *rng.uniform(-1.0, 1.0, 2)])
        d = Fraction(float(q[0] - p[0]))
        t = (1 - Fraction(float(p[0]))) / d
        assert tree.visible(p, q, margin=0.0) == (not 0.0 < float(t) < 1.0)


def test_what_is_not_finite(wall: bvh.BVH) -> None:
    for target in targets(wall):
        for bad in (np.nan, np.inf, -np.inf):
            assert target.visible([1.0, bad, 0.0], [2.0, 0.0, 0.0]) is False
            p = np.array([[1.0, 0.0, 0.0], [bad, 0.0, 0.0]])
            assert target.visible(p, [2.0, 0.0, 0.0]).tolist() == [True, False]
            assert target.visible([2.0, 0.0, 0.0], p).tolist() == [True, False]
    # The difference overflows.
    far = np.array([1.5e308, 0.0, 0.0])
    assert wall.visible(-far, far) is False and wall.visible(-far, far + [0, 1e308, 0]) is True
    # The second is as near to the wall as its margin.
    assert wall.visible([-far, -far], [far, [1.0, 0.0, 0.0]]).tolist() == [False, True]


def test_options(wall: bvh.BVH) -> None:
    """Masks, sides, filters, progress: as in any_hit."""
    grouped = bvh.BVH.from_mesh(WALL, groups=2)
    p, q = [-1.0, 0.5, 0.25], [1.0, 0.5, 0.25]
    assert grouped.visible([p, p], q, mask=[1, 2]).tolist() == [True, False]
    assert {wall.visible(p, q, cull=side) for side in ("back", "front")} == {True, False}

    @numba.njit
    def never(ray_id, prim_id, t, u, v, data):
        return False

    assert wall.visible(p, q, filter=never) is True
    calls: list[Any] = []
    assert not wall.visible([p] * 9, q, progress=lambda *count: calls.append(count)).any()
    assert calls[-1] == (9, 9)


def test_lazy_points(wall: bvh.BVH) -> None:
    da = pytest.importorskip("dask.array")
    p, q = np.array([[-1.0, 0, 0], [1.0, 0, 0]] * 5), np.array([2.0, 0.0, 0.0])
    for target in targets(wall):
        found = target.visible(da.from_array(p, chunks=(4, 3)), q)
        assert found.chunks == ((4, 4, 2),)
        assert found.compute(scheduler="sync").tolist() == [False, True] * 5


@pytest.mark.parametrize("options", [{"mask": 1}, {"sort": False}])
def test_one_line_is_one_ray(
    wall: bvh.BVH, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its range is two numbers, which take no conversion, as arrays would."""
    ranges = []
    for target in targets(wall):
        any_hit = type(target).any_hit

        def spied(self: Any, o: Any, d: Any, *ends: Any, _cast: Any = any_hit, **more: Any) -> Any:
            ranges.append(ends)
            return _cast(self, o, d, *ends, **more)

        monkeypatch.setattr(type(target), "any_hit", spied)
        for q, seen in (([1.0, 0.0, 0.0], False), ([-2.0, 0.0, 0.0], True)):
            assert target.visible([-1.0, 0.0, 0.0], q, **options) is seen
    assert ranges and all(type(end) is float for ends in ranges for end in ends)
