"""Clusters of commands: rays that are cast, and pictures that are rendered, by workers of Dask.

Rays of a camera are made where they are cast; those of a file are sent in chunks, once.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import fields
from functools import reduce
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from bvh.apps.cli.console import bar
from bvh.camera.camera import Camera
from bvh.distributed.out_of_core.part_pictures import VisibleTree, sample_rays
from bvh.distributed.out_of_core.parts import Parts
from bvh.pictures.picture import Picture
from bvh.pictures.rendering import Band, Drawing, smooth_of_parts
from bvh.runtime.arguments import number_of, thread_count

Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Dask scheduler to work on, such as tcp://host:8786."),
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=-1,
        help="Threads; one for each CPU by default, -1 for all CPUs. With --scheduler those of "
        "each task, one by default: a worker does several tasks at a time.",
    ),
]

# How long a scheduler, and the first worker, are waited for.
PATIENCE_SECONDS = 10.0

# Tasks for each thread of the cluster, and the fewest and most rays of one.
TASKS, FEWEST, MOST = 4, 1 << 14, 1 << 20
# Bands of a picture in a task.
BANDS = 8


@contextlib.contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Connect to a scheduler; yields the client, or None without an address.

    Raises
    ------
    ImportError
        If distributed is not installed.
    ValueError, OSError
        If the address is none, or there is no scheduler, or it has no workers.
    """
    if address is None:
        yield None
        return
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise ImportError('--scheduler needs distributed: pip install "raybvh[dask]"') from None
    with _quiet(), _connected(Client, address) as client:
        try:
            yield client
        # The last is what distributed raises where the packages of the cluster are others.
        except (KilledWorker, CancelledError, RuntimeError) as error:
            cause = f" ({error.__cause__})" if error.__cause__ else ""
            raise ConnectionError(f"--scheduler: {address} failed: {error}{cause}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Have distributed log nothing: what ends a command is told in one line."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def _connected(connect: Any, address: str) -> Iterator[Any]:
    """Connect to a scheduler that has workers."""
    try:
        # As the default it would stay one if it fails.
        client = connect(address, timeout=PATIENCE_SECONDS, set_as_default=False)
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
        yield client


def cast_on(
    client: Any, source: Any, rays: Camera | NDArray[np.float64], keep: bool, threads: int | None
) -> tuple[Any, float]:
    """Cast rays on a cluster; return the hits, in a row, and the seconds that it took.

    Unless they are to be kept, workers send no hits, but only what is printed of them.

    Parameters
    ----------
    client : distributed.Client
    source : BVH, Scene or Parts
    rays : Camera, or ndarray of shape (n, 6) or (n, 8)
        Columns are those of a file.
    keep : bool
    threads : int or None
        Threads of each task; one by default.
    """
    from bvh.distributed.ray_sources import camera_rays

    began = time.perf_counter()
    if isinstance(rays, Camera):
        tile = math.isqrt(_chunk(client, rays.width * rays.height))
        hits = camera_rays(rays, tile).closest_hit(
            source, t_min=rays.t_min, t_max=rays.t_max, threads=threads
        )
    else:
        columns = _sent(client, rays)
        bounds = (columns[:, 6], columns[:, 7]) if columns.shape[1] == 8 else ()
        hits = source.closest_hit(columns[:, :3], columns[:, 3:6], *bounds, threads=threads)
    found = _received(client, hits) if keep else _summary(client, hits)
    return found, time.perf_counter() - began


def _visible_on(
    client: Any, parts: Parts, camera: Camera, options: dict[str, Any], threads: int | None
) -> VisibleTree:
    """Return the tree of `Parts.visible_tree`, for a picture with these options."""
    from dask.delayed import delayed

    from bvh.distributed.ray_sources import RaySource

    smooth = smooth_of_parts(options["shade"], options["data"])
    view, samples = camera.upright(), options["samples"]
    shape = view.height * samples, view.width * samples
    tile = math.isqrt(_chunk(client, shape[0] * shape[1]))
    source = RaySource(sample_rays, shape, tile, (view, samples))
    ids = source.closest_hit(parts, t_min=view.t_min, t_max=view.t_max, threads=threads).prim_id
    unique = delayed(np.unique, pure=True)
    tasks = client.compute([unique(block) for block in ids.to_delayed().reshape(-1)])
    seen = np.empty(0, np.int64)
    for _, found in _completed(tasks, "looking for what is seen"):
        seen = np.union1d(seen, found)
    return VisibleTree.of(parts, seen[seen >= 0], smooth=smooth)


def render_on(
    client: Any, source: Any, camera: Camera, options: dict[str, Any], threads: int | None
) -> Picture:
    """Render a picture on a cluster, some rows a task, as `bvh.pictures.render` does.

    Parameters
    ----------
    client : distributed.Client
    source : BVH, Scene or Parts
    camera : Camera
    options : dict
        Arguments of `Drawing`.
    threads : int or None
        Threads of each task; one by default.
    """
    from dask.delayed import delayed

    began = time.perf_counter()
    if isinstance(source, Parts):
        source = _visible_on(client, source, camera, options, threads)
    drawing = Drawing(source, camera, **options)
    held = HeldDrawing(source, camera, options)
    key = delayed(held, name=f"drawing-{uuid.uuid4().hex}", traverse=False)
    rows, draw = drawing.step * BANDS, delayed(_drawn)
    tops = range(0, drawing.height, rows)
    tasks = client.compute(
        [draw(key, top, min(top + rows, drawing.height), threads or 1) for top in tops]
    )
    order = {task.key: number for number, task in enumerate(tasks)}
    found: dict[int, list[Band]] = {}
    for name, bands in _completed(tasks, "rendering"):
        found[order[name]] = bands
    all_bands = [band for number in range(len(order)) for band in found[number]]
    return drawing.picture(all_bands, time.perf_counter() - began)


class HeldDrawing:
    """Handle of a picture in a graph; a process makes it ready once."""

    _guard: Any
    _drawing: Drawing | None

    def __init__(self, source: Any, camera: Camera, options: dict[str, Any]) -> None:
        from bvh.distributed.tree_handles import handle_of

        self.__setstate__((handle_of(source), camera, options))

    def open(self) -> Drawing:
        """Return the picture."""
        with self._guard:
            if self._drawing is None:
                handle, camera, options = self._given
                self._drawing = Drawing(handle.open(), camera, **options)
            return self._drawing

    def __getstate__(self) -> tuple[Any, ...]:
        return self._given

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._given, self._guard, self._drawing = state, threading.Lock(), None


def _drawn(held: HeldDrawing, top: int, bottom: int, threads: int) -> list[Band]:
    """Render rows of a picture, in bands."""
    return held.open().bands(top, bottom, thread_count(threads))


def _chunk(client: Any, count: int) -> int:
    """Return how many of so many rays a task takes."""
    threads = max(int(sum(client.nthreads().values())), 1)
    return min(max(-(-count // (TASKS * threads)), FEWEST), MOST)


def _sent(client: Any, columns: NDArray[np.float64]) -> Any:
    """Send rows to the workers; return them as a Dask array."""
    import dask.array as da

    size = _chunk(client, len(columns))
    pieces = [columns[begin : begin + size] for begin in range(0, max(len(columns), 1), size)]
    sent = client.scatter(pieces, hash=False)
    arrays = [
        da.from_delayed(future, piece.shape, piece.dtype)
        for future, piece in zip(sent, pieces, strict=True)
    ]
    return da.concatenate(arrays)


class HitSummary(NamedTuple):
    """What is printed of hits: how many, of how many rays, the instances, and the range of t."""

    kind: str
    rays: int
    hits: int
    owners: frozenset[int] | None
    near: float
    far: float

    @classmethod
    def of(cls, kind: str, columns: tuple[NDArray[Any], ...]) -> HitSummary:
        """Return that of columns t and prim_id, and instance_id of a scene."""
        t, prim_id, *ids = columns
        hit = prim_id >= 0
        owners = frozenset(np.unique(ids[0][hit]).tolist()) if ids else None
        near, far = t[hit].min(initial=np.inf), t[hit].max(initial=-np.inf)
        return cls(kind, hit.size, int(np.count_nonzero(hit)), owners, float(near), float(far))

    def with_those(self, other: HitSummary) -> HitSummary:
        """Return that of the hits of both."""
        return HitSummary(
            self.kind,
            self.rays + other.rays,
            self.hits + other.hits,
            None if self.owners is None or other.owners is None else self.owners | other.owners,
            min(self.near, other.near),
            max(self.far, other.far),
        )

    def __repr__(self) -> str:
        owners = "" if self.owners is None else f" {number_of(len(self.owners), 'instances')}"
        reach = f"{owners}, t {self.near:.6g} to {self.far:.6g}" if self.hits else ""
        return f"{self.kind}({self.hits} of {number_of(self.rays, 'rays')} hit{reach})"


def _summary(client: Any, hits: Any) -> HitSummary:
    """Compute what is printed of a lazy result."""
    import dask.array as da
    from distributed import futures_of

    columns = [getattr(hits, k) for k in ("t", "prim_id", "instance_id") if hasattr(hits, k)]
    kind = type(hits).__name__
    ones = tuple((1,) * count for count in columns[0].numblocks)
    meta = np.empty((0,) * columns[0].ndim, object)
    lazy = client.persist(da.map_blocks(_summed, kind, *columns, chunks=ones, meta=meta))
    tasks = futures_of(lazy)
    del lazy
    found: Iterator[HitSummary] = (block.item() for _, block in _completed(tasks, "casting"))
    return reduce(HitSummary.with_those, found)


def _summed(kind: str, *columns: NDArray[Any]) -> NDArray[Any]:
    """Return the summary of a chunk, as an array of one object."""
    block = np.empty((1,) * columns[0].ndim, object)
    block.flat[0] = HitSummary.of(kind, columns)
    return block


def _received(client: Any, hits: Any) -> Any:
    """Compute a lazy result; return one of flat arrays, in the order of the rays."""
    from dask.array.core import slices_from_chunks
    from dask.core import flatten
    from distributed import futures_of

    names = [field.name for field in fields(hits)]
    # Together, so that fields share their tasks.
    lazy = client.persist([getattr(hits, name) for name in names])
    columns = [np.empty(array.shape, array.dtype) for array in lazy]
    places = {
        key: column[where]
        for array, column in zip(lazy, columns, strict=True)
        for key, where in zip(
            flatten(array.__dask_keys__()), slices_from_chunks(array.chunks), strict=True
        )
    }
    tasks = futures_of(lazy)
    # Workers forget what has been fetched.
    del lazy
    for key, found in _completed(tasks, "casting"):
        places[key][...] = found
    return type(hits)(**{n: c.reshape(-1) for n, c in zip(names, columns, strict=True)})


def _completed(tasks: list[Any], text: str) -> Iterator[tuple[Any, Any]]:
    """Yield the keys and results of tasks as they are completed, and forget them."""
    from distributed import as_completed

    with bar(text) as progress:
        total, ready = len(tasks), as_completed(tasks, with_results=True)
        tasks.clear()
        for done, (task, found) in enumerate(ready, 1):
            # Raised for other errors, but not for this one.
            if isinstance(found, CancelledError):
                raise found
            yield task.key, found
            progress(done, total)
