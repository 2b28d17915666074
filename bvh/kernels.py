"""Queries for your own compiled loops, one ray or point at a time.

Each function here is to be called from a function that is compiled with `numba.njit`, on the
`arrays` of a tree. Rays are checked like those of a batch: one that is not finite, or has no
direction, misses. Any number of threads may call at once. Only the exact test, for rays that need
it, allocates memory.

Examples
--------
Where a hit decides the next ray, as between mirrors, there is no batch of known rays:

>>> import bvh, numba, numpy as np
>>> from bvh import kernels
>>> tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
>>> @numba.njit
... def how_far(arrays, origins, direction):
...     total = 0.0
...     for i in range(len(origins)):
...         t, prim_id, u, v, front = kernels.closest_hit(arrays, origins[i], direction)
...         if prim_id >= 0:
...             total += t
...     return total
>>> how_far(tree.arrays, np.array([[1.0, 1.0, 2.0], [1.0, 2.0, 3.0]]), (0.0, 0.0, -1.0))
5.0
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, TypeVar

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.compiler.deferred import Deferred
from bvh.runtime.compiler.lazy_modules import errors, types
from bvh.runtime.jit import by_type, inlined, warms
from bvh.runtime.simd import peek, pointer, pointer_to, poke
from bvh.runtime.tuple_references import as_pointers, borrowed, stack_memory
from bvh.traversal.points.closest_point import TreeTarget, nearest_to
from bvh.traversal.points.point_walks import NO_TRIANGLE
from bvh.traversal.points.scratch import SCRATCH_BYTES as POINT_BYTES
from bvh.traversal.points.scratch import scratch_at
from bvh.traversal.rays.candidates import ClosestGoal
from bvh.traversal.rays.leaf_hits import FirstGoal, NearestHits
from bvh.traversal.rays.one_ray import EVERY, SCRATCH_BYTES, cast, trace_alone
from bvh.tree.build import build
from bvh.tree.primitives import Triangles

__all__ = ["any_hit", "closest_hit", "closest_point", "first_hits", "visit_hits"]
__dir__ = __all__.copy

# The modules with kernels of the package, in families that share most of their helpers: rays,
# single shapes, trees, overlaps. One process compiles a family in half the time of several; a
# process that has finished its own takes modules from the end of another family.
FAMILIES = (
    ("bvh.queries.hierarchy", "bvh.scene.scene", "bvh.kernels"),
    ("bvh.geometry.transforms", "bvh.geometry.triangles", "bvh.geometry.boxes",
     "bvh.geometry.obbs", "bvh.geometry.planes", "bvh.geometry.spheres", "bvh.io.polygons",
     "bvh.picking.outlines", "bvh.scene.leaves", "bvh.surfaces.overlap_terms",
     "bvh.geometry.pairs.face_contacts", "bvh.geometry.pairs.edge_segments",
     "bvh.surfaces.numbering", "bvh.surfaces.pair_signs"),
    ("bvh.tree.build", "bvh.tree.tlas", "bvh.tree.world_bounds",
     "bvh.io.untrusted"),
    ("bvh.queries.batches.overlap_batches", "bvh.queries.batches.distance_batches",
     "bvh.scene.instance_pairs", "bvh.scene.solids.round_instances",
     "bvh.scene.solids.instance_contacts", "bvh.picking.rounds"),
)  # fmt: skip

Query = TypeVar("Query", bound=Callable[..., Any])

# Scratch memory of `_fill_first_hits` and `_visit`, in bytes, from an address that is a multiple of
# 64: that of the traversal, and from OUTPUT on up to 24 of a goal's output, in a cache line of its
# own. BYTES is the total, with up to 63 before that address.
OUTPUT = (SCRATCH_BYTES + 63) // 64 * 64
BYTES = OUTPUT + 128


def _for_compiled_code(check: Callable[..., None] | None = None) -> Callable[[Query], Query]:
    """Return a decorator for functions that only compiled functions can call.

    `check`, if given, is called when a call is compiled, with Numba's types in place of the
    arguments; it raises if the function does not support these types.
    """

    def register(function: Query) -> Query:
        """Return the decorated function; called from Python, it raises a TypeError."""

        @wraps(function)
        def refuse(*_: object, **__: object) -> NoReturn:
            raise TypeError(
                f"kernels.{function.__name__} must be called from a function "
                "compiled with numba.njit"
            )

        @by_type(refuse)
        @wraps(function)
        def choose(*given: Any, **named: Any) -> Query:
            # Numba calls this with types, and compiles the function that it returns.
            if check is not None:
                check(*given, **named)
            return function

        # The first compiled function that uses the result activates Numba, which then compiles
        # calls of `refuse` as calls of what `choose` returns.
        return Deferred(refuse, lambda refuse: refuse)  # type: ignore[return-value]

    return register


def _check_outputs(arrays, origin, direction, t_min, t_max, t, prim_id):
    """Raise a TypingError unless `first_hits` can fill arrays of the types `t` and `prim_id`.

    The others are unused: Numba passes the types of all arguments.
    """
    for name, array, dtype in (("t", t, types.float64), ("prim_id", prim_id, types.int32)):
        good = isinstance(array, types.Array) and (array.dtype, array.layout) == (dtype, "C")
        if not (good and array.mutable):
            raise errors.TypingError(f"{name} must be a contiguous, writable array of {dtype}")


@_for_compiled_code()
def closest_hit(
    arrays: Any, origin: Any, direction: Any, t_min: float = 0.0, t_max: float = INF
) -> tuple[float, int, float, float, bool]:
    """Find the nearest hit of a ray.

    Parameters
    ----------
    arrays : TreeArrays
        The `arrays` of a tree.
    origin, direction : array or tuple of three float64
        The direction may have any length but 0.
    t_min, t_max : float64
        Only hits with t_min <= t <= t_max count.

    Returns
    -------
    t, prim_id, u, v, front
        The hit is at origin + t * direction, on primitive `prim_id`: at (1-u-v) v0 + u v1 + v v2 of
        a triangle. `front` is True if the ray hits the front. A miss is inf, -1, NaN, NaN, False.

    Examples
    --------
    >>> import bvh, numba
    >>> from bvh import kernels
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    >>> @numba.njit
    ... def below(arrays, x, y):
    ...     return kernels.closest_hit(arrays, (x, y, 2.0), (0.0, 0.0, -1.0))
    >>> below(tree.arrays, 1.0, 1.0), below(tree.arrays, 9.0, 9.0)
    ((2.0, 0, 0.25, 0.25, True), (inf, -1, nan, nan, False))
    """
    return _cast(arrays, _ray(origin, direction, t_min, t_max))  # type: ignore[no-any-return]


@_for_compiled_code()
def any_hit(
    arrays: Any, origin: Any, direction: Any, t_min: float = 0.0, t_max: float = INF
) -> bool:
    """Return whether a ray hits anything: True exactly where `closest_hit` has a hit.

    Parameters
    ----------
    arrays, origin, direction, t_min, t_max
        The `arrays` of a tree and a ray with its range of t, as in `closest_hit`.

    Examples
    --------
    >>> import bvh, numba
    >>> from bvh import kernels
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    >>> @numba.njit
    ... def shaded(arrays, x, y):
    ...     return kernels.any_hit(arrays, (x, y, -2.0), (0.0, 0.0, 1.0), 0.0, 5.0)
    >>> shaded(tree.arrays, 1.0, 1.0), shaded(tree.arrays, 9.0, 9.0)
    (True, False)
    """
    return _is_hit(arrays, _ray(origin, direction, t_min, t_max))  # type: ignore[no-any-return]


@_for_compiled_code(_check_outputs)
def first_hits(
    arrays: Any, origin: Any, direction: Any, t_min: float, t_max: float, t: Any, prim_id: Any
) -> int:
    """Find the nearest hits of a ray, at most k, sorted by t, and by prim_id where t is equal.

    Parameters
    ----------
    arrays, origin, direction, t_min, t_max
        The `arrays` of a tree and a ray with its range of t, as in `closest_hit`.
    t : ndarray of float64, shape (k,), C-contiguous
        Filled with the t of hits, nearest first; items after the number returned are meaningless.
    prim_id : ndarray of int32, shape (k,), C-contiguous
        Filled with the ids of the primitives that are hit.

    Returns
    -------
    int
        The number of hits, at most k.

    Examples
    --------
    >>> import bvh, numba, numpy as np
    >>> from bvh import kernels
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    >>> @numba.njit
    ... def nearest(arrays, t, prim_id):
    ...     ray = (1.0, 1.0, 2.0), (0.0, 0.0, -1.0)
    ...     return kernels.first_hits(arrays, ray[0], ray[1], 0.0, np.inf, t, prim_id)
    >>> t, prim_id = np.zeros(3), np.zeros(3, np.int32)
    >>> count = nearest(tree.arrays, t, prim_id)
    >>> t[:count], prim_id[:count]
    (array([2.]), array([0], dtype=int32))
    """
    return _fill_first_hits(arrays, _ray(origin, direction, t_min, t_max), t, prim_id)  # type: ignore[no-any-return]


@_for_compiled_code()
def visit_hits(
    arrays: Any, origin: Any, direction: Any, t_min: float, t_max: float, visit: Any, data: Any
) -> bool:
    """Call a function for every hit of a ray, in no particular order, until it returns True.

    Parameters
    ----------
    arrays, origin, direction, t_min, t_max
        The `arrays` of a tree and a ray with its range of t, as in `closest_hit`.
    visit : function compiled with numba.njit
        ``visit(ray_id, prim_id, t, u, v, data) -> bool``, like a filter; ray_id is 0. It ends the
        search by returning True. It may write to `data`. In a tree of quality "high", which holds
        some triangles more than once, it may be called again for the same hit.
    data : object
        The last argument of `visit`: anything that Numba takes, such as an array.

    Returns
    -------
    bool
        Whether `visit` has ended the search.

    Examples
    --------
    >>> import bvh, numba, numpy as np
    >>> from bvh import kernels
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    >>> @numba.njit
    ... def count(ray_id, prim_id, t, u, v, data):
    ...     data[0] += 1
    ...     return False
    >>> @numba.njit
    ... def visit(arrays, data):
    ...     ray = (1.0, 1.0, 2.0), (0.0, 0.0, -1.0)
    ...     return kernels.visit_hits(arrays, ray[0], ray[1], 0.0, np.inf, count, data)
    >>> data = np.zeros(1)
    >>> visit(tree.arrays, data), data  # doctest: +SKIP
    (False, array([1.]))
    """
    return _visit(arrays, _ray(origin, direction, t_min, t_max), visit, data)  # type: ignore[no-any-return]


@_for_compiled_code()
def closest_point(
    arrays: Any, point: Any, max_distance: float = INF
) -> tuple[float, int, float, float]:
    """Find the nearest point of a tree over triangles.

    Parameters
    ----------
    arrays : TreeArrays
        The `arrays` of a tree over triangles.
    point : array or tuple of three float64
    max_distance : float64
        Triangles that are further away are not found.

    Returns
    -------
    distance, prim_id, u, v
        Of the triangle `prim_id`, (1-u-v) v0 + u v1 + v v2 is the nearest point. They are inf, -1,
        NaN, NaN if no triangle is found.

    Examples
    --------
    >>> import bvh, numba
    >>> from bvh import kernels
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    >>> @numba.njit
    ... def nearest(arrays, point):
    ...     return kernels.closest_point(arrays, point, 5.0)
    >>> nearest(tree.arrays, (1.0, 1.0, 2.0)), nearest(tree.arrays, (1.0, 1.0, 9.0))
    ((2.0, 0, 0.25, 0.25), (inf, -1, nan, nan))
    """
    return _closest_point(arrays, _floats(point), float(max_distance))  # type: ignore[no-any-return]


@entry
def _cast(arrays, ray):
    """Return (t, prim_id, u, v, front) of the closest hit; inf, -1, NaN, NaN, False for a miss."""
    # `ray` is (origin, direction, t_min, t_max). A tree without nodes has nothing to hit.
    if len(arrays.nodes.data) == 0:
        return INF, np.int64(-1), np.nan, np.nan, False
    # EVERY: a mask with all bits; 0: no side is culled.
    return cast(as_pointers(arrays), stack_memory(SCRATCH_BYTES), ray, EVERY, np.int64(0))


@entry
def _is_hit(arrays, ray):
    """Return whether a ray, (origin, direction, t_min, t_max), hits anything."""
    if len(arrays.nodes.data) == 0:
        return False
    # `any_hit` is True: the first hit found ends the search. No side is culled: `cull` is 0.
    goal = ClosestGoal(True, np.int64(0))
    return trace_alone(as_pointers(arrays), stack_memory(SCRATCH_BYTES), ray, EVERY, goal) >= 0


@entry
def _fill_first_hits(arrays, ray, t, prim_id):
    """Fill t and prim_id with the nearest hits of a ray, sorted by t; return their number."""
    # `ray` is (origin, direction, t_min, t_max). Both arrays have room for `capacity` hits.
    capacity = np.int64(min(len(t), len(prim_id)))
    if len(arrays.nodes.data) == 0 or capacity == 0:
        return np.int64(0)
    memory = stack_memory(BYTES)
    # -memory & 63 bytes round the address up to a multiple of 64. `counts` has the number of hits.
    counts = pointer_to(memory + (-memory & 63) + OUTPUT, np.int64(0))
    poke(counts, 0, 0)
    nearest = NearestHits(pointer(t), pointer(prim_id), counts)
    # In the order of fields: the closest hits, not any one; no side is culled; all hits at shared
    # edges; at most `capacity` hits; no filter and no data for one.
    none = np.int64(0)
    goal = FirstGoal(False, none, False, capacity, none, none, nearest)
    trace_alone(as_pointers(arrays), memory, ray, EVERY, goal)
    return peek(counts, 0)


@entry
def _visit(arrays, ray, visit, data):
    """Call `visit` for each hit of a ray until it returns True; return whether it has."""
    # `ray` is (origin, direction, t_min, t_max); `data` is the last argument of `visit`.
    if len(arrays.nodes.data) == 0:
        return False
    memory = stack_memory(BYTES)
    # -memory & 63 bytes round the address up to a multiple of 64.
    output = memory + (-memory & 63) + OUTPUT
    counts = pointer_to(output, np.int64(0))
    poke(counts, 0, 0)
    # The count of accepted hits, 0 or 1, and the t and prim_id of this hit are stored 8 bytes
    # apart. The goal is any hit; no side is culled; all hits at shared edges; at most one hit;
    # `visit` takes the place of a filter, so the first hit that it accepts ends the search.
    nearest = NearestHits(pointer_to(output + 8, 0.0), pointer_to(output + 16, np.int32(0)), counts)
    goal = FirstGoal(True, np.int64(0), False, np.int64(1), visit, borrowed(data), nearest)
    trace_alone(as_pointers(arrays), memory, ray, EVERY, goal)
    return peek(counts, 0) > 0


@entry
def _closest_point(arrays, point, limit):
    """Return (distance, prim_id, u, v) of the closest point; inf, -1, NaN, NaN beyond `limit`."""
    if len(arrays.nodes.data) == 0:
        return INF, np.int64(-1), np.nan, np.nan
    scratch = scratch_at(stack_memory(POINT_BYTES))
    # EVERY: a mask with all bits.
    target = TreeTarget(as_pointers(arrays), EVERY)
    distance, prim, u, v = nearest_to(target, scratch, point, limit)
    if prim == NO_TRIANGLE:
        return INF, np.int64(-1), np.nan, np.nan
    return distance, np.int64(prim), u, v


@inlined
def _floats(v):
    """Return three numbers, an array or tuple of any type, as a tuple of floats."""
    return float(v[0]), float(v[1]), float(v[2])


@inlined
def _ray(origin, direction, t_min, t_max):
    """Return the ray (origin, direction, t_min, t_max) with all numbers as floats."""
    return _floats(origin), _floats(direction), float(t_min), float(t_max)


@warms("kernels")
def _warm() -> None:
    """Compile the kernels that users' loops call, by calling them on a tree of one triangle."""
    points, faces = kernel_input(np.eye(3)), np.arange(3, dtype=np.int32).reshape(1, 3)
    arrays, _ = build(Triangles(points, kernel_input(faces)), "medium", 1, None)
    ray = (1.0, 1.0, 1.0), (-1.0, -1.0, -1.0), 0.0, INF
    _cast(arrays, ray)
    _is_hit(arrays, ray)
    _closest_point(arrays, ray[0], INF)
    _fill_first_hits(arrays, ray, np.empty(1), np.empty(1, np.int32))
