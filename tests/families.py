"""Hostile meshes with rays to match: a registry of small families, each made from a seed.

`FAMILIES` maps names to builders f(rng); `build` makes one family, `families` all of them. What
the rays hit is not written down here: `oracle` tells. Families called "beyond" leave the range of
coordinates that the package promises (1e-150 to 1e150), though not that of doubles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
from aims import axis_rays, features
from numpy.typing import ArrayLike, NDArray
from oracle import closest_hit

Floats = NDArray[np.float64]
Faces = NDArray[np.int64]
Mesh = tuple[Floats, Faces]
Rng = np.random.Generator

INF, NAN = np.inf, np.nan
TINY = np.nextafter(0.0, 1.0)


@dataclass(frozen=True)
class Family:
    """A mesh and rays: vertices and rays (n, 3), ranges scalars or (n,)."""

    vertices: Floats
    faces: Faces
    origins: Floats
    directions: Floats
    t_min: float | Floats = 0.0
    t_max: float | Floats = INF
    cull: str | None = None


FAMILIES: dict[str, Callable[[Rng], Family]] = {}


def registrar(registry: dict[str, Any]) -> Callable[..., Callable[[Any], Any]]:
    """Return a decorator that puts builders into a registry."""

    def family(name: str, *values: Any) -> Callable[[Any], Any]:
        """Register a builder f(rng), or f(rng, value) once for each value, as name_value."""

        def register(builder: Any) -> Any:
            for value in values:
                text = f"{value:g}" if isinstance(value, float) else str(value)
                registry[f"{name}_{text}"] = partial(builder, value=value)
            if not values:
                registry[name] = builder
            return builder

        return register

    return family


family = registrar(FAMILIES)


def rng_of(name: str, seed: int) -> Rng:
    """Return a family's own random numbers, the same whatever else is made."""
    return np.random.default_rng([seed, crc32(name.encode())])


def build(name: str, seed: int = 0) -> Family:
    """Make one family."""
    return FAMILIES[name](rng_of(name, seed))


def families(seed: int = 0) -> dict[str, Family]:
    """Make all families."""
    return {name: build(name, seed) for name in FAMILIES}


# Meshes


def mesh_of(vertices: ArrayLike, faces: ArrayLike) -> Mesh:
    return (
        np.array(vertices, np.float64).reshape(-1, 3),
        np.array(faces, np.int64).reshape(-1, 3),
    )


def grid(n: int) -> Mesh:
    """Return the square 0..n at z = 0 in unit cells of two triangles, facing up."""
    x, y = np.divmod(np.arange((n + 1) ** 2), n + 1)
    a = (np.arange(n)[:, None] * (n + 1) + np.arange(n)).reshape(-1, 1)
    cells = np.concatenate([a + [0, n + 1, n + 2], a + [0, n + 2, 1]])
    return mesh_of(np.stack([x, y, 0 * x], axis=1), cells)


def terrain(n: int, heights: ArrayLike) -> Mesh:
    vertices, faces = grid(n)
    vertices[:, 2] = heights
    return vertices, faces


def cube(half: float) -> Mesh:
    corners = [[x, y, z] for x in (-half, half) for y in (-half, half) for z in (-half, half)]
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    return mesh_of(corners, [f for a, b, c, d in quads for f in ([a, b, c], [a, c, d])])


def octahedron(size: float) -> Mesh:
    points = np.concatenate([np.eye(3), -np.eye(3)]) * size
    octants = [(x, y, z) for x in (0, 3) for y in (1, 4) for z in (2, 5)]
    odd = [(x > 0) ^ (y > 1) ^ (z > 2) for x, y, z in octants]
    return mesh_of(points, [f[::-1] if turn else f for f, turn in zip(octants, odd, strict=True)])


def sphere(levels: int = 1) -> Mesh:
    """Return an octahedron's faces split in four `levels` times, on the unit sphere: closed."""
    vertices, faces = octahedron(1.0)
    for _ in range(levels):
        ends = np.sort(np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1), axis=-1)
        edges, middle = np.unique(ends.reshape(-1, 2), axis=0, return_inverse=True)
        a, b, c = (middle.reshape(-1, 3) + len(vertices)).T
        p, q, r = faces.T
        vertices = np.concatenate([vertices, vertices[edges].mean(axis=1)])
        faces = np.concatenate(
            [np.stack(f, axis=1) for f in ((p, a, c), (a, q, b), (c, b, r), (a, b, c))]
        )
    return vertices / np.linalg.norm(vertices, axis=1, keepdims=True), faces


def fan(count: int, height: float) -> Mesh:
    """Return triangles around vertex 0 at the origin, their rim at `height`."""
    angle = 2 * np.pi * np.arange(count) / count
    rim = np.stack([np.cos(angle), np.sin(angle), np.full(count, height)], axis=1)
    i = np.arange(count)
    faces = np.stack([0 * i, 1 + i, 1 + (i + 1) % count], axis=1)
    return mesh_of(np.concatenate([np.zeros((1, 3)), rim]), faces)


def soup(triangles: ArrayLike) -> Mesh:
    """Return triangles, (n, 3, 3), that share no vertices."""
    points = np.asarray(triangles, np.float64).reshape(-1, 3)
    return mesh_of(points, np.arange(len(points)))


def merged(*meshes: Mesh) -> Mesh:
    starts = np.cumsum([0] + [len(vertices) for vertices, _ in meshes])
    faces = [f + start for (_, f), start in zip(meshes, starts, strict=False)]
    return np.concatenate([vertices for vertices, _ in meshes]), np.concatenate(faces)


def shuffled(mesh: Mesh, rng: Rng) -> Mesh:
    return mesh[0], rng.permutation(mesh[1])


def layers(heights: ArrayLike, rng: Rng) -> Mesh:
    """Return equal grids at the given heights, their faces in random order."""
    vertices, faces = grid(2)
    return shuffled(merged(*[(vertices + [0, 0, z], faces) for z in np.ravel(heights)]), rng)


def rotation(rng: Rng) -> Floats:
    return np.linalg.qr(rng.normal(size=(3, 3)))[0]


# Rays


def some(points: Floats, n: int, rng: Rng) -> Floats:
    return points[rng.integers(0, len(points), n)].copy()


def units(n: int, rng: Rng) -> Floats:
    d = rng.normal(size=(n, 3))
    return d / np.linalg.norm(d, axis=1, keepdims=True)


def oblique(n: int, rng: Rng, top: int = 5) -> Floats:
    """Return directions of small integers, none of them zero."""
    return rng.integers(1, top + 1, (n, 3)) * rng.choice([-1.0, 1.0], (n, 3))


def axes(n: int, rng: Rng) -> Floats:
    return np.eye(3)[rng.integers(0, 3, n)] * rng.choice([-1.0, 1.0], (n, 1))


def points_on(mesh: Mesh, n: int, rng: Rng, *kinds: str) -> Floats:
    """Return points of faces, of edges, or vertices; dyadic weights make lattice points exact."""
    corners = mesh[0][some(mesh[1], n, rng)]
    weights = {"face": [0.25, 0.25, 0.5], "edge": [0.375, 0.625, 0.0], "vertex": [1.0, 0.0, 0.0]}
    w = some(np.array([weights[kind] for kind in kinds or weights]), n, rng)
    return np.sum(rng.permuted(w, axis=1)[..., None] * corners, axis=1)


def aimed(mesh: Mesh, n: int, rng: Rng, inside: bool | None = None) -> tuple[Floats, Floats]:
    """Return rays at features from outside, from inside around the centre, or half of each."""
    lower, upper = mesh[0].min(axis=0), mesh[0].max(axis=0)
    center, half = (lower + upper) / 2, (upper - lower) / 2
    reach = rng.uniform(0.0, 0.3, n) if inside else np.full(n, 3.0)
    if inside is None:
        reach[::2] = 0.1
    o = center + reach[:, None] * half * units(n, rng)
    return o, some(features(*mesh, rng), n, rng) - o


def made(
    mesh: Mesh,
    origins: ArrayLike,
    directions: ArrayLike,
    t_min: ArrayLike = 0.0,
    t_max: ArrayLike = INF,
    cull: str | None = None,
) -> Family:
    """Return a family of plain float64 arrays."""
    o, d = np.broadcast_arrays(np.asarray(origins, np.float64), np.asarray(directions, np.float64))
    low, high = np.asarray(t_min, np.float64), np.asarray(t_max, np.float64)
    return Family(*mesh, o.copy(), d.copy(), low[()], high[()], cull)


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


RANGES = {
    "line": (-INF, INF), "backwards": (-INF, 0.0), "negative": (-2.0, -1.0), "zero": (0.0, 0.0),
    "signed_zeros": (0.0, -0.0), "inverted": (1.0, 0.5), "smallest": (-TINY, TINY),
    "positive": (TINY, INF), "at_inf": (INF, INF), "at_minus_inf": (-INF, -INF),
}  # fmt: skip


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


def any_numbers(kind: str, n: int, width: int, rng: Rng) -> Floats:
    """Return (n, width) numbers: ordinary, of any scale a row, or any bits at all."""
    x = rng.uniform(-1, 1, (n, width))
    if kind == "scales":
        x *= 10.0 ** rng.uniform(-150, 150, (n, 1))
    if kind == "bits":
        wild = rng.random((n, width)) < 0.03
        x[wild] = rng.integers(0, 2**64, int(wild.sum()), dtype=np.uint64).view(np.float64)
        x[rng.random((n, width)) < 0.01] = rng.choice([NAN, INF, -INF, TINY, -0.0])
    return x


@family("chaos", "uniform", "scales", "bits")
def chaos(rng: Rng, value: str) -> Family:
    mesh = soup(any_numbers(value, 60, 9, rng))
    o, d = any_numbers(value, 120, 3, rng), any_numbers(value, 120, 3, rng)
    with np.errstate(all="ignore"):
        d[::2] = some(mesh[0], 60, rng) - o[::2]
    return made(mesh, o, d, rng.choice([0.0, -INF], 120))
