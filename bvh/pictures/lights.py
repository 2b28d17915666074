"""Lights: a lamp and a sky, the rays to them, and the ground, which shows only shadows.

Directions of rays to the lamp and to the sky are stratified, with another shift for each sample of
the picture. They depend on the sample's position alone, not on threads.
"""

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from bvh.camera.camera import Camera
from bvh.camera.placement import AXES, corners_of, upward
from bvh.pictures.render_source import Occluders, Pictured
from bvh.pictures.surfaces import ROUNDINGS, Floats, Ints, Spots
from bvh.scene.scene import Scene

# Shifts repeat in tiles of TILE x TILE samples; a cell is a place in the tile.
TILE = 32
# Step of the golden ratio sequence.
GOLDEN = 0.6180339887498949
# Width of the Gaussian that spreads the shifts, in samples (Ulichney 1993).
SPREAD = 1.9

# Smallest angular diameter of the lamp for shadows on the ground, which are soft, in degrees.
SOFTNESS = 12.0
# Share of light that the sky and the lamp give the ground.
SKY_SHARE, LAMP_SHARE = 0.55, 0.22
# Sine of the lowest elevation of a lamp that throws shadows on the ground.
LOWEST_LAMP = 0.1
# Largest cosine of the angle between the up axis and the right of a picture that is not rolled.
ROLL = 1e-6


@dataclass(frozen=True, eq=False)
class Lights:
    """A lamp at infinity, and a sky that is brighter towards its zenith."""

    lamp: Floats  # unit vector to the lamp
    zenith: Floats  # unit vector to the brightest point of the sky
    softness: float  # the angular diameter of the lamp in degrees
    rays: int  # from each spot to the sky, and to a soft lamp
    reach: float  # the largest distance of occluders of the sky

    @cached_property
    def sphere(self) -> Floats:
        """Points of the unit sphere for each cell of the tile, shape (TILE * TILE, rays, 3)."""
        x, y = np.moveaxis(spread(self.rays), -1, 0)
        # Equal intervals of height have equal areas of the sphere.
        height, angle = 1.0 - 2.0 * x, 2.0 * math.pi * y
        across = np.sqrt(1.0 - height * height)
        return np.stack([across * np.cos(angle), across * np.sin(angle), height], axis=-1)

    @cached_property
    def disk(self) -> Floats:
        """Vectors to points of the lamp for each cell of the tile, shape (TILE * TILE, rays, 3)."""
        x, y = np.moveaxis(spread(self.rays), -1, 0)
        # The lamp is a disk at distance 1; the square root makes the density the same all over it.
        radius = math.tan(math.radians(self.softness) / 2) * np.sqrt(x)
        angle = 2.0 * math.pi * y
        # Unit vectors across the direction to the lamp.
        side = np.cross(self.lamp, np.eye(3)[np.abs(self.lamp).argmin()])
        side /= np.linalg.norm(side)
        up = np.cross(self.lamp, side)
        along_side, along_up = radius * np.cos(angle), radius * np.sin(angle)
        return np.asarray(self.lamp + (along_side[..., None] * side + along_up[..., None] * up))

    def of_sky(self, occluders: Occluders, spots: Spots, cells: Ints) -> tuple[Floats, Floats]:
        """Return for each of n spots the visible share of the sky, (n,), and its light, (n,).

        Both are weighted by the cosine of the angle to the normal. `occluders` hide the sky.
        `cells`, (n,), by `cells_of`, choose a row of `sphere`, directions of rays, for each spot.
        """
        rays, lengths, t_max = self.towards_sky(spots.smooth, spots.flat, cells)
        hidden = np.asarray(occluders.any_hit(spots.starts[:, None], rays, t_max=t_max, threads=1))
        # The brightness of the sky along each ray, from 0 to 1; a ray may have the length 0.
        shine = 0.5 + 0.5 * np.einsum("nkj,j->nk", rays, self.zenith) / np.maximum(lengths, 1e-300)
        # Subtracting the hidden light from that of an open sky gives less noise. The latter is the
        # mean of `shine`, weighted by the cosine: the mean direction is 2/3 of the normal.
        unhidden = 0.5 + spots.smooth @ self.zenith / 3.0
        lost = np.einsum("nk,nk->n", hidden, shine) / self.rays
        return 1.0 - hidden.mean(axis=1), np.maximum(unhidden - lost, 0.0)

    def towards_sky(
        self, smooth: Floats, flat: Floats, cells: Ints
    ) -> tuple[Floats, Floats, Floats]:
        """Return rays to the sky, (n, rays, 3), their lengths, (n, rays), and t_max, (n, rays).

        `smooth` and `flat` are the normals of n spots, (n, 3), and `cells`, (n,), choose a row of
        `sphere` for each. Rays are on the side of the flat normal.
        """
        # The sum of the normal and a point of the unit sphere is distributed like the cosine.
        rays = self.sphere[cells]
        # Axis by axis: NumPy is slow where the last axis is short and another is broadcast.
        for axis in range(3):
            rays[..., axis] += smooth[:, None, axis]
        # Around a smooth normal, some rays point into the face: mirror them at its plane.
        depth = np.einsum("nkj,nj->nk", rays, flat)
        spot, ray = np.divmod(np.flatnonzero(depth < 0.0), depth.shape[1])
        rays[spot, ray] -= 2.0 * depth[spot, ray, None] * flat[spot]
        lengths = np.sqrt(np.einsum("nkj,nkj->nk", rays, rays))
        # Rays are not unit vectors: t is a distance in units of their lengths.
        with np.errstate(divide="ignore", over="ignore"):
            return rays, lengths, self.reach / lengths

    def of_lamp(self, occluders: Occluders, spots: Spots, cells: Ints) -> Floats:
        """Return for each of n spots the visible share of the lamp, (n,); 0 if a spot faces away.

        `cells`, (n,), by `cells_of`, choose a row of `disk`, directions of rays, for each spot.
        """
        share = np.zeros(len(spots.points))
        facing = np.flatnonzero(spots.smooth @ self.lamp > 0.0)
        starts = spots.starts[facing]
        if self.softness == 0.0:
            share[facing] = ~np.asarray(occluders.any_hit(starts, self.lamp, threads=1))
        elif len(facing):
            rays = self.disk[cells[facing]]
            free = ~np.asarray(occluders.any_hit(starts[:, None], rays, threads=1))
            share[facing] = free.mean(axis=1)
        return share


def cells_of(rows: Ints, columns: Ints) -> Ints:
    """Return the cell of each sample of a picture, (rows, columns), in a tile that repeats.

    The tile has TILE x TILE samples. Cells are numbered row by row.
    """
    return np.asarray((rows % TILE)[:, None] * TILE + (columns % TILE)[None, :])


def spread(count: int) -> Floats:
    """Return evenly spread points of the unit square, shape (TILE * TILE, count, 2).

    The points are the same for all cells of the tile, but shifted (Cranley and Patterson 1976,
    "Randomization of number theoretic methods") by blue noise, another for each coordinate, so that
    the error is of high frequency and without a pattern.
    """
    k = np.arange(count)
    base = np.stack([(k + 0.5) / count, (k * GOLDEN + 0.25) % 1.0], axis=-1)
    ranks = _blue_noise()
    shifts = np.stack([ranks, np.roll(ranks.T, (TILE // 2, TILE // 3), (0, 1))], axis=-1)
    # The first coordinate is stratified already: it is shifted within its stratum.
    return np.asarray((base + shifts.reshape(-1, 1, 2) / [count, 1.0]) % 1.0)


@cache
def _blue_noise() -> Floats:
    """Return the numbers (k + 0.5) / TILE**2 in a tile, in which close numbers are far apart.

    Number k is in the place farthest from the numbers before it: where the sum of Gaussians around
    their places is least. This is the second half of Ulichney 1993, "The void-and-cluster method".
    """
    # Squares of distances along an axis, which wrap around the tile; then a Gaussian around (0, 0).
    steps = np.minimum(np.arange(TILE), TILE - np.arange(TILE)) ** 2
    bump = np.exp(-(steps[:, None] + steps) / (2.0 * SPREAD**2))
    # A slight slope breaks ties without a pattern.
    crowd = 1e-3 * np.random.default_rng(1).random((TILE, TILE))
    ranks = np.empty((TILE, TILE))
    for k in range(TILE * TILE):
        row, column = divmod(int(crowd.argmin()), TILE)
        ranks[row, column] = (k + 0.5) / TILE**2
        crowd += np.roll(bump, (row, column), (0, 1))
        crowd[row, column] = np.inf
    return ranks


@dataclass(frozen=True, eq=False)
class Ground:
    """A plane below the bounds, and the part of it where there may be shadows."""

    up: Floats  # its unit normal
    level: float  # its distance from the origin along it
    across: Floats  # (2, 3): unit vectors in it
    near: Floats  # (2, 2): lowest and highest coordinates along these where there may be shadows
    lights: Lights

    @cached_property
    def _sky(self) -> tuple[Floats, Floats, Floats]:
        """What `Lights.towards_sky` returns for a spot of the plane in each cell of the tile."""
        normals = np.broadcast_to(self.up, (TILE * TILE, 3))
        return self.lights.towards_sky(normals, normals, np.arange(TILE * TILE))

    @classmethod
    def below(cls, bounds: Floats, up: Floats, lights: Lights) -> Self | None:
        """Return the ground that touches bounds, (2, 3), from below; None if they are empty.

        `up` is its unit normal. It has a lamp at least as soft as that of `lights`, and more rays.
        """
        if not np.isfinite(bounds).all():
            return None
        corners = corners_of(bounds)
        heights = corners @ up
        level = float(heights.min())
        side = np.cross(up, np.eye(3)[np.abs(up).argmin()])
        side /= np.linalg.norm(side)
        across = np.stack([side, np.cross(up, side)])
        # Noise is visible on a plane, so it has twice the rays.
        softness, rays = max(lights.softness, SOFTNESS), 2 * lights.rays
        soft = replace(lights, softness=softness, rays=rays)
        # Coordinates along `across` of the corners, and of the borders of their shadows.
        coordinates, above = [corners @ across.T], heights - level
        sine = float(soft.lamp @ up)
        if sine > LOWEST_LAMP:
            shadows = (corners - (above / sine)[:, None] * soft.lamp) @ across.T
            # A soft lamp spreads shadows by its radius at the distance height / sine, at a slant.
            blur = np.tan(np.radians(soft.softness) / 2) / sine**2 * above.max()
            coordinates += [shadows - blur, shadows + blur]
        points = np.concatenate(coordinates)
        # The bounds hide some of the sky from spots within `reach` of them.
        margin = min(lights.reach, float(np.linalg.norm(bounds[1] - bounds[0])))
        near = np.stack([points.min(axis=0) - margin, points.max(axis=0) + margin])
        return cls(up, level, across, near, soft)

    def light(
        self, occluders: Occluders, origins: Floats, directions: Floats, cells: Ints
    ) -> tuple[Floats, int]:
        """Return the light where camera rays (n, 3) meet the ground, (n,), and a number of rays.

        The light is a factor for the colour of the background: less than 1 in shadow, 1 elsewhere
        and for rays that miss the ground. The number counts rays that were cast to the lights.
        `occluders` throw the shadows; `cells`, (n,), by `cells_of`, choose directions to lights.
        """
        light = np.ones(len(origins))
        slope, height = _along(directions, self.up), _along(origins, self.up) - self.level
        rows = np.flatnonzero((slope < 0.0) & (height > 0.0))
        points = origins[rows] - (height[rows] / slope[rows])[:, None] * directions[rows]
        places = np.stack([_along(points, axis) for axis in self.across], axis=1)
        inside = ((places >= self.near[0]) & (places <= self.near[1])).all(axis=1)
        rows, points = rows[inside], points[inside]
        if len(rows) == 0:
            return light, 0
        size = np.abs(points).max(axis=1) + np.abs(self.level)
        up, cells = np.broadcast_to(self.up, points.shape), cells[rows]
        spots = Spots(points, up, up, points + ROUNDINGS * size[:, None] * up)
        rays, _, t_max = self._sky
        hidden = np.asarray(
            occluders.any_hit(spots.starts[:, None], rays[cells], t_max=t_max[cells], threads=1)
        )
        # The loss of light: up to SKY_SHARE and LAMP_SHARE, in full shadow.
        dark = SKY_SHARE * hidden.mean(axis=1)
        cast = self.lights.rays
        if self.lights.lamp @ self.up > LOWEST_LAMP:
            dark += LAMP_SHARE * (1.0 - self.lights.of_lamp(occluders, spots, cells))
            cast *= 2
        light[rows] = 1.0 - dark
        return light, cast * len(rows)


def _along(vectors: Floats, axis: Floats) -> Floats:
    """Return dot products of vectors (n, 3) with an axis, rounded alike for any n, unlike BLAS."""
    x, y, z = vectors.T
    return np.asarray(x * axis[0] + y * axis[1] + z * axis[2])


def is_inside(source: Pictured, camera: Camera) -> bool:
    """Return whether a perspective camera is inside the bounds of the source."""
    low, high = source.bounds
    return camera.perspective and bool(((low < camera.eye) & (camera.eye < high)).all())


def ground_up(source: Pictured, camera: Camera, up: bool | str | ArrayLike | None) -> Floats | None:
    """Return the up direction of the ground in a picture, or None for no ground.

    `up` is the argument `ground` of `render`: a direction; False for no ground; True or None for
    `Scene.up`, or z for a tree. If that direction is not upright in the picture, True and None
    stand for the coordinate axis that is. If no axis is upright, the picture is rolled: then True
    gives `Scene.up` or z, and None no ground, as it does for a camera inside the bounds.
    """
    if isinstance(up, bool | np.bool_):
        if not up:
            return None
    elif up is not None:
        return upward(up, "ground")
    default = upward(source.up if isinstance(source, Scene) else "z")
    if up is None and is_inside(source, camera):
        return None
    for axis in (default, *map(np.array, AXES.values())):
        if abs(axis @ camera.right) < ROLL and axis @ camera.up > -ROLL:
            return np.asarray(axis)
    return default if up else None
