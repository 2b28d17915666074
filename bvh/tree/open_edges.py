"""Open edges of a mesh: whether its faces bound a volume, so that the parity of crossings counts.

They do if every edge belongs to an even number of faces. Edges are identified by the positions of
their ends, because files such as STL repeat vertices in each face. Each gets a hash, and the hashes
of all edges of all faces are combined by exclusive or: pairs cancel, and the rest is 0 for an open
mesh with a probability of some 2**-60. That takes one pass, and no sorting.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.tree.primitives import THIN, Triangles, kind_of_faces

# Faces, or vertices, at a time: what is computed of them stays in the caches.
CHUNK = 1 << 13

# Odd numbers without a pattern.
FACTORS = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64
)
HALF = np.uint64(32)


def is_closed(triangles: Triangles) -> bool:
    """Return whether every edge of the finite faces is shared by an even number of them."""
    # Points and segments bound no volume. The answer is wrongly True with a probability of 2**-60.
    points, faces = triangles.points, finite_faces(triangles)
    if kind_of_faces(faces) in THIN:
        return False
    ids = hashes(points)
    rest = np.uint64(0)
    for begin in range(0, len(faces), CHUNK):
        a, b, c = np.ascontiguousarray(ids.take(faces[begin : begin + CHUNK]).T)
        # The hash of an edge is the square of the exclusive or of its ends' hashes: without squares
        # the three edges of each face would cancel. That of an edge from a vertex to itself is 0.
        for edges in (a ^ b, b ^ c, c ^ a):
            edges *= edges
            rest ^= np.bitwise_xor.reduce(edges)
    return not rest


def open_edges(triangles: Triangles) -> NDArray[np.int32]:
    """Return the edges that an odd number of finite faces share, by vertex indices (n, 2).

    Edges between the same positions are one edge, which is returned by the vertex indices of the
    first of its faces.
    """
    faces, (_, ids) = finite_faces(triangles), welded(triangles.points)
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)
    begin, end = ids[ends].T
    keys = np.minimum(begin, end) << 32 | np.maximum(begin, end)
    distinct, counts = np.unique(keys, return_counts=True)
    # Edges from a vertex to itself are left out.
    distinct = distinct[(counts & 1 == 1) & (distinct >> 32 != distinct & 0xFFFFFFFF)]
    if len(distinct) == 0:
        return np.empty((0, 2), np.int32)
    # The first edge with each of these keys.
    places = np.searchsorted(distinct[:-1], keys)
    rows = np.flatnonzero(distinct[places] == keys)
    first = rows[np.unique(keys[rows], return_index=True)[1]]
    return np.asarray(ends[np.sort(first)], np.int32)


def is_oriented(triangles: Triangles) -> bool:
    """Return whether each edge is run through equally often in both directions by its finite faces.

    For an odd number of faces, as at open edges, the two numbers may differ by one.
    """
    ids = hashes(triangles.points)[finite_faces(triangles)]
    start, end = ids.ravel(), np.roll(ids, -1, axis=1).ravel()
    # A hash of each edge without its direction. It is 0 for an edge from a vertex to itself; these
    # are the first in sorted order, and are left out.
    edges, signs = start ^ end, np.where(start < end, 1, -1)
    order = np.argsort(edges)[np.count_nonzero(edges == 0) :]
    edges, signs = edges[order], signs[order]
    first = np.flatnonzero(np.append(True, edges[1:] != edges[:-1])[: len(edges)])
    if len(first) == 0:
        return True
    counts = np.diff(first, append=len(edges))
    return bool((np.abs(np.add.reduceat(signs, first)) <= counts % 2).all())


def finite_faces(triangles: Triangles) -> NDArray[np.int32]:
    """Return the faces whose vertices are finite."""
    points, faces = triangles
    if np.isfinite(points).all():
        return faces
    finite = np.asarray(np.isfinite(points).all(axis=1))
    return np.asarray(faces[finite[faces].all(axis=1)])


def welded(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct points (k, 3), and for each point the index (n,) of the equal one.

    Points that are not finite may be taken for others.
    """
    _, first, ids = np.unique(hashes(points), return_index=True, return_inverse=True)
    ids = ids.reshape(-1)
    same: NDArray[np.float64] = points[first]
    finite = np.isfinite(points).all(axis=1)
    if not (same[ids] == points)[finite].all():
        # Different points have the same hash: compare points, with -0.0 as 0.0.
        same, ids = np.unique(points + 0.0, axis=0, return_inverse=True)
    return same, ids.reshape(-1)


def hashes(points: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return a hash (n,) for each of points (n, 3), equal for equal points."""
    found = np.empty(len(points), np.uint64)
    for begin in range(0, len(points), CHUNK):
        some = found[begin : begin + CHUNK]
        some[:] = 0
        for axis in range(3):
            # Zeros of both signs are equal.
            bits = (points[begin : begin + CHUNK, axis] + 0.0).view(np.uint64)
            # Round numbers differ in the upper bits alone: mix them into the lower ones.
            bits ^= bits >> HALF
            bits *= FACTORS[axis]
            some += bits
        some ^= some >> HALF
        some *= FACTORS[3]
        some ^= some >> HALF
    return found
