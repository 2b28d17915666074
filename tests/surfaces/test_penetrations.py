"""`penetration`: the deepest place, against linear programs, samples and shapes that are known."""

from __future__ import annotations

import os
import random
import time

import numpy as np
import pytest
import trimesh
from numpy.typing import NDArray
from scipy.optimize import linprog

from bvh import BVH
from bvh.geometry.arithmetic.games import equaliser
from bvh.queries.answers.solids import Penetrations
from bvh.surfaces.penetrations import distances_to_faces
from tests.oracles import piercing
from tests.surfaces.test_relations import box, joined

Reals = NDArray[np.float64]
SECONDS = float(os.environ.get("BVH_FUZZ_SECONDS", "60"))


def moved_by(*shift: float) -> Reals:
    """Return the matrix of a translation."""
    return np.asarray(trimesh.transformations.translation_matrix(shift))


def check(found: Penetrations, depth: float, share: float = 1e-6) -> None:
    """Compare a depth, and hold that its error is certified to a share of it."""
    assert found.depth <= depth * (1 + 1e-12)
    assert depth <= (found.depth + found.error) * (1 + 1e-12)
    assert found.error <= 1.01 * share * depth
    assert np.linalg.norm(found.direction) == pytest.approx(1.0)


def check_both(first: BVH, second: BVH, depth: float) -> None:
    """Compare the depth of two solids, also in the reverse order."""
    check(first.penetration(second), depth)
    check(second.penetration(first), depth)


def fine(low: list[float], high: list[float], edge: float) -> BVH:
    """Return a box of many faces."""
    return BVH.from_mesh(trimesh.creation.box(bounds=[low, high]).subdivide_to_size(edge))


def test_boxes() -> None:
    """Corners, faces, pierced and common solids; those that touch, which are not measured."""
    unit = box([0] * 3, [1] * 3)
    found = unit.penetration(box([0.75, 0.5, 0.5], [2, 2, 2]))
    check(found, 0.25)
    assert found.depth == 0.25 and not found.pierces
    assert np.abs(found.direction).tolist() == [1.0, 0.0, 0.0]
    rod = unit.penetration(box([0.4, 0.4, -5], [0.6, 0.6, 5]))
    check(rod, 0.5)
    assert rod.pierces
    assert rod.length == pytest.approx(1.0, rel=1e-12)  # not that of a diagonal
    check_both(unit, unit, 0.5)
    check_both(unit, box([0.25] * 3, [0.75] * 3), 0.5)
    check_both(unit, box([0.5, 0, 0], [1.5, 1, 1]), 0.5)
    moves = np.stack([moved_by(x, 0, 0) for x in (1.0, 3.0)])
    found = unit.penetration(unit, moves)
    assert found.depth.tolist() == found.error.tolist() == found.length.tolist() == [0.0, 0.0]
    assert found.prim_id.tolist() == [[-1, -1]] * 2
    assert len(found) == 2
    assert np.isnan(found.point).all()


@pytest.mark.parametrize("edge", [9.0, 0.5, pytest.param(0.1, marks=pytest.mark.long)])
def test_depth_depends_on_no_triangles(edge: float) -> None:
    """Walls in line, and a block over the end of a beam, of 12 and of thousands of faces."""
    walls = [fine([low, 0, 0], [low + 4, 0.2, 3], edge) for low in (0, 3)]
    check_both(*walls, 0.1)
    beam, block = fine([0, 0, 0], [9, 1, 1], edge), fine([8.5, -1, -1], [12, 2, 2], edge)
    check_both(beam, block, 0.5)


@pytest.mark.parametrize("cuts", [0, 2, pytest.param(3, marks=pytest.mark.long)])
def test_a_plate_in_a_wall(cuts: int) -> None:
    """Its middle plane is deepest, whatever its triangles are."""
    wall, plate = trimesh.creation.box([4, 0.2, 3]), trimesh.creation.box([1, 0.1, 1])
    for _ in range(cuts):
        plate = plate.subdivide()
    check_both(BVH.from_mesh(wall), BVH.from_mesh(plate), 0.1)


@pytest.mark.parametrize("sides", [3, 5, 6, 7, 64])
def test_prisms_in_themselves(sides: int) -> None:
    """The radius of the largest ball inside: whole lines of places are as deep."""
    prism = BVH.from_mesh(trimesh.creation.cylinder(1.0, 4.0, sections=sides))
    check(prism.penetration(prism), np.cos(np.pi / sides))


@pytest.mark.parametrize("level", [1, 3, pytest.param(5, marks=pytest.mark.long)])
def test_balls_in_themselves(level: int) -> None:
    """The radius of the ball inside, also turned; no warning is given."""
    mesh = trimesh.creation.icosphere(subdivisions=level)
    ball, radius = BVH.from_mesh(mesh), (mesh.triangles[:, 0] * mesh.face_normals).sum(axis=1).min()
    check(ball.penetration(ball), radius)
    turn = trimesh.transformations.rotation_matrix(0.3, [1, 2, 3])
    check(ball.penetration(ball, turn), radius)


def test_shells_and_parts() -> None:
    """A hollow box around a full one, a box across two parts, and a plug in its socket."""
    full, hole = ((t.vertices, t.faces) for t in (box([-4] * 3, [4] * 3), box([-3] * 3, [3] * 3)))
    shell = joined(full, hole)
    # Deepest is a place between the corner of the box and that of the hole.
    check_both(shell, box([-3.5] * 3, [-2.5] * 3), np.sqrt(3.0) / (1.0 + np.sqrt(3.0)))
    assert shell.penetration(BVH.from_triangles(*hole)).depth == 0.0
    two = joined(
        *((t.vertices, t.faces) for t in (box([0] * 3, [1] * 3), box([2, 0, 0], [3, 1, 1])))
    )
    check_both(two, box([0.75, 0, 0], [2.5, 1, 1]), 0.5)
    ball = trimesh.creation.icosphere(subdivisions=2)
    assert joined(full, (ball.vertices, ball.faces)).penetration(ball).depth == 0.0


def least_depth(solid: trimesh.Trimesh, other: trimesh.Trimesh) -> float:
    """Return how deep a place of both convex solids is in the other: a linear program."""
    planes = [np.c_[m.face_normals, (m.face_normals * m.triangles[:, 0]).sum(axis=1)]
              for m in (other, solid)]  # fmt: skip
    rows = np.concatenate([np.c_[p[:, :3], np.full(len(p), 1.0 - k)] for k, p in enumerate(planes)])
    found = linprog(
        [0, 0, 0, -1], rows, np.concatenate([p[:, 3] for p in planes]), bounds=[None, None]
    )
    return -float(found.fun) if found.success else 0.0


@pytest.mark.parametrize("count", [4, pytest.param(60, marks=pytest.mark.long)])
def test_convex_solids(count: int, rng: np.random.Generator) -> None:
    """The depth in a convex solid is concave, so that a linear program finds it."""
    deep = sure = 0
    for _ in range(count):
        a, b = (trimesh.convex.convex_hull(rng.normal(size=(12, 3)) + [k, 0, 0]) for k in range(2))
        depth = max(least_depth(a, b), least_depth(b, a))
        if depth > 1e-3:
            found = BVH.from_mesh(a).penetration(BVH.from_mesh(b))
            # A few searches are stopped: where the depth rises slowly beyond the common volume.
            check(found, depth, 1e-3)
            deep, sure = deep + 1, sure + (found.error <= 1.01e-6 * depth)
    assert deep >= count // 2 and sure >= 0.9 * deep


@pytest.mark.parametrize("count", [1, pytest.param(20, marks=pytest.mark.long)])
def test_samples_are_not_deeper(count: int, rng: np.random.Generator) -> None:
    """Of solids of any shape, and scales and swaps of axes change nothing beyond the bound."""
    for _ in range(count):
        ring = trimesh.creation.torus(1.0, 0.4, major_sections=12, minor_sections=8)
        turns = [trimesh.transformations.random_rotation_matrix(rng.random(3)) for _ in range(2)]
        shapes = [ring.copy().apply_transform(turn) for turn in turns]
        shapes[1].apply_translation(rng.uniform(-0.5, 0.5, 3))
        trees = [BVH.from_mesh(shape) for shape in shapes]
        found = trees[0].penetration(trees[1])
        low = np.maximum(*(shape.bounds[0] for shape in shapes))
        high = np.minimum(*(shape.bounds[1] for shape in shapes))
        points = rng.uniform(low, high, (20_000, 3))
        points = points[trees[0].contains(points) & trees[1].contains(points)]
        sampled = max(tree.closest_point(points).distance.max(initial=0.0) for tree in trees)
        assert 0.9 * found.depth - 0.05 < sampled <= found.depth + found.error
        assert found.error <= 1.01e-6 * found.depth
        surface = trees[1] if found.own else trees[0]
        assert surface.closest_point(found.point).distance == found.depth
        assert trees[1].penetration(trees[0]).depth == pytest.approx(found.depth, rel=2e-6)
        for axes, size in (([1, 2, 0], 1.0), ([0, 1, 2], 0.25)):
            mapped = [BVH.from_triangles(t.vertices[:, axes] * size, t.faces) for t in trees]
            other = mapped[0].penetration(mapped[1])
            assert other.depth / size == pytest.approx(found.depth, rel=2e-6)


def test_functions_of_bounds(rng: np.random.Generator) -> None:
    """Distances from faces, and weights of rows, which are at least 0 and add up to 1."""
    faces, points = rng.normal(size=(50, 1, 3, 3)), rng.normal(size=(50, 4, 3))
    found = distances_to_faces(points, faces)
    for face, four, distances in zip(faces, points, found, strict=True):
        nearest = trimesh.triangles.closest_point(face.repeat(4, axis=0), four)
        assert np.allclose(distances, np.linalg.norm(nearest - four, axis=1), rtol=1e-9)
    for size in (2, 3, 4):
        games = np.concatenate([rng.normal(size=(500, size, size)), np.zeros((1, size, size))])
        weights = equaliser(games)
        assert (weights >= 0.0).all() and np.allclose(weights.sum(axis=1), 1.0)
        sums = (weights[:, :, None] * games).sum(axis=1)
        inner = (weights > 0.0).all(axis=1)
        assert inner.sum() > 50 and (np.ptp(sums[inner], axis=1) < 1e-6).all()


def check_edges(rng: np.random.Generator, count: int) -> int:
    """Compare small solids whose planes nearly coincide with fractions; return how many pierce."""
    faces, pierced = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]), 0
    chance = random.Random(int(rng.integers(1 << 30)))
    for _ in range(count):
        solids, trees = [], []
        for _ in range(2):
            while True:
                v = rng.integers(-2, 3, (4, 3)).astype(float)
                if np.linalg.det(v[1:] - v[0]) != 0.0:
                    break
            v += rng.integers(-1, 2, (4, 3)) * 2.0**-51
            solids.append(piercing.exact(v, faces))
            trees.append(BVH.from_triangles(v, faces))
        found = trees[0].penetration(trees[1])
        assert trees[1].penetration(trees[0]).length == found.length
        points = [[p for f in s for p in f] for s in solids]
        middles = [BVH.contains(trees[1 - k], t.vertices[t.faces].mean(axis=1)).any()
                   for k, t in enumerate(trees)]  # fmt: skip
        if any(middles) or any(
            piercing.is_inside(p, solids[1 - k], chance) for k in range(2) for p in points[k]
        ):
            continue
        wanted = max(
            piercing.longest_part(piercing.edges_of(solids[k]), solids[1 - k], chance)
            for k in range(2)
        )
        assert found.pierces == (wanted > 0.0)
        assert found.length == pytest.approx(wanted, rel=1e-14)
        pierced += found.pierces
    return pierced


@pytest.mark.parametrize("count", [2, pytest.param(60, marks=pytest.mark.long)])
def test_edges_along_planes_of_the_other(count: int, rng: np.random.Generator) -> None:
    """The longest part of an edge inside, where vertices are an ulp off planes and edges."""
    assert check_edges(rng, count) >= count // 20


@pytest.mark.long
def test_an_edge_within_a_shared_wall() -> None:
    """Two solids, in line, that share a wall: an edge within it is inside of both as one."""
    halves = joined(
        *((b.vertices, b.faces) for b in (box([0] * 3, [1, 1, 1]), box([1, 0, 0], [2, 1, 1])))
    )
    needle = np.array([[1, 0.2, -1], [1, 0.8, 1.9], [0.99, 0.3, -1], [1.01, 0.3, -1]])
    found = halves.penetration(
        BVH.from_triangles(needle, [[0, 1, 2], [0, 3, 1], [1, 3, 2], [0, 2, 3]])
    )
    assert found.pierces
    assert found.length == pytest.approx(np.hypot(1.0, 0.6 / 2.9))


@pytest.mark.slow
def test_edges_for_long(rng: np.random.Generator) -> None:
    """The same, for some time."""
    end, count = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        count += check_edges(rng, 50)
    print(f"{count} pairs of solids that pierce")


def test_piercing_shells_of_any_side() -> None:
    """Whichever way normals point, an edge through a body pierces it as deep."""
    rod = box([0.4, 0.4, -5], [0.6, 0.6, 5])
    body = trimesh.creation.box(bounds=[[0] * 3, [1] * 3])
    wanted = BVH.from_mesh(body).penetration(rod)
    body.invert()
    found = BVH.from_mesh(body).penetration(rod)
    assert found.pierces
    assert found.depth == pytest.approx(wanted.depth, rel=1e-6)
    assert found.length == wanted.length
