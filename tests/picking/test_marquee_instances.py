"""What rectangles and lassos hold of single trees, against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bvh
from bvh.geometry.transforms import moved
from bvh.picking.placed_trees import PickOptions, TreeFaces
from bvh.picking.projected import project_points, surface_of
from bvh.picking.region import lasso, rectangle, select_part, select_parts
from tests.oracles import picking as oracle_picking
from tests.oracles.overlaps import clip_all

IDENTITY = np.eye(4)[:3]
INSIDE, VERTICES = PickOptions(mode="inside"), PickOptions(what="vertices")


def some_camera(rng: np.random.Generator, **options: Any) -> bvh.Camera:
    eye, target = rng.normal(0, 2, 3), rng.normal(0, 0.3, 3)
    if rng.random() < 0.3:
        return bvh.Camera.orthographic(eye, target, [0, 0, 1], 3.0, 64, 48)
    return bvh.Camera.look_at(eye, target, [0, 0, 1], 70.0, 64, 48)


def some_region(rng: np.random.Generator, camera: bvh.Camera) -> tuple[Any, bool]:
    if rng.random() < 0.4:
        x0, x1 = rng.uniform(-8, 72, 2)
        y0, y1 = rng.uniform(-8, 56, 2)
        return rectangle(camera, x0, y0, x1, y1), True
    n = int(rng.integers(3, 9))
    angles = np.sort(rng.random(n)) * 2 * np.pi
    radii = rng.uniform(4, 30, n)
    polygon = np.stack([32 + radii * np.cos(angles), 24 + radii * np.sin(angles)], axis=1)
    return lasso(camera, polygon), False


def truth_of(
    camera: bvh.Camera, outline: NDArray[np.float64], triangles: NDArray[np.float64]
) -> tuple[list[bool], list[bool]]:
    """Return whether triangles touch, and are inside, by the pixels that the camera tells."""
    corners, _ = project_points(camera, triangles.reshape(-1, 3))
    corners = corners.reshape(-1, 3, 3)
    touching, within = [], []
    for triangle in corners:
        touching.append(oracle_picking.touches(outline, triangle))
        within.append(oracle_picking.is_inside(outline, triangle))
    return touching, within


@pytest.mark.parametrize(
    ("part", "number"),
    [
        (0, 40), pytest.param(1, 120, marks=pytest.mark.long),
        *(pytest.param(i, 120, marks=pytest.mark.slow) for i in (2, 3)),
    ],
)  # fmt: skip
def test_selections_equal_rational_arithmetic(
    rng: np.random.Generator, part: int, number: int
) -> None:
    """Some random selections in each part, rectangles and concave lassos."""
    counts = np.zeros(2, np.int64)
    for _ in range(number):
        camera = some_camera(rng)
        centre = rng.normal(0, 1.2, (8, 1, 3))
        triangles = centre + rng.normal(0, rng.choice([0.05, 0.5, 3.0]), (8, 3, 3))
        if not camera.perspective:
            # All in front: what is cut has a test of its own.
            depth = (triangles - camera.eye) @ camera.forward
            triangles[(depth < 0).any(axis=1)] = camera.eye + camera.forward
        region, _ = some_region(rng, camera)
        tree = bvh.BVH.from_triangles(triangles.reshape(-1, 3), np.arange(24).reshape(8, 3))
        touching = select_part(camera, region, TreeFaces(tree), IDENTITY, PickOptions()).ids
        within = select_part(camera, region, TreeFaces(tree), IDENTITY, INSIDE).ids
        truth = truth_of(camera, region.outline, triangles)
        assert touching.tolist() == np.flatnonzero(truth[0]).tolist()
        assert within.tolist() == np.flatnonzero(truth[1]).tolist()
        counts += len(touching), len(within)
        vertices = select_part(camera, region, TreeFaces(tree), IDENTITY, VERTICES).ids
        corners, seen = project_points(camera, triangles.reshape(-1, 3))
        edges = oracle_picking.region_edges(region.outline)
        held = [
            bool(s and oracle_picking.holds_point(edges, oracle_picking.exact([c])[0][:2]))
            for c, s in zip(corners, seen, strict=True)
        ]
        assert vertices.tolist() == np.flatnonzero(held).tolist()
        twice = [(TreeFaces(tree), IDENTITY)] * 2
        for options, alone in ((PickOptions(), touching), (INSIDE, within), (VERTICES, vertices)):
            for each in select_parts(camera, region, twice, options):
                assert each.ids.tolist() == alone.tolist()
    assert (counts > number * 50 // 120).all()


@pytest.mark.parametrize("number", [8, pytest.param(20, marks=pytest.mark.long)])
def test_large_trees_are_looked_up(rng: np.random.Generator, number: int) -> None:
    """What a frustum of the tree leaves out is not selected by a look at all its faces."""
    vertices = rng.normal(0, 1, (6000, 3))
    faces = rng.integers(0, 6000, (5000, 3))
    near = vertices[faces[:, :1]] + rng.normal(0, 0.02, (5000, 3, 3))
    tree = bvh.BVH.from_triangles(near.reshape(-1, 3), np.arange(15000).reshape(-1, 3))
    surface = surface_of(tree)
    matrix = np.eye(4)[:3] + rng.normal(0, 0.3, (3, 4))
    world = bvh.BVH.from_triangles(moved(surface.points, matrix), surface.faces)
    found = 0
    for _ in range(number):
        camera = some_camera(rng)
        region, _ = some_region(rng, camera)
        for options in (PickOptions(threads=2), INSIDE):
            told = select_part(camera, region, TreeFaces(tree), matrix, options).ids
            every = []
            for first in range(0, 5000, 1000):
                some = world.faces[first : first + 1000]
                part = bvh.BVH.from_triangles(world.vertices, some)
                ids = select_part(camera, region, TreeFaces(part), IDENTITY, options).ids
                every += (ids + first).tolist()
            assert told.tolist() == every
            found += len(every)
    assert found > number * 25


def seen_polygon(camera: bvh.Camera, triangle: NDArray[np.float64]) -> list[Any]:
    """Return the image of what is between near and far of a triangle, homogeneous, w = 1."""
    eye, centre = oracle_picking.exact([camera.eye])[0], oracle_picking.exact([camera.centre])[0]
    rows = oracle_picking.exact(camera.gradients)
    local = []
    for p in oracle_picking.exact(triangle):
        off = [a - b for a, b in zip(p, eye, strict=True)]
        local.append(tuple(sum(g * x for g, x in zip(row, off, strict=True)) for row in rows))
    planes: list[Any] = [(0, 0, 1, -Fraction(camera.near))]
    if camera.far < np.inf:
        planes.append((0, 0, -1, Fraction(camera.far)))
    kept = clip_all(list(dict.fromkeys(local)), planes)
    return [
        (a / (d if camera.perspective else 1) + centre[0],
         b / (d if camera.perspective else 1) + centre[1], Fraction(1))
        for a, b, d in kept
    ]  # fmt: skip


@pytest.mark.parametrize("perspective", [False, True])
def test_what_crosses_near_and_far_is_cut(rng: np.random.Generator, perspective: bool) -> None:
    """Triangles through the plane of the eye of parallel rays, and through near and far planes."""
    counts = np.zeros(3, np.int64)
    for _ in range(60):
        eye, target = rng.normal(0, 0.5, 3), rng.normal(0, 2, 3)
        if perspective:
            camera = bvh.Camera.look_at(
                eye, target, [0, 0, 1], 70.0, 64, 48, near=float(rng.uniform(0.1, 1)), far=3.0
            )
        else:
            far = float(rng.choice([2.0, np.inf]))
            camera = bvh.Camera.orthographic(eye, target, [0, 0, 1], 3.0, 64, 48, far=far)
        size = rng.choice([0.1, 1.5])
        triangles = rng.normal(0, 1.0, (8, 1, 3)) + rng.normal(0, size, (8, 3, 3))
        region, _ = some_region(rng, camera)
        tree = bvh.BVH.from_triangles(triangles.reshape(-1, 3), np.arange(24).reshape(8, 3))
        touching = select_part(camera, region, TreeFaces(tree), IDENTITY, PickOptions()).ids
        within = select_part(camera, region, TreeFaces(tree), IDENTITY, INSIDE).ids
        for i, triangle in enumerate(triangles):
            depth = camera.project(triangle)[2]
            whole = bool(((depth >= camera.near) & (depth <= camera.far)).all())
            image = seen_polygon(camera, triangle)
            parts = [[image[0], image[k], image[k + 1]] for k in range(1, len(image) - 1)]
            truth = [any(oracle_picking.touches(region.outline, part) for part in parts)]
            truth.append(whole and oracle_picking.is_inside(region.outline, parts[0]))
            assert [i in touching, i in within] == truth
            counts += (truth[0], truth[1], truth[0] and not whole)
    assert (counts > [20, 3, 8]).all(), counts
