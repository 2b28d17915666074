"""Saved trees to spoil: small ones of every kind, and files signed anew after a change."""

from __future__ import annotations

import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from bvh import BVH
from bvh.io.container import DIGEST_SIZE, HEADER_SIZE, digest_of, end_of, padded
from bvh.io.file_formats import TreeHeader, entries_of, packed, unpacked
from bvh.runtime.arguments import kernel_input
from bvh.runtime.simd import WIDTH
from bvh.tree.triangle_groups import GROUP_SIZE, pack_triangles
from bvh.tree.wide_nodes import CODES, NODE_SIZE

Rng = np.random.Generator
KINDS = ("triangles", "boxes", "obbs")


def tree_of(kind: str, rng: Rng, n: int = 200, quality: str = "medium") -> BVH:
    """Return a tree of random primitives, some of them ignored."""
    if kind == "triangles":
        points = rng.random((n, 1, 3)) + 0.2 * rng.random((n, 3, 3))
        points[3:6, 0, 0] = np.nan
        faces = np.arange(3 * n).reshape(-1, 3)
        return BVH.from_triangles(points.reshape(-1, 3), faces, quality=quality)
    lower = rng.random((n, 3))
    upper = lower + 0.2 * rng.random((n, 3))
    upper[3:6, 0] = np.nan
    if kind == "boxes":
        return BVH.from_boxes(lower, upper, quality=quality)
    matrices = np.tile(np.eye(4), (n, 1, 1))
    matrices[:, :3] += 0.2 * rng.normal(size=(n, 3, 4))
    return BVH.from_obbs(lower, upper, matrices, quality=quality)


def bytes_of(tree: BVH) -> bytes:
    """Return the file of a tree."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tree.bvh"
        tree.save(path)
        return path.read_bytes()


class Parts:
    """A saved tree taken apart: its header, and its arrays, to be changed."""

    def __init__(self, data: bytes) -> None:
        self.header = unpacked(data[:HEADER_SIZE], len(data))
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        for entry in entries_of(self.header):
            part = data[entry.offset : entry.offset + entry.size]
            array = np.frombuffer(bytearray(part), entry.dtype)
            self.arrays[entry.name] = array.reshape(-1, entry.columns) if entry.columns else array

    def joined(self, **changes: Any) -> bytes:
        """Return a file of the arrays, cut or padded to fit, with right checksums."""
        header = self.header._replace(**changes)
        blank = header._replace(digests=(b"",) * len(entries_of(header)))
        parts, digests = [], []
        for entry in entries_of(blank):
            given = self.arrays.get(entry.name, np.zeros(0)).tobytes()
            part = given[: entry.size].ljust(entry.size, b"\0")
            digests.append(digest_of(np.frombuffer(part, np.uint8), 1))
            parts.append(part.ljust(padded(entry.size), b"\0"))
        return b"".join([packed(header._replace(digests=tuple(digests))), *parts])

    @property
    def codes(self) -> np.ndarray[Any, Any]:
        """The child codes, (nodes, lanes), to be changed in entry."""
        return self.arrays["blocks"].view(np.int32).reshape(-1, NODE_SIZE // WIDTH, WIDTH)[:, CODES]

    @property
    def rows(self) -> np.ndarray[Any, Any]:
        """Rows that end with ids, to be changed in entry: groups, or ids alone."""
        if self.header.kind != "triangles":
            return self.arrays["ids"]
        return self.arrays["groups"].view(np.int32).reshape(-1, GROUP_SIZE)

    @property
    def ids(self) -> np.ndarray[Any, Any]:
        """The ids, (rows, lanes), to be changed in entry."""
        return self.rows[:, -WIDTH:]

    def repack(self) -> None:
        """Make the groups fit the vertices again."""
        points, faces, frame = (
            kernel_input(self.arrays[name]) for name in ("points", "faces", "frame")
        )
        groups = np.empty_like(self.arrays["groups"])
        rows = kernel_input(self.rows)
        pack_triangles(points, faces, rows, frame, np.int64(0), np.int64(len(rows)), groups)
        self.arrays["groups"] = groups


def signed_header(data: bytearray) -> bytearray:
    """Make the checksum of a file's header right."""
    end = HEADER_SIZE - DIGEST_SIZE
    data[end:HEADER_SIZE] = blake2b(data[:end], digest_size=DIGEST_SIZE).digest()
    return data


def fits(header: TreeHeader, data: bytes) -> bool:
    """Tell whether a file is as long as its header says."""
    return len(data) == end_of(entries_of(header))
