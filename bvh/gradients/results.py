"""Results with gradients: hits of rays, and closest points."""

from __future__ import annotations

from typing import Any, NamedTuple


class HitTuple(NamedTuple):
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
    """

    t: Any
    prim_id: Any
    u: Any
    v: Any
    position: Any
    front: Any

    @property
    def mask(self) -> Any:
        """True where there is a hit."""
        return self.prim_id >= 0


class PointTuple(NamedTuple):
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
    """

    distance: Any
    position: Any
    prim_id: Any
    u: Any
    v: Any

    @property
    def mask(self) -> Any:
        """True where there is a closest point."""
        return self.prim_id >= 0
