"""Lights: a lamp and a sky, and the rays to them.

Directions of rays to the lamp and to the sky are stratified, with another shift for each sample of
the picture. They depend on the sample's position alone, not on threads.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bvh.pictures.render_source import Occluders
from bvh.pictures.surfaces import Floats, Ints, Spots

# Shifts repeat in tiles of TILE x TILE samples.
TILE = 32
# Step of the golden ratio sequence.
STEP = 0.6180339887498949
# Reciprocal of the real root of x**3 = x + 1, the plastic number, for sequences in two dimensions.
R2 = 0.7548776662466927


@dataclass(frozen=True, eq=False)
class Lights:
    """A lamp at infinity, and a sky that is brighter towards its zenith.

    `softness` is the angular diameter of the lamp in degrees, `rays` the number of rays from each
    spot to the sky and to a soft lamp, `reach` the largest distance of what hides the sky.
    """

    lamp: Floats
    zenith: Floats
    softness: float
    rays: int
    reach: float

    @cached_property
    def sphere(self) -> Floats:
        """Points of the unit sphere for each cell of the tile."""
        x, y = np.moveaxis(spread(self.rays), -1, 0)
        height, angle = 1.0 - 2.0 * x, 2.0 * math.pi * y
        across = np.sqrt(1.0 - height * height)
        return np.stack([across * np.cos(angle), across * np.sin(angle), height], axis=-1)

    @cached_property
    def disk(self) -> Floats:
        """Directions to points of the lamp for each cell of the tile."""
        x, y = np.moveaxis(spread(self.rays), -1, 0)
        radius = math.tan(math.radians(self.softness) / 2) * np.sqrt(x)
        angle = 2.0 * math.pi * y
        one = np.cross(self.lamp, np.eye(3)[np.abs(self.lamp).argmin()])
        one /= np.linalg.norm(one)
        other = np.cross(self.lamp, one)
        side, up = radius * np.cos(angle), radius * np.sin(angle)
        return np.asarray(self.lamp + (side[..., None] * one + up[..., None] * other))

    def of_sky(self, occluders: Occluders, spots: Spots, cells: Ints) -> tuple[Floats, Floats]:
        """Return for each spot the visible share of the sky, by the cosine, and the light of it."""
        # A point of the unit sphere plus the normal is distributed like the cosine.
        rays = self.sphere[cells] + spots.smooth[:, None]
        # With smooth normals some point into the face, and are mirrored.
        depth = np.einsum("nkj,nj->nk", rays, spots.flat)
        spot, ray = np.nonzero(depth < 0.0)
        rays[spot, ray] -= 2.0 * depth[spot, ray, None] * spots.flat[spot]
        lengths = np.sqrt(np.einsum("nkj,nkj->nk", rays, rays))
        with np.errstate(divide="ignore", over="ignore"):
            t_max = self.reach / lengths
        hidden = np.asarray(occluders.any_hit(spots.starts[:, None], rays, t_max=t_max, threads=1))
        shine = 0.5 + 0.5 * np.einsum("nkj,j->nk", rays, self.zenith) / np.maximum(lengths, 1e-300)
        # The light of an open sky is known, so subtracting what is hidden leaves less noise.
        whole = 0.5 + spots.smooth @ self.zenith / 3.0
        lost = np.einsum("nk,nk->n", hidden, shine) / self.rays
        return 1.0 - hidden.mean(axis=1), np.maximum(whole - lost, 0.0)

    def of_lamp(self, occluders: Occluders, spots: Spots, cells: Ints) -> Floats:
        """Return for each spot the visible share of the lamp, 0 where it faces away."""
        found = np.zeros(len(spots.points))
        facing = np.flatnonzero(spots.smooth @ self.lamp > 0.0)
        starts = spots.starts[facing]
        if self.softness == 0.0:
            found[facing] = ~np.asarray(occluders.any_hit(starts, self.lamp, threads=1))
        elif len(facing):
            rays = self.disk[cells[facing]]
            free = ~np.asarray(occluders.any_hit(starts[:, None], rays, threads=1))
            found[facing] = free.mean(axis=1)
        return found


def cells_of(rows: Ints, columns: Ints) -> Ints:
    """Return the cell of the tile for each sample of a picture."""
    return np.asarray((rows % TILE)[:, None] * TILE + (columns % TILE)[None, :])


def spread(count: int) -> Floats:
    """Return evenly spread points of the unit square, shape (TILE * TILE, count, 2).

    They are the same for all cells of the tile, but shifted (Cranley and Patterson 1976,
    "Randomization of number theoretic methods") by a lattice in which neighbours differ most
    (Roberts 2018, "The unreasonable effectiveness of quasirandom sequences"), transposed for the
    second coordinate, so that the error is of high frequency.
    """
    k = np.arange(count)
    base = np.stack([(k + 0.5) / count, (k * STEP + 0.25) % 1.0], axis=-1)
    cells = np.stack(np.divmod(np.arange(TILE * TILE), TILE), axis=-1)
    shifts = ((cells + 0.5) @ [[R2, R2 * R2], [R2 * R2, R2]]) % 1.0
    # The first coordinate is stratified already: it is shifted within its stratum.
    return np.asarray((base + (shifts / [count, 1.0])[:, None]) % 1.0)
