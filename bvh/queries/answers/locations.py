"""Positions and normals of hits, computed on first access, and of points on faces.

Hits refer to their *source*: the primitives of a tree; or the view of a scene and its count of
moves; or a mesh in parts, whose `leaves_of` opens those that were hit, and the part of each hit.
Where positions do not follow from u and v, the source also has the rays. A refit replaces the
arrays of a tree; maps of a scene change in place, so hits on a leaf that has moved are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.obbs import inverses
from bvh.queries.answers.other_libraries import given_like, in_numpy
from bvh.queries.answers.result_bases import PerQuery, Ragged, columns_of, selected
from bvh.runtime.arguments import FloatResult, IdResult, kernel_input, thread_count
from bvh.runtime.foreign_arrays import is_lazy
from bvh.runtime.threads import share
from bvh.traversal.rays.hit_points import HitColumns, locate_hits
from bvh.tree.instanced import Instanced
from bvh.tree.primitives import Custom, Primitives, Triangles
from bvh.tree.shapes import HOLLOW, shape_of

Floats = NDArray[np.float64]

# The object that was searched; its count of moves; and the rays (six numbers, or origins and
# directions), None, or in a mesh in parts a column (..., 1) of part numbers. A plain tuple, for
# speed. For Dask arrays: a function that returns lazy positions or normals, given that name.
Source = tuple[Any, int, Any]
LazySource = Callable[[str], Any]

# Hits that a thread takes at a time, and shapes that are in memory at a time.
AT_ONCE = 1 << 15
NAMES, NO_LEAVES = ("position", "normal"), np.empty(0, np.int32)
# Entries that are not pickled: the source, and the one of the two that has not been accessed.
UNPICKLED = ("_source", "_unread")


def taken(source: Source | LazySource, index: Any) -> Source | LazySource:
    """Return the source of the hits that an index selects, with their rays, if it has rays."""
    if callable(source):
        return lambda name: selected(source(name), index, 1)
    of, moves, rays = source
    if rays is None or not isinstance(rays[0], np.ndarray):
        return source
    parts = tuple(in_numpy(part) for part in (index if isinstance(index, tuple) else (index,)))
    return of, moves, tuple(selected(column, parts, 1) for column in rays)


class Sourced:
    """Base of results that refer to what was searched, which pickles leave out."""

    def __getstate__(self) -> dict[str, Any]:
        # A tree may be much larger than its hits.
        return {name: value for name, value in vars(self).items() if name not in UNPICKLED}

    def __copy__(self, memo: dict[int, Any] | None = None) -> Self:
        found = object.__new__(type(self))
        vars(found).update(vars(self) if memo is None else deepcopy(self.__getstate__(), memo))
        # Shared: the copy locates its hits in the same arrays.
        vars(found)["_source"] = vars(self).get("_source")
        return found

    __deepcopy__ = __copy__


class Located(Sourced):
    """Base of results whose hits have positions and normals."""

    prim_id: IdResult
    t: FloatResult
    u: FloatResult
    v: FloatResult

    @cached_property
    def position(self) -> FloatResult:
        """Where the hits are, in the coordinates of the rays; read-only, shape (..., 3).

        A row for each hit of `all_hits`. NaN for a miss. On faces this is (1-u-v) v0 + u v1 + v v2,
        which is nearer to the face than origin + t * direction for a distant origin; for other
        primitives it is the latter. In a scene the vertices are those in its coordinates.

        Raises
        ------
        AttributeError
            If the hits have no source: pickled ones, those that were made from columns, and of Dask
            arrays those of `all_hits`.
        RuntimeError
            If an instance that is hit has moved since: read them before it moves.
        ValueError
            If the file of a part that is hit is no longer there, or is another one.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
        >>> hits = tree.closest_hit([[1, 2, 5], [9, 9, 5]], [0, 0, -1])
        >>> hits.position
        array([[ 1.,  2.,  0.],
               [nan, nan, nan]])
        >>> hits.normal[hits.mask]
        array([[0., 0., 1.]])
        """
        return located(self, "position")

    @cached_property
    def normal(self) -> FloatResult:
        """Unit normals where the hits are; read-only, shape (..., 3).

        NaN for a miss. That of a face is (v1-v0) x (v2-v0), whichever side is hit: it points
        against the ray where `front` is True, so ``np.where(hits.front[..., None], hits.normal,
        -hits.normal)`` faces the ray. In a scene it is transformed by the inverse transpose; that
        of a reflected instance is turned over, as its vertices wind the other way. Of boxes it
        points outward. Custom primitives have none.

        Raises
        ------
        AttributeError, RuntimeError
            As `position`; also for custom primitives.
        """
        return located(self, "normal")


class SourcedPerQuery(Sourced, PerQuery):
    """Base of results with one entry a query."""

    def __getitem__(self, index: Any) -> Self:
        """Select entries as from an array of the batch's shape."""
        some = super().__getitem__(index)
        if vars(self).get("_source") is not None:
            vars(some)["_source"] = taken(vars(self)["_source"], index)
        return some


class LocatedPerQuery(Located, SourcedPerQuery):
    """Base of hits with one entry a query."""

    def astype(self, dtype: Any) -> Self:
        """Return the hits with t, u and v in another type of floats, rounded to nearest.

        Misses keep +inf and NaN; a `t` beyond the largest float32 is +inf, too, and its `mask` is
        True. `position` and `normal` are of that type, and follow from the rounded weights. Scalars
        become those of numpy.

        Parameters
        ----------
        dtype : dtype
            numpy.float32, float64 or float16, or a name of these.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [3, 0, 0], [0, 3, 0]], [[0, 1, 2]])
        >>> hits = tree.closest_hit([[1, 1, 5], [9, 9, 5]], [0, 0, -1]).astype("float32")
        >>> hits.t, hits.u.dtype
        (array([ 5., inf], dtype=float32), dtype('float32'))
        """
        kind = np.dtype(dtype)
        if kind.kind != "f":
            raise TypeError(f"dtype must be a type of floats, got {kind}")
        columns = columns_of(self)
        with np.errstate(over="ignore"):
            for name in ("t", "u", "v"):
                array = columns[name]
                columns[name] = (
                    array.astype(kind)
                    if is_lazy(array)
                    else given_like(np.asarray(in_numpy(array)).astype(kind)[()], array)
                )
        found = type(self)(**columns)
        if "_source" in vars(self):
            vars(found)["_source"] = vars(self)["_source"]
        return found


def located(hits: Any, name: str) -> Any:
    """Return `position` or `normal` of hits, (..., 3), in the library of their arrays."""
    # Where both are computed together, the other one waits here to be read.
    unread = vars(hits).pop("_unread", None)
    if unread is not None:
        return unread
    source: Source | LazySource | None = vars(hits).get("_source")
    if source is None:
        raise AttributeError(
            "these hits do not know what they hit: position and normal are of hits that "
            "closest_hit or all_hits has returned, and must be read before hits are pickled; those "
            "of all_hits of Dask arrays have none"
        )
    if callable(source):
        return source(name).astype(hits.t.dtype)
    if type(hits.t) is float:
        both = of_one_ray(source, vars(hits).get("leaf", -1), hits.prim_id, hits.u, hits.v)
        if both is not None:
            which = NAMES.index(name)
            vars(hits)["_unread"] = both[1 - which]
            return both[which]
    prim_id, t, u, v = (np.asarray(in_numpy(c)) for c in (hits.prim_id, hits.t, hits.u, hits.v))
    both, complete = _of_columns(source, hits, name, prim_id.ravel(), *map(np.ravel, (t, u, v)))
    for each, points in zip(NAMES, both, strict=True):
        if complete or each == name:
            shaped = points.reshape(*prim_id.shape, 3)
            # Hits that `astype` has rounded have positions of their type.
            array: NDArray[Any] = shaped if t.dtype == np.float64 else shaped.astype(t.dtype)
            array.flags.writeable = False
            vars(hits)[each if each == name else "_unread"] = given_like(array, hits.prim_id)
    return vars(hits)[name]


def face_normals(near: Any) -> Any:
    """Return the unit normals at closest points, (..., 3), as an array of their library."""
    source: Source | LazySource | None = vars(near).get("_source")
    if source is None:
        raise AttributeError(
            "these points do not know their faces: only results of closest_point have a normal, "
            "which must be read before they are pickled"
        )
    if callable(source):
        return source("normal")
    view, moves, rest = source
    prim_id, u, v = (np.asarray(in_numpy(column)) for column in (near.prim_id, near.u, near.v))
    ids, shapes = prim_id.ravel(), []
    rows, found = np.flatnonzero(ids >= 0), np.full((ids.size, 3), np.nan)
    if hasattr(view, "leaves_of"):
        # A mesh in parts: `rest` are the part numbers of points, `own` the ids of faces in a part.
        for triangles, _, some, own in view.leaves_of(rest, ids, rows):
            found[some] = on_faces(triangles, NO_LEAVES, own, u.ravel()[some], v.ravel()[some])[1]
    elif isinstance(view, Primitives) and not isinstance(view, Triangles):
        shapes = [(view, None, rows)]
    else:
        # Triangles, or a scene, where normals on shapes replace the NaN of `on_faces` below.
        primitives, leaf = view, NO_LEAVES
        if not isinstance(view, Triangles):
            primitives, leaf = view.arrays.primitives, np.ravel(in_numpy(near.leaf))
            _must_not_have_moved(view, moves, leaf, ids)
            shapes = [] if view.plain else _shapes_of(view, leaf, rows)
        found = on_faces(primitives, leaf, ids, u.ravel(), v.ravel())[1]
    for tree, transform, some in shapes:
        at = np.reshape(in_numpy(near.position), (-1, 3))[some]
        found[some] = shape_normals(tree, ids[some], at, transform)
    found = found.reshape(*prim_id.shape, 3)
    found.flags.writeable = False
    return given_like(found, near.prim_id)


def _of_columns(
    source: Source, hits: Any, name: str, ids: Any, t: Floats, u: Floats, v: Floats
) -> tuple[tuple[Floats, Floats], bool]:
    """Return positions and normals of hits, and whether both are computed, not `name` alone."""
    view, moves, given_rays = source
    if isinstance(view, Triangles):
        return on_faces(view, NO_LEAVES, ids, u, v), True
    rows = np.flatnonzero(ids >= 0)
    if not (isinstance(view, Primitives) or hasattr(view, "leaves_of")):
        # In a scene.
        leaf = np.asarray(in_numpy(hits.leaf)).reshape(-1)
        _must_not_have_moved(view, moves, leaf, ids)
        both = on_faces(view.arrays.primitives, leaf, ids, u, v)
        if view.plain:
            return both, True
        shapes = _shapes_of(view, leaf, rows)
    else:
        both = np.full((len(ids), 3), np.nan), np.full((len(ids), 3), np.nan)
        shapes = [(view, None, rows)]
    if hasattr(view, "leaves_of"):
        for triangles, _, some, own in view.leaves_of(given_rays, ids, rows):
            both[0][some], both[1][some] = on_faces(triangles, NO_LEAVES, own, u[some], v[some])
        return both, True
    rays: Any = np.reshape(given_rays, (2, -1, 3))
    if isinstance(hits, Ragged):
        rays = rays[:, in_numpy(hits._queries())]
    for tree, transform, chosen in shapes:
        for some in np.array_split(chosen, len(chosen) // AT_ONCE + 1):
            with np.errstate(all="ignore"):
                at = rays[0, some] + t[some, None] * rays[1, some]
            both[0][some] = at
            if name == "normal":
                if isinstance(tree, Custom):
                    raise AttributeError("custom primitives have no normals")
                both[1][some] = shape_normals(tree, ids[some], at, transform)
    return both, False


def _shapes_of(view: Any, leaf: Any, rows: Any) -> list[tuple[Any, Any, Any]]:
    """Return the shapes of the leaves of a scene that are hit, their maps, and the hits of each."""
    trees = {k: view.trees[view.tree_of[k]].primitives for k in np.unique(leaf[rows])}
    return [
        (tree, view.maps[k], np.flatnonzero(leaf == k))
        for k, tree in trees.items() if not isinstance(tree, Triangles)
    ]  # fmt: skip


def of_one_ray(
    source: Source, leaf: int, prim_id: int, u: float, v: float
) -> tuple[Floats, Floats] | None:
    """Return the position and normal of one hit on a triangle; None for other primitives."""
    view, moves, _ = source
    primitives: Any = view
    if type(view) is not Triangles:
        if not getattr(view, "plain", False):
            return None
        primitives = view.arrays.primitives
        if view.moves > moves:
            _must_not_have_moved(view, moves, np.array([leaf]), prim_id)
    position, normal = np.empty(3), np.empty(3)
    ids, weights = np.array((leaf, prim_id), np.int32), np.array((u, v))
    columns = HitColumns(ids[:1], ids[1:], weights[:1], weights[1:])
    locate_hits(primitives, columns, 0, 1, position, normal)
    position.flags.writeable = normal.flags.writeable = False
    return position, normal


def _must_not_have_moved(view: Any, moves: int, leaf: Any, ids: Any) -> None:
    """Raise a RuntimeError if a leaf that is hit has moved since a scene's count of moves."""
    if view.moves > moves:
        late = np.flatnonzero((ids >= 0) & (view.moved_at[leaf] > moves))
        if len(late):
            instance = int(view.owners[leaf[late[0]]])
            raise RuntimeError(
                f"instance {instance} has moved since it was hit: read position and normal first"
            )


def on_faces(
    primitives: Triangles | Instanced, leaf: Any, prim_id: Any, u: Any, v: Any
) -> tuple[Floats, Floats]:
    """Return positions and unit normals of hits on triangles, (n, 3) each; NaN elsewhere."""
    n = len(prim_id)
    ids = (kernel_input(np.asarray(column, np.int32)) for column in (leaf, prim_id))
    weights = (kernel_input(np.asarray(column, np.float64)) for column in (u, v))
    columns = HitColumns(*ids, *weights)
    position, normal = np.empty(3 * n), np.empty(3 * n)

    def work(begin: int, end: int) -> None:
        locate_hits(primitives, columns, begin, end, position, normal)

    share(n, AT_ONCE, work, thread_count(None))
    return position.reshape(n, 3), normal.reshape(n, 3)


def positions_on(corners: Floats, u: Any, v: Any) -> Floats:
    """Return the points (n, 3) of triangles (n, 3, 3) with weights u and v."""
    first, second = np.reshape(u, (-1, 1)), np.reshape(v, (-1, 1))
    with np.errstate(all="ignore"):
        rest = 1.0 - first - second
        return np.asarray(rest * corners[:, 0] + first * corners[:, 1] + second * corners[:, 2])


def normals_of(corners: Floats) -> Floats:
    """Return the unit normals of triangles (..., 3, 3), by their winding; NaN without area."""
    with np.errstate(all="ignore"):
        edges = unit(corners[..., 1:, :] - corners[..., :1, :])
    return unit(np.cross(edges[..., 0, :], edges[..., 1, :]))


def shape_normals(
    shapes: Primitives, prim_id: Any, position: Floats, transform: Floats | None
) -> Floats:
    """Return the unit normals of shapes at points (n, 3), under affine maps (..., 3, 4)."""
    rows = np.eye(3, 4)
    if transform is not None:
        rows = inverses(np.ascontiguousarray(transform).reshape(-1, 3, 4))[0]
    points = shapes.points[prim_id]
    if transform is not None and isinstance(shapes, HOLLOW):
        points = shape_of(shapes).instances(points, transform)
    every = np.broadcast_to(rows, (len(points), 3, 4))
    return unit(shape_of(shapes).normals(points, position, every))


def unit(vectors: Floats) -> Floats:
    """Return vectors (..., 3) scaled to length 1; NaN for zero vectors."""
    with np.errstate(all="ignore"):
        scaled = vectors / np.abs(vectors).max(axis=-1, keepdims=True)
        return np.asarray(scaled / np.sqrt((scaled * scaled).sum(axis=-1, keepdims=True)))
