"""The boundary of an oriented surface, as closed loops, whose angles give winding numbers.

The boundary is the sum of the directed edges of all faces, in which an edge and its reverse cancel.
Edges are identified by the positions of their ends, as in `open_edges`. It has as many edges to a
vertex as from it, so it is a sum of loops. A closed mesh has none if at each edge as many faces
run through it in one direction as in the other, two faces or more.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import kernel_input
from bvh.tree.frame import local_frame
from bvh.tree.open_edges import CHUNK, FACTORS, HALF, finite_faces, hashes, welded
from bvh.tree.primitives import Triangles


class Loops(NamedTuple):
    """Loops of directed edges; pointers inside kernels."""

    # The vertices of each loop, in order, (n, 3); its first one is repeated at its end.
    points: NDArray[np.float64]
    # (n,): whether a vertex is the first one of a loop: it ends no edge.
    begins: NDArray[np.uint8]
    # (4,): centre of the points, and a power of two that scales their box to a half size up to 1.
    frame: NDArray[np.float64]
    box: NDArray[np.float64]  # the lower and the upper corner of the points, (6,)
    around: NDArray[np.float64]  # the lower and the upper corner of the whole surface, (6,)
    size: int  # the number of points


def boundary_of(triangles: Triangles) -> Loops:
    """Return the boundary of the finite faces of a mesh, as closed loops."""
    faces = finite_faces(triangles)
    if _has_no_boundary(triangles.points, faces):
        return loops_of(np.empty((0, 2, 3)), np.zeros((2, 3)))
    points, ids = welded(triangles.points)
    starts = ids[faces]
    used = points[np.bincount(starts.ravel(), minlength=len(points)) > 0]
    around = np.stack([used.min(axis=0), used.max(axis=0)])
    ends = np.stack([starts, np.roll(starts, -1, axis=1)], axis=2).reshape(-1, 2)
    return loops_of(points[_uncancelled(ends)], around)


def free_edges(triangles: Triangles) -> NDArray[np.int64]:
    """Return the directed edges of the boundary of finite faces, by vertex indices (n, 2)."""
    # Unlike in `boundary_of`, vertices at one position are not taken for the same vertex.
    faces = finite_faces(triangles)
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)
    return _uncancelled(ends.astype(np.int64))


def loops_of(edges: NDArray[np.float64], around: NDArray[np.float64]) -> Loops:
    """Return the directed edges (n, 2, 3) of a boundary as loops, without edges that cancel.

    `around` are the corners (2, 3) of the box around the whole surface.
    """
    points, ids = welded(edges.reshape(-1, 3))
    ends = _uncancelled(ids.reshape(-1, 2))
    n = len(ends)
    # Each edge is followed by one that begins where it ends. As a boundary has as many edges to a
    # vertex as from it, the sorted ends of edges and their sorted beginnings are the same list.
    following = np.empty(n, np.int64)
    following[ends[:, 1].argsort(kind="stable")] = ends[:, 0].argsort(kind="stable")
    # `order` gets the vertices of all loops, each with its first one again at the end, and `begins`
    # whether each vertex begins a loop.
    links, seen = following.tolist(), bytearray(n)
    order, begins = list[int](), list[bool]()
    starts = ends[:, 0].tolist()
    for first in range(n):
        if seen[first]:
            continue
        edge, begin = first, True
        while not seen[edge]:
            seen[edge] = 1
            order.append(starts[edge])
            begins.append(begin)
            edge, begin = links[edge], False
        order.append(starts[first])
        begins.append(False)
    rows = points[np.array(order, np.int64)].reshape(-1, 3)
    frame, box = np.array([0.0, 0.0, 0.0, 1.0]), np.zeros((2, 3))
    if n:
        local, box = local_frame(rows, rows)
        frame[:3], frame[3] = local[0], np.ldexp(1.0, int(local[1, 0]))
    flags = kernel_input(np.array(begins, np.uint8))
    frame, box, around = (kernel_input(np.ravel(part)) for part in (frame, box, around))
    return Loops(kernel_input(rows), flags, frame, box, around, len(rows))


def edges_of(loops: Loops) -> NDArray[np.float64]:
    """Return the directed edges of loops, (n, 2, 3)."""
    # An edge ends at each point that does not begin a loop.
    later = np.flatnonzero(loops.begins == 0)
    return np.stack([loops.points[later - 1], loops.points[later]], axis=1)


def _has_no_boundary(points: NDArray[np.float64], faces: NDArray[np.int32]) -> bool:
    """Return whether all directed edges cancel; wrongly True with a probability of some 2**-60."""
    # Each vertex has two random numbers: a and x, b and y, c and z. Edge (a, b) adds a y - b x,
    # which its reverse cancels; the sum over edges that do not cancel is 0 only by chance.
    ids, total = hashes(points), np.zeros(1, np.uint64)
    others = (ids ^ (ids >> HALF)) * FACTORS[1]
    others ^= others >> HALF
    for begin in range(0, len(faces), CHUNK):
        some = faces[begin : begin + CHUNK]
        a, b, c = np.ascontiguousarray(ids.take(some).T)
        x, y, z = np.ascontiguousarray(others.take(some).T)
        for edges in (a * y - b * x, b * z - c * y, c * x - a * z):
            total += edges.sum(dtype=np.uint64)
    return not total.any()


def _uncancelled(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the directed edges (m, 2) that remain where an edge and its reverse cancel.

    `ends` (n, 2) are vertex ids; an edge from a vertex to itself is dropped.
    """
    begin, end = ends[ends[:, 0] != ends[:, 1]].T
    # Edges of the same ends have one key; those from the lower to the higher id count 1, reverse
    # ones -1. The sum for each key is the number of edges that remain; its sign is their direction.
    # The lowest bit of sorted numbers is the direction, as sorting takes less time than `argsort`.
    keys = (np.minimum(begin, end) << 32 | np.maximum(begin, end)).astype(np.uint64)
    numbers = np.sort(keys << np.uint64(1) | (begin > end))
    keys = (numbers >> np.uint64(1)).astype(np.int64)
    signs = np.where(numbers & np.uint64(1), -1, 1)
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    sums = np.add.reduceat(signs, first) if len(first) else np.zeros(0, np.int64)
    keys, sums = np.repeat(keys[first], np.abs(sums)), np.repeat(sums, np.abs(sums))
    both = np.stack([keys >> 32, keys & (2**32 - 1)], axis=1)
    both[sums < 0] = both[sums < 0][:, ::-1]
    return both
