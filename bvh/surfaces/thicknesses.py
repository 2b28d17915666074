"""Thickness of a solid at points of its surface: along the normal, or by the ball that fits in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import number_of
from bvh.runtime.caller_warnings import warn_caller
from bvh.surfaces.surface import Reals, Surface

Ids = NDArray[np.int32]

# Balls shrink until a step changes them by less than this share, for at most this many rounds.
SHRUNK, ROUNDS = 1e-9, 60

# Hits nearer than this share of the coordinates may be at the point itself, which is rounded.
ROUNDING = 2.0**-44


def along_normals(
    tree: Any, points: Reals, normals: Reals, own: Ids, threads: int
) -> tuple[Reals, Ids, Reals]:
    """Return (distances, faces, outward) of rays from points into a solid to where they leave it.

    The points (n, 3) are in faces `own` (n,), with unit `normals`. `faces` are those where rays
    leave, `outward` the normals that point out of the solid. The inside of a closed mesh is where
    rays cross it an odd number of times: a ray goes against the normal if the solid is on that
    side, else along it; the distance is NaN, the face -1, if it is on neither. Rays in open meshes
    go against the normals until they meet the back of a face; if they do not, the distance is inf,
    the face -1, and a `BVHWarning` is given.
    """
    if not tree.is_closed:
        hits = tree.closest_hit(points, -normals, cull="front", threads=threads)
        lost = np.count_nonzero(hits.prim_id < 0)
        if lost:
            rays = number_of(lost, "rays")
            warn_caller(f"{tree!r} has open edges: thickness is inf at {rays} that leave it there")
        return hits.t.copy(), hits.prim_id.copy(), normals
    found, face = np.full(len(points), np.nan), np.full(len(points), -1, np.int32)
    outward, corners = normals.copy(), tree.vertices[tree.faces]
    noise = ROUNDING * np.abs(tree.bounds).max(initial=0.0)
    for turn in (-1.0, 1.0):
        rest = np.flatnonzero(np.isnan(found))
        hits = tree.all_hits(points[rest], turn * normals[rest], edges="once", threads=threads)
        ray, t, met = hits.ray_id, hits.t, hits.prim_id
        # Leave out hits at the point itself: near ones, on faces with a corner of the point's face.
        near = np.flatnonzero(t <= noise)
        first, second = corners[own[rest[ray[near]]]], corners[met[near]]
        shared = (first[:, :, None] == second[:, None]).all(axis=3).any(axis=(1, 2))
        kept = np.ones(len(t), np.bool_)
        kept[near[shared]] = False
        ray, t, met = ray[kept], t[kept], met[kept]
        # A ray with an odd number of hits starts inside, and is outside after a hit that an even
        # number of hits `follow`. Hits are sorted by ray and t: of several hits of a ray at one t,
        # it can leave only at the `last`, after all of them.
        follow = np.searchsorted(ray, ray, "right") - np.arange(len(ray)) - 1
        last = np.ones(len(ray), np.bool_)
        last[:-1] = (ray[1:] != ray[:-1]) | (t[1:] != t[:-1])
        inside = np.bincount(ray, minlength=len(rest)) % 2 == 1
        ends = np.flatnonzero(last & (follow % 2 == 0) & inside[ray])
        leaving, k = np.unique(ray[ends], return_index=True)
        found[rest[leaving]], face[rest[leaving]] = t[ends[k]], met[ends[k]]
        outward[rest[leaving]] *= -turn
    return found, face, outward


def by_balls(
    tree: Any, points: Reals, normals: Reals, own: Ids, threads: int
) -> tuple[Reals, Ids, Reals]:
    """Return (diameters, faces, outward) of the largest balls that touch a surface from inside.

    They touch it at the points (n, 3) and, on the other side, at `faces`, -1 where the diameter is
    not finite. `outward` (n, 3), and the arguments, are as in `along_normals`.

    Shrinking balls: Ma, Bae, Choi 2012, "3D medial axis point approximation using nearest neighbors
    and the normal field".
    """
    far, face, outward = along_normals(tree, points, normals, own, threads)
    radius, active, ids = 0.5 * far, np.flatnonzero(np.isfinite(far)), np.arange(len(tree))
    if tree.is_closed and (cancelled := Surface.of(tree).cancelled).any():
        # Walls that two parts share are no surface.
        ids = np.flatnonzero(~cancelled)
        tree = type(tree).from_triangles(tree.vertices, tree.faces[ids], warn=False)
    for _ in range(ROUNDS):
        if len(active) == 0:
            break
        p, n, r = points[active], outward[active], radius[active]
        near = tree.closest_point(p - n * r[:, None], threads=threads)
        chord = p - near.position
        # The ball through p and the point that is too near, with its centre on the normal.
        with np.errstate(divide="ignore", invalid="ignore"):
            smaller = (chord * chord).sum(axis=1) / (2.0 * (chord * n).sum(axis=1))
        shrinks = (near.distance < r * (1.0 - SHRUNK)) & (smaller < r) & (smaller > 0.0)
        active = active[shrinks]
        radius[active], face[active] = smaller[shrinks], ids[near.prim_id[shrinks]]
    return 2.0 * radius, face, outward
