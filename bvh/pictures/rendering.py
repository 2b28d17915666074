"""Rendering: pictures of trees and scenes by a camera's rays."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.camera.camera import Camera, check_camera
from bvh.camera.matrices import number
from bvh.camera.placement import unit
from bvh.pictures.colours import heat, hottest_of, in_bytes
from bvh.pictures.drawn_shapes import drawn_source
from bvh.pictures.lights import Ground, Lights, cells_of, ground_up, is_inside
from bvh.pictures.picture import Picture
from bvh.pictures.render_source import Pictured, RenderSource
from bvh.pictures.shading import DATA, SHADES, Shade, Sight, Stage
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import check_option, thread_count, whole_number
from bvh.runtime.jit import notice
from bvh.runtime.progress_bars import Progress, ProgressLike, heard
from bvh.runtime.threads import share
from bvh.scene.scene import Scene
from bvh.tree.primitives import THIN

# Camera rays and light rays in a band of rows, the unit of work of a thread: small enough for
# little memory and frequent progress.
BAND_RAYS = 1 << 15
LIGHT_RAYS = 1 << 19
# Shades with a shadow on the ground by default.
GROUNDED = ("clay", "material")
# Default of `reach` as a share of the diagonal of the bounds; smaller for cameras inside, so that
# rooms are not dark.
REACH, INDOORS = 0.25, 0.08
# Shades, and numbers behind pictures, that depend on smooth normals.
SMOOTH = {"clay", "material", "ao", "shadow"}

# Arguments of `render` for the light: lamp, softness, light_rays and reach.
Light = tuple[ArrayLike | None, float, int, float | None]
# Some rows of a picture: pixels, or costs; the requested numbers by name; how many rays were cast.
Band = tuple[NDArray[np.number], dict[str, NDArray[np.number]], int]


def render(
    source: Pictured, camera: Camera, shade: Shade = "normals", *, samples: int = 1,
    data: str | Iterable[str] = (), lamp: ArrayLike | None = None, softness: float = 0.0,
    light_rays: int = 16, reach: float | None = None, hottest: float | None = None,
    ground: bool | str | ArrayLike | None = None, threads: int | None = None,
    progress: ProgressLike | None = None,
) -> Picture:  # fmt: skip
    """Render a picture of a tree, a scene or parts by a camera's rays.

    The picture is the same, bit for bit, for any number of threads.

    Parameters
    ----------
    source : BVH, Scene or Parts
        A tree, a scene, or a mesh in parts, whose pictures are those of the whole mesh: see
        `bvh.Parts.visible_tree`. A tree over points or segments is drawn as balls or tubes with a
        radius of 2 pixels at the middle of its bounds; in a scene, rays pass them.
    camera : Camera
    shade : str
        Content of the pixels, one of:

        - "normals": the world normal, on the side of the camera
        - "clay": clay lit by a lamp and by the sky
        - "material": the same light on the base colours of meshes in a scene: factors, textures,
          and colours of vertices or faces (see `Scene.attributes`); light grey without any.
          Opacity is ignored.
        - "ao": ambient occlusion, plaster lit by the sky alone
        - "shadow": plaster lit by the lamp, with its shadows
        - "depth": the farther away, the darker
        - "id": a colour for each face; "instance": one for each instance, darker at a slant
        - "uv": texture coordinates as a checkerboard of sixteenths; grey for meshes without any in
          a scene where others have some; not of parts
        - "cost": visited nodes and groups of triangles, black for none, white from `hottest` on;
          not of parts
    samples : int
        Rays along each side of a pixel: 2 means four rays per pixel.
    data : str or iterable of str
        Numbers to store in `Picture.data`, any of "depth", "id", "instance", "leaf", "normals",
        "position", "uv", "cost", "ao" and "shadow". They are computed at the centres of
        pixels for any `samples`.
    lamp : array_like, shape (3,), optional
        Direction to the lamp; by default behind the camera, above and to the left.
    softness : float
        Angular diameter of the lamp in degrees, from 0 for hard shadows to 90.
    light_rays : int
        Rays from each hit to the sky, and to a lamp with some softness. They are stratified, and
        the same for the same sample of every picture.
    reach : float, optional
        Largest distance of occluders of the sky; by default a quarter of the diagonal of the
        bounds, or 0.08 of it where the camera is inside of these.
    hottest : float, optional
        The cost that is white; by default one that at most 1 of 100 pixels exceeds, stored in
        `Picture.hottest`. Set it for pictures that are to be compared.
    ground : bool, {"x", "y", "z", "-x", "-y", "-z"} or array_like, shape (3,), optional
        Show a soft shadow on the ground, the plane below everything; which way is up, or True for
        `Scene.up`, and z for a tree, or the axis that is upright in the picture. By default there
        is one in the shades "clay" and "material", unless the picture is rolled or the camera is
        inside of the bounds.
    threads, progress
        As in `BVH.closest_hit`; progress counts rays of the camera.

    Notes
    -----
    Rays to lights start off the face, on the side that was hit, by the rounding error of the point:
    some 1e-14 of its coordinates. The sky is sampled by the cosine of the angle to the normal
    (Zhukov, Iones and Kronin 1998, "An ambient light illumination model").

    Examples
    --------
    >>> import bvh
    >>> from bvh.pictures import render
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [2, 0, 0], [0, 2, 0]], [[0, 1, 2]])
    >>> camera = bvh.Camera.orthographic([1, 1, 5], [1, 1, 0], [0, 1, 0], 2.0, 4, 2)
    >>> picture = render(tree, camera, "clay", data="depth")
    >>> picture.pixels.shape, picture.data["depth"].tolist()
    ((2, 4, 3), [[inf, 5.0, inf, inf], [inf, 5.0, 5.0, inf]])
    """
    threads, search_rays = thread_count(threads), 0
    with heard(progress) as report:
        began = notice.clock()

        def report_search(done: int, total: int) -> None:
            """Report rays that search for the visible parts, before those of the picture."""
            nonlocal search_rays
            search_rays = total
            if report is not None:
                report(done, total + camera.width * camera.height * samples**2)

        light = lamp, softness, light_rays, reach
        drawing = _Drawing(
            source, camera, shade, samples, data, light, hottest, ground, threads=threads,
            progress=report_search,
        )  # fmt: skip
        row = drawing.row_rays
        report_rows = report and (
            lambda done, n: report(search_rays + done * row, search_rays + n * row)
        )
        return drawing.picture(threads, report_rows, began)


class _Drawing:
    """A picture with the checked arguments of `render`, rendered in bands of rows."""

    def __init__(
        self, source: Pictured, camera: Camera, shade: Shade, samples: int,
        data: str | Iterable[str], light: Light, hottest: float | None,
        ground: bool | str | ArrayLike | None, *, threads: int, progress: ProgressLike,
    ) -> None:  # fmt: skip
        """Check the arguments of `render`, and prepare the surface, the lights and the ground.

        `light` is (lamp, softness, light_rays, reach). `progress` is called with rays that search
        for the visible parts of a mesh in parts.
        """
        check_option("shade", shade, SHADES)
        if not isinstance(source, Pictured):
            raise TypeError(f"source must be a BVH, a Scene or Parts, got {type(source).__name__}")
        if isinstance(source, BVH):
            # A refit while this renders does not change the copy.
            source = copy(source)
            if source.kind == "custom":
                why = "custom primitives have no normals"
                raise ValueError(f"source must hold triangles or boxes: {why}")
        check_camera(camera)
        if not isinstance(data, Iterable):
            raise TypeError(f"data must be names, got {data!r}")
        self._names = (data,) if isinstance(data, str) else tuple(data)
        for name in self._names:
            if name not in DATA:
                raise ValueError(f"data must be some of {DATA}, got {name!r}")
        if hottest is not None:
            hottest = number("hottest", hottest)
            if not 0.0 < hottest < math.inf:
                raise ValueError(f"hottest must be above 0 and finite, got {hottest}")
        self._shade, self._hottest = shade, hottest
        self._samples = whole_number("samples", samples)
        # Picture files start at the top and have device pixels.
        self._camera = camera.upright()
        if isinstance(source, BVH) and source.kind in THIN:
            if "cost" in {shade, *self._names}:
                raise ValueError(f'shade "cost" is for what rays hit, not for {source.kind}')
            source = drawn_source(source, self._camera, threads)
        lights = _lights(source, self._camera, *light)
        no_ground = ground is None and shade not in GROUNDED
        up = ground_up(source, self._camera, False if no_ground else ground)
        source = self._render_source(source, threads, progress)
        plane = None if up is None else Ground.below(source.bounds, up, lights)
        self._stage = Stage(source, self._camera, lights, plane)
        if shade == "uv" and not self._stage.surfaces.with_uv.any():
            what = "no mesh of the scene" if isinstance(source.surface, Scene) else "a tree"
            needed = "texture coordinates (`visual.uv` of trimesh meshes in a scene)"
            raise ValueError(f'shade "uv" needs {needed}: {what} has any')
        # About how many rays a sample casts: the camera's one, and those to lights.
        light_rays = dict.fromkeys(("ao", "clay", "material"), lights.rays)
        light_rays["shadow"] = lights.rays if lights.softness else 1
        sample_rays = 1 + max(light_rays.get(name, 0) for name in (shade, *self._names))
        if plane is not None:
            sample_rays = max(sample_rays, 1 + 2 * plane.lights.rays)
        self.row_rays = self._camera.width * self._samples**2
        # Rows of a band that needs little memory.
        rows = min(BAND_RAYS // self.row_rays, LIGHT_RAYS // (self.row_rays * sample_rays))
        self._band_rows = max(1, rows)

    def _render_source(
        self, source: Pictured, threads: int, progress: ProgressLike
    ) -> RenderSource:
        """Return the surface and the occluders of a source.

        The surface of a mesh in parts is a tree of what the camera sees; `progress` is called while
        it is searched for. Raise a ValueError for shades and data that parts do not have.
        """
        if isinstance(source, BVH | Scene):
            return RenderSource(source, source)
        shown = {self._shade, *self._names}
        if "cost" in shown:
            raise ValueError('shade "cost" is for trees: the cost of parts depends on the cuts')
        if isinstance(source, RenderSource):
            return source
        if self._shade == "uv":
            raise ValueError('shade "uv" needs texture coordinates, which parts do not have')
        return source.visible_tree(
            self._camera, self._samples, smooth=not SMOOTH.isdisjoint(shown), threads=threads,
            progress=progress,
        )  # fmt: skip

    def picture(self, threads: int, progress: Progress | None, began: float) -> Picture:
        """Render all bands on threads; return the picture.

        `progress` is called as progress(rows done, rows in all). `began` is the time of
        `notice.clock` at the start, for `Picture.seconds`.
        """
        bands: dict[int, Band] = {}  # by their first rows

        def work(top: int, bottom: int) -> None:
            bands[top] = self._band(top, bottom)

        share(self._camera.height, self._band_rows, work, threads, progress)
        columns = zip(*(bands[top] for top in sorted(bands)), strict=True)
        colours, values, rays = (list(column) for column in columns)
        data = {name: np.concatenate([band[name] for band in values]) for name in self._names}
        pixels, hottest = np.concatenate(colours), None
        if self._shade == "cost":
            hottest = hottest_of(pixels) if self._hottest is None else self._hottest
            pixels = in_bytes(heat(pixels, hottest))
        seconds = notice.clock() - began
        return Picture(pixels, sum(rays), seconds, self._shade, data, hottest)

    def _band(self, top: int, bottom: int) -> Band:
        """Render the rows top..bottom - 1 of pixels.

        Return (pixels, or costs not yet coloured; requested data by name; number of rays cast).
        """
        stage, samples = self._stage, self._samples
        sight, y = self._cast(top, bottom, samples)
        costs = self._shade == "cost"
        shown = sight.cost[..., None] if costs else stage.colours(self._shade, sight, y)
        # Average the samples of each pixel. The axes of the blocks are rows, samples down, columns,
        # samples across, and components of the colour, or one cost.
        blocks = shown.reshape(bottom - top, samples, self._camera.width, samples, -1)
        mean = blocks.mean(axis=(1, 3))
        # Numbers are those of rays through the centres of pixels.
        are_centres = samples == 1 or not self._names
        centres = sight if are_centres else self._cast(top, bottom, 1)[0]
        values = {name: stage.data(name, centres) for name in self._names}
        count = sight.rays + (0 if are_centres else centres.rays)
        # Costs are coloured at the end, after the highest one has been computed.
        return (mean[..., 0] if costs else in_bytes(mean)), values, count

    def _cast(self, top: int, bottom: int, samples: int) -> tuple[Sight, NDArray[np.float64]]:
        """Cast the rays of the rows top..bottom - 1, with `samples` along each side of a pixel.

        Return their hits, and the y of each row of rays, in pixels from the top of the picture.
        """
        camera, stage = self._camera, self._stage
        across = np.arange(camera.width * samples)
        down = np.arange(top * samples, bottom * samples)
        columns, rows = (across + 0.5) / samples, (down + 0.5) / samples
        origins, directions = camera.ray(*np.meshgrid(columns, rows))
        counters = "cost" in (self._shade, *self._names)
        hits = stage.source.surface.closest_hit(
            origins, directions, camera.t_min, camera.t_max, threads=1, counters=counters
        )
        return Sight(stage, hits, origins, directions, cells_of(down, across)), rows


def _lights(
    source: Pictured, camera: Camera, lamp: ArrayLike | None, softness: float, light_rays: int,
    reach: float | None,
) -> Lights:  # fmt: skip
    """Return the lights for arguments of `render`; raise a ValueError for bad values."""
    if lamp is None:
        # Above the camera, to its left and behind it: chosen by eye, as the zenith below.
        lamp = 0.9 * camera.up - 0.75 * camera.right - 0.8 * camera.forward
    degrees = number("softness", softness)
    if not 0.0 <= degrees <= 90.0:
        raise ValueError(f"softness must be from 0 to 90 degrees, got {softness}")
    if reach is None:
        diagonal = float(np.linalg.norm(source.bounds[1] - source.bounds[0]))
        farthest = (INDOORS if is_inside(source, camera) else REACH) * diagonal
        if not (math.isfinite(farthest) and farthest > 0.0):
            farthest = math.inf
    else:
        farthest = number("reach", reach)
        if not farthest > 0.0:
            raise ValueError(f"reach must be above 0, got {reach}")
    rays = whole_number("light_rays", light_rays)
    # The sky is brightest above the scene, somewhat towards the camera.
    zenith = camera.up - 0.45 * camera.forward
    return Lights(unit("lamp", lamp), unit("zenith", zenith), degrees, rays, farthest)
