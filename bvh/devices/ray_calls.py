"""Ray queries on a device: arguments, kernels, and answers."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.calls import Call, Kinds
from bvh.devices.exchange import given, is_on_device, read, stream_of
from bvh.devices.ray_kernels import Columns, Rays, trace_rays
from bvh.devices.searches.rays import ANY, CLOSEST, COUNT, LIST, Range
from bvh.queries.batches.ray_batches import source_of
from bvh.queries.query_arguments import ray_batch
from bvh.queries.results import AllHits, Hits
from bvh.runtime.arguments import ALL_BITS, Cull, bit_masks, cull_code, whole_number

Answer = TypeVar("Answer")
EdgeRule = Literal["once", "closed"]
HIT_COLUMNS: Kinds = {
    "t": np.float64, "prim_id": np.int32, "u": np.float64, "v": np.float64, "front": np.bool_,
}  # fmt: skip
# Arrays of rays: their types, and the width of their rows.
RAYS = (
    ("origins", np.float64, 3), ("directions", np.float64, 3), ("t_min", np.float64, 0),
    ("t_max", np.float64, 0), ("mask", np.int32, 0),
)  # fmt: skip
SCENE_COLUMNS: Kinds = HIT_COLUMNS | {"instance_id": np.int32, "leaf": np.int32}


class RayCall(Call):
    """A ray query: its arguments on the device, and its results.

    `rays` are (origins, directions, t_min, t_max, mask), as the caller gave them.
    """

    def __init__(
        self, owner: Any, rays: tuple[Any, ...], cull: Cull | None, once: bool = False
    ) -> None:
        super().__init__(owner, *rays)
        self.cull, self.once = cull, once
        self.names = SCENE_COLUMNS if owner.is_scene else HIT_COLUMNS
        self.asked = Range()
        self.asked.cull, self.asked.once = cull_code(cull), int(once)
        if self.like is None:
            rays, self.shape = ray_batch(*rays)
        elif not is_on_device(rays[4]):
            mask = bit_masks("mask", ALL_BITS if rays[4] is None else rays[4])
            rays = (*rays[:4], mask.view(np.int32))
        self.rays, shapes = Rays(), {}
        with stream_of(self.like, self.device):
            for (name, kind, width), value in zip(RAYS, rays, strict=True):
                array, shapes[name] = read(name, value, self.device, kind, width)
                setattr(self.rays, name, array)
        if self.like is not None:
            self.shape = _shape_of(shapes)
        self.count = int(np.prod(self.shape))

    def closest(self) -> Hits:
        """Return the closest hits."""
        found = self.columns(CLOSEST, self.names)
        columns = {name: self.given(getattr(found, name)) for name in self.names}
        return self._located(Hits, columns)

    def columns(self, goal: int, kinds: Kinds) -> Any:
        """Trace the rays; return the columns of the result."""
        self.asked.goal = int(goal)
        found = self._empty(kinds, self.count)
        which = self.run(trace_rays, found, self.rays, self.asked)
        if len(which):
            self.write(found, which, self._answers(which, goal))
        return found

    def _located(self, kind: type[Answer], columns: dict[str, Any]) -> Answer:
        """Return hits, an object of class `kind`, which can compute positions and normals."""
        hits = kind(**columns)
        arrays, of = self.owner._searched()
        vars(hits)["_source"] = source_of(arrays, of, None)
        return hits

    def _empty(self, kinds: Kinds, count: int) -> Any:
        # Kernels need the leaf of each hit, by which hits are sorted, even if no result has it.
        leaf: Kinds = {"leaf": np.int32} if "t" in kinds else {}
        return self.empty(Columns(), kinds | leaf, count)

    def _some(self, which: NDArray[np.int32]) -> dict[str, Any]:
        """Return some of the rays, as arrays of numpy, with a leading axis."""
        names = ("origins", "directions", "t_min", "t_max")
        rays = {name: self.rows(getattr(self.rays, name), which) for name in names}
        rays["origins"] = np.broadcast_to(rays["origins"], (len(which), 3))
        # Without a mask, if all bits are set, a query is faster.
        bits = self.rows(self.rays.mask, which).view(np.uint32)
        return rays | {"mask": None if (bits == 0xFFFFFFFF).all() else bits}

    def _answers(self, which: NDArray[np.int32], goal: int) -> dict[str, NDArray[Any]]:
        """Return the CPU's answers for some of the rays, by column."""
        rays, host = self._some(which), self.host
        if goal == CLOSEST:
            hits = host.closest_hit(**rays, cull=self.cull)
            return {name: getattr(hits, name) for name in self.names}
        if goal == ANY:
            return {"truth": host.any_hit(**rays, cull=self.cull)}
        edges: EdgeRule = "once" if self.once else "closed"
        return {"counts": host.count_hits(**rays, edges=edges, cull=self.cull)}

    def listed(self, limit: int | None) -> AllHits:
        """Return all hits of the rays, or the first `limit` of each: count first, then list."""
        most = None if limit is None else whole_number("max_hits", limit)
        counts = self.columns(COUNT, {"counts": np.int64}).counts.numpy()
        if most is not None:
            counts = np.minimum(counts, most)
        offsets = np.r_[0, np.cumsum(counts)]
        found = self._empty(self.names, int(offsets[-1]))
        found.offsets = wp.array(offsets, dtype=wp.int64, device=self.device)
        self.asked.goal = int(LIST)
        which = self.run(trace_rays, found, self.rays, self.asked)
        if len(which):
            edges: EdgeRule = "once" if self.once else "closed"
            hits = self.host.all_hits(
                **self._some(which), max_hits=limit, edges=edges, cull=self.cull
            )
            places = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in which])
            if len(places):
                self.write(found, places, {name: getattr(hits, name) for name in self.names})
        total = (int(offsets[-1]),)
        fields = {name: given(getattr(found, name), total, self.like) for name in self.names}
        fields["offsets"] = given(found.offsets, (len(offsets),), self.like)
        return self._located(AllHits, fields | {"shape": self.shape})

    def given(self, column: Any) -> Any:
        """Return a column in the shape of the rays and the library of the arguments."""
        return given(column, self.shape, self.like)


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
