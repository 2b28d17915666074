"""What outlines in a picture touch and hold, against rational arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from bvh.picking.outlines import (
    APART,
    BORDER,
    MEET,
    UNSURE,
    encloses,
    judge_points,
    judge_triangles,
)
from bvh.runtime.arguments import kernel_input
from tests.oracles import picking as oracle_picking


def judged(
    outline: NDArray[np.float64], corners: NDArray[np.float64], want_inside: bool
) -> NDArray[np.int8]:
    """Return verdicts on triangles (n, 3, 3) of homogeneous corners, the last word included."""
    points = kernel_input(corners.reshape(-1, 3))
    faces = kernel_input(np.arange(len(points), dtype=np.int32).reshape(-1, 3))
    verdicts = np.full(len(faces), 9, np.int8)
    outline = kernel_input(outline)
    places = places_of(outline, points)
    judge_triangles(outline, False, want_inside, points, places, faces, 0, len(faces), verdicts)
    for i in np.flatnonzero(verdicts == UNSURE):
        verdicts[i] = MEET if encloses(outline, corners[i]) else APART
    return verdicts


def places_of(outline: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.int8]:
    """Return where homogeneous points lie."""
    places = np.empty(len(points), np.int8)
    judge_points(kernel_input(outline), kernel_input(points), 0, len(points), places)
    return kernel_input(places)


def random_outline(rng: np.random.Generator, grid: int) -> NDArray[np.float64]:
    """Return a lasso: a rectangle, a star, or any closed polygon, some of it on a grid."""
    kind = rng.integers(4)
    if kind == 0:
        (x0, x1), (y0, y1) = rng.integers(-grid, grid + 1, (2, 2))
        outline = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], np.float64)
    elif kind == 1:
        angles = np.sort(rng.random(rng.integers(3, 9))) * 2 * np.pi
        radii = rng.random(len(angles)) * grid * 1.5
        outline = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    elif kind == 2:
        outline = rng.integers(-grid, grid + 1, (rng.integers(1, 9), 2)).astype(np.float64)
    else:
        # Along itself, and back.
        half = rng.integers(-grid, grid + 1, (rng.integers(2, 5), 2)).astype(np.float64)
        outline = np.vstack([half, half[::-1][1:]])
    same = (outline == np.roll(outline, 1, axis=0)).all(axis=1)
    same[0] = same[0] and len(outline) > 1 and not same.all()
    kept = outline[~same] if not same.all() else outline[:1]
    return kept if len(kept) else outline[:1]


def random_triangles(
    rng: np.random.Generator, outline: NDArray[np.float64], grid: int, count: int
) -> NDArray[np.float64]:
    """Return triangles, some with corners of the outline's, some that reach behind the eye."""
    corners = np.ones((count, 3, 3))
    corners[..., :2] = rng.integers(-grid, grid + 1, (count, 3, 2))
    smooth = rng.random(count) < 0.3
    corners[smooth, :, :2] = rng.normal(0, grid / 2, (smooth.sum(), 3, 2))
    share = rng.random((count, 3)) < 0.3
    corners[share, :2] = outline[rng.integers(0, len(outline), share.sum())]
    behind = (rng.random((count, 3)) < 0.3) & (rng.random(count) < 0.3)[:, None]
    corners[behind, 2] = rng.integers(-2, 1, behind.sum())
    return corners


@pytest.mark.parametrize(
    ("grid", "count"),
    [(2, 25), *(pytest.param(n, 50, marks=pytest.mark.long) for n in (2, 4, 1000))],
)
def test_triangles_equal_rational_arithmetic(
    rng: np.random.Generator, grid: int, count: int
) -> None:
    """Touching and inside, for all kinds of lassos, and triangles that share points with them."""
    found = np.zeros(4, np.int64)
    for _ in range(count):
        outline = random_outline(rng, grid)
        corners = random_triangles(rng, outline, grid, 12)
        touching, within = judged(outline, corners, False), judged(outline, corners, True)
        for i, triangle in enumerate(corners):
            told = (touching[i] == MEET, within[i] == MEET)
            truth = (
                oracle_picking.touches(outline, triangle),
                oracle_picking.is_inside(outline, triangle),
            )
            assert told == truth, (outline.tolist(), triangle.tolist())
            found[truth[0] + 2 * truth[1]] += 1
    # Inside without touching does not exist; all else has been met.
    assert found[2] == 0
    assert (found[[0, 1, 3]] > 12).all()


def test_points_equal_rational_arithmetic(rng: np.random.Generator) -> None:
    for _ in range(100):
        outline = random_outline(rng, 3)
        points = np.ones((40, 3))
        points[:, :2] = rng.integers(-3, 4, (40, 2))
        points[:10, :2] += rng.random((10, 2))
        places = places_of(outline, points)
        edges = oracle_picking.region_edges(outline)
        truth = [oracle_picking.holds_point(edges, p[:2]) for p in oracle_picking.exact(points)]
        assert (places >= BORDER).tolist() == truth


def test_what_is_no_number_is_apart() -> None:
    outline = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    corners = np.ones((3, 3, 3))
    corners[0, 1, 0] = np.nan
    corners[1, 2, 1] = np.inf
    assert judged(outline, corners, False).tolist() == [APART, APART, MEET]


def test_nearly_on_the_border(rng: np.random.Generator) -> None:
    """Triangles whose corner is on an oblique edge, as nearly as doubles can be."""
    outline = rng.normal(0, 100, (5, 2))
    t = rng.random((200, 1))
    side = rng.integers(0, 5, 200)
    on = outline[side] * (1 - t) + outline[(side + 1) % 5] * t
    corners = np.ones((200, 3, 3))
    corners[:, 0, :2] = on
    corners[:, 1:, :2] = on[:, None] + rng.normal(0, 30, (200, 2, 2))
    touching, within = judged(outline, corners, False), judged(outline, corners, True)
    for i, triangle in enumerate(corners):
        assert (touching[i] == MEET) == oracle_picking.touches(outline, triangle)
        assert (within[i] == MEET) == oracle_picking.is_inside(outline, triangle)
