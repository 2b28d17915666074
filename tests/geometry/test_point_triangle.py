"""The distance from a point to a triangle, against rational arithmetic."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from bvh.geometry.arithmetic.floats import vector
from bvh.geometry.point_triangle import distance_bounds, nearest_on_triangle
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from tests.cases import sizes
from tests.oracles.confirmed import confirm, digest, is_confirmed
from tests.oracles.points import squared_distance, ulps_off

COUNT = 1500


@entry
def _all(points, corners, found, sides):
    """Measure each point against its own triangle."""
    for i in range(len(points)):
        p = vector(points, i)
        a, b, c = vector(corners, 3 * i), vector(corners, 3 * i + 1), vector(corners, 3 * i + 2)
        found[i, 0], found[i, 1], found[i, 2] = nearest_on_triangle(p, a, b, c)
        sides[i, 0], sides[i, 1] = distance_bounds(p, a, b, c)


def measure(points: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (distance, u, v) and the bounds of the filter."""
    found, sides = np.empty((len(points), 3)), np.empty((len(points), 2))
    flat = kernel_input(np.ascontiguousarray(corners, np.float64).reshape(-1, 3))
    _all(kernel_input(np.ascontiguousarray(points, np.float64)), flat, found, sides)
    return found, sides


def on_triangles(corners: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return points of triangles: inside, on edges, and corners."""
    w = rng.dirichlet(np.ones(3), len(corners))
    w[rng.random(len(w)) < 0.3, 2] = 0.0
    w[rng.random(len(w)) < 0.2, 1:] = 0.0
    w /= w.sum(axis=1, keepdims=True)
    return np.einsum("nk,nkx->nx", w, corners)


def general(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(COUNT, 3, 3))


def needles(rng: np.random.Generator) -> np.ndarray:
    """Return triangles of almost no area."""
    corners = rng.normal(size=(COUNT, 3, 3))
    t = rng.random((COUNT, 1))
    flat = corners[:, 0] * (1 - t) + corners[:, 1] * t
    corners[:, 2] = flat + rng.normal(size=(COUNT, 3)) * 10.0 ** rng.uniform(-16, -4, (COUNT, 1))
    return corners


def degenerate(rng: np.random.Generator) -> np.ndarray:
    """Return segments and points: corners that agree, or lie on a line."""
    corners = rng.integers(-9, 10, (COUNT, 3, 3)).astype(float)
    kind = rng.integers(0, 4, COUNT)
    corners[kind == 0, 1] = corners[kind == 0, 0]
    corners[kind == 1, 2] = corners[kind == 1, 1]
    corners[kind == 2, 1:] = corners[kind == 2, :1]
    corners[kind == 3, 2] = 2 * corners[kind == 3, 1] - corners[kind == 3, 0]
    return corners


def grid(rng: np.random.Generator) -> np.ndarray:
    """Return triangles of small whole numbers: many points fall on their features."""
    return rng.integers(-3, 4, (COUNT, 3, 3)).astype(float)


def offset(rng: np.random.Generator) -> np.ndarray:
    """Return small triangles far from the origin."""
    return rng.normal(size=(COUNT, 3, 3)) * 1e-3 + np.array([1e7, -2e7, 3e6])


FAMILIES = (general, needles, degenerate, grid, offset)
STEPS = (1.0, 1e-3, 1e-9, 1e-12, 1e-15, 0.0, 1e5, 1e10)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("power", [0, 480, -480])
def test_distances(family, power: int, rng: np.random.Generator) -> None:
    """Distances are within 4 units in the last place, at any scale; the filter's bounds hold."""
    corners = family(rng)
    size = np.ptp(corners, axis=1).max(axis=1)[:, None]
    points = on_triangles(corners, rng)
    points += rng.normal(size=points.shape) * size * rng.choice(STEPS, (len(points), 1))
    if family is grid:
        points[::2] = rng.integers(-4, 5, points[::2].shape)
    points, corners = np.ldexp(points, power), np.ldexp(corners, power)
    found, sides = measure(points, corners)
    case = digest("points and triangles", points, corners, found, sides)
    if is_confirmed(case):
        return
    worst = 0.0
    for p, t, (d, u, v), (low, high) in zip(points, corners, found, sides, strict=True):
        square = squared_distance(p.tolist(), *t.tolist())
        off = ulps_off(d, square)
        worst = max(worst, off)
        assert off <= 4, (p.tolist(), t.tolist(), d, off)
        assert low <= d <= high
        assert 0 <= u <= 1
        assert 0 <= v <= 1
        assert u + v <= 1 + 1e-15
    print(f"{family.__name__}: {worst:.2f} ulp at most")
    confirm(case)


def test_weights(rng: np.random.Generator) -> None:
    """The weights give the nearest point: its distance is the distance."""
    corners = general(rng)
    points = rng.normal(size=(COUNT, 3)) * 2
    found, _ = measure(points, corners)
    d, u, v = found.T[:, :, None]
    near = (1 - u - v) * corners[:, 0] + u * corners[:, 1] + v * corners[:, 2]
    assert np.allclose(np.linalg.norm(points - near, axis=1), d[:, 0], rtol=1e-12, atol=1e-13)


def test_orientation(rng: np.random.Generator) -> None:
    """The order of the corners does not matter."""
    corners = np.concatenate([general(rng), grid(rng)])
    points = np.round(rng.normal(size=(len(corners), 3)) * 4) / 2
    first, _ = measure(points, corners)
    for order in ([1, 2, 0], [2, 0, 1], [0, 2, 1], [1, 0, 2], [2, 1, 0]):
        again, _ = measure(points, corners[:, order])
        assert np.array_equal(first[:, 0], again[:, 0])


def test_extremes() -> None:
    """Denormal and huge coordinates."""
    tiny, huge = 5e-324, 1.7e308
    flat = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], float)
    found, _ = measure(
        np.array([[tiny, tiny, 2 * tiny], [huge, huge, huge], [0.25, 0.25, 1e-200], [huge, 0, 0]]),
        np.array([flat * 4 * tiny, flat, flat, flat - np.array([huge, 0, 0])]),
    )
    assert found[0, 0] == 2 * tiny
    assert found[1, 0] == sys.float_info.max
    assert found[2, 0] == 1e-200
    assert found[3, 0] == sys.float_info.max


@pytest.mark.parametrize("family", sizes.FAMILIES)
def test_any_size(family, rng: np.random.Generator) -> None:
    """Distances of any size, in triangles of all sizes; 0 for points of the triangle alone."""
    groups = sizes.triangles(family, 150, rng)
    corners, points = groups[:, :3], groups[:, 3]
    found, sides = measure(points, corners)
    for p, t, (d, u, v), (low, high) in zip(points, corners, found, sides, strict=True):
        square = squared_distance(p.tolist(), *t.tolist())
        assert ulps_off(d, square) <= 4, (p.tolist(), t.tolist(), d)
        assert low <= d <= high
        assert min(u, v) >= 0 and u + v <= 1 + 1e-15


def test_next_to_an_edge() -> None:
    """What is off an edge by less than a double can say, next to the face's size, still counts."""
    corners = np.array(
        [
            [
                [-1.85e-321, 1.4527439953170759e308, -7.427087145063275e150],
                [-1.8548597332672514e150, 1.4527439953170759e308, -2.5686164538348246e151],
                [2.625138332961665e151, 1.4527439953170759e308, -1.783307489630069e151],
            ],
            [
                [7.214332924202759e33, -7.214332924202759e33, 2.2640606008426902e33],
                [7.214332924202759e33, 7.214332924202759e33, 2.1406038842335364e33],
                [-1.6943874443392607e33, 1.2343800661584295e33, -1.2220431874891013e33],
            ],
        ]
    )
    points = np.array(
        [
            [-9.274298666336257e149, 1.4527439953170759e308, -1.655662584170576e151],
            [7.214332924202759e33, -4.21656691536e-313, 2.2023322425381133e33],
        ]
    )
    found, _ = measure(points, corners)
    for p, t, (d, _, _) in zip(points, corners, found, strict=True):
        assert ulps_off(d, squared_distance(p.tolist(), *t.tolist())) <= 4, (p, t, d)
