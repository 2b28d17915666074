"""`ray_obb` against rational arithmetic, and what it promises about shapes and messages."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.geometry.obbs import local_frames, obb_bounds
from tests.geometry.test_boxes import (
    INF,
    LARGEST,
    NAN,
    POOL,
    boxes,
    expected,
    nudged,
    rounded,
    signed,
)
from tests.oracles.confirmed import confirm, digest, is_confirmed


def exact_inverse(matrix: Any) -> list[list[Fraction]]:
    """Return the three first rows of the inverse of an affine matrix (Cramer's rule)."""
    m = [[Fraction(x) for x in row] for row in np.asarray(matrix).tolist()]

    def minor(i: int, j: int) -> Fraction:
        # With indices mod 3 the sign of the cofactor is included.
        a, b, c, d = (i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3
        return m[a][c] * m[b][d] - m[a][d] * m[b][c]

    det = sum(m[0][j] * minor(0, j) for j in range(3))
    linear = [[minor(j, i) / det for j in range(3)] for i in range(3)]
    return [[*row, -sum(row[j] * m[j][3] for j in range(3))] for row in linear]


def affine(linear: Any, shift: Any) -> Any:
    """Return affine matrices (..., 4, 4)."""
    linear = np.asarray(linear, float)
    matrix = np.zeros((*linear.shape[:-2], 4, 4))
    matrix[..., :3, :3], matrix[..., :3, 3], matrix[..., 3, 3] = linear, shift, 1.0
    return matrix


def lattice_frames(rng: np.random.Generator, n: int) -> Any:
    """Return matrices with exact inverses: axes permuted, mirrored, scaled by 2**k, sheared."""
    axes = np.array([rng.permutation(3) for _ in range(n)])
    linear = np.eye(3)[axes] * rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], (n, 1, 3))
    shear = np.eye(3) + np.triu(rng.integers(-1, 2, (n, 3, 3)), 1)
    return affine(linear @ shear, rng.integers(-3, 4, (n, 3)))


def random_frames(rng: np.random.Generator, n: int) -> Any:
    """Return rotations with scales and a little shear, shifted."""
    linear = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0] * rng.uniform(0.1, 3, (n, 1, 3))
    return affine(linear + 0.05 * rng.normal(size=(n, 3, 3)), rng.normal(size=(n, 3)) * 3)


def check(
    o: Any, d: Any, lower: Any, upper: Any, transform: Any, t_min: Any = 0.0, t_max: Any = INF
) -> Any:
    """Compare a batch with the rational answers, and return them."""
    got = bvh.ray_obb(o, d, lower, upper, transform, t_min, t_max)
    rows = local_frames("transform", transform)
    low, high = np.broadcast_to(t_min, len(o)).tolist(), np.broadcast_to(t_max, len(o)).tolist()
    case = digest("obbs", o, d, lower, upper, rows, low, high, got.hit, got.t_near, got.t_far)
    if is_confirmed(case):
        return got
    for i in range(len(o)):
        frame = rows[i].tolist()
        want = expected(o[i], d[i], lower[i], upper[i], low[i], high[i], frame)
        mine = got.hit[i], got.t_near[i], got.t_far[i]
        assert mine == want, f"ray {i}: {o[i]!r} {d[i]!r} {lower[i]!r} {upper[i]!r} {frame}"
    confirm(case)
    return got


def world(matrix: Any, points: Any) -> Any:
    """Take one point to world coordinates by each matrix, in float64."""
    return np.einsum("nij,nj->ni", matrix[:, :3, :3], points) + matrix[:, :3, 3]


@pytest.mark.parametrize("seed", range(2))
def test_inverses_are_correctly_rounded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = np.concatenate(
        [
            random_frames(rng, 60),
            lattice_frames(rng, 60),
            affine(signed(rng, rng.choice(POOL[4:], (200, 3, 3))), rng.choice(POOL, (200, 3))),
            affine(
                rng.normal(size=(60, 3, 3)) * 10.0 ** rng.uniform(-120, 120, (60, 1, 3)),
                rng.normal(size=(60, 3)) * 10.0 ** rng.uniform(-120, 120, (60, 1)),
            ),
            # Nearly singular: the third column is almost a sum of the others.
            affine([[[1, 1, 2], [1, -1, 3e-16 * k], [0.1, 0.3, 0.4]] for k in range(1, 9)], 0.1),
        ]
    )
    solvable = []
    for matrix in m:
        try:
            solvable.append((local_frames("transform", matrix), exact_inverse(matrix)))
        except ValueError:
            continue
    assert len(solvable) > 250
    for rows, exact in solvable:
        assert rows.tolist() == [[rounded(x) for x in row] for row in exact]


@pytest.mark.parametrize("seed", range(2))
def test_random_boxes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 1500
    transform = random_frames(rng, n)
    lower, upper = boxes(rng, n)
    o = world(transform, rng.normal(size=(n, 3)) * 3)
    d = world(transform, rng.uniform(lower, upper) + rng.normal(size=(n, 3)) * 0.3) - o
    got = check(o, d, lower, upper, transform, -INF)
    assert 200 < np.count_nonzero(got.hit) < n - 200
    # At other scales of the scene and the direction.
    a, b = 10.0 ** rng.uniform(-150, 150, (2, n, 1))
    transform[:, :3] *= a[:, :, None]
    d *= b / 10.0 ** rng.uniform(-50, 50, (n, 1))
    check(o * a, d, lower, upper, transform, rng.normal(size=n))


@pytest.mark.parametrize("seed", range(2))
def test_lattice_rays_graze_edges_and_corners(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 2500
    transform = lattice_frames(rng, n)
    a, b = rng.integers(-3, 4, (2, n, 3)).astype(float)
    lower, upper = np.minimum(a, b), np.maximum(a, b)
    corner = world(transform, np.where(rng.random((n, 3)) < 0.5, lower, upper))
    d = signed(rng, rng.integers(0, 3, (n, 3)).astype(float))
    # Along an edge of the box for some, which only exact slopes can tell.
    edge = transform[np.arange(n), :3, rng.integers(0, 3, n)]
    d = np.where(rng.random((n, 1)) < 0.2, edge, d)
    o = corner - d * rng.integers(-2, 5, (n, 1))
    got = check(o, d, lower, upper, transform)
    assert np.count_nonzero(got.t_near == got.t_far) > 100
    # The inverses are exact, so are these the given boxes themselves.
    exact = np.array([np.linalg.inv(m)[:3] for m in transform[:50]])
    assert np.array_equal(local_frames("transform", transform[:50]), exact)
    check(o, d * 2.0**-640, lower, upper, transform)
    check(nudged(rng, o), nudged(rng, d), lower, upper, nudged_linear(rng, transform), -INF)


def nudged_linear(rng: np.random.Generator, transform: Any) -> Any:
    """Move some entries of affine matrices by one unit in the last place."""
    out = transform.copy()
    out[:, :3] = nudged(rng, out[:, :3])
    return out


@pytest.mark.parametrize("seed", range(2))
def test_turned_boxes_met_at_corners_and_edges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 1500
    transform = random_frames(rng, n)
    lower, upper = boxes(rng, n)
    target = np.where(rng.random((n, 3)) < 0.6, lower, upper)
    target = np.where(rng.random((n, 3)) < 0.2, (lower + upper) / 2, target)
    o = world(transform, rng.normal(size=(n, 3)) * 3)
    check(o, world(transform, target) - o, lower, upper, transform, -INF)
    # Along an edge, or in a face, as well as the doubles can say it.
    o = world(transform, target)
    d = transform[np.arange(n), :3, rng.integers(0, 3, n)]
    check(o - 3 * d, d, lower, upper, transform, -INF)


def test_hostile_boxes_and_rays() -> None:
    rng = np.random.default_rng(0)
    n = 2000
    pool = np.array([-INF, -LARGEST, -1.0, -0.0, 0.0, 1.0, LARGEST, INF, NAN])
    weight = [0.1, 0.05, 0.2, 0.1, 0.1, 0.2, 0.05, 0.15, 0.05]
    lower, upper = rng.choice(pool, (2, n, 3), p=weight)
    transform = np.concatenate([lattice_frames(rng, n // 2), random_frames(rng, n // 2)])
    o, d = signed(rng, rng.choice(POOL, (2, n, 3)))
    check(o, d, np.fmin(lower, upper), np.fmax(lower, upper), transform, -INF)
    o[:50, 0], o[50:100, 2], d[100:150, 1], d[150:200] = NAN, INF, NAN, 0.0
    low, high = rng.choice(pool, (2, n))
    check(o, d, lower, upper, transform, low, high)


def test_the_identity_gives_ray_box() -> None:
    rng = np.random.default_rng(0)
    lower, upper = boxes(rng, 500)
    o = rng.normal(size=(500, 3))
    d = rng.uniform(lower, upper) - o
    box, obb = bvh.ray_box(o, d, lower, upper), bvh.ray_obb(o, d, lower, upper, np.eye(4))
    for a, b in zip(box, obb, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("seed", range(2))
def test_bounds_contain_every_corner(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 60
    transform = np.concatenate(
        [
            random_frames(rng, n),
            lattice_frames(rng, n),
            # Far away, badly scaled, and nearly flat.
            affine(rng.normal(size=(n, 3, 3)) * 1e-3, rng.normal(size=(n, 3)) * 1e7),
            affine(rng.normal(size=(n, 3, 3)) * 10.0 ** rng.uniform(-90, 90, (n, 1, 3)), 0.1),
            affine([[[1, 1, 2], [1, -1, 1e-13 * k], [0.1, 0.3, 0.4]] for k in range(1, n)], 5.0),
        ]
    )
    lower, upper = boxes(rng, len(transform))
    rows = local_frames("transforms", transform)
    low, high = obb_bounds(lower, upper, rows)
    for i in range(len(transform)):
        back = exact_inverse(np.vstack([rows[i], [0, 0, 0, 1]]))
        for corner in product(*zip(lower[i].tolist(), upper[i].tolist(), strict=True)):
            for axis in range(3):
                x = back[axis][3] + sum(back[axis][j] * Fraction(corner[j]) for j in range(3))
                assert low[i, axis] <= x <= high[i, axis]
    # They are tight, too: wider than the corners' own float64 bounds by a few roundings.
    signs = np.array(list(product([0, 1], repeat=3)))[:, None, :]
    corners = np.array([world(transform, np.where(s, lower, upper)) for s in signs])
    size = np.abs(transform[:, :3, :3]).sum(axis=2) * 3 + np.abs(transform[:, :3, 3])
    assert np.all((corners.min(axis=0) - low)[:n] <= 1e-14 * size[:n])
    assert np.all((high - corners.max(axis=0))[:n] <= 1e-14 * size[:n])


def test_shapes() -> None:
    box = [0, 0, 0], [1, 1, 1]
    hit, near, far = bvh.ray_obb([-1, 0, 0], [1, 0, 0], *box, np.eye(4))
    assert (type(hit), type(near), type(far)) == (bool, float, float)
    frames = np.broadcast_to(np.eye(4), (5, 1, 4, 4))
    got = bvh.ray_obb(np.zeros((2, 3)), [1, 0, 0], *box, frames)
    assert got.hit.shape == got.t_near.shape == got.t_far.shape == (5, 2)
    empty = bvh.ray_obb(np.empty((0, 3)), [1, 0, 0], *box, np.eye(4, dtype=int))
    assert empty.hit.shape == (0,)
    assert bvh.ray_obb([0, 0, 0], [1, 0, 0], *box, np.empty((0, 4, 4))).hit.shape == (0,)


def singular(k: int) -> Any:
    """Return four matrices, one of them singular without a zero in its float64 determinant."""
    matrices = np.tile(np.eye(4), (4, 1, 1))
    matrices[k, :3, :3] = [[0.1, 0.2, 0.3], [0.4, 0.5, 0.9], [0.7, 0.8, 1.5]]
    matrices[k, :3, 2] = matrices[k, :3, 0]
    return matrices


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(3), r"transform must have shape \(\.\.\., 4, 4\), got \(3, 3\)"),
        (np.diag([1.0, 1.0, 1.0, 2.0]), "transform must be affine, with last row 0 0 0 1"),
        (np.diag([1.0, NAN, 1.0, 1.0]), "transform must be finite"),
        (np.diag([1.0, 0.0, 1.0, 1.0]), "transform must be invertible"),
        (singular(2), r"transform\[2\] must be invertible"),
        (singular(3).reshape(2, 2, 4, 4), r"transform\[1, 1\] must be invertible"),
        (np.diag([1e-310, 1.0, 1.0, 1.0]), "transform must be far enough from singular"),
        (np.ones((3, 4, 4))[:, :, :3], "transform must have shape"),
        (np.tile(np.eye(4), (3, 1, 1)), r"transform \(3,\)"),
    ],
)
def test_messages_name_the_matrix(matrix: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bvh.ray_obb(np.zeros((2, 3)), [1, 0, 0], [0, 0, 0], [1, 1, 1], matrix)


def test_a_matrix_of_words_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="transform must be real numbers"):
        bvh.ray_obb([0, 0, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1], [["a"] * 4] * 4)


def test_a_quotient_never_leaves_the_reals() -> None:
    frame = affine(np.eye(3)[[1, 2, 0]], 0.0)
    assert bvh.ray_obb([0, 0, 0], [0, 0, 1e200], [1e-200, 0, 0], [1, 0, 0], frame).t_near == 5e-324
    assert bvh.ray_obb([0, 0, 0], [0, 0, 1e-200], [1e150, 0, 0], [INF, 0, 0], frame) == (
        True,
        LARGEST,
        math.inf,
    )
