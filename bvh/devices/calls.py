"""Queries on a device: arguments, kernels, and answers; the CPU answers what kernels leave open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.exact.floats import INF, ONE, OPTIONS, SMALLEST, TWO, ZERO, largest
from bvh.devices.exchange import on_host, one_number, to_library
from bvh.devices.stages import marks
from bvh.devices.stages.work import Columns, DeviceRays, RayQuery, row_of
from bvh.devices.transfers import Call, Names
from bvh.queries.batches.containment import ASIDE
from bvh.queries.methods.sight_queries import checked_margin
from bvh.queries.query_arguments import edge_rule, one_mask, point_batch, ray_batch
from bvh.queries.results import AllHits, ClosestPoints, Hits
from bvh.queries.targets import point_target
from bvh.runtime import arguments
from bvh.runtime.arguments import ALL_BITS, Cull, EdgeRule, cull_code, thread_count, whole_number
from bvh.traversal.rays import sight_lines

wp.set_module_options(OPTIONS)

Answer = TypeVar("Answer")
# Columns of results.
HITS = "t", "prim_id", "u", "v", "front"
NEAREST = "distance", "position", "prim_id", "u", "v"


class RayCall(Call):
    """A query of `rays` (origins, directions, t_min, t_max, mask), as the caller gave them.

    `owner` is a `DeviceObject`; `cull` and `edges` are as of `BVH.count_hits`.
    """

    # Passed to `Call`; `SightCall` has its own.
    fields: ClassVar[dict[str, str]] = {
        name: name for name in ("origins", "directions", "t_min", "t_max", "mask")
    }
    batch: ClassVar[Callable[..., Any]] = staticmethod(ray_batch)

    def __init__(
        self, owner: Any, rays: tuple[Any, ...], cull: Cull | None, edges: EdgeRule = "closed"
    ) -> None:
        self.cull, self.edges, self.query = cull, edges, RayQuery()
        self.query.cull, self.query.once = cull_code(cull), int(edge_rule(edges))
        self.names = (*HITS, "instance_id", "leaf") if owner.is_scene else HITS
        super().__init__(owner, self.fields, rays, self.batch)

    def closest(self) -> Hits:
        return self._located(Hits, self._answers(marks.CLOSEST, self.names))

    def any(self) -> Any:
        """Return whether each ray hits anything."""
        return self._answers(marks.ANY, ["truth"])["truth"]

    def counts(self) -> Any:
        """Return the number of hits of each ray."""
        return self._answers(marks.COUNT, ["counts"])["counts"]

    def listed(self, limit: int | None) -> AllHits:
        """Return all hits of the rays or, unless `limit` is None, the first `limit` of each."""
        # The rays are traced twice: first to count hits, which tells how long the lists are.
        self.limit = None if limit is None else whole_number("max_hits", limit)
        counts = np.ravel(on_host(self.counts()))
        counts = counts if self.limit is None else np.minimum(counts, self.limit)
        offsets = np.r_[0, np.cumsum(counts)]
        # Counting has added its undecided rays, and has set `count` to the size of its last chunk.
        self.owner.undecided, self.count = 0, len(counts)
        columns = self.columns(self.names, lambda part: self._lists(part, offsets), offsets)
        on_device = wp.array(offsets, dtype=wp.int64, device=self.device)
        columns["offsets"] = to_library(on_device, (len(offsets),), self.like)
        return self._located(AllHits, columns | {"shape": self.shape})

    def _located(self, kind: type[Answer], columns: dict[str, Any]) -> Answer:
        """Return hits of a class `kind` with these columns, which can compute their positions."""
        hits = kind(**columns)
        vars(hits)["_source"] = self.owner._hit_source()
        return hits

    def _answers(self, goal: int, names: Names) -> dict[str, Any]:
        """Return the columns `names` with one answer a ray, for a query mode `goal` of `marks`."""
        return self.columns(names, lambda _: self._traced(goal, self.empty(names, self.count)))

    def _lists(self, part: slice, offsets: NDArray[np.int64]) -> Any:
        """List the hits of a range of rays; return them as a `Columns`.

        In the lists of all rays, ray i has the rows from offsets[i] up to offsets[i + 1].
        """
        begins = offsets[part.start : part.stop + 1] - offsets[part.start]
        # Hits at the same t are sorted by leaf, so lists have this column even in a single tree.
        result = self.empty(sorted({*self.names, "leaf"}), int(begins[-1]))
        result.offsets = wp.array(begins, dtype=wp.int64, device=self.device)
        return self._traced(marks.LIST, result, begins)

    def _traced(self, goal: int, result: Any, begins: NDArray[np.int64] | None = None) -> Any:
        """Fill and return `result`, a `Columns`, for the query mode `goal`.

        If hits are listed, ray i has the rows from begins[i] up to begins[i + 1].
        """
        self.query.goal = goal
        undecided = rows = self.trace(result, self.rays, self.query)
        if begins is not None:
            lists = [np.arange(begins[i], begins[i + 1]) for i in undecided]
            rows = np.concatenate([np.empty(0, np.int64), *lists])
        self.settle(result, undecided, lambda: self._by_cpu(goal, undecided), rows)
        return result

    def _by_cpu(self, goal: int, undecided: NDArray[np.int32]) -> dict[str, Any]:
        """Return the CPU's answers, by column, for the rays with indices `undecided`."""
        rays: dict[str, Any] = {name: self.selected(name, undecided) for name in RayCall.fields}
        # A mask with all bits set is left out: a query without one is faster.
        bits = rays["mask"].view(np.uint32)
        rays |= {"mask": None if (bits == ALL_BITS).all() else bits, "cull": self.cull}
        if goal == marks.COUNT:
            return {"counts": self.host.count_hits(**rays, edges=self.edges)}
        if goal == marks.ANY:
            return {"truth": self.host.any_hit(**rays)}
        if goal == marks.LIST:
            hits = self.host.all_hits(**rays, max_hits=self.limit, edges=self.edges)
        else:
            hits = self.host.closest_hit(**rays)
        return {name: getattr(hits, name) for name in self.names}


HALF, BELOW_ONE = wp.float64(0.5), wp.float64(sight_lines.BELOW_ONE)


@wp.kernel
def _write_lines(
    q: wp.array(dtype=wp.vec3d), margin: wp.float64, lines: DeviceRays,
    finite: wp.array(dtype=wp.bool),
):  # fmt: skip
    """Write the directions and ranges of `lines`, from their origins to q, and `finite`.

    `finite` tells whether both ends are finite. Ranges leave out a share `margin` of coordinates at
    both ends. Every operation is rounded as in `write_lines`, the kernel for CPUs, which says why.
    """
    i = wp.tid()
    a, b = lines.origins[row_of(i, lines.origins.shape[0])], q[row_of(i, q.shape[0])]
    d, end = b - a, ONE
    if largest(d) == INF:
        d, end = HALF * b - HALF * a, TWO
    size, reach = largest(d), wp.max(largest(a), largest(b))
    u, v, w = d[0] / size, d[1] / size, d[2] / size
    gap = margin * reach / (size * wp.sqrt(u * u + v * v + w * w))
    finite[i] = wp.isfinite(a) and wp.isfinite(b)
    lines.directions[i] = d
    lines.t_min[i] = wp.max(gap, SMALLEST)
    lines.t_max[i] = wp.min(end - gap, end * BELOW_ONE)
    # Rays between equal points, whose gap is NaN, and to or from ends not finite hit nothing.
    if not finite[i] or gap != gap:
        lines.t_max[i] = -INF


@wp.kernel
def _write_seen(finite: wp.array(dtype=wp.bool), truth: wp.array(dtype=wp.bool)):
    """Turn `truth`, whether lines are blocked, into whether their ends see each other.

    Ends that are not `finite` see nothing.
    """
    i = wp.tid()
    truth[i] = finite[i] and not truth[i]


class SightCall(RayCall):
    """A query of lines of sight from p to q, without a share `margin` at both ends.

    The other arguments are those of `BVH.visible`.
    """

    fields: ClassVar[dict[str, str]] = {"p": "origins", "q": "directions", "mask": "mask"}

    def __init__(
        self, owner: Any, p: Any, q: Any, margin: float, mask: Any, cull: Cull | None
    ) -> None:
        self.margin = checked_margin(margin)
        super().__init__(owner, (p, q, mask), cull)

    @staticmethod
    def batch(p: Any, q: Any, mask: Any) -> Any:
        """Return ((p, q, mask), shape): checked rows of numpy's arrays, and their leading shape."""
        start, end = arguments.points("p", p), arguments.points("q", q)
        arguments.common_shape(p=start.shape[:-1], q=end.shape[:-1])
        rays, shape = ray_batch(start, end, 0.0, 1.0, mask)
        return (rays.origins, rays.directions, rays.masks), shape

    def seen(self) -> Any:
        """Return which pairs of points see each other."""
        return self.columns(["truth"], lambda _: self._seen())["truth"]

    def _seen(self) -> Any:
        """Return a `Columns` with `truth`: which pairs of ends see each other.

        At first `rays` has p as origins and q as directions; here it gets the lines between them.
        """
        ends, n, there = self.rays, self.count, self.device
        lines, finite = DeviceRays(), wp.empty(n, dtype=wp.bool, device=there)
        lines.origins, lines.mask = ends.origins, ends.mask
        lines.directions = wp.empty(n, dtype=wp.vec3d, device=there)
        lines.t_min = wp.empty(n, dtype=wp.float64, device=there)
        lines.t_max = wp.empty(n, dtype=wp.float64, device=there)
        self.launch(_write_lines, ends.directions, self.margin, lines, finite)
        self.rays = lines
        result = self._traced(marks.ANY, self.empty(["truth"], n))
        self.launch(_write_seen, finite, result.truth)
        return result


# A direction close to an axis, in general position: components along it and the next two axes.
AHEAD, ACROSS, ASLANT = (wp.float64(x) for x in ASIDE)


@wp.kernel
def write_ways_out(
    lower: wp.vec3d, upper: wp.vec3d, points: wp.array(dtype=wp.vec3d),
    directions: wp.array(dtype=wp.vec3d),
):  # fmt: skip
    """Write for each point the direction, of six close to the axes, that leaves the box soonest.

    The box lower..upper is that of the mesh: rays that leave it soon meet few triangles.
    """
    i = wp.tid()
    to_lower, to_upper = points[i] - lower, upper - points[i]
    best, axis, sign = wp.float64(INF), int(0), wp.float64(-1.0)
    for k in range(6):
        depth = wp.where(k < 3, to_lower[k % 3], to_upper[k % 3])
        if depth < best:
            best, axis, sign = depth, k % 3, wp.where(k < 3, -ONE, ONE)
    d = wp.vec3d()
    d[axis] = sign * AHEAD
    d[(axis + 1) % 3] = sign * ACROSS
    d[(axis + 2) % 3] = sign * ASLANT
    directions[i] = d


@wp.kernel
def note_inside(
    turn: int, found: Columns, directions: wp.array(dtype=wp.vec3d), inside: wp.array(dtype=wp.bool)
):  # fmt: skip
    """Write to `inside` which points are inside: at turn 0, by the parity of `found.counts`.

    Later turns add points on a face: their rays, of length 0, hit it, as `found.truth` tells. They
    also rotate the components of `directions` for the next turn.
    """
    i = wp.tid()
    if turn == 0:
        inside[i] = found.counts[i] % wp.int64(2) == wp.int64(1)
    else:
        d = directions[i]
        inside[i] = inside[i] or found.truth[i]
        directions[i] = wp.vec3d(d[2], d[0], d[1])


@wp.kernel
def negate_inside(distance: wp.array(dtype=wp.float64), inside: wp.array(dtype=wp.bool)):
    """Negate the distances of points that are `inside`, except 0, infinite ones and NaN."""
    i = wp.tid()
    d = distance[i]
    if inside[i] and d > ZERO and d < INF:
        distance[i] = -d


class PointCall(Call):
    """A query of points by `owner`, a `DeviceBVH`, within the largest distances `limits`.

    Faces count if they share a bit with `mask`; None has all bits.
    """

    def __init__(self, owner: Any, points: Any, limits: Any, mask: int | None) -> None:
        self.mask, bits = mask, one_mask(mask)

        def batch(points: Any, limits: Any, _: Any) -> Any:
            checked = point_batch(points, limits)
            return (checked.points, checked.limits, np.array([bits], np.int32)), checked.shape

        fields = {"points": "origins", "max_distance": "t_max", "mask": "mask"}
        super().__init__(owner, fields, (points, limits, mask), batch)

    def closest(self) -> ClosestPoints:
        return ClosestPoints(**self.columns(NEAREST, lambda _: self._nearest(NEAREST)))

    def distances(self) -> Any:
        return self.columns(["distance"], lambda _: self._nearest(["distance"]))["distance"]

    def inside(self) -> Any:
        """Return for each point whether it is inside or on the surface."""
        return self.columns(["truth"], lambda _: self._inside(surface=True))["truth"]

    def signed(self) -> Any:
        """Return the distances of the points from the surface, negative inside."""
        return self.columns(["distance"], lambda _: self._signed())["distance"]

    def _signed(self) -> Any:
        """Return a `Columns` with the distances of the present chunk, negative inside."""
        result, within = self._nearest(["distance"]), self._inside(surface=False)
        self.launch(negate_inside, result.distance, within.truth)
        return result

    def _nearest(self, names: Names) -> Any:
        """Return a `Columns` of the present chunk with columns `names` of closest points."""
        result, query = self.empty(names, self.count), RayQuery()
        query.goal = marks.NEAREST
        undecided = self.trace(result, self.rays, query)

        def by_cpu() -> dict[str, Any]:
            points, limits = (self.selected(name, undecided) for name in ("origins", "t_max"))
            near = self.host.closest_point(points, limits, mask=self.mask)
            return {name: getattr(near, name) for name in names}

        self.settle(result, undecided, by_cpu, undecided)
        return result

    def _inside(self, surface: bool) -> Any:
        """Return a `Columns` with `truth`: whether points are inside or, with `surface`, on it."""
        result, rays, query = self.empty(["truth"], self.count), DeviceRays(), RayQuery()
        undecided, found = np.empty(0, np.int32), Columns()
        found.counts = wp.empty(self.count, dtype=wp.int64, device=self.device)
        found.truth = wp.empty(self.count, dtype=wp.bool, device=self.device)
        # The box of the mesh in the world, from local coordinates.
        tree = self.target.top
        box = np.array([tree.lower, tree.upper]) * 2.0**-tree.exponent + tree.centre
        corners = (wp.vec3d(*row) for row in box)
        rays.origins, rays.mask = self.rays.origins, self.rays.mask
        rays.directions = wp.empty(self.count, dtype=wp.vec3d, device=self.device)
        self.launch(write_ways_out, *corners, rays.origins, rays.directions)
        # At turn 0 crossings are counted. At later turns rays have t = 0 alone, so that they hit a
        # face that their point is on, unless they are parallel to it, which not all three can be.
        for turn in range(4 if surface else 1):
            limits = (0.0, 0.0) if turn else (SMALLEST.value, np.inf)
            rays.t_min, rays.t_max = (one_number(t, wp.float64, self.device.alias) for t in limits)
            query.goal, query.once = (marks.ANY, 0) if turn else (marks.COUNT, 1)
            undecided = np.union1d(undecided, self.trace(found, rays, query))
            self.launch(note_inside, turn, found, rays.directions, result.truth)

        def by_cpu() -> dict[str, Any]:
            target = point_target(self.host, "contains", self.mask)
            points = self.selected("origins", undecided)
            return {"truth": target.inside(points, thread_count(None), surface=surface)}

        self.settle(result, undecided, by_cpu, undecided)
        return result
