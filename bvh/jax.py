"""Ray and point queries with gradients, for JAX.

The values are those of `BVH.closest_hit`, `BVH.closest_point` and `BVH.signed_distance`, bit for
bit, but that JAX may take numbers below 2.3e-308, of arguments and results, for 0. They are
differentiable with respect to rays or points, and to the vertices of the tree, any number of times,
backward and forward, and under `jit` and `vmap`: a batch is one call of the tree, on the CPU. JAX
must have float64, by ``jax.config.update("jax_enable_x64", True)``.

What is differentiated, and where there is no derivative, is said in `bvh.torch`, whose functions
these are: the face that was found is held fixed, gradients of misses are 0, and none is NaN or
infinite.

A compiled function searches the tree as it is when the function is called, not when it was
compiled, so a tree may be refitted between calls, but not within. Arrays of any real type and of
shape (..., 3) are taken; results are float64, and gradients of the types of what was given.

Examples
--------
>>> import jax
>>> import bvh.jax
>>> jax.config.update("jax_enable_x64", True)
>>> tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
>>> def distance_along(origin, vertices):
...     return bvh.jax.closest_hit(tree, origin, [0.0, 0.0, -1.0], vertices).t
>>> by_origin, by_vertices = jax.jit(jax.grad(distance_along, (0, 1)))(
...     jax.numpy.array([1.0, 1.0, 3.0]), tree.vertices
... )
>>> (by_origin + 0.0).tolist(), by_vertices[:, 2].tolist()
([0.0, 0.0, 1.0], [-0.5, -0.25, -0.25])
"""

from __future__ import annotations

import math
from typing import Any

from bvh.gradients.jax_functions import hits, nearest
from bvh.gradients.results import HitTuple, PointTuple
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import Cull, InsideRule

__all__ = [
    "HitTuple",
    "PointTuple",
    "closest_hit",
    "closest_point",
    "distance",
    "signed_distance",
]


def __dir__() -> list[str]:
    """List the public names, and no others."""
    return __all__


def closest_hit(
    tree: BVH,
    origins: Any,
    directions: Any,
    vertices: Any = None,
    *,
    t_min: Any = 0.0,
    t_max: Any = math.inf,
    mask: Any = None,
    cull: Cull | None = None,
    filter: Any = None,
    data: Any = None,
    threads: int | None = None,
) -> HitTuple:
    """Find the closest hit of each ray, differentiably.

    Parameters
    ----------
    tree : BVH
        Over triangles.
    origins, directions : array_like, shape (..., 3)
        Rays o + t d, broadcast against each other. Directions need not be normalised.
    vertices : array_like, shape (n, 3), optional
        The vertices that the tree was built from or last refitted to, to have gradients by them.
        Without them, the tree is a constant.
    t_min, t_max : float or array_like, shape (...)
        Range of t, both ends included. Without gradients.
    mask, cull, filter, data, threads
        As in `BVH.closest_hit`. Under `vmap` a filter's ray_id counts the rays of all batches.

    Returns
    -------
    HitTuple
        t, prim_id, u, v, position and front, with the rays' leading shape, and `mask`. t, u, v and
        position have gradients. A miss has t +inf, prim_id -1, NaN for u, v and position, and no
        gradient whatever the gradients of its results.

    Raises
    ------
    ValueError
        If an argument has the wrong shape, or the vertices are not the tree's: call
        `BVH.refit` with them first.
    TypeError
        If the tree is a scene, or not over triangles.
    RuntimeError
        If JAX has no float64. Where vertices are not the tree's, and in a compiled function other
        errors of values, it is JAX that raises one, with the text of the error.

    Notes
    -----
    With the normal n of the face, not normalised, dt/do = -n / (n . d), dt/dd = t dt/do, and by
    its vertices dt/dv_i = w_i n / (n . d), with the weights w = (1-u-v, u, v).

    Examples
    --------
    >>> import jax
    >>> import bvh.jax
    >>> jax.config.update("jax_enable_x64", True)
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> directions = jax.numpy.array([[0.0, 0.0, -2.0], [0.0, 0.0, 1.0]])
    >>> hits = bvh.jax.closest_hit(tree, [0.25, 0.25, 1.0], directions)
    >>> hits.t.tolist(), hits.mask.tolist()
    ([0.5, inf], [True, False])
    >>> def total(directions):
    ...     hits = bvh.jax.closest_hit(tree, [0.25, 0.25, 1.0], directions)
    ...     return jax.numpy.where(hits.mask, hits.t, 0.0).sum()
    >>> (jax.grad(total)(directions) + 0.0).tolist()
    [[0.0, 0.0, 0.25], [0.0, 0.0, 0.0]]
    """
    options = {"mask": mask, "cull": cull, "filter": filter, "data": data, "threads": threads}
    return hits(tree, (origins, directions), vertices, (t_min, t_max), options)


def closest_point(
    tree: BVH,
    points: Any,
    vertices: Any = None,
    *,
    max_distance: Any = math.inf,
    mask: Any = None,
    threads: int | None = None,
) -> PointTuple:
    """Find the closest point of the surface for each point, differentiably.

    Parameters
    ----------
    tree : BVH
        Over triangles.
    points : array_like, shape (..., 3)
    vertices : array_like, shape (n, 3), optional
        As in `closest_hit`.
    max_distance : float or array_like, shape (...)
        How far to look, that distance included. Without gradients.
    mask, threads
        As in `BVH.closest_point`.

    Returns
    -------
    PointTuple
        distance, position, prim_id, u and v, with the points' leading shape, and `mask`. All but
        prim_id have gradients. A miss has distance +inf, prim_id -1, NaN for the rest, and no
        gradient.

    Raises
    ------
    ValueError, TypeError
        As in `closest_hit`.

    Notes
    -----
    The gradient of the distance of p from the closest point q is (p - q) / abs(p - q), and -w_i
    times that by vertex i; 0 on the surface, where there is none: `signed_distance` has one there.
    A position moves in its face if it is inside of it, along the edge if it is on one, and with the
    vertex if it is one; this is of one side where p is on the border between such regions.

    Examples
    --------
    >>> import jax
    >>> import bvh.jax
    >>> jax.config.update("jax_enable_x64", True)
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> jacobian = jax.jacobian(lambda point: bvh.jax.closest_point(tree, point).position)
    >>> (jacobian(jax.numpy.array([0.25, 0.25, 3.0])).round(9) + 0.0).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    options = {"mask": mask, "threads": threads}
    return nearest("closest_point", tree, points, vertices, max_distance, options)


def distance(
    tree: BVH,
    points: Any,
    vertices: Any = None,
    *,
    max_distance: Any = math.inf,
    mask: Any = None,
    threads: int | None = None,
) -> Any:
    """Return the distance of each point from the surface, differentiably.

    Parameters
    ----------
    tree, points, vertices, max_distance, mask, threads
        As in `closest_point`.

    Returns
    -------
    Array of float64, shape (...)
        As in `closest_point`.

    Examples
    --------
    >>> import jax
    >>> import bvh.jax
    >>> jax.config.update("jax_enable_x64", True)
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> points = jax.numpy.array([[0.25, 0.25, 2.0], [-3.0, 0.0, 4.0]])
    >>> bvh.jax.distance(tree, points).tolist()
    [2.0, 5.0]
    """
    options = {"mask": mask, "threads": threads}
    return nearest("distance", tree, points, vertices, max_distance, options).distance


def signed_distance(
    tree: BVH,
    points: Any,
    vertices: Any = None,
    *,
    method: InsideRule = "parity",
    mask: Any = None,
    threads: int | None = None,
) -> Any:
    """Return the distance of each point from a closed surface, negative inside, differentiably.

    Parameters
    ----------
    tree, points, vertices, mask, threads
        As in `closest_point`.
    method : {"parity", "winding"}
        As in `BVH.contains`.

    Returns
    -------
    Array of float64, shape (...)
        As in `BVH.signed_distance`. The sign is held fixed. On the surface, where the value is 0,
        the gradient is the normal of the face, (v1-v0) x (v2-v0) normalised: this is the derivative
        if normals point outward, and on an edge or a vertex the derivative of one side.

    Examples
    --------
    >>> import jax
    >>> import bvh.jax
    >>> jax.config.update("jax_enable_x64", True)
    >>> vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    >>> tree = bvh.BVH.from_triangles(vertices, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    >>> slope = jax.vmap(jax.grad(lambda point: bvh.jax.signed_distance(tree, point)))
    >>> (slope(jax.numpy.array([[0.25, 0.25, 0.125], [0.25, 0.25, 0.0]])) + 0.0).tolist()
    [[0.0, 0.0, -1.0], [0.0, 0.0, -1.0]]
    """
    options = {"method": method, "mask": mask, "threads": threads}
    return nearest("signed_distance", tree, points, vertices, math.inf, options).distance
