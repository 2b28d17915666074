"""Results with gradients: hits of rays, and closest points."""

from typing import Any, Generic, NamedTuple, TypeVar

Array = TypeVar("Array", bound=Any)
Kind = TypeVar("Kind", bound=type)


def plain_tuple(kind: Kind) -> Kind:
    """Have `tuple` as the one base of a named tuple, which older versions of PyTorch ask of it."""
    # Others are no results of functions under `torch.func.vmap`.
    kind.__bases__ = (tuple,)
    return kind


@plain_tuple
class HitTuple(NamedTuple, Generic[Array]):
    """Closest hits of rays, as tensors or JAX arrays with the rays' leading shape.

    Attributes
    ----------
    t : float64
        Distance along the ray in units of its direction's length; +inf for a miss.
    prim_id : int32
        Face that is hit; -1 for a miss. Without a gradient.
    u, v : float64
        Weights of the face's second and third vertex; NaN for a miss.
    position : float64, shape (..., 3)
        The hit, (1-u-v) v0 + u v1 + v v2; NaN for a miss.
    front : bool
        The ray meets the face against its winding normal; False for a miss. Without a gradient.

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
        found: Array = self.prim_id >= 0
        return found


@plain_tuple
class PointTuple(NamedTuple, Generic[Array]):
    """Closest points of a tree, as tensors or JAX arrays with the points' leading shape.

    Attributes
    ----------
    distance : float64
        +inf for a miss.
    position : float64, shape (..., 3)
        The closest point; NaN for a miss.
    prim_id : int32
        The face that it lies in; -1 for a miss. Without a gradient.
    u, v : float64
        Weights of the face's second and third vertex, so that the position is
        (1-u-v) v0 + u v1 + v v2. NaN for a miss.

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
        found: Array = self.prim_id >= 0
        return found
