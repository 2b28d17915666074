"""Projection: an affine map from pixels to rays, its inverse, and frusta.

At (x, y) in the picture, with (a, b) = (x, y) - centre, a ray starts at the eye in direction
forward + a step_x + b step_y, or, if all rays are parallel, at eye + a step_x + b step_y in
direction forward. The inverse of these three columns, `gradients`, maps space to the picture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.camera.matrices import Raster, YDirection, inverse_rows, number, sides_of
from bvh.geometry.arithmetic.rational import Row, dot, exact_point, scaled
from bvh.runtime.arguments import common_shape, owned, reals, whole_number
from bvh.runtime.arguments import points as rows_of_points
from bvh.runtime.registry import enrolled

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Projection:
    """A camera over a picture of `width` x `height` pixels.

    Immutable, comparable by its numbers, and picklable.

    Attributes
    ----------
    eye : ndarray, shape (3,)
        Origin of all rays, or a point of the plane in which parallel rays start.
    forward : ndarray, shape (3,)
        Unit direction of the view, normal to the picture; or that of all parallel rays.
    step_x, step_y : ndarray, shape (3,)
        Change of the direction, or of the origin of a parallel ray, by one unit of x, and of y.
    centre : ndarray, shape (2,)
        Position in the picture of the ray from `eye` along `forward`.
    width, height : int
        Device pixels of the picture.
    perspective : bool
        Whether rays start at one eye, not parallel to each other.
    y : {"down", "up"}
        Whether y is 0 at the upper border and grows downward, or the reverse.
    pixel_ratio : float
        Device pixels to a unit of x and y.
    near, far : float
        Range of visible depths; also `t_min` and `t_max`, because t of a ray is depth.
    gradients : ndarray, shape (3, 3)
        For p in space, seen at (x, y), `gradients @ (p - eye)` is (a, b, depth) with (a, b) =
        (x, y) - centre; if `perspective`, a and b are multiplied by the depth.
    """

    eye: Floats
    forward: Floats
    step_x: Floats
    step_y: Floats
    centre: Floats
    width: int
    height: int
    perspective: bool
    y: YDirection = "down"
    pixel_ratio: float = 1.0
    near: float = 0.0
    far: float = math.inf
    gradients: Floats = field(init=False)
    _floats: tuple[float, ...] = field(init=False)  # centre, step_x, step_y, forward, eye: 14

    def __post_init__(self) -> None:
        """Check the fields; set `gradients` for `project`, and `_floats` for `cursor_ray`."""
        for name, size in (("eye", 3), ("forward", 3), ("step_x", 3), ("step_y", 3), ("centre", 2)):
            array = reals(name, getattr(self, name))
            if array.shape != (size,) or not np.isfinite(array).all():
                raise ValueError(f"{name} must be {size} finite numbers, got {array.tolist()}")
            vars(self)[name] = owned(array)
        raster = Raster.checked(self.width, self.height, self.y, self.pixel_ratio)
        near, far = number("near", self.near), number("far", self.far)
        vars(self).update(raster._asdict(), near=near, far=far)
        if not self.near < self.far:
            raise ValueError(f"near must be less than far, got {self.near} and {self.far}")
        if self.perspective and not self.near >= 0.0:
            raise ValueError(f"near must not be behind the eye, got {self.near}")
        basis = np.stack([self.step_x, self.step_y, self.forward], axis=1)
        vars(self)["gradients"] = owned(np.array(inverse_rows("steps of pixels", basis)))
        parts = (self.centre, self.step_x, self.step_y, self.forward, self.eye)
        vars(self)["_floats"] = tuple(x for part in parts for x in part.tolist())

    @property
    def right(self) -> Floats:
        """Unit direction of growing x, shape (3,)."""
        return _unit(self.step_x)

    @property
    def up(self) -> Floats:
        """Unit direction upward in the picture, perpendicular to `right`, also of skewed pixels."""
        right, upward = self.right, _unit(-self.step_y if self.y == "down" else self.step_y)
        return _unit(upward - (upward @ right) * right)

    @property
    def half_height(self) -> float:
        """Half the height of the picture in space; for a perspective camera, at depth 1."""
        return float(np.linalg.norm(self.step_y * (self.height / self.pixel_ratio))) / 2

    @property
    def t_min(self) -> float:
        """Smallest visible t of rays: `near`."""
        return self.near

    @property
    def t_max(self) -> float:
        """Largest visible t of rays: `far`."""
        return self.far

    def resized(self, width: int, height: int) -> Self:
        """Return the same view in a picture of `width` x `height` pixels, as of a resized window.

        The vertical field of view and the shape of pixels stay, the horizontal one changes.

        Examples
        --------
        >>> import bvh
        >>> view = [0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0
        >>> camera = bvh.Camera.look_at(*view, 4, 2)
        >>> camera.resized(400, 100) == bvh.Camera.look_at(*view, 400, 100)
        True
        """
        size = np.array([whole_number("width", width), whole_number("height", height)])
        old_size = np.array([self.width, self.height])
        step_scale = self.height / height
        x, y = self.step_x * step_scale, self.step_y * step_scale
        # The centre of the picture keeps its ray.
        growth = height / self.height
        centre = self.centre * growth + (size - old_size * growth) / 2 / self.pixel_ratio
        return replace(self, step_x=x, step_y=y, centre=centre, width=width, height=height)

    def upright(self) -> Self:
        """Return the same view with y down and a `pixel_ratio` of 1, as in image files.

        Examples
        --------
        >>> import bvh
        >>> view = [0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2
        >>> camera = bvh.Camera.look_at(*view, y="up", pixel_ratio=2.0)
        >>> camera.upright() == bvh.Camera.look_at(*view)
        True
        """
        step_x, step_y = self.step_x / self.pixel_ratio, self.step_y / self.pixel_ratio
        centre = self.centre * self.pixel_ratio
        if self.y == "up":
            step_y, centre[1] = -step_y, self.height - centre[1]
        return replace(self, step_x=step_x, step_y=step_y, centre=centre, y="down", pixel_ratio=1.0)

    def ray(self, x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        """Return the ray through a point of the picture.

        Parameters
        ----------
        x, y : array_like, shape (...)
            Distance from the left border and from the upper one (the lower one if `y` of the
            camera is "up"), in units of `pixel_ratio` device pixels. They may lie outside the
            picture, and broadcast. The centre of device pixel (i, j) is at (i + 0.5, j + 0.5)
            divided by `pixel_ratio`.

        Returns
        -------
        origin, direction : ndarray, shape (..., 3)
            The direction is not normalised: t is depth, the distance from the plane through the
            eye, and `t_min` and `t_max` of the camera are its visible range. If x or y is NaN or
            infinite, the ray hits nothing.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2)
        >>> origin, direction = camera.ray(4.0, 1.0)
        >>> origin.tolist(), direction.round(6).tolist()
        ([0.0, 0.0, 5.0], [2.0, 0.0, -1.0])
        """
        px, py = reals("x", x), reals("y", y)
        varying = np.empty((*common_shape(x=px.shape, y=py.shape), 3))
        # Origins or directions vary, starting from `start`; the others are all equal to `same`.
        start, same = (self.forward, self.eye) if self.perspective else (self.eye, self.forward)
        with np.errstate(invalid="ignore", over="ignore"):
            right, down = px - self.centre[0], py - self.centre[1]
            # Column by column: a loop over three numbers at a time takes four times as long.
            for k in range(3):
                np.add(right * self.step_x[k], down * self.step_y[k], out=varying[..., k])
                varying[..., k] += start[k]
        constant = np.broadcast_to(same, varying.shape)
        return (constant, varying) if self.perspective else (varying, constant)

    def rays(self, device: Any = None) -> tuple[Floats, Floats]:
        """Return the rays through the centres of all device pixels.

        Parameters
        ----------
        device : optional
            As in `BVH.to`. The same numbers are computed on it, as arrays of Warp; the origin or
            direction that all rays share is an array of shape (1,).

        Returns
        -------
        origins, directions : ndarray, shape (height, width, 3)
            Row j has the rays at y = (j + 0.5) / pixel_ratio, so the first row is at the top unless
            `y` is "up".

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.orthographic([0, 0, 5], [0, 0, 0], [0, 1, 0], 2.0, 2, 2)
        >>> origins, directions = camera.rays()
        >>> origins[0].tolist()
        [[-0.5, 0.5, 5.0], [0.5, 0.5, 5.0]]
        """
        if device is not None:
            return enrolled("rays of cameras on devices")(self, device)  # type: ignore[no-any-return]
        x = (np.arange(self.width) + 0.5) / self.pixel_ratio
        y = (np.arange(self.height) + 0.5) / self.pixel_ratio
        return self.ray(x, y[:, None])

    def cursor_ray(self, x: float, y: float) -> tuple[float, float, float, float, float, float]:
        """Return the ray through one point (x, y) of the picture: (ox, oy, oz, dx, dy, dz).

        The numbers are those of `ray`, bit for bit. A call takes half a microsecond.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.orthographic([0, 0, 5], [0, 0, 0], [0, 1, 0], 2.0, 2, 2)
        >>> camera.cursor_ray(2, 1)
        (1.0, 0.0, 5.0, 0.0, 0.0, -1.0)
        """
        cx, cy, ax, ay, az, bx, by, bz, fx, fy, fz, ex, ey, ez = self._floats
        a, b = float(x) - cx, float(y) - cy
        if self.perspective:
            return ex, ey, ez, a * ax + b * bx + fx, a * ay + b * by + fy, a * az + b * bz + fz
        return ex + (a * ax + b * bx), ey + (a * ay + b * by), ez + (a * az + b * bz), fx, fy, fz

    def project(self, points: ArrayLike) -> tuple[Any, Any, Any]:
        """Return the positions of points in the picture: the inverse of `ray`.

        A point on a ray is projected to its pixel up to the rounding of the point itself: near an
        eye at 1e7, coordinates are multiples of 2e-9.

        Parameters
        ----------
        points : array_like, shape (..., 3)
            They need not be between `near` and `far`.

        Returns
        -------
        x, y, depth : float, or ndarray of float64, shape (...)
            Position as `ray` takes it, and the distance from the plane through the eye: t of the
            ray at (x, y). For a perspective camera, points behind the eye or in its plane have a
            depth of at most 0, and x and y are NaN. Points that are not finite give NaN, NaN, NaN.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2)
        >>> x, y, depth = camera.project([[0, 0, 0], [5, 0, 0], [0, 0, 7]])
        >>> x.round(6).tolist(), depth.tolist()
        ([2.0, 3.0, nan], [5.0, 5.0, -2.0])
        """
        given = rows_of_points("points", points)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            x, y, z = np.moveaxis(given - self.eye, -1, 0)
            a, b, depth = (x * g[0] + y * g[1] + z * g[2] for g in self.gradients)
            if self.perspective:
                divisor = np.where(depth > 0.0, depth, np.nan)
                a, b = a / divisor, b / divisor
            x, y = self.centre[0] + a, self.centre[1] + b
        undefined = ~np.isfinite(given).all(axis=-1)
        x, y, depth = (np.where(undefined, np.nan, part) for part in (x, y, depth))
        if given.ndim == 1:
            return float(x), float(y), float(depth)
        return x, y, depth

    def frustum(self, x0: float, y0: float, x1: float, y1: float) -> Floats:
        """Return the half-spaces whose intersection is visible in a rectangle of the picture.

        Parameters
        ----------
        x0, y0, x1, y1 : float
            Any two opposite corners, as in `ray`, finite. They may lie outside the picture, and
            the rectangle may be as narrow as a line or a point.

        Returns
        -------
        ndarray of float64, shape (n, 4)
            Rows (nx, ny, nz, offset) with unit normals: inside is where n . p + offset >= 0, as
            `BVH.overlap_frustum` takes them. Four for the borders, one for `near` (the plane of the
            eye if that is 0), and one for `far` unless it is infinite. Rounding to doubles moves a
            plane by less than two roundings of its distance from the eye and of the eye's numbers.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 20, 20)
        >>> tree.overlap_frustum(camera.frustum(10.5, 5, 20, 9.5)).prim_id
        array([0], dtype=int32)
        >>> tree.overlap_frustum(camera.frustum(0, 0, 5, 20)).prim_id
        array([], dtype=int32)
        """
        sides = sides_of(x0, y0, x1, y1)
        # At v = p - eye, the picture has (gx . v, gy . v) + centre, for perspective divided by the
        # depth gz . v before the sum; gx and gy are `across`, gz is `along`. A border is a level of
        # gx . v or gy . v, for perspective times the depth, and `sign` turns its plane inward.
        *across, along = self.gradients.tolist()
        planes, eye = [], exact_point(self.eye.tolist())
        for gradient, ends, middle in zip(across, sides, self.centre.tolist(), strict=True):
            for sign, border in zip((1.0, -1.0), ends, strict=True):
                level = sign * (border - middle)
                normal = [sign * g for g in gradient]
                if self.perspective:
                    normal = [n - level * g for n, g in zip(normal, along, strict=True)]
                    level = 0.0
                planes.append(_plane(normal, level, eye))
        for sign, depth in ((1.0, self.near), (-1.0, self.far)):
            if math.isfinite(depth):
                planes.append(_plane([sign * g for g in along], sign * depth, eye))
        return np.array(planes)

    def _parts(self) -> dict[str, Any]:
        """Return the arguments of the constructor by name; arrays become lists, to compare."""
        values = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in values.items()}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((type(self), self._floats, self.width, self.height, self.y))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._parts().values())

    def __repr__(self) -> str:
        """Return a description of at most 100 characters; `str` leaves nothing out."""
        parts, text = self._description(), str(self)
        while len(text) > 100 and len(parts) > 1:
            parts.pop()
            text = f"{type(self).__name__}({', '.join(parts)}, ...)"
        return text

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._description())})"

    def _description(self) -> list[str]:
        """Return the parts of `str` and `repr`, the most important first."""
        parts = [f"{self.width} x {self.height} pixels", f"eye {_text(self.eye)}"]
        parts.append(f"forward {_text(self.forward)}")
        size = np.array([self.width, self.height]) / self.pixel_ratio
        if np.abs(2.0 * self.centre - size).max() > 1e-9 * size.max():
            parts.append(f"off centre, around {_text(self.centre)}")
        if self.perspective:
            parts.append(f"fov_y {math.degrees(2.0 * math.atan(self.half_height)):.6g}")
        else:
            parts.append(f"parallel rays, view_height {2.0 * self.half_height:.6g}")
        if self.near != 0.0 or self.far != math.inf:
            parts.append(f"near {self.near:.6g}, far {self.far:.6g}")
        if self.y != "down":
            parts.append(f"y {self.y}")
        if self.pixel_ratio != 1.0:
            parts.append(f"pixel_ratio {self.pixel_ratio:.6g}")
        return parts


def _plane(normal: list[float], level: float, eye: Row) -> list[float]:
    """Return the half-space normal . (p - eye) >= level as [nx, ny, nz, d]: n . p + d >= 0.

    n is the unit normal. `eye` is a homogeneous point of integers: its coordinates times a weight,
    then the weight.
    """
    size = math.hypot(*normal)
    row = [n / size for n in normal]
    # d = -(n . eye + level / size) exactly, because for a distant eye the products cancel.
    (plane,), scale = scaled([[*row, level / size]])
    return [*row, -(dot(plane, eye) / (scale * eye[3]))]


def _text(vector: Floats) -> str:
    """Return a vector as text, six digits a number, without minus zeros."""
    return "[" + ", ".join(f"{x + 0.0:.6g}" for x in vector.tolist()) + "]"


def _unit(vector: Floats) -> Floats:
    """Return a vector scaled to length 1, without underflow or overflow."""
    vector = vector / np.abs(vector).max()
    return np.asarray(vector / np.linalg.norm(vector))
