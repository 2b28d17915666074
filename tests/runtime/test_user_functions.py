"""Users' functions in the traversal: filters, primitives of their own, and their own loops."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numba
import numpy as np
import pytest

import bvh
from bvh import kernels
from bvh.docs.programs import ambient_occlusion, foliage, lidar
from tests.cases import aims
from tests.cases.soups import soup

N = 3_000


@numba.njit
def in_groups(ray_id, prim_id, t, u, v, data):
    """Accept the faces of a ray's group, where the weights are in order."""
    groups, wanted, log = data
    # Weights and distance must be those of the hit.
    if not (0.0 <= u <= 1.0 and 0.0 <= v <= 1.0 and u + v <= 1.0 + 1e-12 and t >= 0.0):
        log[0] += 1
    return groups[prim_id] == wanted[ray_id]


@pytest.mark.parametrize("quality", ["medium", "high"])
def test_filters(quality: str, rng: np.random.Generator) -> None:
    """Closest, any, all, counted and first hits of the faces that a filter accepts."""
    tree = bvh.BVH.from_triangles(*soup(rng, N, 1.0), quality=quality)
    o, d = aims.random_rays(*tree.bounds, 2_000, rng)
    groups = rng.integers(0, 3, N)
    wanted = rng.integers(0, 3, len(o))
    log = np.zeros(1, np.int64)
    told: dict[str, Any] = {"filter": in_groups, "data": (groups, wanted, log)}
    everything = tree.all_hits(o, d)
    good = groups[everything.prim_id] == wanted[everything.ray_id]
    counts = np.bincount(everything.ray_id[good], minlength=len(o))
    first = np.searchsorted(everything.ray_id[good], np.arange(len(o)))
    some = counts > 0
    for threads in (1, 2):
        hits = tree.closest_hit(o, d, threads=threads, **told)
        assert np.array_equal(hits.mask, some)
        for name in ("prim_id", "t", "u", "v", "front"):
            wanted_values = getattr(everything, name)[good][first[some]]
            assert np.array_equal(getattr(hits, name)[some], wanted_values)
        assert np.array_equal(tree.any_hit(o, d, threads=threads, **told), some)
        kept = tree.all_hits(o, d, threads=threads, **told)
        assert np.array_equal(kept.prim_id, everything.prim_id[good])
        assert np.array_equal(kept.t, everything.t[good])
        assert np.array_equal(
            tree.count_hits(o, d, edges="closed", threads=threads, **told), counts
        )
        two = tree.all_hits(o, d, max_hits=2, threads=threads, **told)
        assert np.array_equal(two.counts, np.minimum(counts, 2))
        assert np.isin(two.prim_id, kept.prim_id).all()
    assert log[0] == 0


def test_a_filter_that_ignores_the_face_a_ray_starts_on() -> None:
    """Neighbours that share the vertex a ray starts at are found, the face itself is not."""
    tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]],
                                  [[0, 1, 2], [0, 2, 3], [0, 3, 1]])  # fmt: skip
    start = np.array([1, 0])
    hits = tree.closest_hit([0.0, 0.0, 0.0], np.array([[1.0, 1, 1], [1, 1, 1]]),
                            filter=_not_mine, data=start)  # fmt: skip
    assert hits.prim_id.tolist() == [0, 1] and hits.t.tolist() == [0.0, 0.0]


@numba.njit
def _not_mine(ray_id, prim_id, t, u, v, mine):
    return prim_id != mine[ray_id]


def test_counters(rng: np.random.Generator) -> None:
    """The same hits, and figures that grow with what there is to visit."""
    tree = bvh.BVH.from_triangles(*soup(rng, N, 0.5))
    o, d = aims.random_rays(*tree.bounds, 1_000, rng)
    plain, counted = tree.closest_hit(o, d), tree.closest_hit(o, d, counters=True)
    assert counted.nodes is not None
    assert np.array_equal(plain.prim_id, counted.prim_id) and np.array_equal(plain.t, counted.t)
    assert np.all(counted.nodes[counted.mask] >= 1) and np.all(counted.tests[counted.mask] >= 1)
    assert counted.nodes.max() <= tree.stats().nodes and counted.tests.max() <= N
    away = tree.closest_hit([9e9, 9e9, 9e9], [1.0, 0.0, 0.0], counters=True)
    assert away.nodes is not None
    assert (away.nodes, away.tests, away.prim_id) == (0, 0, -1)
    assert counted[5].tests == counted.tests[5]
    box = bvh.BVH.from_boxes(np.zeros((1, 3)), np.ones((1, 3)))
    assert box.closest_hit([0.5, 0.5, 9.0], [0.0, 0.0, -1.0], counters=True).tests == 1


@numba.njit
def meet_sphere(prim_id, o, d, t_min, t_max, spheres):
    """Return the nearer end in the range of a ray's way through a sphere."""
    x, y, z = o[0] - spheres[prim_id, 0], o[1] - spheres[prim_id, 1], o[2] - spheres[prim_id, 2]
    r = spheres[prim_id, 3]
    a = d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
    b = x * d[0] + y * d[1] + z * d[2]
    root = b * b - a * (x * x + y * y + z * z - r * r)
    if root < 0.0:
        return math.inf, 0.0, 0.0
    for t in ((-b - math.sqrt(root)) / a, (-b + math.sqrt(root)) / a):
        if t_min <= t <= t_max:
            return t, a, b
    return math.nan, 0.0, 0.0


@numba.njit
def brute_spheres(origins, directions, spheres, t, prim):
    """Test all spheres, one after the other."""
    for i in range(len(origins)):
        o = (origins[i, 0], origins[i, 1], origins[i, 2])
        d = (directions[i, 0], directions[i, 1], directions[i, 2])
        for k in range(len(spheres)):
            at, _, _ = meet_sphere(k, o, d, 0.0, math.inf, spheres)
            if at < t[i]:
                t[i], prim[i] = at, k


def test_primitives_of_ones_own(rng: np.random.Generator) -> None:
    """Spheres: the same as testing them all; every verb agrees."""
    spheres = rng.random((2_000, 4))
    spheres[:, 3] *= 0.03
    spheres[7] = np.nan
    tree = bvh.BVH.from_custom(
        spheres[:, :3] - spheres[:, 3:], spheres[:, :3] + spheres[:, 3:], meet_sphere, spheres
    )
    assert tree.kind == "custom" and len(tree) == 2_000 and tree.stats().ignored == 1
    tree.validate()
    o, d = aims.random_rays(np.zeros(3), np.ones(3), 3_000, rng)
    t, prim = np.full(len(o), np.inf), np.full(len(o), -1)
    brute_spheres(o, d, spheres, t, prim)
    hits = tree.closest_hit(o, d)
    assert np.array_equal(hits.prim_id, prim) and np.array_equal(hits.t, t)
    assert np.allclose(hits.u[hits.mask], (d * d).sum(axis=1)[hits.mask])
    assert np.array_equal(tree.any_hit(o, d), hits.mask)
    everything = tree.all_hits(o, d)
    assert np.array_equal(everything.counts > 0, hits.mask)
    assert np.array_equal(everything.t[everything.offsets[:-1][hits.mask]], t[hits.mask])
    assert tree.closest_hit(o[0], d[0]).prim_id == prim[0]
    assert tree.caster()(*o[1], *d[1])[1] == prim[1]
    assert np.array_equal(pickle.loads(pickle.dumps(tree)).closest_hit(o, d).t, t)
    with pytest.raises(TypeError, match="cannot be saved"):
        tree.save("spheres.bvh")
    for refused in ("cull", "vertices"):
        with pytest.raises((ValueError, AttributeError), match=refused):
            tree.closest_hit(o, d, cull="back") if refused == "cull" else tree.vertices


@numba.njit
def loops(arrays, origins, directions, t, prim, hit, counts, first_t, first_prim, seen):
    """Ask everything that kernels answer."""
    for i in range(len(origins)):
        o, d = origins[i], (directions[i, 0], directions[i, 1], directions[i, 2])
        t[i], prim[i], _, _, _ = kernels.closest_hit(arrays, o, d)
        hit[i] = kernels.any_hit(arrays, o, d, 0.0, np.inf)
        counts[i] = kernels.first_hits(arrays, o, d, 0.0, np.inf, first_t[i], first_prim[i])
        kernels.visit_hits(arrays, o, d, 0.0, np.inf, note, seen[i : i + 1])


@numba.njit
def note(ray_id, prim_id, t, u, v, seen):
    """Count a hit; stop at the 50th."""
    seen[0] += 1
    return seen[0] == 50


@pytest.mark.long
def test_kernels_in_ones_own_loop(rng: np.random.Generator) -> None:
    """The same answers as the batches."""
    tree = bvh.BVH.from_triangles(*soup(rng, N, 2.0))
    nothing = bvh.BVH.from_triangles(np.zeros((0, 3)), np.zeros((0, 3), int))
    o, d = aims.random_rays(*tree.bounds, 500, rng)
    o[3], d[4] = np.nan, 0.0
    n = len(o)
    for asked in (tree, nothing):
        t, prim, hit = np.empty(n), np.empty(n, np.int64), np.empty(n, np.bool_)
        counts, seen = np.empty(n, np.int64), np.zeros(n, np.int64)
        first_t, first_prim = np.empty((n, 4)), np.empty((n, 4), np.int32)
        loops(asked.arrays, o, d, t, prim, hit, counts, first_t, first_prim, seen)
        hits, few = asked.closest_hit(o, d), asked.all_hits(o, d, max_hits=4)
        assert np.array_equal(hits.t, t) and np.array_equal(hits.prim_id, prim)
        assert np.array_equal(hits.mask, hit) and np.array_equal(few.counts, counts)
        kept = np.arange(4) < counts[:, None]
        assert np.array_equal(first_t[kept], few.t)
        assert np.array_equal(first_prim[kept], few.prim_id)
        assert np.array_equal(seen, np.minimum(asked.count_hits(o, d, edges="closed"), 50))


def test_code_and_data_that_kernels_cannot_take() -> None:
    """The argument that is at fault is named, before anything is compiled."""
    tree = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    corner = np.zeros((1, 3))
    for ask in (tree.closest_hit, tree.any_hit, tree.all_hits, tree.count_hits):
        with pytest.raises(TypeError, match=r"filter must take \(ray_id.*, got too_few\(a, b\)"):
            ask(corner, corner + 1.0, filter=too_few)
        for data in ({1: 2}, np.array([None]), (np.ones(2), ({},)), numba.typed.List([1])):
            with pytest.raises(TypeError, match="data must be an array of numbers"):
                ask(corner, corner + 1.0, filter=_not_mine, data=data)
        # For these Numba has errors of its own.
        foreign = np.dtype(np.float64).newbyteorder()
        for data in (np.ones(2, foreign), (1, np.ones(2, foreign)), np.ma.ones(2)):
            with pytest.raises(TypeError, match=r"data must be an array of numbers.*, got [a-zM]"):
                ask(corner, corner + 1.0, filter=_not_mine, data=data)
        # Nobody would be given the data.
        with pytest.raises(ValueError, match="data must be None where there is no filter, got di"):
            ask(corner, corner + 1.0, data={1: 2})
    with pytest.raises(TypeError, match=r"intersect must take \(prim_id, origin"):
        bvh.BVH.from_custom(corner, corner, too_few)
    with pytest.raises(TypeError, match=r"data must be an array of numbers.*, got dict"):
        bvh.BVH.from_custom(corner, corner, meet_sphere, {})


@numba.njit
def too_few(a, b):
    return a < b


@numba.njit
def approach(arrays, points, limit, distance, prim):
    """Ask for the nearest point, with a limit and without."""
    for i in range(len(points)):
        distance[i, 0], prim[i, 0], _, _ = kernels.closest_point(arrays, points[i])
        distance[i, 1], prim[i, 1], _, _ = kernels.closest_point(arrays, points[i], limit)


@pytest.mark.long
def test_nearest_points_in_ones_own_loop(rng: np.random.Generator) -> None:
    """The same answers as the batches, far away and for bad points, too."""
    tree = bvh.BVH.from_triangles(*soup(rng, N, 0.5))
    nothing = bvh.BVH.from_triangles(np.zeros((0, 3)), np.zeros((0, 3), int))
    points = rng.normal(size=(300, 3)) * 10.0 ** rng.integers(-2, 15, (300, 1))
    points[5] = np.nan
    for asked in (tree, nothing):
        distance, prim = np.empty((300, 2)), np.empty((300, 2), np.int64)
        approach(asked.arrays, points, 0.7, distance, prim)
        for column, limit in enumerate((np.inf, 0.7)):
            near = asked.closest_point(points, limit)
            assert np.array_equal(near.distance, distance[:, column])
            assert np.array_equal(near.prim_id, prim[:, column])


@numba.njit
def into(arrays, t, prim_id):
    """Ask for first hits."""
    return kernels.first_hits(arrays, (0.0, 0.0, 5.0), (0.0, 0.0, -1.0), 0.0, 9.0, t, prim_id)


def test_first_hits_go_where_they_can() -> None:
    """Arrays that cannot be written, or hold something else, are named."""
    tree = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    constant = np.empty(3)
    constant.flags.writeable = False
    for t in (constant, np.empty(3, np.float32), np.empty(6)[::2]):
        with pytest.raises(numba.TypingError, match="t must be a contiguous, writable array"):
            into(tree.arrays, t, np.empty(3, np.int32))
    with pytest.raises(numba.TypingError, match=r"prim_id must be .* int32"):
        into(tree.arrays, np.empty(3), np.empty(3, np.int64))


@numba.njit
def fails(ray_id, prim_id, t, u, v, data):
    """Trip over the second face."""
    if prim_id == 1:
        raise ValueError("a user's mistake")
    return True


def test_a_filter_that_raises(rng: np.random.Generator) -> None:
    """The exception arrives, and the tree answers on."""
    tree = bvh.BVH.from_triangles(*soup(rng, 100, 5.0))
    o, d = aims.random_rays(*tree.bounds, 2_000, rng)
    with pytest.raises(ValueError, match="a user's mistake"):
        tree.closest_hit(o, d, filter=fails)
    assert tree.any_hit(o, d).any()


def test_foliage() -> None:
    """More light falls through leaves than through the cards they are cut from."""
    whole, cut = foliage.light_through(500, 60)
    assert 0.0 < whole < cut < 1.0
    vertices, faces, uv = foliage.cards(50)
    tree = bvh.BVH.from_triangles(vertices, faces)
    alpha = foliage.leaf_texture()
    rng = np.random.default_rng(0)
    o, d = aims.random_rays(*tree.bounds, 2_000, rng)
    everything = tree.all_hits(o, d)
    u, v = everything.u[:, None], everything.v[:, None]
    a, b, c = np.moveaxis(uv[everything.prim_id], 1, 0)
    x, y = ((1 - u - v) * a + u * b + v * c).T
    opaque = alpha[(y * 63 + 0.5).astype(int), (x * 63 + 0.5).astype(int)] > 0.5
    got = tree.any_hit(o, d, filter=foliage.is_opaque, data=(uv, alpha))
    assert np.array_equal(got, np.bincount(everything.ray_id, opaque, len(o)) > 0)


@pytest.mark.long
def test_lidar() -> None:
    """Without loss the returns are the first hits; with it, fewer."""
    tree = lidar.terrain(16)
    directions = lidar.pulses(4, 90)
    origin, rng = np.array([0.0, 0.0, 6.0]), np.random.default_rng(0)
    returns = np.full((len(directions), lidar.RETURNS), np.nan)
    lidar.scan(tree.arrays, origin, directions, np.inf, 0.0, rng, returns)
    first = tree.all_hits(origin, directions, max_hits=lidar.RETURNS)
    assert np.array_equal(returns[np.isfinite(returns)], first.t)
    assert 0 < np.isfinite(lidar.simulate()).sum() < np.isfinite(lidar.simulate(0.0)).sum()


def test_ambient_occlusion() -> None:
    """A plate sees all of the sky; a pit sees less."""
    plate = bvh.BVH.from_triangles([[-9, -9, 0], [9, -9, 0], [0, 18, 0]], [[0, 1, 2]])
    camera = bvh.Camera.look_at([0.0, 0.0, 5.0], [0.0, 0.0, 0.0], [0, 1, 0], width=8, height=6)
    assert np.allclose(ambient_occlusion.open_sky(plate, camera, 16), 1.0)
    import trimesh

    pit = trimesh.creation.annulus(0.5, 3.0, 3.0)
    sky = ambient_occlusion.open_sky(bvh.BVH.from_mesh(pit), camera, 16)
    assert sky.min() < 0.9 and sky.max() <= 1.0 + 1e-12
