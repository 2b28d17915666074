"""Ray and point queries with gradients, for PyTorch.

The values are those of `BVH.closest_hit`, `BVH.closest_point` and `BVH.signed_distance`, bit for
bit. They are differentiable with respect to rays or points, and to the vertices of the tree, any
number of times, backward and forward, and under `torch.func`: `grad`, `jacrev`, `jacfwd`,
`hessian`, `vmap`.

The face that was found is held fixed. This gives the derivative of the distance to the surface
wherever there is one; where the nearest face changes, as at a silhouette, it is that of one side.
Gradients are 0 for misses, and where there is no derivative: faces without area, and rays that
graze a face, so that float64 does not tell the sign of the product of direction and normal; and
points nearer to a face than its coordinates are rounded, so that it does not tell their side. They
are also 0 where they are beyond the range of float64, as those of u by the vertices of a face of
size 1e-310 are. So they are never NaN nor infinite, those of gradients neither, whatever the
gradients of results are: where these are NaN or infinite, they count as 0. They are computed in
float64, and are less accurate the thinner a face is.

Tensors of any real type, device and shape (..., 3) are taken, as are arrays and sequences.
Everything is computed in float64, on the CPU: results are float64, on the device of the first
tensor given, and gradients are of the types and on the devices of what was given.

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

from __future__ import annotations

import math
from typing import Any

from bvh.gradients.results import HitTuple, PointTuple
from bvh.gradients.torch_functions import hits, nearest
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
    origins, directions : tensor, shape (..., 3)
        Rays o + t d, broadcast against each other. Directions need not be normalised.
    vertices : tensor, shape (n, 3), optional
        The vertices that the tree was built from or last refitted to, to have gradients by them.
        Without them, the tree is a constant.
    t_min, t_max : float or tensor, shape (...)
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

    Notes
    -----
    With the normal n of the face, not normalised, dt/do = -n / (n . d), dt/dd = t dt/do, and by
    its vertices dt/dv_i = w_i n / (n . d), with the weights w = (1-u-v, u, v).

    Examples
    --------
    >>> import torch
    >>> import bvh.torch
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> directions = torch.tensor([[0.0, 0.0, -2.0], [0.0, 0.0, 1.0]], requires_grad=True)
    >>> hits = bvh.torch.closest_hit(tree, [0.25, 0.25, 1.0], directions)
    >>> hits.t.tolist(), hits.mask.tolist()
    ([0.5, inf], [True, False])
    >>> hits.t[hits.mask].sum().backward()
    >>> directions.grad.tolist()
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
    points : tensor, shape (..., 3)
    vertices : tensor, shape (n, 3), optional
        As in `closest_hit`.
    max_distance : float or tensor, shape (...)
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
    >>> import torch
    >>> import bvh.torch
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> point = torch.tensor([0.25, -3.0, 4.0], requires_grad=True)
    >>> near = bvh.torch.closest_point(tree, point)
    >>> near.distance.item(), near.position.tolist()
    (5.0, [0.25, 0.0, 0.0])
    >>> near.distance.backward()
    >>> point.grad
    tensor([ 0.0000, -0.6000,  0.8000])
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
    tensor of float64, shape (...)
        As in `closest_point`.

    Examples
    --------
    >>> import torch
    >>> import bvh.torch
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> bvh.torch.distance(tree, torch.tensor([[0.25, 0.25, 2.0], [-3.0, 0.0, 4.0]]))
    tensor([2., 5.], dtype=torch.float64)
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
    tensor of float64, shape (...)
        As in `BVH.signed_distance`. The sign is held fixed. On the surface, where the value is 0,
        the gradient is the normal of the face, (v1-v0) x (v2-v0) normalised: this is the derivative
        if normals point outward, and on an edge or a vertex the derivative of one side.

    Examples
    --------
    >>> import torch
    >>> import bvh.torch
    >>> vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    >>> tree = bvh.BVH.from_triangles(vertices, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    >>> points = torch.tensor([[0.25, 0.25, 0.125], [0.25, 0.25, 0.0]], requires_grad=True)
    >>> distances = bvh.torch.signed_distance(tree, points)
    >>> distances.tolist()
    [-0.125, 0.0]
    >>> distances.sum().backward()
    >>> (points.grad + 0.0).tolist()
    [[0.0, 0.0, -1.0], [0.0, 0.0, -1.0]]
    """
    options = {"method": method, "mask": mask, "threads": threads}
    return nearest("signed_distance", tree, points, vertices, math.inf, options).distance
