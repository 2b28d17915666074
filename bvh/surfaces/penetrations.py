"""How deep two solids are in each other: the deepest place of one inside the other, with a bound.

The depth of a place is its distance from a surface. Of all places in both solids, the deepest is on
a surface, or a local maximum of the distance. Both are found by branch and bound over simplices:
the faces, and tetrahedra that fill the common box. Distances from faces are convex, as are those
from planes where these are flat parts of the surface, and the depth is at most any average of such
functions. The average whose maximum at the corners of a simplex is least bounds the depth in it; it
is exact where the surface is flat.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from bvh.geometry.arithmetic.games import choices, equaliser
from bvh.geometry.point_triangle import distances_to_edges
from bvh.geometry.triangles import unit_normals
from bvh.runtime.arguments import kernel_input
from bvh.surfaces.cells import Pairs
from bvh.surfaces.relations import NAMES, have_same_faces, longest_part, relation_of
from bvh.surfaces.sections import clipped_to_box
from bvh.surfaces.surface import Reals, Surface, Whole

# The search ends where the depth is known to this share of it, or of the coordinates: below that it
# is due to rounding.
ENOUGH, NOISE = 1e-6, 2.0**-40
# Simplices that are divided at a time, and the most in a search; the most while all that is found
# is noise, as where solids overlap by a rounding error, so that few simplices are ruled out.
BATCH, MOST, FEWER = 256, 1 << 16, 1 << 12
# Places of a simplex that are not its corners: where its parent's bound was attained, and the
# corner that a face lost when it was divided, or the `_uphill` point of a tetrahedron.
MORE = 2
# The steps that approximate the nearest point of a convex hull.
STEPS = 12


class Deepest(NamedTuple):
    """The deepest place, and the longest part of an edge that is inside."""

    depth: float  # the distance of the point from the other surface
    point: Reals
    direction: Reals  # from the point to the nearest one of the other surface
    prim_id: tuple[int, int]  # the faces of the first solid and of the second nearest to the point
    own: bool  # whether the point is of the first solid, inside the second
    error: float  # the depth is larger by at most this
    length: float  # of the longest part; 0 if a vertex or a face's middle is inside the other solid


NOTHING = Deepest(0.0, np.full(3, np.nan), np.full(3, np.nan), (-1, -1), False, 0.0, 0.0)


def deepest_of(
    first: Surface, second: Surface, find_pairs: Callable[[], Pairs], threads: int
) -> Deepest:
    """Return the deepest place of two solids in each other; `find_pairs` finds faces that meet.

    The result is NOTHING if the solids do not overlap. If no place inside both is found, its point
    is NaN, and its `error` the bound of the depth.
    """
    low = np.maximum(first.bounds[0], second.bounds[0])
    high = np.minimum(first.bounds[1], second.bounds[1])
    if (low >= high).any():
        return NOTHING
    find_pairs = cache(find_pairs)
    noise = float(np.abs([first.bounds, second.bounds]).max()) * NOISE
    search, pair = _Search(noise), (first, second)
    sides = _Places(first, second, threads), _Places(second, first, threads)
    for places in sides:
        search.look_at(places, places.add_corners(low, high))
    vertex_inside = search.best > 0.0
    if not vertex_inside and relation_of(*pair, find_pairs) in NAMES[:2]:
        # Other places are rounded, and may be inside only because of that.
        return NOTHING
    starts = [places.add_faces(low, high) for places in sides]
    starts += [places.add_box(low, high) for places in sides]
    for places in sides:
        search.look_at(places, np.arange(len(places.depth)))
    search.run([_Simplices.of(*start) for start in zip(sides * 2, starts, strict=True)])
    length = 0.0
    if not (vertex_inside or have_same_faces(*pair)):
        if not any(places.holds_middles(low, high, noise) for places in sides):
            parts = (*pair, 0), (*pair[::-1], 1)
            length = max(longest_part(*part, find_pairs()) for part in parts)
    if search.where is None:
        return NOTHING._replace(error=search.error, length=length)
    (places, k), depth = search.where, search.best
    point, is_first = places.at[k], places is sides[0]
    mine = places.own.tree.closest_point(point[None], threads=1).prim_id
    ids = int(mine[0]), int(places.face[k])
    return Deepest(
        depth, point, (places.near[k] - point) / depth, ids if is_first else ids[::-1], is_first,
        search.error, length,
    )  # fmt: skip


class _Places:
    """Points `at` (n, 3) of a solid `own`, and their nearest points on the surface of an `other`.

    `depth` (n,) is the distance from the other surface, negative outside, and `own_depth` (n,) that
    from the solid's own, +inf for points on it. `near` (n, 3) is the nearest point of the other
    surface, in `face` with the unit normal `normal`; `clear` is the distance of `near` from the
    edges around its flat part (`distances_to_creases`).
    """

    def __init__(self, own: Surface, other: Surface, threads: int) -> None:
        """Begin without points, for points of `own` and their distances from `other`."""
        self.own, self.other, self._threads = own, other, threads
        self.at, self.near, self.normal = (np.empty((0, 3)) for _ in range(3))
        self.depth, self.own_depth, self.clear = (np.empty(0) for _ in range(3))
        self.face = np.empty(0, np.int64)

    def add(self, points: Reals, on_surface: bool) -> Whole:
        """Add points (n, 3), `on_surface` of their own solid or not; return their numbers."""
        first, count, tree = len(self.depth), len(points), self.other.tree
        if count == 0:
            return np.empty(0, np.int64)
        points = kernel_input(points)
        found = tree.closest_point(points, threads=self._threads)
        face = found.prim_id.astype(np.int64)
        corners = self.other.corners[face]
        depth = np.where(tree.contains(points, threads=self._threads), 1.0, -1.0) * found.distance
        own = np.full(count, np.inf)
        if not on_surface:
            mine, threads = self.own.tree, self._threads
            own = mine.closest_point(points, threads=threads).distance
            own = np.where(mine.contains(points, threads=threads), own, -own)
        clear = self.other.distances_to_creases(found.position, face)
        columns = found.position, unit_normals(corners), depth, own, clear, face, points
        names = "near", "normal", "depth", "own_depth", "clear", "face", "at"
        for name, column in zip(names, columns, strict=True):
            setattr(self, name, np.concatenate([getattr(self, name), column]))
        return np.arange(first, first + count)

    def add_corners(self, low: Reals, high: Reals) -> Whole:
        """Add the corners of faces that are in a box, before other points; return their numbers."""
        at = self.own.positions
        used = np.zeros(len(at), np.bool_)
        used[self.own.point_ids] = True
        self._corners = np.flatnonzero(used & ((at >= low) & (at <= high)).all(axis=1))
        return self.add(at[self._corners], True)

    def add_faces(self, low: Reals, high: Reals) -> Whole:
        """Add corners of the parts of faces in a box; return these triangles as simplices."""
        corners, ids = self.own.corners, self.own.point_ids
        meet = ((corners.min(axis=1) <= high) & (corners.max(axis=1) >= low)).all(axis=1)
        within = meet & np.isin(ids, self._corners).all(axis=1)
        parts = clipped_to_box(corners[meet & ~within], low, high)
        points, numbers = np.unique(parts.reshape(-1, 3), axis=0, return_inverse=True)
        # Corners in the box were added first, so that their ranks are their numbers.
        whole = np.searchsorted(self._corners, ids[within])
        cut = self.add(points, True)[numbers.reshape(-1, 3)]
        return self._with_more(np.concatenate([whole, cut]))

    def add_box(self, low: Reals, high: Reals) -> Whole:
        """Add the corners of a box; return tetrahedra that fill it, as simplices."""
        box = np.stack([low, high])
        numbers = self.add(box[np.indices((2, 2, 2)).reshape(3, -1).T, np.arange(3)], False)
        # Kuhn's triangulation: paths along the axes, in each order, from corner 0 to corner 7.
        paths = [(0, 1 << a, (1 << a) | (1 << b), 7) for a in range(3) for b in range(3) if a != b]
        return self._with_more(numbers[np.array(paths)])

    def holds_middles(self, low: Reals, high: Reals, noise: float) -> bool:
        """Return whether a face's middle in a box is deeper than `noise` in the other solid."""
        middles = self.own.corners.mean(axis=1)
        middles = middles[((middles > low) & (middles < high)).all(axis=1)]
        tree, threads = self.other.tree, self._threads
        middles = middles[tree.contains(middles, threads=threads)]
        return bool((tree.closest_point(middles, threads=threads).distance > noise).any())

    @staticmethod
    def _with_more(corners: Whole) -> Whole:
        """Return simplices (n, k + MORE) of corners (n, k), the first MORE also as other places."""
        return np.concatenate([corners, corners[:, :MORE]], axis=1)


class _Simplices(NamedTuple):
    """Simplices to search: numbers of the places that are their corners, then of MORE others."""

    places: _Places
    simplices: Whole  # (n, corners + MORE)
    bound: Reals  # (n,), of the depth in each

    @classmethod
    def of(cls, places: _Places, simplices: Whole) -> _Simplices:
        """Return simplices with bounds by distances alone (see `_first_bounds`)."""
        return cls(places, simplices, _first_bounds(places, simplices[:, :-MORE]))

    def above(self, limit: float) -> _Simplices:
        """Return the simplices in which the bound of the depth is above a limit."""
        kept = self.bound > limit
        return _Simplices(self.places, self.simplices[kept], self.bound[kept])

    def joined(self, other: _Simplices) -> _Simplices:
        """Return these simplices and then `other` ones, of the same places."""
        simplices = np.concatenate([self.simplices, other.simplices])
        return _Simplices(self.places, simplices, np.append(self.bound, other.bound))


class _Search:
    """A search for the deepest place: `best`, the depth so far, is at the place `where`.

    After `run`, other places are deeper by at most `error`.
    """

    def __init__(self, least: float) -> None:
        """Begin without a place; differences of depths below `least` are due to rounding."""
        self.best, self.error, self._least = 0.0, 0.0, least
        self.where: tuple[_Places, int] | None = None

    @property
    def limit(self) -> float:
        """The depth that the bound of a simplex must exceed for the simplex to be searched."""
        return self.best + max(self.best * ENOUGH, self._least)

    def look_at(self, places: _Places, numbers: Whole) -> None:
        """Replace the best place if one of `numbers`, not outside its own solid, is deeper."""
        depth = np.where(places.own_depth[numbers] >= 0.0, places.depth[numbers], 0.0)
        if len(depth) and depth.max() > self.best * (1.0 + NOISE):
            k = int(depth.argmax())
            self.best, self.where = float(depth[k]), (places, int(numbers[k]))

    def run(self, parts: list[_Simplices]) -> None:
        """Search simplices, those of the highest bounds first."""
        total = 0
        while total < (MOST if self.best > self._least else FEWER):
            k = int(np.argmax([part.bound.max(initial=0.0) for part in parts]))
            part = parts[k].above(self.limit)
            if len(part.bound) == 0:
                break
            order = np.argsort(-part.bound, kind="stable")
            now, later = (_Simplices(part.places, part.simplices[o], part.bound[o])
                          for o in (order[:BATCH], order[BATCH:]))  # fmt: skip
            total += len(now.bound)
            parts[k] = later.joined(self._divided(now))
        # Simplices that are left when the search ends may hold deeper places.
        lost = max(part.bound.max(initial=0.0) for part in parts)
        self.error = max(self.limit, lost) - self.best

    def _divided(self, part: _Simplices) -> _Simplices:
        """Test a few places in simplices; return parts of those that may hold deeper places.

        A simplex is halved once, or repeatedly where there are few.
        """
        places, count = part.places, part.simplices.shape[1] - MORE
        most, aim = _bounds(places, part.simplices, self.limit)
        most = np.minimum(most, part.bound)
        kept = most > self.limit
        simplices, most, aim = part.simplices[kept], most[kept], aim[kept]
        owners = np.arange(len(simplices))
        added, in_space, first = [aim], count == 4, len(places.depth)
        if in_space:
            uphill, least = _uphill(places, simplices, most)
            added.append(uphill)
        # Here and below, write the numbers that `places.add` will give to the new points.
        simplices = simplices.copy()
        for k in range(len(added)):
            simplices[:, count + k] = first + k * len(owners) + owners
        for step in range(count - 1):
            if step and len(simplices) * 2 > BATCH:
                break
            at = np.concatenate([places.at, *added])
            a, b, middle = _longest_edges(at[simplices[:, :count]])
            added.append(middle)
            rows, halves = np.arange(len(simplices)), (simplices, simplices.copy())
            for half, end in zip(halves, (a, b), strict=True):
                # The middle replaces one end, which a face keeps as its second other place.
                if not in_space:
                    half[:, count + 1] = half[rows, end]
                half[rows, end] = len(at) + rows
            simplices, owners = np.concatenate(halves), np.tile(owners, 2)
        self.look_at(places, places.add(np.concatenate(added), not in_space))
        live = most > self.limit
        if in_space:
            # Tetrahedra without a local maximum of the depth, by `_uphill`, are left out.
            live &= ~(np.abs(places.depth[first + len(aim) : first + 2 * len(aim)]) > least)
        kept = live[owners]
        found = _Simplices.of(places, simplices[kept])
        return found._replace(bound=np.minimum(found.bound, most[owners[kept]]))


def _first_bounds(places: _Places, corners: Whole) -> Reals:
    """Return bounds (n,) of the depth in simplices by distances alone; 0 for those all outside.

    `corners` (n, k) are numbers of places.
    """
    # The depth changes by at most the distance; `reach` is the greatest one from each corner.
    at = places.at[corners]
    reach = np.sqrt(((at[:, :, None] - at[:, None]) ** 2).sum(axis=3)).max(axis=2)
    depth, own = places.depth[corners], places.own_depth[corners]
    outside = ((depth <= -reach) | (own <= -reach)).any(axis=1)
    return np.where(outside, 0.0, (depth + reach).min(axis=1))


def _bounds(places: _Places, simplices: Whole, limit: float) -> tuple[Reals, Reals]:
    """Return bounds of the depth in simplices, (n,), and where they are attained, (n, 3).

    Each place of a simplex gives a function: the distance from the place's nearest face, or from
    the plane of that face if the simplex is over its flat part. An average of functions bounds the
    depth; its maximum is at a corner. The least maximum, the value of a matrix game, is sought
    among averages of 1, 2, ... functions, equal at as many corners, until it is at most `limit`.
    """
    count = simplices.shape[1] - MORE
    at = places.at[simplices[:, :count]]
    offset = at[:, None] - places.near[simplices][:, :, None]
    normal = places.normal[simplices][:, :, None]
    height = (offset * normal).sum(axis=3)
    aside = np.sqrt(((offset - height[..., None] * normal) ** 2).sum(axis=3))
    # Functions by simplex, place and corner.
    values = np.abs(height)
    far = ~(aside.max(axis=2) <= places.clear[simplices])
    if far.any():
        corners = places.other.corners[places.face[simplices[far]]]
        values[far] = distances_to_faces(at[np.nonzero(far)[0]], corners[:, None])
    worst = values.max(axis=2)
    best, weights = worst.min(axis=1), np.zeros(at.shape[:2])
    rows = np.arange(len(at))
    weights[rows, values[rows, worst.argmin(axis=1)].argmax(axis=1)] = 1.0
    for size in range(2, count + 1):
        rows = rows[best[rows] > limit]
        chosen, ends = choices(simplices.shape[1], size), choices(count, size)
        functions = values[rows][:, chosen]
        games = functions[..., ends].swapaxes(2, 3)
        bounds = (equaliser(games) @ functions).max(axis=3)
        bounds = bounds.reshape(len(rows), len(chosen) * len(ends))
        k = bounds.argmin(axis=1)
        better = np.flatnonzero(bounds[np.arange(len(rows)), k] < best[rows])
        k = k[better]
        best[rows[better]] = bounds[better, k]
        p, q = k // len(ends), k % len(ends)
        found = np.zeros((len(better), count))
        found[np.arange(len(better))[:, None], ends[q]] = equaliser(
            games[better, p, q].swapaxes(1, 2)
        )
        weights[rows[better]] = found
    return best, np.asarray((weights[:, :, None] * at).sum(axis=1))


def _longest_edges(at: Reals) -> tuple[Whole, Whole, Reals]:
    """Return the longest edges (a, b, middle) of simplices (n, k, 3), a and b corner indices."""
    ends = choices(at.shape[1], 2)
    a, b = ends[((at[:, ends[:, 0]] - at[:, ends[:, 1]]) ** 2).sum(axis=2).argmax(axis=1)].T
    rows = np.arange(len(at))
    return a, b, (at[rows, a] + at[rows, b]) / 2.0


def _uphill(places: _Places, simplices: Whole, most: Reals) -> tuple[Reals, Reals]:
    """Return points (n, 3) uphill of simplices, and bounds of their distances from the surface.

    A simplex holds no local maximum of the depth, which is at most `most`, if its point is farther
    from the other surface than the bound. For at a local maximum x, nearest points q are on all
    sides, and one of them is uphill, along u: (q - x) u >= 0. That one is at most
    hypot(depth, s) + r from a point that is uphill by s of the middle of a simplex of radius r.
    """
    at = places.at[simplices]
    corners = at[:, :-MORE]
    middle = corners.mean(axis=1)
    radius = np.sqrt(((corners - middle[:, None]) ** 2).sum(axis=2)).max(axis=1)
    with np.errstate(all="ignore"):
        ways = (at - places.near[simplices]) / places.depth[simplices][:, :, None]
        ways = np.nan_to_num(ways)
        # The least average of the directions uphill at the corners: Frank and Wolfe's steps.
        least, rows = ways[:, 0], np.arange(len(at))
        for _ in range(STEPS):
            toward = ways[rows, (ways * least[:, None]).sum(axis=2).argmin(axis=1)] - least
            share = -(toward * least).sum(axis=1) / (toward**2).sum(axis=1)
            least = least + np.clip(np.nan_to_num(share), 0.0, 1.0)[:, None] * toward
        slope = np.sqrt((least**2).sum(axis=1))
        step = np.minimum(4.0 * radius / slope, most)
        point = middle + np.nan_to_num(step / slope)[:, None] * least
    moved = np.sqrt(((point - middle) ** 2).sum(axis=1))
    return point, np.where(moved > 0.0, np.hypot(most, moved) + radius, np.inf)


def distances_to_faces(points: Reals, corners: Reals) -> Reals:
    """Return the distances of points (..., 3) from triangles (..., 3, 3), rounded."""
    edges, offsets = np.roll(corners, -1, axis=-2) - corners, points[..., None, :] - corners
    off = distances_to_edges(offsets, edges)
    normal = np.cross(edges[..., 0, :], edges[..., 1, :])
    sides = (np.cross(normal[..., None, :], edges) * offsets).sum(axis=-1)
    with np.errstate(all="ignore"):
        normal = normal / np.sqrt((normal**2).sum(axis=-1, keepdims=True))
    height = np.abs((offsets[..., 0, :] * normal).sum(axis=-1))
    # The height of a face without area is NaN, and so not <=: its edges decide.
    return np.where((sides >= 0.0).all(axis=-1) & (height <= off), height, off)
