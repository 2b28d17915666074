"""What builders and queries refuse, in tables: calls, errors, messages that name what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numba
import numpy as np

import bvh
from bvh import BVH, kernels

# A call with its arguments and options, its error, and the message.
Row = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any, str]
Rows = Iterator[Row]
BOTH = TypeError, ValueError

# What no argument of real numbers may be.
NOT_REAL: list[Any] = [
    np.ones((4, 3), bool), np.ones((4, 3), complex), np.full((4, 3), "1"), "words",
    np.ones((4, 3), object), np.ones((4, 3), "M8[s]"),
    np.ones(4, np.dtype([("x", float), ("y", float), ("z", float)])), None,
    np.ma.masked_array(np.ones((4, 3)), mask=False), [[1.0, 2.0, 3.0], [1.0, 2.0]],
]  # fmt: skip
NOT_POINTS: list[Any] = [1.0, [1.0, 2.0], np.ones((4, 4)), np.ones((3, 1)), np.ones((4, 0))]
NOT_LENGTHS: list[Any] = [-1.0, -1, -5e-324, np.float32(-2), -np.inf, np.nan]
NOT_FLAGS: list[Any] = [1, 0, "yes", "", [], np.ones(2, bool), 1.0]
EYE, ZERO, ONE = np.eye(4), [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]
CORNERS = np.zeros((1, 3)), np.ones((1, 3))
FACE = np.eye(3), np.array([[0, 1, 2]])
RAY, RAYS = (np.ones(3), -np.ones(3)), (np.ones((4, 3)), -np.ones((4, 3)))
RAY_QUERIES = "closest_hit", "any_hit", "all_hits", "count_hits"
POINT_QUERIES = "closest_point", "distance", "signed_distance", "contains", "winding_number"
CAMERA = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 40, 40)


@numba.njit
def never(prim_id, origin, direction, t_min, t_max, data):
    """Miss."""
    return np.inf, 0.0, 0.0


def row(error: Any, message: str, call: Callable[..., Any], *given: Any, **options: Any) -> Row:
    return call, given, options, error, message


def rays(m: Any) -> Rows:
    good = {"origins": np.zeros((4, 3)), "directions": np.ones((4, 3))}
    for call in m.tree.closest_hit, m.tree.any_hit:
        for name in (*good, "t_min", "t_max"):
            yield from (row(BOTH, name, call, **good | {name: bad}) for bad in NOT_REAL)
        for name, bad in product(good, NOT_POINTS):
            yield row(ValueError, name, call, **good | {name: bad})
        yield row(ValueError, r"origins.*4.*directions.*5", call, np.zeros((4, 3)), np.ones((5, 3)))
        for name in "t_min", "t_max":
            yield row(ValueError, name, call, **good, **{name: np.ones(5)})
    call = m.tree.all_hits
    for edges in "twice", None, 1:
        yield row(ValueError, "edges must be 'closed' or 'once', got", call, *RAY, edges=edges)
    yield row(ValueError, "max_hits must be at least 1, got 0", call, *RAY, max_hits=0)
    yield row(TypeError, r"max_hits must be an integer, got 2\.5", call, *RAY, max_hits=2.5)
    yield row(ValueError, "ray 0 has a zero direction", m.tree.count_hits, ZERO, ZERO,
              validate_rays=True)  # fmt: skip


def triangles(m: Any) -> Rows:
    for faces, message in (
        ([[0, 1, 2, 3]], "BVH.from_mesh takes quads"), ([0, 1, 2], "faces"), ([[0, 1]], "faces"),
        (np.zeros((1, 3, 3), int), "faces"), (0, "faces"),
        ([[0, 1, 2], [0, 1, 4]], "faces.* row 1"),
        ([[0, 1, 2], [0, 1, 2], [0, -1, 2]], "faces.* row 2"),
        (np.array([[0, 1, 2**64 - 1]], np.uint64), "faces.* row 0"),
        (np.array([[0, 1, 2**32]]), "faces.* row 0"), ([[0, 1, 2**70]], "faces"),
        ([[0.0, 1.0, 2.0]], "faces"), (np.ones((1, 3), bool), "faces"),
        *((bad, "faces") for bad in NOT_REAL),
    ):  # fmt: skip
        yield row(BOTH, message, BVH.from_triangles, np.ones((4, 3)), faces)
    for bad in [*NOT_REAL, *NOT_POINTS, np.ones((2, 2, 3)), np.ones(3)]:
        yield row(BOTH, "vertices", BVH.from_triangles, bad, [[0, 1, 2]])
    # A tree over n primitives has 2n - 1 nodes, and their ids are int32.
    many, message = np.broadcast_to(np.int8(0), (2**30 + 1, 3)), "at most 1073741824 rows"
    yield row(ValueError, f"faces must have {message}", BVH.from_triangles, np.zeros((1, 3)), many)
    for quality in "low", "best", "", None, 1, ["medium"]:
        yield row(BOTH, "quality must be 'medium' or 'high'", BVH.from_triangles, *FACE,
                  quality=quality)  # fmt: skip
    yield row(ValueError, "memory must be 'full' or 'compact', got 'small'", BVH.from_triangles,
              *FACE, memory="small")  # fmt: skip
    two = np.eye(3), [[0, 1, 2], [0, 2, 1]]
    for groups, message in (
        ([1], "groups must be one number, or one for each of 2 faces"),
        ([[1, 2]], "groups must be one number, or one for each of 2 faces"),
        ([1, -1], "groups must be in 0..0xFFFFFFFF, got -1"),
        (2**32, "groups must be in 0..0xFFFFFFFF"), ([1.5, 2.0], "groups must be integers"),
        ("ab", "groups must be integers"),
    ):  # fmt: skip
        yield row(BOTH, message, BVH.from_triangles, *two, groups=groups)


def shapes(m: Any) -> Rows:
    ones, many = np.ones((4, 3)), np.tile(EYE, (4, 1, 1))
    for bad in [*NOT_REAL, *NOT_POINTS, np.ones((2, 2, 3)), np.ones(3)]:
        for name in "lower", "upper":
            corners = {"lower": ones, "upper": ones} | {name: bad}
            yield row(BOTH, name, BVH.from_boxes, **corners)
            yield row(BOTH, name, BVH.from_obbs, **corners, transforms=many)
        yield row(BOTH, "transforms", BVH.from_obbs, ones, ones, bad)
    yield row(ValueError, r"upper.*lower", BVH.from_boxes, ones, ones[:3])
    matrices = [EYE, many[:3], many[:, :3], many.reshape(4, 16)]
    for place, value in ((0, 0.0), (3, np.nan), (5, np.inf), (12, 1.0), (15, 2.0)):
        matrices.append(many.copy())
        matrices[-1][2].flat[place] = value
    yield from (row(ValueError, "transforms", BVH.from_obbs, ones, ones, bad) for bad in matrices)
    yield row(ValueError, "points must have shape", BVH.from_points, [[0, 0]])
    yield row(ValueError, "q must have the shape of p", BVH.from_segments, [ZERO], [ZERO, ONE])
    yield row(ValueError, "radii must have shape", BVH.from_spheres, [ZERO], [1.0, 2.0])
    yield row(ValueError, "centers must have shape", BVH.from_spheres, [0, 0, 0, 0], 1.0)
    yield row(TypeError, r"intersect must be .* numba.njit, got int", BVH.from_custom, *CORNERS, 3)
    z = np.zeros((3, 4))
    for given, error, message in (
        ((z[0],), ValueError, r"z must have shape \(rows, columns\)"),
        ((z[:1],), ValueError, "at least"), ((z, [0, 1, 2]), ValueError, "x must be 4 numbers"),
        ((z, None, [0, 1, 1]), ValueError, "y must be 3 numbers"),
        (("dem.tif",), TypeError, r"got the path 'dem\.tif': read it with rasterio"),
    ):  # fmt: skip
        yield row(error, message, BVH.from_heightfield, *given)
    more = {"x": [0, 1, 2, 3], "transform": (1, 0, 0, 0, 1, 0)}
    yield row(ValueError, "transform must not be given together", BVH.from_heightfield, z, **more)


def options(m: Any) -> Rows:
    for threads in 0, -2, 1.5, True, "2", np.float64(2), [2]:
        for (o, d), call in product((RAY, RAYS, m.many), (m.tree.closest_hit, m.tree.any_hit)):
            yield row(BOTH, "threads", call, o, d, threads=threads)
        yield row(BOTH, "threads", BVH.from_triangles, *FACE, threads=threads)
    for call, *given in (m.tree.distance, ZERO), (m.tree.overlap_sphere, ZERO, 1.0):
        yield row(ValueError, "threads", call, *given, threads=0)
    for cull in "both", 1, 0, False, "", ["back"]:
        yield row(BOTH, "cull", m.tree.closest_hit, *RAY, cull=cull)
    for tree in m.boxes, m.obbs:
        yield row(ValueError, "cull", tree.any_hit, *RAY, cull="back")
    for name in RAY_QUERIES:
        call = getattr(m.tree, name)
        for mask in -1, 2**32, 1.0, "a":
            yield row(BOTH, "mask must be in", call, *RAY, mask=mask)  # or integers
        yield row(ValueError, "mask must have a shape that broadcasts to the rays'", call, *RAY,
                  mask=[1, 2])  # fmt: skip
        yield row(ValueError, "exclude must be None where there are no instances", call, *RAYS,
                  exclude=0)  # fmt: skip
        yield row(TypeError, r"filter must be .* numba.njit, got <lambda>", call, *RAY,
                  filter=lambda *_: True)  # fmt: skip
    for name, mask in product(POINT_QUERIES, ([1, 2], [1])):
        yield row(ValueError, "mask must be one number", getattr(m.tree, name), RAY[0], mask=mask)
    yield row(ValueError, "mask must be one number", m.tree.caster, mask=[1, 2])
    yield row(ValueError, "counters must be False where there is a filter", m.tree.closest_hit,
              *RAY, filter=never, counters=True)  # fmt: skip
    for function in kernels.closest_hit, kernels.any_hit:
        yield row(TypeError, "must be called from a function compiled", function, m.tree.arrays,
                  *RAY)  # fmt: skip


def flags(m: Any) -> Rows:
    """Of single rays and batches, also lazy ones; data has a filter."""
    for target, ray in product((m.tree, m.scene, m.parts), (RAY, RAYS, *m.lazy)):
        queries = {name: getattr(target, name) for name in RAY_QUERIES}
        lazily = any(ray is one for one in m.lazy)
        for call, bad in product(queries.values(), (*NOT_FLAGS, *(() if lazily else (None,)))):
            yield row(TypeError, "validate_rays must be True or False, got", call, *ray,
                      validate_rays=bad)  # fmt: skip
        for name, bad in product(("closest_hit", "any_hit"), NOT_FLAGS):
            yield row(TypeError, "sort must be True or False, got", queries[name], *ray, sort=bad)
        if target is m.parts:
            continue
        for call, data in product(queries.values(), (0, 3.5, (), np.ones(3))):
            yield row(ValueError, "data must be None where there is no fil", call, *ray, data=data)
        yield row(TypeError, "counters must be True or False, got 'all'", target.closest_hit, *ray,
                  counters="all")  # fmt: skip
        for bad in {"sort": 1}, {"data": 5}:
            yield row(BOTH, r"sort must be|data must be", target.visible, *ray, **bad)


def lengths(m: Any) -> Rows:
    """One for all queries must be a length."""
    point, points = [0.3, 0.3, 0.3], np.array([[0.3, 0.3, 0.3], [0.4, 0.4, 0.4]])
    two, tree = np.tile(EYE, (2, 1, 1)), m.tree
    for bad in NOT_LENGTHS:
        asks: list[tuple[str, Row]] = []

        def add(name: str, call: Any, *given: Any, **more: Any) -> None:
            message = f"{name} must be a .*number of at least 0, got"
            asks.append(row(ValueError, message, call, *given, **more))  # noqa: B023

        add("max_distance", tree.distance_to, tree, max_distance=bad)
        add("max_distance", tree.distance_to, tree, two, max_distance=bad)
        add("max_distance", m.scene.clearances, bad)
        add("radius", bvh.ray_sphere, points, [1, 0, 0], ZERO, bad)
        add("margin", tree.visible, point, points, margin=bad)
        for target, p in product((tree, m.scene, m.parts), (point, points)):
            add("max_distance", target.closest_point, p, bad)
            add("max_distance", target.closest_point, p, bad, k=2)
            add("max_distance", target.distance, p, bad)
            add("radius", target.overlap_sphere, p, bad)
        yield from asks
    message = "max_distance must be a number of at least 0"
    yield from (row(ValueError, message, m.scene.clearances, bad) for bad in ([1.0], [[2.0]]))
    yield row(ValueError, "radius must be a finite number of at least 0, got inf",
              tree.overlap_sphere, points, np.inf)  # fmt: skip
    for target, points in product((m.tree, m.scene, m.parts), [ray[0] for ray in m.lazy]):
        for call in target.closest_point, target.distance:
            yield row(ValueError, message, call, points, -1.0)
        yield row(ValueError, "radius must be a finite number of at least 0", target.overlap_sphere,
                  points, -1.0)  # fmt: skip
        yield row(ValueError, "method must be 'parity' or 'winding'", target.signed_distance,
                  points, method="guess")  # fmt: skip
        for call in target.contains, target.signed_distance, target.winding_number:
            yield row(ValueError, "mask must be one number", call, np.ones((2, 3)), mask=[1, 2])


def points(m: Any) -> Rows:
    ask = m.tree.closest_point
    yield row(ValueError, r"points must have shape \(\.\.\., 3\)", ask, [1.0, 2.0])
    yield row(ValueError, r"points \(2,\), max_distance \(3,\)", ask, np.zeros((2, 3)), np.ones(3))
    yield row(ValueError, "k must be at least 1", ask, ZERO, k=0)
    yield row(TypeError, "k must be an integer", ask, ZERO, k=1.5)
    yield row(TypeError, "max_distance must be", ask, ZERO, "far")
    for tree, name in product((m.boxes, m.custom), POINT_QUERIES):
        yield row(TypeError, f"{name} needs a BVH over triangles, not over {tree.kind}",
                  getattr(tree, name), ZERO)  # fmt: skip
    yield row(TypeError, "spheres", m.balls.winding_number, ZERO)
    for given, error, message in (
        ({"margin": -1.0}, ValueError, "margin must be a finite number of at least 0, got -1.0"),
        ({"margin": np.nan}, ValueError, "margin must be a finite number"),
        ({"margin": "1"}, TypeError, "margin must be real numbers"),
        ({"p": [1.0, 2.0]}, ValueError, r"p must have shape \(..., 3\)"),
        ({"q": np.zeros((4, 2))}, ValueError, r"q must have shape \(..., 3\)"),
        ({"p": np.zeros((4, 3)), "q": np.zeros((5, 3))}, ValueError, r"p \(4,\), q \(5,\)"),
        ({"mask": 0.5}, TypeError, "mask must be integers"),
        ({"threads": 0}, ValueError, "threads must be at least 1, or -1 for all CPUs, got 0"),
    ):  # fmt: skip
        yield row(error, message, m.tree.visible, **{"p": ZERO, "q": ONE} | given)
    scene, number = m.mixed, m.box
    for name in POINT_QUERIES:
        yield row(TypeError, f"{name} needs .* and instance {number} is over boxes",
                  getattr(scene, name), ZERO)  # fmt: skip
    for bad in {"mask": -1}, {"mask": [1, 2]}, {"k": 0}, {"max_distance": [1.0, 2.0]}:
        yield row(ValueError, next(iter(bad)), m.scene.closest_point, np.zeros((3, 3)), **bad)
    yield row(ValueError, "method", m.scene.contains, ZERO, method="rays")


def overlaps(m: Any) -> Rows:
    tree, scene = m.tree, m.scene
    yield row(ValueError, "lower", tree.overlap_box, [0, 0], ONE)
    yield row(ValueError, "lower must have shape", scene.overlap_box, [0.0], ONE)
    yield row(
        ValueError, r"lower.*2.*upper.*3", tree.overlap_box, np.zeros((2, 3)), np.ones((3, 3))
    )
    yield row(ValueError, "center", tree.overlap_sphere, 1.0, 1.0)
    yield row(BOTH, "radius", tree.overlap_sphere, ZERO, None)
    for bad in [1, 2, 3, 4], np.ones((2, 3)):
        yield row(ValueError, "planes", tree.overlap_frustum, bad)
    yield row(ValueError, r"planes must have shape \(..., k, 4\)", scene.overlap_frustum, [1.0] * 3)
    for target in tree, scene, m.parts:
        # One of several that is turned meets nothing, alone.
        yield row(ValueError, r"lower must not be above upper on any axis, got \[",
                  target.overlap_box, [0.0, 2.0, 0.0], ONE)  # fmt: skip
    for solid in m.boxes, m.obbs:
        yield row(TypeError, "triangles", solid.overlap_frustum, np.ones((1, 4)))
    yield row(TypeError, "obbs", m.obbs.overlap_box, ZERO, ONE)
    yield row(TypeError, "obbs", m.obbs.overlap_sphere, ZERO, 1)
    given = {
        "overlap_box": (ZERO, ONE), "overlap_sphere": (ZERO, 1.0),
        "overlap_frustum": (np.zeros((1, 4)),), "overlap_tree": (m.custom,), "self_overlaps": (),
    }  # fmt: skip
    for name, arguments in given.items():
        yield row(TypeError, f"{name} needs a BVH over triangles.*, not over custom",
                  getattr(m.custom, name), *arguments)  # fmt: skip
        arguments = (tree,) if name == "overlap_tree" else arguments
        yield row(TypeError, rf"{name} needs triangles; instance \(1, 0\) .*boxes",
                  getattr(m.nested, name), *arguments)  # fmt: skip
    for call, *arguments in (
        (tree.overlap_tree, m.boxes), (tree.overlap_tree, "tree"), (m.boxes.overlap_tree, tree),
        (m.boxes.self_overlaps,),
    ):  # fmt: skip
        yield row(TypeError, r"triangles|other", call, *arguments)
    yield row(TypeError, "other must be a BVH or a Scene, got ndarray", scene.overlap_tree, EYE)
    yield row(TypeError, "overlap_tree needs a BVH over triangles", scene.overlap_tree, m.boxes)
    for matrix in np.eye(3), EYE + np.eye(4, k=-3), np.full((4, 4), np.nan):
        yield row(ValueError, "transform", tree.overlap_tree, tree, matrix)
    bent = np.diag([1.0, 1.0, 1.0, 2.0])
    yield row(ValueError, "transform must be finite and affine", scene.overlap_tree, tree, bent)


def solids(m: Any) -> Rows:
    tree, unit = m.tree, m.unit
    yield row(ValueError, "this mesh has open edges", tree.relation, unit)
    yield row(ValueError, "other has open edges", unit.penetration, tree)
    yield row(TypeError, "relation needs a BVH over triangles", m.boxes.relation, unit)
    yield row(ValueError, "transform", unit.relation, unit, np.eye(3))
    yield row(TypeError, "other", unit.relation, 3)
    yield row(TypeError, "max_distance must be real numbers", m.scene.clearances, "far")
    yield row(TypeError, "clearances needs triangles; instance", m.nested.clearances)
    for ignore, error, message in (
        *(([(0, k)], ValueError, f"no instance {k}") for k in (1, 7)),
        ([("it", "zz")], ValueError, "name 'zz'"),
        ([(0, 1, 2)], ValueError, r"one of them is \(0, 1, 2\)"),
        (["ab"], ValueError, "one of them is 'ab'"), ([3], ValueError, "one of them is 3"),
        *((bad, TypeError, "ignore must be pairs") for bad in ("ab", 5, np.array(5))),
        *(([(k, 1)], TypeError, f"must be an integer, got {k}") for k in (0.5, True)),
    ):  # fmt: skip
        yield row(error, message, m.scene.collisions, ignore=ignore)


def refits(m: Any) -> Rows:
    points = np.ones((3, 3))
    for bad, error, message in (
        (points[1:], ValueError, r"vertices must have shape \(3, 3\), got \(2, 3\)"),
        (points[:, :2], ValueError, r"vertices must have shape \(n, 3\)"),
        (None, TypeError, "vertices must be an array"),
        (points.astype(complex), TypeError, "vertices must be real numbers"),
    ):
        yield row(error, message, m.tree.refit, bad)
    yield row(TypeError, "needs no upper to refit", m.tree.refit, points, points)
    yield row(ValueError, "threads must be at least 1", m.tree.refit, points, threads=0)


def picks(m: Any) -> Rows:
    rect, lasso = m.scene.pick_rect, m.scene.pick_lasso
    for given, message in (
        ({"what": "edges"}, "what must be 'faces', 'vertices' or 'instances'"),
        ({"mode": "near"}, "mode must be 'touching' or 'inside'"),
        ({"samples": 0}, "samples must be"), ({"threads": 0}, "threads must be"),
    ):  # fmt: skip
        yield row(ValueError, message, rect, CAMERA, 0, 0, 9, 9, **given)
    yield row(ValueError, "x1 must be a finite number", rect, CAMERA, 0, 0, np.inf, 9)
    yield row(TypeError, "camera must be a Camera", rect, "camera", 0, 0, 9, 9)
    for count in range(3):
        yield row(ValueError, f"at least three points, .* got {count} points", lasso, CAMERA,
                  np.ones((count, 2)))  # fmt: skip
    yield row(ValueError, "polygon must have shape", lasso, CAMERA, [[1, 2, 3]])
    some = [[1, np.nan], [2, 3], [4, 5]]
    yield row(ValueError, r"polygon must .* finite, got some that are not", lasso, CAMERA, some)
    yield row(TypeError, "camera must be a Camera, got str", m.tree.pick, "camera", 1.0, 2.0)
    message = "radius must be a finite number of at least 0"
    yield row(ValueError, message, m.tree.pick, CAMERA, 1.0, 2.0, -1.0)
    message = "a pick with a radius needs a BVH over triangles, boxes, .* or capsules"
    yield row(TypeError, message, m.custom.pick, CAMERA, 1.0, 2.0, 3.0)


def scenes(m: Any) -> Rows:
    s, tree, ids = m.scene, m.tree, "instance_id must be an integer"
    for bad, error in ((5, KeyError), ("two", KeyError), ([0, 7], KeyError), (0.5, TypeError)):
        for name in RAY_QUERIES:
            yield row(error, "instance|exclude", getattr(s, name), *RAYS, exclude=bad)
    yield from (row(TypeError, "mesh must be", s.add, bad) for bad in (3, None))
    for matrix, message in (
        (np.zeros((4, 4)), "transform must be affine"), (np.diag([1, 1, 0, 1.0]), "invertible"),
        (EYE * np.nan, "transform must be finite"), (EYE + np.eye(4, k=-1), "last row 0 0 0 1"),
        (EYE[None], r"must have shape \(4, 4\)"), (np.eye(3), "transform must have shape"),
    ):  # fmt: skip
        yield row(ValueError, message, s.add, tree, matrix)
    for given, error, message in (
        ({"name": 3}, TypeError, "name must be a string"),
        ({"mask": -1}, ValueError, "mask must be in 0..0xFFFFFFFF, got -1"),
        ({"mask": 2**32}, ValueError, "mask must be in 0..0xFFFF"),
        ({"mask": 2**70}, TypeError, "mask must be integers"),
        ({"mask": 1.5}, TypeError, "mask must be integers"),
        ({"mask": [1]}, ValueError, "single values"),
        ({"visible": 1}, TypeError, "visible must be True or False"),
    ):
        yield row(error, message, s.add, tree, **given)
    yield row(ValueError, r"shape \(n, 4, 4\)", s.add_many, tree, EYE)
    yield row(ValueError, r"transforms\[1\] must be affine", s.add_many, tree, [EYE, EYE * 0])
    yield row(ValueError, "names must be 1 names", s.add_many, tree, [EYE], "ab")
    yield row(TypeError, "names must be a string", s.add_many, tree, [EYE], [3])
    yield row(ValueError, "masks must be", s.add_many, tree, [EYE], masks=[1, 2])
    for k, call, *given in (7, s.set_transform, EYE), (1, s.set_transform, EYE), (-1, s.remove):
        yield row(KeyError, f"there is no instance {k}", call, k, *given)
    yield row(KeyError, "there is no instance 9", s.set_transforms, [0, 9], [EYE, EYE])
    yield row(KeyError, "there is no instance 1", s.set_visible, [0, 1], True)
    yield row(TypeError, ids, s.set_transform, 0.0, EYE)
    yield row(TypeError, ids, s.__getitem__, True)
    yield row(TypeError, "ids must be integers", s.remove, [0.5])
    yield row(ValueError, r"ids must have shape \(n,\)", s.remove, [[0]])
    yield row(ValueError, r"shape \(2, 4, 4\)", s.set_transforms, [0, 0], [EYE])
    yield row(TypeError, "name must be a string", s.rename, 0, 3)
    for k, call in (5, s.path), (-1, s.name_of):
        yield row(IndexError, f"leaf must be one of the 1 leaves, got {k}", call, k)
    for mask, message in ((-1, "mask must be in 0..0xFFFFFFFF, got -1"), ([1, 2], "one number")):
        yield row(ValueError, message, s.flattened, mask)
    yield row(IndexError, "range", s.leaves.__getitem__, 5)


TABLE = (rays, triangles, shapes, options, flags, lengths, points, overlaps, solids, refits, picks,
         scenes)  # fmt: skip
