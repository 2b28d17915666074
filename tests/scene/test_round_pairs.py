"""Distances and contacts of spheres and capsules in scenes: against rationals, over all pairs."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import isqrt
from typing import Any

import numpy as np
import pytest

import bvh
from tests.oracles import points
from tests.oracles.scenes import moved
from tests.scene.test_round_points import scene_of
from tests.scene.test_round_shapes import even_map, world_tree

Vector = list[Fraction]


def dot(a: Vector, b: Vector) -> Fraction:
    """Return the product of two vectors."""
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def less(a: Vector, b: Vector) -> Vector:
    """Return a - b."""
    return [x - y for x, y in zip(a, b, strict=True)]


def to_segment(x: Vector, a: Vector, b: Vector) -> Fraction:
    """Return the squared distance of a point from a segment."""
    v = less(b, a)
    length = dot(v, v)
    t = min(max(dot(less(x, a), v) / length, Fraction(0)), Fraction(1)) if length else Fraction(0)
    off = less(x, [p + t * c for p, c in zip(a, v, strict=True)])
    return dot(off, off)


def of_segments(a: Vector, b: Vector, c: Vector, d: Vector) -> Fraction:
    """Return the squared distance of two segments: of ends, or where both lines are nearest."""
    best = min(to_segment(a, c, d), to_segment(b, c, d), to_segment(c, a, b), to_segment(d, a, b))
    u, v, w = less(b, a), less(d, c), less(a, c)
    uu, uv, vv = dot(u, u), dot(u, v), dot(v, v)
    den = uu * vv - uv * uv
    if den:
        s = (uv * dot(v, w) - vv * dot(u, w)) / den
        t = (uu * dot(v, w) - uv * dot(u, w)) / den
        if 0 <= s <= 1 and 0 <= t <= 1:
            off = [x + s * y - t * z for x, y, z in zip(w, u, v, strict=True)]
            best = min(best, dot(off, off))
    return best


def to_face(a: Vector, b: Vector, face: list[Vector]) -> Fraction:
    """Return the squared distance of a segment from a face."""
    squares = [of_segments(a, b, face[k - 1], face[k]) for k in range(3)]
    corners = [[float(c) for c in corner] for corner in face]
    squares += [points.squared_distance([float(c) for c in x], *corners) for x in (a, b)]
    u, v = less(face[1], face[0]), less(face[2], face[0])
    n = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
    f, g = dot(n, less(a, face[0])), dot(n, less(b, face[0]))
    if f * g < 0:
        # The crossing with the plane of the face is in it if it is at no distance.
        x = [p + f / (f - g) * (q - p) for p, q in zip(a, b, strict=True)]
        r, uu, uv, vv = less(x, face[0]), dot(u, u), dot(u, v), dot(v, v)
        den = uu * vv - uv * uv
        s, t = (vv * dot(r, u) - uv * dot(r, v)) / den, (uu * dot(r, v) - uv * dot(r, u)) / den
        if s >= 0 and t >= 0 and s + t <= 1:
            squares.append(Fraction(0))
    return min(squares)


def apart(more: Fraction, square: Fraction) -> float:
    """Return abs(more - sqrt(square)), rounded from some 200 bits."""
    scale = 1 << 300
    root = Fraction(isqrt(int(square * scale * scale)), scale)
    return float(abs(more * more - square) / (more + root)) if more + root else 0.0


def exact_gap(one: list[float], other: Any) -> float:
    """Return the distance of the surfaces of a capsule and of another one, or from a face."""
    a, b, r = [Fraction(x) for x in one[:3]], [Fraction(x) for x in one[3:6]], Fraction(one[6])
    if len(other) == 3:
        corners, s = [[Fraction(x) for x in corner] for corner in other], Fraction(0)
        square = to_face(a, b, corners)
    else:
        corners = [[Fraction(x) for x in other[:3]], [Fraction(x) for x in other[3:6]]]
        s = Fraction(other[6])
        square = of_segments(a, b, *corners)
    if square > (r + s) ** 2:
        return apart(r + s, square)
    most = max(to_segment(x, a, b) for x in corners)
    if r > s and (r - s) ** 2 > most:
        return apart(r - s, most)
    if len(other) != 3:
        most = max(to_segment(x, *corners) for x in (a, b))
        if s > r and (s - r) ** 2 > most:
            return apart(s - r, most)
    return 0.0


def parts_of(leaf: Any) -> list[Any]:
    """Return the shapes of a leaf in rows, or its faces."""
    if leaf.tree.kind in ("spheres", "capsules"):
        return world_tree(leaf)[1].tolist()
    return moved(leaf.tree.vertices, leaf.transform)[leaf.tree.faces].tolist()


def brute(scene: Any) -> dict[tuple[int, int], tuple[float, ...]]:
    """Return the distance, leaves and parts of each pair of instances, by all pairs of parts."""
    found: dict[tuple[int, int], tuple[float, ...]] = {}
    parts = [parts_of(leaf) for leaf in scene.leaves]
    for k, m in combinations(range(len(parts)), 2):
        pair = int(scene.leaves.instance_id[k]), int(scene.leaves.instance_id[m])
        if pair[0] == pair[1] or len(parts[k][0]) == len(parts[m][0]) == 3:
            continue
        for i, one in enumerate(parts[k]):
            for j, other in enumerate(parts[m]):
                gap = exact_gap(other, one) if len(one) == 3 else exact_gap(one, other)
                new = (gap, k, i, m, j)
                found[pair] = min(found.get(pair, new), new)
    return found


def small_scene(rng: np.random.Generator, grid: bool) -> Any:
    """Return a scene of few shapes and faces, near each other, inside one another, or touching."""
    whole = scene_of(rng, grid, True)
    scene: Any = bvh.Scene()
    leaves = whole.leaves[:]
    for row in np.sort(rng.permutation(len(leaves))[:4]).tolist():
        leaf = leaves[row]
        tree, points_of = leaf.tree, leaf.tree.arrays.primitives.points
        rows = points_of[rng.choice(len(points_of), 2)]
        if tree.kind == "spheres":
            tree = bvh.BVH.from_spheres(rows[:, 6:9], rows[:, 9] * rng.choice([1.0, 3.0]))
        elif tree.kind == "capsules":
            tree = bvh.BVH.from_capsules(rows[:, 6:9], rows[:, 9:12], rows[:, 12])
        scene.add(tree, leaf.transform)
    return scene


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("count", [1, pytest.param(200, marks=pytest.mark.long)])
def test_clearances(grid: bool, count: int, rng: np.random.Generator) -> None:
    """Distances to the last digit, the lowest parts, and what touches; limits, and no faces."""
    for _ in range(count):
        scene = small_scene(rng, grid)
        wanted, found = brute(scene), scene.clearances()
        rows = [tuple(row) for row in found.instance_id.tolist()]
        leaves = scene.leaves
        for k, pair in enumerate(rows):
            if pair in wanted:
                gap, *names = wanted[pair]
                d = float(found.distance[k])
                assert (d == 0.0) == (gap == 0.0)
                assert abs(d - gap) <= 4e-16 * gap
                first, second = found.leaf[k].tolist(), found.prim_id[k].tolist()
                if d == gap:
                    assert [first[0], second[0], first[1], second[1]] == names
                for side in range(2):
                    leaf = leaves[first[side]]
                    if leaf.tree.kind in ("spheres", "capsules"):
                        off = world_tree(leaf)[0].distance(found.position[k, side])
                        assert off < 1e-12
                if gap > 0.0:
                    between = found.position[k, 0] - found.position[k, 1]
                    assert np.linalg.norm(between) == pytest.approx(gap, rel=1e-6, abs=1e-12)
        assert set(wanted) <= set(rows)
        touching = [pair for k, pair in enumerate(rows) if found.distance[k] == 0.0]
        assert [tuple(pair) for pair in scene.collisions().tolist()] == touching
        near = [pair for k, pair in enumerate(rows) if found.distance[k] <= 0.5]
        assert [tuple(pair) for pair in scene.collisions(margin=0.5).tolist()] == near
        assert [tuple(pair) for pair in scene.clearances(0.5).instance_id.tolist()] == near
        some = [(0, 1), (2, 1)]
        left = [pair for pair in touching if pair not in ((0, 1), (1, 2))]
        assert [tuple(pair) for pair in scene.collisions(ignore=some).tolist()] == left


def test_balls_and_meshes(rng: np.random.Generator) -> None:
    """A ball around a mesh and within it touches neither; one that crosses it does."""
    cube = bvh.BVH.from_triangles(*_cube())
    for scale in (1.0, 2.0**300):
        turn = even_map(rng, 1.0, True)
        turn[:3, 3] = 0.0
        scene = bvh.Scene()
        scene.add(cube, turn @ np.diag([scale, scale, scale, 1.0]))
        ball = scene.add(bvh.BVH.from_spheres([[0, 0, 0]], 1.0), np.diag([scale] * 3 + [1.0]))
        for size, gap in ((0.5, 0.5), (1.0, 0.0), (1.5, 0.0), (3.0, 3.0 - 3.0**0.5)):
            scene.set_transform(ball, np.diag([size * scale] * 3 + [1.0]))
            assert scene.clearances().distance[0] == pytest.approx(gap * scale, rel=1e-15)
            assert len(scene.collisions()) == (gap == 0.0)


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("count", [2, pytest.param(40, marks=pytest.mark.long)])
def test_trees(grid: bool, count: int, rng: np.random.Generator) -> None:
    """Distances and contacts of two trees, one moved: as of a scene of both."""
    for _ in range(count):
        first, second = (leaf.tree for leaf in small_scene(rng, grid).leaves[:2])
        cube = bvh.BVH.from_triangles(*_cube())
        for one, other in ((first, second), (first, cube), (cube, second)):
            maps = np.stack([even_map(rng, scale, grid) for scale in (1.0, 0.5)])
            if not ({one.kind, other.kind} & {"spheres", "capsules"}):
                continue
            found = one.distance_to(other, maps, max_distance=[np.inf, 1.0])
            for k, matrix in enumerate(maps):
                scene = bvh.Scene()
                scene.add(one)
                scene.add(other, matrix)
                near = scene.clearances([np.inf, 1.0][k])
                assert found.mask[k] == (len(near) == 1)
                if found.mask[k]:
                    assert found.distance[k] == near.distance[0]
                    assert np.array_equal(found.prim_id[k], near.prim_id[0])
                    assert np.array_equal(found.position[k], near.position[0])
                parts = [parts_of(leaf) for leaf in scene.leaves]
                pairs = [
                    [i, j] for i, a in enumerate(parts[0]) for j, b in enumerate(parts[1])
                    if (exact_gap(b, a) if len(a) == 3 else exact_gap(a, b)) == 0.0
                ]  # fmt: skip
                assert one.overlap_tree(other, matrix).tolist() == pairs
                assert (
                    one.distance_to(other, matrix).distance
                    == one.distance_to(other, matrix, hint=[0, 0]).distance
                )


def test_trees_are_refused() -> None:
    """Boxes beside shapes; transforms that shapes cannot have; shapes with themselves."""
    ball, boxes = bvh.BVH.from_spheres([[0, 0, 0]], 1.0), bvh.BVH.from_boxes([[0] * 3], [[1] * 3])
    for ask in (ball.distance_to, ball.overlap_tree):
        with pytest.raises(TypeError, match="needs a BVH over triangles, spheres or capsules"):
            ask(boxes)
        with pytest.raises(ValueError, match="one scale for all axes, and a shift, for spheres"):
            ask(ball, np.diag([1.0, 2.0, 1.0, 1.0]))
    with pytest.raises(TypeError, match="self_overlaps needs a BVH over triangles"):
        boxes.self_overlaps()
    with pytest.raises(TypeError, match="overlap_tree needs a BVH over triangles"):
        boxes.overlap_tree(ball)
    scene = bvh.Scene()
    scene.add(boxes)
    with pytest.raises(TypeError, match=r"overlap_tree needs triangles; instance \(0,\) leads"):
        scene.overlap_tree(ball)


def _cube() -> tuple[np.ndarray, np.ndarray]:
    """Return a cube from -1 to 1."""
    import trimesh

    box = trimesh.creation.box([2.0, 2.0, 2.0])
    return np.asarray(box.vertices), np.asarray(box.faces)


@pytest.mark.parametrize("grid", [True, False])
def test_overlaps_of_scenes(grid: bool, rng: np.random.Generator) -> None:
    """Parts that meet, of two scenes, and of a scene and a moved tree, against rationals."""
    scene, other = small_scene(rng, grid), small_scene(rng, grid)

    def meet(one: Any, two: Any) -> bool:
        if len(one) == len(two) == 3:
            faces = [bvh.BVH.from_triangles(each, [[0, 1, 2]]) for each in (one, two)]
            return len(faces[0].overlap_tree(faces[1])) == 1
        return exact_gap(*((two, one) if len(one) == 3 else (one, two))) == 0.0

    def wanted(second: list[list[Any]]) -> list[list[int]]:
        return [
            [k, m, i, j]
            for k, leaf in enumerate(scene.leaves) for i, one in enumerate(parts_of(leaf))
            for m, parts in enumerate(second) for j, two in enumerate(parts)
            if meet(one, two)
        ]  # fmt: skip

    def found(pairs: Any) -> list[list[int]]:
        assert np.array_equal(pairs.instance_id[:, 0], scene.leaves.instance_id[pairs.leaf[:, 0]])
        return np.hstack([pairs.leaf, pairs.prim_id]).tolist()

    rows = wanted([parts_of(leaf) for leaf in other.leaves])
    assert sorted(found(scene.overlap_tree(other))) == sorted(rows)
    leaf = other.leaves[0]
    rows = [[k, -1, i, j] for k, _, i, j in wanted([parts_of(leaf)])]
    assert sorted(found(scene.overlap_tree(leaf.tree, leaf.transform))) == sorted(rows)
    with pytest.raises(ValueError, match="transform must be None"):
        scene.overlap_tree(other, np.eye(4))
    parts = [parts_of(leaf) for leaf in scene.leaves]
    rows = [
        [k, m, i, j]
        for k, first in enumerate(parts) for i, one in enumerate(first)
        for m, second in enumerate(parts) for j, two in enumerate(second)
        if (k, i) < (m, j) and not len(one) == len(two) == 3 and meet(one, two)
    ]  # fmt: skip
    both = [k for k, leaf in enumerate(scene.leaves) if leaf.tree.kind == "triangles"]
    pairs = found(scene.self_overlaps())
    assert sorted(row for row in pairs if not {row[0], row[1]} <= set(both)) == sorted(rows)


@pytest.mark.parametrize("grid", [True, False])
@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.long)])
def test_overlaps_within_a_tree(grid: bool, count: int, rng: np.random.Generator) -> None:
    """Pairs of one tree whose surfaces touch, against rationals; nested ones do not."""
    p = rng.integers(-3, 4, (count, 3)) * 1.0 if grid else rng.normal(size=(count, 3))
    q = p + (rng.integers(-1, 2, (count, 3)) if grid else rng.normal(size=(count, 3)))
    q[::4] = p[::4]
    radii = rng.choice([0.0, 0.5, 1.0, 2.0], count) if grid else rng.random(count)
    p[3], q[3], radii[3] = p[2], q[2], radii[2]
    p[7] = np.nan
    for tree, ends in (
        (bvh.BVH.from_spheres(p, radii), p),
        (bvh.BVH.from_capsules(p, q, radii), q),
    ):
        rows = np.hstack([p, ends, radii[:, None]]).tolist()
        wanted = [
            [i, j] for i in range(count) for j in range(i + 1, count)
            if 7 not in (i, j) and exact_gap(rows[i], rows[j]) == 0.0
        ]  # fmt: skip
        assert tree.self_overlaps().tolist() == wanted
        assert tree.self_overlaps(threads=2).dtype == np.int32 and [2, 3] in wanted
    inner = bvh.BVH.from_spheres(np.zeros((2, 3)), [1.0, 2.0])
    assert len(inner.self_overlaps()) == 0
    assert inner.self_overlaps(mask=0).shape == (0, 2)
    assert bvh.BVH.from_spheres(np.zeros((0, 3)), 1.0).self_overlaps().shape == (0, 2)
