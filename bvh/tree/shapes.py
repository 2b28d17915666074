"""Shapes: kinds of primitives that are rows of numbers, such as boxes; a class for each.

Whatever builds, casts, transforms, saves and draws them reads the class of their kind. To add one:
its arithmetic in `geometry/`, the class of its arrays and its subclass of `Shape` here, and a
constructor of `BVH` (and its arguments of `refit`, if it needs more than corners and transforms).
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.arithmetic.floats import LARGEST
from bvh.geometry.boxes import box_interval, read_box
from bvh.geometry.capsules import capsule_interval
from bvh.geometry.obbs import INVERTED, inverses, local_frames, obb_bounds, obb_interval, read_obb
from bvh.geometry.spheres import sphere_interval
from bvh.geometry.transforms import even_scales, moved, rounded_dot, transformed_point
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


# The row of a tree over shapes of each kind (see `rows`), as kernels take it.
class BoxRow(NamedTuple):
    address: int


class ObbRow(NamedTuple):
    address: int


class SphereRow(NamedTuple):
    address: int


class CapsuleRow(NamedTuple):
    address: int


class Shape:
    """A kind of shapes, with the methods of axis-aligned boxes as defaults.

    `points` are the numbers of some shapes, a row each, which begins with the corners of a box.
    """

    arrays: ClassVar[type[Boxes | Obbs | Spheres | Capsules]]
    row: ClassVar[type[BoxRow | ObbRow | SphereRow | CapsuleRow]]
    code: ClassVar[int]  # in rows of trees and in files
    size: ClassVar[int]  # numbers of one
    # Whether rays hit the surface alone, also from inside; such shapes are round.
    hollow: ClassVar[bool] = False
    # Kernels: (points, i, o, d) -> (hit, near, far) of the line of a ray in a shape, and, of round
    # ones, (points, i) -> both ends of the axis, equal in a sphere, and the radius.
    interval: ClassVar[Dispatcher]
    capsule: ClassVar[Dispatcher | None] = None
    # Names of the constructor's arguments after the first, and the function of all arguments that
    # returns `points`.
    given: ClassVar[tuple[str, ...]]
    points_of: ClassVar[Callable[..., Floats]]

    @staticmethod
    def bounds(points: Floats) -> Bounds:
        """Return (lower, upper, valid): corners (n, 3) of boxes, and which shapes can be hit."""
        # Shapes that cannot be hit, with a box that is empty or not finite, get the origin.
        lower, upper = points[:, 0:3].copy(), points[:, 3:6].copy()
        closed = np.isfinite(lower) & np.isfinite(upper) & (lower <= upper)
        valid = np.asarray(closed.all(axis=1))
        lower[~valid] = upper[~valid] = 0.0
        return lower, upper, valid

    @staticmethod
    def outline(points: Floats) -> Floats:
        """Return the eight corners of a box around each shape, (n, 8, 3), for pictures."""
        # Bit k of a corner's index tells whether its coordinate on axis k is the upper one.
        upper = (np.arange(8)[:, None] >> np.arange(3) & 1).astype(bool)
        return np.where(upper, points[:, None, 3:6], points[:, None, 0:3])

    @staticmethod
    def normals(points: Floats, positions: Floats, rows: Floats) -> Floats:
        """Return outward normals, not normalized, at positions (n, 3): position i is on shape i.

        `rows` (n, 3, 4) map positions to the coordinates of the tree. Round shapes ignore them:
        their `points` must be in the coordinates of positions.
        """
        raise NotImplementedError

    @staticmethod
    def skew(points: Floats, farthest: float) -> tuple[float, float]:
        """Return factors (K, F) of the padding of instances, 0 for all but oriented boxes."""
        # They are derived in `world_bounds`. `farthest` is the largest coordinate of the tree.
        return 0.0, 0.0

    @classmethod
    def instances(cls, points: Floats, transform: Floats) -> Floats:
        """Return `points` of round shapes moved by a map (3, 4) of one scale for all axes."""
        # Ends of axes, which are correctly rounded, begin in column 6; the last is the radius.
        with np.errstate(over="ignore"):
            radii = np.minimum(points[:, -1] * even_scales(transform[None]), LARGEST)
        ends = [moved(points[:, at : at + 3], transform) for at in range(6, cls.size - 1, 3)]
        return cls.points_of(*ends, radii)

    @classmethod
    def largest_radius(cls, points: Floats) -> float:
        """Return the largest radius, the last column, of round shapes; -1 for other shapes."""
        return float(points[:, -1].max(initial=0.0)) if cls.hollow else -1.0

    @staticmethod
    def flaw(points: Floats) -> tuple[int, str]:
        """Return a row that no constructor makes, or -1, and an error text with {} for the row."""
        return -1, ""


class BoxShape(Shape):
    """Axis-aligned boxes."""

    arrays, row, code, size, given = Boxes, BoxRow, 1, 6, ("upper",)
    interval = inlined(lambda points, i, o, d: box_interval(o, d, *read_box(points, i)))

    @staticmethod
    def points_of(lower: Floats, upper: Floats) -> Floats:
        """Return the rows (n, 6) of boxes, by their corners (n, 3)."""
        return np.hstack([lower, upper])

    @staticmethod
    def normals(points: Floats, positions: Floats, rows: Floats) -> Floats:
        """Return the normals of the side nearest to each position, relative to the box's size."""
        # `rows` (n, 3, 4) map positions into the boxes' coordinates; the normal of the sides across
        # axis k is row k. `off` is the offset from a box's middle, in half sizes of the box.
        in_box = (rows[:, :, :3] @ positions[:, :, None])[:, :, 0] + rows[:, :, 3]
        half = 0.5 * (points[:, 3:6] - points[:, 0:3])
        with np.errstate(divide="ignore", invalid="ignore"):
            off = in_box - 0.5 * (points[:, 0:3] + points[:, 3:6])
            off = np.where(half > 0.0, off / half, 1.0)
        each, axis = np.arange(len(points)), np.abs(off).argmax(axis=1)
        return np.asarray(np.copysign(1.0, off[each, axis])[:, None] * rows[each, axis, :3])


def frames_of(points: Floats) -> Floats:
    """Return the maps (n, 3, 4) from the coordinates of a tree to those of its oriented boxes."""
    return np.ascontiguousarray(points[:, 6:18]).reshape(-1, 3, 4)


class ObbShape(Shape):
    """Oriented boxes, whose corners are in coordinates of their own."""

    arrays, row, code, size, given = Obbs, ObbRow, 2, 18, ("upper", "transforms")
    interval = inlined(lambda points, i, o, d: obb_interval(o, d, *read_obb(points, i)))

    @staticmethod
    def points_of(lower: Floats, upper: Floats, transforms: ArrayLike) -> Floats:
        """Return rows of local corners, and of inverses of the matrices `transforms` (n, 4, 4)."""
        matrices = reals("transforms", transforms)
        if matrices.size == 0:
            matrices = matrices.reshape(0, 4, 4)
        if matrices.shape != (len(lower), 4, 4):
            raise ValueError(
                f"transforms must have shape ({len(lower)}, 4, 4), got {matrices.shape}"
            )
        frames = local_frames("transforms", matrices)
        return np.hstack([lower, upper, frames.reshape(-1, 12)])

    @staticmethod
    def bounds(points: Floats) -> Bounds:
        """Return (lower, upper, valid): corners of boxes around all, and which can be hit."""
        lower, upper, valid = Shape.bounds(points)
        lower, upper = obb_bounds(lower, upper, frames_of(points))
        valid &= np.isfinite(lower).all(axis=1) & np.isfinite(upper).all(axis=1)
        return lower, upper, valid

    @staticmethod
    def outline(points: Floats) -> Floats:
        """Return the eight corners of each oriented box, (n, 8, 3), in the tree's coordinates."""
        back = inverses(frames_of(points))[0]
        corners = Shape.outline(points) @ back[:, :, :3].transpose(0, 2, 1)
        return np.asarray(corners + back[:, None, :, 3])

    @staticmethod
    def normals(points: Floats, positions: Floats, rows: Floats) -> Floats:
        """Return the normals of the sides nearest to positions in the boxes' own coordinates."""
        # `rows` lead to the coordinates of the tree, `maps` from there to the boxes': combine both.
        maps = frames_of(points)
        shift = (maps[:, :, :3] @ rows[:, :, 3:])[:, :, 0] + maps[:, :, 3]
        rows = np.concatenate([maps[:, :, :3] @ rows[:, :, :3], shift[:, :, None]], axis=2)
        return BoxShape.normals(points, positions, rows)

    @staticmethod
    def skew(points: Floats, farthest: float) -> tuple[float, float]:
        """Return the padding's factors (K, F); infinity if they overflow."""
        # With the linear parts R of the maps, K is the largest row sum of abs(R**-1) abs(R); F is
        # K * farthest plus the largest coordinate of abs(R**-1) abs(corner).
        maps = frames_of(points)
        back = np.abs(inverses(maps)[0][:, :, :3])
        with np.errstate(all="ignore"):
            row_sum = (back @ np.abs(maps[:, :, :3])).sum(axis=2).max()
            corners = np.maximum(np.abs(points[:, :3]), np.abs(points[:, 3:6]))
            far = row_sum * farthest + (back @ corners[:, :, None]).max()
        sound = np.isfinite(row_sum) and np.isfinite(far)
        return (float(row_sum), float(far)) if sound else (np.inf, np.inf)

    @staticmethod
    def flaw(points: Floats) -> tuple[int, str]:
        """Return (row, error): the first row whose matrix is not finite and invertible, or -1."""
        maps = frames_of(points)
        bad = np.asarray(~np.isfinite(maps).all(axis=(1, 2)))
        if not bad.any():
            bad = inverses(maps)[1] != INVERTED
        return _first(bad), "oriented box {} has no valid matrix"


def _first(bad: NDArray[np.bool_]) -> int:
    """Return the first index at which an array is True, or -1."""
    return int(bad.argmax()) if bad.any() else -1


def _around(lower: Floats, upper: Floats, radii: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return (lower, upper, radii): corners (n, 3) moved outward by radii, and the radii (n, 1)."""
    # `radii` is one number or (n,). Boxes that are not finite, or of radii < 0, become empty.
    sizes = np.asarray(lengths("radii", radii))
    if sizes.shape not in ((), (len(lower),)):
        raise ValueError(f"radii must have shape ({len(lower)},), got {sizes.shape}")
    sizes = np.broadcast_to(sizes, len(lower))[:, None]
    with np.errstate(all="ignore"):
        low, high = np.nextafter(lower - sizes, -np.inf), np.nextafter(upper + sizes, np.inf)
        bad = ~np.asarray((np.isfinite(low) & np.isfinite(high) & (sizes >= 0.0)).all(axis=1))
    low[bad], high[bad] = 1.0, -1.0
    return low, high, sizes


def _nearest(p: Floats, axis: Floats, positions: Floats) -> Floats:
    """Return t (n, 1) in 0..1 of the points p + t axis of segments nearest to positions (n, 3)."""
    # `p` and `axis` are (n, 3). A segment without length has t = 0.
    with np.errstate(all="ignore"):
        t = ((positions - p) * axis).sum(axis=1) / (axis * axis).sum(axis=1)
    return np.asarray(np.nan_to_num(t).clip(0.0, 1.0)[:, None])


# Three numbers as a vector; a sphere as a capsule: (p, q, radius).
_vector = inlined(lambda points, at: (peek(points, at), peek(points, at + 1), peek(points, at + 2)))
_as_capsule = inlined(lambda center, radius: (center, center, radius))


@inlined
def _sphere(points, i):
    """Return the centre and the radius of sphere i; `points` is flat."""
    at = 10 * i + 6  # rows have 10 numbers, and begin with the box
    return _vector(points, at), peek(points, at + 3)


class SphereShape(Shape):
    """Spheres, whose rows begin with the boxes around them."""

    arrays, row, code, size, given = Spheres, SphereRow, 3, 10, ("radii",)
    hollow = True
    interval = inlined(lambda points, i, o, d: sphere_interval(o, d, *_sphere(points, i)))
    capsule = inlined(lambda points, i: _as_capsule(*_sphere(points, i)))

    @staticmethod
    def points_of(centers: Floats, radii: ArrayLike) -> Floats:
        """Return rows of boxes around spheres, their centres, and their radii."""
        low, high, sizes = _around(centers, centers, radii)
        return np.hstack([low, high, centers, sizes])

    @staticmethod
    def normals(points: Floats, positions: Floats, rows: Floats) -> Floats:
        """Return the vectors from the centres to the positions; `rows` are unused."""
        return np.asarray(positions - points[:, 6:9])

    @staticmethod
    def flaw(points: Floats) -> tuple[int, str]:
        """Return (row, error): the first row whose box is not that of its sphere, or -1."""
        radii = np.where(points[:, 9] >= 0.0, points[:, 9], np.nan)
        made = SphereShape.points_of(points[:, 6:9], radii)
        return _first((made[:, :6] != points[:, :6]).any(axis=1)), "sphere {} is not in its box"


@inlined
def _capsule(points, i):
    """Return both ends of the axis and the radius of capsule i; `points` is flat."""
    at = 13 * i + 6  # rows have 13 numbers, and begin with the box
    return _vector(points, at), _vector(points, at + 3), peek(points, at + 6)


class CapsuleShape(Shape):
    """Capsules, whose rows begin with the boxes around them."""

    arrays, row, code, size, given = Capsules, CapsuleRow, 4, 13, ("q", "radii")
    hollow = True
    interval = inlined(lambda points, i, o, d: capsule_interval(o, d, *_capsule(points, i)))
    capsule = inlined(lambda points, i: _capsule(points, i))

    @staticmethod
    def points_of(p: Floats, q: ArrayLike, radii: ArrayLike) -> Floats:
        """Return rows of boxes around capsules, the ends of their axes, and their radii."""
        ends = rows_of("q", q)
        if ends.shape != p.shape:
            raise ValueError(f"q must have the shape of p, {p.shape}, got {ends.shape}")
        low, high, sizes = _around(np.minimum(p, ends), np.maximum(p, ends), radii)
        return np.hstack([low, high, p, ends, sizes])

    @staticmethod
    def normals(points: Floats, positions: Floats, rows: Floats) -> Floats:
        """Return the vectors from the nearest points of axes to positions; `rows` are unused."""
        p, axis = points[:, 6:9], points[:, 9:12] - points[:, 6:9]
        return np.asarray(positions - p - _nearest(p, axis, positions) * axis)

    @staticmethod
    def flaw(points: Floats) -> tuple[int, str]:
        """Return (row, error): the first row whose box is not that of its capsule, or -1."""
        radii = np.where(points[:, 12] >= 0.0, points[:, 12], np.nan)
        made = CapsuleShape.points_of(points[:, 6:9], points[:, 9:12], radii)
        return _first((made[:, :6] != points[:, :6]).any(axis=1)), "capsule {} is not in its box"


SHAPES: tuple[type[Shape], ...] = (BoxShape, ObbShape, SphereShape, CapsuleShape)
KINDS: dict[type, type[Shape]] = {shape.arrays: shape for shape in SHAPES}
# Classes of the arrays of shapes that are surfaces, not solids.
HOLLOW = tuple(shape.arrays for shape in SHAPES if shape.hollow)


def shape_of(primitives: object) -> type[Shape]:
    """Return the class of the shapes `primitives`; for a user's primitives, that of boxes."""
    return KINDS.get(type(primitives), BoxShape)


@inlined
def _product_row(w, rows):
    """Return the row w, of four numbers, times an affine map, whose fourth row is (0, 0, 0, 1)."""
    # `rows` are the other three. Each number is rounded once, from double-doubles.
    p, q, r = rows
    _, x = rounded_dot((w[0], w[1], w[2], 0.0), (p[0], q[0], r[0]))
    _, y = rounded_dot((w[0], w[1], w[2], 0.0), (p[1], q[1], r[1]))
    _, z = rounded_dot((w[0], w[1], w[2], 0.0), (p[2], q[2], r[2]))
    _, h = rounded_dot(w, (p[3], q[3], r[3]))
    return x, y, z, h


@kernel
def instanced_box_interval(is_box, points, i, rows, o, d):
    """Return (hit, near, far) of the line of a ray in an instance of box i of `points`."""
    # The line o + t d is inside for t in near..far, if it hits. `is_box` is False for an oriented
    # box; `rows` are those of the inverse of the instance's map.
    if is_box:
        lower, upper = read_box(points, i)
        return obb_interval(o, d, lower, upper, rows)
    lower, upper, (x, y, z) = read_obb(points, i)
    rows = _product_row(x, rows), _product_row(y, rows), _product_row(z, rows)
    return obb_interval(o, d, lower, upper, rows)


# The radius of an instance, LARGEST instead of infinity.
_radius_of = inlined(lambda radius, scale: min(radius * scale, LARGEST))


@inlined
def moved_capsule(is_sphere, points, i, maps, at, scale):
    """Return the moved ends of the axis of sphere or capsule i, and its radius times `scale`."""
    # The ends, equal for a sphere, are moved by the map whose twelve numbers begin at `at`, and
    # correctly rounded; `scale` is the map's factor for lengths.
    if is_sphere:
        center, radius = _sphere(points, i)
        center = transformed_point(maps, at, center)
        return center, center, _radius_of(radius, scale)
    p, q, radius = _capsule(points, i)
    return transformed_point(maps, at, p), transformed_point(maps, at, q), _radius_of(radius, scale)


@kernel
def round_interval(p, q, radius, o, d):
    """Return (hit, near, far) of the line o + t d in a capsule, or in a sphere if p equals q."""
    return sphere_interval(o, d, p, radius) if p == q else capsule_interval(o, d, p, q, radius)
