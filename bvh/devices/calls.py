"""Queries on a device: arguments, kernels, and answers; the CPU answers what kernels leave open."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.exchange import KINDS, given, is_on_device, on_host, one_number, read, stream_of
from bvh.devices.point_kernels import negate_inside, note_inside, point_out
from bvh.devices.stages import marks
from bvh.devices.stages.work import Columns, DeviceRays, RayQuery
from bvh.devices.transfers import DISTANCES, HIT_COLUMNS, PLACE_COLUMNS, SCENE_COLUMNS, Call, Kinds
from bvh.geometry.arithmetic.floats import SMALLEST
from bvh.queries.query_arguments import edge_rule, one_mask, point_batch, ray_batch
from bvh.queries.results import AllHits, ClosestPoints, Hits
from bvh.queries.targets import point_target
from bvh.runtime.arguments import (
    ALL_BITS,
    Cull,
    EdgeRule,
    bit_masks,
    cull_code,
    thread_count,
    whole_number,
)

Answer = TypeVar("Answer")
# Arrays of rays: their types, and the width of their rows.
RAYS = (
    ("origins", np.float64, 3), ("directions", np.float64, 3), ("t_min", np.float64, 0),
    ("t_max", np.float64, 0), ("mask", np.int32, 0),
)  # fmt: skip


class RayCall(Call):
    """A query of rays (origins, directions, t_min, t_max, mask), as the caller gave them."""

    def __init__(
        self, owner: Any, rays: tuple[Any, ...], cull: Cull | None, edges: EdgeRule = "closed"
    ) -> None:
        super().__init__(owner, *rays)
        self.cull, self.edges = cull, edges
        self.names = SCENE_COLUMNS if owner.is_scene else HIT_COLUMNS
        self.query = RayQuery()
        self.query.cull, self.query.once = cull_code(cull), int(edge_rule(edges))
        if self.like is None:
            rays, self.shape = ray_batch(*rays)
            self.rows_of, self.shared = {}, {}
            value: Any
            for (name, kind, _), value in zip(RAYS, rays, strict=True):
                if value.size == 1:
                    self.shared[name] = one_number(value.item(), KINDS[kind], self.device.alias)
                else:
                    self.rows_of[name] = value
        else:
            if not is_on_device(rays[4]):
                mask = bit_masks("mask", ALL_BITS if rays[4] is None else rays[4])
                rays = (*rays[:4], mask.view(np.int32))
            self.rays, shapes = DeviceRays(), {}
            with stream_of(self.like, self.device):
                for (name, kind, width), value in zip(RAYS, rays, strict=True):
                    array, shapes[name] = read(name, value, self.device, kind, width)
                    setattr(self.rays, name, array)
            self.shape = _shape_of(shapes)
        self.count = int(np.prod(self.shape))

    def closest(self) -> Hits:
        """Return the closest hits."""
        return self._located(Hits, self._of_rays(marks.CLOSEST, self.names))

    def any(self) -> Any:
        """Return whether each ray hits anything."""
        return self._of_rays(marks.ANY, {"truth": np.bool_})["truth"]

    def counts(self) -> Any:
        """Return the number of hits of each ray."""
        return self._of_rays(marks.COUNT, {"counts": np.int64})["counts"]

    def _of_rays(self, goal: int, kinds: Kinds) -> dict[str, Any]:
        """Return columns, one answer a ray."""
        return self.columns(kinds, lambda _: self._traced(goal, kinds))

    def _traced(self, goal: int, kinds: Kinds) -> Any:
        """Trace the rays; return the columns of the result."""
        self.query.goal = int(goal)
        result = self.empty(kinds, self.count)
        undecided = self.trace(result, self.rays, self.query)
        self.owner.undecided += len(undecided)
        if len(undecided):
            rays = self._selected(undecided)
            if goal == marks.COUNT:
                answers = {"counts": self.host.count_hits(**rays, edges=self.edges)}
            elif goal == marks.ANY:
                answers = {"truth": self.host.any_hit(**rays)}
            else:
                hits = self.host.closest_hit(**rays)
                answers = {name: getattr(hits, name) for name in self.names}
            self.write(result, undecided, answers)
        return result

    def _located(self, kind: type[Answer], columns: dict[str, Any]) -> Answer:
        """Return hits, an object of class `kind`, which can compute positions and normals."""
        hits = kind(**columns)
        vars(hits)["_source"] = self.owner._hit_source()
        return hits

    def _selected(self, undecided: NDArray[np.int32]) -> dict[str, Any]:
        """Return some of the rays, as arguments of a query on the CPU."""
        names = ("origins", "directions", "t_min", "t_max")
        rays: dict[str, Any] = {
            name: self.rows(getattr(self.rays, name), undecided) for name in names
        }
        rays["origins"] = np.broadcast_to(rays["origins"], (len(undecided), 3))
        # Without a mask, if all bits are set, a query is faster.
        bits = self.rows(self.rays.mask, undecided).view(np.uint32)
        return rays | {"mask": None if (bits == ALL_BITS).all() else bits, "cull": self.cull}

    def listed(self, limit: int | None) -> AllHits:
        """Return all hits of the rays, or the first `limit` of each: count first, then list."""
        most = None if limit is None else whole_number("max_hits", limit)
        counts = np.ravel(on_host(self.counts()))
        offsets = np.r_[0, np.cumsum(counts if most is None else np.minimum(counts, most))]
        # The call is made once more.
        self.owner.undecided, self.count = 0, len(counts)
        columns = self.columns(self.names, lambda part: self._lists(part, offsets, limit), offsets)
        shared = given(self._offsets(offsets), (len(offsets),), self.like)
        return self._located(AllHits, columns | {"offsets": shared, "shape": self.shape})

    def _offsets(self, offsets: NDArray[np.int64]) -> Any:
        return wp.array(offsets, dtype=wp.int64, device=self.device)

    def _lists(self, part: slice, offsets: NDArray[np.int64], limit: int | None) -> Any:
        """List the hits of a range of rays; return the columns of the result."""
        own = offsets[part.start : part.stop + 1] - offsets[part.start]
        # Hits are sorted by their leaves, even if no result has them.
        result = self.empty(self.names | {"leaf": np.int32}, int(own[-1]))
        result.offsets, self.query.goal = self._offsets(own), int(marks.LIST)
        undecided = self.trace(result, self.rays, self.query)
        self.owner.undecided += len(undecided)
        if len(undecided):
            hits = self.host.all_hits(**self._selected(undecided), max_hits=limit, edges=self.edges)
            places = np.concatenate([np.arange(own[i], own[i + 1]) for i in undecided])
            if len(places):
                self.write(result, places, {name: getattr(hits, name) for name in self.names})
        return result


def _shape_of(shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the leading shape of rays; arrays of one item are for all."""
    several = {name: shape for name, shape in shapes.items() if np.prod(shape) != 1}
    shape = max(several.values() or shapes.values(), key=len)
    for name, own in several.items():
        if own != shape:
            raise ValueError(
                f"{name} must have the leading shape {shape} of other rays or be one for all, "
                f"got {own}"
            )
    return shape


class PointCall(Call):
    """A point query: its arguments on the device, and its results."""

    def __init__(self, owner: Any, points: Any, limits: Any, mask: int | None) -> None:
        super().__init__(owner, points, limits)
        self.mask, self.bits = mask, one_mask(mask)
        bits = one_number(self.bits, wp.int32, self.device.alias)
        if self.like is None:
            batch = point_batch(points, limits)
            self.rows_of, self.shared = {"origins": batch.points}, {"mask": bits}
            self.shape = batch.shape
            if len(batch.limits) == 1:
                self.shared["t_max"] = one_number(
                    batch.limits.item(), wp.float64, self.device.alias
                )
            else:
                self.rows_of["t_max"] = batch.limits
        else:
            self.rays = DeviceRays()
            self.rays.mask = bits
            with stream_of(self.like, self.device):
                self.rays.origins, self.shape = read("points", points, self.device, np.float64, 3)
                self.rays.t_max, wide = read("max_distance", limits, self.device, np.float64)
            if wide not in (self.shape, ()):
                raise ValueError(
                    f"max_distance must have shape {self.shape} or be one number, got {wide}"
                )
        self.count = int(np.prod(self.shape))

    def _selected(self, undecided: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return some of the points, with a leading axis."""
        result: NDArray[np.float64] = self.rows(self.rays.origins, undecided).reshape(-1, 3)
        return result

    def closest(self) -> ClosestPoints:
        """Return the closest points."""
        return ClosestPoints(**self.columns(PLACE_COLUMNS, lambda _: self._nearest(PLACE_COLUMNS)))

    def distances(self) -> Any:
        """Return distances."""
        return self.columns(DISTANCES, lambda _: self._nearest(DISTANCES))["distance"]

    def inside(self) -> Any:
        """Return which points are inside or on the surface."""
        return self.columns({"truth": np.bool_}, lambda _: self._inside(surface=True))["truth"]

    def signed(self) -> Any:
        """Return signed distances."""
        return self.columns(DISTANCES, lambda _: self._signed())["distance"]

    def _signed(self) -> Any:
        """Return a struct with a column of signed distances."""
        result, within = self._nearest(DISTANCES), self._inside(surface=False)
        with stream_of(self.like, self.device):
            columns = [result.distance, within.truth]
            wp.launch(negate_inside, self.count, inputs=columns, device=self.device)
        return result

    def _nearest(self, kinds: Kinds) -> Any:
        """Return a struct with columns `kinds` of closest points."""
        result, query = self.empty(kinds, self.count), RayQuery()
        query.goal = int(marks.NEAREST)
        undecided = self.trace(result, self.rays, query)
        self.owner.undecided += len(undecided)
        if len(undecided):
            points, limits = self._selected(undecided), self.rows(self.rays.t_max, undecided)
            near = self.host.closest_point(points, limits, mask=self.mask)
            self.write(result, undecided, {name: getattr(near, name) for name in kinds})
        return result

    def _inside(self, surface: bool) -> Any:
        """Return a struct with a column: points inside or, with `surface`, on the surface."""
        result, rays, query = self.empty({"truth": np.bool_}, self.count), DeviceRays(), RayQuery()
        found, undecided = Columns(), np.empty(0, np.int32)
        found.counts = wp.empty(self.count, dtype=wp.int64, device=self.device)
        found.truth = wp.empty(self.count, dtype=wp.bool, device=self.device)
        # The box of the mesh in the world, by which kernels choose directions of rays.
        tree = self.target.top
        box = np.array([tree.lower, tree.upper]) * 2.0**-tree.exponent + tree.centre
        corners = (wp.vec3d(*row) for row in box)
        rays.origins, rays.mask = self.rays.origins, self.rays.mask
        rays.directions = wp.empty(self.count, dtype=wp.vec3d, device=self.device)
        with stream_of(self.like, self.device):
            outward = [*corners, rays.origins, rays.directions]
            wp.launch(point_out, self.count, inputs=outward, device=self.device)
        # First parity; then, by rays of length 0, whether points are on a face. Such a ray misses a
        # face that it lies in, but no face contains three directions.
        for turn in range(4 if surface else 1):
            limits = (0.0, 0.0) if turn else (SMALLEST, np.inf)
            rays.t_min, rays.t_max = (one_number(t, wp.float64, self.device.alias) for t in limits)
            query.goal, query.once = (int(marks.ANY), 0) if turn else (int(marks.COUNT), 1)
            undecided = np.union1d(undecided, self.trace(found, rays, query))
            with stream_of(self.like, self.device):
                noted = [turn, found, rays.directions, result.truth]
                wp.launch(note_inside, self.count, inputs=noted, device=self.device)
        self.owner.undecided += len(undecided)
        if len(undecided):
            target = point_target(self.host, "contains", self.mask)
            within = target.inside(self._selected(undecided), thread_count(None), surface=surface)
            self.write(result, undecided, {"truth": within})
        return result
