"""Point queries on a device: arguments, kernels, and answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.calls import Call, Kinds
from bvh.devices.exchange import given, read, stream_of
from bvh.devices.point_kernels import Places, find_closest_points, find_inside, negate_inside
from bvh.queries.query_arguments import one_mask, point_batch
from bvh.queries.results import ClosestPoints
from bvh.queries.targets import point_target
from bvh.runtime.arguments import thread_count
from bvh.tree.frame import FrameView

PLACE_COLUMNS: Kinds = {
    "distance": np.float64, "position": np.float64, "prim_id": np.int32, "u": np.float64,
    "v": np.float64,
}  # fmt: skip


class PointCall(Call):
    """A point query: its arguments on the device, and its results."""

    def __init__(self, owner: Any, points: Any, limits: Any, mask: int | None) -> None:
        super().__init__(owner, points, limits)
        self.mask = mask
        if self.like is None:
            batch = point_batch(points, limits)
            points, limits, shape = batch.points, batch.limits, batch.shape
        with stream_of(self.like, self.device):
            self.points, lead = read("points", points, self.device, np.float64, 3)
            self.limits, wide = read("max_distance", limits, self.device, np.float64)
        self.shape = shape if self.like is None else lead
        if self.like is not None and wide not in (lead, ()):
            raise ValueError(f"max_distance must have shape {lead} or be one number, got {wide}")
        self.count = int(np.prod(self.shape))
        self.bits = one_mask(mask)

    def _at(self, which: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return some of the points, with a leading axis."""
        found: NDArray[np.float64] = self.rows(self.points, which).reshape(-1, 3)
        return found

    def closest(self) -> ClosestPoints:
        """Return the closest points."""
        found = self.nearest(PLACE_COLUMNS)
        return ClosestPoints(**{name: self.given(found, name) for name in PLACE_COLUMNS})

    def signed(self) -> Any:
        """Return signed distances."""
        found = self.nearest({"distance": np.float64})
        # Undecided points of both kernels are counted.
        first = self.owner.undecided
        within = self.inside(surface=False)
        self.owner.undecided += first
        with stream_of(self.like, self.device):
            columns = [found.distance, within.inside]
            wp.launch(negate_inside, self.count, inputs=columns, device=self.device)
        return self.given(found, "distance")

    def nearest(self, kinds: Kinds) -> Any:
        """Return a struct with columns `kinds` of closest points."""
        found = self.empty(Places(), kinds, self.count)
        which = self.run(find_closest_points, found, self.points, self.limits, self.bits)
        if len(which):
            points, limits = self._at(which), self.rows(self.limits, which)
            near = self.host.closest_point(points, limits, mask=self.mask)
            self.write(found, which, {name: getattr(near, name) for name in kinds})
        return found

    def inside(self, surface: bool) -> Any:
        """Return a struct with the column of points inside or, with `surface`, on the surface."""
        found = self.empty(Places(), {"inside": np.bool_}, self.count)
        arrays = self.host.arrays
        # The box of the mesh in the world, by which kernels choose directions of rays.
        frame = FrameView(arrays.frame)
        corners = frame.centre + frame.box * 2.0**-frame.exponent
        which = self.run(
            find_inside, found, wp.vec3d(*corners[0]), wp.vec3d(*corners[1]), self.points,
            self.bits, int(surface),
        )  # fmt: skip
        if len(which):
            target = point_target(self.host, "contains", self.mask)
            within = target.inside(self._at(which), thread_count(None), surface=surface)
            self.write(found, which, {"inside": within})
        return found

    def given(self, found: Any, name: str) -> Any:
        """Return a column in the shape of the points and the library of the arguments."""
        return given(getattr(found, name), self.shape, self.like, 3 if name == "position" else 0)
