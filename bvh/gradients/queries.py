"""Queries and results of `bvh.torch` and `bvh.jax`, for any library that can differentiate."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import wraps
from string import Template
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from bvh.gradients import searches
from bvh.gradients.boundaries import WINDING_RULE
from bvh.gradients.formulas import HIT_RULE, POINT_RULES, ArrayLibrary, weighted
from bvh.queries.batches.winding import boundary_for, free_edges_for
from bvh.queries.hierarchy import BVH
from bvh.queries.query_arguments import one_mask
from bvh.runtime.arguments import Cull, InsideRule, common_shape, lengths
from bvh.tree.boundary import edges_of

Array = TypeVar("Array", bound=Any)
Kind = TypeVar("Kind", bound=type)
Query = TypeVar("Query", bound=Callable[..., Any])


def plain_tuple(kind: Kind) -> Kind:
    """Make `tuple` the only base of a named tuple class, as older PyTorch needs under `vmap`."""
    kind.__bases__ = (tuple,)
    return kind


@plain_tuple
class HitTuple(NamedTuple, Generic[Array]):
    """Closest hits of rays, as tensors or JAX arrays with the rays' leading shape.

    All are as in `Hits`; `t`, `u`, `v` and `position`, shape (..., 3), have gradients, `prim_id`
    and `front` have none.

    Examples
    --------
    >>> import bvh, bvh.torch
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> hits = bvh.torch.closest_hit(tree, [[0.2, 0.2, 5.0], [2.0, 2.0, 5.0]], [0.0, 0.0, -1.0])
    >>> hits.mask.tolist(), hits.prim_id.tolist(), hits.t.dtype
    ([True, False], [0, -1], torch.float64)
    """

    t: Array
    prim_id: Array
    u: Array
    v: Array
    position: Array
    front: Array

    @property
    def mask(self) -> Array:
        """True where there is a hit."""
        result: Array = self.prim_id >= 0
        return result


@plain_tuple
class PointTuple(NamedTuple, Generic[Array]):
    """Closest points of a tree, as tensors or JAX arrays with the points' leading shape.

    All are as in `ClosestPoints`; `distance`, `position`, `u` and `v` have gradients, `prim_id` has
    none.

    Examples
    --------
    >>> import bvh, bvh.torch
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> near = bvh.torch.closest_point(tree, [0.25, 0.25, 2.0])
    >>> near.position.tolist(), near.distance.item()
    ([0.25, 0.25, 0.0], 2.0)
    """

    distance: Array
    position: Array
    prim_id: Array
    u: Array
    v: Array

    @property
    def mask(self) -> Array:
        """True where there is a closest point."""
        result: Array = self.prim_id >= 0
        return result


class DifferentiableQueries(ABC, Generic[Array]):
    """Queries with gradients: a subclass for each library searches and differentiates.

    `module` is the one that users import; `function` makes its functions of the methods. `words`
    replace $array, $result and $refusals in their docstrings: the type of arguments, that of
    results, and further errors. Examples begin with imports and `preparation`.
    """

    words: ClassVar[dict[str, str]]
    preparation: ClassVar[str] = ""
    library: ArrayLibrary

    # differentiable(rule, *given) returns the results in `given` with the derivatives of a `Rule`;
    # see `Rule.saved`.
    differentiable: Callable[..., tuple[Array, ...]]

    def __init__(self, module: str) -> None:
        """Begin without functions of the module: `function` adds them."""
        self.module = module
        self.functions: dict[str, Callable[..., Any]] = {}

    @abstractmethod
    def reals(self, name: str, value: Array | ArrayLike) -> Array:
        """Return the argument `value` as float64 that keeps its gradient; errors call it `name`."""

    @abstractmethod
    def search(
        self, search: searches.TreeSearch, arguments: Sequence[Array | None], shape: tuple[int, ...]
    ) -> Sequence[Array]:
        """Return the results of a search of leading `shape`, without derivatives.

        `arguments` are vertices, or None, and then those of the query.
        """

    @abstractmethod
    def constant(self, find: Callable[[], Any]) -> Array:
        """Return the result of `find` as a constant, whose shape does not depend on vertices."""

    def summable(self, rows: Array) -> Array:
        """Return `rows` of three whose gradients, summed over all queries, become 0 on overflow."""
        result: Array = self.library.zero_unless_finite(rows, 1)
        return result

    def returned(
        self, results: Sequence[Array], given: Sequence[Array | ArrayLike | None]
    ) -> Sequence[Array]:
        """Return results on the device of the arguments `given`; unchanged if not overridden."""
        return results

    def guarded(self, query: Query) -> Query:
        """Return a query that compiled functions may call; `query` itself if not overridden."""
        return query

    def function(self, query: Query, example: str) -> Query:
        """Return a method as a function of the module, with `example` at the end of its docstring.

        Imports of the module are put before the example. The function is added to `functions`.
        """
        answer = self.guarded(query)

        @wraps(query)
        def public(*args: Any, **options: Any) -> Any:
            return answer(*args, **options)

        text = Template(inspect.cleandoc(query.__doc__ or "")).substitute(self.words)
        imports = f">>> import {self.module.rpartition('.')[2]}\n>>> import {self.module}\n"
        example = imports + self.preparation + inspect.cleandoc(example)
        public.__doc__ = f"{text}\n\nExamples\n--------\n{example}\n"
        public.__module__, public.__qualname__ = self.module, query.__name__
        # By this attribute, documentation tools would find the method instead.
        del public.__wrapped__
        public.__signature__ = inspect.signature(query)  # type: ignore[attr-defined]
        self.functions[query.__name__] = public
        return public  # type: ignore[return-value]

    def closest_hit(
        self, tree: BVH, origins: Array | ArrayLike, directions: Array | ArrayLike,
        vertices: Array | ArrayLike | None = None, *, t_min: Array | ArrayLike = 0.0,
        t_max: Array | ArrayLike = math.inf, mask: ArrayLike | None = None,
        cull: Cull | None = None, filter: Callable[..., bool] | None = None, data: object = None,
        threads: int | None = None,
    ) -> HitTuple[Array]:  # fmt: skip
        """Find the closest hit of each ray, differentiably.

        Parameters
        ----------
        tree : BVH or bvh.warp.DeviceBVH
            Over triangles; one on a device is searched there.
        origins, directions : $array, shape (..., 3)
            Rays o + t d, broadcast against each other. Directions need not be normalised.
        vertices : $array, shape (n, 3), optional
            The vertices that the tree was built from or last refitted to, for gradients with
            respect to them. Without them, the tree is a constant.
        t_min, t_max : float or $array, shape (...)
            Range of t, both ends included. Without gradients.
        mask, cull, filter, data, threads
            As in `BVH.closest_hit`. Under `vmap` a filter's ray_id counts the rays of all batches.

        Returns
        -------
        HitTuple
            A miss has t +inf, prim_id -1, NaN for u, v and position, and no gradient whatever the
            gradients of its results.

        Raises
        ------
        ValueError
            If an argument has the wrong shape, or the vertices are not the tree's: call
            `BVH.refit` with them first.
        TypeError
            If the tree is a scene, or not over triangles.$refusals

        Notes
        -----
        With the normal n of the face, not normalised, dt/do = -n / (n . d), dt/dd = t dt/do, and
        for its vertices dt/dv_i = w_i n / (n . d), with the weights w = (1-u-v, u, v).
        """
        rays = {"origins": origins, "directions": directions}
        limits = {"t_min": t_min, "t_max": t_max}
        options = {"mask": mask, "cull": cull, "filter": filter, "data": data, "threads": threads}
        t, prim_id, u, v, front, *moving = self._search_tree(
            "closest_hit", tree, rays, limits, vertices, options
        )
        position = weighted((1.0 - u - v, u, v), self.library.fixed(moving[-1]))
        hits = t, u, v, position, prim_id >= 0
        t, u, v, position = self.differentiable(HIT_RULE, *moving, *hits)
        given = origins, directions, vertices
        return HitTuple(*self.returned((t, prim_id, u, v, position, front), given))

    def closest_point(
        self, tree: BVH, points: Array | ArrayLike, vertices: Array | ArrayLike | None = None, *,
        max_distance: Array | ArrayLike = math.inf, mask: int | None = None,
        threads: int | None = None,
    ) -> PointTuple[Array]:  # fmt: skip
        """Find the closest point of the surface for each point, differentiably.

        Parameters
        ----------
        tree : BVH or bvh.warp.DeviceBVH
            As in `closest_hit`.
        points : $array, shape (..., 3)
        vertices : $array, shape (n, 3), optional
            As in `closest_hit`.
        max_distance : float or $array, shape (...)
            How far to look, that distance included. Without gradients.
        mask, threads
            As in `BVH.closest_point`.

        Returns
        -------
        PointTuple
            A miss has distance +inf, prim_id -1, NaN for the rest, and no gradient. Errors are as
            in `closest_hit`.

        Notes
        -----
        The gradient of the distance of p from the closest point q is (p - q) / abs(p - q), and -w_i
        times that by vertex i; 0 on the surface, where there is none: `signed_distance` has one
        there. A position moves in its face if it is inside of it, along the edge if it is on one,
        and with the vertex if it is one; this is of one side where p is on the border between such
        regions.
        """
        options = {"mask": mask, "threads": threads}
        return self._nearest("closest_point", tree, points, vertices, max_distance, options)

    def distance(
        self, tree: BVH, points: Array | ArrayLike, vertices: Array | ArrayLike | None = None, *,
        max_distance: Array | ArrayLike = math.inf, mask: int | None = None,
        threads: int | None = None,
    ) -> Array:  # fmt: skip
        """Return the distance of each point from the surface, differentiably.

        The $result of float64, shape (...), and the arguments are as in `closest_point`.
        """
        options = {"mask": mask, "threads": threads}
        return self._nearest("distance", tree, points, vertices, max_distance, options).distance

    def signed_distance(
        self, tree: BVH, points: Array | ArrayLike, vertices: Array | ArrayLike | None = None, *,
        method: InsideRule = "parity", mask: int | None = None, threads: int | None = None,
    ) -> Array:  # fmt: skip
        """Return the distance of each point from a closed surface, negative inside, differentiably.

        Parameters
        ----------
        tree, points, vertices, mask, threads
            As in `closest_point`.
        method : {"parity", "winding"}
            As in `BVH.contains`.

        Returns
        -------
        $result of float64, shape (...)
            As in `BVH.signed_distance`. The sign is held fixed. On the surface, where the value is
            0, the gradient is the normal of the face, (v1-v0) x (v2-v0) normalised: this is the
            derivative if normals point outward, and on an edge or a vertex the derivative of one
            side.
        """
        options = {"method": method, "mask": mask, "threads": threads}
        return self._nearest("signed_distance", tree, points, vertices, math.inf, options).distance

    def winding_number(
        self, tree: BVH, points: Array | ArrayLike, vertices: Array | ArrayLike | None = None, *,
        accuracy: float = 2.0, mask: int | None = None, threads: int | None = None,
    ) -> Array:  # fmt: skip
        """Return the winding number of the surface around each point, differentiably.

        Parameters
        ----------
        tree : BVH
            Over triangles.
        points, vertices
            As in `closest_point`.
        accuracy, mask, threads
            As in `BVH.winding_number`.

        Returns
        -------
        $result of float64, shape (...)
            As in `BVH.winding_number`. Gradients are those of the exact number, by a sum over the
            open edges in closed form (the law of Biot and Savart), which takes some 300 bytes for
            each of them and each point. They are 0 for closed meshes, and on an open edge.
        """
        tree = searches.checked_tree("winding_number", tree)
        if not isinstance(tree, BVH):
            raise TypeError("winding_number needs a BVH that is not on a device")
        places, vertex_array = self.reals("points", points), self._vertices(tree, vertices)
        shape = searches.check_rows("points", places.shape)
        options = {"accuracy": accuracy, "mask": mask, "threads": threads}
        query, rank = "winding_number", len(shape)
        search = searches.TreeSearch(tree, query, rank, vertices is not None, options)
        numbers = self.search(search, [vertex_array, places], shape)
        if vertex_array is None:
            ends = self.constant(lambda: edges_of(boundary_for(tree, one_mask(mask))))
        else:
            ends = self.summable(vertex_array)[free_edges_for(tree, one_mask(mask))]
        numbers = self.differentiable(WINDING_RULE, self.summable(places), ends, *numbers)
        result: Array = self.returned(numbers, (points, vertices))[0]
        return result

    def _vertices(self, tree: BVH, vertices: Array | ArrayLike | None) -> Array | None:
        """Return the argument `vertices` as float64, of the tree's shape; None for None."""
        if vertices is None:
            return None
        array = self.reals("vertices", vertices)
        if tuple(array.shape) != tree.vertices.shape:
            expected = f"the shape of the tree's, {tree.vertices.shape}"
            raise ValueError(f"vertices must have {expected}, got {tuple(array.shape)}")
        return array

    def _nearest(
        self, query: str, tree: BVH, points: Array | ArrayLike, vertices: Array | ArrayLike | None,
        max_distance: Array | ArrayLike, options: dict[str, Any],
    ) -> PointTuple[Array]:  # fmt: skip
        """Return closest points, with signed distances if `query` is "signed_distance"."""
        # Values of tensors and JAX arrays, which may be traced, are not checked.
        if isinstance(max_distance, float | int | np.number | np.ndarray):
            lengths("max_distance", max_distance)
        places, bounds = {"points": points}, {"max_distance": max_distance}
        distance, prim_id, u, v, position, *moving = self._search_tree(
            query, tree, places, bounds, vertices, options
        )
        near = distance, u, v, position, prim_id >= 0
        rule = POINT_RULES[query == "signed_distance"]
        distance, u, v, position = self.differentiable(rule, *moving, *near)
        results = distance, position, prim_id, u, v
        return PointTuple(*self.returned(results, (points, vertices)))

    def _search_tree(
        self, query: str, tree: BVH, vectors: dict[str, Array | ArrayLike],
        bounds: dict[str, Array | ArrayLike], vertices: Array | ArrayLike | None,
        options: dict[str, Any],
    ) -> tuple[Array, ...]:  # fmt: skip
        """Return the columns of the result of `query`, then the arrays that derivatives depend on.

        Columns are t, prim_id, u, v and front, or distance, prim_id, u, v and position. Derivatives
        depend on `vectors`, the arguments (..., 3) by name, broadcast to the shape of the result,
        and on the corners of faces, (..., 3, 3). `bounds` are the arguments (...) by name.
        """
        tree = searches.checked_tree(query, tree)
        rows = {name: self.reals(name, value) for name, value in vectors.items()}
        numbers = {name: self.reals(name, value) for name, value in bounds.items()}
        leading = {name: searches.check_rows(name, x.shape) for name, x in rows.items()}
        shape = common_shape(**leading, **{name: tuple(x.shape) for name, x in numbers.items()})
        rank, xp = len(shape), self.library.xp
        search = searches.TreeSearch(tree, query, rank, vertices is not None, options)
        starts = [searches.with_axes(x, rank + 1) for x in rows.values()]
        limits = [searches.with_axes(x, rank) for x in numbers.values()]
        vertex_array = self._vertices(tree, vertices)
        *columns, corners = self.search(search, [vertex_array, *starts, *limits], shape)
        # With vertices, `corners` are indices: the library records how corners are taken by them.
        if vertex_array is not None and len(vertex_array):
            corners = self.summable(vertex_array)[corners]
        elif vertex_array is not None:
            corners = xp.zeros((*corners.shape, 3), dtype=xp.float64)
        full = (xp.broadcast_to(self.summable(x), (*shape, 3)) for x in starts)
        return *columns, *full, corners
