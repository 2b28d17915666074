"""The kernels of point queries on a device."""

import warp as wp

from bvh.devices.exact.arithmetic import INF, ONE, ZERO, nan
from bvh.devices.layout import Target
from bvh.devices.stages.moved import face_of
from bvh.devices.stages.points import SURE, closest_to
from bvh.devices.stages.work import Columns
from bvh.queries.batches.containment import ASIDE

wp.set_module_options({"fuse_fp": False, "enable_backward": False, "fast_math": False})

AHEAD, ACROSS, ASLANT = (wp.float64(x) for x in ASIDE)


@wp.func
def position_of(target: Target, prim: wp.int32, u: wp.float64, v: wp.float64):
    """Return the point (1-u-v) v0 + u v1 + v v2 of a face, each operation rounded."""
    a, b, c = face_of(target, prim)
    w = (ONE - u) - v
    return wp.vec3d(
        (w * a[0] + u * b[0]) + v * c[0], (w * a[1] + u * b[1]) + v * c[1],
        (w * a[2] + u * b[2]) + v * c[2],
    )  # fmt: skip


@wp.kernel
def find_closest_points(
    target: Target, points: wp.array(dtype=wp.vec3d), limits: wp.array(dtype=wp.float64),
    mask: wp.int32, columns: Columns, undecided_count: wp.array(dtype=wp.int32),
    undecided: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Find the closest point for each point; count and list those that the CPU must answer."""
    i = wp.tid()
    nearest = closest_to(target, points[i], limits[wp.where(limits.shape[0] > 1, i, 0)], mask)
    missed = nearest.prim_id < 0
    columns.distance[i] = nearest.distance
    if columns.prim_id.shape[0] > 0:
        columns.prim_id[i] = nearest.prim_id
        columns.u[i] = wp.where(missed, nan(), nearest.u)
        columns.v[i] = wp.where(missed, nan(), nearest.v)
        if missed:
            columns.position[i] = wp.vec3d(nan(), nan(), nan())
        else:
            columns.position[i] = position_of(target, nearest.prim_id, nearest.u, nearest.v)
    if nearest.state != SURE:
        undecided[wp.atomic_add(undecided_count, 0, 1)] = i


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
