"""Rays through vertices and edges: each stage that decides them, against fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.geometry.arithmetic import edge_sides, predicates
from bvh.geometry.arithmetic.floats import are_equal_products, reach_of, unrounded, vector
from bvh.geometry.triangles import scaled_ray
from bvh.runtime.calls.entries import entry
from tests.cases.aims import features
from tests.cases.family_parts import fan, oblique, sphere, terrain
from tests.oracles import rays as oracle
from tests.oracles.confirmed import confirm, digest, is_confirmed

Array = np.ndarray[Any, Any]


@entry
def _volumes(p, q, r, low, known, values, exponents):
    for i in range(len(known)):
        x, y = vector(p, i), vector(low, i)
        decided, value, e = predicates.integer_volume(
            ((x[0], y[0]), (x[1], y[1]), (x[2], y[2])),
            unrounded(vector(q, i), 0), unrounded(vector(r, i), 0),
        )  # fmt: skip
        known[i], values[i, 0], values[i, 1], exponents[i] = decided, value[0], value[1], e


@entry
def _near(o, d, v, after, before, through, out):
    for i in range(len(through)):
        p, r = vector(o, i), vector(d, i)
        a, b, c = vector(v, i), vector(after, i), vector(before, i)
        scaled, floor, _, _ = scaled_ray(p, r, reach_of(a, b, c))
        near = edge_sides.passing(p, r, scaled, a)
        through[i] = near.through
        out[i, 0] = edge_sides._moment_side(near, floor, a, b)
        out[i, 1] = edge_sides._moment_side(near, floor, c, a)
        out[i, 2] = edge_sides.exact_side(p, r, scaled, floor, a, b)


@entry
def _equal(numbers, out):
    for i in range(len(out)):
        a, b, c, d = numbers[i, 0], numbers[i, 1], numbers[i, 2], numbers[i, 3]
        out[i] = are_equal_products(a, b, c, d)


def volume(p: Array, q: Array, r: Array) -> Fraction:
    """Return r . (p x q)."""
    x, y, z = ([Fraction(float(c)) for c in v] for v in (p, q, r))
    return sum((z[i] * (x[i - 2] * y[i - 1] - x[i - 1] * y[i - 2]) for i in range(3)), Fraction(0))


def vectors(kind: str, n: int, rng: np.random.Generator) -> Array:
    """Return (3, n, 3) vectors."""
    v = rng.integers(-(2**20), 2**20, (3, n, 3)).astype(float)
    if kind == "wide":
        v = rng.normal(size=(3, n, 3))
    elif kind == "extreme":
        v = v * 2.0 ** rng.integers(-300, 300, (3, n, 1)) * 2.0 ** rng.integers(-300, 300, (n, 3))
    elif kind == "flat":
        v[:2, np.arange(n), rng.integers(0, 3, n)] = 0.0
        v[2] = rng.normal(size=(n, 3))
    elif kind == "dependent":
        v[2] = v[0] * rng.integers(-9, 9, (n, 1)) + v[1] * rng.integers(-9, 9, (n, 1))
    elif kind == "axes":
        v[:2] = rng.normal(size=(2, n, 3))
        v[:2, :, 1:] = rng.integers(-9, 9, (2, n, 2))
        v[2] = [0.0, 0.0, -1.0]
    elif kind == "bits":
        v = rng.integers(0, 2**64, (3, n, 3), dtype=np.uint64).view(np.float64)
        v = np.where(np.isfinite(v), v, 0.0)
    return v


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("kind", ["grid", "wide", "extreme", "flat", "dependent", "bits", "axes"])
def test_volumes_by_integers(kind: str, low: bool, rng: np.random.Generator) -> None:
    """They are right to 2**-105 where they are told, zero only where it is; on grids always."""
    n = 2000
    p, q, r = vectors(kind, n, rng)
    # Low parts of a few bits, of some components.
    rest = np.spacing(p) * rng.integers(-1, 2, (n, 3)) / 4 * low * (p != 0.0)
    rest[~np.isfinite(rest)] = 0.0
    known, values, exponents = np.empty(n, bool), np.empty((n, 2)), np.empty(n, np.int64)
    _volumes(p, q, r, rest, known, values, exponents)
    case = digest("volumes", p, q, r, rest, known, values[known], exponents[known])
    for i in np.flatnonzero(known & (not is_confirmed(case))):
        exact = volume(p[i], q[i], r[i]) + volume(rest[i], q[i], r[i])
        got = (Fraction(values[i, 0]) + Fraction(values[i, 1])) * Fraction(2) ** int(exponents[i])
        assert abs(got - exact) <= abs(exact) * Fraction(2) ** -105
    confirm(case)
    least = 0.2 if low or kind == "axes" else 1.0
    assert known.mean() >= least or kind in ("wide", "bits")


@pytest.mark.parametrize("scale", [1.0, 2.0**-400, 2.0**400])
def test_sides_at_a_vertex(scale: float, rng: np.random.Generator) -> None:
    """Of rays that pass exactly through, or near, in every digit: nothing decided is wrong."""
    n = 2000
    v, after, before, o = rng.normal(size=(4, n, 3)) * 10.0 ** rng.integers(-3, 4, (4, n, 1))
    d = v - o
    d[::3] = rng.integers(-9, 10, (len(d[::3]), 3)) + 0.5
    o[::3] = v[::3] - d[::3] * 2.0 ** rng.integers(-3, 4, (len(d[::3]), 1))
    o[1::9] = v[1::9] + [0.0, 0.0, 1e3]
    d[1::9] = [0.0, 0.0, -1.0]
    through, sides = np.empty(n, bool), np.empty((n, 3), np.int64)
    o, v, after, before = o * scale, v * scale, after * scale, before * scale
    _near(o, d, v, after, before, through, sides)
    case = digest("sides at vertices", o, d, v, after, before, through, sides)
    for i in range(0 if is_confirmed(case) else n):
        off = [Fraction(float(x)) - Fraction(float(y)) for x, y in zip(v[i], o[i], strict=True)]
        x, y, z = (Fraction(float(c)) for c in d[i])
        moment = y * off[2] - z * off[1], z * off[0] - x * off[2], x * off[1] - y * off[0]
        want = oracle.triple_sign(o[i], d[i], v[i], after[i])
        assert through[i] == (not any(moment))
        assert sides[i, 0] in (0, want) and sides[i, 2] == want
        assert sides[i, 1] in (0, oracle.triple_sign(o[i], d[i], before[i], v[i]))
    confirm(case)
    assert through.mean() > 0.2 and np.count_nonzero(sides[~through, :2]) > through.sum()


def test_equal_products() -> None:
    """Rounded, lost to underflow, or too large, products that differ are never taken for equal."""
    tiny, huge = 5e-324, 1.7e308
    rows = {
        (3.0, 7.0, 21.0, 1.0): True, (0.1, 0.3, 0.3, 0.1): True, (0.1, 3.0, 0.3, 1.0): False,
        (0.0, 5.0, -7.0, 0.0): True, (tiny, 0.5, 0.0, 1.0): False, (tiny, 0.1, tiny, 0.2): False,
        (huge, 2.0, huge, 3.0): False, (0.0, 0.0, tiny, tiny): False,
    }  # fmt: skip
    out = np.empty(len(rows), bool)
    _equal(np.array(list(rows)), out)
    assert out.tolist() == list(rows.values())


def aimed(kind: str, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Return a mesh, and rays aimed at its vertices and edges."""
    vertices, faces = terrain(8, np.round(rng.uniform(0, 30, 81), 3))
    eye = np.array([13.37, -40.2, 300.0])
    if kind == "map":
        vertices, eye = vertices * [10, 10, 1], eye + [447312.4, 5411208.7, 800.123]
        vertices = vertices + [447312.4, 5411208.7, 800.123]
    elif kind == "sphere":
        vertices, faces = sphere()
        eye = np.array([2.1, 1.7, 1.3])
    elif kind == "fan":
        vertices, faces = fan(24, 0.25)
        eye = np.array([0.0, 0.0, 3.0])
    elif kind == "tiny":
        vertices, eye = vertices * 1e-140, eye * 1e-140
    targets = features(vertices, faces, rng)
    o = np.broadcast_to(eye, targets.shape).copy()
    d = targets - o
    # Straight down, from heights that rounding moves, and along diagonals.
    o[::4] = targets[::4] + [0.0, 0.0, 2000.0]
    d[::4] = [0.0, 0.0, -1.0]
    o[1::4] = targets[1::4] + 64.0
    d[1::4] = -1.0
    return vertices, faces, o, d


@pytest.mark.parametrize("kind", ["grid", "map", "sphere", "fan", "tiny"])
def test_hits_of_vertices_and_edges(kind: str, rng: np.random.Generator) -> None:
    """A tree, a scene and `ray_triangle` tell the same hits as rational numbers do."""
    vertices, faces, o, d = aimed(kind, rng)
    want = oracle.closest_hit(vertices, faces, o, d)
    tree, scene = bvh.BVH.from_triangles(vertices, faces), bvh.Scene()
    scene.add(tree)
    for hits in (tree.closest_hit(o, d), scene.closest_hit(o, d), tree.closest_hit(o[:2], d[:2])):
        n = len(hits.t)
        assert np.array_equal(hits.t, want.t[:n])
        assert np.array_equal(hits.prim_id, want.prim_id[:n])
        assert np.array_equal(hits.front, want.front[:n])
        # Where a weight is zero both are rounded correctly.
        for got, exact in ((hits.u, want.u[:n]), (hits.v, want.v[:n])):
            assert np.array_equal(got == 0.0, exact == 0.0)
            np.testing.assert_allclose(got, exact, rtol=1e-15, atol=0)
    hit = want.prim_id >= 0
    assert hit.mean() > 0.3
    corners = vertices[faces[want.prim_id[hit]]]
    alone = bvh.ray_triangle(o[hit], d[hit], *corners.swapaxes(0, 1))
    assert alone.hit.all() and np.array_equal(alone.t, want.t[hit])
    np.testing.assert_allclose(alone.u, want.u[hit], rtol=1e-15, atol=0)


def test_ties_at_a_vertex(rng: np.random.Generator) -> None:
    """They go to the lowest id, of faces of any order, whatever is found first."""
    vertices, faces = fan(64, 0.25)
    tree = bvh.BVH.from_triangles(vertices, rng.permutation(faces))
    d = oblique(60, rng)
    hits = tree.closest_hit(-2.0 * d, d)
    want = oracle.closest_hit(vertices, tree.faces, -2.0 * d, d)
    assert np.array_equal(hits.prim_id, want.prim_id) and np.array_equal(hits.t, want.t)


@pytest.mark.parametrize("order", range(24))
def test_edge_without_length(order: int) -> None:
    """It is on no ray, and does not make faces meet that have its vertex: sheets near a vertex."""
    vertices = np.array(
        [[0, 0, 0], [4, -4, 0], [4, 4, 0], [4, -4, 4], [4, 4, 4], [-4, -4, 0], [-4, 4, 0]], float
    )
    faces = np.array([[0, 0, 5], [0, 1, 2], [0, 3, 4], [0, 5, 6]])
    faces = faces[list(list(permutations(range(4)))[order])]
    o, d = np.array([[2.0**-50, 2.0**-52, 1.0]]), np.array([[0.0, 0.0, -1.0]])
    want = oracle.closest_hit(vertices, faces, o, d)
    hits = bvh.BVH.from_triangles(vertices, faces).closest_hit(o, d)
    assert want.t[0] < 1.0 and hits.t[0] == want.t[0] and hits.prim_id[0] == want.prim_id[0]
