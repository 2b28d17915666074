"""Numbers of a camera: an affine map from pixels to rays, and its inverse.

At (x, y) in the picture, with (a, b) = (x, y) - centre, a ray starts at the eye in direction
forward + a step_x + b step_y, or, if all rays are parallel, at eye + a step_x + b step_y in
direction forward. The inverse of these three columns, `gradients`, maps space to the picture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bvh.camera.matrices import Raster, inverse_rows, number
from bvh.runtime.arguments import owned, reals, whole_number

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Lens:
    """A camera over a picture of `width` x `height` pixels.

    Immutable, comparable by its numbers, and picklable.

    Attributes
    ----------
    eye : ndarray, shape (3,)
        Origin of all rays, or a point of the plane in which parallel rays start.
    forward : ndarray, shape (3,)
        Unit direction of the view, normal to the picture; or that of all parallel rays.
    step_x, step_y : ndarray, shape (3,)
        What one unit of x, and of y, adds to the direction, or to the origin of a parallel ray.
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
        For a point p, `gradients @ (p - eye)` is (a, b, depth), with a and b still to be divided by
        the depth if `perspective`.
    """

    eye: Floats
    forward: Floats
    step_x: Floats
    step_y: Floats
    centre: Floats
    width: int
    height: int
    perspective: bool
    y: str = "down"
    pixel_ratio: float = 1.0
    near: float = 0.0
    far: float = math.inf
    gradients: Floats = field(init=False)
    _floats: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Check the numbers, and store those that rays of a cursor need."""
        for name, size in (("eye", 3), ("forward", 3), ("step_x", 3), ("step_y", 3), ("centre", 2)):
            array = reals(name, getattr(self, name))
            if array.shape != (size,) or not np.isfinite(array).all():
                raise ValueError(f"{name} must be {size} finite numbers, got {array.tolist()}")
            self._set(name, owned(array))
        raster = Raster.checked(self.width, self.height, self.y, self.pixel_ratio)
        for name, value in raster._asdict().items():
            self._set(name, value)
        self._set("near", number("near", self.near))
        self._set("far", number("far", self.far))
        if not self.near < self.far:
            raise ValueError(f"near must be less than far, got {self.near} and {self.far}")
        if self.perspective and not self.near >= 0.0:
            raise ValueError(f"near must not be behind the eye, got {self.near}")
        basis = np.stack([self.step_x, self.step_y, self.forward], axis=1)
        self._set("gradients", owned(np.array(inverse_rows("steps of pixels", basis))))
        parts = (self.centre, self.step_x, self.step_y, self.forward, self.eye)
        self._set("_floats", tuple(x for part in parts for x in part.tolist()))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def right(self) -> Floats:
        """Unit direction of growing x, shape (3,)."""
        return _unit(self.step_x)

    @property
    def up(self) -> Floats:
        """Unit direction upward in the picture, perpendicular to `right`."""
        upward = -self.step_y if self.y == "down" else self.step_y
        right = self.right
        upward = _unit(upward)
        return _unit(upward - (upward @ right) * right)

    @property
    def half_height(self) -> float:
        """Half the height of the picture, at depth 1 for a perspective camera."""
        scaled = self.step_y * (self.height / self.pixel_ratio)
        return float(np.linalg.norm(scaled)) / 2

    @property
    def t_min(self) -> float:
        """Smallest visible t of rays: `near`."""
        return self.near

    @property
    def t_max(self) -> float:
        """Largest visible t of rays: `far`."""
        return self.far

    def resized(self, width: int, height: int) -> Self:
        """Return the same view in a picture of another size, as when a window is resized.

        The vertical field of view and the shape of pixels stay, the horizontal one changes.

        Parameters
        ----------
        width, height : int
            Device pixels.

        Raises
        ------
        ValueError, TypeError
            If one of them is not an integer of at least 1.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2)
        >>> camera.resized(400, 100) == camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0,
        ...                                            400, 100)
        True
        """
        size = np.array([whole_number("width", width), whole_number("height", height)])
        before = np.array([self.width, self.height])
        share = self.height / height
        step_x, step_y = self.step_x * share, self.step_y * share
        # The centre of the picture keeps its ray.
        grown = height / self.height
        centre = self.centre * grown + (size - before * grown) / 2 / self.pixel_ratio
        return replace(
            self, step_x=step_x, step_y=step_y, centre=centre, width=width, height=height
        )

    def upright(self) -> Self:
        """Return the same view with y down and a `pixel_ratio` of 1, as in image files.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2,
        ...                             y="up", pixel_ratio=2.0)
        >>> camera.upright() == camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2)
        True
        """
        ratio, (cx, cy) = self.pixel_ratio, self.centre * self.pixel_ratio
        flip = -1.0 if self.y == "up" else 1.0
        centre = np.array([cx, self.height - cy if self.y == "up" else cy])
        return replace(
            self,
            step_x=self.step_x / ratio,
            step_y=flip * self.step_y / ratio,
            centre=centre,
            y="down",
            pixel_ratio=1.0,
        )

    def _parts(self) -> dict[str, Any]:
        """Return the defining numbers by name, arrays as lists."""
        values = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in values.items()}

    def __eq__(self, other: object) -> bool:
        """Return whether two cameras have the same numbers."""
        return type(other) is type(self) and self._parts() == other._parts()

    def __hash__(self) -> int:
        """Return a hash that equal cameras share."""
        return hash((type(self), self._floats, self.width, self.height, self.y))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the defining numbers."""
        return type(self), tuple(self._parts().values())

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in self._parts().items())
        return f"{type(self).__name__}({parts})"

    def __str__(self) -> str:
        """Return a short description; `repr` has all numbers."""
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
        return f"{type(self).__name__}({', '.join(parts)})"


def _text(vector: Floats) -> str:
    """Return a vector in few digits, zeros without a sign."""
    return "[" + ", ".join(f"{x + 0.0:.6g}" for x in vector.tolist()) + "]"


def _unit(vector: Floats) -> Floats:
    """Return a vector of length 1, without underflow or overflow."""
    vector = vector / np.abs(vector).max()
    return np.asarray(vector / np.linalg.norm(vector))
