"""Which points are inside: the kernels between the rays that decide it on a device."""

import warp as wp

from bvh.devices.exact.floats import INF, ONE, OPTIONS, ZERO
from bvh.devices.stages.work import Columns
from bvh.queries.batches.containment import ASIDE

wp.set_module_options(OPTIONS)

AHEAD, ACROSS, ASLANT = (wp.float64(x) for x in ASIDE)


@wp.kernel
def point_out(
    lower: wp.vec3d, upper: wp.vec3d, points: wp.array(dtype=wp.vec3d),
    directions: wp.array(dtype=wp.vec3d),
):  # fmt: skip
    """Find the directions, of six close to the axes, that leave the box of a mesh soonest."""
    i = wp.tid()
    p = points[i]
    best = wp.float64(INF)
    axis = int(0)
    sign = wp.float64(-1.0)
    for k in range(6):
        j = k % 3
        depth = upper[j] - p[j]
        if k < 3:
            depth = p[j] - lower[j]
        if depth < best:
            best = depth
            axis = j
            sign = wp.where(k < 3, -ONE, ONE)
    d = wp.vec3d()
    d[axis] = sign * AHEAD
    d[(axis + 1) % 3] = sign * ACROSS
    d[(axis + 2) % 3] = sign * ASLANT
    directions[i] = d


@wp.kernel
def note_inside(
    turn: int, found: Columns, directions: wp.array(dtype=wp.vec3d), inside: wp.array(dtype=wp.bool)
):  # fmt: skip
    """Write which points are inside by parity or, after that, on a face; turn their directions."""
    i = wp.tid()
    if turn == 0:
        inside[i] = found.counts[i] % wp.int64(2) == wp.int64(1)
    else:
        d = directions[i]
        inside[i] = inside[i] or found.truth[i]
        directions[i] = wp.vec3d(d[2], d[0], d[1])


@wp.kernel
def negate_inside(distance: wp.array(dtype=wp.float64), inside: wp.array(dtype=wp.bool)):
    """Negate distances of points inside, except 0 and infinite ones."""
    i = wp.tid()
    d = distance[i]
    if inside[i] and d > ZERO and d < INF:
        distance[i] = -d
