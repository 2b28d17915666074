"""Solids: kinds of primitives that are rows of numbers, such as boxes; a record for each.

All that builds, casts, moves, saves and draws them reads the record of their kind. To add one: its
arithmetic in `geometry/`, the class of its arrays and its record here, and a way to give them to
`BVH` (and to `refit`, if they need more than corners and transforms).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.boxes import box_interval, read_box
from bvh.geometry.capsules import capsule_interval
from bvh.geometry.obbs import INVERTED, inverses, local_frames, obb_bounds, obb_interval, read_obb
from bvh.geometry.round_distances import distance_to_capsule, distance_to_sphere
from bvh.geometry.spheres import sphere_interval
from bvh.geometry.transforms import rounded_dot
from bvh.runtime.arguments import lengths, reals
from bvh.runtime.arguments import rows as rows_of
from bvh.runtime.jit import Dispatcher, inlined, kernel
from bvh.runtime.simd import peek

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats, NDArray[np.bool_]]


class Boxes(NamedTuple):
    """Axis-aligned boxes by lower and upper corners (n, 6)."""

    points: Floats


class Obbs(NamedTuple):
    """Oriented boxes by corners and three rows of the inverse transform (n, 18)."""

    points: Floats


class Spheres(NamedTuple):
    """Spheres by corners of boxes around them, centres and radii (n, 10)."""

    points: Floats


class Capsules(NamedTuple):
    """Capsules by corners of boxes around them, both ends of their axes and radii (n, 13)."""

    points: Floats


class BoxRow(NamedTuple):
    """The row of a tree over boxes (see `rows`), as kernels take it."""

    address: int


class ObbRow(NamedTuple):
    """The row of a tree over oriented boxes."""

    address: int


class SphereRow(NamedTuple):
    """The row of a tree over spheres."""

    address: int


class CapsuleRow(NamedTuple):
    """The row of a tree over capsules."""

    address: int


class Solid(NamedTuple):
    """A kind of solids. `points` are their numbers, a row each, which begins with local corners."""

    arrays: type[Boxes | Obbs | Spheres | Capsules]
    row: type[BoxRow | ObbRow | SphereRow | CapsuleRow]
    code: int  # in rows of trees and in files
    size: int  # numbers of one
    # Kernels: (points, i, o, d) and, of an instance whose map has an inverse with these rows,
    # (points, i, rows, o, d) -> (hit, near, far) of the line of a ray in a solid.
    interval: Dispatcher
    instanced: Dispatcher
    # Lower and upper corners of a box around each, and which can be hit.
    bounds: Callable[[Floats], Bounds]
    # Corners of a box around each, (n, 8, 3), for pictures.
    outline: Callable[[Floats], Floats]
    # (points, positions, rows to the tree's coordinates) -> outward normals where these are.
    normals: Callable[[Floats, Floats, Floats], Floats]
    # The terms (K, F) of `world_bounds`, by the largest coordinate of a tree.
    skew: Callable[[Floats, float], tuple[float, float]]
    # What users give besides `lower`, and the points that it makes.
    given: tuple[str, ...]
    points_of: Callable[..., Floats]
    # The first whose numbers no user could have given, -1 for none, and what is wrong with it.
    flaw: Callable[[Floats], tuple[int, str]]
    # Whether rays meet the surface alone, also from inside.
    hollow: bool = False
    # Kernel (points, i, p) -> the distance of a point from the surface; None without one. And where
    # surfaces are nearest to points: (points, positions) -> positions.
    distance: Dispatcher | None = None
    nearest: Callable[[Floats, Floats], Floats] | None = None


@inlined
def _instanced_box_interval(points, i, rows, o, d):
    lower, upper = read_box(points, i)
    return obb_interval(o, d, lower, upper, rows)


@inlined
def _product_row(w, rows):
    """Return a row times an affine map, each entry rounded once from double-doubles."""
    p, q, r = rows
    _, x = rounded_dot((w[0], w[1], w[2], 0.0), (p[0], q[0], r[0]))
    _, y = rounded_dot((w[0], w[1], w[2], 0.0), (p[1], q[1], r[1]))
    _, z = rounded_dot((w[0], w[1], w[2], 0.0), (p[2], q[2], r[2]))
    _, h = rounded_dot(w, (p[3], q[3], r[3]))
    return x, y, z, h


@inlined
def _instanced_obb_interval(points, i, rows, o, d):
    lower, upper, (x, y, z) = read_obb(points, i)
    rows = _product_row(x, rows), _product_row(y, rows), _product_row(z, rows)
    return obb_interval(o, d, lower, upper, rows)


def frames_of(points: Floats) -> Floats:
    """Return the rows (n, 3, 4) from the coordinates of a tree to those of its oriented boxes."""
    return np.ascontiguousarray(points[:, 6:18]).reshape(-1, 3, 4)


def _box_bounds(points: Floats) -> Bounds:
    lower, upper = points[:, 0:3].copy(), points[:, 3:6].copy()
    solid = np.isfinite(lower) & np.isfinite(upper) & (lower <= upper)
    valid = np.asarray(solid.all(axis=1))
    lower[~valid] = upper[~valid] = 0.0
    return lower, upper, valid


def _obb_bounds(points: Floats) -> Bounds:
    lower, upper, valid = _box_bounds(points)
    lower, upper = obb_bounds(lower, upper, frames_of(points))
    valid &= np.isfinite(lower).all(axis=1) & np.isfinite(upper).all(axis=1)
    return lower, upper, valid


def _box_outline(points: Floats) -> Floats:
    upper = (np.arange(8)[:, None] >> np.arange(3) & 1).astype(bool)
    return np.where(upper, points[:, None, 3:6], points[:, None, 0:3])


def _obb_outline(points: Floats) -> Floats:
    frames = inverses(frames_of(points))[0]
    corners = _box_outline(points) @ frames[:, :, :3].transpose(0, 2, 1)
    return np.asarray(corners + frames[:, None, :, 3])


def _box_normals(points: Floats, positions: Floats, rows: Floats) -> Floats:
    """Return the normals of the sides that positions are nearest to, relative to the box's size."""
    inside = (rows[:, :, :3] @ positions[:, :, None])[:, :, 0] + rows[:, :, 3]
    half = 0.5 * (points[:, 3:6] - points[:, 0:3])
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.where(half > 0.0, (inside - 0.5 * (points[:, 0:3] + points[:, 3:6])) / half, 1.0)
    each, axis = np.arange(len(points)), np.abs(off).argmax(axis=1)
    return np.asarray(np.copysign(1.0, off[each, axis])[:, None] * rows[each, axis, :3])


def _obb_normals(points: Floats, positions: Floats, rows: Floats) -> Floats:
    own = frames_of(points)
    shift = (own[:, :, :3] @ rows[:, :, 3:])[:, :, 0] + own[:, :, 3]
    rows = np.concatenate([own[:, :, :3] @ rows[:, :, :3], shift[:, :, None]], axis=2)
    return _box_normals(points, positions, rows)


def _obb_skew(points: Floats, farthest: float) -> tuple[float, float]:
    rows = frames_of(points)
    back = np.abs(inverses(rows)[0][:, :, :3])
    with np.errstate(all="ignore"):
        row_sum = (back @ np.abs(rows[:, :, :3])).sum(axis=2).max()
        corners = np.maximum(np.abs(points[:, :3]), np.abs(points[:, 3:6]))
        far = row_sum * farthest + (back @ corners[:, :, None]).max()
    sound = np.isfinite(row_sum) and np.isfinite(far)
    return (float(row_sum), float(far)) if sound else (np.inf, np.inf)


def _obb_points(lower: Floats, upper: Floats, transforms: ArrayLike) -> Floats:
    matrices = reals("transforms", transforms)
    if matrices.size == 0:
        matrices = matrices.reshape(0, 4, 4)
    if matrices.shape != (len(lower), 4, 4):
        raise ValueError(f"transforms must have shape ({len(lower)}, 4, 4), got {matrices.shape}")
    frames = local_frames("transforms", matrices)
    return np.hstack([lower, upper, frames.reshape(-1, 12)])


def _obb_flaw(points: Floats) -> tuple[int, str]:
    rows = frames_of(points)
    bad = ~np.isfinite(rows).all(axis=(1, 2))
    if not bad.any():
        bad = inverses(rows)[1] != INVERTED
    return (int(bad.argmax()) if bad.any() else -1), "oriented box {} has no valid matrix"


@inlined
def _sphere_interval(points, i, o, d):
    at = 10 * i + 6
    center = peek(points, at), peek(points, at + 1), peek(points, at + 2)
    return sphere_interval(o, d, center, peek(points, at + 3))


@inlined
def _sphere_distance(points, i, p):
    at = 10 * i + 6
    center = peek(points, at), peek(points, at + 1), peek(points, at + 2)
    return distance_to_sphere(p, center, peek(points, at + 3))


@inlined
def _capsule_distance(points, i, p):
    at = 13 * i + 6
    a = peek(points, at), peek(points, at + 1), peek(points, at + 2)
    b = peek(points, at + 3), peek(points, at + 4), peek(points, at + 5)
    return distance_to_capsule(p, a, b, peek(points, at + 6))


def _off_axis(p: Floats, q: Floats, radii: Floats, positions: Floats) -> Floats:
    """Return what is nearest to positions on capsules."""
    axis = q - p
    with np.errstate(all="ignore"):
        along = ((positions - p) * axis).sum(axis=1) / (axis * axis).sum(axis=1)
        foot = p + np.nan_to_num(along).clip(0.0, 1.0)[:, None] * axis
        away = positions - foot
        # From the axis itself, any way across it is one.
        least = np.eye(3)[np.abs(axis).argmin(axis=1)]
        across = np.cross(axis, least)
        across[~across.any(axis=1)] = 1.0, 0.0, 0.0
        away = np.where(away.any(axis=1)[:, None], away, across)
        return np.asarray(foot + radii[:, None] * away / np.linalg.norm(away, axis=1)[:, None])


def _around(lower: Floats, upper: Floats, radii: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return corners of boxes around all that is so near to others, and the radii, in columns."""
    sizes = np.asarray(lengths("radii", radii))
    if sizes.shape not in ((), (len(lower),)):
        raise ValueError(f"radii must have shape ({len(lower)},), got {sizes.shape}")
    sizes = np.broadcast_to(sizes, len(lower))[:, None]
    # What has no ball has an empty box.
    with np.errstate(all="ignore"):
        low, high = np.nextafter(lower - sizes, -np.inf), np.nextafter(upper + sizes, np.inf)
        bad = ~(np.isfinite(low) & np.isfinite(high) & (sizes >= 0.0)).all(axis=1)
    low[bad], high[bad] = 1.0, -1.0
    return low, high, sizes


def _sphere_points(centers: Floats, radii: ArrayLike) -> Floats:
    low, high, sizes = _around(centers, centers, radii)
    return np.hstack([low, high, centers, sizes])


def _capsule_points(p: Floats, q: ArrayLike, radii: ArrayLike) -> Floats:
    ends = rows_of("q", q)
    if ends.shape != p.shape:
        raise ValueError(f"q must have the shape of p, {p.shape}, got {ends.shape}")
    low, high, sizes = _around(np.minimum(p, ends), np.maximum(p, ends), radii)
    return np.hstack([low, high, p, ends, sizes])


def _round_flaw(points: Floats, name: str, *given: Floats) -> tuple[int, str]:
    """Return the first whose box is not that of what was given; radii come last."""
    *centers, radii = given
    make = SPHERES.points_of if len(centers) == 1 else CAPSULES.points_of
    made = make(*centers, np.where(radii >= 0.0, radii, np.nan))
    bad = (made[:, :6] != points[:, :6]).any(axis=1)
    return (int(bad.argmax()) if bad.any() else -1), name + " {} is not in its box"


@inlined
def _capsule_interval(points, i, o, d):
    at = 13 * i + 6
    p = peek(points, at), peek(points, at + 1), peek(points, at + 2)
    q = peek(points, at + 3), peek(points, at + 4), peek(points, at + 5)
    return capsule_interval(o, d, p, q, peek(points, at + 6))


def _capsule_normals(points: Floats, positions: Floats, frames: Floats) -> Floats:
    """Return what leads from the nearest point of the axis to positions."""
    p, axis = points[:, 6:9], points[:, 9:12] - points[:, 6:9]
    with np.errstate(divide="ignore", invalid="ignore"):
        along = ((positions - p) * axis).sum(axis=1) / (axis * axis).sum(axis=1)
    return np.asarray(positions - p - np.nan_to_num(along).clip(0.0, 1.0)[:, None] * axis)


BOXES = Solid(
    arrays=Boxes, row=BoxRow, code=1, size=6,
    interval=inlined(lambda points, i, o, d: box_interval(o, d, *read_box(points, i))),
    instanced=_instanced_box_interval, bounds=_box_bounds, outline=_box_outline,
    normals=_box_normals, skew=lambda points, farthest: (0.0, 0.0), given=("upper",),
    points_of=lambda lower, upper: np.hstack([lower, upper]), flaw=lambda points: (-1, ""),
)  # fmt: skip
OBBS = Solid(
    arrays=Obbs, row=ObbRow, code=2, size=18,
    interval=inlined(lambda points, i, o, d: obb_interval(o, d, *read_obb(points, i))),
    instanced=_instanced_obb_interval, bounds=_obb_bounds, outline=_obb_outline,
    normals=_obb_normals, skew=_obb_skew, given=("upper", "transforms"), points_of=_obb_points,
    flaw=_obb_flaw,
)  # fmt: skip
SPHERES = Solid(
    arrays=Spheres, row=SphereRow, code=3, size=10, interval=_sphere_interval, instanced=None,
    bounds=_box_bounds, outline=_box_outline,
    normals=lambda points, positions, rows: positions - points[:, 6:9],
    skew=lambda points, farthest: (0.0, 0.0), given=("radii",), points_of=_sphere_points,
    flaw=lambda points: _round_flaw(points, "sphere", points[:, 6:9], points[:, 9]), hollow=True,
    distance=_sphere_distance,
    nearest=lambda points, positions: _off_axis(
        points[:, 6:9], points[:, 6:9], points[:, 9], positions
    ),
)  # fmt: skip
CAPSULES = Solid(
    arrays=Capsules, row=CapsuleRow, code=4, size=13, interval=_capsule_interval, instanced=None,
    bounds=_box_bounds, outline=_box_outline, normals=_capsule_normals,
    skew=lambda points, farthest: (0.0, 0.0), given=("q", "radii"), points_of=_capsule_points,
    flaw=lambda points: _round_flaw(
        points, "capsule", points[:, 6:9], points[:, 9:12], points[:, 12]
    ),
    hollow=True, distance=_capsule_distance,
    nearest=lambda points, positions: _off_axis(
        points[:, 6:9], points[:, 9:12], points[:, 12], positions
    ),
)  # fmt: skip
SOLIDS = (BOXES, OBBS, SPHERES, CAPSULES)
KINDS: dict[type, Solid] = {solid.arrays: solid for solid in SOLIDS}


def solid_of(primitives: object) -> Solid:
    """Return the kind of solids; of a user's primitives, that of the boxes around them."""
    return KINDS.get(type(primitives), BOXES)


def _one_of(solid: Solid, others: Dispatcher | None) -> Dispatcher:
    """Return a kernel for instances of one kind, by its code, or of others."""
    own, code = solid.instanced, solid.code
    if others is None:
        return kernel(lambda kind, points, i, rows, o, d: own(points, i, rows, o, d))
    return kernel(
        lambda kind, points, i, rows, o, d: (
            own(points, i, rows, o, d) if kind == code else others(kind, points, i, rows, o, d)
        )
    )


# (kind, points, i, rows, o, d) -> (hit, near, far) of a ray and an instance of a solid.
instanced_solid: Dispatcher | None = None
for _solid in SOLIDS[::-1]:
    if _solid.instanced is not None:
        instanced_solid = _one_of(_solid, instanced_solid)
