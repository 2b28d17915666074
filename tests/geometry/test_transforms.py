"""Affine maps against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import bvh
from bvh.geometry.transforms import affine_maps, determinant_sign, moved
from bvh.runtime.calls.entries import entry
from bvh.scene.leaves import products


def nearest_sum(row: np.ndarray, point: np.ndarray) -> float:
    """Return the double nearest to row . (point, 1)."""
    terms = [Fraction(float(m)) * Fraction(float(x)) for m, x in zip(row, point, strict=False)]
    return float(sum(terms, Fraction(float(row[3]))))


def matrices(rng: np.random.Generator) -> list[np.ndarray]:
    """Return matrices of many kinds: plain, far, exact, huge, tiny, with cancellation."""
    found = []
    for scale in (1.0, 1e-140, 1e140, 2.0**-900):
        m = np.eye(4)
        m[:3] = rng.normal(size=(3, 4)) * scale
        found.append(m)
    far, exact, half = np.eye(4), np.eye(4), np.eye(4)
    far[:3] = rng.normal(size=(3, 4))
    far[:3, 3] *= 1e9
    exact[:3, :3] = np.eye(3)[rng.permutation(3)] * 2.0 ** rng.integers(-5, 5, 3)
    exact[:3, 3] = rng.integers(-9, 9, 3) / 8
    half[:3] = rng.integers(-3, 4, (3, 4)) / 2 + np.eye(3, 4) * 8
    # Products with short numbers are ties, of which one rounding tells all.
    scaled = np.diag([*rng.uniform(0.5, 2.0, 3), 1.0])
    return [*found, far, exact, half, scaled]


def test_moved_points_are_correctly_rounded(rng: np.random.Generator) -> None:
    """Every coordinate is the double nearest to the rational one, ties included."""
    points = np.concatenate([
        rng.normal(size=(60, 3)),
        rng.integers(-16, 16, (60, 3)) / 4,
        rng.normal(size=(20, 3)) * 1e-150,
        rng.normal(size=(20, 3)) * 1e100,
        # Half of these sums lie in the middle between two doubles.
        1.0 + rng.integers(0, 2**52, (60, 3)) * 2.0**-52,
        np.zeros((1, 3)),
    ])  # fmt: skip
    for matrix in matrices(rng):
        maps = affine_maps("transform", matrix)
        got = moved(points, maps)
        for point, image in zip(points, got, strict=True):
            for row, x in zip(maps, image, strict=True):
                assert nearest_sum(row, point) == x


def test_what_overflows_stops_at_the_largest_double() -> None:
    """However its sum is computed."""
    points = np.array([[1.7e308, 0.0, 0.0], [1.7e308, 1.7e308, -1e308], [-1.7e308, 3.0, 1.0]])
    largest = np.finfo(float).max
    shifted = np.column_stack([np.eye(3), [1e308, 0.0, 0.0]])
    assert moved(points, shifted)[:, 0].tolist() == [largest, largest, -1.7e308 + 1e308]
    assert moved(points, 2.0 * np.eye(3, 4))[:, 0].tolist() == [largest, largest, -largest]
    assert moved(points, np.ones((3, 4)))[:, 0].tolist() == [1.7e308, largest, -1.7e308]


def test_points_that_are_not_finite_become_nan() -> None:
    """And spoil no others."""
    points = np.array([[np.nan, 0.0, 0.0], [1.0, 2.0, 3.0], [np.inf, 0.0, 0.0]])
    got = moved(points, np.eye(3, 4))
    assert np.isnan(got[[0, 2]]).all()
    assert np.array_equal(got[1], points[1])


def test_composed_maps_are_correctly_rounded(rng: np.random.Generator) -> None:
    """Every entry is the double nearest to the product's."""
    for outer in matrices(rng)[::2]:
        inner = affine_maps("inner", np.stack(matrices(rng)[::2]))
        got = products(outer[None, :3], inner)
        for a, b in zip(inner, got, strict=True):
            for row in range(3):
                for column in range(4):
                    m = outer[row].copy()
                    m[3] = outer[row, 3] if column == 3 else 0.0
                    exact = nearest_sum(m, a[:, column])
                    # What overflows stops at the largest double.
                    assert b[row, column] == exact


# A map whose inverse's shift overflows.
SHRUNK = np.diag([1e-60, 1e-60, 1e-60, 1.0])
SHRUNK[0, 3] = 1e300


@pytest.mark.parametrize(
    ("matrix", "word"),
    [
        (np.zeros((4, 4)), "affine"),
        (np.diag([1.0, 1.0, 0.0, 1.0]), "invertible"),
        (np.diag([1.0, 1.0, np.nan, 1.0]), "finite"),
        (np.diag([1e-310, 1.0, 1.0, 1.0]), "far enough"),
        # Determinants of 1 and 1e-180; an entry of the inverse is 1e307, and its shift 1e360.
        (np.diag([1e-307, 1e153, 1e154, 1.0]), "far enough"),
        (SHRUNK, "far enough"),
        (np.eye(3), "shape"),
        (np.ones(4), "shape"),
    ],
)
def test_bad_matrices_are_named(matrix: np.ndarray, word: str) -> None:
    """A message names the argument and what is wanted."""
    with pytest.raises(ValueError, match=f"transform.*{word}"):
        affine_maps("transform", matrix)


def test_long_shifts_are_sound() -> None:
    """If the inverse's shift is finite, too."""
    for scale, shift in ((1.0, 1.7e308), (1e-60, 1e240), (1e100, -1.7e308)):
        matrix = np.diag([scale, scale, scale, 1.0])
        matrix[0, 3] = shift
        assert affine_maps("transform", matrix)[0, 3] == shift


def test_the_first_bad_one_of_many_is_named() -> None:
    """By its index."""
    many = np.tile(np.eye(4), (5, 1, 1))
    many[3, 0, 0] = 0.0
    with pytest.raises(ValueError, match=r"transforms\[3\] must be invertible"):
        affine_maps("transforms", many)


def test_nearly_singular_matrices_are_told_exactly() -> None:
    """One ulp makes the difference between singular and not."""
    m = np.eye(4)
    m[:3, :3] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
    with pytest.raises(ValueError, match="invertible"):
        affine_maps("transform", m)
    m[2, 2] = np.nextafter(9.0, 10.0)
    assert affine_maps("transform", m).shape == (3, 4)


@entry
def _sign(a, b, c):
    return determinant_sign((a[0], a[1], a[2]), (b[0], b[1], b[2]), (c[0], c[1], c[2]))


def test_orientation_is_exact(rng: np.random.Generator) -> None:
    """The sign of a determinant, however close to zero."""
    for _ in range(200):
        a, b = rng.integers(-4, 5, (2, 3)) * rng.choice([1.0, 0.1, 1e-200])
        c = a * rng.integers(-2, 3) + b * rng.integers(-2, 3)
        c = np.nextafter(c, rng.choice([-np.inf, np.inf], 3)) if rng.random() < 0.5 else c
        x, y, z = ([Fraction(float(v)) for v in w] for w in (a, b, c))
        det = (
            x[0] * (y[1] * z[2] - y[2] * z[1])
            + x[1] * (y[2] * z[0] - y[0] * z[2])
            + x[2] * (y[0] * z[1] - y[1] * z[0])
        )
        assert _sign(a, b, c) == (det > 0) - (det < 0)


def test_weights_of_vertices_that_fall_between_doubles(rng: np.random.Generator) -> None:
    """Where a coordinate is moved to the middle between two doubles, u and v are no others."""
    b = 2.0**-333
    vertices = [[b, b * 2.0**-53, 0.0], [3.0 * b, b * 2.0**-52, 0.0], [b, 2.0 * b, b]]
    tree, scene = bvh.BVH.from_triangles(vertices, [[0, 1, 2]]), bvh.Scene()
    matrix = np.eye(4)
    matrix[0, 1] = 1.0
    scene.add(tree, matrix)
    points, faces, _, _ = scene.flattened()
    o = rng.dirichlet([1.0, 1.0, 1.0], 400) @ points
    o[:, 2] = 5e6
    d = [0.0, 0.0, -5e6]
    hits, wanted = scene.closest_hit(o, d), bvh.BVH.from_triangles(points, faces).closest_hit(o, d)
    assert wanted.mask.mean() > 0.9
    for name in ("t", "u", "v"):
        assert np.array_equal(getattr(hits, name), getattr(wanted, name), equal_nan=True)
