"""Queries on a device: arguments, kernels, and answers; the CPU answers what kernels leave open."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.exchange import KINDS, given, is_on_device, library_of, read, stream_of
from bvh.devices.point_kernels import negate_inside, note_inside, point_out
from bvh.devices.stages import marks
from bvh.devices.stages.work import Columns, DeviceRays, RayQuery
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
Kinds = dict[str, type[np.generic]]
# Arrays of rays: their types, and the width of their rows.
RAYS = (
    ("origins", np.float64, 3), ("directions", np.float64, 3), ("t_min", np.float64, 0),
    ("t_max", np.float64, 0), ("mask", np.int32, 0),
)  # fmt: skip
HIT_COLUMNS: Kinds = {
    "t": np.float64, "prim_id": np.int32, "u": np.float64, "v": np.float64, "front": np.bool_,
}  # fmt: skip
SCENE_COLUMNS: Kinds = HIT_COLUMNS | {"instance_id": np.int32, "leaf": np.int32}
PLACE_COLUMNS: Kinds = {
    "distance": np.float64, "position": np.float64, "prim_id": np.int32, "u": np.float64,
    "v": np.float64,
}  # fmt: skip


class Call:
    """Base class of a query of rays or points by `owner`, a tree or scene on a device.

    Kernels list the rays or points that they do not decide; the CPU answers these. `like` is the
    argument whose library the answers are in, None for numpy.
    """

    # The leading shape of the rays or points, and their number.
    shape: tuple[int, ...]
    count: int

    def __init__(self, owner: Any, *given: Any) -> None:
        self.owner, self.device, self.like = owner, owner.device, library_of(*given)
        # All kernels of the call, and the CPU, query this state, even if the tree changes.
        self.target = owner._state()

    @property
    def host(self) -> Any:
        """What is searched, on the CPU."""
        return self.owner._snapshot()

    def empty(self, result: Any, kinds: Kinds, count: int) -> Any:
        """Give the struct `result` new columns for `count` answers; return it."""
        for name, kind in kinds.items():
            dtype = wp.vec3d if name == "position" else KINDS[kind]
            setattr(result, name, wp.empty(count, dtype=dtype, device=self.device))
        return result

    def trace(self, result: Any, rays: Any, query: Any) -> NDArray[np.int32]:
        """Answer rays or points in stages; return the indices of those not decided."""
        with stream_of(self.like, self.device):
            undecided: NDArray[np.int32] = self.owner.stages.trace(
                self.target, rays, query, result, self.count
            )
        self.owner.undecided = len(undecided)
        return undecided

    def rows(self, array: Any, undecided: NDArray[np.int32]) -> NDArray[Any]:
        """Return rows of an array on the device; if it has one row for all, that one."""
        if array.shape[0] > 1:
            array = array[wp.array(undecided, dtype=wp.int32, device=self.device)].contiguous()
        result: NDArray[Any] = array.numpy()
        return result

    def write(self, result: Any, places: NDArray[np.int32], answers: dict[str, Any]) -> None:
        """Write the CPU's answers, by column, into the rows `places` of the struct `result`."""
        where = wp.array(places, dtype=wp.int32, device=self.device)
        with stream_of(self.like, self.device):
            for name, values in answers.items():
                column = getattr(result, name)
                fresh = wp.array(np.asarray(values), dtype=column.dtype, device=self.device)
                wp.copy(column[where], fresh)

    def given(self, result: Any, name: str) -> Any:
        """Return a column in the shape of the rays or points and the library of the arguments."""
        return given(getattr(result, name), self.shape, self.like, 3 if name == "position" else 0)


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
        elif not is_on_device(rays[4]):
            mask = bit_masks("mask", ALL_BITS if rays[4] is None else rays[4])
            rays = (*rays[:4], mask.view(np.int32))
        self.rays, shapes = DeviceRays(), {}
        with stream_of(self.like, self.device):
            for (name, kind, width), value in zip(RAYS, rays, strict=True):
                array, shapes[name] = read(name, value, self.device, kind, width)
                setattr(self.rays, name, array)
        if self.like is not None:
            self.shape = _shape_of(shapes)
        self.count = int(np.prod(self.shape))

    def closest(self) -> Hits:
        """Return the closest hits."""
        result = self._traced(marks.CLOSEST, self.names)
        return self._located(Hits, {name: self.given(result, name) for name in self.names})

    def any(self) -> Any:
        """Return whether each ray hits anything."""
        return self.given(self._traced(marks.ANY, {"truth": np.bool_}), "truth")

    def counts(self) -> Any:
        """Return the number of hits of each ray."""
        return self.given(self._traced(marks.COUNT, {"counts": np.int64}), "counts")

    def _traced(self, goal: int, kinds: Kinds) -> Any:
        """Trace the rays; return the columns of the result."""
        self.query.goal = int(goal)
        result = self.empty(Columns(), kinds, self.count)
        undecided = self.trace(result, self.rays, self.query)
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
        vars(hits)["_source"] = self.owner._source()
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
        counts = self._traced(marks.COUNT, {"counts": np.int64}).counts.numpy()
        if most is not None:
            counts = np.minimum(counts, most)
        offsets = np.r_[0, np.cumsum(counts)]
        # Hits are sorted by their leaves, even if no result has them.
        kinds = self.names | {"leaf": np.int32}
        result = self.empty(Columns(), kinds, int(offsets[-1]))
        result.offsets = wp.array(offsets, dtype=wp.int64, device=self.device)
        self.query.goal = int(marks.LIST)
        undecided = self.trace(result, self.rays, self.query)
        if len(undecided):
            hits = self.host.all_hits(**self._selected(undecided), max_hits=limit, edges=self.edges)
            places = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in undecided])
            if len(places):
                self.write(result, places, {name: getattr(hits, name) for name in self.names})
        total = (int(offsets[-1]),)
        fields = {name: given(getattr(result, name), total, self.like) for name in self.names}
        fields["offsets"] = given(result.offsets, (len(offsets),), self.like)
        return self._located(AllHits, fields | {"shape": self.shape})


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
        if self.like is None:
            batch = point_batch(points, limits)
            points, limits = batch.points, batch.limits
        with stream_of(self.like, self.device):
            self.points, lead = read("points", points, self.device, np.float64, 3)
            self.limits, wide = read("max_distance", limits, self.device, np.float64)
        self.shape = batch.shape if self.like is None else lead
        if self.like is not None and wide not in (lead, ()):
            raise ValueError(f"max_distance must have shape {lead} or be one number, got {wide}")
        self.count = int(np.prod(self.shape))

    def _selected(self, undecided: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return some of the points, with a leading axis."""
        result: NDArray[np.float64] = self.rows(self.points, undecided).reshape(-1, 3)
        return result

    def closest(self) -> ClosestPoints:
        """Return the closest points."""
        result = self._nearest(PLACE_COLUMNS)
        return ClosestPoints(**{name: self.given(result, name) for name in PLACE_COLUMNS})

    def distances(self) -> Any:
        """Return distances."""
        return self.given(self._nearest({"distance": np.float64}), "distance")

    def signed(self) -> Any:
        """Return signed distances."""
        result = self._nearest({"distance": np.float64})
        # Undecided points of both kernels are counted.
        first = self.owner.undecided
        within = self._inside(surface=False)
        self.owner.undecided += first
        with stream_of(self.like, self.device):
            columns = [result.distance, within.truth]
            wp.launch(negate_inside, self.count, inputs=columns, device=self.device)
        return self.given(result, "distance")

    def inside(self) -> Any:
        """Return which points are inside or on the surface."""
        return self.given(self._inside(surface=True), "truth")

    def rays(self) -> Any:
        """Return the points as origins of rays."""
        rays = DeviceRays()
        rays.origins = self.points
        rays.mask = wp.array([self.bits], dtype=wp.int32, device=self.device)
        return rays

    def _nearest(self, kinds: Kinds) -> Any:
        """Return a struct with columns `kinds` of closest points."""
        result = self.empty(Columns(), kinds, self.count)
        points, query = self.rays(), RayQuery()
        points.t_max, query.goal = self.limits, int(marks.NEAREST)
        undecided = self.trace(result, points, query)
        if len(undecided):
            points, limits = self._selected(undecided), self.rows(self.limits, undecided)
            near = self.host.closest_point(points, limits, mask=self.mask)
            self.write(result, undecided, {name: getattr(near, name) for name in kinds})
        return result

    def _inside(self, surface: bool) -> Any:
        """Return a struct with a column: points inside or, with `surface`, on the surface."""
        result = self.empty(Columns(), {"truth": np.bool_}, self.count)
        found = self.empty(Columns(), {"counts": np.int64, "truth": np.bool_}, self.count)
        # The box of the mesh in the world, by which kernels choose directions of rays.
        tree = self.target.top
        box = np.array([tree.lower, tree.upper]) * 2.0**-tree.exponent + tree.centre
        corners = (wp.vec3d(*row) for row in box)
        rays, query, undecided = self.rays(), RayQuery(), np.empty(0, np.int32)
        rays.directions = wp.empty(self.count, dtype=wp.vec3d, device=self.device)
        with stream_of(self.like, self.device):
            outward = [*corners, self.points, rays.directions]
            wp.launch(point_out, self.count, inputs=outward, device=self.device)
        # First parity; then, by rays of length 0, whether points are on a face. Such a ray misses a
        # face that it lies in, but no face contains three directions.
        for turn in range(4 if surface else 1):
            limits = (0.0, 0.0) if turn else (SMALLEST, np.inf)
            rays.t_min, rays.t_max = (
                wp.array([t], dtype=wp.float64, device=self.device) for t in limits
            )
            query.goal, query.once = (int(marks.ANY), 0) if turn else (int(marks.COUNT), 1)
            undecided = np.union1d(undecided, self.trace(found, rays, query))
            with stream_of(self.like, self.device):
                noted = [turn, found, rays.directions, result.truth]
                wp.launch(note_inside, self.count, inputs=noted, device=self.device)
        self.owner.undecided = len(undecided)
        if len(undecided):
            target = point_target(self.host, "contains", self.mask)
            within = target.inside(self._selected(undecided), thread_count(None), surface=surface)
            self.write(result, undecided, {"truth": within})
        return result
