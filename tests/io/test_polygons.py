"""Polygons cut into triangles: none overlap, none are missing, whatever the polygon is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bvh.io.polygons import corner_lists, triangulated
from tests.oracles import meshes as oracle

Rng = np.random.Generator


def cut(points: Any, polygons: Any, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the triangles of polygons, and the polygon of each."""
    points = np.asarray(points, float)
    return triangulated(points, *corner_lists(polygons, len(points)), threads)


def star(n: int, rng: Rng) -> np.ndarray:
    """Return a polygon around the origin, on a coarse grid so that corners fall into line."""
    angles = np.sort(rng.random(n)) * 2.0 * np.pi
    radii = rng.choice([0.4, 1.0, 1.7], n)
    return np.round(8.0 * np.stack([np.cos(angles), np.sin(angles)], 1) * radii[:, None])


def walk(n: int, rng: Rng) -> np.ndarray:
    """Return a polygon that winds along a staircase and back, with many corners in line."""
    steps = np.cumsum(rng.integers(0, 2, n)).astype(float)
    there = np.stack([np.arange(n), steps], 1)
    return np.concatenate([there, there[::-1] + [0.0, rng.integers(1, 3)]])


def in_space(flat: np.ndarray, axis: int, rng: Rng) -> np.ndarray:
    """Return points whose two other coordinates are given, near a plane across an axis."""
    points = np.empty((len(flat), 3))
    points[:, axis] = flat @ rng.choice([-0.5, 0.0, 0.25], 2) + 0.01 * rng.random(len(flat))
    points[:, [(axis + 1) % 3, (axis + 2) % 3]] = flat
    return points


@pytest.mark.parametrize("make", [star, walk])
def test_simple_polygons_are_tiled(make: Any, rng: Rng) -> None:
    """No overlap, by exact areas, with corners in line, either way around, along every axis."""
    tried = 0
    for _ in range(50):
        flat = make(int(rng.integers(2, 14)), rng)
        if len(flat) < 3 or not oracle.is_simple([tuple(map(int, p)) for p in flat]):
            continue
        axis = int(rng.integers(3))
        points = in_space(flat, axis, rng)
        order = rng.permutation(len(points))
        polygon = np.argsort(order)
        if rng.random() < 0.5:
            polygon = polygon[::-1]
        points = points[order]
        faces, owner = cut(points, [polygon.tolist()])
        assert len(faces) == len(polygon) - 2 and not owner.any()
        oracle.assert_tiled(points, polygon.tolist(), faces, axis)
        tried += 1
    assert tried > 12


def test_all_quads_of_a_grid() -> None:
    """Four corners on a grid of 4 x 4: simple ones are tiled, the others keep their border."""
    grid = np.array([(x, y, 0) for x in range(4) for y in range(4)], float)
    quads = np.array(np.meshgrid(*[np.arange(16)] * 4)).reshape(4, -1).T
    quads = quads[(np.diff(np.sort(quads, axis=1), axis=1) > 0).all(axis=1)]
    quads = quads[quads[:, 0] == quads.min(axis=1)]
    faces, owner = cut(grid, quads)
    assert np.array_equal(owner, np.repeat(np.arange(len(quads)), 2))
    simple = 0
    for quad, pair in zip(quads[::7].tolist(), faces.reshape(-1, 2, 3)[::7], strict=True):
        if oracle.is_simple(oracle.seen_along(grid[quad], 2)):
            oracle.assert_tiled(grid, quad, pair, 2)
            simple += 1
        oracle.assert_border(quad, pair)
    assert simple > 500


def test_convex_polygons_are_fans(rng: Rng) -> None:
    """From their first corner, wherever that is; the plane may be any."""
    for n in (4, 5, 8, 50):
        angles = 2.0 * np.pi * np.arange(n) / n
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        points = np.stack([np.cos(angles), np.sin(angles), np.zeros(n)], 1) @ turn
        polygon = np.roll(np.arange(n), int(rng.integers(n)))
        wanted = [[polygon[0], polygon[k], polygon[k + 1]] for k in range(1, n - 1)]
        assert cut(points, [polygon])[0].tolist() == wanted


def test_bent_quads_are_cut_at_their_dent() -> None:
    """A quad that is concave as seen from above has its cut through the dent, bent or not."""
    for height in (0.0, 0.3):
        points = [[0, 0, 0], [2, 0, 0], [0.5, 0.5, height], [0, 2, 0]]
        for k in range(4):
            polygon = np.roll(np.arange(4), k).tolist()
            faces, _ = cut(points, [polygon])
            assert all({0, 2} <= set(face) for face in faces.tolist())


def test_holes_on_a_bridge() -> None:
    """A square with a square hole, joined by a cut that is gone along twice."""
    points = [
        [0, 0, 0],
        [4, 0, 0],
        [4, 4, 0],
        [0, 4, 0],
        [1, 1, 0],
        [1, 3, 0],
        [3, 3, 0],
        [3, 1, 0],
    ]
    polygon = [0, 1, 2, 3, 0, 4, 5, 6, 7, 4]
    faces, _ = cut(points, [polygon])
    flat = [oracle.area(oracle.seen_along(np.array(points)[face], 2)) for face in faces]
    assert len(faces) == 8 and all(part > 0 for part in flat) and sum(flat) == 2 * 12


def test_what_is_hardly_a_polygon() -> None:
    """Lists that are short, corners given twice, no area, sides that cross, places that meet."""
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 0], [0, 0, 0]], float)
    short: list[list[int]] = [[], [0], [0, 1], [0, 0, 0, 0], [0, 1, 1], [0, 1, 0, 0]]
    assert [len(cut(points, [one])[0]) for one in short] == [0, 0, 0, 0, 0, 0]
    # A triangle in the clothes of a quad.
    assert cut(points, [[0, 1, 2, 2], [2, 0, 1, 2]])[0].tolist() == [[0, 1, 2], [2, 0, 1]]
    for odd in (
        [0, 1, 4, 5],
        [0, 2, 1, 3],
        [0, 1, 4, 1],
        [0, 5, 1, 2, 3],
        [0, 1, 0, 1],
        [0, 1, 5, 4],
    ):
        faces, owner = cut(points, [odd])
        assert len(faces) == len(owner) == len(odd) - 2
        oracle.assert_border(odd, faces)
    assert [len(part) for part in cut(points, [])] == [0, 0]


def test_what_is_not_finite(rng: Rng) -> None:
    """All triangles of a polygon hold its vertex that is not finite; others are not touched."""
    for bad in (np.nan, np.inf, -np.inf):
        points = star(9, rng)
        points = np.column_stack([points, np.zeros(len(points))])
        points = np.concatenate([points, points])
        points[4, int(rng.integers(3))] = bad
        polygons = [list(range(9)), list(range(9, 18))]
        faces, owner = cut(points, polygons)
        assert (faces[owner == 0] == 4).any(axis=1).all() and (owner == 0).sum() == 7
        assert np.array_equal(faces[owner == 1], cut(points, polygons[1:])[0])


@pytest.mark.parametrize("scale", [2.0**-490, 2.0**-40, 2.0**490])
def test_any_size(scale: float, rng: Rng) -> None:
    """Signs are exact from 1e-150 to 1e150: the triangles stay the same."""
    points = in_space(star(12, rng), 1, rng)
    assert np.array_equal(cut(points * scale, [range(12)])[0], cut(points, [range(12)])[0])


def test_one_of_many_corners(rng: Rng) -> None:
    """A border of thousands of corners is tiled: areas of one sign, which add up to its own."""
    n = 4000
    angle = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False)
    radius = 1.0 + 0.3 * np.sin(7.0 * angle) + 0.02 * rng.random(n)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.zeros(n)], 1)
    points = np.round(points * 2.0**20)
    faces, _ = cut(points[:, [2, 0, 1]], [range(n)])
    a, b, c = np.moveaxis(points[faces], 1, 0)
    areas = np.cross(b - a, c - a)[:, 2]
    following = np.roll(points, -1, axis=0)
    whole = (points[:, 0] * following[:, 1] - points[:, 1] * following[:, 0]).sum()
    assert (areas > 0.0).all() and areas.sum() == whole


def test_far_from_the_origin() -> None:
    """A dent of one unit in the last place, ten thousand kilometres out."""
    step = np.spacing(1e10)
    points = np.array([[0, 0, 0], [8, 0, 0], [4 + step, 4 - step, 0], [0, 8, 0]])
    points[:, :2] += 1e10
    faces, _ = cut(points, [[0, 1, 2, 3]])
    oracle.assert_tiled(points, [0, 1, 2, 3], faces, 2)
    points[2, :2] = 1e10 + 4 - step
    oracle.assert_tiled(points, [0, 1, 2, 3], cut(points, [[0, 1, 2, 3]])[0], 2)


@pytest.mark.parametrize("count", [10_000, pytest.param(40_000, marks=pytest.mark.long)])
def test_many_at_once(count: int, rng: Rng) -> None:
    """A batch is what each polygon is alone, on any number of threads, in lists or in rows."""
    points = rng.random((400, 3))
    polygons = [rng.integers(0, 400, rng.integers(0, 9)).tolist() for _ in range(count)]
    faces, owner = cut(points, polygons, 1)
    assert all(map(np.array_equal, cut(points, polygons, 3), (faces, owner)))
    for k in rng.integers(0, len(polygons), 200).tolist():
        assert np.array_equal(cut(points, [polygons[k]])[0], faces[owner == k])
    rows = rng.integers(0, 400, (500, 5))
    assert all(map(np.array_equal, cut(points, rows), cut(points, rows.tolist())))


def test_refused() -> None:
    """What is no list of polygons is told, with the argument's name and the row."""
    points = np.eye(3)
    for faces, error, match in (
        (
            [[0, 1, 2, 3]],
            ValueError,
            r"faces must index the 3 vertices, got \[0, 1, 2, 3\] in row 0",
        ),
        ([[0, 1, 2], [0, -1]], ValueError, r"got \[0, -1\] in row 1"),
        ([[0, 1, 2], [0.5, 1]], TypeError, "faces must be integers, got an array of float64"),
        ([[0, 1, 2], 7], TypeError, "faces must be an array, or lists of vertex indices"),
        (np.zeros((2, 2, 4), int), ValueError, r"faces must have shape \(m, n\)"),
        (np.ma.zeros((2, 4), int), TypeError, "masked"),
    ):
        with pytest.raises(error, match=match):
            cut(points, faces)
