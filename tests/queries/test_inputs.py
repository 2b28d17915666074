"""What builders and queries take, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trimesh import Scene, Trimesh
from trimesh.caching import tracked_array

from bvh import BVH, Hits
from bvh.queries.query_arguments import ray_batch
from bvh.traversal.rays.closest_hit import closest_hits
from bvh.tree import build
from bvh.tree.builders import binned_sah

FIELDS = ("t", "prim_id", "u", "v", "front")


def unaligned(a: np.ndarray) -> np.ndarray:
    """Return the rows of a packed record whose numbers start at odd addresses."""
    packed = np.zeros(len(a), np.dtype([("tag", "u1"), ("value", a.dtype, a.shape[1:])]))
    packed["value"] = a
    assert not packed["value"].flags.aligned
    return packed["value"]


def read_only(a: np.ndarray) -> np.ndarray:
    """Return a copy that must not be written to."""
    a = a.copy()
    a.flags.writeable = False
    return a


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "lists": lambda a: a.tolist(),
    "tuples": lambda a: tuple(tuple(x) if np.ndim(x) else float(x) for x in a),
    "list of arrays": list,
    "int64": lambda a: a.astype(np.int64),
    "int8": lambda a: a.astype(np.int8),
    "float32": lambda a: a.astype(np.float32),
    "float16": lambda a: a.astype(np.float16),
    "big-endian": lambda a: a.astype(">f8"),
    "Fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 3, axis=0)[::3],
    "strided components": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "reversed components": lambda a: a[..., ::-1].copy()[..., ::-1],
    "read-only": read_only,
    "unaligned": unaligned,
    "TrackedArray": tracked_array,
    "buffer": memoryview,
}
FACE_FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    **{f"{u}int{bits}": lambda a, t=f"{u}int{bits}": a.astype(t)
       for u in ("", "u") for bits in (8, 16, 32, 64)},
    "lists": lambda a: a.tolist(),
    "tuples": lambda a: tuple(map(tuple, a.tolist())),
    "big-endian": lambda a: a.astype(">i4"),
    **{name: FORMS[name] for name in ("Fortran", "strided", "strided components", "reversed",
                                      "read-only", "unaligned", "TrackedArray")},
}  # fmt: skip


def soup(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return (vertices, faces) whose coordinates are integers, so that every form is exact."""
    return rng.integers(-9, 10, (60, 3)).astype(float), rng.integers(0, 60, (90, 3))


def whole_rays(rng: np.random.Generator, n: int = 200) -> tuple[np.ndarray, ...]:
    """Return origins, directions, t_min and t_max in integers."""
    rays = rng.integers(-12, 13, (n, 3)), rng.integers(-3, 4, (n, 3))
    ranges = rng.integers(-3, 1, n), rng.integers(2, 9, n)
    return tuple(a.astype(float) for a in rays + ranges)


def assert_same(got: Hits, wanted: Hits, rows: Any = ()) -> None:
    """Compare all fields bit for bit."""
    for name in FIELDS:
        a, b = np.asarray(getattr(got, name))[rows], np.asarray(getattr(wanted, name))[rows]
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), name


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, rng: np.random.Generator) -> None:
    """Every form of the same numbers gives the same bits, and is not written to."""
    make, (vertices, faces), rays = FORMS[form], soup(rng), whole_rays(rng)
    tree = BVH.from_triangles(vertices, faces)
    wanted, wanted_any = tree.closest_hit(*rays), tree.any_hit(*rays)
    assert 9 < wanted.mask.sum() < 190
    given = [make(a) for a in (vertices, *rays)]
    other = BVH.from_triangles(given[0], faces)
    assert other.vertices.tobytes() == tree.vertices.tobytes()
    assert_same(other.closest_hit(*given[1:]), wanted)
    assert np.array_equal(other.any_hit(*given[1:]), wanted_any)
    for array, before in zip(given, (vertices, *rays), strict=True):
        assert np.array_equal(np.asarray(array), before)
        assert not isinstance(array, np.ndarray) or array.flags.writeable == (form != "read-only")


@pytest.mark.parametrize("form", FACE_FORMS)
def test_face_forms(form: str, rng: np.random.Generator) -> None:
    """Faces of any integer type and layout make the same tree."""
    vertices, faces = soup(rng)
    tree = BVH.from_triangles(vertices, faces)
    given = FACE_FORMS[form](faces)
    other = BVH.from_triangles(vertices, given)
    assert np.array_equal(other.faces, faces) and other.faces.dtype == np.int32
    assert np.array_equal(np.asarray(given), faces)
    for a, b in zip(tree.arrays.nodes, other.arrays.nodes, strict=True):
        assert a.tobytes() == b.tobytes()
    # More vertices than a small integer type can count.
    BVH.from_triangles(np.zeros((300, 3)), given)


def test_what_is_copied(rng: np.random.Generator) -> None:
    """All that somebody could write to; neither what is read-only, nor what was converted."""
    vertices, faces = soup(rng)
    faces = faces.astype(np.int32)
    whole = np.concatenate([vertices, vertices])
    whole.flags.writeable = False
    constant = {
        "read-only": (read_only(vertices), read_only(faces)),
        "parts of what is read-only": (whole[: len(vertices)], read_only(faces)[:]),
        "only one refers to": (read_only(vertices.ravel()).reshape(-1, 3), read_only(faces)),
        "bytes": (np.frombuffer(vertices.tobytes()).reshape(-1, 3), read_only(faces)),
    }
    view = vertices.view()
    view.flags.writeable = False
    open_to_writers = {
        "arrays": (vertices, faces),
        "a read-only view": (view, faces),
        "columns": (read_only(vertices.T).T, read_only(faces.T).T),
    }
    wanted = BVH.from_triangles(vertices.tolist(), faces.tolist())
    for shares, cases in ((True, constant), (False, open_to_writers)):
        for name, given in cases.items():
            tree = BVH.from_triangles(*given)
            for kept, array in zip((tree.vertices, tree.faces), given, strict=True):
                assert np.shares_memory(kept, array) == shares, name
                assert kept.flags.c_contiguous and not kept.flags.writeable, name
            assert tree.arrays.groups.tobytes() == wanted.arrays.groups.tobytes(), name
    again = BVH.from_triangles(wanted.vertices, wanted.faces)
    assert np.shares_memory(again.vertices, wanted.vertices)
    tree, before = BVH.from_triangles(vertices, faces), vertices.copy()
    vertices[:], faces[:] = np.nan, -1
    assert np.array_equal(tree.vertices, before) and np.array_equal(tree.faces, wanted.faces)


def test_a_broadcast_row_stays_one(rng: np.random.Generator) -> None:
    """Such as the origin of a camera's rays: the same answers, and no copies of it."""
    tree = BVH.from_triangles(*soup(rng))
    origin, directions = np.broadcast_to([0.1, 0.2, 5.0], (6, 7, 3)), rng.normal(size=(6, 7, 3))
    limits = np.broadcast_to(9.0, (6, 7))
    batch = ray_batch(origin, directions, 0.0, limits)
    assert batch.rays.origins.shape == (1, 3)
    assert batch.rays.t_max.shape == (1,)
    assert batch.shape == (6, 7)
    found = tree.closest_hit(origin, directions, 0.0, limits)
    wanted = tree.closest_hit(origin.copy(), directions, 0.0, limits.copy())
    assert found.t.tobytes() == wanted.t.tobytes()
    assert found.position.tobytes() == wanted.position.tobytes()


def test_boxes_take_the_same_forms(rng: np.random.Generator) -> None:
    """Corners and transforms of every form make the same trees."""
    lower = rng.integers(-9, 9, (30, 3)).astype(float)
    upper = lower + rng.integers(1, 4, (30, 3))
    matrices = np.tile(np.diag([1.0, 2.0, 4.0, 1.0]), (30, 1, 1))
    rays = whole_rays(rng)
    boxes = BVH.from_boxes(lower, upper).closest_hit(*rays)
    obbs = BVH.from_obbs(lower, upper, matrices).closest_hit(*rays)
    for make in FORMS.values():
        low, high = make(lower), make(upper)
        assert_same(BVH.from_boxes(low, high).closest_hit(*rays), boxes)
        assert_same(BVH.from_obbs(low, high, make(matrices)).closest_hit(*rays), obbs)


def test_shapes(rng: np.random.Generator) -> None:
    """Leading shapes broadcast, and results have the common one."""
    tree = BVH.from_triangles(*soup(rng))
    o, d, t_min, t_max = (a[:6] for a in whole_rays(rng))
    flat = tree.closest_hit(o, d, t_min, t_max)
    cubic = [a.reshape(2, 3, *a.shape[1:]) for a in (o, d, t_min, t_max)]
    batch = tree.closest_hit(*cubic)
    assert batch.t.shape == batch.mask.shape == tree.any_hit(*cubic).shape == (2, 3)
    assert_same(Hits(*(getattr(batch, f).reshape(6) for f in FIELDS)), flat)
    one = tree.closest_hit(o[0], d)
    assert_same(one, tree.closest_hit(np.tile(o[0], (6, 1)), d))
    assert_same(tree.closest_hit(o, d[0]), tree.closest_hit(o, np.tile(d[0], (6, 1))))
    grid = tree.closest_hit(o[:2, None], d)
    assert grid.t.shape == (2, 6)
    assert_same(Hits(*(getattr(grid, f)[0] for f in FIELDS)), one)
    ends = tree.closest_hit(o[0], d[0], t_min=[-2.0, -1.0], t_max=[[3.0], [5.0], [9.0]]).t
    assert ends.shape == (3, 2) and ends[1, 0] == tree.closest_hit(o[0], d[0], -2.0, 5.0).t


def test_one_ray_gives_python_scalars() -> None:
    """A ray of shape (3,) gives plain Python numbers; one of shape (1, 3) gives arrays."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    for side in (1, -1):
        hit = tree.closest_hit([0, 0, 0], [side, side, side])
        assert [type(getattr(hit, f)) for f in FIELDS] == [float, int, float, float, bool]
        assert hit.mask is tree.any_hit([0, 0, 0], [side, side, side]) is (side > 0)
    assert tree.closest_hit([[0, 0, 0]], [1, 1, 1]).t.shape == (1,)


def test_nothing_to_do() -> None:
    """Empty batches and empty meshes are fine."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    for o, d in (([], []), (np.empty((0, 3)), np.ones(3)), (np.ones((1, 3)), [])):
        assert tree.closest_hit(o, d).t.shape == tree.any_hit(o, d).shape == (0,)
        assert tree.closest_hit(o, d, validate_rays=True).prim_id.dtype == np.int32
    assert tree.closest_hit(np.empty((0, 5, 3)), np.ones(3)).t.shape == (0, 5)
    for vertices in ([], np.empty((0, 3)), np.eye(3)):
        for faces in ([], np.empty((0, 3)), np.empty((0, 3), np.uint8)):
            empty = BVH.from_triangles(vertices, faces)
            empty.validate()
            assert (len(empty), empty.faces.shape) == (0, (0, 3))
            assert np.isnan(empty.bounds).all() and empty.stats().nodes == 0
            assert not empty.closest_hit(np.zeros((4, 3)), np.ones(3)).mask.any()
            assert empty.any_hit(np.zeros(3), np.ones(3)) is False


def test_meshes(rng: np.random.Generator) -> None:
    """`from_mesh` takes pairs, meshes and scenes; a scene's instances are placed."""
    vertices, faces = soup(rng)
    rays = whole_rays(rng)
    wanted = BVH.from_triangles(vertices, faces).closest_hit(*rays)
    mesh = Trimesh(vertices, faces, process=False)
    for given in ((vertices, faces), [vertices.tolist(), faces.tolist()], mesh, Scene(mesh)):
        assert_same(BVH.from_mesh(given).closest_hit(*rays), wanted)
    shift = np.eye(4)
    shift[:3, 3] = 64, -32, 16
    scene = Scene()
    scene.add_geometry(mesh, transform=shift)
    moved = BVH.from_mesh(scene).closest_hit(rays[0] + shift[:3, 3], *rays[1:])
    assert np.array_equal(moved.prim_id, wanted.prim_id)
    assert len(BVH.from_mesh(Scene())) == 0
    for bad in (None, "mesh.ply", vertices, (vertices, faces, faces), 3):
        with pytest.raises(TypeError, match="mesh"):
            BVH.from_mesh(bad)


BAD_RAYS: list[tuple[int, int, float]] = [
    # Which argument, which of its components (-1 for all), and the value that spoils the ray.
    *((which, axis, value) for which in (0, 1) for axis in (0, 1, 2)
      for value in (np.nan, np.inf, -np.inf)),
    (1, -1, 0.0), (1, -1, -0.0), (2, -1, np.nan), (3, -1, np.nan), (2, -1, 99.0), (3, -1, -99.0),
]  # fmt: skip


def test_a_bad_ray_costs_only_itself(rng: np.random.Generator) -> None:
    """It misses; its neighbours keep their bits; `validate_rays` names it."""
    tree = BVH.from_triangles(*soup(rng))
    rays = whole_rays(rng)
    rays[1][(rays[1] == 0).all(axis=1)] = 1.0
    wanted, wanted_any = tree.closest_hit(*rays, validate_rays=True), tree.any_hit(*rays)
    spoiled = [a.copy() for a in rays]
    victims = np.sort(rng.choice(len(rays[0]), len(BAD_RAYS), replace=False))
    for i, (which, axis, value) in zip(victims, BAD_RAYS, strict=True):
        alone = [a.copy() for a in rays]
        for array in (alone[which], spoiled[which]):
            array[i, ... if axis < 0 else axis] = value
        for ask in (tree.closest_hit, tree.any_hit):
            with pytest.raises(ValueError, match=rf"ray {i}\b"):
                ask(*alone, validate_rays=True)
    with np.errstate(all="raise"):
        hits, any_hit = tree.closest_hit(*spoiled), tree.any_hit(*spoiled)
    others = np.setdiff1d(np.arange(len(rays[0])), victims)
    assert_same(hits, wanted, others)
    assert np.array_equal(any_hit[others], wanted_any[others])
    assert np.all(hits.t[victims] == np.inf) and np.all(hits.prim_id[victims] == -1)
    assert np.isnan(hits.u[victims]).all() and np.isnan(hits.v[victims]).all()
    assert not hits.front[victims].any() and not any_hit[victims].any()


def test_validate_rays_names_the_first_bad_ray() -> None:
    """By its place in the batch, whatever is wrong with it and with later ones."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    o, d = np.zeros((2, 3, 3)), np.ones((2, 3, 3))
    d[1, 0], o[1, 2] = 0.0, np.nan
    with pytest.raises(ValueError, match="ray 1, 0 has a zero direction"):
        tree.closest_hit(o, d, validate_rays=True)
    with pytest.raises(ValueError, match="ray 0 "):
        tree.any_hit([0, 0, np.inf], [1, 0, 0], validate_rays=True)
    with pytest.raises(ValueError, match="ray 0 "):
        tree.any_hit(np.zeros((5, 3)), [0, 0, 0], validate_rays=True)


def test_validate_rays_takes_every_ray_that_can_hit() -> None:
    """Lines, single points of t, the smallest and largest directions; and no rays at all."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    for t_min in (-np.inf, 0.0, 2.0, np.inf):
        rays = [0, 0, 0], [5e-324, 0, -1.7e308], t_min, np.inf
        checked, hit = (tree.closest_hit(*rays, validate_rays=check) for check in (True, False))
        assert (checked.prim_id, checked.t) == (hit.prim_id, hit.t)
        # The line passes the triangle's edge at x = -2.9e-632.
        assert not hit.mask
    hit = tree.closest_hit([-1, 0, 0], [1, 0, 0], 2.0, 2.0, validate_rays=True)
    assert (hit.prim_id, hit.t) == (0, 2.0)
    for shape in ((0, 3), (0, 5, 3)):
        none = tree.closest_hit(np.empty(shape), np.zeros(3), validate_rays=True)
        assert none.t.shape == none.prim_id.shape == shape[:-1]


def test_a_tree_owns_its_arrays(rng: np.random.Generator) -> None:
    """Later changes of the caller's arrays do not reach it, and nobody can write to it."""
    vertices, faces = soup(rng)
    vertices32, faces32 = vertices.copy(), faces.astype(np.int32)
    rays = whole_rays(rng)
    tree = BVH.from_triangles(vertices32, faces32)
    before = tree.closest_hit(*rays)
    vertices32[:], faces32[:] = 0.0, 0
    assert_same(tree.closest_hit(*rays), before)
    lower, upper = vertices[:30].copy(), vertices[:30] + 2.0
    boxes = BVH.from_boxes(lower, upper)
    held = boxes.closest_hit(*rays)
    lower[:] = 7.0
    assert_same(boxes.closest_hit(*rays), held)
    for any_tree in (tree, boxes):
        nodes, groups, primitives, frame, bits = any_tree.arrays
        arrays = (*nodes, *([groups] if any_tree is tree else []), *primitives, frame, bits)
        for array in (*arrays, any_tree.bounds):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


def test_no_input_makes_a_kernel_compile_again(rng: np.random.Generator) -> None:
    """One signature of each kernel serves all forms, shapes and meshes."""
    (vertices, faces), rays = soup(rng), whole_rays(rng)
    BVH.from_triangles(vertices, faces).closest_hit(*rays)
    for make in FORMS.values():
        tree = BVH.from_triangles(make(vertices), faces)
        given = [make(a) for a in rays]
        for ask in (tree.closest_hit, tree.any_hit):
            ask(*given)
            ask(*given[:2])
            ask(rays[0][0], given[1], cull="back", threads=2)
            ask(rays[0][:, None], rays[1][0], t_min=np.float32(-1), t_max=3)
            ask([], [])
            ask([1, 2, 3], (4, 5, 6))
    for make in FACE_FORMS.values():
        BVH.from_triangles(vertices, make(faces))
    BVH.from_triangles([], []).closest_hit(*rays)
    kinds = map(str, closest_hits.specialisations)
    assert len([kind for kind in kinds if "TriangleRow" in kind and "ClosestGoal" in kind]) == 1
    # "high" has one more, with spatial splits.
    kinds = map(str, binned_sah.build_subtrees.specialisations)
    assert len([kind for kind in kinds if "none" in kind]) == 1
    assert len(build._record_triangles.specialisations) == 1


@pytest.mark.parametrize("kind", [list, tuple, np.float32, np.int32, np.int64, "mixed"])
def test_a_single_ray_takes_the_short_way(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its six numbers are: it compiles no kernel for batches."""
    tree = BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    o, d = (1, 1, 5), (0, 0, -2)
    if kind == "mixed":
        rays = (np.array(o, float), [0, 0.0, np.float64(-2.0)])
    else:
        rays = (kind(o), kind(d)) if isinstance(kind, type) and kind in (list, tuple) else (
            np.array(o, kind), np.array(d, kind)
        )  # fmt: skip
    wanted = tree.closest_hit(np.array(o, float)[None], np.array(d, float))
    monkeypatch.setattr("bvh.queries.batches.quick_calls.plain_rays", None)
    monkeypatch.setattr("bvh.queries.batches.ray_batches._trace", None)
    hit = tree.closest_hit(*rays)
    assert (hit.t, hit.prim_id, hit.u, hit.v) == (2.5, 0, wanted.u[0], wanted.v[0])
    assert tree.any_hit(*rays) is True


@pytest.mark.parametrize("far", [10**400, "1", None, True])
def test_no_numbers_of_a_single_ray(far: Any) -> None:
    """They are refused, or taken, as those of a batch are."""
    tree = BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    answers = []
    for rays in (([1, 1, far], [0, 0, -1]), ([[1, 1, far]], [[0, 0, -1]])):
        try:
            answers.append(float(np.ravel(tree.closest_hit(*rays).t)[0]))
        except (TypeError, ValueError, OverflowError) as error:
            answers.append(type(error))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", ">i2", ">i4"])
def test_negative_faces_of_any_integers(kind: str) -> None:
    """Also of short ones, which have no larger unsigned number than all counts of vertices."""
    vertices = np.ones((70_000, 3))
    faces = np.array([[0, 1, 2], [0, 1, -1]], kind)
    with pytest.raises(ValueError, match=r"faces must index .* got \[0, 1, -1\] in row 1"):
        BVH.from_triangles(vertices, faces)
    assert len(BVH.from_triangles(vertices, faces[:1]).faces) == 1
