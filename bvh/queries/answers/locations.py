"""Positions and normals of hits, computed on first access, and of points on faces.

Hits refer to their *source*: the primitives of a tree; or the view of a scene and its count of
moves; or a mesh in parts, whose `leaves_of` opens the parts hit, and the part of each hit.
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
from bvh.queries.answers.other_libraries import in_library_of, in_numpy
from bvh.queries.answers.result_bases import PerQuery, Ragged, columns_of, selected
from bvh.runtime.arguments import FloatResult, IdResult, kernel_input, thread_count
from bvh.runtime.foreign_arrays import is_lazy
from bvh.runtime.threads import share
from bvh.traversal.rays.hit_points import HitColumns, locate_hits
from bvh.tree.instanced import Instanced
from bvh.tree.primitives import Custom, Primitives, Triangles
from bvh.tree.shapes import HOLLOW, shape_of

Floats = NDArray[np.float64]

# (searched, moves, rest): what was searched; its count of moves, 0 of trees; and the rays (six
# numbers, or origins and directions), or None if positions need none; for a mesh in parts, a tuple
# with a column (..., 1) of part numbers. A plain tuple, for speed. For Dask arrays: a function that
# returns lazy positions or normals for one of NAMES.
Source = tuple[Any, int, Any]
LazySource = Callable[[str], Any]

# Primitives of a tree other than triangles, the map (3, 4) of its leaf in a scene or None, and the
# rows of the hits on them.
Shapes = tuple[Any, Floats | None, NDArray[np.int64]]

# Hits that a thread takes at a time, and shapes that are in memory at a time.
AT_ONCE = 1 << 15
NAMES, NO_LEAVES = ("position", "normal"), np.empty(0, np.int32)
# Entries that are not pickled: the source; and the position or normal not yet accessed.
UNPICKLED = ("_source", "_unread")


def _selected_source(source: Source | LazySource, index: Any) -> Source | LazySource:
    """Return the source of the hits that `index` selects, with the rays or parts of these alone."""
    if callable(source):
        return lambda name: selected(source(name), index, 1)
    searched, moves, columns = source
    # None, or the six numbers of a single ray, serve any selection.
    if columns is None or not isinstance(columns[0], np.ndarray):
        return source
    items = tuple(map(in_numpy, index if isinstance(index, tuple) else (index,)))
    return searched, moves, tuple(selected(column, items, 1) for column in columns)


class Sourced:
    """Base of results that refer to what was searched, which pickles leave out."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without the source: a tree may be much larger than its hits."""
        return {name: value for name, value in vars(self).items() if name not in UNPICKLED}

    def __copy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a shallow copy; with `memo`, as `deepcopy` passes it, a deep one."""
        copy = object.__new__(type(self))
        vars(copy).update(vars(self) if memo is None else deepcopy(self.__getstate__(), memo))
        vars(copy)["_source"] = vars(self).get("_source")  # shared, as it may be large
        return copy

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
        which is nearer to the face than origin + t * direction for a distant origin; on other
        primitives it is origin + t * direction. In a scene, vertices are in its coordinates.

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

        NaN for a miss. The normal of a face is along (v1-v0) x (v2-v0), whichever side is hit: it
        points against the ray where `front` is True, so ``np.where(hits.front[..., None],
        hits.normal, -hits.normal)`` faces the ray. In a scene it is transformed by the inverse
        transpose; the normal of a reflected instance is turned over, as its vertices wind the other
        way. Normals of boxes, spheres and capsules point outward. Custom primitives have none.

        Raises
        ------
        AttributeError, RuntimeError
            As for `position`; an AttributeError also for custom primitives.
        """
        return located(self, "normal")


class SourcedPerQuery(Sourced, PerQuery):
    """Base of results with one entry a query."""

    def __getitem__(self, index: Any) -> Self:
        """Select entries as from an array of the batch's shape; `index` is any index of numpy."""
        some = super().__getitem__(index)
        if vars(self).get("_source") is not None:
            vars(some)["_source"] = _selected_source(vars(self)["_source"], index)
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
                if is_lazy(array):
                    columns[name] = array.astype(kind)
                else:  # `[()]` turns an array without axes into a number
                    rounded = np.asarray(in_numpy(array)).astype(kind)[()]
                    columns[name] = in_library_of(rounded, array)
        hits = type(self)(**columns)
        if "_source" in vars(self):
            vars(hits)["_source"] = vars(self)["_source"]
        return hits


def located(hits: Any, name: str) -> Any:
    """Return positions or normals of hits, by `name`, (..., 3), in the library of their arrays."""
    # Where both are computed together, the one that was not read is stored as `_unread`.
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
        # A single hit: its position and normal, if it is on a triangle.
        both = _of_one_hit(source, vars(hits).get("leaf", -1), hits.prim_id, hits.u, hits.v)
        if both is not None:
            which = NAMES.index(name)
            vars(hits)["_unread"] = both[1 - which]
            return both[which]
    prim_id, t, u, v = (np.asarray(in_numpy(c)) for c in (hits.prim_id, hits.t, hits.u, hits.v))
    both, shapes = _on_faces_and_shapes(source, hits, prim_id.ravel(), u.ravel(), v.ravel())
    if shapes:
        # Positions on shapes follow from t, and need the origin and direction of each hit's ray.
        rays: Any = np.reshape(source[2], (2, -1, 3))
        if isinstance(hits, Ragged):
            rays = rays[:, in_numpy(hits._query_ids())]
        _add_shapes(both, shapes, name == "normal", prim_id.ravel(), t.ravel(), rays)
    for each, points in zip(NAMES, both, strict=True):
        # Of shapes, normals are computed only if they are read.
        if each == name or not shapes:
            shaped = points.reshape(*prim_id.shape, 3)
            # Hits that `astype` has rounded have positions of their type.
            array: NDArray[Any] = shaped if t.dtype == np.float64 else shaped.astype(t.dtype)
            array.flags.writeable = False
            vars(hits)[each if each == name else "_unread"] = in_library_of(array, hits.prim_id)
    return vars(hits)[name]


def normals_at(near: Any) -> Any:
    """Return unit normals (..., 3) at the `ClosestPoints` `near`, in the library of its arrays."""
    source: Source | LazySource | None = vars(near).get("_source")
    if source is None:
        raise AttributeError(
            "these points do not know their faces: only results of closest_point have a normal, "
            "which must be read before they are pickled"
        )
    if callable(source):
        return source("normal")
    prim_id, u, v = (np.asarray(in_numpy(column)) for column in (near.prim_id, near.u, near.v))
    (_, normal), shapes = _on_faces_and_shapes(source, near, prim_id.ravel(), u.ravel(), v.ravel())
    for primitives, transform, rows in shapes:
        at = np.reshape(in_numpy(near.position), (-1, 3))[rows]
        normal[rows] = shape_normals(primitives, prim_id.ravel()[rows], at, transform)
    normal = normal.reshape(*prim_id.shape, 3)
    normal.flags.writeable = False
    return in_library_of(normal, near.prim_id)


def _on_faces_and_shapes(
    source: Source, result: Any, ids: Any, u: Any, v: Any
) -> tuple[tuple[Floats, Floats], list[Shapes]]:
    """Return ((positions, normals), shapes) of hits on faces, and on other primitives.

    Positions and unit normals, (n, 3) each, are NaN for misses, and for hits on other primitives:
    `shapes` lists the latter, one `Shapes` for each tree. `ids` (-1 for a miss), `u` and `v` are
    columns (n,) of `result`, from which only the leaves are read here.
    """
    searched, moves, rest = source
    if isinstance(searched, Triangles):
        return on_faces(searched, NO_LEAVES, ids, u, v), []
    if isinstance(searched, Primitives) or hasattr(searched, "leaves_of"):
        both = np.full((len(ids), 3), np.nan), np.full((len(ids), 3), np.nan)
        rows = np.flatnonzero(ids >= 0)
        if isinstance(searched, Primitives):
            return both, [(searched, None, rows)]
        # A mesh in parts: `rest` has the part of each hit, and `some` are the rows in one part.
        for triangles, _, some, ids_in_part in searched.leaves_of(rest, ids, rows):
            found = on_faces(triangles, NO_LEAVES, ids_in_part, u[some], v[some])
            both[0][some], both[1][some] = found
        return both, []
    # A scene.
    leaf = np.asarray(in_numpy(result.leaf)).reshape(-1)
    _must_not_have_moved(searched, moves, leaf, ids)
    both = on_faces(searched.arrays.primitives, leaf, ids, u, v)
    if searched.plain:  # all trees of the scene are over triangles
        return both, []
    by_leaf = {k: searched.trees[searched.tree_of[k]].primitives for k in np.unique(leaf[ids >= 0])}
    return both, [
        (primitives, searched.maps[k], np.flatnonzero(leaf == k))
        for k, primitives in by_leaf.items() if not isinstance(primitives, Triangles)
    ]  # fmt: skip


def _add_shapes(
    both: tuple[Floats, Floats], shapes: list[Shapes], with_normals: bool, ids: Any, t: Any,
    rays: Any,
) -> None:  # fmt: skip
    """Write positions and, if `with_normals`, normals of hits on shapes to `both`, (n, 3) each.

    `ids` and `t` (n,) are those of all hits, and `rays` (2, n, 3) their origins and directions.
    """
    position, normal = both
    for primitives, transform, rows in shapes:
        if with_normals and isinstance(primitives, Custom):
            raise AttributeError("custom primitives have no normals")
        for some in np.array_split(rows, len(rows) // AT_ONCE + 1):
            with np.errstate(all="ignore"):
                position[some] = rays[0, some] + t[some, None] * rays[1, some]
            if with_normals:
                at = position[some]
                normal[some] = shape_normals(primitives, ids[some], at, transform)


def _of_one_hit(
    source: Source, leaf: int, prim_id: int, u: float, v: float
) -> tuple[Floats, Floats] | None:
    """Return the position and unit normal, (3,), of one hit; None unless it is on a triangle."""
    searched, moves, _ = source
    primitives: Any = searched
    if type(searched) is not Triangles:
        # A scene that is `plain` is over triangles alone.
        if not getattr(searched, "plain", False):
            return None
        primitives = searched.arrays.primitives
        if searched.moves > moves:
            _must_not_have_moved(searched, moves, np.array([leaf]), prim_id)
    position, normal = np.empty(3), np.empty(3)
    # Columns of one row: leaf, prim_id, u and v.
    ids, weights = np.array((leaf, prim_id), np.int32), np.array((u, v))
    columns = HitColumns(ids[:1], ids[1:], weights[:1], weights[1:])
    locate_hits(primitives, columns, 0, 1, position, normal)
    position.flags.writeable = normal.flags.writeable = False
    return position, normal


def _must_not_have_moved(view: Any, moves: int, leaf: Any, ids: Any) -> None:
    """Raise a RuntimeError if a leaf that is hit has moved since the count of moves was `moves`.

    `view` is the `SceneView` that was searched; `leaf` and `ids` (-1 for a miss) are those of hits.
    """
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
    """Return positions and unit normals of hits, (n, 3) each; NaN for misses and shapes.

    `prim_id`, `u` and `v` are columns (n,), as is `leaf` for a scene, whose `primitives` are
    `Instanced`; for a tree `leaf` has no items.
    """
    n = len(prim_id)
    ids = (kernel_input(np.asarray(column, np.int32)) for column in (leaf, prim_id))
    weights = (kernel_input(np.asarray(column, np.float64)) for column in (u, v))
    columns = HitColumns(*ids, *weights)
    position, normal = np.empty(3 * n), np.empty(3 * n)

    def work(begin: int, end: int) -> None:
        locate_hits(primitives, columns, begin, end, position, normal)

    share(n, AT_ONCE, work, thread_count(None), None, AT_ONCE // 16)
    return position.reshape(n, 3), normal.reshape(n, 3)


def positions_on(corners: Floats, u: Any, v: Any) -> Floats:
    """Return the points (1-u-v) v0 + u v1 + v v2, (..., 3), of triangles (..., 3, 3)."""
    a, b, c = np.moveaxis(corners, -2, 0)
    first, second = np.asarray(u)[..., None], np.asarray(v)[..., None]
    with np.errstate(all="ignore"):
        return np.asarray((1.0 - first - second) * a + first * b + second * c)


def normals_of(corners: Floats) -> Floats:
    """Return unit normals along (v1-v0) x (v2-v0) of triangles (..., 3, 3); NaN without area."""
    with np.errstate(all="ignore"):
        edges = unit(corners[..., 1:, :] - corners[..., :1, :])
    return unit(np.cross(edges[..., 0, :], edges[..., 1, :]))


def shape_normals(
    shapes: Primitives, prim_id: Any, position: Floats, transform: Floats | None
) -> Floats:
    """Return unit normals (n, 3), in the world, of the shapes `prim_id` (n,) at `position` (n, 3).

    `transform` (3, 4) maps the tree to the world; None for the identity.
    """
    to_local = np.eye(3, 4)
    if transform is not None:
        to_local = inverses(np.ascontiguousarray(transform).reshape(-1, 3, 4))[0]
    points = shapes.points[prim_id]
    if transform is not None and isinstance(shapes, HOLLOW):
        points = shape_of(shapes).instances(points, transform)
    to_local = np.broadcast_to(to_local, (len(points), 3, 4))
    return unit(shape_of(shapes).normals(points, position, to_local))


def unit(vectors: Floats) -> Floats:
    """Return vectors (..., 3) scaled to length 1; NaN for zero vectors."""
    # First by their largest component, so that squares neither overflow nor vanish.
    with np.errstate(all="ignore"):
        scaled = vectors / np.abs(vectors).max(axis=-1, keepdims=True)
        return np.asarray(scaled / np.sqrt((scaled * scaled).sum(axis=-1, keepdims=True)))
