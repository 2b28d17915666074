"""Ray and point queries with gradients, for JAX.

The values are those of `BVH.closest_hit`, `BVH.closest_point`, `BVH.signed_distance` and
`BVH.winding_number`, bit for bit, except that JAX may replace numbers below 2.3e-308, in arguments
and results, by 0. They are differentiable with respect to rays or points, and to the tree's
vertices, any number of times, backward and forward, and under `jit` and `vmap`: a batch is one call
of the tree, on the CPU. JAX must have float64, by ``jax.config.update("jax_enable_x64", True)``.

`bvh.torch`, which has the same functions, documents the derivatives and where there are none: the
face that was found is held fixed, gradients of misses are 0, and all are finite.

A compiled function searches the tree as it is when the function is called, not when it was
compiled, so a tree may be refitted between calls, but not within. Arguments are arrays of any
real type and of shape (..., 3); results are float64, and gradients have the types of the arguments.

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

from bvh.gradients.jax_functions import JaxQueries
from bvh.gradients.queries import HitTuple, PointTuple

__all__ = [
    "HitTuple", "PointTuple", "closest_hit", "closest_point", "distance", "signed_distance",
    "winding_number",
]  # fmt: skip

__dir__ = __all__.copy

_QUERIES = JaxQueries(__name__)

closest_hit = _QUERIES.function(
    _QUERIES.closest_hit,
    """
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
    """,
)

closest_point = _QUERIES.function(
    _QUERIES.closest_point,
    """
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> jacobian = jax.jacobian(lambda point: bvh.jax.closest_point(tree, point).position)
    >>> (jacobian(jax.numpy.array([0.25, 0.25, 3.0])).round(9) + 0.0).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """,
)

distance = _QUERIES.function(
    _QUERIES.distance,
    """
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> points = jax.numpy.array([[0.25, 0.25, 2.0], [-3.0, 0.0, 4.0]])
    >>> bvh.jax.distance(tree, points).tolist()
    [2.0, 5.0]
    """,
)

signed_distance = _QUERIES.function(
    _QUERIES.signed_distance,
    """
    >>> vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    >>> tree = bvh.BVH.from_triangles(vertices, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    >>> slope = jax.vmap(jax.grad(lambda point: bvh.jax.signed_distance(tree, point)))
    >>> (slope(jax.numpy.array([[0.25, 0.25, 0.125], [0.25, 0.25, 0.0]])) + 0.0).tolist()
    [[0.0, 0.0, -1.0], [0.0, 0.0, -1.0]]
    """,
)

winding_number = _QUERIES.function(
    _QUERIES.winding_number,
    """
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> slope = jax.grad(lambda point: bvh.jax.winding_number(tree, point))
    >>> slope(jax.numpy.array([0.25, 0.25, 0.5])).round(6).tolist()
    [-0.040637, -0.040637, 0.267495]
    """,
)

# Doctest looks for functions that are declared here.
__test__ = _QUERIES.functions
