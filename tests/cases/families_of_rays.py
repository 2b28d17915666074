"""Families whose rays are the trouble: directions, origins, aims at grids and along planes."""

from __future__ import annotations

import numpy as np

from tests.cases.aims import axis_rays, features
from tests.cases.family_parts import (
    INF,
    NAN,
    RANGES,
    TINY,
    Family,
    Rng,
    aimed,
    axes,
    cube,
    family,
    grid,
    made,
    merged,
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
from tests.oracles.rays import closest_hit

# Directions


@family("direction_length", 1e-200, 1e-100, 1e-8, 1e8, 1e100, 1e200)
def direction_length(rng: Rng, value: float) -> Family:
    mesh = sphere()
    o, d = aimed(mesh, 60, rng)
    return made(mesh, o, d * value)


@family("direction_lengths_mixed")
def direction_lengths_mixed(rng: Rng) -> Family:
    mesh = sphere()
    o, d = aimed(mesh, 80, rng)
    return made(mesh, o, d * 10.0 ** rng.uniform(-200, 200, (80, 1)))


@family("tiny_components", 1e-17, 1e-30, 1e-160, 1e-300, float(TINY))
def tiny_components(rng: Rng, value: float) -> Family:
    """Miss an edge or a vertex by next to nothing, on either side, or meet it exactly."""
    mesh = cube(1.0)
    axis = axes(80, rng)
    d = np.where(axis == 0, value * rng.integers(-3, 4, (80, 3)), axis)
    o = some(features(*mesh, rng), 80, rng) - rng.choice([0, 1, 4], (80, 1)) * axis
    return made(mesh, o, d)


@family("denormal_directions", 1.0, 2.0**-500)
def denormal_directions(rng: Rng, value: float) -> Family:
    vertices, faces = merged(cube(2.0), octahedron(8.0))
    d = rng.integers(-4, 5, (80, 3)).astype(float)
    o = some(vertices, 80, rng) - rng.choice([1, 2, 4], (80, 1)) * d
    return made((vertices * value, faces), o * value, d * TINY)


@family("huge_directions", 1.0, 2.0**-40)
def huge_directions(rng: Rng, value: float) -> Family:
    vertices, faces = merged(cube(2.0), octahedron(8.0))
    d = rng.integers(-7, 8, (80, 3)).astype(float)
    o = some(vertices, 80, rng) - rng.choice([1, 2, 4], (80, 1)) * d
    return made((vertices * value, faces), o * value, d * 2.0**1020)


@family("signed_zeros")
def signed_zeros(rng: Rng) -> Family:
    mesh = merged(cube(2.0), octahedron(4.0))
    d = rng.choice([-0.0, 0.0, -1.0, 1.0], (150, 3))
    o = points_on(mesh, 150, rng, "edge") - rng.choice([0, 1, 8], (150, 1)) * d
    return made(mesh, np.where(o == 0, rng.choice([-0.0, 0.0], (150, 3)), o), d)


@family("bad_rays", "nan", "inf", "zero", "range", "only")
def bad_rays(rng: Rng, value: str) -> Family:
    """Spoil every third ray, or all of them."""
    mesh = sphere()
    o, d = aimed(mesh, 90, rng)
    t_min, t_max = np.zeros(90), np.full(90, INF)
    bad = np.arange(0, 90, 1 if value == "only" else 3)
    at = bad, rng.integers(0, 3, len(bad))
    if value in ("nan", "inf"):
        o[at] = rng.choice([NAN] if value == "nan" else [INF, -INF], len(bad))
        swap = bad[::2]
        o[swap], d[swap] = d[swap], o[swap]
    elif value == "range":
        t_min[bad] = rng.choice([1.0, NAN, INF, 100.0], len(bad))
        t_max[bad] = rng.choice([-1.0, 0.0, NAN, -INF], len(bad))
    else:
        d[bad] = rng.choice([0.0, -0.0], (len(bad), 3))
    return made(mesh, o, d, t_min, t_max)


# Origins


@family("origins_on_lattice", "face", "edge", "vertex")
def origins_on_lattice(rng: Rng, value: str) -> Family:
    """Start exactly on the surface; t = 0 is in range, or just is not."""
    mesh = merged(cube(8.0), octahedron(8.0))
    d = rng.integers(-3, 4, (90, 3))
    t_min = rng.choice([0.0, -0.0, TINY, -TINY], 90)
    return made(mesh, points_on(mesh, 90, rng, value), d, t_min)


@family("origins_near_sphere", "face", "edge", "vertex")
def origins_near_sphere(rng: Rng, value: str) -> Family:
    mesh = sphere()
    o = points_on(mesh, 80, rng, value)
    d = np.where(rng.random((80, 1)) < 0.5, units(80, rng), some(features(*mesh, rng), 80, rng) - o)
    return made(mesh, o, d)


@family("one_ulp_off_plane", 0.0, 1.0, 1e7, -1e-30)
def one_ulp_off_plane(rng: Rng, value: float) -> Family:
    vertices, faces = grid(4)
    o = points_on((vertices, faces), 90, rng, "edge")
    o[:, 2] = rng.choice([np.nextafter(value, -INF), value, np.nextafter(value, INF)], 90)
    return made((vertices + [0, 0, value], faces), o, rng.integers(-2, 3, (90, 3)))


@family("one_ulp_off_tilted")
def one_ulp_off_tilted(rng: Rng) -> Family:
    mesh = soup(rng.uniform(-1, 1, (20, 3, 3)))
    o = points_on(mesh, 90, rng, "face")
    at = np.arange(90), rng.integers(0, 3, 90)
    o[at] = np.nextafter(o[at], rng.choice([-INF, INF], 90))
    return made(mesh, o, units(90, rng))


@family("far_origins", 1e6, 1e12, 1e15)
def far_origins(rng: Rng, value: float) -> Family:
    mesh = sphere()
    target, away = some(features(*mesh, rng), 60, rng), units(60, rng)
    o = target + value * away
    return made(mesh, o, np.where(rng.random((60, 1)) < 0.5, -away, target - o))


@family("far_lattice_origins", 2.0**20, 2.0**40, 2.0**48)
def far_lattice_origins(rng: Rng, value: float) -> Family:
    """Meet features exactly, from far away."""
    mesh = merged(cube(8.0), octahedron(16.0))
    d = oblique(60, rng)
    return made(mesh, points_on(mesh, 60, rng, "edge", "vertex") - value * d, d)


@family("far_along_axis", 1e20, 1e150, 1e300)
def far_along_axis(rng: Rng, value: float) -> Family:
    mesh = sphere()
    d = axes(60, rng)
    o = np.where(d == 0, some(features(*mesh, rng), 60, rng), -value * d)
    return made(mesh, o, d * rng.choice([1.0, value], (60, 1)))


# Grids and planes


@family("grid_exact", "vertex", "edge", "face")
def grid_exact(rng: Rng, value: str) -> Family:
    """Meet a flat grid obliquely at exact points, the grid at right angles to any axis."""
    vertices, faces = grid(6)
    d = oblique(90, rng)
    o = points_on((vertices, faces), 90, rng, value) - rng.choice([1, 3, 8], (90, 1)) * d
    turn = int(rng.integers(0, 3))
    return made((np.roll(vertices, turn, axis=1), faces), np.roll(o, turn, 1), np.roll(d, turn, 1))


@family("integer_terrain", "axis", "oblique")
def integer_terrain(rng: Rng, value: str) -> Family:
    mesh = terrain(6, rng.integers(0, 3, 49))
    o, d = axis_rays(mesh[0], 90, rng)
    if value == "oblique":
        d = oblique(90, rng, 3)
        o = points_on(mesh, 90, rng, "edge") - 4 * d
    return made(mesh, o, d)


@family("rounded_terrain")
def rounded_terrain(rng: Rng) -> Family:
    mesh = terrain(8, rng.uniform(0, 1, 81))
    return made(mesh, *aimed(mesh, 90, rng, inside=False))


@family("rotated_grid")
def rotated_grid(rng: Rng) -> Family:
    """Aim at a plane that rounding has bent."""
    vertices, faces = grid(6)
    mesh = (vertices - 3.3) @ rotation(rng).T, faces
    target = some(features(*mesh, rng), 90, rng)
    o = rng.uniform(-4, 4, (90, 3))
    return made(mesh, o, target - o)


@family("rays_in_faces", "axis", "diagonal")
def rays_in_faces(rng: Rng, value: str) -> Family:
    """Run in a plane of faces, along its lines, into walls and past them."""
    vertices, faces = grid(4)
    mesh = merged((vertices, faces), (np.roll(vertices, 1, 1) + [2, 0, -2], faces), cube(3.0))
    steps = [[1, 0, 0], [0, 1, 0]] if value == "axis" else [[1, 1, 0], [1, -1, 0], [2, 1, 0]]
    d = np.array(steps)[rng.integers(0, len(steps), 80)] * rng.choice([-1, 1], (80, 1))
    o = some(vertices, 80, rng) - rng.choice([0, 0.5, 2, 8], (80, 1)) * d
    o[::4, 2] = 3.0
    return made(mesh, o, d)


@family("coplanar_tilted")
def coplanar_tilted(rng: Rng) -> Family:
    """Run in the plane x + y + z = 0, full of triangles, with a few others across it."""
    flat = rng.integers(-6, 7, (30, 3, 3))
    flat[..., 2] = -flat[..., 0] - flat[..., 1]
    mesh = shuffled(soup(np.concatenate([flat, rng.integers(-6, 7, (6, 3, 3))])), rng)
    o, d = rng.integers(-6, 7, (80, 3)), rng.integers(-3, 4, (80, 3))
    o[:, 2], d[:, 2] = -o[:, 0] - o[:, 1], -d[:, 0] - d[:, 1]
    d[::4, 2] += 1
    return made(mesh, o, d, -INF)


@family("denormal_heights", float(TINY), 1e-310, 1e-200)
def denormal_heights(rng: Rng, value: float) -> Family:
    """Run along next to flat ground at next to no height."""
    mesh = terrain(4, value * rng.integers(-2, 3, 25))
    d = rng.integers(-2, 3, (90, 3)) * np.where(rng.random((90, 1)) < 0.7, [1, 1, value], 1.0)
    o = rng.integers(-1, 6, (90, 3)) * [1, 1, value]
    return made(mesh, o, d, -INF)


# Ranges


@family("bound_at_hit", "t_min", "t_max", "both")
def bound_at_hit(rng: Rng, value: str) -> Family:
    """End the range at a hit, one ulp before it and one ulp after it."""
    mesh = merged(sphere(), cube(0.6))
    o, d = aimed(mesh, 40, rng)
    o, d = (np.repeat(x, 3, axis=0) for x in (o, d * rng.uniform(0.1, 9.0, (40, 1))))
    t = closest_hit(*mesh, o, d).t
    ulps = np.tile([-INF, 0.0, INF], 40)
    t = np.where(ulps == 0, t, np.nextafter(t, ulps))
    return made(mesh, o, d, 0.0 if value == "t_max" else t, INF if value == "t_min" else t)


@family("range", *RANGES)
def special_range(rng: Rng, value: str) -> Family:
    mesh = merged(cube(2.0), octahedron(4.0))
    d = rng.integers(-2, 3, (60, 3))
    o = points_on(mesh, 60, rng) - rng.choice([-1, 0, 1, 2], (60, 1)) * d
    return made(mesh, o, d, *RANGES[value])


@family("ranges_mixed")
def ranges_mixed(rng: Rng) -> Family:
    mesh = merged(cube(2.0), octahedron(4.0))
    d = rng.integers(-2, 3, (120, 3))
    o = points_on(mesh, 120, rng) - rng.choice([-1, 0, 1, 2], (120, 1)) * d
    some_ranges = [*RANGES.values(), (NAN, 1.0), (0.0, NAN), (-1.0, 1.0), (1.0, 1.0), (-1.0, -1.0)]
    low, high = np.array(some_ranges)[rng.integers(0, len(some_ranges), 120)].T
    return made(mesh, o, d, low, high)


@family("segments_to_face", "exact", "short", "past")
def segments_to_face(rng: Rng, value: str) -> Family:
    """End exactly on a face, one ulp before it or one ulp behind it."""
    mesh = cube(8.0)
    q = points_on(mesh, 90, rng)
    p = q + oblique(90, rng)
    side = {"exact": p - q, "short": 0 * p, "past": (q - p) * INF}[value]
    d = q - p
    d = d if value == "exact" else np.nextafter(d, side)
    return made(mesh, p, d, 0.0, 1.0)


@family("segments_rounded", "face", "feature")
def segments_rounded(rng: Rng, value: str) -> Family:
    """Join points of the surface: both ends may or may not touch it."""
    mesh = sphere()
    if value == "face":
        p, q = rng.uniform(-2, 2, (90, 3)), points_on(mesh, 90, rng, "face")
    else:
        p, q = some(features(*mesh, rng), 90, rng), some(features(*mesh, rng), 90, rng)
    return made(mesh, p, q - p, 0.0, 1.0)
