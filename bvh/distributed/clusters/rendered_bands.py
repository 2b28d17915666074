"""Pictures rendered on a cluster, some rows a task."""

from __future__ import annotations

import math
import time
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.distributed.clusters.connection import ShownBar, completed, task_size
from bvh.distributed.out_of_core.part_pictures import tile_rays, visible_source
from bvh.distributed.out_of_core.parts import Parts
from bvh.distributed.ray_sources import RaySource
from bvh.distributed.tree_handles import OpenedOnce, handle_of
from bvh.pictures.picture import Picture
from bvh.pictures.render_source import Occluders, RenderSource
from bvh.pictures.rendering import Band, BandRenderer, RenderOptions, smooth_of_parts
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import thread_count
from bvh.scene.scene import Scene

if TYPE_CHECKING:
    from dask.array import Array
    from distributed import Client

# Bands of a picture in a task.
BANDS = 8


def render_on(
    client: Client, source: BVH | Scene | Parts | RenderSource, camera: Camera,
    options: RenderOptions, threads: int | None, shown: ShownBar,
) -> Picture:  # fmt: skip
    """Render a picture as `bvh.pictures.render` does, with these options."""
    # Each task has so many threads, by default one.
    from dask.delayed import delayed

    began = time.perf_counter()
    if isinstance(source, Parts):
        source = _seen_on(client, source, camera, options, threads, shown)
    drawing = BandRenderer(source, camera, options)
    held = HeldRenderer(source, camera, options)
    key = delayed(held, name=f"drawing-{uuid.uuid4().hex}", traverse=False)
    rows, draw = drawing.step * BANDS, delayed(_drawn)
    height, workers = drawing.height, threads or 1
    bands = [draw(key, k, min(k + rows, height), workers) for k in range(0, height, rows)]
    tasks = client.compute(bands)
    keys = [task.key for task in tasks]
    found = dict(completed(tasks, "rendering", shown))
    in_order = [band for key in keys for band in found[key]]
    return drawing.picture(in_order, time.perf_counter() - began)


def _seen_on(
    client: Client, parts: Parts, camera: Camera, options: RenderOptions, threads: int | None,
    shown: ShownBar,
) -> RenderSource:  # fmt: skip
    """Return the source of `Parts.visible_tree`, for a picture with these options."""
    from dask.delayed import delayed

    smooth = smooth_of_parts(options)
    view, samples = camera.upright(), options.samples
    shape = view.height * samples, view.width * samples
    tile = math.isqrt(task_size(client, shape[0] * shape[1]))
    rays = RaySource(tile_rays, shape, tile, (view, samples))
    within = {"t_min": view.t_min, "t_max": view.t_max, "threads": threads}
    ids: Array = rays.closest_hit(parts, **within).prim_id
    unique = delayed(np.unique, pure=True)
    tasks = client.compute([unique(block) for block in ids.to_delayed().reshape(-1)])
    seen = np.empty(0, np.int64)
    for _, found in completed(tasks, "looking for what is seen", shown):
        seen = np.union1d(seen, found)
    return visible_source(parts, seen[seen >= 0], smooth=smooth)


class HeldRenderer(OpenedOnce[BandRenderer]):
    """Handle of a picture in a graph; a process makes it ready once."""

    def __init__(
        self, source: BVH | Scene | RenderSource, camera: Camera, options: RenderOptions
    ) -> None:
        beside: tuple[Occluders, NDArray[np.int64] | None] | None = None
        if isinstance(source, RenderSource):
            beside = source.occluders, source.ids
            source = source.surface
        self._given: tuple[Any, ...] = handle_of(source), beside, camera, options

    def _open(self) -> BandRenderer:
        surface, beside, camera, options = self._given
        source = surface.open()
        return BandRenderer(RenderSource(source, *beside) if beside else source, camera, options)


def _drawn(held: HeldRenderer, top: int, bottom: int, threads: int) -> list[Band]:
    """Render rows of a picture, in bands."""
    return held.open().bands(top, bottom, thread_count(threads))
