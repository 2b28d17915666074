"""Casters: functions that cast one ray at a time, what they take and what they return."""

import math
from typing import Protocol, TypeAlias, TypeVar

Found = TypeVar("Found", covariant=True)


class Caster(Protocol[Found]):
    """What `BVH.caster` and `Scene.caster` return."""

    def __call__(
        self, ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, t_min: float = 0.0,
        t_max: float = math.inf,
    ) -> Found:  # fmt: skip
        """Cast one ray at a tree; or at a scene, as it is at every call.

        Parameters
        ----------
        ox, oy, oz, dx, dy, dz : float
            Origin and direction.
        t_min, t_max : float
            Range of t, both ends included.

        Returns
        -------
        t, prim_id, u, v, front : float, int, float, float, bool
            As in `closest_hit`; (inf, -1, nan, nan, False) for a miss. Of a scene also the leaf,
            -1 for a miss.
        """


# A hit, and one of a scene, which ends with the leaf.
Hit: TypeAlias = tuple[float, int, float, float, bool]
SceneHit: TypeAlias = tuple[float, int, float, float, bool, int]
TreeCaster: TypeAlias = Caster[Hit]
SceneCaster: TypeAlias = Caster[SceneHit]

# The docstring of casters themselves.
CAST = Caster.__call__.__doc__
