"""Parts of families of hostile meshes and rays: the registry, meshes, and aims.

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
from numpy.typing import ArrayLike, NDArray

from tests.cases.aims import features

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


RANGES = {
    "line": (-INF, INF), "backwards": (-INF, 0.0), "negative": (-2.0, -1.0), "zero": (0.0, 0.0),
    "signed_zeros": (0.0, -0.0), "inverted": (1.0, 0.5), "smallest": (-TINY, TINY),
    "positive": (TINY, INF), "at_inf": (INF, INF), "at_minus_inf": (-INF, -INF),
}  # fmt: skip

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
    return (np.array(vertices, np.float64).reshape(-1, 3), np.array(faces, np.int64).reshape(-1, 3))


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
