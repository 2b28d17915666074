"""Rays and pictures on a cluster, for the command line: connected to, sent, summed, received.

Rays of a camera are made where they are cast; those of a file are sent in chunks, once. Of a
picture each task renders some rows.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from dataclasses import fields
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.distributed.merging import Column
from bvh.distributed.out_of_core.parts import Parts, tile_rays, visible_source
from bvh.distributed.ray_sources import RaySource, camera_rays
from bvh.distributed.tree_handles import OpenedOnce, Searched, handle_of
from bvh.pictures.picture import Picture
from bvh.pictures.render_source import Occluders, RenderSource
from bvh.pictures.rendering import Band, BandRenderer, RenderOptions, smooth_of_parts
from bvh.queries.hierarchy import BVH
from bvh.queries.results import Hits
from bvh.runtime.arguments import number_of, thread_count
from bvh.runtime.progress_bars import Progress
from bvh.runtime.registry import extra
from bvh.scene.scene import Scene

if TYPE_CHECKING:
    from dask.array import Array
    from distributed import Client, Future

# A progress bar with a text, as a context.
ShownBar = Callable[[str], AbstractContextManager[Progress]]

# Tasks for each thread of the cluster, and the fewest and most rays of one.
TASKS, FEWEST, MOST = 4, 1 << 14, 1 << 20

# How long a scheduler, and the first worker, are waited for.
PATIENCE_SECONDS = 10.0

# Bands of a picture in a task.
BANDS = 8


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Client | None]:
    """Connect to the scheduler, which has workers, of a command; yield None without an address."""
    # Errors say what is missing, or wrong with the option, or that the scheduler failed meanwhile.
    if address is None:
        yield None
        return
    with extra("dask", "--scheduler needs distributed"):
        from distributed import Client, KilledWorker
    with _quiet():
        try:
            # As the default it would stay one if it fails.
            client = Client(address, timeout=PATIENCE_SECONDS, set_as_default=False)
        except OSError as error:
            raise ConnectionError(f"--scheduler: nothing answers at {address}: {error}") from None
        except ValueError as error:
            raise ValueError(f"--scheduler: {error}") from None
        with client, client.as_current(), warnings.catch_warnings():
            # What is cast at must reach the workers, however large it is.
            warnings.filterwarnings("ignore", "Sending large graph")
            try:
                client.wait_for_workers(1, timeout=PATIENCE_SECONDS)
            except TimeoutError:
                raise TimeoutError(f"--scheduler: {address} has no workers") from None
            try:
                yield client
            # The last is what distributed raises where the packages of the cluster are others.
            except (KilledWorker, CancelledError, RuntimeError) as error:
                cause = f" ({error.__cause__})" if error.__cause__ else ""
                raise ConnectionError(f"scheduler: {address} failed: {error}{cause}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence distributed's log."""
    with contextlib.ExitStack() as before:
        for logger in map(logging.getLogger, ("distributed", "distributed.client")):
            before.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        yield


def task_size(client: Client, count: int) -> int:
    """Return how many of so many rays a task takes."""
    threads = max(int(sum(client.nthreads().values())), 1)
    return min(max(-(-count // (TASKS * threads)), FEWEST), MOST)


def completed(tasks: list[Future], text: str, shown: ShownBar) -> Iterator[tuple[str, Any]]:
    """Yield the keys and results of tasks as they are completed, and forget them."""
    from distributed import as_completed

    with shown(text) as progress:
        total, ready = len(tasks), as_completed(tasks, with_results=True)
        tasks.clear()
        for done, (task, found) in enumerate(ready, 1):
            # Raised for other errors, but not for this one.
            if isinstance(found, CancelledError):
                raise found
            yield task.key, found
            progress(done, total)


class HitSummary(NamedTuple):
    """Summary of hits: how many, of how many rays, the instances, and the range of t."""

    kind: str
    rays: int
    hits: int
    owners: frozenset[int] | None
    near: float
    far: float

    @classmethod
    def of(cls, kind: str, columns: tuple[Column, ...]) -> HitSummary:
        """Return that of columns t and prim_id, and instance_id of a scene."""
        t, prim_id, *ids = columns
        hit = prim_id >= 0
        owners = frozenset(np.unique(ids[0][hit]).tolist()) if ids else None
        near, far = t[hit].min(initial=np.inf), t[hit].max(initial=-np.inf)
        return cls(kind, hit.size, int(np.count_nonzero(hit)), owners, float(near), float(far))

    def merged(self, other: HitSummary) -> HitSummary:
        """Combine two summaries."""
        counts = self.rays + other.rays, self.hits + other.hits
        owners = None if self.owners is None else self.owners | (other.owners or frozenset())
        reach = min(self.near, other.near), max(self.far, other.far)
        return HitSummary(self.kind, *counts, owners, *reach)

    def __repr__(self) -> str:
        owners = "" if self.owners is None else f" {number_of(len(self.owners), 'instances')}"
        reach = f"{owners}, t {self.near:.6g} to {self.far:.6g}" if self.hits else ""
        return f"{self.kind}({self.hits} of {number_of(self.rays, 'rays')} hit{reach})"


def cast_on(
    client: Client, source: Searched, rays: Camera | NDArray[np.float64], keep: bool,
    threads: int | None, shown: ShownBar,
) -> tuple[Hits | HitSummary, float]:  # fmt: skip
    """Cast rays, of a camera or of the columns of a file; return the hits, and the seconds."""
    # Unless they are to be kept, workers send no hits, but only their summaries.
    began = time.perf_counter()
    if isinstance(rays, Camera):
        tile = math.isqrt(task_size(client, rays.width * rays.height))
        within = {"t_min": rays.t_min, "t_max": rays.t_max, "threads": threads}
        hits = camera_rays(rays, tile).closest_hit(source, **within)
    else:
        columns = _sent(client, rays)
        bounds = (columns[:, 6], columns[:, 7]) if columns.shape[1] == 8 else ()
        hits = source.closest_hit(columns[:, :3], columns[:, 3:6], *bounds, threads=threads)
    found = _received(client, hits, shown) if keep else _summary(client, hits, shown)
    return found, time.perf_counter() - began


def _sent(client: Client, columns: NDArray[np.float64]) -> Array:
    """Send rows to the workers; return them as a Dask array."""
    import dask.array as da

    size = task_size(client, len(columns))
    pieces = [columns[begin : begin + size] for begin in range(0, max(len(columns), 1), size)]
    pairs = zip(client.scatter(pieces, hash=False), pieces, strict=True)
    return da.concatenate([da.from_delayed(sent, x.shape, x.dtype) for sent, x in pairs])


def _summary(client: Client, hits: Hits, shown: ShownBar) -> HitSummary:
    """Return the summary of lazy hits."""
    import dask.array as da
    from distributed import futures_of

    columns = [getattr(hits, k) for k in ("t", "prim_id", "instance_id") if hasattr(hits, k)]
    kind = type(hits).__name__
    ones = tuple((1,) * count for count in columns[0].numblocks)
    meta = np.empty((0,) * columns[0].ndim, object)
    lazy = client.persist(da.map_blocks(_of_chunk, kind, *columns, chunks=ones, meta=meta))
    tasks = futures_of(lazy)
    del lazy
    found = completed(tasks, "casting", shown)
    summary: HitSummary = reduce(HitSummary.merged, (block.item() for _, block in found))
    return summary


def _of_chunk(kind: str, *columns: Column) -> NDArray[np.object_]:
    """Return the summary of a chunk, as an array of one object."""
    block = np.empty((1,) * columns[0].ndim, object)
    block.flat[0] = HitSummary.of(kind, columns)
    return block


def _received(client: Client, hits: Hits, shown: ShownBar) -> Hits:
    """Compute lazy hits; return them in flat arrays, in the order of the rays."""
    from dask.array.core import slices_from_chunks
    from dask.core import flatten
    from distributed import futures_of

    names = [field.name for field in fields(hits)]
    # Together, so that fields share their tasks.
    lazy = client.persist([getattr(hits, name) for name in names])
    columns = [np.empty(array.shape, array.dtype) for array in lazy]
    places = dict[Any, Column]()
    for array, column in zip(lazy, columns, strict=True):
        keys, chunks = flatten(array.__dask_keys__()), slices_from_chunks(array.chunks)
        places |= {key: column[where] for key, where in zip(keys, chunks, strict=True)}
    tasks = futures_of(lazy)
    # Workers forget what has been fetched.
    del lazy
    for key, found in completed(tasks, "casting", shown):
        places[key][...] = found
    return type(hits)(**{n: c.reshape(-1) for n, c in zip(names, columns, strict=True)})


def render_on(
    client: Client, source: Searched | RenderSource, camera: Camera,
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
