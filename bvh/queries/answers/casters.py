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
        """Cast one ray."""


# A hit, and one of a scene, which ends with the leaf.
Hit: TypeAlias = tuple[float, int, float, float, bool]
SceneHit: TypeAlias = tuple[float, int, float, float, bool, int]
TreeCaster: TypeAlias = Caster[Hit]
SceneCaster: TypeAlias = Caster[SceneHit]

# The docstrings of casters themselves.
CAST = """Cast one ray at a {}.

Parameters
----------
ox, oy, oz, dx, dy, dz : float
    Origin and direction.
t_min, t_max : float
    Range of t, both ends included.

Returns
-------
t, prim_id, u, v, front{} : float, int, float, float, bool{}
    As in `{}.closest_hit`; (inf, -1, nan, nan, False{}) for a miss.
"""
TREE_CAST = CAST.format("tree", "", "", "BVH", "")
SCENE_CAST = CAST.format("scene, as it is at every call", ", leaf", ", int", "Scene", ", -1")
