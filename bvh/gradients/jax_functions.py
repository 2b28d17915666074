"""Searches and results as functions of JAX, with derivatives."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

try:
    import jax
    import jax.numpy as jnp
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "bvh.jax needs JAX: install it as https://docs.jax.dev/en/latest/installation.html says, "
        "for example with 'pip install jax'",
        name=error.name,
    ) from error

from bvh.gradients import formulas
from bvh.gradients.results import HitTuple, PointTuple
from bvh.gradients.searches import (
    Search,
    check_distance,
    check_rows,
    check_shape,
    checked_tree,
    plain_memory,
    with_axes,
)
from bvh.runtime.arguments import common_shape

# A primitive, as it counts as linear and is not: JAX would refuse to transpose the `where` in it.
bounded_p = Primitive("bvh_bounded")


@bounded_p.def_impl
def _in_range(values: Any, *, axes: int) -> Any:
    return formulas.in_range(jnp, values, axes)


def bounded(values: Any, axes: int) -> Any:
    """Return what `formulas.in_range` does."""
    return bounded_p.bind(values, axes=axes)


def _batch(args: Any, dims: Any, *, axes: int) -> Any:
    return bounded(jnp.moveaxis(args[0], dims[0], 0), axes), 0


bounded_p.def_abstract_eval(lambda values, *, axes: values)
mlir.register_lowering(bounded_p, mlir.lower_fun(_in_range, multiple_results=False))
ad.deflinear2(bounded_p, lambda gradient, _, *, axes: [bounded(gradient, axes)])
batching.primitive_batchers[bounded_p] = _batch

LIBRARY = formulas.Library(jnp, jax.lax.stop_gradient, bounded, lambda: True)

# Compiled as a whole, as each step on its own would be compiled, too.
push_hit = jax.jit(partial(formulas.push_hit, LIBRARY))
push_point = jax.jit(partial(formulas.push_point, LIBRARY), static_argnums=4)


@jax.custom_jvp
def hitting(
    origins: Any, directions: Any, corners: Any, t: Any, u: Any, v: Any, hit: Any
) -> tuple[Any, Any, Any, Any]:
    """Return t, u and v of hits as they are, and the position, with derivatives."""
    first, second = u[..., None], v[..., None]
    weights = 1.0 - first - second, first, second
    return t, u, v, sum(weights[i] * corners[..., i, :] for i in range(3))


@hitting.defjvp
def _(primals: Any, tangents: Any) -> Any:
    results = hitting(*primals)
    _, directions, corners, _, _, _, hit = primals
    return results, push_hit(directions, corners, results[:3], hit, tuple(tangents[:3]))


@partial(jax.custom_jvp, nondiff_argnums=(7,))
def approaching(
    points: Any, corners: Any, distance: Any, position: Any, u: Any, v: Any, hit: Any, signed: bool
) -> tuple[Any, Any, Any, Any]:
    """Return distance, position, u and v of closest points as they are, with derivatives."""
    return distance, position, u, v


@approaching.defjvp
def _(signed: bool, primals: Any, tangents: Any) -> Any:
    results = approaching(*primals, signed)
    points, corners, hit = primals[0], primals[1], primals[6]
    found = results[0], results[2], results[3]
    return results, push_point(points, corners, found, hit, signed, tuple(tangents[:2]))


def hits(
    tree: Any, rays: tuple[Any, Any], vertices: Any, bounds: tuple[Any, Any],
    options: dict[str, Any],
) -> HitTuple:  # fmt: skip
    """Return the closest hits of rays from t_min to t_max, the bounds."""
    tree = checked_tree("closest_hit", tree)
    origins, directions = _reals("origins", rays[0]), _reals("directions", rays[1])
    low, high = _reals("t_min", bounds[0]), _reals("t_max", bounds[1])
    shape = common_shape(
        origins=check_rows("origins", origins.shape),
        directions=check_rows("directions", directions.shape),
        t_min=low.shape,
        t_max=high.shape,
    )
    search = Search(tree, "closest_hit", len(shape), vertices is not None, options)
    queries = (
        with_axes(origins, len(shape) + 1),
        with_axes(directions, len(shape) + 1),
        *(with_axes(x, len(shape)) for x in (low, high)),
    )
    (t, prim_id, u, v, front), corners = _searched(search, vertices, queries, shape)
    # Bounded, so that gradients, sums over all queries, are in range.
    ends = [jnp.broadcast_to(bounded(x, 1), (*shape, 3)) for x in queries[:2]]
    t, u, v, position = hitting(*ends, corners, t, u, v, prim_id >= 0)
    return HitTuple(t, prim_id, u, v, position, front)


def nearest(
    query: str, tree: Any, points: Any, vertices: Any, max_distance: Any, options: dict[str, Any]
) -> PointTuple:
    """Return closest points; for the query "signed_distance", with signed distances."""
    tree = checked_tree(query, tree)
    check_distance(max_distance)
    points, limits = _reals("points", points), _reals("max_distance", max_distance)
    shape = common_shape(points=check_rows("points", points.shape), max_distance=limits.shape)
    search = Search(tree, query, len(shape), vertices is not None, options)
    queries = with_axes(points, len(shape) + 1), with_axes(limits, len(shape))
    (distance, prim_id, u, v, position), corners = _searched(search, vertices, queries, shape)
    distance, position, u, v = approaching(
        jnp.broadcast_to(bounded(queries[0], 1), (*shape, 3)), corners, distance, position, u, v,
        prim_id >= 0, query == "signed_distance",
    )  # fmt: skip
    return PointTuple(distance, position, prim_id, u, v)


def _searched(
    search: Search, vertices: Any, queries: tuple[Any, ...], shape: tuple[int, ...]
) -> tuple[Any, Any]:
    """Return what is found, and the corners of faces, which depend on the vertices if given."""
    tails = {0: (), 3: (3,), 9: (3, 3)}
    types = [jax.ShapeDtypeStruct(shape + tails[width], dtype) for width, dtype in search.types()]
    arguments = queries
    if vertices is not None:
        vertices = _reals("vertices", vertices)
        check_shape(search.tree, vertices.shape)
        arguments = vertices, *queries

    def find(*arrays: Any) -> Any:
        numbers = [np.asarray(array) for array in arrays]
        return search(*numbers) if search.moving else search(None, *numbers)

    # One call for a whole batch of batches.
    fixed = (jax.lax.stop_gradient(x) for x in arguments)
    *found, last = jax.pure_callback(find, types, *fixed, vmap_method="expand_dims")
    if vertices is None:
        return found, last
    return found, bounded(vertices, 1)[last] if len(vertices) else jnp.zeros((*shape, 3, 3))


def _reals(name: str, value: Any) -> Any:
    """Return numbers as float64; raise where JAX has none."""
    if not jax.config.jax_enable_x64:
        raise RuntimeError(
            "bvh.jax needs float64, which JAX has switched off: call "
            "jax.config.update('jax_enable_x64', True) at the start of the program, or set "
            "JAX_ENABLE_X64=1"
        )
    try:
        array = jnp.asarray(plain_memory(value))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers: {error}") from None
    if array.dtype.kind not in "iuf" and array.dtype != jnp.bfloat16:
        raise TypeError(f"{name} must be real numbers, got an array of {array.dtype}")
    return array.astype(jnp.float64)
