"""Shading of a band of rays: data of their hits, and colours."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.camera.placement import corners_of
from bvh.io.materials import srgb_of
from bvh.pictures import colours
from bvh.pictures.lights import Ground, Lights
from bvh.pictures.render_source import RenderSource
from bvh.pictures.surfaces import Floats, Ints, Spots, Surfaces, leaf_of
from bvh.queries.results import Hits
from bvh.runtime.simd import WIDTH

Shade = Literal[
    "normals", "clay", "material", "ao", "shadow", "depth", "id", "instance", "uv", "cost"
]
SHADES = get_args(Shade)
DATA = ("depth", "id", "instance", "leaf", "normals", "position", "uv", "cost", "ao", "shadow")

# Colours of the lamp and the sky, and of the materials.
WARM, COOL = np.array([1.0, 0.93, 0.84]), np.array([0.66, 0.76, 0.92])
PLASTER, CLAY = np.array([0.92, 0.90, 0.87]), np.array([0.88, 0.66, 0.52])
GAMMA = 1.6
# The lamp of pictures of materials, and the linear base colour of meshes without one.
WHITE, PLAIN = np.array([1.0, 0.97, 0.93]), np.array([0.72, 0.71, 0.69])
# Share of the sky's light that reaches hidden places indirectly.
BOUNCED = 0.06


class Sight:
    """Hits of the rays (height, width) of a band, and what their colours depend on.

    `rays` counts the rays cast so far, also those to lights.
    """

    def __init__(
        self, stage: Stage, hits: Hits, origins: Floats, directions: Floats, cells: Ints
    ) -> None:
        """Take all rays of a band, and their `hits`, (height, width), misses included.

        `cells`, (height, width), by `cells_of`, choose the directions to lights from each hit.
        """
        self.stage, self.hits, self.mask = stage, hits, hits.mask
        # `hits`, `mask` and the attributes named `_all...` are of all rays of the band; `seen`,
        # `_origins`, `directions` and `_cells` have a row for each ray that hits.
        self.seen = hits[self.mask]
        shape = (*self.mask.shape, 3)
        self._all_rays = [np.broadcast_to(given, shape) for given in (origins, directions)]
        self._origins, self.directions = (given[self.mask] for given in self._all_rays)
        self._all_cells, self._cells = cells, cells[self.mask]
        self.rays = self.mask.size

    @cached_property
    def spots(self) -> Spots:
        """Hit points with smooth normals, a row for each ray that hits."""
        return self.stage.surfaces.spots(self.seen, self._origins)

    @cached_property
    def flat(self) -> Spots:
        """Hit points with flat normals, a row for each ray that hits."""
        return self.stage.surfaces.spots(self.seen, self._origins, smoothed=False)

    @cached_property
    def sky(self) -> tuple[Floats, Floats]:
        """Visible share of the sky for each hit, (n,), and the light of that share, (n,)."""
        self.rays += len(self.seen) * self.stage.lights.rays
        return self.stage.lights.of_sky(self.stage.source.occluders, self.spots, self._cells)

    @cached_property
    def lamp(self) -> Floats:
        """Visible share of the lamp for each hit, (n,); 0 on sides that face away from it."""
        lights = self.stage.lights
        # As in `Lights.of_lamp`: sides that face away cast no rays, and a hard lamp takes one.
        facing = int(np.count_nonzero(self.spots.smooth @ lights.lamp > 0.0))
        self.rays += facing * (lights.rays if lights.softness else 1)
        return lights.of_lamp(self.stage.source.occluders, self.spots, self._cells)

    def ground_light(self, ground: Ground) -> Floats:
        """Return the light at the ground for each ray that hits nothing, (n,): 1 without shadow."""
        missed, occluders = ~self.mask, self.stage.source.occluders
        starts, directions = (given[missed] for given in self._all_rays)
        light, cast = ground.light(occluders, starts, directions, self._all_cells[missed])
        self.rays += cast
        return light

    @cached_property
    def cost(self) -> Floats:
        """Visited nodes and groups of primitives of each ray, hit or miss, (height, width)."""
        counted: Any = self.hits
        # A group is a vector of WIDTH primitives, which are tested at once.
        return np.asarray(counted.nodes + counted.tests / WIDTH)

    @property
    def instances(self) -> Ints:
        """Instance ids of the hits, (n,); 0 if the source is a tree."""
        seen = self.seen
        return leaf_of(seen) if seen.instance_id is None else seen.instance_id


class Stage:
    """Source, camera, lights and ground of a picture, for all its bands."""

    def __init__(
        self, source: RenderSource, camera: Camera, lights: Lights, ground: Ground | None = None
    ) -> None:
        """Prepare what all bands share; without `ground`, the picture has none."""
        self.source, self.camera, self.lights, self.ground = source, camera, lights, ground
        self.surfaces = Surfaces(source.surface)
        # The least and the largest depth of the scene.
        depth = (corners_of(source.bounds) - camera.eye) @ camera.forward
        self.near, self.far = float(depth.min()), float(depth.max())

    def ids(self, hits: Hits) -> Ints:
        """Return the ids of hit faces, (n,), in the mesh, also if the tree is over some of it."""
        ids = self.source.ids
        return hits.prim_id if ids is None else np.asarray(ids[hits.prim_id])

    def data(self, name: str, sight: Sight) -> NDArray[np.number]:
        """Return the data `name` of a band, (height, width, ...), as `Picture.data` has it."""
        if name == "depth":
            return np.asarray(sight.hits.t, np.float64)
        if name == "cost":
            return sight.cost
        # For the others, how they are computed for hits, and the value for rays that miss.
        ways: dict[str, tuple[Callable[[], Any], float]] = {
            "id": (lambda: self.ids(sight.seen), -1),
            "instance": (lambda: sight.instances, -1),
            "leaf": (lambda: leaf_of(sight.seen), -1),
            "ao": (lambda: sight.sky[0], 1.0),
            "shadow": (lambda: sight.lamp, 1.0),
            "uv": (lambda: self.surfaces.uv(sight.seen), np.nan),
            "normals": (lambda: sight.flat.flat, np.nan),
            "position": (lambda: sight.flat.points, np.nan),
        }
        compute, miss = ways[name]
        values = compute()
        filled = np.full((*sight.mask.shape, *values.shape[1:]), miss, values.dtype)
        filled[sight.mask] = values
        return filled

    def colours(self, shade: str, sight: Sight, y: Floats) -> Floats:
        """Return the colours of hits and background, shape (height, width, 3).

        `shade` is one of `SHADES` but "cost". `y`, (height,), has the distance of each row of rays
        from the top of the picture, in pixels.
        """
        sky = colours.sky(y / self.camera.height)
        painted = np.repeat(sky[:, None], sight.mask.shape[1], axis=1)
        if self.ground is not None:
            painted[~sight.mask] *= sight.ground_light(self.ground)[:, None]
        if sight.mask.any():
            painted[sight.mask] = self._painted(shade, sight)
        return painted

    def _painted(self, shade: str, sight: Sight) -> Floats:
        """Return the colours of the n hits of a band in a shade, shape (n, 3)."""
        hits = sight.seen
        if shade == "depth":
            # From white at the least depth of the scene to dark grey at the largest.
            share = (hits.t - self.near) / max(self.far - self.near, np.finfo(np.float64).tiny)
            return np.repeat((1.0 - 0.85 * np.clip(share, 0.0, 1.0))[:, None], 3, axis=1)
        if shade == "id":
            return colours.face_colours(self.ids(hits), leaf_of(hits))
        if shade == "uv":
            return self._uv_colours(sight)
        if shade == "normals":
            return np.asarray(sight.flat.flat * 0.5 + 0.5)
        if shade == "instance":
            painted = colours.instance_colours(sight.instances)
            return np.asarray(painted * (0.4 + 0.6 * self._cosines(sight))[:, None])
        return self._lit(shade, sight)

    def _cosines(self, sight: Sight) -> Floats:
        """Return the cosine of the angle between normal and ray for each hit, from 0 to 1, (n,)."""
        lengths = np.linalg.norm(sight.directions, axis=1)
        return np.asarray(np.abs((sight.flat.flat * sight.directions).sum(axis=1)) / lengths)

    def _uv_colours(self, sight: Sight) -> Floats:
        """Return the colours (n, 3) of hits by texture coordinates; grey for meshes without any.

        They are darker where the surface is at a slant to the ray.
        """
        uv = self.surfaces.uv(sight.seen)
        painted = np.full((len(uv), 3), 0.5)
        textured = self.surfaces.with_uv[self.surfaces.tree_of[leaf_of(sight.seen)]]
        painted[textured] = colours.texture_colours(np.nan_to_num(uv[textured]))
        return np.asarray(painted * (0.55 + 0.45 * self._cosines(sight))[:, None])

    def _lit(self, shade: str, sight: Sight) -> Floats:
        """Return the colours (n, 3) of hits in the shades "ao", "shadow", "clay" and "material".

        The weights of lamp and sky are chosen by eye.
        """
        smooth, lights = sight.spots.smooth, self.lights
        # Light of the sky if nothing hid it, as in `Lights.of_sky`: hidden places get some of it.
        open_sky = 0.5 + smooth @ lights.zenith / 3.0
        if shade == "ao":
            share, sky = sight.sky
            light = 0.94 * sky * np.sqrt(share) + BOUNCED * open_sky
            return _toned(1.28 * PLASTER * light[:, None])
        # `key` is the light of the lamp, `fill` below that of the sky.
        key = np.clip(smooth @ lights.lamp, 0.0, 1.0) * sight.lamp
        if shade == "shadow":
            light = 0.80 * key[:, None] * WARM + 0.30 * open_sky[:, None] * COOL
            return _toned(PLASTER * light)
        _, sky = sight.sky
        fill = 0.55 * sky + BOUNCED * open_sky
        if shade == "material":
            base = self.surfaces.base_colours(sight.seen, PLAIN)
            light = 0.85 * key[:, None] * WHITE + 0.8 * fill[:, None] * COOL
            return srgb_of(np.minimum(base * light, 1.0))
        return _toned(CLAY * (0.85 * key[:, None] * WARM + fill[:, None] * COOL))


def _toned(light: Floats) -> Floats:
    """Return gamma corrected colours from 0 to 1 for light (n, 3) of at least 0; 1 is white."""
    return np.asarray(np.minimum(light, 1.0) ** (1.0 / GAMMA))
