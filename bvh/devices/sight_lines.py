"""Lines of sight on a device: rays between pairs of points that leave out both ends."""

from __future__ import annotations

from typing import Any, ClassVar

import warp as wp

from bvh.devices.calls import TRUTH, RayCall
from bvh.devices.exact.floats import INF, ONE, OPTIONS, SMALLEST, TWO, largest
from bvh.devices.stages import marks
from bvh.devices.stages.work import DeviceRays, row_of
from bvh.queries.methods.sight_queries import checked_margin
from bvh.queries.query_arguments import ray_batch
from bvh.runtime.arguments import Cull, common_shape, points
from bvh.traversal.rays import sight_lines

wp.set_module_options(OPTIONS)

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

    arguments: ClassVar[dict[str, tuple[str, Any]]] = {
        "p": ("origins", wp.vec3d), "q": ("directions", wp.vec3d), "mask": ("mask", wp.int32),
    }  # fmt: skip

    def __init__(
        self, owner: Any, p: Any, q: Any, margin: float, mask: Any, cull: Cull | None
    ) -> None:
        self.margin = checked_margin(margin)
        super().__init__(owner, (p, q, mask), cull)

    @staticmethod
    def batch(p: Any, q: Any, mask: Any) -> Any:
        """Return ((p, q, mask), shape): checked rows of numpy's arrays, and their leading shape."""
        start, end = points("p", p), points("q", q)
        common_shape(p=start.shape[:-1], q=end.shape[:-1])
        rays, shape = ray_batch(start, end, 0.0, 1.0, mask)
        return (rays.origins, rays.directions, rays.masks), shape

    def seen(self) -> Any:
        """Return which pairs of points see each other."""
        return self.columns(TRUTH, lambda _: self._seen())["truth"]

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
        result = self._traced(marks.ANY, self.empty(TRUTH, n))
        self.launch(_write_seen, finite, result.truth)
        return result
