"""Queries of solids under maps that are exact in doubles, and with the solids exchanged."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH
from tests.oracles import piercing, voxels
from tests.surfaces.test_relations import BACK, MAPS, box

# Maps that keep distances, but for a power of two: axes exchanged, with or without mirrors.
TURNS = [np.eye(3)[[1, 2, 0]], np.eye(3)[[1, 0, 2]], np.diag([1.0, -1.0, 1.0])]


def solid(rng: np.random.Generator, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a closed mesh of small integers: of voxels, or a tetrahedron."""
    if kind == 0:
        return voxels.surface(voxels.random_voxels(rng, 3), rng)
    while True:
        corners = rng.integers(-2, 4, (4, 3)).astype(np.float64)
        if np.linalg.det(corners[1:] - corners[0]) != 0.0:
            return corners, np.array([[0, 1, 2], [0, 3, 1], [1, 3, 2], [0, 2, 3]])


@pytest.mark.parametrize("count", [4, pytest.param(200, marks=pytest.mark.long)])
def test_exact_maps(count: int, rng: np.random.Generator) -> None:
    """Relations, volumes, depths and winding numbers: under shears, turns and powers of two."""
    seen = set()
    for case in range(count):
        (v, f), (w, g) = (solid(rng, int(kind)) for kind in rng.integers(2, size=2))
        w = w + rng.integers(-1, 4, 3) * float(rng.integers(2))
        first, second = BVH.from_triangles(v, f), BVH.from_triangles(w, g)
        how, both = first.relation(second), first.overlap_volume(second)
        deep = first.penetration(second)
        points = rng.integers(-16, 33, (40, 3)) / 8 + [1 / 64, 3 / 64, 7 / 64]
        turns = first.winding_number(points)
        seen.add(how)
        scale = 2.0 ** rng.integers(-30, 30)
        shear, turn = MAPS[rng.integers(len(MAPS))] * scale, TURNS[case % 3] * scale
        for matrix in (shear, turn):
            one, two = (BVH.from_triangles(x @ matrix.T, y) for x, y in ((v, f), (w, g)))
            assert one.relation(two) == how and two.relation(one) == BACK.get(how, how)
            size = abs(np.linalg.det(matrix))
            for a, b in ((one, two), (two, one)):
                assert a.overlap_volume(b).volume == pytest.approx(
                    both.volume * size, rel=2e-12, abs=0.0
                )
            sign = np.sign(np.linalg.det(matrix))
            assert (one.winding_number(points @ matrix.T) == sign * turns).all()
        # Of the turned pair and of the first, each within its bound of the real depth.
        for a, b in ((one, two), (two, one), (second, first)):
            if case % 4:
                continue
            unit = 1.0 if a is second else scale
            other = a.penetration(b)
            assert other.depth / unit <= (deep.depth + deep.error) * (1 + 1e-12)
            assert deep.depth <= (other.depth + other.error) / unit * (1 + 1e-12)
            assert (other.depth > 0.0) == (how not in ("disjoint", "touching"))
    assert len(seen) >= min(3, count // 4)


FACES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]])
ABOUT = 5e-324
EDGES = [
    (
        [[-1.9999999999999998, -2.0000000000000004, -2.0], [-ABOUT, -1.0, 0.0],
         [0.9999999999999999, -2.0000000000000004, -1.0], [1.0, 0.0, 2.0000000000000004]],
        [[1, 0, 3], [2, 0, 1], [3, 2, 1], [2, 0, 3]],
        [[-2.0, -2.0, -2.0], [-1.0, -2.0, 1.0], [0.0, -1.0, 0.0], [2.0, 0.0, 1.0]],
        [[2, 0, 1], [3, 0, 1], [1, 3, 2], [0, 2, 3]],
    ),
    (
        [[-1.0000000000000002, -1.0000000000000002, -1.0], [-1.0, ABOUT, 1.0],
         [-ABOUT, 0.9999999999999999, -1.0], [ABOUT, 0.9999999999999999, 0.9999999999999999]],
        [[3, 0, 2], [3, 2, 1], [0, 1, 2], [3, 0, 1]],
        [[-1.0, 0, 0], [0, 1, 0], [0, 1, -2], [0, 1, 0], [-1, 0, 0], [-1, -1, -2], [-1, 0, 0],
         [0, 1, -2], [-1, -1, -2], [-1, -1, -2], [0, 1, 0], [0, 1, -2]],
        FACES,
    ),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("pair", EDGES)
def test_parts_of_edges_along_planes(pair: Any) -> None:
    """The longest part of an edge inside, of two pairs an ulp off each other's planes."""
    v, f, w, g = map(np.asarray, pair)
    trees = BVH.from_triangles(v, f), BVH.from_triangles(w, g)
    found, chance = trees[0].penetration(trees[1]), random.Random(1)
    solids = [piercing.exact(v, f), piercing.exact(w, g)]
    wanted = max(
        piercing.longest_part(piercing.edges_of(solids[k]), solids[1 - k], chance) for k in range(2)
    )
    assert trees[0].relation(trees[1]) == "overlapping" and wanted > 0.0
    middles = [
        trees[1 - k].contains(t.vertices[t.faces].mean(axis=1)).any() for k, t in enumerate(trees)
    ]
    if found.pierces:
        assert found.length == pytest.approx(wanted, rel=1e-14)
    else:
        # Then a vertex, or the middle of a face, is inside.
        points = [[p for face in solid for p in face] for solid in solids]
        assert any(middles) or any(
            piercing.is_inside(p, solids[1 - k], chance) for k in range(2) for p in points[k]
        )
    assert trees[1].penetration(trees[0]).length == found.length


def cone(sides: int) -> BVH:
    """Return a cone whose base is a fan of faces around its middle."""
    angle, k = 2 * np.pi * np.arange(sides) / sides, np.arange(sides)
    rim = np.stack([np.cos(angle), np.sin(angle), 0.0 * angle], axis=1)
    after = 2 + (k + 1) % sides
    sides_of, base = np.stack([0 * k, 2 + k, after], 1), np.stack([0 * k + 1, after, 2 + k], 1)
    points = np.concatenate([[[0, 0, 1], [0, 0, 0]], rim])
    return BVH.from_triangles(points, np.concatenate([sides_of, base]))


def test_cones_on_one_plane() -> None:
    """Fans in one plane: what the bases share is cut into polygons that do not overlap."""
    one = cone(24)
    aside = np.array(trimesh.transformations.translation_matrix([0.3, 0.0, 0.0]))
    assert one.relation(one, aside) == "overlapping" and len(one.self_overlaps()) == 0
    found, area = one.intersections(one, aside), 0.0
    for polygon in found.polygons:
        turns = np.cross(polygon[1:-1] - polygon[0], polygon[2:] - polygon[0])
        area += float(np.linalg.norm(turns.sum(axis=0))) / 2
    rim = one.vertices[2:, :2]
    hulls = [trimesh.path.polygons.Polygon(rim + [x, 0.0]) for x in (0.0, 0.3)]
    assert area == pytest.approx(hulls[0].intersection(hulls[1]).area, rel=1e-12)


def test_trees_that_are_no_solids() -> None:
    """Points and segments have no relation, depth or volume with a solid, and no thickness."""
    ball = BVH.from_mesh(trimesh.creation.icosphere(subdivisions=2))
    cloud = BVH.from_points(0.3 * ball.vertices)
    wire = BVH.from_segments([[0, 0, 0]], [[5, 0, 0]])
    for thin in (cloud, wire):
        for query in ("relation", "penetration", "overlap_volume"):
            for a, b in ((thin, ball), (ball, thin)):
                with pytest.raises(ValueError, match=f"{query} needs"):
                    getattr(a, query)(b)
        for query, given in (("thickness", ()), ("section", ([1.0, 0.0, 0.0, -0.1],))):
            with pytest.raises(TypeError, match=f"{query} needs a BVH over triangles, not over"):
                getattr(thin, query)(*given)
        assert thin.winding_number([0.0, 0.0, 0.0]) == 0.0
        assert len(thin.intersections(ball)) == 0
        with pytest.warns(bvh.BVHWarning, match="bounds no volume"):
            thin.signed_distance([0.0, 0.0, 0.0])
    scene = bvh.Scene()
    scene.add(cloud, name="cloud")
    scene.add(ball, name="ball")
    with pytest.raises(ValueError, match="relations needs closed meshes"):
        scene.relations()
    assert not box([0] * 3, [1] * 3).overlap_volume(box([2] * 3, [3] * 3)).mask


def test_faces_with_two_equal_corners() -> None:
    """They change no section: the plane meets them in a point; nor do wires that of a scene."""
    mesh, plane = trimesh.creation.box(), [0.0, 0.0, 1.0, -0.1]
    faces = np.vstack([mesh.faces, [[0, 7, 7]], [[7, 0, 7]], [[0, 0, 7]]])
    scene = bvh.Scene()
    scene.add(mesh)
    scene.add(BVH.from_segments([[0.0, 0.0, 0.0]], [[0.0, 0.0, 1.0]]))
    wanted = BVH.from_mesh(mesh).section(plane)
    for found in (
        BVH.from_triangles(mesh.vertices, faces, warn=False).section(plane),
        scene.section(plane), scene.section([plane, plane])[1],
    ):  # fmt: skip
        np.testing.assert_array_equal(found.segments, wanted.segments)
        np.testing.assert_array_equal(found.faces, wanted.faces)
        assert found.area == wanted.area == 1.0
