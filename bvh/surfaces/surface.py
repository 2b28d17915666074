"""`Surface`: the faces of a closed mesh, and the tables that several queries of them share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from operator import ge, le
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bvh.geometry.arithmetic import rational
from bvh.geometry.arithmetic.rational import Face, Row, exact_face
from bvh.geometry.point_triangle import distances_to_edges
from bvh.geometry.triangles import unit_normals
from bvh.runtime.arguments import kernel_input
from bvh.surfaces.numbering import connected, first_edges, next_corner, row_ranks, runs
from bvh.surfaces.pair_signs import UNKNOWN, Joints, count_crossings, find_bends
from bvh.tree.open_edges import hashes

Reals = NDArray[np.float64]
Whole = NDArray[np.int64]

# The most pairs of a point and a face for which points are tested one by one, not in a batch.
FEW_TESTS = 1 << 22
# The most faces that are all tested, without the kernels of a tree, which take seconds to compile.
FEW = 4_000
# Segments that are tried from a point to the outside, and the direction of the first.
WAYS_OUT, OUT = 4, np.array([0.51, 0.8125, 0.671875])
# Rounds of rays that find outer sides of faces; how far from a face they start at most, in sizes of
# it.
ROUNDS, REACH = 8, 2.0**-6
# How far from a face the points on both sides of it are, in sizes of the face.
NEAR = 2.0**-8
# The largest sine of the angle between two faces that count as in one plane: more than rounding.
FLAT = 2.0**-40
# The most exact faces that are cached, of about 2 kB each.
CACHED = 4096


class Surface:
    """A closed surface: its m faces, and tables that are computed when first read.

    `make_tree` returns a `BVH` over the faces; it is called when the tree is first needed.
    """

    def __init__(self, vertices: Reals, faces: Any, make_tree: Callable[[], Any]) -> None:
        """Take vertices (n, 3), faces (m, 3) of them, and a function that returns their `BVH`."""
        self.vertices, self.faces = vertices + 0.0, faces  # without -0.0
        corners = self.corners = kernel_input(self.vertices[faces])  # (m, 3, 3)
        self._make_tree = make_tree
        # Whether its overlapping faces are walls in which parts touch, set by `check_depths`.
        self.is_embedded = False
        # The results of `points_on_both_sides` so far.
        self._both_sides: dict[int, list[tuple[Reals, bool | None]]] = {}
        self.face = lru_cache(CACHED)(lambda k: exact_face(corners[k].tolist()))  # rational

    @classmethod
    def of(cls, tree: Any) -> Surface:
        """Return the surface of a `BVH` as it is now; it is cached with the tree's arrays."""
        cached = vars(tree.arrays)
        if "_surface" not in cached:
            cached.setdefault("_surface", cls(tree.vertices, tree.faces, lambda: tree))
        surface: Surface = cached["_surface"]
        return surface

    @cached_property
    def tree(self) -> Any:
        """The `BVH` over the faces."""
        return self._make_tree()

    @cached_property
    def bounds(self) -> Reals:
        """Lower and upper corner of the finite faces, shape (2, 3)."""
        corners = self.corners
        if not np.isfinite(corners).all():
            corners = corners[np.isfinite(corners).all(axis=(1, 2))]
        # Axis by axis: NumPy is slow along the first axis of rows of three.
        axes = corners.reshape(-1, 3).T
        return np.array([[x.min() for x in axes], [x.max() for x in axes]])

    @cached_property
    def face_hashes(self) -> NDArray[np.uint64]:
        """Hashes of faces (m,), which do not depend on the order and winding of corners."""
        one, two, three = hashes(self.vertices)[self.faces.T]
        return np.asarray(one + two + three)

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """The hashes of faces, sorted."""
        return np.sort(self.face_hashes)

    @cached_property
    def digest(self) -> int:
        """A number that surfaces with the same faces have in common."""
        return int(self.hashes.sum())

    @cached_property
    def axes(self) -> Whole:
        """(m,) the first axis on which all corners of a face have one coordinate; -1 for none."""
        a, b, c = np.moveaxis(self.corners, 1, 0)
        across = (a == b) & (a == c)
        return np.where(across.any(axis=1), across.argmax(axis=1), -1)

    def faces_at(self, low: Reals, high: Reals) -> list[Face]:
        """Return the faces that bound the solid and meet a box low..high, and perhaps others."""
        if len(self.corners) > FEW:
            ids = self.tree.overlap_box(low, high).prim_id
        else:
            lower, upper, order, axis, longest = self._boxes
            first = lower[:, axis].searchsorted(np.nextafter(low[axis] - longest, -np.inf))
            last = lower[:, axis].searchsorted(high[axis], "right")
            lower, upper = lower[first:last], upper[first:last]
            ids = order[first:last][((lower <= high) & (upper >= low)).all(axis=1)]
        # Equal faces have equal boxes, so that those that cancel are all here.
        return [self.face(k) for k in self.unpaired(ids).tolist()]

    @cached_property
    def _boxes(self) -> tuple[Any, ...]:
        """(lower, upper, order, axis, longest): boxes of faces, sorted by `lower` on an axis.

        `order` has the face of each box; `longest` is the largest extent of a face on the axis.
        """
        # Choose the axis on which faces are spread most, compared to the longest of them.
        lower, upper = self.corners.min(axis=1), self.corners.max(axis=1)
        axis = int(np.argmax(np.ptp(lower, axis=0) - (upper - lower).max(axis=0)))
        order = np.argsort(lower[:, axis])
        longest = (upper[:, axis] - lower[:, axis]).max()
        return lower[order], upper[order], order, axis, longest

    def is_inside(self, q: Reals) -> bool | None:
        """Return whether a point q is in the solid; None if undecided, as for points on a face."""
        low, high = self.bounds.tolist()
        if not all(map(le, low, q.tolist())) or not all(map(ge, high, q.tolist())):
            return False
        if len(self.corners) > FEW:
            return bool(self.tree.contains(q))
        q = kernel_input(q)
        # A segment from an inside point to an outside one crosses an odd number of faces. If it
        # meets an edge, the count is -1, and the next outside point is tried.
        for outside in self._outside:
            if outside is None:
                return bool(self.tree.contains(q))
            count = count_crossings(self.corners, q, outside)
            if count >= 0:
                return bool(count & 1)
        return None

    @cached_property
    def _outside(self) -> list[Reals | None]:
        """WAYS_OUT points outside the bounds, None in place of those that overflow."""
        low, high = self.bounds
        with np.errstate(all="ignore"):
            reach = high - low + np.abs(high)
            points = [high + reach * (OUT + 0.1 * k * OUT[::-1]) for k in range(WAYS_OUT)]
        return [kernel_input(p) if np.isfinite(p).all() else None for p in points]

    def are_inside(self, points: Reals, threads: int) -> NDArray[np.int8]:
        """Return 1 for points (n, 3) inside the solid, 0 for others, -1 for undecided ones."""
        if len(points) * len(self.corners) <= FEW_TESTS:
            flags = map(self.is_inside, points)
            return np.array([-1 if flag is None else flag for flag in flags], np.int8)
        low, high = self.bounds
        inside = np.asarray(((points >= low) & (points <= high)).all(axis=1))
        inside[inside] = self.tree.contains(points[inside], threads=threads)
        return inside.astype(np.int8)

    def points_on_both_sides(self, k: int) -> list[tuple[Reals, bool | None]]:
        """Return (point, `is_inside`) on both sides of face k; [] without area, or for overflow."""
        if k not in self._both_sides:
            a, b, c = self.corners[k]
            with np.errstate(all="ignore"):
                middle, normal = a / 3.0 + b / 3.0 + c / 3.0, np.cross(b - a, c - a)
                step = normal * (NEAR * np.abs(b - a).max() / np.abs(normal).max())
            points = [middle - step, middle + step]
            points = points if np.isfinite(points).all() else []
            self._both_sides[k] = [(q, self.is_inside(q)) for q in points]
        return self._both_sides[k]

    @cached_property
    def own_pairs(self) -> NDArray[np.int32]:
        """Pairs (n, 2) of faces, none cancelled, that meet beyond shared vertices and edges."""
        if self.cancelled.all():
            return np.empty((0, 2), np.int32)
        pairs: NDArray[np.int32] = self.tree.self_overlaps()
        return pairs[~self.cancelled[pairs].any(axis=1)]

    @cached_property
    def cancelled(self) -> NDArray[np.bool_]:
        """(m,) True for faces that bound nothing: equal faces cancel each other in pairs."""
        found, repeated = np.zeros(len(self.corners), np.bool_), self.hashes[1:] == self.hashes[:-1]
        if repeated.any():
            # Equal faces have equal hashes. Faces that are not finite are ignored everywhere.
            faces = np.flatnonzero(
                np.isin(self.face_hashes, self.hashes[1:][repeated])
                & np.isfinite(self.corners).all(axis=(1, 2))
            )
            found[faces] = True
            found[self.unpaired(faces)] = False
        return found

    @cached_property
    def point_ids(self) -> Whole:
        """Numbers of the points at the corners of faces, (m, 3): equal for corners at one point."""
        return np.asarray(row_ranks(self.vertices)[self.faces])

    @cached_property
    def positions(self) -> Reals:
        """The coordinates (n, 3) of the points that `point_ids` number."""
        positions = np.zeros((self.point_ids.max() + 1, 3))
        positions[self.point_ids.reshape(-1)] = self.corners.reshape(-1, 3)
        return positions

    @cached_property
    def outward(self) -> NDArray[np.int8]:
        """(m,) 1 for faces whose normals point out of the solid, -1 if into it, else 0.

        0 is for faces that bound nothing, and for parts in which all others meet further faces. The
        solid may be on both sides of faces that meet others beyond shared vertices: see
        `overlap_volumes.check_depths`.
        """
        one, two = self._joined
        # Faces with the same winding run through their edge in different directions.
        starts = self.point_ids.reshape(-1)
        alike = starts[one] != starts[two]
        part = connected(one[alike] // 3, two[alike] // 3, len(self.corners))
        clear = ~self.cancelled
        clear[self.own_pairs.reshape(-1)] = False
        # The `outward` of each part, by its lowest face; it stays 0 for parts without a clear face.
        faces, of_parts = np.flatnonzero(clear), np.zeros(len(self.corners), np.int8)
        faces = faces[np.argsort(part[faces], kind="stable")]
        starts, counts = runs(part[faces])
        rng = np.random.default_rng(0)
        for _ in range(ROUNDS):
            # The first face that a ray hits bounds the cell of its start. Rays are cast to a random
            # face of each part that is still 0.
            left = of_parts[part[faces[starts]]] == 0
            starts, counts = starts[left], counts[left]
            if not len(starts):
                break
            targets = faces[starts + rng.integers(counts)]
            hit, signs = self._outward_of_hits(targets, rng)
            of_parts[part[hit[clear[hit]]]] = signs[clear[hit]]
        # Rays from doubles may miss what is very thin, or meet several faces at one t.
        for k in faces[of_parts[part[faces]] == 0].tolist():
            of_parts[part[k]] = of_parts[part[k]] or self._exact_outward(k, rng)
        outward = of_parts[part]
        outward[self.cancelled] = 0
        return outward

    def _outward_of_hits(self, faces: Whole, rng: Generator) -> tuple[Whole, Whole]:
        """Return the faces that rays to random points of `faces` hit, and the `outward` of each.

        It is 1 if a front is hit from outside or a back from inside, else -1.
        """
        a, b, c = np.moveaxis(self.corners[faces], 1, 0)
        u, v = rng.uniform(0.2, 0.4, (2, len(faces), 1))
        with np.errstate(all="ignore"):
            points, normals = a + u * (b - a) + v * (c - a), np.cross(b - a, c - a)
            size = np.abs(b - a).max(axis=1, keepdims=True)
            # Rays start a random step above the faces, never so short that rounding undoes it.
            least = np.abs(points).max(initial=0.0) * 2.0**-44
            step = np.maximum(size * rng.uniform(0.0, REACH), least)
            normals = normals / np.abs(normals).max(axis=1, keepdims=True)
            origins, ways = points + step * normals, -normals
        # A ray that crosses an odd number of faces starts inside.
        hits, inside = self.tree.closest_hit(origins, ways), self.tree.count_hits(origins, ways) % 2
        # Leave out hits near an edge, where another face may be hit as well, at origins, and where
        # t of several faces round to one double, as in thin solids.
        inner = np.minimum(np.minimum(hits.u, hits.v), 1.0 - hits.u - hits.v) > 2.0**-20
        sure = inner & (hits.t > 0.0) & (self.tree.count_hits(origins, ways, t_max=hits.t) == 1)
        return hits.prim_id[sure].astype(np.int64), np.where(hits.front == inside, -1, 1)[sure]

    def _exact_outward(self, k: int, rng: Generator) -> int:
        """Return the `outward` of face k, which meets no others; 0 if it has no area."""
        face = self.face(k)
        a, b, c = face.corners
        m = rational.between(rational.between(a, b, 1, 2), c, 1, 3)
        for q, start in rational.doubles_near(m, face.size, rng) if face.has_area else ():
            inside, height = self.is_inside_before(q, start, m), rational.dot(face.plane, start)
            if inside is not None and height != 0:
                return 1 if (height > 0) != inside else -1
        return 0

    def is_inside_before(self, q: Reals, start: Row, m: Row) -> bool | None:
        """Return whether points of the segment from q to m, just before m, are inside.

        None is for undecided. `start` is q in rational numbers, as m is.
        """
        inside, at = self.is_inside(q), rational.rounded(m)
        low = np.nextafter(np.minimum(q, at), -np.inf)
        high = np.nextafter(np.maximum(q, at), np.inf)
        # Each face that is crossed between them changes the answer.
        for face in self.faces_at(low, high) if inside is not None else ():
            crossed = rational.crosses(face, start, m)
            if crossed is None:
                return None
            inside = inside != crossed
        return inside

    def _twins(self, used: Whole) -> tuple[Whole, Whole]:
        """Return, in two arrays, pairs of `used` edges 3 i + k that alone have the same ends."""
        firsts = self.first_of_edge[used]
        alone = np.bincount(firsts)[firsts] == 2
        used, firsts = used[alone], firsts[alone]
        last = np.empty(3 * len(self.corners), np.int64)
        last[firsts] = used
        twins = last[firsts]
        return used[twins != used], twins[twins != used]

    @cached_property
    def _joined(self) -> tuple[Whole, Whole]:
        """Twins, in two arrays: edges 3 i + k with the same ends, of just two uncancelled faces."""
        return self._twins(np.flatnonzero(np.repeat(~self.cancelled, 3)))

    @cached_property
    def joints(self) -> Joints:
        """How faces are joined at their edges (see `Joints`), if there are no `own_pairs`."""
        finite, outward = np.isfinite(self.corners).all(axis=(1, 2)), self.outward
        signs = np.where(finite & ~self.cancelled, np.where(outward, outward, UNKNOWN), 0)
        twins, (one, two) = np.full(self.corners.size // 3, -1), self._joined
        twins[one], twins[two] = two, one
        joints = Joints(
            self.corners, signs.astype(np.int8), twins.reshape(-1, 3),
            np.empty((len(signs), 3), np.int8), self.pieces, self.face_hashes,
        )  # fmt: skip
        find_bends(joints)
        return joints

    @cached_property
    def first_of_edge(self) -> Whole:
        """(3 m,) for each edge, 3 i + k, the number of the first edge with the same ends."""
        ids = self.point_ids
        return first_edges(np.stack([ids, np.roll(ids, -1, axis=1)], axis=2).reshape(-1, 2))

    @cached_property
    def _creases(self) -> Any:
        """A tree over the edges around flat parts of the surface, as triangles without area.

        None if no two neighbours are nearly in one plane (FLAT): all edges then bound flat parts.
        """
        every = np.arange(len(self.first_of_edge))
        one, other = self._twins(every)
        normals, points = unit_normals(self.corners), self.corners.reshape(-1, 3)
        turned = np.abs(np.cross(normals[one // 3], normals[other // 3])).max(axis=1)
        start = points[one]
        edge = points[next_corner(one)] - start
        sides = [np.cross(edge, points[next_corner(next_corner(k))] - start) for k in (one, other)]
        # The third corners are on opposite sides of the edge: the faces are not folded.
        flat = (turned <= FLAT) & ((sides[0] * sides[1]).sum(axis=1) < 0.0)
        if not flat.any():
            return None
        creased = self.first_of_edge == every
        creased[one[flat]] = False
        firsts = np.flatnonzero(creased)
        ends = self.point_ids.reshape(-1)[np.stack([firsts, next_corner(firsts)], axis=1)]
        return type(self.tree).from_triangles(self.positions, ends[:, [0, 1, 1]], warn=False)

    def distances_to_creases(self, points: Reals, faces: Whole) -> Reals:
        """Return the distances of points (n, 3), each in a face, from edges around flat parts."""
        if self._creases is not None:
            return np.asarray(self._creases.closest_point(points).distance)
        corners = self.corners[faces]
        return distances_to_edges(points[:, None] - corners, np.roll(corners, -1, axis=1) - corners)

    def unpaired(self, faces: Whole) -> Whole:
        """Return one face of each group of equal faces, of any winding, with an odd number."""
        _, first, count = np.unique(
            row_ranks(np.sort(self.point_ids[faces], axis=1)), return_index=True, return_counts=True
        )
        return np.sort(faces[first[count % 2 == 1]])

    @cached_property
    def pieces(self) -> Whole:
        """(m,) the first face of the piece of each face: all faces that edges connect with it."""
        count = len(self.corners)
        return connected(np.repeat(np.arange(count), 3), self.first_of_edge // 3, count)

    @cached_property
    def first_faces(self) -> Whole:
        """The first face of each piece."""
        return np.unique(self.pieces)
