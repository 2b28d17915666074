"""What batches of rays see, as numbers and as colours."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.camera import Camera
from bvh.pictures import colours
from bvh.pictures.lights import Lights
from bvh.pictures.surfaces import Spots, Surfaces, leaf_of
from bvh.results import Hits, SceneHits
from bvh.scene import Scene
from bvh.simd import WIDTH
from bvh.tree import BVH

SHADES = ("normals", "clay", "ao", "shadow", "depth", "id", "instance", "uv", "cost")
DATA = ("depth", "id", "instance", "leaf", "normals", "position", "uv", "cost", "ao", "shadow")

# Lamp light is warm, the sky cool; what they fall on is plaster or clay.
WARM, COOL = np.array([1.0, 0.93, 0.84]), np.array([0.66, 0.76, 0.92])
PLASTER, CLAY = np.array([0.92, 0.90, 0.87]), np.array([0.88, 0.66, 0.52])
GAMMA = 1.6

# The share of an open sky that surfaces hand on to where it is hidden.
BOUNCED = 0.06

Floats = NDArray[np.float64]


class Sight:
    """What the rays of a band of a picture see; each part is found when it is first asked for.

    Rays have shape (height, width); what is told of hits has a row for each of them.
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
        """Where surfaces are hit, as light sees them."""
        return self.stage.surfaces.spots(self.seen, self._origins, self.directions)

    @cached_property
    def flat(self) -> Spots:
        """Where surfaces are hit, all of them flat."""
        surfaces = self.stage.surfaces
        return surfaces.spots(self.seen, self._origins, self.directions, bent=False)

    @cached_property
    def sky(self) -> tuple[Floats, Floats]:
        """How much of the sky each spot sees, and the light of that."""
        self.rays += len(self.seen) * self.stage.lights.rays
        return self.stage.lights.of_sky(self.stage.source, self.spots, self._cells)

    @cached_property
    def lamp(self) -> Floats:
        """How much of the lamp each spot sees."""
        lights = self.stage.lights
        facing = int(np.count_nonzero(self.spots.smooth @ lights.lamp > 0.0))
        self.rays += facing * (lights.rays if lights.softness else 1)
        return lights.of_lamp(self.stage.source, self.spots, self._cells)

    @cached_property
    def cost(self) -> Floats:
        """How many nodes and groups of primitives each ray has visited, hits or not."""
        counted: Any = self.hits
        return np.asarray(counted.nodes + counted.tests / WIDTH)

    @property
    def instances(self) -> NDArray[Any]:
        """The instances that are hit; 0 for those of a tree, which is only one."""
        seen = self.seen
        return seen.instance_id if isinstance(seen, SceneHits) else leaf_of(seen)


class Stage:
    """What is looked at, from where, and in what light."""

    def __init__(self, source: BVH | Scene, camera: Camera, lights: Lights) -> None:
        self.source, self.camera, self.lights = source, camera, lights
        self.surfaces = Surfaces(source)
        corners = np.stack(np.meshgrid(*source.bounds.T, indexing="ij"), axis=-1).reshape(-1, 3)
        depth = (corners - camera.eye) @ camera.forward
        self.near, self.far = float(depth.min()), float(depth.max())

    def data(self, name: str, sight: Sight) -> NDArray[Any]:
        """Return numbers that lie behind the picture, one or a row for each ray."""
        if name == "depth":
            return np.asarray(sight.hits.t, np.float64)
        if name == "cost":
            return sight.cost
        if name in ("id", "instance", "leaf"):
            found: Any = {"id": sight.seen.prim_id, "instance": sight.instances}.get(name)
            return _filled(sight.mask, leaf_of(sight.seen) if found is None else found, -1)
        if name in ("ao", "shadow"):
            return _filled(sight.mask, sight.sky[0] if name == "ao" else sight.lamp, 1.0)
        if name == "uv":
            return _filled(sight.mask, self.surfaces.uv(sight.seen), np.nan)
        spots = sight.flat
        return _filled(sight.mask, spots.flat if name == "normals" else spots.points, np.nan)

    def colours(self, shade: str, sight: Sight, rows: Floats) -> Floats:
        """Return the colours of what is seen, shape (height, width, 3), and of the sky."""
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
            return colours.face_colours(hits.prim_id, leaf_of(hits))
        if shade == "uv":
            return self._mapped(sight)
        if shade == "normals":
            return np.asarray(sight.flat.flat * 0.5 + 0.5)
        if shade == "instance":
            found = colours.instance_colours(sight.instances)
            return np.asarray(found * (0.4 + 0.6 * self._slant(sight))[:, None])
        return self._lit(shade, sight)

    def _slant(self, sight: Sight) -> Floats:
        """Return how squarely faces are seen: 1 from straight ahead, 0 along them."""
        lengths = np.linalg.norm(sight.directions, axis=1)
        return np.asarray(np.abs((sight.flat.flat * sight.directions).sum(axis=1)) / lengths)

    def _mapped(self, sight: Sight) -> Floats:
        """Return the colours of texture coordinates, or of weights of a face's corners."""
        uv, hits = self.surfaces.uv(sight.seen), sight.seen
        with np.errstate(invalid="ignore"):
            found = np.stack([1.0 - hits.u - hits.v, hits.u, hits.v], axis=1)
            found = np.nan_to_num(0.12 + 0.83 * found, nan=0.5)
            textured = self.surfaces.textured(hits)
            found[textured] = colours.texture_colours(np.nan_to_num(uv[textured]))
        return np.asarray(found * (0.55 + 0.45 * self._slant(sight))[:, None])

    def _lit(self, shade: str, sight: Sight) -> Floats:
        """Return the colours of plaster or clay in the light."""
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
    """Return the colours that screens show for amounts of light; bright ones are held back."""
    return np.asarray(np.minimum(light, 1.0) ** (1.0 / GAMMA))


def _filled(mask: NDArray[np.bool_], values: NDArray[Any], miss: float) -> NDArray[Any]:
    """Return values at the rays that hit, and what stands for a miss elsewhere."""
    found = np.full((*mask.shape, *values.shape[1:]), miss, values.dtype)
    found[mask] = values
    return found
