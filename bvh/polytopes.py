"""A polytope of few vertices around many points: what bounds them wherever they are moved.

It is cut by 26 planes, in the directions to the faces, edges and corners of a cube (Klosowski,
Held, Mitchell, Sowizral and Zikan 1998, "Efficient collision detection using bounding volume
hierarchies of k-DOPs"); 48 vertices are the most it has, but for some that all but coincide.

Why the vertices found hold all points. In coordinates scaled to the points' box, each plane is
moved outward by ROOM times the sum of its direction's components: so the polytope P of the planes
grows by a cube of half size ROOM at least. Of each of its vertices, one is found that is wrong by
less than 2**-43, for it may be taken for a neighbour at 2**-44. Moving vertices by d lessens the
support of their hull by d at most, so in every direction it stays above that of P. Coordinates
may be wrong by 2**-45 for that to hold.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import kernel_input
from bvh.jit import entry, inlined
from bvh.numerics import INF, finite, vector

# Half of the planes: the others are opposite.
AXES = np.array(
    [
        (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, -1, 0), (1, 0, 1), (1, 0, -1), (0, 1, 1),
        (0, 1, -1), (1, 1, 1), (1, 1, -1), (1, -1, 1), (-1, 1, 1),
    ],
    np.float64,
)  # fmt: skip
PLANES = np.vstack([AXES, -AXES])

ROOM, TOLERANCE, GRID = 2.0**-40, 2.0**-46, 2.0**44


def _corners() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return three planes for each way in which they can meet in a point, and their inverses."""
    triples = np.array(list(itertools.combinations(range(len(PLANES)), 3)))
    matrices = PLANES[triples]
    sound = np.abs(np.linalg.det(matrices)) > 0.5
    return triples[sound], np.linalg.inv(matrices[sound])


TRIPLES, INVERSES = _corners()


@inlined
def _reach_out(x, y, z, extremes):
    """Let the extremes along all axes reach a point."""
    sums = (
        x, y, z, x + y, x - y, x + z, x - z, y + z, y - z, (x + y) + z, (x + y) - z,
        (x - y) + z, (y - x) + z,
    )  # fmt: skip
    for k in range(13):
        extremes[k] = max(extremes[k], sums[k])
        extremes[13 + k] = max(extremes[13 + k], -sums[k])


@entry
def mark_used(points, faces, used):
    """Mark the vertices of all faces that are finite; return how many there are."""
    count = 0
    for i in range(len(faces)):
        a, b, c = np.int64(faces[i, 0]), np.int64(faces[i, 1]), np.int64(faces[i, 2])
        if finite(vector(points, a)) and finite(vector(points, b)) and finite(vector(points, c)):
            count += (not used[a]) + (not used[b] and b != a) + (not used[c] and c != a and c != b)
            used[a] = used[b] = used[c] = True
    return count


@entry
def _find_extremes(points, used, centre, scale, extremes):
    """Find how far the used points reach in the directions of all planes."""
    extremes[:] = -INF
    for i in range(len(points)):
        if used[i]:
            _reach_out(
                (points[i, 0] - centre[0]) * scale[0],
                (points[i, 1] - centre[1]) * scale[1],
                (points[i, 2] - centre[2]) * scale[2],
                extremes,
            )


def polytope(
    points: NDArray[np.float64], used: NDArray[np.bool_], bounds: NDArray[np.float64], most: int
) -> NDArray[np.float64] | None:
    """Return at most so many vertices of a polytope around points, shape (k, 3).

    Parameters
    ----------
    points : ndarray of float64, shape (n, 3)
    used : ndarray of bool, shape (n,)
        Which of them count. There is one, and those are finite.
    bounds : ndarray of float64, shape (2, 3)
        Their box.
    most : int

    Returns
    -------
    ndarray of float64, shape (k, 3), or None
        Wrong by 2**-52 of the largest coordinate; None where there would be more of them.
    """
    centre = 0.5 * bounds[0] + 0.5 * bounds[1]
    half = 0.5 * bounds[1] - 0.5 * bounds[0]
    # Powers of two, so that scaling is exact; their inverses must not overflow.
    power = np.maximum(np.frexp(half)[1], -900)
    scale = np.where(half > 0.0, np.ldexp(1.0, -power), 1.0)
    extremes = np.empty(len(PLANES))
    _find_extremes(
        kernel_input(points),
        kernel_input(used),
        kernel_input(centre),
        kernel_input(scale),
        extremes,
    )
    reach = extremes + ROOM * np.abs(PLANES).sum(axis=1)
    found = np.einsum("nij,nj->ni", INVERSES, reach[TRIPLES])
    # Compared row by row: numpy broadcasts large arrays through buffers, and where it has no memory
    # for these, it raises without holding the interpreter's lock.
    limits = np.repeat((reach + TOLERANCE)[None], len(found), axis=0)
    found = found[(found @ PLANES.T <= limits).all(axis=1)]
    first = np.unique(np.rint(found * GRID), axis=0, return_index=True)[1]
    if not 0 < len(first) <= most:
        return None
    vertices = found[first] / scale + centre
    return vertices if bool(np.isfinite(vertices).all()) else None
