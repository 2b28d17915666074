"""Folders of parts with any assignment of triangles to parts, not only that of `partition`."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import bvh
from bvh.distributed.out_of_core import mesh_windows, partitioning
from bvh.distributed.out_of_core.parts import Parts
from bvh.distributed.part_folder import Source, new_folder


def parts_of(
    folder: Path, vertices: NDArray[Any], faces: NDArray[Any], part: NDArray[np.int64],
    memory: int | str = "2GB", groups: NDArray[Any] | None = None,
) -> Parts:  # fmt: skip
    """Write the part that each face is assigned to as a tree of its own; open all as one."""
    with new_folder(folder) as target:
        records = []
        for number in np.unique(part):
            ids = np.flatnonzero(part == number)
            bits = None if groups is None else groups[ids]
            tree = bvh.BVH.from_triangles(vertices, faces[ids], groups=bits)
            records.append(target.add(len(records), tree, ids))
        target.publish(records, [Source("mesh", 0, len(faces))], "medium")
    return Parts(folder, memory=memory)


def cut_parts(
    folder: Path, vertices: NDArray[Any], faces: NDArray[Any], largest: int,
    memory: int | str = "2GB", groups: NDArray[Any] | None = None,
) -> Parts:  # fmt: skip
    """Cut a mesh by `bvh.partition` into parts of at most `largest` triangles, in small windows."""
    small = partitioning.SMALLEST_MEMORY
    with (
        mock.patch.object(partitioning, "BUILD_BYTES", small / largest),
        mock.patch.object(partitioning, "WINDOW", 50),
        mock.patch.object(mesh_windows, "WINDOW", 50),
    ):
        bvh.partition((vertices, faces), folder, groups=groups, memory=small)
    return Parts(folder, memory=memory)


WAYS = ("at random", "by ids", "by an axis", "by partition")


def random_parts(
    folder: Path, vertices: NDArray[Any], faces: NDArray[Any], rng: np.random.Generator,
    memory: int | str = "2GB", way: str | None = None, groups: NDArray[Any] | None = None,
) -> Parts:  # fmt: skip
    """Cut a mesh into 1 to 64 parts in one of `WAYS`; few parts are as likely as many."""
    count = int(2.0 ** rng.uniform(0.0, np.log2(65.0)))
    way = str(rng.choice(WAYS)) if way is None else way
    if way == "by partition":
        largest = max(-(-len(faces) // count), 1)
        return cut_parts(folder, vertices, faces, largest, memory, groups)
    if way == "at random":
        part = rng.integers(0, count, len(faces))
    elif way == "by ids":
        part = np.sort(rng.integers(0, count, len(faces)))
    else:
        with np.errstate(all="ignore"):
            middles = vertices[faces].mean(axis=1)[:, rng.integers(3)]
        part = np.argsort(np.argsort(middles)) * count // max(len(faces), 1)
    return parts_of(folder, vertices, faces, part, memory, groups)


def open_some(parts: Parts, rng: np.random.Generator) -> None:
    """Open none of the parts, half of them or all, in any order."""
    count = round(parts.part_count * rng.choice([0.0, 0.5, 1.0]))
    for number in rng.permutation(parts.part_count)[:count].tolist():
        parts.opened.part(number)
