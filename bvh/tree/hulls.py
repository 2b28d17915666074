"""Discrete oriented polytope (26-DOP) around points, by its vertices.

It is cut by 26 planes, in the directions to the faces, edges and corners of a cube (Klosowski,
Held, Mitchell, Sowizral and Zikan 1998, "Efficient collision detection using bounding volume
hierarchies of k-DOPs"); it has at most 48 vertices, apart from some that nearly coincide.

Why the hull of the computed vertices contains all points: in coordinates scaled to the points' box,
each plane is moved outward by MARGIN times the sum of its direction's components, so the polytope P
of the planes grows by a cube of half size MARGIN at least. For each vertex of P, one is computed
that is off by less than 2**-43, for it may be merged with a neighbour at 2**-44. Moving vertices
by d reduces the support of their hull by at most d, so in every direction it stays above that of P.
Coordinates may have errors up to 2**-45.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, finite, vector
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry

# Normals of half of the planes; the other planes have the opposite normals.
AXES = np.array(
    [
        (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, -1, 0), (1, 0, 1), (1, 0, -1), (0, 1, 1),
        (0, 1, -1), (1, 1, 1), (1, 1, -1), (1, -1, 1), (-1, 1, 1),
    ],
    np.float64,
)  # fmt: skip
PLANES = np.vstack([AXES, -AXES])

# In scaled coordinates: the margin of planes (see above), how far vertices may be beyond a plane by
# rounding, and the number of cells in a unit: vertices in the same cell are merged.
MARGIN, TOLERANCE, GRID = 2.0**-40, 2.0**-46, 2.0**44


def _triples() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return all triples of PLANES that meet in a point, by indices (n, 3), and inverses (n, 3, 3).

    The inverse of the matrix of normals maps the planes' offsets to the point.
    """
    triples = np.array(list(itertools.combinations(range(len(PLANES)), 3)))
    matrices = PLANES[triples]
    # Determinants are integers.
    meets = np.abs(np.linalg.det(matrices)) > 0.5
    return triples[meets], np.linalg.inv(matrices[meets])


TRIPLES, INVERSES = _triples()


@entry
def mark_used(points, faces, used):
    """Set used[v] for the vertices v of faces with three finite vertices; return their number."""
    # `used` is False at first, and a vertex counts once, also if a face has it twice.
    count = 0
    for i in range(len(faces)):
        a, b, c = np.int64(faces[i, 0]), np.int64(faces[i, 1]), np.int64(faces[i, 2])
        if finite(vector(points, a)) and finite(vector(points, b)) and finite(vector(points, c)):
            count += (not used[a]) + (not used[b] and b != a) + (not used[c] and c != a and c != b)
            used[a] = used[b] = used[c] = True
    return count


@entry
def _find_extremes(points, used, centre, scale, extremes):
    """Write the largest dot product of the used points with each of PLANES to `extremes`, (26,).

    Points are taken relative to `centre`, times `scale`, three factors.
    """
    # The sums are the dot products with AXES; the other 13 planes have the opposite normals.
    extremes[:] = -INF
    for i in range(len(points)):
        if used[i]:
            x, y, z = vector(points, i)
            x, y, z = x - centre[0], y - centre[1], z - centre[2]
            x, y, z = x * scale[0], y * scale[1], z * scale[2]
            sums = (
                x, y, z, x + y, x - y, x + z, x - z, y + z, y - z, (x + y) + z, (x + y) - z,
                (x - y) + z, (y - x) + z,
            )  # fmt: skip
            for k in range(13):
                extremes[k] = max(extremes[k], sums[k])
                extremes[13 + k] = max(extremes[13 + k], -sums[k])


def polytope(
    points: NDArray[np.float64], used: NDArray[np.bool_], bounds: NDArray[np.float64],
    max_count: int,
) -> NDArray[np.float64] | None:  # fmt: skip
    """Return the vertices (k, 3) of a polytope, cut by PLANES, around the points that are `used`.

    At least one point is used, and all used points are finite and within `bounds`, lower and upper
    corner (2, 3). Vertices have errors up to 2**-52 of the largest coordinate. None is returned for
    more than `max_count` vertices, or if one overflows.
    """
    centre = 0.5 * bounds[0] + 0.5 * bounds[1]
    half = 0.5 * bounds[1] - 0.5 * bounds[0]
    # Powers of two, so that scaling is exact; their inverses must not overflow.
    power = np.maximum(np.frexp(half)[1], -900)
    scale = np.where(half > 0.0, np.ldexp(1.0, -power), 1.0)
    extremes = np.empty(len(PLANES))
    _find_extremes(*map(kernel_input, (points, used, centre, scale)), extremes)
    # Moved outward, so that the hull of the rounded vertices contains all points.
    offsets = extremes + MARGIN * np.abs(PLANES).sum(axis=1)
    # The points in which three planes meet; vertices are those beyond no other plane.
    found = np.einsum("nij,nj->ni", INVERSES, offsets[TRIPLES])
    # Compared row by row: numpy broadcasts large arrays through buffers, and if there is no memory
    # for these, it raises without holding the interpreter's lock.
    limits = np.repeat((offsets + TOLERANCE)[None], len(found), axis=0)
    found = found[(found @ PLANES.T <= limits).all(axis=1)]
    # Vertices that nearly coincide are merged.
    first = np.unique(np.rint(found * GRID), axis=0, return_index=True)[1]
    if not 0 < len(first) <= max_count:
        return None
    vertices = found[first] / scale + centre
    return vertices if bool(np.isfinite(vertices).all()) else None
