"""Casters: functions that cast one ray at a time, what they take and what they return."""

from __future__ import annotations

import math
from typing import Protocol


class TreeCaster(Protocol):
    """What `BVH.caster` returns."""

    def __call__(
        self, ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, t_min: float = 0.0,
        t_max: float = math.inf,
    ) -> tuple[float, int, float, float, bool]:  # fmt: skip
        """Cast one ray at a tree.

        Parameters
        ----------
        ox, oy, oz, dx, dy, dz : float
            Origin and direction.
        t_min, t_max : float
            Range of t, both ends included.

        Returns
        -------
        t, prim_id, u, v, front : float, int, float, float, bool
            As in `BVH.closest_hit`; (inf, -1, nan, nan, False) for a miss.
        """


class SceneCaster(Protocol):
    """What `Scene.caster` returns."""

    def __call__(
        self, ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, t_min: float = 0.0,
        t_max: float = math.inf,
    ) -> tuple[float, int, float, float, bool, int]:  # fmt: skip
        """Cast one ray at a scene, as it is at every call.

        Parameters
        ----------
        ox, oy, oz, dx, dy, dz : float
            Origin and direction.
        t_min, t_max : float
            Range of t, both ends included.

        Returns
        -------
        t, prim_id, u, v, front, leaf : float, int, float, float, bool, int
            As in `Scene.closest_hit`; (inf, -1, nan, nan, False, -1) for a miss.
        """


# The docstrings of casters themselves.
TREE_CAST, SCENE_CAST = TreeCaster.__call__.__doc__, SceneCaster.__call__.__doc__
