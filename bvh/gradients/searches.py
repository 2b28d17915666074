"""Searches of a tree as functions of arrays: results, and the faces that gradients depend on."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries.hierarchy import BVH
from bvh.queries.query_arguments import check_method, check_options, one_mask
from bvh.runtime.arguments import bit_masks, cull_code, thread_limit
from bvh.runtime.calls.user_calls import FILTER, user_function

Arrays = tuple[NDArray[Any], ...]

# The face of misses, by vertex indices, and its vertices, in a tree without faces.
NO_FACE, NO_POINTS = np.zeros((1, 3), np.int32), np.zeros((1, 3))

# Checks of options, by name; each raises for a value that is not valid.
CHECKS: dict[str, Callable[[Any], object]] = {
    "cull": cull_code,
    "mask": lambda mask: bit_masks("mask", mask),
    "threads": thread_limit,
    "filter": lambda function: user_function("filter", function, FILTER),
}


@dataclass(frozen=True, eq=False)
class TreeSearch:
    """A query of a tree, as a function of arrays (see `__call__`).

    `rank` is the number of leading axes of a result. Under `vmap` all arguments have further axes
    in front, of length 1 where an argument is the same for the whole batch.
    """

    tree: Any  # a BVH, or one on a device
    query: str  # "closest_hit", "closest_point", "distance", "signed_distance", "winding_number"
    rank: int
    moving: bool  # whether the vertices are an argument, too, whose values must be the tree's
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise an error for options that are not valid: some libraries run the search later."""
        get = self.options.get
        check_options(sort=None, validate=False, filter=get("filter"), data=get("data"))
        for name, check in CHECKS.items():
            if get(name) is not None:
                check(get(name))
        if self.query != "closest_hit":
            one_mask(get("mask"))
        if "method" in self.options:
            check_method(self.options["method"])

    def __call__(self, vertices: NDArray[Any] | None, *arguments: Any) -> Arrays:
        """Return the result's columns, and last the faces; `arguments` are those of the query.

        Columns are t, prim_id, u, v and front, or distance, prim_id, u, v and position. If
        `moving`, the last array has the vertex indices of the faces, (..., 3), otherwise their
        corners, (..., 3, 3); a miss has any face. The only column of winding numbers has no faces.
        `vertices`, if given, must be the tree's.
        """
        # A copy, because another thread may refit the tree.
        tree = copy(self.tree)
        points, faces = tree.vertices, tree.faces
        # Arguments of shape (..., 3) come first, `vectors` of them, then limits of shape (...).
        vectors = 2 if self.query == "closest_hit" else 1
        shape = np.broadcast_shapes(*(x.shape[:-1] for x in arguments[:vectors]))
        shape = np.broadcast_shapes(shape, *(np.shape(x) for x in arguments[vectors:]))
        if vertices is not None:
            # Batches of vertices come before the axes of a result.
            check_same(vertices, points)
            shape = np.broadcast_shapes(shape, vertices.shape[:-2] + (1,) * self.rank)
        pairs = zip(self._search(tree, *arguments), self.types(), strict=False)
        columns = [_spread(x, shape, dtype) for x, (_, dtype) in pairs]
        if self.query == "winding_number":
            return tuple(columns)
        if len(faces) == 0:
            faces, points = NO_FACE, NO_POINTS
        # Misses, of id -1, get the first face.
        corners = faces[np.maximum(columns[1], 0)].astype(np.int64)
        return (*columns, corners if self.moving else points[corners])

    def _search(self, tree: BVH, *arguments: Any) -> Arrays:
        """Return the columns that `__call__` lists; `arguments` are those of the query.

        Signed distances are those of `closest_point`, negative for points inside.
        """
        # Queries on devices have fewer options, and none that are None.
        options = {k: v for k, v in self.options.items() if v is not None}
        if self.query == "winding_number":
            return (tree.winding_number(*arguments, **options),)
        if self.query == "closest_hit":
            hits = tree.closest_hit(*arguments, **options)
            return hits.t, hits.prim_id, hits.u, hits.v, hits.front
        points, limits = arguments
        rule = {"method": options.pop("method", "parity")}
        near = tree.closest_point(points, limits, **options)
        distance = np.asarray(near.distance)
        if self.query == "signed_distance":
            inside = tree.contains(points, **options, **rule if rule["method"] != "parity" else {})
            negative = inside & (distance > 0.0) & (distance < np.inf)
            distance = np.where(negative, -distance, distance)
        return distance, near.prim_id, near.u, near.v, near.position

    def types(self) -> list[tuple[int, type]]:
        """Return (n, type) of each array of the result: n numbers a query, 0 for a plain number."""
        if self.query == "winding_number":
            return [(0, np.float64)]
        last = (3, np.int64) if self.moving else (9, np.float64)
        fifth = (0, np.bool_) if self.query == "closest_hit" else (3, np.float64)
        return [(0, np.float64), (0, np.int32), (0, np.float64), (0, np.float64), fifth, last]


def check_same(vertices: NDArray[Any], points: NDArray[Any]) -> None:
    """Raise a ValueError if vertices differ from those of the tree, `points`; NaN equals NaN."""
    same = np.broadcast_to(points, vertices.shape)
    # First without NaN, in a tenth of the time.
    if not any(np.array_equal(same, vertices, equal_nan=nan) for nan in (False, True)):
        hint = "call tree.refit with them first"
        raise ValueError(f"vertices must have the values of the tree's: {hint}")


def checked_tree(query: str, tree: Any) -> BVH:
    """Return `tree` if it is over triangles, or on a device; else raise an error for `query`."""
    if isinstance(getattr(tree, "host", None), BVH):
        on_device: BVH = tree
        return on_device
    if not isinstance(tree, BVH):
        is_scene = type(tree).__name__ == "Scene"
        hint = ": build one from scene.flattened()[:2]" if is_scene else ""
        raise TypeError(f"tree must be a BVH, got {type(tree).__name__}{hint}")
    if not hasattr(tree, "faces"):
        raise TypeError(f"{query} needs a BVH over triangles, not over {tree.kind}")
    return tree


def plain_memory(value: Any) -> Any:
    """Return a NumPy array as a writable one in C and native order; other values unchanged."""
    # PyTorch has no tensors that are read-only or run backwards, JAX none in the other byte order.
    if not isinstance(value, np.ndarray):
        return value
    return np.require(value, value.dtype.newbyteorder("="), ["C", "A", "W"])


def check_rows(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the leading shape of an argument (..., 3); raise a ValueError for other shapes."""
    if shape[-1:] != (3,):
        raise ValueError(f"{name} must have shape (..., 3), got {tuple(shape)}")
    return tuple(shape[:-1])


def _spread(value: Any, shape: tuple[int, ...], dtype: type) -> NDArray[Any]:
    """Return `value` as an array whose first axes have the given shape; broadcast into a copy."""
    array: NDArray[Any] = np.asarray(value, dtype)
    full = shape + array.shape[len(shape) :]
    return array if array.shape == full else np.array(np.broadcast_to(array, full))


def with_axes(array: Any, count: int) -> Any:
    """Return an array with `count` axes; new axes, of length 1, come first."""
    return array.reshape((1,) * (count - array.ndim) + tuple(array.shape))
