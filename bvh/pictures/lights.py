"""What lights a picture: a lamp, whose shadows are hard or soft, and the sky all around.

Rays to the lamp and to the sky are spread evenly, and in another way for each sample of the
picture: by the same numbers wherever its bands begin and whoever works on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.pictures.surfaces import Spots
from bvh.scene import Scene
from bvh.tree import BVH

Floats = NDArray[np.float64]

# Samples take turns in a square of TILE x TILE ways to spread rays.
TILE = 32

# The golden ratio's step, with which a sequence fills the unit interval evenly.
STEP = 0.6180339887498949


@dataclass(frozen=True, eq=False)
class Lights:
    """A lamp far away, and a sky that is brighter above.

    Attributes
    ----------
    lamp, zenith : ndarray, shape (3,)
        Unit directions to the lamp, and to where the sky is brightest.
    softness : float
        Degrees of the sky that the lamp takes up.
    rays : int
        Rays from each spot to the sky, and to a lamp that is not a point.
    reach : float
        How far away what hides the sky may be.
    """

    lamp: Floats
    zenith: Floats
    softness: float
    rays: int
    reach: float
    sphere: Floats = field(init=False)
    disk: Floats = field(init=False)

    def __post_init__(self) -> None:
        x, y = np.moveaxis(spread(self.rays), -1, 0)
        height, angle = 1.0 - 2.0 * x, 2.0 * math.pi * y
        across = np.sqrt(1.0 - height * height)
        sphere = [across * np.cos(angle), across * np.sin(angle), height]
        object.__setattr__(self, "sphere", np.stack(sphere, axis=-1))
        radius = math.tan(math.radians(self.softness) / 2) * np.sqrt(x)
        one = np.cross(self.lamp, np.eye(3)[np.abs(self.lamp).argmin()])
        one /= np.linalg.norm(one)
        other = np.cross(self.lamp, one)
        disk = (radius * np.cos(angle))[..., None] * one + (radius * np.sin(angle))[
            ..., None
        ] * other
        object.__setattr__(self, "disk", self.lamp + disk)

    def of_sky(
        self, source: BVH | Scene, spots: Spots, cells: NDArray[Any]
    ) -> tuple[Floats, Floats]:
        """Return for each spot how much of the sky it sees, and how much light that gives.

        Both are means over directions, weighted by their cosines; the first counts all of the sky
        alike, the second as it shines.
        """
        # A point of the unit sphere plus the normal is distributed like the cosine.
        ways = self.sphere[cells] + spots.smooth[:, None]
        # Where surfaces bend, some go into the face; light comes from the mirrored ways.
        depth = np.einsum("nkj,nj->nk", ways, spots.flat)
        spot, way = np.nonzero(depth < 0.0)
        ways[spot, way] -= 2.0 * depth[spot, way, None] * spots.flat[spot]
        lengths = np.sqrt(np.einsum("nkj,nkj->nk", ways, ways))
        with np.errstate(divide="ignore", over="ignore"):
            t_max = self.reach / lengths
        hidden = np.asarray(source.any_hit(spots.starts[:, None], ways, t_max=t_max, threads=1))
        shine = 0.5 + 0.5 * np.einsum("nkj,j->nk", ways, self.zenith) / np.maximum(lengths, 1e-300)
        # All light of an open sky is known; to take away what is hidden leaves open places smooth.
        whole = 0.5 + spots.smooth @ self.zenith / 3.0
        lost = np.einsum("nk,nk->n", hidden, shine) / self.rays
        light = np.maximum(whole - lost, 0.0)
        return 1.0 - hidden.mean(axis=1), light

    def of_lamp(self, source: BVH | Scene, spots: Spots, cells: NDArray[Any]) -> Floats:
        """Return for each spot how much of the lamp it sees; 0 where it is turned away."""
        found = np.zeros(len(spots.points))
        facing = np.flatnonzero(spots.smooth @ self.lamp > 0.0)
        starts = spots.starts[facing]
        if self.softness == 0.0:
            found[facing] = ~np.asarray(source.any_hit(starts, self.lamp, threads=1))
        elif len(facing):
            ways = self.disk[cells[facing]]
            free = ~np.asarray(source.any_hit(starts[:, None], ways, threads=1))
            found[facing] = free.mean(axis=1)
        return found


def cells_of(rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.int64]:
    """Return which way to spread rays belongs to each sample of a picture."""
    return np.asarray((rows % TILE)[:, None] * TILE + (columns % TILE)[None, :])


def spread(count: int) -> Floats:
    """Return for each cell of the tile so many points, spread evenly in the unit square.

    Returns
    -------
    ndarray of float64, shape (TILE * TILE, count, 2)
        The same points for all cells, but for a shift (Cranley and Patterson 1976, "Randomization
        of number theoretic methods") that is blue noise: neighbours differ as much as they can, so
        that the eye sees their mean (Georgiev and Fajardo 2016, "Blue-noise dithered sampling").
    """
    k = np.arange(count)
    base = np.stack([(k + 0.5) / count, (k * STEP + 0.25) % 1.0], axis=-1)
    # The first coordinate is even already: a shift within its step is enough.
    shifts = np.stack([_ranks(TILE, 0) / count, _ranks(TILE, 1)], axis=-1)
    return np.asarray((base + shifts[:, None]) % 1.0)


@cache
def _ranks(side: int, salt: int) -> Floats:
    """Return an even share of 0..1 for each cell of a square, neighbours far apart.

    One cell after the other is taken where the emptiest place is among those that were taken before
    (Ulichney 1993, "The void-and-cluster method for dither array generation").
    """
    away = np.minimum(np.arange(side), side - np.arange(side))
    near = np.exp(-(away[:, None] ** 2 + away**2) / (2.0 * 1.6**2))
    # What no cell is near to differs by this.
    full = 1e-9 * np.random.default_rng(salt).random((side, side))
    ranks = np.empty(side * side)
    for rank in range(side * side):
        cell = int(full.argmin())
        ranks[cell] = rank
        full += np.roll(near, (cell // side, cell % side), axis=(0, 1))
        full.flat[cell] = np.inf
    return np.asarray((ranks + 0.5) / side**2)
