"""Light in pictures: no acne, no leaks, the shares that geometry tells, near and far from zero."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bvh import BVH, Camera, Scene
from bvh.pictures import render
from bvh.pictures.lights import TILE, Lights, spread
from bvh.pictures.surfaces import Surfaces
from meshes.sphere import geodesic_sphere
from tests.cases.scans import SCANS
from tests.oracles.pictures import exact_normal, exact_side

SQUARE = np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]])
HALVES = np.array([[0, 1, 2], [0, 2, 3]])
SIZE = {"width": 40, "height": 30}
OFFSETS = ([0.0, 0.0, 0.0], [1e7, -2e7, 3e7], [4.5e5 + 0.1, 5.4e6, 123.0])


def turned(rng: np.random.Generator) -> np.ndarray:
    """Return a rotation."""
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return np.asarray(turn * np.sign(np.linalg.det(turn)))


@pytest.mark.parametrize("offset", OFFSETS)
def test_convex_things_see_all_of_the_sky(offset: list[float], rng: np.random.Generator) -> None:
    """Neither a ball nor a plane hides anything of itself: no acne, wherever it is."""
    vertices, faces = geodesic_sphere(5)
    plane = 5.0 * SQUARE @ turned(rng).T
    for points, index in ((vertices, faces), (plane, HALVES), (vertices * [1, 1, 0.05], faces)):
        tree = BVH.from_triangles(points @ turned(rng).T + offset, index)
        for reach in (None, math.inf):
            camera = Camera.framing(tree.bounds, rng.normal(size=3), **SIZE)
            picture = render(tree, camera, data=("ao", "id"), reach=reach)
            seen = picture.data["id"] >= 0
            assert seen.any() and (picture.data["ao"] == 1.0).all()


@pytest.mark.parametrize("offset", OFFSETS)
def test_the_inside_of_a_ball_is_dark(offset: list[float], rng: np.random.Generator) -> None:
    """Nothing leaks in, neither of the sky nor of the lamp."""
    vertices, faces = geodesic_sphere(6)
    for points in (vertices, vertices * [1.0, 0.4, 0.1]):
        tree = BVH.from_triangles(points @ turned(rng).T + offset, faces)
        camera = Camera.look_at(offset, offset + rng.normal(size=3), fov_y=100.0, **SIZE)
        for softness in (0.0, 20.0):
            picture = render(
                tree, camera, data=("ao", "shadow", "id"), reach=math.inf, softness=softness,
                lamp=rng.normal(size=3),
            )  # fmt: skip
            assert (picture.data["id"] >= 0).all()
            assert not picture.data["ao"].any() and not picture.data["shadow"].any()


@pytest.mark.parametrize("offset", OFFSETS)
def test_lamps_above_planes(offset: list[float], rng: np.random.Generator) -> None:
    """All of it, or nothing on the other side; half where an edge hides half of a soft lamp."""
    turn = turned(rng)
    tree = BVH.from_triangles(9.0 * SQUARE @ turn.T + offset, HALVES)
    up = turn[:, 2]
    for side in (1.0, -1.0):
        camera = Camera.look_at(offset + side * 5.0 * up, offset, turn[:, 0], 40.0, **SIZE)
        for softness in (0.0, 30.0):
            for lamp in (up, up + 0.5 * turn[:, 0], -up):
                picture = render(tree, camera, data="shadow", lamp=lamp, softness=softness)
                assert (picture.data["shadow"] == (side * (lamp @ up) > 0.0)).all()


def test_half_a_sky(rng: np.random.Generator) -> None:
    """At the foot of a high wall half of the sky is hidden; far from it nothing within reach is."""
    wall = np.array([[0, -1e4, 0], [0, 1e4, 0], [0, 1e4, 1e4], [0, -1e4, 1e4]])
    floor = 1e3 * SQUARE
    tree = BVH.from_triangles(np.vstack([floor, wall]), np.vstack([HALVES, HALVES + 4]))
    for x, reach, wanted in ((0.01, math.inf, 0.5), (0.01, 50.0, 0.5), (60.0, 50.0, 1.0)):
        camera = Camera.orthographic([x, 0, 9], [x, 0, 0], [0, 1, 0], 1e-3, 16, 16)
        for rays in (1, 16, 64):
            got = render(tree, camera, data="ao", light_rays=rays, reach=reach).data["ao"]
            assert abs(got.mean() - wanted) < (0.04 if rays == 1 else 0.01)
            assert np.abs(got - wanted).max() <= {1: 1.0, 16: 0.26, 64: 0.11}[rays]


@pytest.mark.long
def test_soft_shadows_are_wide() -> None:
    """Behind an edge the lamp goes down as slowly as it is wide."""
    floor, plate = 50.0 * SQUARE, 20.0 * SQUARE + [-20.0, 0.0, 10.0]
    tree = BVH.from_triangles(np.vstack([floor, plate]), np.vstack([HALVES, HALVES + 4]))
    camera = Camera.orthographic([0, 0, 5], [0, 0, 0], [0, 1, 0], 8.0, 400, 400)
    for softness in (0.0, 10.0, 20.0):
        picture = render(
            tree, camera, data=("shadow", "position"), lamp=[0, 0, 1], softness=softness,
            light_rays=64,
        )  # fmt: skip
        lit, x = picture.data["shadow"].mean(axis=0), picture.data["position"][0, :, 0]
        half = 10.0 * math.tan(math.radians(softness / 2))
        assert (lit[x < -half - 0.02] == 0.0).all() and (lit[x > half + 0.02] == 1.0).all()
        assert (np.diff(lit) > -0.01).all()
        inside = np.abs(x) < half
        if softness:
            # The share of a disk on one side of a line.
            share = np.clip(x[inside] / half, -1.0, 1.0)
            wanted = 0.5 + (share * np.sqrt(1.0 - share**2) + np.arcsin(share)) / math.pi
            assert np.abs(lit[inside] - wanted).max() < 0.03


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e7, -3e12])
def test_rays_start_on_their_side(offset: float, rng: np.random.Generator) -> None:
    """Exactly: beside the face that was hit, whatever its shape and its map."""
    count = 200
    corners = rng.normal(size=(count, 3, 3)) * 10.0 ** rng.uniform(-3, 3, (count, 1, 1))
    # Thin ones among them.
    corners[::3, 2] = corners[::3, 0] + (corners[::3, 1] - corners[::3, 0]) * 0.3
    corners[::3, 2] += 1e-4 * rng.normal(size=corners[::3, 2].shape)
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rng.normal(size=(3, 3)), offset * rng.normal(size=3)
    faces = np.arange(3 * count).reshape(-1, 3)
    tree = BVH.from_triangles(corners.reshape(-1, 3), faces)
    scene = Scene()
    scene.add(tree, matrix)
    world = scene.flattened()[0][faces]
    weights = rng.dirichlet([1, 1, 1], count)
    aims = np.einsum("nk,nkj->nj", weights, world)
    ways = rng.normal(size=(count, 3))
    scale = np.abs(world - world[:, :1]).max(axis=(1, 2))
    origins = aims - (3.0 * scale)[:, None] * ways
    for source in (scene, BVH.from_triangles(*scene.flattened()[:2])):
        hits = source.closest_hit(origins, ways)
        rows = np.flatnonzero(hits.mask)
        assert len(rows) > count // 2
        spots = Surfaces(source).spots(hits[rows], origins[rows])
        for k, row in enumerate(rows):
            face = world[hits.prim_id[row]]
            normal = exact_normal(face)
            if not any(normal):
                continue
            side = -exact_side(spots.starts[k], face)
            assert side != 0 and (side > 0) == bool(hits.front[row])
            # And not far: the plane is some roundings away.
            away = float(abs(side)) / math.sqrt(float(sum(x * x for x in normal)))
            assert away <= 1e-10 * max(np.abs(face).max(), abs(offset) * 4.0, scale[row] * 10.0)


@pytest.mark.parametrize("offset", [[0.0, 0.0, 0.0], [1e7, 1e7, -1e7]])
def test_corners_are_closed(offset: list[float], rng: np.random.Generator) -> None:
    """The inside of a box is dark up to its edges: no light gets in where faces meet."""
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
    index = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1]]
    index += [[2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]
    tree = BVH.from_triangles(corners @ turned(rng).T + offset, index)
    middle = tree.bounds.mean(axis=0)
    for corner in tree.vertices:
        camera = Camera.look_at(middle, corner, fov_y=30.0, **SIZE)
        data = render(tree, camera, data=("ao", "shadow"), reach=math.inf, softness=5.0).data
        assert not data["ao"].any() and not data["shadow"].any()


@pytest.mark.parametrize("count", [1, 2, 16, 37])
def test_rays_are_spread_evenly(count: int) -> None:
    """Each cell's for themselves, those of all cells together, and those of neighbours."""
    points = spread(count)
    assert points.shape == (TILE * TILE, count, 2)
    assert points.min() >= 0.0 and points.max() < 1.0
    steps = np.sort(np.floor(points[:, :, 0] * count).astype(int), axis=1)
    assert (steps == np.arange(count)).all()
    for axis in (0, 1):
        bins = np.histogram(points[:, :, axis], 32, (0.0, 1.0))[0]
        assert bins.min() > 0.8 * bins.mean() and bins.max() < 1.2 * bins.mean()
    squares = points.reshape(TILE, TILE, count, 2)
    means = squares.reshape(TILE // 4, 4, TILE // 4, 4, count, 2).mean(axis=(1, 3, 4))
    assert np.abs(means - 0.5).max() < 0.16
    assert np.array_equal(spread(count), points)


def test_directions_have_the_cosine(rng: np.random.Generator) -> None:
    """Points of the sphere are even, so that with a normal they are distributed by the cosine."""
    lamp = np.array([0.0, 0.6, 0.8])
    lights = Lights(lamp, np.array([0.0, 0.0, 1.0]), 10.0, 16, math.inf)
    points = lights.sphere.reshape(-1, 3)
    assert np.allclose(np.linalg.norm(points, axis=1), 1.0)
    assert np.abs(points.mean(axis=0)).max() < 0.01
    assert np.abs(points.T @ points / len(points) - np.eye(3) / 3).max() < 0.01
    normal = rng.normal(size=3)
    normal /= np.linalg.norm(normal)
    ways = points + normal
    cosine = ways @ normal / np.linalg.norm(ways, axis=1)
    # The mean of the cosine, weighted by itself, and of its square.
    assert abs(cosine.mean() - 2 / 3) < 0.01 and abs((cosine**2).mean() - 0.5) < 0.01
    angles = lights.disk.reshape(-1, 3) @ lamp / np.linalg.norm(lights.disk.reshape(-1, 3), axis=1)
    assert np.degrees(np.arccos(np.clip(angles, -1, 1))).max() <= 5.0 + 1e-9


@pytest.mark.parametrize("name", ["stanford-bunny.ply", "teapot.ply"])
def test_scans_have_no_acne(name: str) -> None:
    """What a hard lamp lights is what single rays from above the hit see, nearly everywhere."""
    from bvh.io.mesh_files import read_file

    if not (SCANS / name).is_file():
        pytest.skip(f"no {name}")
    tree = BVH.from_mesh(read_file(SCANS / name, "a mesh"))
    camera = Camera.framing(tree.bounds, up=[0, 1, 0], width=160, height=120)
    lamp = camera.up - camera.forward
    data = render(tree, camera, data=("shadow", "normals", "id", "position"), lamp=lamp).data
    seen = data["id"] >= 0
    normals, places = data["normals"][seen], data["position"][seen]
    span = np.ptp(tree.bounds, axis=0).max()
    facing = normals @ lamp > 0.2
    alone = tree.any_hit(places + 1e-6 * span * normals, lamp)
    agree = (data["shadow"][seen] == 0.0) == alone
    assert agree[facing].mean() > 0.98
