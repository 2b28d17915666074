"""The oracle itself: worked by hand, against twins that compute otherwise, and against floats."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import trimesh

from tests.cases.aims import features, random_rays
from tests.cases.box_families import BOX_FAMILIES, build_boxes
from tests.cases.families import FAMILIES, build, cube, octahedron, sphere
from tests.oracles import rays as oracle
from tests.oracles.rays import LARGEST, SMALLEST, Hit

INF, NAN = math.inf, math.nan
UP = (0, 0, 0), (4, 0, 0), (0, 4, 0)
BOX = (0, 0, 0), (2, 1, 1)


@pytest.mark.parametrize(
    ("o", "d", "extra", "want"),
    [
        # Inside, on an edge, at each vertex, just past them.
        ((1, 2, 3), (0, 0, -1), {}, Hit(3.0, 0.25, 0.5, True)),
        ((1, 2, -3), (0, 0, 2), {}, Hit(1.5, 0.25, 0.5, False)),
        ((2, 2, 1), (0, 0, -1), {}, Hit(1.0, 0.5, 0.5, True)),
        ((-1, -1, 1), (1, 1, -1), {}, Hit(1.0, 0.0, 0.0, True)),
        ((4, 0, 7), (0, 0, -1), {}, Hit(7.0, 1.0, 0.0, True)),
        ((0, 4, 7), (0, 0, -1), {}, Hit(7.0, 0.0, 1.0, True)),
        ((math.nextafter(4, 5), 0, 7), (0, 0, -1), {}, None),
        ((1, -SMALLEST, 7), (0, 0, -1), {}, None),
        # In the plane, parallel to it, away from it.
        ((-1, 1, 0), (1, 0, 0), {"t_min": -INF}, None),
        ((1, 1, 0), (1, 0, 0), {"t_min": -INF}, None),
        ((1, 1, SMALLEST), (1, 0, 0), {"t_min": -INF}, None),
        ((1, 1, 1), (0, 0, 1), {}, None),
        ((1, 1, 1), (0, 0, 1), {"t_min": -INF}, Hit(-1.0, 0.25, 0.25, False)),
        # Both ends of the range are closed, and compared with the rounded t.
        ((1, 1, 0), (0, 0, 1), {}, Hit(0.0, 0.25, 0.25, False)),
        ((1, 1, -0.0), (0, 0, -1), {}, Hit(0.0, 0.25, 0.25, True)),
        ((1, 1, 0), (0, 0, 1), {"t_min": SMALLEST}, None),
        ((1, 1, 1), (-0.0, 0.0, -3), {"t_max": 1 / 3}, Hit(1 / 3, 0.25, 0.25, True)),
        ((1, 1, 1), (0, 0, -3), {"t_max": math.nextafter(1 / 3, 0)}, None),
        ((1, 1, 1), (0, 0, -1), {"t_min": 1.0, "t_max": 1.0}, Hit(1.0, 0.25, 0.25, True)),
        ((1, 1, 1), (0, 0, -1), {"t_min": 2.0, "t_max": 1.0}, None),
        ((1, 1, 1), (0, 0, -1), {"t_max": NAN}, None),
        # t leaves the doubles and stops at their ends.
        ((1, 1, 1), (0, 0, -SMALLEST), {}, Hit(LARGEST, 0.25, 0.25, True)),
        ((1, 1, SMALLEST), (0, 0, -1e9), {}, Hit(SMALLEST, 0.25, 0.25, True)),
        ((1, 1, -SMALLEST), (0, 0, -1e9), {"t_min": -1}, Hit(-SMALLEST, 0.25, 0.25, True)),
        ((1, 1, -SMALLEST), (0, 0, -1e9), {}, None),
        # Culling.
        ((1, 2, 3), (0, 0, -1), {"cull": "back"}, Hit(3.0, 0.25, 0.5, True)),
        ((1, 2, 3), (0, 0, -1), {"cull": "front"}, None),
        ((1, 2, -3), (0, 0, 1), {"cull": "back"}, None),
        # No rays.
        ((1, 2, 3), (0, -0.0, 0), {}, None),
        ((1, 2, 3), (0, NAN, -1), {}, None),
        ((INF, 2, 3), (0, 0, -1), {}, None),
    ],
)
def test_triangle_by_hand(o: Any, d: Any, extra: dict[str, Any], want: Hit | None) -> None:
    """A right triangle in the plane z = 0, facing up."""
    got = oracle.ray_triangle(o, d, *UP, **extra)
    assert got == want
    # Zero comes without a sign.
    assert got is None or math.copysign(1.0, got.t) == (-1.0 if got.t < 0 else 1.0)


@pytest.mark.parametrize(
    "corners",
    [[(0, 0, 0)] * 3, [(0, 0, 0), (1, 1, 0), (3, 3, 0)], [(0, 0, 0), (1, 0, 0), (0, NAN, 0)]],
)
def test_triangle_that_cannot_be_hit(corners: Any) -> None:
    """Faces without area, and faces that are not finite."""
    for x, d in itertools.product((0, 1), ((0, 0, -1), (0, 1, -1), (1, 1, -1))):
        assert oracle.ray_triangle((x, x, 1), d, *corners, -INF, INF) is None


@pytest.mark.parametrize(
    ("o", "d", "extra", "want"),
    [
        ((-1, 0.5, 0.5), (2, 0, 0), {}, (0.5, 1.5)),
        ((1, 0.5, 0.5), (1, 0, 0), {}, (0.0, 1.0)),
        ((1, 0.5, 0.5), (1, 0, 0), {"t_min": -INF}, (-1.0, 1.0)),
        ((3, 0.5, 0.5), (1, 0, 0), {}, None),
        # Along an edge, in a face, through a corner, one ulp off.
        ((-1, 1, 1), (1, -0.0, 0), {}, (1.0, 3.0)),
        ((-1, 0, 0.5), (1, 0, -0.0), {}, (1.0, 3.0)),
        ((-1, math.nextafter(1, 2), 1), (1, 0, 0), {}, None),
        ((-1, -1, -1), (3, 3, 3), {"t_max": 1 / 3}, (1 / 3, 1 / 3)),
        ((-1, 2, 0.5), (3, -3, 0), {}, (1 / 3, 2 / 3)),
        ((1, 2, 0.5), (1, -1, 0), {}, (1.0, 1.0)),
        ((1, math.nextafter(2, 3), 0.5), (1, -1, 0), {}, None),
        # Closed ranges.
        ((-1, 0.5, 0.5), (1, 0, 0), {"t_max": 1.0}, (1.0, 1.0)),
        ((-1, 0.5, 0.5), (1, 0, 0), {"t_min": 3.0}, (3.0, 3.0)),
        ((-1, 0.5, 0.5), (1, 0, 0), {"t_min": math.nextafter(3, 4)}, None),
        ((-1, 0.5, 0.5), (1, 0, 0), {"t_min": 2, "t_max": 1}, None),
        # Boxes that are flat, open, inverted, nowhere.
        ((-1, 0, 0), (1, 0, 0), {"upper": (0, 0, 0)}, (1.0, 1.0)),
        ((-1, 0, 0), (1, 1, 0), {"upper": (INF, INF, INF)}, (1.0, INF)),
        ((-1, 9, 0), (1, 0, 0), {"lower": (-INF,) * 3, "upper": (INF,) * 3}, (0.0, INF)),
        ((-1, 0, 0), (1, 0, 0), {"lower": (INF, 0, 0), "upper": (INF, 0, 0)}, None),
        ((-1, 0, 0), (1, 0, 0), {"upper": (2, -1, 1)}, None),
        ((-1, 0, 0), (1, 0, 0), {"upper": (2, NAN, 1)}, None),
        # Saturation.
        ((-1, 0, 0), (SMALLEST, 0, 0), {}, (LARGEST, LARGEST)),
        ((-SMALLEST, 0, 0), (1e9, 0, 0), {}, (SMALLEST, 2e-9)),
    ],
)
def test_box_by_hand(o: Any, d: Any, extra: dict[str, Any], want: Any) -> None:
    """A box of 2 x 1 x 1 at the origin."""
    hit, *ends = oracle.ray_box(o, d, **{"lower": BOX[0], "upper": BOX[1], **extra})
    assert hit == (want is not None)
    assert (tuple(ends) == want) if hit else np.isnan(ends).all()


def test_nearest_box_by_hand() -> None:
    """The lowest id of those that are entered, or left behind, first."""
    lower = [[2, 0, 0], [1, 0, 0], [1, 0, 0], [NAN, 0, 0], [-INF, 0, 0]]
    upper = [[3, 1, 1], [2, 1, 1], [3, 1, 1], [1, 1, 1], [1, 1, 1]]
    o = [[0, 0, 0], [0, 0, 0], [2, 0, 0], [9, 0, 0], [0, 2, 0]]
    d = [[1, 0, 0], [1, 0, 0], [1, 0, 0], [-1, 0, 0], [1, 0, 0]]
    hits = oracle.closest_hit_boxes(lower, upper, o, d, [0, 1.5, 0, 0, 0])
    assert hits.prim_id.tolist() == [1, 1, 0, 0, -1]
    assert hits.t.tolist() == [1.0, 1.5, 0.0, 6.0, INF]
    assert hits.front.tolist() == [True, False, True, True, False]


def test_hits_by_hand() -> None:
    """Two equal layers and a third below, with a face between that is not finite."""
    layer = np.array(UP, np.float64)
    spoiled = layer + [0, 0, NAN]
    vertices = np.concatenate([layer - [0, 0, 1], spoiled, layer, layer[::-1]])
    faces = np.arange(12).reshape(-1, 3)
    o, d = [[1, 1, 1], [1, 1, 1], [9, 9, 1]], [[0, 0, -1], [0, 0, 1], [0, 0, -1]]
    hits = oracle.closest_hit(vertices, faces, o, d)
    assert hits.prim_id.tolist() == [2, -1, -1]
    assert hits.t.tolist() == [1.0, INF, INF]
    assert hits.front.tolist() == [True, False, False]
    assert hits.u[0] == 0.25 and np.isnan(hits.u[1:]).all() and np.isnan(hits.v[1:]).all()
    assert oracle.closest_hit(vertices, faces, o, d, cull="front").prim_id.tolist() == [3, -1, -1]
    every = oracle.all_hits(vertices, faces, o, d, -INF)
    assert every.ray_id.tolist() == [0, 0, 0, 1, 1, 1]
    assert every.prim_id.tolist() == [2, 3, 0, 0, 2, 3]
    assert every.t.tolist() == [1, 1, 2, -2, -1, -1]
    with pytest.raises(ValueError, match="cull"):
        oracle.closest_hit(vertices, faces, o, d, cull="both")


def test_rounding_is_that_of_the_hardware(rng: np.random.Generator) -> None:
    """IEEE division rounds correctly, too: compare bits, saturation aside."""
    bits = rng.integers(0, 2**64, (2, 4_000), dtype=np.uint64)
    # Quotients near and below the smallest normal number, where rounding is rarest tested.
    bits[:, ::2] &= np.uint64(0x803FFFFFFFFFFFFF)
    bits[1, ::4] |= np.uint64(0x3FF0000000000000)
    a, b = bits.view(np.float64)
    with np.errstate(all="ignore"):
        quotients = a / b
    kinds = {"subnormal": 0, "normal": 0, "saturated": 0}
    for x, y, q in zip(a.tolist(), b.tolist(), quotients.tolist(), strict=True):
        if not (math.isfinite(x) and math.isfinite(y)) or x == 0 or y == 0:
            continue
        want = math.copysign(min(max(abs(q), SMALLEST), LARGEST), q)
        assert oracle.round_fraction(Fraction(x) / Fraction(y)) == want
        low = abs(q) < 2.0**-1022
        kinds["saturated" if q == 0 or math.isinf(q) else "subnormal" if low else "normal"] += 1
    assert min(kinds.values()) > 100


def test_rounding_by_hand() -> None:
    """Ties go to even, in normal and denormal numbers; the ends saturate."""
    half = Fraction(1, 2)
    for n, want in ((2**53 + half, 2.0**53), (2**53 + 1, 2.0**53), (2**53 + 3, 2.0**53 + 4)):
        assert oracle.round_fraction(Fraction(n)) == want
        assert oracle.round_fraction(Fraction(-n)) == -want
    tiny = Fraction(1, 2**1074)
    for n, want in ((half, 1), (3 * half, 2), (5 * half, 2), (7 * half, 4), (tiny, 1)):
        assert oracle.round_fraction(n * tiny) == want * SMALLEST
    for n in (Fraction(LARGEST) + 2**969, Fraction(2**1024), Fraction(10) ** 400):
        assert oracle.round_fraction(n) == LARGEST
        assert oracle.round_fraction(-n) == -LARGEST
    assert math.copysign(1.0, oracle.round_quotient(0, -5)) == 1.0


def by_cramer(o: Any, d: Any, corners: Any) -> Hit | None:
    """Solve o + t d = v0 + u e1 + v e2 in fractions: another way to the same hit."""
    o, d, v0, v1, v2 = ([Fraction(x) for x in p] for p in (o, d, *corners))
    columns = [[-x for x in d], [b - a for a, b in zip(v0, v1, strict=True)]]
    columns.append([b - a for a, b in zip(v0, v2, strict=True)])
    right = [a - b for a, b in zip(o, v0, strict=True)]

    def determinant(a: Any, b: Any, c: Any) -> Fraction:
        return sum(
            a[i] * (b[(i + 1) % 3] * c[(i + 2) % 3] - b[(i + 2) % 3] * c[(i + 1) % 3])
            for i in range(3)
        )  # fmt: skip

    whole = determinant(*columns)
    if whole == 0:
        return None
    t, u, v = (
        determinant(*[right if i == j else columns[j] for j in range(3)]) / whole for i in range(3)
    )
    if u < 0 or v < 0 or u + v > 1:
        return None
    return Hit(*map(oracle.round_fraction, (t, u, v)), whole > 0)


@pytest.mark.parametrize("name", FAMILIES)
def test_triangles_twice(name: str) -> None:
    """In every family Cramer's rule agrees, and what the filter discards is missed."""
    family = build(name)
    corners = family.vertices[family.faces]
    corners = corners[np.isfinite(corners).all(axis=(1, 2))]
    for i in range(0, len(family.origins), 20):
        o, d = family.origins[i].tolist(), family.directions[i].tolist()
        if not oracle.is_ray(o, d, 0.0, 1.0):
            continue
        missed = oracle.surely_missed(o, d, corners)
        for j, triangle in enumerate(corners[:32].tolist()):
            hit = oracle.ray_triangle(o, d, *triangle, -INF, INF)
            assert hit == by_cramer(o, d, triangle)
            assert hit is None or not missed[j]
            signs = [oracle.triple_sign(o, d, triangle[k - 1], triangle[k]) for k in range(3)]
            assert (hit is not None) == (any(signs) and min(signs) * max(signs) >= 0)


@pytest.mark.parametrize("name", BOX_FAMILIES)
def test_boxes_twice(name: str) -> None:
    """Three intervals have a common point when every two of them have (Helly)."""
    family = build_boxes(name)
    for i in range(0, len(family.origins), 20):
        o, d = family.origins[i].tolist(), family.directions[i].tolist()
        if not oracle.is_ray(o, d, 0.0, 1.0):
            continue
        for low, high in zip(family.lower.tolist(), family.upper.tolist(), strict=True):
            if not np.isfinite([low, high]).all() or not np.less_equal(low, high).all():
                continue
            slabs = [
                sorted(
                    (Fraction(bound[axis]) - Fraction(o[axis])) / Fraction(d[axis])
                    for bound in (low, high)
                )
                for axis in range(3)
                if d[axis] != 0
            ]
            meets = all(low[k] <= o[k] <= high[k] for k in range(3) if d[k] == 0)
            meets = meets and all(a[0] <= b[1] for a in slabs for b in slabs)
            stay = oracle.box_interval(o, d, low, high)
            assert (stay is not None) == meets
            if stay is not None:
                assert stay[0] == max(oracle.round_fraction(slab[0]) for slab in slabs)
                assert stay[1] == min(oracle.round_fraction(slab[1]) for slab in slabs)


@pytest.mark.parametrize("levels", [1, 2])
def test_floats_agree_on_ordinary_rays(rng: np.random.Generator, levels: int) -> None:
    """At random rays, which meet no edge, floating point is right but for rounding."""
    vertices, faces = sphere(levels)
    o, d = random_rays(vertices.min(axis=0), vertices.max(axis=0), 300, rng)
    exact = oracle.closest_hit(vertices, faces, o, d)
    rough = oracle.closest_hit_float(vertices, faces, o, d)
    assert np.array_equal(rough.prim_id, exact.prim_id)
    assert np.array_equal(rough.front, exact.front)
    for ours, true in zip((rough.t, rough.u, rough.v), (exact.t, exact.u, exact.v), strict=True):
        np.testing.assert_allclose(ours, true, rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(exact.prim_id >= 0) > 100


def test_queries_agree(rng: np.random.Generator) -> None:
    """The first of all hits is the closest, and any_hit tells whether there is one."""
    vertices, faces = sphere(1)
    o, d = random_rays(vertices.min(axis=0), vertices.max(axis=0), 100, rng)
    closest = oracle.closest_hit(vertices, faces, o, d)
    every = oracle.all_hits(vertices, faces, o, d)
    assert np.array_equal(oracle.any_hit(vertices, faces, o, d), closest.prim_id >= 0)
    rays, first = np.unique(every.ray_id, return_index=True)
    assert np.array_equal(rays, np.flatnonzero(closest.prim_id >= 0))
    assert np.array_equal(every.prim_id[first], closest.prim_id[rays])
    assert np.array_equal(every.t[first], closest.t[rays])
    assert np.array_equal(every.u[first], closest.u[rays])
    assert np.array_equal(np.lexsort((every.prim_id, every.t, every.ray_id)), range(len(every.t)))


def test_no_ray_leaves_a_closed_mesh(rng: np.random.Generator) -> None:
    """Rays from inside an icosahedron, at its vertices, edges and midpoints, all hit."""
    mesh = trimesh.creation.icosahedron()
    vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    target = features(vertices, faces, rng)
    for o in np.concatenate([np.zeros((1, 3)), rng.uniform(-0.4, 0.4, (6, 3))]):
        hits = oracle.closest_hit(vertices, faces, o, target - o)
        assert (hits.prim_id >= 0).all()
        assert not hits.front.any()
        np.testing.assert_allclose(hits.t, 1.0, rtol=1e-14)


@pytest.mark.parametrize("mesh", [cube(1.0), octahedron(2.0), sphere(1), sphere(2)])
def test_shapes_are_closed_and_face_outward(mesh: Any) -> None:
    """Every edge is used once in each direction, and the volume is positive."""
    vertices, faces = mesh
    edges = np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2).tolist()
    assert sorted(edges) == sorted(edge[::-1] for edge in edges)
    assert len(set(map(tuple, edges))) == len(edges)
    assert np.linalg.det(vertices[faces]).min() > 0


def same(a: Any, b: Any) -> bool:
    """Compare families to the last bit, NaNs included."""
    pairs = [(getattr(a, field.name), getattr(b, field.name)) for field in fields(a)]
    return all(
        np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs if x is not None
    )


@pytest.mark.parametrize("name", [*FAMILIES, *(f"boxes {name}" for name in BOX_FAMILIES)])
def test_families_are_small_and_repeatable(name: str) -> None:
    """The same seed gives the same family, another seed another one."""
    make, key = (build_boxes, name[6:]) if name.startswith("boxes ") else (build, name)
    family = make(key)
    assert same(family, make(key))
    assert not same(family, make(key, 1))
    assert 20 <= len(family.origins) <= 150
    assert family.origins.shape == family.directions.shape == (len(family.origins), 3)
    assert len(family.lower if make is build_boxes else family.faces) <= 400
