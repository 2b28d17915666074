"""Targets of queries of a mesh in parts: parts are searched near to far, and answers merged.

The closest hit is the least of all parts by (t, id): each is searched up to and including the
least t of the parts before, so that the lowest id of equal t wins. So is the closest point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.merging import Columns, Floats, Kinds, MergedAnswers, MergedLists, Rows
from bvh.distributed.out_of_core.open_parts import OpenPart
from bvh.distributed.out_of_core.part_visits import PartVisits, rays_of, some_of
from bvh.geometry.arithmetic.floats import SMALLEST
from bvh.queries.batches.containment import ASIDE, on_surface, ways_out
from bvh.queries.batches.ray_batches import RaySearch
from bvh.queries.batches.winding import FEW, above_half, add_angles, boundary_for, ways_of
from bvh.queries.hierarchy import BVH
from bvh.queries.query_arguments import Filter, PointBatch, RayBatch, RayOptions, ray_batch
from bvh.queries.results import AllHits, ClosestPoints, Hits, Overlaps
from bvh.queries.targets import point_target, region_target
from bvh.queries.verbs import Merge, Verb, verb_of
from bvh.runtime import arguments
from bvh.runtime.arguments import ALL_BITS, CountResult, Cull, TruthResult
from bvh.runtime.calls.user_calls import UserCall
from bvh.runtime.progress_bars import Progress
from bvh.tree.boundary import Loops, edges_of, loops_of
from bvh.tree.primitives import Triangles

# Many kernels, which only some queries need.
if TYPE_CHECKING:
    from bvh.traversal.regions.regions import Regions

# The column of hits and closest points that has the number of the part of each.
PART: Kinds = {"part": np.int32}

# Refusals of options.
NO_FILTER = "filter must be None for parts, got {!r}"
NO_COUNTERS = "counters must be False for parts: the cost is that of one tree"


class PartRays(NamedTuple):
    """Target of rays, which answers as one tree over the faces of all parts (see `RayTarget`)."""

    visits: PartVisits

    def side_to_cull(self, cull: Cull | None) -> int:
        """As in `RayTarget`."""
        return arguments.cull_code(cull)

    def filter_call(self, function: Filter, data: object) -> UserCall:
        """Raise a ValueError: a filter would be called with ids in parts, not in the mesh."""
        raise ValueError(NO_FILTER.format(function))

    def closest_hits(self, batch: RayBatch, options: RayOptions, counters: bool) -> Hits:
        """As in `RayTarget`; raise a ValueError for `counters`."""
        if counters:
            raise ValueError(NO_COUNTERS)
        hits: Hits = self._answer(BVH.closest_hit, RaySearch.closest_hits, batch, options, False)
        return hits

    def any_hits(self, batch: RayBatch, options: RayOptions) -> TruthResult:
        """As in `RayTarget`."""
        return self._answer(BVH.any_hit, RaySearch.any_hits, batch, options)

    def count_hits(self, batch: RayBatch, options: RayOptions, once: bool) -> CountResult:
        """As in `RayTarget`."""
        return self._answer(BVH.count_hits, RaySearch.count_hits, batch, options, once)

    def signed_hits(self, batch: RayBatch, options: RayOptions) -> NDArray[np.int64]:
        """Return how many more faces each ray crosses from their back than from their front."""
        counts = self._answer(BVH.count_hits, RaySearch.signed_hits, batch, options)
        return np.asarray(counts, np.int64).reshape(-1)

    def all_hits(
        self, batch: RayBatch, options: RayOptions, once: bool, limit: int | None
    ) -> AllHits:
        """As in `RayTarget`."""
        hits: AllHits = self._answer(BVH.all_hits, RaySearch.all_hits, batch, options, once, limit)
        return hits

    def _answer(
        self, query: Callable[..., Any], search: Callable[..., Any], batch: RayBatch,
        options: RayOptions, *rest: Any,
    ) -> Any:  # fmt: skip
        """Return the result of a query, merged from all parts that may change it.

        `query` is the method of `BVH`. ``search(part, rays, options, *rest)`` is the method of
        `RaySearch` that answers it for a part; if it lists hits, the last of `rest` is the largest
        number of hits of a ray, or None.
        """
        verb, part_options = declared(query), options._replace(progress=None)
        extra, lists = PART if verb.record else {}, None
        if verb.merge is Merge.LISTS:
            keys = "ray_id", "t", "prim_id"
            lists = MergedLists(verb, keys, batch.size, rest[-1], extra)
        answers = lists or MergedAnswers(verb, (batch.size,), extra)

        finish = lists.finish if lists else None
        for part, rows in self.visits.of_rays(batch, options, answers.reach, finish):
            # Rays end at the answer so far, inclusive: hits of equal t are found, and decided by
            # the id.
            some = rays_of(batch, rows, answers.reach(rows))
            answer = search(part.ray_search(), some, part_options, *rest)
            columns: Columns = {verb.name: answer}
            if verb.record is not None:
                columns = part.columns_of(answer)
            if lists is not None:
                columns["ray_id"] = answer.ray_id
            answers.take(columns, rows)

        columns = answers.result(batch.shape)
        if verb.record is None:
            return columns[verb.name]
        return self.located(verb.record, columns, flat=lists is not None)

    def located(self, record: type[Any], columns: Columns, flat: bool = False) -> Any:
        """Return the `record` of `columns`, with the source of its positions and normals."""
        part_of = np.asarray(columns.pop("part"), np.int32)
        result = record(**columns)
        # The parts, no count of moves, and the part of each hit, in a row for each unless `flat`.
        vars(result)["_source"] = self.visits.opened, 0, (part_of if flat else part_of[..., None],)
        return result


class PartPoints(NamedTuple):
    """Target of points (see `PointTarget`): the faces of all parts that count for `mask`, an int32.

    `rays` is the target of rays, `bounds` (2, 3) the box of all parts, and `query` the name of the
    query that is answered.
    """

    rays: PartRays
    bounds: Floats
    query: str
    mask: int

    def closest_points(
        self, batch: PointBatch, count: int | None, threads: int, progress: Progress | None
    ) -> ClosestPoints:
        """As in `PointTarget`."""
        several = () if count is None else (count,)
        answers = MergedAnswers(declared(BVH.closest_point), (batch.size, *several), PART)
        for part, rows, some in self._nearby(batch, answers, progress, count):
            near = self._target_of(part).closest_points(some, count, threads, None)
            answers.take(part.columns_of(near), rows)
        result: ClosestPoints = self.rays.located(ClosestPoints, answers.result(batch.shape))
        return result

    def distances(self, batch: PointBatch, threads: int, progress: Progress | None) -> Floats:
        """As in `PointTarget`."""
        answers = MergedAnswers(declared(BVH.distance), (batch.size,))
        for part, rows, some in self._nearby(batch, answers, progress):
            near = self._target_of(part).distances(some, threads, None)
            answers.take({"distance": near}, rows)
        return answers.columns["distance"]

    def inside(
        self, points: Floats, threads: int, progress: Progress | None = None, *,
        surface: bool = True,
    ) -> NDArray[np.bool_]:  # fmt: skip
        """As in `PointTarget`."""
        answers = np.asarray(self.crossings(points, threads, progress) & 1 == 1)
        if surface:
            outside = np.flatnonzero(~answers)
            answers[outside] = self.touched(points[outside], threads)
        return answers

    def crossings(self, points: Floats, threads: int, progress: Progress | None = None) -> Rows:
        """Return how many faces the ray from each point to the outside crosses."""
        # The direction of a ray follows from the frame of the tree, and this from its box: a tree
        # over the box of all parts has the same frame as one tree over all faces.
        box = BVH.from_boxes(*self.bounds[:, None], warn=False)
        directions = ways_out(box.arrays, points)
        # From just above 0 on, so that a face that a point is on is not crossed.
        batch = ray_batch(points, directions, t_min=SMALLEST, mask=_bits_of(self.mask))
        options = RayOptions(threads=threads, progress=progress)
        return np.asarray(self.rays.count_hits(batch, options, once=True))

    def touched(self, points: Floats, threads: int) -> NDArray[np.bool_]:
        """Return which points (n, 3) are on a face."""
        directions = np.tile(ASIDE, (len(points), 1))
        batch = ray_batch(points, directions, mask=_bits_of(self.mask))
        return on_surface(self.rays, batch, threads)

    def winding_numbers(
        self, points: Floats, accuracy: float, threads: int, progress: Progress | None = None
    ) -> Floats:
        """As in `PointTarget`: by a series for finite `accuracy` and many open edges."""
        loops = self._boundary()
        if accuracy < np.inf and loops.size > FEW:
            return self._approximate(points, accuracy, threads, progress)
        directions = ways_of(points, loops, arguments.kernel_input(self.bounds.reshape(-1)))
        batch = ray_batch(points, directions, mask=_bits_of(self.mask))
        options = RayOptions(threads=threads, progress=progress)
        numbers = self.rays.signed_hits(batch, options).astype(np.float64)
        add_angles(loops, batch.rays.origins, directions, numbers, threads)
        return numbers

    def inside_by_winding(
        self, points: Floats, threads: int, progress: Progress | None = None
    ) -> NDArray[np.bool_]:
        """As in `PointTarget`."""
        return above_half(self.winding_numbers, self._boundary(), points, threads, progress)

    def _approximate(
        self, points: Floats, accuracy: float, threads: int, progress: Progress | None
    ) -> Floats:
        """Return winding numbers of points (n, 3), summed over parts that each use a series."""
        numbers, visits = np.where(np.isfinite(points).all(axis=1), 0.0, np.nan), self.rays.visits
        for number, *_ in visits.in_order(self.mask, len(points), progress):
            target = self._target_of(visits.opened.part(number))
            numbers += target.winding_numbers(points, accuracy, threads)
        return numbers

    def _boundary(self) -> Loops:
        """Return the boundary of the faces of all parts that share a bit with `mask`, cached."""
        visits, edges = self.rays.visits, [np.empty((0, 2, 3))]
        if self.mask not in visits.boundaries:
            for number, *_ in visits.in_order(self.mask):
                edges.append(edges_of(boundary_for(visits.opened.part(number).tree, self.mask)))
            visits.boundaries[self.mask] = loops_of(np.concatenate(edges), self.bounds)
        return visits.boundaries[self.mask]

    def _nearby(
        self, batch: PointBatch, answers: MergedAnswers, progress: Progress | None,
        count: int | None = None,
    ) -> Iterator[tuple[OpenPart, Rows, PointBatch]]:  # fmt: skip
        """Yield (part, rows, their points) for parts that may change `answers`.

        `count` is the number of closest points that each point asks for, None for one.
        """
        visits, reach = self.rays.visits, answers.reach
        for part, rows in visits.of_points(batch, progress, reach, count, self.mask):
            far = reach(rows)
            assert far is not None
            limits = arguments.kernel_input(np.minimum(some_of(batch.limits, rows), far))
            yield part, rows, PointBatch(some_of(batch.points, rows), limits, (len(rows),))

    def _target_of(self, part: OpenPart) -> Any:
        """Return the target of points of a part's tree."""
        return point_target(part.tree, self.query, _bits_of(self.mask))


class PartRegions(NamedTuple):
    """Target of regions: the faces of all parts that count for `mask`, an int32.

    `bounds` (2, 3) is the box of all parts, and `query` the name of the query.
    """

    visits: PartVisits
    bounds: Floats
    query: str
    mask: int

    def overlaps(
        self, regions: Regions, shape: tuple[int, ...], threads: int | None,
        progress: Progress | None,
    ) -> Overlaps:  # fmt: skip
        """As in `RegionTarget`; ids ascend."""
        # The first column of regions has a row for each region.
        size, workers = len(regions[0]), arguments.thread_count(threads)
        answers = MergedLists(declared(BVH.overlap_box), ("query_id", "prim_id"), size)
        for number, low, high in self.visits.in_order(self.mask, size, progress):
            rows = np.flatnonzero(_may_meet(regions, low, high))
            if len(rows) == 0:
                continue
            part = self.visits.opened.part(number)
            target = region_target(part.tree, self.query, _bits_of(self.mask), (Triangles,))
            # The shape of polytopes is common to all, and not a column.
            columns = {name: c[rows] for name, c in regions._asdict().items() if name != "shape"}
            met = target.overlaps(regions._replace(**columns), (len(rows),), workers, None)
            answers.take({"query_id": met.query_id, "prim_id": part.ids_of(met.prim_id)}, rows)
        answers.finish()
        return Overlaps(**answers.result(shape))


def declared(query: Callable[..., object]) -> Verb:
    """Return the declaration that the decorator `verb` gave a query."""
    verb = verb_of(query)
    assert verb is not None
    return verb


def _bits_of(mask: int) -> int | None:
    """Return a mask, an int32, as queries take it: 32 unsigned bits, or None for all bits."""
    return None if mask == -1 else mask & ALL_BITS


def _may_meet(regions: Regions, low: Floats, high: Floats) -> NDArray[np.bool_]:
    """Return which of n regions, a mask (n,), may meet the box from `low` (3,) to `high` (3,)."""
    from bvh.traversal.regions.regions import BoxRegions, SphereRegions

    if isinstance(regions, BoxRegions):
        return np.asarray(((regions.lower <= high) & (regions.upper >= low)).all(axis=1))
    with np.errstate(all="ignore"):
        if isinstance(regions, SphereRegions):
            # Rounded gaps are at most the radius if exact ones are: rounding is monotonic.
            gaps = np.maximum(low - regions.center, regions.center - high)
            return np.asarray(gaps.max(axis=1) <= regions.radius)
        # A polytope: x inside has normal * x + offset >= 0 for all planes. `highest` is the largest
        # value of this sum in the box.
        normals, offsets = regions.planes[..., :3], regions.planes[..., 3]
        terms = np.maximum(normals * low, normals * high)
        highest = terms.sum(axis=-1) + offsets
        # Bounds the error of `highest`: seven roundings of 2**-53 each, and denormal products.
        margin = 2.0**-49 * (np.abs(terms).sum(axis=-1) + np.abs(offsets)) + 2.0**-1070
        return np.asarray(~(highest < -margin).any(axis=-1))
