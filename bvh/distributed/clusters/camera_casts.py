"""Rays of a camera or a file, cast on a cluster: their hits, or a summary of these.

Rays of a camera are made where they are cast; those of a file are sent in chunks, once.
"""

from __future__ import annotations

import math
import time
from dataclasses import fields
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.distributed.clusters.connection import ShownBar, completed, task_size
from bvh.distributed.merging import Column
from bvh.distributed.out_of_core.parts import Parts
from bvh.distributed.ray_sources import camera_rays
from bvh.queries.hierarchy import BVH
from bvh.queries.results import Hits
from bvh.runtime.arguments import number_of
from bvh.scene.scene import Scene

if TYPE_CHECKING:
    from dask.array import Array
    from distributed import Client


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


def cast_on(
    client: Client, source: BVH | Scene | Parts, rays: Camera | NDArray[np.float64], keep: bool,
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
    for key, found in completed(tasks, "casting", shown):
        places[key][...] = found
    return type(hits)(**{n: c.reshape(-1) for n, c in zip(names, columns, strict=True)})
