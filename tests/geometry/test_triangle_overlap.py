"""Contacts of triangles, boxes, balls and polytopes, decided as rational numbers decide them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bvh.geometry.arithmetic import rational
from bvh.geometry.arithmetic.floats import vector
from bvh.geometry.arithmetic.predicates import orient2d, orient3d
from bvh.geometry.pairs.face_overlap import faces_overlap
from bvh.geometry.pairs.triangle_overlap import triangle_meets_box, triangles_touch
from bvh.geometry.region_overlap import (
    APART,
    UNSURE,
    box_and_sphere,
    polygon_capacity,
    triangle_and_planes,
    triangle_and_sphere,
)
from bvh.runtime.calls.entries import entry
from tests.cases import contact_pairs
from tests.oracles import overlaps as oracle
from tests.oracles.vectors import cross, dot, minus

PAIRS = 1200
EVERY = [(kind, scale) for kind in contact_pairs.KINDS for scale in contact_pairs.SCALES]


@entry
def touch_all(a, b, out):
    for i in range(len(out)):
        out[i] = triangles_touch(
            vector(a, 3 * i), vector(a, 3 * i + 1), vector(a, 3 * i + 2),
            vector(b, 3 * i), vector(b, 3 * i + 1), vector(b, 3 * i + 2),
        )  # fmt: skip


@entry
def overlap_all(a, b, out):
    for i in range(len(out)):
        out[i] = faces_overlap(
            (vector(a, 3 * i), vector(a, 3 * i + 1), vector(a, 3 * i + 2)),
            (vector(b, 3 * i), vector(b, 3 * i + 1), vector(b, 3 * i + 2)),
        )


@entry
def box_all(a, lower, upper, out):
    for i in range(len(out)):
        corners = vector(a, 3 * i), vector(a, 3 * i + 1), vector(a, 3 * i + 2)
        out[i] = triangle_meets_box(*corners, vector(lower, i), vector(upper, i))


@entry
def sphere_all(a, center, radius, out):
    for i in range(len(out)):
        corners = vector(a, 3 * i), vector(a, 3 * i + 1), vector(a, 3 * i + 2)
        out[i] = triangle_and_sphere(*corners, vector(center, i), radius[i])


@entry
def solid_all(lower, upper, center, radius, out):
    for i in range(len(out)):
        out[i] = box_and_sphere(vector(lower, i), vector(upper, i), vector(center, i), radius[i])


@entry
def planes_all(a, planes, count, out):
    scratch = np.empty(2 * polygon_capacity(count))
    for i in range(len(out)):
        corners = vector(a, 3 * i), vector(a, 3 * i + 1), vector(a, 3 * i + 2)
        out[i] = triangle_and_planes(*corners, planes, i * count, (i + 1) * count, scratch)


@entry
def orient_all(p, flat, solid):
    for i in range(len(flat)):
        a, b, c, d = (
            vector(p, 4 * i), vector(p, 4 * i + 1), vector(p, 4 * i + 2), vector(p, 4 * i + 3),
        )  # fmt: skip
        flat[i] = orient2d((a[0], a[1]), (b[0], b[1]), (c[0], c[1]))
        solid[i] = orient3d(a, b, c, d)


def asked(kernel: Any, n: int, *arrays: np.ndarray) -> np.ndarray:
    """Return what a kernel says of n pairs."""
    out = np.empty(n, np.int64)
    kernel(*(np.ascontiguousarray(array) for array in arrays), out)
    return out


def compare(answers: np.ndarray, truth: Callable[..., bool], *arrays: np.ndarray) -> None:
    """Compare answers with the truth, of which there must be both kinds."""
    rows = zip(*(array.tolist() for array in arrays), strict=True)
    wanted = np.array([truth(*row) for row in rows])
    assert np.flatnonzero(answers.astype(bool) != wanted).tolist() == []


@pytest.mark.parametrize(("kind", "scale"), EVERY)
def test_triangles(kind: str, scale: str, rng: np.random.Generator) -> None:
    """Two triangles, either way round."""
    a, b = contact_pairs.pairs_of(kind, scale, PAIRS, rng)
    found = asked(touch_all, len(a), a, b)
    compare(found, oracle.triangles_touch, a, b)
    assert np.array_equal(found, asked(touch_all, len(a), b[:, ::-1], a[:, [1, 2, 0]]))


@pytest.mark.parametrize(("kind", "scale"), EVERY)
def test_neighbours(kind: str, scale: str, rng: np.random.Generator) -> None:
    """Two faces that share none to three corners."""
    a, b = contact_pairs.pairs_of(kind, scale, PAIRS, rng)
    b = contact_pairs.glued(rng, a, b)
    found = asked(overlap_all, len(a), a, b)
    compare(found, oracle.faces_overlap, a, b)
    assert np.array_equal(found, asked(overlap_all, len(a), b[:, ::-1], a[:, [1, 2, 0]]))


@pytest.mark.parametrize(("kind", "scale"), EVERY)
def test_boxes(kind: str, scale: str, rng: np.random.Generator) -> None:
    """A triangle and a box, which may be flat, a segment or a point."""
    a, b = contact_pairs.pairs_of(kind, scale, PAIRS, rng)
    lower, upper = b[:, :2].min(axis=1), b[:, :2].max(axis=1)
    found = asked(box_all, len(a), a, lower, upper)
    compare(found, oracle.triangle_meets_box, a, lower, upper)


@pytest.mark.parametrize(("kind", "scale"), EVERY)
def test_spheres(kind: str, scale: str, rng: np.random.Generator) -> None:
    """A triangle and a ball; what is left open goes to rationals, and is little where loose."""
    a, b = contact_pairs.pairs_of(kind, scale, PAIRS // 2, rng)
    center = b[:, 0]
    radius = np.linalg.norm((b[:, 1] - b[:, 2]) / contact_pairs.SCALES[scale][0], axis=1)
    radius = np.floor(2.0 * radius) / 4.0 * contact_pairs.SCALES[scale][0]
    found = asked(sphere_all, len(a), a, center, radius)
    if kind == "loose" and scale in ("as is", "far"):
        assert np.count_nonzero(found == UNSURE) < 5
    settle(found, rational.triangle_meets_sphere, a, center, radius)
    compare(found, oracle.triangle_meets_sphere, a, center, radius)


def test_spheres_and_boxes(rng: np.random.Generator) -> None:
    """A box and a ball that touches it, or nearly."""
    low = rng.integers(-4, 4, (PAIRS, 3)).astype(float)
    high = low + rng.integers(0, 3, (PAIRS, 3))
    center = rng.integers(-5, 8, (PAIRS, 3)).astype(float)
    radius = rng.integers(0, 6, PAIRS).astype(float)
    found = asked(solid_all, PAIRS, low, high, center, radius)
    settle(found, rational.box_meets_sphere, np.stack([low, high], axis=1), center, radius)
    gap = np.maximum(np.maximum(low - center, center - high), 0.0)
    assert np.array_equal(found, (gap**2).sum(axis=1) <= radius**2)


@pytest.mark.parametrize("count", [1, 2, 4, 6])
@pytest.mark.parametrize(("kind", "scale"), EVERY)
def test_planes(kind: str, scale: str, count: int, rng: np.random.Generator) -> None:
    """A triangle and some half-spaces, through points of it or near it."""
    n = PAIRS // 8
    a, b = contact_pairs.pairs_of(kind, scale, n, rng)
    normals = rng.integers(-2, 3, (len(a), count, 3)).astype(float)
    if kind in ("loose", "grazing"):
        normals += rng.normal(size=normals.shape)
    through = np.where(rng.random((len(a), count, 1)) < 0.5, b[:, :1], a[:, 1:2])
    planes = np.concatenate([normals, -(normals * through).sum(axis=2, keepdims=True)], axis=2)
    found = np.empty(len(a), np.int64)
    planes_all(np.ascontiguousarray(a), planes, count, found)
    if kind == "loose" and scale == "as is":
        # Planes through a corner are left open where that corner alone may be inside.
        assert np.count_nonzero(found == UNSURE) < n // 2
    settle(found, rational.triangle_meets_planes, a, planes)
    compare(found, oracle.triangle_meets_planes, a, planes)


def settle(found: np.ndarray, truth: Callable[..., bool], *arrays: np.ndarray) -> None:
    """Replace UNSURE by what rationals say; APART and MEET are 0 and 1."""
    assert APART == 0
    for i in np.flatnonzero(found == UNSURE):
        found[i] = truth(*(array[i].tolist() for array in arrays))


def test_orientation(rng: np.random.Generator) -> None:
    """Signs of areas and volumes of points of all magnitudes, many of them dependent."""
    n = 4000
    p = rng.integers(-3, 4, (n, 4, 3)).astype(float)
    p[::4] = rng.normal(size=(n // 4, 4, 3)) * 2.0 ** rng.integers(-500, 500, (n // 4, 4, 3))
    p[1::4] = np.ldexp(p[1::4], rng.integers(-1000, 1000, (n // 4, 1, 1)))
    p[2::4, 3] = p[2::4, :3].mean(axis=1)
    flat, solid = np.empty(n, np.int64), np.empty(n, np.int64)
    orient_all(p.reshape(-1, 3), flat, solid)
    for i, points in enumerate(p.tolist()):
        (a, b, c, d), _ = oracle.scaled(*points)
        normal = cross(minus(b, a), minus(c, a))
        volume = dot(normal, minus(d, a))
        assert flat[i] == (normal[2] > 0) - (normal[2] < 0)
        assert solid[i] == (volume > 0) - (volume < 0)
