"""Task of meshes larger than memory: partitioned, then rays cast at their parts.

The mesh is a terrain in square tiles, generated one at a time. Rays look down at a slant, each over
one tile and its neighbours; those over the middle tile are cast at one tree of them as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh

from ..processes import Row
from .builds import peak
from .task import Setting

TRIANGLES, RAYS, MEMORY = 1_000_000, 1_000_000, "800MB"
# Cells along a side of a tile, and rays that are made at a time.
CELLS, TOGETHER = 256, 1 << 20
# Heights are below this, in cells.
HIGHEST = 12.0

Mesh = tuple[NDArray[np.float64], NDArray[np.int64]]


def tile(row: int, column: int, cells: int) -> Mesh:
    """Return a tile of the terrain; those beside each other share their border."""
    y, x = np.mgrid[: cells + 1, : cells + 1] + np.array([row, column])[:, None, None] * cells
    z = 6.0 + 3.0 * np.sin(0.05 * x) * np.cos(0.07 * y) + 2.0 * np.sin(0.9 * x + 1.3 * y)
    corner = np.arange((cells + 1) * cells).reshape(cells, cells + 1)[:, :-1].reshape(-1, 1)
    faces = corner + np.array([[0, 1, cells + 2, 0, cells + 2, cells + 1]])
    return np.stack([x, y, z], axis=-1).reshape(-1, 3), faces.reshape(-1, 3)


def rays(number: int, count: int, width: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a batch of rays from above; none moves by more than 24 cells to the ground."""
    rng = np.random.default_rng(number)
    origins = np.full((count, 3), HIGHEST)
    origins[:, :2] = rng.uniform(0.0, width, (count, 2))
    directions = np.full((count, 3), -1.0)
    directions[:, :2] = rng.uniform(-1.4, 1.4, (count, 2))
    return origins, directions


def parts(setting: Setting) -> Iterator[Row]:
    """Yield the time of each stage, and the peak of memory."""
    options, quick = setting.options, setting.options["quick"]
    cells = 32 if quick else CELLS
    wanted, count = options["triangles"] or TRIANGLES, options["rays"] or RAYS
    side = max(1, round((wanted / (2 * cells * cells)) ** 0.5))
    tiles, seconds = list(product(range(side), repeat=2)), {}
    with TemporaryDirectory() as folder:
        # Kernels are compiled, or loaded, before the clock starts.
        small = bvh.partition([tile(0, 0, 2)], f"{folder}/small", threads=setting.threads)
        small.closest_hit(*rays(0, 1 << 12, 2.0), threads=setting.threads)
        folder = f"{folder}/parts"
        began = time.perf_counter()
        for at in tiles:
            tile(*at, cells)
        seconds["generating"] = time.perf_counter() - began
        began = time.perf_counter()
        whole = bvh.partition(
            (tile(*at, cells) for at in tiles), folder, memory="64MB" if quick else MEMORY,
            threads=setting.threads,
        )  # fmt: skip
        seconds["partition"] = time.perf_counter() - began
        began, casting, hits = time.perf_counter(), 0.0, 0
        for number, first in enumerate(range(0, count, TOGETHER)):
            batch = rays(number, min(TOGETHER, count - first), float(side * cells))
            begun = time.perf_counter()
            found = whole.closest_hit(*batch, threads=setting.threads)
            casting += time.perf_counter() - begun
            hits += int(found.mask.sum())
            if number == 0:
                checked = batch, found
        seconds["rays"] = casting
        high = peak()
        sample = compare(*checked, side, cells)
    triangles = len(tiles) * 2 * cells * cells
    row: Row = {"mesh": "terrain", "triangles": triangles, "table": "a mesh in parts"}
    yield {
        **row, "what": f"{whole.part_count} parts", "unit": "ray", "count": count,
        "parts": {
            **{f"{name} s": spent for name, spent in seconds.items()},
            "Mray": 1e-6 * count, "us/triangle": 1e6 * seconds["partition"] / triangles,
            "us/ray": 1e6 * casting / count, "GB": 1e-9 * whole.nbytes, "peak GiB": high / 2**30,
            "hits": hits, "compared": sample,
        },
    }  # fmt: skip


def compare(batch: Any, found: Any, side: int, cells: int) -> int:
    """Compare rays over the middle tile with one tree of it and its neighbours; return how many."""
    middle = side // 2
    near = [(r, c) for r, c in product(range(side), repeat=2)
            if max(abs(r - middle), abs(c - middle)) < 2]  # fmt: skip
    meshes = [tile(*at, cells) for at in near]
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in meshes[:-1])])
    faces = np.concatenate([f + start for (_, f), start in zip(meshes, starts, strict=True)])
    tree = bvh.BVH.from_triangles(np.concatenate([vertices for vertices, _ in meshes]), faces)
    over = (batch[0][:, :2] // cells == middle).all(axis=1)
    right = tree.closest_hit(*(array[over] for array in batch))
    # Ids of the tree are those of the terrain, as far as it has its tiles.
    each = 2 * cells * cells
    firsts = np.array([(r * side + c) * each for r, c in near])
    ids = np.where(right.mask, firsts[right.prim_id // each] + right.prim_id % each, -1)
    same = ids == found.prim_id[over]
    for name in ("t", "u", "v", "front"):
        same &= np.equal(*(getattr(hits, name) for hits in (right, found[over]))) | ~right.mask
    if not same.all() or not len(same):
        raise SystemExit(f"wrong answer: {np.count_nonzero(~same)} of {len(same)} rays at parts")
    return len(same)
