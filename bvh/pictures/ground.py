"""Ground under what is shown, of which only the shadow is seen."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from bvh.camera.camera import Camera
from bvh.camera.placement import AXES, corners_of, upward
from bvh.pictures.lights import Lights
from bvh.pictures.render_source import Occluders, Pictured
from bvh.pictures.surfaces import ROUNDINGS, Floats, Ints, Spots
from bvh.scene.scene import Scene

# Smallest angular diameter of the lamp, in degrees, as its shadow on the ground is soft.
SOFTNESS = 12.0
# Share of light that the sky and the lamp give the ground.
OF_SKY, OF_LAMP = 0.55, 0.22
# Cosine of the steepest angle of a lamp that throws shadows on the ground.
LOWEST = 0.1
# Largest cosine between an axis and the right of a picture in which it is up.
LEVEL = 1e-6


@dataclass(frozen=True, eq=False)
class Ground:
    """A plane below everything, and the part of it where there may be shadows.

    `up` is its unit normal and `level` its distance from the origin along it; `near` are the lowest
    and the highest coordinates along `across` where there may be shadows, shape (2, 2).
    """

    up: Floats
    level: float
    across: Floats
    near: Floats
    lights: Lights

    @classmethod
    def below(cls, bounds: Floats, up: Floats, lights: Lights) -> Self | None:
        """Return the ground below bounds, or None if they are those of nothing."""
        if not np.isfinite(bounds).all():
            return None
        corners = corners_of(bounds)
        heights = corners @ up
        level = float(heights.min())
        side = np.cross(up, np.eye(3)[np.abs(up).argmin()])
        side /= np.linalg.norm(side)
        across = np.stack([side, np.cross(up, side)])
        soft = replace(lights, softness=max(lights.softness, SOFTNESS))
        reached, tall = [corners @ across.T], heights - level
        steep = float(soft.lamp @ up)
        if steep > LOWEST:
            slant = (corners - (tall / steep)[:, None] * soft.lamp) @ across.T
            blur = np.tan(np.radians(soft.softness) / 2) / steep**2 * tall.max()
            reached += [slant - blur, slant + blur]
        points = np.concatenate(reached)
        margin = min(lights.reach, float(np.linalg.norm(bounds[1] - bounds[0])))
        near = np.stack([points.min(axis=0) - margin, points.max(axis=0) + margin])
        return cls(up, level, across, near, soft)

    def light(
        self, occluders: Occluders, origins: Floats, directions: Floats, cells: Ints
    ) -> tuple[Floats, int]:
        """Return the light at the ground where rays (n, 3) meet it, 1 elsewhere; and rays cast."""
        found = np.ones(len(origins))
        slope, height = _along(directions, self.up), _along(origins, self.up) - self.level
        rows = np.flatnonzero((slope < 0.0) & (height > 0.0))
        points = origins[rows] - (height[rows] / slope[rows])[:, None] * directions[rows]
        places = np.stack([_along(points, axis) for axis in self.across], axis=1)
        inside = ((places >= self.near[0]) & (places <= self.near[1])).all(axis=1)
        rows, points = rows[inside], points[inside]
        if len(rows) == 0:
            return found, 0
        size = np.abs(points).max(axis=1) + np.abs(self.level)
        up = np.broadcast_to(self.up, points.shape)
        spots = Spots(points, up, up, points + ROUNDINGS * size[:, None] * up)
        dark = OF_SKY * (1.0 - self.lights.of_sky(occluders, spots, cells[rows])[0])
        cast = self.lights.rays
        if self.lights.lamp @ self.up > LOWEST:
            dark += OF_LAMP * (1.0 - self.lights.of_lamp(occluders, spots, cells[rows]))
            cast *= 2
        found[rows] = 1.0 - dark
        return found, cast * len(rows)


def _along(vectors: Floats, axis: Floats) -> Floats:
    """Return dot products; unlike those of BLAS, rounded the same in bands of any size."""
    x, y, z = vectors.T
    return np.asarray(x * axis[0] + y * axis[1] + z * axis[2])


def is_inside(source: Pictured, camera: Camera) -> bool:
    """Return whether a perspective camera is inside of the bounds of what it sees."""
    low, high = source.bounds
    return camera.perspective and bool(((low < camera.eye) & (camera.eye < high)).all())


def ground_up(source: Pictured, camera: Camera, up: bool | str | ArrayLike | None) -> Floats | None:
    """Return the up direction of the ground in a picture, or None for no ground.

    For True and None it is that of a scene, or z, unless it is aslant in the picture: then the axis
    that is upright there. None is no ground in a picture that is rolled, or from inside.
    """
    if isinstance(up, bool | np.bool_):
        if not up:
            return None
    elif up is not None:
        return upward(up, "ground")
    own = upward(source.up if isinstance(source, Scene) else "z")
    if up is None and is_inside(source, camera):
        return None
    for axis in (own, *map(np.array, AXES.values())):
        if abs(axis @ camera.right) < LEVEL and axis @ camera.up > -LEVEL:
            return np.asarray(axis)
    return own if up else None
