"""Lights and shading of a band of rays: numbers of what they hit, and colours.

Directions of rays to the lamp and to the sky are stratified, with another shift for each sample of
the picture. They depend on the sample's position alone, not on threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.pictures import colours
from bvh.pictures.surfaces import Spots, Surfaces, leaf_of
from bvh.queries.hierarchy import BVH
from bvh.queries.results import Hits, SceneHits
from bvh.runtime.simd import WIDTH
from bvh.scene.scene import Scene

SHADES = ("normals", "clay", "ao", "shadow", "depth", "id", "instance", "uv", "cost")
DATA = ("depth", "id", "instance", "leaf", "normals", "position", "uv", "cost", "ao", "shadow")

# Colours of the lamp and the sky, and of the materials.
WARM, COOL = np.array([1.0, 0.93, 0.84]), np.array([0.66, 0.76, 0.92])
PLASTER, CLAY = np.array([0.92, 0.90, 0.87]), np.array([0.88, 0.66, 0.52])
GAMMA = 1.6

# Share of the sky's light that reaches hidden places indirectly.
BOUNCED = 0.06

# Shifts repeat in tiles of TILE x TILE samples.
TILE = 32

# Step of the golden ratio sequence.
STEP = 0.6180339887498949

# Reciprocal of the real root of x**3 = x + 1, the plastic number, for sequences in two dimensions.
R2 = 0.7548776662466927

Floats = NDArray[np.float64]


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

    def of_sky(
        self, source: BVH | Scene, spots: Spots, cells: NDArray[Any]
    ) -> tuple[Floats, Floats]:
        """Return for each spot the visible share of the sky, and the light from there.

        Both are means over directions, weighted by the cosine; the light is also weighted by the
        brightness of the sky.
        """
        # A point of the unit sphere plus the normal is distributed like the cosine.
        rays = self.sphere[cells] + spots.smooth[:, None]
        # With smooth normals some point into the face, and are mirrored.
        depth = np.einsum("nkj,nj->nk", rays, spots.flat)
        spot, ray = np.nonzero(depth < 0.0)
        rays[spot, ray] -= 2.0 * depth[spot, ray, None] * spots.flat[spot]
        lengths = np.sqrt(np.einsum("nkj,nkj->nk", rays, rays))
        with np.errstate(divide="ignore", over="ignore"):
            t_max = self.reach / lengths
        hidden = np.asarray(source.any_hit(spots.starts[:, None], rays, t_max=t_max, threads=1))
        shine = 0.5 + 0.5 * np.einsum("nkj,j->nk", rays, self.zenith) / np.maximum(lengths, 1e-300)
        # The light of an open sky is known, so subtracting what is hidden leaves less noise.
        whole = 0.5 + spots.smooth @ self.zenith / 3.0
        lost = np.einsum("nk,nk->n", hidden, shine) / self.rays
        light = np.maximum(whole - lost, 0.0)
        return 1.0 - hidden.mean(axis=1), light

    def of_lamp(self, source: BVH | Scene, spots: Spots, cells: NDArray[Any]) -> Floats:
        """Return for each spot the visible share of the lamp, 0 where it faces away."""
        found = np.zeros(len(spots.points))
        facing = np.flatnonzero(spots.smooth @ self.lamp > 0.0)
        starts = spots.starts[facing]
        if self.softness == 0.0:
            found[facing] = ~np.asarray(source.any_hit(starts, self.lamp, threads=1))
        elif len(facing):
            rays = self.disk[cells[facing]]
            free = ~np.asarray(source.any_hit(starts[:, None], rays, threads=1))
            found[facing] = free.mean(axis=1)
        return found


def cells_of(rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.int64]:
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


class Sight:
    """What the rays of a band see; each property is computed on first access.

    Rays have shape (height, width); properties of hits have a row for each hit.
    """

    def __init__(
        self, stage: Stage, hits: Hits, origins: Floats, directions: Floats, cells: NDArray[Any]
    ) -> None:
        self.stage, self.hits, self.mask = stage, hits, hits.mask
        self.seen = hits[self.mask]
        self.directions = np.broadcast_to(directions, (*self.mask.shape, 3))[self.mask]
        self._origins = np.broadcast_to(origins, (*self.mask.shape, 3))[self.mask]
        self._cells = cells[self.mask]
        self.rays = self.mask.size

    @cached_property
    def spots(self) -> Spots:
        """Points that are hit, with smooth normals."""
        return self.stage.surfaces.spots(self.seen, self._origins, self.directions)

    @cached_property
    def flat(self) -> Spots:
        """Points that are hit, with flat normals."""
        surfaces = self.stage.surfaces
        return surfaces.spots(self.seen, self._origins, self.directions, bent=False)

    @cached_property
    def sky(self) -> tuple[Floats, Floats]:
        """Visible share of the sky for each spot, and the light from there."""
        self.rays += len(self.seen) * self.stage.lights.rays
        return self.stage.lights.of_sky(self.stage.source, self.spots, self._cells)

    @cached_property
    def lamp(self) -> Floats:
        """Visible share of the lamp for each spot."""
        lights = self.stage.lights
        facing = int(np.count_nonzero(self.spots.smooth @ lights.lamp > 0.0))
        self.rays += facing * (lights.rays if lights.softness else 1)
        return lights.of_lamp(self.stage.source, self.spots, self._cells)

    @cached_property
    def cost(self) -> Floats:
        """Visited nodes and groups of primitives of each ray, hit or miss."""
        counted: Any = self.hits
        return np.asarray(counted.nodes + counted.tests / WIDTH)

    @property
    def instances(self) -> NDArray[Any]:
        """Instance ids of the hits; 0 for a tree."""
        seen = self.seen
        return seen.instance_id if isinstance(seen, SceneHits) else leaf_of(seen)


class Stage:
    """Source, camera and lights of a picture."""

    def __init__(self, source: BVH | Scene, camera: Camera, lights: Lights) -> None:
        self.source, self.camera, self.lights = source, camera, lights
        self.surfaces = Surfaces(source)
        corners = np.stack(np.meshgrid(*source.bounds.T, indexing="ij"), axis=-1).reshape(-1, 3)
        depth = (corners - camera.eye) @ camera.forward
        self.near, self.far = float(depth.min()), float(depth.max())

    def ids(self, hits: Hits) -> NDArray[Any]:
        """Return the ids of what is hit; of a tree over a part of a mesh, those in the mesh."""
        mesh_ids = getattr(self.source, "mesh_ids", None)
        return hits.prim_id if mesh_ids is None else np.asarray(mesh_ids(hits.prim_id))

    def data(self, name: str, sight: Sight) -> NDArray[Any]:
        """Return the named numbers, one or a row for each ray."""
        if name == "depth":
            return np.asarray(sight.hits.t, np.float64)
        if name == "cost":
            return sight.cost
        if name in ("id", "instance", "leaf"):
            found: Any = {"instance": sight.instances, "leaf": leaf_of(sight.seen)}.get(name)
            return _filled(sight.mask, self.ids(sight.seen) if found is None else found, -1)
        if name in ("ao", "shadow"):
            return _filled(sight.mask, sight.sky[0] if name == "ao" else sight.lamp, 1.0)
        if name == "uv":
            return _filled(sight.mask, self.surfaces.uv(sight.seen), np.nan)
        spots = sight.flat
        return _filled(sight.mask, spots.flat if name == "normals" else spots.points, np.nan)

    def colours(self, shade: str, sight: Sight, rows: Floats) -> Floats:
        """Return the colours of hits and background, shape (height, width, 3)."""
        sky = colours.sky(rows / self.camera.height)
        painted = np.repeat(sky[:, None], sight.mask.shape[1], axis=1)
        if sight.mask.any():
            painted[sight.mask] = self._painted(shade, sight)
        return painted

    def _painted(self, shade: str, sight: Sight) -> Floats:
        """Return the colours of hits, shape (n, 3)."""
        hits = sight.seen
        if shade == "depth":
            share = (hits.t - self.near) / max(self.far - self.near, np.finfo(np.float64).tiny)
            return np.repeat((1.0 - 0.85 * np.clip(share, 0.0, 1.0))[:, None], 3, axis=1)
        if shade == "id":
            return colours.face_colours(self.ids(hits), leaf_of(hits))
        if shade == "uv":
            return self._mapped(sight)
        if shade == "normals":
            return np.asarray(sight.flat.flat * 0.5 + 0.5)
        if shade == "instance":
            found = colours.instance_colours(sight.instances)
            return np.asarray(found * (0.4 + 0.6 * self._slant(sight))[:, None])
        return self._lit(shade, sight)

    def _slant(self, sight: Sight) -> Floats:
        """Return the cosine between ray and normal, from 0 to 1."""
        lengths = np.linalg.norm(sight.directions, axis=1)
        return np.asarray(np.abs((sight.flat.flat * sight.directions).sum(axis=1)) / lengths)

    def _mapped(self, sight: Sight) -> Floats:
        """Return the colours of texture coordinates, or of barycentric weights."""
        uv, hits = self.surfaces.uv(sight.seen), sight.seen
        with np.errstate(invalid="ignore"):
            found = np.stack([1.0 - hits.u - hits.v, hits.u, hits.v], axis=1)
            found = np.nan_to_num(0.12 + 0.83 * found, nan=0.5)
            textured = self.surfaces.textured(hits)
            found[textured] = colours.texture_colours(np.nan_to_num(uv[textured]))
        return np.asarray(found * (0.55 + 0.45 * self._slant(sight))[:, None])

    def _lit(self, shade: str, sight: Sight) -> Floats:
        """Return the colours of lit plaster or clay."""
        smooth, lights = sight.spots.smooth, self.lights
        open_sky = 0.5 + smooth @ lights.zenith / 3.0
        if shade == "ao":
            light = 0.94 * sight.sky[1] * np.sqrt(sight.sky[0]) + BOUNCED * open_sky
            return _toned(1.28 * PLASTER * light[:, None])
        key = np.clip(smooth @ lights.lamp, 0.0, 1.0) * sight.lamp
        if shade == "shadow":
            light = 0.80 * key[:, None] * WARM + 0.30 * open_sky[:, None] * COOL
            return _toned(PLASTER * light)
        fill = 0.55 * sight.sky[1] + BOUNCED * open_sky
        return _toned(CLAY * (0.85 * key[:, None] * WARM + fill[:, None] * COOL))


def _toned(light: Floats) -> Floats:
    """Return clamped and gamma corrected colours for amounts of light."""
    return np.asarray(np.minimum(light, 1.0) ** (1.0 / GAMMA))


def _filled(mask: NDArray[np.bool_], values: NDArray[Any], miss: float) -> NDArray[Any]:
    """Return the values of hits at their rays, and `miss` elsewhere."""
    found = np.full((*mask.shape, *values.shape[1:]), miss, values.dtype)
    found[mask] = values
    return found
