"""Sections of a mesh by a plane; segments as polylines; the parts of faces in a box.

Vertices in the plane count as above it, wherever they are (Edelsbrunner and Mücke 1990, "Simulation
of simplicity"): so every section of a closed mesh consists of closed polylines. Of faces that are
wound alike, as seen from outside, segments run with the inside on their left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.rational import dot, exact_point, scaled
from bvh.surfaces.curves import NO_POLYGONS, Curves
from bvh.surfaces.numbering import row_ranks
from bvh.surfaces.surface import Whole

Ids = NDArray[np.int32]
Reals = NDArray[np.float64]

# Bound of the rounding error of n . p + offset, as a share of the sum of its absolute terms: each
# of these is rounded at most four times, by 2**-53; this is twice that.
HEIGHT_ERROR = 8.0 * 2.0**-53


def plane_heights(plane: Reals, points: Reals) -> tuple[Reals, NDArray[np.bool_]]:
    """Return (heights, up): heights (n,) of points over a plane, and whether each is >= 0.

    The plane is (nx, ny, nz, offset). The signs of heights, n . p + offset, are exact; heights of
    points that are not finite are NaN. If some could overflow, all are divided by one power of two.
    """
    finite = np.isfinite(points).all(axis=1)
    extent = np.abs(points[finite]).max(initial=0.0)
    exponents = np.frexp([np.abs(plane[:3]).max(), extent, plane[3]])[1]
    shift = max(int(max(exponents[0] + exponents[1], exponents[2])) - 1000, 0)
    with np.errstate(all="ignore"):
        terms = points * plane[:3]
        heights = np.where(finite, terms.sum(axis=1) + plane[3], np.nan)
        sizes = np.abs(terms).sum(axis=1) + abs(plane[3])
        unsure = finite & ((np.abs(heights) <= sizes * HEIGHT_ERROR + 2.0**-1000) | (shift > 0))
    (row,), scale = scaled([plane.tolist()])
    for k in np.flatnonzero(unsure).tolist():
        point = exact_point(points[k].tolist())
        exact = dot(row, point)
        # A quotient that underflows to 0 must keep its sign.
        height = exact / (scale * point[3] << shift)
        heights[k] = height or ((exact > 0) - (exact < 0)) * 2.0**-1000
    return heights, heights >= 0.0


def sections_of(vertices: Reals, faces: Ids, planes: Reals) -> Iterator[Curves]:
    """Yield the section of a mesh by each plane (n, 4); runs of planes of one normal are faster."""
    normal: Reals | None = None
    for plane in planes:
        if len(planes) == 1:
            yield section_of(vertices, faces, plane)
            return
        if normal is None or (plane[:3] != normal).any():
            # Bounds of n . p on each face.
            normal = plane[:3]
            with np.errstate(all="ignore"):
                terms = vertices * normal
                sizes = np.abs(terms).sum(axis=1) * HEIGHT_ERROR + 2.0**-1000
                low = (terms.sum(axis=1) - sizes)[faces].min(axis=1)
                high = (terms.sum(axis=1) + sizes)[faces].max(axis=1)
        # Faces that may meet the plane; "not >", so that NaN bounds keep a face.
        slack = abs(plane[3]) * HEIGHT_ERROR
        near = np.flatnonzero(~((low > slack - plane[3]) | (high < -slack - plane[3])))
        used, rows = np.unique(faces[near], return_inverse=True)
        found = section_of(vertices[used], rows.reshape(-1, 3).astype(np.int32), plane)
        edges = found.edges.copy()
        edges[:, :, 1:] = used[found.edges[:, :, 1:]]
        faces_cut = near[found.faces].astype(np.int32)
        yield found._replace(faces=faces_cut, edges=edges)


def section_of(vertices: Reals, faces: Ids, plane: Reals) -> Curves:
    """Return the section of a mesh by a plane (nx, ny, nz, offset).

    It has a segment for each face that the plane cuts, `faces` of shape (n, 1), and no polygons.
    """
    all_heights, up = plane_heights(plane, vertices)
    sides = up[faces].sum(axis=1)
    cut = np.flatnonzero((sides > 0) & (sides < 3) & ~np.isnan(all_heights[faces]).any(axis=1))
    # Adding 0.0 turns -0.0 into 0.0.
    corners, heights, above = vertices[faces[cut]] + 0.0, all_heights[faces[cut]], up[faces[cut]]
    point_ids = row_ranks(corners.reshape(-1, 3)).reshape(-1, 3)
    face, k = (above != np.roll(above, -1, axis=1)).nonzero()
    # Each face has two cut edges: order them from the one that leads down to the one that leads up.
    order = np.lexsort([~above[face, k], face])
    face, k = face[order], k[order]
    j = (k + 1) % 3
    # Edges k to j start below the plane, so that both faces of an edge have the same point.
    descends = above[face, k]
    k, j = np.where(descends, j, k), np.where(descends, k, j)
    low, high = heights[face, k], heights[face, j]
    p, q = corners[face, k], corners[face, j]
    share = (low / (low - high))[:, None]
    # The difference of halves does not overflow, however large the corners are.
    points = p + 2.0 * share * (0.5 * q - 0.5 * p)
    # A vertex in the plane is itself the point.
    points = np.where((high == 0.0)[:, None], q, points)
    points = np.clip(points, np.minimum(p, q), np.maximum(p, q))
    rows = np.sort(np.stack([point_ids[face, k], point_ids[face, j]], axis=1), axis=1)
    ends = row_ranks(rows)
    ids = faces[cut[face]]
    each = np.arange(len(face))
    edges = np.sort(np.stack([ids[each, k], ids[each, j]], axis=1), axis=1)
    edges[high == 0.0] = ids[each, j][high == 0.0, None]
    edges = np.column_stack([np.zeros(len(face), np.int32), edges])
    ends = ends.reshape(-1, 2)
    # Leave out segments of faces with two equal corners: both cut edges are the same.
    kept = ends[:, 0] != ends[:, 1]
    return Curves(
        points.reshape(-1, 2, 3)[kept], cut[kept].astype(np.int32).reshape(-1, 1),
        edges.reshape(-1, 2, 3)[kept], ends[kept], NO_POLYGONS, np.empty((0, 1), np.int32),
    )  # fmt: skip


def clipped_to_box(faces: Reals, low: Reals, high: Reals) -> Reals:
    """Return triangles (m, 3, 3) that cover the parts of `faces` (n, 3, 3) in the box low..high."""
    for axis in range(3):
        for sign, limit in ((1.0, low[axis]), (-1.0, high[axis])):
            heights = sign * (faces[:, :, axis] - limit)
            inside = heights >= 0.0
            count = inside.sum(axis=1)
            # Triangles that are cut begin with the corner a that is alone on its side; p and q are
            # the cuts of its edges to b and c.
            some = np.flatnonzero((count == 1) | (count == 2))
            alone = np.where(count[some] == 1, inside[some].argmax(1), inside[some].argmin(1))
            order = (alone[:, None] + np.arange(3)) % 3
            corners = faces[some[:, None], order]
            over = heights[some[:, None], order][:, :, None]
            f, g = over[:, :1], over[:, 1:]
            cuts = corners[:, :1] + f / (f - g) * (corners[:, 1:] - corners[:, :1])
            cuts[:, :, axis] = limit
            (p, q), (a, b, c) = np.moveaxis(cuts, 1, 0), np.moveaxis(corners, 1, 0)
            one, two = count[some] == 1, count[some] == 2
            faces = np.concatenate([
                faces[count == 3], np.stack([a, p, q], 1)[one], np.stack([p, b, c], 1)[two],
                np.stack([p, c, q], 1)[two],
            ])  # fmt: skip
    return faces


def chained(
    ends: Whole, turn: Callable[[int, list[int]], int] | None = None
) -> list[tuple[list[int], bool]]:
    """Return (steps, closed) of polylines; a step is segment k, or ~k for segment k backwards.

    `ends` (n, 2) are numbers of the nodes at both ends of each segment. Without `turn`, a polyline
    ends where one segment, or more than two, meet. With it, a polyline goes on where an even number
    of segments meet, by turn(last step, possible next steps), and is cut into loops.
    """
    at: dict[int, list[int]] = defaultdict(list)
    for k, (a, b) in enumerate(ends.tolist()):
        at[a].append(k)
        at[b].append(~k)
    lines, used = [], [False] * len(ends)

    def follow(first: int, start: int) -> None:
        """Add the polyline from node `start` along step `first`; each loop becomes its own line."""
        # `seen`: for each node of the polyline, the number of steps that lead there.
        line, seen = list[int](), {start: 0}
        step: int | None = first
        while step is not None:
            k = step if step >= 0 else ~step
            used[k] = True
            line.append(step)
            end = int(ends[k, 1 if step >= 0 else 0])
            if end in seen:
                lines.append((line[seen[end] :], True))
                del line[seen[end] :]
                seen = {node: i for node, i in seen.items() if i <= len(line)}
            seen[end] = len(line)
            after = [s for s in at[end] if not used[s if s >= 0 else ~s]]
            step = after[0] if after and len(at[end]) == 2 else None
            # Back at its start, a polyline is cut into loops, and ends.
            if after and turn is not None and len(at[end]) % 2 == 0 and end != start:
                step = turn(line[-1], after)
        if line:
            lines.append((line, False))

    # From `outer` nodes first, where polylines end; then the closed ones; forwards, if possible.
    outer = [n for n, some in at.items() if len(some) % 2 or (turn is None and len(some) != 2)]
    for node in outer + list(at):
        for step in sorted(at[node], key=lambda s: s < 0):
            if not used[step if step >= 0 else ~step]:
                follow(step, node)
    return lines


def leftmost(segments: Reals, normal: Reals) -> Callable[[int, list[int]], int]:
    """Return a `turn` for `chained` that takes the leftmost segment, forward ones first.

    The segments (n, 2, 3) are in a plane, left as seen from where `normal` points.
    """
    vectors = segments[:, 1] - segments[:, 0]

    def along(step: int) -> Any:
        """Return the vector of segment k for the step k, its negative for the step ~k."""
        return vectors[step] if step >= 0 else -vectors[~step]

    def turn(last: int, after: list[int]) -> int:
        """Return which of the steps `after` goes on from the step `last`."""
        u = along(last)
        angles = [np.arctan2(normal @ np.cross(u, along(step)), u @ along(step)) for step in after]
        # Prefer segments that run forward: the same side of the surface is on the left of them all.
        return max(zip((step >= 0 for step in after), angles, after, strict=True))[2]

    return turn


def points_of(segments: Reals, line: Sequence[int]) -> Reals:
    """Return the points of a polyline of steps of `chained`; a closed one repeats the first."""
    steps = np.array(line)
    backward = steps < 0
    chosen = segments[np.where(backward, ~steps, steps)]
    chosen[backward] = chosen[backward, ::-1]
    return np.concatenate([chosen[:, 0], chosen[-1:, 1]])
