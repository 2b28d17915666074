"""Ray and point queries with gradients, for PyTorch.

The values are those of `BVH.closest_hit`, `BVH.closest_point`, `BVH.signed_distance` and
`BVH.winding_number`, bit for bit. They are differentiable with respect to rays or points, and to
the vertices of the tree, any number of times, backward and forward, and under `torch.func`: `grad`,
`jacrev`, `jacfwd`, `hessian`, `vmap`.

The face is held fixed. This gives the derivative of the distance to the surface wherever there is
one; where the nearest face changes, as at a silhouette, it is that of one side. Gradients are 0 for
misses, and where there is no derivative: faces without area; rays that graze a face, so that
float64 does not give the sign of the product of direction and normal; points closer to a face than
the rounding of its coordinates, so that their side is undefined. They are also 0 where they exceed
the range of float64, as those of u by the vertices of a face of size 1e-310. So gradients, and
gradients of gradients, are never NaN nor infinite, and NaN or infinite gradients of results count
as 0. They are computed in float64, and are less accurate the thinner a face is.

Arguments are tensors of any real type, device and shape (..., 3), arrays or sequences. Everything
is computed in float64, on the CPU: results are float64, on the device of the first tensor, and
gradients have the types and devices of the arguments.

Functions that are compiled with `torch.compile` may call these: a graph ends before the call and
another begins after it, so values and gradients are the same, and ``fullgraph=True`` is an error.
Tensors without data, on the device "meta" or in an export, are a TypeError.

Examples
--------
>>> import torch
>>> import bvh.torch
>>> vertices = torch.tensor([[0.0, 0, 0], [4, 0, 0], [0, 4, 0]], dtype=torch.float64)
>>> tree = bvh.BVH.from_triangles(vertices.numpy(), [[0, 1, 2]])
>>> origin = torch.tensor([1.0, 1.0, 3.0], requires_grad=True)
>>> hit = bvh.torch.closest_hit(tree, origin, [0.0, 0.0, -1.0])
>>> hit.t.item(), hit.position.tolist()
(3.0, [1.0, 1.0, 0.0])
>>> hit.t.backward()
>>> origin.grad.tolist()
[0.0, 0.0, 1.0]

For gradients by vertices, move them, refit the tree, and pass them:

>>> vertices.requires_grad_()
tensor(...
>>> tree.refit(vertices.detach().numpy())
1.0
>>> bvh.torch.distance(tree, [1.0, 1.0, 2.0], vertices).backward()
>>> vertices.grad[:, 2].tolist()
[-0.5, -0.25, -0.25]
"""

from bvh.gradients.queries import HitTuple, PointTuple
from bvh.gradients.torch_functions import TorchQueries

__all__ = [
    "HitTuple", "PointTuple", "closest_hit", "closest_point", "distance", "signed_distance",
    "winding_number",
]  # fmt: skip

__dir__ = __all__.copy

_QUERIES = TorchQueries(__name__)

closest_hit = _QUERIES.function(
    _QUERIES.closest_hit,
    """
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> directions = torch.tensor([[0.0, 0.0, -2.0], [0.0, 0.0, 1.0]], requires_grad=True)
    >>> hits = bvh.torch.closest_hit(tree, [0.25, 0.25, 1.0], directions)
    >>> hits.t.tolist(), hits.mask.tolist()
    ([0.5, inf], [True, False])
    >>> hits.t[hits.mask].sum().backward()
    >>> directions.grad.tolist()
    [[0.0, 0.0, 0.25], [0.0, 0.0, 0.0]]
    """,
)

closest_point = _QUERIES.function(
    _QUERIES.closest_point,
    """
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> point = torch.tensor([0.25, -3.0, 4.0], requires_grad=True)
    >>> near = bvh.torch.closest_point(tree, point)
    >>> near.distance.item(), near.position.tolist()
    (5.0, [0.25, 0.0, 0.0])
    >>> near.distance.backward()
    >>> point.grad
    tensor([ 0.0000, -0.6000,  0.8000])
    """,
)

distance = _QUERIES.function(
    _QUERIES.distance,
    """
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> bvh.torch.distance(tree, torch.tensor([[0.25, 0.25, 2.0], [-3.0, 0.0, 4.0]]))
    tensor([2., 5.], dtype=torch.float64)
    """,
)

signed_distance = _QUERIES.function(
    _QUERIES.signed_distance,
    """
    >>> vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    >>> tree = bvh.BVH.from_triangles(vertices, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    >>> points = torch.tensor([[0.25, 0.25, 0.125], [0.25, 0.25, 0.0]], requires_grad=True)
    >>> distances = bvh.torch.signed_distance(tree, points)
    >>> distances.tolist()
    [-0.125, 0.0]
    >>> distances.sum().backward()
    >>> (points.grad + 0.0).tolist()
    [[0.0, 0.0, -1.0], [0.0, 0.0, -1.0]]
    """,
)

winding_number = _QUERIES.function(
    _QUERIES.winding_number,
    """
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> point = torch.tensor([0.25, 0.25, 0.5], requires_grad=True)
    >>> number = bvh.torch.winding_number(tree, point)
    >>> round(number.item(), 6)
    -0.099459
    >>> number.backward()
    >>> point.grad
    tensor([-0.0406, -0.0406,  0.2675])
    """,
)

# Doctest looks for functions that are declared here.
__test__ = _QUERIES.functions
