"""Families whose meshes are the trouble: degenerate, scaled, thin, tied; ranges and culling."""

from __future__ import annotations

import numpy as np

from tests.cases.aims import features
from tests.cases.family_parts import (
    INF,
    NAN,
    TINY,
    Family,
    Mesh,
    Rng,
    aimed,
    any_numbers,
    axes,
    cube,
    family,
    fan,
    grid,
    layers,
    made,
    merged,
    mesh_of,
    oblique,
    octahedron,
    points_on,
    rotation,
    shuffled,
    some,
    soup,
    sphere,
    terrain,
    units,
)

# Degenerate meshes


def without_area(kind: str, rng: Rng) -> Mesh:
    steps = np.array([[0.0], [1.0], [3.0], [7.0]])
    points = {
        "repeated": np.eye(3)[[0, 1, 1, 2]],
        "collinear": steps * [1, 2, -1],
        "rounded": steps * rng.uniform(0.1, 1, 3),
        "point": np.ones((4, 3)) * rng.uniform(0, 1, 3),
    }[kind]
    repeated = [[0, 1, 1], [0, 0, 1], [0, 1, 0], [2, 2, 2], [1, 2, 3]]
    return mesh_of(points, repeated if kind == "repeated" else [[0, 1, 2], [2, 0, 3], [3, 1, 0]])


@family("without_area", "repeated", "collinear", "rounded", "point")
def only_without_area(rng: Rng, value: str) -> Family:
    mesh = without_area(value, rng)
    o = np.concatenate([rng.integers(-3, 4, (20, 3)), rng.normal(size=(20, 3))])
    return made(mesh, o, some(features(*mesh, rng), 40, rng) - o, -INF)


@family("without_area_among_good")
def without_area_among_good(rng: Rng) -> Family:
    bad = [without_area(kind, rng) for kind in ("repeated", "collinear", "rounded", "point")]
    mesh = shuffled(merged(sphere(), *bad, cube(0.5)), rng)
    return made(mesh, *aimed(mesh, 80, rng))


@family("spoiled_vertices", NAN, INF, -INF)
def spoiled_vertices(rng: Rng, value: float) -> Family:
    vertices, faces = sphere()
    o, d = aimed((vertices, faces), 80, rng)
    vertices[rng.integers(0, len(vertices), 3), rng.integers(0, 3, 3)] = value
    return made((vertices, faces), o, d)


@family("nothing_to_hit", "no_faces", "all_spoiled", "unused_spoiled")
def nothing_to_hit(rng: Rng, value: str) -> Family:
    vertices, faces = octahedron(1.0)
    o, d = aimed((vertices, faces), 30, rng)
    if value == "no_faces":
        faces = faces[:0]
    elif value == "all_spoiled":
        vertices[:, 1] = NAN
    else:
        vertices = np.concatenate([vertices, [[NAN, INF, 0.0]]])
    return made((vertices, faces), o, d)


# Scales


@family("scale", 1e-150, 1e-30, 1e30, 1e150)
def scale(rng: Rng, value: float) -> Family:
    vertices, faces = sphere()
    o, d = aimed((vertices, faces), 80, rng)
    return made((vertices * value, faces), o * value, d * rng.choice([1.0, value], (80, 1)))


@family("geo_offset", 1e6, 1e7, 1e8)
def geo_offset(rng: Rng, value: float) -> Family:
    """Put details of millimetres where map projections put them."""
    vertices, faces = terrain(6, rng.uniform(0, 1, 49))
    mesh = vertices * 1e-3 + value * rng.uniform(0.5, 1, 3), faces
    o, d = aimed(mesh, 80, rng)
    o[::4] = some(mesh[0], 20, rng) + [0, 0, 1.0]
    d[::4] = [0, 0, -1.0]
    return made(mesh, o, d)


@family("mixed_scales", 1e3, 1e30, 1e75)
def mixed_scales(rng: Rng, value: float) -> Family:
    """Nest meshes far apart in size."""
    vertices, faces = octahedron(1.0)
    mesh = shuffled(merged(*[(vertices * value**k, faces) for k in (-2, -1, 0, 1, 2)]), rng)
    targets = some(features(*mesh, rng), 90, rng)
    o = units(90, rng) * 3 * value ** rng.integers(-2, 3, (90, 1))
    return made(mesh, o, targets - o)


@family("huge_ground", 1e4, 1e9)
def huge_ground(rng: Rng, value: float) -> Family:
    vertices, faces = sphere()
    ground = soup([[[-value, -value, 0], [value, -value, 0], [0, 2 * value, 0]]])
    mesh = merged(ground, (vertices * 1e-3 + [1, 1, 1e-3], faces))
    o, d = aimed((mesh[0][3:], faces), 80, rng)
    o[::3] = rng.uniform(-value, value, (27, 3))
    d[::3] = mesh[0][rng.integers(0, 3, 27)] - o[::3]
    return made(mesh, o, d)


@family("aspect", 1e-3, 1e-6, 1e-12)
def aspect(rng: Rng, value: float) -> Family:
    vertices, faces = sphere()
    mesh = vertices * [1, value, value**2], faces
    o, d = aimed(mesh, 80, rng)
    return made(mesh, o, np.where(rng.random((80, 1)) < 0.7, d, axes(80, rng)))


@family("t_range_of_doubles", "overflow", "underflow", "subnormal")
def t_range_of_doubles(rng: Rng, value: str) -> Family:
    """Let t leave the range of doubles: all hits of a ray tie there."""
    size, length = {
        "overflow": (1e150, 1e-200), "underflow": (1e-150, 1e200), "subnormal": (1e-9, 1e302)
    }[value]  # fmt: skip
    vertices, faces = shuffled(merged(sphere(), octahedron(0.5)), rng)
    o, d = aimed((vertices, faces), 80, rng)
    at_bound = rng.choice([np.finfo(float).max, INF, 1e-310], 80)
    low = rng.choice([0.0, TINY, -INF], 80)
    return made((vertices * size, faces), o * size, d * length, low, at_bound)


@family("beyond_largest")
def beyond_largest(rng: Rng) -> Family:
    vertices, faces = sphere()
    o, d = aimed((vertices, faces), 60, rng)
    d = d * rng.choice([1.0, 1e-300, 4e307], (60, 1))
    return made((vertices * 1.7e308, faces), o * 5e307, d)


@family("beyond_denormal")
def beyond_denormal(rng: Rng) -> Family:
    vertices, faces = merged(cube(2.0), octahedron(8.0))
    d = oblique(60, rng, 3)
    o = points_on((vertices, faces), 60, rng, "vertex") - d
    return made((vertices * TINY, faces), o * TINY, d * rng.choice([1.0, TINY], (60, 1)))


# Needles and grazing


@family("needles", 1e-6, 1e-12, 1e-15)
def needles(rng: Rng, value: float) -> Family:
    base, along = rng.uniform(-1, 1, (30, 3)), units(30, rng)
    across = value * np.cross(along, [0.3, -0.5, 0.8])
    mesh = soup(np.stack([base, base + along, base + along / 2 + across], axis=1))
    o = rng.uniform(-2, 2, (80, 3))
    return made(mesh, o, points_on(mesh, 80, rng) - o)


@family("slivers", 1e-6, 1e-12)
def slivers(rng: Rng, value: float) -> Family:
    """Squeeze a bumpy strip in one direction and turn it."""
    vertices, faces = terrain(6, rng.uniform(0, 1, 49))
    mesh = (vertices * [1, value, 1]) @ rotation(rng).T, faces
    return made(mesh, *aimed(mesh, 80, rng, inside=False))


@family("needle_prism", 1e-9, 1e-14)
def needle_prism(rng: Rng, value: float) -> Family:
    base = np.array([[0, 0, 0], [1, 0, 0], [0.5, 0.75**0.5, 0]]) * value
    points = np.concatenate([base, base + [0, 0, 1.0]]) @ rotation(rng).T
    sides = [f for i, j in ((0, 1), (1, 2), (2, 0)) for f in ([i, j, j + 3], [i, j + 3, i + 3])]
    mesh = mesh_of(points, [[0, 2, 1], [3, 4, 5], *sides])
    o = np.repeat(rng.dirichlet([1] * 6, 40) @ points, 2, axis=0)
    return made(mesh, o, some(features(*mesh, rng), 80, rng) - o)


@family("grazing", 1e-8, 1e-12, 1e-16)
def grazing(rng: Rng, value: float) -> Family:
    """Cross a plane at next to no angle, at features and elsewhere."""
    mesh = grid(4)
    d = np.column_stack([oblique(90, rng)[:, :2], value * rng.choice([-1.0, 0.5, 1.0], 90)])
    o = points_on(mesh, 90, rng, "edge") - rng.choice([1.0, 4.0, 1 / 3], (90, 1)) * d
    return made(mesh, o, d)


@family("silhouette_exact", "edge", "vertex")
def silhouette_exact(rng: Rng, value: str) -> Family:
    """Touch an octahedron, or run in a face of it: d is orthogonal to a supporting normal."""
    mesh = octahedron(4.0)
    a, b = rng.integers(-4, 5, (2, 90))
    s = rng.integers(-1, 2, 90)
    if value == "edge":
        k = rng.integers(0, 5, 90)
        p, d = np.stack([k, 4 - k, 0 * k], axis=1), np.stack([a, -a - s * b, b], axis=1)
    else:
        p, d = np.tile([4, 0, 0], (90, 1)), np.stack([-a - b, 2 * a, 2 * b], axis=1)
    # Any permutation and reflection of the axes maps the octahedron to itself.
    order, flip = rng.permutation(3), rng.choice([-1, 1], 3)
    return made(mesh, ((p - 3 * d) * flip)[:, order], (d * flip)[:, order])


@family("silhouette_rounded", 0.0, 1e-8, 1e-15)
def silhouette_rounded(rng: Rng, value: float) -> Family:
    mesh = sphere()
    m = some(features(*mesh, rng), 90, rng)
    d = np.cross(m, units(90, rng))
    o = m * (1 + value * rng.uniform(-1, 1, (90, 1))) - 2 * d
    return made(mesh, o, d)


# Ties


@family("duplicate_faces")
def duplicate_faces(rng: Rng) -> Family:
    vertices, faces = sphere()
    again = np.concatenate([faces, faces[:40], np.roll(faces, 1, axis=1), faces[:, ::-1]])
    mesh = shuffled((vertices, again), rng)
    return made(mesh, *aimed(mesh, 80, rng))


@family("one_face_often")
def one_face_often(rng: Rng) -> Family:
    """Repeat one triangle 300 times, among a few others: nothing can split them."""
    triangle = rng.integers(-4, 5, (1, 3, 3))
    mesh = soup(np.concatenate([rng.integers(-4, 5, (20, 3, 3)), np.tile(triangle, (300, 1, 1))]))
    mesh = shuffled(mesh, rng)
    d = oblique(40, rng)
    return made(mesh, points_on(mesh, 40, rng) - 2 * d, d)


@family("layers", 0.0, 1e-7, 2.0**-52)
def equal_layers(rng: Rng, value: float) -> Family:
    mesh = layers(1.0 + value * np.arange(8), rng)
    d = oblique(90, rng)
    o = points_on(mesh, 90, rng, "edge") - rng.choice([0, 1, 4], (90, 1)) * d
    o[:30] += rng.uniform(-0.1, 0.1, (30, 3))
    return made(mesh, o, d, rng.choice([0.0, -INF], 90))


@family("layers_tied_by_rounding", 1e3, 1e6, 1e12)
def layers_tied_by_rounding(rng: Rng, value: float) -> Family:
    """Separate layers by less than t can tell from afar, so that ids decide."""
    mesh = layers(1.0 + 2.0**-52 * np.arange(12), rng)
    target = points_on(mesh, 60, rng)
    away = oblique(60, rng)
    return made(mesh, target + value * away, -away)


@family("layers_tied_by_saturation")
def layers_tied_by_saturation(rng: Rng) -> Family:
    vertices, faces = layers([1, 2, 3, 4], rng)
    target = points_on((vertices, faces), 40, rng)
    o = target + [0, 0, 8]
    d = (target - o) * 1e-200
    return made((vertices * 1e150, faces), o * 1e150, d)


@family("fan_hub", 0.0, 0.25)
def fan_hub(rng: Rng, value: float) -> Family:
    """Pass through the vertex of many faces, exactly and by a hair."""
    mesh = fan(128, value)
    d = np.where(rng.random((90, 1)) < 0.5, oblique(90, rng), units(90, rng))
    o = -rng.choice([1, 2, 0.3], (90, 1)) * d
    o[60:] += points_on(mesh, 30, rng, "edge")
    return made(mesh, o, d)


@family("many_on_an_edge")
def many_on_an_edge(rng: Rng) -> Family:
    """Share one edge between many faces, and pierce it."""
    tips = rng.integers(-5, 6, (12, 3))
    points = np.concatenate([[[0, 0, -4], [0, 0, 4]], tips])
    flips = np.where(rng.random((12, 1)) < 0.5, [[0, 1]], [[1, 0]])
    mesh = mesh_of(points, np.column_stack([flips, np.arange(2, 14)]))
    d = oblique(80, rng)
    o = np.stack([np.zeros(80), np.zeros(80), rng.integers(-5, 6, 80)], axis=1)
    return made(mesh, o - rng.choice([0, 1, 3], (80, 1)) * d, d)


# Closed meshes from inside, culling


@family("inside", "sphere", "fine_sphere", "asteroid", "tilted_cube", "ellipsoid", "far_away")
def inside(rng: Rng, value: str) -> Family:
    vertices, faces = sphere(2 if value == "fine_sphere" else 1)
    if value == "asteroid":
        vertices = vertices * rng.uniform(0.7, 1.4, (len(vertices), 1))
    elif value == "tilted_cube":
        vertices, faces = cube(1.0)
        vertices = vertices @ rotation(rng).T
    elif value == "ellipsoid":
        vertices = vertices * [1, 1e-3, 1e-6]
    elif value == "far_away":
        vertices = vertices + 2.0**40
    o, d = aimed((vertices, faces), 100, rng, inside=True)
    return made((vertices, faces), o, d)


@family("inside_lattice")
def inside_lattice(rng: Rng) -> Family:
    mesh = cube(8.0)
    o = rng.integers(-7, 8, (100, 3))
    return made(mesh, o, points_on(mesh, 100, rng, "edge", "vertex") - o)


@family("cull", "back", "front")
def cull(rng: Rng, value: str) -> Family:
    mesh = merged(sphere(), cube(0.4))
    return made(mesh, *aimed(mesh, 80, rng), cull=value)


@family("cull_two_sided", "back", "front")
def cull_two_sided(rng: Rng, value: str) -> Family:
    """Repeat every face turned over, so that the lower id is often culled."""
    vertices, faces = merged(cube(2.0), octahedron(4.0))
    mesh = shuffled((vertices, np.concatenate([faces, faces[:, ::-1]])), rng)
    d = rng.integers(-2, 3, (80, 3))
    o = points_on(mesh, 80, rng, "edge") - rng.choice([0, 2], (80, 1)) * d
    return made(mesh, o, d, -1.0, cull=value)


# Lattices and chaos


@family("lattice", 3, 1024, 2**20)
def lattice(rng: Rng, value: int) -> Family:
    """Shoot integers at integers: many rays meet edges and vertices exactly."""
    mesh = soup(rng.integers(-value, value + 1, (40, 3, 3)))
    o = rng.integers(-2 * value, 2 * value + 1, (120, 3))
    target = some(mesh[0], 120, rng)
    target[::2] = rng.integers(-3, 4, (60, 3))
    return made(mesh, o, target - o)


@family("lattice_axis")
def lattice_axis(rng: Rng) -> Family:
    mesh = soup(rng.integers(-2, 3, (40, 3, 3)))
    return made(mesh, rng.integers(-2, 3, (120, 3)), axes(120, rng), rng.choice([0.0, -INF], 120))


@family("chaos", "uniform", "scales", "bits")
def chaos(rng: Rng, value: str) -> Family:
    mesh = soup(any_numbers(value, 60, 9, rng))
    o, d = any_numbers(value, 120, 3, rng), any_numbers(value, 120, 3, rng)
    with np.errstate(all="ignore"):
        d[::2] = some(mesh[0], 60, rng) - o[::2]
    return made(mesh, o, d, rng.choice([0.0, -INF], 120))
