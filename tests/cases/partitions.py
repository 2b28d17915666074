"""Folders of parts with any assignment of triangles to parts, not only that of `partition`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh
from bvh.distributed.out_of_core.part_folder import Source, new_folder
from bvh.distributed.out_of_core.parts import Parts


def parts_of(
    folder: Path, vertices: NDArray[Any], faces: NDArray[Any], part: NDArray[np.int64],
    memory: int | str = "2GB",
) -> Parts:  # fmt: skip
    """Write the part that each face is assigned to as a tree of its own; open all as one."""
    with new_folder(folder) as target:
        records = []
        for number in np.unique(part):
            ids = np.flatnonzero(part == number)
            tree = bvh.BVH.from_triangles(vertices, faces[ids])
            records.append(target.add(len(records), tree, ids))
        target.publish(records, [Source("mesh", 0, len(faces))])
    return Parts(folder, memory=memory)


def random_parts(
    folder: Path, vertices: NDArray[Any], faces: NDArray[Any], rng: np.random.Generator,
    memory: int | str = "2GB",
) -> Parts:  # fmt: skip
    """Cut a mesh into 1 to 64 parts: at random, in stretches of ids, or by an axis."""
    count = int(rng.integers(1, 65))
    kind = rng.integers(3)
    if kind == 0:
        part = rng.integers(0, count, len(faces))
    elif kind == 1:
        part = np.sort(rng.integers(0, count, len(faces)))
    else:
        with np.errstate(all="ignore"):
            middles = vertices[faces].mean(axis=1)[:, rng.integers(3)]
        part = np.argsort(np.argsort(middles)) * count // max(len(faces), 1)
    return parts_of(folder, vertices, faces, part, memory)
