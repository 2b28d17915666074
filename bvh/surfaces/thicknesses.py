"""Thickness of a solid at points of its surface: along the normal, or by the ball that fits in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.caller_warnings import warn_caller
from bvh.surfaces.surface import Reals, Surface

# The most points of a closed mesh that are checked for normals that point inward.
CHECKED = 64

# Balls shrink until a step changes them by less than this share, for at most this many rounds.
SHRUNK, ROUNDS = 1e-9, 60


def along_normals(
    tree: Any, points: Reals, normals: Reals, threads: int
) -> tuple[Reals, NDArray[np.int32]]:
    """Return the distances from points to where rays inward leave the solid, and the faces there.

    The distance is inf, and the face -1, if a ray leaves it nowhere.
    """
    # The ray leaves through the back of a face; faces around the point show it their fronts.
    hits = tree.closest_hit(points, -normals, cull="front", threads=threads)
    return hits.t.copy(), hits.prim_id.copy()


def by_balls(
    tree: Any, points: Reals, normals: Reals, threads: int
) -> tuple[Reals, NDArray[np.int32]]:
    """Return the diameters of the largest balls that touch a surface at points, from inside.

    The second result are the faces that they touch on the other side, -1 for an infinite diameter.

    Shrinking balls: Ma, Bae, Choi 2012, "3D medial axis point approximation using nearest neighbors
    and the normal field".
    """
    far, face = along_normals(tree, points, normals, threads)
    radius, active = 0.5 * far, np.flatnonzero(np.isfinite(far))
    for _ in range(ROUNDS):
        if len(active) == 0:
            break
        p, n, r = points[active], normals[active], radius[active]
        near = tree.closest_point(p - n * r[:, None], threads=threads)
        chord = p - near.position
        # The ball through p and the point that is too near, with its centre on the normal.
        with np.errstate(divide="ignore", invalid="ignore"):
            smaller = (chord * chord).sum(axis=1) / (2.0 * (chord * n).sum(axis=1))
        shrinks = (near.distance < r * (1.0 - SHRUNK)) & (smaller < r) & (smaller > 0.0)
        active = active[shrinks]
        radius[active], face[active] = smaller[shrinks], near.prim_id[shrinks]
    return 2.0 * radius, face


def warn_if_inward(surface: Surface, points: Reals, normals: Reals, found: Reals) -> None:
    """Warn if normals of a closed mesh point inward; `found` are the thicknesses at the points.

    They do where a thickness is infinite, or where its middle is outside.
    """
    valid = np.flatnonzero((found > 0.0) & np.isfinite(normals).all(axis=1))
    valid = valid[np.unique(np.linspace(0, len(valid) - 1, CHECKED).astype(np.int64))[: len(valid)]]
    inward = 0
    for p, n, size in zip(points[valid], normals[valid], found[valid], strict=True):
        inward += bool(np.isinf(size)) or surface.is_inside(p - 0.5 * size * n) is False
    if inward:
        warn_caller(
            f"thickness is measured against the normals, but they point inward at {inward} of "
            f"{len(valid)} places of this closed mesh that were checked: wind its faces to point "
            "outward, as trimesh.repair.fix_normals does"
        )
