"""Streams and single rays, in any order: bit for bit what brute force gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from bvh import BVH, ray_triangle
from bvh.queries.batches import ray_batches
from bvh.queries.results import Hits
from bvh.runtime.arguments import cull_code
from bvh.traversal.rays.blocks import BLOCK
from bvh.traversal.rays.ray_batch import AUTO, SINGLES, STREAMS, Order
from tests.cases import aims
from tests.cases.family_parts import points_on, sphere
from tests.oracles import brute

Array = np.ndarray
Rng = np.random.Generator
Mesh = tuple[Array, Array]
FIELDS = ("t", "prim_id", "u", "v", "front")
CULLS = [None, "back", "front"]
QUALITIES = ["medium", "high"]


class Batch(NamedTuple):
    """Rays."""

    o: Array
    d: Array
    t_min: Any = 0.0
    t_max: Any = np.inf

    def take(self, which: Any) -> Batch:
        """Return some of the rays, in some order."""
        whole = (np.broadcast_to(a, (len(self.o), *np.shape(a)[1:])) for a in self)
        return Batch(*(a[which] for a in whole))


def organic(rng: Rng) -> Mesh:
    """Return a closed surface with bumps."""
    points, faces = sphere(3)
    bumps = np.sin(points @ rng.normal(scale=4.0, size=(3, 6))).sum(axis=1, keepdims=True)
    return points * (1.0 + 0.05 * bumps), faces


def placed(corners: Array) -> Mesh:
    """Return triangles (n, 3, 3) as a mesh."""
    return corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3)


def needles(rng: Rng) -> Mesh:
    """Return long thin triangles across a cube."""
    ends = rng.uniform(-1.0, 1.0, (600, 2, 3))
    width = 10.0 ** rng.uniform(-12, -1, (600, 1, 1))
    return placed(
        np.concatenate([ends, ends[:, :1] + width * rng.normal(size=(600, 1, 3))], axis=1)
    )


def hostile(rng: Rng) -> Mesh:
    """Return triangles of all sizes, copies, some without area, some not finite."""
    corners = rng.normal(size=(500, 3, 3)) * 2.0 ** rng.integers(-30, 1, (500, 1, 1))
    corners[100:200] = np.round(corners[:100] * 4.0) / 4.0
    corners[200:250] = corners[rng.integers(0, 200, 50)]
    corners[250:300, :, 2] = 0.0
    corners[::7, 2] = corners[::7, 1]
    corners[::31] = corners[::31, :1]
    corners[5::33, rng.integers(3), rng.integers(3)] = rng.choice([np.nan, np.inf, -np.inf])
    return placed(corners)


MESHES: dict[str, Callable[[Rng], Mesh]] = {
    "organic": organic, "needles": needles, "hostile": hostile
}  # fmt: skip


def clean(mesh: Mesh) -> Mesh:
    """Return the faces that are finite."""
    points, faces = mesh
    return points, faces[np.isfinite(points[faces]).all(axis=(1, 2))]


def directions(n: int, rng: Rng) -> Array:
    """Return unit vectors; a few are axes."""
    d = rng.normal(size=(n, 3))
    d[::11, rng.integers(3)] = 0.0
    d[::13] = np.eye(3)[rng.integers(0, 3, len(d[::13]))] * rng.choice([-1.0, 1.0])
    return d / np.linalg.norm(d, axis=1, keepdims=True)


def spots(mesh: Mesh, n: int, rng: Rng) -> Array:
    """Return vertices, points of edges, and points of faces."""
    on = points_on(clean(mesh), n, rng, "face")
    known = aims.features(*clean(mesh), rng)
    on[::2] = known[rng.integers(0, len(known), len(on[::2]))]
    return on


def towards(mesh: Mesh, n: int, rng: Rng, away: float = 3.0) -> Batch:
    """Return rays from all sides at vertices, edges and faces."""
    d = directions(n, rng)
    o = rng.uniform(0.1, 1.0, (n, 1)) * away * -d
    at = spots(mesh, n, rng)
    return Batch(at + o, at - (at + o))


def camera(mesh: Mesh, n: int, rng: Rng) -> Batch:
    """Return rays from one place through a row of vertices and what lies between."""
    eye = 4.0 * directions(1, rng)
    at = spots(mesh, n, rng)
    return Batch(np.repeat(eye, n, axis=0), (at - eye)[np.lexsort(at.T)])


def axis_parallel(mesh: Mesh, n: int, rng: Rng) -> Batch:
    """Return rays along axes through vertices."""
    points, faces = clean(mesh)
    return Batch(*aims.axis_rays(points[faces].reshape(-1, 3), n, rng))


def lines(mesh: Mesh, n: int, rng: Rng) -> Batch:
    """Return rays that have no begin, some no end, some that end before their origin."""
    o, d, _, _ = towards(mesh, n, rng)
    d[::3] *= -1.0
    return Batch(o, d, -np.inf, rng.choice([np.inf, -0.5, 2.0], n))


def ranges(mesh: Mesh, n: int, rng: Rng) -> Batch:
    """Return rays whose range begins or ends at the hit, or one double beside it."""
    o, d, _, _ = towards(mesh, n, rng)
    t, _ = brute.closest_hit(BVH.from_triangles(*mesh), o, d)
    t[~np.isfinite(t)] = 1.0
    beside = np.stack([t, np.nextafter(t, np.inf), np.nextafter(t, -np.inf)])
    t_min, t_max = np.zeros(n), np.full(n, np.inf)
    kind = rng.integers(0, 5, n)
    picked = beside[rng.integers(0, 3, n), np.arange(n)]
    t_min[kind < 2] = picked[kind < 2]
    t_max[(kind == 1) | (kind == 2)] = picked[(kind == 1) | (kind == 2)]
    t_min[kind == 3], t_max[kind == 3] = t[kind == 3], t[kind == 3]
    return Batch(o, d, t_min, np.maximum(t_max, t_min))


def far(mesh: Mesh, n: int, rng: Rng) -> Batch:
    """Return rays from far beyond what the tree covers."""
    d = directions(n, rng)
    away = 10.0 ** rng.uniform(3, 25, (n, 1))
    o = spots(mesh, n, rng) - away * d
    # Half of them aim again from where rounding has put them.
    d[::2] = spots(mesh, n, rng)[::2] - o[::2]
    return Batch(o, d, np.where(rng.random(n) < 0.3, -np.inf, 0.0))


def lengths(mesh: Mesh, n: int, rng: Rng) -> Batch:
    """Return rays with directions of extreme length, each component with its own in some."""
    o, d, _, _ = towards(mesh, n, rng)
    d *= 10.0 ** rng.uniform(-200, 200, (n, 1))
    d[::5] *= 10.0 ** rng.uniform(-100, 100, (len(d[::5]), 3))
    return Batch(o, d)


def denormal(mesh: Mesh, n: int, rng: Rng) -> Batch:
    """Return rays whose directions are denormal, or nearly."""
    o, d, _, _ = towards(mesh, n, rng)
    d = (
        d
        / np.abs(d).max(axis=1, keepdims=True)
        * 2.0 ** -rng.integers(1000, 1075, (n, 1)).astype(float)
    )
    d[~d.any(axis=1)] = 5e-324
    return Batch(o, d, rng.choice([-np.inf, 0.0, 1e300], n), np.inf)


def surface(mesh: Mesh, n: int, rng: Rng) -> Batch:
    """Return rays that start on vertices, edges and faces."""
    return Batch(spots(mesh, n, rng), directions(n, rng), rng.choice([0.0, -np.inf, 5e-324], n))


RAYS: dict[str, Callable[[Mesh, int, Rng], Batch]] = {
    f.__name__: f
    for f in (
        towards, camera, axis_parallel, lines, ranges, far, lengths, denormal, surface
    )
}  # fmt: skip


def octants_first(rays: Batch) -> Array:
    """Return the order that puts rays of one octant side by side, for groups that are full."""
    return np.lexsort((rays.d < 0.0).T).astype(np.int64)


def orders(rays: Batch, rng: Rng, row: int = 0) -> Iterator[tuple[Order, Array]]:
    """Return ways to take rays, each with the order that they are given in."""
    n = len(rays.o)
    for kernel in (AUTO, SINGLES, STREAMS):
        yield Order(n, row, kernel), np.arange(n)
    yield Order(n, 0, STREAMS), octants_first(rays)
    yield Order(n, 0, SINGLES), octants_first(rays)[::-1]
    yield Order(n, 0, STREAMS), rng.permutation(n)


def expected(tree: BVH, rays: Batch, cull: str | None = None) -> Hits:
    """Return all fields by brute force, and from the one triangle that was hit."""
    t, prim = brute.closest_hit(tree, *rays, cull=cull_code(cull))
    u, v, front = np.full((2, len(t)), np.nan), None, np.zeros(len(t), np.bool_)
    u, v = u
    hit = prim >= 0
    if tree.kind == "triangles" and hit.any():
        corners = tree.vertices[tree.faces[prim[hit]]]
        o, d, t_min, t_max = rays.take(hit)
        one = ray_triangle(o, d, *np.moveaxis(corners, 1, 0), t_min, t_max)
        assert np.array_equal(one.t, t[hit])
        u[hit], v[hit] = one.u, one.v
        front[hit] = ray_triangle(o, d, *np.moveaxis(corners, 1, 0), t_min, t_max, cull="back").hit
    return Hits(t, prim, u, v, front)


def assert_same(hits: Hits, wanted: Hits, fields: tuple[str, ...] = FIELDS) -> None:
    """Compare bit for bit."""
    for field in fields:
        a, b = getattr(hits, field).reshape(-1), getattr(wanted, field)
        assert a.dtype == b.dtype
        kind = f"i{a.itemsize}"
        wrong = np.flatnonzero(a.view(kind) != b.view(kind))
        assert len(wrong) == 0, (field, len(wrong), wrong[:5], a[wrong[:5]], b[wrong[:5]])


def assert_brute(
    tree: BVH, rays: Batch, ways: Any, monkeypatch: pytest.MonkeyPatch, cull: str | None = None
) -> Hits:
    """Compare the answers of a tree, taken in each of some ways, with brute force."""
    wanted = expected(tree, rays, cull)
    fields = FIELDS if tree.kind == "triangles" else ("t", "prim_id")
    for way in ways:
        order, rows = (way, np.arange(len(rays.o))) if isinstance(way, Order) else way
        given, hits = rays.take(rows), wanted[rows]
        with monkeypatch.context() as patch:
            ordered = lambda batch, n, sort, order=order: order._replace(sort=sort)  # noqa: E731
            patch.setattr(ray_batches, "_order", ordered)
            try:
                assert_same(tree.closest_hit(*given, cull=cull), hits, fields)
                assert np.array_equal(tree.any_hit(*given, cull=cull), hits.prim_id >= 0)
            except AssertionError as error:
                raise AssertionError(f"{order}: {error}") from error
    return wanted


@pytest.mark.parametrize("what", RAYS)
@pytest.mark.parametrize("name", MESHES)
def test_triangles(name: str, what: str, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of rays on every kind of mesh, in every order."""
    mesh = MESHES[name](rng)
    tree = BVH.from_triangles(*mesh, quality=str(rng.choice(QUALITIES)))
    rays = RAYS[what](mesh, 900, rng)
    cull = CULLS[rng.integers(3)]
    wanted = assert_brute(tree, rays, orders(rays, rng, 90), monkeypatch, cull)
    if what not in ("lengths", "denormal"):
        assert wanted.mask.mean() > 0.05


@pytest.mark.parametrize("quality", QUALITIES)
@pytest.mark.parametrize(
    "scale", [pytest.param(1e-160, marks=pytest.mark.long), 1e-150, 1e-30, 1.0, 1e30, 1e150]
)
def test_scales(scale: float, quality: str, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny and huge trees, at the origin and beside it, with rays as large as themselves."""
    for offset in (0.0, 1e7):
        points, faces = organic(rng)
        mesh = (points + offset) * scale, faces
        tree = BVH.from_triangles(*mesh, quality=quality)
        d = directions(500, rng) * scale
        at = points_on(mesh, 500, rng, "face")
        used = np.unique(faces)
        at[::2] = mesh[0][used[rng.integers(0, len(used), 250)]]
        rays = Batch(at - d * rng.uniform(0.5, 3.0, (500, 1)), d)
        rays.d[::3] /= scale
        for cull in CULLS:
            assert_brute(tree, rays, orders(rays, rng), monkeypatch, cull)


@pytest.mark.parametrize("kernel", [STREAMS, SINGLES, AUTO])
@pytest.mark.parametrize("size", [(77, 45), (64, 4), (65, 5), (200, 9), (3, 90), (63, 3)])
def test_images(
    size: tuple[int, int], kernel: int, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles whole and ragged, by their row's length; the shape of an image gives the same."""
    width, height = size
    mesh = organic(rng)
    tree = BVH.from_triangles(*mesh)
    x, y = np.meshgrid(np.linspace(-1.0, 1.0, width), np.linspace(-1.0, 1.0, height))
    d = np.stack([x.ravel(), y.ravel(), np.full(x.size, -2.5)], axis=1)
    # A few pixels look straight at vertices.
    at = rng.integers(0, len(d), 50)
    d[at] = mesh[0][rng.integers(0, len(mesh[0]), 50)] - [0.0, 0.0, 3.0]
    rays = Batch(np.tile([0.0, 0.0, 3.0], (len(d), 1)), d)
    assert_brute(tree, rays, [Order(len(d), width, kernel)], monkeypatch)
    one = Batch(rays.o[:1], d, np.zeros(1), np.full(1, np.inf))
    wanted = expected(tree, rays)
    shaped = tree.closest_hit([0.0, 0.0, 3.0], d.reshape(height, width, 3))
    assert shaped.t.shape == (height, width)
    assert_same(shaped, wanted)
    assert_same(tree.closest_hit(one.o[0], one.d), wanted)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 15, 16, 17, 31, BLOCK - 1, BLOCK, BLOCK + 1, 1000])
def test_batch_sizes(n: int, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors, groups and blocks that are not full."""
    mesh = organic(rng)
    tree = BVH.from_triangles(*mesh)
    for make in (towards, camera):
        rays = make(mesh, max(n, 1), rng).take(slice(0, n))
        assert_brute(tree, rays, orders(rays, rng), monkeypatch)


SPOILERS: dict[str, Callable[[Batch, Array], None]] = {
    "NaN origin": lambda rays, at: rays.o[:, 1].__setitem__(at, np.nan),
    "infinite origin": lambda rays, at: rays.o[:, 0].__setitem__(at, np.inf),
    "NaN direction": lambda rays, at: rays.d[:, 2].__setitem__(at, np.nan),
    "infinite direction": lambda rays, at: rays.d[:, 1].__setitem__(at, -np.inf),
    "zero direction": lambda rays, at: rays.d.__setitem__(at, 0.0),
    "empty range": lambda rays, at: rays.t_min.__setitem__(at, 2e9),
    "NaN range": lambda rays, at: rays.t_max.__setitem__(at, np.nan),
    "infinite range": lambda rays, at: rays.t_min.__setitem__(at, np.inf),
    "far": lambda rays, at: rays.o[:, 0].__setitem__(at, 1e30),
    "denormal": lambda rays, at: rays.d.__setitem__(at, rays.d[at] * 2.0**-1060),
}


@pytest.mark.parametrize("how", SPOILERS)
def test_spoiled_lanes(how: str, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rays that are not valid, or not ordinary, in every lane beside good ones."""
    mesh = organic(rng)
    tree = BVH.from_triangles(*mesh)
    n = 520
    good = camera(mesh, n, rng)
    for period in (1, 2, 3, 7, 17):
        for first in range(min(period, 3)):
            rays = Batch(good.o.copy(), good.d.copy(), np.zeros(n), np.full(n, 1e9))
            SPOILERS[how](rays, np.arange(first, n, period))
            ways = [Order(n, 0, kernel) for kernel in (STREAMS, SINGLES)]
            assert_brute(tree, rays, ways, monkeypatch)
    for lane in range(33):
        rays = Batch(good.o[:70].copy(), good.d[:70].copy(), np.zeros(70), np.full(70, 1e9))
        SPOILERS[how](rays, np.array([lane, 69 - lane]))
        assert_brute(tree, rays, [Order(70, 0, STREAMS)], monkeypatch)


@pytest.mark.parametrize("kind", ["boxes", "obbs"])
def test_boxes(kind: str, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees over boxes, one by one and where streams are asked for."""
    lower = rng.uniform(-1.0, 0.9, (400, 3))
    upper = lower + rng.uniform(-0.01, 0.2, (400, 3))
    lower[::9] = np.round(lower[::9] * 4.0) / 4.0
    if kind == "boxes":
        tree = BVH.from_boxes(lower, upper)
    else:
        turns = np.tile(np.eye(4), (400, 1, 1))
        turns[:, :3, :3] += 0.3 * rng.normal(size=(400, 3, 3))
        tree = BVH.from_obbs(lower, upper, turns)
    valid = (lower <= upper).all(axis=1)
    corners = np.where(rng.random((400, 3)) < 0.5, lower, upper)[valid]
    mesh = corners, np.arange(len(corners) // 3 * 3).reshape(-1, 3)
    for make in (towards, camera, axis_parallel, lines, far, lengths, surface):
        rays = make(mesh, 300, rng)
        assert_brute(tree, rays, orders(rays, rng, 60), monkeypatch)


def test_copies_of_a_triangle(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many lie in one place, in whatever rows: the lowest id wins."""
    points, faces = organic(rng)
    faces = np.repeat(faces, 5, axis=0)
    faces = faces[rng.permutation(len(faces))]
    tree = BVH.from_triangles(points, faces)
    rays = towards((points, faces), 600, rng)
    assert_brute(tree, rays, orders(rays, rng), monkeypatch)


@pytest.mark.slow
def test_many_more(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the above with other numbers."""
    for _ in range(10):
        for name in MESHES:
            for what in RAYS:
                mesh = MESHES[name](rng)
                tree = BVH.from_triangles(*mesh, quality=str(rng.choice(QUALITIES)))
                rays = RAYS[what](mesh, 900, rng)
                cull = CULLS[rng.integers(3)]
                assert_brute(tree, rays, orders(rays, rng, 90), monkeypatch, cull)
